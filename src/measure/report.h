/* report: a report while it is made. Private to runtime/report*.c. */
#ifndef NEREID_MEASURE_REPORT_H
#define NEREID_MEASURE_REPORT_H

#include "gpu/report/counts.h"
#include "runtime/runtime.h"
#include "tile/analysis/cost.h"

typedef struct Report {
  nereid_report out; /* the first member: what the caller gets */
  Context *cx;       /* in which it was made, and which goes with it: all it points to lies there */
  Arena *arena;      /* cx's */
  const GpuTarget *target;
  const GpuReport *counted;
  VEC(nereid_report_time) times;
} Report;

void cost_put(nereid_cost *out, const TileCost *c); /* launch_cost.c: the counts in the interface's words */
/* report_occupancy.c */
nereid_status report_target(const char *name, const GpuTarget **out, nereid_error **error); /* NULL: a common one */
nereid_occupancy report_occupancy(const GpuTarget *t, int registers, int shared_bytes, int num_warps);
void report_judge(Report *r); /* report_judge.c: fills out.remarks */

#endif
