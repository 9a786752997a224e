/* cpu_code: the compiled code of the cpu device, as a kernel's C text defines it (src/cpu/support/nereid_cpu.h).
 *
 *     int nereid_kernel(const uint64_t *args, const int32_t grid[3], int64_t begin, int64_t end,
 *                       void *scratch, const NereidHost *host);
 *     const uint64_t nereid_scratch_bytes;   // what each thread must provide, aligned to 64
 *     int nereid_apart(const uint64_t *args, const int32_t grid[3], const NereidHost *host);   // where there is one
 *     const uint64_t nereid_shares;          // 1: a program may find packed what the one before it packed
 *
 * runs the programs with linear ids [begin, end) (x fastest). Returns 0, or 1 after a failed device_assert, which
 * host->fault has been told of. It is reentrant: one call a thread, or a coroutine where programs wait for each other.
 */
#ifndef NEREID_CPU_CODE_H
#define NEREID_CPU_CODE_H

#include "base/base.h"

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

typedef struct CpuCode CpuCode; /* a loaded shared object */
/* cpu_load.c: the object's bytes -> code; NULL, and why in words. */
CpuCode *cpu_load(const char *image, size_t n, char why[256]);
NereidKernelFn cpu_code_entry(const CpuCode *code);
uint64_t cpu_code_scratch(const CpuCode *code);
NereidApartFn cpu_code_apart(const CpuCode *code); /* NULL: right for every launch */
bool cpu_code_shares(const CpuCode *code); /* programs that run one after the other on a thread share what is packed */
void cpu_code_release(CpuCode *code);

#endif
