/* The cache of a module's specializations: looked up at every launch, so lookups take no lock.
 *
 * A Table is an open-addressed array of atomic pointers whose length is a power of two. Entries are only ever added: a
 * writer, under the lock, either puts one more into an empty place or, when the table is half full, publishes a table
 * twice as long. A reader that still walks the old table sees everything that was there when it began; it may miss an
 * entry that is being added, and then comes to the writers' side, which looks again under the lock. Old tables are kept
 * until the cache goes: together they are as long as the newest.
 *
 * Whoever first misses a key becomes its maker and leaves a Pending, on which others who want the same key wait. A
 * failure is handed to those who waited, and not kept: the next call tries again (a compiler may have been installed, a
 * disk cleaned up).
 */
#include <stdlib.h>

#include "runtime/runtime.h"

typedef struct Table {
  struct Table *older;
  size_t length;
  _Atomic(Specialization *) at[];
} Table;

typedef struct Pending {
  struct Pending *next;
  uint64_t hash;
  const void *key; /* the maker's, which lives until the Pending is taken off the list */
  size_t key_size;
  int waiting;
  bool done;
  Specialization *result;
  nereid_error *error;
} Pending;

struct Cache {
  _Atomic(Table *) table;
  size_t count;
  pthread_mutex_t lock; /* of everything but lookups */
  pthread_cond_t made;
  Pending *pending;
  ForkHook fork;
};

static Table *table_create(size_t length) {
  Table *t = calloc(1, sizeof *t + length * sizeof t->at[0]);
  if (t) t->length = length;
  return t;
}

/* What other threads were making is made by nobody now. */
static void in_child(void *owner) {
  Cache *c = owner;
  pthread_cond_init(&c->made, NULL);
  c->pending = NULL;
}

Cache *cache_create(void) {
  Cache *c = calloc(1, sizeof *c);
  Table *t = table_create(16);
  if (!c || !t) return free(c), free(t), NULL;
  atomic_init(&c->table, t);
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->made, NULL);
  c->fork = (ForkHook){.held = &c->lock, .in_child = in_child, .owner = c};
  fork_hook_add(&c->fork);
  return c;
}

void cache_destroy(Cache *c) {
  if (!c) return;
  fork_hook_remove(&c->fork);
  Table *t = atomic_load(&c->table);
  for (size_t i = 0; i < t->length; i++) specialization_destroy(atomic_load(&t->at[i]));
  for (Table *older; t; t = older) older = t->older, free(t);
  pthread_cond_destroy(&c->made);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

Specialization *cache_find(Cache *c, uint64_t hash, const void *key, size_t n) {
  Table *t = atomic_load_explicit(&c->table, memory_order_acquire);
  for (size_t i = hash & (t->length - 1);; i = (i + 1) & (t->length - 1)) {
    Specialization *s = atomic_load_explicit(&t->at[i], memory_order_acquire);
    if (!s) return NULL; /* at least half of the places are empty, so this comes */
    if (s->hash == hash && s->key_size == n && !memcmp(s->key, key, n)) return s;
  }
}

static void table_put(Table *t, Specialization *s) {
  size_t i = s->hash & (t->length - 1);
  while (atomic_load_explicit(&t->at[i], memory_order_relaxed)) i = (i + 1) & (t->length - 1);
  atomic_store_explicit(&t->at[i], s, memory_order_release);
}

/* Under the lock. False: out of memory. */
static bool add(Cache *c, Specialization *s) {
  Table *t = atomic_load(&c->table);
  if (2 * (c->count + 1) > t->length) {
    Table *longer = table_create(2 * t->length);
    if (!longer) return false;
    for (size_t i = 0; i < t->length; i++) {
      Specialization *old = atomic_load(&t->at[i]);
      if (old) table_put(longer, old);
    }
    longer->older = t;
    table_put(longer, s);
    atomic_store_explicit(&c->table, longer, memory_order_release);
  } else {
    table_put(t, s);
  }
  c->count++;
  return true;
}

/* Under the lock: waits for p, and lets it go. */
static Specialization *wait_for(Cache *c, Pending *p, nereid_error **error) {
  p->waiting++;
  while (!p->done) pthread_cond_wait(&c->made, &c->lock);
  Specialization *s = p->result;
  if (!s && error) *error = error_copy(p->error);
  if (--p->waiting == 0) {
    nereid_error_free(p->error);
    free(p);
  }
  return s;
}

Specialization *cache_get(Cache *c, uint64_t hash, const void *key, size_t n,
                          Specialization *(*make)(void *arg, nereid_error **error), void *arg, nereid_error **error) {
  Specialization *s = cache_find(c, hash, key, n);
  if (s) return s;
  pthread_mutex_lock(&c->lock);
  s = cache_find(c, hash, key, n);
  Pending *p = c->pending;
  while (p && !(p->hash == hash && p->key_size == n && !memcmp(p->key, key, n))) p = p->next;
  if (s || p) {
    if (!s) s = wait_for(c, p, error);
    pthread_mutex_unlock(&c->lock);
    return s;
  }
  p = calloc(1, sizeof *p);
  if (!p) {
    pthread_mutex_unlock(&c->lock);
    error_out_of_memory(error);
    return NULL;
  }
  *p = (Pending){.next = c->pending, .hash = hash, .key = key, .key_size = n};
  c->pending = p;
  pthread_mutex_unlock(&c->lock);

  nereid_error *why = NULL;
  s = make(arg, &why);

  pthread_mutex_lock(&c->lock);
  if (s && !add(c, s)) {
    specialization_destroy(s);
    s = NULL;
    error_out_of_memory(&why);
  }
  Pending **link = &c->pending;
  while (*link && *link != p) link = &(*link)->next;
  if (*link) *link = p->next;
  p->done = true;
  p->result = s;
  if (!s && error) *error = p->waiting ? error_copy(why) : why;
  if (p->waiting) {
    p->error = why; /* the last to leave frees both */
    pthread_cond_broadcast(&c->made);
  } else {
    if (s || !error) nereid_error_free(why);
    free(p);
  }
  pthread_mutex_unlock(&c->lock);
  return s;
}
