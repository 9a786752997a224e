/* Tests of what gpu/lane/fold.c knows of integers' bounds: multiples of a loop's step, sums of one base, the least that
 * a sum may be, and two comparisons that are one. */
#include "unit/gpu/test_lane_kit.h"

/* A loop counts in its step's multiples, also where it wraps: what is added below the step has no carries. */
static void sees_multiples_of_steps(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneBuilder *b = k->b;
  LaneOp *loop = lane_for(b, LK_S32, i32(k, 512), k->x, i32(k, 256), 0, NULL);
  LaneValue *turn = loop->body[0]->args[0], *lane = lane_special(b, SP_LANE), *at = add(k, lane, turn);
  LaneValue *wide = lane_cvt(b, LK_S32, LK_S64, ROUND_DEFAULT, at);
  is_sum(LK_S64, lane_cvt(b, LK_S32, LK_S64, ROUND_DEFAULT, add(k, at, i32(k, 224))), wide, 224);
  LaneValue *carries = lane_cvt(b, LK_S32, LK_S64, ROUND_DEFAULT, add(k, at, i32(k, 256)));
  is_sum(LK_S64, carries, carries, 0); /* into the sign, it may be */
  is_const(lane_2(b, LANE_AND, LK_B32, turn, i32(k, 255)), 0);
  assert_false(lane_is_const(lane_2(b, LANE_AND, LK_B32, turn, i32(k, 256)), NULL));
  lane_yield(b, 0, NULL);
  lane_leave(b, loop);
  loop = lane_for(b, LK_S32, k->y, k->x, i32(k, 256), 0, NULL); /* begins anywhere */
  assert_false(lane_is_const(lane_2(b, LANE_AND, LK_B32, loop->body[0]->args[0], i32(k, 255)), NULL));
  lane_yield(b, 0, NULL);
  lane_leave(b, loop);
  lane_verify(k->f, NULL);
  finish(k);
}

static void compares_sums_of_one_base(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneBuilder *b = k->b;
  LaneValue *lane = lane_special(b, SP_LANE), *at = add(k, lane, i32(k, 32)), *far = add(k, lane, i32(k, INT32_MAX));
  is_const(lane_setp(b, CMP_LT, LK_S32, lane, at), 1);
  is_const(lane_setp(b, CMP_GE, LK_U32, lane, add(k, lane, i32(k, 1))), 0);
  is_const(lane_setp(b, CMP_GT, LK_S32, at, add(k, lane, i32(k, 33))), 0);
  is_const(lane_setp(b, CMP_EQ, LK_S32, add(k, k->x, i32(k, 1)), add(k, k->x, i32(k, 2))), 0); /* wraps or not */
  is_const(lane_setp(b, CMP_NE, LK_S32, far, lane), 1);
  assert_false(lane_is_const(lane_setp(b, CMP_LT, LK_S32, lane, far), NULL)); /* these may wrap */
  assert_false(lane_is_const(lane_setp(b, CMP_LT, LK_S32, k->x, add(k, k->x, i32(k, 1))), NULL));
  assert_false(lane_is_const(lane_setp(b, CMP_LT, LK_S32, add(k, lane, i32(k, -1)), lane), NULL));
  finish(k);
}

/* Of a maximum's index in a thread: whichever of two it is, it is less than either of the next two. */
static void compares_what_is_selected(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneBuilder *b = k->b;
  LaneValue *lane = lane_special(b, SP_LANE), *at[6];
  for (int i = 0; i < 6; i++) at[i] = add(k, lane, i32(k, i));
  LaneValue *low = lane_select(b, k->p, at[0], at[1]), *high = lane_select(b, k->q, at[2], at[3]),
            *across = lane_select(b, k->q, at[1], at[2]), *foreign = lane_select(b, k->q, at[4], k->x);
  is_const(lane_setp(b, CMP_LT, LK_S32, low, high), 1);
  is_const(lane_setp(b, CMP_GE, LK_S32, low, high), 0);
  is_const(lane_setp(b, CMP_EQ, LK_S32, high, low), 0);
  is_const(lane_setp(b, CMP_LE, LK_S32, low, across), 1); /* at most 1, at least 1 */
  is_const(lane_setp(b, CMP_GT, LK_S32, lane_select(b, k->p, at[5], at[4]), lane_select(b, k->q, low, high)), 1);
  assert_false(lane_is_const(lane_setp(b, CMP_LT, LK_S32, low, across), NULL));
  assert_false(lane_is_const(lane_setp(b, CMP_EQ, LK_S32, low, across), NULL));
  assert_false(lane_is_const(lane_setp(b, CMP_NE, LK_S32, low, across), NULL));
  assert_false(lane_is_const(lane_setp(b, CMP_LT, LK_S32, low, foreign), NULL));
  finish(k);
}

/* A program's number has no sign: four times it and one is no less than one. */
static void compares_with_the_least(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneBuilder *b = k->b;
  LaneValue *program = lane_cvt(b, LK_U32, LK_U64, ROUND_DEFAULT, lane_special(b, SP_CTAID_X));
  LaneValue *first = lane_2(b, LANE_SHL, LK_B64, program, i32(k, 2)), *three = lane_i64(b, 3);
  LaneValue *last = lane_2(b, LANE_ADD, LK_S64, first, three);
  static const LaneKind kinds[] = {LK_S64, LK_U64};
  for (int i = 0; i < 2; i++) {
    is_const(lane_setp(b, CMP_LT, kinds[i], last, three), 0);
    is_const(lane_setp(b, CMP_GE, kinds[i], last, three), 1);
    is_const(lane_setp(b, CMP_LE, kinds[i], last, lane_i64(b, 2)), 0);
    is_const(lane_setp(b, CMP_GT, kinds[i], last, lane_i64(b, 2)), 1);
    assert_false(lane_is_const(lane_setp(b, CMP_LT, kinds[i], last, lane_i64(b, 4)), NULL));
    assert_false(lane_is_const(lane_setp(b, CMP_LE, kinds[i], last, three), NULL));
  }
  LaneValue *narrow = lane_2(b, LANE_SHL, LK_B32, lane_special(b, SP_CTAID_X), i32(k, 2)); /* may have a sign */
  assert_false(lane_is_const(lane_setp(b, CMP_LT, LK_S32, add(k, narrow, i32(k, 3)), i32(k, 3)), NULL));
  finish(k);
}

/* x > y or x == y */
static void joins_comparisons(void **state) {
  Kit kit, *k = &kit;
  start(k);
  LaneBuilder *b = k->b;
  for (int i = 0; i < 3; i++) {
    LaneKind kind = i == 0 ? LK_S32 : i == 1 ? LK_U32 : LK_F32;
    LaneValue *more = lane_setp(b, CMP_GT, kind, k->x, k->y), *less = lane_setp(b, CMP_LT, kind, k->x, k->y);
    LaneValue *same = lane_setp(b, CMP_EQ, kind, k->x, k->y), *crossed = lane_setp(b, CMP_EQ, kind, k->y, k->x);
    LaneValue *or_same = lane_setp(b, CMP_GE, kind, k->x, k->y);
    assert_ptr_equal(lane_2(b, LANE_OR, LK_PRED, more, same), or_same);
    assert_ptr_equal(lane_2(b, LANE_OR, LK_PRED, crossed, more), or_same);
    assert_ptr_equal(lane_2(b, LANE_OR, LK_PRED, less, same), lane_setp(b, CMP_LE, kind, k->x, k->y));
    assert_int_equal(lane_2(b, LANE_OR, LK_PRED, more, less)->def->code, LANE_OR);
    LaneValue *other = lane_setp(b, CMP_EQ, kind, k->x, i32(k, 3));
    assert_int_equal(lane_2(b, LANE_OR, LK_PRED, more, other)->def->code, LANE_OR);
  }
  LaneValue *differs = lane_1(b, LANE_NOT, LK_PRED, lane_setp(b, CMP_NE, LK_F32, k->x, k->y));
  assert_int_equal(differs->def->pred, CMP_EQ); /* NaN is not: ordered, as is > */
  LaneValue *not_more = lane_1(b, LANE_NOT, LK_PRED, lane_setp(b, CMP_LE, LK_F32, k->x, k->y)); /* or NaN */
  assert_int_equal(not_more->def->unordered, 1);
  assert_int_equal(lane_2(b, LANE_OR, LK_PRED, not_more, differs)->def->code, LANE_OR);
  finish(k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sees_multiples_of_steps),   cmocka_unit_test(compares_sums_of_one_base),
      cmocka_unit_test(compares_what_is_selected), cmocka_unit_test(compares_with_the_least),
      cmocka_unit_test(joins_comparisons),
  };
  return cmocka_run_group_tests_name("lane_bounds", tests, NULL, NULL);
}
