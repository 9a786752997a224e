/* What one access by one warp takes: sectors of global memory, passes over the banks of shared memory.
 *
 * A sector is 32 bytes, the piece in which L1 and L2 are asked and memory is read. 32 threads that load 4 bytes each
 * side by side ask for 4 sectors; at a distance of 32 bytes or more each asks for its own; beginning in the middle of a
 * sector they ask for 5.
 *
 * Shared memory has 32 banks of 4 bytes, word w in bank w % 32. A pass gives each bank's word to as many threads as ask
 * for it; two words of one bank take two passes. What a thread accesses in 8 or 16 bytes is served in groups of
 * threads, each of which fills the banks once:
 *
 *     up to 4 bytes   all 32 threads      1 pass without conflicts
 *     8 bytes         two halves          2; a load's at once when threads are paired: of all that take part i and i ^
 *                                         1 have one address,
 *                                         or i and i ^ 2
 *     16 bytes        four quarters       4; a load's two of a half at once when threads are paired likewise
 *
 * These rules give, for all of 500 patterns of 4 to 16 bytes, what ncu counts on an H200.
 */
#include "gpu/report/counts.h"

int gpu_request_sectors(const uint64_t at[32], uint32_t lanes, int bytes) {
  uint64_t seen[64];
  int n = 0;
  for (int lane = 0; lane < 32; lane++) {
    if (!(lanes >> lane & 1)) continue;
    for (uint64_t s = at[lane] / 32; s <= (at[lane] + (uint64_t)bytes - 1) / 32; s++) {
      int i = n - 1;
      while (i >= 0 && seen[i] != s) i--;
      if (i < 0) seen[n++] = s;
    }
  }
  return n;
}

int gpu_request_ideal(const uint64_t at[32], uint32_t lanes, int bytes) {
  uint64_t seen[32];
  int n = 0;
  for (int lane = 0; lane < 32; lane++) {
    if (!(lanes >> lane & 1)) continue;
    int i = n - 1;
    while (i >= 0 && seen[i] != at[lane]) i--;
    if (i < 0) seen[n++] = at[lane];
  }
  return (n * bytes + 31) / 32;
}

/* Passes for the threads of `lanes` at once: the most words that one bank has to give. */
static int passes(const uint64_t at[32], uint32_t lanes, int bytes) {
  uint64_t words[32][64];
  uint8_t n[32] = {0};
  int most = 0;
  for (int lane = 0; lane < 32; lane++) {
    if (!(lanes >> lane & 1)) continue;
    for (uint64_t w = at[lane] / 4; w <= (at[lane] + (uint64_t)bytes - 1) / 4; w++) {
      int bank = (int)(w % 32), i = n[bank] - 1;
      while (i >= 0 && words[bank][i] != w) i--;
      if (i >= 0) continue;
      words[bank][n[bank]++] = w;
      if (n[bank] > most) most = n[bank];
    }
  }
  return most;
}

/* Whether all threads that take part have the address of the one whose number differs in `bit`, where that one takes
 * part. */
static bool paired(const uint64_t at[32], uint32_t lanes, int bit) {
  for (int lane = 0; lane < 32; lane++) {
    int other = lane ^ bit;
    if ((lanes >> lane & 1) && (lanes >> other & 1) && at[lane] != at[other]) return false;
  }
  return true;
}

int gpu_request_wavefronts(const uint64_t at[32], uint32_t lanes, int bytes, bool load, int *ideal) {
  int group = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8, sum = 0;
  if (load && group < 32 && (paired(at, lanes, 1) || paired(at, lanes, 2))) group *= 2;
  *ideal = 0;
  for (int first = 0; first < 32; first += group) {
    uint32_t of = group == 32 ? lanes : lanes & ((1u << group) - 1) << first;
    if (!of) continue;
    sum += passes(at, of, bytes);
    ++*ideal;
  }
  return sum;
}
