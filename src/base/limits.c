/* Limits: what one compilation may take of the machine before it is an error.
 *
 * Source text decides how much memory, time and stack its compilation takes, so that each of them has an end: memory is
 * counted where the arena takes it from the system (arena.c), work in steps (context_step), and the stack is measured.
 * Every recursion that a source can deepen asks stack_guard() on its way down, which counts a step, too (values and
 * operations are graphs: a walk over one may meet a part of it any number of times); tests/unit/check_recursion finds
 * those that do not. The message names the place that the compilation had reached (cx->place).
 *
 * The stack is the one that this thread really has. Its bounds are asked once a thread. A caller that runs on a stack
 * of its own (a coroutine) is given STRANGE_STACK bytes from the first frame that is seen of it.
 */
#define _GNU_SOURCE
#include "base/base.h"

#include <pthread.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

enum {
#ifdef SANITIZED /* frames are several times as large */
  RESERVE = 384 << 10,
#else
  RESERVE = 64 << 10, /* for what runs below the last stack_guard: printf, system calls, signal handlers */
#endif
  STRANGE_STACK = 160 << 10
};

const Limits limits_default = {.memory = 1LL << 30, .steps = 400000000, .file = 64LL << 20};

/* ---- memory and work ---- */

void diag_fail_limit(Context *cx, Span at, const char *hint, const char *format, ...) {
  cx->over_limit = true;
  cx->limits.memory += 1 << 20; /* for the message, and for whoever prints it */
  va_list ap;
  va_start(ap, format);
  char message[256];
  vsnprintf(message, sizeof message, format, ap);
  va_end(ap);
  diag_fail_hint(cx, at, hint, "%s", message);
}

static Span place_of(const Context *cx) { return cx->place ? *cx->place : (Span){0}; }

void context_over_memory(Context *cx) {
  diag_fail_limit(cx, place_of(cx), "let it unroll or nest less, or raise limits.memory_bytes",
                  "compiling takes more than %lld MiB of memory", (long long)(cx->limits.memory >> 20));
}

void context_step(Context *cx, int64_t n) {
  cx->steps += n;
  if (cx->steps <= cx->limits.steps || !cx->unwind) return;
  cx->steps = 0; /* whoever catches the failure may say so in as many steps */
  diag_fail_limit(cx, place_of(cx), "let it unroll or compute less, or raise limits.steps",
                  "compiling takes more than %lld steps", (long long)cx->limits.steps);
}

/* ---- the stack ---- */

static _Thread_local char *stack_low, *stack_high; /* of this thread; stack_high NULL: not asked yet */
static _Thread_local char *strange_top;            /* of another stack that this thread runs on */

static void ask_for_bounds(char *here) {
  pthread_attr_t attributes;
  void *low;
  size_t size;
  stack_low = stack_high = here + 1; /* unknown: no frame lies between them */
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  if (pthread_attr_getstack(&attributes, &low, &size) == 0) stack_low = low, stack_high = stack_low + size;
  pthread_attr_destroy(&attributes);
}

static bool frame_is_low(char *here) {
  if (!stack_high) ask_for_bounds(here);
  if (here >= stack_low && here < stack_high) return here - stack_low < RESERVE;
  if (here > strange_top || strange_top - here > 2 * STRANGE_STACK) strange_top = here;
  return strange_top - here > STRANGE_STACK;
}

StackBounds stack_bounds_exchange(StackBounds b) {
  StackBounds before = {stack_low, stack_high};
  stack_low = b.low, stack_high = b.high;
  return before;
}

bool stack_short(void) { return frame_is_low(__builtin_frame_address(0)); }

void stack_guard(void) {
  Context *cx = context_current();
  if (!cx) return;
  context_step(cx, 1);
  if (!frame_is_low(__builtin_frame_address(0))) return;
  diag_fail_limit(cx, place_of(cx), "nest it less, or compile on a thread with a larger stack",
                  "this is nested too deeply for the stack of the thread that compiles it");
}
