/* gpu_memory: what a GPU's kernel and the host share beside the arguments: what device_print and device_assert leave,
 * and lists of the programs to run. */
#ifndef NEREID_GPU_MEMORY_H
#define NEREID_GPU_MEMORY_H

#include <stdint.h>

typedef struct GpuDiag {
  uint32_t used;     /* words of `words` taken, by atomic addition; may exceed capacity: what did not fit was lost */
  uint32_t capacity; /* in words */
  uint32_t failed;   /* asserts that failed */
  uint32_t traps;    /* not 0: what has failed ends the kernel by a trap, so that the driver knows of it */
  uint32_t words[];  /* records: site + 1, program x, y, z, flat element index, then two words a value (low first) */
} GpuDiag;
enum { GPU_RECORD_WORDS = 5 };
typedef struct GpuProgramList {
  int32_t grid[3];
  int32_t reserved;
  int64_t programs[];
} GpuProgramList;

#endif
