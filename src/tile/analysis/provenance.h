/* provenance: the arrays that a pointer may point into, and what of them a kernel reads and writes.
 *
 * A kernel gets its arrays as pointer arguments. All other pointers are made of those by arithmetic and by choice, or
 * come from nowhere that can be seen: they were loaded, or made of an integer or by inline assembly. So the provenance
 * of a pointer value is a set of arguments, and perhaps `unknown`:
 *
 *     %p = addptr %xs, %i                            {x}              arithmetic stays with its array
 *     %p = select %flag, %xs, %ys                    {x, y}           also element by element
 *     %p, %q = for ..., %x, %y do (%a, %b) {         {x, y} {x, y}    the loop swaps them
 *       yield %b, %a
 *     }
 *     %p = if %c do { yield %x } do { yield %y }     {x, y}
 *     %p = gather %xs, %i; %p = reduce %ps, ...      {x}              the elements' own
 *     %p = load %table                               {unknown}        a pointer out of memory
 *     %p = bitcast %address                          {unknown}        a pointer made of an integer
 *     %p = select %flag, %xs, %loaded                {x, unknown}
 *
 * Block pointers, descriptors and tuples of pointers are plain values in the tile IR, so they need no rule. A set may
 * hold more than the pointer ever is, never less. Provenance is no address: x + 4 and x + 8 are both {x}.
 *
 * Provenance alone does not tell that two accesses never meet. Two arguments may be one array (a kernel in place),
 * or overlap in part (views of one buffer), and nobody promises that they do not. Who knows better (who compares the
 * arrays' ranges at launch) asks with ARGS_DISJOINT:
 *
 *                            ARGS_MAY_OVERLAP    ARGS_DISJOINT
 *     {x}     with {x}       may meet            may meet
 *     {x}     with {y}       may meet            never
 *     {x, y}  with {y, z}    may meet            may meet
 *     {x}     with unknown   may meet            may meet          it may well point into x
 *
 * Values that are made after the analysis have no provenance: do not ask about them.
 */
#ifndef NEREID_TILE_PROVENANCE_H
#define NEREID_TILE_PROVENANCE_H

#include "tile/tile.h"

typedef struct Provenance {
  const Func *func;
  int value_count;
  int words;       /* of each set: bit i for argument i, and one bit more for unknown */
  uint64_t **sets; /* by value id; NULL: not a pointer */
  int *argument;   /* by value id: the only argument, or -1 */
} Provenance;

/* NULL when the arena has no owner and is out of memory. */
Provenance *provenance_create(Arena *a, const Func *f);

/* The only argument that v may come from; -1 when there are several, or it is unknown. */
int provenance_argument(const Provenance *p, const Value *v);
/* Whether v may point into what argument `arg` was said to be; of an unknown pointer always. */
bool provenance_may_be(const Provenance *p, const Value *v, int arg);

/* What holds of two different arguments of one launch. */
typedef enum { ARGS_MAY_OVERLAP, ARGS_DISJOINT } ArgumentOverlap;
/* Whether accesses through the pointers v and w may meet in memory. */
bool provenance_may_alias(const Provenance *p, const Value *v, const Value *w, ArgumentOverlap arguments);

void provenance_print(Buf *out, const Provenance *p, const Value *v); /* "{x, unknown}" */

/* Mod/ref: read[i] and written[i] become whether an access may read and write memory through argument i, for each of
 * the Func's arguments. An access through an unknown pointer may reach every array; inline assembly may access what its
 * pointer operands point to. */
void tile_mod_ref(const Func *f, const Provenance *p, bool *read, bool *written);

#endif
