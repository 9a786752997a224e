/* lib_pymath.c: Python's math module on numbers known while compiling. */
#include "front/library/lib.h"

#include <math.h>

typedef double (*Fn1)(double);
typedef double (*Fn2)(double, double);

static const struct {
  const char *name;
  Fn1 fn;
} fns1[] = {
    {"sqrt", sqrt},   {"exp", exp},     {"exp2", exp2},    {"expm1", expm1},   {"log2", log2},
    {"log10", log10}, {"log1p", log1p}, {"sin", sin},      {"cos", cos},       {"tan", tan},
    {"asin", asin},   {"acos", acos},   {"atan", atan},    {"sinh", sinh},     {"cosh", cosh},
    {"tanh", tanh},   {"asinh", asinh}, {"acosh", acosh},  {"atanh", atanh},   {"fabs", fabs},
    {"erf", erf},     {"erfc", erfc},   {"gamma", tgamma}, {"lgamma", lgamma}, {"cbrt", cbrt},
};
static const struct {
  const char *name;
  Fn2 fn;
} fns2[] = {{"pow", pow},           {"fmod", fmod},           {"atan2", atan2},        {"hypot", hypot},
            {"copysign", copysign}, {"remainder", remainder}, {"nextafter", nextafter}};

static double number(Front *fr, const Builtin *b, Span at, const Py *p) {
  if (p->kind == PY_TENSOR)
    lib_fail(fr, at, b, "use tl.math or libdevice for tensors",
             "the argument must be known while compiling, but it is a run-time value (%s)",
             type_text(fr, p->value->type));
  if (!py_is_number(p)) lib_fail(fr, at, b, NULL, "the argument must be a number, but it is %s", py_describe(fr, p));
  return py_as_double(p);
}

static NORETURN void domain(Front *fr, const Builtin *b, Span at) { lib_fail(fr, at, b, NULL, "math domain error"); }

static Py *result(Front *fr, const Builtin *b, Span at, double r, bool was_nan) {
  if (isnan(r) && !was_nan) domain(fr, b, at);
  return py_float(fr, r);
}

static Py *call_one(Front *fr, const Builtin *b, Span at, Py **args) {
  double x = number(fr, b, at, args[0]);
  if (x <= 0 && (!strcmp(b->name, "log2") || !strcmp(b->name, "log10"))) domain(fr, b, at);
  for (size_t i = 0; i < sizeof fns1 / sizeof *fns1; i++)
    if (!strcmp(fns1[i].name, b->name)) return result(fr, b, at, fns1[i].fn(x), isnan(x));
  domain(fr, b, at);
}

static Py *call_two(Front *fr, const Builtin *b, Span at, Py **args) {
  double x = number(fr, b, at, args[0]), y = number(fr, b, at, args[1]);
  for (size_t i = 0; i < sizeof fns2 / sizeof *fns2; i++)
    if (!strcmp(fns2[i].name, b->name)) return result(fr, b, at, fns2[i].fn(x, y), isnan(x) || isnan(y));
  domain(fr, b, at);
}

static Py *call_log(Front *fr, const Builtin *b, Span at, Py **args) {
  double x = number(fr, b, at, args[0]);
  if (x <= 0) domain(fr, b, at);
  if (lib_none(args[1])) return py_float(fr, log(x));
  double base = number(fr, b, at, args[1]);
  if (base <= 0 || base == 1) domain(fr, b, at);
  return py_float(fr, log(x) / log(base));
}

static Py *call_round(Front *fr, const Builtin *b, Span at, Py **args) {
  if (args[0]->kind == PY_INT || args[0]->kind == PY_BOOL) return py_int(fr, args[0]->i);
  double x = number(fr, b, at, args[0]);
  x = b->name[0] == 'f' ? floor(x) : b->name[0] == 'c' ? ceil(x) : trunc(x);
  if (isnan(x) || fabs(x) >= 0x1p126) domain(fr, b, at);
  return py_int(fr, (PyInt)x);
}

static Py *call_test(Front *fr, const Builtin *b, Span at, Py **args) {
  double x = number(fr, b, at, args[0]);
  return py_bool(fr, b->name[2] == 'n' ? isnan(x) : b->name[3] == 'n' ? isinf(x) : isfinite(x));
}

/* Python takes any number of arguments. */
static Py *call_gcd(Front *fr, const Builtin *b, Span at, Py **args) {
  bool lcm = b->name[0] == 'l';
  PyInt r = lcm ? 1 : 0;
  for (int i = 0; i < args[0]->tuple.n; i++) {
    PyInt x = lib_int(fr, at, b, "an argument", args[0]->tuple.at[i]), y = r;
    if (x < 0) x = -x;
    PyInt product = x * y;
    while (y) {
      PyInt t = x % y;
      x = y;
      y = t;
    }
    r = lcm ? (x ? product / x : 0) : x;
  }
  return py_int(fr, r);
}

static Py *call_prod(Front *fr, const Builtin *b, Span at, Py **args) {
  if (args[0]->kind != PY_TUPLE)
    lib_fail(fr, at, b, NULL, "the argument must be a sequence, but it is %s", py_describe(fr, args[0]));
  PyInt r = 1;
  double f = 1;
  bool is_float = false;
  for (int i = 0; i < args[0]->tuple.n; i++) {
    const Py *x = args[0]->tuple.at[i];
    f *= number(fr, b, at, x);
    if (x->kind == PY_FLOAT) is_float = true;
    else if (__builtin_mul_overflow(r, x->i, &r)) lib_fail(fr, at, b, NULL, "the product is too large");
  }
  return is_float ? py_float(fr, f) : py_int(fr, r);
}

static Py *call_isqrt(Front *fr, const Builtin *b, Span at, Py **args) {
  PyInt x = lib_int(fr, at, b, "n", args[0]);
  if (x < 0 || x > INT64_MAX) domain(fr, b, at);
  PyInt r = (PyInt)sqrt((double)x);
  while (r * r > x) r--;
  while ((r + 1) * (r + 1) <= x) r++;
  return py_int(fr, r);
}

static const char PYMATH[] = "Python's math module";
#define ONE(name) \
  { "math", name, "x", call_one, PYMATH, BUILTIN_HOST, NULL }
#define TWO(name) \
  { "math", name, "x, y", call_two, PYMATH, BUILTIN_HOST, NULL }
const Builtin lib_pymath_table[] = {
    ONE("sqrt"),
    ONE("exp"),
    ONE("exp2"),
    ONE("expm1"),
    ONE("log2"),
    ONE("log10"),
    ONE("log1p"),
    ONE("sin"),
    ONE("cos"),
    ONE("tan"),
    ONE("asin"),
    ONE("acos"),
    ONE("atan"),
    ONE("sinh"),
    ONE("cosh"),
    ONE("tanh"),
    ONE("asinh"),
    ONE("acosh"),
    ONE("atanh"),
    ONE("fabs"),
    ONE("erf"),
    ONE("erfc"),
    ONE("gamma"),
    ONE("lgamma"),
    ONE("cbrt"),
    TWO("pow"),
    TWO("fmod"),
    TWO("atan2"),
    TWO("hypot"),
    TWO("copysign"),
    TWO("remainder"),
    TWO("nextafter"),
    {"math", "log", "x, base=None", call_log, PYMATH, BUILTIN_HOST, NULL},
    {"math", "floor", "x", call_round, PYMATH, BUILTIN_HOST, NULL},
    {"math", "ceil", "x", call_round, PYMATH, BUILTIN_HOST, NULL},
    {"math", "trunc", "x", call_round, PYMATH, BUILTIN_HOST, NULL},
    {"math", "isnan", "x", call_test, PYMATH, BUILTIN_HOST, NULL},
    {"math", "isinf", "x", call_test, PYMATH, BUILTIN_HOST, NULL},
    {"math", "isfinite", "x", call_test, PYMATH, BUILTIN_HOST, NULL},
    {"math", "gcd", "*values", call_gcd, PYMATH, BUILTIN_HOST, NULL},
    {"math", "lcm", "*values", call_gcd, PYMATH, BUILTIN_HOST, NULL},
    {"math", "prod", "values", call_prod, PYMATH, BUILTIN_HOST, NULL},
    {"math", "isqrt", "n", call_isqrt, PYMATH, BUILTIN_HOST, NULL},
    {0},
};
