/* inside: how an instrumented kernel records when its regions begin and end; one format for all devices.
 *
 * A region is a named part of a kernel: one that the source marks (`# nereid: begin load`, front/kernel/regions.c), or
 * a loop, a turn of one, a product, a reduction, which tile_inside() finds by itself. In the IR a region lies between
 * two `scope` operations. When a program runs, each of its warps (a CPU's program is one warp) appends a record at each
 * of them, the region and a clock, to an area of its own in an InsideBuffer, which whoever launches has made and reads
 * afterwards.
 *
 *     InsideBuffer   programs=3 warps=4 capacity=512 | slot: 1 0 2     programs 0 and 2 are recorded
 *     InsideWarp     of slot 0, warp 0: clocks, sm, used | begin loop @10, begin turn @12, end turn @40, ... 512 at
 * most InsideWarp     of slot 0, warp 1 ...
 *
 * What no longer fits is counted and not kept. Records of what a loop repeats may not take the last INSIDE_RESERVE of
 * the places, so that what lies around the loops is kept also when their turns are too many. The clock of a record is
 * the low half of the device's; the first and the last value stand in full beside it, with those of a timer that all
 * warps share.
 */
#ifndef NEREID_TILE_INSIDE_H
#define NEREID_TILE_INSIDE_H

#include "tile/tile.h"

/* ---- regions of a Func ------------------------------------------------------------------------------------------- */

/* as NEREID_INSIDE_* of nereid.h */
typedef enum { INSIDE_OFF, INSIDE_DEFAULT, INSIDE_MARKED, INSIDE_AUTOMATIC, INSIDE_BOTH, INSIDE_MODES } InsideMode;
typedef struct InsideRegion {
  const char *name;
  const Span *span;
  bool automatic;
} InsideRegion;
typedef struct Inside {
  InsideMode mode;
  bool marked;               /* the source marks some, and they are looked at */
  bool automatic;            /* set by tile_inside: regions of their own are looked for, barriers too */
  VEC(InsideRegion) regions; /* by number */
} Inside;
/* What the source marks can be recorded; fails else. */
void tile_inside_check(Func *f);
/* Adds the automatic regions, if they are wanted, and numbers all: by name, so that what bears one name is one region.
 * Nothing without f->inside. */
void tile_inside(Func *f);
/* its number, new or not */
int inside_region(Context *cx, Inside *in, const char *name, const Span *span, bool automatic);
bool inside_repeats(const Op *op); /* whether op stands in a loop */

/* ---- records ----------------------------------------------------------------------------------------------------- */

typedef struct InsideRecord {
  uint32_t tag, clock;
} InsideRecord;
typedef struct InsideWarp {
  uint64_t clock[2], timer[2]; /* at its beginning and its end; the end is 0 if it never came there */
  uint32_t sm, reserved;       /* multiprocessor, or processor */
  uint32_t used, lost;         /* bytes of its records; how many records found no room */
  InsideRecord records[];
} InsideWarp;
typedef struct InsideBuffer {
  uint32_t programs; /* entries of slot; programs from there on are not recorded */
  uint32_t warps;    /* of a program */
  uint32_t limit;    /* bytes of records that a warp has room for */
  uint32_t stride;   /* bytes from one InsideWarp to the next */
  uint64_t first;    /* bytes from here to the first InsideWarp */
  uint32_t slot[];   /* by linear program id: 0, or which of those that are recorded, from 1 */
} InsideBuffer;
enum { INSIDE_RESERVE = 64 * (int)sizeof(InsideRecord) }; /* bytes */

/* The tag of a record, and what the operation that makes it carries. */
#define INSIDE_TAG(region, end) ((uint32_t)((region) + 1) << 1 | (uint32_t)(end))
#define INSIDE_REPEATED (1u << 30) /* in a loop; not in the record */
static inline int inside_tag_region(uint32_t tag) { return (int)(tag >> 1) - 1; }
static inline bool inside_tag_ends(uint32_t tag) { return tag & 1; }

/* For devices whose warps are C. */
typedef struct InsideCursor {
  InsideWarp *at;
  uint32_t used, limit, lost;
} InsideCursor; /* at NULL: not recorded */
void inside_open(InsideCursor *c, void *buffer, int64_t program, uint32_t sm, uint64_t clock, uint64_t timer);
/* the same where the place is known; c->limit is set */
void inside_begin(InsideCursor *c, InsideWarp *at, uint32_t sm, uint64_t clock, uint64_t timer);
void inside_mark(InsideCursor *c, uint32_t tag, uint64_t clock); /* tag with INSIDE_REPEATED or without */
void inside_close(InsideCursor *c, uint64_t clock, uint64_t timer);

#endif
