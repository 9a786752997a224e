/* What host code sees of Python's library and of the machine: a few functions that real files call while they define
 * kernels, and answers to the questions they ask about their surroundings. Everything that is not here is unknown. */
#include "front/core.h"

#include <float.h>
#include <stdlib.h>

/* ---- constants by full name -------------------------------------------------------------------------------------- */

Py *host_library(Front *fr, const char *path) {
  if (!strcmp(path, "torch.version.hip") || !strcmp(path, "torch.version.xpu")) return py_none(fr);
  if (!strcmp(path, "torch.version.cuda")) return py_str(fr, "12.8");
  if (!strcmp(path, "torch.__version__")) return py_str(fr, "2.9.0");
  if (!strcmp(path, "triton.__version__")) return py_str(fr, "3.6.0");
  if (!strcmp(path, "sys.platform")) return py_str(fr, "linux");
  if (!strcmp(path, "sys.version_info")) {
    Py *parts[] = {py_int(fr, 3), py_int(fr, 12), py_int(fr, 0)};
    return py_tuple(fr, 3, parts);
  }
  if (!strcmp(path, "os.environ")) return py_dict(fr); /* as if nothing were set: a kernel must not depend on it */
  if (!strcmp(path, "typing.TYPE_CHECKING") || !strcmp(path, "typing_extensions.TYPE_CHECKING"))
    return py_bool(fr, false);
  if (!strcmp(path, "sys.maxsize")) return py_int(fr, INT64_MAX);
  /* clang-format off */
  static const char *const functions[] = {"functools.partial", "functools.reduce", "itertools.product",
    "itertools.chain", "collections.namedtuple", "collections.OrderedDict",
    "collections.defaultdict", "copy.deepcopy", "copy.copy", "os.getenv", "packaging.version.parse",
    "packaging.version.Version", "torch.finfo", "torch.iinfo"};
  /* clang-format on */
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (!strcmp(path, functions[i])) return py_unknown(fr, "%s", path);
  return NULL;
}

bool host_python(const char *name) {
  static const char *const names[] = {"sorted",
                                      "map",
                                      "filter",
                                      "set",
                                      "frozenset",
                                      "print",
                                      "dict",
                                      "callable",
                                      "next",
                                      "iter",
                                      "id",
                                      "hash",
                                      "open",
                                      "super",
                                      "object",
                                      "Exception",
                                      "ValueError",
                                      "TypeError",
                                      "ImportError",
                                      "RuntimeError",
                                      "NotImplementedError",
                                      "AssertionError",
                                      "KeyError",
                                      "staticmethod",
                                      "classmethod",
                                      "property",
                                      "globals",
                                      "locals"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i], name)) return true;
  return false;
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static Py *keyword(const Call *c, const char *name) {
  for (int i = 0; i < c->kw_n; i++)
    if (!strcmp(c->kw_names[i], name)) return c->kw_values[i];
  return NULL;
}

static Py *call_one(Front *fr, Py *fn, const Call *c, Py *x) {
  Call call = {.span = c->span, .arg_spans = NEW_N(fr->cx->arena, Span, 2), .n = 1, .args = &x};
  return host_call(fr, fn, &call);
}

static Py *product(Front *fr, const Call *c) {
  int n = c->n;
  Py **lists = NEW_N(fr->cx->arena, Py *, n + 1);
  int64_t total = 1;
  for (int i = 0; i < n; i++) {
    lists[i] = host_iterate(fr, c->args[i]);
    if (lists[i]->kind == PY_UNKNOWN) return lists[i];
    total *= lists[i]->tuple.n;
    if (total > 100000) return py_unknown(fr, "a product of too many items");
  }
  Py *out = py_list(fr, 0, NULL);
  for (int64_t k = 0; k < total; k++) {
    Py *row = py_tuple(fr, n, lists);
    int64_t rest = k;
    for (int i = n - 1; i >= 0; i--) {
      row->tuple.at[i] = lists[i]->tuple.at[rest % lists[i]->tuple.n];
      rest /= lists[i]->tuple.n;
    }
    py_append(fr, out, row);
  }
  return out;
}

static Py *named_tuple(Front *fr, const Call *c) {
  if (c->n < 2 || c->args[0]->kind != PY_STR) return py_unknown(fr, "a namedtuple");
  PyClass *cls = NEW(fr->cx->arena, PyClass);
  cls->name = c->args[0]->str.s;
  cls->module = fr->module;
  cls->is_namedtuple = true;
  cls->members = map_create(fr->cx->arena, true);
  Py *fields = c->args[1];
  if (fields->kind == PY_STR) {
    const char *why = NULL;
    Call none = {.span = c->span};
    Py *spaced = py_str_n(fr, fields->str.s, fields->str.n);
    for (char *s = (char *)spaced->str.s; *s; s++)
      if (*s == ',') *s = ' ';
    fields = py_call_method(fr, spaced, "split", &none, &why);
  }
  fields = fields ? py_items(fr, fields) : NULL;
  if (!fields) return py_unknown(fr, "a namedtuple");
  cls->field_count = fields->tuple.n;
  cls->fields = NEW_N(fr->cx->arena, const char *, cls->field_count + 1);
  cls->defaults = NEW_N(fr->cx->arena, Py *, cls->field_count + 1);
  for (int i = 0; i < cls->field_count; i++) cls->fields[i] = intern_z(fr->cx, py_text(fr, fields->tuple.at[i]));
  Py *defaults = keyword(c, "defaults");
  if (defaults && defaults->kind == PY_TUPLE)
    for (int i = 0; i < defaults->tuple.n && i < cls->field_count; i++)
      cls->defaults[cls->field_count - defaults->tuple.n + i] = defaults->tuple.at[i];
  Py *p = NEW(fr->cx->arena, Py);
  p->kind = PY_CLASS;
  p->cls = cls;
  return p;
}

static Py *version(Front *fr, Py *text) { /* "3.6.0+git1" as (3, 6, 0): compares as it should */
  if (text->kind != PY_STR) return text->kind == PY_UNKNOWN ? text : py_unknown(fr, "a version");
  Py *out = py_tuple(fr, 0, NULL);
  for (const char *s = text->str.s; *s >= '0' && *s <= '9';) {
    int v = 0;
    while (*s >= '0' && *s <= '9' && v < 100000000) v = v * 10 + (*s++ - '0');
    py_append(fr, out, py_int(fr, v));
    if (*s != '.') break;
    s++;
  }
  while (out->tuple.n < 3) py_append(fr, out, py_int(fr, 0));
  return out;
}

static Py *type_info(Front *fr, const Py *dtype, bool is_int) {
  if (dtype->kind != PY_TYPE || dtype->type->ptr || dtype->type->rank) return py_unknown(fr, "a dtype's limits");
  Dtype d = dtype->type->dtype;
  Py *o = py_object(fr, NULL, is_int ? "torch.iinfo" : "torch.finfo");
  int bits = dtype_bits(d);
  map_put(o->object.fields, "bits", py_int(fr, bits));
  if (is_int) {
    bool s = dtype_is_signed(d);
    PyInt max = ((PyInt)1 << (s ? bits - 1 : bits)) - 1;
    map_put(o->object.fields, "max", py_int(fr, max));
    map_put(o->object.fields, "min", py_int(fr, s ? -max - 1 : 0));
    return o;
  }
  double max, eps, tiny;
  switch (d) {
    case DT_F16: max = 65504, eps = 0x1p-10, tiny = 0x1p-14; break;
    case DT_BF16: max = 0x1.fep127, eps = 0x1p-7, tiny = 0x1p-126; break;
    case DT_F32: max = FLT_MAX, eps = FLT_EPSILON, tiny = FLT_MIN; break;
    case DT_F64: max = DBL_MAX, eps = DBL_EPSILON, tiny = DBL_MIN; break;
    case DT_F8E4NV: max = 448, eps = 0.125, tiny = 0x1p-6; break;
    case DT_F8E5: max = 57344, eps = 0.25, tiny = 0x1p-14; break;
    default: return py_unknown(fr, "a dtype's limits");
  }
  map_put(o->object.fields, "max", py_float(fr, max));
  map_put(o->object.fields, "min", py_float(fr, -max));
  map_put(o->object.fields, "eps", py_float(fr, eps));
  map_put(o->object.fields, "tiny", py_float(fr, tiny));
  map_put(o->object.fields, "smallest_normal", py_float(fr, tiny));
  return o;
}

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && !strcmp(s + n - m, end);
}

static Py *sequence(Front *fr, const char *name, const Call *c) { /* sorted, map, filter, set: eager here */
  bool by_function = !strcmp(name, "map") || !strcmp(name, "filter");
  Py *items = c->n > by_function ? host_iterate(fr, c->args[by_function])
              : by_function      ? py_unknown(fr, "%s", name)
                                 : py_tuple(fr, 0, NULL);
  if (items->kind == PY_UNKNOWN) return items;
  Py *out = py_list(fr, 0, NULL);
  if (by_function) {
    for (int i = 0; i < items->tuple.n; i++) {
      Py *v = call_one(fr, c->args[0], c, items->tuple.at[i]);
      if (name[0] == 'm') py_append(fr, out, v);
      else if (py_truth_known(v) != 0) py_append(fr, out, items->tuple.at[i]);
    }
    return out;
  }
  if (!strcmp(name, "sorted")) {
    out = py_list(fr, items->tuple.n, items->tuple.at);
    Py *keys = py_list(fr, items->tuple.n, items->tuple.at), *key = keyword(c, "key"), *reverse = keyword(c, "reverse");
    for (int i = 0; key && key->kind != PY_NONE && i < keys->tuple.n; i++)
      keys->tuple.at[i] = call_one(fr, key, c, items->tuple.at[i]);
    py_sort(fr, out, keys, reverse && py_truth_known(reverse) == 1);
    return out;
  }
  for (int i = 0; i < items->tuple.n; i++) {
    bool seen = false;
    for (int k = 0; k < out->tuple.n && !seen; k++) seen = py_equal(out->tuple.at[k], items->tuple.at[i]);
    if (!seen) py_append(fr, out, items->tuple.at[i]);
  }
  return out;
}

static Py *copy_of(Front *fr, Py *x, bool deep) {
  stack_guard();
  if (x->kind == PY_TUPLE) {
    Py *r = py_tuple(fr, x->tuple.n, x->tuple.at);
    r->tuple.is_list = x->tuple.is_list;
    r->tuple.cls = x->tuple.cls;
    for (int i = 0; deep && i < r->tuple.n; i++) r->tuple.at[i] = copy_of(fr, r->tuple.at[i], true);
    return r;
  }
  if (x->kind == PY_DICT) {
    Py *r = py_dict(fr);
    for (int i = 0; i < x->dict.n; i++)
      py_dict_put(fr, r, x->dict.keys[i], deep ? copy_of(fr, x->dict.values[i], true) : x->dict.values[i]);
    return r;
  }
  if (x->kind != PY_OBJECT) return x;
  Py *r = py_object(fr, x->object.cls, x->object.cls_name);
  for (int i = 0; i < map_count(x->object.fields); i++) {
    const void *k;
    void *v;
    map_entry(x->object.fields, i, &k, &v);
    map_put(r->object.fields, k, deep ? copy_of(fr, v, true) : v);
  }
  return r;
}

Py *host_library_call(Front *fr, const char *path, const Call *c, bool *known) {
  *known = true;
  Py *first = c->n ? c->args[0] : NULL;
  if (!strncmp(path, "python.", 7)) {
    const char *name = path + 7;
    if (!strcmp(name, "sorted") || !strcmp(name, "map") || !strcmp(name, "filter") || !strcmp(name, "set") ||
        !strcmp(name, "frozenset"))
      return sequence(fr, name, c);
    if (!strcmp(name, "print")) return py_none(fr);
    if (!strcmp(name, "dict")) {
      Py *d = first && first->kind == PY_DICT ? copy_of(fr, first, false) : py_dict(fr);
      if (first && first->kind == PY_TUPLE)
        for (int i = 0; i < first->tuple.n; i++) {
          Py *pair = first->tuple.at[i];
          if (pair->kind == PY_TUPLE && pair->tuple.n == 2) py_dict_put(fr, d, pair->tuple.at[0], pair->tuple.at[1]);
        }
      for (int i = 0; i < c->kw_n; i++) py_dict_put(fr, d, py_str(fr, c->kw_names[i]), c->kw_values[i]);
      return d;
    }
    if (!strcmp(name, "callable") && first)
      return first->kind == PY_UNKNOWN ? first
                                       : py_bool(fr, first->kind == PY_FUNCTION || first->kind == PY_BUILTIN ||
                                                         first->kind == PY_METHOD || first->kind == PY_CLASS);
    if (!strcmp(name, "iter") && first) return host_iterate(fr, first);
    if (!strcmp(name, "next") && first) {
      Py *items = host_iterate(fr, first);
      if (items->kind == PY_TUPLE && items->tuple.n) return items->tuple.at[0];
      return c->n > 1 ? c->args[1] : py_unknown(fr, "next() of nothing");
    }
    *known = false;
    return NULL;
  }
  if (!strncmp(path, "argument.zero_.", 15)) { /* autotune.c's argument_value: what hooks ask of arrays */
    vec_push(fr->cx->arena, &front_project(fr)->zeroed, atoi(path + 15));
    return py_none(fr);
  }
  if (!strncmp(path, "argument.element_size.", 22)) return py_int(fr, atoi(path + 22));
  if (!strncmp(path, "triton.ops.matmul_perf_model.", 29)) {
    Py *v = perf_model_call(fr, path + 29, c);
    *known = v != NULL;
    return v;
  }
  if (!strcmp(path, "functools.partial") && first) {
    Py *o = py_object(fr, NULL, "functools.partial"), *kw = py_dict(fr);
    for (int i = 0; i < c->kw_n; i++) py_dict_put(fr, kw, py_str(fr, c->kw_names[i]), c->kw_values[i]);
    map_put(o->object.fields, "__call__", first);
    map_put(o->object.fields, "args", py_tuple(fr, c->n - 1, c->args + 1));
    map_put(o->object.fields, "keywords", kw);
    return o;
  }
  if (!strcmp(path, "functools.reduce") && c->n >= 2) {
    Py *items = host_iterate(fr, c->args[1]);
    if (items->kind == PY_UNKNOWN) return items;
    int i = c->n > 2 ? 0 : 1;
    if (i && !items->tuple.n) return py_unknown(fr, "reduce of nothing");
    Py *v = c->n > 2 ? c->args[2] : items->tuple.at[0];
    for (; i < items->tuple.n; i++) {
      Py *args[] = {v, items->tuple.at[i]};
      Call call = {.span = c->span, .arg_spans = NEW_N(fr->cx->arena, Span, 3), .n = 2, .args = args};
      v = host_call(fr, first, &call);
    }
    return v;
  }
  if (!strcmp(path, "itertools.product")) return product(fr, c);
  if (!strcmp(path, "itertools.chain")) {
    Py *out = py_list(fr, 0, NULL);
    for (int i = 0; i < c->n; i++) {
      Py *items = host_iterate(fr, c->args[i]);
      if (items->kind == PY_UNKNOWN) return items;
      for (int k = 0; k < items->tuple.n; k++) py_append(fr, out, items->tuple.at[k]);
    }
    return out;
  }
  if (!strcmp(path, "collections.namedtuple")) return named_tuple(fr, c);
  if (!strcmp(path, "collections.OrderedDict") || !strcmp(path, "collections.defaultdict")) return py_dict(fr);
  if ((!strcmp(path, "copy.deepcopy") || !strcmp(path, "copy.copy")) && first)
    return copy_of(fr, first, path[5] == 'd');
  if (!strcmp(path, "os.getenv") && first) return c->n > 1 ? c->args[1] : py_none(fr);
  if ((!strcmp(path, "packaging.version.parse") || !strcmp(path, "packaging.version.Version")) && first)
    return version(fr, first);
  if ((!strcmp(path, "torch.finfo") || !strcmp(path, "torch.iinfo")) && first)
    return type_info(fr, first, path[6] == 'i');
  if (ends_with(path, "get_current_target")) { /* kernels choose by it between vendors */
    Py *o = py_object(fr, NULL, "triton.backends.compiler.GPUTarget");
    map_put(o->object.fields, "backend", py_str(fr, "cuda"));
    map_put(o->object.fields, "arch", py_int(fr, 90));
    map_put(o->object.fields, "warp_size", py_int(fr, 32));
    return o;
  }
  *known = false;
  return NULL;
}
