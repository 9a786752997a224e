/* See fakes/malloc.h. */
#include "fakes/malloc.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

static _Atomic long counter, alive, refuse_at;
static atomic_bool refuse_later;

void malloc_refuse(long n, bool later) {
  refuse_at = 0;
  counter = 0;
  refuse_later = later;
  refuse_at = n;
}
long malloc_count(void) { return counter; }
long malloc_alive(void) { return alive; }

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
bool malloc_refuses(void) { return true; }

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static bool refused(void) {
  long n = atomic_fetch_add(&counter, 1) + 1, at = refuse_at;
  if (!at || (refuse_later ? n < at : n != at)) return false;
  errno = ENOMEM;
  return true;
}
static void *counted(void *p) {
  if (p) atomic_fetch_add(&alive, 1);
  return p;
}

#pragma GCC visibility push(default) /* for libraries that the program loads, too */
void *malloc(size_t n) { return refused() ? NULL : counted(__libc_malloc(n)); }
void *calloc(size_t n, size_t size) { return refused() ? NULL : counted(__libc_calloc(n, size)); }
void *realloc(void *p, size_t n) {
  if (refused()) return NULL;
  void *grown = __libc_realloc(p, n);
  if (!p) counted(grown);
  return grown;
}
void *memalign(size_t align, size_t n) { return refused() ? NULL : counted(__libc_memalign(align, n)); }
void *aligned_alloc(size_t align, size_t n) { return memalign(align, n); }
int posix_memalign(void **out, size_t align, size_t n) {
  void *p = memalign(align, n);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}
void free(void *p) {
  if (p) atomic_fetch_sub(&alive, 1);
  __libc_free(p);
}
#pragma GCC visibility pop
#else
bool malloc_refuses(void) { return false; }
#endif
