/* loop: what the passes on loops of the tile IR share. Private to src/gpu. */
#ifndef NEREID_GPU_LOOP_H
#define NEREID_GPU_LOOP_H

#include "gpu/gpu.h"
#include "layout/layout.h"

/* Whether anything in the block writes, prints, asserts or waits: also for other programs, by reading memory that they
 * write. */
bool loop_has_effects(const Block *b);
int loop_uses(const Block *b, const Value *v); /* how often the block, and blocks in it, take v */
bool loop_leads_down(const Op *loop);          /* only a constant step may be negative */
/* Of a tensor of type t whose elements are all equal. */
AxisInfo *loop_constant_axis(Context *cx, const Type *t);
bool loop_is_zero(const Value *v); /* a constant, each element of it */

#endif
