/* What the tests of views share: traces made event by event, so that every figure that is expected can be worked out by
 * hand, and what a view shows of one. Times are microseconds after START. */
#ifndef TEST_VIEWS_KIT_H
#define TEST_VIEWS_KIT_H
#include "prof/view/views.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- making traces ----------------------------------------------------------------------------------------------- */

enum { PROCESS = 100, MAIN = 100, WORKER = 101, START = 1000000000 };
typedef struct Maker {
  char path[64];
  TraceWriter *w;
} Maker;

static inline int64_t us(double t) { return START + (int64_t)(t * 1000 + (t < 0 ? -0.5 : 0.5)); }

static inline Maker make(void) {
  Maker m = {.path = "/tmp/nereid-views-XXXXXX"};
  int fd = mkstemp(m.path);
  assert_true(fd >= 0);
  close(fd);
  unlink(m.path);
  m.w = trace_create(m.path, "python3 train.py");
  assert_non_null(m.w);
  return m;
}

static inline TraceEvent event(Maker *m, TraceKind kind, const char *name, double start, double end) {
  return (TraceEvent){
      .kind = kind, .name = trace_string(m->w, name), .start = us(start), .end = us(end), .thread = MAIN};
}
static inline void call_on(Maker *m, uint32_t thread, TraceCallKind kind, const char *name, double start, double end,
                           uint64_t correlation) {
  TraceEvent e = event(m, TRACE_CALL, name, start, end);
  e.thread = thread, e.correlation = correlation, e.call.kind = kind;
  trace_event(m->w, &e);
}
static inline void call(Maker *m, TraceCallKind kind, const char *name, double start, double end,
                        uint64_t correlation) {
  call_on(m, MAIN, kind, name, start, end, correlation);
}
static inline void launch(Maker *m, double start, double end, uint64_t correlation) {
  call(m, CALL_LAUNCH, "cudaLaunchKernel", start, end, correlation);
}
static inline void kernel_on(Maker *m, uint32_t device, uint64_t stream, const char *name, double start, double end,
                             uint64_t correlation) {
  TraceEvent e = event(m, TRACE_KERNEL, name, start, end);
  e.correlation = correlation, e.device = device, e.stream = stream;
  e.kernel.grid[0] = 256, e.kernel.grid[1] = e.kernel.grid[2] = 1, e.kernel.block[0] = 128,
  e.kernel.block[1] = e.kernel.block[2] = 1;
  e.kernel.registers = 32, e.kernel.shared = 1024;
  if (device != TRACE_CPU_DEVICE) e.thread = 0;
  trace_event(m->w, &e);
}
static inline void kernel(Maker *m, const char *name, double start, double end, uint64_t correlation) {
  kernel_on(m, 0, 7, name, start, end, correlation);
}
static inline void copy(Maker *m, TraceCopyKind kind, bool pageable, int64_t bytes, double start, double end,
                        uint64_t correlation) {
  TraceEvent e = event(m, TRACE_COPY, NULL, start, end);
  e.thread = 0, e.correlation = correlation, e.stream = 7, e.copy.kind = kind, e.copy.pageable = pageable,
  e.copy.bytes = bytes;
  trace_event(m->w, &e);
}
static inline void range_on(Maker *m, uint32_t thread, const char *name, double start, double end) {
  static uint64_t id;
  TraceEvent e = event(m, TRACE_RANGE, name, start, end);
  e.thread = thread, e.range.origin = RANGE_NVTX, e.range.id = ++id;
  trace_event(m->w, &e);
}
static inline void range(Maker *m, const char *name, double start, double end) { range_on(m, MAIN, name, start, end); }
static inline void memory(Maker *m, double at, int64_t bytes, int64_t in_use) {
  TraceEvent e = event(m, TRACE_MEMORY, NULL, at, at);
  e.memory.bytes = bytes, e.memory.in_use = in_use, e.memory.address = 4096;
  trace_event(m->w, &e);
}
static inline void note_at(Maker *m, double at, const char *text) {
  TraceEvent e = event(m, TRACE_NOTE, text, at, at);
  trace_event(m->w, &e);
}
static inline void device(Maker *m, const char *name, int multiprocessors) {
  TraceEvent e = event(m, TRACE_DEVICE, name, 0, 0);
  e.device_.sm = 90, e.device_.multiprocessors = multiprocessors, e.device_.bandwidth = 4.8e12, e.device_.flops = 67e12,
  e.device_.memory = 141ll << 30;
  trace_event(m->w, &e);
}
static inline void sample_at(Maker *m, double at, const char *const *stack, int depth,
                             int64_t weight) { /* innermost first */
  TraceEvent e = event(m, TRACE_SAMPLE, NULL, at, at);
  e.sample.depth = (uint32_t)depth, e.sample.is_symbolic = true, e.sample.weight = weight;
  for (int i = 0; i < depth; i++) e.sample.stack[i] = trace_string(m->w, stack[i]);
  trace_event(m->w, &e);
}
static inline void sample(Maker *m, const char *const *stack, int depth, int64_t weight) {
  sample_at(m, 1, stack, depth, weight);
}

/* ---- showing them ------------------------------------------------------------------------------------------------ */

typedef int View(TraceReader *, FILE *, const ViewOptions *, char[300]);

static char *show_to(Maker *m, View *view, const ViewOptions *o, int expected, char why[300]) {
  if (m->w) assert_int_equal(trace_close(m->w, NULL), 0);
  m->w = NULL;
  const char *reason = NULL;
  char buffer[300], *text = NULL;
  size_t n = 0;
  TraceReader *r = trace_open(m->path, &reason, buffer);
  if (!r) fail_msg("%s", reason);
  FILE *out = open_memstream(&text, &n);
  why[0] = 0;
  int status = view(r, out, o, why);
  fclose(out);
  if (status != expected) fail_msg("status %d: %s", status, why);
  trace_reader_free(r);
  return text;
}
static char *show(Maker *m, View *view, const ViewOptions *o) {
  char why[300];
  return show_to(m, view, o, 0, why);
}
static inline void done(Maker *m) {
  if (m->w) trace_close(m->w, NULL);
  unlink(m->path);
}

/* A row of a table of JSON: whether it holds all the given members. */
static inline void expect_row(const char *json, const char *name, const char *members) {
  char key[300];
  snprintf(key, sizeof key, "{\"name\": \"%s\"", name);
  const char *row = strstr(json, key), *end = row ? strchr(row, '}') : NULL;
  if (!row) fail_msg("no row \"%s\" in %s", name, json);
  char *text = strndup(row, (size_t)(end - row));
  if (!strstr(text, members)) fail_msg("expected %s in %s", members, text);
  free(text);
}
static inline void expect(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("expected \"%s\" in:\n%s", part, text);
}
static inline void expect_no(const char *text, const char *part) {
  if (strstr(text, part)) fail_msg("did not expect \"%s\" in:\n%s", part, text);
}
static inline int occurrences(const char *text, const char *part) {
  int n = 0;
  for (const char *p = text; (p = strstr(p, part)); p++) n++;
  return n;
}

#endif
