/* What operations are, as the planner and those who write their text ask it. */
#include "cpu/emit.h"

DotKind dot_kind(const Op *op) {
  Dtype a = op->in[0]->type->dtype, b = op->in[1]->type->dtype, c = op->in[2]->type->dtype;
  if (a == DT_BF16 && b == DT_BF16 && c == DT_F32) return DOT_BF16;
  if (a == DT_I8 && b == DT_I8 && c == DT_I32) return DOT_I8;
  if (c == DT_F64 || a == DT_F64) return DOT_F64;
  return dtype_is_int(c) ? DOT_I32 : DOT_F32;
}

const Op *simple_body(const Op *op) {
  const Block *b = op->body[0];
  const Op *f = b->first;
  if (op->out_count != 1 || !f || f->next != b->last || b->last->in[0]->def != f || f->in_count != 2) return NULL;
  if (!((f->in[0] == b->args[0] && f->in[1] == b->args[1]) || (f->in[0] == b->args[1] && f->in[1] == b->args[0])))
    return NULL;
  return f;
}

/* Sums of narrow floats are kept in f32 and rounded once. */
bool reduces_wide(const Op *op) {
  const Op *f = simple_body(op);
  Dtype d = op->in[0]->type->dtype;
  return f && f->code == OP_ADD && dtype_is_float(d) && held_dtype(d) != d;
}
