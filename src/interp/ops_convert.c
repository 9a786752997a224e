/* Conversions between element types, as loops over whole arrays.
 *
 * What an element becomes is said by scalar_convert; the loops here give the same bits faster. f32 stands in the
 * middle: types whose every value f32 holds exactly (f16, bf16, fp8, integers of at most 16 bits) go to any other type
 * by way of it, a chunk at a time, with one rounding in all. Integers convert among themselves and to f32 and f64
 * directly. The rest (a wide integer to f16, f64 to integers, rounding towards zero) takes the slow path through
 * scalar_convert.
 *
 * f16's two loops are branch-free so that they vectorise:
 *
 *     f16 -> f32   the bits, moved to f32's place, times 2^112 (which also makes subnormals right), infinities patched
 *     f32 -> f16   round the bits to nearest even; subnormals by adding 0.5, whose last place is f16's smallest number
 */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC optimize("O3") /* loops over arrays: let them vectorise */
#endif
#include "interp/run.h"

enum { CHUNK = 256 };

static uint32_t float_bits(float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return bits;
}

static float bits_float(uint32_t bits) {
  float v;
  memcpy(&v, &bits, 4);
  return v;
}

/* ---- to f32, exactly --------------------------------------------------------------------------------------------- */

static void f16_to_float(void *out, void *const *in, int64_t n) {
  const uint16_t *x = in[0];
  float *o = out;
  for (int64_t i = 0; i < n; i++) {
    uint32_t magnitude = (uint32_t)(x[i] & 0x7fff) << 13, sign = (uint32_t)(x[i] & 0x8000) << 16;
    uint32_t bits = float_bits(bits_float(magnitude) * 0x1p112f);
    bits |= magnitude >= 0x0f800000 ? 0x7f800000 : 0;
    bits |= magnitude > 0x0f800000 ? 0x00400000 : 0; /* NaNs are quiet */
    o[i] = bits_float(bits | sign);
  }
}

static void bf16_to_float(void *out, void *const *in, int64_t n) {
  const uint16_t *x = in[0];
  float *o = out;
  for (int64_t i = 0; i < n; i++) o[i] = bits_float((uint32_t)x[i] << 16);
}

static void f8_to_float(Dtype t, void *out, const uint8_t *x, int64_t n) {
  float *o = out, table[256];
  if (n < 256) {
    for (int64_t i = 0; i < n; i++) o[i] = f8_to_f32(t, x[i]);
    return;
  }
  for (int b = 0; b < 256; b++) table[b] = f8_to_f32(t, (uint8_t)b);
  for (int64_t i = 0; i < n; i++) o[i] = table[x[i]];
}

static void float_to_f8(Dtype t, uint8_t *o, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) o[i] = f32_to_f8(t, x[i]);
}

#define F8(X) X(F8E5) X(F8E4NV) X(F8E4B15) X(F8E4B8) X(F8E5B16)
#define LOOPS(T) \
  static void T##_to_float(void *out, void *const *in, int64_t n) { f8_to_float(DT_##T, out, in[0], n); } \
  static void float_to_##T(void *out, void *const *in, int64_t n) { float_to_f8(DT_##T, out, in[0], n); }
F8(LOOPS)
#undef LOOPS

/* ---- from f32 ---------------------------------------------------------------------------------------------------- */

static void float_to_f16(void *out, void *const *in, int64_t n) {
  const float *x = in[0];
  uint16_t *o = out;
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits = float_bits(x[i]), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13;
    uint32_t subnormal = float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000;
    uint32_t half = magnitude < 0x38800000 ? subnormal : normal;
    half = magnitude >= 0x47800000 ? 0x7c00 : half;
    half = magnitude > 0x7f800000 ? 0x7e00 : half;
    o[i] = (uint16_t)(half | sign);
  }
}

static void float_to_bf16(void *out, void *const *in, int64_t n) {
  const float *x = in[0];
  uint16_t *o = out;
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits = float_bits(x[i]), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t half = (magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16;
    o[i] = (uint16_t)((magnitude > 0x7f800000 ? 0x7fc0 : half) | sign);
  }
}

/* Out of range gives the nearest end, NaN gives 0. */
#define FLOAT_TO_INT(name, T, low, high, end) \
  static void float_to_##name(void *out, void *const *in, int64_t n) { \
    const float *x = in[0]; \
    T *o = out; \
    for (int64_t i = 0; i < n; i++) { \
      float v = x[i]; \
      o[i] = v >= end ? high : v > (float)low ? (T)v : v <= (float)low ? low : 0; \
    } \
  }
FLOAT_TO_INT(i8, int8_t, INT8_MIN, INT8_MAX, 0x1p7f)
FLOAT_TO_INT(i16, int16_t, INT16_MIN, INT16_MAX, 0x1p15f)
FLOAT_TO_INT(i32, int32_t, INT32_MIN, INT32_MAX, 0x1p31f)
FLOAT_TO_INT(i64, int64_t, INT64_MIN, INT64_MAX, 0x1p63f)
FLOAT_TO_INT(u8, uint8_t, 0, UINT8_MAX, 0x1p8f)
FLOAT_TO_INT(u16, uint16_t, 0, UINT16_MAX, 0x1p16f)
FLOAT_TO_INT(u32, uint32_t, 0, UINT32_MAX, 0x1p32f)
FLOAT_TO_INT(u64, uint64_t, 0, UINT64_MAX, 0x1p64f)
#undef FLOAT_TO_INT

#define LOOP(name, To, From, value) \
  static void name(void *out, void *const *in, int64_t n) { \
    const From *x = in[0]; \
    To *o = out; \
    for (int64_t i = 0; i < n; i++) o[i] = (To)(value); \
  }
LOOP(float_to_double, double, float, x[i])
LOOP(double_to_float, float, double, x[i])
LOOP(float_to_bool, uint8_t, float, x[i] != 0)
LOOP(double_to_bool, uint8_t, double, x[i] != 0)

/* ---- integers ---------------------------------------------------------------------------------------------------- */

#define INTS(X) \
  X(i8, int8_t) \
  X(i16, int16_t) X(i32, int32_t) X(i64, int64_t) X(u8, uint8_t) X(u16, uint16_t) X(u32, uint32_t) X(u64, uint64_t)
#define FROM_INT(name, T) \
  LOOP(name##_to_float, float, T, x[i]) \
  LOOP(name##_to_double, double, T, x[i]) \
  LOOP(name##_to_8, uint8_t, T, x[i]) \
  LOOP(name##_to_16, uint16_t, T, x[i]) \
  LOOP(name##_to_32, uint32_t, T, x[i]) \
  LOOP(name##_to_64, uint64_t, T, x[i])
INTS(FROM_INT)
#undef FROM_INT
LOOP(any8_to_bool, uint8_t, uint8_t, x[i] != 0)
LOOP(any16_to_bool, uint8_t, uint16_t, x[i] != 0)
LOOP(any32_to_bool, uint8_t, uint32_t, x[i] != 0)
LOOP(any64_to_bool, uint8_t, uint64_t, x[i] != 0)

static const Kernel int_to_bits[DT_COUNT][4] = {
#define ROW(id, name) [DT_##id] = {name##_to_8, name##_to_16, name##_to_32, name##_to_64}
    ROW(I1, u8), ROW(I8, i8),   ROW(I16, i16), ROW(I32, i32), ROW(I64, i64),
    ROW(U8, u8), ROW(U16, u16), ROW(U32, u32), ROW(U64, u64)
#undef ROW
};
static const Kernel int_to_bool[DT_COUNT] = {
    [DT_I8] = any8_to_bool, [DT_I16] = any16_to_bool, [DT_I32] = any32_to_bool, [DT_I64] = any64_to_bool,
    [DT_U8] = any8_to_bool, [DT_U16] = any16_to_bool, [DT_U32] = any32_to_bool, [DT_U64] = any64_to_bool};
static const Kernel to_float[DT_COUNT] =
    {/* rounds once for wide integers and f64 */
     [DT_I1] = u8_to_float,         [DT_I8] = i8_to_float,           [DT_I16] = i16_to_float,
     [DT_I32] = i32_to_float,       [DT_I64] = i64_to_float,         [DT_U8] = u8_to_float,
     [DT_U16] = u16_to_float,       [DT_U32] = u32_to_float,         [DT_U64] = u64_to_float,
     [DT_F8E5] = F8E5_to_float,     [DT_F8E4NV] = F8E4NV_to_float,   [DT_F8E4B15] = F8E4B15_to_float,
     [DT_F8E4B8] = F8E4B8_to_float, [DT_F8E5B16] = F8E5B16_to_float, [DT_F16] = f16_to_float,
     [DT_BF16] = bf16_to_float,     [DT_F64] = double_to_float};
static const Kernel to_double[DT_COUNT] = {
    [DT_I1] = u8_to_double,   [DT_I8] = i8_to_double,    [DT_I16] = i16_to_double, [DT_I32] = i32_to_double,
    [DT_I64] = i64_to_double, [DT_U8] = u8_to_double,    [DT_U16] = u16_to_double, [DT_U32] = u32_to_double,
    [DT_U64] = u64_to_double, [DT_F32] = float_to_double};
static const Kernel from_float[DT_COUNT] = {
    [DT_I1] = float_to_bool,       [DT_I8] = float_to_i8,           [DT_I16] = float_to_i16,
    [DT_I32] = float_to_i32,       [DT_I64] = float_to_i64,         [DT_U8] = float_to_u8,
    [DT_U16] = float_to_u16,       [DT_U32] = float_to_u32,         [DT_U64] = float_to_u64,
    [DT_F8E5] = float_to_F8E5,     [DT_F8E4NV] = float_to_F8E4NV,   [DT_F8E4B15] = float_to_F8E4B15,
    [DT_F8E4B8] = float_to_F8E4B8, [DT_F8E5B16] = float_to_F8E5B16, [DT_F16] = float_to_f16,
    [DT_BF16] = float_to_bf16,     [DT_F64] = float_to_double};

Kernel widen_kernel(Dtype t) { return to_float[t]; }
Kernel narrow_kernel(Dtype t) { return from_float[t]; }

/* ---- the operations ---------------------------------------------------------------------------------------------- */

static bool run_through_float(Run *run, const Node *node, int64_t n) {
  Dtype from = node->op->in[0]->type->dtype, to = node->op->out[0]->type->dtype;
  int from_bytes = dtype_bytes(from), to_bytes = dtype_bytes(to);
  float chunk[CHUNK];
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t m = n - i < CHUNK ? n - i : CHUNK;
    void *source = node->in[0] + i * from_bytes, *middle = chunk;
    to_float[from](chunk, &source, m);
    from_float[to](node->out[0] + i * to_bytes, &middle, m);
  }
  return true;
}

static bool run_convert_each(Run *run, const Node *node, int64_t n) {
  Dtype from = node->op->in[0]->type->dtype, to = node->op->out[0]->type->dtype;
  int from_bytes = dtype_bytes(from), to_bytes = dtype_bytes(to), rounding = (int)node->op->rounding;
  for (int64_t i = 0; i < n; i++)
    scalar_store(to, node->out[0] + i * to_bytes,
                 scalar_convert(from, to, rounding, scalar_load(from, node->in[0] + i * from_bytes)));
  return true;
}

static bool exact_in_float(Dtype t) { return dtype_bits(t) <= 16; }

/* bitcast and conversions between integers of one width keep the bits and never come here (prepare.c). */
bool prepare_convert(Plan *p, Node *node) {
  const Op *op = node->op;
  Dtype from = op->in[0]->type->dtype, to = op->out[0]->type->dtype;
  node->fn = run_kernel;
  if (dtype_is_float(to) && op->rounding) {
    node->fn = run_convert_each;
  } else if (dtype_is_int(from)) {
    int bytes = dtype_bytes(to);
    if (to == DT_I1) node->kernel = int_to_bool[from];
    else if (dtype_is_int(to)) node->kernel = int_to_bits[from][bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3];
    else if (to == DT_F32) node->kernel = to_float[from];
    else if (to == DT_F64) node->kernel = to_double[from];
    else if (exact_in_float(from)) node->fn = run_through_float;
    else node->fn = run_convert_each;
  } else if (from == DT_F32) {
    node->kernel = from_float[to];
  } else if (from == DT_F64) {
    if (to == DT_F32) node->kernel = double_to_float;
    else if (to == DT_I1) node->kernel = double_to_bool;
    else node->fn = run_convert_each;
  } else if (to == DT_F32) {
    node->kernel = to_float[from];
  } else {
    node->fn = run_through_float;
  }
  return true;
}
