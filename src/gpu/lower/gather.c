/* gather and histogram: where an element goes, or comes from, is known at run time only. Both go through shared memory.
 *
 * gather    the source is written in row-major order; each thread reads, for each index that it holds, the element
 *           whose place along the axis is the index and whose other coordinates are the index's own:
 *
 *               src f32[8,64], index i32[8,16], axis 1     element (r, c) of the result lies at
 *                                                          (r * 64 + (index & 63)) * 4
 *
 *           An index out of range is undefined; cut to the axis's bits it reads some element, never other memory.
 * histogram counters are set to zero, added to by atomics, and read.
 *
 * What does not fit into shared memory goes through in parts.
 */
#include "gpu/lower/move.h"

static int parts_for(const Lower *l, int64_t bytes) {
  int parts = 0;
  while (bytes >> parts > l->target->shared_bytes / l->target->budgets->moved_share) parts++;
  return parts;
}

/* ---- gather ------------------------------------------------------------------------------------------------------ */

/* A flat index of the index tensor as one of the source, at 0 along the axis. */
typedef struct Renaming {
  int shift, from, to;
} Renaming;

static uint32_t rename_index(const Renaming *r, uint32_t v) {
  uint32_t inner = v & ((1u << r->shift) - 1), outer = v >> (r->shift + r->from);
  return inner | outer << (r->shift + r->to);
}

static void gather(Lower *l, Op *op) {
  LaneBuilder *b = &l->b;
  const Value *src = op->in[0], *index = op->in[1], *out = op->out[0];
  int axis = (int)op->axis;
  LaneKind kind = lane_kind_of(src->type);
  int bits = log2_floor(type_numel(src->type)), shift = lower_kind_shift(kind),
      parts = parts_for(l, (int64_t)1 << (bits + shift));
  Renaming rename = {layout_dim_shift(src->type, axis), log2_floor(index->type->shape[axis]),
                     log2_floor(src->type->shape[axis])};
  F2Map flat = f2_identity(bits);
  Place place = lower_place(l, "gather", kind, &flat, parts);

  const Layout *layout = index->layout;
  int n = layout_registers(layout), threads = layout->lane_bits + layout->warp_bits;
  uint32_t columns[F2_MAX] = {0}, thread_bits = 0;
  for (int i = 0; i < threads; i++) {
    columns[i] = rename_index(&rename, layout->basis[layout->reg_bits + i]);
    thread_bits |= columns[i];
  }
  LaneValue *thread = lower_linear(l, threads, columns, l->tid), **result = lower_array(l, n),
            **at = lower_get(l, index);
  bool wide = dtype_bits(index->type->dtype) == 64;
  for (int part = 0; part < 1 << parts; part++) {
    if (part) lane_barrier(b, false);
    lower_place_write(l, &place, lower_get(l, src), src->layout, part);
    lane_barrier(b, false);
    for (int r = 0; r < n; r++) {
      LaneValue *along = wide ? lane_cvt(b, LK_S64, LK_S32, ROUND_DEFAULT, at[r]) : at[r];
      along = lane_2(b, LANE_AND, LK_B32, along, lane_i32(b, src->type->shape[axis] - 1));
      along = lane_2(b, LANE_SHL, LK_B32, along, lane_i32(b, rename.shift));
      uint32_t own = rename_index(&rename, layout_register_part(layout, r)), common = own & thread_bits;
      LaneValue *base = common ? lane_2(b, LANE_XOR, LK_B32, thread, lane_const(b, LT_B32, common)) : thread;
      LaneValue *element = lane_2(b, LANE_ADD, LK_S32, along, base), *mine = NULL;
      uint32_t rest = own ^ common;
      if (parts) { /* the part is the highest bits of the whole */
        element = lane_2(b, LANE_ADD, LK_S32, element, lane_const(b, LT_B32, rest));
        rest = 0;
        mine = lane_setp(b, CMP_EQ, LK_U32, lane_2(b, LANE_SHR, LK_U32, element, lane_i32(b, bits - parts)),
                         lane_i32(b, part));
        element = lane_2(b, LANE_AND, LK_B32, element, lane_const(b, LT_B32, (1u << (bits - parts)) - 1));
      }
      LaneValue *address = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, place.buffer),
                                  lane_2(b, LANE_SHL, LK_B32, element, lane_i32(b, shift)));
      LaneValue *value;
      lower_vector_load(l, kind, 1, address, (int64_t)rest << shift, place.buffer, mine, &value);
      result[r] = mine && result[r] ? lane_select(b, mine, value, result[r]) : value;
    }
  }
  lower_set(l, out, lower_convert_kind(l, result, kind, layout, out->layout));
}

/* ---- histogram --------------------------------------------------------------------------------------------------- */

/* The bin as u32, and whether there is one. */
static LaneValue *bin_of(Lower *l, const Type *t, LaneValue *x, uint32_t first, uint32_t count, LaneValue **there) {
  LaneBuilder *b = &l->b;
  LaneKind kind = lane_kind_of(t);
  if (kind == LK_PRED) x = lane_select(b, x, lane_i32(b, 1), lane_i32(b, 0));
  if (lane_kind_info[kind].type == LT_B64) { /* large numbers become one that is outside too */
    LaneValue *small = lane_setp(b, CMP_LT, LK_U64, x, lane_i64(b, 1ll << 31));
    x = lane_select(b, small, lane_cvt(b, LK_U64, LK_U32, ROUND_DEFAULT, x), lane_const(b, LT_B32, UINT32_MAX));
  }
  LaneValue *bin = lane_2(b, LANE_SUB, LK_S32, x, lane_const(b, LT_B32, first));
  *there = lane_setp(b, CMP_LT, LK_U32, bin, lane_const(b, LT_B32, count));
  return bin;
}

static void histogram(Lower *l, Op *op) {
  LaneBuilder *b = &l->b;
  const Value *x = op->in[0], *out = op->out[0];
  LaneValue **regs = lower_get(l, x), **mask = NULL;
  if (op->in_count > 1) mask = lower_convert_kind(l, lower_get(l, op->in[1]), LK_PRED, op->in[1]->layout, x->layout);
  int bits = log2_floor(type_numel(out->type)), parts = parts_for(l, (int64_t)4 << bits),
      threads = 32 * l->f->num_warps;
  int count = 1 << (bits - parts);
  F2Map flat = f2_identity(bits);
  Place place = lower_place(l, "histogram", LK_S32, &flat, parts);
  LaneValue *base = lane_shared(b, place.buffer), *zero = lane_i32(b, 0), *one = lane_i32(b, 1);
  LaneValue *slot = lane_2(b, LANE_ADD, LK_S32, base, lane_2(b, LANE_SHL, LK_B32, l->tid, lane_i32(b, 2)));
  LaneValue *elected = lower_elected_thread(l, x->layout), **result = lower_array(l, layout_registers(out->layout));
  for (int part = 0; part < 1 << parts; part++) {
    if (part) lane_barrier(b, false);
    for (int i = 0; i < count; i += threads) {
      LaneValue *there = count - i < threads ? lane_setp(b, CMP_LT, LK_U32, l->tid, lane_i32(b, count - i)) : NULL;
      lane_store(b, SPACE_SHARED, LK_B32, 1, slot, (int64_t)i * 4, there, &zero)->buffer = (int16_t)place.buffer;
    }
    lane_barrier(b, false);
    for (int r = 0; r < layout_registers(x->layout); r++) {
      LaneValue *there, *bin = bin_of(l, x->type, regs[r], (uint32_t)part * (uint32_t)count, (uint32_t)count, &there);
      LaneValue *in[2] = {lane_2(b, LANE_ADD, LK_S32, base, lane_2(b, LANE_SHL, LK_B32, bin, lane_i32(b, 2))), one};
      LaneOp proto = {.code = LANE_ATOM,
                      .kind = LK_U32,
                      .space = SPACE_SHARED,
                      .rmw = RMW_ADD,
                      .sem = SEM_RELAXED,
                      .scope = SCOPE_CTA,
                      .buffer = (int16_t)place.buffer,
                      .guard = lower_and(l, lower_and(l, there, mask ? mask[r] : NULL), elected)};
      lane_op_raw(b, proto, 2, in, 0, NULL);
    }
    lane_barrier(b, false);
    lower_place_read(l, &place, result, out->layout, part);
  }
  lower_set(l, out, result);
}

void lower_gather(Lower *l, Op *op) {
  if (op->code == OP_GATHER) gather(l, op);
  else histogram(l, op);
}
