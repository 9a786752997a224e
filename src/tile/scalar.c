/* What each elementwise operation means, for one element. Folding computes with these and so does the interpreter.
 *
 * A Scalar is a number in a register: floats of every type as a double, integers extended by their type's sign to 64
 * bits. Every result is a number of its type again: integers wrap, floats are rounded once to their type. To compute in
 * double and then round to f32 or narrower gives the same as computing in the narrow type for add, sub, mul, div and
 * sqrt, since a double has more than twice the bits (Figueroa, "When is double rounding innocuous?", 1995).
 *
 * No operation traps: for integers x / 0 gives x and x % 0 gives 0, the least integer over -1 wraps, a shift by the
 * width or more shifts everything out.
 */
#include "tile/tile.h"

#include <math.h>

Scalar scalar_load(Dtype t, const void *p) {
  return dtype_is_float(t) ? (Scalar){.f = dtype_load_float(t, p)} : (Scalar){.i = dtype_load_int(t, p)};
}

void scalar_store(Dtype t, void *p, Scalar v) {
  if (dtype_is_float(t)) dtype_store_float(t, p, v.f);
  else dtype_store_int(t, p, v.i);
}

int64_t int_wrap(Dtype t, int64_t v) {
  if (t == DT_I1) return v & 1;
  int unused = 64 - dtype_bits(t);
  if (unused == 0) return v;
  uint64_t shifted = (uint64_t)v << unused;
  return dtype_is_signed(t) ? (int64_t)shifted >> unused : (int64_t)(shifted >> unused);
}

/* ---- rounding ---------------------------------------------------------------------------------------------------- */

static double round_to(Dtype t, double v) {
  if (t == DT_F64) return v;
  if (t == DT_F32) return (float)v;
  char memory[8];
  dtype_store_float(t, memory, v);
  return dtype_load_float(t, memory);
}

static Scalar from_float(Dtype t, double v) { return (Scalar){.f = round_to(t, v)}; }
static Scalar from_int(Dtype t, int64_t v) { return (Scalar){.i = int_wrap(t, v)}; }

/* The sum rounded so that rounding it again to half as many bits is right: when the sum is not exact its last bit is
 * made odd ("round to odd", Boldo and Melquiond 2008). */
static double add_to_odd(double x, double y) {
  double sum = x + y;
  if (!isfinite(sum)) return sum;
  double back = sum - x, lost = (x - (sum - back)) + (y - back);
  uint64_t bits;
  memcpy(&bits, &sum, 8);
  if (lost == 0 || (bits & 1)) return sum;
  return nextafter(sum, lost > 0 ? INFINITY : -INFINITY);
}

static double towards_zero(Dtype t, double v) {
  if (!isfinite(v)) return round_to(t, v);
  if (t == DT_F64) return v;
  if (t == DT_F32) {
    float f = (float)v;
    return fabs(f) > fabs(v) ? nextafterf(f, 0) : f;
  }
  unsigned char memory[8] = {0};
  dtype_store_float(t, memory, v);
  double rounded = dtype_load_float(t, memory);
  if (isfinite(rounded) && fabs(rounded) <= fabs(v)) return rounded;
  /* One step down in magnitude is one down in the bits; also from infinity to the largest number. */
  uint16_t bits = (uint16_t)(memory[0] | memory[1] << 8);
  bits--;
  memcpy(memory, &bits, 2);
  double stepped = dtype_load_float(t, memory);
  return isnan(stepped) ? 0 : stepped; /* fnuz: the bits of -0 are NaN */
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

/* Of two numbers the lesser, -0 below +0; of one NaN and one number the number, or NaN when `nan`. */
static double float_min(double x, double y, bool nan) {
  if (isnan(x)) return nan ? x : y;
  if (isnan(y)) return nan ? y : x;
  if (x == y) return signbit(x) ? x : y;
  return x < y ? x : y;
}

static double float_binary(OpCode code, double x, double y, int64_t attr) {
  switch (code) {
    case OP_ADD: return x + y;
    case OP_SUB: return x - y;
    case OP_MUL: return x * y;
    case OP_DIV: return x / y;
    case OP_REM: return fmod(x, y);
    case OP_MIN: return float_min(x, y, attr != 0);
    case OP_MAX: return -float_min(-x, -y, attr != 0);
    default: return NAN; /* the verifier lets no float get to the others */
  }
}

static int64_t signed_high(int bits, int64_t x, int64_t y) { return (int64_t)(((__int128)x * y) >> bits); }

static int64_t unsigned_high(int bits, uint64_t x, uint64_t y) {
  return (int64_t)(uint64_t)(((unsigned __int128)x * y) >> bits);
}

static int64_t int_binary(OpCode code, Dtype t, int64_t x, int64_t y) {
  uint64_t ux = (uint64_t)x, uy = (uint64_t)y;
  bool sign = dtype_is_signed(t);
  int bits = dtype_bits(t);
  uint64_t count = bits == 64 ? uy : uy & ((1ull << bits) - 1); /* of a shift */
  switch (code) {
    case OP_ADD: return (int64_t)(ux + uy);
    case OP_SUB: return (int64_t)(ux - uy);
    case OP_MUL: return (int64_t)(ux * uy);
    case OP_DIV:
      if (y == 0) return x; /* Triton leaves it open; every device gives this one */
      if (!sign) return (int64_t)(ux / uy);
      return y == -1 ? (int64_t)(0 - ux) : x / y;
    case OP_REM:
      if (y == 0) return 0;
      if (!sign) return (int64_t)(ux % uy);
      return y == -1 ? 0 : x % y;
    case OP_AND: return x & y;
    case OP_OR: return x | y;
    case OP_XOR: return x ^ y;
    case OP_SHL: return count >= (uint64_t)bits ? 0 : (int64_t)(ux << count);
    case OP_SHR:
      if (count >= (uint64_t)bits) return sign && x < 0 ? -1 : 0;
      return sign ? x >> count : (int64_t)(ux >> count);
    case OP_MIN: return (sign ? x < y : ux < uy) ? x : y;
    case OP_MAX: return (sign ? x > y : ux > uy) ? x : y;
    case OP_MULHI: return sign ? signed_high(bits, x, y) : unsigned_high(bits, ux, uy);
    default: return 0;
  }
}

Scalar scalar_binary(OpCode code, Dtype t, Scalar x, Scalar y, int64_t attr) {
  if (!dtype_is_float(t)) return from_int(t, int_binary(code, t, x.i, y.i));
  return from_float(t, float_binary(code, x.f, y.f, attr));
}

Scalar scalar_unary(OpCode code, Dtype t, Scalar x) {
  if (dtype_is_float(t)) {
    if (code == OP_NEG) return from_float(t, -x.f);
    if (code == OP_ABS) return from_float(t, fabs(x.f));
    return (Scalar){.f = NAN};
  }
  switch (code) {
    case OP_NEG: return from_int(t, (int64_t)(0 - (uint64_t)x.i));
    case OP_NOT: return from_int(t, ~x.i);
    case OP_ABS: return dtype_is_signed(t) && x.i < 0 ? from_int(t, (int64_t)(0 - (uint64_t)x.i)) : x;
    default: return (Scalar){.i = 0};
  }
}

Scalar scalar_fma(Dtype t, Scalar x, Scalar y, Scalar z) {
  if (!dtype_is_float(t)) return from_int(t, (int64_t)((uint64_t)x.i * (uint64_t)y.i + (uint64_t)z.i));
  if (t == DT_F64) return (Scalar){.f = fma(x.f, y.f, z.f)};
  if (t == DT_F32) return (Scalar){.f = fmaf((float)x.f, (float)y.f, (float)z.f)};
  return from_float(t, add_to_odd(x.f * y.f, z.f)); /* the product is exact */
}

bool scalar_cmp(CmpPred p, Dtype t, Scalar x, Scalar y) {
  bool equal, less;
  if (dtype_is_float(t)) {
    if (isnan(x.f) || isnan(y.f)) return p == CMP_NE;
    equal = x.f == y.f, less = x.f < y.f;
  } else {
    equal = x.i == y.i, less = dtype_is_signed(t) ? x.i < y.i : (uint64_t)x.i < (uint64_t)y.i;
  }
  switch (p) {
    case CMP_EQ: return equal;
    case CMP_NE: return !equal;
    case CMP_LT: return less;
    case CMP_LE: return less || equal;
    case CMP_GT: return !less && !equal;
    case CMP_GE: return !less;
  }
  return false;
}

/* ---- conversion -------------------------------------------------------------------------------------------------- */

/* A 64-bit unsigned integer past INT64_MAX as a float of type t. For narrow types a double would round first; its last
 * 11 bits say there only whether a tie is one, which one sticky bit says too. */
static double from_large(Dtype t, uint64_t v) {
  if (t == DT_F64) return (double)v;
  if (t == DT_F32) return (float)v;
  return round_to(t, (double)((v & ~2047ull) | (v & 2047 ? 2048 : 0)));
}

Scalar scalar_convert(Dtype from, Dtype to, int rounding, Scalar x) {
  bool from_is_float = dtype_is_float(from), to_is_float = dtype_is_float(to);
  if (to == DT_I1) return (Scalar){.i = from_is_float ? x.f != 0 : x.i != 0};
  if (!from_is_float && !to_is_float) return from_int(to, x.i);
  if (from_is_float && to_is_float) return (Scalar){.f = rounding == 1 ? towards_zero(to, x.f) : round_to(to, x.f)};
  char memory[8] = {0};
  if (from_is_float) {
    dtype_store_float(to, memory, x.f);
    return (Scalar){.i = dtype_load_int(to, memory)};
  }
  if (from == DT_U64 && x.i < 0) return (Scalar){.f = from_large(to, (uint64_t)x.i)};
  dtype_store_int(to, memory, x.i);
  return (Scalar){.f = dtype_load_float(to, memory)};
}

Scalar scalar_bitcast(Dtype from, Dtype to, Scalar x) {
  char memory[8] = {0};
  scalar_store(from, memory, x);
  return scalar_load(to, memory);
}
