/* sort along the last axis: Batcher's bitonic sort over the bits of the index.
 *
 *     for k = 1 .. n:  for j = k-1 .. 0:   compare elements i and i ^ 2^j; the smaller goes where bit j is 0, or,
 *                                          where bit k of i is set,
 *                                          where bit j is 1
 *
 * Bit j is a bit of the register, the lane or the warp, so each step is an exchange of one of three kinds: two
 * registers of a thread, a shuffle, or a trip through shared memory in which every thread reads its partner's slot. Bit
 * k says the direction: known for a register bit, a predicate for a lane or warp bit, and for the last k the
 * operation's. What is bitonic takes the last k alone.
 *
 * Elements are compared as integers. A float's bits, with those below the sign flipped when the sign is set, order as
 * signed numbers do, -0 before 0; NaN becomes the largest key first, and the one quiet NaN at the end
 * (interp/ops_sort.c).
 */
#include "gpu/lower/move.h"

/* ---- keys -------------------------------------------------------------------------------------------------------- */

typedef struct Key {
  Dtype dtype;
  int bits;         /* of the element */
  LaneKind element; /* its kind */
  LaneKind kind;    /* of the key: s32 u32 s64 u64 */
} Key;

static Key key_of(const Type *t) {
  Dtype d = t->ptr ? DT_U64 : t->dtype;
  Key k = {.dtype = d, .bits = 8 * dtype_bytes(d), .element = lane_kind_of(t)};
  bool is_signed = dtype_is_float(d) || dtype_is_signed(d);
  k.kind = k.bits == 64 ? (is_signed ? LK_S64 : LK_U64) : (is_signed ? LK_S32 : LK_U32);
  return k;
}

static LaneType key_type(const Key *k) { return lane_kind_info[k->kind].type; }

/* NaN is what has more than these bits below the sign, or, in types without infinity or -0, just the sign. */
static bool find_nan(const Key *k, uint64_t *above, bool *is_sign) {
  *is_sign = false;
  switch (k->dtype) {
    case DT_F64: *above = 0x7FF0000000000000u; return true;
    case DT_F32: *above = 0x7F800000u; return true;
    case DT_F16: *above = 0x7C00u; return true;
    case DT_BF16: *above = 0x7F80u; return true;
    default: break;
  }
  for (int x = 1; x < 128; x++) {
    uint8_t byte = (uint8_t)x;
    double v = dtype_load_float(k->dtype, &byte);
    if (v == v) continue;
    *above = (uint64_t)x - 1;
    return true;
  }
  uint8_t sign = 0x80;
  double v = dtype_load_float(k->dtype, &sign);
  *is_sign = v != v;
  return *is_sign;
}

static LaneValue *constant(Lower *l, const Key *k, uint64_t v) { return lane_const(&l->b, key_type(k), v); }

static uint64_t below_sign(const Key *k) { return (1ull << (k->bits - 1)) - 1; }

/* The key that is larger than all others. */
static uint64_t nan_key(const Key *k) { return k->bits == 8 ? 0x100 : below_sign(k); }

/* key = x ^ (x's sign, all over the bits below it), extended by the sign; its own inverse. */
static LaneValue *flip(Lower *l, const Key *k, LaneValue *x) {
  LaneBuilder *b = &l->b;
  int width = k->bits == 64 ? 64 : 32;
  LaneKind plain = k->bits == 64 ? LK_B64 : LK_B32;
  LaneValue *sign = lane_2(b, LANE_SHR, k->kind, x, lane_i32(b, width - 1));
  return lane_2(b, LANE_XOR, plain, x, lane_2(b, LANE_AND, plain, sign, constant(l, k, below_sign(k))));
}

static LaneValue *to_key(Lower *l, const Key *k, LaneValue *x) {
  LaneBuilder *b = &l->b;
  if (k->dtype == DT_I1) return lane_select(b, x, lane_i32(b, 1), lane_i32(b, 0));
  if (!dtype_is_float(k->dtype)) return x;
  if (lower_kind_type(k->element) == LT_B16) x = lane_pack(b, x, lane_const(b, LT_B16, 0));
  uint64_t above;
  bool is_sign, any = find_nan(k, &above, &is_sign);
  LaneKind plain = k->bits == 64 ? LK_B64 : LK_B32, whole = k->bits == 64 ? LK_U64 : LK_U32;
  LaneValue *nan = NULL;
  if (any && is_sign) nan = lane_setp(b, CMP_EQ, whole, x, constant(l, k, 0x80));
  else if (any)
    nan = lane_setp(b, CMP_GT, whole, lane_2(b, LANE_AND, plain, x, constant(l, k, below_sign(k))),
                    constant(l, k, above));
  if (k->bits < 32) x = lane_bfe(b, LK_S32, x, 0, k->bits);
  x = flip(l, k, x);
  return nan ? lane_select(b, nan, constant(l, k, nan_key(k)), x) : x;
}

static LaneValue *from_key(Lower *l, const Key *k, LaneValue *x) {
  LaneBuilder *b = &l->b;
  if (k->dtype == DT_I1) return lane_setp(b, CMP_NE, LK_U32, x, lane_i32(b, 0));
  if (!dtype_is_float(k->dtype)) return x;
  uint64_t quiet = 0, above;
  bool is_sign;
  LaneValue *back = flip(l, k, x);
  if (find_nan(k, &above, &is_sign)) {
    dtype_store_float(k->dtype, &quiet, __builtin_nan(""));
    LaneValue *nan = lane_setp(b, CMP_EQ, k->bits == 64 ? LK_U64 : LK_U32, x, constant(l, k, nan_key(k)));
    back = lane_select(b, nan, constant(l, k, quiet), back);
  }
  if (lower_kind_type(k->element) == LT_B16) {
    LaneValue *low, *high;
    lane_unpack(b, back, &low, &high);
    return low;
  }
  return k->bits < 32 ? lane_extend(b, k->bits == 8 ? LK_U8 : LK_U16, back) : back;
}

/* ---- exchanges --------------------------------------------------------------------------------------------------- */

typedef struct Sort {
  const Layout *layout;
  Axis axis;
  Key key;
  bool descending;
  int n;
  LaneValue **v;
} Sort;

/* Whether bit k of the index is set, where the thread says it: a predicate; else NULL and *known. */
static LaneValue *index_bit(Lower *l, const Sort *s, int k, int reg, bool *known) {
  *known = false;
  if (k >= s->axis.n) return NULL;
  const AxisBit *at = &s->axis.at[k];
  if (at->kind == AXIS_REG) {
    *known = reg >> at->bit & 1;
    return NULL;
  }
  return lower_thread_bit(l, at->kind == AXIS_LANE ? at->bit : 5 + at->bit);
}

static LaneValue *smaller(Lower *l, const Sort *s, LaneValue *x, LaneValue *y) {
  return lane_2(&l->b, LANE_MIN, s->key.kind, x, y);
}
static LaneValue *larger(Lower *l, const Sort *s, LaneValue *x, LaneValue *y) {
  return lane_2(&l->b, LANE_MAX, s->key.kind, x, y);
}

static void exchange_registers(Lower *l, Sort *s, int k, int bit) {
  for (int r = 0; r < s->n; r++) {
    if (r >> bit & 1) continue;
    bool down;
    LaneValue *turned = index_bit(l, s, k, r, &down), *x = s->v[r], *y = s->v[r | 1 << bit];
    LaneValue *low = smaller(l, s, x, y), *high = larger(l, s, x, y);
    down ^= s->descending;
    if (!turned) {
      s->v[r] = down ? high : low;
      s->v[r | 1 << bit] = down ? low : high;
      continue;
    }
    s->v[r] = lane_select(&l->b, turned, down ? low : high, down ? high : low);
    s->v[r | 1 << bit] = lane_select(&l->b, turned, down ? high : low, down ? low : high);
  }
}

/* What the partner across bit j has is in other[]: this thread keeps one of the two. */
static void keep_one(Lower *l, Sort *s, int k, int thread_bit, LaneValue *const *other) {
  LaneBuilder *b = &l->b;
  LaneValue *upper = lower_thread_bit(l, thread_bit);
  for (int r = 0; r < s->n; r++) {
    bool down;
    LaneValue *turned = index_bit(l, s, k, r, &down);
    down ^= s->descending;
    /* keep the larger, or `down` the smaller */
    LaneValue *large = turned ? lane_2(b, LANE_XOR, LK_PRED, upper, turned) : upper;
    LaneValue *low = smaller(l, s, s->v[r], other[r]), *high = larger(l, s, s->v[r], other[r]);
    s->v[r] = lane_select(b, large, down ? low : high, down ? high : low);
  }
}

static void exchange_lanes(Lower *l, Sort *s, int k, int bit, LaneValue **other) {
  LaneValue *mask = lane_i32(&l->b, 1 << bit);
  for (int r = 0; r < s->n; r++) other[r] = lane_shfl(&l->b, SHUFFLE_XOR, s->v[r], mask);
  keep_one(l, s, k, bit, other);
}

/* Slot (register, thread) of a buffer; as many registers at a time as shared memory holds. */
static void exchange_warps(Lower *l, Sort *s, int k, int bit, LaneValue **other) {
  LaneBuilder *b = &l->b;
  int threads = 32 * l->f->num_warps, bytes = lower_shared_bytes(key_type(&s->key)), at_once = s->n;
  while (at_once > 1 && at_once * threads * bytes > l->target->shared_bytes / l->target->budgets->moved_share)
    at_once /= 2;
  int buffer = lane_buffer(b, "sort", at_once * threads * bytes, 16);
  LaneValue *base = lane_shared(b, buffer), *size = lane_i32(b, bytes);
  LaneValue *mine = lane_2(b, LANE_MUL, LK_S32, l->tid, size);
  LaneValue *partner = lane_2(b, LANE_XOR, LK_B32, mine, lane_i32(b, (32 << bit) * bytes));
  mine = lane_2(b, LANE_ADD, LK_S32, base, mine);
  partner = lane_2(b, LANE_ADD, LK_S32, base, partner);
  for (int first = 0; first < s->n; first += at_once) {
    if (first) lane_barrier(b, false);
    for (int i = 0; i < at_once; i++)
      lower_shared_store(l, key_type(&s->key), mine, (int64_t)i * threads * bytes, buffer, s->v[first + i], NULL);
    lane_barrier(b, false);
    for (int i = 0; i < at_once; i++)
      other[first + i] = lower_shared_load(l, key_type(&s->key), partner, (int64_t)i * threads * bytes, buffer);
  }
  keep_one(l, s, k, 5 + bit, other);
}

void lower_sort(Lower *l, Op *op) {
  const Value *in = op->in[0], *out = op->out[0];
  const Type *t = in->type;
  Sort s = {.descending = op->descending != 0, .key = key_of(t)};
  LaneValue **regs;
  LaneKind kind;
  s.layout = lower_axis_operands(l, op, t->rank - 1, false, &regs, &kind, &s.axis);
  s.n = layout_registers(s.layout);
  s.v = lower_array(l, s.n);
  LaneValue **other = lower_array(l, s.n);
  for (int r = 0; r < s.n; r++) s.v[r] = to_key(l, &s.key, regs[r]);
  for (int k = op->bitonic ? s.axis.n : 1; k <= s.axis.n; k++)
    for (int j = k - 1; j >= 0; j--) {
      const AxisBit *at = &s.axis.at[j];
      if (at->kind == AXIS_REG) exchange_registers(l, &s, k, at->bit);
      else if (at->kind == AXIS_LANE) exchange_lanes(l, &s, k, at->bit, other);
      else exchange_warps(l, &s, k, at->bit, other);
    }
  LaneValue **sorted = lower_array(l, s.n);
  for (int r = 0; r < s.n; r++) sorted[r] = from_key(l, &s.key, s.v[r]);
  lower_set(l, out, lower_convert_kind(l, sorted, kind, s.layout, out->layout));
}
