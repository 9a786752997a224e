/* Shared by the files of the folding pass; see fold.c. */
#ifndef NEREID_TILE_FOLD_H
#define NEREID_TILE_FOLD_H

#include "tile/tile.h"

/* What the operation's only result can be replaced by, or NULL. Operands are resolved; new operations go before `op`.
 * fold_shape.c. */
Value *fold_op(Builder *b, Op *op);

/* fold_arith.c: elementwise operations on constants, and identities. */
Value *fold_elementwise(Builder *b, Op *op);
/* Bounds of an integer's elements, when simple ones are known. */
bool fold_range(const Value *v, int64_t *low, int64_t *high);
/* fold.c: how often a `for` runs whose bounds are constants, or one value; -1: nobody knows. */
int64_t fold_trips(const Op *loop);
/* fold_shape.c: splat, broadcast, reshape ... of constants, of splats and of each other. */
Value *fold_shape(Builder *b, Op *op);
/* The scalar that every element of v is, or NULL. */
Value *splatted(Builder *b, Value *v);
/* a const operation's result; a splat of a scalar that is no constant */
static inline bool is_const(const Value *v) { return v->def && v->def->code == OP_CONST; }
static inline bool is_splat(const Value *v) { return v->def && v->def->code == OP_SPLAT; }
Value *const_like(Builder *b, const Type *t,
                  const Value *constant); /* the same number, as a tensor or scalar of type t */

#endif
