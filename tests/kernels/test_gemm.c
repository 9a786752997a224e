/* Loops that add up products (cpu/gemm.c), on the CPU with one thread, so that each program meets what the one before
 * it packed, and with several, against the interpreter. Small whole numbers: every order of adding gives the same. */
#include "harness.h"

static Tensor whole_numbers(nereid_dtype t, int64_t count, uint64_t seed) {
  Tensor x = tensor_random(t, count, seed);
  for (int64_t i = 0; i < count; i++) tensor_set(&x, i, (double)((i * 2654435761u + seed * 97) >> 7 & 7) - 3);
  return x;
}

enum { MAX_TENSORS = 5 };
typedef struct Kernel {
  const char *file, *name;
  nereid_dtype types[MAX_TENSORS];
  int64_t counts[MAX_TENSORS]; /* the last one is the result */
  int64_t ints[10];            /* after the tensors, ended by 0 */
  const char *const *consts;   /* names, ended by NULL */
  int64_t values[4], gx, gy;
} Kernel;

static void run(const Kernel *k, const char *device, Tensor *result) {
  Call c = {0};
  Tensor t[MAX_TENSORS];
  int n = 0;
  for (; n < MAX_TENSORS && k->counts[n]; n++) t[n] = whole_numbers(k->types[n], k->counts[n], (uint64_t)n + 1);
  for (int i = 0; i < n; i++) arg_tensor(&c, &t[i]);
  for (int i = 0; k->ints[i]; i++) arg_int(&c, k->ints[i]);
  for (int i = 0; k->consts[i]; i++) arg_const(&c, k->consts[i], k->values[i]);
  launch(device, k->file ? k->file : "../tests/kernels/gemm.py", k->name, &c, k->gx, k->gy);
  *result = t[n - 1];
  for (int i = 0; i < n - 1; i++) tensor_free(&t[i]);
}

static void check_on(const Kernel *k, const char *const devices[2]) {
  Tensor want, got;
  run(k, "interp", &want);
  double *bound = calloc((size_t)want.count, sizeof *bound);
  assert_non_null(bound);
  for (int i = 0; i < 2; i++) {
    run(k, devices[i], &got);
    check_close(k->name, &got, want.values, bound, want.count);
    tensor_free(&got);
  }
  tensor_free(&want), free(bound);
}
static void check(const Kernel *k) { check_on(k, (const char *const[]){"cpu:1", "cpu:3"}); }

static const char *const blocks[] = {"BM", "BN", "BK", NULL};

/* Odd sizes; rows with gaps, so that some may be read where they lie and others not; either operand transposed. */
static void test_plain(void **s) {
  (void)s;
  static const nereid_dtype types[] = {NEREID_F32, NEREID_BF16, NEREID_I8, NEREID_F16, NEREID_F64};
  static const int64_t shapes[][3] = {{70, 90, 50}, {64, 64, 128}, {33, 100, 200}, {130, 33, 31}};
  for (int t = 0; t < 5; t++)
    for (int i = 0; i < 4; i++)
      for (int turned = 0; turned < 3; turned++) {
        int64_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2], gap = i % 2 * 5;
        nereid_dtype sum = types[t] == NEREID_I8 ? NEREID_I32 : types[t] == NEREID_F64 ? NEREID_F64 : NEREID_F32;
        bool ta = turned == 1, tb = turned == 2;
        check(&(Kernel){.name = "plain",
                        .types = {types[t], types[t], sum},
                        .counts = {(m + gap) * (k + gap), (k + gap) * (n + gap), m * n},
                        .ints = {m, n, k, ta ? 1 : k + gap, ta ? m + gap : 1, tb ? 1 : n + gap, tb ? k + gap : 1, n},
                        .consts = blocks,
                        .values = {32, i == 3 ? 64 : 32, 32},
                        .gx = cdiv(n, i == 3 ? 64 : 32),
                        .gy = cdiv(m, 32)});
      }
}

static void test_int8(void **s) {
  (void)s;
  static const char *const consts[] = {"BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", NULL};
  check(&(Kernel){.file = "matmul.py",
                  .name = "matmul_int8",
                  .types = {NEREID_I8, NEREID_I8, NEREID_I32},
                  .counts = {100 * 300, 300 * 90, 100 * 90},
                  .ints = {100, 90, 300, 300, 1, 90, 1, 90, 1},
                  .consts = consts,
                  .values = {64, 32, 64, 2},
                  .gx = 2 * 3,
                  .gy = 1});
}

/* More of k than is packed at once. */
static void test_long(void **s) {
  (void)s;
  check(&(Kernel){.name = "plain",
                  .types = {NEREID_F32, NEREID_F32, NEREID_F32},
                  .counts = {20 * 5001, 5001 * 40, 20 * 40},
                  .ints = {20, 40, 5001, 5001, 1, 40, 1, 40},
                  .consts = blocks,
                  .values = {32, 32, 64},
                  .gx = 2,
                  .gy = 1});
}

static void test_gated(void **s) {
  (void)s;
  check(&(Kernel){.name = "gated",
                  .types = {NEREID_F32, NEREID_F32, NEREID_F32, NEREID_F32},
                  .counts = {70 * 100, 100 * 80, 100 * 80, 70 * 80},
                  .ints = {70, 80, 100},
                  .consts = blocks,
                  .values = {32, 32, 32},
                  .gx = 3,
                  .gy = 3});
}

static void test_in_place(void **s) {
  (void)s;
  static const char *const consts[] = {"BM", "BK", NULL};
  check(&(Kernel){.name = "in_place",
                  .types = {NEREID_F32, NEREID_F32, NEREID_F32},
                  .counts = {32 * 64, 64 * 32, 32 * 32},
                  .ints = {64, 3},
                  .consts = consts,
                  .values = {32, 16},
                  .gx = 1,
                  .gy = 1});
}

/* Blocks of many rows, which reach the kernel's end some at a time: with k in one block, in several, and in none. */
static void test_many_rows(void **s) {
  (void)s;
  static const nereid_dtype types[] = {NEREID_F32, NEREID_BF16, NEREID_I8};
  static const int64_t ks[] = {40, 1100, -1};
  for (int t = 0; t < 3; t++)
    for (int i = 0; i < 3; i++) {
      int64_t m = 130, n = 40, k = ks[i], row = k < 0 ? 4 : k;
      check(&(Kernel){.name = "plain",
                      .types = {types[t], types[t], types[t] == NEREID_I8 ? NEREID_I32 : NEREID_F32},
                      .counts = {m * row, row * n, m * n},
                      .ints = {m, n, k, row, 1, n, 1, n},
                      .consts = blocks,
                      .values = {128, 32, 64},
                      .gx = 2,
                      .gy = 2});
    }
}

static void test_several_ends(void **s) {
  (void)s;
  for (int begin = 1; begin < 3; begin++)
    check(&(Kernel){.name = "several_ends",
                    .types = {NEREID_BF16, NEREID_BF16, NEREID_F32, NEREID_BF16},
                    .counts = {130 * 100, 100 * 40, 2 * 130, 2 * 130 * 40},
                    .ints = {130, 40, 100, begin},
                    .consts = blocks,
                    .values = {128, 32, 32},
                    .gx = 2,
                    .gy = 2});
}

/* The same on AMX's tiles, emulated for one thread: on a device of its own, for which every kernel is compiled so. */
static void test_emulated_tiles(void **s) {
  (void)s;
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512vnni")) return;
  char command[256];
  const char *was = getenv("NEREID_CC"), *const devices[] = {"cpu:01", "cpu:01"};
  snprintf(command, sizeof command, "%s -DND_AMX_EMULATE", was ? was : "cc");
  char *before = was ? strdup(was) : NULL;
  setenv("NEREID_CC", command, 1);
  for (int t = 0; t < 4; t++) {
    int64_t m = 130, n = 40, k = t % 2 ? 1100 : 104;
    bool int8 = t / 2;
    check_on(&(Kernel){.name = "plain",
                       .types = {int8 ? NEREID_I8 : NEREID_BF16, int8 ? NEREID_I8 : NEREID_BF16,
                                 int8 ? NEREID_I32 : NEREID_F32},
                       .counts = {m * k, k * n, m * n},
                       .ints = {m, n, k, k, 1, n, 1, n},
                       .consts = blocks,
                       .values = {128, 32, 64},
                       .gx = 2,
                       .gy = 2},
             devices);
  }
  if (before) setenv("NEREID_CC", before, 1);
  else unsetenv("NEREID_CC");
  free(before);
#endif
}

/* x and y apart, the same, and y in the middle of x. */
static void overlap(const char *kernel, int K, int BM, int steps) {
  enum { MOST = 2 * 128 * 128 };
  static float got[2][MOST], w[MOST / 2];
  static const char *const devices[] = {"interp", "cpu:1"};
  const int64_t places[] = {BM * K, 0, 16};
  const int ALL = 2 * BM * K;
  assert_true(ALL <= MOST);
  for (int p = 0; p < 3; p++) {
    for (int i = 0; i < 2; i++) {
      nereid_device *d = test_device(devices[i]);
      nereid_error *err = NULL;
      nereid_module *m = NULL;
      float *x = NULL, *on_w = NULL;
      size_t bytes = (size_t)ALL * sizeof *x, bytes_w = bytes / 2;
      for (int k = 0; k < ALL; k++) got[i][k] = (float)(k * 7 % 5) - 2;
      for (int k = 0; k < K * BM; k++) w[k] = (float)(k * 5 % 7) - 3;
      nereid_status status = nereid_module_load(KERNELS_DIR "/../tests/kernels/gemm.py", &m, &err);
      if (!status) status = nereid_alloc(d, (int64_t)bytes, (void **)&x, &err);
      if (!status) status = nereid_alloc(d, (int64_t)bytes_w, (void **)&on_w, &err);
      if (!status) status = nereid_copy_to_device(d, x, got[i], (int64_t)bytes, &err);
      if (!status) status = nereid_copy_to_device(d, on_w, w, (int64_t)bytes_w, &err);
      const nereid_arg args[] = {nereid_pointer(x, NEREID_F32),
                                 nereid_pointer(on_w, NEREID_F32),
                                 nereid_pointer(x + places[p], NEREID_F32),
                                 nereid_int(K),
                                 nereid_int(steps),
                                 nereid_named(nereid_constexpr_int(BM), "BM"),
                                 nereid_named(nereid_constexpr_int(16), "BK")};
      int64_t grid[3] = {1, 1, 1};
      if (!status) status = nereid_launch(d, NULL, m, kernel, grid, args, 7, NULL, &err);
      if (!status) status = nereid_copy_to_host(d, got[i], x, (int64_t)bytes, &err);
      if (status) fail_msg("%s", nereid_error_text(err));
      nereid_free(d, x), nereid_free(d, on_w), nereid_module_free(m);
    }
    for (int k = 0; k < ALL; k++)
      if (got[0][k] != got[1][k])
        fail_msg("%s, y at x + %d: [%d] is %g, not %g", kernel, (int)places[p], k, (double)got[1][k],
                 (double)got[0][k]);
  }
}

static void test_overlap(void **s) {
  (void)s;
  overlap("through_another", 64, 32, 3);
  overlap("onto_rows", 128, 128, 3);
  overlap("onto_itself", 128, 128, 3);
  overlap("stored", 128, 128, 1);
}

/* Sums that go to their place at once, to rows side by side, with gaps, and upwards; with k in one block, in several,
 * and in none. */
static void test_placed(void **s) {
  (void)s;
  static const char *const consts[] = {"BM", "BN", "BK", "START", NULL};
  static const int64_t distances[] = {128, 131, -128}, ks[] = {72, 300, -1};
  const int64_t m = 64, n = 128;
  for (int d = 0; d < 3; d++)
    for (int k = 0; k < 3; k++)
      for (int start = 0; start < 6; start += 3) {
        int64_t row = ks[k] < 0 ? 4 : ks[k];
        check(&(Kernel){.name = "placed",
                        .types = {NEREID_F32, NEREID_F32, NEREID_F32},
                        .counts = {m * row, row * n, m * 131 + n},
                        .ints = {ks[k], distances[d] < 0 ? 63 * 128 : 3, distances[d]},
                        .consts = consts,
                        .values = {m, n, 32, start},
                        .gx = 1,
                        .gy = 1});
      }
}

static void test_dequantized(void **s) {
  (void)s;
  check(&(Kernel){.name = "dequantized",
                  .types = {NEREID_F32, NEREID_I8, NEREID_F32, NEREID_F32},
                  .counts = {70 * 100, 100 * 80, 80, 70 * 80},
                  .ints = {70, 80, 100},
                  .consts = blocks,
                  .values = {32, 32, 32},
                  .gx = 3,
                  .gy = 3});
}

static void test_ragged(void **s) {
  (void)s;
  nereid_dtype f = NEREID_F32;
  Kernel k = {.name = "ragged",
              .types = {f, f, NEREID_I32, f},
              .counts = {32 * 64, 64 * 32, 9, 8 * 32 * 32},
              .ints = {64},
              .consts = blocks,
              .values = {32, 32, 16},
              .gx = 8,
              .gy = 1};
  check(&k);
}

static void test_chained(void **s) {
  (void)s;
  for (nereid_dtype t = NEREID_F16; t <= NEREID_F32; t++)
    check(&(Kernel){.name = "chained",
                    .types = {t, t, t, NEREID_F32},
                    .counts = {32 * 64, 64 * 32, 48 * 32, 5 * 32 * 32},
                    .ints = {64, 48},
                    .consts = blocks,
                    .values = {32, 32, 16},
                    .gx = 5,
                    .gy = 1});
}

static void test_split_k(void **s) {
  (void)s;
  static const char *const consts[] = {"PART", "BM", "BN", "BK", NULL};
  check(&(Kernel){.name = "split_k",
                  .types = {NEREID_F32, NEREID_F32, NEREID_F32},
                  .counts = {32 * 256, 256 * 32, 32 * 32},
                  .ints = {256},
                  .consts = consts,
                  .values = {64, 32, 32, 32},
                  .gx = 4,
                  .gy = 1});
}

static void test_squared(void **s) {
  (void)s;
  static const char *const consts[] = {"BM", NULL};
  check(&(Kernel){.name = "squared",
                  .types = {NEREID_F32, NEREID_F32},
                  .counts = {32 * 96, 32 * 32},
                  .ints = {96},
                  .consts = consts,
                  .values = {32},
                  .gx = 1,
                  .gy = 1});
}

/* Operands that are loaded in another shape, and sums that are stored in one. */
static void test_reshaped(void **s) {
  (void)s;
  static const char *const consts[] = {"BM", "Y", "X", "BK", NULL};
  static const int64_t wide[] = {16, 30, 45};
  for (int i = 0; i < 3; i++)
    for (int64_t k = 30; k <= 96; k += 66)
      check(&(Kernel){.name = "pixels",
                      .types = {NEREID_F32, NEREID_F32, NEREID_F32},
                      .counts = {32 * k, k / 3 * 32 * wide[i], 32 * 30 * wide[i]},
                      .ints = {k, wide[i]},
                      .consts = consts,
                      .values = {32, i == 1 ? 1 : 4, i == 1 ? 32 : 16, 32},
                      .gx = cdiv(30, i == 1 ? 1 : 4),
                      .gy = cdiv(wide[i], i == 1 ? 32 : 16)});
  static const nereid_dtype types[] = {NEREID_F32, NEREID_F16};
  for (int t = 0; t < 2; t++)
    check(&(Kernel){.name = "reshaped",
                    .types = {types[t], types[t], NEREID_F32},
                    .counts = {32 * 96, 96 * 32, 32 * 32},
                    .ints = {96},
                    .consts = blocks,
                    .values = {32, 32, 32},
                    .gx = 1,
                    .gy = 1});
}

static int teardown(void **s) {
  (void)s;
  test_devices_close();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain),        cmocka_unit_test(test_int8),           cmocka_unit_test(test_long),
      cmocka_unit_test(test_gated),        cmocka_unit_test(test_in_place),       cmocka_unit_test(test_overlap),
      cmocka_unit_test(test_dequantized),  cmocka_unit_test(test_ragged),         cmocka_unit_test(test_chained),
      cmocka_unit_test(test_split_k),      cmocka_unit_test(test_squared),        cmocka_unit_test(test_many_rows),
      cmocka_unit_test(test_several_ends), cmocka_unit_test(test_emulated_tiles), cmocka_unit_test(test_placed),
      cmocka_unit_test(test_reshaped),
  };
  return cmocka_run_group_tests_name("gemm", tests, NULL, teardown);
}
