/* launch_plan: what a launch computes of a kernel's arguments before it starts: the kernel's tensor maps, whether
 * arrays lie apart on which the kernel relies, and so whether it may be started at all.
 *
 * Each `tensor_map` and `require` of the tile IR takes scalars that are made of arguments alone. Their operations are
 * kept in order as a list of steps, each of which takes results of earlier ones; a launch runs the list on its slots.
 * Of each `apart`, which bytes are loaded through one argument and stored through another are kept as spans; these take
 * the grid, too.
 *
 * A map wants rows that begin at 16 bytes. Where an array's do not (an odd number of elements), and many programs read
 * it, the launch copies it to rows that do (`padded`): two passes over the array, where loads of single elements take
 * several times as long in all. The kernel is the same.
 */
#ifndef NEREID_LAUNCH_PLAN_H
#define NEREID_LAUNCH_PLAN_H

#include "rt/tensor_map.h"
#include "tile/span_steps.h"

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

/* Bytes, from where two of a launch's arguments point: steps of spans. */
typedef struct GpuApart {
  int argument[2], span[2];
} GpuApart;

typedef struct GpuLaunchPlan {
  int step_count, require_count, map_count, span_count, apart_count;
  GpuStep *steps;
  int *requires; /* steps whose result must be true */
  GpuMapPlan *maps;
  SpanStep *spans;
  GpuApart *aparts;
  bool may_copy; /* the kernel may read copies of its arrays, made when it starts: its programs wait for nobody */
} GpuLaunchPlan;

enum { GPU_PLAN_STEPS = 512, GPU_PLAN_MAPS = 8, GPU_PLAN_APARTS = 32 };
/* What of the kernel another one must do without: options.without's names (gpu_plan_lacks). */
typedef enum { GPU_PLAN_FITS, GPU_PLAN_NO_MAPS, GPU_PLAN_NOT_APART } GpuPlanFit;

/* A step's code as a number that bundles have; -1: none may have this code. And back; false: there is no such number.
 */
int gpu_plan_code_number(OpCode c);
bool gpu_plan_code(int number, OpCode *out);
/* A copy in one piece of malloc'ed memory; NULL: there is none. */
GpuLaunchPlan *gpu_plan_keep(const GpuLaunchPlan *p);
/* args: the Func's, 8 bytes each; grid: of all programs. out: map_count maps. Where it does not fit, the kernel must
 * not be started with these. */
GpuPlanFit gpu_plan_maps(const GpuLaunchPlan *p, const uint64_t *args, const int32_t grid[3], GpuTensorMap *out);
const char *gpu_plan_lacks(GpuPlanFit fit);
/* How many blocks a cluster has, of a kernel that takes up to `most`; 1: none. Of a persistent kernel *blocks, which
 * run at once, become a multiple of that; else blocks is NULL. */
int gpu_plan_cluster(int most, const int32_t grid[3], int64_t *blocks);

/* Of a map with `padded`: the bytes that its copy takes, and the map of the copy that lies at `copy`. */
uint64_t gpu_map_copy_bytes(const GpuTensorMap *m);
void gpu_map_take_copy(GpuTensorMap *m, uint64_t copy);

#endif
