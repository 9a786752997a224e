/* Devices: opening them by name, their memory, and the copies in and out.
 *
 * Every device keeps a list of the memory it knows, its own and what the caller registered, ordered by address. It
 * serves to free only what was allocated here, to keep a copy within its array, and to tell the kernels how much memory
 * a launch touches. Launches only read it.
 */
#include <stdlib.h>

#include "rt/hooks.h"

const DeviceKind *device_kind_find(const char *name, size_t n) {
  for (int i = 0; device_kinds[i]; i++)
    if (strlen(device_kinds[i]->name) == n && !strncmp(device_kinds[i]->name, name, n)) return device_kinds[i];
  return NULL;
}

int nereid_devices(nereid_device_info *out, int max) {
  int n = 0;
  for (int i = 0; device_kinds[i]; i++) {
    int room = out && n < max ? max - n : 0;
    if (device_kinds[i]->enumerate) {
      n += device_kinds[i]->enumerate(out ? out + n : NULL, room);
      continue;
    }
    if (room) {
      out[n] = (nereid_device_info){0};
      snprintf(out[n].name, sizeof out[n].name, "%s", device_kinds[i]->name);
      device_kinds[i]->describe(&out[n]);
    }
    n++;
  }
  return n;
}

nereid_status device_create(const DeviceKind *kind, const char *name, nereid_device **out,
                            nereid_status (*open)(nereid_device *d, const void *arg, nereid_error **error),
                            const void *arg, nereid_error **error) {
  nereid_limits limits;
  const char *text = environment_get("NEREID_LIMITS");
  nereid_status wrong = text ? nereid_limits_read(text, &limits, error) : NEREID_OK;
  if (wrong) return wrong;
  nereid_device *d = calloc(1, sizeof *d);
  if (!d) return error_out_of_memory(error);
  d->kind = kind;
  const char *autotune = environment_get("NEREID_AUTOTUNE");
  d->autotunes = !autotune || strcmp(autotune, "0");
  snprintf(d->name, sizeof d->name, "%s", name);
  pthread_rwlock_init(&d->lock, NULL);
  nereid_status status = open(d, arg, error);
  if (status) {
    pthread_rwlock_destroy(&d->lock);
    free(d);
    return status;
  }
  d->fork = (ForkHook){.read = &d->lock};
  fork_hook_add(&d->fork);
  if (kind == &device_cuda) rt_hooks.cuda_opened();
  *out = d;
  return NEREID_OK;
}

static nereid_status open_by_name(nereid_device *d, const void *suffix, nereid_error **error) {
  return d->kind->open(d, suffix, error);
}

nereid_status nereid_device_open(const char *name, nereid_device **out, nereid_error **error) {
  if (!name) return error_null(error, "nereid_device_open", "name");
  if (!out) return error_null(error, "nereid_device_open", "out");
  size_t n = strcspn(name, ":");
  const DeviceKind *kind = device_kind_find(name, n);
  if (!kind) return error_set(error, NEREID_NO_DEVICE, device_kinds_hint, "there is no device '%s'", name);
  return device_create(kind, name, out, open_by_name, name[n] ? name + n + 1 : NULL, error);
}

void nereid_device_close(nereid_device *d) {
  if (!d) return;
  void (*close_bundles)(nereid_device *) = atomic_load(&d->close_bundles);
  if (close_bundles) close_bundles(d);
  fork_hook_remove(&d->fork);
  for (int i = 0; i < d->allocation_count; i++) {
    const Allocation *a = &d->allocations[i];
    if (!a->owned) continue;
    rt_hooks.memory(d, (void *)a->base, -a->bytes);
    d->kind->free(d, (void *)a->base, a->bytes);
  }
  if (d->kind == &device_cuda) rt_hooks.cuda_closed();
  d->kind->close(d);
  pthread_rwlock_destroy(&d->lock);
  free(d->allocations);
  free(d);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static nereid_status allocate(nereid_device *d, int64_t bytes, void **out, nereid_error **error) {
  if (!d) return error_null(error, "nereid_alloc", "the device");
  if (!out) return error_null(error, "nereid_alloc", "out");
  if (bytes < 0) return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_alloc: %lld bytes", (long long)bytes);
  void *p = NULL;
  if (d->kind->allocate) {
    nereid_status status = d->kind->allocate(d, bytes, &p, error);
    if (status) return status;
  } else if (bytes <= PTRDIFF_MAX - 4096) {
    p = d->kind->alloc(d, bytes);
  }
  if (!p)
    return error_set(error, NEREID_OUT_OF_MEMORY, NULL, "out of memory: %s has no %lld bytes", d->name,
                     (long long)bytes);
  if (!device_add_allocation(d, (Allocation){(uintptr_t)p, bytes, true})) {
    d->kind->free(d, p, bytes);
    return error_out_of_memory(error);
  }
  rt_hooks.memory(d, p, bytes);
  *out = p;
  return NEREID_OK;
}

nereid_status nereid_alloc(nereid_device *d, int64_t bytes, void **out, nereid_error **error) {
  int64_t start = prof_begin();
  return prof_end(start, "nereid_alloc", CALL_ALLOC, allocate(d, bytes, out, error));
}

void nereid_free(nereid_device *d, void *p) {
  int64_t start = prof_begin();
  Allocation a;
  if (!d || !p || !device_take_allocation(d, p, true, &a)) return;
  rt_hooks.memory(d, p, -a.bytes);
  d->kind->free(d, p, a.bytes);
  prof_end(start, "nereid_free", CALL_FREE, NEREID_OK);
}

nereid_status nereid_register(nereid_device *d, void *p, int64_t bytes, const char *name, nereid_error **error) {
  if (!d) return error_null(error, "nereid_register", "the device");
  if (!p) return error_null(error, "nereid_register", "the pointer");
  if (bytes < 0 || (uintptr_t)p + (uintptr_t)bytes < (uintptr_t)p)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_register: %lld bytes", (long long)bytes);
  if (d->kind->adopt) {
    nereid_status status = d->kind->adopt(d, p, bytes, error);
    if (status) return status;
  } else if (!d->kind->attach(d, p, bytes, name ? name : "registered memory")) {
    return error_out_of_memory(error);
  }
  if (!device_add_allocation(d, (Allocation){(uintptr_t)p, bytes, false})) {
    d->kind->detach(d, p);
    return error_out_of_memory(error);
  }
  return NEREID_OK;
}

void nereid_unregister(nereid_device *d, void *p) {
  Allocation a;
  if (d && p && device_take_allocation(d, p, false, &a)) d->kind->detach(d, p);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* A copy must not leave the array it begins in. */
nereid_status device_check_copy(nereid_device *d, const char *function, const void *device, const void *host,
                                int64_t bytes, nereid_error **error) {
  if (!d) return error_null(error, function, "the device");
  if (bytes < 0) return error_set(error, NEREID_BAD_ARGUMENT, NULL, "%s: %lld bytes", function, (long long)bytes);
  if (bytes && (!device || !host))
    return error_null(error, function, device ? "the host's pointer" : "the device's pointer");
  int64_t room = device_bytes_from(d, device);
  if (room >= 0 && bytes > room)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "%s: %lld bytes do not fit the %lld that the array has there",
                     function, (long long)bytes, (long long)room);
  return NEREID_OK;
}

nereid_status nereid_copy_to_device(nereid_device *d, void *dst, const void *host, int64_t bytes,
                                    nereid_error **error) {
  int64_t start = prof_begin();
  nereid_status s = device_check_copy(d, "nereid_copy_to_device", dst, host, bytes, error);
  if (!s && bytes) s = d->kind->copy_in(d, dst, host, bytes, error);
  return prof_end(start, "nereid_copy_to_device", CALL_COPY_SYNC, s);
}

nereid_status nereid_copy_to_host(nereid_device *d, void *host, const void *src, int64_t bytes, nereid_error **error) {
  int64_t start = prof_begin();
  nereid_status s = device_check_copy(d, "nereid_copy_to_host", src, host, bytes, error);
  if (!s && bytes) s = d->kind->copy_out(d, host, src, bytes, error);
  return prof_end(start, "nereid_copy_to_host", CALL_COPY_SYNC, s);
}

nereid_status nereid_synchronize(nereid_device *d, nereid_error **error) {
  if (!d) return error_null(error, "nereid_synchronize", "the device");
  int64_t start = prof_begin();
  return prof_end(start, "nereid_synchronize", CALL_SYNC, d->kind->synchronize(d, error));
}
