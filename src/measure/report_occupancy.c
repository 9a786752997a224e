/* How many blocks a multiprocessor holds. */
#include "measure/report.h"

static const char *const default_target = "sm_90a";

nereid_occupancy report_occupancy(const GpuTarget *t, int registers, int shared_bytes, int num_warps) {
  GpuOccupancy o = gpu_occupancy(t, registers, shared_bytes, num_warps);
  int warps = o.blocks * num_warps;
  return (nereid_occupancy){.blocks = o.blocks,
                            .by_registers = o.by_registers,
                            .by_shared = o.by_shared,
                            .by_warps = o.by_warps,
                            .by_blocks = o.by_blocks,
                            .limit = o.limit,
                            .warps = warps,
                            .max_warps = t->machine.max_warps,
                            .occupancy = (double)warps / t->machine.max_warps,
                            .registers_granted = o.registers,
                            .shared_granted = o.shared_bytes};
}

nereid_status report_target(const char *name, const GpuTarget **out, nereid_error **error) {
  *out = target_named(name ? name : default_target);
  if (*out) return NEREID_OK;
  Buf hint = {0};
  buf_puts(&hint, "there are");
  for (const GpuTarget *t = gpu_targets; t->name; t++) buf_printf(&hint, "%s %s", t == gpu_targets ? "" : ",", t->name);
  nereid_status s = error_set(error, NEREID_NO_DEVICE, hint.at, "there is no GPU's target '%s'", name);
  buf_destroy(&hint);
  return s;
}

nereid_status nereid_occupancy_of(const char *target, int registers, int shared_bytes, int num_warps,
                                  nereid_occupancy *out, nereid_error **error) {
  if (!out) return error_null(error, "nereid_occupancy_of", "out");
  if (registers < 0 || shared_bytes < 0 || num_warps < 1)
    return error_set(error, NEREID_BAD_ARGUMENT, "registers and shared bytes are 0 or more, warps 1 or more",
                     "nereid_occupancy_of: %d registers, %d bytes of shared memory and %d warps", registers,
                     shared_bytes, num_warps);
  const GpuTarget *t;
  nereid_status status = report_target(target, &t, error);
  if (!status) *out = report_occupancy(t, registers, shared_bytes, num_warps);
  return status;
}
