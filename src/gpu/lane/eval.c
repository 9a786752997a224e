/* What one pure operation gives: the lane IR's arithmetic on bits, after the PTX ISA (chapter "Instruction Set").
 *
 * Folding asks it for constants, the simulator for every thread. A float operation computes the exact result and rounds
 * it once, to the type and in the direction it asks for: f32 and f64 by the host's own arithmetic (to nearest) or
 * base/mathfn.h's integers (directed). The 16-bit types go by way of a double that holds the exact result or, where the
 * sum of two numbers far apart does not fit into it, that result rounded to odd, from which a second rounding gives the
 * same as a single one.
 *
 * Approximations (ex2, lg2, sin, cos, tanh, rsqrt, and .approx) are computed in double and rounded: a GPU's differ in
 * the last bits. A NaN that arithmetic gives is the canonical one of a GPU: 7fffffff, 7fff; of f64, whose payloads the
 * ISA leaves open, 7ff8000000000000.
 */
#include "gpu/lane/table.h"

#include "base/mathfn.h"

/* ---- bits -------------------------------------------------------------------------------------------------------- */

static float f32_of(uint64_t bits) { return nd_from_bitsf((uint32_t)bits); }
static uint64_t bits_f32(float v) { return isnan(v) ? 0x7fffffff : nd_bitsf(v); }
static double f64_of(uint64_t bits) { return nd_from_bits(bits); }
static uint64_t bits_f64(double v) { return isnan(v) ? 0x7ff8ull << 48 : nd_bits(v); }
static uint64_t bits_f16(double v) { return isnan(v) ? 0x7fff : f64_to_f16(v); }
static uint64_t bits_bf16(double v) {
  uint16_t bits;
  dtype_store_float(DT_BF16, &bits, v);
  return isnan(v) ? 0x7fff : bits;
}

static int64_t extend(uint64_t bits, int width, bool is_signed) {
  if (width == 64) return (int64_t)bits;
  uint64_t shifted = bits << (64 - width);
  return is_signed ? (int64_t)shifted >> (64 - width) : (int64_t)(shifted >> (64 - width));
}

static int64_t int_of(LaneKind k, uint64_t bits) {
  if (k == LK_PRED) return bits & 1;
  return extend(bits, lane_kind_info[k].bits, lane_kind_is_signed(k));
}

/* An integer as a register of kind k holds it. */
static uint64_t bits_int(LaneKind k, int64_t v) {
  if (k == LK_PRED) return v & 1;
  return (uint64_t)extend((uint64_t)v, lane_kind_info[k].bits, lane_kind_is_signed(k)) &
         lane_type_mask(lane_kind_info[k].type);
}

static float flush_f32(float v) { return fabsf(v) < 0x1p-126f ? copysignf(0, v) : v; }
static uint64_t flush_bits(LaneKind k, uint64_t bits) {
  switch (k) {
    case LK_F32: return bits & 0x7f800000 ? bits : bits & 0x80000000;
    case LK_F16: return bits & 0x7c00 ? bits : bits & 0x8000;
    case LK_BF16: return bits & 0x7f80 ? bits : bits & 0x8000;
    case LK_F64: return bits & 0x7ffull << 52 ? bits : bits & 1ull << 63;
    default: return bits;
  }
}

/* A float of any scalar kind as a double, which holds it exactly. */
static double float_of(LaneKind k, uint64_t bits) {
  switch (k) {
    case LK_F16: return f16_to_f32((uint16_t)bits);
    case LK_BF16: return bf16_to_f32((uint16_t)bits);
    case LK_F32: return f32_of(bits);
    default: return f64_of(bits);
  }
}

/* ---- rounding ---------------------------------------------------------------------------------------------------- */

static int direction(int rounding) {
  return rounding == ROUND_RZ ? ND_RZ : rounding == ROUND_RM ? ND_RD : rounding == ROUND_RP ? ND_RU : ND_RN;
}

static bool is_nearest(int rounding) { return rounding == ROUND_DEFAULT || rounding == ROUND_RN; }

/* x + y with what is lost folded into the last bit: rounds to odd. */
static double add_odd(double x, double y) {
  double s = x + y, t = s - x, lost = (x - (s - t)) + (y - t);
  if (!isfinite(s) || lost == 0) return s;
  uint64_t bits = nd_bits(s);
  if (bits & 1) return s;
  return nd_from_bits((s > 0) == (lost > 0) ? bits + 1 : bits - 1);
}

/* A double, exact or rounded to odd, as the nearest number of a 16-bit kind, or the next in a direction. */
static uint64_t narrow(LaneKind k, double v, int rounding) {
  uint64_t nearest = k == LK_F16 ? bits_f16(v) : bits_bf16(v);
  if (is_nearest(rounding) || isnan(v)) return nearest;
  if (isinf(v)) return nearest;
  double got = float_of(k, nearest);
  uint64_t sign = nearest & 0x8000, magnitude = nearest & 0x7fff;
  if (rounding == ROUND_RNA) { /* differs at ties alone: a half more of the last place must not be exactly there */
    double up = float_of(k, magnitude + 1), away = fabs(v) - fabs(got);
    return isfinite(got) && away > 0 && fabs(v) - fabs(got) == up - fabs(v) ? sign | (magnitude + 1) : nearest;
  }
  bool negative = signbit(v) != 0, outwards = rounding == ROUND_RM   ? negative
                                              : rounding == ROUND_RP ? !negative
                                                                     : false;
  if (outwards && fabs(got) < fabs(v)) return sign | (magnitude + 1);
  if (!outwards && fabs(got) > fabs(v)) return sign | (magnitude - 1);
  return nearest;
}

static uint64_t from_double(LaneKind k, double v, int rounding) {
  switch (k) {
    case LK_F64: return bits_f64(v);
    case LK_F32: {
      if (isnan(v) || is_nearest(rounding) || !isfinite(v) || v == 0) return bits_f32((float)v);
      if (rounding == ROUND_RNA) {
        float near = (float)v, next = nextafterf(near, v > near ? INFINITY : -INFINITY);
        bool tie = (double)near != v && fabs(v - near) == fabs(next - v) && fabsf(next) > fabsf(near);
        return bits_f32(tie ? next : near);
      }
      int e;
      uint64_t m = nd_unpack(v, &e);
      return bits_f32((float)nd_pack(signbit(v) != 0, m, e, 0, direction(rounding), 24));
    }
    default: return narrow(k, v, rounding);
  }
}

static uint64_t from_int(LaneKind k, int64_t v, bool is_signed, int rounding) {
  bool negative = is_signed && v < 0;
  uint64_t m = negative ? 0 - (uint64_t)v : (uint64_t)v;
  int mode = direction(rounding);
  switch (k) {
    case LK_F64: return bits_f64(nd_from_int(negative, m, mode, 53));
    case LK_F32: return bits_f32((float)nd_from_int(negative, m, mode, 24));
    default: {
      if (m >> 53) m = (m & ~2047ull) | (m & 2047 ? 2048 : 0); /* one sticky bit says the same to a narrow format */
      double wide = (double)m;
      return narrow(k, negative ? -wide : wide, rounding);
    }
  }
}

static double whole(double v, int rounding) {
  switch (rounding) {
    case ROUND_RZ: return trunc(v);
    case ROUND_RM: return floor(v);
    case ROUND_RP: return ceil(v);
    case ROUND_RNA: return round(v);
    default: return rint(v);
  }
}

/* PTX's cvt: out of range gives the nearest end; NaN 0, or the top bit alone from f64 or to 64 bits. */
static uint64_t to_int(LaneKind from, LaneKind to, double v, int rounding) {
  int bits = lane_kind_info[to].bits;
  bool is_signed = lane_kind_is_signed(to);
  if (isnan(v)) return from == LK_F64 || bits == 64 ? bits_int(to, (int64_t)(1ull << (bits - 1))) : 0;
  v = whole(v, rounding == ROUND_DEFAULT ? ROUND_RZ : rounding);
  double end = ldexp(1, is_signed ? bits - 1 : bits); /* one past the largest */
  if (v >= end) return bits_int(to, is_signed ? (int64_t)((1ull << (bits - 1)) - 1) : -1);
  if (is_signed && v < -end) return bits_int(to, (int64_t)(0 - (1ull << (bits - 1))));
  if (!is_signed && v <= 0) return 0;
  return bits_int(to, is_signed ? (int64_t)v : (int64_t)(uint64_t)v);
}

/* ---- floats ------------------------------------------------------------------------------------------------------ */

static double minimum(double x, double y, bool nan, bool max) {
  if (isnan(x) || isnan(y)) return nan || (isnan(x) && isnan(y)) ? NAN : isnan(x) ? y : x;
  if (x == y) return signbit(x) != 0 ? (max ? y : x) : (max ? x : y);
  return (x < y) != max ? x : y;
}

static uint64_t eval_f32(const LaneOp *op, const uint64_t *in) {
  float x = f32_of(in[0]), y = op->in_count > 1 ? f32_of(in[1]) : 0, z = op->in_count > 2 ? f32_of(in[2]) : 0, v;
  if (op->ftz) x = flush_f32(x), y = flush_f32(y), z = flush_f32(z);
  int mode = direction(op->rounding);
  bool near = mode == ND_RN;
  switch (op->code) {
    case LANE_ADD: v = near ? x + y : (float)nd_add_dir(x, y, mode, 24); break;
    case LANE_SUB: v = near ? x - y : (float)nd_add_dir(x, -y, mode, 24); break;
    case LANE_MUL: v = near ? x * y : (float)nd_mul_dir(x, y, mode, 24); break;
    case LANE_FMA: v = near ? fmaf(x, y, z) : (float)nd_fma_dir(x, y, z, mode, 24); break;
    case LANE_DIV: v = near ? x / y : (float)nd_div_dir(x, y, mode, 24); break;
    case LANE_SQRT: v = near ? sqrtf(x) : (float)nd_sqrt_dir(x, mode, 24); break;
    case LANE_RCP: v = near ? 1 / x : (float)nd_div_dir(1, x, mode, 24); break;
    case LANE_MIN: v = (float)minimum(x, y, op->nan, false); break;
    case LANE_MAX: v = (float)minimum(x, y, op->nan, true); break;
    case LANE_NEG: return nd_bitsf(x) ^ 0x80000000u;
    case LANE_ABS: return nd_bitsf(x) & 0x7fffffffu;
    case LANE_COPYSIGN: return (in[0] & 0x80000000u) | (in[1] & 0x7fffffffu);
    case LANE_RSQRT: v = (float)(1 / sqrt((double)x)); break;
    case LANE_EX2: v = (float)exp2(x); break;
    case LANE_LG2: v = (float)log2(x); break;
    case LANE_SIN: v = (float)sin(x); break;
    case LANE_COS: v = (float)cos(x); break;
    case LANE_TANH: v = (float)tanh(x); break;
    default: v = (float)whole(x, op->rounding); break; /* round */
  }
  return bits_f32(op->ftz ? flush_f32(v) : v);
}

static uint64_t eval_f64(const LaneOp *op, const uint64_t *in) {
  double x = f64_of(in[0]), y = op->in_count > 1 ? f64_of(in[1]) : 0, z = op->in_count > 2 ? f64_of(in[2]) : 0;
  int mode = direction(op->rounding);
  bool near = mode == ND_RN;
  switch (op->code) {
    case LANE_ADD: return bits_f64(near ? x + y : nd_add_dir(x, y, mode, 53));
    case LANE_SUB: return bits_f64(near ? x - y : nd_add_dir(x, -y, mode, 53));
    case LANE_MUL: return bits_f64(near ? x * y : nd_mul_dir(x, y, mode, 53));
    case LANE_FMA: return bits_f64(near ? fma(x, y, z) : nd_fma_dir(x, y, z, mode, 53));
    case LANE_DIV: return bits_f64(near ? x / y : nd_div_dir(x, y, mode, 53));
    case LANE_SQRT: return bits_f64(near ? sqrt(x) : nd_sqrt_dir(x, mode, 53));
    case LANE_RCP: return bits_f64(op->approx ? nd_rcp64h(x) : near ? 1 / x : nd_div_dir(1, x, mode, 53));
    case LANE_MIN: return bits_f64(minimum(x, y, op->nan, false));
    case LANE_MAX: return bits_f64(minimum(x, y, op->nan, true));
    case LANE_NEG: return in[0] ^ 1ull << 63;
    case LANE_ABS: return in[0] & ~(1ull << 63);
    case LANE_COPYSIGN: return (in[0] & 1ull << 63) | (in[1] & ~(1ull << 63));
    case LANE_RSQRT: return bits_f64(1 / sqrt(f64_of(flush_bits(LK_F64, in[0])))) & ~0xffffffffull; /* its high word */
    case LANE_EX2: return bits_f64(exp2(x));
    case LANE_LG2: return bits_f64(log2(x));
    case LANE_SIN: return bits_f64(sin(x));
    case LANE_COS: return bits_f64(cos(x));
    case LANE_TANH: return bits_f64(tanh(x));
    default: return bits_f64(whole(x, op->rounding));
  }
}

static uint64_t eval_narrow(const LaneOp *op, LaneKind k, const uint64_t *in) {
  uint64_t bits[3] = {in[0], op->in_count > 1 ? in[1] : 0, op->in_count > 2 ? in[2] : 0};
  if (op->ftz)
    for (int i = 0; i < 3; i++) bits[i] = flush_bits(k, bits[i]);
  double x = float_of(k, bits[0]), y = float_of(k, bits[1]), z = float_of(k, bits[2]), v;
  switch (op->code) {
    case LANE_ADD: v = add_odd(x, y); break;
    case LANE_SUB: v = add_odd(x, -y); break;
    case LANE_MUL: v = x * y; break; /* 22 bits at most */
    case LANE_FMA: v = add_odd(x * y, z); break;
    case LANE_DIV: v = x / y; break; /* 53 bits suffice: more than twice 11, plus 2 */
    case LANE_SQRT: v = sqrt(x); break;
    case LANE_RCP: v = 1 / x; break;
    case LANE_MIN: v = minimum(x, y, op->nan, false); break;
    case LANE_MAX: v = minimum(x, y, op->nan, true); break;
    case LANE_NEG: return bits[0] ^ 0x8000;
    case LANE_ABS: return bits[0] & 0x7fff;
    case LANE_COPYSIGN: return (bits[0] & 0x8000) | (bits[1] & 0x7fff);
    case LANE_RSQRT: v = 1 / sqrt(x); break;
    case LANE_EX2: v = exp2(x); break;
    case LANE_LG2: v = log2(x); break;
    case LANE_SIN: v = sin(x); break;
    case LANE_COS: v = cos(x); break;
    case LANE_TANH: v = tanh(x); break;
    default: v = whole(x, op->rounding); break;
  }
  uint64_t out = narrow(k, v, op->code == LANE_ROUND ? ROUND_RN : op->rounding);
  return op->ftz ? flush_bits(k, out) : out;
}

static uint64_t eval_float(const LaneOp *op, const uint64_t *in) {
  switch (op->kind) {
    case LK_F32: return eval_f32(op, in);
    case LK_F64: return eval_f64(op, in);
    case LK_F16X2:
    case LK_BF16X2: {
      LaneKind half = op->kind == LK_F16X2 ? LK_F16 : LK_BF16;
      uint64_t low[3] = {0}, high[3] = {0};
      for (int i = 0; i < op->in_count && i < 3; i++) low[i] = in[i] & 0xffff, high[i] = in[i] >> 16 & 0xffff;
      return eval_narrow(op, half, low) | eval_narrow(op, half, high) << 16;
    }
    default: return eval_narrow(op, op->kind, in);
  }
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */

static uint64_t divide(LaneKind k, uint64_t a, uint64_t b, bool rem) {
  int64_t x = int_of(k, a), y = int_of(k, b);
  if (y == 0) return bits_int(k, rem ? x : -1); /* PTX leaves it open; this is no useful answer */
  if (!lane_kind_is_signed(k))
    return bits_int(k, (int64_t)(rem ? (uint64_t)x % (uint64_t)y : (uint64_t)x / (uint64_t)y));
  if (y == -1) return bits_int(k, rem ? 0 : (int64_t)(0 - (uint64_t)x));
  return bits_int(k, rem ? x % y : x / y);
}

static uint64_t multiply_high(LaneKind k, uint64_t a, uint64_t b) {
  int bits = lane_kind_info[k].bits;
  if (lane_kind_is_signed(k)) return bits_int(k, (int64_t)((__int128)int_of(k, a) * int_of(k, b) >> bits));
  return bits_int(k, (int64_t)((unsigned __int128)(uint64_t)int_of(k, a) * (uint64_t)int_of(k, b) >> bits));
}

static uint64_t permute(uint64_t a, uint64_t b, uint64_t selector) {
  uint64_t bytes = (a & 0xffffffff) | b << 32, out = 0;
  for (int i = 0; i < 4; i++) {
    uint64_t nibble = selector >> 4 * i & 15, byte = bytes >> 8 * (nibble & 7) & 0xff;
    if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
    out |= byte << 8 * i;
  }
  return out;
}

static uint64_t reverse(uint64_t x, int width) {
  uint64_t out = 0;
  for (int i = 0; i < width; i++) out |= (x >> i & 1) << (width - 1 - i);
  return out;
}

static uint64_t extract(LaneKind k, uint64_t x, int bit, int bits) {
  int width = lane_kind_info[k].bits;
  bool is_signed = lane_kind_is_signed(k);
  if (bits == 0) return 0;
  int64_t v = extend(x, width, is_signed); /* past the top: its sign, or zeros */
  v = bit >= 64 ? (is_signed && v < 0 ? -1 : 0) : is_signed ? v >> bit : (int64_t)((uint64_t)v >> bit);
  return bits_int(k, bits >= 64 ? v : extend((uint64_t)v, bits, is_signed));
}

static uint64_t insert(uint64_t a, uint64_t b, int bit, int bits) {
  if (bit >= 64 || bits == 0) return b;
  uint64_t mask = (bits >= 64 ? ~0ull : (1ull << bits) - 1) << bit;
  return (a << bit & mask) | (b & ~mask);
}

static uint64_t shift(const LaneOp *op, uint64_t x, uint64_t n) {
  int width = lane_kind_info[op->kind].bits;
  if (op->code == LANE_SHL) return n >= (uint64_t)width ? 0 : x << n;
  int64_t v = int_of(op->kind, x);
  if (lane_kind_is_signed(op->kind)) return (uint64_t)(v >> (n > 63 ? 63 : n));
  return n >= (uint64_t)width ? 0 : (uint64_t)v >> n;
}

static uint64_t eval_int(const LaneOp *op, const uint64_t *in) {
  LaneKind k = op->kind;
  int64_t x = int_of(k, in[0]), y = op->in_count > 1 ? int_of(k, in[1]) : 0;
  bool less = lane_kind_is_signed(k) ? x < y : (uint64_t)x < (uint64_t)y;
  switch (op->code) {
    case LANE_ADD: return in[0] + in[1];
    case LANE_SUB: return in[0] - in[1];
    case LANE_MUL: return in[0] * in[1];
    case LANE_FMA: return in[0] * in[1] + in[2];
    case LANE_MULHI: return multiply_high(k, in[0], in[1]);
    case LANE_MULWIDE: return lane_kind_is_signed(k) ? (uint64_t)(x * y) : (uint64_t)x * (uint64_t)y;
    case LANE_DIV: return divide(k, in[0], in[1], false);
    case LANE_REM: return divide(k, in[0], in[1], true);
    case LANE_MIN: return less ? in[0] : in[1];
    case LANE_MAX: return less ? in[1] : in[0];
    case LANE_NEG: return 0 - in[0];
    case LANE_ABS: return x < 0 ? 0 - in[0] : in[0];
    default: return (less ? in[1] - in[0] : in[0] - in[1]) + in[2]; /* sad */
  }
}

/* ---- comparisons and conversions --------------------------------------------------------------------------------- */

static bool compare(const LaneOp *op, const uint64_t *in) {
  LaneKind k = op->kind;
  if (lane_kind_is_float(k)) {
    double x = float_of(k, op->ftz ? flush_bits(k, in[0]) : in[0]),
           y = float_of(k, op->ftz ? flush_bits(k, in[1]) : in[1]);
    if (isnan(x) || isnan(y)) return op->unordered || op->pred == CMP_NE;
    switch (op->pred) {
      case CMP_EQ: return x == y;
      case CMP_NE: return x != y;
      case CMP_LT: return x < y;
      case CMP_LE: return x <= y;
      case CMP_GT: return x > y;
      default: return x >= y;
    }
  }
  int64_t x = int_of(k, in[0]), y = int_of(k, in[1]);
  bool less = lane_kind_is_signed(k) ? x < y : (uint64_t)x < (uint64_t)y;
  switch (op->pred) {
    case CMP_EQ: return x == y;
    case CMP_NE: return x != y;
    case CMP_LT: return less;
    case CMP_LE: return less || x == y;
    case CMP_GT: return !less && x != y;
    default: return !less;
  }
}

static uint64_t convert(const LaneOp *op, uint64_t bits) {
  LaneKind from = op->kind, to = op->to;
  bool float_in = lane_kind_is_float(from), float_out = lane_kind_is_float(to);
  if (to == LK_PRED) return float_in ? float_of(from, bits) != 0 : int_of(from, bits) != 0;
  if (!float_in && float_out) return from_int(to, int_of(from, bits), lane_kind_is_signed(from), op->rounding);
  if (!float_in) {
    int64_t v = int_of(from, bits);
    if (!op->sat) return bits_int(to, v);
    bool to_signed = lane_kind_is_signed(to), negative = lane_kind_is_signed(from) && v < 0;
    int width = lane_kind_info[to].bits - to_signed;
    if (negative) {
      if (!to_signed) return 0;
      int64_t least = width >= 63 ? INT64_MIN : -(1ll << width);
      return bits_int(to, v < least ? least : v);
    }
    uint64_t most = width >= 64 ? UINT64_MAX : (1ull << width) - 1;
    return bits_int(to, (int64_t)((uint64_t)v > most ? most : (uint64_t)v));
  }
  if (op->ftz && from == LK_F32) bits = flush_bits(from, bits);
  double v = float_of(from, bits);
  if (!float_out) return to_int(from, to, v, op->rounding);
  if (op->sat) v = v > 0 ? (v < 1 ? v : 1) : 0; /* NaN too */
  uint64_t out = from_double(to, v, op->rounding);
  return op->ftz && to == LK_F32 ? flush_bits(to, out) : out;
}

static uint64_t to_fp8(LaneKind to, double v) { /* e4m3 and e5m2, to nearest even, saturating */
  if (isnan(v)) return 0x7f;
  return f32_to_f8(to == LK_E4M3X2 ? DT_F8E4NV : DT_F8E5, (float)v);
}

static uint64_t to_half(LaneKind k, double v, int rounding, bool finite) {
  uint64_t out = narrow(k, v, rounding), most = k == LK_F16 ? 0x7bff : 0x7f7f;
  if (finite && !isnan(v) && (out & 0x7fff) > most) out = (out & 0x8000) | most;
  return out;
}

static uint64_t convert_pair(const LaneOp *op, double low, double high) {
  switch (op->to) {
    case LK_E4M3X2:
    case LK_E5M2X2: return to_fp8(op->to, low) | to_fp8(op->to, high) << 8;
    default: {
      LaneKind half = op->to == LK_BF16X2 ? LK_BF16 : LK_F16;
      return to_half(half, low, op->rounding, op->sat) | to_half(half, high, op->rounding, op->sat) << 16;
    }
  }
}

static uint64_t convert_packed(const LaneOp *op, uint64_t bits) {
  if (op->kind == LK_E4M3X2 || op->kind == LK_E5M2X2) {
    Dtype t = op->kind == LK_E4M3X2 ? DT_F8E4NV : DT_F8E5;
    return convert_pair(op, f8_to_f32(t, (uint8_t)bits), f8_to_f32(t, (uint8_t)(bits >> 8)));
  }
  LaneKind half = op->kind == LK_BF16X2 ? LK_BF16 : LK_F16;
  return convert_pair(op, float_of(half, bits & 0xffff), float_of(half, bits >> 16 & 0xffff));
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static uint64_t eval(const LaneOp *op, const uint64_t *in) {
  LaneKind k = op->kind;
  int width = lane_kind_info[k].type == LT_PRED ? 1 : lane_kind_info[k].bits;
  switch (op->code) {
    case LANE_CONST: return (uint64_t)op->imm;
    case LANE_AND: return in[0] & in[1];
    case LANE_OR: return in[0] | in[1];
    case LANE_XOR: return in[0] ^ in[1];
    case LANE_NOT: return ~in[0];
    case LANE_SHL:
    case LANE_SHR: return shift(op, in[0], in[1]);
    case LANE_POPC: return (uint64_t)__builtin_popcountll(in[0]);
    case LANE_CLZ: return in[0] ? (uint64_t)(__builtin_clzll(in[0]) - (64 - width)) : (uint64_t)width;
    case LANE_BREV: return reverse(in[0], width);
    case LANE_BFE: return extract(k, in[0], op->bit, op->bits);
    case LANE_BFI: return insert(in[0], in[1], op->bit, op->bits);
    case LANE_PRMT: return permute(in[0], in[1], in[2]);
    case LANE_FUNNEL: {
      uint64_t both = in[0] | in[1] << 32;
      int n = (int)(in[2] & 31);
      return op->right ? both >> n : both << n >> 32;
    }
    case LANE_PACK: return in[0] | in[1] << (width / 2);
    case LANE_MOVE: return in[0];
    case LANE_SETP: return compare(op, in);
    case LANE_SELECT: return in[0] & 1 ? in[1] : in[2];
    case LANE_CVT: return convert(op, in[0]);
    case LANE_CVT2: return convert_pair(op, f32_of(in[0]), f32_of(in[1]));
    case LANE_CVT1X2: return convert_packed(op, in[0]);
    default: return lane_kind_is_float(k) ? eval_float(op, in) : eval_int(op, in);
  }
}

bool lane_eval(const LaneOp *op, const uint64_t *in, uint64_t *out) {
  if (lane_info[op->code].effect != LE_PURE) return false;
  if (op->code == LANE_PARAM || op->code == LANE_SPECIAL || op->code == LANE_SHARED) return false;
  if (op->code == LANE_UNPACK) {
    int half = lane_kind_info[op->kind].bits / 2;
    out[0] = in[0] & ((1ull << half) - 1);
    out[1] = in[0] >> half;
    return true;
  }
  LaneType type;
  lane_result_type(op, &type);
  out[0] = eval(op, in) & lane_type_mask(type);
  return true;
}

static bool is_nan(LaneKind k, uint64_t bits) {
  switch (k) {
    case LK_F16X2: return (bits & 0x7fff) > 0x7c00 || (bits >> 16 & 0x7fff) > 0x7c00;
    case LK_BF16X2: return (bits & 0x7fff) > 0x7f80 || (bits >> 16 & 0x7fff) > 0x7f80;
    case LK_E4M3X2:
    case LK_E5M2X2: return true; /* never mind which */
    default: return lane_kind_is_float(k) && isnan(float_of(k, bits));
  }
}

bool lane_eval_is_exact(const LaneOp *op, const uint64_t *in) {
  switch (op->code) {
    case LANE_RSQRT:
    case LANE_EX2:
    case LANE_LG2:
    case LANE_SIN:
    case LANE_COS:
    case LANE_TANH: return false;
    case LANE_DIV:
    case LANE_REM:
      if (!lane_kind_is_float(op->kind) && in[1] == 0) return false;
      break;
    default: break;
  }
  if (op->approx) return false;
  uint64_t out[2];
  if (!lane_eval(op, in, out)) return false;
  bool moves_bits = op->code == LANE_SELECT || op->code == LANE_SETP || op->code == LANE_NEG || op->code == LANE_ABS ||
                    op->code == LANE_COPYSIGN;
  if (moves_bits && op->code != LANE_SETP) return true;
  for (int i = 0; i < op->in_count && i < 3; i++)
    if (op->code != LANE_SETP && is_nan(op->kind, in[i])) return false;
  return !is_nan(op->code == LANE_CVT || op->code == LANE_CVT2 || op->code == LANE_CVT1X2 ? op->to : op->kind,
                 out[0]) ||
         op->code == LANE_SETP;
}

uint64_t lane_eval_rmw(int rmw, LaneKind kind, uint64_t old, uint64_t y, uint64_t z) {
  static const LaneCode codes[] = {[RMW_ADD] = LANE_ADD, [RMW_MAX] = LANE_MAX, [RMW_MIN] = LANE_MIN,
                                   [RMW_AND] = LANE_AND, [RMW_OR] = LANE_OR,   [RMW_XOR] = LANE_XOR};
  if (rmw == RMW_XCHG) return y;
  if (rmw == RMW_CAS) return old == y ? z : old;
  LaneOp op = {.code = codes[rmw], .kind = kind, .in_count = 2};
  if (kind == LK_B32) op.kind = LK_U32;
  if (kind == LK_B64) op.kind = LK_U64;
  uint64_t out[2] = {0};
  lane_eval(&op, (uint64_t[]){old, y}, out);
  return out[0];
}
