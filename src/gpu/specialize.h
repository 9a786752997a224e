/* specialize: what the parts of warp specialization (gpu/specialize.c) share. Private to them.
 *
 *     specialize_find.c    which loops, and which tiles of theirs, are boxes that products of warpgroups take
 *     specialize_rings.c   rings for the tiles, and the numbers of their slots through all control flow
 *     specialize_cluster.c which tiles neighbouring blocks share
 *     specialize_slice.c   what the half that copies needs; the function taken twice
 */
#ifndef NEREID_GPU_SPECIALIZE_H
#define NEREID_GPU_SPECIALIZE_H

#include "gpu/disjoint.h"
#include "gpu/box_apart.h"

enum {
  MAX_RINGS = 8,
  MAX_LOOPS = 8,
  MAX_SINGLES = 4,
  MAX_GROUPS = MAX_LOOPS + MAX_SINGLES,
  MAX_MAPS = 8,
  MAX_ROW_BYTES = 1024,
  MAX_WRITES = 4,
  MAX_READS = 8,
  MAX_OTHERS = 16,
  OUTSIDE = -(1 << 30)
};

/* A ring, of one load's tiles. */
typedef struct Ring {
  Op *load;
  RegularTile *box;
  Value *handle, *map;
  bool is_ahead;  /* its tiles are waited for an iteration earlier */
  bool is_row;    /* its tiles have one dim, and threads read them */
  bool is_shared; /* neighbouring blocks mostly take the same tile */
  Value *same;    /* then, in a loop: whether they do */
} Ring;

/* Loops whose tiles are alike take turns with the same rings. */
typedef struct Group {
  Value *handles[MAX_RINGS];
  int count, slots;
  int64_t bytes; /* of a slot of all */
  int tracks;    /* 2: some rings are ahead, and at a place of their own */
  RingPlace at[2];
} Group;

typedef struct Loop {
  Op *op;
  Ring rings[MAX_RINGS];
  int ring_count, dot_count, group;
  Op *dots[MAX_RINGS]; /* asynchronous ones */
  Op *ahead;           /* a dot that is computed an iteration earlier (gpu/dots_ahead.c), or NULL */
} Loop;

/* A tile that is loaded outside of the loops whose products take it. */
typedef struct Single {
  Ring ring;
  const Block *home; /* the load's; the load goes */
  int group;
} Single;

typedef struct Specialize {
  Func *f;
  const GpuOptions *o;
  Loop loops[MAX_LOOPS];
  Single singles[MAX_SINGLES];
  Group groups[MAX_GROUPS];
  Op *write_ops[MAX_WRITES];
  RegularTile *writes_in_loops[MAX_WRITES]; /* a launch sees to it that no tile is of what they reach */
  RegularTile *reads_in_loops[MAX_READS];   /* nor what these bring, past rings: they need not wait for each other */
  int loop_count, single_count, group_count, map_count, write_count, read_count;
  Block *programs; /* what one program does: the Func's body, or that of the loop over programs */
  Map *needed;     /* values that the half that copies needs */
  Op *first;       /* of what is sliced */
  bool asked, writes;
  bool after_stores;     /* tiles come after stores of the program: a launch must show that they do not meet these */
  DisjointStores stores; /* then, all */
  bool persistent;       /* it is, or is about to be */
  int cluster;           /* blocks that share tiles; 0: none do */
  /* by value, once it is known: whether it depends on the program's x; whether neighbours mostly have the same */
  Map *by_x, *mostly_same;
  const char *why;
} Specialize;

bool specialize_refuse(Specialize *p, const char *why); /* false; of several reasons the first counts */
/* Fills loops and singles. */
bool specialize_find(Specialize *p);
/* Rings for tiles of one dim, too, which the loops load for their threads; and without these. */
void specialize_take_rows(Specialize *p);
void specialize_drop_rows(Specialize *p);
bool specialize_is_tile(const Loop *l, const Value *v); /* v is one of the loop's tiles, or a transpose of one */
/* Whether what says which tiles come is made of scalars that no memory decides. */
bool specialize_can_slice(Specialize *p);
void specialize_slice(Specialize *p);
/* Fills groups. */
bool specialize_choose_rings(Specialize *p);
void specialize_put_rings(Specialize *p);
/* Fills cluster and is_shared, or says why not in Func.unclustered. */
void specialize_choose_cluster(Specialize *p);
void specialize_share_ring(Specialize *p, const Ring *r); /* tells the ring and the map, if it is shared */
/* Before the loop, i1: whether the neighbours take the ring's tile, too. */
Value *specialize_is_same(Specialize *p, Builder *b, const Loop *l, const Ring *r);
void specialize_wait_for_readers(Specialize *p, Builder *b, const Group *g, const Ring *r);

#endif
