/* Tests of what a launch costs, through tile/analysis/cost.h: each count against one made by hand. */
#include "front/front.h"
#include "tile/analysis/cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static TileCost *cost_of(Context *cx, const char *text, const uint64_t *args, int32_t x, int32_t y) {
  Func *f = tile_parse(cx, source_from_text(cx, "t.tile", text, strlen(text)));
  tile_verify(f, "parse");
  return tile_cost(f, args, NULL, (int32_t[]){x, y, 1});
}

static bool has_notes(const TileCost *c) {
  for (int i = 0; i < COST_NOTES; i++)
    if (c->noted[i]) return true;
  return false;
}

static const char *const add_text =
    "kernel @add(%x: *f32, %y: *f32, %out: *f32, %n: i32) {\n"
    "  %p = program_id {axis=0} : i32\n  %c = const {value=1024} : i32\n  %s = mul %p, %c : i32\n"
    "  %a = arange {start=0, end=1024} : i32[1024]\n  %b = splat %s : i32[1024]\n  %o = add %b, %a : i32[1024]\n"
    "  %ns = splat %n : i32[1024]\n  %m = cmp %o, %ns {pred=lt} : i1[1024]\n"
    "  %xs = splat %x : *f32[1024]\n  %xp = addptr %xs, %o : *f32[1024]\n  %xv = load %xp, %m : f32[1024]\n"
    "  %ys = splat %y : *f32[1024]\n  %yp = addptr %ys, %o : *f32[1024]\n  %yv = load %yp, %m : f32[1024]\n"
    "  %sum = add %xv, %yv : f32[1024]\n"
    "  %os = splat %out : *f32[1024]\n  %op = addptr %os, %o : *f32[1024]\n  store %op, %sum, %m\n}\n";

static void vector_add_counts_what_the_mask_leaves(void **state) {
  const int64_t sizes[] = {1, 1000, 1024, 1025, 5000, (int64_t)1 << 20, ((int64_t)1 << 30) - 3};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    Context *cx = context_create();
    int64_t n = sizes[i];
    TileCost *c =
        cost_of(cx, add_text, (uint64_t[]){1 << 20, 1 << 21, 1 << 22, (uint64_t)n}, (int32_t)((n + 1023) / 1024), 1);
    assert_int_equal(c->count[COST_ADD], n);
    assert_int_equal(c->count[COST_MUL] + c->count[COST_DOT] + c->count[COST_DIV] + c->count[COST_FMA], 0);
    assert_int_equal(c->load.bytes, 8 * n);
    assert_int_equal(c->store.bytes, 4 * n);
    assert_int_equal(c->load.distinct, 8 * n);
    assert_int_equal(c->store.distinct, 4 * n);
    assert_int_equal(c->loads[1].bytes, 4 * n);
    assert_int_equal(c->loads[2].bytes, 0);
    assert_int_equal(c->stores[2].bytes, 4 * n);
    for (int k = 0; k < COST_NOTES; k++) assert_true(k == COST_NOTE_SAMPLED || !c->noted[k]);
    assert_true(n > 1 << 25 || !has_notes(c)); /* all programs were walked */
    context_destroy(cx);
  }
}

static void an_empty_grid_costs_nothing(void **state) {
  Context *cx = context_create();
  TileCost *c = cost_of(cx, add_text, (uint64_t[]){0, 0, 0, 100}, 0, 1);
  assert_int_equal(c->load.bytes + c->store.bytes + c->count[COST_ADD], 0);
  assert_false(has_notes(c));
  context_destroy(cx);
}

/* ---- kernels in the Triton language, optimised ------------------------------------------------------------------- */

typedef struct Param {
  const char *text;
  Dtype pointer;
  bool is_constexpr;
  int64_t value;
} Param;
static Param ptr(Dtype t) { return (Param){.pointer = t}; }
static Param num(int64_t v) { return (Param){.value = v, .pointer = DT_COUNT}; }
static Param constexpr_of(const char *text) { return (Param){.text = text, .is_constexpr = true}; }

static TileCost *count_kernel(Context *cx, const char *body, int n, const Param *params, int32_t x, int32_t y) {
  Module *m = front_load_text(cx, "k.py", body, strlen(body));
  ArgSpec specs[32] = {0};
  uint64_t args[32];
  int slots = 0;
  for (int i = 0; i < n; i++) {
    const Param *p = &params[i];
    if (p->is_constexpr) specs[i] = (ArgSpec){.kind = ARG_CONSTEXPR, .text = p->text};
    else if (p->pointer != DT_COUNT) specs[i] = (ArgSpec){.kind = ARG_POINTER, .dtype = p->pointer, .aligned = true};
    else
      specs[i] = (ArgSpec){.kind = ARG_INT,
                           .dtype = DT_I32,
                           .has_dtype = true,
                           .has_value = true,
                           .int_value = p->value == 1 ? 3 : p->value};
  }
  Compiled *c = front_compile(m, front_kernel_at(m, 0), specs, &(CompileOptions){0});
  tile_optimize(c->func, NULL, NULL, true);
  for (int i = 0; i < c->slot_count; i++) {
    const Param *p = &params[c->slots[i].param];
    args[slots++] = p->pointer != DT_COUNT ? (uint64_t)(c->slots[i].param + 1) << 40 : (uint64_t)p->value;
  }
  return tile_cost(c->func, args, NULL, (int32_t[]){x, y, 1});
}

#define HEAD "import triton\nimport triton.language as tl\n@triton.jit\n"

static void softmax_counts(void **state) {
  static const char *const text =
      HEAD "def k(x, out, xs, os, n, BLOCK: tl.constexpr):\n"
           "    row = tl.program_id(0)\n    c = tl.arange(0, BLOCK)\n    m = c < n\n"
           "    v = tl.load(x + row * xs + c, mask=m, other=-float('inf'))\n    e = tl.exp(v - tl.max(v, axis=0))\n"
           "    tl.store(out + row * os + c, e / tl.sum(e, axis=0), mask=m)\n";
  Context *cx = context_create();
  Param p[] = {ptr(DT_F32), ptr(DT_F32), num(800), num(781), num(781), constexpr_of("1024")};
  TileCost *c = count_kernel(cx, text, 6, p, 100, 1);
  assert_int_equal(c->count[COST_ADD], 100 * (781 + 780)); /* v - max; the sum of 781 */
  assert_int_equal(c->count[COST_COMPARE], 100 * 780);
  assert_int_equal(c->count[COST_DIV], 100 * 781);
  /* exp, or exp2 of a product */
  assert_int_equal(c->count[COST_TRANSCENDENTAL] + c->count[COST_MUL], 100 * 781 * (c->count[COST_MUL] ? 2 : 1));
  assert_int_equal(c->load.bytes, 100 * 781 * 4);
  assert_int_equal(c->load.distinct, 100 * 781 * 4); /* though rows are 800 apart */
  assert_int_equal(c->store.distinct, 100 * 781 * 4);
  assert_false(has_notes(c));
  context_destroy(cx);
}

static void a_loop_over_a_row_counts_its_tail(void **state) {
  static const char *const text =
      HEAD "def k(x, out, n, BLOCK: tl.constexpr):\n"
           "    total = tl.zeros([BLOCK], tl.float32)\n    row = tl.program_id(0) * n\n"
           "    for start in range(0, n, BLOCK):\n        c = start + tl.arange(0, BLOCK)\n"
           "        v = tl.load(x + row + c, mask=c < n, other=0.0)\n        total += v * v\n"
           "    for start in range(0, n, BLOCK):\n        c = start + tl.arange(0, BLOCK)\n"
           "        v = tl.load(x + row + c, mask=c < n, other=0.0)\n        total += v\n"
           "    tl.store(out + tl.program_id(0), tl.sum(total, axis=0))\n";
  Context *cx = context_create();
  Param p[] = {ptr(DT_F16), ptr(DT_F32), num(1000), constexpr_of("128")};
  TileCost *c = count_kernel(cx, text, 4, p, 7, 1);
  assert_int_equal(c->count[COST_MUL], 7 * 1000);
  assert_int_equal(c->count[COST_ADD], 7 * (1000 + 1000 + 127));
  assert_int_equal(c->load.bytes, 2 * 7 * 1000 * 2); /* read twice */
  assert_int_equal(c->load.distinct, 7 * 1000 * 2);
  assert_int_equal(c->store.bytes, 7 * 4);
  assert_int_equal(c->store.distinct, 7 * 4);
  assert_false(has_notes(c));
  context_destroy(cx);
}

static const char *const matmul_text = HEAD
    "def k(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):\n"
    "    tiles = tl.cdiv(N, BN)\n    m = tl.program_id(0) // tiles * BM + tl.arange(0, BM)\n"
    "    n = tl.program_id(0) % tiles * BN + tl.arange(0, BN)\n    k = tl.arange(0, BK)\n"
    "    ap = a + m[:, None] * K + k[None, :]\n    bp = b + k[:, None] * N + n[None, :]\n"
    "    acc = tl.zeros([BM, BN], tl.float32)\n"
    "    for s in range(0, K, BK):\n"
    "        av = tl.load(ap, mask=(m[:, None] < M) & (k[None, :] < K - s), other=0.0)\n"
    "        bv = tl.load(bp, mask=(k[:, None] < K - s) & (n[None, :] < N), other=0.0)\n"
    "        acc = tl.dot(av, bv, acc)\n        ap += BK\n        bp += BK * N\n"
    "    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))\n";

static void matmul_counts(void **state) {
  const int sizes[][3] = {{256, 256, 256}, {250, 130, 70}, {1, 1, 1}, {2048, 2048, 2048}, {16384, 16384, 16384}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    int64_t M = sizes[i][0], N = sizes[i][1], K = sizes[i][2], tiles_m = (M + 63) / 64, tiles_n = (N + 127) / 128;
    Context *cx = context_create();
    Param p[] = {ptr(DT_F16),        ptr(DT_F16),         ptr(DT_F16),       num(M), num(N), num(K),
                 constexpr_of("64"), constexpr_of("128"), constexpr_of("32")};
    TileCost *c = count_kernel(cx, matmul_text, 9, p, (int32_t)(tiles_m * tiles_n), 1);
    assert_int_equal(c->count[COST_DOT], M * N * K);
    assert_int_equal(c->loads[0].bytes, 2 * M * K * tiles_n); /* once a column of tiles */
    assert_int_equal(c->loads[1].bytes, 2 * K * N * tiles_m);
    assert_int_equal(c->load.distinct, 2 * (M * K + K * N));
    assert_int_equal(c->store.bytes, 2 * M * N);
    assert_int_equal(c->store.distinct, 2 * M * N);
    for (int k = 0; k < COST_NOTES; k++) assert_true(k == COST_NOTE_SAMPLED || !c->noted[k]);
    assert_true(M > 2048 || !has_notes(c));
    context_destroy(cx);
  }
}

static void a_triangle_counts_program_by_program(void **state) { /* a causal loop: program p does p + 1 turns */
  static const char *const text =
      HEAD "def k(x, out, BLOCK: tl.constexpr):\n"
           "    total = tl.zeros([BLOCK], tl.float32)\n    end = (tl.program_id(0) + 1) * BLOCK\n"
           "    for s in range(0, end, BLOCK):\n        total += tl.load(x + s + tl.arange(0, BLOCK))\n"
           "    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)\n";
  Context *cx = context_create();
  Param p[] = {ptr(DT_F32), ptr(DT_F32), constexpr_of("64")};
  TileCost *c = count_kernel(cx, text, 3, p, 300, 5);
  assert_int_equal(c->load.bytes, 5 * 4 * 64 * (300 * 301 / 2));
  assert_int_equal(c->load.distinct, 4 * 64 * 300);
  assert_false(has_notes(c));
  context_destroy(cx);
}

static void masks_of_every_form(void **state) {
  static const char *const text =
      HEAD "def k(x, out, n, BLOCK: tl.constexpr):\n"
           "    r = tl.arange(0, BLOCK)[:, None]\n    c = tl.arange(0, BLOCK)[None, :]\n    at = r * BLOCK + c\n"
           "    lower = tl.load(x + at, mask=r >= c)\n"                                  /* a triangle: 64 * 65 / 2 */
           "    odd = tl.load(x + at, mask=(c % 2 == 1) | (r == 3))\n"                   /* 64 * 32 + 32 */
           "    window = tl.load(x + at, mask=(c >= n) & (c < 2 * n) & (64 - r > 60))\n" /* 10 columns, 4 rows */
           "    flip = tl.load(x + at, mask=~(c > n) & (-r <= -60))\n"                   /* 11 columns, 4 rows */
           "    none = tl.load(x + at, mask=c < n - 10)\n"
           "    tl.store(out + at, lower + odd + window + flip + none)\n";
  Context *cx = context_create();
  Param p[] = {ptr(DT_F32), ptr(DT_F32), num(10), constexpr_of("64")};
  TileCost *c = count_kernel(cx, text, 4, p, 1, 1);
  assert_int_equal(c->load.bytes, 4 * (64 * 65 / 2 + 64 * 32 + 32 + 40 + 44));
  assert_int_equal(c->store.bytes, 4 * 64 * 64);
  assert_false(has_notes(c));
  context_destroy(cx);
}

static void what_data_decides_is_said(void **state) {
  static const char *const text =
      HEAD "def k(x, index, out, n, BLOCK: tl.constexpr):\n"
           "    at = tl.arange(0, BLOCK)\n    i = tl.load(index + at)\n    v = tl.load(x + i, mask=i >= 0)\n"
           "    many = tl.load(index)\n    j = 0\n    while j < many:\n        v += 1.0\n        j += 1\n"
           "    for s in range(0, many):\n        v = v * 2.0\n"
           "    if many > 3:\n        v = v / 3.0\n        v = v + 1.0\n    else:\n        v = v + 2.0\n"
           "    tl.store(out + at, v)\n";
  Context *cx = context_create();
  Param p[] = {ptr(DT_F32), ptr(DT_I32), ptr(DT_F32), num(10), constexpr_of("64")};
  TileCost *c = count_kernel(cx, text, 5, p, 1, 1);
  assert_true(c->noted[COST_NOTE_MASK]);
  assert_true(c->noted[COST_NOTE_ADDRESS]);
  assert_true(c->noted[COST_NOTE_LOOP]);
  assert_true(c->noted[COST_NOTE_BRANCH]);
  assert_false(c->noted[COST_NOTE_ASM] || c->noted[COST_NOTE_SAMPLED] || c->noted[COST_NOTE_LONG]);
  assert_int_equal(c->place[COST_NOTE_LOOP]->line, 10);
  assert_int_equal(c->count[COST_ADD], 64); /* of either side of the branch */
  assert_int_equal(c->count[COST_MUL], 0);
  assert_int_equal(c->count[COST_DIV], 0);
  assert_int_equal(c->load.bytes, 4 * (64 + 64 + 1));
  assert_int_equal(c->loads[0].distinct, 4 * 64);
  assert_int_equal(c->loads[1].distinct, 4 * 64);
  context_destroy(cx);
}

static void loops_of_integers_are_walked(void **state) { /* while, if and exchanged values that the arguments decide */
  static const char *const text = HEAD "def k(x, n):\n"
                                       "    a = 0\n    b = 1\n    while b < n:\n        a, b = b, a + b\n        if b "
                                       "% 2 == 0:\n            tl.store(x + b, 1.0)\n"
                                       "    for i in range(10, n, -30):\n        tl.store(x, 1.0)\n    for i in "
                                       "range(n, 10, -30):\n        tl.store(x, 1.0)\n";
  Context *cx = context_create();
  Param p[] = {ptr(DT_F32), num(100)};
  TileCost *c = count_kernel(cx, text, 2, p, 1, 1);
  assert_int_equal(c->store.bytes, 4 * (4 + 3)); /* 2, 8, 34, 144; then three of 100, 70, 40 */
  assert_int_equal(c->stores[0].distinct, 4 * 7);
  assert_false(has_notes(c));
  context_destroy(cx);
}

static void a_long_loop_is_given_up(void **state) {
  static const char *const text =
      HEAD "def k(x, n, BLOCK: tl.constexpr):\n"
           "    v = tl.zeros([BLOCK], tl.float32)\n    for i in range(0, n):\n        v += tl.load(x + i * BLOCK + "
           "tl.arange(0, BLOCK))\n    tl.store(x + tl.arange(0, BLOCK), v)\n";
  Context *cx = context_create();
  Param p[] = {ptr(DT_F32), num(100000000), constexpr_of("16")};
  TileCost *c = count_kernel(cx, text, 3, p, 1, 1);
  assert_true(c->noted[COST_NOTE_LONG]);
  assert_int_equal(c->load.bytes, (int64_t)100000000 * 64);
  assert_int_equal(c->loads[0].distinct, c->load.bytes);
  context_destroy(cx);
}

static void atomics_and_scans_count(void **state) {
  static const char *const text =
      HEAD "def k(x, out, n, BLOCK: tl.constexpr):\n"
           "    at = tl.arange(0, BLOCK)\n    v = tl.load(x + at, mask=at < n)\n    s = tl.cumsum(v, 0)\n"
           "    tl.atomic_add(out + at, s, mask=at < n)\n";
  Context *cx = context_create();
  Param p[] = {ptr(DT_F32), ptr(DT_F32), num(50), constexpr_of("64")};
  TileCost *c = count_kernel(cx, text, 4, p, 3, 1);
  assert_int_equal(c->count[COST_ADD], 3 * (49 + 50));
  assert_int_equal(c->count[COST_ATOMIC], 3 * 50);
  assert_int_equal(c->stores[1].bytes, 3 * 50 * 4);
  assert_int_equal(c->loads[1].bytes, 3 * 50 * 4);
  assert_int_equal(c->stores[1].distinct, 50 * 4);
  context_destroy(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vector_add_counts_what_the_mask_leaves),
      cmocka_unit_test(an_empty_grid_costs_nothing),
      cmocka_unit_test(softmax_counts),
      cmocka_unit_test(a_loop_over_a_row_counts_its_tail),
      cmocka_unit_test(matmul_counts),
      cmocka_unit_test(a_triangle_counts_program_by_program),
      cmocka_unit_test(masks_of_every_form),
      cmocka_unit_test(what_data_decides_is_said),
      cmocka_unit_test(loops_of_integers_are_walked),
      cmocka_unit_test(a_long_loop_is_given_up),
      cmocka_unit_test(atomics_and_scans_count),
  };
  return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
