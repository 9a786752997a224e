/* Python's operators on values that are known now, for kernels' constexprs and for host code.
 *
 * Every function returns NULL where Python would raise, and says in *why what was wrong. Integers are 128 bits wide;
 * what does not fit is an error, never a wrong number. Floor division and remainder are Python's: -7 // 2 == -4, -7 % 2
 * == 1. */
#include "front/core.h"

#include <math.h>
#include <stdlib.h>

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

const char *py_missing_arguments(Front *fr, const char *function, int n, const char *const *names) {
  Buf b = {0};
  buf_printf(&b, "%s() missing %d required positional argument%s: ", function, n, n == 1 ? "" : "s");
  for (int i = 0; i < n; i++)
    buf_printf(&b, "%s'%s'", i == 0 ? "" : i < n - 1 ? ", " : n == 2 ? " and " : ", and ", names[i]);
  const char *s = b.at ? arena_strdup(fr->cx->arena, b.at) : "";
  buf_destroy(&b);
  return s;
}

const char *py_find(const char *s, size_t n, const char *what, size_t what_n) {
  for (size_t i = 0; i + what_n <= n; i++)
    if (!memcmp(s + i, what, what_n)) return s + i;
  return NULL;
}

static Py *bad_operands(Front *fr, PyOp op, const Py *a, const Py *b, const char **why) {
  bool compares = op >= PYOP_EQ && op <= PYOP_NOT_IN;
  *why = explain(fr,
                 compares ? "'%s' not supported between instances of '%s' and '%s': %s and %s"
                          : "unsupported operand type(s) for %s: '%s' and '%s': %s and %s",
                 pyop_symbol(op), py_class_name(a), py_class_name(b), py_describe(fr, a), py_describe(fr, b));
  return NULL;
}

static Py *too_large(const char **why) {
  *why = "the integer does not fit in 128 bits";
  return NULL;
}

Py *py_too_long(const char **why) {
  *why = "the sequence is too long";
  return NULL;
}

static PyInt floor_div(PyInt a, PyInt b) {
  PyInt q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

static Py *float_pow(Front *fr, double x, double y, const char **why) {
  double r = pow(x, y);
  if ((x == 0 && y < 0) || (isnan(r) && !isnan(x) && !isnan(y))) {
    *why = "the power is not a real number";
    return NULL;
  }
  if (isinf(r) && !isinf(x) && !isinf(y)) {
    *why = "(34, 'Numerical result out of range')";
    return NULL;
  }
  return py_float(fr, r);
}

static Py *int_pow(Front *fr, PyInt base, PyInt exponent, const char **why) {
  PyInt result = 1;
  for (PyInt e = exponent; e > 0; e >>= 1) {
    if ((e & 1) && __builtin_mul_overflow(result, base, &result)) return too_large(why);
    if (e > 1 && __builtin_mul_overflow(base, base, &base)) return too_large(why);
  }
  return py_int(fr, result);
}

static const PyInt int_min = (PyInt)((unsigned __int128)1 << 127);

static Py *int_binary(Front *fr, PyOp op, const Py *a, const Py *b, const char **why) {
  PyInt x = a->i, y = b->i, r;
  bool both_bool = a->kind == PY_BOOL && b->kind == PY_BOOL;
  switch (op) {
    case PYOP_ADD: return __builtin_add_overflow(x, y, &r) ? too_large(why) : py_int(fr, r);
    case PYOP_SUB: return __builtin_sub_overflow(x, y, &r) ? too_large(why) : py_int(fr, r);
    case PYOP_MULT: return __builtin_mul_overflow(x, y, &r) ? too_large(why) : py_int(fr, r);
    case PYOP_DIV:
    case PYOP_FLOOR_DIV:
    case PYOP_MOD:
      if (y == 0) {
        *why = "division by zero";
        return NULL;
      }
      if (op == PYOP_DIV) return py_float(fr, (double)x / (double)y);
      if (x == int_min && y == -1) return op == PYOP_MOD ? py_int(fr, 0) : too_large(why);
      return py_int(fr, op == PYOP_FLOOR_DIV ? floor_div(x, y) : x - floor_div(x, y) * y);
    case PYOP_POW:
      if (y < 0) {
        if (x == 0) {
          *why = "0 cannot be raised to a negative power";
          return NULL;
        }
        return float_pow(fr, (double)x, (double)y, why);
      }
      return int_pow(fr, x, y, why);
    case PYOP_L_SHIFT:
      if (y < 0) break;
      if (x == 0) return py_int(fr, 0);
      if (y > 126) return too_large(why);
      return __builtin_mul_overflow(x, (PyInt)1 << y, &r) ? too_large(why) : py_int(fr, r);
    case PYOP_R_SHIFT:
      if (y < 0) break;
      return py_int(fr, y > 126 ? (x < 0 ? -1 : 0) : x >> y);
    case PYOP_BIT_AND: return both_bool ? py_bool(fr, x & y) : py_int(fr, x & y);
    case PYOP_BIT_OR: return both_bool ? py_bool(fr, x | y) : py_int(fr, x | y);
    case PYOP_BIT_XOR: return both_bool ? py_bool(fr, x ^ y) : py_int(fr, x ^ y);
    default: return bad_operands(fr, op, a, b, why);
  }
  *why = "negative shift count";
  return NULL;
}

static Py *float_binary(Front *fr, PyOp op, const Py *a, const Py *b, const char **why) {
  double x = py_as_double(a), y = py_as_double(b);
  switch (op) {
    case PYOP_ADD: return py_float(fr, x + y);
    case PYOP_SUB: return py_float(fr, x - y);
    case PYOP_MULT: return py_float(fr, x * y);
    case PYOP_DIV:
    case PYOP_FLOOR_DIV:
    case PYOP_MOD: {
      if (y == 0) {
        *why = "division by zero";
        return NULL;
      }
      if (op == PYOP_DIV) return py_float(fr, x / y);
      double m = fmod(x, y);
      if (m != 0 && (m < 0) != (y < 0)) m += y;
      return py_float(fr, op == PYOP_MOD ? m : floor((x - m) / y + 0.5));
    }
    case PYOP_POW: return float_pow(fr, x, y, why);
    default: return bad_operands(fr, op, a, b, why);
  }
}

static Py *repeat(Front *fr, const Py *x, PyInt times, const char **why) {
  if (times < 0) times = 0;
  size_t n = x->kind == PY_STR ? x->str.n : (size_t)x->tuple.n;
  if (times > MAX_HOST_ITEMS || n * (size_t)times > MAX_HOST_ITEMS) return py_too_long(why);
  if (x->kind == PY_STR) {
    Buf b = {.arena = fr->cx->arena};
    for (PyInt i = 0; i < times; i++) buf_write(&b, x->str.s, x->str.n);
    Py *r = py_str_n(fr, b.at ? b.at : "", b.n);
    buf_destroy(&b);
    return r;
  }
  Py *r = x->tuple.is_list ? py_list(fr, 0, NULL) : py_tuple(fr, 0, NULL);
  for (PyInt i = 0; i < times; i++)
    for (int j = 0; j < x->tuple.n; j++) py_append(fr, r, x->tuple.at[j]);
  return r;
}

static bool repeats(const Py *x) { return x->kind == PY_STR || (x->kind == PY_TUPLE && !x->tuple.is_set); }

static Py *set_binary(Front *fr, PyOp op, Py *a, Py *b) {
  Py *r = py_set(fr, 0, NULL);
  for (int i = 0; i < a->tuple.n; i++) {
    bool both = py_in(a->tuple.at[i], b);
    if (op == PYOP_BIT_OR || both == (op == PYOP_BIT_AND)) py_append(fr, r, a->tuple.at[i]);
  }
  for (int i = 0; i < b->tuple.n && (op == PYOP_BIT_OR || op == PYOP_BIT_XOR); i++)
    if (!py_in(b->tuple.at[i], a)) py_append(fr, r, b->tuple.at[i]);
  return r;
}

/* "%d of %s" % args, as old host code writes messages. */
Py *py_binary(Front *fr, PyOp op, Py *a, Py *b, const char **why) {
  if (py_is_number(a) && py_is_number(b))
    return a->kind == PY_FLOAT || b->kind == PY_FLOAT ? float_binary(fr, op, a, b, why) : int_binary(fr, op, a, b, why);
  bool int_a = a->kind == PY_INT || a->kind == PY_BOOL, int_b = b->kind == PY_INT || b->kind == PY_BOOL;
  if (op == PYOP_ADD && a->kind == PY_STR && b->kind == PY_STR && a->str.n + b->str.n > MAX_HOST_ITEMS)
    return py_too_long(why);
  if (op == PYOP_ADD && a->kind == PY_TUPLE && b->kind == PY_TUPLE && a->tuple.n + b->tuple.n > MAX_HOST_ITEMS)
    return py_too_long(why);
  if (op == PYOP_ADD && a->kind == PY_STR && b->kind == PY_STR) {
    char *s = arena_alloc(fr->cx->arena, a->str.n + b->str.n + 1);
    memcpy(s, a->str.s, a->str.n);
    memcpy(s + a->str.n, b->str.s, b->str.n);
    return py_str_n(fr, s, a->str.n + b->str.n);
  }
  bool sets = a->kind == PY_TUPLE && b->kind == PY_TUPLE && a->tuple.is_set && b->tuple.is_set;
  if (sets && (op == PYOP_BIT_OR || op == PYOP_BIT_AND || op == PYOP_SUB || op == PYOP_BIT_XOR))
    return set_binary(fr, op, a, b);
  if (op == PYOP_ADD && a->kind == PY_TUPLE && b->kind == PY_TUPLE && !a->tuple.is_set && !b->tuple.is_set) {
    Py *r = py_tuple(fr, a->tuple.n, a->tuple.at);
    r->tuple.is_list = a->tuple.is_list;
    for (int i = 0; i < b->tuple.n; i++) py_append(fr, r, b->tuple.at[i]);
    return r;
  }
  if (op == PYOP_MULT && repeats(a) && int_b) return repeat(fr, a, b->i, why);
  if (op == PYOP_MULT && repeats(b) && int_a) return repeat(fr, b, a->i, why);
  if (op == PYOP_MOD && a->kind == PY_STR) return py_percent(fr, a, b, why);
  if (op == PYOP_BIT_OR && a->kind == PY_DICT && b->kind == PY_DICT) {
    Py *r = py_dict(fr);
    for (int i = 0; i < a->dict.n; i++) py_dict_put(fr, r, a->dict.keys[i], a->dict.values[i]);
    for (int i = 0; i < b->dict.n; i++) py_dict_put(fr, r, b->dict.keys[i], b->dict.values[i]);
    return r;
  }
  return bad_operands(fr, op, a, b, why);
}

Py *py_unary(Front *fr, PyOp op, Py *x, const char **why) {
  if (op == PYOP_NOT && x->kind != PY_VOID) return py_bool(fr, py_truth_known(x) == 0);
  if (x->kind == PY_FLOAT && op == PYOP_U_SUB) return py_float(fr, -x->f);
  if (x->kind == PY_FLOAT && op == PYOP_U_ADD) return x;
  if (x->kind == PY_INT || x->kind == PY_BOOL) {
    if (op == PYOP_U_SUB) return x->i == int_min ? too_large(why) : py_int(fr, -x->i);
    if (op == PYOP_U_ADD) return py_int(fr, x->i);
    if (op == PYOP_INVERT) return py_int(fr, ~x->i);
  }
  *why = explain(fr, "bad operand type for unary %s: '%s': %s", pyop_symbol(op), py_class_name(x), py_describe(fr, x));
  return NULL;
}

/* -1, 0, 1, 2 for unordered, 3 where Python has no order. */
static int order(const Py *a, const Py *b) {
  stack_guard();
  if (py_is_number(a) && py_is_number(b)) return py_number_order(a, b);
  if (a->kind == PY_STR && b->kind == PY_STR) {
    size_t n = a->str.n < b->str.n ? a->str.n : b->str.n;
    int c = memcmp(a->str.s, b->str.s, n);
    return c ? (c < 0 ? -1 : 1) : a->str.n < b->str.n ? -1 : a->str.n > b->str.n;
  }
  if (a->kind == PY_TUPLE && b->kind == PY_TUPLE && !a->tuple.is_set && !b->tuple.is_set) {
    for (int i = 0; i < a->tuple.n && i < b->tuple.n; i++)
      if (!py_equal(a->tuple.at[i], b->tuple.at[i])) return order(a->tuple.at[i], b->tuple.at[i]);
    return a->tuple.n < b->tuple.n ? -1 : a->tuple.n > b->tuple.n;
  }
  return 3;
}

/* small values are one object in Python; the rest we cannot tell apart */
static bool identical(const Py *a, const Py *b) {
  if (a->kind == PY_INT || a->kind == PY_BOOL || a->kind == PY_STR || a->kind == PY_FLOAT)
    return a->kind == b->kind && py_equal(a, b);
  if (a->kind == PY_TUPLE || a->kind == PY_DICT) return a == b;
  return py_equal(a, b);
}

Py *py_compare(Front *fr, PyOp op, Py *a, Py *b, const char **why) {
  switch (op) {
    case PYOP_IS: return py_bool(fr, identical(a, b));
    case PYOP_IS_NOT: return py_bool(fr, !identical(a, b));
    case PYOP_EQ: return py_bool(fr, py_equal(a, b));
    case PYOP_NOT_EQ: return py_bool(fr, !py_equal(a, b));
    case PYOP_IN:
    case PYOP_NOT_IN: {
      bool found = false;
      if (b->kind == PY_STR && a->kind == PY_STR)
        found = a->str.n == 0 || py_find(b->str.s, b->str.n, a->str.s, a->str.n);
      else if (b->kind == PY_DICT) found = py_dict_get(b, a) != NULL;
      else {
        Py *items = py_items(fr, b);
        if (!items) {
          *why = explain(fr, "'%s' needs a tuple, list, dict or str on its right, not %s", pyop_symbol(op),
                         py_describe(fr, b));
          return NULL;
        }
        for (int i = 0; i < items->tuple.n && !found; i++) found = py_equal(a, items->tuple.at[i]);
      }
      return py_bool(fr, found == (op == PYOP_IN));
    }
    default: break;
  }
  int o = order(a, b);
  if (o == 3) return bad_operands(fr, op, a, b, why);
  if (o == 2) return py_bool(fr, false);
  return py_bool(fr, op == PYOP_LT ? o < 0 : op == PYOP_LT_E ? o <= 0 : op == PYOP_GT ? o > 0 : o >= 0);
}

/* ---- subscripts -------------------------------------------------------------------------------------------------- */

static bool slice_part(const Py *p, int64_t *out) {
  if (!p || p->kind == PY_NONE) return true;
  if (p->kind != PY_INT && p->kind != PY_BOOL) return false;
  *out = p->i > INT32_MAX ? INT32_MAX : p->i < -INT32_MAX ? -INT32_MAX : (int64_t)p->i;
  return true;
}

bool py_slice_bounds(const Py *slice, int n, int *start, int *stop, int *step) {
  int64_t st = 1;
  if (!slice_part(slice->slice.step, &st) || st == 0) return false;
  int64_t lo = st > 0 ? 0 : n - 1, hi = st > 0 ? n : -1;
  bool has_lo = slice->slice.start && slice->slice.start->kind != PY_NONE,
       has_hi = slice->slice.stop && slice->slice.stop->kind != PY_NONE;
  int64_t a = lo, b = hi;
  if (!slice_part(slice->slice.start, &a) || !slice_part(slice->slice.stop, &b)) return false;
  if (has_lo) {
    if (a < 0) a += n;
    a = st > 0 ? (a < 0 ? 0 : a > n ? n : a) : (a < -1 ? -1 : a > n - 1 ? n - 1 : a);
  }
  if (has_hi) {
    if (b < 0) b += n;
    b = st > 0 ? (b < 0 ? 0 : b > n ? n : b) : (b < -1 ? -1 : b > n - 1 ? n - 1 : b);
  }
  *start = (int)a;
  *stop = (int)b;
  *step = (int)st;
  return true;
}

Py *py_subscript(Front *fr, Py *x, Py *index, const char **why) {
  if (x->kind == PY_DICT) {
    Py *v = py_dict_get(x, index);
    if (!v) *why = explain(fr, "the dict has no key %s", py_describe(fr, index));
    return v;
  }
  if (x->kind == PY_STR && !py_is_ascii(x)) {
    *why = "a part of a text with other characters than ASCII's";
    return NULL;
  }
  if ((x->kind != PY_TUPLE || x->tuple.is_set) && x->kind != PY_STR) {
    *why = explain(fr, "%s (%s) cannot be subscripted", py_describe(fr, x), py_kind_name(x));
    return NULL;
  }
  int n = x->kind == PY_STR ? (int)x->str.n : x->tuple.n;
  if (index->kind == PY_SLICE) {
    int start, stop, step;
    if (!py_slice_bounds(index, n, &start, &stop, &step)) {
      *why = "slice bounds must be integers known at compile time, the step not 0";
      return NULL;
    }
    if (x->kind == PY_STR) {
      Buf b = {.arena = fr->cx->arena};
      for (int i = start; step > 0 ? i < stop : i > stop; i += step) buf_putc(&b, x->str.s[i]);
      Py *r = py_str_n(fr, b.at ? b.at : "", b.n);
      buf_destroy(&b);
      return r;
    }
    Py *r = x->tuple.is_list ? py_list(fr, 0, NULL) : py_tuple(fr, 0, NULL);
    for (int i = start; step > 0 ? i < stop : i > stop; i += step) py_append(fr, r, x->tuple.at[i]);
    return r;
  }
  if (index->kind != PY_INT && index->kind != PY_BOOL) {
    *why = py_is_runtime(index)
               ? explain(fr, "a %s is indexed by constexpr integers, not by a run-time value", py_kind_name(x))
               : explain(fr, "a %s is indexed by an integer or slice, not %s", py_kind_name(x), py_describe(fr, index));
    return NULL;
  }
  PyInt i = index->i < 0 ? index->i + n : index->i;
  if (i < 0 || i >= n) {
    *why = explain(fr, "%s index out of range: %s, in a %s of %d", x->kind == PY_STR ? "string" : "list",
                   py_describe(fr, index), py_kind_name(x), n);
    return NULL;
  }
  return x->kind == PY_STR ? py_str_n(fr, x->str.s + i, 1) : x->tuple.at[i];
}

/* ---- constants, conversions -------------------------------------------------------------------------------------- */

Py *py_constant(Front *fr, const Node *n, const char **why) {
  const ConstValue *c = &n->Constant.value;
  switch (c->kind) {
    case CONST_NONE: return py_none(fr);
    case CONST_TRUE: return py_bool(fr, true);
    case CONST_FALSE: return py_bool(fr, false);
    case CONST_ELLIPSIS: {
      Py *p = NEW(fr->cx->arena, Py);
      p->kind = PY_ELLIPSIS;
      return p;
    }
    case CONST_INT: {
      if (c->fits) return py_int(fr, c->i);
      PyInt v = 0;
      for (const char *s = c->text + 2; *s; s++) {
        int digit = *s <= '9' ? *s - '0' : *s - 'a' + 10;
        if (__builtin_mul_overflow(v, (PyInt)16, &v) || __builtin_add_overflow(v, (PyInt)digit, &v))
          return too_large(why);
      }
      return py_int(fr, v);
    }
    case CONST_FLOAT: return py_float(fr, c->f);
    case CONST_STR:
    case CONST_BYTES: return py_str_n(fr, c->text, c->size);
    case CONST_IMAGINARY: break;
  }
  *why = "complex numbers are not supported";
  return NULL;
}

Py *py_to_int(Front *fr, const Py *x, const char **why) {
  if (x->kind == PY_INT || x->kind == PY_BOOL) return py_int(fr, x->i);
  if (x->kind == PY_FLOAT) {
    if (!(fabs(x->f) < 0x1p126)) {
      *why = explain(fr, "int() of %s", py_describe(fr, x));
      return NULL;
    }
    return py_int(fr, (PyInt)x->f);
  }
  if (x->kind == PY_STR) {
    char *end;
    const char *s = x->str.s;
    while (*s == ' ') s++;
    long long v = strtoll(s, &end, 10);
    while (*end == ' ') end++;
    if (end != s && !*end) return py_int(fr, v);
  }
  *why = explain(fr, "int() of %s (%s)", py_describe(fr, x), py_kind_name(x));
  return NULL;
}
