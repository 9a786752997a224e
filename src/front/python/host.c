/* What all of host evaluation shares: its budget of steps, that what is computed of an unknown value is unknown, and
 * operators that a class of a file defines. */
#include "front/core.h"

Project *front_project(Front *fr) { return fr->module->project; }

bool host_step(Front *fr) { return --front_project(fr)->steps > 0; }

Py *host_special(Front *fr, Py *x, const char *name, Py *y) {
  if (x->kind != PY_OBJECT || !x->object.cls) return NULL;
  Py *method = map_get(x->object.cls->members, name);
  if (!method) return NULL;
  if (method->kind != PY_FUNCTION) return py_unknown(fr, "%s.%s", x->object.cls->name, name);
  return front_hooks.host_call(fr, py_method_of(fr, x, name, method->fn), &(Call){.n = 1, .args = &y});
}

static const struct {
  PyOp op;
  const char *name, *swapped; /* x.name(y), y.swapped(x) */
} specials[] = {
    {PYOP_ADD, "__add__", "__radd__"},     {PYOP_SUB, "__sub__", "__rsub__"},
    {PYOP_MULT, "__mul__", "__rmul__"},    {PYOP_DIV, "__truediv__", "__rtruediv__"},
    {PYOP_MOD, "__mod__", "__rmod__"},     {PYOP_FLOOR_DIV, "__floordiv__", "__rfloordiv__"},
    {PYOP_POW, "__pow__", "__rpow__"},     {PYOP_L_SHIFT, "__lshift__", "__rlshift__"},
    {PYOP_BIT_AND, "__and__", "__rand__"}, {PYOP_R_SHIFT, "__rshift__", "__rrshift__"},
    {PYOP_BIT_OR, "__or__", "__ror__"},    {PYOP_BIT_XOR, "__xor__", "__rxor__"},
    {PYOP_EQ, "__eq__", "__eq__"},         {PYOP_NOT_EQ, "__ne__", "__ne__"},
    {PYOP_LT, "__lt__", "__gt__"},         {PYOP_LT_E, "__le__", "__ge__"},
    {PYOP_GT, "__gt__", "__lt__"},         {PYOP_GT_E, "__ge__", "__le__"},
};

static Py *by_class(Front *fr, PyOp op, Py *a, Py *b) {
  for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
    if (specials[i].op != op) continue;
    Py *v = host_special(fr, a, specials[i].name, b);
    return v ? v : host_special(fr, b, specials[i].swapped, a);
  }
  return NULL;
}

static bool is_view(const Py *x) { return x->kind == PY_TUPLE && x->tuple.is_view; }
static bool is_list(const Py *x) { return x->kind == PY_TUPLE && x->tuple.is_list; }

Py *host_binary(Front *fr, PyOp op, Py *a, Py *b) {
  a = py_number_of(a), b = py_number_of(b);
  if (a->kind == PY_UNKNOWN) return a;
  if (b->kind == PY_UNKNOWN) return b;
  Py *v = by_class(fr, op, a, b);
  if (v) return v;
  const char *why = NULL;
  bool mixed = op == PYOP_ADD && a->kind == PY_TUPLE && b->kind == PY_TUPLE && is_list(a) != is_list(b);
  if (!mixed) v = py_binary(fr, op, a, b, &why);
  return v ? v : py_unknown(fr, "%s", mixed ? "a list and a tuple cannot be added" : why);
}

/* a in b, where `a` or items of b may be unknown. */
static Py *contains(Front *fr, PyOp op, Py *a, Py *b) {
  Py *own = host_special(fr, b, "__contains__", a);
  if (own) return op == PYOP_IN ? own : own->kind == PY_BOOL ? py_bool(fr, !own->i) : py_unknown(fr, "`not in`");
  if (b->kind == PY_TUPLE && !py_hole(a) && py_in(a, b)) return py_bool(fr, op == PYOP_IN);
  const Py *hole = py_hole(a);
  if (!hole && b->kind == PY_DICT) {
    for (int i = 0; i < b->dict.n && !hole; i++) hole = py_hole(b->dict.keys[i]);
  } else if (!hole) hole = py_hole(b);
  if (hole) return py_unknown(fr, "%s", py_describe(fr, hole));
  const char *why = NULL;
  Py *v = py_compare(fr, op, a, b, &why);
  return v ? v : py_unknown(fr, "%s", why);
}

Py *host_compare(Front *fr, PyOp op, Py *a, Py *b) {
  if (a->kind == PY_UNKNOWN) return a;
  if (op == PYOP_IN || op == PYOP_NOT_IN) return b->kind == PY_UNKNOWN ? b : contains(fr, op, a, b);
  if (b->kind == PY_UNKNOWN) return b;
  const char *why = NULL;
  if (op != PYOP_IS && op != PYOP_IS_NOT) {
    a = py_number_of(a), b = py_number_of(b);
    Py *own = by_class(fr, op, a, b);
    if (!own && op == PYOP_NOT_EQ && (own = by_class(fr, PYOP_EQ, a, b))) {
      int equal = py_truth_known(own);
      return equal < 0 ? own : py_bool(fr, !equal);
    }
    if (own) return own;
    const Py *hole = py_hole(a);
    if (!hole) hole = py_hole(b);
    if (hole) return py_unknown(fr, "%s", py_describe(fr, hole));
    if (is_view(a) || is_view(b)) return py_unknown(fr, "a comparison with a dict's view");
    if (a->kind == PY_TUPLE && b->kind == PY_TUPLE && is_list(a) != is_list(b)) {
      if (op == PYOP_EQ || op == PYOP_NOT_EQ) return py_bool(fr, op == PYOP_NOT_EQ);
      return py_unknown(fr, "a list and a tuple cannot be compared");
    }
  }
  Py *v = py_compare(fr, op, a, b, &why);
  return v ? v : py_unknown(fr, "%s", why);
}

Py *host_iterate(Front *fr, Py *x) {
  if (x->kind == PY_UNKNOWN) return x;
  if (x->kind == PY_TUPLE && !py_has_order(x) && x->tuple.is_set) return py_unknown(fr, "the order of a set");
  Py *items = is_view(x) ? py_tuple(fr, x->tuple.n, x->tuple.at) : py_items(fr, x); /* the dict may change meanwhile */
  if (!items && x->kind == PY_RANGE) return py_unknown(fr, "a range of more than %d numbers", MAX_HOST_ITEMS);
  return items ? items : py_unknown(fr, "%s, which cannot be iterated", py_describe(fr, x));
}
