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
    "copy.deepcopy", "copy.copy", "os.getenv", "packaging.version.parse",
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
  return front_hooks.host_call(fr, fn, &call);
}

static Py *product(Front *fr, const Call *c) {
  Py *times = keyword(c, "repeat");
  if (times && (times->kind != PY_INT || times->i < 0 || times->i > 16)) return py_unknown(fr, "a product");
  int n = times ? c->n * (int)times->i : c->n;
  Py **lists = NEW_N(fr->cx->arena, Py *, n + 1);
  int64_t total = 1;
  for (int i = 0; i < n; i++) {
    lists[i] = host_iterate(fr, c->args[i % c->n]);
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

static Py *sequence(Front *fr, const char *name, const Call *c) { /* sorted, map, filter, set: eager here */
  bool by_function = !strcmp(name, "map") || !strcmp(name, "filter");
  Py *from = c->n > by_function ? c->args[by_function] : NULL;
  bool is_set = from && !by_function && from->kind == PY_TUPLE && from->tuple.is_set; /* no matter its order */
  Py *items = is_set        ? from
              : from        ? host_iterate(fr, from)
              : by_function ? py_unknown(fr, "%s", name)
                            : py_tuple(fr, 0, NULL);
  if (items->kind == PY_UNKNOWN) return items;
  Py *out = py_list(fr, 0, NULL);
  if (by_function) {
    for (int i = 0; i < items->tuple.n; i++) {
      bool itself = name[0] == 'f' && c->args[0]->kind == PY_NONE;
      Py *v = itself ? items->tuple.at[i] : call_one(fr, c->args[0], c, items->tuple.at[i]);
      if (name[0] == 'm') py_append(fr, out, v);
      else if (py_truth_known(v) < 0) return py_unknown(fr, "a filter by something unknown");
      else if (py_truth_known(v)) py_append(fr, out, items->tuple.at[i]);
    }
    return out;
  }
  if (!strcmp(name, "sorted")) {
    out = py_list(fr, items->tuple.n, items->tuple.at);
    Py *keys = py_list(fr, items->tuple.n, items->tuple.at), *key = keyword(c, "key"), *reverse = keyword(c, "reverse");
    for (int i = 0; key && key->kind != PY_NONE && i < keys->tuple.n; i++)
      keys->tuple.at[i] = call_one(fr, key, c, items->tuple.at[i]);
    int backwards = reverse ? py_truth_known(reverse) : 0;
    return backwards >= 0 && py_sort(fr, out, keys, backwards) ? out : py_unknown(fr, "the order of what is sorted");
  }
  const Py *hole = py_hole(items);
  return hole ? py_unknown(fr, "a set with %s", py_describe(fr, hole)) : py_set(fr, items->tuple.n, items->tuple.at);
}

static Py *copy_of(Front *fr, Py *x, bool deep) {
  stack_guard();
  if (x->kind == PY_TUPLE) {
    Py *r = py_tuple(fr, x->tuple.n, x->tuple.at);
    r->tuple.is_list = x->tuple.is_list;
    r->tuple.is_set = x->tuple.is_set;
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

/* A call by its full name: `first` is its first argument, of rows with needs_one never NULL. */
typedef struct HostCall {
  Front *fr;
  const char *path;
  const Call *call;
  Py *first;
} HostCall;

static Py *call_sequence(const HostCall *h) { return sequence(h->fr, h->path + strlen("python."), h->call); }
static Py *call_print(const HostCall *h) { return py_none(h->fr); }
static Py *call_iter(const HostCall *h) { /* a list of its own, of which next() takes the first */
  Py *items = host_iterate(h->fr, h->first);
  if (items->kind != PY_TUPLE) return items;
  Py *iterator = py_list(h->fr, items->tuple.n, items->tuple.at);
  iterator->tuple.is_iterator = true;
  return iterator;
}
static Py *call_product(const HostCall *h) { return product(h->fr, h->call); }
static Py *call_namedtuple(const HostCall *h) { return named_tuple(h->fr, h->call); }
static Py *call_copy(const HostCall *h) { return copy_of(h->fr, h->first, false); }
static Py *call_deepcopy(const HostCall *h) { return copy_of(h->fr, h->first, true); }
static Py *call_getenv(const HostCall *h) { return h->call->n > 1 ? h->call->args[1] : py_none(h->fr); }
static Py *call_version(const HostCall *h) { return version(h->fr, h->first); }
static Py *call_finfo(const HostCall *h) { return type_info(h->fr, h->first, false); }
static Py *call_iinfo(const HostCall *h) { return type_info(h->fr, h->first, true); }

static void put_keywords(Front *fr, Py *d, const Call *c) {
  for (int i = 0; i < c->kw_n; i++) py_dict_put(fr, d, py_str(fr, c->kw_names[i]), c->kw_values[i]);
}

static Py *call_dict(const HostCall *h) {
  Py *d = py_dict(h->fr);
  const char *why = NULL;
  return py_call_method(h->fr, d, "update", h->call, &why) ? d : py_unknown(h->fr, "%s", why);
}

static Py *call_callable(const HostCall *h) {
  PyKind k = h->first->kind;
  if (k == PY_UNKNOWN) return h->first;
  return py_bool(h->fr, k == PY_FUNCTION || k == PY_BUILTIN || k == PY_METHOD || k == PY_CLASS);
}

static Py *call_next(const HostCall *h) {
  bool is_iterator = h->first->kind == PY_TUPLE && h->first->tuple.is_iterator;
  Py *items = is_iterator ? h->first : host_iterate(h->fr, h->first);
  if (items->kind == PY_TUPLE && items->tuple.n) {
    Py *first = items->tuple.at[0];
    if (is_iterator) memmove(items->tuple.at, items->tuple.at + 1, sizeof *items->tuple.at * (size_t)--items->tuple.n);
    return first;
  }
  return h->call->n > 1 ? h->call->args[1] : py_unknown(h->fr, "next() of nothing");
}

static Py *call_partial(const HostCall *h) {
  Py *o = py_object(h->fr, NULL, "functools.partial"), *kw = py_dict(h->fr);
  put_keywords(h->fr, kw, h->call);
  map_put(o->object.fields, "__call__", h->first);
  map_put(o->object.fields, "args", py_tuple(h->fr, h->call->n - 1, h->call->args + 1));
  map_put(o->object.fields, "keywords", kw);
  return o;
}

static Py *call_reduce(const HostCall *h) {
  const Call *c = h->call;
  if (c->n < 2) return NULL;
  Py *items = host_iterate(h->fr, c->args[1]);
  if (items->kind == PY_UNKNOWN) return items;
  int i = c->n > 2 ? 0 : 1;
  if (i && !items->tuple.n) return py_unknown(h->fr, "reduce of nothing");
  Py *v = c->n > 2 ? c->args[2] : items->tuple.at[0];
  for (; i < items->tuple.n; i++) {
    Py *args[] = {v, items->tuple.at[i]};
    Call call = {.span = c->span, .arg_spans = NEW_N(h->fr->cx->arena, Span, 3), .n = 2, .args = args};
    v = front_hooks.host_call(h->fr, h->first, &call);
  }
  return v;
}

static Py *call_chain(const HostCall *h) {
  Py *out = py_list(h->fr, 0, NULL);
  for (int i = 0; i < h->call->n; i++) {
    Py *items = host_iterate(h->fr, h->call->args[i]);
    if (items->kind == PY_UNKNOWN) return items;
    for (int k = 0; k < items->tuple.n; k++) py_append(h->fr, out, items->tuple.at[k]);
  }
  return out;
}

/* Of the GPU that is compiled for. The devices that are none stand in for one of 9.0, so that a file's kernels are the
 * same on all. */
static int capability(Front *fr) {
  int sm = front_project(fr)->fr->options->cuda_sm;
  return sm ? sm : 90;
}

static Py *call_yes(const HostCall *h) { return py_bool(h->fr, true); }
static Py *call_no(const HostCall *h) { return py_bool(h->fr, false); }

static Py *call_capability(const HostCall *h) {
  int sm = capability(h->fr);
  return py_tuple(h->fr, 2, (Py *[]){py_int(h->fr, sm / 10), py_int(h->fr, sm % 10)});
}

static Py *call_properties(const HostCall *h) {
  Py *o = py_object(h->fr, NULL, "torch.cuda.get_device_properties");
  map_put(o->object.fields, "major", py_int(h->fr, capability(h->fr) / 10));
  map_put(o->object.fields, "minor", py_int(h->fr, capability(h->fr) % 10));
  map_put(o->object.fields, "warp_size", py_int(h->fr, 32));
  return o;
}

static Py *call_import(const HostCall *h) { /* a library, or a file beside this one */
  if (h->first->kind != PY_STR) return NULL;
  return front_hooks.import_module(h->fr, h->fr->module, intern_z(h->fr->cx, h->first->str.s), 0);
}

static Py *call_current_target(const HostCall *h) { /* kernels choose by it between vendors */
  Py *o = py_object(h->fr, NULL, "triton.backends.compiler.GPUTarget");
  map_put(o->object.fields, "backend", py_str(h->fr, "cuda"));
  map_put(o->object.fields, "arch", py_int(h->fr, capability(h->fr)));
  map_put(o->object.fields, "warp_size", py_int(h->fr, 32));
  return o;
}

/* decorators.c's argument_value: what hooks ask of arrays */
static Py *call_zero(const HostCall *h) {
  vec_push(h->fr->cx->arena, &front_project(h->fr)->zeroed, atoi(h->path + strlen("argument.zero_.")));
  return py_none(h->fr);
}
static Py *call_element_size(const HostCall *h) {
  return py_int(h->fr, atoi(h->path + strlen("argument.element_size.")));
}
static Py *call_perf_model(const HostCall *h) {
  return perf_model_call(h->fr, h->path + strlen("triton.ops.matmul_perf_model."), h->call);
}

/* In WHOLE paths are equal, in START the name is the path's beginning, in END its end. `most`: arguments by position;
 * `keywords`: names of those by name, "*" for any. What a row does not know of makes the result unknown. */
enum { MANY = 1000000 };
typedef enum { WHOLE, START, END } NamePart;
static const struct HostRow {
  const char *name;
  Py *(*run)(const HostCall *h);
  bool needs_one; /* argument */
  NamePart part;
  int most;
  const char *keywords;
} host_rows[] = {
    {"python.sorted", call_sequence, false, WHOLE, 1, "key reverse"},
    {"python.map", call_sequence, false, WHOLE, 2, ""},
    {"python.filter", call_sequence, false, WHOLE, 2, ""},
    {"python.set", call_sequence, false, WHOLE, 1, ""},
    {"python.frozenset", call_sequence, false, WHOLE, 1, ""},
    {"python.print", call_print, false, WHOLE, MANY, "*"},
    {"python.dict", call_dict, false, WHOLE, 1, "*"},
    {"python.callable", call_callable, true, WHOLE, 1, ""},
    {"python.iter", call_iter, true, WHOLE, 1, ""},
    {"python.next", call_next, true, WHOLE, 2, ""},
    {"argument.zero_.", call_zero, false, START, MANY, "*"},
    {"argument.element_size.", call_element_size, false, START, 0, ""},
    {"triton.ops.matmul_perf_model.", call_perf_model, false, START, MANY, "*"},
    {"functools.partial", call_partial, true, WHOLE, MANY, "*"},
    {"functools.reduce", call_reduce, false, WHOLE, 3, ""},
    {"itertools.product", call_product, false, WHOLE, MANY, "repeat"},
    {"itertools.chain", call_chain, false, WHOLE, MANY, ""},
    {"collections.namedtuple", call_namedtuple, false, WHOLE, 2, "defaults"},
    {"collections.OrderedDict", call_dict, false, WHOLE, 1, "*"},
    {"copy.deepcopy", call_deepcopy, true, WHOLE, 1, ""},
    {"copy.copy", call_copy, true, WHOLE, 1, ""},
    {"os.getenv", call_getenv, true, WHOLE, 2, ""},
    {"packaging.version.parse", call_version, true, WHOLE, 1, ""},
    {"packaging.version.Version", call_version, true, WHOLE, 1, ""},
    {"torch.finfo", call_finfo, true, WHOLE, 1, ""},
    {"torch.iinfo", call_iinfo, true, WHOLE, 1, ""},
    {"torch.cuda.is_available", call_yes, false, WHOLE, 0, ""},
    {"torch.cuda.is_bf16_supported", call_yes, false, WHOLE, 1, "including_emulation"}, /* from 8.0 on */
    {"torch.cuda.get_device_capability", call_capability, false, WHOLE, 1, "device"},
    {"torch.cuda.get_device_properties", call_properties, false, WHOLE, 1, "device"},
    {"torch.xpu.is_available", call_no, false, WHOLE, 0, ""},
    {"torch.mps.is_available", call_no, false, WHOLE, 0, ""},
    {"torch.backends.mps.is_available", call_no, false, WHOLE, 0, ""},
    {"importlib.import_module", call_import, true, WHOLE, 1, ""},
    {"get_current_target", call_current_target, false, END, 0, ""},
};

static bool takes(const struct HostRow *r, const Call *c) {
  for (int i = 0; i < c->kw_n && *r->keywords != '*'; i++) {
    size_t n = strlen(c->kw_names[i]);
    const char *at = strstr(r->keywords, c->kw_names[i]);
    if (!at || (at != r->keywords && at[-1] != ' ') || (at[n] && at[n] != ' ')) return false;
  }
  return c->n <= r->most;
}

static bool names_path(const struct HostRow *r, const char *path) {
  switch (r->part) {
    case START: return !strncmp(path, r->name, strlen(r->name));
    case END: return strncmp(path, "python.", 7) && text_ends_with(path, r->name);
    default: return !strcmp(path, r->name);
  }
}

Py *host_library_call(Front *fr, const char *path, const Call *c, bool *known) {
  const HostCall h = {fr, path, c, c->n ? c->args[0] : NULL};
  Py *v = NULL;
  for (size_t i = 0; i < sizeof host_rows / sizeof *host_rows; i++) {
    const struct HostRow *r = &host_rows[i];
    if (!names_path(r, path) || (r->needs_one && !h.first)) continue;
    v = takes(r, c) ? r->run(&h) : py_unknown(fr, "%s() with these arguments", path);
    break;
  }
  *known = v != NULL;
  return v;
}
