/* One elementwise operation as a C expression: on scalars (nd_T) or on vectors (nd_Tv), by support/nereid_cpu.h's
 * names.
 *
 * Narrow floats are held as f32 and rounded after each operation, as the interpreter does, or by the store that takes
 * them. i1 is 0 or 1 as a scalar and
 * a mask of 0 or -1 as a vector. Integer + - * wrap: the text is compiled with -fwrapv.
 */
#include "cpu/emit.h"

#include <stdio.h>

const char *splat_text(Emit *e, Dtype d, const char *scalar) {
  return emit_text(e, "nd_splat_%sv(%s)", dtype_name(held_dtype(d)), scalar);
}

static bool is_narrow(Dtype d) { return dtype_is_float(d) && held_dtype(d) != d; }

/* x rounded to d where d is a narrow float; small scalar integers are cut, which C's promotion has made ints. */
static const char *rounded(Emit *e, Dtype d, const char *x, bool vector) {
  if (is_narrow(d)) return emit_text(e, "nd_cvt_%s_f32%s(%s)", dtype_name(d), vector ? "v" : "", x);
  if (!vector && dtype_is_int(d) && dtype_bits(d) < 32 && d != DT_I1)
    return emit_text(e, "(nd_%s)(%s)", dtype_name(d), x);
  return x;
}

static const char *call(Emit *e, const char *name, Dtype d, bool vector, int n, const char *const *in) {
  const char *t = dtype_name(held_dtype(d)), *v = vector ? "v" : "";
  if (n == 1) return emit_text(e, "nd_%s_%s%s(%s)", name, t, v, in[0]);
  if (n == 2) return emit_text(e, "nd_%s_%s%s(%s, %s)", name, t, v, in[0], in[1]);
  return emit_text(e, "nd_%s_%s%s(%s, %s, %s)", name, t, v, in[0], in[1], in[2]);
}

static const char *binary(Emit *e, const char *op, Dtype d, bool vector, const char *const *in) {
  return rounded(e, d, emit_text(e, "%s %s %s", in[0], op, in[1]), vector);
}

/* One rounding: as f32 the sum would be rounded before. */
static const char *narrow_fma(Emit *e, Dtype d, bool vector, const char *const *in) {
  const char *t = dtype_name(d);
  if (vector) return emit_text(e, "nd_cvt_%s_f64v(nd_fma_odd(%s, %s, %s))", t, in[0], in[1], in[2]);
  return emit_text(e, "nd_cvt_%s_f64v(nd_fma_odd(nd_splat_f32v(%s), nd_splat_f32v(%s), nd_splat_f32v(%s)))[0]", t,
                   in[0], in[1], in[2]);
}

static const char *compare(Emit *e, CmpPred pred, Dtype d, bool vector, const char *const *in) {
  static const char *const names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  static const char *const ops[] = {"==", "!=", "<", "<=", ">", ">="};
  if (!vector) return emit_text(e, "%s %s %s", in[0], ops[pred], in[1]);
  if (d == DT_I1) {
    static const char *const masks[] = {"~(%s ^ %s)", "%s ^ %s", "~%s & %s", "~%s | %s", "%s & ~%s", "%s | ~%s"};
    char s[512];
    snprintf(s, sizeof s, masks[pred], in[0], in[1]); /* names of variables: short */
    return emit_text(e, "%s", s);
  }
  return call(e, names[pred], d, true, 2, in);
}

static const char *convert(Emit *e, const Op *op, bool vector, const char *x) {
  Dtype from = type_dtype(op->in[0]->type), to = type_dtype(op->out[0]->type);
  bool towards_zero = op->rounding == 1;
  const char *v = vector ? "v" : "";
  if (from == to || (to == DT_F32 && is_narrow(from))) return x;
  /* A store rounds to f16 and bf16 as a conversion does; to fp8 it keeps infinities, which a conversion saturates. */
  bool stores_alike = to == DT_F16 || to == DT_BF16;
  if (op->out[0] == e->unrounded && stores_alike && held_dtype(from) == DT_F32 && !towards_zero) return x;
  if (towards_zero && dtype_is_float(from) && dtype_is_float(to) && dtype_bits(to) < dtype_bits(from))
    return emit_text(e, "nd_cvtz_%s_%s%s(%s)", dtype_name(to), dtype_name(held_dtype(from)), v, x);
  return emit_text(e, "nd_cvt_%s_%s%s(%s)", dtype_name(to), dtype_name(held_dtype(from)), v, x);
}

static const char *bitcast(Emit *e, Dtype from, Dtype to, bool vector, const char *x) {
  const char *v = vector ? "v" : "";
  if (from == to) return x;
  if (is_narrow(from) || is_narrow(to)) {
    const char *bits = x;
    Dtype raw = dtype_bits(from) == 16 ? DT_U16 : DT_U8;
    if (is_narrow(from)) bits = emit_text(e, "nd_bits_%s%s(%s)", dtype_name(from), v, x);
    else if (from != raw) bits = emit_text(e, "(nd_%s%s)(%s)", dtype_name(raw), v, x);
    if (is_narrow(to)) return emit_text(e, "nd_from_bits_%s%s(%s)", dtype_name(to), v, bits);
    return to == raw ? bits : emit_text(e, "(nd_%s%s)(%s)", dtype_name(to), v, bits);
  }
  if (vector || (dtype_is_int(from) && dtype_is_int(to))) return emit_text(e, "(nd_%s%s)(%s)", dtype_name(to), v, x);
  return emit_text(e, "nd_cast_%s_%s(%s)", dtype_name(to), dtype_name(from), x);
}

/* Rows of math.def that nereid_math.h has as vectors, under the name beside them. */
static const char *vector_math(MathFn fn) {
  switch ((int)fn) {
    case MATH_EXP:
    case MATH_FAST_EXPF: return "exp";
    case MATH_EXP2: return "exp2";
    case MATH_EXP10:
    case MATH_FAST_EXP10F: return "exp10";
    case MATH_EXPM1: return "expm1";
    case MATH_LOG:
    case MATH_FAST_LOGF: return "log";
    case MATH_LOG2:
    case MATH_FAST_LOG2F: return "log2";
    case MATH_LOG10:
    case MATH_FAST_LOG10F: return "log10";
    case MATH_LOG1P: return "log1p";
    case MATH_SIN:
    case MATH_FAST_SINF: return "sin";
    case MATH_COS:
    case MATH_FAST_COSF: return "cos";
    case MATH_TAN:
    case MATH_FAST_TANF: return "tan";
    case MATH_ASIN: return "asin";
    case MATH_ACOS: return "acos";
    case MATH_ATAN: return "atan";
    case MATH_SINH: return "sinh";
    case MATH_COSH: return "cosh";
    case MATH_TANH:
    case MATH_FAST_TANHF: return "tanh";
    case MATH_ASINH: return "asinh";
    case MATH_ACOSH: return "acosh";
    case MATH_ATANH: return "atanh";
    case MATH_ERF: return "erf";
    case MATH_ERFC: return "erfc";
    case MATH_CBRT: return "cbrt";
    case MATH_SQRT:
    case MATH_SQRT_RN: return "sqrt";
    case MATH_RSQRT: return "rsqrt";
    case MATH_FLOOR: return "floor";
    case MATH_CEIL: return "ceil";
    case MATH_TRUNC: return "trunc";
    case MATH_RINT: return "rint";
    case MATH_NEARBYINT: return "nearbyint";
    case MATH_ROUND: return "round";
    case MATH_POW:
    case MATH_FAST_POWF: return "pow";
    case MATH_ATAN2: return "atan2";
    case MATH_HYPOT: return "hypot";
    case MATH_COPYSIGN: return "copysign";
    case MATH_FMOD: return "fmod";
    case MATH_FDIM: return "fdim";
    case MATH_ISNAN: return "isnan";
    case MATH_ISINF: return "isinf";
    case MATH_FINITEF:
    case MATH_ISFINITED: return "finite";
    case MATH_FMA:
    case MATH_FMA_RN: return "fma";
    default: return NULL;
  }
}

/* add_rn and its like are never fused with another operation; the text is compiled so that + and * may be. */
static const char *unfused(Emit *e, MathFn fn, Dtype d, bool vector, const char *const *in) {
  const char *product;
  switch ((int)fn) {
    case MATH_MUL_RN: product = emit_text(e, "%s * %s", in[0], in[1]); return call(e, "keep", d, vector, 1, &product);
    case MATH_ADD_RN:
    case MATH_SUB_RN:
      return emit_text(e, "%s %s %s", call(e, "keep", d, vector, 1, &in[0]), fn == MATH_ADD_RN ? "+" : "-",
                       call(e, "keep", d, vector, 1, &in[1]));
    default: return NULL;
  }
}

static const char *math_text(Emit *e, const Op *op, const char *const *in, bool vector) {
  MathFn fn = (MathFn)op->fn;
  Dtype types[4];
  for (int i = 0; i < op->in_count; i++) types[i] = op->in[i]->type->dtype;
  Dtype out = op->out[0]->type->dtype;
  if (vector) {
    bool floats = true;
    for (int i = 0; i < op->in_count; i++) floats = floats && (types[i] == DT_F32 || types[i] == DT_F64);
    const char *name = floats ? vector_math(fn) : NULL;
    if (name) return call(e, name, types[0], true, op->in_count, in);
    /* of a mask: 0 or 1 */
    if (floats && fn == MATH_SIGNBIT) return emit_text(e, "-nd_signbit_%sv(%s)", dtype_name(types[0]), in[0]);
    if (floats && fn == MATH_ABS) return call(e, "abs", types[0], true, 1, in);
    if (floats && (fn == MATH_DIV_RN || fn == MATH_FAST_DIVIDEF)) return emit_text(e, "%s / %s", in[0], in[1]);
  }
  const char *apart = unfused(e, fn, types[0], vector, in);
  if (apart) return apart;
  char name[48];
  math_c_name(fn, op->in_count, types, name);
  if (!vector) {
    /* Written out in nereid_math.h, these cost less as a vector than a call into libm, which empties all registers. */
    if (types[0] == DT_F32 &&
        (fn == MATH_EXP || fn == MATH_EXP2 || fn == MATH_EXPM1 || fn == MATH_TANH || fn == MATH_FAST_EXPF))
      return emit_text(e, "nd_%s_f32v(nd_splat_f32v(%s))[0]", vector_math(fn), in[0]);
    if (op->in_count == 1) return emit_text(e, "%s(%s)", name, in[0]);
    if (op->in_count == 2) return emit_text(e, "%s(%s, %s)", name, in[0], in[1]);
    if (op->in_count == 3) return emit_text(e, "%s(%s, %s, %s)", name, in[0], in[1], in[2]);
    return emit_text(e, "%s(%s, %s, %s, %s)", name, in[0], in[1], in[2], in[3]);
  }
  const char *type = out == DT_I1 ? "i32" : dtype_name(held_dtype(out));
  const char *args = in[0];
  for (int i = 1; i < op->in_count; i++) args = emit_text(e, "%s, %s", args, in[i]);
  const char *mapped = emit_text(e, "ND_MAP%d(nd_%sv, %s, %s)", op->in_count, type, name, args);
  return out == DT_I1 ? emit_text(e, "-%s", mapped) : mapped; /* 0 and 1 become a mask */
}

/* Divisions, exp and its like, tanh: of floats that have vector instructions. */
static bool is_slow(const Op *op) {
  Dtype d = type_dtype(op->in[0]->type);
  if (op->code == OP_DIV) return dtype_is_float(d);
  if (op->code != OP_MATH || (d != DT_F32 && d != DT_F64)) return false;
  switch ((MathFn)op->fn) {
    case MATH_DIV_RN:
    case MATH_FAST_DIVIDEF:
    case MATH_EXP:
    case MATH_FAST_EXPF:
    case MATH_EXP2:
    case MATH_EXP10:
    case MATH_FAST_EXP10F:
    case MATH_EXPM1:
    case MATH_TANH:
    case MATH_FAST_TANHF: return true;
    default: return false;
  }
}

const char *element_text(Emit *e, const Op *op, const char *const *in, bool vector) {
  e->met_slow |= vector && is_slow(op);
  const Type *it = op->in[0]->type;
  Dtype d = type_dtype(it);
  bool i1 = d == DT_I1;
  switch (op->code) {
    case OP_ADD: return binary(e, i1 ? "^" : "+", d, vector, in);
    case OP_SUB: return binary(e, i1 ? "^" : "-", d, vector, in);
    case OP_MUL: return binary(e, i1 ? "&" : "*", d, vector, in);
    case OP_DIV:
      if (i1) return in[0];
      return dtype_is_float(d) ? binary(e, "/", d, vector, in) : call(e, "div", d, vector, 2, in);
    case OP_REM:
      if (i1) return emit_text(e, "%s ^ %s", in[0], in[0]);
      return rounded(e, d, call(e, "rem", d, vector, 2, in), vector);
    case OP_AND: return binary(e, "&", d, vector, in);
    case OP_OR: return binary(e, "|", d, vector, in);
    case OP_XOR: return binary(e, "^", d, vector, in);
    case OP_SHL:
    case OP_SHR:
      if (i1) return emit_text(e, vector ? "%s & ~%s" : "%s & !%s", in[0], in[1]); /* 1 is the width */
      return call(e, op->code == OP_SHL ? "shl" : "shr", d, vector, 2, in);
    case OP_MIN:
    case OP_MAX: {
      bool max = op->code == OP_MAX;
      if (i1) return emit_text(e, "%s %s %s", in[0], max ? "|" : "&", in[1]);
      if (dtype_is_float(d) && op->nan) return call(e, max ? "maxnan" : "minnan", d, vector, 2, in);
      return call(e, max ? "max" : "min", d, vector, 2, in);
    }
    case OP_MULHI: return i1 ? emit_text(e, "%s ^ %s", in[0], in[0]) : call(e, "mulhi", d, vector, 2, in);
    case OP_NEG:
      if (i1) return in[0];
      return dtype_is_float(d) ? emit_text(e, "-%s", in[0]) : rounded(e, d, emit_text(e, "-%s", in[0]), vector);
    case OP_NOT: return i1 && !vector ? emit_text(e, "!%s", in[0]) : rounded(e, d, emit_text(e, "~%s", in[0]), vector);
    case OP_ABS:
      return dtype_is_int(d) && !dtype_is_signed(d) ? in[0] : rounded(e, d, call(e, "abs", d, vector, 1, in), vector);
    case OP_FMA:
      if (i1) return emit_text(e, "(%s & %s) ^ %s", in[0], in[1], in[2]);
      if (dtype_is_int(d)) return rounded(e, d, emit_text(e, "%s * %s + %s", in[0], in[1], in[2]), vector);
      if (is_narrow(d)) return narrow_fma(e, d, vector, in);
      return call(e, "fma", d, vector, 3, in);
    case OP_MATH: return math_text(e, op, in, vector);
    case OP_CMP: return compare(e, (CmpPred)op->pred, d, vector, in);
    case OP_SELECT: {
      if (!vector) return emit_text(e, "%s ? %s : %s", in[0], in[1], in[2]);
      return call(e, "select", type_dtype(op->in[1]->type), true, 3, in);
    }
    case OP_CONVERT: return convert(e, op, vector, in[0]);
    case OP_BITCAST: return bitcast(e, d, type_dtype(op->out[0]->type), vector, in[0]);
    case OP_ADDPTR: {
      Dtype od = type_dtype(op->in[1]->type);
      int bytes = it->ptr > 1 ? 8 : dtype_bytes(it->dtype);
      const char *offset = od == DT_I64 ? in[1]
                           : vector     ? emit_text(e, "nd_cvt_i64_%sv(%s)", dtype_name(od), in[1])
                                        : emit_text(e, "(int64_t)%s", in[1]);
      if (bytes == 1) return emit_text(e, "%s + %s", in[0], offset);
      return emit_text(e, "%s + %s * %d", in[0], offset, bytes);
    }
    default: return in[0];
  }
}

static bool is_element(const Op *op) { return op->code == OP_CONST || op_is_elementwise(op); }

bool body_is_elementwise(const Block *b) {
  for (const Op *op = b->first; op; op = op->next)
    if (op->code != OP_YIELD && !is_element(op)) return false;
  return true;
}
