/* The simulator's L1 caches: why a program must acquire what others have released.
 *
 * A multiprocessor's L1 cache is not told of what others store. Programs of one multiprocessor share it, also those
 * that come later, so that a plain load may give what a place held long ago:
 *
 *     program 0, here:       lock; x = 1: the line is kept; unlock
 *     program 1, elsewhere:  lock; x = 2; unlock
 *     program 2, here:       lock; loads x: 1, unless the lock acquires, which empties the cache
 *
 * Two caches serve a launch, one for the programs of even number, one for the odd ones. Loads fill them, byte by byte;
 * stores go through, and change what is there; atomics and volatile loads go past them, and drop it; fences, and
 * atomics that acquire, empty them. A byte is also dropped by chance, as a cache is small: a loop that waits for a
 * plain load ends. Only launches whose programs can learn of each other have caches: lane_learns.
 */
#include <pthread.h>
#include <stdlib.h>

#include "gpu/sim/sim_plan.h"

enum { CACHES = 2, BYTES = 1 << 13, KEEPS = 8 /* of so many hits, one is a miss */ };

typedef struct Byte {
  uint64_t address;
  uint32_t generation; /* another one than the cache's: not there */
  char value;
} Byte;

struct SimCache {
  pthread_mutex_t lock;
  uint32_t generation, random;
  Byte at[BYTES];
};

struct LaneCaches {
  SimCache at[CACHES];
};

LaneCaches *lane_caches_create(void) {
  LaneCaches *c = calloc(1, sizeof *c);
  for (int i = 0; c && i < CACHES; i++) {
    pthread_mutex_init(&c->at[i].lock, NULL);
    c->at[i].generation = 1;
  }
  return c;
}

void lane_caches_destroy(LaneCaches *c) {
  for (int i = 0; c && i < CACHES; i++) pthread_mutex_destroy(&c->at[i].lock);
  free(c);
}

SimCache *sim_cache_of(LaneCaches *c, int64_t program) { return c ? &c->at[program % CACHES] : NULL; }

static Byte *byte_of(SimCache *c, uint64_t address) { return &c->at[address % BYTES]; }
static bool has(SimCache *c, uint64_t address) {
  const Byte *b = byte_of(c, address);
  return b->generation == c->generation && b->address == address;
}

static bool goes_past(const SimAccess *a) {
  const LaneOp *op = a->o->op;
  return a->atomic || op->cache == CACHE_CG || op->cache == CACHE_CV || op->evict == PRIORITY_NO_L1;
}

void sim_cache_load(const SimAccess *a, const char *from, char *into) {
  SimCache *c = a->r->cache;
  pthread_mutex_lock(&c->lock);
  c->random = c->random * 1664525u + 1013904223u;
  bool past = goes_past(a), hit = !past && (c->random >> 16) % KEEPS > 0;
  for (int i = 0; i < a->bytes && hit; i++) hit = has(c, a->address + (uint64_t)i);
  if (!hit) sim_fetch(into, from, a->bytes);
  for (int i = 0; i < a->bytes; i++) {
    Byte *b = byte_of(c, a->address + (uint64_t)i);
    if (hit) into[i] = b->value;
    else *b = (Byte){a->address + (uint64_t)i, past ? 0 : c->generation, into[i]};
  }
  pthread_mutex_unlock(&c->lock);
}

void sim_cache_store(const SimAccess *a, const char *value) {
  SimCache *c = a->r->cache;
  pthread_mutex_lock(&c->lock);
  for (int i = 0; i < a->bytes; i++)
    if (has(c, a->address + (uint64_t)i)) {
      Byte *b = byte_of(c, a->address + (uint64_t)i);
      if (value) b->value = value[i];
      else b->generation = 0;
    }
  pthread_mutex_unlock(&c->lock);
}

void sim_cache_acquire(SimRun *r, const LaneOp *op) {
  SimCache *c = r->cache;
  if (!c || (op->sem != SEM_ACQ_REL && op->sem != SEM_ACQUIRE) || (op->code == LANE_ATOM && op->space != SPACE_GLOBAL))
    return;
  pthread_mutex_lock(&c->lock);
  c->generation++;
  pthread_mutex_unlock(&c->lock);
}
