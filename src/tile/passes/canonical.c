/* Loops in canonical form: tensors that grow by the same amount everywhere become a fixed tensor plus a scalar.
 *
 *     for ..., %ptrs do (%i, %p: *f32[64])          for ..., %zero do (%i, %o: i64)
 *       load %p                                        %p = addptr %ptrs, splat %o
 *       %next = addptr %p, splat %step        ->       load %p
 *       yield %next                                    %next = add %o, %step
 *                                                      yield %next
 *
 * The facts about %ptrs (contiguous runs, alignment) then hold in the loop, the back ends see one scalar per iteration
 * where there was a tensor to be kept, and addresses are a base and an offset. Scalar pointers that move are treated
 * likewise.
 *
 * Offsets of pointers are counted in elements, as i64 whatever the increment's type, since their sum may pass what the
 * increment's type holds. For tensors of integers the offset has the element's type: wrapping commutes with adding.
 * Chains of additions (p + a + b) count as one. A `while` takes part when its condition hands the value on unchanged.
 */
#include "tile/tile.h"

enum { MAX_CHAIN = 16, MAX_DEPTH = 32 };

/* The scalar that the tensor (or scalar) v is everywhere; constants and conversions are built. For what is_uniform().
 */
static Value *uniform(Builder *b, Value *v) {
  stack_guard();
  v = value_replacement(v);
  if (!v->type->rank) return v;
  switch (v->def->code) {
    case OP_SPLAT: return value_replacement(v->def->in[0]);
    case OP_CONST: return build_int(b, type_elem(b->func->cx, v->type), v->def->value);
    case OP_CONVERT: return build_convert(b, uniform(b, v->def->in[0]), v->type->dtype);
    default: return uniform(b, v->def->in[0]);
  }
}

/* Whether uniform() gives a scalar. */
static bool is_uniform(Value *v) {
  for (int depth = 0; depth < MAX_DEPTH; depth++) {
    v = value_replacement(v);
    if (!v->type->rank) return true;
    if (!v->def) return false;
    const Type *from = v->def->in_count ? v->def->in[0]->type : NULL;
    switch (v->def->code) {
      case OP_SPLAT:
      case OP_CONST: return true;
      case OP_BROADCAST:
      case OP_EXPAND_DIMS:
      case OP_RESHAPE:
      case OP_TRANS:
      case OP_HINT: break;
      case OP_CONVERT:
        if (from->ptr || dtype_is_float(from->dtype)) return false;
        break;
      default: return false;
    }
    v = v->def->in[0];
  }
  return false;
}

typedef struct Step { /* one addition on the way from the carried value to the yielded one */
  Op *op;
  Value *by;
} Step;

/* The additions that lead from `arg` to `next`, last first; 0 when it is anything else. All stand in `body` itself.
 * A hint on `arg` itself stays with the tensor that is built from the offset; one on what is yielded says what the
 * offset alone would not. */
static int find_chain(const Block *body, Value *arg, Value *next, Step steps[MAX_CHAIN]) {
  int n = 0;
  for (Value *v = value_replacement(next); v != arg;) {
    Op *op = v->def;
    if (n == MAX_CHAIN || !op || op->block != body) return 0;
    if (op->code == OP_HINT && n && value_replacement(op->in[0]) == arg) break;
    bool pointer = op->code == OP_ADDPTR, add = op->code == OP_ADD && !dtype_is_float(v->type->dtype);
    bool sub = op->code == OP_SUB && !dtype_is_float(v->type->dtype);
    if (!pointer && !add && !sub) return 0;
    /* of an addition either operand may be the growing one */
    int by = add && !is_uniform(op->in[1]) ? 0 : 1;
    if (add && value_replacement(op->in[0]) != arg && value_replacement(op->in[1]) == arg) by = 0;
    if (!is_uniform(op->in[by])) return 0;
    steps[n++] = (Step){op, op->in[by]};
    v = value_replacement(op->in[1 - by]);
  }
  return n;
}

static Value *rebuild(Builder *b, Value *init, Value *offset) {
  const Type *t = init->type;
  Value *wide = build_splat(b, offset, t->rank, t->shape);
  return t->ptr ? build_addptr(b, init, wide) : build_binary(b, OP_ADD, init, wide);
}

static void rewrite(Func *f, Op *loop, int i, Block *body, Step *steps, int n) {
  Context *cx = f->cx;
  Value *init = value_replacement(loop->in[i + control_skip(loop)]);
  const Type *type = type_number(cx, init->type->ptr ? DT_I64 : init->type->dtype);
  Value *old_result, *old_args[2] = {NULL, NULL};
  control_retype(f, loop, i, type, &old_result, old_args);

  Builder outside = {.func = f, .block = loop->block, .before = loop, .span = loop->span};
  loop->in[i + control_skip(loop)] = build_int(&outside, type, 0);
  for (int r = 0; r < op_info[loop->code].regions; r++) {
    Block *inside = loop->body[r];
    Value *arg = inside->args[i + (loop->code == OP_FOR)];
    if (old_args[r]->name) arg->name = arena_printf(cx->arena, "%s_offset", old_args[r]->name);
    Builder b = {.func = f, .block = inside, .before = inside->first, .span = loop->span};
    Value *whole = rebuild(&b, init, arg);
    whole->name = old_args[r]->name;
    value_replace(old_args[r], whole);
    if (inside->last->code == OP_CONDITION) inside->last->in[i + 1] = arg;
  }

  /* The scalar's own chain, each addition beside the tensor's. */
  Value *sum = body->args[i + (loop->code == OP_FOR)];
  for (int k = n - 1; k >= 0; k--) {
    Builder b = {.func = f, .block = body, .before = steps[k].op, .span = steps[k].op->span};
    Value *by = uniform(&b, steps[k].by);
    if (init->type->ptr) by = build_convert(&b, by, DT_I64);
    sum = build_binary(&b, steps[k].op->code == OP_SUB ? OP_SUB : OP_ADD, sum, by);
  }
  body->last->in[i] = sum;

  Builder after = {.func = f, .block = loop->block, .before = loop->next, .span = loop->span};
  Value *whole = rebuild(&after, init, loop->out[i]);
  whole->name = old_result->name;
  value_replace(old_result, whole);
}

/* The additions by which carried value i of the loop grows, last first; 0: it does not grow, or cannot be rewritten. */
static int induction_steps(const Op *loop, int i, Step steps[MAX_CHAIN]) {
  const Type *t = loop->out[i]->type;
  const Block *body = loop->body[loop->code == OP_FOR ? 0 : 1];
  const Op *condition = loop->code == OP_WHILE ? loop->body[0]->last : NULL;
  bool moves = t->ptr || (t->rank && dtype_is_int(t->dtype) && t->dtype != DT_I1);
  if (!moves || (condition && value_replacement(condition->in[i + 1]) != loop->body[0]->args[i])) return 0;
  return find_chain(body, body->args[i + (loop->code == OP_FOR)], body->last->in[i], steps);
}

bool tile_loop_grows(const Op *op) {
  Step steps[MAX_CHAIN];
  bool grows = false;
  for (int i = 0; i < op->out_count && !grows && (op->code == OP_FOR || op->code == OP_WHILE); i++)
    grows = induction_steps(op, i, steps) > 0;
  return grows;
}

static void visit_loop(Func *f, Op *loop) {
  for (int i = 0; i < loop->out_count; i++) {
    Step steps[MAX_CHAIN];
    int n = induction_steps(loop, i, steps);
    if (n) rewrite(f, loop, i, loop->body[loop->code == OP_FOR ? 0 : 1], steps, n);
  }
}

/* Inner loops first: what an inner loop adds is then one more addition to the outer one's sum. */
static void visit_block(Func *f, Block *block) {
  stack_guard();
  for (Op *op = block->first; op; op = op->next) {
    for (int i = 0; i < 2; i++)
      if (op->body[i]) visit_block(f, op->body[i]);
    if (op->code == OP_FOR || op->code == OP_WHILE) visit_loop(f, op);
  }
}

void tile_canonical_loops(Func *f) {
  tile_replace_uses(f);
  visit_block(f, f->body);
  tile_replace_uses(f);
}
