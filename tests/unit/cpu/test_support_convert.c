/* The conversions of the emitted kernels (src/cpu/support/nereid_convert.h) against base/number.c: every bit pattern of
 * the narrow floats, every place where rounding changes its mind and its neighbours, edges of the integers, random
 * bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include <cmocka.h>
#include "cpu/support/nereid_cpu.h"
#include "cpu/support/nereid_vec.h"
#include "cpu/support/nereid_convert.h"

static uint64_t state = 88172645463325252u;
static uint64_t random_bits(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

/* A table of numbers that are hard for something. */
static double *hard;
static int hard_count, hard_room;
static void add_hard(double v) {
  if (hard_count == hard_room)
    hard = realloc(hard, sizeof *hard * (size_t)(hard_room = hard_room ? hard_room * 2 : 4096));
  assert_non_null(hard);
  hard[hard_count++] = v;
}

static void add_around(double v) {
  add_hard(v), add_hard(-v);
  add_hard(nextafter(v, INFINITY)), add_hard(nextafter(v, -INFINITY));
  add_hard(nextafterf((float)v, INFINITY)), add_hard(-(double)nextafterf((float)v, -INFINITY));
}

static int setup(void **unused) {
  (void)unused;
  static const Dtype narrow[] = {DT_F8E5, DT_F8E4NV, DT_F8E4B15, DT_F8E4B8, DT_F8E5B16};
  for (size_t t = 0; t < sizeof narrow / sizeof *narrow; t++)
    for (int b = 0; b < 0x7f; b++) {
      double v = f8_to_f32(narrow[t], (uint8_t)b), w = f8_to_f32(narrow[t], (uint8_t)(b + 1));
      if (v == v) add_around(v);
      if (v == v && w == w && !isinf(w)) add_around((v + w) / 2); /* where two are as near */
    }
  for (int b = 0; b < 0x7c00; b += b < 0x800 ? 1 : 37) {
    double v = f16_to_f32((uint16_t)b), w = f16_to_f32((uint16_t)(b + 1));
    add_around(v);
    if (!isinf(w)) add_around((v + w) / 2);
  }
  for (int b = 0; b < 0x7f80; b += b < 0x100 ? 1 : 29) {
    double v = bf16_to_f32((uint16_t)b), w = bf16_to_f32((uint16_t)(b + 1));
    add_around(v);
    if (!isinf(w)) add_around((v + w) / 2);
  }
  for (int e = -10; e <= 66; e++)
    for (int i = -2; i <= 2; i++) add_around(ldexp(1, e) + i), add_around(ldexp(1, e) + i * 0.5);
  static const double others[] = {0,          INFINITY,     NAN,  65504, 65519.99, 65520, 65536, 3.3895e38, 3.3961e38,
                                  3.40282e38, 3.4028236e38, 1e39, 1e300, 1e-300,   1e-46, 7e-46, 5e-324,    448,
                                  464,        480,          240,  248,   57344,    61440, 1.75,  1.8125,    1.875};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) add_hard(others[i]), add_hard(-others[i]);
  for (int i = 0; i < 20000; i++) {
    add_hard(nd_cast_f64_u64(random_bits()));
    add_hard(nd_cast_f32_u32((uint32_t)random_bits()));
    add_hard(ldexp((double)(int64_t)random_bits(), (int)(random_bits() & 63) - 80));
  }
  while (hard_count % ND_VL) add_hard(1);
  return 0;
}
static int teardown(void **unused) {
  (void)unused;
  free(hard);
  return 0;
}

static int same(float a, float b) { return a != a ? b != b : a == b && !signbit(a) == !signbit(b); }

/* ---- bits of narrow floats --------------------------------------------------------------------------------------- */

/* What was read stays; a conversion, which saturates, does not give it. */
static bool only_read(Dtype t, float v) { return t == DT_F8E5 ? isinf(v) : t == DT_F8E4B15 && fabsf(v) == 1.875f; }

#define CHECK_NARROW(T, U, dtype, from32) \
  static void test_##T(void **unused) { \
    (void)unused; \
    for (uint32_t b = 0; b < 1u << 8 * sizeof(nd_##U); b += ND_VL) { \
      nd_##U##v bits; \
      for (int i = 0; i < ND_VL; i++) bits[i] = (nd_##U)(b + (uint32_t)i); \
      nd_f32v v = nd_from_bits_##T##v(bits); \
      nd_##U##v back = nd_bits_##T##v(v); \
      for (int i = 0; i < ND_VL; i++) { \
        float want = (float)dtype_load_float(dtype, &(nd_##U){bits[i]}); \
        if (!same(v[i], want)) fail_msg("%s %x: %g, not %g", #T, (unsigned)bits[i], (double)v[i], (double)want); \
        nd_##U again; \
        dtype_store_float(dtype, &again, want); \
        if (only_read(dtype, want)) again = bits[i]; \
        if (back[i] != again) fail_msg("%s %g: %x, not %x", #T, (double)want, (unsigned)back[i], (unsigned)again); \
        assert_true(same(nd_from_bits_##T(bits[i]), want)); \
      } \
    } \
    for (int h = 0; h < hard_count; h += ND_VL) { \
      nd_f32v v; \
      nd_f64v d; \
      for (int i = 0; i < ND_VL; i++) d[i] = hard[h + i], v[i] = (float)hard[h + i]; \
      nd_##U##v bits = nd_bits_##T##v(v); \
      nd_f32v single = nd_cvt_##T##_f32v(v), twice = nd_cvt_##T##_f64v(d); \
      for (int i = 0; i < ND_VL; i++) { \
        nd_##U want; \
        dtype_store_float(dtype, &want, v[i]); \
        assert_true(same(single[i], (float)dtype_load_float(dtype, &want))); \
        if (only_read(dtype, v[i])) want = (nd_##U)((v[i] < 0 ? 0x80 : 0) | (isinf(v[i]) ? 0x7c : 0x7f)); \
        if (bits[i] != want) \
          fail_msg("%s from %.9g: %x, not %x", #T, (double)v[i], (unsigned)bits[i], (unsigned)want); \
        assert_true(nd_bits_##T(v[i]) == want); \
        dtype_store_float(dtype, &want, d[i]); \
        float number = (float)dtype_load_float(dtype, &want); \
        if (!same(twice[i], number)) \
          fail_msg("%s from %.17g: %g, not %g", #T, d[i], (double)twice[i], (double)number); \
      } \
      assert_true(same(nd_cvt_##T##_f64(d[1]), twice[1]) && same(nd_cvt_##T##_f32(v[0]), single[0])); \
    } \
  }
CHECK_NARROW(f16, u16, DT_F16, f32_to_f16)
CHECK_NARROW(bf16, u16, DT_BF16, f32_to_bf16)
CHECK_NARROW(fp8e5, u8, DT_F8E5, )
CHECK_NARROW(fp8e4nv, u8, DT_F8E4NV, )
CHECK_NARROW(fp8e4b15, u8, DT_F8E4B15, )
CHECK_NARROW(fp8e4b8, u8, DT_F8E4B8, )
CHECK_NARROW(fp8e5b16, u8, DT_F8E5B16, )

static float truncated(double x) { /* to f32, towards zero */
  float r = (float)x;
  return x == x && fabs((double)r) > fabs(x) ? nextafterf(r, 0) : r;
}

static void test_towards_zero(void **unused) {
  (void)unused;
  for (int h = 0; h < hard_count; h += ND_VL) {
    nd_f32v v;
    nd_f64v d;
    for (int i = 0; i < ND_VL; i++) d[i] = hard[h + i], v[i] = (float)hard[h + i];
    nd_f32v a = nd_cvtz_f16_f32v(v), b = nd_cvtz_bf16_f32v(v), c = nd_cvtz_f32_f64v(d), e = nd_cvtz_f16_f64v(d);
    for (int i = 0; i < ND_VL; i++) {
      if (!same(a[i], f16_to_f32(f32_to_f16_rtz(v[i])))) fail_msg("f16 of %.9g: %g", (double)v[i], (double)a[i]);
      if (!same(b[i], bf16_to_f32(f32_to_bf16_rtz(v[i])))) fail_msg("bf16 of %.9g: %g", (double)v[i], (double)b[i]);
      if (!same(c[i], truncated(d[i]))) fail_msg("f32 of %.17g: %.9g", d[i], (double)c[i]);
      if (!same(e[i], f16_to_f32(f32_to_f16_rtz(truncated(d[i]))))) fail_msg("f16 of %.17g: %g", d[i], (double)e[i]);
    }
    assert_true(same(nd_cvtz_f32_f64(d[0]), c[0]) && same(nd_cvtz_bf16_f32(v[0]), b[0]));
  }
}

/* ---- integers and floats ----------------------------------------------------------------------------------------- */

#define CHECK_TO_INT(T, dtype) \
  for (int h = 0; h < hard_count; h += ND_VL) { \
    nd_f32v v; \
    nd_f64v d; \
    for (int i = 0; i < ND_VL; i++) d[i] = hard[h + i], v[i] = (float)hard[h + i]; \
    nd_##T##v a = nd_cvt_##T##_f32v(v), b = nd_cvt_##T##_f64v(d); \
    for (int i = 0; i < ND_VL; i++) { \
      nd_##T want; \
      dtype_store_float(dtype, &want, v[i]); \
      if (a[i] != want) fail_msg("%s of %.9g: %.17g, not %.17g", #T, (double)v[i], (double)a[i], (double)want); \
      dtype_store_float(dtype, &want, d[i]); \
      if (b[i] != want) fail_msg("%s of %.17g: %.17g, not %.17g", #T, d[i], (double)b[i], (double)want); \
    } \
    assert_true(nd_cvt_##T##_f32(v[1]) == a[1] && nd_cvt_##T##_f64(d[0]) == b[0]); \
  }

static void test_float_to_int(void **unused) {
  (void)unused;
  CHECK_TO_INT(i8, DT_I8)
  CHECK_TO_INT(u8, DT_U8)
  CHECK_TO_INT(i16, DT_I16)
  CHECK_TO_INT(u16, DT_U16)
  CHECK_TO_INT(i32, DT_I32)
  CHECK_TO_INT(u32, DT_U32)
  CHECK_TO_INT(i64, DT_I64)
  CHECK_TO_INT(u64, DT_U64)
  nd_f64v d = nd_splat_f64v(0);
  d[0] = NAN, d[1] = -0.0, d[2] = 5e-324;
  assert_true(nd_cvt_i1_f64v(d)[0] == -1 && nd_cvt_i1_f64v(d)[1] == 0 && nd_cvt_i1_f64v(d)[2] == -1 &&
              nd_cvt_i1_f64(0.5) == 1);
}

#define CHECK_NARROW_OF(T, dtype, from) \
  do { \
    nd_f32v got = nd_cvt_##T##_##from##v(x); \
    for (int i = 0; i < ND_VL; i++) { \
      uint16_t bits = 0; \
      dtype_store_int(dtype, &bits, (int64_t)x[i]); \
      if ((nd_##from) - 1 > 0 && sizeof x[i] == 8 && (x[i] >> (sizeof x[i] * 8 - 1))) \
        continue; /* number.c takes it for negative */ \
      float want = (float)dtype_load_float(dtype, &bits); \
      if (!same(got[i], want)) \
        fail_msg("%s of %s %.20g: %.9g, not %.9g", #T, #from, (double)x[i], (double)got[i], (double)want); \
    } \
    assert_true(same(nd_cvt_##T##_##from(x[1]), got[1])); \
  } while (0);
#define CHECK_CVT(to, from) \
  do { \
    nd_##to##v got = nd_cvt_##to##_##from##v(x); \
    for (int i = 0; i < ND_VL; i++) \
      if (got[i] != (nd_##to)x[i]) fail_msg("%s of %s %.20g: %.20g", #to, #from, (double)x[i], (double)got[i]); \
    assert_true(nd_cvt_##to##_##from(x[1]) == (nd_##to)x[1]); \
  } while (0);
#define FROM_INT(from) \
  static void test_from_##from(void **unused) { \
    (void)unused; \
    for (int round = 0; round < 4000; round++) { \
      nd_##from##v x; \
      for (int i = 0; i < ND_VL; i++) { \
        uint64_t r = random_bits(); \
        int shift = (int)(r & 63); \
        x[i] = (nd_##from)(r & 64 ? random_bits() >> shift \
                                  : ((uint64_t)1 << shift) + ((uint64_t)1 << (r >> 8 & 63)) + (r >> 20 & 3) - 2); \
        if (r & 128) x[i] = nd_neg_##from(x[i]); \
      } \
      CHECK_CVT(i8, from) \
      CHECK_CVT(i16, from) \
      CHECK_CVT(i32, from) \
      CHECK_CVT(i64, from) \
      CHECK_CVT(u8, from) \
      CHECK_CVT(u16, from) \
      CHECK_CVT(u32, from) \
      CHECK_CVT(u64, from) \
      CHECK_CVT(f32, from) \
      CHECK_CVT(f64, from) \
      CHECK_NARROW_OF(f16, DT_F16, from) \
      CHECK_NARROW_OF(bf16, DT_BF16, from) \
      CHECK_NARROW_OF(fp8e5, DT_F8E5, from) \
      CHECK_NARROW_OF(fp8e4nv, DT_F8E4NV, from) \
      CHECK_NARROW_OF(fp8e4b15, DT_F8E4B15, from) \
      CHECK_NARROW_OF(fp8e4b8, DT_F8E4B8, from) \
      CHECK_NARROW_OF(fp8e5b16, DT_F8E5B16, from) nd_mask m = nd_cvt_i1_##from##v(x); \
      nd_##from##v ones = nd_cvt_##from##_i1v(m); \
      for (int i = 0; i < ND_VL; i++) \
        assert_true(m[i] == -(x[i] != 0) && ones[i] == (x[i] != 0) && nd_cvt_i1_##from(x[i]) == (x[i] != 0)); \
    } \
  }
ND_INTS(FROM_INT)

static void test_floats(void **unused) {
  (void)unused;
  for (int h = 0; h < hard_count; h += ND_VL) {
    nd_f64v d;
    for (int i = 0; i < ND_VL; i++) d[i] = hard[h + i];
    nd_f32v v = nd_cvt_f32_f64v(d);
    nd_f64v w = nd_cvt_f64_f32v(v);
    for (int i = 0; i < ND_VL; i++) {
      assert_true(same(v[i], (float)d[i]));
      assert_true(w[i] == (double)v[i] || w[i] != w[i]);
    }
  }
  nd_mask m = nd_first(1);
  assert_true(nd_cvt_f32_i1v(m)[0] == 1 && nd_cvt_f64_i1v(m)[1] == 0 && nd_cvt_bf16_i1v(m)[0] == 1 &&
              nd_cvt_f32_i1(3) == 1);
}

static void test_arrays(void **unused) {
  (void)unused;
  enum { N = 3 * ND_VL + 5 };
  float in[N], out[N];
  uint16_t half[N + 1];
  uint8_t byte[N + 1];
  for (int i = 0; i < N; i++) in[i] = (float)i * 0.37f - 5;
  half[N] = 0x1234, byte[N] = 0x12;
  nd_narrow_bf16(half, in, N);
  nd_widen_bf16(out, half, N);
  for (int i = 0; i < N; i++) assert_true(half[i] == f32_to_bf16(in[i]) && out[i] == bf16_to_f32(half[i]));
  nd_narrow_f16(half, in, N);
  nd_widen_f16(out, half, N);
  for (int i = 0; i < N; i++) assert_true(half[i] == f32_to_f16(in[i]) && out[i] == f16_to_f32(half[i]));
  nd_narrow_fp8e4nv(byte, in, N);
  nd_widen_fp8e4nv(out, byte, N);
  for (int i = 0; i < N; i++)
    assert_true(byte[i] == f32_to_f8(DT_F8E4NV, in[i]) && out[i] == f8_to_f32(DT_F8E4NV, byte[i]));
  assert_true(half[N] == 0x1234 && byte[N] == 0x12);
}

int main(void) {
#define ROW(T) cmocka_unit_test(test_##T),
#define FROM(T) cmocka_unit_test(test_from_##T),
  const struct CMUnitTest tests[] = {ROW(f16) ROW(bf16) ROW(fp8e5) ROW(fp8e4nv) ROW(fp8e4b15) ROW(fp8e4b8) ROW(fp8e5b16)
                                         ROW(towards_zero) ROW(float_to_int) ND_INTS(FROM) ROW(floats) ROW(arrays)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
