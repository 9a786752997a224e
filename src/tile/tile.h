/* tile: the IR in which a kernel is a program over tiles.
 *
 * A Func is one specialization of one kernel with all calls inlined: SSA values of static shape (scalars, tensors of
 * numbers, tensors of pointers) and structured control flow. A region is one Block; values of an outer block are
 * visible in inner ones. Signedness is in the type (i32, u32), not in the operation.
 *
 *     kernel @add(%x: *f32 {divisible=16}, %y: *f32, %n: i32) {
 *       %0 = program_id {axis=0} : i32
 *       %1 = const {value=1024} : i32
 *       %2 = mul %0, %1 : i32
 *       %3 = arange {start=0, end=1024} : i32[1024]
 *       %4 = splat %2 : i32[1024]
 *       %5 = add %4, %3 : i32[1024]
 *       %6 = splat %n : i32[1024]
 *       %7 = cmp %5, %6 {pred=lt} : i1[1024]
 *       %8 = splat %x : *f32[1024]
 *       %9 = addptr %8, %5 : *f32[1024]
 *       %10 = load %9, %7 : f32[1024]
 *       ...
 *       %20 = for %lb, %ub, %step, %init {num_stages=3} : f32[1024] do (%i: i32, %acc: f32[1024]) {
 *         %21 = add %acc, %10 : f32[1024]
 *         yield %21
 *       }
 *       %30 = reduce %20 {axis=0} : f32 do (%a: f32, %b: f32) {
 *         %31 = add %a, %b : f32
 *         yield %31
 *       }
 *     }
 *
 * Everything lies in the Context's arena.
 */
#ifndef NEREID_TILE_H
#define NEREID_TILE_H

#include "base/base.h"

/* ---- types (type.c): interned in the Context, so equal types are the same pointer -------------------------------- */

enum { MAX_RANK = 24, MAX_TILE_ELEMENTS = 1 << 20 };

typedef struct Type {
  Dtype dtype;   /* of the element, or of what the element points to */
  uint8_t ptr;   /* 0: numbers; 1: pointers to dtype; 2: pointers to pointers ... */
  uint8_t rank;  /* 0: scalar */
  bool is_const; /* pointers that must not be stored through */
  int32_t shape[MAX_RANK];
} Type;

const Type *type_number(Context *cx, Dtype d);
const Type *type_pointer(Context *cx, Dtype d);
const Type *type_make(Context *cx, Type t); /* any */
/* elem scalar; rank 0 gives elem */
const Type *type_tensor(Context *cx, const Type *elem, int rank, const int32_t *shape);
const Type *type_elem(Context *cx, const Type *t);                        /* the scalar type of an element */
const Type *type_with_elem(Context *cx, const Type *t, const Type *elem); /* same shape, other element */
const Type *type_with_dtype(Context *cx, const Type *t, Dtype d);         /* same shape, numbers of d */
int64_t type_numel(const Type *t);                                        /* scalars: 1 */
/* Characters that device_print gives an index of dim d: those of the largest one, as Triton does. */
static inline int type_print_width(const Type *t, int d) {
  int width = 1;
  for (int32_t last = t->shape[d] - 1; last >= 10; last /= 10) width++;
  return width;
}
int type_elem_bytes(const Type *t); /* pointers: 8 */
bool type_same_shape(const Type *a, const Type *b);
const Type *type_pointee(Context *cx, const Type *t); /* of pointers: same shape, one star less */
void type_print(Buf *out, const Type *t);             /* "f32", "*bf16[64,32]", "i1[8]" */
const Type *type_parse(Cursor *c);                    /* reads that, or fails; in parse.c */

/* ---- the IR ------------------------------------------------------------------------------------------------------ */

typedef enum {
#define OP(id, group, name, in, out, regions, effects, attrs) OP_##id,
#include "tile/ops.def"
#undef OP
  OP_COUNT
} OpCode;

typedef enum { EFFECT_PURE, EFFECT_READ, EFFECT_WRITE, EFFECT_SIDE, EFFECT_CONTROL, EFFECT_TERMINATOR } Effect;

typedef enum {
  GROUP_CREATE,
  GROUP_SHAPE,
  GROUP_ELEMENT,
  GROUP_MEMORY,
  GROUP_TILE,
  GROUP_CONTROL,
  GROUP_DEBUG
} OpGroup; /* ops.def says what they are */

typedef struct OpInfo {
  const char *name;
  int min_in, max_in, min_out, max_out; /* max -1: any */
  int regions;
  Effect effect;
  const char *attrs; /* as in ops.def */
  OpGroup group;
} OpInfo;
extern const OpInfo op_info[OP_COUNT];

/* Functions of the `math` operation. Row: MATH(id, name, arity, signature), see math.def. */
typedef enum {
#define MATH(id, name, arity, sig) MATH_##id,
#include "tile/math.def"
#undef MATH
  MATH_COUNT
} MathFn;
typedef struct MathInfo {
  const char *name;
  int arity;
  const char *sig;
} MathInfo;
extern const MathInfo math_info[MATH_COUNT];
/* The result's type of the signature that takes exactly these types; false when none does. */
bool math_signature(MathFn fn, int n, const Dtype *in, Dtype *out);

/* An attribute as ops.def names it (attr.c); for the printer, the parser and the verifier. */
typedef enum { ATTR_INT, ATTR_WORD, ATTR_MATH, ATTR_NUMBER, ATTR_DIMS, ATTR_TEXT } AttrKind;
enum { MAX_ATTRS = 8 };
typedef struct AttrInfo {
  const char *name; /* not NUL-terminated */
  int name_length;
  AttrKind kind;
  int slot;                 /* in attr[], or -1 */
  const char *const *words; /* of an ATTR_WORD */
  bool always_shown;        /* printed also when 0 */
} AttrInfo;
int op_attrs(OpCode code, AttrInfo out[MAX_ATTRS]);
const char *attr_word(const AttrInfo *a, int64_t value);            /* NULL when there is none */
int attr_word_value(const AttrInfo *a, const char *word, size_t n); /* -1 when unknown */

typedef enum { CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE } CmpPred;
/* max/min: by the type's sign; floats too */
typedef enum { RMW_ADD, RMW_MAX, RMW_MIN, RMW_AND, RMW_OR, RMW_XOR, RMW_XCHG } RmwKind;
typedef enum { SEM_ACQ_REL, SEM_ACQUIRE, SEM_RELEASE, SEM_RELAXED } MemSem;
typedef enum { SCOPE_GPU, SCOPE_CTA, SCOPE_SYS } MemScope;
typedef enum { CACHE_NONE, CACHE_CA, CACHE_CG, CACHE_CS, CACHE_CV, CACHE_WB, CACHE_WT } CacheHint;
typedef enum { EVICT_DEFAULT, EVICT_FIRST, EVICT_LAST, EVICT_NORMAL } EvictHint; /* default: nothing was asked */
/* SPLIT: tf32x3 by warpgroups; a GPU's pass alone asks for it (gpu/split_dots.c) */
typedef enum {
  PRECISION_TF32,
  PRECISION_TF32X3,
  PRECISION_IEEE,
  PRECISION_BF16X3,
  PRECISION_BF16X6,
  PRECISION_SPLIT
} DotPrecision;
enum { RING_WAITS_FOR_NONE = -1 }; /* a ring_wait's `pending`: threads meet, whatever copies are under way */
typedef enum { HINT_DIVISIBLE, HINT_CONTIGUOUS, HINT_CONSTANT } HintKind;
/* while's attr `waits`: whether it may wait for other programs (passes/waits.c) */
typedef enum { WAIT_NONE, WAIT_LOOKS, WAIT_WORKS } Wait;
/* for's attr `flags` */
enum { LOOP_FLATTEN = 1, LOOP_WARP_SPECIALIZE = 2, LOOP_NO_LICM = 4, LOOP_NO_MULTI_BUFFER = 8 };

typedef struct Value Value;
typedef struct Op Op;
typedef struct Block Block;

/* What the analysis (analysis/axis_info.c) knows of an integer or pointer value, per dim: the value is a multiple of
 * `divisible` (of the first element of each contiguous run; for pointers in bytes); runs of `contiguous` consecutive
 * elements grow by one element; groups of `constant` elements are equal. Scalars have rank 1 here. */
typedef struct AxisInfo {
  int64_t divisible[MAX_RANK]; /* powers of two, at most AXIS_INFO_MOST */
  int64_t contiguous[MAX_RANK];
  int64_t constant[MAX_RANK];
  uint8_t mostly[MAX_RANK]; /* how most neighbours differ: MOSTLY_*. No promise: it serves choices alone */
  int non_negative;         /* of an integer's elements: whether they are, SIGN_* */
} AxisInfo;
/* Nobody knows; not at all; by one element; by 2..4; by a constant that is no multiple of 16 (channels that lie apart
 * by a filter's 9 elements); by a number that the launch gives, no multiple of 16 as far as its divisors say: a stride.
 */
enum { MOSTLY_FAR, MOSTLY_EQUAL, MOSTLY_NEXT, MOSTLY_NEAR, MOSTLY_ODD, MOSTLY_STRIDE };
/* Nothing is known; taken to be so because arguments of kernels are sizes, strides and offsets (what Triton takes all
 * integers for where it divides runs); shown; shown, and made of constants, arange and program_id, whose sums and
 * products are taken to fit 32 bits. */
enum { SIGN_UNKNOWN, SIGN_ASSUMED, SIGN_KNOWN, SIGN_INDEX };
#define AXIS_INFO_MOST ((int64_t)1 << 30)

struct Value {
  const Type *type;
  Op *def;          /* NULL for arguments of a Func or of a block */
  Block *block;     /* of a block argument: that block; else NULL */
  int index;        /* among its op's results, or its block's arguments */
  int id;           /* unique within the Func: index for side tables, [0, func->value_count) */
  const char *name; /* a name from the source, or NULL; for readers only */
  AxisInfo *axis;   /* NULL until tile_axis_info() */
  /* which thread holds which element: NULL until layout_choose() (layout/layout.h), and of scalars */
  const struct Layout *layout;
  Value *replacement; /* set by value_replace: this value stands for that one; resolved by tile_replace_uses() */
  void *note;         /* scratch of the pass or back end that is running */
};

struct Op {
  OpCode code;
  Block *block;
  Op *prev, *next;
  int in_count, out_count;
  Value **in;
  Value **out;
  Block *body[2]; /* regions */
  union {         /* attributes, under the names of ops.def; a name is at one place whatever the operation (attr.c) */
    int64_t attr[4];
    struct {
      union {
        int64_t value, axis, start, reorder, rounding, nan, fn, pred, cache, kind, precision, descending, slots,
            pending, unaligned, num_stages, waits, acquire, region, hex, undefined, pure;
        int64_t variant; /* whichever of these it has: of scalar_binary(), of a step of a launch's plan */
      };
      union {
        int64_t end, evict, sem, async, reverse, pack, inner, unroll, bitonic;
      };
      union {
        int64_t is_volatile, scope, own, flags, imprecise;
      };
      union {
        int64_t cluster, parts;
      };
    };
  };
  double number;    /* "number" */
  const char *text; /* "text" */
  int64_t *dims;    /* "dims" */
  int dim_count;
  const Span *span; /* where in the source; with the chain of inlined calls */
  void *note;
};

struct Block {
  Op *first, *last;
  int arg_count;
  Value **args;
  Op *parent; /* NULL for the Func's body */
};

/* How a run-time argument slot of a Func is filled from a launch's arguments. */
typedef enum { SLOT_ARG, SLOT_DESC_BASE, SLOT_DESC_SHAPE, SLOT_DESC_STRIDE } SlotKind;
/* Two arguments through which no byte is accessed twice: a launch checks it (gpu/disjoint.h). */
typedef struct ApartArgs {
  int x, y;
  const struct ApartArgs *next;
} ApartArgs;

typedef struct Func {
  Context *cx;
  const char *name;
  Block *body;            /* its args are the kernel's run-time parameters */
  int64_t *arg_divisible; /* per argument: 16 when promised, else 1 (pointers: bytes of the address) */
  int value_count;
  int num_warps, num_stages, num_ctas; /* launch options, for back ends that care */
  bool debug;
  bool no_fusion;          /* products and sums of floats are rounded each */
  int max_registers;       /* of a GPU's thread; 0: as many as it needs */
  int stages_missed;       /* num_stages of a loop whose ring has fewer slots, for want of shared memory; 0: none */
  int maps_missed;         /* tiles that no tensor map brings since a kernel has no more of them */
  const char *unturned;    /* why a product goes by single warps (gpu/turn_dots.c); NULL: none does for its layout */
  const char *not_in_tmem; /* why the sums of a product on tensor cores are in registers (gpu/tmem.c); NULL: none's are,
                              or there is no tensor memory */
  const char *unspecialized; /* why no warps of its own copy tiles (gpu/specialize.c); NULL: they do, or nobody asked */
  const char *unclustered;   /* then why blocks share none of the tiles (gpu/specialize_cluster.c); NULL: they do, or
                              * nobody asked */
  int squares;               /* what layouts are priced by: SQUARES_... (layout/layout.h) */
  bool persistent;        /* a loop runs its programs (gpu/persist.c); the last three arguments are how many: x, y, z */
  unsigned holds;         /* FUNC_...: what the passes so far saw to */
  struct ArgReach *reach; /* of its arrays (gpu/disjoint.h); NULL: not known */
  const ApartArgs *apart; /* NULL: none are known */
  bool *written_once;     /* by argument: no program stores to an address through it twice; NULL: not known of any */
  struct Instrument *instrument; /* its regions are timed (tile/passes/instrument.h); NULL: not */
} Func;

/* ---- build.c: making operations ---------------------------------------------------------------------------------- */

typedef struct Builder {
  Func *func;
  Block *block;
  Op *before;       /* insert before this; NULL: at the end of block */
  const Span *span; /* given to each new operation */
} Builder;

Func *func_create(Context *cx, const char *name);
Value *func_add_arg(Func *f, const Type *type, const char *name, int64_t divisible);
Block *block_create(Func *f, Op *parent); /* and makes it the first body of `parent` that is still NULL */
Value *block_add_arg(Func *f, Block *b, const Type *type, const char *name);
int block_uses(const Block *b, const Value *v); /* how often the block, and blocks in it, take v */

/* The general form: out_types has out_count entries. The op is inserted; attributes are set by the caller afterwards.
 */
Op *build_op(Builder *b, OpCode code, int in_count, Value *const *in, int out_count, const Type *const *out_types);
/* Shorthands; result types are inferred. Operands must already agree (no broadcasting here). */
Value *build_int(Builder *b, const Type *t, int64_t v); /* const; t may be a tensor, any number type */
Value *build_float(Builder *b, const Type *t, double v);
Value *build_unary(Builder *b, OpCode code, Value *x);
Value *build_binary(Builder *b, OpCode code, Value *x, Value *y);
Value *build_cmp(Builder *b, CmpPred p, Value *x, Value *y);
Value *build_select(Builder *b, Value *c, Value *x, Value *y);
Value *build_math(Builder *b, MathFn fn, int n, Value *const *in);
Value *build_convert(Builder *b, Value *x, Dtype to); /* no-op when equal */
Value *build_bitcast(Builder *b, Value *x, const Type *to_elem);
Value *build_addptr(Builder *b, Value *ptr, Value *offset);
Value *build_splat(Builder *b, Value *scalar, int rank, const int32_t *shape);
Value *build_broadcast(Builder *b, Value *x, int rank, const int32_t *shape); /* same rank; no-op when equal */
Value *build_expand_dims(Builder *b, Value *x, int axis);
Value *build_reshape(Builder *b, Value *x, int rank, const int32_t *shape);
Value *build_trans(Builder *b, Value *x, const int64_t *perm);
Value *build_load(Builder *b, Value *ptr, Value *mask, Value *other); /* mask, other may be NULL */
Op *build_store(Builder *b, Value *ptr, Value *value, Value *mask);
Value *build_dot(Builder *b, Value *a, Value *x, Value *acc, DotPrecision precision);
Value *build_arange(Builder *b, int64_t start, int64_t end);
void build_yield(Builder *b, int n, Value *const *values);

/* for passes that give an op or block another result or argument */
Value *value_create(Func *f, const Type *type, int index);
bool value_is_const(const Value *v, int64_t *out); /* an integer const (scalar, tensor or splat of one) */
/* a constant, or a view of one, of which each element's bits are zero: -0.0's are not */
bool value_is_zero(const Value *v);
int64_t int_wrap(Dtype t, int64_t v);             /* v cut to an integer type's bits and extended by its sign */
void op_remove(Op *op);                           /* unlinks; its results must have no users left */
void op_move_before(Op *op, Op *place);           /* into place's block */
void value_replace(Value *old, Value *new_value); /* all users of old will see new_value after tile_replace_uses(f) */
Value *value_replacement(Value *v);               /* what stands for v now */
void tile_replace_uses(Func *f);
Op *op_clone(Builder *b, const Op *op, Map *value_map); /* deep; operands mapped where the map has them */
/* Calls fn for every op, outer before inner, in order; fn may remove the op it is given. */
void tile_walk(Block *b, void (*fn)(Op *op, void *arg), void *arg);

/* ---- edit.c: larger changes that keep the IR whole; for passes --------------------------------------------------- */

/* Moves the body's operations, without the one that ends it, before `place`, and sees to it that the body's arguments
 * stand for `args` (arg_count values). Returns the operation that ended the body; its operands are what the body hands
 * on. */
Op *block_splice(Block *body, Value *const *args, Op *place);
/* Takes carried value i out of a `for` or `while`, or result i out of an `if`: operand, result, arguments, and the
 * operands of what ends the bodies. Nothing may use them any more. */
void control_drop(Op *op, int i);
int control_skip(const Op *op); /* operands before the carried ones: for 3, if 1, while 0 */
/* Gives carried value i of a `for` or `while` another type: fresh values for the result and the bodies' arguments. The
 * caller sets the operands, and value_replace()s the old ones, which *result and args[0..1] (of body 0, 1) return. */
void control_retype(Func *f, Op *op, int i, const Type *type, Value **result, Value *args[2]);
/* Gives a `for` one more carried value, last: `init` before the loop, `next` (visible where the body ends) after each
 * turn. Returns the body's argument. */
Value *control_carry(Func *f, Op *loop, Value *init, Value *next);
/* Gives an `if` one more result, last: a of the first body, b of the second one. */
Value *control_result(Func *f, Op *branch, Value *a, Value *b);
bool op_is_pure(const Op *op);  /* no effect at all, bodies included: may be moved, merged, dropped */
bool op_commutes(const Op *op); /* of two operands, whichever is first */
/* Whether two pure operations compute the same, bodies included. `arena`: for what is noted meanwhile. */
bool op_same(Arena *arena, const Op *a, const Op *b);
bool op_same_bodies(Arena *arena, const Block *a, const Block *b);
const Block *value_block(const Value *v); /* in which v is defined */

/* ---- access.c: operands and attributes by name ------------------------------------------------------------------- */

static inline bool op_is_elementwise(const Op *op) { return op_info[op->code].group == GROUP_ELEMENT; }
static inline bool op_is_access(const Op *op) { return op_info[op->code].group == GROUP_MEMORY; }
/* What it loads goes to registers, or to shared memory. */
static inline bool op_is_load(const Op *op) { return op->code == OP_LOAD || op->code == OP_RING_COPY; }
static inline bool op_is_atomic(const Op *op) { return op->code == OP_ATOMIC_RMW || op->code == OP_ATOMIC_CAS; }
/* Of accesses. */
static inline Value *op_pointer(const Op *op) { return op->in[0]; }
int op_mask_at(const Op *op);      /* which operand is the mask; -1: it has none */
Value *op_mask(const Op *op);      /* NULL: all elements */
Value *op_other(const Op *op);     /* what masked elements of a load give; NULL: zeros */
Value *op_value(const Op *op);     /* what is stored, or an atomic's; NULL: a load */
bool op_is_volatile(const Op *op); /* a load that must be done, each time */
MemSem op_sem(const Op *op);       /* of atomics */
MemScope op_scope(const Op *op);   /* likewise */
CacheHint op_cache(const Op *op);  /* of loads and stores */
EvictHint op_evict(const Op *op);  /* likewise */
Wait op_waits(const Op *op);       /* of any operation */

/* ---- view.c ------------------------------------------------------------------------------------------------------ */

bool op_is_view(const Op *op); /* only renames dims: hint, expand_dims, broadcast, trans, splat, reshapes over 1s */
/* For a view operation: operand dim k is result dim map[k], or -1 (index 0). */
void view_map(const Op *op, int8_t map[MAX_RANK]);

/* ---- print.c, parse.c: text that reads back ---------------------------------------------------------------------- */

enum { PRINT_SPANS = 1, PRINT_AXIS_INFO = 2 }; /* "@line:col" after each op; facts as comments */
void tile_print(Buf *out, const Func *f, int flags);
void tile_print_op(Buf *out, const Op *op, int indent, int flags);
/* tile_print with a remark at the end of each operation's first line, if note() writes one. */
typedef void (*TileNote)(Buf *out, const Op *op, void *arg);
void tile_print_noted(Buf *out, const Func *f, int flags, TileNote note, void *arg);
Func *tile_parse(Context *cx, const Source *text); /* fails with a diagnostic */

/* ---- verify.c ---------------------------------------------------------------------------------------------------- */

/* Checks structure, dominance and every operation's type rule; fails with a diagnostic that names the op and the pass.
 */
void tile_verify(Func *f, const char *after);
/* Fails with such a diagnostic, for other verifiers. */
NORETURN void tile_wrong(const Func *f, const char *after, const Op *op, const char *what);

/* ---- passes, one file each; pipeline.c lists them in order ------------------------------------------------------- */

void tile_drop_dims(Func *f);    /* loads and stores of tiles that are reshaped to fewer dims, of these */
void tile_fold_dot_sum(Func *f); /* acc + dot(a, b, 0) is dot(a, b, acc): first, and before the interpreter too */
void tile_fold(Func *f);         /* constants, identities, if/for on constants, splat and broadcast of constants */
void tile_cse(Func *f);          /* pure ops; loads are left alone */
void tile_dce(Func *f);
void tile_spread_hints(Func *f); /* before tile_dce, which drops hints whose results nobody takes */
void tile_licm(Func *f);         /* pure ops out of loops */
void tile_nest_loops(Func *f);   /* loops over all steps of all tiles are two */
void tile_unroll(Func *f);       /* loops of a few iterations are written out */
/* carried pointer/int tensors that grow by a splat become init + splat(carried scalar) */
void tile_canonical_loops(Func *f);
void tile_axis_info(Func *f); /* fills Value.axis */
/* removes assume and hint, after facts; a hint under an `if` about a value from outside it stays */
void tile_drop_hints(Func *f);

/* Which loops may wait for other programs, and what comes after what they waited for: before any device runs it. */
void tile_mark_waits(Func *f);
bool tile_waits(const Func *f); /* whether there is such a loop */

/* Inline PTX as operations, for devices that do not run it (asm/asm.h): before all passes. fails where it cannot. */
void tile_expand_asm(Func *f);

/* For the interpreter: asserts that no element that Triton leaves undefined is stored or decides (passes/undefined.c).
 */
void tile_track_undefined(Func *f);

/* ---- analysis/body_order.c: in which order a reduction's body may combine ---------------------------------------- */

typedef enum { BODY_ORDERED, BODY_FREE, BODY_SYMMETRIC } BodyOrder;
BodyOrder tile_body_order(const Op *op);
/* The only operation of the body, when that takes both arguments of a single tensor: its code; else OP_COUNT. */
OpCode tile_body_single(const Op *op);

/* contract.c: what a pass needs, gives and keeps, of Func.holds. */
enum {
  FUNC_NO_LAYOUTS = 1,      /* no value has a layout */
  FUNC_CANONICAL_LOOPS = 2, /* what grows evenly in a loop was made a scalar */
  FUNC_AXIS_INFO = 4,       /* all integers, pointers and masks have Value.axis */
  FUNC_NO_HINTS = 8,        /* but what tile_drop_hints leaves */
  FUNC_ACCESS_INFO = 16,    /* as FUNC_AXIS_INFO, of the tensors of pointers and masks that accesses take */
  FUNC_LAYOUTS = 32,        /* all tensors have a layout */
  FUNC_ALL = 63
};
typedef struct PassContract {
  unsigned needs, gives, keeps;
} PassContract;
/* Before a pass: fails where what it needs does not hold. */
void tile_pass_begin(Func *f, const char *name, const PassContract *c);
/* After it: what holds now; with verify, tile_verify and whether that is so. */
void tile_pass_end(Func *f, const char *name, const PassContract *c, bool verify);
bool tile_loop_grows(const Op *op); /* canonical.c: a loop that is not in canonical form */

typedef struct PassInfo {
  const char *name;
  void (*run)(Func *f);
  PassContract contract;
} PassInfo;
extern const PassInfo tile_passes[]; /* ends with name NULL */
/* Runs tile_passes in order. dump_after: a pass's name or "all" (may be NULL); the text goes to dump. Verifies between
 * passes when `verify`. */
void tile_optimize(Func *f, const char *dump_after, Buf *dump, bool verify);

/* ---- scalar.c: the meaning of one element; used by folding and by the interpreter -------------------------------- */

/* A number in a register: floats as double (an f32 value is exactly representable), ints sign- or zero-extended by
 * type. */
typedef union Scalar {
  double f;
  int64_t i;
} Scalar;
Scalar scalar_load(Dtype t, const void *p);
void scalar_store(Dtype t, void *p, Scalar v);
Scalar scalar_binary(OpCode code, Dtype t, Scalar x, Scalar y, int64_t attr); /* add..mulhi; rounds to t */
Scalar scalar_unary(OpCode code, Dtype t, Scalar x);
bool scalar_cmp(CmpPred p, Dtype t, Scalar x, Scalar y);
Scalar scalar_fma(Dtype t, Scalar x, Scalar y, Scalar z);
Scalar scalar_math(MathFn fn, const Dtype *in_types, Dtype out_type, const Scalar *in);
/* The C function of base/mathfn.h for fn on these types: "nd_erfinvf". */
void math_c_name(MathFn fn, int n, const Dtype *in, char out[48]);
Scalar scalar_convert(Dtype from, Dtype to, int rounding, Scalar x);
Scalar scalar_bitcast(Dtype from, Dtype to, Scalar x);

#endif
