/* inject: libnereid-prof.so, which `nereid prof -- PROGRAM` puts into processes that know nothing of it.
 *
 *     LD_PRELOAD ─────────────▶ constructor: trace and sampler of this process            inject.c
 *     fork, exec, exit, crash ▶ its own file; written to the end                          inject.c, hooks.c
 *     CUDA_INJECTION64_PATH ──▶ InitializeInjection, from cuInit: CUPTI                   inject.c
 *     NVTX_INJECTION64_PATH ──▶ InitializeInjectionNvtx2, from the first range: NVTX      nvtx.c
 *
 * The host must not notice. The library prints nothing, changes no exit status, catches no signal that is handled or
 * ignored (and those that it catches look to the program as if they were at their default), waits for nothing longer
 * than a few seconds, and leaves errno alone. What it cannot do becomes a note in the trace.
 *
 * All that waits or locks is done by one thread, the keeper; others ask for it and wait with a limit. So a crash in the
 * middle of anything costs events, never a hang.
 */
#ifndef NEREID_INJECT_H
#define NEREID_INJECT_H

#include "prof/prof.h"

#define ENTRY __attribute__((visibility("default")))

typedef enum {
  FINISH_CUDA = 1, /* while CUDA is still there: CUPTI's records, then no more */
  FINISH_EXEC,     /* all that is known is in the file; finish_undo, if there was no exec after all */
  FINISH_EXIT,
  FINISH_SIGNAL, /* that ends a process in good order (SIGTERM, SIGPIPE): as FINISH_EXIT, from a handler */
  FINISH_CRASH,
} Finish;

/* Of a process that was not profiled, or has ended its trace, or of a vfork's child: does nothing. */
void inject_finish(Finish how);
void inject_finish_undo(void);
/* sigaction, in which our handlers stand for the defaults of signals that end a process. */
int inject_sigaction(int number, const struct sigaction *act, struct sigaction *old);
extern int (*real_sigaction)(int, const struct sigaction *, struct sigaction *); /* hooks.c */
TraceWriter *inject_trace(void);                                                 /* NULL: none, or no more */
void inject_has_ranges(void);        /* so that the trace is kept, however short the process was */
bool inject_wants(const char *kind); /* "nvtx", ...: $NEREID_PROF_KINDS names it */

void nvtx_forget(void); /* in the child of a fork */

#endif
