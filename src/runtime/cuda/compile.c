/* From tile IR to a function that the driver can launch.
 *
 *     Func ─ gpu_compile ─▶ lane IR ─ gpu_print_ptx ─▶ PTX ─┬─ ptxas ──────────▶ cubin ─┬─▶ module ─▶ function
 *                                                           └─ the driver's JIT ────────┘
 *
 * Where there is ptxas, it makes the machine code, and the disk cache keeps it; the driver takes such a cubin in a
 * tenth of the time that PTX costs it. A driver older than ptxas may refuse the cubin, and gets the PTX then, as where
 * there is no ptxas.
 *
 * Functions are loaded whole here, not at their first launch, so that a launch may be captured into a CUDA graph.
 */
#include <stdlib.h>

#include "gpu/launch_plan.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda_c/cuda_c.h"

enum { LOG_BYTES = 16384, FREE_SHARED = 48 << 10 };

CudaKernel *cuda_kernel_create(Specialization *s, Context *cx) {
  CudaKernel *k = calloc(1, sizeof *k);
  if (!k) context_out_of_memory(cx);
  k->cuda = s->device->state;
  k->name = s->kernel->info.name;
  atomic_fetch_add(&k->cuda->references, 1);
  s->cuda = k;
  return k;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* What the driver writes while it makes machine code. */
typedef struct JitLogs {
  char info[LOG_BYTES], error[LOG_BYTES];
} JitLogs;

static CuResult load_image(const Cuda *c, CuModule *out, const void *image, JitLogs *logs) {
  int options[] = {CU_JIT_INFO_LOG, CU_JIT_INFO_SIZE, CU_JIT_ERROR_LOG, CU_JIT_ERROR_SIZE};
  void *values[] = {logs->info, (void *)(uintptr_t)sizeof logs->info, logs->error,
                    (void *)(uintptr_t)sizeof logs->error};
  memset(logs, 0, sizeof *logs);
  CuResult r = c->api.module_load(out, image, 4, options, values);
  logs->info[LOG_BYTES - 1] = logs->error[LOG_BYTES - 1] = 0;
  return r;
}

/* Those that another way of loading may get around. */
static bool is_refusal(CuResult r) {
  return r == CU_INVALID_IMAGE || r == CU_NO_BINARY_FOR_GPU || r == CU_PTX_TOO_NEW || r == CU_INVALID_PTX;
}

static void trim(char *s) {
  size_t n = strlen(s);
  while (n && (s[n - 1] == '\n' || s[n - 1] == ' ')) s[--n] = 0;
}

static NORETURN void load_failed(const Cuda *c, Context *cx, CuResult r, const char *function, JitLogs *logs) {
  char text[300];
  cuda_describe(&c->api, r, text, sizeof text);
  trim(logs->error), trim(logs->info);
  if (*logs->info) diag_note(cx, (Span){0}, "the driver's information log: %s", logs->info);
  const char *log = *logs->error ? arena_printf(cx->arena, "\n%s", logs->error) : "";
  const char *hint = cuda_hint(r);
  if (r == CU_INVALID_PTX)
    hint = "this is a defect of Nereid; please report it with the PTX (nereid inspect --stage ptx)";
  if (hint) diag_fail_hint(cx, (Span){0}, hint, "the driver does not load kernel '%s': %s%s", function, text, log);
  diag_fail(cx, (Span){0}, "the driver does not load kernel '%s': %s%s", function, text, log);
}

static CuResult get_function(CudaKernel *k, const char *function) {
  const CudaApi *api = &k->cuda->api;
  CuResult r = api->module_function(&k->function, k->module, function);
  int threads = 0;
  if (!r) r = api->function_attribute(&k->registers, CU_FUNCTION_REGISTERS, k->function);
  if (!r) r = api->function_attribute(&threads, CU_FUNCTION_MAX_THREADS, k->function);
  if (!r && k->is_cuda_c) k->threads = (unsigned)threads;
  if (!r && k->shared_bytes > FREE_SHARED && !k->is_cuda_c)
    r = api->function_set(k->function, CU_FUNCTION_DYNAMIC_SHARED, (int)k->shared_bytes);
  if (!r && api->function_load) r = api->function_load(k->function);
  if (!r && (unsigned)threads < k->threads) r = CU_OUT_OF_RESOURCES;
  return r;
}

void cuda_load(CudaKernel *k, Context *cx, const void *cubin, const char *ptx, const char *function,
               volatile nereid_status *phase) {
  Cuda *c = k->cuda;
  JitLogs *logs = NEW(cx->arena, JitLogs);
  CudaEntered entered;
  CuResult r = cuda_enter(c, &entered);
  if (!r && cubin) r = load_image(c, &k->module, cubin, logs);
  if (!r ? !cubin : cubin && ptx && is_refusal(r)) r = load_image(c, &k->module, ptx, logs);
  if (!r) r = get_function(k, function);
  cuda_leave(c, entered);
  if (!r) return;
  nereid_error *why = NULL; /* of an error that ends the context, cuda_error knows more */
  *phase = cuda_error(c, r, &why, "kernel '%s'", k->name);
  const char *known = cuda_is_sticky(r) ? arena_strdup(cx->arena, nereid_error_message(why)) : NULL;
  nereid_error_free(why);
  if (known) diag_fail(cx, (Span){0}, "kernel '%s' cannot be loaded: %s", k->name, known);
  load_failed(c, cx, r, k->name, logs);
}

nereid_status cuda_allow_shared(CudaKernel *k, unsigned bytes, nereid_error **error) {
  Cuda *c = k->cuda;
  int fixed = 0;
  c->api.function_attribute(&fixed, CU_FUNCTION_STATIC_SHARED, k->function);
  if ((int64_t)bytes + fixed > c->shared_per_block)
    return error_set(
        error, NEREID_BAD_ARGUMENT, NULL,
        "kernel '%s' is to have %u bytes of dynamic shared memory beside %d of its own; %s has %d for a block", k->name,
        bytes, fixed, c->name, c->shared_per_block);
  CuResult r = 0;
  pthread_mutex_lock(&c->lock); /* another thread's launch may ask for more at this moment, and must keep it */
  if (bytes > k->shared_bytes) r = c->api.function_set(k->function, CU_FUNCTION_DYNAMIC_SHARED, (int)bytes);
  if (!r && bytes > k->shared_bytes) k->shared_bytes = bytes;
  pthread_mutex_unlock(&c->lock);
  return r ? cuda_error(c, r, error, "kernel '%s' cannot have %u bytes of shared memory", k->name, bytes) : NEREID_OK;
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
  diag_fail_hint(cx, (Span){0}, hint, "the kernel needs %d bytes of shared memory a block; %s has %d", f->shared_bytes,
                 c->name, c->shared_per_block);
}

static void prepare_reports(CudaKernel *k, Context *cx, const LaneFunc *f, volatile nereid_status *phase) {
  Cuda *c = k->cuda;
  if (!diag_sites_keep(f, &k->sites)) context_out_of_memory(cx);
  k->reports = true;
  CudaEntered entered;
  CuResult r = cuda_enter(c, &entered);
  if (!r) r = cuda_reports_prepare(k);
  cuda_leave(c, entered);
  if (!r) return;
  char text[300];
  cuda_describe(&c->api, r, text, sizeof text);
  *phase = cuda_error(c, r, NULL, "%s", "");
  diag_fail(cx, (Span){0}, "%d bytes of the host's memory, for what the kernel prints, cannot be page-locked: %s",
            DIAG_BYTES, text);
}

void cuda_compile(Specialization *s, Func *func, Context *cx, Buf *text, volatile nereid_status *phase) {
  CudaKernel *k = cuda_kernel_create(s, cx);
  Cuda *c = k->cuda;
  const char *wrong;
  const GpuOptions options = {.target = gpu_target_for(c->sm),
                              .list = s->lists_programs,
                              .persist = s->persist,
                              .specialize = s->specialize,
                              .tensor_maps = c->api.map_encode != NULL,
                              .without = gpu_without(s->without, &wrong)};
  *phase = NEREID_UNSUPPORTED;
  if (!options.target)
    diag_fail(cx, (Span){0}, "there is no target for compute capability %d.%d", c->sm / 10, c->sm % 10);
  int64_t start = clock_ns();
  s->info.takes_tf32 = gpu_takes_tf32(func, &options);
  LaneFunc *f = gpu_compile(func, &options);
  check_shared(c, cx, f);
  GpuPtx ptx = gpu_print_ptx(text, f, options.target, true);
  if (text->failed) context_out_of_memory(cx);
  s->info.backend_ms = (double)(clock_ns() - start) / 1e6;
  *phase = NEREID_INTERNAL;
  k->threads = (unsigned)f->num_warps * 32;
  k->shared_bytes = (unsigned)f->shared_bytes;
  k->uses_list = f->uses_list;
  k->persistent = f->persistent;
  if (f->plan && !(s->plan = gpu_plan_keep(f->plan))) context_out_of_memory(cx);
  if (f->uses_diag) prepare_reports(k, cx, f, phase);

  GpuCubin cubin = {0};
  start = clock_ns();
  if (gpu_ptxas(cx, text, &ptx, options.target, &cubin)) {
    s->info.from_cache = cubin.from_cache;
    s->info.registers = cubin.registers;
    s->info.spill_bytes = cubin.spill_bytes;
  }
  if (context_try(cx)) {
    cuda_load(k, cx, cubin.bytes, text->at, gpu_entry_name(cx, f), phase);
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
void cuda_compile_c(Specialization *s, Context *cx, volatile nereid_status *phase) {
  CudaKernel *k = cuda_kernel_create(s, cx);
  int sm = k->cuda->sm;
  const char *arch = arena_printf(cx->arena, "sm_%d%s", sm, sm >= 90 ? "a" : "");
  NvrtcResult r;
  k->is_cuda_c = true;
  int64_t start = clock_ns();
  nvrtc_compile(cx, s->module->path, s->module->text, k->name, arch, &r, phase);
  *phase = NEREID_INTERNAL;
  cuda_load(k, cx, r.cubin, r.ptx, r.lowered, phase);
  s->info.compiler_ms = r.from_cache ? 0 : (double)(clock_ns() - start) / 1e6;
  s->info.from_cache = r.from_cache;
  s->info.registers = k->registers;
}

void cuda_discard(Specialization *s) {
  CudaKernel *k = s->cuda;
  if (!k) return;
  Cuda *c = k->cuda;
  CudaEntered entered;
  bool in_context = !cuda_enter(c, &entered); /* else the context went before its modules, and took them along */
  if (in_context) {
    cuda_retire(k);
    cuda_repeats_drop(k);
    if (k->module) c->api.module_unload(k->module);
    cuda_free_lists(c, k->captured_lists);
  }
  cuda_maps_drop(k);
  cuda_reports_discard(k, in_context);
  cuda_leave(c, entered);
  diag_sites_free(k->sites);
  cuda_unref(c);
  free(k);
}
