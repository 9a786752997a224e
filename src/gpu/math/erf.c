/* math_erf: erf, erfc, erfcx, normcdf.
 *
 * erfcx(x) = exp(x^2) erfc(x) is smooth on [0, inf): (1 + 2x) erfcx(x) is a polynomial of t = (x - 4) / (x + 4), which
 * maps [0, inf) to
 * [-1, 1) (Shepherd and Laframboise, 1981). The others follow, with x^2 in two parts, since exp would multiply its
 * rounding:
 *
 *     erfc(x) = exp(-x^2) erfcx(x)      erf(x) = 1 - erfc(x), near 0 an odd polynomial      normcdf(x) = erfc(-x / sqrt
 * 2) / 2
 */
#include "gpu/math/math.h"

/* ---- f32 --------------------------------------------------------------------------------------------------------- */

static const float erf_c[] = {0.128379166f,   -0.37612626f,     0.112835787f,   -0.0268533546f,
                              0.00518719153f, -0.000799824949f, 7.80868941e-05f}; /* erf(x)/x - 1 of x^2, |x| <= 1 */
static const float erfc_exponent_c[] = {1.62836576f, 0.916051328f, 0.153717652f, -0.0346613228f,
                                        /* -log2(erfc(x)) / x, x in [1, 4] */
                                        0.00543119339f, -0.000508295838f, 2.03899945e-05f};
static V erf_f32(B *b, const V *in) {
  V x = in[0], z = f_mul(b, x, x), near = f_fma(b, F_POLY(z, erf_c), x, x);
  V a = f_abs(b, x), m = f_min(b, a, F(3.95f)); /* beyond, it is 1 */
  V tail = f_ex2_approx(b, f_mul(b, F_POLY(m, erfc_exponent_c), f_neg(b, m)));
  return p_select(b, f_ge(b, a, F(1)), f_copysign(b, f_sub(b, F(1), tail), x), near);
}

/* ---- f64 --------------------------------------------------------------------------------------------------------- */

static const double erfcx_c[] = {
    1.2329951186255526,      -0.1396211168405623,     0.015379652102619287,    0.06809705425467004,
    -0.10103906603628535,    0.09373283499906976,     -0.06633036581247215,    0.0371675155268526,
    -0.01619773405703745,    0.0050319700656708795,   -0.000757773277147371,   -0.00019925713849297118,
    0.0001506215471044875,   -2.4397767720089507e-05, -1.1221422987737106e-05, 5.7066410307921635e-06,
    2.921893083186204e-07,   -8.211349376279397e-07,  7.724341869189135e-08,   1.0636742294191867e-07,
    -2.0410032976124685e-08, -1.2358439191628801e-08, 3.1120667421744543e-09,  9.331914720764943e-10,
    -2.563507141262495e-10};
V d_erfcx(B *b, V x) {
  V near = d_min(b, x, D(0x1p60)); /* beyond, t is 1 */
  V t = d_div(b, d_sub(b, near, D(4)), d_add(b, near, D(4)));
  return d_div(b, d_mul(b, D_POLY(t, erfcx_c), D(0.5)), d_add(b, x, D(0.5)));
}

static DD minus_square(B *b, V x) {
  DD s = dd_product(b, x, x);
  return dd_neg(b, s);
}
V d_erfc(B *b, V x) {
  V a = d_abs(b, x), y = d_mul(b, d_exp_dd(b, minus_square(b, a)), d_erfcx(b, a));
  return p_select(b, d_lt(b, x, D(0)), d_sub(b, D(2), y), y);
}
static V erfc_f64(B *b, const V *in) { return d_erfc(b, in[0]); }

static V erfcx_f64(B *b, const V *in) {
  V x = in[0], y = d_erfcx(b, d_abs(b, x));
  LaneOp *negative = when(b, d_lt(b, x, D(0)), LT_B64);
  V e = d_exp_dd(b, dd_product(b, x, x));
  otherwise(b, negative, d_sub(b, d_add(b, e, e), y));
  return whichever(b, negative, y);
}

static const double erf64_c[] = {1.1283791670955126,      -0.37612638903183415,    0.11283791670942499,
                                 -0.026866170643155444,   0.00522397760825763,     -0.0008548326088822995,
                                 0.00012055299465725422,  -1.4924839289659344e-05, 1.6448805707121774e-06,
                                 -1.6219624468465328e-07, 1.3769688652043916e-08,  -7.889906973564377e-10};
static V erf_f64(B *b, const V *in) {
  V x = in[0], z = d_mul(b, x, x);
  /* 2/sqrt(pi) in two parts: its rounding alone is a quarter of an ulp. */
  V near = d_fma(b, x, D(0x1.1ae3a914fed80p-56), d_mul(b, x, D_POLY(z, erf64_c)));
  LaneOp *far = when(b, d_ge(b, d_abs(b, x), D(1)), LT_B64);
  V y = d_copysign(b, d_sub(b, D(1), d_erfc(b, d_abs(b, x))), x);
  otherwise(b, far, y);
  return whichever(b, far, near);
}

/* The argument -x / sqrt 2 in two parts; its square in two parts too. */
static V normcdf_f64(B *b, const V *in) {
  V x = d_max(b, d_min(b, in[0], D(50)), D(-50));
  DD t = dd_product(b, x, D(-0x1.6a09e667f3bcdp-1));
  t.lo = d_fma(b, x, D(0x1.bdd3413b26456p-55), t.lo);
  DD s = dd_product(b, t.hi, t.hi);
  s.lo = d_fma(b, d_add(b, t.hi, t.hi), t.lo, s.lo);
  V y = d_mul(b, d_mul(b, d_exp_dd(b, dd_neg(b, s)), d_erfcx(b, d_abs(b, t.hi))), D(0.5));
  y = p_select(b, d_lt(b, t.hi, D(0)), d_sub(b, D(1), y), y);
  return p_select(b, d_nan(b, in[0]), in[0], y);
}

#define ONE(FN, T, fn) \
  { \
    MATH_##FN, DT_##T, fn, NULL, { 0 } \
  }
static const MathRow rows[] = {
    ONE(ERF, F32, erf_f32),     ONE(ERF, F64, erf_f64),         ONE(ERFC, F64, erfc_f64),
    ONE(ERFCX, F64, erfcx_f64), ONE(NORMCDF, F64, normcdf_f64),
};
const MathTable math_erf_table = MATH_TABLE(rows);
