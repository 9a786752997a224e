#include "fakes/blas.h"

#include <stdint.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static FakeBlas fake = {.threads = 7};
EXPORT FakeBlas *fake_blas(void) { return &fake; }
EXPORT int openblas_get_num_threads(void) { return fake.threads; }
EXPORT void openblas_set_num_threads(int n) { fake.threads = n; }
EXPORT const char *openblas_get_config(void) { return "FakeBLAS 1.2.3 of a test"; }

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

/* What the standard asks of a call; a wrong one writes nothing. */
static int begin(int order, int ta, int tb, int m, int n, int k, int lda, int ldb, int ldc) {
  fake.calls++;
  fake.threads_in_call = fake.threads;
  if (fake.slow_us) usleep((unsigned)fake.slow_us);
  if (fake.idle) return 0;
  if (order != ROW_MAJOR || (ta != PLAIN && ta != TRANSPOSED) || (tb != PLAIN && tb != TRANSPOSED)) return 0;
  return lda >= (ta == PLAIN ? k : m) && ldb >= (tb == PLAIN ? n : k) && ldc >= n;
}

#define GEMM(name, type) \
  EXPORT void name(int order, int ta, int tb, int m, int n, int k, type alpha, const type *a, int lda, const type *b, \
                   int ldb, type beta, type *c, int ldc) { \
    if (!begin(order, ta, tb, m, n, k, lda, ldb, ldc)) return; \
    for (int64_t i = 0; i < m; i++) \
      for (int64_t j = 0; j < n; j++) { \
        type sum = 0; \
        for (int64_t p = 0; p < k; p++) \
          sum += (ta == PLAIN ? a[i * lda + p] : a[p * lda + i]) * (tb == PLAIN ? b[p * ldb + j] : b[j * ldb + p]); \
        c[i * ldc + j] = alpha * sum + (beta == 0 ? 0 : beta * c[i * ldc + j]); \
      } \
  }
GEMM(cblas_sgemm, float)
GEMM(cblas_dgemm, double)
