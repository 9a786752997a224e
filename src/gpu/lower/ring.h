/* lower_ring: a ring as lower/ring.c and lower/tensor.c know it. Private to these two. */
#ifndef NEREID_LOWER_RING_H
#define NEREID_LOWER_RING_H

#include "gpu/lower/dot.h"

typedef struct LowerRing {
  Place place; /* of slot 0 */
  int bytes;   /* of a slot */
  bool tensor; /* tensor maps bring its tiles */
  int bars;    /* of those: the buffer of its mbarriers, two a slot: full, empty */
} LowerRing;

LaneValue *lower_slot_begin(Lower *l, const LowerRing *r, const Value *slot); /* bytes */
LowerRing *lower_ring_of(Lower *l, const Value *ring);                        /* the same each time */
/* Of its dots' accesses: whether some read slots as ordinary loads do. */
bool lower_ring_is_loaded(const Lower *l, const Value *ring);

#endif
