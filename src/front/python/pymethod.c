/* Methods of Python's own values, and iteration: what host code and constexprs use of them. A table names them; a
 * method that is not in it does not exist here. */
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

/* ---- methods ----------------------------------------------------------------------------------------------------- */

static const char *const str_methods[] = {
    "startswith", "endswith",   "lower", "upper", "strip",      "lstrip",  "rstrip",       "split",
    "join",       "replace",    "find",  "count", "format",     "isdigit", "removeprefix", "removesuffix",
    "index",      "capitalize", "title", "zfill", "splitlines", NULL};
static const char *const list_methods[] = {"append", "extend", "insert",  "pop",    "index", "count",
                                           "copy",   "sort",   "reverse", "remove", "clear", NULL};
static const char *const tuple_methods[] = {"index", "count", "_replace", "_asdict", NULL};
static const char *const set_methods[] = {"add", "discard", "remove", "update", "union", "copy", "clear", NULL};
static const char *const dict_methods[] = {"get", "items", "keys",       "values", "update",
                                           "pop", "copy",  "setdefault", "clear",  NULL};
static const char *const int_methods[] = {"bit_length", "bit_count", "is_integer", "conjugate", NULL};
static const char *const float_methods[] = {"is_integer", "hex", NULL};
static const char *const none[] = {NULL};

const char *const *py_method_names(const Py *self) {
  switch (self->kind) {
    case PY_STR: return str_methods;
    case PY_TUPLE:
      if (self->tuple.is_view) return none;
      return self->tuple.is_set ? set_methods : self->tuple.is_list ? list_methods : tuple_methods;
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

/* A call of a method: `a` and `b` are its first two arguments. A method gives NULL for arguments that it does not take,
 * with a reason in *why or without. */
typedef struct MethodCall {
  Front *fr;
  Py *self, *a, *b;
  const char *name;
  const Call *call;
  const char **why;
} MethodCall;

/* most: how many arguments it takes by position; keywords: and any by name. More than it knows of is refused, so that
 * none is passed over. */
typedef struct Method {
  const char *name;
  Py *(*run)(const MethodCall *m);
  int most;
  bool keywords, ascii; /* ascii: of texts with other characters it is not known */
} Method;

enum { MANY = 1000000 };

static Py *call_row(Front *fr, const Method *rows, Py *self, const char *name, const Call *c, const char **why) {
  const MethodCall m = {fr, self, c->n > 0 ? c->args[0] : NULL, c->n > 1 ? c->args[1] : NULL, name, c, why};
  while (rows->name && strcmp(rows->name, name)) rows++;
  bool holds_itself = m.b && self->kind == PY_TUPLE && py_contains(m.b, self);
  bool fits = rows->name && c->n <= rows->most && (!c->kw_n || rows->keywords);
  if (fits && rows->ascii && !py_is_ascii(self)) fits = false, *why = "a text with other characters than ASCII's";
  for (int i = 0; i < c->n && fits && self->kind == PY_STR && rows->most < MANY; i++) fits = !py_hole(c->args[i]);
  Py *r = fits && !holds_itself ? rows->run(&m) : NULL;
  const char *kind = self->kind == PY_STR ? "str" : py_kind_name(self);
  if (!r && !*why) *why = explain(fr, "%s.%s does not take these arguments", kind, name);
  return r;
}

static bool is_str(const Py *p) { return p && p->kind == PY_STR; }

static Py *text_of(Front *fr, Buf *out) {
  Py *r = py_str_n(fr, out->at ? out->at : "", out->n);
  buf_destroy(out);
  return r;
}

/* ---- str --------------------------------------------------------------------------------------------------------- */

static bool begins(const Py *s, const Py *with) {
  return with->str.n <= s->str.n && !memcmp(s->str.s, with->str.s, with->str.n);
}
static bool ends(const Py *s, const Py *with) {
  return with->str.n <= s->str.n && !memcmp(s->str.s + s->str.n - with->str.n, with->str.s, with->str.n);
}

/* startswith, endswith: one text, or any of a tuple's */
static Py *str_begins_ends(const MethodCall *m) {
  Py *options = is_str(m->a) ? py_tuple(m->fr, 1, &m->call->args[0]) : m->a && m->a->kind == PY_TUPLE ? m->a : NULL;
  if (!options) return NULL;
  for (int i = 0; i < options->tuple.n; i++) {
    Py *o = options->tuple.at[i];
    if (is_str(o) && (m->name[0] == 's' ? begins : ends)(m->self, o)) return py_bool(m->fr, true);
  }
  return py_bool(m->fr, false);
}

/* lower, upper, capitalize, title */
static Py *str_case(const MethodCall *m) {
  Py *r = py_str_n(m->fr, m->self->str.s, m->self->str.n);
  char *t = (char *)r->str.s;
  bool start = true;
  for (size_t i = 0; i < r->str.n; i++) {
    bool up = m->name[0] == 'u' || (m->name[0] == 'c' && i == 0) || (m->name[0] == 't' && start);
    start = !isalpha((unsigned char)t[i]);
    t[i] = (char)(up ? toupper((unsigned char)t[i]) : tolower((unsigned char)t[i]));
  }
  return r;
}

static bool given(const Py *p) { return p && p->kind != PY_NONE; }

/* strip, lstrip, rstrip */
static Py *str_strip(const MethodCall *m) {
  if (given(m->a) && (!is_str(m->a) || !py_is_ascii(m->a))) return NULL;
  const char *set = is_str(m->a) ? m->a->str.s : " \t\r\n\f\v", *s = m->self->str.s;
  size_t from = 0, to = m->self->str.n;
  if (m->name[0] != 'r')
    while (from < to && strchr(set, s[from])) from++;
  if (m->name[0] != 'l')
    while (to > from && strchr(set, s[to - 1])) to--;
  return py_str_n(m->fr, s + from, to - from);
}

static Py *split_at(const MethodCall *m, const Py *separator) {
  Py *r = py_list(m->fr, 0, NULL);
  if (m->b && m->b->kind != PY_INT) return NULL;
  int64_t limit = m->b ? m->b->i > MAX_HOST_ITEMS ? MAX_HOST_ITEMS : m->b->i < 0 ? -1 : (int64_t)m->b->i : -1;
  const char *p = m->self->str.s, *end = p + m->self->str.n, *hit;
  while (limit-- != 0 && (hit = py_find(p, (size_t)(end - p), separator->str.s, separator->str.n))) {
    py_append(m->fr, r, py_str_n(m->fr, p, (size_t)(hit - p)));
    p = hit + separator->str.n;
  }
  py_append(m->fr, r, py_str_n(m->fr, p, (size_t)(end - p)));
  return r;
}

/* split, splitlines */
static Py *str_split(const MethodCall *m) {
  if (is_str(m->a) && m->a->str.n) return split_at(m, m->a);
  if (given(m->a) || m->b) return NULL;
  Py *r = py_list(m->fr, 0, NULL);
  const char *s = m->self->str.s;
  size_t n = m->self->str.n;
  bool lines = m->name[5] != 0;
  for (size_t i = 0; i < n && lines; i++) /* other ends of lines than \n */
    if (s[i] == '\r' || s[i] == '\v' || s[i] == '\f' || (s[i] >= 0x1c && s[i] <= 0x1e)) return NULL;
  for (size_t i = 0; i < n;) {
    while (!lines && i < n && isspace((unsigned char)s[i])) i++;
    size_t from = i;
    while (i < n && (lines ? s[i] != '\n' : !isspace((unsigned char)s[i]))) i++;
    if (i > from || lines) py_append(m->fr, r, py_str_n(m->fr, s + from, i - from));
    if (lines) i++;
  }
  return r;
}

static Py *str_join(const MethodCall *m) {
  Py *items = m->a ? py_items(m->fr, m->a) : NULL;
  if (!items) return NULL;
  Buf out = {.arena = m->fr->cx->arena};
  for (int i = 0; i < items->tuple.n; i++) {
    if (out.n > MAX_HOST_ITEMS) return py_too_long(m->why);
    if (i) buf_write(&out, m->self->str.s, m->self->str.n);
    if (!is_str(items->tuple.at[i])) return NULL;
    buf_write(&out, items->tuple.at[i]->str.s, items->tuple.at[i]->str.n);
  }
  return text_of(m->fr, &out);
}

static Py *str_replace(const MethodCall *m) {
  if (!is_str(m->a) || !is_str(m->b) || !m->a->str.n) return NULL;
  Buf out = {.arena = m->fr->cx->arena};
  const char *p = m->self->str.s, *end = p + m->self->str.n, *hit;
  while ((hit = py_find(p, (size_t)(end - p), m->a->str.s, m->a->str.n))) {
    if (out.n > MAX_HOST_ITEMS) return py_too_long(m->why);
    buf_write(&out, p, (size_t)(hit - p));
    buf_write(&out, m->b->str.s, m->b->str.n);
    p = hit + m->a->str.n;
  }
  buf_write(&out, p, (size_t)(end - p));
  return text_of(m->fr, &out);
}

/* find, index */
static Py *str_find(const MethodCall *m) {
  if (!is_str(m->a)) return NULL;
  const char *s = m->self->str.s, *hit = m->a->str.n ? py_find(s, m->self->str.n, m->a->str.s, m->a->str.n) : s;
  if (hit) return py_int(m->fr, hit - s);
  if (m->name[0] == 'f') return py_int(m->fr, -1);
  *m->why = "substring not found";
  return NULL;
}

static Py *str_count(const MethodCall *m) {
  if (!is_str(m->a) || !m->a->str.n) return NULL;
  int count = 0;
  const char *p = m->self->str.s, *end = p + m->self->str.n, *hit;
  for (; (hit = py_find(p, (size_t)(end - p), m->a->str.s, m->a->str.n)); p = hit + m->a->str.n) count++;
  return py_int(m->fr, count);
}

static Py *str_isdigit(const MethodCall *m) {
  bool all = m->self->str.n > 0;
  for (size_t i = 0; i < m->self->str.n; i++) all = all && isdigit((unsigned char)m->self->str.s[i]);
  return py_bool(m->fr, all);
}

static Py *str_removeprefix(const MethodCall *m) {
  if (!is_str(m->a)) return NULL;
  if (!begins(m->self, m->a)) return m->self;
  return py_str_n(m->fr, m->self->str.s + m->a->str.n, m->self->str.n - m->a->str.n);
}

static Py *str_removesuffix(const MethodCall *m) {
  if (!is_str(m->a)) return NULL;
  return ends(m->self, m->a) ? py_str_n(m->fr, m->self->str.s, m->self->str.n - m->a->str.n) : m->self;
}

static Py *str_zfill(const MethodCall *m) {
  if (!m->a || m->a->kind != PY_INT || m->a->i < 0 || m->a->i >= 10000) return NULL;
  size_t sign = *m->self->str.s == '-' || *m->self->str.s == '+';
  Py *digits = py_str_n(m->fr, m->self->str.s + sign, m->self->str.n - sign);
  const char *spec = arena_printf(m->fr->cx->arena, "0>%d", (int)m->a->i - (m->a->i && sign));
  Buf out = {.arena = m->fr->cx->arena};
  buf_write(&out, m->self->str.s, sign);
  Py *filled = py_format(m->fr, digits, -1, spec, m->why);
  if (!filled) return NULL;
  buf_write(&out, filled->str.s, filled->str.n);
  return text_of(m->fr, &out);
}

/* What a field of format() names: the next argument, one by number (of one digit), one by name; NULL: none. */
static Py *format_argument(const Call *c, const char *field, int *next) {
  if (!*field) return *next < c->n ? c->args[(*next)++] : NULL;
  if (isdigit((unsigned char)*field)) return *field - '0' < c->n && !field[1] ? c->args[*field - '0'] : NULL;
  Py *item = NULL;
  for (int k = 0; k < c->kw_n; k++)
    if (!strcmp(c->kw_names[k], field)) item = c->kw_values[k];
  return item;
}

static Py *str_format(const MethodCall *m) {
  Buf out = {.arena = m->fr->cx->arena};
  const char *s = m->self->str.s;
  size_t n = m->self->str.n;
  int next = 0;
  for (size_t i = 0; i < n; i++) {
    bool doubled = (s[i] == '{' || s[i] == '}') && i + 1 < n && s[i + 1] == s[i];
    const char *close = s[i] == '{' && !doubled ? memchr(s + i, '}', n - i) : NULL;
    if (!close) {
      buf_putc(&out, s[i]);
      i += doubled;
      continue;
    }
    char *field = arena_strndup(m->fr->cx->arena, s + i + 1, (size_t)(close - (s + i + 1))), *spec = strchr(field, ':');
    if (spec) *spec++ = 0;
    Py *item = format_argument(m->call, field, &next),
       *t = item && py_has_text(item) ? py_format(m->fr, item, -1, spec, m->why) : NULL;
    if (!t) return NULL;
    buf_write(&out, t->str.s, t->str.n);
    i = (size_t)(close - s);
  }
  return text_of(m->fr, &out);
}

static const Method str_rows[] = {
    {"startswith", str_begins_ends, 1},
    {"endswith", str_begins_ends, 1},
    {"lower", str_case, 0, false, true},
    {"upper", str_case, 0, false, true},
    {"capitalize", str_case, 0, false, true},
    {"title", str_case, 0, false, true},
    {"strip", str_strip, 1, false, true},
    {"lstrip", str_strip, 1, false, true},
    {"rstrip", str_strip, 1, false, true},
    {"split", str_split, 2, false, true},
    {"splitlines", str_split, 0, false, true},
    {"join", str_join, 1},
    {"replace", str_replace, 2},
    {"find", str_find, 1, false, true},
    {"index", str_find, 1, false, true},
    {"count", str_count, 1},
    {"isdigit", str_isdigit, 0, false, true},
    {"removeprefix", str_removeprefix, 1},
    {"removesuffix", str_removesuffix, 1},
    {"zfill", str_zfill, 1},
    {"format", str_format, MANY, true},
    {NULL, NULL},
};

/* 0, 1, or -1: nobody knows. */
static int compare_for_sort(Front *fr, const Py *a, const Py *b) {
  const char *why = NULL;
  Py *r = py_hole(a) || py_hole(b) ? NULL : py_compare(fr, PYOP_LT, (Py *)a, (Py *)b, &why);
  return r ? r->i != 0 : -1;
}

bool py_sort(Front *fr, Py *list, Py *keys, bool reverse) { /* by insertion: stable, and host lists are short */
  for (int i = 1; i < list->tuple.n; i++) {
    Py *v = list->tuple.at[i], *k = keys->tuple.at[i];
    int j = i - 1, before = 0;
    while (j >= 0 && (before = reverse ? compare_for_sort(fr, keys->tuple.at[j], k)
                                       : compare_for_sort(fr, k, keys->tuple.at[j])) > 0) {
      list->tuple.at[j + 1] = list->tuple.at[j];
      keys->tuple.at[j + 1] = keys->tuple.at[j];
      j--;
    }
    list->tuple.at[j + 1] = v;
    keys->tuple.at[j + 1] = k;
    if (before < 0) return false;
  }
  return true;
}

static Py *list_append(const MethodCall *m) {
  if (!m->a || py_contains(m->a, m->self)) return NULL;
  py_append(m->fr, m->self, m->a);
  return py_none(m->fr);
}

static Py *list_extend(const MethodCall *m) {
  Py *items = m->a ? py_items(m->fr, m->a) : NULL;
  if (!items) return NULL;
  int n = items->tuple.n;
  if (m->self->tuple.n + n > MAX_HOST_ITEMS || (items != m->self && py_contains(items, m->self))) return NULL;
  for (int i = 0; i < n; i++) py_append(m->fr, m->self, items->tuple.at[i]);
  return py_none(m->fr);
}

static Py *list_insert(const MethodCall *m) {
  int n = m->self->tuple.n;
  if (!m->a || m->a->kind != PY_INT || !m->b) return NULL;
  PyInt at = m->a->i < 0 ? m->a->i + n : m->a->i;
  at = at < 0 ? 0 : at > n ? n : at;
  py_append(m->fr, m->self, m->b);
  for (int i = n; i > at; i--) m->self->tuple.at[i] = m->self->tuple.at[i - 1];
  m->self->tuple.at[at] = m->b;
  return py_none(m->fr);
}

static void take_out(Front *fr, Py *list, PyInt at) {
  Py *rest = py_list(fr, 0, NULL);
  for (int i = 0; i < list->tuple.n; i++)
    if (i != at) py_append(fr, rest, list->tuple.at[i]);
  list->tuple = rest->tuple;
}

static Py *list_pop(const MethodCall *m) {
  int n = m->self->tuple.n;
  if (m->a && m->a->kind != PY_INT) return NULL;
  PyInt at = m->a ? (m->a->i < 0 ? m->a->i + n : m->a->i) : n - 1;
  if (at < 0 || at >= n) return NULL;
  Py *v = m->self->tuple.at[at];
  take_out(m->fr, m->self, at);
  return v;
}

/* index, remove */
static Py *list_find(const MethodCall *m) {
  if (!m->a || py_hole(m->a) || py_hole(m->self)) return NULL;
  for (int i = 0; i < m->self->tuple.n; i++) {
    if (!py_equal(m->self->tuple.at[i], m->a)) continue;
    if (m->name[0] == 'i') return py_int(m->fr, i);
    take_out(m->fr, m->self, i);
    return py_none(m->fr);
  }
  *m->why = explain(m->fr, "%s is not in the %s", py_describe(m->fr, m->a), py_kind_name(m->self));
  return NULL;
}

static Py *list_count(const MethodCall *m) {
  int count = 0;
  if (!m->a || py_hole(m->a) || py_hole(m->self)) return NULL;
  for (int i = 0; i < m->self->tuple.n; i++) count += py_equal(m->self->tuple.at[i], m->a);
  return py_int(m->fr, count);
}

static Py *list_copy(const MethodCall *m) { return py_list(m->fr, m->self->tuple.n, m->self->tuple.at); }

static Py *list_clear(const MethodCall *m) {
  m->self->tuple = py_list(m->fr, 0, NULL)->tuple;
  return py_none(m->fr);
}

static Py *list_reverse(const MethodCall *m) {
  Py **at = m->self->tuple.at;
  for (int i = 0, j = m->self->tuple.n - 1; i < j; i++, j--) {
    Py *t = at[i];
    at[i] = at[j];
    at[j] = t;
  }
  return py_none(m->fr);
}

static Py *list_sort(const MethodCall *m) {
  const Call *c = m->call;
  int n = m->self->tuple.n;
  Py *keys = py_list(m->fr, n, m->self->tuple.at);
  int reverse = 0;
  for (int k = 0; k < c->kw_n; k++) {
    if (!strcmp(c->kw_names[k], "reverse")) reverse = py_truth_known(c->kw_values[k]);
    else if (strcmp(c->kw_names[k], "key")) return NULL;
    if (strcmp(c->kw_names[k], "key") || c->kw_values[k]->kind == PY_NONE) continue;
    for (int i = 0; i < n; i++) {
      Call call = {.span = c->span, .n = 1, .args = &m->self->tuple.at[i]};
      keys->tuple.at[i] = front_hooks.host_call(m->fr, c->kw_values[k], &call);
    }
  }
  if (reverse < 0 || !py_sort(m->fr, m->self, keys, reverse)) return NULL;
  return py_none(m->fr);
}

/* Of named tuples. */
static Py *list_asdict(const MethodCall *m) {
  if (!m->self->tuple.cls) return NULL;
  Py *d = py_dict(m->fr);
  for (int i = 0; i < m->self->tuple.n; i++)
    py_dict_put(m->fr, d, py_str(m->fr, m->self->tuple.cls->fields[i]), m->self->tuple.at[i]);
  return d;
}

static Py *list_replace(const MethodCall *m) {
  const PyClass *cls = m->self->tuple.cls;
  if (!cls) return NULL;
  Py *r = py_tuple(m->fr, m->self->tuple.n, m->self->tuple.at);
  r->tuple.cls = cls;
  for (int k = 0; k < m->call->kw_n; k++)
    for (int i = 0; i < r->tuple.n; i++)
      if (!strcmp(m->call->kw_names[k], cls->fields[i])) r->tuple.at[i] = m->call->kw_values[k];
  return r;
}

static const Method list_rows[] = {
    {"append", list_append, 1},
    {"extend", list_extend, 1},
    {"insert", list_insert, 2},
    {"pop", list_pop, 1},
    {"index", list_find, 1},
    {"remove", list_find, 1},
    {"count", list_count, 1},
    {"copy", list_copy, 0},
    {"clear", list_clear, 0},
    {"reverse", list_reverse, 0},
    {"sort", list_sort, 0, true},
    {"_asdict", list_asdict, 0},
    {"_replace", list_replace, 0, true},
    {NULL, NULL},
};

/* ---- set --------------------------------------------------------------------------------------------------------- */

static Py *set_add(const MethodCall *m) {
  if (!m->a || py_hole(m->a)) return NULL;
  if (!py_in(m->a, m->self)) py_append(m->fr, m->self, m->a);
  return py_none(m->fr);
}

/* discard, remove */
static Py *set_take_out(const MethodCall *m) {
  if (!m->a || py_hole(m->a)) return NULL;
  bool is_set = m->self->tuple.is_set;
  for (int i = 0; i < m->self->tuple.n; i++) {
    if (!py_equal(m->self->tuple.at[i], m->a)) continue;
    take_out(m->fr, m->self, i);
    m->self->tuple.is_set = is_set;
    return py_none(m->fr);
  }
  return m->name[0] == 'd' ? py_none(m->fr) : NULL;
}

/* update, union */
static Py *set_update(const MethodCall *m) {
  Py *items = m->a ? py_items(m->fr, m->a) : NULL;
  if (!items || py_hole(items) || items->tuple.n + m->self->tuple.n > MAX_HOST_ITEMS) return NULL;
  Py *into = m->name[1] == 'p' ? m->self : py_set(m->fr, m->self->tuple.n, m->self->tuple.at);
  for (int i = 0; i < items->tuple.n; i++)
    if (!py_in(items->tuple.at[i], into)) py_append(m->fr, into, items->tuple.at[i]);
  return into == m->self ? py_none(m->fr) : into;
}

static Py *set_copy(const MethodCall *m) { return py_set(m->fr, m->self->tuple.n, m->self->tuple.at); }

static Py *set_clear(const MethodCall *m) {
  m->self->tuple = py_set(m->fr, 0, NULL)->tuple;
  return py_none(m->fr);
}

static const Method set_rows[] = {
    {"add", set_add, 1},      {"discard", set_take_out, 1}, {"remove", set_take_out, 1}, {"update", set_update, 1},
    {"union", set_update, 1}, {"copy", set_copy, 0},        {"clear", set_clear, 0},     {NULL, NULL},
};

/* [(key, value), ...] */
static bool put_pairs(Front *fr, Py *d, const Py *pairs) {
  if (pairs->kind != PY_TUPLE || pairs->tuple.is_set) return false;
  for (int i = 0; i < pairs->tuple.n; i++) {
    const Py *pair = pairs->tuple.at[i];
    if (pair->kind != PY_TUPLE || pair->tuple.n != 2 || pair->tuple.is_set || py_hole(pair->tuple.at[0])) return false;
  }
  for (int i = 0; i < pairs->tuple.n; i++)
    py_dict_put(fr, d, pairs->tuple.at[i]->tuple.at[0], pairs->tuple.at[i]->tuple.at[1]);
  return true;
}

static Py *dict_method(Front *fr, Py *self, const char *name, const Call *c, const char **why) {
  Py *a = c->n > 0 ? c->args[0] : NULL, *b = c->n > 1 ? c->args[1] : NULL;
  static const struct {
    const char *name;
    int most;
  } takes[] = {{"get", 2}, {"update", 1}, {"setdefault", 2}, {"pop", 2}};
  int most = 0;
  for (size_t i = 0; i < sizeof takes / sizeof *takes; i++)
    if (!strcmp(name, takes[i].name)) most = takes[i].most;
  if (c->n > most || (c->kw_n && strcmp(name, "update") != 0)) goto bad;
  if (b && py_contains(b, self)) goto bad;
  if (a && strcmp(name, "update") && py_hole(a)) goto bad;
  if (!strcmp(name, "get") && a) {
    Py *v = py_dict_get(self, a);
    return v ? v : b ? b : py_none(fr);
  }
  if (!strcmp(name, "keys") || !strcmp(name, "values") || !strcmp(name, "items")) return py_dict_view(fr, self, *name);
  if (!strcmp(name, "update")) {
    if (a && a != self && py_contains(a, self)) goto bad;
    for (int k = 0; k < c->kw_n; k++)
      if (py_contains(c->kw_values[k], self)) goto bad;
    if (a && a->kind == PY_DICT)
      for (int i = 0; i < a->dict.n; i++) py_dict_put(fr, self, a->dict.keys[i], a->dict.values[i]);
    else if (a && !put_pairs(fr, self, a)) goto bad;
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
  if (!strcmp(name, "clear") || !strcmp(name, "pop")) py_dict_changes(fr, self);
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
    case PY_STR: return call_row(fr, str_rows, self, name, c, why);
    case PY_TUPLE:
      if (self->tuple.is_view) break;
      return call_row(fr, self->tuple.is_set ? set_rows : list_rows, self, name, c, why);
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
