/* Runs the golden files tests/golden/tile/?*.tile: IR in, passes, IR out (golden_kit.h). The line "// passes: fold dce"
 * names them. The IR is verified before, between and after the passes; the text after the last has facts as comments
 * when "facts" is among them, and must otherwise read back as itself. */
#include "golden/golden_kit.h"

#include "tile/tile.h"

static void run_passes(Func *f, const char *names) {
  while (*names) {
    size_t n = strcspn(names, " ");
    const PassInfo *pass = tile_passes;
    while (pass->name && (strlen(pass->name) != n || memcmp(pass->name, names, n))) pass++;
    if (!pass->name) fail(f->cx, (Span){0}, "no pass is called '%.*s'", (int)n, names);
    pass->run(f);
    tile_verify(f, pass->name);
    names += n;
    names += *names == ' ';
  }
}

static void make(Context *cx, const Source *input, const char *passes, Buf *got) {
  Func *f = tile_parse(cx, input);
  tile_verify(f, "parsing");
  run_passes(f, passes);
  tile_print(got, f, strstr(passes, "facts") ? PRINT_FACTS : 0);
}

static void check(Context *cx, const char *passes, const Buf *got, Buf *problem) {
  if (strstr(passes, "facts")) return; /* comments do not read back */
  Buf again = {0};
  make(cx, source_from_text(cx, "again", got->at, got->n), "", &again);
  if (strcmp(got->at, again.at)) buf_printf(problem, "%s\nreads back as\n%s", got->at, again.at);
  buf_destroy(&again);
}

int main(void) {
  static const Golden golden = {
      .folder = "tile", .extension = ".tile", .key = "// passes: ", .make = make, .check = check};
  return golden_run(&golden, "golden tile IR");
}
