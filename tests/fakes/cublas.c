#include "fakes/cublas.h"

#include "base/base.h"

#define EXPORT __attribute__((visibility("default")))
enum { HANDLE = 1, R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };

static FakeCublas fake;
static int math;
static void *stream, *workspace;
EXPORT FakeCublas *fake_cublas(void) { return &fake; }

EXPORT int cublasCreate_v2(void **out) {
  if (fake.create_result) return fake.create_result;
  fake.handles++;
  math = 0, stream = NULL, workspace = NULL;
  *out = &fake;
  return 0;
}
EXPORT int cublasDestroy_v2(void *h) { return h == &fake ? (fake.handles--, 0) : 1; }
EXPORT int cublasSetStream_v2(void *h, void *s) {
  stream = s;
  workspace = NULL; /* the manual: it takes the library's own again */
  return h != &fake;
}
EXPORT int cublasSetWorkspace_v2(void *h, void *at, size_t bytes) {
  workspace = at;
  fake.workspace = bytes;
  return h != &fake;
}
EXPORT int cublasSetMathMode(void *h, int mode) {
  math = mode;
  return h != &fake;
}
EXPORT int cublasGetProperty(int which, int *out) {
  *out = 13 - which;
  return 0;
}

static Dtype dtype_of(int type) {
  return type == R_64F ? DT_F64 : type == R_32F ? DT_F32 : type == R_16BF ? DT_BF16 : DT_F16;
}

static double load(const void *p, int type, int64_t at) {
  Dtype t = dtype_of(type);
  return dtype_load_float(t, (const char *)p + at * dtype_bytes(t));
}

static void store(void *p, int type, int64_t at, double v) {
  Dtype t = dtype_of(type);
  dtype_store_float(t, (char *)p + at * dtype_bytes(t), v);
}

/* By columns, as cuBLAS has it. */
EXPORT int cublasGemmStridedBatchedEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                                      int a_type, int lda, long long as, const void *b, int b_type, int ldb,
                                      long long bs, const void *beta, void *c, int c_type, int ldc, long long cs,
                                      int count, int compute, int algorithm) {
  fake.calls++;
  fake.batched += count > 1;
  fake.stream = stream;
  fake.compute = compute;
  if (fake.result) return fake.result;
  if (h != &fake || !workspace || math != 16 || a_type != b_type || a_type != c_type || lda < (ta ? k : m) ||
      ldb < (tb ? n : k) || ldc < m || (compute == 70) != (a_type == R_64F) || (compute == 77 && a_type != R_32F)) {
    fake.wrong++;
    return 7;
  }
  double one = a_type == R_64F ? *(const double *)alpha : *(const float *)alpha,
         zero = a_type == R_64F ? *(const double *)beta : *(const float *)beta;
  if (one != 1 || zero != 0) fake.wrong++;
  for (int64_t q = 0; q < count; q++)
    for (int64_t j = 0; j < n; j++)
      for (int64_t i = 0; i < m; i++) {
        double sum = 0;
        for (int64_t p = 0; p < k; p++)
          sum += load(a, a_type, q * as + (ta ? i * lda + p : p * lda + i)) *
                 load(b, b_type, q * bs + (tb ? p * ldb + j : j * ldb + p));
        store(c, c_type, q * cs + j * ldc + i, sum);
      }
  return 0;
}
EXPORT int cublasGemmEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type,
                        int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc,
                        int compute, int algorithm) {
  return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0, beta, c, c_type,
                                    ldc, 0, 1, compute, algorithm);
}
