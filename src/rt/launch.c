/* What launches on all devices have in common: the grid, streams that are recorded, kernels with tensor maps. */
#include <stdlib.h>

#include "rt/hooks.h"

const nereid_options options_default = {0};

/* CUDA's limits of a grid, which every device keeps, so that a launch that works on one works on all. */
static const int64_t grid_limit[3] = {INT32_MAX, 65535, 65535};

nereid_status grid_check(const int64_t grid[3], const nereid_options *o, int32_t out[3], int64_t *total,
                         nereid_error **error) {
  if (!grid) return error_set(error, NEREID_BAD_ARGUMENT, NULL, "the grid is NULL");
  *total = 1;
  for (int i = 0; i < 3; i++) {
    if (grid[i] < 0 || grid[i] > grid_limit[i])
      return error_set(error, NEREID_BAD_ARGUMENT,
                       grid[i] < 0 ? NULL
                       : i         ? "put the largest dimension first: x may have 2147483647 programs"
                                   : NULL,
                       "the grid (%lld, %lld, %lld) has %lld programs along %c; 0 to %lld are possible",
                       (long long)grid[0], (long long)grid[1], (long long)grid[2], (long long)grid[i], "xyz"[i],
                       (long long)grid_limit[i]);
    out[i] = (int32_t)grid[i];
    *total *= grid[i]; /* below 2^63 by the limits */
  }
  for (int64_t i = 0; o->programs && i < o->program_count; i++)
    if (o->programs[i] < 0 || o->programs[i] >= *total)
      return error_set(error, NEREID_BAD_ARGUMENT, NULL,
                       "options.programs[%lld] is %lld, but the grid (%d, %d, %d) has %lld programs", (long long)i,
                       (long long)o->programs[i], out[0], out[1], out[2], (long long)*total);
  return NEREID_OK;
}

nereid_status launch_now(nereid_device *d, const Launch *l, const ProfCall *profiled, nereid_error **error) {
  if (l->stream && !d->kind->async) return graph_record_launch(l->stream, l, error);
  return profiled && profiled->start ? rt_hooks.launch(profiled, d, l, error) : d->kind->launch(d, l, error);
}

GpuPlanFit launch_plan_fit(nereid_device *d, LoadedKernel *k, void *stream, const int64_t grid[3],
                           const uint64_t *slots) {
  if (!k->plan) return GPU_PLAN_FITS;
  Launch l = {.kernel = k, .options = &options_default, .stream = stream, .args = slots};
  for (int i = 0; i < 3; i++) l.grid[i] = (int32_t)grid[i];
  return d->kind->plan_fit(d, &l);
}

nereid_status plan_refused(const char *kernel, GpuPlanFit fit, nereid_error **error) {
  return error_set(error, NEREID_INTERNAL,
                   fit == GPU_PLAN_NO_MAPS ? "leave tensor_maps out (options.without)"
                                           : "leave apart out (options.without)",
                   fit == GPU_PLAN_NO_MAPS ? "kernel '%s' cannot have its tensor maps"
                                           : "kernel '%s' relies on arrays that are not known to lie apart",
                   kernel);
}

void kernel_release(LoadedKernel *k) {
  k->kind->discard(k);
  if (k->borrows) return;
  free(k->plan);
  free(k->slots);
}

nereid_status launch_check_instrument(const Launch *l, nereid_error **error) {
  if (!l->kernel->instrumented || l->options->instrument_buffer) return NEREID_OK;
  return error_set(
      error, NEREID_BAD_ARGUMENT, "use nereid_instrument_run, which makes it; or leave options.instrument at zero",
      "kernel '%s' is instrumented, but options.instrument_buffer, where it records to, is NULL", l->kernel->name);
}
