/* The values of the front end: making, comparing, describing them, and taking compound ones apart.
 *
 * Control flow carries run-time values only. A tuple, block pointer, descriptor or aggregate is carried as its run-time
 * parts in a fixed order: py_flatten lists them, py_unflatten builds the same thing around others:
 *
 *     ptrs = (x_ptr, 3, (a, b))   flattens to   x_ptr, a, b   and comes back as   (x_ptr', 3, (a', b')) */
#include "front/core.h"

#include <math.h>

static Py *make(Front *fr, PyKind kind) {
  Py *p = NEW(fr->cx->arena, Py);
  p->kind = kind;
  return p;
}

Py *py_none(Front *fr) { return make(fr, PY_NONE); }
Py *py_void(Front *fr) { return make(fr, PY_VOID); }

Py *py_bool(Front *fr, bool v) {
  Py *p = make(fr, PY_BOOL);
  p->i = v;
  return p;
}

Py *py_int(Front *fr, PyInt v) {
  Py *p = make(fr, PY_INT);
  p->i = v;
  return p;
}

Py *py_float(Front *fr, double v) {
  Py *p = make(fr, PY_FLOAT);
  p->f = v;
  return p;
}

Py *py_str_n(Front *fr, const char *s, size_t n) {
  Py *p = make(fr, PY_STR);
  char *copy = arena_alloc(fr->cx->arena, n + 1); /* it may hold NULs */
  if (n) memcpy(copy, s, n);
  context_step(fr->cx, (int64_t)(n / 16));
  p->str.s = copy;
  p->str.n = n;
  return p;
}

Py *py_str(Front *fr, const char *s) {
  Py *p = make(fr, PY_STR);
  p->str.s = s;
  p->str.n = strlen(s);
  return p;
}

Py *py_type(Front *fr, const Type *t) {
  Py *p = make(fr, PY_TYPE);
  p->type = t;
  return p;
}

Py *py_dtype(Front *fr, Dtype d) { return py_type(fr, type_number(fr->cx, d)); }

Py *py_tensor(Front *fr, Value *v) {
  Py *p = make(fr, PY_TENSOR);
  p->value = v;
  return p;
}

Py *py_tuple(Front *fr, int n, Py *const *items) {
  Py *p = make(fr, PY_TUPLE);
  p->tuple.n = n;
  p->tuple.cap = n;
  p->tuple.at = n ? arena_copy(fr->cx->arena, items, sizeof(Py *) * (size_t)n) : NULL;
  return p;
}

Py *py_list(Front *fr, int n, Py *const *items) {
  Py *p = py_tuple(fr, n, items);
  p->tuple.is_list = true;
  return p;
}

Py *py_set(Front *fr, int n, Py *const *items) {
  Py *p = py_list(fr, 0, NULL);
  p->tuple.is_set = true;
  for (int i = 0; i < n; i++)
    if (!py_in(items[i], p)) py_append(fr, p, items[i]);
  return p;
}

Py *py_dict(Front *fr) { return make(fr, PY_DICT); }

Py *py_function(Front *fr, Function *fn) {
  Py *p = make(fr, PY_FUNCTION);
  p->fn = fn;
  return p;
}

Py *py_library(Front *fr, const char *path) {
  Py *p = make(fr, PY_LIBRARY);
  p->library = intern_z(fr->cx, path);
  return p;
}

Py *py_module(Front *fr, Module *m) {
  Py *p = make(fr, PY_MODULE);
  p->module = m;
  return p;
}

Py *py_method_of(Front *fr, Py *self, const char *name, Function *fn) {
  Py *p = make(fr, PY_METHOD);
  p->method.self = self;
  p->method.name = name;
  p->method.fn = fn;
  return p;
}

Py *py_object(Front *fr, PyClass *cls, const char *cls_name) {
  Py *p = make(fr, PY_OBJECT);
  p->object.cls = cls;
  p->object.cls_name = cls_name;
  p->object.fields = map_create(fr->cx->arena, true);
  return p;
}

Py *py_unknown(Front *fr, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  Buf b = {.arena = fr->cx->arena};
  buf_vprintf(&b, format, ap);
  va_end(ap);
  Py *p = make(fr, PY_UNKNOWN);
  p->library = b.at ? intern(fr->cx, b.at, b.n) : "?";
  buf_destroy(&b);
  return p;
}

void py_spoil(Front *fr, Py *x, const char *why) {
  stack_guard();
  if (x->kind == PY_DICT) py_dict_changes(fr, x);
  if (x->kind == PY_DICT || (x->kind == PY_TUPLE && x->tuple.is_list)) *x = *py_unknown(fr, "%s", why);
}

/* Whether p answers `x == y`, `x in l` by a method of its own, which only host_compare can call. */
static bool compares_itself(const Py *p) {
  return p->kind == PY_OBJECT && p->object.cls && map_get(p->object.cls->members, "__eq__");
}

const Py *py_hole(const Py *x) {
  stack_guard();
  const Py *hole = NULL;
  if (x->kind == PY_UNKNOWN || compares_itself(x)) return x;
  if (x->kind == PY_TUPLE) {
    for (int i = 0; i < x->tuple.n && !hole; i++) hole = py_hole(x->tuple.at[i]);
  } else if (x->kind == PY_DICT) {
    for (int i = 0; i < x->dict.n && !hole; i++) {
      hole = py_hole(x->dict.keys[i]);
      if (!hole) hole = py_hole(x->dict.values[i]);
    }
  } else if (x->kind == PY_OBJECT) {
    for (int i = 0; i < map_count(x->object.fields) && !hole; i++) {
      const void *k;
      void *v;
      map_entry(x->object.fields, i, &k, &v);
      hole = py_hole(v);
    }
  }
  return hole;
}

/* The number or text that a member of an IntEnum is. */
Py *py_number_of(Py *x) {
  bool is = x->kind == PY_OBJECT && x->object.cls && x->object.cls->is_number;
  Py *v = is ? map_get(x->object.fields, "value") : NULL;
  return v ? v : x;
}

bool py_has_order(const Py *x) {
  stack_guard();
  if (x->kind == PY_TUPLE) {
    for (int i = 0; i < x->tuple.n; i++)
      if (!py_has_order(x->tuple.at[i])) return false;
    return !x->tuple.is_set || x->tuple.n < 2;
  }
  for (int i = 0; x->kind == PY_DICT && i < x->dict.n; i++)
    if (!py_has_order(x->dict.values[i])) return false;
  return true;
}

/* Is `needle` x or a part of it? Values must not come to contain themselves: everything that walks them relies on it.
 */
bool py_contains(const Py *x, const Py *needle) {
  stack_guard();
  if (x == needle) return true;
  if (x->kind == PY_TUPLE) {
    for (int i = 0; i < x->tuple.n; i++)
      if (py_contains(x->tuple.at[i], needle)) return true;
  } else if (x->kind == PY_DICT) {
    for (int i = 0; i < x->dict.n; i++)
      if (py_contains(x->dict.values[i], needle)) return true;
  } else if (x->kind == PY_OBJECT) {
    for (int i = 0; i < map_count(x->object.fields); i++) {
      const void *k;
      void *v;
      map_entry(x->object.fields, i, &k, &v);
      if (py_contains(v, needle)) return true;
    }
  }
  return false;
}

void py_append(Front *fr, Py *list, Py *item) {
  if (list->tuple.n >= list->tuple.cap) {
    int cap = list->tuple.n < 4 ? 4 : 2 * list->tuple.n;
    Py **at = NEW_N(fr->cx->arena, Py *, cap);
    if (list->tuple.n) memcpy(at, list->tuple.at, sizeof(Py *) * (size_t)list->tuple.n);
    list->tuple.at = at;
    list->tuple.cap = cap;
  }
  list->tuple.at[list->tuple.n++] = item;
}

Py *py_dict_get(const Py *d, const Py *key) {
  for (int i = 0; i < d->dict.n; i++)
    if (py_equal(d->dict.keys[i], key)) return d->dict.values[i];
  return NULL;
}

Py *py_dict_get_name(const Py *d, const char *key) {
  for (int i = 0; i < d->dict.n; i++) {
    const Py *k = d->dict.keys[i];
    if (k->kind == PY_STR && !strcmp(k->str.s, key)) return d->dict.values[i];
  }
  return NULL;
}

/* A view is a list of what the dict holds now. One that the dict's next change finds is unknown from then on. */
Py *py_dict_view(Front *fr, Py *d, char kind) {
  Py *view = py_list(fr, kind == 'i' ? 0 : d->dict.n, kind == 'v' ? d->dict.values : d->dict.keys);
  for (int i = 0; kind == 'i' && i < d->dict.n; i++) {
    Py *pair[] = {d->dict.keys[i], d->dict.values[i]};
    py_append(fr, view, py_tuple(fr, 2, pair));
  }
  view->tuple.is_view = true;
  vec_push(fr->cx->arena, &d->dict.views, view);
  return view;
}

void py_dict_changes(Front *fr, Py *d) {
  for (int i = 0; i < d->dict.views.n; i++)
    py_spoil(fr, d->dict.views.at[i], "a view of a dict that has changed since");
  d->dict.views.n = 0;
}

void py_dict_put(Front *fr, Py *d, Py *key, Py *value) {
  py_dict_changes(fr, d);
  for (int i = 0; i < d->dict.n; i++)
    if (py_equal(d->dict.keys[i], key)) {
      d->dict.values[i] = value;
      return;
    }
  int n = d->dict.n;
  if (n >= d->dict.cap) {
    int cap = n < 4 ? 4 : 2 * n;
    Py **keys = NEW_N(fr->cx->arena, Py *, cap), **values = NEW_N(fr->cx->arena, Py *, cap);
    if (n) {
      memcpy(keys, d->dict.keys, sizeof(Py *) * (size_t)n);
      memcpy(values, d->dict.values, sizeof(Py *) * (size_t)n);
    }
    d->dict.keys = keys;
    d->dict.values = values;
    d->dict.cap = cap;
  }
  d->dict.keys[n] = key;
  d->dict.values[n] = value;
  d->dict.n++;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

bool py_is_ascii(const Py *text) {
  for (size_t i = 0; i < text->str.n; i++)
    if ((unsigned char)text->str.s[i] >= 0x80) return false;
  return true;
}

bool py_is_number(const Py *p) { return p->kind == PY_BOOL || p->kind == PY_INT || p->kind == PY_FLOAT; }
bool py_is_tensor(const Py *p) { return p->kind == PY_TENSOR; }

double py_as_double(const Py *p) { return p->kind == PY_FLOAT ? p->f : (double)p->i; }

bool py_is_runtime(const Py *p) {
  stack_guard();
  switch (p->kind) {
    case PY_TENSOR:
    case PY_BLOCK_PTR:
    case PY_DESC: return true;
    case PY_TUPLE:
      for (int i = 0; i < p->tuple.n; i++)
        if (py_is_runtime(p->tuple.at[i])) return true;
      return false;
    case PY_OBJECT:
      for (int i = 0; i < map_count(p->object.fields); i++) {
        const void *k;
        void *v;
        map_entry(p->object.fields, i, &k, &v);
        if (py_is_runtime(v)) return true;
      }
      return false;
    default: return false;
  }
}

static int number_cmp_ints(PyInt a, PyInt b) { return a < b ? -1 : a > b; }

/* -1, 0, 1, or 2 for unordered (NaN). Exact also between an int and a float. */
int py_number_order(const Py *a, const Py *b) {
  if (a->kind != PY_FLOAT && b->kind != PY_FLOAT) return number_cmp_ints(a->i, b->i);
  if (a->kind != PY_FLOAT || b->kind != PY_FLOAT) {
    const Py *fp = a->kind == PY_FLOAT ? a : b, *ip = a->kind == PY_FLOAT ? b : a;
    double f = fp->f;
    if (isnan(f)) return 2;
    int order; /* of the float against the int */
    if (f >= 0x1p127) order = 1;
    else if (f < -0x1p127) order = -1;
    else {
      PyInt whole = (PyInt)floor(f);
      order = number_cmp_ints(whole, ip->i);
      if (order == 0 && (double)whole != f) order = 1;
    }
    return a->kind == PY_FLOAT ? order : -order;
  }
  if (isnan(a->f) || isnan(b->f)) return 2;
  return a->f < b->f ? -1 : a->f > b->f;
}

static bool class_compares_fields(const PyClass *cls) { return cls->is_dataclass || cls->is_aggregate || cls->is_enum; }

bool py_in(const Py *x, const Py *sequence) {
  for (int i = 0; i < sequence->tuple.n; i++)
    if (py_equal(x, sequence->tuple.at[i])) return true;
  return false;
}

bool py_equal(const Py *a, const Py *b) {
  stack_guard();
  if (py_is_number(a) && py_is_number(b)) return py_number_order(a, b) == 0;
  if (a->kind != b->kind) return false;
  switch (a->kind) {
    case PY_NONE:
    case PY_VOID:
    case PY_ELLIPSIS:
    case PY_CONSTEXPR_TYPE: return true;
    case PY_STR: return a->str.n == b->str.n && !memcmp(a->str.s, b->str.s, a->str.n);
    case PY_TUPLE:
      if (a->tuple.n != b->tuple.n || a->tuple.is_list != b->tuple.is_list || a->tuple.is_set != b->tuple.is_set)
        return false;
      for (int i = 0; i < a->tuple.n; i++)
        if (a->tuple.is_set ? !py_in(a->tuple.at[i], b) : !py_equal(a->tuple.at[i], b->tuple.at[i])) return false;
      return true;
    case PY_DICT:
      if (a->dict.n != b->dict.n) return false;
      for (int i = 0; i < a->dict.n; i++) {
        Py *other = py_dict_get(b, a->dict.keys[i]);
        if (!other || !py_equal(a->dict.values[i], other)) return false;
      }
      return true;
    case PY_TYPE: return a->type == b->type;
    case PY_TENSOR: return a->value == b->value;
    case PY_FUNCTION: return a->fn == b->fn || a->fn->def == b->fn->def;
    case PY_BUILTIN: return a->builtin.b == b->builtin.b && a->builtin.self == b->builtin.self;
    case PY_MODULE: return a->module == b->module;
    case PY_LIBRARY: return !strcmp(a->library, b->library);
    case PY_CLASS: return a->cls == b->cls;
    case PY_HOST: return a->host.object == b->host.object;
    case PY_METHOD:
      return a->method.self == b->method.self && a->method.fn == b->method.fn && a->method.name == b->method.name;
    case PY_OBJECT: {
      if (a == b || a->object.fields == b->object.fields) return true;
      if (a->object.cls && !class_compares_fields(a->object.cls)) return false;
      if (a->object.cls != b->object.cls || map_count(a->object.fields) != map_count(b->object.fields)) return false;
      if (!a->object.cls && strcmp(a->object.cls_name, b->object.cls_name)) return false;
      for (int i = 0; i < map_count(a->object.fields); i++) {
        const void *k;
        void *v, *w;
        map_entry(a->object.fields, i, &k, &v);
        w = map_get(b->object.fields, k);
        if (!w || !py_equal(v, w)) return false;
      }
      return true;
    }
    default: return a == b;
  }
}

int py_truth_known(const Py *p) {
  switch (p->kind) {
    case PY_OBJECT: /* a method would have to be called */
      return p->object.cls &&
                     (map_get(p->object.cls->members, "__bool__") || map_get(p->object.cls->members, "__len__"))
                 ? -1
                 : 1;
    case PY_NONE: return 0;
    case PY_BOOL:
    case PY_INT: return p->i != 0;
    case PY_FLOAT: return p->f != 0;
    case PY_STR: return p->str.n != 0;
    case PY_TUPLE: return p->tuple.n != 0;
    case PY_DICT: return p->dict.n != 0;
    case PY_VOID:
    case PY_TENSOR:
    case PY_UNKNOWN: return -1;
    default: return 1;
  }
}

bool py_truth(Front *fr, Span at, const Py *p) {
  int known = py_truth_known(p);
  if (known < 0) diag_fail(fr->cx, at, "the truth of %s is not known at compile time", py_describe(fr, p));
  return known;
}

const char *py_class_name(const Py *p) {
  switch (p->kind) {
    case PY_NONE: return "NoneType";
    case PY_CLASS: return "type";
    case PY_VOID:
    case PY_BLOCK_PTR: return "tensor";
    case PY_DESC: return "tensor_descriptor";
    case PY_BUILTIN: return p->builtin.self ? "method" : "function";
    case PY_CONSTEXPR_TYPE: return "type";
    default: return py_kind_name(p);
  }
}

const char *py_kind_name(const Py *p) {
  switch (p->kind) {
    case PY_NONE: return "None";
    case PY_VOID: return "void";
    case PY_BOOL: return "bool";
    case PY_INT: return "int";
    case PY_FLOAT: return "float";
    case PY_STR: return "str";
    case PY_ELLIPSIS: return "ellipsis";
    case PY_TUPLE:
      return p->tuple.cls ? p->tuple.cls->name : p->tuple.is_set ? "set" : p->tuple.is_list ? "list" : "tuple";
    case PY_DICT: return "dict";
    case PY_TYPE: return "dtype";
    case PY_TENSOR: return "tensor";
    case PY_BLOCK_PTR: return "block pointer";
    case PY_DESC: return "tensor descriptor";
    case PY_FUNCTION: return "function";
    case PY_BUILTIN: return p->builtin.self ? "method" : "library function";
    case PY_MODULE:
    case PY_LIBRARY: return "module";
    case PY_CLASS: return "class";
    case PY_OBJECT: return p->object.cls ? p->object.cls->name : p->object.cls_name ? p->object.cls_name : "object";
    case PY_RANGE: return "range";
    case PY_SLICE: return "slice";
    case PY_CONSTEXPR_TYPE: return "tl.constexpr";
    case PY_METHOD: return "method";
    case PY_HOST: return p->host.is_module ? "module" : p->host.is_function ? "function" : "object";
    case PY_UNKNOWN: return "unknown value";
  }
  return "?";
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

void py_write_int(Buf *out, PyInt v) {
  char digits[48];
  int n = 0;
  unsigned __int128 u = v < 0 ? -(unsigned __int128)v : (unsigned __int128)v;
  do digits[n++] = (char)('0' + (int)(u % 10));
  while (u /= 10);
  if (v < 0) digits[n++] = '-';
  while (n) buf_putc(out, digits[--n]);
}

static void write_repr_string(Buf *out, const char *s, size_t n) {
  char quote = memchr(s, '\'', n) && !memchr(s, '"', n) ? '"' : '\'';
  buf_putc(out, quote);
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '\n') buf_puts(out, "\\n");
    else if (c == '\t') buf_puts(out, "\\t");
    else if (c == '\r') buf_puts(out, "\\r");
    else if (c == '\\' || c == (unsigned char)quote) buf_printf(out, "\\%c", c);
    else if (c < 32 || c == 127) buf_printf(out, "\\x%02x", c);
    else buf_putc(out, (char)c);
  }
  buf_putc(out, quote);
}

static void write_type(Buf *out, const Type *t) {
  if (t->ptr) buf_puts(out, "pointer<");
  if (t->rank || t->ptr > 1) type_print(out, t);
  else buf_puts(out, dtype_triton_name(t->dtype));
  if (t->ptr) buf_puts(out, ">");
}

void py_write(Buf *out, const Py *p, bool repr) {
  stack_guard();
  switch (p->kind) {
    case PY_NONE: buf_puts(out, "None"); break;
    case PY_VOID: buf_puts(out, "the void of an operation without a result"); break;
    case PY_BOOL: buf_puts(out, p->i ? "True" : "False"); break;
    case PY_INT: py_write_int(out, p->i); break;
    case PY_FLOAT: buf_double(out, p->f); break;
    case PY_STR:
      if (repr) write_repr_string(out, p->str.s, p->str.n);
      else buf_write(out, p->str.s, p->str.n);
      break;
    case PY_ELLIPSIS: buf_puts(out, "..."); break;
    case PY_TUPLE: {
      const PyClass *cls = p->tuple.cls;
      if (cls) buf_puts(out, cls->name);
      if (p->tuple.is_set && !p->tuple.n) buf_puts(out, "set");
      bool braces = p->tuple.is_set && p->tuple.n, brackets = p->tuple.is_list && !p->tuple.is_set;
      buf_putc(out, braces ? '{' : brackets ? '[' : '(');
      for (int i = 0; i < p->tuple.n; i++) {
        if (i) buf_puts(out, ", ");
        if (cls && i < cls->field_count) buf_printf(out, "%s=", cls->fields[i]);
        py_write(out, p->tuple.at[i], true);
      }
      if (p->tuple.n == 1 && !p->tuple.is_list && !cls) buf_putc(out, ',');
      buf_putc(out, braces ? '}' : brackets ? ']' : ')');
      break;
    }
    case PY_DICT:
      buf_putc(out, '{');
      for (int i = 0; i < p->dict.n; i++) {
        if (i) buf_puts(out, ", ");
        py_write(out, p->dict.keys[i], true);
        buf_puts(out, ": ");
        py_write(out, p->dict.values[i], true);
      }
      buf_putc(out, '}');
      break;
    case PY_TYPE: write_type(out, p->type); break;
    case PY_TENSOR:
      type_print(out, p->value->type);
      buf_puts(out, p->value->type->rank ? " tensor" : p->value->type->ptr ? " pointer" : " scalar");
      break;
    case PY_BLOCK_PTR:
    case PY_DESC:
      buf_puts(out, p->kind == PY_DESC ? "tensor descriptor of " : "block pointer to ");
      buf_puts(out, dtype_name(p->bp->base->type->dtype));
      buf_putc(out, '[');
      for (int i = 0; i < p->bp->rank; i++) buf_printf(out, "%s%d", i ? ", " : "", p->bp->block_shape[i]);
      buf_putc(out, ']');
      break;
    case PY_FUNCTION: buf_printf(out, "function %s", p->fn->name); break;
    case PY_BUILTIN: buf_printf(out, "%s.%s", p->builtin.b->library, p->builtin.b->name); break;
    case PY_MODULE: buf_printf(out, "module %s", p->module->path); break;
    case PY_LIBRARY: buf_printf(out, "module %s", p->library); break;
    case PY_CLASS: buf_printf(out, "class %s", p->cls->name); break;
    case PY_OBJECT: {
      Py *value = p->object.cls ? NULL : map_get(p->object.fields, "value");
      if (!value) buf_printf(out, "%s object", py_kind_name(p));
      else {
        buf_printf(out, "%s[", p->object.cls_name);
        py_write(out, value, true);
        buf_putc(out, ']');
      }
      break;
    }
    case PY_RANGE: buf_puts(out, "range"); break;
    case PY_SLICE: buf_puts(out, "slice"); break;
    case PY_CONSTEXPR_TYPE: buf_puts(out, "tl.constexpr"); break;
    case PY_METHOD: buf_printf(out, "method %s of %s", p->method.name, py_kind_name(p->method.self)); break;
    case PY_HOST: buf_printf(out, "%s", p->host.what); break;
    case PY_UNKNOWN: buf_printf(out, "%s", p->library); break;
  }
}

static const char *text_of(Front *fr, const Py *p, bool repr) {
  Buf b = {.arena = fr->cx->arena};
  py_write(&b, p, repr);
  const char *s = b.at ? arena_strndup(fr->cx->arena, b.at, b.n) : "";
  buf_destroy(&b);
  return s;
}

const char *py_describe(Front *fr, const Py *p) { return text_of(fr, p, true); }
const char *py_text(Front *fr, const Py *p) { return text_of(fr, p, false); }

/* ---- compound values --------------------------------------------------------------------------------------------- */

typedef struct Parts {
  Front *fr;
  Value **at;
  int n;
} Parts;

static void put_part(Parts *out, Value *v) {
  if ((out->n & (out->n - 1)) == 0) {
    Value **at = NEW_N(out->fr->cx->arena, Value *, out->n ? 2 * out->n : 1);
    if (out->n) memcpy(at, out->at, sizeof(Value *) * (size_t)out->n);
    out->at = at;
  }
  out->at[out->n++] = v;
}

static void flatten(Parts *out, const Py *p) {
  stack_guard();
  switch (p->kind) {
    case PY_TENSOR: put_part(out, p->value); break;
    case PY_BLOCK_PTR:
    case PY_DESC:
      put_part(out, p->bp->base);
      for (int i = 0; i < p->bp->rank; i++) put_part(out, p->bp->shape[i]);
      for (int i = 0; i < p->bp->rank; i++) put_part(out, p->bp->strides[i]);
      if (p->kind == PY_BLOCK_PTR)
        for (int i = 0; i < p->bp->rank; i++) put_part(out, p->bp->offsets[i]);
      break;
    case PY_TUPLE:
      for (int i = 0; i < p->tuple.n; i++) flatten(out, p->tuple.at[i]);
      break;
    case PY_OBJECT:
      for (int i = 0; i < map_count(p->object.fields); i++) {
        const void *k;
        void *v;
        map_entry(p->object.fields, i, &k, &v);
        flatten(out, v);
      }
      break;
    default: break;
  }
}

void py_flatten(Front *fr, const Py *p, Value ***values, int *n) {
  Parts parts = {fr, NULL, 0};
  for (int i = 0; i < *n; i++) put_part(&parts, (*values)[i]);
  flatten(&parts, p);
  *values = parts.at;
  *n = parts.n;
}

Py *py_unflatten(Front *fr, const Py *like, Value *const *values, int *used) {
  stack_guard();
  switch (like->kind) {
    case PY_TENSOR: return py_tensor(fr, values[(*used)++]);
    case PY_BLOCK_PTR:
    case PY_DESC: {
      Py *p = make(fr, like->kind);
      p->bp = arena_copy(fr->cx->arena, like->bp, sizeof *like->bp);
      p->bp->base = values[(*used)++];
      for (int i = 0; i < p->bp->rank; i++) p->bp->shape[i] = values[(*used)++];
      for (int i = 0; i < p->bp->rank; i++) p->bp->strides[i] = values[(*used)++];
      if (like->kind == PY_BLOCK_PTR)
        for (int i = 0; i < p->bp->rank; i++) p->bp->offsets[i] = values[(*used)++];
      return p;
    }
    case PY_TUPLE: {
      if (!py_is_runtime(like)) return (Py *)like;
      Py *p = py_tuple(fr, like->tuple.n, like->tuple.at);
      p->tuple.is_list = like->tuple.is_list;
      p->tuple.cls = like->tuple.cls;
      for (int i = 0; i < p->tuple.n; i++) p->tuple.at[i] = py_unflatten(fr, like->tuple.at[i], values, used);
      return p;
    }
    case PY_OBJECT: {
      if (!py_is_runtime(like)) return (Py *)like;
      Py *p = py_object(fr, like->object.cls, like->object.cls_name);
      for (int i = 0; i < map_count(like->object.fields); i++) {
        const void *k;
        void *v;
        map_entry(like->object.fields, i, &k, &v);
        map_put(p->object.fields, k, py_unflatten(fr, v, values, used));
      }
      return p;
    }
    default: return (Py *)like;
  }
}

/* Named tuples are of one type when their fields are called alike. */
bool py_same_fields(const PyClass *a, const PyClass *b) {
  if (a == b) return true;
  if (!a || !b || a->field_count != b->field_count) return false;
  for (int i = 0; i < a->field_count; i++)
    if (strcmp(a->fields[i], b->fields[i])) return false;
  return true;
}

bool py_same_type(const Py *a, const Py *b) {
  stack_guard();
  if (a->kind != b->kind) return false;
  switch (a->kind) {
    case PY_TENSOR: return a->value->type == b->value->type;
    case PY_BLOCK_PTR:
    case PY_DESC:
      if (a->bp->rank != b->bp->rank || a->bp->base->type != b->bp->base->type ||
          a->bp->nan_padding != b->bp->nan_padding)
        return false;
      for (int i = 0; i < a->bp->rank; i++)
        if (a->bp->block_shape[i] != b->bp->block_shape[i] || a->bp->strides[i]->type != b->bp->strides[i]->type ||
            a->bp->shape[i]->type != b->bp->shape[i]->type)
          return false;
      return true;
    case PY_TUPLE:
      if (a->tuple.n != b->tuple.n || !py_same_fields(a->tuple.cls, b->tuple.cls)) return false;
      for (int i = 0; i < a->tuple.n; i++)
        if (!py_same_type(a->tuple.at[i], b->tuple.at[i])) return false;
      return true;
    case PY_OBJECT:
      if (a->object.cls != b->object.cls || map_count(a->object.fields) != map_count(b->object.fields)) return false;
      for (int i = 0; i < map_count(a->object.fields); i++) {
        const void *k;
        void *v, *w;
        map_entry(a->object.fields, i, &k, &v);
        w = map_get(b->object.fields, k);
        if (!w || !py_same_type(v, w)) return false;
      }
      return true;
    default: return py_equal(a, b);
  }
}

/* ---- iteration --------------------------------------------------------------------------------------------------- */

Py *py_items(Front *fr, Py *x) {
  switch (x->kind) {
    case PY_TUPLE: {
      if (!x->tuple.is_iterator) return x;
      Py *rest = py_tuple(fr, x->tuple.n, x->tuple.at);
      x->tuple.n = 0;
      return rest;
    }
    case PY_DICT: return py_tuple(fr, x->dict.n, x->dict.keys);
    case PY_STR: {
      if (!py_is_ascii(x)) return NULL;
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

NORETURN void py_fail_declared(Front *fr, Span at, const Py *p) {
  const char *name = p->kind == PY_TENSOR ? p->value->name : NULL;
  diag_fail_hint(fr->cx, at, "leave out the annotation",
                 "%s was declared tl.constexpr, but is known only at run time (%s)",
                 name ? arena_printf(fr->cx->arena, "`%s`", name) : "a value", py_describe(fr, p));
}
