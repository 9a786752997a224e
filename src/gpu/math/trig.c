/* math_trig: sin, cos, tan, and sin, cos of multiples of pi.
 *
 * x = q pi/2 + r with q whole and |r| <= pi/4; sin and cos of r are short polynomials, and q mod 4 says which of them,
 * with which sign.
 *
 * - |x| up to 105615: r = x - q c1 - q c2 - q c3, three fmas with pi/2 in three parts (Cody and Waite). The first is
 * exact: x and q c1 are multiples of 2^-24 (2^-53), the difference is below 1.
 * - beyond: Payne and Hanek (1983). x = M 2^s, and only a window of the bits of 2/pi matters: those above it give
 * multiples of 4 quarter turns, those below nothing. M times the window is taken in integers; its first two bits are q,
 * the rest is r. The window is chosen without memory: a shifter that moves the table's words left by 16, 8, 4, 2, 1
 * where the bit of the index says so.
 *
 * The second way is one branch for all elements of a call, taken by a warp in which any element is big. It is long, so
 * there it stands once, in a loop over the elements: each iteration takes the first of the values that the loop carries
 * and puts its result after the last.
 */
#include "gpu/math/math.h"

#define FAST_LIMIT 105615.0 /* 2/pi times it is below 2^17 */
#define ONE(FN, T, fn) \
  { \
    MATH_##FN, DT_##T, fn, NULL, { 0 } \
  }
#define ALL(FN, T, fn) \
  { \
    MATH_##FN, DT_##T, NULL, fn, { 0 } \
  }

/* 2/pi, bits from 2^-1 down. */
static const uint64_t two_over_pi[] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
                                       0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
                                       0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
                                       0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
                                       0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

/* words[0..3] become those at [index, index + 3]; `bit` is the index's highest possible. */
static void shift_window(B *b, V *words, int n, V index, int bit) {
  for (; bit >= 1; bit >>= 1) {
    V set = i_ne(b, i_and(b, index, I(bit)), I(0));
    for (int k = 0; k + bit < n && k < 4 + bit - 1; k++) words[k] = p_select(b, set, words[k + bit], words[k]);
  }
}

/* ---- all elements of a call -------------------------------------------------------------------------------------- */

typedef V (*Reduction)(B *b, V x, V *turns);
typedef struct Circle {
  V (*is_big)(B *b, V x);
  Reduction near, far;
  V (*finish)(B *b, V r, V turns);
} Circle;

static V by_either_way(B *b, const Circle *c, V x) {
  V near_turns, far_turns, near = c->near(b, x, &near_turns), far = c->far(b, x, &far_turns), big = c->is_big(b, x);
  return c->finish(b, p_select(b, big, far, near), p_select(b, big, far_turns, near_turns));
}
static void circle(B *b, const Circle *c, int n, const V *x, V *out) {
  LaneType *types = NEW_N(b->f->cx->arena, LaneType, n);
  V any = NULL, turns;
  for (int i = 0; i < n; i++) {
    V big = c->is_big(b, x[i]);
    any = any ? p_or(b, any, big) : big;
    types[i] = x[i]->type;
  }
  LaneOp *slow = lane_if(b, any, false, n, types);
  if (n == 1) lane_yield(b, 1, (V[]){by_either_way(b, c, x[0])});
  else {
    LaneOp *loop = lane_for(b, LK_S32, I(0), I(n), I(1), n, x);
    loop->unroll = 1;
    V *rest = NEW_N(b->f->cx->arena, V, n);
    memcpy(rest, loop->body[0]->args + 2, sizeof *rest * (size_t)(n - 1));
    rest[n - 1] = by_either_way(b, c, loop->body[0]->args[1]);
    lane_yield(b, n, rest);
    lane_leave(b, loop);
    lane_yield(b, n, loop->out);
  }
  lane_enter(b, slow, 1);
  for (int i = 0; i < n; i++) {
    V r = c->near(b, x[i], &turns);
    out[i] = c->finish(b, r, turns);
  }
  lane_yield(b, n, out);
  lane_leave(b, slow);
  for (int i = 0; i < n; i++) out[i] = slow->out[i];
}

/* ---- f32 --------------------------------------------------------------------------------------------------------- */

static V is_big_f32(B *b, V x) { return f_gt(b, f_abs(b, x), F((float)FAST_LIMIT)); }

/* quarter + q mod 4 in *q (its other bits are anything), and r. */
static V reduce_fast_f32(B *b, V x, int quarter, V *q) {
  float shift = 12582912.0f + (float)quarter; /* the sum's low bits are quarter + rint(2x/pi) */
  V sum = f_fma(b, x, F(0.636619772f), F(shift)), turns = f_sub(b, sum, F(shift));
  *q = sum;
  /* All three negative, so that -0 stays what it is. */
  V r = f_fma(b, turns, F(-0x1.921fb4p+0f), x);
  r = f_fma(b, turns, F(-0x1.4442d0p-24f), r);
  return f_fma(b, turns, F(-0x1.846988p-48f), r);
}
static V reduce_slow_f32(B *b, V x, int quarter, V *q) {
  V words[9] = {I(0)};
  for (int i = 0; i < 8; i++) words[i + 1] = I(two_over_pi[i / 2] >> (i % 2 ? 0 : 32));
  V place = i_sub(b, lane_bfe(b, LK_U32, x, 23, 8), I(120)); /* of the window's first bit: where M 2^s times it is 2 */
  shift_window(b, words, 9, u_shr(b, place, I(5)), 4);
  V window[3];
  for (int i = 0; i < 3; i++) window[i] = lane_3(b, LANE_FUNNEL, LK_B32, words[i + 1], words[i], place); /* left */
  V m = i_or(b, i_and(b, x, I(0x7fffff)), I(0x800000));
  V low = lane_2(b, LANE_MULWIDE, LK_U32, m, window[2]);
  V middle = l_add(b, lane_2(b, LANE_MULWIDE, LK_U32, m, window[1]), l_pack(b, l_high(b, low), I(0)));
  V high = i_add(b, i_mul(b, m, window[0]), l_high(b, middle));
  /* high:middle:low, of which the first two bits are whole. The rest is taken as signed: its first bit is half a turn
   * more. */
  V first = lane_3(b, LANE_FUNNEL, LK_B32, l_low(b, middle), high, I(2));
  V second = lane_3(b, LANE_FUNNEL, LK_B32, l_low(b, low), l_low(b, middle), I(2));
  V whole = i_add(b, u_shr(b, high, I(30)), u_shr(b, first, I(31)));
  V r = d_mul(b, lane_cvt(b, LK_S64, LK_F64, ROUND_RN, l_pack(b, second, first)), D(0x1.921fb54442d18p-64));
  V negative = i_lt(b, x, I(0));
  *q = i_add(b, p_select(b, negative, i_sub(b, I(0), whole), whole), I(quarter));
  V y = f_from_d(b, p_select(b, negative, d_neg(b, r), r));
  return p_select(b, f_eq(b, f_abs(b, x), F(__builtin_inff())), F(__builtin_nanf("")), y);
}
static V quarter_near(B *b, V x, V *q) { return reduce_fast_f32(b, x, 0, q); }
static V quarter_far(B *b, V x, V *q) { return reduce_slow_f32(b, x, 0, q); }

static const float sin_c[] = {-0.166666552f, 0.00833218731f, -0.000195178975f};        /* (sin(r)/r - 1) / r^2 */
static const float cos_c[] = {-0.5f, 0.0416666456f, -0.00138873095f, 2.44323273e-05f}; /* (cos(r) - 1) / r^2 */

/* sin(r + q pi/2): sin or cos of r; the second bit of q is the sign. */
static V sine_f32(B *b, V r, V q) {
  V z = f_mul(b, r, r);
  V s = f_fma(b, F_POLY(z, sin_c), f_fma(b, z, r, F(0)), r); /* + 0: r = -0 must not meet a +0 */
  V c = f_fma(b, F_POLY(z, cos_c), z, F(1));
  V y = p_select(b, i_ne(b, i_and(b, q, I(1)), I(0)), c, s);
  return i_xor(b, y, i_and(b, i_shl(b, q, I(30)), I(0x80000000u)));
}
/* sin and cos over half turns: x = h pi + r with |r| <= pi/2, and sin(x) = +-sin(r), where for cos h is whole and a
 * half. One polynomial where quarter turns need two: these are what kernels call most. */
/* (sin(r)/r - 1) / r^2; least error with its roundings */
static const float half_c[] = {-0.166666627f, 0.00833310001f, -0.000198103298f, 2.60508159e-06f};

static V sine_half(B *b, V r) {
  V z = f_mul(b, r, r);
  return f_fma(b, F_POLY(z, half_c), f_fma(b, z, r, F(0)), r); /* + 0: r = -0 must not meet a +0 */
}

/* The last bit of *sign is the sign. */
static V sine_near(B *b, V x, V *sign) {
  V sum = f_fma(b, x, F(0.318309886f), F(12582912.0f)), turns = f_sub(b, sum, F(12582912.0f));
  V r = f_fma(b, turns, F(-0x1.921fb4p+1f), x);
  r = f_fma(b, turns, F(-0x1.4442d0p-23f), r);
  *sign = sum;
  return f_fma(b, turns, F(-0x1.846988p-47f), r);
}
/* The last but one: x in quarter turns, rounded down and then to the next odd number. */
static V cosine_near(B *b, V x, V *sign) {
  V factors[] = {x, F(0.636619772f), F(12582914.0f)};
  V down = lane_op(b, (LaneOp){.code = LANE_FMA, .kind = LK_F32, .rounding = ROUND_RM, .buffer = -1}, 3, factors);
  V sum = i_or(b, down, I(1)), turns = f_sub(b, sum, F(12582914.0f));
  V r = f_fma(b, turns, F(-0x1.921fb4p+0f), x);
  r = f_fma(b, turns, F(-0x1.4442d0p-24f), r);
  *sign = sum;
  return f_fma(b, turns, F(-0x1.846988p-48f), r);
}
static V half_turn_far(B *b, V x, int quarter, V *q) {
  V r = reduce_slow_f32(b, x, quarter, q);
  /* cos(r) as a sine: at least 0.7 */
  return p_select(b, i_ne(b, i_and(b, *q, I(1)), I(0)), f_sub(b, F(1.57079637f), f_abs(b, r)), r);
}
static V sine_far(B *b, V x, V *sign) {
  V q, r = half_turn_far(b, x, 0, &q);
  *sign = u_shr(b, q, I(1));
  return r;
}
static V cosine_far(B *b, V x, V *sign) { return half_turn_far(b, x, 1, sign); }

static V sine_finish(B *b, V r, V sign) { return i_xor(b, sine_half(b, r), i_shl(b, sign, I(31))); }
static V cosine_finish(B *b, V r, V sign) {
  return i_xor(b, sine_half(b, r), i_and(b, i_shl(b, sign, I(30)), I(0x80000000u)));
}

static const float tan_c[] = {0.333331525f, 0.133389145f, 0.0534015261f, 0.0244656838f, 0.00306210807f, 0.00941986684f};
static V tan_finish_f32(B *b, V r, V q) {
  V z = f_mul(b, r, r), t = f_fma(b, f_mul(b, z, F_POLY(z, tan_c)), r, r);
  return p_select(b, i_ne(b, i_and(b, q, I(1)), I(0)), f_neg(b, f_rcp_approx(b, t)), t);
}

static const Circle sine_circle = {is_big_f32, sine_near, sine_far, sine_finish},
                    cosine_circle = {is_big_f32, cosine_near, cosine_far, cosine_finish},
                    tan_circle = {is_big_f32, quarter_near, quarter_far, tan_finish_f32};
static void sin_f32(B *b, int n, V *const *in, V *out) { circle(b, &sine_circle, n, in[0], out); }
static void cos_f32(B *b, int n, V *const *in, V *out) { circle(b, &cosine_circle, n, in[0], out); }
static void tan_f32(B *b, int n, V *const *in, V *out) { circle(b, &tan_circle, n, in[0], out); }

/* x modulo 2 is exact, and so is what remains of it over halves; then pi in two parts. */
static V turn_pi_f32(B *b, V x, int quarter, V *q) {
  float shift = 12582912.0f + (float)quarter;
  V t = f_fma(b, f_rint(b, f_mul(b, x, F(0.5f))), F(-2), x);
  V sum = f_fma(b, t, F(2), F(shift)), halves = f_sub(b, sum, F(shift));
  *q = sum;
  V r = f_fma(b, halves, F(-0.5f), t);
  return f_fma(b, r, F(3.14159274f), f_mul(b, r, F(-8.74227766e-08f)));
}
static V sinpi_f32(B *b, const V *in) {
  V q, r = turn_pi_f32(b, in[0], 0, &q), y = sine_f32(b, r, q);
  return p_select(b, f_eq(b, y, F(0)), f_copysign(b, F(0), in[0]), y);
}
static V cospi_f32(B *b, const V *in) {
  V q, r = turn_pi_f32(b, in[0], 1, &q), y = sine_f32(b, r, q);
  return p_select(b, f_eq(b, y, F(0)), F(0), y);
}

/* ---- f64 --------------------------------------------------------------------------------------------------------- */

static V reduce_fast_f64(B *b, V x, V *q) {
  V sum = d_fma(b, x, D(0x1.45f306dc9c883p-1), D(0x1.8p52)), turns = d_sub(b, sum, D(0x1.8p52));
  *q = l_low(b, sum);
  V r = d_fma(b, turns, D(-0x1.921fb54442d18p+0), x);
  r = d_fma(b, turns, D(-0x1.1a62633145c06p-54), r);
  return d_fma(b, turns, D(-0x1.c1cd129024e08p-107), r);
}
static V mul_high(B *b, V x, V y) { return lane_2(b, LANE_MULHI, LK_U64, x, y); }
static V mul_low(B *b, V x, V y) { return lane_2(b, LANE_MUL, LK_U64, x, y); }
static V carry(B *b, V sum, V term) { /* out of sum = something + term */
  return p_select(b, lane_setp(b, CMP_LT, LK_U64, sum, term), L(1), L(0));
}
static V reduce_slow_f64(B *b, V x, V *q) {
  V words[20] = {L(0)};
  for (int i = 0; i < 19; i++) words[i + 1] = L(two_over_pi[i]);
  V high = l_high(b, x), place = i_sub(b, lane_bfe(b, LK_U32, high, 20, 11), I(1013));
  shift_window(b, words, 20, u_shr(b, place, I(6)), 16);
  V left = i_and(b, place, I(63)), right = i_sub(b, I(64), left), window[3];
  for (int i = 0; i < 3; i++) window[i] = l_or(b, l_shl(b, words[i], left), l_shr(b, words[i + 1], right));
  V m = l_or(b, l_and(b, x, L(0xfffffffffffff)), L(0x10000000000000));
  V low = mul_low(b, m, window[2]), t = mul_high(b, m, window[2]);
  V middle = l_add(b, mul_low(b, m, window[1]), t);
  V top = l_add(b, l_add(b, mul_low(b, m, window[0]), mul_high(b, m, window[1])), carry(b, middle, t));
  V first = l_or(b, l_shl(b, top, I(2)), l_shr(b, middle, I(62))),
    second = l_or(b, l_shl(b, middle, I(2)), l_shr(b, low, I(62)));
  V past_half = l_lt(b, first, L(0));
  V whole = i_add(b, u_shr(b, l_high(b, top), I(30)), p_select(b, past_half, I(1), I(0)));
  first = p_select(b, past_half, l_xor(b, first, L(-1)), first);
  second = p_select(b, past_half, l_xor(b, second, L(-1)), second);
  /* The first bits may be zeros, 60 of them at worst. A double of 53 of the rest, and what it leaves. */
  V zeros = lane_1(b, LANE_CLZ, LK_B64, first);
  first = l_or(b, l_shl(b, first, zeros), l_shr(b, second, i_sub(b, I(64), zeros)));
  V a = lane_cvt(b, LK_U64, LK_F64, ROUND_RZ, first);
  V rest = lane_cvt(b, LK_S64, LK_F64, ROUND_RN, l_sub(b, first, lane_cvt(b, LK_F64, LK_U64, ROUND_RZ, a)));
  DD r = dd_product(b, a, D(0x1.921fb54442d18p+0));
  V tail = d_fma(b, a, D(0x1.1a62633145c07p-54), d_fma(b, rest, D(0x1.921fb54442d18p+0), r.lo));
  V y = d_mul(b, d_add(b, r.hi, tail), d_pow2(b, i_sub(b, I(-64), zeros)));
  V negative = i_lt(b, high, I(0));
  *q = p_select(b, negative, i_sub(b, I(0), whole), whole);
  y = p_select(b, p_xor(b, negative, past_half), d_neg(b, y), y);
  return p_select(b, d_eq(b, d_abs(b, x), D(__builtin_inf())), D(__builtin_nan("")), y);
}
static V is_big_f64(B *b, V x) { return d_gt(b, d_abs(b, x), D(FAST_LIMIT)); }

static const double sin64_c[] = {-0.16666666666666666,   0.008333333333333042,    -0.00019841269840962475,
                                 2.7557319073985213e-06, -2.5052070921829183e-08, 1.605431052889121e-10,
                                 -7.389322058587221e-13};
static const double cos64_c[] = {-0.5,
                                 0.0416666666666666,
                                 -0.0013888888888874463,
                                 2.4801587289659302e-05,
                                 -2.7557314396138726e-07,
                                 2.087572844999798e-09,
                                 -1.1359882959954554e-11};
static V sine_f64(B *b, V r, V q) {
  V z = d_mul(b, r, r);
  V s = d_fma(b, D_POLY(z, sin64_c), d_fma(b, z, r, D(0)), r);
  V c = d_fma(b, D_POLY(z, cos64_c), z, D(1));
  V y = p_select(b, i_ne(b, i_and(b, q, I(1)), I(0)), c, s);
  return p_select(b, i_ne(b, i_and(b, q, I(2)), I(0)), d_neg(b, y), y);
}
static V cosine_f64(B *b, V r, V q) { return sine_f64(b, r, i_add(b, q, I(1))); }

static const Circle sine64_circle = {is_big_f64, reduce_fast_f64, reduce_slow_f64, sine_f64},
                    cosine64_circle = {is_big_f64, reduce_fast_f64, reduce_slow_f64, cosine_f64};
static void sin_f64(B *b, int n, V *const *in, V *out) { circle(b, &sine64_circle, n, in[0], out); }
static void cos_f64(B *b, int n, V *const *in, V *out) { circle(b, &cosine64_circle, n, in[0], out); }

void d_sincos(B *b, V x, V *sine, V *cosine) {
  V turns, near = reduce_fast_f64(b, x, &turns);
  LaneOp *slow = lane_if(b, is_big_f64(b, x), false, 2, (LaneType[]){LT_B64, LT_B32});
  V far_turns, far = reduce_slow_f64(b, x, &far_turns);
  lane_yield(b, 2, (V[]){far, far_turns});
  lane_enter(b, slow, 1);
  lane_yield(b, 2, (V[]){near, turns});
  lane_leave(b, slow);
  *sine = sine_f64(b, slow->out[0], slow->out[1]);
  *cosine = cosine_f64(b, slow->out[0], slow->out[1]);
}

static const double tan64_c[] = {0.3333333333333338,    0.13333333333325342,     0.053968253972903155,
                                 0.02186948839932315,   0.008863237922031815,    0.00359210088875983,
                                 0.00145604546131223,   0.0005888651365193868,   0.0002437488604320621,
                                 8.356502967346818e-05, 6.720984487572494e-05,   -2.5617010090630716e-05,
                                 4.862033874233689e-05, -2.4265262256999123e-05, 9.79687389125505e-06};
static V tan_finish_f64(B *b, V r, V q) {
  V z = d_mul(b, r, r), t = d_fma(b, d_mul(b, z, D_POLY(z, tan64_c)), r, r);
  return p_select(b, i_ne(b, i_and(b, q, I(1)), I(0)), d_neg(b, d_rcp(b, t)), t);
}
static const Circle tan64_circle = {is_big_f64, reduce_fast_f64, reduce_slow_f64, tan_finish_f64};
static void tan_f64(B *b, int n, V *const *in, V *out) { circle(b, &tan64_circle, n, in[0], out); }

static V turn_pi_f64(B *b, V x, V *q) {
  V t = d_fma(b, d_rint(b, d_mul(b, x, D(0.5))), D(-2), x);
  V sum = d_fma(b, t, D(2), D(0x1.8p52)), halves = d_sub(b, sum, D(0x1.8p52));
  *q = l_low(b, sum);
  V r = d_fma(b, halves, D(-0.5), t);
  return d_fma(b, r, D(0x1.921fb54442d18p+1), d_mul(b, r, D(0x1.1a62633145c07p-53)));
}
static V sinpi_f64(B *b, const V *in) {
  V q, r = turn_pi_f64(b, in[0], &q), y = sine_f64(b, r, q);
  return p_select(b, d_eq(b, y, D(0)), d_copysign(b, D(0), in[0]), y);
}
static V cospi_f64(B *b, const V *in) {
  V q, r = turn_pi_f64(b, in[0], &q), y = sine_f64(b, r, i_add(b, q, I(1)));
  return p_select(b, d_eq(b, y, D(0)), D(0), y);
}
V d_sinpi(B *b, V x) { return sinpi_f64(b, &x); }

static const MathRow rows[] = {
    ALL(SIN, F32, sin_f32),     ALL(SIN, F64, sin_f64),     ALL(COS, F32, cos_f32),     ALL(COS, F64, cos_f64),
    ALL(TAN, F32, tan_f32),     ALL(TAN, F64, tan_f64),     ONE(SINPI, F32, sinpi_f32), ONE(SINPI, F64, sinpi_f64),
    ONE(COSPI, F32, cospi_f32), ONE(COSPI, F64, cospi_f64),
};
const MathTable math_trig_table = MATH_TABLE(rows);
