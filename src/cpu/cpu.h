/* cpu: tile IR -> loop nests -> C text -> shared object.
 *
 * cpu_emit_c turns an optimised Func into one C file that any gcc or clang compiles. Chains of elementwise work, loads,
 * stores and the reductions that end them become one loop nest over vector registers; tiles that must be kept (operands
 * of dot, values that two nests need) stand in small arrays in a scratch area that the caller hands in.
 *
 * The C text's contract with the runtime (repeated in the emitted text, support/nereid_cpu.h):
 *
 *     int nereid_kernel(const uint64_t *args, const int32_t grid[3], int64_t begin, int64_t end,
 *                       void *scratch, const NereidHost *host);
 *     const uint64_t nereid_scratch_bytes;   // what each thread must provide, aligned to 64
 *     int nereid_apart(const uint64_t *args, const int32_t grid[3], const NereidHost *host);   // where there is one
 *     const uint64_t nereid_shares;          // 1: a program may find packed what the one before it packed
 *
 * runs the programs with linear ids [begin, end) (x fastest). args as for interp_run. Returns 0, or 1 after a failed
 * device_assert, which host->fault has been told of. It is reentrant: one call a thread, or a coroutine where programs
 * wait for each other.
 *
 * Two arguments of one launch may be one array, or overlap. A kernel has two texts: one for arguments whose arrays do
 * not overlap, which need not look at the order in which two arrays are read and written, and one for any arguments.
 * The first says in nereid_apart() whether it is right for a launch; where it has none, it is right for all (memory.h,
 * spans.c).
 */
#ifndef NEREID_CPU_H
#define NEREID_CPU_H

#include "tile/tile.h"

/* What a running kernel may ask of its host. */
typedef struct NereidHost {
  /* device_print, one line without newline */
  void (*print)(void *arg, const char *line);
  void (*fault)(void *arg, const char *message, const int32_t program[3], int line); /* device_assert failed */
  void *arg;
  int64_t stream_bytes; /* total bytes of the launch's arrays: stored past the caches ... */
  int64_t cache_bytes;  /* ... when they are more than that: what the last cache holds */
  /* Of an instrumented kernel (tile/passes/instrument.h): tag 0 makes cursor, an InstrumentCursor, begin a program;
   * UINT32_MAX ends it; else a record. */
  void (*record)(void *cursor, void *inside, const int32_t program[3], const int32_t grid[3], uint32_t tag);
  void *instrument;
  /* The first and last byte of the array that the pointer points into; false: not known. For nereid_apart. */
  int (*array)(void *arg, uint64_t pointer, int64_t range[2]);
  /* Called in a loop that has found what it waits for not to be there yet (tile/passes/waits.c), before it looks again;
   * got_ahead: for the first time, or it has done something since. Other programs run meanwhile. Non-zero: the program
   * is to return 1. */
  int (*wait)(void *arg, const int32_t program[3], int line, int got_ahead);
} NereidHost;
typedef int (*NereidKernelFn)(const uint64_t *args, const int32_t grid[3], int64_t begin, int64_t end, void *scratch,
                              const NereidHost *host);

typedef int (*NereidApartFn)(const uint64_t *args, const int32_t grid[3], const NereidHost *host);

/* Appends the C text for arguments that do not overlap, or, with may_overlap, for any; returns whether the two differ.
 * Fails with a diagnostic for what a CPU cannot run (inline PTX). The text is self-contained: it begins with the
 * support headers it uses. f is optimised (tile_optimize) and may be changed; both texts may be made of it, one after
 * the other. */
bool cpu_emit_c(Func *f, bool may_overlap, Buf *out);
/* The same in two parts: the headers, by a number that says which, and what is the kernel's own. */
void cpu_emit_support(unsigned support, Buf *out);
bool cpu_emit_body(Func *f, bool may_overlap, unsigned *support, Buf *out);

/* ---- cc.c: C text -> loaded code --------------------------------------------------------------------------------- */

typedef struct CpuCode CpuCode;                              /* a loaded shared object */
typedef enum { CC_FINDING, CC_BUILDING, CC_STORING } CcStep; /* the compiler; the object; a place for it */
/* step: how far it got, also when it failed. */
typedef struct CpuCompileInfo {
  bool from_cache;
  double cc_ms;
  CcStep step;
} CpuCompileInfo;
/* Takes the object from the cache, or compiles with $NEREID_CC, else `cc`, `gcc` or `clang` in PATH, without a shell,
 * and keeps it there. diag_fail()s with the compiler's output, or a hint to install one. */
CpuCode *cpu_compile(Context *cx, const char *c_text, size_t n, CpuCompileInfo *info);
/* What the compiler says to --version; false: there is none, or it does not say. */
bool cpu_compiler_version(Context *cx, Buf *out);
/* load.c: the object's bytes -> code; NULL, and why in words. */
CpuCode *cpu_load(const char *image, size_t n, char why[256]);
NereidKernelFn cpu_code_entry(const CpuCode *code);
uint64_t cpu_code_scratch(const CpuCode *code);
NereidApartFn cpu_code_apart(const CpuCode *code); /* NULL: right for every launch */
bool cpu_code_shares(const CpuCode *code); /* programs that run one after the other on a thread share what is packed */
void cpu_code_release(CpuCode *code);

#endif
