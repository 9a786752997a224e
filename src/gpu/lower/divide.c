/* lower_divide: division and remainder.
 *
 * Integers never trap: x / 0 is x and x % 0 is 0, which is what a divisor of 1 gives, so a divisor that may be 0 is
 * first made 1. A remainder is x - x / y * y; the quotient is found again where the kernel has computed it too (pid //
 * n, pid % n).
 *
 * Constants: powers of two are shifts. For others the quotient is a high product (Warren, "Hacker's Delight", 2nd ed.,
 * chapter 10): with 2^p > nc * (d - 2^p mod d) and M = (2^p + d - 2^p mod d) / d,
 *
 *     x / d = (x * M) >> p, plus 1 when x is negative         |x| <= 2^(N-1)
 *
 * and M < 2^N. Where x is known not to be negative, the product is unsigned and nothing is added.
 *
 * 64 bits of which 32 say it all (program ids, arguments of the kernel that are int32) are divided in 32: a division of
 * 64 bits is a function of some 70 instructions, and where one is called ptxas lets no products of warpgroups overlap.
 *
 * f32's `/` is div.full (2 ulp), as in Triton; rounding=1 is IEEE's.
 */
#include "gpu/lane/known_bits.h"
#include "gpu/lower/lower.h"

/* ---- floats ------------------------------------------------------------------------------------------------------ */

LaneValue *lower_fdiv(Lower *l, LaneKind k, bool correct, LaneValue *x, LaneValue *y) {
  LaneBuilder *b = &l->b;
  uint64_t bits;
  if (k == LK_F32 && lane_is_const(y, &bits)) { /* by a power of two: exact as a product */
    uint32_t exponent = bits >> 23 & 0xff;
    if (!(bits & 0x7fffff) && exponent > 1 && exponent < 253)
      return lane_2(b, LANE_MUL, LK_F32, x,
                    lane_const(b, LT_B32, (bits & 0x80000000) | (uint64_t)(254 - exponent) << 23));
  }
  LaneOp proto = {.code = LANE_DIV, .kind = k, .approx = k == LK_F32 && !correct};
  return lane_op(b, proto, 2, (LaneValue *[]){x, y});
}

/* 2^24 or 2^-24 brings y to where its reciprocal is no subnormal number, and x on with it. */
LaneValue *lower_fdiv_shared(Lower *l, LaneValue *x, LaneValue *y) {
  LaneBuilder *b = &l->b;
  LaneValue *size = lane_1(b, LANE_ABS, LK_F32, y);
  LaneValue *scale =
      lane_select(b, lane_setp(b, CMP_LT, LK_F32, size, lane_f32(b, 0x1p-126f)), lane_f32(b, 0x1p24f), lane_f32(b, 1));
  scale = lane_select(b, lane_setp(b, CMP_GT, LK_F32, size, lane_f32(b, 0x1p126f)), lane_f32(b, 0x1p-24f), scale);
  LaneOp rcp = {.code = LANE_RCP, .kind = LK_F32, .approx = 1, .ftz = 1};
  LaneValue *inverse = lane_op(b, rcp, 1, (LaneValue *[]){lane_2(b, LANE_MUL, LK_F32, y, scale)});
  return lane_2(b, LANE_MUL, LK_F32, lane_2(b, LANE_MUL, LK_F32, x, scale), inverse);
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */

static bool known_non_negative(const Value *v) { return v->axis && v->axis->non_negative >= SIGN_KNOWN; }

static LaneValue *constant_of(Lower *l, LaneKind k, uint64_t v) {
  bool wide = lane_kind_info[k].type == LT_B64;
  return lane_const(&l->b, wide ? LT_B64 : LT_B32, wide ? v : v & 0xffffffff);
}

static LaneKind with_sign(LaneKind k, bool sign) {
  bool wide = lane_kind_info[k].type == LT_B64;
  return wide ? sign ? LK_S64 : LK_U64 : sign ? LK_S32 : LK_U32;
}

/* x / 2^n towards zero: a negative x is moved up by 2^n - 1 first. */
static LaneValue *by_power(Lower *l, LaneKind k, bool sign, LaneValue *x, int n) {
  LaneBuilder *b = &l->b;
  int bits = lane_kind_info[k].bits;
  if (n == 0) return x;
  LaneKind u = with_sign(k, false), s = with_sign(k, true);
  if (!sign) return lane_2(b, LANE_SHR, u, x, lane_i32(b, n));
  LaneValue *ones = n == 1 ? x : lane_2(b, LANE_SHR, s, x, lane_i32(b, bits - 1));
  LaneValue *up = lane_2(b, LANE_SHR, u, ones, lane_i32(b, bits - n));
  return lane_2(b, LANE_SHR, s, lane_2(b, LANE_ADD, s, x, up), lane_i32(b, n));
}

typedef struct Magic {
  uint64_t factor;
  int shift;
} Magic; /* shift: beyond the high half */

static Magic magic_of(int bits, uint64_t d) {
  unsigned __int128 half = (unsigned __int128)1 << (bits - 1), nc = half - 1 - half % d;
  int p = bits - 1;
  unsigned __int128 power = half;
  while (power <= nc * (d - power % d)) power <<= 1, p++;
  if (p < bits) power <<= bits - p, p = bits;
  return (Magic){(uint64_t)((power + d - power % d) / d), p - bits};
}

static LaneValue *by_constant(Lower *l, LaneKind k, bool sign, LaneValue *x, uint64_t d) {
  LaneBuilder *b = &l->b;
  int bits = lane_kind_info[k].bits;
  Magic m = magic_of(bits, d);
  LaneKind u = with_sign(k, false), s = with_sign(k, true);
  if (!sign) {
    LaneValue *high = lane_2(b, LANE_MULHI, u, x, constant_of(l, k, m.factor));
    return m.shift ? lane_2(b, LANE_SHR, u, high, lane_i32(b, m.shift)) : high;
  }
  LaneValue *high = lane_2(b, LANE_MULHI, s, x, constant_of(l, k, m.factor));
  if (m.factor >> (bits - 1)) high = lane_2(b, LANE_ADD, s, high, x); /* the factor was read as factor - 2^bits */
  if (m.shift) high = lane_2(b, LANE_SHR, s, high, lane_i32(b, m.shift));
  return lane_2(b, LANE_ADD, s, high, lane_2(b, LANE_SHR, u, x, lane_i32(b, bits - 1)));
}

/* y, or 1 where y is 0. */
static LaneValue *safe_divisor(Lower *l, LaneKind k, LaneValue *y) {
  LaneBuilder *b = &l->b;
  uint64_t d;
  LaneValue *one = constant_of(l, k, 1);
  if (lane_is_const(y, &d)) return d ? y : one;
  if (k == LK_U32 || k == LK_U64) return lane_2(b, LANE_MAX, k, y, one);
  return lane_select(b, lane_setp(b, CMP_EQ, k, y, constant_of(l, k, 0)), one, y);
}

/* k is S32, U32, S64 or U64; narrow types lie in 32 bits. y is not 0. */
static LaneValue *quotient(Lower *l, const Op *op, LaneKind k, LaneValue *x, LaneValue *y) {
  LaneBuilder *b = &l->b;
  int bits = lane_kind_info[k].bits, width = dtype_bits(op->out[0]->type->dtype);
  bool is_signed = dtype_is_signed(op->out[0]->type->dtype);
  bool positive = is_signed ? known_non_negative(op->in[0]) : width < bits; /* x lies in [0, 2^(bits-1)) */
  bool sign = is_signed && !positive;
  uint64_t d;
  if (!lane_is_const(y, &d))
    return lane_2(b, LANE_DIV, positive && known_non_negative(op->in[1]) ? with_sign(k, false) : k, x, y);
  int64_t value = bits == 32 ? (int32_t)d : (int64_t)d;
  bool negative = is_signed && value < 0;
  if (negative) d = bits == 32 ? (uint32_t)-d : -d;
  LaneValue *q = NULL;
  if (!(d & (d - 1))) q = by_power(l, k, sign, x, __builtin_ctzll(d));
  else if (is_signed || positive) q = by_constant(l, k, sign, x, d);
  if (!q) return lane_2(b, LANE_DIV, k, x, y);
  return negative ? lane_2(b, LANE_SUB, k, constant_of(l, k, 0), q) : q;
}

/* The 32 bits that v, of 64, is an extension of, by its sign where that is not known to be clear; NULL: it may be more.
 */
static LaneValue *half_of(Lower *l, LaneValue *v, bool *positive) {
  const uint64_t high = 0xffffffff80000000;
  bool is_cvt = v->def && v->def->code == LANE_CVT && v->def->kind == LK_S32 && v->def->to == LK_S64;
  *positive = (lane_zero_bits(v) & high) == high;
  if (is_cvt) return v->def->in[0];
  return *positive ? lane_cvt(&l->b, LK_S64, LK_S32, ROUND_DEFAULT, v) : NULL;
}

/* Makes 32 bits of x and y where the remainder is the same in them, and the quotient but for -2^31 / -1, which
 * *overflows says may come: then y, where it is -1, is 1. */
static bool take_halves(Lower *l, const Op *op, LaneKind k, LaneValue **x, LaneValue **y, LaneValue **overflows) {
  LaneBuilder *b = &l->b;
  bool positive[2];
  if (lane_kind_info[k].bits < 64) return false;
  LaneValue *half[] = {half_of(l, *x, &positive[0]), half_of(l, *y, &positive[1])};
  bool is_signed = dtype_is_signed(op->out[0]->type->dtype);
  if (!half[0] || !half[1]) return false;
  if (!is_signed && (!positive[0] || !positive[1])) return false;
  *x = half[0], *y = half[1];
  *overflows = NULL;
  if (positive[0] || positive[1]) return true;
  *overflows = lane_setp(b, CMP_EQ, LK_S32, *y, constant_of(l, LK_S32, UINT64_MAX));
  *y = lane_select(b, *overflows, constant_of(l, LK_S32, 1), *y);
  return true;
}

static LaneValue *extended(Lower *l, LaneValue *v) { return lane_cvt(&l->b, LK_S32, LK_S64, ROUND_DEFAULT, v); }

LaneValue *lower_divide(Lower *l, const Op *op, LaneKind k, LaneValue *x, LaneValue *y) {
  LaneValue *overflows;
  if (take_halves(l, op, k, &x, &y, &overflows)) {
    LaneValue *q = extended(l, quotient(l, op, LK_S32, x, safe_divisor(l, LK_S32, y)));
    if (!overflows) return q;
    LaneValue *minus = lane_2(&l->b, LANE_SUB, LK_S64, constant_of(l, LK_S64, 0), extended(l, x));
    return lane_select(&l->b, overflows, minus, q);
  }
  LaneValue *q = quotient(l, op, k, x, safe_divisor(l, k, y));
  return lane_extend(&l->b, lane_kind_of(op->out[0]->type), q); /* -128 / -1 */
}

LaneValue *lower_remainder(Lower *l, const Op *op, LaneKind k, LaneValue *x, LaneValue *y) {
  LaneBuilder *b = &l->b;
  LaneValue *rest, *overflows;
  uint64_t d;
  bool positive = known_non_negative(op->in[0]) || !dtype_is_signed(op->out[0]->type->dtype);
  bool halves = take_halves(l, op, k, &x, &y, &overflows);
  if (halves) k = LK_S32;
  y = safe_divisor(l, k, y);
  if (positive && lane_is_const(y, &d) &&
      !(d & (d - 1))) /* of negative divisors only the least is a power of two: x % it is x */
    rest = lane_2(b, LANE_AND, lane_bits_kind(lane_kind_info[k].type), x, constant_of(l, k, d - 1));
  else rest = lane_2(b, LANE_SUB, k, x, lane_2(b, LANE_MUL, k, quotient(l, op, k, x, y), y));
  return halves ? extended(l, rest) : rest;
}
