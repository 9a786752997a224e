/* The memory that a device knows of: what it gave out, and what was registered. In order of addresses, under a lock. */
#include "rt/rt.h"

#include <stdlib.h>

static _Thread_local const Allocation *known;
static _Thread_local int known_count;

void device_know(const Allocation *arrays, int n) {
  known = arrays;
  known_count = n;
}

static int above(const Allocation *at, int n, uintptr_t p) {
  int low = 0, high = n;
  while (low < high) {
    int mid = (low + high) / 2;
    if (at[mid].base > p) high = mid;
    else low = mid + 1;
  }
  return low;
}

/* Index of the first allocation whose base is above p. Under the lock. */
static int first_above(const nereid_device *d, uintptr_t p) { return above(d->allocations, d->allocation_count, p); }

static const Allocation *holder(const Allocation *at, int n, uintptr_t p) {
  int i = above(at, n, p);
  if (!i) return NULL;
  const Allocation *a = &at[i - 1];
  return p - a->base < (uintptr_t)a->bytes || p == a->base ? a : NULL;
}

static const Allocation *allocation_of(const nereid_device *d, uintptr_t p) {
  const Allocation *a = holder(d->allocations, d->allocation_count, p);
  return a ? a : holder(known, known_count, p);
}

bool device_add_allocation(nereid_device *d, Allocation a) {
  bool ok = true;
  pthread_rwlock_wrlock(&d->lock);
  if (d->allocation_count == d->allocation_cap) {
    int cap = d->allocation_cap ? 2 * d->allocation_cap : 16;
    Allocation *grown = realloc(d->allocations, sizeof *grown * (size_t)cap);
    ok = grown != NULL;
    if (ok) d->allocations = grown, d->allocation_cap = cap;
  }
  if (ok) {
    int at = first_above(d, a.base);
    memmove(&d->allocations[at + 1], &d->allocations[at], sizeof a * (size_t)(d->allocation_count - at));
    d->allocations[at] = a;
    d->allocation_count++;
  }
  pthread_rwlock_unlock(&d->lock);
  return ok;
}

/* Takes the entry that begins at p off the list. */
bool device_take_allocation(nereid_device *d, const void *p, bool owned, Allocation *out) {
  bool found = false;
  pthread_rwlock_wrlock(&d->lock);
  for (int i = first_above(d, (uintptr_t)p); i-- && d->allocations[i].base == (uintptr_t)p;) {
    if (d->allocations[i].owned != owned) continue;
    *out = d->allocations[i];
    memmove(&d->allocations[i], &d->allocations[i + 1], sizeof *out * (size_t)(d->allocation_count - i - 1));
    d->allocation_count--;
    found = true;
    break;
  }
  pthread_rwlock_unlock(&d->lock);
  return found;
}

int64_t device_bytes_behind(nereid_device *d, const uint64_t *pointers, int n) {
  enum { MOST = 64 };
  const Allocation *seen[MOST];
  int count = 0;
  int64_t total = 0;
  pthread_rwlock_rdlock(&d->lock);
  for (int i = 0; i < n && count < MOST && d->allocation_count + known_count; i++) {
    const Allocation *a = allocation_of(d, (uintptr_t)pointers[i]);
    int k = 0;
    while (k < count && seen[k] != a) k++;
    if (!a || k < count) continue;
    seen[count++] = a;
    total += a->bytes;
  }
  pthread_rwlock_unlock(&d->lock);
  return total;
}

bool device_array_around(nereid_device *d, const void *p, int64_t range[2]) {
  pthread_rwlock_rdlock(&d->lock);
  const Allocation *a = allocation_of(d, (uintptr_t)p);
  if (a) range[0] = (int64_t)a->base, range[1] = (int64_t)a->base + a->bytes - 1;
  pthread_rwlock_unlock(&d->lock);
  return a != NULL;
}

int64_t device_bytes_from(nereid_device *d, const void *p) {
  pthread_rwlock_rdlock(&d->lock);
  const Allocation *a = allocation_of(d, (uintptr_t)p);
  int64_t bytes = a ? a->bytes - (int64_t)((uintptr_t)p - a->base) : -1;
  pthread_rwlock_unlock(&d->lock);
  return bytes;
}
