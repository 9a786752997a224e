/* Tests of what runs beside products, on states that are passed from chunk to chunk: tiles that are stored are read
 * where products find them (lower_staged_read), stores, loads and copies go behind products (gpu/late_stores.c,
 * gpu/late_copies.c), and rings that go together share mbarriers (lower/lockstep.c). What a kernel leaves does not
 * depend on any of it; what it meets for does. */
#include "unit/gpu/test_dot_kit.h"

#include <string.h>

static const char states[] =
    HEAD "@triton.jit\n"
         "def k(k, v, w, gates, h, new, T, K: tl.constexpr, V: tl.constexpr, GATED: tl.constexpr):\n"
         "  o_k = tl.arange(0, 64)\n"
         "  o_v = tl.arange(0, V)\n"
         "  b_h = tl.zeros([64, V], dtype=tl.float32)\n"
         "  b_g = tl.zeros([64, V], dtype=tl.float32)\n"
         "  for t in range(tl.cdiv(T, 64)):\n"
         "    o_t = t * 64 + tl.arange(0, 64)\n"
         "    m_t = o_t < T\n"
         "    p_h = h + t * K * V + o_k[:, None] * V + o_v[None, :]\n"
         "    tl.store(p_h, b_h.to(tl.bfloat16))\n"
         "    tl.store(p_h + 64 * V, b_g.to(tl.bfloat16))\n"
         "    p_w = w + o_t[:, None] * K + o_k[None, :]\n"
         "    b_v = tl.dot(tl.load(p_w, mask=m_t[:, None], other=0.0), b_h.to(tl.bfloat16))\n"
         "    b_v += tl.dot(tl.load(p_w + 64, mask=m_t[:, None], other=0.0), b_g.to(tl.bfloat16))\n"
         "    at = o_t[:, None] * V + o_v[None, :]\n"
         "    b_v = tl.load(v + at, mask=m_t[:, None], other=0.0) - b_v * 0.125\n"
         "    if GATED:\n"
         "      b_v = b_v * tl.load(gates + o_t, mask=m_t, other=0.0)[:, None]\n"
         "    b_v = b_v.to(tl.bfloat16)\n"
         "    tl.store(new + at, b_v, mask=m_t[:, None])\n"
         "    p_k = k + o_k[:, None] + o_t[None, :] * K\n"
         "    b_h += tl.dot(tl.load(p_k, mask=m_t[None, :], other=0.0), b_v)\n"
         "    b_g += tl.dot(tl.load(p_k + 64, mask=m_t[None, :], other=0.0), b_v)\n";

enum { K = 128, CHUNK = 64 };
#define ALL "staged_reads,late_stores,late_copies,lockstep"

typedef struct Counts {
  int stmatrix, barriers, fences, mbar_waits, mbar_inits;
} Counts;

static void count(LaneOp *op, void *arg) {
  Counts *n = arg;
  n->stmatrix += op->code == LANE_STMATRIX;
  n->barriers += op->code == LANE_BARRIER && !op->warp;
  n->fences += op->code == LANE_FENCE_PROXY;
  n->mbar_waits += op->code == LANE_MBAR_WAIT;
  n->mbar_inits += op->code == LANE_MBAR_INIT;
}

/* NULL: there is none at the top. */
static LaneOp *loop_in(LaneFunc *f) {
  for (LaneOp *op = f->body->first; op; op = op->next)
    if (op->code == LANE_FOR) return op;
  return NULL;
}

/* Left in *out: what it stores. */
static Counts run(int warps, int t, int v, bool gated, const char *left_out, DotCase *out) {
  const char *wrong;
  DotCase c = dot_case(states, "sm_90a", warps, 3);
  c.without = gpu_without(left_out, &wrong);
  assert_true(c.without >= 0);
  dot_array(&c, DT_BF16, (int64_t)t * K);
  dot_array(&c, DT_BF16, (int64_t)t * v);
  dot_array(&c, DT_BF16, (int64_t)t * K);
  dot_array(&c, DT_F32, t);
  dot_array(&c, DT_BF16, (int64_t)(t + CHUNK - 1) / CHUNK * K * v);
  dot_array(&c, DT_BF16, (int64_t)t * v);
  dot_int(&c, t);
  dot_const(&c, K), dot_const(&c, v), dot_const(&c, gated);
  dot_run(&c, left_out);
  Counts n = {0};
  LaneOp *loop = loop_in(c.lane);
  if (loop) lane_walk(loop->body[0], count, &n);
  *out = c;
  return n;
}

static void assert_alike(const DotCase *a, const DotCase *b, const char *what) {
  for (int i = 0; i < a->arg_count; i++)
    for (int64_t k = 0; a->args[i].data && k < a->args[i].count; k++)
      if (memcmp(&a->args[i].values[k], &b->args[i].values[k], sizeof(double)))
        fail_msg("%s: argument %d, element %d is %g, not %g", what, i, (int)k, b->args[i].values[k],
                 a->args[i].values[k]);
}

static void results_stay(void **state) {
  static const char *const some[] = {NULL,          "late_copies",  "lockstep",
                                     "late_stores", "staged_reads", "late_stores,late_copies",
                                     "tensor_maps", "prefetch",     "async_loads"};
  for (int warps = 2; warps <= 8; warps *= 2)
    for (int i = 0; i < 6; i++) {
      int t = (int[]){64, 256, 200, 128, 320, 1}[i], v = i % 2 ? 64 : 32;
      DotCase plain, c;
      run(warps, t, v, i % 3 == 1, ALL, &plain);
      for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
        run(warps, t, v, i % 3 == 1, some[k], &c);
        assert_alike(&plain, &c, some[k] ? some[k] : "nothing left out");
        dot_free(&c);
      }
      dot_free(&plain);
    }
}

static void meet_less(void **state) {
  DotCase c;
  Counts before = run(4, 256, 64, false, ALL, &c);
  dot_free(&c);
  Counts written = run(4, 256, 64, false, "late_stores,late_copies,lockstep", &c);
  dot_free(&c);
  Counts now = run(4, 256, 64, false, NULL, &c);
  dot_free(&c);
  assert_int_equal(before.stmatrix, 2 * written.stmatrix); /* three tiles, once each */
  assert_int_equal(now.stmatrix, written.stmatrix);
  assert_true(written.barriers < before.barriers);
  assert_true(now.barriers + 3 <= before.barriers);
  assert_int_equal(now.fences, before.fences);
  assert_int_equal(before.mbar_waits, 4);
  assert_int_equal(now.mbar_waits, 1);
}

/* Positions in the loop, of 4 warps: the first product, its wait, stores to memory, the copies. */
static void behind_products(void **state) {
  for (int late = 0; late < 2; late++) {
    DotCase c;
    run(4, 256, 64, false, late ? NULL : "late_stores,late_copies", &c);
    int n = 0, product = -1, wait = -1, stored = -1, copied = -1;
    for (const LaneOp *op = loop_in(c.lane)->body[0]->first; op; op = op->next, n++) {
      if (op->code == LANE_WGMMA && product < 0) product = n;
      if (op->code == LANE_WGMMA_WAIT && wait < 0) wait = n;
      if (op->code == LANE_ST && op->space == SPACE_GLOBAL && stored < 0) stored = n;
      if (op->code == LANE_IF && copied < 0) copied = n;
    }
    assert_true(product >= 0 && wait > product && stored >= 0 && copied >= 0);
    assert_int_equal(stored > product && stored < wait, late);
    assert_int_equal(copied > product && copied < wait, late);
    dot_free(&c);
  }
}

/* A product's operands, specialized: twelve mbarriers for two rings of six slots. */
static void rings_share(void **state) {
  int inits[2], waits[2];
  for (int left_out = 0; left_out < 2; left_out++) {
    const char *wrong;
    DotCase c = {
        .file = "matmul.py", .kernel = "matmul", .target = "sm_90a", .warps = 4, .stages = 3, .specialize = true};
    c.grid[0] = 4, c.grid[1] = c.grid[2] = 1;
    c.without = left_out ? gpu_without("lockstep", &wrong) : 0;
    for (int i = 0; i < 3; i++) dot_array(&c, DT_F16, 128 * 128);
    for (int i = 0; i < 3; i++) dot_int(&c, 128);
    for (int i = 0; i < 3; i++) dot_int(&c, 128), dot_int(&c, 1);
    dot_const(&c, 64), dot_const(&c, 64), dot_const(&c, 32), dot_const(&c, 8);
    dot_run(&c, "matmul");
    Counts n = {0};
    lane_walk(c.lane->body, count, &n);
    inits[left_out] = n.mbar_inits, waits[left_out] = n.mbar_waits;
    for (int64_t i = 0; i < 128 * 128; i++) {
      double sum = 0;
      for (int64_t k = 0; k < 128; k++)
        sum += c.args[0].values[i / 128 * 128 + k] * c.args[1].values[k * 128 + i % 128];
      uint16_t bits;
      dtype_store_float(DT_F16, &bits, sum);
      assert_true(c.args[2].values[i] == dtype_load_float(DT_F16, &bits));
    }
    dot_free(&c);
  }
  assert_true(inits[0] > 0);
  assert_int_equal(2 * inits[0], inits[1]);
  assert_int_equal(2 * waits[0], waits[1]);
}

static void count_mbarriers(LaneOp *op, void *arg) { *(int *)arg += op->code == LANE_MBAR_INIT; }

/* Eight warps that compute have all registers: their slots take the shared memory that no other block can use, whatever
 * num_stages says. Of four warps num_stages decides. Both rings share mbarriers, two a slot. */
static void slots_of_a_ring(void **state) {
  static const struct {
    int warps, stages, m, n, k, slots;
  } cases[] = {{8, 3, 128, 128, 32, 8}, {8, 2, 128, 128, 64, 6}, {8, 3, 128, 256, 64, 4},
               {8, 2, 256, 128, 64, 4}, {4, 3, 128, 128, 32, 4}, {4, 2, 64, 128, 64, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    DotCase c = {.file = "matmul.py",
                 .kernel = "matmul",
                 .target = "sm_90a",
                 .warps = cases[i].warps,
                 .stages = cases[i].stages,
                 .specialize = true};
    for (int k = 0; k < 3; k++) dot_array(&c, DT_F16, 512 * 512);
    for (int k = 0; k < 3; k++) dot_int(&c, 512);
    for (int k = 0; k < 3; k++) dot_int(&c, 512), dot_int(&c, 1);
    dot_const(&c, cases[i].m), dot_const(&c, cases[i].n), dot_const(&c, cases[i].k), dot_const(&c, 8);
    dot_compile(&c);
    int mbarriers = 0;
    lane_walk(c.lane->body, count_mbarriers, &mbarriers);
    if (mbarriers != 2 * cases[i].slots) fail_msg("case %zu: %d mbarriers", i, mbarriers);
    assert_true(c.lane->shared_bytes <= gpu_target_find("sm_90a")->shared_bytes);
    dot_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_stay), cmocka_unit_test(meet_less),       cmocka_unit_test(behind_products),
      cmocka_unit_test(rings_share),  cmocka_unit_test(slots_of_a_ring),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
