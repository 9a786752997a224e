/* regular: whether a load reads a box of an array, so that a copy engine which knows the array's sizes and strides can
 * fetch it, and cut it where the array ends. Likewise whether a store writes one.
 *
 *     a_ptr + m * stride_am + k, masked by m < M and k < K - start          m = tile_m * 128 + arange(0, 128)
 *
 *         array of a_ptr:   dim 0: K elements, side by side     dim 1: M elements, stride_am apart
 *         box:              64 from 64 #start                   128 from 128 tile_m
 *
 * The address is an argument's plus a sum over the tile's dims of (start + index) * stride, and what is left over:
 * terms that change from program to program or from iteration to iteration become further dims, of which the box has
 * one element (a head of attention). Sizes, strides and where the array begins depend on the kernel's arguments alone;
 * where the box begins is a scalar. The mask is a conjunction of bounds: `start + index` is below a size, or not
 * negative, which the engine sees to, and of conditions on the whole tile. What is masked gives zeros. A dim without a
 * bound is cut nowhere: every access of the kernel is one to memory that is there.
 *
 * What cannot be shown while compiling, and what engines ask of an array, are conditions that a launch checks: of
 * numbers that it knows. What is no box says why.
 */
#ifndef NEREID_TILE_REGULAR_H
#define NEREID_TILE_REGULAR_H

#include "tile/analysis/poly.h"

enum { REGULAR_DIMS = 5, REGULAR_GUARDS = 4, REGULAR_ALIGN = 16 };

typedef struct RegularDim {
  int dim, box;       /* of the tile; -1, and 1 element: none of its dims */
  const Poly *size;   /* elements; NULL: nothing is cut */
  const Poly *stride; /* elements */
  const Poly *start;  /* of the box, elements; of 32 bits */
} RegularDim;

typedef struct RegularTile {
  PolySpace *space;
  Value *base;        /* an argument of the Func */
  const Poly *offset; /* elements: where the array begins */
  int count;
  RegularDim dims[REGULAR_DIMS]; /* the first one's neighbours lie side by side; then the tile's from its last dim on */
  int guard_count;
  Value *guards[REGULAR_GUARDS]; /* scalar conditions on the whole tile, i1 */
} RegularTile;

/* Of a load, or of a store. NULL: it is of no box, and *why says why. The conditions are in ->space->conditions. */
RegularTile *regular_tile(const Func *f, const Op *load, const char **why);
/* Of a load, store or atomic, which no copy engine is to do: the elements that it touches at most. */
RegularTile *regular_access(const Func *f, const Op *access, const char **why);
/* Whether no box begins before its array, as an engine asks that stores: a load of what is there gives zeros, a store
 * may cut a box where the array ends alone (CUDA C++ Programming Guide, "Tensor memory access"). Where that goes by
 * arguments, a launch checks it. */
bool regular_begins_inside(const RegularTile *r);

void regular_print(Buf *out, const RegularTile *r);

#endif
