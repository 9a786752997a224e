/* ahead: dots of the next iteration, and of the one before, for gpu/dots_ahead.c and gpu/dots_behind.c, whose they are,
 * and gpu/specialize.c. */
#ifndef NEREID_GPU_AHEAD_H
#define NEREID_GPU_AHEAD_H

#include "gpu/loop.h"

typedef bool (*AheadTile)(const Value *v, void *arg); /* whether v is a tile of a ring, or a transpose of one */
/* Whether the body's dot should be computed an iteration earlier. */
bool ahead_is_wanted(const Func *f, const GpuOptions *o, const Block *body, const Op *dot, AheadTile is_tile,
                     void *arg);
/* What is done to its result by numbers from outside the body alone; NULL: nothing. */
Op *ahead_first_step(Block *body, const Op *dot);
/* The dot again, of the tiles in another slot; and that step, of another result. */
Value *ahead_dot(Builder *b, const Block *body, const Op *dot, Value *slot, bool async);
Value *ahead_step(Builder *b, const Op *use, const Op *dot, Value *result);

/* Whether the loop's last dot should be computed an iteration later, where its tile comes through a ring. */
bool behind_is_wanted(Func *f, const GpuOptions *o, Op *loop);
/* Whether that dot takes the operand from the registers in which the first one leaves what it is made of. */
bool behind_keeps_registers(Func *f, const GpuOptions *o, Op *loop, const Value *operand);

#endif
