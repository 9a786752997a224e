/* Persistent kernels: each program runs once, with its own ids, whatever the number of blocks; ends early where it did;
 * and what cannot be made persistent is left alone. Products' loops are among them. */
#include "unit/gpu/test_dot_kit.h"

#define TEXT(body) HEAD "@triton.jit\ndef k(out_ptr, seen_ptr, n):\n" body

/* Which programs ran, and how often; and what they thought of themselves. */
static const char ids[] =
    TEXT("    x = tl.program_id(0)\n"
         "    y = tl.program_id(1)\n"
         "    z = tl.program_id(2)\n"
         "    at = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)\n"
         "    tl.atomic_add(seen_ptr + at, 1.0)\n"
         "    if x + y < n:\n"
         "        return\n"
         "    tl.store(out_ptr + at, (x + 10 * y + 100 * z + 1000 * tl.num_programs(2)).to(tl.float32))\n");

static void check_ids(const int32_t grid[3], int64_t blocks) {
  DotCase c = dot_case(ids, "sm_90a", 4, 3);
  int64_t total = (int64_t)grid[0] * grid[1] * grid[2];
  memcpy(c.grid, grid, sizeof c.grid);
  c.persist = true, c.blocks = blocks;
  DotArg *out = dot_array(&c, DT_F32, total), *seen = dot_array(&c, DT_F32, total);
  dot_int(&c, 2);
  for (int64_t i = 0; i < total; i++) dot_store(out, i, -1), dot_store(seen, i, 0);
  dot_run(&c, "ids");
  assert_true(c.lane->persistent);
  for (int64_t i = 0; i < total; i++) {
    int64_t x = i % grid[0], y = i / grid[0] % grid[1], z = i / grid[0] / grid[1];
    assert_true(seen->values[i] == 1);
    assert_true(out->values[i] == (x + y < 2 ? -1 : (double)(x + 10 * y + 100 * z + 1000 * grid[2])));
  }
  dot_free(&c);
}

static void each_program_once(void **state) {
  static const int32_t grids[][3] = {{1, 1, 1}, {7, 1, 1}, {5, 3, 1}, {3, 1, 4}, {2, 3, 3}};
  for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
    int64_t total = (int64_t)grids[g][0] * grids[g][1] * grids[g][2];
    for (int64_t blocks = 0; blocks <= 4; blocks++)
      if (blocks <= total) check_ids(grids[g], blocks);
  }
}

static const char product[] =
    HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):\n"
         "    m = tl.program_id(0) * M + tl.arange(0, M)\n"
         "    n = tl.program_id(1) * N + tl.arange(0, N)\n"
         "    k = tl.arange(0, BK)\n"
         "    acc = tl.zeros([M, N], tl.float32)\n"
         "    for i in range(0, K, BK):\n"
         "        a = tl.load(a_ptr + m[:, None] * K + i + k[None, :], mask=i + k[None, :] < K, other=0.0)\n"
         "        b = tl.load(b_ptr + (i + k)[:, None] * N * tl.num_programs(1) + n[None, :], mask=i + k[:, None] < K, "
         "other=0.0)\n"
         "        acc = tl.dot(a, b, acc)\n"
         "    tl.store(out_ptr + m[:, None] * N * tl.num_programs(1) + n[None, :], acc)\n";

/* Of tiles in rings: what the next program's copies overwrite nobody reads any more. */
static void products(void **state) {
  static const char *const targets[] = {"sm_90a", "sm_80"};
  enum { M = 64, N = 32, ROWS = 3 * M, COLUMNS = 2 * N, K = 80 };
  for (int t = 0; t < 2; t++) {
    DotCase c = dot_case(product, targets[t], 4, 3);
    c.grid[0] = 3, c.grid[1] = 2, c.persist = true, c.blocks = 2;
    DotArg *a = dot_array(&c, DT_F16, ROWS * K), *b = dot_array(&c, DT_F16, K * COLUMNS),
           *out = dot_array(&c, DT_F32, ROWS * COLUMNS);
    dot_int(&c, K), dot_const(&c, M), dot_const(&c, N), dot_const(&c, 32);
    dot_run(&c, "products");
    assert_true(c.lane->persistent && dot_count(&c).copies[16] > 0);
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < COLUMNS; j++) {
        double sum = 0;
        for (int k = 0; k < K; k++) sum += a->values[i * K + k] * b->values[k * COLUMNS + j];
        assert_true(out->values[i * COLUMNS + j] == sum);
      }
    dot_free(&c);
  }
}

static void refused(void **state) {
  static const char *const texts[] = {
      TEXT("    print(\"n\", n)\n    tl.store(out_ptr + tl.program_id(0), 1.0)\n"),
      TEXT("    while tl.atomic_cas(seen_ptr.to(tl.pointer_type(tl.int32)), 0, 1) == 1:\n        pass\n"
           "    tl.store(out_ptr, 1.0)\n"),
      TEXT("    x = tl.inline_asm_elementwise('mov.u32 $0, %ctaid.x;', '=r,r', [n], tl.int32, True, 1)\n"
           "    tl.store(out_ptr + x, 1.0)\n"),
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    DotCase c = dot_case(texts[i], "sm_90a", 4, 3);
    c.persist = true;
    dot_array(&c, DT_F32, 4), dot_array(&c, DT_F32, 4), dot_int(&c, 3);
    dot_compile(&c);
    assert_false(c.lane->persistent);
    dot_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_program_once),
      cmocka_unit_test(products),
      cmocka_unit_test(refused),
  };
  return cmocka_run_group_tests_name("persist", tests, NULL, NULL);
}
