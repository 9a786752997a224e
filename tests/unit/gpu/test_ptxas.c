/* ptxas's driver and its cache: hits, damage, folders that cannot be written, several processes, an assembler that is
 * missing, fails or spills. The assembler is a script of ours, so that this runs where CUDA is not. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/gpu.h"

#include <cmocka.h> /* after base.h: it makes a macro of fail */

static char folder[64], script[128], runs[128];

/* Writes each run's text into the cubin, and says what `-v` says. A text with SPILL spills unless one block is enough,
 * one with WRONG fails, one with SLOW has a word of advice. One with ROOM takes 72 registers, of which 7 blocks run at
 * once, and 64 for 8; with TIGHT it spills for that, with NEVER it fails. One with BOUND says 8 by itself, one with
 * FEW 2, and takes 164 registers, of which 3 blocks run, and 96 for 4. One with WAYS 28 40 takes 255 registers and
 * spills 28 bytes, and 40 by the option for products; with MEET the former waits until the latter has begun, which with
 * FOREVER does not end. */
static const char fake[] =
    "#!/bin/sh\n"
    "for a in \"$@\"; do case $a in *.ptx) ptx=$a;; *.cubin) out=$a;; -arch=*) arch=${a#-arch=};; esac; done\n"
    "echo \"$*\" >> \"$RUNS\"\n"
    "if grep -q OLD \"$ptx\" && echo \"$*\" | grep -q Ofast; then echo \"ptxas fatal   : Unknown option "
    "'--Ofast-compile'\"; exit 255; fi\n"
    "if grep -q WRONG \"$ptx\"; then echo \"ptxas $ptx, line 7; error : Unknown symbol\"; exit 255; fi\n"
    "if grep -q NEVER \"$ptx\" && grep -q 'minnctapersm 8' \"$ptx\"; then\n"
    "  echo 'ptxas fatal   : (C7602) Insufficient registers (64) to compile instruction'; exit 255\n"
    "fi\n"
    "if grep -q MEET \"$ptx\"; then\n"
    "  if echo \"$*\" | grep -q Ofast; then echo > \"$RUNS.begun\"; if grep -q FOREVER \"$ptx\"; then exec sleep 1000; "
    "fi\n"
    "  else until [ -e \"$RUNS.begun\" ]; do sleep 0.01; done; fi\n"
    "fi\n"
    "{ echo \"cubin of $arch\"; cat \"$ptx\"; } > \"$out\"\n"
    "echo 'ptxas info    : 0 bytes gmem'\n"
    "echo \"ptxas info    : Compiling entry function 'k' for '$arch'\"\n"
    "if grep -q SLOW \"$ptx\"; then echo \"ptxas info    : (C7514) Potential Performance Loss: wgmma serialized\"; fi\n"
    "echo 'ptxas info    : Function properties for k'\n"
    "if grep -q WAYS \"$ptx\"; then\n"
    "  if echo \"$*\" | grep -q Ofast; then n=3; else n=2; fi\n"
    "  echo \"way $n\" >> \"$out\"\n"
    "  echo \"    16 bytes stack frame, $(grep -o 'WAYS [0-9]* [0-9]*' \"$ptx\" | cut -d ' ' -f $n) bytes spill "
    "stores\"\n"
    "  echo 'ptxas info    : Used 255 registers'\n"
    "elif grep -q SPILL \"$ptx\" && ! grep -q minnctapersm \"$ptx\"; then\n"
    "  echo '    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads'; echo 'ptxas info    : Used 32 "
    "registers'\n"
    "elif grep -q 'minnctapersm 8' \"$ptx\"; then\n"
    "  if grep -q TIGHT \"$ptx\"; then spilled=4; else spilled=0; fi\n"
    "  echo \"    0 bytes stack frame, $spilled bytes spill stores, $spilled bytes spill loads\"\n"
    "  echo 'ptxas info    : Used 64 registers'\n"
    "elif grep -q 'minnctapersm [24]' \"$ptx\"; then\n"
    "  if grep -q TIGHT \"$ptx\" && grep -q 'minnctapersm 4' \"$ptx\"; then spilled=4; else spilled=0; fi\n"
    "  echo \"    0 bytes stack frame, $spilled bytes spill stores, $spilled bytes spill loads\"\n"
    "  if grep -q 'minnctapersm 4' \"$ptx\"; then n=96; else n=164; fi; echo \"ptxas info    : Used $n registers\"\n"
    "elif grep -q ROOM \"$ptx\"; then\n"
    "  echo '    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'\n"
    "  echo 'ptxas info    : Used 72 registers'\n"
    "else\n"
    "  echo '    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'; echo 'ptxas info    : Used 40 "
    "registers, used 1 barriers'\n"
    "fi\n";

static const char bound[] = ".minnctapersm 8\n", few[] = ".minnctapersm 2\n";

static const char *text(const char *words) {
  static char out[300];
  snprintf(out, sizeof out, ".version 8.1\n.target sm_90a\n.visible .entry k()\n.reqntid 128\n%s{ // %s\n\tret;\n}\n",
           strstr(words, "BOUND") ? bound
           : strstr(words, "FEW") ? few
                                  : "",
           words);
  return out;
}

/* 0 when it was assembled; else 1, and what the diagnostics say in *said. */
static int assemble(const char *ptx, GpuCubin *out, Buf *said) {
  Context *cx = context_create();
  if (context_try(cx)) {
    const char *pressure = strstr(ptx, "PRESSURE ");
    size_t bounds_end = (size_t)(strchr(strchr(ptx, ')') + 2, '\n') + 1 - ptx);
    GpuPtx facts = {.threads = 128,
                    .pressure = pressure ? atoi(pressure + 9) : 0,
                    .bounds_end = bounds_end,
                    .bound = strstr(ptx, "BOUND") || strstr(ptx, "FEW") ? strlen(bound) : 0,
                    .room = strstr(ptx, "FULL")    ? 7
                            : strstr(ptx, "SMALL") ? 3
                                                   : 16,
                    .is_product = strstr(ptx, "PRODUCT") != NULL};
    Buf text = {.at = (char *)ptx, .n = strlen(ptx)};
    bool found = gpu_ptxas(cx, &text, &facts, gpu_target_find("sm_90a"), out);
    context_end_try(cx);
    context_destroy(cx);
    if (!found) buf_puts(said, "no ptxas");
    return !found;
  }
  diags_print(said, cx, false);
  context_destroy(cx);
  return 1;
}

static GpuCubin works(const char *words, bool from_cache) {
  GpuCubin c;
  Buf said = {0};
  if (assemble(text(words), &c, &said)) fail_msg("%s", said.at);
  assert_int_equal(c.from_cache, from_cache);
  assert_true(c.size > 20 && !memcmp(c.bytes, "cubin of sm_90a\n.version", 24));
  return c;
}

static void works_and_goes(const char *words, bool from_cache) {
  GpuCubin c = works(words, from_cache);
  assert_int_equal(c.registers, 40);
  gpu_cubin_free(&c);
}

static void fails(const char *words, const char *with) {
  GpuCubin c;
  Buf said = {0};
  assert_int_equal(assemble(text(words), &c, &said), 1);
  if (!strstr(said.at, with)) fail_msg("'%s' is not in:\n%s", with, said.at);
  buf_destroy(&said);
}

static int each_file(void (*fn)(const char *path)) {
  char path[400], parent[80];
  snprintf(parent, sizeof parent, "%s/cubin", folder);
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

static int run_count(void) {
  Buf b = {0};
  int n = 0;
  if (file_read(runs, &b))
    for (char *c = b.at; c && (c = strchr(c, '\n')); c++) n++;
  buf_destroy(&b);
  return n;
}

static int setup(void **state) {
  (void)state;
  strcpy(folder, "/tmp/nereid-test-ptxas-XXXXXX");
  assert_non_null(mkdtemp(folder));
  snprintf(script, sizeof script, "%s/fake-ptxas", folder);
  snprintf(runs, sizeof runs, "%s/runs", folder);
  assert_true(file_write_new(script, fake, sizeof fake - 1));
  assert_int_equal(chmod(script, 0755), 0);
  setenv("RUNS", runs, 1);
  setenv("NEREID_CACHE_DIR", folder, 1);
  setenv("NEREID_PTXAS", script, 1);
  unsetenv("TMPDIR");
  return 0;
}

static int teardown(void **state) {
  (void)state;
  char command[200];
  snprintf(command, sizeof command, "chmod -R u+w %s; rm -rf %s", folder, folder);
  return system(command);
}

static void test_cached(void **state) {
  (void)state;
  works_and_goes("one", false);
  works_and_goes("one", true);
  works_and_goes("two", false);
  works_and_goes("one", true);
  assert_int_equal(run_count(), 2);
  assert_int_equal(each_file(NULL), 2); /* nothing is left of the builds */
}

static void test_log_and_figures(void **state) {
  (void)state;
  for (int cached = 0; cached < 2; cached++) {
    GpuCubin c = works("SLOW", cached);
    assert_string_equal(c.log, "ptxas info    : (C7514) Potential Performance Loss: wgmma serialized\n");
    assert_int_equal(c.registers, 40);
    assert_int_equal(c.spill_bytes, 0);
    gpu_cubin_free(&c);
    c = works("plain", cached);
    assert_string_equal(c.log, "");
    assert_true(cached ? c.ptxas_ms == 0 : c.ptxas_ms > 0);
    gpu_cubin_free(&c);
  }
}

/* Spilled below what a thread may have: one block is enough. */
static void test_spill(void **state) {
  (void)state;
  works_and_goes("SPILL", false);
  assert_int_equal(run_count(), 2);
  works_and_goes("SPILL", true);
}

/* One block more of a multiprocessor, where there is room, if that takes few registers less and spills nothing. */
static void test_more_blocks(void **state) {
  (void)state;
  static const struct {
    const char *words;
    int registers, runs;
  } cases[] = {{"ROOM", 64, 2},
               {"ROOM, TIGHT", 72, 2},
               {"ROOM, FULL", 72, 1},
               {"ROOM, NEVER", 72, 2},
               {"ROOM, PRESSURE 76", 64, 2}, /* a sixth less are 64 */
               {"ROOM, PRESSURE 77", 72, 1},
               {"FEW, PRESSURE 171", 96, 2}, /* of 12 warps 16: whatever the text's pressure */
               {"FEW, PRESSURE 171, TIGHT", 164, 2},
               {"FEW, PRESSURE 171, SMALL", 164, 1},
               {"BOUND, FULL", 64, 1},
               {"BOUND, FULL, NEVER", 40, 2},
               {"few registers", 40, 1}};
  for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
    Buf said = {0};
    GpuCubin c;
    int before = run_count();
    if (assemble(text(cases[i].words), &c, &said)) fail_msg("%s", said.at);
    assert_int_equal(c.registers, cases[i].registers);
    assert_int_equal(c.spill_bytes, 0);
    assert_int_equal(run_count() - before, cases[i].runs);
    gpu_cubin_free(&c);
  }
}

/* Where little is spilled, both ways are tried, each once, and the better one is kept. Of a large text that needs more
 * registers than there are they run at the same time, and the second is stopped where it is needless. */
static void test_two_ways(void **state) {
  (void)state;
  static const struct {
    const char *words;
    bool large;
    int spill, way, runs;
  } cases[] = {{"WAYS 28 40", false, 28, 2, 2},
               {"WAYS 40 28", false, 28, 3, 2},
               {"WAYS 600 0", false, 600, 2, 1}, /* much is spilled */
               {"WAYS 0 0", false, 0, 2, 1},
               {"WAYS 28 40, MEET, PRESSURE 300", true, 28, 2, 2},
               {"WAYS 40 28, MEET, PRESSURE 300", true, 28, 3, 2},
               {"WAYS 0 0, MEET, FOREVER, PRESSURE 300", true, 0, 2, 2},
               {"WAYS 600 0, MEET, FOREVER, PRESSURE 300", true, 600, 2, 2},
               {"WAYS 0 0, PRESSURE 200", true, 0, 2, 1},
               {"WAYS 700 0, PRESSURE 500", true, 700, 2, 1}};
  setenv("NEREID_COMPILER_SECONDS", "300", 1);
  for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
    Buf ptx = {0}, said = {0};
    GpuCubin c;
    int before = run_count();
    char begun[200], way[20];
    snprintf(begun, sizeof begun, "%s.begun", runs);
    unlink(begun);
    buf_puts(&ptx, text(cases[i].words));
    for (int k = 0; cases[i].large && k < 1 << 12; k++) buf_puts(&ptx, "// a long comment\n");
    if (assemble(ptx.at, &c, &said)) fail_msg("%s", said.at);
    assert_int_equal(c.spill_bytes, cases[i].spill);
    snprintf(way, sizeof way, "way %d", cases[i].way);
    assert_non_null(memmem(c.bytes, c.size, way, strlen(way)));
    assert_int_equal(run_count() - before, cases[i].runs);
    gpu_cubin_free(&c);
    buf_destroy(&ptx);
  }
  unsetenv("NEREID_COMPILER_SECONDS");
}

/* Products are assembled with an option that not every assembler knows. */
static void test_products(void **state) {
  (void)state;
  static const char *const kinds[] = {"PRODUCT new", "PRODUCT OLD", "other"};
  for (int i = 0; i < 3; i++) {
    Buf log = {0}, said = {0};
    GpuCubin c;
    int before = run_count();
    if (assemble(text(kinds[i]), &c, &said)) fail_msg("%s", said.at);
    assert_int_equal(c.registers, 40);
    assert_int_equal(run_count() - before, i == 1 ? 2 : 1);
    assert_true(file_read(runs, &log));
    log.at[log.n - 1] = 0; /* the last line */
    const char *last = strrchr(log.at, '\n');
    assert_int_equal(strstr(last ? last : log.at, "--Ofast-compile min") != NULL, i == 0);
    gpu_cubin_free(&c);
    buf_destroy(&log);
  }
}

static void flip(const char *path) {
  FILE *f = fopen(path, "r+");
  assert_non_null(f);
  fseek(f, 10, SEEK_SET);
  int c = fgetc(f);
  fseek(f, 10, SEEK_SET);
  fputc(c ^ 1, f);
  fclose(f);
}
static void cut(const char *path) { assert_int_equal(truncate(path, 60), 0); }
static void empty(const char *path) { assert_int_equal(truncate(path, 0), 0); }

static void test_damage(void **state) {
  (void)state;
  static void (*const harms[])(const char *) = {flip, cut, empty};
  works_and_goes("one", false);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(each_file(harms[i]), 1);
    works_and_goes("one", false);
    works_and_goes("one", true);
  }
}

static void test_folders(void **state) {
  (void)state;
  char file[100];
  snprintf(file, sizeof file, "%s/a-file", folder);
  assert_true(file_write_new(file, "x", 1));
  setenv("NEREID_CACHE_DIR", file, 1); /* no folder can be made there */
  works_and_goes("one", false);
  works_and_goes("one", false);
  setenv("TMPDIR", "/nowhere/at/all", 1);
  fails("one", "there is no place to assemble a kernel in: neither the cache folder nor /nowhere/at/all can be written "
               "(No such file or directory)");
  setenv("NEREID_CACHE_DIR", folder, 1);
  works_and_goes("one", false); /* the cache folder alone is enough */
}

static void test_missing(void **state) {
  (void)state;
  works_and_goes("one", false);
  setenv("NEREID_PTXAS", "none", 1);
  fails("one", "no ptxas"); /* nor what one made */
  setenv("NEREID_PTXAS", "/nowhere/ptxas", 1);
  fails("one", "the assembler that NEREID_PTXAS names, `/nowhere/ptxas`, was not found");
  setenv("NEREID_PTXAS", script, 1);
  unlink(script);
  works_and_goes("one", true); /* what is kept needs none */
  fails("two", "was not found");
}

static void test_time_limit(void **state) {
  (void)state;
  assert_true(file_write_atomic(script, "#!/bin/sh\nsleep 1000\n", 21));
  chmod(script, 0755);
  setenv("NEREID_COMPILER_SECONDS", "0.2", 1);
  fails("one", "fake-ptxas was stopped after 0.2 seconds of the kernel's PTX");
  assert_true(file_write_atomic(script, "#!/bin/sh\nexec yes\n", 19)); /* says without end */
  chmod(script, 0755);
  fails("one", "fake-ptxas was stopped after 0.2 seconds of the kernel's PTX");
  unsetenv("NEREID_COMPILER_SECONDS");
  assert_int_equal(each_file(NULL), 0);
}

static void test_errors(void **state) {
  (void)state;
  fails("WRONG", "line 7; error : Unknown symbol");
  assert_int_equal(each_file(NULL), 0);
  assert_true(file_write_atomic(script, "#!/bin/sh\nexit 0\n", 17)); /* says nothing, writes nothing */
  chmod(script, 0755);
  fails("one", "reported success and left no cubin");
  assert_true(file_write_atomic(script, "#!/bin/sh\nkill -11 $$\n", 22));
  chmod(script, 0755);
  fails("one", "failed on the kernel's PTX for sm_90a with status 139");
}

/* nvdisasm's listing, with the source lines that this compilation knows. */
static void test_sass(void **state) {
  (void)state;
  char path[2000], *before = strdup(getenv("PATH"));
  snprintf(path, sizeof path, "%s/nvdisasm", folder);
  static const char tool[] = "#!/bin/sh\n"
                             "echo 'nvdisasm warning : something about ELF'\n"
                             "echo '\t//## File \"k.py\", line 2'; echo '  IADD R1;'; echo '\t//## File \"other.py\", "
                             "line 1'; echo '  EXIT;'\n"
                             "cat \"$3\"\n";
  Context *cx = context_create();
  Buf out = {0};
  GpuCubin c = {.bytes = "the cubin\n", .size = 10};
  setenv("PATH", "/nowhere", 1);
  if (access("/usr/local/cuda/bin/nvdisasm", X_OK) && access("/usr/local/cuda/bin/cuobjdump", X_OK)) {
    if (context_try(cx)) {
      gpu_sass(cx, &c, &out);
      context_end_try(cx);
      fail_msg("no error");
    }
    assert_non_null(strstr(cx->diags.at[0].message, "no disassembler was found"));
  }
  assert_true(file_write_atomic(path, tool, sizeof tool - 1));
  chmod(path, 0755);
  snprintf(path, sizeof path, "%s:%s", folder, before);
  setenv("PATH", path, 1);
  source_from_text(cx, "k.py", "one\n    two = 2\n", 16);
  if (context_try(cx)) {
    gpu_sass(cx, &c, &out);
    context_end_try(cx);
  } else {
    fail_msg("%s", cx->diags.at[cx->diags.n - 1].message);
  }
  assert_string_equal(
      out.at,
      "\t//## File \"k.py\", line 2   two = 2\n  IADD R1;\n\t//## File \"other.py\", line 1\n  EXIT;\nthe cubin\n");
  buf_destroy(&out);
  context_destroy(cx);
  setenv("PATH", before, 1);
  free(before);
}

static void test_processes(void **state) {
  (void)state;
  enum { N = 6 };
  pid_t children[N];
  for (int i = 0; i < N; i++) {
    children[i] = fork();
    if (children[i]) continue;
    GpuCubin c;
    Buf said = {0};
    for (int k = 0; k < 4; k++) {
      char words[8];
      snprintf(words, sizeof words, "k%d", k);
      if (assemble(text(words), &c, &said) || memcmp(c.bytes, "cubin of", 8) || c.registers != 40) _exit(1);
      gpu_cubin_free(&c);
    }
    _exit(0);
  }
  for (int i = 0; i < N; i++) {
    int status;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(each_file(NULL), 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_cached, setup, teardown),
      cmocka_unit_test_setup_teardown(test_log_and_figures, setup, teardown),
      cmocka_unit_test_setup_teardown(test_spill, setup, teardown),
      cmocka_unit_test_setup_teardown(test_more_blocks, setup, teardown),
      cmocka_unit_test_setup_teardown(test_two_ways, setup, teardown),
      cmocka_unit_test_setup_teardown(test_products, setup, teardown),
      cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
      cmocka_unit_test_setup_teardown(test_folders, setup, teardown),
      cmocka_unit_test_setup_teardown(test_missing, setup, teardown),
      cmocka_unit_test_setup_teardown(test_time_limit, setup, teardown),
      cmocka_unit_test_setup_teardown(test_sass, setup, teardown),
      cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
      cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
