/* math: the functions of tile/math.def as lane operations. Private to src/gpu/math.
 *
 * A function is C that builds its formula, one call an operation. The first letter of a helper is what its registers
 * hold:
 *
 *     f_ f32      d_ f64      i_ 32-bit integers      l_ 64-bit integers      p_ predicates
 *
 *     V z = f_mul(b, x, x);
 *     V p = f_fma(b, z, F(0.0083f), F(-0.1667f));          z * 0.0083 - 0.1667, rounded once
 *     V y = p_select(b, f_lt(b, x, F(0)), p, x);
 *
 * Every sum, difference and product is rounded by itself (`.rn`: the assembler does not contract it into an fma), since
 * the error terms below depend on it; where an fma is wanted it is written. The constants F, D, I and L take the
 * builder from the name `b`.
 *
 * What rows there are, and how a row is found, is in math.c. A function with a row for f64 only serves f32 too: its
 * operands are widened, the result is rounded once.
 */
#ifndef NEREID_GPU_MATH_H
#define NEREID_GPU_MATH_H

#include "gpu/math/functions.h"

typedef LaneValue *V;
typedef LaneBuilder B;

#define F(c) lane_f32(b, c)
#define D(c) lane_f64(b, c)
#define I(c) lane_i32(b, (int32_t)(c))
#define L(c) lane_i64(b, (int64_t)(c))
#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* One element: the result from the operands. */
typedef V MathOne(B *b, const V *in);
/* All elements at once, for functions whose slow path is one branch for all. */
typedef void MathAll(B *b, int n, V *const *in, V *out);

typedef struct MathRow {
  MathFn fn;
  Dtype about;  /* the type of its first float operand, else of its first operand */
  MathOne *one; /* or NULL */
  MathAll *all; /* or NULL: then it is the operation `op` */
  LaneOp op;
} MathRow;
typedef struct MathTable {
  const MathRow *rows;
  int n;
} MathTable;
extern const MathTable math_basic_table, math_convert_table, math_bits_table, math_exp_table, math_log_table,
    math_pow_table, math_trig_table, math_arc_table, math_root_table, math_mod_table, math_erf_table, math_erfinv_table,
    math_gamma_table, math_bessel_table, math_bessel_i_table;
#define MATH_TABLE(rows) \
  { rows, COUNT(rows) }

/* ---- arithmetic (math/kit.c) ------------------------------------------------------------------------------------- */

V f_add(B *b, V x, V y);
V f_add_rz(B *b, V x, V y);
V f_sub(B *b, V x, V y);
V f_mul(B *b, V x, V y);
V f_fma(B *b, V x, V y, V z);
V f_neg(B *b, V x);
V f_abs(B *b, V x);
V f_copysign(B *b, V magnitude, V sign);
V f_max(B *b, V x, V y); /* the one that is a number */
V f_min(B *b, V x, V y);
V f_rint(B *b, V x);
V f_trunc(B *b, V x);
V f_sqrt(B *b, V x);                        /* correctly rounded */
V f_div(B *b, V x, V y);                    /* correctly rounded */
V f_rcp_approx(B *b, V x);                  /* 1 ulp; subnormals count as 0 */
V f_ex2_approx(B *b, V x);                  /* 2 ulp; subnormal results are 0 */
V f_lg2_approx(B *b, V x);                  /* 2^-22; subnormals count as 0 */
V f_sat(B *b, V x);                         /* into [0, 1]; NaN gives 0 */
V f_poly(B *b, V x, int n, const float *c); /* c[0] + c[1] x + ..., by Horner's rule */
V f_lt(B *b, V x, V y);
V f_le(B *b, V x, V y);
V f_gt(B *b, V x, V y);
V f_ge(B *b, V x, V y);
V f_eq(B *b, V x, V y);
V f_ne(B *b, V x, V y); /* true when one is NaN */
V f_nan(B *b, V x);     /* is it NaN */
#define F_POLY(x, c) f_poly(b, x, COUNT(c), c)

V d_add(B *b, V x, V y);
V d_add_rz(B *b, V x, V y);
V d_sub(B *b, V x, V y);
V d_mul(B *b, V x, V y);
V d_fma(B *b, V x, V y, V z);
V d_neg(B *b, V x);
V d_abs(B *b, V x);
V d_copysign(B *b, V magnitude, V sign);
V d_max(B *b, V x, V y);
V d_min(B *b, V x, V y);
V d_rint(B *b, V x);
V d_trunc(B *b, V x);
V d_floor(B *b, V x);
V d_sqrt(B *b, V x);
V d_div(B *b, V x, V y);
V d_rcp(B *b, V x);
V d_poly(B *b, V x, int n, const double *c);
V d_lt(B *b, V x, V y);
V d_le(B *b, V x, V y);
V d_gt(B *b, V x, V y);
V d_ge(B *b, V x, V y);
V d_eq(B *b, V x, V y);
V d_ne(B *b, V x, V y);
V d_nan(B *b, V x);
V d_pow2(B *b, V n);       /* 2^n of a b32 in [-1022, 1023] */
V d_scale(B *b, V x, V n); /* x * 2^n of any b32; one rounding, but for n below -3000 or so */
V d_is_odd(B *b, V x);     /* of a whole number or anything else */
#define D_POLY(x, c) d_poly(b, x, COUNT(c), c)

V i_add(B *b, V x, V y);
V i_sub(B *b, V x, V y);
V i_mul(B *b, V x, V y);
V i_and(B *b, V x, V y);
V i_or(B *b, V x, V y);
V i_xor(B *b, V x, V y);
V i_shl(B *b, V x, V n);
V i_shr(B *b, V x, V n); /* by its sign */
V u_shr(B *b, V x, V n);
V i_min(B *b, V x, V y);
V i_max(B *b, V x, V y);
V i_lt(B *b, V x, V y);
V i_gt(B *b, V x, V y);
V i_eq(B *b, V x, V y);
V i_ne(B *b, V x, V y);
V u_lt(B *b, V x, V y);
V u_ge(B *b, V x, V y);

V l_add(B *b, V x, V y);
V l_sub(B *b, V x, V y);
V l_and(B *b, V x, V y);
V l_or(B *b, V x, V y);
V l_xor(B *b, V x, V y);
V l_shl(B *b, V x, V n); /* n is a b32; 64 and more give 0 */
V l_shr(B *b, V x, V n); /* unsigned */
V l_eq(B *b, V x, V y);
V l_lt(B *b, V x, V y); /* signed */
V l_high(B *b, V x);    /* the b32 halves */
V l_low(B *b, V x);
V l_pack(B *b, V low, V high);

V p_and(B *b, V p, V q);
V p_or(B *b, V p, V q);
V p_xor(B *b, V p, V q);
V p_not(B *b, V p);
V p_select(B *b, V p, V x, V y); /* p ? x : y */

V f_from_d(B *b, V x);
V d_from_f(B *b, V x);
V f_from_i(B *b, V x);
V d_from_i(B *b, V x);
V i_from_d(B *b, V x); /* rint, saturated */

/* ---- branches: V y = p ? one : other, where only the side that is taken is computed ----
 *
 *     LaneOp *far = when(b, d_gt(b, x, D(8)), LT_B64);
 *     V y = ...;
 *     otherwise(b, far, y);
 *     V z = ...;
 *     V r = whichever(b, far, z);
 */
LaneOp *when(B *b, V p, LaneType t);
void otherwise(B *b, LaneOp *op, V value);
V whichever(B *b, LaneOp *op, V value);

/* ---- numbers in two parts: hi + lo, |lo| <= ulp(hi)/2 (Dekker 1971; Muller et al., Handbook of Floating-Point Arithmetic, ch. 4, 14) ---- */

typedef struct DD {
  V hi, lo;
} DD;
DD dd_sum(B *b, V x, V y);      /* x + y exactly */
DD dd_fast_sum(B *b, V x, V y); /* likewise, when |x| >= |y| or x is 0 */
DD dd_product(B *b, V x, V y);  /* x * y exactly */
DD dd_add(B *b, DD x, DD y);
DD dd_add1(B *b, DD x, V y);
DD dd_mul(B *b, DD x, DD y);
DD dd_mul1(B *b, DD x, V y);
DD dd_const(B *b, double hi, double lo);
DD dd_neg(B *b, DD x);

/* x^y for n elements of type t, where all y are one constant that has a shorter way (math/pow.c); false where not. */
bool math_constant_power(B *b, Dtype t, Dtype power_type, int n, const V *x, const V *y, V *out);

/* ---- functions that others are made of --------------------------------------------------------------------------- */

V d_exp(B *b, V x);
V d_exp_dd(B *b, DD x);  /* exp(hi + lo), below 1 ulp; any range */
V d_exp_half(B *b, V x); /* exp(x) / 2, which overflows later */
V d_expm1(B *b, V x);
V d_log(B *b, V x);
V d_log1p(B *b, V x);
DD d_log_dd(B *b, V x); /* x > 0, finite: about 2^-66 relative */
/* 1/sqrt(x), x far from where squares overflow: one step of Newton's on the quotient that was rounded twice, with x y^2
 * - 1 from exact products. */
V d_rsqrt_near_one(B *b, V x);
V d_sinpi(B *b, V x);
void d_sincos(B *b, V x, V *sine, V *cosine);
V d_erfcx(B *b, V x); /* x >= 0 */
V d_erfc(B *b, V x);

#endif
