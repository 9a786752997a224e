/* Convolutions by cuDNN, against a driver and a cuDNN of our own making: the three parts in 1 to 3 dims, its ways and
 * their memory, streams and graphs, and what is done where it cannot. */
#include "fakes/cudnn.h"
#include "base/base.h"
#include "fakes/cuda_kit.h"

#include <dlfcn.h>
#include <unistd.h>

static FakeCuda *fake;
static FakeCudnn *dnn;
static void (*fake_reset)(void);
static nereid_device *gpu;
static char caches[] = "/tmp/nereid-test-cudnn-XXXXXX";

static int setup(void **state) {
  setenv("NEREID_LIBCUDA", FAKE_CUDA, 1);
  setenv("NEREID_LIBCUDNN", FAKE_CUDNN, 1);
  setenv("NEREID_PTXAS", "none", 1);
  setenv("NEREID_CACHE_DIR", caches, 1);
  fake_reset();
  *dnn = (FakeCudnn){0};
  for (int i = 0; i < FAKE_CUDNN_WAYS; i++) dnn->note[i] = -1;
  gpu = kit_device("cuda");
  return 0;
}

static int teardown(void **state) {
  nereid_device_close(gpu);
  assert_int_equal(dnn->handles, 0);
  assert_int_equal(dnn->descriptors, 0);
  assert_int_equal(dnn->wrong, 0);
  assert_nothing_left(fake);
  return 0;
}

typedef struct Case {
  const char *expression; /* of a, b and c */
  nereid_dtype type;
  int64_t shapes[3][5]; /* ended by 0 */
  bool by_filter;       /* its gradient by b, where that of the result is c, and not itself */
} Case;

static int rank_of(const int64_t *shape) {
  int n = 0;
  while (n < 5 && shape[n]) n++;
  return n;
}

static nereid_fusion *plan_by(const Case *c, nereid_fuse_products who) {
  nereid_builder *g = NULL;
  nereid_tensor in[3], out;
  nereid_fusion *f = NULL;
  int n = 0;
  assert_ok(nereid_builder_create(NULL, &g, &error));
  for (; n < 3 && c->shapes[n][0]; n++)
    assert_ok(nereid_builder_input(g, (const char *[]){"a", "b", "c"}[n], c->type, rank_of(c->shapes[n]), c->shapes[n],
                                   &in[n], &error));
  assert_ok(nereid_builder_op(g, c->expression, in, n, &out, 1, &error));
  if (c->by_filter) assert_ok(nereid_builder_gradients(g, &out, &in[2], 1, &in[1], 1, &out, &error));
  nereid_fuse_options o = {.device = gpu, .products = who};
  assert_ok(nereid_builder_compile(g, &out, 1, &o, &f, &error));
  nereid_builder_free(g);
  return f;
}

static nereid_fusion *plan(const Case *c) { return plan_by(c, NEREID_PRODUCTS_LIBRARY); }

typedef struct Arrays {
  void *all[3], *in[3], *out[1];
  double *wanted;
  int64_t count;
  nereid_dtype type;
} Arrays;

/* Small integers, of which all sums are exact. The first operand begins `shift` bytes into its array. */
static Arrays make_arrays(nereid_fusion *f, int shift) {
  nereid_tensor_info t = nereid_fusion_output(f, 0);
  Arrays a = {.count = 1, .type = t.dtype};
  for (int d = 0; d < t.rank; d++) a.count *= t.shape[d];
  size_t size = nereid_dtype_bytes(t.dtype);
  for (int i = 0; i < nereid_fusion_input_count(f); i++) {
    nereid_tensor_info x = nereid_fusion_input(f, i);
    int64_t n = 1;
    for (int d = 0; d < x.rank; d++) n *= x.shape[d];
    assert_ok(nereid_alloc(gpu, n * (int64_t)size + 16, &a.all[i], &error));
    a.in[i] = (char *)a.all[i] + (i ? 0 : shift);
    for (int64_t k = 0; k < n; k++)
      nereid_dtype_store(x.dtype, (char *)a.in[i] + (size_t)k * size, (double)(k * 7 % 5 - 2));
  }
  assert_ok(nereid_alloc(gpu, a.count * (int64_t)size, &a.out[0], &error));
  a.wanted = calloc((size_t)a.count, sizeof *a.wanted);
  assert_ok(nereid_fusion_reference(f, (const void *const *)a.in, &a.wanted, NULL, &error));
  return a;
}

static void assert_right(const Case *c, const Arrays *a) {
  size_t size = nereid_dtype_bytes(a->type);
  for (int64_t i = 0; i < a->count; i++) {
    double got = nereid_dtype_load(a->type, (char *)a->out[0] + (size_t)i * size);
    if (got != a->wanted[i]) fail_msg("%s: element %lld is %g, not %g", c->expression, (long long)i, got, a->wanted[i]);
  }
  memset(a->out[0], 0, (size_t)a->count * size);
}

static void free_arrays(Arrays *a) {
  for (int i = 0; i < 3; i++)
    if (a->all[i]) nereid_free(gpu, a->all[i]);
  nereid_free(gpu, a->out[0]);
  free(a->wanted);
}

static bool says(nereid_fusion *f, const char *words) {
  return strstr(nereid_fusion_text(f, "explain"), words) != NULL;
}

static const Case cases[] = {
    {"F.conv2d(a, b)", NEREID_F32, {{2, 3, 7, 6}, {4, 3, 3, 2}}, false},
    {"F.conv2d(a, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2))", NEREID_F16, {{2, 3, 7, 6}, {4, 3, 3, 2}}, false},
    {"F.conv2d(a, b, padding='same', groups=2)", NEREID_BF16, {{1, 4, 5, 6}, {6, 2, 3, 3}}, false},
    {"F.conv2d(a, b, padding=1, groups=4)", NEREID_F32, {{2, 4, 5, 6}, {4, 1, 3, 3}}, false},
    {"F.conv1d(a, b, stride=2, padding=3)", NEREID_F32, {{2, 3, 9}, {5, 3, 4}}, false},
    {"F.conv3d(a, b, stride=2, padding=1)", NEREID_F32, {{1, 2, 5, 4, 6}, {3, 2, 3, 3, 2}}, false},
    {"F.conv_transpose2d(a, b, stride=2, padding=1, output_padding=1)",
     NEREID_F32,
     {{2, 3, 4, 5}, {3, 2, 3, 3}},
     false},
    {"F.conv_transpose2d(a, b, stride=3, groups=2)", NEREID_F16, {{1, 4, 3, 3}, {4, 3, 2, 2}}, false},
    {"F.conv_transpose1d(a, b, dilation=2)", NEREID_F32, {{2, 3, 7}, {3, 2, 3}}, false},
    {"F.conv_transpose3d(a, b, stride=(1, 2, 2))", NEREID_F32, {{1, 2, 3, 2, 3}, {2, 2, 2, 3, 3}}, false},
    {"F.conv2d(a, b, stride=2, padding=1)", NEREID_F32, {{2, 3, 7, 6}, {4, 3, 3, 3}, {2, 4, 4, 3}}, true},
    {"F.conv2d(a, b, groups=2)", NEREID_F32, {{2, 4, 5, 5}, {2, 2, 3, 3}, {2, 2, 3, 3}}, true},
    {"F.conv_transpose2d(a, b, stride=2)", NEREID_F32, {{2, 3, 4, 5}, {3, 2, 3, 3}, {2, 2, 9, 11}}, true},
};
enum { CASES = sizeof cases / sizeof *cases };

static void all_parts_of_convolutions(void **state) {
  for (size_t i = 0; i < CASES; i++) {
    nereid_fusion *f = plan(&cases[i]), *ours = plan_by(&cases[i], NEREID_PRODUCTS_OWN);
    Arrays a = make_arrays(f, 0), b = make_arrays(ours, 0); /* the same, by products of windows */
    assert_memory_equal(a.wanted, b.wanted, sizeof *a.wanted * (size_t)a.count);
    assert_true(says(f, ": the library's\n"));
    dnn->calls = 0;
    assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
    assert_int_equal(dnn->calls, 1);
    assert_int_equal(dnn->alignment, 16);
    assert_int_equal(dnn->dims, rank_of(cases[i].shapes[0]) == 5 ? 5 : 4);
    assert_right(&cases[i], &a);
    free_arrays(&a);
    free_arrays(&b);
    nereid_fusion_free(f);
    nereid_fusion_free(ours);
  }
}

/* Two after each other; the second run is recorded, with memory that was there before. */
static void a_recorded_program_asks_for_nothing(void **state) {
  const Case two = {"F.conv2d(F.conv2d(a, b), b)", NEREID_F32, {{1, 3, 8, 8}, {3, 3, 2, 2}}, false};
  for (int i = 0; i < FAKE_CUDNN_WAYS; i++) dnn->workspace[i] = 1000;
  nereid_fusion *f = plan(&two);
  Arrays a = make_arrays(f, 0);
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  assert_right(&two, &a);
  int allocations = fake->allocations;
  dnn->calls = 0;
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  assert_int_equal(dnn->calls, 2);
  assert_non_null(dnn->stream);
  assert_int_equal(fake->graph_launches, 1);
  assert_int_equal(fake->forbidden_in_capture, 0);
  assert_int_equal(fake->allocations, allocations);
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  assert_int_equal(dnn->calls, 2);
  free_arrays(&a);
  nereid_fusion_free(f);
}

static void arrays_that_lie_elsewhere_get_another_plan(void **state) {
  nereid_fusion *f = plan(&cases[0]);
  Arrays a = make_arrays(f, 0), b = make_arrays(f, 4);
  nereid_stream *s = NULL;
  assert_ok(nereid_stream_create(gpu, &s, &error));
  assert_ok(nereid_fusion_run(f, gpu, s, a.in, a.out, &error));
  assert_int_equal(dnn->alignment, 16);
  assert_ok(nereid_fusion_run(f, gpu, s, b.in, b.out, &error));
  assert_int_equal(dnn->alignment, 4);
  assert_ptr_equal(dnn->stream, nereid_stream_native(s));
  assert_right(&cases[0], &b);
  nereid_stream_destroy(s);
  free_arrays(&a);
  free_arrays(&b);
  nereid_fusion_free(f);
}

/* Plans that are not supported, engines that round to f16, and scratch memory that is not there are passed over. */
static void the_first_way_that_can_be_gone(void **state) {
  dnn->plan_result[0] = 3000;
  dnn->note[1] = 1;
  dnn->workspace[2] = INT64_C(1) << 60;
  nereid_fusion *f = plan(&cases[0]);
  Arrays a = make_arrays(f, 0);
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  assert_int_equal(dnn->way, 3);
  assert_right(&cases[0], &a);
  free_arrays(&a);
  nereid_fusion_free(f);
  dnn->plan_result[3] = 3000;
  f = plan(&cases[0]);
  a = make_arrays(f, 0);
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  assert_int_equal(dnn->way, 4);
  free_arrays(&a);
  nereid_fusion_free(f);
}

static const Case large = {"F.gelu(F.conv2d(a, b))", NEREID_F16, {{16, 32, 34, 34}, {64, 32, 3, 3}}, false};

/* Beside kernels, which do nothing here: that all of them ran, and what is left behind. */
static void convolutions_are_measured(void **state) {
  dnn->idle = 1;
  nereid_fusion *f = plan_by(&large, NEREID_PRODUCTS_KEPT);
  assert_false(says(f, "as measured: ours takes"));
  nereid_fusion_free(f);
  dnn->execute_result = 5000; /* of no use: ours is the only one left */
  f = plan_by(&large, NEREID_PRODUCTS_AUTO);
  assert_false(says(f, "as measured: ours takes"));
  nereid_fusion_free(f);
  dnn->execute_result = 0;
  dnn->plan_result[1] = 3000;
  dnn->calls = 0;
  f = plan_by(&large, NEREID_PRODUCTS_AUTO);
  int calls = dnn->calls;
  assert_true(says(f, "as measured: ours takes"));
  assert_true(says(f, ", cuDNN 9.19.2 "));
  assert_true(calls >= 3 * 2); /* the second is recorded, and replayed */
  nereid_fusion_free(f);
  f = plan_by(&large, NEREID_PRODUCTS_KEPT);
  assert_true(says(f, "as measured: ours takes"));
  assert_int_equal(dnn->calls, calls);
  nereid_fusion_free(f);
}

static void ours_where_the_library_cannot(void **state) {
  dnn->idle = 1;
  dnn->graph_result = 3000;
  nereid_fusion *f = plan(&cases[0]);
  assert_true(says(f, ": ours: cuDNN 9.19.2: a convolution's graph fails with status 3000\n"));
  nereid_fusion_free(f);
  dnn->graph_result = 0;
  for (int i = 0; i < FAKE_CUDNN_WAYS; i++) dnn->plan_result[i] = 3000;
  f = plan(&cases[0]);
  assert_true(says(f, ": ours: cuDNN 9.19.2 has no such convolution\n"));
  nereid_fusion_free(f);
  dnn->create_result = 1001;
  f = plan(&cases[0]);
  assert_true(says(f, ": ours: cuDNN 9.19.2: cudnnCreate fails with status 1001\n"));
  nereid_fusion_free(f);
  setenv("NEREID_LIBCUDNN", "/no/such/library.so", 1);
  f = plan(&cases[0]);
  assert_true(says(f, ": ours: cuDNN was not found"));
  nereid_fusion_free(f);
  f = plan_by(&large, NEREID_PRODUCTS_AUTO);
  assert_false(says(f, "the library's"));
  nereid_fusion_free(f);
}

static void a_run_that_fails_says_so(void **state) {
  nereid_fusion *f = plan(&cases[0]);
  Arrays a = make_arrays(f, 0);
  dnn->execute_result = 5003;
  assert_says(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error), NEREID_UNSUPPORTED,
              "cuDNN 9.19.2: cudnnBackendExecute fails with status 5003");
  dnn->execute_result = 0;
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  assert_right(&cases[0], &a);
  free_arrays(&a);
  nereid_fusion_free(f);
}

int main(void) {
  setenv("NEREID_LIBCUDA", FAKE_CUDA, 1);
  void *driver = dlopen(FAKE_CUDA, RTLD_NOW), *library = dlopen(FAKE_CUDNN, RTLD_NOW);
  FakeCuda *(*find)(void) = NULL;
  FakeCudnn *(*find_dnn)(void) = NULL;
  if (!driver || !library || !mkdtemp(caches)) return 1;
  *(void **)&find = dlsym(driver, "fake_cuda");
  *(void **)&fake_reset = dlsym(driver, "fake_reset");
  *(void **)&find_dnn = dlsym(library, "fake_cudnn");
  fake = find();
  dnn = find_dnn();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(all_parts_of_convolutions, setup, teardown),
      cmocka_unit_test_setup_teardown(a_recorded_program_asks_for_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(arrays_that_lie_elsewhere_get_another_plan, setup, teardown),
      cmocka_unit_test_setup_teardown(the_first_way_that_can_be_gone, setup, teardown),
      cmocka_unit_test_setup_teardown(convolutions_are_measured, setup, teardown),
      cmocka_unit_test_setup_teardown(ours_where_the_library_cannot, setup, teardown),
      cmocka_unit_test_setup_teardown(a_run_that_fails_says_so, setup, teardown),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", caches);
  return failed | system(command);
}
