/* Instrumented kernels at run time. measure/instrument.c runs one and keeps what it recorded. */
#ifndef NEREID_RUNTIME_INSTRUMENT_H
#define NEREID_RUNTIME_INSTRUMENT_H

#include "runtime/runtime.h"
#include "tile/passes/instrument.h"

typedef struct InstrumentName {
  char *name;
  int line;
  bool automatic;
} InstrumentName;
typedef struct InstrumentNames {
  int count;
  InstrumentName at[];
} InstrumentNames; /* by number of the region */

InstrumentNames *instrument_names_copy(int count, const InstrumentName *from); /* malloc'ed; NULL: out of memory */
/* s->regions; nothing of a kernel that is not instrumented */
void instrument_keep_regions(Specialization *s, const Func *f, Context *cx);
void instrument_free_regions(InstrumentNames *n);
/* NereidHost.record: of a program that runs as C. */
void instrument_host_record(void *cursor, void *buffer, const int32_t program[3], const int32_t grid[3], uint32_t tag);

#endif
