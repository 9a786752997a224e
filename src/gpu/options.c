/* What a compilation may leave out, and what follows for products. */
#include "gpu/gpu.h"

/* What may be left out: passes by their names, and a few more. */
static const char *const optional[] = {"hoist_loads", "async_loads", "dots_ahead", "prefetch",
                                       "sink_masks",  "skip_masks",  "wgmma",      "tensor_cores",
                                       "persist",     "tensor_maps", "specialize"};
enum { OPTIONAL = sizeof optional / sizeof *optional };
const char gpu_without_names[] = "hoist_loads, async_loads, dots_ahead, prefetch, sink_masks, skip_masks, wgmma, "
                                 "tensor_cores, persist, tensor_maps, "
                                 "specialize";

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

static void find_tf32(Op *op, void *arg) {
  if (op->code == OP_DOT && op->in[0]->type->dtype == DT_F32 && op->attr[0] == PRECISION_TF32) *(bool *)arg = true;
}

bool gpu_takes_tf32(const Func *f, const GpuOptions *o) {
  bool found = false;
  tile_walk(f->body, find_tf32, &found);
  return found && gpu_has_tensor_cores(o);
}
