/* math_mod: fmod and remainder, which are exact.
 *
 * As long as r >= c: r -= q t with t = c 2^k and q = trunc(r / t) < 2^53. q t has the last place of t, and r - q t is
 * below t, so the fma is exact. k is 0 when the quotient fits 53 bits (nearly always: one iteration), else what leaves
 * 52 of them.
 *
 * f32 goes through f64: what is exact there is the same number.
 */
#include "gpu/math/math.h"

static V exponent(B *b, V x) { /* of a positive number; subnormals as the least normal one, less what they lack */
  V small = d_lt(b, x, D(0x1p-1022)), normal = p_select(b, small, d_mul(b, x, D(0x1p54)), x);
  return i_sub(b, u_shr(b, l_high(b, normal), I(20)), p_select(b, small, I(54), I(0)));
}

/* |x| mod |y| and whether the quotient is odd. Where either has no place in the loop, it does not run and r is |x|. */
static V reduce(B *b, V a, V c, V *odd) {
  V runs = p_and(b, d_lt(b, a, D(__builtin_inf())), d_gt(b, c, D(0))), c_exponent = exponent(b, c);
  LaneOp *loop = lane_while(b, 2, (V[]){a, I(0)});
  V r = loop->body[0]->args[0], bit = loop->body[0]->args[1];
  lane_condition(b, p_and(b, runs, d_ge(b, r, c)), 2, (V[]){r, bit});
  lane_enter(b, loop, 1);
  r = loop->body[1]->args[0];
  V k = i_max(b, i_sub(b, i_sub(b, exponent(b, r), c_exponent), I(51)), I(0)), half = i_shr(b, k, I(1));
  V t = d_mul(b, d_mul(b, c, d_pow2(b, i_min(b, half, I(1023)))), d_pow2(b, i_min(b, i_sub(b, k, half), I(1023))));
  V q = d_trunc(
      b, lane_op(b, (LaneOp){.code = LANE_DIV, .kind = LK_F64, .rounding = ROUND_RZ, .buffer = -1}, 2, (V[]){r, t}));
  V last = p_and(b, i_eq(b, k, I(0)), d_is_odd(b, q)); /* with k > 0 the quotient is a multiple of 2 */
  lane_yield(b, 2, (V[]){d_fma(b, d_neg(b, q), t, r), p_select(b, last, I(1), I(0))});
  lane_leave(b, loop);
  *odd = i_ne(b, loop->out[1], I(0));
  return loop->out[0];
}
/* NaN of either, x infinite, y 0. */
static V without_value(B *b, V x, V y, V r) {
  V none = p_or(b, p_or(b, d_nan(b, y), d_eq(b, y, D(0))), p_not(b, d_lt(b, d_abs(b, x), D(__builtin_inf()))));
  return p_select(b, none, D(__builtin_nan("")), r);
}

static V fmod_f64(B *b, const V *in) {
  V x = in[0], y = in[1], odd;
  V r = reduce(b, d_abs(b, x), d_abs(b, y), &odd);
  return without_value(b, x, y, d_copysign(b, r, x));
}
static V remainder_f64(B *b, const V *in) {
  V x = in[0], y = in[1], c = d_abs(b, y), odd;
  V r = reduce(b, d_abs(b, x), c, &odd), rest = d_sub(b, c, r); /* compared, not used: rounding keeps the order */
  V up = p_or(b, d_gt(b, r, rest), p_and(b, d_eq(b, r, rest), odd));
  r = p_select(b, p_and(b, up, d_lt(b, c, D(__builtin_inf()))), d_sub(b, r, c), r);
  return without_value(b, x, y, l_xor(b, r, l_and(b, x, L(0x8000000000000000))));
}

static const MathRow rows[] = {{MATH_FMOD, DT_F64, fmod_f64, NULL, {0}},
                               {MATH_REMAINDER, DT_F64, remainder_f64, NULL, {0}}};
const MathTable math_mod_table = MATH_TABLE(rows);
