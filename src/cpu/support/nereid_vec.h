/* nereid_vec: vectors of ND_VL lanes, whatever the element's width. Needs nereid_cpu.h, whose table lists the
 * functions.
 *
 * An f32v or i32v is one register. Narrower elements leave a register part empty. A vector of 64-bit elements is
 * ND_PARTS registers, as a GNU vector type twice as wide as the machine's: gcc adds and multiplies those well but takes
 * comparisons lane by lane, which is why comparing and choosing go part by part here.
 */
#ifndef NEREID_VEC_H
#define NEREID_VEC_H

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define ND_AVX512 1
#define ND_REG 64 /* bytes of a register */
#elif defined(__AVX2__)
#define ND_AVX2 1
#define ND_REG 32
#else
#define ND_REG 16
#endif
#if defined(__SSE2__)
#define ND_X86 1
#include <immintrin.h>
#endif
#if defined(ND_WIDE) && ND_REG > 16
#define ND_VL (ND_REG / 8)
#else
#define ND_VL (ND_REG / 4)
#endif
#define ND_PARTS (ND_VL * 8 / ND_REG)
#define ND_PL (ND_REG / 8) /* 64-bit lanes in a register */

/* ND_MM(op): the intrinsic op on an f32v or i32v; ND_MM64(op): on one part of an f64v or i64v. */
#if ND_VL == 16
#define ND_MM(op) _mm512_##op
#define ND_MI __m512i
#define ND_MH __m256i /* half of it: as many 16-bit lanes */
#elif ND_VL == 8
#define ND_MM(op) _mm256_##op
#define ND_MI __m256i
#define ND_MH __m128i
#else
#define ND_MM(op) _mm_##op
#define ND_MI __m128i
#endif
#if ND_REG == 64
#define ND_MM64(op) _mm512_##op
#define ND_MI64 __m512i
#elif ND_REG == 32
#define ND_MM64(op) _mm256_##op
#define ND_MI64 __m256i
#else
#define ND_MM64(op) _mm_##op
#define ND_MI64 __m128i
#endif

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* nd_Tv, and nd_Tvu for one anywhere in memory. None is aligned to more than a register. */
#define ND_ALIGN(bytes) (ND_VL * (bytes) < ND_REG ? ND_VL * (bytes) : ND_REG)
#define ND_VECTOR(T) \
  typedef nd_##T nd_##T##v __attribute__((vector_size(ND_VL * sizeof(nd_##T)), aligned(ND_ALIGN(sizeof(nd_##T))))); \
  typedef nd_##T##v nd_##T##vu __attribute__((aligned(1), may_alias));
ND_INTS(ND_VECTOR)
ND_VECTOR(f32)
ND_VECTOR(f64)
#undef ND_VECTOR
typedef nd_i32v nd_mask, nd_i1v;
typedef nd_f32v nd_f16v, nd_bf16v, nd_fp8e5v, nd_fp8e4nvv, nd_fp8e4b15v, nd_fp8e4b8v, nd_fp8e5b16v;

/* One register of 64-bit elements, and as many 32-bit ones. */
typedef nd_f64 nd_f64p __attribute__((vector_size(ND_REG)));
typedef nd_i64 nd_i64p __attribute__((vector_size(ND_REG)));
typedef nd_u64 nd_u64p __attribute__((vector_size(ND_REG)));
typedef nd_i32 nd_i32p __attribute__((vector_size(ND_REG / 2)));
typedef union {
  nd_f64v v;
  nd_f64p p[ND_PARTS];
} nd_f64u;
typedef union {
  nd_i64v v;
  nd_i64p p[ND_PARTS];
} nd_i64u;
typedef union {
  nd_u64v v;
  nd_u64p p[ND_PARTS];
} nd_u64u;
typedef union {
  nd_i32v v;
  nd_i32p p[ND_PARTS];
} nd_i32u;

/* An expression that holds part k, for each part. */
#if ND_PARTS == 2
#define ND_EACH_PART(...) \
  { \
    enum { k = 0 }; \
    __VA_ARGS__; \
  } \
  { \
    enum { k = 1 }; \
    __VA_ARGS__; \
  }
#else
#define ND_EACH_PART(...) \
  { \
    enum { k = 0 }; \
    __VA_ARGS__; \
  }
#endif

/* F(0), F(1), ... F(ND_VL - 1) */
#if ND_VL == 16
#define ND_SEQ(F) F(0), F(1), F(2), F(3), F(4), F(5), F(6), F(7), F(8), F(9), F(10), F(11), F(12), F(13), F(14), F(15)
#elif ND_VL == 8
#define ND_SEQ(F) F(0), F(1), F(2), F(3), F(4), F(5), F(6), F(7)
#else
#define ND_SEQ(F) F(0), F(1), F(2), F(3)
#endif

#define ND_SELF(i) (i)
ND_INLINE nd_i32v nd_iota_i32v(void) { return (nd_i32v){ND_SEQ(ND_SELF)}; }
ND_INLINE nd_i64v nd_iota_i64v(void) { return (nd_i64v){ND_SEQ(ND_SELF)}; }

/* Lane by lane through a scalar function; R: the result's vector type. The operands are evaluated once. */
#define ND_MAP1(R, f, x) \
  (__extension__({ \
    R nd_r; \
    __typeof__(x) nd_x = (x); \
    for (int nd_i = 0; nd_i < ND_VL; nd_i++) nd_r[nd_i] = f(nd_x[nd_i]); \
    nd_r; \
  }))
#define ND_MAP2(R, f, x, y) \
  (__extension__({ \
    R nd_r; \
    __typeof__(x) nd_x = (x); \
    __typeof__(y) nd_y = (y); \
    for (int nd_i = 0; nd_i < ND_VL; nd_i++) nd_r[nd_i] = f(nd_x[nd_i], nd_y[nd_i]); \
    nd_r; \
  }))
#define ND_MAP3(R, f, x, y, z) \
  (__extension__({ \
    R nd_r; \
    __typeof__(x) nd_x = (x); \
    __typeof__(y) nd_y = (y); \
    __typeof__(z) nd_z = (z); \
    for (int nd_i = 0; nd_i < ND_VL; nd_i++) nd_r[nd_i] = f(nd_x[nd_i], nd_y[nd_i], nd_z[nd_i]); \
    nd_r; \
  }))
#define ND_MAP4(R, f, x, y, z, w) \
  (__extension__({ \
    R nd_r; \
    __typeof__(x) nd_x = (x); \
    __typeof__(y) nd_y = (y); \
    __typeof__(z) nd_z = (z); \
    __typeof__(w) nd_w = (w); \
    for (int nd_i = 0; nd_i < ND_VL; nd_i++) nd_r[nd_i] = f(nd_x[nd_i], nd_y[nd_i], nd_z[nd_i], nd_w[nd_i]); \
    nd_r; \
  }))

/* ---- widths ------------------------------------------------------------------------------------------------------ */

/* nd_to32_Tv: 8 and 16 bits as 32, by the type's sign; nd_from32_Tv: back, dropping what is above. gcc takes a step of
 * more than a factor of two lane by lane, so there are two steps where there is no instruction for one. */
#define ND_TO32(T, W, U, way) \
  ND_INLINE nd_##W##v nd_to32_##T##v(nd_##T##v x) { return way(T, W, U); }
#define ND_ONE_STEP(T, W, U) __builtin_convertvector(x, nd_##W##v)
#define ND_TWO_STEPS(T, W, U) __builtin_convertvector(__builtin_convertvector(x, nd_##U##v), nd_##W##v)
#if ND_VL == 16
ND_INLINE nd_i32v nd_to32_i8v(nd_i8v x) { return (nd_i32v)_mm512_cvtepi8_epi32((__m128i)x); }
ND_INLINE nd_u32v nd_to32_u8v(nd_u8v x) { return (nd_u32v)_mm512_cvtepu8_epi32((__m128i)x); }
ND_INLINE nd_i8v nd_from32_i8v(nd_i32v x) { return (nd_i8v)_mm512_cvtepi32_epi8((__m512i)x); }
#else
ND_TO32(i8, i32, i16, ND_TWO_STEPS)
ND_TO32(u8, u32, u16, ND_TWO_STEPS)
ND_INLINE nd_i8v nd_from32_i8v(nd_i32v x) {
  return __builtin_convertvector(__builtin_convertvector(x, nd_i16v), nd_i8v);
}
#endif
#if ND_VL > 4
ND_INLINE nd_i32v nd_to32_i16v(nd_i16v x) { return (nd_i32v)ND_MM(cvtepi16_epi32)((ND_MH)x); }
ND_INLINE nd_u32v nd_to32_u16v(nd_u16v x) { return (nd_u32v)ND_MM(cvtepu16_epi32)((ND_MH)x); }
#else
ND_TO32(i16, i32, , ND_ONE_STEP)
ND_TO32(u16, u32, , ND_ONE_STEP)
#endif
#if ND_VL > 4 && defined(ND_AVX512)
ND_INLINE nd_i16v nd_from32_i16v(nd_i32v x) { return (nd_i16v)ND_MM(cvtepi32_epi16)((ND_MI)x); }
#else
ND_INLINE nd_i16v nd_from32_i16v(nd_i32v x) { return __builtin_convertvector(x, nd_i16v); }
#endif
ND_INLINE nd_u8v nd_from32_u8v(nd_i32v x) { return (nd_u8v)nd_from32_i8v(x); }
ND_INLINE nd_u16v nd_from32_u16v(nd_i32v x) { return (nd_u16v)nd_from32_i16v(x); }
#undef ND_TO32

/* ---- masks ------------------------------------------------------------------------------------------------------- */

ND_INLINE uint32_t nd_mask_bits(nd_mask m) { /* bit i: lane i */
#if defined(ND_AVX512)
  return (uint32_t)ND_MM(movepi32_mask)((ND_MI)m);
#elif defined(ND_X86)
#if ND_VL == 8
  return (uint32_t)_mm256_movemask_ps((__m256)m);
#else
  return (uint32_t)_mm_movemask_ps((__m128)m);
#endif
#else
  uint32_t bits = 0;
  for (int i = 0; i < ND_VL; i++) bits |= (uint32_t)(m[i] & 1) << i;
  return bits;
#endif
}
#define ND_ALL_LANES ((1u << ND_VL) - 1)
ND_INLINE int nd_all(nd_mask m) { return nd_mask_bits(m) == ND_ALL_LANES; }
ND_INLINE int nd_any(nd_mask m) { return nd_mask_bits(m) != 0; }
ND_INLINE int nd_none(nd_mask m) { return nd_mask_bits(m) == 0; }
ND_INLINE int nd_count(nd_mask m) { return __builtin_popcount(nd_mask_bits(m)); }

/* ---- splat, select ----------------------------------------------------------------------------------------------- */

#define ND_SPLAT(T) \
  ND_INLINE nd_##T##v nd_splat_##T##v(nd_##T x) { return x - (nd_##T##v){0}; }
ND_INTS(ND_SPLAT)
#undef ND_SPLAT
/* not x - 0, which a signalling NaN or a compiler with strict traps would mind */
ND_INLINE nd_f32v nd_splat_f32v(float x) { return (nd_f32v)nd_splat_i32v(nd_cast_i32_f32(x)); }
ND_INLINE nd_f64v nd_splat_f64v(double x) { return (nd_f64v)nd_splat_i64v(nd_cast_i64_f64(x)); }
ND_INLINE nd_mask nd_splat_i1v(int x) { return nd_splat_i32v(x ? -1 : 0); }

ND_INLINE nd_mask nd_first(int64_t n) {
  return nd_iota_i32v() < nd_splat_i32v((int32_t)(n > ND_VL ? ND_VL : n < 0 ? 0 : n));
}

ND_INLINE nd_i32v nd_select_i32v(nd_mask m, nd_i32v a, nd_i32v b) {
#if defined(ND_AVX512)
  return (nd_i32v)ND_MM(mask_blend_epi32)(ND_MM(movepi32_mask)((ND_MI)m), (ND_MI)b, (ND_MI)a);
#else
  return (m & a) | (~m & b);
#endif
}
ND_INLINE nd_i64v nd_select_i64v(nd_mask m, nd_i64v a, nd_i64v b) {
  nd_i64u x = {a}, y = {b}, r;
#if defined(ND_AVX512)
  uint32_t bits = nd_mask_bits(m);
  ND_EACH_PART(r.p[k] = (nd_i64p)_mm512_mask_blend_epi64((__mmask8)(bits >> 8 * k), (__m512i)y.p[k], (__m512i)x.p[k]))
#else
  nd_i32u n = {m};
  ND_EACH_PART(nd_i64p w = __builtin_convertvector(n.p[k], nd_i64p); r.p[k] = (w & x.p[k]) | (~w & y.p[k]))
#endif
  return r.v;
}
#define ND_SELECT_NARROW(T) \
  ND_INLINE nd_##T##v nd_select_##T##v(nd_mask m, nd_##T##v a, nd_##T##v b) { \
    nd_##T##v n = nd_from32_##T##v(m); \
    return (n & a) | (~n & b); \
  }
ND_SELECT_NARROW(i8)
ND_SELECT_NARROW(i16)
#undef ND_SELECT_NARROW
#define ND_SELECT_AS(T, I) \
  ND_INLINE nd_##T##v nd_select_##T##v(nd_mask m, nd_##T##v a, nd_##T##v b) { \
    return (nd_##T##v)nd_select_##I##v(m, (nd_##I##v)a, (nd_##I##v)b); \
  }
ND_SELECT_AS(u8, i8)
ND_SELECT_AS(u16, i16)
ND_SELECT_AS(u32, i32)
ND_SELECT_AS(u64, i64)
ND_SELECT_AS(f32, i32)
ND_SELECT_AS(f64, i64)
#undef ND_SELECT_AS
ND_INLINE nd_mask nd_select_i1v(nd_mask m, nd_mask a, nd_mask b) { return (m & a) | (~m & b); }

/* ---- comparisons ------------------------------------------------------------------------------------------------- */

#define ND_COMPARES(X, T) X(T, eq, ==) X(T, ne, !=) X(T, lt, <) X(T, le, <=) X(T, gt, >) X(T, ge, >=)
#define ND_COMPARE32(T, name, op) \
  ND_INLINE nd_mask nd_##name##_##T##v(nd_##T##v a, nd_##T##v b) { return (nd_mask)(a op b); }
#define ND_COMPARE8(T, name, op) \
  ND_INLINE nd_mask nd_##name##_##T##v(nd_##T##v a, nd_##T##v b) { return nd_to32_i8v((nd_i8v)(a op b)); }
#define ND_COMPARE16(T, name, op) \
  ND_INLINE nd_mask nd_##name##_##T##v(nd_##T##v a, nd_##T##v b) { return nd_to32_i16v((nd_i16v)(a op b)); }
#define ND_COMPARE64(T, name, op) \
  ND_INLINE nd_mask nd_##name##_##T##v(nd_##T##v a, nd_##T##v b) { \
    nd_##T##u x = {a}, y = {b}; \
    nd_i32u r; \
    ND_EACH_PART(r.p[k] = __builtin_convertvector(x.p[k] op y.p[k], nd_i32p)) \
    return r.v; \
  }
ND_COMPARES(ND_COMPARE32, i32)
ND_COMPARES(ND_COMPARE32, u32)
ND_COMPARES(ND_COMPARE32, f32)
ND_COMPARES(ND_COMPARE8, i8)
ND_COMPARES(ND_COMPARE8, u8)
ND_COMPARES(ND_COMPARE16, i16)
ND_COMPARES(ND_COMPARE16, u16)
ND_COMPARES(ND_COMPARE64, i64)
ND_COMPARES(ND_COMPARE64, u64)
ND_COMPARES(ND_COMPARE64, f64)
ND_INLINE nd_mask nd_eq_i1v(nd_mask a, nd_mask b) { return ~(a ^ b); }
ND_INLINE nd_mask nd_ne_i1v(nd_mask a, nd_mask b) { return a ^ b; }
ND_INLINE nd_mask nd_lt_i1v(nd_mask a, nd_mask b) { return ~a & b; }
ND_INLINE nd_mask nd_le_i1v(nd_mask a, nd_mask b) { return ~a | b; }
ND_INLINE nd_mask nd_gt_i1v(nd_mask a, nd_mask b) { return a & ~b; }
ND_INLINE nd_mask nd_ge_i1v(nd_mask a, nd_mask b) { return a | ~b; }

/* ---- integers ---------------------------------------------------------------------------------------------------- */

#define ND_INT_OPS(T) \
  ND_INLINE nd_##T##v nd_min_##T##v(nd_##T##v a, nd_##T##v b) { return nd_select_##T##v(nd_lt_##T##v(a, b), a, b); } \
  ND_INLINE nd_##T##v nd_max_##T##v(nd_##T##v a, nd_##T##v b) { return nd_select_##T##v(nd_gt_##T##v(a, b), a, b); } \
  ND_INLINE nd_##T##v nd_neg_##T##v(nd_##T##v a) { return -a; } \
  ND_INLINE nd_##T##v nd_lanes_div_##T##v(nd_##T##v a, nd_##T##v b) { return ND_MAP2(nd_##T##v, nd_div_##T, a, b); } \
  ND_INLINE nd_##T##v nd_lanes_mulhi_##T##v(nd_##T##v a, nd_##T##v b) { return ND_MAP2(nd_##T##v, nd_mulhi_##T, a, b); }
ND_INTS(ND_INT_OPS)
#undef ND_INT_OPS

#define ND_ABS_SIGNED(T) \
  ND_INLINE nd_##T##v nd_abs_##T##v(nd_##T##v a) { return nd_max_##T##v(a, -a); }
#define ND_ABS_UNSIGNED(T) \
  ND_INLINE nd_##T##v nd_abs_##T##v(nd_##T##v a) { return a; }
ND_SIGNED(ND_ABS_SIGNED)
ND_UNSIGNED(ND_ABS_UNSIGNED)
#undef ND_ABS_SIGNED
#undef ND_ABS_UNSIGNED

/* x / 0 is x and x % 0 is 0: what a divisor of 1 gives. nd_quotient_Tv is for divisors that are not 0.
 *
 * 32-bit quotients by way of doubles, exact since a quotient of 32-bit integers is never so near to the next integer
 * that rounding to 53 bits would reach it. INT_MIN / -1 leaves the range: the conversion then gives INT_MIN, as it
 * must.
 */
#if defined(ND_AVX512)
ND_INLINE nd_i32v nd_quotient_i32v(nd_i32v a, nd_i32v b) {
  nd_i32u x = {a}, y = {b}, r;
  ND_EACH_PART(r.p[k] = (nd_i32p)_mm512_cvttpd_epi32(
                   _mm512_div_pd(_mm512_cvtepi32_pd((__m256i)x.p[k]), _mm512_cvtepi32_pd((__m256i)y.p[k]))))
  return r.v;
}
ND_INLINE nd_u32v nd_quotient_u32v(nd_u32v a, nd_u32v b) {
  nd_i32u x = {(nd_i32v)a}, y = {(nd_i32v)b}, r;
  ND_EACH_PART(r.p[k] = (nd_i32p)_mm512_cvttpd_epu32(
                   _mm512_div_pd(_mm512_cvtepu32_pd((__m256i)x.p[k]), _mm512_cvtepu32_pd((__m256i)y.p[k]))))
  return (nd_u32v)r.v;
}
#elif defined(ND_AVX2)
ND_INLINE nd_i32v nd_quotient_i32v(nd_i32v a, nd_i32v b) {
  nd_i32u x = {a}, y = {b}, r;
  ND_EACH_PART(r.p[k] = (nd_i32p)_mm256_cvttpd_epi32(
                   _mm256_div_pd(_mm256_cvtepi32_pd((__m128i)x.p[k]), _mm256_cvtepi32_pd((__m128i)y.p[k]))))
  return r.v;
}
ND_INLINE nd_u32v nd_quotient_u32v(nd_u32v a, nd_u32v b) { return nd_lanes_div_u32v(a, b); }
#else
ND_INLINE nd_i32v nd_quotient_i32v(nd_i32v a, nd_i32v b) { return nd_lanes_div_i32v(a, b); }
ND_INLINE nd_u32v nd_quotient_u32v(nd_u32v a, nd_u32v b) { return nd_lanes_div_u32v(a, b); }
#endif
#define ND_QUOTIENT_NARROW(T) \
  ND_INLINE nd_##T##v nd_quotient_##T##v(nd_##T##v a, nd_##T##v b) { \
    return nd_from32_##T##v(nd_quotient_i32v((nd_i32v)nd_to32_##T##v(a), (nd_i32v)nd_to32_##T##v(b))); \
  }
ND_QUOTIENT_NARROW(i8)
ND_QUOTIENT_NARROW(i16)
ND_QUOTIENT_NARROW(u8)
ND_QUOTIENT_NARROW(u16)
#undef ND_QUOTIENT_NARROW
#define ND_DIV(T) \
  ND_INLINE nd_##T##v nd_divisor_##T##v(nd_##T##v b) { return b - (nd_##T##v)(b == 0); } \
  ND_INLINE nd_##T##v nd_div_##T##v(nd_##T##v a, nd_##T##v b) { return nd_quotient_##T##v(a, nd_divisor_##T##v(b)); } \
  ND_INLINE nd_##T##v nd_rem_##T##v(nd_##T##v a, nd_##T##v b) { \
    b = nd_divisor_##T##v(b); \
    return a - nd_quotient_##T##v(a, b) * b; \
  }
ND_DIV(i8)
ND_DIV(i16)
ND_DIV(i32)
ND_DIV(u8)
ND_DIV(u16)
ND_DIV(u32)
#undef ND_DIV
#define ND_DIV64(T) \
  ND_INLINE nd_##T##v nd_div_##T##v(nd_##T##v a, nd_##T##v b) { return nd_lanes_div_##T##v(a, b); } \
  ND_INLINE nd_##T##v nd_rem_##T##v(nd_##T##v a, nd_##T##v b) { return ND_MAP2(nd_##T##v, nd_rem_##T, a, b); }
ND_DIV64(i64)
ND_DIV64(u64)
#undef ND_DIV64

/* A count of the width or more shifts everything out, which AVX2's instructions with a count a lane do by themselves;
 * gcc and clang make shifts by an immediate of them where the counts are constant. Elsewhere the count is cut first,
 * and what a cut count leaves is taken out. */
#define ND_SHIFT(T, U, bits) \
  ND_INLINE nd_##T##v nd_shl_##T##v(nd_##T##v a, nd_##T##v n) { \
    nd_##U##v r = (nd_##U##v)a << ((nd_##U##v)n & (bits - 1)); \
    return (nd_##T##v)(r & (nd_##U##v)((nd_##U##v)n < bits)); \
  }
#define ND_SHIFT_RIGHT_UNSIGNED(T, bits) \
  ND_INLINE nd_##T##v nd_shr_##T##v(nd_##T##v a, nd_##T##v n) { \
    return (a >> (n & (bits - 1))) & (nd_##T##v)(n < bits); \
  }
#define ND_SHIFT_RIGHT_SIGNED(T, U, bits) \
  ND_INLINE nd_##T##v nd_shr_##T##v(nd_##T##v a, nd_##T##v n) { \
    nd_##T##v large = (nd_##T##v)((nd_##U##v)n >= bits); \
    return a >> ((n & (bits - 1)) | (large & (bits - 1))); \
  }
#if defined(ND_AVX2) || defined(ND_AVX512)
#define ND_SHIFT_EACH(T, name, instruction) \
  ND_INLINE nd_##T##v nd_##name##_##T##v(nd_##T##v a, nd_##T##v n) { \
    return (nd_##T##v)ND_MM(instruction)((ND_MI)a, (ND_MI)n); \
  }
#define ND_SHIFT_PARTS(T, P, name, instruction) \
  ND_INLINE nd_##T##v nd_##name##_##T##v(nd_##T##v a, nd_##T##v n) { \
    nd_##T##u x = {a}, y = {n}, r; \
    ND_EACH_PART(r.p[k] = (nd_##P)ND_MM64(instruction)((ND_MI64)x.p[k], (ND_MI64)y.p[k])) \
    return r.v; \
  }
ND_SHIFT_EACH(i32, shl, sllv_epi32)
ND_SHIFT_EACH(u32, shl, sllv_epi32)
ND_SHIFT_EACH(i32, shr, srav_epi32)
ND_SHIFT_EACH(u32, shr, srlv_epi32)
ND_SHIFT_PARTS(i64, i64p, shl, sllv_epi64)
ND_SHIFT_PARTS(u64, u64p, shl, sllv_epi64)
ND_SHIFT_PARTS(u64, u64p, shr, srlv_epi64)
#if defined(ND_AVX512)
ND_SHIFT_PARTS(i64, i64p, shr, srav_epi64)
#else /* of a negative number the complement is shifted */
ND_INLINE nd_i64v nd_shr_i64v(nd_i64v a, nd_i64v n) {
  nd_i64u x = {a}, y = {n}, r;
  ND_EACH_PART(nd_i64p sign = x.p[k] < 0;
               r.p[k] = (nd_i64p)_mm256_srlv_epi64((__m256i)(x.p[k] ^ sign), (__m256i)y.p[k]) ^ sign)
  return r.v;
}
#endif
#undef ND_SHIFT_EACH
#undef ND_SHIFT_PARTS
#else
ND_SHIFT(i32, u32, 32)
ND_SHIFT(u32, u32, 32)
ND_SHIFT(i64, u64, 64)
ND_SHIFT(u64, u64, 64)
ND_SHIFT_RIGHT_SIGNED(i32, u32, 32)
ND_SHIFT_RIGHT_UNSIGNED(u32, 32)
ND_SHIFT_RIGHT_SIGNED(i64, u64, 64)
ND_SHIFT_RIGHT_UNSIGNED(u64, 64)
#endif
#undef ND_SHIFT
#undef ND_SHIFT_RIGHT_SIGNED
#undef ND_SHIFT_RIGHT_UNSIGNED
/* Counts are unsigned in their own width; one of 8 to 31 moves all of a narrow number out of its part of 32 bits. */
#define ND_SHIFT_NARROW(T, U, W) \
  ND_INLINE nd_##T##v nd_shl_##T##v(nd_##T##v a, nd_##T##v n) { \
    return nd_from32_##T##v((nd_i32v)nd_shl_u32v((nd_u32v)nd_to32_##T##v(a), nd_to32_##U##v((nd_##U##v)n))); \
  } \
  ND_INLINE nd_##T##v nd_shr_##T##v(nd_##T##v a, nd_##T##v n) { \
    return nd_from32_##T##v((nd_i32v)nd_shr_##W##v(nd_to32_##T##v(a), (nd_##W##v)nd_to32_##U##v((nd_##U##v)n))); \
  }
ND_SHIFT_NARROW(i8, u8, i32)
ND_SHIFT_NARROW(u8, u8, u32)
ND_SHIFT_NARROW(i16, u16, i32)
ND_SHIFT_NARROW(u16, u16, u32)
#undef ND_SHIFT_NARROW

ND_INLINE nd_u32v nd_mulhi_u32v(nd_u32v a, nd_u32v b) {
#if defined(ND_X86) /* the products of the even lanes and of the odd ones, then interleaved */
  nd_u32v even = (nd_u32v)ND_MM(mul_epu32)((ND_MI)a, (ND_MI)b);
  nd_u32v odd = (nd_u32v)ND_MM(mul_epu32)(ND_MM(srli_epi64)((ND_MI)a, 32), ND_MM(srli_epi64)((ND_MI)b, 32));
#define ND_ODD_OF_BOTH(i) (((i) | 1) + ((i)&1) * ND_VL)
  return __builtin_shufflevector(even, odd, ND_SEQ(ND_ODD_OF_BOTH));
#else
  return nd_lanes_mulhi_u32v(a, b);
#endif
}
ND_INLINE nd_i32v nd_mulhi_i32v(nd_i32v a, nd_i32v b) { /* a negative factor a counts as a + 2^32 above: b too much */
  return (nd_i32v)nd_mulhi_u32v((nd_u32v)a, (nd_u32v)b) - ((a < 0) & b) - ((b < 0) & a);
}
ND_INLINE nd_i64v nd_mulhi_i64v(nd_i64v a, nd_i64v b) { return nd_lanes_mulhi_i64v(a, b); }
ND_INLINE nd_u64v nd_mulhi_u64v(nd_u64v a, nd_u64v b) { return nd_lanes_mulhi_u64v(a, b); }
#define ND_MULHI_NARROW(T, bits) \
  ND_INLINE nd_##T##v nd_mulhi_##T##v(nd_##T##v a, nd_##T##v b) { \
    return nd_from32_##T##v((nd_i32v)(nd_to32_##T##v(a) * nd_to32_##T##v(b)) >> bits); \
  }
ND_MULHI_NARROW(i8, 8)
ND_MULHI_NARROW(u8, 8)
ND_MULHI_NARROW(i16, 16)
ND_MULHI_NARROW(u16, 16)
#undef ND_MULHI_NARROW

ND_INLINE nd_i32v nd_popc_i32v(nd_i32v a) {
  nd_u32v x = (nd_u32v)a;
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  x = (x + (x >> 4)) & 0x0f0f0f0fu;
  return (nd_i32v)(x * 0x01010101u >> 24);
}
ND_INLINE nd_i32v nd_popc_i64v(nd_i64v a) {
  nd_u64v x = (nd_u64v)a;
  x -= x >> 1 & 0x5555555555555555u;
  x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
  x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return __builtin_convertvector(x * 0x0101010101010101u >> 56, nd_i32v);
}
ND_INLINE nd_i32v nd_clz_i32v(nd_i32v a) { /* the first one spreads downwards */
  nd_u32v x = (nd_u32v)a;
  x |= x >> 1, x |= x >> 2, x |= x >> 4, x |= x >> 8, x |= x >> 16;
  return nd_popc_i32v((nd_i32v)~x);
}
ND_INLINE nd_i32v nd_clz_i64v(nd_i64v a) {
  nd_u64v x = (nd_u64v)a;
  x |= x >> 1, x |= x >> 2, x |= x >> 4, x |= x >> 8, x |= x >> 16, x |= x >> 32;
  return nd_popc_i64v((nd_i64v)~x);
}
/* Where the last one stands, from 1; the bits up to it are x ^ (x - 1). */
ND_INLINE nd_i32v nd_ffs_i32v(nd_i32v a) { return nd_popc_i32v(a ^ (a - 1)) & ~(a == 0); }
ND_INLINE nd_i32v nd_ffs_i64v(nd_i64v a) { return nd_popc_i64v(a ^ (a - 1)) & nd_ne_i64v(a, nd_splat_i64v(0)); }
ND_INLINE nd_i32v nd_brev_i32v(nd_i32v a) {
  nd_u32v x = (nd_u32v)a;
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  x = (x >> 8 & 0x00ff00ffu) | (x & 0x00ff00ffu) << 8;
  return (nd_i32v)(x >> 16 | x << 16);
}
ND_INLINE nd_i64v nd_brev_i64v(nd_i64v a) {
  nd_u64v x = (nd_u64v)a;
  x = (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
  x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
  x = (x >> 8 & 0x00ff00ff00ff00ffu) | (x & 0x00ff00ff00ff00ffu) << 8;
  x = (x >> 16 & 0x0000ffff0000ffffu) | (x & 0x0000ffff0000ffffu) << 16;
  return (nd_i64v)(x >> 32 | x << 32);
}

/* ---- floats ------------------------------------------------------------------------------------------------------ */

ND_INLINE nd_f32v nd_neg_f32v(nd_f32v a) { return (nd_f32v)((nd_i32v)a ^ INT32_MIN); }
ND_INLINE nd_f64v nd_neg_f64v(nd_f64v a) { return (nd_f64v)((nd_i64v)a ^ INT64_MIN); }
ND_INLINE nd_f32v nd_abs_f32v(nd_f32v a) { return (nd_f32v)((nd_i32v)a & INT32_MAX); }
ND_INLINE nd_f64v nd_abs_f64v(nd_f64v a) { return (nd_f64v)((nd_i64v)a & INT64_MAX); }
ND_INLINE nd_f32v nd_div_f32v(nd_f32v a, nd_f32v b) { return a / b; }
ND_INLINE nd_f64v nd_div_f64v(nd_f64v a, nd_f64v b) { return a / b; }
ND_INLINE nd_f32v nd_rem_f32v(nd_f32v a, nd_f32v b) { return ND_MAP2(nd_f32v, fmodf, a, b); }
ND_INLINE nd_f64v nd_rem_f64v(nd_f64v a, nd_f64v b) { return ND_MAP2(nd_f64v, fmod, a, b); }

/* Of two zeros -0 is the lesser. AVX-512's range instruction knows that. x86's older minps(b, a) is a when both are
 * zeros, whatever their signs, and when either is NaN: where the operands are equal their bits differ in the sign of a
 * zero only, so min takes the or of both, max the and. The rest is to find the NaN that the minimum wants or does not
 * want. ND_EXTREME(min, or, a, b): of a NaN and a number the number; ND_EXTREME_NAN: the NaN. */
#if defined(ND_AVX512)
#define ND_RANGE_min 4 /* the sign is the result's own */
#define ND_RANGE_max 5
#define ND_RANGE(p, mask, name, a, b) \
  _mm##p##_mask_mov_##mask( \
      _mm##p##_mask_range_##mask(b, _mm##p##_cmp_##mask##_mask(a, a, _CMP_ORD_Q), a, b, ND_RANGE_##name), \
      _mm##p##_cmp_##mask##_mask(b, b, _CMP_UNORD_Q), a)
#define ND_RANGE_NAN(p, mask, name, a, b) \
  _mm##p##_mask_add_##mask(_mm##p##_range_##mask(a, b, ND_RANGE_##name), \
                           _mm##p##_cmp_##mask##_mask(a, b, _CMP_UNORD_Q), a, b)
#if ND_VL == 16
#define ND_EXTREME(name, join, a, b) ND_RANGE(512, ps, name, a, b)
#define ND_EXTREME_NAN(name, join, a, b) ND_RANGE_NAN(512, ps, name, a, b)
#else
#define ND_EXTREME(name, join, a, b) ND_RANGE(256, ps, name, a, b)
#define ND_EXTREME_NAN(name, join, a, b) ND_RANGE_NAN(256, ps, name, a, b)
#endif
#define ND_EXTREME64(name, join, a, b) ND_RANGE(512, pd, name, a, b)
#define ND_EXTREME64_NAN(name, join, a, b) ND_RANGE_NAN(512, pd, name, a, b)
#elif defined(ND_AVX2)
#define ND_JOIN_or(MM, T, r, a, b) MM(or_##T)(r, MM(and_##T)(b, MM(cmp_##T)(a, b, _CMP_EQ_OQ)))
#define ND_JOIN_and(MM, T, r, a, b) MM(and_##T)(r, MM(or_##T)(b, MM(cmp_##T)(a, b, _CMP_NEQ_UQ)))
#define ND_EXTREME_BY(name, join, a, b, x, y) \
  ND_MM(blendv_ps)(ND_JOIN_##join(ND_MM, ps, ND_MM(name##_ps)(b, a), a, b), y, ND_MM(cmp_ps)(x, x, _CMP_UNORD_Q))
#define ND_EXTREME64_BY(name, join, a, b, x, y) \
  _mm256_blendv_pd(ND_JOIN_##join(ND_MM64, pd, ND_MM64(name##_pd)(b, a), a, b), y, _mm256_cmp_pd(x, x, _CMP_UNORD_Q))
#else
ND_INLINE nd_f32v nd_blend_f32(nd_i32v m, nd_f32v a, nd_f32v b) {
  return (nd_f32v)((m & (nd_i32v)a) | (~m & (nd_i32v)b));
}
ND_INLINE nd_f64p nd_blend_f64(nd_i64p m, nd_f64p a, nd_f64p b) {
  return (nd_f64p)((m & (nd_i64p)a) | (~m & (nd_i64p)b));
}
#define ND_LESS_min <
#define ND_LESS_max >
#define ND_BITS_or |
#define ND_BITS_and &
#define ND_EXTREME_BY(name, join, a, b, x, y) \
  nd_blend_f32( \
      x != x, y, \
      nd_blend_f32(a == b, (nd_f32v)((nd_i32v)a ND_BITS_##join(nd_i32v) b), nd_blend_f32(b ND_LESS_##name a, b, a)))
#define ND_EXTREME64_BY(name, join, a, b, x, y) \
  nd_blend_f64( \
      x != x, y, \
      nd_blend_f64(a == b, (nd_f64p)((nd_i64p)a ND_BITS_##join(nd_i64p) b), nd_blend_f64(b ND_LESS_##name a, b, a)))
#endif
#if !defined(ND_AVX512) /* (a, b, x, y): where x is NaN y, else the extreme of a and b, which is a where b is NaN */
#define ND_EXTREME(name, join, a, b) ND_EXTREME_BY(name, join, a, b, a, b)
#define ND_EXTREME_NAN(name, join, a, b) ND_EXTREME_BY(name, join, a, b, b, b)
#define ND_EXTREME64(name, join, a, b) ND_EXTREME64_BY(name, join, a, b, a, b)
#define ND_EXTREME64_NAN(name, join, a, b) ND_EXTREME64_BY(name, join, a, b, b, b)
#endif
#define ND_MINMAX(name, join) \
  ND_INLINE nd_f32v nd_##name##_f32v(nd_f32v a, nd_f32v b) { return (nd_f32v)ND_EXTREME(name, join, a, b); } \
  ND_INLINE nd_f32v nd_##name##nan_f32v(nd_f32v a, nd_f32v b) { return (nd_f32v)ND_EXTREME_NAN(name, join, a, b); } \
  ND_INLINE nd_f64v nd_##name##_f64v(nd_f64v a, nd_f64v b) { \
    nd_f64u x = {a}, y = {b}, r; \
    ND_EACH_PART(r.p[k] = (nd_f64p)ND_EXTREME64(name, join, x.p[k], y.p[k])) \
    return r.v; \
  } \
  ND_INLINE nd_f64v nd_##name##nan_f64v(nd_f64v a, nd_f64v b) { \
    nd_f64u x = {a}, y = {b}, r; \
    ND_EACH_PART(r.p[k] = (nd_f64p)ND_EXTREME64_NAN(name, join, x.p[k], y.p[k])) \
    return r.v; \
  }
ND_MINMAX(min, or)
ND_MINMAX(max, and)
#undef ND_MINMAX

ND_INLINE nd_f32v nd_fma_f32v(nd_f32v a, nd_f32v b, nd_f32v c) {
#if defined(ND_X86) && defined(__FMA__)
  return (nd_f32v)ND_MM(fmadd_ps)(a, b, c);
#else
  return ND_MAP3(nd_f32v, fmaf, a, b, c);
#endif
}
ND_INLINE nd_f64v nd_fma_f64v(nd_f64v a, nd_f64v b, nd_f64v c) {
#if defined(ND_X86) && defined(__FMA__)
  nd_f64u x = {a}, y = {b}, z = {c}, r;
  ND_EACH_PART(r.p[k] = (nd_f64p)ND_MM64(fmadd_pd)(x.p[k], y.p[k], z.p[k]))
  return r.v;
#else
  return ND_MAP3(nd_f64v, fma, a, b, c);
#endif
}

/* x as it is. Where a product must be rounded before it is added to something, the compiler must not know it for one.
 */
ND_INLINE nd_f32v nd_keep_f32v(nd_f32v x) {
  ND_KEEP(x);
  return x;
}
ND_INLINE nd_f64v nd_keep_f64v(nd_f64v x) {
  nd_f64u u = {x};
  ND_EACH_PART(ND_KEEP(u.p[k]))
  return u.v;
}

/* ---- across the lanes -------------------------------------------------------------------------------------------- */

#define ND_X1(i) ((i) ^ 1)
#define ND_X2(i) ((i) ^ 2)
#define ND_X4(i) ((i) ^ 4)
#define ND_X8(i) ((i) ^ 8)
#define ND_U1(i) ((i) < 1 ? ND_VL : (i)-1)
#define ND_U2(i) ((i) < 2 ? ND_VL : (i)-2)
#define ND_U4(i) ((i) < 4 ? ND_VL : (i)-4)
#define ND_U8(i) ((i) < 8 ? ND_VL : (i)-8)
#define ND_D1(i) ((i) + 1 < ND_VL ? (i) + 1 : ND_VL)
#define ND_D2(i) ((i) + 2 < ND_VL ? (i) + 2 : ND_VL)
#define ND_D4(i) ((i) + 4 < ND_VL ? (i) + 4 : ND_VL)
#define ND_D8(i) ((i) + 8 < ND_VL ? (i) + 8 : ND_VL)
#if ND_VL == 16
#define ND_CASE8(x, y, F) \
  case 8: \
    return __builtin_shufflevector(x, y, ND_SEQ(F##8));
#else
#define ND_CASE8(x, y, F)
#endif
#if ND_VL >= 8
#define ND_CASE4(x, y, F) \
  case 4: \
    return __builtin_shufflevector(x, y, ND_SEQ(F##4));
#else
#define ND_CASE4(x, y, F)
#endif
/* k: 1, 2, 4, ... ND_VL / 2, a constant */
#define ND_SHUFFLE_BY(k, x, y, F) \
  switch (k) { \
    case 1: return __builtin_shufflevector(x, y, ND_SEQ(F##1)); \
    case 2: \
      return __builtin_shufflevector(x, y, ND_SEQ(F##2)); \
      ND_CASE4(x, y, F) \
      ND_CASE8(x, y, F) \
  } \
  return x;
#define ND_FOLD(T, name, f) \
  ND_INLINE nd_##T nd_##name##_##T##v(nd_##T##v x) { \
    if (ND_VL > 8) x = f(x, nd_xor_lanes_##T##v(x, 8)); \
    if (ND_VL > 4) x = f(x, nd_xor_lanes_##T##v(x, 4)); \
    x = f(x, nd_xor_lanes_##T##v(x, 2)); \
    x = f(x, nd_xor_lanes_##T##v(x, 1)); \
    return x[0]; \
  }
#define ND_PLUS(a, b) ((a) + (b))
#define ND_TIMES(a, b) ((a) * (b))
#define ND_BITAND(a, b) ((a) & (b))
#define ND_BITOR(a, b) ((a) | (b))
#define ND_BITXOR(a, b) ((a) ^ (b))
#define ND_XOR_LANES(T) \
  ND_INLINE nd_##T##v nd_xor_lanes_##T##v(nd_##T##v x, int k) { ND_SHUFFLE_BY(k, x, x, ND_X) }
ND_XOR_LANES(i8)
ND_XOR_LANES(i16)
ND_XOR_LANES(i32)
ND_XOR_LANES(u8)
ND_XOR_LANES(u16)
ND_XOR_LANES(u32)
ND_XOR_LANES(f32)
#undef ND_XOR_LANES
/* Of 64 bits a register at a time: gcc takes a shuffle of two apart, lane by lane. */
#if ND_REG == 64
#define ND_PART_SEQ(F) F(0), F(1), F(2), F(3), F(4), F(5), F(6), F(7)
#elif ND_REG == 32
#define ND_PART_SEQ(F) F(0), F(1), F(2), F(3)
#else
#define ND_PART_SEQ(F) F(0), F(1)
#endif
ND_INLINE nd_i64p nd_xor_part(nd_i64p x, int by) {
  if (by == 1) return __builtin_shufflevector(x, x, ND_PART_SEQ(ND_X1));
#if ND_REG >= 32
  if (by == 2) return __builtin_shufflevector(x, x, ND_PART_SEQ(ND_X2));
#endif
#if ND_REG >= 64
  if (by == 4) return __builtin_shufflevector(x, x, ND_PART_SEQ(ND_X4));
#endif
  return x;
}
ND_INLINE nd_i64v nd_xor_lanes_i64v(nd_i64v x, int by) {
  nd_i64u u = {x}, r;
  if (by < ND_REG / 8) {
    ND_EACH_PART(r.p[k] = nd_xor_part(u.p[k], by))
  } else {
    r.p[0] = u.p[ND_PARTS - 1];
    r.p[ND_PARTS - 1] = u.p[0];
  }
  return r.v;
}
ND_INLINE nd_u64v nd_xor_lanes_u64v(nd_u64v x, int k) { return (nd_u64v)nd_xor_lanes_i64v((nd_i64v)x, k); }
ND_INLINE nd_f64v nd_xor_lanes_f64v(nd_f64v x, int k) { return (nd_f64v)nd_xor_lanes_i64v((nd_i64v)x, k); }

/* A register's worth of lanes out of two registers, from lane `first` of the first on. */
#define ND_FROM1(i) ((i) + 1)
#define ND_FROM2(i) ((i) + 2)
#define ND_FROM3(i) ((i) + 3)
#define ND_FROM4(i) ((i) + 4)
#define ND_FROM6(i) ((i) + 6)
#define ND_FROM7(i) ((i) + 7)
ND_INLINE nd_i64p nd_window_part(nd_i64p x, nd_i64p y, int first) {
  if (first == 1) return __builtin_shufflevector(x, y, ND_PART_SEQ(ND_FROM1));
#if ND_REG >= 32
  if (first == 2) return __builtin_shufflevector(x, y, ND_PART_SEQ(ND_FROM2));
  if (first == 3) return __builtin_shufflevector(x, y, ND_PART_SEQ(ND_FROM3));
#endif
#if ND_REG >= 64
  if (first == 4) return __builtin_shufflevector(x, y, ND_PART_SEQ(ND_FROM4));
  if (first == 6) return __builtin_shufflevector(x, y, ND_PART_SEQ(ND_FROM6));
  if (first == 7) return __builtin_shufflevector(x, y, ND_PART_SEQ(ND_FROM7));
#endif
  return y;
}
ND_INLINE nd_i64v nd_up_lanes_i64v(nd_i64v x, int by, nd_i64 fill) {
  nd_i64u u = {x}, r;
  const nd_i64p none = (nd_i64p){0} + fill;
  ND_EACH_PART(nd_i64p low = k ? u.p[(k + ND_PARTS - 1) % ND_PARTS] : none; int whole = by / ND_PL;
               r.p[k] = whole ? k >= whole ? u.p[(k + ND_PARTS - whole) % ND_PARTS] : none
                              : nd_window_part(low, u.p[k], ND_PL - by))
  return r.v;
}
ND_INLINE nd_i64v nd_down_lanes_i64v(nd_i64v x, int by, nd_i64 fill) {
  nd_i64u u = {x}, r;
  const nd_i64p none = (nd_i64p){0} + fill;
  ND_EACH_PART(nd_i64p high = k + 1 < ND_PARTS ? u.p[(k + 1) % ND_PARTS] : none; int whole = by / ND_PL;
               r.p[k] =
                   whole ? k + whole < ND_PARTS ? u.p[(k + whole) % ND_PARTS] : none : nd_window_part(u.p[k], high, by))
  return r.v;
}
#define ND_MOVES_64(T, BITS) \
  ND_INLINE nd_##T##v nd_up_lanes_##T##v(nd_##T##v x, int by, nd_##T fill) { \
    return (nd_##T##v)nd_up_lanes_i64v((nd_i64v)x, by, BITS(fill)); \
  } \
  ND_INLINE nd_##T##v nd_down_lanes_##T##v(nd_##T##v x, int by, nd_##T fill) { \
    return (nd_##T##v)nd_down_lanes_i64v((nd_i64v)x, by, BITS(fill)); \
  }
ND_MOVES_64(u64, (nd_i64))
ND_MOVES_64(f64, nd_cast_i64_f64)
#undef ND_MOVES_64
#define ND_MOVES(T) \
  ND_INLINE nd_##T##v nd_up_lanes_##T##v(nd_##T##v x, int k, nd_##T fill) { \
    nd_##T##v y = nd_splat_##T##v(fill); \
    ND_SHUFFLE_BY(k, x, y, ND_U) \
  } \
  ND_INLINE nd_##T##v nd_down_lanes_##T##v(nd_##T##v x, int k, nd_##T fill) { \
    nd_##T##v y = nd_splat_##T##v(fill); \
    ND_SHUFFLE_BY(k, x, y, ND_D) \
  }
ND_MOVES(i8)
ND_MOVES(i16)
ND_MOVES(i32)
ND_MOVES(u8)
ND_MOVES(u16)
ND_MOVES(u32)
ND_MOVES(f32)
#undef ND_MOVES

#define ND_LANES(T) \
  ND_FOLD(T, sum, ND_PLUS) \
  ND_FOLD(T, prod, ND_TIMES) \
  ND_FOLD(T, hmin, nd_min_##T##v) \
  ND_FOLD(T, hmax, nd_max_##T##v)
#define ND_LANES_INT(T) ND_LANES(T) ND_FOLD(T, hand, ND_BITAND) ND_FOLD(T, hor, ND_BITOR) ND_FOLD(T, hxor, ND_BITXOR)
ND_INTS(ND_LANES_INT)
ND_LANES(f32)
ND_LANES(f64)
ND_FOLD(f32, hminnan, nd_minnan_f32v)
ND_FOLD(f32, hmaxnan, nd_maxnan_f32v)
ND_FOLD(f64, hminnan, nd_minnan_f64v)
ND_FOLD(f64, hmaxnan, nd_maxnan_f64v)
#undef ND_LANES
#undef ND_LANES_INT
ND_INLINE nd_mask nd_xor_lanes_i1v(nd_mask x, int k) { return nd_xor_lanes_i32v(x, k); }
ND_INLINE nd_mask nd_up_lanes_i1v(nd_mask x, int k, int fill) { return nd_up_lanes_i32v(x, k, fill ? -1 : 0); }
ND_INLINE nd_mask nd_down_lanes_i1v(nd_mask x, int k, int fill) { return nd_down_lanes_i32v(x, k, fill ? -1 : 0); }

#endif
