/* math_bits: whole numbers and the parts of floats: counting and turning bits, classes, exponents, neighbours. */
#include "gpu/math/math.h"

#define ROW(FN, T, CODE, KIND) \
  { \
    MATH_##FN, DT_##T, NULL, NULL, { .code = LANE_##CODE, .kind = LK_##KIND, .buffer = -1 } \
  }
#define ONE(FN, T, fn) \
  { \
    MATH_##FN, DT_##T, fn, NULL, { 0 } \
  }

static const uint64_t SIGN64 = 0x8000000000000000;
enum { INF32 = 0x7f800000 };
#define SIGN32 I(0x80000000u)

/* ---- whole numbers ----------------------------------------------------------------------------------------------- */

static V brev(B *b, LaneKind k, V x) { return lane_1(b, LANE_BREV, k, x); }
/* The first set bit from below, counted from 1; clz of 0 is the width, so that -1 + 1 remains. */
static V ffs_i32(B *b, const V *in) {
  V zeros = lane_1(b, LANE_CLZ, LK_B32, brev(b, LK_B32, in[0]));
  return p_select(b, i_eq(b, in[0], I(0)), I(0), i_add(b, zeros, I(1)));
}
static V ffs_i64(B *b, const V *in) {
  V zeros = lane_1(b, LANE_CLZ, LK_B64, brev(b, LK_B64, in[0]));
  return p_select(b, l_eq(b, in[0], L(0)), I(0), i_add(b, zeros, I(1)));
}
/* prmt reads four bits of each selector, the fourth of which repeats a sign; byte_perm has three. */
static V byte_perm(B *b, const V *in) { return lane_3(b, LANE_PRMT, LK_B32, in[0], in[1], i_and(b, in[2], I(0x7777))); }
static V mul24_i32(B *b, const V *in) {
  return i_mul(b, lane_bfe(b, LK_S32, in[0], 0, 24), lane_bfe(b, LK_S32, in[1], 0, 24));
}
static V mul24_u32(B *b, const V *in) { return i_mul(b, i_and(b, in[0], I(0xffffff)), i_and(b, in[1], I(0xffffff))); }
/* (x + y) / 2 without a carry out: x + y = 2 (x & y) + (x ^ y) = 2 (x | y) - (x ^ y). */
static V hadd_i32(B *b, const V *in) {
  return i_add(b, i_and(b, in[0], in[1]), i_shr(b, i_xor(b, in[0], in[1]), I(1)));
}
static V hadd_u32(B *b, const V *in) {
  return i_add(b, i_and(b, in[0], in[1]), u_shr(b, i_xor(b, in[0], in[1]), I(1)));
}
static V rhadd_i32(B *b, const V *in) {
  return i_sub(b, i_or(b, in[0], in[1]), i_shr(b, i_xor(b, in[0], in[1]), I(1)));
}
static V rhadd_u32(B *b, const V *in) {
  return i_sub(b, i_or(b, in[0], in[1]), u_shr(b, i_xor(b, in[0], in[1]), I(1)));
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

static V isnan_f32(B *b, const V *in) { return f_nan(b, in[0]); }
static V isnan_f64(B *b, const V *in) { return d_nan(b, in[0]); }
static V isinf_f32(B *b, const V *in) { return i_eq(b, i_and(b, in[0], I(0x7fffffff)), I(INF32)); }
static V isinf_f64(B *b, const V *in) { return d_eq(b, d_abs(b, in[0]), D(__builtin_inf())); }
static V finite_f32(B *b, const V *in) { return u_lt(b, i_and(b, in[0], I(0x7fffffff)), I(INF32)); }
static V finite_f64(B *b, const V *in) { return d_lt(b, d_abs(b, in[0]), D(__builtin_inf())); }
static V signbit_f32(B *b, const V *in) { return u_shr(b, in[0], I(31)); }
static V signbit_f64(B *b, const V *in) { return u_shr(b, l_high(b, in[0]), I(31)); }

/* ---- exponents --------------------------------------------------------------------------------------------------- */

/* floor(log2 |x|) for x finite and not 0: subnormals are first made normal. */
static V exponent_f32(B *b, V x) {
  V small = f_lt(b, f_abs(b, x), F(0x1p-126f)), scaled = p_select(b, small, f_mul(b, x, F(0x1p24f)), x);
  V e = lane_bfe(b, LK_U32, scaled, 23, 8);
  return i_sub(b, e, p_select(b, small, I(127 + 24), I(127)));
}
static V exponent_f64(B *b, V x) {
  V small = d_lt(b, d_abs(b, x), D(0x1p-1022)), scaled = p_select(b, small, d_mul(b, x, D(0x1p54)), x);
  V e = lane_bfe(b, LK_U32, l_high(b, scaled), 20, 11);
  return i_sub(b, e, p_select(b, small, I(1023 + 54), I(1023)));
}
/* 0 and NaN: INT_MIN; infinities: INT_MAX. */
static V ilogb_f32(B *b, const V *in) {
  V x = in[0], e = p_select(b, isinf_f32(b, in), I(INT32_MAX), exponent_f32(b, x));
  return p_select(b, p_or(b, f_nan(b, x), f_eq(b, x, F(0))), I(INT32_MIN), e);
}
static V ilogb_f64(B *b, const V *in) {
  V x = in[0], e = p_select(b, isinf_f64(b, in), I(INT32_MAX), exponent_f64(b, x));
  return p_select(b, p_or(b, d_nan(b, x), d_eq(b, x, D(0))), I(INT32_MIN), e);
}
/* -inf for 0, inf for infinities, NaN for NaN. */
static V logb_f32(B *b, const V *in) {
  V x = in[0], e = f_from_i(b, exponent_f32(b, x));
  e = p_select(b, finite_f32(b, in), e, f_mul(b, x, x));
  return p_select(b, f_eq(b, x, F(0)), F(-__builtin_inff()), e);
}
static V logb_f64(B *b, const V *in) {
  V x = in[0], e = d_from_i(b, exponent_f64(b, x));
  e = p_select(b, finite_f64(b, in), e, d_mul(b, x, x));
  return p_select(b, d_eq(b, x, D(0)), D(-__builtin_inf()), e);
}
static V ldexp_f64(B *b, const V *in) { return d_scale(b, in[0], in[1]); }
/* f64 holds x * 2^n for every n that matters, but not its subnormals' roundings: it is rounded once, to f32. */
static V ldexp_f32(B *b, const V *in) {
  V n = i_max(b, i_min(b, in[1], I(400)), I(-400));
  return f_from_d(b, d_mul(b, d_from_f(b, in[0]), d_pow2(b, n)));
}

/* ---- neighbours: floats of one sign are in the order of their bits ----------------------------------------------- */

static V nextafter_f32(B *b, const V *in) {
  V x = in[0], y = in[1];
  V away = p_xor(b, f_lt(b, x, y), i_lt(b, x, I(0))); /* from 0 */
  V next = i_add(b, x, p_select(b, away, I(1), I(-1)));
  next = p_select(b, f_eq(b, x, F(0)), i_or(b, i_and(b, y, SIGN32), I(1)), next);
  next = p_select(b, f_eq(b, x, y), y, next);
  return p_select(b, p_or(b, f_nan(b, x), f_nan(b, y)), f_add(b, x, y), next);
}
static V nextafter_f64(B *b, const V *in) {
  V x = in[0], y = in[1];
  V away = p_xor(b, d_lt(b, x, y), l_lt(b, x, L(0)));
  V next = l_add(b, x, p_select(b, away, L(1), L(-1)));
  next = p_select(b, d_eq(b, x, D(0)), l_or(b, l_and(b, y, L(SIGN64)), L(1)), next);
  next = p_select(b, d_eq(b, x, y), y, next);
  return p_select(b, p_or(b, d_nan(b, x), d_nan(b, y)), d_add(b, x, y), next);
}

static const MathRow rows[] = {
    ROW(CLZ, I32, CLZ, B32),
    ROW(CLZ, I64, CLZ, B64),
    ROW(POPC, I32, POPC, B32),
    ROW(POPC, I64, POPC, B64),
    ROW(BREV, I32, BREV, B32),
    ROW(BREV, I64, BREV, B64),
    ONE(FFS, I32, ffs_i32),
    ONE(FFS, I64, ffs_i64),
    ONE(BYTE_PERM, I32, byte_perm),
    ROW(MULHI, I32, MULHI, S32),
    ROW(MULHI, U32, MULHI, U32),
    ROW(MULHI, I64, MULHI, S64),
    ROW(MULHI, U64, MULHI, U64),
    ONE(MUL24, I32, mul24_i32),
    ONE(MUL24, U32, mul24_u32),
    ROW(SAD, I32, SAD, S32),
    ROW(SAD, U32, SAD, U32),
    ROW(ABS, I32, ABS, S32),
    ROW(ABS, I64, ABS, S64),
    ONE(HADD, I32, hadd_i32),
    ONE(HADD, U32, hadd_u32),
    ONE(RHADD, I32, rhadd_i32),
    ONE(RHADD, U32, rhadd_u32),
    ONE(ISNAN, F32, isnan_f32),
    ONE(ISNAN, F64, isnan_f64),
    ONE(ISINF, F32, isinf_f32),
    ONE(ISINF, F64, isinf_f64),
    ONE(FINITEF, F32, finite_f32),
    ONE(ISFINITED, F64, finite_f64),
    ONE(SIGNBIT, F32, signbit_f32),
    ONE(SIGNBIT, F64, signbit_f64),
    ONE(ILOGB, F32, ilogb_f32),
    ONE(ILOGB, F64, ilogb_f64),
    ONE(LOGB, F32, logb_f32),
    ONE(LOGB, F64, logb_f64),
    ONE(LDEXP, F32, ldexp_f32),
    ONE(LDEXP, F64, ldexp_f64),
    ONE(SCALBN, F32, ldexp_f32),
    ONE(SCALBN, F64, ldexp_f64),
    ONE(NEXTAFTER, F32, nextafter_f32),
    ONE(NEXTAFTER, F64, nextafter_f64),
};
const MathTable math_bits_table = MATH_TABLE(rows);
