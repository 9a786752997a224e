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

typedef struct Shape {
  const char *target;
  int m, n, bk, k, warps, grid[2], blocks, stages;
} Shape;

static void run_product(const Shape *s) {
  int rows = s->grid[0] * s->m, columns = s->grid[1] * s->n;
  const char *wrong;
  DotCase c = dot_case(product, s->target, s->warps, s->stages);
  c.grid[0] = s->grid[0], c.grid[1] = s->grid[1], c.persist = true, c.blocks = s->blocks;
  c.without = gpu_without("specialize", &wrong);
  DotArg *a = dot_array(&c, DT_F16, rows * s->k), *b = dot_array(&c, DT_F16, s->k * columns),
         *out = dot_array(&c, DT_F32, rows * columns);
  dot_int(&c, s->k), dot_const(&c, s->m), dot_const(&c, s->n), dot_const(&c, s->bk);
  dot_run(&c, "products");
  assert_true(c.lane->persistent && dot_count(&c).copies[16] > 0);
  assert_int_equal(c.lane->stages_missed, s->stages > 4 ? s->stages : 0); /* of the large ones there is room for 4 */
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      double sum = 0;
      for (int k = 0; k < s->k; k++) sum += a->values[i * s->k + k] * b->values[k * columns + j];
      assert_true(out->values[i * columns + j] == sum);
    }
  dot_free(&c);
}

/* Of tiles in rings: what the next program's copies overwrite nobody reads any more. Large tiles leave room for what is
 * stored, since their rings stay. */
static void products(void **state) {
  run_product(&(Shape){"sm_90a", 64, 32, 32, 80, 4, {3, 2}, 2, 3});
  run_product(&(Shape){"sm_80", 64, 32, 32, 80, 4, {3, 2}, 2, 3});
  run_product(&(Shape){"sm_90a", 128, 256, 64, 80, 8, {2, 1}, 1, 5});
}

static void count_barrier(LaneOp *op, void *arg) {
  if (op->code == LANE_BARRIER && !op->warp) ++*(int *)arg;
}

/* Programs are in no order: what one has stored and the next one loads needs no barrier between. */
static void no_barriers_between_programs(void **state) {
  int barriers[2] = {0};
  for (int persist = 0; persist < 2; persist++) {
    DotCase c = dot_case(TEXT("    x = tl.load(seen_ptr + tl.program_id(0))\n"
                              "    tl.store(out_ptr + tl.program_id(0), x + n)\n"),
                         "sm_90a", 4, 3);
    c.grid[0] = 5, c.persist = persist, c.blocks = persist ? 2 : 0;
    DotArg *out = dot_array(&c, DT_F32, 5), *seen = dot_array(&c, DT_F32, 5);
    dot_int(&c, 3);
    dot_run(&c, "programs in a row");
    lane_walk(c.lane->body, count_barrier, &barriers[persist]);
    for (int i = 0; i < 5; i++) assert_true(out->values[i] == seen->values[i] + 3);
    dot_free(&c);
  }
  assert_int_equal(barriers[0], 1); /* both arguments may be one array */
  assert_int_equal(barriers[1], 1);
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

static void find_count(LaneOp *op, void *found) {
  if (op->code == LANE_SPECIAL && op->special == SP_NCTAID_X) *(bool *)found = true;
}

/* ---- long programs first ----------------------------------------------------------------------------------------- */

/* Counted from the other end where a loop's end grows with the program's number, and nowhere else; and right then. */
static void long_programs_first(void **state) {
  static const struct {
    const char *bounds, *more;
    bool turned;
  } cases[] = {{"0, tl.program_id(0) + 1", "", true},
               {"0, tl.minimum(n, (tl.program_id(0) * 32 + 64) // 32)", "", true},
               {"tl.program_id(0), n + 2 * tl.program_id(0)", "", false}, /* by how much, nobody asks */
               {"tl.program_id(0), n", "", false},
               {"0, n - tl.program_id(0)", "", false},
               {"0, n", "", false},
               {"0, tl.program_id(1) + n", "", false},
               {"0, tl.program_id(0) % 3 + 1", "", false},
               {"0, tl.program_id(0) + 1", "    for i in range(tl.program_id(0), n):\n        sum += 1.0\n", false},
               {"0, tl.program_id(0) + 1", "    tl.device_print(\"at\", sum)\n", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[1000];
    snprintf(text, sizeof text,
             HEAD "@triton.jit\ndef k(x_ptr, out_ptr, n):\n"
                  "    sum = 0.0\n"
                  "    for i in range(%s):\n"
                  "        sum += tl.load(x_ptr + i)\n"
                  "%s"
                  "    tl.store(out_ptr + tl.program_id(0), sum)\n",
             cases[i].bounds, cases[i].more);
    double sums[2][7];
    bool counts[2];
    for (int plain = 0; plain < 2; plain++) {
      const char *wrong;
      DotCase c = dot_case(text, "sm_90a", 1, 3);
      c.grid[0] = 7, c.without = plain ? gpu_without("heavy_first", &wrong) : 0;
      dot_array(&c, DT_F32, 32);
      DotArg *out = dot_array(&c, DT_F32, 7);
      dot_int(&c, 9);
      if (strstr(text, "print")) dot_compile(&c);
      else dot_run(&c, text);
      memcpy(sums[plain], out->values, sizeof sums[plain]);
      counts[plain] = false;
      lane_walk(c.lane->body, find_count, &counts[plain]);
      dot_free(&c);
    }
    if (counts[0] != cases[i].turned || counts[1]) fail_msg("%s:%s turned", text, counts[0] ? "" : " not");
    for (int k = 0; k < 7; k++) assert_true(sums[0][k] == sums[1][k]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_program_once),
      cmocka_unit_test(products),
      cmocka_unit_test(no_barriers_between_programs),
      cmocka_unit_test(refused),
      cmocka_unit_test(long_programs_first),
  };
  return cmocka_run_group_tests_name("persist", tests, NULL, NULL);
}
