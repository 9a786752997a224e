/* Structs of the public interface that carry their size: taken from, and given to, programs that were built against
 * another version. Both sides know the members up to the smaller of the two sizes. */
#include "rt/rt.h"

bool struct_take(void *out, size_t size, const void *given, size_t theirs) {
  if (theirs < sizeof theirs || theirs > 1 << 16) return false;
  memset(out, 0, size);
  memcpy(out, given, theirs < size ? theirs : size);
  return true;
}

bool struct_give(void *given, const void *from, size_t size) {
  size_t theirs;
  memcpy(&theirs, given, sizeof theirs);
  if (theirs < sizeof theirs || theirs > 1 << 16) return false;
  size_t both = theirs < size ? theirs : size;
  memset(given, 0, theirs);
  memcpy(given, from, both);
  memcpy(given, &theirs, sizeof theirs);
  return true;
}

const nereid_options *options_take(const nereid_options *o, nereid_options *taken) {
  if (!o) return &options_default;
  if (!o->size || o->size == sizeof *o) return o;
  return STRUCT_TAKE(taken, o) ? taken : &options_default;
}
