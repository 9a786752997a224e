/* An allocator to be preloaded: of a program's allocations one fails, or it and all after it.
 *
 *     LD_PRELOAD=librefuse.so REFUSE_AT=12 nereid ...            the twelfth
 *     LD_PRELOAD=librefuse.so REFUSE_AT=12 REFUSE_LATER=1 ...    and all later ones
 *     LD_PRELOAD=librefuse.so REFUSE_COUNT=FILE ...              none; how many there were is written to FILE
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static _Atomic long counter;
static long refuse_at;
static bool refuse_later;

__attribute__((constructor)) static void begin(void) {
  const char *at = getenv("REFUSE_AT");
  refuse_at = at ? strtol(at, NULL, 10) : 0;
  refuse_later = getenv("REFUSE_LATER") != NULL;
  unsetenv("LD_PRELOAD"); /* compilers that the program starts get all their memory */
  counter = 0;
}

__attribute__((destructor)) static void end(void) {
  const char *path = getenv("REFUSE_COUNT");
  long n = counter;
  FILE *f = path ? fopen(path, "w") : NULL;
  if (f) fprintf(f, "%ld\n", n), fclose(f);
}

static bool refused(void) {
  long n = atomic_fetch_add(&counter, 1) + 1;
  if (!refuse_at || (refuse_later ? n < refuse_at : n != refuse_at)) return false;
  errno = ENOMEM;
  return true;
}

void *malloc(size_t n) { return refused() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return refused() ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return refused() ? NULL : __libc_realloc(p, n); }
void *memalign(size_t align, size_t n) { return refused() ? NULL : __libc_memalign(align, n); }
void *aligned_alloc(size_t align, size_t n) { return memalign(align, n); }
int posix_memalign(void **out, size_t align, size_t n) {
  void *p = memalign(align, n);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}
