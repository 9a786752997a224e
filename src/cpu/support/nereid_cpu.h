/* nereid_cpu: the head of every kernel that Nereid writes in C, and the table of what the other support files hold.
 *
 * The kernel's C text is these files, those it needs in this order, and then the kernel. They use libc, libm and, on
 * x86-64 with glibc, libmvec (which -lm brings); GNU vector extensions; no other library. Any gcc >= 12 or clang >= 14.
 *
 *     file               needs            holds
 *     nereid_cpu.h                        contract with the host, element types, scalar integer arithmetic
 *     nereid_vec.h       cpu              vector types, masks, compare, select, integer and float arithmetic, lanes
 *     nereid_convert.h   cpu vec          numbers of one type to another, f16, bf16 and fp8 included
 *     nereid_mem.h       cpu vec convert  loads, stores: contiguous, strided, gathered, masked, past the caches
 *     nereid_nest.h      cpu vec mem      what the emitted loop nests use beside these: see there
 *     nereid_math.h      cpu vec          vector exp, log, sin, tanh, erf, pow, ...
 *     nereid_dot.h       cpu vec convert  products of matrices
 *     nereid_tile.h      cpu vec          sort, histogram, transposes, copies
 *     nereid_atomic.h    cpu vec convert  atomic_rmw, atomic_cas
 *     nereid_print.h     cpu              device_print
 *     nereid_span.h      cpu              which bytes a launch may touch
 *
 * Contract: the kernel's text defines
 *
 *     int nereid_kernel(const uint64_t *args, const int32_t grid[3], int64_t begin, int64_t end,
 *                       void *scratch, const NereidHost *host);
 *     const uint64_t nereid_scratch_bytes;   // what each thread must provide, aligned to 64
 *
 *     int nereid_apart(const uint64_t *args, const int32_t grid[3], const NereidHost *host);   // where there is one
 *
 * of which the first runs the programs with linear ids [begin, end), x fastest; args holds one 64-bit word an argument.
 * It returns 0, or 1 after a failed device_assert that host->fault was told of. One call a thread, any number of
 * threads.
 *
 * Compile it with -O2 or -O3, -march=native, -fwrapv (signed integers wrap), -fno-math-errno and
 * -Wno-psabi (gcc remarks that vectors wider than a register are passed in memory; here they are not); never
 * -ffast-math.
 *
 * Names. T is an element type as the IR prints it: i1 i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 fp8e5 fp8e4nv
 * fp8e4b15 fp8e4b8 fp8e5b16. nd_T is the C type that holds one in a register, nd_Tv the vector of ND_VL of them:
 *
 *     f16, bf16, fp8*   a float (nd_f32, nd_f32v) whose value the type can represent
 *     i1                scalar: int 0 or 1; vector: nd_mask = nd_i32v of 0 and -1, the one mask type for every width
 *
 * A function ends in the type it works on: nd_div_i32(a, b) on scalars, nd_div_i32v(a, b) on vectors. On vectors the
 * operators + - * & | ^ ~ - (and / on floats) are C's own; comparisons and selects are functions, for the sake of
 * speed where a vector is wider than a register.
 *
 * ND_VL is 16 with AVX-512, 8 with AVX2, else 4: the f32 lanes of a register. A kernel that mostly computes in 64 bits
 * may #define ND_WIDE before this text to get half as many lanes (8, 4, 4), so that its f64v are one register.
 *
 * ---- nereid_vec.h (T: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 where nothing else is said) ----
 *   nd_splat_Tv(x)  nd_iota_i32v() nd_iota_i64v()  x[i] reads lane i
 *   nd_eq_Tv ne lt le gt ge (a, b) -> nd_mask                 ne is true on NaN, the others false
 *   nd_select_Tv(m, a, b)      also nd_select_i1v
 *   nd_first(n) -> nd_mask     lanes i < n (int64_t n, any)
 *   nd_all(m) nd_any(m) nd_none(m) nd_count(m)  -> int
 *   nd_min_Tv nd_max_Tv        floats: the operand that is not NaN, -0 below +0; nd_minnan_f32v, nd_maxnan_f32v (f64v):
 *                              NaN wins
 *   nd_abs_Tv nd_neg_Tv        floats: the sign bit
 *   nd_div_Tv nd_rem_Tv        never trap: x / 0 is x, x % 0 is 0; floats: / and fmod
 *   nd_shl_Tv nd_shr_Tv        (ints) counts are unsigned; from the width on all bits go out; shr by the type's sign
 *   nd_mulhi_Tv                (ints)
 *   nd_clz_i32v nd_clz_i64v nd_popc_* nd_ffs_* -> nd_i32v     nd_brev_i32v nd_brev_i64v -> same type
 *   nd_fma_f32v nd_fma_f64v    nd_keep_f32v nd_keep_f64v: the operand, of which no product is fused with a sum
 *   nd_xor_lanes_Tv(x, k)      lane i of the result is lane i ^ k: log2(ND_VL) of them reduce with any combine function
 *   nd_up_lanes_Tv(x, k, fill) lane i is lane i - k, fill below: the step of a scan.  nd_down_lanes_Tv: i + k, fill
 * above nd_sum_Tv nd_prod_Tv nd_hmin_Tv nd_hmax_Tv (ints also nd_hand_Tv nd_hor_Tv nd_hxor_Tv) (x) -> scalar over the
 * lanes All but lanes and iota exist for scalars too: nd_select_f32(c, a, b), nd_min_f32, nd_div_i32, nd_mulhi_u64, ...
 * ND_MAP1(Tv, f, x) ND_MAP2(Tv, f, x, y) ND_MAP3 ND_MAP4: lane by lane through a scalar function f; Tv: the result's
 * type
 *
 * ---- nereid_convert.h ----
 *   nd_cvt_TO_FROMv(x)         vector, any pair of types (FROM f16, bf16, fp8* is f32: use nd_cvt_TO_f32v)
 *   nd_cvt_TO_FROM(x)          scalar
 *                              float to int: towards zero, saturating, NaN gives 0; to a narrow float: nearest even,
 *                                once
 *   nd_cvtz_{f16,bf16}_{f32,f64}v, nd_cvtz_f32_f64v           towards zero (also without v: scalar)
 *   nd_bits_{f16,bf16}v(x) -> nd_u16v, nd_bits_fp8*v(x) -> nd_u8v   the bits that a store writes (for bitcast)
 *   nd_from_bits_{f16,bf16}v(nd_u16v), nd_from_bits_fp8*v(nd_u8v) -> nd_f32v;  all four also scalar, without v
 *   bitcasts of whole types are C casts of vectors of equal size: (nd_i32v)x; scalars: nd_cast_TO_FROM for 32 and 64
 *     bits
 *   nd_widen_T(float *dst, const void *src, int64_t n), nd_narrow_T(void *dst, const float *src, int64_t n): arrays; T
 *     narrow
 *
 * ---- nereid_mem.h (every T; p: const void *; strides in bytes; addresses nd_i64v) ----
 *   nd_load_Tv(p)                        contiguous
 *   nd_mload_Tv(p, m, other)             touches no masked lane
 *   nd_sload_Tv(p, stride) nd_smload_Tv(p, stride, m, other)
 *   nd_gather_Tv(addr, m, other)         addr: nd_i64v of byte addresses
 *   nd_xgather_Tv(p, index, m, other)    p + index * sizeof(T), index nd_i32v: faster than nd_gather
 *   nd_store_Tv(p, x) nd_mstore_Tv(p, x, m) nd_sstore_Tv(p, stride, x) nd_smstore_Tv(p, stride, x, m)
 *   nd_scatter_Tv(addr, x, m) nd_xscatter_Tv(p, index, x, m)     in lane order: the last of two equal addresses wins
 *   nd_load_T(p), nd_store_T(p, x)       scalars
 *   nd_nstore_Tv(p, x, int far)          like nd_store; past the caches when far and p is aligned
 *   int nd_far(host)                     whether the launch's arrays are so large; ask once a kernel
 *   nd_far_end(far)                      once, before the kernel returns
 *
 * ---- nereid_math.h (NAME_f32v and NAME_f64v; rows of math.def) ----
 *   exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc cbrt
 *   sqrt rsqrt floor ceil trunc rint nearbyint round abs isnan isinf finite signbit (-> masks)
 *   two operands: pow atan2 hypot copysign fmod fdim            nd_sigmoid_f32v(x) = 1 / (1 + exp(-x))
 *   What is not here: ND_MAP1..4 over the scalar functions of mathfn.h.
 *
 * ---- nereid_dot.h (row-major, strides in elements, dims any positive; acc is read, added to and written) ----
 *   nd_dot_f32(float *acc, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb, int m, int n, int k)
 *   nd_dot_f64 (double)   nd_dot_i32 (int32_t; wraps)
 *   nd_dot_T(float *acc, ldc, const void *a, lda, const void *b, ldb, m, n, k, void *pack)   T: f16, bf16, any fp8, as
 * in memory nd_dot_i8(int32_t *acc, the same) pack is not used any more and may be NULL. All use up to 84 KiB of stack.
 *
 * ---- nereid_tile.h ----
 *   nd_sort_T(T *x, int64_t n, int descending)           in place, bits as in memory; n a power of two; NaN last
 *   nd_merge_T(T *x, int64_t n, int descending)          the same of a bitonic sequence
 * ascending, first descending nd_histogram_T(int32_t *bins, int64_t bin_count, const T *x, const uint8_t *mask or NULL,
 * int64_t n)   ints; adds to bins nd_transpose_B(void *dst, int64_t dst_stride, const void *src, int64_t src_stride,
 * int64_t rows, int64_t columns) dst[c][r] = src[r][c]; B: element bytes 1 2 4 8; strides in elements nd_copy2d(void
 * *dst, int64_t dst_stride, const void *src, int64_t src_stride, int64_t rows, int64_t row_bytes)  bytes
 *
 * ---- nereid_atomic.h (scalars, a lane each) ----
 *   nd_atomic_KIND_T(void *p, T x) -> old   KIND: add max min and or xor xchg; T: the integers, f16, bf16, f32, f64
 *   nd_atomic_cas_T(void *p, T compare, T x) -> old      floats compare by their bits
 *   nd_atomic_KIND_Tv(nd_i64v addr, nd_Tv x, nd_mask m) -> old, masked lanes 0; nd_atomic_cas_Tv(addr, compare, x, m)
 *
 * ---- nereid_print.h ----
 *   nd_print(host, program[3], prefix, operand, operand_count, rank, index[], kind, bits)   one line; see there
 */
#ifndef NEREID_CPU_SUPPORT_H
#define NEREID_CPU_SUPPORT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __GNUC__
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors wider than a register are passed to functions that are inlined */
#endif

/* What a running kernel may ask of its host; the same as in Nereid's cpu.h. */
#ifndef NEREID_CPU_H
typedef struct NereidHost {
  void (*print)(void *arg, const char *line);
  void (*fault)(void *arg, const char *message, const int32_t program[3], int line);
  void *arg;
  int64_t stream_bytes; /* total bytes of the launch's arrays */
  int64_t cache_bytes;  /* what the last cache holds */
  void (*record)(void *cursor, void *inside, const int32_t program[3], const int32_t grid[3], uint32_t tag);
  void *instrument;
  int (*array)(void *arg, uint64_t pointer, int64_t range[2]);
  int (*wait)(void *arg, const int32_t program[3], int line, int got_ahead);
} NereidHost;
#endif

#define ND_INLINE static inline __attribute__((always_inline, unused))
#define ND_NOINLINE static __attribute__((noinline, unused))
/* Before a loop of few iterations, known when compiling, whose arrays are meant to be registers. */
#ifdef __clang__
#define ND_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ND_UNROLL _Pragma("GCC unroll 16")
#endif

/* Keeps the compiler from knowing how x was made. */
#if defined(__AVX512F__)
#define ND_KEEP(x) __asm__("" : "+v"(x))
#elif defined(__SSE2__)
#define ND_KEEP(x) __asm__("" : "+x"(x))
#elif defined(__aarch64__)
#define ND_KEEP(x) __asm__("" : "+w"(x))
#else
#define ND_KEEP(x) __asm__("" : "+m"(x))
#endif

/* ---- element types in a register --------------------------------------------------------------------------------- */

typedef int nd_i1;
typedef int8_t nd_i8;
typedef int16_t nd_i16;
typedef int32_t nd_i32;
typedef int64_t nd_i64;
typedef uint8_t nd_u8;
typedef uint16_t nd_u16;
typedef uint32_t nd_u32;
typedef uint64_t nd_u64;
typedef float nd_f32, nd_f16, nd_bf16, nd_fp8e5, nd_fp8e4nv, nd_fp8e4b15, nd_fp8e4b8, nd_fp8e5b16;
typedef double nd_f64;

#define ND_SIGNED(X) X(i8) X(i16) X(i32) X(i64)
#define ND_UNSIGNED(X) X(u8) X(u16) X(u32) X(u64)
#define ND_INTS(X) ND_SIGNED(X) ND_UNSIGNED(X)

/* ---- scalars: what C leaves undefined is defined here, as tile/scalar.c has it ----------------------------------- */

#define ND_SCALAR(T) \
  ND_INLINE nd_##T nd_select_##T(int c, nd_##T a, nd_##T b) { return c ? a : b; }
#define ND_SCALAR_INT(T) \
  ND_SCALAR(T) \
  ND_INLINE nd_##T nd_min_##T(nd_##T a, nd_##T b) { return a < b ? a : b; } \
  ND_INLINE nd_##T nd_max_##T(nd_##T a, nd_##T b) { return a > b ? a : b; } \
  ND_INLINE nd_##T nd_neg_##T(nd_##T a) { return (nd_##T)(0 - (uint64_t)a); } \
  ND_INLINE nd_##T nd_abs_##T(nd_##T a) { return a > 0 ? a : (nd_##T)(0 - (uint64_t)a); } \
  ND_INLINE nd_##T nd_shl_##T(nd_##T a, nd_##T n) { \
    return (uint64_t)n < 8 * sizeof a ? (nd_##T)((uint64_t)a << ((uint64_t)n & 63)) : 0; \
  }
ND_INTS(ND_SCALAR_INT)
#undef ND_SCALAR_INT

#define ND_SCALAR_SIGNED(T) \
  ND_INLINE nd_##T nd_div_##T(nd_##T a, nd_##T b) { return b == -1 ? nd_neg_##T(a) : (nd_##T)(a / (b ? b : 1)); } \
  ND_INLINE nd_##T nd_rem_##T(nd_##T a, nd_##T b) { return b == -1 ? 0 : (nd_##T)(a % (b ? b : 1)); } \
  ND_INLINE nd_##T nd_shr_##T(nd_##T a, nd_##T n) { \
    return (nd_##T)(a >> ((uint64_t)n < 8 * sizeof a ? (uint64_t)n : 8 * sizeof a - 1)); \
  }
#define ND_SCALAR_UNSIGNED(T) \
  ND_INLINE nd_##T nd_div_##T(nd_##T a, nd_##T b) { return (nd_##T)(a / (b ? b : 1)); } \
  ND_INLINE nd_##T nd_rem_##T(nd_##T a, nd_##T b) { return (nd_##T)(a % (b ? b : 1)); } \
  ND_INLINE nd_##T nd_shr_##T(nd_##T a, nd_##T n) { \
    return (uint64_t)n < 8 * sizeof a ? (nd_##T)(a >> ((uint64_t)n & (8 * sizeof a - 1))) : 0; \
  }
ND_SIGNED(ND_SCALAR_SIGNED)
ND_UNSIGNED(ND_SCALAR_UNSIGNED)
#undef ND_SCALAR_SIGNED
#undef ND_SCALAR_UNSIGNED

#define ND_SCALAR_MULHI(T, wide) \
  ND_INLINE nd_##T nd_mulhi_##T(nd_##T a, nd_##T b) { return (nd_##T)((wide)a * (wide)b >> 8 * sizeof a); }
ND_SCALAR_MULHI(i8, int)
ND_SCALAR_MULHI(i16, int)
ND_SCALAR_MULHI(i32, int64_t)
ND_SCALAR_MULHI(i64, __int128)
ND_SCALAR_MULHI(u8, unsigned)
ND_SCALAR_MULHI(u16, unsigned)
ND_SCALAR_MULHI(u32, uint64_t)
ND_SCALAR_MULHI(u64, unsigned __int128)
#undef ND_SCALAR_MULHI

/* The difference of two equal numbers is seen in the sign of a zero only: -0 is the lesser. */
#define ND_SCALAR_FLOAT(T, f) \
  ND_SCALAR(T) \
  ND_INLINE int nd_below_##T(nd_##T a, nd_##T b) { return a < b || (a == b && __builtin_signbit(a)); } \
  ND_INLINE nd_##T nd_min_##T(nd_##T a, nd_##T b) { return nd_below_##T(a, b) || b != b ? a : b; } \
  ND_INLINE nd_##T nd_max_##T(nd_##T a, nd_##T b) { return nd_below_##T(b, a) || b != b ? a : b; } \
  ND_INLINE nd_##T nd_minnan_##T(nd_##T a, nd_##T b) { return nd_below_##T(a, b) || a != a ? a : b; } \
  ND_INLINE nd_##T nd_maxnan_##T(nd_##T a, nd_##T b) { return nd_below_##T(b, a) || a != a ? a : b; } \
  ND_INLINE nd_##T nd_neg_##T(nd_##T a) { return -a; } \
  ND_INLINE nd_##T nd_abs_##T(nd_##T a) { return __builtin_fabs##f(a); } \
  ND_INLINE nd_##T nd_div_##T(nd_##T a, nd_##T b) { return a / b; } \
  ND_INLINE nd_##T nd_rem_##T(nd_##T a, nd_##T b) { return fmod##f(a, b); } \
  ND_INLINE nd_##T nd_fma_##T(nd_##T a, nd_##T b, nd_##T c) { return fma##f(a, b, c); } \
  ND_INLINE nd_##T nd_keep_##T(nd_##T a) { \
    ND_KEEP(a); \
    return a; \
  }
ND_SCALAR_FLOAT(f32, f)
ND_SCALAR_FLOAT(f64, )
#undef ND_SCALAR_FLOAT
ND_SCALAR(i1)
#undef ND_SCALAR

#define ND_SCALAR_CAST(to, from) \
  ND_INLINE nd_##to nd_cast_##to##_##from(nd_##from x) { \
    nd_##to y; \
    memcpy(&y, &x, sizeof y); \
    return y; \
  }
ND_SCALAR_CAST(i32, f32)
ND_SCALAR_CAST(u32, f32)
ND_SCALAR_CAST(f32, i32)
ND_SCALAR_CAST(f32, u32)
ND_SCALAR_CAST(i64, f64)
ND_SCALAR_CAST(u64, f64)
ND_SCALAR_CAST(f64, i64)
ND_SCALAR_CAST(f64, u64)
#undef ND_SCALAR_CAST

#endif
