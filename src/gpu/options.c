/* What a compilation may leave out, and what follows for products. */
#include "gpu/gpu.h"

/* What may be left out: passes by their names, and a few more. */
static const char *const optional[] = {
    "hoist_loads",   "async_loads", "dots_ahead",     "dots_behind",   "prefetch",        "sink_masks",
    "skip_masks",    "wgmma",       "tensor_cores",   "late_scales",   "late_sums",       "heavy_first",
    "dots_together", "persist",     "tensor_maps",    "specialize",    "turn_dots",       "apart",
    "loads_ahead",   "tcgen05",     "tensor_stores",  "own_rings",     "row_rings",       "dots_in_flight",
    "clusters",      "grid_wait",   "priced_squares", "late_prefetch", "turned_operands", "short_sums",
    "split_dots"};
enum { OPTIONAL = sizeof optional / sizeof *optional };
const char gpu_without_names[] = "hoist_loads, async_loads, dots_ahead, dots_behind, dots_together, prefetch, "
                                 "sink_masks, late_scales, late_sums, skip_masks, wgmma, "
                                 "tensor_cores, heavy_first, persist, tensor_maps, "
                                 "specialize, turn_dots, apart, loads_ahead, tcgen05, tensor_stores, own_rings, "
                                 "row_rings, dots_in_flight, clusters, "
                                 "grid_wait, priced_squares, late_prefetch, turned_operands, short_sums, split_dots";

static int bit_of(const char *name, size_t n) {
  for (int i = 0; i < OPTIONAL; i++)
    if (strlen(optional[i]) == n && !memcmp(optional[i], name, n)) return 1 << i;
  return 0;
}

int gpu_without(const char *names, const char **wrong) {
  int bits = 0;
  for (const char *s = names; s && *s;) {
    size_t n = strcspn(s, ",");
    int bit = bit_of(s, n);
    *wrong = s;
    if (!bit) return -1;
    bits |= bit;
    s += n + (s[n] == ',');
  }
  return bits;
}

bool gpu_leaves_out(const GpuOptions *o, const char *name) { return o->without & bit_of(name, strlen(name)); }

bool gpu_has_tensor_cores(const GpuOptions *o) { return !o->plain_dot && !gpu_leaves_out(o, "tensor_cores"); }

bool gpu_has_wgmma(const GpuOptions *o) {
  return o->target->sm == 90 && !o->no_wgmma && gpu_has_tensor_cores(o) && !gpu_leaves_out(o, "wgmma");
}

bool gpu_has_tcgen05(const GpuOptions *o) {
  bool has = o->target->sm >= 100 && o->target->sm < 120;
  return has && !o->no_wgmma && gpu_has_tensor_cores(o) && !gpu_leaves_out(o, "tcgen05");
}
