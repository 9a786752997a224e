/* Tests of lane_pressure and lane_rematerialize: registers that a thread needs are counted, and what is cheap is
 * computed again where it is used. */
#include "gpu/lane/lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static LaneFunc *parsed(Context *cx, const char *text) {
  LaneFunc *f = lane_parse(cx, source_from_text(cx, "t.lane", text, strlen(text)));
  lane_verify(f, "parsing");
  return f;
}

/* Four addresses of two registers each, of one index, for a loop with a barrier and for what comes after. */
static const char *const rows = "kernel @k(%p: b64, %o: b64, %n: b32) warps=1 {\n"
                                "  %zero = const.b32 {0} : b32\n"
                                "  %one = const.b32 {1} : b32\n"
                                "  %eight = const.b32 {8} : b32\n"
                                "  %nine = const.b32 {9} : b32\n"
                                "  %ten = const.b32 {10} : b32\n"
                                "  %four = const.b32 {4} : b32\n"
                                "  %t = special {tid.x} : b32\n"
                                "  %t8 = add.s32 %t, %eight : b32\n"
                                "  %t9 = add.s32 %t, %nine : b32\n"
                                "  %t10 = add.s32 %t, %ten : b32\n"
                                "  %m = mulwide.s32 %t, %four : b64\n"
                                "  %m8 = mulwide.s32 %t8, %four : b64\n"
                                "  %m9 = mulwide.s32 %t9, %four : b64\n"
                                "  %m10 = mulwide.s32 %t10, %four : b64\n"
                                "  %s = for.s32 %zero, %n, %one, %zero : b32 do (%i: b32, %sum: b32) {\n"
                                "    %q = add.s64 %p, %m : b64\n"
                                "    %x = ld.b32 %q {global} : b32\n"
                                "    %q8 = add.s64 %p, %m8 : b64\n"
                                "    %x8 = ld.b32 %q8 {global} : b32\n"
                                "    barrier\n"
                                "    %q9 = add.s64 %p, %m9 : b64\n"
                                "    %x9 = ld.b32 %q9 {global} : b32\n"
                                "    %q10 = add.s64 %p, %m10 : b64\n"
                                "    %x10 = ld.b32 %q10 {global} : b32\n"
                                "    %a = add.s32 %x, %x8 : b32\n"
                                "    %b = add.s32 %x9, %x10 : b32\n"
                                "    %c = mul.s32 %a, %b : b32\n"
                                "    %d = add.s32 %sum, %c : b32\n"
                                "    yield %d\n"
                                "  }\n"
                                "  %r = add.s64 %o, %m : b64\n"
                                "  %e = add.s32 %s, %t8 : b32\n"
                                "  st.b32 %r, %e {global}\n"
                                "}\n";

static void run(const LaneFunc *f, uint32_t *in, uint32_t *out, int n) {
  uint64_t args[] = {(uint64_t)(uintptr_t)in, (uint64_t)(uintptr_t)out, (uint64_t)n};
  int32_t grid[3] = {1, 1, 1};
  LaneSimOptions o = {.grid = grid, .begin = 0, .end = 1};
  LaneSimFault fault;
  assert_true(lane_sim_run(f, args, &o, &fault));
}

static int count_before_loop(const LaneFunc *f, LaneCode code) {
  int n = 0;
  for (const LaneOp *op = f->body->first; op && op->code != LANE_FOR; op = op->next) n += op->code == code;
  return n;
}

static void addresses_again(void **state) {
  Context *cx = context_create();
  LaneFunc *before = parsed(cx, rows), *after = parsed(cx, rows);
  assert_int_equal(count_before_loop(after, LANE_MULWIDE), 4);
  lane_rematerialize(after);
  lane_verify(after, "again");
  lane_dce(after);
  lane_verify(after, "lane-dce");
  assert_int_equal(count_before_loop(after, LANE_MULWIDE), 0);
  assert_int_equal(count_before_loop(after, LANE_ADD), 0);
  /* four addresses, %t8 and the sum around the loop; two of its loads; the last address */
  assert_int_equal(lane_pressure(before), 15);
  assert_true(lane_pressure(after) <= 8);
  uint32_t in[64], want[32] = {0}, got[32] = {0};
  for (uint32_t i = 0; i < 64; i++) in[i] = i * i + 3;
  for (int n = 0; n < 3; n++) {
    run(before, in, want, n);
    run(after, in, got, n);
    assert_memory_equal(want, got, sizeof want);
  }
  context_destroy(cx);
}

/* What is not cheap, or is made of what would have to be kept instead, stays. */
static void others_stay(void **state) {
  static const char text[] = "kernel @k(%p: b64, %n: b32) warps=1 {\n"
                             "  %zero = const.b32 {0} : b32\n"
                             "  %one = const.b32 {1} : b32\n"
                             "  %x = ld.b32 %p {global} : b32\n"
                             "  %y = ld.b32 %p {global +4} : b32\n"
                             "  %sum = add.s32 %x, %y : b32\n"
                             "  %root = sqrt.f32 %x {approx} : b32\n"
                             "  %s = for.s32 %zero, %n, %one, %zero : b32 do (%i: b32, %c: b32) {\n"
                             "    barrier\n"
                             "    %a = add.s32 %c, %sum : b32\n"
                             "    %b = xor.b32 %a, %root : b32\n"
                             "    yield %b\n"
                             "  }\n"
                             "  st.b32 %p, %s {global +8}\n"
                             "}\n";
  Context *cx = context_create();
  LaneFunc *f = parsed(cx, text);
  lane_rematerialize(f);
  lane_dce(f);
  lane_verify(f, "again");
  assert_int_equal(count_before_loop(f, LANE_ADD), 1);
  assert_int_equal(count_before_loop(f, LANE_SQRT), 1);
  context_destroy(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(addresses_again), cmocka_unit_test(others_stay)};
  return cmocka_run_group_tests_name("lane_rematerialize", tests, NULL, NULL);
}
