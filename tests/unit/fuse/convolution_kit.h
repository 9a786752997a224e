/* Convolutions that libraries are tested with, and the arrays of their programs. */
#ifndef CONVOLUTION_KIT_H
#define CONVOLUTION_KIT_H

#include "unit/runtime/runtime_kit.h"

typedef struct Case {
  const char *expression; /* of a, b and c */
  nereid_dtype type;
  int64_t shapes[3][5]; /* ended by 0 */
  bool by_filter;       /* its gradient by b, where that of the result is c, and not itself */
} Case;

static inline int rank_of(const int64_t *shape) {
  int n = 0;
  while (n < 5 && shape[n]) n++;
  return n;
}

static inline nereid_fusion *plan_on(nereid_device *d, const Case *c, nereid_dtype type, nereid_fuse_products who) {
  nereid_builder *g = NULL;
  nereid_tensor in[3], out;
  nereid_fusion *f = NULL;
  int n = 0;
  assert_ok(nereid_builder_create(NULL, &g, &error));
  for (; n < 3 && c->shapes[n][0]; n++)
    assert_ok(nereid_builder_input(g, (const char *[]){"a", "b", "c"}[n], type, rank_of(c->shapes[n]), c->shapes[n],
                                   &in[n], &error));
  assert_ok(nereid_builder_op(g, c->expression, in, n, &out, 1, &error));
  if (c->by_filter) assert_ok(nereid_builder_gradients(g, &out, &in[2], 1, &in[1], 1, &out, &error));
  nereid_fuse_options o = {.device = d, .products = who};
  assert_ok(nereid_builder_compile(g, &out, 1, &o, &f, &error));
  nereid_builder_free(g);
  return f;
}

typedef struct Arrays {
  void *all[3], *in[3], *out[1];
  double *wanted;
  int64_t count;
  nereid_dtype type;
} Arrays;

/* Small integers, of which all sums are exact. The first operand begins `shift` bytes into its array. */
static inline Arrays make_arrays(nereid_device *d, nereid_fusion *f, int shift) {
  nereid_tensor_info t = nereid_fusion_output(f, 0);
  Arrays a = {.count = 1, .type = t.dtype};
  for (int i = 0; i < t.rank; i++) a.count *= t.shape[i];
  size_t size = nereid_dtype_bytes(t.dtype);
  for (int i = 0; i < nereid_fusion_input_count(f); i++) {
    nereid_tensor_info x = nereid_fusion_input(f, i);
    int64_t n = 1;
    for (int k = 0; k < x.rank; k++) n *= x.shape[k];
    assert_ok(nereid_alloc(d, n * (int64_t)size + 16, &a.all[i], &error));
    a.in[i] = (char *)a.all[i] + (i ? 0 : shift);
    for (int64_t k = 0; k < n; k++)
      nereid_dtype_store(x.dtype, (char *)a.in[i] + (size_t)k * size, (double)(k * 7 % 5 - 2));
  }
  assert_ok(nereid_alloc(d, a.count * (int64_t)size, &a.out[0], &error));
  a.wanted = calloc((size_t)a.count, sizeof *a.wanted);
  assert_ok(nereid_fusion_reference(f, (const void *const *)a.in, &a.wanted, NULL, &error));
  return a;
}

static inline void assert_right(const Case *c, const Arrays *a) {
  size_t size = nereid_dtype_bytes(a->type);
  for (int64_t i = 0; i < a->count; i++) {
    double got = nereid_dtype_load(a->type, (char *)a->out[0] + (size_t)i * size);
    if (got != a->wanted[i]) fail_msg("%s: element %lld is %g, not %g", c->expression, (long long)i, got, a->wanted[i]);
  }
  memset(a->out[0], 0, (size_t)a->count * size);
}

static inline void free_arrays(nereid_device *d, Arrays *a) {
  for (int i = 0; i < 3; i++)
    if (a->all[i]) nereid_free(d, a->all[i]);
  nereid_free(d, a->out[0]);
  free(a->wanted);
}

static inline bool says(nereid_fusion *f, const char *words) {
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

#endif
