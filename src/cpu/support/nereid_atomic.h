/* nereid_atomic: atomic_rmw and atomic_cas. Needs nereid_cpu.h, nereid_vec.h and nereid_convert.h.
 *
 * Each lane is an atomic of its own, in lane order; addresses are aligned to the element. Floats have no instruction:
 * they are read, changed and written back if nobody else wrote meanwhile. Their max and min compare bits, as NVIDIA's
 * do: with x's sign clear as signed integers, with it set as unsigned ones the other way round; so -0 is below 0.
 */
#ifndef NEREID_ATOMIC_H
#define NEREID_ATOMIC_H

typedef uint8_t nd_a8 __attribute__((may_alias));
typedef uint16_t nd_a16 __attribute__((may_alias));
typedef uint32_t nd_a32 __attribute__((may_alias));
typedef uint64_t nd_a64 __attribute__((may_alias));

/* U: nd_a32 ...; old and next are U; `next` may use old. Repeats until nobody came between. */
#define ND_ATOMIC_LOOP(U, p, next) \
  U *at = (U *)(p), old = __atomic_load_n(at, __ATOMIC_RELAXED); \
  while (!__atomic_compare_exchange_n(at, &old, (U)(next), 1, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {}

/* ---- integers ---------------------------------------------------------------------------------------------------- */

#define ND_ATOMIC_FETCH(kind, T, U) \
  ND_INLINE nd_##T nd_atomic_##kind##_##T(void *p, nd_##T x) { \
    return (nd_##T)__atomic_fetch_##kind((U *)p, (U)x, __ATOMIC_ACQ_REL); \
  }
#define ND_ATOMIC_INT(T, U) \
  ND_ATOMIC_FETCH(add, T, U) \
  ND_ATOMIC_FETCH(and, T, U) \
  ND_ATOMIC_FETCH(or, T, U) ND_ATOMIC_FETCH(xor, T, U) ND_INLINE nd_##T nd_atomic_max_##T(void *p, nd_##T x) { \
    ND_ATOMIC_LOOP(U, p, nd_max_##T((nd_##T)old, x)) return (nd_##T)old; \
  } \
  ND_INLINE nd_##T nd_atomic_min_##T(void *p, nd_##T x) { \
    ND_ATOMIC_LOOP(U, p, nd_min_##T((nd_##T)old, x)) return (nd_##T)old; \
  }
#define ND_ATOMIC_SWAP(T, U, TO, FROM) \
  ND_INLINE nd_##T nd_atomic_xchg_##T(void *p, nd_##T x) { \
    return FROM(__atomic_exchange_n((U *)p, (U)TO(x), __ATOMIC_ACQ_REL)); \
  } \
  ND_INLINE nd_##T nd_atomic_cas_##T(void *p, nd_##T compare, nd_##T x) { \
    U expected = (U)TO(compare); \
    __atomic_compare_exchange_n((U *)p, &expected, (U)TO(x), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); \
    return FROM(expected); \
  }
#define ND_ATOMIC_WIDE_INT(T, U) ND_ATOMIC_INT(T, U) ND_ATOMIC_SWAP(T, U, (U), (nd_##T))
ND_ATOMIC_WIDE_INT(i32, nd_a32)
ND_ATOMIC_WIDE_INT(u32, nd_a32)
ND_ATOMIC_WIDE_INT(i64, nd_a64)
ND_ATOMIC_WIDE_INT(u64, nd_a64)
ND_ATOMIC_WIDE_INT(i8, nd_a8)
ND_ATOMIC_WIDE_INT(u8, nd_a8)
ND_ATOMIC_WIDE_INT(i16, nd_a16)
ND_ATOMIC_WIDE_INT(u16, nd_a16)

/* ---- floats ------------------------------------------------------------------------------------------------------ */

/* T: element; U: its bits; S: signed; TO, FROM: to bits and back */
#define ND_ATOMIC_FLOAT(T, U, S, TO, FROM) \
  ND_ATOMIC_SWAP(T, U, TO, FROM) \
  ND_INLINE nd_##T nd_atomic_add_##T(void *p, nd_##T x) { ND_ATOMIC_LOOP(U, p, TO(FROM(old) + x)) return FROM(old); } \
  ND_INLINE nd_##T nd_atomic_max_##T(void *p, nd_##T v) { \
    U x = (U)TO(v); \
    ND_ATOMIC_LOOP(U, p, ((S)x < 0 ? old > x : (S)x > (S)old) ? x : old) \
    return FROM(old); \
  } \
  ND_INLINE nd_##T nd_atomic_min_##T(void *p, nd_##T v) { \
    U x = (U)TO(v); \
    ND_ATOMIC_LOOP(U, p, ((S)x < 0 ? old > x : (S)x > (S)old) ? old : x) \
    return FROM(old); \
  } \
  ND_INLINE nd_##T nd_atomic_and_##T(void *p, nd_##T x) { \
    return FROM(__atomic_fetch_and((U *)p, (U)TO(x), __ATOMIC_ACQ_REL)); \
  } \
  ND_INLINE nd_##T nd_atomic_or_##T(void *p, nd_##T x) { \
    return FROM(__atomic_fetch_or((U *)p, (U)TO(x), __ATOMIC_ACQ_REL)); \
  } \
  ND_INLINE nd_##T nd_atomic_xor_##T(void *p, nd_##T x) { \
    return FROM(__atomic_fetch_xor((U *)p, (U)TO(x), __ATOMIC_ACQ_REL)); \
  }
ND_ATOMIC_FLOAT(f32, nd_a32, int32_t, nd_cast_u32_f32, nd_cast_f32_u32)
ND_ATOMIC_FLOAT(f64, nd_a64, int64_t, nd_cast_u64_f64, nd_cast_f64_u64)
ND_ATOMIC_FLOAT(f16, nd_a16, int16_t, nd_bits_f16, nd_from_bits_f16)
ND_ATOMIC_FLOAT(bf16, nd_a16, int16_t, nd_bits_bf16, nd_from_bits_bf16)

/* ---- lanes; masked ones give 0 ----------------------------------------------------------------------------------- */

#define ND_ATOMIC_LANES(kind, T) \
  ND_INLINE nd_##T##v nd_atomic_##kind##_##T##v(nd_i64v address, nd_##T##v x, nd_mask m) { \
    nd_##T##v old = {0}; \
    for (int i = 0; i < ND_VL; i++) \
      if (m[i]) old[i] = nd_atomic_##kind##_##T((void *)(uintptr_t)address[i], x[i]); \
    return old; \
  }
#define ND_ATOMIC_LANES_ALL(T) \
  ND_ATOMIC_LANES(add, T) \
  ND_ATOMIC_LANES(max, T) \
  ND_ATOMIC_LANES(min, T) \
  ND_ATOMIC_LANES(xchg, T) \
  ND_ATOMIC_LANES(and, T) \
  ND_ATOMIC_LANES(or, T) \
  ND_ATOMIC_LANES(xor, T) \
  ND_INLINE nd_##T##v nd_atomic_cas_##T##v(nd_i64v address, nd_##T##v compare, nd_##T##v x, nd_mask m) { \
    nd_##T##v old = {0}; \
    for (int i = 0; i < ND_VL; i++) \
      if (m[i]) old[i] = nd_atomic_cas_##T((void *)(uintptr_t)address[i], compare[i], x[i]); \
    return old; \
  }
ND_INTS(ND_ATOMIC_LANES_ALL)
ND_ATOMIC_LANES_ALL(f32)
ND_ATOMIC_LANES_ALL(f64)
ND_ATOMIC_LANES_ALL(f16)
ND_ATOMIC_LANES_ALL(bf16)
#undef ND_ATOMIC_FETCH
#undef ND_ATOMIC_INT
#undef ND_ATOMIC_WIDE_INT
#undef ND_ATOMIC_SWAP
#undef ND_ATOMIC_FLOAT
#undef ND_ATOMIC_LANES
#undef ND_ATOMIC_LANES_ALL

#endif
