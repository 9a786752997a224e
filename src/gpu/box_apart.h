/* Boxes: which bytes of memory all programs of a launch touch at most by an access, and the condition that two accesses
 * touch none in common: so that a loop which writes may load ahead.
 *
 *     atomic_add at dq + (head * n + start + arange(0, 64)) * 128 + arange(0, 128), where the row is below n
 *         from dq to dq + 4 * (127 + (n - 1) * 128 + (grid_y - 1) * n * 128 + 1)        head is program_id(1)
 *
 * A dim with a bound reaches to it, one without as far as the program ids take it. Arguments that a launch knows are
 * all that this takes, of a persistent kernel: there the grid is among them. Private to src/gpu. */
#ifndef NEREID_GPU_BOX_APART_H
#define NEREID_GPU_BOX_APART_H

#include "gpu/ring.h"

/* Of a box that was read as one. NULL: an index without a bound grows by more than program ids. */
const Poly *box_end(const Func *f, const RegularTile *box);
/* That what both reach is apart, for a launch to check. */
void box_require_apart(Builder *top, const RegularTile *x, const RegularTile *y);

#endif
