/* nereid_nest: what the loop nests that cpu/nest.c writes use beside the library. Needs nereid_cpu.h and nereid_vec.h. */
#ifndef NEREID_NEST_H
#define NEREID_NEST_H

/* How many elements of `bytes` stand before the first aligned one at or after address, when stores are to go past the caches;
 * 0 when they are not, when alignment does not help (the element itself is not aligned), or when there are fewer than end. */
ND_INLINE int64_t nd_head(int64_t address, int bytes, int far, int64_t end) {
  int64_t off = -address & (ND_VL * bytes - 1);
  int64_t head = off / bytes;
  return far && off % bytes == 0 && head < end ? head : 0;
}

/* The greater (lesser) of acc, which is no NaN, and x, unless x is one: one instruction, where nd_max takes three. */
#if defined(ND_X86)
ND_INLINE nd_f32v nd_grow_f32v(nd_f32v acc, nd_f32v x) { return (nd_f32v)ND_MM(max_ps)(x, acc); }
ND_INLINE nd_f32v nd_shrink_f32v(nd_f32v acc, nd_f32v x) { return (nd_f32v)ND_MM(min_ps)(x, acc); }
#else
ND_INLINE nd_f32v nd_grow_f32v(nd_f32v acc, nd_f32v x) { return nd_select_f32v(nd_gt_f32v(x, acc), x, acc); }
ND_INLINE nd_f32v nd_shrink_f32v(nd_f32v acc, nd_f32v x) { return nd_select_f32v(nd_lt_f32v(x, acc), x, acc); }
#endif
ND_INLINE nd_f64v nd_grow_f64v(nd_f64v acc, nd_f64v x) { return nd_select_f64v(nd_gt_f64v(x, acc), x, acc); }
ND_INLINE nd_f64v nd_shrink_f64v(nd_f64v acc, nd_f64v x) { return nd_select_f64v(nd_lt_f64v(x, acc), x, acc); }

#endif
