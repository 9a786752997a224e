/* blas: products by a library, which is opened at run time: OpenBLAS, or another that has CBLAS's functions, on a CPU
 * (openblas.c); cuBLAS on a GPU (cublas.c). $NEREID_LIBOPENBLAS and $NEREID_LIBCUBLAS name a file. */
#ifndef NEREID_FUSE_BLAS_H
#define NEREID_FUSE_BLAS_H

#include "runtime/runtime.h"

/* A matrix for each of a product's batches. Neighbours in a row lie side by side, and rows `lead` elements apart; or
 * those in a column (`across`), and columns lead apart. */
typedef struct BlasMatrix {
  bool across;
  int64_t lead, batch; /* elements; batch 0: all batches have one matrix */
} BlasMatrix;
/* c = a @ b: [m, k] by [k, n] of `batches`, all of one type; c lies row by row. */
typedef struct BlasProduct {
  Dtype type;
  bool tf32; /* f32 may be rounded to it */
  int64_t m, n, k, batches;
  BlasMatrix a, b;
} BlasProduct;

typedef struct Blas Blas; /* of one device; used by one thread at a time */

/* Which types of products the device's library has at all; no library is opened for that. */
bool blas_takes(const nereid_device *d, Dtype t);
nereid_status blas_open(nereid_device *d, Blas **out, nereid_error **error);
void blas_close(Blas *b); /* NULL: nothing */
/* "OpenBLAS 0.3.21", and what tells this library from others. */
const char *blas_name(const Blas *b);
void blas_identity(const Blas *b, Buf *out);
/* Makes what runs need, if it is not there; before them, and not while a stream is recorded. */
nereid_status blas_start(Blas *b, nereid_error **error);
nereid_status blas_run(Blas *b, nereid_stream *s, const BlasProduct *p, const void *a_at, const void *b_at, void *c_at,
                       nereid_error **error);

/* ---- of blas.c, openblas.c and cublas.c -------------------------------------------------------------------------- */

typedef struct BlasCall {
  Blas *blas;
  void *stream; /* the device's own handle */
  BlasProduct product;
  const void *a, *b;
  void *c;
} BlasCall;
struct Blas {
  nereid_device *device;
  char path[LIBRARY_PATH], name[64];
  DeviceCall multiply, start, close; /* of a BlasCall; of a Blas; the last two may be NULL */
};
nereid_status openblas_open(Blas **out, nereid_error **error);
nereid_status cublas_open(Blas **out, nereid_error **error);

#endif
