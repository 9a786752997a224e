/* Machine code, or PTX for the driver's compiler, -> a function that a launch may name.
 *
 * A driver older than ptxas may refuse a cubin, and gets the PTX then, as where there is no cubin. Functions are loaded
 * whole here, not at their first launch, so that a launch may be captured into a CUDA graph.
 */
#include <stdlib.h>

#include "rt/bundle.h"
#include "rt/cuda/cuda.h"

enum { FREE_SHARED = 48 << 10 };

CudaKernel *cuda_kernel_create(nereid_device *d, LoadedKernel *kernel) {
  CudaKernel *k = calloc(1, sizeof *k);
  if (!k) return NULL;
  k->cuda = d->state;
  k->name = kernel->name;
  atomic_fetch_add(&k->cuda->references, 1);
  return kernel->cuda = k;
}

static CuResult load_image(const Cuda *c, CuModule *out, const void *image, CudaLoadError *logs) {
  int options[] = {CU_JIT_INFO_LOG, CU_JIT_INFO_SIZE, CU_JIT_ERROR_LOG, CU_JIT_ERROR_SIZE};
  void *values[] = {logs->info, (void *)(uintptr_t)sizeof logs->info, logs->error,
                    (void *)(uintptr_t)sizeof logs->error};
  memset(logs, 0, sizeof *logs);
  CuResult r = c->api.module_load(out, image, 4, options, values);
  logs->info[CUDA_LOG_BYTES - 1] = logs->error[CUDA_LOG_BYTES - 1] = 0;
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

bool cuda_load(CudaKernel *k, const void *cubin, const char *ptx, const char *function, CudaLoadError *why) {
  Cuda *c = k->cuda;
  CudaEntered entered;
  CuResult r = cuda_enter(c, &entered);
  memset(why, 0, sizeof *why);
  if (!r && cubin) r = load_image(c, &k->module, cubin, why);
  if (!r ? !cubin : cubin && ptx && is_refusal(r)) r = load_image(c, &k->module, ptx, why);
  if (!r) r = get_function(k, function);
  cuda_leave(c, entered);
  if (!r) return true;
  nereid_error *e = NULL; /* of an error that ends the context, cuda_error knows more */
  why->result = r;
  why->status = cuda_error(c, r, &e, "kernel '%s'", k->name);
  why->hint = cuda_hint(r);
  trim(why->error), trim(why->info);
  if (cuda_is_sticky(r)) {
    snprintf(why->message, sizeof why->message, "kernel '%s' cannot be loaded: %s", k->name, nereid_error_message(e));
    why->hint = NULL;
    *why->error = *why->info = 0;
  } else {
    char text[300];
    cuda_describe(&c->api, r, text, sizeof text);
    snprintf(why->message, sizeof why->message, "the driver does not load kernel '%s': %s", k->name, text);
  }
  nereid_error_free(e);
  return false;
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

CuResult cuda_keep_reports(CudaKernel *k, DiagSites *sites) {
  Cuda *c = k->cuda;
  k->sites = sites;
  k->reports = true;
  CudaEntered entered;
  CuResult r = cuda_enter(c, &entered);
  if (!r) r = cuda_reports_prepare(k);
  cuda_leave(c, entered);
  return r;
}

void cuda_discard(LoadedKernel *kernel) {
  CudaKernel *k = kernel->cuda;
  if (!k) return;
  Cuda *c = k->cuda;
  CudaEntered entered;
  bool in_context = !cuda_enter(c, &entered); /* else the context went before its modules, and took them along */
  if (in_context) {
    cuda_retire(k);
    cuda_replays_drop(k);
    if (k->module) c->api.module_unload(k->module);
    cuda_free_lists(c, k->captured_lists);
  }
  cuda_maps_drop(k);
  cuda_reports_discard(k, in_context);
  cuda_leave(c, entered);
  if (!kernel->borrows) diag_sites_free(k->sites);
  cuda_unref(c);
  free(k);
}

nereid_status cuda_load_bundle(nereid_device *d, LoadedKernel *kernel, const BundleCode *c, nereid_error **error) {
  CudaKernel *k = cuda_kernel_create(d, kernel);
  CudaLoadError *why = malloc(sizeof *why);
  nereid_status status = NEREID_OK;
  if (!k || !why) {
    free(why);
    return error_out_of_memory(error);
  }
  const Cuda *cuda = d->state;
  k->threads = (unsigned)c->num_warps * 32;
  k->shared_bytes = (unsigned)c->shared_bytes;
  k->persistent = c->persistent;
  k->blocks = (c->blocks < 1 ? 1 : (unsigned)c->blocks) * (unsigned)d->threads;
  if (c->shared_bytes > cuda->shared_per_block)
    status = error_set(error, NEREID_UNSUPPORTED, "build it with smaller tiles or fewer stages",
                       "kernel '%s' needs %d bytes of shared memory a block; %s has %d", kernel->name, c->shared_bytes,
                       d->name, cuda->shared_per_block);
  CuResult r = !status && c->sites ? cuda_keep_reports(k, c->sites) : 0;
  if (r) status = cuda_error(k->cuda, r, error, "memory of the host for what kernel '%s' prints", kernel->name);
  bool ptx = c->kind == CODE_PTX;
  if (!status && !cuda_load(k, ptx ? NULL : c->image, ptx ? c->image : NULL, c->entry, why))
    status = error_set(error, why->status, why->hint, "%s%s%s", why->message, *why->error ? "\n" : "", why->error);
  free(why);
  return status;
}
