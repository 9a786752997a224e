/* launch_plan: what a launch computes of a kernel's arguments before it starts: the kernel's tensor maps, and whether
 * it may be started at all.
 *
 * Each `tensor_map` and `require` of the tile IR takes scalars that are made of arguments alone. Their operations are
 * kept in order as a list of steps, each of which takes results of earlier ones; a launch runs the list on its slots.
 */
#ifndef NEREID_LAUNCH_PLAN_H
#define NEREID_LAUNCH_PLAN_H

#include "gpu/tensor_map.h"
#include "tile/tile.h"

typedef struct GpuStep {
  OpCode code;      /* OP_COUNT: an argument, number attr */
  Dtype type, from; /* of the result; of operand 0 */
  int64_t attr;
  int in[3];
} GpuStep;

typedef struct GpuMapPlan {
  Dtype dtype;
  uint8_t rank, swizzle;
  uint16_t box[GPU_MAP_MOST_RANK];
  int base, sizes[GPU_MAP_MOST_RANK], strides[GPU_MAP_MOST_RANK - 1]; /* steps; strides of dims 1.., elements */
} GpuMapPlan;

typedef struct GpuLaunchPlan {
  int step_count, require_count, map_count;
  GpuStep *steps;
  int *requires; /* steps whose result must be true */
  GpuMapPlan *maps;
} GpuLaunchPlan;

enum { GPU_PLAN_STEPS = 512, GPU_PLAN_MAPS = 8 };

/* Lists what v is made of; its step. -1: it is made of more than arguments, or the list is too long. */
int gpu_plan_value(Context *cx, GpuLaunchPlan *p, const Func *f, const Value *v);
/* A copy in one piece of malloc'ed memory; NULL: there is none. */
GpuLaunchPlan *gpu_plan_keep(const GpuLaunchPlan *p);
/* args: the Func's, 8 bytes each. out: map_count maps. False: the kernel must not be started with these. */
bool gpu_plan_maps(const GpuLaunchPlan *p, const uint64_t *args, GpuTensorMap *out);

#endif
