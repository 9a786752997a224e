/* Which tiles go to and from shared memory by squares (lower/squares.c): for tiles as tensor cores spread them, each
 * element must come to where its register and lane have it; what lies or is spread otherwise is left to plain accesses.
 */
#include "gpu/lower/move.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static uint32_t sum_of(const uint32_t *columns, int n, uint32_t x) {
  uint32_t y = 0;
  for (int i = 0; i < n; i++) y ^= x >> i & 1 ? columns[i] : 0;
  return y;
}

/* The byte of an access's element, by the lane that names its row: as PTX describes stmatrix. */
static uint32_t named_byte(const SquareBits *in, const SquareAccess *s, const int *group, int element, int lane) {
  int each = 1 << s->word_bits, square = element / each, at = element % each;
  int row = s->trans ? 2 * (lane % 4) + at : lane / 4;
  uint32_t inside = s->trans ? 2 * (uint32_t)(lane / 4) : 4 * (uint32_t)(lane % 4) + ((uint32_t)at << in->shift);
  return (sum_of(in->reg, in->reg_bits, (uint32_t)group[0]) ^ sum_of(s->row, 5, (uint32_t)(8 * square + row))) + inside;
}

static void check(const SquareBits *in, bool trans, int squares) {
  SquareAccess s;
  assert_true(squares_find(in, &s));
  assert_int_equal(s.trans, trans);
  assert_int_equal(1 << s.square_bits, squares);
  int group[16], seen = 0;
  bool done[256] = {0};
  for (int r = 0; r < 1 << in->reg_bits; r++) {
    if (done[r] || sum_of(in->reg, in->reg_bits, (uint32_t)r) % 16) continue;
    int n = squares_group(&s, r, group);
    for (int i = 0; i < n; i++, seen++) {
      assert_false(done[group[i]]);
      done[group[i]] = true;
      for (int lane = 0; lane < 32; lane++)
        assert_int_equal(named_byte(in, &s, group, i, lane),
                         sum_of(in->reg, in->reg_bits, (uint32_t)group[i]) ^ sum_of(in->lane, 5, (uint32_t)lane));
    }
  }
  assert_int_equal(seen, 1 << in->reg_bits);
}

/* A warp's 16 by 32 of 16 bits, in rows of 64 bytes, plain and with rows turned. */
static void as_it_lies(void **state) {
  SquareBits plain = {1, 4, {2, 512, 16, 32}, {4, 8, 64, 128, 256}, 0},
             turned = {1, 4, {2, 512, 16, 32}, {4, 8, 64, 128 | 16, 256 | 32}, 0},
             swapped = {1, 4, {16, 2, 32, 512}, {4, 8, 64, 128, 256}, 0},
             mixed = {1, 4, {2 | 16, 512, 16, 32}, {4, 8, 64, 128, 256}, 0};
  check(&plain, false, 4);
  check(&turned, false, 4);
  check(&swapped, false, 4);
  check(&mixed, false, 4);
}

static void elements_of_other_sizes(void **state) {
  SquareBits bytes = {0, 4, {1, 2, 512, 16}, {4, 8, 64, 128, 256}, 0},
             words = {2, 2, {512, 16}, {4, 8, 64, 128, 256}, 0}, wide = {3, 2, {512, 16}, {8, 4, 64, 128, 256}, 0};
  check(&bytes, false, 4);
  check(&words, false, 4);
  SquareAccess s;
  assert_false(squares_find(&wide, &s));
}

/* Columns side by side: rows of 64 bytes are columns of the tile. */
static void transposed(void **state) {
  SquareBits plain = {1, 3, {64, 16, 32}, {128 | 16, 256 | 32, 2, 4, 8}, 0},
             other_first = {1, 3, {16, 64, 32}, {128 | 16, 256 | 32, 2, 4, 8}, 0};
  check(&plain, true, 4);
  check(&other_first, true, 4);
  SquareBits one_bank = {1, 3, {1024, 2048, 4096}, {128, 256, 2, 4, 8}, 0}; /* rows meet in a bank, eight at a time */
  SquareAccess s;
  assert_false(squares_find(&one_bank, &s));
}

/* Registers that no access may span: of another part of the tile. */
static void apart(void **state) {
  SquareBits two = {1, 3, {2, 512, 16}, {4, 8, 64, 128, 256}, 4}, none = {1, 2, {2, 512}, {4, 8, 64, 128, 256}, 2};
  check(&two, false, 2);
  SquareAccess s;
  assert_false(squares_find(&none, &s));
}

static void others(void **state) {
  static const SquareBits cases[] = {
      {1, 3, {2, 4, 8}, {16, 32, 64, 128, 256}, 0},   /* 16 bytes a thread */
      {1, 3, {2, 512, 16}, {8, 4, 64, 128, 256}, 0},  /* words in another order */
      {1, 3, {2, 512, 16}, {4, 8, 64, 128, 0}, 0},    /* copies */
      {1, 3, {512, 16, 32}, {4, 8, 64, 128, 256}, 0}, /* a word's second element is of another thread */
      {1, 3, {2, 512, 8}, {4, 16, 64, 128, 256}, 0},  /* rows of three words */
      {1, 3, {2, 512, 16}, {4, 8, 64, 128, 8}, 0},    /* a row that is not whole */
  };
  SquareAccess s;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) assert_false(squares_find(&cases[i], &s));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_it_lies), cmocka_unit_test(elements_of_other_sizes),
      cmocka_unit_test(transposed), cmocka_unit_test(apart),
      cmocka_unit_test(others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
