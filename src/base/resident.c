/* Residents: programs that may wait for each other, on the threads of a pool or on one.
 *
 * On a GPU, programs that have begun go on side by side until they end. Here each is a coroutine. One that waits gives
 * way in every iteration of its loop, and what runs instead is, in this order:
 *
 *     the thread's other programs, which have waited too and may have found by now what they waited for
 *     programs that have not begun, when none of them has got any further: as many as there are already, so that the
 *         looks at those that wait are few beside the programs
 *     nothing: the thread waits for the other threads' programs, and after a while sleeps between two looks
 *
 * A program stays on its thread. When it has ended, its coroutine takes the next one, so that programs which never wait
 * run one after the other on one stack, without a switch. Programs begin in their order.
 *
 * Where all threads have come to the third, programs wait for each other, or for memory that another launch or the host
 * is to write: nobody here can know. So each look then costs IN_VAIN of the launch's operations, and when these are
 * gone all programs end; as many as the limit's default has take a minute or two.
 */
#define _GNU_SOURCE
#include "base/base.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
  MOST = 16384,       /* resident programs; the largest GPUs have some thousands */
  FIRST_LOOKS = 64,   /* of a program whose thread is not alone, before it gives way for the first time */
  EAGER_ROUNDS = 64,  /* of looks by a thread without work, before it lets others have the processor ... */
  AWAKE_ROUNDS = 512, /* ... and before it sleeps */
  SLEEP_NS = 20000,
  ALL_WAIT = 256, /* looks by a thread while another is at work, that say as much as one while all wait */
  SURE = 16 * ALL_WAIT,
  IN_VAIN = 1 << 20
};

typedef struct Program {
  Residents *of;
  Coroutine *on;
  void *state;
  int64_t ended;  /* programs, on this coroutine */
  bool got_ahead; /* since somebody asked */
  int looks;      /* in a row, without giving way */
} Program;

typedef struct Thread { /* that works on them */
  Residents *of;
  Program **programs; /* that are resident on it */
  int64_t count, capacity;
} Thread;

void residents_init(Residents *r, int threads) {
  int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), each = r->bytes + (32 << 10);
  r->most = memory / 4 / each;
  if (r->most > MOST) r->most = MOST;
  if (r->most < threads) r->most = threads;
  r->looks = threads > 1 && threads <= thread_processors() ? FIRST_LOOKS : 0;
}

void residents_stop(Residents *r) { atomic_store(&r->stopped, true); }

static void run_programs(void *arg) {
  Program *p = arg;
  Residents *r = p->of;
  int64_t at;
  while (!atomic_load_explicit(&r->stopped, memory_order_relaxed) && (at = atomic_fetch_add(&r->next, 1)) < r->count) {
    if (!r->run(r->arg, p->state, at)) residents_stop(r);
    p->ended++;
    p->got_ahead = true;
  }
}

bool residents_wait(Residents *r, bool got_ahead) {
  Program *p = coroutine_argument(coroutine_running());
  if (got_ahead) {
    p->got_ahead = true;
    p->looks = r->looks;
  }
  if (p->looks-- > 0) {
    thread_relax();
  } else {
    p->looks = 0;
    coroutine_suspend();
  }
  return !atomic_load_explicit(&r->stopped, memory_order_relaxed);
}

/* ---- one thread -------------------------------------------------------------------------------------------------- */

static void end(Residents *r, Program *p) {
  coroutine_destroy(p->on);
  if (p->state) r->close(r->arg, p->state);
  free(p);
  atomic_fetch_sub(&r->resident, 1);
}

static Program *begin(Thread *t) {
  if (t->count == t->capacity) {
    int64_t capacity = t->capacity ? 2 * t->capacity : 16;
    Program **grown = realloc(t->programs, (size_t)capacity * sizeof *grown);
    if (!grown) return NULL;
    t->programs = grown;
    t->capacity = capacity;
  }
  Residents *r = t->of;
  Program *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->of = r;
  p->looks = r->looks;
  p->state = r->open(r->arg);
  if (p->state) p->on = coroutine_create(run_programs, p);
  if (p->on) return p;
  if (p->state) r->close(r->arg, p->state);
  free(p);
  return NULL;
}

static void end_for_memory(Residents *r) {
  atomic_store(&r->no_memory, true);
  residents_stop(r);
}

/* As many programs as are resident here, or one; false when there is none. Those for which there is no room are to
 * wait until others have ended. */
static bool begin_some(Thread *t) {
  Residents *r = t->of;
  int64_t begun = 0;
  for (int64_t n = t->count ? t->count : 1; begun < n; begun++) {
    if (atomic_load(&r->stopped) || atomic_load(&r->next) >= r->count) break;
    int64_t others = atomic_fetch_add(&r->resident, 1);
    Program *p = others < r->most ? begin(t) : NULL;
    if (others < r->most) atomic_store(&r->refused, !p);
    if (!p) {
      atomic_fetch_sub(&r->resident, 1);
      if (!others) end_for_memory(r);
      break;
    }
    if (coroutine_resume(p->on)) t->programs[t->count++] = p;
    else end(r, p);
  }
  return begun > 0;
}

/* Lets each go on until it waits again. *ended: whether a program has ended; the result: whether one got ahead. */
static bool resume_all(Thread *t, bool *ended) {
  bool got_ahead = false;
  for (int64_t i = 0; i < t->count;) {
    Program *p = t->programs[i];
    int64_t before = p->ended;
    p->got_ahead = false;
    bool goes_on = coroutine_resume(p->on);
    got_ahead |= p->got_ahead;
    *ended |= p->ended != before;
    if (goes_on) {
      i++;
      continue;
    }
    t->programs[i] = t->programs[--t->count];
    end(t->of, p);
  }
  return got_ahead;
}

static int64_t left_to_begin(const Residents *r) {
  int64_t left = r->count - atomic_load(&r->next);
  return left > 0 ? left : 0;
}

static void wait_in_vain(Residents *r) {
  if (!r->operations || atomic_fetch_sub(r->operations, IN_VAIN) > IN_VAIN || atomic_load(&r->stopped)) return;
  int64_t none = 0;
  atomic_store(&r->not_begun, left_to_begin(r));
  atomic_compare_exchange_strong(&r->in_vain, &none, atomic_load(&r->resident));
  residents_stop(r);
}

/* Who is not waiting may only be looking, for long where others have the processor, or have got further. */
static void note_sleep(Residents *r, bool all_wait) {
  int sure = atomic_load(&r->asleep) + (all_wait ? ALL_WAIT : -1);
  atomic_store(&r->asleep, sure < 0 ? 0 : sure > SURE ? SURE : sure);
}

static void rest(Residents *r, int64_t rounds) {
  bool all_wait = atomic_fetch_sub(&r->busy, 1) == 1;
  if (rounds < EAGER_ROUNDS) {
    thread_relax();
  } else if (rounds < AWAKE_ROUNDS) {
    sched_yield();
  } else {
    note_sleep(r, all_wait);
    if (all_wait && atomic_load(&r->refused)) end_for_memory(r); /* nobody is left to give any back */
    else if (all_wait) wait_in_vain(r);
    nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
  }
  atomic_fetch_add(&r->busy, 1);
}

bool residents_work(Residents *r) {
  Thread t = {.of = r};
  atomic_fetch_add(&r->busy, 1);
  for (int64_t rounds = 0;;) {
    bool ended = false, got_ahead = resume_all(&t, &ended);
    if (!ended) got_ahead |= begin_some(&t);
    if (got_ahead) {
      if (rounds) atomic_store(&r->asleep, 0);
      rounds = 0;
      continue;
    }
    if (!t.count) break; /* another thread may have programs for which there is no room; it begins them itself */
    rest(r, rounds++);
  }
  atomic_fetch_sub(&r->busy, 1);
  free(t.programs);
  return !atomic_load(&r->stopped);
}

bool residents_all_wait(const Residents *r) { return atomic_load(&r->asleep) > 0; }

bool residents_in_vain(const Residents *r) { return atomic_load(&r->in_vain) != 0; }

void residents_message(const Residents *r, char *out, size_t size) {
  long long waiting = atomic_load(&r->in_vain), more = atomic_load(&r->not_begun);
  if (!waiting) waiting = atomic_load(&r->resident), more = left_to_begin(r);
  int n = snprintf(out, size, "programs wait for each other: %lld %s in a loop that waits for memory to change, ",
                   waiting, waiting == 1 ? "is" : "are");
  if (n < 0 || (size_t)n >= size) return;
  if (more) snprintf(out + n, size - (size_t)n, "and the other %lld cannot begin before one of them ends", more);
  else snprintf(out + n, size - (size_t)n, "and no other is left to change it");
}
