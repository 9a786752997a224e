/* Making structured control: `for`, `while` and `if` with their bodies.
 *
 *     LaneOp *loop = lane_for(b, LK_S32, lb, ub, step, 1, &sum);      b stands in the body
 *     LaneValue *i = loop->body[0]->args[0], *acc = loop->body[0]->args[1];
 *     ...
 *     lane_yield(b, 1, &next);
 *     lane_leave(b, loop);                                            b stands after the loop; loop->out[0] is the sum
 *
 * A carried value keeps its type: a loop's operand, argument, yielded value and result. A body that carries nothing
 * need not be ended.
 */
#include "gpu/lane/scope.h"

static LaneBlock *body_create(LaneFunc *f, LaneOp *parent, int arg_count) {
  LaneBlock *block = NEW(f->cx->arena, LaneBlock);
  block->parent = parent;
  block->arg_count = arg_count;
  block->args = NEW_N(f->cx->arena, LaneValue *, arg_count);
  return block;
}

static void set_arg(LaneFunc *f, LaneBlock *block, int i, LaneType type) {
  block->args[i] = lane_value_create(f, type, i);
  block->args[i]->block = block;
}

static void stand_in(LaneBuilder *b, LaneOp *op, int body) {
  lane_scope_push(b, op);
  b->block = op->body[body];
}

LaneOp *lane_for(LaneBuilder *b, LaneKind k, LaneValue *lb, LaneValue *ub, LaneValue *step, int n,
                 LaneValue *const *init) {
  Arena *arena = b->f->cx->arena;
  LaneValue **in = NEW_N(arena, LaneValue *, n + 3);
  LaneType *types = NEW_N(arena, LaneType, n);
  in[0] = lb;
  in[1] = ub;
  in[2] = step;
  for (int i = 0; i < n; i++) {
    in[i + 3] = init[i];
    types[i] = init[i]->type;
  }
  LaneOp *op = lane_op_raw(b, (LaneOp){.code = LANE_FOR, .kind = k}, n + 3, in, n, types);
  op->body[0] = body_create(b->f, op, n + 1);
  set_arg(b->f, op->body[0], 0, lane_kind_info[k].type);
  for (int i = 0; i < n; i++) set_arg(b->f, op->body[0], i + 1, types[i]);
  stand_in(b, op, 0);
  return op;
}

LaneOp *lane_while(LaneBuilder *b, int n, LaneValue *const *init) {
  LaneType *types = NEW_N(b->f->cx->arena, LaneType, n);
  for (int i = 0; i < n; i++) types[i] = init[i]->type;
  LaneOp *op = lane_op_raw(b, (LaneOp){.code = LANE_WHILE, .kind = LK_NONE}, n, init, n, types);
  for (int body = 0; body < 2; body++) {
    op->body[body] = body_create(b->f, op, n);
    for (int i = 0; i < n; i++) set_arg(b->f, op->body[body], i, types[i]);
  }
  stand_in(b, op, 0);
  return op;
}

LaneOp *lane_if(LaneBuilder *b, LaneValue *pred, bool uniform, int out_count, const LaneType *out) {
  LaneOp *op = lane_op_raw(b, (LaneOp){.code = LANE_IF, .kind = LK_NONE, .uniform = uniform}, 1, &pred, out_count, out);
  for (int body = 0; body < 2; body++) op->body[body] = body_create(b->f, op, 0);
  stand_in(b, op, 0);
  return op;
}

void lane_enter(LaneBuilder *b, LaneOp *op, int body) {
  lane_scope_pop(b, op);
  stand_in(b, op, body);
}

void lane_yield(LaneBuilder *b, int n, LaneValue *const *values) {
  lane_op_raw(b, (LaneOp){.code = LANE_YIELD, .kind = LK_NONE}, n, values, 0, NULL);
}

void lane_condition(LaneBuilder *b, LaneValue *pred, int n, LaneValue *const *values) {
  LaneValue **in = NEW_N(b->f->cx->arena, LaneValue *, n + 1);
  in[0] = pred;
  if (n) memcpy(in + 1, values, sizeof *values * (size_t)n);
  lane_op_raw(b, (LaneOp){.code = LANE_CONDITION, .kind = LK_NONE}, n + 1, in, 0, NULL);
}

void lane_leave(LaneBuilder *b, LaneOp *op) {
  lane_scope_pop(b, op);
  if (op->out_count == 0)
    for (int i = op->code == LANE_WHILE; i < 2; i++) {
      LaneBlock *body = op->body[i];
      if (!body || (body->last && lane_info[body->last->code].effect == LE_TERMINATOR)) continue;
      b->block = body;
      lane_yield(b, 0, NULL);
    }
  b->block = op->block;
}
