/* lane IR: what one thread does. Structured SSA over registers of 1, 16, 32 or 64 bits.
 *
 * The tile IR says what a program computes; with layouts chosen, each thread holds a few elements of each tensor, and
 * the lane IR is that thread's work, with shared memory and barriers explicit. PTX is a print of it (ptx.c); sim.c runs
 * it on a CPU.
 *
 *     kernel @add(%p0: b64, %p1: b64, %p2: b32) warps=4 {
 *       %0 = special {tid.x} : b32
 *       %1 = special {ctaid.x} : b32
 *       %2 = const.b32 {1024} : b32
 *       %3 = fma.s32 %1, %2, %0 : b32
 *       %4 = setp.s32 %3, %p2 {lt} : pred
 *       %5 = mulwide.s32 %3, %c4 : b64
 *       %6 = add.s64 %p0, %5 : b64
 *       %7 = ld.b32 @%4 %6, %zero {global +0} : b32
 *       ...
 *     }
 *
 * Registers are untyped bits; what an instruction takes them for is its kind. Elements lie in them so (lane_type_of):
 *
 *     i1 pred | i8 u8 i16 u16 fp8: b32, extended by the sign of the type (fp8: zeros) | f16 bf16 b16 | i32 u32 f32 b32
 *     | 64 bits, pointers b64
 *
 * The builder (lane/build.c) folds as it goes (lane/fold.c): constants; x + 0; address arithmetic, so that the constant
 * part of an offset comes last: (x + 1) * 4 + y becomes (x * 4 + y) + 4, and memory operations take such a constant
 * into `imm`; pack of an unpack. And it finds a pure operation that is already there, in this block or one around it,
 * instead of making it twice. So lowering may say plainly what each register holds; what the registers of a thread have
 * in common is computed once.
 *
 * Within one width moving a constant outwards is exact, since integers wrap. From 32 to 64 bits it is not: mulwide.s32
 * of a sum is index arithmetic, whose sum is taken not to overflow 32 bits, so mulwide(x + 1, 4) becomes mulwide(x, 4)
 * + 4. cvt s32 -> s64 makes no such assumption (a user's .to(int64) of a sum that wraps must wrap): extend an index by
 * mulwide, with a factor of 1 if need be.
 *
 * Everything lies in the Context's arena.
 */
#ifndef NEREID_LANE_H
#define NEREID_LANE_H

#include "tile/tile.h"

typedef enum { LT_PRED, LT_B16, LT_B32, LT_B64 } LaneType;

/* One row a kind: enumerator, name (as in PTX where PTX has it), register type, bits in memory. */
#define LANE_KINDS(X) \
  X(NONE, "none", LT_B32, 0) \
  X(PRED, "pred", LT_PRED, 8) \
  X(B16, "b16", LT_B16, 16) \
  X(B32, "b32", LT_B32, 32) \
  X(B64, "b64", LT_B64, 64) \
  X(S8, "s8", LT_B32, 8) \
  X(U8, "u8", LT_B32, 8) \
  X(S16, "s16", LT_B32, 16) \
  X(U16, "u16", LT_B32, 16) \
  X(S32, "s32", LT_B32, 32) \
  X(U32, "u32", LT_B32, 32) \
  X(S64, "s64", LT_B64, 64) \
  X(U64, "u64", LT_B64, 64) \
  X(F16, "f16", LT_B16, 16) \
  X(BF16, "bf16", LT_B16, 16) \
  X(F32, "f32", LT_B32, 32) \
  X(F64, "f64", LT_B64, 64) \
  X(F16X2, "f16x2", LT_B32, 32) \
  X(BF16X2, "bf16x2", LT_B32, 32) X(E4M3X2, "e4m3x2", LT_B16, 16) X(E5M2X2, "e5m2x2", LT_B16, 16)
typedef enum {
#define X(id, name, type, bits) LK_##id,
  LANE_KINDS(X)
#undef X
      LK_COUNT
} LaneKind;
typedef struct LaneKindInfo {
  const char *name;
  LaneType type;
  int bits;
} LaneKindInfo;
extern const LaneKindInfo lane_kind_info[LK_COUNT];
LaneKind lane_kind_of(const Type *t); /* of an element: numbers by dtype (fp8: u8, i1: pred), pointers u64 */
LaneType lane_type_of(const Type *t);
LaneKind lane_bits_kind(LaneType t); /* pred b16 b32 b64 */

typedef enum {
#define LANE(id, name, in, out, regions, effects, attrs) LANE_##id,
#include "gpu/lane/lane.def"
#undef LANE
  LANE_COUNT
} LaneCode;
typedef enum { LE_PURE, LE_READ, LE_WRITE, LE_SIDE, LE_CONVERGED, LE_CONTROL, LE_TERMINATOR } LaneEffect;
typedef struct LaneInfo {
  const char *name;
  int min_in, max_in, min_out, max_out, regions;
  LaneEffect effect;
  const char *attrs;
} LaneInfo;
extern const LaneInfo lane_info[LANE_COUNT];
static inline bool lane_only_reads(LaneCode c) { return c == LANE_LD || c == LANE_LDMATRIX; }
static inline bool lane_is_mbar(LaneCode c) { return c >= LANE_MBAR_INIT && c <= LANE_MBAR_WAIT; }
static inline bool lane_is_tensor(LaneCode c) { return c >= LANE_TENSOR_LOAD && c <= LANE_TENSOR_RED; }
static inline bool lane_is_tmem(LaneCode c) { return c >= LANE_TMEM_ALLOC && c <= LANE_TMEM_FENCE_AFTER; }
static inline bool lane_is_access(LaneCode c) {
  return lane_only_reads(c) || c == LANE_ST || c == LANE_STMATRIX || c == LANE_ATOM;
} /* to memory; it has `space`, `buffer` and `imm` */

/* DEFAULT: nearest even (cvt to ints: zero) */
typedef enum { ROUND_DEFAULT, ROUND_RN, ROUND_RZ, ROUND_RM, ROUND_RP, ROUND_RNA } LaneRounding;
typedef enum { SPACE_GLOBAL, SPACE_SHARED } LaneSpace;
/* Of a global access in the caches: PTX's priorities for both, or for one of them alone. The first three are tile's
 * EvictHint. */
typedef enum { PRIORITY_NONE, PRIORITY_FIRST, PRIORITY_LAST, PRIORITY_L2_LAST, PRIORITY_NO_L1 } LanePriority;
typedef enum { SHUFFLE_XOR, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_IDX } LaneShuffle;
typedef enum { VOTE_ANY, VOTE_ALL, VOTE_BALLOT } LaneVote;
enum { RMW_CAS = RMW_XCHG + 1 }; /* beside tile's RmwKind */
typedef enum {
  SP_TID_X,
  SP_LANE,
  SP_CTAID_X,
  SP_CTAID_Y,
  SP_CTAID_Z,
  SP_NCTAID_X,
  SP_NCTAID_Y,
  SP_NCTAID_Z,
  SP_CLOCK64,
  SP_GLOBALTIMER,
  SP_SMID,
  SP_CLUSTER_RANK,
  SP_CLUSTER_SIZE,
  SP_COUNT
} LaneSpecial;
extern const char *const lane_special_names[SP_COUNT]; /* "tid.x", as PTX writes them without % */

typedef struct LaneValue LaneValue;
typedef struct LaneOp LaneOp;
typedef struct LaneBlock LaneBlock;

struct LaneValue {
  LaneType type;
  int id;           /* [0, func->value_count) */
  LaneOp *def;      /* NULL for block arguments */
  LaneBlock *block; /* of a block argument */
  int index;        /* among its op's results, or its block's arguments */
  void *note;       /* scratch of the pass that is running */
};

struct LaneOp {
  LaneCode code;
  LaneKind kind, to; /* to: cvt's result */
  int64_t imm;
  LaneValue *guard; /* NULL: always */
  bool guard_not;
  uint8_t rounding, ftz, approx, exact, nan, sat, unordered, right, uniform, warp, is_pure, is_volatile, trans;
  uint8_t trans_a, trans_b, mixed, inc, read;
  uint8_t space, cache, evict, rmw, sem, scope, shuffle, vote, pred, special, bit, bits, unroll, waits, multicast,
      warps;
  uint16_t rows, columns;
  int16_t buffer; /* shared memory: which buffer of the func; -1 none */
  int statement;  /* the number of the tile operation that it is part of; 0: none */
  const char *text;
  int in_count, out_count;
  LaneValue **in, **out;
  LaneBlock *body[2];
  const Span *span;
  LaneOp *prev, *next;
  LaneBlock *block;
  void *note;
};

struct LaneBlock {
  LaneOp *first, *last;
  int arg_count;
  LaneValue **args;
  LaneOp *parent; /* NULL for the func's body */
};

/* offset: -1 until lane/place_shared.c has run. warp_local: each warp touches bytes of its own alone, and orders its
 * accesses by warp barriers. */
typedef struct LaneBuffer {
  const char *name;
  int bytes, align, offset;
  bool warp_local;
  /* slots of a ring, or 0: whoever writes it has waited for its readers: no barrier is put before its writes but the
   * first one's */
  int ring;
} LaneBuffer;

/* A device_print or device_assert: what the host needs to write its message. See gpu.h for the records. */
typedef struct LaneSite {
  bool is_assert;
  const char *text; /* print: the prefix; assert: the message */
  bool hex;
  const Span *span;
  int value_count; /* prints: of one record */
  /* the operands' (their shapes say what a flat index is); of an assert: of its condition, for the same reason */
  const Type **types;
} LaneSite;

typedef struct LaneFunc {
  Context *cx;
  const char *name;
  int param_count;            /* the last ones may be hidden, see gpu.h */
  LaneValue **params;         /* the body's arguments */
  const Type **param_types;   /* NULL for hidden ones */
  int64_t *param_divisible;   /* as Func.arg_divisible; hidden ones 1 */
  int hidden_params;          /* how many at the end are hidden */
  int maps;                   /* how many of these, the last ones, are tensor maps: the value is a map's address */
  struct GpuLaunchPlan *plan; /* what a launch computes for them (gpu/launch_plan.h); NULL: there are none */
  bool uses_diag, uses_list;
  int stages_missed, maps_missed;                     /* as Func's */
  const char *unspecialized, *unclustered, *unturned; /* as Func's */
  const char *not_in_tmem;                            /* as Func's */
  const char *apart;  /* which arrays a launch must show to lie apart: "x from y, ..."; NULL: none */
  const char *copied; /* which a launch may copy to rows that begin at 16 bytes: "x, ..."; NULL: none */
  bool persistent;    /* a block runs several programs; the hidden parameters are how many there are: x, y, z */
  int cluster;        /* a launch whose grid is a multiple of so many programs along x makes clusters of so many blocks
                       * (gpu_plan_cluster); 0, 1: never */
  /* it records its regions (tile/passes/instrument.h), and has the hidden parameter for that; NULL: not */
  struct Instrument *instrument;
  LaneBlock *body;
  int value_count;
  int num_warps;
  int num_ctas; /* blocks that were asked to share a program, whose work one block does; 0, 1: none */
  VEC(LaneBuffer) buffers;
  int shared_bytes;  /* after lane/place_shared.c */
  int max_registers; /* .maxnreg; 0: none */
  VEC(LaneSite) sites;
  unsigned holds; /* bits of what holds now (lane/contract.c) */
} LaneFunc;

/* ---- lane/build.c, lane/control.c: making operations ------------------------------------------------------------- */

typedef struct LaneBuilder {
  LaneFunc *f;
  LaneBlock *block; /* operations go to its end */
  const Span *span;
  int statement;           /* given to each new operation, as is the span */
  struct LaneScope *scope; /* what has been computed, for finding it again; private to lane/build.c */
  int part_warps, part;    /* where the block is parted: how many warps are here, and their barrier's number; else 0 */
} LaneBuilder;

LaneFunc *lane_func_create(Context *cx, const char *name);
LaneValue *lane_func_param(LaneFunc *f, LaneType type, const Type *of, int64_t divisible);
LaneBuilder lane_builder(LaneFunc *f); /* at the body's end */
/* a shared buffer; live from its first to its last use */
int lane_buffer(LaneBuilder *b, const char *name, int bytes, int align);

/* The general forms. lane_op makes an operation with its attributes from `proto` (code, kind, attributes), folds and
 * finds; the result of a pure operation may be any value that equals it. */
/* one result; its type from the code and kinds */
LaneValue *lane_op(LaneBuilder *b, LaneOp proto, int n, LaneValue *const *in);
/* no folding */
LaneOp *lane_op_raw(LaneBuilder *b, LaneOp proto, int n, LaneValue *const *in, int out_count, const LaneType *out);

LaneValue *lane_const(LaneBuilder *b, LaneType type, uint64_t bits);
LaneValue *lane_i32(LaneBuilder *b, int32_t v);
LaneValue *lane_i64(LaneBuilder *b, int64_t v);
LaneValue *lane_f32(LaneBuilder *b, float v);
LaneValue *lane_f64(LaneBuilder *b, double v);
LaneValue *lane_pred(LaneBuilder *b, bool v);
LaneValue *lane_special(LaneBuilder *b, LaneSpecial s);
LaneValue *lane_shared(LaneBuilder *b, int buffer);
LaneValue *lane_1(LaneBuilder *b, LaneCode c, LaneKind k, LaneValue *x);
LaneValue *lane_2(LaneBuilder *b, LaneCode c, LaneKind k, LaneValue *x, LaneValue *y);
LaneValue *lane_3(LaneBuilder *b, LaneCode c, LaneKind k, LaneValue *x, LaneValue *y, LaneValue *z);
LaneValue *lane_setp(LaneBuilder *b, CmpPred p, LaneKind k, LaneValue *x, LaneValue *y); /* ordered, but ne */
LaneValue *lane_select(LaneBuilder *b, LaneValue *p, LaneValue *x, LaneValue *y);
LaneValue *lane_cvt(LaneBuilder *b, LaneKind from, LaneKind to, LaneRounding r, LaneValue *x);
LaneValue *lane_pack(LaneBuilder *b, LaneValue *low, LaneValue *high);
void lane_unpack(LaneBuilder *b, LaneValue *x, LaneValue **low, LaneValue **high);
LaneValue *lane_bfe(LaneBuilder *b, LaneKind k, LaneValue *x, int bit, int bits);
/* k s8 u8 s16 u16: the canonical form of a b32's low bits; others: x */
LaneValue *lane_extend(LaneBuilder *b, LaneKind k, LaneValue *x);
/* any type: b64 as two, b16 and pred through b32 */
LaneValue *lane_shfl(LaneBuilder *b, LaneShuffle s, LaneValue *x, LaneValue *lane);
void lane_barrier(LaneBuilder *b, bool warp);
/* n squares of a warp (1, 2 or 4) from shared memory, and to it; and acc[4] += a[4] * x[2]. As lane.def says. */
void lane_ldmatrix(LaneBuilder *b, int n, bool trans, LaneValue *address, int64_t imm, int buffer, LaneValue **out);
LaneOp *lane_stmatrix(LaneBuilder *b, int n, bool trans, LaneValue *address, int64_t imm, int buffer,
                      LaneValue *const *words, LaneValue *guard);
void lane_mma(LaneBuilder *b, LaneKind k, bool mixed, LaneValue *const a[4], LaneValue *const x[2], LaneValue *acc[4]);
/* Of mma and wgmma: the kind of b; log2 of the elements in a word; the kind of the sums. */
LaneKind lane_mma_other(const LaneOp *op);
int lane_mma_pack(LaneKind k);
LaneKind lane_mma_sum(LaneKind k);
/* A product of a warpgroup, n accumulators a thread; out[i] comes in the register of acc[i]; acc NULL: zeros. a: one
 * descriptor's low word, or (a_registers) four pairs. high: both descriptors' high words. */
void lane_wgmma(LaneBuilder *b, LaneKind k, bool mixed, bool a_registers, LaneValue *const *a, LaneValue *x,
                uint64_t high, bool trans_a, bool trans_b, int n, LaneValue *const *acc, LaneValue **out);
/* Operands before the accumulators: 2, or 5 where a is in registers. */
static inline int lane_wgmma_inputs(const LaneOp *op) {
  return op->in_count == 2 || op->in_count == 5 ? op->in_count : op->in_count - op->out_count;
}
void lane_wgmma_wait(LaneBuilder *b, int pending, int n, LaneValue *const *in, LaneValue **out);
/* an operation without operands and results: fences, commits, waits */
LaneOp *lane_simple(LaneBuilder *b, LaneCode c, int64_t imm, int buffer);
/* bytes 4, 8 or 16; guard NULL: always */
LaneOp *lane_cp_async(LaneBuilder *b, int bytes, LaneValue *to, int64_t imm, int buffer, LaneValue *from,
                      LaneValue *guard);
/* mbar_init, mbar_arrive, mbar_expect, mbar_wait. x: what the operation takes beside the barrier, or NULL */
LaneOp *lane_mbar(LaneBuilder *b, LaneCode c, LaneValue *at, int64_t imm, int buffer, LaneValue *x);
/* tensor_load (bar: the mbarrier), tensor_store, tensor_red (bar NULL) */
LaneOp *lane_tensor(LaneBuilder *b, LaneCode c, int rank, LaneValue *at, int64_t imm, int buffer, LaneValue *bar,
                    LaneValue *map, LaneValue *const *coordinates);
/* Tensor memory. tmem_mma: d its sums' address; high as wgmma's. tmem_ld and tmem_st: n registers; rows: 32 or 16. */
void lane_tmem_mma(LaneBuilder *b, LaneKind k, bool mixed, bool trans_a, bool trans_b, int rows, int columns,
                   uint64_t high, LaneValue *d, LaneValue *a, LaneValue *x, LaneValue *adds);
void lane_tmem_ld(LaneBuilder *b, int rows, LaneValue *at, int n, LaneValue **out);
void lane_tmem_st(LaneBuilder *b, int rows, LaneValue *at, int n, LaneValue *const *in);
void lane_tmem_wait_ld(LaneBuilder *b, int n, LaneValue *const *in, LaneValue **out);
bool lane_is_const(const LaneValue *v, uint64_t *bits);
/* x = base + offset, where offset is the constant that folding has moved outwards; base NULL when x is itself a
 * constant. */
void lane_split_offset(LaneKind k, LaneValue *x, LaneValue **base, int64_t *offset);

/* Loads and stores: attributes other than space, kind, guard, imm are set on the returned op. address + imm; a constant
 * part of the address goes into imm. `other` NULL with a guard: zeros. */
LaneOp *lane_load(LaneBuilder *b, LaneSpace space, LaneKind k, int vector, LaneValue *address, int64_t imm,
                  LaneValue *guard, LaneValue *const *other);
LaneOp *lane_store(LaneBuilder *b, LaneSpace space, LaneKind k, int vector, LaneValue *address, int64_t imm,
                   LaneValue *guard, LaneValue *const *values);

/* Structured control: begins the op, returns it with its bodies made and b standing in body[0]; the caller builds the
 * body, ends it with lane_yield (or lane_condition), goes on with lane_enter(b, op, 1), and leaves with lane_leave(b,
 * op). Results are op->out[i]. */
LaneOp *lane_for(LaneBuilder *b, LaneKind k, LaneValue *lb, LaneValue *ub, LaneValue *step, int n,
                 LaneValue *const *init);
LaneOp *lane_while(LaneBuilder *b, int n, LaneValue *const *init);
LaneOp *lane_if(LaneBuilder *b, LaneValue *pred, bool uniform, int out_count, const LaneType *out);
void lane_enter(LaneBuilder *b, LaneOp *op, int body);
void lane_yield(LaneBuilder *b, int n, LaneValue *const *values);
void lane_condition(LaneBuilder *b, LaneValue *pred, int n, LaneValue *const *values);
void lane_leave(LaneBuilder *b, LaneOp *op);

bool lane_op_is_pure(const LaneOp *op); /* may be merged, moved, dropped: no effect, no guard, no clock */
void lane_remove(LaneOp *op);
void lane_insert_before(LaneOp *op, LaneOp *place); /* op is unlinked */
/* outer before inner, in order; fn may remove op */
void lane_walk(LaneBlock *block, void (*fn)(LaneOp *op, void *arg), void *arg);

/* ---- lane/fold.c ------------------------------------------------------------------------------------------------- */
LaneValue *lane_fold(LaneBuilder *b, const LaneOp *proto, int n, LaneValue *const *in); /* NULL: nothing simpler */
LaneValue *lane_fold_bytes(LaneBuilder *b, LaneValue *const in[3]); /* of a prmt: lane/byte_provenance.c */

/* ---- lane/print.c, lane/parse.c, lane/verify.c, lane/dce.c, lane/pressure.c, lane/remat.c, lane/pack_carried.c, lane/combine_mul.c ---- */
void lane_print(Buf *out, const LaneFunc *f, bool spans);
LaneFunc *lane_parse(Context *cx, const Source *text);
/* types, dominance, converged operations outside divergent control; fails */
void lane_verify(LaneFunc *f, const char *after);
void lane_dce(LaneFunc *f);
int lane_pressure(const LaneFunc *f);  /* registers of 32 bits that a thread needs at once, about */
void lane_rematerialize(LaneFunc *f);  /* cheap values are computed again where they are used, for fewer registers */
void lane_pack_carried(LaneFunc *f);   /* loops carry words, not their parts */
void lane_combine_mul(LaneFunc *f);    /* both halves of a product at once */
bool lane_has_dead(const LaneFunc *f); /* dce.c: whether it holds an operation that lane_dce would drop */

/* lane/contract.c: what a pass needs, gives and keeps, of LaneFunc.holds, as tile_pass_begin and tile_pass_end say. */
enum {
  LANE_SWEPT = 1,  /* no dead operations */
  LANE_PLACED = 2, /* buffers have their places in shared memory, and reuse has its barriers */
  LANE_ALL = 3
};
void lane_pass_begin(LaneFunc *f, const char *name, const PassContract *c);
void lane_pass_end(LaneFunc *f, const char *name, const PassContract *c, bool verify);

/* ---- sim.c: runs it on this machine's memory, for tests and the `sim` device ------------------------------------- */

/* Between barriers a block's warps run in an order of chance, where it matters (sim/sim.c). Finds: two threads of a
 * block that touch one byte of shared or global memory without a barrier between (one of them writing), reads of shared
 * memory nobody wrote, shared accesses past the block's, misaligned vectors, barriers in divergent control. Global
 * addresses are the process's own; `check` (may be NULL) is asked about each access and returns false for a wrong one.
 */
typedef struct LaneSimOptions {
  const int32_t *grid;     /* [3] */
  int64_t begin, end;      /* programs, x fastest */
  const int64_t *programs; /* or NULL: all in [begin, end) */
  int64_t blocks;          /* of a persistent kernel: [begin, end) are blocks, of so many; 0: one a program */
  int cluster;             /* blocks of a cluster, along x; 0, 1: there are none. [begin, end) is of whole ones */
  uint64_t seed;           /* for the order of warps; 0: they go in step */
  const struct LaneTraceHook *hook; /* or NULL */
  bool (*check)(void *arg, uint64_t address, int bytes, bool write);
  void *check_arg;
  int64_t memory;              /* the most bytes of a block's registers and shared memory; 0: the context's default */
  _Atomic int64_t *operations; /* what is left of the launch's work, in operations of a thread; NULL: any amount */
  /* Called in a loop that waits for other programs, which may run meanwhile: see residents_wait. False: the program
   * ends, with a fault whose message is "". NULL: it looks again at once. */
  bool (*wait)(void *arg, bool got_ahead);
  void *wait_arg;
  struct LaneCaches *caches; /* of the launch; NULL: what is stored is seen at once */
} LaneSimOptions;
typedef struct LaneCaches
    LaneCaches; /* the L1 caches of a launch (sim/cache.c), for programs that learn of each other */
bool lane_learns(const LaneFunc *f);
LaneCaches *lane_caches_create(void); /* NULL when out of memory */
void lane_caches_destroy(LaneCaches *c);
/* Looking on instead of running: which addresses warps access, how often blocks of operations are entered. Global
 * memory is not there: loads of it give zeros where `read` does not know better, atomics zeros, stores go nowhere. Of
 * operations without effect only those are done whose result is needed; races and barriers are not checked. */
typedef struct LaneTraceHook {
  const bool *values;  /* by id: needed */
  const bool *buffers; /* by number: what is stored there is needed */
  /* A block of `ops` operations is entered by so many threads, of so many warps. False ends the run; the fault's
   * message is then "". */
  bool (*enter)(void *arg, const LaneBlock *b, int ops, int warps, int threads);
  void (*split)(void *arg, const LaneOp *op, int warps); /* an `if` or a loop at which threads of so many warps part */
  /* A load, store or atomic by those of a warp's lanes whose bits are set, one at least; the addresses of others are
   * not defined. An asynchronous copy is two: of global, then of shared memory. */
  void (*access)(void *arg, const LaneOp *op, LaneSpace space, const uint64_t at[32], uint32_t lanes);
  /* Puts what global memory holds there into `to`, where that is known; may be NULL. */
  void (*read)(void *arg, const LaneOp *load, uint64_t at, int bytes, void *to);
  void *arg;
} LaneTraceHook;
typedef struct LaneSimFault {
  char message[256];
  const Span *span;
  int32_t program[3];
  int thread;
  bool over_limit; /* of the options */
  bool out_of_memory;
  bool of_order; /* two threads of a block and one address of global memory, without a barrier between */
} LaneSimFault;
/* args: one slot of 8 bytes a parameter, hidden ones included. False: *fault says why (out of memory too). Thread-safe;
 * blocks of one call run one after the other. */
bool lane_sim_run(const LaneFunc *f, const uint64_t *args, const LaneSimOptions *o, LaneSimFault *fault);
bool lane_waits(const LaneFunc *f); /* whether programs may wait for each other */
/* The same in three steps, for programs that wait for each other, of which each has a LaneSim. NULL: *fault says why.
 */
typedef struct SimRun LaneSim;
LaneSim *lane_sim_open(const LaneFunc *f, const uint64_t *args, const LaneSimOptions *o, LaneSimFault *fault);
bool lane_sim_step(LaneSim *s, int64_t program);
bool lane_sim_gave_up(const LaneSim *s);  /* threads of that program have ended at an assertion that failed */
void lane_sim_close(LaneSim *s);          /* or NULL */
int64_t lane_sim_bytes(const LaneSim *s); /* of memory that it takes */
/* The first two, for one program at a time, in cx's arena, where it diag_fail()s when memory runs out. All that is
 * given must stay. */
LaneSim *lane_sim_prepare(Context *cx, const LaneFunc *f, const uint64_t *args, const LaneSimOptions *o,
                          LaneSimFault *fault);
bool lane_sim_program(LaneSim *s, int64_t program);

#endif
