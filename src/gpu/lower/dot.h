/* lower_dot: what the two ways to compute a product share. Private to lower/dot.c, lower/fma.c, lower/mma.c. */
#ifndef NEREID_LOWER_DOT_H
#define NEREID_LOWER_DOT_H

#include "gpu/lower/move.h"

typedef struct DotShape {
  int m, n, k, batch;
} DotShape; /* log2 */

/* One of a and x, seen as lines along k: a's are rows of the product, x's its columns. A line's number is its row or
 * column, with the batch above. */
typedef struct DotOperand {
  bool is_a, along; /* along: neighbours along k lie side by side in memory, else neighbours across */
  int outer;        /* log2 of the lines of a batch */
  Place place;
  LaneValue *begin;     /* bytes: where it begins in its buffer; NULL: at 0 */
  bool in_registers;    /* not in memory: lower/mma.c takes `regs` */
  bool loaded;          /* of warpgroups: threads load their words from memory (layout_is_wgmma_loaded) */
  LaneValue **regs;     /* as they are held, in the type `kind` of the product */
  const Layout *layout; /* of regs */
} DotOperand;

typedef struct Dot {
  const Op *op;
  DotShape shape;
  bool mma;             /* on tensor cores */
  bool wgmma;           /* by warpgroups (lower/wgmma.c) */
  Dtype types[2];       /* of a and x in memory */
  LaneKind kind;        /* of their elements there */
  int pack;             /* log2 of the elements that a word of tensor cores' operands holds */
  int tile_bits;        /* log2 of the k's that tensor cores take at once */
  DotPrecision pieces;  /* what numbers of f32 are multiplied as */
  const Layout *layout; /* of the accumulator */
  DotOperand a, x;
  int n;           /* registers of the accumulator */
  int chunk_bits;  /* log2 of the k's that lie in shared memory at a time */
  LaneValue **acc; /* f32, f64 or integers */
  bool pending;    /* the accumulators may be in flight: whoever takes them waits */
  int promoted;    /* by warpgroups, of fp8: after so many steps of k the hardware's sums are added to acc; 0: never */
  bool crowded;    /* by warpgroups: a thread has no registers for all sums at a time */
  bool split;      /* by warpgroups in three products of tf32 (lower/wgmma.c): threads hold a */
  Place rest;      /* of those: where x's second pieces lie; their first are x as it lies, cut off by the hardware */
  bool rest_lies;  /* they have been written with x */
  void *own;       /* lower/fma.c's, lower/mma.c's, lower/wgmma.c's */
} Dot;

/* The first element of a line as a flat index of the operand; one k; and the line of an element of the accumulator. */
static inline uint32_t dot_line_begin(const DotShape *s, const DotOperand *o, uint32_t line) {
  return o->is_a ? line << s->k : (line & ((1u << s->n) - 1)) | line >> s->n << (s->n + s->k);
}
static inline uint32_t dot_k(const DotShape *s, const DotOperand *o, uint32_t k) { return o->is_a ? k : k << s->n; }
static inline uint32_t dot_line_of(const DotShape *s, const DotOperand *o, uint32_t v) {
  return o->is_a ? v >> s->n : (v & ((1u << s->n) - 1)) | v >> (s->n + s->m) << s->n;
}

/* For each way: what is xor'ed onto the places of an operand's elements, so that accesses meet different banks; what
 * there is to be computed before the first chunk; and a chunk's products, from number `part`, added to d->acc. */
void lower_fma_swizzle(const Dot *d, const DotOperand *o, F2Map *map);
void lower_fma_begin(Lower *l, Dot *d);
void lower_fma_chunk(Lower *l, Dot *d);
void lower_mma_swizzle(const Dot *d, const DotOperand *o, F2Map *map);
void lower_mma_begin(Lower *l, Dot *d);
void lower_mma_chunk(Lower *l, Dot *d, int part);
bool lower_mma_in_registers(Lower *l, const Dot *d, int operand); /* it is held as the hardware takes it */
/* The word of an operand in registers whose first element is `at`; and how operations name the types. */
LaneValue *lower_mma_word(Lower *l, const Dot *d, const DotOperand *o, uint32_t at);
LaneKind lower_mma_kind(const Dot *d, bool *mixed);
LaneValue *lower_tf32(Lower *l,
                      LaneValue *word); /* rounded so that what the hardware cuts off is nothing in the mean */
/* log2 of the elements in 128 bytes: longer rows are cut into panels of that width. */
static inline int dot_panel_bits(const Dot *d) { return 7 - lower_kind_shift(d->kind); }

/* lower/wgmma.c, for products of warpgroups and those that add to tensor memory: descriptors of an operand in shared
 * memory, which begins at the byte `at`. The low word of the tile's that begins at element v of the accumulator, and k.
 */
typedef struct DotDescriptor {
  const DotOperand *o;
  LaneValue *low; /* the beginning's */
  uint32_t high;
} DotDescriptor;
void lower_dot_descriptor(Lower *l, const Dot *d, const DotOperand *o, LaneValue *at, DotDescriptor *p);
LaneValue *lower_dot_descriptor_at(Lower *l, const Dot *d, const DotDescriptor *p, uint32_t v, int k);

/* lower/ring.c: fills place, begin and along of an operand that lies in a ring's slot; false: it does not. */
bool lower_ring_operand(Lower *l, const Dot *d, DotOperand *o, int k);
bool lower_ring_along(const Value *v, int k); /* of one that does: `along` */
/* What threads have written is there for all, products of warpgroups too. */
void lower_meet(Lower *l);
/* The second piece of a number of f32 in two of tf32. */
LaneValue *lower_rest(Lower *l, LaneValue *x);
void lower_wgmma_begin(Lower *l, Dot *d);
void lower_wgmma_chunk(Lower *l, Dot *d, int part);

#endif
