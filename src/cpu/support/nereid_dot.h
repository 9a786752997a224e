/* nereid_dot: acc[m,n] += a[m,k] b[k,n] on row-major arrays. Needs nereid_cpu.h, nereid_vec.h, nereid_convert.h and
 * nereid_amx.h.
 *
 * The heart is a block of rows x vectors of the result that stays in registers while k runs: a row's vectors of b are
 * loaded for all rows of a, one element of a is spread over a vector for all columns.
 *
 *                     +----------+----------+
 *         a[i][k] --> |          |          |          32 registers   6x4 or 8x2
 *      i: `mr` rows   |          |          |          AVX2           6x2 of 16
 *                     +----------+----------+          else           4x2 of 16
 *                        j: `nv` vectors
 *
 * 6x4 loads 10 vectors for 24 products, 8x2 as many for 16: alone on a core both multiply at its full rate, beside
 * another thread of the core, which takes loads as well, 6x4 is a tenth to a fifth faster.
 *
 * Around it: columns in panels of two vectors, so that a panel of b, ND_DOT_K rows of it, stays in the first cache
 * for all rows of a, of which ND_DOT_M at a time stay in the second. Rows that lie far apart are copied together first,
 * since at distances of powers of two they fall on the same few lines of a cache. (Goto and van de Geijn, "Anatomy of
 * High-Performance Matrix Multiplication".)
 *
 * Narrow elements are always copied: bf16 in pairs where the machine has vdpbf16ps (rows 2k and 2k + 1 of b side by
 * side), or AMX; int8 in quads where it has vpdpbusd, or AMX, else in pairs of 16 bits on x86; the others as f32. The
 * copies are on the stack, 80 KiB.
 *
 * vpdpbusd multiplies unsigned by signed bytes: it takes b with 128 added, and 128 times the sum of each row of a is
 * taken off the accumulator, all modulo 2^32. Without AMX, b is copied so; AMX takes b as it is, and what it leaves to
 * vpdpbusd has the 128 added on the way.
 *
 * A loop that adds up products (cpu/gemm.c) packs the operands of many iterations and multiplies once (nd_gemm_T): b as
 * panels, a as rows, or where it lies in memory if its rows are there just as the kernel reads them.
 */
#ifndef NEREID_DOT_H
#define NEREID_DOT_H

#define ND_DOT_K 128 /* rows of b in a panel */
#define ND_DOT_M 128 /* rows of a that one panel serves */
#define ND_DOT_NV 2  /* vectors in a panel */
#if ND_REG == 64 || defined(__aarch64__)
#define ND_DOT_ROWS 8
#define ND_DOT_WIDE_ROWS 6 /* of two panels side by side; 0: there are no registers for that */
#elif ND_REG == 32
#define ND_DOT_ROWS 6
#define ND_DOT_WIDE_ROWS 0
#else
#define ND_DOT_ROWS 4
#define ND_DOT_WIDE_ROWS 0
#endif
#define nd_dot_pack_bytes(n, k) 64 /* room that callers hand in and nobody needs any more */

/* One register of each accumulator, and one anywhere in memory. */
#define ND_DOT_TYPES(T) \
  typedef nd_##T nd_dot_v_##T __attribute__((vector_size(ND_REG))); \
  typedef nd_dot_v_##T nd_dot_v_##T##u __attribute__((aligned(4), may_alias));
ND_DOT_TYPES(f32)
ND_DOT_TYPES(f64)
ND_DOT_TYPES(i32)
#undef ND_DOT_TYPES

/* Keeps a vector that was loaded for all rows from being loaded again as an operand in memory of each. */
#if ND_REG == 64
#define ND_DOT_HOLD(x) __asm__("" : "+v"(x))
#elif defined(ND_X86)
#define ND_DOT_HOLD(x) __asm__("" : "+x"(x))
#else
#define ND_DOT_HOLD(x) (void)0
#endif

#if defined(ND_X86) && defined(__FMA__)
ND_INLINE nd_dot_v_f32 nd_dot_step_f32(nd_dot_v_f32 c, float a, nd_dot_v_f32 b) {
  return (nd_dot_v_f32)ND_MM64(fmadd_ps)(ND_MM64(set1_ps)(a), b, c);
}
ND_INLINE nd_dot_v_f64 nd_dot_step_f64(nd_dot_v_f64 c, double a, nd_dot_v_f64 b) {
  return (nd_dot_v_f64)ND_MM64(fmadd_pd)(ND_MM64(set1_pd)(a), b, c);
}
#else
ND_INLINE nd_dot_v_f32 nd_dot_step_f32(nd_dot_v_f32 c, float a, nd_dot_v_f32 b) { return c + a * b; }
ND_INLINE nd_dot_v_f64 nd_dot_step_f64(nd_dot_v_f64 c, double a, nd_dot_v_f64 b) { return c + a * b; }
#endif
ND_INLINE nd_dot_v_i32 nd_dot_step_i32(nd_dot_v_i32 c, int32_t a, nd_dot_v_i32 b) { return c + a * b; }

/* Pairs: a holds two elements in 32 bits, and so does each lane of b; quads: four. */
#if defined(__AVX512VNNI__) && ND_REG == 64
#define ND_DOT_QUADS_I8 1
#ifdef ND_AMX
#define ND_DOT_BIASED 0 /* what b's copies have added, in each of four bytes */
#define ND_DOT_ROW_quads(x) ((x) ^ (int32_t)0x80808080u)
#else
#define ND_DOT_BIASED 0x80808080u
#define ND_DOT_ROW_quads(x) (x)
#endif
ND_INLINE nd_dot_v_i32 nd_dot_step_quads(nd_dot_v_i32 c, int32_t a, nd_dot_v_i32 b) {
  return (nd_dot_v_i32)_mm512_dpbusd_epi32((__m512i)c, (__m512i)b, _mm512_set1_epi32(a));
}
#elif defined(ND_X86)
#define ND_DOT_PAIRS_I16 1
ND_INLINE nd_dot_v_i32 nd_dot_step_i16(nd_dot_v_i32 c, int32_t a, nd_dot_v_i32 b) {
  return c + (nd_dot_v_i32)ND_MM64(madd_epi16)(ND_MM64(set1_epi32)(a), (ND_MI64)b);
}
#endif
#if defined(__AVX512BF16__) && ND_REG == 64
#define ND_DOT_PAIRS_BF16 1
ND_INLINE nd_dot_v_f32 nd_dot_step_bf16(nd_dot_v_f32 c, int32_t a, nd_dot_v_f32 b) {
  return (nd_dot_v_f32)_mm512_dpbf16_ps(c, (__m512bh)_mm512_set1_epi32(a), (__m512bh)b);
}
#elif defined(ND_AMX_EMULATE) && ND_REG == 64
#define ND_DOT_PAIRS_BF16 1
ND_INLINE nd_dot_v_f32 nd_dot_step_bf16(nd_dot_v_f32 c, int32_t a, nd_dot_v_f32 b) {
  __m512i x = _mm512_set1_epi32(a), y = (__m512i)b, high = _mm512_set1_epi32(-65536);
  c += (nd_dot_v_f32)_mm512_slli_epi32(x, 16) * (nd_dot_v_f32)_mm512_slli_epi32(y, 16);
  return c + (nd_dot_v_f32)_mm512_and_si512(x, high) * (nd_dot_v_f32)_mm512_and_si512(y, high);
}
#endif

/* What a step takes of a vector of b. */
#define ND_DOT_ROW_f32(x) (x)
#define ND_DOT_ROW_f64(x) (x)
#define ND_DOT_ROW_i32(x) (x)
#define ND_DOT_ROW_i16(x) (x)
#define ND_DOT_ROW_bf16(x) (x)

/* Vector j of a row of a panel, or of two panels side by side. */
#define ND_DOT_LOAD(NAME, V, b, next, j) \
  ND_DOT_ROW_##NAME(*(const V##u *)(b + j / ND_DOT_NV * next + j % ND_DOT_NV * (int)(sizeof(V) / sizeof *b)))

/* NAME: suffix of the functions. E: element of acc, A: of a as a step takes it, V: vector, L: its lanes, STEP.
 * panel: rows of two vectors of b (or one) at distance ldb; `next`: elements from a panel to the one at its right.
 * to = acc + a b, where acc may be `to`; fresh: to = a b. What is summed here is added to acc as one number: of long
 * sums that leaves a smaller error than to go on from acc. */
#define ND_DOT_KERNEL(NAME, E, A, V, STEP) \
  ND_INLINE void nd_dot_block_##NAME(const int mr, const int nv, const int ahead, E *to, int64_t ldt, const E *acc, \
                                     int64_t ldc, const A *a, int64_t lda, const E *b, int64_t ldb, int64_t next, \
                                     int k, int fresh) { \
    enum { L = ND_REG / sizeof(E) }; \
    V c[ND_DOT_ROWS][2 * ND_DOT_NV]; \
    ND_UNROLL for (int i = 0; i < mr; i++) ND_UNROLL for (int j = 0; j < nv; j++) c[i][j] = (V){0}; \
    V row[2 * ND_DOT_NV]; \
    if (ahead) ND_UNROLL for (int j = 0; j < nv; j++) row[j] = ND_DOT_LOAD(NAME, V, b, next, j); \
    for (int p = 0; p < k; p++) { \
      if (!ahead) ND_UNROLL for (int j = 0; j < nv; j++) { \
          row[j] = ND_DOT_LOAD(NAME, V, b, next, j); \
          ND_DOT_HOLD(row[j]); \
        } \
      b += ldb; \
      ND_UNROLL for (int i = 0; i < mr; i++) ND_UNROLL for (int j = 0; j < nv; j++) { \
        c[i][j] = STEP(c[i][j], a[i * lda + p], row[j]); \
        if (!ahead || i < mr - 1) continue; \
        row[j] = ND_DOT_LOAD(NAME, V, b, next, j); \
        ND_DOT_HOLD(row[j]); \
      } \
    } \
    if (fresh) \
      ND_UNROLL for (int i = 0; i < mr; i++, to += ldt) ND_UNROLL for (int j = 0; j < nv; j++) * \
          (V##u *)(to + j * L) = c[i][j]; \
    else \
      ND_UNROLL for (int i = 0; i < mr; i++, to += ldt, acc += ldc) ND_UNROLL for (int j = 0; j < nv; j++) * \
          (V##u *)(to + j * L) = *(const V##u *)(acc + j * L) + c[i][j]; \
  } \
  /* all rows, in blocks of mr; by itself, so that addresses stay in registers */ \
  ND_INLINE void nd_dot_panel_##NAME(const int mr, const int nv, const int ahead, E *to, int64_t ldt, const E *acc, \
                                     int64_t ldc, const A *a, int64_t lda, const E *b, int64_t ldb, int64_t next, \
                                     int m, int k, int fresh) { \
    for (; m >= mr; m -= mr, to += mr * ldt, acc += mr * ldc, a += mr * lda) \
      nd_dot_block_##NAME(mr, nv, ahead, to, ldt, acc, ldc, a, lda, b, ldb, next, k, fresh); \
    for (; m >= 2; m -= 2, to += 2 * ldt, acc += 2 * ldc, a += 2 * lda) \
      nd_dot_block_##NAME(2, nv, ahead, to, ldt, acc, ldc, a, lda, b, ldb, next, k, fresh); \
    if (m) nd_dot_block_##NAME(1, nv, ahead, to, ldt, acc, ldc, a, lda, b, ldb, next, k, fresh); \
  } \
  ND_NOINLINE void nd_dot_panel2_##NAME(E *to, int64_t ldt, const E *acc, int64_t ldc, const A *a, int64_t lda, \
                                        const E *b, int64_t ldb, int m, int k, int fresh) { \
    nd_dot_panel_##NAME(ND_DOT_ROWS, 2, 0, to, ldt, acc, ldc, a, lda, b, ldb, 0, m, k, fresh); \
  } \
  ND_NOINLINE void nd_dot_panel1_##NAME(E *acc, int64_t ldc, const A *a, int64_t lda, const E *b, int64_t ldb, int m, \
                                        int k) { \
    nd_dot_panel_##NAME(ND_DOT_ROWS, 1, 0, acc, ldc, acc, ldc, a, lda, b, ldb, 0, m, k, 0); \
  } \
  ND_NOINLINE void nd_dot_panel4_##NAME(E *to, int64_t ldt, const E *acc, int64_t ldc, const A *a, int64_t lda, \
                                        const E *b, int64_t ldb, int64_t next, int m, int k, int fresh) { \
    nd_dot_panel_##NAME(ND_DOT_WIDE_ROWS, 4, 1, to, ldt, acc, ldc, a, lda, b, ldb, next, m, k, fresh); \
  } \
  /* `count` panels, packed, `next` elements from each other: two at once where there are registers for that */ \
  ND_INLINE void nd_dot_panels_##NAME(E *to, int64_t ldt, const E *acc, int64_t ldc, const A *a, int64_t lda, \
                                      const E *b, int64_t next, int count, int m, int k, int fresh) { \
    enum { W = ND_DOT_NV * ND_REG / sizeof(E) }; \
    int j = 0; \
    for (; ND_DOT_WIDE_ROWS && j + 2 <= count; j += 2) \
      nd_dot_panel4_##NAME(to + j * W, ldt, acc + j * W, ldc, a, lda, b + j * next, W, next, m, k, fresh); \
    for (; j < count; j++) \
      nd_dot_panel2_##NAME(to + j * W, ldt, acc + j * W, ldc, a, lda, b + j * next, W, m, k, fresh); \
  }
ND_DOT_KERNEL(f32, float, float, nd_dot_v_f32, nd_dot_step_f32)
ND_DOT_KERNEL(f64, double, double, nd_dot_v_f64, nd_dot_step_f64)
ND_DOT_KERNEL(i32, int32_t, int32_t, nd_dot_v_i32, nd_dot_step_i32)
#ifdef ND_DOT_QUADS_I8
ND_DOT_KERNEL(quads, int32_t, int32_t, nd_dot_v_i32, nd_dot_step_quads)
#endif
#ifdef ND_DOT_PAIRS_I16
ND_DOT_KERNEL(i16, int32_t, int32_t, nd_dot_v_i32, nd_dot_step_i16)
#endif
#ifdef ND_DOT_PAIRS_BF16
ND_DOT_KERNEL(bf16, float, int32_t, nd_dot_v_f32, nd_dot_step_bf16)
#endif

/* One row of acc with w < 2 vectors: by way of the stack, since a block reads and writes whole vectors. */
#define ND_DOT_EDGE(NAME, E, A) \
  ND_INLINE void nd_dot_edge_##NAME(E *acc, int w, const A *a, const E *b, int k) { \
    enum { W = ND_DOT_NV * ND_REG / sizeof(E) }; \
    E row[W]; \
    for (int j = 0; j < W; j++) row[j] = j < w ? acc[j] : 0; \
    nd_dot_block_##NAME(1, ND_DOT_NV, 0, row, 0, row, 0, a, 0, b, W, 0, k, 0); \
    for (int j = 0; j < w; j++) acc[j] = row[j]; \
  }

/* ---- copies: a row of a panel of b, w columns of it, `there` = how many of `per` rows exist; a piece of a row of a ---- */

#define ND_DOT_COPY(T) \
  ND_INLINE void nd_dot_row_##T(nd_##T *dst, const nd_##T *b, int64_t ldb, int w, int there) { \
    enum { L = ND_REG / sizeof(nd_##T), W = ND_DOT_NV * L }; \
    (void)ldb, (void)there; \
    if (w == W) \
      for (int v = 0; v < W; v += L) *(nd_dot_v_##T *)(dst + v) = *(const nd_dot_v_##T##u *)(b + v); \
    else \
      for (int v = 0; v < W; v++) dst[v] = v < w ? b[v] : 0; \
  } \
  ND_INLINE void nd_dot_piece_##T(nd_##T *dst, const nd_##T *a, int k) { memcpy(dst, a, (size_t)k * sizeof *dst); }

#define ND_DOT_WIDEN(T, U) \
  ND_INLINE void nd_dot_row_##T(float *dst, const nd_##U *b, int64_t ldb, int w, int there) { \
    enum { W = ND_DOT_NV * ND_REG / 4 }; \
    (void)ldb, (void)there; \
    if (w == W) \
      for (int v = 0; v < W; v += ND_VL) *(nd_f32vu *)(dst + v) = nd_from_bits_##T##v(*(const nd_##U##vu *)(b + v)); \
    else \
      for (int v = 0; v < W; v++) dst[v] = v < w ? nd_from_bits_##T(b[v]) : 0; \
  } \
  ND_INLINE void nd_dot_piece_##T(float *dst, const nd_##U *a, int k) { nd_widen_##T(dst, a, k); }

/* Two elements in 32 bits, the first one low. */
#define ND_DOT_PAIR(x, y) ((uint32_t)(uint16_t)(x) | (uint32_t)(uint16_t)(y) << 16)
#define ND_DOT_PAIRS(T, D, U) \
  ND_INLINE void nd_dot_row_##T(D *dst, const nd_##U *b, int64_t ldb, int w, int there) { \
    enum { W = ND_DOT_NV * ND_REG / 4 }; \
    const nd_##U *c = there == 2 ? b + ldb : b; \
    if (w == W && there == 2) \
      for (int v = 0; v < W; v += ND_VL) \
        *(nd_u32vu *)(void *)(dst + v) = ((nd_u32v)nd_to32_##U##v(*(const nd_##U##vu *)(b + v)) & 0xffff) | \
                                         (nd_u32v)nd_to32_##U##v(*(const nd_##U##vu *)(c + v)) << 16; \
    else \
      for (int v = 0; v < W; v++) { \
        uint32_t x = v < w ? ND_DOT_PAIR(b[v], there == 2 ? c[v] : 0) : 0; \
        memcpy(dst + v, &x, 4); \
      } \
  }
/* A row of a has its pairs side by side already. */
#ifdef ND_DOT_PAIRS_BF16
ND_INLINE void nd_dot_piece_bf16(int32_t *dst, const nd_u16 *a, int k) {
  dst[(k - 1) / 2] = 0;
  memcpy(dst, a, (size_t)k * 2);
}
#endif
#ifdef ND_DOT_QUADS_I8
ND_INLINE void nd_dot_piece_i8(int32_t *dst, const nd_i8 *a, int k) {
  dst[(k - 1) / 4] = 0;
  memcpy(dst, a, (size_t)k);
}
ND_INLINE void nd_dot_row_i8(int32_t *dst, const nd_i8 *b, int64_t ldb, int w, int there) {
  enum { W = ND_DOT_NV * ND_REG / 4 };
  if (w == W && there == 4)
    for (int v = 0; v < W; v += ND_VL) {
      nd_u32v quad = {0};
      for (int r = 0; r < 4; r++)
        quad |= (nd_u32v)nd_to32_u8v(*(const nd_u8vu *)(const void *)(b + r * ldb + v)) << 8 * r;
      *(nd_u32vu *)(void *)(dst + v) = quad ^ ND_DOT_BIASED;
    }
  else
    for (int v = 0; v < W; v++) {
      uint32_t quad = ND_DOT_BIASED;
      for (int r = 0; v < w && r < there; r++) quad ^= (uint32_t)(uint8_t)b[r * ldb + v] << 8 * r;
      memcpy(dst + v, &quad, 4);
    }
}
/* Takes off what the added 128 bring: 128 times the sum of each row of a; `fresh`: of zeros. Distances in elements. */
ND_NOINLINE void nd_dot_unbias(int32_t *acc, int64_t ldc, const nd_i8 *a, int64_t lda, int m, int n, int k, int fresh) {
  for (int i = 0; i < m; i++, acc += ldc, a += lda) {
    nd_dot_v_i32 sums = {0};
    int32_t sum = 0;
    int p = 0, j = 0;
    for (; p + ND_REG <= k; p += ND_REG)
      sums = (nd_dot_v_i32)_mm512_dpbusd_epi32((__m512i)sums, _mm512_set1_epi8(1), _mm512_loadu_si512(a + p));
    for (int v = 0; v < ND_REG / 4; v++) sum += sums[v];
    for (; p < k; p++) sum += a[p];
    sum *= -128;
    nd_dot_v_i32 all = (nd_dot_v_i32){0} + sum;
    for (; j + ND_REG / 4 <= n; j += ND_REG / 4)
      if (fresh) *(nd_dot_v_i32u *)(acc + j) = all;
      else *(nd_dot_v_i32u *)(acc + j) += all;
    for (; j < n; j++) acc[j] = fresh ? sum : acc[j] + sum;
  }
}
#elif defined(ND_DOT_PAIRS_I16)
ND_INLINE void nd_dot_piece_i8(int32_t *dst, const nd_i8 *a, int k) {
  int p = 0;
  for (; p + ND_VL <= k; p += ND_VL)
    *(nd_i16vu *)(void *)((char *)dst + 2 * p) = __builtin_convertvector(*(const nd_i8vu *)(a + p), nd_i16v);
  for (; p < k; p += 2) dst[p / 2] = (int32_t)ND_DOT_PAIR(a[p], p + 1 < k ? a[p + 1] : 0);
}
#endif

/* ---- the whole product ------------------------------------------------------------------------------------------- */

/* T: name and source type S; KERNEL with elements E of b and acc, A of a; `per` elements of k in a step.
 * far_a, far_b: whether rows at that distance must be copied. */
#define ND_DOT_PRODUCT(T, S, KERNEL, E, A, per, far_a, far_b) \
  ND_INLINE void nd_dot_product_##T(E *acc, int64_t ldc, const S *a, int64_t lda, const S *b, int64_t ldb, int m, \
                                    int n, int k) { \
    enum { L = ND_REG / sizeof(E), W = ND_DOT_NV * L, K = ND_DOT_K }; \
    A rows[ND_DOT_M * K] __attribute__((aligned(64))); \
    E panel[K * W] __attribute__((aligned(64))); \
    for (int i = 0; i < m; i += ND_DOT_M) \
      for (int p = 0; p < k; p += K * per) { \
        int ms = m - i < ND_DOT_M ? m - i : ND_DOT_M, ks = k - p < K * per ? k - p : K * per, \
            steps = (ks + per - 1) / per; \
        const S *from_a = a + i * lda + p; \
        const A *at = (const A *)(const void *)from_a; \
        int64_t at_apart = lda; \
        if (far_a) { \
          for (int r = 0; r < ms; r++) nd_dot_piece_##T(rows + r * K, from_a + r * lda, ks); \
          at = rows, at_apart = K; \
        } \
        for (int j = 0; j < n; j += W) { \
          int w = n - j < W ? n - j : W; \
          const S *from_b = b + p * ldb + j; \
          const E *bt = (const E *)(const void *)from_b; \
          int64_t bt_apart = ldb; \
          if ((far_b) || w % L) { \
            for (int r = 0; r < steps; r++) \
              nd_dot_row_##T(panel + r * W, from_b + r * per * ldb, ldb, w, ks - r * per < per ? ks - r * per : per); \
            bt = panel, bt_apart = W; \
          } \
          E *c = acc + i * ldc + j; \
          if (w == W) nd_dot_panel2_##KERNEL(c, ldc, c, ldc, at, at_apart, bt, bt_apart, ms, steps, 0); \
          else if (w == L) nd_dot_panel1_##KERNEL(c, ldc, at, at_apart, bt, bt_apart, ms, steps); \
          else \
            for (int r = 0; r < ms; r++) nd_dot_edge_##KERNEL(c + r * ldc, w, at + r * at_apart, bt, steps); \
        } \
      } \
  }

#define ND_DOT(T) \
  ND_DOT_EDGE(T, nd_##T, nd_##T) \
  ND_DOT_COPY(T) \
  ND_DOT_PRODUCT(T, nd_##T, T, nd_##T, nd_##T, 1, n > W && lda * (int64_t)sizeof(nd_##T) >= 2048, \
                 m >= 32 && ldb * (int64_t)sizeof(nd_##T) >= 1024) \
  ND_NOINLINE void nd_dot_##T(nd_##T *acc, int64_t ldc, const nd_##T *a, int64_t lda, const nd_##T *b, int64_t ldb, \
                              int m, int n, int k) { \
    nd_dot_product_##T(acc, ldc, a, lda, b, ldb, m, n, k); \
  }
ND_DOT(f32)
ND_DOT(f64)
ND_DOT(i32)

#define ND_DOT_NARROW(T, U, KERNEL, E, A, per) \
  ND_DOT_PRODUCT(T, nd_##U, KERNEL, E, A, per, 1, 1) \
  ND_NOINLINE void nd_dot_##T(E *acc, int64_t ldc, const void *a, int64_t lda, const void *b, int64_t ldb, int m, \
                              int n, int k, void *pack) { \
    (void)pack; \
    nd_dot_product_##T(acc, ldc, (const nd_##U *)a, lda, (const nd_##U *)b, ldb, m, n, k); \
  }
#define ND_DOT_AS_F32(T, U) ND_DOT_WIDEN(T, U) ND_DOT_NARROW(T, U, f32, float, float, 1)
ND_DOT_AS_F32(f16, u16)
ND_DOT_AS_F32(fp8e5, u8)
ND_DOT_AS_F32(fp8e4nv, u8)
ND_DOT_AS_F32(fp8e4b15, u8)
ND_DOT_AS_F32(fp8e4b8, u8)
ND_DOT_AS_F32(fp8e5b16, u8)
#ifdef ND_AMX
/* Whole tiles first; then what is left of k for their rows, and the rows below them. REST: what the vectors of KERNEL
 * leave to do. nd_dot_NAME: between nd_amx_begin() and nd_amx_end(). */
#define ND_DOT_TILES(NAME, T, KERNEL, E, REST) \
  ND_INLINE void nd_dot_rest_##NAME(E *acc, int64_t ldc, const int32_t *a, int64_t lda, const E *b, int64_t ldb, \
                                    int m, int k, int fresh) { \
    nd_dot_panel2_##KERNEL(acc, ldc, acc, ldc, a, lda, b, ldb, m, k, fresh); \
    REST; \
  } \
  ND_NOINLINE void nd_dot_##NAME(E *acc, int64_t ldc, const int32_t *a, int64_t lda, const E *b, int64_t ldb, int m, \
                                 int k, int fresh) { \
    int groups, rows = nd_amx_panel_##T(acc, ldc, a, lda, b, ldb, m, k, fresh, &groups); \
    if (rows && groups < k) nd_dot_rest_##NAME(acc, ldc, a + groups, lda, b + groups * ldb, ldb, rows, k - groups, 0); \
    if (rows < m) nd_dot_rest_##NAME(acc + rows * ldc, ldc, a + rows * lda, lda, b, ldb, m - rows, k, fresh); \
  } \
  /* to is acc (ND_GEMM_INTO_T) */ \
  ND_INLINE void nd_dot_panel2_##NAME(E *to, int64_t ldt, const E *acc, int64_t ldc, const int32_t *a, int64_t lda, \
                                      const E *b, int64_t ldb, int m, int k, int fresh) { \
    (void)acc, (void)ldc; \
    nd_amx_begin(); \
    nd_dot_##NAME(to, ldt, a, lda, b, ldb, m, k, fresh); \
    nd_amx_end(); \
  } \
  ND_INLINE void nd_dot_panels_##NAME(E *to, int64_t ldt, const E *acc, int64_t ldc, const int32_t *a, int64_t lda, \
                                      const E *b, int64_t next, int count, int m, int k, int fresh) { \
    (void)acc, (void)ldc; \
    for (int j = 0; j < count; j++) nd_dot_##NAME(to + j * 32, ldt, a, lda, b + j * next, 32, m, k, fresh); \
  }
#ifdef ND_DOT_PAIRS_BF16
ND_DOT_TILES(tiles_bf16, bf16, bf16, float, (void)0)
#endif
#ifdef ND_DOT_QUADS_I8
ND_DOT_TILES(tiles_i8, i8, quads, int32_t,
             nd_dot_unbias(acc, ldc, (const nd_i8 *)(const void *)a, lda * 4, m, 32, k * 4, 0))
#endif
#undef ND_DOT_TILES
#else
#define nd_dot_panel2_tiles_bf16 nd_dot_panel2_bf16
#define nd_dot_panel2_tiles_i8 nd_dot_panel2_quads
#endif
#ifdef ND_DOT_PAIRS_BF16
#define nd_dot_panel1_tiles_bf16 nd_dot_panel1_bf16
#define nd_dot_edge_tiles_bf16 nd_dot_edge_bf16
ND_DOT_EDGE(bf16, float, int32_t)
ND_DOT_PAIRS(bf16, float, u16)
ND_DOT_NARROW(bf16, u16, tiles_bf16, float, int32_t, 2)
#else
ND_DOT_AS_F32(bf16, u16)
#endif
#ifdef ND_DOT_QUADS_I8
#define nd_dot_panel1_tiles_i8 nd_dot_panel1_quads
#define nd_dot_edge_tiles_i8 nd_dot_edge_quads
ND_DOT_EDGE(quads, int32_t, int32_t)
ND_DOT_PRODUCT(i8, nd_i8, tiles_i8, int32_t, int32_t, 4, 1, 1)
ND_NOINLINE void nd_dot_i8(int32_t *acc, int64_t ldc, const void *a, int64_t lda, const void *b, int64_t ldb, int m,
                           int n, int k, void *pack) {
  (void)pack;
#ifdef ND_AMX
  int tiles = n / (ND_DOT_NV * ND_REG / 4) * (ND_DOT_NV * ND_REG / 4); /* columns that see to it themselves */
#else
  int tiles = 0;
#endif
  nd_dot_unbias(acc + tiles, ldc, (const nd_i8 *)a, lda, m, n - tiles, k, 0);
  nd_dot_product_i8(acc, ldc, (const nd_i8 *)a, lda, (const nd_i8 *)b, ldb, m, n, k);
}
#elif defined(ND_DOT_PAIRS_I16)
ND_DOT_EDGE(i16, int32_t, int32_t)
ND_DOT_PAIRS(i8, int32_t, i8)
ND_DOT_NARROW(i8, i8, i16, int32_t, int32_t, 2)
#else
ND_INLINE void nd_dot_row_i8(int32_t *dst, const nd_i8 *b, int64_t ldb, int w, int there) {
  (void)ldb, (void)there;
  for (int v = 0; v < ND_DOT_NV * ND_REG / 4; v++) dst[v] = v < w ? b[v] : 0;
}
ND_INLINE void nd_dot_piece_i8(int32_t *dst, const nd_i8 *a, int k) {
  for (int p = 0; p < k; p++) dst[p] = a[p];
}
ND_DOT_NARROW(i8, i8, i32, int32_t, int32_t, 1)
#endif

/* ---- products of many tiles along k ----------------------------------------------------------------------------- */

/* How many rows of a go through all panels together, a multiple of `tile`. Each panel reads these rows again, from the
 * second cache. Rows at a distance of a high power of two meet in few of its sets: their addresses repeat after 128 KiB
 * there (2 MiB of 16 ways, 1 MiB of 8; with 64 KiB there are more ways). Where six rows would fill a set, no more are
 * taken: at 16 KiB, 48. */
ND_INLINE int nd_gemm_rows_at(int64_t apart, int tile) {
  const int64_t repeat = 128 << 10, power = apart & -apart;
  const int rows = 6 * (int)(!power ? repeat : power < repeat ? repeat / power : 1);
  return (rows + tile - 1) / tile * tile;
}

/* ND_GEMM_A_T, ND_GEMM_B_T: bytes that an element takes in a packed row of a and in a panel of b. ND_GEMM_W_T: columns
 * in a panel. ND_GEMM_RAW_T: whether a packed row is the row as it lies in memory, so that none need be packed.
 *
 *   nd_gemm_rows_T(to, apart, tile, m, k)     packs a tile of a; rows `apart` bytes from each other
 *   nd_gemm_panels_T(to, apart, from, from_apart, n, k)   packs a tile of b whose rows lie from_apart bytes from each
 *                                             other, n a multiple of ND_GEMM_W_T; panels `apart` bytes away
 *   nd_gemm_T(acc, ldc, a, a_apart, b, b_apart, m, n, k, fresh)   acc[m,n] += a b; fresh: acc = a b
 *   nd_gemm_into_T(to, ldt, acc, ldc, ..)     to[m,n] = acc + a b; fresh: to = a b. Where ND_GEMM_INTO_T is 0, to is
 * acc
 *
 * ND_GEMM_BLOCK_T: steps of k that are taken at once. ND_GEMM_ROWS_T: rows that go through the last of them, and then
 * through what is done with the sums, before the next rows do.
 *
 * k is a multiple of 4. ND_GEMM_K_T steps of k at a time: that much of a panel stays in the first cache for all rows,
 * also where two threads share it; tiles of AMX want longer runs. TILE: of whole
 * blocks or tiles. */
#define ND_GEMM(T, S, PANELS, E, A, per, TILE, INTO, BEGIN, END) \
  enum { \
    ND_GEMM_K_##T = per == 1 ? 128 : 256, \
    ND_GEMM_BLOCK_##T = ND_GEMM_K_##T * per, \
    ND_GEMM_ROWS_##T = per == 1 ? 128 : 64, \
    ND_GEMM_A_##T = sizeof(A) / per, \
    ND_GEMM_B_##T = sizeof(E) / per, \
    ND_GEMM_W_##T = ND_DOT_NV * ND_REG / sizeof(E), \
    ND_GEMM_RAW_##T = sizeof(A) == per * sizeof(nd_##S), \
    ND_GEMM_UNIT_##T = sizeof(A), \
    ND_GEMM_INTO_##T = INTO \
  }; \
  ND_NOINLINE void nd_gemm_rows_##T(void *to, int64_t apart, const void *tile, int m, int k) { \
    for (int r = 0; r < m; r++) \
      nd_dot_piece_##T((A *)(void *)((char *)to + r * apart), (const nd_##S *)tile + (int64_t)r * k, k); \
  } \
  ND_NOINLINE void nd_gemm_panels_##T(void *to, int64_t apart, const void *from, int64_t from_apart, int n, int k) { \
    enum { W = ND_GEMM_W_##T }; \
    int64_t ldb = from_apart / (int64_t)sizeof(nd_##S); \
    for (int j = 0; j < n / W; j++) { \
      E *panel = (E *)(void *)((char *)to + j * apart); \
      for (int r = 0; r < k / per; r++) \
        nd_dot_row_##T(panel + r * W, (const nd_##S *)from + (int64_t)r * per * ldb + j * W, ldb, W, per); \
    } \
  } \
  ND_NOINLINE void nd_gemm_into_##T(E *to, int64_t ldt, const E *acc, int64_t ldc, const void *a, int64_t a_apart, \
                                    const void *b, int64_t b_apart, int m, int n, int k, int fresh) { \
    enum { W = ND_GEMM_W_##T }; \
    int steps = k / per; \
    for (int i = 0; fresh && !k && i < m; i++) memset(to + i * ldt, 0, (size_t)n * sizeof(E)); \
    BEGIN; \
    const int rows = nd_gemm_rows_at(a_apart, TILE); \
    for (int p = 0; p < steps; p += ND_GEMM_K_##T, acc = to, ldc = ldt, fresh = 0) \
      for (int i = 0; i < m; i += rows) \
        PANELS(to + i * ldt, ldt, acc + i * ldc, ldc, (const A *)(const void *)((const char *)a + i * a_apart) + p, \
               a_apart / (int64_t)sizeof(A), (const E *)b + (int64_t)p * W, b_apart / (int64_t)sizeof(E), n / W, \
               m - i < rows ? m - i : rows, steps - p < ND_GEMM_K_##T ? steps - p : ND_GEMM_K_##T, fresh); \
    END; \
  } \
  ND_INLINE void nd_gemm_##T(E *acc, int64_t ldc, const void *a, int64_t a_apart, const void *b, int64_t b_apart, \
                             int m, int n, int k, int fresh) { \
    nd_gemm_into_##T(acc, ldc, acc, ldc, a, a_apart, b, b_apart, m, n, k, fresh); \
  }
ND_GEMM(f32, f32, nd_dot_panels_f32, float, float, 1, 24, 1, , )
ND_GEMM(f64, f64, nd_dot_panels_f64, double, double, 1, 24, 1, , )
ND_GEMM(i32, i32, nd_dot_panels_i32, int32_t, int32_t, 1, 24, 1, , )
#if defined(ND_AMX) && defined(ND_DOT_PAIRS_BF16)
ND_GEMM(bf16, u16, nd_dot_panels_tiles_bf16, float, int32_t, 2, 32, 0, nd_amx_begin(), nd_amx_end())
#elif defined(ND_DOT_PAIRS_BF16)
ND_GEMM(bf16, u16, nd_dot_panels_bf16, float, int32_t, 2, 24, 1, , )
#else
ND_GEMM(bf16, u16, nd_dot_panels_f32, float, float, 1, 24, 1, , )
#endif
#if defined(ND_AMX) && defined(ND_DOT_QUADS_I8)
ND_GEMM(i8, i8, nd_dot_panels_tiles_i8, int32_t, int32_t, 4, 32, 0, nd_amx_begin(), nd_amx_end())
#elif defined(ND_DOT_QUADS_I8)
/* What was added to b is taken off first. */
ND_GEMM(i8, i8, nd_dot_panels_quads, int32_t, int32_t, 4, 24, 0, nd_dot_unbias(to, ldt, a, a_apart, m, n, k, fresh);
        fresh = 0, )
#elif defined(ND_DOT_PAIRS_I16)
ND_GEMM(i8, i8, nd_dot_panels_i16, int32_t, int32_t, 2, 24, 1, , )
#else
ND_GEMM(i8, i8, nd_dot_panels_i32, int32_t, int32_t, 1, 24, 1, , )
#endif
#undef ND_GEMM

/* What a packed operand holds: the values of the scalars that it was made of. */
enum { ND_GEMM_KEYS = 8 };
typedef struct nd_gemm_memo {
  int64_t valid, key[ND_GEMM_KEYS];
} nd_gemm_memo;
/* Whether it holds what n keys ask for; else it will, once it is packed, if it is `whole`. */
ND_INLINE int nd_gemm_held(nd_gemm_memo *m, int whole, int n, const int64_t *key) {
  int held = m->valid != 0;
  for (int i = 0; i < n; i++) held &= m->key[i] == key[i];
  if (held && whole) return 1;
  m->valid = whole;
  for (int i = 0; i < n; i++) m->key[i] = key[i];
  return 0;
}
/* Rows and panels of a product that is left for later; k: 0: none is. */
typedef struct nd_gemm_product {
  int64_t a, a_apart, b, b_apart;
  int k;
} nd_gemm_product;
ND_INLINE int nd_gemm_last(int k, int block) { return k > 0 ? (k - 1) % block + 1 : 0; }
ND_INLINE int64_t nd_gemm_iterations(int64_t from, int64_t to, int64_t step) {
  return from < to && step > 0 ? (to - from - 1) / step + 1 : from < to;
}
#undef ND_DOT
#undef ND_DOT_COPY
#undef ND_DOT_PRODUCT
#undef ND_DOT_KERNEL
#undef ND_DOT_LOAD
#undef ND_DOT_EDGE
#undef ND_DOT_WIDEN
#undef ND_DOT_PAIRS
#undef ND_DOT_NARROW
#undef ND_DOT_AS_F32

#endif
