/* emit: what the files of src/cpu share while one Func becomes C text. Private to the folder.
 *
 * The way of a Func:
 *
 *   index.c    what of it is index arithmetic: an integer or pointer tensor as base + sum of coefficient * index
 *   plan.c     which operations share a loop nest (Group), which values must be kept (Buffer, View), in what order
 *   buffer.c   where each buffer stands in the scratch area
 *   emit.c     the frame of the text; control.c: scalars and control flow; nest.c: a Group's loops;
 *   element.c  one elementwise operation; access.c: loads, stores, masks; induction.c: where the next ones are;
 * reduce.c; library.c  dot, sort, scan, ...; text.c: small pieces of C text; cc.c: that text to loaded code
 *
 * A tensor value is one of
 *   recomputable    index arithmetic, constants, masks made of them: written anew wherever it is needed, never kept;
 *   inline     computed in the loop nest of the one Group that needs it, in vector registers;
 *   kept       written to a Buffer by a Group or a library operation, and read through its View.
 */
#ifndef NEREID_CPU_EMIT_H
#define NEREID_CPU_EMIT_H

#include "cpu/cpu.h"
#include "tile/analysis/provenance.h"

/* ---- index.c ----------------------------------------------------------------------------------------------------- */

/* A scalar 64-bit expression; equal ones are the same pointer. */
typedef struct Sym Sym;
typedef enum { SYM_CONST, SYM_VALUE, SYM_ADD, SYM_MUL } SymKind;
struct Sym {
  SymKind kind;
  int64_t number; /* SYM_CONST */
  Value *value;   /* SYM_VALUE: a scalar of the IR, sign- or zero-extended by its type */
  Sym *l, *r;
  Sym *chain;        /* of the hash table */
  const char *local; /* the C variable that holds it in the nest being written, or NULL */
};

/* A tensor that index arithmetic does not explain, times a factor: part of an Index. */
typedef struct Term {
  Value *value;         /* an integer or pointer tensor */
  int8_t dim[MAX_RANK]; /* value's dim k is this dim of the whole, or -1: always index 0 */
  Sym *scale;
} Term;

/* element [i0, i1, ...] = base + sum_d coef[d] * i_d + sum_t scale_t * term_t[...]; pointers count bytes. */
enum { MAX_TERMS = 4 };
typedef struct Index {
  Sym *base;
  Sym *coef[MAX_RANK];
  int term_count;
  Term term[MAX_TERMS];
} Index;

/* ---- plan.c ------------------------------------------------------------------------------------------------------ */

typedef struct Group Group;
typedef struct Gemm Gemm;

typedef struct Buffer {
  int id;
  Dtype dtype; /* of an element as it stands in memory; pointers: I64 */
  int64_t count;
  int64_t place;      /* byte offset in the scratch area */
  int first, last;    /* the steps between which it is alive */
  const char *before; /* C text: bytes of it that are not there, since a nest works on later rows alone; or NULL */
} Buffer;

/* Where a kept value stands: element [i0, ...] is at offset + sum stride[d] * i_d, in elements. */
typedef struct View {
  Buffer *buffer;
  int64_t offset;
  int64_t stride[MAX_RANK];
} View;

typedef enum { ROOT_KEEP, ROOT_STORE, ROOT_REDUCE, ROOT_ATOMIC } RootKind;
/* What a Group is for. Everything else in its nest is there because a root needs it. */
typedef struct FusionRoot {
  RootKind kind;
  Op *op;
  Value *value;         /* ROOT_KEEP: the value to write ... */
  int8_t map[MAX_RANK]; /* ... its dim k runs with this dim of the nest, or -1 */
  View *view;           /* ... and where */
} FusionRoot;

/* A load or write as a nest runs it: dim k of its pointer runs with dim map[k] of the nest, or stands at index 0 (-1).
 */
typedef struct Access {
  Op *op;
  int8_t map[MAX_RANK];
} Access;
typedef VEC(Access) Accesses;

struct Group {
  int id;
  int rank;
  int32_t shape[MAX_RANK];
  int vector_dim; /* or -1: one element */
  VEC(FusionRoot *) roots;
  VEC(Op *) loads;   /* that run in it */
  Accesses accesses; /* the same, as it runs them */
  VEC(Op *) repeats; /* of these, those that an earlier group has loaded before */
  VEC(Buffer *) reads;
  VEC(Buffer *) skewed;  /* of reads, those at another index than the nest's own */
  int step;              /* when it runs, for buffer.c */
  const char *from, *to; /* C text: it runs these rows (dim 0) alone; NULL: all */
};

typedef struct Item { /* one of: a nest, an operation, a copy from buffer to buffer: as it is, or of matrices turned */
  Group *group;
  Op *op;
  Buffer *copy_to, *copy_from;
  int64_t matrices, rows, columns; /* of copy_from; 0: plain */
} Item;
typedef VEC(Item) Plan; /* of one Block */

/* What plan.c tells of an operation that is no part of a nest (Op.note): its operands and results as they are kept. */
typedef struct OpPlan {
  View **in, **out; /* NULL for scalars */
  Buffer **carry;   /* loops: of carried tensor k; `if`: of result k */
  Buffer **carry2;  /* while: of the value k handed from the condition to the body, where not the same */
  Gemm *gemm;       /* for: whose products are added up at once (gemm.c) */
} OpPlan;

typedef struct NestText NestText;
typedef struct SeenAt SeenAt;
/* What the back end knows of a Value (Value.note). */
typedef struct Info {
  Index *index; /* integers and pointers */
  bool index_known;
  int8_t is_recomputable;        /* 0 not asked, 1 yes, -1 no */
  int16_t cost;                  /* of computing it anew, when recomputable */
  int uses;                      /* by operations, all blocks */
  View *view;                    /* where it is kept, or NULL */
  Group *owner;                  /* the group that computes it inline, or that made the scalar */
  bool closed;                   /* kept, and not to be read inside owner's nest */
  int epoch;                     /* loads: the memory's age where the load stands */
  int8_t map[MAX_RANK];          /* in owner's nest */
  int8_t transpose_asked;        /* plan.c: whether a load was looked at, for vectors along which dim + 1 */
  int visit, visit_ok, demanded; /* stamps of plan.c */
  int walk;                      /* memory.c: the walk that met it last ... */
  SeenAt *seen;                  /* ... at these indices */
  const Op *taken_along;         /* plan: of a load that waits, the last write whose nest could run it */
  const char *name;              /* its C variable (scalars) */
  NestText *text;                /* what the nest being written has of it */
} Info;

/* Two arguments of which a plan takes that their arrays do not overlap; or_same: or that they begin at one address. */
typedef struct ArgPair {
  int a, b;
  bool or_same;
} ArgPair;

typedef struct Emit {
  Func *f;
  Context *cx;
  Arena *arena;
  Info *info; /* by Value.id */
  int info_count;
  const Provenance *provenance;
  Sym *sym_table[256];
  ArgumentOverlap arguments; /* what the plan takes of two of them */
  VEC(ArgPair) apart;        /* of ARGS_DISJOINT: the pairs on which it relies */
  Map *plans;                /* Block -> Plan */
  int stamp, walk;
  VEC(Buffer *) buffers;
  VEC(Buffer *) memos; /* of packed operands (gemm.c), which hold nothing when a thread begins */
  /* while planning: values that cost nothing to compute anew, and are kept for an operation that takes memory (fuse.c)
   */
  VEC(Info *) materialized_recomputable;
  int group_count;
  int step;
  int64_t scratch;
  Buf *out;
  CpuTextUse use;
  int indent;
  int serial;    /* for fresh names */
  int last_line; /* of the source, already quoted */
  const Source *last_source;
  const Value *unrounded; /* a narrow float that nobody but a store takes: the store rounds it */
  bool met_slow;          /* a vector operation has been written that takes long, one after the other */
  bool uses_status;
  bool waits; /* programs may wait for each other */
} Emit;

static inline Info *info_of(Emit *e, const Value *v) { return &e->info[v->id]; }

/* index.c */
Sym *sym_const(Emit *e, int64_t n);
Sym *sym_value(Emit *e, Value *v);
Sym *sym_add(Emit *e, Sym *a, Sym *b);
Sym *sym_mul(Emit *e, Sym *a, Sym *b);
bool sym_is(const Sym *s, int64_t n);
Index *index_of(Emit *e, Value *v);     /* NULL: not an integer or pointer */
bool index_is_plain(Emit *e, Value *v); /* an Index without terms */
bool index_equal(const Index *a, const Index *b, int rank);
bool value_is_recomputable(Emit *e, Value *v);
/* A nest writes an address out of its Index (access.c), so it reads the terms of that, also where the pointers
 * themselves are kept. How many terms operand i of op has; 0 when it is read as it stands. */
int address_terms(Emit *e, const Op *op, int i, const Term **terms);

/* plan.c */
void plan_function(Emit *e);

/* memory.c */
bool loads_here(const Group *g, const Op *op); /* whether the group runs that load itself */

/* plan_verify.c */
void plan_verify(Emit *e);
/* The plan holds for arguments that do not overlap: those of two accesses. */
void plan_relies_apart(Emit *e, const Op *a, const Op *b);

/* spans.c: the text of nereid_apart(), where the plan relies on arrays that do not overlap */
void write_apart(Emit *e);

/* buffer.c */
Buffer *buffer_new(Emit *e, const Type *t);
View *view_row_major(Emit *e, Buffer *b, const Type *t);
bool view_is_compact(const View *v, const Type *t);
void place_buffers(Emit *e);

/* ---- traits.c ---------------------------------------------------------------------------------------------------- */

/* The micro-kernel of a dot; other types are widened to it. */
typedef enum { DOT_F32, DOT_F64, DOT_I32, DOT_BF16, DOT_I8 } DotKind;
DotKind dot_kind(const Op *op);
const Op *simple_body(const Op *op); /* the one operation of a body that commutes, of both arguments; or NULL */
bool reduces_wide(const Op *op);     /* a sum of narrow floats, kept in f32 */

/* ---- text.c: the small pieces of C text -------------------------------------------------------------------------- */

Dtype type_dtype(const Type *t);                                    /* pointers: I64 */
Dtype held_dtype(Dtype d);                                          /* what a register holds: narrow floats are f32 */
void emit_line(Emit *e, const char *format, ...) PRINTF_LIKE(2, 3); /* an indented line to e->out */
void quote_source(Emit *e, Buf *out, int indent, const Span *span); /* the source line as a comment, once */
char *emit_text(Emit *e, const char *format, ...) PRINTF_LIKE(2, 3);
const char *value_name(Emit *e, Value *v);       /* of a scalar's C variable */
const char *fresh_name(Emit *e, const Value *v); /* for a variable in a nest */
const char *emit_literal(Emit *e, Dtype d, int64_t i, double f);
const char *const_text(Emit *e, const Op *op); /* of a CONST, as a scalar */
const char *scalar_text(Emit *e, Value *v);    /* a literal or a variable */
/* The scratch address of a buffer's first byte, an int64_t. */
const char *buffer_text(Emit *e, const Buffer *b);
void write_argument(Emit *e, int k, Value *v); /* its variable, from `args` */

/* ---- element.c --------------------------------------------------------------------------------------------------- */

/* The C expression of an elementwise operation, on scalars or on vectors; in: its operands. */
const char *element_text(Emit *e, const Op *op, const char *const *in, bool vector);
/* Vector text of a scalar variable or literal. */
const char *splat_text(Emit *e, Dtype d, const char *scalar);
/* Whether a body has only elementwise operations and constants, so that vectors can run it. */
bool body_is_elementwise(const Block *b);

/* ---- control.c --------------------------------------------------------------------------------------------------- */

void emit_block(Emit *e, const Block *b); /* its items, without its last operation */
void emit_item(Emit *e, const Item *item);
/* A body on scalars (of reduce, scan, map): args are bound to the names given; the yielded names are returned. */
void emit_body(Emit *e, const Block *b, const char *const *args, const char **out);
/* The same on vectors. */
void emit_vector_body(Emit *e, const Block *b, const char *const *args, const char **out);

/* ---- induction.c ---------------------------------------------------------------------------------------------------- */

/* What s gains from one program to the next along x, or from one iteration of `loop` to the next, as C text; NULL: not
 * known. */
const char *induction_stride_of(Emit *e, const Sym *s, const Op *loop);

/* ---- nest.c, library.c ------------------------------------------------------------------------------------------- */

void emit_group(Emit *e, Group *g);
void emit_library_op(Emit *e, Op *op);

#endif
