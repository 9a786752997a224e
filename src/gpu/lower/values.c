/* What a tile value is in lane IR, and which element a thread holds: what all of src/gpu/lower shares.
 *
 * A tile value becomes an array of lane values, one for each register of its layout, a scalar becomes one. In the
 * kernel
 *
 *     %x = load %p : f32[8,32]        reg 0: 1  reg 1: 2 | lane 0: 4 ... lane 3: 32 ... | warp 0: 128
 *
 * %x is four lane values: registers 0 to 3 hold columns c, c+1, c+2, c+3 of a row, where c and the row follow from the
 * thread. What a thread holds in register 0 (the thread part of its index) is computed once for a layout: the builder
 * finds it again. Register r adds a constant, its register part, which ends as the offset of an address. For ordinary
 * layouts the two have no bit in common, so that the xor of the layout is an addition.
 *
 * The thread part is a linear map of the thread's id. Bits that move by one distance move together: `(tid & mask) <<
 * n`, and a blocked layout has one or two such groups for each dim (lower_linear).
 */
#include "gpu/lower/lower.h"

/* ---- values ------------------------------------------------------------------------------------------------------ */

int lower_count(const Value *v) { return v->type->rank ? layout_registers(v->layout) : 1; }

LaneValue **lower_array(Lower *l, int n) { return NEW_N(l->cx->arena, LaneValue *, n > 0 ? n : 1); }

LaneValue **lower_get(Lower *l, const Value *v) { return l->values[v->id]; }

void lower_set(Lower *l, const Value *v, LaneValue **regs) { l->values[v->id] = regs; }

LaneValue *lower_and(Lower *l, LaneValue *p, LaneValue *q) {
  return !p ? q : !q ? p : lane_2(&l->b, LANE_AND, LK_PRED, p, q);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

LaneValue *lower_linear(Lower *l, int bits, const uint32_t *columns, LaneValue *x) {
  LaneBuilder *b = &l->b;
  uint32_t all = bits >= 32 ? ~0u : (1u << bits) - 1, seen = 0;
  LaneValue *sum = NULL;
  for (int s = -(bits - 1); s < 32; s++) { /* input bit i goes to output bit i + s */
    uint32_t mask = 0;
    for (int i = 0; i < bits; i++)
      if (i + s >= 0 && i + s < 32 && (columns[i] >> (i + s) & 1)) mask |= 1u << i;
    if (!mask) continue;
    uint32_t reach = s < 0 ? all & ~((1u << -s) - 1) : all; /* what a shift alone would bring */
    LaneValue *part = x;
    if (mask != reach) part = lane_2(b, LANE_AND, LK_B32, part, lane_const(b, LT_B32, mask));
    if (s < 0) part = lane_2(b, LANE_SHR, LK_U32, part, lane_i32(b, -s));
    else if (s > 0) part = lane_2(b, LANE_SHL, LK_B32, part, lane_i32(b, s));
    uint32_t image = s < 0 ? mask >> -s : mask << s;
    sum = !sum ? part : lane_2(b, seen & image ? LANE_XOR : LANE_OR, LK_B32, sum, part);
    seen |= image;
  }
  return sum ? sum : lane_i32(b, 0);
}

/* The map from the thread's id, with the bits outside `mask` cleared and the rest moved down by `shift`. */
static LaneValue *thread_part(Lower *l, const Layout *layout, uint32_t mask, int shift, uint32_t *image) {
  uint32_t columns[F2_MAX] = {0};
  int bits = layout->lane_bits + layout->warp_bits;
  *image = 0;
  for (int i = 0; i < bits; i++) {
    columns[i] = (layout->basis[layout->reg_bits + i] & mask) >> shift;
    *image |= columns[i];
  }
  return lower_linear(l, bits, columns, l->tid);
}

static LaneValue *with_register(Lower *l, LaneValue *thread, uint32_t image, uint32_t part) {
  if (!part) return thread;
  LaneCode code = image & part ? LANE_XOR : LANE_ADD;
  return lane_2(&l->b, code, code == LANE_ADD ? LK_S32 : LK_B32, thread, lane_const(&l->b, LT_B32, part));
}

LaneValue *lower_element(Lower *l, const Layout *layout, int reg) {
  uint32_t image;
  LaneValue *thread = thread_part(l, layout, ~0u, 0, &image);
  return with_register(l, thread, image, layout_register_part(layout, reg));
}

LaneValue *lower_index(Lower *l, const Type *t, const Layout *layout, int reg, int d) {
  uint32_t mask = layout_dim_mask(t, d), image;
  int shift = layout_dim_shift(t, d);
  if (!mask) return lane_i32(&l->b, 0);
  LaneValue *thread = thread_part(l, layout, mask, shift, &image);
  return with_register(l, thread, image, (layout_register_part(layout, reg) & mask) >> shift);
}

uint32_t lower_same(const Value *v) {
  const Layout *layout = v->layout;
  if (!v->type->rank || !v->axis) return 0;
  uint32_t flat = 0, same = 0; /* flat: bits of the element's index that make no difference */
  for (int d = 0; d < v->type->rank; d++) {
    int64_t run = v->axis->constant[d] & -v->axis->constant[d];
    if (run > v->type->shape[d]) run = v->type->shape[d];
    flat |= (uint32_t)(run - 1) << layout_dim_shift(v->type, d);
  }
  for (int i = 0; i < layout->reg_bits; i++)
    if (!(layout->basis[i] & ~flat)) same |= 1u << i;
  return same;
}

LaneValue *lower_elected_thread(Lower *l, const Layout *layout) {
  LaneBuilder *b = &l->b;
  if (l->divergent) return NULL; /* each thread works on an element of its own */
  uint32_t copies = layout ? layout_copies(layout) : (uint32_t)(32 * l->f->num_warps - 1);
  if (!copies) return NULL;
  LaneValue *bits = l->tid;
  if (copies != (uint32_t)(32 * l->f->num_warps - 1))
    bits = lane_2(b, LANE_AND, LK_B32, bits, lane_const(b, LT_B32, copies));
  return lane_setp(b, CMP_EQ, LK_U32, bits, lane_i32(b, 0));
}
