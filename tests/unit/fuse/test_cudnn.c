/* Convolutions by cuDNN, against a driver and a cuDNN of our own making: the three parts in 1 to 3 dims, its ways and
 * their memory, streams and graphs, and what is done where it cannot. */
#include "fakes/cudnn.h"
#include "base/base.h"
#include "fakes/cuda_kit.h"
#include "unit/fuse/convolution_kit.h"

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

static nereid_fusion *plan_by(const Case *c, nereid_fuse_products who) { return plan_on(gpu, c, c->type, who); }
static nereid_fusion *plan(const Case *c) { return plan_by(c, NEREID_PRODUCTS_LIBRARY); }

static void all_parts_of_convolutions(void **state) {
  for (size_t i = 0; i < CASES; i++) {
    nereid_fusion *f = plan(&cases[i]), *ours = plan_by(&cases[i], NEREID_PRODUCTS_OWN);
    Arrays a = make_arrays(gpu, f, 0), b = make_arrays(gpu, ours, 0); /* the same, by products of windows */
    assert_memory_equal(a.wanted, b.wanted, sizeof *a.wanted * (size_t)a.count);
    assert_true(says(f, ": the library's\n"));
    dnn->calls = 0;
    assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
    assert_int_equal(dnn->calls, 1);
    assert_int_equal(dnn->alignment, 16);
    assert_int_equal(dnn->dims, rank_of(cases[i].shapes[0]) == 5 ? 5 : 4);
    assert_right(cases[i].expression, &a);
    free_arrays(gpu, &a);
    free_arrays(gpu, &b);
    nereid_fusion_free(f);
    nereid_fusion_free(ours);
  }
}

/* As the graph has it: operands and results that lie so. */
static const char *const turned[] = {
    "%0 a: f32[2, 7, 6, 4], %1 b: f32[6, 3, 2, 2]) {\n  %2 = convolution %0, %1 {tf32=1, part=forward, groups=2, "
    "way=0, "
    "channels_last=1, dims=[2, 1, 1, 2, 1, 2]} : f32[2, 4, 8, 6]\n",
    "%0 a: f16[2, 9, 3], %1 b: f16[5, 4, 3]) {\n  %2 = convolution %0, %1 {tf32=0, part=forward, groups=1, way=0, "
    "channels_last=1, dims=[2, 3, 1]} : f16[2, 6, 5]\n",
    "%0 a: f32[1, 3, 2, 3, 4], %1 b: f32[4, 2, 3, 3, 2]) {\n  %2 = convolution %0, %1 {tf32=0, part=data, groups=1, "
    "way=0, channels_last=1, dims=[1, 2, 2, 0, 0, 0, 1, 1, 1]} : f32[1, 4, 5, 7, 2]\n",
    "%0 a: f32[2, 7, 6, 4], %1 b: f32[2, 4, 8, 6]) {\n  %2 = convolution %0, %1 {tf32=1, part=filter, groups=2, way=0, "
    "channels_last=1, dims=[2, 1, 1, 2, 1, 2]} : f32[6, 3, 2, 2]\n",
};

static void channels_may_come_last(void **state) {
  for (size_t i = 0; i < sizeof turned / sizeof *turned; i++) {
    char path[] = "/tmp/nereid-test-XXXXXX.graph";
    nereid_fuse_options o = {.device = gpu, .products = NEREID_PRODUCTS_LIBRARY};
    nereid_fusion *f = NULL;
    FILE *file = fdopen(mkstemps(path, 6), "w");
    fprintf(file, "graph @turned(%s  return %%2\n}\n", turned[i]);
    fclose(file);
    assert_ok(nereid_fuse(path, NULL, NULL, 0, &o, &f, &error));
    assert_int_equal(unlink(path), 0);
    Arrays a = make_arrays(gpu, f, 0);
    assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
    assert_true(dnn->channels_last);
    assert_right(turned[i], &a);
    free_arrays(gpu, &a);
    nereid_fusion_free(f);
  }
}

/* Images are turned before and after, unless that moves nothing. */
static void all_parts_with_channels_last(void **state) {
  const Case one = {"F.conv2d(a, b, padding=1)", NEREID_F16, {{2, 1, 5, 4}, {1, 1, 3, 3}}, false};
  for (size_t i = 0; i < CASES; i++) {
    nereid_fusion *f = plan_in(gpu, &cases[i], cases[i].type, NEREID_PRODUCTS_LIBRARY, NEREID_LAYOUTS_CHANNELS_LAST);
    Arrays a = make_arrays(gpu, f, 0);
    assert_true(says(f, ": the library's, channels last\n"));
    assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
    assert_true(dnn->channels_last);
    free_arrays(gpu, &a);
    nereid_fusion_free(f);
  }
  nereid_fusion *f = plan_in(gpu, &one, one.type, NEREID_PRODUCTS_LIBRARY, NEREID_LAYOUTS_CHANNELS_LAST);
  Arrays a = make_arrays(gpu, f, 0);
  assert_int_equal(nereid_fusion_kernel_count(f), 1);
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  assert_right(one.expression, &a);
  free_arrays(gpu, &a);
  nereid_fusion_free(f);
}

/* Two after each other; the second run is recorded, with memory that was there before. */
static void a_recorded_program_asks_for_nothing(void **state) {
  const Case two = {"F.conv2d(F.conv2d(a, b), b)", NEREID_F32, {{1, 3, 8, 8}, {3, 3, 2, 2}}, false};
  for (int i = 0; i < FAKE_CUDNN_WAYS; i++) dnn->workspace[i] = 1000;
  nereid_fusion *f = plan(&two);
  Arrays a = make_arrays(gpu, f, 0);
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  assert_right(two.expression, &a);
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
  free_arrays(gpu, &a);
  nereid_fusion_free(f);
}

static void arrays_that_lie_elsewhere_get_another_plan(void **state) {
  nereid_fusion *f = plan(&cases[0]);
  Arrays a = make_arrays(gpu, f, 0), b = make_arrays(gpu, f, 4);
  nereid_stream *s = NULL;
  assert_ok(nereid_stream_create(gpu, &s, &error));
  assert_ok(nereid_fusion_run(f, gpu, s, a.in, a.out, &error));
  assert_int_equal(dnn->alignment, 16);
  assert_ok(nereid_fusion_run(f, gpu, s, b.in, b.out, &error));
  assert_int_equal(dnn->alignment, 4);
  assert_ptr_equal(dnn->stream, nereid_stream_native(s));
  assert_right(cases[0].expression, &b);
  nereid_stream_destroy(s);
  free_arrays(gpu, &a);
  free_arrays(gpu, &b);
  nereid_fusion_free(f);
}

/* Plans that are not supported, engines that round to f16, and scratch memory that is not there are passed over. */
static void the_first_way_that_can_be_gone(void **state) {
  dnn->plan_result[0] = 3000;
  dnn->note[1] = 1;
  dnn->workspace[2] = INT64_C(1) << 60;
  nereid_fusion *f = plan(&cases[0]);
  Arrays a = make_arrays(gpu, f, 0);
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  assert_int_equal(dnn->way, 3);
  assert_right(cases[0].expression, &a);
  free_arrays(gpu, &a);
  nereid_fusion_free(f);
  dnn->plan_result[3] = 3000;
  f = plan(&cases[0]);
  a = make_arrays(gpu, f, 0);
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  assert_int_equal(dnn->way, 4);
  free_arrays(gpu, &a);
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
  assert_true(says(f, ", channels last "));
  assert_true(calls >= 3 * 2); /* the second is recorded, and replayed */
  nereid_fusion_free(f);
  f = plan_by(&large, NEREID_PRODUCTS_KEPT);
  assert_true(says(f, "as measured: ours takes"));
  assert_int_equal(dnn->calls, calls);
  nereid_fusion_free(f);
  f = plan_in(gpu, &large, large.type, NEREID_PRODUCTS_AUTO, NEREID_LAYOUTS_CONTIGUOUS);
  assert_true(says(f, "as measured: ours takes"));
  assert_false(says(f, "channels last"));
  nereid_fusion_free(f);
}

/* Whatever follows but a kernel that takes it row by row: elementwise work, poolings, statistics, softmax. */
static void what_is_reduced_is_raced_too(void **state) {
  static const char *const rows[] = {"F.conv2d(a, b).softmax(1)", "F.gelu(F.conv2d(a, b) * 2).mean((2, 3))",
                                     "F.max_pool2d(F.gelu(F.conv2d(a, b)), 2)",
                                     "F.max_pool2d(F.conv2d(a, b), 2).softmax(1)"};
  dnn->idle = 1;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Case c = large;
    c.expression = rows[i];
    nereid_fusion *f = plan_by(&c, NEREID_PRODUCTS_AUTO);
    assert_true(says(f, "as measured: ours takes"));
    assert_true(says(f, "channels last"));
    nereid_fusion_free(f);
  }
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
  Arrays a = make_arrays(gpu, f, 0);
  dnn->execute_result = 5003;
  assert_says(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error), NEREID_UNSUPPORTED,
              "cuDNN 9.19.2: cudnnBackendExecute fails with status 5003");
  dnn->execute_result = 0;
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  assert_right(cases[0].expression, &a);
  free_arrays(gpu, &a);
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
      cmocka_unit_test_setup_teardown(channels_may_come_last, setup, teardown),
      cmocka_unit_test_setup_teardown(all_parts_with_channels_last, setup, teardown),
      cmocka_unit_test_setup_teardown(a_recorded_program_asks_for_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(arrays_that_lie_elsewhere_get_another_plan, setup, teardown),
      cmocka_unit_test_setup_teardown(the_first_way_that_can_be_gone, setup, teardown),
      cmocka_unit_test_setup_teardown(convolutions_are_measured, setup, teardown),
      cmocka_unit_test_setup_teardown(what_is_reduced_is_raced_too, setup, teardown),
      cmocka_unit_test_setup_teardown(ours_where_the_library_cannot, setup, teardown),
      cmocka_unit_test_setup_teardown(a_run_that_fails_says_so, setup, teardown),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", caches);
  return failed | system(command);
}
