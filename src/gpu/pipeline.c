/* The passes that make lane IR of an optimised Func, in order, with what each needs, gives and keeps; each can be
 * dumped after.
 *
 * Lowering runs once, or twice: products whose tiles take more registers than a thread has are lowered again, with
 * fewer tiles in registers at a time. Of the two, the one that needs fewer goes on. Where that is not enough, cheap
 * values are computed again rather than kept. Of tensor cores the assembler wants registers for reads of shared memory
 * that are under way: there, that comes first.
 */
#include "gpu/disjoint.h"
#include "gpu/gpu.h"
#include "gpu/lane/table.h"
#include "layout/layout.h"
#include "tile/passes/instrument.h"

static void choose(Func *f, const GpuOptions *o) {
  f->squares = SQUARES_READ | (o->target->sm >= 90 ? SQUARES_WRITTEN : 0);
  if (!gpu_leaves_out(o, "turned_operands")) f->squares |= SQUARES_OPERANDS;
  layout_choose(f, f->num_warps, gpu_has_wgmma(o) ? DOT_WGMMA : gpu_has_tensor_cores(o) ? DOT_MMA : DOT_FMA);
}

/* ---- lowering within a thread's registers ------------------------------------------------------------------------ */

struct GpuRun {
  Func *f;
  const GpuOptions *o;
  LaneFunc *lane;             /* once it is lowered */
  bool dots, on_tensor_cores; /* it has products; some of them there */
  bool register_limited;      /* lowered so */
  int needed;                 /* registers of a thread; -1: to be counted */
};

static void find_dots(Op *op, void *arg) {
  GpuRun *r = arg;
  if (op->code != OP_DOT && op->code != OP_TMEM_DOT) return;
  r->dots = true;
  r->on_tensor_cores |= op->code == OP_TMEM_DOT || layout_dot_is_mma(op);
}

static int needed_registers(GpuRun *r) {
  if (r->needed < 0) r->needed = lane_pressure(r->lane);
  return r->needed;
}

static bool is_over(GpuRun *r, int sixteenths) {
  return needed_registers(r) > gpu_thread_registers(r->f->num_warps) * sixteenths / 16;
}

/* Only products are short of registers; what is dead takes none. */
static bool counts_registers(GpuRun *r) { return r->dots || r->register_limited; }
static bool is_unswept(GpuRun *r) { return counts_registers(r) && !(r->lane->holds & LANE_SWEPT); }

static bool is_crowded(GpuRun *r) {
  if (r->o->register_limited) return true;
  if (!r->on_tensor_cores && !r->register_limited) return false;
  return is_over(r, r->on_tensor_cores ? r->o->target->budgets->recomputed_tensor : r->o->target->budgets->recomputed);
}

/* ---- the passes -------------------------------------------------------------------------------------------------- */

static void regions(Func *f, const GpuOptions *o) { tile_instrument(f); }

static void rematerialize(LaneFunc *f, const GpuOptions *o) { lane_rematerialize(f); }

static void pack(LaneFunc *f, const GpuOptions *o) { lane_pack_carried(f); }

static void combine(LaneFunc *f, const GpuOptions *o) { lane_combine_mul(f); }

static void clean(LaneFunc *f, const GpuOptions *o) { lane_dce(f); }

/* New values have no axis info where that is not known at once; but pointers and masks that accesses take must. */
enum {
  PLAIN = FUNC_NO_LAYOUTS,
  ACCESS = FUNC_NO_LAYOUTS | FUNC_ACCESS_INFO,
  LAID = FUNC_LAYOUTS,
  MOVES = FUNC_ALL,
  MAKES = FUNC_ALL & ~FUNC_AXIS_INFO,
  LAYS = FUNC_ALL & ~(FUNC_AXIS_INFO | FUNC_NO_LAYOUTS),
  SWEPT = LANE_SWEPT,
  PLACED = LANE_PLACED
};

/* clang-format off */
const GpuPass gpu_passes[] = {
    /*                                                      needs, gives, keeps */
    {"iterations_apart", GPU_TILE, gpu_iterations_apart, NULL, {ACCESS, 0, MAKES}}, /* loops without barriers */
    {"narrow_dots", GPU_TILE, gpu_narrow_dots, NULL,       {PLAIN, 0, MAKES}},  /* of what f32 was made of */
    {"split_dots", GPU_TILE, gpu_split_dots, NULL,         {ACCESS, 0, MAKES}}, /* f32 in three of tf32 */
    {"turn_dots", GPU_TILE, gpu_turn_dots, NULL,           {ACCESS, 0, MAKES}}, /* products that hardware takes turned */
    {"late_sums", GPU_TILE, gpu_late_sums, NULL,           {PLAIN, 0, MAKES}},  /* sums across lanes after loops */
    {"lane_sums", GPU_TILE, gpu_lane_sums, NULL,           {ACCESS, 0, MAKES}}, /* sums of all elements after loops */
    {"heavy_first", GPU_TILE, gpu_heavy_first, NULL,       {PLAIN, 0, MAKES}},  /* longer programs before others */
    {"persist", GPU_TILE, gpu_persist, NULL,               {PLAIN, 0, MAKES}},  /* a block runs several programs */
    {"specialize", GPU_TILE, gpu_specialize, NULL,         {ACCESS, 0, MAKES}}, /* warps of their own copy tiles */
    {"tensor_stores", GPU_TILE, gpu_tensor_stores, NULL,   {ACCESS, 0, MAKES}}, /* tiles of results, by tensor maps */
    {"hoist_loads", GPU_TILE, gpu_hoist_loads, NULL,       {PLAIN, 0, MOVES}},  /* loads before reductions */
    {"async_loads", GPU_TILE, gpu_async_loads, NULL,       {ACCESS, 0, MAKES}}, /* products' tiles, iterations ahead */
    {"dots_behind", GPU_TILE, gpu_dots_behind, NULL,       {PLAIN, 0, MAKES}},  /* products of the one before */
    {"dots_together", GPU_TILE, gpu_dots_together, NULL,   {PLAIN, 0, MAKES}},  /* products before the first's work */
    {"dots_ahead", GPU_TILE, gpu_dots_ahead, NULL,         {PLAIN, 0, MAKES}},  /* products of the next iteration */
    {"loads_ahead", GPU_TILE, gpu_loads_ahead, NULL,       {ACCESS, 0, MAKES}}, /* of recurrences and sums */
    {"prefetch", GPU_TILE, gpu_prefetch, NULL,             {ACCESS, 0, MAKES}}, /* loads of the next iteration */
    {"sink_masks", GPU_TILE, gpu_sink_masks, NULL,         {PLAIN, 0, MOVES}},  /* masks after products */
    {"late_scales", GPU_TILE, gpu_late_scales, NULL,       {PLAIN, 0, MAKES}},  /* scales after maxima */
    {"skip_masks", GPU_TILE, gpu_skip_masks, NULL,         {PLAIN, 0, MAKES}},  /* masks that few iterations need */
    {"dots_in_flight", GPU_TILE, gpu_dots_in_flight, NULL, {PLAIN, 0, MAKES}},  /* products that wait for none */
    {"late_stores", GPU_TILE, gpu_late_stores, NULL,       {PLAIN, 0, MOVES}},  /* of what products take, behind them */
    {"late_copies", GPU_TILE, gpu_late_copies, NULL,       {PLAIN, 0, MOVES}},  /* asked for while products run */
    {"regions", GPU_TILE, regions, NULL,                   {0, 0, FUNC_ALL}},   /* what is timed, if instrumented */
    {"layout", GPU_TILE, choose, NULL,                     {ACCESS, LAID, LAYS}}, /* who holds which element */
    {"lower", GPU_LOWERING, NULL, NULL,                    {LAID, 0, 0}},       /* what one thread does */
    {"lane-dce", GPU_LOWERING, NULL, clean,                {0, SWEPT, LANE_ALL}, counts_registers},
    {"rematerialize", GPU_LOWERING, NULL, rematerialize,   {SWEPT, 0, 0}, is_crowded}, /* cheap values made again */
    {"lane-dce", GPU_LOWERING, NULL, clean,                {0, SWEPT, LANE_ALL}, is_unswept},
    {"pack_carried", GPU_LANE, NULL, pack,                 {0, 0, 0}},          /* loops carry words, not their parts */
    {"combine_mul", GPU_LANE, NULL, combine,               {0, 0, 0}},          /* both halves of a product at once */
    {"lane-dce", GPU_LANE, NULL, clean,                    {0, SWEPT, LANE_ALL}},
    {"shared", GPU_LANE, NULL, gpu_allocate_shared,        {SWEPT, PLACED, LANE_ALL}}, /* of buffers; barriers */
    {"barriers", GPU_LANE, NULL, gpu_record_barriers,      {PLACED, 0, LANE_ALL}}, /* timed, if instrumented */
    {NULL},
};
/* clang-format on */

/* A block does the whole work of a program, whatever its num_ctas says of blocks that share it. It gets their warps, as
 * long as each thread keeps what registers it may have. */
enum { MOST_WARPS_OF_CTAS = 8 };
static void take_ctas(Func *f) {
  for (int n = f->num_ctas; n > 1 && 2 * f->num_warps <= MOST_WARPS_OF_CTAS; n /= 2) f->num_warps *= 2;
}

static void check_options(Func *f) {
  int n = f->num_warps;
  if (n < 1 || n > 32 || (n & (n - 1)))
    diag_fail_hint(f->cx, (Span){0}, "use 1, 2, 4, 8, 16 or 32",
                   "num_warps is %d, but a program on a GPU runs on a power of two of at most 32 warps", n);
  n = f->num_ctas;
  if (n < 1 || n > 16 || (n & (n - 1)))
    diag_fail_hint(f->cx, (Span){0}, "use 1, 2, 4, 8 or 16",
                   "num_ctas is %d, but a program is shared by a power of two of at most 16 blocks", n);
}

static void dump(const GpuRun *r, const char *after) {
  const GpuOptions *o = r->o;
  if (!o->dump || !o->dump_after || (strcmp(o->dump_after, "all") && strcmp(o->dump_after, after))) return;
  buf_printf(o->dump, "// after %s\n", after);
  if (r->lane) lane_print(o->dump, r->lane, false);
  else if (r->f->holds & FUNC_LAYOUTS) layout_print_func(o->dump, r->f);
  else tile_print(o->dump, r->f, 0);
}

static void run_tile(GpuRun *r, const GpuPass *p) {
  tile_pass_begin(r->f, p->name, &p->contract);
  p->tile(r->f, r->o);
  tile_pass_end(r->f, p->name, &p->contract, r->o->verify);
  if (r->o->verify) gpu_verify_rings(r->f, p->name);
  if (r->o->verify && r->f->holds & FUNC_LAYOUTS) layout_verify(r->f);
}

static void run_lane(GpuRun *r, const GpuPass *p) {
  if (p->lane) {
    lane_pass_begin(r->lane, p->name, &p->contract);
    p->lane(r->lane, r->o);
  } else {
    tile_pass_begin(r->f, p->name, &p->contract);
    r->lane = gpu_lower(r->f, r->o, r->register_limited);
  }
  lane_pass_end(r->lane, p->name, &p->contract, r->o->verify);
  r->needed = -1;
}

static void run_stage(GpuRun *r, GpuStage stage) {
  for (const GpuPass *p = gpu_passes; p->name; p++) {
    if (p->stage != stage || gpu_leaves_out(r->o, p->name) || (p->when && !p->when(r))) continue;
    if (p->tile) run_tile(r, p);
    else run_lane(r, p);
    dump(r, p->name);
  }
}

void gpu_lay_out(Func *f, const GpuOptions *o) {
  take_ctas(f);
  GpuRun r = {.f = f, .o = o};
  disjoint_begin(f, o);
  run_stage(&r, GPU_TILE);
}

/* A product that is rounded by itself cannot become part of a fused operation. */
static void round_products(LaneOp *op, void *unused) {
  (void)unused;
  if (op->code == LANE_MUL && op->rounding == ROUND_DEFAULT && lane_kind_is_float(op->kind)) op->exact = true;
}

LaneFunc *gpu_compile(Func *f, const GpuOptions *o) {
  check_options(f);
  take_ctas(f);
  GpuRun r = {.f = f, .o = o, .register_limited = o->register_limited};
  disjoint_begin(f, o);
  run_stage(&r, GPU_TILE);
  tile_walk(f->body, find_dots, &r);
  run_stage(&r, GPU_LOWERING);
  if (!r.register_limited && counts_registers(&r) && is_over(&r, o->target->budgets->lowered_again)) {
    GpuRun again = r;
    again.register_limited = true;
    run_stage(&again, GPU_LOWERING);
    if (needed_registers(&again) <= needed_registers(&r)) r = again;
  }
  run_stage(&r, GPU_LANE);
  if (f->no_fusion) lane_walk(r.lane->body, round_products, NULL);
  r.lane->max_registers = f->max_registers;
  return r.lane;
}
