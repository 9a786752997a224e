/* inside: how an instrumented kernel records when its regions begin and end; one format for all devices.
 *
 * A region is a named part of a kernel: one that the source marks (`# nereid: begin load`, front/kernel/regions.c), or
 * a loop, an iteration of one, a product, a reduction, which tile_instrument() finds by itself. In the IR a region lies
 * between two `scope` operations. When a program runs, each of its warps (a CPU's program is one warp) appends a record
 * at each of them, the region and a clock, to an area of its own in an InstrumentBuffer, which whoever launches has
 * made and reads afterwards.
 *
 *     InstrumentBuffer   programs=3 warps=4 capacity=512 | slot: 1 0 2     programs 0 and 2 are recorded
 *     InstrumentWarp     of slot 0, warp 0: clocks, sm, used | begin loop @10, begin iteration @12, end iteration @40,
 *                        ... 512 at most
 *     InstrumentWarp     of slot 0, warp 1 ...
 *
 * What no longer fits is counted and not kept. Records of what a loop repeats may not take the last INSTRUMENT_RESERVE
 * of the places, so that what lies around the loops is kept also when their iterations are too many. The clock of a
 * record is the low half of the device's; the first and the last value stand in full beside it, with those of a timer
 * that all warps share.
 */
#ifndef NEREID_TILE_INSTRUMENT_H
#define NEREID_TILE_INSTRUMENT_H

#include "tile/tile.h"

/* ---- regions of a Func ------------------------------------------------------------------------------------------- */

/* as NEREID_INSTRUMENT_* of nereid.h */
typedef enum {
  INSTRUMENT_OFF,
  INSTRUMENT_DEFAULT,
  INSTRUMENT_MARKED,
  INSTRUMENT_AUTOMATIC,
  INSTRUMENT_BOTH,
  INSTRUMENT_MODES
} InstrumentMode;
typedef struct InstrumentRegion {
  const char *name;
  const Span *span;
  bool automatic;
} InstrumentRegion;
typedef struct Instrument {
  InstrumentMode mode;
  bool marked;                   /* the source marks some, and they are looked at */
  bool automatic;                /* set by tile_instrument: regions of their own are looked for, barriers too */
  VEC(InstrumentRegion) regions; /* by number */
} Instrument;
/* What the source marks can be recorded; fails else. */
void tile_instrument_check(Func *f);
/* Adds the automatic regions, if they are wanted, and numbers all: by name, so that what bears one name is one region.
 * Nothing without f->inside. */
void tile_instrument(Func *f);
/* its number, new or not */
int instrument_region(Context *cx, Instrument *in, const char *name, const Span *span, bool automatic);
bool instrument_repeats(const Op *op); /* whether op stands in a loop */

/* ---- records ----------------------------------------------------------------------------------------------------- */

typedef struct InstrumentRecord {
  uint32_t tag, clock;
} InstrumentRecord;
typedef struct InstrumentWarp {
  uint64_t clock[2], timer[2]; /* at its beginning and its end; the end is 0 if it never came there */
  uint32_t sm, reserved;       /* multiprocessor, or processor */
  uint32_t used, lost;         /* bytes of its records; how many records found no room */
  InstrumentRecord records[];
} InstrumentWarp;
typedef struct InstrumentBuffer {
  uint32_t programs; /* entries of slot; programs from there on are not recorded */
  uint32_t warps;    /* of a program */
  uint32_t limit;    /* bytes of records that a warp has room for */
  uint32_t stride;   /* bytes from one InstrumentWarp to the next */
  uint64_t first;    /* bytes from here to the first InstrumentWarp */
  uint32_t slot[];   /* by linear program id: 0, or which of those that are recorded, from 1 */
} InstrumentBuffer;
enum { INSTRUMENT_RESERVE = 64 * (int)sizeof(InstrumentRecord) }; /* bytes */

/* The tag of a record, and what the operation that makes it carries. */
#define INSTRUMENT_TAG(region, end) ((uint32_t)((region) + 1) << 1 | (uint32_t)(end))
#define INSTRUMENT_REPEATED (1u << 30) /* in a loop; not in the record */
static inline int instrument_tag_region(uint32_t tag) { return (int)(tag >> 1) - 1; }
static inline bool instrument_tag_ends(uint32_t tag) { return tag & 1; }

/* For devices whose warps are C. */
typedef struct InstrumentCursor {
  InstrumentWarp *at;
  uint32_t used, limit, lost;
} InstrumentCursor; /* at NULL: not recorded */
void instrument_open(InstrumentCursor *c, void *buffer, int64_t program, uint32_t sm, uint64_t clock, uint64_t timer);
/* the same where the place is known; c->limit is set */
void instrument_begin(InstrumentCursor *c, InstrumentWarp *at, uint32_t sm, uint64_t clock, uint64_t timer);
void instrument_mark(InstrumentCursor *c, uint32_t tag, uint64_t clock); /* tag with INSTRUMENT_REPEATED or without */
void instrument_close(InstrumentCursor *c, uint64_t clock, uint64_t timer);

#endif
