/* counts: what a launch asks of a GPU's multiprocessors, counted by walking its programs. Private to gpu/report
 * and measure/report*.c.
 *
 * The lane IR is what the machine does but for register allocation and scheduling, so its loads and stores are ptxas's,
 * and their addresses are computed by the simulator (LaneTraceHook). Of everything else only what decides on addresses,
 * masks and control is computed. Data are zeros but for arrays whose contents are given.
 */
#ifndef NEREID_GPU_REPORT_COUNTS_H
#define NEREID_GPU_REPORT_COUNTS_H

#include "gpu/gpu.h"

/* ---- report/transactions.c: one access by one warp --------------------------------------------------------------- */

/* Pieces of 32 bytes of global memory. `at`: the addresses of the lanes whose bits are set, each a multiple of bytes.
 */
int gpu_request_sectors(const uint64_t at[32], uint32_t lanes, int bytes);
/* The least pieces that so many different bytes could lie in. */
int gpu_request_ideal(const uint64_t at[32], uint32_t lanes, int bytes);
/* Passes over the banks of shared memory; *ideal: without conflicts. */
int gpu_request_wavefronts(const uint64_t at[32], uint32_t lanes, int bytes, bool load, int *ideal);

/* ---- report/slice.c: what decides on what ------------------------------------------------------------------------ */

typedef struct GpuSlice {
  bool *values, *buffers; /* needed for addresses, masks and control (LaneTraceHook) */
  bool *data;             /* values by id: that come from memory whose contents are not known */
  /* loads, stores, atomics, ifs and loops (by address) whose addresses, masks or iterations data decide on */
  Map *unknown;
} GpuSlice;
/* contents: of each parameter's array, which nobody changes */
GpuSlice *gpu_slice(const LaneFunc *f, const HostArray *contents);
/* The parameter that a pointer is counted from; -1: none is seen. */
int gpu_base_param(const LaneValue *pointer);

/* ---- counts.c ---------------------------------------------------------------------------------------------------- */

/* What warps issue, in classes. */
#define GPU_CLASSES(X) \
  X(FP32, "fp32 add, multiply, fma") \
  X(FP16, "fp16 and bf16") \
  X(FP64, "fp64") \
  X(SPECIAL, "special functions") \
  X(TENSOR, "tensor core") \
  X(INTEGER, "integers and addresses") \
  X(CONVERT, "conversions") \
  X(SELECT, "compares, selects, moves") \
  X(LOAD_GLOBAL, "global loads") \
  X(STORE_GLOBAL, "global stores") \
  X(COPY, "asynchronous copies") \
  X(LOAD_SHARED, "shared loads") \
  X(STORE_SHARED, "shared stores") \
  X(ATOMIC, "atomics") \
  X(SHUFFLE, "shuffles, votes") X(BARRIER, "barriers, waits") X(CONTROL, "control") X(ASM, "inline assembly")
typedef enum {
#define X(id, name) GC_##id,
  GPU_CLASSES(X)
#undef X
      GC_COUNT
} GpuClass;
extern const char *const gpu_class_names[GC_COUNT];

typedef struct GpuAccess { /* accesses of one source line that are alike */
  const Span *span;
  const LaneOp *op; /* the first of them */
  int count, bytes;
  bool shared, masked, in_loop, known; /* shared: of a copy, its half that writes */
  int64_t requests, lanes, sectors, ideal_sectors, wavefronts, ideal_wavefronts;
} GpuAccess;

typedef struct GpuReport {
  GpuAccess *accesses; /* global ones first, by line */
  int access_count;
  int64_t classes[GC_COUNT], instructions; /* of warps */
  int64_t threads;                         /* threads that took part, summed over instructions */
  int64_t splits;
  int64_t memory_loads, memory_stores; /* bytes that memory gives and takes at least */
  int64_t walked;                      /* programs */
  bool sampled;                        /* programs count for others of which it is not certain that they are alike */
  bool cut;                            /* a program did not come to its end within the budget */
  bool data;                           /* data decide on something that was counted */
  /* of a program, on the average and at most: at least, by the latency of what waits for each other */
  double block_cycles, longest_cycles;
} GpuReport;
/* args as for lane_sim_run; pointers are only added to. contents: of each parameter's array, where it is known and the
 * launch does not change it; may be NULL. */
GpuReport *gpu_report(LaneFunc *f, const uint64_t *args, const HostArray *contents, const int32_t grid[3]);
/* ---- report/class.c, report/path.c ------------------------------------------------------------------------------- */

/* ptxas makes about so many instructions of it. */
int gpu_op_instructions(const LaneOp *op);
GpuClass gpu_op_class(const LaneOp *op);
/* What a product of a warpgroup reads of shared memory: 16 k's of its columns, and of 64 rows unless registers hold
 * them. */
int gpu_product_bytes(const LaneOp *op);
enum { GPU_FRAME = 7 }; /* instructions that a warp begins and ends with beside those of the lane IR */
typedef double (*GpuEntered)(void *arg, const LaneBlock *b); /* by how many warps in all */
double gpu_block_cycles(const LaneFunc *f, GpuEntered entered, void *arg);

#endif
