/* lib_prelude.c: library functions that are written in Triton (prelude.py), and TorchInductor's triton_helpers: what is
 * one operation of the tile IR is built here, the rest stands in prelude.py under the prefix "inductor_".
 */
#include "front/library/lib.h"

static const char RANDOM[] = "Random numbers", MATH[] = "Math", INDEXING[] = "Indexing",
                  HELPERS[] = "TorchInductor's triton_helpers";

Py *lib_call_prelude(Front *fr, const Builtin *b, Span at, Py **args) {
  int n = b->signature[0] ? 1 : 0; /* parameters: commas outside defaults; defaults here hold none */
  for (const char *s = b->signature; *s; s++) n += *s == ',';
  const char *name = strcmp(b->library, "helpers") ? b->name : arena_printf(fr->cx->arena, "inductor_%s", b->name);
  return front_hooks.call_prelude(fr, name, at, n, args);
}

/* ---- TorchInductor ----------------------------------------------------------------------------------------------- */

static Py *call_nothing(Front *fr, const Builtin *b, Span at, Py **args) { return py_none(fr); }

static Py *call_promote(Front *fr, const Builtin *b, Span at, Py **args) {
  const int32_t one = 1;
  Value *x = lib_value(fr, at, b, "x", args[0]);
  if (x->type->ptr) lib_fail(fr, at, b, NULL, "`x` must be a number, but it is of type %s", type_text(fr, x->type));
  return py_tensor(fr, x->type->rank ? x : sem_splat(fr, x, 1, &one));
}

static Py *call_is_floating(Front *fr, const Builtin *b, Span at, Py **args) {
  if (py_is_number(args[0])) return py_bool(fr, args[0]->kind == PY_FLOAT);
  Value *x = lib_tensor(fr, at, b, "x", args[0]);
  return py_bool(fr, !x->type->ptr && dtype_is_float(x->type->dtype));
}

/* NaN wins, unlike in tl.minimum. */
static Py *call_min_max(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x, *y;
  Py *first =
      py_is_number(args[0]) && py_is_number(args[1]) ? py_tensor(fr, lib_value(fr, at, b, "a", args[0])) : args[0];
  sem_pair(fr, at, lib_full_name(fr, b), 0, first, args[1], &x, &y);
  Value *r = build_binary(&fr->b, !strcmp(b->name, "minimum") ? OP_MIN : OP_MAX, x, y);
  r->def->nan = 1;
  return py_tensor(fr, r);
}

static Py *call_reduction(Front *fr, const Builtin *b, Span at, Py **args) {
  static const struct {
    const char *name;
    Combine how;
  } table[] = {{"min2", COMBINE_MIN}, {"max2", COMBINE_MAX}, {"any", COMBINE_OR}, {"prod", COMBINE_MUL}};
  Value *x = lib_block(fr, at, b, "a", args[0]);
  int axis = lib_axis(fr, at, b, "dim", args[1], x->type->rank);
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(table[i].name, b->name)) continue;
    if (table[i].how == COMBINE_OR && !dtype_is_int(x->type->dtype))
      lib_fail(fr, at, b, NULL, "`a` must hold conditions, but it is %s", type_text(fr, x->type));
    Value *r = lib_reduce_with(fr, x, axis, table[i].how);
    if (i < 2) r->def->body[0]->first->nan = 1; /* NaN wins */
    return py_tensor(fr, r);
  }
  return py_none(fr);
}

#define PRELUDE(name, signature, group, flags) \
  { "tl", name, signature, lib_call_prelude, group, flags, NULL }
#define HELPER(name, signature, fn) \
  { "helpers", name, signature, fn, HELPERS, 0, NULL }
#define HELPER_HOST(name) \
  { "helpers", name, "", call_nothing, NULL, BUILTIN_HOST, NULL }
const Builtin lib_prelude_table[] = {
    PRELUDE("philox_impl", "c0, c1, c2, c3, k0, k1, n_rounds=10", RANDOM, 0),
    PRELUDE("philox", "seed, c0, c1, c2, c3, n_rounds=10", RANDOM, 0),
    PRELUDE("randint", "seed, offset, n_rounds=10", RANDOM, 0),
    PRELUDE("randint4x", "seed, offset, n_rounds=10", RANDOM, 0),
    PRELUDE("uint_to_uniform_float", "x", RANDOM, 0),
    PRELUDE("rand", "seed, offset, n_rounds=10", RANDOM, 0),
    PRELUDE("rand4x", "seed, offsets, n_rounds=10", RANDOM, 0),
    PRELUDE("pair_uniform_to_normal", "u1, u2", RANDOM, 0),
    PRELUDE("randn", "seed, offset, n_rounds=10", RANDOM, 0),
    PRELUDE("randn4x", "seed, offset, n_rounds=10", RANDOM, 0),
    PRELUDE("softmax", "x, dim=None, keep_dims=False, ieee_rounding=False", MATH, BUILTIN_MEMBER),
    PRELUDE("swizzle2d", "i, j, size_i, size_j, size_g", INDEXING, 0),
    HELPER_HOST("set_driver_to_cpu"),
    HELPER_HOST("set_driver_to_gpu"),
    HELPER_HOST("get_backend_options"),
    HELPER("promote_to_tensor", "x", call_promote),
    HELPER("is_floating", "x", call_is_floating),
    HELPER("minimum", "a, b", call_min_max),
    HELPER("maximum", "a, b", call_min_max),
    HELPER("min2", "a, dim", call_reduction),
    HELPER("max2", "a, dim", call_reduction),
    HELPER("any", "a, dim", call_reduction),
    HELPER("prod", "input, axis", call_reduction),
    HELPER("div_floor_integer", "a, b", lib_call_prelude),
    HELPER("remainder_integer", "a, b", lib_call_prelude),
    HELPER("minimum_with_index", "a_value, a_index, b_value, b_index", lib_call_prelude),
    HELPER("maximum_with_index", "a_value, a_index, b_value, b_index", lib_call_prelude),
    HELPER("min_with_index", "value, index, dim", lib_call_prelude),
    HELPER("max_with_index", "value, index, dim", lib_call_prelude),
    HELPER("exp", "x, use_fast_math=False", lib_call_prelude),
    HELPER("online_softmax_reduce", "lhs_max, lhs_sum, dim, use_fast_math=False", lib_call_prelude),
    HELPER("online_softmax_combine", "lhs_max, lhs_sum, rhs_max, use_fast_math=False", lib_call_prelude),
    HELPER("welford_reduce", "value, mean, m2, weight, first_iteration", lib_call_prelude),
    HELPER("welford_combine", "mean_1, m2_1, weight_1, mean_2, m2_2, weight_2", lib_call_prelude),
    HELPER("welford", "mean, m2, weight, dim", lib_call_prelude),
    HELPER("device_assert_then", "cond, msg, r", lib_call_prelude),
    HELPER("randint64", "seed, offset, low, high", lib_call_prelude),
    HELPER("bucketize_binary_search",
           "values, boundaries_ptr, BOUNDARIES_SIZE, BOUNDARIES_UNDERLYING_NUMEL, BOUNDARIES_STRIDE, boundary_indices, "
           "indexing_dtype, right, sorter_ptr=None, SORTER_STRIDE=None, sorter_indices=None",
           lib_call_prelude),
    HELPER("frexp", "x", lib_call_prelude),
    HELPER("select_one", "x, mask, dim, keep_dims=False", lib_call_prelude),
    HELPER("if_mask", "mask, val", lib_call_prelude),
    HELPER("sort_with_index", "x, idxs, rnumel, dim=None, stable=False, descending=False", lib_call_prelude),
    HELPER("x_grid_barrier", "sem", lib_call_prelude),
    HELPER("exclusive_scan_decoupled_lookback",
           "scratch_base, block_value, index, combine_fn, DTYPE_VALUE_AS_UINT, DTYPE_PACK", lib_call_prelude),
    HELPER("exclusive_scan_decoupled_lookback_64", "scratch_base, block_value, index, combine_fn", lib_call_prelude),
    {0},
};
