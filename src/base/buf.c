/* Buf: text under construction, in memory that doubles as it grows: malloc'ed, or of an arena.
 *
 * Running out of memory sets `failed` and drops what came after; who hands the text on checks it once, at the end. A
 * text in a compilation's arena needs no check: the arena unwinds.
 * buf_double is locale-proof: a caller's process may have set a locale that writes a comma, so digits are taken from
 * printf's text and the point is placed here.
 */
#include "base/base.h"

#include <math.h>
#include <stdlib.h>

static bool make_room(Buf *b, size_t more) {
  if (b->failed) return false;
  if (more > PTRDIFF_MAX - b->n - 1) return b->failed = true, false;
  size_t need = b->n + more + 1;
  if (need <= b->cap) return true;
  size_t cap = b->cap ? b->cap : 256;
  while (cap < need) cap *= 2;
  char *grown = b->arena ? arena_alloc(b->arena, cap) : realloc(b->at, cap);
  if (!grown) return b->failed = true, false;
  if (b->arena && b->n) memcpy(grown, b->at, b->n);
  b->at = grown;
  b->cap = cap;
  return true;
}

void buf_write(Buf *b, const void *bytes, size_t n) {
  if (!make_room(b, n)) return;
  if (n) memcpy(b->at + b->n, bytes, n);
  b->n += n;
  b->at[b->n] = 0;
}

void buf_puts(Buf *b, const char *s) { buf_write(b, s, strlen(s)); }

void buf_putc(Buf *b, char c) { buf_write(b, &c, 1); }

void buf_vprintf(Buf *b, const char *format, va_list ap) {
  if (!make_room(b, 120)) return;
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(b->at + b->n, b->cap - b->n, format, ap);
  if (n < 0) {
    b->at[b->n] = 0;
    b->failed = true;
  } else if ((size_t)n < b->cap - b->n) {
    b->n += (size_t)n;
  } else {
    b->at[b->n] = 0;
    if (make_room(b, (size_t)n)) {
      vsnprintf(b->at + b->n, b->cap - b->n, format, again);
      b->n += (size_t)n;
    }
  }
  va_end(again);
}

void buf_printf(Buf *b, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  buf_vprintf(b, format, ap);
  va_end(ap);
}

void buf_destroy(Buf *b) {
  if (!b->arena) free(b->at);
  *b = (Buf){.arena = b->arena};
}

/* The fewest significant digits of |v| (finite, not 0) that strtod reads back as v, and the power of ten of the first.
 */
static int shortest_digits(double v, char digits[18], int *exponent) {
  for (int precision = 1;; precision++) {
    char text[40];
    snprintf(text, sizeof text, "%.*e", precision - 1, v);
    if (precision < 17 && strtod(text, NULL) != v) continue;
    char *e = strchr(text, 'e');
    int n = 0;
    for (char *c = text; c < e; c++)
      if (*c >= '0' && *c <= '9') digits[n++] = *c;
    *exponent = atoi(e + 1);
    return n;
  }
}

/* As Python's repr: 2.0, 0.0001, 1e-05, 1234567890123456.0, 1e+16. */
void buf_double(Buf *b, double v) {
  if (isnan(v)) return buf_puts(b, "nan");
  if (signbit(v)) buf_putc(b, '-');
  v = fabs(v);
  if (isinf(v)) return buf_puts(b, "inf");
  if (v == 0) return buf_puts(b, "0.0");

  char digits[18];
  int e, n = shortest_digits(v, digits, &e);
  if (e < -4 || e >= 16) {
    buf_putc(b, digits[0]);
    if (n > 1) buf_putc(b, '.');
    buf_write(b, digits + 1, (size_t)n - 1);
    buf_printf(b, "e%c%02d", e < 0 ? '-' : '+', abs(e));
  } else if (e < 0) {
    buf_puts(b, "0.");
    for (int i = -1; i > e; i--) buf_putc(b, '0');
    buf_write(b, digits, (size_t)n);
  } else {
    for (int i = 0; i <= e; i++) buf_putc(b, i < n ? digits[i] : '0');
    buf_putc(b, '.');
    if (n > e + 1) buf_write(b, digits + e + 1, (size_t)(n - e - 1));
    else buf_putc(b, '0');
  }
}

bool text_ends_with(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && !strcmp(s + n - m, end);
}
