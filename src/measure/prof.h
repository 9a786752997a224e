/* prof: sessions of the profiler, as the files of src/measure share them. */
#ifndef NEREID_MEASURE_PROF_H
#define NEREID_MEASURE_PROF_H

#include "runtime/hooks.h"

/* ---- prof.c: the hooks that record ------------------------------------------------------------------------------- */

void prof_call(int64_t start, const char *name, TraceCallKind kind, nereid_status result);
void prof_compiled(int64_t start, const char *kernel, nereid_status result);
void prof_memory(const nereid_device *d, const void *at, int64_t bytes);
void prof_cuda_opened(void);
void prof_cuda_closed(void);
nereid_status prof_launch(const ProfCall *c, nereid_device *d, const Launch *l, nereid_error **error);

/* ---- prof_work.c ------------------------------------------------------------------------------------------------- */

typedef struct ProfWork {
  bool known, exact;
  double flops, bytes;
  char shapes[240];
} ProfWork;
/* What the launch asks of the machine; false: it had to be counted. !out->known: it cannot be. */
bool prof_work_find(const ProfCall *c, nereid_device *d, const Launch *l, ProfWork *out);
void prof_work_clear(void);

#endif
