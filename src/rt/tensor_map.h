/* Tensor maps: what a copy of a box between an array in global memory and shared memory goes by (PTX ISA, Tensor
 * copies; cuTensorMapEncodeTiled). Dimension 0 is the inner one, whose elements lie side by side.
 *
 *     sizes {K, M}, strides {2 * K}, box {64, 128}, swizzle 3     128 rows of 64 two-byte elements of an M by K array
 *
 * In shared memory a box's rows follow one another. swizzle 1, 2, 3: of 32, 64, 128 bytes; places of 16 bytes are
 * xor'ed with higher bits of the address (gpu_swizzle). A GPU's map is 128 bytes of the driver's making; the simulator
 * takes this struct itself, in 128 bytes.
 */
#ifndef NEREID_TENSOR_MAP_H
#define NEREID_TENSOR_MAP_H

#include "base/base.h"

enum { GPU_MAP_BYTES = 128, GPU_MAP_ALIGN = 64, GPU_MAP_MOST_RANK = 5, GPU_MAP_MAGIC = 0x4d54444e };

typedef struct GpuTensorMap {
  uint32_t magic;
  uint8_t rank, swizzle;
  Dtype dtype;
  uint64_t base;
  uint64_t sizes[GPU_MAP_MOST_RANK];       /* elements; of those that are not there 1 */
  uint64_t strides[GPU_MAP_MOST_RANK - 1]; /* bytes from one element to the next, of dimensions 1.. */
  uint16_t box[GPU_MAP_MOST_RANK];         /* elements; 1 of those that are not there */
  uint64_t
      padded; /* the array's rows do not begin at 16 bytes: the map is to be of a copy with rows so far apart; or 0 */
} GpuTensorMap;
_Static_assert(sizeof(GpuTensorMap) <= GPU_MAP_BYTES, "the simulator's map takes the room of a GPU's");

static inline uint32_t gpu_swizzle(uint32_t at, int swizzle) {
  return at ^ (at >> 7 & (((uint32_t)1 << swizzle) - 1)) << 4;
}

#endif
