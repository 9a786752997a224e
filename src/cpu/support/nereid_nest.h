/* nereid_nest: what the loop nests that cpu/nest.c writes use beside the library. Needs nereid_cpu.h, nereid_vec.h,
 * nereid_convert.h and nereid_mem.h. */
#ifndef NEREID_NEST_H
#define NEREID_NEST_H

/* The greater (lesser) of acc, which is no NaN, and x, unless x is one: without what nd_max does for acc. Of equal
 * numbers only zeros differ, in the sign: -0 is the lesser. */
#define ND_GROW(T, I, greater, lesser) \
  ND_INLINE nd_##T##v nd_grow_##T##v(nd_##T##v acc, nd_##T##v x) { \
    return (nd_##T##v)((nd_##I##v)(greater) & ((nd_##I##v)x | (nd_##I##v)(x != acc))); \
  } \
  ND_INLINE nd_##T##v nd_shrink_##T##v(nd_##T##v acc, nd_##T##v x) { \
    return (nd_##T##v)((nd_##I##v)(lesser) | ((nd_##I##v)x & (nd_##I##v)(x == acc))); \
  }
#if defined(ND_X86)
ND_GROW(f32, i32, ND_MM(max_ps)(x, acc), ND_MM(min_ps)(x, acc))
#else
ND_GROW(f32, i32, nd_select_f32v(nd_gt_f32v(x, acc), x, acc), nd_select_f32v(nd_lt_f32v(x, acc), x, acc))
#endif
ND_GROW(f64, i64, nd_select_f64v(nd_gt_f64v(x, acc), x, acc), nd_select_f64v(nd_lt_f64v(x, acc), x, acc))
#undef ND_GROW

/* A gather by indices that are often neighbours after all (`offs % N`): then one load. */
#define ND_XLOAD(T, ...) \
  ND_INLINE nd_##T##v nd_xload_##T##v(const void *p, nd_i32v index, int bytes, nd_mask m, nd_##T##v other) { \
    int32_t first = index[0]; \
    if (nd_all(index == nd_splat_i32v(first) + nd_iota_i32v())) \
      return nd_mload_##T##v((const char *)p + (int64_t)first * bytes, m, other); \
    return nd_xgather_##T##v(p, index, m, other); \
  }
ND_INTS(ND_XLOAD)
ND_NARROW(ND_XLOAD)
ND_XLOAD(i1)
ND_XLOAD(f32)
ND_XLOAD(f64)
#undef ND_XLOAD

/* To 8 bits towards zero: the nearest, and one step back where that is further out. */
#define ND_CVTZ8(T) \
  ND_INLINE nd_f32v nd_cvtz_##T##_f32v(nd_f32v x) { \
    nd_f32v near = nd_cvt_##T##_f32v(x); \
    return nd_select_f32v(nd_gt_f32v(nd_abs_f32v(near), nd_abs_f32v(x)), \
                          nd_from_bits_##T##v(nd_bits_##T##v(near) - 1), near); \
  } \
  ND_INLINE nd_f32 nd_cvtz_##T##_f32(nd_f32 x) { return nd_cvtz_##T##_f32v(nd_splat_f32v(x))[0]; } \
  ND_INLINE nd_f32v nd_cvtz_##T##_f64v(nd_f64v x) { return nd_cvtz_##T##_f32v(nd_cvtz_f32_f64v(x)); } \
  ND_INLINE nd_f32 nd_cvtz_##T##_f64(nd_f64 x) { return nd_cvtz_##T##_f32(nd_cvtz_f32_f64(x)); }
ND_CVTZ8(fp8e5)
ND_CVTZ8(fp8e4nv)
ND_CVTZ8(fp8e4b15)
ND_CVTZ8(fp8e4b8)
ND_CVTZ8(fp8e5b16)
#undef ND_CVTZ8

#endif
