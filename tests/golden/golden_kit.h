/* Golden files: tests/golden/FOLDER/NAME.EXT, input above a line, expected text below it, in one file each.
 *
 *     // what the file shows
 *     // KEY: a word for whoever makes the text
 *     input
 *     // ----
 *     expected text
 *
 * What is made of the input must be the part below the line, to the letter. With NEREID_UPDATE_GOLDEN=1 in the
 * environment the files are rewritten instead; read the difference before committing it.
 */
#ifndef NEREID_TEST_GOLDEN_KIT_H
#define NEREID_TEST_GOLDEN_KIT_H

#include "base/base.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct Golden {
  const char *folder;    /* "tile" */
  const char *extension; /* ".tile" */
  const char *key;       /* "// passes: " */
  /* Writes to got what is made of the input; key: what stands behind it on its line. May diag_fail(). */
  void (*make)(Context *cx, const Source *input, const char *key, Buf *got);
  /* Looks at a text that is as expected, and writes what is wrong with it nevertheless; may be NULL. */
  void (*check)(Context *cx, const char *key, const Buf *got, Buf *problem);
} Golden;

typedef struct GoldenFile {
  const Golden *golden;
  char path[1400];
} GoldenFile;

static void golden_file(void **state) {
  const GoldenFile *g = *state;
  static const char line_between[] = "// ----\n";
  Context *cx = context_create();
  Buf got = {0}, problem = {0}, file = {0};
  if (context_try(cx)) {
    const Source *s = source_from_file(cx, g->path);
    if (!s) diag_fail(cx, (Span){0}, "cannot read %s", g->path);
    const char *key = strstr(s->text, g->golden->key), *end = strstr(s->text, line_between);
    if (!key || !end) diag_fail(cx, (Span){0}, "%s lacks '%s' or the line between", g->path, g->golden->key);
    key += strlen(g->golden->key);
    key = arena_strndup(cx->arena, key, strcspn(key, "\n"));
    g->golden->make(cx, source_from_text(cx, g->path, s->text, (size_t)(end - s->text)), key, &got);
    const char *want = end + strlen(line_between);
    buf_write(&file, s->text, (size_t)(want - s->text));
    buf_puts(&file, got.at);
    if (strcmp(want, got.at)) buf_printf(&problem, "%s gives\n%s\nnot\n%s", g->path, got.at, want);
    else if (g->golden->check) g->golden->check(cx, key, &got, &problem);
    context_end_try(cx);
  } else {
    diags_print(&problem, cx, false);
  }
  context_destroy(cx);
  if (getenv("NEREID_UPDATE_GOLDEN") && file.n) {
    assert_true(file_write_atomic(g->path, file.at, file.n));
    problem.n = 0;
  }
  if (problem.n) print_error("%s\n", problem.at);
  bool good = problem.n == 0;
  buf_destroy(&got);
  buf_destroy(&problem);
  buf_destroy(&file);
  assert_true(good);
}

static int golden_by_name(const void *a, const void *b) {
  const struct CMUnitTest *x = a, *y = b;
  return strcmp(x->name, y->name);
}

/* main's work: a test for each file with the extension, by name. */
static int golden_run(const Golden *golden, const char *group) {
  const char *here = __FILE__, *slash = strrchr(here, '/');
  char folder[1024];
  snprintf(folder, sizeof folder, "%.*s/%s", slash ? (int)(slash - here) : 1, slash ? here : ".", golden->folder);
  DIR *dir = opendir(folder);
  if (!dir) return perror(folder), 1;
  enum { MAX_FILES = 500 };
  static struct CMUnitTest tests[MAX_FILES];
  static GoldenFile files[MAX_FILES];
  size_t n = 0, tail = strlen(golden->extension);
  for (struct dirent *e; (e = readdir(dir)) && n < MAX_FILES;) {
    size_t length = strlen(e->d_name);
    if (length <= tail || length > 255 || strcmp(e->d_name + length - tail, golden->extension)) continue;
    files[n].golden = golden;
    snprintf(files[n].path, sizeof files[n].path, "%s/%s", folder, e->d_name);
    tests[n] = (struct CMUnitTest){.name = files[n].path, .test_func = golden_file, .initial_state = &files[n]};
    n++;
  }
  closedir(dir);
  qsort(tests, n, sizeof *tests, golden_by_name);
  if (!n) return fprintf(stderr, "%s has no %s\n", folder, golden->extension), 1;
  return _cmocka_run_group_tests(group, tests, n, NULL, NULL);
}

#endif
