/* A kernel's warps in a trace. A warp is a thread of its own, with a name that says which; a region is a range of that
 * thread; the kernel is the range around them all. Nothing in the trace's format is for it, so every view shows it: the
 * timeline its tracks, the tree its regions.
 *
 *     thread 5 "block 1 warp 0, SM 17"    softmax [0, 4120]   loop 12 [310, 3900]   iteration 12 [310, 480] ...
 */
#include "prof/record/instrumented.h"

#include <errno.h>

#include "prof/record/trace.h"

enum { MAX_DEPTH = 256 };

static void put_thread(TraceWriter *w, uint32_t thread, const char *place, int warps, bool counted,
                       const InstrumentSpan *s) {
  char name[120];
  int n = snprintf(name, sizeof name, "block %lld", (long long)s->block);
  if (warps > 1) n += snprintf(name + n, sizeof name - (size_t)n, " warp %d", s->warp);
  if (!counted) snprintf(name + n, sizeof name - (size_t)n, ", %s %d", place, s->sm);
  trace_event(w, &(TraceEvent){.kind = TRACE_THREAD, .name = trace_string(w, name), .thread = thread});
}

int instrument_trace(const char *path, const char *kernel, const char *place, int warps, bool counted,
                     const InstrumentSpan *spans, int64_t n, int64_t lost) {
  char command[300];
  snprintf(command, sizeof command, "inside %s", kernel);
  TraceWriter *w = trace_create(path, command);
  if (!w) return errno ? errno : EIO;
  int64_t origin = trace_clock();
  uint64_t open[MAX_DEPTH] = {0}; /* by depth: the range's id */
  uint32_t thread = 0;
  for (int64_t i = 0; i < n; i++) {
    const InstrumentSpan *s = &spans[i];
    if (s->depth == 0) put_thread(w, ++thread, place, warps, counted, s);
    uint64_t id = (uint64_t)i + 1;
    int depth = s->depth < MAX_DEPTH ? s->depth : MAX_DEPTH - 1;
    open[depth] = id;
    trace_event(w, &(TraceEvent){.kind = TRACE_RANGE,
                                 .name = trace_string(w, s->name),
                                 .thread = thread,
                                 .start = origin + s->start,
                                 .end = origin + s->end,
                                 .range = {RANGE_OURS, id, depth ? open[depth - 1] : 0}});
  }
  if (counted)
    trace_event(w, &(TraceEvent){.kind = TRACE_NOTE,
                                 .name = trace_string(w, "times are counts of operations: one is shown as 1 ns"),
                                 .start = origin,
                                 .end = origin});
  if (lost)
    trace_event(w, &(TraceEvent){.kind = TRACE_LOST,
                                 .name = trace_string(w, "records of warps that found no room"),
                                 .start = origin,
                                 .end = origin,
                                 .lost = {lost}});
  return trace_close(w, NULL);
}
