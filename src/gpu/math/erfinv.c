/* math_erfinv: erfinv, erfcinv, normcdfinv.
 *
 *     erfinv(x) = x P(w),   w = -log((1 - x)(1 + x))
 *
 * where P is smooth: a polynomial of w near 0, of sqrt(w) beyond (M. Giles, Approximating the erfinv function, GPU
 * Computing Gems 2, 2012). erfcinv(z) is the same at 1 - z with w = -log(z (2 - z)), which keeps its places for small
 * z.
 */
#include "gpu/math/math.h"

/* P around w = 3.125, w <= 6.25; then around sqrt(w) = 3.25, 6, 17.5 for sqrt(w) up to 4, 8, 27.4. */
static const double p1_c[] = {
    1.6536545626831027,      0.24015818242558837,    -0.006033670871427754,   -0.0007407025341547963,
    0.00018673420802425497,  -1.388252339353836e-05, -1.3654691844306423e-06, 4.234788162952502e-07,
    -2.9070382779760778e-08, -4.112660070174022e-09, 1.0512184013915913e-09,  -5.4143188575873144e-11,
    -1.2976959348459127e-11, 2.6305691848786034e-12, -8.116985113167206e-14,  -4.002756810997783e-14,
    6.594667343303845e-15,   -3.852868956454667e-17, -1.300363209396524e-16,  1.5447345793452733e-17,
    1.1442827308141082e-18,  -3.447233909216138e-19, -1.006505965801969e-21,  3.1468508910201856e-21,
};
static const double p2_c[] = {
    3.0838856104922208,     1.0052589676941655,     0.005370914553571336,   -0.0037512085082331125,
    0.002491442096997999,   -0.0016882755351868917, 0.0009532893634485387,  -0.0003550378175086504,
    2.4031259696444092e-05, 6.828714606040194e-05,  -4.731899779594562e-05, 1.2464898561077795e-05,
    2.925770136267195e-06,  -3.985351470715998e-06, 1.4986416592947865e-06, -2.8193109955235343e-08,
    -2.712779518417855e-07, 1.3209844561870108e-07, 6.706145019569688e-10,  -1.5496917025764353e-08,
};
static const double p3_c[] = {
    5.859913143946245,      1.0096051220994091,      -0.00047283995790129953, -4.2924977692598136e-05,
    2.157855766029315e-05,  -5.356381005036277e-06,  1.1055941567087512e-06,  -2.0888030390891235e-07,
    3.738581855693183e-08,  -6.442243783600603e-09,  1.079837520493772e-09,   -1.7892793077692154e-10,
    3.1367213551933166e-11, -6.921293162751979e-12,  1.998261188419951e-12,   -8.106859066573001e-13,
    5.354010583351163e-13,  -2.7535966182474083e-13, 6.484003691221858e-14,   -1.1617741007975257e-14,
    1.2911213285202118e-14, -5.993070153407374e-15,  1.515544562702791e-16,   4.479701766265035e-16,
    -7.619284731849095e-17,
};
static const double p4_c[] = {
    17.421579490534313,      1.0028546550902138,      -0.00011681283318446241, 4.915723592717207e-06,
    -2.0567617412037865e-07, 8.322211499572491e-09,   -3.1265040420948106e-10, 9.9174211390508e-12,
    -1.7143489168308732e-13, -1.0134788418690634e-14, 1.5951479055065176e-15,  -1.4316218299423683e-16,
    1.0804299633156667e-17,  -7.580818797829974e-19,  5.268922537962655e-20,   -3.316713472515647e-21,
    1.5197749533769773e-22,  -1.1141106138635774e-23, 1.7248856902688624e-24,  -7.87926925336061e-26,
    -8.681472255101802e-27,  2.588573990842861e-28,   1.0309723430333004e-28,  -4.374724990390313e-30,
    -4.290698961535422e-31,  1.8544024464273713e-32,  1.2616249187678116e-33,  -6.196390855671753e-35,
};

static V p_of(B *b, V w) {
  LaneOp *middle = when(b, d_le(b, w, D(6.25)), LT_B64);
  V p1 = D_POLY(d_sub(b, w, D(3.125)), p1_c);
  otherwise(b, middle, p1);
  V s = d_sqrt(b, w);
  LaneOp *outer = when(b, d_le(b, s, D(4)), LT_B64);
  V p2 = D_POLY(d_sub(b, s, D(3.25)), p2_c);
  otherwise(b, outer, p2);
  LaneOp *tail = when(b, d_le(b, s, D(8)), LT_B64);
  V p3 = D_POLY(d_sub(b, s, D(6)), p3_c);
  otherwise(b, tail, p3);
  V rest = whichever(b, tail, D_POLY(d_sub(b, s, D(17.5)), p4_c));
  return whichever(b, middle, whichever(b, outer, rest));
}

static V erfinv_f64(B *b, const V *in) {
  V x = in[0], a = d_abs(b, x);
  V y = d_mul(b, x, p_of(b, d_neg(b, d_log(b, d_fma(b, d_neg(b, a), a, D(1))))));
  y = p_select(b, d_eq(b, a, D(1)), d_copysign(b, D(__builtin_inf()), x), y);
  return p_select(b, d_le(b, a, D(1)), y, D(__builtin_nan("")));
}
static V erfcinv(B *b, V z) {
  V y = d_mul(b, d_sub(b, D(1), z), p_of(b, d_neg(b, d_log(b, d_fma(b, d_neg(b, z), z, d_add(b, z, z))))));
  y = p_select(b, d_eq(b, z, D(0)), D(__builtin_inf()), y);
  y = p_select(b, d_eq(b, z, D(2)), D(-__builtin_inf()), y);
  return p_select(b, p_and(b, d_ge(b, z, D(0)), d_le(b, z, D(2))), y, D(__builtin_nan("")));
}
static V erfcinv_f64(B *b, const V *in) { return erfcinv(b, in[0]); }
static V normcdfinv_f64(B *b, const V *in) {
  return d_mul(b, erfcinv(b, d_add(b, in[0], in[0])), D(-0x1.6a09e667f3bcdp+0));
}

#define ONE(FN, T, fn) \
  { \
    MATH_##FN, DT_##T, fn, NULL, { 0 } \
  }
static const MathRow rows[] = {ONE(ERFINV, F64, erfinv_f64), ONE(ERFCINV, F64, erfcinv_f64),
                               ONE(NORMCDFINV, F64, normcdfinv_f64)};
const MathTable math_erfinv_table = MATH_TABLE(rows);
