/* Streams, events, asynchronous copies and the host's memory for them.
 *
 * A device kind with an AsyncKind table does these; on the others all has been done when a call returns: a stream there
 * is no more than an object to hand around, an event the time at which it was recorded, and a copy a copy.
 */
#include <stdlib.h>

#include "rt/hooks.h"

struct nereid_stream {
  nereid_device *device;
  void *native;
  bool owned;
};

struct nereid_event {
  nereid_device *device;
  void *native;
  int64_t ns; /* devices without their own: when it was recorded; 0: not yet */
};

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static nereid_status other_device(const nereid_device *d, const nereid_device *of, const char *what,
                                  nereid_error **error) {
  return error_set(error, NEREID_BAD_ARGUMENT, "make one for each device",
                   "the %s belongs to another device (%s) than this one (%s)", what, of->name, d->name);
}

nereid_status stream_handle(const nereid_device *d, const nereid_stream *s, void **out, nereid_error **error) {
  if (s && s->device != d) return other_device(d, s->device, "stream", error);
  *out = s ? s->native : NULL;
  return NEREID_OK;
}

static nereid_status stream_new(nereid_device *d, void *native, bool owned, nereid_stream **out, nereid_error **error) {
  nereid_stream *s = malloc(sizeof *s);
  if (!s) {
    if (owned) d->kind->async->stream_destroy(d, native);
    return error_out_of_memory(error);
  }
  *s = (nereid_stream){d, native, owned};
  *out = s;
  return NEREID_OK;
}

nereid_status nereid_stream_create(nereid_device *d, nereid_stream **out, nereid_error **error) {
  if (!d) return error_null(error, "nereid_stream_create", "the device");
  if (!out) return error_null(error, "nereid_stream_create", "out");
  if (!d->kind->async) return stream_new(d, NULL, false, out, error);
  void *native = NULL;
  nereid_status status = d->kind->async->stream_create(d, &native, error);
  return status ? status : stream_new(d, native, true, out, error);
}

nereid_status nereid_stream_wrap(nereid_device *d, void *native, nereid_stream **out, nereid_error **error) {
  if (!d) return error_null(error, "nereid_stream_wrap", "the device");
  if (!out) return error_null(error, "nereid_stream_wrap", "out");
  return stream_new(d, d->kind->async ? native : NULL, false, out, error);
}

void *nereid_stream_native(const nereid_stream *s) { return s && s->device->kind->async ? s->native : NULL; }
void stream_set_recording(nereid_stream *s, Recording *r) { s->native = r; }

void nereid_stream_destroy(nereid_stream *s) {
  if (!s) return;
  if (s->owned) s->device->kind->async->stream_destroy(s->device, s->native);
  if (!s->device->kind->async) graph_recording_free(s->native);
  free(s);
}

nereid_status nereid_stream_synchronize(nereid_device *d, nereid_stream *s, nereid_error **error) {
  if (!d) return error_null(error, "nereid_stream_synchronize", "the device");
  void *native = NULL;
  nereid_status status = stream_handle(d, s, &native, error);
  if (status || !d->kind->async) return status;
  int64_t start = prof_begin();
  return prof_end(start, "nereid_stream_synchronize", CALL_SYNC, d->kind->async->stream_synchronize(d, native, error));
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

nereid_status nereid_event_create(nereid_device *d, nereid_event **out, nereid_error **error) {
  if (!d) return error_null(error, "nereid_event_create", "the device");
  if (!out) return error_null(error, "nereid_event_create", "out");
  nereid_event *e = calloc(1, sizeof *e);
  if (!e) return error_out_of_memory(error);
  e->device = d;
  nereid_status status = d->kind->async ? d->kind->async->event_create(d, &e->native, error) : NEREID_OK;
  if (status) free(e);
  else *out = e;
  return status;
}

void nereid_event_destroy(nereid_event *e) {
  if (!e) return;
  if (e->device->kind->async) e->device->kind->async->event_destroy(e->device, e->native);
  free(e);
}

nereid_status nereid_event_record(nereid_event *e, nereid_stream *s, nereid_error **error) {
  if (!e) return error_null(error, "nereid_event_record", "the event");
  void *native = NULL;
  nereid_status status = stream_handle(e->device, s, &native, error);
  if (status) return status;
  if (e->device->kind->async) status = e->device->kind->async->event_record(e->device, e->native, native, error);
  if (!status) e->ns = clock_ns();
  return status;
}

static nereid_status recorded(const nereid_event *e, const char *function, nereid_error **error) {
  if (e->ns) return NEREID_OK;
  return error_set(error, NEREID_BAD_ARGUMENT, "record it with nereid_event_record", "%s: the event was never recorded",
                   function);
}

nereid_status nereid_event_synchronize(nereid_event *e, nereid_error **error) {
  if (!e) return error_null(error, "nereid_event_synchronize", "the event");
  if (!e->device->kind->async) return NEREID_OK;
  int64_t start = prof_begin();
  return prof_end(start, "nereid_event_synchronize", CALL_SYNC,
                  e->device->kind->async->event_synchronize(e->device, e->native, error));
}

nereid_status nereid_event_elapsed(nereid_event *start, nereid_event *end, double *ms, nereid_error **error) {
  const char *me = "nereid_event_elapsed";
  if (!start || !end) return error_null(error, me, start ? "the end" : "the start");
  if (!ms) return error_null(error, me, "ms");
  if (start->device != end->device) return other_device(start->device, end->device, "event", error);
  nereid_status status = recorded(start, me, error);
  if (!status) status = recorded(end, me, error);
  if (status) return status;
  const AsyncKind *async = start->device->kind->async;
  if (async) return async->event_elapsed(start->device, start->native, end->native, ms, error);
  *ms = (double)(end->ns - start->ns) / 1e6;
  return NEREID_OK;
}

nereid_status nereid_stream_wait(nereid_device *d, nereid_stream *s, nereid_event *e, nereid_error **error) {
  if (!d) return error_null(error, "nereid_stream_wait", "the device");
  if (!e) return error_null(error, "nereid_stream_wait", "the event");
  void *native = NULL;
  nereid_status status = stream_handle(d, s, &native, error);
  if (status) return status;
  if (e->device->kind->async != d->kind->async) return other_device(d, e->device, "event", error);
  return d->kind->async ? d->kind->async->stream_wait(d, native, e->native, error) : NEREID_OK;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

nereid_status nereid_copy_to_device_async(nereid_device *d, nereid_stream *s, void *dst, const void *host,
                                          int64_t bytes, nereid_error **error) {
  void *native = NULL;
  nereid_status status = device_check_copy(d, "nereid_copy_to_device_async", dst, host, bytes, error);
  if (!status) status = stream_handle(d, s, &native, error);
  if (status || !bytes) return status;
  int64_t start = prof_begin();
  if (d->kind->async) status = d->kind->async->copy(d, native, dst, host, bytes, COPY_TO_DEVICE, error);
  else if (native) return graph_record_copy(native, dst, host, bytes, false, error);
  else status = d->kind->copy_in(d, dst, host, bytes, error);
  return prof_end(start, "nereid_copy_to_device_async", CALL_COPY, status);
}

nereid_status nereid_copy_to_host_async(nereid_device *d, nereid_stream *s, void *host, const void *src, int64_t bytes,
                                        nereid_error **error) {
  void *native = NULL;
  nereid_status status = device_check_copy(d, "nereid_copy_to_host_async", src, host, bytes, error);
  if (!status) status = stream_handle(d, s, &native, error);
  if (status || !bytes) return status;
  int64_t start = prof_begin();
  if (d->kind->async) status = d->kind->async->copy(d, native, host, src, bytes, COPY_TO_HOST, error);
  else if (native) return graph_record_copy(native, host, src, bytes, true, error);
  else status = d->kind->copy_out(d, host, src, bytes, error);
  return prof_end(start, "nereid_copy_to_host_async", CALL_COPY, status);
}

nereid_status nereid_copy_async(nereid_device *d, nereid_stream *s, void *dst, const void *src, int64_t bytes,
                                nereid_error **error) {
  void *native = NULL;
  nereid_status status = device_check_copy(d, "nereid_copy_async", dst, src, bytes, error);
  if (!status) status = device_check_copy(d, "nereid_copy_async", src, dst, bytes, error);
  if (!status) status = stream_handle(d, s, &native, error);
  if (status || !bytes) return status;
  int64_t start = prof_begin();
  if (d->kind->async) status = d->kind->async->copy(d, native, dst, src, bytes, COPY_ON_DEVICE, error);
  else if (native) return graph_record_copy(native, dst, src, bytes, false, error);
  else status = d->kind->copy_in(d, dst, src, bytes, error);
  return prof_end(start, "nereid_copy_async", CALL_COPY, status);
}

nereid_status nereid_fill_async(nereid_device *d, nereid_stream *s, void *dst, unsigned char value, int64_t bytes,
                                nereid_error **error) {
  void *native = NULL;
  unsigned char part[4096] = {0};
  nereid_status status = device_check_copy(d, "nereid_fill_async", dst, part, bytes, error);
  if (!status) status = stream_handle(d, s, &native, error);
  if (status || !bytes) return status;
  int64_t start = prof_begin();
  if (d->kind->async)
    return prof_end(start, "nereid_fill_async", CALL_FILL, d->kind->async->fill(d, native, dst, value, bytes, error));
  if (native) return graph_record_fill(native, dst, value, bytes, error);
  memset(part, value, sizeof part);
  for (int64_t at = 0; at < bytes && !status; at += (int64_t)sizeof part) {
    int64_t n = bytes - at < (int64_t)sizeof part ? bytes - at : (int64_t)sizeof part;
    status = d->kind->copy_in(d, (char *)dst + at, part, n, error);
  }
  return prof_end(start, "nereid_fill_async", CALL_FILL, status);
}

nereid_status device_call(nereid_device *d, nereid_stream *s, DeviceCall call, const void *arg, size_t bytes,
                          nereid_error **error) {
  void *native = NULL;
  nereid_status status = stream_handle(d, s, &native, error);
  if (status) return status;
  if (d->kind->async) return d->kind->async->call(d, call, (void *)arg, error);
  if (native) return graph_record_call(native, call, arg, bytes, error);
  return call((void *)arg, error);
}

/* ---- the host's memory ------------------------------------------------------------------------------------------- */

nereid_status nereid_alloc_host(nereid_device *d, int64_t bytes, void **out, nereid_error **error) {
  if (!d) return error_null(error, "nereid_alloc_host", "the device");
  if (!out) return error_null(error, "nereid_alloc_host", "out");
  if (bytes < 0) return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_alloc_host: %lld bytes", (long long)bytes);
  if (d->kind->async) return d->kind->async->host_alloc(d, bytes, out, error);
  void *p = NULL;
  if (bytes > PTRDIFF_MAX - 4096 || posix_memalign(&p, 64, bytes ? (size_t)bytes : 1) != 0)
    return error_set(error, NEREID_OUT_OF_MEMORY, NULL, "out of memory: the host has no %lld bytes", (long long)bytes);
  *out = p;
  return NEREID_OK;
}

void nereid_free_host(nereid_device *d, void *p) {
  if (!d || !p) return;
  if (d->kind->async) d->kind->async->host_free(d, p);
  else free(p);
}
