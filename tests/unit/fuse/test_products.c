/* Products by a library, against one of our own making (fakes/blas.h): which it is given, and with which strides. */
#include <dlfcn.h>
#include <nereid.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/blas.h"

static nereid_device *cpu;
static FakeBlas *fake;

static int start(void **state) {
  setenv("NEREID_LIBOPENBLAS", FAKE_BLAS, 1);
  void *library = dlopen(FAKE_BLAS, RTLD_NOW);
  FakeBlas *(*find)(void) = NULL;
  if (library) *(void **)&find = dlsym(library, "fake_blas");
  if (!find) return -1;
  fake = find();
  return nereid_device_open("cpu:2", &cpu, NULL) ? -1 : 0;
}

static int stop(void **state) {
  nereid_device_close(cpu);
  return 0;
}

typedef struct Case {
  const char *expression; /* of a and b */
  nereid_dtype type;
  int64_t a[4], b[4]; /* shapes, ended by 0 */
  int calls;          /* of the library, for one run */
} Case;

static int rank_of(const int64_t *shape) {
  int n = 0;
  while (n < 4 && shape[n]) n++;
  return n;
}

static int64_t count_of(const int64_t *shape) {
  int64_t n = 1;
  for (int i = 0; i < rank_of(shape); i++) n *= shape[i];
  return n;
}

static nereid_fusion *make(const Case *c, nereid_fuse_products who, nereid_device *d) {
  nereid_builder *g = NULL;
  nereid_tensor in[2], out;
  nereid_fusion *f = NULL;
  nereid_error *error = NULL;
  assert_int_equal(nereid_builder_create(NULL, &g, NULL), NEREID_OK);
  assert_int_equal(nereid_builder_input(g, "a", c->type, rank_of(c->a), c->a, &in[0], NULL), NEREID_OK);
  assert_int_equal(nereid_builder_input(g, "b", c->type, rank_of(c->b), c->b, &in[1], NULL), NEREID_OK);
  if (nereid_builder_op(g, c->expression, in, 2, &out, 1, &error)) fail_msg("%s", nereid_error_text(error));
  nereid_fuse_options o = {.device = d, .products = who};
  if (nereid_builder_compile(g, &out, 1, &o, &f, &error)) fail_msg("%s", nereid_error_text(error));
  nereid_builder_free(g);
  return f;
}

static void *numbers(nereid_dtype t, int64_t n) {
  char *p = malloc((size_t)n * nereid_dtype_bytes(t));
  for (int64_t i = 0; i < n; i++)
    nereid_dtype_store(t, p + (size_t)i * nereid_dtype_bytes(t), (double)(i * 7 % 11 - 5));
  return p;
}

/* Small integers: every sum is exact. */
static void check(const Case *c, nereid_fuse_products who, int calls) {
  nereid_fusion *f = make(c, who, cpu);
  nereid_tensor_info info = nereid_fusion_output(f, 0);
  int64_t n = 1;
  for (int d = 0; d < info.rank; d++) n *= info.shape[d];
  size_t size = nereid_dtype_bytes(info.dtype);
  void *in[] = {numbers(c->type, count_of(c->a)), numbers(c->type, count_of(c->b))}, *out[] = {calloc((size_t)n, size)};
  double *wanted = malloc(sizeof *wanted * (size_t)n);
  nereid_error *error = NULL;
  assert_int_equal(nereid_fusion_reference(f, (const void *const *)in, &wanted, NULL, NULL), NEREID_OK);
  fake->calls = 0;
  if (nereid_fusion_run(f, cpu, NULL, in, out, &error)) fail_msg("%s", nereid_error_text(error));
  if (fake->calls != calls) fail_msg("%s: %d calls, not %d", c->expression, fake->calls, calls);
  for (int64_t i = 0; i < n; i++) {
    double got = nereid_dtype_load(info.dtype, (char *)out[0] + (size_t)i * size);
    if (got != wanted[i]) fail_msg("%s: element %lld is %g, not %g", c->expression, (long long)i, got, wanted[i]);
  }
  nereid_fusion_free(f);
  free(in[0]), free(in[1]), free(out[0]), free(wanted);
}

static const Case cases[] = {
    {"a @ b", NEREID_F32, {5, 7}, {7, 9}, 1},
    {"a @ b", NEREID_F64, {5, 7}, {7, 9}, 1},
    {"a.T @ b", NEREID_F32, {7, 5}, {7, 9}, 1},
    {"a @ b.T", NEREID_F64, {5, 7}, {9, 7}, 1},
    {"a.T @ b.T", NEREID_F32, {7, 5}, {9, 7}, 1},
    {"a[2:5, 1:5] @ b[:, 3:]", NEREID_F32, {6, 8}, {4, 9}, 1},
    {"a @ b", NEREID_F32, {3, 5, 7}, {3, 7, 9}, 3},
    {"a @ b", NEREID_F32, {3, 5, 7}, {7, 9}, 1}, /* as [15, 7] */
    {"a @ b", NEREID_F32, {5, 7}, {3, 7, 9}, 3},
    {"a.transpose(1, 2) @ b", NEREID_F64, {3, 7, 5}, {3, 7, 9}, 3},
    {"a.transpose(0, 1) @ b.transpose(0, 1)", NEREID_F32, {5, 3, 7}, {7, 3, 9}, 3},
    {"a @ b", NEREID_F32, {2, 3, 5, 7}, {2, 3, 7, 9}, 6},
    {"a @ b", NEREID_F32, {1, 7}, {7, 9}, 1},
    {"a @ b", NEREID_F32, {5, 7}, {7, 1}, 1},
    {"a.T @ b", NEREID_F32, {1, 5}, {1, 9}, 1},
    {"F.linear(a, b).relu() * 2 + 1", NEREID_F32, {5, 7}, {9, 7}, 1},
    {"(a @ b).transpose(1, 2).reshape(3, -1) + 1", NEREID_F32, {3, 5, 7}, {3, 7, 9}, 3},
    /* every other column, and an operand that is computed: a kernel */
    {"a[:, ::2] @ b", NEREID_F32, {5, 14}, {7, 9}, 0},
    {"a.relu() @ b", NEREID_F32, {5, 7}, {7, 9}, 0},
    {"a.unfold(0, 4, 2) @ b", NEREID_F32, {12, 1}, {4, 9}, 0},
    {"a @ b", NEREID_F16, {5, 7}, {7, 9}, 0},
};

static void products_by_the_library(void **state) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i], NEREID_PRODUCTS_LIBRARY, cases[i].calls);
}

static void products_of_our_own(void **state) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i], NEREID_PRODUCTS_OWN, 0);
}

static void it_has_the_devices_threads(void **state) {
  fake->threads = 7;
  check(&cases[0], NEREID_PRODUCTS_LIBRARY, 1);
  assert_int_equal(fake->threads_in_call, 2);
  assert_int_equal(fake->threads, 7);
}

static void a_recorded_stream_keeps_its_calls(void **state) {
  nereid_stream *s = NULL;
  nereid_graph *graph = NULL;
  nereid_fusion *f = make(&cases[0], NEREID_PRODUCTS_LIBRARY, cpu);
  float *in[] = {numbers(NEREID_F32, 35), numbers(NEREID_F32, 63)}, out[45] = {0}, first[45], *to = out;
  assert_int_equal(nereid_fusion_run(f, cpu, NULL, (void *const *)in, (void *const *)&to, NULL), NEREID_OK);
  memcpy(first, out, sizeof out);
  memset(out, 0, sizeof out);
  assert_int_equal(nereid_stream_create(cpu, &s, NULL), NEREID_OK);
  assert_int_equal(nereid_graph_begin(cpu, s, NULL), NEREID_OK);
  fake->calls = 0;
  assert_int_equal(nereid_fusion_run(f, cpu, s, (void *const *)in, (void *const *)&to, NULL), NEREID_OK);
  assert_int_equal(fake->calls, 0);
  assert_int_equal(nereid_graph_end(cpu, s, &graph, NULL), NEREID_OK);
  assert_int_equal(nereid_graph_launch(graph, NULL, NULL), NEREID_OK);
  assert_int_equal(fake->calls, 1);
  assert_memory_equal(out, first, sizeof out);
  nereid_graph_free(graph);
  nereid_stream_destroy(s);
  nereid_fusion_free(f);
  free(in[0]), free(in[1]);
}

static void fails(const char *library, const char *words) {
  nereid_fusion *f = make(&cases[0], NEREID_PRODUCTS_LIBRARY, cpu);
  nereid_error *error = NULL;
  setenv("NEREID_LIBOPENBLAS", library, 1);
  assert_int_equal(nereid_fusion_compile(f, cpu, &error), NEREID_UNSUPPORTED);
  if (!strstr(nereid_error_text(error), words)) fail_msg("does not say '%s':\n%s", words, nereid_error_text(error));
  setenv("NEREID_LIBOPENBLAS", FAKE_BLAS, 1);
  nereid_error_free(error);
  nereid_fusion_free(f);
}

static void a_library_that_is_none_is_an_error(void **state) {
  fails("/no/such/library.so", "OpenBLAS was not found");
  fails("libm.so.6", "has no cblas_sgemm");
}

/* Devices that check every access compute all themselves. */
static void other_devices_have_kernels(void **state) {
  nereid_device *interp = NULL;
  assert_int_equal(nereid_device_open("interp", &interp, NULL), NEREID_OK);
  nereid_fusion *f = make(&cases[0], NEREID_PRODUCTS_LIBRARY, interp);
  assert_null(strstr(nereid_fusion_text(f, "explain"), "by a library"));
  nereid_fusion_free(f);
  nereid_device_close(interp);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_by_the_library),
      cmocka_unit_test(products_of_our_own),
      cmocka_unit_test(it_has_the_devices_threads),
      cmocka_unit_test(a_recorded_stream_keeps_its_calls),
      cmocka_unit_test(a_library_that_is_none_is_an_error),
      cmocka_unit_test(other_devices_have_kernels),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
