/* nereid_prof_*: what sessions write to their traces, and what is made of them. Nothing depends on how long anything
 * takes. */
#include "prof/record/cupti_api.h" /* before cmocka, whose `fail` is a macro */
#include "prof/prof.h"

#include "fakes/cuda.h"
#include "fakes/cupti.h"
#include "unit/runtime/runtime_kit.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/nereid-test-prof-XXXXXX";
static char path_text[8][200];

static const char *file_in(int i, const char *name) {
  snprintf(path_text[i], sizeof path_text[i], "%s/%s", folder, name);
  return path_text[i];
}

static nereid_prof *started(const char *path, nereid_prof_options o) {
  nereid_prof *p = NULL;
  assert_ok(nereid_prof_start(path, &o, &p, &error));
  return p;
}

/* ---- a trace, whole ---------------------------------------------------------------------------------------------- */

typedef struct Events {
  TraceReader *reader;
  TraceEvent *at;
  int n;
} Events;

static Events events_of(const char *path) {
  char buffer[300];
  const char *why = NULL;
  Events all = {.reader = trace_open(path, &why, buffer)};
  if (!all.reader) fail_msg("%s: %s", path, why);
  int cap = 0;
  for (TraceEvent e; trace_next(all.reader, &e);) {
    if (all.n == cap) all.at = realloc(all.at, sizeof e * (size_t)(cap = cap ? 2 * cap : 256));
    all.at[all.n++] = e;
  }
  return all;
}

static void events_free(Events *all) {
  trace_reader_free(all->reader);
  free(all->at);
}

static const char *text_of(const Events *all, const TraceEvent *e) { return trace_text(all->reader, e->name); }

/* The i-th of a kind whose name holds `words`; NULL: there is none. */
static const TraceEvent *find(const Events *all, TraceKind kind, const char *words, int i) {
  for (int k = 0; k < all->n; k++)
    if (all->at[k].kind == kind && strstr(text_of(all, &all->at[k]), words) && !i--) return &all->at[k];
  return NULL;
}

static int count(const Events *all, TraceKind kind, const char *words) {
  int n = 0;
  while (find(all, kind, words, n)) n++;
  return n;
}

static char *view_text(const char *trace, const char *view, nereid_prof_view_options o) {
  static char text[1 << 16];
  const char *out = file_in(7, "view.txt");
  assert_ok(nereid_prof_view(trace, view, out, &o, &error));
  FILE *f = fopen(out, "r");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  return text;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

typedef struct Adder {
  nereid_device *d;
  nereid_module *m;
  void *p[3];
  nereid_arg args[5];
  int64_t grid[3];
} Adder;

static Adder adder_open(const char *device, int64_t n) {
  Adder a = {.d = kit_device(device), .m = kit_module(), .grid = {(n + 127) / 128, 1, 1}};
  float *zeros = calloc((size_t)n, 4);
  for (int i = 0; i < 3; i++) {
    assert_ok(nereid_alloc(a.d, n * 4, &a.p[i], &error));
    assert_ok(nereid_copy_to_device(a.d, a.p[i], zeros, n * 4, &error));
    a.args[i] = nereid_pointer(a.p[i], NEREID_F32);
  }
  free(zeros);
  a.args[3] = nereid_int(n), a.args[4] = nereid_constexpr_int(128);
  return a;
}

static void quiet(void *arg, const char *line) {}
static void adder_launch(Adder *a) {
  nereid_options o = {.print = quiet};
  assert_ok(nereid_launch(a->d, NULL, a->m, "add", a->grid, a->args, 5, &o, &error));
}

static void adder_close(Adder *a) {
  for (int i = 0; i < 3; i++) nereid_free(a->d, a->p[i]);
  nereid_module_free(a->m);
  nereid_device_close(a->d);
}

static void test_calls(void **state) {
  static const char *const devices[] = {"cpu:2", "interp", "sim"};
  for (int k = 0; k < 3; k++) {
    const char *path = file_in(0, "calls.trace");
    nereid_prof *p = started(path, (nereid_prof_options){.count_work = true});
    Adder a = adder_open(devices[k], 1000);
    for (int i = 0; i < 3; i++) adder_launch(&a);
    a.args[3] = nereid_int(900);
    adder_launch(&a);
    float got[1000];
    assert_ok(nereid_copy_to_host(a.d, got, a.p[2], sizeof got, &error));
    assert_ok(nereid_synchronize(a.d, &error));
    adder_close(&a);
    assert_ok(nereid_prof_stop(p, &error));

    Events all = events_of(path);
    assert_false(trace_truncated(all.reader));
    assert_int_equal(count(&all, TRACE_CALL, "nereid_launch"), 4 + 2); /* and nereid_launch_cost, of each n */
    assert_int_equal(count(&all, TRACE_CALL, "nereid_launch_cost"), 2);
    assert_int_equal(count(&all, TRACE_CALL, "nereid_alloc"), 3);
    assert_int_equal(count(&all, TRACE_CALL, "nereid_free"), 3);
    assert_int_equal(find(&all, TRACE_CALL, "nereid_copy_to_host", 0)->call.kind, CALL_COPY_SYNC);
    assert_int_equal(find(&all, TRACE_CALL, "nereid_synchronize", 0)->call.kind, CALL_SYNC);
    assert_int_equal(find(&all, TRACE_CALL, "compile add", 0)->call.kind, CALL_COMPILE);
    assert_int_equal(count(&all, TRACE_KERNEL, "add"), 4);
    assert_string_equal(text_of(&all, find(&all, TRACE_DEVICE, "", 0)), devices[k]);
    for (int i = 0; i < 4; i++) {
      const TraceEvent *kernel = find(&all, TRACE_KERNEL, "add", i), *work = find(&all, TRACE_WORK, "", i),
                       *call = NULL;
      for (int c = 0; c < all.n; c++)
        if (all.at[c].kind == TRACE_CALL && all.at[c].correlation == kernel->correlation) call = &all.at[c];
      assert_non_null(call);
      assert_string_equal(text_of(&all, call), "nereid_launch");
      assert_true(call->start <= kernel->start && kernel->start <= kernel->end && kernel->end <= call->end);
      assert_int_equal(call->thread, getpid());
      assert_int_equal(call->call.kind, CALL_LAUNCH);
      assert_int_equal(kernel->device, TRACE_CPU_DEVICE);
      assert_int_equal(kernel->kernel.grid[0], 8);
      assert_int_equal(kernel->kernel.block[0], k == 2 ? 128 : 1);
      assert_int_equal(work->correlation, kernel->correlation);
      assert_true(work->work.flops == (i < 3 ? 1000 : 900) && work->work.bytes == 12 * work->work.flops);
      assert_string_equal(trace_text(all.reader, work->work.shapes), i < 3
                                                                         ? "f32[1000], f32[1000], f32[1000], 1000, 128"
                                                                         : "f32[1000], f32[1000], f32[1000], 900, 128");
    }
    int64_t allocated = 0;
    for (int i = 0; i < 6; i++) {
      const TraceEvent *m = find(&all, TRACE_MEMORY, "", i);
      assert_int_equal(m->memory.bytes, i < 3 ? 4000 : -4000);
      if (i) assert_int_equal(m->memory.in_use - allocated, m->memory.bytes);
      allocated = m->memory.in_use;
    }
    events_free(&all);
  }
}

static void test_failed_calls(void **state) {
  const char *path = file_in(0, "failed.trace");
  nereid_device *d = kit_device("interp");
  nereid_module *m = kit_module();
  nereid_prof *p = started(path, (nereid_prof_options){0});
  int32_t one = 0;
  nereid_options o = {.print = quiet, .debug = true};
  nereid_arg args[] = {nereid_pointer(&one, NEREID_I32), nereid_int(0)};
  assert_int_equal(nereid_launch(d, NULL, m, "talk", (int64_t[]){2, 1, 1}, args, 2, &o, NULL), NEREID_KERNEL_FAULT);
  void *none;
  assert_int_equal(nereid_alloc(d, -1, &none, NULL), NEREID_BAD_ARGUMENT);
  assert_ok(nereid_prof_stop(p, &error));
  Events all = events_of(path);
  assert_int_equal(find(&all, TRACE_CALL, "nereid_launch", 0)->call.result, NEREID_KERNEL_FAULT);
  assert_int_equal(find(&all, TRACE_CALL, "nereid_alloc", 0)->call.result, NEREID_BAD_ARGUMENT);
  assert_int_equal(count(&all, TRACE_KERNEL, ""), 0);
  events_free(&all);
  nereid_module_free(m);
  nereid_device_close(d);
}

static void test_graph(void **state) {
  const char *path = file_in(0, "graph.trace");
  Adder a = adder_open("cpu:1", 256);
  nereid_stream *s = NULL;
  nereid_graph *g = NULL;
  nereid_options o = {.print = quiet};
  nereid_prof *p = started(path, (nereid_prof_options){.count_work = true});
  assert_ok(nereid_stream_create(a.d, &s, &error));
  assert_ok(nereid_launch(a.d, s, a.m, "add", a.grid, a.args, 5, &o, &error));
  assert_ok(nereid_graph_begin(a.d, s, &error));
  for (int i = 0; i < 2; i++) assert_ok(nereid_launch(a.d, s, a.m, "add", a.grid, a.args, 5, &o, &error));
  assert_ok(nereid_graph_end(a.d, s, &g, &error));
  for (int i = 0; i < 3; i++) assert_ok(nereid_graph_launch(g, s, &error));
  assert_ok(nereid_prof_stop(p, &error));
  Events all = events_of(path);
  assert_int_equal(count(&all, TRACE_KERNEL, "add"), 7); /* recording runs nothing */
  assert_int_equal(count(&all, TRACE_WORK, ""), 7);
  assert_int_equal(count(&all, TRACE_CALL, "nereid_graph_launch"), 3);
  events_free(&all);
  nereid_graph_free(g);
  nereid_stream_destroy(s);
  adder_close(&a);
}

/* ---- scopes ------------------------------------------------------------------------------------------------------ */

static void test_scopes(void **state) {
  const char *path = file_in(0, "scopes.trace");
  assert_false(nereid_prof_leave("none")); /* no session */
  nereid_prof_enter("before");
  nereid_prof_metric("flops", 1);
  nereid_prof *p = started(path, (nereid_prof_options){0});
  assert_false(nereid_prof_leave("before")); /* opened when nothing was recorded */
  char name[] = "epoch";
  nereid_prof_enter(name);
  memset(name, 'x', 5); /* the name is the caller's again */
  nereid_prof_enter("batch");
  nereid_prof_metric("flops", 5);
  nereid_prof_metric("flops", 7);
  nereid_prof_enter("layer");
  assert_true(nereid_prof_leave("layer"));
  assert_false(nereid_prof_leave("layer")); /* closed twice */
  assert_true(nereid_prof_leave(NULL));
  nereid_prof_metric("bytes", 3);
  nereid_prof_enter("inner 1");
  nereid_prof_enter("inner 2");
  assert_true(nereid_prof_leave("epoch")); /* with both */
  assert_false(nereid_prof_leave(NULL));
  nereid_prof_metric("lost", 1);
  nereid_prof_enter("open");
  nereid_prof_enter("open too");
  assert_ok(nereid_prof_stop(p, &error));
  assert_false(nereid_prof_leave("open")); /* was closed */

  Events all = events_of(path);
  const TraceEvent *epoch = find(&all, TRACE_RANGE, "epoch", 0), *batch = find(&all, TRACE_RANGE, "batch", 0),
                   *layer = find(&all, TRACE_RANGE, "layer", 0);
  assert_int_equal(count(&all, TRACE_RANGE, ""), 7);
  assert_int_equal(epoch->range.parent, 0);
  assert_int_equal(batch->range.parent, epoch->range.id);
  assert_int_equal(layer->range.parent, batch->range.id);
  assert_int_equal(find(&all, TRACE_RANGE, "inner 1", 0)->range.parent, epoch->range.id);
  assert_int_equal(find(&all, TRACE_RANGE, "inner 2", 0)->range.parent,
                   find(&all, TRACE_RANGE, "inner 1", 0)->range.id);
  assert_int_equal(find(&all, TRACE_RANGE, "open too", 0)->range.parent, find(&all, TRACE_RANGE, "open", 1)->range.id);
  assert_true(epoch->start <= batch->start && batch->start <= layer->start && layer->end <= batch->end &&
              batch->end <= epoch->end);
  assert_true(epoch->range.id && epoch->range.origin == RANGE_OURS);
  const TraceEvent *flops = find(&all, TRACE_METRIC, "flops", 1);
  assert_true(flops->metric.value == 7 && flops->metric.range == batch->range.id);
  assert_true(find(&all, TRACE_METRIC, "bytes", 0)->metric.range == epoch->range.id);
  assert_int_equal(count(&all, TRACE_METRIC, ""), 3);
  /* clang-format off */
  static const char *const notes[] = {"scope 'before' was left, but it is not open in this thread",
    "scope 'layer' was left, but it is not open",
                                      "scope 'inner 2' was still open when 'epoch', around it, was left",
                                      "scope 'inner 1' was still open when 'epoch'",
                                      "scope '(the innermost)' was left",
                                      "metric 'lost' was given outside of any scope",
                                      "scope 'open too' was still open when the session ended",
                                      "scope 'open' was still open when the session ended"};
  /* clang-format on */
  for (int i = 0; i < 8; i++)
    if (count(&all, TRACE_NOTE, notes[i]) != 1)
      fail_msg("%d notes of: %s", count(&all, TRACE_NOTE, notes[i]), notes[i]);
  assert_int_equal(count(&all, TRACE_NOTE, ""), 8);
  events_free(&all);
}

static void test_mistakes_in_a_loop(void **state) {
  const char *path = file_in(0, "loop.trace");
  nereid_prof *p = started(path, (nereid_prof_options){0});
  for (int i = 0; i < 5000; i++) assert_false(nereid_prof_leave("never"));
  for (int i = 0; i < 5000; i++) nereid_prof_enter("again");
  for (int i = 0; i < 5000; i++) assert_true(nereid_prof_leave("again"));
  assert_false(nereid_prof_leave("again"));
  for (int i = 0; i < 3000; i++) nereid_prof_enter("left open");
  assert_ok(nereid_prof_stop(p, &error));
  Events all = events_of(path);
  assert_int_equal(count(&all, TRACE_NOTE, ""), 41);
  assert_int_equal(count(&all, TRACE_NOTE, "there is more to say of this kind"), 1);
  assert_int_equal(count(&all, TRACE_RANGE, "again"), 1000);
  assert_int_equal(count(&all, TRACE_RANGE, "left open"), 1000);
  events_free(&all);
  assert_non_null(strstr(view_text(path, "tree", (nereid_prof_view_options){0}), "again"));
}

static void *in_thread(void *arg) {
  Adder *a = arg;
  nereid_prof_enter("thread");
  for (int i = 0; i < 50; i++) {
    nereid_prof_enter("turn");
    adder_launch(a);
    nereid_prof_metric("turns", 1);
    assert_true(nereid_prof_leave("turn"));
  }
  return NULL; /* with "thread" open */
}

static void test_threads(void **state) {
  const char *path = file_in(0, "threads.trace");
  Adder a = adder_open("cpu:1", 256);
  adder_launch(&a);
  nereid_prof *p = started(path, (nereid_prof_options){.count_work = true});
  pthread_t threads[4];
  nereid_prof_enter("main");
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, in_thread, &a), 0);
  nereid_prof *second = started(file_in(1, "second.trace"), (nereid_prof_options){0}); /* comes and goes meanwhile */
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  assert_ok(nereid_prof_stop(second, &error));
  assert_true(nereid_prof_leave("main"));
  assert_ok(nereid_prof_stop(p, &error));
  Events all = events_of(path);
  assert_int_equal(count(&all, TRACE_KERNEL, "add"), 200);
  assert_int_equal(count(&all, TRACE_RANGE, "turn"), 200);
  assert_int_equal(count(&all, TRACE_METRIC, "turns"), 200);
  assert_int_equal(count(&all, TRACE_NOTE, "scope 'thread' was still open when its thread ended"), 4);
  assert_int_equal(count(&all, TRACE_THREAD, ""), 5);
  assert_int_equal(count(&all, TRACE_CALL, "nereid_launch_cost") >= 1, 1);
  for (int i = 0; i < 4; i++) {
    const TraceEvent *t = find(&all, TRACE_RANGE, "thread", i);
    int turns = 0;
    for (int k = 0; k < all.n; k++) {
      const TraceEvent *e = &all.at[k];
      if (e->kind != TRACE_RANGE || e->thread != t->thread || e == t) continue;
      assert_int_equal(e->range.parent, t->range.id);
      assert_true(e->start >= t->start && e->end <= t->end);
      turns++;
    }
    assert_int_equal(turns, 50);
  }
  events_free(&all);
  char *text = view_text(path, "tree", (nereid_prof_view_options){.metrics = "count,turns,flops"});
  assert_string_equal(text, "count turns flops (scopes, and what was launched in them)\n"
                            "200 200.000 51200.000 ROOT\n"
                            "├─ 1 nan nan main\n"
                            "└─ 4 200.000 51200.000 thread\n"
                            "   └─ 200 200.000 51200.000 turn\n"
                            "      └─ 200 nan 51200.000 add\n");
  adder_close(&a);
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

static void test_sessions(void **state) {
  nereid_prof *a = started(file_in(0, "a.trace"), (nereid_prof_options){0});
  nereid_prof_enter("a");
  nereid_prof *b = started(file_in(1, "b.trace"), (nereid_prof_options){0});
  nereid_prof_enter("ab");
  assert_true(nereid_prof_leave("ab"));
  assert_ok(nereid_prof_stop(a, &error));
  nereid_prof_enter("b");
  assert_true(nereid_prof_leave("b"));
  assert_true(nereid_prof_leave("a")); /* still open for b */
  assert_ok(nereid_prof_stop(b, &error));
  Events in_a = events_of(file_in(0, "a.trace")), in_b = events_of(file_in(1, "b.trace"));
  assert_int_equal(count(&in_a, TRACE_RANGE, ""), 2);
  assert_int_equal(count(&in_b, TRACE_RANGE, ""), 3);
  assert_int_equal(count(&in_a, TRACE_NOTE, "scope 'a' was still open when the session ended"), 1);
  assert_int_equal(count(&in_b, TRACE_NOTE, ""), 0);
  assert_true(find(&in_b, TRACE_RANGE, "a", 1)->start >= in_b.at[0].start); /* of a scope what is in its time */
  events_free(&in_a);
  events_free(&in_b);
}

static void test_session_errors(void **state) {
  nereid_prof *all[8], *p = NULL;
  assert_error(nereid_prof_start(NULL, NULL, &p, &error), NEREID_BAD_ARGUMENT,
               "error: nereid_prof_start: the path is NULL\n");
  assert_error(nereid_prof_stop(NULL, &error), NEREID_BAD_ARGUMENT, "error: nereid_prof_stop: the session is NULL\n");
  assert_error(nereid_prof_start("/nowhere/a.trace", NULL, &p, &error), NEREID_BAD_FILE,
               "error: cannot make the trace /nowhere/a.trace: No such file or directory\n");
  assert_error(nereid_prof_start(file_in(0, "e.trace"), &(nereid_prof_options){.sample_hz = -1}, &p, &error),
               NEREID_BAD_ARGUMENT, "error: nereid_prof_start: -1 samples a second; 0 to 10000 are possible\n");
  for (int i = 0; i < 8; i++) {
    char name[20];
    snprintf(name, sizeof name, "s%d.trace", i);
    all[i] = started(file_in(0, name), (nereid_prof_options){0});
  }
  assert_error(nereid_prof_start(file_in(0, "s8.trace"), NULL, &p, &error), NEREID_BAD_ARGUMENT,
               "error: 8 sessions run already, which is the most\n  hint: stop one of them\n");
  assert_int_equal(access(file_in(0, "s8.trace"), F_OK), -1);
  for (int i = 0; i < 8; i++) assert_ok(nereid_prof_stop(all[i], &error));
}

static void test_pause(void **state) {
  const char *path = file_in(0, "pause.trace");
  Adder a = adder_open("cpu:1", 256);
  adder_launch(&a);
  nereid_prof *p = started(path, (nereid_prof_options){.count_work = true});
  nereid_prof_enter("around");
  nereid_prof_enter("ends in the pause");
  assert_ok(nereid_prof_pause(p, &error));
  assert_ok(nereid_prof_pause(p, &error));
  adder_launch(&a);
  nereid_prof_metric("paused", 1);
  assert_true(nereid_prof_leave(NULL));
  nereid_prof_enter("not seen");
  assert_true(nereid_prof_leave("not seen"));
  nereid_prof_enter("begins in the pause");
  assert_ok(nereid_prof_resume(p, &error));
  int64_t resumed = trace_clock();
  assert_ok(nereid_prof_resume(p, &error));
  assert_true(nereid_prof_leave("begins in the pause"));
  adder_launch(&a);
  assert_true(nereid_prof_leave("around"));
  assert_ok(nereid_prof_pause(p, &error));
  assert_ok(nereid_prof_stop(p, &error)); /* paused */
  Events all = events_of(path);
  assert_int_equal(count(&all, TRACE_KERNEL, "add"), 1);
  assert_int_equal(count(&all, TRACE_CALL, "nereid_launch_cost"), 0); /* counted in the pause */
  assert_int_equal(count(&all, TRACE_WORK, ""), 1);
  assert_int_equal(count(&all, TRACE_METRIC, ""), 0);
  assert_int_equal(count(&all, TRACE_RANGE, ""), 3);
  assert_null(find(&all, TRACE_RANGE, "not seen", 0));
  const TraceEvent *begins = find(&all, TRACE_RANGE, "begins in the pause", 0),
                   *ends = find(&all, TRACE_RANGE, "ends in the pause", 0);
  assert_true(ends->end < begins->start && begins->start <= resumed);
  events_free(&all);
  adder_close(&a);
}

static void test_full_disk(void **state) {
  const char *path = file_in(0, "full.trace");
  nereid_prof *p = NULL;
  struct rlimit before;
  struct stat s;
  getrlimit(RLIMIT_FSIZE, &before);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){300000, before.rlim_max}), 0);
  p = started(path, (nereid_prof_options){0});
  for (int i = 0; i < 100000; i++) {
    nereid_prof_enter("scope");
    nereid_prof_leave("scope");
  }
  nereid_error *error = NULL;
  assert_int_equal(nereid_prof_stop(p, &error), NEREID_BAD_FILE);
  setrlimit(RLIMIT_FSIZE, &before);
  const char *text = nereid_error_text(error);
  if (!strstr(text, "full.trace is not whole: File too large; ") || !strstr(text, " events are lost"))
    fail_msg("%s", text);
  nereid_error_free(error);
  Events all = events_of(path); /* what is there is whole */
  assert_true(count(&all, TRACE_RANGE, "scope") > 1000);
  events_free(&all);
  assert_int_equal(nereid_prof_start("/dev/full", NULL, &p, NULL), NEREID_BAD_FILE);
  assert_true(!stat("/dev/full", &s) && S_ISCHR(s.st_mode));
}

static void test_fork(void **state) {
  const char *path = file_in(0, "fork.trace");
  Adder a = adder_open("cpu:1", 256);
  nereid_prof *p = started(path, (nereid_prof_options){.sample_hz = 50});
  nereid_prof_enter("parent");
  adder_launch(&a);
  pid_t child = fork();
  if (!child) {
    nereid_prof_enter("child"); /* no session here */
    bool good = !nereid_prof_leave("child") && !nereid_prof_leave("parent");
    good &= !nereid_prof_stop(p, NULL);
    nereid_prof *own = NULL;
    good &= !nereid_prof_start(file_in(1, "child.trace"), NULL, &own, NULL); /* but one of its own it may have */
    nereid_prof_enter("own");
    good &= nereid_prof_leave("own") && !nereid_prof_stop(own, NULL);
    _exit(good ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  adder_launch(&a);
  assert_true(nereid_prof_leave("parent"));
  assert_ok(nereid_prof_stop(p, &error));
  Events all = events_of(path), other = events_of(file_in(1, "child.trace"));
  assert_int_equal(count(&all, TRACE_KERNEL, "add"), 2);
  assert_int_equal(count(&all, TRACE_RANGE, ""), 1);
  assert_int_equal(all.at[0].process, getpid());
  assert_int_equal(other.at[0].process, child);
  assert_int_equal(count(&other, TRACE_RANGE, "own"), 1);
  events_free(&all);
  events_free(&other);
  adder_close(&a);
}

/* ---- CUDA -------------------------------------------------------------------------------------------------------- */

static int run_nothing(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) { return 0; }

static void *symbol(const char *file, const char *name) {
  void *library = dlopen(file, RTLD_NOW | RTLD_GLOBAL), *found = library ? dlsym(library, name) : NULL;
  if (!found) fail_msg("%s", dlerror());
  return found;
}
#define CALL(file, name, type) ((type)(uintptr_t)symbol(file, name))

static FakeCuda *fake_driver(const char *kernel, FakeKernel run) {
  setenv("NEREID_LIBCUDA", FAKE_CUDA, 1), setenv("NEREID_LIBNVRTC", FAKE_CUDA, 1);
  CALL(FAKE_CUDA, "fake_reset", void (*)(void))();
  CALL(FAKE_CUDA, "fake_kernel", void (*)(const char *, FakeKernel))(kernel, run);
  return CALL(FAKE_CUDA, "fake_cuda", FakeCuda * (*)(void))();
}

/* What CUPTI says when a kernel is launched, in the launching thread. */
static uint32_t correlation;
static int run_recorded(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  CALL(FAKE_CUPTI, "fake_cupti_launch", void (*)(uint32_t, uint32_t))(3 /* its cuLaunchKernel */, ++correlation);
  return 0;
}

static void test_cuda_recorded(void **state) {
  const char *path = file_in(0, "gpu0.trace");
  fake_driver("add", run_recorded);
  setenv("NEREID_CUPTI", FAKE_CUPTI, 1);
  CALL(FAKE_CUPTI, "fake_cupti_reset", void (*)(void))();
  FakeCupti *cupti = CALL(FAKE_CUPTI, "fake_cupti", FakeCupti * (*)(void))();
  nereid_prof *p = started(path, (nereid_prof_options){.count_work = true}), *second = NULL;
  assert_int_equal(cupti->subscribers, 0);
  Adder a = adder_open("cuda", 1000); /* opened later: recorded from then on */
  assert_int_equal(cupti->subscribers, 1);
  nereid_error *error = NULL;
  assert_int_equal(nereid_prof_start(file_in(1, "gpu1.trace"), NULL, &second, &error), NEREID_UNSUPPORTED);
  if (!strstr(nereid_error_text(error), "gpu0.trace records CUDA already")) fail_msg("%s", nereid_error_text(error));
  nereid_error_free(error);
  correlation = 40;
  nereid_prof_enter("scope");
  adder_launch(&a);
  adder_launch(&a);
  assert_true(nereid_prof_leave("scope"));
  for (uint32_t i = 41; i < 43; i++) {
    CuptiKernel k = {.kind = CUPTI_CONCURRENT_KERNEL,
                     .start = 1000 * i,
                     .end = 1000 * i + 500,
                     .stream = 7,
                     .grid = {8, 1, 1},
                     .block = {128, 1, 1},
                     .correlation = i,
                     .name = "add"};
    CALL(FAKE_CUPTI, "fake_cupti_record", void (*)(const void *, size_t))(&k, sizeof k);
  }
  assert_ok(nereid_prof_stop(p, &error));
  assert_int_equal(cupti->subscribers, 0);
  adder_close(&a);
  Events all = events_of(path);
  assert_int_equal(count(&all, TRACE_KERNEL, "add"), 2); /* the GPU's, by CUPTI; none of ours */
  for (int i = 0; i < 2; i++) {
    assert_int_equal(find(&all, TRACE_KERNEL, "add", i)->correlation, 41 + i);
    assert_int_equal(find(&all, TRACE_WORK, "", i)->correlation, 41 + i);
    /* after nereid_launch_cost */
    assert_int_equal(find(&all, TRACE_CALL, "nereid_launch", i + 1)->correlation, 41 + i);
  }
  events_free(&all);
  char *text = view_text(path, "tree", (nereid_prof_view_options){.metrics = "count,time/ns,flops,bytes"});
  assert_string_equal(text, "count time/ns flops bytes (scopes, and what was launched in them)\n"
                            "2 1000.000 2000.000 24000.000 ROOT\n"
                            "└─ 1 1000.000 2000.000 24000.000 scope\n"
                            "   └─ 2 1000.000 2000.000 24000.000 add\n");
}

static void test_cuda(void **state) {
  FakeCuda *fake = fake_driver("quiet", run_nothing);
  setenv("NEREID_CUPTI", "/nonexistent/libcupti.so", 1);
  const char *path = file_in(0, "cuda.trace");
  nereid_prof *early = started(file_in(1, "early.trace"), (nereid_prof_options){0});
  nereid_device *d = kit_device("cuda"); /* opened later: the session says what it lacks */
  assert_ok(nereid_prof_stop(early, &error));
  Events all = events_of(file_in(1, "early.trace"));
  assert_int_equal(count(&all, TRACE_NOTE, "CUDA is not recorded: "), 1);
  events_free(&all);

  nereid_prof *p = NULL;
  nereid_error *error = NULL;
  assert_int_equal(nereid_prof_start(path, NULL, &p, &error), NEREID_UNSUPPORTED);
  if (!strstr(nereid_error_text(error), "CUDA cannot be recorded: ") || !strstr(nereid_error_text(error), "no_cuda"))
    fail_msg("%s", nereid_error_text(error));
  nereid_error_free(error);
  assert_int_equal(access(path, F_OK), -1);

  nereid_module *m = NULL;
  nereid_function *f = NULL;
  nereid_options o = {.block = {32, 1, 1}};
  nereid_arg n = nereid_int(3);
  int64_t grid[3] = {1, 1, 1};
  assert_ok(nereid_module_load_string("k.cu", "extern \"C\" __global__ void quiet(int n) {}\n", &m, &error));
  assert_ok(nereid_compile(d, m, "quiet", &n, 1, &o, &f, &error));
  int calls[3];
  for (int turn = 0; turn < 3; turn++) { /* before, during and after a session */
    if (turn == 1) p = started(path, (nereid_prof_options){.no_cuda = true, .count_work = true});
    if (turn == 2) assert_ok(nereid_prof_stop(p, &error));
    assert_ok(nereid_run(f, NULL, grid, &n, 1, &error));
    int launches = fake->launches, before = fake->calls;
    assert_ok(nereid_run(f, NULL, grid, &n, 1, &error));
    calls[turn] = fake->calls - before;
    assert_int_equal(fake->launches, launches + 1);
  }
  assert_int_equal(calls[1], calls[0]);
  assert_int_equal(calls[2], calls[0]);
  all = events_of(path);
  assert_int_equal(count(&all, TRACE_CALL, "nereid_run"), 2);
  assert_int_equal(count(&all, TRACE_KERNEL, ""), 0); /* what the GPU did is not known, and not guessed */
  const TraceEvent *work = find(&all, TRACE_WORK, "", 0);
  assert_non_null(work);
  assert_true(work->work.flops == 0 && !work->work.exact); /* CUDA C is not counted */
  events_free(&all);
  nereid_function_free(f);
  nereid_module_free(m);
  nereid_device_close(d);
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

static void put(TraceWriter *w, TraceEvent e, const char *name, int64_t start, int64_t end) {
  e.name = trace_string(w, name), e.start = start, e.end = end;
  if (!e.thread) e.thread = 1;
  trace_event(w, &e);
}

/* A GPU's trace as CUPTI writes it: scopes when they end, kernels last. Times in us. */
static const char *gpu_trace(void) {
  const char *path = file_in(2, "gpu.trace");
  TraceWriter *w = trace_create(path, "train --epochs 1");
  int64_t t0 = trace_clock(), us = 1000;
  put(w, (TraceEvent){.kind = TRACE_DEVICE, .device = 0, .device_ = {90, 132, 4.8e12, 60e12, 0}}, "H200", t0, t0);
  for (int i = 0; i < 2; i++)
    put(w, (TraceEvent){.kind = TRACE_CALL, .correlation = 1 + (uint64_t)i, .call.kind = CALL_LAUNCH}, "cuLaunchKernel",
        t0 + (20 + 10 * i) * us, t0 + (25 + 10 * i) * us);
  put(w, (TraceEvent){.kind = TRACE_METRIC, .metric = {2, 8e6}}, "flops", t0 + 22 * us, t0 + 22 * us);
  put(w, (TraceEvent){.kind = TRACE_RANGE, .range = {RANGE_OURS, 2, 1}}, "gemm [M=1024]", t0 + 15 * us, t0 + 40 * us);
  put(w, (TraceEvent){.kind = TRACE_CALL, .correlation = 3, .call.kind = CALL_LAUNCH}, "cuLaunchKernel", t0 + 50 * us,
      t0 + 55 * us);
  put(w, (TraceEvent){.kind = TRACE_CALL, .correlation = 4, .call.kind = CALL_COPY}, "cuMemcpyHtoDAsync", t0 + 60 * us,
      t0 + 65 * us);
  put(w, (TraceEvent){.kind = TRACE_WORK, .correlation = 3, .work = {1e6, 2e6, true, 0}}, NULL, t0 + 50 * us,
      t0 + 55 * us);
  put(w, (TraceEvent){.kind = TRACE_WORK, .correlation = 1, .work = {4e6, 1e6, true, 0}}, NULL, t0 + 20 * us,
      t0 + 25 * us);
  put(w, (TraceEvent){.kind = TRACE_RANGE, .range = {RANGE_OURS, 1, 0}}, "step", t0 + 10 * us, t0 + 70 * us);
  for (int i = 0; i < 3; i++) /* after the scope was left */
    put(w,
        (TraceEvent){.kind = TRACE_KERNEL,
                     .thread = 0,
                     .correlation = 1 + (uint64_t)i,
                     .stream = 7,
                     .kernel = {.grid = {8, 1, 1}, .block = {128, 1, 1}}},
        i < 2 ? "gemm_kernel" : "relu", t0 + (100 + 10 * i) * us, t0 + (104 + 10 * i) * us);
  put(w, (TraceEvent){.kind = TRACE_COPY, .correlation = 4, .stream = 7, .copy = {COPY_HOST_TO_DEVICE, true, 4096}},
      NULL, t0 + 140 * us, t0 + 142 * us);
  put(w, (TraceEvent){.kind = TRACE_KERNEL, .correlation = 99, .stream = 7}, "of nobody", t0 + 150 * us, t0 + 151 * us);
  assert_int_equal(trace_close(w, NULL), 0);
  return path;
}

static void test_tree(void **state) {
  const char *path = gpu_trace();
  char *text = view_text(
      path, "tree", (nereid_prof_view_options){.metrics = "time/us,gflop/s,gbyte/s,count,avg_time/us,cpu_time/us"});
  assert_string_equal(text,
                      "time/us gflop/s gbyte/s count avg_time/us cpu_time/us (scopes, and what was launched in them)\n"
                      "15.000 600.000 200.000 5 3.000 60.000 ROOT\n"
                      "├─ 14.000 642.857 214.286 1 3.500 60.000 step\n"
                      "│  ├─ 8.000 1000.000 125.000 1 4.000 25.000 gemm [M=1024]\n"
                      "│  │  └─ 8.000 500.000 125.000 2 4.000 nan gemm_kernel\n" /* counted: shown, but not added to
                                                                                    what the user says */
                      "│  ├─ 4.000 250.000 500.000 1 4.000 nan relu\n"
                      "│  └─ 2.000 nan nan 1 2.000 nan Memcpy HtoD (Pageable -> Device)\n"
                      "└─ 1.000 nan nan 1 1.000 nan of nobody\n");
  text = view_text(path, "tree", (nereid_prof_view_options){.rows = 4, .metrics = "time/%"});
  assert_string_equal(text, "time/% (scopes, and what was launched in them)\n"
                            "100.000 ROOT\n"
                            "├─ 93.333 step\n"
                            "│  ├─ 53.333 gemm [M=1024]\n"
                            "│  │  └─ 53.333 gemm_kernel\n"
                            "│  └─ (2 more)\n"
                            "└─ (1 more)\n");
  assert_error(
      nereid_prof_view(path, "tree", "/dev/null", &(nereid_prof_view_options){.metrics = "time/ms,speed"}, &error),
      NEREID_BAD_ARGUMENT,
      "error: the view 'tree': there is no metric 'speed': time/ms, avg_time/us, cpu_time/ms, count, tflop/s, gbyte/s, "
      "or a name given to nereid_prof_metric\n");
}

static void test_hatchet(void **state) {
  char *text = view_text(gpu_trace(), "hatchet", (nereid_prof_view_options){0});
  assert_string_equal(
      text, "[{\"frame\":{\"name\":\"ROOT\",\"type\":\"function\"},\"metrics\":{\"count\":0,\"time (ns)\":0,\"cpu_time "
            "(ns)\":0,\"flops\":0,\"bytes\":0},\"children\":["
            "{\"frame\":{\"name\":\"step\",\"type\":\"function\"},\"metrics\":{\"cpu_time (ns)\":35000},\"children\":["
            "{\"frame\":{\"name\":\"gemm [M=1024]\",\"type\":\"function\"},\"metrics\":{\"cpu_time "
            "(ns)\":25000,\"flops\":8000000},\"children\":["
            "{\"frame\":{\"name\":\"gemm_kernel\",\"type\":\"function\"},\"metrics\":{\"count\":2,\"device_id\":\"0\","
            "\"device_type\":\"CUDA\",\"time (ns)\":8000,\"bytes\":1000000},\"children\":[]}]},\n"
            "{\"frame\":{\"name\":\"relu\",\"type\":\"function\"},\"metrics\":{\"count\":1,\"device_id\":\"0\","
            "\"device_type\":\"CUDA\",\"time (ns)\":4000,\"flops\":1000000,\"bytes\":2000000},\"children\":[]},\n"
            "{\"frame\":{\"name\":\"Memcpy HtoD (Pageable -> "
            "Device)\",\"type\":\"function\"},\"metrics\":{\"count\":1,\"device_id\":\"0\",\"device_type\":\"CUDA\","
            "\"time (ns)\":2000},\"children\":[]}]},\n"
            "{\"frame\":{\"name\":\"of "
            "nobody\",\"type\":\"function\"},\"metrics\":{\"count\":1,\"device_id\":\"0\",\"device_type\":\"CUDA\","
            "\"time (ns)\":1000},\"children\":[]}]},\n"
            "{\"CUDA\":{\"0\":{\"arch\":\"90\",\"num_sms\":132,\"clock_rate\":1775568,\"memory_clock_rate\":2343750,"
            "\"bus_width\":8192}}}]\n");
}

static void test_view_targets(void **state) {
  const char *path = gpu_trace();
  assert_error(nereid_prof_view(path, "picture", NULL, NULL, &error), NEREID_BAD_ARGUMENT,
               "error: there is no view 'picture' of a trace\n"
               "  hint: there are table, tree, functions, advice, hatchet, chrome, html, folded, flame, folded-gpu, "
               "flame-gpu; and report: what of table, tree, functions and advice has something to say\n");
  assert_error(nereid_prof_view(path, "tree,html", NULL, NULL, &error), NEREID_BAD_ARGUMENT,
               "error: the view 'html' does not stand beside others\n  hint: write it to a file of its own\n");
  nereid_error *error = NULL;
  assert_int_equal(nereid_prof_view("/nowhere/a.trace", "table", NULL, NULL, &error), NEREID_BAD_FILE);
  assert_non_null(strstr(nereid_error_text(error), "the trace /nowhere/a.trace cannot be read: "));
  nereid_error_free(error);
  assert_error(nereid_prof_view(path, "tree", "/nowhere/tree.txt", NULL, &error), NEREID_BAD_FILE,
               "error: cannot write /nowhere/tree.txt: No such file or directory\n");
  assert_error(nereid_prof_view(path, "tree", "/dev/full", NULL, &error), NEREID_BAD_FILE,
               "error: cannot write /dev/full: No space left on device\n");

  const char *out = file_in(3, "kept.txt"); /* a view that fails leaves what was there, and nothing beside it */
  FILE *f = fopen(out, "w");
  fputs("old", f);
  fclose(f);
  assert_int_equal(nereid_prof_view(path, "tree", out, &(nereid_prof_view_options){.metrics = "nothing"}, NULL),
                   NEREID_BAD_ARGUMENT);
  struct stat s;
  assert_true(!stat(out, &s) && s.st_size == 3);
  char temporary[300];
  snprintf(temporary, sizeof temporary, "%s.%ld.tmp", out, (long)getpid());
  assert_int_equal(access(temporary, F_OK), -1);
  assert_ok(nereid_prof_view(path, "tree", out, NULL, &error));
  assert_true(!stat(out, &s) && s.st_size > 100);
  assert_int_equal(access(temporary, F_OK), -1);

  const char *text = view_text(path, "table,tree", (nereid_prof_view_options){.json = true});
  assert_non_null(strstr(text, "{\"table\":"));
  assert_non_null(strstr(text, "\"tree\":{\"name\":\"ROOT\""));
  text = view_text(path, "report", (nereid_prof_view_options){0});
  assert_non_null(strstr(text, "└─ "));
}

static int open_folder(void **state) { return mkdtemp(folder) ? 0 : 1; }
static int remove_folder(void **state) {
  char command[300];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

int main(void) {
  /* clang-format off */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_calls), cmocka_unit_test(test_failed_calls), cmocka_unit_test(test_graph),
        cmocka_unit_test(test_scopes),
      cmocka_unit_test(test_mistakes_in_a_loop), cmocka_unit_test(test_threads), cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_session_errors),
      cmocka_unit_test(test_pause), cmocka_unit_test(test_full_disk), cmocka_unit_test(test_fork),
        cmocka_unit_test(test_cuda),
      cmocka_unit_test(test_cuda_recorded),
      cmocka_unit_test(test_tree),     cmocka_unit_test(test_hatchet),            cmocka_unit_test(test_view_targets),
  };
  /* clang-format on */
  return cmocka_run_group_tests(tests, open_folder, remove_folder);
}
