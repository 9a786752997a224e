/* What some operations ask of a layout, and layouts made for them.
 *
 * Reductions, scans and sorts work along an axis: first what a thread holds, then across lanes, then across warps. So
 * each vector must lie in the axis or outside it. A scan goes on from there in order: of the axis' bits the lowest in
 * registers, then in lanes, then in warps, the highest in registers again:
 *
 *     f32[1024], 4 warps      reg 1 2   lane 4 8 16 32 64   warp 128 256   reg 512
 */
#include "layout/choose.h"

static bool is_bit(uint32_t x) { return x && !(x & (x - 1)); }

/* The axis that the operation works along, as a mask of index bits. */
static uint32_t axis_of(const Op *op) {
  const Type *t = op->in[0]->type;
  return layout_dim_mask(t, op->code == OP_SORT ? t->rank - 1 : (int)op->axis);
}

static bool in_or_out(const Layout *l, uint32_t axis, bool bits) {
  for (int i = 0; i < layout_inputs(l); i++) {
    uint32_t in = l->basis[i] & axis;
    if (in && (in != l->basis[i] || (bits && !is_bit(in)))) return false;
  }
  return true;
}

/* Low registers, lanes, warps, high registers: ascending. */
static bool ascending(const Layout *l, uint32_t axis) {
  uint32_t lowest_thread = 0, last = 0;
  for (int i = l->reg_bits; i < layout_inputs(l); i++) {
    uint32_t v = l->basis[i] & axis;
    if (!v) continue;
    if (!lowest_thread) lowest_thread = v;
    if (v < last) return false;
    last = v;
  }
  uint32_t low = 0, high = last;
  for (int i = 0; i < l->reg_bits; i++) {
    uint32_t v = l->basis[i] & axis;
    if (!v) continue;
    uint32_t *side = lowest_thread && v < lowest_thread ? &low : &high;
    if (!lowest_thread) side = &low;
    if (v < *side) return false;
    *side = v;
  }
  return true;
}

static bool holds_low_bits(const Layout *l, int count) {
  int found = 0;
  for (int i = 0; i < layout_inputs(l); i++) {
    uint32_t low = l->basis[i] & ((UINT32_C(1) << count) - 1);
    if (!low) continue;
    if (i >= l->reg_bits || low != l->basis[i] || !is_bit(low)) return false;
    found++;
  }
  return found == count;
}

/* How many of the lowest bits of the index must lie in registers: those of elements that one thread needs together. */
static int together(const Op *op) { return op->code == OP_MAP ? log2_floor(op->pack) : op->code == OP_SPLIT ? 1 : 0; }

bool layout_suits(const Op *op, const Layout *l) {
  switch (op->code) {
    case OP_REDUCE: return in_or_out(l, axis_of(op), false);
    case OP_SORT: return in_or_out(l, axis_of(op), true);
    case OP_SCAN: return in_or_out(l, axis_of(op), true) && ascending(l, axis_of(op));
    case OP_MAP:
    case OP_SPLIT: return holds_low_bits(l, together(op));
    default: return true;
  }
}

/* The axis' places in `near`, in the order that a scan wants; NULL when they are not single bits. */
static const Layout *in_order(Chooser *c, const Layout *near, uint32_t axis) {
  if (!in_or_out(near, axis, true)) return NULL;
  Layout l = *near;
  int places[F2_MAX], n = 0, low = 0;
  uint32_t lowest_thread = 0;
  for (int i = l.reg_bits; i < layout_inputs(&l); i++) {
    uint32_t v = l.basis[i] & axis;
    if (v && (!lowest_thread || v < lowest_thread)) lowest_thread = v;
  }
  for (int i = 0; i < l.reg_bits; i++)
    if (l.basis[i] & axis && (!lowest_thread || l.basis[i] < lowest_thread)) places[n++] = i;
  low = n;
  for (int i = l.reg_bits; i < layout_inputs(&l); i++)
    if (l.basis[i] & axis) places[n++] = i;
  for (int i = 0; i < l.reg_bits; i++) {
    bool is_low = false;
    for (int k = 0; k < low; k++) is_low |= places[k] == i;
    if (l.basis[i] & axis && !is_low) places[n++] = i;
  }
  uint32_t bit = axis & -axis;
  for (int k = 0; k < n; k++, bit <<= 1) l.basis[places[k]] = bit;
  return layout_make(c->cx, &l);
}

const Layout *layout_suitable(Chooser *c, const Op *op, const Layout *near) {
  const Type *t = op->in[0]->type;
  if (near && layout_suits(op, near)) return near;
  if (near && op->code == OP_SCAN) {
    const Layout *l = in_order(c, near, axis_of(op));
    if (l && layout_suits(op, l)) return l;
  }
  const Layout *l = layout_default(c->cx, t, c->num_warps);
  if (layout_suits(op, l)) return l;
  Type flat = {.dtype = t->dtype, .rank = 1, .shape = {(int32_t)type_numel(t)}};
  return layout_blocked(c->cx, &flat, &(int){1 << together(op)}, &(int){0}, c->num_warps);
}

/* ---- what a reduction leaves ------------------------------------------------------------------------------------- */

/* Registers of the axis are combined in the thread. Across a lane of the axis, lanes share the lines that the thread's
 * registers hold, each going on with half of them (gpu/lower/reduce.c): so the lines come to lie where the axis was.
 * What warps hold is exchanged, and all get it. */
const Layout *layout_reduced(Context *cx, const Type *t, const Layout *l, int axis) {
  const Layout *slice = layout_slice(cx, t, l, axis);
  uint32_t mask = layout_dim_mask(t, axis);
  Layout left = *slice;
  if (slice->lane_bits != l->lane_bits || slice->warp_bits != l->warp_bits) return slice;
  for (int i = 0; i < l->lane_bits && left.reg_bits; i++) {
    if (!(l->basis[l->reg_bits + i] & mask) || left.basis[left.reg_bits + i]) continue;
    uint32_t line = left.basis[--left.reg_bits];
    memmove(left.basis + left.reg_bits, left.basis + left.reg_bits + 1,
            sizeof *left.basis * (size_t)(left.lane_bits + left.warp_bits));
    left.basis[left.reg_bits + i] = line;
  }
  return layout_make(cx, &left);
}

/* ---- the other way through reduce and broadcast ------------------------------------------------------------------ */

/* The bits of the axis go to lanes and warps that hold copies, else to registers, where they are added up without
 * talking to anyone. */
const Layout *layout_widened(Context *cx, const Type *t, const Layout *l, int axis) {
  int first = layout_dim_shift(t, axis), count = log2_floor(t->shape[axis]), bit = first;
  Layout w = *l;
  w.out_bits = log2_floor(type_numel(t));
  uint32_t low = (UINT32_C(1) << first) - 1;
  for (int i = 0; i < layout_inputs(&w); i++) w.basis[i] = (w.basis[i] & low) | (w.basis[i] & ~low) << count;
  for (int i = w.reg_bits; i < layout_inputs(&w) && bit < first + count; i++)
    if (!w.basis[i]) w.basis[i] = UINT32_C(1) << bit++;
  int more = first + count - bit;
  memmove(w.basis + w.reg_bits + more, w.basis + w.reg_bits, sizeof *w.basis * (size_t)(w.lane_bits + w.warp_bits));
  for (; bit < first + count; bit++) w.basis[w.reg_bits++] = UINT32_C(1) << bit;
  return layout_make(cx, &w);
}
