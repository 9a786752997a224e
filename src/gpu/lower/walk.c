/* The walk over a block's operations: each is lowered by the function that the table of lower.c has for it, where it
 * stands, or where the product comes that it was deferred to (lower/deferred.c). Operations with bodies come back here
 * (lower_body, lower_inline).
 */
#include "gpu/lower/lower.h"

static bool is_end(const Op *op) { return op_info[op->code].effect == EFFECT_TERMINATOR; }

static void lower_op(Lower *l, Op *op) {
  const Span *outer = l->b.span;
  int around = l->b.statement;
  if (op->span) l->b.span = op->span;
  l->b.statement = ++l->statements;
  if (!l->table[op->code])
    diag_fail(l->cx, op->span ? *op->span : (Span){0}, "the CUDA device does not support `%s` yet",
              op_info[op->code].name);
  if (op->code != OP_TRANS || !lower_ring_read(op->out[0])) l->table[op->code](l, op);
  l->b.span = outer;
  l->b.statement = around;
}

Op *lower_body(Lower *l, Block *block) {
  const Span *outer = l->b.span;
  lower_plan_deferred(l, block);
  for (Op *op = block->first; op && !is_end(op); op = op->next) {
    if (op->span) l->b.span = op->span;
    if (!lower_defers(l, op)) lower_op(l, op);
  }
  l->b.span = outer;
  return block->last;
}

void lower_inline(Lower *l, Block *body, LaneValue *const *args, LaneValue **out) {
  for (int i = 0; i < body->arg_count; i++) {
    LaneValue **one = lower_array(l, 1);
    one[0] = args[i];
    lower_set(l, body->args[i], one);
  }
  l->divergent++;
  Op *end = lower_body(l, body);
  l->divergent--;
  for (int i = 0; i < end->in_count; i++) out[i] = lower_get(l, end->in[i])[0];
}

/* ---- what was deferred to a product -------------------------------------------------------------------------------- */

/* With what it is made of, where the product that this was deferred to found it in shared memory. */
static void with_operands(Lower *l, Op *op) {
  stack_guard();
  for (int i = 0; i < op->in_count; i++)
    if (!lower_get(l, op->in[i]) && lower_is_deferred(l, op->in[i])) with_operands(l, op->in[i]->def);
  lower_op(l, op);
}

/* What was deferred to `planned`, now. */
static void deferred_now(Lower *l, const Op *planned, DeferredWhere where, const Op *dot) {
  for (Op *op = planned->block->first; op && op != planned; op = op->next)
    if (lower_defers(l, op) && l->deferred[op->out[0]->id].dot == planned &&
        l->deferred[op->out[0]->id].where == where && (planned == dot || lower_can_wait(op, dot)))
      with_operands(l, op);
}

/* Another product may have loaded it already: held until this one it would take registers. */
void lower_operand_now(Lower *l, const Op *dot, int k) {
  LowerDeferred deferred = l->deferred[dot->in[k]->id];
  if (deferred.dot) deferred_now(l, deferred.dot, deferred.where, dot);
}

void lower_next_now(Lower *l, const Op *dot) { deferred_now(l, dot, DEFERRED_AFTER, dot); }
