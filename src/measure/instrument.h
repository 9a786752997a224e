/* A run of an instrumented kernel, and what it recorded: instrument.c runs it, instrument_read.c makes regions and
 * spans of the records. */
#ifndef NEREID_MEASURE_INSTRUMENT_H
#define NEREID_MEASURE_INSTRUMENT_H

#include "runtime/instrument.h"

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
