/* Graphs built in C: what they compute, what is refused, and that a refusal leaves them as they were. */
#include <nereid.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static nereid_tensor input(nereid_builder *g, const char *name, nereid_dtype t, int rank, int64_t n, int64_t m) {
  nereid_tensor x = -1;
  assert_int_equal(nereid_builder_input(g, name, t, rank, (int64_t[]){n, m}, &x, NULL), NEREID_OK);
  return x;
}

static nereid_tensor op(nereid_builder *g, const char *text, nereid_tensor a, nereid_tensor b) {
  nereid_tensor y = -1;
  nereid_error *error = NULL;
  if (nereid_builder_op(g, text, (nereid_tensor[]){a, b}, 2, &y, 1, &error)) fail_msg("%s", nereid_error_text(error));
  return y;
}

/* x * w + x and its gradient by w; then w loses a tenth of that. */
static void run_step(nereid_device *d) {
  nereid_builder *g = NULL;
  nereid_fusion *f = NULL;
  nereid_error *error = NULL;
  assert_int_equal(nereid_builder_create(NULL, &g, NULL), NEREID_OK);
  nereid_tensor x = input(g, "x", NEREID_F32, 1, 4, 0), w = input(g, "w", NEREID_F32, 0, 0, 0), grad[2];
  nereid_tensor y = op(g, "a * b + a", x, w);
  assert_int_equal(nereid_builder_gradients(g, &y, &x, 1, (nereid_tensor[]){w, x}, 2, grad, NULL), NEREID_OK);
  assert_int_equal(nereid_builder_write(g, w, op(g, "a - 0.1 * b", w, grad[0]), NULL), NEREID_OK);
  if (nereid_builder_compile(g, (nereid_tensor[]){y, grad[0], grad[1]}, 3, NULL, &f, &error))
    fail_msg("%s", nereid_error_text(error));
  nereid_builder_free(g); /* the fusion has its own */
  float in[] = {1, 2, 3, 4}, weight = 2, out[4], gw, gx[4];
  void *arrays[] = {in, &weight}, *results[] = {out, &gw, gx};
  if (nereid_fusion_run(f, d, NULL, arrays, results, &error)) fail_msg("%s", nereid_error_text(error));
  assert_int_equal(nereid_synchronize(d, NULL), NEREID_OK);
  for (int i = 0; i < 4; i++) assert_true(out[i] == 3 * in[i] && gx[i] == 3 * in[i]);
  assert_true(gw == 30 && weight == 2 - 0.1f * 30);
  assert_string_equal(nereid_fusion_input(f, 1).name, "w");
  assert_true(nereid_fusion_input(f, 1).is_written);
  nereid_fusion_free(f);
}

static void a_graph_computes_and_differentiates(void **state) {
  nereid_device *d = NULL;
  assert_int_equal(nereid_device_open("cpu:1", &d, NULL), NEREID_OK);
  run_step(d);
  nereid_device_close(d);
}

static void *work(void *device) {
  for (int i = 0; i < 4; i++) run_step(device);
  return NULL;
}

static void threads_build_graphs_at_the_same_time(void **state) {
  pthread_t threads[3];
  nereid_device *d = NULL;
  assert_int_equal(nereid_device_open("cpu:1", &d, NULL), NEREID_OK);
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, d), 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  nereid_device_close(d);
}

static void refused(nereid_builder *g, const char *text, nereid_tensor a, nereid_tensor b, int out, const char *why) {
  nereid_error *error = NULL;
  nereid_tensor y[4];
  assert_int_equal(nereid_builder_op(g, text, (nereid_tensor[]){a, b}, 2, y, out, &error), NEREID_BAD_SOURCE);
  if (!strstr(nereid_error_text(error), why)) fail_msg("%s: %s", text, nereid_error_text(error));
  nereid_error_free(error);
}

static void a_refusal_leaves_the_graph_as_it_was(void **state) {
  nereid_builder *g = NULL;
  nereid_error *error = NULL;
  nereid_tensor none = 7;
  nereid_tensor_info info;
  assert_int_equal(nereid_builder_create(NULL, &g, NULL), NEREID_OK);
  nereid_tensor x = input(g, "x", NEREID_F32, 2, 2, 3), i = input(g, "i", NEREID_I64, 1, 3, 0);
  refused(g, "a.nope()", x, i, 1, "has no attribute 'nope'");
  refused(g, "F.gellu(a)", x, i, 1, "did you mean gelu?");
  refused(g, "a @ a", x, i, 1, "a product takes");
  refused(g, "a +", x, i, 1, "operation:1:");
  refused(g, "a + c", x, i, 1, "the name 'c' is not defined");
  refused(g, "a.chunk(3, 1)", x, i, 2, "it gives 3 tensors, and not 2");
  refused(g, "a.shape[0]", x, i, 1, "2 has no items");
  refused(g, "a", 99, i, 1, "there is no tensor 99 in this graph");
  nereid_tensor y = op(g, "a.exp()", x, i);
  assert_int_equal(nereid_builder_gradients(g, &y, NULL, 1, &i, 1, &none, NULL), NEREID_OK);
  assert_int_equal(none, -1);
  assert_int_equal(nereid_builder_write(g, y, x, &error), NEREID_BAD_SOURCE);
  assert_non_null(strstr(nereid_error_text(error), "only inputs are written"));
  nereid_error_free(error);
  assert_int_equal(nereid_builder_get_info(g, y, &info, NULL), NEREID_OK);
  assert_true(info.rank == 2 && info.shape[0] == 2 && info.shape[1] == 3 && info.dtype == NEREID_F32);
  nereid_fusion *f = NULL;
  assert_int_equal(nereid_builder_compile(g, &y, 1, NULL, &f, NULL), NEREID_OK);
  assert_int_equal(nereid_fusion_kernel_count(f), 1);
  nereid_fusion_free(f);
  nereid_builder_free(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_graph_computes_and_differentiates),
      cmocka_unit_test(threads_build_graphs_at_the_same_time),
      cmocka_unit_test(a_refusal_leaves_the_graph_as_it_was),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
