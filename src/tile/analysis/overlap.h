/* overlap: whether two accesses through tensors of pointers may meet crosswise, element i of the one and another
 * element j of the other in the same memory. Where threads hold the elements of both alike, it says whether one thread
 * may touch what another has touched.
 *
 *     v                      w
 *     x + i                  x + i                     never: only the same elements meet
 *     x + i                  x + i + 1                 may: element 1 of v is element 0 of w
 *     x + i                  x + 1023 - i              may
 *     x + i  (1024 of them)  x + 1024 + i              never: all of w lies after v
 *     x + i  (1024)          x + j * 1024 + i          never: apart, or the same elements
 *     x + i                  x + n + i                 may: nobody knows n
 *     x + i                  y + i                     never   \  if x and y are one array, they are used alike: with
 *     x + r * s + c          y + r * t + c             never   /  the same strides and at the same rows
 *     x + i                  y + 1023 - i              may
 *     x + r * s + i          y + r * t + 5 + i         may
 *
 * Both pointers are taken apart into a sum of tensors (each a leaf with a constant factor, and perhaps a stride that is
 * known at run time only), scalars and bytes. The tensors must be the same; then the scalars and bytes that are left
 * say by how much w is shifted. The shift must be none, or as large as what the tensors span. Rows that a run-time
 * stride keeps apart are taken not to run into each other.
 *
 * With a loop, v's access may be of an earlier iteration than w's: what the loop changes has gone on in between, its
 * variable by the step, carried values by what the body adds to them.
 */
#ifndef NEREID_TILE_OVERLAP_H
#define NEREID_TILE_OVERLAP_H

#include "tile/analysis/provenance.h"

bool overlap_crosswise(const Provenance *p, const Value *v, const Value *w, const Op *loop);

#endif
