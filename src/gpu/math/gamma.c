/* math_gamma: tgamma and lgamma.
 *
 * Far from 0 Stirling's series, log Gamma(a) = (a - 1/2)(log a - 1) + (log 2pi - 1)/2 + S(1/a), with the logarithm in
 * two parts; near 0 the recurrence Gamma(x + 1) = x Gamma(x) leads to an interval of length 1. Below 0 by reflection,
 * Gamma(x) Gamma(-x) = -pi / (x sin(pi x)).
 */
#include "gpu/math/math.h"

#define PI_HIGH 0x1.921fb54442d18p+1

/* a S(1/a) of 1/a^2, a >= 8. */
static const double stirling_c[] = {0.08333333333333333,    -0.002777777777754777, 0.0007936507750287692,
                                    -0.0005952324816111085, 0.0008409554851707389, -0.0018607294277933866,
                                    0.004426644872921768};
static DD lgamma_far(B *b, V a) {
  DD w = dd_add1(b, d_log_dd(b, a), D(-1));
  DD y = dd_mul1(b, w, d_sub(b, a, D(0.5)));
  V inverse = d_rcp(b, a), s = d_mul(b, inverse, D_POLY(d_mul(b, inverse, inverse), stirling_c));
  y = dd_add(b, y, dd_const(b, 0x1.acfe390c97d69p-2, 0x1.3494bc9001442p-56)); /* (log 2pi - 1) / 2 */
  return dd_add1(b, y, s);
}

/* log Gamma(1 + t) / t and log Gamma(2 + t) / t, |t| <= 1/2. */
static const double lgamma1_c[] = {
    -0.5772156649015329,   0.822467033424113,     -0.4006856343865412,  0.2705808084278858,   -0.2073855510261549,
    0.16955717698174563,   -0.14404989702360876,  0.12550967065835228,  -0.1113342524551374,  0.10009941101115989,
    -0.09095443903369556,  0.08335503880517822,   -0.0769239526865714,  0.07141234159271731,  -0.06678610487144067,
    0.06274597082270741,   -0.05771020691064851,  0.053503777413010746, -0.06000002798045128, 0.06214554290001089,
    -0.013948400887064474, -0.004714876999910913, -0.14633216385036593, 0.18126978286190273,  0.15476940984605567,
    -0.203512546108043,    -0.22588944818219517,  0.25022354535079344};
static const double lgamma2_c[] = {0.42278433509846713,    0.32246703342411326,    -0.0673523010531956,
                                   0.020580808427777243,   -0.007385551028938795,  0.0028905103312107604,
                                   -0.0011927539008916566, 0.0005096695109575171,  -0.00022315497918251574,
                                   9.945773312061485e-05,  -4.492371250697864e-05, 2.05051391860397e-05,
                                   -9.456361541646707e-06, 4.386653294688731e-06,  -1.97412633976134e-06,
                                   9.155914411237158e-07,  -5.81316734045824e-07,  2.8294484797789263e-07};
/* 0 < a < 8. t = a - rint(a); around 1 and 2 its polynomials; above, log((a - 1)(a - 2)...) + lgamma(2 + t); below 1/2,
 * lgamma(1 + a) - log a. */
static V lgamma_near(B *b, V a) {
  V m = d_rint(b, a), t = d_sub(b, a, m), one = D(1);
  V product = one;
  for (int k = 1; k <= 6; k++) product = d_mul(b, product, p_select(b, d_gt(b, m, D(k + 1)), d_sub(b, a, D(k)), one));
  V tiny = d_lt(b, m, D(1)), first = d_lt(b, a, D(1.5));
  LaneOp *low = when(b, first, LT_B64);
  V p1 = d_mul(b, t, D_POLY(t, lgamma1_c));
  otherwise(b, low, p1);
  V p = whichever(b, low, d_mul(b, t, D_POLY(t, lgamma2_c)));
  LaneOp *shifted = when(b, p_or(b, tiny, d_gt(b, m, D(2))), LT_B64);
  V w = d_log(b, p_select(b, tiny, a, product));
  otherwise(b, shifted, d_add(b, p, p_select(b, tiny, d_neg(b, w), w)));
  return whichever(b, shifted, p);
}
static V lgamma_f64(B *b, const V *in) {
  V x = in[0], a = d_abs(b, x), inf = D(__builtin_inf());
  LaneOp *far = when(b, d_ge(b, a, D(8)), LT_B64);
  V far_y = lgamma_far(b, a).hi;
  otherwise(b, far, far_y);
  V y = whichever(b, far, lgamma_near(b, a));
  y = p_select(b, d_gt(b, a, D(0x1.74c5de97bb960p+1014)), inf, y); /* what overflows */
  y = d_add(b, y, D(0));                                           /* not -0 */
  LaneOp *below = when(b, d_lt(b, x, D(-0x1p-60)), LT_B64);        /* nearer to 0 both sides are -log |x| */
  V sine = d_mul(b, a, d_abs(b, d_sinpi(b, a)));
  V reflected = d_sub(b, d_log(b, d_div(b, D(PI_HIGH), sine)), y);
  reflected = p_select(b, d_ge(b, a, D(0x1p52)), inf, reflected); /* all are whole */
  otherwise(b, below, reflected);
  return whichever(b, below, y);
}

/* 1 / Gamma(1 + t), |t| <= 1/2. */
static const double rgamma_c[] = {1.0,
                                  0.5772156649015329,
                                  -0.6558780715202527,
                                  -0.04200263503409678,
                                  0.16653861138218917,
                                  -0.04219773455546622,
                                  -0.009621971524603801,
                                  0.007218943244871812,
                                  -0.001165167643255916,
                                  -0.00021524165214588018,
                                  0.0001280507204193015,
                                  -2.013500875839016e-05,
                                  -1.2525597301336285e-06,
                                  1.1336458971958257e-06,
                                  -2.0056912488647988e-07,
                                  4.788988325490465e-09};
/* |x| <= 12: Gamma(1 + t) times (x - 1)(x - 2)..., or divided by x (x + 1)...; each factor is exact. */
static V gamma_near(B *b, V x) {
  V m = d_rint(b, x), t = d_sub(b, x, m), one = D(1), positive = d_ge(b, m, one);
  V product = p_select(b, positive, one, x), steps = p_select(b, positive, d_sub(b, m, one), d_neg(b, m));
  V toward = p_select(b, positive, D(-1), one);
  for (int k = 1; k <= 12; k++) {
    V factor = d_fma(b, toward, D(k), x);
    product = d_mul(b, product, p_select(b, d_ge(b, steps, D(k)), factor, one));
  }
  V r = D_POLY(t, rgamma_c);
  return d_div(b, p_select(b, positive, product, one), p_select(b, positive, r, d_mul(b, product, r)));
}
/* In two equal factors, so that a large denominator meets no number that has vanished. */
static V gamma_far(B *b, V x) {
  V a = d_min(b, d_abs(b, x), D(1000)), below = d_lt(b, x, D(0));
  DD w = lgamma_far(b, a);
  V half = p_select(b, below, D(-0.5), D(0.5));
  V e = d_exp_dd(b, (DD){d_mul(b, w.hi, half), d_mul(b, w.lo, half)});
  V reflect = d_div(b, D(-PI_HIGH), d_mul(b, a, d_sinpi(b, a)));
  return d_mul(b, d_mul(b, p_select(b, below, reflect, e), e), p_select(b, below, e, D(1)));
}
static V tgamma_f64(B *b, const V *in) {
  V x = in[0], a = d_abs(b, x);
  LaneOp *far = when(b, d_gt(b, a, D(12)), LT_B64);
  V far_y = gamma_far(b, x);
  otherwise(b, far, far_y);
  V y = whichever(b, far, gamma_near(b, x));
  V whole = d_eq(b, d_trunc(b, x), x), below = d_lt(b, x, D(0));
  y = p_select(b, p_and(b, below, d_lt(b, x, D(-190))),
               d_mul(b, D(0), p_select(b, d_is_odd(b, d_floor(b, x)), D(-1), D(1))), y);
  return p_select(b, p_and(b, whole, below), D(__builtin_nan("")), y);
}

static const MathRow rows[] = {{MATH_TGAMMA, DT_F64, tgamma_f64, NULL, {0}},
                               {MATH_LGAMMA, DT_F64, lgamma_f64, NULL, {0}}};
const MathTable math_gamma_table = MATH_TABLE(rows);
