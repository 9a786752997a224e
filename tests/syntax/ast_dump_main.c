/* Dumps the syntax trees of many files, for compare_stdlib.py and for timing.
 *
 *     ast_dump < PATHS                    one path a line; for each "== ok|error BYTES PATH" and that many bytes: the
 *                                         tree with positions, or "LINE:COL-LINE:COL MESSAGE" of the first diagnostic
 *     ast_dump --expr < PATHS             the files hold one expression each
 *     ast_dump --time < PATHS             parses each file, prints the bytes and the milliseconds in total
 */
#include "syntax/syntax.h"

static void one(const char *path, bool expr, bool quiet, Buf *out) {
  Context *cx = context_create();
  if (!cx) return;
  const Source *volatile src = NULL;
  out->n = 0;
  const char *volatile status = "ok";
  if (context_try(cx)) {
    src = source_from_file(cx, path);
    if (!src) diag_fail(cx, (Span){0}, "cannot read %s", path);
    Node *n = expr ? parse_expression(cx, src) : parse_module(cx, src);
    if (!quiet) ast_dump(out, n, true);
    context_end_try(cx);
  } else {
    Diag *d = cx->diags.at;
    status = "error";
    buf_printf(out, "%d:%d-%d:%d %s\n", d->span.line, d->span.col, d->span.end_line, d->span.end_col, d->message);
  }
  if (!quiet) {
    printf("== %s %zu %s\n", status, out->n, path);
    fwrite(out->at, 1, out->n, stdout);
  }
  context_destroy(cx);
}

int main(int argc, char **argv) {
  bool expr = argc > 1 && strcmp(argv[1], "--expr") == 0, time = argc > 1 && strcmp(argv[1], "--time") == 0;
  char path[4096];
  Buf out = {0};
  size_t bytes = 0;
  int64_t start = clock_ns();
  while (fgets(path, sizeof path, stdin)) {
    path[strcspn(path, "\n")] = 0;
    if (time) {
      FILE *f = fopen(path, "rb");
      if (!f) continue;
      fseek(f, 0, SEEK_END);
      bytes += (size_t)ftell(f);
      fclose(f);
    }
    one(path, expr, time, &out);
  }
  if (time) printf("%zu bytes, %.1f ms\n", bytes, (double)(clock_ns() - start) / 1e6);
  buf_destroy(&out);
  return 0;
}
