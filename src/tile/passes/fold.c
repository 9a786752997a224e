/* Folding: what can be computed or decided now is.
 *
 *     constants         add 2, 3                                     -> 5                    fold_arith.c
 *     identities        mul x, 1                                     -> x                    fold_arith.c
 *     shapes            broadcast (splat s), add (splat a)(splat b)  -> splat s, splat (a+b) fold_shape.c
 *     branches          if c: splat a; else: splat b                -> splat (if c: a; else: b)  here
 *     masks             load p, true                                 -> load p               here
 *     control           if true; for over one iteration or none;          -> the body, or nothing here
 *                       values that a loop carries but never changes
 *
 * One walk, top to bottom: when an operation is reached its operands are already folded, and what it becomes is folded
 * before its users are reached. Names from the source move on to the values that take over.
 */
#include "tile/passes/fold.h"

static void fold_block(Func *f, Block *block);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void drop_operands_from(Op *op, int n) { op->in_count = n; }

/* Folds a constant mask; returns what the result is, or NULL. `gone` tells that the operation does nothing. */
static Value *fold_memory(Builder *b, Op *op, bool *gone) {
  int mask_at = op_mask_at(op);
  int64_t mask;
  if (mask_at < 0 || !value_is_const(op->in[mask_at], &mask)) return NULL;
  if (mask) {
    drop_operands_from(op, mask_at);
    return NULL;
  }
  if (op->code == OP_STORE) return *gone = true, NULL;
  if (op_other(op)) return op_other(op);
  return op->out[0]->type->ptr ? NULL : build_int(b, op->out[0]->type, 0);
}

/* Combining one element gives that element. Returns the operation to go on with. */
static Op *fold_combine(Builder *b, Op *op) {
  const Type *t = op->in[0]->type;
  Op *before = op->prev, *next = op->next;
  Block *block = op->block;
  if (t->shape[op->axis] != 1) return next;
  for (int i = 0; i < op->out_count; i++) {
    const Type *to = op->out[i]->type;
    value_replace(op->out[i], build_reshape(b, op->in[i], to->rank, to->shape));
  }
  op_remove(op);
  return before ? before->next : block->first;
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

static void replace_results(Op *op, Value *const *values) {
  for (int i = 0; i < op->out_count; i++) value_replace(op->out[i], values[i]);
}

/* Puts a body in place of its operation. The body's end hands on values from `skip` on. */
static Op *inline_body(Op *op, Block *body, Value *const *args, int skip) {
  Op *before = op->prev, *end = block_splice(body, args, op);
  replace_results(op, end->in + skip);
  Op *first = before ? before->next : op->block->first;
  if (first == op) first = op->next;
  op_remove(op);
  return first;
}

int64_t fold_trips(const Op *op) {
  int64_t low, high, step;
  const Value *from = value_replacement(op->in[0]), *to = value_replacement(op->in[1]);
  if (!value_is_const(op->in[2], &step) || step == 0) return -1;
  if (from == to) return 0;
  if (!value_is_const(from, &low) || !value_is_const(to, &high)) return -1;
  Dtype t = from->type->dtype;
  bool down = dtype_is_signed(t) && step < 0;
  Scalar a = {.i = down ? high : low}, z = {.i = down ? low : high};
  if (!scalar_cmp(CMP_LT, t, a, z)) return 0;
  uint64_t distance = (uint64_t)z.i - (uint64_t)a.i, stride = down ? 0 - (uint64_t)step : (uint64_t)step;
  uint64_t trips = (distance - 1) / stride + 1;
  return trips > INT64_MAX ? INT64_MAX : (int64_t)trips;
}

/* A carried value that every iteration hands on as it is, is what it was before the loop. */
static void fold_carried(Op *op) {
  if (op->code == OP_IF || !op->body[0]->last) return;
  Op *yield = op->body[op->code == OP_FOR ? 0 : 1]->last, *condition = op->code == OP_WHILE ? op->body[0]->last : NULL;
  for (int i = op->out_count - 1; i >= 0; i--) {
    Value *init = value_replacement(op->in[i + control_skip(op)]), *next = value_replacement(yield->in[i]);
    Value *arg = op->body[0]->args[i + (op->code == OP_FOR)], *arg1 = condition ? op->body[1]->args[i] : NULL;
    if (condition && value_replacement(condition->in[i + 1]) != arg) continue;
    if (next != arg && next != arg1 && next != init) continue;
    value_replace(arg, init);
    if (arg1) value_replace(arg1, init);
    value_replace(op->out[i], init);
    control_drop(op, i);
  }
}

/* Returns the operation to go on with. */
static Op *fold_for(Func *f, Op *op) {
  int64_t count = fold_trips(op);
  if (count == 0) {
    Op *next = op->next;
    for (int i = 0; i < op->out_count; i++) value_replace(op->out[i], op->in[i + 3]);
    op_remove(op);
    return next;
  }
  if (count == 1) {
    Value **args = NEW_N(f->cx->arena, Value *, op->in_count);
    args[0] = op->in[0];
    for (int i = 0; i < op->out_count; i++) args[i + 1] = op->in[i + 3];
    return inline_body(op, op->body[0], args, 0);
  }
  fold_carried(op);
  fold_block(f, op->body[0]);
  fold_carried(op);
  return op->next;
}

static Op *fold_while(Func *f, Op *op) {
  fold_carried(op);
  fold_block(f, op->body[0]);
  int64_t known;
  if (value_is_const(op->body[0]->last->in[0], &known) && !known) return inline_body(op, op->body[0], op->in, 1);
  fold_block(f, op->body[1]);
  fold_carried(op);
  return op->next;
}

/* Both sides give a tensor of one number: they give the number. */
static void give_number(Func *f, Op *op, int i) {
  const Type *t = op->out[i]->type;
  Value *number[2];
  for (int k = 0; k < 2; k++) {
    Op *end = op->body[k]->last;
    Builder b = {.func = f, .block = op->body[k], .before = end, .span = op->span};
    number[k] = splatted(&b, value_replacement(end->in[i]));
    if (!number[k]) return;
  }
  Builder b = {.func = f, .block = op->block, .before = op->next, .span = op->span};
  value_replace(op->out[i], build_splat(&b, control_result(f, op, number[0], number[1]), t->rank, t->shape));
  control_drop(op, i);
}

static Op *fold_if(Func *f, Op *op) {
  int64_t known;
  if (value_is_const(op->in[0], &known)) return inline_body(op, op->body[known ? 0 : 1], NULL, 0);
  for (int i = 0; i < 2; i++) fold_block(f, op->body[i]);
  for (int i = op->out_count - 1; i >= 0; i--) { /* both sides give the same value from outside */
    Value *then = value_replacement(op->body[0]->last->in[i]), *other = value_replacement(op->body[1]->last->in[i]);
    if (then == other) {
      value_replace(op->out[i], then);
      control_drop(op, i);
    } else if (then->type->rank) give_number(f, op, i);
  }
  return op->next;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

static void pass_name_on(Value *from, Value *to) {
  if (!to->name && to->def) to->name = from->name;
}

static Op *fold_one(Func *f, Op *op) {
  for (int i = 0; i < op->in_count; i++) op->in[i] = value_replacement(op->in[i]);
  Builder b = {.func = f, .block = op->block, .before = op, .span = op->span};
  Op *next;
  switch (op->code) {
    case OP_FOR: return fold_for(f, op);
    case OP_WHILE: return fold_while(f, op);
    case OP_IF: return fold_if(f, op);
    case OP_REDUCE:
    case OP_SCAN: fold_block(f, op->body[0]); return fold_combine(&b, op);
    case OP_MAP: fold_block(f, op->body[0]); return op->next;
    case OP_LOAD:
    case OP_STORE:
    case OP_ATOMIC_RMW: {
      bool gone = false;
      Value *v = fold_memory(&b, op, &gone);
      next = op->next;
      if (v) value_replace(op->out[0], v);
      if (v || gone) op_remove(op);
      return next;
    }
    default: break;
  }
  /* What it becomes may fold again (x + 1 + 2 with x = 0); the bound only guards against rules that chase each other.
   */
  Op *now = op;
  for (int round = 0; round < 8; round++) {
    Value *v = fold_op(&b, now);
    if (!v) break;
    Op *made = v->def && v->def != now && v->def->next == now ? v->def : NULL; /* built just now */
    pass_name_on(now->out[0], v);
    next = now->next;
    value_replace(now->out[0], v);
    op_remove(now);
    if (!made || made->code == OP_CONST) return next;
    now = made;
    for (int i = 0; i < now->in_count; i++) now->in[i] = value_replacement(now->in[i]);
    b.before = now;
  }
  return now->next;
}

static void fold_block(Func *f, Block *block) {
  stack_guard();
  for (Op *op = block->first; op;) op = fold_one(f, op);
}

void tile_fold(Func *f) {
  fold_block(f, f->body);
  tile_replace_uses(f);
}
