/* Abstract interpretation: what a walk over a program knows of each value: an integer tile as an affine function of its
 * indices, a mask as a box of them, or, where neither will do, all elements. Floats are unknown, and so is what is
 * loaded, but from integer arrays whose contents are given. Private to cost.c and analysis/abstract.c.
 *
 *     program_id(0) * 1024 + arange(0, 1024)  in program 2:   base 2048, step {1}
 *     offsets < n                             with n = 2500:  box [0, 452)
 *     x_ptr + offsets                                         argument 0, base 8192, step {4}: bytes
 */
#ifndef NEREID_TILE_ABSTRACT_H
#define NEREID_TILE_ABSTRACT_H

#include "tile/tile.h"

typedef enum { FORM_UNKNOWN, FORM_AFFINE, FORM_BOX, FORM_DENSE } Form;
typedef struct Range {
  int32_t lo, hi;
} Range; /* lo <= i < hi */

typedef struct AbstractValue {
  Form form;
  int arg;      /* pointers that are known: the Func's argument whose address they count from */
  int64_t base; /* AFFINE: element i is base + the sum of step[d] * i[d]; of pointers bytes from arg */
  int64_t step[MAX_RANK];
  Range box[MAX_RANK];  /* BOX, of an i1 tile: true inside, false outside */
  int64_t *dense;       /* DENSE: row-major; belongs to the value it was computed for */
  Range live[MAX_RANK]; /* the elements that were loaded for; the others stand for nothing */
} AbstractValue;

enum { DENSE_MOST = 1 << 17 }; /* elements of a dense tile */

typedef struct AbstractState { /* one walk */
  Func *f;
  AbstractValue *of;   /* per value id */
  int64_t **room;      /* per value id: its dense elements' memory, kept */
  int64_t *scratch[3]; /* DENSE_MOST each, once needed */
  int64_t *lines[3];   /* likewise: what a reduction or scan goes over */
  /* per value id: an address, a mask or control depends on it; of others no elements are computed */
  const bool *needed;
  bool skips_elements;       /* what is computed now is not needed */
  const HostArray *contents; /* per argument: what its array holds throughout the launch */
  bool has_read;             /* a load took its value from there */
  int32_t program[3], grid[3];
  int64_t steps, budget; /* elements computed or operations walked; dense tiles are given up beyond the budget */
} AbstractState;

AbstractValue *abstract_of(AbstractState *k, const Value *v);
void abstract_set(AbstractState *k, const Value *v, const AbstractValue *x); /* a copy, its dense elements too */
AbstractValue abstract_unknown(const Type *t);
AbstractValue abstract_int(const Type *t, int64_t v);                      /* every element */
bool abstract_scalar(const AbstractValue *x, const Type *t, int64_t *out); /* a scalar whose value is known */
/* sets op's results from its operands; not of memory and control */
void abstract_op(AbstractState *k, const Op *op);

/* x: of a load's result, whose elements become known where its array's contents, its addresses and its mask are. */
void abstract_load(AbstractState *k, const Op *op, AbstractValue *x);

/* All elements, in k->scratch[slot] or where they are; NULL when not known, too many or beyond the budget. */
const int64_t *abstract_elements(AbstractState *k, const AbstractValue *x, const Type *t, int slot);
int64_t range_volume(const Range *r, const Type *t);
void live_whole(AbstractValue *x, const Type *t);

#endif
