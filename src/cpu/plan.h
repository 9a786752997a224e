/* plan: what plan.c (operations in order), fuse.c (which nest computes what, what is kept) and plan_control.c (loops
 * and branches) share while one Block is planned.
 */
#ifndef NEREID_CPU_PLAN_H
#define NEREID_CPU_PLAN_H

#include "cpu/emit.h"

typedef struct Planner {
  Emit *e;
  Plan *plan;
  Group *open;
  VEC(Op *) loads; /* of this block so far */
  int epoch;       /* counts writes to memory */
  Gemm *gemm;      /* of the loop whose body is planned, or NULL */
} Planner;

/* plan_items.c */
void push_item(Planner *p, Item item);
void push_op(Planner *p, Op *op);
void close_group(Planner *p);
OpPlan *op_plan(Planner *p, Op *op);

/* plan.c */
void plan_body(Emit *e, Block *b, Planner *p); /* without what the block's last operation asks for */
void plan_block(Emit *e, Block *b, Planner *p);

/* memory.c */
bool load_may_repeat(Planner *p, Value *v); /* a later nest may load it again: no memory was written since */

/* fuse.c */
bool can_fuse(Planner *p, Value *v, Group *g); /* whether v can be had in the nest of g; call with a fresh stamp */
Group *add_root(Planner *p, FusionRoot *r);
Group *keep_at(Planner *p, Value *v, View *view);
View *need_view(Planner *p, Value *v);    /* v is kept */
View *need_compact(Planner *p, Value *v); /* v is kept as rows one after the other */
/* Before `write` (NULL: any): keeps the loads that conflict with it and that have not run, or that it would run again.
 * A store may take the loads of its own places along (memory.h). */
void settle_loads(Planner *p, Op *write);
const Type *root_shape(const FusionRoot *r);       /* the tensor that its nest runs over */
void own_map(const Type *t, int8_t map[MAX_RANK]); /* a nest's own index: dim k runs with dim k */

/* plan_control.c */
void plan_for(Planner *p, Op *op);
void plan_while(Planner *p, Op *op);
void plan_if(Planner *p, Op *op);
/* a `scope` with nothing but others between it and the end of a loop's or branch's body: planned after what the body
 * hands on */
bool is_last_mark(const Op *op);

#endif
