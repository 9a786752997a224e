/* Launches of one kernel over and over (runtime/cuda/graph_replay.c), against a driver that is not there: what a graph
 * launches is what a plain launch would have, and what may not go through a graph does not. */
#define _GNU_SOURCE
#include "gpu/gpu.h" /* before cmocka, whose `fail` is a macro */

#include "test_cuda_kit.h"

enum { PLAIN = 32, ASKED = 16 }; /* launches before a stream's kernel gets its graph; until the stream is asked again */

typedef struct Run {
  nereid_function *fn;
  nereid_stream *s;
  float *x, *y, *out;
} Run;

static Run begin(Fixture *f) {
  Run r = {0};
  fake->capture_params = 4;
  float x[8], y[8];
  for (int i = 0; i < 8; i++) x[i] = (float)i, y[i] = 100;
  assert_ok(nereid_copy_to_device(f->d, f->p[0], x, sizeof x, &error));
  assert_ok(nereid_copy_to_device(f->d, f->p[1], y, sizeof y, &error));
  assert_ok(nereid_stream_create(f->d, &r.s, &error));
  assert_ok(nereid_compile(f->d, f->m, "add", f->add, 4, &f->block, &r.fn, &error));
  return r;
}
static void end(Run *r) {
  nereid_function_free(r->fn);
  nereid_stream_destroy(r->s);
}

/* One launch: 1 when a graph did it, and the device's memory holds what it must. */
static int launch(Fixture *f, nereid_function *fn, nereid_stream *s, int count, int64_t grid) {
  nereid_arg args[4];
  memcpy(args, f->add, sizeof args);
  args[3] = nereid_int(count);
  float out[8], zero[8] = {0};
  int graphs = fake->graph_launches, launches = fake->launches;
  assert_ok(nereid_copy_to_device(f->d, f->p[2], zero, sizeof zero, &error));
  assert_ok(nereid_run(fn, s, (const int64_t[]){grid, 1, 1}, args, 4, &error));
  assert_int_equal(fake->graph_launches - graphs + fake->launches - launches, 1);
  assert_int_equal(fake->last_grid[0], grid);
  if (s) assert_ptr_equal(fake->last_stream, nereid_stream_native(s));
  assert_ok(nereid_copy_to_host(f->d, out, f->p[2], sizeof out, &error));
  for (int i = 0; i < 8; i++) assert_true(out[i] == (i < count ? (float)i + 100 : 0));
  return fake->graph_launches - graphs;
}
static int launches(Fixture *f, nereid_function *fn, nereid_stream *s, int n) {
  int graphs = 0;
  for (int i = 0; i < n; i++) graphs += launch(f, fn, s, 2 + i % 7, 1 + i % 5);
  return graphs;
}

static void test_arguments_and_grids(void **state) {
  Fixture *f = *state;
  Run r = begin(f);
  assert_int_equal(launches(f, r.fn, r.s, PLAIN), 0);
  assert_int_equal(launches(f, r.fn, r.s, 100), 100);
  assert_int_equal(fake->graph_execs, 1);
  int before = fake->calls; /* which context is current, whether the stream captures, the arguments, the launch */
  for (int i = 0; i < ASKED; i++) assert_ok(nereid_run(r.fn, r.s, one, f->add, 4, &error));
  assert_int_equal(fake->calls - before, 4 * ASKED + 3); /* whether it has work left, and the capture's mode, twice */
  assert_int_equal(launches(f, r.fn, NULL, PLAIN + 10), 10); /* the default stream has its own */
  assert_int_equal(fake->graph_execs, 2);
  assert_int_equal(fake->forbidden_in_capture, 0);
  end(&r);
}

/* Behind work that a stream has left a kernel is launched plainly, which the GPU runs sooner. */
static void test_stream_with_work(void **state) {
  Fixture *f = *state;
  Run r = begin(f);
  assert_int_equal(launches(f, r.fn, r.s, PLAIN + ASKED), ASKED);
  int queries = fake->stream_queries;
  fake->stream_busy = true;
  assert_int_equal(launches(f, r.fn, r.s, 5 * ASKED), 0);
  fake->stream_busy = false;
  assert_int_equal(launches(f, r.fn, r.s, 3 * ASKED), 3 * ASKED);
  assert_int_equal(fake->stream_queries - queries, 8);
  end(&r);
}

/* More streams than graphs: those that are used most lately have one. */
static void test_streams(void **state) {
  Fixture *f = *state;
  Run r = begin(f);
  nereid_stream *s[6];
  for (int i = 0; i < 6; i++) assert_ok(nereid_stream_create(f->d, &s[i], &error));
  for (int i = 0; i < 6; i++) assert_int_equal(launches(f, r.fn, s[i], PLAIN + 5), 5);
  assert_int_equal(fake->graph_execs, 4);
  assert_int_equal(launches(f, r.fn, s[5], 3), 3);
  assert_int_equal(launches(f, r.fn, s[0], 3), 0); /* it had to give its own away */
  for (int i = 0; i < 6; i++) nereid_stream_destroy(s[i]);
  end(&r);
}

/* A stream that captures gets kernels, not graphs; so also where the graph is due just then. */
static void test_capture(void **state) {
  Fixture *f = *state;
  Run r = begin(f);
  for (int due = 0; due < 2; due++) {
    if (due) assert_int_equal(launches(f, r.fn, r.s, 20), 20);
    else assert_int_equal(launches(f, r.fn, r.s, PLAIN), 0);
    nereid_graph *g = NULL;
    int graphs = fake->graph_launches, captured = fake->captured;
    assert_ok(nereid_graph_begin(f->d, r.s, &error));
    for (int i = 0; i < 3; i++) assert_ok(nereid_run(r.fn, r.s, one, f->add, 4, &error));
    assert_ok(nereid_graph_end(f->d, r.s, &g, &error));
    assert_int_equal(fake->captured - captured, 3);
    assert_int_equal(fake->graph_launches, graphs);
    nereid_graph_free(g);
    if (!due) assert_int_equal(launch(f, r.fn, r.s, 3, 1), 1);
  }
  assert_int_equal(fake->forbidden_in_capture, 0);
  end(&r);
}

/* A driver that cannot make them is asked once, and launches plainly. */
static void test_no_graphs(void **state) {
  static const char *const symbols[] = {"cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags"};
  Fixture *f = *state;
  for (int i = 0; i < 3; i++) {
    Run r = begin(f);
    assert_int_equal(launches(f, r.fn, r.s, PLAIN), 0);
    fake->fail.symbol = symbols[i], fake->fail.result = 801, fake->fail.after = 0;
    assert_int_equal(launches(f, r.fn, r.s, 3 * PLAIN), 0);
    assert_null(fake->fail.symbol);
    assert_int_equal(fake->graphs, 0);
    assert_int_equal(fake->graph_execs, 0);
    nereid_module_free(f->m); /* the next one is compiled anew */
    assert_ok(nereid_module_load_string("k.cu", text_cu, &f->m, &error));
    end(&r);
  }
}

/* What the driver says of such a launch is said as of any, and the next one works. */
static void test_failures(void **state) {
  static const char *const symbols[] = {"cuGraphExecKernelNodeSetParams_v2", "cuGraphLaunch"};
  Fixture *f = *state;
  Run r = begin(f);
  assert_int_equal(launches(f, r.fn, r.s, PLAIN + 1), 1);
  for (int i = 0; i < 2; i++) {
    fake->fail.symbol = symbols[i], fake->fail.result = 2, fake->fail.after = 0;
    assert_says(nereid_run(r.fn, r.s, one, f->add, 4, &error), NEREID_OUT_OF_MEMORY,
                "kernel 'add' cannot be launched with grid (1, 1, 1), block (128, 1, 1)");
    assert_int_equal(launches(f, r.fn, r.s, 2), 2);
  }
  end(&r);
}

static void test_switched_off(void **state) {
  static const char *const names[][2] = {
      {"NEREID_CUDA_REPEAT", "0"}, {"CUDA_INJECTION64_PATH", "/tools/libtool.so"}, {"NEREID_CUDA_BLOCKING", "1"}};
  for (int i = 0; i < 3; i++) {
    fresh(state);
    setenv(names[i][0], names[i][1], 1);
    void *mine = NULL;
    setup(&mine);
    if (i < 2) setenv(names[i][0], names[i][1], 1);
    Fixture *f = mine;
    nereid_device_close(f->d); /* setup begins with a clean environment: open again */
    setenv(names[i][0], names[i][1], 1);
    f->d = kit_device("cuda");
    for (int k = 0; k < 3; k++) assert_ok(nereid_alloc(f->d, 256, &f->p[k], &error));
    for (int k = 0; k < 3; k++) f->add[k] = nereid_pointer(f->p[k], NEREID_F32);
    Run r = begin(f);
    assert_int_equal(launches(f, r.fn, r.s, 2 * PLAIN), 0);
    end(&r);
    teardown(&mine);
    unsetenv(names[i][0]);
  }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static atomic_int added;
static int run_count(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  return atomic_fetch_add(&added, *(int *)p[0]), 0;
}

typedef struct Crowd {
  Fixture *f;
  nereid_function *fn;
  nereid_stream *s;
} Crowd;
static void *launch_many(void *arg) {
  Crowd *c = arg;
  for (int i = 1; i <= 500; i++) {
    nereid_arg n = nereid_int(i);
    if (nereid_run(c->fn, c->s, one, &n, 1, NULL)) return arg;
  }
  return NULL;
}

/* Each launch runs with its own arguments, whoever launches beside; two streams, so that graphs change hands, too. */
static void test_threads(void **state) {
  Fixture *f = *state;
  fake_kernel("quiet", run_count);
  Run r = begin(f);
  nereid_stream *other;
  nereid_arg n = nereid_int(7);
  nereid_function *quiet = NULL;
  assert_ok(nereid_stream_create(f->d, &other, &error));
  assert_ok(nereid_compile(f->d, f->m, "quiet", &n, 1, &f->block, &quiet, &error));
  atomic_store(&added, 0);
  fake->capture_params = 1;
  pthread_t threads[4];
  Crowd crowds[] = {{f, quiet, r.s}, {f, quiet, other}};
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, launch_many, &crowds[i % 2]), 0);
  for (int i = 0; i < 4; i++) {
    void *failed = NULL;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  assert_int_equal(atomic_load(&added), 4 * 500 * 501 / 2);
  assert_true(fake->graph_launches > 100);
  nereid_function_free(quiet);
  nereid_stream_destroy(other);
  end(&r);
}

static int run(void) {
  const struct CMUnitTest tests[] = {
      OPEN(test_arguments_and_grids), OPEN(test_stream_with_work), OPEN(test_streams), OPEN(test_capture),
      OPEN(test_no_graphs),           OPEN(test_failures),         OPEN(test_threads), ALONE(test_switched_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return cuda_tests(run); }
