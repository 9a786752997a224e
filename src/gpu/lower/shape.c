/* lower_shape: values that are made from nothing, and operations that only put elements in other places.
 *
 * Such an operation never moves data between threads: layout_choose() gave the operand the layout that the result's
 * implies, so each thread holds already what it needs, in some register. Which one follows from the registers' parts.
 * For the result's register r:
 *
 *     p = part of r in the result's layout -> q = the flat index in the operand that p comes from
 *                                          -> the operand's register with part q
 *
 * q is p itself for reshape and expand_dims, p with its bits permuted for trans, with the bits of broadcast dims left
 * out for broadcast, without the lowest bit for join.
 */
#include "gpu/lower/lower.h"

/* ---- creation ---------------------------------------------------------------------------------------------------- */

static uint64_t float_bits(Dtype t, double v) {
  uint64_t bits = 0;
  dtype_store_float(t, &bits, v);
  return bits;
}

static LaneValue *constant(Lower *l, const Op *op) {
  const Type *t = op->out[0]->type;
  LaneType type = lane_type_of(t);
  uint64_t bits = dtype_is_float(t->dtype) ? float_bits(t->dtype, op->number) : (uint64_t)op->value;
  if (type == LT_PRED) bits = bits != 0;
  else if (type == LT_B16) bits &= 0xffff;
  else if (type == LT_B32) bits &= 0xffffffff;
  return lane_const(&l->b, type, bits);
}

static LaneValue **fill(Lower *l, const Value *v, LaneValue *x) {
  int n = lower_count(v);
  LaneValue **regs = lower_array(l, n);
  for (int r = 0; r < n; r++) regs[r] = x;
  return regs;
}

static LaneValue **arange(Lower *l, const Op *op) {
  const Value *v = op->out[0];
  int n = lower_count(v);
  LaneValue **regs = lower_array(l, n), *start = lane_i32(&l->b, (int32_t)op->start);
  for (int r = 0; r < n; r++)
    regs[r] = lane_2(&l->b, LANE_ADD, LK_S32, lower_index(l, v->type, v->layout, r, 0), start);
  return regs;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static NORETURN void misfit(Lower *l, const Op *op) {
  diag_fail(l->cx, op->span ? *op->span : (Span){0},
            "the layouts of `%s` do not fit together (an error of the compiler)", op_info[op->code].name);
}

static LaneValue *register_at(Lower *l, const Op *op, const Value *from, uint32_t part) {
  int r = from->type->rank ? layout_find_register(from->layout, part) : 0;
  if (r < 0) misfit(l, op);
  return lower_get(l, from)[r];
}

/* The flat index in the operand, for trans and broadcast: dim by dim. */
static uint32_t source_index(const Op *op, uint32_t p) {
  const Type *from = op->in[0]->type, *to = op->out[0]->type;
  uint32_t q = 0;
  for (int d = 0; d < to->rank; d++) {
    int s = op->code == OP_TRANS ? (int)op->dims[d] : d;
    uint32_t index = (p & layout_dim_mask(to, d)) >> layout_dim_shift(to, d);
    if (from->shape[s] > 1) q |= index << layout_dim_shift(from, s);
  }
  return q;
}

/* The lowest bit of the index tells the operands of a join apart; it must not depend on the thread. */
static void need_in_registers(Lower *l, const Op *op, const Layout *layout, uint32_t bit) {
  for (int i = layout->reg_bits; i < layout->reg_bits + layout->lane_bits + layout->warp_bits; i++)
    if (layout->basis[i] & bit) misfit(l, op);
}

static LaneValue **join(Lower *l, const Op *op) {
  const Value *v = op->out[0];
  int n = lower_count(v);
  LaneValue **regs = lower_array(l, n);
  need_in_registers(l, op, v->layout, 1);
  for (int r = 0; r < n; r++) {
    uint32_t p = layout_register_part(v->layout, r);
    regs[r] = register_at(l, op, op->in[p & 1], p >> 1);
  }
  return regs;
}

static void split(Lower *l, const Op *op) {
  need_in_registers(l, op, op->in[0]->layout, 1);
  for (int k = 0; k < 2; k++) {
    const Value *v = op->out[k];
    int n = lower_count(v);
    LaneValue **regs = lower_array(l, n);
    for (int r = 0; r < n; r++) {
      uint32_t p = v->type->rank ? layout_register_part(v->layout, r) : 0;
      regs[r] = register_at(l, op, op->in[0], p << 1 | (uint32_t)k);
    }
    lower_set(l, v, regs);
  }
}

/* Along the axis, the top bit tells the operands apart. */
static LaneValue **cat(Lower *l, const Op *op) {
  const Value *v = op->out[0];
  int axis = (int)op->axis, n = lower_count(v), shift = layout_dim_shift(v->type, axis);
  uint32_t top = (layout_dim_mask(v->type, axis) >> shift) + 1;
  uint32_t bit = (top >> 1) << shift;
  LaneValue **regs = lower_array(l, n);
  need_in_registers(l, op, v->layout, bit);
  for (int r = 0; r < n; r++) {
    uint32_t p = layout_register_part(v->layout, r), low = p & (bit - 1), high = p & ~(bit | (bit - 1));
    regs[r] = register_at(l, op, op->in[(p & bit) != 0], high >> 1 | low);
  }
  return regs;
}

static LaneValue **move(Lower *l, const Op *op) {
  const Value *v = op->out[0];
  int n = lower_count(v);
  LaneValue **regs = lower_array(l, n);
  bool permutes = op->code == OP_TRANS || op->code == OP_BROADCAST;
  for (int r = 0; r < n; r++) {
    uint32_t p = v->type->rank ? layout_register_part(v->layout, r) : 0;
    regs[r] = register_at(l, op, op->in[0], permutes ? source_index(op, p) : p);
  }
  return regs;
}

void lower_shape(Lower *l, Op *op) {
  LaneValue **regs = NULL;
  switch (op->code) {
    case OP_CONST: regs = fill(l, op->out[0], constant(l, op)); break;
    case OP_PROGRAM_ID: regs = fill(l, op->out[0], l->program[op->axis]); break;
    case OP_COMPUTES: /* warps that follow those that compute */
      regs = fill(l, op->out[0], lane_setp(&l->b, CMP_LT, LK_S32, l->tid, lane_i32(&l->b, 32 * l->f->num_warps)));
      break;
    case OP_NUM_PROGRAMS: regs = fill(l, op->out[0], l->programs[op->axis]); break;
    case OP_ARANGE: regs = arange(l, op); break;
    case OP_SPLAT: regs = fill(l, op->out[0], lower_get(l, op->in[0])[0]); break;
    case OP_JOIN: regs = join(l, op); break;
    case OP_CAT: regs = cat(l, op); break;
    case OP_SPLIT: split(l, op); return;
    default: regs = move(l, op);
  }
  lower_set(l, op->out[0], regs);
}
