/* Operations without effect, for all threads of a block or of a warp at once.
 *
 * Inactive threads compute too: what they get nobody reads, and nothing here can fault. The common operations have a
 * loop of their own that the compiler turns into vector instructions; all others go through lane_eval thread by thread,
 * which says what each means.
 */
#include "gpu/sim/sim_plan.h"

#include <math.h>

typedef void (*Pure)(const SimOp *o, char *regs, int begin, int end);

#define OUT(type) type *out = (type *)(void *)(regs + o->out[0])
#define IN(type, i) ((const type *)(const void *)(regs + o->in[i]))

#define LOOP1(name, to, from, expr) \
  static void name(const SimOp *o, char *regs, int begin, int end) { \
    OUT(to); \
    const from *a = IN(from, 0); \
    for (int t = begin; t < end; t++) { \
      from x = a[t]; \
      out[t] = (to)(expr); \
    } \
  }
#define LOOP2(name, to, from, expr) \
  static void name(const SimOp *o, char *regs, int begin, int end) { \
    OUT(to); \
    const from *a = IN(from, 0), *b = IN(from, 1); \
    for (int t = begin; t < end; t++) { \
      from x = a[t], y = b[t]; \
      out[t] = (to)(expr); \
    } \
  }
#define LOOP3(name, to, from, expr) \
  static void name(const SimOp *o, char *regs, int begin, int end) { \
    OUT(to); \
    const from *a = IN(from, 0), *b = IN(from, 1), *c = IN(from, 2); \
    for (int t = begin; t < end; t++) { \
      from x = a[t], y = b[t], z = c[t]; \
      out[t] = (to)(expr); \
    } \
  }
#define SHIFT(name, type, expr) \
  static void name(const SimOp *o, char *regs, int begin, int end) { \
    OUT(type); \
    const type *a = IN(type, 0); \
    const uint32_t *b = IN(uint32_t, 1); \
    for (int t = begin; t < end; t++) { \
      type x = a[t]; \
      uint32_t n = b[t]; \
      out[t] = (type)(expr); \
    } \
  }
#define SELECT(name, type) \
  static void name(const SimOp *o, char *regs, int begin, int end) { \
    OUT(type); \
    const uint8_t *p = IN(uint8_t, 0); \
    const type *a = IN(type, 1), *b = IN(type, 2); \
    for (int t = begin; t < end; t++) out[t] = p[t] ? a[t] : b[t]; \
  }

/* ---- integers ---------------------------------------------------------------------------------------------------- */

LOOP2(add_32, uint32_t, uint32_t, x + y)
LOOP2(sub_32, uint32_t, uint32_t, x - y)
LOOP2(mul_32, uint32_t, uint32_t, x *y)
LOOP3(fma_32, uint32_t, uint32_t, x *y + z)
LOOP2(add_64, uint64_t, uint64_t, x + y)
LOOP2(sub_64, uint64_t, uint64_t, x - y)
LOOP2(mul_64, uint64_t, uint64_t, x *y)
LOOP3(fma_64, uint64_t, uint64_t, x *y + z)
LOOP2(and_8, uint8_t, uint8_t, x &y)
LOOP2(or_8, uint8_t, uint8_t, x | y)
LOOP2(xor_8, uint8_t, uint8_t, x ^ y)
LOOP1(not_8, uint8_t, uint8_t, x ^ 1)
LOOP2(and_32, uint32_t, uint32_t, x &y)
LOOP2(or_32, uint32_t, uint32_t, x | y)
LOOP2(xor_32, uint32_t, uint32_t, x ^ y)
LOOP1(not_32, uint32_t, uint32_t, ~x)
LOOP2(and_64, uint64_t, uint64_t, x &y)
LOOP2(or_64, uint64_t, uint64_t, x | y)
LOOP2(xor_64, uint64_t, uint64_t, x ^ y)
SHIFT(shl_32, uint32_t, n > 31 ? 0 : x << n)
SHIFT(shl_64, uint64_t, n > 63 ? 0 : x << n)
SHIFT(shr_u32, uint32_t, n > 31 ? 0 : x >> n)
SHIFT(shr_s32, int32_t, x >> (n > 31 ? 31 : n))
SHIFT(shr_u64, uint64_t, n > 63 ? 0 : x >> n)
SHIFT(shr_s64, int64_t, x >> (n > 63 ? 63 : n))
LOOP2(mulwide_s32, int64_t, int32_t, (int64_t)x *y)
LOOP2(mulwide_u32, uint64_t, uint32_t, (uint64_t)x *y)
LOOP2(min_s32, int32_t, int32_t, x < y ? x : y)
LOOP2(max_s32, int32_t, int32_t, x > y ? x : y)
LOOP2(min_u32, uint32_t, uint32_t, x < y ? x : y)
LOOP2(max_u32, uint32_t, uint32_t, x > y ? x : y)
SELECT(select_8, uint8_t)
SELECT(select_16, uint16_t)
SELECT(select_32, uint32_t)
SELECT(select_64, uint64_t)
LOOP1(widen_s32, int64_t, int32_t, x)
LOOP1(widen_u32, uint64_t, uint32_t, x)
LOOP1(cut_64, uint32_t, uint64_t, x)

static void pack_32(const SimOp *o, char *regs, int begin, int end) {
  OUT(uint32_t);
  const uint16_t *low = IN(uint16_t, 0), *high = IN(uint16_t, 1);
  for (int t = begin; t < end; t++) out[t] = low[t] | (uint32_t)high[t] << 16;
}
static void unpack_32(const SimOp *o, char *regs, int begin, int end) {
  OUT(uint16_t);
  uint16_t *high = (uint16_t *)(void *)(regs + o->out[1]);
  const uint32_t *in = IN(uint32_t, 0);
  for (int t = begin; t < end; t++) out[t] = (uint16_t)in[t], high[t] = (uint16_t)(in[t] >> 16);
}
static void pack_64(const SimOp *o, char *regs, int begin, int end) {
  OUT(uint64_t);
  const uint32_t *low = IN(uint32_t, 0), *high = IN(uint32_t, 1);
  for (int t = begin; t < end; t++) out[t] = low[t] | (uint64_t)high[t] << 32;
}
static void unpack_64(const SimOp *o, char *regs, int begin, int end) {
  OUT(uint32_t);
  uint32_t *high = (uint32_t *)(void *)(regs + o->out[1]);
  const uint64_t *in = IN(uint64_t, 0);
  for (int t = begin; t < end; t++) out[t] = (uint32_t)in[t], high[t] = (uint32_t)(in[t] >> 32);
}

/* ---- comparisons: one function a kind, the predicate chosen outside the loop ------------------------------------- */

#define COMPARE(name, type) \
  LOOP2(name##_eq, uint8_t, type, x == y) \
  LOOP2(name##_ne, uint8_t, type, x != y) \
  LOOP2(name##_lt, uint8_t, type, x < y) \
  LOOP2(name##_le, uint8_t, type, x <= y) \
  LOOP2(name##_gt, uint8_t, type, x > y) \
  LOOP2(name##_ge, uint8_t, type, x >= y) \
  static const Pure name[] = {[CMP_EQ] = name##_eq, [CMP_NE] = name##_ne, [CMP_LT] = name##_lt, \
                              [CMP_LE] = name##_le, [CMP_GT] = name##_gt, [CMP_GE] = name##_ge};
COMPARE(compare_s32, int32_t)
COMPARE(compare_u32, uint32_t)
COMPARE(compare_s64, int64_t)
COMPARE(compare_u64, uint64_t)
COMPARE(compare_f32, float) /* ordered, and ne unordered: as C's */

/* ---- f32, to nearest, subnormals kept; a NaN becomes the canonical one ------------------------------------------- */

static inline uint32_t bits_of(float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return v != v ? 0x7fffffff : bits;
}
LOOP2(add_f32, uint32_t, float, bits_of(x + y))
LOOP2(sub_f32, uint32_t, float, bits_of(x - y))
LOOP2(mul_f32, uint32_t, float, bits_of(x *y))
LOOP2(div_f32, uint32_t, float, bits_of(x / y))
LOOP3(fma_f32, uint32_t, float, bits_of(fmaf(x, y, z)))
#ifdef __x86_64__ /* the same, by the processor's instruction where it has one */
__attribute__((target("avx2,fma"))) LOOP3(fma_f32_at_once, uint32_t, float, bits_of(__builtin_fmaf(x, y, z)))
#endif
    LOOP1(neg_f32, uint32_t, uint32_t, x ^ 0x80000000u) LOOP1(abs_f32, uint32_t, uint32_t, x & 0x7fffffffu)
        LOOP1(f32_s32, float, int32_t, x)

    /* ---- all others ---- */

    static uint64_t get(const char *regs, uint32_t offset, LaneType type, int t) {
  SimRun r = {.regs = (char *)regs};
  return sim_get(&r, offset, type, t);
}

static void any(const SimOp *o, char *regs, int begin, int end) {
  const LaneOp *op = o->op;
  SimRun r = {.regs = regs};
  int n = op->in_count < 4 ? op->in_count : 4;
  for (int t = begin; t < end; t++) {
    uint64_t in[4] = {0}, out[2] = {0};
    for (int i = 0; i < n; i++) in[i] = get(regs, o->in[i], op->in[i]->type, t);
    lane_eval(op, in, out);
    for (int i = 0; i < op->out_count; i++) sim_set(&r, o->out[i], op->out[i]->type, t, out[i]);
  }
}

static Pure by_width(LaneKind k, Pure p8, Pure p32, Pure p64) {
  switch (lane_kind_info[k].type) {
    case LT_PRED: return p8;
    case LT_B32: return p32;
    case LT_B64: return p64;
    default: return NULL;
  }
}

static Pure integer(const LaneOp *op) {
  LaneKind k = op->kind;
  switch (op->code) {
    case LANE_ADD: return by_width(k, NULL, add_32, add_64);
    case LANE_SUB: return by_width(k, NULL, sub_32, sub_64);
    case LANE_MUL: return by_width(k, NULL, mul_32, mul_64);
    case LANE_FMA: return by_width(k, NULL, fma_32, fma_64);
    case LANE_AND: return by_width(k, and_8, and_32, and_64);
    case LANE_OR: return by_width(k, or_8, or_32, or_64);
    case LANE_XOR: return by_width(k, xor_8, xor_32, xor_64);
    case LANE_NOT: return by_width(k, not_8, not_32, NULL);
    case LANE_SHL: return by_width(k, NULL, shl_32, shl_64);
    case LANE_SHR:
      return lane_kind_is_signed(k) ? by_width(k, NULL, shr_s32, shr_s64) : by_width(k, NULL, shr_u32, shr_u64);
    case LANE_MULWIDE: return k == LK_S32 ? mulwide_s32 : k == LK_U32 ? mulwide_u32 : NULL;
    case LANE_MIN: return k == LK_S32 ? min_s32 : k == LK_U32 ? min_u32 : NULL;
    case LANE_MAX: return k == LK_S32 ? max_s32 : k == LK_U32 ? max_u32 : NULL;
    case LANE_SELECT: return lane_kind_info[k].type == LT_B16 ? select_16 : by_width(k, select_8, select_32, select_64);
    case LANE_PACK: return k == LK_B64 ? pack_64 : pack_32;
    case LANE_UNPACK: return k == LK_B64 ? unpack_64 : unpack_32;
    case LANE_CVT:
      if (op->sat) return NULL;
      if (k == LK_S32 && op->to == LK_F32 && op->rounding <= ROUND_RN) return f32_s32;
      if (k == LK_S32 && (op->to == LK_S64 || op->to == LK_U64)) return widen_s32;
      if (k == LK_U32 && (op->to == LK_S64 || op->to == LK_U64)) return widen_u32;
      return (k == LK_S64 || k == LK_U64) && (op->to == LK_S32 || op->to == LK_U32) ? cut_64 : NULL;
    case LANE_SETP:
      switch (k) {
        case LK_S32: return compare_s32[op->pred];
        case LK_U32: return compare_u32[op->pred];
        case LK_S64: return compare_s64[op->pred];
        case LK_U64: return compare_u64[op->pred];
        default: return NULL;
      }
    default: return NULL;
  }
}

static Pure single(const LaneOp *op) {
  if (op->ftz || op->rounding > ROUND_RN) return NULL;
  switch (op->code) {
    case LANE_ADD: return add_f32;
    case LANE_SUB: return sub_f32;
    case LANE_MUL: return mul_f32;
    case LANE_DIV: return div_f32;
    case LANE_FMA:
#ifdef __x86_64__
      if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) return fma_f32_at_once;
#endif
      return fma_f32;
    case LANE_NEG: return neg_f32;
    case LANE_ABS: return abs_f32;
    case LANE_SETP: return !op->unordered || op->pred == CMP_NE ? compare_f32[op->pred] : NULL;
    default: return NULL;
  }
}

Pure sim_pure_function(const LaneOp *op) {
  Pure p = lane_kind_is_float(op->kind) ? (op->kind == LK_F32 ? single(op) : NULL) : integer(op);
  return p ? p : any;
}
