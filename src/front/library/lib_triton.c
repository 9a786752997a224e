/* lib_triton.c: names of the triton module itself: host helpers that are also constexpr functions, and the decorators,
 * whose meaning is kernels.c's and decorators.c's.
 */
#include "front/core.h"
#include "front/library/lib.h"

static void refuse_tensor(Front *fr, const Builtin *b, Span at, const Py *p, const char *hint) {
  if (p->kind == PY_TENSOR)
    lib_refuse(fr, at, hint,
               "Did you forget to add @triton.jit ? (`_semantic` argument must be provided outside of JIT functions.): "
               "%s is computed at compile time, and not of %s",
               lib_full_name(fr, b), py_describe(fr, p));
}

static Py *call_cdiv(Front *fr, const Builtin *b, Span at, Py **args) {
  for (int i = 0; i < 2; i++) refuse_tensor(fr, b, at, args[i], "tl.cdiv divides values of the run");
  PyInt x = lib_int(fr, at, b, "x", args[0]), y = lib_int(fr, at, b, "y", args[1]);
  if (y == 0) lib_fail(fr, at, b, NULL, "division by zero");
  PyInt n = x + y - 1, q = n / y;
  if (n % y != 0 && (n < 0) != (y < 0)) q--;
  return py_int(fr, q);
}

static Py *call_next_power_of_2(Front *fr, const Builtin *b, Span at, Py **args) {
  refuse_tensor(fr, b, at, args[0], "pass what it gives as a constexpr");
  PyInt n = lib_int(fr, at, b, "n", args[0]), p = 1;
  if (n > (PyInt)1 << 100) lib_fail(fr, at, b, NULL, "`n` is too large");
  if (n == 0) return py_int(fr, 0);
  while (p < n) p <<= 1;
  return py_int(fr, p);
}

static Py *call_config(Front *fr, const Builtin *b, Span at, Py **args) {
  static const char *const names[] = {"kwargs",  "num_warps", "num_stages", "num_ctas",
                                      "maxnreg", "pre_hook",  "ir_override"};
  Py *p = py_object(fr, NULL, "triton.Config");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) map_put(p->object.fields, names[i], args[i]);
  return p;
}

static Py *call_decorator(Front *fr, const Builtin *b, Span at, Py **args) {
  lib_fail(fr, at, b, NULL, "this has a meaning above a `def` only");
}

/* Decorators that leave a function as it is. */
static Py *call_identity(Front *fr, const Builtin *b, Span at, Py **args) { return args[0]; }

static const char TRITON[] = "triton";
const Builtin lib_triton_table[] = {
    {"triton", "cdiv", "x, y", call_cdiv, TRITON, BUILTIN_HOST, NULL},
    {"triton", "next_power_of_2", "n", call_next_power_of_2, TRITON, BUILTIN_HOST, NULL},
    {"triton", "Config", "kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None, ir_override=None",
     call_config, TRITON, BUILTIN_HOST, NULL},
    {"triton", "jit", "fn=None, **options", call_decorator, TRITON, BUILTIN_HOST, NULL},
    {"triton", "autotune", "configs, key, **options", call_decorator, TRITON, BUILTIN_HOST,
     "cpu, cuda: all are tried at the first launch (docs/guide/tune.md); interp, sim: the first that fits"},
    {"triton", "heuristics", "values", call_decorator, TRITON, BUILTIN_HOST, NULL},
    {"triton", "constexpr_function", "fn", call_identity, TRITON, BUILTIN_HOST, NULL},
    {"triton", "must_use_result", "fn", call_identity, NULL, BUILTIN_HOST, NULL},
    {"triton", "aggregate", "cls", call_identity, TRITON, BUILTIN_HOST, "Triton 3.8"},
    {"tl", "aggregate", "cls", call_identity, NULL, BUILTIN_HOST, NULL},

    {0},
};
