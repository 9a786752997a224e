/* unwind: the stack of the thread that a signal interrupted. */
#ifndef NEREID_PROF_UNWIND_H
#define NEREID_PROF_UNWIND_H

#include <stdint.h>

/* In a signal's handler: the addresses at which its thread was and to which it will return, innermost first, at most
 * `most`. context: the handler's third argument. Allocates nothing, takes no lock. */
int unwind_interrupted(const void *context, uint64_t *addresses, int most);

#endif
