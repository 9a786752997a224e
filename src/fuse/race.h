/* race: a product's candidates (tiles of our kernel, a library), run in turn on a device. Private to choose.c. */
#ifndef NEREID_FUSE_RACE_H
#define NEREID_FUSE_RACE_H

#include "fuse/program.h"

enum { RACE_TILES = 4 };
typedef struct Candidate {
  bool library;
  FuseTile tile;    /* unless it is the library */
  int first, count; /* its launches, among all */
  int times;        /* it runs in each round; 0: it cannot be compiled */
  /* The least time of all its launches, and the second: what it has reached twice. 0: it has not run so often. */
  double ms, twice_ms;
} Candidate;
typedef struct Race {
  FusePlan *plan; /* a copy, of which the kernels are all candidates' */
  nereid_device *device;
  const FuseLibrary *library; /* NULL: it cannot do this product, or is not there */
  int n;
  Candidate at[RACE_TILES + 1]; /* the table's tile first */
} Race;
/* With kernels for all candidates. */
Race *race_make(const FusePlan *p, const FuseGroup *group, const FuseLibrary *library);
/* Sets `ms`. It runs on arrays and in a stream of its own, and does not disturb a stream that is recorded. */
nereid_status race_run(Race *r, nereid_error **error);

#endif
