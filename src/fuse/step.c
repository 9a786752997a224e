/* A launch: a kernel's arguments, grid and compiled function; or a product or convolution that a library does. */
#include <stdlib.h>

#include "fuse/program.h"

static nereid_status too_large(const FuseStep *s, nereid_error **error) {
  return error_set(error, NEREID_BAD_ARGUMENT, NULL, "%s: the grid does not fit in 63 bits", s->kernel->name);
}

static bool matrix_values(const FuseMatrix *m, const int64_t *symbols, BlasMatrix *out, int64_t *first) {
  out->across = m->across;
  return size_value(m->lead, symbols, &out->lead) && size_value(m->batch, symbols, &out->batch) &&
         size_value(m->first, symbols, first);
}

static bool make_product(FuseStep *s, const int64_t *symbols) {
  const FuseLibrary *l = s->kernel->library;
  BlasProduct *p = &s->product;
  p->type = l->product->dtype;
  p->tf32 = l->product->tf32;
  return size_value(l->m, symbols, &p->m) && size_value(l->n, symbols, &p->n) && size_value(l->k, symbols, &p->k) &&
         size_value(l->batches, symbols, &p->batches) && matrix_values(&l->a, symbols, &p->a, &s->first[0]) &&
         matrix_values(&l->b, symbols, &p->b, &s->first[1]);
}

nereid_status step_make(FuseStep *s, const FuseKernel *k, const int64_t *symbols, uint64_t seed, nereid_error **error) {
  s->kernel = k;
  int count = k->buffer_count + k->symbol_count + k->seed + k->constant_count, i = 0;
  nereid_arg *a = s->args = calloc((size_t)count + 1, sizeof *a);
  if (!a) return error_out_of_memory(error);
  s->arg_count = count;
  for (int b = 0; b < k->buffer_count; b++) a[i++] = nereid_pointer(NULL, (nereid_dtype)k->buffers[b]->dtype);
  for (int b = 0; b < k->symbol_count; b++) a[i++] = nereid_int(symbols[k->symbols[b]->index]);
  if (k->seed) a[i++] = nereid_int((int64_t)seed);
  for (int b = 0; b < k->constant_count; b++) a[i++] = nereid_constexpr_int(k->constants[b]);
  if (k->library) return make_product(s, symbols) ? NEREID_OK : too_large(s, error);
  if (k->convolution) return NEREID_OK;
  int64_t *grid = s->grid;
  for (int d = 0; d < 3; d++) {
    int64_t v = 1;
    if (k->grid[d] && !size_value(k->grid[d], symbols, &v)) return too_large(s, error);
    grid[d] = k->grid[d] ? cdiv(v, k->block[d]) : 1;
  }
  if (!k->flat) return NEREID_OK;
  if (__builtin_mul_overflow(grid[0], grid[1], &grid[0])) return too_large(s, error);
  grid[1] = grid[2];
  grid[2] = 1;
  return NEREID_OK;
}

static uint64_t alignment(const FuseStep *s) {
  uint64_t bits = 0;
  for (int b = 0; b < s->kernel->buffer_count; b++)
    bits |= (uint64_t)((uintptr_t)s->args[b].pointer % 16 == 0) << (b % 64);
  return bits;
}

bool step_is_stale(const FuseStep *s) { return !s->kernel->library && alignment(s) != s->aligned; }

nereid_status step_plan(FuseStep *s, Dnn *dnn, nereid_error **error) {
  s->aligned = alignment(s);
  DnnConvolution c = dnn_convolution(s->kernel->convolution, s->aligned == 7);
  int way = (int)s->kernel->convolution->way;
  dnn_plan_free(s->plan);
  return dnn_plan(dnn, &c, &way, &s->plan, error);
}

nereid_status step_compile(FuseStep *s, nereid_device *d, nereid_module *m, nereid_error **error) {
  bool checks = s->kernel->checks;
  nereid_options options = {.size = sizeof options,
                            .num_warps = s->kernel->num_warps,
                            .debug = checks,
                            .no_sanitize_overflow = checks,
                            .allow_unwritten = checks};
  nereid_function *function = NULL;
  if (s->kernel->library || s->kernel->convolution) return NEREID_OK;
  nereid_status status = nereid_compile(d, m, s->kernel->name, s->args, s->arg_count, &options, &function, error);
  if (status) return status;
  nereid_function_free(s->function);
  s->function = function;
  s->aligned = alignment(s);
  return status;
}

nereid_status step_run(const FuseStep *s, Blas *blas, nereid_stream *stream, nereid_error **error) {
  if (s->plan) return dnn_run(s->plan, stream, s->args[0].pointer, s->args[1].pointer, s->args[2].pointer, error);
  if (!s->kernel->library) return nereid_run(s->function, stream, s->grid, s->args, s->arg_count, error);
  int64_t size = dtype_bytes(s->product.type);
  const char *a = s->args[0].pointer, *b = s->args[1].pointer;
  return blas_run(blas, stream, &s->product, a + s->first[0] * size, b + s->first[1] * size, s->args[2].pointer, error);
}

void step_free(FuseStep *s) {
  nereid_function_free(s->function);
  dnn_plan_free(s->plan);
  free(s->args);
  *s = (FuseStep){0};
}
