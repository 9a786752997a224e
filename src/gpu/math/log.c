/* math_log: logarithms and their kin: log, log2, log10, log1p, asinh, acosh, atanh.
 *
 *     log(x) = k ln 2 + log(1 + f),   x = 2^k (1 + f)
 *
 * k is read from the bits: subtracting those of 2/3 (f32) or sqrt(1/2) (f64) first makes the exponent field change
 * where 1 + f should wrap, so that 1 + f lies around 1. f32: log(1 + f) = f + f^2 q(f), q a polynomial. f64: with s = f
 * / (2 + f), log(1 + f) = 2 atanh(s), an odd series in s; its leading terms are put in terms of f, which is exact, so
 * that the rounding of s counts little:
 *
 *     log(1 + f) = f - (f^2/2 - s (f^2/2 + R(s^2)))
 *
 * (the arrangement of K. C. Ng's for Sun's libm). d_log_dd gives two parts, for powers and other bases.
 */
#include "gpu/math/math.h"

#define LN2_HIGH33 0x1.62e42feep-1 /* the product with any exponent is exact */
#define LN2_LOW33 0x1.a39ef35793c76p-33

/* ---- f32 --------------------------------------------------------------------------------------------------------- */

/* (log(1 + f) - f) / f^2 on [-1/3, 1/3], and the same for log2 with f log2(e). */
static const float log_c[] = {-0.5f,        0.333331972f,  -0.249999195f, 0.200114414f, -0.166744336f,
                              0.139893383f, -0.122740969f, 0.140646443f,  -0.12479829f};
static const float log2_c[] = {-0.721347511f, 0.480896294f,  -0.360674173f, 0.2887097f,   -0.240499586f,
                               0.201722831f,  -0.177934632f, 0.203479022f,  -0.176303566f};

static V f_poly_log1p(B *b, V f) { return f_fma(b, f_mul(b, f, F_POLY(f, log_c)), f, f); }

/* f and k of a positive x, subnormals too. */
static V reduce_f32(B *b, V x, V *k) {
  V small = f_lt(b, x, F(0x1p-126f)), normal = p_select(b, small, f_mul(b, x, F(0x1p23f)), x);
  V field = i_and(b, i_sub(b, normal, I(0x3f2aaaab)), I(0xff800000u));
  *k = f_fma(b, f_from_i(b, field), F(0x1p-23f), p_select(b, small, F(-23), F(0)));
  return f_sub(b, i_sub(b, normal, field), F(1));
}
/* What a logarithm gives outside (0, inf): -inf for 0, inf for inf, else NaN. Infinity and all below 0 are beyond inf's
 * bits, less one. */
static V ends_f32(B *b, V x, V y) {
  V out = u_ge(b, x, I(0x7f800000)), inf = F(__builtin_inff());
  y = p_select(b, out, f_fma(b, x, inf, inf), y);
  return p_select(b, f_eq(b, x, F(0)), F(-__builtin_inff()), y);
}
static V log_f32(B *b, const V *in) {
  V k, f = reduce_f32(b, in[0], &k);
  return ends_f32(b, in[0], f_fma(b, k, F(0.693147182f), f_poly_log1p(b, f)));
}
static V log2_f32(B *b, const V *in) {
  V k, f = reduce_f32(b, in[0], &k);
  V p = f_fma(b, f, F(1.44269504f), f_mul(b, f, f_mul(b, f, F_POLY(f, log2_c))));
  return ends_f32(b, in[0], f_add(b, k, p));
}
static V log10_f32(B *b, const V *in) {
  V k, f = reduce_f32(b, in[0], &k);
  V p = f_mul(b, f_poly_log1p(b, f), F(0.434294492f));
  return ends_f32(b, in[0], f_fma(b, k, F(0.30103001f), f_fma(b, k, F(-1.43209889e-08f), p)));
}

/* log(1 + x) for x > -1 finite. The exponent is that of 1 + x; then 1 + f = 2^-k + 2^-k x, where both terms are exact.
 * 4 * 2^-k has an exponent field for every k. */
static V log1p_core_f32(B *b, V x) {
  V field = i_and(b, i_sub(b, f_add(b, x, F(1)), I(0x3f2aaaab)), I(0xff800000u));
  V scale4 = i_sub(b, I(0x40800000), field), scaled = i_sub(b, x, field);
  scaled = p_select(b, i_eq(b, field, I(0)), x, scaled);
  V f = f_add(b, f_fma(b, scale4, F(0.25f), F(-1)), scaled);
  V k = f_mul(b, f_from_i(b, field), F(0x1p-23f));
  return f_fma(b, k, F(0.693147182f), f_poly_log1p(b, f));
}
static V log1p_f32(B *b, const V *in) {
  V x = in[0], inf = F(__builtin_inff());
  V y = log1p_core_f32(b, x);
  V inside = p_and(b, f_gt(b, x, F(-1)), f_lt(b, x, inf));
  y = p_select(b, inside, y, f_fma(b, x, inf, inf));
  y = p_select(b, f_eq(b, x, F(-1)), F(-__builtin_inff()), y);
  return p_select(b, f_eq(b, x, F(0)), x, y);
}

/* asinh(a) = log1p(a + a^2 / (1 + sqrt(1 + a^2))); far out log(2a). */
static V asinh_f32(B *b, const V *in) {
  V x = in[0], a = f_abs(b, x), far = f_gt(b, a, F(0x1p30f));
  V z = f_mul(b, a, a), root = f_sqrt(b, f_add(b, z, F(1)));
  V u = f_fma(b, z, f_rcp_approx(b, f_add(b, root, F(1))), a);
  V y = log1p_core_f32(b, p_select(b, far, a, u));
  y = f_add(b, y, p_select(b, far, F(0.693147182f), F(0)));
  y = p_select(b, f_lt(b, a, F(__builtin_inff())), y, a);
  y = p_select(b, f_lt(b, a, F(0x1p-40f)), a, y);
  return f_copysign(b, y, x);
}
static V acosh_f32(B *b, const V *in) {
  V x = in[0], t = f_sub(b, x, F(1)), far = f_gt(b, x, F(0x1p30f));
  V u = f_add(b, t, f_sqrt(b, f_mul(b, t, f_add(b, t, F(2)))));
  V y = log1p_core_f32(b, p_select(b, far, x, u));
  y = f_add(b, y, p_select(b, far, F(0.693147182f), F(0)));
  y = p_select(b, f_lt(b, x, F(__builtin_inff())), y, x);
  return p_select(b, f_ge(b, x, F(1)), y, F(__builtin_nanf("")));
}
static V atanh_f32(B *b, const V *in) {
  V x = in[0], a = f_abs(b, x), u = f_div(b, f_add(b, a, a), f_sub(b, F(1), a));
  V y = f_mul(b, log1p_core_f32(b, u), F(0.5f));
  y = p_select(b, f_lt(b, a, F(0x1p-20f)), a, y);
  y = p_select(b, f_lt(b, a, F(1)), y, p_select(b, f_eq(b, a, F(1)), F(__builtin_inff()), F(__builtin_nanf(""))));
  return f_copysign(b, y, x);
}

/* ---- f64 --------------------------------------------------------------------------------------------------------- */

static const double log64_c[] = {0.6666666666666666, 0.4000000000000495, 0.2857142856939817,  0.22222222609484532,
                                 0.1818177811910808, 0.1538700040090013, 0.13251865090385467, 0.13237523850256763};

/* m in [sqrt(1/2), sqrt(2)) and k, with x = 2^k m, of a positive finite x. */
static V reduce_f64(B *b, V x, V *k) {
  V small = d_lt(b, x, D(0x1p-1022)), normal = p_select(b, small, d_mul(b, x, D(0x1p54)), x);
  V high = l_high(b, normal), field = i_and(b, i_sub(b, high, I(0x3fe6a09f)), I(0xfff00000u));
  *k = i_sub(b, i_shr(b, field, I(20)), p_select(b, small, I(54), I(0)));
  return l_pack(b, l_low(b, normal), i_sub(b, high, field));
}
/* k ln 2 + log(1 + f) + c, where c is small against the rest. */
static V log_sum_f64(B *b, V f, V k, V c) {
  V s = d_div(b, f, d_add(b, f, D(2))), z = d_mul(b, s, s), half_square = d_mul(b, d_mul(b, f, D(0.5)), f);
  V r = d_mul(b, z, D_POLY(z, log64_c));
  V small = d_fma(b, s, d_add(b, half_square, r), d_fma(b, k, D(LN2_LOW33), c));
  return d_fma(b, k, D(LN2_HIGH33), d_sub(b, f, d_sub(b, half_square, small)));
}
static V ends_f64(B *b, V x, V y) {
  V inside = p_and(b, d_gt(b, x, D(0)), d_lt(b, x, D(__builtin_inf()))), inf = D(__builtin_inf());
  y = p_select(b, inside, y, d_fma(b, x, inf, inf));
  return p_select(b, d_eq(b, x, D(0)), D(-__builtin_inf()), y);
}
V d_log(B *b, V x) {
  V k, m = reduce_f64(b, x, &k);
  return ends_f64(b, x, log_sum_f64(b, d_sub(b, m, D(1)), d_from_i(b, k), D(0)));
}
static V log_f64(B *b, const V *in) { return d_log(b, in[0]); }

/* (atanh(s)/s - 1 - s^2/3) / s^4 as a polynomial of s^2. */
static const double atanh_c[] = {0.2,
                                 0.14285714285713444,
                                 0.11111111111358139,
                                 0.09090909053059218,
                                 0.07692311084766831,
                                 0.0666648060330776,
                                 0.05888605829112972,
                                 0.05140095344030158,
                                 0.060090427950990566};
/* log(m) = 2 s (1 + z (1/3 + z q(z))), z = s^2; what is not small is kept in two parts. */
static DD log_m_dd(B *b, V m) {
  V f = d_sub(b, m, D(1));
  DD g = dd_fast_sum(b, p_select(b, d_gt(b, m, D(1)), m, D(1)), p_select(b, d_gt(b, m, D(1)), D(1), m)); /* m + 1 */
  V inverse = d_rcp(b, g.hi), s1 = d_mul(b, f, inverse);
  V rest = d_fma(b, d_neg(b, s1), g.lo, d_fma(b, d_neg(b, s1), g.hi, f));
  DD s = dd_fast_sum(b, s1, d_mul(b, rest, inverse));
  DD z = dd_mul(b, s, s);
  DD t = dd_fast_sum(b, D(0x1.5555555555555p-2), d_mul(b, z.hi, D_POLY(z.hi, atanh_c)));
  t.lo = d_add(b, t.lo, D(0x1.5555555555555p-56));
  DD u = dd_mul(b, dd_mul(b, s, z), t);
  DD y = dd_add(b, s, u);
  return (DD){d_add(b, y.hi, y.hi), d_add(b, y.lo, y.lo)};
}
DD d_log_dd(B *b, V x) {
  V k, m = reduce_f64(b, x, &k), whole = d_from_i(b, k);
  DD y = log_m_dd(b, m), shift = dd_product(b, whole, D(0x1.62e42fefa39efp-1));
  shift.lo = d_fma(b, whole, D(0x1.abc9e3b39803fp-56), shift.lo);
  return dd_add(b, dd_fast_sum(b, shift.hi, shift.lo), y);
}
static V log2_f64(B *b, const V *in) {
  V k, m = reduce_f64(b, in[0], &k);
  DD y = dd_mul(b, log_m_dd(b, m), dd_const(b, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56));
  y = dd_add1(b, y, d_from_i(b, k));
  return ends_f64(b, in[0], y.hi);
}
static V log10_f64(B *b, const V *in) {
  V k, m = reduce_f64(b, in[0], &k), whole = d_from_i(b, k);
  DD y = dd_mul(b, log_m_dd(b, m), dd_const(b, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57));
  DD shift = dd_product(b, whole, D(0x1.34413509f79ffp-2));
  shift.lo = d_fma(b, whole, D(-0x1.9dc1da994fd21p-59), shift.lo);
  return ends_f64(b, in[0], dd_add(b, shift, y).hi);
}

/* The exponent is that of 1 + x; what that sum loses, c, comes in as c / (1 + x), for which a rough quotient will do.
 */
V d_log1p(B *b, V x) {
  DD u = dd_sum(b, D(1), x);
  V k, m = reduce_f64(b, u.hi, &k), same = i_eq(b, k, I(0));
  V near_one = d_from_f(b, f_rcp_approx(b, f_from_d(b, m)));
  V c = d_mul(b, d_mul(b, u.lo, d_pow2(b, i_sub(b, I(0), i_min(b, k, I(1022))))), near_one);
  V f = p_select(b, same, x, d_sub(b, m, D(1)));
  V y = log_sum_f64(b, f, d_from_i(b, k), p_select(b, same, D(0), c));
  V inside = p_and(b, d_gt(b, x, D(-1)), d_lt(b, x, D(__builtin_inf()))), inf = D(__builtin_inf());
  y = p_select(b, inside, y, d_fma(b, x, inf, inf));
  y = p_select(b, d_eq(b, x, D(-1)), D(-__builtin_inf()), y);
  return p_select(b, d_lt(b, d_abs(b, x), D(0x1p-60)), x, y);
}
static V log1p_f64(B *b, const V *in) { return d_log1p(b, in[0]); }

static V asinh_f64(B *b, const V *in) {
  V x = in[0], a = d_abs(b, x), far = d_gt(b, a, D(0x1p60));
  V z = d_mul(b, a, a), root = d_sqrt(b, d_add(b, z, D(1)));
  V u = d_add(b, a, d_div(b, z, d_add(b, root, D(1))));
  V y = d_log1p(b, p_select(b, far, a, u));
  y = d_add(b, y, p_select(b, far, D(0x1.62e42fefa39efp-1), D(0)));
  return d_copysign(b, y, x);
}
static V acosh_f64(B *b, const V *in) {
  V x = in[0], t = d_sub(b, x, D(1)), far = d_gt(b, x, D(0x1p60));
  V u = d_add(b, t, d_sqrt(b, d_mul(b, t, d_add(b, t, D(2)))));
  V y = d_log1p(b, p_select(b, far, x, u));
  y = d_add(b, y, p_select(b, far, D(0x1.62e42fefa39efp-1), D(0)));
  return p_select(b, d_ge(b, x, D(1)), y, D(__builtin_nan("")));
}
static V atanh_f64(B *b, const V *in) {
  V x = in[0], a = d_abs(b, x);
  V u = d_div(b, d_add(b, a, a), d_sub(b, D(1), a));
  return d_copysign(b, d_mul(b, d_log1p(b, u), D(0.5)), x);
}

#define ONE(FN, T, fn) \
  { \
    MATH_##FN, DT_##T, fn, NULL, { 0 } \
  }
static const MathRow rows[] = {
    ONE(LOG, F32, log_f32),     ONE(LOG, F64, log_f64),     ONE(LOG2, F32, log2_f32),   ONE(LOG2, F64, log2_f64),
    ONE(LOG10, F32, log10_f32), ONE(LOG10, F64, log10_f64), ONE(LOG1P, F32, log1p_f32), ONE(LOG1P, F64, log1p_f64),
    ONE(ASINH, F32, asinh_f32), ONE(ASINH, F64, asinh_f64), ONE(ACOSH, F32, acosh_f32), ONE(ACOSH, F64, acosh_f64),
    ONE(ATANH, F32, atanh_f32), ONE(ATANH, F64, atanh_f64),
};
const MathTable math_log_table = MATH_TABLE(rows);
