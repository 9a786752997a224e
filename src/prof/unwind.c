/* unwind: by libgcc, which since glibc 2.35 finds a function's unwinding rules without a lock (_dl_find_object).
 *
 * The stack begins in the handler; what counts begins at the instruction that was interrupted.
 */
#define _GNU_SOURCE
#include "prof/unwind.h"

#include <stdbool.h>
#include <ucontext.h>
#include <unwind.h>

static uint64_t interrupted_at(const void *context) {
  const ucontext_t *u = context;
#if defined(__x86_64__)
  return (uint64_t)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  return u->uc_mcontext.pc;
#else
  return 0;
#endif
}

typedef struct Walk { uint64_t start, *addresses; int n, most; bool inside; } Walk;

static _Unwind_Reason_Code step(struct _Unwind_Context *c, void *p) {
  Walk *w = p;
  uint64_t at = (uint64_t)_Unwind_GetIP(c);
  if (at == w->start) w->inside = true;
  if (!w->inside) return _URC_NO_REASON;
  if (!at || w->n == w->most) return _URC_END_OF_STACK;
  w->addresses[w->n++] = at;
  return _URC_NO_REASON;
}

int unwind_interrupted(const void *context, uint64_t *addresses, int most) {
  Walk w = {interrupted_at(context), addresses, 0, most, false};
  _Unwind_Backtrace(step, &w);
  if (!w.n && w.start && most) addresses[w.n++] = w.start;
  return w.n;
}
