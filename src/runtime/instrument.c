/* Instrumented kernels at run time: the names of their regions, kept with the specialization; and what a program that
 * runs as C calls to record (tile/passes/instrument.h has the form of the records, measure/instrument.c runs such a
 * kernel). */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>

#include "runtime/instrument.h"

void inside_free_regions(InsideNames *n) {
  for (int i = 0; n && i < n->count; i++) free(n->at[i].name);
  free(n);
}

InsideNames *inside_names_copy(int count, const InsideName *from) {
  InsideNames *n = calloc(1, sizeof *n + sizeof n->at[0] * (size_t)(count + 1));
  for (; n && n->count < count; n->count++) {
    n->at[n->count] = from[n->count];
    if (!(n->at[n->count].name = strdup(from[n->count].name))) {
      inside_free_regions(n);
      return NULL;
    }
  }
  return n;
}

void inside_keep_regions(Specialization *s, const Func *f, Context *cx) {
  if (!f->inside) return;
  int count = f->inside->regions.n;
  InsideName *list = NEW_N(cx->arena, InsideName, count + 1);
  for (int i = 0; i < count; i++) {
    const InsideRegion *r = &f->inside->regions.at[i];
    list[i] = (InsideName){(char *)r->name, r->span ? r->span->line : 0, r->automatic};
  }
  if (!(s->regions = inside_names_copy(count, list))) context_out_of_memory(cx);
}

nereid_status inside_check(const Launch *l, nereid_error **error) {
  if (!l->spec->regions || l->options->inside_buffer) return NEREID_OK;
  return error_set(error, NEREID_BAD_ARGUMENT, "use nereid_inside_run, which makes it; or leave options.inside at zero",
                   "kernel '%s' is instrumented, but options.inside_buffer, where it records to, is NULL",
                   l->spec->kernel->info.name);
}

void inside_host_record(void *cursor, void *buffer, const int32_t program[3], const int32_t grid[3], uint32_t tag) {
  uint64_t now = (uint64_t)clock_ns();
  if (tag == 0) {
    int64_t linear = program[0] + grid[0] * (program[1] + (int64_t)grid[1] * program[2]);
    int processor = sched_getcpu();
    inside_open(cursor, buffer, linear, processor < 0 ? 0 : (uint32_t)processor, now, now);
  } else if (tag == UINT32_MAX) {
    inside_close(cursor, now, now);
  } else {
    inside_mark(cursor, tag, now);
  }
}
