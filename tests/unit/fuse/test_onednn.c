/* Convolutions by oneDNN, on the CPU: the three parts in 1 to 3 dims, recorded programs, and what is done without it.
 * It is the machine's own library (tests/setup installs one); where there is none, that is said, and the rest is left
 * out. */
#include "unit/fuse/convolution_kit.h"

#include <math.h>
#include <unistd.h>

static nereid_device *cpu;
static bool missing;

static int setup(void **state) {
  cpu = kit_device("cpu:2");
  return 0;
}

static int teardown(void **state) {
  nereid_device_close(cpu);
  unsetenv("NEREID_LIBDNNL");
  return 0;
}

static nereid_fusion *plan(const Case *c, nereid_fuse_products who) { return plan_on(cpu, c, NEREID_F32, who); }

static void without_it_convolutions_are_ours(void **state) {
  nereid_fusion *f = plan(&cases[0], NEREID_PRODUCTS_LIBRARY);
  missing = says(f, ": ours: oneDNN was not found");
  if (missing) fprintf(stderr, "oneDNN is not there (Debian: libdnnl3 or libdnnl2): its convolutions are not tested\n");
  nereid_fusion_free(f);
  setenv("NEREID_LIBDNNL", "/no/such/library.so", 1);
  f = plan(&cases[0], NEREID_PRODUCTS_LIBRARY);
  assert_true(says(f, ": ours: oneDNN was not found"));
  nereid_fusion_free(f);
  setenv("NEREID_LIBDNNL", "libm.so.6", 1);
  f = plan(&cases[0], NEREID_PRODUCTS_LIBRARY);
  assert_true(says(f, ": ours: this is no oneDNN 2 or 3: it has no dnnl_version"));
  Arrays a = make_arrays(cpu, f, 0);
  assert_ok(nereid_fusion_run(f, cpu, NULL, a.in, a.out, &error));
  assert_right(cases[0].expression, &a);
  free_arrays(cpu, &a);
  nereid_fusion_free(f);
}

static void all_parts_of_convolutions(void **state) {
  for (size_t i = 0; i < CASES && !missing; i++) {
    nereid_fusion *f = plan(&cases[i], NEREID_PRODUCTS_LIBRARY);
    Arrays a = make_arrays(cpu, f, 0), b = make_arrays(cpu, f, 4);
    assert_true(says(f, ": the library's\n"));
    assert_ok(nereid_fusion_run(f, cpu, NULL, a.in, a.out, &error));
    assert_right(cases[i].expression, &a);
    assert_ok(nereid_fusion_run(f, cpu, NULL, b.in, b.out, &error));
    assert_right(cases[i].expression, &b);
    free_arrays(cpu, &a);
    free_arrays(cpu, &b);
    nereid_fusion_free(f);
  }
}

/* Turned before, and back after, unless that moves nothing. */
static void all_parts_with_channels_last(void **state) {
  for (size_t i = 0; i < CASES && !missing; i++) {
    nereid_fusion *f = plan_in(cpu, &cases[i], NEREID_F32, NEREID_PRODUCTS_LIBRARY, NEREID_LAYOUTS_CHANNELS_LAST);
    Arrays a = make_arrays(cpu, f, 0);
    assert_true(says(f, ": the library's, channels last\n"));
    assert_ok(nereid_fusion_run(f, cpu, NULL, a.in, a.out, &error));
    assert_right(cases[i].expression, &a);
    free_arrays(cpu, &a);
    nereid_fusion_free(f);
  }
}

/* What stands around, in the order in which it lies; each beside float64. */
static void work_follows_the_layout(void **state) {
  static const Case each[] = {
      {"F.relu(F.conv2d(F.relu(F.conv2d(a, b, padding=1)), b))", NEREID_F32, {{2, 4, 6, 5}, {4, 4, 3, 3}}, false},
      {"F.conv2d(a, b, padding=1) + a", NEREID_F32, {{2, 4, 6, 5}, {4, 4, 3, 3}}, false},
      {"F.conv2d(a, b).flatten(1).sum(1)", NEREID_F32, {{2, 4, 6, 5}, {4, 4, 3, 3}}, false},
      {"F.conv2d(a, b).reshape(2, 2, 2, 4, 3).amax((2, 3, 4))", NEREID_F32, {{2, 4, 6, 5}, {4, 4, 3, 3}}, false},
      {"(F.conv2d(a, b) * 2).sum((0, 2, 3))", NEREID_F32, {{2, 4, 6, 5}, {4, 4, 3, 3}}, false},
      {"F.conv2d(a, b) - F.conv2d(a, b).amax(1, keepdim=True)", NEREID_F32, {{2, 4, 6, 5}, {4, 4, 3, 3}}, false},
      {"F.max_pool2d(F.pad(F.relu(F.conv2d(a, b)), (1, 0, 1, 1)), 2)", NEREID_F32, {{2, 4, 6, 5}, {4, 4, 3, 3}}, false},
      {"torch.cat([F.conv2d(a, b, padding=1), a], 1)[:, 1:6].permute(0, 2, 3, 1)",
       NEREID_F32,
       {{2, 4, 6, 5}, {4, 4, 3, 3}},
       false},
      {"F.conv_transpose2d(a, b, stride=2).unsqueeze(2).transpose(1, 3)",
       NEREID_F32,
       {{2, 4, 6, 5}, {4, 4, 3, 3}},
       false},
      {"F.relu(F.conv2d(a, b)).flatten(1) @ c", NEREID_F32, {{2, 4, 6, 5}, {4, 4, 3, 3}, {48, 3}}, false},
  };
  for (size_t i = 0; i < sizeof each / sizeof *each && !missing; i++) {
    nereid_fusion *f = plan_in(cpu, &each[i], NEREID_F32, NEREID_PRODUCTS_LIBRARY, NEREID_LAYOUTS_CHANNELS_LAST);
    Arrays a = make_arrays(cpu, f, 0);
    assert_true(says(f, ": the library's, channels last\n"));
    assert_ok(nereid_fusion_run(f, cpu, NULL, a.in, a.out, &error));
    assert_right(each[i].expression, &a);
    free_arrays(cpu, &a);
    nereid_fusion_free(f);
  }
}

/* With kernels before and after; recorded, it runs when the graph does. */
static void among_kernels(void **state) {
  const Case c = {"F.relu(F.conv2d(F.conv2d(a * 2, b), b)) - 1", NEREID_F32, {{1, 3, 8, 8}, {3, 3, 2, 2}}, false};
  nereid_fusion *f = plan(&c, NEREID_PRODUCTS_LIBRARY);
  Arrays a = make_arrays(cpu, f, 0);
  nereid_stream *s = NULL;
  nereid_graph *g = NULL;
  assert_ok(nereid_fusion_run(f, cpu, NULL, a.in, a.out, &error));
  assert_right(c.expression, &a);
  assert_ok(nereid_stream_create(cpu, &s, &error));
  assert_ok(nereid_graph_begin(cpu, s, &error));
  assert_ok(nereid_fusion_run(f, cpu, s, a.in, a.out, &error));
  assert_ok(nereid_graph_end(cpu, s, &g, &error));
  assert_ok(nereid_graph_launch(g, s, &error));
  assert_ok(nereid_stream_synchronize(cpu, s, &error));
  assert_right(c.expression, &a);
  nereid_graph_free(g);
  nereid_stream_destroy(s);
  free_arrays(cpu, &a);
  nereid_fusion_free(f);
}

/* A library that is not there is not measured; one that is, once. */
static void it_is_measured_once(void **state) {
  const Case large = {"F.conv2d(a, b)", NEREID_F32, {{2, 32, 34, 34}, {64, 32, 3, 3}}, false};
  nereid_fusion *f = plan(&large, NEREID_PRODUCTS_AUTO);
  assert_int_equal(says(f, "as measured: ours takes"), !missing);
  Arrays a = make_arrays(cpu, f, 0);
  assert_ok(nereid_fusion_run(f, cpu, NULL, a.in, a.out, &error));
  assert_right(large.expression, &a);
  free_arrays(cpu, &a);
  nereid_fusion_free(f);
  f = plan(&large, NEREID_PRODUCTS_KEPT);
  assert_int_equal(says(f, "as measured: ours takes"), !missing);
  nereid_fusion_free(f);
}

enum { CHANNELS = 256, FILTERS = 64, SIDE = 10, OUT = SIDE - 2 };

static double sum_at(const float *x, const float *w, int filter, int row, int column) {
  double sum = 0;
  for (int c = 0; c < CHANNELS; c++)
    for (int i = 0; i < 9; i++)
      sum += (double)x[(c * SIDE + row + i / 3) * SIDE + column + i % 3] * w[(filter * CHANNELS + c) * 9 + i];
  return sum;
}

static void fill(float *to, int n, uint32_t seed) {
  for (int i = 0; i < n; i++) to[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
}

/* Of 2304 terms a sum in one chain is 2e-6 off: a library that adds up so is not chosen, however fast it is. */
static void what_is_chosen_is_exact(void **state) {
  const Case long_sums = {"F.conv2d(a, b)", NEREID_F32, {{1, CHANNELS, SIDE, SIDE}, {FILTERS, CHANNELS, 3, 3}}, false};
  nereid_fusion *f = plan(&long_sums, NEREID_PRODUCTS_AUTO);
  Arrays a = make_arrays(cpu, f, 0);
  float *x = a.in[0], *w = a.in[1], *out = a.out[0]; /* of a CPU */
  double most = 0, apart = 0;
  fill(x, CHANNELS * SIDE * SIDE, 1);
  fill(w, FILTERS * CHANNELS * 9, 2);
  assert_ok(nereid_fusion_run(f, cpu, NULL, a.in, a.out, &error));
  for (int i = 0; i < FILTERS * OUT * OUT; i++) {
    double want = sum_at(x, w, i / (OUT * OUT), i / OUT % OUT, i % OUT);
    if (fabs(want) > most) most = fabs(want);
    if (fabs(want - out[i]) > apart) apart = fabs(want - out[i]);
  }
  if (apart > 1.2e-6 * most) fail_msg("off by %.2g of the largest: %s", apart / most, nereid_fusion_text(f, "explain"));
  free_arrays(cpu, &a);
  nereid_fusion_free(f);
}

/* oneDNN's threads are there to the end, and LeakSanitizer ends by a signal in their memory. */
#ifdef __SANITIZE_ADDRESS__
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }
#endif

int main(void) {
  char caches[] = "/tmp/nereid-test-onednn-XXXXXX";
  if (!mkdtemp(caches)) return 1;
  setenv("NEREID_CACHE_DIR", caches, 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(without_it_convolutions_are_ours, setup, teardown),
      cmocka_unit_test_setup_teardown(all_parts_of_convolutions, setup, teardown),
      cmocka_unit_test_setup_teardown(all_parts_with_channels_last, setup, teardown),
      cmocka_unit_test_setup_teardown(work_follows_the_layout, setup, teardown),
      cmocka_unit_test_setup_teardown(among_kernels, setup, teardown),
      cmocka_unit_test_setup_teardown(it_is_measured_once, setup, teardown),
      cmocka_unit_test_setup_teardown(what_is_chosen_is_exact, setup, teardown),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", caches);
  return failed | system(command);
}
