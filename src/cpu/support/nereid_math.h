/* nereid_math: elementary functions of vectors. Needs nereid_cpu.h and nereid_vec.h, whose table lists the functions.
 *
 * On x86-64 with glibc they are libmvec's: within 4 units of the last place, and right for NaN, infinities and zeros.
 * Its names say register class, lanes and parameters: _ZGVeN16v_expf is AVX-512, 16 lanes, one vector ("Vector Function
 * ABI for x86-64"). Elsewhere they are libm's, lane by lane.
 *
 * Four are written out, exp, exp2, expm1 and tanh of f32: softmax, GELU, ELU and attention live by them, a call costs
 * more than their arithmetic and keeps everything else of a loop out of registers, and libmvec takes arguments below
 * -87 a lane at a time, which is what masked lanes are (-inf). exp and exp2 are within 1.2 units of the last place,
 * subnormal results included, expm1 within 1.6.
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
ND_MATH1_F64(exp)
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
ND_MATH1_F64(exp2)
ND_MATH1_F64(expm1)
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
#undef ND_MATH1_F64
#undef ND_MATH2

/* ---- exp, exp2, expm1, tanh of f32 ------------------------------------------------------------------------------- */

#if defined(ND_X86) && defined(__FMA__)
#define ND_FMADD nd_fma_f32v
#else
#define ND_FMADD(a, b, c) ((a) * (b) + (c))
#endif
#define ND_F(c) nd_splat_f32v(c)

/* x kept between two numbers; NaN stays. */
ND_INLINE nd_f32v nd_clamp_f32v(nd_f32v x, float low, float high) {
#if defined(ND_X86)
  /* for NaN these give the second operand */
  return (nd_f32v)ND_MM(max_ps)(ND_F(low), (nd_f32v)ND_MM(min_ps)(ND_F(high), x));
#else
  x = nd_select_f32v(x > high, ND_F(high), x);
  return nd_select_f32v(x < low, ND_F(low), x);
#endif
}

/* ND_NEAREST_WHOLE(n, x) declares n, the whole number nearest to x; ND_SCALE(p, n) is p * 2^n for |n| <= 160, p near 1.
 * Where there are no instructions for it: adding 1.5 * 2^23 leaves n in the low bits of the sum. */
#if defined(ND_AVX512)
#define ND_NEAREST_WHOLE(n, x) \
  nd_f32v n = (nd_f32v)ND_MM(roundscale_ps)(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define ND_SCALE(p, n) (nd_f32v) ND_MM(scalef_ps)(p, n)
#else
#define ND_NEAREST_WHOLE(n, x) nd_f32v n##_sum = (x) + 12582912.f, n = n##_sum - 12582912.f
#define ND_SCALE(p, n) nd_scale_f32v(p, (nd_i32v)n##_sum - 0x4b400000)
ND_INLINE nd_f32v nd_scale_f32v(nd_f32v p, nd_i32v n) { /* in two steps, since 2^n itself may be out of range */
  nd_i32v half = n >> 1;
  return p * (nd_f32v)((half + 127) << 23) * (nd_f32v)((n - half + 127) << 23);
}
#endif

/* e^r - 1 for |r| <= ln(2) / 2: the polynomial of degree 6 with which e^r has the least relative error, 2^-28. */
ND_INLINE nd_f32v nd_exp_less_1(nd_f32v r) {
  /* in pairs: short chains, as many operations */
  nd_f32v s = r * r, high = ND_FMADD(ND_F(8.3687156e-3f), r, ND_F(4.16683890e-2f));
  nd_f32v low = ND_FMADD(ND_F(1.6666521e-1f), r, ND_F(4.9999994e-1f));
  high = ND_FMADD(ND_F(1.3814602e-3f), s, high);
  return ND_FMADD(ND_FMADD(high, s, low), s, r);
}

/* e^x = 2^n e^r */
ND_INLINE nd_f32v nd_exp_f32v(nd_f32v x) {
  x = nd_clamp_f32v(x, -105, 90);
  ND_NEAREST_WHOLE(n, x * 1.44269504f);
  nd_f32v r = ND_FMADD(n, ND_F(-0.693359375f), x); /* ln 2 in two parts; n times the first is exact */
  return ND_SCALE(nd_exp_less_1(ND_FMADD(n, ND_F(2.12194440e-4f), r)) + 1, n);
}

/* 2^x = 2^n 2^r with |r| <= 1/2; least relative error 2^-28.9. */
ND_INLINE nd_f32v nd_exp2_f32v(nd_f32v x) {
  x = nd_clamp_f32v(x, -152, 130);
  ND_NEAREST_WHOLE(n, x);
  nd_f32v r = x - n;
  nd_f32v p = ND_FMADD(ND_F(1.53533620e-4f), r, ND_F(1.33988739e-3f));
  p = ND_FMADD(p, r, ND_F(9.61843692e-3f));
  p = ND_FMADD(p, r, ND_F(5.55033237e-2f));
  p = ND_FMADD(p, r, ND_F(2.40226477e-1f));
  p = ND_FMADD(p, r, ND_F(6.93147182e-1f));
  p = ND_FMADD(p, r, ND_F(1));
  return ND_SCALE(p, n);
}

/* 2^n (e^r - 1) + (2^n - 1), of halves, since 2^n alone may be too large. Below -18 the result is -1. The sign is for
 * -0. */
ND_INLINE nd_f32v nd_expm1_f32v(nd_f32v x) {
  nd_f32v y = nd_clamp_f32v(x, -18, 89);
  ND_NEAREST_WHOLE(n, y * 1.44269504f);
  nd_f32v r = ND_FMADD(n, ND_F(-0.693359375f), y);
  nd_f32v less = nd_exp_less_1(ND_FMADD(n, ND_F(2.12194440e-4f), r)), half = ND_SCALE(ND_F(0.5f), n);
  nd_f32v e = 2 * ND_FMADD(half, less, half - 0.5f);
  return (nd_f32v)((nd_i32v)e | ((nd_i32v)x & INT32_MIN));
}

/* E / (E + 2) with E = e^(2x) - 1 = 2^n (e^r - 1) + (2^n - 1), which cancels nowhere: near 0 n is 0 and e^r - 1 has all
 * its bits. From 9.02 on the result is 1. The sign is for -0. */
ND_INLINE nd_f32v nd_tanh_f32v(nd_f32v x) {
  nd_f32v y = nd_clamp_f32v(x, -9.02f, 9.02f);
  nd_f32v sum = ND_FMADD(y, ND_F(2.88539008f), ND_F(12582912.f)), n = sum - 12582912.f;
  nd_f32v less = nd_exp_less_1(ND_FMADD(n, ND_F(-0.69314718f), y + y));
  nd_f32v power = (nd_f32v)(((nd_i32v)sum << 23) + 0x3f800000);
  nd_f32v e = ND_FMADD(power, less, power - 1);
  return (nd_f32v)((nd_i32v)(e / (e + 2)) | ((nd_i32v)x & INT32_MIN));
}

/* ---- what the machine has instructions for ----------------------------------------------------------------------- */

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

/* ---- made of the others ------------------------------------------------------------------------------------------ */

#define ND_MATH_MADE(T, I, below_half) \
  ND_INLINE nd_##T##v nd_nearbyint_##T##v(nd_##T##v x) { return nd_rint_##T##v(x); } \
  ND_INLINE nd_##T##v nd_copysign_##T##v(nd_##T##v x, nd_##T##v y) { \
    nd_##I##v sign = nd_splat_##I##v(nd_cast_##I##_##T((nd_##T) - 0.0)); \
    return (nd_##T##v)(((nd_##I##v)x & ~sign) | ((nd_##I##v)y & sign)); \
  } \
  /* half away from zero: the greatest number below a half does not carry what lies just below a half */ \
  ND_INLINE nd_##T##v nd_round_##T##v(nd_##T##v x) { \
    return nd_trunc_##T##v(x + nd_copysign_##T##v(nd_splat_##T##v(below_half), x)); \
  } \
  ND_INLINE nd_##T##v nd_rsqrt_##T##v(nd_##T##v x) { return 1 / nd_sqrt_##T##v(x); } \
  ND_INLINE nd_##T##v nd_fmod_##T##v(nd_##T##v x, nd_##T##v y) { return nd_rem_##T##v(x, y); } \
  ND_INLINE nd_##T##v nd_fdim_##T##v(nd_##T##v x, nd_##T##v y) { \
    return nd_select_##T##v(nd_le_##T##v(x, y), (nd_##T##v){0}, x - y); \
  } \
  ND_INLINE nd_##T##v nd_sigmoid_##T##v(nd_##T##v x) { return 1 / (1 + nd_exp_##T##v(nd_neg_##T##v(x))); } \
  ND_INLINE nd_mask nd_isnan_##T##v(nd_##T##v x) { return nd_ne_##T##v(x, x); } \
  ND_INLINE nd_mask nd_isinf_##T##v(nd_##T##v x) { return nd_eq_##T##v(nd_abs_##T##v(x), nd_splat_##T##v(INFINITY)); } \
  ND_INLINE nd_mask nd_finite_##T##v(nd_##T##v x) { \
    return nd_lt_##T##v(nd_abs_##T##v(x), nd_splat_##T##v(INFINITY)); \
  } \
  ND_INLINE nd_mask nd_signbit_##T##v(nd_##T##v x) { return nd_lt_##I##v((nd_##I##v)x, (nd_##I##v){0}); }
ND_MATH_MADE(f32, i32, 0x1.fffffep-2f)
ND_MATH_MADE(f64, i64, 0x1.fffffffffffffp-2)
#undef ND_MATH_MADE

#endif
