/* advice: what a trace's time went into, measured (measure.c), and what is said of it (advice.c). */
#ifndef NEREID_PROF_ADVICE_H
#define NEREID_PROF_ADVICE_H

#include "prof/view/views.h"

typedef enum { BOUND_COMPUTE, BOUND_MEMORY, BOUND_OVERHEAD, BOUND_DATA, BOUND_NETWORK, BOUNDS } Bound;

/* Waits of one kind: the same call, in the same range, after the same sort of copy. */
typedef struct Waits {
  const char *call, *range, *copy_call; /* range: the innermost, "" for none; copy_call: of the copy right before it (or
                                           of itself), NULL: none */
  TraceCopyKind copy;
  bool is_alloc;                        /* memory allocated or freed: CUDA may wait for the device in it */
  int64_t count, total, longest, bytes; /* bytes: of the largest such copy */
  int64_t idle, idle_count;             /* ns and number of gaps of the GPU that followed before it had work again */
} Waits;

typedef struct KernelSum {
  const char *name;
  Bound bound;
  bool known; /* bound by flops and bytes, rather than by its name */
  int64_t count, total;
  int64_t launched, launch_total;                 /* those whose launching call is known, and the time of these calls */
  int64_t small, small_total, small_launch_total; /* those that took less than the call that launched them */
  int64_t unfilled; /* time of those with fewer blocks than the device has multiprocessors */
  double flops, bytes;
} KernelSum;

typedef struct CopySum {
  int64_t count, total, bytes, pageable, pageable_total, pageable_bytes;
} CopySum;
typedef struct Doing {
  const char *what, *range;
  int64_t ns, gaps;
} Doing; /* of the CPU, while the GPU was idle */

typedef struct Measured {
  EventJoin *t;
  bool gpu;
  int64_t from, to, startup; /* the region looked at; ns before it that are left out */
  int devices;               /* that ran something */
  int64_t span;              /* (to - from) times devices */
  int64_t busy, idle, gaps, longest_gap, longest_gap_at;
  int64_t bound[BOUNDS]; /* ns; together span */
  /* gaps that ended with input; copies of host memory while no kernel ran */
  int64_t gaps_data, copies_alone, copies_alone_in, copies_all;
  int64_t network, network_alone, network_count;
  int64_t kernels, kernel_time, launches, launch_time, compiles, compile_time;
  bool bound_by_names; /* of some kernels what they did is known by their names only */
  VEC(Waits) waits;
  VEC(KernelSum) kernel;
  VEC(Doing) doing;
  CopySum copies[COPY_UNKNOWN + 1];
  Map *wait_by, *kernel_by, *doing_by;
  VEC(int) wait_of; /* of each wait in the order of time */
} Measured;

bool view_measure(EventJoin *t, Measured *m); /* false: t->error */

#endif
