/* reach: how far a kernel's accesses go from where its arguments point.
 *
 * For each argument that is a pointer: which bytes a launch may touch through it, as an interval, from the kernel's own
 * index arithmetic over the intervals of program ids, loop variables and aranges. What is made is a list of steps,
 * which a launch computes from its numbers and its grid (tile/span_steps.h):
 *
 *     offs = program_id(0) * 1024 + arange(0, 1024)      [0, (grid - 1) * 1024 + 1023]
 *     load x + offs, mask = offs < n                     x + 4 * [0, n - 1], and 3 bytes more
 *
 * A mask narrows the values that it compares, where they stand at the element's own index: `i[:, None] < m` says
 * nothing of i[None, :]. What depends on data has the interval of its type, and a sum or product that may pass 64 bits
 * may be anything: then the access may go anywhere, and nothing is known of it.
 */
#ifndef NEREID_TILE_REACH_H
#define NEREID_TILE_REACH_H

#include "tile/analysis/provenance.h"
#include "tile/span_steps.h"

typedef enum { REACH_READS = 1, REACH_WRITES = 2 } ReachKind; /* atomics do both */

typedef struct Reach Reach;
/* Of f as it is now: steps are to be asked for before it changes. */
Reach *reach_create(Arena *a, const Func *f, const Provenance *p);
/* The step with the bytes that accesses of these kinds touch through argument `arg`; empty where there are none. */
int reach_through(Reach *r, int arg, int kinds);
const SpanStep *reach_steps(const Reach *r, int *count);

#endif
