/* Python's own functions and methods, math, and where names of torch are looked up. */
#include <math.h>
#include <stdlib.h>

#include "graph/read/object.h"

static const char *const python_names[] = {
    "len",     "range",  "int",      "float",    "bool",       "str",  "tuple",     "list",       "dict",    "abs",
    "min",     "max",    "sum",      "any",      "all",        "zip",  "enumerate", "isinstance", "hasattr", "getattr",
    "setattr", "print",  "reversed", "sorted",   "round",      "type", "slice",     "object",     "divmod",  "complex",
    "map",     "filter", "set",      "callable", "issubclass", "iter", "next",      "pow",        NULL};

Object *builtin_name(Reader *r, const char *name) {
  if (!strcmp(name, "math") || !strcmp(name, "torch") || !strcmp(name, "prim")) return object_path(r, name);
  for (int i = 0; python_names[i]; i++)
    if (!strcmp(python_names[i], name)) return object_path(r, arena_printf(r->cx->arena, "python.%s", name));
  return NULL;
}

Object *path_value(Reader *r, const char *path) {
  const char *last = strrchr(path, '.');
  if (!last) return NULL;
  last++;
  Dtype t;
  if (!strncmp(path, "torch.", 6) && last == path + 6) {
    if (!strcmp(last, "complex64") || !strcmp(last, "cfloat")) return object_complex_dtype(r, DT_F32);
    if (!strcmp(last, "complex128") || !strcmp(last, "cdouble")) return object_complex_dtype(r, DT_F64);
    if (!strcmp(last, "bool")) return object_dtype(r, DT_I1);
    if (dtype_parse(last, &t) && (strpbrk(last, "0123456789") || !strcmp(last, "long") || !strcmp(last, "int") ||
                                  !strcmp(last, "float") || !strcmp(last, "half") || !strcmp(last, "double")))
      return object_dtype(r, t);
  }
  if (strncmp(path, "math.", 5) && strncmp(path, "torch.", 6) && strncmp(path, "numpy.", 6)) return NULL;
  if (strchr(path, '.') + 1 != last) return NULL;
  if (!strcmp(last, "pi")) return object_float(r, 3.14159265358979323846);
  if (!strcmp(last, "e")) return object_float(r, 2.71828182845904523536);
  if (!strcmp(last, "inf")) return object_float(r, INFINITY);
  if (!strcmp(last, "nan")) return object_float(r, NAN);
  return NULL;
}

/* ---- names of torch ---------------------------------------------------------------------------------------------- */

Object *library_named(Reader *r, const char *name) { return map_get(r->library->names, intern_z(r->cx, name)); }

static Object *first_of(Reader *r, const char *const *prefixes, const char *name) {
  for (; *prefixes; prefixes++) {
    Object *f = library_named(r, arena_printf(r->cx->arena, "%s%s", *prefixes, name));
    if (f) return f;
  }
  return NULL;
}

Object *library_function(Reader *r, const char *path) {
  Arena *a = r->cx->arena;
  if (!strncmp(path, "torch.ops.", 10)) {
    const char *name = strchr(path + 10, '.'), *overload = name ? strchr(name + 1, '.') : NULL;
    if (!name) return NULL;
    const char *plain = overload ? arena_strndup(a, name + 1, (size_t)(overload - name - 1)) : name + 1;
    const char *const aten[] = {"aten_", "", NULL}, *const prims[] = {"prims_", "", NULL};
    const char *const *prefixes = !strncmp(path + 10, "aten.", 5) ? aten : prims;
    Object *f = overload && strcmp(overload, ".default")
                    ? library_named(r, arena_printf(a, "%s%s_%s", *prefixes, plain, overload + 1))
                    : NULL;
    if (!f) f = first_of(r, prefixes, plain);
    return f || strncmp(plain, "special_", 8) ? f : library_named(r, plain + 8);
  }
  static const struct {
    const char *prefix;
    const char *const find[4];
  } places[] = {{"torch.nn.functional.", {"F_", "", NULL}},
                {"torch.nn.init.", {"init_", NULL}},
                {"torch.nn.utils.parametrizations.", {"parametrizations_", NULL}},
                {"torch.nn.utils.", {"utils_", NULL}},
                {"torch.nn.", {"nn_", "", NULL}},
                {"torch.special.", {"", NULL}},
                {"torch.Tensor.", {"tensor_", "", NULL}},
                {"torch.linalg.", {"linalg_", NULL}},
                {"torch.fft.", {"fft_", NULL}},
                {"torch.optim.", {"optim_", NULL}},
                {"torch.autograd.", {"autograd_", NULL}},
                {"torch.profiler.", {"profiler_", NULL}},
                {"torch.", {"torch_", "", NULL}}};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    size_t n = strlen(places[i].prefix);
    if (!strncmp(path, places[i].prefix, n))
      return strchr(path + n, '.') ? NULL : first_of(r, places[i].find, path + n);
  }
  return NULL;
}

static const char *nearest(Reader *r, const char *path) {
  const char *last = strrchr(path, '.');
  VEC(const char *) names = {0};
  if (!strncmp(path, "torch.ops.", 10)) {
    last = strchr(path + 10, '.');
    const char *overload = last ? strchr(last + 1, '.') : NULL;
    if (overload) last = arena_strndup(r->cx->arena, last, (size_t)(overload - last));
  }
  for (int i = 0; i < map_count(r->library->names); i++) {
    const void *key;
    void *v;
    map_entry(r->library->names, i, &key, &v);
    bool is_class = *(const char *)key >= 'A' && *(const char *)key <= 'Z';
    if (last && is_class == (last[1] >= 'A' && last[1] <= 'Z')) vec_push(r->cx->arena, &names, (const char *)key);
  }
  vec_push(r->cx->arena, &names, NULL);
  return last ? nearest_name(last + 1, names.at) : NULL;
}

/* ---- functions of Python ----------------------------------------------------------------------------------------- */

static bool is_a(Reader *r, Span at, const Object *x, const Object *type) {
  stack_guard();
  if (type->kind == O_TUPLE) {
    for (int i = 0; i < type->list.n; i++)
      if (is_a(r, at, x, type->list.at[i])) return true;
    return false;
  }
  if (type->kind == O_CLASS) {
    Object *c = x->kind == O_OBJECT ? x->object.cls : NULL;
    while (c && c != type) c = c->cls.base;
    return c != NULL;
  }
  if (type->kind != O_PATH) read_fail(r, at, "isinstance of %s", object_describe(r, type));
  const char *last = strrchr(type->s, '.');
  const char *t = last ? last + 1 : type->s;
  if (!strcmp(t, "int") || !strcmp(t, "SymInt")) return x->kind == O_INT || x->kind == O_BOOL || x->kind == O_SIZE;
  if (!strcmp(t, "float")) return x->kind == O_FLOAT;
  if (!strcmp(t, "Number") || !strcmp(t, "number")) return object_is_number(x) || x->kind == O_SIZE;
  if (!strcmp(t, "bool")) return x->kind == O_BOOL;
  if (!strcmp(t, "str")) return x->kind == O_STR;
  if (!strcmp(t, "tuple")) return x->kind == O_TUPLE;
  if (!strcmp(t, "list")) return x->kind == O_LIST;
  if (!strcmp(t, "dict")) return x->kind == O_DICT;
  if (!strcmp(t, "Tensor") || !strcmp(t, "Parameter")) return x->kind == O_TENSOR || complex_is_tensor(x);
  if (!strcmp(t, "complex")) return x->kind == O_COMPLEX && !complex_is_tensor(x);
  Object *c = library_function(r, type->s);
  if (c && c->kind == O_CLASS) return is_a(r, at, x, c);
  return false;
}

static Object *range(Reader *r, const Args *a) {
  int64_t from = a->n > 1 ? want_int(r, a->span, a->at[0], "range's start") : 0;
  int64_t to = want_int(r, a->span, a->at[a->n > 1], "range's end");
  int64_t step = a->n > 2 ? want_int(r, a->span, a->at[2], "range's step") : 1;
  if (!step) read_fail(r, a->span, "range with a step of 0");
  Object *out = object_new(r, O_LIST);
  for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
    context_step(r->cx, 1);
    object_append(r, out, object_int(r, i));
  }
  return out;
}

/* The argument of a keyword; NULL: there is none, or it is None. */
static Object *keyword(const Args *a, const char *name) {
  for (int i = 0; i < a->kw_n; i++)
    if (!strcmp(a->names[i], name)) return a->values[i]->kind == O_NONE ? NULL : a->values[i];
  return NULL;
}

/* What `key=` makes of an item. */
static Object *keyed(Reader *r, const Args *a, Object *key, Object *x) {
  return key ? call_values(r, a->span, key, 1, &x) : x;
}

static Object *extreme(Reader *r, const Args *a, PyOp op) {
  Object *items = a->n == 1 ? want_items(r, a->span, a->at[0]) : NULL, *key = keyword(a, "key");
  int n = items ? items->list.n : a->n;
  Object *const *at = items ? items->list.at : a->at;
  Object *best = n ? at[0] : keyword(a, "default");
  if (!best) read_fail(r, a->span, "the largest or smallest of nothing");
  for (int i = 1; i < n; i++) {
    Object *is = op_compare(r, a->span, op, keyed(r, a, key, at[i]), keyed(r, a, key, best));
    if (object_truth(r, a->span, is)) best = at[i];
  }
  return best;
}

static Object *zip(Reader *r, const Args *a) {
  Object *out = object_new(r, O_LIST), **lists = NEW_N(r->cx->arena, Object *, a->n + 1);
  int n = a->n ? INT32_MAX : 0;
  for (int i = 0; i < a->n; i++) {
    lists[i] = want_items(r, a->span, a->at[i]);
    if (lists[i]->list.n < n) n = lists[i]->list.n;
  }
  for (int k = 0; k < n; k++) {
    Object *row = object_new(r, O_TUPLE);
    for (int i = 0; i < a->n; i++) object_append(r, row, lists[i]->list.at[k]);
    object_append(r, out, row);
  }
  return out;
}

static Object *to_int(Reader *r, const Args *a) {
  Object *x = a->n ? a->at[0] : object_int(r, 0);
  if (x->kind == O_SIZE) return x;
  if (x->kind == O_STR) return object_int(r, strtoll(x->s, NULL, 10));
  if (!object_is_number(x)) read_fail(r, a->span, "int of %s", object_describe(r, x));
  return object_int(r, x->kind == O_FLOAT ? (int64_t)x->f : x->i);
}

static Object *to_complex(Reader *r, const Args *a) {
  double of[2] = {0};
  if (a->n == 1 && a->at[0]->kind == O_COMPLEX && !complex_is_tensor(a->at[0])) return a->at[0];
  for (int i = 0; i < a->n; i++) {
    if (!object_is_number(a->at[i])) read_fail(r, a->span, "complex of %s", object_describe(r, a->at[i]));
    of[i] = object_double(a->at[i]);
  }
  return complex_number(r, of[0], of[1]);
}

static Object *to_float(Reader *r, const Args *a) {
  Object *x = a->n ? a->at[0] : object_int(r, 0);
  if (x->kind == O_STR) return object_float(r, text_to_double(x->s, NULL));
  if (!object_is_number(x)) read_fail(r, a->span, "float of %s", object_describe(r, x));
  return object_float(r, object_double(x));
}

static bool attribute_there(Reader *r, Span at, Object *x, const char *name) {
  if (x->kind != O_PATH) return find_attribute(r, at, x, intern_z(r->cx, name)) != NULL;
  const char *path = arena_printf(r->cx->arena, "%s.%s", x->s, name); /* hasattr(F, "scaled_dot_product_attention") */
  return path_value(r, path) || library_function(r, path);
}

static Object *first(Reader *r, const Args *a) { return a->n ? a->at[0] : r->none; }

static Object *len(Reader *r, const Args *a) {
  Object *x = first(r, a);
  if (complex_is_tensor(x)) x = x->parts.real;
  if (x->kind == O_TENSOR && x->tensor->rank) return object_size(r, x->tensor->size[0]);
  Object *said = call_special(r, a->span, x, "__len__", NULL);
  if (said) return said;
  return object_int(r, x->kind == O_DICT ? x->dict.n : want_items(r, a->span, x)->list.n);
}

static Object *to_bool(Reader *r, const Args *a) { return object_bool(r, object_truth(r, a->span, first(r, a))); }
static Object *to_str(Reader *r, const Args *a) { return object_str(r, object_text(r, first(r, a))); }

static Object *sequence(Reader *r, const Args *a, ObjectKind kind) {
  Object *items = a->n ? want_items(r, a->span, a->at[0]) : NULL;
  return object_list(r, kind, items ? items->list.n : 0, items ? items->list.at : NULL);
}

static Object *to_tuple(Reader *r, const Args *a) { return sequence(r, a, O_TUPLE); }
static Object *to_list(Reader *r, const Args *a) { return sequence(r, a, O_LIST); }

static Object *to_iterator(Reader *r, const Args *a) { return sequence(r, a, O_LIST); }

/* The first of what an iterator has left, which next() takes from it; all that yields is a list here. */
static Object *next(Reader *r, const Args *a) {
  Object *x = a->at[0];
  if (x->kind != O_LIST) read_fail(r, a->span, "next of %s", object_describe(r, x));
  if (!x->list.n && a->n > 1) return a->at[1];
  if (!x->list.n) read_fail(r, a->span, "next of an iterator that has nothing left");
  Object *first = x->list.at[0];
  x->list.n--;
  for (int i = 0; i < x->list.n; i++) x->list.at[i] = x->list.at[i + 1];
  return first;
}

static Object *div_mod(Reader *r, const Args *a) {
  Object *pair[] = {op_binary(r, a->span, PYOP_FLOOR_DIV, a->at[0], a->at[1]),
                    op_binary(r, a->span, PYOP_MOD, a->at[0], a->at[1])};
  return object_list(r, O_TUPLE, 2, pair);
}

static Object *power(Reader *r, const Args *a) { return op_binary(r, a->span, PYOP_POW, a->at[0], a->at[1]); }

static Object *to_dict(Reader *r, const Args *a) {
  Object *out = object_new(r, O_DICT);
  Object *from = a->n ? a->at[0] : out, *pairs = from->kind == O_DICT ? NULL : want_items(r, a->span, from);
  for (int i = 0; !pairs && i < from->dict.n; i++) dict_put(r, out, from->dict.keys[i], from->dict.values[i]);
  for (int i = 0; pairs && i < pairs->list.n; i++) {
    Object *pair = want_items(r, a->span, pairs->list.at[i]);
    if (pair->list.n != 2) read_fail(r, a->span, "dict of an item that is no pair");
    dict_put(r, out, pair->list.at[0], pair->list.at[1]);
  }
  for (int i = 0; i < a->kw_n; i++) dict_put(r, out, object_str(r, a->names[i]), a->values[i]);
  return out;
}

static Object *absolute(Reader *r, const Args *a) {
  Object *x = first(r, a);
  if (x->kind == O_COMPLEX && !complex_is_tensor(x)) return object_float(r, hypot(x->parts.real->f, x->parts.imag->f));
  if (x->kind == O_TENSOR || x->kind == O_COMPLEX) return call_values(r, a->span, library_named(r, "abs"), 1, &x);
  if (x->kind == O_FLOAT) return object_float(r, fabs(x->f));
  int64_t v = want_int(r, a->span, x, "abs' argument");
  return object_int(r, v < 0 ? -v : v);
}

static Object *least(Reader *r, const Args *a) { return extreme(r, a, PYOP_LT); }
static Object *greatest(Reader *r, const Args *a) { return extreme(r, a, PYOP_GT); }

static Object *sum(Reader *r, const Args *a) {
  Object *items = want_items(r, a->span, first(r, a)), *out = a->n > 1 ? a->at[1] : object_int(r, 0);
  for (int i = 0; i < items->list.n; i++) out = op_binary(r, a->span, PYOP_ADD, out, items->list.at[i]);
  return out;
}

/* Whether there is an item that is so. */
static bool has_item(Reader *r, const Args *a, bool truth) {
  Object *items = want_items(r, a->span, first(r, a));
  for (int i = 0; i < items->list.n; i++)
    if (object_truth(r, a->span, items->list.at[i]) == truth) return true;
  return false;
}

static Object *any(Reader *r, const Args *a) { return object_bool(r, has_item(r, a, true)); }
static Object *all(Reader *r, const Args *a) { return object_bool(r, !has_item(r, a, false)); }

static Object *enumerate(Reader *r, const Args *a) {
  Object *n = object_new(r, O_LIST), *items = want_items(r, a->span, first(r, a));
  Object *start = a->n > 1 ? a->at[1] : keyword(a, "start");
  int64_t from = start ? want_int(r, a->span, start, "enumerate's start") : 0;
  for (int i = 0; i < items->list.n; i++) object_append(r, n, object_int(r, from + i));
  return zip(r, &(Args){.span = a->span, .n = 2, .at = (Object *[]){n, items}});
}

static Object *is_instance(Reader *r, const Args *a) { return object_bool(r, is_a(r, a->span, a->at[0], a->at[1])); }

static Object *has_attribute(Reader *r, const Args *a) {
  return object_bool(r, attribute_there(r, a->span, a->at[0], object_text(r, a->at[1])));
}

static Object *get_attribute(Reader *r, const Args *a) {
  const char *name = intern_z(r->cx, object_text(r, a->at[1]));
  return a->n < 3 || attribute_there(r, a->span, a->at[0], name) ? eval_attribute(r, a->span, a->at[0], name)
                                                                 : a->at[2];
}

static Object *set_attribute(Reader *r, const Args *a) {
  if (a->at[0]->kind != O_OBJECT) read_fail(r, a->span, "setattr of %s", object_describe(r, a->at[0]));
  map_put(a->at[0]->object.fields, intern_z(r->cx, object_text(r, a->at[1])), a->at[2]);
  return r->none;
}

static Object *print(Reader *r, const Args *a) { return r->none; }

static Object *reversed(Reader *r, const Args *a) {
  Object *items = want_items(r, a->span, first(r, a)), *out = object_new(r, O_LIST);
  for (int i = items->list.n - 1; i >= 0; i--) object_append(r, out, items->list.at[i]);
  return out;
}

static Object *sorted(Reader *r, const Args *a) {
  Object *items = want_items(r, a->span, first(r, a)), *key = keyword(a, "key"), *turned = keyword(a, "reverse");
  Object *out = object_list(r, O_LIST, items->list.n, items->list.at);
  PyOp before = turned && object_truth(r, a->span, turned) ? PYOP_GT : PYOP_LT;
  for (int i = 1; i < out->list.n; i++)
    for (int k = i; k > 0; k--) {
      Object **p = &out->list.at[k - 1], *t = p[0];
      Object *is = op_compare(r, a->span, before, keyed(r, a, key, p[1]), keyed(r, a, key, p[0]));
      if (!object_truth(r, a->span, is)) break;
      p[0] = p[1];
      p[1] = t;
    }
  return out;
}

/* Without a number of digits an integer. */
static Object *rounded(Reader *r, const Args *a) {
  Object *x = a->at[0], *digits = a->n > 1 ? a->at[1] : keyword(a, "ndigits");
  if (x->kind == O_TENSOR) return call_values(r, a->span, library_named(r, "round"), a->n, a->at);
  if (!object_is_number(x)) read_fail(r, a->span, "round of %s", object_describe(r, x));
  if (!digits) return object_int(r, (int64_t)rint(object_double(x)));
  double scale = pow(10, (double)want_int(r, a->span, digits, "round's number of digits"));
  return x->kind == O_FLOAT ? object_float(r, rint(x->f * scale) / scale) : x;
}

static Object *mapped(Reader *r, const Args *a) {
  Object *out = object_new(r, O_LIST);
  Object *rows = zip(r, &(Args){.span = a->span, .n = a->n - 1, .at = a->at + 1});
  for (int i = 0; i < rows->list.n; i++)
    object_append(r, out, call_values(r, a->span, a->at[0], a->n - 1, rows->list.at[i]->list.at));
  return out;
}

static Object *filtered(Reader *r, const Args *a) {
  Object *out = object_new(r, O_LIST), *items = want_items(r, a->span, a->at[1]);
  for (int i = 0; i < items->list.n; i++) {
    Object *x = items->list.at[i], *is = keyed(r, a, a->at[0]->kind == O_NONE ? NULL : a->at[0], x);
    if (object_truth(r, a->span, is)) object_append(r, out, x);
  }
  return out;
}

/* A set: its items once each, in order. */
static Object *to_set(Reader *r, const Args *a) {
  Object *out = object_new(r, O_LIST), *items = sequence(r, a, O_LIST);
  for (int i = 0; i < items->list.n; i++) {
    bool there = false;
    for (int k = 0; k < out->list.n && !there; k++) there = object_equal(out->list.at[k], items->list.at[i]);
    if (!there) object_append(r, out, items->list.at[i]);
  }
  return out;
}

static Object *is_callable(Reader *r, const Args *a) {
  ObjectKind k = a->at[0]->kind;
  return object_bool(r, k == O_FUNCTION || k == O_METHOD || k == O_CLASS || k == O_PATH ||
                            (k == O_OBJECT && (class_find(a->at[0]->object.cls, "forward") ||
                                               class_find(a->at[0]->object.cls, "__call__"))));
}

static Object *is_subclass(Reader *r, const Args *a) {
  Object *c = a->at[0], *of = a->at[1];
  if (of->kind == O_PATH) of = library_function(r, of->s);
  if (c->kind != O_CLASS || !of || of->kind != O_CLASS) return r->no;
  while (c && c != of) c = c->cls.base;
  return object_bool(r, c != NULL);
}

static Object *type_of(Reader *r, const Args *a) {
  Object *x = a->at[0];
  if (x->kind == O_OBJECT) return x->object.cls;
  static const char *const names[] = {[O_BOOL] = "bool", [O_INT] = "int",     [O_FLOAT] = "float", [O_STR] = "str",
                                      [O_SIZE] = "int",  [O_TUPLE] = "tuple", [O_LIST] = "list",   [O_DICT] = "dict"};
  if (x->kind == O_TENSOR) return object_path(r, "torch.Tensor");
  const char *name = (size_t)x->kind < sizeof names / sizeof *names ? names[x->kind] : NULL;
  if (!name) read_fail(r, a->span, "type of %s", object_describe(r, x));
  return object_path(r, arena_printf(r->cx->arena, "python.%s", name));
}

static Object *slice(Reader *r, const Args *a) {
  Object *out = object_new(r, O_SLICE);
  out->slice.start = a->n > 1 ? a->at[0] : r->none;
  out->slice.stop = a->n > 1 ? a->at[1] : first(r, a);
  out->slice.step = a->n > 2 ? a->at[2] : r->none;
  return out;
}

enum { ANY = 1 << 20 }; /* arguments */

static const struct Function {
  const char *name;
  Object *(*run)(Reader *r, const Args *a);
  int least, most; /* arguments */
} functions[] = {
    {"len", len, 1, 1},
    {"range", range, 1, 3},
    {"int", to_int, 0, ANY},
    {"float", to_float, 0, ANY},
    {"complex", to_complex, 0, 2},
    {"bool", to_bool, 0, ANY},
    {"str", to_str, 0, ANY},
    {"tuple", to_tuple, 0, ANY},
    {"list", to_list, 0, ANY},
    {"dict", to_dict, 0, ANY},
    {"abs", absolute, 0, ANY},
    {"min", least, 0, ANY},
    {"max", greatest, 0, ANY},
    {"sum", sum, 0, ANY},
    {"any", any, 0, ANY},
    {"all", all, 0, ANY},
    {"zip", zip, 0, ANY},
    {"enumerate", enumerate, 0, ANY},
    {"isinstance", is_instance, 2, 2},
    {"hasattr", has_attribute, 2, 2},
    {"getattr", get_attribute, 2, 3},
    {"setattr", set_attribute, 3, 3},
    {"print", print, 0, ANY},
    {"reversed", reversed, 0, ANY},
    {"sorted", sorted, 0, ANY},
    {"round", rounded, 1, 2},
    {"map", mapped, 2, ANY},
    {"filter", filtered, 2, 2},
    {"set", to_set, 0, 1},
    {"callable", is_callable, 1, 1},
    {"issubclass", is_subclass, 2, 2},
    {"iter", to_iterator, 1, 1},
    {"next", next, 1, 2},
    {"divmod", div_mod, 2, 2},
    {"pow", power, 2, 2},
    {"type", type_of, 1, 1},
    {"slice", slice, 0, ANY},
};

static Object *python_call(Reader *r, const char *name, const Args *a) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    const struct Function *f = &functions[i];
    if (strcmp(f->name, name)) continue;
    if (a->n < f->least || a->n > f->most)
      read_fail(r, a->span, "%s takes %d arguments, and not %d", name, f->least, a->n);
    return f->run(r, a);
  }
  read_fail(r, a->span, "Python's %s is not supported here", name);
}

/* One function of math or numpy, of numbers. numpy gives floats and NaN where math gives integers and an error. */
static Object *math_call(Reader *r, const char *f, const Args *a, bool numpy) {
  static const struct {
    const char *name;
    double (*one)(double);
  } ones[] = {{"sqrt", sqrt},    {"exp", exp},     {"exp2", exp2},   {"expm1", expm1}, {"log", log},
              {"log2", log2},    {"log10", log10}, {"sin", sin},     {"cos", cos},     {"tan", tan},
              {"asin", asin},    {"acos", acos},   {"atan", atan},   {"sinh", sinh},   {"cosh", cosh},
              {"tanh", tanh},    {"asinh", asinh}, {"acosh", acosh}, {"atanh", atanh}, {"fabs", fabs},
              {"log1p", log1p},  {"cbrt", cbrt},   {"erf", erf},     {"erfc", erfc},   {"gamma", tgamma},
              {"lgamma", lgamma}};
  static const struct {
    const char *name;
    double (*two)(double, double);
  } twos[] = {{"pow", pow}, {"atan2", atan2}, {"hypot", hypot}, {"fmod", fmod}, {"copysign", copysign}};
  static const struct {
    const char *name;
    double (*whole)(double);
  } wholes[] = {{"floor", floor}, {"ceil", ceil}, {"trunc", trunc}};
  const char *of = numpy ? "numpy" : "math";
  if (!strcmp(f, "prod") && a->n == 1) {
    Object *items = want_items(r, a->span, a->at[0]), *out = object_int(r, 1);
    for (int i = 0; i < items->list.n; i++) out = op_binary(r, a->span, PYOP_MULT, out, items->list.at[i]);
    return out;
  }
  double x[2] = {0}, y = 0;
  for (int i = 0; i < a->n; i++) {
    if (!object_is_number(a->at[i])) read_fail(r, a->span, "%s.%s of %s", of, f, object_describe(r, a->at[i]));
    if (i < 2) x[i] = object_double(a->at[i]);
  }
  bool known = false;
  for (size_t i = 0; a->n == 1 && i < sizeof ones / sizeof *ones; i++)
    if (!strcmp(f, ones[i].name)) known = true, y = ones[i].one(x[0]);
  for (size_t i = 0; a->n == 2 && i < sizeof twos / sizeof *twos; i++)
    if (!strcmp(f, twos[i].name)) known = true, y = twos[i].two(x[0], x[1]);
  for (size_t i = 0; a->n == 1 && i < sizeof wholes / sizeof *wholes; i++)
    if (!strcmp(f, wholes[i].name)) {
      if (!numpy && fabs(x[0]) < 0x1p63) return object_int(r, (int64_t)wholes[i].whole(x[0]));
      known = numpy, y = wholes[i].whole(x[0]);
    }
  if (!numpy && a->n == 2 && !strcmp(f, "log")) known = true, y = log(x[0]) / log(x[1]);
  if (!known) read_fail(r, a->span, "%s.%s of %d numbers is not supported", of, f, a->n);
  bool finite = isfinite(x[0]) && isfinite(x[1]);
  if (!numpy && finite && !isfinite(y)) read_fail(r, a->span, "math.%s: %g is not in its domain", f, x[0]);
  return object_float(r, y);
}

static Object *numpy_call(Reader *r, const char *f, const Args *a) { /* its own names for some of them */
  static const char *const names[][2] = {{"abs", "fabs"},        {"absolute", "fabs"}, {"power", "pow"},
                                         {"float_power", "pow"}, {"arcsin", "asin"},   {"arccos", "acos"},
                                         {"arctan", "atan"},     {"arctan2", "atan2"}, {"arcsinh", "asinh"},
                                         {"arccosh", "acosh"},   {"arctanh", "atanh"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(f, names[i][0])) f = names[i][1];
  return math_call(r, f, a, true);
}

void refuse_complex(Reader *r, Span at, const char *path) {
  if (!strcmp(path, "torch.complex32") || !strcmp(path, "torch.chalf"))
    read_fail(r, at, "%s is not supported: complex numbers have parts of float32 or float64", path);
}

/* Of torch.relu_ and torch.ops.aten.mul_.Scalar, which write their first operand; else NULL. */
static Object *without_underscore(Reader *r, const char *path) {
  const char *dot = !strncmp(path, "torch.ops.", 10) ? strrchr(path, '.') : path + strlen(path);
  if (dot == path || dot[-1] != '_') return NULL;
  return library_function(r, arena_printf(r->cx->arena, "%.*s%s", (int)(dot - path - 1), path, dot));
}

/* What out= names gets the result, or each of several; an empty tensor becomes it. */
static void fill_out(Reader *r, Span at, const char *path, Object *out, Object *result) {
  stack_guard();
  bool several = result->kind == O_TUPLE || result->kind == O_LIST;
  if (several && (out->kind == O_TUPLE || out->kind == O_LIST) && out->list.n == result->list.n) {
    for (int i = 0; i < out->list.n; i++) fill_out(r, at, path, out->list.at[i], result->list.at[i]);
    return;
  }
  bool is_complex = complex_is_tensor(out);
  if (several || (out->kind != O_TENSOR && !is_complex))
    read_fail(r, at, "%s: out=%s for %s", path, object_describe(r, out), object_describe(r, result));
  Tensor *old = is_complex ? NULL : use_tensor(r, at, out);
  if (old && old->op != GRAPH_INPUT && graph_is_empty(r->g, old) && result->kind == O_TENSOR)
    out->tensor = graph_convert(r->g, use_tensor(r, at, result), old->dtype);
  else if (old && result->kind == O_TENSOR && !graph_same_shape(old, use_tensor(r, at, result)))
    read_fail(r, at, "%s: out= has another shape than the result", path);
  else write_result(r, at, out, "out=", result);
}

/* A function of PyTorch's, with out= or without. */
static Object *library_call(Reader *r, const char *path, Object *f, const Args *a) {
  int k = 0;
  while (k < a->kw_n && strcmp(a->names[k], "out")) k++;
  if (k == a->kw_n || f->kind != O_FUNCTION) return call(r, f, a);
  Args b = *a;
  b.names = NEW_N(r->cx->arena, const char *, b.kw_n);
  b.values = NEW_N(r->cx->arena, Object *, b.kw_n);
  b.kw_n = 0;
  for (int i = 0; i < a->kw_n; i++) {
    if (i == k) continue;
    b.names[b.kw_n] = a->names[i];
    b.values[b.kw_n++] = a->values[i];
  }
  Object *result = call(r, f, &b);
  if (a->values[k]->kind == O_NONE) return result;
  fill_out(r, a->span, path, a->values[k], result);
  return a->values[k];
}

Object *path_call(Reader *r, const char *path, const Args *a) {
  if (!strncmp(path, "python.", 7)) return python_call(r, path + 7, a);
  if (!strncmp(path, "math.", 5)) return math_call(r, path + 5, a, false);
  if (!strncmp(path, "numpy.", 6)) return numpy_call(r, path + 6, a);
  if (!strncmp(path, "prim.", 5)) return prim_call(r, path + 5, a);
  static const char *const modules[] = {"itertools.", "collections.", "functools.", "einops.", "copy."};
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) /* python_itertools_repeat of foreign.py */
    if (!strncmp(path, modules[i], strlen(modules[i]))) {
      char *name = arena_printf(r->cx->arena, "python_%s", path);
      for (char *c = name; *c; c++)
        if (*c == '.') *c = '_';
      Object *f = library_named(r, name);
      if (f) return call(r, f, a);
    }
  Object *f = library_function(r, path);
  if (f) return library_call(r, path, f, a);
  f = without_underscore(r, path);
  if (f && a->n && (a->at[0]->kind == O_TENSOR || complex_is_tensor(a->at[0]))) {
    write_result(r, a->span, a->at[0], strrchr(path, '.') + 1, call(r, f, a));
    return a->at[0];
  }
  refuse_complex(r, a->span, path);
  const char *near = nearest(r, path);
  Span at = r->g->place.source ? r->g->place : a->span;
  if (near) diag_fail_hint(r->cx, at, arena_printf(r->cx->arena, "did you mean %s?", near), "%s is not known", path);
  diag_fail(r->cx, at, "%s is not known", path);
}

/* ---- methods of Python's values ---------------------------------------------------------------------------------- */

static const struct {
  ObjectKind kind;
  const char *names;
} methods[] = {{O_LIST, " append extend insert pop index reverse copy count remove clear sort add "},
               {O_TUPLE, " index count numel "},
               {O_DICT, " get keys values items update pop setdefault copy clear "},
               {O_STR, " join split startswith endswith lower upper strip lstrip rstrip replace count isdigit "}};

bool has_method(const Object *x, const char *name) {
  char word[64];
  snprintf(word, sizeof word, " %s ", name);
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (methods[i].kind == x->kind && strstr(methods[i].names, word)) return true;
  return false;
}

static Object *list_method(Reader *r, Object *x, const char *f, const Args *a) {
  stack_guard();
  int n = x->list.n;
  if (!strcmp(f, "append") && a->n == 1) {
    object_append(r, x, a->at[0]);
    return r->none;
  }
  if (!strcmp(f, "extend") && a->n == 1) {
    Object *items = want_items(r, a->span, a->at[0]);
    for (int i = 0, m = items->list.n; i < m; i++) object_append(r, x, items->list.at[i]);
    return r->none;
  }
  if (!strcmp(f, "insert") && a->n == 2) {
    int64_t at = want_int(r, a->span, a->at[0], "insert's index");
    at = at < 0 ? at + n < 0 ? 0 : at + n : at > n ? n : at;
    object_append(r, x, a->at[1]);
    for (int64_t i = n; i > at; i--) x->list.at[i] = x->list.at[i - 1];
    x->list.at[at] = a->at[1];
    return r->none;
  }
  if (!strcmp(f, "pop") && n) {
    int64_t at = a->n ? want_int(r, a->span, a->at[0], "pop's index") : -1;
    if (at < -n || at >= n) read_fail(r, a->span, "index %lld of %d items", (long long)at, n);
    if (at < 0) at += n;
    Object *v = x->list.at[at];
    for (int64_t i = at; i + 1 < n; i++) x->list.at[i] = x->list.at[i + 1];
    x->list.n--;
    return v;
  }
  if (!strcmp(f, "copy")) return object_list(r, x->kind, n, x->list.at);
  if (!strcmp(f, "remove") && a->n == 1)
    for (int i = 0; i < n; i++)
      if (object_equal(x->list.at[i], a->at[0]))
        return list_method(r, x, "pop", &(Args){.span = a->span, .n = 1, .at = (Object *[]){object_int(r, i)}});
  if (!strcmp(f, "add") && a->n == 1) { /* of a set */
    for (int i = 0; i < n; i++)
      if (object_equal(x->list.at[i], a->at[0])) return r->none;
    object_append(r, x, a->at[0]);
    return r->none;
  }
  if (!strcmp(f, "sort") || !strcmp(f, "clear")) {
    Args of = *a;
    of.n = 1;
    of.at = &x;
    if (*f == 's') x->list = sorted(r, &of)->list;
    else x->list.n = 0;
    return r->none;
  }
  if (!strcmp(f, "numel")) {
    Object *out = object_int(r, 1);
    for (int i = 0; i < n; i++) out = op_binary(r, a->span, PYOP_MULT, out, x->list.at[i]);
    return out;
  }
  if (!strcmp(f, "reverse")) {
    for (int i = 0; i < n / 2; i++) {
      Object *t = x->list.at[i];
      x->list.at[i] = x->list.at[n - 1 - i];
      x->list.at[n - 1 - i] = t;
    }
    return r->none;
  }
  if (!strcmp(f, "index") || !strcmp(f, "count")) {
    int64_t found = 0;
    for (int i = 0; i < n && a->n; i++)
      if (object_equal(x->list.at[i], a->at[0])) {
        if (*f == 'i') return object_int(r, i);
        found++;
      }
    if (*f == 'c') return object_int(r, found);
  }
  read_fail(r, a->span, "%s() of a %s fails", f, object_kind(x));
}

static Object *dict_method(Reader *r, Object *x, const char *f, const Args *a) {
  bool pops = !strcmp(f, "pop"), sets = !strcmp(f, "setdefault");
  if ((!strcmp(f, "get") || pops || sets) && a->n) {
    Object *v = dict_get(x, a->at[0]), *other = a->n > 1 ? a->at[1] : r->none;
    if (!v && pops && a->n == 1) read_fail(r, a->span, "there is no key %s", object_describe(r, a->at[0]));
    if (v && pops) dict_remove(x, a->at[0]);
    if (!v && sets) dict_put(r, x, a->at[0], other);
    return v ? v : other;
  }
  if (!strcmp(f, "copy")) return to_dict(r, &(Args){.span = a->span, .n = 1, .at = &x});
  if (!strcmp(f, "clear")) {
    x->dict.n = 0;
    return r->none;
  }
  if (!strcmp(f, "update")) {
    const Object *from = to_dict(r, a);
    for (int i = 0; i < from->dict.n; i++) dict_put(r, x, from->dict.keys[i], from->dict.values[i]);
    return r->none;
  }
  Object *keys = object_list(r, O_LIST, x->dict.n, x->dict.keys),
         *values = object_list(r, O_LIST, x->dict.n, x->dict.values);
  if (!strcmp(f, "keys")) return keys;
  if (!strcmp(f, "values")) return values;
  return zip(r, &(Args){.span = a->span, .n = 2, .at = (Object *[]){keys, values}});
}

static Object *str_method(Reader *r, Object *x, const char *f, const Args *a) {
  const char *s = x->s, *what = a->n && a->at[0]->kind == O_STR ? a->at[0]->s : NULL;
  size_t n = strlen(s), m = what ? strlen(what) : 0;
  if (!strcmp(f, "startswith") && what) return object_bool(r, !strncmp(s, what, m));
  if (!strcmp(f, "endswith") && what) return object_bool(r, n >= m && !strcmp(s + n - m, what));
  if (!strcmp(f, "lower") || !strcmp(f, "upper")) {
    char *t = arena_strdup(r->cx->arena, s);
    for (char *c = t; *c; c++)
      if (*f == 'l' ? *c >= 'A' && *c <= 'Z' : *c >= 'a' && *c <= 'z') *c ^= 32;
    return object_str(r, t);
  }
  if (!strcmp(f, "strip") || !strcmp(f, "lstrip") || !strcmp(f, "rstrip")) {
    const char *off = what ? what : " \t\n\r";
    if (*f != 'r')
      while (n && strchr(off, *s)) s++, n--;
    if (*f != 'l')
      while (n && strchr(off, s[n - 1])) n--;
    return object_str(r, arena_strndup(r->cx->arena, s, n));
  }
  if (!strcmp(f, "isdigit")) return object_bool(r, n && strspn(s, "0123456789") == n);
  if (!strcmp(f, "join") && a->n == 1) {
    Object *items = want_items(r, a->span, a->at[0]);
    Buf b = {.arena = r->cx->arena};
    buf_puts(&b, "");
    for (int i = 0; i < items->list.n; i++) buf_printf(&b, "%s%s", i ? s : "", object_text(r, items->list.at[i]));
    return object_str(r, b.at ? b.at : "");
  }
  if (!strcmp(f, "split") && what && m) {
    Object *out = object_new(r, O_LIST);
    for (const char *end; (end = strstr(s, what)); s = end + m)
      object_append(r, out, object_str(r, arena_strndup(r->cx->arena, s, (size_t)(end - s))));
    object_append(r, out, object_str(r, s));
    return out;
  }
  if (!strcmp(f, "replace") && what && m && a->n == 2 && a->at[1]->kind == O_STR) {
    Buf b = {.arena = r->cx->arena};
    buf_puts(&b, "");
    for (const char *end; (end = strstr(s, what)); s = end + m) {
      buf_write(&b, s, (size_t)(end - s));
      buf_puts(&b, a->at[1]->s);
    }
    buf_puts(&b, s);
    return object_str(r, b.at ? b.at : "");
  }
  if (!strcmp(f, "count") && what && m) {
    int64_t found = 0;
    for (const char *at = s; (at = strstr(at, what)); at += m) found++;
    return object_int(r, found);
  }
  read_fail(r, a->span, "str.%s is not supported here", f);
}

Object *method_call(Reader *r, Object *self, const char *name, const Args *a) {
  if (self->kind == O_LIST || self->kind == O_TUPLE) return list_method(r, self, name, a);
  if (self->kind == O_DICT) return dict_method(r, self, name, a);
  if (self->kind == O_STR) return str_method(r, self, name, a);
  if (self->kind == O_SUPER || self->kind == O_OBJECT) return r->none; /* object's own __init__ */
  read_fail(r, a->span, "%s has no method '%s'", object_describe(r, self), name);
}
