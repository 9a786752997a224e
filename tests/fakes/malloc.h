/* A malloc that refuses: it stands before the C library's in a program that is linked with it, counts, and gives
 * nothing where it was told to. Sanitizers have a malloc of their own; there it does nothing. */
#ifndef NEREID_TESTS_FAKES_MALLOC_H
#define NEREID_TESTS_FAKES_MALLOC_H

#include <stdbool.h>

bool malloc_refuses(void); /* false: under sanitizers, or not with glibc */
/* Of the allocations from here on, the n-th (from 1) is refused, with `later` all after it too. 0: none. */
void malloc_refuse(long n, bool later);
long malloc_count(void); /* since then, of all threads */
long malloc_alive(void); /* allocations that were not freed */

#endif
