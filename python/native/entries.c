/* The table of a kernel's specializations that were launched before, by the keys that argument.c makes. */
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

uint64_t launcher_hash(const Call *c) {
  uint64_t h = 0x9E3779B97F4A7C15u;
  for (int i = 0; i < c->word_count; i++) {
    h = (h ^ c->words[i]) * 0xFF51AFD7ED558CCDu;
    h ^= h >> 32;
  }
  return h;
}

static bool same_objects(const Entry *e, const Call *c) {
  for (int i = 0; i < c->object_count; i++) {
    if (e->objects[i] == c->objects[i]) continue;
    if (Py_TYPE(e->objects[i]) != Py_TYPE(c->objects[i])) return false;
    int same = PyObject_RichCompareBool(e->objects[i], c->objects[i], Py_EQ);
    if (same < 0) PyErr_Clear();
    if (same != 1) return false;
  }
  return true;
}

Entry *launcher_find(const Launcher *l, const Call *c, uint64_t hash) {
  if (!l->room) return NULL;
  for (Entry *e = l->table[hash & (uint64_t)(l->room - 1)]; e; e = e->next)
    if (e->hash == hash && e->word_count == c->word_count && e->object_count == c->object_count &&
        !memcmp(e->words, c->words, sizeof *c->words * (size_t)c->word_count) && same_objects(e, c))
      return e;
  return NULL;
}

static void entry_free(Entry *e) {
  for (int i = 0; e->objects && i < e->object_count; i++) Py_XDECREF(e->objects[i]);
  Py_XDECREF(e->kernel);
  Py_XDECREF((PyObject *)e->function);
  free(e->words);
  free(e->objects);
  free(e);
}

static bool table_grow(Launcher *l) {
  int room = l->room ? 2 * l->room : 8;
  Entry **table = calloc((size_t)room, sizeof *table);
  if (!table) return false;
  for (int i = 0; i < l->room; i++)
    for (Entry *e = l->table[i], *next; e; e = next) {
      Entry **at = &table[e->hash & (uint64_t)(room - 1)];
      next = e->next;
      e->next = *at;
      *at = e;
    }
  free(l->table);
  l->table = table;
  l->room = room;
  return true;
}

Entry *launcher_enter(Launcher *l, const Call *c, uint64_t hash, PyObject *kernel, Function *function) {
  Entry *e = calloc(1, sizeof *e);
  if (e) {
    e->words = malloc(sizeof *c->words * (size_t)(c->word_count + 1));
    e->objects = calloc((size_t)c->object_count + 1, sizeof *e->objects);
  }
  if (!e || !e->words || !e->objects || (l->count >= l->room && !table_grow(l))) {
    if (e) entry_free(e);
    PyErr_NoMemory();
    return NULL;
  }
  e->hash = hash;
  e->word_count = c->word_count;
  memcpy(e->words, c->words, sizeof *c->words * (size_t)c->word_count);
  e->object_count = c->object_count;
  for (int i = 0; i < c->object_count; i++) Py_INCREF(e->objects[i] = c->objects[i]);
  Py_INCREF(e->kernel = kernel);
  Py_INCREF((PyObject *)(e->function = function));
  Entry **at = &l->table[hash & (uint64_t)(l->room - 1)];
  e->next = *at;
  *at = e;
  l->count++;
  return e;
}

void launcher_forget_entries(Launcher *l) {
  Entry **table = l->table;
  int room = l->room;
  l->table = NULL;
  l->room = l->count = 0;
  for (int i = 0; i < room; i++)
    for (Entry *e = table[i], *next; e; e = next) {
      next = e->next;
      entry_free(e);
    }
  free(table);
}
