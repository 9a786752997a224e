/* Programs with symbolic sizes: one plan serves many, compiled ahead or by the first run. */
#include <nereid.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const char program[] = "import torch\n"
                              "def forward(s0: \"Sym(s0)\", seed: \"i64[1]\", x: \"f32[s0, 3]\"):\n"
                              "    torch.ops.prims.nereid_seed.default(seed)\n"
                              "    total: \"f32[3]\" = torch.ops.aten.sum.dim_IntList(x, [0])\n"
                              "    mean: \"f32[3]\" = torch.ops.aten.div.Tensor(total, s0)\n"
                              "    off: \"f32[s0, 3]\" = torch.ops.aten.sub.Tensor(x, mean)\n"
                              "    most: \"f32[]\" = torch.ops.aten.amax.default(off, [0, 1])\n"
                              "    rand: \"f32[s0]\" = torch.ops.aten.rand.default([s0], dtype=torch.float32)\n"
                              "    return (off, most, rand)\n";

static nereid_fusion *read_program(nereid_device *d) {
  char path[] = "/tmp/nereid-program-XXXXXX";
  nereid_error *error = NULL;
  nereid_fusion *f = NULL;
  FILE *file = fdopen(mkstemp(path), "w");
  fputs(program, file);
  fclose(file);
  nereid_fuse_input size = {.name = "s0", .text = "5"};
  nereid_status status = nereid_fuse(path, NULL, &size, 1, &(nereid_fuse_options){.device = d}, &f, &error);
  unlink(path);
  if (status) fail_msg("%s", nereid_error_text(error));
  return f;
}

/* Row i is i + 1; rand of the last run is left in `numbers`. */
static void run(nereid_fusion *f, nereid_device *d, int64_t n, int64_t seed, float *numbers) {
  float *x = calloc((size_t)n * 3, sizeof *x), *off = calloc((size_t)n * 3, sizeof *off), most = 0;
  nereid_error *error = NULL;
  for (int64_t i = 0; i < n * 3; i++) x[i] = (float)(i / 3 + 1);
  void *in[] = {&seed, x}, *out[] = {off, &most, numbers};
  assert_int_equal(nereid_fusion_set_size(f, "s0", n, NULL), NEREID_OK);
  if (nereid_fusion_run(f, d, NULL, in, out, &error)) fail_msg("%s", nereid_error_text(error));
  for (int64_t i = 0; i < n * 3; i++) assert_true(off[i] == x[i] - (float)(n + 1) / 2);
  assert_true(most == (float)(n - 1) / 2);
  free(x);
  free(off);
}

static void one_plan_serves_many_sizes(void **state) {
  nereid_device *d = NULL;
  float numbers[400];
  assert_int_equal(nereid_device_open("cpu:1", &d, NULL), NEREID_OK);
  nereid_fusion *f = read_program(d);
  for (int64_t n = 1; n < 400; n = 2 * n + 1) run(f, d, n, 1, numbers);
  run(f, d, 7, 1, numbers);
  nereid_error *error = NULL;
  assert_int_equal(nereid_fusion_set_size(f, "s1", 7, &error), NEREID_BAD_ARGUMENT);
  nereid_error_free(error);
  assert_int_equal(nereid_fusion_set_size(f, "s0", 0, NULL), NEREID_BAD_ARGUMENT);
  nereid_fusion_free(f);
  nereid_device_close(d);
}

static void random_numbers_are_those_of_the_seed(void **state) {
  nereid_device *d = NULL;
  float a[8], b[8], c[8];
  assert_int_equal(nereid_device_open("cpu:1", &d, NULL), NEREID_OK);
  nereid_fusion *f = read_program(d);
  run(f, d, 8, 1, a);
  run(f, d, 8, INT64_C(1) << 40, b);
  run(f, d, 8, 1, c);
  assert_memory_equal(a, c, sizeof a);
  assert_memory_not_equal(a, b, sizeof a);
  nereid_fusion_free(f);
  nereid_device_close(d);
}

static void kernels_are_compiled_ahead(void **state) {
  nereid_device *d = NULL;
  float numbers[5];
  assert_int_equal(nereid_device_open("cpu:1", &d, NULL), NEREID_OK);
  nereid_fusion *f = read_program(d);
  assert_int_equal(nereid_fusion_compile(f, d, NULL), NEREID_OK);
  run(f, d, 5, 3, numbers);
  nereid_fusion_free(f);
  nereid_device_close(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_plan_serves_many_sizes),
      cmocka_unit_test(random_numbers_are_those_of_the_seed),
      cmocka_unit_test(kernels_are_compiled_ahead),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
