/* Coroutines: functions that stop in their middle and go on later, each on a stack of its own.
 *
 * On x86-64 a switch is a function that keeps the registers which a call keeps, on the stack that it leaves, and takes
 * them from the other: some nanoseconds. Rounding modes and signal masks stay the thread's. A stack is memory that
 * costs nothing until it is touched, below it a page that ends the process as the end of any stack does; stack_short()
 * is told of its bounds.
 *
 * Elsewhere, and for sanitizers, which must know of every stack, a coroutine is a thread, and whoever resumes it waits
 * until it suspends.
 */
#define _GNU_SOURCE
#include "base/base.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OF_THREADS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define OF_THREADS 1
#endif
#endif
#if !defined(__x86_64__) || defined(__ILP32__) || !defined(__ELF__)
#define OF_THREADS 1
#endif

enum { STACK = 256 << 10 };

typedef struct Errand { /* what is to be done on the stack of whoever resumed the coroutine */
  void (*fn)(void *arg);
  void *arg;
} Errand;

static _Thread_local Coroutine *running;

Coroutine *coroutine_running(void) { return running; }

#ifndef OF_THREADS

/* ---- stacks of our own ------------------------------------------------------------------------------------------- */

struct Coroutine {
  void *sp, *outer_sp; /* where each side left off */
  char *low;           /* of the mapping */
  size_t size;
  void (*fn)(void *arg);
  void *arg;
  Errand errand;
  Context *context; /* context_current(), while it is suspended */
  bool ended;
};

/* Leaves the stack of which *from becomes the pointer, and goes on where `to` was left. */
void nereid_switch_stack(void **from, void *to);
__asm__(".pushsection .text\n"
        ".hidden nereid_switch_stack\n"
        ".globl nereid_switch_stack\n"
        ".type nereid_switch_stack, @function\n"
        "nereid_switch_stack:\n"
        "  .cfi_startproc\n"
        "  push %rbp\n  .cfi_adjust_cfa_offset 8\n"
        "  push %rbx\n  .cfi_adjust_cfa_offset 8\n"
        "  push %r12\n  .cfi_adjust_cfa_offset 8\n"
        "  push %r13\n  .cfi_adjust_cfa_offset 8\n"
        "  push %r14\n  .cfi_adjust_cfa_offset 8\n"
        "  push %r15\n  .cfi_adjust_cfa_offset 8\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15\n  .cfi_adjust_cfa_offset -8\n"
        "  pop %r14\n  .cfi_adjust_cfa_offset -8\n"
        "  pop %r13\n  .cfi_adjust_cfa_offset -8\n"
        "  pop %r12\n  .cfi_adjust_cfa_offset -8\n"
        "  pop %rbx\n  .cfi_adjust_cfa_offset -8\n"
        "  pop %rbp\n  .cfi_adjust_cfa_offset -8\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size nereid_switch_stack, . - nereid_switch_stack\n"
        ".popsection\n");

static void begin(void) {
  Coroutine *c = running;
  c->fn(c->arg);
  c->ended = true;
  nereid_switch_stack(&c->sp, c->outer_sp);
  abort(); /* nobody resumes what has ended */
}

Coroutine *coroutine_create(void (*fn)(void *arg), void *arg) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), size = STACK + page;
  char *low = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (low == MAP_FAILED) return NULL;
  if (mprotect(low, page, PROT_NONE) != 0) {
    munmap(low, size);
    return NULL;
  }
  Coroutine *c = (Coroutine *)(low + size - (sizeof *c + 63) / 64 * 64); /* in its own stack, above the first frame */
  *c = (Coroutine){.low = low, .size = size, .fn = fn, .arg = arg};
  void **top = (void **)c;
  *--top = NULL; /* where begin() would return to: the end, for who walks the stack */
  *--top = (void *)begin;
  for (int i = 0; i < 6; i++) *--top = NULL;
  c->sp = top;
  return c;
}

void coroutine_destroy(Coroutine *c) {
  if (c) munmap(c->low, c->size);
}

/* Until it leaves; false: it has ended. */
static bool enter(Coroutine *c) {
  Coroutine *outer = running;
  Context *context = context_exchange(c->context);
  StackBounds bounds = stack_bounds_exchange((StackBounds){c->low + sysconf(_SC_PAGESIZE), (char *)c});
  running = c;
  nereid_switch_stack(&c->outer_sp, c->sp);
  running = outer;
  stack_bounds_exchange(bounds);
  c->context = context_exchange(context);
  return !c->ended;
}

/* Of the running one; back when it is resumed. */
static void leave(Coroutine *c) { nereid_switch_stack(&c->sp, c->outer_sp); }

#else

/* ---- threads ----------------------------------------------------------------------------------------------------- */

struct Coroutine {
  pthread_t thread;
  pthread_mutex_t lock; /* of the rest */
  pthread_cond_t turned;
  bool inside; /* whose turn it is */
  bool ended;
  void (*fn)(void *arg);
  void *arg;
  Errand errand;
};

static void await(Coroutine *c, bool inside) {
  while (c->inside != inside) pthread_cond_wait(&c->turned, &c->lock);
}

static void turn(Coroutine *c, bool inside) {
  c->inside = inside;
  pthread_cond_signal(&c->turned);
}

static void *begin(void *arg) {
  Coroutine *c = running = arg;
  pthread_mutex_lock(&c->lock);
  await(c, true);
  c->fn(c->arg);
  c->ended = true;
  turn(c, false);
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

Coroutine *coroutine_create(void (*fn)(void *arg), void *arg) {
  Coroutine *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->fn = fn;
  c->arg = arg;
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->turned, NULL);
  sigset_t all, before;
  pthread_attr_t attributes;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 8 * STACK);
  bool ok = pthread_create(&c->thread, &attributes, begin, c) == 0;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (ok) return c;
  free(c);
  return NULL;
}

void coroutine_destroy(Coroutine *c) {
  if (!c) return;
  pthread_join(c->thread, NULL);
  pthread_cond_destroy(&c->turned);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

static bool enter(Coroutine *c) {
  pthread_mutex_lock(&c->lock);
  turn(c, true);
  await(c, false);
  bool ended = c->ended;
  pthread_mutex_unlock(&c->lock);
  return !ended;
}

static void leave(Coroutine *c) {
  turn(c, false);
  await(c, true);
}

#endif

void *coroutine_argument(const Coroutine *c) { return c->arg; }

bool coroutine_resume(Coroutine *c) {
  for (;;) {
    bool goes_on = enter(c);
    Errand e = c->errand;
    if (!e.fn) return goes_on;
    c->errand = (Errand){0};
    e.fn(e.arg);
  }
}

void coroutine_suspend(void) { leave(running); }

void coroutine_outside(void (*fn)(void *arg), void *arg) {
  if (!running) {
    fn(arg);
    return;
  }
  running->errand = (Errand){fn, arg};
  leave(running);
}
