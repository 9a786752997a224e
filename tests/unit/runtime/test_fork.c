/* A child of fork() goes on with its parent's devices and modules, whatever the parent's other threads were doing. */
#include "runtime_kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAMS = 200000, FORKS = 40, WORKERS = 3 };

/* So many programs that the pool runs them. Returns 0 when each has written its number. */
static int mark_all(nereid_device *d, nereid_module *m, int programs) {
  nereid_error *error = NULL;
  int32_t *out = NULL;
  int bad = nereid_alloc(d, programs * (int64_t)sizeof *out, (void **)&out, &error) != 0;
  nereid_arg args[] = {nereid_pointer(out, NEREID_I32)};
  bad = bad || nereid_launch(d, NULL, m, "mark", (int64_t[]){programs, 1, 1}, args, 1, NULL, &error);
  int32_t last = 0;
  bad = bad || nereid_copy_to_host(d, &last, out + programs - 1, sizeof last, &error) || last != programs;
  if (error) fputs(nereid_error_text(error), stderr);
  nereid_error_free(error);
  nereid_free(d, out);
  return bad;
}

/* The status of a child that runs fn; a child that hangs is ended by its alarm, and fails. */
static int in_child(int (*fn)(void *arg), void *arg) {
  pid_t child = fork();
  if (!child) {
    alarm(1200); /* only where it hangs */
    _exit(fn(arg));
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

typedef struct Both {
  nereid_device *d;
  nereid_module *m;
  int programs;
  atomic_bool end;
  _Atomic int bad;
} Both;

static int launch_and_close(void *arg) {
  Both *b = arg;
  if (mark_all(b->d, b->m, b->programs) || mark_all(b->d, b->m, b->programs)) return 1;
  nereid_module_free(b->m);
  nereid_device_close(b->d);
  return 0;
}

static int fork_again(void *arg) { return in_child(launch_and_close, arg) != 0 || launch_and_close(arg); }

static void test_after_launches(void **state) {
  Both b = {kit_device("cpu:2"), kit_module(), PROGRAMS, false, 0};
  assert_int_equal(mark_all(b.d, b.m, PROGRAMS), 0);
  assert_int_equal(in_child(launch_and_close, &b), 0);
  assert_int_equal(in_child(fork_again, &b), 0);
  assert_int_equal(launch_and_close(&b), 0);
}

/* Launches, allocates, and now and then compiles. */
static void *work(void *arg) {
  Both *b = arg;
  while (!atomic_load(&b->end)) {
    nereid_module *m = kit_module();
    if (mark_all(b->d, m, 1000) || mark_all(b->d, b->m, b->programs)) atomic_store(&b->bad, 1);
    nereid_module_free(m);
  }
  return NULL;
}

/* A sanitizer's allocator of gcc 12 has locks that fork() copies as they are: the child of a program whose other
 * threads allocate may wait for ever. libc's own takes them first. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ALLOCATOR_FORKS = false };
#else
enum { ALLOCATOR_FORKS = true };
#endif

static void while_threads_work(const char *device, int programs) {
  if (!ALLOCATOR_FORKS) skip();
  Both b = {kit_device(device), kit_module(), programs, false, 0};
  pthread_t threads[WORKERS];
  for (int i = 0; i < WORKERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &b), 0);
  for (int i = 0; i < FORKS; i++) assert_int_equal(in_child(launch_and_close, &b), 0);
  atomic_store(&b.end, true);
  for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(b.bad, 0);
  assert_int_equal(launch_and_close(&b), 0);
}

static void test_cpu_threads(void **state) { while_threads_work("cpu:2", PROGRAMS); }
static void test_interp_threads(void **state) { while_threads_work("interp", 50); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_after_launches),
      cmocka_unit_test(test_cpu_threads),
      cmocka_unit_test(test_interp_threads),
  };
  return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
