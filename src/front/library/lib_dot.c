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
#include "front/core.h"
#include "front/library/lib.h"

#include <strings.h>

int front_dot_precision(const char *name) {
  static const struct {
    const char *name;
    DotPrecision p;
  } names[] = {{"tf32", PRECISION_TF32},
               {"tf32x3", PRECISION_TF32X3},
               {"ieee", PRECISION_IEEE},
               {"bf16x3", PRECISION_BF16X3},
               {"bf16x6", PRECISION_BF16X6}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcasecmp(names[i].name, name)) return (int)names[i].p;
  return -1;
}

/* A None that is written is Triton's constexpr(None), which counts as given, and as false. */
static DotPrecision read_precision(Front *fr, const Builtin *b, Span at, const Py *precision, const Py *allow_tf32) {
  if (!precision->is_default && !allow_tf32->is_default)
    lib_refuse(fr, at, "leave one of them out, also where it is None",
               "Only one of input_precision and allow_tf32 can be specified");
  const char *usual = fr->options->dot_precision ? fr->options->dot_precision : "tf32";
  if (!allow_tf32->is_default) return lib_truth(allow_tf32) ? PRECISION_TF32 : PRECISION_IEEE;
  if (lib_none(precision)) return (DotPrecision)front_dot_precision(usual);
  const char *s = lib_str(fr, at, b, "input_precision", precision);
  int found = front_dot_precision(s);
  if (found >= 0) return (DotPrecision)found;
  lib_refuse(fr, at, NULL, "input_precision must be one of ('tf32', 'tf32x3', 'ieee', 'bf16x3', 'bf16x6'). Got %s", s);
}

static bool operand_type(Dtype d) {
  return d == DT_I8 || d == DT_U8 || d == DT_F16 || d == DT_BF16 || d == DT_F32 || d == DT_F64 || dtype_is_fp8(d);
}

static Dtype result_type(Front *fr, const Builtin *b, Span at, Dtype x, Dtype y, Dtype out) {
  static const char KINDS[] = "dot takes int8, fp8, f16, bf16, f32 and f64: cast with .to(...)";
  if (!operand_type(x)) lib_refuse(fr, at, KINDS, "Unsupported lhs dtype %s", dtype_name(x));
  if (!operand_type(y)) lib_refuse(fr, at, KINDS, "Unsupported rhs dtype %s", dtype_name(y));
  if (x != y && !(dtype_is_fp8(x) && dtype_is_fp8(y)))
    lib_refuse(fr, at, "cast one of them with .to(...)", "Both operands must be same dtype. Got %s and %s",
               dtype_name(x), dtype_name(y));
  if (x == DT_U8) lib_refuse(fr, at, "cast to int8, f16 or wider", "only int8 supported! The operands are of type u8");
  if (x == DT_I8) return DT_I32;
  if (out == DT_BF16)
    lib_refuse(
        fr, at, NULL,
        "out_dtype=bfloat16 is unsupported. Please use out_dtype=float32/float16 and cast with `.to(tl.bfloat16)`");
  if (x == DT_F32 || x == DT_BF16) return DT_F32;
  if (x == DT_F64) return DT_F64;
  if (out != DT_F32 && out != DT_F16)
    lib_fail(fr, at, b, NULL, "`out_dtype` must be float32 or float16, but it is %s", dtype_name(out));
  return out;
}

/* The least sizes that Triton has for NVIDIA GPUs. */
static void check_least_sizes(Front *fr, Span at, const Type *x, const Type *y) {
  const Frame *f = core_of(fr)->frame;
  if (f && fr->prelude && f->fn->module == fr->prelude) return; /* dot_scaled has none */
  int least = dtype_bits(x->dtype) == 8 ? 32 : 16, k = x->shape[x->rank - 1];
  if (k < least)
    lib_refuse(fr, at, "use larger blocks, with a mask for what is too much; of vectors, tl.sum of the product",
               "Input shapes should have M >= 1, N >= 1 and K >= %d: they are %s and %s", least, type_text(fr, x),
               type_text(fr, y));
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
    lib_refuse(fr, at, "make matrices of vectors with [:, None] and [None, :]",
               "input and other must have equal ranks >= 2, but they are %s and %s", type_text(fr, x->type),
               type_text(fr, y->type));
  for (int i = 0; i < rank - 2; i++)
    if (a[i] != c[i])
      lib_refuse(fr, at, NULL, "input and other must have equal batch shapes, but they are %s and %s",
                 type_text(fr, x->type), type_text(fr, y->type));
  if (a[rank - 1] != c[rank - 2])
    lib_refuse(fr, at, a[rank - 1] == c[rank - 1] ? "tl.trans(other) would fit" : NULL,
               "input and other must have equal reduction dimensions, but they are %s and %s", type_text(fr, x->type),
               type_text(fr, y->type));
  int32_t shape[MAX_RANK];
  memcpy(shape, a, sizeof shape);
  shape[rank - 1] = c[rank - 1];
  int64_t numel = 1;
  for (int i = 0; i < rank; i++) numel *= shape[i];
  if (numel > MAX_TILE_ELEMENTS)
    lib_refuse(fr, at, "use smaller blocks", "numel (%lld) exceeds triton maximum tensor numel (%d): the result is %s",
               (long long)numel, MAX_TILE_ELEMENTS, shape_text(fr, rank, shape));

  if (!lib_none(args[2])) acc = lib_tensor(fr, at, b, "acc", args[2]);
  const Type *f32 = type_number(fr->cx, DT_F32),
             *out_type = lib_none(args[6]) ? f32 : lib_dtype(fr, at, b, "out_dtype", args[6]);
  Dtype out = out_type->dtype;
  const Type *elem = type_number(fr->cx, result_type(fr, b, at, x->type->dtype, y->type->dtype, out)),
             *t = type_tensor(fr->cx, elem, rank, shape);
  check_least_sizes(fr, at, x->type, y->type);
  if (acc && (acc->type->rank != rank || memcmp(acc->type->shape, shape, sizeof(int32_t) * (size_t)rank)))
    lib_refuse(fr, at, "make it with tl.zeros of that shape and type",
               "accumulator shape is incompatible: it is %s, and the product %s", type_text(fr, acc->type),
               type_text(fr, t));
  if (acc && type_elem(fr->cx, acc->type) != out_type)
    lib_refuse(fr, at,
               elem == type_elem(fr->cx, acc->type) ||
                       (acc->type->dtype == DT_F16 && (x->type->dtype == DT_F16 || dtype_is_fp8(x->type->dtype)))
                   ? arena_printf(fr->cx->arena, "pass out_dtype=tl.%s to use this accumulator dtype",
                                  dtype_torch_name(acc->type->dtype))
                   : "make it with tl.zeros of that shape and type",
               "expected accumulator dtype %s, got %s", type_text(fr, out_type),
               type_text(fr, type_elem(fr->cx, acc->type)));
  int64_t imprecise = lib_none(args[5]) ? 0 : lib_small_int(fr, at, b, "max_num_imprecise_acc", args[5]);
  if (imprecise > a[rank - 1] && dtype_is_fp8(x->type->dtype))
    lib_refuse(fr, at, NULL, "max_num_imprecise_acc (%s) must be <= K (%d)", py_describe(fr, args[5]), a[rank - 1]);
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
  if (dtype_is_fp8(x->type->dtype) && !lib_none(args[5])) r->def->imprecise = imprecise > 0 ? imprecise : 1;
  if (rank > 3) r = build_reshape(&fr->b, r, rank, shape);
  if (float_acc) r = build_binary(&fr->b, OP_ADD, float_acc, build_convert(&fr->b, r, float_acc->type->dtype));
  return py_tensor(fr, r);
}

/* ---- dot_scaled ----------------------------------------------------------------------------------------------- */

typedef struct Scaled {
  Value *v, *scale;
  const char *format;
  bool k_pack;
} Scaled;

static Scaled scaled_operand(Front *fr, const Builtin *b, Span at, Py **args, int first, int pack, const char *side) {
  Context *cx = fr->cx;
  Scaled s = {.v = lib_block(fr, at, b, side, args[first])};
  s.format = lib_str(fr, at, b, arena_printf(cx->arena, "%s_format", side), args[first + 2]);
  s.k_pack = lib_flag(fr, at, b, arena_printf(cx->arena, "%s_k_pack", side), args[pack]);
  if (!lib_none(args[first + 1]))
    s.scale = lib_block(fr, at, b, arena_printf(cx->arena, "%s_scale", side), args[first + 1]);
  static const struct {
    const char *name;
    Dtype own, packed;
  } formats[] = {{"e2m1", DT_U8, DT_U8},
                 {"e4m3", DT_F8E4NV, DT_U8},
                 {"e5m2", DT_F8E5, DT_U8},
                 {"bf16", DT_BF16, DT_U16},
                 {"fp16", DT_F16, DT_U16}};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (strcmp(formats[i].name, s.format)) continue;
    const Type *t = s.v->type;
    if (t->ptr || (t->dtype != formats[i].own && t->dtype != formats[i].packed))
      lib_refuse(fr, at, NULL, i ? "Unexpected dtype for %s. Got %s" : "%s format must be packed as uint8. Got %s",
                 s.format, type_text(fr, t));
    if (i && !s.k_pack)
      lib_refuse(fr, at, NULL, "only mxfp4 inputs can be packed along a dimension different than K: %s is %s", side,
                 s.format);
    return s;
  }
  lib_refuse(fr, at, "it is \"e2m1\", \"e4m3\", \"e5m2\", \"bf16\" or \"fp16\"", "Invalid float format: %s", s.format);
}

/* "['32', '4']", as Triton writes it */
static const char *quoted_shape(Front *fr, const Type *t) {
  const char *s = "[";
  for (int i = 0; i < t->rank; i++) s = arena_printf(fr->cx->arena, "%s%s'%d'", s, i ? ", " : "", t->shape[i]);
  return arena_printf(fr->cx->arena, "%s]", s);
}

static void check_scale(Front *fr, Span at, const Scaled *s, int32_t rows, int32_t k, const char *side) {
  if (!s->scale) return;
  const Type *t = s->scale->type;
  int32_t want[2] = {rows, k / (!t->ptr && t->dtype == DT_F8E4NV ? 16 : 32)};
  if (t->rank < 2 || t->shape[t->rank - 2] != want[0] || t->shape[t->rank - 1] != want[1])
    lib_refuse(fr, at, "a scale stands for 32 values along K, one of type float8e4nv for 16",
               "%s_scale must be a tensor of shape %s. Got %s", side, shape_text(fr, 2, want), quoted_shape(fr, t));
}

/* Checks what Triton checks; prelude.py computes. */
static Py *call_dot_scaled(Front *fr, const Builtin *b, Span at, Py **args) {
  lib_flag(fr, at, b, "fast_math", args[7]);
  if (!lib_none(args[10]) && lib_dtype(fr, at, b, "out_dtype", args[10])->dtype != DT_F32)
    lib_refuse(fr, at, NULL, "Only float32 is supported for out_dtype at the moment");
  Scaled x = scaled_operand(fr, b, at, args, 0, 8, "lhs"), y = scaled_operand(fr, b, at, args, 3, 9, "rhs");
  const Type *tx = x.v->type, *ty = y.v->type;
  int rank = tx->rank;
  if (rank != ty->rank || (rank != 2 && rank != 3))
    lib_refuse(fr, at, NULL, "Both inputs must be either 2D or 3D; (lhs: %s vs rhs: %s)", type_text(fr, tx),
               type_text(fr, ty));
  int32_t m = tx->shape[rank - 2], k = tx->shape[rank - 1], k_rhs = ty->shape[rank - 2], n = ty->shape[rank - 1];
  if (!strcmp(x.format, "e2m1")) *(x.k_pack ? &k : &m) *= 2;
  if (!strcmp(y.format, "e2m1")) *(y.k_pack ? &k_rhs : &n) *= 2;
  if (k != k_rhs)
    lib_refuse(fr, at, NULL, "Reduction dimension should pack the same number of elements; (lhs: %s vs rhs: %s)",
               type_text(fr, tx), type_text(fr, ty));
  if (!lib_none(args[6])) {
    const Type *t = lib_block(fr, at, b, "acc", args[6])->type;
    if (t->rank != rank || t->shape[rank - 2] != m || t->shape[rank - 1] != n)
      lib_refuse(fr, at, NULL, "expected accumulator shape %s, got %s", shape_text(fr, 2, (int32_t[]){m, n}),
                 shape_text(fr, t->rank, t->shape));
    if (type_elem(fr->cx, t) != type_number(fr->cx, DT_F32))
      lib_refuse(fr, at, NULL, "expected accumulator dtype f32, got %s", type_text(fr, type_elem(fr->cx, t)));
  }
  check_scale(fr, at, &x, m, k, "lhs");
  check_scale(fr, at, &y, n, k, "rhs");
  return lib_call_prelude(fr, b, at, args);
}

static const char DOT[] = "Linear algebra";
const Builtin lib_dot_table[] = {
    {"tl", "dot",
     "input, other, acc=None, input_precision=None, allow_tf32=None, max_num_imprecise_acc=None, out_dtype=None",
     call_dot, DOT, 0,
     "`input_precision` counts on GPUs; elsewhere f32 is computed in f32; `max_num_imprecise_acc`: of fp8, so many k's "
     "are summed with 14 bits (sm_90a); elsewhere sums are f32"},
    {"tl", "dot_scaled",
     "lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, acc=None, fast_math=False, lhs_k_pack=True, "
     "rhs_k_pack=True, out_dtype=None",
     call_dot_scaled, DOT, 0, "computed in bf16, as Triton emulates it"},
    {0},
};
