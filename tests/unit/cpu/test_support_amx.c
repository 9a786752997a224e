/* bf16 and int8 products on AMX's tiles (nereid_amx.h), with the tile instructions emulated, so that the way they are
 * used is tested where there is no AMX: every shape around the sizes of tiles, against plain loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include <cmocka.h>

#define ND_AMX_EMULATE
#include "cpu/support/nereid_cpu.h"
#include "cpu/support/nereid_vec.h"
#include "cpu/support/nereid_convert.h"
#include "cpu/support/nereid_amx.h"
#include "cpu/support/nereid_dot.h"

#if defined(ND_DOT_PAIRS_BF16) && defined(ND_DOT_QUADS_I8)
static uint64_t state = 88172645463325252u;
static uint64_t random_bits(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

/* Small whole numbers, so that every order of adding gives the same. */
static void one_product(int m, int n, int k, int beyond) {
  int64_t lda = k + beyond, ldb = n + beyond, ldc = n + beyond % 7;
  uint16_t *a = malloc((size_t)(m * lda) * 2), *b = malloc((size_t)(k * ldb) * 2);
  float *c = malloc((size_t)(m * ldc) * 4), *was = malloc((size_t)(m * ldc) * 4);
  assert_true(a && b && c && was);
  for (int64_t i = 0; i < m * lda; i++) a[i] = f32_to_bf16((float)(random_bits() % 7) - 3);
  for (int64_t i = 0; i < k * ldb; i++) b[i] = f32_to_bf16((float)(random_bits() % 7) - 3);
  for (int64_t i = 0; i < m * ldc; i++) was[i] = c[i] = (float)(random_bits() % 100) - 50;
  nd_dot_bf16(c, ldc, a, lda, b, ldb, m, n, k, NULL);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < ldc; j++) {
      float want = was[i * ldc + j];
      for (int64_t p = 0; j < n && p < k; p++) want += bf16_to_f32(a[i * lda + p]) * bf16_to_f32(b[p * ldb + j]);
      if (c[i * ldc + j] != want)
        fail_msg("%dx%dx%d: [%d, %d] is %g, not %g", m, n, k, (int)i, (int)j, (double)c[i * ldc + j], (double)want);
    }
  free(a), free(b), free(c), free(was);
}

static void one_int8_product(int m, int n, int k, int beyond) {
  int64_t lda = k + beyond, ldb = n + beyond, ldc = n + beyond % 7;
  int8_t *a = malloc((size_t)(m * lda)), *b = malloc((size_t)(k * ldb));
  int32_t *c = malloc((size_t)(m * ldc) * 4), *was = malloc((size_t)(m * ldc) * 4);
  assert_true(a && b && c && was);
  for (int64_t i = 0; i < m * lda; i++) a[i] = (int8_t)random_bits();
  for (int64_t i = 0; i < k * ldb; i++) b[i] = (int8_t)random_bits();
  for (int64_t i = 0; i < m * ldc; i++) was[i] = c[i] = (int32_t)random_bits();
  nd_dot_i8(c, ldc, a, lda, b, ldb, m, n, k, NULL);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < ldc; j++) {
      uint32_t want = (uint32_t)was[i * ldc + j];
      for (int64_t p = 0; j < n && p < k; p++) want += (uint32_t)(a[i * lda + p] * b[p * ldb + j]);
      if ((uint32_t)c[i * ldc + j] != want) fail_msg("int8 %dx%dx%d: [%d, %d]", m, n, k, (int)i, (int)j);
    }
  free(a), free(b), free(c), free(was);
}

static void test_shapes(void **unused) {
  (void)unused;
  static const int ms[] = {1, 15, 16, 17, 31, 32, 33, 48, 64, 130}, ns[] = {1, 16, 31, 32, 33, 64, 100},
                   ks[] = {1, 31, 32, 33, 64, 65, 256, 300};
  for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
    for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
      for (size_t k = 0; k < sizeof ks / sizeof *ks; k++) {
        one_product(ms[i], ns[j], ks[k], (int)(i + j + k) % 3 * 500);
        one_int8_product(ms[i], ns[j], ks[k], (int)(i + j + k) % 3 * 500);
      }
}

/* What the tiles compute by themselves: a block of 48 rows, 32 pairs. */
static void test_tiles(void **unused) {
  (void)unused;
  enum { M = 48, PAIRS = 32 };
  int32_t a[M * PAIRS];
  float b[PAIRS * 32], c[M * 32] = {0};
  for (int i = 0; i < M * PAIRS; i++)
    a[i] = (int32_t)(f32_to_bf16((float)(random_bits() % 7)) | (uint32_t)f32_to_bf16((float)(random_bits() % 7)) << 16);
  for (int i = 0; i < PAIRS * 32; i++) {
    uint32_t pair = f32_to_bf16((float)(random_bits() % 7)) | (uint32_t)f32_to_bf16((float)(random_bits() % 7)) << 16;
    memcpy(&b[i], &pair, 4);
  }
  int pairs;
  nd_amx_begin();
  assert_int_equal(nd_amx_panel_bf16(c, 32, a, PAIRS, b, 32, M, PAIRS, 0, &pairs), M);
  assert_int_equal(pairs, PAIRS);
  for (int i = 0; i < M; i++)
    for (int j = 0; j < 32; j++) {
      float want = 0;
      for (int p = 0; p < PAIRS; p++) {
        uint32_t x = (uint32_t)a[i * PAIRS + p], y;
        memcpy(&y, &b[p * 32 + j], 4);
        want += bf16_to_f32((uint16_t)x) * bf16_to_f32((uint16_t)y) +
                bf16_to_f32((uint16_t)(x >> 16)) * bf16_to_f32((uint16_t)(y >> 16));
      }
      assert_true(c[i * 32 + j] == want);
    }
  assert_int_equal(nd_amx_panel_bf16(c, 32, a, PAIRS, b, 32, 15, PAIRS, 0, &pairs), 0);
  assert_int_equal(pairs, 0);
  nd_amx_end();
  assert_false(nd_amx_state.configured);
}

/* Packed operands, as a loop of products has them: added to what is there, or in its place. far: rows of a lie 64 KiB
 * from each other, and go through the panels 32 at a time. */
static void one_gemm(int m, int n, int k, int fresh, int int8, int far) {
  int per = int8 ? 4 : 2, bytes = int8 ? 1 : 2;
  int64_t apart = (int64_t)k * 32 * bytes, row = far ? 64 << 10 : k * bytes;
  char *a = calloc((size_t)m, (size_t)(row ? row : 1)), *b = malloc((size_t)(k * n * bytes)),
       *panels = malloc((size_t)(n / 32 * apart));
  int32_t *c = malloc((size_t)(m * n) * 4), *was = malloc((size_t)(m * n) * 4);
  assert_true(a && b && panels && c && was && k % per == 0);
  for (int i = 0; i < (m + n) * k; i++) {
    char *to = i < m * k ? a + i / k * row + i % k * bytes : b + (i - m * k) * bytes;
    uint16_t x = f32_to_bf16((float)(random_bits() % 7) - 3);
    if (int8) *to = (char)random_bits();
    else memcpy(to, &x, 2);
  }
  for (int i = 0; i < m * n; i++) {
    float x = (float)(random_bits() % 100) - 50;
    if (int8) was[i] = (int32_t)random_bits();
    else memcpy(&was[i], &x, 4);
  }
  memcpy(c, was, (size_t)(m * n) * 4);
  if (int8) {
    nd_gemm_panels_i8(panels, apart, b, n, n, k);
    nd_gemm_i8(c, n, a, row, panels, apart, m, n, k, fresh);
  } else {
    nd_gemm_panels_bf16(panels, apart, b, n * 2, n, k);
    nd_gemm_bf16((float *)(void *)c, n, a, row, panels, apart, m, n, k, fresh);
  }
  assert_false(nd_amx_state.configured);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0, x;
      uint32_t whole = 0, want;
      memcpy(&x, &was[i * n + j], 4);
      for (int p = 0; p < k; p++) {
        if (int8) {
          whole += (uint32_t)((int8_t)a[i * row + p] * (int8_t)b[p * n + j]);
          continue;
        }
        uint16_t u, v;
        memcpy(&u, a + i * row + p * 2, 2), memcpy(&v, b + (p * n + j) * 2, 2);
        sum += bf16_to_f32(u) * bf16_to_f32(v);
      }
      sum = fresh ? sum : sum + x;
      memcpy(&want, &sum, 4);
      if (int8) want = fresh ? whole : whole + (uint32_t)was[i * n + j];
      if ((uint32_t)c[i * n + j] != want)
        fail_msg("%s %dx%dx%d%s: [%d, %d]", int8 ? "int8" : "bf16", m, n, k, fresh ? " fresh" : "", i, j);
    }
  free(a), free(b), free(panels), free(c), free(was);
}

static void test_gemm(void **unused) {
  (void)unused;
  static const int ms[] = {1, 16, 33, 64}, ks[] = {0, 16, 64, 128, 1300};
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 5; k++)
      for (int turn = 0; turn < 16; turn++)
        one_gemm(ms[i], turn & 1 ? 32 : 64, ks[k], turn >> 1 & 1, turn >> 2 & 1, turn >> 3);
}

#else
#define WITHOUT_AVX512 1
#endif

static void left_out(void **unused) {
  (void)unused;
  puts("left out: no AVX-512 with VNNI in the compiler or the processor");
}

int main(void) {
  const struct CMUnitTest none[] = {cmocka_unit_test(left_out)};
#ifndef WITHOUT_AVX512
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles), cmocka_unit_test(test_shapes),
                                     cmocka_unit_test(test_gemm)};
  if (__builtin_cpu_supports("avx512vnni")) return cmocka_run_group_tests_name("support_amx", tests, NULL, NULL);
#endif
  return cmocka_run_group_tests_name("support_amx", none, NULL, NULL);
}
