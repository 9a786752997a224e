/* Format specifications: f"{x:>8.3f}", "{:x}".format(i). */
#include "front/core.h"

#include <ctype.h>

static void pad(Buf *out, const char *s, size_t n, char align, char fill, size_t width) {
  size_t gap = width > n ? width - n : 0;
  size_t left = align == '>' ? gap : align == '^' ? gap / 2 : 0;
  for (size_t i = 0; i < left; i++) buf_putc(out, fill);
  buf_write(out, s, n);
  for (size_t i = left; i < gap; i++) buf_putc(out, fill);
}

static void group_thousands(Buf *out, const char *digits) {
  size_t n = 0;
  while (isdigit((unsigned char)digits[n])) n++;
  for (size_t i = 0; i < n; i++) {
    if (i && (n - i) % 3 == 0) buf_putc(out, ',');
    buf_putc(out, digits[i]);
  }
  buf_puts(out, digits + n);
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
typedef struct FormatSpec {
  char fill, align, sign, kind; /* 0: not given */
  bool zero, comma, alternate;
  int width, precision; /* -1: not given */
} FormatSpec;

static bool take_char(const char **s, char c) {
  if (**s != c) return false;
  ++*s;
  return true;
}

static int take_digits(const char **s, int most) {
  int n = 0;
  while (isdigit((unsigned char)**s) && n < most) n = n * 10 + (*(*s)++ - '0');
  return n;
}

/* False where there is more. */
static bool read_spec(const char *s, FormatSpec *f) {
  *f = (FormatSpec){.fill = ' ', .precision = -1};
  if (*s && s[1] && strchr("<>^=", s[1])) f->fill = *s++;
  if (*s && strchr("<>^=", *s)) f->align = *s++;
  if (*s && strchr("+- ", *s)) f->sign = *s++;
  f->alternate = take_char(&s, '#');
  f->zero = take_char(&s, '0');
  f->width = take_digits(&s, 10000);
  f->comma = take_char(&s, ',') || take_char(&s, '_');
  if (take_char(&s, '.')) f->precision = take_digits(&s, 1000);
  if (*s) f->kind = *s++;
  return !*s;
}

static void put_grouped(Buf *out, Buf *raw, bool comma) {
  if (comma && raw->at) group_thousands(out, raw->at);
  else if (raw->at) buf_puts(out, raw->at);
  buf_destroy(raw);
}

static void format_float(Buf *out, const FormatSpec *f, double v) {
  int precision = f->precision < 0 ? 6 : f->precision;
  Buf raw = {.arena = out->arena};
  if (f->sign == '+' && !(v < 0)) buf_putc(out, '+');
  switch (f->kind) {
    case '%': buf_printf(out, "%.*f%%", precision, v * 100); return;
    case 'e': buf_printf(out, "%.*e", precision, v); return;
    case 'E': buf_printf(out, "%.*E", precision, v); return;
    case 'f':
    case 'F':
      buf_printf(&raw, "%.*f", precision, v);
      put_grouped(out, &raw, f->comma);
      return;
    default: break;
  }
  if (f->precision >= 0) buf_printf(out, "%.*g", f->precision ? f->precision : 1, v);
  else if (f->kind) buf_printf(out, "%g", v);
  else buf_double(out, v);
}

static void format_int(Buf *out, const FormatSpec *f, PyInt v) {
  unsigned long long u = v < 0 ? (unsigned long long)-v : (unsigned long long)v;
  Buf raw = {.arena = out->arena};
  if (v < 0) buf_putc(out, '-');
  else if (f->sign == '+') buf_putc(out, '+');
  switch (f->kind) {
    case 'x': buf_printf(out, f->alternate ? "0x%llx" : "%llx", u); return;
    case 'X': buf_printf(out, f->alternate ? "0X%llX" : "%llX", u); return;
    case 'o': buf_printf(out, f->alternate ? "0o%llo" : "%llo", u); return;
    case 'b': {
      char bits[65];
      int n = 0;
      do bits[n++] = (char)('0' + (int)(u & 1));
      while (u >>= 1);
      if (f->alternate) buf_puts(out, "0b");
      while (n) buf_putc(out, bits[--n]);
      return;
    }
    default: py_write_int(&raw, v < 0 ? -v : v); put_grouped(out, &raw, f->comma);
  }
}

/* False where the kind does not suit the value. */
static bool format_value(Buf *out, const FormatSpec *f, const Py *x) {
  bool number = py_is_number(x);
  if (number && (f->kind ? strchr("eEfFgG%", f->kind) != NULL : x->kind == PY_FLOAT))
    format_float(out, f, py_as_double(x));
  else if (number && x->kind != PY_FLOAT && (!f->kind || strchr("dnxXob", f->kind))) format_int(out, f, x->i);
  else if (x->kind == PY_STR && (!f->kind || f->kind == 's'))
    buf_write(out, x->str.s, f->precision >= 0 && (size_t)f->precision < x->str.n ? (size_t)f->precision : x->str.n);
  else return false;
  return true;
}

Py *py_format(Front *fr, Py *x, int conversion, const char *spec, const char **why) {
  Buf text = {.arena = fr->cx->arena}, out = {.arena = fr->cx->arena};
  bool plain = !spec || !*spec;
  if (conversion == 'r' || conversion == 'a' || conversion == 's' || plain)
    py_write(&text, x, conversion == 'r' || conversion == 'a');
  if (plain) return py_str_n(fr, text.at ? text.at : "", text.n);
  FormatSpec f;
  if (!read_spec(spec, &f) || (!text.n && !format_value(&text, &f, x))) {
    *why = arena_printf(fr->cx->arena, "the format '%s' does not suit %s", spec, py_describe(fr, x));
    return NULL;
  }
  const char *t = text.at ? text.at : "";
  size_t width = (size_t)f.width;
  if (f.zero && !f.align) {
    if (*t == '-' || *t == '+') {
      buf_putc(&out, *t++);
      if (width) width--;
    }
    pad(&out, t, strlen(t), '>', '0', width);
  } else {
    pad(&out, t, text.n, f.align ? f.align : py_is_number(x) ? '>' : '<', f.fill, width);
  }
  return py_str_n(fr, out.at ? out.at : "", out.n);
}
