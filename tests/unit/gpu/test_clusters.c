/* Tiles that neighbouring blocks share: a matmul leaves what float64 says, whatever its grid, groups, trip counts and
 * the order in which warps of both blocks run; and each wait, arrival and barrier between the blocks is needed. */
#include "unit/gpu/test_product_kit.h"

enum { GROUP = 8 };

static void count_multicast(LaneOp *op, void *arg) { *(int *)arg += op->code == LANE_TENSOR_LOAD && op->multicast; }

static int multicasts(const DotCase *c) {
  int n = 0;
  lane_walk(c->lane->body, count_multicast, &n);
  return n;
}

/* Of half the warps: two blocks' are one's. */
static void ask(DotCase *c) { c->ctas = 2, c->warps /= 2; }

static DotCase clustered(const Product *p) {
  DotCase c = product_case(p, "matmul");
  ask(&c);
  return c;
}

static void run(const Product *p, DotCase *c, const char *what) {
  dot_compile(c);
  if (c->lane->cluster != 2 || !multicasts(c))
    fail_msg("%s: no clusters: %s", what, c->lane->unclustered ? c->lane->unclustered : c->lane->unspecialized);
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    LaneSimFault fault;
    for (int64_t i = 0; i < c->args[2].count; i++) dot_store(&c->args[2], i, 7);
    if (!dot_simulate(c, seed, &fault))
      fail_msg("%s, %d x %d x %d, seed %d: %s", what, p->m, p->n, p->k, (int)seed, fault.message);
    dot_read_back(&c->args[2]);
    check_product(p, c, what);
  }
  dot_free(c);
}

/* Rows of tiles of which neighbours are all in one column, some (an odd group), or none (one row); odd grids, which
 * have no clusters; fewer iterations than slots, none, and more; tiles cut at the ends; both ways to halve a tile. */
static void products(void **state) {
  static const Product all[] = {
      {64 * 2, 64, 32 * 6, 64, 64, 32, 4, 2},          {64 * 4, 128, 64 * 3, 64, 128, 64, 4, 2},
      {64 * 3, 64 * 2, 32 * 5, 64, 64, 32, 4, 2},      {64 * 3, 64 * 2, 32 * 5, 64, 64, 32, 4, 4},
      {64 * 3, 64 * 4, 32, 64, 64, 32, 4, 4},          {64, 64 * 4, 32 * 3, 64, 64, 32, 4, 2},
      {64 * 10 - 5, 64, 32 * 4 + 8, 64, 64, 32, 4, 4}, {64 * 3, 64, 32 * 5, 64, 64, 32, 4, 2},
      {128 * 2, 64 + 8, 64 * 3, 128, 64, 64, 8, 2},    {64 * 4, 64, 64 * 9, 64, 64, 64, 4, 4, DT_F8E4NV},
      {64 * 2, 64, 32 * 9, 64, 64, 32, 4, 2, DT_BF16},
  };
  for (int i = 0; i < (int)(sizeof all / sizeof *all); i++) {
    DotCase c = clustered(&all[i]);
    run(&all[i], &c, "product");
  }
}

/* How far the loop goes is an argument: none, one, fewer than the slots, more. */
static void trip_counts(void **state) {
  for (int k = 0; k <= 7; k += k < 2 ? 1 : 3) {
    Product p = {64 * 3, 64 * 2, 32 * 7, 64, 64, 32, 4, 4};
    DotCase c = clustered(&p);
    dot_compile(&c);
    assert_int_equal(c.lane->cluster, 2);
    c.args[5].bits = (uint64_t)(32 * k);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
      LaneSimFault fault;
      if (!dot_simulate(&c, seed, &fault)) fail_msg("%d iterations: %s", k, fault.message);
    }
    dot_free(&c);
  }
}

#define HEADER \
  HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, rows, n_k, limit, M: tl.constexpr, N: tl.constexpr, BK: " \
       "tl.constexpr):\n"
#define TILES \
  "    m = %s * M + tl.arange(0, M)\n    n = %s * N + tl.arange(0, N)\n    k = tl.arange(0, BK)\n" \
  "    acc = tl.zeros([M, N], tl.float32)\n" \
  "    for i in range(0, %s, BK):\n" \
  "        a = tl.load(a_ptr + m[:, None] * n_k + (i + k)[None, :])\n" \
  "        b = tl.load(b_ptr + (i + k)[:, None] * 128 + n[None, :])\n" \
  "        acc = tl.dot(a, b, acc)\n" \
  "    tl.store(out_ptr + m[:, None] * 128 + n[None, :], acc)\n"

typedef struct Form {
  const char *m, *n, *until;
  int cluster, without;
  const char *why;
} Form;

/* Programs as a grid of two dims, numbered along either, in groups; and what says of two programs that they share no
 * tile, or do not go in step. */
static void neighbours(void **state) {
  static const Form forms[] = {
      {"tl.program_id(0)", "tl.program_id(1)", "n_k", 2, 0, NULL},
      {"tl.program_id(1)", "tl.program_id(0)", "n_k", 2, 0, NULL},
      {"(tl.program_id(0) // 2)", "(tl.program_id(0) % 2)", "n_k", 2, 0, NULL},
      {"(tl.program_id(0) % limit)", "(tl.program_id(0) // limit)", "n_k", 2, 0, NULL},
      {"tl.program_id(0)", "(tl.program_id(0) % limit)", "n_k", 0, 0, "different tiles"},
      {"tl.program_id(0)", "tl.program_id(1)", "tl.minimum(n_k, (tl.program_id(0) + 1) * BK)", 0, 0, "how often"},
  };
  for (int i = 0; i < (int)(sizeof forms / sizeof *forms); i++) {
    char text[2000];
    const Form *f = &forms[i];
    snprintf(text, sizeof text, HEADER TILES, f->m, f->n, f->until);
    DotCase c = dot_case(text, "sm_90a", 4, 3);
    dot_array(&c, DT_F16, 64 * 4 * 96), dot_array(&c, DT_F16, 96 * 128), dot_array(&c, DT_F32, 64 * 4 * 128);
    dot_i64(&c, 64 * 4), dot_int(&c, 96), dot_i64(&c, 2), dot_const(&c, 64), dot_const(&c, 64), dot_const(&c, 32);
    c.specialize = true;
    ask(&c);
    c.grid[0] = strstr(f->m, "program_id(1)") ? 2 : 4, c.grid[1] = strstr(f->n, "program_id(1)") ? 2 : 1;
    if (strstr(f->m, "program_id(1)")) c.grid[1] = 4;
    c.blocks = 2;
    dot_compile(&c);
    if (c.lane->cluster != f->cluster)
      fail_msg("%s, %s: clusters of %d: %s", f->m, f->n, c.lane->cluster, c.lane->unclustered);
    if (f->why && !strstr(c.lane->unclustered, f->why)) fail_msg("%s, %s: %s", f->m, f->n, c.lane->unclustered);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
      LaneSimFault fault;
      if (!dot_simulate(&c, seed, &fault)) fail_msg("%s, %s: %s", f->m, f->n, fault.message);
    }
    dot_free(&c);
  }
}

/* An index that is made of itself, twice each time, is looked at once. */
static void long_indices(void **state) {
  static const char text[] =
      HEADER "    v = tl.program_id(0)\n    for j in tl.static_range(48):\n        v = v * v + v\n"
             "    m = (v // 7 % 3) * M + tl.arange(0, M)\n    n = tl.program_id(1) * N + tl.arange(0, N)\n    k = "
             "tl.arange(0, BK)\n"
             "    acc = tl.zeros([M, N], tl.float32)\n    for i in range(0, n_k, BK):\n"
             "        a = tl.load(a_ptr + m[:, None] * n_k + (i + k)[None, :])\n"
             "        b = tl.load(b_ptr + (i + k)[:, None] * 128 + n[None, :])\n        acc = tl.dot(a, b, acc)\n"
             "    tl.store(out_ptr + m[:, None] * 128 + n[None, :], acc)\n";
  DotCase c = dot_case(text, "sm_90a", 4, 3);
  dot_array(&c, DT_F16, 64), dot_array(&c, DT_F16, 64), dot_array(&c, DT_F32, 64);
  dot_i64(&c, 64), dot_int(&c, 96), dot_i64(&c, 2), dot_const(&c, 64), dot_const(&c, 64), dot_const(&c, 32);
  ask(&c);
  dot_compile(&c);
  dot_free(&c);
}

static void where_nobody_asks_or_they_are_left_out(void **state) {
  static const Product p = {64 * 2, 64, 32 * 6, 64, 64, 32, 4, 2};
  const char *wrong;
  for (int asks = 0; asks < 2; asks++) {
    DotCase c = asks ? clustered(&p) : product_case(&p, "matmul");
    if (asks) c.without = gpu_without("clusters", &wrong);
    dot_compile(&c);
    assert_int_equal(c.lane->cluster, 0);
    assert_int_equal(multicasts(&c), 0);
    assert_int_equal(c.lane->unclustered != NULL, asks);
    dot_free(&c);
  }
}

/* Of six programs two neighbours share no tile. Spare are the last waits for all slots but the one that was filled
 * last, which here are free before that one. */
static void blocks_need_their_waits(void **state) {
  Product p = {64 * 3, 32 * 4, 32 * 5, 64, 64, 32, 4, 2};
  DotCase c = clustered(&p);
  needs_all(&c, 5, 32 * 5, 12, 3);
  dot_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products),
      cmocka_unit_test(trip_counts),
      cmocka_unit_test(neighbours),
      cmocka_unit_test(long_indices),
      cmocka_unit_test(where_nobody_asks_or_they_are_left_out),
      cmocka_unit_test(blocks_need_their_waits),
  };
  return cmocka_run_group_tests_name("clusters", tests, NULL, NULL);
}
