/* nereid_nest: what the loop nests that cpu/nest.c writes use beside the library. Needs nereid_cpu.h, nereid_vec.h and nereid_mem.h. */
#ifndef NEREID_NEST_H
#define NEREID_NEST_H

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
