/* Programs that are started from hosts of every kind: that ignore SIGCHLD, reap every child, block signals, have no
 * stdin; programs that take too long, say too much, or leave others running. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

#include <cmocka.h> /* after base.h: it makes a macro of fail */

enum { MS = 1000000 };

static const char *const seven[] = {"/bin/sh", "-c", "echo said; exit 7", NULL};
static const char *const killed[] = {"/bin/sh", "-c", "kill -9 $$", NULL};
/* like a compiler: waits for its own child */
static const char *const passes[] = {"/bin/sh", "-c", "/bin/sh -c 'exit 5'; echo $?", NULL};

static bool statuses_are_told(void) {
  Buf out = {0};
  bool good = process_run(seven, &out) == 7 && out.at && !strcmp(out.at, "said\n");
  out.n = 0;
  good = good && process_run(killed, NULL) == 128 + 9;
  good = good && process_run(passes, &out) == 0 && !strcmp(out.at, "5\n");
  buf_destroy(&out);
  return good;
}

static void reap_all(int number) {
  int error = errno;
  while (waitpid(-1, NULL, WNOHANG) > 0) {}
  errno = error;
}

static void test_sigchld(void **state) {
  struct sigaction before, hosts[] = {{.sa_handler = SIG_IGN},
                                      {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT},
                                      {.sa_handler = reap_all, .sa_flags = SA_RESTART},
                                      {.sa_handler = reap_all}};
  assert_true(statuses_are_told());
  sigaction(SIGCHLD, NULL, &before);
  for (int i = 0; i < 4; i++) {
    sigaction(SIGCHLD, &hosts[i], NULL);
    for (int k = 0; k < 5; k++)
      if (!statuses_are_told()) fail_msg("host %d", i);
    sigaction(SIGCHLD, &before, NULL);
  }
}

static atomic_bool reaping;
static void *reaper(void *arg) {
  while (atomic_load(&reaping))
    if (waitpid(-1, NULL, 0) < 0) usleep(100);
  return NULL;
}

/* SIGCHLD is as usual, but a thread of the host takes every child. */
static void test_reaper_thread(void **state) {
  pthread_t t;
  atomic_store(&reaping, true);
  assert_int_equal(pthread_create(&t, NULL, reaper, NULL), 0);
  for (int k = 0; k < 10; k++) assert_true(statuses_are_told());
  atomic_store(&reaping, false);
  pthread_join(t, NULL);
}

static void test_blocked_signals(void **state) {
  static const char *const argv[] = {"/bin/sh", "-c", "kill -TERM $$; echo still here", NULL};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Buf out = {0};
  int status = process_run(argv, &out);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  assert_int_equal(status, 128 + SIGTERM);
  assert_int_equal(out.n, 0);
  buf_destroy(&out);
}

/* Ends, or is a zombie that nobody reaps. */
static bool is_running(long pid) {
  char path[64];
  Buf b = {0};
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  const char *state = file_read(path, &b) && b.at ? strrchr(b.at, ')') : NULL;
  bool runs = state && state[2] != 'Z' && state[2] != 'X';
  buf_destroy(&b);
  return runs;
}

static bool ends_soon(long pid) {
  for (int i = 0; i < 600000 && is_running(pid); i++) usleep(1000);
  return !is_running(pid);
}

/* With more time each time until the program, on a machine that is busy, has come to say something. */
static bool runs_out_of_time(const char *const *argv, Buf *out) {
  bool right = true;
  for (int64_t ns = 200 * MS; right && !out->n; ns *= 2)
    right = process_run_with(argv, &(ProcessOptions){.most_ns = ns}, out) == -1 && errno == ETIMEDOUT;
  return right;
}

static void test_time_limit(void **state) {
  static const char *const argv[] = {"/bin/sh", "-c", "sleep 1000 & echo $!; wait", NULL};
  static const char *const endless[] = {"yes", NULL};
  for (int ignored = 0; ignored < 2; ignored++) {
    void (*before)(int) = signal(SIGCHLD, ignored ? SIG_IGN : SIG_DFL);
    Buf out = {0};
    assert_true(runs_out_of_time(argv, &out));
    assert_true(atol(out.at) > 1);
    assert_true(ends_soon(atol(out.at))); /* the whole group */
    out.n = 0;
    assert_true(runs_out_of_time(endless, &out));
    assert_in_range(out.n, 1, 1 << 20); /* the rest was dropped */
    buf_destroy(&out);
    signal(SIGCHLD, before);
  }
}

/* A server that a compiler's wrapper starts keeps the output open and goes on. */
static void test_left_running(void **state) {
  static const char *const argv[] = {"/bin/sh", "-c", "setsid sleep 1000 & echo $!; exit 3", NULL};
  Buf out = {0};
  assert_int_equal(process_run(argv, &out), 3);
  assert_true(is_running(atol(out.at)));
  kill((pid_t)atol(out.at), SIGKILL);
  buf_destroy(&out);
}

static void *stop_it(void *arg) {
  while (!atomic_load((atomic_bool *)arg)) {
    usleep(1000);
    process_stop_all();
  }
  return NULL;
}

static void test_stop(void **state) {
  static const char *const argv[] = {"sleep", "1000", NULL};
  atomic_bool done = false;
  pthread_t t;
  assert_int_equal(pthread_create(&t, NULL, stop_it, &done), 0);
  int status = process_run(argv, NULL), error = errno;
  atomic_store(&done, true);
  pthread_join(t, NULL);
  assert_int_equal(status, -1);
  assert_int_equal(error, ECANCELED);
  assert_true(statuses_are_told());
}

/* ---- a signal as soon as a program or a folder is there, before it could be noted anywhere ---- */

static atomic_int wanted; /* a signal: 0 none, 1 to this thread, 2 to the other one */
static atomic_bool begun, ended, leave;
static pthread_t other;

static void on_signal(int number) {
  int error = errno;
  atomic_store(&begun, true);
  process_stop_all();
  temp_remove_all();
  atomic_store(&ended, true);
  errno = error;
}

static void interrupt(void) {
  int whom = atomic_exchange(&wanted, 0);
  if (whom == 1) raise(SIGUSR1);
  if (whom != 2) return;
  pthread_kill(other, SIGUSR1);
  while (!atomic_load(&begun)) usleep(100);
}

/* In place of the C library's. */
int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                 char *const *argv, char *const *env) {
  int (*real)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *,
              char *const *);
  *(void **)&real = dlsym(RTLD_NEXT, "posix_spawnp");
  int error = real(pid, file, actions, attr, argv, env);
  interrupt();
  return error;
}

char *mkdtemp(char *path) {
  char *(*real)(char *);
  *(void **)&real = dlsym(RTLD_NEXT, "mkdtemp");
  char *made = real(path);
  interrupt();
  return made;
}

static void *be_interrupted(void *arg) {
  while (!atomic_load(&leave)) usleep(100);
  return NULL;
}

static void test_interrupted(void **state) {
  static const char *const five[] = {"/bin/sh", "-c", "exit 5", NULL}, *const endless[] = {"sleep", "1000", NULL};
  struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
  sigaction(SIGUSR1, &act, &before);
  atomic_store(&leave, false);
  assert_int_equal(pthread_create(&other, NULL, be_interrupted, NULL), 0);
  for (int whom = 1; whom <= 2; whom++) {
    atomic_store(&begun, false);
    atomic_store(&wanted, whom);
    assert_int_equal(process_run(whom == 1 ? five : endless, NULL), -1);
    assert_int_equal(errno, ECANCELED);
    TempFolder t;
    atomic_store(&begun, false);
    atomic_store(&ended, false);
    atomic_store(&wanted, whom);
    assert_true(temp_create(&t, NULL));
    while (!atomic_load(&ended)) usleep(100);
    assert_int_not_equal(access(t.path, F_OK), 0);
    temp_remove(&t);
  }
  atomic_store(&leave, true);
  pthread_join(other, NULL);
  sigaction(SIGUSR1, &before, NULL);
  assert_int_equal(process_run(five, NULL), 5);
}

static void test_no_stdio(void **state) {
  pid_t child = fork();
  if (!child) {
    for (int i = 0; i < 3; i++) close(i);
    bool plain = statuses_are_told();
    signal(SIGCHLD, SIG_IGN);
    _exit(plain && statuses_are_told() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
}

static void test_descriptors(void **state) {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
  static const char *const argv[] = {"/bin/sh", "-c", "for f in /proc/self/fd/*; do echo ${f##*/}; done", NULL};
  int host = fcntl(0, F_DUPFD, 57); /* without close-on-exec, as hosts have them */
  assert_true(host >= 57);
  for (int ignored = 0; ignored < 2; ignored++) {
    void (*before)(int) = signal(SIGCHLD, ignored ? SIG_IGN : SIG_DFL);
    Buf out = {0};
    assert_int_equal(process_run(argv, &out), 0);
    signal(SIGCHLD, before);
    for (char *at = out.at; *at; at = strchr(at, '\n') + 1) assert_true(atoi(at) < 12);
    buf_destroy(&out);
  }
  close(host);
#endif
}

static void test_environment(void **state) {
  static const char *const argv[] = {"/bin/sh", "-c", "printf %s \"$TMPDIR $NEREID_TEST_C\"", NULL};
  Buf out = {0};
  ProcessOptions o = {.folder = "/some/where", .setting = "NEREID_TEST_C=given"};
  setenv("TMPDIR", "/else/where", 1);
  assert_int_equal(process_run_with(argv, &o, &out), 0);
  assert_string_equal(out.at, "/some/where given");
  assert_string_equal(getenv("TMPDIR"), "/else/where");
  unsetenv("TMPDIR");
  buf_destroy(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sigchld),     cmocka_unit_test(test_reaper_thread), cmocka_unit_test(test_blocked_signals),
      cmocka_unit_test(test_time_limit),  cmocka_unit_test(test_left_running),  cmocka_unit_test(test_stop),
      cmocka_unit_test(test_no_stdio),    cmocka_unit_test(test_descriptors),   cmocka_unit_test(test_environment),
      cmocka_unit_test(test_interrupted),
  };
  return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
