/* How many blocks of a kernel a multiprocessor holds at once: the least of what four things allow.
 *
 *     warps           the multiprocessor's over the block's
 *     blocks          as the hardware has slots
 *     registers       a warp gets them in units of 256, of one partition, which has a fourth of them:
 *                     40 a thread are 1280 a warp; 16384 / 1280 = 12 warps a partition, 48 in all
 *     shared memory   the block's and the 1024 bytes that the driver takes, in units of 128
 *
 * That a block fits at all is checked by the hardware as if its warps, rounded up to 4, took registers in all
 * partitions alike. These are the rules of CUDA's occupancy calculator.
 */
#include "gpu/gpu.h"

GpuOccupancy gpu_occupancy(const GpuTarget *t, int registers, int shared_bytes, int num_warps) {
  const GpuMachine *m = &t->machine;
  GpuOccupancy o = {.by_blocks = m->max_blocks,
                    .by_warps = num_warps >= 1 && num_warps <= GPU_MOST_WARPS ? m->max_warps / num_warps : 0};
  int warps = num_warps < 1 ? 1 : num_warps, of_warp = (int)align_up(registers * 32, GPU_REGISTER_UNIT);
  bool fits =
      registers <= GPU_MOST_REGISTERS && (int64_t)of_warp * (int)align_up(warps, GPU_PARTITIONS) <= GPU_REGISTERS;
  o.by_registers = registers < 1 ? m->max_blocks
                   : fits        ? GPU_REGISTERS / GPU_PARTITIONS / of_warp * GPU_PARTITIONS / warps
                                 : 0;
  o.registers = of_warp * warps;
  o.shared_bytes = (int)align_up(shared_bytes + GPU_SHARED_RESERVED, GPU_SHARED_UNIT);
  o.by_shared = shared_bytes <= t->shared_bytes ? m->shared_bytes / o.shared_bytes : 0;
  /* clang-format off */
  const struct { int n; const char *name; } limits[] = { /* of equal ones the first is named */
      {o.by_warps, "warps"}, {o.by_registers, "registers"}, {o.by_shared, "shared memory"}, {o.by_blocks, "blocks"}};
  /* clang-format on */
  int least = 0;
  for (int i = 1; i < 4; i++)
    if (limits[i].n < limits[least].n) least = i;
  o.blocks = limits[least].n;
  o.limit = limits[least].name;
  return o;
}
