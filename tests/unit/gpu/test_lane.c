/* Tests of the lane IR's builder, folding, text, verifier and sweeping, through lane.h. What operations mean:
 * test_lane_sim.c. */
#include "unit/gpu/test_lane_kit.h"

#include <math.h>

static char *to_text(Context *cx, const LaneFunc *f) {
  Buf b = {0};
  lane_print(&b, f, false);
  assert_false(b.failed);
  char *text = arena_strdup(cx->arena, b.at);
  buf_destroy(&b);
  return text;
}

static LaneFunc *parse(Context *cx, const char *text) {
  return lane_parse(cx, source_from_text(cx, "t.lane", text, strlen(text)));
}

/* ---- finding again ----------------------------------------------------------------------------------------------- */

static void finds_what_is_there(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneValue *sum = add(k, k->x, k->y);
  assert_ptr_equal(add(k, k->x, k->y), sum);
  assert_ptr_equal(add(k, k->y, k->x), sum);
  assert_ptr_equal(lane_2(k->b, LANE_ADD, LK_U32, k->x, k->y), sum); /* signs do not matter */
  assert_ptr_not_equal(lane_2(k->b, LANE_MUL, LK_S32, k->x, k->y), sum);
  assert_ptr_not_equal(lane_2(k->b, LANE_ADD, LK_F32, k->x, k->y), sum);
  LaneValue *low = lane_2(k->b, LANE_SHR, LK_S32, k->x, k->y);
  assert_ptr_not_equal(lane_2(k->b, LANE_SHR, LK_U32, k->x, k->y), low); /* here they do */
  assert_ptr_equal(i32(k, 7), i32(k, 7));
  assert_ptr_not_equal(i32(k, 7), lane_i64(k->b, 7));

  LaneOp *op = lane_if(k->b, k->p, false, 0, NULL);
  assert_ptr_equal(add(k, k->x, k->y), sum); /* from the block around */
  LaneValue *inside = add(k, k->x, k->x);
  lane_enter(k->b, op, 1);
  LaneValue *other = add(k, k->x, k->x);
  assert_ptr_not_equal(other, inside); /* not from the other body */
  assert_ptr_equal(add(k, k->x, k->x), other);
  lane_leave(k->b, op);
  LaneValue *after = add(k, k->x, k->x);
  assert_ptr_not_equal(after, other);
  assert_ptr_not_equal(after, inside);
  lane_verify(k->f, NULL);
  finish(k);
}

static void never_merges_clocks_and_guards(void **state) {
  Kit kit, *k = &kit;
  start(k);
  assert_ptr_equal(lane_special(k->b, SP_TID_X), lane_special(k->b, SP_TID_X));
  assert_ptr_not_equal(lane_special(k->b, SP_CLOCK64), lane_special(k->b, SP_CLOCK64));
  assert_ptr_not_equal(lane_special(k->b, SP_GLOBALTIMER), lane_special(k->b, SP_GLOBALTIMER));
  assert_int_equal(lane_special(k->b, SP_CLOCK64)->type, LT_B64);
  LaneOp *first = lane_load(k->b, SPACE_GLOBAL, LK_B32, 1, k->w, 0, NULL, NULL);
  assert_ptr_not_equal(lane_load(k->b, SPACE_GLOBAL, LK_B32, 1, k->w, 0, NULL, NULL), first);
  finish(k);
}

static void many_values_are_found(void **state) { /* the table grows, with bodies open */
  Kit kit, *k = &kit;
  start(k);
  LaneValue *made[5000];
  for (int i = 0; i < 2000; i++) made[i] = lane_2(k->b, LANE_MUL, LK_S32, k->x, i32(k, 2 * i + 3));
  LaneOp *op = lane_if(k->b, k->p, false, 0, NULL);
  for (int i = 2000; i < 5000; i++) made[i] = lane_2(k->b, LANE_MUL, LK_S32, k->x, i32(k, 2 * i + 3));
  for (int i = 0; i < 5000; i++) assert_ptr_equal(lane_2(k->b, LANE_MUL, LK_S32, k->x, i32(k, 2 * i + 3)), made[i]);
  lane_leave(k->b, op);
  for (int i = 0; i < 2000; i++) assert_ptr_equal(lane_2(k->b, LANE_MUL, LK_S32, k->x, i32(k, 2 * i + 3)), made[i]);
  for (int i = 2000; i < 2010; i++)
    assert_ptr_not_equal(lane_2(k->b, LANE_MUL, LK_S32, k->x, i32(k, 2 * i + 3)), made[i]);
  lane_verify(k->f, NULL);
  finish(k);
}

/* ---- folding ----------------------------------------------------------------------------------------------------- */

static void moves_constants_outwards(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneBuilder *b = k->b;
  LaneValue *x1 = add(k, k->x, i32(k, 1));
  is_sum(LK_S32, x1, k->x, 1);
  is_sum(LK_S32, add(k, x1, i32(k, 2)), k->x, 3);
  assert_ptr_equal(add(k, x1, i32(k, -1)), k->x);
  is_sum(LK_S32, add(k, i32(k, 5), add(k, x1, k->y)), add(k, k->x, k->y), 6);
  is_sum(LK_S32, lane_2(b, LANE_SUB, LK_S32, x1, i32(k, 9)), k->x, -8);
  assert_ptr_equal(lane_2(b, LANE_SUB, LK_S32, add(k, k->y, x1), x1), k->y);
  LaneValue *x12 = lane_2(b, LANE_MUL, LK_S32, k->x, i32(k, 12));
  is_sum(LK_S32, lane_2(b, LANE_MUL, LK_S32, x1, i32(k, 12)), x12, 12);
  LaneValue *x4 = lane_2(b, LANE_SHL, LK_B32, k->x, i32(k, 2));
  assert_ptr_equal(lane_2(b, LANE_MUL, LK_S32, k->x, i32(k, 4)), x4);
  is_sum(LK_S32, lane_2(b, LANE_SHL, LK_B32, x1, i32(k, 2)), x4, 4);
  LaneValue *fma = lane_3(b, LANE_FMA, LK_S32, k->x, i32(k, 12), k->y);
  is_sum(LK_S32, lane_3(b, LANE_FMA, LK_S32, x1, i32(k, 12), add(k, k->y, i32(k, 5))), fma, 17);
  /* the example of lane.h: (x + 1) * 4 + y as the offset of an address */
  LaneValue *address = lane_2(b, LANE_ADD, LK_S64, k->w, lane_2(b, LANE_MULWIDE, LK_S32, add(k, x1, k->y), i32(k, 4)));
  LaneValue *base = lane_2(b, LANE_ADD, LK_S64, k->w, lane_2(b, LANE_MULWIDE, LK_S32, add(k, k->x, k->y), i32(k, 4)));
  is_sum(LK_S64, address, base, 4);
  LaneOp *load = lane_load(b, SPACE_GLOBAL, LK_B32, 1, address, 8, NULL, NULL);
  assert_ptr_equal(load->in[0], base);
  assert_int_equal(load->imm, 12);
  lane_verify(k->f, NULL);
  finish(k);
}

static void keeps_offsets_in_32_bits(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneValue *far = lane_2(k->b, LANE_ADD, LK_S64, k->w, lane_i64(k->b, 1ll << 32));
  LaneOp *load = lane_load(k->b, SPACE_GLOBAL, LK_B32, 1, far, 0, NULL, NULL);
  assert_ptr_equal(load->in[0], far);
  assert_int_equal(load->imm, 0);
  LaneValue *near = lane_2(k->b, LANE_ADD, LK_S64, k->w, lane_i64(k->b, INT32_MAX));
  load = lane_load(k->b, SPACE_GLOBAL, LK_B32, 1, near, 1, NULL, NULL);
  assert_ptr_equal(load->in[0], near);
  load = lane_load(k->b, SPACE_GLOBAL, LK_B32, 1, near, -1, NULL, NULL);
  assert_ptr_equal(load->in[0], k->w);
  assert_int_equal(load->imm, INT32_MAX - 1);
  lane_verify(k->f, NULL);
  finish(k);
}

static void guards_that_always_hold_go(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneValue *yes = lane_pred(k->b, true), *no = lane_pred(k->b, false);
  assert_null(lane_load(k->b, SPACE_GLOBAL, LK_B32, 1, k->w, 0, yes, NULL)->guard);
  assert_null(lane_store(k->b, SPACE_GLOBAL, LK_B32, 1, k->w, 0, yes, &k->x)->guard);
  assert_ptr_equal(lane_store(k->b, SPACE_GLOBAL, LK_B32, 1, k->w, 0, no, &k->x)->guard, no);
  LaneOp *load = lane_load(k->b, SPACE_GLOBAL, LK_B32, 2, k->w, 0, k->p, NULL); /* zeros where it does not hold */
  assert_ptr_equal(load->guard, k->p);
  assert_int_equal(load->in_count, 3);
  is_const(load->in[2], 0);
  lane_verify(k->f, NULL);
  finish(k);
}

static void widens_only_sums_that_cannot_overflow(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneValue *x1 = add(k, k->x, i32(k, 1)), *wide = lane_cvt(k->b, LK_S32, LK_S64, ROUND_DEFAULT, x1);
  is_sum(LK_S64, wide, wide, 0); /* a sum of the user's may wrap */
  LaneValue *lane = lane_special(k->b, SP_LANE);
  is_sum(LK_S64, lane_cvt(k->b, LK_S32, LK_S64, ROUND_DEFAULT, add(k, lane, i32(k, 1))),
         lane_cvt(k->b, LK_S32, LK_S64, ROUND_DEFAULT, lane), 1);
  /* an index is extended by mulwide */
  is_sum(LK_S64, lane_2(k->b, LANE_MULWIDE, LK_S32, x1, i32(k, 1)), lane_cvt(k->b, LK_S32, LK_S64, ROUND_DEFAULT, k->x),
         1);
  finish(k);
}

static void sees_disjoint_bits(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneBuilder *b = k->b;
  LaneValue *tid = lane_special(b, SP_TID_X), *lane = lane_2(b, LANE_AND, LK_B32, tid, i32(k, 31));
  is_sum(LK_S32, lane_2(b, LANE_OR, LK_B32, lane, i32(k, 32)), lane, 32);
  is_sum(LK_S32, lane_2(b, LANE_XOR, LK_B32, lane, i32(k, 64)), lane, 64);
  LaneValue *flipped = lane_2(b, LANE_XOR, LK_B32, lane, i32(k, 33));
  is_sum(LK_S32, flipped, flipped, 0);
  assert_ptr_equal(lane_2(b, LANE_AND, LK_B32, lane, i32(k, 0xff)), lane);
  is_const(lane_2(b, LANE_AND, LK_B32, lane, i32(k, 0x60)), 0);
  is_const(lane_setp(b, CMP_LT, LK_S32, tid, i32(k, 1024)), 1);
  is_const(lane_setp(b, CMP_GE, LK_U32, lane, i32(k, 32)), 0);
  is_const(lane_setp(b, CMP_EQ, LK_S32, lane, i32(k, 32)), 0);
  assert_false(lane_is_const(lane_setp(b, CMP_LT, LK_S32, tid, i32(k, 1023)), NULL));
  assert_ptr_equal(lane_2(b, LANE_REM, LK_S32, tid, i32(k, 32)), lane);
  assert_ptr_equal(lane_2(b, LANE_DIV, LK_S32, tid, i32(k, 32)), lane_2(b, LANE_SHR, LK_U32, tid, i32(k, 5)));
  assert_int_equal(lane_2(b, LANE_DIV, LK_S32, k->x, i32(k, 32))->def->code, LANE_DIV); /* may be negative */
  finish(k);
}

static void folds_constants(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneBuilder *b = k->b;
  is_const(add(k, i32(k, INT32_MAX), i32(k, 1)), 0x80000000);
  is_const(lane_2(b, LANE_DIV, LK_S32, i32(k, -7), i32(k, 2)), (uint32_t)-3);
  is_const(lane_2(b, LANE_DIV, LK_U32, i32(k, -7), i32(k, 2)), 0x7ffffffc);
  assert_false(lane_is_const(lane_2(b, LANE_DIV, LK_S32, i32(k, 1), i32(k, 0)), NULL)); /* a GPU's answer is its own */
  is_const(lane_2(b, LANE_ADD, LK_F32, lane_f32(b, 0.1f), lane_f32(b, 0.2f)), 0x3e99999a);
  LaneOp down = {.code = LANE_ADD, .kind = LK_F32, .rounding = ROUND_RZ};
  is_const(lane_op(b, down, 2, (LaneValue *[]){lane_f32(b, 0.1f), lane_f32(b, 0.2f)}), 0x3e999999);
  assert_false(lane_is_const(lane_1(b, LANE_EX2, LK_F32, lane_f32(b, 1)), NULL)); /* approximate */
  assert_false(
      lane_is_const(lane_2(b, LANE_SUB, LK_F32, lane_f32(b, INFINITY), lane_f32(b, INFINITY)), NULL)); /* NaN */
  is_const(lane_cvt(b, LK_S32, LK_F32, ROUND_DEFAULT, i32(k, 3)), 0x40400000);
  is_const(lane_setp(b, CMP_LT, LK_S32, i32(k, -1), i32(k, 0)), 1);
  is_const(lane_setp(b, CMP_LT, LK_U32, i32(k, -1), i32(k, 0)), 0);
  is_const(lane_select(b, lane_pred(b, true), i32(k, 5), i32(k, 6)), 5);
  finish(k);
}

static void folds_identities(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneBuilder *b = k->b;
  LaneValue *zero = i32(k, 0), *x = k->x;
  assert_ptr_equal(add(k, x, zero), x);
  assert_ptr_equal(lane_2(b, LANE_MUL, LK_S32, x, i32(k, 1)), x);
  is_const(lane_2(b, LANE_MUL, LK_S32, x, zero), 0);
  is_const(lane_2(b, LANE_SUB, LK_S32, x, x), 0);
  is_const(lane_2(b, LANE_XOR, LK_B32, x, x), 0);
  assert_ptr_equal(lane_2(b, LANE_AND, LK_B32, x, i32(k, -1)), x);
  assert_ptr_equal(lane_2(b, LANE_OR, LK_B32, x, x), x);
  assert_ptr_equal(lane_1(b, LANE_NOT, LK_B32, lane_1(b, LANE_NOT, LK_B32, x)), x);
  assert_ptr_equal(lane_1(b, LANE_NEG, LK_F32, lane_1(b, LANE_NEG, LK_F32, x)), x);
  assert_ptr_equal(lane_2(b, LANE_MUL, LK_F32, x, lane_f32(b, 1)), x);
  assert_ptr_equal(lane_2(b, LANE_ADD, LK_F32, x, lane_f32(b, -0.0f)), x);
  assert_int_equal(lane_2(b, LANE_ADD, LK_F32, x, lane_f32(b, 0))->def->code, LANE_ADD); /* -0 + 0 is 0 */
  LaneOp flushing = {.code = LANE_MUL, .kind = LK_F32, .ftz = 1};
  assert_int_equal(lane_op(b, flushing, 2, (LaneValue *[]){x, lane_f32(b, 1)})->def->code, LANE_MUL);
  assert_int_equal(lane_1(b, LANE_MOVE, LK_B32, zero)->def->code, LANE_MOVE); /* stands between */
  finish(k);
}

static void folds_predicates(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneBuilder *b = k->b;
  LaneValue *yes = lane_pred(b, true), *no = lane_pred(b, false), *p = k->p, *q = k->q;
  assert_ptr_equal(lane_2(b, LANE_AND, LK_PRED, p, yes), p);
  is_const(lane_2(b, LANE_AND, LK_PRED, p, no), 0);
  is_const(lane_2(b, LANE_OR, LK_PRED, p, lane_1(b, LANE_NOT, LK_PRED, p)), 1);
  LaneValue *both = lane_2(b, LANE_AND, LK_PRED, p, q);
  assert_ptr_equal(lane_2(b, LANE_AND, LK_PRED, both, q), both);
  assert_ptr_equal(lane_select(b, p, yes, no), p);
  assert_ptr_equal(lane_select(b, p, no, yes), lane_1(b, LANE_NOT, LK_PRED, p));
  assert_ptr_equal(lane_select(b, p, q, no), both);
  assert_ptr_equal(lane_select(b, lane_1(b, LANE_NOT, LK_PRED, p), k->x, k->y), lane_select(b, p, k->y, k->x));
  LaneValue *less = lane_setp(b, CMP_LT, LK_S32, k->x, k->y);
  assert_ptr_equal(lane_1(b, LANE_NOT, LK_PRED, less), lane_setp(b, CMP_GE, LK_S32, k->x, k->y));
  LaneValue *not_less = lane_1(b, LANE_NOT, LK_PRED, lane_setp(b, CMP_LT, LK_F32, k->x, k->y));
  assert_int_equal(not_less->def->pred, CMP_GE); /* or unordered */
  assert_int_equal(not_less->def->unordered, 1);
  assert_int_equal(lane_setp(b, CMP_NE, LK_F32, k->x, k->y)->def->unordered, 1);
  assert_ptr_equal(lane_setp(b, CMP_GT, LK_S32, i32(k, 3), k->x), lane_setp(b, CMP_LT, LK_S32, k->x, i32(k, 3)));
  assert_ptr_equal(lane_setp(b, CMP_EQ, LK_PRED, p, q),
                   lane_2(b, LANE_XOR, LK_PRED, lane_1(b, LANE_NOT, LK_PRED, p), q));
  LaneValue *inner = lane_select(b, q, k->x, k->y), *not_q = lane_1(b, LANE_NOT, LK_PRED, q); /* one choice of two */
  assert_ptr_equal(lane_select(b, p, inner, k->y), lane_select(b, both, k->x, k->y));
  assert_ptr_equal(lane_select(b, p, inner, k->x), lane_select(b, lane_2(b, LANE_AND, LK_PRED, p, not_q), k->y, k->x));
  LaneValue *bit = lane_select(b, p, i32(k, 1), i32(k, 0));
  assert_ptr_equal(lane_setp(b, CMP_NE, LK_S32, bit, i32(k, 0)), p);
  lane_verify(k->f, NULL);
  finish(k);
}

static void folds_bits_and_conversions(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneBuilder *b = k->b;
  LaneValue *low, *high, *again, *again_high;
  lane_unpack(b, k->w, &low, &high);
  assert_int_equal(low->type, LT_B32);
  lane_unpack(b, k->w, &again, &again_high);
  assert_ptr_equal(again, low);
  assert_ptr_equal(again_high, high);
  assert_ptr_equal(lane_pack(b, low, high), k->w);
  LaneValue *pair = lane_pack(b, high, low);
  lane_unpack(b, pair, &again, &again_high);
  assert_ptr_equal(again, high);
  assert_ptr_equal(again_high, low);
  LaneValue *byte = lane_extend(b, LK_S8, k->x);
  assert_ptr_equal(lane_extend(b, LK_S8, byte), byte);
  assert_ptr_equal(lane_extend(b, LK_S16, byte), byte);
  assert_ptr_equal(lane_extend(b, LK_S8, lane_extend(b, LK_U16, k->x)), byte);
  assert_ptr_equal(lane_cvt(b, LK_S8, LK_S32, ROUND_DEFAULT, byte), byte);
  assert_ptr_equal(lane_cvt(b, LK_S32, LK_S8, ROUND_DEFAULT, k->x), byte);
  LaneValue *wide = lane_cvt(b, LK_S32, LK_S64, ROUND_DEFAULT, k->x);
  assert_ptr_equal(lane_cvt(b, LK_S32, LK_U64, ROUND_DEFAULT, k->x), wide);
  assert_ptr_equal(lane_cvt(b, LK_S64, LK_U32, ROUND_DEFAULT, wide), k->x);
  assert_ptr_equal(lane_cvt(b, LK_F32, LK_F16, ROUND_RN, lane_cvt(b, LK_F16, LK_F32, ROUND_DEFAULT, k->h)), k->h);
  LaneValue *half = lane_cvt(b, LK_F32, LK_F16, ROUND_RN, k->x);
  assert_int_equal(lane_cvt(b, LK_F16, LK_F32, ROUND_DEFAULT, half)->def->code, LANE_CVT); /* that lost something */
  assert_ptr_equal(lane_cvt(b, LK_PRED, LK_F32, ROUND_DEFAULT, k->p),
                   lane_select(b, k->p, lane_f32(b, 1), lane_f32(b, 0)));
  lane_verify(k->f, NULL);
  finish(k);
}

static void shuffles_every_type(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneValue *of[] = {k->x, k->w, k->h, k->p};
  for (int i = 0; i < 4; i++) assert_int_equal(lane_shfl(k->b, SHUFFLE_IDX, of[i], i32(k, 3))->type, of[i]->type);
  lane_verify(k->f, NULL);
  finish(k);
}

static void finds_the_buffer(void **state) {
  Kit kit, *k = &kit;
  start(k);
  lane_buffer(k->b, "a", 64, 16);
  int second = lane_buffer(k->b, "b", 64, 16);
  LaneValue *at = add(k, lane_2(k->b, LANE_SHL, LK_B32, lane_special(k->b, SP_LANE), i32(k, 2)),
                      add(k, lane_shared(k->b, second), i32(k, 8)));
  LaneOp *store = lane_store(k->b, SPACE_SHARED, LK_B32, 1, at, 0, NULL, &k->x);
  assert_int_equal(store->buffer, second);
  assert_int_equal(store->imm, 8);
  assert_int_equal(lane_store(k->b, SPACE_SHARED, LK_B32, 1, k->y, 0, NULL, &k->x)->buffer, -1);
  lane_verify(k->f, NULL);
  finish(k);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static const char *const sample =
    "kernel @add(%p0: b64 *f32 {divisible=16}, %p1: b64 *f32, %p2: b32 i32, %p3: b64) warps=2 hidden=1 diag=1 "
    "shared=512 {\n"
    "  buffer \"acc\" bytes=512 align=16 offset=0\n"
    "  buffer \"b\\\"c\" bytes=64 align=4\n"
    "  site print \"x = \" hex : f32, *i32[4,8]\n"
    "  site assert \"i < n\"\n"
    "  %0 = special.b32 {tid.x} : b32\n"
    "  %1 = special.b64 {clock64} : b64\n"
    "  %2 = shared.b32 {buffer=0} : b32\n"
    "  %3 = const.b32 {-1} : b32\n"
    "  %4 = const.b32 {0x3f800000} : b32\n"
    "  %5 = const.b64 {0x123456789abcdef0} : b64\n"
    "  %6 = const.pred {1} : pred\n"
    "  %7 = const.b16 {-2} : b16\n"
    "  %8 = setp.f32 %4, %3 {lt unordered ftz} : pred\n"
    "  %9 = add.f32 %4, %4 {rz ftz} : b32\n"
    "  %10 = bfe.u32 %0 {bit=3 bits=5} : b32\n"
    "  %11 = cvt.f32 %4 {to=s64 rm} : b64\n"
    "  %12, %13 = ld.b32 @!%8 %p0, %3, %4 {global cg evict_first volatile +16} : b32, b32\n"
    "  st.b32 @%6 %2, %12, %13 {shared buffer=0 -4}\n"
    "  %14 = atom.b32 %p1, %12, %13 {global cas relaxed sys} : b32\n"
    "  atom.f32 %p1, %9 {global add acq_rel gpu}\n"
    "  %15 = shfl.b32 %12, %3 {up imm=16} : b32\n"
    "  %16 = vote %8 {ballot} : b32\n"
    "  %17 = redux.s32 %15 {max} : b32\n"
    "  barrier\n"
    "  barrier {warp}\n"
    "  %18 = for.s32 %3, %p2, %10, %17 {unroll=4 uniform} : b32 do (%19: b32, %20: b32) {\n"
    "    %21 = if %8 : b32 do () {\n"
    "      yield %20\n"
    "    } do () {\n"
    "      exit @%6\n"
    "      yield %19\n"
    "    }\n"
    "    yield %21\n"
    "  }\n"
    "  %22 = while %18 : b32 do (%23: b32) {\n"
    "    condition %6, %23\n"
    "  } do (%24: b32) {\n"
    "    yield %24\n"
    "  }\n"
    "  %25, %26 = asm.none %22 {text=\"mov.b32 {$0, $1}, $2; \\\"\\n\" pure} : b16, b16\n"
    "  fence {release cta}\n"
    "}\n";

static void text_reads_back(void **state) {
  Context *cx = context_create();
  char *text = arena_strdup(cx->arena, sample);
  char *none = strstr(text, "asm.none");
  memmove(none + 3, none + 8, strlen(none + 8) + 1); /* kind none is not shown */
  LaneFunc *f = parse(cx, text);
  assert_string_equal(to_text(cx, f), text);
  lane_verify(f, NULL);
  assert_int_equal(f->num_warps, 2);
  assert_int_equal(f->hidden_params, 1);
  assert_true(f->uses_diag);
  assert_int_equal(f->param_divisible[0], 16);
  assert_int_equal(f->sites.n, 2);
  assert_int_equal(f->sites.at[0].value_count, 2);
  Buf out = {0};
  lane_print(&out, f, true);
  assert_non_null(strstr(out.at, "%0 = special.b32 {tid.x} : b32 @6:2\n"));
  LaneFunc *again = parse(cx, arena_strdup(cx->arena, out.at));
  Buf second = {0};
  lane_print(&second, again, true);
  assert_string_equal(out.at, second.at);
  buf_destroy(&out);
  buf_destroy(&second);
  context_destroy(cx);
}

static const char *error_of(Context *cx, const char *text, bool verify) {
  volatile bool right = false;
  if (context_try(cx)) {
    LaneFunc *f = parse(cx, text);
    if (verify) lane_verify(f, "a pass");
    right = true;
    context_end_try(cx);
  }
  return right ? "" : cx->diags.at[cx->diags.n - 1].message;
}

static void wrong_text_is_named(void **state) {
  static const struct {
    const char *text, *message;
    int line, col;
  } cases[] = {
      {"", "expected 'kernel', found the end of the text", 1, 0},
      {"kernel @k() warps=1 {\n  %0 = sum : b32\n}", "there is no operation 'sum'", 2, 7},
      {"kernel @k() {\n %0 = add.i7 : b32\n}", "there is no kind 'i7'", 2, 10},
      {"kernel @k() {\n barrier {tight}\n}", "'barrier' has no attribute 'tight'", 2, 10},
      {"kernel @k() {\n exit @%p\n}", "%p is used but not defined above", 2, 7},
      {"kernel @k(%a: b32, %a: b32) {\n}", "%a is defined twice", 1, 19},
      {"kernel @k() {\n %0 = const.b32 {1}\n}", "'const' names 1 results but gives 0 types", 2, 1},
      {"kernel @k() {\n %0 = const.b32 {99999999999999999999} : b32\n}", "the integer does not fit into 64 bits", 2,
       36},
      {"kernel @k() {\n barrier do () {\n}\n}", "'barrier' has no body here", 2, 11},
      {"kernel @k() fast=1 {\n}", "a kernel has no 'fast'", 1, 12},
      {"kernel @k() {\n asm {text=\"a\n\"}\n}", "the text has no closing quote on its line", 2, 12},
      {"kernel @k() {\n}\n}", "expected nothing after the kernel, found '}'", 3, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Context *cx = context_create();
    assert_string_equal(error_of(cx, cases[i].text, false), cases[i].message);
    assert_int_equal(cx->diags.at[0].span.line, cases[i].line);
    assert_int_equal(cx->diags.at[0].span.col, cases[i].col);
    context_destroy(cx);
  }
}

static void wrong_ir_is_named(void **state) {
  static const struct {
    const char *body, *message;
  } cases[] = {
      {"%0 = add.s32 %x, %w : b32", "'add': operand 1 is b64, not b32"},
      {"%0 = add.s32 %x : b32", "'add': it has 1 operands"},
      {"%0 = add.s32 %x, %x : b64", "'add': result 0 is b64, not b32"},
      {"%0 = add.b16 %h, %h : b16", "'add': no such operation on 'b16'"},
      {"%0 = shl.b64 %w, %w : b64", "'shl': operand 1 is b64, not b32"},
      {"%0 = setp.s32 %x, %x {lt} : b32", "'setp': result 0 is b32, not pred"},
      {"%0 = select.b32 %x, %x, %x : b32", "'select': operand 0 is b32, not pred"},
      {"%0 = pack.b64 %x, %w : b64", "'pack': operand 1 is b64, not b32"},
      {"%0 = cvt.s32 %x {to=f16x2} : b32", "'cvt': no conversion from s32 to f16x2"},
      {"%0 = cvt.s32 %x : b32", "'cvt': it does not say to what"},
      {"%0 = bfe.s32 %x {bit=32 bits=1} : b32", "'bfe': bits [32, 32 + 1) of 32"},
      {"%0 = ld.b32 %x {global} : b32", "'ld': operand 0 is b32, not b64"},
      {"%0 = ld.b32 @%p %w {global} : b32", "'ld': it has 0 other values for 1 results"},
      {"%0 = ld.b32 %w, %x {global} : b32", "'ld': it has 1 other values for 0 results"},
      {"%0, %1, %2 = ld.b32 %w {global} : b32, b32, b32", "'ld': 3 elements of 32 bits are no access"},
      {"%0 = ld.b32 %x {shared buffer=4} : b32", "'ld': there is no buffer 4"},
      {"%0 = ld.b32 %w {global +4294967296} : b32", "'ld': the offset does not fit into 32 bits"},
      {"%0 = atom.b32 %w, %x {global cas relaxed gpu} : b32",
       "'atom': cas has a value to compare with, one to store, and a result"},
      {"atom.f32 %w, %x {global max relaxed gpu}", "'atom': no such atomic operation on 1 of f32"},
      {"atom.s32 %w, %x, %x {global add relaxed gpu}", "'atom': no such atomic operation on 2 of s32"},
      {"%0 = add.s32 @%p %x, %x : b32", "'add': it cannot have a guard"},
      {"exit @%x", "'exit': the guard is b32, not pred"},
      {"if %q do () {\nbarrier\nyield\n} do () {\nyield\n}", "'barrier': it stands under control that is not uniform"},
      {"for.s32 %x, %x, %t do (%i: b32) {\nbarrier\nyield\n}",
       "'barrier': it stands under control that is not uniform"},
      {"if %p do () {\n%1 = const.b32 {1} : b32\nyield\n} do () {\nyield\n}\n%2 = add.s32 %1, %1 : b32",
       "'add': operand 0 is not defined above"},
      {"if %p do () {\nyield %x\n} do () {\nyield\n}", "'yield': it hands on 1 values, not 0"},
      {"if %p do () {\n} do () {\nyield\n}", "'if': body 0 does not end in yield"},
      {"if %p do () {\nyield\n}", "'if': it has no body 1"},
      {"%0 = for.s32 %x, %x, %x, %w : b64 do (%i: b32, %a: b32) {\nyield %a\n}",
       "'for': argument 1 of body 0 is b32, not b64"},
      {"%0 = while %x : b32 do (%a: b32) {\ncondition %a, %a\n} do (%c: b32) {\nyield %c\n}",
       "'condition': operand 0 is b32, not pred"},
      {"yield", "'yield': it does not end a body"},
      {"asm", "'asm': it has no text"},
      {"%0 = shfl.b32 %x, %x {up imm=12} : b32", "'shfl': a segment of 12 lanes"},
      {"%0, %1, %2 = ldmatrix.b32 %x {shared} : b32, b32, b32", "'ldmatrix': 3 squares"},
      {"%0 = ldmatrix.b32 %w {global} : b32", "'ldmatrix': it reads shared memory only"},
      {"%0 = ldmatrix.b32 %x {shared trans buffer=2} : b32", "'ldmatrix': there is no buffer 2"},
      {"%0 = ldmatrix.b32 @%p %x {shared} : b32", "'ldmatrix': it cannot have a guard"},
      {"if %q do () {\n%0 = ldmatrix.b32 %x {shared} : b32\nyield\n} do () {\nyield\n}",
       "'ldmatrix': it stands under control that is not uniform"},
      {"stmatrix.b32 %x, %x, %x, %x {shared}", "'stmatrix': 3 squares"},
      {"stmatrix.b32 %w, %x {global}", "'stmatrix': it writes shared memory only"},
      {"stmatrix.b32 %x, %w {shared}", "'stmatrix': operand 1 is b64, not b32"},
      {"stmatrix.b32 %x, %x {shared trans buffer=2}", "'stmatrix': there is no buffer 2"},
      {"if %q do () {\nstmatrix.b32 %x, %x {shared}\nyield\n} do () {\nyield\n}",
       "'stmatrix': it stands under control that is not uniform"},
      {"%0, %1, %2, %3 = mma.s32 %x, %x, %x, %x, %x, %x, %x, %x, %x, %x : b32, b32, b32, b32",
       "'mma': no such operation on 's32'"},
      {"%0, %1, %2, %3 = mma.f64 %x, %x, %x, %x, %x, %x, %x, %x, %x, %x : b64, b64, b64, b64",
       "'mma': operand 0 is b32, not b64"},
      {"%0, %1, %2, %3 = mma.f32 %x, %x, %x, %x, %x, %x, %x, %x, %x, %x {mixed} : b32, b32, b32, b32",
       "'mma': f32 is mixed with nothing"},
      {"%0, %1, %2, %3 = mma.f16 %x, %x, %x, %x, %x, %x, %x, %x : b32, b32, b32, b32", "'mma': it has 8 operands"},
      {"%0, %1 = mma.f16 %x, %x, %x, %x, %x, %x, %x, %x, %x, %x : b32, b32", "'mma': it has 2 results"},
      {"%0, %1, %2, %3 = mma.bf16 %h, %x, %x, %x, %x, %x, %x, %x, %x, %x : b32, b32, b32, b32",
       "'mma': operand 0 is b16, not b32"},
      {"%0, %1, %2, %3 = mma.bf16 %x, %x, %x, %x, %x, %x, %x, %x, %x, %x : b32, b32, b32, b64",
       "'mma': result 3 is b64, not b32"},
      {"if %q do () {\n%0, %1, %2, %3 = mma.f16 %x, %x, %x, %x, %x, %x, %x, %x, %x, %x : b32, b32, b32, b32\nyield\n} "
       "do () {\nyield\n}",
       "'mma': it stands under control that is not uniform"},
      {"%0 = param.b64 {imm=9} : b64", "'param': there is no parameter 9"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Context *cx = context_create();
    const char *text = arena_printf(cx->arena,
                                    "kernel @k(%%x: b32, %%w: b64, %%h: b16, %%p: pred) {\n%%t = special {tid.x} : "
                                    "b32\n%%q = setp.s32 %%t, %%x {lt} : pred\n%s\n}",
                                    cases[i].body);
    assert_string_equal(error_of(cx, text, true),
                        arena_printf(cx->arena, "wrong lane IR after a pass: %s", cases[i].message));
    context_destroy(cx);
  }
  Context *cx =
      context_create(); /* the same under uniform control, and in a loop of the same length everywhere, is right */
  assert_string_equal(error_of(cx,
                               "kernel @k(%p: pred, %n: b32) {\nif %p do () {\nbarrier\nyield\n} do () {\nyield\n}\n"
                               "for.s32 %n, %n, %n do (%i: b32) {\nbarrier\nyield\n}\n}",
                               true),
                      "");
  context_destroy(cx);
}

/* ---- sweeping ---------------------------------------------------------------------------------------------------- */

static void sweeps_what_is_not_used(void **state) {
  Context *cx = context_create();
  LaneFunc *f = parse(cx, "kernel @k(%p0: b64, %p1: b32) warps=4 {\n"
                          "  %0 = add.s32 %p1, %p1 : b32\n"
                          "  %1 = mul.s32 %0, %0 : b32\n"
                          "  %2 = ld.b32 %p0 {global} : b32\n"
                          "  %3 = ld.b32 %p0 {global volatile} : b32\n"
                          "  %4 = setp.s32 %0, %p1 {lt} : pred\n"
                          "  if %4 do () {\n    %5 = neg.s32 %p1 : b32\n    yield\n  } do () {\n    yield\n  }\n"
                          "  %6 = atom.b32 %p0, %p1 {global add relaxed gpu} : b32\n"
                          "  %7 = special.b64 {clock64} : b64\n"
                          "  st.b32 %p0, %p1 {global}\n}\n");
  lane_verify(f, NULL);
  lane_dce(f);
  lane_verify(f, NULL);
  assert_string_equal(to_text(cx, f), "kernel @k(%p0: b64, %p1: b32) warps=4 {\n"
                                      "  %0 = ld.b32 %p0 {global volatile} : b32\n"
                                      "  %1 = atom.b32 %p0, %p1 {global add relaxed gpu} : b32\n"
                                      "  st.b32 %p0, %p1 {global}\n}\n");
  context_destroy(cx);
}

/* The message of a pass with this contract, which does nothing, on a LaneFunc of which `holds` is said; NULL: none. */
static const char *run_nothing(Context *cx, const char *text, unsigned holds, PassContract c) {
  if (context_try(cx)) {
    LaneFunc *f = parse(cx, text);
    f->holds = holds;
    lane_pass_begin(f, "nothing", &c);
    lane_pass_end(f, "nothing", &c, true);
    assert_int_equal(f->holds, (holds & c.keeps) | c.gives);
    context_end_try(cx);
    return NULL;
  }
  return cx->diags.at[0].message;
}

static void passes_are_held_to_their_contracts(void **state) {
  static const char dead[] = "kernel @k(%p0: b64, %p1: b32) warps=4 {\n  %0 = add.s32 %p1, %p1 : b32\n}\n",
                    places[] = "kernel @k(%p1: b32) warps=4 shared=16 {\n"
                               "  buffer \"x\" bytes=32 align=16 offset=0\n"
                               "  %0 = shared.b32 {buffer=0} : b32\n  st.b32 %0, %p1 {shared buffer=0}\n}\n";
  static const struct {
    const char *text;
    unsigned holds;
    PassContract contract;
    const char *message; /* NULL: none */
  } cases[] = {
      {dead, 0, {0, 0, LANE_ALL}, NULL},
      {dead, 0, {LANE_SWEPT, 0, 0}, "wrong pipeline: nothing needs 'no dead operations', which does not hold"},
      {dead, LANE_SWEPT, {0, 0, LANE_ALL}, "wrong lane IR after nothing: 'no dead operations' does not hold"},
      {dead, LANE_SWEPT, {0, 0, LANE_PLACED}, NULL},
      {dead, 0, {0, LANE_PLACED, 0}, NULL},
      {places, LANE_SWEPT, {LANE_SWEPT, 0, LANE_ALL}, NULL},
      {places, 0, {LANE_PLACED, 0, 0}, "wrong pipeline: nothing needs 'places in shared memory', which does not hold"},
      {places, 0, {0, LANE_PLACED, 0}, "wrong lane IR after nothing: 'places in shared memory' does not hold"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Context *cx = context_create();
    const char *got = run_nothing(cx, cases[i].text, cases[i].holds, cases[i].contract), *want = cases[i].message;
    if (!want != !got || (want && strcmp(want, got))) fail_msg("case %zu: %s", i, got ? got : "nothing");
    context_destroy(cx);
  }
}

/* ---- random functions: what the builder makes verifies, reads back, and survives sweeping ------------------------ */

static uint32_t draw(uint64_t *random, uint32_t below) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*random >> 33) % below;
}

enum { POOL = 64 };
typedef struct Pool {
  LaneValue *at[4][POOL];
  int n[4];
} Pool;

static LaneValue *pick(uint64_t *r, const Pool *pool, LaneType t) { return pool->at[t][draw(r, (uint32_t)pool->n[t])]; }
static void keep(uint64_t *r, Pool *pool, LaneValue *v) {
  if (pool->n[v->type] < POOL) pool->at[v->type][pool->n[v->type]++] = v;
  else pool->at[v->type][draw(r, POOL)] = v;
}

static void random_ops(uint64_t *r, LaneBuilder *b, Pool *pool, int budget, int depth) {
  static const LaneCode binary[] = {LANE_ADD, LANE_SUB, LANE_MUL, LANE_MIN, LANE_MAX, LANE_MULHI};
  static const LaneKind ints[] = {LK_S32, LK_U32, LK_S64, LK_U64},
                        floats[] = {LK_F16, LK_BF16, LK_F32, LK_F64, LK_F16X2};
  for (int i = 0; i < budget; i++) {
    switch (draw(r, depth < 3 ? 14 : 10)) {
      case 0: keep(r, pool, lane_const(b, (LaneType)draw(r, 4), (uint64_t)draw(r, 9) - 4)); break;
      case 1:
      case 2: {
        LaneKind k = ints[draw(r, 4)];
        LaneType t = lane_kind_info[k].type;
        keep(r, pool, lane_2(b, binary[draw(r, 6)], k, pick(r, pool, t), pick(r, pool, t)));
        break;
      }
      case 3: {
        LaneKind k = floats[draw(r, 5)];
        LaneType t = lane_kind_info[k].type;
        LaneOp proto = {.code = draw(r, 2) ? LANE_ADD : LANE_MUL,
                        .kind = k,
                        .ftz = k == LK_F32 && draw(r, 2),
                        .exact = (uint8_t)draw(r, 2)};
        keep(r, pool, lane_op(b, proto, 2, (LaneValue *[]){pick(r, pool, t), pick(r, pool, t)}));
        break;
      }
      case 4: {
        LaneKind k = ints[draw(r, 4)];
        LaneType t = lane_kind_info[k].type;
        keep(r, pool, lane_setp(b, (CmpPred)draw(r, 6), k, pick(r, pool, t), pick(r, pool, t)));
        break;
      }
      case 5: {
        LaneType t = (LaneType)draw(r, 4);
        keep(r, pool, lane_select(b, pick(r, pool, LT_PRED), pick(r, pool, t), pick(r, pool, t)));
        break;
      }
      case 6: {
        LaneValue *low, *high;
        lane_unpack(b, pick(r, pool, draw(r, 2) ? LT_B32 : LT_B64), &low, &high);
        keep(r, pool, low);
        keep(r, pool, high);
        LaneType t = draw(r, 2) ? LT_B16 : LT_B32;
        keep(r, pool, lane_pack(b, pick(r, pool, t), pick(r, pool, t)));
        break;
      }
      case 7: {
        static const LaneKind kinds[] = {LK_S8,  LK_U8,  LK_S16,  LK_U16, LK_S32, LK_U32, LK_S64,
                                         LK_U64, LK_F16, LK_BF16, LK_F32, LK_F64, LK_PRED};
        LaneKind from = kinds[draw(r, 13)], to = kinds[draw(r, 13)];
        LaneValue *x = pick(r, pool, lane_kind_info[from].type);
        keep(r, pool, lane_cvt(b, from, to, ROUND_DEFAULT, lane_extend(b, from, x)));
        break;
      }
      case 8: {
        LaneType t = draw(r, 2) ? LT_B32 : LT_B64;
        static const LaneCode logic[] = {LANE_AND, LANE_OR, LANE_XOR};
        keep(r, pool, lane_2(b, logic[draw(r, 3)], lane_bits_kind(t), pick(r, pool, t), pick(r, pool, t)));
        keep(r, pool,
             lane_2(b, draw(r, 2) ? LANE_SHL : LANE_SHR, t == LT_B32 ? LK_B32 : LK_B64, pick(r, pool, t),
                    pick(r, pool, LT_B32)));
        break;
      }
      case 9: {
        LaneValue *guard = draw(r, 2) ? pick(r, pool, LT_PRED) : NULL, *values[4];
        int n = 1 << draw(r, 3);
        for (int j = 0; j < n; j++) values[j] = pick(r, pool, LT_B32);
        lane_store(b, SPACE_GLOBAL, LK_B32, n, pick(r, pool, LT_B64), 0, guard, values);
        LaneOp *load = lane_load(b, SPACE_GLOBAL, LK_B32, n, pick(r, pool, LT_B64), (int64_t)draw(r, 100), guard,
                                 draw(r, 2) ? values : NULL);
        for (int j = 0; j < n; j++) keep(r, pool, load->out[j]);
        break;
      }
      case 10: {
        LaneOp *op = lane_if(b, pick(r, pool, LT_PRED), draw(r, 2), 1, (LaneType[]){LT_B32});
        for (int body = 0; body < 2; body++) {
          if (body) lane_enter(b, op, 1);
          Pool inside = *pool;
          random_ops(r, b, &inside, 4, depth + 1);
          LaneValue *v = pick(r, &inside, LT_B32);
          lane_yield(b, 1, &v);
        }
        lane_leave(b, op);
        keep(r, pool, op->out[0]);
        break;
      }
      case 11:
      case 12: {
        LaneValue *init[2] = {pick(r, pool, LT_B64), pick(r, pool, LT_PRED)};
        LaneOp *op = lane_for(b, LK_S32, pick(r, pool, LT_B32), pick(r, pool, LT_B32), lane_i32(b, 1), 2, init);
        Pool inside = *pool;
        for (int j = 0; j < 3; j++) keep(r, &inside, op->body[0]->args[j]);
        random_ops(r, b, &inside, 5, depth + 1);
        LaneValue *next[2] = {pick(r, &inside, LT_B64), pick(r, &inside, LT_PRED)};
        lane_yield(b, 2, next);
        lane_leave(b, op);
        keep(r, pool, op->out[0]);
        keep(r, pool, op->out[1]);
        break;
      }
      default: {
        LaneValue *init = pick(r, pool, LT_B32);
        LaneOp *op = lane_while(b, 1, &init);
        Pool inside = *pool;
        keep(r, &inside, op->body[0]->args[0]);
        random_ops(r, b, &inside, 3, depth + 1);
        LaneValue *v = pick(r, &inside, LT_B32);
        lane_condition(b, pick(r, &inside, LT_PRED), 1, &v);
        lane_enter(b, op, 1);
        inside = *pool;
        keep(r, &inside, op->body[1]->args[0]);
        random_ops(r, b, &inside, 3, depth + 1);
        v = pick(r, &inside, LT_B32);
        lane_yield(b, 1, &v);
        lane_leave(b, op);
        keep(r, pool, op->out[0]);
      }
    }
  }
}

static void check_random(Kit *k, uint64_t random) {
  Pool pool = {0};
  LaneValue *first[] = {k->x, k->y, k->w, k->h, k->p, k->q, lane_special(k->b, SP_TID_X)};
  for (int i = 0; i < 7; i++) keep(&random, &pool, first[i]);
  random_ops(&random, k->b, &pool, 40, 0);
  lane_verify(k->f, "building");
  const char *text = to_text(k->cx, k->f);
  LaneFunc *again = parse(k->cx, text);
  assert_string_equal(to_text(k->cx, again), text);
  lane_verify(again, "reading");
  lane_dce(k->f);
  lane_verify(k->f, "sweeping");
  assert_false(lane_has_dead(k->f));
}

static void random_functions_hold(void **state) {
  for (volatile int seed = 1; seed <= 300; seed++) {
    Kit kit, *k = &kit;
    start(k);
    if (context_try(k->cx)) {
      check_random(k, (uint64_t)seed * 0x9e3779b97f4a7c15u);
      context_end_try(k->cx);
    } else {
      fail_msg("seed %d: %s", seed, k->cx->diags.at[0].message);
    }
    finish(k);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_what_is_there),
      cmocka_unit_test(never_merges_clocks_and_guards),
      cmocka_unit_test(many_values_are_found),
      cmocka_unit_test(moves_constants_outwards),
      cmocka_unit_test(keeps_offsets_in_32_bits),
      cmocka_unit_test(guards_that_always_hold_go),
      cmocka_unit_test(widens_only_sums_that_cannot_overflow),
      cmocka_unit_test(sees_disjoint_bits),
      cmocka_unit_test(folds_constants),
      cmocka_unit_test(folds_identities),
      cmocka_unit_test(folds_predicates),
      cmocka_unit_test(folds_bits_and_conversions),
      cmocka_unit_test(shuffles_every_type),
      cmocka_unit_test(finds_the_buffer),
      cmocka_unit_test(text_reads_back),
      cmocka_unit_test(wrong_text_is_named),
      cmocka_unit_test(wrong_ir_is_named),
      cmocka_unit_test(passes_are_held_to_their_contracts),
      cmocka_unit_test(sweeps_what_is_not_used),
      cmocka_unit_test(random_functions_hold),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
