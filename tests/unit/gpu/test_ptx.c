/* PTX from lane IR: the forms of every operation are ones that the assembler takes for every target, and what a person
 * can check by reading is read: parallel copies, guards, hints, constants, addresses. Without a ptxas only the texts
 * are tested. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "gpu/gpu.h"

#include <cmocka.h>

static Context *cx;

/* ---- a kernel under construction --------------------------------------------------------------------------------- */

typedef struct Kernel {
  LaneFunc *f;
  LaneBuilder b;
  LaneValue *p, *q; /* pointers */
  int stored;       /* bytes */
} Kernel;

static Kernel begin(int num_warps) {
  cx = context_create();
  assert_non_null(cx);
  Kernel k = {.f = lane_func_create(cx, "kernel_of_test")};
  k.f->num_warps = num_warps;
  k.p = lane_func_param(k.f, LT_B64, type_pointer(cx, DT_F32), 16);
  k.q = lane_func_param(k.f, LT_B64, type_pointer(cx, DT_F32), 1);
  k.b = lane_builder(k.f);
  return k;
}

static void end(void) { context_destroy(cx); }

static char *print(Kernel *k, const char *target) {
  Buf out = {0};
  gpu_print_ptx(&out, k->f, gpu_target_find(target), false);
  assert_false(out.failed);
  char *text = arena_strndup(cx->arena, out.at, out.n);
  buf_destroy(&out);
  return text;
}

static void assembles(Kernel *k, const char *target) {
  char *text = print(k, target);
  if (context_try(cx)) {
    GpuCubin cubin;
    Buf ptx = {.at = text, .n = strlen(text)};
    /* where there is a ptxas; else only the text is tested */
    if (gpu_ptxas(cx, &ptx, &(GpuPtx){0}, gpu_target_find(target), &cubin)) {
      assert_true(cubin.size > 100 && cubin.registers > 0);
      gpu_cubin_free(&cubin);
    }
    context_end_try(cx);
  } else {
    fprintf(stderr, "%s\n%s\n", text, cx->diags.at[cx->diags.n - 1].message);
    assert_true(false);
  }
}

static const char *const targets[] = {"sm_80",   "sm_86",   "sm_87",   "sm_89",   "sm_90a", "sm_100a",
                                      "sm_103a", "sm_110a", "sm_120a", "sm_121a", NULL};
static const char *const since_sm90[] = {"sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a", NULL};

static void assembles_all(Kernel *k, const char *const *list) {
  for (int i = 0; list[i]; i++) assembles(k, list[i]);
}

static void contains(const char *text, const char *what) {
  if (strstr(text, what)) return;
  print_message("not there: %s\n%s\n", what, text);
  assert_true(false);
}

static void lacks(const char *text, const char *what) {
  if (!strstr(text, what)) return;
  print_message("should not be there: %s\n%s\n", what, text);
  assert_true(false);
}

/* A value of this kind that nothing is known of. */
static LaneValue *unknown(Kernel *k, LaneKind kind) {
  k->stored += 16;
  return lane_load(&k->b, SPACE_GLOBAL, kind, 1, k->p, k->stored, NULL, NULL)->out[0];
}

static void use(Kernel *k, LaneValue *v) {
  static const LaneKind kinds[] = {LK_PRED, LK_B16, LK_B32, LK_B64};
  k->stored += 16;
  lane_store(&k->b, SPACE_GLOBAL, kinds[v->type], 1, k->q, k->stored, NULL, &v);
}

static void use1(Kernel *k, LaneOp proto, int n, LaneKind kind) {
  LaneValue *in[3];
  for (int i = 0; i < n; i++) in[i] = unknown(k, kind);
  use(k, lane_op(&k->b, proto, n, in));
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

static const LaneKind ints[] = {LK_S32, LK_U32, LK_S64, LK_U64},
                      floats[] = {LK_F16, LK_BF16, LK_F32, LK_F64, LK_F16X2, LK_BF16X2};

static void test_integers(void **state) {
  (void)state;
  static const LaneCode two[] = {LANE_ADD, LANE_SUB, LANE_MUL, LANE_MULHI, LANE_DIV, LANE_REM,
                                 LANE_MIN, LANE_MAX, LANE_AND, LANE_OR,    LANE_XOR};
  Kernel k = begin(4);
  for (int i = 0; i < 4; i++) {
    for (size_t j = 0; j < sizeof two / sizeof *two; j++)
      use1(&k, (LaneOp){.code = two[j], .kind = ints[i]}, 2, ints[i]);
    use1(&k, (LaneOp){.code = LANE_FMA, .kind = ints[i]}, 3, ints[i]);
    use1(&k, (LaneOp){.code = LANE_NOT, .kind = ints[i]}, 1, ints[i]);
    use1(&k, (LaneOp){.code = LANE_NEG, .kind = ints[i]}, 1, ints[i]);
    use(&k, lane_bfe(&k.b, ints[i], unknown(&k, ints[i]), 3, 7));
    use(&k, lane_2(&k.b, LANE_SHL, ints[i], unknown(&k, ints[i]), unknown(&k, LK_U32)));
    use(&k, lane_2(&k.b, LANE_SHR, ints[i], unknown(&k, ints[i]), unknown(&k, LK_U32)));
    if (ints[i] == LK_S32 || ints[i] == LK_S64) use1(&k, (LaneOp){.code = LANE_ABS, .kind = ints[i]}, 1, ints[i]);
    if (i < 2) {
      use1(&k, (LaneOp){.code = LANE_MULWIDE, .kind = ints[i]}, 2, ints[i]);
      use1(&k, (LaneOp){.code = LANE_SAD, .kind = ints[i]}, 3, ints[i]);
    }
  }
  static const LaneCode of_bits[] = {LANE_POPC, LANE_CLZ, LANE_BREV};
  for (int wide = 0; wide < 2; wide++) {
    LaneKind kind = wide ? LK_B64 : LK_B32;
    for (int i = 0; i < 3; i++) use1(&k, (LaneOp){.code = of_bits[i], .kind = kind}, 1, kind);
    use1(&k, (LaneOp){.code = LANE_BFI, .kind = kind, .bit = 4, .bits = 9}, 2, kind);
  }
  use1(&k, (LaneOp){.code = LANE_PRMT, .kind = LK_B32}, 3, LK_B32);
  use1(&k, (LaneOp){.code = LANE_FUNNEL, .kind = LK_B32}, 3, LK_B32);
  use1(&k, (LaneOp){.code = LANE_FUNNEL, .kind = LK_B32, .right = true}, 3, LK_B32);
  use(&k, lane_2(&k.b, LANE_ADD, LK_S64, unknown(&k, LK_S64), lane_i64(&k.b, INT64_MIN)));
  use(&k, lane_2(&k.b, LANE_SUB, LK_S32, lane_i32(&k.b, INT32_MIN), unknown(&k, LK_S32)));
  use(&k, lane_2(&k.b, LANE_MUL, LK_U64, unknown(&k, LK_U64), lane_const(&k.b, LT_B64, 0xFFFFFFFFFFFFFFF1)));
  use(&k, lane_2(&k.b, LANE_XOR, LK_B32, unknown(&k, LK_B32), lane_i32(&k.b, -2)));
  LaneValue *low, *high;
  lane_unpack(&k.b, unknown(&k, LK_B64), &low, &high);
  use(&k, lane_pack(&k.b, high, low));
  lane_unpack(&k.b, unknown(&k, LK_B32), &low, &high);
  use(&k, lane_pack(&k.b, high, low));
  assembles_all(&k, targets);
  contains(print(&k, "sm_90a"), "\tbra.uni $divided1;\n$wide1:\n\tdiv.s64 "); /* 32 bits where both fit */
  end();
}

static void test_floats(void **state) {
  (void)state;
  static const LaneCode two[] = {LANE_ADD, LANE_SUB, LANE_MUL, LANE_MIN, LANE_MAX};
  Kernel k = begin(4);
  for (int i = 0; i < 6; i++) {
    LaneKind t = floats[i];
    for (int j = 0; j < 5; j++)
      for (int variant = 0; variant < 4; variant++) /* ftz, nan or exact */
        use1(&k,
             (LaneOp){.code = two[j],
                      .kind = t,
                      .ftz = variant & 1,
                      .nan = j > 2 && variant > 1,
                      .exact = j < 3 && variant > 1},
             2, t);
    use1(&k, (LaneOp){.code = LANE_FMA, .kind = t}, 3, t);
    use1(&k, (LaneOp){.code = LANE_FMA, .kind = t, .ftz = true}, 3, t);
    use1(&k, (LaneOp){.code = LANE_NEG, .kind = t}, 1, t);
    use1(&k, (LaneOp){.code = LANE_ABS, .kind = t}, 1, t);
    LaneValue *c = lane_const(&k.b, lane_kind_info[t].type, 0x3F803F80);
    use(&k, lane_2(&k.b, LANE_ADD, t, unknown(&k, t), c)); /* constants: immediates, or registers where none can be */
    use(&k, lane_3(&k.b, LANE_FMA, t, unknown(&k, t), c, c));
  }
  for (int wide = 0; wide < 2; wide++) {
    LaneKind t = wide ? LK_F64 : LK_F32;
    for (int rounding = 0; rounding <= ROUND_RP; rounding++) {
      use1(&k, (LaneOp){.code = LANE_ADD, .kind = t, .rounding = (uint8_t)rounding}, 2, t);
      use1(&k, (LaneOp){.code = LANE_MUL, .kind = t, .rounding = (uint8_t)rounding}, 2, t);
      use1(&k, (LaneOp){.code = LANE_FMA, .kind = t, .rounding = (uint8_t)rounding}, 3, t);
      use1(&k, (LaneOp){.code = LANE_DIV, .kind = t, .rounding = (uint8_t)rounding}, 2, t);
      use1(&k, (LaneOp){.code = LANE_SQRT, .kind = t, .rounding = (uint8_t)rounding}, 1, t);
      use1(&k, (LaneOp){.code = LANE_RCP, .kind = t, .rounding = (uint8_t)rounding}, 1, t);
      use1(&k, (LaneOp){.code = LANE_ROUND, .kind = t, .rounding = (uint8_t)rounding}, 1, t);
    }
    use1(&k, (LaneOp){.code = LANE_COPYSIGN, .kind = t}, 2, t);
    use1(&k, (LaneOp){.code = LANE_RCP, .kind = t, .approx = true}, 1, t);
    use1(&k, (LaneOp){.code = LANE_RSQRT, .kind = t}, 1, t);
    use1(&k, (LaneOp){.code = LANE_RSQRT, .kind = t, .ftz = true}, 1, t);
  }
  for (int ftz = 0; ftz < 2; ftz++) {
    static const LaneCode one[] = {LANE_EX2, LANE_LG2, LANE_SIN, LANE_COS, LANE_TANH, LANE_ROUND};
    for (int j = 0; j < 6; j++) use1(&k, (LaneOp){.code = one[j], .kind = LK_F32, .ftz = (uint8_t)ftz}, 1, LK_F32);
    use1(&k, (LaneOp){.code = LANE_DIV, .kind = LK_F32, .approx = true, .ftz = (uint8_t)ftz}, 2, LK_F32);
    use1(&k, (LaneOp){.code = LANE_DIV, .kind = LK_F32, .ftz = (uint8_t)ftz}, 2, LK_F32);
    use1(&k, (LaneOp){.code = LANE_SQRT, .kind = LK_F32, .approx = true, .ftz = (uint8_t)ftz}, 1, LK_F32);
    use1(&k, (LaneOp){.code = LANE_RCP, .kind = LK_F32, .approx = true, .ftz = (uint8_t)ftz}, 1, LK_F32);
    use1(&k, (LaneOp){.code = LANE_EX2, .kind = LK_F16X2, .ftz = (uint8_t)ftz}, 1, LK_F16X2);
    use1(&k, (LaneOp){.code = LANE_TANH, .kind = LK_F16X2}, 1, LK_F16X2);
  }
  assembles_all(&k, targets);
  use1(&k, (LaneOp){.code = LANE_EX2, .kind = LK_BF16X2}, 1, LK_BF16X2);
  use1(&k, (LaneOp){.code = LANE_TANH, .kind = LK_BF16X2}, 1, LK_BF16X2);
  assembles_all(&k, since_sm90);
  end();
}

/* bf16 on sm_80 has fma only; the constants are 1, -1 and -0, and the order of operands matters. */
static void test_bf16_by_fma(void **state) {
  (void)state;
  Kernel k = begin(1);
  LaneValue *x = unknown(&k, LK_BF16), *y = unknown(&k, LK_BF16);
  use(&k, lane_2(&k.b, LANE_ADD, LK_BF16, x, y));
  use(&k, lane_2(&k.b, LANE_SUB, LK_BF16, x, y));
  use(&k, lane_2(&k.b, LANE_MUL, LK_BF16, x, y));
  char *old = print(&k, "sm_80"), *new = print(&k, "sm_90a");
  contains(old, "mov.b16 %h3, 0x3F80;\n");
  contains(old, "fma.rn.bf16 %h4, %h1, %h3, %h2;\n");
  contains(old, "mov.b16 %h5, 0xBF80;\n");
  contains(old, "fma.rn.bf16 %h6, %h2, %h5, %h1;\n");
  contains(old, "mov.b16 %h7, 0x8000;\n");
  contains(old, "fma.rn.bf16 %h8, %h1, %h2, %h7;\n");
  contains(new, "add.bf16 ");
  contains(new, "sub.bf16 ");
  contains(new, "mul.bf16 ");
  end();
}

static void test_comparisons(void **state) {
  (void)state;
  static const LaneKind kinds[] = {LK_S32, LK_U32, LK_S64, LK_U64, LK_F16, LK_BF16, LK_F32, LK_F64};
  Kernel k = begin(4);
  LaneValue *p = lane_setp(&k.b, CMP_NE, LK_B32, unknown(&k, LK_B32), lane_i32(&k.b, 0)), *q = unknown(&k, LK_PRED);
  for (int i = 0; i < 8; i++)
    for (int pred = CMP_EQ; pred <= CMP_GE; pred++) {
      use1(&k, (LaneOp){.code = LANE_SETP, .kind = kinds[i], .pred = (uint8_t)pred}, 2, kinds[i]);
      use1(&k,
           (LaneOp){.code = LANE_SETP,
                    .kind = kinds[i],
                    .pred = (uint8_t)pred,
                    .unordered = i > 3,
                    .ftz = kinds[i] == LK_F32},
           2, kinds[i]);
      use(&k, lane_select(&k.b, p, unknown(&k, kinds[i]), unknown(&k, kinds[i])));
    }
  use1(&k, (LaneOp){.code = LANE_SETP, .kind = LK_PRED, .pred = CMP_EQ}, 2, LK_PRED);
  use1(&k, (LaneOp){.code = LANE_SETP, .kind = LK_PRED, .pred = CMP_NE}, 2, LK_PRED);
  use(&k, lane_select(&k.b, p, q, unknown(&k, LK_PRED)));
  use(&k, lane_select(&k.b, p, unknown(&k, LK_B16), lane_const(&k.b, LT_B16, 0x3C00)));
  use(&k, lane_select(&k.b, p, unknown(&k, LK_B32), lane_f32(&k.b, 1.5f)));
  for (int code = LANE_AND; code <= LANE_XOR; code++) use(&k, lane_2(&k.b, (LaneCode)code, LK_PRED, p, q));
  use(&k, lane_1(&k.b, LANE_NOT, LK_PRED, q));
  assembles_all(&k, targets);
  end();
}

/* ---- conversions ------------------------------------------------------------------------------------------------- */

static void test_conversions(void **state) {
  (void)state;
  static const LaneKind kinds[] = {LK_PRED, LK_S8,  LK_U8,  LK_S16,  LK_U16, LK_S32, LK_U32,
                                   LK_S64,  LK_U64, LK_F16, LK_BF16, LK_F32, LK_F64};
  enum { N = sizeof kinds / sizeof *kinds };
  Kernel k = begin(4);
  for (int from = 0; from < N; from++)
    for (int to = 0; to < N; to++) {
      use1(&k, (LaneOp){.code = LANE_CVT, .kind = kinds[from], .to = kinds[to]}, 1, kinds[from]);
      if (from >= 9)
        use1(&k, (LaneOp){.code = LANE_CVT, .kind = kinds[from], .to = kinds[to], .rounding = ROUND_RZ}, 1,
             kinds[from]);
      bool to_int = kinds[to] != LK_PRED && to < 9;
      if (to_int && kinds[from] != LK_PRED)
        use1(&k, (LaneOp){.code = LANE_CVT, .kind = kinds[from], .to = kinds[to], .sat = true}, 1, kinds[from]);
    }
  for (int rz = 0; rz < 2; rz++) {
    use1(&k, (LaneOp){.code = LANE_CVT2, .kind = LK_F32, .to = LK_F16X2, .rounding = rz ? ROUND_RZ : ROUND_RN}, 2,
         LK_F32);
    use1(&k, (LaneOp){.code = LANE_CVT2, .kind = LK_F32, .to = LK_BF16X2, .rounding = rz ? ROUND_RZ : ROUND_RN}, 2,
         LK_F32);
  }
  assembles_all(&k, targets);
  for (int e5 = 0; e5 < 2; e5++) {
    LaneKind t = e5 ? LK_E5M2X2 : LK_E4M3X2;
    use1(&k, (LaneOp){.code = LANE_CVT2, .kind = LK_F32, .to = t}, 2, LK_F32);
    use1(&k, (LaneOp){.code = LANE_CVT1X2, .kind = t, .to = LK_F16X2}, 1, t);
    use1(&k, (LaneOp){.code = LANE_CVT1X2, .kind = LK_F16X2, .to = t}, 1, LK_F16X2);
  }
  assembles_all(&k, targets + 3);
  end();
}

/* PTX's packed conversions take the upper half first. */
static void test_halves_in_order(void **state) {
  (void)state;
  Kernel k = begin(1);
  LaneValue *low_high[] = {unknown(&k, LK_F32), unknown(&k, LK_F32)};
  use(&k, lane_op(&k.b, (LaneOp){.code = LANE_CVT2, .kind = LK_F32, .to = LK_F16X2}, 2, low_high));
  contains(print(&k, "sm_90a"), "cvt.rn.f16x2.f32 %r3, %r2, %r1;\n");
  end();
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void test_memory(void **state) {
  (void)state;
  static const LaneKind kinds[] = {LK_PRED, LK_S8,  LK_U8,  LK_S16, LK_U16, LK_F16,
                                   LK_B16,  LK_B32, LK_F32, LK_B64, LK_F64};
  Kernel k = begin(4);
  int buffer = lane_buffer(&k.b, "buffer", 4096, 16);
  k.f->buffers.at[buffer].offset = 128;
  k.f->shared_bytes = 4224;
  LaneValue *shared = lane_shared(&k.b, buffer), *p = unknown(&k, LK_PRED);
  LaneValue *moving = lane_2(&k.b, LANE_ADD, LK_S32, shared,
                             lane_2(&k.b, LANE_SHL, LK_B32, lane_special(&k.b, SP_TID_X), lane_i32(&k.b, 4)));
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    for (int n = 1; n <= 4; n *= 2) {
      if (n * lane_kind_info[kinds[i]].bits > 128) continue;
      LaneType t = lane_kind_info[kinds[i]].type;
      LaneValue *other[4], *constants[4];
      for (int j = 0; j < n; j++) other[j] = unknown(&k, kinds[i]), constants[j] = lane_const(&k.b, t, 1);
      LaneOp *ops[] = {lane_load(&k.b, SPACE_GLOBAL, kinds[i], n, k.p, -64, NULL, NULL),
                       lane_load(&k.b, SPACE_GLOBAL, kinds[i], n, k.p, 64, p, other),
                       lane_load(&k.b, SPACE_SHARED, kinds[i], n, shared, 64, NULL, NULL),
                       lane_load(&k.b, SPACE_SHARED, kinds[i], n, moving, 0, p, constants)};
      for (int j = 0; j < 4; j++) {
        lane_store(&k.b, SPACE_GLOBAL, kinds[i], n, k.q, 1024 * j, j & 1 ? p : NULL, ops[j]->out);
        lane_store(&k.b, SPACE_SHARED, kinds[i], n, j & 1 ? moving : shared, 32, NULL, ops[j]->out);
      }
      lane_store(&k.b, SPACE_GLOBAL, kinds[i], n, k.q, 4096, p, constants);
    }
  for (int hint = CACHE_NONE; hint <= CACHE_WT; hint++)
    for (int evict = EVICT_NORMAL; evict <= EVICT_LAST; evict++) {
      LaneOp *load = lane_load(&k.b, SPACE_GLOBAL, LK_B32, 2, k.p, 8, NULL, NULL);
      load->cache = (uint8_t)hint, load->evict = (uint8_t)evict;
      LaneOp *store = lane_store(&k.b, SPACE_GLOBAL, LK_B32, 2, k.q, 8, p, load->out);
      store->cache = (uint8_t)hint, store->evict = (uint8_t)evict;
    }
  lane_load(&k.b, SPACE_GLOBAL, LK_B32, 4, k.p, 16, NULL, NULL)->is_volatile = true;
  lane_load(&k.b, SPACE_SHARED, LK_B32, 1, shared, 16, NULL, NULL)->is_volatile = true;
  assembles_all(&k, targets);
  LaneOp *wide = lane_load(&k.b, SPACE_GLOBAL, LK_B32, 8, k.p, 32, NULL, NULL);
  wide->evict = EVICT_LAST;
  lane_store(&k.b, SPACE_GLOBAL, LK_B32, 8, k.q, 32, NULL, wide->out)->evict = EVICT_FIRST;
  assembles_all(&k, targets + 5);
  end();
}

/* What the printer says of a text is what the text says. */
static void test_facts(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) { /* enough sums; too few; a shuffle; no barrier */
    Kernel k = begin(2);
    LaneValue *x = unknown(&k, LK_F32), *sum = unknown(&k, LK_F32);
    for (int n = 0; n < (i == 1 ? 127 : 128); n++) sum = lane_3(&k.b, LANE_FMA, LK_F32, x, x, sum);
    if (i == 2) sum = lane_shfl(&k.b, SHUFFLE_XOR, sum, lane_i32(&k.b, 1));
    if (i != 3) lane_barrier(&k.b, false);
    use(&k, sum);
    Buf out = {0};
    GpuPtx said = gpu_print_ptx(&out, k.f, gpu_target_find("sm_90a"), false);
    assert_int_equal(said.is_product, i == 0);
    assert_int_equal(said.threads, 64);
    assert_false(said.has_lines);
    static const char bound[] = ".reqntid 64\n";
    size_t n = sizeof bound - 1;
    assert_true(said.bounds_end > n && !memcmp(out.at + said.bounds_end - n, bound, n));
    assert_int_equal(out.at[said.bounds_end], '{');
    buf_destroy(&out);
    end();
  }
}

static void test_addresses_and_guards(void **state) {
  (void)state;
  Kernel k = begin(2);
  int buffer = lane_buffer(&k.b, "buffer", 64, 32);
  k.f->buffers.at[buffer].offset = 32;
  LaneValue *shared = lane_shared(&k.b, buffer), *p = unknown(&k, LK_PRED), *x = unknown(&k, LK_B32),
            *other[] = {x, lane_i32(&k.b, 7)};
  LaneOp *load = lane_load(&k.b, SPACE_GLOBAL, LK_B32, 2, k.p, -8, p, other);
  lane_store(&k.b, SPACE_SHARED, LK_B32, 1, shared, 12, NULL, load->out);
  LaneOp *store =
      lane_store(&k.b, SPACE_GLOBAL, LK_F32, 2, k.q, 0, p, (LaneValue *[]){lane_f32(&k.b, 1), lane_f32(&k.b, -2)});
  store->guard_not = true, store->cache = CACHE_CS, store->evict = EVICT_FIRST;
  static const uint8_t priorities[] = {PRIORITY_LAST, PRIORITY_L2_LAST, PRIORITY_NO_L1};
  for (int i = 0; i < 3; i++) lane_load(&k.b, SPACE_GLOBAL, LK_B32, 1, k.p, 256, NULL, NULL)->evict = priorities[i];
  char *text = print(&k, "sm_90a");
  contains(text, ".extern .shared .align 32 .b8 $shared[];\n");
  contains(text, ".reqntid 64\n");
  contains(text, "setp.ne.b32 %p1, %r");
  contains(text, "\tmov.b32 %r4, %r3;\n\tmov.b32 %r5, 7;\n\t@%p1 ld.global.v2.b32 {%r4, %r5}, [%rd1+-8];\n");
  contains(text, "st.shared.b32 [$shared+44], %r4;\n");
  contains(text, "mov.b32 %r6, 0x3F800000;\n");
  contains(text, "\t@!%p1 st.global.cs.v2.b32 [%rd2], {%r6, %r7};\n");
  contains(text, "ld.global.L1::evict_last.L2::cache_hint.b32 %r8, [%rd1+256], %rd3;\n");
  contains(text, "ld.global.L2::cache_hint.b32 %r9, [%rd1+256], %rd3;\n");
  contains(text, "ld.global.L1::no_allocate.b32 %r10, [%rd1+256];\n");
  contains(text, "\tcreatepolicy.fractional.L2::evict_last.b64 %rd3, 1.0;\n");
  end();
}

static LaneOp *rmw(Kernel *k, LaneOp proto, int values, bool result, LaneValue *address) {
  LaneValue *in[9] = {address};
  proto.code = LANE_ATOM;
  proto.buffer = -1;
  int n = proto.rmw == RMW_CAS ? 1 : values;
  LaneType types[8] = {0}, t = lane_kind_info[proto.kind].type;
  for (int i = 0; i < values; i++) in[i + 1] = unknown(k, proto.kind);
  for (int i = 0; i < n; i++) types[i] = t;
  LaneOp *op = lane_op_raw(&k->b, proto, values + 1, in, result ? n : 0, types);
  for (int i = 0; result && i < n; i++) use(k, op->out[i]);
  return op;
}

static void test_atomics(void **state) {
  (void)state;
  static const LaneKind kinds[] = {LK_S32, LK_U32, LK_S64, LK_U64};
  Kernel k = begin(4);
  int buffer = lane_buffer(&k.b, "buffer", 64, 16);
  k.f->buffers.at[buffer].offset = 0;
  LaneValue *shared = lane_shared(&k.b, buffer), *p = unknown(&k, LK_PRED);
  for (int result = 0; result < 2; result++) {
    for (int sem = 0; sem < 4; sem++)
      for (int scope = 0; scope < 3; scope++) {
        rmw(&k, (LaneOp){.kind = LK_U32, .rmw = RMW_ADD, .sem = (uint8_t)sem, .scope = (uint8_t)scope, .guard = p}, 1,
            result, k.q);
        rmw(&k, (LaneOp){.kind = LK_B32, .rmw = RMW_CAS, .sem = (uint8_t)sem, .scope = (uint8_t)scope}, 2, result, k.q);
        rmw(&k, (LaneOp){.kind = LK_B64, .rmw = RMW_XCHG, .sem = (uint8_t)sem, .scope = (uint8_t)scope}, 1, result,
            k.q);
      }
    for (int i = 0; i < 4; i++)
      for (int op = RMW_ADD; op <= RMW_CAS; op++) {
        rmw(&k, (LaneOp){.kind = kinds[i], .rmw = (uint8_t)op, .sem = SEM_RELAXED}, op == RMW_CAS ? 2 : 1, result, k.q);
        rmw(&k,
            (LaneOp){
                .kind = kinds[i], .rmw = (uint8_t)op, .sem = SEM_RELAXED, .scope = SCOPE_CTA, .space = SPACE_SHARED},
            op == RMW_CAS ? 2 : 1, result, shared);
      }
    rmw(&k, (LaneOp){.kind = LK_B16, .rmw = RMW_CAS, .sem = SEM_RELAXED}, 2, result, k.q);
    static const LaneKind added[] = {LK_F32, LK_F64, LK_F16, LK_F16X2};
    for (int i = 0; i < 4; i++) rmw(&k, (LaneOp){.kind = added[i], .rmw = RMW_ADD, .sem = SEM_RELAXED}, 1, result, k.q);
    rmw(&k, (LaneOp){.kind = LK_F32, .rmw = RMW_ADD, .sem = SEM_RELAXED, .space = SPACE_SHARED}, 1, result, shared);
  }
  char *text = print(&k, "sm_80");
  contains(text, "red.global.relaxed.gpu.add.f32 [%rd2], ");
  contains(text, "atom.global.acquire.gpu.add.u32 _, [%rd2], "); /* red cannot acquire */
  contains(text, "atom.global.release.sys.exch.b64 _, [%rd2], ");
  contains(text, "@%p1 red.global.release.cta.add.u32 ");
  assembles_all(&k, targets);
  for (int result = 0; result < 2; result++) {
    rmw(&k, (LaneOp){.kind = LK_BF16, .rmw = RMW_ADD, .sem = SEM_ACQ_REL}, 1, result, k.q);
    rmw(&k, (LaneOp){.kind = LK_BF16X2, .rmw = RMW_ADD, .sem = SEM_RELAXED}, 1, result, k.q);
    for (int n = 2; n <= 4; n *= 2) {
      rmw(&k, (LaneOp){.kind = LK_F32, .rmw = RMW_ADD, .sem = SEM_RELAXED}, n, result, k.q);
      rmw(&k, (LaneOp){.kind = LK_F16X2, .rmw = RMW_ADD, .sem = SEM_RELAXED}, n, result, k.q);
      rmw(&k, (LaneOp){.kind = LK_BF16X2, .rmw = RMW_MAX, .sem = SEM_RELAXED}, n, result, k.q);
    }
    rmw(&k, (LaneOp){.kind = LK_F16, .rmw = RMW_ADD, .sem = SEM_RELAXED}, 8, result, k.q);
  }
  assembles_all(&k, since_sm90);
  end();
}

static void test_what_a_target_lacks(void **state) {
  (void)state;
  static const char *const says[] = {"sm_80 has no atomic operation on several elements at once",
                                     "sm_80 has no atomic addition of bf16",
                                     "sm_80 has no access of 8 elements of b32 at once", "sm_80 has no redux of f32"};
  for (int i = 0; i < 4; i++) {
    Kernel k = begin(1);
    if (i == 0) rmw(&k, (LaneOp){.kind = LK_F32, .rmw = RMW_ADD, .sem = SEM_RELAXED}, 2, false, k.q);
    if (i == 1) rmw(&k, (LaneOp){.kind = LK_BF16, .rmw = RMW_ADD, .sem = SEM_RELAXED}, 1, false, k.q);
    if (i == 2) lane_load(&k.b, SPACE_GLOBAL, LK_B32, 8, k.p, 0, NULL, NULL);
    if (i == 3)
      use(&k, lane_op(&k.b, (LaneOp){.code = LANE_REDUX, .kind = LK_F32, .rmw = RMW_MAX}, 1,
                      (LaneValue *[]){unknown(&k, LK_F32)}));
    Buf out = {0};
    if (context_try(cx)) {
      gpu_print_ptx(&out, k.f, gpu_target_find("sm_80"), false);
      context_end_try(cx);
      print_message("no error: %s\n", says[i]);
      assert_true(false);
    }
    assert_string_equal(cx->diags.at[cx->diags.n - 1].message, says[i]);
    buf_destroy(&out);
    end();
  }
}

/* ---- between lanes ----------------------------------------------------------------------------------------------- */

static void test_lanes(void **state) {
  (void)state;
  for (int warps = 1; warps <= 8; warps *= 8) {
    Kernel k = begin(warps);
    LaneValue *x = unknown(&k, LK_B32), *lane = unknown(&k, LK_U32), *p = unknown(&k, LK_PRED);
    for (int s = SHUFFLE_XOR; s <= SHUFFLE_IDX; s++) {
      use(&k, lane_shfl(&k.b, (LaneShuffle)s, x, lane));
      use(&k, lane_shfl(&k.b, (LaneShuffle)s, unknown(&k, LK_B64), lane_i32(&k.b, 4)));
      use(&k, lane_shfl(&k.b, (LaneShuffle)s, unknown(&k, LK_B16), lane));
      use(&k, lane_shfl(&k.b, (LaneShuffle)s, p, lane));
      use(&k, lane_op(&k.b, (LaneOp){.code = LANE_SHFL, .kind = LK_B32, .shuffle = (uint8_t)s, .imm = 8}, 2,
                      (LaneValue *[]){x, lane}));
    }
    for (int v = VOTE_ANY; v <= VOTE_BALLOT; v++)
      use(&k, lane_op(&k.b, (LaneOp){.code = LANE_VOTE, .kind = LK_PRED, .vote = (uint8_t)v}, 1, &p));
    for (int op = RMW_ADD; op <= RMW_XOR; op++) {
      use(&k, lane_op(&k.b, (LaneOp){.code = LANE_REDUX, .kind = op < RMW_AND ? LK_S32 : LK_B32, .rmw = (uint8_t)op}, 1,
                      &x));
      use(&k, lane_op(&k.b, (LaneOp){.code = LANE_REDUX, .kind = op < RMW_AND ? LK_U32 : LK_B32, .rmw = (uint8_t)op}, 1,
                      &x));
    }
    for (int s = SP_TID_X; s < SP_CLUSTER_RANK; s++) use(&k, lane_special(&k.b, (LaneSpecial)s));
    lane_barrier(&k.b, true);
    lane_barrier(&k.b, false);
    for (int sem = 0; sem < 4; sem++)
      for (int scope = 0; scope < 3; scope++)
        lane_op_raw(&k.b, (LaneOp){.code = LANE_FENCE, .sem = (uint8_t)sem, .scope = (uint8_t)scope, .buffer = -1}, 0,
                    NULL, 0, NULL);
    LaneOp exits = {.code = LANE_EXIT, .guard = p, .buffer = -1};
    lane_op_raw(&k.b, exits, 0, NULL, 0, NULL);
    char *text = print(&k, "sm_90a");
    contains(text, "shfl.sync.up.b32 ");
    contains(text, ", 6144, -1;\n"); /* up, in segments of 8 */
    contains(text, ", 6175, -1;\n");
    contains(text, "@%p1 exit;\n");
    if (warps == 1) lacks(text, "bar.sync");
    else contains(text, "bar.sync 0;\n");
    assembles_all(&k, targets);
    use(&k, lane_op(&k.b, (LaneOp){.code = LANE_REDUX, .kind = LK_F32, .rmw = RMW_MAX, .nan = true}, 1, &x));
    assembles(&k, "sm_100a");
    end();
  }
}

static LaneOp *assembly(Kernel *k, const char *text, int n, LaneValue *const *in, int outs) {
  LaneType types[] = {LT_B32, LT_B32};
  return lane_op_raw(&k->b, (LaneOp){.code = LANE_ASM, .text = text, .buffer = -1}, n, in, outs, types);
}

static void test_inline_assembly(void **state) {
  (void)state;
  Kernel k = begin(1);
  LaneValue *in[] = {unknown(&k, LK_B32), lane_i32(&k.b, 3)};
  LaneOp *op = assembly(&k, "{ .reg .b32 t$$; add.s32 t$$, $2, ${3};\n mov.b32 $0, t$$; }\n\tmov.b32 $1, $2", 2, in, 2);
  use(&k, op->out[0]), use(&k, op->out[1]);
  contains(print(&k, "sm_80"), "\t{ .reg .b32 t$; add.s32 t$, %r1, %r4;\n mov.b32 %r2, t$; }\n\tmov.b32 %r3, %r1;\n");
  assembles_all(&k, targets);
  end();
  static const char *const wrong[][2] = {{"mov.b32 $0, $9;", "the assembly names $9, but there are 3 operands"},
                                         {"mov.b32 $x, 1;", "the assembly has a $ that no number follows"}};
  for (int i = 0; i < 2; i++) {
    k = begin(1);
    LaneValue *two[] = {unknown(&k, LK_B32), unknown(&k, LK_B32)};
    assembly(&k, wrong[i][0], 2, two, 1);
    Buf out = {0};
    if (context_try(cx)) {
      gpu_print_ptx(&out, k.f, gpu_target_find("sm_80"), false);
      context_end_try(cx);
      assert_true(false);
    }
    assert_string_equal(cx->diags.at[cx->diags.n - 1].message, wrong[i][1]);
    buf_destroy(&out);
    end();
  }
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

/* Runs the lines "mov.b32 a, b;" of text up to a line that is no such; regs[i] is what %ri holds. */
static void run_moves(const char *text, uint32_t *regs, int n) {
  for (int to, from, used; sscanf(text, "\tmov.b32 %%r%d, %n", &to, &used) == 1;) {
    text += used;
    uint32_t value = sscanf(text, "%%r%d;", &from) == 1 ? regs[from] : (uint32_t)strtoul(text, NULL, 0);
    assert_in_range(to, 1, n - 1);
    regs[to] = value;
    text = strchr(text, '\n') + 1;
  }
}

/* A loop that carries n values and hands on arbitrary ones of them and constants: what the printed moves do is what a
 * parallel copy does. */
static void test_parallel_copies(void **state) {
  (void)state;
  uint32_t seed = 1;
  for (int round = 0; round < 3000; round++) {
    seed = seed * 1664525u + 1013904223u;
    int n = 1 + (int)(seed >> 28);
    Kernel k = begin(1);
    LaneValue *init[16], *yields[16], *bound = unknown(&k, LK_S32);
    uint32_t want[16];
    for (int i = 0; i < n; i++) init[i] = unknown(&k, LK_B32);
    LaneOp *loop = lane_for(&k.b, LK_S32, lane_i32(&k.b, 0), bound, lane_i32(&k.b, 1), n, init);
    LaneValue **args = loop->body[0]->args + 1;
    lane_store(&k.b, SPACE_GLOBAL, LK_B32, 1, k.q, 0, NULL, &loop->body[0]->args[0]);
    for (int i = 0; i < n; i++) lane_store(&k.b, SPACE_GLOBAL, LK_B32, 1, k.q, 0, NULL, &args[i]);
    int kind = (int)(seed >> 8) & 3; /* any, a permutation, a rotation, any with constants */
    int order[16];
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
      seed = seed * 1664525u + 1013904223u;
      int j = (int)(seed >> 16) % (i + 1), t = order[i];
      order[i] = order[j], order[j] = t;
    }
    for (int i = 0; i < n; i++) {
      seed = seed * 1664525u + 1013904223u;
      int from = kind == 1 ? order[i] : kind == 2 ? (i + 1) % n : (int)(seed >> 16) % n;
      bool constant = kind == 3 && (seed >> 12 & 3) == 0;
      yields[i] = constant ? lane_i32(&k.b, 1000 + i) : args[from];
      want[i] = constant ? (uint32_t)(1000 + i) : (uint32_t)(100 + from);
    }
    lane_yield(&k.b, n, yields);
    lane_leave(&k.b, loop);
    for (int i = 0; i < n; i++) use(&k, loop->out[i]);
    char *text = print(&k, "sm_90a");
    const char *at = strstr(text, "$loop1:\n");
    assert_non_null(at);
    int number[17];
    at = strchr(at, '\n') + 1;
    for (int i = 0; i <= n; i++) {
      if (sscanf(at, "\tst.global.b32 [%%rd2], %%r%d;", &number[i]) != 1)
        print_message("%s\n", text), assert_true(false);
      at = strchr(at, '\n') + 1;
    }
    uint32_t regs[64] = {0};
    for (int i = 0; i < n; i++) regs[number[i + 1]] = (uint32_t)(100 + i);
    run_moves(at, regs, 64);
    for (int i = 0; i < n; i++)
      if (regs[number[i + 1]] != want[i]) print_message("%s\n", text), assert_int_equal(regs[number[i + 1]], want[i]);
    if (round % 500 == 0) assembles(&k, "sm_90a");
    end();
  }
}

/* A branch that hands on arbitrary ones of n values, some of which are read after it: what either side's moves do is
 * what a parallel copy does, and the values that are read lie where they lay. */
static void test_branch_copies(void **state) {
  (void)state;
  uint32_t seed = 7;
  int in_place = 0;
  for (int round = 0; round < 2000; round++) {
    enum { MOST = 8 };
    Kernel k = begin(1);
    LaneValue *init[MOST], *yields[2][MOST], *cond = unknown(&k, LK_PRED);
    LaneType types[MOST];
    uint32_t want[2][MOST];
    seed = seed * 1664525u + 1013904223u;
    int n = 1 + (int)(seed >> 29), kept = (int)(seed >> 8) & 0xff;
    for (int i = 0; i < n; i++) init[i] = unknown(&k, LK_B32), types[i] = LT_B32;
    for (int i = 0; i < n; i++) lane_store(&k.b, SPACE_GLOBAL, LK_B32, 1, k.q, 0, NULL, &init[i]);
    LaneOp *branch = lane_if(&k.b, cond, false, n, types);
    for (int side = 0; side < 2; side++) {
      lane_enter(&k.b, branch, side);
      for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        int from = seed >> 12 & 1 ? i : (int)(seed >> 16) % n;
        bool constant = (seed >> 13 & 7) == 0;
        yields[side][i] = constant ? lane_i32(&k.b, 1000 + i) : init[from];
        want[side][i] = constant ? (uint32_t)(1000 + i) : (uint32_t)(100 + from);
      }
      lane_yield(&k.b, n, yields[side]);
    }
    lane_leave(&k.b, branch);
    for (int i = 0; i < n; i++) lane_store(&k.b, SPACE_GLOBAL, LK_B32, 1, k.q, 0, NULL, &branch->out[i]);
    for (int i = 0; i < n; i++)
      if (kept >> i & 1) lane_store(&k.b, SPACE_GLOBAL, LK_B32, 1, k.q, 0, NULL, &init[i]);
    char *text = print(&k, "sm_90a");
    const char *sides[] = {strstr(text, "$else1;\n"), strstr(text, "$else1:\n")}, *after = strstr(text, "$end1:\n");
    assert_true(sides[0] && sides[1] && after);
    for (int side = 0; side < 2; side++) {
      uint32_t regs[64] = {0};
      int number;
      const char *at = strstr(text, "\tst.global");
      for (int i = 0; i < n; i++, at = strchr(at, '\n') + 1) {
        assert_int_equal(sscanf(at, "\tst.global.b32 [%%rd2], %%r%d;", &number), 1);
        regs[number] = (uint32_t)(100 + i);
      }
      run_moves(strchr(sides[side], '\n') + 1, regs, 64);
      at = strchr(after, '\n') + 1;
      for (int i = 0; i < 2 * n; i++) {
        if (i >= n && !(kept >> (i - n) & 1)) continue;
        uint32_t right = i < n ? want[side][i] : (uint32_t)(100 + i - n);
        assert_int_equal(sscanf(at, "\tst.global.b32 [%%rd2], %%r%d;", &number), 1);
        if (regs[number] != right) print_message("%s\n", text), assert_int_equal(regs[number], right);
        at = strchr(at, '\n') + 1;
      }
    }
    in_place += !strncmp(strchr(sides[0], '\n') + 1, "\tbra", 4);
    if (round % 500 == 0) assembles(&k, "sm_90a");
    end();
  }
  assert_in_range(in_place, 100, 1900); /* one side has nothing to copy */
}

static void test_swap_reads(void **state) {
  (void)state;
  Kernel k = begin(1);
  LaneValue *init[] = {unknown(&k, LK_B32), unknown(&k, LK_B32)};
  LaneOp *loop = lane_for(&k.b, LK_S32, lane_i32(&k.b, 0), lane_i32(&k.b, 10), lane_i32(&k.b, 3), 2, init);
  loop->uniform = true, loop->unroll = 1;
  LaneValue **args = loop->body[0]->args;
  lane_yield(&k.b, 2, (LaneValue *[]){args[2], args[1]});
  lane_leave(&k.b, loop);
  use(&k, loop->out[0]), use(&k, loop->out[1]);
  contains(print(&k, "sm_90a"), "\tmov.b32 %r3, 0;\n"
                                "$loop1:\n\t.pragma \"nounroll\";\n"
                                "\tmov.b32 %r4, %r1;\n\tmov.b32 %r1, %r2;\n\tmov.b32 %r2, %r4;\n"
                                "\tadd.s32 %r3, %r3, 3;\n\tsetp.lt.s32 %p1, %r3, 10;\n\t@%p1 bra.uni $loop1;\n"
                                "\tst.global.b32 [%rd2+48], %r1;\n\tst.global.b32 [%rd2+64], %r2;\n");
  assembles_all(&k, targets);
  end();
}

static void test_loops(void **state) {
  (void)state;
  Kernel k = begin(4);
  static const LaneKind kinds[] = {LK_S32, LK_S64, LK_U32, LK_U64};
  for (int i = 0; i < 4; i++)
    for (int down = 0; down < 2; down++) {
      if (down && i > 1) continue;
      LaneType t = lane_kind_info[kinds[i]].type;
      LaneValue *x = unknown(&k, kinds[i]), *p = unknown(&k, LK_PRED);
      LaneOp *loop = lane_for(&k.b, kinds[i], unknown(&k, kinds[i]), unknown(&k, kinds[i]),
                              lane_const(&k.b, t, (uint64_t)(int64_t)(down ? -2 : 2)), 2, (LaneValue *[]){x, p});
      LaneValue **args = loop->body[0]->args;
      lane_yield(&k.b, 2, (LaneValue *[]){args[0], lane_1(&k.b, LANE_NOT, LK_PRED, args[2])});
      lane_leave(&k.b, loop);
      use(&k, loop->out[0]), use(&k, loop->out[1]);
    }
  char *text = print(&k, "sm_90a");
  contains(text, "setp.gt.s32 ");
  contains(text, "setp.gt.s64 ");
  contains(text, "setp.lt.u64 ");
  /* A while whose condition hands on other values than it was given, in an if in a loop. */
  LaneValue *n = unknown(&k, LK_S32);
  LaneOp *outer = lane_for(&k.b, LK_S32, lane_i32(&k.b, 0), n, lane_i32(&k.b, 1), 1, (LaneValue *[]){n});
  LaneOp *branch =
      lane_if(&k.b, lane_setp(&k.b, CMP_LT, LK_S32, outer->body[0]->args[1], n), false, 1, (LaneType[]){LT_B32});
  LaneOp *loop = lane_while(&k.b, 2, (LaneValue *[]){outer->body[0]->args[1], n});
  LaneValue **args = loop->body[0]->args;
  LaneValue *sum = lane_2(&k.b, LANE_ADD, LK_S32, args[0], args[1]);
  lane_condition(&k.b, lane_setp(&k.b, CMP_GT, LK_S32, sum, lane_i32(&k.b, 3)), 2, (LaneValue *[]){sum, args[0]});
  lane_enter(&k.b, loop, 1);
  lane_yield(&k.b, 2, (LaneValue *[]){loop->body[1]->args[1], loop->body[1]->args[0]});
  lane_leave(&k.b, loop);
  lane_yield(&k.b, 1, &loop->out[0]);
  lane_enter(&k.b, branch, 1);
  lane_yield(&k.b, 1, &loop->in[1]);
  lane_leave(&k.b, branch);
  lane_yield(&k.b, 1, branch->out);
  lane_leave(&k.b, outer);
  use(&k, outer->out[0]);
  assembles_all(&k, targets);
  end();
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

static void test_parameters(void **state) {
  (void)state;
  cx = context_create();
  LaneFunc *f = lane_func_create(cx, "größe_1");
  f->num_warps = 2;
  LaneBuilder b = lane_builder(f);
  Kernel k = {.f = f};
  static const Dtype types[] = {DT_I1,  DT_I8,   DT_U8,  DT_I16,  DT_U16, DT_I32,
                                DT_I64, DT_F8E5, DT_F16, DT_BF16, DT_F32, DT_F64};
  LaneValue *params[12];
  LaneValue *out = lane_func_param(f, LT_B64, type_pointer(cx, DT_F32), 16);
  for (int i = 0; i < 12; i++)
    params[i] = lane_func_param(f, lane_type_of(type_number(cx, types[i])), type_number(cx, types[i]), 1);
  b = lane_builder(f);
  for (int i = 0; i < 12; i++)
    lane_store(&b, SPACE_GLOBAL, lane_kind_of(type_number(cx, types[i])), 1, out, 8 * i, NULL, &params[i]);
  char *text = print(&k, "sm_90a");
  contains(text, ".visible .entry gr____e_1(\n\t.param .u64 .ptr .global .align 16 p0,\n\t.param .u8 p1,\n\t.param .u8 "
                 "p2,\n\t.param .u8 p3,\n\t.param .u16 p4,");
  contains(text, "ld.param.s8 %r2, [p2];\n");
  contains(text, "ld.param.u8 %r3, [p3];\n");
  contains(text, "ld.param.u16 ");
  contains(text, "ld.param.b16 %h1, [p9];\n");
  contains(text, ".param .u64 p12)\n.reqntid 64\n");
  assembles_all(&k, targets);
  end();
}

static void test_targets(void **state) {
  (void)state;
  assert_string_equal(gpu_target_for(90)->name, "sm_90a");
  assert_string_equal(gpu_target_for(80)->name, "sm_80");
  assert_string_equal(gpu_target_for(88)->name, "sm_87");
  assert_string_equal(gpu_target_for(120)->name, "sm_120a");
  assert_null(gpu_target_for(75));
  assert_null(gpu_target_for(91)); /* the code of an `a` target runs on nothing else */
  assert_string_equal(gpu_target_find("sm_90")->name, "sm_90a");
  assert_string_equal(gpu_target_find("H100")->name, "sm_90a");
  assert_null(gpu_target_find("sm_9"));
  for (int i = 0; targets[i]; i++) assert_non_null(gpu_target_find(targets[i]));
}

/* A wait in a branch is a loop that is left at once where the branch is not taken; beside stores it stands in one. */
static void test_waits_in_branches(void **state) {
  (void)state;
  for (int stores = 0; stores < 2; stores++) {
    Kernel k = begin(4);
    LaneValue *x = unknown(&k, LK_S32), *cond = unknown(&k, LK_PRED);
    int bars = lane_buffer(&k.b, "barriers", 16, 8);
    k.f->buffers.at[bars].offset = 0, k.f->shared_bytes = 16;
    LaneOp *branch = lane_if(&k.b, cond, true, 0, NULL);
    LaneValue *bar = lane_2(&k.b, LANE_ADD, LK_S32, lane_shared(&k.b, bars), x);
    lane_mbar(&k.b, LANE_MBAR_WAIT, bar, 8, bars, x);
    if (stores) lane_store(&k.b, SPACE_GLOBAL, LK_B32, 1, k.q, 0, NULL, &x);
    lane_yield(&k.b, 0, NULL);
    lane_enter(&k.b, branch, 1);
    lane_yield(&k.b, 0, NULL);
    lane_leave(&k.b, branch);
    char *text = print(&k, "sm_90a");
    bool left = strstr(text, "not.pred") != NULL, branches = strstr(text, "$end") != NULL;
    assert_true(left == !stores && branches == stores);
    if (!stores) contains(text, " mbarrier.try_wait.parity.shared::cta.b64 ");
    assembles(&k, "sm_90a");
    end();
  }
}

/* ---- mbarriers and copies by tensor maps ------------------------------------------------------------------------- */

static void test_bulk_copies(void **state) {
  (void)state;
  for (int rank = 1; rank <= 5; rank++) {
    Kernel k = begin(4);
    k.f->maps = k.f->hidden_params = 1;
    LaneValue *map = lane_func_param(k.f, LT_B64, NULL, 1), *x = unknown(&k, LK_S32), *at[5] = {x, x, x, x, x};
    int tile = lane_buffer(&k.b, "tile", 4096, 1024), bars = lane_buffer(&k.b, "barriers", 16, 8);
    k.f->buffers.at[tile].offset = 0, k.f->buffers.at[bars].offset = 4096, k.f->shared_bytes = 4112;
    LaneValue *to = lane_shared(&k.b, tile), *bar = lane_shared(&k.b, bars),
              *other = lane_2(&k.b, LANE_ADD, LK_S32, bar, x);
    LaneValue *one = lane_op(&k.b, (LaneOp){.code = LANE_ELECT}, 0, NULL);
    lane_mbar(&k.b, LANE_MBAR_INIT, bar, 8, bars, x)->guard = one;
    lane_mbar(&k.b, LANE_MBAR_INIT, bar, 0, bars, lane_i32(&k.b, 128));
    lane_simple(&k.b, LANE_FENCE_MBAR, 0, -1);
    lane_op_raw(&k.b, (LaneOp){.code = LANE_PREFETCH_MAP}, 1, &map, 0, NULL);
    lane_op_raw(&k.b, (LaneOp){.code = LANE_SETMAXNREG, .imm = 240, .inc = true}, 0, NULL, 0, NULL);
    lane_op_raw(&k.b, (LaneOp){.code = LANE_SETMAXNREG, .imm = 24}, 0, NULL, 0, NULL);
    lane_mbar(&k.b, LANE_MBAR_EXPECT, bar, 0, bars, lane_i32(&k.b, 32768));
    lane_mbar(&k.b, LANE_MBAR_EXPECT, other, 0, bars, x)->guard = one;
    lane_tensor(&k.b, LANE_TENSOR_LOAD, rank, to, 1024, tile, bar, map, at);
    lane_tensor(&k.b, LANE_TENSOR_LOAD, rank, to, 0, tile, other, map, at)->guard = one;
    lane_mbar(&k.b, LANE_MBAR_ARRIVE, other, 8, bars, NULL);
    lane_mbar(&k.b, LANE_MBAR_WAIT, bar, 8, bars, lane_i32(&k.b, 1));
    lane_mbar(&k.b, LANE_MBAR_WAIT, other, 0, bars, x);
    lane_tensor(&k.b, LANE_TENSOR_STORE, rank, to, 0, tile, NULL, map, at);
    for (int rmw = RMW_ADD; rmw <= RMW_XOR; rmw++)
      lane_tensor(&k.b, LANE_TENSOR_RED, rank, to, 0, tile, NULL, map, at)->rmw = (uint8_t)rmw;
    lane_simple(&k.b, LANE_BULK_COMMIT, 0, -1);
    lane_op_raw(&k.b, (LaneOp){.code = LANE_BULK_WAIT, .read = true, .imm = 1}, 0, NULL, 0, NULL);
    lane_simple(&k.b, LANE_BULK_WAIT, 0, -1);
    lane_op_raw(&k.b, (LaneOp){.code = LANE_BARRIER, .warps = 2, .imm = 1}, 0, NULL, 0, NULL);
    lane_op_raw(&k.b, (LaneOp){.code = LANE_BARRIER_ARRIVE, .warps = 4, .imm = 15}, 0, NULL, 0, NULL);
    lane_verify(k.f, NULL);
    assembles_all(&k, since_sm90);
    char *text = print(&k, "sm_90a");
    contains(text, "\t.param .align 64 .b8 p2[128])\n.reqntid 128\n.minnctapersm 1\n");
    contains(text, "\tbar.sync 1, 64;\n\tbar.arrive 15, 128;\n");
    end();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_integers),      cmocka_unit_test(test_floats),
      cmocka_unit_test(test_bf16_by_fma),   cmocka_unit_test(test_comparisons),
      cmocka_unit_test(test_conversions),   cmocka_unit_test(test_halves_in_order),
      cmocka_unit_test(test_memory),        cmocka_unit_test(test_addresses_and_guards),
      cmocka_unit_test(test_atomics),       cmocka_unit_test(test_what_a_target_lacks),
      cmocka_unit_test(test_lanes),         cmocka_unit_test(test_inline_assembly),
      cmocka_unit_test(test_facts),         cmocka_unit_test(test_parallel_copies),
      cmocka_unit_test(test_branch_copies), cmocka_unit_test(test_waits_in_branches),
      cmocka_unit_test(test_swap_reads),    cmocka_unit_test(test_loops),
      cmocka_unit_test(test_parameters),    cmocka_unit_test(test_targets),
      cmocka_unit_test(test_bulk_copies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
