/* What measuring has shown, of a product or of a convolution: which way is fastest.
 *
 * A key says all that it depends on: the versions, the device, the program. What a graph has asked before it knows;
 * what a process has measured before the store keeps (base/store.c); else it is measured now, and kept.
 */
#include "fuse/race.h"

static bool is_kept(const OutcomeKind *kind, void *of, const char *name, void *out) {
  Buf text = {0};
  bool found = store_find(kind->name, name, "", &text) && kind->read(of, text.at, out);
  buf_destroy(&text);
  return found;
}

static bool is_measured(const OutcomeKind *kind, void *of, const char *name, Arena *arena, void *out) {
  if (!kind->measure(of, out)) return false;
  const char *text = kind->write(arena, out);
  store_keep(kind->name, name, "", text, strlen(text)); /* else it is measured again */
  return true;
}

bool outcome_find(const OutcomeKind *kind, void *of, const char *key, bool measures, Arena *arena, Map *known,
                  void *out) {
  static char none;
  void *outcome = map_get(known, key);
  if (!outcome) {
    char name[33];
    hash_hex(key, strlen(key), name);
    outcome = arena_alloc(arena, kind->bytes);
    if (!is_kept(kind, of, name, outcome) && !(measures && is_measured(kind, of, name, arena, outcome)))
      outcome = &none;
    map_put(known, key, outcome);
  }
  if (outcome == &none) return false;
  memcpy(out, outcome, kind->bytes);
  return true;
}
