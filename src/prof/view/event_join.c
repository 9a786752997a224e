/* A trace as its views read it: intervals and points in the order of time, activity of a GPU joined to the call
 * that started it.
 *
 * The trace itself has its events as they became known: a scope when it ends, a kernel when CUPTI delivered it. Two
 * sorts put it right, both in a fixed amount of memory:
 *
 *     trace ─┬─ intervals, points ───────────────────────────────────────────────▶ sort by time ─▶ events_next
 *            └─ calls, work, activity ─▶ sort by correlation ─▶ activity + its call ─┘
 *
 * Correlation numbers are of one process. Several calls may have one (cudaLaunchKernel and the driver's call inside of
 * it): the outermost counts. One call may start much (a graph).
 */
#include <math.h>
#include <stdlib.h>

#include "prof/view/views.h"

bool event_is_activity(const JoinedEvent *i) { return i->on_gpu; }
bool event_of_thread(const JoinedEvent *i) {
  return i->kind == TRACE_CALL || i->kind == TRACE_RANGE ||
         ((i->kind == TRACE_KERNEL || i->kind == TRACE_COPY || i->kind == TRACE_FILL) && !i->on_gpu);
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static int three_way(int64_t a, int64_t b) { return (a > b) - (a < b); }
static int three_way_u(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

/* Of those that start at once the longest is around the others, a range around a call, a call around a kernel. */
static int rank(const JoinedEvent *i) {
  return i->kind == TRACE_RANGE ? 0 : i->kind == TRACE_CALL ? 1 : event_of_thread(i) ? 2 : 3;
}

static int compare(const JoinedEvent *a, const JoinedEvent *b, bool by_launch) {
  bool la = by_launch && a->on_gpu && a->has_call, lb = by_launch && b->on_gpu && b->has_call;
  int c = three_way(la ? a->call_start : a->start, lb ? b->call_start : b->start);
  if (!c) c = three_way(lb ? b->call_end : b->end, la ? a->call_end : a->end);
  if (!c) c = (la ? 1 : rank(a)) - (lb ? 1 : rank(b));
  if (!c)
    c = three_way_u(a->kind == TRACE_RANGE ? a->id : a->correlation, b->kind == TRACE_RANGE ? b->id : b->correlation);
  return c ? c : la - lb;
}
static int by_time(const void *a, const void *b) { return compare(a, b, false); }
static int by_launch(const void *a, const void *b) { return compare(a, b, true); }

static int join_rank(const JoinedEvent *i) { return i->kind == TRACE_CALL ? 0 : i->kind == TRACE_WORK ? 1 : 2; }
static int by_correlation(const void *x, const void *y) {
  const JoinedEvent *a = x, *b = y;
  int c = three_way_u(a->process, b->process);
  if (!c) c = three_way_u(a->correlation, b->correlation);
  if (!c) c = join_rank(a) - join_rank(b);
  if (!c) c = three_way(a->start, b->start);
  return c ? c : three_way(b->end, a->end);
}

/* ---- from events ------------------------------------------------------------------------------------------------- */

enum { LATEST_BIT = 58 }; /* of a time in ns: nine years of running. What a damaged trace says beyond is no time */
static int64_t within(int64_t t, int64_t least, int64_t most) { return t < least ? least : t > most ? most : t; }
static double amount(double v) { return isfinite(v) && v > 0 ? v : 0; }

static void event_of(const TraceEvent *e, JoinedEvent *i) {
  int64_t start = within(e->start, 0, (int64_t)1 << LATEST_BIT);
  *i = (JoinedEvent){.start = start,
                     .end = within(e->end, start, (int64_t)1 << LATEST_BIT),
                     .correlation = e->correlation,
                     .stream = e->stream,
                     .kind = e->kind,
                     .name = e->name,
                     .process = e->process,
                     .thread = e->thread,
                     .device = e->device};
  switch (e->kind) {
    case TRACE_CALL: i->sub = (uint8_t)e->call.kind, i->result = e->call.result; break;
    case TRACE_KERNEL:
      memcpy(i->kernel.grid, e->kernel.grid, sizeof i->kernel.grid),
          memcpy(i->kernel.block, e->kernel.block, sizeof i->kernel.block);
      i->kernel.registers = e->kernel.registers, i->kernel.shared = e->kernel.shared, i->kernel.graph = e->kernel.graph;
      i->on_gpu = e->device != TRACE_CPU_DEVICE;
      break;
    case TRACE_COPY:
      i->sub = (uint8_t)e->copy.kind, i->pageable = e->copy.pageable,
      i->moved = within(e->copy.bytes, 0, INT64_MAX >> 8), i->on_gpu = e->device != TRACE_CPU_DEVICE;
      break;
    case TRACE_FILL:
      i->moved = within(e->fill.bytes, 0, INT64_MAX >> 8), i->on_gpu = e->device != TRACE_CPU_DEVICE;
      break;
    case TRACE_RANGE: i->sub = (uint8_t)e->range.origin, i->id = e->range.id; break;
    case TRACE_METRIC: i->id = e->metric.range, i->value = e->metric.value; break;
    case TRACE_WORK:
      i->flops = amount(e->work.flops), i->bytes = amount(e->work.bytes), i->shapes = e->work.shapes;
      break;
    case TRACE_MEMORY:
      i->memory.bytes = within(e->memory.bytes, INT64_MIN >> 8, INT64_MAX >> 8), i->memory.in_use = e->memory.in_use,
      i->memory.address = e->memory.address, i->memory.pinned = e->memory.pinned_host;
      break;
    case TRACE_LOST: i->count = e->lost.count; break;
    default: break;
  }
}

static void know_process(EventJoin *t, const TraceEvent *e) {
  for (int i = 0; i < t->processes.n; i++)
    if (t->processes.at[i].process == e->process) { /* the last event of a whole file, which has the end */
      if (e->end > e->start) t->processes.at[i].end = e->end;
      return;
    }
  vec_push(t->arena, &t->processes,
           (ProcessInfo){e->process, e->name, e->start, e->end > e->start ? e->end : 0, e->process_.wall});
}

static void know_thread(EventJoin *t, const TraceEvent *e) {
  for (int i = 0; i < t->threads.n; i++)
    if (t->threads.at[i].process == e->process && t->threads.at[i].thread == e->thread) {
      t->threads.at[i].name = e->name;
      return;
    }
  vec_push(t->arena, &t->threads, (ThreadInfo){e->process, e->thread, e->name});
}

static void know_device(EventJoin *t, const TraceEvent *e) {
  if (events_device(t, e->process, e->device)) return;
  vec_push(t->arena, &t->devices,
           (DeviceInfo){e->process, e->device, e->name, e->device_.sm, e->device_.multiprocessors, e->device_.bandwidth,
                        e->device_.flops, e->device_.memory});
}

bool events_simulated(const EventJoin *t) {
  for (int i = 0; i < t->devices.n; i++) {
    const char *name = trace_text(t->reader, t->devices.at[i].name);
    if (strncmp(name, "interp", 6) && strncmp(name, "sim", 3)) return false;
  }
  return t->devices.n > 0;
}

static bool sort_failed(EventJoin *t, const Sorter *s) {
  snprintf(t->error, sizeof t->error, "%s", s && sorter_error(s) ? sorter_error(s) : "out of memory");
  return false;
}

static void widen(EventJoin *t, int64_t start, int64_t end) {
  if (!t->first || start < t->first) t->first = start;
  if (end > t->last) t->last = end;
}

/* Drains what is sorted by correlation: each activity and each kernel gets its call and its work. */
static bool join(EventJoin *t) {
  JoinedEvent i, call = {0}, work = {0};
  while (sorter_next(t->joined, &i)) {
    bool same_call = call.kind && call.process == i.process && call.correlation == i.correlation;
    if (i.kind == TRACE_CALL) {
      if (!same_call) call = i;
      continue;
    }
    if (i.kind == TRACE_WORK) {
      work = i;
      continue;
    }
    if (same_call && i.correlation) {
      i.has_call = true;
      i.call_start = call.start, i.call_end = call.end, i.call_name = call.name, i.call_thread = call.thread;
    }
    if (i.kind == TRACE_KERNEL && work.kind && work.process == i.process && work.correlation == i.correlation &&
        i.correlation) {
      i.flops = work.flops, i.bytes = work.bytes, i.shapes = work.shapes;
      work.flops = work.bytes = 0; /* of a launch that became several kernels it counts once */
    }
    if (!sorter_add(t->sorted, &i)) return sort_failed(t, t->sorted);
  }
  return sorter_error(t->joined) ? sort_failed(t, t->joined) : true;
}

bool events_begin(EventJoin *t, EventOrder order) {
  TraceEvent e;
  JoinedEvent i;
  sorter_free(t->sorted), sorter_free(t->joined);
  t->sorted = sorter_create(sizeof(JoinedEvent), order == BY_LAUNCH ? by_launch : by_time, SORT_MEMORY);
  t->joined = sorter_create(sizeof(JoinedEvent), by_correlation, SORT_MEMORY);
  t->processes.n = t->threads.n = t->devices.n = 0;
  t->first = t->last = t->lost = 0, t->has_gpu = false, t->order = order;
  memset(t->counts, 0, sizeof t->counts);
  if (!t->sorted || !t->joined) return sort_failed(t, NULL);
  if (!trace_rewind(t->reader)) {
    snprintf(t->error, sizeof t->error, "the trace cannot be read from its beginning again");
    return false;
  }
  while (trace_next(t->reader, &e)) {
    if ((unsigned)e.kind >= TRACE_KINDS) continue;
    t->counts[e.kind]++;
    if (e.kind == TRACE_PROCESS) know_process(t, &e);
    else if (e.kind == TRACE_THREAD) know_thread(t, &e);
    else if (e.kind == TRACE_DEVICE) know_device(t, &e);
    if (e.kind == TRACE_LOST) t->lost += within(e.lost.count, 0, INT64_MAX >> 16);
    if (e.kind == TRACE_PROCESS || e.kind == TRACE_THREAD || e.kind == TRACE_DEVICE || e.kind == TRACE_SAMPLE ||
        e.kind == TRACE_MODULE)
      continue;
    event_of(&e, &i);
    if (i.kind != TRACE_WORK && i.start) widen(t, i.start, i.end);
    t->has_gpu |= i.on_gpu;
    bool ran = i.kind == TRACE_KERNEL || i.kind == TRACE_COPY || i.kind == TRACE_FILL;
    if (((ran || i.kind == TRACE_CALL) && i.correlation) || i.kind == TRACE_WORK)
      if (!sorter_add(t->joined, &i)) return sort_failed(t, t->joined);
    if (i.kind != TRACE_WORK && !(ran && i.correlation) && !sorter_add(t->sorted, &i)) return sort_failed(t, t->sorted);
  }
  t->truncated = trace_truncated(t->reader);
  return join(t);
}

const JoinedEvent *events_next(EventJoin *t) {
  if (t->error[0] || !t->sorted) return NULL;
  if (sorter_next(t->sorted, &t->current)) return &t->current;
  if (sorter_error(t->sorted)) sort_failed(t, t->sorted);
  return NULL;
}

int view_run(TraceReader *r, FILE *out, const ViewOptions *o, char why[300],
             void (*body)(EventJoin *, FILE *, const ViewOptions *)) {
  static const ViewOptions none;
  void *before = plain_numbers();
  Context *cx = context_create();
  EventJoin *t = calloc(1, sizeof *t);
  if (cx && t) {
    t->reader = r, t->cx = cx, t->arena = cx->arena;
    if (context_try(cx)) {
      body(t, out, o ? o : &none);
      context_end_try(cx);
    } else snprintf(t->error, sizeof t->error, "out of memory");
  }
  int status = !cx || !t || t->error[0];
  if (status) snprintf(why, 300, "%s", cx && t ? t->error : "out of memory");
  if (t) sorter_free(t->sorted), sorter_free(t->joined);
  free(t);
  if (cx) context_destroy(cx);
  host_numbers(before);
  return status;
}

/* ---- what is known of processes, threads, devices ---------------------------------------------------------------- */

const ProcessInfo *events_process(const EventJoin *t, uint32_t process) {
  for (int i = 0; i < t->processes.n; i++)
    if (t->processes.at[i].process == process) return &t->processes.at[i];
  return NULL;
}

const DeviceInfo *events_device(const EventJoin *t, uint32_t process, uint32_t device) {
  for (int i = 0; i < t->devices.n; i++)
    if (t->devices.at[i].process == process && t->devices.at[i].device == device) return &t->devices.at[i];
  return NULL;
}

const char *events_thread_name(const EventJoin *t, uint32_t process, uint32_t thread) {
  for (int i = 0; i < t->threads.n; i++)
    if (t->threads.at[i].process == process && t->threads.at[i].thread == thread)
      return trace_text(t->reader, t->threads.at[i].name);
  return "";
}

const char *event_name(const EventJoin *t, const JoinedEvent *i) {
  static const char *const pageable[] = {"Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)",
                                         "Memcpy DtoD (Device -> Device)",   "Memcpy HtoH (Pageable -> Pageable)",
                                         "Memcpy PtoP (Device -> Device)",   "Memcpy"};
  static const char *const pinned[] = {"Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)",
                                       "Memcpy DtoD (Device -> Device)", "Memcpy HtoH (Pinned -> Pinned)",
                                       "Memcpy PtoP (Device -> Device)", "Memcpy"};
  if (i->kind == TRACE_COPY) return (i->pageable ? pageable : pinned)[i->sub <= COPY_UNKNOWN ? i->sub : COPY_UNKNOWN];
  if (i->kind == TRACE_FILL) return i->on_gpu ? "Memset (Device)" : "Memset";
  const char *name = trace_text(t->reader, i->name);
  return name && *name ? name : i->kind == TRACE_KERNEL ? "(unnamed kernel)" : "(unnamed)";
}

const char *lost_text(char out[800], int64_t count, const char *what) {
  if (count < 0) snprintf(out, 800, "events were lost: %.700s", what); /* how many is not known */
  else snprintf(out, 800, "%lld events were lost: %.700s", (long long)count, what);
  return out;
}

void events_warnings(EventJoin *t, FILE *out, const char *prefix) {
  TraceEvent e;
  struct {
    TraceKind kind;
    uint32_t name;
    int64_t lost;
    int times;
  } notes[20];
  int n = 0, most = sizeof notes / sizeof *notes;
  bool more = false;
  if (t->truncated)
    fprintf(out,
            "%sthe trace does not end as it should (its process crashed, was killed or still runs, or a disk was "
            "full): what came last is missing\n",
            prefix);
  if (!t->counts[TRACE_LOST] && !t->counts[TRACE_NOTE]) return;
  trace_rewind(t->reader);
  while (trace_next(t->reader, &e)) { /* each text once: many processes may say the same */
    if (e.kind != TRACE_LOST && e.kind != TRACE_NOTE) continue;
    int i = 0;
    while (i < n && (notes[i].kind != e.kind || notes[i].name != e.name)) i++;
    if (i == most) {
      more = true;
      continue;
    }
    if (i == n) notes[n].kind = e.kind, notes[n].name = e.name, notes[n].lost = 0, notes[n++].times = 0;
    notes[i].times++;
    notes[i].lost = e.kind == TRACE_NOTE || e.lost.count < 0
                        ? -1
                        : within(notes[i].lost + within(e.lost.count, 0, INT64_MAX >> 16), 0, INT64_MAX >> 16);
  }
  for (int i = 0; i < n; i++) {
    char text[800];
    const char *said = trace_text(t->reader, notes[i].name);
    fputs(prefix, out), plain_text(out, notes[i].kind == TRACE_LOST ? lost_text(text, notes[i].lost, said) : said);
    if (notes[i].times > 1) fprintf(out, " (%d times)", notes[i].times);
    putc('\n', out);
  }
  if (more) fprintf(out, "%s... and more notes\n", prefix);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

void plain_text(FILE *out, const char *s) {
  for (int n; *s; s += n ? n : 1) {
    n = utf8_length(s);
    bool control =
        (unsigned char)*s < 0x20 || *s == 0x7f || (n == 2 && (unsigned char)s[0] == 0xC2 && (unsigned char)s[1] < 0xA0);
    if (control || !n) fputs(control ? " " : "\ufffd", out);
    else fwrite(s, 1, (size_t)n, out);
  }
}

void xml_text(FILE *out, const char *s) {
  while (*s) {
    int n = utf8_length(s);
    if (!n) fputs("\xEF\xBF\xBD", out), s++;
    else if (n > 1) fwrite(s, 1, (size_t)n, out), s += n;
    else {
      char c = *s++;
      if (c == '<') fputs("&lt;", out);
      else if (c == '>') fputs("&gt;", out);
      else if (c == '&') fputs("&amp;", out);
      else if (c == '"') fputs("&quot;", out);
      else putc((unsigned char)c < 0x20 && c != '\n' && c != '\t' ? '?' : c, out);
    }
  }
}

const char *time_text(char out[32], double ns) {
  if (ns >= 1e9) snprintf(out, 32, "%.3fs", ns / 1e9);
  else if (ns >= 1e6) snprintf(out, 32, "%.3fms", ns / 1e6);
  else snprintf(out, 32, "%.3fus", ns / 1e3);
  return out;
}

const char *bytes_text(char out[32], double bytes) {
  static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  while (bytes >= 1024 && u < 4) bytes /= 1024, u++;
  snprintf(out, 32, u && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, unit[u]);
  return out;
}

int utf8_columns(const char *s) {
  int n = 0;
  for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
  return n;
}
