/* Tensor memory in the simulator: the product of tests/golden/ptx/tmem.lane is right at every seed; each thing that it
 * must do for that is missed when it is left out; and what is wrong is said. */
#include "gpu/gpu.h"
#include "unit/gpu/test_order_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h> /* after base.h: it makes a macro of fail */

enum { SEEDS = 16, M = 128, N = 64, K = 64, SHOWN = 4, MOST = 3 };

typedef struct Case {
  Context *cx;
  LaneFunc *f;
} Case;

static LaneFunc *parsed(Context *cx, const char *text, size_t n) {
  volatile bool ok = false;
  LaneFunc *volatile f = NULL;
  if (context_try(cx)) {
    f = lane_parse(cx, source_from_text(cx, "t.lane", text, n));
    lane_verify(f, NULL);
    context_end_try(cx);
    ok = true;
  }
  if (!ok) fail_msg("%s", cx->diags.at[0].message);
  return f;
}

static Case product(void) {
  Case c = {.cx = context_create()};
  char text[16384] = "";
  FILE *file = fopen("tests/golden/ptx/tmem.lane", "r");
  assert_non_null(file);
  size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  const char *end = strstr(text, "// ----");
  assert_non_null(end);
  assert_true(n > 0);
  c.f = parsed(c.cx, text, (size_t)(end - text));
  return c;
}

static float number_at(int i) { return (float)((i * 37 + i / 64 * 11) % 17 - 8); }

/* The rounds all compute the same product. */
static bool run(const LaneFunc *f, int rounds, uint64_t seed, LaneSimFault *fault) {
  static uint16_t a[M * K], b[N * K];
  static float out[M * N];
  int32_t grid[] = {1, 1, 1};
  LaneSimOptions o = {.grid = grid, .end = 1, .seed = seed};
  for (int i = 0; i < M * K; i++) a[i] = f32_to_f16(number_at(i));
  for (int i = 0; i < N * K; i++) b[i] = f32_to_f16(number_at(i + 5));
  memset(out, 0, sizeof out);
  bool ok = lane_sim_run(f, (uint64_t[]){(uintptr_t)a, (uintptr_t)b, (uintptr_t)out, (uint64_t)rounds}, &o, fault);
  for (int row = 0; row < M && ok; row++)
    for (int i = 0; i < SHOWN && ok; i++) {
      float want = 0;
      for (int k = 0; k < K; k++) want += number_at(row * K + k) * number_at(i * K + k + 5);
      ok = out[row * N + i] == want;
      if (!ok)
        snprintf(fault->message, sizeof fault->message, "row %d, column %d: %g, not %g", row, i,
                 (double)out[row * N + i], (double)want);
    }
  return ok;
}

static void a_product_is_right_at_every_seed(void **state) {
  Case c = product();
  LaneSimFault fault;
  for (int rounds = 1; rounds <= MOST; rounds++)
    for (uint64_t seed = 0; seed < SEEDS; seed++)
      if (!run(c.f, rounds, seed, &fault)) fail_msg("%d rounds, seed %d: %s", rounds, (int)seed, fault.message);
  context_destroy(c.cx);
}

static bool orders(const LaneOp *op) {
  switch (op->code) {
    case LANE_TMEM_COMMIT:
    case LANE_TMEM_DEALLOC:
    case LANE_TMEM_WAIT_LD:
    case LANE_TMEM_WAIT_ST:
    case LANE_TMEM_FENCE_BEFORE:
    case LANE_TMEM_FENCE_AFTER:
    case LANE_MBAR_WAIT:
    case LANE_FENCE_MBAR:
    case LANE_FENCE_PROXY:
    case LANE_BARRIER: return true;
    default: return false;
  }
}

static bool is_wrong(const Case *c) {
  LaneSimFault fault;
  bool seen = !order_verifies(c->f);
  for (uint64_t seed = 0; seed < SEEDS && !seen; seed++) seen = !run(c->f, MOST, seed, &fault);
  return seen;
}

static void a_product_needs_all_that_it_waits_for(void **state) {
  int n = 0;
  for (;; n++) {
    Case c = product();
    LaneOp *op = order_find(c.f, orders, n);
    if (op) order_take_out(c.f, op);
    if (op && !is_wrong(&c)) fail_msg("nobody misses number %d, %s", n, lane_info[op->code].name);
    context_destroy(c.cx);
    if (!op) break;
  }
  assert_int_equal(n, 15);
}

/* ---- what is said ------------------------------------------------------------------------------------------------ */

#define KERNEL(warps, body) \
  "kernel @k(%out: b64 *f32) warps=" warps " {\nbuffer \"own\" bytes=24 align=8\n" \
  "%tid = special {tid.x} : b32\n%own = shared {buffer=0} : b32\n%c0 = const.b32 {0} : b32\n" \
  "%c1 = const.b32 {1} : b32\n%c5 = const.b32 {5} : b32\n%c21 = const.b32 {21} : b32\n%c32 = const.b32 {32} : b32\n" \
  "%warp = shr.u32 %tid, %c5 : b32\n%lane = shl.b32 %warp, %c21 : b32\n%all = const.pred {1} : pred\n" \
  "%first = setp.s32 %tid, %c0 {eq} : pred\n%warp0 = setp.s32 %warp, %c0 {eq} : pred\n" body "\n}\n"
#define IF(who, body) "if %" who " do () {\n" body "\nyield\n} do () {\nyield\n}\n"
#define ALLOC(columns) IF("warp0", "tmem_alloc %own {shared buffer=0 +16 columns=" columns "}") "barrier\n"
#define ADDRESS "%d = ld.b32 %own {shared buffer=0 +16} : b32\n%at = add.s32 %d, %lane : b32\n"
#define FREE "tmem_fence_before\nbarrier\n" IF("warp0", "tmem_fence_after\ntmem_dealloc %d {columns=32}")

/* Some seed must end in that; "": none in anything. */
static void says(const char *text, const char *message) {
  Case c = {.cx = context_create()};
  c.f = parsed(c.cx, text, strlen(text));
  LaneSimFault fault = {{0}};
  static float out[1024];
  int32_t grid[] = {1, 1, 1};
  bool found = false;
  for (uint64_t seed = 0; seed < SEEDS && !found; seed++) {
    LaneSimOptions o = {.grid = grid, .end = 1, .seed = seed};
    fault.message[0] = 0;
    bool ok = lane_sim_run(c.f, (uint64_t[]){(uintptr_t)out}, &o, &fault);
    found = !ok && (!*message || !strncmp(fault.message, message, strlen(message)));
  }
  if (found != (*message != 0)) fail_msg("'%s', not '%s'", fault.message, message);
  context_destroy(c.cx);
}

static void faults_say_what_is_wrong(void **state) {
  says(KERNEL("4", ALLOC("32") ADDRESS "tmem_st %at, %tid {rows=32}\ntmem_wait_st\n"
                                       "%x = tmem_ld %at {rows=32} : b32\n%y = tmem_wait_ld %x : b32\n" FREE),
       "");
  says(KERNEL("4", ALLOC("32") ADDRESS "tmem_st %at, %tid {rows=32}\n"
                                       "%x = tmem_ld %at {rows=32} : b32\n%y = tmem_wait_ld %x : b32\n"),
       "warp");
  says(KERNEL("4", ALLOC("32") ADDRESS "%x = tmem_ld %at {rows=32} : b32\n%y = tmem_wait_ld %x : b32\n" FREE), "lane");
  says(KERNEL("4", ALLOC("32") ADDRESS "tmem_st %d, %tid {rows=32}\ntmem_wait_st\n" FREE), "warp");
  says(KERNEL("4", ALLOC("32") "%d = ld.b32 %own {shared buffer=0 +16} : b32\n"),
       "the program ends, and has not freed its tensor memory");
  says(KERNEL("4", ALLOC("64") ADDRESS FREE), "no 32 columns were allocated at 0x");
  says(KERNEL("4", ALLOC("32") ADDRESS "%far = add.s32 %at, %c32 : b32\ntmem_st %far, %tid {rows=32}\n"), "lane");
  says(KERNEL("4", ALLOC("512") IF("warp0", "tmem_alloc %own {shared buffer=0 +16 columns=32}")),
       "no 32 columns of tensor memory are free: this never ends");
  says(KERNEL("4", IF("warp0", "tmem_relinquish\ntmem_alloc %own {shared buffer=0 +16 columns=32}")),
       "tensor memory is asked for after 'tmem_relinquish'");
  says(KERNEL("4", IF("first", "tmem_alloc %own {shared buffer=0 +16 columns=32}")), "'tmem_alloc' is a whole warp's");
  says(KERNEL("4", IF("warp0", "tmem_commit %own {shared buffer=0}")), "'tmem_commit' is one thread's");
}

/* The verifier's part. */
static void wrong(const char *text, const char *message) {
  Context *cx = context_create();
  if (context_try(cx)) {
    lane_verify(lane_parse(cx, source_from_text(cx, "t.lane", text, strlen(text))), NULL);
    context_end_try(cx);
  }
  if (!cx->diags.n) fail_msg("nothing is wrong, not '%s'", message);
  if (!strstr(cx->diags.at[0].message, message)) fail_msg("'%s', not '%s'", cx->diags.at[0].message, message);
  context_destroy(cx);
}

static void shapes_are_checked(void **state) {
  wrong(KERNEL("4", IF("warp0", "tmem_alloc %own {shared buffer=0 columns=48}")), "48 columns");
  wrong(KERNEL("4", IF("warp0", "tmem_alloc %own {shared buffer=0 columns=16}")), "16 columns");
  wrong(KERNEL("4", "tmem_mma.f16 %c0, %c0, %c0, %all {rows=96 columns=64}"), "96 rows");
  wrong(KERNEL("4", "tmem_mma.f16 %c0, %c0, %c0, %all {rows=128 columns=24}"), "24 columns");
  wrong(KERNEL("4", "tmem_mma.f16 %c0, %c0, %c0, %all {rows=128 columns=272}"), "272 columns");
  wrong(KERNEL("4", "tmem_mma.s8 %c0, %c0, %c0, %all {trans_a rows=128 columns=64}"), "only operands of 16 bits");
  wrong(KERNEL("4", "%x, %y = tmem_ld %c0 {rows=16} : b32, b32"), "2 registers");
  wrong(KERNEL("4", "%x = tmem_ld %c0 {rows=32} : b32\nst.b32 %out, %x {global}"), "nobody has waited for");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_product_is_right_at_every_seed),
      cmocka_unit_test(a_product_needs_all_that_it_waits_for),
      cmocka_unit_test(faults_say_what_is_wrong),
      cmocka_unit_test(shapes_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
