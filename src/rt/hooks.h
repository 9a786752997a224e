/* hooks: what rt tells whoever stands above it, and asks there. src/measure fills the table; in libnereid-rt alone.c
 * does.
 *
 *     launch.c, device.c, stream.c ──called, launch, memory, ...──▶ the sessions of nereid_prof_start
 *
 * Without a session of the profiler a launch pays for one load of prof_sessions.
 */
#ifndef NEREID_RT_HOOKS_H
#define NEREID_RT_HOOKS_H

#include "prof/record/trace.h"
#include "rt/rt.h"

typedef struct RtHooks {
  int64_t (*now)(void); /* as a profile's events have it */
  /* A call of the interface that began at `start`. */
  void (*called)(int64_t start, const char *name, TraceCallKind kind, nereid_status result);
  /* allocated; below 0: freed. Always, with a session or not */
  void (*memory)(const nereid_device *d, const void *at, int64_t bytes);
  void (*cuda_opened)(void); /* a device; and, afterwards, closed */
  void (*cuda_closed)(void);
  /* The device's launch, with c->start not 0. */
  nereid_status (*launch)(const ProfCall *c, nereid_device *d, const Launch *l, nereid_error **error);
  /* NereidHost.record: of an instrumented program that runs as C. */
  void (*record)(void *cursor, void *buffer, const int32_t program[3], const int32_t grid[3], uint32_t tag);
  /* Which C compiler makes code for the cpu device, or, with false, what to do about there being none. */
  bool (*cpu_compiler)(char *out, size_t size);
} RtHooks;
extern const RtHooks rt_hooks;

extern atomic_int prof_sessions; /* that were started and not stopped */
static inline bool prof_on(void) { return atomic_load_explicit(&prof_sessions, memory_order_relaxed) != 0; }
/* When a call of the interface begins: the time, or 0 without a session. What follows is then nothing. */
static inline int64_t prof_begin(void) { return prof_on() ? rt_hooks.now() : 0; }
static inline nereid_status prof_end(int64_t start, const char *name, TraceCallKind kind, nereid_status result) {
  if (start) rt_hooks.called(start, name, kind, result);
  return result;
}

struct ProfCall {
  int64_t start; /* of prof_begin */
  const char *function;
  const nereid_arg *args;
  int arg_count;
};

#endif
