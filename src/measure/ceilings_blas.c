/* The rates of products of matrices, by the library that is best at them: cuBLAS on a GPU, OpenBLAS on a CPU. Both are
 * opened at run time and found as programs find them, or where Python's packages keep them; $NEREID_LIBCUBLAS and
 * $NEREID_LIBOPENBLAS name a file.
 *
 * A product of n x n matrices of random numbers takes 2 n^3 operations. (Zeros would be multiplied faster: a GPU's
 * clock falls with the power that it takes.)
 */
#include <stddef.h>
#include <stdlib.h>

#include "measure/ceilings.h"

/* ---- timing ------------------------------------------------------------------------------------------------------ */

typedef struct Product {
  nereid_device *device;
  nereid_event *start, *end;
  int64_t n;
  void *a, *b, *c;
  double enough;
  int (*multiply)(struct Product *p); /* 0: done, or on its way */
  void *arg;
  nereid_dtype type;
} Product;

static nereid_status time_many(Product *p, int times, double *ns) {
  nereid_status status = nereid_event_record(p->start, NULL, NULL);
  for (int i = 0; i < times && !status; i++) status = p->multiply(p) ? NEREID_UNSUPPORTED : NEREID_OK;
  if (!status) status = nereid_event_record(p->end, NULL, NULL);
  if (!status) status = nereid_event_synchronize(p->end, NULL);
  double ms = 0;
  if (!status) status = nereid_event_elapsed(p->start, p->end, &ms, NULL);
  *ns = ms * 1e6 / times;
  return status;
}

/* GFLOP/s of the best of some trials; 0 when the library does not take it. */
static double rate_of(Product *p) {
  double ns = 0, best = 0;
  if (time_many(p, 1, &ns) || time_many(p, 1, &ns) || ns <= 0) return 0;
  int times = ns >= p->enough ? 1 : (int)(p->enough / ns) + 1;
  for (int i = 0; i < 5; i++) {
    if (time_many(p, times, &ns)) return 0;
    if (!best || ns < best) best = ns;
  }
  return 2.0 * (double)p->n * (double)p->n * (double)p->n / best;
}

/* `bytes` of random numbers of type t between -1 and 1 on the device; NULL: no memory. */
static void *random_matrix(nereid_device *d, nereid_dtype t, int64_t bytes) {
  int64_t part = bytes < 1 << 22 ? bytes : 1 << 22, size = (int64_t)nereid_dtype_bytes(t);
  char *host = malloc((size_t)part);
  void *p = NULL;
  uint64_t x = 88172645463325252u;
  nereid_status status = host ? nereid_alloc(d, bytes, &p, NULL) : NEREID_OUT_OF_MEMORY;
  for (int64_t i = 0; !status && i < part / size; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17; /* Marsaglia's xorshift64 */
    double v = (double)(int64_t)x * 0x1p-63;
    nereid_dtype_store(t, host + i * size, t == NEREID_I8 ? v * 100 : v);
  }
  if (!status) status = nereid_copy_to_device(d, p, host, part, NULL);
  for (int64_t at = part; at < bytes && !status; at += part) {
    int64_t n = bytes - at < part ? bytes - at : part;
    status = nereid_copy_async(d, NULL, (char *)p + at, p, n, NULL);
  }
  free(host);
  if (status && p) nereid_free(d, p), p = NULL;
  return status ? NULL : p;
}

static double measure(Product *p, nereid_dtype in, int64_t out_size) {
  int64_t count = p->n * p->n, bytes = count * (int64_t)nereid_dtype_bytes(in);
  double rate = 0;
  p->type = in;
  p->a = random_matrix(p->device, in, bytes), p->b = random_matrix(p->device, in, bytes);
  p->c = NULL;
  if (p->a && p->b && !nereid_alloc(p->device, count * out_size, &p->c, NULL)) rate = rate_of(p);
  if (p->a) nereid_free(p->device, p->a);
  if (p->b) nereid_free(p->device, p->b);
  if (p->c) nereid_free(p->device, p->c);
  return rate;
}

/* ---- OpenBLAS ---------------------------------------------------------------------------------------------------- */

typedef void (*Sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                      const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*Dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                      const double *b, int ldb, double beta, double *c, int ldc);
enum { ROW_MAJOR = 101, NO_TRANS = 111 };

static void name_library(nereid_ceilings *out, const void *function) {
  char path[LIBRARY_PATH];
  library_of(function, path);
  snprintf(out->blas, sizeof out->blas, "%.*s", (int)sizeof out->blas - 1, path);
}

static int multiply_openblas(Product *p) {
  int n = (int)p->n;
  void *const *f = p->arg;
  if (p->type == NEREID_F64) ((Dgemm)f[1])(ROW_MAJOR, NO_TRANS, NO_TRANS, n, n, n, 1, p->a, n, p->b, n, 0, p->c, n);
  else ((Sgemm)f[0])(ROW_MAJOR, NO_TRANS, NO_TRANS, n, n, n, 1, p->a, n, p->b, n, 0, p->c, n);
  return 0;
}

typedef struct Openblas {
  void *gemm[2];
  void (*set_threads)(int);
} Openblas;

static void with_openblas(Product *p, bool quick, nereid_ceilings *out) {
  static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", NULL};
  static const LibrarySymbol symbols[] = {{"cblas_sgemm", offsetof(Openblas, gemm[0]), true},
                                          {"cblas_dgemm", offsetof(Openblas, gemm[1]), true},
                                          {"openblas_set_num_threads", offsetof(Openblas, set_threads), false}};
  Openblas blas;
  void *library = library_open("NEREID_LIBOPENBLAS", names);
  if (!library || library_take(library, symbols, 3, &blas)) return;
  if (blas.set_threads) blas.set_threads(p->device->threads);
  p->multiply = multiply_openblas, p->arg = blas.gemm, p->n = quick ? 384 : 2048;
  out->rates[NEREID_RATE_DOT_F32] = out->rates[NEREID_RATE_DOT_TF32] = measure(p, NEREID_F32, 4);
  out->rates[NEREID_RATE_DOT_F64] = measure(p, NEREID_F64, 8);
  name_library(out, blas.gemm[0]);
}

/* ---- cuBLAS ------------------------------------------------------------------------------------------------------ */

enum { OP_N = 0, OP_T = 1, R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, R_32I = 10, R_16BF = 14, R_8F_E4M3 = 28 };
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32I = 72, COMPUTE_TF32 = 77 };
enum { DESC_TRANSA = 3, DESC_FAST_ACCUM = 25 };

typedef struct Cublas {
  void *handle, *lt, *desc, *layout[3];
  int (*create)(void **);
  int (*destroy)(void *);
  int (*gemm)(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda,
              const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc, int compute,
              int algo);
  int type, out_type, compute;
  /* cublasLt, which has the products of fp8 */
  int (*lt_create)(void **);
  int (*lt_destroy)(void *);
  int (*desc_create)(void **, int compute, int scale);
  int (*desc_destroy)(void *);
  int (*desc_set)(void *, int attribute, const void *value, size_t bytes);
  int (*layout_create)(void **, int type, uint64_t rows, uint64_t cols, int64_t ld);
  int (*layout_destroy)(void *);
  int (*matmul)(void *lt, void *desc, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,
                const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const void *algo,
                void *workspace, size_t workspace_bytes, void *stream);
} Cublas;

static int multiply_cublas(Product *p) {
  Cublas *c = p->arg;
  float one = 1, zero = 0;
  double one64 = 1, zero64 = 0;
  int32_t one32 = 1, zero32 = 0, n = (int)p->n;
  const void *alpha = c->compute == COMPUTE_64F   ? (void *)&one64
                      : c->compute == COMPUTE_32I ? (void *)&one32
                                                  : (void *)&one;
  const void *beta = c->compute == COMPUTE_64F   ? (void *)&zero64
                     : c->compute == COMPUTE_32I ? (void *)&zero32
                                                 : (void *)&zero;
  return c->gemm(c->handle, OP_T, OP_N, n, n, n, alpha, p->a, c->type, n, p->b, c->type, n, beta, p->c, c->out_type, n,
                 c->compute, -1);
}

static int multiply_lt(Product *p) {
  Cublas *c = p->arg;
  float one = 1, zero = 0;
  return c->matmul(c->lt, c->desc, &one, p->a, c->layout[0], p->b, c->layout[1], &zero, p->c, c->layout[2], p->c,
                   c->layout[2], NULL, NULL, 0, NULL);
}

static const LibrarySymbol lt_symbols[] = {
    {"cublasLtCreate", offsetof(Cublas, lt_create), true},
    {"cublasLtDestroy", offsetof(Cublas, lt_destroy), true},
    {"cublasLtMatmulDescCreate", offsetof(Cublas, desc_create), true},
    {"cublasLtMatmulDescDestroy", offsetof(Cublas, desc_destroy), true},
    {"cublasLtMatmulDescSetAttribute", offsetof(Cublas, desc_set), true},
    {"cublasLtMatrixLayoutCreate", offsetof(Cublas, layout_create), true},
    {"cublasLtMatrixLayoutDestroy", offsetof(Cublas, layout_destroy), true},
    {"cublasLtMatmul", offsetof(Cublas, matmul), true},
};
static const LibrarySymbol symbols[] = {
    {"cublasCreate_v2", offsetof(Cublas, create), true},
    {"cublasDestroy_v2", offsetof(Cublas, destroy), true},
    {"cublasGemmEx", offsetof(Cublas, gemm), true},
};

static double with_fp8(Product *p, Cublas *c, void *library) {
  bool whole = !library_take(library, lt_symbols, sizeof lt_symbols / sizeof *lt_symbols, c);
  uint64_t n = (uint64_t)p->n;
  int32_t transposed = OP_T;
  int8_t fast = 1;
  double rate = 0;
  if (!whole || c->lt_create(&c->lt)) return 0;
  bool good = !c->desc_create(&c->desc, COMPUTE_32F, R_32F) &&
              !c->desc_set(c->desc, DESC_TRANSA, &transposed, sizeof transposed);
  if (good) c->desc_set(c->desc, DESC_FAST_ACCUM, &fast, sizeof fast); /* older libraries have none */
  for (int i = 0; i < 3 && good; i++)
    good = !c->layout_create(&c->layout[i], i < 2 ? R_8F_E4M3 : R_16BF, n, n, (int64_t)n);
  p->multiply = multiply_lt;
  if (good) rate = measure(p, NEREID_F8E4NV, 2);
  for (int i = 0; i < 3; i++)
    if (c->layout[i]) c->layout_destroy(c->layout[i]);
  if (c->desc) c->desc_destroy(c->desc);
  c->lt_destroy(c->lt);
  return rate;
}

static void with_cublas(Product *p, bool quick, nereid_ceilings *out) {
  static const char *const lt_names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL}, *const names[] = {
                                                                                              "libcublas.so.13",
                                                                                              "libcublas.so.12", NULL};
  /* clang-format off */
  static const struct { nereid_rate rate; nereid_dtype in; int type, out_type, compute, out_size; } all[] = {
      {NEREID_RATE_DOT_F16, NEREID_F16, R_16F, R_16F, COMPUTE_32F, 2},
      {NEREID_RATE_DOT_BF16, NEREID_BF16, R_16BF, R_16BF, COMPUTE_32F, 2},
      {NEREID_RATE_DOT_TF32, NEREID_F32, R_32F, R_32F, COMPUTE_TF32, 4},
      {NEREID_RATE_DOT_F32, NEREID_F32, R_32F, R_32F, COMPUTE_32F, 4},
      {NEREID_RATE_DOT_F64, NEREID_F64, R_64F, R_64F, COMPUTE_64F, 8},
      {NEREID_RATE_DOT_I8, NEREID_I8, R_8I, R_32I, COMPUTE_32I, 4}};
  /* clang-format on */
  Cublas cublas = {0}, *c = &cublas;
  /* which cuBLAS needs, from the same folder */
  void *lt = library_open("NEREID_LIBCUBLASLT", lt_names);
  void *library = library_open("NEREID_LIBCUBLAS", names);
  if (!library || library_take(library, symbols, sizeof symbols / sizeof *symbols, c)) return;
  if (c->create(&c->handle)) return;
  p->arg = c, p->n = quick ? 1024 : 8192;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (all[i].rate == NEREID_RATE_DOT_F64 && !quick) p->n = 4096;
    p->multiply = multiply_cublas, c->type = all[i].type, c->out_type = all[i].out_type, c->compute = all[i].compute;
    out->rates[all[i].rate] = measure(p, all[i].in, all[i].out_size);
    if (!quick) p->n = 8192;
  }
  if (lt) out->rates[NEREID_RATE_DOT_F8] = with_fp8(p, c, lt);
  c->destroy(c->handle);
  name_library(out, *(void **)&c->gemm);
}

void ceilings_blas(nereid_device *d, double enough, bool quick, nereid_ceilings *out) {
  Product p = {.device = d, .enough = enough};
  nereid_status status = nereid_event_create(d, &p.start, NULL);
  if (!status) status = nereid_event_create(d, &p.end, NULL);
  if (!status && d->kind == &device_cpu) with_openblas(&p, quick, out);
  if (!status && d->kind == &device_cuda) with_cublas(&p, quick, out);
  nereid_event_destroy(p.start), nereid_event_destroy(p.end);
}
