/* Products by cuBLAS, against a driver and a cuBLAS of our own making: operands by columns, types, its workspace,
 * streams and graphs. */
#include "fakes/cublas.h"
#include "base/base.h"
#include "fakes/cuda_kit.h"
#include "unit/fuse/library_kit.h"

#include <dlfcn.h>
#include <unistd.h>

static FakeCuda *fake;
static FakeCublas *blas;
static void (*fake_reset)(void);
static nereid_device *gpu;
static char caches[] = "/tmp/nereid-test-cublas-XXXXXX";

static int setup(void **state) {
  setenv("NEREID_LIBCUDA", FAKE_CUDA, 1);
  setenv("NEREID_LIBCUBLAS", FAKE_CUBLAS, 1);
  setenv("NEREID_PTXAS", "none", 1);
  setenv("NEREID_CACHE_DIR", caches, 1);
  fake_reset();
  *blas = (FakeCublas){0};
  gpu = kit_device("cuda");
  return 0;
}

static int teardown(void **state) {
  nereid_device_close(gpu);
  assert_int_equal(blas->handles, 0);
  assert_int_equal(blas->wrong, 0);
  assert_nothing_left(fake);
  return 0;
}

typedef struct Case {
  const char *expression; /* of a, b and c */
  nereid_dtype type;
  int64_t shapes[3][LIBRARY_RANK]; /* ended by 0 */
  int calls, batched, compute;
} Case;

static nereid_fusion *plan_by(const Case *c, nereid_fuse_products who) {
  nereid_tensor in[3], out;
  nereid_fusion *f = NULL;
  nereid_builder *g = builder_of(c->expression, c->type, c->shapes, in, &out);
  nereid_fuse_options o = {.device = gpu, .products = who};
  assert_ok(nereid_builder_compile(g, &out, 1, &o, &f, &error));
  nereid_builder_free(g);
  return f;
}

static nereid_fusion *plan(const Case *c) { return plan_by(c, NEREID_PRODUCTS_LIBRARY); }

static const Case cases[] = {
    {"a @ b", NEREID_F32, {{5, 7}, {7, 9}}, 1, 0, 68},
    {"a @ b", NEREID_F64, {{5, 7}, {7, 9}}, 1, 0, 70},
    {"a @ b", NEREID_F16, {{5, 7}, {7, 9}}, 1, 0, 68},
    {"a @ b", NEREID_BF16, {{5, 7}, {7, 9}}, 1, 0, 68},
    {"a.T @ b", NEREID_F32, {{7, 5}, {7, 9}}, 1, 0, 68},
    {"a @ b.T", NEREID_F16, {{5, 7}, {9, 7}}, 1, 0, 68},
    {"a.T @ b.T", NEREID_F32, {{7, 5}, {9, 7}}, 1, 0, 68},
    {"a[2:5, 1:5] @ b[:, 3:]", NEREID_F32, {{6, 8}, {4, 9}}, 1, 0, 68},
    {"a @ b", NEREID_BF16, {{3, 5, 7}, {3, 7, 9}}, 1, 1, 68},
    {"a @ b", NEREID_F32, {{5, 7}, {3, 7, 9}}, 1, 1, 68},
    {"a.transpose(0, 1) @ b.transpose(0, 1)", NEREID_F64, {{5, 3, 7}, {7, 3, 9}}, 1, 1, 70},
    {"a @ b", NEREID_F32, {{1, 7}, {7, 9}}, 1, 0, 68},
    {"(a @ b) @ c", NEREID_F32, {{5, 7}, {7, 9}, {9, 4}}, 2, 0, 68},
};

static void products_by_columns(void **state) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Case *c = &cases[i];
    nereid_fusion *f = plan(c);
    Arrays a = make_arrays(gpu, f, 0);
    blas->calls = blas->batched = 0;
    assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
    assert_right(c->expression, &a);
    assert_int_equal(blas->calls, c->calls);
    assert_int_equal(blas->batched, c->batched);
    assert_int_equal(blas->compute, c->compute);
    free_arrays(gpu, &a);
    nereid_fusion_free(f);
  }
}

/* The second run is recorded: its products are calls in a stream that captures, with memory that was there before. */
static void a_recorded_program_asks_for_nothing(void **state) {
  const Case *c = &cases[sizeof cases / sizeof *cases - 1];
  nereid_fusion *f = plan(c);
  Arrays a = make_arrays(gpu, f, 0);
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  int allocations = fake->allocations;
  blas->calls = 0;
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  assert_int_equal(blas->calls, 2);
  assert_non_null(blas->stream);
  assert_int_equal(fake->graph_launches, 1);
  assert_int_equal(fake->forbidden_in_capture, 0);
  assert_int_equal(fake->allocations, allocations);
  assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
  assert_int_equal(blas->calls, 2);
  assert_int_equal(fake->graph_launches, 2);
  free_arrays(gpu, &a);
  nereid_fusion_free(f);
}

static void it_runs_in_the_callers_stream(void **state) {
  nereid_fusion *f = plan(&cases[0]);
  Arrays a = make_arrays(gpu, f, 0);
  nereid_stream *s = NULL;
  assert_ok(nereid_stream_create(gpu, &s, &error));
  assert_ok(nereid_fusion_run(f, gpu, s, a.in, a.out, &error));
  assert_ptr_equal(blas->stream, nereid_stream_native(s));
  assert_right(cases[0].expression, &a);
  nereid_stream_destroy(s);
  free_arrays(gpu, &a);
  nereid_fusion_free(f);
}

/* Beside kernels, which do nothing here: that all of them ran, and what is left behind. */
static void products_are_measured(void **state) {
  const Case large = {"F.gelu(a @ b)", NEREID_F16, {{512, 64}, {64, 1024}}, 0, 0, 0};
  nereid_fusion *f = plan_by(&large, NEREID_PRODUCTS_AUTO);
  int calls = blas->calls, launches = fake->launches;
  const char *text = nereid_fusion_text(f, "explain");
  assert_non_null(strstr(text, "as measured: tiles of "));
  assert_non_null(strstr(text, ", cuBLAS 13.12.11 "));
  assert_true(calls >= 3 && launches >= 5 * 3);
  assert_int_equal(fake->allocations, blas->handles); /* of the library, if it is taken: for the first run */
  nereid_fusion_free(f);
  f = plan_by(&large, NEREID_PRODUCTS_AUTO);
  assert_non_null(strstr(nereid_fusion_text(f, "explain"), "as measured: tiles of "));
  assert_int_equal(blas->calls, calls);
  assert_int_equal(fake->launches, launches);
  nereid_fusion_free(f);
}

static void fails(nereid_status status, const char *words) {
  nereid_fusion *f = plan(&cases[0]);
  Arrays a = make_arrays(gpu, f, 0);
  assert_says(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error), status, words);
  blas->result = 0;
  if (!blas->create_result && blas->handles) { /* it goes on */
    assert_ok(nereid_fusion_run(f, gpu, NULL, a.in, a.out, &error));
    assert_right(cases[0].expression, &a);
  }
  free_arrays(gpu, &a);
  nereid_fusion_free(f);
}

static void what_fails_is_said(void **state) {
  blas->result = 14;
  fails(NEREID_UNSUPPORTED, "cuBLAS 13.12.11: cublasGemmEx fails with status 14");
  blas->create_result = 3;
  fails(NEREID_OUT_OF_MEMORY, "cublasCreate fails with status 3");
  setenv("NEREID_LIBCUBLAS", "/no/such/library.so", 1);
  fails(NEREID_UNSUPPORTED, "cuBLAS was not found");
}

int main(void) {
  setenv("NEREID_LIBCUDA", FAKE_CUDA, 1);
  void *driver = dlopen(FAKE_CUDA, RTLD_NOW), *library = dlopen(FAKE_CUBLAS, RTLD_NOW);
  FakeCuda *(*find)(void) = NULL;
  FakeCublas *(*find_blas)(void) = NULL;
  if (!driver || !library || !mkdtemp(caches)) return 1;
  *(void **)&find = dlsym(driver, "fake_cuda");
  *(void **)&fake_reset = dlsym(driver, "fake_reset");
  *(void **)&find_blas = dlsym(library, "fake_cublas");
  fake = find();
  blas = find_blas();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(products_by_columns, setup, teardown),
      cmocka_unit_test_setup_teardown(a_recorded_program_asks_for_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(it_runs_in_the_callers_stream, setup, teardown),
      cmocka_unit_test_setup_teardown(products_are_measured, setup, teardown),
      cmocka_unit_test_setup_teardown(what_fails_is_said, setup, teardown),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", caches);
  return failed | system(command);
}
