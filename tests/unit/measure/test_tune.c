/* Tests of tuning through nereid.h, on `cpu`: @triton.autotune at a launch, nereid_tune, what is kept. The times come
 * from a callback, so that nothing depends on the clock; kernels write what their configuration is, so that a test sees
 * which one ran. */
#include "unit/runtime/runtime_kit.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "import triton\nimport triton.language as tl\n\n"
#define CONFIGS "[triton.Config({'B': b}, num_warps=w) for b in (16, 32, 64) for w in (2, 4)]"

/* Adds up `add` and tells its block. */
#define KERNEL \
  "@triton.jit\ndef k(x, told, n, m, B: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n" \
  "    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)\n    tl.store(told, B)\n"

static const char plain[] = HEAD "@triton.autotune(configs=" CONFIGS ", key=['n'])\n" KERNEL;

enum { N = 100 };

typedef struct Fixture {
  nereid_device *d;
  float *x;
  int32_t *told;
  char cache[64];
  const double *times;  /* by configuration */
  int trials, compiled; /* what measure and static_print heard */
  int last_phase_of;
  bool end; /* progress ends it */
} Fixture;

static double measure(void *arg, int config, int trial) {
  Fixture *f = arg;
  f->trials++;
  return f->times[config] + trial % 3;
}

static bool watch(void *arg, const nereid_tune_progress *p) {
  Fixture *f = arg;
  f->last_phase_of = p->of;
  return !f->end;
}

static char compiled[400];

static int make_compiled(void **state) {
  const char *shared = getenv("NEREID_TEST_CACHE");
  snprintf(compiled, sizeof compiled, "%s", shared ? shared : "/tmp/nereid-test-tune-cpu-XXXXXX");
  if (!shared) assert_non_null(mkdtemp(compiled));
  else mkdir(shared, 0777);
  return 0;
}

static int remove_compiled(void **state) {
  char command[500];
  snprintf(command, sizeof command, "rm -rf '%s'", compiled);
  return getenv("NEREID_TEST_CACHE") ? 0 : system(command);
}

static int setup(void **state) {
  Fixture *f = calloc(1, sizeof *f);
  snprintf(f->cache, sizeof f->cache, "/tmp/nereid-test-tune-XXXXXX");
  assert_non_null(mkdtemp(f->cache));
  setenv("NEREID_CACHE_DIR", f->cache, 1);
  char own[100];
  snprintf(own, sizeof own, "%s/cpu", f->cache);
  assert_int_equal(symlink(compiled, own), 0); /* what the C compiler makes is made once for all tests */
  f->d = kit_device("cpu:2");
  assert_ok(nereid_alloc(f->d, N * sizeof *f->x, (void **)&f->x, NULL));
  assert_ok(nereid_alloc(f->d, sizeof *f->told, (void **)&f->told, NULL));
  memset(f->x, 0, N * sizeof *f->x);
  *state = f;
  return 0;
}

static char *tune_file(const Fixture *f) { /* the one file of winners; NULL: none */
  char dir[100];
  snprintf(dir, sizeof dir, "%s/tune", f->cache);
  DIR *open = opendir(dir);
  char *path = NULL;
  for (struct dirent *e; open && (e = readdir(open));)
    if (e->d_name[0] != '.') {
      assert_null(path);
      path = malloc(400);
      snprintf(path, 400, "%s/%s", dir, e->d_name);
    }
  if (open) closedir(open);
  return path;
}

static int teardown(void **state) {
  Fixture *f = *state;
  nereid_device_close(f->d);
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", f->cache);
  assert_int_equal(system(command), 0);
  free(f);
  return 0;
}

static nereid_module *load(const char *text) {
  nereid_module *m = NULL;
  nereid_error *error = NULL;
  if (nereid_module_load_string("t.py", text, &m, &error)) fail_msg("%s", nereid_error_text(error));
  return m;
}

static nereid_tune_options how_of(Fixture *f) {
  return (nereid_tune_options){
      .measure = measure, .measure_arg = f, .progress = watch, .progress_arg = f, .threads = 2};
}

/* Launches k(x, told, n, m) with the grid by expression; returns the block that it told. */
static int launch(Fixture *f, nereid_module *m, int n, int other) {
  nereid_tune_options how = how_of(f);
  nereid_options o = {.grid = "cdiv(n, B)", .tune = &how};
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->told, NEREID_I32), nereid_int(n),
                       nereid_int(other)};
  f->trials = 0;
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error));
  return *f->told;
}

/* ---- @triton.autotune -------------------------------------------------------------------------------------------- */

static const double second[] = {30e3, 30e3, 10e3, 10e3, 20e3, 20e3}, third[] = {30e3, 30e3, 20e3, 20e3, 10e3, 10e3};

static void the_fastest_is_launched(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(plain);
  f->times = second;
  assert_int_equal(launch(f, m, N, 7), 32);
  assert_true(f->trials >= 3 * 3);                       /* warps are nothing to a CPU: three different codes */
  for (int i = 0; i < N; i++) assert_true(f->x[i] == 1); /* in place: given back before each run, and launched once */
  f->times = third;
  assert_int_equal(launch(f, m, N, 7), 32);
  assert_int_equal(f->trials, 0);
  assert_int_equal(launch(f, m, N, 8), 32); /* m is not in the key */
  assert_int_equal(f->trials, 0);
  for (int i = 0; i < N; i++) assert_true(f->x[i] == 3);
  assert_int_equal(launch(f, m, N - 1, 7), 64); /* n is */
  assert_true(f->trials > 0);
  nereid_module_free(m);
}

static void winners_are_kept_on_disk(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(plain);
  f->times = second;
  assert_int_equal(launch(f, m, N, 7), 32);
  nereid_module_free(m);
  f->times = third;
  m = load(plain);
  assert_int_equal(launch(f, m, N, 7), 32);
  assert_int_equal(f->trials, 0);
  nereid_module_free(m);
  char *path = tune_file(f);
  assert_non_null(path);
  for (int damage = 0; damage < 3; damage++) { /* a byte, half of it, nothing of it */
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    FILE *file = fopen(path, "r+");
    if (!damage) fseek(file, 3, SEEK_SET), fputc('?', file);
    else assert_int_equal(ftruncate(fileno(file), damage == 1 ? st.st_size / 2 : 0), 0);
    fclose(file);
    f->times = damage % 2 ? second : third;
    m = load(plain);
    assert_int_equal(launch(f, m, N, 7), damage % 2 ? 32 : 64);
    assert_true(f->trials > 0);
    nereid_module_free(m);
  }
  m = load(plain); /* and was written anew */
  assert_int_equal(launch(f, m, N, 7), 64);
  assert_int_equal(f->trials, 0);
  nereid_module_free(m);
  m = load(HEAD "# another text\n@triton.autotune(configs=" CONFIGS ", key=['n'])\n" KERNEL);
  f->times = second;
  assert_int_equal(launch(f, m, N, 7), 32);
  assert_true(f->trials > 0);
  nereid_module_free(m);
  free(path);
}

static void no_place_for_winners_is_no_error(void **state) {
  Fixture *f = *state;
  char path[100];
  snprintf(path, sizeof path, "%s/file", f->cache);
  fclose(fopen(path, "w"));
  setenv("NEREID_CACHE_DIR", path, 1);
  nereid_module *m = load(plain);
  f->times = second;
  assert_int_equal(launch(f, m, N, 7), 32);
  assert_int_equal(launch(f, m, N, 8), 32);
  assert_int_equal(f->trials, 0); /* kept in memory */
  nereid_module_free(m);
}

static void element_types_are_in_the_key(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(plain);
  f->times = second;
  assert_int_equal(launch(f, m, N, 7), 32);
  nereid_tune_options how = how_of(f);
  nereid_options o = {.grid = "cdiv(n, B)", .tune = &how};
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_I32), nereid_pointer(f->told, NEREID_I32), nereid_int(N),
                       nereid_int(7)};
  f->times = third, f->trials = 0;
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error));
  assert_int_equal(*f->told, 64);
  assert_true(f->trials > 0);
  nereid_module_free(m);
}

static void launches_without_programs_decide_nothing(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(plain);
  nereid_tune_options how = how_of(f);
  nereid_options o = {.grid = "cdiv(n, B) * min(m, 1)", .tune = &how};
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->told, NEREID_I32), nereid_int(N),
                       nereid_int(0)};
  nereid_function *function;
  f->times = second, f->trials = 0, *f->told = 1;
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error));
  assert_ok(nereid_launch(f->d, NULL, m, "k", (int64_t[]){0, 1, 1}, args, 4, &o, &error));
  assert_ok(nereid_compile(f->d, m, "k", args, 4, &o, &function, &error));
  assert_ok(nereid_run(function, NULL, NULL, args, 4, &error));
  nereid_function_free(function);
  assert_int_equal(*f->told, 1);
  assert_int_equal(f->trials, 0);
  assert_null(tune_file(f));
  o.grid = "cdiv(n, B)"; /* what is found later for the same arguments stands */
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error));
  assert_int_equal(*f->told, 32);
  assert_true(f->trials > 0);
  int best;
  nereid_tune_result result;
  const nereid_config config = {.num_warps = 4};
  assert_error(nereid_tune(f->d, m, "k", (int64_t[]){1, 0, 1}, args, 4, &o, &config, 1, &how, &result, &best, &error),
               NEREID_BAD_ARGUMENT,
               "error: the grid is empty: there is nothing to measure\n  hint: give a grid with programs\n");
  nereid_module_free(m);
}

static void what_is_in_place_by_two_names_is_given_back(void **state) {
  Fixture *f = *state;
  nereid_module *m =
      load(HEAD "@triton.autotune(configs=" CONFIGS ", key=['n'])\n"
                "@triton.jit\ndef k(x, y, n, B: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n"
                "    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)\n");
  nereid_tune_options how = how_of(f);
  nereid_options o = {.grid = "cdiv(n, B)", .tune = &how};
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->x, NEREID_F32), nereid_int(N)};
  f->times = second;
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 3, &o, &error));
  assert_true(f->trials > 0);
  for (int i = 0; i < N; i++) assert_true(f->x[i] == 1);
  args[0] = nereid_pointer(f->x + N / 2, NEREID_F32), args[2] = nereid_int(N / 2);
  f->trials = 0;
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 3, &o, &error));
  assert_true(f->trials > 0);
  /* beside each other: the upper half is only read */
  for (int i = 0; i < N; i++) assert_true(f->x[i] == (i < N / 2 ? 2 : 1));
  nereid_module_free(m);
}

static void who_has_chosen_is_not_tuned(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(plain);
  f->times = second;
  nereid_tune_options how = how_of(f);
  nereid_options o = {.grid = "cdiv(n, B)", .tune = &how};
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->told, NEREID_I32), nereid_int(N),
                       nereid_int(7), nereid_named(nereid_constexpr_int(64), "B")};
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 5, &o, &error));
  assert_int_equal(*f->told, 64);
  o.no_autotune = true;
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error));
  assert_int_equal(*f->told, 16);
  assert_int_equal(f->trials, 0);
  setenv("NEREID_AUTOTUNE", "0", 1);
  nereid_device *other = kit_device("cpu");
  unsetenv("NEREID_AUTOTUNE");
  o.no_autotune = false;
  assert_ok(nereid_launch(other, NULL, m, "k", NULL, args, 4, &o, &error));
  assert_int_equal(*f->told, 16);
  nereid_device_close(other);
  other = kit_device("interp");
  assert_ok(nereid_register(other, f->x, N * sizeof *f->x, "x", &error));
  assert_ok(nereid_register(other, f->told, sizeof *f->told, "told", &error));
  o.allow_unwritten = true;
  assert_ok(nereid_launch(other, NULL, m, "k", NULL, args, 4, &o, &error));
  assert_int_equal(*f->told, 16);
  assert_int_equal(f->trials, 0);
  nereid_device_close(other);
  assert_null(tune_file(f));
  nereid_module_free(m);
}

/* A grid of numbers was made for one block: it stays. */
static void numeric_grids_keep_the_parameters(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(plain);
  f->times = second;
  nereid_tune_options how = how_of(f);
  nereid_options o = {.tune = &how};
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->told, NEREID_I32), nereid_int(N),
                       nereid_int(7)};
  assert_ok(nereid_launch(f->d, NULL, m, "k", (int64_t[]){7, 1, 1}, args, 4, &o, &error));
  assert_int_equal(*f->told, 16);
  assert_int_equal(launch(f, m, N, 7), 32); /* another kind of launch */
  assert_ok(nereid_launch(f->d, NULL, m, "k", (int64_t[]){7, 1, 1}, args, 4, &o, &error));
  assert_int_equal(*f->told, 16);
  o.grid = "never looked at";
  assert_ok(nereid_launch(f->d, NULL, m, "k", (int64_t[]){7, 1, 1}, args, 4, &o, &error));
  assert_int_equal(*f->told, 16);
  o.grid = NULL;
  assert_error(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error), NEREID_BAD_ARGUMENT,
               "error: the grid is NULL\n");
  o.grid = "cdiv(n, BLOK), 1";
  nereid_error *error = NULL;
  assert_int_equal(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error), NEREID_BAD_ARGUMENT);
  assert_non_null(strstr(nereid_error_text(error), "'BLOK' is not known"));
  nereid_error_free(error);
  nereid_module_free(m);
}

static void functions_take_the_winner(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(plain);
  nereid_function *fn = NULL;
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->told, NEREID_I32), nereid_int(N),
                       nereid_int(7)};
  nereid_tune_options how = how_of(f);
  nereid_options o = {.tune = &how};
  f->times = second;
  assert_ok(nereid_compile(f->d, m, "k", args, 4, &o, &fn, &error)); /* no grid: nothing can be measured */
  assert_int_equal(f->trials, 0);
  assert_ok(nereid_run(fn, NULL, (int64_t[]){1, 1, 1}, args, 4, &error));
  assert_int_equal(*f->told, 16);
  nereid_function_free(fn);
  char grid_text[] = "cdiv(n, B)";
  o.grid = grid_text;
  assert_ok(nereid_compile(f->d, m, "k", args, 4, &o, &fn, &error));
  grid_text[0] = '?'; /* the function has its own */
  assert_true(f->trials > 0);
  assert_string_equal(nereid_function_config(fn), "B=32\nnum_warps=2\nnum_stages=3\nnum_ctas=1\n");
  int64_t grid[3];
  assert_ok(nereid_function_grid(fn, args, 4, grid, &error));
  assert_true(grid[0] == 4 && grid[1] == 1 && grid[2] == 1);
  memset(f->x, 0, N * sizeof *f->x);
  assert_ok(nereid_run(fn, NULL, NULL, args, 4, &error));
  assert_ok(nereid_run(fn, NULL, grid, args, 4, &error));
  for (int i = 0; i < N; i++) assert_true(f->x[i] == 2);
  nereid_function_free(fn);
  nereid_cost c; /* counts the same configuration */
  o.grid = "cdiv(n, B)";
  assert_ok(nereid_launch_cost(f->d, m, "k", grid, args, 4, &o, &c, &error));
  assert_int_equal(c.load_bytes, 4 * N);
  nereid_module_free(m);
}

static void failing_configurations_lose(void **state) {
  Fixture *f = *state;
  /* not a power of two; a static assert; a run that asserts */
  nereid_module *m =
      load(HEAD "@triton.autotune(configs=[triton.Config({'B': b}) for b in (1000, 8, 64, 16)], key=[])\n@triton.jit\n"
                "def k(x, told, n, m, B: tl.constexpr):\n    tl.static_assert(B != 8)\n    i = tl.program_id(0) * B + "
                "tl.arange(0, B)\n"
                "    tl.device_assert(n * 0 + B != 64)\n    tl.store(x + i, 1.0, mask=i < n)\n    tl.store(told, B)\n");
  static const double times[] = {1, 1, 1, 5000};
  f->times = times;
  nereid_tune_options how = how_of(f);
  nereid_options o = {.grid = "cdiv(n, B)", .tune = &how, .debug = true};
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->told, NEREID_I32), nereid_int(N),
                       nereid_int(7)};
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error));
  assert_int_equal(*f->told, 16);
  nereid_module_free(m);
  m = load(HEAD "@triton.autotune(configs=[triton.Config({'B': b}) for b in (1000, 3)], key=[])\n" KERNEL);
  nereid_error *error = NULL;
  assert_int_equal(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error), NEREID_BAD_ARGUMENT);
  assert_non_null(strstr(nereid_error_text(error), "none of 2 configurations could be measured; number 1: "));
  nereid_error_free(error);
  nereid_module_free(m);
}

#define GATHER \
  "@triton.jit\ndef k(x, told, n, m, B: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n" \
  "    tl.atomic_add(x + i % 4, 1.0, mask=i < n)\n    tl.store(told, B)\n"

static void arrays_are_reset_and_restored(void **state) {
  Fixture *f = *state;
  static const char *const guards[] = {"reset_to_zero=['x']", "restore_value=['x']", "",
                                       "pre_hook=lambda args, reset_only=False: args['x'].zero_()"};
  /* zeroed by the trials, as in Triton; as before */
  static const float begin[] = {5, 5, 5, 5}, want[] = {25, 30, 30, 25};
  f->times = third;
  for (int k = 0; k < 4; k++) {
    char text[1000];
    snprintf(text, sizeof text, "%s@triton.autotune(configs=%s, key=['n'], %s)\n%s", HEAD, CONFIGS, guards[k], GATHER);
    nereid_module *m = load(text);
    for (int i = 0; i < N; i++) f->x[i] = begin[k];
    assert_int_equal(launch(f, m, N, 7), 64);
    for (int i = 0; i < 4; i++) assert_true(f->x[i] == want[k]);
    assert_int_equal(launch(f, m, N, 7), 64); /* warm: nothing is zeroed */
    for (int i = 0; i < 4; i++) assert_true(f->x[i] == want[k] + 25);
    nereid_module_free(m);
  }
}

static void unknown_ends_are_errors(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(HEAD "@triton.autotune(configs=" CONFIGS ", key=['n'], reset_to_zero=['x'])\n" GATHER);
  float own[N] = {0};
  nereid_tune_options how = how_of(f);
  nereid_options o = {.grid = "cdiv(n, B)", .tune = &how};
  nereid_arg args[] = {nereid_pointer(own, NEREID_F32), nereid_pointer(f->told, NEREID_I32), nereid_int(N),
                       nereid_int(7)};
  f->times = third;
  nereid_error *error = NULL;
  assert_int_equal(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error), NEREID_BAD_ARGUMENT);
  assert_non_null(strstr(nereid_error_text(error),
                         "autotune is to zero 'x' of kernel 'k', but where that array ends is not known"));
  assert_non_null(strstr(nereid_error_text(error), "nereid_arg.bytes"));
  nereid_error_free(error);
  error = NULL;
  args[0].bytes = sizeof own;
  own[N - 1] = 3;
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error));
  assert_true(own[0] == 25 && own[N - 1] == 0);
  nereid_module_free(m);
}

static void hooks_of_configurations_are_run(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(HEAD "def zero(name):\n    return lambda nargs: nargs[name].zero_()\n"
                               "@triton.autotune(configs=[triton.Config({'B': 16}), triton.Config({'B': 32}, "
                               "pre_hook=zero('x'))], key=['n'])\n" GATHER);
  static const double times[] = {9e3, 5e3};
  f->times = times;
  for (int turn = 0; turn < 3; turn++) { /* each launch of the second configuration begins with zeros */
    assert_int_equal(launch(f, m, N, 7), 32);
    for (int i = 0; i < 4; i++) assert_true(f->x[i] == 25);
  }
  nereid_module_free(m);
  m = load(
      HEAD
      "def blocks(nargs):\n    if not isinstance(nargs['d'], dict):\n        nargs['d'].block_shape = [nargs['R'], 8]\n"
      "@triton.autotune(configs=[triton.Config({'R': r}, pre_hook=blocks) for r in (2, 4)], key=[])\n@triton.jit\n"
      "def k(d, told, R: tl.constexpr):\n    t = d.load([0, 0])\n    tl.store(told, t.shape[0] * 100 + R)\n");
  nereid_arg d = {.kind = NEREID_ARG_DESCRIPTOR,
                  .dtype = NEREID_F32,
                  .pointer = f->x,
                  .rank = 2,
                  .shape = {8, 8},
                  .strides = {8, 1},
                  .block_shape = {1, 1}};
  nereid_arg args[] = {d, nereid_pointer(f->told, NEREID_I32)};
  nereid_tune_options how = how_of(f);
  nereid_options o = {.grid = "1", .tune = &how};
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 2, &o, &error));
  assert_int_equal(*f->told, 404);
  nereid_module_free(m);
  m = load(HEAD "@triton.autotune(configs=[triton.Config({'B': b}, pre_hook=lambda nargs: nargs['x'].fill_(1)) for b "
                "in (16, 32)], key=[])\n" GATHER);
  nereid_arg plain_args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->told, NEREID_I32), nereid_int(N),
                             nereid_int(7)};
  nereid_error *error = NULL;
  assert_int_not_equal(nereid_launch(f->d, NULL, m, "k", NULL, plain_args, 4, &o, &error), NEREID_OK);
  assert_non_null(strstr(nereid_error_text(error), "pre_hook of a configuration of k cannot be evaluated"));
  assert_non_null(strstr(nereid_error_text(error), "fill_"));
  nereid_error_free(error);
  nereid_module_free(m);
}

static void configurations_are_pruned(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(
      HEAD
      "def early(configs, named_args, **kwargs):\n    keep = [c for c in configs if c.kwargs['B'] * 2 <= "
      "named_args['m'] and c.num_warps == 4 and named_args['x'].element_size() == 4]\n"
      "    return keep or configs[:1]\n"
      "def model(x, n, B, num_warps, num_stages, **kwargs):\n    return 1000 / B + num_warps + (x.dtype == 'f16')\n"
      "@triton.autotune(configs=" CONFIGS
      ", key=['m'], prune_configs_by={'early_config_prune': early, 'perf_model': model, 'top_k': 1})\n" KERNEL);
  f->times = second;
  assert_int_equal(launch(f, m, N, 64), 32); /* 16 and 32 are left, the model likes 32: nothing to measure */
  assert_int_equal(f->trials, 0);
  assert_int_equal(launch(f, m, N, 32), 16);
  assert_int_equal(launch(f, m, N, 200), 64);
  nereid_module_free(m);
  m = load(HEAD "import torch\ndef early(configs, named_args):\n    return [c for c in configs if "
                "torch.cuda.get_device_properties(0).total_memory > c.kwargs['B']]\n"
                "@triton.autotune(configs=" CONFIGS
                ", key=['m'], prune_configs_by={'early_config_prune': early})\n" KERNEL);
  nereid_tune_options how = how_of(f);
  nereid_options o = {.grid = "cdiv(n, B)", .tune = &how};
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->told, NEREID_I32), nereid_int(N),
                       nereid_int(7)};
  nereid_error *error = NULL;
  assert_int_equal(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error), NEREID_BAD_SOURCE);
  assert_non_null(strstr(nereid_error_text(error),
                         "early_config_prune of k cannot be evaluated: torch.cuda.get_device_properties"));
  nereid_error_free(error);
  nereid_module_free(m);
}

static void heuristics_follow_the_configuration(void **state) {
  Fixture *f = *state;
  nereid_module *m =
      load(HEAD "@triton.autotune(configs=[triton.Config({'B': b}) for b in (16, 32)], "
                "key=['n'])\n@triton.heuristics({'T': lambda args: args['B'] * 10 + (args['n'] % args['B'] == 0)})\n"
                "@triton.jit\ndef k(x, told, n, m, B: tl.constexpr, T: tl.constexpr):\n    tl.store(told, T)\n");
  static const double times[] = {9e3, 5e3};
  f->times = times;
  assert_int_equal(launch(f, m, 96, 7), 321);
  assert_int_equal(launch(f, m, 97, 7), 320);
  nereid_module_free(m);
}

/* What decorators look at decides which launches are alike: a function compiled for one value of a number takes another
 * unless they read it. */
static void numbers_that_nobody_reads_may_change(void **state) {
  Fixture *f = *state;
#define ONE "[triton.Config({'B': 16}), triton.Config({'B': 32})]"
#define TUNED(more) "@triton.autotune(configs=" ONE ", " more ")\n"
#define GUESS(body) "@triton.heuristics({'B': " body "})\n"
  static const struct Case {
    const char *above, *read;
    bool untuned;
  } cases[] = {
      {TUNED("key=[]"), ""},
      {TUNED("key=['n']"), "n"},
      {TUNED("key=['n']"), "", true}, /* nothing is chosen by the key */
      {"@other(1)\n" TUNED("key=('n', 'm')"), "nm"},
      {TUNED("key=[], pre_hook=lambda nargs, reset_only=False: None"), ""},
      {TUNED("key=[], pre_hook=lambda nargs: nargs['m'] + 1"), "m"},
      {"@triton.autotune(configs=[triton.Config({'B': 16}, pre_hook=lambda nargs: nargs['n'])], key=[])\n", "n"},
      {"@triton.autotune(configs=[triton.Config({'B': 16, 'm': 7}), triton.Config({'B': 32, 'm': 8})], key=[])\n", "m"},
      {TUNED("key=[], prune_configs_by={'early_config_prune': early}"), "m"},
      {TUNED("key=[], prune_configs_by={'perf_model': model, 'top_k': 1}"), "n"},
      {TUNED("key=[], prune_configs_by={'perf_model': lambda **all: 1, 'top_k': 1}"), "nm"},
      {GUESS("lambda args: 16"), ""},
      {GUESS("lambda args: 16 if args['n'] > 5 else 32"), "n"},
      {GUESS("lambda _: 16 if _.get('m', 3) > 5 else 32"), "m"},
      {GUESS("lambda args: helper(args)"), "nm"},
      {GUESS("lambda args: 16 if sum(1 for a in args) else 32"), "nm"},
      {GUESS("lambda args: 16 if args['n' + ''] else 32"), "nm"},
      {GUESS("helper"), "n"},
      {GUESS("renaming"), "nm"},
      {"@triton.heuristics(table)\n", "m"},
      {TUNED("key=['n']") "@triton.heuristics({'T': lambda args: args['B'] + args['m']})\n", "nm"},
      {"", ""},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[2000];
    snprintf(
        text, sizeof text,
        HEAD
        "def helper(args):\n    return 16 if args['n'] else 32\n\ndef renaming(args):\n    a = args\n    return 16 if "
        "a['n'] else 32\n\n"
        "def early(configs, nargs, **rest):\n    return configs[:1 + nargs['m'] %% 2]\n\ndef model(B, n, num_warps):\n "
        "   return B + n\n\ntable = {'B': lambda a: 16 + 16 * (a['m'] > 100)}\n\n"
        "%s@triton.jit\ndef k(x, told, n, m, B: tl.constexpr%s, T: tl.constexpr = 0):\n    tl.store(told, n + m)\n",
        cases[i].above, *cases[i].above ? "" : " = 16");
    nereid_module *m = load(text);
    static const double times[] = {9e3, 5e3};
    f->times = times;
    nereid_tune_options how = how_of(f);
    nereid_options o = {.grid = "cdiv(4, B)", .tune = &how, .no_autotune = cases[i].untuned};
    nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->told, NEREID_I32), nereid_int(N),
                         nereid_int(7)};
    nereid_function *function;
    assert_ok(nereid_compile(f->d, m, "k", args, 4, &o, &function, &error));
    for (int turn = 0; turn < 4; turn++) { /* with a grid that must be found, and on the short way */
      int at = 2 + turn % 2;
      const nereid_arg was = args[at];
      args[at].i += 2;
      const int64_t one[3] = {1, 1, 1};
      nereid_error *error = NULL;
      nereid_status status = nereid_run(function, NULL, turn < 2 ? NULL : one, args, 4, &error);
      bool is_read = strchr(cases[i].read, at == 2 ? 'n' : 'm') != NULL;
      if (status != (is_read ? NEREID_BAD_ARGUMENT : NEREID_OK))
        fail_msg("%s: %c is %sread: %s", cases[i].above, at == 2 ? 'n' : 'm', is_read ? "" : "not ",
                 nereid_error_text(error));
      if (is_read) {
        char want[100];
        snprintf(want, sizeof want, "parameter '%c' of kernel 'k' does not specialise as it did", at == 2 ? 'n' : 'm');
        assert_non_null(strstr(nereid_error_text(error), want));
        nereid_error_free(error);
        error = NULL;
      } else {
        /* the value itself is passed, not what it was compiled with */
        assert_int_equal(*f->told, args[2].i + args[3].i);
      }
      args[at] = was;
      assert_ok(nereid_run(function, NULL, turn < 2 ? NULL : one, args, 4, &error));
      assert_int_equal(*f->told, N + 7);
    }
    nereid_function_free(function);
    nereid_module_free(m);
  }
}

typedef struct Thread {
  Fixture *f;
  nereid_module *m;
  pthread_t id;
  int told;
} Thread;
static double count_trials(void *arg, int config, int trial) {
  return __atomic_add_fetch(&((Fixture *)arg)->compiled, 1, __ATOMIC_SEQ_CST), second[config];
}
static void *first_launch(void *arg) {
  Thread *t = arg;
  int32_t *told;
  float *x;
  nereid_alloc(t->f->d, sizeof *told, (void **)&told, NULL), nereid_alloc(t->f->d, N * sizeof *x, (void **)&x, NULL);
  nereid_tune_options how = {.measure = count_trials, .measure_arg = t->f, .threads = 1};
  nereid_options o = {.grid = "cdiv(n, B)", .tune = &how};
  nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_pointer(told, NEREID_I32), nereid_int(N),
                       nereid_int(t->told)};
  if (!nereid_launch(t->f->d, NULL, t->m, "k", NULL, args, 4, &o, NULL)) t->told = *told;
  nereid_free(t->f->d, told), nereid_free(t->f->d, x);
  return NULL;
}

static void threads_tune_once(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(plain);
  Thread t[6];
  for (int i = 0; i < 6; i++)
    t[i] = (Thread){f, m, 0, 5 + i / 2}, assert_int_equal(pthread_create(&t[i].id, NULL, first_launch, &t[i]), 0);
  for (int i = 0; i < 6; i++) pthread_join(t[i].id, NULL), assert_int_equal(t[i].told, 32);
  int once = f->compiled;
  nereid_module_free(m);
  f->times = second;
  assert_true(once > 0 && once <= 6 * 110); /* one race, not six */
  m = load(plain);
  assert_int_equal(launch(f, m, N, 9), 32);
  assert_int_equal(f->trials, 0);
  nereid_module_free(m);
}

/* ---- nereid_tune ------------------------------------------------------------------------------------------------- */

static const char bare[] =
    HEAD "@triton.jit\ndef k(x, told, n, m, B: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n"
         "    if B == 128:\n        tl.store(x + i, 2.0, mask=i < n)\n    else:\n        tl.store(x + i, 3.0, mask=i < "
         "n)\n    tl.store(told, B)\n";

typedef struct Tuning {
  nereid_arg set[5];
  nereid_config configs[5];
  nereid_tune_result results[5];
  int best;
} Tuning;
static nereid_status tune(Fixture *f, nereid_module *m, Tuning *t, nereid_tune_options how, nereid_error **error) {
  static const char *const values[] = {"16", "32", "128", "48", "64"};
  for (int i = 0; i < 5; i++)
    t->set[i] = nereid_named(nereid_constexpr(values[i]), "B"),
    t->configs[i] = (nereid_config){.args = &t->set[i], .arg_count = 1, .num_warps = 2};
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->told, NEREID_I32), nereid_int(N),
                       nereid_int(7)};
  static const char *const told[] = {"told"};
  how.ignore = told, how.ignore_count = 1;
  nereid_options o = {.grid = "cdiv(n, B)"};
  return nereid_tune(f->d, m, "k", NULL, args, 4, &o, t->configs, 5, &how, t->results, &t->best, error);
}

static void the_space_is_searched(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(bare);
  static const double times[] = {50e3, 20e3, 1, 1, 20.1e3};
  f->times = times;
  Tuning t;
  assert_ok(tune(f, m, &t, how_of(f), &error));
  assert_int_equal(t.best, 1);
  assert_int_equal(t.results[0].state, NEREID_TUNE_DROPPED);
  assert_int_equal(t.results[0].times.count, 6);
  assert_int_equal(t.results[1].state, NEREID_TUNE_MEASURED);
  assert_int_equal(t.results[1].times.count, 100);
  assert_int_equal(t.results[2].state, NEREID_TUNE_WRONG);
  assert_string_equal(t.results[2].why, "x: 100 of 100 elements differ from the first configuration's");
  assert_int_equal(t.results[3].state, NEREID_TUNE_FAILED);
  assert_int_equal(t.results[4].state, NEREID_TUNE_MEASURED); /* too near to be dropped */
  assert_int_equal(t.results[1].grid[0], 4);
  assert_null(tune_file(f)); /* not asked to keep */
  nereid_tune_options all = how_of(f);
  all.exhaustive = true, all.repeat = 7, all.unchecked = true;
  assert_ok(tune(f, m, &t, all, &error));
  assert_int_equal(t.best, 2); /* nobody looked at what it writes */
  assert_int_equal(t.results[0].state, NEREID_TUNE_MEASURED);
  assert_int_equal(t.results[0].times.count, 7);
  nereid_module_free(m);
}

static void ended_searches_tell_what_they_know(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(bare);
  static const double times[] = {50e3, 20e3, 1, 1, 20.1e3};
  f->times = times;
  Tuning t;
  f->end = true;
  nereid_error *error = NULL;
  assert_int_not_equal(tune(f, m, &t, how_of(f), &error), NEREID_OK);
  assert_non_null(strstr(nereid_error_text(error), "none of 5 configurations was measured: tuning was ended"));
  nereid_error_free(error);
  assert_int_equal(t.best, -1);
  for (int i = 0; i < 5; i++) assert_int_equal(t.results[i].state, NEREID_TUNE_NOT_REACHED);
  f->end = false;
  nereid_tune_options none = how_of(f);
  none.budget_s = 1e-9;
  error = NULL;
  assert_int_not_equal(tune(f, m, &t, none, &error), NEREID_OK);
  assert_non_null(strstr(nereid_error_text(error), "within the time"));
  nereid_error_free(error);
  nereid_module_free(m);
}

static void launches_take_what_was_kept(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(bare);
  static const double times[] = {50e3, 20e3, 1, 1, 30e3};
  f->times = times;
  nereid_options o = {.grid = "cdiv(n, B)"};
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->told, NEREID_I32), nereid_int(N),
                       nereid_int(7)};
  const char *missing = "error: parameter 'B' of kernel 'k' (5 of 5) is missing\n  hint: it is a constexpr: pass a "
                        "number, or nereid_constexpr with a Python expression\n";
  assert_error(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error), NEREID_BAD_ARGUMENT, missing);
  nereid_tune_options how = how_of(f);
  how.keep = true;
  Tuning t;
  assert_ok(tune(f, m, &t, how, &error));
  for (int turn = 0; turn < 2; turn++) {
    assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error));
    assert_int_equal(*f->told, 32);
    nereid_function *fn = NULL;
    assert_ok(nereid_compile(f->d, m, "k", args, 4, &o, &fn, &error));
    assert_string_equal(nereid_function_config(fn), "B=32\nnum_warps=2\nnum_stages=3\nnum_ctas=1\n");
    assert_ok(nereid_run(fn, NULL, NULL, args, 4, &error));
    nereid_function_free(fn);
    nereid_module_free(m);
    m = load(bare); /* and from the disk */
  }
  args[2] = nereid_int(N - 1); /* other numbers: not tuned */
  assert_error(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error), NEREID_BAD_ARGUMENT, missing);
  args[2] = nereid_int(N);
  /* for which block was that grid? */
  assert_error(nereid_launch(f->d, NULL, m, "k", (int64_t[]){4, 1, 1}, args, 4, NULL, &error), NEREID_BAD_ARGUMENT,
               missing);
  o.no_autotune = true;
  assert_error(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error), NEREID_BAD_ARGUMENT, missing);
  nereid_module_free(m);
}

static void wrong_questions_get_errors(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(bare);
  nereid_config c = {.num_warps = 2};
  nereid_tune_result r;
  int best;
  nereid_device *interp = kit_device("interp");
  assert_error(nereid_tune(NULL, m, "k", NULL, NULL, 0, NULL, &c, 1, NULL, &r, &best, &error), NEREID_BAD_ARGUMENT,
               "error: nereid_tune: the device is NULL\n");
  assert_error(nereid_tune(f->d, m, "k", NULL, NULL, 0, NULL, &c, 0, NULL, &r, &best, &error), NEREID_BAD_ARGUMENT,
               "error: nereid_tune: 0 configurations, or where results go is NULL\n");
  assert_error(nereid_tune(interp, m, "k", NULL, NULL, 0, NULL, &c, 1, NULL, &r, &best, &error), NEREID_UNSUPPORTED,
               "error: the device interp does not measure\n  hint: tune on cpu or cuda\n");
  nereid_arg nameless = nereid_constexpr("3");
  c = (nereid_config){.args = &nameless, .arg_count = 1};
  assert_error(nereid_tune(f->d, m, "k", NULL, NULL, 0, NULL, &c, 1, NULL, &r, &best, &error), NEREID_BAD_ARGUMENT,
               "error: nereid_tune: argument 0 of configuration 0 has no name\n  hint: name it with nereid_named\n");
  nereid_tune_options how = {.repeat = 5000};
  c = (nereid_config){0};
  assert_error(nereid_tune(f->d, m, "k", NULL, NULL, 0, NULL, &c, 1, &how, &r, &best, &error), NEREID_BAD_ARGUMENT,
               "error: nereid_tune: repeat 5000, budget_s 0 make no sense\n  hint: 0 asks for the usual ones\n");
  nereid_device_close(interp);
  nereid_module_free(m);
}

/* By the clock, whoever wins: nothing is measured twice, and arrays are as they were. */
static void real_trials(void **state) {
  Fixture *f = *state;
  nereid_module *m = load(plain);
  nereid_arg args[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->told, NEREID_I32), nereid_int(N),
                       nereid_int(7)};
  nereid_options o = {.grid = "cdiv(n, B)"};
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error));
  for (int i = 0; i < N; i++) assert_true(f->x[i] == 1);
  int told = *f->told;
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error));
  assert_int_equal(*f->told, told);
  nereid_tune_options cold = {.caches = NEREID_CACHES_COLD, .repeat = 2};
  o.tune = &cold, args[2] = nereid_int(N / 2);
  assert_ok(nereid_launch(f->d, NULL, m, "k", NULL, args, 4, &o, &error));
  nereid_module_free(m);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {TEST(the_fastest_is_launched),
                                     TEST(winners_are_kept_on_disk),
                                     TEST(no_place_for_winners_is_no_error),
                                     TEST(element_types_are_in_the_key),
                                     TEST(launches_without_programs_decide_nothing),
                                     TEST(what_is_in_place_by_two_names_is_given_back),
                                     TEST(who_has_chosen_is_not_tuned),
                                     TEST(numeric_grids_keep_the_parameters),
                                     TEST(functions_take_the_winner),
                                     TEST(failing_configurations_lose),
                                     TEST(arrays_are_reset_and_restored),
                                     TEST(unknown_ends_are_errors),
                                     TEST(hooks_of_configurations_are_run),
                                     TEST(configurations_are_pruned),
                                     TEST(heuristics_follow_the_configuration),
                                     TEST(numbers_that_nobody_reads_may_change),
                                     TEST(threads_tune_once),
                                     TEST(the_space_is_searched),
                                     TEST(ended_searches_tell_what_they_know),
                                     TEST(launches_take_what_was_kept),
                                     TEST(wrong_questions_get_errors),
                                     TEST(real_trials)};
  return cmocka_run_group_tests(tests, make_compiled, remove_compiled);
}
