/* sampler: what the threads of this process do, by samples of their stacks.
 *
 *     thread's CPU-time timer ─ signal, in that thread ─▶ its stack ─▶ its ring ─▶ helper thread, 20 times a second ─▶
 *       TraceWriter
 *
 * Each thread has a timer of its own on its own CPU clock, so a thread is sampled when it runs and not while it waits,
 * and a sample stands for 1/hz seconds of CPU time (or more, if the kernel says that the timer ran over). The kernel
 * tells the handler which ring is meant (sigev_value), so that it needs no thread-local storage: it unwinds, appends,
 * and that is all. A ring has one writer and one reader, and needs no lock; one that is full drops samples and counts
 * them.
 *
 * The helper looks for new threads in /proc/self/task and arms their timers; nothing is hooked. It writes TRACE_MODULE
 * for the parts of the address space in which samples lie, once each. Threads that block the signal are left alone:
 * they may wait for signals themselves.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "prof/prof.h"
#include "prof/record/unwind.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* words of a ring: 128 KiB; START_S: the most that the helper is waited for */
enum { RING = 1 << 14, DRAIN_MS = 50, SCAN_NAMES = 20, LOOKS = 8, START_S = 2 };

/* A sample in a ring: depth and timer's overrun; time; addresses. */
typedef struct Ring {
  pid_t tid;
  timer_t timer;
  bool armed;
  int looks; /* at whether it blocks the signal; a thread that starts another does so for a moment */
  char name[32];
  struct Ring *next;
  _Atomic uint32_t written, read; /* words since ever; the difference is what is in it */
  _Atomic uint32_t dropped;
  uint64_t words[RING];
} Ring;

typedef struct Region {
  uint64_t base, end;
  bool in_file;
} Region;

struct Sampler {
  TraceWriter *trace;
  int64_t period;
  pthread_t helper;
  bool has_helper, runs; /* runs: the helper has begun, and is done with what starting a thread takes */
  pthread_mutex_t lock;
  pthread_cond_t wake;
  bool stop;
  Ring *rings;     /* the helper's, as all below */
  Region *regions; /* executable, sorted */
  int region_count, region_cap;
  Arena *arena;
  Map *modules;                           /* "path@base" that were written */
  Map *made;                              /* addresses of samples that lie in no file */
  int64_t dropped, sampled, cpu_at_start; /* sampled: ns that samples stand for */
  int scans;
  Sampler *before; /* abandoned before this one */
};

static _Atomic int active; /* samples are wanted; a signal may come later than its timer's end */
static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;
static Ring *free_rings;                    /* never unmapped, for the same reason */
static int signal_number;                   /* 0: none taken yet; ours for good then */
static _Atomic(sighandler_t) their_handler; /* what the program itself wants of that signal */
static struct sigaction their_action;
static const uint64_t ours_tag = UINT64_C(0x4e52) << 48; /* in our timers' values, above all addresses */

static int64_t cpu_time(void) {
  struct timespec t;
  return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) ? 0 : t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- in the thread that is sampled ------------------------------------------------------------------------------- */

/* A signal of the program's own. */
static void pass_on(int number, siginfo_t *info, void *context) {
  sighandler_t theirs = atomic_load(&their_handler);
  if (theirs == SIG_IGN) return;
  if (theirs != SIG_DFL) ((void (*)(int, siginfo_t *, void *))(uintptr_t)theirs)(number, info, context);
  else {
    signal_number = 0;
    sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    raise(number); /* it comes when this handler returns, and ends the process */
  }
}

bool sampler_shares(int number, const struct sigaction *act, struct sigaction *old) {
  if (!signal_number || number != signal_number) return false;
  struct sigaction before = their_action; /* old may be act */
  if (act) their_action = *act, atomic_store(&their_handler, act->sa_handler);
  if (old) *old = before;
  return true;
}

static void on_signal(int number, siginfo_t *info, void *context) {
  uint64_t value = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
  if (info->si_code != SI_TIMER || value >> 48 != ours_tag >> 48) {
    pass_on(number, info, context);
    return;
  }
  if (!atomic_load_explicit(&active, memory_order_acquire)) return;
  Ring *r = (Ring *)(uintptr_t)(value ^ ours_tag);
  int before = errno;
  uint64_t stack[TRACE_STACK];
  int depth = unwind_interrupted(context, stack, TRACE_STACK);
  uint32_t at = atomic_load_explicit(&r->written, memory_order_relaxed), need = (uint32_t)depth + 2;
  if (at - atomic_load_explicit(&r->read, memory_order_acquire) + need > RING)
    atomic_fetch_add_explicit(&r->dropped, 1, memory_order_relaxed);
  else {
    r->words[at % RING] = (uint64_t)depth | (uint64_t)(uint32_t)info->si_overrun << 32;
    r->words[(at + 1) % RING] = (uint64_t)trace_clock();
    for (int i = 0; i < depth; i++) r->words[(at + 2 + (uint32_t)i) % RING] = stack[i];
    atomic_store_explicit(&r->written, at + need, memory_order_release);
  }
  errno = before;
}

/* A real-time signal that nobody uses, from the top. */
static bool take_signal(char why[300]) {
  if (signal_number) return true;
  for (int n = SIGRTMAX - 4; n > SIGRTMIN; n--) {
    struct sigaction old;
    if (sigaction(n, NULL, &old) || old.sa_handler != SIG_DFL) continue;
    struct sigaction ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigfillset(&ours.sa_mask);
    if (sigaction(n, &ours, NULL)) continue;
    signal_number = n;
    return true;
  }
  snprintf(why, 300, "this program uses every real-time signal, of which sampling needs one");
  return false;
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static Ring *ring_take(void) {
  pthread_mutex_lock(&rings_lock);
  Ring *r = free_rings;
  if (r) free_rings = r->next;
  pthread_mutex_unlock(&rings_lock);
  if (!r && (r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) == MAP_FAILED)
    return NULL;
  atomic_store(&r->read, atomic_load(&r->written));
  atomic_store(&r->dropped, 0);
  r->armed = false, r->looks = 0, r->name[0] = 0, r->next = NULL;
  return r;
}
static void ring_give(Ring *r) {
  pthread_mutex_lock(&rings_lock);
  r->next = free_rings, free_rings = r;
  pthread_mutex_unlock(&rings_lock);
}

/* What /proc knows of a thread: its name, and whether it blocks our signal. false: it is gone. */
static bool thread_status(pid_t tid, char name[32], bool *blocks) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
  FILE *f = fopen(path, "re");
  if (!f) return false;
  *blocks = true;
  while (fgets(line, sizeof line, f)) {
    unsigned long long mask;
    if (!strncmp(line, "Name:\t", 6)) line[strcspn(line, "\n")] = 0, snprintf(name, 32, "%.31s", line + 6);
    if (sscanf(line, "SigBlk: %llx", &mask) == 1) *blocks = mask >> (signal_number - 1) & 1;
  }
  fclose(f);
  return true;
}

static void write_name(Sampler *s, Ring *r, const char *name) {
  if (!strcmp(r->name, name) || !strncmp(name, "nereid-", 7)) return; /* the profiler's own */
  snprintf(r->name, sizeof r->name, "%s", name);
  int64_t now = trace_clock();
  trace_event(s->trace, &(TraceEvent){.kind = TRACE_THREAD,
                                      .name = trace_string(s->trace, name),
                                      .start = now,
                                      .end = now,
                                      .thread = (uint32_t)r->tid});
}

static void arm(Sampler *s, Ring *r) {
  struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID,
                       .sigev_signo = signal_number,
                       .sigev_value.sival_ptr = (void *)((uintptr_t)r ^ ours_tag)};
  e.sigev_notify_thread_id = r->tid;
  /* the thread's CPU clock (CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED) */
  clockid_t clock = (clockid_t)((~(unsigned)r->tid) << 3 | 6);
  if (timer_create(clock, &e, &r->timer)) return;
  struct itimerspec every = {.it_interval = {s->period / 1000000000, s->period % 1000000000}};
  every.it_value = every.it_interval;
  atomic_store_explicit(&active, 1, memory_order_release); /* what the signal reads of the ring is written */
  if (timer_settime(r->timer, 0, &every, NULL)) timer_delete(r->timer);
  else r->armed = true;
}
static void disarm(Ring *r) {
  if (r->armed) timer_delete(r->timer);
  r->armed = false;
}
static bool is_dead(const Ring *r) { /* its number may be another thread's by now */
  struct itimerspec left;
  return r->armed && (timer_gettime(r->timer, &left) || (!left.it_value.tv_sec && !left.it_value.tv_nsec));
}

/* The thread that starts the sampler, without a look at /proc: the kernel takes milliseconds to end a process that
 * looked there. */
static void arm_self(Sampler *s) {
  sigset_t blocked;
  Ring *r = pthread_sigmask(SIG_SETMASK, NULL, &blocked) || sigismember(&blocked, signal_number) ? NULL : ring_take();
  if (!r) return;
  r->tid = (pid_t)syscall(SYS_gettid), s->rings = r;
  arm(s, r);
}

static void drain(Sampler *s, Ring *r);

static void scan_threads(Sampler *s, pid_t helper) {
  DIR *d = opendir("/proc/self/task");
  if (!d) return;
  bool names = s->scans++ % SCAN_NAMES == 0;
  for (Ring **at = &s->rings; *at;) {
    Ring *r = *at;
    if (!is_dead(r)) {
      at = &r->next;
      continue;
    }
    drain(s, r);
    disarm(r);
    *at = r->next;
    ring_give(r);
  }
  for (struct dirent *e; (e = readdir(d));) {
    pid_t tid = atoi(e->d_name);
    if (tid <= 0 || tid == helper) continue;
    Ring *r = s->rings;
    while (r && r->tid != tid) r = r->next;
    if (r && r->armed && !names) continue;
    char name[32] = "";
    bool blocks;
    if ((r && r->looks > LOOKS && !names) || !thread_status(tid, name, &blocks)) continue;
    if (!r) {
      if (!(r = ring_take())) continue;
      r->tid = tid, r->next = s->rings, s->rings = r;
    }
    r->looks++;
    write_name(s, r, name);
    if (!r->armed && !blocks) arm(s, r);
  }
  closedir(d);
}

/* ---- the address space ------------------------------------------------------------------------------------------- */

static const Region *region_of(const Sampler *s, uint64_t address) {
  int low = 0, high = s->region_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (s->regions[middle].end <= address) low = middle + 1;
    else high = middle;
  }
  return low < s->region_count && s->regions[low].base <= address ? &s->regions[low] : NULL;
}

static void write_module(Sampler *s, const char *path, uint64_t base, uint64_t end, uint64_t offset) {
  char *key = arena_printf(s->arena, "%s@%llx", path, (unsigned long long)base);
  if (!key || map_has(s->modules, key)) return;
  map_put(s->modules, key, s);
  int64_t now = trace_clock();
  uint32_t name = trace_string(s->trace, path);
  trace_event(s->trace,
              &(TraceEvent){
                  .kind = TRACE_MODULE, .name = name, .start = now, .end = now, .module = {base, end - base, offset}});
}

static void scan_modules(Sampler *s) {
  FILE *f = fopen("/proc/self/maps", "re");
  if (!f) return;
  char *line = NULL;
  size_t cap = 0;
  s->region_count = 0;
  while (getline(&line, &cap, f) > 0) {
    unsigned long long base, end, offset;
    char mode[8];
    int at = 0;
    if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %n", &base, &end, mode, &offset, &at) < 4 || mode[2] != 'x') continue;
    if (s->region_count == s->region_cap) {
      int more = s->region_cap ? s->region_cap * 2 : 256;
      Region *regions = realloc(s->regions, (size_t)more * sizeof *regions);
      if (!regions) break;
      s->regions = regions, s->region_cap = more;
    }
    line[strcspn(line, "\n")] = 0;
    bool in_file = at && (line[at] == '/' || !strcmp(line + at, "[vdso]"));
    s->regions[s->region_count++] = (Region){base, end, in_file};
    if (in_file) write_module(s, line + at, base, end, offset);
  }
  free(line);
  fclose(f);
}

/* What was made at run time is named by a file that goes with the process (/tmp/perf-PID.map): the names that samples
 * need go into the trace. A return address is looked up by the byte before it, hence two bytes each. */
static void write_made(Sampler *s) {
  Symbols *symbols = map_count(s->made) ? symbols_create() : NULL;
  for (int i = 0; symbols && i < map_count(s->made); i++) {
    const void *key;
    void *unused;
    map_entry(s->made, i, &key, &unused);
    uint64_t address = (uint64_t)(uintptr_t)key;
    const char *name = symbols_name(symbols, (uint32_t)getpid(), address - 1);
    if (name[0] != '[') write_module(s, name, address - 1, address + 1, 0);
  }
  symbols_free(symbols);
}

/* ---- the helper -------------------------------------------------------------------------------------------------- */

static void drain(Sampler *s, Ring *r) {
  uint32_t to = atomic_load_explicit(&r->written, memory_order_acquire),
           at = atomic_load_explicit(&r->read, memory_order_relaxed);
  bool looked = false;
  TraceEvent e = {.kind = TRACE_SAMPLE, .thread = (uint32_t)r->tid};
  while (at != to) {
    uint64_t head = r->words[at % RING];
    uint32_t depth = (uint32_t)head;
    e.start = e.end = (int64_t)r->words[(at + 1) % RING];
    e.sample.depth = depth;
    e.sample.weight = s->period * (1 + (int64_t)(head >> 32));
    for (uint32_t i = 0; i < depth; i++) {
      uint64_t address = r->words[(at + 2 + i) % RING];
      e.sample.stack[i] = address;
      const Region *region = region_of(s, address);
      if (!region && !looked) looked = true, scan_modules(s), region = region_of(s, address);
      if (region && !region->in_file) map_put(s->made, (const void *)(uintptr_t)address, s);
    }
    trace_event(s->trace, &e);
    s->sampled += e.sample.weight;
    at += depth + 2;
  }
  atomic_store_explicit(&r->read, to, memory_order_release);
  s->dropped += atomic_exchange(&r->dropped, 0);
}

/* Holds the lock while it works, so that who forks can wait for it to rest (sampler_hold). */
static void *help(void *p) {
  Sampler *s = p;
  pid_t own = (pid_t)syscall(SYS_gettid);
  pthread_setname_np(pthread_self(), "nereid-sampler");
  pthread_mutex_lock(&s->lock);
  s->runs = true;
  pthread_cond_broadcast(&s->wake);
  while (!s->stop) {
    scan_threads(s, own);
    for (Ring *r = s->rings; r; r = r->next) drain(s, r);
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += DRAIN_MS * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    pthread_cond_timedwait(&s->wake, &s->lock, &until);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

static void sampler_free(Sampler *s) {
  if (s->arena) arena_destroy(s->arena);
  free(s->regions);
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->wake);
  free(s);
}

Sampler *sampler_start(TraceWriter *w, int hz, char why[300]) {
  if (hz < 1 || hz > 10000) return snprintf(why, 300, "samples a second must be from 1 to 10000, not %d", hz), NULL;
  int none = 0;
  if (!atomic_compare_exchange_strong(&active, &none, 1))
    return snprintf(why, 300, "this process is sampled already"), NULL;
  Sampler *s = calloc(1, sizeof *s);
  if (!s) return atomic_store(&active, 0), snprintf(why, 300, "out of memory"), NULL;
  s->trace = w, s->period = 1000000000 / hz;
  pthread_mutex_init(&s->lock, NULL);
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&s->wake, &clock);
  pthread_condattr_destroy(&clock);
  if (!(s->arena = arena_create(NULL)) || !(s->modules = map_create(s->arena, true)) ||
      !(s->made = map_create(s->arena, false))) {
    snprintf(why, 300, "out of memory");
    goto failed;
  }
  if (!take_signal(why)) goto failed;
  arm_self(s);
  s->cpu_at_start = cpu_time();
  return s;
failed:
  sampler_free(s);
  atomic_store(&active, 0);
  return NULL;
}

bool sampler_help(Sampler *s, char why[300]) {
  if (!s || s->has_helper) return true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int wrong = pthread_create(&s->helper, NULL, help, s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (wrong) return snprintf(why, 300, "no thread can be started for sampling: %s", strerror(wrong)), false;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += START_S;
  pthread_mutex_lock(&s->lock);
  while (!s->runs && !pthread_cond_timedwait(&s->wake, &s->lock, &until)) {}
  pthread_mutex_unlock(&s->lock);
  return s->has_helper = true;
}

static void lost(Sampler *s, TraceKind kind, int64_t count, const char *text) {
  int64_t now = trace_clock();
  trace_event(
      s->trace,
      &(TraceEvent){.kind = kind, .name = trace_string(s->trace, text), .start = now, .end = now, .lost.count = count});
}

void sampler_stop(Sampler *s) {
  if (!s) return;
  int64_t cpu = cpu_time() - s->cpu_at_start;
  pthread_mutex_lock(&s->lock);
  s->stop = true;
  pthread_cond_signal(&s->wake);
  pthread_mutex_unlock(&s->lock);
  if (s->has_helper) pthread_join(s->helper, NULL);
  for (Ring *r = s->rings; r; r = r->next) disarm(r);
  atomic_store(&active, 0);
  for (Ring *r = s->rings, *next; r; r = next) {
    next = r->next;
    drain(s, r);
    ring_give(r);
  }
  write_made(s);
  if (s->dropped) lost(s, TRACE_LOST, s->dropped, "samples that came faster than they were written");
  else if (cpu - s->sampled > cpu / 4 && cpu - s->sampled > 20 * s->period) {
    char text[200];
    snprintf(text, sizeof text,
             "samples stand for %.3f s of %.3f s of CPU time: threads that live for less than %d ms are not sampled",
             (double)s->sampled / 1e9, (double)cpu / 1e9, DRAIN_MS);
    lost(s, TRACE_NOTE, 0, text);
  }
  sampler_free(s);
}

void sampler_hold(Sampler *s) {
  if (s) pthread_mutex_lock(&s->lock);
}
void sampler_release(Sampler *s) {
  if (s) pthread_mutex_unlock(&s->lock);
}

void sampler_abandon(Sampler *s) {
  /* its helper may have been at any place in what it owns: it stays, where a search for leaks sees it */
  static Sampler *abandoned;
  if (s) s->before = abandoned, abandoned = s;
  atomic_store(&active, 0);
  free_rings = NULL; /* and its lock, which may be held by a thread that this process does not have */
  rings_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
