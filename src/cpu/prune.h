/* prune.c: the declarations of a C text that another text uses. */
#ifndef NEREID_CPU_PRUNE_H
#define NEREID_CPU_PRUNE_H

#include "base/base.h"

/* Appends to out what `body` uses of `text`, in its order, macros last. text: n bytes of C as `cc -E -dD -P` leaves it,
 * preprocessed, with the directives that define macros. body NULL: what any text may use that has no names of the
 * implementation's own, those that begin with an underscore. */
void c_prune(Arena *arena, const char *text, size_t n, const char *body, size_t body_size, Buf *out);

#endif
