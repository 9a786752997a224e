/* math_pow: powers. x^y = 2^(y log2 |x|), where the logarithm must be known to more places than the result, since y
 * multiplies its error: it is computed in two parts, and so is the product. Signs and the many special cases of C
 * (Annex F.9.4.4) are put on at the end.
 *
 * Small whole powers and the square root, where the power is a constant, are what they say.
 *
 * f32 needs log2 to about 2^-31; that is pairs of floats and a polynomial of four terms. f64 takes d_log_dd and
 * d_exp_dd.
 */
#include "gpu/math/math.h"

/* (atanh(s)/s - 1 - z/3) / z^2 of z = s^2, s in [-0.1716, 0.1716]. */
static const float atanh_c[] = {0.200000763f, 0.142735392f, 0.117100835f};

/* log2(x) = hi + lo of a positive finite x. */
static void log2_f32(B *b, V x, V *hi, V *lo) {
  V small = f_lt(b, x, F(0x1p-126f)), normal = p_select(b, small, f_mul(b, x, F(0x1p24f)), x);
  V field = i_and(b, i_sub(b, normal, I(0x3f3504f3)), I(0xff800000u));
  V k = f_fma(b, f_from_i(b, field), F(0x1p-23f), p_select(b, small, F(-24), F(0)));
  V m = i_sub(b, normal, field), f = f_sub(b, m, F(1));
  /* s = f / (m + 1) in two parts. */
  V g = f_add(b, m, F(1)), g_low = f_sub(b, m, f_sub(b, g, F(1))), inverse = f_rcp_approx(b, g);
  V s = f_mul(b, f, inverse), minus = f_neg(b, s);
  V s_low = f_mul(b, f_fma(b, minus, g_low, f_fma(b, minus, g, f)), inverse);
  /* atanh(s) = s + s (z/3 + z^2 q(z)); z/3 is in two parts as well. */
  V z = f_mul(b, s, s), z_low = f_fma(b, f_add(b, s, s), s_low, f_fma(b, s, s, f_neg(b, z)));
  V third = F(0.333333343f), t = f_mul(b, z, third);
  V t_low = f_fma(b, z_low, third, f_fma(b, z, F(-9.93410776e-09f), f_fma(b, z, third, f_neg(b, t))));
  V rest = f_fma(b, f_mul(b, z, z), F_POLY(z, atanh_c), t_low);
  /* atanh(s) = a + a_low */
  V low = f_fma(b, s, t, f_fma(b, s, rest, s_low)), a = f_add(b, s, low), a_low = f_sub(b, low, f_sub(b, a, s));
  /* times 2 / ln 2 */
  V c = F(0x1.715476p+1f), p = f_mul(b, a, c);
  V p_low = f_fma(b, a_low, c, f_fma(b, a, F(0x1.4ae0cp-25f), f_fma(b, a, c, f_neg(b, p))));
  V sum = f_add(b, k, p);
  *hi = sum;
  *lo = f_add(b, f_sub(b, p, f_sub(b, sum, k)), p_low);
}

static V pow_f32(B *b, const V *in) {
  V x = in[0], y = in[1], a = f_abs(b, x), hi, lo, inf = F(__builtin_inff());
  log2_f32(b, a, &hi, &lo);
  V power = f_min(b, f_max(b, y, F(-0x1p40f)), F(0x1p40f)); /* beyond, all that is not 1 overflows or vanishes */
  V p = f_mul(b, hi, power), p_low = f_fma(b, lo, power, f_fma(b, hi, power, f_neg(b, p)));
  V near = f_min(b, f_max(b, p, F(-160)), F(160));
  V sum = f_add(b, near, F(12582912.0f)), whole = f_sub(b, sum, F(12582912.0f));
  V e = f_ex2_approx(b, f_add(b, f_sub(b, near, whole), p_low));
  V n = i_sub(b, sum, I(0x4b400000)), half = i_shr(b, n, I(1)), rest = i_sub(b, n, half);
  V r = f_mul(b, e, i_shl(b, i_add(b, half, I(127)), I(23)));
  r = f_mul(b, r, i_shl(b, i_add(b, rest, I(127)), I(23)));
  r = p_select(b, f_gt(b, p, F(129)), inf, r);
  r = p_select(b, f_lt(b, p, F(-152)), F(0), r);
  /* 0 and infinity */
  V zero = f_eq(b, a, F(0)), edge = p_or(b, zero, f_eq(b, a, inf));
  r = p_select(b, edge, p_select(b, p_xor(b, zero, f_lt(b, y, F(0))), F(0), inf), r);
  /* below 0: odd powers are negative, powers that are not whole have no value */
  V half_y = f_mul(b, y, F(0.5f)), is_whole = f_eq(b, f_trunc(b, y), y);
  V odd = p_and(b, f_ne(b, f_trunc(b, half_y), half_y), is_whole);
  r = p_select(b, p_and(b, odd, i_lt(b, x, I(0))), f_neg(b, r), r);
  V none = p_and(b, p_and(b, f_lt(b, x, F(0)), p_not(b, is_whole)), f_lt(b, a, inf));
  r = p_select(b, none, F(__builtin_nanf("")), r);
  r = p_select(b, p_or(b, f_nan(b, x), f_nan(b, y)), f_add(b, x, y), r);
  return p_select(b, p_or(b, f_eq(b, y, F(0)), f_eq(b, x, F(1))), F(1), r);
}

static V pow_f64(B *b, const V *in) {
  V x = in[0], y = in[1], a = d_abs(b, x), inf = D(__builtin_inf());
  V power = d_min(b, d_max(b, y, D(-0x1p80)), D(0x1p80));
  V r = d_exp_dd(b, dd_mul1(b, d_log_dd(b, a), power));
  V zero = d_eq(b, a, D(0)), edge = p_or(b, zero, d_eq(b, a, inf));
  r = p_select(b, edge, p_select(b, p_xor(b, zero, d_lt(b, y, D(0))), D(0), inf), r);
  r = p_select(b, p_and(b, d_is_odd(b, y), l_lt(b, x, L(0))), d_neg(b, r), r);
  V none = p_and(b, p_and(b, d_lt(b, x, D(0)), d_ne(b, d_trunc(b, y), y)), d_lt(b, a, inf));
  r = p_select(b, none, D(__builtin_nan("")), r);
  r = p_select(b, p_or(b, d_nan(b, x), d_nan(b, y)), d_add(b, x, y), r);
  return p_select(b, p_or(b, d_eq(b, y, D(0)), d_eq(b, x, D(1))), D(1), r);
}

/* ---- powers known while compiling -------------------------------------------------------------------------------- */

/* What the powers are, if they are all one constant. */
static bool constant_power(int n, const V *y, Dtype t, double *power) {
  for (int i = 0; i < n; i++) {
    uint64_t bits;
    if (!lane_is_const(y[i], &bits)) return false;
    double here = dtype_is_float(t) ? dtype_load_float(t, &bits) : (double)(int32_t)bits;
    if (i && here != *power) return false;
    *power = here;
  }
  return n > 0;
}
static V multiply(B *b, bool single, V x, V y) { return single ? f_mul(b, x, y) : d_mul(b, x, y); }

bool math_constant_power(B *b, Dtype t, Dtype power_type, int n, const V *x, const V *y, V *out) {
  static const double known[] = {1, 2, 3, 4, -1, 0.5};
  double power = 0;
  bool single = t == DT_F32, short_way = false;
  if (!constant_power(n, y, power_type, &power)) return false;
  for (int i = 0; i < COUNT(known); i++) short_way |= power == known[i];
  for (int i = 0; i < n && short_way; i++) {
    V z = x[i], square = power >= 2 ? multiply(b, single, z, z) : NULL;
    if (power == 1) out[i] = z;
    else if (power == 2) out[i] = square;
    else if (power == 3) out[i] = multiply(b, single, square, z);
    else if (power == 4) out[i] = multiply(b, single, square, square);
    else if (power == -1) out[i] = single ? f_div(b, F(1), z) : d_rcp(b, z);
    else { /* sqrt, but for -0 and -infinity */
      V root = single ? f_sqrt(b, f_add(b, z, F(0))) : d_sqrt(b, d_add(b, z, D(0)));
      V inf = single ? F(__builtin_inff()) : D(__builtin_inf());
      V edge = single ? f_eq(b, z, F(-__builtin_inff())) : d_eq(b, z, D(-__builtin_inf()));
      out[i] = p_select(b, edge, inf, root);
    }
  }
  return short_way;
}

static const MathRow rows[] = {{MATH_POW, DT_F32, pow_f32, NULL, {0}}, {MATH_POW, DT_F64, pow_f64, NULL, {0}}};
const MathTable math_pow_table = MATH_TABLE(rows);
