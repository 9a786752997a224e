/* All kernels of a program are compiled at once, on all processors.
 *
 * One of each comes first, and of these those with the most products, whose assembler takes the longest: who begins
 * with a short one waits for a long one at the end. Then come the launches of what is compiled by then.
 *
 * As many kernels are compiled at once as there are processors, of all programs together. The places are given by
 * program: a forward graph, which is waited for, is not slowed down by its backward graph, which takes what the forward
 * one leaves idle. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "fuse/program.h"

/* ---- places ------------------------------------------------------------------------------------------------------ */

typedef struct Turn { /* of a program */
  struct Turn *next;  /* that came later */
  int waiting;
} Turn;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  Turn *first;
  int running;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* The programs that wait are of threads which the child has not. */
static void in_child(void *owner) {
  pthread_cond_init(&queue.changed, NULL);
  queue.first = NULL;
  queue.running = 0;
}
static ForkHook hook = {.held = &queue.lock, .in_child = in_child};
static void watch_forks(void) { fork_hook_add(&hook); }

static void turn_begin(Turn *t) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&queue.lock);
  Turn **link = &queue.first;
  while (*link) link = &(*link)->next;
  *link = t;
  pthread_mutex_unlock(&queue.lock);
}

static void turn_end(Turn *t) {
  pthread_mutex_lock(&queue.lock);
  Turn **link = &queue.first;
  while (*link != t) link = &(*link)->next;
  *link = t->next;
  pthread_mutex_unlock(&queue.lock);
}

static bool is_next(const Turn *t) {
  const Turn *earlier = queue.first;
  while (earlier != t && !earlier->waiting) earlier = earlier->next;
  return earlier == t;
}

static void take_place(Turn *t) {
  int places = thread_processors();
  pthread_mutex_lock(&queue.lock);
  t->waiting++;
  while (queue.running >= places || !is_next(t)) pthread_cond_wait(&queue.changed, &queue.lock);
  t->waiting--;
  queue.running++;
  pthread_cond_broadcast(&queue.changed); /* a later program may be next now */
  pthread_mutex_unlock(&queue.lock);
}

static void leave_place(void) {
  pthread_mutex_lock(&queue.lock);
  queue.running--;
  pthread_cond_broadcast(&queue.changed);
  pthread_mutex_unlock(&queue.lock);
}

/* ---- a program's kernels ----------------------------------------------------------------------------------------- */

typedef struct Steps {
  FuseStep **at; /* in this order */
  atomic_int next;
  Turn turn;
  nereid_device *device;
  nereid_module *module;
} Steps;

static void compile_some(void *arg, int64_t begin, int64_t end, int worker) {
  Steps *s = arg;
  for (int64_t i = begin; i < end; i++) {
    FuseStep *step = s->at[atomic_fetch_add(&s->next, 1)];
    take_place(&s->turn);
    step->status = step_compile(step, s->device, s->module, &step->error);
    leave_place();
  }
}

/* What the assembler's time goes by, about: of a stream of several products it takes that of all the others. */
static int length_of(const FuseKernel *k) {
  int products = 0;
  for (int m = 0; m < k->member_count; m++) products += k->members[m]->op == GRAPH_PRODUCT;
  return products;
}

/* Those with the most products first, else as the plan has them. */
static void longest_first(FuseStep *steps, int n, FuseStep **out, bool repeats) {
  int most = 0, count = 0;
  for (int i = 0; i < n; i++)
    if (length_of(steps[i].kernel) > most) most = length_of(steps[i].kernel);
  for (int length = most; length >= 0; length--)
    for (int i = 0; i < n; i++)
      if (!steps[i].kernel->repeats == !repeats && length_of(steps[i].kernel) == length) out[count++] = &steps[i];
}

/* How many stand before the repeated ones. */
static int in_order(FuseStep *steps, int n, FuseStep **out) {
  int firsts = 0;
  for (int i = 0; i < n; i++) firsts += !steps[i].kernel->repeats;
  longest_first(steps, n, out, false);
  longest_first(steps, n, out + firsts, true);
  return firsts;
}

nereid_status steps_compile(FuseStep *steps, int n, nereid_device *d, nereid_module *m, nereid_error **error) {
  FuseStep **order = calloc((size_t)n + 1, sizeof *order);
  if (!order) return error_out_of_memory(error);
  Pool *pool = n > 1 ? pool_create(0) : NULL;
  Steps all = {.at = order, .device = d, .module = m};
  int firsts = in_order(steps, n, order);
  turn_begin(&all.turn);
  if (pool) {
    pool_run(pool, firsts, 1, compile_some, &all);
    pool_run(pool, n - firsts, 1, compile_some, &all);
  } else compile_some(&all, 0, n, 0);
  turn_end(&all.turn);
  free(order);
  pool_destroy(pool);
  nereid_status status = NEREID_OK;
  for (int i = 0; i < n; i++) {
    nereid_error *own = steps[i].error;
    steps[i].error = NULL;
    if (steps[i].status && !status) {
      status = steps[i].status;
      if (error) *error = own;
      else nereid_error_free(own);
    } else nereid_error_free(own);
  }
  return status;
}
