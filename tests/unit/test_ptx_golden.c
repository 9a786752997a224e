/* Runs the golden files tests/golden/?*.lane: lane IR in, PTX out, in one file each.
 *
 *     // what the file shows
 *     // target: sm_90a
 *     kernel @name(...) warps=4 { ... }
 *     // ----
 *     .version 8.1
 *     ...
 *
 * The lane IR is verified; the PTX must be the part below the line, to the letter, and, where there is a ptxas, assemble. With
 * NEREID_UPDATE_GOLDEN=1 in the environment the files are rewritten instead; read the difference before committing it.
 */
#include "gpu/gpu.h"

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

static void golden(void **state) {
  const char *path = *state;
  Context *cx = context_create();
  Buf got = {0}, problem = {0}, file = {0};
  if (context_try(cx)) {
    const Source *s = source_from_file(cx, path);
    if (!s) fail(cx, (Span){0}, "cannot read %s", path);
    const char *name = strstr(s->text, "// target: "), *end = strstr(s->text, line_between);
    if (!name || !end) fail(cx, (Span){0}, "%s lacks a line with the target or the line between", path);
    name += strlen("// target: ");
    const GpuTarget *target = gpu_target_find(arena_strndup(cx->arena, name, strcspn(name, "\n")));
    if (!target) fail(cx, (Span){0}, "%s names no target", path);
    LaneFunc *f = lane_parse(cx, source_from_text(cx, path, s->text, (size_t)(end - s->text)));
    lane_verify(f, "parsing");
    gpu_print_ptx(&got, f, target, false);
    const char *want = end + strlen(line_between);
    buf_write(&file, s->text, (size_t)(want - s->text));
    buf_puts(&file, got.at);
    if (strcmp(want, got.at)) buf_printf(&problem, "%s gives\n%s\nnot\n%s", path, got.at, want);
    else if (gpu_find_ptxas(cx)) {
      GpuCubin cubin;
      gpu_ptxas(cx, got.at, got.n, target, &cubin);
      gpu_cubin_free(&cubin);
    }
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
    if (length < 6 || length > 255 || strcmp(e->d_name + length - 5, ".lane")) continue;
    snprintf(paths[n], sizeof paths[n], "%s/%s", dir, e->d_name);
    tests[n] = (struct CMUnitTest){.name = paths[n], .test_func = golden, .initial_state = paths[n]};
    n++;
  }
  closedir(d);
  qsort(tests, n, sizeof *tests, by_name);
  return _cmocka_run_group_tests("golden PTX", tests, n, NULL, NULL);
}
