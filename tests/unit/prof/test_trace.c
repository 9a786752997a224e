/* The profiler's trace files: what is written comes back, also from several threads, a full disk, damaged and cut
 * files, and folders. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prof/prof.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static char folder[64], file[96];

static int fresh(void **state) {
  strcpy(folder, "/tmp/nereid-trace-XXXXXX");
  assert_non_null(mkdtemp(folder));
  snprintf(file, sizeof file, "%s/1.trace", folder);
  return 0;
}
static int clean(void **state) {
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

static TraceReader *open_good(const char *path) {
  char buffer[300];
  const char *why = NULL;
  TraceReader *r = trace_open(path, &why, buffer);
  if (!r) fail_msg("%s: %s", path, why);
  return r;
}
static long count(TraceReader *r, TraceKind kind) {
  TraceEvent e;
  long n = 0;
  while (trace_next(r, &e)) n += e.kind == kind;
  return n;
}

/* ---- one of each ------------------------------------------------------------------------------------------------- */

static TraceEvent sample_of(TraceWriter *w, TraceKind kind) {
  TraceEvent e = {
      .kind = kind, .start = 1000 + kind, .end = 5000000000 + kind, .thread = 77, .name = trace_string(w, "a name")};
  uint64_t big = UINT64_C(0xfedcba9876543210);
  if (kind == TRACE_CALL || kind == TRACE_KERNEL || kind == TRACE_COPY || kind == TRACE_FILL || kind == TRACE_WORK)
    e.correlation = big;
  if (kind == TRACE_KERNEL || kind == TRACE_COPY || kind == TRACE_FILL || kind == TRACE_MEMORY || kind == TRACE_DEVICE)
    e.device = TRACE_CPU_DEVICE;
  if (kind == TRACE_KERNEL || kind == TRACE_COPY || kind == TRACE_FILL) e.stream = 7;
  switch (kind) {
    case TRACE_PROCESS: e.process_.wall = -12345; break;
    case TRACE_DEVICE:
      e.device_.sm = 90, e.device_.multiprocessors = 132, e.device_.bandwidth = 4.8e12, e.device_.flops = 0,
      e.device_.memory = INT64_MAX;
      break;
    case TRACE_CALL: e.call.kind = CALL_COPY_SYNC, e.call.result = -1; break;
    case TRACE_KERNEL:
      for (int i = 0; i < 3; i++) e.kernel.grid[i] = 0xffffffff - (unsigned)i, e.kernel.block[i] = (unsigned)i;
      e.kernel.registers = 255, e.kernel.shared = 232448, e.kernel.graph = big;
      break;
    case TRACE_COPY: e.copy.kind = COPY_UNKNOWN, e.copy.pageable = true, e.copy.bytes = INT64_MAX; break;
    case TRACE_FILL: e.fill.bytes = 1; break;
    case TRACE_RANGE: e.range.origin = RANGE_NVTX, e.range.id = big, e.range.parent = 3; break;
    case TRACE_METRIC: e.metric.range = 4, e.metric.value = -0.1; break;
    case TRACE_WORK:
      e.work.flops = 1e300, e.work.bytes = 3, e.work.exact = true, e.work.shapes = trace_string(w, "f32[4096,781]");
      break;
    case TRACE_MEMORY:
      e.memory.address = big, e.memory.bytes = INT64_MIN, e.memory.in_use = -1, e.memory.pinned_host = true;
      break;
    case TRACE_SAMPLE:
      e.sample.depth = TRACE_STACK, e.sample.weight = 1000000;
      for (int i = 0; i < TRACE_STACK; i++) e.sample.stack[i] = UINT64_MAX - (uint64_t)i;
      break;
    case TRACE_MODULE: e.module.base = big, e.module.size = 4096, e.module.offset = 1; break;
    case TRACE_LOST: e.lost.count = 9; break;
    default: break;
  }
  return e;
}

static void comes_back(void **state) {
  TraceWriter *w = trace_create(file, "prog --flag");
  assert_non_null(w);
  for (int k = 0; k < TRACE_KINDS; k++) {
    TraceEvent e = sample_of(w, (TraceKind)k);
    trace_event(w, &e);
  }
  TraceEvent symbolic = {
      .kind = TRACE_SAMPLE,
      .sample = {.depth = 2, .stack = {trace_string(w, "inner"), trace_string(w, "outer")}, .is_symbolic = true}};
  trace_event(w, &symbolic);
  trace_event(w, &(TraceEvent){.kind = TRACE_KINDS});                          /* no event */
  trace_event(w, &(TraceEvent){.kind = TRACE_SAMPLE, .sample.depth = 100000}); /* nor this */
  int64_t lost = 5;
  assert_int_equal(trace_close(w, &lost), 0);
  assert_int_equal(lost, 0);

  TraceReader *r = open_good(file);
  assert_false(trace_truncated(r));
  for (int round = 0; round < 2; round++) {
    TraceEvent e;
    assert_true(trace_next(r, &e));
    assert_int_equal(e.kind, TRACE_PROCESS);
    assert_string_equal(trace_text(r, e.name), "prog --flag");
    assert_int_equal(e.process, getpid());
    for (int k = 0; k < TRACE_KINDS; k++) {
      assert_true(trace_next(r, &e));
      TraceEvent wanted = sample_of(NULL, (TraceKind)k); /* names are compared as text */
      assert_string_equal(trace_text(r, e.name), "a name");
      if (k == TRACE_WORK) assert_string_equal(trace_text(r, e.work.shapes), "f32[4096,781]");
      e.name = 0, e.process = 0;
      if (k == TRACE_WORK) e.work.shapes = 0;
      size_t n = offsetof(TraceEvent, sample) + sizeof e.kernel; /* more of the union is not said */
      if (k == TRACE_SAMPLE) {
        assert_int_equal(e.sample.depth, TRACE_STACK);
        assert_int_equal(e.sample.weight, 1000000);
        assert_memory_equal(e.sample.stack, wanted.sample.stack, sizeof e.sample.stack);
      } else assert_memory_equal(&e, &wanted, n);
    }
    assert_true(trace_next(r, &e));
    assert_true(e.sample.is_symbolic);
    assert_string_equal(trace_text(r, (uint32_t)e.sample.stack[0]), "inner");
    assert_string_equal(trace_text(r, (uint32_t)e.sample.stack[1]), "outer");
    assert_true(trace_next(r, &e));
    assert_int_equal(e.kind, TRACE_PROCESS);
    assert_true(e.end >= e.start);
    assert_false(trace_next(r, &e));
    assert_false(trace_next(r, &e));
    trace_rewind(r);
  }
  trace_reader_free(r);
}

/* ---- many, from many threads, in constant memory ----------------------------------------------------------------- */

enum { THREADS = 4, EACH = 250000 };
static void *write_many(void *p) {
  TraceWriter *w = p;
  for (int i = 0; i < EACH; i++) {
    char name[32];
    snprintf(name, sizeof name, "kernel %d", i % 1000);
    trace_event(w, &(TraceEvent){.kind = TRACE_KERNEL,
                                 .name = trace_string(w, name),
                                 .start = i * 1000,
                                 .end = i * 1000 + 700,
                                 .correlation = (uint64_t)i % 1000,
                                 .kernel = {.grid = {1, 2, 3}}});
  }
  return NULL;
}
static void million(void **state) {
  TraceWriter *w = trace_create(file, NULL);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, write_many, w);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(trace_close(w, NULL), 0);
  struct stat s;
  stat(file, &s);
  assert_true(s.st_size < (off_t)THREADS * EACH * 32);

  /* A process that may have little more memory than it has now reads it. */
  pid_t child = fork();
  if (!child) {
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    TraceReader *r = open_good(file);
    TraceEvent e;
    long n = 0, wrong = 0;
    while (trace_next(r, &e)) {
      if (e.kind != TRACE_KERNEL) continue;
      char name[32];
      snprintf(name, sizeof name, "kernel %d", (int)e.correlation);
      n++, wrong += strcmp(name, trace_text(r, e.name)) != 0 || e.end - e.start != 700 ||
                    e.start / 1000 % 1000 != (int64_t)e.correlation;
    }
    trace_reader_free(r);
    getrusage(RUSAGE_SELF, &after);
    _exit(n != THREADS * EACH ? 1 : wrong ? 2 : after.ru_maxrss - before.ru_maxrss > 8 * 1024 ? 3 : 0);
  }
  int status;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
}

/* ---- no room ----------------------------------------------------------------------------------------------------- */

static void limited(void **state) {
  pid_t child = fork();
  if (!child) {
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000000, 1000000});
    TraceWriter *w = trace_create(file, "prog");
    write_many(w);
    int64_t lost = 0;
    int error = trace_close(w, &lost);
    sigset_t pending;
    sigpending(&pending);
    _exit(error != EFBIG ? 1 : lost < 1000 || lost > EACH ? 2 : sigismember(&pending, SIGXFSZ) ? 3 : 0);
  }
  int status;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  TraceReader *r = open_good(file);
  TraceEvent e;
  long kernels = 0, lost = 0;
  const char *reason = "", *command = "";
  while (trace_next(r, &e)) {
    kernels += e.kind == TRACE_KERNEL;
    if (e.kind == TRACE_LOST) lost = e.lost.count, reason = trace_text(r, e.name);
    if (e.kind == TRACE_PROCESS) command = trace_text(r, e.name);
  }
  assert_true(kernels > 10000);
  assert_int_equal(kernels + lost, EACH);
  assert_non_null(strstr(reason, "File too large"));
  assert_string_equal(command, "prog");
  trace_reader_free(r);
}

static void no_folder(void **state) {
  assert_null(trace_create("/nonexistent/folder/1.trace", "prog"));
  assert_int_equal(errno, ENOENT);
}

/* A program that closes all files and opens its own must not find ours in it. An ordinary user may have 1024 open; the
 * trace is opened again with one of those that are left. */
enum { MOST_FILES = 1000 };
static void closed_by_program(void **state) {
  TraceWriter *w = trace_create(file, "prog");
  for (int fd = 3; fd < 1024; fd++) close(fd);
  char other[128];
  snprintf(other, sizeof other, "%s/other", folder);
  int first = open(other, O_RDWR | O_CREAT, 0600);
  for (int fd = first + 1; fd < MOST_FILES; fd++) dup2(first, fd);
  write_many(w);
  assert_int_equal(trace_close(w, NULL), 0);
  struct stat s;
  fstat(first, &s);
  assert_int_equal(s.st_size, 0);
  for (int fd = first; fd < MOST_FILES; fd++) assert_int_equal(close(fd), 0);
  TraceReader *r = open_good(file);
  assert_int_equal(count(r, TRACE_KERNEL), EACH);
  trace_reader_free(r);
}

/* ---- forks and crashes ------------------------------------------------------------------------------------------- */

static void fork_and_crash(void **state) {
  TraceWriter *w = trace_create(file, "prog");
  trace_event(w, &(TraceEvent){.kind = TRACE_NOTE, .name = trace_string(w, "parent")});
  pid_t child = fork();
  if (!child) {
    trace_abandon(w);
    char mine[128];
    snprintf(mine, sizeof mine, "%s/10.trace", folder);
    TraceWriter *c = trace_create(mine, "child");
    trace_event(c, &(TraceEvent){.kind = TRACE_NOTE, .name = trace_string(c, "child")});
    trace_flush(c);
    trace_event(c, &(TraceEvent){.kind = TRACE_NOTE, .name = trace_string(c, "not written any more")});
    _exit(0);
  }
  waitpid(child, NULL, 0);
  trace_close(w, NULL);
  TraceReader *r = open_good(folder);
  assert_true(trace_truncated(r));
  TraceEvent e;
  const char *notes[4] = {""};
  int n = 0;
  uint32_t processes[4];
  while (trace_next(r, &e))
    if (e.kind == TRACE_NOTE && n < 4) notes[n] = trace_text(r, e.name), processes[n++] = e.process;
  assert_int_equal(n, 2);
  assert_string_equal(notes[0], "parent");
  assert_string_equal(notes[1], "child");
  assert_int_equal(processes[0], getpid());
  assert_int_equal(processes[1], child);
  trace_reader_free(r);
}

static void end_and_on(void **state) { /* an exec that fails */
  TraceWriter *w = trace_create(file, "prog");
  trace_mark_end(w);
  TraceReader *r = open_good(file);
  assert_false(trace_truncated(r));
  trace_reader_free(r);
  trace_event(w, &(TraceEvent){.kind = TRACE_NOTE});
  trace_flush(w);
  r = open_good(file);
  assert_true(trace_truncated(r));
  trace_reader_free(r);
  trace_close(w, NULL);
  r = open_good(file);
  assert_false(trace_truncated(r));
  assert_int_equal(count(r, TRACE_NOTE), 1);
  trace_reader_free(r);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static void write_bytes(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  fwrite(bytes, 1, n, f);
  fclose(f);
}

static void refused(void **state) {
  char buffer[300];
  const char *why = NULL;
  assert_null(trace_open("/nonexistent", &why, buffer));
  assert_string_equal(why, "No such file or directory");
  assert_null(trace_open(folder, &why, buffer));
  assert_string_equal(why, "this folder holds no trace (no file *.trace)");
  write_bytes(file, "{\"traceEvents\": []}", 19);
  assert_null(trace_open(file, &why, buffer));
  assert_string_equal(why, "this is not a trace that nereid wrote");
  assert_null(trace_open(folder, &why, buffer));
  assert_string_equal(why, "this is not a trace that nereid wrote");
  write_bytes(file, "NEREIDTR\11\0\0\0\0\0\0\0", 16);
  assert_null(trace_open(file, &why, buffer));
  assert_string_equal(why, "it was written by another version of nereid, whose traces differ");
  write_bytes(file, "", 0);
  assert_null(trace_open(file, &why, buffer));
  assert_string_equal(why, "it is empty: nothing had been written when its process ended");
}

static void with_a_bad_one(void **state) {
  TraceWriter *w = trace_create(file, "prog");
  trace_close(w, NULL);
  char bad[128];
  snprintf(bad, sizeof bad, "%s/2.trace", folder);
  write_bytes(bad, "NEREI", 5);
  TraceReader *r = open_good(folder);
  TraceEvent e;
  const char *note = "";
  while (trace_next(r, &e))
    if (e.kind == TRACE_NOTE) note = trace_text(r, e.name);
  assert_non_null(strstr(note, "/2.trace was left out: it is empty"));
  assert_true(trace_truncated(r));
  trace_reader_free(r);
}

/* Cut at any place, or with any byte changed, a trace is read without harm, and gives what was whole. */
static void damaged(void **state) {
  TraceWriter *w = trace_create(file, "prog");
  for (int i = 0; i < 30; i++) {
    for (int k = 0; k < TRACE_KINDS; k++) {
      TraceEvent e = sample_of(w, (TraceKind)k);
      trace_event(w, &e);
    }
    if (i % 10 == 9) trace_flush(w);
  }
  trace_close(w, NULL);
  Buf whole = {0};
  assert_true(file_read(file, &whole));
  srand(1);
  for (int trial = 0; trial < 400; trial++) {
    char *copy = malloc(whole.n);
    memcpy(copy, whole.at, whole.n);
    size_t n = whole.n, at = (size_t)rand() % (whole.n - 16) + 16;
    if (trial % 2) n = at;
    else copy[at] ^= (char)(1 << rand() % 8);
    write_bytes(file, copy, n);
    free(copy);
    TraceReader *r = open_good(file);
    TraceEvent e;
    long events = 0, lost = 0;
    while (trace_next(r, &e)) events++, lost += e.kind == TRACE_LOST && e.lost.count < 0;
    assert_true(trace_truncated(r) || n == whole.n - 0);
    if (!(trial % 2) && at < whole.n - 16) assert_true(trace_truncated(r)); /* a changed byte never goes unseen */
    if (!(trial % 2)) assert_true(lost <= 1);
    assert_true(events <= 30 * TRACE_KINDS + 3);
    if (!(trial % 2) && at > 16 + 16) assert_true(events >= 0);
    trace_reader_free(r);
  }
  /* The second of four chunks is damaged: the others are there. */
  uint32_t length;
  memcpy(&length, whole.at + 16 + 4, 4);
  whole.at[16 + 16 + length + 16 + 5] ^= 1;
  write_bytes(file, whole.at, whole.n);
  TraceReader *r = open_good(file);
  TraceEvent e;
  long metrics = 0, lost = 0;
  while (trace_next(r, &e)) metrics += e.kind == TRACE_METRIC, lost += e.kind == TRACE_LOST && e.lost.count < 0;
  assert_int_equal(metrics, 20);
  assert_int_equal(lost, 1);
  trace_reader_free(r);
  buf_destroy(&whole);
}

/* A chunk whose checksum is right and whose content is not: of another program, or of a version to come. */
static void nonsense(void **state) {
  srand(2);
  for (int trial = 0; trial < 3000; trial++) {
    uint8_t bytes[16 + 2 * (16 + 600)], *at = bytes;
    memcpy(at, "NEREIDTR\1\0\0\0\7\0\0\0", 16), at += 16;
    for (int chunk = 0; chunk < 2; chunk++) {
      uint32_t length = 1 + (uint32_t)rand() % 600, mark = 0x4b43524e;
      uint8_t *payload = at + 16;
      for (uint32_t i = 0; i < length; i++) payload[i] = (uint8_t)(rand() % 3 ? rand() % 16 : rand());
      if (rand() % 2) payload[0] = (uint8_t)(rand() % TRACE_KINDS);
      if (rand() % 4 == 0) payload[0] = 0xff; /* a string */
      uint64_t hash = hash_bytes(payload, length, 0);
      memcpy(at, &mark, 4), memcpy(at + 4, &length, 4), memcpy(at + 8, &hash, 8);
      at = payload + length;
    }
    write_bytes(file, bytes, (size_t)(at - bytes));
    TraceReader *r = open_good(file);
    TraceEvent e;
    long n = 0;
    while (trace_next(r, &e)) {
      n++;
      assert_true((unsigned)e.kind < TRACE_KINDS && e.process == 7);
      assert_non_null(trace_text(r, e.name));
      assert_true(e.kind != TRACE_SAMPLE || e.sample.depth <= TRACE_STACK);
      assert_true(e.kind != TRACE_CALL || (unsigned)e.call.kind <= CALL_COPY_SYNC);
    }
    assert_true(n <= 1300 && trace_truncated(r));
    trace_reader_free(r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(comes_back, fresh, clean),
      cmocka_unit_test_setup_teardown(million, fresh, clean),
      cmocka_unit_test_setup_teardown(limited, fresh, clean),
      cmocka_unit_test(no_folder),
      cmocka_unit_test_setup_teardown(closed_by_program, fresh, clean),
      cmocka_unit_test_setup_teardown(fork_and_crash, fresh, clean),
      cmocka_unit_test_setup_teardown(end_and_on, fresh, clean),
      cmocka_unit_test_setup_teardown(refused, fresh, clean),
      cmocka_unit_test_setup_teardown(with_a_bad_one, fresh, clean),
      cmocka_unit_test_setup_teardown(damaged, fresh, clean),
      cmocka_unit_test_setup_teardown(nonsense, fresh, clean),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
