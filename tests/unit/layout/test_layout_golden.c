/* Runs the golden files tests/golden/layout/?*.tile: tile IR in, and the layout of each of its tensors out
 * (golden_kit.h). The line "// warps: 2" says for how many. The layouts are verified. */
#include "golden/golden_kit.h"

#include "layout/layout.h"

static void make(Context *cx, const Source *input, const char *warps, Buf *got) {
  Func *f = tile_parse(cx, input);
  tile_optimize(f, NULL, NULL, true);
  layout_choose(f, atoi(warps), true);
  tile_verify(f, "layout_choose");
  layout_verify(f);
  layout_print_func(got, f);
}

int main(void) {
  static const Golden golden = {.folder = "layout", .extension = ".tile", .key = "// warps: ", .make = make};
  return golden_run(&golden, "golden layouts");
}
