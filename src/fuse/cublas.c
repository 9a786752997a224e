/* cuBLAS: cublasGemmEx and cublasGemmStridedBatchedEx in the caller's stream.
 *
 * It sees matrices by columns, so that a product row by row, c = a @ b, is c^T = b^T @ a^T of what lies in memory as it
 * is. f32 is multiplied and added in f32, or rounded to tf32 where the product allows it; sums of f16 and bf16 are of
 * f32 in all of k. Its scratch memory is ours: so a stream that is recorded allocates nothing, and a graph keeps what
 * it needs as long as the program lives. cublasSetStream takes the library's own again, hence the order of calls. */
#include <dlfcn.h>
#include <stdlib.h>

#include "fuse/blas.h"

enum { OP_N = 0, OP_T = 1, R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_TF32 = 77, USUAL_ALGORITHM = -1 };
enum { NO_REDUCED_PRECISION = 16 }; /* CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: parts of k are added in f32 */
enum { WORKSPACE = 32 << 20 };      /* what cuBLAS's manual (cublasSetWorkspace) advises for sm_90 */

typedef struct Functions {
  int (*create)(void **handle);
  int (*destroy)(void *handle);
  int (*set_stream)(void *handle, void *stream);
  int (*set_workspace)(void *handle, void *at, size_t bytes);
  int (*set_math)(void *handle, int mode);
  int (*property)(int which, int *out);
  int (*gemm)(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda,
              const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc, int compute,
              int algorithm);
  int (*batched)(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type,
                 int lda, long long a_stride, const void *b, int b_type, int ldb, long long b_stride, const void *beta,
                 void *c, int c_type, int ldc, long long c_stride, int count, int compute, int algorithm);
} Functions;

static const LibrarySymbol symbols[] = {
    {"cublasCreate_v2", offsetof(Functions, create), true},
    {"cublasDestroy_v2", offsetof(Functions, destroy), true},
    {"cublasSetStream_v2", offsetof(Functions, set_stream), true},
    {"cublasSetWorkspace_v2", offsetof(Functions, set_workspace), true},
    {"cublasSetMathMode", offsetof(Functions, set_math), true},
    {"cublasGetProperty", offsetof(Functions, property), true},
    {"cublasGemmEx", offsetof(Functions, gemm), true},
    {"cublasGemmStridedBatchedEx", offsetof(Functions, batched), true},
};

typedef struct Cublas {
  Blas blas; /* the first member */
  Functions f;
  void *handle, *workspace;
} Cublas;

static const char hint[] =
    "install it with the CUDA toolkit (or pip's nvidia-cublas), or name its file with NEREID_LIBCUBLAS";

static nereid_status check(const Cublas *c, int result, const char *what, nereid_error **error) {
  if (!result) return NEREID_OK;
  return error_set(error, result == 3 ? NEREID_OUT_OF_MEMORY : NEREID_UNSUPPORTED, "take products=own",
                   "%s: %s fails with status %d", c->blas.name, what, result);
}

static nereid_status start(void *arg, nereid_error **error) {
  Cublas *c = arg;
  if (c->handle) return NEREID_OK;
  nereid_status status = NEREID_OK;
  if (!c->workspace) status = nereid_alloc(c->blas.device, WORKSPACE, &c->workspace, error);
  if (!status) status = check(c, c->f.create(&c->handle), "cublasCreate", error);
  if (!status) status = check(c, c->f.set_math(c->handle, NO_REDUCED_PRECISION), "cublasSetMathMode", error);
  return status;
}

static nereid_status end(void *arg, nereid_error **error) {
  Cublas *c = arg;
  if (c->handle) c->f.destroy(c->handle);
  if (c->workspace) nereid_free(c->blas.device, c->workspace);
  return NEREID_OK;
}

static int type_of(Dtype t) { return t == DT_F64 ? R_64F : t == DT_F16 ? R_16F : t == DT_BF16 ? R_16BF : R_32F; }

static nereid_status multiply(void *arg, nereid_error **error) {
  const BlasCall *call = arg;
  Cublas *c = (Cublas *)call->blas;
  const BlasProduct *p = &call->product;
  const float one = 1, zero = 0;
  const double one64 = 1, zero64 = 0;
  bool wide = p->type == DT_F64;
  const void *alpha = wide ? (const void *)&one64 : &one, *beta = wide ? (const void *)&zero64 : &zero;
  int compute = wide ? COMPUTE_64F : p->tf32 && p->type == DT_F32 ? COMPUTE_TF32 : COMPUTE_32F, type = type_of(p->type);
  int ta = p->a.across ? OP_T : OP_N, tb = p->b.across ? OP_T : OP_N;
  int m = (int)p->m, n = (int)p->n, k = (int)p->k, a_lead = (int)p->a.lead, b_lead = (int)p->b.lead;
  nereid_status status = check(c, c->f.set_stream(c->handle, call->stream), "cublasSetStream", error);
  if (!status) status = check(c, c->f.set_workspace(c->handle, c->workspace, WORKSPACE), "cublasSetWorkspace", error);
  if (status) return status;
  if (p->batches == 1)
    return check(c,
                 c->f.gemm(c->handle, tb, ta, n, m, k, alpha, call->b, type, b_lead, call->a, type, a_lead, beta,
                           call->c, type, n, compute, USUAL_ALGORITHM),
                 "cublasGemmEx", error);
  return check(c,
               c->f.batched(c->handle, tb, ta, n, m, k, alpha, call->b, type, b_lead, p->b.batch, call->a, type, a_lead,
                            p->a.batch, beta, call->c, type, n, p->m * p->n, (int)p->batches, compute, USUAL_ALGORITHM),
               "cublasGemmStridedBatchedEx", error);
}

nereid_status cublas_open(Blas **out, nereid_error **error) {
  static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", NULL};
  static const char *const lt_names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
  library_open("NEREID_LIBCUBLASLT", lt_names); /* which cuBLAS needs, from the same folder */
  void *library = library_open("NEREID_LIBCUBLAS", names);
  if (!library) {
    const char *why = dlerror();
    return error_set(error, NEREID_UNSUPPORTED, hint, "cuBLAS was not found: %s", why ? why : "it cannot be opened");
  }
  Cublas *c = calloc(1, sizeof *c);
  if (!c) return error_out_of_memory(error);
  const char *missing = library_take(library, symbols, sizeof symbols / sizeof *symbols, &c->f);
  if (missing) {
    free(c);
    return error_set(error, NEREID_UNSUPPORTED, hint, "this is no cuBLAS of CUDA 11 or later: it has no %s", missing);
  }
  int version[3] = {0};
  for (int i = 0; i < 3; i++) c->f.property(i, &version[i]);
  c->blas.multiply = multiply;
  c->blas.start = start;
  c->blas.close = end;
  library_of(*(void **)&c->f.gemm, c->blas.path);
  snprintf(c->blas.name, sizeof c->blas.name, "cuBLAS %d.%d.%d", version[0], version[1], version[2]);
  *out = &c->blas;
  return NEREID_OK;
}
