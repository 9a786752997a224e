/* Bits of inline PTX: logic, shifts, fields, permutations of bytes, sums of products of bytes.
 *
 * The tile IR's shifts are PTX's: a count from the width on shifts everything out. Many edges rest on that.
 */
#include "tile/asm/asm.h"

static Value *constant(Asm *x, int64_t v) { return asm_const(x, DT_U32, v); }
static Value *masked(Asm *x, Value *v, int64_t mask) { return asm_2(x, OP_AND, v, asm_const(x, v->type->dtype, mask)); }
static Value *inverse(Asm *x, Value *v) { return build_unary(x->b, OP_NOT, v); }

/* ---- logic ---- */

void asm_logic(Asm *x, AsmInst *i) {
  Dtype d = asm_types[i->type[0]].lane;
  Value *a = asm_get(x, 1, d);
  switch (asm_code(i)) {
    case ASMI_AND: asm_set(x, asm_2(x, OP_AND, a, asm_get(x, 2, d))); return;
    case ASMI_OR: asm_set(x, asm_2(x, OP_OR, a, asm_get(x, 2, d))); return;
    case ASMI_XOR: asm_set(x, asm_2(x, OP_XOR, a, asm_get(x, 2, d))); return;
    case ASMI_NOT: asm_set(x, inverse(x, a)); return;
    default: { /* cnot: 1 where a is 0 */
      Value *zero = asm_const(x, d, 0);
      asm_set(x, build_select(x->b, build_cmp(x->b, CMP_EQ, a, zero), asm_const(x, d, 1), zero));
    }
  }
}

/* The function of two bits whose values at bc = 00, 01, 10, 11 are the bits of `table`. */
static Value *of_two(Asm *x, int table, Value *b, Value *c) {
  switch (table) {
    case 0: return constant(x, 0);
    case 1: return inverse(x, asm_2(x, OP_OR, b, c));
    case 2: return asm_2(x, OP_AND, inverse(x, b), c);
    case 3: return inverse(x, b);
    case 4: return asm_2(x, OP_AND, b, inverse(x, c));
    case 5: return inverse(x, c);
    case 6: return asm_2(x, OP_XOR, b, c);
    case 7: return inverse(x, asm_2(x, OP_AND, b, c));
    case 8: return asm_2(x, OP_AND, b, c);
    case 9: return inverse(x, asm_2(x, OP_XOR, b, c));
    case 10: return c;
    case 11: return asm_2(x, OP_OR, inverse(x, b), c);
    case 12: return b;
    case 13: return asm_2(x, OP_OR, b, inverse(x, c));
    case 14: return asm_2(x, OP_OR, b, c);
    default: return constant(x, -1);
  }
}

/* An operand that must be known: a number in the text, or an argument with the constraint "n". */
static int64_t known(Asm *x, int k) {
  const AsmOperand *o = &x->inst->in[k];
  int64_t v = o->value;
  if (o->kind == ASM_INT) return v;
  if (o->kind == ASM_REG && o->reg->parts == 1 && value_is_const(o->reg->part[0], &v)) return v;
  asm_refuse(x, "operand %d must be a number", k);
}

/* A table of eight bits: bit 4a + 2b + c is the result at a, b, c. Its halves are functions of b and c. */
void asm_lop3(Asm *x, AsmInst *i) {
  int table = (int)known(x, 4) & 0xff, low = table & 15, high = table >> 4;
  Value *a = asm_get(x, 1, DT_U32), *b = asm_get(x, 2, DT_U32), *c = asm_get(x, 3, DT_U32), *r;
  if (low == high) r = of_two(x, low, b, c);
  else if (high == 15 - low) r = asm_2(x, OP_XOR, a, of_two(x, low, b, c));
  else if (!low) r = asm_2(x, OP_AND, a, of_two(x, high, b, c));
  else if (!high) r = asm_2(x, OP_AND, inverse(x, a), of_two(x, low, b, c));
  else if (high == 15) r = asm_2(x, OP_OR, a, of_two(x, low, b, c));
  else if (low == 15) r = asm_2(x, OP_OR, inverse(x, a), of_two(x, high, b, c));
  else
    r = asm_2(x, OP_OR, asm_2(x, OP_AND, a, of_two(x, high, b, c)),
              asm_2(x, OP_AND, inverse(x, a), of_two(x, low, b, c)));
  asm_set(x, r);
}

/* ---- shifts ---- */

/* A count has 32 bits whatever is shifted. Cut to a narrower type it must stay too large; 64 bits hold it. */
void asm_shift(Asm *x, AsmInst *i) {
  Dtype d = asm_types[i->type[0]].lane;
  bool narrow = dtype_bits(d) == 16;
  Dtype wide = narrow ? dtype_is_signed(d) ? DT_I32 : DT_U32 : d;
  Value *a = build_convert(x->b, asm_get(x, 1, d), wide);
  Value *n = build_convert(x->b, asm_get(x, 2, DT_U32), wide);
  Value *r = asm_2(x, asm_code(i) == ASMI_SHL ? OP_SHL : OP_SHR, a, n);
  asm_set(x, build_convert(x->b, r, d));
}

/* The 64 bits b:a, shifted left (the high half is kept) or right (the low half). */
void asm_shf(Asm *x, AsmInst *i) {
  Value *a = asm_get(x, 1, DT_U32), *b = asm_get(x, 2, DT_U32), *n = asm_get(x, 3, DT_U32);
  if (asm_has(i, "l") == asm_has(i, "r")) asm_refuse(x, "`shf` is .l or .r");
  n = asm_has(i, "wrap") ? masked(x, n, 31) : asm_2(x, OP_MIN, n, constant(x, 32));
  Value *rest = asm_2(x, OP_SUB, constant(x, 32), n);
  bool left = asm_has(i, "l");
  asm_set(x, asm_2(x, OP_OR, asm_2(x, OP_SHL, b, left ? n : rest), asm_2(x, OP_SHR, a, left ? rest : n)));
}

/* ---- bytes ---- */

/* With a selector that is known, bytes that move equally far from one source are moved together. */
static Value *permuted(Asm *x, Value *const *from, int selector) {
  Value *r = NULL;
  for (int source = 0; source < 2; source++)
    for (int move = -3; move <= 3; move++) {
      uint32_t mask = 0;
      for (int i = 0; i < 4; i++) {
        int nibble = selector >> 4 * i & 15;
        if (!(nibble & 8) && nibble >> 2 == source && i - (nibble & 3) == move) mask |= 0xffu << 8 * i;
      }
      if (!mask) continue;
      Value *v = from[source];
      if (move) v = asm_2(x, move > 0 ? OP_SHL : OP_SHR, v, constant(x, 8 * (move > 0 ? move : -move)));
      v = mask == UINT32_MAX ? v : masked(x, v, mask);
      r = r ? asm_2(x, OP_OR, r, v) : v;
    }
  for (int i = 0; i < 4; i++) { /* a byte's sign, eight times */
    int nibble = selector >> 4 * i & 15;
    if (!(nibble & 8)) continue;
    Value *up = asm_2(x, OP_SHL, from[nibble >> 2 & 1], constant(x, 24 - 8 * (nibble & 3)));
    Value *sign = asm_2(x, OP_SHR, asm_as(x, up, DT_I32), asm_const(x, DT_I32, 31));
    Value *v = masked(x, asm_as(x, sign, DT_U32), 0xffu << 8 * i);
    r = r ? asm_2(x, OP_OR, r, v) : v;
  }
  return r;
}

static Value *permuted_by(Asm *x, Value *const *from, Value *selector) {
  Value *r = NULL, *zero = constant(x, 0);
  for (int i = 0; i < 4; i++) {
    Value *nibble = asm_2(x, OP_SHR, selector, constant(x, 4 * i));
    Value *second = build_cmp(x->b, CMP_NE, masked(x, nibble, 4), zero);
    Value *replicate = build_cmp(x->b, CMP_NE, masked(x, nibble, 8), zero);
    Value *place = asm_2(x, OP_SHL, masked(x, nibble, 3), constant(x, 3));
    Value *byte = masked(x, asm_2(x, OP_SHR, build_select(x->b, second, from[1], from[0]), place), 0xff);
    Value *sign = build_cmp(x->b, CMP_GE, byte, constant(x, 0x80));
    Value *copies = build_select(x->b, sign, constant(x, 0xff), zero);
    Value *v = asm_2(x, OP_SHL, build_select(x->b, replicate, copies, byte), constant(x, 8 * i));
    r = r ? asm_2(x, OP_OR, r, v) : v;
  }
  return r;
}

/* What each mode takes for the selectors 0 to 3. */
static const struct {
  const char *name;
  int selector[4];
} modes[] = {{"f4e", {0x3210, 0x4321, 0x5432, 0x6543}}, {"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
             {"rc8", {0x0000, 0x1111, 0x2222, 0x3333}}, {"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
             {"ecr", {0x0000, 0x1110, 0x2210, 0x3210}}, {"rc16", {0x1010, 0x3232, 0x1010, 0x3232}}};

void asm_prmt(Asm *x, AsmInst *i) {
  Value *from[] = {asm_get(x, 1, DT_U32), asm_get(x, 2, DT_U32)}, *selector = asm_get(x, 3, DT_U32);
  const int *mode = NULL;
  for (size_t k = 0; k < sizeof modes / sizeof *modes; k++)
    if (asm_has(i, modes[k].name)) mode = modes[k].selector;
  int64_t v;
  if (value_is_const(selector, &v)) {
    asm_set(x, permuted(x, from, mode ? mode[v & 3] : (int)v & 0xffff));
    return;
  }
  if (mode) {
    Value *low = masked(x, selector, 3), *chosen = constant(x, mode[3]);
    for (int k = 2; k >= 0; k--)
      chosen = build_select(x->b, build_cmp(x->b, CMP_EQ, low, constant(x, k)), constant(x, mode[k]), chosen);
    selector = chosen;
  }
  asm_set(x, permuted_by(x, from, selector));
}

/* ---- fields ---- */

/* A place or a length: the low 8 bits. */
static Value *byte_of(Asm *x, int k, Dtype d) { return build_convert(x->b, masked(x, asm_get(x, k, DT_U32), 0xff), d); }

static Value *ones(Asm *x, Value *length) { /* in the low `length` bits: of the width or more, all */
  Value *one = asm_const(x, length->type->dtype, 1);
  return asm_2(x, OP_SUB, asm_2(x, OP_SHL, one, length), one);
}

void asm_bfe(Asm *x, AsmInst *i) {
  Dtype d = asm_types[i->type[0]].lane;
  Value *a = asm_get(x, 1, d), *place = byte_of(x, 2, d), *length = byte_of(x, 3, d);
  Value *r = asm_2(x, OP_SHR, a, place);
  if (!dtype_is_signed(d)) {
    asm_set(x, asm_2(x, OP_AND, r, ones(x, length)));
    return;
  }
  Value *width = asm_const(x, d, dtype_bits(d)), *above = asm_2(x, OP_SUB, width, asm_2(x, OP_MIN, length, width));
  asm_set(x, asm_2(x, OP_SHR, asm_2(x, OP_SHL, r, above), above)); /* no bits at all: 0 is shifted */
}

void asm_bfi(Asm *x, AsmInst *i) {
  Dtype d = asm_types[i->type[0]].lane;
  Value *a = asm_get(x, 1, d), *b = asm_get(x, 2, d), *place = byte_of(x, 3, d);
  Value *mask = asm_2(x, OP_SHL, ones(x, byte_of(x, 4, d)), place);
  Value *inserted = asm_2(x, OP_AND, asm_2(x, OP_SHL, a, place), mask);
  asm_set(x, asm_2(x, OP_OR, asm_2(x, OP_AND, b, inverse(x, mask)), inserted));
}

/* popc, clz, brev; the first two give 32 bits. */
void asm_count(Asm *x, AsmInst *i) {
  bool wide = i->type[0] == ASM_b64;
  MathFn fn = asm_code(i) == ASMI_POPC ? MATH_POPC : asm_code(i) == ASMI_CLZ ? MATH_CLZ : MATH_BREV;
  Value *r = asm_math(x, fn, asm_get(x, 1, wide ? DT_I64 : DT_I32), NULL, NULL);
  asm_set(x, r->type->dtype == DT_I32 ? asm_as(x, r, DT_U32) : r);
}

/* Where the first bit stands that is no copy of the sign; -1 where there is none. */
void asm_bfind(Asm *x, AsmInst *i) {
  Dtype d = asm_types[i->type[0]].lane, s = dtype_bits(d) == 64 ? DT_I64 : DT_I32;
  Value *a = asm_get(x, 1, d);
  if (dtype_is_signed(d)) a = build_select(x->b, build_cmp(x->b, CMP_LT, a, asm_const(x, d, 0)), inverse(x, a), a);
  a = asm_as(x, a, s);
  Value *above = asm_math(x, MATH_CLZ, a, NULL, NULL), *r;
  Value *none = build_cmp(x->b, CMP_EQ, a, asm_const(x, s, 0));
  if (asm_has(i, "shiftamt")) r = build_select(x->b, none, asm_const(x, DT_I32, -1), above);
  else r = asm_2(x, OP_SUB, asm_const(x, DT_I32, dtype_bits(d) - 1), above);
  asm_set(x, asm_as(x, r, DT_U32));
}

/* The place of the n-th bit that is set, from `base` up or (n < 0) down; base itself if n is 0; -1 where there is none.
 * Downwards is upwards in the reversed word. Which bit it is tells the number of those below, half by half. */
void asm_fns(Asm *x, AsmInst *i) {
  (void)i;
  Value *mask = asm_get(x, 1, DT_U32), *base = asm_get(x, 2, DT_U32), *n = asm_get(x, 3, DT_I32);
  Value *zero = asm_const(x, DT_I32, 0), *none = constant(x, -1), *top = constant(x, 31);
  Value *down = build_cmp(x->b, CMP_LT, n, zero), *here = build_cmp(x->b, CMP_EQ, n, zero);
  Value *reversed = asm_as(x, asm_math(x, MATH_BREV, asm_as(x, mask, DT_I32), NULL, NULL), DT_U32);
  Value *from = build_select(x->b, down, asm_2(x, OP_SUB, top, base), base);
  Value *candidates = build_select(x->b, here, constant(x, 1), none);
  Value *word = asm_2(x, OP_AND, build_select(x->b, down, reversed, mask), asm_2(x, OP_SHL, candidates, from));
  Value *count = asm_as(x, build_select(x->b, down, build_unary(x->b, OP_NEG, n), n), DT_U32);
  count = build_select(x->b, here, constant(x, 0), asm_2(x, OP_SUB, count, constant(x, 1)));
  Value *place = constant(x, 0);
  for (int half = 16; half; half /= 2) {
    Value *low = asm_as(x, masked(x, word, (INT64_C(1) << half) - 1), DT_I32);
    Value *below = asm_as(x, asm_math(x, MATH_POPC, low, NULL, NULL), DT_U32);
    Value *above = build_cmp(x->b, CMP_GE, count, below);
    count = build_select(x->b, above, asm_2(x, OP_SUB, count, below), count);
    word = build_select(x->b, above, asm_2(x, OP_SHR, word, constant(x, half)), word);
    place = build_select(x->b, above, asm_2(x, OP_ADD, place, constant(x, half)), place);
  }
  Value *found = asm_2(x, OP_AND, build_cmp(x->b, CMP_NE, masked(x, word, 1), constant(x, 0)),
                       build_cmp(x->b, CMP_EQ, count, constant(x, 0)));
  place = build_select(x->b, down, asm_2(x, OP_SUB, top, place), place);
  asm_set(x, build_select(x->b, found, place, none));
}

static bool wraps(Asm *x, const AsmInst *i) {
  if (asm_has(i, "clamp") == asm_has(i, "wrap")) asm_refuse(x, "`%s` is .clamp or .wrap", i->row->name);
  return asm_has(i, "wrap");
}

/* The low bits of a, as many as b says, extended to 32. */
void asm_szext(Asm *x, AsmInst *i) {
  Dtype d = asm_types[i->type[0]].lane;
  Value *a = asm_get(x, 1, d), *length = asm_get(x, 2, DT_U32), *width = constant(x, 32);
  length = wraps(x, i) ? masked(x, length, 31) : asm_2(x, OP_MIN, length, width);
  Value *above = asm_as(x, asm_2(x, OP_SUB, width, length), d); /* 32: nothing is left, and 0 is shifted back */
  asm_set(x, asm_2(x, OP_SHR, asm_2(x, OP_SHL, a, above), above));
}

/* Ones from place a on, b of them. */
void asm_bmsk(Asm *x, AsmInst *i) {
  Value *place = asm_get(x, 1, DT_U32), *length = asm_get(x, 2, DT_U32);
  if (wraps(x, i)) place = masked(x, place, 31), length = masked(x, length, 31);
  asm_set(x, asm_2(x, OP_SHL, ones(x, length), place));
}

/* ---- dp4a, dp2a ---- */

static Value *extended(Asm *x, Value *v, int from, int bits, bool sign) {
  Value *up = asm_2(x, OP_SHL, v, constant(x, 32 - bits - from));
  if (!sign) return asm_2(x, OP_SHR, up, constant(x, 32 - bits));
  return asm_as(x, asm_2(x, OP_SHR, asm_as(x, up, DT_I32), asm_const(x, DT_I32, 32 - bits)), DT_U32);
}

/* c + the products of the four bytes of a and b; or of two 16-bit numbers of a and the low or high bytes of b. */
void asm_dot(Asm *x, AsmInst *i) {
  if (i->types != 2) asm_refuse(x, "`%s` names two types", i->row->name);
  bool sign_a = i->type[0] == ASM_s32, sign_b = i->type[1] == ASM_s32, four = asm_code(i) == ASMI_DP4A;
  if (!four && asm_has(i, "lo") == asm_has(i, "hi")) asm_refuse(x, "`dp2a` is .lo or .hi");
  Value *a = asm_get(x, 1, DT_U32), *b = asm_get(x, 2, DT_U32), *r = asm_get(x, 3, DT_U32);
  for (int k = 0; k < (four ? 4 : 2); k++) {
    Value *p = four ? extended(x, a, 8 * k, 8, sign_a) : extended(x, a, 16 * k, 16, sign_a);
    Value *q = extended(x, b, 8 * k + (asm_has(i, "hi") ? 16 : 0), 8, sign_b);
    r = asm_2(x, OP_ADD, r, asm_2(x, OP_MUL, p, q));
  }
  asm_set(x, r);
}
