/* ring: what the passes that put rings into tile IR share: a ring is a few tiles in shared memory, its slots, which
 * copies fill and products read, one after the other and round again. Private to src/gpu. */
#ifndef NEREID_GPU_RING_H
#define NEREID_GPU_RING_H

#include "gpu/loop.h"
#include "tile/analysis/regular.h"

/* Where a walk over the slots is: the slot of the next tile, and the parity of the phase in which it comes, which
 * changes each time round. */
typedef struct RingPlace {
  Value *slot, *parity;
} RingPlace;

/* A ring for the tiles of a load, whose neighbours along the dim `inner` lie side by side. */
Value *ring_build(Builder *b, const Op *load, int inner, int64_t slots);
Value *ring_build_own(Builder *b, const Op *load, int64_t slots); /* threads read what they have copied */
/* Notes for a reader when a loop's rings have fewer slots than its stages. */
void ring_note_stages(Func *f, const GpuOptions *o, int64_t stages, int64_t slots);
/* The map that brings such tiles, made of arguments alone, and what a launch must check for it. */
Value *ring_map(Builder *b, const RegularTile *box);
/* The same, or one that there is for another load of such boxes. */
Value *ring_map_of_load(Builder *b, const RegularTile *box);
/* How many maps the function has; a launch makes GPU_PLAN_MAPS at most. */
int ring_map_count(const Func *f);
void ring_require(Builder *b, PolySpace *s); /* the conditions of a reading, for a launch to check */
/* The tile in a slot, for the load's. */
Value *ring_read(Builder *b, Value *ring, Value *slot, const Op *load); /* of rings of threads and rows: in registers */
/* Whether it has neither a body nor an effect but that it reads of rings: what moves past products may pass it. */
bool ring_may_be_passed(const Op *op);
void ring_full(Builder *b, Value *ring, RingPlace at); /* waits for the tile that tensor maps bring there */

/* Bytes beside rings that stay while the function stores: for what is stored, on its way to its layout. */
int64_t ring_stored_bytes(const Func *f, const GpuOptions *o);

RingPlace ring_first(Builder *b);
/* The last slot is followed by the first, in its next phase. */
Value *ring_next_slot(Builder *b, int64_t slots, Value *slot);
RingPlace ring_next(Builder *b, int64_t slots, RingPlace at);
/* Carried by the loop from `first` on, until ring_yield says what follows `at`; and where that ends. */
RingPlace ring_carry(Func *f, Op *loop, RingPlace first);
RingPlace ring_result(const Op *loop, RingPlace at);
RingPlace ring_yield(Op *loop, RingPlace at, RingPlace next);

#endif
