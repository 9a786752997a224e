/* lower_control: for, while, if.
 *
 * A carried tensor becomes as many carried registers as its layout has, or half as many of 16-bit elements. What a
 * condition or a bound says is the same for all threads of a program, since it is a scalar of the tile IR; only inside
 * bodies that work on single elements (`map`) threads go their own ways.
 */
#include "gpu/lower/lower.h"

typedef struct Flat {
  LaneValue **at;
  int n;
} Flat;

/* Halves travel two in a register. */
static bool is_paired(const Value *v) { return lane_type_of(v->type) == LT_B16 && lower_count(v) % 2 == 0; }
static int carried_count(const Value *v) { return lower_count(v) >> is_paired(v); }

/* The registers of all these values in a row. */
static Flat flatten(Lower *l, Value *const *values, int n) {
  Flat f = {0};
  for (int i = 0; i < n; i++) f.n += carried_count(values[i]);
  f.at = lower_array(l, f.n);
  for (int i = 0, k = 0; i < n; i++) {
    LaneValue **regs = lower_get(l, values[i]);
    int count = carried_count(values[i]);
    bool paired = is_paired(values[i]);
    for (int r = 0; r < count; r++) f.at[k++] = paired ? lane_pack(&l->b, regs[2 * r], regs[2 * r + 1]) : regs[r];
  }
  return f;
}

/* Gives each value its share of the row. */
static void unflatten(Lower *l, Value *const *values, int n, LaneValue **row) {
  for (int i = 0; i < n; i++) {
    int count = carried_count(values[i]);
    LaneValue **regs = row;
    if (is_paired(values[i])) {
      regs = lower_array(l, 2 * count);
      for (int r = 0; r < count; r++) lane_unpack(&l->b, row[r], &regs[2 * r], &regs[2 * r + 1]);
    }
    lower_set(l, values[i], regs);
    row += count;
  }
}

static LaneKind counter_kind(const Type *t) {
  bool wide = dtype_bits(t->dtype) == 64;
  return dtype_is_signed(t->dtype) ? wide ? LK_S64 : LK_S32 : wide ? LK_U64 : LK_U32;
}

/* As its constant bounds say, which are not negative. */
static bool runs_at_least_once(Lower *l, const Op *loop) {
  uint64_t bound[3];
  for (int i = 0; i < 3; i++)
    if (!lane_is_const(lower_get(l, loop->in[i])[0], &bound[i]) || bound[i] > INT32_MAX) return false;
  return bound[0] < bound[1] && bound[2] > 0;
}

static void lower_for(Lower *l, Op *op) {
  LaneBuilder *b = &l->b;
  Block *body = op->body[0];
  LowerMembar *before = lower_membar_loop(l, op);
  Flat init = flatten(l, op->in + 3, op->in_count - 3);
  LaneKind k = counter_kind(op->in[0]->type);
  LaneOp *loop = lane_for(b, k, lower_get(l, op->in[0])[0], lower_get(l, op->in[1])[0], lower_get(l, op->in[2])[0],
                          init.n, init.at);
  lower_membar_here(l);
  loop->uniform = !l->divergent;
  loop->unroll = (uint8_t)(op->unroll < 0 ? 0 : op->unroll > 255 ? 255 : op->unroll);
  unflatten(l, body->args, body->arg_count, loop->body[0]->args);
  Op *end = lower_body(l, body);
  Flat next = flatten(l, end->in, end->in_count);
  lane_yield(b, next.n, next.at);
  lane_leave(b, loop);
  lower_membar_here(l);
  if (!runs_at_least_once(l, op)) lower_membar_join(l, before);
  unflatten(l, op->out, op->out_count, loop->out);
}

static void lower_while(Lower *l, Op *op) {
  LaneBuilder *b = &l->b;
  lower_membar_loop(l, op);
  Flat init = flatten(l, op->in, op->in_count);
  LaneOp *loop = lane_while(b, init.n, init.at);
  lower_membar_here(l);
  loop->uniform = !l->divergent;
  loop->waits = (uint8_t)op_waits(op);
  unflatten(l, op->body[0]->args, op->body[0]->arg_count, loop->body[0]->args);
  Op *end = lower_body(l, op->body[0]);
  Flat handed = flatten(l, end->in + 1, end->in_count - 1);
  lane_condition(b, lower_get(l, end->in[0])[0], handed.n, handed.at);
  LowerMembar *left = lower_membar_branch(l, NULL); /* where the loop ends */
  lane_enter(b, loop, 1);
  lower_membar_here(l);
  unflatten(l, op->body[1]->args, op->body[1]->arg_count, loop->body[1]->args);
  end = lower_body(l, op->body[1]);
  Flat next = flatten(l, end->in, end->in_count);
  lane_yield(b, next.n, next.at);
  lane_leave(b, loop);
  lower_membar_branch(l, left);
  unflatten(l, op->out, op->out_count, loop->out);
}

static void lower_if(Lower *l, Op *op) {
  LaneBuilder *b = &l->b;
  int n = 0, k = 0;
  for (int i = 0; i < op->out_count; i++) n += carried_count(op->out[i]);
  LaneType *types = NEW_N(l->cx->arena, LaneType, n + 1);
  for (int i = 0; i < op->out_count; i++)
    for (int r = carried_count(op->out[i]); r > 0; r--)
      types[k++] = is_paired(op->out[i]) ? LT_B32 : lane_type_of(op->out[i]->type);
  LaneOp *branch = lane_if(b, lower_get(l, op->in[0])[0], !l->divergent, n, types);
  LowerMembar *before = lower_membar_branch(l, NULL), *first = NULL;
  for (int i = 0; i < 2; i++) {
    if (i) lane_enter(b, branch, 1);
    if (i) first = lower_membar_branch(l, before);
    Op *end = lower_body(l, op->body[i]);
    Flat values = flatten(l, end->in, end->in_count);
    lane_yield(b, values.n, values.at);
  }
  lane_leave(b, branch);
  lower_membar_join(l, first);
  unflatten(l, op->out, op->out_count, branch->out);
}

/* A thread that computes gets what those that copy leave, in eights. */
static void set_registers(Lower *l, bool computes) {
  const GpuBudgets *budgets = l->target->budgets;
  int warps = l->f->num_warps, all = GPU_REGISTERS / (32 * l->out->num_warps) / 8 * 8,
      most = (all * l->out->num_warps - budgets->copying * lower_copy_warps(l->f)) / warps / 8 * 8;
  if (most > budgets->computing) most = budgets->computing;
  if (all >= most) return; /* there are enough */
  lane_simple(&l->b, LANE_SETMAXNREG, computes ? most : budgets->copying, -1)->inc = computes;
}

/* Warps that compute, and one that copies for them; barriers are of those that compute. */
static void lower_parts(Lower *l, Op *op) {
  LaneBuilder *b = &l->b;
  int warps = l->f->num_warps;
  LaneOp *parts = lane_if(b, lower_get(l, op->in[0])[0], false, 0, NULL);
  parts->warps = (uint8_t)warps;
  LowerMembar *before = lower_membar_branch(l, NULL);
  b->part_warps = warps, b->part = 1;
  set_registers(l, true);
  lower_tensor_open_part(l, true);
  lower_body(l, op->body[0]);
  lower_tensor_close(l);
  lane_yield(b, 0, NULL);
  lane_enter(b, parts, 1);
  LowerMembar *first = lower_membar_branch(l, before);
  b->part_warps = lower_copy_warps(l->f), b->part = 2;
  set_registers(l, false);
  l->first_thread = 32 * warps;
  lower_tensor_open_part(l, false);
  LaneOp *one = lane_if(b, lane_setp(b, CMP_EQ, LK_S32, l->warp, lane_i32(b, warps)), false, 0, NULL);
  l->divergent++;
  lower_body(l, op->body[1]);
  l->first_thread = 0;
  l->divergent--;
  lane_yield(b, 0, NULL);
  lane_enter(b, one, 1);
  lane_yield(b, 0, NULL);
  lane_leave(b, one);
  lane_yield(b, 0, NULL);
  b->part_warps = b->part = 0;
  lane_leave(b, parts);
  lower_membar_join(l, first);
}

void lower_control(Lower *l, Op *op) {
  if (op->code == OP_IF) {
    if (op->in[0]->def && op->in[0]->def->code == OP_COMPUTES) lower_parts(l, op);
    else lower_if(l, op);
    return;
  }
  StagedOperand *loop_staged = l->loop_staged;
  int64_t loop_staged_bytes = l->loop_staged_bytes;
  lower_dots_before(l, op);
  if (op->code == OP_FOR) lower_for(l, op);
  else lower_while(l, op);
  l->loop_staged = loop_staged;
  l->loop_staged_bytes = loop_staged_bytes;
}
