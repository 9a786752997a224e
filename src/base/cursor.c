/* Reading the text forms of the IRs: words, signs, numbers and quoted texts, and messages that say where.
 *
 *     %sum = add %x, %y {rounding=rn} : f32[128] @3:4      // a comment
 *
 * There are no tokens: a parser asks for what may stand next, cursor_take and its like skip white space and comments
 * and say whether it was there, and a parser that finds nothing it knows calls cursor_wrong with what it hoped for. A
 * word is letters, digits, '_', '.' and every byte above ASCII; numbers begin like words and are read apart.
 */
#include "base/base.h"

Cursor cursor_source(Context *cx, const Source *text) {
  return (Cursor){.cx = cx, .source = text, .at = text->text, .end = text->text + text->size};
}

Span cursor_span(const Cursor *c, const char *at) {
  const Source *source = c->source;
  uint32_t offset = (uint32_t)(at - source->text);
  int low = 0, high = source->line_count; /* the last line that starts at or before the offset */
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (source->line_start[middle] <= offset) low = middle;
    else high = middle;
  }
  int col = (int)(offset - source->line_start[low]);
  return (Span){.source = source, .line = low + 1, .col = col, .end_line = low + 1, .end_col = col + 1};
}

void cursor_wrong(Cursor *c, const char *expected) {
  Span here = cursor_span(c, c->at);
  if (c->at >= c->end) diag_fail(c->cx, here, "expected %s, found the end of the text", expected);
  diag_fail(c->cx, here, "expected %s, found '%c'", expected, *c->at >= ' ' && *c->at < 0x7f ? *c->at : '?');
}

/* ---- signs and words --------------------------------------------------------------------------------------------- */

void cursor_space(Cursor *c) {
  while (c->at < c->end) {
    if (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r') c->at++;
    else if (*c->at == '/' && c->at + 1 < c->end && c->at[1] == '/')
      while (c->at < c->end && *c->at != '\n') c->at++;
    else break;
  }
}

char cursor_peek(Cursor *c) {
  cursor_space(c);
  return c->at < c->end ? *c->at : 0;
}

char cursor_peek_line(Cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\t')) c->at++;
  return c->at < c->end ? *c->at : 0;
}

bool cursor_take(Cursor *c, char sign) {
  if (cursor_peek(c) != sign || c->at >= c->end) return false;
  c->at++;
  return true;
}

void cursor_expect(Cursor *c, char sign) {
  if (!cursor_take(c, sign)) cursor_wrong(c, (char[]){'\'', sign, '\'', 0});
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_word_char(char ch) {
  unsigned char c = (unsigned char)ch;
  return c >= 0x80 || c == '_' || c == '.' || is_digit(ch) || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

const char *cursor_peek_word(Cursor *c, size_t *n) {
  cursor_space(c);
  const char *to = c->at;
  while (to < c->end && is_word_char(*to)) to++;
  *n = (size_t)(to - c->at);
  return c->at;
}

const char *cursor_word(Cursor *c, const char *expected, size_t *n) {
  const char *word = cursor_peek_word(c, n);
  if (!*n) cursor_wrong(c, expected);
  c->at += *n;
  return word;
}

bool cursor_same(const char *word, size_t n, const char *wanted) {
  return strlen(wanted) == n && !memcmp(word, wanted, n);
}

bool cursor_take_word(Cursor *c, const char *wanted) {
  size_t n;
  const char *word = cursor_peek_word(c, &n);
  if (!cursor_same(word, n, wanted)) return false;
  c->at += n;
  return true;
}

const char *cursor_value_name(Cursor *c) {
  cursor_expect(c, '%');
  const char *to = c->at; /* directly after the sign */
  while (to < c->end && is_word_char(*to)) to++;
  if (to == c->at) cursor_wrong(c, "a value's name");
  const char *name = intern(c->cx, c->at, (size_t)(to - c->at));
  c->at = to;
  return name;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static int hex_digit(char c) {
  return is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

int64_t cursor_int(Cursor *c) {
  bool negative = cursor_take(c, '-');
  if (!negative) cursor_take(c, '+');
  if (!is_digit(cursor_peek(c))) cursor_wrong(c, "an integer");
  uint64_t base = 10, v = 0;
  if (*c->at == '0' && c->end - c->at > 2 && c->at[1] == 'x' && hex_digit(c->at[2]) >= 0) {
    base = 16;
    c->at += 2;
  }
  for (; c->at < c->end; c->at++) {
    int digit = base == 16 ? hex_digit(*c->at) : is_digit(*c->at) ? *c->at - '0' : -1;
    if (digit < 0) break;
    if (v > (UINT64_MAX - (uint64_t)digit) / base)
      diag_fail(c->cx, cursor_span(c, c->at), "the integer does not fit into 64 bits");
    v = v * base + (uint64_t)digit;
  }
  return (int64_t)(negative ? 0 - v : v);
}

int cursor_int_between(Cursor *c, int low, int high, const char *what) {
  cursor_space(c);
  const char *start = c->at;
  int64_t v = cursor_int(c);
  if (v < low || v > high) diag_fail(c->cx, cursor_span(c, start), "%s must lie between %d and %d", what, low, high);
  return (int)v;
}

const Span *cursor_place(Cursor *c, const char *start) {
  Span *span = NEW(c->cx->arena, Span);
  *span = cursor_span(c, start);
  if (!cursor_take(c, '@')) return span;
  span->line = span->end_line = cursor_int_between(c, 1, INT32_MAX, "a line");
  cursor_expect(c, ':');
  span->col = cursor_int_between(c, 0, INT32_MAX - 1, "a column");
  span->end_col = span->col + 1;
  return span;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

const char *cursor_text(Cursor *c) {
  cursor_expect(c, '"');
  const char *start = c->at, *line_end = memchr(start, '\n', (size_t)(c->end - start));
  char *text = arena_alloc(c->cx->arena, (size_t)((line_end ? line_end : c->end) - start) + 1), *to = text;
  for (;; c->at++) {
    if (c->at >= c->end || *c->at == '\n')
      diag_fail(c->cx, cursor_span(c, start), "the text has no closing quote on its line");
    if (*c->at == '"') break;
    char byte = *c->at;
    if (byte == 0) cursor_wrong(c, "no NUL in a text");
    if (byte == '\\' && c->at + 1 < c->end) {
      byte = *++c->at;
      if (byte == 'n') byte = '\n';
      else if (byte == 't') byte = '\t';
      else if (byte == 'x') {
        int high = c->end - c->at > 2 ? hex_digit(c->at[1]) : -1, low = high >= 0 ? hex_digit(c->at[2]) : -1;
        if (low < 0 || (high == 0 && low == 0)) cursor_wrong(c, "two hexadecimal digits other than 00 after \\x");
        byte = (char)(high << 4 | low);
        c->at += 2;
      } else if (byte != '"' && byte != '\\') cursor_wrong(c, "one of n t x \" \\ after a backslash");
    }
    *to++ = byte;
  }
  c->at++;
  *to = 0;
  return text;
}

void buf_quote(Buf *out, const char *text) {
  buf_putc(out, '"');
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') buf_printf(out, "\\%c", c);
    else if (c == '\n') buf_puts(out, "\\n");
    else if (c == '\t') buf_puts(out, "\\t");
    else if (c < ' ' || c == 0x7f) buf_printf(out, "\\x%02x", c);
    else buf_putc(out, (char)c);
  }
  buf_putc(out, '"');
}
