/* Runs the golden files tests/golden/tile/?*.tile: IR in, passes, IR out (golden_kit.h). The line "// passes: fold dce"
 * names them. The IR is verified before, between and after the passes; the text after the last has facts as comments
 * when "axis_info" is among them, where pointers come from when "provenance" is, and must otherwise read back as
 * itself. */
#include "golden/golden_kit.h"

#include "tile/analysis/provenance.h"

static bool is_name(const char *name, const char *at, size_t n) { return strlen(name) == n && !memcmp(name, at, n); }

static void run_passes(Func *f, const char *names) {
  while (*names) {
    size_t n = strcspn(names, " ");
    const PassInfo *pass = tile_passes;
    while (pass->name && !is_name(pass->name, names, n)) pass++;
    if (pass->name) {
      pass->run(f);
      tile_verify(f, pass->name);
    } else if (!is_name("provenance", names, n)) {
      diag_fail(f->cx, (Span){0}, "no pass is called '%.*s'", (int)n, names);
    }
    names += n;
    names += *names == ' ';
  }
}

static void note_pointers(Buf *out, const Provenance *p, Value *const *values, int n, const char **before) {
  for (int i = 0; i < n; i++) {
    if (!values[i]->type->ptr) continue;
    buf_puts(out, *before);
    provenance_print(out, p, values[i]);
    *before = " ";
  }
}

/* Of an operation's results, then of its bodies' arguments. */
static void note_provenance(Buf *out, const Op *op, void *provenance) {
  const char *before = " // ";
  note_pointers(out, provenance, op->out, op->out_count, &before);
  for (int b = 0; b < 2 && op->body[b]; b++)
    note_pointers(out, provenance, op->body[b]->args, op->body[b]->arg_count, &before);
}

static void put_arguments(Buf *out, const Func *f, const char *what, const bool *chosen) {
  buf_printf(out, "// %s", what);
  for (int i = 0; i < f->body->arg_count; i++)
    if (chosen[i]) buf_printf(out, " %%%s", f->body->args[i]->name);
  buf_putc(out, '\n');
}

static void put_provenance(Buf *out, const Func *f) {
  Arena *a = f->cx->arena;
  Provenance *p = provenance_create(a, f);
  bool *read = NEW_N(a, bool, f->body->arg_count + 1), *written = NEW_N(a, bool, f->body->arg_count + 1);
  tile_print_noted(out, f, 0, note_provenance, p);
  tile_mod_ref(f, p, read, written);
  put_arguments(out, f, "reads", read);
  put_arguments(out, f, "writes", written);
}

static void make(Context *cx, const Source *input, const char *passes, Buf *got) {
  Func *f = tile_parse(cx, input);
  tile_verify(f, "parsing");
  run_passes(f, passes);
  if (strstr(passes, "provenance")) put_provenance(got, f);
  else tile_print(got, f, strstr(passes, "axis_info") ? PRINT_AXIS_INFO : 0);
}

static void check(Context *cx, const char *passes, const Buf *got, Buf *problem) {
  if (strstr(passes, "axis_info") || strstr(passes, "provenance")) return; /* comments do not read back */
  Buf again = {0};
  make(cx, source_from_text(cx, "again", got->at, got->n), "", &again);
  if (strcmp(got->at, again.at)) buf_printf(problem, "%s\nreads back as\n%s", got->at, again.at);
  buf_destroy(&again);
}

int main(void) {
  static const Golden golden = {
      .folder = "tile", .extension = ".tile", .key = "// passes: ", .make = make, .check = check};
  return golden_run(&golden, "golden tile IR");
}
