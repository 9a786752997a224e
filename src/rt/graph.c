/* Graphs: what goes into a stream is recorded once and launched as one.
 *
 * On CUDA this is a CUDA graph (cuda_stream.c). On the devices that have done all when a call returns, a recording is a
 * list of launches, copies and fills, which a launch of the graph goes through; so a program with graphs runs there
 * too. Such a stream has no native handle: while it records, its handle is the Recording, and launch.c and stream.c
 * hand over to here what they would have done.
 */
#include <stdlib.h>

#include "rt/hooks.h"

struct nereid_graph {
  nereid_device *device;
  void *native;         /* of an async kind */
  Recording *recording; /* of the others */
};

/* ---- the interface ----------------------------------------------------------------------------------------------- */

static nereid_status check(const nereid_device *d, const nereid_stream *s, const char *function, void **handle,
                           nereid_error **error) {
  if (!d) return error_null(error, function, "the device");
  if (!s)
    return error_set(error, NEREID_BAD_ARGUMENT, "make one with nereid_stream_create",
                     "%s: the default stream cannot be recorded", function);
  return stream_handle(d, s, handle, error);
}

nereid_status nereid_graph_begin(nereid_device *d, nereid_stream *s, nereid_error **error) {
  void *handle = NULL;
  nereid_status status = check(d, s, "nereid_graph_begin", &handle, error);
  if (status) return status;
  if (d->kind->async) return d->kind->async->graph_begin(d, handle, error);
  if (handle)
    return error_set(error, NEREID_BAD_ARGUMENT, "nereid_graph_end ends it",
                     "nereid_graph_begin: the stream is being recorded already");
  Recording *r = graph_recording_create();
  if (!r) return error_out_of_memory(error);
  stream_set_recording(s, r);
  return NEREID_OK;
}

nereid_status nereid_graph_end(nereid_device *d, nereid_stream *s, nereid_graph **out, nereid_error **error) {
  void *handle = NULL;
  nereid_status status = check(d, s, "nereid_graph_end", &handle, error);
  if (status) return status;
  if (!out) return error_null(error, "nereid_graph_end", "out");
  nereid_graph *g = calloc(1, sizeof *g);
  if (!g) return error_out_of_memory(error);
  g->device = d;
  if (d->kind->async) {
    status = d->kind->async->graph_end(d, handle, &g->native, error);
  } else if (!handle) {
    status = error_set(error, NEREID_BAD_ARGUMENT, "nereid_graph_begin begins it",
                       "nereid_graph_end: the stream is not being recorded");
  } else {
    g->recording = handle;
    stream_set_recording(s, NULL);
    if (graph_recording_failed(g->recording)) status = error_out_of_memory(error);
  }
  if (status) graph_recording_free(g->recording), free(g);
  else *out = g;
  return status;
}

nereid_status nereid_graph_launch(nereid_graph *g, nereid_stream *s, nereid_error **error) {
  if (!g) return error_null(error, "nereid_graph_launch", "the graph");
  void *handle = NULL;
  nereid_status status = stream_handle(g->device, s, &handle, error);
  if (status) return status;
  int64_t start = prof_begin();
  if (g->device->kind->async)
    return prof_end(start, "nereid_graph_launch", CALL_LAUNCH,
                    g->device->kind->async->graph_launch(g->device, g->native, handle, error));
  if (handle)
    return error_set(error, NEREID_UNSUPPORTED, "end the recording first",
                     "nereid_graph_launch: a graph cannot be recorded into another on %s", g->device->name);
  return prof_end(start, "nereid_graph_launch", CALL_LAUNCH, graph_replay(g->device, g->recording, error));
}

void nereid_graph_free(nereid_graph *g) {
  if (!g) return;
  if (g->native) g->device->kind->async->graph_free(g->device, g->native);
  graph_recording_free(g->recording);
  free(g);
}
