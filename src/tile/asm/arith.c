/* Arithmetic of inline PTX: integers, floats with their roundings, packed ones lane by lane; carries; approximations;
 * comparisons.
 */
#include "tile/asm/asm.h"

#include <math.h>

Value *asm_math(Asm *x, MathFn fn, Value *a, Value *b, Value *c) {
  Value *in[] = {a, b, c};
  return build_math(x->b, fn, c ? 3 : b ? 2 : 1, in);
}

static Dtype bits_of(Dtype d) {
  int bits = dtype_bits(d);
  return bits == 8 ? DT_U8 : bits == 16 ? DT_U16 : bits == 32 ? DT_U32 : DT_U64;
}

static bool is_half(Dtype d) { return d == DT_F16 || d == DT_BF16; }

/* A function that halves do not have, by way of f32. */
static Value *math_of(Asm *x, MathFn fn, Value *a) {
  Dtype d = a->type->dtype;
  if (!is_half(d)) return asm_math(x, fn, a, NULL, NULL);
  return build_convert(x->b, asm_math(x, fn, build_convert(x->b, a, DT_F32), NULL, NULL), d);
}

/* ---- what modifiers do ---- */

Value *asm_is_nan(Asm *x, Value *v) { return build_cmp(x->b, CMP_NE, v, v); }

Value *asm_flush(Asm *x, Value *v) {
  Dtype d = v->type->dtype, u = bits_of(d);
  int64_t exponent = d == DT_F16 ? 0x7c00 : d == DT_BF16 ? 0x7f80 : d == DT_F32 ? 0x7f800000 : 0x7ffll << 52;
  Value *bits = asm_as(x, v, u), *zero = asm_const(x, u, 0);
  Value *normal = build_cmp(x->b, CMP_NE, asm_2(x, OP_AND, bits, asm_const(x, u, exponent)), zero);
  Value *sign = asm_2(x, OP_AND, bits, asm_const(x, u, 1ll << (dtype_bits(d) - 1)));
  return build_select(x->b, normal, v, asm_as(x, sign, d));
}

Value *asm_saturate(Asm *x, Value *v) {
  Dtype d = v->type->dtype;
  return asm_2(x, OP_MIN, asm_2(x, OP_MAX, v, asm_number(x, d, 0)), asm_number(x, d, 1)); /* max of NaN and 0 is 0 */
}

Value *asm_relu(Asm *x, Value *v) {
  Value *zero = asm_number(x, v->type->dtype, 0);
  Value *bounded = asm_2(x, OP_MAX, v, zero);
  return build_select(x->b, asm_is_nan(x, v), v, bounded);
}

static int direction(const AsmInst *i) {
  return asm_has(i, "rz") ? 1 : asm_has(i, "rm") ? 2 : asm_has(i, "rp") ? 3 : 0;
}

Value *asm_rounded(Asm *x, MathFn nearest, Value *a, Value *b, Value *c) {
  return asm_math(x, (MathFn)(nearest + direction(x->inst)), a, b, c); /* rows stand as _RN _RZ _RD _RU */
}

/* ---- integers ---- */

static bool takes_high(const AsmInst *i) { return asm_has(i, "hi"); }

static Value *widened(Asm *x, Value *v) {
  Dtype d = v->type->dtype;
  bool sign = dtype_is_signed(d);
  Dtype wide = dtype_bits(d) == 16 ? sign ? DT_I32 : DT_U32 : sign ? DT_I64 : DT_U64;
  return build_convert(x->b, v, wide);
}

static Value *int_arith(Asm *x, const AsmInst *i, Dtype d, Value **v) {
  switch (asm_code(i)) {
    case ASMI_ADD: return asm_2(x, OP_ADD, v[0], v[1]);
    case ASMI_SUB: return asm_2(x, OP_SUB, v[0], v[1]);
    case ASMI_MUL: return asm_2(x, takes_high(i) ? OP_MULHI : OP_MUL, v[0], v[1]);
    case ASMI_MAD: return asm_2(x, OP_ADD, asm_2(x, takes_high(i) ? OP_MULHI : OP_MUL, v[0], v[1]), v[2]);
    case ASMI_DIV: return asm_2(x, OP_DIV, v[0], v[1]);
    case ASMI_REM: return asm_2(x, OP_REM, v[0], v[1]);
    case ASMI_MIN:
    case ASMI_MAX: {
      Value *r = asm_2(x, asm_code(i) == ASMI_MIN ? OP_MIN : OP_MAX, v[0], v[1]);
      return asm_has(i, "relu") ? asm_2(x, OP_MAX, r, asm_const(x, d, 0)) : r;
    }
    case ASMI_ABS: return build_unary(x->b, OP_ABS, v[0]);
    case ASMI_NEG: return build_unary(x->b, OP_NEG, v[0]);
    default: { /* sad */
      Value *less = build_cmp(x->b, CMP_LT, v[0], v[1]);
      Value *distance = build_select(x->b, less, asm_2(x, OP_SUB, v[1], v[0]), asm_2(x, OP_SUB, v[0], v[1]));
      return asm_2(x, OP_ADD, v[2], distance);
    }
  }
}

/* add.sat.s32 and the like: the exact result kept within the type. */
static Value *saturated_int(Asm *x, const AsmInst *i, Value **v) {
  if (i->type[0] != ASM_s32 || (asm_code(i) == ASMI_MAD && !takes_high(i))) asm_refuse(x, "`.sat` is for s32 here");
  Value *a = v[0], *b = v[1];
  if (asm_code(i) == ASMI_MAD) a = asm_2(x, OP_MULHI, v[0], v[1]), b = v[2];
  Value *r = asm_2(x, asm_code(i) == ASMI_SUB ? OP_SUB : OP_ADD, widened(x, a), widened(x, b));
  r = asm_2(x, OP_MIN, asm_2(x, OP_MAX, r, asm_const(x, DT_I64, INT32_MIN)), asm_const(x, DT_I64, INT32_MAX));
  return build_convert(x->b, r, DT_I32);
}

/* ---- floats ---- */

static Value *quotient(Asm *x, const AsmInst *i, Dtype d, Value *a, Value *b) {
  if (asm_has(i, "approx") || asm_has(i, "full")) return asm_2(x, OP_DIV, a, b);
  return asm_rounded(x, MATH_DIV_RN, a, b, NULL);
}

/* min, max: of NaN and a number the number, or (.NaN) NaN; .xorsign.abs: of the magnitudes, with the product's sign. */
static Value *extreme(Asm *x, const AsmInst *i, Dtype d, Value *a, Value *b) {
  bool xorsign = asm_has(i, "xorsign");
  Value *p = a, *q = b;
  if (asm_has(i, "abs")) p = build_unary(x->b, OP_ABS, a), q = build_unary(x->b, OP_ABS, b);
  Value *r = asm_2(x, asm_code(i) == ASMI_MIN ? OP_MIN : OP_MAX, p, q);
  r->def->nan = asm_has(i, "NaN");
  if (xorsign) {
    Dtype u = bits_of(d);
    Value *signs = asm_2(x, OP_XOR, asm_as(x, a, u), asm_as(x, b, u));
    signs = asm_2(x, OP_AND, signs, asm_const(x, u, 1ll << (dtype_bits(d) - 1)));
    r = asm_as(x, asm_2(x, OP_OR, asm_as(x, r, u), signs), d);
  }
  return r;
}

static Value *float_result(Asm *x, const AsmInst *i, Dtype d, Value **v) {
  bool half = is_half(d), exact = asm_has(i, "rn"); /* .rn: not to be fused with what follows */
  switch (asm_code(i)) {
    case ASMI_ADD:
      if (half || !(exact || direction(i))) return asm_2(x, OP_ADD, v[0], v[1]);
      return asm_rounded(x, MATH_ADD_RN, v[0], v[1], NULL);
    case ASMI_SUB:
      if (half || !(exact || direction(i))) return asm_2(x, OP_SUB, v[0], v[1]);
      return asm_rounded(x, MATH_SUB_RN, v[0], v[1], NULL);
    case ASMI_MUL:
      if (half || !(exact || direction(i))) return asm_2(x, OP_MUL, v[0], v[1]);
      return asm_rounded(x, MATH_MUL_RN, v[0], v[1], NULL);
    case ASMI_MAD:
    case ASMI_FMA:
      if (!half) return asm_rounded(x, MATH_FMA_RN, v[0], v[1], v[2]);
      Op *op = build_op(x->b, OP_FMA, 3, v, 1, &v[0]->type);
      return op->out[0];
    case ASMI_DIV: return quotient(x, i, d, v[0], v[1]);
    case ASMI_MIN:
    case ASMI_MAX: {
      Value *r = extreme(x, i, d, v[0], v[1]);
      return v[2] ? extreme(x, i, d, r, v[2]) : r;
    }
    case ASMI_ABS: return build_unary(x->b, OP_ABS, v[0]);
    case ASMI_NEG: return build_unary(x->b, OP_NEG, v[0]);
    default: { /* copysign: the sign of the first */
      Dtype u = bits_of(d);
      int64_t top = 1ll << (dtype_bits(d) - 1);
      Value *sign = asm_2(x, OP_AND, asm_as(x, v[0], u), asm_const(x, u, top));
      return asm_as(x, asm_2(x, OP_OR, sign, asm_2(x, OP_AND, asm_as(x, v[1], u), asm_const(x, u, ~top))), d);
    }
  }
}

static Value *float_arith(Asm *x, const AsmInst *i, Dtype d, Value **v) {
  bool ftz = asm_has(i, "ftz");
  if (is_half(d) && direction(i)) asm_refuse(x, "halves round to nearest only");
  for (int k = 0; k < 3 && ftz; k++)
    if (v[k]) v[k] = asm_flush(x, v[k]);
  Value *r = float_result(x, i, d, v);
  if (asm_has(i, "sat")) r = asm_saturate(x, r);
  if (asm_has(i, "relu")) r = asm_relu(x, r);
  return ftz ? asm_flush(x, r) : r;
}

void asm_arith(Asm *x, AsmInst *i) {
  AsmTypeId t = i->type[0];
  const AsmType *type = &asm_types[t];
  bool is_float = dtype_is_float(type->lane);
  if (asm_has(i, "wide")) {
    asm_wide(x, i);
    return;
  }
  if (asm_has(i, "cc")) {
    asm_carry(x, i);
    return;
  }
  AsmCode code = asm_code(i);
  if (!is_float && (code == ASMI_MUL || code == ASMI_MAD) && !takes_high(i) && !asm_has(i, "lo"))
    asm_refuse(x, "a product of integers is .lo, .hi or .wide");
  if (i->count == 4 && !is_float && (code == ASMI_MIN || code == ASMI_MAX)) asm_refuse(x, "three operands are for f32");
  Value *in[3][2] = {{NULL}}, *out[2];
  for (int k = 1; k < i->count; k++) asm_get_lanes(x, k, t, in[k - 1]);
  for (int lane = 0; lane < type->lanes; lane++) {
    Value *v[3] = {in[0][lane], in[1][lane], in[2][lane]};
    if (is_float) out[lane] = float_arith(x, i, type->lane, v);
    else out[lane] = asm_has(i, "sat") ? saturated_int(x, i, v) : int_arith(x, i, type->lane, v);
  }
  asm_set_lanes(x, t, out);
}

/* The third operand of mad24, added to the product. */
static Value *added24(Asm *x, AsmInst *i, Value *product) {
  Dtype d = product->type->dtype;
  Value *c = asm_get(x, 3, d);
  if (!asm_has(i, "sat")) return asm_2(x, OP_ADD, product, c);
  if (d != DT_I32 || !takes_high(i)) asm_refuse(x, "`.sat` of mad24 is for .hi.s32");
  Value *sum = asm_2(x, OP_ADD, build_convert(x->b, product, DT_I64), build_convert(x->b, c, DT_I64));
  sum = asm_2(x, OP_MAX, asm_2(x, OP_MIN, sum, asm_const(x, DT_I64, INT32_MAX)), asm_const(x, DT_I64, INT32_MIN));
  return build_convert(x->b, sum, d);
}

/* mul.wide, mad.wide; mul24 and mad24, whose operands are the low 24 bits. */
void asm_wide(Asm *x, AsmInst *i) {
  Dtype d = asm_types[i->type[0]].lane;
  if (dtype_bits(d) == 64 || dtype_is_float(d)) asm_refuse(x, "`.wide` is for 16 and 32 bits");
  Value *a = asm_get(x, 1, d), *b = asm_get(x, 2, d);
  if (asm_code(i) == ASMI_MUL24 || asm_code(i) == ASMI_MAD24) {
    Value *eight = asm_const(x, d, 8);
    a = asm_2(x, OP_SHR, asm_2(x, OP_SHL, a, eight), eight), b = asm_2(x, OP_SHR, asm_2(x, OP_SHL, b, eight), eight);
    Value *product = asm_2(x, OP_MUL, widened(x, a), widened(x, b));
    if (takes_high(i)) product = asm_2(x, OP_SHR, product, asm_const(x, product->type->dtype, 16));
    product = build_convert(x->b, product, d);
    if (i->count == 4) product = added24(x, i, product);
    asm_set(x, product);
    return;
  }
  Value *r = asm_2(x, OP_MUL, widened(x, a), widened(x, b));
  if (i->count == 4) r = asm_2(x, OP_ADD, r, asm_get(x, 3, r->type->dtype));
  asm_set(x, r);
}

/* add.cc, addc, sub.cc, subc, mad.cc, madc: sums in chains. The carry of a difference says that one was borrowed. */
void asm_carry(Asm *x, AsmInst *i) {
  AsmCode code = asm_code(i);
  Dtype d = asm_types[i->type[0]].lane, u = bits_of(d);
  if (dtype_is_float(d) || dtype_bits(d) < 32) asm_refuse(x, "carries are of 32 and 64 bits");
  bool product = code == ASMI_MAD || code == ASMI_MADC, less = code == ASMI_SUB || code == ASMI_SUBC;
  Value *a, *b;
  if (product) {
    a = asm_as(x, asm_2(x, takes_high(i) ? OP_MULHI : OP_MUL, asm_get(x, 1, d), asm_get(x, 2, d)), u);
    b = asm_get(x, 3, u);
  } else {
    a = asm_get(x, 1, u), b = asm_get(x, 2, u);
  }
  OpCode op = less ? OP_SUB : OP_ADD;
  Value *r = asm_2(x, op, a, b), *carry = less ? build_cmp(x->b, CMP_LT, a, b) : build_cmp(x->b, CMP_LT, r, a);
  if ((code == ASMI_ADDC || code == ASMI_SUBC || code == ASMI_MADC) && x->carry) {
    Value *in = build_convert(x->b, x->carry, u), *next = asm_2(x, op, r, in);
    Value *again = less ? build_cmp(x->b, CMP_LT, r, in) : build_cmp(x->b, CMP_LT, next, r);
    carry = asm_2(x, OP_OR, carry, again), r = next;
  }
  if (asm_has(i, "cc")) {
    Value *old = x->carry ? x->carry : asm_const(x, DT_I1, 0);
    x->carry = x->guard ? build_select(x->b, x->guard, carry, old) : carry;
  }
  asm_set(x, r);
}

/* ---- functions of one number ---- */

static Value *function_of(Asm *x, const AsmInst *i, Value *v) {
  bool approximate = asm_has(i, "approx");
  Dtype d = v->type->dtype;
  switch (asm_code(i)) {
    case ASMI_RCP:
      if (d == DT_F64 && approximate) return asm_math(x, MATH_RCP64H, v, NULL, NULL);
      return asm_rounded(x, MATH_RCP_RN, v, NULL, NULL);
    case ASMI_SQRT: return asm_rounded(x, MATH_SQRT_RN, v, NULL, NULL);
    case ASMI_RSQRT: return math_of(x, MATH_RSQRT, v);
    case ASMI_EX2: return math_of(x, MATH_EXP2, v);
    case ASMI_LG2: return math_of(x, MATH_LOG2, v);
    case ASMI_SIN: return math_of(x, MATH_SIN, v);
    case ASMI_COS: return math_of(x, MATH_COS, v);
    default: return math_of(x, MATH_TANH, v);
  }
}

void asm_function(Asm *x, AsmInst *i) {
  AsmTypeId t = i->type[0];
  bool ftz = asm_has(i, "ftz");
  Value *v[2];
  asm_get_lanes(x, 1, t, v);
  for (int lane = 0; lane < asm_types[t].lanes; lane++) {
    if (ftz) v[lane] = asm_flush(x, v[lane]);
    v[lane] = function_of(x, i, v[lane]);
    if (ftz) v[lane] = asm_flush(x, v[lane]);
  }
  asm_set_lanes(x, t, v);
}

/* ---- comparisons ---- */

void asm_testp(Asm *x, AsmInst *i) {
  Dtype d = asm_types[i->type[0]].lane;
  Value *v = build_unary(x->b, OP_ABS, asm_get(x, 1, d)), *inf = asm_number(x, d, INFINITY);
  Value *least = asm_number(x, d, d == DT_F64 ? 0x1p-1022 : 0x1p-126), *zero = asm_number(x, d, 0), *r;
  if (asm_has(i, "finite")) r = build_cmp(x->b, CMP_LT, v, inf);
  else if (asm_has(i, "infinite")) r = build_cmp(x->b, CMP_EQ, v, inf);
  else if (asm_has(i, "number")) r = build_cmp(x->b, CMP_EQ, v, v);
  else if (asm_has(i, "notanumber")) r = asm_is_nan(x, v);
  else if (asm_has(i, "normal"))
    r = asm_2(x, OP_AND, build_cmp(x->b, CMP_LT, v, inf), build_cmp(x->b, CMP_GE, v, least));
  else r = asm_2(x, OP_AND, build_cmp(x->b, CMP_GT, v, zero), build_cmp(x->b, CMP_LT, v, least));
  asm_set(x, r);
}

/* How two operands are compared: by the first part of the name that is a comparison. */
static Value *compare(Asm *x, const AsmInst *i, Dtype d, Value *a, Value *b) {
  static const struct {
    const char *name;
    CmpPred pred;
    int kind; /* 0: as the type says; 1: unsigned; 2: or unordered; 3: of order alone */
  } ways[] = {{"eq", CMP_EQ, 0},  {"ne", CMP_NE, 0},  {"lt", CMP_LT, 0},  {"le", CMP_LE, 0},  {"gt", CMP_GT, 0},
              {"ge", CMP_GE, 0},  {"lo", CMP_LT, 1},  {"ls", CMP_LE, 1},  {"hi", CMP_GT, 1},  {"hs", CMP_GE, 1},
              {"equ", CMP_EQ, 2}, {"neu", CMP_NE, 2}, {"ltu", CMP_LT, 2}, {"leu", CMP_LE, 2}, {"gtu", CMP_GT, 2},
              {"geu", CMP_GE, 2}, {"num", CMP_EQ, 3}, {"nan", CMP_NE, 3}};
  bool is_float = dtype_is_float(d);
  for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
    if (!asm_has(i, ways[k].name)) continue;
    if (ways[k].kind && (ways[k].kind == 1) == is_float)
      asm_refuse(x, "`.%s` does not compare %s", ways[k].name, dtype_name(d));
    if (is_float && asm_has(i, "ftz")) a = asm_flush(x, a), b = asm_flush(x, b);
    Value *ordered = NULL;
    if (is_float && (ways[k].kind >= 2 || ways[k].pred == CMP_NE))
      ordered = asm_2(x, OP_AND, build_cmp(x->b, CMP_EQ, a, a), build_cmp(x->b, CMP_EQ, b, b));
    if (ways[k].kind == 3) return ways[k].pred == CMP_EQ ? ordered : build_unary(x->b, OP_NOT, ordered);
    if (ways[k].kind == 1) a = asm_as(x, a, bits_of(d)), b = asm_as(x, b, bits_of(d));
    Value *r = build_cmp(x->b, ways[k].pred, a, b);
    if (!is_float) return r;
    if (ways[k].kind == 2) return asm_2(x, OP_OR, r, build_unary(x->b, OP_NOT, ordered));
    return ways[k].pred == CMP_NE ? asm_2(x, OP_AND, r, ordered) : r; /* PTX's ne is ordered */
  }
  asm_refuse(x, "`%s` names no comparison", i->row->name);
}

static Value *combined(Asm *x, const AsmInst *i, Value *r, Value *c) {
  if (!c) return r;
  return asm_2(x, asm_has(i, "and") ? OP_AND : asm_has(i, "or") ? OP_OR : OP_XOR, r, c);
}

/* p|q = a cmp b, and its opposite, each combined with c; of packed halves p is of the low one, q of the high one. */
void asm_setp(Asm *x, AsmInst *i) {
  AsmTypeId t = i->type[0];
  Dtype d = asm_types[t].lane;
  Value *a[2], *b[2], *c = i->count == 4 ? asm_get(x, 3, DT_I1) : NULL;
  asm_get_lanes(x, 1, t, a);
  asm_get_lanes(x, 2, t, b);
  Value *p = compare(x, i, d, a[0], b[0]), *q = NULL;
  if (i->has_also) q = asm_types[t].lanes == 2 ? compare(x, i, d, a[1], b[1]) : build_unary(x->b, OP_NOT, p);
  asm_set(x, combined(x, i, p, c));
  if (q) asm_set_operand(x, &i->also, combined(x, i, q, c));
}

/* d = a cmp b as all ones or 1.0, else 0. */
void asm_set_mask(Asm *x, AsmInst *i) {
  if (i->types != 2) asm_refuse(x, "`set` names two types");
  Dtype d = asm_types[i->type[0]].lane, from = asm_types[i->type[1]].lane;
  if (asm_types[i->type[0]].lanes + asm_types[i->type[1]].lanes > 2) asm_refuse(x, "packed halves are for setp");
  Value *c = i->count == 4 ? asm_get(x, 3, DT_I1) : NULL;
  Value *p = combined(x, i, compare(x, i, from, asm_get(x, 1, from), asm_get(x, 2, from)), c);
  Value *yes = dtype_is_float(d) ? asm_number(x, d, 1) : asm_const(x, d, -1);
  asm_set(x, build_select(x->b, p, yes, asm_const(x, d, 0)));
}

void asm_selp(Asm *x, AsmInst *i) {
  Dtype d = asm_types[i->type[0]].lane;
  Value *a = asm_get(x, 1, d), *b = asm_get(x, 2, d);
  asm_set(x, build_select(x->b, asm_get(x, 3, DT_I1), a, b));
}

/* a where c >= 0, else b. */
void asm_slct(Asm *x, AsmInst *i) {
  if (i->types != 2) asm_refuse(x, "`slct` names two types");
  Dtype d = asm_types[i->type[0]].lane, by = asm_types[i->type[1]].lane;
  if (by != DT_I32 && by != DT_F32) asm_refuse(x, "`slct` chooses by s32 or f32");
  Value *a = asm_get(x, 1, d), *b = asm_get(x, 2, d), *c = asm_get(x, 3, by);
  if (asm_has(i, "ftz") && by == DT_F32) c = asm_flush(x, c);
  asm_set(x, build_select(x->b, build_cmp(x->b, CMP_GE, c, asm_const(x, by, 0)), a, b));
}
