/* What signal handlers must find whole: something that is made, and then noted where they look for it. */
#ifndef NEREID_BASE_HANDLERS_H
#define NEREID_BASE_HANDLERS_H
#include <signal.h>

typedef struct HandlerHold {
  sigset_t before;
} HandlerHold;
/* Between the two no signal handler runs in this thread, and handlers_wait does not return in other threads. */
void handlers_hold(HandlerHold *h);
void handlers_release(HandlerHold *h); /* keeps errno */
void handlers_wait(void);              /* for signal handlers: until nobody holds them */

#endif
