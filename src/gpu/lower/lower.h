/* lower: from a Func with layouts to lane IR. Private to src/gpu/lower.
 *
 * One walk over the tile IR. Each tile value becomes an array of lane values: a scalar one, a tensor one for each
 * register of its layout, in the order of the register's number. Values with a zero warp or lane vector are held alike
 * by several threads; what must happen once (stores, atomics, prints) is guarded by lower_elected_thread. Each
 * file here takes a group of operations (the table in lower.c); walk.c calls them.
 */
#ifndef NEREID_LOWER_H
#define NEREID_LOWER_H

#include "gpu/gpu.h"
#include "gpu/math/functions.h"
#include "layout/layout.h"

typedef struct StagedOperand StagedOperand;
typedef struct Lower Lower;
typedef void (*LowerFn)(Lower *l, Op *op);
/* What a value waits for: to be an operand of `dot`, the next iteration's one after it, or (given) nothing any more. */
typedef enum { DEFERRED_A, DEFERRED_X, DEFERRED_AFTER, DEFERRED_GIVEN } DeferredWhere;
typedef struct LowerDeferred {
  const Op *dot;
  DeferredWhere where;
} LowerDeferred;
/* Of a function that is parted, the warps that copy: one; a warpgroup where registers are handed on, which goes by
 * warpgroups: a multiprocessor's are enough for four that compute. */
static inline int lower_copy_warps(const Func *f) { return f->num_warps > 4 ? 4 : 1; }
struct Lower {
  Context *cx;
  Func *f;
  const GpuTarget *target;
  const LowerFn *table; /* by OpCode */
  bool wgmma;           /* some products may be those of warpgroups */
  bool fp8;             /* tensor cores take it */
  bool lockstep;        /* rings that go together share their mbarriers (lower/lockstep.c) */
  bool staged_reads;    /* threads read tiles where products find them (lower/dot.c) */
  bool short_sums;      /* products of f32 are sums of short sums */
  LaneFunc *out;
  LaneBuilder b;
  int statements;               /* lowered so far: LaneOp.statement */
  LaneValue *tid, *lane, *warp; /* thread in the block; lane in the warp; warp in the block (zero for one warp) */
  LaneValue *program[3], *programs[3];
  bool asks_program; /* programs differ: the kernel has a program_id */
  /* what loads and stores of tensors ask of the caches where the kernel says nothing */
  LanePriority streams;
  LaneValue *diag, *list, *instrument; /* hidden parameters, or NULL */
  LaneValue ***values;                 /* by Value.id */
  int *uses;                           /* by Value.id: how many operands of operations it is */
  /* by Value.id: what is lowered at a product instead of where it stands (lower/deferred.c) */
  LowerDeferred *deferred;
  bool register_limited;      /* registers are short */
  StagedOperand *loop_staged; /* operands of products in shared memory, for as long as a loop runs (lower/dot.c) */
  int64_t loop_staged_bytes;
  bool has_sums;                 /* tensor_add */
  StagedOperand *last_staged[2]; /* those of the last product */
  StagedOperand *staged;         /* what was written for earlier loops, or kept for later products */
  int64_t kept_bytes;            /* of the latter */
  struct LowerMembar *membar;    /* of accesses to global memory (lower/membar.c) */
  VEC(int) in_flight;            /* buffers that asynchronous dots read */
  struct LowerRing **rings;      /* by Value.id: of RING's results (lower/ring.c) */
  struct LowerTmem *tmem;        /* tensor memory (lower/tmem.c), or NULL */
  bool stores_boxes;             /* the engine may still be reading what it stores */
  bool has_bars;                 /* rings have mbarriers */
  int first_thread;              /* of those that this code is for */
  int divergent;                 /* depth of bodies on scalars: there threads go their own ways */
};

/* ---- values.c ---------------------------------------------------------------------------------------------------- */
LaneValue **lower_get(Lower *l, const Value *v);            /* its registers */
void lower_set(Lower *l, const Value *v, LaneValue **regs); /* the array must live in the arena */
int lower_count(const Value *v);                            /* 1 for scalars */
LaneValue **lower_array(Lower *l, int n);
/* Flat element index held by this thread in register r: thread part xor register part, where xor is an addition
 * whenever the bits are disjoint (then a plain `add` of a constant, which folds into addresses). */
LaneValue *lower_element(Lower *l, const Layout *layout, int reg);
/* The index along dim d of that element. */
LaneValue *lower_index(Lower *l, const Type *t, const Layout *layout, int reg, int d);
/* xor of columns[i] over the set bits i of x; as few operations as it can */
LaneValue *lower_linear(Lower *l, int bits, const uint32_t *columns, LaneValue *x);
/* pred, or NULL when every thread holds its own; layout NULL: a scalar */
LaneValue *lower_elected_thread(Lower *l, const Layout *layout);
/* What the elected threads got (n registers of this type) goes to all that hold a copy; a meeting of the block, where
 * other warps hold some. Does nothing where threads differ (l->divergent). */
void lower_hand_out(Lower *l, const Layout *layout, LaneType type, int n, LaneValue **regs);
/* Bits of the register's number that make no difference to v, from what is known of its constancy: register r holds
 * what r & ~bits holds. */
uint32_t lower_same(const Value *v);
LaneValue *lower_and(Lower *l, LaneValue *p, LaneValue *q); /* of predicates; NULL means true */

/* ---- walk.c ------------------------------------------------------------------------------------------------------ */
/* The operations of a block but the one that ends it (yield, condition), which it returns. */
Op *lower_body(Lower *l, Block *block);
/* A body on scalars (reduce, scan, map) with these values for its arguments; out gets what it yields. May be called
 * again and again. */
void lower_inline(Lower *l, Block *body, LaneValue *const *args, LaneValue **out);
/* What waits for operand k of the product, which is about to be written; and after both are written. */
void lower_operand_now(Lower *l, const Op *dot, int k);
void lower_next_now(Lower *l, const Op *dot);

/* ---- by group; each sets the op's results ------------------------------------------------------------------------ */
void lower_element_op(Lower *l, Op *op); /* lower/element.c: arithmetic, cmp, select, addptr, fma; packed halves */
void lower_convert(Lower *l, Op *op);    /* lower/convert.c: convert, bitcast */
void lower_math(Lower *l, Op *op);       /* math.c */
/* lower/shape.c: const, arange, splat, broadcast, expand_dims, reshape, trans, join, split, cat */
void lower_shape(Lower *l, Op *op);
void lower_load(Lower *l, Op *op); /* lower/memory.c */
/* by what the kernel does with memory */
LanePriority lower_stream_priority(const GpuTarget *t, bool stores, bool adds_once);
void lower_store(Lower *l, Op *op);
void lower_atomic(Lower *l, Op *op);         /* lower/atomic.c */
void lower_control(Lower *l, Op *op);        /* lower/control.c: for, while, if */
void lower_convert_layout(Lower *l, Op *op); /* lower/convert_layout.c */
void lower_reduce(Lower *l, Op *op);         /* lower/reduce.c */
void lower_scan(Lower *l, Op *op);           /* lower/scan.c */
void lower_map(Lower *l, Op *op);            /* lower/scan.c */
void lower_sort(Lower *l, Op *op);           /* lower/sort.c */
void lower_gather(Lower *l, Op *op);         /* lower/gather.c: gather, histogram */
void lower_dot(Lower *l, Op *op);
void lower_dot_wait(Lower *l, Op *op); /* lower/dot.c */
/* lower/deferred.c: what of a block waits for its products */
void lower_plan_deferred(Lower *l, const Block *block);
LowerDeferred *lower_deferred_create(Lower *l, int values);
/* of v as an operand of products in the block of `from`, there and after */
int lower_product_uses(const Op *from, const Value *v);
bool lower_defers(const Lower *l, const Op *op);
bool lower_is_deferred(const Lower *l, const Value *v);
/* whether op can be lowered as late as `until`, after it in the same block */
bool lower_can_wait(const Op *op, const Op *until);
/* what an operation before v's has found out by the way: v's will not be lowered */
void lower_given(Lower *l, const Value *v, LaneValue **regs);
/* writes what the products in a loop take from outside; the caller takes it back after the loop */
void lower_dots_before(Lower *l, Op *loop);
void lower_ring(Lower *l, Op *op); /* lower/ring.c: rings in shared memory, and waits for what is in flight */
/* lower/tensor.c: rings that tensor maps bring tiles to. What a launch passes and checks; the kernel's beginning */
void lower_tensor(Lower *l, Op *op);
void lower_tensor_params(Lower *l);
void lower_tensor_open(Lower *l);
void lower_tensor_open_part(Lower *l, bool computes); /* where warps are parted (lower/control.c) */
void lower_tensor_close(Lower *l);                    /* what was asked for is there when the kernel ends */
void lower_tmem(Lower *l, Op *op);                    /* lower/tmem.c: sums in tensor memory */
/* At the kernel's beginning: whether there are such (l->tmem); their mbarriers, which one thread makes; what one warp
 * does; what all do after a barrier. And at its end. */
void lower_tmem_find(Lower *l);
void lower_tmem_bars(Lower *l);
void lower_tmem_allocate(Lower *l);
void lower_tmem_open(Lower *l);
void lower_tmem_close(Lower *l);
/* lower/store_tensor.c: a tile goes to an array by a tensor map; and before a block ends */
void lower_store_tensor(Lower *l, Op *op);
void lower_store_tensor_close(Lower *l);
/* the ring_read that v is, or a transpose of; NULL: it is held in registers */
const Op *lower_ring_read(const Value *v);
void lower_debug(Lower *l, Op *op); /* lower/debug.c: print, assert, barrier, assume */
void lower_asm(Lower *l, Op *op);   /* lower/debug.c */
void lower_scope(Lower *l, Op *op); /* lower/scope.c: regions of an instrumented kernel */
void lower_records_open(Lower *l);  /* at the kernel's beginning and end; nothing in others */
void lower_records_close(Lower *l);

/* lower/membar.c: called before an access is lowered, where the block has met, around loops and branches. */
typedef struct LowerMembar LowerMembar;
void lower_membar(Lower *l, const Op *op);
void lower_membar_here(Lower *l); /* all that was accessed so far stands before this place */
void lower_membar_met(Lower *l);
/* what was pending before the loop, and is after it where it may not run at all */
LowerMembar *lower_membar_loop(Lower *l, const Op *loop);
/* a copy of what is pending; then `before` is, unless NULL */
LowerMembar *lower_membar_branch(Lower *l, LowerMembar *before);
void lower_membar_join(Lower *l, const LowerMembar *other);

/* Parts of these that others use. n registers of one type become n of another, as `convert` does (rounding 1: towards
 * zero). */
void lower_cast(Lower *l, Dtype from, Dtype to, int rounding, int n, LaneValue *const *in, LaneValue **out);
/* lower/divide.c. k: S32 U32 S64 U64, of the registers; op: for its type and what is known of its operands. */
LaneValue *lower_divide(Lower *l, const Op *op, LaneKind k, LaneValue *x, LaneValue *y);
LaneValue *lower_remainder(Lower *l, const Op *op, LaneKind k, LaneValue *x, LaneValue *y);
LaneValue *lower_fdiv(Lower *l, LaneKind k, bool correct, LaneValue *x, LaneValue *y);
/* f32, as `approx`: two products, and a reciprocal for all with the same y */
LaneValue *lower_fdiv_shared(Lower *l, LaneValue *x, LaneValue *y);
/* Elements of one byte or two (kind S8 to U16, F16, BF16 by their register type) in a b32 as in memory, lowest first,
 * and apart again. */
/* n elements that fill at most a word */
LaneValue *lower_pack_word(Lower *l, int elem_bytes, LaneType type, LaneValue *const *regs, int n);
/* the canonical registers */
void lower_unpack_word(Lower *l, LaneKind kind, LaneValue *word, int n, LaneValue **regs);

/* One element in shared memory: its bytes, and the kind that loads and stores it (pred as u8). */
int lower_shared_bytes(LaneType t);
LaneValue *lower_shared_load(Lower *l, LaneType t, LaneValue *address, int64_t imm, int buffer);
void lower_shared_store(Lower *l, LaneType t, LaneValue *address, int64_t imm, int buffer, LaneValue *v,
                        LaneValue *guard);

#endif
