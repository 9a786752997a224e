/* The compiler's driver and its cache: hits, damage, folders that cannot be written, several processes, missing
 * compilers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/cpu.h"

#include <cmocka.h> /* after base.h: it makes a macro of fail */

static char folder[64];

static const char *program(int answer) {
  static char text[600];
  snprintf(text, sizeof text,
           "#include <stdint.h>\n"
           "__attribute__((visibility(\"default\"))) const uint64_t nereid_scratch_bytes = 128;\n"
           "__attribute__((visibility(\"default\"))) int nereid_kernel(const uint64_t *a, const int32_t *g, int64_t b, "
           "int64_t e, void *s, "
           "const void *h) {\n  return %d;\n}\n",
           answer);
  return text;
}

/* 0 and *answer when it compiled; else the text of the diagnostics in *said. */
static int compile(const char *text, CpuCompileInfo *info, int *answer, Buf *said) {
  Context *cx = context_create();
  if (context_try(cx)) {
    CpuCode *code = cpu_compile(cx, text, strlen(text), info);
    info->path = NULL; /* lies in the context */
    assert_int_equal(cpu_code_scratch(code), 128);
    *answer = cpu_code_entry(code)(NULL, NULL, 0, 0, NULL, NULL);
    cpu_code_release(code);
    context_end_try(cx);
    context_destroy(cx);
    return 0;
  }
  diags_print(said, cx, false);
  context_destroy(cx);
  return 1;
}

static void works(int answer, bool from_cache) {
  CpuCompileInfo info;
  int got = -1;
  Buf said = {0};
  if (compile(program(answer), &info, &got, &said)) fail_msg("%s", said.at);
  assert_int_equal(got, answer);
  assert_int_equal(info.from_cache, from_cache);
  assert_true(from_cache || info.cc_ms > 0);
}

static void fails(const char *text, const char *with) {
  CpuCompileInfo info;
  int got;
  Buf said = {0};
  assert_int_equal(compile(text, &info, &got, &said), 1);
  if (!strstr(said.at, with)) fail_msg("'%s' is not in:\n%s", with, said.at);
  buf_destroy(&said);
}

/* Applies fn to each cached object; returns how many files there are in the cache. */
static int each_file(void (*fn)(const char *path)) {
  char path[400], parent[80];
  snprintf(parent, sizeof parent, "%s/cpu", folder);
  DIR *dir = opendir(parent);
  int n = 0;
  for (struct dirent *d; dir && (d = readdir(dir));) {
    if (d->d_name[0] == '.') continue;
    n++;
    snprintf(path, sizeof path, "%s/%s", parent, d->d_name);
    if (fn) fn(path);
  }
  if (dir) closedir(dir);
  return n;
}

static void cut(const char *path) { assert_int_equal(truncate(path, 5000), 0); }
static void empty(const char *path) { assert_int_equal(truncate(path, 0), 0); }
static void flip(const char *path) {
  FILE *f = fopen(path, "r+b");
  fseek(f, 700, SEEK_SET);
  int c = fgetc(f);
  fseek(f, 700, SEEK_SET);
  fputc(c ^ 0x55, f);
  fclose(f);
}

static void test_cache(void **state) {
  (void)state;
  works(1, false);
  works(1, true);
  works(2, false);
  works(1, true);
  assert_int_equal(each_file(NULL), 2); /* and nothing else is left behind */
}

static void test_damage(void **state) {
  (void)state;
  works(3, false);
  void (*const harm[])(const char *) = {cut, empty, flip};
  for (int i = 0; i < 3; i++) {
    each_file(harm[i]);
    works(3, false);
    works(3, true);
  }
}

static void test_unwritable(void **state) {
  (void)state;
  char inside_a_file[100];
  snprintf(inside_a_file, sizeof inside_a_file, "%s/file", folder);
  fclose(fopen(inside_a_file, "w"));
  strcat(inside_a_file, "/cache");
  setenv("NEREID_CACHE_DIR", inside_a_file, 1);
  works(4, false);
  works(4, false);
  setenv("NEREID_CACHE_DIR", "/proc/nereid", 1);
  works(4, false);
  setenv("TMPDIR", "/proc", 1);
  fails(program(4), "no place for compiled kernels");
  unsetenv("TMPDIR");
  setenv("NEREID_CACHE_DIR", folder, 1);
}

static void test_compilers(void **state) {
  (void)state;
  setenv("NEREID_CC", "no-such-compiler -x", 1);
  fails(program(5), "`no-such-compiler -x`, was not found");
  setenv("NEREID_CC", "false", 1);
  fails(program(5), "with status 1");
  setenv("NEREID_CC", "gcc -DTWICE", 1);
  works(5, false);
  works(5, true);
  unsetenv("NEREID_CC");
  works(5, false); /* another compiler, another object */
  fails("int x = ;\n", "expected expression");
  char *path = strdup(getenv("PATH"));
  setenv("PATH", "/nowhere", 1);
  fails(program(5), "no C compiler was found");
  setenv("PATH", path, 1);
  free(path);
}

static void test_processes(void **state) {
  (void)state;
  enum { N = 6 };
  pid_t child[N];
  for (int i = 0; i < N; i++) {
    child[i] = fork();
    if (child[i] == 0) {
      CpuCompileInfo info;
      int got = -1;
      Buf said = {0};
      for (int k = 0; k < 3; k++)
        if (compile(program(6), &info, &got, &said) || got != 6) _exit(1);
      _exit(0);
    }
  }
  for (int i = 0; i < N; i++) {
    int status = -1;
    waitpid(child[i], &status, 0);
    assert_int_equal(status, 0);
  }
  works(6, true);
}

static int setup(void **state) {
  (void)state;
  strcpy(folder, "/tmp/nereid-test-cc-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  unsetenv("NEREID_CC");
  setenv("NEREID_CACHE_DIR", folder, 1);
  return 0;
}
static int teardown(void **state) {
  (void)state;
  const char *argv[] = {"/bin/rm", "-rf", folder, NULL};
  Buf b = {0};
  process_run(argv, &b);
  buf_destroy(&b);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_cache, setup, teardown),
      cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
      cmocka_unit_test_setup_teardown(test_unwritable, setup, teardown),
      cmocka_unit_test_setup_teardown(test_compilers, setup, teardown),
      cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
