/* Scalar math: every function of tile/math.def as plain C, for float and double.
 *
 * The interpreter calls these, and the CPU back end writes this very file at the head of the C text it emits; so it
 * stands alone (libm and <stdint.h>) and every function is static.
 *
 * A row NAME of math.def is nd_NAME with a suffix for the type it is used on, where the row has several:
 *
 *     f64 -      f32 f      i32 i      u32 u      i64 ll      u64 ull      (of the first float operand, else the first)
 *
 * nd_erfinv(double), nd_erfinvf(float), nd_clzi(int32_t), nd_clzll(int64_t), nd_sadu(...); pow with an integer exponent
 * is nd_powi, nd_powif. A row with one signature has its bare name: nd_saturatef, nd_float2int_rn. math_c_name() of
 * tile.h spells this rule. What the functions mean is said by NVIDIA's "CUDA Math API".
 *
 * Directed rounding (_rz towards zero, _rd down, _ru up) is done in integers, exactly: the floating-point environment
 * is slow to switch and compilers move arithmetic across the switch.
 */
#ifndef NEREID_MATHFN_H
#define NEREID_MATHFN_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define ND_FN static inline __attribute__((unused))

ND_FN uint64_t nd_bits(double v) {
  uint64_t b;
  memcpy(&b, &v, 8);
  return b;
}
ND_FN double nd_from_bits(uint64_t b) {
  double v;
  memcpy(&v, &b, 8);
  return v;
}
ND_FN uint32_t nd_bitsf(float v) {
  uint32_t b;
  memcpy(&b, &v, 4);
  return b;
}
ND_FN float nd_from_bitsf(uint32_t b) {
  float v;
  memcpy(&v, &b, 4);
  return v;
}

/* A function of libm under our name, in both types; and a float function that is the double one, rounded. */
#define ND_LIBM1(name, c) \
  ND_FN double nd_##name(double x) { return c(x); } \
  ND_FN float nd_##name##f(float x) { return c##f(x); }
#define ND_LIBM2(name, c) \
  ND_FN double nd_##name(double x, double y) { return c(x, y); } \
  ND_FN float nd_##name##f(float x, float y) { return c##f(x, y); }
#define ND_FLOAT1(name) \
  ND_FN float nd_##name##f(float x) { return (float)nd_##name((double)x); }
#define ND_FLOAT2(name) \
  ND_FN float nd_##name##f(float x, float y) { return (float)nd_##name((double)x, (double)y); }

/* ---- integers ---------------------------------------------------------------------------------------------------- */

ND_FN int32_t nd_clzi(int32_t x) { return x ? __builtin_clz((uint32_t)x) : 32; }
ND_FN int32_t nd_clzll(int64_t x) { return x ? __builtin_clzll((uint64_t)x) : 64; }
ND_FN int32_t nd_popci(int32_t x) { return __builtin_popcount((uint32_t)x); }
ND_FN int32_t nd_popcll(int64_t x) { return __builtin_popcountll((uint64_t)x); }
ND_FN int32_t nd_ffsi(int32_t x) { return __builtin_ffs(x); }
ND_FN int32_t nd_ffsll(int64_t x) { return __builtin_ffsll(x); }

ND_FN int64_t nd_brevll(int64_t x) {
  uint64_t v = (uint64_t)x;
  v = (v >> 1 & 0x5555555555555555u) | (v & 0x5555555555555555u) << 1;
  v = (v >> 2 & 0x3333333333333333u) | (v & 0x3333333333333333u) << 2;
  v = (v >> 4 & 0x0f0f0f0f0f0f0f0fu) | (v & 0x0f0f0f0f0f0f0f0fu) << 4;
  return (int64_t)__builtin_bswap64(v);
}
ND_FN int32_t nd_brevi(int32_t x) { return (int32_t)((uint64_t)nd_brevll(x) >> 32); }

/* Byte n of the result is the one of x (0 to 3) and y (4 to 7) that three bits of s, from bit 4n on, name. */
ND_FN int32_t nd_byte_perm(int32_t x, int32_t y, int32_t s) {
  uint64_t bytes = (uint64_t)(uint32_t)y << 32 | (uint32_t)x;
  uint32_t out = 0;
  for (int n = 0; n < 4; n++) out |= (uint32_t)(bytes >> 8 * ((uint32_t)s >> 4 * n & 7) & 0xff) << 8 * n;
  return (int32_t)out;
}

ND_FN int32_t nd_mulhii(int32_t x, int32_t y) { return (int32_t)((int64_t)x * y >> 32); }
ND_FN uint32_t nd_mulhiu(uint32_t x, uint32_t y) { return (uint32_t)((uint64_t)x * y >> 32); }
ND_FN int64_t nd_mulhill(int64_t x, int64_t y) { return (int64_t)((__int128)x * y >> 64); }
ND_FN uint64_t nd_mulhiull(uint64_t x, uint64_t y) { return (uint64_t)((unsigned __int128)x * y >> 64); }
ND_FN int32_t nd_mul24i(int32_t x, int32_t y) { /* of the low 24 bits, by their sign */
  int64_t a = (int32_t)((uint32_t)x << 8) >> 8, b = (int32_t)((uint32_t)y << 8) >> 8;
  return (int32_t)(uint32_t)(uint64_t)(a * b);
}
ND_FN uint32_t nd_mul24u(uint32_t x, uint32_t y) { return (x & 0xffffff) * (y & 0xffffff); }
ND_FN int32_t nd_sadi(int32_t x, int32_t y, uint32_t z) {
  return (int32_t)((x > y ? (uint32_t)x - (uint32_t)y : (uint32_t)y - (uint32_t)x) + z);
}
ND_FN uint32_t nd_sadu(uint32_t x, uint32_t y, uint32_t z) { return (x > y ? x - y : y - x) + z; }
ND_FN int32_t nd_haddi(int32_t x, int32_t y) { return (int32_t)(((int64_t)x + y) >> 1); }
ND_FN uint32_t nd_haddu(uint32_t x, uint32_t y) { return (uint32_t)(((uint64_t)x + y) >> 1); }
ND_FN int32_t nd_rhaddi(int32_t x, int32_t y) { return (int32_t)(((int64_t)x + y + 1) >> 1); }
ND_FN uint32_t nd_rhaddu(uint32_t x, uint32_t y) { return (uint32_t)(((uint64_t)x + y + 1) >> 1); }
ND_FN int32_t nd_absi(int32_t x) { return (int32_t)(x < 0 ? 0u - (uint32_t)x : (uint32_t)x); }
ND_FN int64_t nd_absll(int64_t x) { return (int64_t)(x < 0 ? 0u - (uint64_t)x : (uint64_t)x); }

/* ---- bits -------------------------------------------------------------------------------------------------------- */

ND_FN float nd_int_as_float(int32_t x) { return nd_from_bitsf((uint32_t)x); }
ND_FN float nd_uint_as_float(uint32_t x) { return nd_from_bitsf(x); }
ND_FN int32_t nd_float_as_int(float x) { return (int32_t)nd_bitsf(x); }
ND_FN int32_t nd_float_as_uint(float x) { return (int32_t)nd_bitsf(x); }
ND_FN double nd_longlong_as_double(int64_t x) { return nd_from_bits((uint64_t)x); }
ND_FN int64_t nd_double_as_longlong(double x) { return (int64_t)nd_bits(x); }
ND_FN double nd_hiloint2double(int32_t high, int32_t low) {
  return nd_from_bits((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
}
ND_FN int32_t nd_double2loint(double x) { return (int32_t)(uint32_t)nd_bits(x); }
ND_FN int32_t nd_double2hiint(double x) { return (int32_t)(nd_bits(x) >> 32); }

/* ---- directed rounding ------------------------------------------------------------------------------------------- */

typedef unsigned __int128 nd_wide;
enum { ND_RN, ND_RZ, ND_RD, ND_RU };

ND_FN int nd_wide_bits(nd_wide m) { /* m < 2^result */
  uint64_t high = (uint64_t)(m >> 64), low = (uint64_t)m;
  return high ? 128 - __builtin_clzll(high) : low ? 64 - __builtin_clzll(low) : 0;
}

/* A finite number other than 0 as m * 2^exp. */
ND_FN uint64_t nd_unpack(double v, int *exp) {
  int e = (int)(nd_bits(v) >> 52 & 0x7ff);
  uint64_t m = nd_bits(v) & ((1ull << 52) - 1);
  *exp = (e ? e : 1) - 1075;
  return e ? m | 1ull << 52 : m;
}

/* +-(m * 2^exp + a little if sticky), m > 0, rounded to a float (24 bits) or a double (53), which a double holds. */
ND_FN double nd_pack(int negative, nd_wide m, int exp, int sticky, int mode, int precision) {
  int least = precision == 24 ? -149 : -1074, greatest = precision == 24 ? 128 : 1024;
  int drop = nd_wide_bits(m) - precision;
  if (exp + drop < least) drop = least - exp; /* the result is subnormal */
  int up = mode == (negative ? ND_RD : ND_RU);
  if (drop > 0) {
    nd_wide rest = drop > 127 ? m : m & (((nd_wide)1 << drop) - 1), half = drop > 127 ? 0 : (nd_wide)1 << (drop - 1);
    m = drop > 127 ? 0 : m >> drop;
    exp += drop;
    if (mode == ND_RN) up = half && (rest > half || (rest == half && (sticky || (m & 1))));
    else up = up && (rest || sticky);
    m += (nd_wide)up;
  } else if (sticky && up) {
    /* exact so far, and the little more lies beyond the last place: make that place */
    int left = -drop;
    if (exp - left < least) left = exp - least;
    m = (m << left) + 1;
    exp -= left;
  }
  double v;
  if (m && nd_wide_bits(m) + exp > greatest) {
    int to_infinity = mode == ND_RN || mode == (negative ? ND_RD : ND_RU);
    v = to_infinity ? INFINITY : precision == 24 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
  } else {
    v = ldexp((double)(uint64_t)m, exp);
  }
  return negative ? -v : v;
}

ND_FN double nd_fma_dir(double x, double y, double z, int mode, int precision) {
  if (!isfinite(x) || !isfinite(y) || !isfinite(z)) return fma(x, y, z);
  int product_negative = (signbit(x) != 0) != (signbit(y) != 0), z_negative = signbit(z) != 0;
  double zero = mode == ND_RD ? -0.0 : 0.0; /* what x - x gives */
  if (x == 0 || y == 0) return z != 0 ? z : product_negative == z_negative ? z : zero;
  int xe, ye, ze, pe;
  nd_wide p = (nd_wide)nd_unpack(x, &xe) * nd_unpack(y, &ye), m;
  pe = xe + ye;
  if (z == 0) return nd_pack(product_negative, p, pe, 0, mode, precision);
  m = nd_unpack(z, &ze);
  /* Both with their first bit at 125; then the one that is less is shifted until the places agree. Digits fall off only
   * when the two lie so far apart that hardly any can cancel. */
  int shift = 126 - nd_wide_bits(p);
  p <<= shift, pe -= shift;
  shift = 126 - nd_wide_bits(m);
  m <<= shift, ze -= shift;
  int negative = product_negative, other_negative = z_negative;
  if (ze > pe || (ze == pe && m > p)) {
    nd_wide t = p;
    p = m;
    m = t;
    int e = pe;
    pe = ze;
    ze = e;
    negative = z_negative, other_negative = product_negative;
  }
  int apart = pe - ze, sticky = 0;
  if (apart > 126) sticky = 1, m = 0;
  else if (apart) sticky = (m & (((nd_wide)1 << apart) - 1)) != 0, m >>= apart;
  if (negative == other_negative) p += m;
  else p -= m + (nd_wide)sticky; /* what is left has a fraction again, so sticky stays */
  if (p == 0) return zero;
  return nd_pack(negative, p, pe, sticky, mode, precision);
}

ND_FN double nd_add_dir(double x, double y, int mode, int precision) { return nd_fma_dir(x, 1, y, mode, precision); }

ND_FN double nd_mul_dir(double x, double y, int mode, int precision) {
  if (!isfinite(x) || !isfinite(y) || x == 0 || y == 0) return x * y;
  int xe, ye;
  nd_wide p = (nd_wide)nd_unpack(x, &xe) * nd_unpack(y, &ye);
  return nd_pack((signbit(x) != 0) != (signbit(y) != 0), p, xe + ye, 0, mode, precision);
}

ND_FN double nd_div_dir(double x, double y, int mode, int precision) {
  if (!isfinite(x) || !isfinite(y) || x == 0 || y == 0) return x / y;
  int xe, ye;
  uint64_t a = nd_unpack(x, &xe), b = nd_unpack(y, &ye);
  int shift = 120 - nd_wide_bits(a);
  nd_wide n = (nd_wide)a << shift;
  return nd_pack((signbit(x) != 0) != (signbit(y) != 0), n / b, xe - ye - shift, n % b != 0, mode, precision);
}

ND_FN double nd_sqrt_dir(double x, int mode, int precision) {
  if (!isfinite(x) || x <= 0) return sqrt(x);
  int e;
  uint64_t a = nd_unpack(x, &e);
  int shift = 124 - nd_wide_bits(a);
  if ((e - shift) % 2) shift--;
  nd_wide rest = (nd_wide)a << shift, root = 0, bit = (nd_wide)1 << 126;
  while (bit > rest) bit >>= 2;
  for (; bit; bit >>= 2) { /* digit by digit, as on paper */
    if (rest >= root + bit) rest -= root + bit, root = (root >> 1) + bit;
    else root >>= 1;
  }
  return nd_pack(0, root, (e - shift) / 2, rest != 0, mode, precision);
}

#define ND_DIRECTED(suffix, mode) \
  ND_FN double nd_add_##suffix(double x, double y) { return nd_add_dir(x, y, mode, 53); } \
  ND_FN float nd_add_##suffix##f(float x, float y) { return (float)nd_add_dir(x, y, mode, 24); } \
  ND_FN double nd_sub_##suffix(double x, double y) { return nd_add_dir(x, -y, mode, 53); } \
  ND_FN float nd_sub_##suffix##f(float x, float y) { return (float)nd_add_dir(x, -y, mode, 24); } \
  ND_FN double nd_mul_##suffix(double x, double y) { return nd_mul_dir(x, y, mode, 53); } \
  ND_FN float nd_mul_##suffix##f(float x, float y) { return (float)nd_mul_dir(x, y, mode, 24); } \
  ND_FN double nd_div_##suffix(double x, double y) { return nd_div_dir(x, y, mode, 53); } \
  ND_FN float nd_div_##suffix##f(float x, float y) { return (float)nd_div_dir(x, y, mode, 24); } \
  ND_FN double nd_rcp_##suffix(double x) { return nd_div_dir(1, x, mode, 53); } \
  ND_FN float nd_rcp_##suffix##f(float x) { return (float)nd_div_dir(1, x, mode, 24); } \
  ND_FN double nd_sqrt_##suffix(double x) { return nd_sqrt_dir(x, mode, 53); } \
  ND_FN float nd_sqrt_##suffix##f(float x) { return (float)nd_sqrt_dir(x, mode, 24); } \
  ND_FN double nd_fma_##suffix(double x, double y, double z) { return nd_fma_dir(x, y, z, mode, 53); } \
  ND_FN float nd_fma_##suffix##f(float x, float y, float z) { return (float)nd_fma_dir(x, y, z, mode, 24); } \
  ND_FN float nd_double2float_##suffix(double x) { \
    if (!isfinite(x) || x == 0) return (float)x; \
    int e; \
    uint64_t m = nd_unpack(x, &e); \
    return (float)nd_pack(signbit(x) != 0, m, e, 0, mode, 24); \
  } \
  ND_FN float nd_int2float_##suffix(int32_t x) { return (float)nd_from_int(x < 0, (uint64_t)nd_absll(x), mode, 24); } \
  ND_FN float nd_uint2float_##suffix(uint32_t x) { return (float)nd_from_int(0, x, mode, 24); } \
  ND_FN float nd_ll2float_##suffix(int64_t x) { return (float)nd_from_int(x < 0, (uint64_t)nd_absll(x), mode, 24); } \
  ND_FN float nd_ull2float_##suffix(uint64_t x) { return (float)nd_from_int(0, x, mode, 24); } \
  ND_FN double nd_ll2double_##suffix(int64_t x) { return nd_from_int(x < 0, (uint64_t)nd_absll(x), mode, 53); } \
  ND_FN double nd_ull2double_##suffix(uint64_t x) { return nd_from_int(0, x, mode, 53); }

ND_FN double nd_from_int(int negative, uint64_t m, int mode, int precision) {
  return m ? nd_pack(negative, m, 0, 0, mode, precision) : 0;
}

ND_DIRECTED(rz, ND_RZ)
ND_DIRECTED(rd, ND_RD)
ND_DIRECTED(ru, ND_RU)

/* To nearest is what the machine does by itself. */
ND_FN double nd_add_rn(double x, double y) { return x + y; }
ND_FN float nd_add_rnf(float x, float y) { return x + y; }
ND_FN double nd_sub_rn(double x, double y) { return x - y; }
ND_FN float nd_sub_rnf(float x, float y) { return x - y; }
ND_FN double nd_mul_rn(double x, double y) { return x * y; }
ND_FN float nd_mul_rnf(float x, float y) { return x * y; }
ND_FN double nd_div_rn(double x, double y) { return x / y; }
ND_FN float nd_div_rnf(float x, float y) { return x / y; }
ND_FN double nd_rcp_rn(double x) { return 1 / x; }
ND_FN float nd_rcp_rnf(float x) { return 1 / x; }
ND_LIBM1(sqrt_rn, sqrt)
ND_FN double nd_fma_rn(double x, double y, double z) { return fma(x, y, z); }
ND_FN float nd_fma_rnf(float x, float y, float z) { return fmaf(x, y, z); }
ND_FN double nd_fma(double x, double y, double z) { return fma(x, y, z); }
ND_FN float nd_fmaf(float x, float y, float z) { return fmaf(x, y, z); }
ND_FN float nd_double2float_rn(double x) { return (float)x; }
ND_FN double nd_int2double_rn(int32_t x) { return x; }
ND_FN double nd_uint2double_rn(uint32_t x) { return x; }
ND_FN float nd_int2float_rn(int32_t x) { return (float)x; }
ND_FN float nd_uint2float_rn(uint32_t x) { return (float)x; }
ND_FN float nd_ll2float_rn(int64_t x) { return (float)x; }
ND_FN float nd_ull2float_rn(uint64_t x) { return (float)x; }
ND_FN double nd_ll2double_rn(int64_t x) { return (double)x; }
ND_FN double nd_ull2double_rn(uint64_t x) { return (double)x; }

/* ---- floats to integers: out of range gives the nearest end; NaN as PTX's cvt (0 for f32 to 32 bits, else 1 << top)
 * ---- */

ND_FN int32_t nd_to_i32(double v) { return v >= 0x1p31 ? INT32_MAX : v < -0x1p31 ? INT32_MIN : (int32_t)v; }
ND_FN int32_t nd_to_u32(double v) { return (int32_t)(v >= 0x1p32 ? UINT32_MAX : v <= 0 ? 0 : (uint32_t)v); }
ND_FN int64_t nd_to_i64(double v) {
  return isnan(v) ? INT64_MIN : v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}
ND_FN int64_t nd_to_u64(double v) {
  return isnan(v) ? INT64_MIN : (int64_t)(v >= 0x1p64 ? UINT64_MAX : v <= 0 ? 0 : (uint64_t)v);
}

#define ND_TO_INT(suffix, round) \
  ND_FN int32_t nd_float2int_##suffix(float x) { return isnan(x) ? 0 : nd_to_i32(round(x)); } \
  ND_FN int32_t nd_float2uint_##suffix(float x) { return isnan(x) ? 0 : nd_to_u32(round(x)); } \
  ND_FN int64_t nd_float2ll_##suffix(float x) { return nd_to_i64(round(x)); } \
  ND_FN int64_t nd_float2ull_##suffix(float x) { return nd_to_u64(round(x)); } \
  ND_FN int32_t nd_double2int_##suffix(double x) { return isnan(x) ? INT32_MIN : nd_to_i32(round(x)); } \
  ND_FN int32_t nd_double2uint_##suffix(double x) { return isnan(x) ? INT32_MIN : nd_to_u32(round(x)); } \
  ND_FN int64_t nd_double2ll_##suffix(double x) { return nd_to_i64(round(x)); } \
  ND_FN int64_t nd_double2ull_##suffix(double x) { return nd_to_u64(round(x)); }
ND_TO_INT(rn, rint)
ND_TO_INT(rz, trunc)
ND_TO_INT(rd, floor)
ND_TO_INT(ru, ceil)
ND_FN int64_t nd_llrint(double x) { return nd_to_i64(rint(x)); }
ND_FN int64_t nd_llrintf(float x) { return nd_to_i64(rintf(x)); }
ND_FN int64_t nd_llround(double x) { return nd_to_i64(round(x)); }
ND_FN int64_t nd_llroundf(float x) { return nd_to_i64(roundf(x)); }

/* ---- classes and parts of a number ------------------------------------------------------------------------------- */

ND_FN int nd_isnan(double x) { return isnan(x) != 0; }
ND_FN int nd_isnanf(float x) { return isnan(x) != 0; }
ND_FN int nd_isinf(double x) { return isinf(x) != 0; }
ND_FN int nd_isinff(float x) { return isinf(x) != 0; }
ND_FN int nd_finitef(float x) { return isfinite(x) != 0; }
ND_FN int nd_isfinited(double x) { return isfinite(x) != 0; }
ND_FN int32_t nd_signbit(double x) { return signbit(x) != 0; }
ND_FN int32_t nd_signbitf(float x) { return signbit(x) != 0; }
ND_FN int32_t nd_ilogb(double x) { return isnan(x) || x == 0 ? INT32_MIN : isinf(x) ? INT32_MAX : ilogb(x); }
ND_FN int32_t nd_ilogbf(float x) { return nd_ilogb(x); }
ND_FN double nd_ldexp(double x, int32_t n) { return ldexp(x, n); }
ND_FN float nd_ldexpf(float x, int32_t n) { return ldexpf(x, n); }
ND_FN double nd_scalbn(double x, int32_t n) { return scalbn(x, n); }
ND_FN float nd_scalbnf(float x, int32_t n) { return scalbnf(x, n); }
ND_FN float nd_saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; } /* NaN gives 0 */
ND_LIBM1(abs, fabs)
ND_LIBM1(floor, floor)
ND_LIBM1(ceil, ceil)
ND_LIBM1(trunc, trunc)
ND_LIBM1(rint, rint)
ND_LIBM1(nearbyint, nearbyint)
ND_LIBM1(round, round)
ND_LIBM1(logb, logb)
ND_LIBM2(copysign, copysign)
ND_LIBM2(nextafter, nextafter)
ND_LIBM2(fmod, fmod)
ND_LIBM2(remainder, remainder)
ND_LIBM2(fdim, fdim)

/* ---- roots, powers, exponentials --------------------------------------------------------------------------------- */

ND_LIBM1(sqrt, sqrt)
ND_LIBM1(cbrt, cbrt)
ND_LIBM1(exp, exp)
ND_LIBM1(exp2, exp2)
ND_LIBM1(expm1, expm1)
ND_LIBM1(log, log)
ND_LIBM1(log2, log2)
ND_LIBM1(log10, log10)
ND_LIBM1(log1p, log1p)
ND_LIBM2(pow, pow)
ND_LIBM2(hypot, hypot)
ND_FN double nd_powi(double x, int32_t n) { return pow(x, n); }
ND_FN float nd_powif(float x, int32_t n) { return (float)pow(x, n); }
ND_FN double nd_exp10(double x) { return pow(10, x); }
ND_FLOAT1(exp10)
ND_FN double nd_rsqrt(double x) { return 1 / sqrt(x); }
ND_FLOAT1(rsqrt)
ND_FN float nd_rsqrt_rn(float x) { return (float)(1 / sqrt((double)x)); }
ND_FN double nd_rcbrt(double x) { return 1 / cbrt(x); }
ND_FLOAT1(rcbrt)
ND_FN double nd_rcp64h(double x) { /* the high word of 1/x; numbers below 2^-1022 count as 0 */
  if (fabs(x) < 0x1p-1022) x = copysign(0, x);
  double v = nd_from_bits(nd_bits(1 / x) & ~0xffffffffull);
  return fabs(v) < 0x1p-1022 ? copysign(0, v) : isnan(x) ? x : v;
}
ND_FN double nd_rhypot(double x, double y) { return 1 / hypot(x, y); }
ND_FLOAT2(rhypot)
ND_FN double nd_norm3d(double x, double y, double z) { return hypot(hypot(x, y), z); }
ND_FN float nd_norm3df(float x, float y, float z) { return (float)sqrt((double)x * x + (double)y * y + (double)z * z); }
ND_FN double nd_rnorm3d(double x, double y, double z) { return 1 / nd_norm3d(x, y, z); }
ND_FN float nd_rnorm3df(float x, float y, float z) { return (float)(1 / nd_norm3d(x, y, z)); }
ND_FN double nd_norm4d(double x, double y, double z, double w) { return hypot(hypot(x, y), hypot(z, w)); }
ND_FN float nd_norm4df(float x, float y, float z, float w) { return (float)nd_norm4d(x, y, z, w); }
ND_FN double nd_rnorm4d(double x, double y, double z, double w) { return 1 / nd_norm4d(x, y, z, w); }
ND_FN float nd_rnorm4df(float x, float y, float z, float w) { return (float)(1 / nd_norm4d(x, y, z, w)); }

/* ---- circles ----------------------------------------------------------------------------------------------------- */

ND_LIBM1(sin, sin)
ND_LIBM1(cos, cos)
ND_LIBM1(tan, tan)
ND_LIBM1(asin, asin)
ND_LIBM1(acos, acos)
ND_LIBM1(atan, atan)
ND_LIBM2(atan2, atan2)
ND_LIBM1(sinh, sinh)
ND_LIBM1(cosh, cosh)
ND_LIBM1(tanh, tanh)
ND_LIBM1(asinh, asinh)
ND_LIBM1(acosh, acosh)
ND_LIBM1(atanh, atanh)

ND_FN double nd_cospi(double x) {
  if (!isfinite(x)) return x - x;
  double r = fmod(fabs(x), 2); /* exact, and so is every subtraction below */
  double sign = 1;
  if (r > 1) r = 2 - r;
  if (r > 0.5) r = 1 - r, sign = -1;
  return sign * (r <= 0.25 ? cos(M_PI * r) : r == 0.5 ? 0.0 : sin(M_PI * (0.5 - r)));
}
ND_FN double nd_sinpi(double x) {
  if (!isfinite(x)) return x - x;
  double r = fmod(fabs(x), 2), sign = copysign(1, x);
  if (r >= 1) r -= 1, sign = r == 0 ? sign : -sign;
  if (r > 0.5) r = 1 - r;
  return sign * (r <= 0.25 ? sin(M_PI * r) : cos(M_PI * (0.5 - r)));
}
ND_FLOAT1(sinpi)
ND_FLOAT1(cospi)

/* ---- the error function's family --------------------------------------------------------------------------------- */

ND_LIBM1(erf, erf)
ND_LIBM1(erfc, erfc)

/* exp(x^2) erfc(x), without the overflow of one and the underflow of the other. */
ND_FN double nd_erfcx(double x) {
  if (isnan(x)) return x;
  if (x < -27) return INFINITY;
  if (x < 10) { /* x^2 is not exact; what it lacks is put back to first order */
    double square = x * x, lack = fma(x, x, -square), e = exp(square);
    return (e + e * lack) * erfc(x);
  }
  /* Asymptotic: 1/(x sqrt(pi)) * (1 - 1/(2x^2) + 1*3/(2x^2)^2 - ...); from 10 on, 30 terms are past the last bit. */
  double sum = 1, term = 1, step = 1 / (2 * x * x);
  for (int k = 1; k < 60 && fabs(term) > 1e-18; k += 2) term *= -k * step, sum += term;
  return sum / x * 0.56418958354775628695;
}
ND_FLOAT1(erfcx)

/* The x >= 0 with erfc(x) = z, for z in (0, 0.5]: Newton's method on log(erfc), whose curve is nearly straight. */
ND_FN double nd_erfcinv_tail(double z) {
  double log_z = log(z), w = -log_z, x = sqrt(w - 0.5 * log(w + 0.6));
  if (!(x > 0.3)) x = 0.3;
  for (int i = 0; i < 8; i++) {
    double scaled = nd_erfcx(x), square = x * x;
    /* log(erfc(x)) = log(erfcx(x)) - x^2, where x^2 has a part that does not fit */
    double off = (log(scaled) - square - log_z) - fma(x, x, -square);
    double step = off * scaled * 0.88622692545275801365; /* sqrt(pi)/2 */
    x += step;
    if (fabs(step) < 1e-11 * x) break; /* the next would be below the last bit */
  }
  return x;
}
/* The x with erf(x) = y, |y| <= 0.5: Halley's method. */
ND_FN double nd_erfinv_middle(double y) {
  double x = y * (0.88622692545275801365 + 0.23201366653465449 * y * y);
  for (int i = 0; i < 3; i++) {
    double u = (erf(x) - y) * 0.88622692545275801365 * exp(x * x);
    x -= u / (1 + x * u);
  }
  return x;
}
ND_FN double nd_erfinv(double y) {
  if (isnan(y) || y < -1 || y > 1) return NAN;
  if (fabs(y) <= 0.5) return y == 0 ? y : nd_erfinv_middle(y);
  double tail = 1 - fabs(y); /* exact */
  return copysign(tail == 0 ? INFINITY : nd_erfcinv_tail(tail), y);
}
ND_FN double nd_erfcinv(double z) {
  if (isnan(z) || z < 0 || z > 2) return NAN;
  if (z == 0) return INFINITY;
  if (z == 2) return -INFINITY;
  if (z < 0.5) return nd_erfcinv_tail(z);
  if (z > 1.5) return -nd_erfcinv_tail(2 - z);
  return nd_erfinv_middle(1 - z); /* 1 - z is exact here */
}
ND_FN double nd_normcdfinv(double p) { return -M_SQRT2 * nd_erfcinv(2 * p); }
ND_FN double nd_normcdf(double x) {
  /* erfc(-x / sqrt 2) / 2; far out, an error in the last bit of the argument would be thousands of bits of the result
   */
  double t = -x * M_SQRT1_2;
  if (!isfinite(t) || fabs(t) > 40) return 0.5 * erfc(t);
  double lack = fma(-x, M_SQRT1_2, -t) - x * -4.8336466567264567e-17; /* 1/sqrt 2 itself is not exact */
  return 0.5 * (erfc(t) - 1.1283791670955125739 * exp(-t * t) * lack);
}
ND_FLOAT1(erfinv)
ND_FLOAT1(erfcinv)
ND_FLOAT1(normcdfinv)
ND_FLOAT1(normcdf)

/* ---- gamma and Bessel functions ---------------------------------------------------------------------------------- */

ND_LIBM1(tgamma, tgamma)
ND_LIBM1(lgamma, lgamma)
ND_FN double nd_j0(double x) { return j0(x); }
ND_FN double nd_j1(double x) { return j1(x); }
ND_FN double nd_y0(double x) { return x < 0 ? NAN : y0(x); }
ND_FN double nd_y1(double x) { return x < 0 ? NAN : y1(x); }
ND_FN double nd_jn(int32_t n, double x) { return n < 0 ? NAN : jn(n, x); }
ND_FN double nd_yn(int32_t n, double x) { return n < 0 || x < 0 ? NAN : yn(n, x); }
ND_FLOAT1(j0)
ND_FLOAT1(j1)
ND_FLOAT1(y0)
ND_FLOAT1(y1)
ND_FN float nd_jnf(int32_t n, float x) { return (float)nd_jn(n, x); }
ND_FN float nd_ynf(int32_t n, float x) { return (float)nd_yn(n, x); }

/* I_n for n = 0, 1. Near 0 the power series, whose terms are all positive; far out the asymptotic one
 * (Abramowitz and Stegun 9.6.10 and 9.7.1). */
ND_FN double nd_bessel_i(int n, double x) {
  double a = fabs(x), sum = 1, term = 1;
  if (a < 30) {
    for (int k = 1; k < 200 && term > sum * 1e-18; k++) term *= a * a / 4 / ((double)k * (k + n)), sum += term;
    return n ? x / 2 * sum : sum;
  }
  for (int k = 1; k < 60 && fabs(term) > 1e-18; k++) {
    double odd = 2 * k - 1;
    term *= -(4.0 * n - odd * odd) / (k * 8 * a), sum += term;
  }
  double half = exp(a / 2); /* exp(a) would overflow before the result does */
  sum = half * (sum / sqrt(2 * M_PI * a)) * half;
  return n && x < 0 ? -sum : sum;
}
/* Both overflow before 720. */
ND_FN double nd_cyl_bessel_i0(double x) { return fabs(x) > 720 ? INFINITY : nd_bessel_i(0, x); }
ND_FN double nd_cyl_bessel_i1(double x) { return fabs(x) > 720 ? copysign(INFINITY, x) : nd_bessel_i(1, x); }
ND_FLOAT1(cyl_bessel_i0)
ND_FLOAT1(cyl_bessel_i1)

/* ---- the fast ones, which may be less exact and here are not ----------------------------------------------------- */

ND_FN float nd_fast_sinf(float x) { return sinf(x); }
ND_FN float nd_fast_cosf(float x) { return cosf(x); }
ND_FN float nd_fast_tanf(float x) { return tanf(x); }
ND_FN float nd_fast_expf(float x) { return expf(x); }
ND_FN float nd_fast_tanhf(float x) { return tanhf(x); }
ND_FN float nd_fast_exp10f(float x) { return nd_exp10f(x); }
ND_FN float nd_fast_logf(float x) { return logf(x); }
ND_FN float nd_fast_log2f(float x) { return log2f(x); }
ND_FN float nd_fast_log10f(float x) { return log10f(x); }
ND_FN float nd_fast_powf(float x, float y) { return powf(x, y); }
ND_FN float nd_fast_dividef(float x, float y) { return x / y; }

#endif
