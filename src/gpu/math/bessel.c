/* math_bessel: Bessel functions of the first and second kind: j0, j1, jn, y0, y1, yn.
 *
 * x < 8: in pieces. Where a piece has a zero of the function, it is (x - zero) times a polynomial, with the zero in two
 * parts, so that the relative error stays small there too. Near 0, y0 and y1 have a logarithm:
 *
 *     y0(x) = 2/pi log(x) j0(x) + R(x^2)      y1(x) = 2/pi (log(x) j1(x) - 1/x) + x R(x^2)
 *
 * x >= 8 (Hankel's expansion; Abramowitz and Stegun 9.2.5): with u = (8/x)^2, P(u) and Q(u) smooth, c = x - (2n + 1)
 * pi/4,
 *
 *     jn(x) = sqrt(2 / (pi x)) (P cos c - 8/x Q sin c)      yn(x) = sqrt(2 / (pi x)) (P sin c + 8/x Q cos c)
 *
 * Other orders by the recurrence f(k+1) + f(k-1) = 2k/x f(k): upwards for yn and where x > n, else downwards from an
 * order so high that its start does not matter, scaled at the end by j0 or j1 (J. C. P. Miller, 1952).
 */
#include "gpu/math/math.h"

#define TWO_OVER_PI D(0x1.45f306dc9c883p-1)

/* clang-format off */
static const double p0_c[] = {
    1.0, -0.001098632812494752, 2.7380883423785546e-05, -2.18391413388024e-06, 3.6198304791533647e-07,
    -1.0208944961588338e-07,
    4.2641076319183384e-08, -2.2376085631386193e-08, 1.1946383289036755e-08, -5.249083410241657e-09,
      1.5391164294112025e-09,
    -2.154707074948913e-10,
};
/* clang-format on */
static const double q0_c[] = {
    -0.015624999999999983,   0.00014305114745552015, -6.930785904946485e-06, 8.238389645595343e-07,
    -1.815881065196136e-07,  6.378966200339755e-08,  -3.152649179710696e-08, 1.859002019174028e-08,
    -1.0661268752335269e-08, 4.8834240299804194e-09, -1.467625830951446e-09, 2.086506433725058e-10,
};
/* clang-format off */
static const double p1_c[] = {
    1.0, 0.0018310546874944309, -3.5203993034111695e-05, 2.580990094139189e-06, -4.1025169998098065e-07,
    1.1285265195179649e-07,
    -4.639283651608874e-08, 2.4108291515982094e-08, -1.280037190683688e-08, 5.607372313740608e-09,
    -1.6413717982304186e-09,
    2.295499895333318e-10,
};
/* clang-format on */
static const double q1_c[] = {
    0.04687499999999998,   -0.00020027160643957637, 8.470960596319016e-06,  -9.505839663446757e-07,
    2.029550601632856e-07, -6.987980687173063e-08,  3.408794629453517e-08,  -1.9939983579416034e-08,
    1.138378424259094e-08, -5.201319906198071e-09,  1.5609100882086921e-09, -2.2171620583151187e-10,
};
/* clang-format off */
static const double j0_small_c[] = {
    1.0, -0.25, 0.015624999999999997, -0.00043402777777773417, 6.7816840275739804e-06, -6.781683979948712e-08,
    4.709496557979034e-10,
    -2.402347750299631e-12, 9.206542425125787e-15,
};
/* clang-format on */
static const double j0_1_c[] = {
    -0.5191474972894667,    0.1079387017549201,     0.05660177443794623,    -0.008657669593304914,
    -0.002194200359016156,  0.0002643770367526986,  4.372919272906605e-05,  -4.338826288617594e-06,
    -5.304914383454956e-07, 4.470055863853216e-08,  4.326565163673233e-09,  -3.1666126659941324e-10,
    -2.533892793601097e-11, 1.6387167158059402e-12, 1.1169441935200722e-13, -6.470038818395638e-15,
    -3.825618517144458e-16, 2.002497518845017e-17,  8.339735800841075e-19,
};
static const double j0_2_c[] = {
    0.34026480655836816,    -0.030820651425593648,   -0.05298855286760463,    0.004631042145907645,
    0.0022574402290329,     -0.0001751857289941578,  -4.6521090739743055e-05, 3.199786906827602e-06,
    5.716490707922752e-07,  -3.5115359899651195e-08, -4.683396242623514e-09,  2.592209206283782e-10,
    2.7452533115471184e-11, -1.3805763350443442e-12, -1.209158426545053e-13,  5.566481900432786e-15,
    4.148027415495898e-16,  -1.7611015569379393e-17, -1.1108798966756486e-18, 4.5102050287567984e-20,
};
static const double j0_3_c[] = {
    -0.2714522999286483,     0.015684124957218673,   0.04403377493927315,   -0.002509302322504523,
    -0.002060335411886374,   0.00011243436834962698, 4.482231163718722e-05, -2.289184581584028e-06,
    -5.685996501127802e-07,  2.652392204778619e-08,  4.540359878633162e-09, -2.754226527124026e-10,
    -4.3522171791404135e-11, -1.009329035109941e-12,
};
/* clang-format off */
static const double j1_small_c[] = {
    0.5, -0.0625, 0.0026041666666666665, -5.42534722222215e-05, 6.781684027763692e-07, -5.651403355025388e-09,
    3.363930479753399e-11,
    -1.5017512685507403e-13, 5.213585643306239e-16, -1.4358605328387711e-18, 2.2323691649047314e-21,
    3.219332162305719e-23,
};
/* clang-format on */
static const double j1_1_c[] = {
    -0.402759395702553,      0.05255614585697724,    0.05341044413272481,    -0.00517971924563857,
    -0.002233125339147478,   0.00017466429072012055, 4.620870129745813e-05,  -3.0368633802997254e-06,
    -5.727805735133999e-07,  3.248286298200904e-08,  4.735380568461371e-09,  -2.362196186648231e-10,
    -2.7988764106456664e-11, 1.2462294974385395e-12, 1.2418496832033546e-13, -4.99309642483526e-15,
    -4.2873811020916463e-16, 1.5709453572934306e-17, 1.1530849755116749e-18, -3.845192820269277e-20,
};
static const double j1_2_c[] = {
    0.30011575252613254,    -0.02138921280934158,    -0.04697047894974149,    0.003130291726048091,
    0.0021055871432482764,  -0.00012550790955145587, -4.499147530293052e-05,  2.4015807963095383e-06,
    5.665270011543437e-07,  -2.7273427678745023e-08, -4.720483002785677e-09,  2.0653486908450042e-10,
    2.8005724834354526e-11, -1.1216396156776537e-12, -1.2445427255386823e-13, 4.592866495845944e-15,
    4.304028716924963e-16,  -1.481712918112454e-17,  -1.3322239682808634e-18,
};
static const double y0_small_c[] = {
    -0.07380429510868723,   0.17760601686906713,    -0.016073968025938426,  0.0005386026668616504,
    -9.495005205136904e-06, 1.0358475947606666e-07, -7.693031470895412e-10, 4.129365299086953e-12,
};
static const double y0_1_c[] = {
    1.0005057628090448, -0.6331756179513881, 0.4625956311725168,  -0.5801486733526505, 0.7052799329923697,
    -0.868943292299602, 1.1020593922241986,  -1.4266509768123665, 1.8759388361724503,  -2.4977175031308345,
    3.3595728076622673, -4.557051974121956,  6.225329501345305,   -8.55572684454625,   11.81993550357346,
    -16.41066135705672, 22.87220912154363,   -31.78999869317067,  44.46755257809925,   -66.28717703537478,
    95.11454889885245,  -88.00235754813245,  112.36567770002065,  -493.4638503515684,  742.0466861311837,
};
static const double y0_2_c[] = {
    0.6127862127832523,     -0.3550883886740619,     0.0479594161958283,     -0.023321995947482747,
    0.021444720867323158,   -0.011984041417660123,   0.0065354079998308735,  -0.0037504895476677316,
    0.002181362764515925,   -0.001278652744912493,   0.0007555688059781996,  -0.00044958927765871326,
    0.00026912337617716214, -0.00016192853821247254, 9.77973075066675e-05,   -5.9305009289705285e-05,
    3.643575427711855e-05,  -2.2381116107935117e-05, 1.2653475458839953e-05, -7.479540690431459e-06,
    6.925122552987532e-06,  -4.704757124891539e-06,  -3.819612810223818e-07, 6.093102485284784e-07,
    2.335933555177553e-06,  -1.5919386882101257e-06,
};
static const double y0_3_c[] = {
    -0.40733193387756883,   0.03802507631683254,    0.06058320627009488,     -0.005890748772992337,
    -0.0022795827715597692, 0.0001611982125190272,  5.45188566310856e-05,    -4.65267971339886e-06,
    -2.616259439117686e-07, -4.47967383574908e-08,  2.3919175925697615e-08,  -4.838443416852048e-09,
    1.081355126701959e-09,  -2.683561683500102e-10, 6.582141702350038e-11,   -1.606522291852686e-11,
    3.98773773723205e-12,   -9.887932338488932e-13, 2.203714803990532e-13,   -5.1879917113252095e-14,
    2.091494606073786e-14,  -5.800492458718627e-15, -3.2859187591729736e-16, 1.628709977705638e-16,
    1.8620295555529342e-16, -5.131066094891287e-17,
};
static const double y0_4_c[] = {
    0.30169255583006954,    0.011887992566659266,    -0.049850716779367046,   0.00027054014716073645,
    0.0023313330855298854,  -4.281051688279715e-05,  -5.040228444108965e-05,  1.0520883786498228e-06,
    6.434177727503743e-07,  -1.394898387069725e-08,  -5.345118838323703e-09,  1.0641518569273548e-10,
    3.2742398781840455e-11, -7.256346535995466e-13,  -1.2991268109255794e-13, 8.233100211999245e-16,
    7.88471426142074e-16,   -5.1861703496637754e-17,
};
static const double y1_small_c[] = {
    -0.19605709064623894,   0.05434868816051024,  -0.0029553053360798338, 7.164268749973888e-05,
    -9.926740619312196e-07, 8.93187952876961e-09, -5.647982510220305e-11, 2.639524319881517e-13,
};
static const double y1_1_c[] = {
    -0.8731265824563288, 0.9757689538089052, -0.6444975982066314, 0.8768604992074718,  -1.056104776181378,
    1.177347289353787,   -1.313555556520631, 1.4650012132777963,  -1.631576133218696,  1.8156829681008548,
    -2.0196463832008997, 2.245817403901447,  -2.4968029116606867, 2.776492089447007,   -3.0872452101122234,
    3.4150475447264017,  -3.781416640804428, 4.391053793358578,   -4.999747242781472,  4.034558997763197,
    -3.788761788796952,  12.56489486628626,  -16.5554048022771,   -11.398268799200908, 18.302330095581468,
    41.8768577882435,    -51.95167020259365,
};
static const double y1_2_c[] = {
    0.5082441161937304,      -0.1253952364615969,     -0.033893274415898136,  -0.001997124543343848,
    0.00623943921975141,     -0.002037067540693681,   0.0007610057769622792,  -0.0003508697087462428,
    0.0001560258566147868,   -6.806929825166625e-05,  2.9716100034933775e-05, -1.2968991354241392e-05,
    5.654906175294858e-06,   -2.4648420288150376e-06, 1.073908458419116e-06,  -4.660273008136665e-07,
    2.0233841786647466e-07,  -9.102480525657064e-08,  4.034485896312767e-08,  -1.373570834621276e-08,
    5.2961049984970495e-09,  -5.65855344350886e-09,   2.8675230550949894e-09, 6.665827108422618e-10,
    -4.3116281482227287e-10, -4.518156702984531e-10,  2.1822682020832237e-10,
};
static const double y1_3_c[] = {
    -0.34498933182063324,   -0.0032929390186213826,  0.05360585297794979,    -0.0011787568633510562,
    -0.0023288168831986835, 4.931365932905835e-05,   5.13426339459221e-05,   -1.3484456953607693e-06,
    -5.924186766337699e-07, 4.678591374094304e-09,   7.074683660184734e-09,  -4.513991623505029e-10,
    3.707467689373095e-11,  -1.3061157613207563e-11, 2.8401742659807034e-12, -5.352879618724383e-13,
    1.0320792321269809e-13, -2.0297248752164465e-14, 4.442854685537023e-15,  -9.01030487004655e-16,
    8.617392326149701e-17,  -1.3594089931394973e-17, 1.3389548662492772e-17, -2.8104905023648396e-18,
};
static const double y1_4_c[] = {
    -0.2664252328900259,     0.13993373328044456,    0.12142097151163753,    -0.027699813785885576,
    -0.008748199913329811,   0.0014727045791225082,  0.0002488488555270682,  -3.491678220049351e-05,
    -3.8752144424808024e-06, 4.7491941807035993e-07, 3.7895020397943235e-08, -4.149872289388315e-09,
    -2.599601928804733e-10,  2.597498084707204e-11,
};

/* A piece of the line: up to `end`, polynomial of x - center, times x - zero where there is one. */
typedef struct Piece {
  double end, center, zero, zero_low;
  int n;
  const double *c;
} Piece;
#define PIECE(end, center, zero, low, c) \
  { end, center, zero, low, COUNT(c), c }
static const Piece j0_pieces[] = {
    PIECE(4.0, 0x1.33d152e971b40p+1, 0x1.33d152e971b40p+1, -0x1.0f539d7da258ep-53, j0_1_c),
    PIECE(7.1, 0x1.6148f5b2c2e45p+2, 0x1.6148f5b2c2e45p+2, 0x1.75054cd60a517p-54, j0_2_c),
    PIECE(8.0, 0x1.14eb56cccdecap+3, 0x1.14eb56cccdecap+3, -0x1.51970714c7c25p-52, j0_3_c),
};
static const Piece j1_pieces[] = {
    PIECE(5.4, 0x1.ea75575af6f09p+1, 0x1.ea75575af6f09p+1, -0x1.60155a9d1b256p-53, j1_1_c),
    PIECE(8.0, 0x1.c0ff5f3b47250p+2, 0x1.c0ff5f3b47250p+2, -0x1.b226d9d243827p-54, j1_2_c),
};
static const Piece y0_pieces[] = {
    PIECE(0.9, 0.675, 0x1.c982eb8d417eap-1, 0x1.ea9d270347f83p-56, y0_1_c),
    PIECE(2.2, 1.55, 0x1.c982eb8d417eap-1, 0x1.ea9d270347f83p-56, y0_2_c),
    PIECE(5.5, 3.85, 0x1.fa9534d98569cp+1, -0x1.f06ae7804384ep-54, y0_3_c),
    PIECE(8.0, 6.75, 0x1.c581dc4e72103p+2, -0x1.9774a495f56cfp-54, y0_4_c),
};
static const Piece y1_pieces[] = {
    PIECE(1.3, 0.9, 0, 0, y1_1_c),
    PIECE(3.3, 2.3, 0x1.193bed4dff243p+1, -0x1.bd1e50d219bfdp-55, y1_2_c),
    PIECE(6.9, 5.1, 0x1.5b7fe4e87b02ep+2, 0x1.dfe7bac228e8cp-52, y1_3_c),
    PIECE(8.0, 7.45, 0, 0, y1_4_c),
};
static V pieces(B *b, V x, int n, const Piece *p) {
  LaneOp *here = n > 1 ? when(b, d_lt(b, x, D(p->end)), LT_B64) : NULL;
  V y = d_poly(b, d_sub(b, x, D(p->center)), p->n, p->c);
  if (p->zero != 0) y = d_mul(b, y, d_sub(b, d_sub(b, x, D(p->zero)), D(p->zero_low)));
  if (!here) return y;
  otherwise(b, here, y);
  return whichever(b, here, pieces(b, x, n - 1, p + 1));
}

/* sqrt(2 / (pi x)) (P f + 8/x Q g), f and g given without their factor sqrt(1/2). */
static V hankel(B *b, int n, V x, V f, V g) {
  V t = d_div(b, D(8), x), u = d_mul(b, t, t);
  V p = n ? D_POLY(u, p1_c) : D_POLY(u, p0_c), q = d_mul(b, t, n ? D_POLY(u, q1_c) : D_POLY(u, q0_c));
  return d_mul(b, d_fma(b, q, g, d_mul(b, p, f)), d_div(b, D(0x1.20dd750429b6dp-1), d_sqrt(b, x)));
}
static V far_bessel(B *b, bool second, int n, V x) {
  V s, c;
  d_sincos(b, x, &s, &c);
  V sum = d_add(b, c, s), difference = d_sub(b, s, c); /* sqrt 2 times cos and sin of x - pi/4 */
  V y;
  if (n == 0) y = second ? hankel(b, 0, x, difference, sum) : hankel(b, 0, x, sum, d_neg(b, difference));
  else y = second ? hankel(b, 1, x, d_neg(b, sum), difference) : hankel(b, 1, x, difference, sum);
  return p_select(b, d_eq(b, x, D(__builtin_inf())), D(0), y);
}

static V j0_small(B *b, V x) { return D_POLY(d_mul(b, x, x), j0_small_c); }
static V j1_small(B *b, V x) { return d_mul(b, x, D_POLY(d_mul(b, x, x), j1_small_c)); }
static V d_j0(B *b, V x) {
  V a = d_abs(b, x);
  LaneOp *far = when(b, d_ge(b, a, D(8)), LT_B64);
  V far_y = far_bessel(b, false, 0, a);
  otherwise(b, far, far_y);
  LaneOp *small = when(b, d_lt(b, a, D(1.2)), LT_B64);
  V small_y = j0_small(b, a);
  otherwise(b, small, small_y);
  return whichever(b, far, whichever(b, small, pieces(b, a, COUNT(j0_pieces), j0_pieces)));
}
static V d_j1(B *b, V x) {
  V a = d_abs(b, x);
  LaneOp *far = when(b, d_ge(b, a, D(8)), LT_B64);
  V far_y = far_bessel(b, false, 1, a);
  otherwise(b, far, far_y);
  LaneOp *small = when(b, d_lt(b, a, D(2.25)), LT_B64);
  V small_y = j1_small(b, a);
  otherwise(b, small, small_y);
  V y = whichever(b, far, whichever(b, small, pieces(b, a, COUNT(j1_pieces), j1_pieces)));
  return p_select(b, l_lt(b, x, L(0)), d_neg(b, y), y);
}
/* -inf at 0, NaN below. */
static V second_ends(B *b, V x, V y) {
  y = p_select(b, d_eq(b, x, D(0)), D(-__builtin_inf()), y);
  return p_select(b, d_lt(b, x, D(0)), D(__builtin_nan("")), y);
}
static V d_y0(B *b, V x) {
  LaneOp *far = when(b, d_ge(b, x, D(8)), LT_B64);
  V far_y = far_bessel(b, true, 0, x);
  otherwise(b, far, far_y);
  LaneOp *small = when(b, d_lt(b, x, D(0.45)), LT_B64);
  V small_y = d_fma(b, d_mul(b, TWO_OVER_PI, d_log(b, x)), j0_small(b, x), D_POLY(d_mul(b, x, x), y0_small_c));
  otherwise(b, small, small_y);
  return second_ends(b, x, whichever(b, far, whichever(b, small, pieces(b, x, COUNT(y0_pieces), y0_pieces))));
}
static V d_y1(B *b, V x) {
  LaneOp *far = when(b, d_ge(b, x, D(8)), LT_B64);
  V far_y = far_bessel(b, true, 1, x);
  otherwise(b, far, far_y);
  LaneOp *small = when(b, d_lt(b, x, D(0.5)), LT_B64);
  V inner = d_fma(b, d_log(b, x), j1_small(b, x), d_neg(b, d_rcp(b, x)));
  V small_y = d_fma(b, TWO_OVER_PI, inner, d_mul(b, x, D_POLY(d_mul(b, x, x), y1_small_c)));
  otherwise(b, small, small_y);
  return second_ends(b, x, whichever(b, far, whichever(b, small, pieces(b, x, COUNT(y1_pieces), y1_pieces))));
}
static V j0_f64(B *b, const V *in) { return d_j0(b, in[0]); }
static V j1_f64(B *b, const V *in) { return d_j1(b, in[0]); }
static V y0_f64(B *b, const V *in) { return d_y0(b, in[0]); }
static V y1_f64(B *b, const V *in) { return d_y1(b, in[0]); }

/* f(n) from f(0) and f(1): k, f(k - 1), f(k), until k is n or f is infinite. */
static V upwards(B *b, V n, V x, V f0, V f1, V runs) {
  V two_over_x = d_div(b, D(2), x);
  LaneOp *loop = lane_while(b, 3, (V[]){I(1), f0, f1});
  V *in = loop->body[0]->args;
  V goes = p_and(b, p_and(b, runs, i_lt(b, in[0], n)), d_lt(b, d_abs(b, in[2]), D(__builtin_inf())));
  lane_condition(b, goes, 3, in);
  lane_enter(b, loop, 1);
  in = loop->body[1]->args;
  V next = d_fma(b, d_mul(b, d_from_i(b, in[0]), two_over_x), in[2], d_neg(b, in[1]));
  lane_yield(b, 3, (V[]){i_add(b, in[0], I(1)), in[2], next});
  lane_leave(b, loop);
  return loop->out[2];
}
/* J_n for x <= n: from order m down to 0, where a start of 1 at m is forgotten on the way. Carried: k, f(k + 1), f(k),
 * f(n). */
static V downwards(B *b, V n, V x, V j0, V j1, V runs) {
  V extra = i_from_d(b, d_sqrt(b, d_mul(b, D(60), d_from_i(b, n))));
  V m = i_add(b, i_add(b, n, I(20)), extra), two_over_x = d_div(b, D(2), x);
  LaneOp *loop = lane_while(b, 4, (V[]){m, D(0), D(1), D(0)});
  V *in = loop->body[0]->args;
  lane_condition(b, p_and(b, runs, i_gt(b, in[0], I(0))), 4, in);
  lane_enter(b, loop, 1);
  in = loop->body[1]->args;
  V below = d_fma(b, d_mul(b, d_from_i(b, in[0]), two_over_x), in[2], d_neg(b, in[1])), k = i_sub(b, in[0], I(1));
  V scale = p_select(b, d_gt(b, d_abs(b, below), D(0x1p300)), D(0x1p-300), D(1));
  V here = d_mul(b, below, scale), above = d_mul(b, in[2], scale), kept = d_mul(b, in[3], scale);
  lane_yield(b, 4, (V[]){k, above, here, p_select(b, i_eq(b, k, n), here, kept)});
  lane_leave(b, loop);
  V f1 = loop->out[1], f0 = loop->out[2], first = d_gt(b, d_abs(b, j0), d_abs(b, j1));
  return d_mul(b, d_div(b, loop->out[3], p_select(b, first, f0, f1)), p_select(b, first, j0, j1));
}
static V jn_f64(B *b, const V *in) {
  V n = in[0], x = in[1], a = d_abs(b, x), order = d_from_i(b, n), higher = i_gt(b, n, I(1));
  V j0 = d_j0(b, a), j1 = d_j1(b, a), up = d_gt(b, a, order);
  V upper = upwards(b, n, a, j0, j1, p_and(b, higher, up));
  V runs = p_and(b, higher, p_and(b, d_le(b, a, order), d_gt(b, a, D(0x1p-250)))); /* nearer to 0 it is 0 */
  V lower = p_select(b, d_gt(b, a, D(0x1p-250)), downwards(b, n, a, j0, j1, runs), D(0));
  V y = p_select(b, up, upper, lower);
  y = p_select(b, i_eq(b, n, I(0)), j0, p_select(b, i_eq(b, n, I(1)), j1, y));
  y = p_select(b, d_eq(b, a, D(__builtin_inf())), D(0), y);
  V odd = i_ne(b, i_and(b, n, I(1)), I(0));
  y = p_select(b, p_and(b, odd, l_lt(b, x, L(0))), d_neg(b, y), y);
  return p_select(b, p_or(b, i_lt(b, n, I(0)), d_nan(b, x)), D(__builtin_nan("")), y);
}
static V yn_f64(B *b, const V *in) {
  V n = in[0], x = in[1], y0 = d_y0(b, x), y1 = d_y1(b, x);
  V runs = p_and(b, d_gt(b, x, D(0)), d_lt(b, x, D(__builtin_inf())));
  V y = upwards(b, n, x, y0, y1, runs);
  y = p_select(b, i_eq(b, n, I(0)), y0, y);
  return p_select(b, i_lt(b, n, I(0)), D(__builtin_nan("")), y);
}

#define ONE(FN, T, fn) \
  { \
    MATH_##FN, DT_##T, fn, NULL, { 0 } \
  }
static const MathRow rows[] = {
    ONE(J0, F64, j0_f64), ONE(J1, F64, j1_f64), ONE(JN, F64, jn_f64),
    ONE(Y0, F64, y0_f64), ONE(Y1, F64, y1_f64), ONE(YN, F64, yn_f64),
};
const MathTable math_bessel_table = MATH_TABLE(rows);
