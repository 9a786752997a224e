/* tune: what the files of tuning share. Private to them.
 *
 *     autotune.c   a launch that leaves its configuration open: looks for the winner, else has it found
 *     tuning_cache.c winners, in memory by module and on disk
 *     tune.c       the race: candidates compiled, measured in turn, dropped; nereid_tune
 *     tune_array.c arrays that must look alike before each run, and whether candidates agree on what they wrote
 */
#ifndef NEREID_TUNE_H
#define NEREID_TUNE_H

#include "runtime/hooks.h"

#include <stdatomic.h>

/* ---- tuning_cache.c ---------------------------------------------------------------------------------------------- */

void found_free(Found *f);
/* Reads f->text into f->chosen. False: it makes no sense, or memory ran out. */
bool found_parse(Found *f);
/* Of the kernel on this device (or one like it), for the key; in memory, then on disk. */
bool tuning_cache_find(nereid_device *d, nereid_module *m, const KernelInfo *k, const void *key, size_t key_size,
                       Buf *text);
/* In memory, and on disk. ns: what it took. False: not on disk; errno says why. */
bool tuning_cache_keep(nereid_device *d, nereid_module *m, const KernelInfo *k, const void *key, size_t key_size,
                       const char *text, double ns);

void tuning_cache_free(nereid_module *m);

/* ---- tune_array.c ------------------------------------------------------------------------------------------------ */

/* One array of the launch. */
typedef struct TuneArray {
  int param;
  void *at;
  int64_t bytes; /* 0: not known */
  Dtype dtype;
  bool resets, restores; /* before each run: zeroed; given back what it held */
  bool compared;         /* its content after a run must be the first run's */
  void *before, *wanted; /* copies */
  double scale;          /* mean |x| of what is wanted */
} TuneArray;
typedef struct TuneArrays {
  nereid_device *device;
  TuneArray *at;
  int count;
  nereid_module *module; /* the kernels that compare */
  void *found;           /* what they find: an i64 and an f32 */
} TuneArrays;
int64_t array_bytes(nereid_device *d, const nereid_arg *a); /* to its end; below 1: not known */
/* The arrays of the call. */
nereid_status arrays_open(TuneArrays *a, nereid_device *d, const Call *c, nereid_error **error);
void arrays_close(TuneArrays *a);
TuneArray *arrays_find(TuneArrays *a, int param);
/* Where an array's end must be known and is not. */
nereid_status array_unknown(const Call *c, int param, const char *what, nereid_error **error);
nereid_status arrays_save(TuneArrays *a, nereid_error **error);    /* of those that are restored */
nereid_status arrays_prepare(TuneArrays *a, nereid_error **error); /* before a run, and at the end */
nereid_status arrays_expect(TuneArrays *a, nereid_error **error);  /* what they hold now is wanted */
/* Names the first array that differs from what is wanted: "out_ptr: 12 of 4096 elements differ". why stays empty when
 * all agree. */
nereid_status arrays_compare(TuneArrays *a, const Call *c, char *why, size_t size, nereid_error **error);

/* ---- tune.c ------------------------------------------------------------------------------------------------------ */

typedef struct Candidate {
  const Call *call;
  nereid_options options;
  Chosen chosen;
  Specialization *spec;
  uint64_t *slots;
  Launch launch;
  int duplicate_of;   /* the candidate before it with the same code and grid; -1: none */
  atomic_bool racing; /* who tells the progress asks while others compile */
  double *samples;    /* ns */
  int count;
  Buf print; /* what static_print said */
  nereid_tune_result *result;
} Candidate;

typedef struct Tuner {
  nereid_device *device;
  nereid_module *module;
  const nereid_tune_options *options;
  const int64_t *grid; /* the same for all; NULL: by candidate */
  Candidate *at;
  int count;
  int *order; /* in which they are compiled */
  TuneArrays arrays;
  bool checks;               /* outputs are compared */
  nereid_status no_programs; /* what it is called when no configuration runs a program */
  int64_t started, deadline;
  int most;                  /* trials of a candidate */
  int64_t most_thread_bytes; /* of a tile; 0: no limit */
  nereid_event *start, *end; /* NULL: the device has none */
  nereid_module *flush;      /* empties the caches; NULL: they stay as they are */
  nereid_function *flush_function;
  nereid_arg flush_args[2];
  void *flush_memory;
  pthread_mutex_t lock; /* of progress */
  bool ended;           /* by progress */
  const char *phase;
  int done, of;
  atomic_int left;
} Tuner;

/* Candidates have call, options and chosen; results are filled. *best: a candidate's index. Specializations of all that
 * compiled stay in their candidates. */
nereid_status tuner_run(Tuner *t, int *best, nereid_error **error);
void tuner_close(Tuner *t); /* with the candidates' specializations */

/* ---- autotune.c -------------------------------------------------------------------------------------------------- */

/* MeasureHooks.find_configuration and zero_arrays. */
nereid_status autotune_find(nereid_device *d, nereid_module *m, Call *c, const nereid_options *o, const int64_t grid[3],
                            bool measures, Found *found, Specialization **made, nereid_error **error);
nereid_status autotune_zero(nereid_device *d, void *stream, const Call *c, const Specialization *s,
                            nereid_error **error);

#endif
