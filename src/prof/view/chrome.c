/* chrome: a trace in the Trace Event Format of Chrome, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
 * Written as it is read: nothing but the open intervals of each track is in memory.
 *
 *     processes           a process each, named by its command; its threads are tracks with calls ("X" events) and
 *                         ranges around them
 *     GPU                 a process each as well ("GPU 0 NVIDIA H200"), numbered from 5000000 on; a track a stream
 *     arrows              flow events from the middle of a call ("s") to what it started ("f")
 *     memory in use       a counter ("C") of each device, and of page-locked memory of the host
 *     notes, lost events  global instants ("i"); a user's metric is an instant of its thread
 *
 * Times are microseconds, three decimals for nanoseconds, from the trace's first event on; `baseTimeNanoseconds` is
 * that moment as the time of day. The format wants intervals of a track to nest. They mostly do. Where they overlap by
 * no more than clocks differ, the inner one is cut; what really overlaps (kernels of one stream with programmatic
 * dependent launch or in a graph; ranges begun and ended anyhow) goes to a second track beside the first: "stream 7
 * (2)".
 */
#include "prof/view/views.h"
#include "prof/view/tracks.h"

typedef struct Chrome {
  EventJoin *t;
  JsonWriter w;
  Tracks tracks;
  Map *names; /* a kernel's name in the trace -> KernelName */
} Chrome;

static JsonWriter *begin(Chrome *c, const char *phase) {
  json_break(&c->w, "\n");
  json_begin_object(&c->w, NULL);
  json_put_text(&c->w, "ph", phase);
  return &c->w;
}

/* ns since the trace's beginning as microseconds */
static void put_us(JsonWriter *w, const char *key, int64_t ns) {
  json_put_fixed(w, key, 3, (double)(ns < 0 ? 0 : ns) / 1e3);
}

static void metadata(Chrome *c, uint32_t pid, int64_t tid, const char *what, const char *key, const char *text,
                     int64_t number) {
  JsonWriter *w = begin(c, "M");
  json_put_int(w, "pid", pid);
  if (tid >= 0) json_put_int(w, "tid", tid);
  json_put_text(w, "name", what);
  json_begin_object(w, "args");
  if (text) json_put_text(w, key, text);
  else json_put_int(w, key, number);
  json_end_object(w);
  json_end_object(w);
}

/* A track is named where it first is needed: viewers take names from anywhere in the file. */
static void announce(Chrome *c, Track *k) {
  TrackGroup *g = k->group;
  char text[600];
  if (!g->announced) {
    g->announced = true;
    metadata(c, g->pid, -1, "process_name", "name", track_group_name(c->t, g, text, sizeof text), 0);
    metadata(c, g->pid, -1, "process_sort_index", "sort_index", NULL, g->sort);
    metadata(c, g->pid, -1, "process_labels", "labels", g->gpu ? "GPU" : "CPU", 0);
  }
  if (k->announced) return;
  k->announced = true;
  metadata(c, g->pid, k->tid, "thread_name", "name", track_name(c->t, k, text, sizeof text), 0);
  metadata(c, g->pid, k->tid, "thread_sort_index", "sort_index", NULL, k->sort);
}

typedef struct KernelName {
  const char *legible, *full;
} KernelName;

static const KernelName *kernel_name(Chrome *c, const JoinedEvent *i) { /* demangled once */
  const char *raw = event_name(c->t, i);
  KernelName *known = map_get(c->names, raw);
  if (known) return known;
  char text[2048];
  known = NEW(c->t->arena, KernelName);
  known->legible = arena_strdup(c->t->arena, name_legible(raw, 80, text, sizeof text));
  known->full = arena_strdup(c->t->arena, name_demangled(raw, text, sizeof text));
  map_put(c->names, arena_strdup(c->t->arena, raw), known);
  return known;
}

static void put_triple(JsonWriter *w, const char *key, const uint32_t v[3]) {
  json_put_ints(w, key, (int64_t[]){v[0], v[1], v[2]}, 3);
}

static void put_kernel(Chrome *c, const JoinedEvent *i, double seconds) {
  JsonWriter *w = &c->w;
  const uint32_t *g = i->kernel.grid, *b = i->kernel.block;
  if (i->on_gpu || g[0]) put_triple(w, "grid", g);
  if (i->on_gpu || b[0]) put_triple(w, "block", b);
  if (i->kernel.registers) json_put_int(w, "registers per thread", i->kernel.registers);
  if (i->on_gpu) json_put_int(w, "shared memory", i->kernel.shared);
  if (i->kernel.graph) json_put_unsigned(w, "graph", i->kernel.graph);
  if (i->flops > 0) json_put_real(w, "flops", 6, i->flops);
  if (i->flops > 0 && seconds > 0 && !events_simulated(c->t)) json_put_real(w, "TFLOP/s", 4, i->flops / seconds / 1e12);
  json_put_text(w, "function", kernel_name(c, i)->full);
  if (i->shapes) json_put_text(w, "shapes", trace_text(c->t->reader, i->shapes));
}

static void put_args(Chrome *c, const JoinedEvent *i) {
  JsonWriter *w = &c->w;
  double seconds = (double)(i->end - i->start) / 1e9;
  json_begin_object(w, "args");
  if (i->correlation) json_put_unsigned(w, "correlation", i->correlation);
  if (i->kind == TRACE_CALL && i->result) json_put_int(w, "result", i->result);
  if (i->kind == TRACE_KERNEL) put_kernel(c, i, seconds);
  double bytes = i->kind == TRACE_KERNEL                          ? i->bytes
                 : i->kind == TRACE_COPY || i->kind == TRACE_FILL ? (double)i->moved
                                                                  : 0;
  if (bytes > 0) json_put_real(w, "bytes", 17, bytes);
  if (bytes > 0 && seconds > 0 && !events_simulated(c->t)) json_put_real(w, "GB/s", 4, bytes / seconds / 1e9);
  if (event_is_activity(i)) {
    json_put_int(w, "device", i->device);
    json_put_unsigned(w, "stream", i->stream);
  }
  json_end_object(w);
}

static const char *category(const JoinedEvent *i) {
  switch (i->kind) {
    case TRACE_CALL: return i->sub == CALL_SYNC || i->sub == CALL_COPY_SYNC ? "call,sync" : "call";
    case TRACE_KERNEL: return "kernel";
    case TRACE_COPY: return "gpu_memcpy";
    case TRACE_FILL: return "gpu_memset";
    default: return i->sub == RANGE_NVTX ? "range,nvtx" : "range";
  }
}

static void put_arrow(JsonWriter *w, uint64_t flow, uint32_t pid, uint32_t tid, int64_t at) {
  json_put_unsigned(w, "id", flow);
  json_put_text(w, "name", "launch");
  json_put_text(w, "cat", "launch");
  json_put_int(w, "pid", pid);
  json_put_int(w, "tid", tid);
  put_us(w, "ts", at);
  json_end_object(w);
}

static void interval(Chrome *c, const JoinedEvent *i) {
  int64_t end;
  Track *k = tracks_place(&c->tracks, i, &end);
  announce(c, k);
  JsonWriter *w = begin(c, "X");
  json_put_text(w, "name", i->kind == TRACE_KERNEL ? kernel_name(c, i)->legible : event_name(c->t, i));
  json_put_text(w, "cat", category(i));
  json_put_int(w, "pid", k->group->pid);
  json_put_int(w, "tid", k->tid);
  put_us(w, "ts", i->start - c->t->first);
  put_us(w, "dur", end - i->start);
  put_args(c, i);
  json_end_object(w);
  if (!event_is_activity(i) || !i->has_call) return;
  /* The arrow begins inside of the call and ends where the activity begins; its number must be the file's own, not only
   * of a process. */
  uint64_t flow = ++c->tracks.flows;
  int64_t at = i->call_start + (i->call_end - i->call_start) / 2;
  if (at > i->start) at = i->start; /* no arrow goes back in time */
  if (at < i->call_start) at = i->call_start;
  put_arrow(begin(c, "s"), flow, i->process, i->call_thread, at - c->t->first);
  w = begin(c, "f");
  json_put_text(w, "bp", "e");
  put_arrow(w, flow, k->group->pid, k->tid, (i->start > at ? i->start : at) - c->t->first);
}

static void memory(Chrome *c, const JoinedEvent *i) {
  TrackGroup *g =
      i->memory.pinned ? tracks_process(&c->tracks, i->process) : tracks_device(&c->tracks, i->process, i->device);
  Track header = {.group = g, .announced = true};
  int64_t *in_use = i->memory.pinned ? &g->pinned_in_use : &g->in_use;
  *in_use = i->memory.in_use >= 0 && !i->memory.pinned ? i->memory.in_use : *in_use + i->memory.bytes;
  announce(c, &header);
  JsonWriter *w = begin(c, "C");
  json_put_text(w, "name", i->memory.pinned ? "page-locked memory" : "memory in use");
  json_put_int(w, "pid", g->pid);
  put_us(w, "ts", i->start - c->t->first);
  json_begin_object(w, "args");
  json_put_int(w, "bytes", *in_use < 0 ? 0 : *in_use);
  json_end_object(w);
  json_end_object(w);
}

static void instant(Chrome *c, const JoinedEvent *i) {
  char text[800];
  const char *name = trace_text(c->t->reader, i->name);
  TrackGroup *g = tracks_process(&c->tracks, i->process);
  Track header = {.group = g, .announced = true};
  announce(c, &header);
  if (i->kind == TRACE_LOST) name = lost_text(text, i->count, name);
  if (i->kind == TRACE_METRIC) snprintf(text, sizeof text, "%.600s = %.6g", name, i->value), name = text;
  JsonWriter *w = begin(c, "i");
  json_put_text(w, "name", name);
  json_put_text(w, "cat", i->kind == TRACE_METRIC ? "metric" : "note");
  json_put_text(w, "s", i->kind == TRACE_METRIC ? "t" : "g");
  json_put_int(w, "pid", i->process);
  json_put_int(w, "tid", i->thread ? i->thread : i->process);
  put_us(w, "ts", i->start - c->t->first);
  json_end_object(w);
}

static void chrome(EventJoin *t, FILE *out, const ViewOptions *o) {
  Chrome c = {.t = t, .w = {.file = out}, .tracks = {.arena = t->arena}, .names = map_create(t->arena, true)};
  if (!events_begin(t, BY_TIME)) return;
  const ProcessInfo *p = t->processes.n ? &t->processes.at[0] : NULL;
  JsonWriter *w = &c.w;
  json_begin_object(w, NULL);
  json_put_text(w, "displayTimeUnit", "ns");
  json_begin_object(w, "otherData");
  json_put_text(w, "producer", "nereid");
  if (o->title) json_put_text(w, "title", o->title);
  if (t->truncated) json_put_text(w, "truncated", "true");
  if (t->lost) {
    char lost[24];
    snprintf(lost, sizeof lost, "%lld", (long long)t->lost);
    json_put_text(w, "lost events", lost);
  }
  json_end_object(w);
  if (p && p->wall) json_put_int(w, "baseTimeNanoseconds", t->first + p->wall);
  json_begin_array(w, "traceEvents");
  for (const JoinedEvent *i; (i = events_next(t));) {
    if (event_of_thread(i) || event_is_activity(i)) interval(&c, i);
    else if (i->kind == TRACE_MEMORY) memory(&c, i);
    else if (i->kind == TRACE_NOTE || i->kind == TRACE_LOST || i->kind == TRACE_METRIC) instant(&c, i);
  }
  json_break(w, "\n");
  json_end_array(w);
  json_end_object(w);
  fputc('\n', out);
}

int view_chrome(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]) {
  return view_run(r, out, o, why, chrome);
}
