/* Listing the scalars that a launch computes of its arguments (rt/launch_plan.h). */
#ifndef NEREID_GPU_LAUNCH_PLAN_H
#define NEREID_GPU_LAUNCH_PLAN_H

#include "rt/launch_plan.h"

/* Lists what v is made of; its step. -1: it is made of more than arguments, or the list is too long. */
int gpu_plan_value(Context *cx, GpuLaunchPlan *p, const Func *f, const Value *v);

#endif
