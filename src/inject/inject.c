/* inject: a profiled process from its first instruction to its last. See inject.h.
 *
 * NEREID_PROF_DIR says where traces go (PID.trace; after an exec PID_2.trace), NEREID_PROF_HZ how often a second of CPU
 * time is sampled (0: not), NEREID_PROF_KINDS what of "runtime,driver,memory,nvtx,work,python" is recorded,
 * NEREID_PROF_RUNNER the process that started the first of them. Without NEREID_PROF_DIR the library does nothing.
 */
#define _GNU_SOURCE
#include "inject/inject.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* POLLS: CUPTI is asked at each so many flushes; IDLE_MS: of CPU time, and until the sampler gets its thread */
enum { FLUSH_MS = 250, POLLS = 4, IDLE_MS = 20 };

static struct {
  _Atomic(TraceWriter *) trace;
  char *path, *aside; /* PID.trace; PID.idle */
  Sampler *sampler;
  CuptiSession *cupti;
  int hz;
  pid_t owner;
  bool is_first; /* of the run: it always leaves a trace */
  int64_t cpu_at_begin;
  _Atomic bool used_cuda, has_ranges, has_keeper;
  sem_t request, done, running;
  _Atomic int asked; /* a Finish; 0: none */
  _Atomic int crash_signal;
} own;
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER; /* one at a time */
/* CUPTI and the sampler, against their end and forks; recursive, since CUDA starts nvidia-modprobe from within its
 * initialisation. */
static pthread_mutex_t starting;
static void init_starting(void) {
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&starting, &a);
  pthread_mutexattr_destroy(&a);
}

TraceWriter *inject_trace(void) { return atomic_load_explicit(&own.trace, memory_order_acquire); }

bool inject_wants(const char *kind) {
  const char *kinds = environment_get("NEREID_PROF_KINDS");
  size_t n = strlen(kind);
  for (const char *at = kinds; at && *at; at = strchr(at, ','), at = at ? at + 1 : NULL)
    if (!strncmp(at, kind, n) && (!at[n] || at[n] == ',')) return true;
  return false;
}

/* A writer that is not freed, since another thread may be about to write or have held its locks at the fork. It can
 * still be reached, so that no search for leaks in the program finds it. */
static void leave_behind(TraceWriter *w) {
  static TraceWriter *all[64];
  for (int i = 0; i < 64; i++)
    if (!all[i]) {
      all[i] = w;
      return;
    }
}

static void note_down(const char *text) {
  int64_t now = trace_clock();
  TraceWriter *w = inject_trace();
  trace_event(w, &(TraceEvent){.kind = TRACE_NOTE, .name = trace_string(w, text), .start = now, .end = now});
}

void inject_has_ranges(void) { atomic_store_explicit(&own.has_ranges, true, memory_order_relaxed); }

static int64_t cpu_time(void) {
  struct timespec t;
  return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) ? 0 : t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* A process that did nothing to speak of: a shell on its way to what it shall run, a child between fork and exec. Its
 * trace would be in the way. */
static bool is_idle(void) {
  return !atomic_load(&own.used_cuda) && !atomic_load(&own.has_ranges) &&
         cpu_time() - own.cpu_at_begin < IDLE_MS * INT64_C(1000000);
}

/* Before an exec, which may fail: the trace of an idle process has a name that no reader looks at, and that the next
 * program takes away. */
static void set_aside(bool aside) {
  if (own.aside) rename(aside ? own.path : own.aside, aside ? own.aside : own.path);
}

/* ---- the keeper -------------------------------------------------------------------------------------------------- */

static void start_sampler(void) {
  char why[300];
  pthread_mutex_lock(&starting);
  if (own.hz > 0 && !own.sampler && !(own.sampler = sampler_start(inject_trace(), own.hz, why))) note_down(why);
  pthread_mutex_unlock(&starting);
}

static void stop_sampler(void) { /* a fork waits until it is gone */
  pthread_mutex_lock(&starting);
  sampler_stop(own.sampler);
  own.sampler = NULL;
  pthread_mutex_unlock(&starting);
}

/* Whoever calls it holds `starting`, or is the only thread. */
static void help_sampler(void) {
  char why[300];
  if (sampler_help(own.sampler, why)) return;
  note_down(why);
  stop_sampler();
  own.hz = 0;
}

static void stop_cuda(void) {
  pthread_mutex_lock(&starting);
  CuptiSession *c = own.cupti;
  own.cupti = NULL;
  pthread_mutex_unlock(&starting);
  cupti_stop(c);
}

/* Whether the folder holds another trace: of what a launcher (timeout, env, a shell) ran, which is what the run was
 * about. */
static bool others_left_traces(void) {
  const char *slash = strrchr(own.path, '/'), *folder = environment_get("NEREID_PROF_DIR");
  DIR *d = folder && slash ? opendir(folder) : NULL;
  bool found = false;
  for (struct dirent *e; d && !found && (e = readdir(d));) {
    const char *dot = strrchr(e->d_name, '.');
    found = dot && !strcmp(dot, ".trace") && strcmp(e->d_name, slash + 1);
  }
  if (d) closedir(d);
  return found;
}

static void do_finish(Finish how) {
  TraceWriter *w = inject_trace();
  if (how >= FINISH_SIGNAL) {
    char text[100];
    int number = atomic_load(&own.crash_signal);
    snprintf(text, sizeof text, "the process was ended by signal %d (%s)", number, strsignal(number));
    note_down(text);
  }
  if (how == FINISH_CRASH) {
    trace_flush(w); /* first: what follows may hang with the crashed thread's locks */
    sampler_stop(own.sampler);
    trace_flush(w);
    if (own.cupti) cupti_poll(own.cupti);
    trace_flush(w);
    return;
  }
  if (how == FINISH_EXEC) {
    stop_sampler();
    if (own.cupti) cupti_flush(own.cupti);
    trace_mark_end(w);
    return;
  }
  if (how != FINISH_CUDA) stop_sampler();
  stop_cuda();
  if (how == FINISH_CUDA) {
    trace_flush(w);
    return;
  }
  if (is_idle() && (!own.is_first || others_left_traces())) unlink(own.path);
  if (inject_wants("python")) { /* it was there for us, and what of it was needed is in the trace */
    char map[64];
    snprintf(map, sizeof map, "/tmp/perf-%ld.map", (long)own.owner);
    unlink(map);
  }
  if (!atomic_load(&own.used_cuda)) note_down("this process did not use CUDA");
  atomic_store(&own.trace, NULL);
  trace_mark_end(w);
  leave_behind(w);
}

static bool wait_for(sem_t *s, int ms) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += ms % 1000 * 1000000, until.tv_sec += ms / 1000;
  if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
  int wrong;
  while ((wrong = sem_timedwait(s, &until)) && errno == EINTR) {}
  return !wrong;
}

static void *keep(void *unused) {
  pthread_setname_np(pthread_self(), "nereid-keeper");
  sem_post(&own.running);
  for (int round = 1;; round++) {
    wait_for(&own.request, round == 1 ? IDLE_MS : FLUSH_MS);
    int asked = atomic_exchange(&own.asked, 0);
    if (asked) {
      do_finish((Finish)asked);
      sem_post(&own.done);
      if (asked == FINISH_EXIT || asked == FINISH_SIGNAL) return NULL;
      continue;
    }
    pthread_mutex_lock(&starting);
    help_sampler();
    if (own.cupti && round % POLLS == 0) cupti_poll(own.cupti);
    trace_flush(inject_trace());
    pthread_mutex_unlock(&starting);
  }
}

void inject_finish(Finish how) {
  if (!inject_trace() || getpid() != own.owner) return;
  int before = errno;
  if (how == FINISH_EXEC && is_idle()) {
    set_aside(true);
    errno = before;
    return;
  }
  bool in_handler = how >= FINISH_SIGNAL; /* the thread may hold the lock */
  if (!in_handler) pthread_mutex_lock(&asking);
  if (inject_trace()) {
    if (!atomic_load(&own.has_keeper)) do_finish(how);
    else {
      atomic_store(&own.asked, how);
      sem_post(&own.request);
      /* it hangs: leave it */
      if (!wait_for(&own.done, in_handler ? 2000 : 15000))
        atomic_store(&own.has_keeper, false), atomic_store(&own.trace, NULL);
    }
  }
  if (!in_handler) pthread_mutex_unlock(&asking);
  errno = before;
}

void inject_finish_undo(void) {
  if (!inject_trace() || getpid() != own.owner) return;
  int before = errno;
  set_aside(false);
  start_sampler();
  errno = before;
}

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

static char *command_line(void) {
  char buffer[4096];
  FILE *f = fopen("/proc/self/cmdline", "re");
  size_t n = f ? fread(buffer, 1, sizeof buffer - 1, f) : 0;
  if (f) fclose(f);
  while (n && !buffer[n - 1]) n--;
  for (size_t i = 0; i < n; i++)
    if (!buffer[i]) buffer[i] = ' ';
  buffer[n] = 0;
  return strdup(buffer);
}

static TraceWriter *create_trace(const char *folder) {
  struct stat s;
  char path[4200];
  int n = snprintf(path, sizeof path, "%s/%ld.trace", folder, (long)getpid());
  for (int i = 2; n < (int)sizeof path && !stat(path, &s) && i < 10000;
       i++) /* this process was another program before */
    n = snprintf(path, sizeof path, "%s/%ld_%d.trace", folder, (long)getpid(), i);
  char *command = command_line();
  TraceWriter *w = n < (int)sizeof path ? trace_create(path, command) : NULL;
  free(command);
  free(own.path), free(own.aside);
  own.path = w ? strdup(path) : NULL;
  snprintf(path, sizeof path, "%s/%ld.idle", folder, (long)getpid());
  own.aside = w ? strdup(path) : NULL;
  unlink(path);
  return w;
}

static void begin(void) {
  const char *folder = environment_get("NEREID_PROF_DIR"), *hz = environment_get("NEREID_PROF_HZ"),
             *runner = environment_get("NEREID_PROF_RUNNER");
  if (!folder || !*folder) return;
  int before = errno;
  TraceWriter *w = create_trace(folder);
  if (!w) goto out; /* the folder is gone or full: whoever started the run finds nothing of this process, and says so */
  own.owner = getpid();
  own.hz = hz ? atoi(hz) : 0;
  own.is_first = runner && atol(runner) == (long)getppid();
  own.cpu_at_begin = cpu_time();
  own.sampler = NULL, own.cupti = NULL;
  atomic_store(&own.used_cuda, false), atomic_store(&own.has_ranges, false);
  atomic_store(&own.asked, 0);
  sem_init(&own.request, 0, 0);
  sem_init(&own.done, 0, 0);
  sem_init(&own.running, 0, 0);
  atomic_store(&own.trace, w);

  sigset_t all, mask;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &mask);
  pthread_t keeper;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  bool has_keeper = !pthread_create(&keeper, &attributes, keep, NULL);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &mask, NULL);
  if (has_keeper) wait_for(&own.running, 2000); /* a fork shall not find it in the allocator, where starting takes it */
  atomic_store(&own.has_keeper, has_keeper);
  if (!has_keeper) note_down("no thread could be started: the trace is written at the end only");
  start_sampler();
  if (!has_keeper) help_sampler();
out:
  errno = before;
}

/* ---- forks and crashes ------------------------------------------------------------------------------------------- */

static Sampler *held;
/* so that no half-made session is copied, and none of our threads is in the allocator */
static void before_fork(void) {
  pthread_mutex_lock(&starting);
  sampler_hold(held = own.sampler);
}
static void after_fork_parent(void) {
  sampler_release(held);
  pthread_mutex_unlock(&starting);
}
static void after_fork_child(void) {
  init_starting();
  asking = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  TraceWriter *parents = inject_trace();
  atomic_store(&own.trace, NULL);
  atomic_store(&own.has_keeper, false);
  sampler_abandon(own.sampler);
  cupti_abandon(own.cupti);
  trace_abandon(parents);
  leave_behind(parents);
  nvtx_forget();
  if (!parents) return;
  begin();
}

static const struct {
  int number;
  Finish how;
} fatal[] = {{SIGSEGV, FINISH_CRASH},  {SIGBUS, FINISH_CRASH},  {SIGILL, FINISH_CRASH},
             {SIGFPE, FINISH_CRASH},   {SIGABRT, FINISH_CRASH}, {SIGTERM, FINISH_SIGNAL},
             {SIGPIPE, FINISH_SIGNAL}, {SIGINT, FINISH_SIGNAL}, {SIGHUP, FINISH_SIGNAL}};

static void on_fatal(int number, siginfo_t *info, void *context) {
  int none = 0;
  size_t i = 0;
  while (fatal[i].number != number) i++;
  /* not in a vfork's child */
  if (getpid() == own.owner && atomic_compare_exchange_strong(&own.crash_signal, &none, number))
    inject_finish(fatal[i].how);
  real_sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
  /* sent: by itself it does not come again */
  if (info->si_code <= 0) syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
}

static void watch_crashes(void) {
  for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
    struct sigaction old;
    if (!real_sigaction(fatal[i].number, NULL, &old) && old.sa_handler == SIG_DFL)
      inject_sigaction(fatal[i].number, &old, NULL);
  }
}

int inject_sigaction(int number, const struct sigaction *act, struct sigaction *old) {
  static const struct sigaction ours = {.sa_sigaction = on_fatal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  for (size_t i = 0; act && i < sizeof fatal / sizeof *fatal && inject_trace(); i++)
    if (fatal[i].number == number && act->sa_handler == SIG_DFL) act = &ours;
  int result = real_sigaction(number, act, old);
  if (!result && old && old->sa_flags & SA_SIGINFO && old->sa_sigaction == on_fatal)
    *old = (struct sigaction){.sa_handler = SIG_DFL};
  return result;
}

static void at_quick_exit_finish(void) { inject_finish(FINISH_EXIT); }

__attribute__((constructor)) static void loaded(void) {
  init_starting();
  begin();
  if (!inject_trace()) return;
  pthread_atfork(before_fork, after_fork_parent, after_fork_child);
  watch_crashes();
  at_quick_exit(at_quick_exit_finish);
}

__attribute__((destructor)) static void unloaded(void) { inject_finish(FINISH_EXIT); }

/* ---- CUDA -------------------------------------------------------------------------------------------------------- */

static void at_exit_cuda(void) { inject_finish(FINISH_CUDA); }

/* The driver calls this from cuInit. Whatever it returns, the program goes on. */
ENTRY int InitializeInjection(void) {
  if (!inject_trace() || getpid() != own.owner) return 1;
  int before = errno;
  atomic_store(&own.used_cuda, true);
  pthread_mutex_lock(&starting);
  if (!own.cupti) {
    char why[500], text[600];
    CuptiOptions o = {.runtime_api = inject_wants("runtime"),
                      .driver_api = inject_wants("driver"),
                      .memory = inject_wants("memory"),
                      .own_launches = inject_wants("work")};
    own.cupti = cupti_start(inject_trace(), &o, why);
    if (own.cupti) atexit(at_exit_cuda);
    else {
      snprintf(text, sizeof text, "the GPU was not recorded: %s", why);
      note_down(text);
    }
  }
  pthread_mutex_unlock(&starting);
  errno = before;
  return 1;
}

/* For the program's own Nereid, if it has one: see cupti_last_launch. */
ENTRY uint64_t nereid_prof_last_launch(void);
ENTRY uint64_t nereid_prof_last_launch(void) { return cupti_last_launch(); }
