/* What all libraries of convolutions share. */
#include "fuse/dnn.h"

#include <stdlib.h>

DnnConvolution dnn_convolution(const Tensor *t, bool aligned) {
  DnnConvolution c = {.type = t->dtype, .tf32 = t->tf32, .aligned = aligned};
  const char *why;
  graph_convolution_of(t, t->in, &c.sizes, &why);
  return c;
}

bool dnn_takes(const nereid_device *d, Dtype t) {
  if (d->kind == &device_cpu) return t == DT_F32;
  return d->kind == &device_cuda && (t == DT_F16 || t == DT_BF16 || t == DT_F32);
}

/* oneDNN takes as long with them, and its transposed convolutions' sums get longer. */
bool dnn_wants_channels_last(const nereid_device *d) { return d->kind == &device_cuda; }

nereid_status dnn_open(nereid_device *d, Dnn **out, nereid_error **error) {
  nereid_status status = d->kind == &device_cuda ? cudnn_open(out, error) : onednn_open(out, error);
  if (!status) (*out)->device = d;
  return status;
}

void dnn_close(Dnn *l) {
  if (l) device_call(l->device, NULL, l->close, l, sizeof *l, NULL);
  free(l);
}

const char *dnn_name(const Dnn *l) { return l->name; }
void dnn_identity(const Dnn *l, Buf *out) {
  buf_printf(out, "%s ", l->name);
  library_identity(out, l->path);
}

nereid_status dnn_plan(Dnn *l, const DnnConvolution *c, int *way, DnnPlan **out, nereid_error **error) {
  DnnCall call = {l, c, way, out};
  *out = NULL;
  return device_call(l->device, NULL, l->plan, &call, sizeof call, error);
}

void dnn_plan_free(DnnPlan *p) {
  if (p) device_call(p->library->device, NULL, p->library->free_plan, p, sizeof *p, NULL);
  free(p);
}

nereid_status dnn_run(DnnPlan *p, nereid_stream *s, const void *a, const void *b, void *out, nereid_error **error) {
  DnnRun run = {.plan = p, .stream = nereid_stream_native(s)};
  switch (p->part) {
    case CONVOLUTION_FORWARD: run.image = a, run.filter = b, run.result = out; break;
    case CONVOLUTION_DATA: run.result = a, run.filter = b, run.image = out; break;
    default: run.image = a, run.result = b, run.filter = out; break;
  }
  return device_call(p->library->device, s, p->library->run, &run, sizeof run, error);
}
