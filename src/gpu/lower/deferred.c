/* Deferred lowering: operations that are lowered not where they stand, but where a product meets shared memory, so
 * that fewer registers are taken.
 *
 * A product's operands go from registers to shared memory, after a barrier, since the iteration before may still read.
 * Two things may wait for that:
 *
 *     next tile     The loads of the next iteration (gpu/prefetch.c) come when this iteration's tiles have been
 *                   written: they take the same registers, and nothing is copied at the iteration's end. Always done.
 *     this tile     Where a thread has not enough registers for the accumulators and both operands, each operand is
 *                   loaded, and what is computed from it, right before it is written. The loads of the second then
 *                   wait after the barrier, so this is done only where registers are short (Lower.register_limited).
 *
 * What moves must be used there alone, must have no effect, and a load must not pass a write to memory.
 */
#include "gpu/lower/lower.h"

LowerDeferred *lower_deferred_create(Lower *l, int values) { return NEW_N(l->cx->arena, LowerDeferred, values); }

bool lower_is_deferred(const Lower *l, const Value *v) { return l->deferred[v->id].dot != NULL; }

bool lower_defers(const Lower *l, const Op *op) { return op->out_count > 0 && lower_is_deferred(l, op->out[0]); }

bool lower_can_wait(const Op *op, const Op *until) {
  if (op->out_count != 1 || !op->out[0]->type->rank || op->body[0] || op->block != until->block) return false;
  Effect e = op_info[op->code].effect;
  if (op->code == OP_DOT || op->code == OP_SCAN || op->code == OP_CONVERT_LAYOUT ||
      (e != EFFECT_PURE && e != EFFECT_READ))
    return false;
  if (op_is_volatile(op)) return false;
  for (const Op *o = op; o && o != until; o = o->next) {
    Effect passed = op_info[o->code].effect;
    if (e == EFFECT_READ && passed != EFFECT_PURE && passed != EFFECT_READ) return false;
    if (o->next == NULL) return false; /* `until` stands before it */
  }
  return true;
}

/* ---- this tile --------------------------------------------------------------------------------------------------- */

static int uses_in(const Op *op, const Value *v) {
  int n = 0;
  for (int i = 0; i < op->in_count; i++) n += op->in[i] == v;
  return n;
}

int lower_product_uses(const Op *from, const Value *v) {
  int n = 0;
  for (const Op *op = from; op; op = op->next)
    if (op->code == OP_DOT) n += (op->in[0] == v) + (op->in[1] == v);
  return n;
}

/* Those of tensor cores take a tensor and its transpose from one image: what is transposed for them alone counts, too.
 */
static int product_uses(const Lower *l, const Op *from, const Value *v) {
  int n = lower_product_uses(from, v);
  if (!layout_dot_is_mma(from)) return n;
  for (const Op *op = from->block->first; op; op = op->next)
    if (op->code == OP_TRANS && op->in[0] == v && lower_product_uses(from, op->out[0]) == l->uses[op->out[0]->id]) n++;
  return n;
}

static void defer(Lower *l, const Op *dot, DeferredWhere where, const Value *v, int uses) {
  stack_guard();
  const Op *op = v->def;
  if (!op || lower_is_deferred(l, v) || l->uses[v->id] != uses || !lower_can_wait(op, dot)) return;
  l->deferred[v->id] = (LowerDeferred){dot, where};
  for (int i = 0; i < op->in_count; i++)
    defer(l, dot, where, op->in[i],
          op->code == OP_TRANS && layout_dot_is_mma(dot) ? product_uses(l, dot, op->in[i]) : uses_in(op, op->in[i]));
}

/* ---- next tile --------------------------------------------------------------------------------------------------- */

/* The last product of the block that takes v; NULL when anything else does. */
static const Op *last_product(const Lower *l, const Block *block, const Value *v) {
  stack_guard();
  const Op *last = NULL;
  int n = 0;
  for (const Op *op = block->first; op; op = op->next) {
    int uses = uses_in(op, v);
    if (!uses) continue;
    if (op->code == OP_DOT && op->in[2] != v) last = op;
    else if (op->out_count == 1 && !op->body[0] && op_info[op->code].effect == EFFECT_PURE &&
             l->uses[op->out[0]->id] > 0) {
      const Op *of = last_product(l, block, op->out[0]); /* converted, say */
      if (!of) return NULL;
      last = of;
    } else return NULL;
    n += uses;
  }
  return n == l->uses[v->id] ? last : NULL;
}

static void defer_next(Lower *l, const Block *block) {
  const Op *end = block->last;
  if (!block->parent || block->parent->code != OP_FOR || !end || end->code != OP_YIELD) return;
  for (int i = 0; i < end->in_count; i++) {
    const Value *next = end->in[i];
    const Op *op = next->def;
    if (!op || op->code != OP_LOAD || op->block != block || l->uses[next->id] != 1) continue;
    const Op *dot = last_product(l, block, block->args[i + 1]);
    if (dot && lower_can_wait(op, dot)) l->deferred[next->id] = (LowerDeferred){dot, DEFERRED_AFTER};
  }
}

/* ---- in the walk ------------------------------------------------------------------------------------------------- */

void lower_given(Lower *l, const Value *v, LaneValue **regs) {
  lower_set(l, v, regs);
  l->deferred[v->id] = (LowerDeferred){v->def, DEFERRED_GIVEN};
}

void lower_plan_deferred(Lower *l, const Block *block) {
  if (l->divergent) return;
  bool any = false;
  for (const Op *op = block->first; op; op = op->next) {
    if (op->code != OP_DOT) continue;
    any = true;
    for (int k = 0; k < 2 && l->register_limited; k++)
      defer(l, op, k ? DEFERRED_X : DEFERRED_A, op->in[k], product_uses(l, op, op->in[k]));
  }
  if (any) defer_next(l, block);
}
