/* Map: a hash map in an arena, from strings or addresses to pointers, that remembers the order of insertion.
 *
 * Entries lie in one array in the order of their first insertion. Beside it, a table of twice as many slots or more
 * holds each entry's index + 1 (0: empty), found by open addressing with linear probing. Nothing is ever removed, so
 * there are no tombstones. String keys carry their length: a key may contain NUL (map_get_n).
 */
#include "base/base.h"

typedef struct Entry {
  const void *key;
  size_t length; /* of a string key */
  uint64_t hash;
  void *value;
} Entry;

struct Map {
  Arena *arena;
  bool string_keys;
  VEC(Entry) entries;
  uint32_t *slots;
  uint32_t slot_count; /* a power of two, at least twice the entries */
};

Map *map_create(Arena *a, bool string_keys) {
  Map *m = NEW(a, Map);
  if (!m) return NULL;
  m->arena = a;
  m->string_keys = string_keys;
  return m;
}

/* The finaliser of MurmurHash3: addresses differ in few, middle bits. */
static uint64_t hash_address(const void *key) {
  uint64_t h = (uint64_t)(uintptr_t)key;
  h = (h ^ h >> 33) * 0xff51afd7ed558ccdULL;
  h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ULL;
  return h ^ h >> 33;
}

static uint64_t hash_key(const Map *m, const void *key, size_t length) {
  return m->string_keys ? hash_bytes(key, length, 0) : hash_address(key);
}

static Entry *find(const Map *m, const void *key, size_t length, uint64_t hash) {
  if (!m->slot_count) return NULL;
  uint32_t mask = m->slot_count - 1;
  for (uint32_t i = (uint32_t)hash & mask; m->slots[i]; i = (i + 1) & mask) {
    Entry *e = &m->entries.at[m->slots[i] - 1];
    if (e->key == key && e->length == length) return e;
    if (m->string_keys && e->hash == hash && e->length == length && memcmp(e->key, key, length) == 0) return e;
  }
  return NULL;
}

static void place(Map *m, uint64_t hash, uint32_t index_plus_1) {
  uint32_t mask = m->slot_count - 1, i = (uint32_t)hash & mask;
  while (m->slots[i]) i = (i + 1) & mask;
  m->slots[i] = index_plus_1;
}

static void put(Map *m, const void *key, size_t length, void *value) {
  uint64_t hash = hash_key(m, key, length);
  Entry *found = find(m, key, length, hash);
  if (found) {
    found->value = value;
    return;
  }
  if ((uint32_t)m->entries.n * 2 >= m->slot_count) {
    uint32_t count = m->slot_count ? m->slot_count * 2 : 16;
    uint32_t *slots = NEW_N(m->arena, uint32_t, count);
    if (!slots) return;
    m->slots = slots;
    m->slot_count = count;
    for (int i = 0; i < m->entries.n; i++) place(m, m->entries.at[i].hash, (uint32_t)i + 1);
  }
  vec_push(m->arena, &m->entries, (Entry){key, length, hash, value});
  place(m, hash, (uint32_t)m->entries.n);
}

static size_t key_length(const Map *m, const void *key) { return m->string_keys ? strlen(key) : 0; }

static Entry *get(const Map *m, const void *key) {
  size_t n = key_length(m, key);
  return find(m, key, n, hash_key(m, key, n));
}

void *map_get(const Map *m, const void *key) {
  Entry *e = get(m, key);
  return e ? e->value : NULL;
}

bool map_has(const Map *m, const void *key) { return get(m, key) != NULL; }

void map_put(Map *m, const void *key, void *value) { put(m, key, key_length(m, key), value); }

void *map_get_n(const Map *m, const char *key, size_t n) {
  Entry *e = find(m, key, n, hash_key(m, key, n));
  return e ? e->value : NULL;
}

void map_put_n(Map *m, const char *key, size_t n, void *value) { put(m, key, n, value); }

int map_count(const Map *m) { return m->entries.n; }

void map_entry(const Map *m, int i, const void **key, void **value) {
  if (key) *key = m->entries.at[i].key;
  if (value) *value = m->entries.at[i].value;
}
