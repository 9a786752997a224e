/* Tests of what single operations of the lane IR give: their evaluation, the loops over threads that the simulator
 * makes of it, and that folding changes nothing. */
#include "gpu/lane/table.h"

#include <math.h>
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

/* ---- single operations ------------------------------------------------------------------------------------------- */

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

/* ---- the loops over threads against the evaluation of one -------------------------------------------------------- */

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

/* ---- folding changes nothing ------------------------------------------------------------------------------------- */

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(integers),
      cmocka_unit_test(floats),
      cmocka_unit_test(conversions),
      cmocka_unit_test(halves_round_once),
      cmocka_unit_test(loops_agree_with_eval),
      cmocka_unit_test(folding_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
