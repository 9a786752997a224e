/* Work on whole tiles in the emitted kernels: nereid_dot.h, nereid_tile.h, nereid_atomic.h, nereid_print.h of
 * src/cpu/support, against plain loops. */
#include <math.h>
#include <pthread.h>
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
#include "cpu/support/nereid_amx.h"
#include "cpu/support/nereid_dot.h"
#include "cpu/support/nereid_tile.h"
#include "cpu/support/nereid_atomic.h"
#include "cpu/support/nereid_print.h"

static uint64_t state = 88172645463325252u;
static uint64_t random_bits(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

/* ---- dot: whole numbers, so that every order of adding gives the same -------------------------------------------- */

static const int shapes[][3] = {{16, 16, 16}, {128, 128, 64}, {1, 1, 1},     {2, 4, 8},     {1, 64, 32}, {64, 1, 16},
                                {32, 8, 1},   {4, 2, 128},    {64, 64, 32},  {16, 32, 2},   {8, 16, 4},  {7, 33, 5},
                                {130, 20, 3}, {33, 70, 131},  {16, 16, 256}, {129, 16, 257}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Reads element i of an array of `d` as a number. */
static double number(Dtype d, const void *p, int64_t i) {
  return dtype_load_float(d, (const char *)p + i * dtype_bytes(d));
}

/* The three arrays, row distances beyond the rows, and what lies there. */
typedef struct Case {
  int m, n, k;
  int64_t lda, ldb, ldc;
  void *a, *b, *c, *was;
} Case;

static Case make_case(const int shape[3], int beyond, Dtype in, Dtype out) {
  Case s = {.m = shape[0],
            .n = shape[1],
            .k = shape[2],
            .lda = shape[2] + beyond,
            .ldb = shape[1] + beyond,
            .ldc = shape[1] + beyond % 5};
  s.a = malloc((size_t)(s.m * s.lda * dtype_bytes(in)));
  s.b = malloc((size_t)(s.k * s.ldb * dtype_bytes(in)));
  s.c = malloc((size_t)(s.m * s.ldc * dtype_bytes(out)));
  s.was = malloc((size_t)(s.m * s.ldc * dtype_bytes(out)));
  assert_true(s.a && s.b && s.c && s.was);
  int bound = in == DT_F8E4B15 ? 1 : 3;
  for (int64_t i = 0; i < s.m * s.lda; i++)
    dtype_store_float(in, (char *)s.a + i * dtype_bytes(in), (double)(random_bits() % (2 * bound + 1)) - bound);
  for (int64_t i = 0; i < s.k * s.ldb; i++)
    dtype_store_float(in, (char *)s.b + i * dtype_bytes(in), (double)(random_bits() % (2 * bound + 1)) - bound);
  for (int64_t i = 0; i < s.m * s.ldc; i++)
    dtype_store_float(out, (char *)s.c + i * dtype_bytes(out), (double)(random_bits() % 100) - 50);
  memcpy(s.was, s.c, (size_t)(s.m * s.ldc * dtype_bytes(out)));
  return s;
}
static void check_case(Case *s, Dtype in, Dtype out) {
  for (int64_t i = 0; i < s->m; i++)
    for (int64_t j = 0; j < s->ldc; j++) {
      double want = number(out, s->was, i * s->ldc + j), got = number(out, s->c, i * s->ldc + j);
      if (j < s->n)
        for (int64_t p = 0; p < s->k; p++) want += number(in, s->a, i * s->lda + p) * number(in, s->b, p * s->ldb + j);
      if (got != want)
        fail_msg("%s %dx%dx%d ld %d: [%d, %d] is %g, not %g", dtype_name(in), s->m, s->n, s->k, (int)s->lda, (int)i,
                 (int)j, got, want);
    }
  free(s->a), free(s->b), free(s->c), free(s->was);
}

#define DOT_TEST(T, in, out, ctype, atype, ...) \
  static void test_dot_##T(void **unused) { \
    (void)unused; \
    static const int beyond[] = {0, 3, 1024}; /* the last so that rows are copied together */ \
    for (int i = 0; i < SHAPES; i++) \
      for (int j = 0; j < 3; j++) { \
        Case s = make_case(shapes[i], beyond[j], in, out); \
        nd_dot_##T((ctype *)s.c, s.ldc, (atype *)s.a, s.lda, (atype *)s.b, s.ldb, s.m, s.n, s.k __VA_ARGS__); \
        check_case(&s, in, out); \
      } \
  }
DOT_TEST(f32, DT_F32, DT_F32, float, float)
DOT_TEST(f64, DT_F64, DT_F64, double, double)
DOT_TEST(i32, DT_I32, DT_I32, int32_t, int32_t)
DOT_TEST(f16, DT_F16, DT_F32, float, void, , NULL)
DOT_TEST(bf16, DT_BF16, DT_F32, float, void, , NULL)
DOT_TEST(fp8e5, DT_F8E5, DT_F32, float, void, , NULL)
DOT_TEST(fp8e4nv, DT_F8E4NV, DT_F32, float, void, , NULL)
DOT_TEST(fp8e4b15, DT_F8E4B15, DT_F32, float, void, , NULL)
DOT_TEST(fp8e4b8, DT_F8E4B8, DT_F32, float, void, , NULL)
DOT_TEST(fp8e5b16, DT_F8E5B16, DT_F32, float, void, , NULL)
DOT_TEST(i8, DT_I8, DT_I32, int32_t, void, , NULL)

/* Operands packed in pieces of k, or rows of a read where they lie; every shape that a loop of products may have; added
 * to what is there, or in its place. Rows at a distance of 64 KiB go through the panels 24 or 32 at a time. */
#define GEMM_TEST(T, in, out, ctype) \
  static void test_gemm_##T(void **unused) { \
    (void)unused; \
    static const int ms[] = {1, 16, 33, 64}, ns[] = {32, 64}, ks[] = {16, 64, 1300}; \
    for (int i = 0; i < 24; i++) { \
      int m = ms[i % 4], n = ns[i / 4 % 2], k = ks[i / 8], piece = k < 64 ? 8 : 4 * (k / 16); \
      int64_t bytes = dtype_bytes(in), rows_apart = i / 4 % 2 ? 64 << 10 : (int64_t)k * ND_GEMM_A_##T + 64, \
              apart = ((int64_t)k * ND_GEMM_W_##T * ND_GEMM_B_##T + 63) / 64 * 64; \
      for (int turn = 0; turn < 2 + 2 * ND_GEMM_RAW_##T; turn++) { \
        int fresh = turn % 2, raw = turn / 2; \
        Case s = make_case((int[3]){m, n, k}, raw ? 8 : 0, in, out); \
        for (int r = 0; fresh && r < m; r++) memset((ctype *)s.was + r * s.ldc, 0, (size_t)n * sizeof(ctype)); \
        char *rows = aligned_alloc(64, (size_t)(m * rows_apart + 63) / 64 * 64), \
             *panels = aligned_alloc(64, (size_t)(n / ND_GEMM_W_##T * apart)), \
             *tile = malloc((size_t)(m * piece * bytes)); \
        assert_true(rows &&panels &&tile); \
        for (int p = 0; p < k; p += piece) { \
          int ks_ = k - p < piece ? k - p : piece; \
          for (int r = 0; r < m; r++) \
            memcpy(tile + r * ks_ * bytes, (char *)s.a + (r * s.lda + p) * bytes, (size_t)(ks_ * bytes)); \
          nd_gemm_rows_##T(rows + (int64_t)p * ND_GEMM_A_##T, rows_apart, tile, m, ks_); \
          nd_gemm_panels_##T(panels + (int64_t)p * ND_GEMM_W_##T * ND_GEMM_B_##T, apart, \
                             (char *)s.b + p * s.ldb * bytes, s.ldb * bytes, n, ks_); \
        } \
        nd_gemm_##T((ctype *)s.c, s.ldc, raw ? s.a : rows, raw ? s.lda *bytes : rows_apart, panels, apart, m, n, k, \
                    fresh); \
        check_case(&s, in, out); \
        free(rows), free(panels), free(tile); \
      } \
    } \
  }
GEMM_TEST(f32, DT_F32, DT_F32, float)
GEMM_TEST(f64, DT_F64, DT_F64, double)
GEMM_TEST(i32, DT_I32, DT_I32, int32_t)
GEMM_TEST(bf16, DT_BF16, DT_F32, float)
GEMM_TEST(i8, DT_I8, DT_I32, int32_t)

/* Six rows of a to a set of a cache of 2048 sets, in whole blocks. */
static void test_gemm_rows(void **unused) {
  (void)unused;
  static const int64_t aparts[][2] = {{1 << 20, 24},  {128 << 10, 24}, {32 << 10, 24}, {16 << 10, 48},
                                      {48 << 10, 48}, {8192, 96},      {-8192, 96},    {4096, 192}};
  for (size_t i = 0; i < sizeof aparts / sizeof *aparts; i++)
    assert_int_equal(nd_gemm_rows_at(aparts[i][0], 24), aparts[i][1]);
  assert_int_equal(nd_gemm_rows_at(32 << 10, 32), 32);
  assert_int_equal(nd_gemm_rows_at(16 << 10, 32), 64);
  assert_true(nd_gemm_rows_at(16384 + 64, 24) > 8192 && nd_gemm_rows_at(0, 24) > 8192);
}

/* What was packed is found again by the same keys, and only if it was packed whole. */
static void test_gemm_held(void **unused) {
  (void)unused;
  nd_gemm_memo m = {0};
  int64_t one[] = {1, 2}, other[] = {1, 3};
  assert_false(nd_gemm_held(&m, 1, 2, one));
  assert_true(nd_gemm_held(&m, 1, 2, one));
  assert_false(nd_gemm_held(&m, 1, 2, other));
  assert_false(nd_gemm_held(&m, 0, 2, other));
  assert_false(nd_gemm_held(&m, 1, 2, other));
  assert_int_equal(nd_gemm_iterations(0, 100, 32), 4);
  assert_int_equal(nd_gemm_iterations(0, 96, 32), 3);
  assert_int_equal(nd_gemm_iterations(5, 5, 1), 0);
}

static void test_dot_i8_extremes(void **unused) {
  (void)unused;
  int8_t a[16 * 64], b[64 * 16];
  int32_t c[16 * 16] = {0};
  memset(a, -128, sizeof a), memset(b, -128, sizeof b);
  nd_dot_i8(c, 16, a, 64, b, 16, 16, 16, 64, NULL);
  for (int i = 0; i < 256; i++) assert_int_equal(c[i], 64 * 128 * 128);
}

/* NaN and infinity in one row or column go where they belong and nowhere else. */
static void test_dot_special(void **unused) {
  (void)unused;
  float a[16 * 16], b[16 * 16], c[16 * 16] = {0};
  for (int i = 0; i < 256; i++) a[i] = b[i] = 1;
  a[3 * 16 + 5] = NAN, b[7 * 16 + 2] = INFINITY;
  nd_dot_f32(c, 16, a, 16, b, 16, 16, 16, 16);
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++)
      assert_true(i == 3 ? isnan(c[i * 16 + j]) : j == 2 ? isinf(c[i * 16 + j]) : c[i * 16 + j] == 16);
}

/* ---- sort -------------------------------------------------------------------------------------------------------- */

static int compare_numbers(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  if (a != a || b != b) return (a != a) - (b != b);
  return a < b ? -1 : a > b;
}
static int compare_i64(const void *x, const void *y) {
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return a < b ? -1 : a > b;
}
static int compare_u64(const void *x, const void *y) {
  uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
  return a < b ? -1 : a > b;
}

enum { MAX_SORT = 2048 };
/* Compares numbers: of equal ones (0 and -0) either order is right. u64 and i64 are compared exactly. */
static void check_sorted(Dtype d, const void *before, const void *after, int n, int descending) {
  static double want[MAX_SORT];
  static int64_t exact[MAX_SORT];
  for (int i = 0; i < n; i++)
    want[i] = number(d, before, i),
    exact[i] = dtype_is_int(d) ? dtype_load_int(d, (const char *)before + i * dtype_bytes(d)) : 0;
  qsort(want, (size_t)n, sizeof *want, compare_numbers);
  qsort(exact, (size_t)n, sizeof *exact, d == DT_U64 ? compare_u64 : compare_i64);
  for (int i = 0; i < n; i++) {
    int at = descending ? n - 1 - i : i;
    double got = number(d, after, at);
    if (!(got == want[i] || (got != got && want[i] != want[i])))
      fail_msg("%s, %d of %d%s: %g, not %g", dtype_name(d), at, n, descending ? " descending" : "", got, want[i]);
    if (dtype_is_int(d)) assert_true(dtype_load_int(d, (const char *)after + at * dtype_bytes(d)) == exact[i]);
  }
}

#define SORT_TEST(T, C, d) \
  static void test_sort_##T(void **unused) { \
    (void)unused; \
    static C before[MAX_SORT], after[MAX_SORT]; \
    for (int n = 1; n <= MAX_SORT; n *= 2) \
      for (int round = 0; round < 6; round++) { \
        for (int i = 0; i < n; i++) { \
          uint64_t r = random_bits(); \
          if (round < 2) r &= 15; /* many equal */ \
          memcpy(&before[i], &r, sizeof before[i]); \
          if (round == 5) before[i] = before[0]; \
        } \
        memcpy(after, before, sizeof after); \
        nd_sort_##T(after, n, round & 1); \
        check_sorted(d, before, after, n, round & 1); \
        for (int i = 0; i < n / 4; i++) { /* up and down */ \
          C x = after[n - 1 - i]; \
          after[n - 1 - i] = after[n / 2 + i]; \
          after[n / 2 + i] = x; \
        } \
        nd_merge_##T(after, n, round >= 3); \
        check_sorted(d, before, after, n, round >= 3); \
      } \
  }
#define SORTS(X) \
  X(i8, int8_t, DT_I8) \
  X(u8, uint8_t, DT_U8) \
  X(i16, int16_t, DT_I16) \
  X(u16, uint16_t, DT_U16) \
  X(i32, int32_t, DT_I32) \
  X(u32, uint32_t, DT_U32) \
  X(i64, int64_t, DT_I64) \
  X(u64, uint64_t, DT_U64) \
  X(f32, float, DT_F32) \
  X(f64, double, DT_F64) \
  X(f16, uint16_t, DT_F16) \
  X(bf16, uint16_t, DT_BF16) \
  X(fp8e5, uint8_t, DT_F8E5) \
  X(fp8e4nv, uint8_t, DT_F8E4NV) \
  X(fp8e4b15, uint8_t, DT_F8E4B15) X(fp8e4b8, uint8_t, DT_F8E4B8) X(fp8e5b16, uint8_t, DT_F8E5B16)
SORTS(SORT_TEST)

/* ---- histogram, transpose, copy ---------------------------------------------------------------------------------- */

static void test_histogram(void **unused) {
  (void)unused;
  int32_t bins[8] = {10};
  int32_t x[] = {0, 1, 1, 7, 8, -1, INT32_MIN, 3, 3, 3};
  uint8_t mask[] = {1, 1, 0, 1, 1, 1, 1, 1, 1, 0};
  nd_histogram_i32(bins, 8, x, NULL, 10);
  nd_histogram_i32(bins, 8, x, mask, 10);
  const int32_t want[8] = {12, 3, 0, 5, 0, 0, 0, 2};
  assert_memory_equal(bins, want, sizeof want);
  uint8_t y[] = {255, 4, 4};
  nd_histogram_u8(bins, 8, y, NULL, 3);
  assert_int_equal(bins[4], 2);
  int64_t z[] = {INT64_MIN, -1, 2, INT64_MAX};
  nd_histogram_i64(bins, 8, z, NULL, 4);
  assert_int_equal(bins[2], 1);
}

#define TRANSPOSE_TEST(bytes, C) \
  static void test_transpose_##bytes(void **unused) { \
    (void)unused; \
    static const int sizes[] = {1, 2, 4, 8, 16, 32, 64, 5, 37}; \
    static C from[70 * 70], to[70 * 70]; \
    for (int i = 0; i < 9; i++) \
      for (int j = 0; j < 9; j++) { \
        int rows = sizes[i], columns = sizes[j], apart = columns + 3, to_apart = rows + 1; \
        for (int n = 0; n < 70 * 70; n++) from[n] = (C)random_bits(), to[n] = 0x55; \
        nd_transpose_##bytes(to, to_apart, from, apart, rows, columns); \
        for (int c = 0; c < columns; c++) { \
          for (int r = 0; r < rows; r++) assert_true(to[c * to_apart + r] == from[r * apart + c]); \
          assert_true(to[c * to_apart + rows] == 0x55); \
        } \
      } \
  }
TRANSPOSE_TEST(1, uint8_t)
TRANSPOSE_TEST(2, uint16_t)
TRANSPOSE_TEST(4, uint32_t)
TRANSPOSE_TEST(8, uint64_t)

static void test_copy(void **unused) {
  (void)unused;
  char from[64], to[64] = {0};
  for (int i = 0; i < 64; i++) from[i] = (char)i;
  nd_copy2d(to, 16, from, 8, 3, 5);
  for (int i = 0; i < 64; i++) assert_int_equal(to[i], i / 16 < 3 && i % 16 < 5 ? i / 16 * 8 + i % 16 : 0);
}

/* ---- atomics ----------------------------------------------------------------------------------------------------- */

enum { THREADS = 4, TURNS = 20000 };
static struct {
  int32_t i;
  uint32_t u;
  int64_t l;
  float f;
  double d;
  uint16_t h[2], b[2];
  int32_t most, least;
  float fmost, fleast;
  uint32_t lock;
} shared;

static void *hammer(void *arg) {
  int me = (int)(intptr_t)arg;
  for (int n = 0; n < TURNS; n++) {
    nd_atomic_add_i32(&shared.i, 1);
    nd_atomic_add_u32(&shared.u, ~0u);
    nd_atomic_add_i64(&shared.l, INT64_C(1) << 33);
    nd_atomic_add_f32(&shared.f, 1);
    nd_atomic_add_f64(&shared.d, 0.5);
    if (n < 400) nd_atomic_add_f16(&shared.h[0], 1), nd_atomic_add_bf16(&shared.b[1], n < 60 ? 1 : 0);
    nd_atomic_max_i32(&shared.most, n * THREADS + me);
    nd_atomic_min_i32(&shared.least, -n * THREADS - me);
    nd_atomic_max_f32(&shared.fmost, (float)(n * THREADS + me));
    nd_atomic_min_f32(&shared.fleast, (float)(-n * THREADS - me));
    while (nd_atomic_cas_u32(&shared.lock, 0, 1) != 0) {}
    shared.h[1]++; /* under the lock */
    nd_atomic_xchg_u32(&shared.lock, 0);
  }
  return NULL;
}

static void test_atomic_threads(void **unused) {
  (void)unused;
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(intptr_t)i), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  const int all = THREADS * TURNS;
  assert_true(shared.i == all && shared.u == (uint32_t)-all && shared.l == ((int64_t)all << 33) && shared.f == all &&
              shared.d == all / 2);
  assert_true(f16_to_f32(shared.h[0]) == 400 * THREADS && bf16_to_f32(shared.b[1]) == 60 * THREADS && shared.b[0] == 0);
  assert_true(shared.most == all - 1 && shared.least == 1 - all && shared.fmost == all - 1 && shared.fleast == 1 - all);
  assert_int_equal(shared.h[1], (uint16_t)all);
}

#define TOGETHER(T, kind, start, x, after) \
  do { \
    nd_##T at_ = (nd_##T)(start); \
    assert_true(nd_atomic_##kind##_##T(&at_, (nd_##T)(x)) == (nd_##T)(start)); \
    if (at_ != (nd_##T)(after)) \
      fail_msg("%s_%s of %g and %g is %g, not %g", #kind, #T, (double)(start), (double)(x), (double)at_, \
               (double)(after)); \
  } while (0)
#define INTS_TOGETHER(T) \
  TOGETHER(T, add, 5, 7, 12); \
  TOGETHER(T, and, 6, 3, 2); \
  TOGETHER(T, or, 6, 3, 7); \
  TOGETHER(T, xor, 6, 3, 5); \
  TOGETHER(T, xchg, 6, 3, 3); \
  TOGETHER(T, max, 5, 7, 7); \
  TOGETHER(T, min, 5, 7, 5); \
  TOGETHER(T, max, -1, 7, (nd_##T) - 1 < 0 ? 7 : (nd_##T) - 1); \
  TOGETHER(T, min, -1, 7, (nd_##T) - 1 < 0 ? (nd_##T) - 1 : 7); \
  TOGETHER(T, max, 7, 5, 7); \
  TOGETHER(T, min, 7, 5, 5);

static void test_atomic_values(void **unused) {
  (void)unused;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
  INTS_TOGETHER(i32)
  INTS_TOGETHER(u32)
  INTS_TOGETHER(i64)
  INTS_TOGETHER(u64)
  INTS_TOGETHER(i16)
  INTS_TOGETHER(u8)
#pragma GCC diagnostic pop
  static const float values[] = {0, -0.0f, 1, -1, 2.5f, -2.5f, 1e30f, -1e30f, INFINITY, -INFINITY, 1e-40f};
  for (int i = 0; i < 11; i++)
    for (int j = 0; j < 11; j++) {
      float a = values[i], b = values[j];
      if (a == 0 && b == 0) continue;
      TOGETHER(f32, max, a, b, a > b ? a : b);
      TOGETHER(f32, min, a, b, a < b ? a : b);
      TOGETHER(f64, max, a, b, a > b ? a : b);
      TOGETHER(f64, min, a, b, a < b ? a : b);
      if (isfinite(a + b)) TOGETHER(f64, add, a, b, (double)a + b);
    }
  float zero = -0.0f;
  nd_atomic_max_f32(&zero, 0);
  assert_false(signbit(zero));
  zero = 0;
  nd_atomic_min_f32(&zero, -0.0f);
  assert_true(signbit(zero));
  /* compare and swap: by bits */
  uint16_t half = f32_to_f16(1.5f);
  assert_true(nd_atomic_cas_f16(&half, 2, 3) == 1.5f && half == f32_to_f16(1.5f));
  assert_true(nd_atomic_cas_f16(&half, 1.5f, 3) == 1.5f && half == f32_to_f16(3));
  double nan = NAN;
  assert_true(isnan(nd_atomic_cas_f64(&nan, nan, 1)) && nan == 1);
  int64_t l = 5;
  assert_true(nd_atomic_cas_i64(&l, 4, 9) == 5 && l == 5 && nd_atomic_cas_i64(&l, 5, 9) == 5 && l == 9);
  /* lanes: all to one address, in order, masked ones not */
  int32_t sum = 100;
  nd_i64v to = nd_splat_i64v((int64_t)(intptr_t)&sum);
  nd_mask odd = nd_iota_i32v() % 2 == 1;
  nd_i32v old = nd_atomic_add_i32v(to, nd_splat_i32v(3), odd);
  for (int i = 0; i < ND_VL; i++) assert_int_equal(old[i], i % 2 ? 100 + i / 2 * 3 : 0);
  assert_int_equal(sum, 100 + ND_VL / 2 * 3);
  float f[ND_VL] = {0};
  nd_i64v each = nd_iota_i64v() * 4 + (int64_t)(intptr_t)f;
  nd_f32v was = nd_atomic_xchg_f32v(each, nd_splat_f32v(2), nd_first(3));
  for (int i = 0; i < ND_VL; i++) assert_true(f[i] == (i < 3 ? 2 : 0) && was[i] == 0);
  was = nd_atomic_cas_f32v(each, nd_splat_f32v(2), nd_splat_f32v(4), nd_first(ND_VL));
  for (int i = 0; i < ND_VL; i++) assert_true(f[i] == (i < 3 ? 4 : 0) && was[i] == (i < 3 ? 2 : 0));
}

/* ---- print ------------------------------------------------------------------------------------------------------- */

static char printed[8192];
static void keep(void *arg, const char *line) {
  assert_ptr_equal(arg, printed);
  snprintf(printed, sizeof printed, "%s", line);
}

static void test_print(void **unused) {
  (void)unused;
  NereidHost host = {.print = keep, .arg = printed};
  const int32_t program[3] = {3, 0, 1}, index[] = {4, 15};
  const int widths[] = {1, 3};
  nd_print(&host, program, " x: ", 0, 1, 2, index, widths, 'd', 32, (uint64_t)-7);
  assert_string_equal(printed, "pid (3, 0, 1) idx (4,  15) x: -7");
  nd_print(&host, program, " x: ", 1, 2, 0, index, widths, 'f', 32, nd_cast_u64_f64(1.5));
  assert_string_equal(printed, "pid (3, 0, 1) idx () x: (operand 1) 1.500000");
  nd_print(&host, program, " hello", 0, 0, 0, NULL, widths, ' ', 0, 0);
  assert_string_equal(printed, "pid (3, 0, 1) hello");
  nd_print(&host, program, " x: ", 0, 1, 0, index, widths, 'x', 16, (uint64_t)-1);
  assert_string_equal(printed, "pid (3, 0, 1) idx () x: 0xffff");
  nd_print(&host, program, " x: ", 0, 1, 0, index, widths, 'x', 64, 255);
  assert_string_equal(printed, "pid (3, 0, 1) idx () x: 0x00000000000000ff");
  nd_print(&host, program, " x: ", 0, 1, 0, index, widths, 'x', 1, 1);
  assert_string_equal(printed, "pid (3, 0, 1) idx () x: 0x1");
  nd_print(&host, program, " x: ", 0, 1, 0, index, widths, 'u', 64, UINT64_MAX);
  assert_string_equal(printed, "pid (3, 0, 1) idx () x: 18446744073709551615");
  nd_print(&host, program, " x: ", 0, 1, 0, index, widths, 'p', 64, 0x1234);
  assert_string_equal(printed, "pid (3, 0, 1) idx () x: 0x1234");
  static char prefix[6000];
  memset(prefix, 'a', sizeof prefix - 1);
  nd_print(&host, program, prefix, 0, 1, 0, index, widths, 'f', 64, nd_cast_u64_f64(-1.7e308));
  assert_true(strlen(printed) < 4096 && strstr(printed, "a-1699999"));
  assert_string_equal(strchr(printed, '.'), ".000000");
}

int main(void) {
#define ROW(T) cmocka_unit_test(test_##T),
#define SORT_ROW(T, C, d) cmocka_unit_test(test_sort_##T),
  const struct CMUnitTest tests[] = {
      ROW(dot_f32) ROW(dot_f64) ROW(dot_i32) ROW(dot_f16) ROW(dot_bf16) ROW(dot_fp8e5) ROW(dot_fp8e4nv)
          ROW(dot_fp8e4b15) ROW(dot_fp8e4b8) ROW(dot_fp8e5b16) ROW(dot_i8) ROW(dot_i8_extremes) ROW(dot_special)
              ROW(gemm_f32) ROW(gemm_f64) ROW(gemm_i32) ROW(gemm_bf16) ROW(gemm_i8) ROW(gemm_rows) ROW(gemm_held)
                  SORTS(SORT_ROW) ROW(histogram) ROW(transpose_1) ROW(transpose_2) ROW(transpose_4) ROW(transpose_8)
                      ROW(copy) ROW(atomic_threads) ROW(atomic_values) ROW(print)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
