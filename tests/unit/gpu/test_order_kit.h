/* Taking out what orders accesses (waits, fences, barriers), one at a time: what a test of what waits for what goes by.
 * Each such change must be missed by the verifier or by the simulator. */
#ifndef TEST_ORDER_KIT_H
#define TEST_ORDER_KIT_H

#include "gpu/lane/lane.h"

typedef bool (*Orders)(const LaneOp *op);

typedef struct OrderSearch {
  Orders orders;
  int skip;
  LaneOp *found;
} OrderSearch;

static inline void order_find_op(LaneOp *op, void *arg) {
  OrderSearch *s = arg;
  if (s->orders(op) && s->skip-- == 0) s->found = op;
}

/* Number n of those operations; NULL: there are fewer. */
static inline LaneOp *order_find(LaneFunc *f, Orders orders, int n) {
  OrderSearch s = {.orders = orders, .skip = n};
  lane_walk(f->body, order_find_op, &s);
  return s.found;
}

static inline void order_replace(LaneOp *op, void *arg) {
  const LaneOp *wait = arg;
  for (int i = 0; i < op->in_count; i++)
    for (int k = 0; k < wait->out_count; k++)
      if (op->in[i] == wait->out[k]) op->in[i] = wait->in[k];
}

/* What it handed through goes on without it. */
static inline void order_take_out(LaneFunc *f, LaneOp *op) {
  lane_walk(f->body, order_replace, op);
  lane_remove(op);
}

static inline bool order_verifies(LaneFunc *f) {
  volatile bool ok = false;
  if (context_try(f->cx)) {
    lane_verify(f, "the test");
    context_end_try(f->cx);
    ok = true;
  }
  return ok;
}

#endif
