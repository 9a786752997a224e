/* From addresses to functions: of this program, of libc, of a perf map, of files that are no ELF or a broken one. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "prof/prof.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

__attribute__((noinline)) static int only_here(int x) { /* not exported: .symtab alone knows it */
  __asm__ volatile("");
  return x * 3;
}

static void add_all(Symbols *s, uint32_t process) {
  FILE *f = fopen("/proc/self/maps", "r");
  char line[1024], mode[8];
  unsigned long long base, end, offset;
  int at;
  while (fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = at = 0;
    if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %n", &base, &end, mode, &offset, &at) >= 4 && mode[2] == 'x' && at &&
        line[at])
      symbols_add(s, process, line + at, base, end - base, offset);
  }
  fclose(f);
}

static void own_process(void **state) {
  Symbols *s = symbols_create();
  add_all(s, 42);
  assert_string_equal(symbols_name(s, 42, (uint64_t)(uintptr_t)&only_here), "only_here");
  assert_string_equal(symbols_name(s, 42, (uint64_t)(uintptr_t)&only_here + 1), "only_here");
  assert_string_equal(symbols_name(s, 42, (uint64_t)(uintptr_t)&own_process + 1), "own_process");
  void *(*volatile f)(void *, size_t) = realloc;
  (void)f;
  assert_non_null(strstr(symbols_name(s, 42, (uint64_t)(uintptr_t)&fgets), "fgets"));
  assert_string_equal(symbols_name(s, 43, (uint64_t)(uintptr_t)&only_here), "[unknown]"); /* another process */
  assert_string_equal(symbols_name(s, 42, 16), "[unknown]");
  assert_true(only_here(1) == 3);
  symbols_free(s);
}

static void stripped_and_gone(void **state) {
  Symbols *s = symbols_create();
  symbols_add(s, 1, "/nonexistent/libgone.so.1", 0x1000, 0x1000, 0);
  symbols_add(s, 1, "[vdso]", 0x4000, 0x1000, 0);
  assert_string_equal(symbols_name(s, 1, 0x1234), "[libgone.so.1]");
  assert_string_equal(symbols_name(s, 1, 0x4000), "[vdso]");
  assert_string_equal(symbols_name(s, 1, 0x5000), "[unknown]");
  symbols_add(s, 1, "/nonexistent/libnew.so", 0x1000, 0x1000, 0); /* where the other was */
  assert_string_equal(symbols_name(s, 1, 0x1234), "[libnew.so]");
  symbols_add(s, 1, "python: f (f.py)", 0x8000, 2, 0); /* code that lies in no file, by its name */
  assert_string_equal(symbols_name(s, 1, 0x8001), "python: f (f.py)");
  assert_string_equal(symbols_name(s, 1, 0x8002), "[unknown]");
  symbols_free(s);
}

static void perf_map(void **state) {
  char path[64];
  uint32_t process = (1u << 22) + (uint32_t)getpid(); /* no such process: above the largest number that there can be */
  snprintf(path, sizeof path, "/tmp/perf-%u.map", process);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs("7f0000001000 20 py::train:/home/me/train.py\n7f0000001020 10 py::<lambda>:<string>\nnonsense\n7f0000002000 8 "
        "v8 function with spaces\n7f0000003000\n7f0000004000 10 \n",
        f);
  fclose(f);
  Symbols *s = symbols_create();
  assert_string_equal(symbols_name(s, process, 0x7f0000001000), "python: train (train.py)");
  assert_string_equal(symbols_name(s, process, 0x7f000000101f), "python: train (train.py)");
  assert_string_equal(symbols_name(s, process, 0x7f0000001020), "python: <lambda> (<string>)");
  assert_string_equal(symbols_name(s, process, 0x7f0000001030), "[unknown]");
  assert_string_equal(symbols_name(s, process, 0x7f0000002007), "v8 function with spaces");
  assert_string_equal(symbols_name(s, process, 0x7f0000004001), "[unknown]");
  symbols_free(s);
  unlink(path);
}

static void damaged_files(void **state) { /* this program's own file with bytes changed, and cut */
  Buf whole = {0};
  assert_true(file_read("/proc/self/exe", &whole));
  char path[] = "/tmp/nereid-symbols-XXXXXX";
  close(mkstemp(path));
  srand(7);
  for (int trial = 0; trial < 200; trial++) {
    FILE *f = fopen(path, "wb");
    char *copy = malloc(whole.n);
    memcpy(copy, whole.at, whole.n);
    size_t headers = trial % 3 == 0 ? 64 : trial % 3 == 1 ? 64 + 56 * 12 : whole.n, n = whole.n;
    for (int i = 0; i < 4; i++) copy[(size_t)rand() % headers] ^= (char)(1 + rand() % 255);
    /* the section headers */
    for (int i = 0; i < 4 && trial % 2; i++) copy[whole.n - 1 - (size_t)rand() % 2048] ^= (char)(1 + rand() % 255);
    if (trial % 5 == 4) n = (size_t)rand() % whole.n;
    fwrite(copy, 1, n, f);
    fclose(f);
    free(copy);
    Symbols *s = symbols_create();
    symbols_add(s, 1, path, 0x10000, whole.n, 0);
    for (uint64_t a = 0x10000; a < 0x10000 + whole.n; a += 4099) assert_non_null(symbols_name(s, 1, a));
    symbols_free(s);
  }
  unlink(path);
  buf_destroy(&whole);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(own_process), cmocka_unit_test(stripped_and_gone),
                                     cmocka_unit_test(perf_map), cmocka_unit_test(damaged_files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
