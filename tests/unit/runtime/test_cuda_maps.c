/* Tensor maps of launches (runtime/cuda/maps.c), against a driver that is not there: what is passed for which
 * arguments, and which arguments take a kernel without maps. */
#define _GNU_SOURCE
#include "gpu/gpu.h" /* before cmocka, whose `fail` is a macro */

#include "test_cuda_kit.h"

enum { SLOTS = 5, K = 128 };

static const char text[] =
    "import triton\nimport triton.language as tl\n\n@triton.jit\n"
    "def product(a_ptr, b_ptr, out_ptr, K, stride, BK: tl.constexpr):\n"
    "    m = tl.arange(0, 64)\n"
    "    k = tl.arange(0, BK)\n"
    "    acc = tl.zeros([64, 64], tl.float32)\n"
    "    for i in range(0, K, BK):\n"
    "        a = tl.load(a_ptr + m[:, None] * stride + i + k[None, :], mask=i + k[None, :] < K, other=0.0)\n"
    "        b = tl.load(b_ptr + (i + k)[:, None] * 64 + m[None, :], mask=i + k[:, None] < K, other=0.0)\n"
    "        acc = tl.dot(a, b, acc)\n"
    "    tl.store(out_ptr + m[:, None] * 64 + m[None, :], acc)\n";

static FakeMap seen[2];
static bool aligned;
static int run_product(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  aligned = true;
  for (int i = 0; i < 2 && fake->last_params == SLOTS + 2; i++) {
    aligned &= (uintptr_t)p[SLOTS + i] % 64 == 0;
    memcpy(&seen[i], p[SLOTS + i], sizeof seen[i]);
  }
  return 0;
}

static nereid_module *load(void) {
  nereid_module *m;
  assert_ok(nereid_module_load_string("k.py", text, &m, &error));
  fake_kernel("product", run_product);
  setenv("NEREID_PTXAS", "none", 1);
  return m;
}

static void arguments(Fixture *f, nereid_arg args[6], int64_t k, int64_t stride) {
  for (int i = 0; i < 3; i++) args[i] = nereid_pointer(f->p[i], i < 2 ? NEREID_F16 : NEREID_F32);
  args[3] = nereid_int(k), args[4] = nereid_int(stride), args[5] = nereid_constexpr_int(32);
}

/* A specialized kernel would be persistent, and take the grid, too. */
static const nereid_options plain = {.without = "specialize"};

/* How many parameters the launch passed. */
static int launch(Fixture *f, nereid_module *m, const nereid_arg *args) {
  assert_ok(nereid_launch(f->d, NULL, m, "product", one, args, 6, &plain, &error));
  return fake->last_params;
}

static void test_what_is_passed(void **state) {
  Fixture *f = *state;
  nereid_module *m = load();
  nereid_arg args[6];
  arguments(f, args, K, 256);
  assert_int_equal(launch(f, m, args), SLOTS + 2);
  assert_true(aligned);
  const FakeMap *a = seen[0].base == (uintptr_t)f->p[0] ? &seen[0] : &seen[1], *b = a == seen ? &seen[1] : &seen[0];
  assert_int_equal(a->base, (uintptr_t)f->p[0]);
  assert_int_equal(a->rank, 2);
  assert_int_equal(a->type, 6);
  assert_int_equal(a->sizes[0], K);
  assert_int_equal(a->strides[0], 512);
  assert_int_equal(a->box[0], 32);
  assert_int_equal(a->box[1], 64);
  assert_int_equal(a->swizzle, 2); /* rows of 64 bytes */
  assert_int_equal(b->base, (uintptr_t)f->p[1]);
  assert_int_equal(b->sizes[1], K);
  assert_int_equal(b->strides[0], 128);
  assert_int_equal(b->box[0], 64);
  assert_int_equal(b->box[1], 32);
  assert_int_equal(b->swizzle, 3); /* of 128 */
  nereid_module_free(m);
  unsetenv("NEREID_PTXAS");
}

static void test_who_has_none(void **state) {
  Fixture *f = *state;
  nereid_module *m = load();
  nereid_arg args[6];
  arguments(f, args, K, 136); /* no multiple of 16, but rows are 16 bytes apart */
  assert_int_equal(launch(f, m, args), SLOTS + 2);
  arguments(f, args, K, 132);
  assert_int_equal(launch(f, m, args), SLOTS);
  arguments(f, args, 0, 136); /* an array without elements */
  assert_int_equal(launch(f, m, args), SLOTS);
  arguments(f, args, K, 136);
  assert_int_equal(launch(f, m, args), SLOTS + 2);
  args[0] = nereid_pointer((char *)f->p[0] + 8, NEREID_F16); /* that is another specialization: b has a map */
  assert_int_equal(launch(f, m, args), SLOTS + 1);
  nereid_options without = {.without = "specialize,tensor_maps"};
  arguments(f, args, K, 136);
  assert_ok(nereid_launch(f->d, NULL, m, "product", one, args, 6, &without, &error));
  assert_int_equal(fake->last_params, SLOTS);
  nereid_module_free(m);
  unsetenv("NEREID_PTXAS");
}

/* Neighbouring blocks share tiles where there are as many, and programs run one after the other in as many blocks. */
static void test_clusters(void **state) {
  static const struct {
    int64_t grid[3];
    unsigned cluster;
  } launches[] = {{{4, 1, 1}, 2}, {{3, 1, 1}, 0}, {{2, 3, 1}, 2}, {{3, 2, 1}, 0}, {{100002, 1, 1}, 2}};
  Fixture *f = *state;
  nereid_module *m = load();
  nereid_arg args[6];
  nereid_options o = {.num_warps = 2, .num_ctas = 2};
  arguments(f, args, K, 256);
  for (int i = 0; i < (int)(sizeof launches / sizeof *launches); i++) {
    fake->last_cluster = 0;
    assert_ok(nereid_launch(f->d, NULL, m, "product", launches[i].grid, args, 6, &o, &error));
    assert_int_equal(fake->last_params, SLOTS + 3 + 3); /* the result has a map, too */
    assert_int_equal(fake->last_cluster, launches[i].cluster);
    if (launches[i].cluster) assert_int_equal(fake->last_grid[0] % launches[i].cluster, 0);
  }
  o.without = "clusters";
  fake->last_cluster = 0;
  assert_ok(nereid_launch(f->d, NULL, m, "product", launches[0].grid, args, 6, &o, &error));
  assert_int_equal(fake->last_cluster, 0);
  nereid_module_free(m);
  unsetenv("NEREID_PTXAS");
}

/* A driver that refuses is no failure. */
static void test_a_driver_that_refuses(void **state) {
  Fixture *f = *state;
  nereid_module *m = load();
  nereid_arg args[6];
  arguments(f, args, K, 256);
  fake->fail.symbol = "cuTensorMapEncodeTiled", fake->fail.result = 1;
  assert_int_equal(launch(f, m, args), SLOTS);
  nereid_module_free(m);
  unsetenv("NEREID_PTXAS");
}

/* Launched over and over, the kernel is a graph's; maps follow the arguments, and are made once for each. */
static void test_again_and_again(void **state) {
  Fixture *f = *state;
  nereid_module *m = load();
  nereid_arg args[6];
  nereid_function *fn;
  arguments(f, args, K, 256);
  fake->capture_params = SLOTS; /* the rest is looked at where it is made */
  assert_ok(nereid_compile(f->d, m, "product", args, 6, &plain, &fn, &error));
  for (int i = 0; i < 100; i++) {
    args[0] = nereid_pointer(f->p[i % 2 ? 2 : 0], NEREID_F16);
    assert_ok(nereid_run(fn, NULL, one, args, 6, &error));
  }
  assert_true(fake->graph_launches > 50);
  assert_true(fake->maps_encoded >= 4 && fake->maps_encoded <= 2 * 100);
  int before = fake->maps_encoded;
  for (int i = 0; i < 10; i++) assert_ok(nereid_run(fn, NULL, one, args, 6, &error));
  assert_true(fake->maps_encoded - before <= 2);
  args[4] = nereid_int(16 * 9 + 272), args[3] = nereid_int(K); /* still a multiple of 16 */
  assert_ok(nereid_run(fn, NULL, one, args, 6, &error));
  args[3] = nereid_int(0);
  assert_ok(nereid_run(fn, NULL, one, args, 6, &error)); /* by a kernel without maps */
  assert_int_equal(fake->last_params, SLOTS);
  nereid_function_free(fn);
  nereid_module_free(m);
  unsetenv("NEREID_PTXAS");
}

/* ---- rows that do not begin at 16 bytes -------------------------------------------------------------------------- */

enum { ROWS = 130, WIDE_K = 33, WIDE_SLOTS = 6 };

static const char wide_text[] =
    "import triton\nimport triton.language as tl\n\n@triton.jit\n"
    "def wide(a_ptr, b_ptr, out_ptr, M, K, stride, BK: tl.constexpr):\n"
    "    m = tl.program_id(0) * 64 + tl.arange(0, 64)\n    n = tl.arange(0, 64)\n    k = tl.arange(0, BK)\n"
    "    acc = tl.zeros([64, 64], tl.float32)\n"
    "    for i in range(0, K, BK):\n"
    "        a = tl.load(a_ptr + m[:, None] * stride + i + k[None, :], mask=(m[:, None] < M) & (i + k[None, :] < K), "
    "other=0.0)\n"
    "        b = tl.load(b_ptr + (i + k)[:, None] * 64 + n[None, :], mask=i + k[:, None] < K, other=0.0)\n"
    "        acc = tl.dot(a, b, acc)\n"
    "    out = out_ptr + tl.program_id(1) * M * 64 + m[:, None] * 64 + n[None, :]\n"
    "    tl.store(out, acc, mask=m[:, None] < M)\n";

static const uint16_t *wide_a;
static int wide_stride, right_copies;
static int run_wide(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  for (int i = 0; i < 2 && fake->last_params == WIDE_SLOTS + 2; i++) {
    FakeMap m;
    memcpy(&m, p[WIDE_SLOTS + i], sizeof m);
    if (m.sizes[1] != ROWS) continue; /* b's */
    bool same = m.base % 16 == 0 && m.strides[0] == 80 && m.sizes[0] == WIDE_K && m.base != (uintptr_t)wide_a;
    for (int r = 0; r < ROWS && same; r++)
      same = !memcmp((char *)m.base + r * 80, wide_a + r * wide_stride, 2 * WIDE_K);
    right_copies += same;
  }
  return 0;
}

/* Whether the summary names a alone as an array that may be copied: b's rows are of a known length. */
static bool says_copied(nereid_module *m, const nereid_arg *args) {
  char *text;
  assert_ok(nereid_inspect(m, "wide", args, 7, &plain, "summary", "sm_90a", &text, &error));
  bool any = strstr(text, "copied by a launch"), a = strstr(text, "do not begin at 16 bytes: a_ptr\n");
  free(text);
  assert_int_equal(any, a);
  return a;
}

/* As the kernel in rt/cuda/copies.c does. */
static int run_copy_rows(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  const char *from = *(char **)p[0];
  char *to = *(char **)p[1];
  uint64_t row = *(uint64_t *)p[2], padded = *(uint64_t *)p[3];
  unsigned columns = *(unsigned *)p[4];
  for (unsigned r = 0; r < grid[0]; r++)
    for (unsigned c = 0; c < columns && c < grid[1] * 8 * block[0]; c++)
      memcpy(to + r * padded + 2 * c, from + r * row + 2 * c, 2);
  return 0;
}

static void test_odd_rows(void **state) {
  Fixture *f = *state;
  nereid_module *m;
  nereid_stream *s;
  assert_ok(nereid_module_load_string("w.py", wide_text, &m, &error));
  fake_kernel("wide", run_wide);
  fake_kernel("nereid_copy_rows_2", run_copy_rows);
  setenv("NEREID_PTXAS", "none", 1);
  void *a, *rest;
  assert_ok(nereid_alloc(f->d, 2 * ROWS * 40, &a, &error));
  assert_ok(nereid_alloc(f->d, 1 << 20, &rest, &error));
  for (int i = 0; i < ROWS * 40; i++) ((uint16_t *)a)[i] = (uint16_t)(i * 7 + 1);
  const int64_t many[3] = {3, 8, 1}, few[3] = {3, 1, 1};
  nereid_arg args[7] = {nereid_pointer(a, NEREID_F16),
                        nereid_pointer(rest, NEREID_F16),
                        nereid_pointer(rest, NEREID_F32),
                        nereid_int(ROWS),
                        nereid_int(WIDE_K),
                        nereid_int(35),
                        nereid_constexpr_int(32)};
  assert_true(says_copied(m, args));
  args[5] = nereid_int(48);
  assert_false(says_copied(m, args));
  args[5] = nereid_int(35);
  wide_a = a, wide_stride = 35, right_copies = 0;
  for (int i = 0; i < 3; i++) assert_ok(nereid_launch(f->d, NULL, m, "wide", many, args, 7, &plain, &error));
  assert_int_equal(fake->last_params, WIDE_SLOTS + 2);
  assert_int_equal(right_copies, 3);
  assert_int_equal(fake->pool_taken, 3); /* and given back after each launch */
  assert_int_equal(fake->pool_allocations, 0);
  args[5] = nereid_int(40); /* as they want to be */
  assert_ok(nereid_launch(f->d, NULL, m, "wide", many, args, 7, &plain, &error));
  assert_int_equal(fake->last_params, WIDE_SLOTS + 2);
  args[5] = nereid_int(35);
  assert_ok(
      nereid_launch(f->d, NULL, m, "wide", few, args, 7, &plain, &error)); /* each row is read once: it does not pay */
  assert_int_equal(fake->last_params, WIDE_SLOTS);
  assert_int_equal(fake->pool_taken, 3);
  /* An array that ends before may not be read so far. */
  fake->memory_end = (uintptr_t)a + 2 * 35 * (ROWS - 1);
  args[0] = nereid_pointer((char *)a + 16, NEREID_F16);
  assert_ok(nereid_launch(f->d, NULL, m, "wide", many, args, 7, &plain, &error));
  assert_int_equal(fake->last_params, WIDE_SLOTS);
  fake->memory_end = 0;
  args[0] = nereid_pointer(a, NEREID_F16);
  assert_ok(nereid_stream_create(f->d, &s, &error));
  assert_ok(nereid_launch(f->d, s, m, "wide", many, args, 7, &plain, &error));
  assert_int_equal(right_copies, 4);
  fake->capturing = nereid_stream_native(s);
  assert_ok(nereid_launch(f->d, s, m, "wide", many, args, 7, &plain, &error));
  fake->capturing = NULL;
  assert_int_equal(fake->last_params, WIDE_SLOTS + 2); /* the graph copies, each time */
  assert_int_equal(fake->captured, 2);
  assert_int_equal(fake->forbidden_in_capture, 0);
  assert_int_equal(fake->pool_taken, 5);
  nereid_stream_destroy(s);
  nereid_free(f->d, a);
  nereid_free(f->d, rest);
  nereid_module_free(m);
  unsetenv("NEREID_PTXAS");
}

static int run(void) {
  const struct CMUnitTest tests[] = {
      OPEN(test_odd_rows),        OPEN(test_what_is_passed), OPEN(test_who_has_none), OPEN(test_a_driver_that_refuses),
      OPEN(test_again_and_again), OPEN(test_clusters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return cuda_tests(run); }
