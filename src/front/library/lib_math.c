/* lib_math.c: elementwise functions: tl.where, minimum, clamp, exp, ..., and libdevice.
 *
 * tl.math's functions take f32 and f64 only, as Triton's do; libdevice's take exactly the signatures that math.def
 * lists, without promotion. Numbers become scalars of their natural type first.
 */
#include "front/library/lib.h"

static const char MATH[] = "Math", INDEXING[] = "Indexing";

/* ---- one-argument functions of floats ---------------------------------------------------------------------------- */

static Value *float_arg(Front *fr, const Builtin *b, Span at, const char *name, Py *p, bool f32_only) {
  Value *v = lib_value(fr, at, b, name, p);
  if (v->type->ptr || !(v->type->dtype == DT_F32 || (v->type->dtype == DT_F64 && !f32_only)))
    lib_refuse(fr, at, py_is_number(p) ? "write it as a float" : "cast with .to(tl.float32)",
               "Expected dtype ['fp32'%s] but got %s: `%s` of %s", f32_only ? "" : ", 'fp64'", type_text(fr, v->type),
               name, lib_full_name(fr, b));
  return v;
}

static const struct {
  const char *name;
  MathFn fn;
} unary_fns[] = {
    {"exp", MATH_EXP}, {"exp2", MATH_EXP2},   {"log", MATH_LOG},   {"log2", MATH_LOG2},
    {"sin", MATH_SIN}, {"cos", MATH_COS},     {"sqrt", MATH_SQRT}, {"rsqrt", MATH_RSQRT},
    {"erf", MATH_ERF}, {"floor", MATH_FLOOR}, {"ceil", MATH_CEIL}, {"sqrt_rn", MATH_SQRT_RN},
};

/* tl.exp of an f32 is exp2 of a rounded product, as in Triton (its error grows with |x|); libdevice.exp is the exact
 * one. */
static Value *apply(Front *fr, MathFn fn, Value *v) {
  if (fn == MATH_EXP && v->type->dtype == DT_F32) fn = MATH_FAST_EXPF;
  return build_math(&fr->b, fn, 1, &v);
}

static Py *call_unary(Front *fr, const Builtin *b, Span at, Py **args) {
  for (size_t i = 0; i < sizeof unary_fns / sizeof *unary_fns; i++)
    if (!strcmp(unary_fns[i].name, b->name))
      return py_tensor(fr,
                       apply(fr, unary_fns[i].fn, float_arg(fr, b, at, "x", args[0], unary_fns[i].fn == MATH_SQRT_RN)));
  lib_fail(fr, at, b, NULL, "this function is not in the table");
}

static Py *call_abs(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *v = lib_value(fr, at, b, "x", args[0]);
  if (v->type->ptr) lib_fail(fr, at, b, NULL, "`x` must be a number, but it is of type %s", type_text(fr, v->type));
  if (dtype_is_int(v->type->dtype) && !dtype_is_signed(v->type->dtype)) return py_tensor(fr, v);
  if (dtype_is_fp8(v->type->dtype)) { /* without the sign's bit */
    Value *bits = build_bitcast(&fr->b, v, type_number(fr->cx, DT_U8));
    bits = build_binary(&fr->b, OP_AND, bits, build_int(&fr->b, bits->type, 0x7f));
    return py_tensor(fr, build_bitcast(&fr->b, bits, type_elem(fr->cx, v->type)));
  }
  return py_tensor(fr, build_unary(&fr->b, OP_ABS, v));
}

static Py *call_sigmoid(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = float_arg(fr, b, at, "x", args[0], false);
  Value *one = build_float(&fr->b, x->type, 1.0);
  Value *e = apply(fr, MATH_EXP, build_unary(&fr->b, OP_NEG, x));
  return py_tensor(fr, build_binary(&fr->b, OP_DIV, one, build_binary(&fr->b, OP_ADD, one, e)));
}

/* ---- two and three arguments ------------------------------------------------------------------------------------- */

static bool nan_arg(Front *fr, Span at, const Py *p) {
  if (lib_none(p)) return false;
  if (p->kind == PY_STR && !strcmp(p->str.s, "PropagateNan.ALL")) return true;
  if (p->kind == PY_STR && !strcmp(p->str.s, "PropagateNan.NONE")) return false;
  lib_refuse(fr, at, NULL, "Unexpected propagate_nan %s: it is tl.PropagateNan.NONE or tl.PropagateNan.ALL",
             py_describe(fr, p));
}

/* Operands that are not weak, with bf16 widened: what minimum, maximum and clamp begin with. */
static void wide_pair(Front *fr, const Builtin *b, Span at, Value **x, Value **y) {
  *x = sem_bf16_to_f32(fr, *x);
  *y = sem_bf16_to_f32(fr, *y);
  sem_pair(fr, at, lib_full_name(fr, b), 0, py_tensor(fr, *x), py_tensor(fr, *y), x, y);
}

static Value *min_max(Front *fr, OpCode code, Value *x, Value *y, bool nan) {
  Value *r = build_binary(&fr->b, code, x, y);
  r->def->nan = nan;
  return r;
}

static Py *call_min_max(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = lib_value(fr, at, b, "x", args[0]), *y = lib_value(fr, at, b, "y", args[1]);
  bool nan = nan_arg(fr, at, args[2]);
  wide_pair(fr, b, at, &x, &y);
  return py_tensor(fr, min_max(fr, !strcmp(b->name, "minimum") ? OP_MIN : OP_MAX, x, y, nan));
}

static Py *call_clamp(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = lib_value(fr, at, b, "x", args[0]), *lo = lib_value(fr, at, b, "min", args[1]),
        *hi = lib_value(fr, at, b, "max", args[2]);
  bool nan = nan_arg(fr, at, args[3]);
  wide_pair(fr, b, at, &lo, &hi);
  wide_pair(fr, b, at, &x, &lo);
  wide_pair(fr, b, at, &x, &hi);
  if (!dtype_is_float(x->type->dtype))
    lib_refuse(fr, at, "use tl.minimum(tl.maximum(x, min), max)",
               "Unexpected dtype %s. Only floating point clamp is supported", type_text(fr, x->type));
  lo = sem_cast_value(fr, at, lo, type_elem(fr->cx, x->type), 0, false);
  sem_broadcast_pair(fr, at, &x, &lo);
  return py_tensor(fr, min_max(fr, OP_MIN, min_max(fr, OP_MAX, x, lo, nan), hi, nan));
}

static Py *call_where(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *c = lib_value(fr, at, b, "condition", args[0]), *x, *y;
  if (c->type->ptr || c->type->dtype != DT_I1)
    diag_warn(
        fr->cx, at,
        "tl.where with a non-boolean condition is deprecated and will error out in a future triton release. Got %s",
        type_text(fr, type_elem(fr->cx, c->type)));
  c = sem_cast_value(fr, at, c, type_number(fr->cx, DT_I1), 0, false);
  sem_pair(fr, at, "tl.where", PAIR_PTR_X | PAIR_PTR_Y, args[1], args[2], &x, &y);
  if (type_elem(fr->cx, x->type) != type_elem(fr->cx, y->type))
    lib_fail(fr, at, b, NULL, "`x` and `y` must both be pointers of one type, but they are %s and %s",
             type_text(fr, x->type), type_text(fr, y->type));
  Value *all[3] = {c, x, y};
  sem_broadcast_all(fr, at, 3, all);
  return py_tensor(fr, build_select(&fr->b, all[0], all[1], all[2]));
}

static Py *call_operator(Front *fr, const Builtin *b, Span at, Py **args) {
  PyOp op = b->name[0] == 'a' ? PYOP_ADD : b->name[0] == 's' ? PYOP_SUB : PYOP_MULT;
  /* With two numbers Triton makes tensors of them. */
  Py *x = py_is_number(args[0]) && py_is_number(args[1]) ? py_tensor(fr, lib_value(fr, at, b, "x", args[0])) : args[0];
  return sem_arithmetic(fr, at, op, x, args[1], lib_truth(args[2]));
}

static Py *call_fdiv(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = lib_value(fr, at, b, "x", args[0]), *y = lib_value(fr, at, b, "y", args[1]);
  if (x->type->ptr || y->type->ptr || !dtype_is_float(x->type->dtype) || !dtype_is_float(y->type->dtype))
    lib_refuse(fr, at, "cast with .to(tl.float32), or use /",
               "both operands of fdiv must have floating scalar type, but they are %s and %s", type_text(fr, x->type),
               type_text(fr, y->type));
  if (x->type->dtype != y->type->dtype)
    lib_fail(fr, at, b, "cast one of them, or use /", "`x` and `y` must be of one type, but they are of type %s and %s",
             type_text(fr, x->type), type_text(fr, y->type));
  sem_broadcast_pair(fr, at, &x, &y);
  Value *r = build_binary(&fr->b, OP_DIV, x, y);
  r->def->rounding = lib_truth(args[2]);
  return py_tensor(fr, r);
}

/* An integer constant beside a float is one. */
static Value *div_rn_operand(Front *fr, const Builtin *b, Span at, const char *name, Py *p, const Py *other) {
  bool whole = p->kind == PY_INT || p->kind == PY_BOOL, both = other->kind == PY_INT || other->kind == PY_BOOL;
  if (whole && !both) sem_natural_type(fr, at, p); /* says what fits in no type */
  if (whole && !both) return sem_constant(fr, at, p, type_number(fr->cx, DT_F32));
  return float_arg(fr, b, at, name, p, true);
}

static Py *call_div_rn(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = div_rn_operand(fr, b, at, "x", args[0], args[1]), *y = div_rn_operand(fr, b, at, "y", args[1], args[0]);
  sem_broadcast_pair(fr, at, &x, &y);
  Value *r = build_binary(&fr->b, OP_DIV, x, y);
  r->def->rounding = 1;
  return py_tensor(fr, r);
}

static Py *call_fma(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = lib_value(fr, at, b, "x", args[0]), *y = lib_value(fr, at, b, "y", args[1]),
        *z = lib_value(fr, at, b, "z", args[2]);
  sem_pair(fr, at, "tl.fma", 0, py_tensor(fr, x), py_tensor(fr, y), &x, &y);
  sem_pair(fr, at, "tl.fma", 0, py_tensor(fr, x), py_tensor(fr, z), &x, &z);
  sem_pair(fr, at, "tl.fma", 0, py_tensor(fr, z), py_tensor(fr, y), &z, &y);
  if (!dtype_is_float(x->type->dtype) || dtype_is_fp8(x->type->dtype))
    lib_fail(fr, at, b, "use x * y + z", "the operands must be floats, and not fp8, but they are of type %s",
             type_text(fr, x->type));
  Value *in[3] = {x, y, z};
  return py_tensor(fr, build_op(&fr->b, OP_FMA, 3, in, 1, &x->type)->out[0]);
}

static Py *call_umulhi(Front *fr, const Builtin *b, Span at, Py **args) {
  for (int i = 0; i < 2; i++) {
    Value *v = lib_value(fr, at, b, i ? "y" : "x", args[i]);
    if (v->type->ptr || !dtype_is_int(v->type->dtype) || dtype_bits(v->type->dtype) < 32)
      lib_refuse(fr, at, NULL, "Expected dtype ['int32', 'int64', 'uint32', 'uint64'] but got %s: `%s` of tl.umulhi",
                 type_text(fr, v->type), i ? "y" : "x");
  }
  Value *x = lib_value(fr, at, b, "x", args[0]), *y = lib_value(fr, at, b, "y", args[1]);
  sem_pair(fr, at, "tl.umulhi", 0, py_tensor(fr, x), py_tensor(fr, y), &x, &y);
  const Type *elem = type_elem(fr->cx, x->type),
             *u = type_number(fr->cx, dtype_bits(elem->dtype) == 64 ? DT_U64 : DT_U32);
  Value *r = build_binary(&fr->b, OP_MULHI, build_bitcast(&fr->b, x, u),
                          build_bitcast(&fr->b, y, u)); /* the product is unsigned whatever the type */
  return py_tensor(fr, build_bitcast(&fr->b, r, elem));
}

static Py *call_cdiv(Front *fr, const Builtin *b, Span at, Py **args) {
  Py *x = args[0], *d = args[1];
  if (py_is_number(x) && py_is_number(d)) {
    if (x->kind == PY_FLOAT || d->kind == PY_FLOAT)
      lib_fail(fr, at, b, NULL, "`x` and `div` must be integers, but they are %s and %s", py_describe(fr, x),
               py_describe(fr, d));
    if (d->i == 0) lib_fail(fr, at, b, NULL, "division by zero");
    PyInt n = x->i + (d->i - 1), q = n / d->i;
    if (n % d->i != 0 && (n < 0) != (d->i < 0)) q--;
    return py_int(fr, q);
  }
  Py *less =
      py_is_number(d) && d->kind != PY_FLOAT ? py_int(fr, d->i - 1) : sem_binary(fr, at, PYOP_SUB, d, py_int(fr, 1));
  Py *sum = py_is_number(x) && py_is_number(less) ? py_tensor(fr, lib_value(fr, at, b, "x", x))
                                                  : sem_binary(fr, at, PYOP_ADD, x, less);
  return sem_binary(fr, at, PYOP_FLOOR_DIV, sum, d);
}

static Py *call_logical(Front *fr, const Builtin *b, Span at, Py **args) {
  return sem_logical(fr, at, !strcmp(b->name, "logical_and") ? PYOP_AND : PYOP_OR, args[0], args[1]);
}

/* x.__rshift__(4): what Triton's tensor names its operators; reversed ones have an r before their name. */
static const struct {
  const char *name;
  PyOp op;
} operators[] = {
    {"add", PYOP_ADD},
    {"sub", PYOP_SUB},
    {"mul", PYOP_MULT},
    {"truediv", PYOP_DIV},
    {"mod", PYOP_MOD},
    {"and", PYOP_BIT_AND},
    {"or", PYOP_BIT_OR},
    {"xor", PYOP_BIT_XOR},
    {"lt", PYOP_LT},
    {"le", PYOP_LT_E},
    {"gt", PYOP_GT},
    {"ge", PYOP_GT_E},
    {"eq", PYOP_EQ},
    {"ne", PYOP_NOT_EQ},
    {"lshift", PYOP_L_SHIFT},
    {"rshift", PYOP_R_SHIFT},
    {"floordiv", PYOP_FLOOR_DIV},
};

static Py *call_operator_method(Front *fr, const Builtin *b, Span at, Py **args) {
  char name[16];
  snprintf(name, sizeof name, "%.*s", (int)strlen(b->name) - 4, b->name + 2);
  for (int reversed = 0; reversed < 2; reversed++)
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
      if (strcmp(operators[i].name, name + reversed)) continue;
      Py *left = args[reversed], *right = args[!reversed];
      return operators[i].op >= PYOP_EQ ? sem_compare(fr, at, operators[i].op, left, right)
                                        : sem_binary(fr, at, operators[i].op, left, right);
    }
  return NULL;
}

static Py *call_sign_method(Front *fr, const Builtin *b, Span at, Py **args) {
  return sem_unary(fr, at,
                   !strcmp(b->name, "__neg__")   ? PYOP_U_SUB
                   : !strcmp(b->name, "__not__") ? PYOP_NOT
                                                 : PYOP_INVERT,
                   args[0]);
}

#define UNARY(name) \
  { "tl.math", name, "x", call_unary, MATH, BUILTIN_MEMBER, NULL }
#define OPERATOR(name) \
  {"tensor", "__" name "__", "self, other", call_operator_method, NULL, 0, NULL}, { \
    "tensor", "__r" name "__", "self, other", call_operator_method, NULL, 0, NULL \
  }
#define SIGN(name) \
  { "tensor", name, "self", call_sign_method, NULL, 0, NULL }
const Builtin lib_math_table[] = {
    UNARY("exp"),
    UNARY("exp2"),
    UNARY("log"),
    UNARY("log2"),
    UNARY("sin"),
    UNARY("cos"),
    UNARY("sqrt"),
    UNARY("rsqrt"),
    UNARY("erf"),
    UNARY("floor"),
    UNARY("ceil"),
    UNARY("sqrt_rn"),
    {"tl.math", "abs", "x", call_abs, MATH, BUILTIN_MEMBER, NULL},
    {"tl", "sigmoid", "x", call_sigmoid, MATH, BUILTIN_MEMBER, NULL},
    {"tl", "cdiv", "x, div", call_cdiv, MATH, BUILTIN_MEMBER | BUILTIN_HOST, NULL},
    {"tl.math", "fdiv", "x, y, ieee_rounding=False", call_fdiv, MATH, 0, NULL},
    {"tl.math", "div_rn", "x, y", call_div_rn, MATH, 0, NULL},
    {"tl.math", "fma", "x, y, z", call_fma, MATH, 0, NULL},
    {"tl.math", "umulhi", "x, y", call_umulhi, MATH, 0, NULL},
    {"tl", "minimum", "x, y, propagate_nan=None", call_min_max, MATH, 0, NULL},
    {"tl", "maximum", "x, y, propagate_nan=None", call_min_max, MATH, 0, NULL},
    {"tl", "clamp", "x, min, max, propagate_nan=None", call_clamp, MATH, 0, NULL},
    {"tl", "add", "x, y, sanitize_overflow=True", call_operator, MATH, 0, "overflow is checked with debug"},
    {"tl", "sub", "x, y, sanitize_overflow=True", call_operator, MATH, 0, "overflow is checked with debug"},
    {"tl", "mul", "x, y, sanitize_overflow=True", call_operator, MATH, 0, "overflow is checked with debug"},
    {"tl", "where", "condition, x, y", call_where, INDEXING, 0, NULL},
    {"tensor", "logical_and", "self, other", call_logical, NULL, 0, NULL},
    {"tensor", "logical_or", "self, other", call_logical, NULL, 0, NULL},
    OPERATOR("add"),
    OPERATOR("sub"),
    OPERATOR("mul"),
    OPERATOR("truediv"),
    OPERATOR("floordiv"),
    OPERATOR("mod"),
    OPERATOR("and"),
    OPERATOR("or"),
    OPERATOR("xor"),
    OPERATOR("lshift"),
    OPERATOR("rshift"),
    OPERATOR("lt"),
    OPERATOR("le"),
    OPERATOR("gt"),
    OPERATOR("ge"),
    OPERATOR("eq"),
    OPERATOR("ne"),
    SIGN("__neg__"),
    SIGN("__invert__"),
    SIGN("__not__"),
    {0},
};

/* ---- libdevice: one row a row of math.def ------------------------------------------------------------------------ */

/* "f32,i32:f32 f64,i32:f64" as a reader would say it. */
static const char *signatures_text(Front *fr, const char *sig) {
  Buf t = {.arena = fr->cx->arena};
  buf_putc(&t, '(');
  for (const char *s = sig; *s; s++) {
    if (*s == ':') { /* the result is left out */
      buf_putc(&t, ')');
      while (s[1] && s[1] != ' ') s++;
    } else if (*s == ' ') {
      buf_puts(&t, " or (");
    } else {
      buf_putc(&t, *s);
      if (*s == ',') buf_putc(&t, ' ');
    }
  }
  const char *r = arena_strdup(fr->cx->arena, t.at);
  buf_destroy(&t);
  return r;
}

static Py *call_libdevice(Front *fr, const Builtin *b, Span at, Py **args) {
  MathFn fn = 0;
  while (fn < MATH_COUNT && strcmp(math_info[fn].name, b->name)) fn++;
  int n = math_info[fn].arity;
  Value *in[4];
  Dtype types[4], out;
  const char *given = "";
  bool pointer = false;
  for (int i = 0; i < n; i++) {
    in[i] = lib_value(fr, at, b, "an argument", args[i]);
    types[i] = in[i]->type->dtype;
    pointer |= in[i]->type->ptr != 0;
    given = arena_printf(fr->cx->arena, "%s%s%s", given, i ? ", " : "", type_text(fr, type_elem(fr->cx, in[i]->type)));
  }
  if (pointer || !math_signature(fn, n, types, &out))
    lib_fail(fr, at, b, "libdevice does not promote: cast with .to(...)",
             "it takes arguments of type %s, but these are (%s)", signatures_text(fr, math_info[fn].sig), given);
  sem_broadcast_all(fr, at, n, in);
  return py_tensor(fr, build_math(&fr->b, fn, n, in));
}

#define LIBDEVICE_SIGNATURE(arity) \
  ((arity) == 1 ? "arg0" : (arity) == 2 ? "arg0, arg1" : (arity) == 3 ? "arg0, arg1, arg2" : "arg0, arg1, arg2, arg3")
const Builtin lib_libdevice_table[] = {
#define MATH(id, name, arity, sig) {"libdevice", name, LIBDEVICE_SIGNATURE(arity), call_libdevice, "libdevice", 0, sig},
#include "tile/math.def"
#undef MATH
    {0},
};
