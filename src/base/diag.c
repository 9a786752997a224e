/* Contexts and diagnostics: what went wrong, where, and the way back to whoever can go on.
 *
 * A context_try pushes a jmp_buf that lives in the caller's frame; cx->unwind points at the innermost and each knows
 * the one outside it. diag_fail() records a diagnostic, takes the innermost try off the chain and jumps there, so that
 * in the else branch of `if (context_try(cx))` the outer try is active again. context_end_try belongs to the success
 * branch only.
 *
 * A printed diagnostic:
 *
 *     k.py:12:9: error: tl.load got a block of integers where it wants pointers
 *       x = tl.load(offs)
 *           ^~~~~~~~~~~~~
 *       hint: add the base pointer: tl.load(x_ptr + offs)
 *       called from k.py:30:5
 *         y = load_row(offs)
 */
#include "base/base.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>

/* ---- the context ------------------------------------------------------------------------------------------------- */

Context *context_create(void) {
  Context *cx = calloc(1, sizeof *cx);
  if (!cx) return NULL;
  cx->arena = arena_create(cx);
  if (!cx->arena) return free(cx), NULL;
  /* Room that context_out_of_memory can count on. */
  vec_reserve(cx->arena, (void **)&cx->diags.at, &cx->diags.cap, 8, sizeof *cx->diags.at);
  cx->limits = limits_default;
  cx->interned = map_create(cx->arena, true);
  cx->sources = map_create(cx->arena, true);
  if (cx->out_of_memory) return context_destroy(cx), NULL;
  return cx;
}

void context_destroy(Context *cx) {
  if (!cx) return;
  arena_destroy(cx->arena);
  free(cx);
}

static _Thread_local Context *current;

Context *context_current(void) { return current; }

Context *context_exchange(Context *cx) {
  Context *before = current;
  current = cx;
  return before;
}

void context_push_try(Context *cx, struct ContextTry *t) {
  t->outer = cx->unwind;
  t->outer_context = current;
  t->numbers = plain_numbers();
  cx->unwind = &t->here;
  current = cx;
}

static void pop_try(Context *cx) {
  struct ContextTry *t = (struct ContextTry *)((char *)cx->unwind - offsetof(struct ContextTry, here));
  cx->unwind = t->outer;
  current = t->outer_context;
  host_numbers(t->numbers);
}

void context_end_try(Context *cx) { pop_try(cx); }

NORETURN void diag_fail_now(Context *cx) {
  /* Failing outside a context_try is a mistake in Nereid's own code; there is nowhere to go. */
  assert(cx->unwind && "diag_fail() outside context_try()");
  if (!cx->unwind) __builtin_trap();
  jmp_buf *here = cx->unwind;
  pop_try(cx);
  longjmp(*here, 1);
}

void context_go_on(Context *cx) {
  if ((cx->out_of_memory || cx->over_limit) && cx->unwind) diag_fail_now(cx);
}

void context_out_of_memory(Context *cx) {
  if (!cx->out_of_memory) {
    cx->out_of_memory = true;
    if (cx->diags.cap && cx->diags.n == cx->diags.cap) cx->diags.n--; /* the reason matters more than the last note */
    if (cx->diags.cap) cx->diags.at[cx->diags.n++] = (Diag){.kind = DIAG_ERROR, .message = "out of memory"};
  }
  if (cx->unwind) diag_fail_now(cx);
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

static void record(Context *cx, DiagKind kind, Span span, const char *hint, const char *format, va_list ap) {
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (n < 0) n = 0;
  char *message = arena_alloc(cx->arena, (size_t)n + 1);
  if (!message) return;
  vsnprintf(message, (size_t)n + 1, format, ap);
  const char *kept_hint = hint ? arena_strdup(cx->arena, hint) : NULL;
  vec_reserve(cx->arena, (void **)&cx->diags.at, &cx->diags.cap, cx->diags.n + 1, sizeof *cx->diags.at);
  if (cx->diags.n < cx->diags.cap) cx->diags.at[cx->diags.n++] = (Diag){kind, cx->error, span, message, kept_hint};
  if (kind == DIAG_ERROR) cx->error = ERROR_OTHER;
}

Context *diag_as(Context *cx, ErrorKind kind) {
  cx->error = kind;
  return cx;
}

Context *diag_need(Context *cx, const char *what, int64_t required, int64_t limit) {
  cx->need = (Need){what, required, limit};
  return diag_as(cx, ERROR_RESOURCES);
}

void diag_fail(Context *cx, Span span, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  record(cx, DIAG_ERROR, span, NULL, format, ap);
  va_end(ap);
  diag_fail_now(cx);
}

void diag_fail_hint(Context *cx, Span span, const char *hint, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  record(cx, DIAG_ERROR, span, hint, format, ap);
  va_end(ap);
  diag_fail_now(cx);
}

void diag_warn(Context *cx, Span span, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  record(cx, DIAG_WARNING, span, NULL, format, ap);
  va_end(ap);
}

void diag_note(Context *cx, Span span, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  record(cx, DIAG_NOTE, span, NULL, format, ap);
  va_end(ap);
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

enum { MAX_LINE = 200, MAX_CALLS = 12 };

#define RED "\033[1;31m"
#define MAGENTA "\033[1;35m"
#define CYAN "\033[1;36m"
#define GREEN "\033[1;32m"
#define BOLD "\033[1m"
#define RESET "\033[0m"

static void put_place(Buf *out, const Span *s) { buf_printf(out, "%s:%d:%d", s->source->path, s->line, s->col + 1); }

/* A byte of the source as it may go to a terminal: no escapes that the file's author could plant there. */
static char shown(char c) { return (unsigned char)c < ' ' && c != '\t' ? ' ' : c == 0x7f ? ' ' : c; }

/* A byte that continues a UTF-8 character takes no column of its own. */
static bool takes_column(char c) { return ((unsigned char)c & 0xc0) != 0x80; }

/* The line the span begins on, and under it a mark from its first to its last column on that line. Of a very long line
 * a window around the mark is shown. */
static void put_source_line(Buf *out, const Span *s, const char *indent, bool color) {
  const Source *src = s->source;
  if (s->line < 1 || s->line > src->line_count) return;
  const char *line = src->text + src->line_start[s->line - 1];
  size_t end = s->line < src->line_count ? src->line_start[s->line] : src->size;
  int n = (int)(end - src->line_start[s->line - 1]);
  while (n > 0 && strchr(" \t\r\n\f", line[n - 1])) n--;
  int col = s->col < 0 ? 0 : s->col;
  if (n == 0 || col > n) return;

  int first = 0, last = n;
  if (n > MAX_LINE) {
    first = col > MAX_LINE / 2 ? col - MAX_LINE / 2 : 0;
    while (first > 0 && !takes_column(line[first])) first--;
    last = first + MAX_LINE < n ? first + MAX_LINE : n;
    while (last < n && !takes_column(line[last])) last++;
  }
  buf_printf(out, "%s%s", indent, first ? "..." : "");
  for (int i = first; i < last; i++) buf_putc(out, shown(line[i]));
  buf_printf(out, "%s\n", last < n ? "..." : "");

  buf_printf(out, "%s%s", indent, first ? "   " : "");
  for (int i = first; i < col; i++)
    if (takes_column(line[i])) buf_putc(out, line[i] == '\t' ? '\t' : ' ');
  if (color) buf_puts(out, GREEN);
  buf_putc(out, '^');
  int mark_end = s->end_line > s->line ? n : s->end_line == s->line ? s->end_col : col;
  for (int i = col + 1; i < mark_end && i < last; i++)
    if (takes_column(line[i])) buf_putc(out, '~');
  if (color) buf_puts(out, RESET);
  buf_putc(out, '\n');
}

void diag_print(Buf *out, const Diag *d, bool color) {
  static const struct {
    const char *name, *color;
  } kinds[] = {[DIAG_ERROR] = {"error", RED}, [DIAG_WARNING] = {"warning", MAGENTA}, [DIAG_NOTE] = {"note", CYAN}};
  const char *reset = color ? RESET : "";

  if (d->span.source) {
    buf_puts(out, color ? BOLD : "");
    put_place(out, &d->span);
    buf_printf(out, ": %s", reset);
  }
  buf_printf(out, "%s%s:%s %s\n", color ? kinds[d->kind].color : "", kinds[d->kind].name, reset, d->message);
  if (d->span.source) put_source_line(out, &d->span, "  ", color);
  if (d->hint) buf_printf(out, "  %shint:%s %s\n", color ? CYAN : "", reset, d->hint);

  int calls = 0;
  for (const Span *s = d->span.inlined_at; s; s = s->inlined_at) {
    if (!s->source) continue;
    if (++calls > MAX_CALLS) continue;
    buf_puts(out, "  called from ");
    put_place(out, s);
    buf_putc(out, '\n');
    put_source_line(out, s, "    ", color);
  }
  if (calls > MAX_CALLS) buf_printf(out, "  called from %d more places\n", calls - MAX_CALLS);
}

void diags_print(Buf *out, const Context *cx, bool color) {
  for (int i = 0; i < cx->diags.n; i++) diag_print(out, &cx->diags.at[i], color);
}

/* ---- the name that was meant ------------------------------------------------------------------------------------- */

enum { MAX_NAME = 63 };

static int min2(int a, int b) { return a < b ? a : b; }

/* Edit distance with swaps of neighbours (optimal string alignment); a change of case alone counts nothing. */
static int distance(const char *a, int an, const char *b, int bn) {
  int rows[3][MAX_NAME + 1];
  for (int j = 0; j <= bn; j++) rows[0][j] = j;
  for (int i = 1; i <= an; i++) {
    int *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
    row[0] = i;
    for (int j = 1; j <= bn; j++) {
      int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
      int best = above[j - 1] + (x != y);
      best = min2(best, min2(above[j], row[j - 1]) + 1);
      if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]))
        best = min2(best, above2[j - 2] + 1);
      row[j] = best;
    }
  }
  return rows[an % 3][bn];
}

static int common_start(const char *a, const char *b) {
  int n = 0;
  while (a[n] && tolower((unsigned char)a[n]) == tolower((unsigned char)b[n])) n++;
  return n;
}

const char *nearest_name(const char *name, const char *const *names) {
  size_t n = strlen(name);
  if (n == 0 || n > MAX_NAME) return NULL;
  int best = (n < 3 ? 1 : n < 6 ? 2 : 1 + (int)n / 3); /* what is this far or farther is another word */
  const char *nearest = NULL;
  for (; *names; names++) {
    size_t m = strlen(*names);
    if (m > MAX_NAME) continue;
    int d = distance(name, (int)n, *names, (int)m);
    if (d < best || (nearest && d == best && common_start(name, *names) > common_start(name, nearest)))
      best = d, nearest = *names;
  }
  return nearest;
}
