/* nereid_prof_view: which view writes what, and where to: standard output, or a file that is whole or not there.
 *
 * A file is written beside its place under another name, and moved there at the end; but what is there and is no plain
 * file (/dev/null, a pipe) is written into. Of several views ("table,tree,advice") one follows the other; as JSON they
 * are the members of an object.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "prof/prof.h"
#include "runtime/runtime.h"

typedef int (*ViewFn)(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]);
static const struct View {
  const char *name;
  ViewFn write;
  bool joins; /* text, which may stand beside others */
} views[] = {
    {"table", view_table, true},          {"tree", view_tree, true},
    {"functions", view_functions, true},  {"advice", view_advice, true},
    {"hatchet", view_hatchet, false},     {"chrome", view_chrome, false},
    {"html", view_html, false},           {"folded", view_folded, false},
    {"flame", view_flame, false},         {"folded-gpu", view_folded_gpu, false},
    {"flame-gpu", view_flame_gpu, false},
};
enum { VIEWS = sizeof views / sizeof views[0], MOST_VIEWS = 16 };

/* ---- where to ---------------------------------------------------------------------------------------------------- */

typedef struct Target {
  FILE *file;
  const char *path; /* NULL: standard output */
  WholeFile whole;
} Target;

static nereid_status target_open(Target *t, const char *path, nereid_error **error) {
  t->path = path && strcmp(path, "-") ? path : NULL;
  if (!t->path) return t->file = stdout, NEREID_OK;
  int fd = whole_file_open(&t->whole, path);
  t->file = fd < 0 ? NULL : fdopen(fd, "w");
  if (t->file) return NEREID_OK;
  int why = errno;
  if (fd >= 0) {
    close(fd);
    whole_file_end(&t->whole, false);
  }
  return error_errno(error, NEREID_BAD_FILE, why, "cannot write %s", path);
}

/* `failed`: what was to be written is not there, and neither will the file be. */
static nereid_status target_close(Target *t, bool failed, nereid_error **error) {
  bool bad = fflush(t->file) || ferror(t->file);
  int why = errno;
  if (t->path && fclose(t->file) && !bad) bad = true, why = errno;
  errno = why;
  if (t->path && !whole_file_end(&t->whole, !bad && !failed) && !failed) bad = true, why = errno;
  if (!bad || failed) return NEREID_OK;
  if (!t->path) clearerr(t->file);
  return error_errno(error, NEREID_BAD_FILE, why, "cannot write %s", t->path ? t->path : "to standard output");
}

/* ---- which ------------------------------------------------------------------------------------------------------- */

static nereid_status unknown_view(const char *name, nereid_error **error) {
  Buf hint = {0};
  buf_puts(&hint, "there are");
  for (int i = 0; i < VIEWS; i++) buf_printf(&hint, "%s %s", i ? "," : "", views[i].name);
  buf_puts(&hint, "; and report: what of table, tree, functions and advice has something to say");
  nereid_status status = error_set(error, NEREID_BAD_ARGUMENT, hint.at, "there is no view '%s' of a trace", name);
  buf_destroy(&hint);
  return status;
}

/* What there is something to say of; of a program that only computed, its functions. */
static const char *report_of(TraceReader *r) {
  TraceEvent e;
  bool scopes = false, samples = false, work = false;
  while (!(scopes && samples) && trace_next(r, &e)) {
    scopes |= e.kind == TRACE_RANGE, samples |= e.kind == TRACE_SAMPLE;
    work |= e.kind == TRACE_RANGE || e.kind == TRACE_CALL || e.kind == TRACE_KERNEL || e.kind == TRACE_COPY ||
            e.kind == TRACE_FILL;
  }
  if (!work) return "functions";
  if (scopes) return samples ? "table,tree,functions,advice" : "table,tree,advice";
  return samples ? "table,functions,advice" : "table,advice";
}

/* The views that `text` names, in order. */
static nereid_status choose(TraceReader *r, const char *text, const struct View *chosen[MOST_VIEWS], int *n,
                            nereid_error **error) {
  if (!strcmp(text, "report")) text = report_of(r);
  for (*n = 0; *text; text += strcspn(text, ","), text += *text == ',') {
    size_t size = strcspn(text, ",");
    const struct View *found = NULL;
    for (int i = 0; i < VIEWS; i++)
      if (strlen(views[i].name) == size && !strncmp(views[i].name, text, size)) found = &views[i];
    if (!found || *n == MOST_VIEWS) {
      char name[60];
      snprintf(name, sizeof name, "%.*s", (int)size, text);
      return unknown_view(name, error);
    }
    chosen[(*n)++] = found;
  }
  if (!*n) return unknown_view("", error);
  for (int i = 0; i<*n && * n> 1; i++)
    if (!chosen[i]->joins)
      return error_set(error, NEREID_BAD_ARGUMENT, "write it to a file of its own",
                       "the view '%s' does not stand beside others", chosen[i]->name);
  return NEREID_OK;
}

static nereid_status write_views(TraceReader *r, const struct View *const *chosen, int n, bool object,
                                 const ViewOptions *o, FILE *out, nereid_error **error) {
  JsonWriter w = {.file = out};
  if (object) json_begin_object(&w, NULL);
  for (int i = 0; i < n; i++) {
    char why[300] = "";
    if (object && i) json_break(&w, "\n");
    if (object) json_put_key(&w, chosen[i]->name);
    else if (i) fputc('\n', out);
    if (!trace_rewind(r))
      return error_set(error, NEREID_BAD_FILE, NULL, "the trace cannot be read again from its beginning");
    if (chosen[i]->write(r, out, o, why))
      return error_set(error, NEREID_BAD_ARGUMENT, NULL, "the view '%s': %s", chosen[i]->name, why);
    if (ferror(out)) return NEREID_OK; /* target_close says it */
  }
  if (object) {
    json_end_object(&w);
    fputc('\n', out);
  }
  return NEREID_OK;
}

nereid_status nereid_prof_view(const char *trace, const char *view, const char *path,
                               const nereid_prof_view_options *options, nereid_error **error) {
  if (!trace) return error_null(error, "nereid_prof_view", "the trace");
  if (!view) return error_null(error, "nereid_prof_view", "the view");
  static const nereid_prof_view_options none;
  const nereid_prof_view_options *v = options ? options : &none;
  ViewOptions o = {.sort = v->sort,
                   .rows = v->rows,
                   .width = v->width,
                   .json = v->json,
                   .shapes = v->shapes,
                   .metrics = v->metrics,
                   .title = v->title};
  const struct View *chosen[MOST_VIEWS];
  const char *why = NULL;
  char buffer[300] = "";
  int n = 0;
  TraceReader *r = trace_open(trace, &why, buffer);
  if (!r) return error_set(error, NEREID_BAD_FILE, NULL, "the trace %s cannot be read: %s", trace, why ? why : buffer);
  nereid_status status = choose(r, view, chosen, &n, error);
  Target t = {0};
  if (!status) status = target_open(&t, path, error);
  if (!status) {
    nereid_status written = write_views(r, chosen, n, o.json && (n > 1 || !strcmp(view, "report")), &o, t.file, error);
    status = target_close(&t, written != NEREID_OK, error);
    if (written) status = written;
  }
  trace_reader_free(r);
  return status;
}
