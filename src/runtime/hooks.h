/* hooks: what the runtime tells measuring, and asks of it. src/measure stands above src/runtime, so a launch knows
 * profiling and tuning by this one table; measure/hooks.c fills it. Private to src/runtime and src/measure.
 *
 *     launch.c ──find_configuration──▶ a configuration kept by nereid_tune or autotune, or one that is measured now
 *     launch.c, device.c, stream.c ──called, launch, memory, ...──▶ the sessions of nereid_prof_start
 *
 * Without a session of the profiler a launch pays for one load of prof_sessions.
 */
#ifndef NEREID_RUNTIME_HOOKS_H
#define NEREID_RUNTIME_HOOKS_H

#include "runtime/runtime.h"

/* A configuration, kept as text, a line each: "BLOCK=128\nnum_warps=4\n"; chosen points into the others. */
typedef struct Found {
  Buf text;
  Chosen chosen;
  const char **lists;
} Found;

/* Stays within launch.c: autotune would have to measure, but the launch has no programs. */
#define NOTHING_TO_MEASURE ((nereid_status)100)

typedef struct MeasureHooks {
  /* Before a compilation: c->chosen gets what was found for such a call, by `nereid tune` or autotune; `found` must
   * live as long as that. Where autotune has to measure, and `measures`, it does, and *made is the winner, compiled.
   * grid: of the launch, or NULL. */
  nereid_status (*find_configuration)(nereid_device *d, nereid_module *m, Call *c, const nereid_options *o,
                                      const int64_t grid[3], bool measures, Found *found, Specialization **made,
                                      nereid_error **error);
  void (*found_free)(Found *f);
  /* Zeroes what the configuration's pre_hook zeroes. */
  nereid_status (*zero_arrays)(nereid_device *d, void *stream, const Call *c, const Specialization *s,
                               nereid_error **error);
  void (*module_closes)(nereid_module *m); /* what is kept of it goes */

  /* A call of the interface that began at `start`. */
  void (*called)(int64_t start, const char *name, TraceCallKind kind, nereid_status result);
  void (*compiled)(int64_t start, const char *kernel, nereid_status result);
  /* allocated; below 0: freed. Always, with a session or not */
  void (*memory)(const nereid_device *d, const void *at, int64_t bytes);
  void (*cuda_opened)(void); /* a device; and, afterwards, closed */
  void (*cuda_closed)(void);
  /* The device's launch, with c->start not 0. */
  nereid_status (*launch)(const ProfCall *c, nereid_device *d, const Launch *l, nereid_error **error);
} MeasureHooks;
extern const MeasureHooks measure_hooks;

extern atomic_int prof_sessions; /* that were started and not stopped */
static inline bool prof_on(void) { return atomic_load_explicit(&prof_sessions, memory_order_relaxed) != 0; }
/* When a call of the interface begins: the time, or 0 without a session. What follows is then nothing. */
static inline int64_t prof_begin(void) { return prof_on() ? trace_clock() : 0; }
static inline nereid_status prof_end(int64_t start, const char *name, TraceCallKind kind, nereid_status result) {
  if (start) measure_hooks.called(start, name, kind, result);
  return result;
}

struct ProfCall {
  int64_t start; /* of prof_begin */
  const char *function;
  const nereid_arg *args;
  int arg_count;
};

#endif
