/* Streams, events and asynchronous copies of the cuda device: each is one call of the driver.
 *
 * Our streams wait for the default stream and it for them (CUDA's "blocking" streams), so that nereid_copy_to_device,
 * which goes through the default stream, needs no thought. Who wants streams that do not, makes them and wraps them.
 */
#include "rt/cuda/cuda.h"

/* Runs `call` in the context and makes an error of what it returns. */
#define IN_CONTEXT(d, call, ...) \
  Cuda *c = (d)->state; \
  CudaEntered entered; \
  CuResult r = cuda_enter(c, &entered); \
  if (!r) r = (call); \
  cuda_leave(c, entered); \
  return r ? cuda_error(c, r, error, __VA_ARGS__) : NEREID_OK

static nereid_status stream_create(nereid_device *d, void **out, nereid_error **error) {
  IN_CONTEXT(d, c->api.stream_create((CuStream *)out, 0), "a stream cannot be created");
}

static void stream_destroy(nereid_device *d, void *stream) {
  Cuda *c = d->state;
  CudaEntered entered;
  if (!cuda_enter(c, &entered)) c->api.stream_destroy(stream);
  cuda_leave(c, entered);
}

static nereid_status stream_wait(nereid_device *d, void *stream, void *event, nereid_error **error) {
  IN_CONTEXT(d, c->api.stream_wait(stream, event, 0), "the stream cannot wait for the event");
}

static nereid_status event_create(nereid_device *d, void **out, nereid_error **error) {
  IN_CONTEXT(d, c->api.event_create((CuEvent *)out, 0), "an event cannot be created");
}

static void event_destroy(nereid_device *d, void *event) {
  Cuda *c = d->state;
  CudaEntered entered;
  if (!cuda_enter(c, &entered)) c->api.event_destroy(event);
  cuda_leave(c, entered);
}

static nereid_status event_record(nereid_device *d, void *event, void *stream, nereid_error **error) {
  IN_CONTEXT(d, c->api.event_record(event, stream), "the event cannot be recorded");
}

static nereid_status event_synchronize(nereid_device *d, void *event, nereid_error **error) {
  IN_CONTEXT(d, c->api.event_synchronize(event), "waiting for an event");
}

static nereid_status event_elapsed(nereid_device *d, void *start, void *end, double *ms, nereid_error **error) {
  Cuda *c = d->state;
  CudaEntered entered;
  float v = 0;
  CuResult r = cuda_enter(c, &entered);
  if (!r) r = c->api.event_elapsed(&v, start, end);
  cuda_leave(c, entered);
  if (r == 600) /* not ready */
    return error_set(error, NEREID_BAD_ARGUMENT, "nereid_event_synchronize waits for it",
                     "nereid_event_elapsed: the device has not reached the end event yet");
  if (r) return cuda_error(c, r, error, "the time between two events");
  *ms = v;
  return NEREID_OK;
}

static nereid_status copy(nereid_device *d, void *stream, void *dst, const void *src, int64_t bytes, CopyKind kind,
                          nereid_error **error) {
  size_t n = (size_t)bytes;
  uintptr_t to = (uintptr_t)dst, from = (uintptr_t)src;
  IN_CONTEXT(d,
             kind == COPY_TO_DEVICE ? c->api.copy_in_async(to, src, n, stream)
             : kind == COPY_TO_HOST ? c->api.copy_out_async(dst, from, n, stream)
                                    : c->api.copy_async(to, from, n, stream),
             "%lld bytes cannot be copied %s %s", (long long)bytes,
             kind == COPY_TO_DEVICE ? "to"
             : kind == COPY_TO_HOST ? "from"
                                    : "on",
             d->name);
}

static nereid_status fill(nereid_device *d, void *stream, void *dst, int value, int64_t bytes, nereid_error **error) {
  IN_CONTEXT(d, c->api.fill_async((uintptr_t)dst, (unsigned char)value, (size_t)bytes, stream),
             "%lld bytes of %s cannot be filled", (long long)bytes, d->name);
}

static nereid_status host_alloc(nereid_device *d, int64_t bytes, void **out, nereid_error **error) {
  IN_CONTEXT(d, c->api.host_alloc(out, bytes ? (size_t)bytes : 1, CU_HOST_PORTABLE | CU_HOST_MAPPED),
             "%lld bytes of the host's memory cannot be page-locked", (long long)bytes);
}

static void host_free(nereid_device *d, void *p) {
  Cuda *c = d->state;
  CudaEntered entered;
  if (!cuda_enter(c, &entered)) c->api.host_free(p);
  cuda_leave(c, entered);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static nereid_status graph_begin(nereid_device *d, void *stream, nereid_error **error) {
  const CudaApi *api = &((Cuda *)d->state)->api;
  if (!api->capture_begin || !api->capture_end || !api->graph_instantiate || !api->graph_launch ||
      !api->graph_destroy || !api->graph_exec_destroy)
    return error_set(error, NEREID_UNSUPPORTED, "it takes a driver of CUDA 11.4 or later",
                     "this NVIDIA driver has no CUDA graphs");
  IN_CONTEXT(d, c->api.capture_begin(stream, CU_CAPTURE_RELAXED), "the stream cannot be recorded");
}

/* A capture that something has made invalid ends here with the driver's reason. */
static nereid_status graph_end(nereid_device *d, void *stream, void **out, nereid_error **error) {
  Cuda *c = d->state;
  CudaEntered entered;
  CuGraph graph = NULL;
  CuGraphExec exec = NULL;
  CuResult r = cuda_enter(c, &entered);
  if (!r && !c->api.capture_end) r = CU_NOT_SUPPORTED;
  if (!r) r = c->api.capture_end(stream, &graph);
  if (!r) r = c->api.graph_instantiate(&exec, graph, 0);
  if (graph) c->api.graph_destroy(graph);
  cuda_leave(c, entered);
  *out = exec;
  return r ? cuda_error(c, r, error, "what the stream recorded cannot be made a graph") : NEREID_OK;
}

static nereid_status graph_launch(nereid_device *d, void *graph, void *stream, nereid_error **error) {
  cuda_reports_graph(d->state, stream);
  IN_CONTEXT(d, c->api.graph_launch(graph, stream), "the graph cannot be launched");
}

static void graph_free(nereid_device *d, void *graph) {
  Cuda *c = d->state;
  CudaEntered entered;
  if (!cuda_enter(c, &entered)) c->api.graph_exec_destroy(graph);
  cuda_leave(c, entered);
}

static nereid_status call_within(nereid_device *d, DeviceCall call, void *arg, nereid_error **error) {
  Cuda *c = d->state;
  CudaEntered entered;
  CuResult r = cuda_enter(c, &entered);
  CudaRelaxed was = {0}; /* a capture in another stream forbids the call nothing, and is not disturbed */
  if (!r) was = cuda_relax(c);
  nereid_status status = r ? cuda_error(c, r, error, "the device's context cannot be made current") : call(arg, error);
  cuda_restrict(c, was);
  cuda_leave(c, entered);
  return status;
}

const AsyncKind cuda_async = {
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_synchronize = cuda_synchronize_stream,
    .stream_wait = stream_wait,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_synchronize = event_synchronize,
    .event_elapsed = event_elapsed,
    .copy = copy,
    .fill = fill,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .graph_begin = graph_begin,
    .graph_end = graph_end,
    .graph_launch = graph_launch,
    .graph_free = graph_free,
    .call = call_within,
};
