/* Pool: threads that share the work items of one call at a time.
 *
 * pool_run publishes a job, wakes the workers and works along with them. The items are cut into one range a thread,
 * from which it takes chunk after chunk by an atomic addition, and then from the others' until none is left: what a
 * thread did in one job it does again in the next of that size, and finds its data in its own caches. A worker enters a
 * job only while it is open, and the caller closes it once the chunks are gone and then waits for those who entered: a
 * worker that slept through a short job delays nobody.
 *
 * Waking a thread costs more than many a job takes. So a worker looks out for the next job for a while before it
 * sleeps, as long as every thread has a processor of its own, and so does the caller for those who are not done yet.
 * Nobody takes a lock on this way: `state` is both the door and the count of those inside.
 *
 * A function that runs in the pool may call pool_run on the same pool: the inner range then runs at once on that
 * thread, under its own worker number, since waiting for the others could never end.
 *
 * A child of fork() has no workers; its first job starts them anew.
 */
#define _GNU_SOURCE
#include "base/base.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { LEAST_STACK = 2 << 20, LOOKS = 2000 /* before sleep: 50 to 100 us */, OPEN = 1, ONE_INSIDE = 2 };

typedef struct Job {
  void (*fn)(void *arg, int64_t begin, int64_t end, int worker);
  void *arg;
  int64_t n, chunk;
} Job;

typedef struct Range {
  _Alignas(64) _Atomic int64_t next;
  int64_t end;
} Range;

typedef struct Worker {
  Pool *pool;
  pthread_t thread;
  int index; /* 1, 2, ...; 0 is whoever calls pool_run */
} Worker;

struct Pool {
  pthread_mutex_t turn;  /* held through a whole pool_run */
  pthread_mutex_t lock;  /* for who sleeps: of opened and left */
  pthread_cond_t opened; /* a job was opened, or the pool ends */
  pthread_cond_t left;   /* the last worker left a closed job */
  ForkHook fork;
  int looks;
  Job job;                                  /* changes while nobody is inside */
  _Alignas(64) _Atomic uint64_t generation; /* of the job, so that a worker enters each once */
  atomic_bool ending;
  _Alignas(64) atomic_uint state; /* OPEN, and ONE_INSIDE for each worker in the job */
  Range *ranges;                  /* of the job, one a thread */
  int range_count;
  _Alignas(64) atomic_bool cancelled;
  int wanted;       /* workers; fewer run where the system gives no more threads */
  int worker_count; /* under turn: those that run; none in a child of fork, until it needs them */
  bool started;
  Worker *workers;
};

/* The jobs that this thread works on, the innermost first. */
typedef struct Work {
  const struct Work *outer;
  const Pool *pool;
  int worker;
} Work;
static _Thread_local const Work *here;

static void take_chunks(Pool *p, const Job *job, int worker) {
  const Work work = {here, p, worker};
  here = &work;
  for (int i = 0; i < p->range_count; i++) {
    Range *r = &p->ranges[(worker + i) % p->range_count];
    while (atomic_load_explicit(&r->next, memory_order_relaxed) < r->end) {
      if (atomic_load_explicit(&p->cancelled, memory_order_relaxed)) break;
      int64_t begin = atomic_fetch_add_explicit(&r->next, job->chunk, memory_order_relaxed);
      if (begin >= r->end) break;
      job->fn(job->arg, begin, r->end - begin < job->chunk ? r->end : begin + job->chunk, worker);
    }
  }
  here = work.outer;
}

void thread_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

static bool enter(Pool *p) {
  unsigned state = atomic_load_explicit(&p->state, memory_order_acquire);
  while (state & OPEN)
    if (atomic_compare_exchange_weak_explicit(&p->state, &state, state + ONE_INSIDE, memory_order_acquire,
                                              memory_order_acquire))
      return true;
  return false;
}

static void leave(Pool *p) {
  if (atomic_fetch_sub_explicit(&p->state, ONE_INSIDE, memory_order_acq_rel) != ONE_INSIDE) return;
  pthread_mutex_lock(&p->lock);
  pthread_cond_signal(&p->left);
  pthread_mutex_unlock(&p->lock);
}

static bool is_news(Pool *p, uint64_t seen) {
  return atomic_load_explicit(&p->generation, memory_order_acquire) != seen || atomic_load(&p->ending);
}

/* One for each thread, of whole chunks. */
static void cut_ranges(Pool *p, int64_t n, int64_t chunk) {
  int64_t chunks = (n - 1) / chunk + 1;
  int count = p->worker_count + 1;
  if (chunks < count) count = (int)chunks;
  p->range_count = count;
  for (int i = 0; i < count; i++) {
    int64_t begin = chunks / count * i + (i < chunks % count ? i : chunks % count),
            size = chunks / count + (i < chunks % count);
    atomic_store_explicit(&p->ranges[i].next, begin * chunk, memory_order_relaxed);
    p->ranges[i].end = size > n / chunk - begin ? n : (begin + size) * chunk;
  }
}

static void *worker_main(void *arg) {
  Worker *w = arg;
  Pool *p = w->pool;
  uint64_t seen = 0;
  for (;;) {
    for (int i = 0; i < p->looks && !is_news(p, seen); i++) thread_relax();
    if (!is_news(p, seen)) {
      pthread_mutex_lock(&p->lock);
      while (!is_news(p, seen)) pthread_cond_wait(&p->opened, &p->lock);
      pthread_mutex_unlock(&p->lock);
    }
    if (atomic_load(&p->ending)) return NULL;
    seen = atomic_load_explicit(&p->generation, memory_order_acquire);
    if (!enter(p)) continue;
    Job job = p->job;
    take_chunks(p, &job, w->index);
    leave(p);
  }
}

int thread_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  long n = sysconf(_SC_NPROCESSORS_ONLN); /* a machine with more processors than a cpu_set_t holds */
  return n > 0 ? (int)n : 1;
}

static void init_locks(Pool *p) {
  pthread_mutex_init(&p->turn, NULL);
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->opened, NULL);
  pthread_cond_init(&p->left, NULL);
}

static void start_workers(Pool *p) {
  /* The process's signals are its own threads' business. Where the default stack is small (musl: 128 KB), ours is not.
   */
  sigset_t all, before;
  pthread_attr_t attributes;
  size_t stack = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&attributes);
  if (!pthread_attr_getstacksize(&attributes, &stack) && stack < LEAST_STACK)
    pthread_attr_setstacksize(&attributes, LEAST_STACK);
  while (p->worker_count < p->wanted) {
    Worker *w = &p->workers[p->worker_count];
    *w = (Worker){.pool = p, .index = p->worker_count + 1};
    if (pthread_create(&w->thread, &attributes, worker_main, w) != 0) break; /* fewer threads do the same work */
    p->worker_count++;
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  p->started = true;
}

/* The workers are gone; the next job starts them anew. A job of another thread is no more; where the thread that
 * forked is in one, it goes through the rest of it alone. */
static void in_child(void *owner) {
  Pool *p = owner;
  init_locks(p);
  p->worker_count = 0;
  p->started = false;
  const Work *mine = here;
  while (mine && (mine->pool != p || !mine->worker)) mine = mine->outer;
  atomic_store(&p->state, mine ? ONE_INSIDE : 0);
}

Pool *pool_create(int threads) {
  if (threads <= 0) threads = thread_processors();
  Pool *p = NULL;
  if (posix_memalign((void **)&p, 64, sizeof *p) != 0) return NULL;
  memset(p, 0, sizeof *p);
  p->workers = calloc((size_t)threads, sizeof *p->workers);
  if (!p->workers || posix_memalign((void **)&p->ranges, 64, (size_t)threads * sizeof *p->ranges) != 0) {
    free(p->workers);
    free(p);
    return NULL;
  }
  init_locks(p);
  p->wanted = threads - 1;
  p->looks = threads <= thread_processors() ? LOOKS : 0;
  start_workers(p);
  p->wanted = p->worker_count;
  p->fork = (ForkHook){.in_child = in_child, .owner = p};
  fork_hook_add(&p->fork);
  return p;
}

void pool_destroy(Pool *p) {
  if (!p) return;
  fork_hook_remove(&p->fork);
  pthread_mutex_lock(&p->lock);
  atomic_store(&p->ending, true);
  pthread_cond_broadcast(&p->opened);
  pthread_mutex_unlock(&p->lock);
  for (int i = 0; i < p->worker_count; i++) pthread_join(p->workers[i].thread, NULL);
  pthread_cond_destroy(&p->left);
  pthread_cond_destroy(&p->opened);
  pthread_mutex_destroy(&p->lock);
  pthread_mutex_destroy(&p->turn);
  free(p->ranges);
  free(p->workers);
  free(p);
}

int pool_threads(const Pool *p) { return p->wanted + 1; }

void pool_cancel(Pool *p) { atomic_store_explicit(&p->cancelled, true, memory_order_relaxed); }

void pool_run(Pool *p, int64_t n, int64_t chunk, void (*fn)(void *arg, int64_t begin, int64_t end, int worker),
              void *arg) {
  if (n <= 0) return;
  if (chunk <= 0) chunk = 1;
  if (chunk > n) chunk = n;
  const Work *mine = here;
  while (mine && mine->pool != p) mine = mine->outer;
  if (mine) {
    for (int64_t i = 0; i < n && !atomic_load(&p->cancelled); i += chunk)
      fn(arg, i, n - i < chunk ? n : i + chunk, mine->worker);
    return;
  }

  pthread_mutex_lock(&p->turn);
  if (!p->started) start_workers(p);
  Job job = {fn, arg, n, chunk};
  bool open = n > chunk && p->worker_count; /* one chunk is the caller's */
  cut_ranges(p, n, chunk);
  atomic_store_explicit(&p->cancelled, false, memory_order_relaxed);
  if (open) {
    p->job = job;
    atomic_store_explicit(&p->state, OPEN, memory_order_release);
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add_explicit(&p->generation, 1, memory_order_release);
    pthread_cond_broadcast(&p->opened);
    pthread_mutex_unlock(&p->lock);
  }

  take_chunks(p, &job, 0);

  if (open && atomic_fetch_and_explicit(&p->state, ~(unsigned)OPEN, memory_order_acq_rel) > OPEN) {
    for (int i = 0; i < p->looks && atomic_load_explicit(&p->state, memory_order_acquire); i++) thread_relax();
    pthread_mutex_lock(&p->lock);
    while (atomic_load_explicit(&p->state, memory_order_acquire)) pthread_cond_wait(&p->left, &p->lock);
    pthread_mutex_unlock(&p->lock);
  }
  pthread_mutex_unlock(&p->turn);
}
