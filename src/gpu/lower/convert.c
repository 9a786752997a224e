/* lower_convert: from one element type to another; what each pair means stands in src/tile/scalar.c and
 * src/base/number.c.
 *
 * f32 stands in the middle: types whose every value it holds go by way of it. Wide numbers (64-bit floats, 32- and
 * 64-bit integers) to narrow floats would round twice so; there the f32 is rounded to odd: towards zero, with the last
 * bit set when something was lost. f32 has enough bits more than every narrow format for the second rounding to be
 * right then (Boldo and Melquiond 2008).
 *
 * fp8 without the hardware's instructions (before sm_89, and the three formats that it does not know):
 *
 *     to f32      fraction and exponent moved into f32's place, times 2^(127 - bias): right for subnormals too; NaN
 *                 patched
 *     from f32    normal numbers: subtract the bias, add half of what is dropped, shift. Subnormals: add the number
 *                 whose last place is the format's least step, so that the addition rounds; what that brings into the
 *                 low bits is the answer
 */
#include "gpu/lower/lower.h"

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Whether regs are the bytes (or halves) of one word in order, as lower_unpack_word leaves them: then that word. */
static LaneValue *word_of(LaneValue *const *regs, int n, int bits) {
  LaneValue *word = NULL;
  for (int i = 0; i < n; i++) {
    const LaneOp *d = regs[i]->def;
    if (!d || d->code != LANE_BFE || (d->kind != LK_S32 && d->kind != LK_U32) || d->bits != bits || d->bit != i * bits)
      return NULL;
    if (word && d->in[0] != word) return NULL;
    word = d->in[0];
  }
  return word;
}

static LaneValue *permute(Lower *l, LaneValue *x, LaneValue *y, uint32_t selector) {
  return lane_3(&l->b, LANE_PRMT, LK_B32, x, y, lane_const(&l->b, LT_B32, selector));
}

LaneValue *lower_pack_word(Lower *l, int elem_bytes, LaneType type, LaneValue *const *regs, int n) {
  LaneBuilder *b = &l->b;
  if (type == LT_B16) return lane_pack(b, regs[0], n > 1 ? regs[1] : lane_const(b, LT_B16, 0));
  if (n == 1) return regs[0];
  if (n * elem_bytes == 4) {
    LaneValue *word = word_of(regs, n, 8 * elem_bytes);
    if (word) return word;
  }
  if (elem_bytes == 2) return permute(l, regs[0], regs[1], 0x5410);
  LaneValue *low = permute(l, regs[0], regs[1], 0x0040);
  return n == 2 ? low : permute(l, low, permute(l, regs[2], regs[3], 0x0040), 0x5410);
}

void lower_unpack_word(Lower *l, LaneKind kind, LaneValue *word, int n, LaneValue **regs) {
  LaneBuilder *b = &l->b;
  int bits = lane_kind_info[kind].bits;
  LaneValue *rest;
  if (lane_kind_info[kind].type == LT_B16) {
    lane_unpack(b, word, &regs[0], n > 1 ? &regs[1] : &rest);
    return;
  }
  if (kind == LK_PRED) {
    for (int i = 0; i < n; i++) {
      LaneValue *byte = lane_2(b, LANE_AND, LK_B32, word, lane_const(b, LT_B32, 0xffu << 8 * i));
      regs[i] = lane_setp(b, CMP_NE, LK_U32, byte, lane_i32(b, 0));
    }
    return;
  }
  bool sign = kind == LK_S8 || kind == LK_S16;
  for (int i = 0; i < n; i++) regs[i] = lane_bfe(b, sign ? LK_S32 : LK_U32, word, i * bits, bits);
}

/* ---- fp8 --------------------------------------------------------------------------------------------------------- */

typedef struct Format {
  int fraction, bias;
  uint32_t largest, nan;
  bool has_nan, fnuz, away;
} Format;

static Format format_of(Dtype t) {
  switch (t) {
    case DT_F8E5: return (Format){2, 15, 0x7b, 0x7f, true, false, false};
    case DT_F8E4NV: return (Format){3, 7, 0x7e, 0x7f, true, false, false};
    case DT_F8E4B8: return (Format){3, 8, 0x7f, 0x80, true, true, false};
    case DT_F8E5B16: return (Format){2, 16, 0x7f, 0x80, true, true, false};
    default: return (Format){3, 15, 0x7e, 0x7e, false, false, true};
  }
}

static LaneValue *word(Lower *l, uint32_t v) { return lane_const(&l->b, LT_B32, v); }

static bool in_hardware(const Lower *l, Dtype t) { return l->target->has_fp8 && (t == DT_F8E5 || t == DT_F8E4NV); }

static LaneValue *decode_f8(Lower *l, Dtype t, LaneValue *x) {
  LaneBuilder *b = &l->b;
  if (t == DT_F8E5) { /* the high byte of an f16 */
    LaneValue *low, *high;
    lane_unpack(b, lane_2(b, LANE_SHL, LK_B32, x, lane_i32(b, 8)), &low, &high);
    return lane_cvt(b, LK_F16, LK_F32, ROUND_DEFAULT, low);
  }
  Format f = format_of(t);
  LaneValue *magnitude = lane_2(b, LANE_AND, LK_B32, x, word(l, 0x7f));
  LaneValue *sign = lane_2(b, LANE_SHL, LK_B32, lane_2(b, LANE_AND, LK_B32, x, word(l, 0x80)), lane_i32(b, 24));
  LaneValue *bits = lane_2(b, LANE_SHL, LK_B32, magnitude, lane_i32(b, 23 - f.fraction));
  LaneValue *scaled = lane_2(b, LANE_MUL, LK_F32, bits, word(l, (uint32_t)(254 - f.bias) << 23));
  LaneValue *v = lane_2(b, LANE_OR, LK_B32, scaled, sign);
  if (!f.has_nan) return v;
  LaneValue *is_nan = f.fnuz ? lane_setp(b, CMP_EQ, LK_U32, x, word(l, f.nan))
                             : lane_setp(b, CMP_EQ, LK_U32, magnitude, word(l, f.nan));
  return lane_select(b, is_nan, word(l, 0x7fc00000), v);
}

static LaneValue *encode_f8(Lower *l, Dtype t, bool towards_zero, LaneValue *x) {
  LaneBuilder *b = &l->b;
  Format f = format_of(t);
  int drop = 23 - f.fraction;
  uint32_t least = (uint32_t)(128 - f.bias) << 23; /* of the normal numbers */
  LaneValue *a = lane_2(b, LANE_AND, LK_B32, x, word(l, 0x7fffffff)), *below, *half;
  if (f.away && !towards_zero) {
    /* Steps of a subnormal: the significand shifted down by as much as the exponent lacks, after half a step was added.
     */
    LaneValue *exponent = lane_2(b, LANE_SHR, LK_U32, a, lane_i32(b, 23));
    LaneValue *lack = lane_2(b, LANE_SUB, LK_S32, lane_i32(b, 128 - f.bias + drop), exponent);
    lack = lane_2(b, LANE_MIN, LK_S32, lack, lane_i32(b, 26));
    lack = lane_2(b, LANE_MAX, LK_S32, lack, lane_i32(b, 1));
    LaneValue *significand =
        lane_2(b, LANE_OR, LK_B32, lane_2(b, LANE_AND, LK_B32, a, word(l, 0x7fffff)), word(l, 0x800000));
    LaneValue *step = lane_2(b, LANE_SHL, LK_B32, lane_i32(b, 1), lane_2(b, LANE_SUB, LK_S32, lack, lane_i32(b, 1)));
    below = lane_2(b, LANE_SHR, LK_U32, lane_2(b, LANE_ADD, LK_S32, significand, step), lack);
    half = word(l, 1u << (drop - 1));
  } else {
    uint32_t place = (uint32_t)(127 + 24 - f.bias - f.fraction) << 23; /* 2^(23 + 1 - bias - fraction) */
    LaneOp add = {.code = LANE_ADD, .kind = LK_F32, .rounding = towards_zero ? ROUND_RZ : ROUND_RN, .exact = true};
    below = lane_2(b, LANE_SUB, LK_S32, lane_op(b, add, 2, (LaneValue *[]){a, word(l, place)}), word(l, place));
    LaneValue *odd = lane_bfe(b, LK_U32, a, drop, 1);
    half = towards_zero ? word(l, 0) : lane_2(b, LANE_ADD, LK_S32, odd, word(l, (1u << (drop - 1)) - 1));
  }
  LaneValue *rebased = lane_2(b, LANE_SUB, LK_S32, a, word(l, (uint32_t)(127 - f.bias) << 23));
  LaneValue *above = lane_2(b, LANE_SHR, LK_U32, lane_2(b, LANE_ADD, LK_S32, rebased, half), lane_i32(b, drop));
  LaneValue *m = lane_select(b, lane_setp(b, CMP_LT, LK_U32, a, word(l, least)), below, above);
  m = lane_2(b, LANE_MIN, LK_U32, m, word(l, f.largest));
  if (f.has_nan) m = lane_select(b, lane_setp(b, CMP_GT, LK_U32, a, word(l, 0x7f800000)), word(l, f.nan), m);
  LaneValue *sign = lane_2(b, LANE_AND, LK_B32, lane_2(b, LANE_SHR, LK_U32, x, lane_i32(b, 24)), word(l, 0x80));
  if (f.fnuz) sign = lane_select(b, lane_setp(b, CMP_EQ, LK_U32, m, word(l, 0)), word(l, 0), sign);
  return lane_2(b, LANE_OR, LK_B32, m, sign);
}

static LaneKind pair_kind(Dtype t) { return t == DT_F8E5 ? LK_E5M2X2 : LK_E4M3X2; }

/* All registers, in pairs where the hardware has the format. */
static void from_f8(Lower *l, Dtype t, int n, LaneValue *const *in, LaneValue **out, bool to_f16) {
  LaneBuilder *b = &l->b;
  if (!in_hardware(l, t)) {
    for (int r = 0; r < n; r++) {
      out[r] = decode_f8(l, t, in[r]);
      if (to_f16) out[r] = lane_cvt(b, LK_F32, LK_F16, ROUND_DEFAULT, out[r]);
    }
    return;
  }
  for (int r = 0; r < n; r += 2) {
    LaneValue *pair[2] = {in[r], r + 1 < n ? in[r + 1] : lane_i32(b, 0)}, *low, *high, *half[2];
    const LaneOp *d = in[r]->def;
    /* two neighbouring bytes of a word need no packing */
    if (r + 1 < n && d && d->code == LANE_BFE && d->bits == 8 && (d->bit & 8) == 0) {
      const LaneOp *e = in[r + 1]->def;
      if (e && e->code == LANE_BFE && e->bits == 8 && e->bit == d->bit + 8 && e->in[0] == d->in[0]) {
        lane_unpack(b, d->in[0], &low, &high);
        pair[0] = NULL;
        if (d->bit == 16) low = high;
      }
    }
    if (pair[0]) lane_unpack(b, lower_pack_word(l, 1, LT_B32, pair, 2), &low, &high);
    LaneOp cvt = {.code = LANE_CVT1X2, .kind = pair_kind(t), .to = LK_F16X2};
    lane_unpack(b, lane_op(b, cvt, 1, &low), &half[0], &half[1]);
    for (int i = 0; i < 2 && r + i < n; i++)
      out[r + i] = to_f16 ? half[i] : lane_cvt(b, LK_F16, LK_F32, ROUND_DEFAULT, half[i]);
  }
}

static void to_f8(Lower *l, Dtype t, bool towards_zero, int n, LaneValue *const *in, LaneValue **out) {
  LaneBuilder *b = &l->b;
  if (towards_zero || !in_hardware(l, t)) {
    for (int r = 0; r < n; r++) out[r] = encode_f8(l, t, towards_zero, in[r]);
    return;
  }
  for (int r = 0; r < n; r += 2) {
    LaneOp cvt = {.code = LANE_CVT2, .kind = LK_F32, .to = pair_kind(t), .rounding = ROUND_RN, .sat = true};
    LaneValue *pair = lane_op(b, cvt, 2, (LaneValue *[]){in[r], r + 1 < n ? in[r + 1] : lane_f32(b, 0)});
    LaneValue *whole = lane_pack(b, pair, lane_const(b, LT_B16, 0));
    for (int i = 0; i < 2 && r + i < n; i++) out[r + i] = lane_bfe(b, LK_U32, whole, 8 * i, 8);
  }
}

/* ---- numbers through f32 ----------------------------------------------------------------------------------------- */

/* Whether x is an integer of so few bits that f32 holds it. */
static bool is_small(const LaneValue *x) {
  const LaneOp *op = x->def;
  uint64_t bits;
  if (!op) return false;
  if (op->code == LANE_AND && op->kind == LK_B32)
    return (lane_is_const(op->in[0], &bits) || lane_is_const(op->in[1], &bits)) && bits < 1u << 24;
  return op->code == LANE_BFE && op->bits <= 24;
}

/* An f32 that lies where x lies, rounded to odd; k: F64 S32 U32 S64 U64. */
static LaneValue *to_odd_f32(Lower *l, LaneKind k, LaneValue *x) {
  LaneBuilder *b = &l->b;
  if (k != LK_F64 && is_small(x)) return lane_cvt(b, k, LK_F32, ROUND_DEFAULT, x);
  LaneValue *f = lane_cvt(b, k, LK_F32, ROUND_RZ, x), *lost;
  if (k == LK_F64) lost = lane_setp(b, CMP_NE, LK_F64, lane_cvt(b, LK_F32, LK_F64, ROUND_DEFAULT, f), x);
  else lost = lane_setp(b, CMP_NE, k, lane_cvt(b, LK_F32, k, ROUND_RZ, f), x);
  return lane_2(b, LANE_OR, LK_B32, f, lane_select(b, lost, word(l, 1), word(l, 0)));
}

static LaneKind int_kind(Dtype t) {
  bool wide = dtype_bits(t) == 64;
  return dtype_is_signed(t) ? wide ? LK_S64 : LK_S32 : wide ? LK_U64 : LK_U32;
}

static LaneValue *from_bool(Lower *l, Dtype to, LaneValue *x) {
  uint64_t one = 0;
  if (dtype_is_float(to)) dtype_store_float(to, &one, 1);
  else one = 1;
  LaneType type = dtype_bits(to) == 64 ? LT_B64 : to == DT_F16 || to == DT_BF16 ? LT_B16 : LT_B32;
  return lane_select(&l->b, x, lane_const(&l->b, type, one), lane_const(&l->b, type, 0));
}

static LaneKind small_kind(Dtype t) {
  switch (t) {
    case DT_I8: return LK_S8;
    case DT_U8: return LK_U8;
    case DT_I16: return LK_S16;
    case DT_U16: return LK_U16;
    default: return int_kind(t);
  }
}

static LaneValue *int_to_int(Lower *l, Dtype from, Dtype to, LaneValue *x) {
  LaneBuilder *b = &l->b;
  bool wide = dtype_bits(from) == 64;
  if (to == DT_I1) return lane_setp(b, CMP_NE, int_kind(from), x, wide ? lane_i64(b, 0) : lane_i32(b, 0));
  if (dtype_bits(to) == 64)
    return wide ? x : lane_cvt(b, int_kind(from), dtype_is_signed(from) ? LK_S64 : LK_U64, ROUND_DEFAULT, x);
  if (wide) x = lane_cvt(b, LK_U64, LK_U32, ROUND_DEFAULT, x);
  return lane_extend(b, small_kind(to), x);
}

/* Out of range gives the nearest end, as cvt does; NaN gives 0, which cvt says only for f32 to 32 bits and fewer. */
static LaneValue *float_to_int(Lower *l, LaneKind k, Dtype to, LaneValue *x) {
  LaneBuilder *b = &l->b;
  if (k == LK_F32 && dtype_bits(to) < 32) {
    LaneOp cvt = {.code = LANE_CVT, .kind = k, .to = small_kind(to), .rounding = ROUND_RZ, .sat = 1};
    return lane_op(b, cvt, 1, &x);
  }
  bool wide = dtype_bits(to) == 64;
  LaneKind middle = int_kind(to);
  LaneValue *v = lane_cvt(b, k, middle, ROUND_RZ, x);
  if (wide || k == LK_F64) v = lane_select(b, lane_setp(b, CMP_NE, k, x, x), wide ? lane_i64(b, 0) : lane_i32(b, 0), v);
  if (dtype_bits(to) >= 32) return v;
  int bits = dtype_bits(to);
  if (dtype_is_signed(to)) {
    v = lane_2(b, LANE_MAX, LK_S32, v, lane_i32(b, -(1 << (bits - 1))));
    return lane_2(b, LANE_MIN, LK_S32, v, lane_i32(b, (1 << (bits - 1)) - 1));
  }
  return lane_2(b, LANE_MIN, LK_U32, v, lane_i32(b, (1 << bits) - 1));
}

/* Every value of `from` as an f32: exact, or rounded to odd where `to` will round again, or rounded to nearest when
 * `to` is f32. */
static void to_f32(Lower *l, Dtype from, Dtype to, int n, LaneValue *const *in, LaneValue **out) {
  LaneBuilder *b = &l->b;
  if (dtype_is_fp8(from)) {
    from_f8(l, from, n, in, out, false);
    return;
  }
  for (int r = 0; r < n; r++) {
    switch (from) {
      case DT_F32: out[r] = in[r]; break;
      case DT_F16: out[r] = lane_cvt(b, LK_F16, LK_F32, ROUND_DEFAULT, in[r]); break;
      case DT_BF16: out[r] = lane_pack(b, lane_const(b, LT_B16, 0), in[r]); break;
      case DT_I1: out[r] = from_bool(l, DT_F32, in[r]); break;
      case DT_F64:
        out[r] = to == DT_F32 ? lane_cvt(b, LK_F64, LK_F32, ROUND_DEFAULT, in[r]) : to_odd_f32(l, LK_F64, in[r]);
        break;
      default:
        if (to == DT_F32 || dtype_bits(from) < 32) out[r] = lane_cvt(b, int_kind(from), LK_F32, ROUND_DEFAULT, in[r]);
        else out[r] = to_odd_f32(l, int_kind(from), in[r]);
    }
  }
}

/* f32 to f16 or bf16, two at a time. */
static void to_halves(Lower *l, Dtype to, bool towards_zero, int n, LaneValue *const *in, LaneValue **out) {
  LaneBuilder *b = &l->b;
  LaneRounding rounding = towards_zero ? ROUND_RZ : ROUND_RN;
  int r = 0;
  for (; r + 1 < n; r += 2) {
    LaneOp cvt = {
        .code = LANE_CVT2, .kind = LK_F32, .to = to == DT_F16 ? LK_F16X2 : LK_BF16X2, .rounding = (uint8_t)rounding};
    lane_unpack(b, lane_op(b, cvt, 2, (LaneValue *[]){in[r], in[r + 1]}), &out[r], &out[r + 1]);
  }
  for (; r < n; r++) out[r] = lane_cvt(b, LK_F32, to == DT_F16 ? LK_F16 : LK_BF16, rounding, in[r]);
}

static void float_to_wide(Lower *l, Dtype from, int n, LaneValue *const *in, LaneValue **out) { /* to f64 */
  LaneBuilder *b = &l->b;
  if (dtype_is_float(from) || from == DT_I1) {
    to_f32(l, from, DT_F32, n, in, out);
    for (int r = 0; r < n; r++) out[r] = lane_cvt(b, LK_F32, LK_F64, ROUND_DEFAULT, out[r]);
  } else {
    for (int r = 0; r < n; r++) out[r] = lane_cvt(b, int_kind(from), LK_F64, ROUND_DEFAULT, in[r]);
  }
}

static void float_to_bool(Lower *l, Dtype from, int n, LaneValue *const *in, LaneValue **out) {
  LaneBuilder *b = &l->b;
  LaneValue **x = lower_array(l, n);
  if (from == DT_F64) memcpy(x, in, sizeof *x * (size_t)n);
  else to_f32(l, from, DT_F32, n, in, x);
  for (int r = 0; r < n; r++)
    out[r] = from == DT_F64 ? lane_setp(b, CMP_NE, LK_F64, x[r], lane_f64(b, 0))
                            : lane_setp(b, CMP_NE, LK_F32, x[r], lane_f32(b, 0));
}

static void towards_int(Lower *l, Dtype from, Dtype to, int n, LaneValue *const *in, LaneValue **out) {
  if (dtype_is_int(from)) {
    for (int r = 0; r < n; r++) out[r] = int_to_int(l, from, to, in[r]);
  } else if (to == DT_I1) {
    float_to_bool(l, from, n, in, out);
  } else if (from == DT_F64) {
    for (int r = 0; r < n; r++) out[r] = float_to_int(l, LK_F64, to, in[r]);
  } else {
    to_f32(l, from, DT_F32, n, in, out);
    for (int r = 0; r < n; r++) out[r] = float_to_int(l, LK_F32, to, out[r]);
  }
}

void lower_cast(Lower *l, Dtype from, Dtype to, int rounding, int n, LaneValue *const *in, LaneValue **out) {
  LaneBuilder *b = &l->b;
  bool towards_zero = rounding == 1;
  if (from == to) {
    memmove(out, in, sizeof *out * (size_t)n);
  } else if (from == DT_I1) {
    for (int r = 0; r < n; r++) out[r] = from_bool(l, to, in[r]);
  } else if (dtype_is_int(to)) {
    towards_int(l, from, to, n, in, out);
  } else if (to == DT_F64) {
    float_to_wide(l, from, n, in, out);
  } else if (dtype_is_fp8(from) && to == DT_F16) {
    from_f8(l, from, n, in, out, true);
  } else if (from == DT_F64 && towards_zero) {
    LaneValue **x = lower_array(l, n);
    for (int r = 0; r < n; r++) x[r] = lane_cvt(b, LK_F64, LK_F32, ROUND_RZ, in[r]);
    lower_cast(l, DT_F32, to, rounding, n, x, out);
  } else if (to == DT_F32) {
    to_f32(l, from, to, n, in, out);
  } else {
    LaneValue **x = lower_array(l, n);
    to_f32(l, from, to, n, in, x);
    if (dtype_is_fp8(to)) to_f8(l, to, towards_zero, n, x, out);
    else to_halves(l, to, towards_zero, n, x, out);
  }
}

/* ---- the operations ---------------------------------------------------------------------------------------------- */

/* The same bits in another type's register. */
static LaneValue *bitcast(Lower *l, const Type *from, const Type *to, LaneValue *x) {
  LaneBuilder *b = &l->b;
  LaneType a = lane_type_of(from), c = lane_type_of(to);
  LaneValue *low, *high;
  if (a == LT_B16 && c == LT_B32) return lane_extend(b, lane_kind_of(to), lane_pack(b, x, lane_const(b, LT_B16, 0)));
  if (a == LT_B32 && c == LT_B16) {
    lane_unpack(b, x, &low, &high);
    return low;
  }
  return c == LT_B32 ? lane_extend(b, lane_kind_of(to), x) : x;
}

void lower_convert(Lower *l, Op *op) {
  const Value *v = op->out[0];
  int n = lower_count(v);
  LaneValue **in = lower_get(l, op->in[0]), **out = lower_array(l, n);
  if (op->code == OP_BITCAST)
    for (int r = 0; r < n; r++) out[r] = bitcast(l, op->in[0]->type, v->type, in[r]);
  else lower_cast(l, op->in[0]->type->dtype, v->type->dtype, (int)op->rounding, n, in, out);
  lower_set(l, v, out);
}
