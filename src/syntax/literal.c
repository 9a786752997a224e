/* Literals: the value of a number, of a string, of a stretch of an f-string.
 *
 * An int that does not fit in 64 bits keeps its value as hex text: the compiler never computes with such, and hex is
 * what all four bases turn into with no more than shifts, but for decimal, where Python's own limit of 4300 digits
 * bounds the quadratic conversion. A float goes the exact short way when its digits fit in 53 bits and its power of ten
 * is exact (Clinger 1990); else text_to_double. */
#include "syntax/token.h"

#include <stdlib.h>

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

enum { MAX_DECIMAL_DIGITS = 4300 }; /* sys.int_info.default_max_str_digits */

static int digit_of(char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; }

static ConstValue small_int(Context *cx, uint64_t v) {
  char digits[24], *p = digits + sizeof digits;
  ConstValue c = {.kind = CONST_INT, .fits = true, .i = (int64_t)v};
  do *--p = (char)('0' + v % 10);
  while (v /= 10);
  c.size = (size_t)(digits + sizeof digits - p);
  c.text = arena_strndup(cx->arena, p, c.size);
  return c;
}

/* "0x" and the hex digits of words, the lowest first. */
static ConstValue big_int(Context *cx, const uint32_t *words, size_t n) {
  while (n > 1 && !words[n - 1]) n--;
  if (n <= 2) {
    uint64_t v = words[0] | (n == 2 ? (uint64_t)words[1] << 32 : 0);
    if (v <= INT64_MAX) return small_int(cx, v);
  }
  char *text = arena_alloc(cx->arena, n * 8 + 3), *p = text;
  p += sprintf(p, "0x%x", words[n - 1]);
  for (size_t i = n - 1; i-- > 0;) p += sprintf(p, "%08x", words[i]);
  return (ConstValue){.kind = CONST_INT, .text = text, .size = (size_t)(p - text)};
}

static ConstValue int_value(Context *cx, const Source *src, const Token *t, const char *s, size_t n) {
  unsigned base = 10;
  if (n > 2 && s[0] == '0') {
    char x = s[1] | 0x20;
    base = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 10;
    if (base != 10) s += 2, n -= 2;
  }
  uint64_t v = 0;
  bool big = false;
  for (size_t i = 0; i < n && !big; i++) {
    uint64_t d = (uint64_t)digit_of(s[i]);
    big = v > (INT64_MAX - d) / base;
    v = v * base + d;
  }
  if (!big) return small_int(cx, v);

  while (n > 1 && s[0] == '0') s++, n--;
  if (base == 10 && n > MAX_DECIMAL_DIGITS)
    diag_fail_hint(cx, token_span(src, t), "write it in hexadecimal",
                   "exceeds the limit (%d digits) for a decimal integer: it has %zu digits", MAX_DECIMAL_DIGITS, n);
  size_t count = n / 8 + 2; /* 4 bits a digit are enough for any base */
  uint32_t *words = NEW_N(cx->arena, uint32_t, count);
  if (base == 10) {
    size_t used = 1;
    for (size_t i = 0; i < n; i++) {
      uint64_t carry = (uint64_t)digit_of(s[i]);
      for (size_t w = 0; w < used; w++, carry >>= 32) {
        carry += (uint64_t)words[w] * 10;
        words[w] = (uint32_t)carry;
      }
      if (carry) words[used++] = (uint32_t)carry;
    }
  } else {
    unsigned bits = base == 16 ? 4 : base == 8 ? 3 : 1;
    size_t at = 0;
    for (size_t i = n; i-- > 0; at += bits) {
      uint64_t d = (uint64_t)digit_of(s[i]) << at % 32;
      words[at / 32] |= (uint32_t)d;
      words[at / 32 + 1] |= (uint32_t)(d >> 32);
    }
  }
  return big_int(cx, words, count);
}

static bool exact_float(const char *s, size_t n, double *out) {
  static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  uint64_t m = 0;
  int e = 0, digits = 0;
  size_t i = 0;
  bool point = false;
  for (; i < n && (s[i] | 0x20) != 'e'; i++) {
    if (s[i] == '.') {
      point = true;
      continue;
    }
    if (m || s[i] != '0') digits++;
    if (digits > 15) return false; /* 10^15 < 2^53 */
    m = m * 10 + (uint64_t)(s[i] - '0');
    e -= point;
  }
  if (i < n) {
    bool minus = s[i + 1] == '-';
    i += s[i + 1] == '-' || s[i + 1] == '+' ? 2 : 1;
    int x = 0;
    for (; i < n; i++) {
      if (x > 1000) return false;
      x = x * 10 + (s[i] - '0');
    }
    e += minus ? -x : x;
  }
  if (e < -22 || e > 22) return false;
  *out = e < 0 ? (double)m / power[-e] : (double)m * power[e];
  return true;
}

static double float_value(Context *cx, const Source *src, const Token *t, const char *s, size_t n) {
  double v;
  if (exact_float(s, n, &v)) return v;
  return text_to_double(arena_strndup(cx->arena, s, n), NULL);
}

ConstValue number_value(Context *cx, const Source *src, const Token *t) {
  const char *s = src->text + t->start;
  size_t n = t->end - t->start;
  if (n == 1) return small_int(cx, (uint64_t)(s[0] - '0'));
  if (memchr(s, '_', n)) {
    char *plain = arena_alloc(cx->arena, n + 1);
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
      if (s[i] != '_') plain[k++] = s[i];
    s = plain, n = k;
  }
  bool based = s[0] == '0' && n > 1 && strchr("xXoObB", s[1]);
  if (!based && (s[n - 1] | 0x20) == 'j')
    return (ConstValue){.kind = CONST_IMAGINARY, .f = float_value(cx, src, t, s, n - 1)};
  bool real = false;
  for (size_t i = 0; i < n && !based; i++) real |= s[i] == '.' || (s[i] | 0x20) == 'e';
  if (real) return (ConstValue){.kind = CONST_FLOAT, .f = float_value(cx, src, t, s, n)};
  return int_value(cx, src, t, s, n);
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

typedef struct Unescape {
  Context *cx;
  const Source *src;
  const Token *token;
  const char *s, *end; /* what is left */
  char *out;
} Unescape;

/* [from, to) of the source, which may lie lines below the token's start. */
static Span place_in(const Unescape *u, const char *from, const char *to) {
  uint32_t line = u->token->line, at = (uint32_t)(from - u->src->text);
  while ((int)line < u->src->line_count && u->src->line_start[line] <= at) line++;
  return span_of(u->src, line, at, (uint32_t)(to - u->src->text));
}

/* After "\x", "\u", "\U": exactly n hex digits. */
static uint32_t hex_escape(Unescape *u, const char *slash, int n) {
  uint32_t v = 0;
  for (int i = 0; i < n; i++, u->s++) {
    char c = u->s < u->end ? *u->s : 0;
    bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (!hex)
      diag_fail_hint(u->cx, place_in(u, slash, u->s), "write '\\\\' for a backslash, or put r before the string",
                     "truncated '\\%c' escape: %d hex digits must follow", slash[1], n);
    v = v * 16 + (uint32_t)digit_of(c);
  }
  return v;
}

static uint32_t named_escape(Unescape *u, const char *slash) {
  const char *close = u->s < u->end && *u->s == '{' ? memchr(u->s, '}', (size_t)(u->end - u->s)) : NULL;
  if (!close || close == u->s + 1)
    diag_fail_hint(u->cx, place_in(u, slash, u->s), "write '\\\\' for a backslash, or put r before the string",
                   "malformed '\\N{NAME}' escape");
  uint32_t code = unicode_by_name(u->s + 1, (size_t)(close - u->s - 1));
  if (code == UINT32_MAX)
    diag_fail(u->cx, place_in(u, slash, close + 1), "unknown Unicode character name '%.*s'", (int)(close - u->s - 1),
              u->s + 1);
  u->s = close + 1;
  return code;
}

static void put_code(Unescape *u, uint32_t code) { u->out += utf8_encode(code, u->out); }

static void escape(Unescape *u, bool bytes) {
  const char *slash = u->s++;
  if (u->s == u->end) { /* the "\" of f"\{x}" */
    *u->out++ = '\\';
    return;
  }
  char c = *u->s++;
  switch (c) {
    case '\r':
      if (u->s < u->end && *u->s == '\n') u->s++;
      return;
    case '\n': return;
    case '\\':
    case '\'':
    case '"': *u->out++ = c; return;
    case 'a': *u->out++ = '\a'; return;
    case 'b': *u->out++ = '\b'; return;
    case 'f': *u->out++ = '\f'; return;
    case 'n': *u->out++ = '\n'; return;
    case 'r': *u->out++ = '\r'; return;
    case 't': *u->out++ = '\t'; return;
    case 'v': *u->out++ = '\v'; return;
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7': {
      uint32_t v = (uint32_t)(c - '0');
      for (int i = 0; i < 2 && u->s < u->end && *u->s >= '0' && *u->s <= '7'; i++)
        v = v * 8 + (uint32_t)(*u->s++ - '0');
      if (bytes) *u->out++ = (char)v;
      else put_code(u, v);
      return;
    }
    case 'x': {
      uint32_t v = hex_escape(u, slash, 2);
      if (bytes) *u->out++ = (char)v;
      else put_code(u, v);
      return;
    }
    case 'u':
      if (bytes) break;
      put_code(u, hex_escape(u, slash, 4));
      return;
    case 'U': {
      if (bytes) break;
      uint32_t v = hex_escape(u, slash, 8);
      if (v > 0x10FFFF)
        diag_fail(u->cx, place_in(u, slash, u->s), "'\\U%08x' is beyond the last Unicode character, U+10FFFF", v);
      put_code(u, v);
      return;
    }
    case 'N':
      if (bytes) break;
      put_code(u, named_escape(u, slash));
      return;
  }
  *u->out++ = '\\'; /* not an escape: both stay */
  *u->out++ = c;
}

/* No escape is shorter than what it stands for but "\N{...}" and "\UXXXXXXXX", so the text's own length is room enough.
 */
static ConstValue text_value(Context *cx, const Source *src, const Token *t, const char *s, const char *end, bool raw,
                             bool bytes) {
  size_t n = (size_t)(end - s);
  ConstValue v = {.kind = bytes ? CONST_BYTES : CONST_STR};
  char *out = arena_alloc(cx->arena, n + 1);
  bool plain = (raw || !memchr(s, '\\', n)) && !memchr(s, '\r', n);
  Unescape u = {.cx = cx, .src = src, .token = t, .s = s, .end = end, .out = out};
  if (bytes)
    for (const char *p = s; p < end; p++)
      if ((unsigned char)*p >= 0x80)
        diag_fail_hint(cx, place_in(&u, p, p + 1), "write it as '\\x..' escapes",
                       "bytes can only contain ASCII literal characters");
  if (plain) {
    if (n) memcpy(out, s, n);
    v.text = out, v.size = n;
    return v;
  }
  while (u.s < u.end) {
    char c = *u.s;
    if (c == '\\' && !raw) escape(&u, bytes);
    else if (c == '\r') { /* every line's end is "\n" in a value */ *u.out++ = '\n';
      u.s += u.s + 1 < u.end && u.s[1] == '\n' ? 2 : 1;
    } else *u.out++ = c, u.s++;
  }
  *u.out = 0;
  v.text = out, v.size = (size_t)(u.out - out);
  return v;
}

ConstValue string_value(Context *cx, const Source *src, const Token *t, bool *u_prefix) {
  const char *s = src->text + t->start, *end = src->text + t->end;
  bool raw = false, bytes = false;
  *u_prefix = *s == 'u';
  for (; *s != '"' && *s != '\''; s++) {
    raw |= (*s | 0x20) == 'r';
    bytes |= (*s | 0x20) == 'b';
  }
  int quotes = end - s >= 6 && s[1] == s[0] && s[2] == s[0] ? 3 : 1;
  return text_value(cx, src, t, s + quotes, end - quotes, raw, bytes);
}

ConstValue fstring_text(Context *cx, const Source *src, const Token *t) {
  return text_value(cx, src, t, src->text + t->start, src->text + t->end, t->raw, false);
}
