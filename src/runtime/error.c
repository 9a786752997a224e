/* Errors as values: a status, one line for a program to show, and the whole text as the compilers print it.
 *
 * Where there is no memory even for the error, a constant one is handed out, which nereid_error_free leaves alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "runtime/runtime.h"

struct nereid_error {
  nereid_status status;
  char *message, *text, *file;
  int line, column;
};

static const struct nereid_error no_memory = {
    NEREID_OUT_OF_MEMORY, (char *)"out of memory", (char *)"error: out of memory\n", NULL, 0, 0};

nereid_status nereid_error_status(const nereid_error *e) { return e ? e->status : NEREID_OK; }
const char *nereid_error_message(const nereid_error *e) { return e ? e->message : ""; }
const char *nereid_error_text(const nereid_error *e) { return e ? e->text : ""; }

void nereid_error_place(const nereid_error *e, const char **file, int *line, int *column) {
  if (file) *file = e ? e->file : NULL;
  if (line) *line = e ? e->line : 0;
  if (column) *column = e ? e->column : 0;
}

void nereid_error_free(nereid_error *e) {
  if (!e || e == &no_memory) return;
  free(e->message);
  free(e->text);
  free(e->file);
  free(e);
}

nereid_status error_out_of_memory(nereid_error **out) {
  if (out) *out = (nereid_error *)&no_memory;
  return NEREID_OUT_OF_MEMORY;
}

/* Takes message and text, malloc'ed; NULL ones mean that memory ran out. */
static nereid_status give(nereid_error **out, nereid_status status, char *message, char *text, const Span *span) {
  nereid_error *e = message && text ? calloc(1, sizeof *e) : NULL;
  bool placed = span && span->source;
  char *file = e && placed ? strdup(span->source->path) : NULL;
  if (!e || (placed && !file)) {
    free(message);
    free(text);
    free(e);
    return error_out_of_memory(out);
  }
  *e = (nereid_error){.status = status, .message = message, .text = text, .file = file};
  if (placed) e->line = span->line, e->column = span->col + 1;
  *out = e;
  return status;
}

nereid_status error_rendered(nereid_error **out, nereid_status status, const char *message, char *text,
                             const char *path, int line, int column) {
  const Source source = {.path = path};
  const Span span = {.source = &source, .line = line, .col = column - 1};
  if (out) return give(out, status, strdup(message), text, &span);
  free(text);
  return status;
}

static nereid_status from_diag(nereid_error **out, nereid_status status, const Diag *d) {
  Buf text = {0};
  diag_print(&text, d, false);
  if (text.failed) buf_destroy(&text), text.at = NULL;
  return give(out, status, strdup(d->message), text.at, &d->span);
}

nereid_status error_set(nereid_error **out, nereid_status status, const char *hint, const char *format, ...) {
  if (!out) return status;
  Buf message = {0};
  va_list ap;
  va_start(ap, format);
  buf_vprintf(&message, format, ap);
  va_end(ap);
  if (!message.at || message.failed) {
    buf_destroy(&message);
    return error_out_of_memory(out);
  }
  nereid_status given = from_diag(out, status, &(Diag){.kind = DIAG_ERROR, .message = message.at, .hint = hint});
  buf_destroy(&message);
  return given;
}

nereid_status error_errno(nereid_error **out, nereid_status status, int number, const char *format, ...) {
  if (number == ENOMEM) return error_out_of_memory(out);
  if (!out) return status;
  char what[1024];
  va_list ap;
  va_start(ap, format);
  vsnprintf(what, sizeof what, format, ap);
  va_end(ap);
  return error_set(out, status, NULL, "%s: %s", what, file_reason(number));
}

nereid_status error_null(nereid_error **out, const char *function, const char *what) {
  return error_set(out, NEREID_BAD_ARGUMENT, NULL, "%s: %s is NULL", function, what);
}

nereid_status error_at(nereid_error **out, nereid_status status, Span span, const char *hint, const char *message) {
  if (!out) return status;
  return from_diag(out, status, &(Diag){.kind = DIAG_ERROR, .span = span, .message = message, .hint = hint});
}

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
  if (text.failed) buf_destroy(&text), text.at = NULL;
  return give(out, otherwise, strdup(first->message), text.at, &first->span);
}

nereid_error *error_copy(const nereid_error *e) {
  if (!e || e == &no_memory) return (nereid_error *)&no_memory;
  nereid_error *copy = calloc(1, sizeof *copy);
  char *message = strdup(e->message), *text = strdup(e->text), *file = e->file ? strdup(e->file) : NULL;
  if (!copy || !message || !text || (e->file && !file)) {
    free(copy);
    free(message);
    free(text);
    free(file);
    return (nereid_error *)&no_memory;
  }
  *copy = (nereid_error){e->status, message, text, file, e->line, e->column};
  return copy;
}

void fault_message(Buf *out, const char *message, const int32_t program[3], int rank, const int32_t *index) {
  buf_puts(out, message);
  if (program) buf_printf(out, ", in program (%d, %d, %d)", program[0], program[1], program[2]);
  for (int i = 0; i < rank; i++) buf_printf(out, "%s%d", i ? ", " : ", element [", index[i]);
  if (rank) buf_putc(out, ']');
}
