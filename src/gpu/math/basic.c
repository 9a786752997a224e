/* math_basic: arithmetic with a chosen rounding, rounding to whole numbers, and the approximations of the machine's
 * special function unit (fast_*): what the hardware has, one instruction each, and the few that take two or three.
 *
 * sqrt and rsqrt of f32 are the unit's (1 and 2 ulp, subnormals included); sqrt_rn and rsqrt_rn are the rounded ones.
 * exp2 of f32 is the unit's too, as in math/exp.c.
 */
#include "gpu/math/math.h"

#define ROW(FN, T, CODE, ...) \
  { \
    MATH_##FN, DT_##T, NULL, NULL, { .code = LANE_##CODE, .kind = LK_##T, .buffer = -1, __VA_ARGS__ } \
  }
#define FOUR(FN, T, CODE) \
  ROW(FN##_RN, T, CODE, .rounding = ROUND_RN, .exact = 1), ROW(FN##_RZ, T, CODE, .rounding = ROUND_RZ, .exact = 1), \
      ROW(FN##_RD, T, CODE, .rounding = ROUND_RM, .exact = 1), ROW(FN##_RU, T, CODE, .rounding = ROUND_RP, .exact = 1)
#define FOUR_PLAIN(FN, T, CODE) \
  ROW(FN##_RN, T, CODE, .rounding = ROUND_RN), ROW(FN##_RZ, T, CODE, .rounding = ROUND_RZ), \
      ROW(FN##_RD, T, CODE, .rounding = ROUND_RM), ROW(FN##_RU, T, CODE, .rounding = ROUND_RP)
#define ARITHMETIC(T) \
  FOUR(ADD, T, ADD), FOUR(SUB, T, SUB), FOUR(MUL, T, MUL), FOUR_PLAIN(FMA, T, FMA), FOUR_PLAIN(DIV, T, DIV), \
      FOUR_PLAIN(RCP, T, RCP), FOUR_PLAIN(SQRT, T, SQRT), ROW(FMA, T, FMA, .rounding = ROUND_RN), \
      ROW(FLOOR, T, ROUND, .rounding = ROUND_RM), ROW(CEIL, T, ROUND, .rounding = ROUND_RP), \
      ROW(TRUNC, T, ROUND, .rounding = ROUND_RZ), ROW(RINT, T, ROUND, .rounding = ROUND_RN), \
      ROW(NEARBYINT, T, ROUND, .rounding = ROUND_RN)
#define ONE(FN, T, fn) \
  { \
    MATH_##FN, DT_##T, fn, NULL, { 0 } \
  }

/* Halves away from zero: a half more, cut off. That sum is cut, too: the largest number below a half comes to less than
 * 1, and no whole number is passed, since all below the sum are there. */
static V round_f32(B *b, const V *in) { return f_trunc(b, f_add_rz(b, in[0], f_copysign(b, F(0.5f), in[0]))); }
static V round_f64(B *b, const V *in) { return d_trunc(b, d_add_rz(b, in[0], d_copysign(b, D(0.5), in[0]))); }

static V fdim_f32(B *b, const V *in) { /* NaN when either is; +0 where x <= y, also for two infinities */
  V d = f_sub(b, in[0], in[1]);
  return p_select(b, f_le(b, in[0], in[1]), F(0), d);
}
static V fdim_f64(B *b, const V *in) {
  V d = d_sub(b, in[0], in[1]);
  return p_select(b, d_le(b, in[0], in[1]), D(0), d);
}

static V copysign_f32(B *b, const V *in) { return f_copysign(b, in[0], in[1]); }
static V copysign_f64(B *b, const V *in) { return d_copysign(b, in[0], in[1]); }
static V saturate(B *b, const V *in) { return f_sat(b, in[0]); }

static V rsqrt_rn_f32(B *b, const V *in) {
  V x = d_from_f(b, in[0]);
  return f_from_d(b, d_rcp(b, d_sqrt(b, x)));
}
V d_rsqrt_near_one(B *b, V x) {
  V y = d_rcp(b, d_sqrt(b, x));
  DD p = dd_product(b, x, y);
  V miss = d_fma(b, d_neg(b, p.lo), y, d_fma(b, d_neg(b, p.hi), y, D(1)));
  V better = d_fma(b, d_mul(b, y, D(0.5)), miss, y);
  return p_select(b, d_nan(b, better), y, better); /* 0 and infinity have no error to mend */
}
static V rsqrt_f64(B *b, const V *in) {
  V x = in[0], tiny = d_lt(b, x, D(0x1p-1000)), huge = d_gt(b, x, D(0x1p1000));
  V scale = p_select(b, tiny, D(0x1p100), p_select(b, huge, D(0x1p-100), D(1)));
  V back = p_select(b, tiny, D(0x1p50), p_select(b, huge, D(0x1p-50), D(1)));
  return d_mul(b, d_rsqrt_near_one(b, d_mul(b, x, scale)), back);
}

static V rcp64h(B *b, const V *in) {
  return lane_op(b, (LaneOp){.code = LANE_RCP, .kind = LK_F64, .approx = 1, .ftz = 1, .buffer = -1}, 1, in);
}

/* ---- fast_*: as CUDA's intrinsics, built on the unit's functions ------------------------------------------------- */

static V fast_div(B *b, const V *in) {
  return lane_op(b, (LaneOp){.code = LANE_DIV, .kind = LK_F32, .approx = 1, .ftz = 1, .buffer = -1}, 2, in);
}
static V unit(B *b, LaneCode code, V x) {
  return lane_op(b, (LaneOp){.code = code, .kind = LK_F32, .ftz = 1, .buffer = -1}, 1, &x);
}
static V fast_tan(B *b, const V *in) { return fast_div(b, (V[]){unit(b, LANE_SIN, in[0]), unit(b, LANE_COS, in[0])}); }
static V fast_exp(B *b, const V *in) { return f_ex2_approx(b, f_mul(b, in[0], F(1.44269504f))); }
static V fast_exp10(B *b, const V *in) { return f_ex2_approx(b, f_mul(b, in[0], F(3.32192809f))); }
static V fast_log(B *b, const V *in) { return f_mul(b, f_lg2_approx(b, in[0]), F(0.693147181f)); }
static V fast_log10(B *b, const V *in) { return f_mul(b, f_lg2_approx(b, in[0]), F(0.301029996f)); }
static V fast_pow(B *b, const V *in) { return f_ex2_approx(b, f_mul(b, in[1], f_lg2_approx(b, in[0]))); }

static const MathRow rows[] = {
    ARITHMETIC(F32),
    ARITHMETIC(F64),
    ROW(ABS, F32, ABS, 0),
    ROW(ABS, F64, ABS, 0),
    ROW(SQRT, F32, SQRT, .approx = 1),
    ROW(SQRT, F64, SQRT, .rounding = ROUND_RN),
    ROW(RSQRT, F32, RSQRT, 0),
    ROW(EXP2, F32, EX2, .ftz = 1),
    ROW(FAST_SINF, F32, SIN, .ftz = 1),
    ROW(FAST_COSF, F32, COS, .ftz = 1),
    ROW(FAST_LOG2F, F32, LG2, .ftz = 1),
    ROW(FAST_TANHF, F32, TANH, 0),
    ONE(FAST_DIVIDEF, F32, fast_div),
    ONE(FAST_TANF, F32, fast_tan),
    ONE(FAST_EXPF, F32, fast_exp),
    ONE(FAST_EXP10F, F32, fast_exp10),
    ONE(FAST_LOGF, F32, fast_log),
    ONE(FAST_LOG10F, F32, fast_log10),
    ONE(FAST_POWF, F32, fast_pow),
    ONE(RCP64H, F64, rcp64h),
    ONE(SATURATEF, F32, saturate),
    ONE(ROUND, F32, round_f32),
    ONE(ROUND, F64, round_f64),
    ONE(FDIM, F32, fdim_f32),
    ONE(FDIM, F64, fdim_f64),
    ONE(COPYSIGN, F32, copysign_f32),
    ONE(COPYSIGN, F64, copysign_f64),
    ONE(RSQRT_RN, F32, rsqrt_rn_f32),
    ONE(RSQRT, F64, rsqrt_f64),
};
const MathTable math_basic_table = MATH_TABLE(rows);
