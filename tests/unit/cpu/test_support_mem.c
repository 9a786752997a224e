/* Loads and stores of the emitted kernels (src/cpu/support/nereid_mem.h). Arrays stand against a page that may not be
 * touched, so that reading or writing a masked lane there ends the test. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/mman.h>

#include "cpu/support/nereid_cpu.h"
#include "cpu/support/nereid_vec.h"
#include "cpu/support/nereid_convert.h"
#include "cpu/support/nereid_mem.h"

enum { PAGE = 65536 };
static char *memory; /* PAGE bytes between two forbidden pages */

static int setup(void **unused) {
  (void)unused;
  char *p = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || mprotect(p + PAGE, PAGE, PROT_READ | PROT_WRITE)) return -1;
  memory = p + PAGE;
  return 0;
}
static int teardown(void **unused) {
  (void)unused;
  return munmap(memory - PAGE, 3 * PAGE);
}

static int same(double a, double b) { return a == b || (a != a && b != b); }

/* Element i of an array holds VALUE(i); every type can hold these. */
#define VALUE(T, i) ((nd_##T)(FIT_##T(((i) % 7))))
#define FIT_i1(x) ((x) % 3 == 0)
#define FIT_fp8e4b15(x) ((x)*0.25)
#define FIT_i8(x) (x)
#define FIT_u8(x) (x)
#define FIT_i16(x) (x)
#define FIT_u16(x) (x)
#define FIT_i32(x) (x)
#define FIT_u32(x) (x)
#define FIT_i64(x) (x)
#define FIT_u64(x) (x)
#define FIT_f16(x) (x)
#define FIT_bf16(x) (x)
#define FIT_f32(x) (x)
#define FIT_f64(x) (x)
#define FIT_fp8e5(x) (x)
#define FIT_fp8e4nv(x) (x)
#define FIT_fp8e4b8(x) (x)
#define FIT_fp8e5b16(x) (x)

/* The value of lane i of a vector as the scalar type has it. */
#define LANE(T, v, i) ((double)(sizeof(#T) == 3 && #T[1] == '1' ? -(double)(v)[i] : (double)(v)[i]))
#define IS(T, v, i, want) \
  if (!same(LANE(T, v, i), (double)(want))) \
  fail_msg("%s line %d lane %d: %g, not %g", #T, __LINE__, i, LANE(T, v, i), (double)(want))
#define AT(T, bytes, p, i) ((double)nd_load_##T((const char *)(p) + (int64_t)(i)*bytes))
#define HOLDS(T, bytes, p, i, want) \
  if (!same(AT(T, bytes, p, i), (double)(want))) \
  fail_msg("%s line %d element %d: %g, not %g", #T, __LINE__, (int)(i), AT(T, bytes, p, i), (double)(want))

#define MEM_TEST(T, bytes) \
  static void test_##T(void **unused) { \
    (void)unused; \
    enum { N = 256 }; \
    char *end = memory + PAGE, *first = end - N * bytes; \
    for (int i = 0; i < N; i++) nd_store_##T(first + i * bytes, VALUE(T, i)); \
    for (int i = 0; i < N; i++) HOLDS(T, bytes, first, i, VALUE(T, i)); \
    /* contiguous, from every alignment that elements allow, to the last byte */ \
    for (int i = 0; i + ND_VL <= N; i++) { \
      nd_##T##v v = nd_load_##T##v(first + i * bytes); \
      for (int l = 0; l < ND_VL; l++) IS(T, v, l, VALUE(T, i + l)); \
    } \
    nd_##T##v other = nd_load_##T##v(first + bytes); \
    for (int n = 0; n <= ND_VL; n++) { /* the last n elements, then what may not be touched */ \
      nd_##T##v v = nd_mload_##T##v(end - n * bytes, nd_first(n), other); \
      for (int l = 0; l < ND_VL; l++) IS(T, v, l, l < n ? VALUE(T, N - n + l) : VALUE(T, l + 1)); \
      nd_i64v address = (nd_iota_i64v() - ND_VL + n) * bytes + (int64_t)(intptr_t)end; \
      nd_mask m = nd_iota_i32v() < ND_VL - n; \
      v = nd_gather_##T##v(address, m, other); \
      for (int l = 0; l < ND_VL; l++) IS(T, v, l, l < ND_VL - n ? VALUE(T, N - ND_VL + n + l) : VALUE(T, l + 1)); \
      v = nd_xgather_##T##v(end, nd_iota_i32v() - ND_VL + n, m, other); \
      for (int l = 0; l < ND_VL; l++) IS(T, v, l, l < ND_VL - n ? VALUE(T, N - ND_VL + n + l) : VALUE(T, l + 1)); \
      /* lanes side by side but for a gap before lane n, and a lane of which nothing is asked */ \
      nd_i64v gap = nd_iota_i64v() - (nd_iota_i64v() >= n) * 3; \
      nd_i32v near_gap = nd_iota_i32v() - (nd_iota_i32v() >= n) * 3; \
      nd_mask others = nd_iota_i32v() != n - 1; \
      v = nd_gather_##T##v(gap * bytes + (int64_t)(intptr_t)first, others, other); \
      for (int l = 0; l < ND_VL; l++) IS(T, v, l, l == n - 1 ? VALUE(T, l + 1) : VALUE(T, l < n ? l : l + 3)); \
      v = nd_xgather_##T##v(first, near_gap, others, other); \
      for (int l = 0; l < ND_VL; l++) IS(T, v, l, l == n - 1 ? VALUE(T, l + 1) : VALUE(T, l < n ? l : l + 3)); \
      v = nd_smload_##T##v(end - bytes, -3 * bytes + 0 * n, m, other); \
      for (int l = 0; l < ND_VL; l++) IS(T, v, l, l < ND_VL - n ? VALUE(T, N - 1 - 3 * l) : VALUE(T, l + 1)); \
      v = nd_smload_##T##v(first, -PAGE, nd_first(1), other); \
      for (int l = 0; l < ND_VL; l++) IS(T, v, l, l < 1 ? VALUE(T, 0) : VALUE(T, l + 1)); \
    } \
    nd_##T##v v = nd_mload_##T##v(memory - 4096, nd_first(0), other); \
    for (int l = 0; l < ND_VL; l++) IS(T, v, l, VALUE(T, l + 1)); \
    nd_mask holes = nd_iota_i32v() % 3 == 0; \
    v = nd_mload_##T##v(first, holes, other); \
    for (int l = 0; l < ND_VL; l++) IS(T, v, l, l % 3 == 0 ? VALUE(T, l) : VALUE(T, l + 1)); \
    v = nd_sload_##T##v(first, 5 * bytes); \
    for (int l = 0; l < ND_VL; l++) IS(T, v, l, VALUE(T, 5 * l)); \
    /* every other element and backwards, of an array that ends with the last of them */ \
    v = nd_sload_##T##v(end - (2 * ND_VL - 1) * bytes, 2 * bytes); \
    for (int l = 0; l < ND_VL; l++) IS(T, v, l, VALUE(T, N - 1 - 2 * (ND_VL - 1 - l))); \
    v = nd_sload_##T##v(end - bytes, -bytes); \
    for (int l = 0; l < ND_VL; l++) IS(T, v, l, VALUE(T, N - 1 - l)); \
    for (int n = 1; n <= ND_VL; n++) { \
      v = nd_smload_##T##v(end - (2 * n - 1) * bytes, 2 * bytes, nd_first(n), other); \
      for (int l = 0; l < ND_VL; l++) IS(T, v, l, l < n ? VALUE(T, N - 1 - 2 * (n - 1 - l)) : VALUE(T, l + 1)); \
      v = nd_smload_##T##v(end - bytes, -bytes, nd_first(n), other); \
      for (int l = 0; l < ND_VL; l++) IS(T, v, l, l < n ? VALUE(T, N - 1 - l) : VALUE(T, l + 1)); \
    } \
    v = nd_smload_##T##v(first, 2 * bytes, holes, other); \
    for (int l = 0; l < ND_VL; l++) IS(T, v, l, l % 3 == 0 ? VALUE(T, 2 * l) : VALUE(T, l + 1)); \
    /* the type's array at an odd address, as a cast pointer may have it */ \
    memmove(memory + 1, first, N * bytes); \
    v = nd_load_##T##v(memory + 1 + bytes); \
    for (int l = 0; l < ND_VL; l++) IS(T, v, l, VALUE(T, l + 1)); \
    /* stores: `other` over an array of VALUE(0) */ \
    char *to = end - N * bytes; \
    for (int n = 0; n <= ND_VL; n++) { \
      for (int i = 0; i < N; i++) nd_store_##T(to + i * bytes, VALUE(T, 2)); \
      nd_mstore_##T##v(end - n * bytes, other, nd_first(n)); \
      for (int i = 0; i < N; i++) HOLDS(T, bytes, to, i, i < N - n ? VALUE(T, 2) : VALUE(T, i - (N - n) + 1)); \
      nd_mask m = nd_iota_i32v() < ND_VL - n; \
      for (int i = 0; i < N; i++) nd_store_##T(to + i * bytes, VALUE(T, 2)); \
      nd_scatter_##T##v((nd_iota_i64v() * -2 - 1) * bytes + (int64_t)(intptr_t)end, other, m); \
      for (int i = 0; i < N; i++) \
        HOLDS(T, bytes, to, i, \
              (N - 1 - i) % 2 == 0 && (N - 1 - i) / 2 < ND_VL - n ? VALUE(T, (N - 1 - i) / 2 + 1) : VALUE(T, 2)); \
      for (int i = 0; i < N; i++) nd_store_##T(to + i * bytes, VALUE(T, 2)); \
      nd_xscatter_##T##v(end, nd_iota_i32v() - ND_VL + n, other, m); \
      for (int i = 0; i < N; i++) \
        HOLDS(T, bytes, to, i, i < N - ND_VL + n ? VALUE(T, 2) : VALUE(T, i - (N - ND_VL + n) + 1)); \
      for (int i = 0; i < N; i++) nd_store_##T(to + i * bytes, VALUE(T, 2)); \
      nd_smstore_##T##v(end - bytes, -3 * bytes, other, m); \
      for (int i = 0; i < N; i++) \
        HOLDS(T, bytes, to, i, \
              (N - 1 - i) % 3 == 0 && (N - 1 - i) / 3 < ND_VL - n ? VALUE(T, (N - 1 - i) / 3 + 1) : VALUE(T, 2)); \
    } \
    for (int far = 0; far < 2; far++) \
      for (int i = 0; i < 2 * ND_VL; i++) { \
        for (int j = 0; j < N; j++) nd_store_##T(to + j * bytes, VALUE(T, 2)); \
        if (far) nd_nstore_##T##v(to + i * bytes, other, 1); \
        else nd_store_##T##v(to + i * bytes, other); \
        nd_far_end(far); \
        for (int j = 0; j < N; j++) \
          HOLDS(T, bytes, to, j, j < i || j >= i + ND_VL ? VALUE(T, 2) : VALUE(T, j - i + 1)); \
      } \
    nd_sstore_##T##v(to, 3 * bytes, other); \
    for (int l = 0; l < ND_VL; l++) HOLDS(T, bytes, to, 3 * l, VALUE(T, l + 1)); \
    /* every other element, to the last one; what is between stays */ \
    for (int n = 0; n <= ND_VL; n++) { \
      for (int i = 0; i < N; i++) nd_store_##T(to + i * bytes, VALUE(T, 2)); \
      if (n == ND_VL) nd_sstore_##T##v(end - (2 * n - 1) * bytes, 2 * bytes, other); \
      else nd_smstore_##T##v(end - (2 * n - 1) * bytes, 2 * bytes, other, nd_first(n)); \
      for (int i = 0; i < N; i++) \
        HOLDS(T, bytes, to, i, \
              (N - 1 - i) % 2 == 0 && (N - 1 - i) / 2 < n ? VALUE(T, n - (N - 1 - i) / 2) : VALUE(T, 2)); \
    } \
    /* of two lanes at one address the last one's value stays */ \
    nd_scatter_##T##v(nd_splat_i64v((int64_t)(intptr_t)to), other, nd_first(ND_VL - 1)); \
    HOLDS(T, bytes, to, 0, VALUE(T, ND_VL - 1)); \
    nd_xscatter_##T##v(to, nd_splat_i32v(1), other, nd_first(ND_VL)); \
    HOLDS(T, bytes, to, 1, VALUE(T, ND_VL)); \
  }
#define TYPES(X) \
  X(i1, 1) \
  X(i8, 1) \
  X(u8, 1) \
  X(i16, 2) \
  X(u16, 2) \
  X(i32, 4) \
  X(u32, 4) \
  X(i64, 8) \
  X(u64, 8) \
  X(f16, 2) X(bf16, 2) X(f32, 4) X(f64, 8) X(fp8e5, 1) X(fp8e4nv, 1) X(fp8e4b15, 1) X(fp8e4b8, 1) X(fp8e5b16, 1)
TYPES(MEM_TEST)

static void test_i1_bytes(void **unused) {
  (void)unused;
  memset(memory, 0, ND_VL);
  memory[0] = 2, memory[1] = (char)0x80;
  nd_mask m = nd_load_i1v(memory);
  assert_true(m[0] == -1 && m[1] == -1 && m[2] == 0 && nd_load_i1(memory) == 1);
  nd_store_i1v(memory, m);
  assert_true(memory[0] == 1 && memory[1] == 1 && memory[2] == 0);
}

static void test_far(void **unused) {
  (void)unused;
  NereidHost host = {.stream_bytes = 1 << 20, .cache_bytes = 1 << 20};
  assert_false(nd_far(&host));
  host.stream_bytes++;
  assert_true(nd_far(&host));
}

int main(void) {
#define ROW(T, bytes) cmocka_unit_test(test_##T),
  const struct CMUnitTest tests[] = {TYPES(ROW) cmocka_unit_test(test_i1_bytes), cmocka_unit_test(test_far)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
