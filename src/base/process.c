/* Programs that Nereid starts: compilers, assemblers, disassemblers.
 *
 * The host may be any process, so nothing is taken for granted: threads block signals, SIGCHLD is ignored or handled by
 * someone who reaps every child, stdin, stdout and stderr may be closed, and the host's descriptors are not ours to
 * hand on. The program starts with the usual signals, with stdin empty, in a process group of its own, which goes as a
 * whole when it takes too long or when process_stop_all is called.
 *
 * waitpid tells how the program ended only if nobody else reaps our children. Where SIGCHLD is not handled as usual, or
 * the program turns out to have been reaped, /bin/sh runs it and writes the status to a pipe:
 *
 *     /bin/sh -c '"$@" 3>&-; echo $? >&3' sh PROGRAM ARGUMENTS
 *
 * The program and its arguments are the shell's arguments, which it does not look into.
 */
#define _GNU_SOURCE
#include "base/base.h"
#include "base/handlers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
  MOST_OUTPUT = 1 << 20, /* of what a program says, the rest is dropped */
  MOST_RUNNING = 256,    /* that process_stop_all knows */
  MOST_WORDS = 64,
  REPORT_FD = 3,
  SLICE_MS = 100,
  STOP_SLICE_MS = 4, /* where another thread may stop it */
};

/* Read by a signal handler, so without a lock. */
static struct Running {
  atomic_bool taken, stopped;
  _Atomic pid_t pid; /* the leader of its group; 0: none */
} running[MOST_RUNNING];

typedef struct Child {
  pid_t pid;
  int output, report; /* ends that we read; -1: none */
  struct Running *slot;
  bool reaped, has_status;
  int status;
} Child;

static void in_child(void *owner) { /* they are the parent's */
  for (int i = 0; i < MOST_RUNNING; i++) atomic_store(&running[i].pid, 0);
}
static ForkHook fork_hook = {.in_child = in_child};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void watch_forks(void) { fork_hook_add(&fork_hook); }

void process_stop_all(void) {
  handlers_wait(); /* one that has started and is not noted yet */
  for (int i = 0; i < MOST_RUNNING; i++) {
    pid_t pid = atomic_load(&running[i].pid);
    if (pid <= 0) continue;
    atomic_store(&running[i].stopped, true);
    kill(-pid, SIGKILL);
  }
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

/* The environment with what o sets; NULL: out of memory. The strings are shared; *tmp is to be freed too. */
static char **environment_for(const ProcessOptions *o, char **tmp) {
  size_t n = 0, kept = 0;
  while (environ[n]) n++;
  char **made = malloc((n + 3) * sizeof *made);
  *tmp = NULL;
  if (!made) return NULL;
  if (o->folder) {
    *tmp = malloc(strlen(o->folder) + sizeof "TMPDIR=");
    if (!*tmp) return free(made), NULL;
    strcpy(*tmp, "TMPDIR=");
    strcat(*tmp, o->folder);
  }
  size_t name = o->setting ? strcspn(o->setting, "=") + 1 : 0;
  bool has_setting = !o->setting;
  for (size_t i = 0; i < n; i++) {
    has_setting = has_setting || !strncmp(environ[i], o->setting, name);
    if (!*tmp || strncmp(environ[i], "TMPDIR=", 7)) made[kept++] = environ[i];
  }
  if (*tmp) made[kept++] = *tmp;
  if (!has_setting) made[kept++] = (char *)(uintptr_t)o->setting; /* posix_spawn does not write through it */
  made[kept] = NULL;
  return made;
}

/* A pipe whose ends are none of 0 to 3, which the program's own descriptors take. */
static bool pipe_above(int ends[2]) {
  int low[2];
  if (pipe2(low, O_CLOEXEC) != 0) return false;
  for (int i = 0; i < 2; i++) ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, REPORT_FD + 1);
  int error = errno;
  close(low[0]), close(low[1]);
  if (ends[0] >= 0 && ends[1] >= 0) return true;
  if (ends[0] >= 0) close(ends[0]);
  if (ends[1] >= 0) close(ends[1]);
  errno = error;
  return false;
}

static int set_attributes(posix_spawnattr_t *a) {
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  sigaddset(&usual, SIGPIPE);
  sigaddset(&usual, SIGCHLD); /* a compiler waits for its passes */
  int error = posix_spawnattr_setsigmask(a, &none);
  if (!error) error = posix_spawnattr_setsigdefault(a, &usual);
  if (!error) error = posix_spawnattr_setpgroup(a, 0);
  if (!error)
    error = posix_spawnattr_setflags(a, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  return error;
}

/* Starts argv; an errno value. report < 0: none. */
static int spawn(const char *const *argv, char *const *environment, int output, int report, pid_t *child) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (error) {
    posix_spawn_file_actions_destroy(&actions);
    return error;
  }
  error = set_attributes(&attributes);
  if (!error) error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (!error) error = posix_spawn_file_actions_adddup2(&actions, output, 1);
  if (!error) error = posix_spawn_file_actions_adddup2(&actions, output, 2);
  if (!error && report >= 0) error = posix_spawn_file_actions_adddup2(&actions, report, REPORT_FD);
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
  if (!error) error = posix_spawn_file_actions_addclosefrom_np(&actions, report >= 0 ? REPORT_FD + 1 : REPORT_FD);
#endif
  /* posix_spawn wants char *const *, but does not write through it. */
  if (!error) error = posix_spawnp(child, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/* Starts argv and notes it for process_stop_all; an errno value. */
static int spawn_known(const char *const *argv, char *const *environment, int output, int report, Child *c) {
  HandlerHold hold;
  handlers_hold(&hold);
  int error = spawn(argv, environment, output, report, &c->pid);
  for (int i = 0; !error && i < MOST_RUNNING && !c->slot; i++)
    if (!atomic_exchange(&running[i].taken, true)) c->slot = &running[i];
  if (c->slot) {
    atomic_store(&c->slot->stopped, false);
    atomic_store(&c->slot->pid, c->pid);
  }
  handlers_release(&hold);
  return error;
}

static bool start(const char *const *argv, const ProcessOptions *o, bool by_shell, Child *c) {
  static const char script[] = "\"$@\" 3>&-; echo $? >&3";
  const char *words[MOST_WORDS + 5] = {"/bin/sh", "-c", script, "sh"};
  int n = 0, output[2], report[2] = {-1, -1};
  for (; argv[n] && n < MOST_WORDS; n++) words[n + 4] = argv[n];
  if (argv[n]) return errno = E2BIG, false;
  *c = (Child){.output = -1, .report = -1};
  if (!pipe_above(output)) return false;
  int error = by_shell && !pipe_above(report) ? errno : 0;
  char *tmp = NULL, **environment = error ? NULL : environment_for(o, &tmp);
  if (!error && !environment) error = ENOMEM;
  if (!error) error = spawn_known(by_shell ? words : words + 4, environment, output[1], report[1], c);
  free(environment);
  free(tmp);
  close(output[1]);
  if (report[1] >= 0) close(report[1]);
  if (error) {
    close(output[0]);
    if (report[0] >= 0) close(report[0]);
    return errno = error, false;
  }
  c->output = output[0], c->report = report[0];
  return true;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Whether it has ended; it is not reaped, so its number is still its own. */
static bool has_ended(Child *c) {
  siginfo_t info = {0};
  if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0) return info.si_pid != 0;
  if (errno == ECHILD) c->reaped = true; /* by someone else */
  return errno == ECHILD;
}

/* What there is to read, and true until the end has come. */
static bool read_piece(int fd, Buf *out) {
  char piece[4096];
  ssize_t n = read(fd, piece, sizeof piece);
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  size_t room = out && out->n < MOST_OUTPUT ? MOST_OUTPUT - out->n : 0;
  if (room) buf_write(out, piece, (size_t)n < room ? (size_t)n : room);
  return n > 0;
}

static int64_t left_ms(const ProcessOptions *o, int64_t end) {
  int64_t slice = o->stop ? STOP_SLICE_MS : SLICE_MS, left = end ? (end - clock_ns()) / 1000000 + 1 : slice;
  return left < 0 ? 0 : left > slice ? slice : left;
}

static bool is_over(const ProcessOptions *o, int64_t end) {
  return (end && clock_ns() >= end) || (o->stop && atomic_load(o->stop));
}

/* Reads until everyone has closed the other end, or the program has ended (what it left running may keep that end for
 * ever). False: it took too long, or is to stop. */
static bool gather(Child *c, const ProcessOptions *o, int64_t end, Buf *output) {
  for (;;) {
    struct pollfd wanted = {.fd = c->output, .events = POLLIN};
    int ready = poll(&wanted, 1, (int)left_ms(o, end));
    if (ready > 0) {
      if (!read_piece(c->output, output)) return true;
      if (!is_over(o, end)) continue;
    }
    if (is_over(o, end)) return false;
    if (!has_ended(c)) continue;
    while (poll(&wanted, 1, 0) > 0 && read_piece(c->output, output)) {}
    return true;
  }
}

/* The program has closed its output; mostly it has ended with that. */
static bool await_end(Child *c, const ProcessOptions *o, int64_t end) {
  for (int64_t pause = 20000; !has_ended(c); pause = pause < 10000000 ? 2 * pause : pause) {
    if (is_over(o, end)) return false;
    nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
  }
  return true;
}

static void reap(Child *c) {
  if (c->slot) atomic_store(&c->slot->pid, 0);
  int status;
  pid_t got = -1;
  while (!c->reaped && (got = waitpid(c->pid, &status, 0)) < 0 && errno == EINTR) {}
  if (got == c->pid && c->report < 0) {
    c->has_status = true;
    c->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  char word[16] = "";
  ssize_t n = c->report < 0 ? 0 : read(c->report, word, sizeof word - 1);
  if (n > 0 && word[n - 1] == '\n') c->has_status = true, c->status = atoi(word);
}

/* An exit status; -1 with errno. *again: nobody knows how it ended. */
static int finish(Child *c, const ProcessOptions *o, Buf *output, bool *again) {
  int64_t end = o->most_ns > 0 ? clock_ns() + o->most_ns : 0;
  bool in_time = gather(c, o, end, output) && await_end(c, o, end);
  if (!c->reaped) kill(-c->pid, SIGKILL); /* with what it left running */
  bool told = !in_time && o->stop && atomic_load(o->stop);
  if (!in_time) await_end(c, &(ProcessOptions){0}, 0);
  if (c->report >= 0) fcntl(c->report, F_SETFL, O_NONBLOCK);
  reap(c);
  bool stopped = c->slot && atomic_load(&c->slot->stopped);
  if (c->slot) atomic_store(&c->slot->taken, false);
  close(c->output);
  if (c->report >= 0) close(c->report);
  if (stopped || told) return errno = ECANCELED, -1;
  if (!in_time) return errno = ETIMEDOUT, -1;
  if (c->has_status) return c->status;
  *again = c->report < 0;
  return errno = ECHILD, -1;
}

/* Whether our children wait until we reap them. */
static bool children_are_ours(void) {
  struct sigaction now;
  return sigaction(SIGCHLD, NULL, &now) == 0 && !(now.sa_flags & (SA_NOCLDWAIT | SA_SIGINFO)) &&
         now.sa_handler == SIG_DFL;
}

int process_run_with(const char *const *argv, const ProcessOptions *o, Buf *output) {
  size_t before = output ? output->n : 0;
  Child c;
  pthread_once(&once, watch_forks);
  bool by_shell = !children_are_ours() && access("/bin/sh", X_OK) == 0, again = false;
  if (!start(argv, o, by_shell, &c)) return -1;
  int status = finish(&c, o, output, &again);
  if (!again) return status;
  if (output && output->at) output->n = before, output->at[before] = 0;
  if (!start(argv, o, true, &c)) return -1;
  return finish(&c, o, output, &again);
}

int process_run(const char *const *argv, Buf *output) { return process_run_with(argv, &(ProcessOptions){0}, output); }

int64_t compiler_ns(const Context *cx) {
  double seconds = cx->compiler_seconds;
  const char *text = environment_get("NEREID_COMPILER_SECONDS");
  if (!(seconds > 0) && text) seconds = text_to_double(text, NULL);
  if (!(seconds > 0)) seconds = 600;
  return seconds < 1e9 ? (int64_t)(seconds * 1e9) : 0;
}
