/* Induction strides: what a scalar gains from one program to the next along x, or from one iteration of a loop to the
 * next.
 *
 * A nest that repeats a load has its data in cache already, so it can bring in what will be loaded next (a prefetch
 * costs an instruction); and a store goes past the caches only where programs do not share lines. Both need the
 * distance, which is linear in the program's id or the loop's variable for nearly every kernel: a derivative, as C
 * text.
 */
#include "cpu/emit.h"

typedef struct StrideSearch {
  Emit *e;
  const Op *loop;
} StrideSearch; /* loop NULL: from program to program */

static const char *value_stride(StrideSearch *g, Value *v, int depth);

static bool is_none(const char *s) { return !strcmp(s, "0"); }

static bool is_outside(const Block *home, const Op *loop) {
  for (; home && home->parent; home = home->parent->block)
    if (home->parent == loop) return false;
  return true;
}

static const char *sum(Emit *e, const char *a, const char *b) {
  return is_none(a) ? b : is_none(b) ? a : emit_text(e, "(%s + %s)", a, b);
}

/* Of an argument of the loop's body: the step, or what its next value adds to it. */
static const char *argument_stride(StrideSearch *g, Value *v) {
  const Op *loop = g->loop;
  Emit *e = g->e;
  if (v->index == 0) return scalar_text(e, loop->in[2]);
  Value *next = v->block->last->in[v->index - 1];
  if (next == v) return "0";
  Op *op = next->def;
  if (!op || (op->code != OP_ADD && op->code != OP_ADDPTR)) return NULL;
  Value *more = op->in[0] == v ? op->in[1] : op->in[1] == v && op->code == OP_ADD ? op->in[0] : NULL;
  if (!more || (more->def && more->def->code != OP_CONST && !is_outside(more->def->block, loop))) return NULL;
  if (more->block && !is_outside(more->block, loop)) return NULL;
  const char *t = scalar_text(e, more);
  if (op->code == OP_ADDPTR)
    t = emit_text(e, "(int64_t)%s * %d", t, v->type->ptr > 1 ? 8 : dtype_bytes(v->type->dtype));
  return t;
}

static const char *value_stride(StrideSearch *g, Value *v, int depth) {
  stack_guard();
  Emit *e = g->e;
  if (depth > 24 || v->type->rank || (!v->type->ptr && dtype_is_float(v->type->dtype))) return NULL;
  if (v->block && g->loop && v->block->parent == g->loop) return argument_stride(g, v);
  if (g->loop && is_outside(v->block ? v->block : v->def->block, g->loop)) return "0";
  if (!v->def) return v->block && !v->block->parent ? "0" : NULL;
  Op *op = v->def;
  const char *a = NULL, *b = NULL;
  switch (op->code) {
    case OP_CONST: return "0";
    case OP_PROGRAM_ID: return op->axis == 0 ? "1" : "0";
    case OP_NUM_PROGRAMS: return "0";
    case OP_CONVERT:
    case OP_HINT: return value_stride(g, op->in[0], depth + 1);
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_ADDPTR:
      a = value_stride(g, op->in[0], depth + 1);
      b = a ? value_stride(g, op->in[1], depth + 1) : NULL;
      break;
    default: return NULL;
  }
  if (!a || !b) return NULL;
  if (op->code == OP_MUL) {
    if (is_none(a) && is_none(b)) return "0";
    if (is_none(a)) return emit_text(e, "%s * (int64_t)%s", b, scalar_text(e, op->in[0]));
    if (is_none(b)) return emit_text(e, "%s * (int64_t)%s", a, scalar_text(e, op->in[1]));
    return NULL;
  }
  if (is_none(b)) return a;
  if (op->code == OP_ADDPTR) b = emit_text(e, "(%s) * %d", b, v->type->ptr > 1 ? 8 : dtype_bytes(v->type->dtype));
  if (op->code == OP_SUB) return emit_text(e, "(%s - (%s))", a, b);
  return sum(e, a, b);
}

static const char *sym_stride(StrideSearch *g, const Sym *s) {
  stack_guard();
  const char *a, *b;
  switch (s->kind) {
    case SYM_CONST: return "0";
    case SYM_VALUE: return value_stride(g, s->value, 0);
    case SYM_ADD:
      a = sym_stride(g, s->l);
      b = a ? sym_stride(g, s->r) : NULL;
      return b ? sum(g->e, a, b) : NULL;
    default:
      a = sym_stride(g, s->l);
      b = a ? sym_stride(g, s->r) : NULL;
      if (!b || !is_none(b)) return NULL;
      if (is_none(a)) return a;
      if (s->r->kind == SYM_CONST) return emit_text(g->e, "(%s) * %lld", a, (long long)s->r->number);
      return s->r->kind == SYM_VALUE ? emit_text(g->e, "(%s) * (int64_t)%s", a, scalar_text(g->e, s->r->value)) : NULL;
  }
}

const char *induction_stride_of(Emit *e, const Sym *s, const Op *loop) {
  StrideSearch g = {e, loop};
  return sym_stride(&g, s);
}
