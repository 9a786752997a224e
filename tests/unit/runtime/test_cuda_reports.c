/* The cuda device against a driver that is not there (fakes/cuda.c): Triton kernels, PTX of ours, and what comes back
 * from those that print, assert, or run some programs only. */
#define _GNU_SOURCE
#include "gpu/gpu.h" /* before cmocka, whose `fail` is a macro */

#include "test_cuda_kit.h"

/* As the kernel `talk` of the kit does it for program 2: its print is the first site, its assert the second. */
static int run_talk(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  int limit = *(int *)p[1];
  GpuDiag *d = *(GpuDiag **)p[2];
  const uint32_t print[7] = {1, 2, 0, 0, 0, 2, 0}, assert[5] = {2, 2, 0, 0, 0};
  memcpy(d->words + d->used, print, sizeof print);
  d->used += 7;
  if (2 >= limit) {
    memcpy(d->words + d->used, assert, sizeof assert);
    d->used += 5;
    d->failed++;
  }
  return 0;
}

static void test_reports(void **state) {
  Fixture *f = *state;
  nereid_module *m = kit_module();
  Lines lines = {0};
  nereid_options o = {.debug = true, .print = lines_print, .print_arg = &lines};
  nereid_arg args[] = {nereid_pointer(f->p[0], NEREID_F32), nereid_int(5)};
  fake_kernel("talk", run_talk);
  setenv("NEREID_PTXAS", "none", 1); /* the driver compiles */
  assert_ok(nereid_launch(f->d, NULL, m, "talk", (int64_t[]){3, 1, 1}, args, 2, &o, &error));
  assert_int_equal(fake->ptx_loaded, 1);
  assert_int_equal(fake->last_params, 3);
  assert_int_equal(lines.count, 0);
  assert_ok(nereid_synchronize(f->d, &error));
  assert_int_equal(lines.count, 1);
  assert_non_null(strstr(lines.text, "(2, 0, 0)"));
  assert_ok(nereid_synchronize(f->d, &error));
  assert_int_equal(lines.count, 1); /* said once */
  args[1] = nereid_int(2);
  assert_ok(nereid_launch(f->d, NULL, m, "talk", (int64_t[]){3, 1, 1}, args, 2, &o, &error));
  assert_says(nereid_stream_synchronize(f->d, NULL, &error), NEREID_KERNEL_FAULT, "p is too large");
  assert_int_equal(lines.count, 2);
  assert_ok(nereid_synchronize(f->d, &error)); /* a failed assert does not end the context */
  assert_ok(nereid_launch(f->d, NULL, m, "talk", (int64_t[]){3, 1, 1}, args, 2, &o, &error));
  nereid_module_free(m); /* what it said is kept */
  assert_int_equal(lines.count, 3);
  assert_says(nereid_synchronize(f->d, &error), NEREID_KERNEL_FAULT, "p is too large");
  m = kit_module();
  fake->fail.symbol = "cuLaunchKernel", fake->fail.result = 701;
  assert_says(nereid_launch(f->d, NULL, m, "talk", (int64_t[]){3, 1, 1}, args, 2, &o, &error), NEREID_BAD_ARGUMENT,
              "cannot be launched");
  nereid_module_free(m); /* a launch that failed leaves nothing to read */
  assert_ok(nereid_synchronize(f->d, &error));
  assert_int_equal(lines.count, 3);
  unsetenv("NEREID_PTXAS");
}

static uint32_t traps;
static int run_trapped(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  traps = (*(GpuDiag **)p[2])->traps;
  run_talk(p, grid, block, shared);
  return traps ? 719 : 0;
}

/* Who shares a context with others asks for a trap: the driver's error is theirs, what was asserted is still said. */
static void test_traps(void **state) {
  Fixture *f = *state;
  nereid_module *m = kit_module();
  Lines lines = {0};
  nereid_options o = {.size = sizeof o, .debug = true, .print = lines_print, .print_arg = &lines};
  nereid_arg args[] = {nereid_pointer(f->p[0], NEREID_F32), nereid_int(2)};
  fake_kernel("talk", run_trapped);
  setenv("NEREID_PTXAS", "none", 1);
  for (int traps_asked = 0; traps_asked < 2; traps_asked++) {
    o.trap_asserts = traps_asked;
    assert_ok(nereid_launch(f->d, NULL, m, "talk", (int64_t[]){3, 1, 1}, args, 2, &o, &error));
    assert_int_equal(traps, traps_asked);
    assert_says(nereid_synchronize(f->d, &error), NEREID_KERNEL_FAULT, "p is too large");
    assert_int_equal(lines.count, traps_asked + 1);
    assert_int_equal(fake->sticky, traps_asked ? 719 : 0);
  }
  fake->sticky = 0;
  nereid_module_free(m);
  unsetenv("NEREID_PTXAS");
}

/* A launch that comes while another thread's synchronize is on its way to read: it is still running then, and nothing
 * of what it writes may get lost, or be read half written. */
static struct {
  GpuDiag *of[8];
  int n;
} slow;
static int run_slow(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  GpuDiag *d = slow.of[slow.n++ % 8] = *(GpuDiag **)p[2];
  d->used += 7; /* taken, and not written yet */
  return 0;
}
static void finish(GpuDiag *d, int at) { memcpy(d->words + at, (uint32_t[]){1, 2, 0, 0, 0, 2, 0}, 28); }

static struct {
  Fixture *f;
  nereid_module *m;
  nereid_stream *s;
  Lines lines;
  nereid_options o;
} talk;
static nereid_status launch_talk(void) {
  nereid_arg args[] = {nereid_pointer(talk.f->p[0], NEREID_F32), nereid_int(5)};
  return nereid_launch(talk.f->d, talk.s, talk.m, "talk", (int64_t[]){3, 1, 1}, args, 2, &talk.o, NULL);
}
static void *launch_talk_thread(void *out) { return *(nereid_status *)out = launch_talk(), NULL; }

static void start_talk(Fixture *f, FakeKernel run) {
  memset(&talk, 0, sizeof talk), slow.n = 0;
  talk.f = f, talk.m = kit_module();
  talk.o = (nereid_options){.debug = true, .print = lines_print, .print_arg = &talk.lines};
  fake_kernel("talk", run);
  setenv("NEREID_PTXAS", "none", 1);
}
static void end_talk(void) {
  nereid_module_free(talk.m);
  unsetenv("NEREID_PTXAS");
}

static nereid_status from_beside;
static void launch_beside(void) { from_beside = launch_talk(); }

static void test_reports_while_running(void **state) {
  start_talk(*state, run_slow);
  nereid_device *d = talk.f->d;
  assert_ok(launch_talk());
  finish(slow.of[0], 0);
  fake->on_wait = launch_beside;
  assert_ok(nereid_synchronize(d, &error));
  assert_ok(from_beside);
  assert_int_equal(slow.n, 2);
  assert_int_equal(talk.lines.count, 1);
  assert_ok(launch_talk()); /* into the same buffer: both wait for the same synchronize */
  assert_ptr_equal(slow.of[1], slow.of[2]);
  assert_ptr_not_equal(slow.of[0], slow.of[1]);
  finish(slow.of[1], 0), finish(slow.of[2], 7);
  assert_ok(nereid_synchronize(d, &error));
  assert_int_equal(talk.lines.count, 3);
  /* What runs in another stream is left alone by waiting for this one. */
  assert_ok(nereid_stream_create(d, &talk.s, &error));
  assert_ok(launch_talk());
  assert_ok(nereid_stream_synchronize(d, NULL, &error));
  finish(slow.of[3], 0);
  assert_int_equal(talk.lines.count, 3);
  assert_ok(nereid_stream_synchronize(d, talk.s, &error));
  assert_int_equal(talk.lines.count, 4);
  /* A wait that the driver refuses has ended nothing. */
  assert_ok(launch_talk());
  fake->fail.symbol = "cuCtxSynchronize", fake->fail.result = 900;
  assert_says(nereid_synchronize(d, &error), NEREID_BAD_ARGUMENT, "waiting for cuda:0");
  finish(slow.of[4], 0);
  assert_ok(nereid_synchronize(d, &error));
  assert_int_equal(talk.lines.count, 5);
  assert_int_equal(fake->host_allocations, 2); /* buffers are used again */
  nereid_stream_destroy(talk.s);
  end_talk();
}

/* A graph keeps the buffer that its kernels were captured with. */
static void test_reports_of_graph(void **state) {
  start_talk(*state, run_talk);
  nereid_device *d = talk.f->d;
  nereid_stream *other = NULL;
  nereid_graph *g = NULL;
  assert_ok(nereid_stream_create(d, &talk.s, &error));
  assert_ok(nereid_stream_create(d, &other, &error));
  assert_ok(launch_talk());
  assert_ok(nereid_synchronize(d, &error));
  assert_int_equal(talk.lines.count, 1);
  fake->capture_params = 3;
  assert_ok(nereid_graph_begin(d, talk.s, &error));
  assert_ok(launch_talk());
  assert_ok(nereid_graph_end(d, talk.s, &g, &error));
  for (int i = 0; i < 3; i++) {
    assert_ok(nereid_graph_launch(g, talk.s, &error));
    assert_ok(nereid_stream_synchronize(d, talk.s, &error));
    assert_int_equal(talk.lines.count, 3 * i + 2);
    assert_ok(nereid_graph_launch(g, other, &error)); /* and a plain launch beside */
    assert_ok(launch_talk());
    assert_ok(nereid_stream_synchronize(d, talk.s, &error));
    assert_int_equal(talk.lines.count, 3 * i + 3);
    assert_ok(nereid_synchronize(d, &error));
    assert_int_equal(talk.lines.count, 3 * i + 4);
  }
  nereid_graph_free(g);
  nereid_stream_destroy(talk.s), nereid_stream_destroy(other);
  end_talk();
}

/* The second buffer of a kernel is made while somebody else's stream is captured in the driver's strict mode. */
static void test_report_in_strict_capture(void **state) {
  start_talk(*state, run_talk);
  nereid_device *d = talk.f->d;
  assert_ok(nereid_stream_create(d, &talk.s, &error));
  assert_ok(launch_talk()); /* has the first one */
  fake->capturing = nereid_stream_native(talk.s);
  fake->capture_params = 3;
  assert_ok(launch_talk());
  fake->capturing = NULL;
  assert_int_equal(fake->forbidden_in_capture, 0);
  nereid_stream_destroy(talk.s);
  end_talk();
}

/* Nobody waits for the GPU with a lock that another thread's launch needs. */
static void launch_in_thread(void) {
  pthread_t t;
  struct timespec limit;
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 1200; /* only where it hangs */
  if (pthread_create(&t, NULL, launch_talk_thread, &from_beside)) return;
  if (pthread_timedjoin_np(t, NULL, &limit)) pthread_detach(t), fake->launches = -1000;
}

static void test_waits_without_lock(void **state) {
  Fixture *f = *state;
  start_talk(f, run_talk);
  assert_ok(launch_talk());
  assert_ok(LAUNCH("add", f->add, 4));
  from_beside = NEREID_INTERNAL;
  fake->on_wait = launch_in_thread;
  nereid_module_free(f->m); /* a kernel of it was launched */
  f->m = NULL;
  assert_null(fake->on_wait);
  assert_int_equal(fake->launches, 3);
  assert_ok(from_beside);
  assert_ok(nereid_synchronize(f->d, &error));
  assert_int_equal(talk.lines.count, 2);
  end_talk();
}

static void *talk_work(void *arg) {
  for (int i = 0; i < 100; i++) {
    if (launch_talk()) return arg;
    if (i % 3 == 0 && nereid_synchronize(talk.f->d, NULL)) return arg;
    if (i % 5 == 0 && nereid_stream_synchronize(talk.f->d, NULL, NULL)) return arg;
  }
  return NULL;
}
static void count_line(void *arg, const char *line) {
  atomic_fetch_add((atomic_int *)arg, strstr(line, "(2, 0, 0)") != NULL);
}

static void test_threads_that_print(void **state) {
  start_talk(*state, run_talk);
  atomic_int count = 0;
  talk.o.print = count_line, talk.o.print_arg = &count;
  pthread_t t[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, talk_work, talk.f), 0);
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(t[i], &failed);
    assert_null(failed);
  }
  assert_ok(nereid_synchronize(talk.f->d, &error));
  assert_int_equal(count, 400);
  end_talk();
}

static int64_t listed[8];
static int32_t listed_grid[3];
static int run_mark(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  const GpuProgramList *list = *(GpuProgramList **)p[1];
  memcpy(listed, list->programs, sizeof listed[0] * grid[0]);
  memcpy(listed_grid, list->grid, sizeof listed_grid);
  return 0;
}

static void test_program_list(void **state) {
  Fixture *f = *state;
  nereid_module *m = kit_module();
  const int64_t grid[3] = {3, 4, 2}, programs[] = {23, 0, 7};
  nereid_options o = {.programs = programs, .program_count = 3};
  nereid_arg args[] = {nereid_pointer(f->p[0], NEREID_I32)};
  fake_kernel("mark", run_mark);
  setenv("NEREID_PTXAS", "none", 1);
  assert_ok(nereid_launch(f->d, NULL, m, "mark", grid, args, 1, &o, &error));
  assert_int_equal(fake->last_grid[0], 3);
  assert_int_equal(fake->last_grid[1], 1);
  assert_memory_equal(listed, programs, sizeof programs);
  for (int i = 0; i < 3; i++) assert_int_equal(listed_grid[i], grid[i]);
  assert_int_equal(fake->host_allocations, 1); /* the list lives until the kernel has ended */
  assert_ok(nereid_synchronize(f->d, &error));
  assert_int_equal(fake->host_allocations, 0);
  fake->kernel_count = 0;
  assert_ok(nereid_launch(f->d, NULL, m, "mark", grid, args, 1, NULL, &error)); /* all: another specialization */
  assert_int_equal(fake->last_grid[1], 4);
  assert_int_equal(fake->last_params, 1);
  o.program_count = 0;
  assert_ok(nereid_launch(f->d, NULL, m, "mark", grid, args, 1, &o, &error));
  fake_kernel("mark", run_mark);
  o.program_count = 3;
  for (int i = 0; i < 200; i++) assert_ok(nereid_launch(f->d, NULL, m, "mark", grid, args, 1, &o, &error));
  assert_true(fake->host_allocations < 100);
  assert_ok(nereid_synchronize(f->d, &error));
  Lines lines = {0}; /* now and then a launch waits for the lists of others; what it says itself is read later */
  nereid_options talks = {
      .debug = true, .print = lines_print, .print_arg = &lines, .programs = (int64_t[]){2}, .program_count = 1};
  fake_kernel("talk", run_talk);
  for (int i = 0; i < 65; i++)
    assert_ok(nereid_launch(f->d, NULL, m, "talk", (int64_t[]){3, 1, 1}, (nereid_arg[]){args[0], nereid_int(5)}, 2,
                            &talks, &error));
  assert_ok(nereid_synchronize(f->d, &error));
  assert_int_equal(lines.count, 65);
  nereid_stream *s = NULL; /* a graph reads its list at every launch */
  nereid_graph *g = NULL;
  assert_ok(nereid_stream_create(f->d, &s, &error));
  fake->capture_params = 2;
  assert_ok(nereid_graph_begin(f->d, s, &error));
  assert_ok(nereid_launch(f->d, s, m, "mark", grid, args, 1, &o, &error));
  assert_ok(nereid_graph_end(f->d, s, &g, &error));
  for (int i = 0; i < 2; i++) {
    memset(listed, 0, sizeof listed);
    assert_ok(nereid_graph_launch(g, s, &error));
    assert_memory_equal(listed, programs, sizeof programs);
    assert_ok(nereid_synchronize(f->d, &error));
  }
  nereid_graph_free(g);
  nereid_stream_destroy(s);
  fake->fail.symbol = "cuLaunchKernel", fake->fail.result = 701; /* its list goes with it */
  int before = fake->host_allocations;
  assert_int_equal(nereid_launch(f->d, NULL, m, "mark", grid, args, 1, &o, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(fake->host_allocations, before);
  nereid_module_free(m);
  unsetenv("NEREID_PTXAS");
}

static unsigned persistent_grid[3];
static int run_persistent(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  for (int i = 0; i < 3; i++) persistent_grid[i] = *(unsigned *)p[1 + i];
  return 0;
}

/* As many blocks as run at once, or as there are programs; the kernel is told how many programs there are. */
static void test_persistent(void **state) {
  Fixture *f = *state;
  nereid_module *m = kit_module();
  nereid_arg args[] = {nereid_pointer(f->p[0], NEREID_I32)};
  nereid_options o = {.persist = true};
  fake_kernel("mark", run_persistent);
  setenv("NEREID_PTXAS", "none", 1);
  assert_ok(nereid_launch(f->d, NULL, m, "mark", (int64_t[]){3, 4, 2}, args, 1, &o, &error));
  assert_int_equal(fake->last_params, 4);
  assert_int_equal(fake->last_grid[0], 24);
  for (int i = 0; i < 3; i++) assert_int_equal(persistent_grid[i], ((int[]){3, 4, 2})[i]);
  fake->capture_params = 4; /* launched again and again: by a graph */
  for (int i = 0; i < 50; i++)
    assert_ok(nereid_launch(f->d, NULL, m, "mark", (int64_t[]){100000 + i, 3, 1}, args, 1, &o, &error));
  assert_int_equal(fake->last_grid[0] % 132, 0);
  assert_true(fake->last_grid[0] < 100000 && fake->last_grid[1] == 1);
  assert_int_equal(persistent_grid[0], 100049);
  assert_error(nereid_launch(f->d, NULL, m, "mark", (int64_t[]){INT32_MAX, 2, 1}, args, 1, &o, &error),
               NEREID_UNSUPPORTED,
               "error: kernel 'mark' runs 4294967294 programs in loops, which count to 2147483647\n"
               "  hint: leave persist out (options.without)\n");
  nereid_module_free(m);
  unsetenv("NEREID_PTXAS");
}

static const char big_text[] =
    "import triton\nimport triton.language as tl\n\n@triton.jit\ndef big(x, y, N: tl.constexpr):\n"
    "    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]\n"
    "    tl.store(y + tl.trans(i), tl.load(x + i))\n";

/* A GPU of the target's generation may have less shared memory than the target stands for. */
static void test_shared_memory(void **state) {
  fake->shared_per_block = 1000;
  nereid_device *d = kit_device("cuda");
  nereid_module *m = NULL;
  void *p = NULL;
  assert_ok(nereid_module_load_string("big.py", big_text, &m, &error));
  assert_ok(nereid_alloc(d, 1 << 16, &p, &error));
  nereid_arg args[] = {nereid_pointer(p, NEREID_F32), nereid_pointer(p, NEREID_F32), nereid_constexpr_int(64)};
  nereid_error *error = NULL;
  nereid_status status = nereid_launch(d, NULL, m, "big", one, args, 3, NULL, &error);
  if (status) { /* the layouts may come to need none */
    assert_int_equal(status, NEREID_UNSUPPORTED);
    assert_non_null(strstr(nereid_error_text(error), "bytes of shared memory a block; cuda:0 has 1000\n  hint: use "
                                                     "smaller tiles or fewer stages; the largest buffers are "));
    const char *name;
    int64_t required, limit;
    assert_int_equal(nereid_error_get_kind(error), NEREID_ERROR_RESOURCES);
    assert_true(nereid_error_resource(error, &name, &required, &limit));
    assert_string_equal(name, "shared memory");
    assert_true(required > 1000 && limit == 1000);
    nereid_error_free(error);
  }
  nereid_module_free(m);
  nereid_device_close(d);
}

static int run(void) {
  const struct CMUnitTest tests[] = {
      OPEN(test_reports),
      OPEN(test_reports_while_running),
      OPEN(test_reports_of_graph),
      OPEN(test_report_in_strict_capture),
      OPEN(test_traps),
      OPEN(test_waits_without_lock),
      OPEN(test_threads_that_print),
      OPEN(test_program_list),
      OPEN(test_persistent),
      ALONE(test_shared_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return cuda_tests(run); }
