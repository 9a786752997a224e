/* math_convert: numbers of one type to another with a chosen rounding: one cvt each. Out of range gives the nearest
 * end. NaN becomes 0 or the top bit, as the machine's cvt does it.
 */
#include "gpu/math/math.h"

#define ROW(FN, ABOUT, FROM, TO, R) \
  { \
    MATH_##FN, DT_##ABOUT, NULL, NULL, { \
      .code = LANE_CVT, .kind = LK_##FROM, .to = LK_##TO, .rounding = ROUND_##R, .buffer = -1 \
    } \
  }
#define FOUR(FN, ABOUT, FROM, TO) \
  ROW(FN##_RN, ABOUT, FROM, TO, RN), ROW(FN##_RZ, ABOUT, FROM, TO, RZ), ROW(FN##_RD, ABOUT, FROM, TO, RM), \
      ROW(FN##_RU, ABOUT, FROM, TO, RP)
#define ONE(FN, T, fn) \
  { \
    MATH_##FN, DT_##T, fn, NULL, { 0 } \
  }
#define SAME(FN, T) \
  { \
    MATH_##FN, DT_##T, same, NULL, { 0 } \
  }

static V same(B *b, const V *in) {
  (void)b;
  return in[0];
}
static V hi_lo(B *b, const V *in) { return l_pack(b, in[1], in[0]); }
static V low(B *b, const V *in) { return l_low(b, in[0]); }
static V high(B *b, const V *in) { return l_high(b, in[0]); }

/* Halves away from zero, then exact: the whole part and what was cut off are. */
static V to_i64(B *b, LaneKind from, V x) { return lane_cvt(b, from, LK_S64, ROUND_RZ, x); }
static V llround_f64(B *b, const V *in) {
  V x = in[0], whole = d_trunc(b, x), rest = d_abs(b, d_sub(b, x, whole));
  V up = d_copysign(b, p_select(b, d_ge(b, rest, D(0.5)), D(1), D(0)), x);
  return to_i64(b, LK_F64, d_add(b, whole, up));
}
static V llround_f32(B *b, const V *in) {
  V x = in[0], whole = f_trunc(b, x), rest = f_abs(b, f_sub(b, x, whole));
  V up = f_copysign(b, p_select(b, f_ge(b, rest, F(0.5f)), F(1), F(0)), x);
  return to_i64(b, LK_F32, f_add(b, whole, up));
}

static const MathRow rows[] = {
    FOUR(DOUBLE2FLOAT, F64, F64, F32),
    FOUR(DOUBLE2INT, F64, F64, S32),
    FOUR(DOUBLE2UINT, F64, F64, U32),
    FOUR(DOUBLE2LL, F64, F64, S64),
    FOUR(DOUBLE2ULL, F64, F64, U64),
    FOUR(FLOAT2INT, F32, F32, S32),
    FOUR(FLOAT2UINT, F32, F32, U32),
    FOUR(FLOAT2LL, F32, F32, S64),
    FOUR(FLOAT2ULL, F32, F32, U64),
    FOUR(INT2FLOAT, I32, S32, F32),
    FOUR(UINT2FLOAT, U32, U32, F32),
    FOUR(LL2FLOAT, I64, S64, F32),
    FOUR(ULL2FLOAT, U64, U64, F32),
    FOUR(LL2DOUBLE, I64, S64, F64),
    FOUR(ULL2DOUBLE, U64, U64, F64),
    ROW(INT2DOUBLE_RN, I32, S32, F64, DEFAULT),
    ROW(UINT2DOUBLE_RN, U32, U32, F64, DEFAULT),
    ROW(LLRINT, F32, F32, S64, RN),
    ROW(LLRINT, F64, F64, S64, RN),
    ONE(LLROUND, F32, llround_f32),
    ONE(LLROUND, F64, llround_f64),
    ONE(HILOINT2DOUBLE, I32, hi_lo),
    ONE(DOUBLE2LOINT, F64, low),
    ONE(DOUBLE2HIINT, F64, high),
    SAME(INT_AS_FLOAT, I32),
    SAME(FLOAT_AS_INT, F32),
    SAME(UINT_AS_FLOAT, U32),
    SAME(FLOAT_AS_UINT, F32),
    SAME(LONGLONG_AS_DOUBLE, I64),
    SAME(DOUBLE_AS_LONGLONG, F64),
};
const MathTable math_convert_table = MATH_TABLE(rows);
