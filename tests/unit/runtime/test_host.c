/* Hosts of every kind: threads with small stacks, blocked signals, SIGCHLD ignored. */
#include "runtime_kit.h"

#include <pthread.h>
#include <signal.h>

typedef struct Job {
  nereid_device *d;
  nereid_module *m;
  bool all_blocked;
  int bad;
} Job;

static void *launch(void *arg) {
  Job *j = arg;
  nereid_error *error = NULL;
  int32_t *out = NULL, last = 0;
  sigset_t all;
  sigfillset(&all);
  if (j->all_blocked) pthread_sigmask(SIG_SETMASK, &all, NULL);
  j->bad = nereid_alloc(j->d, 1000 * sizeof *out, (void **)&out, &error) != 0;
  nereid_arg args[] = {nereid_pointer(out, NEREID_I32)};
  j->bad = j->bad || nereid_launch(j->d, NULL, j->m, "mark", (int64_t[]){1000, 1, 1}, args, 1, NULL, &error);
  j->bad = j->bad || nereid_copy_to_host(j->d, &last, out + 999, sizeof last, &error) || last != 1000;
  if (error) fputs(nereid_error_text(error), stderr);
  nereid_error_free(error);
  nereid_free(j->d, out);
  return NULL;
}

static void on_thread(Job *j, size_t stack) {
  pthread_attr_t a;
  pthread_t t;
  pthread_attr_init(&a);
  assert_int_equal(pthread_attr_setstacksize(&a, stack), 0);
  assert_int_equal(pthread_create(&t, &a, launch, j), 0);
  pthread_join(t, NULL);
  pthread_attr_destroy(&a);
  assert_int_equal(j->bad, 0);
}

#if defined(__SANITIZE_ADDRESS__)
enum { WIDER = 4 }; /* its frames are larger */
#else
enum { WIDER = 1 };
#endif

static void on_device(const char *name) {
  Job j = {kit_device(name), kit_module(), true, 0};
  setenv("NEREID_CC", "cc -DTEST_HOST", 1); /* nobody has compiled it so */
  on_thread(&j, WIDER * (256 << 10));       /* compiles */
  on_thread(&j, WIDER * (64 << 10));        /* launches */
  nereid_module_free(j.m);
  struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
  sigaction(SIGCHLD, &ignore, &before);
  setenv("NEREID_CC", "cc -DTEST_HOST=2", 1);
  j.m = kit_module();
  on_thread(&j, WIDER * (256 << 10));
  sigaction(SIGCHLD, &before, NULL);
  unsetenv("NEREID_CC");
  nereid_module_free(j.m);
  nereid_device_close(j.d);
}

static void test_cpu(void **state) { on_device("cpu:2"); }
static void test_interp(void **state) { on_device("interp"); }

int main(void) {
  char cache[] = "/tmp/nereid-test-host-XXXXXX", command[100];
  if (!mkdtemp(cache)) return 1;
  setenv("NEREID_CACHE_DIR", cache, 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cpu),
      cmocka_unit_test(test_interp),
  };
  int status = cmocka_run_group_tests_name("host", tests, NULL, NULL);
  snprintf(command, sizeof command, "rm -rf %s", cache);
  return system(command) || status;
}
