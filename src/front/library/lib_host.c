/* lib_host.c: Python's own functions inside a kernel, on values known while compiling; min, max and print also on
 * tensors.
 *
 * A kernel has len list range float int isinstance getattr hasattr print min max, as in Triton; the others are for host
 * code.
 */
#include "front/core.h"
#include "front/library/lib.h"

#include <math.h>
#include <stdlib.h>

Py *lib_range(Front *fr, Py *first, Py *second, Py *step, Py *hints, bool is_static, bool is_tl);

static NORETURN void why_not(Front *fr, const Builtin *b, Span at, const char *why) {
  lib_fail(fr, at, b, NULL, "%s", why ? why : "this is not possible");
}

static void refuse_tensor(Front *fr, const Builtin *b, Span at, const Py *p, const char *hint) {
  if (p->kind == PY_TENSOR)
    lib_fail(fr, at, b, hint, "the argument must be known while compiling, but it is a run-time value (%s)",
             type_text(fr, p->value->type));
  if (p->kind == PY_UNKNOWN) lib_fail(fr, at, b, NULL, "the argument is not at hand: %s", p->library);
}

static Py *items(Front *fr, const Builtin *b, Span at, Py *p) {
  refuse_tensor(fr, b, at, p, NULL);
  Py *t = py_items(fr, p);
  if (!t) lib_fail(fr, at, b, NULL, "the argument must be a sequence, but it is %s", py_describe(fr, p));
  return t;
}

static Py *ordered_items(Front *fr, const Builtin *b, Span at, Py *p) {
  if (p->kind == PY_TUPLE && p->tuple.is_set && !py_has_order(p)) lib_fail(fr, at, b, NULL, "the order of a set");
  return items(fr, b, at, p);
}

static Py *operate(Front *fr, const Builtin *b, Span at, PyOp op, Py *x, Py *y) {
  if (x->kind == PY_TENSOR || y->kind == PY_TENSOR) return sem_binary(fr, at, op, x, y);
  const char *why = NULL;
  Py *r = py_binary(fr, op, x, y, &why);
  if (!r) why_not(fr, b, at, why);
  return r;
}

/* ---- sequences ------------------------------------------------------------------------------------------------ */

static Py *call_len(Front *fr, const Builtin *b, Span at, Py **args) {
  if (args[0]->kind == PY_TENSOR)
    lib_refuse(fr, at, "x.shape[0] is the size of its first dim, x.numel the number of its elements",
               "object of type 'tensor' has no len(): it is %s", py_describe(fr, args[0]));
  if (args[0]->kind == PY_STR) {
    PyInt characters = 0;
    for (size_t i = 0; i < args[0]->str.n; i++) characters += ((unsigned char)args[0]->str.s[i] & 0xc0) != 0x80;
    return py_int(fr, characters);
  }
  return py_int(fr, items(fr, b, at, args[0])->tuple.n);
}

static Py *call_list(Front *fr, const Builtin *b, Span at, Py **args) {
  if (lib_none(args[0])) return py_list(fr, 0, NULL);
  Py *t = ordered_items(fr, b, at, args[0]);
  return b->name[0] == 'l' ? py_list(fr, t->tuple.n, t->tuple.at) : py_tuple(fr, t->tuple.n, t->tuple.at);
}

static Py *call_range(Front *fr, const Builtin *b, Span at, Py **args) {
  return lib_range(fr, args[0], args[1], args[2], NULL, false, false);
}

static Py *call_sum(Front *fr, const Builtin *b, Span at, Py **args) {
  if (args[0]->kind == PY_TENSOR) refuse_tensor(fr, b, at, args[0], "use tl.sum(x, axis)");
  Py *t = items(fr, b, at, args[0]), *sum = args[1];
  for (int i = 0; i < t->tuple.n; i++) sum = operate(fr, b, at, PYOP_ADD, sum, t->tuple.at[i]);
  return sum;
}

static Py *call_all_any(Front *fr, const Builtin *b, Span at, Py **args) {
  Py *t = items(fr, b, at, args[0]);
  bool all = !strcmp(b->name, "all");
  for (int i = 0; i < t->tuple.n; i++) {
    refuse_tensor(fr, b, at, t->tuple.at[i], NULL);
    if (py_truth(fr, at, t->tuple.at[i]) != all) return py_bool(fr, !all);
  }
  return py_bool(fr, all);
}

static Py *call_zip(Front *fr, const Builtin *b, Span at, Py **args) {
  int n = args[0]->tuple.n, shortest = -1;
  Py **lists = NEW_N(fr->cx->arena, Py *, n + 1), *out = py_list(fr, 0, NULL);
  for (int i = 0; i < n; i++) {
    lists[i] = ordered_items(fr, b, at, args[0]->tuple.at[i]);
    if (shortest < 0 || lists[i]->tuple.n < shortest) shortest = lists[i]->tuple.n;
  }
  for (int k = 0; k < shortest; k++) {
    Py **row = NEW_N(fr->cx->arena, Py *, n);
    for (int i = 0; i < n; i++) row[i] = lists[i]->tuple.at[k];
    py_append(fr, out, py_tuple(fr, n, row));
  }
  return out;
}

static Py *call_enumerate(Front *fr, const Builtin *b, Span at, Py **args) {
  Py *t = ordered_items(fr, b, at, args[0]), *out = py_list(fr, 0, NULL);
  for (int i = 0; i < t->tuple.n; i++)
    py_append(fr, out, py_tuple(fr, 2, (Py *[]){py_int(fr, lib_int(fr, at, b, "start", args[1]) + i), t->tuple.at[i]}));
  return out;
}

static Py *call_reversed(Front *fr, const Builtin *b, Span at, Py **args) {
  Py *t = ordered_items(fr, b, at, args[0]), *out = py_list(fr, 0, NULL);
  for (int i = t->tuple.n - 1; i >= 0; i--) py_append(fr, out, t->tuple.at[i]);
  return out;
}

/* ---- numbers -------------------------------------------------------------------------------------------------- */

static void refuse_number(Front *fr, Span at, const Py *p, const char *hint, const char *wants) {
  if (p->kind == PY_TENSOR)
    lib_refuse(fr, at, hint, "%s a real number, not 'tensor': it is %s", wants, py_describe(fr, p));
}

static Py *call_int(Front *fr, const Builtin *b, Span at, Py **args) {
  refuse_number(fr, at, args[0], "cast with .to(tl.int32)", "int() argument must be a string, a bytes-like object or");
  const char *why = NULL;
  Py *r = py_to_int(fr, args[0], &why);
  if (!r) why_not(fr, b, at, why);
  return r;
}

static Py *call_float(Front *fr, const Builtin *b, Span at, Py **args) {
  refuse_number(fr, at, args[0], "cast with .to(tl.float32)", "float() argument must be a string or");
  if (py_is_number(args[0])) return py_float(fr, py_as_double(args[0]));
  if (args[0]->kind == PY_STR) {
    char *end;
    double v = text_to_double(args[0]->str.s, &end);
    while (*end == ' ') end++;
    if (end != args[0]->str.s && !*end) return py_float(fr, v);
  }
  lib_fail(fr, at, b, NULL, "%s is not a number", py_describe(fr, args[0]));
}

static Py *call_bool(Front *fr, const Builtin *b, Span at, Py **args) {
  refuse_tensor(fr, b, at, args[0], "compare instead, as in `x != 0`");
  return py_bool(fr, py_truth(fr, at, args[0]));
}

static Py *call_str(Front *fr, const Builtin *b, Span at, Py **args) {
  refuse_tensor(fr, b, at, args[0], NULL);
  if (!py_has_text(args[0])) lib_fail(fr, at, b, NULL, "the text of %s", py_describe(fr, args[0]));
  const char *why = NULL;
  Py *text = py_format(fr, args[0], b->name[0] == 'r' ? 'r' : -1, NULL, &why);
  if (!text) why_not(fr, b, at, why);
  return text;
}

static Py *call_abs(Front *fr, const Builtin *b, Span at, Py **args) {
  Py *x = args[0];
  if (x->kind == PY_TENSOR)
    return builtin_call(fr, front_hooks.library_lookup(fr, "triton.language", "abs")->builtin.b, NULL,
                        &(Call){.span = at, .n = 1, .args = args});
  if (x->kind == PY_FLOAT) return py_float(fr, fabs(x->f));
  PyInt v = lib_int(fr, at, b, "x", x);
  return py_int(fr, v < 0 ? -v : v);
}

static Py *call_round(Front *fr, const Builtin *b, Span at, Py **args) {
  refuse_tensor(fr, b, at, args[0], "use libdevice.rint or tl.floor(x + 0.5)");
  int digits = lib_none(args[1]) ? 0 : lib_small_int(fr, at, b, "ndigits", args[1]);
  if (digits < 0 || digits > 300) lib_fail(fr, at, b, NULL, "`ndigits` must be in 0 to 300");
  if (args[0]->kind != PY_FLOAT) return py_int(fr, lib_int(fr, at, b, "x", args[0]));
  if (!(fabs(args[0]->f) < 0x1p126)) lib_fail(fr, at, b, NULL, "%s is too large", py_describe(fr, args[0]));
  if (lib_none(args[1])) return py_int(fr, (PyInt)nearbyint(args[0]->f));
  char text[400]; /* rounds what the number is, not what a product with a power of ten makes of it */
  snprintf(text, sizeof text, "%.*f", digits, args[0]->f);
  char *end;
  return py_float(fr, text_to_double(text, &end));
}

static Py *call_pow(Front *fr, const Builtin *b, Span at, Py **args) {
  return operate(fr, b, at, PYOP_POW, args[0], args[1]);
}

static Py *call_divmod(Front *fr, const Builtin *b, Span at, Py **args) {
  return py_tuple(
      fr, 2,
      (Py *[]){operate(fr, b, at, PYOP_FLOOR_DIV, args[0], args[1]), operate(fr, b, at, PYOP_MOD, args[0], args[1])});
}

/* min and max: numbers stay numbers; with a tensor among them, tl.minimum and tl.maximum. */
static Py *call_min_max(Front *fr, const Builtin *b, Span at, Py **args) {
  Py *list = args[0];
  if (list->tuple.n == 1 && list->tuple.at[0]->kind != PY_TENSOR) list = items(fr, b, at, list->tuple.at[0]);
  bool max = !strcmp(b->name, "max");
  if (list->tuple.n == 0) lib_fail(fr, at, b, NULL, "at least one value must be given");
  Py *best = list->tuple.at[0];
  for (int i = 0; i < list->tuple.n; i++) {
    Py *x = list->tuple.at[i];
    if (x->kind != PY_TENSOR && !py_is_number(x) && !(x->kind == PY_STR && best->kind == PY_STR))
      lib_fail(fr, at, b, NULL, "the values must be numbers or tensors, but one is %s", py_describe(fr, x));
    if (i == 0) continue;
    if (x->kind == PY_TENSOR || best->kind == PY_TENSOR) {
      Py *pair[2] = {best, x};
      best = builtin_call(fr, front_hooks.library_lookup(fr, "triton.language", max ? "maximum" : "minimum")->builtin.b,
                          NULL, &(Call){.span = at, .n = 2, .args = pair});
      continue;
    }
    const char *why = NULL;
    Py *better = py_compare(fr, max ? PYOP_GT : PYOP_LT, x, best, &why);
    if (!better) why_not(fr, b, at, why);
    if (better->i) best = x;
  }
  return best;
}

/* In a kernel they are narrower: Triton's have no order for NaN and -0.0. */
static Py *call_kernel_min_max(Front *fr, const Builtin *b, Span at, Py **args) {
  const Py *list = args[0], *first = list->tuple.n ? list->tuple.at[0] : NULL;
  bool max = !strcmp(b->name, "max"), any_tensor = false;
  if (list->tuple.n < 2)
    diag_fail_hint(fr->cx, at,
                   !first || first->kind != PY_TENSOR ? "write the values as separate arguments"
                   : max                              ? "tl.max(x, axis) is the greatest element of a tensor"
                                                      : "tl.min(x, axis) is the least element of a tensor",
                   "%s requires at least 2 values", b->name);
  for (int i = 0; i < list->tuple.n; i++) any_tensor = any_tensor || list->tuple.at[i]->kind == PY_TENSOR;
  for (int i = 0; i < list->tuple.n && !any_tensor; i++) {
    const Py *x = list->tuple.at[i];
    if (x->kind == PY_STR) lib_fail(fr, at, b, NULL, "must be real number, not str: %s", py_describe(fr, x));
    if (x->kind == PY_FLOAT && (isnan(x->f) || (x->f == 0 && signbit(x->f))))
      lib_fail(fr, at, b, NULL, "of constants none may be NaN or -0.0, but one is %s", py_describe(fr, x));
  }
  return call_min_max(fr, b, at, args);
}

/* ---- looking at values ---------------------------------------------------------------------------------------- */

static bool is_instance(Front *fr, const Builtin *b, Span at, const Py *x, const Py *type) {
  stack_guard();
  if (type->kind == PY_TUPLE) {
    for (int i = 0; i < type->tuple.n; i++)
      if (is_instance(fr, b, at, x, type->tuple.at[i])) return true;
    return false;
  }
  if (type->kind == PY_CONSTEXPR_TYPE) return false; /* as Triton: isinstance sees what a constexpr holds */
  if (type->kind == PY_CLASS) {
    const PyClass *cls = x->kind == PY_OBJECT ? x->object.cls : x->kind == PY_TUPLE ? x->tuple.cls : NULL;
    return cls && class_is(cls, type->cls);
  }
  if (type->kind != PY_BUILTIN) {
    if (type->kind == PY_UNKNOWN) return false; /* a class of the host: no value of a kernel is one */
    lib_fail(fr, at, b, NULL, "the second argument must be a type, but it is %s", py_describe(fr, type));
  }
  static const struct {
    const char *library, *name;
    PyKind kinds[3];
  } types[] = {{"python", "int", {PY_INT, PY_BOOL}},   {"python", "float", {PY_FLOAT}},
               {"python", "bool", {PY_BOOL}},          {"python", "str", {PY_STR}},
               {"python", "tuple", {PY_TUPLE}},        {"python", "list", {PY_TUPLE}},
               {"python", "dict", {PY_DICT}},          {"tl", "tuple", {PY_TUPLE}},
               {"tl", "tensor", {PY_TENSOR}},          {"tl", "dtype", {PY_TYPE}},
               {"tl", "pointer_type", {PY_TYPE}},      {"tl", "block_type", {PY_TYPE}},
               {"tl", "tensor_descriptor", {PY_DESC}}, {"tl", "tensor_descriptor_base", {PY_DESC}}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(types[i].name, type->builtin.b->name) || strcmp(types[i].library, type->builtin.b->library)) continue;
    bool yes = x->kind == types[i].kinds[0] || (types[i].kinds[1] && x->kind == types[i].kinds[1]);
    if (yes && x->kind == PY_TUPLE && !strcmp(types[i].library, "python"))
      return x->tuple.is_list == !strcmp(types[i].name, "list") && !x->tuple.is_set && !x->tuple.is_view;
    if (yes && x->kind == PY_TYPE && !strcmp(types[i].name, "pointer_type")) return x->type->ptr && !x->type->rank;
    if (yes && x->kind == PY_TYPE && !strcmp(types[i].name, "block_type")) return x->type->rank > 0;
    return yes;
  }
  return x->kind == PY_OBJECT && !x->object.cls && !strcmp(x->object.cls_name, type->builtin.b->name);
}

static Py *call_isinstance(Front *fr, const Builtin *b, Span at, Py **args) {
  return py_bool(fr, is_instance(fr, b, at, args[0], args[1]));
}

static Py *attribute(Front *fr, Span at, Py *x, const char *name) {
  switch (x->kind) {
    case PY_TENSOR:
    case PY_TYPE:
    case PY_BLOCK_PTR:
    case PY_DESC: return front_hooks.attribute(fr, at, x, name);
    case PY_LIBRARY: return front_hooks.library_lookup(fr, x->library, name);
    default: return host_attribute(fr, x, name);
  }
}

/* What a constexpr holds has no `value`, as Triton sees it here: it takes the constexpr off before it asks. */
static bool is_of_constexpr(const Py *x, const char *name) {
  bool plain = x->kind == PY_NONE || py_is_number(x) || x->kind == PY_STR || x->kind == PY_TYPE;
  return plain && (!strcmp(name, "value") || (!strcmp(name, "type") && x->kind != PY_TYPE));
}

static Py *call_getattr(Front *fr, const Builtin *b, Span at, Py **args) {
  const char *name = lib_str(fr, at, b, "name", args[1]);
  Py *r = is_of_constexpr(args[0], name) ? NULL : attribute(fr, at, args[0], name);
  if (r && r->kind == PY_UNKNOWN) r = NULL;
  if (!strcmp(b->name, "hasattr")) return py_bool(fr, r != NULL);
  if (r) return r;
  if (args[2]) return args[2];
  lib_fail(fr, at, b, NULL, "%s has no attribute `%s`", py_describe(fr, args[0]), name);
}

static Py *call_getattr3(Front *fr, const Builtin *b, Span at, Py **args) {
  Py *rest = args[2];
  Py *all[3] = {args[0], args[1], rest->tuple.n ? rest->tuple.at[0] : NULL};
  return call_getattr(fr, b, at, all);
}

static Py *call_print(Front *fr, const Builtin *b, Span at, Py **args) {
  const Builtin *device_print = front_hooks.library_lookup(fr, "triton.language", "device_print")->builtin.b;
  return device_print->call(fr, device_print, at, args); /* of the same signature */
}

/* ---- the operator module -------------------------------------------------------------------------------------- */

static Py *call_operator(Front *fr, const Builtin *b, Span at, Py **args) {
  static const struct {
    const char *name;
    PyOp op;
  } ops[] = {{"add", PYOP_ADD},
             {"sub", PYOP_SUB},
             {"mul", PYOP_MULT},
             {"truediv", PYOP_DIV},
             {"floordiv", PYOP_FLOOR_DIV},
             {"mod", PYOP_MOD},
             {"pow", PYOP_POW},
             {"and_", PYOP_BIT_AND},
             {"or_", PYOP_BIT_OR},
             {"xor", PYOP_BIT_XOR},
             {"lshift", PYOP_L_SHIFT},
             {"rshift", PYOP_R_SHIFT}};
  static const struct {
    const char *name;
    PyOp op;
  } compares[] = {{"eq", PYOP_EQ},   {"ne", PYOP_NOT_EQ}, {"lt", PYOP_LT},
                  {"le", PYOP_LT_E}, {"gt", PYOP_GT},     {"ge", PYOP_GT_E}};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (!strcmp(ops[i].name, b->name)) return operate(fr, b, at, ops[i].op, args[0], args[1]);
  for (size_t i = 0; i < sizeof compares / sizeof *compares; i++) {
    if (strcmp(compares[i].name, b->name)) continue;
    if (args[0]->kind == PY_TENSOR || args[1]->kind == PY_TENSOR)
      return sem_compare(fr, at, compares[i].op, args[0], args[1]);
    const char *why = NULL;
    Py *r = py_compare(fr, compares[i].op, args[0], args[1], &why);
    if (!r) why_not(fr, b, at, why);
    return r;
  }
  lib_fail(fr, at, b, NULL, "this function is not in the table");
}

static const char PYTHON[] = "Python";
#define OPERATOR(name) \
  { "operator", name, "a, b", call_operator, NULL, BUILTIN_HOST, NULL }
const Builtin lib_host_table[] = {
    {"python", "range", "arg1, arg2=None, step=None, **hints", call_range, PYTHON, BUILTIN_HOST, NULL},
    {"python", "len", "x", call_len, PYTHON, BUILTIN_HOST, NULL},
    {"python", "list", "x=None", call_list, PYTHON, BUILTIN_HOST, NULL},
    {"python", "tuple", "x=None", call_list, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "dict", "x=None", call_list, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "int", "x=0", call_int, PYTHON, BUILTIN_HOST, "of constexprs"},
    {"python", "float", "x=0.0", call_float, PYTHON, BUILTIN_HOST, "of constexprs"},
    {"python", "bool", "x=False", call_bool, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "str", "x=\"\"", call_str, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "repr", "x", call_str, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "abs", "x", call_abs, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "round", "x, ndigits=None", call_round, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "pow", "x, y", call_pow, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "divmod", "x, y", call_divmod, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "sum", "x, start=0", call_sum, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "all", "x", call_all_any, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "any", "x", call_all_any, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "zip", "*lists", call_zip, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "enumerate", "x, start=0", call_enumerate, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "reversed", "x", call_reversed, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "min", "*values", call_min_max, NULL, BUILTIN_HOST_ONLY, NULL},
    {"python", "max", "*values", call_min_max, NULL, BUILTIN_HOST_ONLY, NULL},
    {"kernel", "min", "*values", call_kernel_min_max, PYTHON, 0, NULL},
    {"kernel", "max", "*values", call_kernel_min_max, PYTHON, 0, NULL},
    {"python", "isinstance", "x, type", call_isinstance, PYTHON, BUILTIN_HOST, NULL},
    {"python", "getattr", "x, name, *default", call_getattr3, PYTHON, BUILTIN_HOST, NULL},
    {"python", "hasattr", "x, name, *unused", call_getattr3, PYTHON, BUILTIN_HOST, NULL},
    {"python", "print", "prefix, *args, hex=False", call_print, PYTHON, 0, "as tl.device_print"},
    OPERATOR("add"),
    OPERATOR("sub"),
    OPERATOR("mul"),
    OPERATOR("truediv"),
    OPERATOR("floordiv"),
    OPERATOR("mod"),
    OPERATOR("pow"),
    OPERATOR("and_"),
    OPERATOR("or_"),
    OPERATOR("xor"),
    OPERATOR("lshift"),
    OPERATOR("rshift"),
    OPERATOR("eq"),
    OPERATOR("ne"),
    OPERATOR("lt"),
    OPERATOR("le"),
    OPERATOR("gt"),
    OPERATOR("ge"),
    {0},
};
