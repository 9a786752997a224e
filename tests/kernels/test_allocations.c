/* Every allocation fails: the n-th alone, and the n-th with all after it. A compilation or a launch then fails cleanly
 * or gives exactly the results that it gives otherwise; nothing is leaked, and what is asked next works again.
 *
 * The texts that compilers make are compared whole, so that a piece of C or PTX that got lost shows; launches on
 * interp, sim, cpu and cuda (against a driver of our own making) are compared by what they write. Of the allocations
 * some are taken, spread over all of them; NEREID_ALL_ALLOCATIONS=1 takes each. Under sanitizers nothing is refused
 * (fakes/malloc.h). The other tests of kernels/ fail an allocation or two of each of their launches (harness.c), the
 * random kernels with --allocations. */
#define _GNU_SOURCE
#include "unit/runtime/runtime_kit.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fakes/cuda.h"
#include "fakes/malloc.h"

/* ---- what is compiled and launched ---- */

enum { ARRAYS = 4, ELEMENTS = 1024, BYTES = 4 * ELEMENTS, MOST_ARGS = 16 };
typedef struct Case {
  const char *file, *kernel;
  int64_t grid[3];
} Case;

static const char own_text[] = "import triton\n"
                               "import triton.language as tl\n"
                               "\n"
                               "@triton.jit\n"
                               "def combine(a, b):\n"
                               "    return tl.maximum(a, b) + 0.5 * tl.minimum(a, b)\n"
                               "\n"
                               "@triton.jit\n"
                               "def many(x, y, out, sums, n, B: tl.constexpr):\n"
                               "    i = tl.program_id(0) * B + tl.arange(0, B)\n"
                               "    a = tl.load(x + i, mask=i < n, other=0.0)\n"
                               "    s = tl.cumsum(a, 0) + tl.sort(a)\n"
                               "    total = 0.0\n"
                               "    for k in range(0, n // B):\n"
                               "        b = tl.load(y + k * B + tl.arange(0, B))\n"
                               "        if k % 2 == 0:\n"
                               "            s += tl.exp(-tl.abs(b))\n"
                               "        else:\n"
                               "            s -= tl.flip(b, 0) * tl.sqrt(tl.abs(b))\n"
                               "        total += tl.reduce(b, 0, combine)\n"
                               "    h = tl.histogram(i % 8, 8)\n"
                               "    tl.device_assert(total == total, 'no number')\n"
                               "    tl.store(out + i, s + total, mask=i < n)\n"
                               "    tl.atomic_add(sums + tl.arange(0, 8), h.to(tl.float32))\n";

static const Case cases[] = {{NULL, "many", {8, 1, 1}},
                             {"vector_add.py", "vector_add", {4, 1, 1}},
                             {"softmax.py", "softmax", {8, 1, 1}},
                             {"matmul.py", "matmul", {1, 1, 1}}};

typedef struct World { /* one run from nothing */
  nereid_device *d;
  nereid_module *m;
  void *arrays[ARRAYS];
  nereid_arg args[MOST_ARGS];
  int arg_count;
  char *text;
  float out[ARRAYS][ELEMENTS];
} World;

static char *file_text(const Case *c) {
  if (!c->file) return strdup(own_text);
  char path[512];
  snprintf(path, sizeof path, "%s/%s", KERNELS_DIR, c->file);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  char *text = malloc(1 << 16);
  text[fread(text, 1, (1 << 16) - 1, f)] = 0;
  fclose(f);
  return text;
}

static void make_args(World *w, const Case *c) {
  nereid_arg *a = w->args;
  const nereid_arg p[] = {nereid_pointer(w->arrays[0], NEREID_F32), nereid_pointer(w->arrays[1], NEREID_F32),
                          nereid_pointer(w->arrays[2], NEREID_F32), nereid_pointer(w->arrays[3], NEREID_F32)};
  int n = 0;
  if (!strcmp(c->kernel, "many")) {
    for (int i = 0; i < 4; i++) a[n++] = p[i];
    a[n++] = nereid_int(512), a[n++] = nereid_constexpr_int(64);
  } else if (!strcmp(c->kernel, "vector_add")) {
    for (int i = 0; i < 3; i++) a[n++] = p[i];
    a[n++] = nereid_int(1000), a[n++] = nereid_constexpr_int(256);
  } else if (!strcmp(c->kernel, "softmax")) {
    a[n++] = p[0], a[n++] = p[2];
    a[n++] = nereid_int(100), a[n++] = nereid_int(100), a[n++] = nereid_int(100), a[n++] = nereid_constexpr_int(128);
  } else { /* matmul */
    a[n++] = p[0], a[n++] = p[1], a[n++] = p[2];
    for (int i = 0; i < 3; i++) a[n++] = nereid_int(32);
    for (int i = 0; i < 6; i++) a[n++] = nereid_int(i % 2 ? 1 : 32);
    for (int i = 0; i < 3; i++) a[n++] = nereid_constexpr_int(16);
    a[n++] = nereid_constexpr_int(1);
  }
  w->arg_count = n;
}

/* stage NULL: a launch on `target`; else nereid_inspect. */
typedef struct Job {
  const Case *c;
  const char *stage, *target;
  const char *source;
} Job;

static nereid_status run(World *w, const Job *j, nereid_error **error) {
  nereid_status status = w->m ? NEREID_OK : nereid_module_load_string("k.py", j->source, &w->m, error);
  if (status) return status;
  if (j->stage) {
    make_args(w, j->c);
    return nereid_inspect(w->m, j->c->kernel, w->args, w->arg_count, NULL, j->stage, j->target, &w->text, error);
  }
  if (!w->d) status = nereid_device_open(j->target, &w->d, error);
  for (int i = 0; i < ARRAYS && !status; i++) {
    float host[ELEMENTS];
    for (int k = 0; k < ELEMENTS; k++) host[k] = (float)((k * 37 + i * 11) % 64) / 16 - 1;
    if (!w->arrays[i]) status = nereid_alloc(w->d, BYTES, &w->arrays[i], error);
    if (!status) status = nereid_copy_to_device(w->d, w->arrays[i], host, BYTES, error);
  }
  if (status) return status;
  make_args(w, j->c);
  status = nereid_launch(w->d, NULL, w->m, j->c->kernel, j->c->grid, w->args, w->arg_count, NULL, error);
  if (!status) status = nereid_synchronize(w->d, error);
  for (int i = 0; i < ARRAYS && !status; i++) status = nereid_copy_to_host(w->d, w->out[i], w->arrays[i], BYTES, error);
  return status;
}

static void end(World *w) {
  for (int i = 0; i < ARRAYS; i++)
    if (w->d) nereid_free(w->d, w->arrays[i]);
  nereid_module_free(w->m);
  nereid_device_close(w->d);
  free(w->text);
}

static bool same(const World *a, const World *b) {
  return a->text || b->text ? a->text && b->text && !strcmp(a->text, b->text) : !memcmp(a->out, b->out, sizeof a->out);
}

static void tell(const Job *j, long n, bool later, const char *what) {
  fail_msg("%s on %s %s, allocation %ld%s: %s", j->c->kernel, j->stage ? j->stage : "", j->target ? j->target : "", n,
           later ? " and all after it" : "", what);
}

/* What a sound run leaves: 0 but for what the test's own driver keeps. */
static long left_behind(const Job *j) {
  static World w;
  w = (World){0};
  long before = malloc_alive();
  nereid_error *error = NULL;
  assert_int_equal(run(&w, j, &error), NEREID_OK);
  end(&w);
  long after = malloc_alive();
  return after > before ? after - before : 0; /* what libc had kept it may let go */
}

/* One run with the n-th allocation refused, then one without on what is left of it. False: something was leaked. */
static bool attempt(const Job *j, const World *want, long n, bool later, long usual) {
  static World w; /* too large for a stack */
  w = (World){0};
  long before = malloc_alive();
  nereid_error *error = NULL;
  malloc_refuse(n, later);
  nereid_status status = run(&w, j, &error);
  malloc_refuse(0, false);
  if (!status != !error) tell(j, n, later, "status and error differ");
  if (status == NEREID_INTERNAL) tell(j, n, later, nereid_error_text(error));
  if (!status && !same(&w, want)) tell(j, n, later, "the result is wrong");
  nereid_error_free(error);
  error = NULL;
  free(w.text);
  w.text = NULL;
  if (run(&w, j, &error)) tell(j, n, later, nereid_error_text(error));
  if (!same(&w, want)) tell(j, n, later, "the result afterwards is wrong");
  end(&w);
  return malloc_alive() - before <= usual;
}

static void try_job(const Job *j) {
  static World want;
  want = (World){0};
  nereid_error *error = NULL;
  if (run(&want, j, &error)) fail_msg("%s: %s", j->c->kernel, nereid_error_text(error)); /* also fills caches on disk */
  static World again;
  again = (World){0};
  malloc_refuse(0, false);
  assert_int_equal(run(&again, j, &error), NEREID_OK);
  long count = malloc_count(), step = 1;
  if (!same(&want, &again)) fail_msg("%s: two runs differ", j->c->kernel);
  end(&again);
  if (!getenv("NEREID_ALL_ALLOCATIONS")) step = count / 100 + 1;
  long usual = left_behind(j);
  for (int later = 0; later < 2; later++)
    for (long n = 1; n <= count; n += n < 20 ? 1 : step)
      if (!attempt(j, &want, n, later, usual) && !attempt(j, &want, n, later, usual) &&
          !attempt(j, &want, n, later, usual))
        tell(j, n, later, "memory was leaked");
  end(&want);
}

static int run_many(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  for (int i = 0; i < ELEMENTS; i++) (*(float **)p[2])[i] = (*(float **)p[0])[i] + (*(float **)p[1])[i];
  return 0;
}

static void test_allocations(void **state) {
  if (!malloc_refuses()) return;
  static const char *const stages[][2] = {{"tile", NULL}, {"c", NULL}, {"ptx", "sm_90a"}, {"layout", "sm_80"}};
  static const char *const devices[] = {"interp", "cpu:1", "sim", "cuda"};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char *source = file_text(&cases[i]);
    for (size_t k = 0; k < sizeof stages / sizeof stages[0]; k++)
      try_job(&(Job){.c = &cases[i], .stage = stages[k][0], .target = stages[k][1], .source = source});
    for (size_t k = 0; k < sizeof devices / sizeof devices[0]; k++)
      if (k < 3 || i < 2) try_job(&(Job){.c = &cases[i], .target = devices[k], .source = source});
    free(source);
  }
}

static char folder[] = "/tmp/nereid-allocations-XXXXXX";

static int remove_cache(void **state) {
  char command[80];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

static int one_processor(void **state) {
  cpu_set_t one; /* sim has a thread a processor; which allocation fails must not depend on theirs */
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  setenv("NEREID_LIBCUDA", FAKE_CUDA, 1);
  if (!getenv("NEREID_TEST_CACHE")) setenv("NEREID_CACHE_DIR", mkdtemp(folder), 1);
  else setenv("NEREID_CACHE_DIR", getenv("NEREID_TEST_CACHE"), 1);
  void *fake = dlopen(FAKE_CUDA, RTLD_NOW);
  void (*kernel)(const char *, FakeKernel) =
      fake ? (void (*)(const char *, FakeKernel))dlsym(fake, "fake_kernel") : NULL;
  if (!kernel) return 1;
  kernel("many", run_many), kernel("vector_add", run_many);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations)};
  return cmocka_run_group_tests(tests, one_processor, remove_cache);
}
