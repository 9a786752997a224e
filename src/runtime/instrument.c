/* Instrumented kernels at run time: the names of their regions, kept with the specialization; and what a program that
 * runs as C calls to record (tile/passes/instrument.h has the form of the records, measure/instrument.c runs such a
 * kernel). */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>

#include "runtime/instrument.h"

void instrument_free_regions(InstrumentNames *n) {
  for (int i = 0; n && i < n->count; i++) free(n->at[i].name);
  free(n);
}

InstrumentNames *instrument_names_copy(int count, const InstrumentName *from) {
  InstrumentNames *n = calloc(1, sizeof *n + sizeof n->at[0] * (size_t)(count + 1));
  for (; n && n->count < count; n->count++) {
    n->at[n->count] = from[n->count];
    if (!(n->at[n->count].name = strdup(from[n->count].name))) {
      instrument_free_regions(n);
      return NULL;
    }
  }
  return n;
}

void instrument_keep_regions(Specialization *s, const Func *f, Context *cx) {
  if (!f->instrument) return;
  int count = f->instrument->regions.n;
  InstrumentName *list = NEW_N(cx->arena, InstrumentName, count + 1);
  for (int i = 0; i < count; i++) {
    const InstrumentRegion *r = &f->instrument->regions.at[i];
    list[i] = (InstrumentName){(char *)r->name, r->span ? r->span->line : 0, r->automatic};
  }
  s->run.instrumented = true;
  if (!(s->regions = instrument_names_copy(count, list))) context_out_of_memory(cx);
}

void instrument_host_record(void *cursor, void *buffer, const int32_t program[3], const int32_t grid[3], uint32_t tag) {
  uint64_t now = (uint64_t)clock_ns();
  if (tag == 0) {
    int64_t linear = program[0] + grid[0] * (program[1] + (int64_t)grid[1] * program[2]);
    int processor = sched_getcpu();
    instrument_open(cursor, buffer, linear, processor < 0 ? 0 : (uint32_t)processor, now, now);
  } else if (tag == UINT32_MAX) {
    instrument_close(cursor, now, now);
  } else {
    instrument_mark(cursor, tag, now);
  }
}
