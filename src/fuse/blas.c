/* What all libraries of products share. */
#include <stdlib.h>

#include "fuse/blas.h"

bool blas_takes(const nereid_device *d, Dtype t) {
  if (d->kind == &device_cpu) return t == DT_F32 || t == DT_F64;
  return d->kind == &device_cuda && (t == DT_F16 || t == DT_BF16 || t == DT_F32 || t == DT_F64);
}

nereid_status blas_open(nereid_device *d, Blas **out, nereid_error **error) {
  nereid_status status = d->kind == &device_cuda ? cublas_open(out, error) : openblas_open(out, error);
  if (!status) (*out)->device = d;
  return status;
}

void blas_close(Blas *b) {
  if (b && b->close) device_call(b->device, NULL, b->close, b, sizeof *b, NULL);
  free(b);
}

const char *blas_name(const Blas *b) { return b->name; }
void blas_identity(const Blas *b, Buf *out) {
  buf_printf(out, "%s ", b->name);
  library_identity(out, b->path);
}

nereid_status blas_start(Blas *b, nereid_error **error) {
  return b->start ? device_call(b->device, NULL, b->start, b, sizeof *b, error) : NEREID_OK;
}

nereid_status blas_run(Blas *b, nereid_stream *s, const BlasProduct *p, const void *a_at, const void *b_at, void *c_at,
                       nereid_error **error) {
  int64_t limit = INT32_MAX;
  if (p->m > limit || p->n > limit || p->k > limit || p->batches > limit || p->a.lead > limit || p->b.lead > limit)
    return error_set(error, NEREID_UNSUPPORTED, "take products=own", "%s counts with 32 bits, and a product has more",
                     b->name);
  BlasCall call = {b, nereid_stream_native(s), *p, a_at, b_at, c_at};
  return device_call(b->device, s, b->multiply, &call, sizeof call, error);
}
