/* Runs the golden files tests/golden/?*.tile: IR in, passes, IR out, in one file each.
 *
 *     // what the file shows
 *     // passes: fold dce
 *     kernel @before(...) { ... }
 *     // ----
 *     kernel @after(...) { ... }
 *
 * The IR is verified before, between and after the passes; its text after the last must be the part below the line, to
 * the letter (with facts as comments when "facts" is among the passes), and that text must read back as itself. With
 * NEREID_UPDATE_GOLDEN=1 in the environment the files are rewritten instead; read the difference before committing it.
 */
#include "tile/tile.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#undef fail /* base.h's is meant */

static const char *const line_between = "// ----\n";

static char *golden_dir(char out[1024]) {
  const char *here = __FILE__, *slash = strrchr(here, '/');
  snprintf(out, 1024, "%.*s/../golden", slash ? (int)(slash - here) : 1, slash ? here : ".");
  return out;
}

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

static void print_text(Buf *out, Context *cx, const char *path, const char *text, size_t n, const char *passes) {
  Func *f = tile_parse(cx, source_from_text(cx, path, text, n));
  tile_verify(f, "parsing");
  run_passes(f, passes);
  tile_print(out, f, strstr(passes, "facts") ? PRINT_FACTS : 0);
}

static void golden(void **state) {
  const char *path = *state;
  Context *cx = context_create();
  Buf got = {0}, again = {0}, problem = {0}, file = {0};
  if (context_try(cx)) {
    const Source *s = source_from_file(cx, path);
    if (!s) fail(cx, (Span){0}, "cannot read %s", path);
    const char *passes = strstr(s->text, "// passes: "), *end = strstr(s->text, line_between);
    if (!passes || !end) fail(cx, (Span){0}, "%s lacks a line of passes or the line between", path);
    passes += strlen("// passes: ");
    passes = arena_strndup(cx->arena, passes, strcspn(passes, "\n"));
    print_text(&got, cx, path, s->text, (size_t)(end - s->text), passes);
    print_text(&again, cx, "again", got.at, got.n, "");
    const char *want = end + strlen(line_between);
    buf_write(&file, s->text, (size_t)(want - s->text));
    buf_puts(&file, got.at);
    bool with_facts = strstr(passes, "facts") != NULL; /* comments do not read back */
    if (strcmp(want, got.at)) buf_printf(&problem, "%s gives\n%s\nnot\n%s", path, got.at, want);
    else if (!with_facts && strcmp(got.at, again.at)) buf_printf(&problem, "%s reads back as\n%s", path, again.at);
    context_end_try(cx);
  } else {
    diags_print(&problem, cx, false);
  }
  context_destroy(cx);
  if (getenv("NEREID_UPDATE_GOLDEN") && file.n) {
    assert_true(file_write_atomic(path, file.at, file.n));
    problem.n = 0;
  }
  if (problem.n) print_error("%s\n", problem.at);
  bool good = problem.n == 0;
  buf_destroy(&got);
  buf_destroy(&again);
  buf_destroy(&problem);
  buf_destroy(&file);
  assert_true(good);
}

static int by_name(const void *a, const void *b) {
  const struct CMUnitTest *x = a, *y = b;
  return strcmp(x->name, y->name);
}

int main(void) {
  char dir[1024];
  DIR *d = opendir(golden_dir(dir));
  if (!d) return perror(dir), 1;
  enum { MAX_FILES = 500 };
  static struct CMUnitTest tests[MAX_FILES];
  static char paths[MAX_FILES][1400];
  size_t n = 0;
  for (struct dirent *e; (e = readdir(d)) && n < MAX_FILES;) {
    size_t length = strlen(e->d_name);
    if (length < 6 || length > 255 || strcmp(e->d_name + length - 5, ".tile")) continue;
    snprintf(paths[n], sizeof paths[n], "%s/%s", dir, e->d_name);
    tests[n] = (struct CMUnitTest){.name = paths[n], .test_func = golden, .initial_state = paths[n]};
    n++;
  }
  closedir(d);
  qsort(tests, n, sizeof *tests, by_name);
  return _cmocka_run_group_tests("golden tile IR", tests, n, NULL, NULL);
}
