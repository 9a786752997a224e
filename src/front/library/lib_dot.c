/* lib_dot.c: matrix products. dot_scaled is written in Triton (prelude.py).
 *
 *     operands            result   accumulator
 *     int8                int32    int32
 *     bf16, f32           f32      f32
 *     f64                 f64      f64
 *     f16, fp8            out_dtype: the accumulator's type, else f32
 *
 * `input_precision` of f32 operands is an attribute that GPUs heed; the interpreter and CPUs compute in f32.
 */
#include "front/library/lib.h"

static DotPrecision read_precision(Front *fr, const Builtin *b, Span at, const Py *precision, const Py *allow_tf32) {
  static const struct {
    const char *name;
    DotPrecision p;
  } names[] = {{"tf32", PRECISION_TF32},
               {"tf32x3", PRECISION_TF32X3},
               {"ieee", PRECISION_IEEE},
               {"bf16x3", PRECISION_BF16X3},
               {"bf16x6", PRECISION_BF16X6}};
  if (!lib_none(precision) && !lib_none(allow_tf32))
    lib_fail(fr, at, b, NULL, "only one of `input_precision` and `allow_tf32` can be given");
  if (lib_none(precision))
    return lib_none(allow_tf32) || lib_bool(fr, at, b, "allow_tf32", allow_tf32) ? PRECISION_TF32 : PRECISION_IEEE;
  const char *s = lib_str(fr, at, b, "input_precision", precision);
  char lower[16] = {0};
  for (size_t i = 0; s[i] && i < sizeof lower - 1; i++)
    lower[i] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] + 32 : s[i]);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i].name, lower)) return names[i].p;
  lib_fail(fr, at, b, NULL,
           "`input_precision` must be \"tf32\", \"tf32x3\", \"ieee\", \"bf16x3\" or \"bf16x6\", but it is \"%s\"", s);
}

static bool operand_type(Dtype d) {
  return d == DT_I8 || d == DT_U8 || d == DT_F16 || d == DT_BF16 || d == DT_F32 || d == DT_F64 || dtype_is_fp8(d);
}

static Dtype result_type(Front *fr, const Builtin *b, Span at, Dtype x, Dtype y, Dtype out) {
  if (!operand_type(x) || !operand_type(y) || (x != y && !(dtype_is_fp8(x) && dtype_is_fp8(y))))
    lib_fail(fr, at, b, "cast one or both with .to(...)",
             "the operands must be of one type among int8, fp8, f16, bf16, f32 and f64, but they are %s and %s",
             dtype_name(x), dtype_name(y));
  if (x == DT_U8)
    lib_fail(fr, at, b, "cast to int8, f16 or wider", "operands of type u8 are not supported, only int8 is");
  if (x == DT_I8) return DT_I32;
  if (out == DT_BF16)
    lib_fail(fr, at, b, "use float32 and cast the result with .to(tl.bfloat16)", "`out_dtype` cannot be bfloat16");
  if (x == DT_F32 || x == DT_BF16) return DT_F32;
  if (x == DT_F64) return DT_F64;
  if (out != DT_F32 && out != DT_F16)
    lib_fail(fr, at, b, NULL, "`out_dtype` must be float32 or float16, but it is %s", dtype_name(out));
  return out;
}

/* [..., a, b] -> [batch, a, b] */
static Value *flatten_batch(Front *fr, Value *v) {
  const Type *t = v->type;
  int32_t shape[3] = {1, t->shape[t->rank - 2], t->shape[t->rank - 1]};
  for (int i = 0; i < t->rank - 2; i++) shape[0] *= t->shape[i];
  return build_reshape(&fr->b, v, 3, shape);
}

static Py *call_dot(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = lib_block(fr, at, b, "input", args[0]), *y = lib_block(fr, at, b, "other", args[1]), *acc = NULL;
  if (x->type->ptr || y->type->ptr)
    lib_fail(fr, at, b, "load the elements first", "the operands must hold numbers, but they are %s and %s",
             type_text(fr, x->type), type_text(fr, y->type));
  DotPrecision precision = read_precision(fr, b, at, args[3], args[4]);
  int rank = x->type->rank;
  const int32_t *a = x->type->shape, *c = y->type->shape;
  if (rank != y->type->rank || rank < 2)
    lib_fail(fr, at, b, "make matrices of vectors with [:, None] and [None, :]",
             "the operands must have equal ranks of 2 or more, but they are %s and %s", type_text(fr, x->type),
             type_text(fr, y->type));
  for (int i = 0; i < rank - 2; i++)
    if (a[i] != c[i])
      lib_fail(fr, at, b, NULL, "the operands' batch dims must be equal, but they are %s and %s",
               type_text(fr, x->type), type_text(fr, y->type));
  if (a[rank - 1] != c[rank - 2])
    lib_fail(fr, at, b, a[rank - 1] == c[rank - 1] ? "tl.trans(other) would fit" : NULL,
             "the last dim of `input` (%s) must be the second to last of `other` (%s)", type_text(fr, x->type),
             type_text(fr, y->type));
  int32_t shape[MAX_RANK];
  memcpy(shape, a, sizeof shape);
  shape[rank - 1] = c[rank - 1];
  int64_t numel = 1;
  for (int i = 0; i < rank; i++) numel *= shape[i];
  if (numel > MAX_TILE_ELEMENTS)
    lib_fail(fr, at, b, "use smaller blocks", "the result of shape %s has more than %d elements",
             shape_text(fr, rank, shape), MAX_TILE_ELEMENTS);

  if (!lib_none(args[2])) acc = lib_tensor(fr, at, b, "acc", args[2]);
  Dtype out = !lib_none(args[6]) ? lib_dtype(fr, at, b, "out_dtype", args[6])->dtype : acc ? acc->type->dtype : DT_F32;
  const Type *elem = type_number(fr->cx, result_type(fr, b, at, x->type->dtype, y->type->dtype, out)),
             *t = type_tensor(fr->cx, elem, rank, shape);
  Value *float_acc = NULL; /* int8 into floats: the product is added to them */
  if (acc && elem->dtype == DT_I32 && !acc->type->ptr && dtype_is_float(acc->type->dtype) &&
      acc->type == type_with_elem(fr->cx, t, type_elem(fr->cx, acc->type))) {
    float_acc = acc;
    acc = NULL;
  }
  if (acc && acc->type != t)
    lib_fail(fr, at, b, "make it with tl.zeros of that shape and type", "`acc` must be %s, but it is %s",
             type_text(fr, t), type_text(fr, acc->type));
  /* fp8 pairs of two types meet in f16, which holds both exactly. */
  if (x->type->dtype != y->type->dtype) x = build_convert(&fr->b, x, DT_F16), y = build_convert(&fr->b, y, DT_F16);
  if (!acc) acc = dtype_is_float(elem->dtype) ? build_float(&fr->b, t, 0.0) : build_int(&fr->b, t, 0);
  Value *r = rank <= 3
                 ? build_dot(&fr->b, x, y, acc, precision)
                 : build_dot(&fr->b, flatten_batch(fr, x), flatten_batch(fr, y), flatten_batch(fr, acc), precision);
  if (rank > 3) r = build_reshape(&fr->b, r, rank, shape);
  if (float_acc) r = build_binary(&fr->b, OP_ADD, float_acc, build_convert(&fr->b, r, float_acc->type->dtype));
  return py_tensor(fr, r);
}

static const char DOT[] = "Linear algebra";
const Builtin lib_dot_table[] = {
    {"tl", "dot",
     "input, other, acc=None, input_precision=None, allow_tf32=None, max_num_imprecise_acc=None, out_dtype=None",
     call_dot, DOT, 0, "f32 is computed in f32, whatever `input_precision`"},
    {"tl", "dot_scaled",
     "lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, acc=None, fast_math=False, lhs_k_pack=True, "
     "rhs_k_pack=True, out_dtype=None",
     lib_call_prelude, DOT, 0, "computed in bf16, as Triton emulates it"},
    {0},
};
