/* inside: the timeline of a kernel's warps, as a trace: then every view of traces shows it. */
#ifndef NEREID_PROF_INSTRUMENTED_H
#define NEREID_PROF_INSTRUMENTED_H

#include "base/base.h"

/* ns since the first began */
typedef struct InstrumentSpan {
  const char *name;
  int64_t block;
  int warp, sm, depth;
  int64_t start, end;
} InstrumentSpan;
/* spans: warp by warp, each by its start, outer ones first; depth 0 is the warp's whole time. place: what `sm` counts;
 * `counted`: the clock is none of time. 0, or an errno when not all was written. */
int instrument_trace(const char *path, const char *kernel, const char *place, int warps, bool counted,
                     const InstrumentSpan *spans, int64_t n, int64_t lost);

#endif
