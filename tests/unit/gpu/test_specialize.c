/* Specialized kernels, which warps of their own bring tiles to: they leave what float64 says, whatever their trip
 * counts, grids and the order in which warps run; what cannot be specialized says why and is left as it was. Last, each
 * wait and arrival is taken out in turn, and each time that is seen. */
#include "unit/gpu/test_dot_kit.h"

#include <math.h>

enum { SEEDS = 3 };

typedef struct Product {
  int m, n, k, block_m, block_n, block_k, warps, blocks;
  Dtype
      type; /* of a and b; 0 (which is no type of them): f16. Others are multiplied along k: b's columns are in rows */
} Product;

static bool lies_along(const Product *p) { return p->type != 0; }

static DotCase product_case(const Product *p, const char *kernel) {
  DotCase c = {.file = "matmul.py", .kernel = kernel, .target = "sm_90a", .warps = p->warps, .stages = 3};
  c.specialize = true, c.blocks = p->blocks;
  int tiles = (p->m + p->block_m - 1) / p->block_m * ((p->n + p->block_n - 1) / p->block_n);
  c.grid[0] = tiles, c.grid[1] = c.grid[2] = 1;
  if (c.blocks > tiles) c.blocks = tiles;
  Dtype t = p->type ? p->type : DT_F16;
  dot_array(&c, t, p->m * p->k), dot_array(&c, t, p->k * p->n), dot_array(&c, DT_F16, p->m * p->n);
  dot_int(&c, p->m), dot_int(&c, p->n), dot_int(&c, p->k);
  dot_int(&c, p->k), dot_int(&c, 1);
  dot_int(&c, lies_along(p) ? 1 : p->n), dot_int(&c, lies_along(p) ? p->k : 1);
  dot_int(&c, p->n), dot_int(&c, 1);
  dot_const(&c, p->block_m), dot_const(&c, p->block_n), dot_const(&c, p->block_k), dot_const(&c, 8);
  return c;
}

static void check_product(const Product *p, const DotCase *c, const char *what) {
  const double *a = c->args[0].values, *b = c->args[1].values, *out = c->args[2].values;
  for (int i = 0; i < p->m; i++)
    for (int j = 0; j < p->n; j++) {
      double sum = 0;
      for (int k = 0; k < p->k; k++) sum += a[i * p->k + k] * b[lies_along(p) ? j * p->k + k : k * p->n + j];
      uint16_t half;
      dtype_store_float(DT_F16, &half, sum);
      if (out[i * p->n + j] != dtype_load_float(DT_F16, &half))
        fail_msg("%s, %d x %d x %d: element %d, %d is %g, not %g", what, p->m, p->n, p->k, i, j, out[i * p->n + j],
                 sum);
    }
}

static bool is_specialized(const DotCase *c) { return c->lane->num_warps > c->warps; }

static void run_product(const Product *p) {
  DotCase c = product_case(p, "matmul");
  dot_compile(&c);
  assert_true(is_specialized(&c));
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    LaneSimFault fault;
    for (int64_t i = 0; i < c.args[2].count; i++) dot_store(&c.args[2], i, 7);
    if (!dot_simulate(&c, seed, &fault))
      fail_msg("%d x %d x %d, seed %d: %s", p->m, p->n, p->k, (int)seed, fault.message);
    dot_read_back(&c.args[2]);
    check_product(p, &c, "product");
  }
  dot_free(&c);
}

static void products(void **state) {
  run_product(&(Product){64, 64, 96, 64, 64, 32, 4, 0});
  run_product(&(Product){200, 96, 160, 64, 32, 32, 4, 3});
  run_product(&(Product){128, 64, 32, 128, 64, 32, 8, 1});
  run_product(&(Product){264, 128, 200, 128, 64, 64, 8, 2});
  run_product(&(Product){128, 64, 160, 64, 64, 64, 4, 1, DT_F8E4NV});
  run_product(&(Product){128, 64, 80, 64, 64, 32, 4, 1, DT_BF16});
}

/* ---- loops in all places ------------------------------------------------------------------------------------------ */

#define PARAMS "a_ptr, b_ptr, out_ptr, rows, n_k, limit, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr"
#define TILES \
  HEAD "@triton.jit\ndef k(" PARAMS "):\n" \
       "    m = tl.program_id(0) * M + tl.arange(0, M)\n    n = tl.arange(0, N)\n    k = tl.arange(0, BK)\n" \
       "    acc = tl.zeros([M, N], tl.float32)\n"
#define LOAD_A \
  "tl.load(a_ptr + m[:, None] * n_k + (i + k)[None, :], mask=(m[:, None] < rows) & ((i + k)[None, :] < n_k), " \
  "other=0.0)"
#define LOAD_B "tl.load(b_ptr + (i + k)[:, None] * N + n[None, :], mask=(i + k)[:, None] < n_k, other=0.0)"
#define STORE "    tl.store(out_ptr + m[:, None] * N + n[None, :], acc, mask=m[:, None] < rows)\n"

typedef struct Form {
  const char *what, *text;
  int (*times)(int program, int block, int limit); /* how often the program adds block i of k */
} Form;

static int twice(int program, int block, int limit) { return 2; }
static int some(int program, int block, int limit) { return program < limit ? 1 : block % 2 ? 0 : 3; }
static int by_program(int program, int block, int limit) { return program + 1; }
static int below_program(int program, int block, int limit) { return block < program; }
static int once(int program, int block, int limit) { return 1; }
static int first_and_below_limit(int program, int block, int limit) { return block == 0 || program < limit; }
static int below_limit(int program, int block, int limit) { return program < limit; }

static const Form forms[] = {
    {"two loops, whose rings are shared",
     TILES "    for i in range(0, n_k, BK):\n        acc = tl.dot(" LOAD_A ", " LOAD_B ", acc)\n"
           "    for i in range(0, n_k, BK):\n        acc = tl.dot(" LOAD_A ", " LOAD_B ", acc)\n" STORE,
     twice},
    {"a loop in each branch",
     TILES "    if tl.program_id(0) < limit:\n        for i in range(0, n_k, BK):\n"
           "            acc = tl.dot(" LOAD_A ", " LOAD_B ", acc)\n"
           "    else:\n        for i in range(0, n_k, 2 * BK):\n"
           "            acc += tl.dot(" LOAD_A ", " LOAD_B ") * 3\n" STORE,
     some},
    {"a loop in a loop",
     TILES "    for j in range(0, tl.program_id(0) + 1):\n        for i in range(0, n_k, BK):\n"
           "            acc = tl.dot(" LOAD_A ", " LOAD_B ", acc)\n" STORE,
     by_program},
    {"as many iterations as the program says, none of the first one's",
     TILES "    for i in range(0, tl.minimum(n_k, tl.program_id(0) * BK), BK):\n"
           "        acc = tl.dot(" LOAD_A ", " LOAD_B ", acc)\n" STORE,
     below_program},
    {"a tile that comes once, a loop that takes it, and a branch behind it",
     TILES "    i = 0\n    first = " LOAD_A "\n"
           "    for i in range(0, tl.minimum(n_k, BK), BK):\n        acc = tl.dot(first, " LOAD_B ", acc)\n"
           "    if tl.program_id(0) < limit:\n        for i in range(BK, n_k, BK):\n"
           "            acc = tl.dot(" LOAD_A ", " LOAD_B ", acc)\n" STORE,
     first_and_below_limit},
    {"tiles by descriptors, where the loop asks",
     HEAD "@triton.jit\ndef k(" PARAMS "):\n"
          "    a = tl.make_tensor_descriptor(a_ptr, [rows, n_k], [n_k, 1], [M, BK])\n"
          "    b = tl.make_tensor_descriptor(b_ptr, [n_k, N], [N, 1], [BK, N])\n"
          "    m = tl.program_id(0) * M + tl.arange(0, M)\n    n = tl.arange(0, N)\n"
          "    acc = tl.zeros([M, N], tl.float32)\n"
          "    for i in tl.range(0, n_k, BK, warp_specialize=True):\n"
          "        acc = tl.dot(a.load([tl.program_id(0) * M, i]), b.load([i, 0]), acc)\n" STORE,
     once},
    {"rows that wrap, pointers that advance, a condition on the whole tile",
     TILES "    a = a_ptr + (m % rows)[:, None] * n_k + k[None, :]\n    b = b_ptr + k[:, None] * N + n[None, :]\n"
           "    for i in range(0, tl.cdiv(n_k, BK)):\n"
           "        left = n_k - i * BK\n"
           "        acc = tl.dot(tl.load(a, mask=(k[None, :] < left) & (tl.program_id(0) < limit), other=0.0), "
           "tl.load(b, mask=k[:, None] < left, other=0.0), acc)\n"
           "        a += BK\n        b += BK * N\n" STORE,
     below_limit},
};

static void run_form(const Form *form, int blocks, int limit) {
  enum { M = 64, N = 32, BK = 32, ROWS = 5 * M, K = 3 * BK + 16 };
  DotCase c = dot_case(form->text, "sm_90a", 4, 3);
  c.grid[0] = ROWS / M, c.specialize = !strstr(form->what, "asks"), c.blocks = blocks;
  DotArg *a = dot_array(&c, DT_BF16, ROWS * K), *b = dot_array(&c, DT_BF16, K * N),
         *out = dot_array(&c, DT_F32, ROWS * N);
  dot_int(&c, ROWS), dot_int(&c, K), dot_int(&c, limit), dot_const(&c, M), dot_const(&c, N), dot_const(&c, BK);
  dot_compile(&c);
  if (!is_specialized(&c)) fail_msg("%s: %s", form->what, c.lane->unspecialized);
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    LaneSimFault fault;
    if (!dot_simulate(&c, seed, &fault)) fail_msg("%s, %d blocks: %s", form->what, blocks, fault.message);
    dot_read_back(out);
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < N; j++) {
        double sum = 0;
        for (int k = 0; k < K; k++)
          sum += form->times(i / M, k / BK, limit) * a->values[i * K + k] * b->values[k * N + j];
        if (out->values[i * N + j] != sum)
          fail_msg("%s: %d, %d is %g, not %g", form->what, i, j, out->values[i * N + j], sum);
      }
  }
  dot_free(&c);
}

static void loops_in_all_places(void **state) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    for (int blocks = 0; blocks <= 2; blocks++) run_form(&forms[i], blocks, 3);
}

/* Why not. The first does not ask for it. */
static void refused(void **state) {
  static const struct {
    const char *why, *text;
    int warps;
  } cases[] = {
      {"its products are small, and nobody asks for it (warp_specialize=True, or --specialize)",
       TILES "    for i in range(0, n_k, BK):\n        acc = tl.dot(" LOAD_A ", " LOAD_B ", acc)\n" STORE, 4},
      {"its warps are no warpgroups",
       TILES "    for i in range(0, n_k, BK):\n        acc = tl.dot(" LOAD_A ", " LOAD_B ", acc)\n" STORE, 2},
      {"it writes before it loads tiles, and that may be what it loads",
       TILES "    tl.store(out_ptr + m, 1.0)\n    for i in range(0, n_k, BK):\n"
             "        acc = tl.dot(" LOAD_A ", " LOAD_B ", acc)\n" STORE,
       4},
      {"which tiles it takes is read from memory",
       TILES "    end = tl.load(out_ptr).to(tl.int32)\n    for i in range(0, end, BK):\n"
             "        acc = tl.dot(" LOAD_A ", " LOAD_B ", acc)\n" STORE,
       4},
      {"a loop of products writes, prints or waits",
       TILES "    for i in range(0, n_k, BK):\n        acc = tl.dot(" LOAD_A ", " LOAD_B ", acc)\n"
             "        tl.atomic_add(out_ptr, 1.0)\n" STORE,
       4},
      {"a tile is taken by more than products of warpgroups",
       TILES "    for i in range(0, n_k, BK):\n        a = " LOAD_A "\n        acc = tl.dot(a, " LOAD_B
             ", acc) + tl.sum(a)\n" STORE,
       4},
      {"num_stages is 1",
       TILES "    for i in tl.range(0, n_k, BK, num_stages=1):\n        acc = tl.dot(" LOAD_A ", " LOAD_B
             ", acc)\n" STORE,
       4},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    DotCase c = dot_case(cases[i].text, "sm_90a", cases[i].warps, 3);
    c.specialize = i > 0;
    dot_array(&c, DT_F16, 64 * 64), dot_array(&c, DT_F16, 64 * 32), dot_array(&c, DT_F32, 64 * 32);
    dot_int(&c, 64), dot_int(&c, 64), dot_int(&c, 3), dot_const(&c, 64), dot_const(&c, 32), dot_const(&c, 32);
    dot_compile(&c);
    assert_false(is_specialized(&c));
    assert_string_equal(c.lane->unspecialized, cases[i].why);
    dot_free(&c);
  }
}

/* Where nobody asks, products of many sums on 8 warps are specialized, as far as has been measured. */
static void of_its_own_accord(void **state) {
  static const struct {
    int m, n, warps;
    const char *target;
    bool specialized;
  } cases[] = {{128, 256, 8, "sm_90a", true},
               {128, 128, 8, "sm_90a", false},
               {64, 256, 4, "sm_90a", false},
               {128, 256, 8, "sm_80", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    DotCase c =
        dot_case(TILES "    for i in range(0, n_k, BK):\n        acc = tl.dot(" LOAD_A ", " LOAD_B ", acc)\n" STORE,
                 cases[i].target, cases[i].warps, 3);
    dot_array(&c, DT_F16, 128 * 64), dot_array(&c, DT_F16, 64 * 256), dot_array(&c, DT_F32, 128 * 256);
    dot_int(&c, 128), dot_int(&c, 64), dot_int(&c, 3);
    dot_const(&c, cases[i].m), dot_const(&c, cases[i].n), dot_const(&c, 64);
    dot_compile(&c);
    if (is_specialized(&c) != cases[i].specialized)
      fail_msg("%d x %d, %d warps, %s", cases[i].m, cases[i].n, cases[i].warps, cases[i].target);
    dot_free(&c);
  }
}

/* ---- attention: two rings, one of them an iteration ahead --------------------------------------------------------- */

typedef struct Attention {
  int n, d, block_m, block_n, warps, causal, blocks;
} Attention;

enum { HEADS = 3 };
static const double softmax_scale = 0.25;

static DotCase attention_case(const Attention *a) {
  DotCase c = {.file = "attention.py", .kernel = "attention", .target = "sm_90a", .warps = a->warps, .stages = 3};
  int64_t count = (int64_t)HEADS * a->n * a->d;
  c.specialize = true, c.blocks = a->blocks;
  c.grid[0] = (a->n + a->block_m - 1) / a->block_m, c.grid[1] = HEADS, c.grid[2] = 1;
  for (int i = 0; i < 4; i++) dot_array(&c, DT_F16, count);
  dot_array(&c, DT_F32, HEADS * a->n);
  dot_int(&c, a->n), dot_float(&c, softmax_scale);
  dot_const(&c, a->d), dot_const(&c, a->block_m), dot_const(&c, a->block_n), dot_const(&c, a->causal);
  return c;
}

/* Probabilities are rounded to f16 before they are multiplied, and results once. */
static void check_attention(const Attention *a, const DotCase *c) {
  double *p = calloc((size_t)a->n, sizeof *p);
  for (int row = 0; row < HEADS * a->n; row++) {
    const double *q = c->args[0].values + (int64_t)row * a->d;
    int first = row / a->n * a->n, end = a->causal ? row % a->n + 1 : a->n;
    double most = -INFINITY, sum = 0;
    for (int j = 0; j < end; j++) {
      p[j] = 0;
      for (int h = 0; h < a->d; h++) p[j] += softmax_scale * q[h] * c->args[1].values[(int64_t)(first + j) * a->d + h];
      most = fmax(most, p[j]);
    }
    for (int j = 0; j < end; j++) sum += p[j] = exp(p[j] - most);
    for (int h = 0; h < a->d; h++) {
      double want = 0, scale = 0, got = c->args[3].values[(int64_t)row * a->d + h];
      for (int j = 0; j < end; j++) {
        double v = c->args[2].values[(int64_t)(first + j) * a->d + h];
        want += p[j] / sum * v, scale += p[j] / sum * fabs(v);
      }
      if (!(fabs(got - want) <= 0x1p-9 * scale + 0x1p-20))
        fail_msg("n %d, D %d, row %d, column %d is %g, not %g", a->n, a->d, row, h, got, want);
    }
  }
  free(p);
}

static void run_attention(const Attention *a) {
  DotCase c = attention_case(a);
  dot_compile(&c);
  assert_true(is_specialized(&c));
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    LaneSimFault fault;
    if (!dot_simulate(&c, seed, &fault)) fail_msg("attention of %d, %d: %s", a->n, a->d, fault.message);
    dot_read_back(&c.args[3]);
    check_attention(a, &c);
  }
  dot_free(&c);
}

static void attention(void **state) {
  for (int causal = 0; causal < 2; causal++) {
    run_attention(&(Attention){130, 32, 64, 32, 4, causal, 2});
    run_attention(&(Attention){96, 64, 128, 32, 8, causal, 0});
  }
}

/* ---- what the two halves wait for -------------------------------------------------------------------------------- */

static bool orders(const LaneOp *op) {
  switch (op->code) {
    case LANE_MBAR_INIT:
    case LANE_MBAR_WAIT:
    case LANE_MBAR_ARRIVE:
    case LANE_MBAR_EXPECT:
    case LANE_FENCE_MBAR:
    case LANE_WGMMA_WAIT:
    case LANE_WGMMA_FENCE:
    case LANE_WGMMA_COMMIT:
    case LANE_BARRIER: return true;
    default: return false;
  }
}

typedef struct Search {
  int skip;
  LaneOp *found;
} Search;

static void find_order(LaneOp *op, void *arg) {
  Search *s = arg;
  if (orders(op) && s->skip-- == 0) s->found = op;
}

static void hand_through(LaneOp *op, void *arg) {
  const LaneOp *wait = arg;
  for (int i = 0; i < op->in_count; i++)
    for (int k = 0; k < wait->out_count; k++)
      if (op->in[i] == wait->out[k]) op->in[i] = wait->in[k];
}

static bool verifies(LaneFunc *f) {
  volatile bool ok = false;
  if (context_try(f->cx)) {
    lane_verify(f, "the test");
    context_end_try(f->cx);
    ok = true;
  }
  return ok;
}

/* `length`: the argument that says how far the loop goes; so far, and for one iteration, which fills no ring. */
static bool is_seen(DotCase *c, int length, int most) {
  LaneSimFault fault;
  bool seen = !verifies(c->lane);
  for (int one = 0; !seen && one < 2; one++) {
    c->args[length].bits = one ? 32 : (uint64_t)most;
    for (uint64_t seed = 0; !seen && seed < 2 * SEEDS; seed++) seen = !dot_simulate(c, seed, &fault);
  }
  return seen;
}

/* Takes out each in turn; all but `spare` must be missed. Those: where a warp's lanes meet before one of them says that
 * a slot is free, they have read nothing of it themselves; of two slots that are freed together, the second one's wait
 * is the first one's; and barriers between stores of one program and of the next, which write to other places here. */
static void needs_all(DotCase *c, int length, int most, int least, int spare) {
  int tried = 0, unseen = 0;
  dot_compile(c);
  assert_true(is_specialized(c) && !is_seen(c, length, most));
  context_destroy(c->cx);
  Buf all = {0};
  for (;; tried++) {
    Search s = {.skip = tried};
    dot_compile(c);
    lane_walk(c->lane->body, find_order, &s);
    LaneOp *op = s.found;
    if (!op) break;
    bool lanes = op->code == LANE_BARRIER && op->warp;
    char what[80];
    snprintf(what, sizeof what, " %d, %s {%lld}", tried, lane_info[op->code].name, (long long)op->imm);
    lane_walk(c->lane->body, hand_through, op);
    lane_remove(op);
    if (!lanes && !is_seen(c, length, most)) unseen++, buf_puts(&all, what);
    context_destroy(c->cx);
  }
  if (tried < least || unseen != spare) fail_msg("%d of %d are not missed:%s", unseen, tried, all.at ? all.at : "");
  buf_destroy(&all);
}

static void a_product_needs_its_waits(void **state) {
  Product p = {64 * 3, 32, 32 * 5, 64, 32, 32, 4, 1};
  DotCase c = product_case(&p, "matmul");
  needs_all(&c, 5, 32 * 5, 12, 2);
  dot_free(&c);
}

static void attention_needs_its_waits(void **state) {
  Attention a = {64 * 2, 32, 64, 32, 4, false, 1};
  DotCase c = attention_case(&a);
  needs_all(&c, 5, 64 * 2, 20, 3);
  dot_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products),
      cmocka_unit_test(loops_in_all_places),
      cmocka_unit_test(refused),
      cmocka_unit_test(of_its_own_accord),
      cmocka_unit_test(attention),
      cmocka_unit_test(a_product_needs_its_waits),
      cmocka_unit_test(attention_needs_its_waits),
  };
  return cmocka_run_group_tests_name("specialize", tests, NULL, NULL);
}
