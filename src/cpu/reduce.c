/* Reductions in a nest.
 *
 *   along the vector dim     one vector accumulator a result, combined across its lanes after the loop
 *   along an outer dim       the result's tile is the accumulator: its first iteration writes, the others combine
 *   along a dim of size 1    the value itself
 *
 * A body of one known operation starts from its identity. Any other elementwise body that commutes (argmax: value and
 * index) runs on vectors as well, its first vector being the start. A body that does not commute combines the lanes of
 * each vector in order, neighbours first, and then with what came before:
 *
 *     a b c d   ->   ab . cd .   ->   abcd . . .        acc = acc(abcd)
 *
 * Bodies with control flow go lane by lane.
 */
#include "cpu/nest.h"

#include <math.h>

static int64_t lowest(Dtype d) {
  if (!dtype_is_signed(d)) return 0;
  return dtype_bits(d) == 64 ? INT64_MIN : -((int64_t)1 << (dtype_bits(d) - 1));
}
static int64_t highest(Dtype d) {
  int bits = dtype_bits(d);
  if (dtype_is_signed(d)) return bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
  return bits == 64 ? -1 : ((int64_t)1 << bits) - 1;
}

/* The identity of a known operation, or NULL. */
static const char *identity_of(Emit *e, const Op *f, Dtype d) {
  if (!f) return NULL;
  bool floats = dtype_is_float(d);
  switch (f->code) {
    case OP_ADD: return d == DT_I1 ? "0" : emit_literal(e, held_dtype(d), 0, floats ? -0.0 : 0);
    case OP_MUL: return emit_literal(e, held_dtype(d), 1, 1);
    case OP_MAX: return floats ? emit_literal(e, held_dtype(d), 0, -INFINITY) : emit_literal(e, d, lowest(d), 0);
    case OP_MIN: return floats ? emit_literal(e, held_dtype(d), 0, INFINITY) : emit_literal(e, d, highest(d), 0);
    case OP_AND: return emit_literal(e, d, d == DT_I1 ? 1 : -1, 0);
    case OP_OR:
    case OP_XOR: return emit_literal(e, d, 0, 0);
    default: return NULL;
  }
}

/* nereid_vec.h's reduction over the lanes, where it rounds as the operation does. */
static const char *lanes_function(const Op *f, Dtype d) {
  if (d == DT_I1) return NULL;
  bool floats = dtype_is_float(d);
  switch (f->code) { /* of narrow floats, only sums are not exact; they are kept wide */
    case OP_ADD: return "sum";
    case OP_MAX: return floats && f->nan ? NULL : "hmax";
    case OP_MIN: return floats && f->nan ? NULL : "hmin";
    default: return NULL;
  }
}

/* Whether several accumulators may share the work of a reduction along the vector dim. */
bool reduce_splits(Emit *e, const Op *op) {
  return identity_of(e, simple_body(op), type_dtype(op->in[0]->type)) != NULL;
}

static const char *held_name(Dtype d) { return dtype_name(held_dtype(d)); }
static const char *lane_name(Dtype d) { return d == DT_I1 ? "i32" : held_name(d); } /* masks are i32v */

/* Text of the combine function at an indentation, into b; acc and x are names, new values come in out. */
static void combine(Nest *n, Buf *b, int level, const Op *op, const char *const *acc, const char *const *x, bool vector,
                    bool from_identity, const char **out) {
  Emit *e = n->e;
  const char **args = NEW_N(e->arena, const char *, 2 * op->in_count);
  for (int k = 0; k < op->in_count; k++) args[k] = acc[k], args[op->in_count + k] = x[k];
  if (reduces_wide(op)) {
    out[0] = emit_text(e, "%s + %s", acc[0], x[0]);
    return;
  }
  const Op *f = simple_body(op);
  Dtype d = held_dtype(type_dtype(op->in[0]->type));
  if (vector && from_identity && f && (f->code == OP_MAX || f->code == OP_MIN) && dtype_is_float(d) && !f->nan) {
    /* The accumulator began as an infinity and is no NaN. */
    out[0] = emit_text(e, "nd_%s_%sv(%s, %s)", f->code == OP_MAX ? "grow" : "shrink", dtype_name(d), acc[0], x[0]);
    return;
  }
  if (vector && f) { /* one operation */
    const char *in[2] = {f->in[0] == op->body[0]->args[0] ? acc[0] : x[0],
                         f->in[1] == op->body[0]->args[1] ? x[0] : acc[0]};
    out[0] = element_text(e, f, in, true);
    return;
  }
  Buf *saved = e->out;
  int indent = e->indent;
  e->out = b;
  e->indent = indent + 1 + level;
  if (vector) emit_vector_body(e, op->body[0], args, out);
  else emit_body(e, op->body[0], args, out);
  e->out = saved;
  e->indent = indent;
}

enum { MAX_PARTS = 16 };

static void assign_all(Nest *n, Buf *b, int level, int k, const char *const *to, const char *const *from) {
  for (int i = 0; i < k; i++) nest_put(n, b, level, "%s = %s;", to[i], from[i]);
}

/* to = body(left, right) on vectors. */
static void combine_into(Nest *n, Buf *b, int level, const Op *op, const char *const *to, const char *const *left,
                         const char *const *right) {
  const char *out[MAX_PARTS] = {0}, *next[MAX_PARTS] = {0};
  combine(n, b, level, op, left, right, true, false, out);
  for (int k = 0; k < op->in_count; k++) {
    next[k] = fresh_name(n->e, NULL);
    nest_put(n, b, level, "const nd_%sv %s = %s;", held_name(type_dtype(op->in[k]->type)), next[k], out[k]);
  }
  assign_all(n, b, level, op->in_count, to, next);
}

/* The result of a reduction along the vector dim: a scalar, or an element of the kept tile. */
static void write_result(Nest *n, const Op *op, int k, const int8_t *map, const char *value) {
  Emit *e = n->e;
  Value *v = op->out[k];
  Buf *b = &n->after[n->loops];
  if (reduces_wide(op)) value = emit_text(e, "nd_cvt_%s_f32(%s)", dtype_name(v->type->dtype), value);
  if (v->type->rank == 0) {
    nest_put(n, b, n->loops, "%s = %s;", value_name(e, v), value);
    return;
  }
  const char *base;
  int level;
  int64_t step;
  view_address(n, ((OpPlan *)op->note)->out[k], v->type, map, &base, &level, &step);
  nest_put(n, b, n->loops, "nd_store_%s((void *)(%s), %s);", dtype_name(type_dtype(v->type)), base, value);
}

static const char *in_lane(Dtype d, const char *vector) { return d == DT_I1 ? "i1" : vector; }

/* A body that does not commute. */
static void along_vector_in_order(Nest *n, FusionRoot *r, const NestText *const *x, const int8_t *map) {
  Emit *e = n->e;
  Op *op = r->op;
  int parts = op->in_count, outer = n->loops, level = n->vector_level;
  const char *acc[MAX_PARTS] = {0}, *now[MAX_PARTS] = {0}, *other[MAX_PARTS] = {0};
  const char *iv = index_name(n, n->vector_dim);
  Dtype d[MAX_PARTS] = {0};
  Buf *b = &n->sinks;
  for (int k = 0; k < parts; k++) {
    d[k] = type_dtype(op->in[k]->type);
    acc[k] = emit_text(e, "r%d_%d", op->out[0]->id, k), now[k] = fresh_name(e, NULL);
    if (n->pass == 0) nest_put(n, &n->at[outer], outer, "nd_%sv %s = {0};", held_name(d[k]), acc[k]);
    nest_put(n, b, level, "nd_%sv %s = %s;", held_name(d[k]), now[k], as_vector(n, x[k]));
  }
  nest_put(n, b, level, "for (int k = 1; k < ND_VL && k < %lld; k *= 2) {", (long long)n->width);
  for (int k = 0; k < parts; k++) {
    other[k] = fresh_name(e, NULL);
    nest_put(n, b, level + 1, "const nd_%sv %s = nd_down_lanes_%sv(%s, k, 0);", held_name(d[k]), other[k],
             in_lane(d[k], held_name(d[k])), now[k]);
  }
  combine_into(n, b, level + 1, op, now, now, other);
  nest_put(n, b, level, "}");
  nest_put(n, b, level, "if (%s == 0) {", iv);
  assign_all(n, b, level + 1, parts, acc, now);
  nest_put(n, b, level, "} else {");
  combine_into(n, b, level + 1, op, acc, acc, now);
  nest_put(n, b, level, "}");
  for (int k = 0; n->pass == 0 && k < parts; k++)
    write_result(n, op, k, map, emit_text(e, "%s%s[0]", d[k] == DT_I1 ? "-" : "", acc[k]));
}

/* Bodies that are not elementwise: scalars, a lane at a time. */
static void along_lanes(Nest *n, Op *op, const NestText *const *x, const int8_t *map) {
  Emit *e = n->e;
  int parts = op->in_count, outer = n->loops, level = n->vector_level;
  Dtype d[MAX_PARTS] = {0};
  const char *acc[MAX_PARTS] = {0}, *in[MAX_PARTS] = {0}, *out[MAX_PARTS] = {0};
  for (int k = 0; k < parts; k++) d[k] = type_dtype(op->in[k]->type);
  const char *iv = index_name(n, n->vector_dim), *width = emit_text(e, "%lld", (long long)n->width);
  Buf *b = &n->sinks;
  for (int k = 0; k < parts; k++) {
    acc[k] = emit_text(e, "r%d_%d", op->out[0]->id, k);
    if (n->pass == 0) nest_put(n, &n->at[outer], outer, "nd_%s %s = 0;", held_name(d[k]), acc[k]);
  }
  for (int k = 0; k < parts; k++) {
    const char *all = fresh_name(e, NULL);
    nest_put(n, b, level, "const nd_%sv %s = %s;", held_name(d[k]), all, as_vector(n, x[k]));
    in[k] = emit_text(e, "%s%s[j]", d[k] == DT_I1 ? "-" : "", all);
  }
  nest_put(n, b, level, "for (int j = 0; j < ND_VL && %s + j < %s; j++) {", iv, width);
  nest_put(n, b, level + 1, "if (%s + j == 0) {", iv);
  assign_all(n, b, level + 2, parts, acc, in);
  nest_put(n, b, level + 1, "} else {");
  const char *lane[MAX_PARTS] = {0};
  for (int k = 0; k < parts; k++) {
    lane[k] = fresh_name(e, NULL);
    nest_put(n, b, level + 2, "const nd_%s %s = %s;", held_name(d[k]), lane[k], in[k]);
  }
  combine(n, b, level + 2, op, acc, lane, false, false, out);
  assign_all(n, b, level + 2, parts, acc, out);
  nest_put(n, b, level + 1, "}");
  nest_put(n, b, level, "}");
  if (n->pass == 0)
    for (int k = 0; k < parts; k++) write_result(n, op, k, map, acc[k]);
}

/* After the loop: a short dim's own lanes, as scalars. */
static void across_few_lanes(Nest *n, Op *op, const int8_t *map, const char *const *acc) {
  Emit *e = n->e;
  int parts = op->in_count, outer = n->loops;
  Buf *after = &n->after[outer];
  const char *out[MAX_PARTS] = {0}, *width = emit_text(e, "%lld", (long long)n->width);
  Dtype d[MAX_PARTS] = {0};
  for (int k = 0; k < parts; k++) d[k] = type_dtype(op->in[k]->type);
  const char *sum[MAX_PARTS] = {0}, *lane[MAX_PARTS] = {0}, *next[MAX_PARTS] = {0};
  for (int k = 0; k < parts; k++) {
    sum[k] = fresh_name(e, NULL);
    nest_put(n, after, outer, "nd_%s %s = %s%s[0];", held_name(d[k]), sum[k], d[k] == DT_I1 ? "-" : "", acc[k]);
  }
  nest_put(n, after, outer, "for (int j = 1; j < ND_VL && j < %s; j++) {", width);
  for (int k = 0; k < parts; k++) {
    lane[k] = fresh_name(e, NULL);
    nest_put(n, after, outer + 1, "const nd_%s %s = %s%s[j];", held_name(d[k]), lane[k], d[k] == DT_I1 ? "-" : "",
             acc[k]);
  }
  combine(n, after, outer + 1, op, sum, lane, false, false, out);
  for (int k = 0; k < parts; k++) {
    next[k] = fresh_name(e, NULL);
    nest_put(n, after, outer + 1, "const nd_%s %s = %s;", held_name(d[k]), next[k], out[k]);
  }
  assign_all(n, after, outer + 1, parts, sum, next);
  nest_put(n, after, outer, "}");
  for (int k = 0; k < parts; k++) write_result(n, op, k, map, sum[k]);
}

/* After the loop: of the accumulators' lanes one value. */
static void across_lanes(Nest *n, Op *op, const int8_t *map, const char *const *acc, const char *seen) {
  Emit *e = n->e;
  int parts = op->in_count, outer = n->loops;
  const Op *f = simple_body(op);
  Dtype d[MAX_PARTS] = {0};
  for (int k = 0; k < parts; k++) d[k] = type_dtype(op->in[k]->type);
  const char *identity = identity_of(e, f, d[0]);
  Buf *after = &n->after[outer];
  const char *lanes = f && identity ? lanes_function(f, d[0]) : NULL;
  if (lanes) {
    const char *all = emit_text(e, "nd_%s_%sv(%s)", lanes, held_name(d[0]), acc[0]);
    write_result(n, op, 0, map,
                 seen ? emit_text(e, "nd_any(%s) ? %s : %s", seen, all, emit_literal(e, held_dtype(d[0]), 0, NAN))
                      : all);
    return;
  }
  if (n->width >= 16 || identity) {
    nest_put(n, after, outer, "for (int k = ND_VL / 2; k > 0; k /= 2) {");
    const char *other[MAX_PARTS] = {0};
    for (int k = 0; k < parts; k++) {
      other[k] = fresh_name(e, NULL);
      nest_put(n, after, outer + 1, "const nd_%sv %s = nd_xor_lanes_%sv(%s, k);", held_name(d[k]), other[k],
               lane_name(d[k]), acc[k]);
    }
    combine_into(n, after, outer + 1, op, acc, acc, other);
    nest_put(n, after, outer, "}");
    for (int k = 0; k < parts; k++)
      write_result(n, op, k, map, emit_text(e, "%s%s[0]", d[k] == DT_I1 ? "-" : "", acc[k]));
    return;
  }
  across_few_lanes(n, op, map, acc);
}

/* A copy of the body has an accumulator of its own, which is added to the first at the end. */
static void along_copy(Nest *n, Op *op, const char *value, const char *identity) {
  Emit *e = n->e;
  int outer = n->loops, level = n->vector_level;
  Dtype d = type_dtype(op->in[0]->type);
  const char *own = emit_text(e, "r%d_0_%d", op->out[0]->id, n->copy), *first = emit_text(e, "r%d_0", op->out[0]->id);
  const char *out[MAX_PARTS] = {0};
  nest_put(n, &n->at[outer], outer, "nd_%sv %s = %s;", held_name(d), own, splat_text(e, d, identity));
  combine(n, &n->sinks, level, op, &own, &value, true, true, out);
  assign_all(n, &n->sinks, level, 1, &own, out);
  combine(n, &n->merge, outer, op, &first, &own, true, true, out);
  assign_all(n, &n->merge, outer, 1, &first, out);
}

static void along_vector(Nest *n, FusionRoot *r, const NestText *const *x, const int8_t *map) {
  Emit *e = n->e;
  Op *op = r->op;
  int parts = op->in_count, outer = n->loops, level = n->vector_level;
  const Op *f = simple_body(op);
  Dtype d[MAX_PARTS] = {0};
  const char *acc[MAX_PARTS] = {0}, *in[MAX_PARTS] = {0}, *out[MAX_PARTS] = {0};
  for (int k = 0; k < parts; k++) d[k] = type_dtype(op->in[k]->type);
  const char *identity = identity_of(e, f, d[0]);
  bool vectors = body_is_elementwise(op->body[0]);
  const char *iv = index_name(n, n->vector_dim), *width = emit_text(e, "%lld", (long long)n->width);
  Buf *b = &n->sinks;
  if (vectors && !identity && tile_body_order(op) == BODY_ORDERED) {
    along_vector_in_order(n, r, x, map);
    return;
  }
  if (!vectors) {
    along_lanes(n, op, x, map);
    return;
  }
  /* An infinity to begin with hides that nothing but NaN came: lanes that saw a number are marked. */
  bool marks = identity && (f->code == OP_MAX || f->code == OP_MIN) && dtype_is_float(d[0]) && !f->nan;
  const char *seen = emit_text(e, "r%d_seen", op->out[0]->id), *held = held_name(d[0]);
  const char *lanes_there = n->width < 16 ? emit_text(e, "nd_first(%s - %s)", width, iv) : NULL;
  if (marks && n->pass == 0 && n->copy == 0) nest_put(n, &n->at[outer], outer, "nd_mask %s = {0};", seen);
  /* Where no mask holds, what all lanes add is often nothing. */
  if (n->mode == REST && identity && parts == 1 && x[0]->level == 0) {
    const char *zero = emit_literal(e, held_dtype(d[0]), 0, 0);
    if (!strcmp(x[0]->name, identity) || (f->code == OP_ADD && !strcmp(x[0]->name, zero))) {
      if (marks) nest_put(n, b, level, "%s |= %s;", seen, lanes_there ? lanes_there : "nd_first(ND_VL)");
      return;
    }
  }
  const char *marked = NULL;
  if (marks) {
    marked = fresh_name(e, NULL);
    nest_put(n, b, level, "const nd_%sv %s = %s;", held, marked, as_vector(n, x[0]));
    nest_put(n, b, level, lanes_there ? "%s |= nd_eq_%sv(%s, %s) & %s;" : "%s |= nd_eq_%sv(%s, %s);", seen, held,
             marked, marked, lanes_there);
  }
  if (n->copy > 0) {
    along_copy(n, op, marked ? marked : as_vector(n, x[0]), identity);
    return;
  }
  for (int k = 0; k < parts; k++) {
    acc[k] = emit_text(e, "r%d_%d", op->out[0]->id, k);
    in[k] = marked ? marked : as_vector(n, x[k]);
    if (n->pass == 0) {
      quote_source(e, &n->at[outer], e->indent + 1 + outer, op->span);
      nest_put(n, &n->at[outer], outer, "nd_%sv %s = %s;", held_name(d[k]), acc[k],
               identity ? splat_text(e, d[k], identity) : "{0}");
    }
  }
  if (n->width < 16 && identity) /* lanes past the end count for nothing */
    in[0] = emit_text(e, "nd_select_%sv(nd_first(%s - %s), %s, %s)", held_name(d[0]), width, iv, in[0],
                      splat_text(e, d[0], identity));
  if (identity) {
    combine(n, b, level, op, acc, in, true, true, out);
    assign_all(n, b, level, parts, acc, out);
  } else {
    nest_put(n, b, level, "if (%s == 0) {", iv);
    assign_all(n, b, level + 1, parts, acc, in);
    nest_put(n, b, level, "} else {");
    combine_into(n, b, level + 1, op, acc, acc, in);
    nest_put(n, b, level, "}");
  }
  if (n->pass > 0) return;
  across_lanes(n, op, map, acc, marks ? seen : NULL);
}

/* Along a dim that is not the vector's: through the result's tile. */
static void along_outer(Nest *n, FusionRoot *r, const NestText *const *x, const int8_t *map, int axis) {
  Emit *e = n->e;
  Op *op = r->op;
  OpPlan *o = op->note;
  int parts = op->in_count, level = n->vector_level;
  Buf *b = &n->sinks;
  const char *now[MAX_PARTS] = {0}, *in[MAX_PARTS] = {0}, *acc[MAX_PARTS] = {0}, *out[MAX_PARTS] = {0},
             *base[MAX_PARTS] = {0};
  bool vectors = body_is_elementwise(op->body[0]);
  const char *iv = index_name(n, n->vector_dim), *width = emit_text(e, "%lld", (long long)n->width);
  bool loops = n->g->shape[axis] > 1;
  const char *short_mask = n->width < 16 ? emit_text(e, "nd_first(%s - %s)", width, iv) : NULL;
  Dtype d[MAX_PARTS] = {0};
  for (int k = 0; k < parts; k++) {
    d[k] = type_dtype(op->in[k]->type);
    int base_level;
    int64_t step;
    const View *to = o->out[k];
    if (loops && reduces_wide(op)) {
      d[k] = DT_F32;
      to = view_row_major(e, o->carry[k], op->out[k]->type);
      if (n->pass == 0)
        nest_put(n, &n->after[0], 0, "nd_narrow_%s((void *)(scratch + %lld), (float *)(scratch + %lld), %lld);",
                 dtype_name(op->in[k]->type->dtype), (long long)o->out[k]->buffer->place, (long long)o->carry[k]->place,
                 (long long)type_numel(op->out[k]->type));
    }
    view_address(n, to, op->out[k]->type, map, &base[k], &base_level, &step);
    base[k] = emit_text(e, "(void *)(%s + %s * %lld)", base[k], iv, (long long)step);
    in[k] = as_vector(n, x[k]);
    now[k] = fresh_name(e, NULL);
    nest_put(n, b, level, "nd_%sv %s = %s;", held_name(d[k]), now[k], in[k]);
  }
  if (loops) {
    nest_put(n, b, level, "if (%s > 0) {", index_name(n, axis));
    for (int k = 0; k < parts; k++) {
      acc[k] = fresh_name(e, NULL);
      const char *t = dtype_name(d[k]);
      if (short_mask)
        nest_put(n, b, level + 1, "const nd_%sv %s = nd_mload_%sv(%s, %s, %s);", held_name(d[k]), acc[k], t, base[k],
                 short_mask, splat_text(e, d[k], emit_literal(e, d[k], 0, 0)));
      else nest_put(n, b, level + 1, "const nd_%sv %s = nd_load_%sv(%s);", held_name(d[k]), acc[k], t, base[k]);
    }
    if (vectors) {
      combine(n, b, level + 1, op, acc, now, true, false, out);
      const char *next[MAX_PARTS] = {0};
      for (int k = 0; k < parts; k++) {
        next[k] = fresh_name(e, NULL);
        nest_put(n, b, level + 1, "const nd_%sv %s = %s;", held_name(d[k]), next[k], out[k]);
      }
      assign_all(n, b, level + 1, parts, now, next);
    } else {
      const char *l[MAX_PARTS] = {0}, *r2[MAX_PARTS] = {0};
      nest_put(n, b, level + 1, "for (int j = 0; j < ND_VL && %s + j < %s; j++) {", iv, width);
      for (int k = 0; k < parts; k++) {
        const char *sign = d[k] == DT_I1 ? "-" : "";
        l[k] = fresh_name(e, NULL), r2[k] = fresh_name(e, NULL);
        nest_put(n, b, level + 2, "const nd_%s %s = %s%s[j], %s = %s%s[j];", held_name(d[k]), l[k], sign, acc[k], r2[k],
                 sign, now[k]);
      }
      combine(n, b, level + 2, op, l, r2, false, false, out);
      for (int k = 0; k < parts; k++)
        nest_put(n, b, level + 2, "%s[j] = %s%s;", now[k], d[k] == DT_I1 ? "-" : "", out[k]);
      nest_put(n, b, level + 1, "}");
    }
    nest_put(n, b, level, "}");
  }
  for (int k = 0; k < parts; k++) {
    const char *t = dtype_name(d[k]);
    if (short_mask) nest_put(n, b, level, "nd_mstore_%sv(%s, %s, %s);", t, base[k], now[k], short_mask);
    else nest_put(n, b, level, "nd_store_%sv(%s, %s);", t, base[k], now[k]);
  }
}

void reduce_root(Nest *n, FusionRoot *r) {
  Emit *e = n->e;
  Op *op = r->op;
  int axis = (int)op->axis;
  int8_t map[MAX_RANK]; /* of the result's dims */
  for (int k = 0, d = 0; d < MAX_RANK; d++)
    if (d != axis) map[k++] = r->map[d];
  map[MAX_RANK - 1] = -1;
  if (op->in_count > MAX_PARTS)
    diag_fail(e->cx, op->span ? *op->span : (Span){0}, "a reduction of more than %d tensors at once is not supported",
              MAX_PARTS);
  const NestText *x[MAX_PARTS];
  for (int k = 0; k < op->in_count; k++) x[k] = nest_demand(n, op->in[k], r->map);
  if (n->vector_dim < 0) { /* one element */
    for (int k = 0; k < op->in_count; k++) {
      Value *v = op->out[k];
      if (v->type->rank == 0) {
        nest_put(n, &n->sinks, 0, "%s = %s;", value_name(e, v), x[k]->name);
        continue;
      }
      const char *base;
      int level;
      int64_t step;
      view_address(n, ((OpPlan *)op->note)->out[k], v->type, map, &base, &level, &step);
      nest_put(n, &n->sinks, 0, "nd_store_%s((void *)(%s), %s);", dtype_name(type_dtype(v->type)), base, x[k]->name);
    }
    return;
  }
  if (axis == n->vector_dim) along_vector(n, r, x, map);
  else along_outer(n, r, x, map, axis);
}
