/* Running a program: its launches are prepared when it first runs on a device, all kernels compiled at once, and then
 * only the addresses of the caller's arrays change. On a GPU all launches on one set of arrays are a CUDA graph from
 * the second run on: a run is then one launch.
 *
 *     plan_memory   what lies in the caller's arrays, and what in slots of our own
 *     prepare       slots, and launches (step.c)
 *     nereid_fusion_run   a recorded graph; or the launches, which may be recorded */
#include <stdlib.h>

#include "fuse/program.h"

int64_t fusion_count(const nereid_fusion *f, const Tensor *t) {
  int64_t n = 1, v;
  for (int d = 0; d < t->rank; d++)
    if (!size_value(t->size[d], f->symbols, &v) || v < 0 || __builtin_mul_overflow(n, v, &n)) return -1;
  return n;
}

int64_t fusion_bytes(const nereid_fusion *f, const Tensor *t) {
  int64_t n = fusion_count(f, t), bytes;
  return n < 0 || __builtin_mul_overflow(n, (int64_t)dtype_bytes(t->dtype), &bytes) ? -1 : bytes;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static int input_index(const nereid_fusion *f, const Tensor *t) {
  int i = 0;
  while (f->g->inputs.at[i] != t) i++;
  return i;
}

static int buffer_index(const FuseKernel *k, const nereid_fusion *f, const Tensor *base) {
  for (int i = 0; i < k->buffer_count; i++)
    if (fuse_base(f->plan, k->buffers[i]) == base) return i;
  return -1;
}

/* Whether what an input becomes may be computed right into it: by one kernel, after which nobody reads the input, and
 * which itself reads of it only the element that it then writes. */
static bool goes_in_place(const nereid_fusion *f, const Tensor *input, const Tensor *value) {
  int writer = -1;
  if (value->op == GRAPH_INPUT || value->op == GRAPH_SCATTER || input->dtype != value->dtype) return false;
  for (int i = 0; i < f->g->outputs.n; i++)
    if (f->g->outputs.at[i] && fuse_base(f->plan, f->g->outputs.at[i]) == input) return false;
  for (int i = 0; i < f->g->writes.n; i++) {
    const Tensor *other = fuse_base(f->plan, f->g->writes.at[i].value);
    if (other == input || (other == value && f->g->writes.at[i].input != input)) return false;
  }
  for (int k = 0; k < f->plan->kernels.n; k++) {
    const FuseKernel *kernel = f->plan->kernels.at[k];
    int in = buffer_index(kernel, f, input), out = buffer_index(kernel, f, value);
    if (writer >= 0 && in >= 0) return false;
    if (writer >= 0 || out < 0) continue;
    writer = k;
    const char *to = kernel->stored_at[out];
    if (!to || (in >= 0 && (!kernel->loaded_at[in] || strcmp(kernel->loaded_at[in], to)))) return false;
  }
  return writer >= 0;
}

static int64_t stored_bytes(const nereid_fusion *f, const Tensor *t) {
  int64_t bytes = f->plan->stored[t->id] ? fusion_bytes(f, t) : 0;
  if (bytes < 0) diag_fail(f->cx, t->span, "a tensor of this program does not fit in memory");
  return bytes;
}

/* Who shares a slot does so whatever the sizes are; they say how large it is. */
static void resize_memory(nereid_fusion *f) {
  FuseMemory *m = f->memory;
  for (int s = 0; s < m->count; s++) m->bytes[s] = 1;
  for (int i = 0; i < f->g->at.n; i++) {
    int64_t bytes = stored_bytes(f, f->g->at.at[i]);
    if (m->slot[i] >= 0 && bytes > m->bytes[m->slot[i]]) m->bytes[m->slot[i]] = bytes;
  }
}

static nereid_status plan_memory(nereid_fusion *f, nereid_error **error) {
  nereid_status status = NEREID_OK;
  if (f->memory && !f->resized) return status;
  if (f->resized) fusion_release(f);
  if (context_try(f->cx)) {
    if (f->memory) {
      resize_memory(f);
      context_end_try(f->cx);
      f->resized = false;
      return status;
    }
    Graph *g = f->g;
    int64_t *bytes = NEW_N(f->cx->arena, int64_t, g->at.n + 1);
    for (int i = 0; i < g->at.n; i++) bytes[i] = stored_bytes(f, g->at.at[i]);
    f->place = NEW_N(f->cx->arena, int, g->at.n + 1);
    for (int i = 0; i < g->at.n; i++) f->place[i] = INT32_MAX;
    for (int i = g->outputs.n - 1; i >= 0; i--)
      if (g->outputs.at[i]) f->place[fuse_base(f->plan, g->outputs.at[i])->id] = -1 - i;
    for (int i = 0; i < g->writes.n; i++) {
      const Tensor *value = fuse_base(f->plan, g->writes.at[i].value);
      if (f->place[value->id] == INT32_MAX && goes_in_place(f, g->writes.at[i].input, value))
        f->place[value->id] = input_index(f, g->writes.at[i].input);
    }
    for (int i = 0; i < g->inputs.n; i++) f->place[g->inputs.at[i]->id] = i;
    f->memory = fuse_memory(f->plan, bytes, f->place);
    f->arrays = NEW_N(f->cx->arena, void *, g->inputs.n + g->outputs.n + 1);
    context_end_try(f->cx);
    f->resized = false;
  } else status = error_from_context(error, NEREID_OUT_OF_MEMORY, f->cx);
  return status;
}

/* Results are computed where the caller wants them. */
static void *buffer_of(const nereid_fusion *f, const Tensor *t) {
  t = fuse_base(f->plan, t);
  int place = f->place[t->id];
  if (place == INT32_MAX) return f->slots[f->memory->slot[t->id]];
  return f->arrays[place < 0 ? f->g->inputs.n - 1 - place : place];
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static void place_buffers(const nereid_fusion *f, FuseStep *s) {
  for (int b = 0; b < s->kernel->buffer_count; b++) s->args[b].pointer = buffer_of(f, s->kernel->buffers[b]);
}

static void forget_recordings(nereid_fusion *f) {
  for (int i = 0; i < FUSE_RECORDINGS; i++) {
    nereid_graph_free(f->recordings[i].graph);
    free(f->recordings[i].arrays);
    f->recordings[i] = (FuseRecording){0};
  }
}

void fusion_release(nereid_fusion *f) {
  forget_recordings(f);
  for (int i = 0; f->steps && i < f->plan->kernels.n; i++) step_free(&f->steps[i]);
  free(f->steps);
  f->steps = NULL;
  blas_close(f->blas);
  dnn_close(f->dnn);
  f->blas = NULL;
  f->dnn = NULL;
  free(f->known);
  f->known = NULL;
  f->known_count = 0;
  for (int i = 0; f->slots && i < f->memory->count; i++) nereid_free(f->device, f->slots[i]);
  free(f->slots);
  f->slots = NULL;
  nereid_stream_destroy(f->stream);
  f->stream = NULL;
  f->device = NULL;
}

static nereid_status open_library(nereid_fusion *f, nereid_device *d, const FuseKernel *k, nereid_error **error) {
  if (!blas_takes(d, k->library->product->dtype))
    return error_set(error, NEREID_UNSUPPORTED, "name this device when it is planned, or plan it with products=own",
                     "%s: a library's product, planned for another device than %s", k->name, d->name);
  nereid_status status = f->blas ? NEREID_OK : blas_open(d, &f->blas, error);
  return status ? status : blas_start(f->blas, error);
}

static nereid_status open_convolutions(nereid_fusion *f, nereid_device *d, FuseStep *s, nereid_error **error) {
  if (!dnn_takes(d, s->kernel->convolution->dtype))
    return error_set(error, NEREID_UNSUPPORTED, "name this device when it is planned, or plan it with products=own",
                     "%s: a library's convolution, planned for another device than %s", s->kernel->name, d->name);
  nereid_status status = f->dnn ? NEREID_OK : dnn_open(d, &f->dnn, error);
  return status ? status : step_plan(s, f->dnn, error);
}

/* With f->arrays of the run at hand. */
static nereid_status prepare(nereid_fusion *f, nereid_device *d, nereid_error **error) {
  int n = f->plan->kernels.n;
  Blas *opened = f->blas && f->blas->device == d ? f->blas : NULL; /* when it was planned */
  Dnn *dnn = f->dnn && f->dnn->device == d ? f->dnn : NULL;        /* when it was planned */
  if (opened) f->blas = NULL;
  if (dnn) f->dnn = NULL;
  fusion_release(f);
  f->blas = opened;
  f->dnn = dnn;
  f->device = d;
  f->slots = calloc((size_t)f->memory->count + 1, sizeof *f->slots);
  f->steps = calloc((size_t)n + 1, sizeof *f->steps);
  nereid_status status = f->slots && f->steps ? NEREID_OK : error_out_of_memory(error);
  for (int i = 0; i < f->memory->count && !status; i++)
    status = nereid_alloc(d, f->memory->bytes[i], &f->slots[i], error);
  for (int i = 0; i < n && !status; i++) {
    const FuseKernel *kernel = f->plan->kernels.at[i];
    status = step_make(&f->steps[i], kernel, f->symbols, f->seed, error);
    if (!status) place_buffers(f, &f->steps[i]);
    if (!status && kernel->library) status = open_library(f, d, kernel, error);
    if (!status && kernel->convolution) status = open_convolutions(f, d, &f->steps[i], error);
  }
  if (!status) status = steps_compile(f->steps, n, d, f->module, error); /* on all processors */
  f->cannot_record = !d->kind->async;
  if (!status && !f->cannot_record) f->cannot_record = nereid_stream_create(d, &f->stream, NULL) != NEREID_OK;
  if (status) fusion_release(f);
  return status;
}

/* outputs and written inputs get their values when all kernels have run: these may read what is written */
static nereid_status hand_over(nereid_fusion *f, nereid_stream *s, nereid_error **error) {
  Graph *g = f->g;
  nereid_status status = NEREID_OK;
  for (int i = 0; i < g->outputs.n && !status; i++) {
    void *to = f->arrays[g->inputs.n + i];
    const Tensor *t = g->outputs.at[i];
    if (t && to && buffer_of(f, t) != to && fusion_bytes(f, t))
      status = nereid_copy_async(f->device, s, to, buffer_of(f, t), fusion_bytes(f, t), error);
  }
  for (int i = 0; i < g->writes.n && !status; i++) {
    const Tensor *input = g->writes.at[i].input, *value = g->writes.at[i].value;
    if (buffer_of(f, value) != buffer_of(f, input) && fusion_bytes(f, input))
      status = nereid_copy_async(f->device, s, buffer_of(f, input), buffer_of(f, value), fusion_bytes(f, input), error);
  }
  return status;
}

static int by_address(const void *a, const void *b) {
  const Allocation *x = a, *y = b;
  if (x->base != y->base) return x->base < y->base ? -1 : 1;
  return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* What a launch on a CPU asks of arrays that were not registered: where they end. */
static void know_arrays(nereid_fusion *f) {
  const Graph *g = f->g;
  int all = g->inputs.n + g->outputs.n, n = 0;
  if (f->device->kind->async) return;
  if (!f->known) f->known = calloc((size_t)all + 1, sizeof *f->known);
  for (int i = 0; f->known && i < all; i++) {
    const Tensor *t = i < g->inputs.n ? g->inputs.at[i] : g->outputs.at[i - g->inputs.n];
    int64_t bytes = t && f->arrays[i] ? fusion_bytes(f, t) : 0;
    if (bytes > 0) f->known[n++] = (Allocation){(uintptr_t)f->arrays[i], bytes, false};
  }
  if (n) qsort(f->known, (size_t)n, sizeof *f->known, by_address);
  f->known_count = 0;
  for (int i = 0; i < n; i++)
    if (!i || f->known[i].base != f->known[i - 1].base) f->known[f->known_count++] = f->known[i];
}

static nereid_status launch_all(nereid_fusion *f, nereid_stream *s, nereid_error **error) {
  nereid_status status = NEREID_OK;
  for (int i = 0; i < f->plan->kernels.n && !status; i++) status = step_run(&f->steps[i], f->blas, s, error);
  return status ? status : hand_over(f, s, error);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static FuseRecording *find_recording(nereid_fusion *f) {
  size_t bytes = sizeof(void *) * (size_t)(f->g->inputs.n + f->g->outputs.n + 1);
  FuseRecording *oldest = &f->recordings[0];
  for (int i = 0; i < FUSE_RECORDINGS; i++) {
    FuseRecording *r = &f->recordings[i];
    if (r->arrays && !memcmp(r->arrays, f->arrays, bytes)) return r;
    if (r->used < oldest->used) oldest = r;
  }
  nereid_graph_free(oldest->graph);
  oldest->graph = NULL;
  oldest->used = 0;
  if (!oldest->arrays) oldest->arrays = malloc(bytes);
  if (oldest->arrays) memcpy(oldest->arrays, f->arrays, bytes);
  return oldest->arrays ? oldest : NULL;
}

/* NULL: it cannot be recorded, or not yet, since kernels are warm only after their first run. */
static nereid_graph *recorded(nereid_fusion *f) {
  bool few = f->plan->kernels.n + f->g->writes.n < 2;
  FuseRecording *r = few || f->cannot_record ? NULL : find_recording(f);
  if (!r) return NULL;
  bool first = !r->used;
  r->used = ++f->runs;
  if (first || r->graph) return r->graph;
  nereid_status status = nereid_graph_begin(f->device, f->stream, NULL);
  if (!status) {
    nereid_status launched = launch_all(f, f->stream, NULL);
    status = nereid_graph_end(f->device, f->stream, &r->graph, NULL);
    if (launched) status = launched;
  }
  if (!status) return r->graph;
  nereid_graph_free(r->graph);
  r->graph = NULL;
  f->cannot_record = true;
  return NULL;
}

/* A step for arrays that lie otherwise; what was recorded may have the library's plan. */
static nereid_status renew(nereid_fusion *f, FuseStep *s, nereid_error **error) {
  if (!s->kernel->convolution) return step_compile(s, f->device, f->module, error);
  forget_recordings(f);
  return step_plan(s, f->dnn, error);
}

nereid_status nereid_fusion_run(nereid_fusion *f, nereid_device *d, nereid_stream *s, void *const *inputs,
                                void *const *outputs, nereid_error **error) {
  if (!f) return error_null(error, "nereid_fusion_run", "f");
  if (!d) return error_null(error, "nereid_fusion_run", "d");
  nereid_status status = plan_memory(f, error);
  if (status) return status;
  int n = f->g->inputs.n, m = f->g->outputs.n;
  bool moved = (n && memcmp(f->arrays, inputs, sizeof *inputs * (size_t)n)) ||
               (m && memcmp(f->arrays + n, outputs, sizeof *outputs * (size_t)m));
  if (n) memcpy(f->arrays, inputs, sizeof *inputs * (size_t)n);
  if (m) memcpy(f->arrays + n, outputs, sizeof *outputs * (size_t)m);
  if (f->device != d) status = prepare(f, d, error);
  else
    for (int i = 0; moved && i < f->plan->kernels.n && !status; i++) {
      place_buffers(f, &f->steps[i]);
      if (step_is_stale(&f->steps[i])) status = renew(f, &f->steps[i], error);
    }
  if (status) {
    fusion_release(f);
    return status;
  }
  nereid_graph *graph = recorded(f);
  if (graph) return nereid_graph_launch(graph, s, error);
  if (moved || !f->known) know_arrays(f);
  device_know(f->known, f->known_count);
  status = launch_all(f, s, error);
  device_know(NULL, 0);
  return status;
}

/* Addresses that are 0 are multiples of 16, as an allocator's are: what is compiled for them serves the first run. */
nereid_status nereid_fusion_compile(nereid_fusion *f, nereid_device *d, nereid_error **error) {
  if (!f) return error_null(error, "nereid_fusion_compile", "f");
  if (!d) return error_null(error, "nereid_fusion_compile", "d");
  nereid_status status = plan_memory(f, error);
  if (status || f->device == d) return status;
  memset(f->arrays, 0, sizeof *f->arrays * (size_t)(f->g->inputs.n + f->g->outputs.n));
  return prepare(f, d, error);
}

nereid_status nereid_fusion_set_size(nereid_fusion *f, const char *name, int64_t value, nereid_error **error) {
  if (!f) return error_null(error, "nereid_fusion_set_size", "f");
  if (!name) return error_null(error, "nereid_fusion_set_size", "name");
  if (value < 1) return error_set(error, NEREID_BAD_ARGUMENT, NULL, "the size %s is %lld", name, (long long)value);
  for (int i = 0; i < f->g->symbols.n; i++) {
    if (strcmp(f->g->symbols.at[i]->name, name)) continue;
    f->resized |= f->symbols[i] != value;
    f->symbols[i] = value;
    return NEREID_OK;
  }
  return error_set(error, NEREID_BAD_ARGUMENT, NULL, "the program has no size %s", name);
}
