/* How the simulator reaches global memory, which other programs, on other threads, may reach at once: in pieces of up
 * to eight bytes, each by a relaxed atomic. */
#include "gpu/sim/sim_plan.h"

/* The largest power of two up to eight that divides both. */
static int piece_of(const char *p, int bytes) {
  uintptr_t bits = (uintptr_t)p | (uintptr_t)bytes | 8;
  return (int)(bits & -bits);
}

#define FETCH(type) \
  { \
    type v = __atomic_load_n((const type *)(const void *)from, __ATOMIC_RELAXED); \
    memcpy(into, &v, sizeof v); \
    break; \
  }
void sim_fetch(char *into, const char *from, int bytes) {
  for (int piece; bytes > 0; into += piece, from += piece, bytes -= piece) switch (piece = piece_of(from, bytes)) {
      case 1: FETCH(uint8_t)
      case 2: FETCH(uint16_t)
      case 4: FETCH(uint32_t)
      default: FETCH(uint64_t)
    }
}

#define PUT(type) \
  { \
    type v; \
    memcpy(&v, from, sizeof v); \
    __atomic_store_n((type *)(void *)into, v, __ATOMIC_RELAXED); \
    break; \
  }
void sim_put(char *into, const char *from, int bytes) {
  for (int piece; bytes > 0; into += piece, from += piece, bytes -= piece) switch (piece = piece_of(into, bytes)) {
      case 1: PUT(uint8_t)
      case 2: PUT(uint16_t)
      case 4: PUT(uint32_t)
      default: PUT(uint64_t)
    }
}
