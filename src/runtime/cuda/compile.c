/* From tile IR to a function that the driver can launch.
 *
 *     Func ─ gpu_compile ─▶ lane IR ─ gpu_print_ptx ─▶ PTX ─┬─ ptxas ──────────▶ cubin ─┬─▶ module ─▶ function
 *                                                           └─ the driver's JIT ────────┘
 *
 * Where there is ptxas, it makes the machine code, and the disk cache keeps it; the driver takes such a cubin in a
 * tenth of the time that PTX costs it (rt/cuda/load.c).
 */
#include <stdlib.h>

#include "rt/cuda/cuda.h"
#include "runtime/runtime.h"
#include "runtime/cuda_c/cuda_c.h"

static CudaKernel *create(Specialization *s, Context *cx) {
  CudaKernel *k = cuda_kernel_create(s->device, &s->run);
  if (!k) context_out_of_memory(cx);
  return k;
}

static void load(CudaKernel *k, Context *cx, const void *cubin, const char *ptx, const char *function,
                 volatile nereid_status *phase) {
  CudaLoadError *why = NEW(cx->arena, CudaLoadError);
  if (cuda_load(k, cubin, ptx, function, why)) return;
  *phase = why->status;
  if (*why->info) diag_note(cx, (Span){0}, "the driver's information log: %s", why->info);
  const char *log = *why->error ? arena_printf(cx->arena, "\n%s", why->error) : "", *hint = why->hint;
  if (why->result == CU_INVALID_PTX)
    hint = "this is a defect of Nereid; please report it with the PTX (nereid inspect --stage ptx)";
  if (hint) diag_fail_hint(cx, (Span){0}, hint, "%s%s", why->message, log);
  diag_fail(cx, (Span){0}, "%s%s", why->message, log);
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

/* A GPU may have less than the target, which stands for several. */
static void check_shared(const Cuda *c, Context *cx, const LaneFunc *f) {
  if (f->shared_bytes <= c->shared_per_block) return;
  Buf b = {0};
  buf_puts(&b, "use smaller tiles or fewer stages; the largest buffers are");
  for (int shown = 0, below = INT32_MAX; shown < 4; shown++) {
    const LaneBuffer *largest = NULL;
    for (int i = 0; i < f->buffers.n; i++) {
      const LaneBuffer *p = &f->buffers.at[i];
      if (p->bytes < below && (!largest || p->bytes > largest->bytes)) largest = p;
    }
    if (!largest) break;
    buf_printf(&b, "%s %s (%d bytes)", shown ? "," : "", largest->name, largest->bytes);
    below = largest->bytes;
  }
  const char *hint = b.failed ? "" : arena_strdup(cx->arena, b.at);
  buf_destroy(&b);
  diag_fail_hint(diag_need(cx, "shared memory", f->shared_bytes, c->shared_per_block), (Span){0}, hint,
                 "the kernel needs %d bytes of shared memory a block; %s has %d", f->shared_bytes, c->name,
                 c->shared_per_block);
}

static void prepare_reports(CudaKernel *k, Context *cx, const LaneFunc *f, volatile nereid_status *phase) {
  Cuda *c = k->cuda;
  DiagSites *sites = NULL;
  if (!diag_sites_keep(f, &sites)) context_out_of_memory(cx);
  CuResult r = cuda_keep_reports(k, sites);
  if (!r) return;
  char text[300];
  cuda_describe(&c->api, r, text, sizeof text);
  *phase = cuda_error(c, r, NULL, "%s", "");
  diag_fail(cx, (Span){0}, "%d bytes of the host's memory, for what the kernel prints, cannot be page-locked: %s",
            DIAG_BYTES, text);
}

static bool waits_for_grid(const LaneFunc *f) {
  for (const LaneOp *op = f->body->first; op; op = op->next)
    if (op->code == LANE_GRID_WAIT) return true;
  return false;
}

static void compile(Specialization *s, Func *func, Context *cx, Buf *text, volatile nereid_status *phase) {
  CudaKernel *k = create(s, cx);
  Cuda *c = k->cuda;
  const char *wrong;
  const GpuOptions options = {.target = gpu_target_for(c->sm),
                              .list = s->lists_programs,
                              .persist = s->persist,
                              .specialize = s->specialize,
                              .tensor_maps = c->api.map_encode != NULL,
                              .apart = true,
                              .without = gpu_without(s->without, &wrong)};
  *phase = NEREID_UNSUPPORTED;
  if (!options.target)
    diag_fail(cx, (Span){0}, "there is no target for compute capability %d.%d", c->sm / 10, c->sm % 10);
  int64_t start = clock_ns();
  s->info.tf32_chain = gpu_tf32_chain(func, &options);
  LaneFunc *f = gpu_compile(func, &options);
  check_shared(c, cx, f);
  GpuPtx ptx = gpu_print_ptx(text, f, options.target, true);
  if (text->failed) context_out_of_memory(cx);
  s->info.backend_ms = (double)(clock_ns() - start) / 1e6;
  *phase = NEREID_INTERNAL;
  k->threads = (unsigned)f->num_warps * 32;
  k->shared_bytes = (unsigned)f->shared_bytes;
  k->uses_list = f->uses_list;
  k->waits_for_grid = waits_for_grid(f);
  k->persistent = f->persistent;
  k->cluster = f->cluster;
  if (f->plan && !(s->run.plan = gpu_plan_keep(f->plan))) context_out_of_memory(cx);
  if (f->uses_diag) prepare_reports(k, cx, f, phase);

  GpuCubin cubin = {0};
  start = clock_ns();
  if (gpu_ptxas(cx, text, &ptx, options.target, &cubin)) {
    s->info.from_cache = cubin.from_cache;
    s->info.registers = cubin.registers;
    s->info.spill_bytes = cubin.spill_bytes;
  }
  if (context_try(cx)) {
    load(k, cx, cubin.bytes, text->at, gpu_entry_name(cx, f), phase);
    context_end_try(cx);
    gpu_cubin_free(&cubin);
  } else {
    gpu_cubin_free(&cubin);
    diag_fail_now(cx);
  }
  s->info.compiler_ms = cubin.from_cache ? 0 : (double)(clock_ns() - start) / 1e6;
  s->info.registers = k->registers;
  s->info.shared_bytes = (int)k->shared_bytes;
  int blocks = gpu_occupancy(options.target, k->registers, f->shared_bytes, f->num_warps).blocks;
  k->blocks = (blocks < 1 ? 1 : blocks) * (unsigned)s->device->threads;
}

/* The machine code is for this very GPU: sm_90a rather than sm_90 from Hopper on, as kernels that use its own
 * instructions want. */
static void compile_c(Specialization *s, Context *cx, volatile nereid_status *phase) {
  CudaKernel *k = create(s, cx);
  int sm = k->cuda->sm;
  const char *arch = arena_printf(cx->arena, "sm_%d%s", sm, sm >= 90 ? "a" : "");
  NvrtcResult r;
  k->is_cuda_c = true;
  int64_t start = clock_ns();
  nvrtc_compile(cx, s->module->path, s->module->text, k->name, arch, &r, phase);
  *phase = NEREID_INTERNAL;
  load(k, cx, r.cubin, r.ptx, r.lowered, phase);
  s->info.compiler_ms = r.from_cache ? 0 : (double)(clock_ns() - start) / 1e6;
  s->info.from_cache = r.from_cache;
  s->info.registers = k->registers;
}

const Compiler compiler_cuda = {
    .kind = &device_cuda, .optimizes = true, .runs_ptx = true, .compile = compile, .compile_cuda_c = compile_c};
