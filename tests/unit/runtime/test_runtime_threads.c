/* Many threads on one device and one module: compiling, launching, allocating, failing at once. Meant for
 * ThreadSanitizer too. */
#include "unit/runtime/runtime_kit.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, TURNS = 30, N = 64 };

typedef struct Shared {
  nereid_device *d;
  nereid_module *m;
  pthread_barrier_t start;
  atomic_int compiled; /* lines of static_print */
  int case_count;
} Shared;

typedef struct Worker {
  Shared *shared;
  int index;
  char why[512];
} Worker;

static void count_line(void *arg, const char *line) { atomic_fetch_add((atomic_int *)arg, 1); }

static int one_launch(Worker *w, int turn, nereid_error **error) {
  Shared *s = w->shared;
  float *x = NULL, *out = NULL, host[N];
  int block = 64 << (turn % s->case_count); /* each its own specialization */
  nereid_options options = {.print = count_line, .print_arg = &s->compiled};
  for (int i = 0; i < N; i++) host[i] = (float)(i * w->index + turn);
  int failed = nereid_alloc(s->d, sizeof host, (void **)&x, error) ||
               nereid_alloc(s->d, sizeof host, (void **)&out, error) ||
               nereid_copy_to_device(s->d, x, host, sizeof host, error);
  nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_pointer(x, NEREID_F32), nereid_pointer(out, NEREID_F32),
                       nereid_int(N), nereid_int(block)};
  failed = failed || nereid_launch(s->d, NULL, s->m, "add", (int64_t[]){3, 2, 1}, args, 5, &options, error) ||
           nereid_copy_to_host(s->d, host, out, sizeof host, error);
  for (int i = 0; i < N && !failed; i++)
    if (host[i] != 2 * (float)(i * w->index + turn))
      failed = 1, snprintf(w->why, sizeof w->why, "out[%d] is %g", i, host[i]);
  nereid_error *expected = NULL; /* a failure every now and then */
  args[0] = nereid_named(nereid_int(1), "nobody");
  if (nereid_launch(s->d, NULL, s->m, "add", (int64_t[]){1, 1, 1}, args, 1, NULL, &expected) != NEREID_BAD_ARGUMENT)
    failed = 1;
  nereid_error_free(expected);
  nereid_free(s->d, x);
  nereid_free(s->d, out);
  return failed;
}

static void *work(void *arg) {
  Worker *w = arg;
  pthread_barrier_wait(&w->shared->start);
  for (int turn = 0; turn < TURNS && !w->why[0]; turn++) {
    nereid_error *error = NULL;
    if (one_launch(w, turn, &error) && !w->why[0])
      snprintf(w->why, sizeof w->why, "turn %d: %s", turn, nereid_error_text(error));
    nereid_error_free(error);
  }
  return NULL;
}

static void many_threads(const char *device, int cases) {
  Shared s = {.d = kit_device(device), .m = kit_module(), .case_count = cases};
  pthread_barrier_init(&s.start, NULL, THREADS);
  Worker workers[THREADS] = {0};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (Worker){.shared = &s, .index = i};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++)
    if (workers[i].why[0]) fail_msg("%s", workers[i].why);
  assert_int_equal(atomic_load(&s.compiled), cases); /* each once, whoever asked first */
  pthread_barrier_destroy(&s.start);
  nereid_module_free(s.m);
  nereid_device_close(s.d);
}

static void test_interp(void **state) { many_threads("interp", 8); }
static void test_cpu(void **state) { many_threads("cpu:3", 3); }

/* A compilation that fails: everyone gets the error, and the next launch tries again. */
static const char broken[] = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n    "
                             "tl.static_print('trying')\n    tl.nonsense(x)\n";

static void *fail_together(void *arg) {
  Worker *w = arg;
  nereid_arg args[] = {nereid_pointer(NULL, NEREID_F32)};
  nereid_options options = {.print = count_line, .print_arg = &w->shared->compiled};
  pthread_barrier_wait(&w->shared->start);
  nereid_error *error = NULL;
  nereid_status s =
      nereid_launch(w->shared->d, NULL, w->shared->m, "k", (int64_t[]){1, 1, 1}, args, 1, &options, &error);
  if (s != NEREID_BAD_SOURCE || !error || !strstr(nereid_error_text(error), "broken.py:6:"))
    snprintf(w->why, sizeof w->why, "%d: %s", (int)s, nereid_error_text(error));
  nereid_error_free(error);
  return NULL;
}

static void test_failures(void **state) {
  Shared s = {.d = kit_device("interp")};
  assert_ok(nereid_module_load_string("broken.py", broken, &s.m, &error));
  pthread_barrier_init(&s.start, NULL, THREADS);
  Worker workers[THREADS] = {0};
  pthread_t threads[THREADS];
  for (int turn = 0; turn < 10; turn++) {
    for (int i = 0; i < THREADS; i++) {
      workers[i] = (Worker){.shared = &s, .index = i};
      assert_int_equal(pthread_create(&threads[i], NULL, fail_together, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
      if (workers[i].why[0]) fail_msg("%s", workers[i].why);
  }
  int tries = atomic_load(&s.compiled);
  assert_true(tries >= 10 && tries <= 10 * THREADS);
  pthread_barrier_destroy(&s.start);
  nereid_module_free(s.m);
  nereid_device_close(s.d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_interp), cmocka_unit_test(test_cpu),
                                     cmocka_unit_test(test_failures)};
  return cmocka_run_group_tests_name("runtime threads", tests, NULL, NULL);
}
