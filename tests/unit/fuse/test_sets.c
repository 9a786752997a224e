/* Sets as ascending lists, beside sets of bits. */
#include "fuse/fuse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static Set set_of(Arena *a, unsigned bits) {
  int *at = NEW_N(a, int, 32), n = 0;
  for (int i = 0; i < 32; i++)
    if (bits >> i & 1) at[n++] = i;
  return (Set){n, at};
}

static unsigned bits_of(Set s) {
  unsigned bits = 0;
  for (int i = 0; i < s.n; i++) {
    assert_true(i == 0 || s.at[i] > s.at[i - 1]);
    bits |= 1u << s.at[i];
  }
  return bits;
}

static void sets_are_those_of_bits(void **state) {
  Context *cx = context_create();
  Arena *a = cx->arena;
  unsigned x = 1;
  for (int i = 0; i < 2000; i++) {
    x = x * 1664525u + 1013904223u;
    unsigned y = x * 22695477u + 1u, p = x >> 8 & (i % 3 ? 0xffff : 0x11), q = y >> 8 & (i % 5 ? 0x8421 : 0xffff);
    Set s = set_of(a, p), t = set_of(a, q), u = set_union(a, s, t);
    assert_int_equal(bits_of(u), p | q);
    assert_int_equal(set_union_count(s, t), __builtin_popcount(p | q));
    assert_int_equal(set_meets(s, t), (p & q) != 0);
    if ((p | q) == p) assert_ptr_equal(u.at, s.at); /* nothing new is made */
    for (int k = 0; k < 20; k++) {
      assert_int_equal(set_has(s, k), p >> k & 1);
      assert_int_equal(bits_of(set_without(a, s, k)), p & ~(1u << k));
    }
  }
  context_destroy(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sets_are_those_of_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
