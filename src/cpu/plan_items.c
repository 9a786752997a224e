/* The items of a plan, as they are put to its end: operations, and nests when they are closed. */
#include "cpu/plan.h"

void push_item(Planner *p, Item item) { vec_push(p->e->arena, p->plan, item); }

void push_op(Planner *p, Op *op) { push_item(p, (Item){.op = op}); }

void close_group(Planner *p) {
  if (!p->open) return;
  push_item(p, (Item){.group = p->open});
  p->open = NULL;
}

OpPlan *op_plan(Planner *p, Op *op) {
  Emit *e = p->e;
  OpPlan *o = NEW(e->arena, OpPlan);
  o->in = NEW_N(e->arena, View *, op->in_count + 1);
  o->out = NEW_N(e->arena, View *, op->out_count + 1);
  o->carry = NEW_N(e->arena, Buffer *, op->in_count + op->out_count + 1);
  o->carry2 = NEW_N(e->arena, Buffer *, op->in_count + op->out_count + 1);
  op->note = o;
  return o;
}
