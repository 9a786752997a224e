/* race: candidates run in turn on a device: a product's (tiles of our kernel, a library) for choose.c, and a
 * convolution's for convolve.c. */
#ifndef NEREID_FUSE_RACE_H
#define NEREID_FUSE_RACE_H

#include "fuse/program.h"

typedef struct RaceTime {
  int times; /* it runs in each round; 0: it cannot run */
  /* The least time of a run, and the second: what it has reached twice. 0: it has not run so often. */
  double ms, twice_ms;
} RaceTime;
typedef struct RaceClock {
  nereid_stream *stream;
  nereid_event *start, *end;
} RaceClock;
typedef nereid_status (*RaceRun)(void *arg, int candidate, nereid_stream *s, nereid_error **error); /* once */
nereid_status race_open(RaceClock *c, nereid_device *d, nereid_error **error);
void race_close(RaceClock *c);
/* Sets times; who fails does not run. */
nereid_status race_rounds(const RaceClock *c, int n, RaceTime *times, RaceRun run, void *arg, nereid_error **error);
/* `bytes` of numbers between -1 and 1; of integers zeros. */
nereid_status race_fill(nereid_device *d, nereid_stream *s, void *to, Dtype t, int64_t bytes, nereid_error **error);

/* Whether a race of so many multiply-adds is run at all: what can be gained is more than what starts a kernel. */
bool race_is_worth_it(const nereid_device *d, double multiply_adds);

enum { RACE_TILES = 4 };
typedef struct Candidate {
  bool library;
  FuseTile tile;    /* unless it is the library */
  int first, count; /* its launches, among all */
} Candidate;
typedef struct Race {
  FusePlan *plan; /* a copy, of which the kernels are all candidates' */
  nereid_device *device;
  const FuseLibrary *library; /* NULL: it cannot do this product, or is not there */
  int n;
  Candidate at[RACE_TILES + 1]; /* the table's tile first */
  RaceTime time[RACE_TILES + 1];
} Race;
/* With kernels for all candidates. */
Race *race_make(const FusePlan *p, const FuseGroup *group, const FuseLibrary *library);
/* Sets `ms`. It runs on arrays and in a stream of its own, and does not disturb a stream that is recorded. */
nereid_status race_run(Race *r, nereid_error **error);

/* outcome.c: what races have shown */
typedef struct OutcomeKind {
  const char *name; /* of the folder in the store */
  size_t bytes;
  bool (*read)(void *of, const char *text, void *out); /* false: it is no such outcome */
  bool (*measure)(void *of, void *out);                /* false: it cannot be measured */
  const char *(*write)(Arena *arena, const void *out);
} OutcomeKind;
/* `of` is for the kind's functions; known: the outcomes that were asked for before. False: none is known or kept, and
 * it is not to be measured, or cannot be; `out` then stays as it is. */
bool outcome_find(const OutcomeKind *kind, void *of, const char *key, bool measures, Arena *arena, Map *known,
                  void *out);

#endif
