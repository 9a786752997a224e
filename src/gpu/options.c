/* What a compilation may leave out, and what follows for products. */
#include "gpu/gpu.h"

/* What may be left out: passes by their names, and a few more. */
/* clang-format off */
#define OPTIONAL_NAMES(X) \
  X(hoist_loads) X(async_loads) X(dots_ahead) X(dots_behind) X(prefetch) X(sink_masks) X(skip_masks) X(wgmma) \
  X(tensor_cores) X(late_scales) X(late_sums) X(lane_sums) X(heavy_first) X(dots_together) X(persist) X(tensor_maps) \
  X(specialize) X(turn_dots) X(apart) X(loads_ahead) X(tcgen05) X(tensor_stores) X(own_rings) X(row_rings) \
  X(dots_in_flight) X(clusters) X(grid_wait) X(turned_operands) X(short_sums) X(split_dots) X(narrow_dots) \
  X(staged_reads) X(late_stores) X(late_copies) X(lockstep)
/* clang-format on */
#define LISTED(name) #name,
#define AFTER_COMMA(name) ", " #name
static const char *const optional[] = {OPTIONAL_NAMES(LISTED)};
enum { OPTIONAL = sizeof optional / sizeof *optional };
const char *const gpu_without_names = &OPTIONAL_NAMES(AFTER_COMMA)[2];

static int64_t bit_of(const char *name, size_t n) {
  for (int i = 0; i < OPTIONAL; i++)
    if (strlen(optional[i]) == n && !memcmp(optional[i], name, n)) return INT64_C(1) << i;
  return 0;
}

int64_t gpu_without(const char *names, const char **wrong) {
  int64_t bits = 0;
  for (const char *s = names; s && *s;) {
    size_t n = strcspn(s, ",");
    int64_t bit = bit_of(s, n);
    *wrong = s;
    if (!bit) return -1;
    bits |= bit;
    s += n + (s[n] == ',');
  }
  return bits;
}

bool gpu_leaves_out(const GpuOptions *o, const char *name) { return (o->without & bit_of(name, strlen(name))) != 0; }

bool gpu_has_tensor_cores(const GpuOptions *o) { return !o->plain_dot && !gpu_leaves_out(o, "tensor_cores"); }

bool gpu_has_wgmma(const GpuOptions *o) {
  return o->target->sm == 90 && !o->no_wgmma && gpu_has_tensor_cores(o) && !gpu_leaves_out(o, "wgmma");
}

bool gpu_has_tcgen05(const GpuOptions *o) {
  bool has = o->target->sm >= 100 && o->target->sm < 120;
  return has && !o->no_wgmma && gpu_has_tensor_cores(o) && !gpu_leaves_out(o, "tcgen05");
}
