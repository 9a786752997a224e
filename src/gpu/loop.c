/* What the passes on loops of the tile IR share. */
#include "gpu/loop.h"

bool loop_has_effects(const Block *b) {
  stack_guard();
  for (const Op *op = b->first; op; op = op->next) {
    Effect e = op_info[op->code].effect;
    if (e == EFFECT_WRITE || (e == EFFECT_SIDE && op->code != OP_SCOPE)) return true;
    if (op_is_volatile(op) || op_cache(op) == CACHE_CV) return true;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && loop_has_effects(op->body[i])) return true;
  }
  return false;
}

int loop_uses(const Block *b, const Value *v) {
  stack_guard();
  int n = 0;
  for (const Op *op = b->first; op; op = op->next) {
    for (int i = 0; i < op->in_count; i++) n += op->in[i] == v;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) n += loop_uses(op->body[i], v);
  }
  return n;
}

bool loop_leads_down(const Op *loop) {
  int64_t step;
  return value_is_const(loop->in[2], &step) && step < 0 && dtype_is_signed(loop->in[2]->type->dtype);
}

AxisInfo *loop_constant_axis(Context *cx, const Type *t) {
  AxisInfo *axis = NEW(cx->arena, AxisInfo);
  for (int d = 0; d < MAX_RANK; d++)
    axis->divisible[d] = axis->contiguous[d] = 1, axis->constant[d] = d < t->rank ? t->shape[d] : 1;
  return axis;
}

bool loop_is_zero(const Value *v) {
  while (v->def && (v->def->code == OP_SPLAT || v->def->code == OP_BROADCAST)) v = v->def->in[0];
  return v->def && v->def->code == OP_CONST && v->def->attr[0] == 0 && v->def->number == 0;
}
