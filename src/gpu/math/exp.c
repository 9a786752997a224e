/* math_exp: exponentials: exp, exp2, exp10, expm1, sinh, cosh, tanh.
 *
 *     exp(x) = 2^n * exp(r),   n = rint(x / ln 2),   r = x - n ln 2 in [-0.347, 0.347]
 *
 * The reduction is Cody and Waite's (Software Manual for the Elementary Functions, 1980): ln 2 in parts, subtracted by
 * fma, so that the large terms cancel exactly. n comes from adding 1.5 * 2^23 (2^52), which leaves rint(x / ln 2) in
 * the low bits of the sum.
 *
 * f32: the machine has 2^r. exp and exp10 reduce first, so that the argument of ex2 is small and its rounding harmless;
 * exp2 is ex2.approx.ftz itself (math/basic.c), as Triton has it. f64: polynomials (minimax; Remez's algorithm, with
 * coefficients rounded one by one and the rest fitted again).
 */
#include "gpu/math/math.h"

/* ---- f32 --------------------------------------------------------------------------------------------------------- */

/* base^x = 2^(n + r), where r = x * high + x * low - n and high + low = log2(base). n is kept in [-126, 127] by
 * saturating (x high + 126) / 253 to [0, 1]; what lies outside overflows or vanishes in ex2 or in the last product,
 * which rounds subnormals once. */
static V power_f32(B *b, V x, float high, float low) {
  V unit = f_sat(b, f_fma(b, x, F(high / 253.0f), F(126.0f / 253.0f)));
  V sum = f_fma(b, unit, F(253), F(12582913.0f)); /* 1.5 * 2^23 + 1 + (n + 126): the low 8 bits are n + 127 */
  V n = f_sub(b, sum, F(12583039.0f));
  V r = f_fma(b, x, F(low), f_fma(b, x, F(high), f_neg(b, n)));
  return f_mul(b, f_ex2_approx(b, r), i_shl(b, sum, I(23)));
}
static V exp_f32(B *b, const V *in) { return power_f32(b, in[0], 0x1.715476p+0f, 0x1.4ae0cp-26f); }
static V exp10_f32(B *b, const V *in) { return power_f32(b, in[0], 0x1.a934fp+1f, 0x1.2f346ep-24f); }

/* (exp(r) - 1 - r) / r^2, |r| <= 0.416 */
static const float expm1_c[] = {0.5f, 0.166666031f, 0.0416663475f, 0.00834514759f, 0.0013948424f, 0.000149982981f};

/* 2^n (exp(r) - 1) + (2^n - 1). For n below -25 that is -1; n = 128 has no 2^n, so half of it is taken and doubled. */
static V expm1_f32(B *b, const V *in) {
  V x = in[0];
  /* Up to log(1.5), n is 0: 2 (exp(r) - 1) + 1 would lose a place. */
  V small = f_lt(b, f_abs(b, x), F(0.41f)), bounded = f_max(b, f_min(b, x, F(90)), F(-90));
  V sum = f_fma(b, p_select(b, small, F(0), bounded), F(1.44269504f), F(12582912.0f));
  V n = f_sub(b, sum, F(12582912.0f));
  V r = f_fma(b, n, F(-0x1.62e430p-1f), x);
  r = f_fma(b, n, F(0x1.05c61p-29f), r);
  V p = f_fma(b, f_mul(b, r, F_POLY(r, expm1_c)), r, r);
  V half = i_shl(b, i_add(b, sum, I(126)), I(23));
  V y = f_fma(b, p, half, f_sub(b, half, F(0.5f)));
  y = f_add(b, y, y);
  y = p_select(b, f_gt(b, x, F(89)), F(__builtin_inff()), y);
  y = p_select(b, f_lt(b, x, F(-17.5f)), F(-1), y);
  return f_copysign(b, p_select(b, small, p, y), x); /* -0 stays */
}

static const float tanh_c[] = {-0.333332956f, 0.133318484f, -0.0537767224f, 0.0207703281f, -0.00586366514f};

/* Near 0 a polynomial, else 1 - 2 / (exp(2x) + 1), where the error of the small quotient counts little. */
static V tanh_f32(B *b, const V *in) {
  V x = in[0], a = f_abs(b, x);
  V e = f_ex2_approx(b, f_mul(b, a, F(2.88539008f)));
  V far = f_fma(b, f_rcp_approx(b, f_add(b, e, F(1))), F(-2), F(1));
  V z = f_mul(b, x, x), near = f_fma(b, f_mul(b, z, F_POLY(z, tanh_c)), a, a);
  return f_copysign(b, p_select(b, f_lt(b, a, F(0.6f)), near, far), x);
}

/* exp(a)/2, a >= 0: the exponent is one less, n up to 128. */
static V half_exp_f32(B *b, V a) {
  V unit = f_sat(b, f_fma(b, a, F(1.44269504f / 254.0f), F(126.0f / 254.0f)));
  V sum = f_fma(b, unit, F(254), F(12582912.0f));
  V n = f_sub(b, sum, F(12583038.0f));
  V r = f_fma(b, a, F(0x1.4ae0cp-26f), f_fma(b, a, F(0x1.715476p+0f), f_neg(b, n)));
  return f_mul(b, f_ex2_approx(b, r), i_shl(b, sum, I(23)));
}
static V cosh_f32(B *b, const V *in) {
  V h = half_exp_f32(b, f_abs(b, in[0]));
  return f_fma(b, f_rcp_approx(b, h), F(0.25f), h);
}
static const float sinh_c[] = {0.166666627f, 0.00833351631f, 0.000198157461f, 2.89354989e-06f};
static V sinh_f32(B *b, const V *in) {
  V x = in[0], a = f_abs(b, x), h = half_exp_f32(b, a);
  V far = f_copysign(b, f_fma(b, f_rcp_approx(b, h), F(-0.25f), h), x);
  V z = f_mul(b, x, x), near = f_fma(b, f_mul(b, z, F_POLY(z, sinh_c)), x, x);
  return p_select(b, f_lt(b, a, F(1.5f)), near, far);
}

/* ---- f64 --------------------------------------------------------------------------------------------------------- */

/* (exp(r) - 1 - r) / r^2 */
static const double exp_c[] = {0.5,
                               0.16666666666666677,
                               0.04166666666666669,
                               0.008333333333321823,
                               0.001388888888888992,
                               0.00019841269885241032,
                               2.480158728637515e-05,
                               2.7557245271048863e-06,
                               2.755732327625708e-07,
                               2.5108642061814732e-08,
                               2.0895866232291963e-09};
#define LN2_HIGH 0x1.62e42fefa39efp-1
#define LN2_LOW 0x1.abc9e3b39803fp-56

/* rint(x * per), as a number and (mod 2^32) in *n. */
static V whole_f64(B *b, V x, double per, V *n) {
  V sum = d_fma(b, x, D(per), D(0x1.8p52));
  *n = l_low(b, sum);
  return d_sub(b, sum, D(0x1.8p52));
}
/* y * 2^n, rounded once, for n in [-2000, 2000]. */
static V scale_f64(B *b, V y, V n) {
  V half = i_shr(b, n, I(1));
  return d_mul(b, d_mul(b, y, d_pow2(b, half)), d_pow2(b, i_sub(b, n, half)));
}
/* y, but infinity above the one limit and `under` below the other; NaN of x goes through y. */
static V limit_f64(B *b, V x, V y, double above, double below, double under) {
  y = p_select(b, d_gt(b, x, D(above)), D(__builtin_inf()), y);
  return p_select(b, d_lt(b, x, D(below)), D(under), y);
}

static V exp_core(B *b, V x, V *n) {
  V whole = whole_f64(b, x, 0x1.71547652b82fep+0, n);
  V r = d_fma(b, whole, D(-LN2_LOW), d_fma(b, whole, D(-LN2_HIGH), x));
  return d_fma(b, d_fma(b, D_POLY(r, exp_c), r, D(1)), r, D(1));
}
V d_exp(B *b, V x) {
  V n, p = exp_core(b, x, &n);
  return limit_f64(b, x, scale_f64(b, p, n), 710, -746, 0);
}
V d_exp_half(B *b, V x) {
  V n, p = exp_core(b, x, &n);
  return limit_f64(b, x, scale_f64(b, p, i_sub(b, n, I(1))), 711, -746, 0);
}
V d_exp_dd(B *b, DD x) {
  V n, whole = whole_f64(b, x.hi, 0x1.71547652b82fep+0, &n);
  V first = d_fma(b, whole, D(-LN2_HIGH), x.hi); /* exact */
  DD r = dd_fast_sum(b, first, d_fma(b, whole, D(-LN2_LOW), x.lo));
  V p = d_fma(b, d_mul(b, r.hi, r.hi), D_POLY(r.hi, exp_c), r.lo); /* exp(r) - 1 - r.hi */
  p = d_add(b, D(1), d_add(b, r.hi, d_fma(b, r.hi, r.lo, p)));
  return limit_f64(b, x.hi, scale_f64(b, p, n), 710, -746, 0);
}
static V exp_f64(B *b, const V *in) { return d_exp(b, in[0]); }

static const double exp2_c[] = {0.6931471805599453,     0.24022650695910172,    0.055504108664824574,
                                0.009618129107577034,   0.0013333558145565347,  0.00015403530478910103,
                                1.5252734741483789e-05, 1.3215424463345346e-06, 1.0177654480166194e-07,
                                7.0756179899547945e-09, 4.519537468215488e-10};
static V exp2_f64(B *b, const V *in) {
  V n, x = in[0], whole = whole_f64(b, x, 1, &n), r = d_sub(b, x, whole);
  V p = d_fma(b, D_POLY(r, exp2_c), r, D(1));
  return limit_f64(b, x, scale_f64(b, p, n), 1025, -1076, 0);
}

static const double exp10_c[] = {2.302585092994046,     2.6509490552392068,    2.0346785922932535,
                                 1.171255148907613,     0.5393829292539994,    0.20699584961374576,
                                 0.0680893590368395,    0.019597615184152317,  0.005014194391501962,
                                 0.0011576417715819564, 0.00023767370771257828};
static V exp10_f64(B *b, const V *in) {
  V n, x = in[0], whole = whole_f64(b, x, 0x1.a934f0979a371p+1, &n);
  V r = d_fma(b, whole, D(0x1.9dc1da994fd21p-59), d_fma(b, whole, D(-0x1.34413509f79ffp-2), x));
  V p = d_fma(b, D_POLY(r, exp10_c), r, D(1));
  return limit_f64(b, x, scale_f64(b, p, n), 309, -325, 0);
}

/* As expm1_f32. The sum 2^n r + (2^n - 1) is taken in two parts, since its rounding would be most of the error. */
V d_expm1(B *b, V x) {
  V n, whole = whole_f64(b, x, 0x1.71547652b82fep+0, &n);
  V first = d_fma(b, whole, D(-LN2_HIGH), x);
  DD r = dd_fast_sum(b, first, d_mul(b, whole, D(-LN2_LOW)));
  V tail = d_fma(b, d_mul(b, r.hi, r.hi), D_POLY(r.hi, exp_c), d_fma(b, r.hi, r.lo, r.lo));
  V near = d_add(b, r.hi, tail);
  V half = d_pow2(b, i_sub(b, n, I(1)));
  DD sum = dd_sum(b, d_sub(b, half, D(0.5)), d_mul(b, half, r.hi));
  V far = d_add(b, sum.hi, d_fma(b, half, tail, sum.lo));
  far = limit_f64(b, x, d_add(b, far, far), 710, -40, -1);
  return d_copysign(b, p_select(b, d_eq(b, whole, D(0)), near, far), x);
}
static V expm1_f64(B *b, const V *in) { return d_expm1(b, in[0]); }

static V cosh_f64(B *b, const V *in) {
  V h = d_exp_half(b, d_abs(b, in[0]));
  return d_fma(b, d_rcp(b, h), D(0.25), h);
}

static const double sinh64_c[] = {0.16666666666666666,    0.008333333333333573,   0.00019841269841061162,
                                  2.7557319310088304e-06, 2.5052089413277983e-08, 1.6061339181873303e-10,
                                  7.503251576276108e-13,  6.47626096144216e-15};
static V sinh_f64(B *b, const V *in) {
  V x = in[0], a = d_abs(b, x), h = d_exp_half(b, a);
  V far = d_copysign(b, d_fma(b, d_rcp(b, h), D(-0.25), h), x);
  V z = d_mul(b, x, x), near = d_fma(b, d_mul(b, z, D_POLY(z, sinh64_c)), x, x);
  return p_select(b, d_lt(b, a, D(1)), near, far);
}

static const double tanh64_c[] = {-0.333333333333333,     0.1333333333332658,     -0.053968253963736515,
                                  0.021869488385149793,   -0.008863232589614922,  0.0035920919085648977,
                                  -0.0014555420469583823, 0.0005884411480828814,  -0.000233372955403507,
                                  8.330395967238855e-05,  -1.9486897936720875e-05};
static V tanh_f64(B *b, const V *in) {
  V x = in[0], a = d_abs(b, x);
  V e = d_exp_dd(b, (DD){d_add(b, a, a), D(0)});
  V far = d_fma(b, d_rcp(b, d_add(b, e, D(1))), D(-2), D(1));
  V z = d_mul(b, x, x), near = d_fma(b, d_mul(b, z, D_POLY(z, tanh64_c)), a, a);
  return d_copysign(b, p_select(b, d_lt(b, a, D(0.55)), near, far), x);
}

#define ONE(FN, T, fn) \
  { \
    MATH_##FN, DT_##T, fn, NULL, { 0 } \
  }
static const MathRow rows[] = {
    ONE(EXP, F32, exp_f32),     ONE(EXP, F64, exp_f64),     ONE(EXP2, F64, exp2_f64),   ONE(EXP10, F32, exp10_f32),
    ONE(EXP10, F64, exp10_f64), ONE(EXPM1, F32, expm1_f32), ONE(EXPM1, F64, expm1_f64), ONE(TANH, F32, tanh_f32),
    ONE(TANH, F64, tanh_f64),   ONE(COSH, F32, cosh_f32),   ONE(COSH, F64, cosh_f64),   ONE(SINH, F32, sinh_f32),
    ONE(SINH, F64, sinh_f64),
};
const MathTable math_exp_table = MATH_TABLE(rows);
