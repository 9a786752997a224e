/* math_arc: asin, acos, atan, atan2: odd polynomials near 0, and identities that bring the rest there:
 *
 *     atan(x) = pi/2 - atan(1/x)                      |x| > 1
 *     asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2))      x > 1/2
 *
 * pi/2 is in two parts, since its own rounding would be seen.
 */
#include "gpu/math/math.h"

/* ---- f32 --------------------------------------------------------------------------------------------------------- */

static const float atan_c[] = {-0.333332986f, 0.199985296f,   -0.142640144f, 0.109508619f,   -0.0839922875f,
                               0.0578799844f, -0.0310957711f, 0.0108681954f, -0.00178274349f};
static const float asin_c[] = {0.166666597f, 0.0750052184f, 0.0445134006f, 0.0318384022f, 0.0143209407f, 0.0376811922f};
#define HALF_PI F(1.57079637f)
#define HALF_PI_LESS F(4.37113883e-08f) /* HALF_PI - pi/2 */

static V odd_f32(B *b, V x, int n, const float *c) {
  V z = f_mul(b, x, x);
  return f_fma(b, f_mul(b, z, f_poly(b, z, n, c)), x, x);
}
static V from_quarter_f32(B *b, V y) { return f_sub(b, HALF_PI, f_add(b, y, HALF_PI_LESS)); }

static V atan_f32(B *b, const V *in) {
  V x = in[0], a = f_abs(b, x), steep = f_gt(b, a, F(1));
  V y = odd_f32(b, p_select(b, steep, f_rcp_approx(b, a), a), COUNT(atan_c), atan_c);
  return f_copysign(b, p_select(b, steep, from_quarter_f32(b, y), y), x);
}
static V atan2_f32(B *b, const V *in) {
  V y = in[0], x = in[1], ay = f_abs(b, y), ax = f_abs(b, x), steep = f_gt(b, ay, ax);
  V low = f_min(b, ax, ay), high = f_max(b, ax, ay);
  V t = f_div(b, low, high);
  t = p_select(b, f_eq(b, low, high), F(1), t); /* also of infinities */
  t = p_select(b, f_eq(b, high, F(0)), F(0), t);
  V r = odd_f32(b, t, COUNT(atan_c), atan_c);
  r = p_select(b, steep, from_quarter_f32(b, r), r);
  V back = f_sub(b, F(3.14159274f), f_add(b, r, F(8.74227766e-08f)));
  r = f_copysign(b, p_select(b, i_lt(b, x, I(0)), back, r), y);
  return p_select(b, p_or(b, f_nan(b, x), f_nan(b, y)), f_add(b, x, y), r);
}

/* asin of |x|, or of sqrt((1 - |x|)/2) where |x| > 1/2. */
static V asin_part_f32(B *b, V a, V far) {
  V rest = f_fma(b, a, F(-0.5f), F(0.5f));
  V s = p_select(b, far, f_sqrt(b, rest), a), z = p_select(b, far, rest, f_mul(b, a, a));
  return f_fma(b, f_mul(b, z, F_POLY(z, asin_c)), s, s);
}
static V asin_f32(B *b, const V *in) {
  V x = in[0], a = f_abs(b, x), far = f_gt(b, a, F(0.5f)), y = asin_part_f32(b, a, far);
  return f_copysign(b, p_select(b, far, from_quarter_f32(b, f_add(b, y, y)), y), x);
}
static V acos_f32(B *b, const V *in) {
  V x = in[0], a = f_abs(b, x), far = f_gt(b, a, F(0.5f)), y = asin_part_f32(b, a, far), twice = f_add(b, y, y);
  V near = f_sub(b, HALF_PI, f_add(b, f_copysign(b, y, x), HALF_PI_LESS));
  V back = f_sub(b, F(3.14159274f), f_add(b, twice, F(8.74227766e-08f)));
  return p_select(b, far, p_select(b, f_lt(b, x, F(0)), back, twice), near);
}

/* ---- f64 --------------------------------------------------------------------------------------------------------- */

static const double atan64_c[] = {
    -0.33333333333333065,  0.19999999999950946,   -0.14285714282544848,    0.11111111006125814,
    -0.09090906986942979,  0.07692279650709882,   -0.0666640250690248,     0.05880518532823147,
    -0.052534770057208365, 0.04722180564073071,   -0.04218806704692141,    0.03663432239081724,
    -0.02989184288940524,  0.02197013716550832,   -0.013886766870892272,   0.007186801212169487,
    -0.002879964895891354, 0.0008295892931041069, -0.00015178969932287602, 1.3188355895790904e-05};
static const double asin64_c[] = {
    0.1666666666666676,   0.0749999999997081,   0.04464285717464724,  0.030381942704470227, 0.022372215118681316,
    0.01735160906718363,  0.013980862255276854, 0.011398523441290661, 0.010782675640699178, 0.003696411984028081,
    0.021733661393138454, -0.02103862638283022, 0.0326547898640444};
#define HALF_PI64 D(0x1.921fb54442d18p+0)
#define HALF_PI64_MORE D(0x1.1a62633145c07p-54)

static V odd_f64(B *b, V x, int n, const double *c) {
  V z = d_mul(b, x, x);
  return d_fma(b, d_mul(b, z, d_poly(b, z, n, c)), x, x);
}
static V from_quarter_f64(B *b, V y) { return d_sub(b, HALF_PI64, d_sub(b, y, HALF_PI64_MORE)); }
static V from_half_f64(B *b, V y) { return d_sub(b, D(0x1.921fb54442d18p+1), d_sub(b, y, D(0x1.1a62633145c07p-53))); }

static V atan_f64(B *b, const V *in) {
  V x = in[0], a = d_abs(b, x), steep = d_gt(b, a, D(1));
  V y = odd_f64(b, p_select(b, steep, d_rcp(b, a), a), COUNT(atan64_c), atan64_c);
  return d_copysign(b, p_select(b, steep, from_quarter_f64(b, y), y), x);
}
static V atan2_f64(B *b, const V *in) {
  V y = in[0], x = in[1], ay = d_abs(b, y), ax = d_abs(b, x), steep = d_gt(b, ay, ax);
  V low = d_min(b, ax, ay), high = d_max(b, ax, ay);
  V t = d_div(b, low, high);
  t = p_select(b, d_eq(b, low, high), D(1), t);
  t = p_select(b, d_eq(b, high, D(0)), D(0), t);
  V r = odd_f64(b, t, COUNT(atan64_c), atan64_c);
  r = p_select(b, steep, from_quarter_f64(b, r), r);
  r = d_copysign(b, p_select(b, l_lt(b, x, L(0)), from_half_f64(b, r), r), y);
  return p_select(b, p_or(b, d_nan(b, x), d_nan(b, y)), d_add(b, x, y), r);
}

static V asin_part_f64(B *b, V a, V far) {
  V rest = d_fma(b, a, D(-0.5), D(0.5));
  V s = p_select(b, far, d_sqrt(b, rest), a), z = p_select(b, far, rest, d_mul(b, a, a));
  return d_fma(b, d_mul(b, z, D_POLY(z, asin64_c)), s, s);
}
static V asin_f64(B *b, const V *in) {
  V x = in[0], a = d_abs(b, x), far = d_gt(b, a, D(0.5)), y = asin_part_f64(b, a, far);
  return d_copysign(b, p_select(b, far, from_quarter_f64(b, d_add(b, y, y)), y), x);
}
static V acos_f64(B *b, const V *in) {
  V x = in[0], a = d_abs(b, x), far = d_gt(b, a, D(0.5)), y = asin_part_f64(b, a, far), twice = d_add(b, y, y);
  V near = from_quarter_f64(b, d_copysign(b, y, x));
  return p_select(b, far, p_select(b, d_lt(b, x, D(0)), from_half_f64(b, twice), twice), near);
}

#define ONE(FN, T, fn) \
  { \
    MATH_##FN, DT_##T, fn, NULL, { 0 } \
  }
static const MathRow rows[] = {
    ONE(ATAN, F32, atan_f32), ONE(ATAN, F64, atan_f64), ONE(ATAN2, F32, atan2_f32), ONE(ATAN2, F64, atan2_f64),
    ONE(ASIN, F32, asin_f32), ONE(ASIN, F64, asin_f64), ONE(ACOS, F32, acos_f32),   ONE(ACOS, F64, acos_f64),
};
const MathTable math_arc_table = MATH_TABLE(rows);
