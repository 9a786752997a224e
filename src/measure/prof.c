/* Sessions of the profiler: which traces are being written, and what the runtime and its callers put into them.
 *
 *     nereid_run, nereid_copy_..., nereid_alloc ──prof_call, prof_launch─┐
 *     nereid_prof_enter, _leave, _metric ────────────────────────────────┼──▶ every session that runs and is not
 *       paused ──▶ its TraceWriter
 *     src/prof: CUPTI, the sampler ── write to the TraceWriter themselves ┘
 *
 * Without a session all of this costs a load: prof_sessions is 0, and prof_begin() says so. With one, whoever records
 * holds `lock` for reading, and starting, pausing, resuming and stopping take it for writing; so a session that was
 * stopped is never written to. `control` keeps those four, and the opening of CUDA devices, one after the other; it is
 * held while CUPTI is started or waited for, `lock` is not.
 *
 * Scopes belong to a thread and to all sessions: each session gets of a scope what lies within its own recorded time. A
 * Thread is what one thread has open; the list of them is there for nereid_prof_stop, which closes what all threads
 * left open.
 *
 * In the child of a fork there are no sessions: their files are the parent's. nereid_prof_stop there frees, and no
 * more.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prof/prof.h"
#include "measure/prof.h"

enum { MOST_SESSIONS = 8, MOST_NOTES = 40, MOST_OPEN = 1000 };
static const int64_t FLUSH_NS = 200000000;
#define OUR_CORRELATION ((uint64_t)1 << 34) /* CUPTI counts in 32 bits */

struct nereid_prof {
  TraceWriter *writer;
  char *path;
  nereid_prof_options options;
  CuptiSession *cupti; /* under control, as the sampler */
  Sampler *sampler;
  int slot;
  uint64_t serial;                     /* no other session of this process has it */
  bool paused, gone;                   /* gone: in the child of a fork */
  int64_t started, paused_at, resumed; /* of the last pause; 0: none */
  atomic_int notes;
  atomic_bool has_device;
  _Atomic int64_t flushed; /* when: of a process that crashes no more than FLUSH_NS is lost */
};

typedef struct Scope {
  char *name;
  int64_t start;
  uint64_t id;
} Scope;

typedef struct Thread {
  struct Thread *next, **at; /* in `threads` */
  uint32_t tid;
  uint64_t known[MOST_SESSIONS]; /* by slot: the serial of the session that has this thread's name */
  Scope *open;
  int count, cap;
  int64_t beyond; /* scopes opened inside of MOST_OPEN others, which are not recorded */
} Thread;

static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lock; /* of the next three */
static nereid_prof *sessions[MOST_SESSIONS];
static Thread *threads;
static int cuda_devices; /* open ones; under control */
static atomic_bool cupti_runs;
/* of a program that nereid_prof_run runs; and there, cupti_last_launch of the library that records CUDA */
static nereid_prof *unasked;
static uint64_t (*unasked_launch_of)(void);
static _Atomic uint64_t last_scope, last_launch;
static _Atomic int64_t cpu_memory; /* bytes that devices whose memory is the process's have allocated */

/* ---- threads, forks ---------------------------------------------------------------------------------------------- */

static _Thread_local Thread *self;
static pthread_key_t thread_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void write_range(nereid_prof *p, const Thread *t, int i, int64_t end);
static void say(const Thread *t, nereid_prof *only, const char *format, ...) PRINTF_LIKE(3, 4);

static void drop_scopes(Thread *t, int from) {
  t->beyond = 0;
  while (t->count > from) free(t->open[--t->count].name);
}

/* Closes all that t has open in p, or (NULL) in every session that runs. */
static void close_scopes(const Thread *t, nereid_prof *p, const char *why, int64_t now) {
  for (int i = t->count - 1; i >= 0; i--) {
    say(t, p, "scope '%s' was still open when %s", t->open[i].name, why);
    for (int k = 0; k < MOST_SESSIONS; k++)
      if (sessions[k] && (!p || sessions[k] == p)) write_range(sessions[k], t, i, now);
  }
}

static void thread_ended(void *arg) {
  Thread *t = arg;
  pthread_rwlock_wrlock(&lock);
  close_scopes(t, NULL, "its thread ended", trace_clock());
  *t->at = t->next;
  if (t->next) t->next->at = t->at;
  pthread_rwlock_unlock(&lock);
  drop_scopes(t, 0);
  free(t->open);
  free(t);
  self = NULL;
}

static void before_fork(void) {
  pthread_mutex_lock(&control);
  pthread_rwlock_wrlock(&lock);
}

static void in_parent(void) {
  pthread_rwlock_unlock(&lock);
  pthread_mutex_unlock(&control);
}

static void init_lock(void) {
  pthread_rwlockattr_t a;
  pthread_rwlockattr_init(&a);
#ifdef __GLIBC__ /* threads that record all the time must not keep stop waiting */
  pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
  pthread_rwlock_init(&lock, &a);
  pthread_rwlockattr_destroy(&a);
}

/* The other threads are not there any more, nor are CUPTI's and the sampler's. */
static void in_child(void) {
  for (int i = 0; i < MOST_SESSIONS; i++) {
    if (!sessions[i]) continue;
    sessions[i]->gone = true;
    trace_abandon(sessions[i]->writer);
    sessions[i] = NULL;
  }
  atomic_store(&prof_sessions, 0);
  atomic_store(&cupti_runs, false);
  cuda_devices = 0;
  threads = self;
  if (self) {
    drop_scopes(self, 0);
    self->tid = (uint32_t)syscall(SYS_gettid);
    self->next = NULL, self->at = &threads;
  }
  init_lock();
  pthread_mutex_init(&control, NULL);
}

static void init(void) {
  init_lock();
  pthread_key_create(&thread_key, thread_ended);
  fork_hooks_begin();
  pthread_atfork(before_fork, in_parent, in_child);
}

/* NULL: out of memory. */
static Thread *this_thread(void) {
  if (self) return self;
  pthread_once(&once, init);
  Thread *t = calloc(1, sizeof *t);
  if (!t || pthread_setspecific(thread_key, t)) return free(t), NULL;
  t->tid = (uint32_t)syscall(SYS_gettid);
  pthread_rwlock_wrlock(&lock);
  t->next = threads, t->at = &threads;
  if (threads) threads->at = &t->next;
  threads = t;
  pthread_rwlock_unlock(&lock);
  return self = t;
}

/* ---- writing: with the lock, as for all that follows down to the calls ------------------------------------------- */

static void introduce(nereid_prof *p, Thread *t) {
  char name[17] = "";
  t->known[p->slot] = p->serial;
  if (prctl(PR_GET_NAME, name)) return;
  int64_t now = trace_clock();
  trace_event(
      p->writer,
      &(TraceEvent){
          .kind = TRACE_THREAD, .name = trace_string(p->writer, name), .start = now, .end = now, .thread = t->tid});
}

/* For p in the sessions that record: the thread is made known to each. */
static nereid_prof *next_session(int *i, Thread *t) {
  while (*i < MOST_SESSIONS) {
    nereid_prof *p = sessions[(*i)++];
    if (!p || p->paused) continue;
    if (t->known[p->slot] != p->serial) introduce(p, t);
    return p;
  }
  return NULL;
}

static void record(Thread *t, TraceEvent *e, const char *name) {
  e->thread = t->tid;
  int i = 0;
  for (nereid_prof *p; (p = next_session(&i, t));) {
    e->name = trace_string(p->writer, name);
    trace_event(p->writer, e);
    int64_t flushed = atomic_load_explicit(&p->flushed, memory_order_relaxed);
    if (e->end - flushed > FLUSH_NS && atomic_compare_exchange_strong(&p->flushed, &flushed, e->end))
      trace_flush(p->writer);
  }
}

/* In `only`, or in all that record. A mistake in a loop must not fill the trace. */
static void say(const Thread *t, nereid_prof *only, const char *format, ...) {
  char text[400];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  int64_t now = trace_clock();
  for (int i = 0; i < MOST_SESSIONS; i++) {
    nereid_prof *p = sessions[i];
    if (!p || (only ? p != only : p->paused)) continue;
    int n = atomic_fetch_add(&p->notes, 1);
    if (n > MOST_NOTES) continue;
    const char *said = n < MOST_NOTES ? text : "there is more to say of this kind, which is left out";
    trace_event(p->writer, &(TraceEvent){.kind = TRACE_NOTE,
                                         .name = trace_string(p->writer, said),
                                         .start = now,
                                         .end = now,
                                         .thread = t ? t->tid : 0});
  }
}

/* What p has of a scope that ends: no more than while it recorded. */
static void write_range(nereid_prof *p, const Thread *t, int i, int64_t end) {
  const Scope *s = &t->open[i];
  int64_t start = s->start < p->started ? p->started : s->start;
  if (start > p->paused_at && start < p->resumed) start = p->resumed;
  if (p->paused && end > p->paused_at) end = p->paused_at;
  if (start > end) return;
  trace_event(p->writer, &(TraceEvent){.kind = TRACE_RANGE,
                                       .name = trace_string(p->writer, s->name),
                                       .start = start,
                                       .end = end,
                                       .thread = t->tid,
                                       .range = {RANGE_OURS, s->id, i ? t->open[i - 1].id : 0}});
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

void prof_call(int64_t start, const char *name, TraceCallKind kind, nereid_status result) {
  Thread *t = this_thread();
  if (!t) return;
  TraceEvent e = {.kind = TRACE_CALL, .start = start, .end = trace_clock(), .call = {kind, (int32_t)result}};
  pthread_rwlock_rdlock(&lock);
  record(t, &e, name);
  pthread_rwlock_unlock(&lock);
}

void prof_compiled(int64_t start, const char *kernel, nereid_status result) {
  char name[256];
  snprintf(name, sizeof name, "compile %s", kernel);
  prof_call(start, name, CALL_COMPILE, result);
}

void prof_memory(const nereid_device *d, const void *at, int64_t bytes) {
  if (d->kind == &device_cuda) return; /* CUPTI says it */
  int64_t in_use = atomic_fetch_add_explicit(&cpu_memory, bytes, memory_order_relaxed) + bytes;
  Thread *t = prof_on() ? this_thread() : NULL;
  if (!t) return;
  int64_t now = trace_clock();
  TraceEvent e = {.kind = TRACE_MEMORY,
                  .start = now,
                  .end = now,
                  .device = TRACE_CPU_DEVICE,
                  .memory = {(uint64_t)(uintptr_t)at, bytes, in_use, false}};
  pthread_rwlock_rdlock(&lock);
  record(t, &e, NULL);
  pthread_rwlock_unlock(&lock);
}

/* A session that is paused wants it too: so a warm-up finds what the launches after it need. */
static bool wants_work(void) {
  bool wanted = false;
  pthread_rwlock_rdlock(&lock);
  for (int i = 0; i < MOST_SESSIONS; i++) wanted |= sessions[i] && sessions[i]->options.count_work;
  pthread_rwlock_unlock(&lock);
  return wanted;
}

static void write_device(nereid_prof *p, const nereid_device *d) {
  if (atomic_exchange(&p->has_device, true)) return;
  int64_t now = trace_clock();
  trace_event(p->writer, &(TraceEvent){.kind = TRACE_DEVICE,
                                       .name = trace_string(p->writer, d->name),
                                       .start = now,
                                       .end = now,
                                       .device = TRACE_CPU_DEVICE,
                                       .device_.memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)});
}

nereid_status prof_launch(const ProfCall *c, nereid_device *d, const Launch *l, nereid_error **error) {
  Thread *t = this_thread();
  if (!t) return d->kind->launch(d, l, error);
  bool on_cpu = d->kind != &device_cuda, listed = l->options->programs;
  uint64_t (*launch_of)(void) = on_cpu ? NULL : atomic_load(&cupti_runs) ? cupti_last_launch : unasked_launch_of;
  uint64_t before = launch_of ? launch_of() : 0;
  int64_t began = trace_clock();
  nereid_status status = d->kind->launch(d, l, error);
  int64_t end = trace_clock();
  uint64_t id = launch_of ? launch_of() : 0; /* so that the kernel is joined with this call and its work */
  if (id == before) id = OUR_CORRELATION + atomic_fetch_add_explicit(&last_launch, 1, memory_order_relaxed);
  ProfWork work = {0}; /* counted for the first of its like: not in the time of the launch, but seen */
  if (wants_work() && !prof_work_find(c, d, l, &work)) prof_call(end, "nereid_launch_cost", CALL_OTHER, NEREID_OK);
  const Specialization *s = launch_spec(l);
  uint32_t lanes = d->cuda_sm && on_cpu ? (uint32_t)s->block_warps * 32 : 1;
  TraceEvent call = {
      .kind = TRACE_CALL, .start = c->start, .end = end, .correlation = id, .call = {CALL_LAUNCH, (int32_t)status}};
  TraceEvent kernel = {.kind = TRACE_KERNEL,
                       .start = began,
                       .end = end,
                       .correlation = id,
                       .device = TRACE_CPU_DEVICE,
                       .kernel.block = {lanes, 1, 1}};
  for (int i = 0; i < 3; i++)
    kernel.kernel.grid[i] = listed ? (i ? 1 : (uint32_t)l->options->program_count) : (uint32_t)l->grid[i];
  pthread_rwlock_rdlock(&lock);
  record(t, &call, c->function);
  if (on_cpu && !status) record(t, &kernel, s->kernel->info.name);
  int i = 0;
  for (nereid_prof *p; !status && (p = next_session(&i, t));) {
    if (on_cpu) write_device(p, d);
    if (!p->options.count_work || !work.known) continue;
    trace_event(p->writer,
                &(TraceEvent){.kind = TRACE_WORK,
                              .start = c->start,
                              .end = end,
                              .thread = t->tid,
                              .correlation = id,
                              .work = {work.flops, work.bytes, work.exact, trace_string(p->writer, work.shapes)}});
  }
  pthread_rwlock_unlock(&lock);
  return status;
}

/* ---- scopes ------------------------------------------------------------------------------------------------------ */

void nereid_prof_enter(const char *scope) {
  Thread *t = prof_on() ? this_thread() : NULL;
  if (!t) return;
  pthread_rwlock_rdlock(&lock);
  if (t->count == MOST_OPEN) {
    if (!t->beyond++)
      say(t, NULL, "%d scopes are open in this thread; those opened inside of them are not recorded", MOST_OPEN);
    pthread_rwlock_unlock(&lock);
    return;
  }
  if (t->count == t->cap) {
    int cap = t->cap ? 2 * t->cap : 16;
    Scope *open = realloc(t->open, sizeof *open * (size_t)cap);
    if (open) t->open = open, t->cap = cap;
  }
  char *name = t->count < t->cap && prof_on() ? strdup(scope ? scope : "") : NULL;
  if (name)
    t->open[t->count++] =
        (Scope){name, trace_clock(), atomic_fetch_add_explicit(&last_scope, 1, memory_order_relaxed) + 1};
  pthread_rwlock_unlock(&lock);
}

bool nereid_prof_leave(const char *scope) {
  int64_t now = prof_begin();
  Thread *t = now ? this_thread() : NULL;
  if (!t) return false;
  pthread_rwlock_rdlock(&lock);
  if (t->beyond) {
    t->beyond--;
    pthread_rwlock_unlock(&lock);
    return true;
  }
  int at = t->count - 1;
  while (scope && at >= 0 && strcmp(t->open[at].name, scope)) at--;
  if (at < 0) say(t, NULL, "scope '%s' was left, but it is not open in this thread", scope ? scope : "(the innermost)");
  for (int i = t->count - 1; i >= at && i >= 0 && at >= 0; i--) {
    if (i > at)
      say(t, NULL, "scope '%s' was still open when '%s', around it, was left", t->open[i].name, t->open[at].name);
    int k = 0;
    for (nereid_prof *p; k < MOST_SESSIONS; k++)
      if ((p = sessions[k])) {
        if (t->known[p->slot] != p->serial) introduce(p, t);
        write_range(p, t, i, now);
      }
    drop_scopes(t, i);
  }
  pthread_rwlock_unlock(&lock);
  return at >= 0;
}

void nereid_prof_metric(const char *name, double value) {
  Thread *t = prof_on() ? this_thread() : NULL;
  if (!t || !name) return;
  int64_t now = trace_clock();
  pthread_rwlock_rdlock(&lock);
  if (t->count) {
    TraceEvent e = {.kind = TRACE_METRIC, .start = now, .end = now, .metric = {t->open[t->count - 1].id, value}};
    record(t, &e, name);
  } else {
    say(t, NULL, "metric '%s' was given outside of any scope", name);
  }
  pthread_rwlock_unlock(&lock);
}

/* ---- CUDA: under control ----------------------------------------------------------------------------------------- */

static nereid_prof *cupti_owner(void) {
  for (int i = 0; i < MOST_SESSIONS; i++)
    if (sessions[i] && sessions[i]->cupti) return sessions[i];
  return NULL;
}

static bool record_cuda(nereid_prof *p, char why[600]) {
  const nereid_prof *other = cupti_owner();
  char reason[500] = "";
  if (other)
    return snprintf(why, 600, "the session that writes %.400s records CUDA already, and CUPTI serves one", other->path),
           false;
  p->cupti = cupti_start(p->writer,
                         &(CuptiOptions){.runtime_api = true, .driver_api = true, .memory = true, .own_launches = true},
                         reason);
  if (!p->cupti) return snprintf(why, 600, "%s", reason), false;
  if (p->paused) cupti_pause(p->cupti, true);
  atomic_store(&cupti_runs, true);
  return true;
}

void prof_cuda_opened(void) {
  pthread_once(&once, init);
  pthread_mutex_lock(&control);
  cuda_devices++;
  for (int i = 0; i < MOST_SESSIONS; i++) {
    nereid_prof *p = sessions[i];
    char why[600];
    if (p && !p->options.no_cuda && !p->cupti && !record_cuda(p, why)) say(NULL, p, "CUDA is not recorded: %s", why);
  }
  pthread_mutex_unlock(&control);
}

void prof_cuda_closed(void) {
  pthread_mutex_lock(&control);
  if (cuda_devices) cuda_devices--;
  pthread_mutex_unlock(&control);
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

/* The process's own command line, for whoever reads the trace. */
static char *command_line(void) {
  Buf text = {0};
  if (!file_read("/proc/self/cmdline", &text) || text.failed) return buf_destroy(&text), NULL;
  while (text.n && !text.at[text.n - 1]) text.n--;
  for (size_t i = 0; i < text.n; i++)
    if (!text.at[i]) text.at[i] = ' ';
  return text.at;
}

static void session_free(nereid_prof *p) {
  if (!p) return;
  free(p->path);
  free(p);
}

static bool sample(nereid_prof *p, char why[300]) {
  p->sampler = sampler_start(p->writer, p->options.sample_hz, why);
  if (!p->sampler || sampler_help(p->sampler, why)) return p->sampler != NULL;
  sampler_stop(p->sampler);
  return p->sampler = NULL, false;
}
static nereid_status sampling_failed(nereid_error **error, const char *why) {
  return error_set(error, NEREID_UNSUPPORTED, "leave sample_hz at 0 to go on without", "stacks cannot be sampled: %s",
                   why);
}

nereid_status nereid_prof_start(const char *path, const nereid_prof_options *options, nereid_prof **out,
                                nereid_error **error) {
  if (!path) return error_null(error, "nereid_prof_start", "the path");
  if (!out) return error_null(error, "nereid_prof_start", "out");
  static _Atomic uint64_t last_serial;
  nereid_prof_options o = options ? *options : (nereid_prof_options){0};
  if (o.sample_hz < 0 || o.sample_hz > 10000)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL,
                     "nereid_prof_start: %d samples a second; 0 to 10000 are possible", o.sample_hz);
  pthread_once(&once, init);
  nereid_prof *p = calloc(1, sizeof *p);
  if (!p || !(p->path = strdup(path))) return session_free(p), error_out_of_memory(error);
  nereid_status status = NEREID_OK;
  pthread_mutex_lock(&control);
  while (p->slot < MOST_SESSIONS && sessions[p->slot]) p->slot++;
  if (p->slot == MOST_SESSIONS)
    status = error_set(error, NEREID_BAD_ARGUMENT, "stop one of them", "%d sessions run already, which is the most",
                       MOST_SESSIONS);
  if (!status) {
    char *command = command_line();
    p->writer = trace_create(path, command);
    int why = errno;
    free(command);
    if (!p->writer) status = error_errno(error, NEREID_BAD_FILE, why, "cannot make the trace %s", path);
  }
  char why[600] = "";
  p->options = o, p->serial = ++last_serial, p->started = trace_clock(), p->flushed = p->started;
  /* nereid prof runs this program, which must go on as it would without: CUDA is in that one's trace */
  bool elsewhere = unasked != NULL;
  if (!status && !o.no_cuda && cuda_devices && !record_cuda(p, why)) {
    if (elsewhere) say(NULL, p, "CUDA is recorded by nereid prof, which runs this program, and not here: %s", why);
    else
      status = error_set(error, NEREID_UNSUPPORTED, "no_cuda in the options leaves CUDA out",
                         "CUDA cannot be recorded: %s", why);
  }
  if (!status && o.sample_hz && !sample(p, why)) status = sampling_failed(error, why);
  if (status) {
    if (p->cupti) atomic_store(&cupti_runs, false), cupti_stop(p->cupti);
    struct stat s;
    if (p->writer) trace_close(p->writer, NULL);
    if (p->writer && !lstat(path, &s) && S_ISREG(s.st_mode)) unlink(path);
    session_free(p);
  } else {
    pthread_rwlock_wrlock(&lock);
    sessions[p->slot] = p;
    atomic_fetch_add(&prof_sessions, 1);
    pthread_rwlock_unlock(&lock);
    *out = p;
  }
  pthread_mutex_unlock(&control);
  return status;
}

nereid_status nereid_prof_pause(nereid_prof *p, nereid_error **error) {
  if (!p) return error_null(error, "nereid_prof_pause", "the session");
  pthread_mutex_lock(&control);
  if (!p->gone && !p->paused) {
    pthread_rwlock_wrlock(&lock);
    p->paused = true, p->paused_at = trace_clock();
    pthread_rwlock_unlock(&lock);
    if (p->cupti) cupti_pause(p->cupti, true);
    if (p->sampler) sampler_stop(p->sampler);
    p->sampler = NULL;
  }
  pthread_mutex_unlock(&control);
  return NEREID_OK;
}

nereid_status nereid_prof_resume(nereid_prof *p, nereid_error **error) {
  if (!p) return error_null(error, "nereid_prof_resume", "the session");
  nereid_status status = NEREID_OK;
  char why[300] = "";
  pthread_mutex_lock(&control);
  if (!p->gone && p->paused) {
    if (p->options.sample_hz && !sample(p, why)) status = sampling_failed(error, why);
    if (!status && p->cupti) cupti_pause(p->cupti, false);
    pthread_rwlock_wrlock(&lock);
    if (!status) p->paused = false, p->resumed = trace_clock();
    pthread_rwlock_unlock(&lock);
  }
  pthread_mutex_unlock(&control);
  return status;
}

nereid_status nereid_prof_stop(nereid_prof *p, nereid_error **error) {
  if (!p) return error_null(error, "nereid_prof_stop", "the session");
  if (p->gone) return session_free(p), NEREID_OK;
  pthread_mutex_lock(&control);
  pthread_rwlock_wrlock(&lock);
  int64_t now = trace_clock();
  for (Thread *t = threads; t; t = t->next) close_scopes(t, p, "the session ended", now);
  sessions[p->slot] = NULL;
  bool last = atomic_fetch_sub(&prof_sessions, 1) == 1;
  for (Thread *t = threads; t && last; t = t->next) drop_scopes(t, 0);
  if (last) prof_work_clear();
  pthread_rwlock_unlock(&lock);
  if (p->cupti) atomic_store(&cupti_runs, false), cupti_stop(p->cupti);
  if (p->sampler) sampler_stop(p->sampler);
  int64_t lost = 0;
  int failed = trace_close(p->writer, &lost);
  pthread_mutex_unlock(&control);
  nereid_status status = !failed ? NEREID_OK
                                 : error_set(error, NEREID_BAD_FILE,
                                             "what the file has can be viewed; make room, or write the trace elsewhere",
                                             "the trace %s is not whole: %s; %lld events are lost", p->path,
                                             strerror(failed), (long long)lost);
  session_free(p);
  return status;
}

/* ---- a program that nereid_prof_run runs --------------------------------------------------------------------------------------------------------
 *
 * What CUDA does there is recorded by the library that was put into it (src/inject), into a trace of its own beside
 * this one; the two are read as one. */

__attribute__((constructor)) static void start_unasked(void) {
  const char *folder = environment_get("NEREID_PROF_DIR");
  char path[4096];
  if (!folder || !*folder) return;
  int n = snprintf(path, sizeof path, "%s/nereid-%ld.trace", folder, (long)getpid());
  /* after an exec */
  for (int i = 2; n < (int)sizeof path && !access(path, F_OK); i++)
    n = snprintf(path, sizeof path, "%s/nereid-%ld.%d.trace", folder, (long)getpid(), i);
  const char *kinds = environment_get("NEREID_PROF_KINDS");
  nereid_prof_options o = {.no_cuda = true, .count_work = kinds && strstr(kinds, "work")};
  /* a failure is the profiler's, not the program's */
  if (n >= (int)sizeof path || nereid_prof_start(path, &o, &unasked, NULL)) return;
  void *found = dlsym(RTLD_DEFAULT, "nereid_prof_last_launch");
  memcpy(&unasked_launch_of, &found, sizeof found);
}

/* What a session that nobody stopped knows is written when the process ends, or the library is unloaded. */
__attribute__((destructor)) static void at_exit(void) {
  if (unasked) nereid_prof_stop(unasked, NULL);
  if (!prof_on() || pthread_mutex_trylock(&control)) return;
  for (int i = 0; i < MOST_SESSIONS; i++)
    if (sessions[i]) trace_flush(sessions[i]->writer);
  pthread_mutex_unlock(&control);
}
