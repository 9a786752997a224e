/* interp: runs tile IR as it stands, one program at a time (in turn where they wait for each other), and checks
 * everything it can. It is what a kernel means; every other back end is tested against it.
 *
 * Memory is known by allocation: a pointer is a real address, and each access is looked up. An access outside every
 * allocation (or across the end of the one its base came from), a read of bytes that nobody wrote, two programs of one
 * launch that write one address without atomics (or one writes what another reads), a failed device_assert: each is an
 * InterpFault with the kernel's source line, the program id and the element's index.
 */
#ifndef NEREID_INTERP_H
#define NEREID_INTERP_H

#include "tile/tile.h"

/* ---- memory.c: the allocations a launch may touch; one per device, any thread may call --------------------------- */

typedef struct InterpMemory InterpMemory;
InterpMemory *interp_memory_create(void);
void interp_memory_destroy(InterpMemory *m); /* frees what it allocated */
/* The bytes are zero but count as unwritten; aligned to 256. NULL when out of memory. Messages call memory by `name`
 * (copied); by the kernel's argument that points to it when NULL. */
void *interp_memory_alloc(InterpMemory *m, size_t bytes, const char *name);
/* Memory of the caller (name is copied); counts as wholly written. */
bool interp_memory_add(InterpMemory *m, void *p, size_t bytes, const char *name);
void interp_memory_remove(InterpMemory *m, void *p); /* frees it when interp_memory_alloc made it */
void interp_memory_mark_written(InterpMemory *m, const void *p, size_t bytes); /* after a copy from the host */

/* ---- interp.c ---------------------------------------------------------------------------------------------------- */

typedef struct InterpFault {
  char message[512];
  Span span; /* of the operation */
  int32_t program[3];
  int32_t index[MAX_RANK]; /* of the element; rank 0 for scalars */
  int rank;
  bool set;
  bool over_limit; /* of the options */
  bool out_of_memory;
  bool names_program, names_element; /* the message does */
} InterpFault;

typedef struct InterpFrame InterpFrame;

typedef struct InterpOptions {
  const int64_t *programs; /* linear ids (x fastest) to run, in this order; NULL: all, in order */
  int64_t program_count;   /* length of programs */
  bool shuffle;            /* run all programs in a random order drawn from seed */
  uint64_t seed;
  bool check_races;                           /* report conflicting accesses of different programs */
  bool allow_unwritten;                       /* reads of bytes nobody wrote give what is there */
  void (*print)(void *arg, const char *line); /* device_print; NULL: stderr */
  void *print_arg;
  /* Called before each operation with a source line other than the last one's; the debugger's hook. Values computed so
   * far are read with interp_value. Return false to stop the launch. */
  bool (*step)(void *arg, InterpFrame *frame, const Op *next);
  void *step_arg;
  int64_t memory;     /* the most bytes of a program's values; 0: any */
  int64_t operations; /* the most work of the launch, in elements and 64 an operation; 0: any */
  void *instrument;   /* an InstrumentBuffer (tile/passes/instrument.h), of a Func that records; the clock counts
                         operations */
} InterpOptions;

/* The current value of v in the running program: v->type's elements, row-major, or NULL when not computed yet. */
const void *interp_value(const InterpFrame *frame, const Value *v);
void interp_program(const InterpFrame *frame, int32_t out[3]);

/* Runs the programs of a grid. args: one 8-byte slot per Func argument (pointers; ints extended by their sign; floats
 * as the bits of their type in the low bytes). Returns true when all ran; else `fault` says why. Uses no global state;
 * the Func is not changed. Does not diag_fail(): out of memory is a fault too. */
bool interp_run(const Func *f, InterpMemory *m, const uint64_t *args, const int32_t grid[3],
                const InterpOptions *options, InterpFault *fault);

#endif
