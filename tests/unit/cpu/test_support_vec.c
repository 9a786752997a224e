/* The vector arithmetic of the emitted kernels (src/cpu/support/nereid_vec.h, nereid_cpu.h) against plain C, lane by
 * lane, on edge values and random ones. tests/unit/cpu/check_support_targets builds this for every instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu/support/nereid_cpu.h"
#include "cpu/support/nereid_vec.h"

static uint64_t state = 88172645463325252u;
static uint64_t random_bits(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

/* Edge values often, small ones often, any bits otherwise. */
static uint64_t random_int(int bits) {
  static const uint64_t edges[] = {0, 1, 2, 3, 7, ~0ull, ~1ull, ~6ull};
  uint64_t r = random_bits();
  switch (r >> 60 & 3) {
    case 0: return edges[r & 7];
    case 1: return (uint64_t)1 << (bits - 1) >> (r & 1) << (r >> 1 & 1);
    case 2: return ((uint64_t)1 << (bits - 1)) - (r & 1);
    default: return r >> (r >> 50 & 31);
  }
}

static double random_float(int wide) {
  static const double edges[] = {0.0,       -0.0, 1,   -1,   0.5,    -2.5,     INFINITY,
                                 -INFINITY, NAN,  3.5, 1e30, -1e-30, 16777217, 5e-324};
  uint64_t r = random_bits();
  if ((r & 3) == 0) return edges[(r >> 8) % (sizeof edges / sizeof *edges)];
  if ((r & 3) == 1) return (double)(int64_t)(r >> 44) / 64 - 8000;
  if (wide) return nd_cast_f64_u64(random_bits());
  return nd_cast_f32_u32((uint32_t)(r >> 32));
}

enum { ROUNDS = 3000 };

#define FILL_INT(T, v) \
  for (int i = 0; i < ND_VL; i++) v[i] = (nd_##T)random_int(8 * sizeof(nd_##T))
#define CHECK(T, what, expected) \
  do { \
    nd_##T##v got_ = what; \
    for (int i = 0; i < ND_VL; i++) { \
      nd_##T want_ = (nd_##T)(expected); \
      if (memcmp(&want_, &(nd_##T){got_[i]}, sizeof want_)) \
        fail_msg("%s lane %d: a=%.17g b=%.17g got %.17g want %.17g", #what, i, (double)a[i], (double)b[i], \
                 (double)got_[i], (double)want_); \
    } \
  } while (0)
#define CHECK_MASK(what, expected) \
  do { \
    nd_mask got_ = what; \
    for (int i = 0; i < ND_VL; i++) \
      if (got_[i] != ((expected) ? -1 : 0)) \
        fail_msg("%s lane %d: a=%.17g b=%.17g got %d", #what, i, (double)a[i], (double)b[i], got_[i]); \
  } while (0)

/* ---- what all types have ----------------------------------------------------------------------------------------- */

#define COMPARE_ALL(T) \
  CHECK_MASK(nd_eq_##T##v(a, b), a[i] == b[i]); \
  CHECK_MASK(nd_ne_##T##v(a, b), a[i] != b[i]); \
  CHECK_MASK(nd_lt_##T##v(a, b), a[i] < b[i]); \
  CHECK_MASK(nd_le_##T##v(a, b), a[i] <= b[i]); \
  CHECK_MASK(nd_gt_##T##v(a, b), a[i] > b[i]); \
  CHECK_MASK(nd_ge_##T##v(a, b), a[i] >= b[i]); \
  CHECK(T, nd_select_##T##v(m, a, b), m[i] ? a[i] : b[i]); \
  CHECK(T, nd_splat_##T##v(a[0]), a[0]); \
  for (int k = 1; k < ND_VL; k *= 2) { \
    CHECK(T, nd_xor_lanes_##T##v(a, k), a[i ^ k]); \
    CHECK(T, nd_up_lanes_##T##v(a, k, b[0]), i < k ? b[0] : a[i - k]); \
    CHECK(T, nd_down_lanes_##T##v(a, k, b[0]), i + k < ND_VL ? a[i + k] : b[0]); \
  }

/* ---- integers ---------------------------------------------------------------------------------------------------- */

#define BITS(T) (8 * (int)sizeof(nd_##T))
#define IS_SIGNED(T) ((nd_##T) - 1 < (nd_##T)1)
/* What the mathematics says, in 128 bits; and what tile/scalar.c says where it says nothing: x / 0 is x, x % 0 is 0, a
 * count that is not below the width shifts everything out. */
static __int128 quotient(__int128 a, __int128 b) { return a / (b ? b : 1); }
static __int128 shifted(__int128 a, uint64_t count, int bits, int left) {
  if (count >= (uint64_t)bits) return left || a >= 0 ? 0 : -1;
  return left ? (__int128)((unsigned __int128)a << count) : a >> count;
}

#define INT_TEST(T) \
  static void test_##T(void **unused) { \
    (void)unused; \
    for (int round = 0; round < ROUNDS; round++) { \
      nd_##T##v a, b; \
      nd_mask m; \
      FILL_INT(T, a); \
      FILL_INT(T, b); \
      for (int i = 0; i < ND_VL; i++) m[i] = -(int)(random_bits() >> 63); \
      COMPARE_ALL(T) \
      CHECK(T, nd_min_##T##v(a, b), a[i] < b[i] ? a[i] : b[i]); \
      CHECK(T, nd_max_##T##v(a, b), a[i] > b[i] ? a[i] : b[i]); \
      CHECK(T, nd_neg_##T##v(a), 0 - (uint64_t)a[i]); \
      CHECK(T, nd_abs_##T##v(a), IS_SIGNED(T) && (__int128)a[i] < 0 ? 0 - (uint64_t)a[i] : (uint64_t)a[i]); \
      CHECK(T, nd_shl_##T##v(a, b), shifted(a[i], (uint64_t)b[i], BITS(T), 1)); \
      CHECK(T, nd_shr_##T##v(a, b), shifted(a[i], (uint64_t)b[i], BITS(T), 0)); \
      for (int i = 0; i < ND_VL; i++) b[i] = (nd_##T)(random_bits() % (2 * BITS(T) + 2)); \
      CHECK(T, nd_shl_##T##v(a, b), shifted(a[i], (uint64_t)b[i], BITS(T), 1)); \
      CHECK(T, nd_shr_##T##v(a, b), shifted(a[i], (uint64_t)b[i], BITS(T), 0)); \
      FILL_INT(T, b); \
      CHECK(T, nd_mulhi_##T##v(a, b), (unsigned __int128)((__int128)a[i] * b[i]) >> BITS(T)); \
      nd_##T##v q = nd_div_##T##v(a, b), r = nd_rem_##T##v(a, b); \
      for (int i = 0; i < ND_VL; i++) { \
        nd_##T want = (nd_##T)quotient(a[i], b[i]); \
        if (q[i] != want || r[i] != (nd_##T)(b[i] ? (nd_##T)(a[i] - want * b[i]) : 0)) \
          fail_msg("%s: %.17g / %.17g gives %.17g, %.17g", #T, (double)a[i], (double)b[i], (double)q[i], \
                   (double)r[i]); \
        assert_true(nd_div_##T(a[i], b[i]) == want && nd_rem_##T(a[i], b[i]) == r[i]); \
      } \
      for (int i = 0; i < ND_VL; i++) { /* scalars */ \
        assert_true(nd_min_##T(a[i], b[i]) == (a[i] < b[i] ? a[i] : b[i]) && \
                    nd_max_##T(a[i], b[i]) == (a[i] > b[i] ? a[i] : b[i])); \
        assert_true(nd_abs_##T(a[i]) == nd_abs_##T##v(a)[i] && nd_neg_##T(a[i]) == nd_neg_##T##v(a)[i]); \
        assert_true(nd_shl_##T(a[i], b[i]) == nd_shl_##T##v(a, b)[i] && \
                    nd_shr_##T(a[i], b[i]) == nd_shr_##T##v(a, b)[i]); \
        assert_true(nd_mulhi_##T(a[i], b[i]) == nd_mulhi_##T##v(a, b)[i]); \
      } \
      uint64_t sum = 0, prod = 1, and = ~0ull, or = 0, xor = 0; \
      nd_##T low = a[0], high = a[0]; \
      for (int i = 0; i < ND_VL; i++) { \
        sum += (uint64_t)a[i], prod *= (uint64_t)a[i], and &= (uint64_t)a[i], or |= (uint64_t)a[i], \
            xor ^= (uint64_t)a[i]; \
        low = a[i] < low ? a[i] : low, high = a[i] > high ? a[i] : high; \
      } \
      assert_true(nd_sum_##T##v(a) == (nd_##T)sum && nd_prod_##T##v(a) == (nd_##T)prod); \
      assert_true(nd_hand_##T##v(a) == (nd_##T) and &&nd_hor_##T##v(a) == (nd_##T) or \
                  &&nd_hxor_##T##v(a) == (nd_##T) xor); \
      assert_true(nd_hmin_##T##v(a) == low && nd_hmax_##T##v(a) == high); \
    } \
  }
ND_INTS(INT_TEST)

static int slow_clz(uint64_t x, int bits) {
  int n = 0;
  while (n < bits && !(x >> (bits - 1 - n) & 1)) n++;
  return n;
}
static int slow_popc(uint64_t x, int bits) {
  int n = 0;
  for (int i = 0; i < bits; i++) n += x >> i & 1;
  return n;
}
static int slow_ffs(uint64_t x, int bits) {
  for (int i = 0; i < bits; i++)
    if (x >> i & 1) return i + 1;
  return 0;
}
static uint64_t slow_brev(uint64_t x, int bits) {
  uint64_t r = 0;
  for (int i = 0; i < bits; i++) r |= (x >> i & 1) << (bits - 1 - i);
  return r;
}

static void test_bits(void **unused) {
  (void)unused;
  for (int round = 0; round < ROUNDS; round++) {
    nd_i32v a;
    nd_i64v b;
    FILL_INT(i32, a);
    FILL_INT(i64, b);
    for (int i = 0; i < ND_VL; i++) {
      assert_int_equal(nd_clz_i32v(a)[i], slow_clz((uint32_t)a[i], 32));
      assert_int_equal(nd_popc_i32v(a)[i], slow_popc((uint32_t)a[i], 32));
      assert_int_equal(nd_ffs_i32v(a)[i], slow_ffs((uint32_t)a[i], 32));
      assert_int_equal((uint32_t)nd_brev_i32v(a)[i], slow_brev((uint32_t)a[i], 32));
      assert_int_equal(nd_clz_i64v(b)[i], slow_clz((uint64_t)b[i], 64));
      assert_int_equal(nd_popc_i64v(b)[i], slow_popc((uint64_t)b[i], 64));
      assert_int_equal(nd_ffs_i64v(b)[i], slow_ffs((uint64_t)b[i], 64));
      assert_true((uint64_t)nd_brev_i64v(b)[i] == slow_brev((uint64_t)b[i], 64));
    }
  }
}

/* ---- floats ------------------------------------------------------------------------------------------------------ */

#define SAME(x, y) (((x) == (y) && !signbit(x) == !signbit(y)) || ((x) != (x) && (y) != (y)))
#define CHECK_FLOAT(T, what, expected) \
  do { \
    nd_##T##v got_ = what; \
    for (int i = 0; i < ND_VL; i++) { \
      nd_##T want_ = expected; \
      if (!SAME(got_[i], want_)) \
        fail_msg("%s lane %d: a=%g b=%g got %g want %g", #what, i, (double)a[i], (double)b[i], (double)got_[i], \
                 (double)want_); \
    } \
  } while (0)
#define CHECK_EXTREME(T, what, scalar, expected) \
  do { \
    nd_##T##v got_ = what; \
    for (int i = 0; i < ND_VL; i++) { \
      nd_##T want_ = expected; \
      if (!SAME(got_[i], want_)) \
        fail_msg("%s: a=%g b=%g got %g want %g", #what, (double)a[i], (double)b[i], (double)got_[i], (double)want_); \
      assert_true(SAME(scalar, want_)); \
    } \
  } while (0)

/* As PTX's min and max: -0 is below +0. libm's fmin and fmax let a signalling NaN win, and either zero. */
#define BELOW(a, b) ((a) < (b) || ((a) == (b) && signbit(a) && !signbit(b)))
#define LEAST(a, b) (BELOW(a, b) || (b) != (b) ? (a) : (b))
#define GREATEST(a, b) (BELOW(b, a) || (b) != (b) ? (a) : (b))

#define FLOAT_TEST(T, wide, f) \
  static void test_##T(void **unused) { \
    (void)unused; \
    for (int round = 0; round < ROUNDS; round++) { \
      nd_##T##v a, b, c; \
      nd_mask m; \
      for (int i = 0; i < ND_VL; i++) { \
        a[i] = (nd_##T)random_float(wide), b[i] = (nd_##T)random_float(wide), c[i] = (nd_##T)random_float(wide); \
        m[i] = -(int)(random_bits() >> 63); \
      } \
      COMPARE_ALL(T) \
      CHECK_EXTREME(T, nd_min_##T##v(a, b), nd_min_##T(a[i], b[i]), LEAST(a[i], b[i])); \
      CHECK_EXTREME(T, nd_max_##T##v(a, b), nd_max_##T(a[i], b[i]), GREATEST(a[i], b[i])); \
      CHECK_EXTREME(T, nd_minnan_##T##v(a, b), nd_minnan_##T(a[i], b[i]), \
                    a[i] != a[i] || b[i] != b[i] ? (nd_##T)NAN : LEAST(a[i], b[i])); \
      CHECK_EXTREME(T, nd_maxnan_##T##v(a, b), nd_maxnan_##T(a[i], b[i]), \
                    a[i] != a[i] || b[i] != b[i] ? (nd_##T)NAN : GREATEST(a[i], b[i])); \
      CHECK_FLOAT(T, nd_neg_##T##v(a), -a[i]); \
      CHECK_FLOAT(T, nd_abs_##T##v(a), fabs##f(a[i])); \
      CHECK_FLOAT(T, nd_div_##T##v(a, b), a[i] / b[i]); \
      CHECK_FLOAT(T, nd_rem_##T##v(a, b), fmod##f(a[i], b[i])); \
      CHECK_FLOAT(T, nd_fma_##T##v(a, b, c), fma##f(a[i], b[i], c[i])); \
      nd_##T low = (nd_##T)NAN, high = (nd_##T)NAN; \
      int any_nan = 0; \
      for (int i = 0; i < ND_VL; i++) low = LEAST(low, a[i]), high = GREATEST(high, a[i]), any_nan |= a[i] != a[i]; \
      assert_true(SAME(nd_hmin_##T##v(a), low) && SAME(nd_hmax_##T##v(a), high)); \
      assert_true(any_nan ? nd_hminnan_##T##v(a) != nd_hminnan_##T##v(a) : SAME(nd_hmaxnan_##T##v(a), high)); \
      for (int i = 0; i < ND_VL; i++) a[i] = (nd_##T)(random_bits() >> 54), b[i] = 1 + (nd_##T)(random_bits() & 1); \
      nd_##T sum = 0, prod = 1; \
      for (int i = 0; i < ND_VL; i++) sum += a[i], prod *= b[i]; \
      assert_true(nd_sum_##T##v(a) == sum && nd_prod_##T##v(b) == prod); \
    } \
  }
FLOAT_TEST(f32, 0, f)
FLOAT_TEST(f64, 1, )

/* ---- masks, lanes, maps ------------------------------------------------------------------------------------------ */

static void test_masks(void **unused) {
  (void)unused;
  for (int64_t n = -3; n <= ND_VL + 3; n++) {
    nd_mask m = nd_first(n);
    int64_t in = n < 0 ? 0 : n > ND_VL ? ND_VL : n;
    for (int i = 0; i < ND_VL; i++) assert_int_equal(m[i], i < n ? -1 : 0);
    assert_int_equal(nd_count(m), in);
    assert_int_equal(nd_all(m), in == ND_VL);
    assert_int_equal(nd_any(m), in > 0);
    assert_int_equal(nd_none(m), in == 0);
    assert_int_equal(nd_mask_bits(m), (1u << in) - 1);
  }
  assert_true(nd_all(nd_first(INT64_MAX)) && nd_none(nd_first(INT64_MIN)));
  nd_mask a = nd_first(2), b = nd_iota_i32v() % 2 == 0;
  for (int i = 0; i < ND_VL; i++) {
    int x = i < 2, y = i % 2 == 0;
    assert_int_equal(nd_eq_i1v(a, b)[i], -(x == y));
    assert_int_equal(nd_ne_i1v(a, b)[i], -(x != y));
    assert_int_equal(nd_lt_i1v(a, b)[i], -(x < y));
    assert_int_equal(nd_le_i1v(a, b)[i], -(x <= y));
    assert_int_equal(nd_gt_i1v(a, b)[i], -(x > y));
    assert_int_equal(nd_ge_i1v(a, b)[i], -(x >= y));
    assert_int_equal(nd_select_i1v(a, b, ~b)[i], -(x ? y : !y));
    assert_int_equal(nd_splat_i1v(1)[i], -1);
    assert_int_equal(nd_iota_i32v()[i], i);
    assert_int_equal(nd_iota_i64v()[i], i);
    assert_int_equal(nd_up_lanes_i1v(a, 1, 1)[i], i < 3 ? -1 : 0);
    assert_int_equal(nd_down_lanes_i1v(a, 1, 1)[i], i < 1 || i == ND_VL - 1 ? -1 : 0);
    assert_int_equal(nd_xor_lanes_i1v(b, 1)[i], -!y);
  }
}

static double three(double x, float y, int z) { return x * y + z; }
static int calls;
static float counted(float x) {
  calls++;
  return x + 1;
}

static void test_maps(void **unused) {
  (void)unused;
  nd_f64v x = __builtin_convertvector(nd_iota_i64v(), nd_f64v);
  nd_f32v y = nd_splat_f32v(0.5f);
  nd_i32v z = nd_iota_i32v();
  nd_f64v r = ND_MAP3(nd_f64v, three, x, y, z);
  for (int i = 0; i < ND_VL; i++) assert_true(r[i] == i * 1.5);
  calls = 0;
  nd_f32v s = ND_MAP1(nd_f32v, counted, ND_MAP1(nd_f32v, counted, y));
  assert_int_equal(calls, 2 * ND_VL);
  for (int i = 0; i < ND_VL; i++) assert_true(s[i] == 2.5f);
}

int main(void) {
#define ROW(T) cmocka_unit_test(test_##T),
  const struct CMUnitTest tests[] = {
      ND_INTS(ROW) ROW(f32) ROW(f64) cmocka_unit_test(test_bits),
      cmocka_unit_test(test_masks),
      cmocka_unit_test(test_maps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
