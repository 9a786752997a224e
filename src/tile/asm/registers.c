/* Registers of inline PTX as values: what is read of one, and what an instruction leaves in one.
 *
 * A register holds bits. What was written stays as it was made, as one number or as 2 or 4 side by side, and is taken
 * apart or put together only when an instruction reads it another way:
 *
 *     written as two f16, read as two f16          nothing
 *     written as u32, read as f32                  bitcast
 *     written as two f16, read as b32              lo | hi << 16
 */
#include "tile/asm/asm.h"

static const Dtype unsigned_of[9] = {[1] = DT_U8, [2] = DT_U16, [4] = DT_U32, [8] = DT_U64};

static Dtype bits_type(int bits) { return bits == 1 ? DT_I1 : unsigned_of[bits / 8]; }

const Type *asm_value_type(Asm *x, Dtype d) { return type_with_dtype(x->b->func->cx, x->shape, d); }

Value *asm_const(Asm *x, Dtype d, int64_t v) {
  stack_guard();
  if (!dtype_is_float(d)) return build_int(x->b, asm_value_type(x, d), int_wrap(d, v));
  return asm_as(x, asm_const(x, bits_type(dtype_bits(d)), v), d);
}

Value *asm_number(Asm *x, Dtype d, double v) { return build_float(x->b, asm_value_type(x, d), v); }

Value *asm_as(Asm *x, Value *v, Dtype d) {
  if (v->type->ptr) v = build_bitcast(x->b, v, type_number(x->b->func->cx, DT_U64));
  if (v->type->dtype == d) return v;
  if (v->def && v->def->code == OP_BITCAST && v->def->in[0]->type->dtype == d && !v->def->in[0]->type->ptr)
    return v->def->in[0];
  return build_bitcast(x->b, v, type_number(x->b->func->cx, d));
}

/* ---- reading ---- */

/* All of a register, as an unsigned integer or (1 bit) an i1. */
static Value *whole(Asm *x, const AsmReg *r) {
  Dtype d = bits_type(r->bits);
  if (!r->parts) return asm_const(x, d, 0);
  if (r->parts == 1) return asm_as(x, r->part[0], d);
  int width = r->bits / r->parts;
  Value *v = NULL;
  for (int k = 0; k < r->parts; k++) {
    Value *part = build_convert(x->b, asm_as(x, r->part[k], bits_type(width)), d);
    if (k) part = asm_2(x, OP_SHL, part, asm_const(x, d, k * width));
    v = v ? asm_2(x, OP_OR, v, part) : part;
  }
  return v;
}

void asm_parts(Asm *x, const AsmReg *r, int n, Value **out) {
  if (r->parts == n) {
    memcpy(out, r->part, sizeof *out * (size_t)n);
    return;
  }
  Value *v = whole(x, r);
  int width = r->bits / n;
  Dtype d = bits_type(r->bits);
  for (int k = 0; k < n; k++) {
    out[k] = k ? asm_2(x, OP_SHR, v, asm_const(x, d, k * width)) : v;
    if (n > 1) out[k] = build_convert(x->b, out[k], bits_type(width));
  }
}

static const char *operand_name(const AsmOperand *o) { return o->reg ? o->reg->name : "an operand"; }

Value *asm_get_operand(Asm *x, const AsmOperand *o, Dtype d) {
  int bits = dtype_bits(d);
  switch (o->kind) {
    case ASM_INT: return dtype_is_float(d) ? asm_number(x, d, (double)o->value) : asm_const(x, d, o->value);
    case ASM_FLOAT:
      if (dtype_is_float(d)) return o->float_bits == bits ? asm_const(x, d, o->value) : asm_number(x, d, o->number);
      if (o->float_bits != bits) asm_refuse(x, "a number with a point, where an integer is expected");
      return asm_const(x, d, o->value);
    case ASM_REG: break;
    default: asm_refuse(x, "a register or a number is expected");
  }
  const AsmReg *r = o->reg;
  Value *v;
  if ((r->bits == 1) != (bits == 1)) asm_refuse(x, "%s is %s", r->name, r->bits == 1 ? "a predicate" : "no predicate");
  if (r->bits < bits) asm_refuse(x, "%s has %d bits, and %d are read", r->name, r->bits, bits);
  if (r->bits == bits) v = r->parts == 1 ? r->part[0] : whole(x, r);
  else if (r->parts > 1 && r->bits / r->parts == bits) v = r->part[0];
  else v = build_convert(x->b, whole(x, r), bits_type(bits));
  if (o->negated) {
    if (bits != 1) asm_refuse(x, "`!` is for predicates");
    return build_unary(x->b, OP_NOT, asm_as(x, v, DT_I1));
  }
  return asm_as(x, v, d);
}

Value *asm_get(Asm *x, int k, Dtype d) { return asm_get_operand(x, &x->inst->in[k], d); }

void asm_get_lanes(Asm *x, int k, AsmTypeId t, Value **out) {
  const AsmType *type = &asm_types[t];
  const AsmOperand *o = &x->inst->in[k];
  if (type->lanes == 1) {
    out[0] = asm_get(x, k, type->lane);
    return;
  }
  int width = type->bits / type->lanes;
  if (o->kind == ASM_INT || o->kind == ASM_FLOAT) {
    for (int i = 0; i < type->lanes; i++) out[i] = asm_const(x, bits_type(width), o->value >> i * width);
  } else if (o->kind != ASM_REG) {
    asm_refuse(x, "a register or a number is expected");
  } else if (o->reg->bits == type->bits) {
    asm_parts(x, o->reg, type->lanes, out);
  } else { /* 16 bits that lie in the low half of a register of 32 */
    AsmReg low = {.name = o->reg->name, .bits = type->bits, .parts = 1};
    low.part[0] = asm_get_operand(x, o, bits_type(type->bits));
    asm_parts(x, &low, type->lanes, out);
  }
  if (type->lane != DT_COUNT)
    for (int i = 0; i < type->lanes; i++) out[i] = asm_as(x, out[i], type->lane);
}

/* ---- writing ---- */

void asm_set_parts(Asm *x, AsmReg *r, int n, Value *const *parts) {
  Value *out[4];
  memcpy(out, parts, sizeof *out * (size_t)n);
  if (x->guard) {
    Value *old[4];
    asm_parts(x, r, n, old);
    for (int k = 0; k < n; k++) {
      Dtype d = out[k]->type->dtype;
      out[k] = build_select(x->b, x->guard, out[k], asm_as(x, old[k], d));
    }
  }
  r->parts = n;
  memcpy(r->part, out, sizeof *out * (size_t)n);
}

static AsmReg *destination(Asm *x, const AsmOperand *o) {
  if (o->kind == ASM_SINK) return NULL;
  if (o->kind != ASM_REG || o->negated) asm_refuse(x, "the destination is no register");
  return o->reg;
}

void asm_set_operand(Asm *x, const AsmOperand *o, Value *v) {
  AsmReg *r = destination(x, o);
  if (!r) return;
  Dtype d = v->type->dtype;
  int bits = dtype_bits(d);
  if ((r->bits == 1) != (bits == 1)) asm_refuse(x, "%s is %s", r->name, r->bits == 1 ? "a predicate" : "no predicate");
  if (r->bits < bits) asm_refuse(x, "%s has %d bits, and %d are written", operand_name(o), r->bits, bits);
  if (r->bits > bits) {
    if (dtype_is_float(d)) v = asm_as(x, v, bits_type(bits));
    v = build_convert(x->b, v, bits_type(r->bits));
  }
  asm_set_parts(x, r, 1, &v);
}

void asm_set(Asm *x, Value *v) { asm_set_operand(x, &x->inst->in[0], v); }

void asm_set_lanes(Asm *x, AsmTypeId t, Value *const *lanes) {
  const AsmType *type = &asm_types[t];
  AsmReg *r = destination(x, &x->inst->in[0]);
  if (!r) return;
  if (type->lanes == 1) {
    asm_set(x, lanes[0]);
    return;
  }
  if (r->bits == type->bits) {
    asm_set_parts(x, r, type->lanes, lanes);
    return;
  }
  AsmReg all = {.name = r->name, .bits = type->bits, .parts = type->lanes};
  memcpy(all.part, lanes, sizeof *lanes * (size_t)type->lanes);
  asm_set(x, whole(x, &all));
}
