/* lib_reduce.c: reductions, scans, sorting and counting.
 *
 * sum, max, min, xor_sum, cumsum and their kin build a body of one operation (two block arguments, one add), so that a
 * back end sees at once what it is; reduce and associative_scan build theirs from the kernel's own combine function.
 *
 * argmax and its kin reduce pairs (value, index). Left wins when it is greater, or equal with the lower index, or when
 * right is NaN: so NaN is skipped and ties go to the lowest index, in whatever order the elements meet.
 */
#include "front/library/lib.h"

static const char REDUCTION[] = "Reduction", SCAN[] = "Scan and sort";

/* ---- the operation and its body ---------------------------------------------------------------------------------- */

static Op *begin_combine(Front *fr, OpCode code, int k, Value **in, int axis) {
  const Type **out = NEW_N(fr->cx->arena, const Type *, k);
  for (int i = 0; i < k; i++) {
    const Type *t = in[i]->type;
    int32_t shape[MAX_RANK];
    int rank = 0;
    for (int d = 0; d < t->rank; d++)
      if (d != axis) shape[rank++] = t->shape[d];
    out[i] = code == OP_SCAN ? t : type_tensor(fr->cx, type_elem(fr->cx, t), rank, shape);
  }
  Op *op = build_op(&fr->b, code, k, in, k, out);
  op->axis = axis;
  Block *body = block_create(fr->func, op);
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < k; i++) block_add_arg(fr->func, body, type_elem(fr->cx, in[i]->type), NULL);
  return op;
}

static OpCode combine_op(Combine how) {
  static const OpCode codes[] = {
      [COMBINE_ADD] = OP_ADD, [COMBINE_MUL] = OP_MUL, [COMBINE_MAX] = OP_MAX, [COMBINE_MIN] = OP_MIN,
      [COMBINE_XOR] = OP_XOR, [COMBINE_OR] = OP_OR,   [COMBINE_AND] = OP_AND};
  return codes[how];
}

static Op *combine_with(Front *fr, OpCode code, Value *x, int axis, Combine how) {
  Op *op = begin_combine(fr, code, 1, &x, axis);
  Block *body = op->body[0];
  Builder keep = lib_enter(fr, body);
  Value *r = build_binary(&fr->b, combine_op(how), body->args[0], body->args[1]);
  build_yield(&fr->b, 1, &r);
  fr->b = keep;
  return op;
}

Value *lib_reduce_with(Front *fr, Value *x, int axis, Combine how) {
  return combine_with(fr, OP_REDUCE, x, axis, how)->out[0];
}

/* A body from a function of the kernel: its results must be as many and of the very types of the inputs' elements. */
static Op *combine_by(Front *fr, const Builtin *b, Span at, OpCode code, int k, Value **in, int axis, Py *fn) {
  lib_jit_function(fr, at, b, "combine_fn", fn);
  Op *op = begin_combine(fr, code, k, in, axis);
  Block *body = op->body[0];
  Py **args = NEW_N(fr->cx->arena, Py *, 2 * k);
  for (int i = 0; i < 2 * k; i++) args[i] = py_tensor(fr, body->args[i]);
  Builder keep = lib_enter(fr, body);
  Py *result = front_hooks.call_values(fr, fn, at, 2 * k, args);
  Py *const *results = result->kind == PY_TUPLE ? result->tuple.at : &result;
  int n = result->kind == PY_TUPLE ? result->tuple.n : 1;
  if (n != k)
    lib_fail(fr, at, b, NULL, "`combine_fn` must return %d value%s, one for each input, but it returns %d", k,
             k > 1 ? "s" : "", n);
  Value **values = NEW_N(fr->cx->arena, Value *, k);
  for (int i = 0; i < k; i++) {
    const Type *want = body->args[i]->type;
    if (py_is_number(results[i])) values[i] = sem_constant(fr, at, results[i], sem_natural_type(fr, at, results[i]));
    else if (results[i]->kind == PY_TENSOR) values[i] = results[i]->value;
    else lib_fail(fr, at, b, NULL, "`combine_fn` must return values, but it returns %s", py_describe(fr, results[i]));
    if (values[i]->type != want)
      lib_fail(fr, at, b, "cast the input before, or the result inside the function",
               "`combine_fn` must return what it gets: value %d is of type %s, but the input's elements are %s", i,
               type_text(fr, values[i]->type), type_text(fr, want));
  }
  build_yield(&fr->b, k, values);
  fr->b = keep;
  lib_note_inner_tensors(fr, body);
  return op;
}

/* ---- axis and keep_dims ------------------------------------------------------------------------------------------ */

typedef struct Line {
  int axis, rank;
  bool flat, keep;
} Line; /* flat: axis=None */

static int line_axis(Front *fr, const Builtin *b, Span at, const Py *p, int rank) {
  int axis = lib_small_int(fr, at, b, "axis", p);
  if (axis < -rank || axis >= rank)
    lib_refuse(fr, at, NULL, "invalid axis %d. Expected %d <= axis < %d", axis, -rank, rank);
  return axis < 0 ? axis + rank : axis;
}

/* Reads axis and keep_dims; with axis=None the inputs become one-dimensional. */
static Line read_line(Front *fr, const Builtin *b, Span at, int k, Value **in, const Py *axis, const Py *keep_dims) {
  Line l = {.rank = in[0]->type->rank, .keep = lib_truth(keep_dims)};
  if (!lib_none(axis)) {
    l.axis = line_axis(fr, b, at, axis, l.rank);
    return l;
  }
  l.flat = true;
  for (int i = 0; i < k; i++) {
    int32_t n = (int32_t)type_numel(in[i]->type);
    if (l.rank == 1) continue;
    in[i] = build_reshape(&fr->b, in[i], 1, &n);
    in[i]->def->reorder = 1; /* any order will do */
  }
  return l;
}

static Value *finish_line(Front *fr, const Line *l, Value *v) {
  if (!l->keep) return v;
  if (!l->flat) return sem_expand_dims(fr, v, l->axis);
  int32_t ones[MAX_RANK];
  for (int i = 0; i < l->rank; i++) ones[i] = 1;
  return sem_splat(fr, v, l->rank, ones);
}

static Value *number_block(Front *fr, const Builtin *b, Span at, const char *name, Py *p) {
  Value *v = lib_block(fr, at, b, name, p);
  if (v->type->ptr)
    lib_fail(fr, at, b, "load the elements first", "`%s` must hold numbers, but it holds pointers (%s)", name,
             type_text(fr, v->type));
  return v;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Small integers are summed in 32 bits of the same signedness (int1 counts as unsigned). */
static Value *widen_for_sum(Front *fr, const Builtin *b, Span at, Value *x, const Py *dtype) {
  Dtype d = x->type->dtype;
  if (!lib_none(dtype)) return sem_cast_value(fr, at, x, lib_dtype(fr, at, b, "dtype", dtype), 0, false);
  if (!dtype_is_int(d) || dtype_bits(d) >= 32) return x;
  return sem_cast_value(fr, at, x, type_number(fr->cx, dtype_is_signed(d) ? DT_I32 : DT_U32), 0, false);
}

/* Narrow floats are added up in f32 and rounded once: a sum's order is free, so this is the best of the results that
 * Triton may give, and every back end gives it. */
static Value *wide_for_sum(Front *fr, Value *x) {
  Dtype d = x->type->dtype;
  return dtype_is_float(d) && dtype_bits(d) < 32 ? build_convert(&fr->b, x, DT_F32) : x;
}

/* Sums and comparisons of fp8 are arithmetic on it, which no GPU has. */
static Value *no_fp8(Front *fr, const Builtin *b, Span at, Value *x) {
  if (dtype_is_fp8(x->type->dtype))
    lib_fail(fr, at, b, "convert first: x.to(tl.float16)", "`input` is %s: there is no arithmetic on fp8",
             type_text(fr, x->type));
  return x;
}

static Py *call_sum(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = widen_for_sum(fr, b, at, number_block(fr, b, at, "input", args[0]), args[3]);
  no_fp8(fr, b, at, x);
  Line l = read_line(fr, b, at, 1, &x, args[1], args[2]);
  Value *sum = lib_reduce_with(fr, wide_for_sum(fr, x), l.axis, COMBINE_ADD);
  return py_tensor(fr, finish_line(fr, &l, build_convert(&fr->b, sum, x->type->dtype)));
}

static Py *call_bit_reduce(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = number_block(fr, b, at, "input", args[0]);
  if (!dtype_is_int(x->type->dtype))
    lib_refuse(fr, at, NULL, "%s only supported for integers: `input` is %s", b->name, type_text(fr, x->type));
  Line l = read_line(fr, b, at, 1, &x, args[1], args[2]);
  return py_tensor(fr,
                   finish_line(fr, &l, lib_reduce_with(fr, x, l.axis, b->name[0] == 'x' ? COMBINE_XOR : COMBINE_OR)));
}

/* ---- max, min and their indices ---------------------------------------------------------------------------------- */

static void arg_combine_body(Front *fr, Block *body, bool max) {
  Builder keep = lib_enter(fr, body), *b = &fr->b;
  Value *v1 = body->args[0], *i1 = body->args[1], *v2 = body->args[2], *i2 = body->args[3];
  Value *left = build_binary(b, OP_OR, build_cmp(b, max ? CMP_GT : CMP_LT, v1, v2),
                             build_binary(b, OP_AND, build_cmp(b, CMP_EQ, v1, v2), build_cmp(b, CMP_LT, i1, i2)));
  if (dtype_is_float(v1->type->dtype)) left = build_binary(b, OP_OR, left, build_cmp(b, CMP_NE, v2, v2));
  build_yield(b, 2, (Value *[]){build_select(b, left, v1, v2), build_select(b, left, i1, i2)});
  fr->b = keep;
}

static Op *reduce_with_index(Front *fr, Value *x, int axis, bool max) {
  int rank = x->type->rank;
  int32_t line[MAX_RANK], n = x->type->shape[axis];
  for (int i = 0; i < rank; i++) line[i] = 1;
  line[axis] = n;
  Value *index = build_arange(&fr->b, 0, n);
  if (rank > 1) index = build_broadcast(&fr->b, build_reshape(&fr->b, index, rank, line), rank, x->type->shape);
  Op *op = begin_combine(fr, OP_REDUCE, 2, (Value *[]){x, index}, axis);
  arg_combine_body(fr, op->body[0], max);
  return op;
}

/* Triton compares halves as f32, and returns them so: max/min of fp16 and bf16 is f32, of small integers int32. */
static Value *widen_for_max(Front *fr, Span at, Value *x) {
  Dtype d = x->type->dtype;
  if (dtype_bits(d) >= 32) return x;
  return sem_cast_value(fr, at, x, type_number(fr->cx, dtype_is_float(d) ? DT_F32 : DT_I32), 0, false);
}

static Py *with_index(Front *fr, const Builtin *b, Span at, Py *input, const Py *axis, const Py *keep_dims, bool max) {
  Value *x = sem_bf16_to_f32(fr, no_fp8(fr, b, at, number_block(fr, b, at, "input", input)));
  if (lib_none(axis))
    lib_fail(fr, at, b, "give an axis, or flatten with tl.ravel and use axis=0",
             "`axis` must be given where indices are wanted");
  Line l = read_line(fr, b, at, 1, &x, axis, keep_dims);
  Op *op = reduce_with_index(fr, x, l.axis, max);
  return py_tuple(
      fr, 2, (Py *[]){py_tensor(fr, finish_line(fr, &l, op->out[0])), py_tensor(fr, finish_line(fr, &l, op->out[1]))});
}

/* Of equal elements the first is taken, which is right whatever is asked for. It may be known at run time alone. */
static void check_tie_break(Front *fr, const Builtin *b, Span at, const char *name, Py *p) {
  if (p->kind == PY_TENSOR && !p->is_constexpr) sem_condition(fr, at, p);
  else lib_condition(fr, at, b, name, p);
}

static Py *call_max_min(Front *fr, const Builtin *b, Span at, Py **args) {
  bool max = !strcmp(b->name, "max");
  if (lib_condition(fr, at, b, "return_indices", args[2])) {
    check_tie_break(fr, b, at, "return_indices_tie_break_left", args[3]);
    return with_index(fr, b, at, args[0], args[1], args[4], max);
  }
  Value *x = widen_for_max(fr, at, number_block(fr, b, at, "input", args[0]));
  Line l = read_line(fr, b, at, 1, &x, args[1], args[4]);
  return py_tensor(fr, finish_line(fr, &l, lib_reduce_with(fr, x, l.axis, max ? COMBINE_MAX : COMBINE_MIN)));
}

static Py *call_argmax_argmin(Front *fr, const Builtin *b, Span at, Py **args) {
  check_tie_break(fr, b, at, "tie_break_left", args[2]);
  return with_index(fr, b, at, args[0], args[1], args[3], !strcmp(b->name, "argmax"))->tuple.at[1];
}

/* ---- reduce and associative_scan --------------------------------------------------------------------------------- */

static int read_inputs(Front *fr, const Builtin *b, Span at, Py *input, Value ***in) {
  int k = input->kind == PY_TUPLE ? input->tuple.n : 1;
  if (k == 0) lib_fail(fr, at, b, NULL, "`input` is empty");
  *in = NEW_N(fr->cx->arena, Value *, k);
  for (int i = 0; i < k; i++) {
    (*in)[i] = number_block(fr, b, at, "input", input->kind == PY_TUPLE ? input->tuple.at[i] : input);
    if (!type_same_shape((*in)[i]->type, (*in)[0]->type))
      lib_refuse(fr, at, NULL, "all %s inputs must have the same shape, but they are %s and %s",
                 b->name[0] == 'r' ? "reduction" : "scan", type_text(fr, (*in)[0]->type),
                 type_text(fr, (*in)[i]->type));
  }
  return k;
}

static Py *outputs(Front *fr, const Py *input, int k, Value **out) {
  if (input->kind != PY_TUPLE) return py_tensor(fr, out[0]);
  Py **items = NEW_N(fr->cx->arena, Py *, k);
  for (int i = 0; i < k; i++) items[i] = py_tensor(fr, out[i]);
  return py_tuple(fr, k, items);
}

static Py *call_reduce(Front *fr, const Builtin *b, Span at, Py **args) {
  Value **in;
  int k = read_inputs(fr, b, at, args[0], &in);
  Line l = read_line(fr, b, at, k, in, args[1], args[3]);
  Op *op = combine_by(fr, b, at, OP_REDUCE, k, in, l.axis, args[2]);
  Value **out = NEW_N(fr->cx->arena, Value *, k);
  for (int i = 0; i < k; i++) out[i] = finish_line(fr, &l, op->out[i]);
  return outputs(fr, args[0], k, out);
}

static Py *call_scan(Front *fr, const Builtin *b, Span at, Py **args) {
  Value **in;
  int k = read_inputs(fr, b, at, args[0], &in);
  int axis = line_axis(fr, b, at, args[1], in[0]->type->rank);
  Op *op = combine_by(fr, b, at, OP_SCAN, k, in, axis, args[2]);
  op->reverse = lib_flag(fr, at, b, "reverse", args[3]);
  return outputs(fr, args[0], k, op->out);
}

static Py *call_cumulative(Front *fr, const Builtin *b, Span at, Py **args) {
  bool sum = !strcmp(b->name, "cumsum");
  Value *x = sem_bf16_to_f32(fr, number_block(fr, b, at, "input", args[0]));
  if (sum) x = widen_for_sum(fr, b, at, x, args[3]);
  no_fp8(fr, b, at, x);
  int axis = line_axis(fr, b, at, args[1], x->type->rank);
  Op *op = combine_with(fr, OP_SCAN, wide_for_sum(fr, x), axis, sum ? COMBINE_ADD : COMBINE_MUL);
  op->reverse = lib_flag(fr, at, b, "reverse", args[2]);
  return py_tensor(fr, build_convert(&fr->b, op->out[0], x->type->dtype));
}

/* ---- sort, topk, histogram --------------------------------------------------------------------------------------- */

/* Triton's sort computes with it: of another number no order comes. */
static bool is_descending(Front *fr, const Builtin *b, Span at, const Py *p) {
  if (p && (p->kind == PY_NONE || ((p->kind == PY_INT || p->kind == PY_BOOL) && p->i != 0 && p->i != 1)))
    lib_fail(fr, at, b, NULL, "`descending` must be 0 or 1, but it is %s", py_describe(fr, p));
  return lib_condition(fr, at, b, "descending", p);
}

static Value *sort_last(Front *fr, const Builtin *b, Span at, Value *x, const Py *dim, bool descending, bool bitonic) {
  int rank = x->type->rank;
  if (!lib_none(dim) && lib_int(fr, at, b, "dim", dim) != rank - 1)
    lib_refuse(fr, at,
               lib_axis(fr, at, b, "dim", dim, rank) == rank - 1 ? "leave `dim` out"
                                                                 : "bring the dim to the end with tl.permute",
               "only minor dimension is currently supported: %s sorts dim %d, but `dim` is %s", lib_full_name(fr, b),
               rank - 1, py_describe(fr, dim));
  if (bitonic && type_numel(x->type) == 1)
    lib_refuse(fr, at, NULL, "'dtype' object has no attribute 'numel': %s has one element", type_text(fr, x->type));
  Op *op = build_op(&fr->b, OP_SORT, 1, &x, 1, &x->type);
  op->descending = descending;
  op->bitonic = bitonic;
  return op->out[0];
}

static Py *order(Front *fr, const Builtin *b, Span at, Py **args, bool bitonic) {
  return py_tensor(fr, sort_last(fr, b, at, no_fp8(fr, b, at, number_block(fr, b, at, "x", args[0])), args[1],
                                 is_descending(fr, b, at, args[2]), bitonic));
}
static Py *call_sort(Front *fr, const Builtin *b, Span at, Py **args) { return order(fr, b, at, args, false); }
static Py *call_bitonic_merge(Front *fr, const Builtin *b, Span at, Py **args) { return order(fr, b, at, args, true); }

/* A k between powers of two counts as the lower one, as in Triton. */
static Py *call_topk(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = number_block(fr, b, at, "x", args[0]);
  int rank = x->type->rank, n = x->type->shape[rank - 1],
      k = lib_none(args[1]) ? n : lib_small_int(fr, at, b, "k", args[1]);
  if (k < 1) lib_refuse(fr, at, NULL, "topk: k must be greater than 0, but it is %d", k);
  while (k & (k - 1)) k &= k - 1;
  if (k > n)
    lib_refuse(fr, at, NULL, "topk: k must not exceed the size of the selected dimension (%d), but it is %d", n, k);
  if (k < n) x = widen_for_max(fr, at, x);
  Value *sorted = sort_last(fr, b, at, x, args[2], is_descending(fr, b, at, args[3]), false);
  return py_tensor(fr, k < n ? lib_take(fr, sorted, rank - 1, k, false) : sorted);
}

static Py *call_histogram(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *in[2] = {number_block(fr, b, at, "input", args[0]), NULL};
  if (in[0]->type->rank != 1)
    lib_refuse(fr, at, "flatten it with tl.ravel", "histogram only supports 1D input, but it is %s",
               type_text(fr, in[0]->type));
  if (!dtype_is_int(in[0]->type->dtype))
    lib_refuse(fr, at, "cast it with .to(tl.int32)", "histogram only supports integer input, but it is %s",
               type_text(fr, in[0]->type));
  int bins = lib_small_int(fr, at, b, "num_bins", args[1]);
  if (bins < 1 || (bins & (bins - 1)) || bins > MAX_TILE_ELEMENTS)
    lib_fail(fr, at, b, NULL, "`num_bins` must be a power of 2 from 1 to %d, but it is %d", MAX_TILE_ELEMENTS, bins);
  if (!lib_none(args[2])) {
    in[1] = lib_value(fr, at, b, "mask", args[2]);
    if (in[1]->type->dtype != DT_I1 || in[1]->type->ptr)
      lib_refuse(fr, at, NULL, "Mask must have boolean scalar type, but it is of type %s", type_text(fr, in[1]->type));
    in[1] = sem_broadcast_to(fr, at, in[1], 1, in[0]->type->shape);
  }
  const Type *t = type_tensor(fr->cx, type_number(fr->cx, DT_I32), 1, (int32_t[]){bins});
  return py_tensor(fr, build_op(&fr->b, OP_HISTOGRAM, in[1] ? 2 : 1, in, 1, &t)->out[0]);
}

const Builtin lib_reduce_table[] = {
    {"tl", "sum", "input, axis=None, keep_dims=False, dtype=None", call_sum, REDUCTION, BUILTIN_MEMBER, NULL},
    {"tl", "max", "input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False",
     call_max_min, REDUCTION, BUILTIN_MEMBER, NULL},
    {"tl", "min", "input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False",
     call_max_min, REDUCTION, BUILTIN_MEMBER, NULL},
    {"tl", "argmax", "input, axis, tie_break_left=True, keep_dims=False", call_argmax_argmin, REDUCTION, BUILTIN_MEMBER,
     "ties: always the lowest index"},
    {"tl", "argmin", "input, axis, tie_break_left=True, keep_dims=False", call_argmax_argmin, REDUCTION, BUILTIN_MEMBER,
     "ties: always the lowest index"},
    {"tl", "xor_sum", "input, axis=None, keep_dims=False", call_bit_reduce, REDUCTION, BUILTIN_MEMBER, NULL},
    {"tl", "reduce_or", "input, axis=None, keep_dims=False", call_bit_reduce, REDUCTION, BUILTIN_MEMBER, NULL},
    {"tl", "reduce", "input, axis, combine_fn, keep_dims=False", call_reduce, REDUCTION, BUILTIN_MEMBER,
     "`combine_fn`: a jit function"},
    {"tl", "associative_scan", "input, axis, combine_fn, reverse=False", call_scan, SCAN, BUILTIN_MEMBER,
     "`combine_fn`: a jit function"},
    {"tl", "cumsum", "input, axis=0, reverse=False, dtype=None", call_cumulative, SCAN, BUILTIN_MEMBER, NULL},
    {"tl", "cumprod", "input, axis=0, reverse=False", call_cumulative, SCAN, BUILTIN_MEMBER, NULL},
    {"tl", "sort", "x, dim=None, descending=False", call_sort, SCAN, BUILTIN_MEMBER, NULL},
    {"tl", "topk", "x, k, dim=None, descending=True", call_topk, SCAN, 0,
     "`descending`: Triton 3.8; `k=1` of a vector: 3.9"},
    {"tl.core", "sort_impl", "x, k=None, dim=None, descending=False", call_topk, NULL, 0, NULL},
    {"tl", "bitonic_merge", "x, dim=None, descending=False", call_bitonic_merge, SCAN, 0, NULL},
    {"tl", "histogram", "input, num_bins, mask=None", call_histogram, SCAN, BUILTIN_MEMBER, NULL},
    {0},
};
