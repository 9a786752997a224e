/* Arena: memory that is taken piece by piece and goes all at once.
 *
 * An arena is a list of chunks obtained with calloc, so that what it hands out is zero without being cleared again. The
 * first chunk has 16 KiB, each further one twice the last, up to 1 MiB: a small compilation touches little memory, a
 * large one asks the system rarely. A request larger than a quarter of the next chunk gets a chunk of its own, linked
 * after the current one, so that the room left in the current one is not lost.
 *
 * When the system refuses memory, an arena that belongs to a compilation reports to its context, which unwinds to the
 * nearest context_try(); callers need not check. An arena without an owner returns NULL.
 */
#include "base/base.h"

#include <stdlib.h>

enum { ALIGN = 16, FIRST_CHUNK = 16 << 10, LAST_CHUNK = 1 << 20 };

typedef struct Chunk {
  struct Chunk *next;
  size_t size; /* bytes after the header */
} Chunk;       /* 16 bytes on 64-bit targets, so what follows is aligned as calloc's result is */

_Static_assert(sizeof(Chunk) % ALIGN == 0 || sizeof(void *) < 8,
               "the first byte after a chunk's header must be aligned");

struct Arena {
  struct Context *owner;
  Chunk *chunks;    /* the current one first */
  char *free, *end; /* room left in the current chunk */
  size_t next_size; /* of the next ordinary chunk */
  size_t taken;
};

Arena *arena_create(struct Context *owner) {
  Arena *a = calloc(1, sizeof *a);
  if (!a) {
    if (owner) context_out_of_memory(owner);
    return NULL;
  }
  a->owner = owner;
  a->next_size = FIRST_CHUNK;
  a->taken = sizeof *a;
  return a;
}

void arena_destroy(Arena *a) {
  if (!a) return;
  for (Chunk *c = a->chunks, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  free(a);
}

static Chunk *take_chunk(Arena *a, size_t size) {
  struct Context *owner = a->owner;
  if (owner && owner->unwind && (int64_t)size > owner->limits.memory - (int64_t)a->taken) context_over_memory(owner);
  Chunk *c = size < PTRDIFF_MAX - sizeof(Chunk) ? calloc(1, sizeof(Chunk) + size) : NULL;
  if (!c) {
    if (a->owner) context_out_of_memory(a->owner); /* does not come back when a context_try is active */
    return NULL;
  }
  c->size = size;
  a->taken += sizeof(Chunk) + size;
  return c;
}

void *arena_alloc(Arena *a, size_t bytes) {
  if (bytes < ALIGN) bytes = ALIGN; /* even nothing gets an address of its own */
  if (bytes <= SIZE_MAX - ALIGN) bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);

  if (bytes > (size_t)(a->end - a->free)) {
    bool alone = bytes > a->next_size / 4;
    Chunk *c = take_chunk(a, alone ? bytes : a->next_size);
    if (!c) return NULL;
    char *first = (char *)(c + 1);
    if (alone && a->chunks) {
      c->next = a->chunks->next;
      a->chunks->next = c;
      return first;
    }
    c->next = a->chunks;
    a->chunks = c;
    a->free = first;
    a->end = first + c->size;
    if (!alone && a->next_size < LAST_CHUNK) a->next_size *= 2;
  }
  void *p = a->free;
  a->free += bytes;
  return p;
}

void *arena_copy(Arena *a, const void *p, size_t bytes) {
  void *copy = arena_alloc(a, bytes);
  if (copy && bytes) memcpy(copy, p, bytes);
  return copy;
}

char *arena_strndup(Arena *a, const char *s, size_t n) {
  n = strnlen(s, n);
  char *copy = arena_alloc(a, n + 1);
  if (copy) memcpy(copy, s, n);
  return copy;
}

char *arena_strdup(Arena *a, const char *s) { return arena_copy(a, s, strlen(s) + 1); }

char *arena_printf(Arena *a, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(NULL, 0, format, ap);
  va_end(ap);
  if (n < 0) n = 0; /* a text over INT_MAX bytes: libc cannot make it */
  char *s = arena_alloc(a, (size_t)n + 1);
  if (!s) return NULL;
  va_start(ap, format);
  vsnprintf(s, (size_t)n + 1, format, ap);
  va_end(ap);
  return s;
}

size_t arena_used(const Arena *a) { return a->taken; }

/* A vector grows by doubling into fresh memory; the old place stays in the arena, so pointers into it stay readable.
 * `at` really points at a T *, which C lets nobody read or write as a void *: hence memcpy. */
void vec_reserve(Arena *a, void **at, int *cap, int need, size_t elem_size) {
  if (need <= *cap) return;
  int64_t n = *cap ? (int64_t)*cap * 2 : 8;
  if (n < need) n = need;
  if (n > INT32_MAX) n = INT32_MAX;
  void *grown = arena_alloc(a, (size_t)n * elem_size);
  if (!grown) return; /* only without an active context_try */
  void *old;
  memcpy(&old, at, sizeof old);
  if (*cap) memcpy(grown, old, (size_t)*cap * elem_size);
  memcpy(at, &grown, sizeof grown);
  *cap = (int)n;
}
