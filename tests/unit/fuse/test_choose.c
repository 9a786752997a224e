/* Who does a product, as measured: beside a library that takes no time, and one that takes too much. What was measured
 * is kept, and what was damaged is measured again. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "fakes/blas.h"
#include <dirent.h>
#include <nereid.h>
#include <unistd.h>

enum { M = 512, N = 256, K = 256, TOO_SLOW = 300000 };
static nereid_device *cpu;
static FakeBlas *fake;
static TempFolder folder;

static int start(void **state) {
  setenv("NEREID_LIBOPENBLAS", FAKE_BLAS, 1);
  void *library = dlopen(FAKE_BLAS, RTLD_NOW);
  FakeBlas *(*find)(void) = NULL;
  if (library) *(void **)&find = dlsym(library, "fake_blas");
  if (!find) return -1;
  fake = find();
  if (!temp_create(&folder, NULL)) return -1;
  setenv("NEREID_CACHE_DIR", folder.path, 1);
  return nereid_device_open("cpu:2", &cpu, NULL) ? -1 : 0;
}

static int stop(void **state) {
  nereid_device_close(cpu);
  temp_remove(&folder);
  return 0;
}

/* Calls it for each entry; how many there are. Compiled kernels stay: they are the same in all tests. */
static int for_entries(void (*change)(const char *path)) {
  char kind[500];
  snprintf(kind, sizeof kind, "%s/product", folder.path);
  DIR *d = opendir(kind);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    char path[900];
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", kind, e->d_name);
    change(path);
    n++;
  }
  if (d) closedir(d);
  return n;
}

static void forget(const char *path) { unlink(path); }

static int nothing_known(void **state) {
  for_entries(forget);
  *fake = (FakeBlas){.threads = 1};
  return 0;
}

static nereid_fuse_products who = NEREID_PRODUCTS_AUTO;

static nereid_fusion *plan(const char *expression, int64_t m, nereid_device *d) {
  nereid_builder *g = NULL;
  nereid_tensor in[2], out;
  nereid_fusion *f = NULL;
  nereid_error *error = NULL;
  assert_int_equal(nereid_builder_create(NULL, &g, NULL), NEREID_OK);
  assert_int_equal(nereid_builder_input(g, "a", NEREID_F32, 2, (int64_t[]){m, K}, &in[0], NULL), NEREID_OK);
  assert_int_equal(nereid_builder_input(g, "b", NEREID_F32, 2, (int64_t[]){K, N}, &in[1], NULL), NEREID_OK);
  if (nereid_builder_op(g, expression, in, 2, &out, 1, &error)) fail_msg("%s", nereid_error_text(error));
  fake->calls = 0;
  if (nereid_builder_compile(g, &out, 1, &(nereid_fuse_options){.device = d, .products = who}, &f, &error))
    fail_msg("%s", nereid_error_text(error));
  nereid_builder_free(g);
  return f;
}

/* Plans it, of m rows; whether it was measured with the library, and what the explanation says. */
static void expect_of(int64_t m, const char *expression, bool measured, const char *words) {
  nereid_fusion *f = plan(expression, m, cpu);
  const char *text = nereid_fusion_text(f, "explain");
  if (!strstr(text, words)) fail_msg("does not say '%s':\n%s", words, text);
  if (measured != (fake->calls > 0)) fail_msg("%s: %d calls of the library", expression, fake->calls);
  nereid_fusion_free(f);
}

static void expect(const char *expression, bool measured, const char *words) {
  expect_of(M, expression, measured, words);
}

static void a_slow_library_is_not_taken(void **state) {
  fake->slow_us = TOO_SLOW;
  expect("a @ b", true, "ours, as measured: tiles of ");
  expect("a @ b", false, "ours, as measured: tiles of "); /* kept */
  expect("a @ b", false, ", FakeBLAS 1.2.3 ");
}

static void a_fast_library_is_taken(void **state) {
  fake->idle = true;
  expect("a @ b", true, "the library's, as measured: tiles of ");
  expect("a @ b", false, "the library's, as measured: tiles of ");
  expect_of(64, "a @ b", true, "the library's, as measured: tiles of ");       /* a tenth of a millisecond is much */
  expect("(a @ b).relu() + 1", true, "the library's, as measured: tiles of "); /* with what follows it: another one */
}

/* Two with other names of their arrays are one: two rounds behind a first run, and it is out of the race. */
static void alike_products_are_measured_once(void **state) {
  fake->slow_us = TOO_SLOW;
  nereid_fusion *f = plan("torch.stack([a @ b, a.cumsum(0) @ b])", M, cpu);
  assert_int_equal(fake->calls, 3);
  nereid_fusion_free(f);
}

static void cut(const char *path) { assert_int_equal(truncate(path, 10), 0); }
static void empty(const char *path) { assert_int_equal(truncate(path, 0), 0); }

static void say(const char *path, const char *text) {
  assert_true(store_keep("product", strrchr(path, '/') + 1, "", text, strlen(text)));
}
static void other_tile(const char *path) {
  say(path, "library=0 tile=3,5,7 warps=0 steps=1 own_ms=1.000000 library_ms=0.000000\n");
}
static void no_time(const char *path) {
  say(path, "library=1 tile=128,128,64 warps=0 steps=1 own_ms=nan library_ms=1.000000\n");
}
static void nonsense(const char *path) { say(path, "a product\n"); }

static void damaged_entries_are_measured_again(void **state) {
  void (*const damage[])(const char *) = {cut, empty, other_tile, no_time, nonsense};
  fake->slow_us = TOO_SLOW;
  expect("a @ b", true, "ours, as measured");
  for (int i = 0; i < 5; i++) {
    assert_int_equal(for_entries(damage[i]), 1);
    expect("a @ b", true, "ours, as measured");
    expect("a @ b", false, "ours, as measured");
  }
}

static void not_measured(nereid_device *d, int64_t m) {
  nereid_fusion *f = plan("a @ b", m, d);
  assert_null(strstr(nereid_fusion_text(f, "explain"), "measured"));
  assert_int_equal(fake->calls, 0);
  nereid_fusion_free(f);
}

static void what_is_not_measured(void **state) {
  nereid_device *d = NULL;
  fake->idle = true;
  not_measured(cpu, 16); /* it would not pay */
  not_measured(NULL, M);
  assert_int_equal(nereid_device_open("interp", &d, NULL), NEREID_OK);
  not_measured(d, M);
  nereid_device_close(d);
  setenv("NEREID_AUTOTUNE", "0", 1);
  assert_int_equal(nereid_device_open("cpu:2", &d, NULL), NEREID_OK);
  unsetenv("NEREID_AUTOTUNE");
  not_measured(d, M);
  nereid_device_close(d);
}

/* What is kept is taken, and nothing measured for it. */
static void what_is_known_already(void **state) {
  fake->idle = true;
  who = NEREID_PRODUCTS_KEPT;
  not_measured(cpu, M);
  who = NEREID_PRODUCTS_AUTO;
  expect("a @ b", true, "the library's, as measured: tiles of ");
  who = NEREID_PRODUCTS_KEPT;
  expect("a @ b", false, "the library's, as measured: tiles of ");
  who = NEREID_PRODUCTS_AUTO;
}

/* Without a library tiles are measured among themselves. */
static void tiles_alone(void **state) {
  setenv("NEREID_LIBOPENBLAS", "/no/such/library.so", 1);
  nereid_fusion *f = plan("a @ b", M, cpu);
  assert_non_null(strstr(nereid_fusion_text(f, "explain"), "ours, as measured: tiles of "));
  assert_null(strstr(nereid_fusion_text(f, "explain"), "FakeBLAS"));
  setenv("NEREID_LIBOPENBLAS", FAKE_BLAS, 1);
  nereid_fusion_free(f);
}

/* A plan with a library's products is for the device that has the library. */
static void another_device_says_so(void **state) {
  nereid_device *interp = NULL;
  nereid_error *error = NULL;
  fake->idle = true;
  nereid_fusion *f = plan("a @ b", M, cpu);
  assert_int_equal(nereid_device_open("interp", &interp, NULL), NEREID_OK);
  assert_int_equal(nereid_fusion_compile(f, interp, &error), NEREID_UNSUPPORTED);
  assert_non_null(strstr(nereid_error_text(error), "planned for another device"));
  nereid_error_free(error);
  nereid_fusion_free(f);
  nereid_device_close(interp);
}

#define TEST(name) cmocka_unit_test_setup(name, nothing_known)
int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_slow_library_is_not_taken),
      TEST(a_fast_library_is_taken),
      TEST(alike_products_are_measured_once),
      TEST(damaged_entries_are_measured_again),
      TEST(what_is_not_measured),
      TEST(what_is_known_already),
      TEST(tiles_alone),
      TEST(another_device_says_so),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
