/* lib_create.c: the programming model, making tensors, and casts. */
#include "front/library/lib.h"

static int grid_axis(Front *fr, const Builtin *b, Span at, Py *p) {
  int axis = lib_small_int(fr, at, b, "axis", p);
  if (axis < 0 || axis > 2) lib_refuse(fr, at, NULL, "%s axis must be 0, 1, or 2 but got %d", b->name, axis);
  return axis;
}

static Py *call_grid(Front *fr, const Builtin *b, Span at, Py **args) {
  const Type *i32 = type_number(fr->cx, DT_I32);
  Op *op = build_op(&fr->b, b->name[0] == 'p' ? OP_PROGRAM_ID : OP_NUM_PROGRAMS, 0, NULL, 1, &i32);
  op->axis = grid_axis(fr, b, at, args[0]);
  return py_tensor(fr, op->out[0]);
}

static Py *call_arange(Front *fr, const Builtin *b, Span at, Py **args) {
  for (int i = 0; i < 2; i++)
    if (args[i]->kind == PY_TENSOR) {
      const char *name = i ? "`end`" : "`start`";
      lib_not_constexpr(fr, at,
                        arena_printf(fr->cx->arena, "arange's arguments must be of type tl.constexpr, but %s", name),
                        args[i]);
    }
  PyInt start = lib_int(fr, at, b, "start", args[0]), end = lib_int(fr, at, b, "end", args[1]);
  if (start < 0 || start > INT32_MAX || end < INT32_MIN || end > INT32_MAX)
    lib_refuse(fr, at, NULL, "arange must fit in int32 and not be negative, but it goes from %s to %s",
               py_describe(fr, args[0]), py_describe(fr, args[1]));
  int64_t n = (int64_t)(end - start);
  if (n <= 0)
    lib_refuse(fr, at, NULL,
               "arange's end argument must be greater than the start argument, but they are %lld and %lld",
               (long long)end, (long long)start);
  if (n & (n - 1))
    lib_refuse(fr, at,
               arena_printf(fr->cx->arena,
                            "end - start is %lld: round it up with triton.next_power_of_2 and mask what is too much",
                            (long long)n),
               "arange's range must be a power of 2");
  if (n > MAX_TILE_ELEMENTS)
    lib_refuse(fr, at, "use smaller blocks and more programs", "numel (%lld) exceeds triton maximum tensor numel (%d)",
               (long long)n, MAX_TILE_ELEMENTS);
  return py_tensor(fr, build_arange(&fr->b, (int64_t)start, (int64_t)end));
}

/* A number as a scalar of `elem`, which must be able to hold it. */
static Value *number_as(Front *fr, const Builtin *b, Span at, Py *number, const Type *elem) {
  if (elem->ptr) lib_fail(fr, at, b, NULL, "`dtype` must be a number type, but it is %s", type_text(fr, elem));
  if (elem->dtype == DT_I1) return build_int(&fr->b, elem, py_truth(fr, at, number));
  if (dtype_is_int(elem->dtype)) {
    if (number->kind == PY_FLOAT && number->f != 0)
      lib_fail(fr, at, b, "pass an int, or a float dtype", "`value` is the float %s, but `dtype` is %s",
               py_describe(fr, number), type_text(fr, elem));
    PyInt v = number->kind == PY_FLOAT ? 0 : number->i, one = 1;
    int bits = dtype_bits(elem->dtype);
    bool is_signed = dtype_is_signed(elem->dtype);
    if (v < 0 && !is_signed)
      lib_fail(fr, at, b, NULL, "`value` %s is out of range for %s", py_describe(fr, number), type_text(fr, elem));
    if (v < -(one << 63) || v >= one << (is_signed ? 63 : 64))
      lib_fail(fr, at, b, NULL, "`value` %s does not fit in 64 bits", py_describe(fr, number));
    /* Triton keeps the low bits. Those of an unsigned number are fine for a signed type: full(..., 0xFF, tl.int8). */
    if (v < -(one << (bits - 1)) || v >= one << bits)
      diag_warn(fr->cx, at, "%s: only the low bits of `value` %s fit in %s", lib_full_name(fr, b),
                py_describe(fr, number), type_text(fr, elem));
  }
  return sem_constant(fr, at, number, elem);
}

static Py *fill(Front *fr, const Builtin *b, Span at, Py *shape_arg, Py *value, Py *dtype) {
  int32_t shape[MAX_RANK];
  if (shape_arg->kind != PY_TUPLE)
    lib_fail(fr, at, b, "write it as a tuple, (n,)", "`shape` must be a tuple or list, but it is %s",
             py_describe(fr, shape_arg));
  int rank = lib_shape(fr, at, b, "shape", shape_arg, shape);
  if (lib_none(dtype)) lib_refuse(fr, at, NULL, "dtype must be specified when value is not a tensor");
  const Type *elem = lib_dtype(fr, at, b, "dtype", dtype);
  Value *v;
  if (value->kind == PY_TENSOR) {
    v = value->value;
    if (v->type->rank && type_numel(v->type) > 1)
      lib_refuse(fr, at, NULL,
                 "only accepts size-1 tensor: `value` must be a number or a scalar, but it is a block (%s)",
                 type_text(fr, v->type));
    if (v->type->rank)
      lib_refuse(fr, at, "take its element: value.item()", "Cannot splat a block tensor: `value` is %s",
                 type_text(fr, v->type));
    v = sem_cast_value(fr, at, v, elem, 0, false);
  } else if (py_is_number(value)) {
    v = number_as(fr, b, at, value, elem);
  } else {
    lib_fail(fr, at, b, NULL, "`value` must be a number or a scalar, but it is %s", py_describe(fr, value));
  }
  /* A constant of tensor type says the same as a splat, in one operation. */
  if (rank && v->def && v->def->code == OP_CONST) {
    const Type *t = type_tensor(fr->cx, elem, rank, shape);
    return py_tensor(fr, dtype_is_float(elem->dtype) ? build_float(&fr->b, t, v->def->number)
                                                     : build_int(&fr->b, t, v->def->value));
  }
  return py_tensor(fr, sem_splat(fr, v, rank, shape));
}

static Py *call_full(Front *fr, const Builtin *b, Span at, Py **args) {
  return fill(fr, b, at, args[0], args[1], args[2]);
}
static Py *call_zeros(Front *fr, const Builtin *b, Span at, Py **args) {
  return fill(fr, b, at, args[0], py_int(fr, 0), args[1]);
}

static Py *like(Front *fr, const Builtin *b, Span at, Py *input, int value) {
  Value *x = lib_tensor(fr, at, b, "input", input);
  if (x->type->ptr)
    lib_fail(fr, at, b, NULL, "`input` must hold numbers, but it holds pointers (%s)", type_text(fr, x->type));
  return py_tensor(fr, dtype_is_float(x->type->dtype) ? build_float(&fr->b, x->type, value)
                                                      : build_int(&fr->b, x->type, value));
}
static Py *call_zeros_like(Front *fr, const Builtin *b, Span at, Py **args) { return like(fr, b, at, args[0], 0); }

static Py *call_to_tensor(Front *fr, const Builtin *b, Span at, Py **args) {
  return py_tensor(fr, lib_value(fr, at, b, "x", args[0]));
}

static Py *call_cat(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = lib_block(fr, at, b, "input", args[0]), *y = lib_block(fr, at, b, "other", args[1]);
  if (x->type != y->type)
    lib_fail(fr, at, b, "broadcast and cast them first",
             "`input` and `other` must have one shape and type, but they are %s and %s", type_text(fr, x->type),
             type_text(fr, y->type));
  int axis = lib_axis(fr, at, b, "dim", args[3], x->type->rank);
  int32_t shape[MAX_RANK];
  memcpy(shape, x->type->shape, sizeof shape);
  shape[axis] *= 2;
  if (type_numel(x->type) * 2 > MAX_TILE_ELEMENTS)
    lib_fail(fr, at, b, NULL, "the result has more than %d elements", MAX_TILE_ELEMENTS);
  const Type *t = type_tensor(fr->cx, type_elem(fr->cx, x->type), x->type->rank, shape);
  Op *op = build_op(&fr->b, OP_CAT, 2, (Value *[]){x, y}, 1, &t);
  op->axis = axis;
  return py_tensor(fr, op->out[0]);
}

/* ---- casts ------------------------------------------------------------------------------------------------------- */

static Py *call_cast(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *v = lib_value(fr, at, b, "input", args[0]);
  const Type *to = lib_dtype(fr, at, b, "dtype", args[1]);
  bool bitcast = lib_truth(args[3]);
  if (args[2]->kind != PY_NONE && args[2]->kind != PY_STR)
    lib_fail(fr, at, b, "write bitcast=True by name",
             "`fp_downcast_rounding` must be \"rtne\" or \"rtz\", but it is %s", py_describe(fr, args[2]));
  const char *rounding = lib_str(fr, at, b, "fp_downcast_rounding", args[2]);
  if (rounding[0] && !bitcast && type_elem(fr->cx, v->type) != to) {
    if (strcmp(rounding, "rtne") && strcmp(rounding, "rtz"))
      lib_fail(fr, at, b, NULL, "`fp_downcast_rounding` must be \"rtne\" or \"rtz\", but it is \"%s\"", rounding);
    const Type *from = v->type;
    bool narrows = !from->ptr && !to->ptr && dtype_is_float(from->dtype) && dtype_is_float(to->dtype) &&
                   dtype_bits(to->dtype) < dtype_bits(from->dtype);
    if (!narrows)
      lib_fail(fr, at, b, NULL,
               "`fp_downcast_rounding` applies to casts to a narrower float type only, not from %s to %s",
               type_text(fr, from), type_text(fr, to));
  }
  return py_tensor(fr, sem_cast_value(fr, at, v, to, !strcmp(rounding, "rtz"), bitcast));
}

static const char CREATION[] = "Creation", MODEL[] = "Programming model";
const Builtin lib_create_table[] = {
    {"tl", "program_id", "axis", call_grid, MODEL, 0, NULL},
    {"tl", "num_programs", "axis", call_grid, MODEL, 0, NULL},
    {"tl", "arange", "start, end", call_arange, CREATION, 0, NULL},
    {"tl", "full", "shape, value, dtype", call_full, CREATION, 0, "numbers but 0 as fp8: Triton 3.7"},
    {"tl", "zeros", "shape, dtype", call_zeros, CREATION, 0, NULL},
    {"tl", "zeros_like", "input", call_zeros_like, CREATION, 0, NULL},
    {"tl", "cat", "input, other, can_reorder=False, dim=0", call_cat, CREATION, 0,
     "keeps the order; without `can_reorder`, and along `dim`: Triton 3.7"},
    {"tl", "to_tensor", "x", call_to_tensor, CREATION, 0, "Triton 3.7"},
    {"tl", "cast", "input, dtype, fp_downcast_rounding=None, bitcast=False", call_cast, CREATION, BUILTIN_MEMBER, NULL},
    {"tensor", "to", "input, dtype, fp_downcast_rounding=None, bitcast=False", call_cast, CREATION, 0, NULL},
    {0},
};
