/* Vector math of the emitted kernels (src/cpu/support/nereid_math.h) against libm in a wider type: within 4 units of
 * the last place (libmvec's promise; rounding to the wider type adds next to nothing), and IEEE's results for special
 * values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu/support/nereid_cpu.h"
#include "cpu/support/nereid_vec.h"
#include "cpu/support/nereid_math.h"
#include "base/mathfn.h" /* which a kernel may have beside it */

static uint64_t state = 88172645463325252u;
static uint64_t random_bits(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}
static double between(double low, double high) { return low + (high - low) * (double)(random_bits() >> 11) * 0x1p-53; }

/* How far `got` is from `want`, in units of the last of `digits` bits. */
static double ulps(double got, long double want, int digits, int least) {
  double rounded = digits == 24 ? (double)(float)want : (double)want;
  if (want != want || got != got) return want != want && got != got ? 0 : HUGE_VAL;
  if (isinf(rounded) || isinf(got)) return rounded == got ? 0 : HUGE_VAL;
  if (rounded == 0 && got == 0) return !signbit(got) == !signbit(rounded) || want != 0 ? 0 : HUGE_VAL;
  int e = want == 0 ? least : ilogbl(want) - digits + 1;
  return (double)(fabsl((long double)got - want) / ldexpl(1, e < least ? least : e));
}

/* clang-format off */
static const double special[] = {
    0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3, INFINITY, -INFINITY, NAN, 1e-45, -1e-45, 1e-40, -1e-40,
    1.17549435e-38, 3.4e38, -3.4e38,
    88.5, 89, -87.5, -88, -103, -104, -110, 127.5, 128, -126, -127, -149, -150, -151, 38.2, 38.6, 39, -38, -45, -46, 10,
      -10, 20, -20, 1e10, -1e10, 1e30,
    3.14159265, 1.5707963, 0.99999994, 1.0000001, -0.99999994, 9, 9.3, 10.1, 12, -12, 1e-10, 1e-20, -1e-20, 16777216,
      8388609, 4194304.5, 5e-324, -5e-324,
    1e-310, 2.2250738585072014e-308, 1.7e308, -1.7e308, 709.7, 710, -708.5, -745, -746, 1023.5, 1024, -1022, -1074,
    -1076, 308, 309, -323, -324, 1e22, 1e300,
    0.49999997, 0.49999999999999994, 4503599627370497.5, -0.49999997};
/* clang-format on */
enum { SPECIAL = sizeof special / sizeof *special };

#define LIMIT 4.0
#define CHECK1(T, name, real, exact, digits, least, x) \
  do { \
    nd_##T in_ = (nd_##T)(x); \
    int lane_ = (int)(random_bits() % ND_VL); /* among ordinary numbers, so that a special case is one of a vector */ \
    nd_##T##v v_ = nd_splat_##T##v((nd_##T)0.75); \
    v_[lane_] = in_; \
    nd_##T got_ = nd_##name##_##T##v(v_)[lane_]; \
    long double want_ = real(exact(in_)); \
    double off_ = ulps((double)got_, want_, digits, least); \
    if (!(off_ <= LIMIT)) \
      fail_msg("%s(%.17g) = %.17g, not %.17g: %.1f ulp", #name "_" #T, (double)in_, (double)got_, (double)want_, \
               off_); \
  } while (0)
#define TEST1(name, low, high) \
  static void test_##name(void **unused) { \
    (void)unused; \
    for (int i = 0; i < SPECIAL; i++) { \
      CHECK1(f32, name, name, (double), 24, -149, special[i]); \
      CHECK1(f64, name, name##l, (long double), 53, -1074, special[i]); \
    } \
    for (int i = 0; i < 20000; i++) { \
      CHECK1(f32, name, name, (double), 24, -149, between(low, high)); \
      CHECK1(f32, name, name, (double), 24, -149, nd_cast_f32_u32((uint32_t)random_bits())); \
      CHECK1(f64, name, name##l, (long double), 53, -1074, between(low, high)); \
      CHECK1(f64, name, name##l, (long double), 53, -1074, nd_cast_f64_u64(random_bits())); \
    } \
  }
static double rsqrt(double x) { return 1 / sqrt(x); }
static long double rsqrtl(long double x) { return 1 / sqrtl(x); }
static double exp10(double x) { return (double)powl(10, x); }
static long double exp10l(long double x) { return powl(10, x); }
TEST1(exp, -90, 90)
TEST1(exp2, -130, 130)
TEST1(exp10, -40, 40)
TEST1(expm1, -2, 2)
TEST1(log, 0, 10)
TEST1(log2, 0, 10)
TEST1(log10, 0, 10)
TEST1(log1p, -1, 10)
TEST1(sin, -100, 100)
TEST1(cos, -100, 100)
TEST1(tan, -10, 10)
TEST1(asin, -1, 1)
TEST1(acos, -1, 1)
TEST1(atan, -10, 10)
TEST1(sinh, -20, 20)
TEST1(cosh, -20, 20)
TEST1(tanh, -5, 5)
TEST1(asinh, -10, 10)
TEST1(acosh, 1, 10)
TEST1(atanh, -1, 1)
TEST1(erf, -3, 3)
TEST1(erfc, -3, 9)
TEST1(cbrt, -10, 10)
TEST1(sqrt, 0, 10)
TEST1(rsqrt, 0, 10)

#define CHECK2(T, name, real, exact, digits, least, x, y) \
  do { \
    nd_##T a_ = (nd_##T)(x), b_ = (nd_##T)(y); \
    int lane_ = (int)(random_bits() % ND_VL); \
    nd_##T##v v_ = nd_splat_##T##v((nd_##T)0.75), w_ = nd_splat_##T##v((nd_##T)1.25); \
    v_[lane_] = a_, w_[lane_] = b_; \
    nd_##T got_ = nd_##name##_##T##v(v_, w_)[lane_]; \
    long double want_ = real(exact(a_), exact(b_)); \
    double off_ = ulps((double)got_, want_, digits, least); \
    if (!(off_ <= LIMIT)) \
      fail_msg("%s(%.17g, %.17g) = %.17g, not %.17g: %.1f ulp", #name "_" #T, (double)a_, (double)b_, (double)got_, \
               (double)want_, off_); \
  } while (0)
#define TEST2(name, low, high) \
  static void test_##name(void **unused) { \
    (void)unused; \
    for (int i = 0; i < SPECIAL; i++) \
      for (int j = 0; j < SPECIAL; j++) { \
        CHECK2(f32, name, name, (double), 24, -149, special[i], special[j]); \
        CHECK2(f64, name, name##l, (long double), 53, -1074, special[i], special[j]); \
      } \
    for (int i = 0; i < 10000; i++) { \
      CHECK2(f32, name, name, (double), 24, -149, between(low, high), between(low, high)); \
      CHECK2(f64, name, name##l, (long double), 53, -1074, between(low, high), between(low, high)); \
    } \
  }
TEST2(pow, 0, 10)
TEST2(atan2, -3, 3)
TEST2(hypot, -3, 3)
TEST2(copysign, -3, 3)
TEST2(fdim, -3, 3)
TEST2(fmod, -100, 100)

/* What is exact. */
#define CHECK_SAME(T, name, f, x) \
  do { \
    nd_##T in_ = (nd_##T)(x), got_ = nd_##name##_##T##v(nd_splat_##T##v(in_))[1], want_ = f(in_); \
    if (!((got_ == want_ && !signbit(got_) == !signbit(want_)) || (got_ != got_ && want_ != want_))) \
      fail_msg("%s(%.17g) = %.17g, not %.17g", #name "_" #T, (double)in_, (double)got_, (double)want_); \
  } while (0)
#define CHECK_ROUNDINGS(x) \
  CHECK_SAME(f32, floor, floorf, x); \
  CHECK_SAME(f64, floor, floor, x); \
  CHECK_SAME(f32, ceil, ceilf, x); \
  CHECK_SAME(f64, ceil, ceil, x); \
  CHECK_SAME(f32, trunc, truncf, x); \
  CHECK_SAME(f64, trunc, trunc, x); \
  CHECK_SAME(f32, rint, rintf, x); \
  CHECK_SAME(f64, rint, rint, x); \
  CHECK_SAME(f32, round, roundf, x); \
  CHECK_SAME(f64, round, round, x); \
  CHECK_SAME(f32, nearbyint, rintf, x); \
  CHECK_SAME(f64, nearbyint, rint, x);
static void test_roundings(void **unused) {
  (void)unused;
  for (int i = 0; i < SPECIAL; i++) { CHECK_ROUNDINGS(special[i]) }
  for (int i = 0; i < 20000; i++) {
    double x = between(-100, 100), y = (double)(int64_t)(random_bits() >> 50) / 2, z = nd_cast_f64_u64(random_bits());
    CHECK_ROUNDINGS(x)
    CHECK_ROUNDINGS(y)
    CHECK_ROUNDINGS(z)
  }
}

static void test_classes(void **unused) {
  (void)unused;
  for (int i = 0; i < SPECIAL; i++) {
    float f = (float)special[i];
    double d = special[i];
    nd_f32v x = nd_splat_f32v(f);
    nd_f64v y = nd_splat_f64v(d);
    assert_true(nd_isnan_f32v(x)[1] == -(f != f) && nd_isnan_f64v(y)[1] == -(d != d));
    assert_true(nd_isinf_f32v(x)[1] == -!!isinf(f) && nd_isinf_f64v(y)[1] == -!!isinf(d));
    assert_true(nd_finite_f32v(x)[1] == -!!isfinite(f) && nd_finite_f64v(y)[1] == -!!isfinite(d));
    assert_true(nd_signbit_f32v(x)[1] == -!!signbit(f) && nd_signbit_f64v(y)[1] == -!!signbit(d));
  }
  for (double x = -80; x < 80; x += 0.37) {
    assert_true(fabs(nd_sigmoid_f64v(nd_splat_f64v(x))[0] * (1 + exp(-x)) - 1) < 1e-14);
    assert_true(fabs(nd_sigmoid_f32v(nd_splat_f32v((float)x))[0] * (1 + exp(-(double)(float)x)) - 1) < 1e-6);
  }
  nd_f32v s = nd_sigmoid_f32v((nd_f32v){-INFINITY, INFINITY, NAN, 0});
  assert_true(s[0] == 0 && s[1] == 1 && s[2] != s[2] && s[3] == 0.5f);
}

int main(void) {
#define ROW(T) cmocka_unit_test(test_##T),
  const struct CMUnitTest tests[] = {ROW(exp) ROW(exp2) ROW(exp10) ROW(expm1) ROW(log) ROW(log2) ROW(log10) ROW(log1p)
                                         ROW(sin) ROW(cos) ROW(tan) ROW(asin) ROW(acos) ROW(atan) ROW(sinh) ROW(cosh)
                                             ROW(tanh) ROW(asinh) ROW(acosh) ROW(atanh) ROW(erf) ROW(erfc) ROW(cbrt)
                                                 ROW(sqrt) ROW(rsqrt) ROW(pow) ROW(atan2) ROW(hypot) ROW(copysign)
                                                     ROW(fdim) ROW(fmod) ROW(roundings) ROW(classes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
