/* Runs the golden files tests/golden/ptx/?*.lane: lane IR in, PTX out (golden_kit.h). The line "// target: sm_90a"
 * names the target. The lane IR is verified; the PTX must, where there is a ptxas, assemble. */
#include "golden/golden_kit.h"

#include "gpu/gpu.h"

static const GpuTarget *find_target(Context *cx, const char *name) {
  const GpuTarget *target = gpu_target_find(name);
  if (!target) diag_fail(cx, (Span){0}, "there is no target '%s'", name);
  return target;
}

static void make(Context *cx, const Source *input, const char *target, Buf *got) {
  LaneFunc *f = lane_parse(cx, input);
  lane_verify(f, "parsing");
  gpu_print_ptx(got, f, find_target(cx, target), false);
}

static void check(Context *cx, const char *target, const Buf *got, Buf *problem) {
  (void)problem; /* ptxas's words come as a diagnostic */
  GpuCubin cubin;
  if (gpu_ptxas(cx, got, &(GpuPtx){0}, find_target(cx, target), &cubin)) gpu_cubin_free(&cubin);
}

int main(void) {
  static const Golden golden = {
      .folder = "ptx", .extension = ".lane", .key = "// target: ", .make = make, .check = check};
  return golden_run(&golden, "golden PTX");
}
