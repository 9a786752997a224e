/* The GPUs that kernels are compiled for: what the code generator asks of them, and what a report says of their
 * multiprocessors, in one table.
 *
 * PTX versions are the lowest that have every form which ptx.c prints for the target, so that the driver of as old a
 * CUDA release as possible takes the text; the assembler of any newer release takes it too. Names with an `a` build for
 * that architecture only, and have all its instructions.
 *
 * Warps, blocks and shared memory are those of the CUDA programming guide's table "Technical specifications per compute
 * capability"; rates of fp32, fp16 and fp64 (multiply-adds a cycle) those of its table "Throughput of native arithmetic
 * instructions". What one of that generation has as a whole is from a datasheet: of a tensor core's rate, fp16 with
 * sums in fp32, dense, divided by multiprocessors and clock. A report says whose figures it takes, and takes others.
 */
#include "gpu/gpu.h"

#include <strings.h>

enum { KB = 1024 };

/* Measured on an H200; nobody has measured on others. */
static const GpuBudgets measured = {
    .hoisted_bytes = 64,
    .hoisted_over_products = 128,
    .prefetched = 32,
    .beside_prefetched = 40,
    .beside_prefetched_dot = 96,
    .ring_slots = 8,
    .beside_rings = 2048,
    .beside_sums = 72,
    .beside_together = 48,
    .with_sums_ahead = 240,
    .beside_sums_behind = 56,
    .specialized_warps = 8,
    .specialized_sums = 96,
    .cluster = 2,
    .clustered = 0, /* measured: what decides is how short k is, not the tile */
    .copying = 24,
    .computing = 240,
    .converted_parted = 32 * KB,
    .skipped_mask = 16,
    .lowered_again = 15,
    .recomputed = 16,
    .recomputed_tensor = 13,
    .beside_dot = 96,
    .dot_operands = 192,
    .shared_of_two = 4,
    .shared_of_one = 5,
    .staged_share = 3,
    .beside_words = 56,
    .beside_instruction = 32,
    .moved_share = 2,
    .reduced = 32,
    .free_shared = 64,
    .given_up = 3,
    .resident_warps = 16,
    .many_sums = 128,
    .streamed = 8,
    .beside_streamed = 20,
    .streamed_tile = 64,
};

/* clang-format off */
const GpuTarget gpu_targets[] = {
    /* name     sm  .version vector  shared    bf16   vector fp8    bf16   redux  cache
                                               arith  red           atomic f32    hints */
    {"sm_80", 80, "7.4", 16, 163 * KB, false, false, false, false, false, false, {64, 32, 164 * KB, 64, 256, 32, 1024, "A100", 108, 1410, 2039, 40}, &measured},
    {"sm_86", 86, "7.4", 16, 99 * KB, false, false, false, false, false, false, {48, 16, 100 * KB, 128, 128, 2, 256, "RTX 3090", 82, 1695, 936, 6}, &measured},
    {"sm_87", 87, "7.4", 16, 163 * KB, false, false, false, false, false, false, {48, 16, 164 * KB, 128, 128, 2, 512, "Jetson AGX Orin", 16, 1300, 205, 4}, &measured},
    {"sm_89", 89, "8.1", 16, 99 * KB, false, false, true, false, false, false, {48, 24, 100 * KB, 128, 128, 2, 256, "RTX 4090", 128, 2520, 1008, 72}, &measured},
    {"sm_90a", 90, "8.1", 16, 227 * KB, true, true, true, true, false, true, {64, 32, 228 * KB, 128, 256, 64, 2048, "H200", 132, 1830, 4800, 50}, &measured},
    {"sm_100a", 100, "8.8", 32, 227 * KB, true, true, true, true, true, false, {64, 32, 228 * KB, 128, 256, 64, 4096, "B200", 148, 1850, 8000, 126}, &measured},
    {"sm_103a", 103, "8.8", 32, 227 * KB, true, true, true, true, true, false, {64, 32, 228 * KB, 128, 256, 2, 4096, "B300", 148, 1920, 8000, 126}, &measured},
    {"sm_110a", 110, "9.0", 32, 227 * KB, true, true, true, true, true, false, {48, 24, 228 * KB, 128, 256, 2, 2048, "Jetson AGX Thor", 20, 1575, 273, 32}, &measured},
    {"sm_120a", 120, "8.8", 32, 99 * KB, true, true, true, true, false, false, {48, 24, 100 * KB, 128, 128, 2, 256, "RTX 5090", 170, 2407, 1792, 96}, &measured},
    {"sm_121a", 121, "8.8", 32, 99 * KB, true, true, true, true, false, false, {48, 24, 100 * KB, 128, 128, 2, 512, "GB10", 48, 2418, 273, 24}, &measured},
    {NULL},
};
/* clang-format on */

/* GPUs by the names that people call them. */
static const struct {
  const char *model, *target;
} models[] = {{"a100", "sm_80"},    {"a10", "sm_86"},    {"a40", "sm_86"},       {"rtx3090", "sm_86"},
              {"orin", "sm_87"},    {"l4", "sm_89"},     {"l40", "sm_89"},       {"l40s", "sm_89"},
              {"rtx4090", "sm_89"}, {"h100", "sm_90a"},  {"h200", "sm_90a"},     {"h20", "sm_90a"},
              {"gh200", "sm_90a"},  {"b200", "sm_100a"}, {"gb200", "sm_100a"},   {"b300", "sm_103a"},
              {"gb300", "sm_103a"}, {"thor", "sm_110a"}, {"rtx5090", "sm_120a"}, {"gb10", "sm_121a"}};

const GpuTarget *gpu_target_find(const char *name) {
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    if (!strcasecmp(models[i].model, name)) name = models[i].target;
  size_t n = strlen(name);
  for (const GpuTarget *t = gpu_targets; t->name; t++)
    if (!strncmp(t->name, name, n) && (!t->name[n] || (n > 3 && !strcmp(t->name + n, "a")))) return t;
  return NULL;
}

int gpu_thread_registers(int num_warps) {
  int most = GPU_REGISTERS / (32 * (num_warps > 0 ? num_warps : 1));
  return most < GPU_MOST_REGISTERS ? most : GPU_MOST_REGISTERS;
}

/* Machine code runs on its own architecture and on later ones of the same generation, but that of the `a` targets, on
 * its own only. */
const GpuTarget *gpu_target_for(int sm) {
  const GpuTarget *best = NULL;
  for (const GpuTarget *t = gpu_targets; t->name; t++)
    if (t->sm == sm || (t->sm < sm && t->sm / 10 == sm / 10 && t->sm < 90)) best = t;
  return best;
}
