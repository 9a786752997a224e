/* Changes to structured control flow that several passes make: inlining a body, dropping or retyping a carried value.
 *
 * A carried value of a loop lives in up to seven places (operand, result, arguments of the bodies, operands of what
 * ends them); these functions are the only ones that know the list.
 */
#include "tile/tile.h"

int control_skip(const Op *op) { return op->code == OP_FOR ? 3 : op->code == OP_IF ? 1 : 0; }

Op *block_splice(Block *body, Value *const *args, Op *place) {
  for (int i = 0; i < body->arg_count; i++) value_replace(body->args[i], args[i]);
  Op *end = body->last;
  for (Op *op = body->first, *next; op && op != end; op = next) {
    next = op->next;
    op_move_before(op, place);
  }
  return end;
}

static void drop_at(Value **list, int *count, int i) {
  for (int k = i; k + 1 < *count; k++) {
    list[k] = list[k + 1];
    list[k]->index = k;
  }
  --*count;
}

static void drop_operand(Op *op, int i) {
  for (int k = i; k + 1 < op->in_count; k++) op->in[k] = op->in[k + 1];
  op->in_count--;
}

void control_drop(Op *op, int i) {
  drop_at(op->out, &op->out_count, i);
  if (op->code != OP_IF) {
    drop_operand(op, i + control_skip(op));
    for (int b = 0; b < op_info[op->code].regions; b++)
      drop_at(op->body[b]->args, &op->body[b]->arg_count, i + (op->code == OP_FOR));
  }
  for (int b = 0; b < op_info[op->code].regions; b++) {
    Op *end = op->body[b]->last;
    drop_operand(end, i + (end->code == OP_CONDITION));
  }
}

void control_retype(Func *f, Op *op, int i, const Type *type, Value **result, Value *args[2]) {
  *result = op->out[i];
  op->out[i] = value_create(f, type, i);
  op->out[i]->def = op;
  for (int b = 0; b < op_info[op->code].regions; b++) {
    Block *body = op->body[b];
    int k = i + (op->code == OP_FOR);
    args[b] = body->args[k];
    body->args[k] = value_create(f, type, k);
    body->args[k]->block = body;
  }
}

static void add_operand(Func *f, Op *op, Value *v) {
  Value **in = NEW_N(f->cx->arena, Value *, op->in_count + 1);
  if (op->in_count) memcpy(in, op->in, (size_t)op->in_count * sizeof *in);
  in[op->in_count++] = v;
  op->in = in;
}

static Value *add_result(Func *f, Op *op, const Type *t) {
  Value **out = NEW_N(f->cx->arena, Value *, op->out_count + 1);
  if (op->out_count) memcpy(out, op->out, (size_t)op->out_count * sizeof *out);
  out[op->out_count] = value_create(f, t, op->out_count);
  out[op->out_count]->def = op;
  op->out = out;
  return out[op->out_count++];
}

Value *control_result(Func *f, Op *branch, Value *a, Value *b) {
  add_operand(f, branch->body[0]->last, a);
  add_operand(f, branch->body[1]->last, b);
  return add_result(f, branch, a->type);
}

Value *control_carry(Func *f, Op *loop, Value *init, Value *next) {
  add_operand(f, loop, init);
  add_operand(f, loop->body[0]->last, next);
  add_result(f, loop, init->type);
  return block_add_arg(f, loop->body[0], init->type, NULL);
}

bool op_is_pure(const Op *op) {
  stack_guard();
  Effect e = op_info[op->code].effect;
  if (e != EFFECT_PURE && e != EFFECT_CONTROL && !(op->code == OP_ASM && op->pure)) return false;
  for (int i = 0; i < 2; i++)
    if (op->body[i])
      for (const Op *inner = op->body[i]->first; inner; inner = inner->next)
        if (op_info[inner->code].effect != EFFECT_TERMINATOR && !op_is_pure(inner)) return false;
  return true;
}

const Block *value_block(const Value *v) { return v->def ? v->def->block : v->block; }
