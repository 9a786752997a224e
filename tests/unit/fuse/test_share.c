/* Kernels that are alike are one function; those that differ in more than their own names are not. */
#include "fuse/fuse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <nereid.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char one[] = "# of the first layer\n"
                          "@triton.jit\n"
                          "def mul_3_kernel(add_1_ptr, mul_3_ptr, R: tl.constexpr):\n"
                          "    r = tl.arange(0, R)\n"
                          "    add_1 = tl.load(add_1_ptr + r, mask=r < 7, other=0.0)\n"
                          "    for loop in range(0, 3):\n"
                          "        add_1 += loop\n"
                          "    low, high = float_order(add_1), add_1\n"
                          "    tl.store(mul_3_ptr + r, tl.dot(low, high, input_precision=\"tf32\"), mask=r < 7)\n";

static void same(const char *a, const char *b, bool alike) {
  Context *cx = context_create();
  Buf x = {.arena = cx->arena}, y = {.arena = cx->arena};
  fuse_unnamed(&x, a);
  fuse_unnamed(&y, b);
  assert_int_equal(!strcmp(x.at, y.at), alike);
  context_destroy(cx);
}

/* `one` with a word replaced wherever it stands; free it */
static char *with(const char *word, const char *by) {
  char *out = calloc(1, 4 * sizeof one), *to = out;
  size_t n = strlen(word);
  for (const char *s = one; *s;) {
    bool here = !strncmp(s, word, n);
    to += here ? sprintf(to, "%s", by) : sprintf(to, "%c", *s);
    s += here ? n : 1;
  }
  return out;
}

static void names_of_its_own_do_not_matter(void **state) {
  static const struct {
    const char *word, *by;
    bool alike;
  } cases[] = {
      {"mul_3", "mul_12", true},
      {"add_1", "tf32", true}, /* a name, and a word in a string */
      {"add_1", "mask_2", true},
      {"low, high", "a, b", true},
      {"the first", "another", true},
      {"loop", "step", true},
      {"other=", "cache=", false},
      {"\"tf32\"", "\"ieee\"", false},
      {"float_order", "double_order", false},
      {"tl.arange", "tl.other", false},
      {"range(0, 3)", "range(0, 4)", false},
      {"low, high = ", "high, low = ", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = with(cases[i].word, cases[i].by);
    same(one, text, cases[i].alike);
    free(text);
  }
}

/* Three layers, of which the last one ends otherwise. */
static const char program[] =
    "import torch\n"
    "def forward(x: \"f32[300, 200]\", w: \"f32[200, 200]\", b: \"f32[200]\", v: \"f32[200, 200]\", c: \"f32[200]\"):\n"
    "    addmm: \"f32[300, 200]\" = torch.ops.aten.addmm.default(b, x, w)\n"
    "    relu: \"f32[300, 200]\" = torch.ops.aten.relu.default(addmm)\n"
    "    addmm_1: \"f32[300, 200]\" = torch.ops.aten.addmm.default(c, relu, v)\n"
    "    relu_1: \"f32[300, 200]\" = torch.ops.aten.relu.default(addmm_1)\n"
    "    addmm_2: \"f32[300, 200]\" = torch.ops.aten.addmm.default(b, relu_1, w)\n"
    "    neg: \"f32[300, 200]\" = torch.ops.aten.neg.default(addmm_2)\n"
    "    return (neg,)\n";

static int functions_in(const char *text) {
  int n = 0;
  for (const char *s = text; (s = strstr(s, "_kernel(")); s++) n++;
  return n;
}

static void layers_share_their_kernels(void **state) {
  enum { M = 300, N = 200 };
  static float x[M * N], w[N * N], b[N], v[N * N], c[N], out[M * N];
  char path[] = "/tmp/nereid-share-XXXXXX";
  nereid_device *d = NULL;
  nereid_fusion *f = NULL;
  nereid_error *error = NULL;
  FILE *file = fdopen(mkstemp(path), "w");
  fputs(program, file);
  fclose(file);
  assert_int_equal(nereid_device_open("cpu:2", &d, NULL), NEREID_OK);
  const nereid_fuse_options options = {.device = d, .products = NEREID_PRODUCTS_OWN};
  if (nereid_fuse(path, NULL, NULL, 0, &options, &f, &error)) fail_msg("%s", nereid_error_text(error));
  unlink(path);
  assert_int_equal(nereid_fusion_kernel_count(f), 3);
  assert_int_equal(functions_in(nereid_fusion_text(f, "code")), 2);
  for (int i = 0; i < M * N; i++) x[i] = (float)(i % 13 - 6);
  for (int i = 0; i < N; i++) w[i * N + i] = 1, v[i * N + i] = 2, b[i] = (float)(i % 3), c[i] = -(float)(i % 5);
  if (nereid_fusion_run(f, d, NULL, (void *[]){x, w, b, v, c}, (void *[]){out}, &error))
    fail_msg("%s", nereid_error_text(error));
  for (int i = 0; i < M * N; i++) {
    float first = x[i] + b[i % N], second = 2 * (first > 0 ? first : 0) + c[i % N];
    assert_true(out[i] == -((second > 0 ? second : 0) + b[i % N]));
  }
  nereid_fusion_free(f);
  nereid_device_close(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(names_of_its_own_do_not_matter),
                                     cmocka_unit_test(layers_share_their_kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
