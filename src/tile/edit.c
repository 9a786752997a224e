/* Changes to structured control flow that several passes make: inlining a body, dropping or retyping a carried value.
 * And what passes ask of operations: whether they are pure, whether two compute the same.
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

/* ---- equality ---------------------------------------------------------------------------------------------------- */

bool op_commutes(const Op *op) {
  switch (op->code) {
    case OP_ADD:
    case OP_MUL:
    case OP_AND:
    case OP_OR:
    case OP_XOR:
    case OP_MIN:
    case OP_MAX:
    case OP_MULHI: return true;
    case OP_CMP: return op->pred == CMP_EQ || op->pred == CMP_NE;
    default: return false;
  }
}

/* Of a body's value, the one in the other body that stands for it; of others, itself. */
static const Value *mapped(const Map *map, Value *v) {
  v = value_replacement(v);
  const Value *other = map ? map_get(map, v) : NULL;
  return other ? other : v;
}

static bool same_operands(const Op *a, const Op *b, const Map *map) {
  bool same = true, turned = a->in_count == 2 && op_commutes(a);
  for (int i = 0; i < a->in_count; i++) same = same && mapped(map, a->in[i]) == value_replacement(b->in[i]);
  for (int i = 0; i < 2 && turned; i++) turned = mapped(map, a->in[i]) == value_replacement(b->in[1 - i]);
  return same || turned;
}

static bool same_bodies(Map *map, const Block *a, const Block *b);

static bool same_ops(Map *map, const Op *a, const Op *b) {
  stack_guard();
  if (a->code != b->code || a->in_count != b->in_count || a->out_count != b->out_count || a->dim_count != b->dim_count)
    return false;
  if (memcmp(a->attr, b->attr, sizeof a->attr) || memcmp(&a->number, &b->number, sizeof a->number)) return false;
  if (a->dim_count && memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->dim_count)) return false;
  if (a->text != b->text && (!a->text || !b->text || strcmp(a->text, b->text))) return false;
  for (int i = 0; i < a->out_count; i++)
    if (a->out[i]->type != b->out[i]->type) return false;
  if (!same_operands(a, b, map)) return false;
  for (int i = 0; i < 2; i++) {
    if (!a->body[i] != !b->body[i]) return false;
    if (a->body[i] && !same_bodies(map, a->body[i], b->body[i])) return false;
  }
  return true;
}

static bool same_bodies(Map *map, const Block *a, const Block *b) {
  if (a->arg_count != b->arg_count) return false;
  for (int i = 0; i < a->arg_count; i++) {
    if (a->args[i]->type != b->args[i]->type) return false;
    map_put(map, a->args[i], b->args[i]);
  }
  const Op *x = a->first, *y = b->first;
  for (; x && y; x = x->next, y = y->next) {
    if (!same_ops(map, x, y)) return false;
    for (int i = 0; i < x->out_count; i++) map_put(map, x->out[i], y->out[i]);
  }
  return !x && !y;
}

bool op_same(Arena *arena, const Op *a, const Op *b) {
  return same_ops(a->body[0] ? map_create(arena, false) : NULL, a, b);
}

bool op_same_bodies(Arena *arena, const Block *a, const Block *b) {
  return same_bodies(map_create(arena, false), a, b);
}
