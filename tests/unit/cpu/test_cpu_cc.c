/* The compiler's driver and its cache: hits, damage, folders that cannot be written, several processes, missing
 * compilers. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
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
    CpuCode *code = cpu_compile(cx, &(CpuText){text, strlen(text), 0}, info);
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
  char instrument_a_file[100];
  snprintf(instrument_a_file, sizeof instrument_a_file, "%s/file", folder);
  fclose(fopen(instrument_a_file, "w"));
  strcat(instrument_a_file, "/cache");
  setenv("NEREID_CACHE_DIR", instrument_a_file, 1);
  works(4, false);
  works(4, false);
  setenv("NEREID_CACHE_DIR", "/proc/nereid", 1);
  works(4, false);
  setenv("TMPDIR", "/proc", 1);
  fails(program(4), "no place to compile in");
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
  fails(program(6), "no C compiler was found");
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

/* A compiler of our own making: a line in `runs` each time, then `then`, then gcc. */
static void make_compiler(const char *then) {
  char path[100], text[600];
  snprintf(path, sizeof path, "%s/our-cc", folder);
  int n = snprintf(text, sizeof text, "#!/bin/sh\necho \"$*\" >>%s/runs\n%s\nexec gcc \"$@\"\n", folder, then);
  unlink(path);
  assert_true(file_write_new(path, text, (size_t)n));
  chmod(path, 0755);
  setenv("NEREID_CC", path, 1);
}

/* Runs so far whose words hold `with`. */
static int runs(const char *with) {
  char path[100];
  Buf b = {0};
  int n = 0;
  snprintf(path, sizeof path, "%s/runs", folder);
  if (!file_read(path, &b)) return 0;
  for (char *line = b.at, *end; *line; line = end + 1) {
    end = strchr(line, '\n');
    *end = 0;
    n += strstr(line, with) != NULL;
  }
  buf_destroy(&b);
  return n;
}

static int count_temporary(void) {
  char path[100];
  snprintf(path, sizeof path, "%s/tmp", folder);
  DIR *d = opendir(path);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

/* What is in the cache needs no compiler. */
static void test_no_compiler(void **state) {
  (void)state;
  char *path = strdup(getenv("PATH"));
  works(1, false);
  make_compiler("");
  works(2, false);
  setenv("PATH", "/nowhere", 1);
  works(2, true);
  char script[100];
  snprintf(script, sizeof script, "%s/our-cc", folder);
  unlink(script);
  works(2, true);
  fails(program(3), "was not found");
  unsetenv("NEREID_CC");
  works(1, true);
  fails(program(2), "no C compiler was found");
  setenv("PATH", path, 1);
  free(path);
  make_compiler(": another one");
  works(2, false); /* made anew by what is there now */
  works(2, true);
}

static void gives(const char *condition, bool yes) {
  char text[1200];
  CpuCompileInfo info;
  int got = -1;
  Buf said = {0};
  snprintf(text, sizeof text, "#if %s\n#define A 1\n#else\n#define A 0\n#endif\n%s", condition, program(7));
  char *seven = strstr(text, "return 7");
  memcpy(seven, "return A", 8);
  if (compile(text, &info, &got, &said)) fail_msg("%s", said.at);
  assert_int_equal(got, yes);
}

static void test_options(void **state) {
  (void)state;
  gives("defined __OPTIMIZE__", true);
  setenv("NEREID_CC", "gcc -O0", 1); /* options come last */
  gives("defined __OPTIMIZE__", false);
  setenv("NEREID_CC", "gcc -DWANTED=3 -std=gnu17", 1);
  gives("WANTED == 3 && __STDC_VERSION__ > 201112", true);
  setenv("NEREID_CC", "env A=b gcc -O0", 1); /* words before them belong to the command */
  gives("defined __OPTIMIZE__", false);
#ifdef __x86_64__
  setenv("NEREID_CC", "gcc -march=x86-64", 1);
  gives("defined __SSE3__", false);
  setenv("NEREID_CC", "gcc -march=haswell", 1);
  gives("defined __AVX2__ && !defined __AVX512F__", true);
#endif
  unsetenv("NEREID_CC");
}

/* A compiler in a folder whose name has spaces and quotes, as a shell would be told of it. */
static void test_words(void **state) {
  (void)state;
  static const char *const ways[] = {"\"%s/a b's/our cc\" -DWANTED=4", "%s/a\\ b\\'s/our\\ cc '-DWANTED=4'",
                                     " '%s/a b'\\''s/our cc'  -D\"WANTED=4\"\t"};
  char at[100], command[200];
  make_compiler("");
  snprintf(at, sizeof at, "%s/a b's", folder);
  assert_int_equal(mkdir(at, 0700), 0);
  snprintf(at, sizeof at, "%s/a b's/our cc", folder);
  assert_int_equal(rename(getenv("NEREID_CC"), at), 0);
  for (int i = 0; i < 3; i++) {
    snprintf(command, sizeof command, ways[i], folder);
    setenv("NEREID_CC", command, 1);
    gives("WANTED == 4", true);
    assert_true(runs(" -DWANTED=4 ") > i);
  }
  setenv("NEREID_CC", "/nowhere/a b/cc", 1);
  fails(program(8), "a path with a space in quotes");
  setenv("NEREID_CC", "\"gcc -O0", 1);
  fails(program(8), "in NEREID_CC a quote is not closed: \"gcc -O0");
  setenv("NEREID_CC", "gcc -DTEXT=\\\"x\\\" '-DEMPTY=' \"\\a\"",
         1); /* what is no file in the end fails with the compiler */
  fails(program(8), "\\a");
  unsetenv("NEREID_CC");
}

/* -march=native is tried once; a compiler that does not take it does without. */
static void test_native(void **state) {
  (void)state;
  make_compiler("");
  works(1, false);
  works(2, false);
  assert_int_equal(runs("=native"), 3);
  assert_int_equal(runs(" -E "), 1);
  make_compiler("case \"$*\" in *=native*) echo 'no such processor' >&2; exit 1;; esac");
  works(3, false);
  works(4, false);
  assert_int_equal(runs(" -E "), 2);
  assert_int_equal(runs("=native"), 4);
  /* One that is killed while it is asked, or takes too long, did not say no: the next kernel asks again. */
  make_compiler("case \"$*\" in *=native*/dev/null*) kill -9 $$;; esac");
  fails(program(5), "our-cc failed on the kernel's C text with status 137");
  make_compiler("case \"$*\" in *=native*/dev/null*) sleep 1000;; esac");
  setenv("NEREID_COMPILER_SECONDS", "0.3", 1);
  fails(program(5), "our-cc was stopped after 0.3 seconds");
  unsetenv("NEREID_COMPILER_SECONDS");
  int before = runs("=native -std=gnu11");
  make_compiler("");
  works(5, false);
  assert_int_equal(runs("=native -std=gnu11") - before, 1);
  unsetenv("NEREID_CC");
}

static void test_time_limit(void **state) {
  (void)state;
  make_compiler("case \"$*\" in *-shared*) touch $TMPDIR/cc12345.s; sleep 1000;; esac");
  setenv("NEREID_COMPILER_SECONDS", "0.3", 1);
  fails(program(1), "our-cc was stopped after 0.3 seconds");
  make_compiler("case \"$*\" in *-shared*) exec yes;; esac"); /* says without end */
  fails(program(1), "our-cc was stopped after 0.3 seconds");
  unsetenv("NEREID_COMPILER_SECONDS");
  make_compiler("case \"$*\" in *-shared*) yes | head -c 3000000; exit 1;; esac");
  fails(program(1), "our-cc failed on the kernel's C text with status 1:\ny\ny\n");
  assert_int_equal(count_temporary(), 0); /* with what the compiler left there */
  assert_int_equal(each_file(NULL), 0);
  unsetenv("NEREID_CC");
}

/* A process that is killed while it compiles leaves its folder; the next one takes it away. */
static void test_killed(void **state) {
  (void)state;
  char ready[100], path[400];
  snprintf(ready, sizeof ready, "%s/ready", folder);
  snprintf(path, sizeof path, "case \"$*\" in *-shared*) echo $$ >%s; mv %s %s/pid; sleep 1000;; esac", ready, ready,
           folder);
  make_compiler(path);
  pid_t child = fork();
  if (child == 0) {
    CpuCompileInfo info;
    int got;
    Buf said = {0};
    _exit(compile(program(1), &info, &got, &said));
  }
  snprintf(path, sizeof path, "%s/pid", folder);
  for (int i = 0; i < 600000 && access(path, F_OK) != 0; i++) usleep(1000);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  Buf pid = {0};
  assert_true(file_read(path, &pid));
  kill(-(pid_t)atol(pid.at), SIGKILL);
  buf_destroy(&pid);
  unsetenv("NEREID_CC");
  assert_int_equal(count_temporary(), 1);
  char command[200];
  snprintf(command, sizeof command, "touch -d '1 hour ago' %s/tmp/*", folder);
  assert_int_equal(system(command), 0);
  works(1, false);
  assert_int_equal(count_temporary(), 0);
}

/* Loaded at once, each is itself: dlopen tells them apart. */
static void test_many_loaded(void **state) {
  (void)state;
  enum { N = 12 };
  CpuCode *code[N];
  for (int i = 0; i < N; i++) {
    Context *cx = context_create();
    assert_true(context_try(cx));
    code[i] = cpu_compile(cx, &(CpuText){program(i), strlen(program(i)), 0}, NULL);
    context_end_try(cx);
    context_destroy(cx);
  }
  for (int i = 0; i < N; i++) {
    assert_int_equal(cpu_code_entry(code[i])(NULL, NULL, 0, 0, NULL, NULL), i);
    cpu_code_release(code[i]);
  }
}

static void *make_one(void *info) {
  Context *cx = context_create();
  assert_true(context_try(cx));
  CpuCode *code = cpu_compile(cx, &(CpuText){program(7), strlen(program(7)), 0}, info);
  cpu_code_release(code);
  context_end_try(cx);
  context_destroy(cx);
  return NULL;
}

/* One text that several threads want at once is compiled by one of them. */
static void test_same_text(void **state) {
  (void)state;
  enum { N = 6 };
  pthread_t threads[N];
  CpuCompileInfo info[N];
  int compiled = 0;
  program(7);
  for (int i = 0; i < N; i++) assert_int_equal(pthread_create(&threads[i], NULL, make_one, &info[i]), 0);
  for (int i = 0; i < N; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < N; i++) compiled += !info[i].from_cache;
  assert_int_equal(compiled, 1);
}

/* A compiler's text says nothing of what the source calls its values, nor where they stand. */
static void test_names(void **state) {
  (void)state;
  static const char *const texts[] = {
      "kernel @first(%x: *i32, %y: *i32) {\n  %v = load %x : i32\n  %w = add %v, %v : i32\n  store %y, %w\n}\n",
      "kernel @other(%in: *i32, %out: *i32) {\n  %a = load %in : i32\n  %b = add %a, %a : i32\n  store %out, %b\n}\n"};
  Buf text[2] = {{0}, {0}};
  for (int i = 0; i < 2; i++) {
    Context *cx = context_create();
    assert_true(context_try(cx));
    Func *f = tile_parse(cx, source_from_text(cx, "names.tile", texts[i], strlen(texts[i])));
    tile_optimize(f, NULL, NULL, true);
    cpu_emit_c(f, false, CPU_TEXT_COMPILED, &text[i], NULL);
    context_end_try(cx);
    context_destroy(cx);
  }
  assert_int_equal(text[0].n, text[1].n);
  assert_memory_equal(text[0].at, text[1].at, text[0].n);
  for (int i = 0; i < 2; i++) buf_destroy(&text[i]);
}

/* Without /proc code is loaded from a temporary folder. */
static void test_no_proc(void **state) {
  (void)state;
  works(1, false);
  pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/proc", "tmpfs", 0, NULL) != 0)
      _exit(77);
    CpuCompileInfo info;
    int got = -1;
    Buf said = {0};
    if (compile(program(1), &info, &got, &said) || got != 1 || !info.from_cache) _exit(1);
    _exit(compile(program(2), &info, &got, &said) || got != 2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip(); /* only root may mount */
  assert_int_equal(status, 0);
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
      cmocka_unit_test_setup_teardown(test_same_text, setup, teardown),
      cmocka_unit_test(test_names),
      cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
      cmocka_unit_test_setup_teardown(test_unwritable, setup, teardown),
      cmocka_unit_test_setup_teardown(test_compilers, setup, teardown),
      cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_compiler, setup, teardown),
      cmocka_unit_test_setup_teardown(test_options, setup, teardown),
      cmocka_unit_test_setup_teardown(test_words, setup, teardown),
      cmocka_unit_test_setup_teardown(test_native, setup, teardown),
      cmocka_unit_test_setup_teardown(test_time_limit, setup, teardown),
      cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
      cmocka_unit_test_setup_teardown(test_many_loaded, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_proc, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
