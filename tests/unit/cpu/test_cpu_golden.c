/* Runs the golden files tests/golden/c/?*.tile: tile IR in, the kernel's C text out, without the support headers
 * (golden_kit.h). The line "// arguments: apart" (or overlapping) says which of a kernel's two texts is meant. */
#include "golden/golden_kit.h"

#include "cpu/cpu.h"

static void make(Context *cx, const Source *input, const char *arguments, Buf *got) {
  bool may_overlap = !strcmp(arguments, "overlapping");
  if (!may_overlap && strcmp(arguments, "apart")) diag_fail(cx, (Span){0}, "arguments are 'apart' or 'overlapping'");
  Func *f = tile_parse(cx, input);
  tile_optimize(f, NULL, NULL, true);
  unsigned support;
  cpu_emit_body(f, may_overlap, CPU_TEXT_READABLE, &support, got);
}

int main(void) {
  static const Golden golden = {.folder = "c", .extension = ".tile", .key = "// arguments: ", .make = make};
  return golden_run(&golden, "golden C");
}
