/* lib_private.c: names that Triton keeps for itself, and that libraries of kernels use all the same: from
 * triton.language.standard import _log2. The functions that combine two elements stand in prelude.py.
 */
#include "front/library/lib.h"

static Py *call_log2(Front *fr, const Builtin *b, Span at, Py **args) {
  int log = 0;
  for (PyInt i = lib_int(fr, at, b, "i", args[0]); i > 1; i >>= 1) log++;
  return py_int(fr, log);
}

static Py *call_is_power_of_two(Front *fr, const Builtin *b, Span at, Py **args) {
  PyInt i = lib_int(fr, at, b, "i", args[0]);
  return py_bool(fr, i && !(i & (i - 1)));
}

static Py *call_identity(Front *fr, const Builtin *b, Span at, Py **args) { return args[0]; }

static Py *call_unwrap_iterable(Front *fr, const Builtin *b, Span at, Py **args) {
  const Py *x = args[0];
  return x->kind == PY_TUPLE && x->tuple.n == 1 && x->tuple.at[0]->kind == PY_TUPLE ? x->tuple.at[0] : args[0];
}

static Py *call_wrap_axis(Front *fr, const Builtin *b, Span at, Py **args) {
  return py_int(fr, lib_axis(fr, at, b, "axis", args[0], lib_small_int(fr, at, b, "ndim", args[1])));
}

static Py *call_pick_sum_dtype(Front *fr, const Builtin *b, Span at, Py **args) {
  if (!lib_none(args[1])) return args[1];
  const Type *t = lib_dtype(fr, at, b, "in_dtype", args[0]);
  if (t->ptr || !dtype_is_int(t->dtype) || dtype_bits(t->dtype) >= 32) return py_none(fr);
  return py_dtype(fr, dtype_is_signed(t->dtype) ? DT_I32 : DT_U32);
}

static Py *call_bitwidth(Front *fr, const Builtin *b, Span at, Py **args) {
  Dtype d;
  if (!dtype_parse(lib_str(fr, at, b, "dtype", args[0]), &d))
    lib_fail(fr, at, b, NULL, "there is no type `%s`", lib_str(fr, at, b, "dtype", args[0]));
  return py_int(fr, dtype_bits(d));
}

#define PRIVATE(name, signature, fn) \
  { "tl.core", name, signature, fn, NULL, BUILTIN_HOST, NULL }
#define PRELUDE(name, signature) \
  { "tl.core", name, signature, lib_call_prelude, NULL, 0, NULL }
const Builtin lib_private_table[] = {
    PRIVATE("_log2", "i", call_log2),
    PRIVATE("_is_power_of_two", "i", call_is_power_of_two),
    PRIVATE("_aggregate", "cls", call_identity),
    PRIVATE("_unwrap_if_constexpr", "o", call_identity),
    PRIVATE("_unwrap_shape", "shape", call_identity),
    PRIVATE("_unwrap_iterable", "x", call_unwrap_iterable),
    PRIVATE("_normalize_tuple", "t", call_identity),
    PRIVATE("_wrap_axis", "axis, ndim", call_wrap_axis),
    PRIVATE("_pick_sum_dtype", "in_dtype, dtype", call_pick_sum_dtype),
    PRIVATE("get_primitive_bitwidth", "dtype", call_bitwidth),
    PRELUDE("_sum_combine", "a, b"),
    PRELUDE("_prod_combine", "a, b"),
    PRELUDE("_xor_combine", "a, b"),
    PRELUDE("_or_combine", "a, b"),
    PRELUDE("_elementwise_max", "a, b"),
    PRELUDE("_elementwise_min", "a, b"),
    PRELUDE("_argmax_combine", "value1, index1, value2, index2, tie_break_left"),
    PRELUDE("_argmin_combine", "value1, index1, value2, index2, tie_break_left"),
    PRELUDE("_argmax_combine_tie_break_left", "value1, index1, value2, index2"),
    PRELUDE("_argmax_combine_tie_break_fast", "value1, index1, value2, index2"),
    PRELUDE("_argmin_combine_tie_break_left", "value1, index1, value2, index2"),
    PRELUDE("_argmin_combine_tie_break_fast", "value1, index1, value2, index2"),
    PRELUDE("_indicator", "n_dims, j"),
    PRELUDE("_compare_and_swap", "x, flip, i"),
    PRELUDE("_bitonic_merge_hypercube", "x, stage, order"),
    PRELUDE("_bitonic_merge", "x, stage, order, n_dims"),
    {0},
};
