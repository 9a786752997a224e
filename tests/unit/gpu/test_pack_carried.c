/* Tests of lane_pack_carried: loops that carry parts of words come to carry the words, and compute what they did. */
#include "gpu/lane/lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static LaneFunc *carried(Context *cx, const char *text) {
  LaneFunc *f = lane_parse(cx, source_from_text(cx, "t.lane", text, strlen(text)));
  lane_verify(f, "parsing");
  lane_pack_carried(f);
  lane_verify(f, "pack_carried");
  lane_dce(f);
  lane_verify(f, "lane-dce");
  return f;
}

static LaneOp *the_loop(LaneFunc *f) {
  LaneOp *op = f->body->first;
  while (op && op->code != LANE_FOR) op = op->next;
  assert_non_null(op);
  return op;
}

/* Sums halves and bytes of words read one iteration ahead, and stores what the last iteration read too. */
static const char *const sums =
    "kernel @k(%p: b64, %o: b64, %n: b32) warps=1 {\n"
    "  %zero = const.b32 {0} : b32\n"
    "  %one = const.b32 {1} : b32\n"
    "  %four = const.b32 {4} : b32\n"
    "  %x = ld.b32 %p {global} : b32\n"
    "  %a, %b = unpack.b32 %x : b16, b16\n"
    "  %y = ld.b32 %p {global +4} : b32\n"
    "  %c = bfe.s32 %y {bit=0 bits=8} : b32\n"
    "  %d = bfe.s32 %y {bit=8 bits=8} : b32\n"
    "  %e = bfe.s32 %y {bit=16 bits=8} : b32\n"
    "  %s, %la, %lb, %lc, %ld, %le, %lz = for.s32 %zero, %n, %one, %zero, %a, %b, %c, %d, %e, %y : b32, b16, b16, b32, "
    "b32, b32, b32 "
    "do (%i: b32, %sum: b32, %ha: b16, %hb: b16, %bc: b32, %bd: b32, %be: b32, %other: b32) {\n"
    "    %at = mulwide.s32 %i, %four : b64\n"
    "    %q = add.s64 %p, %at : b64\n"
    "    %nx = ld.b32 %q {global} : b32\n"
    "    %na, %nb = unpack.b32 %nx : b16, b16\n"
    "    %ny = ld.b32 %q {global +4} : b32\n"
    "    %nc = bfe.s32 %ny {bit=0 bits=8} : b32\n"
    "    %nd = bfe.s32 %ny {bit=8 bits=8} : b32\n"
    "    %ne = bfe.s32 %ny {bit=16 bits=8} : b32\n"
    "    %pair = pack.b32 %ha, %hb : b32\n"
    "    %s1 = add.s32 %sum, %pair : b32\n"
    "    %s2 = add.s32 %s1, %bc : b32\n"
    "    %s3 = add.s32 %s2, %bd : b32\n"
    "    %s4 = add.s32 %s3, %be : b32\n"
    "    %m = add.s32 %other, %nd : b32\n"
    "    yield %s4, %na, %nb, %nc, %nd, %ne, %m\n"
    "  }\n"
    "  %last = pack.b32 %lb, %la : b32\n"
    "  %t1 = add.s32 %last, %ld : b32\n"
    "  %t2 = add.s32 %t1, %le : b32\n"
    "  st.b32 %o, %s {global}\n"
    "  st.b32 %o, %t2 {global +4}\n"
    "  st.b32 %o, %lz {global +8}\n"
    "}\n";

static void run(const LaneFunc *f, uint32_t *in, uint32_t *out, int n) {
  uint64_t args[] = {(uint64_t)(uintptr_t)in, (uint64_t)(uintptr_t)out, (uint64_t)n};
  int32_t grid[3] = {1, 1, 1};
  LaneSimOptions o = {.grid = grid, .begin = 0, .end = 1};
  LaneSimFault fault;
  assert_true(lane_sim_run(f, args, &o, &fault));
}

static void words_for_their_parts(void **state) {
  Context *cx = context_create();
  LaneFunc *before = lane_parse(cx, source_from_text(cx, "t.lane", sums, strlen(sums)));
  LaneFunc *after = carried(cx, sums);
  LaneOp *loop = the_loop(after);
  assert_int_equal(the_loop(before)->out_count, 7);
  assert_int_equal(loop->out_count, 4); /* the sum, two words, and the number that is no part */
  for (int i = 0; i < 4; i++) {
    assert_int_equal(loop->out[i]->type, LT_B32);
    assert_int_equal(loop->out[i]->index, i);
    assert_int_equal(loop->body[0]->args[i + 1]->index, i + 1);
  }
  uint32_t in[8] = {0x80017fff, 0x7f80ff01, 0x12345678, 0xfedcba98, 5, 0xffffffff, 0x00ff00ff, 0x8000};
  for (int n = 0; n < 6; n++) {
    uint32_t want[3], got[3];
    run(before, in, want, n);
    run(after, in, got, n);
    assert_memory_equal(want, got, sizeof want);
  }
  context_destroy(cx);
}

/* One half alone, another half of another word, a part of what began as something else: they stay. */
static void others_stay(void **state) {
  static const char text[] = "kernel @k(%p: b64, %n: b32, %h: b16) warps=1 {\n"
                             "  %zero = const.b32 {0} : b32\n"
                             "  %one = const.b32 {1} : b32\n"
                             "  %x = ld.b32 %p {global} : b32\n"
                             "  %y = ld.b32 %p {global +4} : b32\n"
                             "  %a, %b = unpack.b32 %x : b16, b16\n"
                             "  %c, %d = unpack.b32 %y : b16, b16\n"
                             "  %l1, %l2, %l3, %l4 = for.s32 %zero, %n, %one, %a, %d, %h, %b : b16, b16, b16, b16 do "
                             "(%i: b32, %k1: b16, %k2: b16, %k3: b16, %k4: b16) {\n"
                             "    %v = ld.b32 %p {global} : b32\n"
                             "    %w = ld.b32 %p {global +4} : b32\n"
                             "    %e, %f = unpack.b32 %v : b16, b16\n"
                             "    %g, %j = unpack.b32 %w : b16, b16\n"
                             "    st.b16 %p, %k4 {global +8}\n"
                             "    yield %e, %j, %f, %g\n"
                             "  }\n"
                             "  st.b16 %p, %l1 {global +10}\n"
                             "  st.b16 %p, %l2 {global +12}\n"
                             "  st.b16 %p, %l3 {global +14}\n"
                             "}\n";
  Context *cx = context_create();
  assert_int_equal(the_loop(carried(cx, text))->out_count, 4);
  context_destroy(cx);
}

static void put_bytes(Buf *b, int words, bool next) { /* of words of an iteration: whether each byte is zero */
  static const char *const masks[] = {"255", "65280", "16711680", "4278190080"};
  const char *prefix = next ? "n" : "";
  for (int w = 0; w < words; w++) {
    buf_printf(b, "  %%%sx%d = ld.b32 %%p {global +%d} : b32\n", prefix, w, 4 * w + 64 * next);
    for (int i = 0; i < 4; i++) {
      buf_printf(b, "  %%%sc%d = const.b32 {%s} : b32\n", prefix, 4 * w + i, masks[i]);
      buf_printf(b, "  %%%sm%d = and.b32 %%%sx%d, %%%sc%d : b32\n", prefix, 4 * w + i, prefix, w, prefix, 4 * w + i);
      buf_printf(b, "  %%%sp%d = setp.s32 %%%sm%d, %%zero {ne} : pred\n", prefix, 4 * w + i, prefix, 4 * w + i);
    }
  }
}

/* Predicates of bytes read an iteration ahead: more than a few travel as the words that they are tests of. */
static void words_for_many_predicates(void **state) {
  for (int words = 1; words <= 2; words++) {
    int n = 4 * words;
    Buf b = {0};
    buf_puts(&b, "kernel @k(%p: b64, %o: b64, %n: b32) warps=1 {\n  %zero = const.b32 {0} : b32\n"
                 "  %one = const.b32 {1} : b32\n");
    put_bytes(&b, words, false);
    buf_puts(&b, "  %s");
    for (int i = 0; i < n; i++) buf_printf(&b, ", %%l%d", i);
    buf_puts(&b, " = for.s32 %zero, %n, %one, %zero");
    for (int i = 0; i < n; i++) buf_printf(&b, ", %%p%d", i);
    buf_puts(&b, " : b32");
    for (int i = 0; i < n; i++) buf_puts(&b, ", pred");
    buf_puts(&b, " do (%i: b32, %sum0: b32");
    for (int i = 0; i < n; i++) buf_printf(&b, ", %%h%d: pred", i);
    buf_puts(&b, ") {\n");
    put_bytes(&b, words, true);
    for (int i = 0; i < n; i++) {
      buf_printf(&b, "  %%b%d = select.b32 %%h%d, %%one, %%zero : b32\n", i, i);
      buf_printf(&b, "  %%sum%d = add.s32 %%sum%d, %%b%d : b32\n", i + 1, i, i);
    }
    buf_printf(&b, "  yield %%sum%d", n);
    for (int i = 0; i < n; i++) buf_printf(&b, ", %%np%d", i);
    buf_puts(&b, "\n  }\n  st.b32 %o, %s {global}\n}\n");
    Context *cx = context_create();
    const LaneOp *loop = the_loop(carried(cx, b.at));
    int preds = 0;
    for (int i = 0; i < loop->out_count; i++) preds += loop->out[i]->type == LT_PRED;
    assert_int_equal(loop->out_count, words == 1 ? 5 : 3);
    assert_int_equal(preds, words == 1 ? 4 : 0);
    buf_destroy(&b);
    context_destroy(cx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(words_for_their_parts), cmocka_unit_test(others_stay),
                                     cmocka_unit_test(words_for_many_predicates)};
  return cmocka_run_group_tests_name("lane_pack_carried", tests, NULL, NULL);
}
