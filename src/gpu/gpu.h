/* gpu: tile IR + layouts -> lane IR -> PTX -> cubin.
 *
 *     Func ─ layout_choose ─▶ Func with layouts ─ gpu_lower ─▶ LaneFunc ─ gpu_print_ptx ─▶ PTX text ─ ptxas_compile ─▶
 *       cubin
 *
 * The kernel's contract with whoever launches it:
 * - block: num_warps * 32 threads along x; grid: the programs, as they are. Dynamic shared memory:
 * LaneFunc.shared_bytes.
 * - parameters: one for each of the Func's, by its type (pointers .u64; i1 i8 u8 fp8 .u8; 16-bit .u16; 32-bit .u32;
 * 64-bit .u64), so that a launch may point each parameter at the first byte of its 8-byte slot; then the hidden ones,
 * .u64 each, in this order: uses_diag: address of a GpuDiag in memory that both sides reach; uses_list: address of a
 * GpuProgramList: only the listed programs run, one a block, the grid is (count, 1, 1); inside: address of an
 * InstrumentBuffer (tile/passes/instrument.h). Last come tensor maps (LaneFunc.maps of them): 128 bytes each, aligned
 * to 64, of what gpu_plan_maps computes of the arguments; where it refuses, another kernel must be launched.
 */
#ifndef NEREID_GPU_H
#define NEREID_GPU_H

#include "gpu/lane/lane.h"
#include "rt/gpu_memory.h"

/* ---- target.c: one table ----------------------------------------------------------------------------------------- */

/* A multiprocessor of a target, and the machine that most have. Rates: multiply-adds a cycle. */
typedef struct GpuMachine {
  int max_warps, max_blocks; /* resident */
  int shared_bytes;          /* of all blocks, with what is reserved */
  int fp32, fp16, fp64, tensor;
  const char *name; /* "H200" */
  int multiprocessors, clock_mhz, memory_gbs, l2_mib;
} GpuMachine;
/* The same on all: registers of a multiprocessor, of the most that a thread has, how they are handed out to a warp, and
 * by how many partitions; of shared memory, how it is handed out, and what the driver takes of each block's; the warp
 * schedulers; results a cycle of the special functions (exp2, rsqrt, ...); bytes a cycle from L1 or shared memory, and
 * about as many from L2. */
enum {
  GPU_REGISTERS = 65536,
  GPU_MOST_REGISTERS = 255,
  GPU_REGISTER_UNIT = 256,
  GPU_PARTITIONS = 4,
  GPU_SHARED_UNIT = 128,
  GPU_SHARED_RESERVED = 1024,
  GPU_SCHEDULERS = 4,
  GPU_SPECIAL_RATE = 16,
  GPU_L1_BYTES = 128,
  GPU_L2_BYTES = 48,
  GPU_MOST_WARPS = 32
};

/* By what passes and lowering decide how much of a thread's registers, or of shared memory, something may take. Found
 * by measuring (bench/results/h200.md). */
typedef struct GpuBudgets {
  /* hoist_loads: bytes of registers for what is loaded before a reduction, and before products */
  int hoisted_bytes, hoisted_over_products;
  /* prefetch: registers for the next iteration's tiles; what a loop's work takes of them, without a product and with */
  int prefetched, beside_prefetched, beside_prefetched_dot;
  /* async_loads: slots of a ring; bytes of shared memory that the rings leave to others */
  int ring_slots, beside_rings;
  /* async_loads, dots_ahead: what a loop takes beside its products' sums; the most with the sums of a product ahead.
   * dots_together: what a loop takes beside those of the sums that it has at a time */
  int beside_sums, with_sums_ahead, beside_together;
  /* dots_behind: what a loop takes beside its products' sums and what one of them takes an iteration later */
  int beside_sums_behind;
  /* specialize: of loops that do more than multiply, from so many warps on, and from so many registers a thread for the
   * sums of their products (fewer leave room for a second block, which does as well), it is done where nobody asks */
  int specialized_warps, specialized_sums;
  /* the same: blocks of a cluster that share tiles; where nobody asks (num_ctas) it is done where their way from L2
   * takes so many sixteenths of the products' time (0: it is not done) */
  int cluster, clustered;
  /* the same, lower/control.c: registers of a thread that copies, and the most of one that computes */
  int copying, computing;
  /* the same, lower/convert_layout.c: bytes for a change of layout beside rings that are never free */
  int converted_parted;
  /* skip_masks: elements of a thread for which a mask is worth a branch */
  int skipped_mask;
  /* pipeline.c, in sixteenths of a thread's registers: products that need more are lowered again, register-limited;
   * where they still do, and where those of tensor cores do, cheap values are computed again */
  int lowered_again, recomputed, recomputed_tensor;
  /* lower/dot.c: registers that a product takes beside its sums, and the most with operands that wait there; shared
   * memory for operands of one product, in eighths of the target's: where two blocks fit, where one does */
  int beside_dot, dot_operands, shared_of_two, shared_of_one;
  /* the same: operands that stay for a loop, or for later products, have the target's shared memory over this */
  int staged_share;
  /* lower/wgmma.c: registers that a loop takes beside sums and words of a; those that an instruction's sums leave, lest
   * ptxas refuse it */
  int beside_words, beside_instruction;
  /* lower/convert_layout.c, gather.c, sort.c: what moves between threads at a time has the target's shared memory over
   * this */
  int moved_share;
  /* lower/reduce.c: registers that a reduction across warps reads at once */
  int reduced;
  /* lane/place_shared.c: bytes of shared memory that a thread may take before they limit how many blocks are resident:
   * 2048 threads share at least 128 KiB */
  int free_shared;
  /* ptx/ptxas.c: registers that a thread may be asked to do without for another block, in sixteenths */
  int given_up;
  /* ptx/ptx.c, ptxas.c: of products that load into registers, warps of a multiprocessor for which these are shared out
   */
  int resident_warps;
  /* ptx/ptx.c: sums of a product from which on it is assembled as one; smaller ones are assembled soon enough, and take
   * fewer registers */
  int many_sums;
  /* ptx/control.c: loads of an iteration, from which on a loop that only loads is a stream; registers that it takes
   * beside what it loads and carries */
  int streamed, beside_streamed;
  int streamed_tile; /* words of an iteration's loads, from which on they get registers where the loop stores nothing */
} GpuBudgets;

typedef struct GpuTarget {
  const char *name;        /* "sm_90a" */
  int sm;                  /* 90 */
  const char *ptx_version; /* lowest .version that has all we use */
  int max_vector_bytes;    /* of one global access: 16 or 32 */
  int shared_bytes;        /* most that a block may have */
  bool has_bf16_arith;     /* add.bf16x2 and the like (sm_90) */
  bool has_vector_atomics; /* red.v2/v4.f32, .v4.f16x2 (sm_90) */
  bool has_fp8;            /* cvt to and from e4m3x2, e5m2x2 (sm_89) */
  bool has_bf16_atomics;   /* sm_90 */
  bool has_redux_f32;      /* sm_100a */
  bool has_measured_hints; /* plain loads ask the caches for what was measured to help on this GPU (lower/memory.c) */
  GpuMachine machine;
  const GpuBudgets *budgets;
} GpuTarget;
extern const GpuTarget gpu_targets[];               /* ends with name NULL */
const GpuTarget *gpu_target_find(const char *name); /* NULL when there is none */
/* What a thread may have when one block runs on a multiprocessor. */
int gpu_thread_registers(int num_warps);
/* the best for a device of compute capability sm/10; NULL: too old */
const GpuTarget *gpu_target_for(int sm);

/* ---- occupancy.c ------------------------------------------------------------------------------------------------- */

typedef struct GpuOccupancy {
  int by_registers, by_shared, by_warps, by_blocks, blocks; /* of a multiprocessor */
  const char *limit;
  int registers, shared_bytes; /* a block's, as handed out */
} GpuOccupancy;
/* registers: of a thread; 0: not known. */
GpuOccupancy gpu_occupancy(const GpuTarget *t, int registers, int shared_bytes, int num_warps);

/* ---- pipeline.c: the passes in order ----------------------------------------------------------------------------- */

typedef struct GpuOptions {
  const GpuTarget *target;
  bool list;              /* uses_list */
  const char *dump_after; /* a pass's name, or "all"; the text goes to dump */
  Buf *dump;
  bool verify;
  bool register_limited; /* as where registers are short, for tests */
  bool plain_dot;        /* products by multiply-adds alone, for tests */
  bool no_wgmma;         /* products by single warps, for tests */
  bool specialize;       /* warps of their own copy tiles, where that can be, also where nobody asks for it */
  bool persist;          /* blocks run several programs, where they can */
  bool tensor_maps;      /* a launch computes LaneFunc.plan, and passes its maps */
  bool apart;            /* and whether arrays lie apart */
  int64_t without;       /* bits of what is left out: gpu_without() */
} GpuOptions;
/* options.c: of names with commas between; -1, and *wrong the first one that is none, else. */
int64_t gpu_without(const char *names, const char **wrong);
extern const char *const gpu_without_names; /* all, with commas between */
bool gpu_leaves_out(const GpuOptions *o, const char *name);
bool gpu_has_wgmma(const GpuOptions *o);
bool gpu_has_tcgen05(const GpuOptions *o); /* products that add to tensor memory */
bool gpu_has_tensor_cores(const GpuOptions *o);
/* tf32.c: the longest chain of products of f32 that are taken in 10 bits of a fraction; 0: there is none. */
int gpu_tf32_chain(const Func *f, const GpuOptions *o);
/* Passes on tile IR; those that lower, which may run twice (pipeline.c); passes on lane IR. */
typedef enum { GPU_TILE, GPU_LOWERING, GPU_LANE } GpuStage;
typedef struct GpuRun GpuRun;
typedef struct GpuPass {
  const char *name;
  GpuStage stage;
  void (*tile)(Func *f, const GpuOptions *o); /* one of these; neither: lowering itself */
  void (*lane)(LaneFunc *f, const GpuOptions *o);
  PassContract contract;   /* of Func.holds, of LaneFunc.holds; lowering needs the former and gives the latter */
  bool (*when)(GpuRun *r); /* NULL: always */
} GpuPass;
extern const GpuPass gpu_passes[]; /* by stages; ends with name NULL */
/* f is optimised and has axis info; it is changed. Fails with a diagnostic (more shared memory than the target has:
 * with what uses it). */
void gpu_lay_out(Func *f, const GpuOptions *o); /* the passes on tile IR alone */
LaneFunc *gpu_compile(Func *f, const GpuOptions *o);

/* gpu/verify_rings.c: that tiles in rings are waited for before they are read, and read before others take their
 * place; fails with a diagnostic that names the op and the pass. */
void gpu_verify_rings(Func *f, const char *after);

/* gpu/specialize.c: warps of their own copy tiles; whether they will, and why not */
void gpu_specialize(Func *f, const GpuOptions *o);
bool gpu_specializes(Func *f, const GpuOptions *o, bool persistent, const char **why);
/* gpu/iterations_apart.c: what a launch shows of loops that store, so that they need no barriers */
void gpu_iterations_apart(Func *f, const GpuOptions *o);
/* gpu/heavy_first.c: programs with more to do begin first */
void gpu_heavy_first(Func *f, const GpuOptions *o);
/* gpu/persist.c: a block runs several programs. Why that cannot be; NULL: it can. */
void gpu_persist(Func *f, const GpuOptions *o);
const char *gpu_cannot_persist(const Func *f, const GpuOptions *o);
/* Puts how many programs there are into a persistent kernel's hidden parameters; args: a slot a parameter. */
void gpu_put_grid(const LaneFunc *f, const int32_t grid[3], uint64_t *args);

void gpu_hoist_loads(Func *f,
                     const GpuOptions *o); /* gpu/hoist_loads.c: loads go before reductions that they do not need */
void gpu_late_copies(Func *f, const GpuOptions *o); /* gpu/late_copies.c: what is copied ahead, while products run */
void gpu_late_stores(Func *f, const GpuOptions *o); /* gpu/late_stores.c: of tiles that products take, behind these */
void gpu_sink_masks(Func *f,
                    const GpuOptions *o); /* gpu/sink_masks.c: masks come after products that they need not pass */
/* gpu/prefetch.c: loads of the next iteration of a loop, issued before this iteration's work */
void gpu_prefetch(Func *f, const GpuOptions *o);
void gpu_loads_ahead(Func *f, const GpuOptions *o);
/* gpu/async_loads.c: loads that products take go to shared memory, several iterations ahead */
void gpu_async_loads(Func *f, const GpuOptions *o);
/* gpu/narrow_dots.c: products of f32 that was narrow are products of what it was */
void gpu_narrow_dots(Func *f, const GpuOptions *o);

/* gpu/split_dots.c: products of f32 in three of tf32 are three products */
void gpu_split_dots(Func *f, const GpuOptions *o);
/* gpu/turn_dots.c: products of f32 the other way round, where warpgroups cannot take their second operand */
void gpu_turn_dots(Func *f, const GpuOptions *o);
/* gpu/tmem.c, lower/tmem.c: barriers that commits arrive at, one after the other */
enum { TMEM_BARS = 3 };
/* gpu/tensor_stores.c: a tile that is stored at a program's end goes by a tensor map */
void gpu_tensor_stores(Func *f, const GpuOptions *o);
/* gpu/late_sums.c: sums that loops carry are added up across lanes after them */
void gpu_late_sums(Func *f, const GpuOptions *o);
/* gpu/lane_sums.c: likewise sums and maxima of whole tiles: each thread carries its own */
void gpu_lane_sums(Func *f, const GpuOptions *o);
/* gpu/late_scales.c: what multiplies a tile multiplies its maximum instead */
void gpu_late_scales(Func *f, const GpuOptions *o);
/* gpu/skip_masks.c: selects in loops are passed by where scalars tell that their mask holds */
void gpu_skip_masks(Func *f, const GpuOptions *o);
/* gpu/dots_behind.c: of those tiles, a dot is computed while the iteration after goes on */
void gpu_dots_behind(Func *f, const GpuOptions *o);
/* gpu/dots_together.c: dots that do not wait for each other are issued together */
void gpu_dots_together(Func *f, const GpuOptions *o);
void gpu_dots_in_flight(Func *f, const GpuOptions *o);
/* gpu/dots_ahead.c: of those tiles, a dot is computed while the iteration before goes on */
void gpu_dots_ahead(Func *f, const GpuOptions *o);
/* lower/lower.c; register_limited: as where registers are short */
LaneFunc *gpu_lower(Func *f, const GpuOptions *o, bool register_limited);
/* lower/scope.c: barriers as regions, where automatic ones are wanted; last */
void gpu_record_barriers(LaneFunc *f, const GpuOptions *o);
/* lane/place_shared.c: offsets by liveness, and the barriers that reuse of memory needs */
void gpu_allocate_shared(LaneFunc *f, const GpuOptions *o);

/* ---- ptx.c ------------------------------------------------------------------------------------------------------- */

/* What the printer knows of a text, for whoever assembles it. */
typedef struct GpuPtx {
  int threads; /* of a block */
  size_t
      bounds_end; /* after the directives that bound a launch: where another one fits, in the place of `bound` bytes */
  size_t bound;
  bool has_lines;  /* `.loc` */
  int pressure;    /* registers that a thread needs at once, about (lane_pressure) */
  int room;        /* of products on tensor cores: blocks that a multiprocessor has room for, registers aside */
  bool is_product; /* multiplies tiles that its warps share, by multiply-adds, and does little else; no small one */
} GpuPtx;

/* `.loc` lines for every source file that spans name, when lines. */
GpuPtx gpu_print_ptx(Buf *out, const LaneFunc *f, const GpuTarget *t, bool lines);
/* What the kernel is called in PTX and cubin: its name, with _ for what is not a letter or digit of ASCII. */
const char *gpu_entry_name(Context *cx, const LaneFunc *f);

/* ---- ptxas.c: PTX -> cubin through the system's ptxas ------------------------------------------------------------ */

typedef struct GpuCubin {
  void *bytes;
  size_t size;
  bool from_cache;
  double ptxas_ms;
  int registers, spill_bytes, stack_bytes;
  char *log;
} GpuCubin;
/* By $NEREID_PTXAS, else ptxas in PATH, else /usr/local/cuda/bin/ptxas, through the disk cache; false: there is no
 * ptxas, or NEREID_PTXAS is "none", and the cache has nothing. diag_fail()s with ptxas's words. *out's memory is
 * malloc'ed: gpu_cubin_free. */
bool gpu_ptxas(Context *cx, const Buf *text, const GpuPtx *ptx, const GpuTarget *t, GpuCubin *out);
void gpu_cubin_free(GpuCubin *c);
/* The machine code's text (cuobjdump or nvdisasm, where found), with source lines beside when the cubin has them; fails
 * with what is missing. */
void gpu_sass(Context *cx, const GpuCubin *c, Buf *out);

/* ---- summary.c: what a person wants to know first ---------------------------------------------------------------- */

/* Registers and spills (from cubin, may be NULL), shared bytes by buffer, barriers, and for each global load, store and
 * atomic of the source: line, how many, bytes an access, cache hints. Text. */
void gpu_summary(Buf *out, const LaneFunc *f, const GpuTarget *t, const GpuCubin *cubin);

/* Bytes that asynchronous copies of a block bring at once, at most. */
int gpu_bytes_in_flight(const LaneFunc *f);

#endif
