/* Memory: the allocations that launches may touch.
 *
 * The registry is an array of Regions sorted by address. Each region that the interpreter allocated has a bitmap with
 * one bit a byte, set when the byte is written; memory and bitmap come from calloc, so the system gives pages of them
 * only where something was written. The caller's own memory has no bitmap: it counts as written.
 *
 * Memory that the interpreter allocates has a gap before and after it, so that an access just past its end meets no
 * other allocation. Accesses are checked against the region that the kernel's argument points into, not merely against
 * any.
 *
 * Bitmaps are updated with relaxed atomics, for two launches may write neighbouring bytes of one region at once.
 */
#include "interp/memory.h"

#include <stdlib.h>

enum { GAP = 256, ALIGNMENT = 256 };

struct InterpMemory {
  pthread_mutex_t lock;
  Region **regions; /* by base, then by size */
  int count, capacity;
  ForkHook fork;
};

InterpMemory *interp_memory_create(void) {
  InterpMemory *m = calloc(1, sizeof *m);
  if (m && pthread_mutex_init(&m->lock, NULL)) {
    free(m);
    return NULL;
  }
  if (!m) return NULL;
  m->fork = (ForkHook){.held = &m->lock};
  fork_hook_add(&m->fork);
  return m;
}

static void region_destroy(Region *r) {
  free(r->block);
  free(r->written);
  free(r->name);
  free(r);
}

void interp_memory_destroy(InterpMemory *m) {
  if (!m) return;
  fork_hook_remove(&m->fork);
  for (int i = 0; i < m->count; i++) region_destroy(m->regions[i]);
  free(m->regions);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

/* The index of the first region that starts after `base`. */
static int upper_bound(const InterpMemory *m, uintptr_t base) {
  int low = 0, high = m->count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (m->regions[middle]->base <= base) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Takes over r, also when it fails. */
static bool insert(InterpMemory *m, Region *r) {
  pthread_mutex_lock(&m->lock);
  int at = upper_bound(m, r->base);
  for (int i = at - 1; i >= 0 && m->regions[i]->base == r->base && !r->block; i--)
    if (m->regions[i]->size == r->size && !m->regions[i]->block) { /* added once more: the latest name holds */
      Region *known = m->regions[i];
      char *name = known->name;
      known->uses++;
      known->name = r->name;
      r->name = name;
      pthread_mutex_unlock(&m->lock);
      region_destroy(r);
      return true;
    }
  if (m->count == m->capacity) {
    int capacity = m->capacity ? m->capacity * 2 : 16;
    Region **grown = realloc(m->regions, (size_t)capacity * sizeof *grown);
    if (!grown) {
      pthread_mutex_unlock(&m->lock);
      region_destroy(r);
      return false;
    }
    m->regions = grown;
    m->capacity = capacity;
  }
  memmove(m->regions + at + 1, m->regions + at, (size_t)(m->count - at) * sizeof *m->regions);
  m->regions[at] = r;
  m->count++;
  pthread_mutex_unlock(&m->lock);
  return true;
}

static Region *region_create(const char *name) {
  Region *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->uses = 1;
  if (!name) name = "";
  size_t n = strlen(name) + 1;
  r->name = malloc(n);
  if (!r->name) {
    free(r);
    return NULL;
  }
  memcpy(r->name, name, n);
  return r;
}

void *interp_memory_alloc(InterpMemory *m, size_t bytes, const char *name) {
  if (bytes > PTRDIFF_MAX - 4096) return NULL;
  Region *r = region_create(name);
  if (!r) return NULL;
  r->block = calloc(1, bytes + 2 * GAP + ALIGNMENT);
  r->written = calloc(bytes / 64 + 1, sizeof *r->written);
  if (!r->block || !r->written) {
    region_destroy(r);
    return NULL;
  }
  r->base = ((uintptr_t)r->block + GAP + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
  r->size = bytes;
  void *p = (void *)r->base;
  return insert(m, r) ? p : NULL;
}

bool interp_memory_add(InterpMemory *m, void *p, size_t bytes, const char *name) {
  Region *r = region_create(name);
  if (!r) return false;
  r->base = (uintptr_t)p;
  r->size = bytes;
  return insert(m, r);
}

void interp_memory_remove(InterpMemory *m, void *p) {
  if (!p) return;
  Region *gone = NULL;
  pthread_mutex_lock(&m->lock);
  int at = upper_bound(m, (uintptr_t)p) - 1;
  if (at >= 0 && m->regions[at]->base == (uintptr_t)p && --m->regions[at]->uses == 0) {
    gone = m->regions[at];
    m->count--;
    memmove(m->regions + at, m->regions + at + 1, (size_t)(m->count - at) * sizeof *m->regions);
  }
  pthread_mutex_unlock(&m->lock);
  if (gone) region_destroy(gone);
}

void interp_memory_mark_written(InterpMemory *m, const void *p, size_t bytes) {
  uintptr_t addr = (uintptr_t)p;
  pthread_mutex_lock(&m->lock);
  for (int i = upper_bound(m, addr) - 1; i >= 0; i--) {
    Region *r = m->regions[i];
    if (addr - r->base >= r->size) continue;
    if (!r->written) break;
    size_t offset = addr - r->base;
    region_set_written(r, offset, bytes < r->size - offset ? bytes : r->size - offset);
    break;
  }
  pthread_mutex_unlock(&m->lock);
}

/* ---- bitmaps ----------------------------------------------------------------------------------------------------- */

/* The bits of word `w` that stand for bytes [begin, end). */
static uint64_t word_mask(size_t w, size_t begin, size_t end) {
  uint64_t mask = ~0ULL;
  if (w == begin / 64) mask &= ~0ULL << (begin % 64);
  if (w == end / 64) mask &= (1ULL << (end % 64)) - 1;
  return mask;
}

bool region_is_written(const Region *r, size_t offset, size_t n, size_t *first) {
  if (!r->written || n == 0) return true;
  size_t end = offset + n;
  for (size_t w = offset / 64; w <= (end - 1) / 64; w++) {
    uint64_t missing = word_mask(w, offset, end) & ~__atomic_load_n(&r->written[w], __ATOMIC_RELAXED);
    if (missing) {
      *first = w * 64 + (size_t)__builtin_ctzll(missing);
      return false;
    }
  }
  return true;
}

void region_set_written(Region *r, size_t offset, size_t n) {
  if (!r->written || n == 0) return;
  size_t end = offset + n;
  for (size_t w = offset / 64; w <= (end - 1) / 64; w++) {
    uint64_t mask = word_mask(w, offset, end);
    if (mask == ~0ULL) __atomic_store_n(&r->written[w], mask, __ATOMIC_RELAXED);
    else if (mask & ~__atomic_load_n(&r->written[w], __ATOMIC_RELAXED))
      __atomic_fetch_or(&r->written[w], mask, __ATOMIC_RELAXED);
  }
}

/* ---- a launch's view --------------------------------------------------------------------------------------------- */

bool memory_view_take(InterpMemory *m, MemoryView *out) {
  pthread_mutex_lock(&m->lock);
  *out = (MemoryView){.count = m->count};
  out->spans = malloc((size_t)(m->count + 1) * sizeof *out->spans);
  if (out->spans) {
    uintptr_t reach = 0;
    for (int i = 0; i < m->count; i++) {
      Region *r = m->regions[i];
      uintptr_t end = r->base + r->size;
      if (end > reach) reach = end;
      out->spans[i] = (RegionSpan){.base = r->base, .end = end, .reach = reach, .region = r};
    }
  }
  pthread_mutex_unlock(&m->lock);
  return out->spans != NULL;
}

void memory_view_drop(MemoryView *v) { free(v->spans); }

RegionSpan *memory_view_find(MemoryView *v, uintptr_t addr) {
  if (v->last && addr >= v->last->base && addr < v->last->end) return v->last;
  int low = 0, high = v->count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (v->spans[middle].base <= addr) low = middle + 1;
    else high = middle;
  }
  RegionSpan *best = NULL;
  for (int i = low - 1; i >= 0 && v->spans[i].reach > addr; i--)
    if (v->spans[i].end > addr && (!best || v->spans[i].end > best->end)) best = &v->spans[i];
  if (best) v->last = best;
  return best;
}

RegionSpan *memory_view_nearest(const MemoryView *v, uintptr_t addr) {
  RegionSpan *best = NULL;
  uintptr_t best_distance = UINTPTR_MAX;
  for (int i = 0; i < v->count; i++) {
    RegionSpan *s = &v->spans[i];
    uintptr_t distance = addr < s->base ? s->base - addr : addr >= s->end ? addr - s->end : 0;
    if (distance < best_distance) best = s, best_distance = distance;
  }
  return best;
}
