/* memory: what the interpreter's files know of allocations and of who touched what. Instrument src/interp only.
 *
 * A Region is one allocation. A launch works on a MemoryView, a copy of the registry's table taken when it starts, so
 * that other threads may add and remove regions meanwhile. A Shadow belongs to one launch and finds races between its
 * programs.
 */
#ifndef NEREID_INTERP_MEMORY_H
#define NEREID_INTERP_MEMORY_H

#include "interp/interp.h"

typedef struct Region {
  uintptr_t base;
  size_t size;
  char *name;        /* "" when it has none */
  uint64_t *written; /* a bit a byte; NULL: every byte counts as written */
  void *block;       /* what to free, or NULL when the memory is the caller's */
  int uses;          /* how often it was added */
} Region;

typedef struct RegionSpan {
  uintptr_t base, end;
  uintptr_t reach; /* the largest end of this and all earlier spans: regions may overlap */
  Region *region;
} RegionSpan;

typedef struct MemoryView {
  RegionSpan *spans; /* by base */
  int count;
  RegionSpan *last; /* where the last look-up ended */
} MemoryView;

bool memory_view_take(InterpMemory *m, MemoryView *out); /* false when out of memory */
void memory_view_drop(MemoryView *v);
/* The region that holds `addr`, or NULL; of several the one that reaches furthest. */
RegionSpan *memory_view_find(MemoryView *v, uintptr_t addr);
/* The region whose bytes lie nearest to addr, or NULL when there is none. */
RegionSpan *memory_view_nearest(const MemoryView *v, uintptr_t addr);

/* Whether all bytes [offset, offset + n) were written; if not, *first is the offset of the first that was not. */
bool region_is_written(const Region *r, size_t offset, size_t n, size_t *first);
void region_set_written(Region *r, size_t offset, size_t n);

/* ---- shadow.c ---------------------------------------------------------------------------------------------------- */

typedef enum { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_ATOMIC = 4 } Access;

typedef struct Shadow Shadow;
typedef struct Conflict {
  uintptr_t addr;
  int64_t other; /* linear id of the program that was there before */
  Access theirs;
  bool out_of_memory;
} Conflict;

Shadow *shadow_create(void); /* NULL when out of memory */
void shadow_destroy(Shadow *s);
/* A program begins, and is the running one until another begins or is entered. False when out of memory. */
bool shadow_begin_program(Shadow *s, int64_t program);
/* The running program gives way to others, and goes on where it was left. */
typedef struct ShadowProgram {
  uint32_t run, segment;
} ShadowProgram;
ShadowProgram shadow_leave(const Shadow *s);
void shadow_enter(Shadow *s, ShadowProgram p);
/* Notes an access by the running program; false when it conflicts with another program's. */
bool shadow_access(Shadow *s, uintptr_t addr, size_t n, Access kind, Conflict *out);
/* A scalar atomic on addr: acquire orders everything that other programs did before their release on addr before what
 * this program does from now on. One that leaves memory as it was releases nothing: nobody can tell that it was there.
 * False when out of memory. */
bool shadow_sync(Shadow *s, uintptr_t addr, bool acquire, bool release);
/* The same for all addresses of which the running program has seen a release by atomics that do not acquire. */
bool shadow_acquire(Shadow *s);

#endif
