/* layout: which thread holds which element of a tensor, as linear maps over F2.
 *
 * After Zhou et al., "Linear Layouts" (arXiv 2505.23819). All sizes are powers of two, so an element of a tensor is a
 * string of bits: its flat row-major index, where dim d owns the bits [layout_dim_shift(t, d), + log2 shape[d]) and the
 * last dim the lowest. A place in the machine is a string of bits too: register, lane, warp. A layout maps places to
 * elements, and is linear: the element of (a xor b) is the element of a xor that of b. So one vector per input bit says
 * all:
 *
 *     f32[8,32], 4 warps, each thread 4 columns, 8 lanes along a row, 4 rows a warp ...
 *         reg  0: 1      reg  1: 2                       (columns 0..3)
 *         lane 0: 4      lane 1: 8     lane 2: 16        (columns 0, 4, 8, ..., 28)
 *         lane 3: 32     lane 4: 64                      (rows 0..3)
 *         warp 0: 128    warp 1: 0                       (rows 4..7; warps 2, 3 hold copies of warps 0, 1)
 *
 *     thread (register 1, lane 9, warp 0) = vectors reg 0 ^ lane 0 ^ lane 3 = 1 ^ 4 ^ 32 = row 1, column 5.
 *
 * A zero vector means copies: threads that differ in that bit alone hold the same element. Register vectors are never
 * zero and always independent, so that no thread holds an element twice. Reshape leaves the vectors as they are;
 * transposing permutes the bits of each; a slice (what a reduction leaves, what a broadcast starts from) clears the
 * bits of the dim.
 *
 * Layouts are interned in the Context: equal layouts are the same pointer.
 */
#ifndef NEREID_LAYOUT_H
#define NEREID_LAYOUT_H

#include "tile/tile.h"

/* ---- f2.c: maps over F2 ------------------------------------------------------------------------------------------ */

enum { F2_MAX = 32 };
/* Column i is the image of input bit i. */
typedef struct F2Map {
  int in_bits, out_bits;
  uint32_t column[F2_MAX];
} F2Map;
uint32_t f2_apply(const F2Map *m, uint32_t x);
F2Map f2_identity(int bits);
F2Map f2_compose(const F2Map *outer, const F2Map *inner); /* outer(inner(x)) */
F2Map f2_product(const F2Map *low, const F2Map *high);    /* inputs and outputs side by side, low's first */
F2Map f2_columns(const F2Map *m, int first, int count);   /* the sub-map of some inputs */
int f2_rank(const F2Map *m);
int f2_kernel(const F2Map *m, uint32_t basis[F2_MAX]); /* of what maps to 0; returns its dimension */
int f2_image(const F2Map *m, uint32_t basis[F2_MAX]);  /* reduced: each vector has a leading bit that no other has */
/* one x with m(x) = y (free inputs 0); false when there is none */
bool f2_solve(const F2Map *m, uint32_t y, uint32_t *x);
bool f2_invert(const F2Map *m, F2Map *out); /* a right inverse (free inputs 0); false unless m is onto */

/* ---- layout.c ---------------------------------------------------------------------------------------------------- */

typedef struct Layout {
  int reg_bits, lane_bits, warp_bits; /* lane_bits is 5 */
  int out_bits;                       /* log2 of the tensor's elements */
  uint32_t basis[F2_MAX];             /* registers' vectors, then the lanes', then the warps' */
  const struct LayoutIndex *index;    /* layout.c's own, for finding registers; set by layout_make */
} Layout;

/* Interned; drops register vectors that are zero or depend on earlier ones (lanes and warps are kept). */
const Layout *layout_make(Context *cx, const Layout *l);
F2Map layout_map(const Layout *l);
uint32_t layout_element(const Layout *l, int reg, int lane, int warp);
uint32_t layout_register_part(const Layout *l, int reg);  /* layout_element(l, reg, 0, 0) */
int layout_find_register(const Layout *l, uint32_t part); /* the register with that part, -1 when there is none */
static inline int layout_registers(const Layout *l) { return 1 << l->reg_bits; }
/* Bits of the thread id (lane, then warp) whose vectors are zero or depend on vectors before them (registers' first): a
 * mask. Threads that have these bits 0, the elected threads, hold every element, each once. */
uint32_t layout_copies(const Layout *l);

int layout_dim_shift(const Type *t, int d);
uint32_t layout_dim_mask(const Type *t, int d); /* the bits of dim d in a flat index */

/* Blocked: `vector[d]` consecutive elements of each dim a thread, then lanes, then warps, then more registers, dims in
 * `order` (order[0] fastest). Lanes and warps that are left over when the tensor is covered hold copies. */
const Layout *layout_blocked(Context *cx, const Type *t, const int *vector, const int *order, int num_warps);
const Layout *layout_default(Context *cx, const Type *t, int num_warps); /* row-major, up to 4 elements a thread */

/* What a shape operation makes of a layout, forward (operand -> result) and back. NULL where it is not determined.
 * Covers expand_dims, reshape, trans, broadcast (backward only), splat's absence of one, reduce (forward only: the
 * slice), join, split (where the last dim lies in a register bit), and every operation whose operands and results share
 * a layout. */
const Layout *layout_forward(Context *cx, const Op *op, int operand, const Layout *l);
const Layout *layout_backward(Context *cx, const Op *op, int operand, const Layout *l);
/* All tensor operands and results of such an operation share a layout: element i of one goes with element i of the
 * others. (A print's do where they have one shape.) */
bool op_shares_layout(const Op *op);
/* for t without that axis (not kept as 1) */
const Layout *layout_slice(Context *cx, const Type *t, const Layout *l, int axis);

/* ---- layout/printer.c: for people -------------------------------------------------------------------------------- */

/* "reg 1 2 | lane 4 8 16 32 64 | warp 128 0" and, below, a small picture: which thread (and register) holds the corner
 * of the tensor. */
void layout_print(Buf *out, const Layout *l);               /* one line */
void layout_draw(Buf *out, const Type *t, const Layout *l); /* several lines, at most 16 rows by 100 columns */
/* The optimised Func's text with each tensor's layout, conversions with how they are done and what they cost, and
 * pictures. */
void layout_print_func(Buf *out, const Func *f);

/* ---- squares.c: what ldmatrix and stmatrix move ------------------------------------------------------------------ */

/* The bytes by which each bit of the register's number and of the lane moves an element in shared memory; apart:
 * register bits that no access spans. */
typedef struct SquareBits {
  int shift, reg_bits; /* shift: log2 of an element's bytes */
  uint32_t reg[F2_MAX], lane[5], apart;
} SquareBits;
/* An access: register vectors of a word's elements, and of squares; the bytes by which each bit of the lane moves the
 * row that it names. */
typedef struct SquareAccess {
  bool trans;
  int word_bits, square_bits;
  uint32_t word[2], square[2], row[5];
} SquareAccess;
/* False: elements lie, or are spread, otherwise, or an access would be of one square. */
bool squares_find(const SquareBits *in, SquareAccess *s);
/* The registers of the access that begins with r, word by word; their number. */
int squares_group(const SquareAccess *s, int r, int *group);
/* Of a layout's elements where `map` (flat index -> offset in elements) puts them, in parts as Convert's passes. */
bool squares_place(const F2Map *map, const Layout *l, int shift, int part_bits, SquareAccess *s);
int squares_wavefronts(const SquareAccess *s); /* of an access */
/* What a target can move so, and whether operands of products are to be turned by it: Func.squares. */
enum { SQUARES_READ = 1, SQUARES_WRITTEN = 2, SQUARES_OPERANDS = 4 };
/* Of those, what of a type: lower/convert_layout.c moves all but bools and 32-bit integers. */
int squares_of_type(int squares, const Type *t);

/* ---- convert.c, swizzle.c: from one layout to another ------------------------------------------------------------ */

/* The cheapest that suffices. REGISTERS: each thread has what it needs. SHUFFLE: each warp has; `rounds` of shuffles.
 * SHARED: through shared memory, element e at word swizzle(e). */
typedef enum { CONVERT_NONE, CONVERT_REGISTERS, CONVERT_SHUFFLE, CONVERT_SHARED } ConvertKind;

/* One shuffle: thread t sends its register send(t) and receives, from lane source(t) of its warp, into register
 * receive(t). All three are linear in the bits of the thread's id (lane, then warp) plus a constant: value(t) =
 * constant ^ xor of column[i] over the bits i of t; most depend on the lane alone. The columns are the same in every
 * round, so registers that depend on the thread cost one exchange for all rounds: before them, new[r] = bit i of t ?
 * old[r ^ send.column[i]] : old[r] for each i, after which round k sends register send.constant; likewise after them
 * with receive. All lanes of a warp take part; the sources exist in every lane. Where source is the lane itself, no
 * shuffle is needed. */
enum { THREAD_BITS = 10 };
typedef struct LaneMap {
  uint32_t constant, column[THREAD_BITS];
} LaneMap;
typedef struct ConvertRound {
  LaneMap send, source, receive;
} ConvertRound;
uint32_t lane_map_apply(const LaneMap *m, uint32_t thread);
bool lane_map_is_lane(const LaneMap *m); /* the thread's own lane, whichever it is */

typedef struct Convert {
  ConvertKind kind;
  const Layout *from, *to;
  int *source;          /* REGISTERS: for each register of `to`, the one of `from` */
  ConvertRound *rounds; /* SHUFFLE: as many as `to` has registers */
  int round_count;
  F2Map swizzle;                 /* SHARED: flat element index -> element offset in shared memory (a bijection) */
  int write_vector, read_vector; /* SHARED: elements an access, powers of two, at most 16 bytes */
  int *write_order, *read_order; /* SHARED: all registers of `from` and of `to`; each `vector` of them in a row are one
                                    access: in every thread their offsets are consecutive, in this order, the first a
                                    multiple of `vector`. Mostly 0, 1, 2, ... */
  int passes; /* SHARED: 2^n: the tensor goes through in n parts, when it is larger than `shared_limit`; 1 mostly. Part
                 p has the elements whose offset has p in its top n bits (which registers those are is the same in all
                 threads where that can be had); an access lies in one part */
  bool within_warp; /* SHARED: a warp reads only what it wrote: bar.warp.sync suffices */
  const SquareAccess *write_squares, *read_squares; /* SHARED: how; NULL: by the accesses above */
} Convert;
/* Only the elected threads of an element in `from` (layout_copies) need to write it; all threads read. squares: what
 * may go by squares. */
Convert *convert_plan(Context *cx, const Layout *from, const Layout *to, int elem_bytes, int squares);
enum { CONVERT_SHARED_LIMIT = 96 << 10 }; /* what convert_plan takes */
Convert *convert_plan_within(Context *cx, const Layout *from, const Layout *to, int elem_bytes, int squares,
                             int shared_limit);
int convert_shared_bytes(const Convert *c, int elem_bytes); /* of one pass; 0 when not SHARED */
/* Wavefronts (32 banks of 4 bytes) that one warp's worst write or read takes over the fewest possible: 1.0 is free of
 * conflicts. An access of 8 or 16 bytes a lane goes by half or quarter warps. */
double convert_conflicts(const Convert *c, int elem_bytes, bool write);
/* A rough cost, in issue slots of a warp, for choosing. */
int convert_cost(const Convert *c, int elem_bytes);
/* Of SHARED, and of a tensor's registers to (write) or from memory where `map` (flat index -> offset in elements) puts
 * its elements: in units of half a wavefront's time, with what accesses cost to issue. */
int convert_time(const Convert *c, int elem_bytes);
int place_time(const F2Map *map, const Layout *l, int elem_bytes, bool write, int squares);
/* There, an access has 2^n registers: r, r ^ vector[0], r ^ vector[1], ...; returns n. */
int place_vector(const F2Map *map, const Layout *l, int elem_bytes, int part_bits, uint32_t *vector);

/* swizzle.c, for convert.c: fills the SHARED fields of c. */
void convert_find_swizzle(Context *cx, Convert *c, int elem_bytes, int squares, int shared_limit);

/* ---- choose.c: a layout for every tensor ------------------------------------------------------------------------- */

/* Gives every tensor value its `layout` and inserts `convert_layout` operations where an operation wants an operand in
 * another. f is optimised and has axis info. Afterwards:
 * - elementwise operations, select, load, store, atomics, assert, map, asm: tensor operands and results share one
 * layout; print: operands of one shape do;
 * - broadcast: the operand's layout is layout_backward of the result's; expand_dims, reshape, trans, join, cat
 * likewise. So bit 0 of join's result, and the axis' top bit of cat's, is the vector of one register and in no other
 * vector: a result's register whose number has that bit 0 is operand 0's, with 1 operand 1's. split: the results'
 * layout is layout_forward of the operand's, whose bit 0 is likewise;
 * - reduce, scan: operands share a layout in which every vector lies in the axis or outside it; reduce's results share
 * any. scan: one bit each along the axis, ascending from low registers over lanes and warps to high registers; sort:
 * one bit each along the last axis;
 * - map with a pack of p: vectors 1, 2, .. p/2 are registers', and no other vector has these bits. asm with a pack of
 * p: nothing more; packed are registers p*i .. p*i+p-1, and where there are fewer the last is repeated;
 * - dot: see below; gather: index and result share a layout, the source has any; histogram: x and mask share one, the
 * result has any;
 * - loops and ifs: operand, argument, yielded value and result of one carried value share a layout.
 * Values that are cheap to compute again (arange, splat, const and pure arithmetic on them) are cloned rather than
 * converted. unit: the best that products are laid out for (dot.c). dot: acc and result share a
 * layout; a and b have any layout (they mostly go through shared memory). */
typedef enum { DOT_FMA, DOT_MMA, DOT_WGMMA } DotUnit; /* what may compute products: by warps, by warpgroups */
void layout_choose(Func *f, int num_warps, DotUnit unit);
void layout_verify(const Func *f); /* the rules above; fails with the operation */

/* ---- dot.c: products on tensor cores ----------------------------------------------------------------------------- */

/* Whether tensor cores can compute the dot, by shapes and types, and as what they take its operands: f32 stands for
 * tf32, and the dot's precision says what it is multiplied in parts of. fp8: they take that; else it is widened. */
bool layout_mma_type(const Op *dot, bool fp8, Dtype as[2]);
int layout_mma_pack(Dtype t); /* log2 of the neighbours along k that a register holds */
/* Whether they do, with so many warps. Where there are fewer tiles of 16 by 8 than warps, some compute copies. */
bool layout_takes_mma(const Op *dot, bool fp8, int num_warps, Dtype as[2]);
/* Whether the accumulator is laid out for it: of row bits r and column bits c, registers c0 and r3, lanes c1 c2 r0 r1
 * r2, other vectors without these, each along one dim. */
bool layout_is_mma(const Type *acc, const Layout *l);
/* Whether tensor cores compute the dot, as it is laid out. */
bool layout_dot_is_mma(const Op *dot);
/* Whether wgmma can add to it: four warps hold 64 rows, 16 each. */
bool layout_is_wgmma(const Type *acc, const Layout *l);
/* Whether wgmma can add to it with a first operand of 32 bits that lies across, whose words threads load: 64 rows as
 * above, but in an order in which a thread's words of two or four rows lie side by side, and a warp's loads, of rows
 * whose places of 16 bytes are xor'ed with the k's number, meet no bank twice. With r for bits of the row, c of the
 * column:
 *
 *     two rows     reg r0 c0 ...      lane c1 c2 r1 r4 r2   warp r3 r5 ...
 *     four         reg r0 r1 c0 ...   lane c1 c2 r4 r2 r3   warp r5 r6 ... */
bool layout_is_wgmma_loaded(const Type *acc, const Layout *l);
/* Whether warpgroups take operand k as it lies in shared memory, with neighbours of the dim `inner` side by side: of 16
 * bits both ways, others along k; f32, of the first operand, across, too. */
bool layout_wgmma_takes(const Op *dot, int k, int inner);
/* Layouts of a second operand of f32, [k, n]: in which threads write it along k, word by word, what they hold across;
 * in which they read it, and write it again, in rows of up to 128 bytes along k. */
const Layout *layout_for_words(Context *cx, const Type *t, int num_warps);
const Layout *layout_for_rows(Context *cx, const Type *t, int num_warps);
/* Whether the dot is laid out so, for so many warps. */
bool layout_takes_wgmma(const Op *dot, int num_warps);
/* The same, and what it leaves may be in flight while others run: not a sum of products that is added up after. */
bool layout_flies(const Op *dot, int num_warps);
/* Products that add to tensor memory (sm_100a): 128 lanes, a row each, of 512 columns; the next 128 rows lie in further
 * columns. Whether they take the dot, of 64 rows or a multiple of 128; int8: 8-bit integers too. */
enum { TMEM_LANES = 128, TMEM_COLUMNS = 512, TMEM_LEAST = 32 /* columns that are allocated */ };
static inline int64_t layout_tmem_columns(int64_t rows, int64_t columns) {
  return rows > TMEM_LANES ? rows / TMEM_LANES * columns : columns;
}
bool layout_takes_tmem(const Op *dot, int num_warps, bool int8);
/* How such sums come to registers: a row to a thread; of 64 rows, as wgmma's. */
const Layout *layout_for_tmem(Context *cx, const Type *acc, int num_warps);
/* As what a warp then takes operand 0 or 1, with 2^pack elements a register: registers the bits of k below `pack`,
 * those from pack + 2 on, lines (rows of the first, columns of the second) that the accumulator has in registers; lanes
 * the two bits of k between and lines 0 to 2. */
const Layout *layout_mma_operand(Context *cx, const Op *dot, const Layout *acc, int operand, int pack);

/* ---- access.c: how a load or store meets memory ------------------------------------------------------------------ */

/* How many consecutive registers of `l` may go in one access of at most `max_bytes` bytes: a power of two, at least 1.
 * From the pointer's axis info (contiguity, alignment) and the mask's (constancy). *dim is the dim along which they
 * run; where one is all, that along which neighbouring lanes do. */
int access_vector(const Value *ptr, const Value *mask, const Layout *l, int max_bytes, int *dim);
/* Whether asynchronous copies can do the load or ring_copy in layout l: one moves 4 bytes at least. *dim as above. */
bool access_may_copy(const Op *op, const Layout *l, int *dim);
/* The layout in which this access is widest and coalesced. */
const Layout *access_layout(Context *cx, const Value *ptr, const Value *mask, int num_warps);
/* Sectors (32 bytes) that one warp's access touches, over the fewest that its bytes need; 1.0 is perfect. Where axis
 * info does not tell, apart. */
double access_sectors(const Value *ptr, const Layout *l, int vector);

/* Of a ring whose tiles threads read as they copied them: the first operation that copies to it, or takes a tile. */
Op *layout_ring_user(const Func *f, const Value *ring, OpCode code);
/* Bytes that a slot of it takes at most: those of the tile, or 16 of each thread. */
int64_t layout_own_bytes(const Type *t, int num_warps);

#endif
