/* lower_ring: a ring as lower/ring.c and lower/tensor.c know it. Private to these two. */
#ifndef NEREID_LOWER_RING_H
#define NEREID_LOWER_RING_H

#include "gpu/lower/dot.h"

typedef struct LowerRing {
  Place place; /* of slot 0 */
  int bytes;   /* of a slot */
  bool tensor; /* tensor maps bring its tiles */
  int bars;    /* of those: the buffer of its mbarriers, two a slot: full, empty */
  int cluster; /* so many blocks may share its tiles; 0: none */
  /* of the rings that share their mbarriers, the first and (of the first) the last, and how many they are */
  struct LowerRing *first, *last;
  int sharers;
  int own; /* threads read what they copied, so many elements at a time; 0: they do not */
} LowerRing;

LaneValue *lower_slot_begin(Lower *l, const LowerRing *r, const Value *slot); /* bytes */
/* Where a tile's elements lie in shared memory; shift: log2 of an element's bytes. singly: elements are loaded one by
 * one (lower/mma.c). */
F2Map lower_tile_map(const int64_t *dims, int inner_dim, int shift, bool singly);
LowerRing *lower_ring_of(Lower *l, const Value *ring); /* the same each time */
/* lower/lockstep.c: whether the ring shares the mbarriers of one of the n before it */
void lower_ring_join(Lower *l, const Value *ring, const Value *const *before, int n);
/* Of its dots' accesses: whether some read slots as ordinary loads do. */
bool lower_ring_is_loaded(const Lower *l, const Value *ring);

/* A tile that a tensor map stores: boxes of rows and columns (log2) that a warp holds whole in `layout`, and which bits
 * of an index are inside of one. */
typedef struct LowerBox {
  const Layout *layout;
  int rows, columns;
  uint32_t in;
} LowerBox;
void lower_store_box(Lower *l, const Op *op, LowerBox *box); /* of store_tensor */

#endif
