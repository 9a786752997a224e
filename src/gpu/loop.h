/* loop: what the passes on loops of the tile IR share. Private to src/gpu. */
#ifndef NEREID_GPU_LOOP_H
#define NEREID_GPU_LOOP_H

#include "gpu/gpu.h"
#include "layout/layout.h"

typedef void (*LoopVisit)(Func *f, const GpuOptions *o, Op *loop);
void loop_visit(Func *f, const GpuOptions *o, LoopVisit visit); /* of each `for`, inner ones first */

/* Of each value that a loop carries, the last first: `replace` makes others of it, after which nobody asks for it, and
 * it is dropped. False: it stays. */
void loop_replace_carried(Func *f, Op *loop, bool (*replace)(Func *f, Op *loop, int carried));
/* The same reduction of another value, along an axis of it. */
Value *loop_reduce_as(Builder *b, const Op *reduce, Value *v, int axis);

/* Whether the loop is that over the programs of a persistent kernel (gpu/persist.c). */
bool loop_runs_programs(const Func *f, const Op *loop);
/* Along which axis v is the program's number, in a persistent kernel too; -1: it is none. */
int loop_program_axis(const Func *f, const Value *v);
/* Whether anything in the block writes, prints, asserts or waits: also for other programs, by reading memory that they
 * write. */
bool loop_has_effects(const Block *b);
/* More iterations than these it has in no program; INT64_MAX: nobody knows. */
int64_t loop_most_trips(const Op *loop);
bool loop_leads_down(const Op *loop); /* only a constant step may be negative */
/* What is known of values holds in every iteration: a block's clone gets the axis info of its own, in its bodies too.
 */
void loop_copy_axes(const Block *from, Block *to);
/* A clone with operands by the map `operands` and op's axis info; `made` gets its results for op's. */
Op *loop_clone(Builder *b, const Op *op, Map *operands, Map *made);
/* Of a tensor of type t whose elements are all equal. */
AxisInfo *loop_constant_axis(Context *cx, const Type *t);
const Value *loop_untransposed(const Value *v);  /* what v is a transpose of, however often; else v */
Builder loop_branch_on(Builder *b, Value *cond); /* builds what is done where cond holds */
/* Whether v is a product's result, or made of one element by element, and takes(arg, ...) of each value on the way. */
bool loop_is_of_dot(const Value *v, bool (*takes)(const void *arg, const Value *v), const void *arg);

/* Whether registers hold what these loads bring while an iteration runs (gpu/prefetch.c). */
bool prefetch_holds(const Func *f, const GpuOptions *o, const Op *loop, Op *const *loads, int n);

/* Registers of a thread for the sums of a dot, and of all dots of a block. */
int64_t loop_sum_registers(const Func *f, const Op *dot);
int64_t loop_sums(const Func *f, const Block *b);
/* Whether the dot adds to what the loop of this body carries for it alone. */
bool loop_carries_sum(const Block *body, const Op *dot);
void loop_replace_but(Block *b, Value *old, Op *but); /* in b, all but `but` take its result for old */

/* Whether it is a reduction to a thread's part of a tile (gpu/lane_sums.c), which takes no exchange. */
bool lane_sums_made(const Op *op);
/* Such a dot is left in flight, and waited for after the loop. */
void loop_leave_in_flight(Builder *after, Op *loop, Op *dot);

#endif
