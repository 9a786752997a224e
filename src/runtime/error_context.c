/* The context of a compilation with its limits; and what a failed compilation said, as an error of the interface. */
#include <stdlib.h>

#include "runtime/runtime.h"

nereid_status error_from_context(nereid_error **out, nereid_status otherwise, const Context *cx) {
  if (cx->out_of_memory) return error_out_of_memory(out);
  if (cx->over_limit) otherwise = NEREID_OVER_LIMIT;
  if (!out) return otherwise;
  const Diag *first = NULL;
  for (int i = 0; i < cx->diags.n && !first; i++)
    if (cx->diags.at[i].kind == DIAG_ERROR) first = &cx->diags.at[i];
  if (!first) return error_set(out, NEREID_INTERNAL, "please report it", "a compilation failed without saying why");
  Buf text = {0};
  diags_print(&text, cx, false);
  if (text.failed) {
    buf_destroy(&text);
    return error_out_of_memory(out);
  }
  const Span *at = &first->span;
  nereid_status status = error_rendered(out, otherwise, first->message, text.at, at->source ? at->source->path : NULL,
                                        at->line, at->col + 1);
  error_about(out, first->error, &cx->need, at->inlined_at);
  return status;
}

void warn_from_context(const nereid_options *o, const Context *cx) {
  for (int i = 0; o->warn && i < cx->diags.n; i++) {
    const Diag *d = &cx->diags.at[i];
    if (d->kind != DIAG_WARNING) continue;
    Buf text = {0};
    nereid_error *warning = NULL;
    diag_print(&text, d, false);
    if (text.failed) buf_destroy(&text);
    else
      error_rendered(&warning, NEREID_OK, d->message, text.at, d->span.source ? d->span.source->path : NULL,
                     d->span.line, d->span.col + 1);
    if (warning) o->warn(o->warn_arg, warning);
    nereid_error_free(warning);
  }
}

Context *context_within(const nereid_options *o) {
  Context *cx = context_create();
  nereid_limits l = limits_of(o);
  if (cx) cx->limits = (Limits){.memory = l.memory_bytes, .steps = l.steps, .file = l.file_bytes};
  return cx;
}
