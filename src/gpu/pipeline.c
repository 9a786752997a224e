/* The passes that make lane IR of an optimised Func, in order; each can be dumped after. */
#include "gpu/lower/lower.h"
#include "tile/passes/instrument.h"

/* What may be left out: passes by their names, and two more. */
static const char *const optional[] = {"hoist_loads", "async_loads", "dots_ahead", "prefetch",
                                       "sink_masks",  "skip_masks",  "wgmma",      "tensor_cores"};
enum { OPTIONAL = sizeof optional / sizeof *optional };
const char gpu_without_names[] =
    "hoist_loads, async_loads, dots_ahead, prefetch, sink_masks, skip_masks, wgmma, tensor_cores";

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

static bool is_left_out(const GpuOptions *o, const char *name) { return o->without & bit_of(name, strlen(name)); }

bool gpu_has_tensor_cores(const GpuOptions *o) { return !o->plain_dot && !is_left_out(o, "tensor_cores"); }

bool gpu_has_wgmma(const GpuOptions *o) {
  return o->target->sm == 90 && !o->no_wgmma && gpu_has_tensor_cores(o) && !is_left_out(o, "wgmma");
}

static void find_tf32(Op *op, void *arg) {
  if (op->code == OP_DOT && op->in[0]->type->dtype == DT_F32 && op->attr[0] == PRECISION_TF32) *(bool *)arg = true;
}

bool gpu_takes_tf32(const Func *f, const GpuOptions *o) {
  bool found = false;
  tile_walk(f->body, find_tf32, &found);
  return found && gpu_has_tensor_cores(o);
}

static void choose(Func *f, const GpuOptions *o) {
  layout_choose(f, f->num_warps, gpu_has_wgmma(o) ? DOT_WGMMA : gpu_has_tensor_cores(o) ? DOT_MMA : DOT_FMA);
}

static void regions(Func *f, const GpuOptions *o) { tile_instrument(f); }

static void carry(LaneFunc *f, const GpuOptions *o) { lane_carry(f); }

static void widen(LaneFunc *f, const GpuOptions *o) { lane_wide(f); }

static void clean(LaneFunc *f, const GpuOptions *o) { lane_dce(f); }

const GpuPass gpu_passes[] = {
    {"hoist_loads", gpu_hoist_loads, NULL}, /* loads before reductions */
    {"async_loads", gpu_async_loads, NULL}, /* tiles of products, several iterations ahead, into shared memory */
    {"dots_ahead", gpu_dots_ahead, NULL},   /* products of the next iteration, while this one goes on */
    {"prefetch", gpu_prefetch, NULL},       /* loads an iteration ahead */
    {"sink_masks", gpu_sink_masks, NULL},   /* masks behind products */
    {"skip_masks", gpu_skip_masks, NULL},   /* masks that most iterations do not need */
    {"regions", regions, NULL},             /* of instrumented kernels alone: what is timed */
    {"layout", choose, NULL},               /* which thread holds which element */
    {"lower", NULL, NULL},                  /* what one thread does */
    {"carry", NULL, carry},                 /* loops carry words, not their halves and bytes */
    {"wide", NULL, widen},                  /* both halves of a product at once */
    {"lane-dce", NULL, clean},
    {"shared", NULL, gpu_allocate_shared},   /* where buffers lie in shared memory */
    {"barriers", NULL, gpu_record_barriers}, /* of instrumented kernels alone: waits are timed */
    {NULL},
};

static void check_options(Func *f) {
  int n = f->num_warps;
  if (n < 1 || n > 32 || (n & (n - 1)))
    fail_hint(f->cx, (Span){0}, "use 1, 2, 4, 8, 16 or 32",
              "num_warps is %d, but a program on a GPU runs on a power of two of at most 32 warps", n);
  if (f->num_ctas > 1)
    fail_hint(f->cx, (Span){0}, "leave num_ctas out",
              "num_ctas is %d, but programs that span several blocks are not supported", f->num_ctas);
}

static void dump(const GpuOptions *o, const GpuPass *p, const Func *f, bool laid_out, const LaneFunc *lane) {
  if (!o->dump || !o->dump_after || (strcmp(o->dump_after, "all") && strcmp(o->dump_after, p->name))) return;
  buf_printf(o->dump, "// after %s\n", p->name);
  if (lane) lane_print(o->dump, lane, false);
  else if (laid_out) layout_print_func(o->dump, f);
  else tile_print(o->dump, f, 0);
}

void gpu_lay_out(Func *f, const GpuOptions *o) {
  for (const GpuPass *p = gpu_passes; p->tile; p++)
    if (!is_left_out(o, p->name)) p->tile(f, o);
}

LaneFunc *gpu_compile(Func *f, const GpuOptions *o) {
  LaneFunc *lane = NULL;
  bool laid_out = false;
  check_options(f);
  for (const GpuPass *p = gpu_passes; p->name; p++) {
    if (is_left_out(o, p->name)) continue;
    if (p->tile) p->tile(f, o);
    else if (p->lane) p->lane(lane, o);
    else lane = gpu_lower(f, o);
    laid_out |= p->tile == choose;
    dump(o, p, f, laid_out, lane);
    if (!o->verify) continue;
    if (lane) lane_verify(lane, p->name);
    else tile_verify(f, p->name);
    if (!lane && laid_out) layout_verify(f);
  }
  return lane;
}
