/* Methods of Python's own values, iteration, and format specifications: what host code and constexprs use of them. A
 * table names them; a method that is not in it does not exist here. */
#include "front/core.h"

#include <ctype.h>
#include <math.h>

static const char *explain(Front *fr, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  Buf b = {.arena = fr->cx->arena};
  buf_vprintf(&b, format, ap);
  va_end(ap);
  const char *s = b.at ? arena_strdup(fr->cx->arena, b.at) : "";
  buf_destroy(&b);
  return s;
}

/* ---- iteration --------------------------------------------------------------------------------------------------- */

Py *py_items(Front *fr, Py *x) {
  switch (x->kind) {
    case PY_TUPLE: return x;
    case PY_DICT: return py_tuple(fr, x->dict.n, x->dict.keys);
    case PY_STR: {
      Py *r = py_tuple(fr, 0, NULL);
      for (size_t i = 0; i < x->str.n; i++) py_append(fr, r, py_str_n(fr, x->str.s + i, 1));
      return r;
    }
    case PY_RANGE: {
      Py *start = x->range.start, *stop = x->range.stop, *step = x->range.step;
      if ((start && start->kind != PY_INT && start->kind != PY_BOOL) || !stop ||
          (stop->kind != PY_INT && stop->kind != PY_BOOL) || (step && step->kind != PY_INT && step->kind != PY_BOOL))
        return NULL;
      PyInt a = start ? start->i : 0, b = stop->i, s = step ? step->i : 1;
      if (s == 0) return NULL;
      PyInt n = s > 0 ? (b - a + s - 1) / s : (a - b - s - 1) / -s;
      if (n > 1000000) return NULL;
      Py *r = py_tuple(fr, 0, NULL);
      for (PyInt i = a; s > 0 ? i < b : i > b; i += s) py_append(fr, r, py_int(fr, i));
      return r;
    }
    default: return NULL;
  }
}

/* ---- formatting -------------------------------------------------------------------------------------------------- */

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
Py *py_format(Front *fr, Py *x, int conversion, const char *spec, const char **why) {
  Buf text = {.arena = fr->cx->arena}, out = {.arena = fr->cx->arena};
  if (conversion == 'r' || conversion == 'a' || conversion == 's' || !spec || !*spec) {
    py_write(&text, x, conversion == 'r' || conversion == 'a');
    if (!spec || !*spec) {
      Py *r = py_str_n(fr, text.at ? text.at : "", text.n);
      buf_destroy(&text);
      return r;
    }
  }
  const char *s = spec;
  char fill = ' ', align = 0, sign = 0, kind = 0;
  bool zero = false, comma = false, alternate = false;
  int width = 0, precision = -1;
  if (*s && s[1] && strchr("<>^=", s[1])) {
    fill = *s;
    align = s[1];
    s += 2;
  } else if (*s && strchr("<>^=", *s)) align = *s++;
  if (*s && strchr("+- ", *s)) sign = *s++;
  if (*s == '#') {
    alternate = true;
    s++;
  }
  if (*s == '0') {
    zero = true;
    s++;
  }
  while (isdigit((unsigned char)*s) && width < 10000) width = width * 10 + (*s++ - '0');
  if (*s == ',' || *s == '_') {
    comma = true;
    s++;
  }
  if (*s == '.') {
    precision = 0;
    s++;
    while (isdigit((unsigned char)*s) && precision < 1000) precision = precision * 10 + (*s++ - '0');
  }
  if (*s) kind = *s++;
  bool bad = *s != 0;
  if (!bad && !text.n) {
    if (py_is_number(x) && (kind ? strchr("eEfFgG%", kind) != NULL : x->kind == PY_FLOAT)) {
      double v = py_as_double(x);
      if (sign == '+' && !(v < 0)) buf_putc(&text, '+');
      if (kind == '%') buf_printf(&text, "%.*f%%", precision < 0 ? 6 : precision, v * 100);
      else if (kind == 'f' || kind == 'F') {
        Buf raw = {.arena = fr->cx->arena};
        buf_printf(&raw, "%.*f", precision < 0 ? 6 : precision, v);
        if (comma && raw.at) group_thousands(&text, raw.at);
        else if (raw.at) buf_puts(&text, raw.at);
        buf_destroy(&raw);
      } else if (kind == 'e') buf_printf(&text, "%.*e", precision < 0 ? 6 : precision, v);
      else if (kind == 'E') buf_printf(&text, "%.*E", precision < 0 ? 6 : precision, v);
      else if (precision >= 0) buf_printf(&text, "%.*g", precision ? precision : 1, v);
      else if (kind) buf_printf(&text, "%g", v);
      else buf_double(&text, v);
    } else if (py_is_number(x) && x->kind != PY_FLOAT && (!kind || strchr("dnxXob", kind))) {
      unsigned long long u = x->i < 0 ? (unsigned long long)-x->i : (unsigned long long)x->i;
      if (x->i < 0) buf_putc(&text, '-');
      else if (sign == '+') buf_putc(&text, '+');
      if (kind == 'x') buf_printf(&text, alternate ? "0x%llx" : "%llx", u);
      else if (kind == 'X') buf_printf(&text, alternate ? "0X%llX" : "%llX", u);
      else if (kind == 'o') buf_printf(&text, alternate ? "0o%llo" : "%llo", u);
      else if (kind == 'b') {
        char bits[65];
        int n = 0;
        do bits[n++] = (char)('0' + (int)(u & 1));
        while (u >>= 1);
        if (alternate) buf_puts(&text, "0b");
        while (n) buf_putc(&text, bits[--n]);
      } else {
        Buf raw = {.arena = fr->cx->arena};
        py_write_int(&raw, x->i < 0 ? -x->i : x->i);
        if (comma && raw.at) group_thousands(&text, raw.at);
        else if (raw.at) buf_puts(&text, raw.at);
        buf_destroy(&raw);
      }
    } else if (x->kind == PY_STR && (!kind || kind == 's')) {
      buf_write(&text, x->str.s, precision >= 0 && (size_t)precision < x->str.n ? (size_t)precision : x->str.n);
    } else bad = true;
  }
  Py *r = NULL;
  if (bad) *why = explain(fr, "the format '%s' does not suit %s", spec, py_describe(fr, x));
  else {
    const char *t = text.at ? text.at : "";
    if (zero && !align) {
      if (*t == '-' || *t == '+') {
        buf_putc(&out, *t++);
        if (width) width--;
      }
      pad(&out, t, strlen(t), '>', '0', (size_t)width);
    } else pad(&out, t, text.n, align ? align : py_is_number(x) ? '>' : '<', fill, (size_t)width);
    r = py_str_n(fr, out.at ? out.at : "", out.n);
  }
  buf_destroy(&text);
  buf_destroy(&out);
  return r;
}

/* ---- methods ----------------------------------------------------------------------------------------------------- */

static const char *const str_methods[] = {
    "startswith", "endswith",   "lower", "upper", "strip",  "lstrip",  "rstrip",       "split",
    "join",       "replace",    "find",  "count", "format", "isdigit", "removeprefix", "removesuffix",
    "index",      "capitalize", "title", "zfill", "encode", "decode",  "splitlines",   NULL};
static const char *const list_methods[] = {"append", "extend", "insert",  "pop",    "index", "count",
                                           "copy",   "sort",   "reverse", "remove", "clear", NULL};
static const char *const tuple_methods[] = {"index", "count", "_replace", "_asdict", NULL};
static const char *const dict_methods[] = {"get", "items", "keys",       "values", "update",
                                           "pop", "copy",  "setdefault", "clear",  NULL};
static const char *const int_methods[] = {"bit_length", "bit_count", "is_integer", "conjugate", NULL};
static const char *const float_methods[] = {"is_integer", "hex", NULL};
static const char *const none[] = {NULL};

const char *const *py_method_names(const Py *self) {
  switch (self->kind) {
    case PY_STR: return str_methods;
    case PY_TUPLE: return self->tuple.is_list ? list_methods : tuple_methods;
    case PY_DICT: return dict_methods;
    case PY_INT:
    case PY_BOOL: return int_methods;
    case PY_FLOAT: return float_methods;
    default: return none;
  }
}

bool py_has_method(const Py *self, const char *name) {
  for (const char *const *m = py_method_names(self); *m; m++)
    if (!strcmp(*m, name)) return true;
  return false;
}

static Py *str_method(Front *fr, Py *self, const char *name, const Call *c, const char **why) {
  const char *s = self->str.s;
  size_t n = self->str.n;
  Py *a = c->n > 0 ? c->args[0] : NULL, *b = c->n > 1 ? c->args[1] : NULL;
  bool sa = a && a->kind == PY_STR;
  if (!strcmp(name, "startswith") || !strcmp(name, "endswith")) {
    Py *one[] = {a};
    Py *options = sa ? py_tuple(fr, 1, one) : a && a->kind == PY_TUPLE ? a : NULL;
    if (!options) goto bad;
    for (int i = 0; i < options->tuple.n; i++) {
      Py *o = options->tuple.at[i];
      if (o->kind == PY_STR && o->str.n <= n && !memcmp(name[0] == 's' ? s : s + n - o->str.n, o->str.s, o->str.n))
        return py_bool(fr, true);
    }
    return py_bool(fr, false);
  }
  if (!strcmp(name, "lower") || !strcmp(name, "upper") || !strcmp(name, "capitalize") || !strcmp(name, "title")) {
    Py *r = py_str_n(fr, s, n);
    char *t = (char *)r->str.s;
    bool start = true;
    for (size_t i = 0; i < n; i++) {
      bool up = name[0] == 'u' || (name[0] == 'c' && i == 0) || (name[0] == 't' && start);
      start = !isalpha((unsigned char)t[i]);
      t[i] = (char)(up ? toupper((unsigned char)t[i]) : tolower((unsigned char)t[i]));
    }
    return r;
  }
  if (!strcmp(name, "strip") || !strcmp(name, "lstrip") || !strcmp(name, "rstrip")) {
    const char *set = sa ? a->str.s : " \t\r\n\f\v";
    size_t from = 0, to = n;
    if (name[0] != 'r')
      while (from < to && strchr(set, s[from])) from++;
    if (name[0] != 'l')
      while (to > from && strchr(set, s[to - 1])) to--;
    return py_str_n(fr, s + from, to - from);
  }
  if (!strcmp(name, "split") || !strcmp(name, "splitlines")) {
    Py *r = py_list(fr, 0, NULL);
    if (sa && a->str.n) {
      int64_t limit = b && b->kind == PY_INT ? (int64_t)b->i : -1;
      const char *p = s, *end = s + n, *hit;
      while (limit-- != 0 && (hit = py_find(p, (size_t)(end - p), a->str.s, a->str.n))) {
        py_append(fr, r, py_str_n(fr, p, (size_t)(hit - p)));
        p = hit + a->str.n;
      }
      py_append(fr, r, py_str_n(fr, p, (size_t)(end - p)));
      return r;
    }
    bool lines = name[5] != 0;
    for (size_t i = 0; i < n;) {
      while (!lines && i < n && isspace((unsigned char)s[i])) i++;
      size_t from = i;
      while (i < n && (lines ? s[i] != '\n' : !isspace((unsigned char)s[i]))) i++;
      if (i > from || lines) py_append(fr, r, py_str_n(fr, s + from, i - from));
      if (lines) i++;
    }
    return r;
  }
  if (!strcmp(name, "join") && a) {
    Py *items = py_items(fr, a);
    if (!items) goto bad;
    Buf out = {.arena = fr->cx->arena};
    bool ok = true;
    for (int i = 0; i < items->tuple.n && ok; i++) {
      if (out.n > MAX_HOST_ITEMS) return py_too_long(why);
      if (i) buf_write(&out, s, n);
      ok = items->tuple.at[i]->kind == PY_STR;
      if (ok) buf_write(&out, items->tuple.at[i]->str.s, items->tuple.at[i]->str.n);
    }
    Py *r = ok ? py_str_n(fr, out.at ? out.at : "", out.n) : NULL;
    buf_destroy(&out);
    if (!r) goto bad;
    return r;
  }
  if (!strcmp(name, "replace") && sa && b && b->kind == PY_STR && a->str.n) {
    Buf out = {.arena = fr->cx->arena};
    const char *p = s, *end = s + n, *hit;
    while ((hit = py_find(p, (size_t)(end - p), a->str.s, a->str.n))) {
      if (out.n > MAX_HOST_ITEMS) return py_too_long(why);
      buf_write(&out, p, (size_t)(hit - p));
      buf_write(&out, b->str.s, b->str.n);
      p = hit + a->str.n;
    }
    buf_write(&out, p, (size_t)(end - p));
    Py *r = py_str_n(fr, out.at ? out.at : "", out.n);
    buf_destroy(&out);
    return r;
  }
  if ((!strcmp(name, "find") || !strcmp(name, "index")) && sa) {
    const char *hit = a->str.n ? py_find(s, n, a->str.s, a->str.n) : s;
    if (hit) return py_int(fr, hit - s);
    if (name[0] == 'f') return py_int(fr, -1);
    *why = "substring not found";
    return NULL;
  }
  if (!strcmp(name, "count") && sa && a->str.n) {
    int count = 0;
    const char *p = s, *end = s + n, *hit;
    while ((hit = py_find(p, (size_t)(end - p), a->str.s, a->str.n))) count++, p = hit + a->str.n;
    return py_int(fr, count);
  }
  if (!strcmp(name, "isdigit")) {
    bool all = n > 0;
    for (size_t i = 0; i < n; i++) all = all && isdigit((unsigned char)s[i]);
    return py_bool(fr, all);
  }
  if (!strcmp(name, "removeprefix") && sa)
    return a->str.n <= n && !memcmp(s, a->str.s, a->str.n) ? py_str_n(fr, s + a->str.n, n - a->str.n) : self;
  if (!strcmp(name, "removesuffix") && sa)
    return a->str.n <= n && !memcmp(s + n - a->str.n, a->str.s, a->str.n) ? py_str_n(fr, s, n - a->str.n) : self;
  if (!strcmp(name, "encode") || !strcmp(name, "decode")) return self;
  if (!strcmp(name, "zfill") && a && a->kind == PY_INT && a->i >= 0 && a->i < 10000) {
    Buf out = {.arena = fr->cx->arena};
    pad(&out, s, n, '>', '0', (size_t)a->i);
    Py *r = py_str_n(fr, out.at ? out.at : "", out.n);
    buf_destroy(&out);
    return r;
  }
  if (!strcmp(name, "format")) {
    Buf out = {.arena = fr->cx->arena};
    int next = 0;
    for (size_t i = 0; i < n; i++) {
      if ((s[i] == '{' || s[i] == '}') && i + 1 < n && s[i + 1] == s[i]) {
        buf_putc(&out, s[i++]);
        continue;
      }
      const char *close = s[i] == '{' ? memchr(s + i, '}', n - i) : NULL;
      if (!close) {
        buf_putc(&out, s[i]);
        continue;
      }
      char *field = arena_strndup(fr->cx->arena, s + i + 1, (size_t)(close - (s + i + 1)));
      char *spec = strchr(field, ':');
      if (spec) *spec++ = 0;
      Py *item = NULL;
      if (!*field) item = next < c->n ? c->args[next++] : NULL;
      else if (isdigit((unsigned char)*field)) item = *field - '0' < c->n && !field[1] ? c->args[*field - '0'] : NULL;
      else
        for (int k = 0; k < c->kw_n; k++)
          if (!strcmp(c->kw_names[k], field)) item = c->kw_values[k];
      Py *t = item ? py_format(fr, item, -1, spec, why) : NULL;
      if (!t) {
        buf_destroy(&out);
        goto bad;
      }
      buf_write(&out, t->str.s, t->str.n);
      i = (size_t)(close - s);
    }
    Py *r = py_str_n(fr, out.at ? out.at : "", out.n);
    buf_destroy(&out);
    return r;
  }
bad:
  if (!*why) *why = explain(fr, "str.%s does not take these arguments", name);
  return NULL;
}

static int compare_for_sort(Front *fr, const Py *a, const Py *b) {
  const char *why = NULL;
  Py *r = py_compare(fr, PYOP_LT, (Py *)a, (Py *)b, &why);
  return r && r->i;
}

void py_sort(Front *fr, Py *list, Py *keys, bool reverse) { /* by insertion: stable, and host lists are short */
  for (int i = 1; i < list->tuple.n; i++) {
    Py *v = list->tuple.at[i], *k = keys->tuple.at[i];
    int j = i - 1;
    while (j >= 0 &&
           (reverse ? compare_for_sort(fr, keys->tuple.at[j], k) : compare_for_sort(fr, k, keys->tuple.at[j]))) {
      list->tuple.at[j + 1] = list->tuple.at[j];
      keys->tuple.at[j + 1] = keys->tuple.at[j];
      j--;
    }
    list->tuple.at[j + 1] = v;
    keys->tuple.at[j + 1] = k;
  }
}

static Py *list_method(Front *fr, Py *self, const char *name, const Call *c, const char **why) {
  Py *a = c->n > 0 ? c->args[0] : NULL, *b = c->n > 1 ? c->args[1] : NULL;
  int n = self->tuple.n;
  if ((!strcmp(name, "append") && a && py_contains(a, self)) || (b && py_contains(b, self))) goto bad;
  if (!strcmp(name, "append") && a) return py_append(fr, self, a), py_none(fr);
  if (!strcmp(name, "extend") && a) {
    Py *items = py_items(fr, a);
    if (!items) goto bad;
    int m = items->tuple.n;
    if (n + m > MAX_HOST_ITEMS || (items != self && py_contains(items, self))) goto bad;
    for (int i = 0; i < m; i++) py_append(fr, self, items->tuple.at[i]);
    return py_none(fr);
  }
  if (!strcmp(name, "insert") && a && a->kind == PY_INT && b) {
    PyInt at = a->i < 0 ? a->i + n : a->i;
    at = at < 0 ? 0 : at > n ? n : at;
    py_append(fr, self, b);
    for (int i = n; i > at; i--) self->tuple.at[i] = self->tuple.at[i - 1];
    self->tuple.at[at] = b;
    return py_none(fr);
  }
  if (!strcmp(name, "pop") && n > 0) {
    PyInt at = a && a->kind == PY_INT ? (a->i < 0 ? a->i + n : a->i) : n - 1;
    if (at < 0 || at >= n) goto bad;
    Py *v = self->tuple.at[at];
    Py *rest = py_list(fr, 0, NULL);
    for (int i = 0; i < n; i++)
      if (i != at) py_append(fr, rest, self->tuple.at[i]);
    self->tuple = rest->tuple;
    return v;
  }
  if ((!strcmp(name, "index") || !strcmp(name, "remove")) && a) {
    for (int i = 0; i < n; i++)
      if (py_equal(self->tuple.at[i], a)) {
        if (name[0] == 'i') return py_int(fr, i);
        Py *rest = py_list(fr, 0, NULL);
        for (int j = 0; j < n; j++)
          if (j != i) py_append(fr, rest, self->tuple.at[j]);
        self->tuple = rest->tuple;
        return py_none(fr);
      }
    *why = explain(fr, "%s is not in the %s", py_describe(fr, a), py_kind_name(self));
    return NULL;
  }
  if (!strcmp(name, "count") && a) {
    int count = 0;
    for (int i = 0; i < n; i++) count += py_equal(self->tuple.at[i], a);
    return py_int(fr, count);
  }
  if (!strcmp(name, "copy")) return py_list(fr, n, self->tuple.at);
  if (!strcmp(name, "clear")) return self->tuple = py_list(fr, 0, NULL)->tuple, py_none(fr);
  if (!strcmp(name, "reverse")) {
    for (int i = 0; i < n / 2; i++) {
      Py *t = self->tuple.at[i];
      self->tuple.at[i] = self->tuple.at[n - 1 - i];
      self->tuple.at[n - 1 - i] = t;
    }
    return py_none(fr);
  }
  if (!strcmp(name, "sort")) {
    Py *keys = py_list(fr, n, self->tuple.at);
    bool reverse = false;
    for (int k = 0; k < c->kw_n; k++) {
      if (!strcmp(c->kw_names[k], "reverse")) reverse = py_truth_known(c->kw_values[k]) == 1;
      if (!strcmp(c->kw_names[k], "key"))
        for (int i = 0; i < n; i++) {
          Call call = {.span = c->span, .n = 1, .args = &self->tuple.at[i]};
          keys->tuple.at[i] = host_call(fr, c->kw_values[k], &call);
        }
    }
    py_sort(fr, self, keys, reverse);
    return py_none(fr);
  }
  if (!strcmp(name, "_asdict") && self->tuple.cls) {
    Py *d = py_dict(fr);
    for (int i = 0; i < n; i++) py_dict_put(fr, d, py_str(fr, self->tuple.cls->fields[i]), self->tuple.at[i]);
    return d;
  }
  if (!strcmp(name, "_replace") && self->tuple.cls) {
    Py *r = py_tuple(fr, n, self->tuple.at);
    r->tuple.cls = self->tuple.cls;
    for (int k = 0; k < c->kw_n; k++)
      for (int i = 0; i < n; i++)
        if (!strcmp(c->kw_names[k], self->tuple.cls->fields[i])) r->tuple.at[i] = c->kw_values[k];
    return r;
  }
bad:
  if (!*why) *why = explain(fr, "%s.%s does not take these arguments", py_kind_name(self), name);
  return NULL;
}

static Py *dict_method(Front *fr, Py *self, const char *name, const Call *c, const char **why) {
  Py *a = c->n > 0 ? c->args[0] : NULL, *b = c->n > 1 ? c->args[1] : NULL;
  if (b && py_contains(b, self)) goto bad;
  if (!strcmp(name, "get") && a) {
    Py *v = py_dict_get(self, a);
    return v ? v : b ? b : py_none(fr);
  }
  if (!strcmp(name, "keys")) return py_list(fr, self->dict.n, self->dict.keys);
  if (!strcmp(name, "values")) return py_list(fr, self->dict.n, self->dict.values);
  if (!strcmp(name, "items")) {
    Py *r = py_list(fr, 0, NULL);
    for (int i = 0; i < self->dict.n; i++) {
      Py *pair[] = {self->dict.keys[i], self->dict.values[i]};
      py_append(fr, r, py_tuple(fr, 2, pair));
    }
    return r;
  }
  if (!strcmp(name, "update")) {
    if (a && a != self && py_contains(a, self)) goto bad;
    for (int k = 0; k < c->kw_n; k++)
      if (py_contains(c->kw_values[k], self)) goto bad;
    if (a && a->kind == PY_DICT)
      for (int i = 0; i < a->dict.n; i++) py_dict_put(fr, self, a->dict.keys[i], a->dict.values[i]);
    else if (a) goto bad;
    for (int k = 0; k < c->kw_n; k++) py_dict_put(fr, self, py_str(fr, c->kw_names[k]), c->kw_values[k]);
    return py_none(fr);
  }
  if (!strcmp(name, "copy")) {
    Py *r = py_dict(fr);
    for (int i = 0; i < self->dict.n; i++) py_dict_put(fr, r, self->dict.keys[i], self->dict.values[i]);
    return r;
  }
  if (!strcmp(name, "setdefault") && a) {
    Py *v = py_dict_get(self, a);
    if (!v) py_dict_put(fr, self, a, v = b ? b : py_none(fr));
    return v;
  }
  if (!strcmp(name, "clear")) return self->dict.n = 0, py_none(fr);
  if (!strcmp(name, "pop") && a) {
    for (int i = 0; i < self->dict.n; i++)
      if (py_equal(self->dict.keys[i], a)) {
        Py *v = self->dict.values[i];
        Py *rest = py_dict(fr);
        for (int j = 0; j < self->dict.n; j++)
          if (j != i) py_dict_put(fr, rest, self->dict.keys[j], self->dict.values[j]);
        self->dict = rest->dict;
        return v;
      }
    if (b) return b;
    *why = explain(fr, "the dict has no key %s", py_describe(fr, a));
    return NULL;
  }
bad:
  if (!*why) *why = explain(fr, "dict.%s does not take these arguments", name);
  return NULL;
}

Py *py_call_method(Front *fr, Py *self, const char *name, const Call *c, const char **why) {
  *why = NULL;
  switch (self->kind) {
    case PY_STR: return str_method(fr, self, name, c, why);
    case PY_TUPLE: return list_method(fr, self, name, c, why);
    case PY_DICT: return dict_method(fr, self, name, c, why);
    case PY_INT:
    case PY_BOOL: {
      unsigned __int128 u = self->i < 0 ? -(unsigned __int128)self->i : (unsigned __int128)self->i;
      int length = 0, ones = 0;
      for (; u; u >>= 1) length++, ones += (int)(u & 1);
      if (!strcmp(name, "bit_length")) return py_int(fr, length);
      if (!strcmp(name, "bit_count")) return py_int(fr, ones);
      if (!strcmp(name, "is_integer")) return py_bool(fr, true);
      return self;
    }
    case PY_FLOAT:
      if (!strcmp(name, "is_integer")) return py_bool(fr, floor(self->f) == self->f);
      break;
    default: break;
  }
  *why = explain(fr, "%s has no method %s here", py_kind_name(self), name);
  return NULL;
}
