/* fuse: a tensor graph (graph/graph.h) to Triton kernels, as a person would write them, and the plan that runs them.
 *
 *     split.c    long reductions in two steps
 *     group.c    which tensors are stored, and which of them one kernel computes together
 *     index.c    where an element lies: sums of digits of the kernel's index variables, simplified
 *     value.c    a tensor's value at an index, as lines of Triton; views cost nothing but their index
 *     kernel_*.c one kernel: elementwise, reductions, scans, scatters, products
 *     plan.c     all kernels in order
 *     memory.c   what lies where, and when
 *     program.c  what nereid.h promises: read, plan, run, check
 *
 * Eager: a kernel for each operation that computes something; views are part of the kernel that reads them. */
#ifndef NEREID_FUSE_H
#define NEREID_FUSE_H

#include "graph/graph.h"

/* ---- index.c: an element's place --------------------------------------------------------------------------------- */

/* A variable of a kernel: a block of indices in [0, extent). */
typedef struct IndexVar {
  const char *text; /* "x" */
  const char *mask; /* of elements that are there; NULL: all are */
  const Size *extent;
  unsigned bit; /* 1 << its place among the tile's axes; 0: the same in all of the tile */
} IndexVar;

/* factor * (var // below % size); size NULL: up to the variable's extent */
typedef struct IndexTerm {
  const IndexVar *var;
  const Size *factor, *below, *size;
} IndexTerm;
typedef struct Index {
  int n;
  IndexTerm *at;
  const Size *constant;
} Index;

Index index_constant(Graph *g, const Size *v);
Index index_var(Graph *g, const IndexVar *v);
Index index_add(Graph *g, Index a, Index b);
Index index_scale(Graph *g, Index a, const Size *by);
/* a // by and a % by, where that can be said with terms. 0 <= a. */
bool index_divide(Graph *g, Index a, const Size *by, Index *quotient, Index *rest);
/* Indices of each dim of a shape, from one that counts its elements row by row; dims with skip[d] (NULL: none) get 0.
 */
bool index_split(Graph *g, Index a, int rank, const Size *const *size, const bool *skip, Index *out);
/* Of a view's operand, for an index of its result; false: it takes more than terms (padding, concatenations). */
bool fuse_view_index(Graph *g, const Tensor *t, const Index *at, Index *in);
void index_print(Buf *out, const Index *a);
const char *index_text(Graph *g, const Index *a);
unsigned index_bits(const Index *a);
/* The row-major places of an index into `size`: one Index from rank ones. */
Index index_linear(Graph *g, int rank, const Size *const *size, const Index *at);

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

typedef struct FuseKernel {
  const char *name; /* of the function */
  const char *text; /* its source */
  int buffer_count;
  Tensor **buffers; /* its pointer arguments, in order: inputs of the graph and stored tensors */
  int symbol_count;
  const Symbol **symbols; /* integer arguments behind them */
  bool seed;              /* and one argument more: the seed of random numbers */
  /* programs: the product over three axes of ceil(size / block) */
  const Size *grid[3]; /* NULL: one program */
  int64_t block[3];
  int constant_count; /* block sizes, as constexpr arguments */
  const char *constant_names[4];
  int64_t constants[4];
  int member_count;
  Tensor **members; /* operations that it computes, for --explain */
  int num_warps;    /* 0: the default */
} FuseKernel;

typedef struct FusePlan {
  Graph *g;
  Map *names; /* of functions */
  VEC(FuseKernel *) kernels;
  bool *stored;               /* by tensor's id: has a buffer */
  Tensor **alias;             /* by id: whose buffer it shares, row-major alike; or NULL */
  bool helpers[REDUCE_COUNT]; /* its combine function is needed */
  const char *text;           /* the whole file */
} FusePlan;

typedef struct FuseOptions {
  bool eager;
} FuseOptions;
FusePlan *fuse_plan(Graph *g, const FuseOptions *o);
void fuse_explain(Buf *out, const FusePlan *p);

/* ---- split.c: before the plan ------------------------------------------------------------------------------------ */

void fuse_split_reductions(Graph *g);

/* ---- memory.c ---------------------------------------------------------------------------------------------------- */

typedef struct FuseMemory {
  int count;               /* slots */
  int *slot;               /* by tensor's id; -1: it has none */
  int64_t *bytes;          /* of each slot */
  int64_t total, unshared; /* of all slots; of all stored tensors */
} FuseMemory;
/* bytes: of each tensor, by id. place: INT32_MAX, or it lies in the caller's memory. */
FuseMemory *fuse_memory(const FusePlan *p, const int64_t *bytes, const int *place);
const Tensor *fuse_base(const FusePlan *p, const Tensor *t); /* whose memory it has */

/* ---- group.c ----------------------------------------------------------------------------------------------------- */

typedef enum { FUSE_POINT, FUSE_REDUCE, FUSE_SCAN, FUSE_SCATTER, FUSE_PRODUCT } FuseKind;
typedef struct FuseGroup {
  FuseKind kind;
  int n;
  Tensor **roots;      /* stored by it, operands first */
  const Tensor *space; /* REDUCE: one whose operand says the space and whose dims are reduced */
} FuseGroup;
/* Fills p->stored and p->alias; the groups in the order of launches, ended by NULL. */
FuseGroup **fuse_groups(FusePlan *p, const FuseOptions *o);

/* ---- value.c ----------------------------------------------------------------------------------------------------- */

typedef struct FuseValue {
  const char *text;
  unsigned bits; /* axes of the tile along which it varies */
  bool literal;
  bool loaded; /* as it stands in memory; zeros where a mask says that it is not there */
} FuseValue;

typedef struct Writer { /* one kernel under construction */
  Context *cx;
  Graph *g;
  const FusePlan *plan;
  FuseKernel *kernel;
  Buf body;
  int indent;
  Map *memo;    /* text of tensor, index and conditions -> FuseValue */
  Map *held;    /* Tensor -> FuseValue: computed by this kernel, whatever the index (reductions) */
  Map *names;   /* taken */
  Map *buffers; /* Tensor -> name of its pointer */
  VEC(Tensor *) buffer_list, members;
  VEC(const Symbol *) symbols;
  VEC(const char *) conditions; /* of padding, innermost last */
  unsigned condition_bits;
  VEC(const IndexVar *) vars; /* the tile's axes */
  const FuseGroup *group;
} Writer;

Writer *writer_create(FusePlan *p, const FuseGroup *group, const char *name);
void writer_line(Writer *w, const char *format, ...) PRINTF_LIKE(2, 3);
const char *writer_name(Writer *w, const char *wanted); /* a variable of that name, or nearly so */
const char *writer_size(Writer *w, const Size *s);      /* its text; its symbols become arguments */
/* A variable of the kernel, one of the tile's axes unless bit is 0. */
const IndexVar *writer_var(Writer *w, const char *text, const char *mask, const Size *extent, unsigned bit);
Map *writer_enter(Writer *w); /* a loop's body: what is computed in it ends with it; returns what leaves it */
void writer_leave(Writer *w, Map *outside);
FuseValue writer_value(Writer *w, Tensor *t, const Index *at);
void writer_store(Writer *w, Tensor *t, const Index *at, FuseValue v);
const char *writer_mask(Writer *w, const Index *at, int extra_n, const Index *extra); /* NULL: none is needed */
const char *writer_buffer(Writer *w, Tensor *t);
const char *triton_type(Dtype t);         /* "tl.float32" */
const char *triton_compute_type(Dtype t); /* float32 for narrower floats */
/* Ends the kernel: its head with arguments and constants before the body. */
FuseKernel *writer_finish(Writer *w);
void writer_constant(Writer *w, const char *name, int64_t value);
void writer_split(Writer *w, Index a, int rank, const Size *const *size, const bool *skip, Index *out); /* must work */
void writer_source(Writer *w); /* a comment of the lines that it covers */

/* ---- kernel_*.c -------------------------------------------------------------------------------------------------- */

const char *fuse_kernel_name(FusePlan *p, const FuseGroup *group);
/* "tl.program_id(0)", of 64 bits where indices up to `extent` need them */
const char *kernel_program(Writer *w, int axis, const Size *extent);
FuseKernel *kernel_point(FusePlan *p, const FuseGroup *group);
FuseKernel *kernel_reduce(FusePlan *p, const FuseGroup *group);
FuseKernel *kernel_scan(FusePlan *p, const FuseGroup *group);
FuseKernel *kernel_scatter(FusePlan *p, const FuseGroup *group); /* onto a copy that the caller has made */
FuseKernel *kernel_product(FusePlan *p, const FuseGroup *group);

#endif
