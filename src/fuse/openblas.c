/* OpenBLAS and its like: cblas_sgemm and cblas_dgemm, a batch after the other. f32 is multiplied and added in f32.
 *
 * The library has threads of its own. Where it lets callers say how many, it takes as many as the device has, and
 * afterwards as many as before: the process may use it for other things. */
#include <dlfcn.h>
#include <stdlib.h>

#include "fuse/blas.h"

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

typedef struct Functions {
  void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                int ldb, float beta, float *c, int ldc);
  void (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b,
                int ldb, double beta, double *c, int ldc);
  int (*threads)(void);
  void (*set_threads)(int);
  int (*mkl_set_threads)(int); /* of the calling thread; returns what it was */
  const char *(*config)(void);
} Functions;

static const LibrarySymbol symbols[] = {
    {"cblas_sgemm", offsetof(Functions, sgemm), true},
    {"cblas_dgemm", offsetof(Functions, dgemm), true},
    {"openblas_get_num_threads", offsetof(Functions, threads), false},
    {"openblas_set_num_threads", offsetof(Functions, set_threads), false},
    {"MKL_Set_Num_Threads_Local", offsetof(Functions, mkl_set_threads), false},
    {"openblas_get_config", offsetof(Functions, config), false},
};

typedef struct Openblas {
  Blas blas; /* the first member */
  Functions f;
} Openblas;

static const char hint[] =
    "install it (Debian: libopenblas0), or name a library with CBLAS's functions with NEREID_LIBOPENBLAS";

static int begin_threads(const Openblas *b) {
  int want = b->blas.device->threads, before = b->f.threads ? b->f.threads() : want;
  if (b->f.mkl_set_threads) return b->f.mkl_set_threads(want);
  if (b->f.set_threads && before != want) b->f.set_threads(want);
  return before;
}

static void end_threads(const Openblas *b, int before) {
  if (b->f.mkl_set_threads) b->f.mkl_set_threads(before);
  else if (b->f.set_threads && before != b->blas.device->threads) b->f.set_threads(before);
}

static nereid_status multiply(void *arg, nereid_error **error) {
  const BlasCall *call = arg;
  const BlasProduct *p = &call->product;
  const Openblas *library = (const Openblas *)call->blas;
  const Functions *f = &library->f;
  int64_t size = dtype_bytes(p->type);
  int m = (int)p->m, n = (int)p->n, k = (int)p->k, a_lead = (int)p->a.lead, b_lead = (int)p->b.lead;
  int ta = p->a.across ? TRANSPOSED : PLAIN, tb = p->b.across ? TRANSPOSED : PLAIN;
  int before = begin_threads(library);
  for (int64_t i = 0; i < p->batches; i++) {
    const void *a = (const char *)call->a + i * p->a.batch * size, *b = (const char *)call->b + i * p->b.batch * size;
    void *c = (char *)call->c + i * p->m * p->n * size;
    if (p->type == DT_F64) f->dgemm(ROW_MAJOR, ta, tb, m, n, k, 1, a, a_lead, b, b_lead, 0, c, n);
    else f->sgemm(ROW_MAJOR, ta, tb, m, n, k, 1, a, a_lead, b, b_lead, 0, c, n);
  }
  end_threads(library, before);
  return NEREID_OK;
}

nereid_status openblas_open(Blas **out, nereid_error **error) {
  static const char *const names[] = {"libopenblas.so.0", "libmkl_rt.so.2", "libblas.so.3", NULL};
  void *library = library_open("NEREID_LIBOPENBLAS", names);
  if (!library) {
    const char *why = dlerror();
    return error_set(error, NEREID_UNSUPPORTED, hint, "OpenBLAS was not found: %s", why ? why : "it cannot be opened");
  }
  Openblas *b = calloc(1, sizeof *b);
  if (!b) return error_out_of_memory(error);
  const char *missing = library_take(library, symbols, sizeof symbols / sizeof *symbols, &b->f);
  if (missing) {
    free(b);
    return error_set(error, NEREID_UNSUPPORTED, hint, "this is no library of products: it has no %s", missing);
  }
  b->blas.multiply = multiply;
  library_of(*(void **)&b->f.sgemm, b->blas.path);
  const char *config = b->f.config ? b->f.config() : NULL; /* "OpenBLAS 0.3.21 NO_AFFINITY ..." */
  const char *slash = strrchr(b->blas.path, '/'), *file = slash ? slash + 1 : b->blas.path;
  int words = 0, n = 0;
  while (config && config[n] && (config[n] != ' ' || words++ < 1)) n++;
  snprintf(b->blas.name, sizeof b->blas.name, "%.*s", config && n ? n : 60, config && n ? config : file);
  *out = &b->blas;
  return NEREID_OK;
}
