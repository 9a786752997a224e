/* Tuning on the cuda device, against a driver that is not there (fakes/cuda.c), whose kernels run on the host: events,
 * caches emptied by a kernel of ours, launches that the driver refuses, a context that is lost; and nothing is left
 * after. */
#include "fakes/cuda_kit.h"

#include <dlfcn.h>
#include <unistd.h>

static FakeCuda *fake;
static void (*fake_reset)(void);
static void (*fake_kernel)(const char *name, FakeKernel run);

enum { N = 100 };

static const char text[] = "import triton\nimport triton.language as tl\n\n"
                           "@triton.autotune(configs=[triton.Config({'B': b}, num_warps=w) for b in (64, 128) for w in "
                           "(1, 2)], key=['n'], reset_to_zero=['total'])\n@triton.jit\n"
                           "def k(x, total, n, B: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n    "
                           "y = tl.load(x + i, mask=i < n) + 1\n    tl.store(x + i, y, mask=i < n)\n"
                           "    tl.atomic_add(total, tl.sum(y, axis=0))\n"
                           "@triton.jit\ndef row(x, out, n, B: tl.constexpr):\n    i = tl.arange(0, B)\n    "
                           "tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)\n";

/* What the kernel does; faults with so many warps as `faults_at` says. */
static unsigned faults_at;
static int run_k(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  float *x = *(float **)p[0], *total = *(float **)p[1];
  if (block[0] == 32 * faults_at) return 700;
  for (int i = 0; i < *(int *)p[2]; i++) *total += x[i] += 1;
  return 0;
}
static int run_row(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) { return 0; }

typedef struct Fixture {
  nereid_device *d;
  nereid_module *m;
  float *x, *total;
  char cache[64];
  double times[4];
  int trials;
} Fixture;

static double measure(void *arg, int config, int trial) {
  return ((Fixture *)arg)->trials++, ((Fixture *)arg)->times[config];
}

static int setup(void **state) {
  Fixture *f = calloc(1, sizeof *f);
  setenv("NEREID_LIBCUDA", FAKE_CUDA, 1);
  setenv("NEREID_PTXAS", "none", 1);
  snprintf(f->cache, sizeof f->cache, "/tmp/nereid-test-tune-XXXXXX");
  assert_non_null(mkdtemp(f->cache));
  setenv("NEREID_CACHE_DIR", f->cache, 1);
  faults_at = 0;
  fake_reset();
  fake_kernel("k", run_k);
  fake_kernel("row", run_row);
  f->d = kit_device("cuda");
  assert_ok(nereid_module_load_string("t.py", text, &f->m, &error));
  assert_ok(nereid_alloc(f->d, N * sizeof *f->x, (void **)&f->x, &error));
  assert_ok(nereid_alloc(f->d, sizeof *f->total, (void **)&f->total, &error));
  memset(f->x, 0, N * sizeof *f->x);
  *f->total = 5;
  memcpy(f->times, (double[]){40e3, 30e3, 10e3, 20e3}, sizeof f->times);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  Fixture *f = *state;
  fake->sticky = 0;
  nereid_module_free(f->m);
  nereid_device_close(f->d);
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", f->cache);
  assert_int_equal(system(command), 0);
  free(f);
  assert_nothing_left(fake);
  return 0;
}

static nereid_status launch(Fixture *f, const nereid_tune_options *how, nereid_error **error) {
  nereid_options o = {.grid = "cdiv(n, B)", .tune = how};
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->total, NEREID_F32), nereid_int(N)};
  nereid_status status = nereid_launch(f->d, NULL, f->m, "k", NULL, args, 3, &o, error);
  return status ? status : nereid_synchronize(f->d, error);
}

static void the_winner_is_launched(void **state) {
  Fixture *f = *state;
  nereid_tune_options how = {.measure = measure, .measure_arg = f, .threads = 2};
  assert_ok(launch(f, &how, &error));
  assert_int_equal(fake->last_grid[0], 1); /* 100 in a block of 128 */
  assert_int_equal(fake->last_block[0], 32);
  assert_true(f->trials >= 4 * 3);
  for (int i = 0; i < N; i++) assert_true(f->x[i] == 1);
  assert_true(*f->total == N);
  int before = f->trials;
  assert_ok(launch(f, &how, &error));
  assert_int_equal(f->trials, before);
  assert_true(f->x[0] == 2 && *f->total == 3 * N);
}

static void caches_are_emptied_between_trials(void **state) {
  Fixture *f = *state;
  fake->memory = (size_t)4 << 30;
  nereid_tune_options how = {.repeat = 2, .threads = 1};
  int launches = fake->launches;
  assert_ok(launch(f, &how, &error));
  launches = fake->launches - launches;
  assert_true(launches > 2 * 4 && launches % 2 == 1); /* a flush with each trial, and the launch itself */
  for (int i = 0; i < N; i++) assert_true(f->x[i] == 1);
}

static void no_memory_for_that_is_no_error(void **state) {
  Fixture *f = *state;
  fake->memory = (size_t)1 << 20;
  nereid_tune_options how = {.repeat = 2, .threads = 1};
  assert_ok(launch(f, &how, &error));
  for (int i = 0; i < N; i++) assert_true(f->x[i] == 1);
  nereid_module *m = NULL;
  nereid_error *error = NULL;
  assert_int_equal(nereid_module_load_string("t.py", text, &m, &error), NEREID_OK);
  nereid_module_free(f->m);
  f->m = m;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s/tune", f->cache);
  assert_int_equal(system(command), 0);
  how.caches = NEREID_CACHES_COLD; /* who asks is told */
  assert_int_equal(launch(f, &how, &error), NEREID_OUT_OF_MEMORY);
  nereid_error_free(error);
}

static void what_the_driver_refuses_loses(void **state) {
  Fixture *f = *state;
  nereid_tune_options how = {.measure = measure, .measure_arg = f, .threads = 1};
  /* the third's first trial: it would have won */
  fake->fail.symbol = "cuLaunchKernel", fake->fail.result = 701, fake->fail.after = 2;
  assert_ok(launch(f, &how, &error));
  assert_int_equal(fake->last_grid[0], 1);
  assert_int_equal(fake->last_block[0], 64);
  assert_true(f->x[0] == 1 && *f->total == N);
}

/* What the driver makes in a context that is lost goes with it, which the leak checker cannot know of the one of our
 * making. */
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

static void a_lost_context_ends_it(void **state) {
  Fixture *f = *state;
  nereid_tune_options how = {.measure = measure, .measure_arg = f, .threads = 1};
  faults_at = 2;
  nereid_error *error = NULL;
  if (__lsan_disable) __lsan_disable();
  nereid_status status = launch(f, &how, &error);
  if (__lsan_enable) __lsan_enable();
  assert_int_not_equal(status, NEREID_OK);
  if (!strstr(nereid_error_text(error), "illegal")) fail_msg("%s", nereid_error_text(error));
  nereid_error_free(error);
  assert_int_equal(fake->modules, 4);     /* they went with the context */
  assert_int_equal(fake->allocations, 3); /* so did the copy of x */
  fake->modules = 0, fake->events = 0, fake->allocations = 2;
}

static void tiles_larger_than_registers_are_skipped(void **state) {
  Fixture *f = *state;
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->x, NEREID_F32), nereid_int(N)};
  nereid_arg set[] = {nereid_named(nereid_constexpr_int(128), "B"), nereid_named(nereid_constexpr_int(1 << 14), "B")};
  nereid_config configs[] = {{.args = &set[0], .arg_count = 1, .num_warps = 1},
                             {.args = &set[1], .arg_count = 1, .num_warps = 1},
                             {.args = &set[1], .arg_count = 1, .num_warps = 4}};
  nereid_tune_result r[3];
  int best;
  nereid_options o = {.grid = "1"};
  nereid_tune_options how = {.measure = measure, .measure_arg = f, .threads = 1, .unchecked = true};
  assert_ok(nereid_tune(f->d, f->m, "row", NULL, args, 3, &o, configs, 3, &how, r, &best, &error));
  assert_int_equal(best, 2);
  assert_int_equal(r[1].state, NEREID_TUNE_SKIPPED);
  assert_string_equal(r[1].why, "a thread would hold 2048 bytes of a tile of 65536 in its 1020 bytes of registers");
  assert_int_equal(r[2].state, NEREID_TUNE_MEASURED);
  /* there is no other */
  assert_ok(nereid_tune(f->d, f->m, "row", NULL, args, 3, &o, &configs[1], 1, &how, r, &best, &error));
  assert_int_equal(r[0].state, NEREID_TUNE_MEASURED);
}

int main(void) {
  void *library = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  fake = ((FakeCuda * (*)(void)) dlsym(library, "fake_cuda"))();
  *(void **)&fake_reset = dlsym(library, "fake_reset");
  *(void **)&fake_kernel = dlsym(library, "fake_kernel");
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(the_winner_is_launched),         TEST(caches_are_emptied_between_trials),
      TEST(no_memory_for_that_is_no_error), TEST(what_the_driver_refuses_loses),
      TEST(a_lost_context_ends_it),         TEST(tiles_larger_than_registers_are_skipped)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
