/* inside: instrumented kernels in the runtime. inside.c runs one and keeps what it recorded; measure/instrument_read.c
 * makes regions and spans of that. Private to src/runtime. */
#ifndef NEREID_RUNTIME_INSIDE_H
#define NEREID_RUNTIME_INSIDE_H

#include "runtime/runtime.h"
#include "tile/passes/instrument.h"

typedef struct InsideName {
  char *name;
  int line;
  bool automatic;
} InsideName;
typedef struct InsideNames {
  int count;
  InsideName at[];
} InsideNames; /* by number of the region */

/* s->regions; nothing of a kernel that is not instrumented */
void inside_keep_regions(Specialization *s, const Func *f, Context *cx);
void inside_free_regions(InsideNames *n);
/* Of an instrumented kernel: there is memory to record to. */
nereid_status inside_check(const Launch *l, nereid_error **error);
/* NereidHost.record: of a program that runs as C. */
void inside_host_record(void *cursor, void *buffer, const int32_t program[3], const int32_t grid[3], uint32_t tag);

struct nereid_inside {
  char *kernel, device[32];
  nereid_inside_info info;
  InsideNames *names;
  /* of a region by its name's number: in the order in which they were met; -1: never met */
  int *number;
  nereid_inside_region *regions;
  nereid_inside_span *spans;
  int64_t span_cap;
};
/* Where a buffer has what: of `blocks`, in the order of their slots. */
typedef struct InsidePlace {
  const InsideBuffer *buffer;
  const int64_t *blocks;
  int64_t count;
} InsidePlace;
nereid_status inside_read(nereid_inside *in, const InsidePlace *p, nereid_error **error);

#endif
