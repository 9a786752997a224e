/* What the passes on loops of the tile IR share. */
#include "gpu/loop.h"
#include "tile/passes/fold.h"

static void visit_block(Func *f, const GpuOptions *o, LoopVisit visit, Block *block) {
  stack_guard();
  for (Op *op = block->first, *next; op; op = next) {
    next = op->next; /* the visit may put the loop into a branch */
    for (int i = 0; i < 2; i++)
      if (op->body[i]) visit_block(f, o, visit, op->body[i]);
    if (op->code == OP_FOR) visit(f, o, op);
  }
}

void loop_visit(Func *f, const GpuOptions *o, LoopVisit visit) { visit_block(f, o, visit, f->body); }

void loop_replace_carried(Func *f, Op *loop, bool (*replace)(Func *f, Op *loop, int carried)) {
  for (int i = loop->out_count - 1; i >= 0; i--)
    if (replace(f, loop, i)) control_drop(loop, i);
}

Value *loop_reduce_as(Builder *b, const Op *reduce, Value *v, int axis) {
  Context *cx = b->func->cx;
  const Type *t = v->type;
  int32_t shape[MAX_RANK];
  int rank = 0;
  for (int d = 0; d < t->rank; d++)
    if (d != axis) shape[rank++] = t->shape[d];
  Map *map = map_create(cx->arena, false);
  map_put(map, reduce->in[0], v);
  Op *op = op_clone(b, reduce, map);
  op->axis = axis;
  op->out[0]->type = type_tensor(cx, type_number(cx, t->dtype), rank, shape);
  return op->out[0];
}

bool loop_has_effects(const Block *b) {
  stack_guard();
  for (const Op *op = b->first; op; op = op->next) {
    Effect e = op_info[op->code].effect;
    bool none = op->code == OP_SCOPE || (op->code == OP_ASM && op_is_pure(op));
    if (e == EFFECT_WRITE || (e == EFFECT_SIDE && !none)) return true;
    if (op_is_volatile(op) || op_cache(op) == CACHE_CV) return true;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && loop_has_effects(op->body[i])) return true;
  }
  return false;
}

int64_t loop_most_trips(const Op *loop) {
  int64_t step, from, to, unused, way;
  if (!value_is_const(loop->in[2], &step) || step < 1 || !fold_range(loop->in[0], &from, &unused) ||
      !fold_range(loop->in[1], &unused, &to) || __builtin_sub_overflow(to, from, &way))
    return INT64_MAX;
  return way <= 0 ? 0 : cdiv(way, step);
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

const Value *loop_untransposed(const Value *v) {
  while (v->def && v->def->code == OP_TRANS) v = v->def->in[0];
  return v;
}

Builder loop_branch_on(Builder *b, Value *cond) {
  Op *branch = build_op(b, OP_IF, 1, &cond, 0, NULL);
  Builder inside = {.func = b->func, .span = b->span};
  for (int i = 0; i < 2; i++) {
    Builder body = {.func = b->func, .block = block_create(b->func, branch), .span = b->span};
    build_yield(&body, 0, NULL);
    if (!i) inside.block = body.block, inside.before = body.block->last;
  }
  return inside;
}

bool loop_runs_programs(const Func *f, const Op *loop) {
  const Op *parent = loop->block->parent; /* the half of a specialized kernel */
  return f->persistent && loop->code == OP_FOR && (!parent || (parent->code == OP_IF && !parent->block->parent));
}

int loop_program_axis(const Func *f, const Value *v) {
  const Op *op = v->def;
  if (!op) return -1;
  if (op->code == OP_PROGRAM_ID) return f->persistent ? -1 : (int)op->axis;
  const Op *loop = op->block->parent;
  bool placed = op->code == OP_IF && op->out_count == 3 && loop && loop_runs_programs(f, loop);
  for (const Op *before = op->prev; before && placed; before = before->prev) placed = before->code != OP_IF;
  return placed ? v->index : -1;
}

/* ---- sums of dots ------------------------------------------------------------------------------------------------ */

int64_t loop_sum_registers(const Func *f, const Op *dot) {
  int64_t sums = type_numel(dot->out[0]->type) / (32 * f->num_warps);
  return dot->precision == PRECISION_SPLIT ? 2 * sums : sums; /* what it adds, too */
}

int64_t loop_sums(const Func *f, const Block *b) {
  int64_t registers = 0;
  for (const Op *op = b->first; op; op = op->next)
    if (op->code == OP_DOT) registers += loop_sum_registers(f, op);
  return registers;
}

bool loop_carries_sum(const Block *body, const Op *dot) {
  if (dot->code != OP_DOT) return false;
  const Value *acc = dot->in[2], *out = dot->out[0];
  if (acc->block != body || acc->index < 1) return false;
  if (out->type->dtype != DT_F32 && out->type->dtype != DT_I32) return false;
  return body->last->in[acc->index - 1] == out && block_uses(body, acc) == 1 && block_uses(body, out) == 1;
}

typedef struct Replace {
  Value *old, *by;
  const Op *but;
} Replace;

static void replace_use(Op *op, void *arg) {
  const Replace *r = arg;
  for (int i = 0; i < op->in_count && op != r->but; i++)
    if (op->in[i] == r->old) op->in[i] = r->by;
}

void loop_replace_but(Block *b, Value *old, Op *but) {
  Replace r = {old, but->out[0], but};
  tile_walk(b, replace_use, &r);
}

bool loop_is_of_dot(const Value *v, bool (*takes)(const void *arg, const Value *v), const void *arg) {
  stack_guard();
  const Op *op = v->def;
  if (!op || !takes(arg, v)) return false;
  if (op->code == OP_DOT) return true;
  for (int i = 0; i < op->in_count && op_is_elementwise(op); i++)
    if (loop_is_of_dot(op->in[i], takes, arg)) return true;
  return false;
}

void loop_leave_in_flight(Builder *after, Op *loop, Op *dot) {
  Value *out = loop->out[dot->in[2]->index - 1];
  dot->async = 1;
  Op *wait = build_op(after, OP_DOT_WAIT, 1, &out, 1, &out->type);
  loop_replace_but(after->func->body, out, wait);
}

/* ---- clones ------------------------------------------------------------------------------------------------------ */

static void copy_axis(const Op *from, Op *to) {
  for (int i = 0; i < from->out_count; i++) to->out[i]->axis = from->out[i]->axis;
  for (int i = 0; i < 2; i++)
    if (from->body[i]) loop_copy_axes(from->body[i], to->body[i]);
}

void loop_copy_axes(const Block *from, Block *to) {
  stack_guard();
  for (int i = 0; i < from->arg_count; i++) to->args[i]->axis = from->args[i]->axis;
  Op *clone = to->first;
  for (const Op *op = from->first; op; op = op->next, clone = clone->next) copy_axis(op, clone);
}

Op *loop_clone(Builder *b, const Op *op, Map *operands, Map *made) {
  Op *clone = op_clone(b, op, operands);
  copy_axis(op, clone);
  for (int i = 0; i < op->out_count; i++) map_put(made, op->out[i], clone->out[i]);
  return clone;
}
