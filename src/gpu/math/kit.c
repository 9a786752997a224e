/* math_kit: the words in which math_*.c is written: arithmetic by type, branches, and numbers in two parts. See math.h.
 */
#include "gpu/math/math.h"

static V make1(B *b, LaneOp op, V x) { return lane_op(b, op, 1, (V[]){x}); }
static V make2(B *b, LaneOp op, V x, V y) { return lane_op(b, op, 2, (V[]){x, y}); }
static V make3(B *b, LaneOp op, V x, V y, V z) { return lane_op(b, op, 3, (V[]){x, y, z}); }
#define OP(c, k, ...) \
  (LaneOp) { .code = LANE_##c, .kind = LK_##k, .buffer = -1, __VA_ARGS__ }
#define RN .rounding = ROUND_RN, .exact = 1

/* ---- f32 --------------------------------------------------------------------------------------------------------- */

V f_add(B *b, V x, V y) { return make2(b, OP(ADD, F32, RN), x, y); }
V f_add_rz(B *b, V x, V y) { return make2(b, OP(ADD, F32, .rounding = ROUND_RZ, .exact = 1), x, y); }
V f_sub(B *b, V x, V y) { return make2(b, OP(SUB, F32, RN), x, y); }
V f_mul(B *b, V x, V y) { return make2(b, OP(MUL, F32, RN), x, y); }
V f_fma(B *b, V x, V y, V z) { return make3(b, OP(FMA, F32, .rounding = ROUND_RN), x, y, z); }
V f_neg(B *b, V x) { return make1(b, OP(NEG, F32, 0), x); }
V f_abs(B *b, V x) { return make1(b, OP(ABS, F32, 0), x); }
V f_copysign(B *b, V magnitude, V sign) { return make2(b, OP(COPYSIGN, F32, 0), sign, magnitude); }
V f_max(B *b, V x, V y) { return make2(b, OP(MAX, F32, 0), x, y); }
V f_min(B *b, V x, V y) { return make2(b, OP(MIN, F32, 0), x, y); }
V f_rint(B *b, V x) { return make1(b, OP(ROUND, F32, .rounding = ROUND_RN), x); }
V f_trunc(B *b, V x) { return make1(b, OP(ROUND, F32, .rounding = ROUND_RZ), x); }
V f_sqrt(B *b, V x) { return make1(b, OP(SQRT, F32, .rounding = ROUND_RN), x); }
V f_div(B *b, V x, V y) { return make2(b, OP(DIV, F32, .rounding = ROUND_RN), x, y); }
V f_rcp_approx(B *b, V x) { return make1(b, OP(RCP, F32, .approx = 1, .ftz = 1), x); }
V f_ex2_approx(B *b, V x) { return make1(b, OP(EX2, F32, .ftz = 1), x); }
V f_lg2_approx(B *b, V x) { return make1(b, OP(LG2, F32, .ftz = 1), x); }
V f_sat(B *b, V x) { return make1(b, OP(CVT, F32, .to = LK_F32, .sat = 1), x); }
V f_poly(B *b, V x, int n, const float *c) {
  V y = F(c[n - 1]);
  for (int i = n - 2; i >= 0; i--) y = f_fma(b, y, x, F(c[i]));
  return y;
}
V f_lt(B *b, V x, V y) { return lane_setp(b, CMP_LT, LK_F32, x, y); }
V f_le(B *b, V x, V y) { return lane_setp(b, CMP_LE, LK_F32, x, y); }
V f_gt(B *b, V x, V y) { return lane_setp(b, CMP_GT, LK_F32, x, y); }
V f_ge(B *b, V x, V y) { return lane_setp(b, CMP_GE, LK_F32, x, y); }
V f_eq(B *b, V x, V y) { return lane_setp(b, CMP_EQ, LK_F32, x, y); }
V f_ne(B *b, V x, V y) { return lane_setp(b, CMP_NE, LK_F32, x, y); }
V f_nan(B *b, V x) { return f_ne(b, x, x); }

/* ---- f64 --------------------------------------------------------------------------------------------------------- */

V d_add(B *b, V x, V y) { return make2(b, OP(ADD, F64, RN), x, y); }
V d_add_rz(B *b, V x, V y) { return make2(b, OP(ADD, F64, .rounding = ROUND_RZ, .exact = 1), x, y); }
V d_sub(B *b, V x, V y) { return make2(b, OP(SUB, F64, RN), x, y); }
V d_mul(B *b, V x, V y) { return make2(b, OP(MUL, F64, RN), x, y); }
V d_fma(B *b, V x, V y, V z) { return make3(b, OP(FMA, F64, .rounding = ROUND_RN), x, y, z); }
V d_neg(B *b, V x) { return make1(b, OP(NEG, F64, 0), x); }
V d_abs(B *b, V x) { return make1(b, OP(ABS, F64, 0), x); }
V d_copysign(B *b, V magnitude, V sign) { return make2(b, OP(COPYSIGN, F64, 0), sign, magnitude); }
V d_max(B *b, V x, V y) { return make2(b, OP(MAX, F64, 0), x, y); }
V d_min(B *b, V x, V y) { return make2(b, OP(MIN, F64, 0), x, y); }
V d_rint(B *b, V x) { return make1(b, OP(ROUND, F64, .rounding = ROUND_RN), x); }
V d_trunc(B *b, V x) { return make1(b, OP(ROUND, F64, .rounding = ROUND_RZ), x); }
V d_floor(B *b, V x) { return make1(b, OP(ROUND, F64, .rounding = ROUND_RM), x); }
V d_sqrt(B *b, V x) { return make1(b, OP(SQRT, F64, .rounding = ROUND_RN), x); }
V d_div(B *b, V x, V y) { return make2(b, OP(DIV, F64, .rounding = ROUND_RN), x, y); }
V d_rcp(B *b, V x) { return make1(b, OP(RCP, F64, .rounding = ROUND_RN), x); }
V d_poly(B *b, V x, int n, const double *c) {
  V y = D(c[n - 1]);
  for (int i = n - 2; i >= 0; i--) y = d_fma(b, y, x, D(c[i]));
  return y;
}
V d_lt(B *b, V x, V y) { return lane_setp(b, CMP_LT, LK_F64, x, y); }
V d_le(B *b, V x, V y) { return lane_setp(b, CMP_LE, LK_F64, x, y); }
V d_gt(B *b, V x, V y) { return lane_setp(b, CMP_GT, LK_F64, x, y); }
V d_ge(B *b, V x, V y) { return lane_setp(b, CMP_GE, LK_F64, x, y); }
V d_eq(B *b, V x, V y) { return lane_setp(b, CMP_EQ, LK_F64, x, y); }
V d_ne(B *b, V x, V y) { return lane_setp(b, CMP_NE, LK_F64, x, y); }
V d_nan(B *b, V x) { return d_ne(b, x, x); }
V d_pow2(B *b, V n) { return l_pack(b, I(0), i_shl(b, i_add(b, n, I(1023)), I(20))); }
V d_scale(B *b, V x, V n) {
  /* In three factors, the first two of which are exact as long as the third is not: they go the same way. */
  n = i_max(b, i_min(b, n, I(3000)), I(-3000));
  V third = i_max(b, i_min(b, n, I(1000)), I(-1000)), rest = i_sub(b, n, third);
  V second = i_max(b, i_min(b, rest, I(1000)), I(-1000)), first = i_sub(b, rest, second);
  return d_mul(b, d_mul(b, d_mul(b, x, d_pow2(b, first)), d_pow2(b, second)), d_pow2(b, third));
}
V d_is_odd(B *b, V x) { /* x/2 is no whole number, x is */
  V half = d_mul(b, x, D(0.5));
  return p_and(b, d_ne(b, d_trunc(b, half), half), d_eq(b, d_trunc(b, x), x));
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */

V i_add(B *b, V x, V y) { return make2(b, OP(ADD, S32, 0), x, y); }
V i_sub(B *b, V x, V y) { return make2(b, OP(SUB, S32, 0), x, y); }
V i_mul(B *b, V x, V y) { return make2(b, OP(MUL, S32, 0), x, y); }
V i_and(B *b, V x, V y) { return make2(b, OP(AND, B32, 0), x, y); }
V i_or(B *b, V x, V y) { return make2(b, OP(OR, B32, 0), x, y); }
V i_xor(B *b, V x, V y) { return make2(b, OP(XOR, B32, 0), x, y); }
V i_shl(B *b, V x, V n) { return make2(b, OP(SHL, B32, 0), x, n); }
V i_shr(B *b, V x, V n) { return make2(b, OP(SHR, S32, 0), x, n); }
V u_shr(B *b, V x, V n) { return make2(b, OP(SHR, U32, 0), x, n); }
V i_min(B *b, V x, V y) { return make2(b, OP(MIN, S32, 0), x, y); }
V i_max(B *b, V x, V y) { return make2(b, OP(MAX, S32, 0), x, y); }
V i_lt(B *b, V x, V y) { return lane_setp(b, CMP_LT, LK_S32, x, y); }
V i_gt(B *b, V x, V y) { return lane_setp(b, CMP_GT, LK_S32, x, y); }
V i_eq(B *b, V x, V y) { return lane_setp(b, CMP_EQ, LK_S32, x, y); }
V i_ne(B *b, V x, V y) { return lane_setp(b, CMP_NE, LK_S32, x, y); }
V u_lt(B *b, V x, V y) { return lane_setp(b, CMP_LT, LK_U32, x, y); }
V u_ge(B *b, V x, V y) { return lane_setp(b, CMP_GE, LK_U32, x, y); }

V l_add(B *b, V x, V y) { return make2(b, OP(ADD, S64, 0), x, y); }
V l_sub(B *b, V x, V y) { return make2(b, OP(SUB, S64, 0), x, y); }
V l_and(B *b, V x, V y) { return make2(b, OP(AND, B64, 0), x, y); }
V l_or(B *b, V x, V y) { return make2(b, OP(OR, B64, 0), x, y); }
V l_xor(B *b, V x, V y) { return make2(b, OP(XOR, B64, 0), x, y); }
V l_shl(B *b, V x, V n) { return make2(b, OP(SHL, B64, 0), x, n); }
V l_shr(B *b, V x, V n) { return make2(b, OP(SHR, U64, 0), x, n); }
V l_eq(B *b, V x, V y) { return lane_setp(b, CMP_EQ, LK_S64, x, y); }
V l_lt(B *b, V x, V y) { return lane_setp(b, CMP_LT, LK_S64, x, y); }
V l_high(B *b, V x) {
  V low, high;
  lane_unpack(b, x, &low, &high);
  return high;
}
V l_low(B *b, V x) {
  V low, high;
  lane_unpack(b, x, &low, &high);
  return low;
}
V l_pack(B *b, V low, V high) { return lane_pack(b, low, high); }

V p_and(B *b, V p, V q) { return make2(b, OP(AND, PRED, 0), p, q); }
V p_or(B *b, V p, V q) { return make2(b, OP(OR, PRED, 0), p, q); }
V p_xor(B *b, V p, V q) { return make2(b, OP(XOR, PRED, 0), p, q); }
V p_not(B *b, V p) { return make1(b, OP(NOT, PRED, 0), p); }
V p_select(B *b, V p, V x, V y) { return lane_select(b, p, x, y); }

V f_from_d(B *b, V x) { return lane_cvt(b, LK_F64, LK_F32, ROUND_RN, x); }
V d_from_f(B *b, V x) { return lane_cvt(b, LK_F32, LK_F64, ROUND_DEFAULT, x); }
V f_from_i(B *b, V x) { return lane_cvt(b, LK_S32, LK_F32, ROUND_RN, x); }
V d_from_i(B *b, V x) { return lane_cvt(b, LK_S32, LK_F64, ROUND_DEFAULT, x); }
V i_from_d(B *b, V x) { return lane_cvt(b, LK_F64, LK_S32, ROUND_RN, x); }

/* ---- branches ---------------------------------------------------------------------------------------------------- */

LaneOp *when(B *b, V p, LaneType t) { return lane_if(b, p, false, 1, &t); }
void otherwise(B *b, LaneOp *op, V value) {
  lane_yield(b, 1, &value);
  lane_enter(b, op, 1);
}
V whichever(B *b, LaneOp *op, V value) {
  lane_yield(b, 1, &value);
  lane_leave(b, op);
  return op->out[0];
}

/* ---- two parts --------------------------------------------------------------------------------------------------- */

DD dd_sum(B *b, V x, V y) {
  V s = d_add(b, x, y), y2 = d_sub(b, s, x), x2 = d_sub(b, s, y2);
  return (DD){s, d_add(b, d_sub(b, x, x2), d_sub(b, y, y2))};
}
DD dd_fast_sum(B *b, V x, V y) {
  V s = d_add(b, x, y);
  return (DD){s, d_sub(b, y, d_sub(b, s, x))};
}
DD dd_product(B *b, V x, V y) {
  V p = d_mul(b, x, y);
  return (DD){p, d_fma(b, x, y, d_neg(b, p))};
}
DD dd_add(B *b, DD x, DD y) {
  DD high = dd_sum(b, x.hi, y.hi), low = dd_sum(b, x.lo, y.lo);
  DD t = dd_fast_sum(b, high.hi, d_add(b, high.lo, low.hi));
  return dd_fast_sum(b, t.hi, d_add(b, t.lo, low.lo));
}
DD dd_add1(B *b, DD x, V y) {
  DD s = dd_sum(b, x.hi, y);
  return dd_fast_sum(b, s.hi, d_add(b, s.lo, x.lo));
}
DD dd_mul(B *b, DD x, DD y) {
  DD p = dd_product(b, x.hi, y.hi);
  V cross = d_fma(b, x.hi, y.lo, d_mul(b, x.lo, y.hi));
  return dd_fast_sum(b, p.hi, d_add(b, p.lo, cross));
}
DD dd_mul1(B *b, DD x, V y) {
  DD p = dd_product(b, x.hi, y);
  return dd_fast_sum(b, p.hi, d_fma(b, x.lo, y, p.lo));
}
DD dd_const(B *b, double hi, double lo) { return (DD){D(hi), D(lo)}; }
DD dd_neg(B *b, DD x) { return (DD){d_neg(b, x.hi), d_neg(b, x.lo)}; }
