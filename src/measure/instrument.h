/* A run of an instrumented kernel, and what it recorded: instrument.c runs it, instrument_read.c makes regions and
 * spans of the records. */
#ifndef NEREID_MEASURE_INSTRUMENT_H
#define NEREID_MEASURE_INSTRUMENT_H

#include "runtime/instrument.h"

struct nereid_instrument {
  char *kernel, device[32];
  nereid_instrument_info info;
  InstrumentNames *names;
  /* of a region by its name's number: in the order in which they were met; -1: never met */
  int *number;
  nereid_instrument_region *regions;
  nereid_instrument_span *spans;
  int64_t span_cap;
};
/* Where a buffer has what: of `blocks`, in the order of their slots. */
typedef struct InstrumentPlace {
  const InstrumentBuffer *buffer;
  const int64_t *blocks;
  int64_t count;
} InstrumentPlace;
nereid_status instrument_read(nereid_instrument *in, const InstrumentPlace *p, nereid_error **error);

#endif
