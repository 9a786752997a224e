/* Tests of what lane IR means: the simulator, the evaluation of single operations, and that folding changes nothing. */
#include "gpu/lane_table.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { THREADS = 64 };

static uint64_t draw(uint64_t *random) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return *random >> 32 | *random << 32;
}

static LaneFunc *parse(Context *cx, const char *text) {
  LaneFunc *f = lane_parse(cx, source_from_text(cx, "t.lane", text, strlen(text)));
  lane_verify(f, NULL);
  return f;
}

typedef struct Launch {
  int32_t grid[3];
  const char *fault;
  int thread;
} Launch;

/* Runs text; asserts that it ends without a fault, or with the one that `launch` expects. */
static void run_with(const char *text, const uint64_t *args, const Launch *launch) {
  Context *cx = context_create();
  if (context_try(cx)) {
    LaneFunc *f = parse(cx, text);
    LaneSimFault fault;
    LaneSimOptions o = {.grid = launch->grid, .end = (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2]};
    bool ok = lane_sim_run(f, args, &o, &fault);
    assert_string_equal(fault.message, launch->fault ? launch->fault : "");
    assert_int_equal(ok, launch->fault == NULL);
    if (!ok) {
      assert_int_equal(fault.thread, launch->thread);
      assert_non_null(fault.span);
    }
    context_end_try(cx);
  } else {
    fail_msg("%s", cx->diags.at[0].message);
  }
  context_destroy(cx);
}

static void run(const char *text, const uint64_t *args) { run_with(text, args, &(Launch){{1, 1, 1}, NULL, 0}); }

static void run_faults(const char *text, const uint64_t *args, int thread, const char *message) {
  run_with(text, args, &(Launch){{1, 1, 1}, message, thread});
}

/* ---- single operations ---- */

static uint64_t eval(LaneOp op, uint64_t x, uint64_t y, uint64_t z) {
  uint64_t out[2] = {0};
  if (!op.in_count) op.in_count = lane_info[op.code].min_in;
  assert_true(lane_eval(&op, (uint64_t[]){x, y, z}, out));
  return out[0];
}

#define OP(c, k, ...) ((LaneOp){.code = LANE_##c, .kind = LK_##k, __VA_ARGS__})
#define GIVES(want, op, x, y, z) assert_int_equal(eval(op, x, y, z), want)

static void integers(void **state) {
  GIVES(0x80000000, OP(ADD, S32), 0x7fffffff, 1, 0);
  GIVES(0xfffffffe, OP(MUL, S32), 0x7fffffff, 2, 0);
  GIVES(0xffffffff, OP(MULHI, S32), 0xffffffff, 5, 0);
  GIVES(4, OP(MULHI, U32), 0xffffffff, 5, 0);
  GIVES(~0ull, OP(MULHI, S64), ~0ull, 5, 0);
  GIVES(4, OP(MULHI, U64), ~0ull, 5, 0);
  GIVES((uint64_t)-5, OP(MULWIDE, S32), 0xffffffff, 5, 0);
  GIVES(0x4fffffffbull, OP(MULWIDE, U32), 0xffffffff, 5, 0);
  GIVES(17, OP(FMA, S32), 3, 4, 5);
  GIVES((uint32_t)-3, OP(DIV, S32), (uint32_t)-7, 2, 0);
  GIVES((uint32_t)-1, OP(REM, S32), (uint32_t)-7, 2, 0);
  GIVES(0x80000000, OP(DIV, S32), 0x80000000, 0xffffffff, 0);
  GIVES(0, OP(REM, S32), 0x80000000, 0xffffffff, 0);
  GIVES(1ull << 63, OP(DIV, S64), 1ull << 63, ~0ull, 0);
  GIVES((uint32_t)-7, OP(MIN, S32), (uint32_t)-7, 2, 0);
  GIVES(2, OP(MIN, U32), (uint32_t)-7, 2, 0);
  GIVES(7, OP(ABS, S32), (uint32_t)-7, 0, 0);
  GIVES(0, OP(SHL, B32), 1, 32, 0);
  GIVES(0, OP(SHR, U32), 0x80000000, 40, 0);
  GIVES(0xffffffff, OP(SHR, S32), 0x80000000, 40, 0);
  GIVES(~0ull, OP(SHR, S64), 1ull << 63, 200, 0);
  GIVES(0, OP(SHL, B64), 1, 0xffffffff, 0);
  GIVES(0xffff0000, OP(NOT, B32), 0xffff, 0, 0);
  GIVES(1, OP(NOT, PRED), 0, 0, 0);
  GIVES(32, OP(CLZ, B32), 0, 0, 0);
  GIVES(31, OP(CLZ, B32), 1, 0, 0);
  GIVES(63, OP(CLZ, B64), 1, 0, 0);
  GIVES(64, OP(POPC, B64), ~0ull, 0, 0);
  GIVES(0x80000000, OP(BREV, B32), 1, 0, 0);
  GIVES(1ull << 63, OP(BREV, B64), 1, 0, 0);
  GIVES(0xffffffff, OP(BFE, S32, .bit = 4, .bits = 4), 0xf0, 0, 0);
  GIVES(0xf, OP(BFE, U32, .bit = 4, .bits = 4), 0xf0, 0, 0);
  GIVES(0xfffffff8, OP(BFE, S32, .bit = 28, .bits = 8), 0x80000000, 0, 0); /* past the top: the sign */
  GIVES(8, OP(BFE, U32, .bit = 28, .bits = 8), 0x80000000, 0, 0);
  GIVES(0xabcd5678, OP(BFI, B32, .bit = 16, .bits = 16), 0x1abcd, 0x12345678, 0);
  GIVES(0x12345678, OP(PRMT, B32), 0x12345678, 0x9abcdef0, 0x3210);
  GIVES(0xf0780012, OP(PRMT, B32), 0x12345678, 0x9abcdef0, 0x40b3); /* b: the sign of byte 3, which is 0 */
  GIVES(0xff, OP(PRMT, B32), 0x80, 0, 0x4448);
  GIVES(0x12345678, OP(FUNNEL, B32), 0x89abcdef, 0x01234567, 36); /* only 5 bits count: by 4 */
  GIVES(0x789abcde, OP(FUNNEL, B32, .right = 1), 0x89abcdef, 0x01234567, 4);
  GIVES(10, OP(SAD, S32), (uint32_t)-3, 4, 3);
  GIVES(0x87654321, OP(PACK, B32), 0x4321, 0x8765, 0);
  GIVES(0x8765432112345678, OP(PACK, B64), 0x12345678, 0x87654321, 0);
  GIVES(5, OP(SELECT, B32), 1, 5, 6);
  GIVES(1, OP(SETP, S32, .pred = CMP_LT), 0xffffffff, 0, 0);
  GIVES(0, OP(SETP, U32, .pred = CMP_LT), 0xffffffff, 0, 0);
}

static uint64_t f32(float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return bits;
}
static uint64_t f64(double v) {
  uint64_t bits;
  memcpy(&bits, &v, 8);
  return bits;
}

static void floats(void **state) {
  uint64_t nan = 0x7fc00000, tiny = 1, inf = f32(INFINITY);
  GIVES(f32(0x1.000002p0f), OP(ADD, F32), f32(1), f32(0x1.8p-24f), 0);
  GIVES(f32(1), OP(ADD, F32, .rounding = ROUND_RZ), f32(1), f32(0x1.8p-24f), 0);
  GIVES(f32(0x1.000002p0f), OP(ADD, F32, .rounding = ROUND_RP), f32(1), f32(0x1p-60f), 0);
  GIVES(f32(1 - 0x1p-24f), OP(SUB, F32, .rounding = ROUND_RM), f32(1), f32(0x1p-60f), 0);
  GIVES(f64(1), OP(ADD, F64, .rounding = ROUND_RZ), f64(1), f64(0x1p-53), 0);
  GIVES(0x7fffffff, OP(ADD, F32), inf, f32(-INFINITY), 0);
  GIVES(0x7fffffff, OP(MUL, F32), nan | 5, f32(1), 0);
  GIVES(f32(0x1p-46f), OP(FMA, F32), f32(1 + 0x1p-23f), f32(1 + 0x1p-23f), f32(-1 - 0x1p-22f));
  GIVES(0, OP(ADD, F32, .ftz = 1), tiny, tiny, 0);
  GIVES(2, OP(ADD, F32), tiny, tiny, 0);
  GIVES(0x80000000, OP(MUL, F32, .ftz = 1), 0x80000001, f32(4), 0);
  GIVES(0, OP(MUL, F32, .ftz = 1), f32(0x1p-126f), f32(0.5), 0); /* a result too */
  GIVES(f32(2), OP(MIN, F32), f32(2), nan, 0);
  GIVES(0x7fffffff, OP(MIN, F32, .nan = 1), f32(2), nan, 0);
  GIVES(0x7fffffff, OP(MAX, F32), nan, nan, 0);
  GIVES(0x80000000, OP(MIN, F32), 0, 0x80000000, 0);
  GIVES(0, OP(MAX, F32), 0x80000000, 0, 0);
  GIVES(f32(-2), OP(COPYSIGN, F32), f32(-0.0f), f32(2), 0);
  GIVES(nan | 1u << 31, OP(NEG, F32), nan, 0, 0);
  GIVES(f32(1.0f / 3), OP(DIV, F32), f32(1), f32(3), 0);
  GIVES(f32(0.25), OP(RCP, F32, .approx = 1), f32(4), 0, 0);
  GIVES(f32(0.5), OP(RSQRT, F32), f32(4), 0, 0);
  GIVES(f32(8), OP(EX2, F32), f32(3), 0, 0);
  GIVES(f32(3), OP(LG2, F32), f32(8), 0, 0);
  GIVES(f32(2), OP(ROUND, F32), f32(2.5), 0, 0);
  GIVES(f32(3), OP(ROUND, F32, .rounding = ROUND_RP), f32(2.5), 0, 0);
  GIVES(f64(-3), OP(ROUND, F64, .rounding = ROUND_RM), f64(-2.5), 0, 0);
  GIVES(0, OP(SETP, F32, .pred = CMP_LT), nan, f32(1), 0);
  GIVES(1, OP(SETP, F32, .pred = CMP_LT, .unordered = 1), nan, f32(1), 0);
  GIVES(1, OP(SETP, F32, .pred = CMP_NE), nan, nan, 0);
  GIVES(1, OP(SETP, F32, .pred = CMP_EQ), 0, 0x80000000, 0);
  GIVES(1, OP(SETP, F32, .pred = CMP_EQ, .ftz = 1), tiny, 0, 0);
  GIVES(0x4000 | 0x4400u << 16, OP(ADD, F16X2), 0x3c00 | 0x4000u << 16, 0x3c00 | 0x4000u << 16, 0);
  GIVES(0x4040, OP(FMA, BF16), 0x3f80, 0x4000, 0x3f80);
  GIVES(0x7fff, OP(ADD, F16), 0x7c00, 0xfc00, 0);
  GIVES(0x7c00, OP(ADD, F16), 0x7bff, 0x7bff, 0);
}

static void conversions(void **state) {
  uint64_t nan = 0x7fc00000, nan64 = 0x7ff8ull << 48;
#define CVT(from, t, ...) OP(CVT, from, .to = LK_##t, __VA_ARGS__)
  GIVES(0x7fffffff, CVT(F32, S32, 0), f32(3e9f), 0, 0);
  GIVES(0x80000000, CVT(F32, S32, 0), f32(-3e9f), 0, 0);
  GIVES((uint32_t)-2, CVT(F32, S32, 0), f32(-2.9f), 0, 0);
  GIVES((uint32_t)-3, CVT(F32, S32, .rounding = ROUND_RN), f32(-2.9f), 0, 0);
  GIVES((uint32_t)-3, CVT(F32, S32, .rounding = ROUND_RM), f32(-2.1f), 0, 0);
  GIVES(0, CVT(F32, U32, 0), f32(-1), 0, 0);
  GIVES(3000000000u, CVT(F32, U32, 0), f32(3e9f), 0, 0);
  GIVES(0, CVT(F32, S32, 0), nan, 0, 0);
  GIVES(0x80000000, CVT(F64, S32, 0), nan64, 0, 0);
  GIVES(1ull << 63, CVT(F32, S64, 0), nan, 0, 0);
  GIVES(127, CVT(F32, S8, 0), f32(200), 0, 0);
  GIVES(0xffffff80, CVT(F32, S8, 0), f32(-200), 0, 0);
  GIVES(255, CVT(F32, U8, 0), f32(300), 0, 0);
  GIVES(f32(16777216), CVT(S32, F32, 0), 16777217, 0, 0);
  GIVES(f32(16777218), CVT(S32, F32, .rounding = ROUND_RP), 16777217, 0, 0);
  GIVES(f32(-1), CVT(S64, F32, 0), ~0ull, 0, 0);
  GIVES(f32(0x1p64f), CVT(U64, F32, 0), ~0ull, 0, 0);
  GIVES(f64(4294967295.0), CVT(U32, F64, 0), 0xffffffff, 0, 0);
  GIVES(0xffffff80, CVT(S32, S8, 0), 0x180, 0, 0);
  GIVES(0x7f, CVT(S32, S8, .sat = 1), 0x180, 0, 0);
  GIVES(0, CVT(S32, U8, .sat = 1), (uint32_t)-5, 0, 0);
  GIVES(0xffffffff, CVT(U64, U32, .sat = 1), 1ull << 40, 0, 0);
  GIVES((uint64_t)-5, CVT(S32, S64, 0), (uint32_t)-5, 0, 0);
  GIVES(0xfffffffb, CVT(U32, U64, 0), (uint32_t)-5, 0, 0);
  GIVES(0x3c00, CVT(F32, F16, 0), f32(1), 0, 0);
  GIVES(0x7c00, CVT(F32, F16, 0), f32(65520), 0, 0);
  GIVES(0x7bff, CVT(F32, F16, .rounding = ROUND_RZ), f32(65520), 0, 0);
  GIVES(0x7bff, CVT(F32, F16, 0), f32(65519), 0, 0);
  GIVES(0x7fff, CVT(F32, F16, 0), nan, 0, 0);
  GIVES(1, CVT(F32, F16, .rounding = ROUND_RP), f32(0x1p-60f), 0, 0);
  GIVES(0x3f80, CVT(F32, BF16, 0), f32(1 + 0x1p-8f), 0, 0);
  GIVES(0x3f81, CVT(F32, BF16, 0), f32(1 + 0x1.2p-8f), 0, 0);
  GIVES(f32(0x1p-24f), CVT(F16, F32, 0), 1, 0, 0);
  GIVES(f32(1), CVT(F32, F32, .sat = 1), f32(7), 0, 0);
  GIVES(0, CVT(F32, F32, .sat = 1), nan, 0, 0);
  GIVES(f32(0x1.fffffep127f), CVT(F64, F32, .rounding = ROUND_RZ), f64(1e300), 0, 0);
  GIVES(f32(INFINITY), CVT(F64, F32, 0), f64(1e300), 0, 0);
  GIVES(0x3c00 | 0x4000u << 16, OP(CVT2, F32, .to = LK_F16X2), f32(1), f32(2), 0);
  GIVES(0x7bff, OP(CVT2, F32, .to = LK_F16X2, .sat = 1), f32(1e9f), f32(0), 0);
  GIVES(0x38 | 0x7e << 8, OP(CVT2, F32, .to = LK_E4M3X2, .sat = 1), f32(1), f32(1e9f), 0);
  GIVES(0x3c | 0x7b << 8, OP(CVT2, F32, .to = LK_E5M2X2, .sat = 1), f32(1), f32(1e9f), 0);
  GIVES(0x3c00 | 0xc000u << 16, OP(CVT1X2, E4M3X2, .to = LK_F16X2), 0x38 | 0xc0 << 8, 0, 0);
  GIVES(0x38 | 0xc0 << 8, OP(CVT1X2, F16X2, .to = LK_E4M3X2), 0x3c00 | 0xc000u << 16, 0, 0);
  GIVES(0x7f, OP(CVT1X2, F16X2, .to = LK_E4M3X2), 0x7e00, 0, 0);
}

/* Half-precision results against exact sums in fixed point: 2^-48 is a one. What is given must be nearest, and even at
 * a tie. */
static __int128 fixed_f16(uint64_t bits, int scale) {
  int e = (int)(bits >> 10 & 31);
  __int128 m = e ? (bits & 0x3ff) | 0x400 : bits & 0x3ff;
  m <<= (e ? e - 1 : 0) + scale - 24;
  return bits & 0x8000 ? -m : m;
}

static void check_f16(__int128 exact, uint64_t got) {
  uint64_t magnitude = got & 0x7fff, sign = got & 0x8000;
  __int128 largest = fixed_f16(0x7bff, 48), half_step = fixed_f16(0x7bff, 48) - fixed_f16(0x7bfe, 48);
  __int128 a = exact < 0 ? -exact : exact;
  if (exact != 0) assert_int_equal(sign != 0, exact < 0);
  if (magnitude == 0x7c00) {
    assert_true(a >= largest + half_step / 2);
    return;
  }
  assert_true(magnitude < 0x7c00);
  __int128 mine = fixed_f16(magnitude, 48), below = a - mine, distance = below < 0 ? -below : below;
  __int128 other = below < 0 ? a - fixed_f16(magnitude - 1, 48)
                             : (magnitude == 0x7bff ? largest + half_step : fixed_f16(magnitude + 1, 48)) - a;
  assert_true(distance < other || (distance == other && !(magnitude & 1)));
}

static void halves_round_once(void **state) {
  uint64_t random = 7;
  for (int i = 0; i < 200000; i++) {
    uint64_t r = draw(&random), x = r & 0xffff, y = r >> 16 & 0xffff, z = r >> 32 & 0xffff;
    if (i % 2)
      z = (z & 0x83ff) | (uint64_t)((x >> 10 & 31) + (y >> 10 & 31) > 41 ? (x >> 10 & 31) + (y >> 10 & 31) - 26 : 15)
                             << 10; /* near the product */
    if ((x & 0x7c00) == 0x7c00 || (y & 0x7c00) == 0x7c00 || (z & 0x7c00) == 0x7c00) continue;
    __int128 product = fixed_f16(x, 24) * fixed_f16(y, 24);
    check_f16(product + fixed_f16(z, 48), eval(OP(FMA, F16), x, y, z));
    check_f16(product, eval(OP(MUL, F16), x, y, 0));
    check_f16(fixed_f16(x, 48) + fixed_f16(y, 48), eval(OP(ADD, F16), x, y, 0));
    check_f16(fixed_f16(x, 48) - fixed_f16(y, 48), eval(OP(SUB, F16), x, y, 0));
  }
}

/* ---- the loops over threads against the evaluation of one ---- */

/* A kernel that does the operation and stores its results, each as 64 bits. */
static LaneFunc *make_single(Context *cx, LaneOp proto, LaneOp **out) {
  LaneFunc *f = lane_func_create(cx, "k");
  f->num_warps = 2;
  LaneBuilder b = lane_builder(f);
  LaneType type = lane_kind_info[proto.kind].type, half = type == LT_B64 ? LT_B32 : LT_B16, result;
  LaneValue *in[3];
  int n = lane_info[proto.code].min_in;
  for (int i = 0; i < n; i++) {
    LaneType t = proto.code == LANE_PACK ? half : type;
    if (proto.code == LANE_SELECT && i == 0) t = LT_PRED;
    if ((proto.code == LANE_SHL || proto.code == LANE_SHR) && i == 1) t = LT_B32;
    in[i] = lane_func_param(f, t, NULL, 1);
  }
  LaneValue *to = lane_func_param(f, LT_B64, NULL, 1);
  if (proto.code == LANE_UNPACK) {
    *out = lane_op_raw(&b, proto, 1, in, 2, (LaneType[]){half, half});
  } else {
    lane_result_type(&proto, &result);
    *out = lane_op_raw(&b, proto, n, in, 1, &result);
  }
  lane_verify(f, NULL);
  LaneValue *mine = lane_2(&b, LANE_MULWIDE, LK_S32, lane_special(&b, SP_TID_X), lane_i32(&b, 16));
  for (int i = 0; i < (*out)->out_count; i++) {
    LaneValue *v = (*out)->out[i];
    if (v->type == LT_PRED) v = lane_select(&b, v, lane_i32(&b, 1), lane_i32(&b, 0));
    if (v->type == LT_B16) v = lane_pack(&b, v, lane_const(&b, LT_B16, 0));
    if (v->type == LT_B32) v = lane_cvt(&b, LK_U32, LK_U64, ROUND_DEFAULT, v);
    lane_store(&b, SPACE_GLOBAL, LK_B64, 1, lane_2(&b, LANE_ADD, LK_S64, to, mine), 8 * i, NULL, &v);
  }
  lane_verify(f, NULL);
  return f;
}

/* NULL when there is no such operation, which the verifier says of most pairs of code and kind. */
static LaneFunc *single_operation(Context *cx, LaneOp proto, LaneOp **out) {
  LaneFunc *volatile made = NULL;
  if (context_try(cx)) {
    made = make_single(cx, proto, out);
    context_end_try(cx);
  }
  return made;
}

static void check_single(const LaneFunc *f, const LaneOp *op, uint64_t *random) {
  static const uint64_t special[] = {0,          1,          2,          31,         32,         33,
                                     63,         64,         0x7f800000, 0xff800000, 0x7fc00001, 0x80000000,
                                     0x7fffffff, 0xffffffff, 0x3f800000, 1ull << 63, ~0ull,      0x3ffull << 52,
                                     0x3c00,     0x7c00};
  for (int round = 0; round < 40; round++) {
    uint64_t args[4], want[2] = {0}, got[2 * THREADS] = {0};
    int n = op->in_count;
    for (int i = 0; i < n; i++) {
      args[i] = draw(random) % 3 ? draw(random) : special[draw(random) % (sizeof special / sizeof *special)];
      args[i] &= lane_type_mask(op->in[i]->type);
    }
    lane_eval(op, args, want);
    args[n] = (uint64_t)(uintptr_t)got;
    LaneSimFault fault;
    assert_true(lane_sim_run(f, args, &(LaneSimOptions){.grid = (int32_t[]){1, 1, 1}, .end = 1}, &fault));
    for (int t = 0; t < THREADS; t += 21)
      for (int i = 0; i < op->out_count; i++)
        if (got[2 * t + i] != want[i])
          fail_msg("%s.%s of 0x%llx 0x%llx: 0x%llx, not 0x%llx", lane_info[op->code].name,
                   lane_kind_info[op->kind].name, (unsigned long long)args[0], (unsigned long long)args[1],
                   (unsigned long long)got[2 * t + i], (unsigned long long)want[i]);
  }
}

static void loops_agree_with_eval(void **state) {
  static const LaneKind kinds[] = {LK_PRED, LK_B16, LK_B32,  LK_B64, LK_S32, LK_U32,   LK_S64,
                                   LK_U64,  LK_F16, LK_BF16, LK_F32, LK_F64, LK_F16X2, LK_BF16X2};
  uint64_t random = 3;
  int checked = 0;
  for (int code = 0; code < LANE_COUNT; code++)
    for (int i = 0; i < 14; i++)
      for (int variant = 0; variant < 6; variant++) {
        if (lane_info[code].effect != LE_PURE || lane_info[code].max_in < 1) continue;
        Context *cx = context_create();
        LaneOp proto = {.code = (LaneCode)code, .kind = kinds[i], .to = kinds[(i + variant) % 14], .bit = 3, .bits = 7};
        proto.pred = (uint8_t)variant;
        LaneOp *op;
        LaneFunc *f = single_operation(cx, proto, &op);
        if (f) check_single(f, op, &random), checked++;
        context_destroy(cx);
      }
  assert_true(checked > 600);
}

/* ---- folding changes nothing ---- */

/* Values of one class are made from each other. Floats have classes of their own: a NaN's payload may differ, so bits
 * of floats are looked at by nobody but float operations. */
enum { POOL = 40, FLOAT_CLASS = 4, CLASSES = 8 };
static const LaneKind class_kinds[CLASSES] = {LK_PRED, LK_B16, LK_B32, LK_B64, LK_F16, LK_BF16, LK_F32, LK_F64};

typedef struct Twin {
  LaneValue *raw, *folded;
} Twin;
typedef struct Twins {
  Twin at[CLASSES][POOL];
  int n[CLASSES], last[CLASSES];
  uint64_t random;
  LaneBuilder raw, folded;
} Twins;

static int below(Twins *w, int n) { return (int)(draw(&w->random) % (uint64_t)n); }

static LaneType class_type(int class) { return lane_kind_info[class_kinds[class]].type; }

static int class_of(LaneKind k) {
  for (int i = FLOAT_CLASS; i < CLASSES; i++)
    if (class_kinds[i] == k) return i;
  return lane_kind_info[k].type;
}

static void keep(Twins *w, int class, Twin v) {
  w->last[class] = w->n[class] < POOL ? w->n[class]++ : (w->last[class] + 1) % POOL;
  w->at[class][w->last[class]] = v;
}

/* The same operation twice, on random values of these classes: as it is, and through the builder's folding. */
static void both(Twins *w, LaneOp op, int result, int n, const int *classes) {
  LaneValue *a[3], *b[3];
  LaneType type;
  for (int i = 0; i < n; i++) {
    int count = w->n[classes[i]], recent = count < 5 ? count : 5;
    Twin t =
        w->at[classes[i]][below(w, 4) ? (w->last[classes[i]] + count - below(w, recent)) % count : below(w, count)];
    a[i] = t.raw;
    b[i] = t.folded;
  }
  assert_true(lane_result_type(&op, &type));
  keep(w, result, (Twin){lane_op_raw(&w->raw, op, n, a, 1, &type)->out[0], lane_op(&w->folded, op, n, b)});
}

/* The last one but `back`, or so. */
static Twin recent_value(Twins *w, int class, int back) {
  int count = w->n[class];
  return w->at[class][(w->last[class] + 2 * count - back - (back ? below(w, 4) : 0)) % count];
}

static void random_const(Twins *w, int class) {
  static const int64_t numbers[] = {0, 1, 2, 3, 4, 7, 8, 31, 32, -1, -2, 255, 1023, INT32_MAX, INT32_MIN};
  static const double floats[] = {0, 1, -1, 2, 0.5, -0.0, 3e9, 1e-40, INFINITY};
  uint64_t bits = (uint64_t)numbers[below(w, 15)];
  if (class >= FLOAT_CLASS) {
    LaneOp op = OP(CVT, F64, .to = class_kinds[class]);
    bits = eval(op, f64(floats[below(w, 9)]), 0, 0);
  }
  LaneType t = class_type(class);
  keep(w, class, (Twin){lane_const(&w->raw, t, bits), lane_const(&w->folded, t, bits)});
}

static void random_twins(Twins *w) {
  static const LaneKind ints[] = {LK_S32, LK_U32, LK_S64, LK_U64}, small[] = {LK_S8, LK_U8, LK_S16, LK_U16};
  static const LaneKind all[] = {LK_S32, LK_U32, LK_S64, LK_U64, LK_F16, LK_BF16, LK_F32, LK_F64};
  static const LaneCode arithmetic[] = {LANE_ADD, LANE_ADD, LANE_ADD, LANE_SUB,   LANE_SUB, LANE_MUL,
                                        LANE_MIN, LANE_MAX, LANE_DIV, LANE_MULHI, LANE_REM};
  static const LaneCode logic[] = {LANE_AND, LANE_OR, LANE_XOR};
  static const LaneCode on_floats[] = {LANE_ADD, LANE_SUB, LANE_MUL, LANE_DIV, LANE_MIN, LANE_MAX};
  LaneOp op = {.kind = ints[below(w, 4)]};
  int c = class_of(op.kind), f = FLOAT_CLASS + below(w, 4), any = below(w, CLASSES);
  switch (below(w, 24)) {
  case 0:
  case 1:
  case 2: random_const(w, any); break;
  case 3:
  case 4:
  case 5:
    op.code = arithmetic[below(w, 11)];
    both(w, op, c, 2, (int[]){c, c});
    break;
  case 6:
    op.code = LANE_FMA;
    both(w, op, c, 3, (int[]){c, c, c});
    break;
  case 7:
    op.code = logic[below(w, 3)];
    c = below(w, 4);
    op.kind = class_kinds[c];
    both(w, op, c, 2, (int[]){c, c});
    break;
  case 8:
    op.code = below(w, 2) ? LANE_SHL : LANE_SHR;
    if (op.code == LANE_SHL) op.kind = class_kinds[c];
    both(w, op, c, 2, (int[]){c, LT_B32});
    break;
  case 9:
  case 10:
    op.code = LANE_SETP;
    op.pred = (uint8_t)below(w, 6);
    op.kind = all[below(w, 8)];
    op.unordered = lane_kind_is_float(op.kind) && below(w, 2);
    c = class_of(op.kind);
    both(w, op, LT_PRED, 2, (int[]){c, c});
    break;
  case 11:
  case 12:
    op = (LaneOp){.code = LANE_SELECT, .kind = lane_bits_kind(class_type(any))};
    both(w, op, any, 3, (int[]){LT_PRED, any, any});
    break;
  case 13:
    op.code = below(w, 2) ? LANE_NEG : LANE_ABS;
    if (below(w, 3) == 0) {
      op.code = LANE_NOT;
      c = below(w, 4);
      op.kind = class_kinds[c];
    }
    both(w, op, c, 1, &c);
    break;
  case 14: {
    op.code = LANE_BFE;
    int width = lane_kind_info[op.kind].bits;
    op.bit = (uint8_t)(below(w, 2) ? 0 : below(w, width));
    op.bits = (uint8_t)(below(w, 2) ? 8 : 1 + below(w, width));
    both(w, op, c, 1, &c);
    break;
  }
  case 15:
    op.code = LANE_CVT;
    op.kind = all[below(w, 8)];
    op.to = below(w, 4) ? all[below(w, 8)] : small[below(w, 4)];
    if (lane_kind_is_float(op.kind) != lane_kind_is_float(op.to)) op.rounding = (uint8_t)below(w, 4);
    c = class_of(op.kind);
    both(w, op, class_of(op.to), 1, &c);
    break;
  case 18: { /* bytes: selectors that are known, and signs in them now and then */
    op = OP(PRMT, B32, 0);
    uint64_t selector = draw(&w->random) & (below(w, 3) ? 0x7777 : 0xffff);
    keep(w, LT_B32, (Twin){lane_const(&w->raw, LT_B32, selector), lane_const(&w->folded, LT_B32, selector)});
    Twin in[] = {recent_value(w, LT_B32, 1), recent_value(w, LT_B32, 1), recent_value(w, LT_B32, 0)};
    LaneValue *raw[] = {in[0].raw, in[1].raw, in[2].raw}, *folded[] = {in[0].folded, in[1].folded, in[2].folded};
    LaneType type = LT_B32;
    keep(w, LT_B32, (Twin){lane_op_raw(&w->raw, op, 3, raw, 1, &type)->out[0], lane_op(&w->folded, op, 3, folded)});
    break;
  }
  case 19: { /* fields of whole bytes */
    op = OP(BFE, U32, .bit = (uint8_t)(8 * below(w, 4)), .bits = (uint8_t)(8 + 8 * below(w, 2)));
    both(w, op, LT_B32, 1, (int[]){LT_B32});
    break;
  }
  case 20:
    op = below(w, 2) ? OP(PACK, B32, 0) : OP(PACK, B64, 0);
    c = op.kind == LK_B32 ? LT_B16 : LT_B32;
    both(w, op, c + 1, 2, (int[]){c, c});
    break;
  case 21: {
    c = below(w, 2) ? LT_B32 : LT_B64;
    Twin x = recent_value(w, c, 0), low, high;
    LaneType half[2] = {(LaneType)(c - 1), (LaneType)(c - 1)};
    LaneOp *raw = lane_op_raw(&w->raw, (LaneOp){.code = LANE_UNPACK, .kind = class_kinds[c]}, 1, &x.raw, 2, half);
    low.raw = raw->out[0];
    high.raw = raw->out[1];
    lane_unpack(&w->folded, x.folded, &low.folded, &high.folded);
    keep(w, c - 1, low);
    keep(w, c - 1, high);
    break;
  }
  case 22:
    op.code = (LaneCode[]){LANE_POPC, LANE_CLZ, LANE_BREV, LANE_MOVE}[below(w, 4)];
    c = LT_B32;
    op.kind = LK_B32;
    both(w, op, c, 1, &c);
    break;
  case 23: { /* an index: small, so that its sum with a constant does not overflow, as mulwide takes for granted */
    LaneValue *mask[] = {lane_i32(&w->raw, 0xffff), lane_i32(&w->folded, 0xffff)};
    int32_t by = below(w, 9) - 4, plus = below(w, 200) - 100;
    Twin x = recent_value(w, LT_B32, 0);
    LaneType narrow = LT_B32, wide = LT_B64;
    LaneOp and = OP(AND, B32, 0), add = OP(ADD, S32, 0), mul = OP(MULWIDE, S32, 0);
    LaneValue *a = lane_op_raw(&w->raw, and, 2, (LaneValue *[]){x.raw, mask[0]}, 1, &narrow)->out[0];
    a = lane_op_raw(&w->raw, add, 2, (LaneValue *[]){a, lane_i32(&w->raw, plus)}, 1, &narrow)->out[0];
    a = lane_op_raw(&w->raw, mul, 2, (LaneValue *[]){a, lane_i32(&w->raw, by)}, 1, &wide)->out[0];
    LaneValue *b = lane_2(&w->folded, LANE_AND, LK_B32, x.folded, mask[1]);
    b = lane_2(&w->folded, LANE_MULWIDE, LK_S32, lane_2(&w->folded, LANE_ADD, LK_S32, b, lane_i32(&w->folded, plus)),
               lane_i32(&w->folded, by));
    keep(w, LT_B64, (Twin){a, b});
    break;
  }
  case 16:
    op.code = below(w, 2) ? LANE_NEG : LANE_ABS;
    op.kind = class_kinds[f];
    both(w, op, f, 1, &f);
    break;
  default:
    op.code = on_floats[below(w, 6)];
    op.kind = class_kinds[f];
    if (op.code == LANE_DIV && op.kind < LK_F32) op.code = LANE_MUL;
    op.ftz = op.kind == LK_F32 && below(w, 3) == 0;
    both(w, op, f, 2, (int[]){f, f});
  }
}

static void store_all(LaneBuilder *b, const Twins *w, LaneValue *to, bool folded) {
  LaneValue *mine = lane_2(b, LANE_MULWIDE, LK_S32, lane_special(b, SP_TID_X), lane_i32(b, CLASSES * POOL * 8));
  LaneValue *at = lane_2(b, LANE_ADD, LK_S64, to, mine);
  for (int c = 0; c < CLASSES; c++)
    for (int i = 0; i < w->n[c]; i++) {
      LaneValue *v = folded ? w->at[c][i].folded : w->at[c][i].raw;
      LaneKind k = lane_bits_kind(class_type(c));
      if (c == LT_PRED) {
        LaneOp op = OP(SELECT, B32, .buffer = -1);
        LaneValue *in[] = {v, lane_i32(b, 1), lane_i32(b, 0)};
        v = lane_op_raw(b, op, 3, in, 1, (LaneType[]){LT_B32})->out[0];
        k = LK_B32;
      }
      lane_store(b, SPACE_GLOBAL, k, 1, at, 8 * (POOL * c + i), NULL, &v);
    }
}

static bool both_nan(int class, uint64_t a, uint64_t b) {
  static const uint64_t infinity[CLASSES] = {0, 0, 0, 0, 0x7c00, 0x7f80, 0x7f800000, 0x7ffull << 52};
  uint64_t magnitude = lane_type_mask(class_type(class)) >> 1;
  return class >= FLOAT_CLASS && (a & magnitude) > infinity[class] && (b & magnitude) > infinity[class];
}

static void check_twins(Context *cx, int seed) {
  static const int classes[] = {LT_B32, LT_B32, LT_B64, LT_B64, LT_B16, LT_PRED, LT_B32, 4, 5, 6, 7, 6, LT_B64};
  enum { PARAMS = sizeof classes / sizeof *classes };
  Twins *w = NEW(cx->arena, Twins);
  w->random = (uint64_t)seed * 0x9e3779b97f4a7c15u;
  LaneFunc *f[2];
  LaneValue *to[2];
  for (int i = 0; i < 2; i++) {
    f[i] = lane_func_create(cx, "k");
    f[i]->num_warps = 2;
    for (int j = 0; j < PARAMS; j++) to[i] = lane_func_param(f[i], class_type(classes[j]), NULL, 1);
  }
  w->raw = lane_builder(f[0]);
  w->folded = lane_builder(f[1]);
  for (int j = 0; j < PARAMS - 1; j++) keep(w, classes[j], (Twin){f[0]->params[j], f[1]->params[j]});
  for (int i = 0; i < 3; i++) {
    LaneSpecial s = i == 0 ? SP_TID_X : i == 1 ? SP_LANE : SP_CTAID_X;
    keep(w, LT_B32, (Twin){lane_special(&w->raw, s), lane_special(&w->folded, s)});
  }
  for (int i = 0; i < 70; i++) random_twins(w);
  uint64_t *memory[2];
  for (int i = 0; i < 2; i++) {
    store_all(i ? &w->folded : &w->raw, w, to[i], i == 1);
    lane_dce(f[i]);
    lane_verify(f[i], NULL);
    memory[i] = NEW_N(cx->arena, uint64_t, THREADS * CLASSES * POOL);
  }
  for (int round = 0; round < 4; round++) {
    uint64_t args[PARAMS];
    for (int j = 0; j < PARAMS; j++) args[j] = round == 0 ? (uint64_t)j : draw(&w->random);
    args[0] = args[6] = (uint64_t)below(w, 100);
    args[11] = f32(round);
    for (int i = 0; i < 2; i++) {
      args[PARAMS - 1] = (uint64_t)(uintptr_t)memory[i];
      LaneSimFault fault;
      if (!lane_sim_run(f[i], args, &(LaneSimOptions){.grid = (int32_t[]){1, 1, 1}, .end = 1}, &fault))
        fail_msg("seed %d: %s", seed, fault.message);
    }
    for (int i = 0; i < THREADS * CLASSES * POOL; i++) {
      int class = i / POOL % CLASSES;
      if (memory[0][i] == memory[1][i] || both_nan(class, memory[0][i], memory[1][i])) continue;
      Buf text = {0};
      lane_print(&text, f[0], false);
      lane_print(&text, f[1], false);
      fprintf(stderr, "%s", text.at);
      buf_destroy(&text);
      fail_msg("seed %d, round %d, thread %d: what is stored at +%d is 0x%llx, folded 0x%llx", seed, round,
               i / (CLASSES * POOL), 8 * (i % (CLASSES * POOL)), (unsigned long long)memory[0][i],
               (unsigned long long)memory[1][i]);
    }
  }
}

static void folding_changes_nothing(void **state) {
  for (volatile int seed = 1; seed <= 600; seed++) {
    Context *cx = context_create();
    if (context_try(cx)) {
      check_twins(cx, seed);
      context_end_try(cx);
    } else {
      fail_msg("seed %d: %s", seed, cx->diags.at[0].message);
    }
    context_destroy(cx);
  }
}

/* ---- control ---- */

#define KERNEL(body)                                                                                                   \
  "kernel @k(%out: b64, %in: b64, %n: b32) warps=2 {\n"                                                                \
  "%tid = special {tid.x} : b32\n%lane = special {laneid} : b32\n%c0 = const.b32 {0} : b32\n%c1 = const.b32 {1} : "    \
  "b32\n"                                                                                                              \
  "%c4 = const.b32 {4} : b32\n%off = mulwide.s32 %tid, %c4 : b64\n%to = add.s64 %out, %off : b64\n%from = add.s64 "    \
  "%in, %off : b64\n" body "\n}\n"

static const char *in_kernel(Context *cx, const char *body) {
  return arena_printf(cx->arena, "%.*s%s\n}\n", (int)(sizeof KERNEL("") - 4), KERNEL(""), body);
}

static void branches_diverge(void **state) {
  int32_t out[THREADS];
  run(KERNEL("%c10 = const.b32 {10} : b32\n%p = setp.s32 %tid, %c10 {lt} : pred\n"
             "%v = if %p : b32 do () {\n"
             "  %q = setp.s32 %tid, %c4 {lt} : pred\n"
             "  %w = if %q : b32 do () {\n%a = neg.s32 %tid : b32\nyield %a\n} do () {\n%b = mul.s32 %tid, %tid : "
             "b32\nyield %b\n}\n"
             "  yield %w\n} do () {\nyield %tid\n}\n"
             "st.b32 %to, %v {global}"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  for (int t = 0; t < THREADS; t++) assert_int_equal(out[t], t < 4 ? -t : t < 10 ? t * t : t);
}

static void loops_have_their_own_length(void **state) {
  int32_t out[THREADS];
  /* Fibonacci: two carried values change places; each thread makes its own number of rounds. */
  run(KERNEL("%a, %b = for.s32 %c0, %tid, %c1, %c0, %c1 : b32, b32 do (%i: b32, %x: b32, %y: b32) {\n"
             "%s = add.s32 %x, %y : b32\nyield %y, %s\n}\nst.b32 %to, %a {global}"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  uint32_t x = 0, y = 1;
  for (int t = 0; t < THREADS; t++) {
    assert_int_equal((uint32_t)out[t], x);
    uint32_t s = x + y;
    x = y;
    y = s;
  }
  /* down, by a negative step */
  run(KERNEL("%m = const.b32 {-3} : b32\n%a = for.s32 %tid, %c0, %m, %c0 : b32 do (%i: b32, %x: b32) {\n"
             "%s = add.s32 %x, %i : b32\nyield %s\n}\nst.b32 %to, %a {global}"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  for (int t = 0; t < THREADS; t++) {
    int want = 0;
    for (int i = t; i > 0; i -= 3) want += i;
    assert_int_equal(out[t], want);
  }
}

static void whiles_carry_values(void **state) { /* the Collatz sequence's length, with a nested divergent if */
  int32_t out[THREADS];
  run(KERNEL("%first = add.s32 %tid, %c1 : b32\n"
             "%v, %steps = while %first, %c0 : b32, b32 do (%x: b32, %k: b32) {\n"
             "%p = setp.s32 %x, %c1 {ne} : pred\ncondition %p, %x, %k\n} do (%y: b32, %l: b32) {\n"
             "%bit = and.b32 %y, %c1 : b32\n%odd = setp.s32 %bit, %c0 {ne} : pred\n"
             "%z = if %odd : b32 do () {\n%c3 = const.b32 {3} : b32\n%t = fma.s32 %y, %c3, %c1 : b32\nyield %t\n} do "
             "() {\n"
             "%h = shr.u32 %y, %c1 : b32\nyield %h\n}\n%m = add.s32 %l, %c1 : b32\nyield %z, %m\n}\n"
             "st.b32 %to, %steps {global}"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  for (int t = 0; t < THREADS; t++) {
    int n = 0;
    for (int x = t + 1; x != 1; x = x % 2 ? 3 * x + 1 : x / 2) n++;
    assert_int_equal(out[t], n);
  }
}

static void exits_end_threads(void **state) {
  int32_t out[THREADS];
  memset(out, 0xff, sizeof out);
  run(KERNEL("%bit = and.b32 %tid, %c1 : b32\n%p = setp.s32 %bit, %c0 {ne} : pred\n%c8 = const.b32 {8} : b32\n%q = "
             "setp.s32 %tid, %c8 {lt} : pred\n"
             "if %q do () {\nexit @%p\nst.b32 %to, %c4 {global}\nyield\n} do () {\nyield\n}\n"
             "%r = setp.s32 %tid, %c8 {ge} : pred\nst.b32 @%r %to, %tid {global}\nbarrier"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  for (int t = 0; t < THREADS; t++) assert_int_equal(out[t], t >= 8 ? t : t % 2 ? -1 : 4);
}

static void uniform_claims_are_checked(void **state) {
  run_faults(KERNEL("%p = setp.s32 %tid, %c4 {lt} : pred\nif %p {uniform} do () {\nyield\n} do () {\nyield\n}"),
             (uint64_t[3]){0}, -1, "a uniform 'if' on which threads differ: 4 go on, others do not");
  run_faults(KERNEL("for.s32 %c0, %tid, %c1 {uniform} do (%i: b32) {\nyield\n}"), (uint64_t[3]){0}, -1,
             "a uniform 'for' on which threads differ: 63 go on, others do not");
  run(KERNEL("for.s32 %c0, %n, %c1 {uniform} do (%i: b32) {\nbarrier\nyield\n}"), (uint64_t[]){0, 0, 5});
}

/* ---- memory ---- */

static void guards_and_vectors(void **state) {
  _Alignas(16) int32_t in[THREADS + 4], out[THREADS];
  for (int i = 0; i < THREADS + 4; i++) in[i] = 100 + i;
  run(KERNEL("%p = setp.s32 %tid, %c4 {lt} : pred\n%v = ld.b32 @%p %from, %tid {global +4} : b32\nst.b32 @!%p %to, %v "
             "{global}\n"
             "%d = neg.s32 %v : b32\nst.b32 @%p %to, %d {global}"),
      (uint64_t[]){(uintptr_t)out, (uintptr_t)in, 0});
  for (int t = 0; t < THREADS; t++) assert_int_equal(out[t], t < 4 ? -(101 + t) : t);
  run(KERNEL("%c16 = const.b32 {16} : b32\n%o = mulwide.s32 %tid, %c16 : b64\n%f = add.s64 %in, %o : b64\n%g = add.s64 "
             "%out, %o : b64\n%p = setp.s32 %tid, %c16 {lt} : pred\n"
             "%a, %b, %x, %y = ld.b32 @%p %f, %c0, %c0, %c0, %c0 {global} : b32, b32, b32, b32\nst.b32 @%p %g, %y, %x, "
             "%b, %a {global}"),
      (uint64_t[]){(uintptr_t)out, (uintptr_t)in, 0});
  for (int i = 0; i < THREADS; i++) assert_int_equal(out[i], 100 + (i ^ 3));
}

static void small_elements_extend(void **state) {
  int8_t in[THREADS];
  int32_t out[THREADS];
  for (int i = 0; i < THREADS; i++) in[i] = (int8_t)(i * 37);
  const char *kinds[] = {"s8", "u8"};
  for (int k = 0; k < 2; k++) {
    Context *cx = context_create();
    run(in_kernel(cx, arena_printf(cx->arena,
                                   "%%w = cvt.s32 %%tid {to=s64} : b64\n%%f = add.s64 %%in, %%w : b64\n%%v = ld.%s %%f "
                                   "{global} : b32\nst.b32 %%to, %%v {global}",
                                   kinds[k])),
        (uint64_t[]){(uintptr_t)out, (uintptr_t)in, 0});
    context_destroy(cx);
    for (int t = 0; t < THREADS; t++) assert_int_equal(out[t], k ? (uint8_t)in[t] : in[t]);
  }
}

#define SHARED(body)                                                                                                   \
  "kernel @k(%out: b64) warps=2 {\nbuffer \"buf\" bytes=256 align=16\nbuffer \"other\" bytes=64 align=16\n"            \
  "%tid = special {tid.x} : b32\n%base = shared {buffer=0} : b32\n%c0 = const.b32 {0} : b32\n%c2 = const.b32 {2} : "   \
  "b32\n%off = shl.b32 %tid, %c2 : b32\n%own = add.s32 %base, %off : b32\n"                                            \
  "%c4 = const.b32 {4} : b32\n%wide = mulwide.s32 %tid, %c4 : b64\n%to = add.s64 %out, %wide : b64\n%flip = "          \
  "const.b32 {252} : b32\n%back = xor.b32 %off, %flip : b32\n%far = add.s32 %base, %back : b32\n"                      \
  "%c4x = const.b32 {4} : b32\n%next = xor.b32 %off, %c4x : b32\n%beside = add.s32 %base, %next : b32\n" body "\n}\n"

static void shared_memory_passes_values(void **state) {
  int32_t out[THREADS];
  run(SHARED("st.b32 %own, %tid {shared buffer=0}\nbarrier\n%v = ld.b32 %far {shared buffer=0} : b32\nst.b32 %to, %v "
             "{global}"),
      (uint64_t[]){(uintptr_t)out});
  for (int t = 0; t < THREADS; t++) assert_int_equal(out[t], 63 - t);
  run(SHARED("st.b32 %own, %tid {shared buffer=0}\nbarrier {warp}\n%v = ld.b32 %beside {shared buffer=0} : b32\nst.b32 "
             "%to, %v {global}"),
      (uint64_t[]){(uintptr_t)out});
  for (int t = 0; t < THREADS; t++) assert_int_equal(out[t], t ^ 1);
}

static void races_are_found(void **state) {
  uint64_t none[1] = {0};
  run_faults(
      SHARED("st.b32 %own, %tid {shared buffer=0}\n%v = ld.b32 %far {shared buffer=0} : b32"), none, 0,
      "race in shared memory: thread 0 reads byte 252 (buffer 'buf') that thread 63 wrote, without a barrier between");
  run_faults(
      SHARED("st.b32 %own, %tid {shared buffer=0}\nbarrier {warp}\n%v = ld.b32 %far {shared buffer=0} : b32"), none, 0,
      "race in shared memory: thread 0 reads byte 252 (buffer 'buf') that thread 63 wrote, without a barrier between");
  run_faults(
      SHARED("st.b32 %own, %tid {shared buffer=0}\n%v = ld.b32 %beside {shared buffer=0} : b32"), none, 0,
      "race in shared memory: thread 0 reads byte 4 (buffer 'buf') that thread 1 wrote, without a barrier between");
  run_faults(
      SHARED("st.b32 %own, %tid {shared buffer=0}\nbarrier\n%v = ld.b32 %far {shared buffer=0} : b32\nst.b32 %own, %v "
             "{shared buffer=0}"),
      none, 0,
      "race in shared memory: thread 0 writes byte 0 (buffer 'buf') that thread 63 read, without a barrier between");
  run_faults(
      SHARED("st.b32 %base, %tid {shared buffer=0}"), none, 1,
      "race in shared memory: thread 1 writes byte 0 (buffer 'buf') that thread 0 wrote, without a barrier between");
  run_faults(SHARED("%p = setp.s32 %tid, %c0 {eq} : pred\nst.b32 @%p %base, %c2 {shared buffer=0}\nbarrier\n%v = "
                    "ld.b32 %base {shared buffer=0} : b32\nst.b32 @%p %base, %c4 {shared buffer=0}"),
             none, 0,
             "race in shared memory: thread 0 writes byte 0 (buffer 'buf') that other threads read, without a barrier "
             "between");
  run(SHARED("st.b32 %base, %c2 {shared buffer=0}"), none); /* the same everywhere */
  run(SHARED("%p = setp.s32 %tid, %c0 {eq} : pred\nst.b32 @%p %base, %c0 {shared buffer=0}\nbarrier\natom.s32 %base, "
             "%tid {shared add relaxed cta buffer=0}"),
      none);
  run_faults(
      SHARED("%p = setp.s32 %tid, %c0 {eq} : pred\nst.b32 @%p %base, %c0 {shared buffer=0}\natom.s32 %base, %tid "
             "{shared add relaxed cta buffer=0}"),
      none, 1,
      "race in shared memory: thread 1 reads byte 0 (buffer 'buf') that thread 0 wrote, without a barrier between");
}

static void wrong_accesses_are_found(void **state) {
  int32_t out[4] = {0};
  uint64_t none[1] = {0};
  run_faults(SHARED("%v = ld.b32 %own {shared buffer=0} : b32"), none, 0,
             "thread 0 reads byte 0 of shared memory (buffer 'buf'), which nobody has written");
  run_faults(SHARED("st.b32 %own, %tid {shared buffer=0 +4}"), none, 63,
             "byte 256 of shared buffer 'buf', which has 256");
  run_faults(SHARED("st.b32 %own, %tid {shared buffer=0 +64}"), none, 48,
             "byte 256 of shared buffer 'buf', which has 256");
  run_faults(SHARED("st.b32 %own, %tid {shared +100000}"), none, 0, "shared memory at byte 100000 of 320");
  run_faults(SHARED("st.b32 %own, %tid, %tid {shared buffer=0}"), none, 1,
             "a store of 8 bytes at address 0x4, which is not a multiple of 8");
  char message[100];
  uint64_t odd = (uint64_t)(uintptr_t)out + 2;
  snprintf(message, sizeof message, "a load of 4 bytes at address 0x%llx, which is not a multiple of 4",
           (unsigned long long)odd);
  run_faults(KERNEL("%v = ld.b32 %in {global} : b32"), (uint64_t[]){0, odd, 0}, 0, message);
  run_faults(KERNEL("%p = setp.s32 %tid, %c4 {lt} : pred\nif %p do () {\nexit\nyield\n} do () {\nyield\n}\n%v = "
                    "shfl.b32 %tid, %c0 {idx imm=32} : b32"),
             (uint64_t[3]){0}, 4, "lane 4 reads from lane 0, whose thread has ended");
  run_faults(KERNEL("asm {text=\"nop;\"}"), (uint64_t[3]){0}, -1, "the simulator does not run inline PTX");
}

/* An access that `check` refuses, and a barrier that the verifier would have refused. */
static bool refuse_writes(void *arg, uint64_t address, int bytes, bool write) {
  ++*(int *)arg;
  return !write && bytes == 4 && address % 4 == 0;
}

static void the_caller_checks_addresses(void **state) {
  int32_t memory[THREADS] = {0};
  int asked = 0;
  Context *cx = context_create();
  LaneFunc *f = parse(cx, KERNEL("%v = ld.b32 %from {global} : b32\nst.b32 %to, %v {global}"));
  LaneSimOptions o = {.grid = (int32_t[]){1, 1, 1}, .end = 1, .check = refuse_writes, .check_arg = &asked};
  LaneSimFault fault;
  assert_false(lane_sim_run(f, (uint64_t[]){(uintptr_t)memory, (uintptr_t)memory, 0}, &o, &fault));
  assert_int_equal(asked, THREADS + 1);
  assert_int_equal(fault.thread, 0);
  assert_non_null(strstr(fault.message, "a store of 4 bytes"));
  assert_non_null(strstr(fault.message, "no memory of the kernel's"));
  context_destroy(cx);
}

static void divergent_barriers_are_found(void **state) {
  static const struct {
    const char *op, *message;
  } cases[] = {
      {"barrier", "a barrier that thread 4 does not reach"},
      {"barrier {warp}", "'barrier' is reached by a part of warp 0 only: thread 31 is not there"},
      {"%v = vote %p {any} : pred", "'vote' is reached by a part of warp 0 only: thread 31 is not there"},
  };
  for (int i = 0; i < 3; i++) {
    Context *cx = context_create();
    const char *text = in_kernel(
        cx, arena_printf(cx->arena,
                         "%%p = setp.s32 %%tid, %%c4 {lt} : pred\nif %%p do () {\n%s\nyield\n} do () {\nyield\n}",
                         cases[i].op));
    LaneFunc *f = lane_parse(cx, source_from_text(cx, "t.lane", text, strlen(text)));
    LaneSimFault fault;
    assert_false(lane_sim_run(f, (uint64_t[3]){0}, &(LaneSimOptions){.grid = (int32_t[]){1, 1, 1}, .end = 1}, &fault));
    assert_string_equal(fault.message, cases[i].message);
    context_destroy(cx);
  }
}

/* ---- between lanes ---- */

static void shuffles_follow_the_isa(void **state) {
  static const char *const names[] = {"bfly", "up", "down", "idx"};
  int32_t out[THREADS];
  for (int mode = 0; mode < 4; mode++)
    for (int width = 1; width <= 32; width *= 2)
      for (int by = 0; by < 32; by += 1 + by / 4) {
        Context *cx = context_create();
        run(in_kernel(cx, arena_printf(cx->arena,
                                       "%%b = const.b32 {%d} : b32\n%%v = shfl.b32 %%tid, %%b {%s imm=%d} : "
                                       "b32\nst.b32 %%to, %%v {global}",
                                       by, names[mode], width)),
            (uint64_t[]){(uintptr_t)out, 0, 0});
        context_destroy(cx);
        for (int t = 0; t < THREADS; t++) { /* the PTX ISA's own pseudocode, with c as the compiler writes it */
          int lane = t % 32, c = (32 - width) << 8 | (mode == SHUFFLE_UP ? 0 : 31), segment = c >> 8 & 31,
              clamp = c & 31;
          int max = (lane & segment) | (clamp & ~segment), min = lane & segment, j = 0;
          bool p = false;
          switch (mode) {
          case SHUFFLE_UP: j = lane - by, p = j >= max; break;
          case SHUFFLE_DOWN: j = lane + by, p = j <= max; break;
          case SHUFFLE_XOR: j = lane ^ by, p = j <= max; break;
          default: j = min | (by & ~segment), p = j <= max; break;
          }
          assert_int_equal(out[t], (t & ~31) + (p ? j : lane));
        }
      }
}

static void votes_and_reductions(void **state) {
  int32_t out[THREADS];
  run(KERNEL("%c40 = const.b32 {40} : b32\n%p = setp.s32 %tid, %c40 {lt} : pred\n%b = vote %p {ballot} : b32\nst.b32 "
             "%to, %b {global}"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  assert_int_equal((uint32_t)out[0], 0xffffffff);
  assert_int_equal((uint32_t)out[63], 0xff);
  run(KERNEL("%c40 = const.b32 {40} : b32\n%p = setp.s32 %tid, %c40 {lt} : pred\n%a = vote %p {all} : pred\n%e = vote "
             "%p {any} : pred\n%v = select.b32 %a, %c4, %c1 : b32\n%w = select.b32 %e, %v, %c0 : b32\nst.b32 %to, %w "
             "{global}"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  assert_int_equal(out[5], 4);
  assert_int_equal(out[35], 1);
  static const struct {
    const char *op;
    int want;
  } cases[] = {{"s32 %tid {add}", 32 * 47 + 16},
               {"s32 %tid {max}", 63},
               {"s32 %tid {min}", 32},
               {"b32 %tid {xor}", 0},
               {"b32 %tid {or}", 63},
               {"b32 %tid {and}", 32}};
  for (int i = 0; i < 6; i++) {
    Context *cx = context_create();
    run(in_kernel(cx, arena_printf(cx->arena, "%%v = redux.%s : b32\nst.b32 %%to, %%v {global}", cases[i].op)),
        (uint64_t[]){(uintptr_t)out, 0, 0});
    context_destroy(cx);
    assert_int_equal(out[40], cases[i].want);
  }
}

/* ---- atomics ---- */

static const char *const counting =
    "kernel @k(%out: b64, %f: b64, %h: b64, %l: b64) warps=2 {\n%tid = special {tid.x} : b32\n%one = const.b32 {1} : "
    "b32\n%onef = const.b32 {0x3f800000} : b32\n"
    "%ten = const.b32 {10} : b32\n%p = setp.s32 %tid, %ten {lt} : pred\n%big = const.b64 {1} : b64\n"
    "%old = atom.s32 %out, %one {global add relaxed gpu} : b32\natom.f32 @%p %f, %onef {global add relaxed gpu}\n%two "
    "= const.b32 {0x3c003c00} : b32\n"
    "atom.f16x2 @!%p %h, %two {global add relaxed gpu}\natom.u64 %l, %big {global add relaxed gpu}\natom.s32 %out, "
    "%tid {global max relaxed gpu +4}\n"
    "atom.f32 %f, %onef, %onef {global add relaxed gpu +8}\n}\n";

typedef struct Memory {
  int32_t counters[2];
  float sums[4];
  uint32_t halves;
  uint64_t wide;
} Memory;
typedef struct Work {
  LaneFunc *f;
  Memory *memory;
  bool ok;
} Work;

static void *count_up(void *arg) {
  Work *w = arg;
  LaneSimFault fault;
  Memory *m = w->memory;
  uint64_t args[] = {(uintptr_t)m->counters, (uintptr_t)m->sums, (uintptr_t)&m->halves, (uintptr_t)&m->wide};
  w->ok = lane_sim_run(w->f, args, &(LaneSimOptions){.grid = (int32_t[]){100, 1, 1}, .begin = 0, .end = 15}, &fault);
  return NULL;
}

static void atomics_from_two_threads(void **state) {
  Context *cx = context_create();
  Memory memory = {0};
  Work work[2];
  pthread_t threads[2];
  LaneFunc *f = parse(cx, counting);
  for (int i = 0; i < 2; i++) {
    work[i] = (Work){f, &memory, false};
    assert_int_equal(pthread_create(&threads[i], NULL, count_up, &work[i]), 0);
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
    assert_true(work[i].ok);
  }
  assert_int_equal(memory.counters[0], 30 * 64);
  assert_int_equal(memory.counters[1], 63);
  assert_true(memory.sums[0] == 300);
  assert_true(memory.sums[2] == 30 * 64 && memory.sums[3] == 30 * 64);
  assert_true(f16_to_f32((uint16_t)memory.halves) == 30 * 54 && memory.halves >> 16 == (memory.halves & 0xffff));
  assert_int_equal(memory.wide, 30 * 64);
  context_destroy(cx);
}

static void compare_and_swap(void **state) {
  uint64_t memory[3] = {5, 5, 5};
  int32_t out[THREADS];
  run(KERNEL("%c5 = const.b32 {5} : b32\n%w5 = const.b64 {5} : b64\n%w7 = const.b64 {-7} : b64\n%h5 = const.b16 {5} : "
             "b16\n%h9 = const.b16 {9} : b16\n"
             "%a = atom.b32 %in, %c5, %tid {global cas relaxed gpu} : b32\n%b = atom.b64 %in, %w5, %w7 {global cas "
             "relaxed gpu +8} : b64\n"
             "%d = atom.b16 %in, %h5, %h9 {global cas relaxed gpu +16} : b16\n%e = atom.b32 %in, %tid {global xchg "
             "relaxed gpu +20} : b32\nst.b32 %to, %a {global}"),
      (uint64_t[]){(uintptr_t)out, (uintptr_t)memory, 0});
  assert_int_equal(memory[0], 0); /* thread 0 stored its number, and nobody then found 5 there, but thread 5 */
  assert_int_equal(memory[1], (uint64_t)-7);
  assert_int_equal(memory[2], 9 | 63ull << 32);
  assert_int_equal(out[0], 5);
  assert_int_equal(out[9], 0);
}

/* ---- programs and special registers ---- */

static void programs_know_where_they_are(void **state) {
  static int32_t out[2 * 3 * 4][4];
  const char *text = "kernel @k(%out: b64) warps=1 {\n%tid = special {tid.x} : b32\n%x = special {ctaid.x} : b32\n%y = "
                     "special {ctaid.y} : b32\n%z = special {ctaid.z} : b32\n"
                     "%nx = special {nctaid.x} : b32\n%ny = special {nctaid.y} : b32\n%nz = special {nctaid.z} : "
                     "b32\n%i = fma.s32 %z, %ny, %y : b32\n%j = fma.s32 %i, %nx, %x : b32\n"
                     "%c16 = const.b32 {16} : b32\n%o = mulwide.s32 %j, %c16 : b64\n%to = add.s64 %out, %o : b64\n%c0 "
                     "= const.b32 {0} : b32\n%p = setp.s32 %tid, %c0 {eq} : pred\n"
                     "st.b32 @%p %to, %x, %y, %z, %nz {global}\n}\n";
  memset(out, 0xff, sizeof out);
  Launch launch = {{2, 3, 4}, NULL, 0};
  run_with(text, (uint64_t[]){(uintptr_t)out}, &launch);
  for (int i = 0; i < 24; i++) {
    int32_t want[4] = {i % 2, i / 2 % 3, i / 6, 4};
    assert_memory_equal(out[i], want, sizeof want);
  }
  memset(out, 0xff, sizeof out);
  Context *cx = context_create();
  LaneSimFault fault;
  LaneSimOptions o = {.grid = (int32_t[]){2, 3, 4}, .begin = 1, .end = 3, .programs = (int64_t[]){0, 23, 7, 4}};
  assert_true(lane_sim_run(parse(cx, text), (uint64_t[]){(uintptr_t)out}, &o, &fault));
  for (int i = 0; i < 24; i++) assert_int_equal(out[i][3], i == 23 || i == 7 ? 4 : -1);
  context_destroy(cx);
}

static void parameters_have_their_type(void **state) {
  int64_t out[4];
  const char *text =
      "kernel @k(%out: b64, %a: b32 i8, %b: b32 u16, %c: pred i1, %d: b16 f16) warps=1 {\n%p = param.pred {imm=3} : "
      "pred\n"
      "%x = cvt.s32 %a {to=s64} : b64\n%y = cvt.s32 %b {to=s64} : b64\n%one = const.b64 {1} : b64\n%zero = const.b64 "
      "{0} : b64\n%z = select.b64 %p, %one, %zero : b64\n%w = cvt.f16 %d {to=s64} : b64\n"
      "st.b64 %out, %x {global}\nst.b64 %out, %y {global +8}\nst.b64 %out, %z {global +16}\nst.b64 %out, %w {global "
      "+24}\n}\n";
  run(text, (uint64_t[]){(uintptr_t)out, 0xff80, 0xabcdffff, 0xff02, 0x4900});
  assert_int_equal(out[0], -128);
  assert_int_equal(out[1], 65535);
  assert_int_equal(out[2], 1);
  assert_int_equal(out[3], 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(integers),
      cmocka_unit_test(floats),
      cmocka_unit_test(conversions),
      cmocka_unit_test(halves_round_once),
      cmocka_unit_test(loops_agree_with_eval),
      cmocka_unit_test(folding_changes_nothing),
      cmocka_unit_test(branches_diverge),
      cmocka_unit_test(loops_have_their_own_length),
      cmocka_unit_test(whiles_carry_values),
      cmocka_unit_test(exits_end_threads),
      cmocka_unit_test(uniform_claims_are_checked),
      cmocka_unit_test(guards_and_vectors),
      cmocka_unit_test(small_elements_extend),
      cmocka_unit_test(shared_memory_passes_values),
      cmocka_unit_test(races_are_found),
      cmocka_unit_test(wrong_accesses_are_found),
      cmocka_unit_test(the_caller_checks_addresses),
      cmocka_unit_test(divergent_barriers_are_found),
      cmocka_unit_test(shuffles_follow_the_isa),
      cmocka_unit_test(votes_and_reductions),
      cmocka_unit_test(atomics_from_two_threads),
      cmocka_unit_test(compare_and_swap),
      cmocka_unit_test(programs_know_where_they_are),
      cmocka_unit_test(parameters_have_their_type),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
