/* mov and cvt of inline PTX: bits between registers, numbers between types.
 *
 * A packed conversion of two floats takes the one for the upper half first: cvt.rn.f16x2.f32 d, high, low.
 */
#include "tile/asm/asm.h"

/* ---- mov ---- */

static AsmReg *item(Asm *x, const AsmOperand *o, int bits) {
  if (o->kind == ASM_SINK) return NULL;
  if (o->kind != ASM_REG || o->reg->bits != bits) asm_refuse(x, "`{}` wants registers of %d bits here", bits);
  return o->reg;
}

static void unpack(Asm *x, const AsmInst *i, int bits) {
  const AsmOperand *to = &i->in[0];
  Value *part[4];
  if (to->count != 2 && to->count != 4) asm_refuse(x, "`{}` wants two or four registers");
  if (i->in[1].kind != ASM_REG || i->in[1].reg->bits != bits) asm_refuse(x, "a register of %d bits is expected", bits);
  asm_parts(x, i->in[1].reg, to->count, part);
  for (int k = 0; k < to->count; k++) {
    AsmReg *r = item(x, &to->items[k], bits / to->count);
    if (r) asm_set_parts(x, r, 1, &part[k]);
  }
}

static void pack(Asm *x, const AsmInst *i, int bits) {
  const AsmOperand *from = &i->in[1];
  Value *part[4];
  if (from->count != 2 && from->count != 4) asm_refuse(x, "`{}` wants two or four registers");
  int width = bits / from->count;
  for (int k = 0; k < from->count; k++) {
    Dtype u = width == 8 ? DT_U8 : width == 16 ? DT_U16 : DT_U32;
    if (from->items[k].kind == ASM_REG && from->items[k].reg->bits == width)
      asm_parts(x, from->items[k].reg, 1, &part[k]);
    else part[k] = asm_get_operand(x, &from->items[k], u);
  }
  if (i->in[0].kind != ASM_REG || i->in[0].reg->bits != bits) asm_refuse(x, "a register of %d bits is expected", bits);
  asm_set_parts(x, i->in[0].reg, from->count, part);
}

void asm_mov(Asm *x, AsmInst *i) {
  const AsmType *t = &asm_types[i->type[0]];
  const AsmOperand *to = &i->in[0], *from = &i->in[1];
  if (to->kind == ASM_VECTOR) {
    unpack(x, i, t->bits);
  } else if (from->kind == ASM_VECTOR) {
    pack(x, i, t->bits);
  } else if (to->kind == ASM_REG && from->kind == ASM_REG && to->reg->bits == from->reg->bits && !from->negated &&
             from->reg->parts) {
    Value *parts[4];
    asm_parts(x, from->reg, from->reg->parts, parts);
    asm_set_parts(x, to->reg, from->reg->parts, parts);
  } else {
    Dtype whole = t->bits == 1 ? DT_I1 : t->bits == 16 ? DT_U16 : t->bits == 32 ? DT_U32 : DT_U64;
    asm_set(x, asm_get(x, 1, t->lanes == 1 ? t->lane : whole));
  }
}

/* ---- between floats ---- */

static bool is_half(Dtype d) { return d == DT_F16 || d == DT_BF16; }

/* f32 to a half, down or up: towards zero, and one step away from it where that was not enough. */
static Value *half_outwards(Asm *x, Value *v, Dtype d, bool up) {
  Value *near = build_convert(x->b, v, d);
  near->def->rounding = 1;
  Value *back = build_convert(x->b, near, DT_F32);
  Value *short_of = build_cmp(x->b, up ? CMP_LT : CMP_GT, back, v);
  Value *bits = asm_as(x, near, DT_U16);
  Value *sign = asm_const(x, DT_U16, up ? 0 : 0x8000); /* of +0 the step down is the least negative number */
  Value *zero = build_cmp(x->b, CMP_EQ, near, asm_number(x, d, 0));
  bits = build_select(x->b, zero, sign, bits);
  Value *next = asm_2(x, OP_ADD, bits, asm_const(x, DT_U16, 1));
  return build_select(x->b, short_of, asm_as(x, next, d), near);
}

/* The largest finite number of a type stands for what is beyond it. */
static Value *bounded(Asm *x, Value *v, Dtype d) {
  double most = d == DT_F16 ? 65504 : d == DT_BF16 ? 0x1.fep127 : 0x1.fffffep127;
  Dtype from = v->type->dtype;
  Value *r = asm_2(x, OP_MAX, asm_2(x, OP_MIN, v, asm_number(x, from, most)), asm_number(x, from, -most));
  return build_select(x->b, asm_is_nan(x, v), v, r);
}

/* A float as the nearest one of type d, or the next in the direction that the instruction names. */
static Value *to_float(Asm *x, const AsmInst *i, Value *v, Dtype d) {
  Dtype from = v->type->dtype;
  if (dtype_bits(d) > dtype_bits(from) || d == from) return build_convert(x->b, v, d);
  if (from == DT_F64 && d == DT_F32) return asm_rounded(x, MATH_DOUBLE2FLOAT_RN, v, NULL, NULL);
  if (asm_has(i, "rm") || asm_has(i, "rp")) {
    if (from != DT_F32) asm_refuse(x, "of f64 and halves, rounding up and down is not supported");
    return half_outwards(x, v, d, asm_has(i, "rp"));
  }
  if (is_half(from) && is_half(d)) v = build_convert(x->b, v, DT_F32);
  Value *r = build_convert(x->b, v, d);
  r->def->rounding = asm_has(i, "rz");
  return r;
}

/* 19 bits of an f32, the others 0. */
static Value *to_tf32(Asm *x, const AsmInst *i, Value *v) {
  if (asm_has(i, "satfinite")) v = bounded(x, v, DT_F32);
  Value *bits = asm_as(x, v, DT_U32), *up = bits;
  if (asm_has(i, "rna")) up = asm_2(x, OP_ADD, bits, asm_const(x, DT_U32, 0x1000));
  if (asm_has(i, "rn")) {
    Value *odd = asm_2(x, OP_AND, asm_2(x, OP_SHR, bits, asm_const(x, DT_U32, 13)), asm_const(x, DT_U32, 1));
    up = asm_2(x, OP_ADD, asm_2(x, OP_ADD, bits, asm_const(x, DT_U32, 0xfff)), odd);
  }
  Value *r = asm_as(x, asm_2(x, OP_AND, up, asm_const(x, DT_U32, 0xffffe000)), DT_F32);
  Value *size = build_unary(x->b, OP_ABS, v);
  r = build_select(x->b, build_cmp(x->b, CMP_LT, size, asm_const(x, DT_F32, 0x7f800000)), r, v);
  r = build_select(x->b, asm_is_nan(x, v), asm_const(x, DT_F32, 0x7fffffff), r);
  return asm_has(i, "relu") ? asm_relu(x, r) : r;
}

/* ---- e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 with a sign ---- */

/* How many of the steps between neighbours v has passed; a tie goes to the even one. NaN is 6. */
static Value *to_e2m1(Asm *x, Value *v) {
  static const double step[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
  Value *size = build_unary(x->b, OP_ABS, v), *code = asm_const(x, DT_U8, 0), *nan = asm_is_nan(x, v);
  for (int k = 0; k < 7; k++) {
    Value *past = build_cmp(x->b, k & 1 ? CMP_GE : CMP_GT, size, asm_number(x, DT_F32, step[k]));
    code = asm_2(x, OP_ADD, code, build_convert(x->b, past, DT_U8));
  }
  Value *sign = asm_2(x, OP_SHR, asm_as(x, v, DT_U32), asm_const(x, DT_U32, 31));
  sign = asm_2(x, OP_SHL, build_convert(x->b, sign, DT_U8), asm_const(x, DT_U8, 3));
  return build_select(x->b, nan, asm_const(x, DT_U8, 7), asm_2(x, OP_OR, code, sign));
}

/* As f16: exponent and fraction in their places count from 2^-14; times 2^14. */
static Value *from_e2m1(Asm *x, Value *code) {
  Value *wide = build_convert(x->b, code, DT_U16);
  Value *size = asm_2(x, OP_SHL, asm_2(x, OP_AND, wide, asm_const(x, DT_U16, 7)), asm_const(x, DT_U16, 9));
  Value *sign = asm_2(x, OP_SHL, asm_2(x, OP_AND, wide, asm_const(x, DT_U16, 8)), asm_const(x, DT_U16, 12));
  Value *v = asm_2(x, OP_MUL, asm_as(x, size, DT_F16), asm_number(x, DT_F16, 0x1p14));
  return asm_as(x, asm_2(x, OP_OR, asm_as(x, v, DT_U16), sign), DT_F16);
}

/* ---- pairs ---- */

static void read_pair(Asm *x, const AsmInst *i, AsmTypeId from, Value **v) {
  if (from == ASM_f32) {
    if (i->count != 3) asm_refuse(x, "two numbers are packed");
    v[0] = asm_get(x, 2, DT_F32), v[1] = asm_get(x, 1, DT_F32);
    return;
  }
  if (asm_types[from].lanes != 2 || i->count != 2) asm_refuse(x, "a pair is made of two f32, or of a pair");
  if (from == ASM_e2m1x2) {
    Value *both = asm_get(x, 1, DT_U8);
    v[0] = from_e2m1(x, both), v[1] = from_e2m1(x, asm_2(x, OP_SHR, both, asm_const(x, DT_U8, 4)));
    return;
  }
  asm_get_lanes(x, 1, from, v);
}

/* Never an infinity; every NaN is 0x7f. */
static Value *to_fp8(Asm *x, Value *v, Dtype d) {
  Value *r = asm_as(x, build_convert(x->b, v, d), DT_U8);
  return asm_as(x, build_select(x->b, asm_is_nan(x, v), asm_const(x, DT_U8, 0x7f), r), d);
}

static void convert_pair(Asm *x, AsmInst *i) {
  AsmTypeId to = i->type[0], from = i->type[1];
  Dtype d = asm_types[to].lane;
  Value *v[2];
  if (asm_has(i, "rm") || asm_has(i, "rp")) asm_refuse(x, "pairs round to nearest or towards zero");
  read_pair(x, i, from, v);
  for (int k = 0; k < 2; k++) {
    if (asm_has(i, "relu")) v[k] = asm_relu(x, v[k]);
    if (to == ASM_e2m1x2) v[k] = to_e2m1(x, build_convert(x->b, v[k], DT_F32));
    else if (dtype_is_fp8(d)) v[k] = to_fp8(x, v[k], d);
    else v[k] = to_float(x, i, asm_has(i, "satfinite") ? bounded(x, build_convert(x->b, v[k], DT_F32), d) : v[k], d);
  }
  if (to != ASM_e2m1x2) {
    asm_set_lanes(x, to, v);
    return;
  }
  Value *high = asm_2(x, OP_SHL, v[1], asm_const(x, DT_U8, 4));
  asm_set(x, asm_2(x, OP_OR, v[0], high));
}

/* ---- single numbers ---- */

static MathFn whole_function(const AsmInst *i) {
  if (asm_has(i, "rni")) return MATH_RINT;
  if (asm_has(i, "rmi")) return MATH_FLOOR;
  if (asm_has(i, "rpi")) return MATH_CEIL;
  return asm_has(i, "rzi") ? MATH_TRUNC : MATH_COUNT;
}

static Value *whole_number(Asm *x, const AsmInst *i, Value *v) {
  MathFn fn = whole_function(i);
  Dtype d = v->type->dtype;
  if (fn == MATH_COUNT) return v;
  if (!is_half(d)) return asm_math(x, fn, v, NULL, NULL);
  return build_convert(x->b, asm_math(x, fn, build_convert(x->b, v, DT_F32), NULL, NULL), d);
}

/* Kept within the type. NaN is 0; of f64 and as 64 bits it is the top bit alone. */
static Value *float_to_int(Asm *x, const AsmInst *i, Value *v, Dtype d) {
  if (whole_function(i) == MATH_COUNT) asm_refuse(x, "a float becomes an integer by .rni, .rzi, .rmi or .rpi");
  Value *r = build_convert(x->b, whole_number(x, i, v), d);
  if (v->type->dtype != DT_F64 && dtype_bits(d) < 64) return r;
  Value *top = asm_const(x, d, (int64_t)(1ull << (dtype_bits(d) - 1)));
  return build_select(x->b, asm_is_nan(x, v), top, r);
}

static Value *int_to_float(Asm *x, const AsmInst *i, Value *v, Dtype d) {
  Dtype from = v->type->dtype;
  bool nearest = !asm_has(i, "rz") && !asm_has(i, "rm") && !asm_has(i, "rp"), sign = dtype_is_signed(from);
  if (nearest || (d == DT_F64 && dtype_bits(from) < 64) || (d == DT_F32 && dtype_bits(from) <= 16))
    return build_convert(x->b, v, d);
  if (is_half(d)) asm_refuse(x, "an integer becomes a half by rounding to nearest only");
  if (d == DT_F64) return asm_rounded(x, sign ? MATH_LL2DOUBLE_RN : MATH_ULL2DOUBLE_RN, v, NULL, NULL);
  if (dtype_bits(from) == 64) return asm_rounded(x, sign ? MATH_LL2FLOAT_RN : MATH_ULL2FLOAT_RN, v, NULL, NULL);
  return asm_rounded(x, sign ? MATH_INT2FLOAT_RN : MATH_UINT2FLOAT_RN, v, NULL, NULL);
}

/* An integer kept within a narrower type, or one of the other sign. */
static Value *saturated(Asm *x, Value *v, Dtype d) {
  Dtype from = v->type->dtype;
  int bits = dtype_bits(d) - dtype_is_signed(d), have = dtype_bits(from) - dtype_is_signed(from);
  if (dtype_is_signed(from)) {
    int64_t least = dtype_is_signed(d) ? -(1ll << (bits < 63 ? bits : 62)) * (bits < 63 ? 1 : 2) : 0;
    if (!dtype_is_signed(d) || bits < have) v = asm_2(x, OP_MAX, v, asm_const(x, from, least));
  }
  if (bits < have) v = asm_2(x, OP_MIN, v, asm_const(x, from, (int64_t)((1ull << bits) - 1)));
  return build_convert(x->b, v, d);
}

void asm_cvt(Asm *x, AsmInst *i) {
  if (i->types != 2) asm_refuse(x, "`cvt` names two types");
  AsmTypeId to = i->type[0], from = i->type[1];
  if (asm_types[to].lanes == 2) {
    convert_pair(x, i);
    return;
  }
  if (i->count != 2 || asm_types[from].lanes == 2) asm_refuse(x, "one number becomes one number");
  Dtype d = asm_types[to].lane, s = asm_types[from].lane;
  Value *v = asm_get(x, 1, s), *r;
  bool ftz = asm_has(i, "ftz");
  if (ftz && s == DT_F32) v = asm_flush(x, v);
  if (to == ASM_tf32) r = to_tf32(x, i, v);
  else if (dtype_is_float(d) && dtype_is_float(s)) {
    if (asm_has(i, "satfinite")) v = bounded(x, v, d);
    r = d == s ? whole_number(x, i, v) : to_float(x, i, v, d);
    if (asm_has(i, "relu")) r = asm_relu(x, r);
    if (ftz && d == DT_F32) r = asm_flush(x, r);
  } else if (dtype_is_float(s)) r = float_to_int(x, i, v, d);
  else if (dtype_is_float(d)) r = int_to_float(x, i, v, d);
  else r = asm_has(i, "sat") ? saturated(x, v, d) : build_convert(x->b, v, d);
  asm_set(x, asm_has(i, "sat") && dtype_is_float(d) ? asm_saturate(x, r) : r);
}

/* cvt.pack.sat.T.s32{.b32} d, a, b{, c}: a above b; of bytes, above them the low half of c. */
void asm_cvt_pack(Asm *x, AsmInst *i) {
  AsmTypeId t = i->type[0];
  if (i->types < 2 || i->type[1] != ASM_s32 || !asm_has(i, "sat")) asm_refuse(x, "`cvt.pack` is .sat, of s32");
  bool bytes = asm_types[t].bits == 8;
  if (asm_types[t].bits > 16 || (bytes && i->count != 4))
    asm_refuse(x, "`cvt.pack` makes two 16-bit numbers, or bytes with a third operand");
  int width = asm_types[t].bits;
  Value *part[2];
  for (int k = 0; k < 2; k++) {
    Value *v = saturated(x, asm_get(x, 1 + k, DT_I32), asm_types[t].lane);
    part[k] = build_convert(x->b, asm_as(x, v, bytes ? DT_U8 : DT_U16), DT_U32);
  }
  Value *r = asm_2(x, OP_OR, part[1], asm_2(x, OP_SHL, part[0], asm_const(x, DT_U32, width)));
  if (bytes) r = asm_2(x, OP_OR, r, asm_2(x, OP_SHL, asm_get(x, 3, DT_U32), asm_const(x, DT_U32, 16)));
  asm_set(x, r);
}
