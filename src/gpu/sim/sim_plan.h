/* sim_plan: a LaneFunc made ready to run on a CPU, and one block's state while it runs. Private to sim*.c.
 *
 * Every value is an array over the block's threads, of 1, 2, 4 or 8 bytes an element; `regs` holds them all, and a
 * place is used again when its value is dead. An operation runs for all threads before the next begins.
 */
#ifndef NEREID_GPU_SIM_PLAN_H
#define NEREID_GPU_SIM_PLAN_H

#include "gpu/lane/table.h"

typedef struct SimOp SimOp;
typedef struct SimBlock SimBlock;

enum { SIM_READS_GLOBAL = 1, SIM_WRITES_GLOBAL = 2, SIM_READS_SHARED = 4, SIM_WRITES_SHARED = 8 };

struct SimOp {
  /* of operations without effect: for the threads [from, to), active or not */
  void (*pure)(const SimOp *o, char *regs, int from, int to);
  const LaneOp *op;
  uint32_t *in, *out, guard; /* offsets into regs */
  uint8_t touches;           /* SIM_READS_GLOBAL and so on; of control: its bodies */
  bool meets;                /* all threads of the block must do it together; of control: its bodies too */
  SimBlock *body[2];
};

/* Operations of a block between those at which the block's threads meet: barriers, uniform control, and what holds
 * such. mixed: memory that other threads see is both read and written, so that it matters how far each warp is. */
typedef struct SimRegion {
  int begin, end;
  bool mixed;
} SimRegion;

struct SimBlock {
  const LaneBlock *block;
  int count;        /* without what ends it */
  int64_t products; /* of two elements each, of 128 threads */
  SimOp *ops;
  VEC(SimRegion) regions;
  uint32_t *args;
  SimOp *end;          /* yield or condition; NULL for the func's body */
  bool end_reads_args; /* what it hands on is in part its own block's arguments: copy in two steps */
};

typedef struct SimFixed {
  uint32_t offset;
  LaneType type;
  bool is_shared; /* an address in the block's shared memory */
  uint64_t bits;
} SimFixed;

typedef struct SimPlan {
  Context *cx;
  const LaneFunc *f;
  int threads, warps, depth; /* of all blocks of the cluster; depth: of nested control, at most */
  int cluster, block_threads, block_warps,
      block_bytes;              /* blocks; of each; block_bytes: from one's memory to the next */
  size_t reg_bytes, copy_bytes; /* copy: for end_reads_args */
  SimBlock *body;
  uint32_t *params;    /* offsets */
  VEC(SimFixed) fixed; /* constants: written once */
  int *buffer_offset;
  int shared_bytes, all_bytes; /* a block's; of all */
  bool writes_global;
  bool apart; /* warps wait for one another, by mbarriers and barriers of some of them: sim/apart.c */
} SimPlan;

/* cluster: blocks that run together; hook: leaves out what is not needed; may be NULL */
SimPlan *sim_plan(Context *cx, const LaneFunc *f, int cluster, const LaneTraceHook *hook);
/* sim/pure.c: how to run it; never NULL for a pure operation. */
void (*sim_pure_function(const LaneOp *op))(const SimOp *, char *, int, int);

typedef struct SimClock SimClock; /* sim/record.c: of instrumented kernels */

/* What happened to a byte last. Times count barriers; 0 in `written` and `read` is before every block. */
typedef struct SimShadow {
  uint32_t written, read;
  uint32_t statement; /* of the write, in global memory: which tile operation, in which iterations */
  uint16_t writer;    /* thread; SIM_ATOMIC with it */
  uint16_t reader;    /* thread, SIM_WARP with a warp for several of one, or SIM_MANY */
  int16_t buffer;     /* through which it was written */
  uint16_t in_flight; /* how many products may still read it; and SIM_COPIED: a copy may still write it; SIM_BY_COPY:
                         one wrote it last; SIM_BY_BULK: a copy by a map did, or will; SIM_MBAR: of an mbarrier */
  uint32_t readers;   /* in global memory, where warps go apart: which warps have read it since it was written */
} SimShadow;
enum { SIM_COPIED = 0x8000, SIM_BY_COPY = 0x4000, SIM_BY_BULK = 0x2000, SIM_MBAR = 0x1000 };
enum { SIM_ATOMIC = 0x8000, SIM_WARP = 0x4000, SIM_MANY = 0x7fff };
typedef struct SimGlobal SimGlobal; /* sim/shadow.c: the shadow of global memory since the block's last barrier */

/* Of a block, or of a cluster's together. */
typedef struct SimRun {
  const SimPlan *plan;
  const LaneSimOptions *o;
  LaneSimFault *fault;
  int threads;
  int from, to; /* threads that run now: all, or a warp's */
  char *regs, *copy;
  uint8_t **masks; /* two a level of control */
  uint8_t *exited;
  int live;       /* threads that have not ended */
  int64_t number; /* of the program, and its place in the grid */
  int32_t program[3];
  char *shared;
  SimShadow *shadow;
  SimGlobal *global;      /* NULL: the kernel only reads */
  struct SimCache *cache; /* of the multiprocessor; NULL: none */
  uint64_t random;        /* for the order of warps */
  uint32_t iteration;     /* which one of each loop around, mixed into one number */
  uint32_t time, block_start, block_sync, *warp_sync;
  uint64_t clock;
  struct SimAsync *async; /* sim/async.c: what is in flight; NULL: nothing ever is */
  bool stopped;           /* after a fault: warps on coroutines end */
  struct SimApart *apart; /* sim/apart.c: NULL: the block goes together */
  struct SimBulk *bulk;   /* sim/bulk.c: of those, copies by maps */
  struct SimTmem *tmem;   /* sim/tmem.c; NULL: there is no tensor memory */
  SimClock *clocks;       /* NULL: nothing is recorded */
  int64_t left;           /* of the launch's work, as far as it was taken from o->operations */
} SimRun;

/* Which threads an operation is for. */
typedef struct SimMask {
  uint8_t *on;
  int count;
} SimMask;

static inline uint32_t sim_mix(uint32_t a, uint32_t b) { return (a ^ b) * 0x9e3779b1u ^ a >> 15; }

/* Records a fault of one thread (-1: of the block) and returns false. */
bool sim_fault(SimRun *r, const LaneOp *op, int thread, const char *format, ...) PRINTF_LIKE(4, 5);

/* sim/shadow.c: who has touched what since which barrier. */
typedef struct SimAccess { /* by one thread */
  SimRun *r;
  const SimOp *o;
  int thread, bytes; /* of the whole access */
  uint64_t address;
  bool write, atomic, spread; /* spread: what is read goes to other threads of the warp, too */
  bool unit;                  /* by an asynchronous unit, on behalf of the thread */
} SimAccess;
SimGlobal *sim_shadow_create(Context *cx);
void sim_shadow_meet(SimGlobal *g); /* the block has met: what was before is in order with all that comes */
/* False after a fault: another thread's access needs a barrier. The bytes at `old` become new_bytes, if not NULL. */
bool sim_note_read(const SimAccess *a);
bool sim_note_write(const SimAccess *a, const char *old, const void *new_bytes);
const char *sim_buffer_name(const SimAccess *a);

/* sim/memory.c */
bool sim_load(SimRun *r, const SimOp *o, const SimMask *m);
bool sim_store(SimRun *r, const SimOp *o, const SimMask *m);
bool sim_ldmatrix(SimRun *r, const SimOp *o, int warp);
bool sim_stmatrix(SimRun *r, const SimOp *o, int warp);
bool sim_atomic(SimRun *r, const SimOp *o, const SimMask *m);
/* sim/cache.c: the multiprocessor's L1 cache, of global memory; NULL: there is none */
typedef struct SimCache SimCache;
SimCache *sim_cache_of(LaneCaches *c, int64_t program);
void sim_cache_load(const SimAccess *a, const char *from, char *into);
void sim_cache_store(const SimAccess *a, const char *value); /* NULL: by an atomic */
void sim_cache_acquire(SimRun *r, const LaneOp *op);         /* a fence or an atomic, which may acquire */
/* sim/trace_hook.c: the three of them when they are only looked at */
bool sim_look(SimRun *r, const SimOp *o, const SimMask *m);
bool sim_enter(SimRun *r, const SimBlock *b, const SimMask *m); /* false: the run ends */
void sim_split(SimRun *r, const SimOp *o, const SimMask *on, const SimMask *off);
/* sim/record.c */
SimClock *sim_clock(Context *cx, int warps);
void sim_clock_start(SimRun *r);                            /* of a block */
void sim_tick(SimRun *r, const SimOp *o, const SimMask *m); /* an operation is done */
void sim_clock_meet(SimRun *r);                             /* at a barrier of the block */
void sim_record(SimRun *r, const SimOp *o, const SimMask *m);
/* sim/mma.c: the elements in `bytes` bytes of an operand of mma or wgmma as numbers, how many; the sum plus n products
 */
int sim_numbers(LaneKind k, const void *from, int bytes, float *out);
uint32_t sim_add_products(LaneKind sum, uint32_t acc, int n, const float *a, const float *x);
void sim_mma(SimRun *r, const SimOp *o, int warp);
/* sim/async.c: products and copies in flight */
struct SimAsync *sim_async(Context *cx, const LaneFunc *f, int threads); /* NULL: the function has none */
void sim_async_start(SimRun *r);                                         /* of a block */
bool sim_cp_async(SimRun *r, const SimOp *o, const SimMask *m);
void sim_cp_group(SimRun *r, const SimOp *o, const SimMask *m); /* commit, wait, and the fence of the proxies */
bool sim_wgmma(SimRun *r, const SimOp *o, int warp);
void sim_wgmma_group(SimRun *r, const SimOp *o, int warp); /* fence, commit, wait */
/* An operand in shared memory, of products of warpgroups and of those that add to tensor memory. */
typedef struct SimOperand {
  uint32_t start, leading, stride, span, mask; /* bytes; mask: of the row's bits that are xor'ed on */
  bool across;                                 /* rows are k's */
} SimOperand;
typedef bool SimChunk(SimRun *r, const SimOp *o, int warp, uint32_t at, char out[16]); /* reads 16 bytes of one */
bool sim_operand(SimRun *r, const SimOp *o, int thread, uint32_t low, uint32_t high, bool across, SimOperand *out);
/* lines [from, from + n) by an instruction's k's, as numbers */
bool sim_read_operand(SimRun *r, const SimOp *o, int warp, LaneKind kind, const SimOperand *p, int from, int n,
                      float (*out)[32], SimChunk *read);
bool sim_read_unit(const SimAccess *a); /* whether a product may read such bytes */
/* sim/tmem.c: tensor memory */
struct SimTmem *sim_tmem_create(Context *cx, const LaneFunc *f, int warps); /* NULL: the function uses none */
void sim_tmem_start(SimRun *r);
bool sim_tmem(SimRun *r, const SimOp *o, const SimMask *m);
bool sim_tmem_land(SimRun *r); /* a product or commit under way is done; false: there is none, or a fault */
bool sim_tmem_faulted(SimRun *r);
bool sim_tmem_end(SimRun *r);
uint32_t sim_tmem_before(const SimRun *r, int warp);     /* the warp's accesses before that time are done, and fenced */
bool sim_is_fenced(const SimRun *r, const SimShadow *s); /* whether its writer has fenced since it wrote */
/* sim/memory.c */
char *sim_reach(const SimAccess *a); /* where the access goes; NULL after a fault */
/* One element, which other blocks may change at the same time; returns what was there. */
uint64_t sim_exchange(char *p, int rmw, LaneKind k, uint64_t y, uint64_t z);
/* sim/global.c: `from` or `into` is global memory */
void sim_fetch(char *into, const char *from, int bytes);
void sim_put(char *into, const char *from, int bytes);
/* sim/apart.c: warps that go their own ways, each on a coroutine, and what each knows of the others' accesses. */
typedef struct SimKnown SimKnown; /* what a warp knows, or who waits for a barrier will */
void sim_apart(SimRun *r, Context *cx);
bool sim_run_apart(SimRun *r, bool (*body)(SimRun *r, SimMask *m)); /* a block */
bool sim_pause(SimRun *r); /* others may go on now; false: the block has ended */
/* Until ready(r, arg). Where nobody can go on, `tell` says what for. False: the block has ended, or that. */
bool sim_wait_until(SimRun *r, const LaneOp *op, bool (*ready)(SimRun *r, void *arg),
                    void (*tell)(void *arg, char *out, size_t size), void *arg);
bool sim_meet(SimRun *r, const LaneOp *op);           /* a barrier, for the warp that runs */
bool sim_has_ended(const SimRun *r, int block);       /* of a cluster */
bool sim_take_registers(SimRun *r, const LaneOp *op); /* setmaxnreg */
bool sim_outside(SimRun *r, bool ahead);              /* o->wait, which leaves the block */
uint32_t sim_random(SimRun *r, uint32_t below);
SimKnown *sim_known_create(SimRun *r);
void sim_known_clear(SimRun *r, SimKnown *k);
void sim_known_add(SimRun *r, SimKnown *to, const SimKnown *from);
void sim_release(SimRun *r, SimKnown *to);         /* all that the running warp did, and knows */
void sim_acquire(SimRun *r, const SimKnown *from); /* by the running warp */
void sim_fence_warp(SimRun *r);                    /* fence.proxy.async */
/* Whether the running warp knows of an access by warp w at that time; fenced: and of w's fence since. */
bool sim_knows(const SimRun *r, int warp, int w, uint32_t time, bool fenced);
const uint32_t *sim_known_tmem(const SimRun *r, int warp); /* by warp: sim_tmem_before, as far as this one knows it */
uint32_t *sim_reads(SimRun *r, uint64_t byte);             /* of shared memory, by warp: the time of its last read */
uint32_t *sim_unit_reads(SimRun *r, uint64_t byte);        /* the same of asynchronous units, of 16 bytes */
uint32_t *sim_seen(SimRun *r, int warp);                   /* by mbarrier: phases that the warp knows to be complete */
/* sim/bulk.c: mbarriers and copies by tensor maps */
enum { SIM_MOST_MBARS = 128 };
struct SimBulk *sim_bulk(Context *cx, SimRun *r);
void sim_bulk_start(SimRun *r);
bool sim_bulk_land(SimRun *r);    /* some bytes of a copy under way move; false: there are none, or a fault */
bool sim_bulk_faulted(SimRun *r); /* which of the two */
bool sim_bulk_end(SimRun *r);     /* of a block: nothing is left under way */
/* A commit's arrival, with what was known to whoever made it; the barrier's number, and the phase. */
bool sim_mbar_known(SimRun *r, const LaneOp *op, int t, uint32_t at);
bool sim_mbar_arrive(SimRun *r, const LaneOp *op, int t, uint32_t at, const SimKnown *known, int *number,
                     uint32_t *phase);
bool sim_mbar(SimRun *r, const SimOp *o, const SimMask *m);
bool sim_tensor(SimRun *r, const SimOp *o, const SimMask *m);
bool sim_bulk_group(SimRun *r, const SimOp *o, const SimMask *m);
/* Whether thread t may touch a byte that a copy by a map brought. */
bool sim_bulk_there(SimRun *r, const LaneOp *op, int t, uint64_t byte, const char *does);
/* sim/warp.c: between lanes */
bool sim_converged(SimRun *r, const SimOp *o, const SimMask *m);

/* Blocks of a cluster are one run: their warps come one block after the other, and so do their shared memories. Within
 * one, an address counts from its beginning: from here, of thread t's. As on hardware its upper bits say whose it is,
 * which who makes a descriptor of it has to take off. */
enum { SIM_BLOCK_SHIFT = 24 };
static inline int sim_block_of(const SimRun *r, int t) { return t / r->plan->block_threads; }
static inline uint32_t sim_shared_of(const SimRun *r, int t) {
  return (uint32_t)(sim_block_of(r, t) * r->plan->block_bytes);
}
static inline uint32_t sim_in_block(uint64_t address) { return (uint32_t)address & ((1u << SIM_BLOCK_SHIFT) - 1); }
static inline uint32_t sim_shared_at(const SimRun *r, int t, uint64_t address) {
  return sim_in_block(address) + sim_shared_of(r, t);
}

static inline uint64_t sim_get(const SimRun *r, uint32_t offset, LaneType type, int t) {
  const char *p = r->regs + offset;
  switch (type) {
    case LT_PRED: return ((const uint8_t *)p)[t];
    case LT_B16: return ((const uint16_t *)p)[t];
    case LT_B32: return ((const uint32_t *)p)[t];
    default: return ((const uint64_t *)p)[t];
  }
}

static inline void sim_set(const SimRun *r, uint32_t offset, LaneType type, int t, uint64_t bits) {
  char *p = r->regs + offset;
  switch (type) {
    case LT_PRED: ((uint8_t *)p)[t] = (uint8_t)bits; break;
    case LT_B16: ((uint16_t *)p)[t] = (uint16_t)bits; break;
    case LT_B32: ((uint32_t *)p)[t] = (uint32_t)bits; break;
    default: ((uint64_t *)p)[t] = bits; break;
  }
}

static inline bool sim_guarded(const SimRun *r, const SimOp *o, int t) {
  return !o->op->guard || (((const uint8_t *)(r->regs + o->guard))[t] != 0) != o->op->guard_not;
}

#endif
