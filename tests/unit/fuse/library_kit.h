/* Programs by a library's products or convolutions: their arrays, and what must come out. */
#ifndef LIBRARY_KIT_H
#define LIBRARY_KIT_H

#include "unit/runtime/runtime_kit.h"

typedef struct Arrays {
  void *all[3], *in[3], *out[1];
  double *wanted;
  int64_t count;
  nereid_dtype type;
} Arrays;

enum { LIBRARY_RANK = 5 };

static inline int rank_of(const int64_t *shape) { /* ended by 0 */
  int n = 0;
  while (n < LIBRARY_RANK && shape[n]) n++;
  return n;
}

/* Inputs a, b and c, as many as have shapes, and what the expression makes of them. */
static inline nereid_builder *builder_of(const char *expression, nereid_dtype type,
                                         const int64_t (*shapes)[LIBRARY_RANK], nereid_tensor *in, nereid_tensor *out) {
  nereid_builder *g = NULL;
  int n = 0;
  assert_ok(nereid_builder_create(NULL, &g, &error));
  for (; n < 3 && shapes[n][0]; n++)
    assert_ok(nereid_builder_input(g, (const char *[]){"a", "b", "c"}[n], type, rank_of(shapes[n]), shapes[n], &in[n],
                                   &error));
  assert_ok(nereid_builder_op(g, expression, in, n, out, 1, &error));
  return g;
}

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

static inline void assert_right(const char *what, const Arrays *a) {
  size_t size = nereid_dtype_bytes(a->type);
  for (int64_t i = 0; i < a->count; i++) {
    double got = nereid_dtype_load(a->type, (char *)a->out[0] + (size_t)i * size);
    if (got != a->wanted[i]) fail_msg("%s: element %lld is %g, not %g", what, (long long)i, got, a->wanted[i]);
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

#endif
