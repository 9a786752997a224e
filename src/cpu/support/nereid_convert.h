/* nereid_convert: numbers of one type as numbers of another. Needs nereid_cpu.h and nereid_vec.h.
 *
 * The rules are those of Nereid's base/number.c: towards a narrower float once to nearest even (fp8 saturates, fp8e4b15
 * rounds ties away), a float becomes an integer by truncation, with the range's end for what lies outside and 0 for
 * NaN.
 *
 * A narrow float has `fraction` bits of fraction and the exponent bias `bias`. Decoding puts exponent and fraction
 * where an f32 has them and multiplies by 2^(127 - bias), which is exact and makes subnormals right. Encoding rounds a
 * normal number by an integer addition at the last bit that stays; a number below the least normal one, 2^(1 - bias),
 * by adding a power of two whose last place is the narrow type's least number, so that the machine rounds it.
 */
#ifndef NEREID_CONVERT_H
#define NEREID_CONVERT_H

ND_INLINE nd_u32v nd_pick_u32(nd_i32v m, nd_u32v a, nd_u32v b) { return nd_select_u32v(m, a, b); }

typedef enum { ND_NEAREST, ND_AWAY, ND_TOZERO } nd_rounding;

/* Bits of `bits`-wide floats in the low bits of each lane; all but x are constants. infinity 0: there is none. */
ND_INLINE nd_u32v nd_encode(nd_f32v x, int bits, int fraction, int bias, uint32_t largest, uint32_t infinity,
                            uint32_t nan, int saturates, int fnuz, nd_rounding rounding) {
  nd_u32v u = (nd_u32v)x, a = u & 0x7fffffffu, sign = (u ^ a) >> (32 - bits);
  int drop = 23 - fraction;
  uint32_t least = (uint32_t)(128 - bias) << 23; /* 2^(1 - bias) as bits */
  nd_u32v normal, small;
  if (rounding == ND_NEAREST) normal = a + ((1u << (drop - 1)) - 1) + (a >> drop & 1);
  else if (rounding == ND_AWAY) normal = a + (1u << (drop - 1));
  else normal = a;
  normal = (normal >> drop) - ((uint32_t)(127 - bias) << fraction);
  if (rounding == ND_NEAREST) {
    uint32_t magic = (uint32_t)(127 + 1 - bias + drop) << 23; /* its last place is 2^(1 - bias - fraction) */
    small = (nd_u32v)((nd_f32v)a + nd_cast_f32_u32(magic)) - magic;
  } else { /* twice the number, in units of the least one, truncated: the last bit is the half */
    nd_f32v scale = nd_splat_f32v(nd_cast_f32_u32((uint32_t)(127 + bias + fraction) << 23));
    nd_u32v inside = (nd_u32v)((nd_i32v)a < (int32_t)least);
    nd_i32v halves = __builtin_convertvector((nd_f32v)(a & inside) * scale, nd_i32v);
    small = (nd_u32v)((halves + (rounding == ND_AWAY)) >> 1);
  }
  nd_u32v r = nd_pick_u32((nd_i32v)a < (int32_t)least, small, normal);
  uint32_t beyond = saturates || rounding == ND_TOZERO ? largest : infinity;
  r = nd_pick_u32((nd_i32v)r > (int32_t)largest, nd_splat_u32v(beyond), r); /* a < 2^31, so r has its sign bit clear */
  if (!saturates) r = nd_pick_u32((nd_i32v)a == 0x7f800000, nd_splat_u32v(infinity), r);
  nd_i32v is_nan = (nd_i32v)a > 0x7f800000;
  r = nd_pick_u32(is_nan, nd_splat_u32v(nan), r);
  if (fnuz) return r | (sign & (nd_u32v)(r != 0));
  return r | sign;
}

/* infinity: the least magnitude that is infinity or NaN, or 0; nan: the one pattern that is NaN where there is no
 * infinity. */
ND_INLINE nd_f32v nd_decode(nd_u32v b, int bits, int fraction, int bias, uint32_t infinity, uint32_t nan, int fnuz) {
  nd_u32v a = b & ((1u << (bits - 1)) - 1), sign = (b ^ a) << (32 - bits);
  nd_f32v v = (nd_f32v)(a << (23 - fraction)) * nd_cast_f32_u32((uint32_t)(254 - bias) << 23);
  nd_u32v r = (nd_u32v)v | sign;
  if (fnuz) r = nd_pick_u32((nd_i32v)(b == (1u << (bits - 1))), nd_splat_u32v(0x7fc00000u), r);
  else if (infinity) {
    nd_u32v special = a << (23 - fraction) | 0x7f800000u | ((nd_u32v)(a > infinity) & 0x00400000u);
    r = nd_pick_u32((nd_i32v)a >= (int32_t)infinity, special | sign, r);
  } else if (nan) {
    r = nd_pick_u32((nd_i32v)a == (int32_t)nan, 0x7fc00000u | sign, r);
  }
  return (nd_f32v)r;
}

/* One row a narrow type: bits, fraction, bias, largest, infinity, NaN (fnuz: also the bits of -0; e4b15 has none to
 * read), saturates, fnuz, rounding. */
#define ND_F16_ROW 16, 10, 15, 0x7bff, 0x7c00, 0x7e00, 0, 0
#define ND_FP8E5_ROW 8, 2, 15, 0x7b, 0x7c, 0x7f, 1, 0
#define ND_FP8E4NV_ROW 8, 3, 7, 0x7e, 0, 0x7f, 1, 0
#define ND_FP8E4B15_ROW 8, 3, 15, 0x7e, 0, 0x7e, 1, 0
#define ND_FP8E4B8_ROW 8, 3, 8, 0x7f, 0, 0x80, 1, 1
#define ND_FP8E5B16_ROW 8, 2, 16, 0x7f, 0, 0x80, 1, 1

/* ---- bits of narrow floats --------------------------------------------------------------------------------------- */

ND_INLINE nd_u16v nd_bits_rtz_f16v(nd_f32v x) { return nd_from32_u16v((nd_i32v)nd_encode(x, ND_F16_ROW, ND_TOZERO)); }
#if defined(ND_X86) && defined(__F16C__) && (ND_VL < 16 || defined(ND_AVX512))
/* vcvtps2ph keeps a NaN's payload; the one NaN that number.c writes is put in its place. */
ND_INLINE nd_u16v nd_bits_f16v(nd_f32v x) {
  x = nd_select_f32v(x != x, (nd_f32v)(((nd_i32v)x & INT32_MIN) | 0x7fc00000), x);
#if ND_VL == 4
  union {
    __m128i m;
    nd_u16v v;
  } r = {_mm_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)};
  return r.v;
#else
  return (nd_u16v)ND_MM(cvtps_ph)(x, _MM_FROUND_TO_NEAREST_INT);
#endif
}
ND_INLINE nd_f32v nd_from_bits_f16v(nd_u16v b) {
#if ND_VL == 16
  return (nd_f32v)_mm512_cvtph_ps((__m256i)b);
#elif ND_VL == 8
  return (nd_f32v)_mm256_cvtph_ps((__m128i)b);
#else
  union {
    nd_u16v v[2];
    __m128i m;
  } x = {{b, b}};
  return (nd_f32v)_mm_cvtph_ps(x.m);
#endif
}
#else
ND_INLINE nd_u16v nd_bits_f16v(nd_f32v x) { return nd_from32_u16v((nd_i32v)nd_encode(x, ND_F16_ROW, ND_NEAREST)); }
ND_INLINE nd_f32v nd_from_bits_f16v(nd_u16v b) { return nd_decode(nd_to32_u16v(b), 16, 10, 15, 0x7c00, 0, 0); }
#endif

ND_INLINE nd_u16v nd_bits_bf16v(nd_f32v x) {
#if defined(__AVX512BF16__) && ND_VL == 16
  /* vcvtneps2bf16 makes 0 of subnormal numbers and keeps a NaN's payload: those are rare. */
  enum { QUIET_NAN = 1, SUBNORMAL = 32, SIGNALING_NAN = 128 };
  if (__builtin_expect(!_mm512_fpclass_ps_mask((__m512)x, QUIET_NAN | SUBNORMAL | SIGNALING_NAN), 1))
    return (nd_u16v)_mm512_cvtneps_pbh((__m512)x);
#endif
  nd_u32v u = (nd_u32v)x;
  nd_u32v r = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
  return nd_from32_u16v((nd_i32v)nd_pick_u32(x != x, (u >> 16 & 0x8000u) | 0x7fc0u, r));
}
ND_INLINE nd_u16v nd_bits_rtz_bf16v(nd_f32v x) {
  nd_u32v u = (nd_u32v)x;
  return nd_from32_u16v((nd_i32v)nd_pick_u32(x != x, (u >> 16 & 0x8000u) | 0x7fc0u, u >> 16));
}
ND_INLINE nd_f32v nd_from_bits_bf16v(nd_u16v b) { return (nd_f32v)(nd_to32_u16v(b) << 16); }

#define ND_BITS_FP8(T, row, rounding, infinity, nan, fnuz, fraction, bias) \
  ND_INLINE nd_u8v nd_bits_##T##v(nd_f32v x) { return nd_from32_u8v((nd_i32v)nd_encode(x, row, rounding)); } \
  ND_INLINE nd_f32v nd_from_bits_##T##v(nd_u8v b) { \
    return nd_decode(nd_to32_u8v(b), 8, fraction, bias, infinity, nan, fnuz); \
  }
#define nd_bits_fp8e5v nd_bits_sat_fp8e5v
ND_BITS_FP8(fp8e5, ND_FP8E5_ROW, ND_NEAREST, 0x7c, 0, 0, 2, 15)
#undef nd_bits_fp8e5v
/* A conversion saturates; an infinity that was read, or made of bits, is one of the type's numbers and stays. */
ND_INLINE nd_u8v nd_bits_fp8e5v(nd_f32v x) {
  nd_i32v infinite = nd_abs_f32v(x) == nd_splat_f32v(__builtin_inff());
  nd_i32v sign = (nd_i32v)((nd_u32v)x >> 24) & 0x80;
  return nd_from32_u8v(nd_select_i32v(infinite, sign | 0x7c, (nd_i32v)nd_to32_u8v(nd_bits_sat_fp8e5v(x))));
}
ND_BITS_FP8(fp8e4nv, ND_FP8E4NV_ROW, ND_NEAREST, 0, 0x7f, 0, 3, 7)
#define nd_bits_fp8e4b15v nd_bits_sat_fp8e4b15v
ND_BITS_FP8(fp8e4b15, ND_FP8E4B15_ROW, ND_AWAY, 0, 0, 0, 3, 15)
#undef nd_bits_fp8e4b15v
/* Likewise 1.875, which no conversion gives. */
ND_INLINE nd_u8v nd_bits_fp8e4b15v(nd_f32v x) {
  nd_i32v largest = nd_abs_f32v(x) == nd_splat_f32v(1.875f);
  nd_i32v sign = (nd_i32v)((nd_u32v)x >> 24) & 0x80;
  return nd_from32_u8v(nd_select_i32v(largest, sign | 0x7f, (nd_i32v)nd_to32_u8v(nd_bits_sat_fp8e4b15v(x))));
}
ND_BITS_FP8(fp8e4b8, ND_FP8E4B8_ROW, ND_NEAREST, 0, 0, 1, 3, 8)
ND_BITS_FP8(fp8e5b16, ND_FP8E5B16_ROW, ND_NEAREST, 0, 0, 1, 2, 16)
#undef ND_BITS_FP8

/* X(type, integer of its bits) */
#define ND_NARROW(X) X(f16, u16) X(bf16, u16) X(fp8e5, u8) X(fp8e4nv, u8) X(fp8e4b15, u8) X(fp8e4b8, u8) X(fp8e5b16, u8)

/* f64 -> f32 so that a second rounding, to any narrower type, is right: to odd. What lies between two f32 becomes the
 * one whose last bit is 1, which no rounding to fewer bits takes for a tie. */
ND_INLINE nd_f32v nd_odd_f64v(nd_f64v x) {
  nd_f32v r = __builtin_convertvector(x, nd_f32v);
  nd_f64v back = __builtin_convertvector(r, nd_f64v);
  nd_mask away = nd_gt_f64v(nd_abs_f64v(back), nd_abs_f64v(x)), inexact = nd_ne_f64v(back, x) & ~(r != r);
  nd_i32v bits = (nd_i32v)r + away; /* the nearer to zero of the two; infinity becomes the largest */
  return (nd_f32v)nd_select_i32v(inexact, bits | 1, bits);
}
ND_INLINE nd_f32v nd_cvtz_f32_f64v(nd_f64v x) {
  nd_f32v r = __builtin_convertvector(x, nd_f32v);
  nd_f64v back = __builtin_convertvector(r, nd_f64v);
  return (nd_f32v)((nd_i32v)r + nd_gt_f64v(nd_abs_f64v(back), nd_abs_f64v(x)));
}

/* a * b + c of narrow floats so that rounding it to their type is right: the product is exact as a double, and the sum
 * is rounded to odd. */
ND_INLINE nd_f64v nd_fma_odd(nd_f32v a, nd_f32v b, nd_f32v c) {
  nd_f64v x = __builtin_convertvector(a, nd_f64v) * __builtin_convertvector(b, nd_f64v);
  nd_f64v y = __builtin_convertvector(c, nd_f64v), s = x + y, t = s - x, lost = (x - (s - t)) + (y - t);
  nd_mask inexact = nd_lt_f64v(lost, (nd_f64v){0}) | nd_gt_f64v(lost, (nd_f64v){0});
  nd_i64v bits = (nd_i64v)s, outwards = (bits ^ (nd_i64v)lost) >> 63 | 1; /* 1, or -1 where the signs differ */
  return (nd_f64v)nd_select_i64v(inexact, bits + (outwards & ((bits & 1) - 1)), bits);
}

/* ---- numbers: integers from and to integers and floats ----------------------------------------------------------- */

/* All pairs by way of 32 bits (nereid_vec.h has those of 8 and 16), so that no step changes the width more than twice.
 */
#define nd_to32_i32v(x) (x)
#define nd_to32_u32v(x) (x)
#define nd_to32_i64v(x) (x)
#define nd_to32_u64v(x) (x)
#define nd_to32_f32v(x) (x)
#define nd_to32_f64v(x) (x)

#define ND_CVT(to, from) \
  ND_INLINE nd_##to##v nd_cvt_##to##_##from##v(nd_##from##v x) { \
    return __builtin_convertvector(nd_to32_##from##v(x), nd_##to##v); \
  } \
  ND_INLINE nd_##to nd_cvt_##to##_##from(nd_##from x) { return (nd_##to)x; }
#define ND_CVT_LOW(to, from) /* to 8 and 16 bits */ \
  ND_INLINE nd_##to##v nd_cvt_##to##_##from##v(nd_##from##v x) { \
    return nd_from32_##to##v(__builtin_convertvector(nd_to32_##from##v(x), nd_i32v)); \
  } \
  ND_INLINE nd_##to nd_cvt_##to##_##from(nd_##from x) { return (nd_##to)x; }
#define ND_CVT_SELF(T) \
  ND_INLINE nd_##T##v nd_cvt_##T##_##T##v(nd_##T##v x) { return x; } \
  ND_INLINE nd_##T nd_cvt_##T##_##T(nd_##T x) { return x; }
#define ND_CVT_OTHERS(from) /* from an integer */ \
  ND_CVT_LOW(i8, from) \
  ND_CVT_LOW(i16, from) \
  ND_CVT(i32, from) \
  ND_CVT(i64, from) \
  ND_CVT_LOW(u8, from) ND_CVT_LOW(u16, from) ND_CVT(u32, from) ND_CVT(u64, from) ND_CVT(f32, from) ND_CVT(f64, from)
ND_INTS(ND_CVT_OTHERS)
ND_CVT_SELF(f32)
ND_CVT_SELF(f64)
ND_CVT(f32, f64)
ND_CVT(f64, f32)
ND_INLINE nd_mask nd_cvt_i1_i1v(nd_mask m) { return m; }
ND_INLINE nd_i1 nd_cvt_i1_i1(nd_i1 x) { return x != 0; }
#define ND_CVT_I1(T) \
  ND_INLINE nd_mask nd_cvt_i1_##T##v(nd_##T##v x) { return nd_ne_##T##v(x, (nd_##T##v){0}); } \
  ND_INLINE nd_i1 nd_cvt_i1_##T(nd_##T x) { return x != 0; } \
  ND_INLINE nd_##T##v nd_cvt_##T##_i1v(nd_mask m) { return nd_cvt_##T##_i32v(-m); } \
  ND_INLINE nd_##T nd_cvt_##T##_i1(nd_i1 x) { return (nd_##T)(x != 0); }
ND_INTS(ND_CVT_I1)
ND_CVT_I1(f32)
ND_CVT_I1(f64)
#undef ND_CVT
#undef ND_CVT_LOW
#undef ND_CVT_SELF
#undef ND_CVT_OTHERS
#undef ND_CVT_I1

/* A float to an integer: what C leaves undefined is taken out first and its answer put in. first is the least number,
 * as a float; end is one past the greatest, which a float always holds. */
ND_INLINE nd_i32v nd_cvt_i32_f32v(nd_f32v x) {
  nd_i32v high = x >= 0x1p31f, low = x < -0x1p31f, inside = (nd_i32v)(x < 0x1p31f) & ~low;
  nd_i32v r = __builtin_convertvector((nd_f32v)((nd_i32v)x & inside), nd_i32v);
  return r | (high & INT32_MAX) | (low & INT32_MIN);
}
ND_INLINE nd_i64v nd_cvt_i64_f64v(nd_f64v x) {
  nd_f64u a = {x};
  nd_i64u r;
  ND_EACH_PART(nd_i64p high = a.p[k] >= 0x1p63; nd_i64p low = a.p[k] < -0x1p63;
               nd_i64p inside = (nd_i64p)(a.p[k] < 0x1p63) & ~low;
               r.p[k] = __builtin_convertvector((nd_f64p)((nd_i64p)a.p[k] & inside), nd_i64p) | (high & INT64_MAX) |
                        (low & INT64_MIN))
  return r.v;
}
ND_INLINE nd_u64v nd_cvt_u64_f64v(nd_f64v x) {
  nd_f64u a = {x};
  nd_u64u r;
  ND_EACH_PART(nd_i64p high = a.p[k] >= 0x1p64; nd_i64p inside = (a.p[k] < 0x1p64) & (a.p[k] > 0);
               r.p[k] = __builtin_convertvector((nd_f64p)((nd_i64p)a.p[k] & inside), nd_u64p) | (nd_u64p)high)
  return r.v;
}
ND_INLINE nd_i64v nd_cvt_i64_f32v(nd_f32v x) { return nd_cvt_i64_f64v(nd_cvt_f64_f32v(x)); }
ND_INLINE nd_u64v nd_cvt_u64_f32v(nd_f32v x) { return nd_cvt_u64_f64v(nd_cvt_f64_f32v(x)); }
/* The narrower ones by way of a type that holds their range, kept within it there. */
#define ND_CVT_NARROW(to, from, wide, first, last) \
  ND_INLINE nd_##to##v nd_cvt_##to##_##from##v(nd_##from##v x) { \
    nd_##wide##v w = nd_cvt_##wide##_##from##v(x); \
    w = nd_max_##wide##v(nd_min_##wide##v(w, nd_splat_##wide##v(last)), nd_splat_##wide##v(first)); \
    return nd_cvt_##to##_##wide##v(w); \
  }
ND_CVT_NARROW(i8, f32, i32, INT8_MIN, INT8_MAX)
ND_CVT_NARROW(u8, f32, i32, 0, UINT8_MAX)
ND_CVT_NARROW(i16, f32, i32, INT16_MIN, INT16_MAX)
ND_CVT_NARROW(u16, f32, i32, 0, UINT16_MAX)
ND_CVT_NARROW(u32, f32, i64, 0, UINT32_MAX)
ND_CVT_NARROW(i8, f64, i64, INT8_MIN, INT8_MAX)
ND_CVT_NARROW(u8, f64, i64, 0, UINT8_MAX)
ND_CVT_NARROW(i16, f64, i64, INT16_MIN, INT16_MAX)
ND_CVT_NARROW(u16, f64, i64, 0, UINT16_MAX)
ND_CVT_NARROW(i32, f64, i64, INT32_MIN, INT32_MAX)
ND_CVT_NARROW(u32, f64, i64, 0, UINT32_MAX)
#undef ND_CVT_NARROW
#define ND_CVT_SCALAR(to, from) \
  ND_INLINE nd_##to nd_cvt_##to##_##from(nd_##from x) { return nd_cvt_##to##_##from##v(nd_splat_##from##v(x))[0]; }
#define ND_CVT_SCALARS(T) ND_CVT_SCALAR(T, f32) ND_CVT_SCALAR(T, f64)
ND_INTS(ND_CVT_SCALARS)
#undef ND_CVT_SCALARS

/* ---- numbers to narrow floats: values kept as f32, rounded to what the type can represent ------------------------ */

/* An integer is exact as an f32, or so large that every narrow type but bf16 overflows. For bf16 it goes through a
 * double and, beyond 53 bits, with the low ten bits gathered into one that says "not exact". */
ND_INLINE nd_i64v nd_sticky_i64v(nd_i64v x) {
  nd_i64v low = x & 1023, sticky = (x & ~(nd_i64v)nd_splat_i64v(1023)) | ((low + 1023) & 1024);
  return nd_select_i64v(
      nd_gt_i64v(nd_abs_i64v(x), nd_splat_i64v(INT64_C(1) << 53)) | nd_eq_i64v(x, nd_splat_i64v(INT64_MIN)), sticky, x);
}
ND_INLINE nd_u64v nd_sticky_u64v(nd_u64v x) {
  nd_u64v low = x & 1023, sticky = (x & ~(uint64_t)1023) | ((low + 1023) & 1024);
  return nd_select_u64v(nd_gt_u64v(x, nd_splat_u64v(UINT64_C(1) << 53)), sticky, x);
}
#define nd_round_f16 nd_bits_f16v
#define nd_round_bf16 nd_bits_bf16v
#define nd_round_fp8e5 nd_bits_sat_fp8e5v
#define nd_round_fp8e4nv nd_bits_fp8e4nvv
#define nd_round_fp8e4b15 nd_bits_sat_fp8e4b15v
#define nd_round_fp8e4b8 nd_bits_fp8e4b8v
#define nd_round_fp8e5b16 nd_bits_fp8e5b16v
#define ND_CVT_ROUND(T, U) \
  ND_INLINE nd_##U nd_bits_##T(nd_##T x) { return nd_bits_##T##v(nd_splat_f32v(x))[0]; } \
  ND_INLINE nd_##T nd_from_bits_##T(nd_##U b) { return nd_from_bits_##T##v(nd_splat_##U##v(b))[0]; } \
  ND_INLINE nd_f32v nd_cvt_##T##_f32v(nd_f32v x) { return nd_from_bits_##T##v(nd_round_##T(x)); } \
  ND_INLINE nd_f32v nd_cvt_##T##_f64v(nd_f64v x) { return nd_cvt_##T##_f32v(nd_odd_f64v(x)); } \
  ND_INLINE nd_f32v nd_cvt_##T##_i1v(nd_mask x) { return nd_cvt_f32_i1v(x); } \
  ND_CVT_SCALAR(T, f32) ND_CVT_SCALAR(T, f64) ND_INLINE nd_##T nd_cvt_##T##_i1(nd_i1 x) { return x != 0; }
#define ND_CVT_INT(T, from) \
  ND_INLINE nd_f32v nd_cvt_##T##_##from##v(nd_##from##v x) { return nd_cvt_##T##_f32v(nd_cvt_f32_##from##v(x)); } \
  ND_CVT_SCALAR(T, from)
#define ND_CVT_ROUND_INTS(T, U) \
  ND_CVT_ROUND(T, U) \
  ND_CVT_INT(T, i8) \
  ND_CVT_INT(T, i16) \
  ND_CVT_INT(T, i32) ND_CVT_INT(T, i64) ND_CVT_INT(T, u8) ND_CVT_INT(T, u16) ND_CVT_INT(T, u32) ND_CVT_INT(T, u64)
#define ND_CVT_BF16(from, sticky) \
  ND_INLINE nd_f32v nd_cvt_bf16_##from##v(nd_##from##v x) { \
    return nd_cvt_bf16_f64v(nd_cvt_f64_##from##v(sticky(x))); \
  } \
  ND_CVT_SCALAR(bf16, from)
ND_CVT_ROUND_INTS(f16, u16)
ND_CVT_ROUND_INTS(fp8e5, u8)
ND_CVT_ROUND_INTS(fp8e4nv, u8)
ND_CVT_ROUND_INTS(fp8e4b15, u8)
ND_CVT_ROUND_INTS(fp8e4b8, u8)
ND_CVT_ROUND_INTS(fp8e5b16, u8)
ND_CVT_ROUND(bf16, u16)
ND_CVT_INT(bf16, i8)
ND_CVT_INT(bf16, i16)
ND_CVT_INT(bf16, u8)
ND_CVT_INT(bf16, u16)
ND_CVT_BF16(i32, )
ND_CVT_BF16(u32, )
ND_CVT_BF16(i64, nd_sticky_i64v)
ND_CVT_BF16(u64, nd_sticky_u64v)
#define ND_CVTZ(T, from, to_f32) \
  ND_INLINE nd_f32v nd_cvtz_##T##_##from##v(nd_##from##v x) { \
    return nd_from_bits_##T##v(nd_bits_rtz_##T##v(to_f32(x))); \
  } \
  ND_INLINE nd_##T nd_cvtz_##T##_##from(nd_##from x) { return nd_cvtz_##T##_##from##v(nd_splat_##from##v(x))[0]; }
ND_CVTZ(f16, f32, )
ND_CVTZ(bf16, f32, )
ND_CVTZ(f16, f64, nd_cvtz_f32_f64v)
ND_CVTZ(bf16, f64, nd_cvtz_f32_f64v)
ND_INLINE float nd_cvtz_f32_f64(double x) { return nd_cvtz_f32_f64v(nd_splat_f64v(x))[0]; }
#undef ND_CVT_SCALAR
#undef ND_CVT_ROUND
#undef ND_CVT_ROUND_INTS
#undef ND_CVT_INT
#undef ND_CVT_BF16
#undef ND_CVTZ

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

#define ND_ARRAYS(T, U) \
  ND_NOINLINE void nd_widen_##T(float *dst, const void *src, int64_t n) { \
    const nd_##U *s = src; \
    int64_t i = 0; \
    for (; i + ND_VL <= n; i += ND_VL) *(nd_f32vu *)(dst + i) = nd_from_bits_##T##v(*(const nd_##U##vu *)(s + i)); \
    for (; i < n; i++) dst[i] = nd_from_bits_##T(s[i]); \
  } \
  ND_NOINLINE void nd_narrow_##T(void *dst, const float *src, int64_t n) { \
    nd_##U *d = dst; \
    int64_t i = 0; \
    for (; i + ND_VL <= n; i += ND_VL) *(nd_##U##vu *)(d + i) = nd_bits_##T##v(*(const nd_f32vu *)(src + i)); \
    for (; i < n; i++) d[i] = nd_bits_##T(src[i]); \
  }
ND_NARROW(ND_ARRAYS)
#undef ND_ARRAYS

#endif
