/* Tests of the GPU's math functions: every function of math.def, for each of its signatures, built as lane IR and run
 * by the simulator.
 *
 * What is exact by its meaning (roundings, conversions, bits, whole parts, remainders) must equal the interpreter's,
 * bit for bit. The others must be as near as CUDA promises of its own: the bound is the distance, in units of the last
 * place, from the correctly rounded result, after the tables of the CUDA C++ Programming Guide ("Mathematical
 * Functions", standard and intrinsic functions). The reference is long double.
 *
 * The simulator's approximate operations (ex2, lg2, rcp, ...) are rounded correctly, a GPU's are not:
 * docs/reference/gpu-math.md has what was measured on one.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "gpu/lower/lower.h"

#include <cmocka.h> /* after base.h: it makes a macro of fail */

typedef long double Real;

/* ---- references that libm lacks ---------------------------------------------------------------------------------- */

static const Real PI = 3.14159265358979323846264338327950288L, ROOT_PI = 1.77245385090551602729816748334114518L,
                  ROOT_HALF = 0.70710678118654752440084436210484904L;

static Real ref_exp10(Real x) { return powl(10, x); }
/* pi r for r in [0, 1/4] only: near a zero the rounding of pi r would be all there is. */
static Real ref_sinpi(Real x) {
  Real r = fmodl(fabsl(x), 2), sign = copysignl(1, x);
  if (!isfinite(x)) return NAN;
  if (r >= 1) r -= 1, sign = r == 0 ? sign : -sign;
  if (r > 0.5L) r = 1 - r;
  return sign * (r <= 0.25L ? sinl(PI * r) : cosl(PI * (0.5L - r)));
}
static Real ref_cospi(Real x) {
  Real r = fmodl(fabsl(x), 2), sign = 1;
  if (!isfinite(x)) return NAN;
  if (r > 1) r = 2 - r;
  if (r > 0.5L) r = 1 - r, sign = -1;
  return r == 0.5L ? 0 : sign * (r <= 0.25L ? cosl(PI * r) : sinl(PI * (0.5L - r)));
}
/* x87's powl takes -2^63 for an odd number. */
static Real ref_pow(Real x, Real y) { return isinf(x) ? (Real)pow((double)x, (double)y) : powl(x, y); }
static Real ref_rsqrt(Real x) { return 1 / sqrtl(x); }
static Real ref_rcbrt(Real x) { return 1 / cbrtl(x); }
static Real ref_rhypot(Real x, Real y) { return 1 / hypotl(x, y); }

static Real exp_of_square(Real x) { /* x^2 with what does not fit */
  Real s = x * x, lack = fmal(x, x, -s), e = expl(s);
  return isfinite(e) ? e + e * lack : e;
}
static Real ref_erfcx(Real x) {
  if (x < 20) return exp_of_square(x) * erfcl(x);
  Real sum = 1, term = 1, step = 1 / (2 * x * x);
  for (int k = 1; k < 60 && fabsl(term) > 1e-21L; k += 2) term *= -k * step, sum += term;
  return sum / x / ROOT_PI;
}
static Real ref_erfcinv(Real z) {
  if (!(z >= 0 && z <= 2)) return NAN;
  if (z == 0 || z == 2) return z == 0 ? INFINITY : -INFINITY;
  Real w = z > 1 ? 2 - z : z, x = w > 0.5L ? (1 - w) * 0.886L : sqrtl(-logl(w));
  for (int i = 0; i < 40; i++) {
    Real step = x > 0.5L ? (logl(ref_erfcx(x)) - x * x - logl(w) - fmal(x, x, -(x * x))) * ref_erfcx(x) * ROOT_PI / 2
                         : ((1 - w) - erfl(x)) * -exp_of_square(x) * ROOT_PI / 2;
    x += x > 0.5L ? step : -step;
    if (fabsl(step) < 1e-19L * x) break;
  }
  return z > 1 ? -x : x;
}
static Real ref_erfinv(Real y) {
  if (!(fabsl(y) <= 1)) return NAN;
  if (fabsl(y) > 0.5L) return copysignl(ref_erfcinv(1 - fabsl(y)), y);
  Real x = y * 0.886L;
  for (int i = 0; i < 40 && y != 0; i++) {
    Real step = (y - erfl(x)) * exp_of_square(x) * ROOT_PI / 2;
    x += step;
    if (fabsl(step) < 1e-20L * fabsl(x)) break;
  }
  return x;
}
static Real ref_normcdf(Real x) {
  Real t = -x * ROOT_HALF;
  if (!(t > 0 && t < 200)) return erfcl(t) / 2;
  return ref_erfcx(t) * expl(-x * x / 2) * (1 - fmal(x, x, -(x * x)) / 2) / 2;
}
static Real ref_normcdfinv(Real p) { return -ref_erfcinv(2 * p) / ROOT_HALF; }
static Real bessel_i(int n, Real x) {
  Real a = fabsl(x), sum = 1, term = 1;
  if (isinf(x)) return n ? x : a;
  if (a < 30) {
    for (int k = 1; k < 300 && term > sum * 1e-22L; k++) term *= a * a / 4 / ((Real)k * (k + n)), sum += term;
    return n ? x / 2 * sum : sum;
  }
  for (int k = 1; k < 60 && fabsl(term) > 1e-22L; k++) {
    Real odd = 2 * k - 1;
    term *= -(4.0L * n - odd * odd) / (k * 8 * a), sum += term;
  }
  sum = expl(a) * (sum / sqrtl(2 * PI * a));
  return n && x < 0 ? -sum : sum;
}
static Real ref_i0(Real x) { return bessel_i(0, x); }
static Real ref_i1(Real x) { return bessel_i(1, x); }
static Real ref_y0(Real x) { return x < 0 ? NAN : y0l(x); }
static Real ref_y1(Real x) { return x < 0 ? NAN : y1l(x); }
static Real ref_jn(Real n, Real x) { return n < 0 ? NAN : jnl((int)n, x); }
static Real ref_yn(Real n, Real x) { return n < 0 || x < 0 ? NAN : ynl((int)n, x); }
static Real ref_div(Real x, Real y) { return x / y; }
static Real ref_length(const Real *x, int n) {
  Real y = hypotl(x[0], x[1]);
  for (int i = 2; i < n; i++) y = hypotl(y, x[i]);
  return y;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* f32, f64: how many places the result may be off. absolute: also right when this near (f32's; f64's is less by 2^-18
 * or so). low, high: |x| of the first operand, outside of which nothing is promised. */
typedef struct Promise {
  MathFn fn;
  Real (*one)(Real x);
  Real (*two)(Real x, Real y);
  int f32, f64;
  double absolute32, absolute64, low, high;
} Promise;

static const Promise promises[] = {
    {.fn = MATH_SQRT, .one = sqrtl, .f32 = 1, .f64 = 0},
    {.fn = MATH_RSQRT, .one = ref_rsqrt, .f32 = 2, .f64 = 1},
    {.fn = MATH_CBRT, .one = cbrtl, .f32 = 1, .f64 = 1},
    {.fn = MATH_RCBRT, .one = ref_rcbrt, .f32 = 1, .f64 = 1},
    {.fn = MATH_HYPOT, .two = hypotl, .f32 = 3, .f64 = 2},
    {.fn = MATH_RHYPOT, .two = ref_rhypot, .f32 = 2, .f64 = 1},
    {.fn = MATH_NORM3D, .f32 = 3, .f64 = 2},
    {.fn = MATH_RNORM3D, .f32 = 2, .f64 = 1},
    {.fn = MATH_NORM4D, .f32 = 3, .f64 = 2},
    {.fn = MATH_RNORM4D, .f32 = 2, .f64 = 1},
    {.fn = MATH_EXP, .one = expl, .f32 = 2, .f64 = 1},
    {.fn = MATH_EXP2, .one = exp2l, .f32 = 2, .f64 = 1, .absolute32 = 0x1p-126}, /* flushes subnormal results */
    {.fn = MATH_EXP10, .one = ref_exp10, .f32 = 2, .f64 = 1},
    {.fn = MATH_EXPM1, .one = expm1l, .f32 = 1, .f64 = 1},
    {.fn = MATH_LOG, .one = logl, .f32 = 1, .f64 = 1},
    {.fn = MATH_LOG2, .one = log2l, .f32 = 1, .f64 = 1},
    {.fn = MATH_LOG10, .one = log10l, .f32 = 2, .f64 = 1},
    {.fn = MATH_LOG1P, .one = log1pl, .f32 = 1, .f64 = 1},
    {.fn = MATH_SIN, .one = sinl, .f32 = 2, .f64 = 2},
    {.fn = MATH_COS, .one = cosl, .f32 = 2, .f64 = 2},
    {.fn = MATH_TAN, .one = tanl, .f32 = 4, .f64 = 2},
    {.fn = MATH_SINPI, .one = ref_sinpi, .f32 = 2, .f64 = 2},
    {.fn = MATH_COSPI, .one = ref_cospi, .f32 = 2, .f64 = 2},
    {.fn = MATH_ASIN, .one = asinl, .f32 = 2, .f64 = 2},
    {.fn = MATH_ACOS, .one = acosl, .f32 = 2, .f64 = 2},
    {.fn = MATH_ATAN, .one = atanl, .f32 = 2, .f64 = 2},
    {.fn = MATH_ATAN2, .two = atan2l, .f32 = 3, .f64 = 2},
    {.fn = MATH_SINH, .one = sinhl, .f32 = 3, .f64 = 2},
    {.fn = MATH_COSH, .one = coshl, .f32 = 2, .f64 = 1},
    {.fn = MATH_TANH, .one = tanhl, .f32 = 2, .f64 = 1},
    {.fn = MATH_ASINH, .one = asinhl, .f32 = 3, .f64 = 3},
    {.fn = MATH_ACOSH, .one = acoshl, .f32 = 4, .f64 = 3},
    {.fn = MATH_ATANH, .one = atanhl, .f32 = 3, .f64 = 2},
    {.fn = MATH_POW, .two = ref_pow, .f32 = 4, .f64 = 2},
    {.fn = MATH_ERF, .one = erfl, .f32 = 2, .f64 = 2},
    {.fn = MATH_ERFC, .one = erfcl, .f32 = 4, .f64 = 5},
    {.fn = MATH_ERFCX, .one = ref_erfcx, .f32 = 4, .f64 = 4},
    {.fn = MATH_ERFINV, .one = ref_erfinv, .f32 = 2, .f64 = 5},
    {.fn = MATH_ERFCINV, .one = ref_erfcinv, .f32 = 4, .f64 = 6},
    {.fn = MATH_NORMCDF, .one = ref_normcdf, .f32 = 5, .f64 = 5},
    {.fn = MATH_NORMCDFINV, .one = ref_normcdfinv, .f32 = 5, .f64 = 8},
    {.fn = MATH_TGAMMA, .one = tgammal, .f32 = 5, .f64 = 10},
    {.fn = MATH_LGAMMA, .one = lgammal, .f32 = 6, .f64 = 4},
    {.fn = MATH_J0, .one = j0l, .f32 = 9, .f64 = 7, .absolute32 = 1e-18, .absolute64 = 1e-18},
    {.fn = MATH_J1, .one = j1l, .f32 = 9, .f64 = 7, .absolute32 = 1e-18, .absolute64 = 1e-18},
    {.fn = MATH_Y0, .one = ref_y0, .f32 = 9, .f64 = 7, .absolute32 = 1e-18, .absolute64 = 1e-18},
    {.fn = MATH_Y1, .one = ref_y1, .f32 = 9, .f64 = 7, .absolute32 = 1e-18, .absolute64 = 1e-18},
    {.fn = MATH_JN, .two = ref_jn, .f32 = 9, .f64 = 9, .absolute32 = 2.2e-6, .absolute64 = 5e-12},
    {.fn = MATH_YN, .two = ref_yn, .f32 = 9, .f64 = 9, .absolute32 = 2.2e-6, .absolute64 = 5e-12},
    {.fn = MATH_CYL_BESSEL_I0, .one = ref_i0, .f32 = 6, .f64 = 6},
    {.fn = MATH_CYL_BESSEL_I1, .one = ref_i1, .f32 = 6, .f64 = 6},
    /* intrinsics: only where they promise something */
    {.fn = MATH_FAST_DIVIDEF, .two = ref_div, .f32 = 2, .absolute32 = 0x1p-126, .low = 0x1p-60, .high = 0x1p60},
    {.fn = MATH_FAST_POWF, .two = ref_pow, .f32 = 128, .absolute32 = 0x1p-126, .low = 0x1p-100, .high = 0x1p100},
    {.fn = MATH_FAST_SINF, .one = sinl, .f32 = 1, .absolute32 = 0x1p-21, .high = 3.15},
    {.fn = MATH_FAST_COSF, .one = cosl, .f32 = 1, .absolute32 = 0x1p-21, .high = 3.15},
    {.fn = MATH_FAST_TANF, .one = tanl, .f32 = 4, .absolute32 = 0x1p-20, .high = 1.4},
    {.fn = MATH_FAST_TANHF, .one = tanhl, .f32 = 1, .absolute32 = 0x1p-11, .high = INFINITY},
    {.fn = MATH_FAST_EXPF, .one = expl, .f32 = 12, .absolute32 = 0x1p-126, .high = 8},
    {.fn = MATH_FAST_EXP10F, .one = ref_exp10, .f32 = 26, .absolute32 = 0x1p-126, .high = 8},
    {.fn = MATH_FAST_LOGF, .one = logl, .f32 = 3, .absolute32 = 0x1p-21, .low = 0x1p-126, .high = INFINITY},
    {.fn = MATH_FAST_LOG2F, .one = log2l, .f32 = 2, .absolute32 = 0x1p-22, .low = 0x1p-126, .high = INFINITY},
    {.fn = MATH_FAST_LOG10F, .one = log10l, .f32 = 3, .absolute32 = 0x1p-24, .low = 0x1p-126, .high = INFINITY},
};

static const Promise *promise_of(MathFn fn) {
  for (size_t i = 0; i < sizeof promises / sizeof *promises; i++)
    if (promises[i].fn == fn) return &promises[i];
  return NULL;
}

/* ---- one signature: its kernel, its inputs ----------------------------------------------------------------------- */

typedef struct Signature {
  MathFn fn;
  int arity;
  Dtype in[4], out;
  char text[192];
} Signature;

enum { BLOCK = 128, EACH = 4, COUNT = 16 * BLOCK * EACH };

/* out[i] = fn(in0[i], in1[i], ...), four neighbours a thread. */
static LaneFunc *kernel(Context *cx, const Signature *s) {
  LaneFunc *f = lane_func_create(cx, math_info[s->fn].name);
  LaneValue *p[5];
  for (int k = 0; k <= s->arity; k++) p[k] = lane_func_param(f, LT_B64, NULL, 16);
  LaneBuilder b = lane_builder(f);
  LaneValue *i =
      lane_3(&b, LANE_FMA, LK_S32, lane_special(&b, SP_CTAID_X), lane_i32(&b, BLOCK), lane_special(&b, SP_TID_X));
  LaneValue *in[4][EACH], **operands[4], *out[EACH];
  for (int k = 0; k < s->arity; k++) {
    int bytes = dtype_bytes(s->in[k]);
    LaneValue *at = lane_2(&b, LANE_ADD, LK_S64, p[k], lane_2(&b, LANE_MULWIDE, LK_S32, i, lane_i32(&b, bytes * EACH)));
    for (int e = 0; e < EACH; e++)
      in[k][e] = lane_load(&b, SPACE_GLOBAL, bytes == 8 ? LK_B64 : LK_B32, 1, at, e * bytes, NULL, NULL)->out[0];
    operands[k] = in[k];
  }
  gpu_math(&b, gpu_target_find("sm_90a"), s->fn, s->arity, s->in, s->out, EACH, (LaneValue *const *const *)operands,
           out);
  if (s->out == DT_I1)
    for (int e = 0; e < EACH; e++) out[e] = lane_select(&b, out[e], lane_i32(&b, 1), lane_i32(&b, 0));
  int bytes = s->out == DT_I1 ? 4 : dtype_bytes(s->out);
  LaneValue *at =
      lane_2(&b, LANE_ADD, LK_S64, p[s->arity], lane_2(&b, LANE_MULWIDE, LK_S32, i, lane_i32(&b, bytes * EACH)));
  for (int e = 0; e < EACH; e++)
    lane_store(&b, SPACE_GLOBAL, bytes == 8 ? LK_B64 : LK_B32, 1, at, e * bytes, NULL, &out[e]);
  lane_dce(f);
  lane_verify(f, "gpu_math");
  return f;
}

static uint64_t draw(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}
static double unit(uint64_t *state) { return (double)(draw(state) >> 11) * 0x1p-53; }

/* clang-format off */
static const double specials[] = {0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 10, 100, INFINITY, -INFINITY, NAN,
  0x1p-149, -0x1p-149,
                                  0x1p-126, -0x1p-126, 0x1p-1074, -0x1p-1074, 0x1p-1022, 0x1.fffffep127,
                                  -0x1.fffffep127, 0x1.fffffffffffffp1023,
                                  -0x1.fffffffffffffp1023, 1.5, 2.5, -1.5, -2.5, 0x1p23, 0x1p24, 0x1p52, 0x1p53, 0x1p31,
                                  0x1p32, 0x1p63, 0x1p64,
                                  -0x1p31, -0x1p63, 1e-40, 1e-310, 88.72283, -103.97, 709.782712893384, -745.13, 1e10,
                                  1e20, 1e300, 0.49999997,
                                  1.0000001192092896, 0.99999994, -126.5, -149.2, 1023.9, 0.25, 0.75, 105615, 105616, 4,
                                  8, 16, 27, -27, 171.6, 0x1p100};
/* clang-format on */
enum { SPECIALS = sizeof specials / sizeof *specials };

/* Numbers of every size, and more of those that functions find interesting. */
static double random_float(uint64_t *state, bool single, int family) {
  int places = single ? 24 : 53;
  double u = unit(state), both = 2 * u - 1;
  bool negative = draw(state) & 1;
  switch (family) {
    case 0: return specials[draw(state) % SPECIALS];
    case 1: {
      uint64_t bits = draw(state);
      uint32_t low = (uint32_t)bits;
      float f;
      double d;
      memcpy(&f, &low, 4);
      memcpy(&d, &bits, 8);
      return single ? f : d;
    }
    case 2: return both;
    case 3: return both * 10;
    case 4: return both * 100;
    case 5: return both * 1000;
    case 6: return 1 + both * ldexp(1, -(int)(draw(state) % (unsigned)places));
    case 7: return ldexp(negative ? -1 - u : 1 + u, (int)(draw(state) % 60) - 30);
    case 8:
      return ldexp(negative ? -1 - u : 1 + u,
                   single ? (int)(draw(state) % 276) - 149 : (int)(draw(state) % 2096) - 1074);
    case 9: return (double)(draw(state) % 2001) - 1000;
    case 10: return ((double)(draw(state) % 2001) - 1000) / 2;
    case 11: return ((double)(draw(state) % 2001) - 1000) * 0.78539816339744831 * (1 + both * 1e-7);
    default: return 4 * u;
  }
}
static int64_t random_int(uint64_t *state) {
  uint64_t v = draw(state), kind = draw(state) % 4;
  if (kind == 0) return (int64_t)v;
  if (kind == 1) return (int64_t)(v % 131) - 33;
  if (kind == 2) return (int64_t)(v >> (v & 63));
  return (int64_t)((1ull << (v & 63)) - (v >> 63));
}

/* All pairs of special numbers first, then at random; operands of one call are mostly of one size. */
static void fill(const Signature *s, void *const *data) {
  uint64_t state = (uint64_t)s->fn * 1000 + s->in[0];
  for (int64_t i = 0; i < COUNT; i++) {
    int family = (int)(draw(&state) % 13);
    for (int k = 0; k < s->arity; k++) {
      bool single = s->in[k] == DT_F32;
      int here = draw(&state) % 4 ? family : (int)(draw(&state) % 13);
      int64_t pair = i % 2 ? i / 2 / (k % 2 ? 1 : SPECIALS) % SPECIALS : -1;
      if (dtype_is_float(s->in[k])) {
        double v = pair >= 0 && i < 2 * SPECIALS * SPECIALS ? specials[pair] : random_float(&state, single, here);
        dtype_store_float(s->in[k], (char *)data[k] + i * dtype_bytes(s->in[k]), v);
      } else {
        int64_t v = random_int(&state);
        if (s->fn == MATH_JN || s->fn == MATH_YN) v = v & 127;
        dtype_store_int(s->in[k], (char *)data[k] + i * dtype_bytes(s->in[k]), v);
      }
    }
  }
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

typedef struct Finding {
  double worst, x[4], got, want;
  bool wrong;
} Finding;

static Real reference(const Promise *p, int arity, const Real *x) {
  Real (*const one)(Real) = p->one, (*const two)(Real, Real) = p->two;
  if (one) return one(x[0]);
  if (two) return two(x[0], x[1]);
  Real y = ref_length(x, arity);
  return p->fn == MATH_RNORM3D || p->fn == MATH_RNORM4D ? 1 / y : y;
}

/* How many places `got` is from the rounded reference; 0 when near enough otherwise; infinity when it is of another
 * kind. */
static double places_off(Dtype t, Real want, double got, double absolute) {
  bool single = t == DT_F32;
  double rounded = single ? (double)(float)want : (double)want;
  if (isnan(rounded) || isnan(got)) return isnan(rounded) && isnan(got) ? 0 : INFINITY;
  double greatest = single ? FLT_MAX : DBL_MAX;
  if (isinf(rounded) || isinf(got)) { /* one place beyond the greatest is infinity */
    double a = isinf(rounded) ? copysign(greatest, rounded) : rounded, b = isinf(got) ? copysign(greatest, got) : got;
    if (rounded == got) return 0;
    int e;
    frexp(greatest, &e);
    return 1 + fabs(a - b) / ldexp(1, e - (single ? 24 : 53));
  }
  if (rounded == 0 && got == 0) return want != 0 || signbit(rounded) == signbit(got) ? 0 : INFINITY;
  int e, least = single ? -149 : -1074;
  frexp(rounded, &e);
  e -= single ? 24 : 53;
  if (rounded == 0 || e < least) e = least;
  Real off = fabsl((Real)got - (Real)rounded);
  return off <= absolute ? 0 : (double)ldexpl(off, -e);
}

static bool within(const Promise *p, bool single, const Real *x, double places) {
  if (places <= (single ? p->f32 : p->f64)) return true;
  switch ((int)p->fn) {
    /* near its zeros the relative error has no bound */
    case MATH_LGAMMA: return x[0] < 0 && x[0] > -30 && isfinite(places);
    case MATH_YN: return places <= 2 + 2.5 * (double)x[0];
    default: return false;
  }
}
static double tolerance(const Promise *p, bool single, const Real *x) {
  double absolute = single ? p->absolute32 : p->absolute64;
  bool far = p->fn == MATH_J0 || p->fn == MATH_J1 || p->fn == MATH_Y0 || p->fn == MATH_Y1;
  if (far && fabsl(x[0]) > 8) return single ? 2.2e-6 : 5e-12;
  return absolute;
}

static void judge(const Signature *s, void *const *data, const void *results, Finding *found) {
  const Promise *p = promise_of(s->fn);
  if (p && s->out == DT_F64 && p->f64 == 0) p = NULL;
  Dtype about = s->in[s->arity - 1];
  if (s->arity == 2 && dtype_is_float(s->in[0])) about = s->in[0];
  bool single = about == DT_F32;
  for (int64_t i = 0; i < COUNT; i++) {
    Scalar in[4];
    Real x[4];
    for (int k = 0; k < s->arity; k++) {
      in[k] = scalar_load(s->in[k], (const char *)data[k] + i * dtype_bytes(s->in[k]));
      x[k] = dtype_is_float(s->in[k]) ? (Real)in[k].f : (Real)in[k].i;
    }
    const char *at = (const char *)results + i * (s->out == DT_I1 ? 4 : dtype_bytes(s->out));
    Scalar got = s->out == DT_I1 ? scalar_load(DT_I32, at) : scalar_load(s->out, at);
    double places, want;
    bool good;
    if (!p) {
      Scalar exact = scalar_math(s->fn, s->in, s->out, in);
      bool floats = dtype_is_float(s->out);
      good = floats ? (isnan(exact.f) && isnan(got.f)) || (exact.f == got.f && signbit(exact.f) == signbit(got.f))
                    : exact.i == got.i;
      places = good ? 0 : INFINITY;
      want = floats ? exact.f : (double)exact.i;
    } else {
      if (p->high > 0 && !(fabsl(x[0]) <= p->high && x[0] >= (p->low > 0 ? (Real)p->low : -INFINITY))) continue;
      if (s->fn == MATH_FAST_DIVIDEF && !(fabsl(x[1]) <= p->high && fabsl(x[1]) >= p->low)) continue;
      if (s->fn == MATH_FAST_POWF && !(fabsl(x[1]) <= 32 && fabsl(x[1] * log2l(x[0])) <= 20)) continue;
      Real exact = reference(p, s->arity, x);
      places = places_off(s->out, exact, got.f, tolerance(p, single, x));
      good = within(p, single, x, places);
      want = (double)exact;
      if (good && places > (single ? p->f32 : p->f64)) continue;
    }
    found->wrong |= !good;
    if (!(places > found->worst)) continue;
    found->worst = places;
    found->want = want;
    found->got = dtype_is_float(s->out) ? got.f : (double)got.i;
    for (int k = 0; k < s->arity; k++) found->x[k] = (double)x[k];
  }
}

static void examine(const Signature *s, Finding *found) {
  Context *cx = context_create();
  void *data[5] = {0};
  for (int k = 0; k <= s->arity; k++) data[k] = calloc(COUNT, 8);
  if (context_try(cx)) {
    LaneFunc *f = kernel(cx, s);
    fill(s, data);
    uint64_t args[5];
    for (int k = 0; k <= s->arity; k++) args[k] = (uintptr_t)data[k];
    int32_t grid[3] = {COUNT / BLOCK / EACH, 1, 1};
    LaneSimOptions o = {.grid = grid, .end = grid[0]};
    LaneSimFault fault;
    if (!lane_sim_run(f, args, &o, &fault)) fail_msg("%s: %s", s->text, fault.message);
    judge(s, data, data[s->arity], found);
    context_end_try(cx);
  } else {
    fail_msg("%s: %s", s->text, cx->diags.at[0].message);
  }
  for (int k = 0; k <= s->arity; k++) free(data[k]);
  context_destroy(cx);
}

/* Signature number n of a function; false when there are fewer. */
static bool signature(MathFn fn, int n, Signature *s) {
  char text[160];
  snprintf(text, sizeof text, "%s", math_info[fn].sig);
  char *at = text;
  for (; n > 0 && at; n--) at = (at = strchr(at, ' ')) ? at + 1 : NULL;
  if (!at) return false;
  at[strcspn(at, " ")] = 0;
  *s = (Signature){.fn = fn};
  snprintf(s->text, sizeof s->text, "%s %s", math_info[fn].name, at);
  char *out = strchr(at, ':'), *save = NULL;
  *out++ = 0;
  assert_true(dtype_parse(out, &s->out));
  for (char *t = strtok_r(at, ",", &save); t; t = strtok_r(NULL, ",", &save))
    assert_true(dtype_parse(t, &s->in[s->arity++]));
  return true;
}

/* On failure (or with NEREID_MATH_TABLE set) the whole table is printed. */
static void every_signature(void **state) {
  (void)state;
  Buf table = {0};
  int wrong = 0, rows = 0;
  for (MathFn fn = 0; fn < MATH_COUNT; fn++) {
    Signature s;
    for (int n = 0; signature(fn, n, &s); n++) {
      if (LDBL_MANT_DIG < 64 && promise_of(fn) && s.out == DT_F64) continue; /* no reference */
      Finding found = {0};
      examine(&s, &found);
      const Promise *p = promise_of(fn);
      bool exact = !p || (s.out == DT_F64 && p->f64 == 0);
      if (!exact)
        buf_printf(&table, "%-28s bound %3d  worst %8.3g", s.text, s.out == DT_F32 ? p->f32 : p->f64, found.worst);
      else buf_printf(&table, "%-28s exact", s.text);
      if (found.worst > 0) {
        buf_printf(&table, "  at");
        for (int k = 0; k < s.arity; k++) buf_printf(&table, " %.17g", found.x[k]);
        buf_printf(&table, ": %.17g, not %.17g", found.got, found.want);
      }
      buf_puts(&table, found.wrong ? "  WRONG\n" : "\n");
      wrong += found.wrong;
      rows++;
    }
  }
  if (wrong || getenv("NEREID_MATH_TABLE")) fputs(table.at, stderr);
  buf_destroy(&table);
  assert_int_equal(wrong, 0);
  assert_true(rows > 250);
}

/* ---- cost -------------------------------------------------------------------------------------------------------- */

static int straight_ops(const LaneBlock *block) {
  int n = 0;
  for (const LaneOp *op = block->first; op; op = op->next) n += op->code != LANE_CONST && op->code != LANE_YIELD;
  return n;
}

/* What every element pays for the functions that kernels call most: operations outside branches. */
static void common_functions_are_short(void **state) {
  (void)state;
  static const struct {
    MathFn fn;
    int at_most;
  } costs[] = {
      {MATH_EXP2, 1}, {MATH_SQRT, 1}, {MATH_RSQRT, 1}, {MATH_EXP, 10},  {MATH_TANH, 17},  {MATH_SIN, 24},
      {MATH_COS, 24}, {MATH_LOG, 27}, {MATH_ERF, 24},  {MATH_LOG2, 28}, {MATH_LOG1P, 32}, {MATH_EXPM1, 28},
  };
  for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
    Context *cx = context_create();
    if (context_try(cx)) {
      LaneFunc *f = lane_func_create(cx, "one");
      LaneValue *x = lane_func_param(f, LT_B32, NULL, 1), **in = &x, *out;
      LaneBuilder b = lane_builder(f);
      Dtype t = DT_F32;
      gpu_math(&b, gpu_target_find("sm_90a"), costs[i].fn, 1, &t, DT_F32, 1, (LaneValue *const *const *)&in, &out);
      int n = straight_ops(f->body);
      if (n > costs[i].at_most)
        fail_msg("%s takes %d operations, not %d", math_info[costs[i].fn].name, n, costs[i].at_most);
      context_end_try(cx);
    } else {
      fail_msg("%s", cx->diags.at[0].message);
    }
    context_destroy(cx);
  }
}

/* x^c for constants, built with the constant in place: like the general way, and short for small powers. */
enum { POWERS = SPECIALS + 200 };
static void power_of(Context *cx, bool wide, double power, int at_most, void *x, void *y) {
  Dtype types[2] = {wide ? DT_F64 : DT_F32, wide ? DT_F64 : power == floor(power) ? DT_I32 : DT_F32};
  int bytes = dtype_bytes(types[0]);
  LaneFunc *f = lane_func_create(cx, "power");
  LaneValue *in = lane_func_param(f, LT_B64, NULL, 8), *to = lane_func_param(f, LT_B64, NULL, 8);
  LaneBuilder b = lane_builder(f);
  LaneValue *offset = lane_2(&b, LANE_MULWIDE, LK_S32, lane_special(&b, SP_CTAID_X), lane_i32(&b, bytes));
  LaneKind k = bytes == 8 ? LK_B64 : LK_B32;
  LaneValue *v = lane_load(&b, SPACE_GLOBAL, k, 1, lane_2(&b, LANE_ADD, LK_S64, in, offset), 0, NULL, NULL)->out[0],
            *out;
  LaneValue *constant = types[1] == DT_I32 ? lane_i32(&b, (int32_t)power)
                        : wide             ? lane_f64(&b, power)
                                           : lane_f32(&b, (float)power);
  LaneValue **operands[] = {&v, &constant};
  int before = straight_ops(f->body);
  gpu_math(&b, gpu_target_find("sm_90a"), MATH_POW, 2, types, types[0], 1, (LaneValue *const *const *)operands, &out);
  assert_true(straight_ops(f->body) - before <= at_most);
  lane_store(&b, SPACE_GLOBAL, k, 1, lane_2(&b, LANE_ADD, LK_S64, to, offset), 0, NULL, &out);
  lane_dce(f);
  f->num_warps = 1;
  int32_t grid[3] = {POWERS, 1, 1};
  LaneSimFault fault;
  const uint64_t args[] = {(uintptr_t)x, (uintptr_t)y};
  if (!lane_sim_run(f, args, &(LaneSimOptions){.grid = grid, .end = POWERS}, &fault)) fail_msg("%s", fault.message);
  for (int i = 0; i < POWERS; i++) {
    double at = dtype_load_float(types[0], (char *)x + i * bytes),
           got = dtype_load_float(types[0], (char *)y + i * bytes);
    double off = places_off(types[0], ref_pow(at, power), got, 0);
    if (!(off <= (wide ? 2 : 4))) fail_msg("%g^%g is %.17g: off by %g", at, power, got, off);
  }
}
static void check_power(bool wide, double power, int at_most) {
  Context *cx = context_create();
  double *x = calloc(POWERS, 8), *y = calloc(POWERS, 8);
  uint64_t random = 1;
  for (int i = 0; i < POWERS; i++) {
    Dtype t = wide ? DT_F64 : DT_F32;
    dtype_store_float(t, (char *)x + i * dtype_bytes(t),
                      i < SPECIALS ? specials[i] : random_float(&random, !wide, i % 9));
  }
  if (context_try(cx)) {
    power_of(cx, wide, power, at_most, x, y);
    context_end_try(cx);
  } else {
    fail_msg("%s", cx->diags.at[0].message);
  }
  free(x);
  free(y);
  context_destroy(cx);
}
static void constant_powers(void **state) {
  (void)state;
  static const struct {
    double power;
    int at_most;
  } powers[] = {{1, 0}, {2, 1}, {3, 2}, {4, 2}, {-1, 1}, {0.5, 5}, {-0.5, 300}, {5, 300}, {0, 300}};
  for (size_t c = 0; c < sizeof powers / sizeof *powers; c++) {
    check_power(false, powers[c].power, powers[c].at_most);
    check_power(true, powers[c].power, powers[c].at_most);
  }
}

static void halves_have_no_functions(void **state) {
  (void)state;
  Context *cx = context_create();
  if (context_try(cx)) {
    LaneFunc *f = lane_func_create(cx, "one");
    LaneValue *x = lane_func_param(f, LT_B16, NULL, 1), **in = &x, *out;
    LaneBuilder b = lane_builder(f);
    Dtype t = DT_F16;
    gpu_math(&b, gpu_target_find("sm_90a"), MATH_EXP, 1, &t, DT_F16, 1, (LaneValue *const *const *)&in, &out);
    context_end_try(cx);
    fail_msg("exp of fp16 was built");
  }
  assert_string_equal(cx->diags.at[0].message, "the GPU back end has no exp of fp16");
  context_destroy(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_signature),
      cmocka_unit_test(common_functions_are_short),
      cmocka_unit_test(constant_powers),
      cmocka_unit_test(halves_have_no_functions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
