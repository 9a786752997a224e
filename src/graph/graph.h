/* graph: what a tensor program computes, as a graph of few primitive operations (graph.def).
 *
 * A Tensor is an operation and its one result: element type, sizes, operands. It says what each element is, not where
 * it lies: a view is an operation like any other, and costs nothing unless somebody has to store it. Sizes are
 * polynomials of symbols, so that one graph serves many shapes.
 *
 *     graph @softmax[n](%0 x: f32[n, 1000]) {
 *       %m = reduce %x {kind=max, dims=[1]} : f32[n, 1]
 *       %a = expand %m : f32[n, 1000]
 *       %d = sub %x, %a : f32[n, 1000]
 *       ...
 *       return %y
 *     }
 *
 * All of a graph lies in its context's arena. Operations are made in an order in which operands come first. */
#ifndef NEREID_GRAPH_H
#define NEREID_GRAPH_H

#include "base/base.h"

enum { GRAPH_MAX_RANK = 16 };

typedef enum {
#define GRAPH_OP(id, name, operands, group, attributes) GRAPH_##id,
#include "graph/graph.def"
  GRAPH_OP_COUNT
} GraphOp;

typedef enum {
#define POINT(id, name, operands, result, triton, c) POINT_##id,
#include "graph/graph.def"
  POINT_COUNT
} PointOp;

typedef enum {
#define REDUCTION(id, name, result) REDUCE_##id,
#include "graph/graph.def"
  REDUCE_COUNT
} Reduction;

typedef enum {
#define SCATTER_MODE(id, name, triton, c) SCATTER_##id,
#include "graph/graph.def"
  SCATTER_COUNT
} ScatterMode;

typedef enum {
#define CONVOLUTION_PART(id, name) CONVOLUTION_##id,
#include "graph/graph.def"
  CONVOLUTION_PARTS
} ConvolutionPart;

typedef enum {
  CLASS_CREATE,
  CLASS_POINT,
  CLASS_REDUCE,
  CLASS_SCAN,
  CLASS_VIEW,
  CLASS_MEMORY,
  CLASS_PRODUCT
} GraphClass;
typedef enum { RESULT_FLOAT, RESULT_SAME, RESULT_INT, RESULT_TEST, RESULT_SELECT, RESULT_CONVERT } PointResult;

typedef struct GraphOpInfo {
  const char *name;
  int least, most; /* operands; most -1: any number */
  GraphClass group;
  const char *attributes;
} GraphOpInfo;
typedef struct PointInfo {
  const char *name;
  int operands;
  PointResult result;
  const char *triton;
} PointInfo;
/* An attribute: where it is in struct Tensor. */
typedef enum {
  GRAPH_ATTR_INT,
  GRAPH_ATTR_WORD,
  GRAPH_ATTR_NUMBER,
  GRAPH_ATTR_DIMS,
  GRAPH_ATTR_SIZE,
  GRAPH_ATTR_SIZES
} GraphAttrType;
typedef struct GraphAttr {
  const char *name;
  GraphAttrType type;
  int slot;                 /* of INT and WORD: in Tensor.attr */
  const char *const *words; /* of WORD: by number; NULL after the last */
} GraphAttr;
enum { GRAPH_MAX_ATTRS = 6 };
int graph_attrs(GraphOp op, const GraphAttr *out[GRAPH_MAX_ATTRS]); /* how many, in the row's order */
extern const GraphOpInfo graph_ops[GRAPH_OP_COUNT];
extern const PointInfo graph_points[POINT_COUNT];
extern const char *const graph_reductions[REDUCE_COUNT + 1]; /* NULL after the last */
extern const char *const graph_scatter_modes[SCATTER_COUNT + 1];
extern const char *const graph_convolution_parts[CONVOLUTION_PARTS + 1];
extern const char *const graph_scatter_triton[SCATTER_COUNT]; /* "atomic_add" */
int graph_point_named(const char *name);                      /* PointOp, or -1 */
int graph_reduction_named(const char *name);                  /* Reduction, or -1 */
int graph_scan_named(const char *name);                       /* GraphOp, or -1 */

/* ---- size.c: sizes ----------------------------------------------------------------------------------------------- */

/* A polynomial with integer coefficients: "s0*s1 + 4". One object a value within a graph: compare by pointer. */
typedef struct Symbol {
  const char *name;
  int index; /* among graph->symbols */
} Symbol;
enum { SIZE_MAX_DEGREE = 6 };
typedef struct SizeTerm {
  int64_t factor;
  int degree;
  const Symbol *symbols[SIZE_MAX_DEGREE]; /* by index, ascending */
} SizeTerm;
typedef struct Size {
  int n;           /* terms; 0: the size is 0 */
  SizeTerm *terms; /* in one order; no factor is 0 */
  const char *text;
} Size;

typedef struct Graph Graph;
const Size *size_int(Graph *g, int64_t v);
const Size *size_symbol(Graph *g, const char *name); /* makes it when it is not there */
const Size *size_add(Graph *g, const Size *a, const Size *b);
const Size *size_sub(Graph *g, const Size *a, const Size *b);
const Size *size_mul(Graph *g, const Size *a, const Size *b);
/* a / b where it has no remainder for any value of the symbols; else NULL. */
const Size *size_divide(Graph *g, const Size *a, const Size *b);
bool size_is_int(const Size *s, int64_t *out);
bool size_is(const Size *s, int64_t v);
const Size *size_product(Graph *g, int n, const Size *const *sizes);
/* With a value for each of the graph's symbols. False: it does not fit in 63 bits. */
bool size_value(const Size *s, const int64_t *symbols, int64_t *out);

/* ---- the graph --------------------------------------------------------------------------------------------------- */

typedef struct Tensor Tensor;
struct Tensor {
  GraphOp op;
  PointOp point; /* of GRAPH_POINT */
  Dtype dtype;
  int rank;
  const Size **size; /* its shape */
  int in_count;
  Tensor **in;
  union { /* attributes, under the names of graph.def; a name is at one place whatever the operation (table.c) */
    int64_t attr[5];
    struct {
      union {
        int64_t dim, kind, start, stream, word, block, run, tf32, is_state; /* is_state: of an input */
      };
      union {
        int64_t step, mode, descending, kept, part, is_complex; /* is_complex: of an input of pairs */
      };
      union {
        int64_t window, groups;
      };
      union {
        int64_t dilation, way;
      };
      int64_t channels_last;
    };
  };
  int dim_count;
  union {
    int64_t *dims, *between;
  };
  int before_count;
  const Size **before;
  union {
    const Size *first, *extent;
  };
  double number;
  const char *name; /* the user's variable, or NULL */
  Span span;        /* in the user's file */
  int id;           /* its place in graph->at */
  int uses;         /* graph_count_uses() */
  Tensor *now;      /* of a program that is being read: what its memory holds since it was written, or NULL */
  void *view;       /* of GRAPH_DETACH: what it is a view of (read/in_place.c), or NULL */
  void *rule;       /* of GRAPH_DETACH: how the reader differentiates it, or NULL (read/grad.c) */
  void *note;       /* scratch of who is at work */
};

static inline bool graph_is_view(const Tensor *t) { return graph_ops[t->op].group == CLASS_VIEW; }

typedef struct GraphWrite {
  Tensor *input, *value;
} GraphWrite; /* an input that gets another value at the end */

struct Graph {
  Context *cx;
  const char *name;
  VEC(Tensor *) at; /* operands first */
  VEC(Tensor *) inputs;
  VEC(Tensor *) outputs;          /* an entry is NULL where the program returns None */
  VEC(const char *) output_names; /* by output; NULL or not there: its tensor's */
  VEC(bool) complex_outputs;      /* by output: pairs of complex numbers; not there: none */
  VEC(GraphWrite) writes;
  VEC(const Symbol *) symbols;
  Map *symbol_map, *sizes; /* name -> Symbol; text -> Size that has symbols */
  Map *numbers;            /* value -> Size */
  Span place;              /* given to each new operation */
  int streams;             /* of random numbers so far */
  Tensor *seed;            /* an input whose one integer is their seed, or NULL: each run is given it */
  void *reader;            /* who has made it from a file, or NULL */
  bool is_written;         /* by the program that is being read: some tensor, in place */
};

Graph *graph_create(Context *cx, const char *name);

/* ---- build.c: one function an operation; each checks its operands and fails at graph->place ----------------------- */

Tensor *graph_input(Graph *g, const char *name, Dtype t, int rank, const Size *const *size);
Tensor *graph_full(Graph *g, Dtype t, int rank, const Size *const *size, double value);
/* Whether all elements are one number, through views and conversions. */
bool graph_is_number(const Tensor *t, double *v);
Tensor *graph_iota(Graph *g, Dtype t, const Size *n, int64_t start, int64_t step);
Tensor *graph_extent(Graph *g, Dtype t, const Size *value);
Tensor *graph_uniform(Graph *g, Dtype t, int rank, const Size *const *size);
/* Operands of one shape, and of types as the row wants them. */
Tensor *graph_point(Graph *g, PointOp op, int n, Tensor *const *in);
Tensor *graph_convert(Graph *g, Tensor *x, Dtype t); /* x itself when it has that type */
Tensor *graph_reduce(Graph *g, Reduction kind, Tensor *x, int n, const int64_t *dims);
Tensor *graph_scan(Graph *g, GraphOp op, Tensor *x, int dim);
Tensor *graph_permute(Graph *g, Tensor *x, const int64_t *dims);
Tensor *graph_reshape(Graph *g, Tensor *x, int rank, const Size *const *size);
Tensor *graph_expand(Graph *g, Tensor *x, int rank, const Size *const *size); /* new leading dims, too */
Tensor *graph_slice(Graph *g, Tensor *x, int dim, const Size *first, const Size *count, int64_t step);
/* before, between: one number a dim, or NULL for zeros */
Tensor *graph_pad(Graph *g, Tensor *x, const Size *const *before, const int64_t *between, const Size *const *size,
                  double value);
Tensor *graph_concat(Graph *g, int n, Tensor *const *in, int dim);
Tensor *graph_unfold(Graph *g, Tensor *x, int dim, int64_t window, int64_t step, int64_t dilation);
/* x, of which gradients know nothing; with `twin`, they take it for twin. Gone when graph_cse has run. */
Tensor *graph_detach(Graph *g, Tensor *x, Tensor *twin);
Tensor *graph_gather(Graph *g, Tensor *x, Tensor *index, int dim);
Tensor *graph_scatter(Graph *g, Tensor *x, Tensor *index, Tensor *src, int dim, ScatterMode mode);
/* Places along dim of its first `count` elements in order: NaN is the largest, -0 is 0, equal ones stay as they come.
 */
Tensor *graph_sort(Graph *g, Tensor *x, int dim, bool descending, const Size *count);
/* The same, of which `places` were found by the next ones: kernels take them, the reference sorts x. */
Tensor *graph_sort_found(Graph *g, const Tensor *sort, Tensor *places);
/* How a sort is done (fuse/sort.c), along the last dim, whose size is known. The reference computes nothing of these.
 */
Tensor *graph_sort_keys(Graph *g, Tensor *x, bool upper, bool descending);
Tensor *graph_sort_blocks(Graph *g, Tensor *keys, int64_t block, int64_t kept);
Tensor *graph_merge_runs(Graph *g, Tensor *keys, int64_t run);
Tensor *graph_product(Graph *g, Tensor *a, Tensor *b, bool tf32); /* tf32: operands of f32 may be rounded to it */
/* A convolution in numbers: image [n, channels, image..], filter [filters, channels / groups, kernel..], result
 * [n, filters, places..]; 1 to 3 dims. Place o has sums of image[o * stride + k * dilation - padding] * filter[k]. */
enum { CONVOLUTION_DIMS = 3 };
typedef struct Convolution {
  ConvolutionPart part;
  int dims;
  int64_t n, channels, filters, groups;
  int64_t image[CONVOLUTION_DIMS], kernel[CONVOLUTION_DIMS], places[CONVOLUTION_DIMS];
  int64_t stride[CONVOLUTION_DIMS], padding[CONVOLUTION_DIMS], dilation[CONVOLUTION_DIMS];
  bool channels_last; /* image [n, image.., channels], filter [filters, kernel.., channels / groups], and the result */
} Convolution;
/* `like` has shape and attributes, in two operands or three. False: that is none; *why says so. */
bool graph_convolution_of(const Tensor *like, Tensor *const *in, Convolution *out, const char **why);
Tensor *graph_convolution(Graph *g, const Tensor *like, int n, Tensor *const *in);
bool graph_same_shape(const Tensor *a, const Tensor *b);
void graph_name_output(Graph *g, int i, const char *name);
const char *graph_output_name(const Graph *g, int i); /* or NULL */
void graph_complex_output(Graph *g, int i);           /* its last dim, of 2, has real and imaginary parts */
static inline bool graph_is_complex_output(const Graph *g, int i) {
  return i < g->complex_outputs.n && g->complex_outputs.at[i];
}
const Size *graph_numel(Graph *g, const Tensor *t);
bool graph_is_empty(Graph *g, const Tensor *t); /* for certain: a size of a symbol is not 0 */
int graph_dim(Graph *g, int64_t dim, int rank); /* -1 is the last; fails when there is none */

/* ---- print.c, parse.c, verify.c, passes.c ------------------------------------------------------------------------ */

void graph_print(Buf *out, const Graph *g);
void graph_print_type(Buf *out, const Tensor *t);    /* "f32[2, n]" */
Graph *graph_parse(Context *cx, const Source *text); /* fails at the line that is wrong */
/* Every operation's rule, once more from the finished graph; fails with the pass's name. */
void graph_verify(Graph *g, const char *after);
Tensor *graph_again(Graph *g, const Tensor *t); /* made anew from its operands and attributes: its rule */
void graph_cse(Graph *g);
void graph_dce(Graph *g); /* keeps all inputs, and puts them first */
void graph_count_uses(Graph *g);

/* ---- reference.c: what is right ---------------------------------------------------------------------------------- */

/* Each value in double precision, computed by plain loops: integers and bools as the types have them, floats never
 * rounded to their type. inputs, outputs: an array of doubles each, row-major; writes, too, where the graph has some
 * (either may be NULL). symbols: a value each. Fails in the graph's context. */
typedef struct GraphValues {
  const int64_t *symbols;
  uint64_t seed;
  double *const *inputs;
  double **outputs, **writes; /* malloc'ed by the callee, the caller's to free */
} GraphValues;
void graph_reference(Graph *g, const GraphValues *v);

#endif
