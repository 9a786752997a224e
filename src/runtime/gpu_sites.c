/* What rt/gpu_records.c needs of a kernel's prints and asserts, kept apart from the compilation that is gone by then.
 */
#include <stdlib.h>

#include "runtime/runtime.h"

static bool keep(const LaneSite *from, DiagSite *to) {
  *to = (DiagSite){.is_assert = from->is_assert,
                   .hex = from->hex,
                   .value_count = from->value_count,
                   .type_count = from->value_count};
  if (from->is_assert && from->types && from->types[0]) to->type_count = 1;
  to->types = calloc((size_t)to->type_count + 1, sizeof *to->types);
  to->text = strdup(from->text ? from->text : "");
  if (!to->types || !to->text) return false;
  for (int i = 0; i < to->type_count; i++) to->types[i] = *from->types[i];
  if (!from->is_assert || !from->span || !from->span->source) return true;
  to->place = assert_location_text(*from->span);
  to->path = strdup(from->span->source->path);
  to->line = from->span->line;
  to->column = from->span->col + 1;
  return to->place && to->path;
}

bool diag_sites_keep(const LaneFunc *f, DiagSites **out) {
  *out = NULL;
  if (!f->sites.n) return true;
  DiagSites *s = calloc(1, sizeof *s + sizeof *s->site * (size_t)f->sites.n);
  if (!s) return false;
  s->threads = f->num_warps * 32;
  for (; s->count < f->sites.n; s->count++)
    if (!keep(&f->sites.at[s->count], &s->site[s->count])) {
      s->count++;
      diag_sites_free(s);
      return false;
    }
  *out = s;
  return true;
}
