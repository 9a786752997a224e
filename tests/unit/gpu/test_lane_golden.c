/* Runs the golden files tests/golden/lane/?*.tile: tile IR in, what one thread does out (golden_kit.h). The line
 * "// target: sm_90a, 2 warps" says for whom. The lane IR is verified after each pass, and reads back as itself. */
#include "golden/golden_kit.h"

#include "gpu/gpu.h"

static void make(Context *cx, const Source *input, const char *key, Buf *got) {
  char name[32];
  int warps;
  if (sscanf(key, "%31[^,], %d warps", name, &warps) != 2)
    diag_fail(cx, (Span){0}, "'%s' is no 'TARGET, N warps'", key);
  GpuOptions o = {.target = gpu_target_find(name), .verify = true};
  if (!o.target) diag_fail(cx, (Span){0}, "there is no target '%s'", name);
  Func *f = tile_parse(cx, input);
  f->num_warps = warps;
  tile_optimize(f, NULL, NULL, true);
  lane_print(got, gpu_compile(f, &o), false);
}

static void check(Context *cx, const char *key, const Buf *got, Buf *problem) {
  Buf again = {0};
  LaneFunc *f = lane_parse(cx, source_from_text(cx, "again", got->at, got->n));
  lane_verify(f, "parsing");
  lane_print(&again, f, false);
  if (strcmp(got->at, again.at)) buf_printf(problem, "%s\nreads back as\n%s", got->at, again.at);
  buf_destroy(&again);
}

int main(void) {
  static const Golden golden = {
      .folder = "lane", .extension = ".tile", .key = "// target: ", .make = make, .check = check};
  return golden_run(&golden, "golden lane IR");
}
