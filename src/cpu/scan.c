/* scan: the running result of an associative body along an axis.
 *
 * Three ways. With an elementwise body and another dim after the axis, vectors run along that dim and go down the
 * axis. Along the last dim a vector is scanned in log2 steps, each combining every lane with the one k before it,
 *
 *     a b c d   ->   a ab bc cd   ->   a ab abc abcd
 *
 * and then combined with the last lane of the vector before. All else, and narrow floats (whose rounding depends on the
 * order), goes element by element. `reverse` is the same from the other end.
 */
#include "cpu/library.h"

typedef struct Scan {
  Emit *e;
  Op *op;
  OpPlan *plan;
  int parts;
  bool reverse;
  long long outer, n, inner;
} Scan;

static const char *held(const Value *v) { return dtype_name(held_dtype(kept(v))); }
static const char *lanes_of(const Value *v) { return kept(v) == DT_I1 ? "i1" : held(v); }

/* acc = body(acc, cur), with new names in between. */
static void combine_into(Scan *s, const char *const *to, const char *const *left, const char *const *right,
                         bool vector) {
  const char *args[2 * MAX_PARTS], *out[MAX_PARTS], *next[MAX_PARTS];
  Emit *e = s->e;
  for (int k = 0; k < s->parts; k++) args[k] = left[k], args[s->parts + k] = right[k];
  if (vector) emit_vector_body(e, s->op->body[0], args, out);
  else emit_body(e, s->op->body[0], args, out);
  for (int k = 0; k < s->parts; k++) {
    next[k] = fresh_name(e, NULL);
    emit_line(e, "const nd_%s%s %s = %s;", held(s->op->in[k]), vector ? "v" : "", next[k], out[k]);
  }
  for (int k = 0; k < s->parts; k++) emit_line(e, "%s = %s;", to[k], next[k]);
}

static void by_element(Scan *s) {
  Emit *e = s->e;
  Op *op = s->op;
  const char *acc[MAX_PARTS], *cur[MAX_PARTS];
  open_scope(e, "for (int64_t at = 0; at < %lld; at++)", s->outer * s->inner);
  emit_line(e, "const int64_t first = at / %lld * %lld + at %% %lld;", s->inner, s->inner * s->n, s->inner);
  for (int k = 0; k < s->parts; k++) {
    acc[k] = fresh_name(e, NULL), cur[k] = fresh_name(e, NULL);
    emit_line(e, "nd_%s %s = 0;", held(op->in[k]), acc[k]);
  }
  open_scope(e, "for (int64_t j = 0; j < %lld; j++)", s->n);
  if (s->reverse) emit_line(e, "const int64_t i = first + (%lld - j) * %lld;", s->n - 1, s->inner);
  else emit_line(e, "const int64_t i = first + j * %lld;", s->inner);
  for (int k = 0; k < s->parts; k++)
    emit_line(e, "const nd_%s %s = nd_load_%s(%s);", held(op->in[k]), cur[k], dtype_name(kept(op->in[k])),
              element_at(e, s->plan->in[k], "i"));
  open_scope(e, "if (j == 0)");
  for (int k = 0; k < s->parts; k++) emit_line(e, "%s = %s;", acc[k], cur[k]);
  close_scope(e);
  open_scope(e, "else");
  combine_into(s, acc, acc, cur, false);
  close_scope(e);
  for (int k = 0; k < s->parts; k++)
    emit_line(e, "nd_store_%s(%s, %s);", dtype_name(kept(op->out[k])), element_at(e, s->plan->out[k], "i"), acc[k]);
  close_scope(e);
  close_scope(e);
}

/* Vectors along the dims after the axis. */
static void down_the_axis(Scan *s) {
  Emit *e = s->e;
  Op *op = s->op;
  const char *acc[MAX_PARTS], *cur[MAX_PARTS];
  open_scope(e, "for (int64_t at = 0; at < %lld; at += ND_VL)", s->outer * s->inner);
  emit_line(e, "const int64_t first = at / %lld * %lld + at %% %lld;", s->inner, s->inner * s->n, s->inner);
  for (int k = 0; k < s->parts; k++) {
    acc[k] = fresh_name(e, NULL), cur[k] = fresh_name(e, NULL);
    emit_line(e, "nd_%sv %s = {0};", held(op->in[k]), acc[k]);
  }
  open_scope(e, "for (int64_t j = 0; j < %lld; j++)", s->n);
  if (s->reverse) emit_line(e, "const int64_t i = first + (%lld - j) * %lld;", s->n - 1, s->inner);
  else emit_line(e, "const int64_t i = first + j * %lld;", s->inner);
  for (int k = 0; k < s->parts; k++)
    emit_line(e, "const nd_%sv %s = nd_load_%sv(%s);", held(op->in[k]), cur[k], dtype_name(kept(op->in[k])),
              element_at(e, s->plan->in[k], "i"));
  open_scope(e, "if (j == 0)");
  for (int k = 0; k < s->parts; k++) emit_line(e, "%s = %s;", acc[k], cur[k]);
  close_scope(e);
  open_scope(e, "else");
  combine_into(s, acc, acc, cur, true);
  close_scope(e);
  for (int k = 0; k < s->parts; k++)
    emit_line(e, "nd_store_%sv(%s, %s);", dtype_name(kept(op->out[k])), element_at(e, s->plan->out[k], "i"), acc[k]);
  close_scope(e);
  close_scope(e);
}

static void within_vectors(Scan *s) {
  Emit *e = s->e;
  Op *op = s->op;
  const char *x[MAX_PARTS] = {0}, *carry[MAX_PARTS] = {0}, *other[MAX_PARTS] = {0}, *sum[MAX_PARTS] = {0};
  const char *move = s->reverse ? "down" : "up";
  open_scope(e, "for (int64_t row = 0; row < %lld; row += %lld)", s->outer * s->n, s->n);
  for (int k = 0; k < s->parts; k++) {
    x[k] = fresh_name(e, NULL), carry[k] = fresh_name(e, NULL);
    emit_line(e, "nd_%sv %s = {0};", held(op->in[k]), carry[k]);
  }
  open_scope(e, "for (int64_t j = 0; j < %lld; j += ND_VL)", s->n);
  if (s->reverse) emit_line(e, "const int64_t i = row + %lld - ND_VL - j;", s->n);
  else emit_line(e, "const int64_t i = row + j;");
  for (int k = 0; k < s->parts; k++)
    emit_line(e, "nd_%sv %s = nd_load_%sv(%s);", held(op->in[k]), x[k], dtype_name(kept(op->in[k])),
              element_at(e, s->plan->in[k], "i"));
  for (int by = 1; by <= 8; by *= 2) { /* each a constant, so that lanes move by one instruction */
    open_scope(e, "if (ND_VL > %d)", by);
    emit_line(e, s->reverse ? "const nd_mask has = nd_first(ND_VL - %d);" : "const nd_mask has = ~nd_first(%d);", by);
    for (int k = 0; k < s->parts; k++) {
      other[k] = fresh_name(e, NULL), sum[k] = fresh_name(e, NULL);
      emit_line(e, "const nd_%sv %s = nd_%s_lanes_%sv(%s, %d, 0);", held(op->in[k]), other[k], move,
                lanes_of(op->in[k]), x[k], by);
      emit_line(e, "nd_%sv %s;", held(op->in[k]), sum[k]);
    }
    combine_into(s, sum, other, x, true);
    for (int k = 0; k < s->parts; k++)
      emit_line(e, "%s = nd_select_%sv(has, %s, %s);", x[k], lanes_of(op->in[k]), sum[k], x[k]);
    close_scope(e);
  }
  /* What is carried on waits for the last lane before, and not for all of this vector. */
  const char *last[MAX_PARTS] = {0};
  for (int k = 0; k < s->parts; k++) {
    const char *lane = emit_text(e, s->reverse ? "%s[0]" : "%s[ND_VL - 1]", x[k]);
    last[k] = fresh_name(e, NULL);
    emit_line(e, "nd_%sv %s = nd_splat_%sv(%s%s);", held(op->in[k]), last[k], lanes_of(op->in[k]),
              kept(op->in[k]) == DT_I1 ? "-" : "", lane);
  }
  open_scope(e, "if (j > 0)");
  combine_into(s, x, carry, x, true);
  close_scope(e);
  open_scope(e, "if (j > 0)");
  combine_into(s, last, carry, last, true);
  close_scope(e);
  for (int k = 0; k < s->parts; k++) {
    emit_line(e, "%s = %s;", carry[k], last[k]);
    emit_line(e, "nd_store_%sv(%s, %s);", dtype_name(kept(op->out[k])), element_at(e, s->plan->out[k], "i"), x[k]);
  }
  close_scope(e);
  close_scope(e);
}

void emit_scan(Emit *e, Op *op) {
  const Type *t = op->in[0]->type;
  int axis = (int)op->axis;
  Scan s = {.e = e,
            .op = op,
            .plan = op->note,
            .parts = op->in_count,
            .reverse = op->reverse,
            .outer = 1,
            .inner = 1,
            .n = t->shape[axis]};
  for (int d = 0; d < axis; d++) s.outer *= t->shape[d];
  for (int d = axis + 1; d < t->rank; d++) s.inner *= t->shape[d];
  if (s.parts > MAX_PARTS)
    diag_fail(e->cx, op->span ? *op->span : (Span){0}, "a scan of more than %d tensors at once is not supported",
              MAX_PARTS);
  bool narrow = false;
  for (int k = 0; k < s.parts; k++) narrow |= held_dtype(kept(op->in[k])) != kept(op->in[k]);
  bool vectors = body_is_elementwise(op->body[0]);
  if (vectors && s.inner >= 16) down_the_axis(&s);
  else if (vectors && !narrow && s.inner == 1 && s.n >= 16) within_vectors(&s);
  else by_element(&s);
}
