/* Loops whose tiles come by asynchronous copies: they leave what float64 says, whatever their trip counts, steps,
 * masks, alignment and number of stages; nothing is read that the kernel does not read (the simulator knows the arrays'
 * ends); and copies are as wide as rows allow. Last, each wait, barrier, commit and fence of a pipelined loop is taken
 * out in turn, and each time that is seen. */
#include "unit/gpu/test_dot_kit.h"

#include <math.h>

static const char *const targets[] = {"sm_90a", "sm_80"};

#define TILES \
  "    m = tl.arange(0, M)\n" \
  "    n = tl.arange(0, N)\n" \
  "    k = tl.arange(0, BK)\n" \
  "    acc = tl.zeros([M, N], tl.float32)\n"
#define STORE "    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)\n"
#define PARAMS "a_ptr, b_ptr, out_ptr, lo, hi, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, SA: tl.constexpr"

/* One kernel of matmul kind: out[M, N] = the sum over i of a[:, at(i)] times b[at(i), :], BK columns of a at a time,
 * whose rows are SA long. */
typedef struct Loop {
  const char *name, *text;
  int (*block)(int64_t i, int64_t lo, int64_t hi, int bk, int *columns); /* which block iteration i takes; columns of
                                                                            it that count */
  int64_t (*step)(int bk);
  bool down, wide;
} Loop;

static int by_start(int64_t i, int64_t lo, int64_t hi, int bk, int *columns) {
  *columns = hi - i < bk ? (int)(hi - i) : bk;
  return (int)((i - lo) / bk);
}

static int by_number(int64_t i, int64_t lo, int64_t hi, int bk, int *columns) {
  *columns = bk;
  return (int)(i - lo);
}

static int by_remainder(int64_t i, int64_t lo, int64_t hi, int bk, int *columns) {
  *columns = bk;
  return (int)(i - hi - 1);
}

static int64_t block_step(int bk) { return bk; }
static int64_t one_step(int bk) { return 1; }
static int64_t three_step(int bk) { return 3; }
static int64_t down_step(int bk) { return -1; }

static const Loop pointers = {"pointers that advance",
                              HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES
                                   "    a = a_ptr + m[:, None] * SA + k[None, :]\n"
                                   "    b = b_ptr + k[:, None] * N + n[None, :]\n"
                                   "    for i in range(lo, hi, BK):\n"
                                   "        acc = tl.dot(tl.load(a, mask=k[None, :] < hi - i, other=0.0), "
                                   "tl.load(b, mask=k[:, None] < hi - i, other=0.0), acc)\n"
                                   "        a += BK\n"
                                   "        b += BK * N\n" STORE,
                              by_start,
                              block_step,
                              false,
                              false};

static const Loop indices = {
    "indices made of the loop's variable",
    HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi, BK):\n"
         "        at = i - lo + k\n"
         "        acc += tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :], mask=at[None, :] < hi - lo, other=0.0), "
         "tl.load(b_ptr + at[:, None] * N + n[None, :], mask=at[:, None] < hi - lo, other=0.0))\n" STORE,
    by_start,
    block_step,
    false,
    false};

static const Loop transposed = {"b's tile transposed",
                                HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi):\n"
                                     "        at = (i - lo) * BK + k\n"
                                     "        b = tl.load(b_ptr + at[:, None] * N + n[None, :])\n"
                                     "        a = tl.load(a_ptr + m[:, None] * SA + at[None, :])\n"
                                     "        acc += tl.trans(tl.dot(tl.trans(b), tl.trans(a)))\n" STORE,
                                by_number,
                                one_step,
                                false,
                                false};

static const Loop stepped = {"every third block",
                             HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi, 3):\n"
                                  "        at = (i - lo) * BK + k\n"
                                  "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                  "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                             by_number,
                             three_step,
                             false,
                             false};

static const Loop down = {"downwards",
                          HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi, -1):\n"
                               "        at = (i - hi - 1) * BK + k\n"
                               "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                               "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                          by_remainder,
                          down_step,
                          true,
                          false};

static const Loop computed = {"b's tile computed",
                              HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi):\n"
                                   "        at = (i - lo) * BK + k\n"
                                   "        b = tl.load(b_ptr + at[:, None] * N + n[None, :])\n"
                                   "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), b * 2, acc)\n"
                                   "    acc = acc * 0.5\n" STORE,
                              by_number,
                              one_step,
                              false,
                              false};

static const Loop hinted = {"num_stages of the loop",
                            HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES
                                 "    for i in tl.range(lo, hi, num_stages=4):\n"
                                 "        at = (i - lo) * BK + k\n"
                                 "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                 "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                            by_number,
                            one_step,
                            false,
                            false};

/* Two loops, one after the other: the second takes the other half. */
static const Loop twice = {"two loops",
                           HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    half = (lo + hi) // 2\n"
                                "    for i in range(lo, half):\n"
                                "        at = (i - lo) * BK + k\n"
                                "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n"
                                "    for i in range(half, hi):\n"
                                "        at = (i - lo) * BK + k\n"
                                "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                           by_number,
                           one_step,
                           false,
                           false};

/* A loop inside another one, which stores what the inner one has so far. */
static const Loop nested = {"a loop inside another",
                            HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for half in range(2):\n"
                                 "        middle = (lo + hi) // 2\n"
                                 "        for i in range(lo + half * (middle - lo), middle + half * (hi - middle)):\n"
                                 "            at = (i - lo) * BK + k\n"
                                 "            acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                 "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n"
                                 "        tl.store(out_ptr + m[:, None] * N + n[None, :], acc)\n",
                            by_number,
                            one_step,
                            false,
                            false};

static const Loop wide = {"a variable of 64 bits",
                          HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi, BK):\n"
                               "        at = (i - lo) + k\n"
                               "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                               "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                          by_start,
                          block_step,
                          false,
                          true};

/* The same near the end of the type: the variable is not an index. */
static const Loop narrow = {"a variable of 32 bits",
                            HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi, BK):\n"
                                 "        at = (i - lo) + k\n"
                                 "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                 "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                            by_start,
                            block_step,
                            false,
                            false};

static const Loop wide_down = {"a variable of 64 bits, downwards",
                               HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi, -1):\n"
                                    "        at = (i - hi - 1) * BK + k\n"
                                    "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                    "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                               by_remainder,
                               down_step,
                               true,
                               true};

typedef struct Shape {
  int m, n, bk, row, warps; /* row: elements from one row of a to the next beyond what there is of them */
  Dtype type;
} Shape;

static const Shape usual = {64, 32, 32, 0, 4, DT_F16};

/* Runs the loop from lo to hi; returns what it is made of. */
static DotCount check_loop(const Loop *l, const Shape *s, int64_t lo, int64_t hi, int stages, const char *target) {
  DotCase c = dot_case(l->text, target, s->warps, stages);
  int blocks = 0;
  int64_t step = l->step(s->bk);
  __int128 i;
  for (i = lo; l->down ? i > hi : i < hi; i += step) {
    int columns, b = l->block((int64_t)i, lo, hi, s->bk, &columns);
    if (b >= blocks) blocks = b + 1;
  }
  int row = blocks * s->bk + s->row;
  DotArg *a = dot_array(&c, s->type, (int64_t)s->m * row), *b = dot_array(&c, s->type, (int64_t)blocks * s->bk * s->n),
         *out = dot_array(&c, DT_F32, s->m * s->n);
  (l->wide ? dot_i64 : dot_int)(&c, lo), (l->wide ? dot_i64 : dot_int)(&c, hi);
  dot_const(&c, s->m), dot_const(&c, s->n), dot_const(&c, s->bk), dot_const(&c, row);
  char what[160];
  snprintf(what, sizeof what, "%s, %lld to %lld, %d by %d by %d, rows of %d", l->name, (long long)lo, (long long)hi,
           s->m, s->n, s->bk, row);
  dot_run(&c, what);
  double *want = calloc((size_t)(s->m * s->n), sizeof *want);
  for (i = lo; l->down ? i > hi : i < hi; i += step) {
    int columns, at = l->block((int64_t)i, lo, hi, s->bk, &columns) * s->bk;
    for (int r = 0; r < s->m; r++)
      for (int x = 0; x < s->n; x++)
        for (int k = at; k < at + columns; k++) want[r * s->n + x] += a->values[r * row + k] * b->values[k * s->n + x];
  }
  for (int e = 0; e < s->m * s->n; e++)
    if (out->values[e] != want[e])
      fail_msg("%s, %d stages, %s: element %d is %g, not %g", what, stages, target, e, out->values[e], want[e]);
  free(want);
  DotCount n = dot_count(&c);
  dot_free(&c);
  return n;
}

/* ---- trip counts and stages -------------------------------------------------------------------------------------- */

static void every_trip_count(void **state) {
  for (int t = 0; t < 2; t++)
    for (int stages = 1; stages <= 5; stages++)
      for (int trips = 0; trips <= 8; trips++) {
        DotCount n = check_loop(&pointers, &usual, 0, trips * usual.bk - (trips > 1 ? 5 : 0), stages, targets[t]);
        assert_int_equal(n.copies[16] > 0, stages > 1);
        assert_int_equal(n.copies[0], n.copies[16]);
      }
}

static void every_kind_of_loop(void **state) {
  static const Loop *const loops[] = {&stepped, &computed, &hinted, &twice, &nested, &transposed};
  for (int t = 0; t < 2; t++)
    for (int i = 0; i < (int)(sizeof loops / sizeof *loops); i++)
      for (int trips = 0; trips <= 9; trips++) {
        DotCount n = check_loop(loops[i], &usual, 4, 4 + trips, 3, targets[t]);
        if (!n.copies[0]) fail_msg("%s: no copies", loops[i]->name);
      }
  for (int t = 0; t < 2; t++)
    for (int trips = 0; trips <= 6; trips++) {
      assert_true(check_loop(&down, &usual, 7 + trips, 7, 3, targets[t]).copies[0] > 0);
      assert_true(check_loop(&down, &usual, trips - 3, -3, 4, targets[t]).copies[0] > 0);
      assert_true(check_loop(&indices, &usual, 100, 100 + 32 * trips + 7, 3, targets[t]).copies[0] > 0);
    }
}

/* The loop's hint goes before the launch's number, which forbids copies or asks for others. */
static void the_loops_own_stages(void **state) {
  assert_true(check_loop(&hinted, &usual, 0, 6, 1, "sm_90a").copies[0] > 0);
  assert_int_equal(check_loop(&hinted, &usual, 0, 6, 1, "sm_90a").copies[0],
                   check_loop(&hinted, &usual, 0, 6, 5, "sm_90a").copies[0]);
  int before = 0;
  for (int stages = 2; stages <= 5; stages++) { /* one copy of each tile more before the loop */
    int copies = check_loop(&wide, &usual, 0, 32 * 6, stages, "sm_90a").copies[0];
    assert_true(copies > before);
    before = copies;
  }
}

/* ---- the ends of the variable's type ----------------------------------------------------------------------------- */

static void the_ends_of_the_type(void **state) {
  for (int t = 0; t < 2; t++)
    for (int trips = 1; trips <= 5; trips++) {
      int64_t n = (int64_t)trips * usual.bk;
      assert_true(check_loop(&wide, &usual, INT64_MAX - n, INT64_MAX, 3, targets[t]).copies[0] > 0);
      check_loop(&wide, &usual, INT64_MIN, INT64_MIN + n, 3, targets[t]);
      check_loop(&wide, &usual, INT64_MAX - n - 40, INT64_MAX - 40, 5, targets[t]);
      check_loop(&narrow, &usual, INT32_MAX - n, INT32_MAX, 3, targets[t]);
      check_loop(&narrow, &usual, INT32_MIN, INT32_MIN + n, 3, targets[t]);
      check_loop(&wide_down, &usual, INT64_MIN + trips, INT64_MIN, 4, targets[t]);
      check_loop(&down, &usual, INT32_MIN + trips, INT32_MIN, 4, targets[t]);
    }
}

/* ---- rows and what they allow ------------------------------------------------------------------------------------ */

/* Rows of a that begin at multiples of 16, 8, 4 and 2 bytes. Copies of 2 bytes there are none: that operand is loaded.
 */
static void rows_that_are_not_aligned(void **state) {
  static const int beyond[] = {8, 4, 2, 1};
  for (int t = 0; t < 2; t++)
    for (int i = 0; i < 4; i++) {
      Shape s = usual;
      s.row = beyond[i];
      DotCount n = check_loop(&stepped, &s, 0, 10, 3, targets[t]);
      int bytes = 2 * beyond[i];
      assert_true(n.copies[16] > 0); /* b's, at least */
      for (int width = 4; width < 16; width *= 2)
        if ((n.copies[width] > 0) != (width == bytes))
          fail_msg("rows of a at multiples of %d bytes: %d copies of %d bytes", bytes, n.copies[width], width);
      check_loop(&pointers, &s, 0, 32 * 5 - 3, 4, targets[t]);
    }
}

static void other_shapes(void **state) {
  static const Shape shapes[] = {
      {128, 64, 64, 0, 4, DT_BF16},  {128, 128, 32, 0, 8, DT_F16}, {64, 16, 16, 0, 4, DT_F16},
      {256, 64, 32, 0, 16, DT_BF16}, {64, 256, 16, 0, 4, DT_F16},  {32, 32, 64, 0, 4, DT_F16},
      {16, 16, 128, 0, 1, DT_BF16},  {64, 64, 128, 0, 8, DT_F16},
  };
  for (int t = 0; t < 2; t++)
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++) {
      const Shape *s = &shapes[i];
      check_loop(&pointers, s, 0, 6 * s->bk - 1, 3, targets[t]);
      DotCount n = check_loop(&pointers, s, 0, 6 * s->bk, 3, targets[t]);
      assert_true(n.copies[0] > 0);
      bool group = t == 0 && s->m >= 64 && s->n >= 16 && s->warps >= 4;
      assert_int_equal(n.wgmma > 0, group);
      assert_int_equal(n.mma > 0, !group);
      if (group && n.products_at_once != 1) fail_msg("%d by %d by %d: %d", s->m, s->n, s->bk, n.products_at_once);
    }
}

static const char nothing_text[] =
    HEAD "@triton.jit\ndef k(" PARAMS ", rows):\n" TILES "    for i in range(lo, hi):\n"
         "        at = (i - lo) * BK + k\n"
         "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :], mask=m[:, None] < rows, other=0.0), "
         "tl.load(b_ptr + at[:, None] * N + n[None, :], mask=at[:, None] < rows * 1000, other=0.0), acc)\n" STORE;

/* Masks that let nothing through: the arrays have one element, and zeros are summed. */
static void masks_all_false(void **state) {
  for (int t = 0; t < 2; t++) {
    DotCase c = dot_case(nothing_text, targets[t], 4, 3);
    dot_array(&c, DT_F16, 1), dot_array(&c, DT_F16, 1);
    DotArg *out = dot_array(&c, DT_F32, 64 * 32);
    dot_int(&c, 0), dot_int(&c, 7), dot_const(&c, 64), dot_const(&c, 32), dot_const(&c, 32), dot_const(&c, 512);
    dot_int(&c, 0);
    dot_run(&c, "masks all false");
    assert_true(dot_count(&c).copies[16] > 0);
    for (int i = 0; i < 64 * 32; i++) assert_true(out->values[i] == 0);
    dot_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_trip_count),          cmocka_unit_test(every_kind_of_loop),
      cmocka_unit_test(the_loops_own_stages),      cmocka_unit_test(the_ends_of_the_type),
      cmocka_unit_test(rows_that_are_not_aligned), cmocka_unit_test(other_shapes),
      cmocka_unit_test(masks_all_false),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
