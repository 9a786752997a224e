/* What compiled code says of an assert that failed, or of a loop that does not end, is a line; here it becomes an error
 * with the source line and the chain of inlined calls, which were kept as text when the code was compiled
 * (runtime/assert_places.c).
 */
#include <stdlib.h>

#include "rt/rt.h"

static const char mark[] = ASSERT_MARK;

const AssertLocation *assert_location_find(const AssertLocation *list, const char *path, int line) {
  for (; list; list = list->next)
    if (list->line == line && (!path || !strcmp(list->path, path))) return list;
  return NULL;
}

void assert_locations_free(AssertLocation *p) {
  for (AssertLocation *next; p; p = next) {
    next = p->next;
    free(p->path);
    free(p->text);
    free(p);
  }
}

nereid_status assert_places_error(nereid_error **out, nereid_status status, const AssertLocation *places,
                                  const char *main_path, const char *message, int line) {
  const AssertLocation *p = assert_location_find(places, main_path, line);
  if (!p) p = assert_location_find(places, NULL, line);
  if (!p) return error_set(out, status, NULL, "%s, at line %d of %s", message, line, main_path);
  return assert_location_error(out, status, p->text, message, p->path, p->line, p->column);
}

nereid_status assert_location_error(nereid_error **out, nereid_status status, const char *place, const char *message,
                                    const char *path, int line, int column) {
  const char *at = strstr(place, mark);
  Buf text = {0};
  buf_write(&text, place, (size_t)(at - place));
  buf_puts(&text, message);
  buf_puts(&text, at + 1);
  if (text.failed) {
    buf_destroy(&text);
    return error_out_of_memory(out);
  }
  return error_rendered(out, status, message, text.at, path, line, column);
}
