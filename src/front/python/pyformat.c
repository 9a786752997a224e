/* Python's two ways to format a value: f"{x:>8.3f}" and "{:x}".format(i), and "%8.3f" % x.
 *
 * Both read a FormatSpec and make the same three parts of a number, a sign or base before the digits, the digits, and
 * what fills the field. What Python refuses is refused: *why says it, and nothing is returned.
 *
 *     spec      [[fill]align][sign][z][#][0][width][, or _][.precision][type]      the library reference, "Format
 *     %         %[(name)][- + space # 0][width][.precision][h l L]type             Specification Mini-Language"
 */
#include "front/core.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

enum { MOST_WIDTH = 100000, MOST_PRECISION = 1000 };

typedef struct FormatSpec {
  const char *fill;                 /* one character, of fill_bytes */
  char align, sign, grouping, kind; /* 0: not given */
  bool alternate, no_negative_zero;
  int fill_bytes, width, precision; /* precision -1: not given */
} FormatSpec;

typedef struct Parts { /* of a number */
  char before[4];      /* its sign, and 0x */
  Buf digits;          /* whole part, fraction, exponent */
  bool plain;          /* inf, nan: no digits to group */
} Parts;

/* ---- text -------------------------------------------------------------------------------------------------------- */

static int bytes_of_char(const char *s) {
  unsigned char c = (unsigned char)*s;
  return c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static size_t count_chars(const char *s, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) count += ((unsigned char)s[i] & 0xc0) != 0x80;
  return count;
}

/* As many bytes as `most` characters take; most -1: all. */
static size_t bytes_of_chars(const char *s, size_t n, int most) {
  size_t at = 0;
  for (int i = 0; at < n && i != most; i++) at += (size_t)bytes_of_char(s + at);
  return at < n ? at : n;
}

/* repr() with what is not ASCII escaped. */
static void write_ascii(Buf *out, const Py *x) {
  Buf text = {.arena = out->arena};
  py_write(&text, x, true);
  for (size_t i = 0; i < text.n;) {
    int n = bytes_of_char(text.at + i);
    unsigned code = (unsigned char)text.at[i];
    if (n > 1) code &= 0x7fu >> n;
    for (int k = 1; k < n && i + (size_t)k < text.n; k++)
      code = code << 6 | ((unsigned char)text.at[i + (size_t)k] & 63);
    if (code < 0x80) buf_putc(out, (char)code);
    else buf_printf(out, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
    i += (size_t)n;
  }
}

static void put_char(Buf *out, unsigned code) {
  static const unsigned first[] = {0, 0, 0xc0, 0xe0, 0xf0};
  int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  if (n == 1) buf_putc(out, (char)code);
  for (int k = n - 1; n > 1 && k >= 0; k--)
    buf_putc(out, (char)(k == n - 1 ? first[n] | code >> (6 * k) : 0x80 | (code >> (6 * k) & 63)));
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* "1234567.5" -> "1,234,567.5"; hexadecimal, octal and binary digits by fours. The whole part has at least `least`
 * characters, by zeros. */
static void put_grouped(Buf *out, const Parts *p, const FormatSpec *f, int least) {
  const char *s = p->digits.at ? p->digits.at : "";
  if (p->plain || (!f->grouping && least <= 0)) {
    buf_puts(out, s);
    return;
  }
  int by = f->kind && strchr("xXob", f->kind) ? 4 : 3, whole = 0, zeros;
  while (f->kind == 'x' || f->kind == 'X' ? isxdigit((unsigned char)s[whole]) : isdigit((unsigned char)s[whole]))
    whole++;
  for (zeros = 0;; zeros++) {
    int n = whole + zeros;
    if (n + (f->grouping ? (n - 1) / by : 0) >= least) break;
  }
  for (int i = 0; i < whole + zeros; i++) {
    if (f->grouping && i && (whole + zeros - i) % by == 0) buf_putc(out, f->grouping);
    buf_putc(out, i < zeros ? '0' : s[i - zeros]);
  }
  buf_puts(out, s + whole);
}

static void put_sign(Parts *p, bool negative, char sign) {
  const char s[2] = {negative ? '-' : sign == '+' || sign == ' ' ? sign : 0, 0};
  strcat(p->before, s);
}

static void int_parts(Parts *p, const FormatSpec *f, PyInt v) {
  unsigned __int128 u = v < 0 ? -(unsigned __int128)v : (unsigned __int128)v;
  unsigned base = f->kind == 'x' || f->kind == 'X' ? 16 : f->kind == 'o' ? 8 : f->kind == 'b' ? 2 : 10;
  put_sign(p, v < 0, f->sign);
  if (f->alternate && base != 10) {
    const char prefix[3] = {'0', f->kind, 0};
    strcat(p->before, prefix);
  }
  char digits[130];
  int n = 0;
  do digits[n++] = (f->kind == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[(unsigned)(u % base)];
  while (u /= base);
  while (n) buf_putc(&p->digits, digits[--n]);
}

/* %#.*g. glibc's drops the zeros where rounding carries into the exponent: 99999.5 with five digits. */
static void put_general(Buf *out, int digits, double v) {
  Buf text = {.arena = out->arena};
  if (digits < 1) digits = 1;
  buf_printf(&text, "%#.*e", digits - 1, v);
  int exponent = (int)strtol(strchr(text.at, 'e') + 1, NULL, 10);
  if (exponent < -4 || exponent >= digits) buf_puts(out, text.at);
  else buf_printf(out, "%#.*f", digits - 1 - exponent, v);
}

/* As repr() writes it, or with `precision` digits where one is given; a fraction always stands (CPython's 'r', and 'g'
 * with Py_DTSF_ADD_DOT_0). */
static void put_shortest(Buf *out, const FormatSpec *f, double v) {
  Buf text = {.arena = out->arena};
  int digits = f->precision > 1 ? f->precision : 1;
  if (f->precision < 0) buf_double(&text, v);
  else {
    buf_printf(&text, "%.*e", digits - 1, v);
    int exponent = (int)strtol(strchr(text.at, 'e') + 1, NULL, 10);
    if (exponent >= -4 && exponent < digits - 1) {
      text.n = 0;
      if (f->alternate) put_general(&text, digits, v);
      else buf_printf(&text, "%.*g", digits, v);
      if (!strchr(text.at, '.')) buf_puts(&text, ".0");
    }
  }
  const char *e = strchr(text.at, 'e'), *point = strchr(text.at, '.');
  size_t whole = e ? (size_t)(e - text.at) : text.n;
  while (e && point && f->precision >= 0 && !f->alternate && text.at[whole - 1] == '0') whole--;
  if (e && point && text.at[whole - 1] == '.' && !f->alternate) whole--;
  buf_write(out, text.at, whole);
  if (f->alternate && !point) buf_putc(out, '.');
  if (e) buf_puts(out, e);
}

static void float_parts(Parts *p, const FormatSpec *f, double v) {
  int precision = f->precision < 0 ? 6 : f->precision;
  bool upper = f->kind == 'E' || f->kind == 'F' || f->kind == 'G', negative = signbit(v) && !isnan(v);
  double u = fabs(v);
  if (!isfinite(v)) {
    p->plain = true;
    buf_puts(&p->digits, isnan(v) ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf");
  } else {
    char kind = f->kind == 'n' ? 'g' : f->kind == '%' ? 'f' : f->kind;
    if (f->kind == '%') u *= 100;
    switch (kind) {
      case 'e': buf_printf(&p->digits, f->alternate ? "%#.*e" : "%.*e", precision, u); break;
      case 'E': buf_printf(&p->digits, f->alternate ? "%#.*E" : "%.*E", precision, u); break;
      case 'f':
      case 'F': buf_printf(&p->digits, f->alternate ? "%#.*f" : "%.*f", precision, u); break;
      case 'g':
      case 'G':
        if (f->alternate) put_general(&p->digits, precision, u);
        else buf_printf(&p->digits, "%.*g", precision, u);
        for (char *c = p->digits.at; kind == 'G' && *c; c++) *c = (char)toupper((unsigned char)*c);
        break;
      default: put_shortest(&p->digits, f, u);
    }
    bool is_zero = p->digits.at && !p->digits.at[strcspn(p->digits.at, "123456789")];
    if (f->no_negative_zero && is_zero) negative = false;
  }
  if (f->kind == '%') buf_putc(&p->digits, '%');
  put_sign(p, negative, f->sign);
}

/* ---- {:spec} ----------------------------------------------------------------------------------------------------- */

static bool take_char(const char **s, char c) {
  if (**s != c) return false;
  ++*s;
  return true;
}

static bool take_digits(const char **s, int most, int *out) {
  for (*out = 0; isdigit((unsigned char)**s); ++*s)
    if ((*out = *out * 10 + (**s - '0')) > most) return false;
  return true;
}

/* False where it is none. */
static bool read_spec(const char *s, bool is_number, FormatSpec *f) {
  *f = (FormatSpec){.fill = " ", .fill_bytes = 1, .precision = -1};
  int first = *s ? bytes_of_char(s) : 0;
  bool filled = first && memchr(s, 0, (size_t)first + 1) == NULL && strchr("<>^=", s[first]);
  if (filled) f->fill = s, f->fill_bytes = first, s += first;
  if (*s && strchr("<>^=", *s)) f->align = *s++;
  if (*s && strchr("+- ", *s)) f->sign = *s++;
  f->no_negative_zero = take_char(&s, 'z');
  f->alternate = take_char(&s, '#');
  if (!filled && take_char(&s, '0')) {
    f->fill = "0";
    if (!f->align && is_number) f->align = '=';
  }
  if (!take_digits(&s, MOST_WIDTH, &f->width)) return false;
  if (*s == ',' || *s == '_') f->grouping = *s++;
  if (take_char(&s, '.') && (!isdigit((unsigned char)*s) || !take_digits(&s, MOST_PRECISION, &f->precision)))
    return false;
  if (*s) f->kind = *s++;
  return !*s;
}

/* Whether the type of the format and its other parts suit an int (`c` apart), a float, a text. */
static bool suits(const FormatSpec *f, const Py *x, bool as_float) {
  if (x->kind == PY_STR)
    return (!f->kind || f->kind == 's') && !f->sign && !f->alternate && !f->grouping && !f->no_negative_zero &&
           f->align != '=';
  if (as_float) return !f->grouping || f->kind != 'n';
  if (f->precision >= 0 || f->no_negative_zero) return false;
  if (f->kind == 'c') return !f->sign && !f->alternate && !f->grouping && x->i >= 0 && x->i < 0x110000;
  return (!f->kind || strchr("dnxXob", f->kind)) && !(f->grouping && f->kind == 'n') &&
         !(f->grouping == ',' && f->kind && f->kind != 'd');
}

static void put_fill(Buf *out, const FormatSpec *f, size_t n) {
  while (n--) buf_write(out, f->fill, (size_t)f->fill_bytes);
}

static void put_field(Buf *out, const FormatSpec *f, char align, const char *before, const char *text, size_t n) {
  size_t width = (size_t)f->width, length = strlen(before) + count_chars(text, n);
  size_t gap = width > length ? width - length : 0, left = align == '>' ? gap : align == '^' ? gap / 2 : 0;
  put_fill(out, f, left);
  buf_puts(out, before);
  if (align == '=') put_fill(out, f, gap);
  buf_write(out, text, n);
  if (align != '=') put_fill(out, f, gap - left);
}

static void put_number(Buf *out, const FormatSpec *f, const Py *x, bool as_float) {
  Parts p = {.digits.arena = out->arena};
  Buf digits = {.arena = out->arena};
  if (as_float) float_parts(&p, f, py_as_double(x));
  else if (f->kind == 'c') put_char(&p.digits, (unsigned)x->i);
  else int_parts(&p, f, x->i);
  char align = f->align ? f->align : f->kind == 'c' && !as_float ? '<' : '>';
  int room = f->width - (int)strlen(p.before), rest = 0; /* of what follows the whole part */
  const char *s = p.digits.at ? p.digits.at : "";
  if (as_float) rest = (int)strlen(s) - (int)strspn(s, "0123456789");
  bool zeros = align == '=' && *f->fill == '0' && f->grouping;
  if (f->kind == 'c') buf_puts(&digits, s);
  else put_grouped(&digits, &p, f, zeros ? room - rest : 0);
  put_field(out, f, align, p.before, digits.at ? digits.at : "", digits.n);
}

bool py_has_text(const Py *x) {
  stack_guard();
  bool all = true;
  switch (x->kind) {
    case PY_NONE:
    case PY_BOOL:
    case PY_INT:
    case PY_FLOAT:
    case PY_STR:
    case PY_ELLIPSIS: return true;
    case PY_TUPLE:
      for (int i = 0; i < x->tuple.n && all; i++) all = py_has_text(x->tuple.at[i]);
      return all && py_has_order(x) && !x->tuple.is_view;
    case PY_DICT:
      for (int i = 0; i < x->dict.n && all; i++) all = py_has_text(x->dict.keys[i]) && py_has_text(x->dict.values[i]);
      return all;
    default: return false;
  }
}

Py *py_format(Front *fr, Py *x, int conversion, const char *spec, const char **why) {
  Buf text = {.arena = fr->cx->arena}, out = {.arena = fr->cx->arena};
  bool plain = !spec || !*spec;
  if (conversion == 'a') write_ascii(&text, x);
  else if (conversion == 'r' || conversion == 's' || plain) py_write(&text, x, conversion == 'r');
  if (plain) return py_str_n(fr, text.at ? text.at : "", text.n);
  if (text.at || conversion > 0) x = py_str_n(fr, text.at ? text.at : "", text.n);
  bool is_number = py_is_number(x);
  FormatSpec f;
  bool good = (is_number || x->kind == PY_STR) && read_spec(spec, is_number, &f);
  bool as_float = good && is_number && (f.kind ? strchr("eEfFgG%", f.kind) != NULL : x->kind == PY_FLOAT);
  if (good && x->kind == PY_FLOAT && f.kind == 'n') as_float = true;
  if (!good || !suits(&f, x, as_float) || (is_number && !as_float && x->kind == PY_FLOAT)) {
    *why = arena_printf(fr->cx->arena, "the format '%s' does not suit %s", spec, py_describe(fr, x));
    return NULL;
  }
  if (is_number) put_number(&out, &f, x, as_float);
  else put_field(&out, &f, f.align ? f.align : '<', "", x->str.s, bytes_of_chars(x->str.s, x->str.n, f.precision));
  return py_str_n(fr, out.at ? out.at : "", out.n);
}

/* ---- % ----------------------------------------------------------------------------------------------------------- */

typedef struct Percent {
  Front *fr;
  Buf out;
  Py *args;
  int next;
  bool by_name;
  const char **why;
} Percent;

static Py *next_argument(Percent *p) {
  const Py *a = p->args;
  bool several = a->kind == PY_TUPLE && !a->tuple.is_list;
  int n = several ? a->tuple.n : 1;
  if (p->next >= n) return *p->why = "not enough arguments for the format", NULL;
  return several ? a->tuple.at[p->next++] : (p->next++, p->args);
}

/* A width or a precision: digits, or * for the next argument. */
static bool take_size(Percent *p, const char **s, int most, int *out) {
  if (!take_char(s, '*')) {
    if (take_digits(s, most, out)) return true;
    return *p->why = "the field of the format is too wide", false;
  }
  Py *x = next_argument(p);
  if (!x) return false;
  if (x->kind != PY_INT && x->kind != PY_BOOL) return *p->why = "* wants an int", false;
  if (x->i > most || x->i < -most) return *p->why = "the field of the format is too wide", false;
  *out = (int)x->i;
  return true;
}

static bool put_percent_int(Percent *p, FormatSpec *f, bool zero, const Py *x) {
  bool decimal = strchr("diu", f->kind) != NULL;
  PyInt v = x->i;
  if (x->kind == PY_FLOAT) {
    if (!decimal || !isfinite(x->f) || fabs(x->f) >= 0x1p126)
      return *p->why = "this float is formatted as no integer", false;
    v = (PyInt)x->f;
  }
  if (decimal) f->kind = 'd';
  Parts parts = {.digits.arena = p->out.arena};
  Buf digits = {.arena = p->out.arena};
  int_parts(&parts, f, v);
  for (size_t n = parts.digits.n; (int)n < f->precision; n++) buf_putc(&digits, '0');
  buf_write(&digits, parts.digits.at, parts.digits.n);
  if (zero) f->fill = "0";
  put_field(&p->out, f, f->align ? f->align : zero ? '=' : '>', parts.before, digits.at, digits.n);
  return true;
}

static bool put_percent_text(Percent *p, FormatSpec *f, const Py *x) {
  Buf text = {.arena = p->out.arena};
  if (f->kind == 'a') write_ascii(&text, x);
  else if (f->kind != 'c') py_write(&text, x, f->kind == 'r');
  else if (x->kind == PY_STR && count_chars(x->str.s, x->str.n) == 1) buf_write(&text, x->str.s, x->str.n);
  else if ((x->kind == PY_INT || x->kind == PY_BOOL) && x->i >= 0 && x->i < 0x110000) put_char(&text, (unsigned)x->i);
  else return *p->why = "%c wants a character or its number", false;
  const char *s = text.at ? text.at : "";
  size_t n = f->kind == 'c' ? text.n : bytes_of_chars(s, text.n, f->precision);
  put_field(&p->out, f, f->align ? f->align : '>', "", s, n);
  return true;
}

/* What follows a %: *s is behind it afterwards. */
static bool put_conversion(Percent *p, const char **s) {
  Py *x = NULL;
  if (take_char(s, '(')) {
    const char *close = strchr(*s, ')');
    if (p->args->kind != PY_DICT || !close) return *p->why = "names in a format want a dict", false;
    x = py_dict_get_name(p->args, arena_strndup(p->fr->cx->arena, *s, (size_t)(close - *s)));
    if (!x) return *p->why = "the dict lacks a name of the format", false;
    *s = close + 1, p->by_name = true;
  }
  FormatSpec f = {.fill = " ", .fill_bytes = 1, .precision = -1};
  bool zero = false;
  for (; **s && strchr("-+ #0", **s); ++*s) {
    if (**s == '-') f.align = '<';
    if (**s == '+' || (**s == ' ' && !f.sign)) f.sign = **s;
    f.alternate |= **s == '#', zero |= **s == '0';
  }
  if (!take_size(p, s, MOST_WIDTH, &f.width)) return false;
  if (f.width < 0) f.align = '<', f.width = -f.width;
  if (take_char(s, '.') && !take_size(p, s, MOST_PRECISION, &f.precision)) return false;
  if (f.precision < -1) f.precision = 0;
  if (**s && strchr("hlL", **s)) ++*s;
  f.kind = **s ? *(*s)++ : 0;
  if (f.kind == '%') return buf_putc(&p->out, '%'), true;
  if (!f.kind || !strchr("diuoxXeEfFgGcrsa", f.kind)) return *p->why = "the format is none of Python's", false;
  if (!x && !(x = next_argument(p))) return false;
  if (f.align == '<') zero = false;
  if (strchr("crsa", f.kind)) return put_percent_text(p, &f, x);
  if (!py_is_number(x)) return *p->why = "this format wants a number", false;
  if (strchr("diuoxX", f.kind)) return put_percent_int(p, &f, zero, x);
  if (zero) f.fill = "0", f.align = '=';
  put_number(&p->out, &f, x, true);
  return true;
}

Py *py_percent(Front *fr, const Py *format, Py *args, const char **why) {
  Percent p = {.fr = fr, .out.arena = fr->cx->arena, .args = args, .why = why};
  if (!py_has_text(args)) return *why = arena_printf(fr->cx->arena, "the text of %s", py_describe(fr, args)), NULL;
  const char *s = format->str.s, *end = s + format->str.n;
  while (s < end) {
    if (*s != '%') buf_putc(&p.out, *s++);
    else if (s++, !put_conversion(&p, &s)) return NULL;
  }
  bool several = args->kind == PY_TUPLE && !args->tuple.is_list, one = py_is_number(args) || args->kind == PY_STR;
  if (!p.by_name && (several ? p.next < args->tuple.n : one && !p.next))
    return *why = "not all arguments are converted by the format", NULL;
  return py_str_n(fr, p.out.at ? p.out.at : "", p.out.n);
}
