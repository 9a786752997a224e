/* Graphs: what goes into a stream is recorded once and launched as one.
 *
 * On CUDA this is a CUDA graph (cuda_stream.c). On the devices that have done all when a call returns, a recording is a
 * list of launches, copies and fills, which a launch of the graph goes through; so a program with graphs runs there
 * too. Such a stream has no native handle: while it records, its handle is the Recording, and launch.c and stream.c
 * hand over to here what they would have done.
 */
#include <stdlib.h>

#include "runtime/hooks.h"

typedef enum { STEP_LAUNCH, STEP_COPY_IN, STEP_COPY_OUT } StepKind;

typedef struct Step {
  struct Step *next;
  StepKind kind;
  Launch launch;
  nereid_options options;
  void *to;
  const void *from;
  int64_t bytes;
  uint64_t *args;    /* of the launch; of a fill: what it copies from */
  int64_t *programs; /* options.programs */
} Step;

struct Recording {
  Step *first, **end;
  bool failed; /* out of memory: the graph would not be whole */
};

struct nereid_graph {
  nereid_device *device;
  void *native;         /* of an async kind */
  Recording *recording; /* of the others */
};

void graph_recording_free(Recording *r) {
  for (Step *s = r ? r->first : NULL, *next; s; s = next) {
    next = s->next;
    free(s->args), free(s->programs), free(s);
  }
  free(r);
}

static nereid_status step_failed(Recording *r, Step *s, nereid_error **error) {
  if (s) free(s->args), free(s->programs), free(s);
  r->failed = true;
  return error_out_of_memory(error);
}

static void add(Recording *r, Step *s) {
  *r->end = s;
  r->end = &s->next;
}

nereid_status graph_record_launch(Recording *r, const Launch *l, nereid_error **error) {
  Step *s = calloc(1, sizeof *s);
  const nereid_options *o = l->options;
  size_t args = sizeof *l->args * (size_t)l->spec->slot_count,
         programs = o->programs ? sizeof *o->programs * (size_t)o->program_count : 0;
  if (s) s->args = malloc(args + 1), s->programs = malloc(programs + 1);
  if (!s || !s->args || !s->programs) return step_failed(r, s, error);
  if (args) memcpy(s->args, l->args, args);
  if (programs) memcpy(s->programs, o->programs, programs);
  s->kind = STEP_LAUNCH, s->launch = *l, s->options = *o;
  if (o->programs) s->options.programs = s->programs;
  s->launch.args = s->args, s->launch.options = &s->options, s->launch.stream = NULL;
  return add(r, s), NEREID_OK;
}

nereid_status graph_record_copy(Recording *r, void *to, const void *from, int64_t bytes, bool to_host,
                                nereid_error **error) {
  Step *s = calloc(1, sizeof *s);
  if (!s) return step_failed(r, s, error);
  s->kind = to_host ? STEP_COPY_OUT : STEP_COPY_IN;
  s->to = to, s->from = from, s->bytes = bytes;
  return add(r, s), NEREID_OK;
}

nereid_status graph_record_fill(Recording *r, void *to, unsigned char value, int64_t bytes, nereid_error **error) {
  Step *s = calloc(1, sizeof *s);
  if (s) s->args = malloc((size_t)bytes + 1);
  if (!s || !s->args) return step_failed(r, s, error);
  memset(s->args, value, (size_t)bytes);
  s->kind = STEP_COPY_IN, s->to = to, s->from = s->args, s->bytes = bytes;
  return add(r, s), NEREID_OK;
}

static nereid_status replay_launch(nereid_device *d, const Launch *l, nereid_error **error) {
  const ProfCall profiled = {.start = prof_begin(), .function = "launch of a graph"};
  return profiled.start ? measure_hooks.launch(&profiled, d, l, error) : d->kind->launch(d, l, error);
}

static nereid_status replay(nereid_device *d, const Recording *r, nereid_error **error) {
  nereid_status status = NEREID_OK;
  for (const Step *s = r->first; s && !status; s = s->next) {
    if (s->kind == STEP_LAUNCH) status = replay_launch(d, &s->launch, error);
    else if (s->kind == STEP_COPY_IN) status = d->kind->copy_in(d, s->to, s->from, s->bytes, error);
    else status = d->kind->copy_out(d, s->to, s->from, s->bytes, error);
  }
  return status;
}

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
  Recording *r = calloc(1, sizeof *r);
  if (!r) return error_out_of_memory(error);
  r->end = &r->first;
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
    if (g->recording->failed) status = error_out_of_memory(error);
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
  return prof_end(start, "nereid_graph_launch", CALL_LAUNCH, replay(g->device, g->recording, error));
}

void nereid_graph_free(nereid_graph *g) {
  if (!g) return;
  if (g->native) g->device->kind->async->graph_free(g->device, g->native);
  graph_recording_free(g->recording);
  free(g);
}
