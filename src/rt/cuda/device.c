/* The cuda device: NVIDIA's GPUs through the driver, which is opened at run time.
 *
 * A device works in the GPU's primary context, which the CUDA runtime and with it PyTorch use too, or in one that the
 * caller owns. A context is current per thread; each call makes ours current where it is not, and gives a thread that
 * works in another one back what it had.
 *
 * Work is asynchronous. Where it fails, the driver says so at some later call; cuda_error then tells which kernels may
 * be meant. After an illegal address and the like the context is lost: every call on it fails from then on, and says
 * why.
 */
#include <ctype.h>
#include <stdlib.h>

#include "rt/cuda/cuda.h"

/* ---- the context ------------------------------------------------------------------------------------------------- */

CuResult cuda_enter(Cuda *c, CudaEntered *entered) {
  CuContext now = NULL;
  *entered = CUDA_NOT_CURRENT;
  CuResult r = c->api.context_get(&now);
  if (r) return r;
  if (now == c->context) return *entered = CUDA_WAS_CURRENT, 0;
  r = now ? c->api.context_push(c->context) : c->api.context_set(c->context);
  if (!r) *entered = now ? CUDA_PUSHED : CUDA_WAS_CURRENT;
  return r;
}

void cuda_leave(Cuda *c, CudaEntered entered) {
  CuContext ours;
  if (entered == CUDA_PUSHED) c->api.context_pop(&ours);
}

void cuda_unref(Cuda *c) {
  if (!c || atomic_fetch_sub(&c->references, 1) != 1) return;
  if (c->primary) c->api.primary_release(c->device);
  pthread_cond_destroy(&c->changed);
  pthread_mutex_destroy(&c->lock);
  nereid_error_free(c->pending);
  free(c->lost);
  free(c);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static nereid_status status_of(CuResult r) {
  if (cuda_is_sticky(r)) return NEREID_KERNEL_FAULT;
  switch (r) {
    case CU_OUT_OF_MEMORY: return NEREID_OUT_OF_MEMORY;
    case CU_NO_JIT_COMPILER:
    case CU_PTX_TOO_NEW:
    case CU_JIT_DISABLED: return NEREID_NO_COMPILER;
    case CU_INVALID_PTX:
    case CU_INVALID_IMAGE:
    case CU_NOT_FOUND: return NEREID_INTERNAL;
    case CU_NOT_SUPPORTED: return NEREID_UNSUPPORTED;
    case CU_INVALID_VALUE:
    case CU_INVALID_CONTEXT:
    case CU_CONTEXT_IS_DESTROYED:
    case CU_OUT_OF_RESOURCES:
    case 400: return NEREID_BAD_ARGUMENT; /* an invalid handle */
    default: return r >= CU_CAPTURE_FIRST && r <= CU_CAPTURE_LAST ? NEREID_BAD_ARGUMENT : NEREID_NO_DEVICE;
  }
}

static const char lost_hint[] =
    "the GPU cannot be used in this process any more: start a new one. The device interp finds wrong "
    "accesses; NEREID_CUDA_BLOCKING=1 lets each launch wait for its end, and so finds the launch";

/* What is known of a context's end is kept for later calls. */
static nereid_status lost_error(Cuda *c, const char *text, const CudaBlame *blame, nereid_error **error) {
  if (!c->lost) {
    Buf b = {0};
    if (!*blame->name) buf_puts(&b, "work on the GPU failed");
    else if (blame->several)
      buf_printf(&b, "one of the kernels launched since the last synchronize (the first was '%s') failed", blame->name);
    else buf_printf(&b, "kernel '%s' failed", blame->name);
    buf_printf(&b, ": %s; the CUDA context of %s is lost", text, c->name);
    if (b.failed) buf_destroy(&b);
    else c->lost = b.at;
  }
  return error_set(error, NEREID_KERNEL_FAULT, lost_hint, "%s", c->lost ? c->lost : text);
}

static nereid_status other_error(CuResult r, const char *text, nereid_error **error, const char *format, va_list ap) {
  char what[512];
  vsnprintf(what, sizeof what, format, ap);
  return error_set(error, status_of(r), cuda_hint(r), "%s: %s", what, text);
}

nereid_status cuda_error_blaming(Cuda *c, CuResult r, const CudaBlame *blame, nereid_error **error, const char *format,
                                 ...) {
  char text[300];
  cuda_describe(&c->api, r, text, sizeof text);
  if (cuda_is_sticky(r)) return lost_error(c, text, blame, error);
  va_list ap;
  va_start(ap, format);
  nereid_status status = other_error(r, text, error, format, ap);
  va_end(ap);
  return status;
}

nereid_status cuda_error(Cuda *c, CuResult r, nereid_error **error, const char *format, ...) {
  char text[300];
  cuda_describe(&c->api, r, text, sizeof text);
  nereid_status status;
  if (cuda_is_sticky(r)) {
    pthread_mutex_lock(&c->lock);
    CudaBlame blame = {.several = atomic_load(&c->several)};
    const CudaKernel *k = atomic_load(&c->suspect);
    if (k) snprintf(blame.name, sizeof blame.name, "%s", k->name);
    status = lost_error(c, text, &blame, error);
    pthread_mutex_unlock(&c->lock);
    return status;
  }
  va_list ap;
  va_start(ap, format);
  status = other_error(r, text, error, format, ap);
  va_end(ap);
  return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int attribute(const Cuda *c, int which) {
  int v = 0;
  return c->api.device_attribute(&v, which, c->device) ? 0 : v;
}

static nereid_status no_driver(nereid_error **error, const char *name, const char *why, const char *hint) {
  return error_set(error, NEREID_NO_DEVICE, hint, "device '%s' cannot be opened: %s", name, why);
}

static Cuda *cuda_create(nereid_error **error, const char *name, nereid_status *status) {
  Cuda *c = calloc(1, sizeof *c);
  if (!c) return *status = error_out_of_memory(error), NULL;
  char why[512];
  const char *hint;
  if (!cuda_api_open(&c->api, why, &hint)) {
    *status = no_driver(error, name, why, hint);
    free(c);
    return NULL;
  }
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->changed, NULL);
  atomic_init(&c->references, 1);
  c->api.driver_version(&c->driver_version);
  const char *blocking = environment_get("NEREID_CUDA_BLOCKING");
  c->blocking = blocking && *blocking && strcmp(blocking, "0");
  return c;
}

/* What is left to do once c->context is there. */
static nereid_status finish_open(nereid_device *d, Cuda *c, nereid_error **error) {
  snprintf(c->name, sizeof c->name, "cuda:%d", c->device);
  c->sm = attribute(c, CU_MAJOR) * 10 + attribute(c, CU_MINOR);
  for (int i = 0; i < 3; i++) c->max_block[i] = attribute(c, CU_MAX_BLOCK_X + i);
  c->shared_per_block = attribute(c, CU_SHARED_PER_BLOCK);
  c->replays_work = cuda_replays_work(&c->api);
  c->pageable = attribute(c, CU_PAGEABLE_ACCESS) != 0;
  if (c->sm < 80) {
    char model[200] = "";
    c->api.device_name(model, sizeof model, c->device);
    return error_set(error, NEREID_UNSUPPORTED, "GPUs from Ampere (compute capability 8.0) on are supported",
                     "device '%s' (%s) is too old: its compute capability is %d.%d", c->name, model, c->sm / 10,
                     c->sm % 10);
  }
  d->threads = attribute(c, CU_MULTIPROCESSORS);
  d->cuda_sm = c->sm;
  /* unique as long as a kernel compiled for it lives, since that holds a reference */
  d->identity = (uint64_t)(uintptr_t)c;
  snprintf(d->name, sizeof d->name, "%s", c->name);
  d->state = c;
  return NEREID_OK;
}

static nereid_status open_primary(Cuda *c, const char *name, int ordinal, nereid_error **error) {
  int count = 0;
  CuResult r = c->api.device_count(&count);
  if (r) return cuda_error(c, r, error, "device '%s' cannot be opened", name);
  if (!count) return no_driver(error, name, "the driver finds no GPU", cuda_hint(CU_NO_DEVICE));
  if (ordinal >= count && count == 1)
    return error_set(error, NEREID_NO_DEVICE, "`nereid devices` lists the devices",
                     "there is no device '%s': this machine has one GPU, cuda:0", name);
  if (ordinal >= count)
    return error_set(error, NEREID_NO_DEVICE, "`nereid devices` lists the devices",
                     "there is no device '%s': this machine has %d GPUs, cuda:0 to cuda:%d", name, count, count - 1);
  r = c->api.device_get(&c->device, ordinal);
  if (!r && attribute(c, CU_COMPUTE_MODE) == 2)
    return no_driver(error, name, "the GPU's compute mode is Prohibited", "allow it with nvidia-smi -c 0");
  if (!r) r = c->api.primary_retain(&c->context, c->device);
  if (r) return cuda_error(c, r, error, "device '%s' cannot be opened", name);
  c->primary = true;
  return NEREID_OK;
}

static nereid_status cuda_open(nereid_device *d, const char *suffix, nereid_error **error) {
  int ordinal = 0;
  if (suffix) {
    char *end = NULL;
    long v = isdigit((unsigned char)*suffix) ? strtol(suffix, &end, 10) : -1;
    if (!end || *end || v < 0 || v > 4095)
      return error_set(error, NEREID_BAD_ARGUMENT, "`nereid devices` lists them",
                       "device 'cuda:%s': after the colon stands the number of a GPU, from 0", suffix);
    ordinal = (int)v;
  }
  nereid_status status = NEREID_OK;
  Cuda *c = cuda_create(error, d->name, &status);
  if (!c) return status;
  status = open_primary(c, d->name, ordinal, error);
  if (!status) status = finish_open(d, c, error);
  if (status) cuda_unref(c);
  return status;
}

static nereid_status open_context(nereid_device *d, const void *context, nereid_error **error) {
  nereid_status status = NEREID_OK;
  Cuda *c = cuda_create(error, "cuda", &status);
  if (!c) return status;
  CuResult r = 0;
  CudaEntered entered = CUDA_NOT_CURRENT;
  memcpy(&c->context, &context, sizeof context);
  if (!context) r = c->api.context_get(&c->context);
  if (!r && !c->context) {
    cuda_unref(c);
    return error_set(error, NEREID_BAD_ARGUMENT,
                     "give a CUcontext, or make one current; nereid_device_open(\"cuda:0\") takes the primary one",
                     "nereid_device_open_cuda: no CUDA context is current in this thread");
  }
  CuContext before = NULL;
  if (!r) r = c->api.context_get(&before);
  if (!r) r = cuda_enter(c, &entered);
  if (!r) r = c->api.context_device(&c->device);
  if (!before && entered != CUDA_NOT_CURRENT) c->api.context_set(NULL);
  cuda_leave(c, entered);
  status =
      r ? cuda_error(c, r, error, "nereid_device_open_cuda: the context cannot be used") : finish_open(d, c, error);
  if (status) cuda_unref(c);
  return status;
}

nereid_status nereid_device_open_cuda(void *context, nereid_device **out, nereid_error **error) {
  if (!out) return error_null(error, "nereid_device_open_cuda", "out");
  return device_create(&device_cuda, "cuda", out, open_context, context, error);
}

void *nereid_device_native(const nereid_device *d) {
  return d && d->kind == &device_cuda ? ((const Cuda *)d->state)->context : NULL;
}

/* ---- what the machine has ---------------------------------------------------------------------------------------- */

static void describe_one(const Cuda *c, nereid_device_info *out) {
  char model[100] = "a GPU";
  size_t bytes = 0;
  c->api.device_name(model, sizeof model, c->device);
  c->api.device_memory(&bytes, c->device);
  int major = attribute(c, CU_MAJOR), minor = attribute(c, CU_MINOR);
  snprintf(out->name, sizeof out->name, "cuda:%d", c->device);
  out->compute_capability = major * 10 + minor;
  out->multiprocessors = attribute(c, CU_MULTIPROCESSORS);
  out->memory_bytes = (int64_t)bytes;
  out->driver_version = c->driver_version;
  const char *missing = out->compute_capability < 80         ? "; too old: 8.0 is needed"
                        : attribute(c, CU_COMPUTE_MODE) == 2 ? "; its compute mode is Prohibited"
                                                             : "";
  out->available = !*missing;
  snprintf(out->description, sizeof out->description,
           "%s, compute capability %d.%d, %d multiprocessors, %.1f GiB; driver for CUDA %d.%d%s", model, major, minor,
           out->multiprocessors, (double)bytes / 0x1p30, c->driver_version / 1000, c->driver_version % 1000 / 10,
           missing);
}

static int cuda_enumerate(nereid_device_info *out, int max) {
  Cuda c = {0};
  char why[512];
  const char *hint;
  int count = 0;
  bool there = cuda_api_open(&c.api, why, &hint);
  if (there && (c.api.device_count(&count) || !count))
    there = false, snprintf(why, sizeof why, "no NVIDIA GPU: the driver finds none");
  if (!there) {
    if (max < 1) return 1;
    out[0] = (nereid_device_info){.name = "cuda"};
    snprintf(out[0].description, sizeof out[0].description, "%.*s", (int)sizeof out[0].description - 1, why);
    return 1;
  }
  c.api.driver_version(&c.driver_version);
  for (int i = 0; i < count && i < max; i++) {
    out[i] = (nereid_device_info){0};
    snprintf(out[i].name, sizeof out[i].name, "cuda:%d", i);
    if (!c.api.device_get(&c.device, i)) describe_one(&c, &out[i]);
  }
  return count;
}

static void cuda_signature(nereid_device *d, Buf *out) {
  Cuda *c = d->state;
  char model[100] = "a GPU";
  c->api.device_name(model, sizeof model, c->device);
  buf_printf(out, "cuda: %s, sm_%d, %d multiprocessors, driver for CUDA %d", model, c->sm,
             attribute(c, CU_MULTIPROCESSORS), c->driver_version);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static nereid_status cuda_allocate(nereid_device *d, int64_t bytes, void **out, nereid_error **error) {
  Cuda *c = d->state;
  CudaEntered entered;
  CuPointer p = 0;
  CuResult r = cuda_enter(c, &entered);
  if (!r) r = c->api.mem_alloc(&p, bytes ? (size_t)bytes : 1);
  size_t left = 0, total = 0;
  bool known = r == CU_OUT_OF_MEMORY && !c->api.mem_info(&left, &total);
  cuda_leave(c, entered);
  if (known)
    return error_set(error, NEREID_OUT_OF_MEMORY, cuda_hint(CU_OUT_OF_MEMORY),
                     "out of memory: %s has no %lld bytes; %llu of its %llu are free", d->name, (long long)bytes,
                     (unsigned long long)left, (unsigned long long)total);
  if (r) return cuda_error(c, r, error, "%lld bytes of %s cannot be allocated", (long long)bytes, d->name);
  *out = (void *)(uintptr_t)p;
  return NEREID_OK;
}

static void cuda_free(nereid_device *d, void *p, int64_t bytes) {
  Cuda *c = d->state;
  CudaEntered entered;
  if (!cuda_enter(c, &entered)) c->api.mem_free((uintptr_t)p);
  cuda_leave(c, entered);
}

/* What the driver knows already is taken as it is; other memory is the host's, and gets page-locked, so that kernels
 * reach it. */
static nereid_status cuda_adopt(nereid_device *d, void *p, int64_t bytes, nereid_error **error) {
  Cuda *c = d->state;
  CudaEntered entered;
  int type = 0;
  if (!bytes) return NEREID_OK;
  CudaLocked *locked = malloc(sizeof *locked);
  if (!locked) return error_out_of_memory(error);
  CuResult r = cuda_enter(c, &entered);
  bool known = !r && !c->api.pointer_attribute(&type, CU_POINTER_MEMORY_TYPE, (uintptr_t)p);
  if (!r && !known) r = c->api.host_register(p, (size_t)bytes, CU_HOST_PORTABLE | CU_HOST_MAPPED);
  cuda_leave(c, entered);
  if (r || known) {
    free(locked);
  } else {
    pthread_mutex_lock(&c->lock);
    *locked = (CudaLocked){c->locked, p};
    c->locked = locked;
    pthread_mutex_unlock(&c->lock);
  }
  return r ? cuda_error(c, r, error, "%lld bytes of the host's memory cannot be page-locked for %s", (long long)bytes,
                        d->name)
           : NEREID_OK;
}

/* Undoes p's, or all when p is NULL. */
static void unlock_host(Cuda *c, void *p) {
  pthread_mutex_lock(&c->lock);
  for (CudaLocked **at = &c->locked, *l; (l = *at);) {
    if (p && l->p != p) {
      at = &l->next;
      continue;
    }
    *at = l->next;
    c->api.host_unregister(l->p);
    free(l);
  }
  pthread_mutex_unlock(&c->lock);
}

static void cuda_detach(nereid_device *d, void *p) {
  Cuda *c = d->state;
  CudaEntered entered;
  if (!cuda_enter(c, &entered)) unlock_host(c, p);
  cuda_leave(c, entered);
}

static nereid_status cuda_copy_in(nereid_device *d, void *dst, const void *host, int64_t bytes, nereid_error **error) {
  Cuda *c = d->state;
  CudaEntered entered;
  CuResult r = cuda_enter(c, &entered);
  if (!r) r = c->api.copy_in((uintptr_t)dst, host, (size_t)bytes);
  cuda_leave(c, entered);
  return r ? cuda_error(c, r, error, "%lld bytes cannot be copied to %s", (long long)bytes, d->name) : NEREID_OK;
}

static nereid_status cuda_copy_out(nereid_device *d, void *host, const void *src, int64_t bytes, nereid_error **error) {
  Cuda *c = d->state;
  CudaEntered entered;
  CuResult r = cuda_enter(c, &entered);
  if (!r) r = c->api.copy_out(host, (uintptr_t)src, (size_t)bytes);
  cuda_leave(c, entered);
  return r ? cuda_error(c, r, error, "%lld bytes cannot be copied from %s", (long long)bytes, d->name) : NEREID_OK;
}

/* Waits for what was launched, since it may use memory that goes now. */
static void cuda_close(nereid_device *d) {
  Cuda *c = d->state;
  CudaEntered entered;
  if (atomic_load(&c->suspect)) cuda_synchronize(d, NULL);
  CuResult r = cuda_enter(c, &entered);
  unlock_host(c, NULL);
  cuda_free_lists(c, cuda_take_lists(c));
  if (!r) cuda_drop_copier(c);
  if (!r) cuda_leave(c, entered);
  cuda_unref(c);
}

const DeviceKind device_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .enumerate = cuda_enumerate,
    .allocate = cuda_allocate,
    .free = cuda_free,
    .adopt = cuda_adopt,
    .detach = cuda_detach,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .discard = cuda_discard,
    .load = cuda_load_bundle,
    .launch = cuda_launch,
    .plan_fit = cuda_plan_fit,
    .signature = cuda_signature,
    .synchronize = cuda_synchronize,
    .async = &cuda_async,
    .lists_programs = true,
};
