/* Elementwise operations: arithmetic, comparison, selection, pointer arithmetic.
 *
 * What an operation means for one element is said by scalar_binary and its like in tile/scalar.c. For the common types
 * there are loops over typed arrays here that give the same results and that compilers vectorise; f16 and bf16 go
 * through f32 a chunk at a time, which gives the same results for these operations (24 bits are more than twice 11).
 * What has no loop (fp8, i1 arithmetic, fma of halves) calls the scalar function for each element.
 *
 * A loop may find its result in the place of an operand, never in part of it.
 */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC optimize("O3") /* loops over arrays: let them vectorise */
#endif
#include "interp/run.h"

#include <math.h>

enum { CHUNK = 256 };

/* ---- loops ------------------------------------------------------------------------------------------------------- */

#define LOOP1(name, To, T, value) \
  static void name(void *out, void *const *in, int64_t n) { \
    const T *xs = in[0]; \
    To *o = out; \
    INDEPENDENT for (int64_t i = 0; i < n; i++) { \
      T x = xs[i]; \
      o[i] = (To)(value); \
    } \
  }
#define LOOP2(name, To, T, value) \
  static void name(void *out, void *const *in, int64_t n) { \
    const T *xs = in[0], *ys = in[1]; \
    To *o = out; \
    INDEPENDENT for (int64_t i = 0; i < n; i++) { \
      T x = xs[i], y = ys[i]; \
      o[i] = (To)(value); \
    } \
  }

/* Operations that do not care about sign: on bits. Narrow ones are computed in 32 bits, where C's promotion to int
 * would overflow on 16-bit products. */
#define BITS_LOOPS(w, T, Wide) \
  LOOP2(add_##w, T, T, (Wide)x + y) \
  LOOP2(sub_##w, T, T, (Wide)x - y) \
  LOOP2(mul_##w, T, T, ((Wide)x * y)) \
  LOOP2(and_##w, T, T, (x & y)) \
  LOOP2(or_##w, T, T, x | y) \
  LOOP2(xor_##w, T, T, x ^ y) \
  LOOP2(shl_##w, T, T, y < w ? (Wide)x << (y & (w - 1)) : 0) \
  LOOP1(neg_##w, T, T, 0 - (Wide)x) \
  LOOP1(not_##w, T, T, ~x) \
  LOOP2(eq_##w, uint8_t, T, x == y) \
  LOOP2(ne_##w, uint8_t, T, x != y)
BITS_LOOPS(8, uint8_t, uint32_t)
BITS_LOOPS(16, uint16_t, uint32_t)
BITS_LOOPS(32, uint32_t, uint32_t)
BITS_LOOPS(64, uint64_t, uint64_t)
LOOP1(not_bool, uint8_t, uint8_t, x ^ 1)

#define ORDER_LOOPS(name, T) \
  LOOP2(lt_##name, uint8_t, T, x < y) \
  LOOP2(le_##name, uint8_t, T, x <= y) \
  LOOP2(gt_##name, uint8_t, T, x > y) \
  LOOP2(ge_##name, uint8_t, T, x >= y)
#define INT_LOOPS(name, T) \
  ORDER_LOOPS(name, T) \
  LOOP2(min_##name, T, T, x < y ? x : y) \
  LOOP2(max_##name, T, T, x > y ? x : y)
#define SIGNED_LOOPS(w, T, U) \
  INT_LOOPS(i##w, T) \
  LOOP2(div_i##w, T, T, y == 0 ? x : y == -1 ? (T)(0 - (U)x) : x / y) \
  LOOP2(rem_i##w, T, T, y == 0 || y == -1 ? 0 : x % y) \
  LOOP2(shr_i##w, T, T, x >> ((U)y < w ? (U)y : w - 1)) \
  LOOP1(abs_i##w, T, T, x < 0 ? (T)(0 - (U)x) : x)
#define UNSIGNED_LOOPS(w, T) \
  INT_LOOPS(u##w, T) \
  LOOP2(div_u##w, T, T, y == 0 ? x : x / y) \
  LOOP2(rem_u##w, T, T, y == 0 ? 0 : x % y) \
  LOOP2(shr_u##w, T, T, y < w ? x >> (y & (w - 1)) : 0)
SIGNED_LOOPS(8, int8_t, uint8_t)
SIGNED_LOOPS(16, int16_t, uint16_t)
SIGNED_LOOPS(32, int32_t, uint32_t)
SIGNED_LOOPS(64, int64_t, uint64_t)
UNSIGNED_LOOPS(8, uint8_t)
UNSIGNED_LOOPS(16, uint16_t)
UNSIGNED_LOOPS(32, uint32_t)
UNSIGNED_LOOPS(64, uint64_t)
LOOP2(mulhi_i32, int32_t, int32_t, ((int64_t)x * y) >> 32)
LOOP2(mulhi_u32, uint32_t, uint32_t, ((uint64_t)x * y) >> 32)
LOOP2(mulhi_i64, int64_t, int64_t, ((__int128)x * y) >> 64)
LOOP2(mulhi_u64, uint64_t, uint64_t, ((unsigned __int128)x * y) >> 64)

/* Of equal numbers min takes the one with the sign set (0.0 and -0.0), max the other: or and and of the bits. */
#define FLOAT_LOOPS(name, T, U, mod) \
  ORDER_LOOPS(name, T) \
  LOOP2(eq_##name, uint8_t, T, x == y) \
  LOOP2(ne_##name, uint8_t, T, x != y) \
  LOOP2(add_##name, T, T, x + y) \
  LOOP2(sub_##name, T, T, x - y) \
  LOOP2(mul_##name, T, T, (x * y)) \
  LOOP2(div_##name, T, T, x / y) \
  LOOP2(rem_##name, T, T, mod(x, y)) \
  static T or_bits_##name(T x, T y) { \
    U a, b; \
    memcpy(&a, &x, sizeof a), memcpy(&b, &y, sizeof b); \
    a |= b; \
    memcpy(&x, &a, sizeof a); \
    return x; \
  } \
  static T and_bits_##name(T x, T y) { \
    U a, b; \
    memcpy(&a, &x, sizeof a), memcpy(&b, &y, sizeof b); \
    a &= b; \
    memcpy(&x, &a, sizeof a); \
    return x; \
  } \
  LOOP2(min_##name, T, T, x != x ? y : y != y ? x : x == y ? or_bits_##name(x, y) : x < y ? x : y) \
  LOOP2(max_##name, T, T, x != x ? y : y != y ? x : x == y ? and_bits_##name(x, y) : x > y ? x : y) \
  LOOP2(min_nan_##name, T, T, x != x ? x : y != y ? y : x == y ? or_bits_##name(x, y) : x < y ? x : y) \
  LOOP2(max_nan_##name, T, T, x != x ? x : y != y ? y : x == y ? and_bits_##name(x, y) : x > y ? x : y)
FLOAT_LOOPS(f32, float, uint32_t, fmodf)
FLOAT_LOOPS(f64, double, uint64_t, fmod)

/* The sign of a float is its top bit. */
LOOP1(flip_16, uint16_t, uint16_t, x ^ 0x8000)
LOOP1(flip_32, uint32_t, uint32_t, x ^ 0x80000000u)
LOOP1(flip_64, uint64_t, uint64_t, x ^ 1ULL << 63)
LOOP1(clear_16, uint16_t, uint16_t, x & 0x7fff)
LOOP1(clear_32, uint32_t, uint32_t, x & 0x7fffffff)
LOOP1(clear_64, uint64_t, uint64_t, x & ~(1ULL << 63))

#define LOOP3(name, T, call) \
  static void name(void *out, void *const *in, int64_t n) { \
    const T *x = in[0], *y = in[1], *z = in[2]; \
    T *o = out; \
    for (int64_t i = 0; i < n; i++) o[i] = call(x[i], y[i], z[i]); \
  }
LOOP3(fma_f32, float, fmaf)
LOOP3(fma_f64, double, fma)

#define SELECT_LOOP(name, T) \
  static void name(void *out, void *const *in, int64_t n) { \
    const uint8_t *c = in[0]; \
    const T *x = in[1], *y = in[2]; \
    T *o = out; \
    INDEPENDENT for (int64_t i = 0; i < n; i++) { \
      T a = x[i], b = y[i]; \
      o[i] = c[i] ? a : b; \
    } \
  }
SELECT_LOOP(select_8, uint8_t)
SELECT_LOOP(select_16, uint16_t)
SELECT_LOOP(select_32, uint32_t)
SELECT_LOOP(select_64, uint64_t)

/* ---- tables: an operation's loop for each type ------------------------------------------------------------------- */

#define BITS(f) \
  [DT_I8] = f##_8, [DT_I16] = f##_16, [DT_I32] = f##_32, [DT_I64] = f##_64, [DT_U8] = f##_8, [DT_U16] = f##_16, \
  [DT_U32] = f##_32, [DT_U64] = f##_64
#define INTS(f) \
  [DT_I8] = f##_i8, [DT_I16] = f##_i16, [DT_I32] = f##_i32, [DT_I64] = f##_i64, [DT_U8] = f##_u8, [DT_U16] = f##_u16, \
  [DT_U32] = f##_u32, [DT_U64] = f##_u64
#define FLOATS(f) [DT_F32] = f##_f32, [DT_F64] = f##_f64

static const Kernel kernels[OP_COUNT][DT_COUNT] = {
    [OP_ADD] = {BITS(add), FLOATS(add), [DT_I1] = xor_8},
    [OP_SUB] = {BITS(sub), FLOATS(sub), [DT_I1] = xor_8},
    [OP_MUL] = {BITS(mul), FLOATS(mul), [DT_I1] = and_8},
    [OP_DIV] = {INTS(div), FLOATS(div)},
    [OP_REM] = {INTS(rem), FLOATS(rem)},
    [OP_AND] = {BITS(and), [DT_I1] = and_8},
    [OP_OR] = {BITS(or), [DT_I1] = or_8},
    [OP_XOR] = {BITS(xor), [DT_I1] = xor_8},
    [OP_SHL] = {BITS(shl)},
    [OP_SHR] = {INTS(shr)},
    [OP_MIN] = {INTS(min), FLOATS(min), [DT_I1] = and_8},
    [OP_MAX] = {INTS(max), FLOATS(max), [DT_I1] = or_8},
    [OP_MULHI] = {[DT_I32] = mulhi_i32, [DT_I64] = mulhi_i64, [DT_U32] = mulhi_u32, [DT_U64] = mulhi_u64},
    [OP_NEG] = {BITS(neg), [DT_F16] = flip_16, [DT_BF16] = flip_16, [DT_F32] = flip_32, [DT_F64] = flip_64},
    [OP_NOT] = {BITS(not ), [DT_I1] = not_bool},
    [OP_ABS] = {[DT_I8] = abs_i8,
                [DT_I16] = abs_i16,
                [DT_I32] = abs_i32,
                [DT_I64] = abs_i64,
                [DT_F16] = clear_16,
                [DT_BF16] = clear_16,
                [DT_F32] = clear_32,
                [DT_F64] = clear_64},
    [OP_FMA] = {FLOATS(fma)},
};
static const Kernel min_nan[DT_COUNT] = {FLOATS(min_nan)}, max_nan[DT_COUNT] = {FLOATS(max_nan)};
static const Kernel compares[6][DT_COUNT] = {
    [CMP_EQ] = {BITS(eq), FLOATS(eq), [DT_I1] = eq_8},  [CMP_NE] = {BITS(ne), FLOATS(ne), [DT_I1] = ne_8},
    [CMP_LT] = {INTS(lt), FLOATS(lt), [DT_I1] = lt_u8}, [CMP_LE] = {INTS(le), FLOATS(le), [DT_I1] = le_u8},
    [CMP_GT] = {INTS(gt), FLOATS(gt), [DT_I1] = gt_u8}, [CMP_GE] = {INTS(ge), FLOATS(ge), [DT_I1] = ge_u8},
};

/* ---- running them ------------------------------------------------------------------------------------------------ */

/* f16 and bf16: node->kernel is f32's loop. */
static bool run_halves(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  Dtype t = op->in[0]->type->dtype;
  Kernel widen = widen_kernel(t), narrow = narrow_kernel(t);
  bool compare = op->code == OP_CMP;
  float x[2][CHUNK], result[CHUNK];
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t m = n - i < CHUNK ? n - i : CHUNK;
    void *wide[2] = {x[0], x[1]}, *source;
    for (int k = 0; k < op->in_count; k++) {
      source = node->in[k] + 2 * i;
      widen(x[k], &source, m);
    }
    node->kernel(compare ? (void *)(node->out[0] + i) : result, wide, m);
    source = result;
    if (!compare) narrow(node->out[0] + 2 * i, &source, m);
  }
  return true;
}

/* Any type, an element at a time. */
static bool run_each(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  Dtype t = op->in[0]->type->dtype, to = op->out[0]->type->dtype;
  int bytes = dtype_bytes(t), to_bytes = dtype_bytes(to);
  Scalar x[3], out;
  for (int64_t i = 0; i < n; i++) {
    for (int k = 0; k < op->in_count; k++) x[k] = scalar_load(t, node->in[k] + i * bytes);
    if (op->code == OP_CMP) out.i = scalar_cmp((CmpPred)op->pred, t, x[0], x[1]);
    else if (op->code == OP_FMA) out = scalar_fma(t, x[0], x[1], x[2]);
    else if (op->in_count == 1) out = scalar_unary(op->code, t, x[0]);
    else out = scalar_binary(op->code, t, x[0], x[1], op->variant);
    scalar_store(to, node->out[0] + i * to_bytes, out);
  }
  return true;
}

static Kernel find_kernel(const Op *op, Dtype t) {
  if (op->code == OP_CMP) return compares[op->pred][t];
  if (dtype_is_float(t) && op->nan) {
    if (op->code == OP_MIN) return min_nan[t];
    if (op->code == OP_MAX) return max_nan[t];
  }
  return kernels[op->code][t];
}

bool prepare_elementwise(Plan *p, Node *node) {
  const Op *op = node->op;
  const Type *type = op->in[0]->type;
  Dtype t = type->ptr ? DT_U64 : type->dtype;
  node->fn = run_kernel;
  if (op->code == OP_SELECT) {
    int bytes = plan_elem_bytes(op->out[0]->type);
    node->kernel = bytes == 1 ? select_8 : bytes == 2 ? select_16 : bytes == 4 ? select_32 : select_64;
    return true;
  }
  node->kernel = find_kernel(op, t);
  if (node->kernel) return true;
  bool half = t == DT_F16 || t == DT_BF16;
  if (half && op->code != OP_FMA) node->kernel = find_kernel(op, DT_F32);
  node->fn = node->kernel ? run_halves : run_each;
  return true;
}

/* ---- pointers ---------------------------------------------------------------------------------------------------- */

static bool run_addptr_each(Run *run, const Node *node, int64_t n) {
  const Type *ptr = node->op->in[0]->type;
  Dtype t = node->op->in[1]->type->dtype;
  int bytes = dtype_bytes(t), stride = ptr->ptr > 1 ? 8 : dtype_bytes(ptr->dtype);
  const uint64_t *in = (const uint64_t *)node->in[0];
  uint64_t *out = (uint64_t *)node->out[0];
  for (int64_t i = 0; i < n; i++)
    out[i] = in[i] + (uint64_t)scalar_load(t, node->in[1] + i * bytes).i * (uint64_t)stride;
  return true;
}

#define ADDPTR(name, T) \
  static bool name(Run *run, const Node *node, int64_t n) { \
    const Type *ptr = node->op->in[0]->type; \
    int shift = __builtin_ctz((unsigned)(ptr->ptr > 1 ? 8 : dtype_bytes(ptr->dtype))); \
    const uint64_t *in = (const uint64_t *)node->in[0]; \
    const T *offset = (const T *)node->in[1]; \
    uint64_t *out = (uint64_t *)node->out[0]; \
    INDEPENDENT for (int64_t i = 0; i < n; i++) out[i] = in[i] + ((uint64_t)(int64_t)offset[i] << shift); \
    return true; \
  }
ADDPTR(run_addptr_i32, int32_t)
ADDPTR(run_addptr_i64, int64_t)

bool prepare_addptr(Plan *p, Node *node) {
  Dtype t = node->op->in[1]->type->dtype;
  node->fn = t == DT_I32 ? run_addptr_i32 : t == DT_I64 || t == DT_U64 ? run_addptr_i64 : run_addptr_each;
  return true;
}
