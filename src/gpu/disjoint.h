/* disjoint: loads that may move before stores, where a launch shows that they never meet.
 *
 *     for ...                   apart %x, %y     a launch computes which bytes are loaded through x and stored through
 *       %v = load %x ...  ->    ...              y; where these meet, it takes a kernel without `apart`
 *       store %y ...            the load of the next iteration, then the store of this one
 *
 * How far a kernel's accesses reach is asked of the Func before passes change it (tile/analysis/reach.h). Private to
 * src/gpu.
 */
#ifndef NEREID_GPU_DISJOINT_H
#define NEREID_GPU_DISJOINT_H

#include "gpu/gpu.h"
#include "tile/analysis/reach.h"

typedef struct ArgReach {
  const SpanStep *steps;
  int count;
  int *reads, *writes; /* by argument: the step with these bytes; 0: any */
  int required;        /* so many `apart` there are */
} ArgReach;

enum { DISJOINT_STORES = 8 };
typedef struct DisjointStores {
  Func *f;
  const Provenance *provenance;
  int count, arguments[DISJOINT_STORES]; /* that a loop stores through */
} DisjointStores;

/* For pipeline.c, before its passes. */
void disjoint_begin(Func *f, const GpuOptions *o);
/* Whether all that the block does to memory and to others are plain stores, through arguments of which it is known how
 * far these reach; none is fine. */
bool disjoint_stores(Func *f, const Block *b, DisjointStores *out);
/* Whether the load may come before these, if they are apart; and requires it. */
bool disjoint_may_precede(const DisjointStores *s, const Op *load);
void disjoint_require(const DisjointStores *s, const Op *load);
/* Whether a launch shows that what is loaded through the one pointer is not stored through the other. */
bool disjoint_is_required(const Provenance *p, const Value *loaded, const Value *stored);

#endif
