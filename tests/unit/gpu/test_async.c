/* Loops whose tiles come by asynchronous copies: they leave what float64 says, whatever their trip counts, steps,
 * masks, alignment and number of stages; nothing is read that the kernel does not read (the simulator knows the arrays'
 * ends); and copies are as wide as rows allow. Last, each wait, barrier, commit and fence of a pipelined loop is taken
 * out in turn, and each time that is seen. */
#include "unit/gpu/test_dot_kit.h"
#include "unit/gpu/test_order_kit.h"

#include <math.h>

enum { TARGETS = 3 };
static const char *const targets[TARGETS] = {"sm_90a", "sm_80", "sm_100a"};

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

/* A branch in the loop that has nothing to do with the tiles; a reduction, which has a body of its own, stands in it.
 */
static const Loop branching = {"a reduction in a branch",
                               HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    total = 0\n"
                                    "    for i in range(lo, hi):\n"
                                    "        at = (i - lo) * BK + k\n"
                                    "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                    "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n"
                                    "        if i % 2 == 0:\n"
                                    "            total += tl.sum(at)\n"
                                    "    acc = tl.where(total >= 0, acc, -1.0)\n" STORE,
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

/* All warps copy and multiply. */
static DotCase whole_case(const char *text, const char *target, int warps, int stages) {
  DotCase c = dot_case(text, target, warps, stages);
  const char *wrong;
  c.without = gpu_without("specialize", &wrong);
  return c;
}

/* Runs the loop from lo to hi; returns what it is made of. */
static DotCount check_case(DotCase c, const Loop *l, const Shape *s, int64_t lo, int64_t hi, int stages,
                           const char *target) {
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

static DotCount check_loop(const Loop *l, const Shape *s, int64_t lo, int64_t hi, int stages, const char *target) {
  return check_case(whole_case(l->text, target, s->warps, stages), l, s, lo, hi, stages, target);
}

/* ---- trip counts and stages -------------------------------------------------------------------------------------- */

static void every_trip_count(void **state) {
  for (int t = 0; t < TARGETS; t++)
    for (int stages = 1; stages <= 5; stages++)
      for (int trips = 0; trips <= 8; trips++) {
        DotCount n = check_loop(&pointers, &usual, 0, trips * usual.bk - (trips > 1 ? 5 : 0), stages, targets[t]);
        assert_int_equal(n.copies[16] > 0, stages > 1);
        assert_int_equal(n.copies[0], n.copies[16]);
      }
}

static void every_kind_of_loop(void **state) {
  static const Loop *const loops[] = {&stepped, &computed, &hinted, &twice, &nested, &transposed, &branching};
  for (int t = 0; t < TARGETS; t++)
    for (int i = 0; i < (int)(sizeof loops / sizeof *loops); i++)
      for (int trips = 0; trips <= 9; trips++) {
        DotCount n = check_loop(loops[i], &usual, 4, 4 + trips, 3, targets[t]);
        if (!n.copies[0]) fail_msg("%s: no copies", loops[i]->name);
      }
  for (int i = 0; i < (int)(sizeof loops / sizeof *loops); i++) /* those that only multiply get warps that copy */
    for (int trips = 0; trips <= 5; trips++)
      check_case(dot_case(loops[i]->text, "sm_90a", usual.warps, 3), loops[i], &usual, 4, 4 + trips, 3, "sm_90a");
  for (int t = 0; t < TARGETS; t++)
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

/* Which blocks an iteration takes is read from a table, which has no entries beyond those of the iterations there are:
 * a number for each, or (LIST) one for each row of b. */
static const char table_text[] = HEAD
    "@triton.jit\ndef k(a_ptr, b_ptr, table_ptr, out_ptr, trips, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, "
    "LIST: tl.constexpr, SA: tl.constexpr):\n" TILES "    for i in range(trips):\n"
    "        if LIST:\n"
    "            at = tl.load(table_ptr + i * BK + k)\n"
    "        else:\n"
    "            at = tl.load(table_ptr + i) * BK + k\n"
    "        a = tl.load(a_ptr + m[:, None] * SA + i * BK + k[None, :])\n"
    "        acc = tl.dot(a * 2, tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE;

static void tiles_that_tables_name(void **state) {
  enum { M = 64, N = 32, BK = 32, TRIPS = 5 };
  for (int trips = 0; trips <= TRIPS; trips++)
    for (int list = 0; list < 2; list++) {
      DotCase c = whole_case(table_text, targets[(trips + list) % TARGETS], 4, 3);
      DotArg *a = dot_array(&c, DT_F16, M * TRIPS * BK), *b = dot_array(&c, DT_F16, TRIPS * BK * N),
             *table = dot_array(&c, DT_I32, list ? trips * BK : trips), *out = dot_array(&c, DT_F32, M * N);
      for (int i = 0; i < table->count; i++)
        ((int32_t *)table->data)[i] = list ? (i * 37 + 5) % (TRIPS * BK) : (i * 3 + 1) % TRIPS;
      dot_int(&c, trips), dot_const(&c, M), dot_const(&c, N), dot_const(&c, BK), dot_const(&c, list);
      dot_const(&c, TRIPS * BK);
      dot_run(&c, list ? "rows that a table lists" : "blocks that a table lists");
      if (trips > 1) assert_true(dot_count(&c).copies[16] > 0);
      for (int e = 0; e < M * N; e++) {
        double want = 0;
        for (int i = 0; i < trips * BK; i++) {
          const int32_t *t = table->data;
          int row = list ? t[i] : t[i / BK] * BK + i % BK;
          want += 2 * a->values[e / N * TRIPS * BK + i] * b->values[row * N + e % N];
        }
        if (out->values[e] != want) fail_msg("%d trips: element %d is %g, not %g", trips, e, out->values[e], want);
      }
      dot_free(&c);
    }
}

/* ---- the ends of the variable's type ----------------------------------------------------------------------------- */

static void the_ends_of_the_type(void **state) {
  for (int t = 0; t < TARGETS; t++)
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
  for (int t = 0; t < TARGETS; t++)
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
      {16, 16, 64, 0, 4, DT_F16},    {64, 16, 32, 0, 16, DT_F16}, /* too few tiles for the warps: some compute copies */
      {16, 16, 128, 0, 1, DT_BF16},  {64, 64, 128, 0, 8, DT_F16},
  };
  for (int t = 0; t < TARGETS; t++)
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++) {
      const Shape *s = &shapes[i];
      check_loop(&pointers, s, 0, 6 * s->bk - 1, 3, targets[t]);
      DotCount n = check_loop(&pointers, s, 0, 6 * s->bk, 3, targets[t]);
      bool group = (t != 2 || s->n >= 2 * s->warps) && t != 1 && s->m >= 64 && s->n >= 16 && s->warps >= 4;
      assert_true(n.copies[0] > 0);
      assert_int_equal(n.wgmma > 0, group && t == 0);
      assert_int_equal(n.tmem > 0, group && t == 2);
      assert_int_equal(n.mma > 0, !group);
      if (group && t == 0 && n.products_at_once != 1)
        fail_msg("%d by %d by %d: %d", s->m, s->n, s->bk, n.products_at_once);
    }
}

/* ---- f32, the other way round ------------------------------------------------------------------------------------ */

/* A stored by columns, B stored by columns: what lies across is the other operand, both, or none. */
#define STORED(AT_A, AT_B) \
  HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    K = (hi - lo) * BK\n    for i in range(lo, hi):\n" \
       "        at = (i - lo) * BK + k\n" \
       "        acc = tl.dot(tl.load(a_ptr + " AT_A "), tl.load(b_ptr + " AT_B "), acc)\n" STORE

typedef struct Stored {
  const char *text;
  bool a_across, b_across;
} Stored;

static const Stored stored[] = {
    {STORED("m[:, None] * SA + at[None, :]", "at[:, None] * N + n[None, :]"), false, true},
    {STORED("at[None, :] * M + m[:, None]", "n[None, :] * SA + at[:, None]"), true, false},
    {STORED("m[:, None] * SA + at[None, :]", "n[None, :] * SA + at[:, None]"), false, false},
    {STORED("at[None, :] * M + m[:, None]", "at[:, None] * N + n[None, :]"), true, true},
};

static DotCase stored_case(const Stored *t, const Shape *s, int trips, int stages, const char *without) {
  DotCase c = dot_case(t->text, "sm_90a", s->warps, stages);
  const char *wrong;
  int row = trips * s->bk;
  c.without = gpu_without(without, &wrong);
  dot_array(&c, DT_F32, s->m * row), dot_array(&c, DT_F32, s->n * row), dot_array(&c, DT_F32, s->m * s->n);
  dot_int(&c, 0), dot_int(&c, trips);
  dot_const(&c, s->m), dot_const(&c, s->n), dot_const(&c, s->bk), dot_const(&c, row);
  return c;
}

static DotCount check_stored(const Stored *t, const Shape *s, int trips, const char *without) {
  DotCase c = stored_case(t, s, trips, 3, without);
  const DotArg *a = &c.args[0], *b = &c.args[1], *out = &c.args[2];
  char what[200];
  snprintf(what, sizeof what, "%d by %d by %d, %d warps, %d times, a %s, b %s, without %s", s->m, s->n, s->bk, s->warps,
           trips, t->a_across ? "across" : "along", t->b_across ? "across" : "along", without);
  dot_run(&c, what);
  int row = trips * s->bk;
  for (int i = 0; i < s->m; i++)
    for (int j = 0; j < s->n; j++) {
      double want = 0;
      for (int k = 0; k < row; k++)
        want +=
            a->values[t->a_across ? k * s->m + i : i * row + k] * b->values[t->b_across ? k * s->n + j : j * row + k];
      if (out->values[i * s->n + j] != want)
        fail_msg("%s: [%d, %d] is %g, not %g", what, i, j, out->values[i * s->n + j], want);
    }
  DotCount n = dot_count(&c);
  dot_free(&c);
  return n;
}

/* One operand across goes to warpgroups from registers, as the first, turned where it is the second; two do not. */
static void f32_that_lies_across(void **state) {
  static const Shape shapes[] = {{64, 64, 32, 0, 4},  {128, 64, 16, 0, 4},  {64, 128, 64, 0, 4},  {128, 128, 32, 0, 8},
                                 {16, 64, 32, 0, 4},  {64, 16, 32, 0, 4},   {128, 256, 32, 0, 8}, {256, 128, 16, 0, 8},
                                 {32, 128, 32, 0, 4}, {256, 64, 32, 0, 16}, {64, 256, 16, 0, 8}};
  static const char *const ways[] = {"", "specialize", "specialize,tensor_maps"};
  for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
    for (int t = 0; t < 4; t++)
      for (int trips = i ? 3 : 1; trips <= (i ? 3 : 6); trips++) {
        const Shape *s = &shapes[i];
        const Stored *of = &stored[t];
        bool turned = of->b_across, both = of->a_across && of->b_across;
        bool group =
            !both && (turned ? s->n : s->m) >= 64 && (turned ? s->m : s->n) >= 16 && s->m * s->n / 128 >= s->warps;
        DotCount n = check_stored(of, s, trips, ways[(i + trips) % 3]);
        if ((n.wgmma > 0) != group || (n.from_registers > 0) != (group && (turned || of->a_across)))
          fail_msg("%d by %d, %d warps, case %d: %d wgmma, %d from registers", s->m, s->n, s->warps, t, n.wgmma,
                   n.from_registers);
      }
  assert_int_equal(check_stored(&stored[0], &shapes[0], 3, "turn_dots").wgmma, 0);
}

/* Two products of one tile, of which one is turned: what it loads in an iteration it may still read in the next. */
static void a_turned_product_beside_another(void **state) {
  enum { M = 64, N = 64, BK = 32, TRIPS = 5 };
  DotCase c = dot_case(HEAD "@triton.jit\ndef k(a_ptr, b_ptr, c_ptr, out_ptr, trips, M: tl.constexpr, N: tl.constexpr, "
                            "BK: tl.constexpr, K: tl.constexpr):\n" TILES "    other = acc\n"
                            "    for i in range(trips):\n        at = i * BK + k\n"
                            "        a = tl.load(a_ptr + m[:, None] * K + at[None, :])\n"
                            "        acc = tl.dot(a, tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n"
                            "        other = tl.dot(a, tl.load(c_ptr + n[None, :] * K + at[:, None]), other)\n"
                            "    acc += other\n" STORE,
                       "sm_90a", 4, 3);
  for (int way = 0; way < 2; way++) {
    DotCase turned = c;
    DotArg *a, *b, *x, *out;
    a = dot_array(&turned, DT_F32, M * BK * TRIPS), b = dot_array(&turned, DT_F32, N * BK * TRIPS);
    x = dot_array(&turned, DT_F32, N * BK * TRIPS), out = dot_array(&turned, DT_F32, M * N);
    dot_int(&turned, TRIPS), dot_const(&turned, M), dot_const(&turned, N), dot_const(&turned, BK);
    dot_const(&turned, BK * TRIPS);
    turned.specialize = way;
    dot_run(&turned, "a turned product beside another");
    assert_true(dot_count(&turned).wgmma > 0 && dot_count(&turned).mma == 0);
    for (int e = 0; e < M * N; e++) {
      double want = 0;
      for (int k = 0; k < BK * TRIPS; k++)
        want += a->values[e / N * BK * TRIPS + k] * (b->values[k * N + e % N] + x->values[e % N * BK * TRIPS + k]);
      if (out->values[e] != want) fail_msg("element %d is %g, not %g", e, out->values[e], want);
    }
    dot_free(&turned);
  }
}

static const char nothing_text[] =
    HEAD "@triton.jit\ndef k(" PARAMS ", rows):\n" TILES "    for i in range(lo, hi):\n"
         "        at = (i - lo) * BK + k\n"
         "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :], mask=m[:, None] < rows, other=0.0), "
         "tl.load(b_ptr + at[:, None] * N + n[None, :], mask=at[:, None] < rows * 1000, other=0.0), acc)\n" STORE;

/* Masks that let nothing through: the arrays have one element, and zeros are summed. */
static void masks_all_false(void **state) {
  for (int t = 0; t < TARGETS; t++) {
    DotCase c = whole_case(nothing_text, targets[t], 4, 3);
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

/* ---- attention --------------------------------------------------------------------------------------------------- */

enum { HEADS = 2 };

typedef struct Attention {
  int n, d, block_m, block_n, warps;
  Dtype type;
  bool causal;
  const char *target;
} Attention;

enum { Q, K, V, GRAD, OUT, LSE, DELTA, DQ, DK, DV, ARRAYS };

typedef struct Work {
  double *want[ARRAYS], *scale[ARRAYS]; /* scale: the sum of the absolute values of what is summed up for an element */
  DotArg arrays[ARRAYS];
} Work;

static const double softmax_scale = 0.25;

/* What float64 makes of one head's arrays; of each element, how much its sum adds up in absolute values. */
static void attention_reference(const Attention *c, Work *w, int head) {
  int n = c->n, d = c->d;
  size_t at = (size_t)(head * n * d);
  const double *q = w->arrays[Q].values + at, *k = w->arrays[K].values + at, *v = w->arrays[V].values + at,
               *g = w->arrays[GRAD].values + at;
  double *p = calloc((size_t)(n * n), sizeof *p);
  for (int i = 0; i < n; i++) {
    double top = -INFINITY, sum = 0;
    int end = c->causal ? i + 1 : n;
    for (int j = 0; j < end; j++) {
      double s = 0;
      for (int h = 0; h < d; h++) s += softmax_scale * q[i * d + h] * k[j * d + h];
      p[i * n + j] = s;
      top = fmax(top, s);
    }
    for (int j = 0; j < end; j++) sum += p[i * n + j] = exp(p[i * n + j] - top);
    for (int j = 0; j < end; j++) p[i * n + j] /= sum;
    w->want[LSE][head * n + i] = (top + log(sum)) / log(2);
    double delta = 0, size = 0;
    for (int h = 0; h < d; h++) {
      double *o = &w->want[OUT][at + (size_t)(i * d + h)], *z = &w->scale[OUT][at + (size_t)(i * d + h)];
      for (int j = 0; j < end; j++) *o += p[i * n + j] * v[j * d + h], *z += p[i * n + j] * fabs(v[j * d + h]);
      delta += *o * g[i * d + h], size += fabs(*o * g[i * d + h]);
    }
    w->want[DELTA][head * n + i] = delta, w->scale[DELTA][head * n + i] = size;
    for (int j = 0; j < end; j++) {
      double dp = 0;
      for (int h = 0; h < d; h++) dp += g[i * d + h] * v[j * d + h];
      double ds = p[i * n + j] * (dp - delta) * softmax_scale, most = p[i * n + j] * (fabs(dp) + size) * softmax_scale;
      for (int h = 0; h < d; h++) {
        size_t row = at + (size_t)(i * d + h), column = at + (size_t)(j * d + h);
        w->want[DQ][row] += ds * k[j * d + h], w->scale[DQ][row] += most * fabs(k[j * d + h]);
        w->want[DK][column] += ds * q[i * d + h], w->scale[DK][column] += most * fabs(q[i * d + h]);
        w->want[DV][column] += p[i * n + j] * g[i * d + h];
        w->scale[DV][column] += p[i * n + j] * fabs(g[i * d + h]);
      }
    }
  }
  free(p);
}

static void share_array(DotCase *c, const DotArg *from) { c->args[c->arg_count++] = *from; }

/* A case of a kernel of kernels/attention.py; the arrays stay the Work's. */
static DotCase attention_case(const Attention *a, const Work *w, const char *kernel, const int *arrays, int count) {
  DotCase c = {.file = "attention.py", .kernel = kernel, .target = a->target, .warps = a->warps, .stages = 3};
  for (int i = 0; i < count; i++) share_array(&c, &w->arrays[arrays[i]]);
  dot_int(&c, a->n);
  if (strcmp(kernel, "attention_delta")) dot_float(&c, softmax_scale);
  dot_const(&c, a->d), dot_const(&c, a->block_m);
  if (strcmp(kernel, "attention_delta")) dot_const(&c, a->block_n), dot_const(&c, a->causal);
  int block = strcmp(kernel, "attention_backward_kv") ? a->block_m : a->block_n;
  c.grid[0] = (a->n + block - 1) / block, c.grid[1] = HEADS, c.grid[2] = 1;
  return c;
}

static void close_case(DotCase *c) {
  c->arg_count = 0; /* the arrays are others' */
  dot_free(c);
}

static Work attention_work(const Attention *a) {
  Work w = {0};
  DotCase c = {0};
  for (int i = 0; i < ARRAYS; i++) {
    bool row = i == LSE || i == DELTA;
    int64_t n = (int64_t)HEADS * a->n * (row ? 1 : a->d);
    dot_array(&c, row ? DT_F32 : a->type, n);
    w.arrays[i] = c.args[i];
    w.want[i] = calloc((size_t)n, sizeof *w.want[i]), w.scale[i] = calloc((size_t)n, sizeof *w.scale[i]);
  }
  return w;
}

static void free_work(Work *w) {
  for (int i = 0; i < ARRAYS; i++)
    free(w->want[i]), free(w->scale[i]), free(w->arrays[i].memory), free(w->arrays[i].values);
}

/* Probabilities and their gradients are rounded to the arrays' type before they are multiplied, and results once: two
 * roundings of u each of what is summed up, and twice that of exp2's and f32's few; where numbers are too small for u,
 * half of the type's least one, times 2 at most. delta comes of the rounded out. */
static void check_array(const Attention *a, const Work *w, int which, const char *name) {
  double u = a->type == DT_F16 ? 0x1p-11 : 0x1p-8, least = a->type == DT_F16 ? 0x1p-24 : 0x1p-133;
  bool row = which == LSE || which == DELTA;
  for (int64_t i = 0; i < (int64_t)HEADS * a->n * (row ? 1 : a->d); i++) {
    double got = w->arrays[which].values[i], want = w->want[which][i],
           bound = which == LSE ? 1e-5 : 4 * u * w->scale[which][i] + u * fabs(want) + 4 * a->n * least;
    if (!(fabs(got - want) <= bound))
      fail_msg("%s, n %d, D %d, %s, %s: element %lld is %g, not %g +- %g", name, a->n, a->d,
               a->causal ? "causal" : "full", a->target, (long long)i, got, want, bound);
  }
}

static void run_attention(const Attention *a, Work *w, const char *kernel, const int *arrays, int count) {
  DotCase c = attention_case(a, w, kernel, arrays, count);
  dot_run(&c, kernel);
  DotCount n = dot_count(&c);
  if (strcmp(kernel, "attention_delta")) {
    assert_true(n.copies[16] > 0);
    int rows = strcmp(kernel, "attention_backward_kv") ? a->block_m : a->block_n;
    bool group = !strcmp(a->target, "sm_90a") && rows >= 64;
    if (!(group ? n.wgmma : n.mma)) fail_msg("%s, %s: %d wgmma, %d mma", kernel, a->target, n.wgmma, n.mma);
  }
  for (int i = 0; i < count; i++) w->arrays[arrays[i]] = c.args[i]; /* values were read back */
  close_case(&c);
}

static const int forward_arrays[] = {Q, K, V, OUT, LSE};

static void check_attention(const Attention *a) {
  Work w = attention_work(a);
  for (int h = 0; h < HEADS; h++) attention_reference(a, &w, h);
  run_attention(a, &w, "attention", forward_arrays, 5);
  check_array(a, &w, OUT, "out"), check_array(a, &w, LSE, "lse");
  run_attention(a, &w, "attention_delta", (int[]){OUT, GRAD, DELTA}, 3);
  check_array(a, &w, DELTA, "delta");
  run_attention(a, &w, "attention_backward_kv", (int[]){Q, K, V, GRAD, LSE, DELTA, DK, DV}, 8);
  check_array(a, &w, DK, "dk"), check_array(a, &w, DV, "dv");
  run_attention(a, &w, "attention_backward_q", (int[]){Q, K, V, GRAD, LSE, DELTA, DQ}, 7);
  check_array(a, &w, DQ, "dq");
  free_work(&w);
}

static void attention_forward_and_backward(void **state) {
  for (int t = 0; t < TARGETS; t++)
    for (int causal = 0; causal < 2; causal++) {
      check_attention(&(Attention){130, 64, 64, 64, 4, DT_F16, causal, targets[t]});
      check_attention(&(Attention){100, 32, 64, 32, 4, DT_BF16, causal, targets[t]});
    }
  check_attention(&(Attention){256, 64, 128, 64, 8, DT_F16, true, "sm_90a"});
}

/* ---- what a pipelined loop waits for ----------------------------------------------------------------------------- */

enum { SEEDS = 3 };

static bool orders(const LaneOp *op) {
  switch (op->code) {
    case LANE_WGMMA_WAIT:
    case LANE_WGMMA_FENCE:
    case LANE_WGMMA_COMMIT:
    case LANE_FENCE_PROXY:
    case LANE_CP_WAIT:
    case LANE_CP_COMMIT:
    case LANE_FENCE_MBAR:
    case LANE_MBAR_INIT:
    case LANE_MBAR_EXPECT:
    case LANE_MBAR_ARRIVE:
    case LANE_MBAR_WAIT:
    case LANE_TMEM_COMMIT:
    case LANE_TMEM_DEALLOC:
    case LANE_TMEM_WAIT_LD:
    case LANE_TMEM_WAIT_ST:
    case LANE_TMEM_FENCE_BEFORE:
    case LANE_TMEM_FENCE_AFTER:
    case LANE_BARRIER: return true;
    default: return false;
  }
}

static bool is_loop(const LaneOp *op) { return op->code == LANE_FOR || op->code == LANE_WHILE; }

/* Whether it stands in a loop that holds no other. */
static bool in_inner_loop(const LaneOp *op) {
  for (const LaneOp *o = op->block->first; o; o = o->next)
    if (is_loop(o)) return false;
  return op->block->parent && is_loop(op->block->parent);
}

/* False: it is no wait, or one before it has waited for all that it waits for. */
static bool weaken(LaneOp *op) {
  if (op->code != LANE_WGMMA_WAIT && op->code != LANE_CP_WAIT) return false;
  for (const LaneOp *o = op->prev; o && !is_loop(o) && o->code != LANE_WGMMA_COMMIT && o->code != LANE_CP_COMMIT;
       o = o->prev)
    if (o->code == op->code && o->imm <= op->imm) return false;
  op->imm++;
  return true;
}

/* Lengths of the loop: `steps` iterations and fewer, whose ends find other slots of the ring in flight. `number`: the
 * argument that says how far the loop goes. */
typedef struct Lengths {
  int number, each, steps;
} Lengths;

static bool is_seen(DotCase *c, const Lengths *l) {
  LaneSimFault fault;
  bool seen = !order_verifies(c->lane);
  for (int steps = l->steps; !seen && steps >= 0; steps--) {
    if (steps < l->steps - 3 && steps > 2) continue; /* of short ones, slots are filled for nothing */
    c->args[l->number].bits = (uint64_t)(steps * l->each);
    for (uint64_t seed = 0; !seen && seed < SEEDS; seed++) seen = !dot_simulate(c, seed, &fault);
  }
  return seen;
}

/* Only slots of tiles that do not exist are stored to by threads; most loops do not read such, and wait for them (in a
 * `while`) only lest later phases be taken for theirs. */
static bool is_of_no_tile(const LaneOp *op) {
  bool stores = false;
  if (op->code == LANE_MBAR_WAIT) return op->block->parent && op->block->parent->code == LANE_WHILE;
  for (const LaneOp *o = op->prev; o; o = o->prev) stores |= o->code == LANE_ST;
  return stores && op->block->parent && op->block->parent->code == LANE_IF;
}

/* Takes out each in turn, and lets each wait leave one group more in flight. In loops every such change must be seen.
 * Outside, `spare` waits and barriers need not be: the loop's first wait meets again whoever met before it; after a
 * loop, copies that are under way bring nothing that anybody reads, and the wait for them and its barrier are for
 * those who take the ring's memory next, if there are such. (The last group has no copies, and may be left in flight.)
 */
static void needs_all(DotCase *c, const Lengths *l, int least, int spare) {
  int tried = 0, unseen = 0;
  dot_compile(c);
  assert_false(is_seen(c, l));
  context_destroy(c->cx);
  for (int weaker = 0; weaker < 2; weaker++)
    for (int n = 0;; n++, tried++) {
      dot_compile(c);
      LaneOp *op = order_find(c->lane, orders, n);
      if (!op) {
        context_destroy(c->cx);
        break;
      }
      char what[80];
      bool inside = in_inner_loop(op), no_tile = is_of_no_tile(op),
           spared = no_tile || (!inside && (op->code == LANE_BARRIER || op->code == LANE_CP_WAIT ||
                                            (op->code == LANE_FENCE_PROXY && op->next->code == LANE_BARRIER)));
      snprintf(what, sizeof what, "number %d, %s%s {%lld}%s", n, weaker ? "a weaker " : "", lane_info[op->code].name,
               (long long)op->imm, inside ? " in the loop" : "");
      bool done = !weaker || weaken(op);
      if (!weaker) order_take_out(c->lane, op);
      if (done && !is_seen(c, l)) {
        if (!spared) fail_msg("nobody misses %s", what);
        unseen += !no_tile;
      }
      context_destroy(c->cx);
    }
  c->cx = NULL;
  if (tried < 2 * least || unseen > spare) fail_msg("%d of %d are not missed", unseen, tried);
}

static void a_pipelined_product_needs_its_waits(void **state) {
  for (int t = 0; t < TARGETS; t++)
    for (int stages = 2; stages <= 4; stages++) {
      DotCase c = whole_case(transposed.text, targets[t], 4, stages);
      dot_array(&c, DT_F16, 64 * 32 * 8), dot_array(&c, DT_F16, 32 * 8 * 32), dot_array(&c, DT_F32, 64 * 32);
      dot_int(&c, 0), dot_int(&c, 8);
      dot_const(&c, 64), dot_const(&c, 32), dot_const(&c, 32), dot_const(&c, 32 * 8);
      needs_all(&c, &(Lengths){4, 1, 8}, 5, 3);
      dot_free(&c);
    }
}

/* The accumulator stays in flight from one iteration to the next. */
static void asynchronous_products_need_their_waits(void **state) {
  for (int stages = 2; stages <= 5; stages++) {
    int t = stages == 5 ? 2 : 0, steps = t ? 10 : 8;
    DotCase c = whole_case(wide.text, targets[t], 4, t ? 3 : stages);
    dot_array(&c, DT_F16, 64 * 32 * steps), dot_array(&c, DT_F16, 32 * steps * 32), dot_array(&c, DT_F32, 64 * 32);
    dot_int(&c, 0), dot_int(&c, 32 * steps);
    dot_const(&c, 64), dot_const(&c, 32), dot_const(&c, 32), dot_const(&c, 32 * steps);
    needs_all(&c, &(Lengths){4, 32, steps}, 8, 3);
    dot_free(&c);
  }
}

/* The second loop's ring lies where the first one's was, and so does the same loop's when it begins again. (Of the
 * latter's two barriers, after the loop and between the store and what may read it, either is enough.) */
static void memory_of_a_ring_is_waited_for(void **state) {
  static const Loop *const loops[] = {&twice, &nested};
  for (int i = 0; i < 2 * TARGETS; i++) {
    int steps = i / 2 == 2 ? 10 : 8;
    DotCase c = whole_case(loops[i % 2]->text, targets[i / 2], 4, 3);
    dot_array(&c, DT_F16, 64 * 32 * steps), dot_array(&c, DT_F16, 32 * steps * 32), dot_array(&c, DT_F32, 64 * 32);
    dot_int(&c, 0), dot_int(&c, steps);
    dot_const(&c, 64), dot_const(&c, 32), dot_const(&c, 32), dot_const(&c, 32 * steps);
    needs_all(&c, &(Lengths){4, 1, steps}, 8, loops[i % 2] == &twice || i / 2 == 2 ? 4 : 3);
    dot_free(&c);
  }
}

/* Words of the next k's are loaded while products of the last ones run. */
static void turned_products_need_their_waits(void **state) {
  static const Shape shape = {64, 64, 16, 0, 4, DT_F32};
  for (int stages = 2; stages <= 3; stages++) {
    DotCase c = stored_case(&stored[0], &shape, 6, stages, "specialize");
    needs_all(&c, &(Lengths){4, 1, 6}, 8, 3);
    dot_free(&c);
  }
}

static void pipelined_attention_needs_its_waits(void **state) {
  for (int t = 0; t < TARGETS; t++) {
    Attention a = {64 * 5, 32, 64, 64, 4, DT_F16, false, targets[t]};
    Work w = attention_work(&a);
    DotCase c = attention_case(&a, &w, "attention", forward_arrays, 5);
    c.grid[0] = c.grid[1] = 1;
    needs_all(&c, &(Lengths){5, 64, 5}, 8, 6);
    close_case(&c);
    free_work(&w);
  }
}

static const char once_text[] = HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr):\n"
                                     "    r = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]\n"
                                     "    tl.store(out_ptr + r, tl.dot(tl.load(a_ptr + r), tl.load(b_ptr + r)))\n";

static void find_first(LaneOp *op, void *arg) {
  LaneOp **first = arg;
  if (!first[op->code] && (op->code != LANE_ST || op->space == SPACE_SHARED)) first[op->code] = op;
}

static void copy_before(LaneFunc *f, const LaneOp *op, LaneOp *place) {
  LaneOp *copy = NEW(f->cx->arena, LaneOp);
  *copy = *op;
  copy->prev = copy->next = NULL;
  copy->block = NULL;
  lane_insert_before(copy, place);
}

/* A product reads up to its wait: whoever meets before it may not yet write what the product reads. */
static void a_product_reads_up_to_its_wait(void **state) {
  for (int meets = 0; meets < 2; meets++) {
    DotCase c = whole_case(once_text, "sm_90a", 4, 3);
    LaneSimFault fault;
    dot_array(&c, DT_F16, 64 * 64), dot_array(&c, DT_F16, 64 * 64), dot_array(&c, DT_F32, 64 * 64);
    dot_compile(&c);
    LaneOp *first[LANE_COUNT] = {0};
    lane_walk(c.lane->body, find_first, first);
    LaneOp *wait = first[LANE_WGMMA_WAIT], *after = wait->next;
    copy_before(c.lane, first[LANE_BARRIER], wait);
    if (meets) copy_before(c.lane, first[LANE_BARRIER], after);
    copy_before(c.lane, first[LANE_ST], after);
    assert_true(order_verifies(c.lane));
    bool ok = dot_simulate(&c, 0, &fault);
    if (ok != meets) fail_msg("%s", ok ? "no fault" : fault.message);
    if (!meets) assert_non_null(strstr(fault.message, "read, without a barrier between"));
    dot_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_trip_count),
      cmocka_unit_test(every_kind_of_loop),
      cmocka_unit_test(the_loops_own_stages),
      cmocka_unit_test(tiles_that_tables_name),
      cmocka_unit_test(the_ends_of_the_type),
      cmocka_unit_test(rows_that_are_not_aligned),
      cmocka_unit_test(other_shapes),
      cmocka_unit_test(f32_that_lies_across),
      cmocka_unit_test(a_turned_product_beside_another),
      cmocka_unit_test(masks_all_false),
      cmocka_unit_test(attention_forward_and_backward),
      cmocka_unit_test(a_pipelined_product_needs_its_waits),
      cmocka_unit_test(asynchronous_products_need_their_waits),
      cmocka_unit_test(a_product_reads_up_to_its_wait),
      cmocka_unit_test(memory_of_a_ring_is_waited_for),
      cmocka_unit_test(turned_products_need_their_waits),
      cmocka_unit_test(pipelined_attention_needs_its_waits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
