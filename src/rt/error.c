/* Errors as values: a status, one line for a program to show, and the whole text as the compilers print it.
 *
 * Where there is no memory even for the error, a constant one is handed out, which nereid_error_free leaves alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "rt/rt.h"

struct nereid_error {
  nereid_status status;
  char *message, *text, *file;
  int line, column;
  ErrorKind kind;
  Need need;
  struct ErrorCall {
    char *file;
    int line, column;
  } * calls; /* innermost first */
  int call_count;
};
typedef struct ErrorCall ErrorCall;

static const struct nereid_error no_memory = {NEREID_OUT_OF_MEMORY,
                                              (char *)"out of memory",
                                              (char *)"error: out of memory\n",
                                              NULL,
                                              0,
                                              0,
                                              ERROR_OTHER,
                                              {0},
                                              NULL,
                                              0};

nereid_status nereid_error_status(const nereid_error *e) { return e ? e->status : NEREID_OK; }
const char *nereid_error_message(const nereid_error *e) { return e ? e->message : ""; }
const char *nereid_error_text(const nereid_error *e) { return e ? e->text : ""; }

void nereid_error_place(const nereid_error *e, const char **file, int *line, int *column) {
  if (file) *file = e ? e->file : NULL;
  if (line) *line = e ? e->line : 0;
  if (column) *column = e ? e->column : 0;
}

nereid_error_kind nereid_error_get_kind(const nereid_error *e) {
  if (!e || e->kind == ERROR_OTHER)
    return e && e->status == NEREID_BAD_ARGUMENT   ? NEREID_ERROR_LAUNCH
           : e && e->status == NEREID_KERNEL_FAULT ? NEREID_ERROR_FAULT
                                                   : NEREID_ERROR_OTHER;
  return (nereid_error_kind)e->kind;
}

bool nereid_error_resource(const nereid_error *e, const char **name, int64_t *required, int64_t *limit) {
  if (!e || e->kind != ERROR_RESOURCES) return false;
  if (name) *name = e->need.what;
  if (required) *required = e->need.required;
  if (limit) *limit = e->need.limit;
  return true;
}

int nereid_error_call_count(const nereid_error *e) { return e ? e->call_count : 0; }

bool nereid_error_call(const nereid_error *e, int i, const char **file, int *line, int *column) {
  if (!e || i < 0 || i >= e->call_count) return false;
  if (file) *file = e->calls[i].file;
  if (line) *line = e->calls[i].line;
  if (column) *column = e->calls[i].column;
  return true;
}

void error_about(nereid_error **out, ErrorKind kind, const Need *need, const Span *calls) {
  if (!out || !*out || *out == &no_memory) return;
  nereid_error *e = *out;
  e->kind = kind;
  if (need) e->need = *need;
  int n = 0;
  for (const Span *s = calls; s; s = s->inlined_at) n += s->source != NULL;
  e->calls = n ? calloc((size_t)n, sizeof *e->calls) : NULL;
  for (const Span *s = calls; s && e->calls; s = s->inlined_at) {
    if (!s->source) continue;
    char *file = strdup(s->source->path);
    if (!file) return; /* the rest is in the text */
    e->calls[e->call_count++] = (ErrorCall){file, s->line, s->col + 1};
  }
}

void nereid_error_free(nereid_error *e) {
  if (!e || e == &no_memory) return;
  free(e->message);
  free(e->text);
  free(e->file);
  for (int i = 0; i < e->call_count; i++) free(e->calls[i].file);
  free(e->calls);
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
  const Span span = {.source = path ? &source : NULL, .line = line, .col = column - 1};
  if (out) return give(out, status, strdup(message), text, &span);
  free(text);
  return status;
}

static nereid_status from_diag(nereid_error **out, nereid_status status, const Diag *d) {
  Buf text = {0};
  diag_print(&text, d, false);
  if (text.failed) buf_destroy(&text), text.at = NULL;
  give(out, status, strdup(d->message), text.at, &d->span);
  error_about(out, d->error, NULL, d->span.inlined_at);
  return nereid_error_status(*out);
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
  nereid_status given =
      from_diag(out, status, &(Diag){.kind = status ? DIAG_ERROR : DIAG_WARNING, .message = message.at, .hint = hint});
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

bool error_bad_file(nereid_status *first, nereid_error **out, const char *path, const char *hint, const char *format,
                    ...) {
  char why[400];
  va_list ap;
  va_start(ap, format);
  vsnprintf(why, sizeof why, format, ap);
  va_end(ap);
  if (!*first) *first = error_set(out, NEREID_BAD_FILE, hint, "%s: %s", path, why);
  return false;
}

nereid_status error_null(nereid_error **out, const char *function, const char *what) {
  return error_set(out, NEREID_BAD_ARGUMENT, NULL, "%s: %s is NULL", function, what);
}

nereid_status error_at(nereid_error **out, nereid_status status, Span span, const char *hint, const char *message) {
  if (!out) return status;
  return from_diag(out, status, &(Diag){.kind = DIAG_ERROR, .span = span, .message = message, .hint = hint});
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
  *copy = (nereid_error){.status = e->status,
                         .message = message,
                         .text = text,
                         .file = file,
                         .line = e->line,
                         .column = e->column,
                         .kind = e->kind,
                         .need = e->need};
  copy->calls = e->call_count ? calloc((size_t)e->call_count, sizeof *copy->calls) : NULL;
  for (int i = 0; i < e->call_count && copy->calls; i++) {
    copy->calls[i] = e->calls[i];
    if (!(copy->calls[i].file = strdup(e->calls[i].file))) break;
    copy->call_count = i + 1;
  }
  return copy;
}

void fault_message(Buf *out, const char *message, const int32_t program[3], int rank, const int32_t *index) {
  buf_puts(out, message);
  if (program) buf_printf(out, ", in program (%d, %d, %d)", program[0], program[1], program[2]);
  for (int i = 0; i < rank; i++) buf_printf(out, "%s%d", i ? ", " : ", element [", index[i]);
  if (rank) buf_putc(out, ']');
}
