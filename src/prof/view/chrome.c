/* chrome: a trace in the Trace Event Format of Chrome, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
 * Written as it is read: nothing but the open intervals of each track is in memory.
 *
 *     processes           a process each, named by its command; its threads are tracks with calls ("X" events) and
 * ranges around them GPU                 a process each as well ("GPU 0 NVIDIA H200"), numbered from 5000000 on; a
 * track a stream arrows              flow events from the middle of a call ("s") to what it started ("f") memory in use
 * a counter ("C") of each device, and of page-locked memory of the host notes, lost events  global instants ("i"); a
 * user's metric is an instant of its thread
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
  Items *t;
  FILE *out;
  bool first;
  Tracks tracks;
  Map *names; /* a kernel's name in the trace -> KernelName */
} Chrome;

static void begin(Chrome *c) {
  fputs(c->first ? "\n" : ",\n", c->out);
  c->first = false;
}

/* ns since the trace's beginning as microseconds */
static void put_us(FILE *out, int64_t ns) {
  if (ns < 0) ns = 0;
  fprintf(out, "%lld.%03d", (long long)(ns / 1000), (int)(ns % 1000));
}

static void metadata(Chrome *c, uint32_t pid, int64_t tid, const char *what, const char *key, const char *text,
                     int64_t number) {
  begin(c);
  fprintf(c->out, "{\"ph\":\"M\",\"pid\":%u,", pid);
  if (tid >= 0) fprintf(c->out, "\"tid\":%lld,", (long long)tid);
  fprintf(c->out, "\"name\":\"%s\",\"args\":{\"%s\":", what, key);
  if (text) json_text(c->out, text);
  else fprintf(c->out, "%lld", (long long)number);
  fputs("}}", c->out);
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

static const KernelName *kernel_name(Chrome *c, const Item *i) { /* demangled once */
  const char *raw = item_name(c->t, i);
  KernelName *known = map_get(c->names, raw);
  if (known) return known;
  char text[2048];
  known = NEW(c->t->arena, KernelName);
  known->legible = arena_strdup(c->t->arena, name_legible(raw, 80, text, sizeof text));
  known->full = arena_strdup(c->t->arena, name_demangled(raw, text, sizeof text));
  map_put(c->names, arena_strdup(c->t->arena, raw), known);
  return known;
}

static void put_args(Chrome *c, const Item *i) {
  FILE *out = c->out;
  double seconds = (double)(i->end - i->start) / 1e9;
  fputs(",\"args\":{", out);
  const char *comma = "";
#define ARG(...) (fputs(comma, out), fprintf(out, __VA_ARGS__), comma = ",")
  if (i->correlation) ARG("\"correlation\":%llu", (unsigned long long)i->correlation);
  if (i->kind == TRACE_CALL && i->result) ARG("\"result\":%d", i->result);
  if (i->kind == TRACE_KERNEL) {
    const uint32_t *g = i->kernel.grid, *b = i->kernel.block;
    if (i->on_gpu || g[0]) ARG("\"grid\":[%u,%u,%u]", g[0], g[1], g[2]);
    if (i->on_gpu || b[0]) ARG("\"block\":[%u,%u,%u]", b[0], b[1], b[2]);
    if (i->kernel.registers) ARG("\"registers per thread\":%u", i->kernel.registers);
    if (i->on_gpu) ARG("\"shared memory\":%u", i->kernel.shared);
    if (i->kernel.graph) ARG("\"graph\":%llu", (unsigned long long)i->kernel.graph);
    if (i->flops > 0) ARG("\"flops\":%.6g", i->flops);
    if (i->flops > 0 && seconds > 0 && !items_simulated(c->t)) ARG("\"TFLOP/s\":%.4g", i->flops / seconds / 1e12);
    ARG("\"function\":"), json_text(out, kernel_name(c, i)->full);
    if (i->shapes) ARG("\"shapes\":"), json_text(out, trace_text(c->t->reader, i->shapes));
  }
  double bytes = i->kind == TRACE_KERNEL                          ? i->bytes
                 : i->kind == TRACE_COPY || i->kind == TRACE_FILL ? (double)i->moved
                                                                  : 0;
  if (bytes > 0) ARG("\"bytes\":%.17g", bytes);
  if (bytes > 0 && seconds > 0 && !items_simulated(c->t)) ARG("\"GB/s\":%.4g", bytes / seconds / 1e9);
  if (item_is_activity(i)) ARG("\"device\":%u,\"stream\":%llu", i->device, (unsigned long long)i->stream);
#undef ARG
  putc('}', out);
}

static const char *category(const Item *i) {
  switch (i->kind) {
    case TRACE_CALL: return i->sub == CALL_SYNC || i->sub == CALL_COPY_SYNC ? "call,sync" : "call";
    case TRACE_KERNEL: return "kernel";
    case TRACE_COPY: return "gpu_memcpy";
    case TRACE_FILL: return "gpu_memset";
    default: return i->sub == RANGE_NVTX ? "range,nvtx" : "range";
  }
}

static void interval(Chrome *c, const Item *i) {
  int64_t end;
  Track *k = tracks_place(&c->tracks, i, &end);
  announce(c, k);
  begin(c);
  fputs("{\"ph\":\"X\",\"name\":", c->out),
      json_text(c->out, i->kind == TRACE_KERNEL ? kernel_name(c, i)->legible : item_name(c->t, i));
  fprintf(c->out, ",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":", category(i), k->group->pid, k->tid);
  put_us(c->out, i->start - c->t->first);
  fputs(",\"dur\":", c->out), put_us(c->out, end - i->start);
  put_args(c, i);
  putc('}', c->out);
  if (!item_is_activity(i) || !i->has_call) return;
  /* The arrow begins inside of the call and ends where the activity begins; its number must be the file's own, not only
   * of a process. */
  uint64_t flow = ++c->tracks.flows;
  int64_t at = i->call_start + (i->call_end - i->call_start) / 2;
  if (at > i->start) at = i->start; /* no arrow goes back in time */
  if (at < i->call_start) at = i->call_start;
  begin(c);
  fprintf(c->out, "{\"ph\":\"s\",\"id\":%llu,\"name\":\"launch\",\"cat\":\"launch\",\"pid\":%u,\"tid\":%u,\"ts\":",
          (unsigned long long)flow, i->process, i->call_thread);
  put_us(c->out, at - c->t->first);
  putc('}', c->out);
  begin(c);
  fprintf(c->out,
          "{\"ph\":\"f\",\"bp\":\"e\",\"id\":%llu,\"name\":\"launch\",\"cat\":\"launch\",\"pid\":%u,\"tid\":%u,\"ts\":",
          (unsigned long long)flow, k->group->pid, k->tid);
  put_us(c->out, (i->start > at ? i->start : at) - c->t->first);
  putc('}', c->out);
}

static void memory(Chrome *c, const Item *i) {
  TrackGroup *g =
      i->memory.pinned ? tracks_process(&c->tracks, i->process) : tracks_device(&c->tracks, i->process, i->device);
  Track header = {.group = g, .announced = true};
  int64_t *in_use = i->memory.pinned ? &g->pinned_in_use : &g->in_use;
  *in_use = i->memory.in_use >= 0 && !i->memory.pinned ? i->memory.in_use : *in_use + i->memory.bytes;
  announce(c, &header);
  begin(c);
  fprintf(c->out,
          "{\"ph\":\"C\",\"name\":\"%s\",\"pid\":%u,\"ts\":", i->memory.pinned ? "page-locked memory" : "memory in use",
          g->pid);
  put_us(c->out, i->start - c->t->first);
  fprintf(c->out, ",\"args\":{\"bytes\":%lld}}", (long long)(*in_use < 0 ? 0 : *in_use));
}

static void instant(Chrome *c, const Item *i) {
  char text[800];
  const char *name = trace_text(c->t->reader, i->name);
  TrackGroup *g = tracks_process(&c->tracks, i->process);
  Track header = {.group = g, .announced = true};
  announce(c, &header);
  if (i->kind == TRACE_LOST) name = lost_text(text, i->count, name);
  if (i->kind == TRACE_METRIC) snprintf(text, sizeof text, "%.600s = %.6g", name, i->value), name = text;
  begin(c);
  fputs("{\"ph\":\"i\",\"name\":", c->out), json_text(c->out, name);
  fprintf(c->out,
          ",\"cat\":\"%s\",\"s\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":", i->kind == TRACE_METRIC ? "metric" : "note",
          i->kind == TRACE_METRIC ? "t" : "g", i->process, i->thread ? i->thread : i->process);
  put_us(c->out, i->start - c->t->first);
  putc('}', c->out);
}

static void chrome(Items *t, FILE *out, const ViewOptions *o) {
  Chrome c = {.t = t, .out = out, .first = true, .tracks = {.arena = t->arena}, .names = map_create(t->arena, true)};
  if (!items_begin(t, BY_TIME)) return;
  const ProcessInfo *p = t->processes.n ? &t->processes.at[0] : NULL;
  fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":\"nereid\"", out);
  if (o->title) fputs(",\"title\":", out), json_text(out, o->title);
  if (t->truncated) fputs(",\"truncated\":\"true\"", out);
  if (t->lost) fprintf(out, ",\"lost events\":\"%lld\"", (long long)t->lost);
  fputs("}", out);
  if (p && p->wall) fprintf(out, ",\"baseTimeNanoseconds\":%lld", (long long)(t->first + p->wall));
  fputs(",\"traceEvents\":[", out);
  for (const Item *i; (i = items_next(t));) {
    if (item_of_thread(i) || item_is_activity(i)) interval(&c, i);
    else if (i->kind == TRACE_MEMORY) memory(&c, i);
    else if (i->kind == TRACE_NOTE || i->kind == TRACE_LOST || i->kind == TRACE_METRIC) instant(&c, i);
  }
  fputs("\n]}\n", out);
}

int view_chrome(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]) {
  return view_run(r, out, o, why, chrome);
}
