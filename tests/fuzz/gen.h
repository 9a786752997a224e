/* gen: makes random valid kernels in the Triton language, with their arguments and, for each output, how far two right
 * devices may be apart. What random_kernels.c (which runs and compares them) and the parts of the generator share.
 *
 * Every value of a kernel that is being made carries what is known of it (Val): type, shape, a range that holds
 * whatever the inputs are, and for floats
 *
 *   step   all values are multiples of 2^step: while they also fit the type's mantissa, sums and products are exact in
 * any order and with or without fused multiply-adds, so that devices must agree bit for bit err    else: a bound of how
 * far apart the value may be on two devices, carried through each operation (a sum adds bounds, a product weighs them
 * with the other factor's range, exp multiplies with its largest value, ...)
 *
 * Where a small difference would become a large one (comparisons, sort keys with payload, float -> int) only values
 * with err = 0 are used. Ranges keep indices in bounds, divisors away from zero and shift counts below the width.
 */
#ifndef NEREID_TESTS_GEN_H
#define NEREID_TESTS_GEN_H

#include <nereid.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_RANK = 4, MAX_PARAMS = 48, MAX_ARRAYS = 3, MAX_NAMES = 3, MAX_NUMEL = 2048, NO_STEP = 9999 };

/* ---- the kernel that comes out ----------------------------------------------------------------------------------- */

/* PARAM_ALIAS: a pointer to element i of the array of parameter `of` */
typedef enum { PARAM_IN, PARAM_OUT, PARAM_ALIAS, PARAM_INT, PARAM_FLOAT, PARAM_BOOL, PARAM_CONSTEXPR } ParamKind;
typedef enum { FILL_QUANTIZED, FILL_NORMAL, FILL_SPECIAL, FILL_INTS } FillKind;

typedef struct Param {
  ParamKind kind;
  char name[12];
  nereid_dtype t;
  int64_t count; /* arrays: elements */
  FillKind fill;
  int64_t lo, hi; /* FILL_INTS: values; FILL_QUANTIZED: k of k * 2^step */
  int step;
  bool edges;        /* FILL_INTS: the type's extremes too */
  bool place_at_end; /* the array ends at a page nobody may touch; else it begins there, aligned */
  int of;            /* PARAM_ALIAS */
  int64_t i;         /* numbers */
  double f;
  double tolerance, relative; /* PARAM_OUT, floats: |a - b| <= tolerance + relative * |b| */
} Param;

typedef struct RandomKernel {
  char *text;               /* malloc'ed */
  Param params[MAX_PARAMS]; /* in the order of the kernel's parameters */
  int param_count;
  int64_t grid[3];
  int num_warps, num_stages, num_ctas; /* 0: as usual */
  bool persist, specialize;            /* as in nereid_options, likewise: */
  const char *without;
} RandomKernel;

/* The kernel is named `kernel`; one seed always makes the same one. */
void random_kernel_make(RandomKernel *k, uint64_t seed);
void random_kernel_free(RandomKernel *k);
void random_fill(const Param *p, void *data, uint64_t seed);

/* ---- inside the generator ---------------------------------------------------------------------------------------- */

typedef __int128 Int;

typedef struct Val {
  char name[12];
  nereid_dtype t;
  int rank, shape[MAX_RANK];
  Int lo, hi;      /* integers */
  double flo, fhi; /* floats; of finite values when `special` */
  double err;
  int step;
  int terms;     /* of a dot: its products, to which an addition may be the first term; else 0 */
  bool special;  /* may be NaN or infinite */
  bool fresh;    /* bits are certain too: no zero of doubtful sign, no NaN */
  bool terminal; /* to be stored only: `rel` bounds its error, which no operation carries on */
  double rel;
  int uses;
} Val;

typedef struct Text {
  char *at;
  size_t n, cap;
} Text;
void text_vprint(Text *t, const char *format, va_list ap);
void text_print(Text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An array that is read and written (gen_in_place.c): rows * columns elements a program, and its parameters. */
typedef struct Array {
  nereid_dtype t;
  int rows, columns, name_count;
  struct {
    char name[12];
    int shift; /* where it begins */
  } names[MAX_NAMES];
} Array;

enum { POOL = 600, MAX_LOOPS = 4 };
typedef struct Gen {
  RandomKernel *k;
  uint64_t random;
  Text helpers, body;
  Text *out; /* where statements go */
  int indent, next_id;
  Val pool[POOL];
  int count, base; /* a helper sees the pool from base on */
  bool in_helper;
  int depth;  /* of control flow and helpers */
  bool plain; /* little but loops of products, with tiles that machines have copies for */
  struct {
    char counter[12];
    int trips;
  } loops[MAX_LOOPS]; /* around this statement */
  int loop_count;
  int dims[3]; /* the extents that shapes are made of */
  int64_t programs;
  Array arrays[MAX_ARRAYS];
  int array_count;
} Gen;

/* gen_core.c: chance, text, types, ranges */
uint32_t draw(Gen *g, uint32_t below);
bool chance(Gen *g, int percent);
int64_t draw_between(Gen *g, int64_t lo, int64_t hi);
void line(Gen *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
int new_id(Gen *g);

bool is_float(nereid_dtype t);
bool is_fp8(nereid_dtype t);
/* Tensor cores of sm_90 keep 14 bits of a sum of fp8's products (bench/results/h200.md): of 32 products and what was
 * there, each loses up to 2^-13 of the largest. A sum is exact if 11 bits more than it has would be. */
enum { FP8_CUT = 1 << 11 };
static inline double fp8_sum_error(double terms, double most) { return 0x1p-13 * (1 + terms / 32) * most; }
bool is_signed(nereid_dtype t);
int width(nereid_dtype t);    /* bits; 1 for i1 */
int mantissa(nereid_dtype t); /* bits with the hidden one */
double unit(nereid_dtype t);  /* half an ulp of 1 */
double float_max(nereid_dtype t);
Int int_min(nereid_dtype t);
Int int_max(nereid_dtype t);
const char *tl_name(nereid_dtype t); /* "tl.float32" */

double val_max(const Val *v); /* largest absolute value */
int64_t numel(const Val *v);
bool exact_in(double max, int step, nereid_dtype t);
Val scalar_int(nereid_dtype t, Int lo, Int hi);
void set_int_range(Val *v, Int lo, Int hi); /* the type's whole range when it may wrap */
void set_shape(Val *v, int rank, const int *shape);
bool same_shape(const Val *a, const Val *b);
bool broadcast_shape(const Val *a, const Val *b, Val *out); /* false: do not broadcast, or too large */
bool cast_val(const Val *v, nereid_dtype t, Val *out);      /* false: the cast is not defined for all of v's values */
/* false: may overflow. rounded: the operation rounds differently on devices */
bool float_result(Val *v, bool rounded);
bool promote(const Val *a, bool a_const, const Val *b, bool b_const, bool weak, bool divides, nereid_dtype *out);

/* x brought to tile's shape, to which it broadcasts */
void spread_text(const Val *x, const Val *tile, char *text, size_t n);
Val *emit(Gen *g, Val v, const char *format, ...) __attribute__((format(printf, 3, 4))); /* v12 = ...; into the pool */
Val *add_named(Gen *g, Val v, const char *name);
Param *add_param(Gen *g, ParamKind kind, const char *prefix); /* NULL: enough of them, or inside a helper */
void print_shape(const Val *v, char out[64]);                 /* "[4, 8]" */
void random_shape(Gen *g, int *rank, int *shape);
nereid_dtype random_dtype(Gen *g);
/* The GPU that kernels are made for, as 90 for sm_90: only Triton's fp8 types of it are used. 0: all types. */
extern int gen_sm;
nereid_dtype gpu_dtype(nereid_dtype t); /* t, or an fp8 type that the GPU has */

/* Which values an operation takes. */
typedef enum {
  WANT_INT = 1,
  WANT_BOOL = 2,
  WANT_FLOAT = 4,
  WANT_FP8 = 8,
  WANT_ANY = 15,
  WANT_EXACT = 16, /* err = 0 */
  WANT_FINITE = 32,
  WANT_BLOCK = 64,
  WANT_SCALAR = 128,
} Want;
bool fits_want(const Val *v, int want);
Val *pick(Gen *g, int want);                        /* NULL: there is none */
Val *pick_with(Gen *g, const Val *other, int want); /* one that broadcasts with `other` */
Val *pick_into(Gen *g, const Val *other, int want); /* one that broadcasts to the shape of `other` */

/* gen_elementwise.c */
bool make_elementwise(Gen *g);
bool make_condition(Gen *g, char *text, size_t n); /* a scalar i1 expression */
bool make_constant(Gen *g);
bool make_random_numbers(Gen *g);
/* gen_tile.c */
bool make_shape_op(Gen *g);
bool make_reduction(Gen *g);
bool make_scan_or_sort(Gen *g);
bool make_dot(Gen *g);
extern const char combine_functions[];
/* gen_memory.c */
bool make_load(Gen *g);
bool store_value(Gen *g, Val *v);
bool make_atomic(Gen *g);
Val input_array(Gen *g, Param *p, nereid_dtype t); /* decides how the array is filled; the Val of an element */
/* An address for each element of a tile: `text` is "p + ..." without the pointer's name; span: elements touched from
 * the pointer on. */
typedef struct Access {
  char offsets[600], mask[700];
  bool masked;
  int64_t span;
} Access;
bool make_access(Gen *g, int rank, const int *shape, bool unique, bool by_program, Access *a);
void number_text(Gen *g, int64_t n, char out[24]); /* n itself, or an argument's name */
/* The text of the number of this program and iteration of the loops around; how many there are. */
int64_t place(Gen *g, char *out, size_t n);

/* gen_operands.c: the tiles of a loop of dots */
typedef struct Turns {
  int block, trips, total; /* total: elements that there are */
  int from, step;          /* of the loop's variable */
  bool masked, down;
  char turn[12], first[12], index[12]; /* the variable; the iteration's first element; all of them */
  char total_text[24];
} Turns;
typedef enum { LOAD_INDEXED, LOAD_WALKING, LOAD_BLOCK, LOAD_ADVANCED_BLOCK, LOAD_DESCRIPTOR } LoadKind;
typedef struct DotOperand {
  Param *p;
  nereid_dtype t; /* of the tile in the dot; of its elements: */
  double max;
  int step;
  int lines, limit, batch; /* limit: lines that there are */
  int pitch;               /* elements from one row in memory to the next */
  int64_t slab;            /* and from one matrix of a batch to the next */
  LoadKind how;
  bool across;      /* the loop goes across the rows in memory */
  bool lines_first; /* in the tile that is loaded */
  bool wraps;       /* lines past the limit begin anew; else they are masked */
  bool changes;     /* each iteration stores its tile where the next one's lies */
  bool converted, doubled;
  char name[12], at[12], base[260]; /* the tile; pointers or descriptor; where the program's part of the array begins */
  char limit_text[24], pitch_text[24];
} DotOperand;
void begin_turns(Gen *g, Turns *t, int block, int trips);
void put_turns(Gen *g, const Turns *t);
bool begin_operand(Gen *g, const Turns *t, DotOperand *o, nereid_dtype type, int batch, int lines);
void load_operand(Gen *g, const Turns *t, const DotOperand *o, bool lines_first);
/* gen_products.c */
const char *random_precision(Gen *g, nereid_dtype t); /* an argument of tl.dot for operands of type t */
bool make_product_loop(Gen *g);
/* gen_scaled.c */
bool make_scaled_product(Gen *g);
/* gen_in_place.c */
bool make_in_place(Gen *g);
/* gen_control.c */
void make_statements(Gen *g, int n);

#endif
