/* Where the device_asserts of compiled code stand, and its loops that wait for other programs.
 *
 * Compiled code says only the line of an assert that failed, or of a loop that does not end. While the Func is at hand,
 * each assert's place is kept as the text that a diagnostic there has, with a mark in the message's stead; so a failure
 * is told with the source line and the chain of inlined calls, long after the compilation has gone. Where one line was
 * inlined from several places, nobody can tell which it was: then the chain is left out.
 */
#include <stdlib.h>

#include "runtime/runtime.h"

char *assert_location_text(Span span) {
  Buf b = {0};
  diag_print(&b, &(Diag){.kind = DIAG_ERROR, .span = span, .message = ASSERT_MARK}, false);
  if (!b.failed) return b.at;
  buf_destroy(&b);
  return NULL;
}

typedef struct Keep {
  AssertLocation *first;
  bool failed;
} Keep;

static void keep_place(Op *op, void *arg) {
  Keep *k = arg;
  if ((op->code != OP_ASSERT && !op_waits(op)) || !op->span || !op->span->source || k->failed) return;
  Span span = *op->span;
  AssertLocation *known = (AssertLocation *)assert_location_find(k->first, span.source->path, span.line);
  if (known) {
    span.inlined_at = NULL;
    char *text = assert_location_text(span);
    if (!text) return;
    free(known->text);
    known->text = text;
    return;
  }
  AssertLocation *p = calloc(1, sizeof *p);
  if (p)
    *p = (AssertLocation){.line = span.line,
                          .column = span.col + 1,
                          .path = strdup(span.source->path),
                          .text = assert_location_text(span),
                          .next = k->first};
  if (p && p->path && p->text) {
    k->first = p;
    return;
  }
  k->failed = true;
  if (p) p->next = NULL, assert_locations_free(p);
}

bool assert_places_keep(const Func *f, AssertLocation **out) {
  Keep k = {0};
  tile_walk(f->body, keep_place, &k);
  *out = k.first;
  return !k.failed;
}
