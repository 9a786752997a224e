/* Recordings of streams on devices that have done all when a call returns: launches, copies and fills, which a launch
 * of the graph goes through.
 */
#include <stdlib.h>

#include "rt/hooks.h"

typedef enum { STEP_LAUNCH, STEP_COPY_IN, STEP_COPY_OUT, STEP_CALL } StepKind;

typedef struct Step {
  struct Step *next;
  StepKind kind;
  Launch launch;
  nereid_options options;
  void *to;
  const void *from;
  int64_t bytes;
  DeviceCall call;
  uint64_t *args;    /* of the launch or call; of a fill: what it copies from */
  int64_t *programs; /* options.programs */
} Step;

struct Recording {
  Step *first, **end;
  bool failed; /* out of memory: the graph would not be whole */
};

Recording *graph_recording_create(void) {
  Recording *r = calloc(1, sizeof *r);
  if (r) r->end = &r->first;
  return r;
}

bool graph_recording_failed(const Recording *r) { return r->failed; }

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
  size_t args = sizeof *l->args * (size_t)l->kernel->slot_count,
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

nereid_status graph_record_call(Recording *r, DeviceCall call, const void *arg, size_t bytes, nereid_error **error) {
  Step *s = calloc(1, sizeof *s);
  if (s) s->args = malloc(bytes + 1);
  if (!s || !s->args) return step_failed(r, s, error);
  memcpy(s->args, arg, bytes);
  s->kind = STEP_CALL, s->call = call;
  return add(r, s), NEREID_OK;
}

static nereid_status replay_launch(nereid_device *d, const Launch *l, nereid_error **error) {
  const ProfCall profiled = {.start = prof_begin(), .function = "launch of a graph"};
  return profiled.start ? rt_hooks.launch(&profiled, d, l, error) : d->kind->launch(d, l, error);
}

nereid_status graph_replay(nereid_device *d, const Recording *r, nereid_error **error) {
  nereid_status status = NEREID_OK;
  for (const Step *s = r->first; s && !status; s = s->next) {
    if (s->kind == STEP_LAUNCH) status = replay_launch(d, &s->launch, error);
    else if (s->kind == STEP_CALL) status = s->call(s->args, error);
    else if (s->kind == STEP_COPY_IN) status = d->kind->copy_in(d, s->to, s->from, s->bytes, error);
    else status = d->kind->copy_out(d, s->to, s->from, s->bytes, error);
  }
  return status;
}
