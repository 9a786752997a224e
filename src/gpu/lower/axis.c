/* lower_axis: what reduce, scan and sort share: which bits of a place (register, lane, warp) run along an axis.
 *
 *     f32[8,32], axis 1           reg 0: 1   reg 1: 2    lane 0..2: 4 8 16    lane 3, 4: 32 64     warp 0: 128
 *     along the axis, from the    reg 0,     reg 1,      lane 0, lane 1, lane 2
 *     lowest bit of the index up
 *
 * Each of these operations goes through the bits of the axis one at a time or in runs, and does with a register bit
 * what needs no communication, with a lane bit what a shuffle does, with warp bits what goes through shared memory.
 * Results are right for any associative body as long as bits are taken from the lowest up: then what is combined are
 * neighbours, lower indices first.
 *
 * That needs vectors of one bit each. layout_choose sees to it; a layout in which an axis bit is shared by several
 * vectors is left for another one here.
 */
#include "gpu/lower/move.h"

bool lower_axis(const Type *t, const Layout *layout, int axis, Axis *out) {
  memset(out, 0, sizeof *out);
  out->shift = layout_dim_shift(t, axis);
  out->mask = layout_dim_mask(t, axis);
  out->n = log2_floor(t->shape[axis]);
  bool found[F2_MAX] = {0};
  for (int i = 0; i < layout->reg_bits + layout->lane_bits + layout->warp_bits; i++) {
    uint32_t v = layout->basis[i];
    if (!(v & out->mask)) continue;
    if ((v & ~out->mask) || (v & (v - 1))) return false;
    int bit = __builtin_ctz(v) - out->shift;
    if (found[bit]) return false;
    found[bit] = true;
    AxisBit *at = &out->at[bit];
    at->axis = bit;
    at->kind = i < layout->reg_bits ? AXIS_REG : i < layout->reg_bits + layout->lane_bits ? AXIS_LANE : AXIS_WARP;
    at->bit = i - (at->kind == AXIS_REG    ? 0
                   : at->kind == AXIS_LANE ? layout->reg_bits
                                           : layout->reg_bits + layout->lane_bits);
  }
  for (int i = 0; i < out->n; i++)
    if (!found[i]) return false;
  return true;
}

/* The same places with other names along the axis: vectors of several bits, as long as they are independent, stand for
 * one bit each. What combines elements in any order does not care which is which. NULL where that cannot be. */
static const Layout *renamed(Lower *l, const Type *t, const Layout *layout, int axis) {
  Layout names = *layout;
  uint32_t mask = layout_dim_mask(t, axis), next = 1u << layout_dim_shift(t, axis), basis[F2_MAX];
  int n = 0;
  for (int i = 0; i < layout->reg_bits + layout->lane_bits + layout->warp_bits; i++) {
    uint32_t v = layout->basis[i], rest = v;
    if (!(v & mask)) continue;
    for (int j = 0; j < n; j++)
      if (rest & (1u << (31 - __builtin_clz(basis[j])))) rest ^= basis[j];
    if ((v & ~mask) || !rest) return NULL;
    basis[n++] = rest;
    names.basis[i] = next;
    next <<= 1;
  }
  return n == log2_floor(t->shape[axis]) ? layout_make(l->cx, &names) : NULL;
}

const Layout *lower_axis_operands(Lower *l, Op *op, int axis, bool any_order, LaneValue ***regs, LaneKind *kinds,
                                  Axis *out) {
  const Value *first = op->in[0];
  const Layout *layout = first->layout;
  for (int i = 0; i < op->in_count; i++) {
    kinds[i] = lane_kind_of(op->in[i]->type);
    regs[i] = lower_get(l, op->in[i]);
  }
  if (!lower_axis(first->type, layout, axis, out)) {
    const Layout *names = any_order ? renamed(l, first->type, layout, axis) : NULL;
    if (names && lower_axis(first->type, names, axis, out)) return names;
    layout = layout_default(l->cx, first->type, l->f->num_warps);
    lower_axis(first->type, layout, axis, out);
  }
  for (int i = 0; i < op->in_count; i++) regs[i] = lower_convert_kind(l, regs[i], kinds[i], op->in[i]->layout, layout);
  return layout;
}

void lower_combine(Lower *l, Op *op, LaneValue *const *a, LaneValue *const *b, LaneValue **out) {
  LaneValue *few[16], **args = 2 * op->in_count <= 16 ? few : lower_array(l, 2 * op->in_count);
  for (int i = 0; i < op->in_count; i++) {
    args[i] = a[i];
    args[op->in_count + i] = b[i];
  }
  lower_inline(l, op->body[0], args, out);
}

/* v without the bits of `drop`, the others moved together. */
static uint32_t squeeze(uint32_t v, uint32_t drop) {
  uint32_t out = 0;
  for (int i = 0, to = 0; i < 32; i++)
    if (!(drop >> i & 1)) out |= (v >> i & 1) << to++;
  return out;
}

/* The totals are a tensor of their own: the index with `done` dropped. Going from the layout in which they are held to
 * one where the warp bits of `run` are register bits instead is an ordinary conversion. */
void lower_exchange_warps(Lower *l, int k, LaneValue ***totals, const LaneKind *kinds, const Layout *layout,
                          uint32_t done, int run_bits, const AxisBit *run, LaneValue ***out) {
  Layout from = {.lane_bits = layout->lane_bits, .warp_bits = layout->warp_bits}, to;
  from.out_bits =
      layout->out_bits - __builtin_popcount(done & ((layout->out_bits < 32 ? 1u << layout->out_bits : 0) - 1));
  for (int i = 0; i < layout->reg_bits + layout->lane_bits + layout->warp_bits; i++) {
    uint32_t v = squeeze(layout->basis[i], done);
    if (i >= layout->reg_bits) from.basis[from.reg_bits + i - layout->reg_bits] = v;
    else if (v) from.basis[from.reg_bits++] = v;
  }
  to = from;
  to.reg_bits = run_bits + from.reg_bits;
  memcpy(to.basis + run_bits, from.basis,
         sizeof *from.basis * (size_t)(from.reg_bits + from.lane_bits + from.warp_bits));
  for (int i = 0; i < run_bits; i++) {
    uint32_t *warp = &to.basis[to.reg_bits + to.lane_bits + run[i].bit];
    to.basis[i] = *warp;
    *warp = 0;
  }
  lower_convert_many(l, "scan", k, totals, kinds, layout_make(l->cx, &from), layout_make(l->cx, &to), out);
}
