/* The GPUs that kernels are compiled for: what the code generator asks of them, in one table.
 *
 * PTX versions are the lowest that have every form which ptx.c prints for the target, so that the driver of as old a CUDA release as
 * possible takes the text; the assembler of any newer release takes it too. Names with an `a` build for that architecture only, and have
 * all its instructions.
 */
#include "gpu/gpu.h"

enum { KB = 1024 };

const GpuTarget gpu_targets[] = {
    /* name     sm  .version vector  shared    bf16   vector fp8    bf16   redux
                                               arith  red           atomic f32 */
    {"sm_80", 80, "7.4", 16, 163 * KB, false, false, false, false, false},
    {"sm_86", 86, "7.4", 16, 99 * KB, false, false, false, false, false},
    {"sm_87", 87, "7.4", 16, 163 * KB, false, false, false, false, false},
    {"sm_89", 89, "8.1", 16, 99 * KB, false, false, true, false, false},
    {"sm_90a", 90, "8.1", 16, 227 * KB, true, true, true, true, false},
    {"sm_100a", 100, "8.8", 32, 227 * KB, true, true, true, true, true},
    {"sm_103a", 103, "8.8", 32, 227 * KB, true, true, true, true, true},
    {"sm_110a", 110, "9.0", 32, 227 * KB, true, true, true, true, true},
    {"sm_120a", 120, "8.8", 32, 99 * KB, true, true, true, true, false},
    {"sm_121a", 121, "8.8", 32, 99 * KB, true, true, true, true, false},
    {NULL},
};

const GpuTarget *gpu_target_find(const char *name) {
  for (const GpuTarget *t = gpu_targets; t->name; t++)
    if (!strcmp(t->name, name)) return t;
  return NULL;
}

/* Machine code runs on its own architecture and on later ones of the same generation, but that of the `a` targets, on its own only. */
const GpuTarget *gpu_target_for(int sm) {
  const GpuTarget *best = NULL;
  for (const GpuTarget *t = gpu_targets; t->name; t++)
    if (t->sm == sm || (t->sm < sm && t->sm / 10 == sm / 10 && t->sm < 90)) best = t;
  return best;
}
