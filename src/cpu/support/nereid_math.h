/* nereid_math: elementary functions of vectors. Needs nereid_cpu.h and nereid_vec.h, whose table lists the functions.
 *
 * On x86-64 with glibc they are libmvec's: within 4 units of the last place, and right for NaN, infinities and zeros. Its
 * names say register class, lanes and parameters: _ZGVeN16v_expf is AVX-512, 16 lanes, one vector ("Vector Function
 * ABI for x86-64"). Elsewhere they are libm's, lane by lane.
 *
 * exp and exp2 of f32 alone are written out here: softmax and attention live on them, a call keeps everything else of a loop
 * out of registers, and libmvec takes arguments below -87 a lane at a time, which is what masked lanes are (-inf).
 */
#ifndef NEREID_MATH_H
#define NEREID_MATH_H

#if defined(ND_X86) && defined(__x86_64__) && defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 22)
#define ND_MVEC 1 /* sin cos exp log pow */
#endif
#if __GLIBC_PREREQ(2, 35)
#define ND_MVEC_ALL 1
#endif
#endif

#if ND_VL == 16
#define ND_MVEC_F32(name, args) _ZGVeN16##args##_##name##f
#elif ND_VL == 8
#define ND_MVEC_F32(name, args) _ZGVdN8##args##_##name##f
#else
#define ND_MVEC_F32(name, args) _ZGVbN4##args##_##name##f
#endif
#if ND_REG == 64
#define ND_MVEC_F64(name, args) _ZGVeN8##args##_##name
#elif ND_REG == 32
#define ND_MVEC_F64(name, args) _ZGVdN4##args##_##name
#else
#define ND_MVEC_F64(name, args) _ZGVbN2##args##_##name
#endif

#define ND_MATH1_LIBMVEC(name) \
  extern nd_f32v ND_MVEC_F32(name, v)(nd_f32v) __attribute__((const)); \
  ND_INLINE nd_f32v nd_##name##_f32v(nd_f32v x) { return ND_MVEC_F32(name, v)(x); } \
  ND_MATH1_LIBMVEC_F64(name)
#define ND_MATH1_LIBMVEC_F64(name) \
  extern nd_f64p ND_MVEC_F64(name, v)(nd_f64p) __attribute__((const)); \
  ND_INLINE nd_f64v nd_##name##_f64v(nd_f64v x) { \
    nd_f64u a = {x}, r; \
    ND_EACH_PART(r.p[k] = ND_MVEC_F64(name, v)(a.p[k])) \
    return r.v; \
  }
#define ND_MATH2_LIBMVEC(name) \
  extern nd_f32v ND_MVEC_F32(name, vv)(nd_f32v, nd_f32v) __attribute__((const)); \
  extern nd_f64p ND_MVEC_F64(name, vv)(nd_f64p, nd_f64p) __attribute__((const)); \
  ND_INLINE nd_f32v nd_##name##_f32v(nd_f32v x, nd_f32v y) { return ND_MVEC_F32(name, vv)(x, y); } \
  ND_INLINE nd_f64v nd_##name##_f64v(nd_f64v x, nd_f64v y) { \
    nd_f64u a = {x}, b = {y}, r; \
    ND_EACH_PART(r.p[k] = ND_MVEC_F64(name, vv)(a.p[k], b.p[k])) \
    return r.v; \
  }
#define ND_MATH1_LIBM(name) \
  ND_INLINE nd_f32v nd_##name##_f32v(nd_f32v x) { return ND_MAP1(nd_f32v, name##f, x); } \
  ND_MATH1_LIBM_F64(name)
#define ND_MATH1_LIBM_F64(name) \
  ND_INLINE nd_f64v nd_##name##_f64v(nd_f64v x) { return ND_MAP1(nd_f64v, name, x); }
#define ND_MATH2_LIBM(name) \
  ND_INLINE nd_f32v nd_##name##_f32v(nd_f32v x, nd_f32v y) { return ND_MAP2(nd_f32v, name##f, x, y); } \
  ND_INLINE nd_f64v nd_##name##_f64v(nd_f64v x, nd_f64v y) { return ND_MAP2(nd_f64v, name, x, y); }

#ifdef ND_MVEC
#define ND_MATH1 ND_MATH1_LIBMVEC
#define ND_MATH1_F64 ND_MATH1_LIBMVEC_F64
#define ND_MATH2 ND_MATH2_LIBMVEC
#else
#define ND_MATH1 ND_MATH1_LIBM
#define ND_MATH1_F64 ND_MATH1_LIBM_F64
#define ND_MATH2 ND_MATH2_LIBM
#endif
#define nd_exp_f32v nd_exp_libmvec_f32v /* see below */
ND_MATH1_F64(exp)
#undef nd_exp_f32v
ND_MATH1(log)
ND_MATH1(sin)
ND_MATH1(cos)
ND_MATH2(pow)
#ifndef ND_MVEC_ALL
#undef ND_MATH1
#undef ND_MATH1_F64
#undef ND_MATH2
#define ND_MATH1 ND_MATH1_LIBM
#define ND_MATH1_F64 ND_MATH1_LIBM_F64
#define ND_MATH2 ND_MATH2_LIBM
#endif
#define nd_exp2_f32v nd_exp2_libmvec_f32v
ND_MATH1_F64(exp2)
#undef nd_exp2_f32v
ND_MATH1(expm1)
ND_MATH1(log2)
ND_MATH1(log10)
ND_MATH1(log1p)
ND_MATH1(tan)
ND_MATH1(asin)
ND_MATH1(acos)
ND_MATH1(atan)
ND_MATH1(sinh)
ND_MATH1(cosh)
ND_MATH1_F64(tanh)
ND_MATH1(asinh)
ND_MATH1(acosh)
ND_MATH1(atanh)
ND_MATH1(erf)
ND_MATH1(erfc)
ND_MATH1(cbrt)
ND_MATH2(atan2)
ND_MATH2(hypot)
#ifdef ND_MVEC_ALL
ND_MATH1(exp10)
#else
ND_INLINE nd_f32v nd_exp10_f32v(nd_f32v x) { return nd_pow_f32v(nd_splat_f32v(10), x); }
ND_INLINE nd_f64v nd_exp10_f64v(nd_f64v x) { return nd_pow_f64v(nd_splat_f64v(10), x); }
#endif
#undef ND_MATH1
#undef ND_MATH2

/* ---- exp and exp2 of f32 ---- */

/* 2^n (1 + r + r^2 p(r)), |r| <= ln 2 / 2: the polynomial of the Cephes library's expf (Moshier), within 1 ulp or so. n is in
 * [-160, 129], so that results may be subnormal, zero or infinity. */
ND_INLINE nd_f32v nd_exp_scale(nd_f32v r, nd_f32v n) {
  nd_f32v p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + (r + 1.0f);
#if defined(ND_AVX512)
  return (nd_f32v)ND_MM(scalef_ps)(p, n);
#else
  nd_i32v whole = __builtin_convertvector(n, nd_i32v), half = whole >> 1; /* 2^n is no float at either end: in two steps */
  return p * (nd_f32v)((half + 127) << 23) * (nd_f32v)((whole - half + 127) << 23);
#endif
}
/* The nearest whole number, |x| < 2^22. */
ND_INLINE nd_f32v nd_exp_round(nd_f32v x) {
#if defined(ND_AVX512)
  return (nd_f32v)ND_MM(roundscale_ps)(x, 8);
#else
  return x + 12582912.0f - 12582912.0f;
#endif
}
/* To where the result does not change any more; NaN stays. */
ND_INLINE nd_f32v nd_exp_clamp(nd_f32v x, float low, float high) {
#if defined(ND_X86)
  return (nd_f32v)ND_MM(min_ps)((nd_f32v)nd_splat_f32v(high), (nd_f32v)ND_MM(max_ps)((nd_f32v)nd_splat_f32v(low), x));
#else
  x = nd_select_f32v(nd_lt_f32v(x, nd_splat_f32v(low)), nd_splat_f32v(low), x);
  return nd_select_f32v(nd_gt_f32v(x, nd_splat_f32v(high)), nd_splat_f32v(high), x);
#endif
}
ND_INLINE nd_f32v nd_exp_f32v(nd_f32v x) {
  x = nd_exp_clamp(x, -110.0f, 89.0f);
  nd_f32v n = nd_exp_round(x * 1.44269504088896341f);
  nd_f32v r = x - n * 0.693359375f;
  return nd_exp_scale(r - n * -2.12194440e-4f, n);
}
ND_INLINE nd_f32v nd_exp2_f32v(nd_f32v x) {
  x = nd_exp_clamp(x, -160.0f, 129.0f);
  nd_f32v n = nd_exp_round(x);
  return nd_exp_scale((x - n) * 0.693147180559945309f, n);
}

/* ---- what the machine has instructions for ---- */

#if defined(ND_X86)
ND_INLINE nd_f32v nd_sqrt_f32v(nd_f32v x) { return (nd_f32v)ND_MM(sqrt_ps)(x); }
ND_INLINE nd_f64v nd_sqrt_f64v(nd_f64v x) {
  nd_f64u a = {x}, r;
  ND_EACH_PART(r.p[k] = (nd_f64p)ND_MM64(sqrt_pd)(a.p[k]))
  return r.v;
}
#else
ND_MATH1_LIBM(sqrt)
#endif

#if defined(ND_X86) && (ND_REG > 16 || defined(__SSE4_1__))
#if ND_VL == 16
#define ND_ROUND_F32 _mm512_roundscale_ps
#else
#define ND_ROUND_F32 ND_MM(round_ps)
#endif
#if ND_REG == 64
#define ND_ROUND_F64 _mm512_roundscale_pd
#else
#define ND_ROUND_F64 ND_MM64(round_pd)
#endif
#define ND_ROUND(name, mode) \
  ND_INLINE nd_f32v nd_##name##_f32v(nd_f32v x) { return (nd_f32v)ND_ROUND_F32(x, mode | _MM_FROUND_NO_EXC); } \
  ND_INLINE nd_f64v nd_##name##_f64v(nd_f64v x) { \
    nd_f64u a = {x}, r; \
    ND_EACH_PART(r.p[k] = (nd_f64p)ND_ROUND_F64(a.p[k], mode | _MM_FROUND_NO_EXC)) \
    return r.v; \
  }
ND_ROUND(floor, _MM_FROUND_TO_NEG_INF)
ND_ROUND(ceil, _MM_FROUND_TO_POS_INF)
ND_ROUND(trunc, _MM_FROUND_TO_ZERO)
ND_ROUND(rint, _MM_FROUND_TO_NEAREST_INT)
#undef ND_ROUND
#else
ND_MATH1_LIBM(floor)
ND_MATH1_LIBM(ceil)
ND_MATH1_LIBM(trunc)
ND_MATH1_LIBM(rint)
#endif

/* ---- made of the others ---- */

#define ND_MATH_MADE(T, I, below_half) \
  ND_INLINE nd_##T##v nd_nearbyint_##T##v(nd_##T##v x) { return nd_rint_##T##v(x); } \
  ND_INLINE nd_##T##v nd_copysign_##T##v(nd_##T##v x, nd_##T##v y) { \
    nd_##I##v sign = nd_splat_##I##v(nd_cast_##I##_##T((nd_##T)-0.0)); \
    return (nd_##T##v)(((nd_##I##v)x & ~sign) | ((nd_##I##v)y & sign)); \
  } \
  /* half away from zero: the greatest number below a half does not carry what lies just below a half */ \
  ND_INLINE nd_##T##v nd_round_##T##v(nd_##T##v x) { return nd_trunc_##T##v(x + nd_copysign_##T##v(nd_splat_##T##v(below_half), x)); } \
  ND_INLINE nd_##T##v nd_rsqrt_##T##v(nd_##T##v x) { return 1 / nd_sqrt_##T##v(x); } \
  ND_INLINE nd_##T##v nd_fmod_##T##v(nd_##T##v x, nd_##T##v y) { return nd_rem_##T##v(x, y); } \
  ND_INLINE nd_##T##v nd_fdim_##T##v(nd_##T##v x, nd_##T##v y) { \
    return nd_select_##T##v(nd_le_##T##v(x, y), (nd_##T##v){0}, x - y); \
  } \
  ND_INLINE nd_##T##v nd_sigmoid_##T##v(nd_##T##v x) { return 1 / (1 + nd_exp_##T##v(nd_neg_##T##v(x))); } \
  ND_INLINE nd_mask nd_isnan_##T##v(nd_##T##v x) { return nd_ne_##T##v(x, x); } \
  ND_INLINE nd_mask nd_isinf_##T##v(nd_##T##v x) { return nd_eq_##T##v(nd_abs_##T##v(x), nd_splat_##T##v(INFINITY)); } \
  ND_INLINE nd_mask nd_finite_##T##v(nd_##T##v x) { return nd_lt_##T##v(nd_abs_##T##v(x), nd_splat_##T##v(INFINITY)); } \
  ND_INLINE nd_mask nd_signbit_##T##v(nd_##T##v x) { return nd_lt_##I##v((nd_##I##v)x, (nd_##I##v){0}); }
ND_MATH_MADE(f32, i32, 0x1.fffffep-2f)
ND_MATH_MADE(f64, i64, 0x1.fffffffffffffp-2)
#undef ND_MATH_MADE

#endif
