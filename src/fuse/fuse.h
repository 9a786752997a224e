/* fuse: a tensor graph (graph/graph.h) to Triton kernels, as a person would write them, and the plan that runs them.
 *
 *     algebra.c  expressions that are something simpler
 *     split.c    long reductions in two steps
 *     parts.c    and those that depend on others
 *     sort.c     sorts in steps
 *     sets.c     sets of tensors and of groups
 *     group.c    which tensors are stored, and which of them one kernel computes together
 *     beside.c   and what is launched together
 *     index.c    where an element lies: sums of digits of the kernel's index variables, simplified
 *     value.c    a tensor's value at an index, as lines of Triton; views cost nothing but their index
 *     phases.c   what is joined, part by part
 *     law.c      which reductions can be computed before what they depend on is known, and how they are corrected
 *     online.c   the lines of such a correction
 *     stream.c   products that are computed again where they are needed, and not stored
 *     bounds.c   what a mask leaves of a row
 *     kernel_*.c one kernel: elementwise, reductions, scans, scatters, sorts, products, convolutions
 *     tiles.c    the tiles of products
 *     product.c  products that a library does, and what stands around them
 *     choose.c   who does a product
 *     convolve.c who computes a convolution
 *     layout.c   what lies in memory in another order of dims
 *     race.c     and who is the fastest
 *     kernel_list.c  all kernels in order
 *     text.c     and as a file
 *     memory.c   what lies where, and when
 *     program.c  what nereid.h promises: read, plan, check
 *     run.c      and run
 *     step.c     one launch
 *     blas.c     one product of a library: openblas.c, cublas.c
 *     dnn.c      one convolution of a library: onednn.c, cudnn.c
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
  bool narrow;  /* it has 32 bits: what is computed of it may need more */
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
bool index_is_wide(const Size *extent); /* indices up to there may not fit 32 bits */
const char *index_text(Graph *g, const Index *a);
unsigned index_bits(const Index *a);
/* The least and the greatest that it comes to; false: who knows. */
bool index_range(Graph *g, const Index *a, int64_t *least, int64_t *most);
/* The row-major places of an index into `size`: one Index from rank ones. */
Index index_linear(Graph *g, int rank, const Size *const *size, const Index *at);

/* ---- product.c: products by a library ----------------------------------------------------------------------------- */

/* An operand as a matrix for each batch, in a stored tensor or an input (blas.h); sizes in elements. */
typedef struct FuseMatrix {
  Tensor *array;
  bool across;
  const Size *first, *lead, *batch;
} FuseMatrix;
typedef struct FuseLibrary {
  Tensor *product;
  const Size *m, *n, *k, *batches;
  FuseMatrix a, b;
} FuseLibrary;

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

typedef struct FuseKernel {
  const char *name; /* of the function */
  const char *text; /* its source; NULL: that of an earlier kernel of this name */
  int buffer_count;
  Tensor **buffers; /* its pointer arguments, in order: inputs of the graph and stored tensors */
  /* of each: the place where elements are read and written, as text; NULL: none is, or at several places */
  const char **loaded_at, **stored_at;
  bool *writes; /* of each: it stores there */
  int symbol_count;
  const Symbol **symbols; /* integer arguments after them */
  bool checks;            /* it has assertions */
  bool seed;              /* and one argument more: the seed of random numbers */
  /* programs: the product over three axes of ceil(size / block) */
  const Size *grid[3]; /* NULL: one program */
  int64_t block[3];
  bool flat;          /* axes 0 and 1 are launched as one, of as many programs as both */
  int constant_count; /* block sizes, as constexpr arguments */
  const char *constant_names[4];
  int64_t constants[4];
  int member_count;
  Tensor **members;           /* operations that it computes, for --explain */
  int num_warps;              /* 0: the default */
  bool repeats;               /* an earlier kernel is the same function, with the same constants */
  const char *notes;          /* lines for --explain: which reductions were merged, and why not; or NULL */
  const FuseLibrary *library; /* a library does it: buffers are a, b and the product; text is a comment. NULL: not */
  const Tensor *convolution;  /* likewise: buffers are its two operands and itself */
} FuseKernel;

typedef struct FuseTarget { /* what sizes of tiles are chosen for */
  enum { TARGET_ANY, TARGET_CPU, TARGET_GPU } kind;
  int processors; /* threads, or multiprocessors */
  int sm;         /* of a GPU: 90 for 9.0 */
} FuseTarget;

/* Who does products and convolutions, on which device, with which sizes (a value for each of the graph's symbols). */
typedef struct FuseProducts {
  enum { PRODUCTS_AUTO, PRODUCTS_OWN, PRODUCTS_LIBRARY, PRODUCTS_KEPT } who;
  enum { LAYOUTS_AUTO, LAYOUTS_CONTIGUOUS, LAYOUTS_CHANNELS_LAST } layouts; /* of a library's convolutions */
  struct nereid_device *device;                                             /* NULL: none in particular */
  const int64_t *symbols;
  struct Blas **blas; /* its library; opened when it is first asked for */
  bool no_library;    /* which could not be opened */
  struct Dnn **dnn;   /* that of convolutions; NULL: none is asked */
  Buf *notes;         /* lines for --explain, or NULL */
} FuseProducts;

typedef struct FusePlan {
  Graph *g;
  Map *names; /* of functions */
  VEC(FuseKernel *) kernels;
  bool *stored;     /* by tensor's id: has a buffer */
  Tensor **alias;   /* by id: whose buffer it shares, row-major alike; or NULL */
  unsigned helpers; /* functions that kernels call, by their bits in text.c's table */
  bool no_online;
  bool parts; /* what is written now is part of a kernel: beside.c */
  FuseTarget target;
  FuseProducts products;
  Map *outcomes;         /* choose.c's, of products so far */
  unsigned char *stream; /* by tensor's id: a StreamPart */
  const char *text;      /* the whole file */
} FusePlan;

typedef struct FuseOptions {
  bool eager;
  bool no_online; /* dependent reductions are computed in loops of their own */
  FuseTarget target;
  FuseProducts products;
} FuseOptions;
FusePlan *fuse_plan(Graph *g, const FuseOptions *o);
/* share.c: a kernel's text without comments, its own names numbered; kernels alike get the first's name */
void fuse_unnamed(Buf *out, const char *text);
void fuse_share(FusePlan *p);
/* text.c: the file; a function that kernels call is in it where one of them says so */
const char *fuse_text(const FusePlan *p);
void fuse_need_helper(const FusePlan *p, const char *name);
const char *fuse_neutral(Context *cx, Reduction kind, Dtype t); /* the element that changes no result */
void fuse_explain(Buf *out, const FusePlan *p);
void fuse_plot(Buf *out, const FusePlan *p); /* SVG */
const char *fuse_operation_name(const Tensor *t);

/* ---- pipeline.c, algebra.c, parts.c, sort.c, split.c: before the plan -------------------------------------------- */

/* The passes, in order. Fails, as an internal error, where one leaves a graph that is not as it says. */
void fuse_optimize(Graph *g, const FuseOptions *o);
void fuse_convolutions(Graph *g, const FuseOptions *o); /* convolve.c: each is ours, or a library's */
void fuse_layouts(Graph *g);                            /* layout.c: work on tensors in the order in which they lie */
void fuse_drop_empty(Graph *g);                         /* what has no elements is a constant */
void fuse_simplify(Graph *g);
void fuse_split_dependent(Graph *g, const FuseTarget *target); /* before the next: sums that depend on others */
enum { FUSE_HELD = 16384 }; /* elements of a row that a program holds; a longer one goes by */
/* How a reduction becomes two: its dims [begin, end) are reduced first, in that many parts of the first of these. */
typedef struct FuseCut {
  int begin, end;
  int64_t parts; /* 1: it is not cut */
  int dim;       /* the one that is cut, and its size */
  const Size *whole;
  int64_t each; /* elements of a part where they do not come out even, and the last one has fewer; else 0 */
} FuseCut;
bool fuse_cut(Graph *g, const Tensor *t, const FuseTarget *target, FuseCut *out); /* false: it stays one */
/* A tensor of the operand's rank, with one more dim, of parts, if there are any: its sizes, how many they are; it. */
int fuse_cut_sizes(Graph *g, const FuseCut *c, const Tensor *t, const Size **size);
Tensor *fuse_cut_shape(Graph *g, const FuseCut *c, Tensor *t, double number);   /* which fills the last part up */
Tensor *fuse_cut_parts(Graph *g, const FuseCut *c, const Tensor *t, Tensor *x); /* of t, whose operand is x so shaped */
Tensor *fuse_cut_whole(Graph *g, const FuseCut *c, const Tensor *t, Tensor *parts); /* t, of its parts */
/* Each operation by what a rule makes of it, in order; NULL: it stays. */
typedef Tensor *(*FuseRule)(Graph *g, Tensor *t, const FuseTarget *target);
void fuse_rewrite(Graph *g, FuseRule rule, const FuseTarget *target);

void fuse_sort_in_steps(Graph *g, const FuseTarget *target);
void fuse_split_reductions(Graph *g, const FuseTarget *target);
void fuse_vector_products(Graph *g, const FuseTarget *target); /* split.c: products with a vector are sums */

/* ---- layout.c ---------------------------------------------------------------------------------------------------- */

/* An image or filter [n, channels, ..] with its channels last, and back: a reshape where that moves nothing. */
Tensor *fuse_channels_last(Graph *g, Tensor *x);
Tensor *fuse_channels_second(Graph *g, Tensor *x);
/* The convolution t of such operands, with such a result; g may be another graph than t's. */
Tensor *fuse_turned_convolution(Graph *g, const Tensor *t, Tensor *a, Tensor *b);

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

typedef struct Law Law;

/* ---- sets.c ------------------------------------------------------------------------------------------------------ */

typedef struct Set { /* ascending; never changed */
  int n;
  const int *at;
} Set;
bool set_has(Set s, int v);
bool set_meets(Set a, Set b); /* they have one in common */
int set_union_count(Set a, Set b);
Set set_union(Arena *arena, Set a, Set b); /* a or b itself, where the other adds nothing */
Set set_without(Arena *arena, Set s, int v);

/* ---- group.c ----------------------------------------------------------------------------------------------------- */

typedef enum {
  FUSE_POINT,
  FUSE_REDUCE,
  FUSE_SCAN,
  FUSE_SCATTER,
  FUSE_SORT,
  FUSE_PRODUCT,
  FUSE_STREAM,
  FUSE_CONVOLUTION
} FuseKind;
typedef struct FuseGroup {
  FuseKind kind;
  int n;
  Tensor **roots;           /* stored by it, operands first */
  const Tensor *space;      /* REDUCE: one whose operand says the space and whose dims are reduced */
  Set reads;                /* ids of inputs and of other groups' roots */
  struct FuseGroup *beside; /* what is launched with it, or NULL */
} FuseGroup;
/* The index of a root at a place among the elements of its group's space, through transposes of that. */
bool fuse_root_index(Graph *g, const Tensor *t, Index linear, Index *out);
/* Whether a reduction goes along neighbours in memory, if its operand lies there as its dims say. */
bool fuse_goes_along_rows(const Tensor *reduce);
/* The index of a product's epilogue where the product has `at`. */
bool fuse_epilogue_index(Graph *g, const Tensor *product, const Tensor *t, const Index *at, Index *out);
Tensor *fuse_unshaped(Tensor *t); /* what it is a reshape of: as row-major arrays they are one */
/* Fills p->stored and p->alias; the groups in the order of launches, ended by NULL. */
FuseGroup **fuse_groups(FusePlan *p, const FuseOptions *o);

/* ---- beside.c ---------------------------------------------------------------------------------------------------- */

/* Groups in the order of launches, ended by NULL; of those that are launched together the first one. */
FuseGroup **fuse_beside(FusePlan *p, FuseGroup **groups);
FuseKernel *kernel_beside(FusePlan *p, const FuseGroup *groups, FuseKernel *(*write)(FusePlan *, const FuseGroup *));

/* ---- stream.c: products that are never stored --------------------------------------------------------------------- */

/* A product with few terms, computed again in tiles where it is needed (TILE), and what needs it: reductions along its
 * rows or columns (REDUCE), and products with it, or with what is made of it, as left or right operand. */
typedef enum { STREAM_NONE, STREAM_TILE, STREAM_REDUCE, STREAM_LEFT, STREAM_RIGHT } StreamPart;
/* A kernel's axes: batches, the rows that a program keeps, the places of a row that go by, and such of which a program
 * has all: the terms of tiles, and the columns of products' results. */
typedef struct Stream {
  Graph *g;
  const FusePlan *plan;
  const bool *root; /* while groups are made */
  const FuseGroup *group;
  const Size *batches, *rows, *length;
  const IndexVar *batch, *m, *k;
  VEC(const IndexVar *) d; /* one for each extent */
} Stream;
void stream_find(FusePlan *p, bool *root); /* marks plan->stream, and takes tiles from the roots */
bool stream_is_sink(const FusePlan *p, const Tensor *t);
Tensor *stream_operand(const FusePlan *p, const Tensor *t); /* of a sink: what goes by */
void stream_space(Stream *s, const Tensor *sink);           /* sets its sizes; and axes, where there are none yet */
const IndexVar *stream_axis(Stream *s, const Size *extent);
const IndexVar *stream_columns(Stream *s, const Tensor *sink); /* of a product */
/* The index of the operand that goes by, and of a sink's result; false: the axes do not fit. */
bool stream_operand_index(Stream *s, const Tensor *sink, Index *at);
bool stream_result_index(Stream *s, const Tensor *sink, Index *at);
/* Of another root: it has one element for each row, or for each of one product's of the group. */
bool stream_root_index(Stream *s, const Tensor *t, Index *at);
/* Whether the group can compute t, one of its roots, in its loop; NULL: it can; else what stands against it. */
const char *stream_refuses(Stream *s, Tensor *t);
/* Whether the group, with t, a sink, in it, reads or computes something once for both, and does not hold too much. */
bool stream_shares(Stream *s, const Tensor *t);
Law *stream_law(Stream *s, Tensor *sink); /* NULL: it depends on no reduction of the group */

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
  Map *memo;                  /* text of tensor, index and conditions -> FuseValue */
  Map *held;                  /* Tensor -> FuseValue: computed by this kernel, whatever the index (reductions) */
  Map *names;                 /* taken */
  Map *buffers;               /* Tensor -> name of its pointer */
  Map *loaded_at, *stored_at; /* Tensor -> text; "" for several */
  VEC(Tensor *) buffer_list, members;
  VEC(const Symbol *) symbols;
  VEC(const char *) conditions; /* of padding, innermost last */
  unsigned condition_bits;
  bool part;  /* of a kernel, which gives it the number of its program */
  bool raw;   /* loads keep their type, where others are of f32 */
  bool zeros; /* what a mask leaves out of a load is 0, and not anything */
  /* of a place whose neighbours in memory are not those of the tile's only axis: x // turned_below % turned_size is */
  const Size *turned_below, *turned_size;
  bool turned_flat; /* and it has no other neighbours */
  /* what all divides at which a digit of the axis run_bit changes, in loads: between two multiples of it, places go by
   * steps that stay the same. 0: no digit changes; 1: at sizes that are not known, too */
  int64_t run;
  unsigned run_bit;
  VEC(const IndexVar *) vars; /* the tile's axes */
  /* a digit of the first axis, x // phase_below % phase_size, that decides which part of something joined is asked for
   * (phases.c); phase_size 0: there is none */
  int64_t phase_below, phase_size;
  bool phased; /* the kernel is written so: the places where it stores count for `run`, too */
  const FuseGroup *group;
  const struct StreamTiles *tiles;                                    /* of a stream kernel */
  FuseValue (*tile_at)(struct Writer *w, Tensor *t, const Index *at); /* how it computes a product again */
  bool last_use; /* of what is loaded and stored for a whole tile: the cache need not keep it */
  Buf notes;     /* FuseKernel.notes */
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
void writer_know(Writer *w, const Tensor *t, const Index *at, FuseValue v); /* what the tensor is there, from here on */
void writer_hold(Writer *w, const Tensor *t, FuseValue v);                  /* likewise at every index, and in loops */
/* An integer as a sum of indices; false: it is none. */
bool writer_affine(Writer *w, Tensor *t, const Index *at, Index *out);
void writer_store(Writer *w, Tensor *t, const Index *at, FuseValue v);
const char *writer_mask(Writer *w, const Index *at, int extra_n, const Index *extra); /* NULL: none is needed */
/* The kernel fails where i, of t's index, is not among n. */
void writer_check_index(Writer *w, const Tensor *t, FuseValue i, const Size *n, const char *mask);
const char *writer_buffer(Writer *w, Tensor *t);
const char *triton_type(Dtype t);         /* "tl.float32" */
const char *triton_compute_type(Dtype t); /* float32 for narrower floats */
/* Ends the kernel: its head with arguments and constants before the body. */
FuseKernel *writer_finish(Writer *w);
void writer_constant(Writer *w, const char *name, int64_t value);
void writer_split(Writer *w, Index a, int rank, const Size *const *size, const bool *skip, Index *out); /* must work */
void writer_source(Writer *w); /* a comment of the lines that it covers */

/* ---- phases.c: elementwise kernels of what is joined --------------------------------------------------------------- */

enum { FUSE_PHASES = 8 };
/* The digits of x that are the same in all that one phase computes, and what x is without them: one after the other. */
typedef struct FusePhases {
  int digits, count; /* of phases: the product of the sizes */
  int64_t below[FUSE_PHASES], size[FUSE_PHASES];
} FusePhases;
/* at // step, of what is asked for, is one of `count`. */
void fuse_note_phase(Writer *w, const Index *at, int64_t step, int64_t count);
/* One digit more, as the kernel that was written has noted it; false: it noted none, or phases would be too many. */
bool fuse_add_phase(const Writer *w, FusePhases *phases);
/* x of a phase, from an index without its digits; false: it takes more than terms. */
bool fuse_phase_index(Graph *g, const FusePhases *phases, int phase, Index rest, Index *x);

/* ---- law.c: reductions before what they depend on is known --------------------------------------------------------- */

enum { LAW_MOST_LIVE = 32 };
/* factor * row: by how much a value of the row moves a shift. late: taken for 0 until it is known */
typedef struct LawTerm {
  double factor;
  Tensor *row;
  const Index *at;
  bool late;
} LawTerm;
typedef VEC(LawTerm) LawTerms;
/* What node is made of but for in[keep] is a value of the row, and comes out of the sum: as a factor, a divisor, or a
 * late term. */
typedef enum { LAW_TIMES, LAW_OVER, LAW_LATE } LawHow;
typedef struct LawFactor {
  Tensor *node;
  const Index *at;
  int keep;
  LawHow how;
} LawFactor;
typedef VEC(LawFactor) LawFactors;
/* The operand is weight * exp(exponent + ...) * shift^shifts * factors, and 0 where `only` does not hold. */
struct Law {
  const char *why; /* there is none; NULL: there is */
  LawTerms exponent;
  bool base2;
  int shifts; /* 0 to 2; of a maximum or minimum 1 */
  Tensor *shift, *weight, *only;
  const Index *shift_at, *weight_at, *only_at;
  bool only_not; /* where `only` holds */
  LawTerms shift_terms;
  LawFactors factors;
};
typedef struct LawSearch {
  Graph *g;
  const FusePlan *plan;
  const FuseGroup *group;
  const bool *root; /* while groups are made: what is stored; NULL: the plan knows */
  unsigned bit;     /* of the variable that runs along the row */
  Tensor *live[LAW_MOST_LIVE];
  bool corrected[LAW_MOST_LIVE]; /* it has a law itself */
  int live_count;                /* the reductions of the loop */
} LawSearch;
/* How the reduction of `operand`, asked for at an index, is corrected when the live reductions change. */
Law *law_find(LawSearch *k, Tensor *operand, Reduction kind, const Index *at);
bool law_depends(LawSearch *k, Tensor *t, const Tensor *on); /* a live reduction, directly */
const char *law_text(Graph *g, const Law *law, Reduction kind);

/* ---- online.c ---------------------------------------------------------------------------------------------------- */

typedef struct OnlineRow { /* a value of the row that a law names: as it was, and as it is */
  Tensor *row;
  const Index *at;
  const char *old, *now;
  bool late, fixed; /* not known in the loop; the same in all of the loop */
} OnlineRow;
typedef struct Online {
  Writer *w;
  const char *shape; /* of references: "[X, 1]" */
  unsigned bits;     /* the tile's axes along which they vary */
  VEC(OnlineRow) rows;
  VEC(Tensor *) live; /* the reductions that rows depend on */
  bool ended;
} Online;
typedef struct OnlineMove { /* what changes: sums by a factor, shifts by a difference; NULL: not */
  const char *factor, *shift;
} OnlineMove;
void online_add(Online *o, const LawSearch *k, const Law *law); /* before the loop, for each law */
void online_start(Online *o); /* before the loop; sums that rows depend on are held: what they are taken for */
bool online_needs(const Online *o, const Tensor *reduction);
/* In the loop, when the accumulator of a maximum or minimum is up to date. */
void online_refer(Online *o, Tensor *reduction, const char *accumulator);
OnlineMove online_move(Online *o, const Law *law); /* from the rows as they were to what they are */
void online_carry(Online *o);                      /* at the loop's end */
void online_end(Online *o);                        /* after the loop: from here on rows are what they really are */
FuseValue online_factors(Writer *w, const Law *law, FuseValue v, unsigned bits); /* applies what was taken out */
void online_strip(Writer *w, const Law *law); /* in the loop: what is taken out is 1 */

/* ---- bounds.c ---------------------------------------------------------------------------------------------------- */

/* The first place of a row that matters to a program, and the one after the last; NULL: all do. */
void stream_bounds(Stream *s, Writer *w, const char **begin, const char **end);

/* ---- kernel_*.c -------------------------------------------------------------------------------------------------- */

const char *fuse_kernel_name(FusePlan *p, const FuseGroup *group);
/* What a library makes of a and b, the group's one root: a launch without a kernel of ours, and without its text. */
FuseKernel *fuse_library_kernel(FusePlan *p, const FuseGroup *group, Tensor *a, Tensor *b);
/* "tl.program_id(0)", of 64 bits where indices up to `extent` need them */
const char *kernel_program(Writer *w, int axis, const Size *extent);
FuseKernel *kernel_point(FusePlan *p, const FuseGroup *group);
FuseKernel *kernel_reduce(FusePlan *p, const FuseGroup *group);
FuseKernel *kernel_scan(FusePlan *p, const FuseGroup *group);
FuseKernel *kernel_scatter(FusePlan *p, const FuseGroup *group); /* onto a copy that the caller has made */
FuseKernel *kernel_sort(FusePlan *p, const FuseGroup *group);
FuseKernel *kernel_stream(FusePlan *p, const FuseGroup *group);
FuseKernel *kernel_convolution(FusePlan *p, const FuseGroup *group);

/* ---- tiles.c ----------------------------------------------------------------------------------------------------- */

typedef struct FuseTile {
  int64_t m, n, k;
  int num_warps; /* 0: the default */
  int64_t steps; /* of k that are summed on their own */
} FuseTile;
/* Where a product stands: alone, or in a stream as the one whose tiles go on, or one that takes what is made of them.
 */
typedef enum FusePlace { ALONE, IN_STREAM, OF_TILES } FusePlace;
/* Of a product's operands there, as tl.dot's input_precision. */
const char *fuse_precision(const FuseTarget *target, const Tensor *product, FusePlace place);
/* The tile of a product [m, k] x [k, n] of `batches`; a size that is not known counts as large. */
FuseTile fuse_tile(const FuseTarget *target, const Tensor *t, const Size *m, const Size *n, const Size *k,
                   const Size *batches);
/* The same, and those that may do as well, at most `most`, likely ones first. dims: m, n, k, batches. */
int fuse_tiles(const FuseTarget *target, const Tensor *t, const Size *const dims[4], FuseTile *out, int most);
void product_dims(Graph *g, const Tensor *product, const Size *dims[4]);
FuseKernel *kernel_product(FusePlan *p, const FuseGroup *group, FuseTile tile);

/* ---- product.c ---------------------------------------------------------------------------------------------------- */

/* Whether the product's operands are matrices that a library takes. */
bool product_as_library(FusePlan *p, Tensor *product, FuseLibrary *out);
/* Adds the kernels of a product's group to the plan: the library's product, and then its epilogue. */
void product_by_library(FusePlan *p, const FuseGroup *group, const FuseLibrary *l, const char *notes);

/* ---- choose.c ----------------------------------------------------------------------------------------------------- */

void product_add(FusePlan *p, const FuseGroup *group); /* the same, by who p->products says */

#endif
