/* math_root: cube roots and lengths of vectors.
 *
 * A cube root begins with ex2(lg2(x) / 3) of the special function unit and is mended by one step (Newton's in f32; in
 * f64 Halley's, which triples the number of right places). A length scales its numbers by the power of two that brings
 * the greatest near 1, so that no square overflows or vanishes.
 */
#include "gpu/math/math.h"

/* ---- cube roots -------------------------------------------------------------------------------------------------- */

/* |x| brought out of the subnormals by 2^24; *mend takes the root's share, 2^8, away again. */
static V lift_f32(B *b, V x, float down, V *mend) {
  V a = f_abs(b, x), small = f_lt(b, a, F(0x1p-126f));
  *mend = p_select(b, small, F(down), F(1));
  return p_select(b, small, f_mul(b, a, F(0x1p24f)), a);
}
static V is_edge_f32(B *b, V x) { /* 0, infinities, NaN */
  return p_or(b, f_eq(b, x, F(0)), p_not(b, f_lt(b, f_abs(b, x), F(__builtin_inff()))));
}
static V cbrt_f32(B *b, const V *in) {
  V x = in[0], mend, a = lift_f32(b, x, 0x1p-8f, &mend);
  V t = f_ex2_approx(b, f_mul(b, f_lg2_approx(b, a), F(0.333333343f)));
  V square = f_mul(b, t, t), square_low = f_fma(b, t, t, f_neg(b, square));
  V miss = f_fma(b, square_low, t, f_fma(b, square, t, f_neg(b, a)));
  V y = f_fma(b, f_mul(b, miss, f_rcp_approx(b, square)), F(-0.333333343f), t);
  y = f_copysign(b, f_mul(b, y, mend), x);
  return p_select(b, is_edge_f32(b, x), x, y);
}
static V rcbrt_f32(B *b, const V *in) {
  V x = in[0], mend, a = lift_f32(b, x, 0x1p8f, &mend);
  V y = f_ex2_approx(b, f_mul(b, f_lg2_approx(b, a), F(-0.333333343f)));
  V p = f_mul(b, a, y), p_low = f_fma(b, a, y, f_neg(b, p));
  V square = f_mul(b, y, y), square_low = f_fma(b, y, y, f_neg(b, square));
  V miss = f_fma(b, f_neg(b, p), square, F(1));
  miss = f_fma(b, f_neg(b, p_low), square, f_fma(b, f_neg(b, p), square_low, miss));
  y = f_fma(b, f_mul(b, y, F(0.333333343f)), miss, y);
  y = f_copysign(b, f_mul(b, y, mend), x);
  return p_select(b, is_edge_f32(b, x), f_div(b, F(1), x), y);
}

/* |x| = 8^k m, m in [1, 8). */
static V cube_parts_f64(B *b, V x, V *k) {
  V a = d_abs(b, x), small = d_lt(b, a, D(0x1p-1022)), normal = p_select(b, small, d_mul(b, a, D(0x1p54)), a);
  V high = l_high(b, normal), e = i_sub(b, u_shr(b, high, I(20)), p_select(b, small, I(1023 + 54), I(1023)));
  *k = i_sub(b, u_shr(b, i_mul(b, i_add(b, e, I(3072)), I(21846)), I(16)), I(1024)); /* floor(e / 3) */
  V rest = i_sub(b, e, i_mul(b, *k, I(3)));
  V m_high = i_or(b, i_and(b, high, I(0xfffff)), i_shl(b, i_add(b, rest, I(1023)), I(20)));
  return l_pack(b, l_low(b, normal), m_high);
}
static V is_edge_f64(B *b, V x) {
  return p_or(b, d_eq(b, x, D(0)), p_not(b, d_lt(b, d_abs(b, x), D(__builtin_inf()))));
}
static V start(B *b, V m, float power) {
  return d_from_f(b, f_ex2_approx(b, f_mul(b, f_lg2_approx(b, f_from_d(b, m)), F(power))));
}
static V cbrt_f64(B *b, const V *in) {
  V x = in[0], k, m = cube_parts_f64(b, x, &k), t = start(b, m, 0.333333343f);
  V square = d_mul(b, t, t); /* exact: t has 24 bits */
  V miss = d_fma(b, square, t, d_neg(b, m));
  V slope = d_fma(b, d_add(b, square, square), t, m);
  V y = d_fma(b, t, d_neg(b, d_div(b, miss, slope)), t);
  y = d_copysign(b, d_mul(b, y, d_pow2(b, k)), x);
  return p_select(b, is_edge_f64(b, x), x, y);
}
/* y (1 - h)^(-1/3), h = 1 - m y^3. */
static V rcbrt_f64(B *b, const V *in) {
  V x = in[0], k, m = cube_parts_f64(b, x, &k), y = start(b, m, -0.333333343f);
  V square = d_mul(b, y, y); /* exact */
  DD p = dd_product(b, m, y);
  V h = d_fma(b, d_neg(b, p.lo), square, d_fma(b, d_neg(b, p.hi), square, D(1)));
  V series = d_mul(b, h, d_fma(b, h, D(2.0 / 9), D(1.0 / 3)));
  y = d_fma(b, y, series, y);
  y = d_copysign(b, d_mul(b, y, d_pow2(b, i_sub(b, I(0), k))), x);
  return p_select(b, is_edge_f64(b, x), d_div(b, D(1), x), y);
}

/* ---- lengths ----------------------------------------------------------------------------------------------------- */

/* Scaled squares' sum; *back is the power of two the root must be multiplied by; *any_inf: is one infinite. */
static V squares_f32(B *b, int n, const V *x, V *field, V *any_inf) {
  V bits[4], sum = NULL, most = NULL;
  for (int i = 0; i < n; i++) {
    bits[i] = i_and(b, x[i], I(0x7fffffff));
    most = most ? i_max(b, most, bits[i]) : bits[i];
    V inf = i_eq(b, bits[i], I(0x7f800000));
    *any_inf = i ? p_or(b, *any_inf, inf) : inf;
  }
  *field = i_min(b, i_max(b, i_and(b, most, I(0x7f800000)), I(1 << 23)), I(252 << 23));
  V scale = i_sub(b, I(0x7f000000), *field); /* 2^-(E - 127) */
  for (int i = 0; i < n; i++) {
    V y = f_mul(b, x[i], scale);
    sum = sum ? f_fma(b, y, y, sum) : f_mul(b, y, y);
  }
  return sum;
}
static V norm_f32(B *b, int n, const V *x) {
  V field, any_inf, sum = squares_f32(b, n, x, &field, &any_inf);
  V y = f_mul(b, f_sqrt(b, sum), field); /* as a float, 2^(E - 127) */
  return p_select(b, any_inf, F(__builtin_inff()), y);
}
static V rnorm_f32(B *b, int n, const V *x) {
  V field, any_inf, sum = squares_f32(b, n, x, &field, &any_inf);
  V y = lane_op(b, (LaneOp){.code = LANE_RSQRT, .kind = LK_F32, .buffer = -1}, 1, &sum);
  V better = f_fma(b, f_mul(b, y, F(0.5f)), f_fma(b, f_neg(b, f_mul(b, sum, y)), y, F(1)), y);
  y = p_select(b, f_eq(b, sum, F(0)), y, better);
  return p_select(b, any_inf, F(0), f_mul(b, y, i_sub(b, I(0x7f000000), field)));
}
/* The sum in two parts: for 1/sqrt its rounding would be most of the error. */
static DD squares_f64(B *b, int n, const V *x, V *up, V *down, V *any_inf) {
  V most = NULL;
  for (int i = 0; i < n; i++) {
    V bits = i_and(b, l_high(b, x[i]), I(0x7fffffff)), inf = d_eq(b, d_abs(b, x[i]), D(__builtin_inf()));
    most = most ? i_max(b, most, bits) : bits;
    *any_inf = i ? p_or(b, *any_inf, inf) : inf;
  }
  V field = i_min(b, i_max(b, i_and(b, most, I(0x7ff00000)), I(1 << 20)), I(2044 << 20));
  *up = l_pack(b, I(0), i_sub(b, I(0x7fe00000), field));
  *down = l_pack(b, I(0), field);
  DD sum = {NULL, NULL};
  for (int i = 0; i < n; i++) {
    V y = d_mul(b, x[i], *up);
    DD square = dd_product(b, y, y);
    if (i == 0) {
      sum = square;
      continue;
    }
    DD s = dd_sum(b, sum.hi, square.hi);
    sum = (DD){s.hi, d_add(b, d_add(b, sum.lo, square.lo), s.lo)};
  }
  return sum;
}
static V norm_f64(B *b, int n, const V *x) {
  V up, down, any_inf;
  DD sum = squares_f64(b, n, x, &up, &down, &any_inf);
  return p_select(b, any_inf, D(__builtin_inf()), d_mul(b, d_sqrt(b, d_add(b, sum.hi, sum.lo)), down));
}
static V rnorm_f64(B *b, int n, const V *x) {
  V up, down, any_inf;
  DD sum = squares_f64(b, n, x, &up, &down, &any_inf);
  V y = d_rsqrt_near_one(b, sum.hi), third_order = d_mul(b, d_mul(b, y, y), y);
  V better = d_fma(b, third_order, d_mul(b, sum.lo, D(-0.5)), y); /* the derivative times what sum.hi lacks */
  y = p_select(b, d_eq(b, sum.hi, D(0)), y, better);
  return p_select(b, any_inf, D(0), d_mul(b, y, up));
}

#define LENGTH(name, n) \
  static V name##_f32(B *b, const V *in) { return n(in, f32); } \
  static V name##_f64(B *b, const V *in) { return n(in, f64); }
#define NORM2(in, t) norm_##t(b, 2, in)
#define NORM3(in, t) norm_##t(b, 3, in)
#define NORM4(in, t) norm_##t(b, 4, in)
#define RNORM2(in, t) rnorm_##t(b, 2, in)
#define RNORM3(in, t) rnorm_##t(b, 3, in)
#define RNORM4(in, t) rnorm_##t(b, 4, in)
LENGTH(hypot, NORM2)
LENGTH(norm3d, NORM3)
LENGTH(norm4d, NORM4)
LENGTH(rhypot, RNORM2)
LENGTH(rnorm3d, RNORM3)
LENGTH(rnorm4d, RNORM4)

#define BOTH(FN, name) \
  {MATH_##FN, DT_F32, name##_f32, NULL, {0}}, { \
    MATH_##FN, DT_F64, name##_f64, NULL, { 0 } \
  }
static const MathRow rows[] = {
    BOTH(CBRT, cbrt),     BOTH(RCBRT, rcbrt),     BOTH(HYPOT, hypot),   BOTH(RHYPOT, rhypot),
    BOTH(NORM3D, norm3d), BOTH(RNORM3D, rnorm3d), BOTH(NORM4D, norm4d), BOTH(RNORM4D, rnorm4d),
};
const MathTable math_root_table = MATH_TABLE(rows);
