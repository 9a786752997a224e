/* nereid_tile: work on whole tiles in memory: sort, histogram, transpose, copy. Needs nereid_cpu.h and nereid_vec.h.
 *
 * Sort is Batcher's bitonic network, since n is a power of two: passes of comparisons between elements i and i ^ j,
 * which are whole vectors while j is at least ND_VL. Below they are lanes of one vector, which goes through all these
 * passes while it is in registers. Merging what is bitonic
 * is the last size alone. A float's bits order as a signed
 * integer once a negative number has all bits but the sign flipped; NaN counts as the greatest, and comes back as one
 * quiet NaN.
 *
 * Transpose goes by squares of a vector's width in registers: log2 steps, each swapping between rows r and r + s those
 * lanes that belong to the other one. For s = 1 and 4 lanes:
 *
 *     a0 a1 a2 a3          a0 b0 a2 b2
 *     b0 b1 b2 b3    ->    a1 b1 a3 b3
 */
#ifndef NEREID_TILE_H
#define NEREID_TILE_H

/* ---- sort -------------------------------------------------------------------------------------------------------- */

/* Lanes `first` apart, then half as far, and so on; of those in `down` the larger one goes first. */
#define ND_SORT_STEP(T, x, j, first, down) \
  if (ND_VL > (j) && (first) >= (j)) { \
    nd_##T##v other = nd_xor_lanes_##T##v(x, j); \
    x = nd_select_##T##v(((nd_iota_i32v() & (j)) != 0) ^ (down), nd_max_##T##v(x, other), nd_min_##T##v(x, other)); \
  }
#define ND_SORT(T) \
  ND_INLINE nd_##T##v nd_sort_lanes_##T(nd_##T##v x, int first, nd_mask down) { \
    ND_SORT_STEP(T, x, 8, first, down) \
    ND_SORT_STEP(T, x, 4, first, down) \
    ND_SORT_STEP(T, x, 2, first, down) \
    ND_SORT_STEP(T, x, 1, first, down) \
    return x; \
  } \
  ND_INLINE void nd_sort_stage_##T(nd_##T *x, int64_t n, int64_t size, int descending) { \
    const nd_i32v over = nd_iota_i32v() & 0; \
    for (int64_t j = size / 2; j >= ND_VL; j /= 2) \
      for (int64_t i = 0; i < n; i += 2 * j) { \
        int down = ((i & size) != 0) != (descending != 0); \
        nd_##T *low = x + (down ? i + j : i), *high = x + (down ? i : i + j); \
        for (int64_t l = 0; l < j; l += ND_VL) { \
          nd_##T##v a = *(nd_##T##vu *)(low + l), b = *(nd_##T##vu *)(high + l); \
          *(nd_##T##vu *)(low + l) = nd_min_##T##v(a, b); \
          *(nd_##T##vu *)(high + l) = nd_max_##T##v(a, b); \
        } \
      } \
    for (int64_t i = 0; i < n; i += ND_VL) { \
      nd_mask down = over != (((i & size) != 0) != (descending != 0)); \
      *(nd_##T##vu *)(x + i) = nd_sort_lanes_##T(*(nd_##T##vu *)(x + i), ND_VL / 2, down); \
    } \
  } \
  ND_NOINLINE void nd_sort_##T(nd_##T *x, int64_t n, int descending) { \
    if (n < ND_VL) { \
      for (int64_t i = 1; i < n; i++) { \
        nd_##T v = x[i]; \
        int64_t j = i; \
        for (; j > 0 && (descending ? x[j - 1] < v : x[j - 1] > v); j--) x[j] = x[j - 1]; \
        x[j] = v; \
      } \
      return; \
    } \
    const nd_i32v lane = nd_iota_i32v(); \
    const nd_mask turned = (lane & 0) != (descending != 0); \
    for (int64_t i = 0; i < n; i += ND_VL) { \
      nd_##T##v v = *(nd_##T##vu *)(x + i); \
      v = nd_sort_lanes_##T(v, 1, ((lane & 2) != 0) ^ turned); \
      if (ND_VL > 4) v = nd_sort_lanes_##T(v, 2, ((lane & 4) != 0) ^ turned); \
      if (ND_VL > 8) v = nd_sort_lanes_##T(v, 4, ((lane & 8) != 0) ^ turned); \
      *(nd_##T##vu *)(x + i) = v; \
    } \
    for (int64_t size = ND_VL; size <= n; size *= 2) nd_sort_stage_##T(x, n, size, descending); \
  } \
  ND_NOINLINE void nd_merge_##T(nd_##T *x, int64_t n, int descending) { \
    if (n >= ND_VL) { \
      nd_sort_stage_##T(x, n, n, descending); \
      return; \
    } \
    for (int64_t j = n / 2; j > 0; j /= 2) \
      for (int64_t i = 0; i < n; i++) { \
        nd_##T a = x[i], b = x[i ^ j]; \
        if (i & j || (descending ? a >= b : a <= b)) continue; \
        x[i] = b; \
        x[i ^ j] = a; \
      } \
  }
ND_INTS(ND_SORT)
#undef ND_SORT

/* I: signed integer of the float's width; infinity: bits above which a magnitude is NaN; fnuz: only -0's bits are. */
#define ND_SORT_FLOAT(T, C, I, infinity, fnuz, nan) \
  ND_INLINE void nd_order_##T(C *x, int64_t n, int descending, void (*sort)(nd_##I *, int64_t, int)) { \
    const nd_##I most = (nd_##I)(((uint64_t)1 << (8 * sizeof(nd_##I) - 1)) - 1); \
    nd_##I *key = (nd_##I *)(void *)x; \
    int64_t nans = 0; \
    for (int64_t i = 0; i < n; i++) { \
      nd_##I v; \
      memcpy(&v, x + i, sizeof v); \
      int is_nan = fnuz ? v == -most - 1 : (nd_##I)(v & most) > (nd_##I)(infinity); \
      nans += is_nan; \
      v = is_nan ? most : v < 0 ? (nd_##I)(v ^ most) : v; \
      memcpy(x + i, &v, sizeof v); \
    } \
    sort(key, n, descending); \
    for (int64_t i = 0; i < n; i++) { \
      nd_##I v; \
      memcpy(&v, x + i, sizeof v); \
      int last = descending ? i < nans : i >= n - nans; \
      if (fnuz || (infinity) == most ? last : v == most) v = (nd_##I)(nan); \
      else if (v < 0) v = (nd_##I)(v ^ most); \
      memcpy(x + i, &v, sizeof v); \
    } \
  } \
  ND_NOINLINE void nd_sort_##T(C *x, int64_t n, int descending) { nd_order_##T(x, n, descending, nd_sort_##I); } \
  ND_NOINLINE void nd_merge_##T(C *x, int64_t n, int descending) { nd_order_##T(x, n, descending, nd_merge_##I); }
ND_SORT_FLOAT(f32, float, i32, 0x7f800000, 0, 0x7fc00000)
ND_SORT_FLOAT(f64, double, i64, INT64_C(0x7ff0000000000000), 0, INT64_C(0x7ff8000000000000))
ND_SORT_FLOAT(f16, uint16_t, i16, 0x7c00, 0, 0x7e00)
ND_SORT_FLOAT(bf16, uint16_t, i16, 0x7f80, 0, 0x7fc0)
ND_SORT_FLOAT(fp8e5, uint8_t, i8, 0x7c, 0, 0x7f)
ND_SORT_FLOAT(fp8e4nv, uint8_t, i8, 0x7e, 0, 0x7f)
ND_SORT_FLOAT(fp8e4b15, uint8_t, i8, 0x7f, 0, 0x7f)
ND_SORT_FLOAT(fp8e4b8, uint8_t, i8, 0, 1, 0x80)
ND_SORT_FLOAT(fp8e5b16, uint8_t, i8, 0, 1, 0x80)
#undef ND_SORT_FLOAT

/* ---- histogram: adds to bins; what lies outside is not counted --------------------------------------------------- */

#define ND_HISTOGRAM(T) \
  ND_NOINLINE void nd_histogram_##T(int32_t *bins, int64_t bin_count, const nd_##T *x, const uint8_t *mask, \
                                    int64_t n) { \
    for (int64_t i = 0; i < n; i++) \
      if ((!mask || mask[i]) && (uint64_t)x[i] < (uint64_t)bin_count) bins[x[i]]++; \
  }
ND_INTS(ND_HISTOGRAM)
#undef ND_HISTOGRAM

/* ---- transpose --------------------------------------------------------------------------------------------------- */

/* Lane i of row r and of row r + s after the step, as an index into both rows' lanes; L lanes. */
#define ND_TRANSPOSE_LOW(i, s, L) ((i) & (s) ? (L) + (i) - (s) : (i))
#define ND_TRANSPOSE_HIGH(i, s, L) ((i) & (s) ? (L) + (i) : (i) + (s))
#define ND_TRANSPOSE_L1(i) ND_TRANSPOSE_LOW(i, 1, ND_VL)
#define ND_TRANSPOSE_L2(i) ND_TRANSPOSE_LOW(i, 2, ND_VL)
#define ND_TRANSPOSE_L4(i) ND_TRANSPOSE_LOW(i, 4, ND_VL)
#define ND_TRANSPOSE_L8(i) ND_TRANSPOSE_LOW(i, 8, ND_VL)
#define ND_TRANSPOSE_H1(i) ND_TRANSPOSE_HIGH(i, 1, ND_VL)
#define ND_TRANSPOSE_H2(i) ND_TRANSPOSE_HIGH(i, 2, ND_VL)
#define ND_TRANSPOSE_H4(i) ND_TRANSPOSE_HIGH(i, 4, ND_VL)
#define ND_TRANSPOSE_H8(i) ND_TRANSPOSE_HIGH(i, 8, ND_VL)
#define ND_TRANSPOSE_STEP(V, s) \
  ND_UNROLL for (int r = 0; r < ND_VL; r++) if (!(r & s)) { \
    V a = row[r], b = row[r + s]; \
    row[r] = __builtin_shufflevector(a, b, ND_SEQ(ND_TRANSPOSE_L##s)); \
    row[r + s] = __builtin_shufflevector(a, b, ND_SEQ(ND_TRANSPOSE_H##s)); \
  }
#if ND_VL == 16
#define ND_TRANSPOSE_STEP8(V) ND_TRANSPOSE_STEP(V, 8)
#else
#define ND_TRANSPOSE_STEP8(V)
#endif
#if ND_VL >= 8
#define ND_TRANSPOSE_STEP4(V) ND_TRANSPOSE_STEP(V, 4)
#else
#define ND_TRANSPOSE_STEP4(V)
#endif
#define ND_TRANSPOSE_SQUARE(U) \
  ND_INLINE void nd_transpose_square_##U(nd_##U *dst, int64_t dst_stride, const nd_##U *src, int64_t src_stride) { \
    nd_##U##v row[ND_VL]; \
    ND_UNROLL for (int r = 0; r < ND_VL; r++) row[r] = *(const nd_##U##vu *)(src + r * src_stride); \
    ND_TRANSPOSE_STEP8(nd_##U##v) \
    ND_TRANSPOSE_STEP4(nd_##U##v) \
    ND_TRANSPOSE_STEP(nd_##U##v, 2) \
    ND_TRANSPOSE_STEP(nd_##U##v, 1) \
    ND_UNROLL for (int r = 0; r < ND_VL; r++) * (nd_##U##vu *)(dst + r * dst_stride) = row[r]; \
  }
ND_TRANSPOSE_SQUARE(u8)
ND_TRANSPOSE_SQUARE(u16)
ND_TRANSPOSE_SQUARE(u32)
/* 64 bits: squares small enough for registers of every kind. */
ND_INLINE void nd_transpose_square_u64(nd_u64 *dst, int64_t dst_stride, const nd_u64 *src, int64_t src_stride) {
  for (int r = 0; r < ND_VL; r++)
    for (int c = 0; c < ND_VL; c++) dst[c * dst_stride + r] = src[r * src_stride + c];
}

/* dst[c][r] = src[r][c]; strides in elements. Squares are taken down the columns of src, so that dst's rows are written
 * in one go. */
#define ND_TRANSPOSE(bytes, U) \
  ND_NOINLINE void nd_transpose_##bytes(void *to, int64_t dst_stride, const void *from, int64_t src_stride, \
                                        int64_t rows, int64_t columns) { \
    nd_##U *dst = (nd_##U *)to; \
    const nd_##U *src = (const nd_##U *)from; \
    int64_t whole_rows = rows / ND_VL * ND_VL, whole_columns = columns / ND_VL * ND_VL; \
    for (int64_t c = 0; c < whole_columns; c += ND_VL) \
      for (int64_t r = 0; r < whole_rows; r += ND_VL) \
        nd_transpose_square_##U(dst + c * dst_stride + r, dst_stride, src + r * src_stride + c, src_stride); \
    for (int64_t c = 0; c < columns; c++) \
      for (int64_t r = c < whole_columns ? whole_rows : 0; r < rows; r++) \
        dst[c * dst_stride + r] = src[r * src_stride + c]; \
  }
ND_TRANSPOSE(1, u8)
ND_TRANSPOSE(2, u16)
ND_TRANSPOSE(4, u32)
ND_TRANSPOSE(8, u64)
#undef ND_TRANSPOSE
#undef ND_TRANSPOSE_SQUARE

/* ---- copy; strides and row_bytes in bytes ------------------------------------------------------------------------ */

ND_INLINE void nd_copy2d(void *dst, int64_t dst_stride, const void *src, int64_t src_stride, int64_t rows,
                         int64_t row_bytes) {
  for (int64_t r = 0; r < rows; r++)
    memcpy((char *)dst + r * dst_stride, (const char *)src + r * src_stride, (size_t)row_bytes);
}

#endif
