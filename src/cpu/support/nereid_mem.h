/* nereid_mem: loads and stores. Needs nereid_cpu.h, nereid_vec.h and nereid_convert.h; nereid_cpu.h lists the
 * functions.
 *
 * Everything is written once for each width of element in memory (b1, b2, b4, b8 below: bits in an unsigned vector) and
 * then given the element types. A masked lane's memory is never touched. Where a machine has no masked instruction for
 * a width, lanes go one by one, through an address of their own on the stack where they are masked, so that no branch
 * depends on the mask.
 */
#ifndef NEREID_MEM_H
#define NEREID_MEM_H

typedef nd_u8v nd_b1v;
typedef nd_u16v nd_b2v;
typedef nd_u32v nd_b4v;
typedef nd_u64v nd_b8v;
typedef nd_u8 nd_b1 __attribute__((aligned(1), may_alias));
typedef nd_u16 nd_b2 __attribute__((aligned(1), may_alias));
typedef nd_u32 nd_b4 __attribute__((aligned(1), may_alias));
typedef nd_u64 nd_b8 __attribute__((aligned(1), may_alias));

/* ---- contiguous -------------------------------------------------------------------------------------------------- */

#define ND_RAW(B, U) \
  ND_INLINE nd_##B##v nd_load_##B(const void *p) { return *(const nd_##U##vu *)p; } \
  ND_INLINE void nd_store_##B(void *p, nd_##B##v x) { *(nd_##U##vu *)p = x; }
ND_RAW(b1, u8)
ND_RAW(b2, u16)
ND_RAW(b4, u32)
ND_RAW(b8, u64)
#undef ND_RAW

/* Lane i's address where the mask has it, else that of its own place in `spare`. */
#define ND_SAFE(m, address, spare) ((m)[i] ? (char *)(address) : (char *)&(spare)[i])

#define ND_RAW_LANES(B) \
  ND_INLINE nd_##B##v nd_lanes_mload_##B(const void *p, nd_mask m, nd_##B##v other) { \
    union { \
      nd_##B##v v; \
      nd_##B x[ND_VL]; \
    } r = {other}; \
    if (nd_all(m)) return nd_load_##B(p); \
    for (int i = 0; i < ND_VL; i++) r.x[i] = *(const nd_##B *)ND_SAFE(m, (uintptr_t)p + i * sizeof(nd_##B), r.x); \
    return r.v; \
  } \
  ND_INLINE void nd_lanes_mstore_##B(void *p, nd_##B##v x, nd_mask m) { \
    nd_##B spare[ND_VL]; \
    if (nd_all(m)) { \
      nd_store_##B(p, x); \
      return; \
    } \
    for (int i = 0; i < ND_VL; i++) *(nd_##B *)ND_SAFE(m, (uintptr_t)p + i * sizeof(nd_##B), spare) = x[i]; \
  }

#if defined(ND_AVX512)
/* gcc makes one vextracti32x8 of taking the low half of a register and storing it under a mask; unlike a masked store
 * that one faults for lanes that the mask leaves out (SDM, exception type E6NF). */
#define ND_HOLD_STORED(x) __asm__("" : "+v"(x))
#define ND_RAW_MASKED(B, low, I, load, store) \
  ND_INLINE nd_##B##v nd_mload_##B(const void *p, nd_mask m, nd_##B##v other) { \
    return (nd_##B##v)load((I)other, nd_mask_bits(m), p); \
  } \
  ND_INLINE void nd_mstore_##B(void *p, nd_##B##v x, nd_mask m) { \
    I held = (I)x; \
    ND_HOLD_STORED(held); \
    store(p, nd_mask_bits(m), held); \
  }
ND_RAW_MASKED(b4, 0, ND_MI, ND_MM(mask_loadu_epi32), ND_MM(mask_storeu_epi32))
ND_INLINE nd_b8v nd_mload_b8(const void *p, nd_mask m, nd_b8v other) {
  nd_u64u r = {other};
  uint32_t bits = nd_mask_bits(m);
  ND_EACH_PART(
      r.p[k] = (nd_u64p)_mm512_mask_loadu_epi64((__m512i)r.p[k], (__mmask8)(bits >> 8 * k), (const char *)p + 64 * k))
  return r.v;
}
ND_INLINE void nd_mstore_b8(void *p, nd_b8v x, nd_mask m) {
  nd_u64u r = {x};
  uint32_t bits = nd_mask_bits(m);
  ND_EACH_PART(_mm512_mask_storeu_epi64((char *)p + 64 * k, (__mmask8)(bits >> 8 * k), (__m512i)r.p[k]))
}
#if ND_VL == 16
ND_RAW_MASKED(b1, 0, __m128i, _mm_mask_loadu_epi8, _mm_mask_storeu_epi8)
ND_RAW_MASKED(b2, 0, __m256i, _mm256_mask_loadu_epi16, _mm256_mask_storeu_epi16)
#else
ND_RAW_LANES(b1)
ND_RAW_MASKED(b2, 0, __m128i, _mm_mask_loadu_epi16, _mm_mask_storeu_epi16)
#define nd_mload_b1 nd_lanes_mload_b1
#define nd_mstore_b1 nd_lanes_mstore_b1
#endif
#undef ND_RAW_MASKED
#else
ND_RAW_LANES(b1)
ND_RAW_LANES(b2)
#define nd_mload_b1 nd_lanes_mload_b1
#define nd_mload_b2 nd_lanes_mload_b2
#define nd_mstore_b1 nd_lanes_mstore_b1
#define nd_mstore_b2 nd_lanes_mstore_b2
#if defined(ND_AVX2)
ND_INLINE nd_b4v nd_mload_b4(const void *p, nd_mask m, nd_b4v other) {
  return nd_select_u32v(m, (nd_b4v)ND_MM(maskload_epi32)((const int *)p, (ND_MI)m), other);
}
ND_INLINE void nd_mstore_b4(void *p, nd_b4v x, nd_mask m) { ND_MM(maskstore_epi32)((int *)p, (ND_MI)m, (ND_MI)x); }
ND_INLINE nd_b8v nd_mload_b8(const void *p, nd_mask m, nd_b8v other) {
  nd_i32u n = {m};
  nd_u64u r = {other};
  ND_EACH_PART(nd_i64p w = __builtin_convertvector(n.p[k], nd_i64p);
               nd_u64p x = (nd_u64p)_mm256_maskload_epi64((const long long *)p + 4 * k, (__m256i)w);
               r.p[k] = ((nd_u64p)w & x) | (~(nd_u64p)w & r.p[k]))
  return r.v;
}
ND_INLINE void nd_mstore_b8(void *p, nd_b8v x, nd_mask m) {
  nd_i32u n = {m};
  nd_u64u r = {x};
  ND_EACH_PART(nd_i64p w = __builtin_convertvector(n.p[k], nd_i64p);
               _mm256_maskstore_epi64((long long *)p + 4 * k, (__m256i)w, (__m256i)r.p[k]))
}
#else
ND_RAW_LANES(b4)
ND_RAW_LANES(b8)
#define nd_mload_b4 nd_lanes_mload_b4
#define nd_mload_b8 nd_lanes_mload_b8
#define nd_mstore_b4 nd_lanes_mstore_b4
#define nd_mstore_b8 nd_lanes_mstore_b8
#endif
#endif

/* ---- strided, gathered, scattered -------------------------------------------------------------------------------- */

#define ND_RAW_FAR_APART(B) \
  ND_INLINE nd_##B##v nd_lanes_sload_##B(const void *p, int64_t stride) { \
    nd_##B##v r; \
    for (int i = 0; i < ND_VL; i++) r[i] = *(const nd_##B *)((const char *)p + i * stride); \
    return r; \
  } \
  ND_INLINE nd_##B##v nd_lanes_smload_##B(const void *p, int64_t stride, nd_mask m, nd_##B##v other) { \
    union { \
      nd_##B##v v; \
      nd_##B x[ND_VL]; \
    } r = {other}; \
    nd_##B##v out; \
    for (int i = 0; i < ND_VL; i++) out[i] = *(const nd_##B *)ND_SAFE(m, (uintptr_t)p + (uintptr_t)(i * stride), r.x); \
    return out; \
  } \
  ND_INLINE void nd_lanes_sstore_##B(void *p, int64_t stride, nd_##B##v x) { \
    for (int i = 0; i < ND_VL; i++) *(nd_##B *)((char *)p + i * stride) = x[i]; \
  } \
  ND_INLINE void nd_lanes_smstore_##B(void *p, int64_t stride, nd_##B##v x, nd_mask m) { \
    nd_##B spare[ND_VL]; \
    for (int i = 0; i < ND_VL; i++) *(nd_##B *)ND_SAFE(m, (uintptr_t)p + (uintptr_t)(i * stride), spare) = x[i]; \
  } \
  ND_INLINE nd_##B##v nd_lanes_gather_##B(nd_i64v address, nd_mask m, nd_##B##v other) { \
    union { \
      nd_##B##v v; \
      nd_##B x[ND_VL]; \
    } r = {other}; \
    nd_##B##v out; \
    for (int i = 0; i < ND_VL; i++) out[i] = *(const nd_##B *)ND_SAFE(m, (uintptr_t)address[i], r.x); \
    return out; \
  } \
  ND_INLINE nd_##B##v nd_lanes_xgather_##B(const void *p, nd_i32v index, nd_mask m, nd_##B##v other) { \
    union { \
      nd_##B##v v; \
      nd_##B x[ND_VL]; \
    } r = {other}; \
    nd_##B##v out; \
    for (int i = 0; i < ND_VL; i++) \
      out[i] = \
          *(const nd_##B *)ND_SAFE(m, (uintptr_t)p + (uintptr_t)((int64_t)index[i] * (int64_t)sizeof(nd_##B)), r.x); \
    return out; \
  } \
  ND_INLINE void nd_scatter_##B(nd_i64v address, nd_##B##v x, nd_mask m) { \
    nd_##B spare[ND_VL]; \
    for (int i = 0; i < ND_VL; i++) *(nd_##B *)ND_SAFE(m, (uintptr_t)address[i], spare) = x[i]; \
  } \
  ND_INLINE void nd_xscatter_##B(void *p, nd_i32v index, nd_##B##v x, nd_mask m) { \
    nd_##B spare[ND_VL]; \
    for (int i = 0; i < ND_VL; i++) \
      *(nd_##B *)ND_SAFE(m, (uintptr_t)p + (uintptr_t)((int64_t)index[i] * (int64_t)sizeof(nd_##B)), spare) = x[i]; \
  }
ND_RAW_FAR_APART(b1)
ND_RAW_FAR_APART(b2)
ND_RAW_FAR_APART(b4)
ND_RAW_FAR_APART(b8)
#undef ND_RAW_FAR_APART
#undef ND_RAW_LANES

#if defined(ND_AVX512)
/* Lanes that lie side by side after all, as pixels of one row of an image do, are one load: asking costs two
 * comparisons, a gather as much as its lanes by themselves. */
ND_INLINE nd_b4v nd_gather_b4(nd_i64v address, nd_mask m, nd_b4v other) {
  nd_i64u a = {address};
  nd_i32u r = {(nd_i32v)other};
  uint32_t bits = nd_mask_bits(m), apart = 0;
  const __m512i first = _mm512_add_epi64(_mm512_set1_epi64(address[0]), _mm512_setr_epi64(0, 4, 8, 12, 16, 20, 24, 28));
  ND_EACH_PART(apart |=
               (uint32_t)_mm512_cmpneq_epi64_mask((__m512i)a.p[k], _mm512_add_epi64(first, _mm512_set1_epi64(32 * k)))
               << 8 * k)
  if (!(apart & bits)) return nd_mload_b4((const void *)address[0], m, other);
  ND_EACH_PART(r.p[k] = (nd_i32p)_mm512_mask_i64gather_epi32((__m256i)r.p[k], (__mmask8)(bits >> 8 * k),
                                                             (__m512i)a.p[k], (void *)0, 1))
  return (nd_b4v)r.v;
}
ND_INLINE nd_b8v nd_gather_b8(nd_i64v address, nd_mask m, nd_b8v other) {
  nd_i64u a = {address};
  nd_u64u r = {other};
  uint32_t bits = nd_mask_bits(m);
  ND_EACH_PART(r.p[k] = (nd_u64p)_mm512_mask_i64gather_epi64((__m512i)r.p[k], (__mmask8)(bits >> 8 * k),
                                                             (__m512i)a.p[k], (void *)0, 1))
  return r.v;
}
ND_INLINE nd_b4v nd_xgather_b4(const void *p, nd_i32v index, nd_mask m, nd_b4v other) {
#if ND_VL == 16
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i beside = _mm512_add_epi32(_mm512_set1_epi32(index[0]), lane);
  if (index[0] < INT32_MAX - 16 && !(_mm512_cmpneq_epi32_mask((__m512i)index, beside) & nd_mask_bits(m)))
    return nd_mload_b4((const char *)p + (int64_t)index[0] * 4, m, other);
  return (nd_b4v)_mm512_mask_i32gather_epi32((__m512i)other, (__mmask16)nd_mask_bits(m), (__m512i)index, p, 4);
#else
  return (nd_b4v)_mm256_mmask_i32gather_epi32((__m256i)other, (__mmask8)nd_mask_bits(m), (__m256i)index, p, 4);
#endif
}
ND_INLINE nd_b8v nd_xgather_b8(const void *p, nd_i32v index, nd_mask m, nd_b8v other) {
  nd_i32u a = {index};
  nd_u64u r = {other};
  uint32_t bits = nd_mask_bits(m);
  ND_EACH_PART(
      r.p[k] = (nd_u64p)_mm512_mask_i32gather_epi64((__m512i)r.p[k], (__mmask8)(bits >> 8 * k), (__m256i)a.p[k], p, 8))
  return r.v;
}
/* Elements `stride` bytes apart. Every other one, and those in backward order, are picked out of whole vectors, of
 * which no byte lies outside the elements' own span; others are gathered, where 32 bits hold their places. */
ND_INLINE int nd_is_near(int64_t stride) { return stride < (1 << 26) && stride > -(1 << 26); }
#if ND_VL == 16
ND_INLINE nd_b4v nd_strided_b4(const void *p, int64_t stride, uint32_t bits, nd_b4v other) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#if defined(__BMI2__)
  if (__builtin_constant_p(stride) && stride == 8) {
    uint32_t there = _pdep_u32(bits, 0x55555555u);
    __m512i low = _mm512_maskz_loadu_epi32((__mmask16)there, p),
            high = _mm512_maskz_loadu_epi32((__mmask16)(there >> 15), (const char *)p + 60),
            from = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
    return (nd_b4v)_mm512_mask_mov_epi32((__m512i)other, (__mmask16)bits, _mm512_permutex2var_epi32(low, from, high));
  }
#endif
  if (__builtin_constant_p(stride) && stride == -4 && bits == 0xffff) {
    __m512i from = _mm512_sub_epi32(_mm512_set1_epi32(15), lane);
    return (nd_b4v)_mm512_permutexvar_epi32(from, _mm512_loadu_si512((const char *)p - 60));
  }
  __m512i at = _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)stride));
  return (nd_b4v)_mm512_mask_i32gather_epi32((__m512i)other, (__mmask16)bits, at, p, 1);
}
ND_INLINE void nd_strided_store_b4(void *p, int64_t stride, nd_b4v x, uint32_t bits) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#if defined(__BMI2__)
  if (__builtin_constant_p(stride) && stride == 8) {
    uint32_t there = _pdep_u32(bits, 0x55555555u);
    _mm512_mask_storeu_epi32(p, (__mmask16)there, _mm512_maskz_expand_epi32(0x5555, (__m512i)x));
    __m512i high = _mm512_maskz_expand_epi32(0x5555, _mm512_shuffle_i64x2((__m512i)x, (__m512i)x, 0xee));
    _mm512_mask_storeu_epi32((char *)p + 64, (__mmask16)(there >> 16), high);
    return;
  }
#endif
  if (__builtin_constant_p(stride) && stride == -4 && bits == 0xffff) {
    __m512i from = _mm512_sub_epi32(_mm512_set1_epi32(15), lane);
    _mm512_storeu_si512((char *)p - 60, _mm512_permutexvar_epi32(from, (__m512i)x));
    return;
  }
  __m512i at = _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)stride));
  _mm512_mask_i32scatter_epi32(p, (__mmask16)bits, at, (__m512i)x, 1);
}
#else
ND_INLINE nd_b4v nd_strided_b4(const void *p, int64_t stride, uint32_t bits, nd_b4v other) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  if (__builtin_constant_p(stride) && stride == -4 && bits == 0xff) {
    __m256i from = _mm256_sub_epi32(_mm256_set1_epi32(7), lane);
    return (nd_b4v)_mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)((const char *)p - 28)), from);
  }
  __m256i at = _mm256_mullo_epi32(lane, _mm256_set1_epi32((int)stride));
  return (nd_b4v)_mm256_mmask_i32gather_epi32((__m256i)other, (__mmask8)bits, at, p, 1);
}
ND_INLINE void nd_strided_store_b4(void *p, int64_t stride, nd_b4v x, uint32_t bits) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  if (__builtin_constant_p(stride) && stride == -4 && bits == 0xff) {
    __m256i from = _mm256_sub_epi32(_mm256_set1_epi32(7), lane);
    _mm256_storeu_si256((__m256i *)((char *)p - 28), _mm256_permutevar8x32_epi32((__m256i)x, from));
    return;
  }
  __m256i at = _mm256_mullo_epi32(lane, _mm256_set1_epi32((int)stride));
  _mm256_mask_i32scatter_epi32(p, (__mmask8)bits, at, (__m256i)x, 1);
}
#endif
ND_INLINE nd_b4v nd_sload_b4(const void *p, int64_t stride) {
  if (!nd_is_near(stride)) return nd_lanes_sload_b4(p, stride);
  return nd_strided_b4(p, stride, (1u << ND_VL) - 1, (nd_b4v){0});
}
ND_INLINE nd_b4v nd_smload_b4(const void *p, int64_t stride, nd_mask m, nd_b4v other) {
  if (!nd_is_near(stride)) return nd_lanes_smload_b4(p, stride, m, other);
  return nd_strided_b4(p, stride, nd_mask_bits(m), other);
}
ND_INLINE void nd_sstore_b4(void *p, int64_t stride, nd_b4v x) {
  if (!nd_is_near(stride)) nd_lanes_sstore_b4(p, stride, x);
  else nd_strided_store_b4(p, stride, x, (1u << ND_VL) - 1);
}
ND_INLINE void nd_smstore_b4(void *p, int64_t stride, nd_b4v x, nd_mask m) {
  if (!nd_is_near(stride)) nd_lanes_smstore_b4(p, stride, x, m);
  else nd_strided_store_b4(p, stride, x, nd_mask_bits(m));
}
#else
#define nd_sload_b4 nd_lanes_sload_b4
#define nd_smload_b4 nd_lanes_smload_b4
#define nd_sstore_b4 nd_lanes_sstore_b4
#define nd_smstore_b4 nd_lanes_smstore_b4
#define nd_gather_b4 nd_lanes_gather_b4
#define nd_gather_b8 nd_lanes_gather_b8
#define nd_xgather_b8 nd_lanes_xgather_b8
#if defined(ND_AVX2)
ND_INLINE nd_b4v nd_xgather_b4(const void *p, nd_i32v index, nd_mask m, nd_b4v other) {
  return (nd_b4v)ND_MM(mask_i32gather_epi32)((ND_MI)other, (const int *)p, (ND_MI)index, (ND_MI)m, 4);
}
#else
#define nd_xgather_b4 nd_lanes_xgather_b4
#endif
#endif
#define nd_sload_b1 nd_lanes_sload_b1
#define nd_smload_b1 nd_lanes_smload_b1
#define nd_sstore_b1 nd_lanes_sstore_b1
#define nd_smstore_b1 nd_lanes_smstore_b1
#define nd_sload_b2 nd_lanes_sload_b2
#define nd_smload_b2 nd_lanes_smload_b2
#define nd_sstore_b2 nd_lanes_sstore_b2
#define nd_smstore_b2 nd_lanes_smstore_b2
#define nd_sload_b8 nd_lanes_sload_b8
#define nd_smload_b8 nd_lanes_smload_b8
#define nd_sstore_b8 nd_lanes_sstore_b8
#define nd_smstore_b8 nd_lanes_smstore_b8
#define nd_gather_b1 nd_lanes_gather_b1
#define nd_gather_b2 nd_lanes_gather_b2
#define nd_xgather_b1 nd_lanes_xgather_b1
#define nd_xgather_b2 nd_lanes_xgather_b2

/* ---- past the caches --------------------------------------------------------------------------------------------- */

/* A write that fills a line of its own need not read that line first: a copy moves two bytes a byte instead of three.
 * It pays when the line would have left the caches before its next use, so for arrays much larger than a cache. */
ND_INLINE int nd_far(const NereidHost *host) { return host->stream_bytes > host->cache_bytes; }
ND_INLINE void nd_far_end(int far) { /* such stores are ordered with others only by this */
#if defined(ND_X86)
  if (far) _mm_sfence();
#else
  (void)far;
#endif
}
#define ND_RAW_FAR(B) \
  ND_INLINE void nd_nstore_##B(void *p, nd_##B##v x, int far) { \
    if (ND_FAR_STORE_OK(sizeof x) && far && ((uintptr_t)p & (sizeof x - 1)) == 0) { \
      ND_FAR_STORE(p, x); \
    } else nd_store_##B(p, x); \
  }
#if defined(ND_X86)
#define ND_FAR_STORE_OK(n) ((n) >= 16)
#define ND_FAR_STORE(p, x) nd_far_store(p, &x, sizeof x)
ND_INLINE void nd_far_store(void *p, const void *x, size_t n) {
  size_t i = 0;
#if defined(ND_AVX512)
  for (; i + 64 <= n; i += 64) _mm512_stream_si512((void *)((char *)p + i), _mm512_loadu_si512((const char *)x + i));
#endif
#if defined(ND_AVX512) || defined(ND_AVX2)
  for (; i + 32 <= n; i += 32)
    _mm256_stream_si256((__m256i *)(void *)((char *)p + i),
                        _mm256_loadu_si256((const __m256i *)(const void *)((const char *)x + i)));
#endif
  for (; i + 16 <= n; i += 16)
    _mm_stream_si128((__m128i *)(void *)((char *)p + i),
                     _mm_loadu_si128((const __m128i *)(const void *)((const char *)x + i)));
}
#elif defined(__clang__)
#define ND_FAR_STORE_OK(n) ((n) >= 16)
#define ND_FAR_STORE(p, x) __builtin_nontemporal_store(x, (__typeof__(x) *)p)
#else
#define ND_FAR_STORE_OK(n) 0
#define ND_FAR_STORE(p, x) (void)0
#endif
ND_RAW_FAR(b1)
ND_RAW_FAR(b2)
ND_RAW_FAR(b4)
ND_RAW_FAR(b8)
#undef ND_RAW_FAR

/* ---- the element types ------------------------------------------------------------------------------------------- */

/* T: element, V: its vector in registers, B: its width in memory, IN(bits): value, OUT(value): bits,
 * KEEP(m, loaded, other): what a masked lane becomes where the raw load gave it 0 or, for plain types, already `other`.
 */
#define ND_MEM(T, V, B, IN, OUT, RAWOTHER, KEEP) \
  ND_INLINE V nd_load_##T##v(const void *p) { return IN(nd_load_##B(p)); } \
  ND_INLINE V nd_mload_##T##v(const void *p, nd_mask m, V other) { \
    return KEEP(m, IN(nd_mload_##B(p, m, RAWOTHER(B))), other); \
  } \
  ND_INLINE V nd_sload_##T##v(const void *p, int64_t stride) { return IN(nd_sload_##B(p, stride)); } \
  ND_INLINE V nd_smload_##T##v(const void *p, int64_t stride, nd_mask m, V other) { \
    return KEEP(m, IN(nd_smload_##B(p, stride, m, RAWOTHER(B))), other); \
  } \
  ND_INLINE V nd_gather_##T##v(nd_i64v address, nd_mask m, V other) { \
    return KEEP(m, IN(nd_gather_##B(address, m, RAWOTHER(B))), other); \
  } \
  ND_INLINE V nd_xgather_##T##v(const void *p, nd_i32v index, nd_mask m, V other) { \
    return KEEP(m, IN(nd_xgather_##B(p, index, m, RAWOTHER(B))), other); \
  } \
  ND_INLINE void nd_store_##T##v(void *p, V x) { nd_store_##B(p, OUT(x)); } \
  ND_INLINE void nd_mstore_##T##v(void *p, V x, nd_mask m) { nd_mstore_##B(p, OUT(x), m); } \
  ND_INLINE void nd_sstore_##T##v(void *p, int64_t stride, V x) { nd_sstore_##B(p, stride, OUT(x)); } \
  ND_INLINE void nd_smstore_##T##v(void *p, int64_t stride, V x, nd_mask m) { nd_smstore_##B(p, stride, OUT(x), m); } \
  ND_INLINE void nd_scatter_##T##v(nd_i64v address, V x, nd_mask m) { nd_scatter_##B(address, OUT(x), m); } \
  ND_INLINE void nd_xscatter_##T##v(void *p, nd_i32v index, V x, nd_mask m) { nd_xscatter_##B(p, index, OUT(x), m); } \
  ND_INLINE void nd_nstore_##T##v(void *p, V x, int far) { nd_nstore_##B(p, OUT(x), far); }

#define ND_OTHER_RAW(B) (nd_##B##v) other
#define ND_OTHER_ZERO(B) \
  (nd_##B##v) { 0 }
#define ND_KEEP_LOADED(m, x, other) (x)
#define ND_MEM_PLAIN(T, B) \
  ND_MEM(T, nd_##T##v, B, (nd_##T##v), (nd_##B##v), ND_OTHER_RAW, ND_KEEP_LOADED) \
  ND_INLINE nd_##T nd_load_##T(const void *p) { \
    nd_##T x; \
    memcpy(&x, p, sizeof x); \
    return x; \
  } \
  ND_INLINE void nd_store_##T(void *p, nd_##T x) { memcpy(p, &x, sizeof x); }
ND_MEM_PLAIN(i8, b1)
ND_MEM_PLAIN(u8, b1)
ND_MEM_PLAIN(i16, b2)
ND_MEM_PLAIN(u16, b2)
ND_MEM_PLAIN(i32, b4)
ND_MEM_PLAIN(u32, b4)
ND_MEM_PLAIN(f32, b4)
ND_MEM_PLAIN(i64, b8)
ND_MEM_PLAIN(u64, b8)
ND_MEM_PLAIN(f64, b8)

#define ND_MEM_NARROW(T, U, B) \
  ND_MEM(T, nd_f32v, B, nd_from_bits_##T##v, nd_bits_##T##v, ND_OTHER_ZERO, nd_select_f32v) \
  ND_INLINE nd_##T nd_load_##T(const void *p) { return nd_from_bits_##T(nd_load_##U(p)); } \
  ND_INLINE void nd_store_##T(void *p, nd_##T x) { nd_store_##U(p, nd_bits_##T(x)); }
ND_MEM_NARROW(f16, u16, b2)
ND_MEM_NARROW(bf16, u16, b2)
ND_MEM_NARROW(fp8e5, u8, b1)
ND_MEM_NARROW(fp8e4nv, u8, b1)
ND_MEM_NARROW(fp8e4b15, u8, b1)
ND_MEM_NARROW(fp8e4b8, u8, b1)
ND_MEM_NARROW(fp8e5b16, u8, b1)

ND_INLINE nd_mask nd_mask_of_b1(nd_b1v x) { return nd_ne_u8v(x, (nd_u8v){0}); }
ND_INLINE nd_b1v nd_b1_of_mask(nd_mask m) { return nd_cvt_u8_i1v(m); }
ND_MEM(i1, nd_mask, b1, nd_mask_of_b1, nd_b1_of_mask, ND_OTHER_ZERO, nd_select_i1v)
ND_INLINE nd_i1 nd_load_i1(const void *p) { return *(const nd_b1 *)p != 0; }
ND_INLINE void nd_store_i1(void *p, nd_i1 x) { *(nd_b1 *)p = x != 0; }
#undef ND_MEM
#undef ND_MEM_PLAIN
#undef ND_MEM_NARROW

#endif
