/* Specialized kernels, which warps of their own bring tiles to: they leave what float64 says, whatever their trip
 * counts, grids and the order in which warps run; what cannot be specialized says why and is left as it was. Last, each
 * wait and arrival is taken out in turn, and each time that is seen. */
#include "unit/gpu/test_product_kit.h"

#include <math.h>

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
    {"a tile that comes once, a loop that takes it, and a branch after it",
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
    {"a loop that stores, around the one that loads",
     TILES
     "    for j in range(0, 3):\n        acc = tl.zeros([M, N], tl.float32)\n        for i in range(0, n_k, BK):\n"
     "            acc = tl.dot(" LOAD_A ", " LOAD_B ", acc)\n    " STORE,
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

/* blocks: of a persistent kernel; 0: it is not. */
static void run_form(const Form *form, int blocks, int limit) {
  enum { M = 64, N = 32, BK = 32, ROWS = 5 * M, K = 3 * BK + 16 };
  DotCase c = dot_case(form->text, "sm_90a", 4, 3);
  const char *wrong;
  c.grid[0] = ROWS / M, c.specialize = !strstr(form->what, "asks"), c.blocks = blocks;
  if (!blocks) c.without = gpu_without("persist", &wrong);
  DotArg *a = dot_array(&c, DT_BF16, ROWS * K), *b = dot_array(&c, DT_BF16, K * N),
         *out = dot_array(&c, DT_F32, ROWS * N);
  dot_int(&c, ROWS), dot_int(&c, K), dot_int(&c, limit), dot_const(&c, M), dot_const(&c, N), dot_const(&c, BK);
  dot_compile(&c);
  if (!is_specialized(&c)) fail_msg("%s: %s", form->what, c.lane->unspecialized);
  assert_int_equal(c.lane->persistent, blocks > 0);
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

#define MORE "    for i in range(0, n_k, BK):\n        acc = tl.dot(" LOAD_A ", " LOAD_B ", acc) * 0.5\n"

/* Why not. The first does not ask for it. */
static void refused(void **state) {
  static const struct {
    const char *why, *text;
    int warps;
  } cases[] = {
      {"its loops do more than multiply, on small tiles, and nobody asks for it (warp_specialize=True, or "
       "--specialize)",
       TILES MORE STORE, 4},
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

/* Where nobody asks, loops that only multiply are specialized, and others with many sums on 8 warps, as measured. */
static void of_its_own_accord(void **state) {
  static const struct {
    int m, n, warps;
    const char *target;
    bool more, specialized; /* more: the loop scales what it has */
  } cases[] = {{128, 256, 8, "sm_90a", false, true}, {128, 128, 8, "sm_90a", false, true},
               {64, 256, 4, "sm_90a", false, true},  {64, 64, 4, "sm_90a", false, true},
               {128, 256, 8, "sm_80", false, false}, {128, 256, 8, "sm_90a", true, true},
               {128, 128, 8, "sm_90a", true, false}, {64, 256, 4, "sm_90a", true, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    DotCase c = dot_case(cases[i].more ? TILES MORE STORE
                                       : TILES "    for i in range(0, n_k, BK):\n        acc = tl.dot(" LOAD_A
                                               ", " LOAD_B ", acc)\n" STORE,
                         cases[i].target, cases[i].warps, 3);
    dot_array(&c, DT_F16, 128 * 64), dot_array(&c, DT_F16, 64 * 256), dot_array(&c, DT_F32, 128 * 256);
    dot_int(&c, 128), dot_int(&c, 64), dot_int(&c, 3);
    dot_const(&c, cases[i].m), dot_const(&c, cases[i].n), dot_const(&c, 64);
    dot_compile(&c);
    if (is_specialized(&c) != cases[i].specialized)
      fail_msg("%d x %d, %d warps, %s", cases[i].m, cases[i].n, cases[i].warps, cases[i].target);
    if (cases[i].specialized) assert_int_equal(c.lane->num_warps, cases[i].warps + (cases[i].warps > 4 ? 4 : 1));
    dot_free(&c);
  }
}

/* ---- attention: two rings, one of them an iteration ahead or behind ---------------------------------------------- */

typedef struct Attention {
  int n, d, block_m, block_n, warps, causal, blocks;
  const char *without;
} Attention;

enum { HEADS = 3 };
static const double softmax_scale = 0.25;

static DotCase attention_case(const Attention *a) {
  DotCase c = {.file = "attention.py", .kernel = "attention", .target = "sm_90a", .warps = a->warps, .stages = 3};
  int64_t count = (int64_t)HEADS * a->n * a->d;
  c.specialize = true, c.blocks = a->blocks;
  const char *wrong;
  c.without = gpu_without(a->without, &wrong);
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
  /* what goes from one dot to the next in registers takes no shared memory: two tiles of each have room */
  DotCase large = attention_case(&(Attention){128, 256, 128, 64, 8, false, 0, NULL});
  dot_compile(&large);
  assert_true(is_specialized(&large));
  dot_free(&large);
  for (int i = 0; i < 4; i++) { /* the second dot an iteration later; else the first one an iteration earlier */
    const char *without = i & 2 ? "dots_behind" : NULL;
    run_attention(&(Attention){130, 32, 64, 32, 4, i & 1, 2, without});
    run_attention(&(Attention){96, 64, 128, 32, 8, i & 1, 0, without});
    run_attention(&(Attention){30, 32, 64, 32, 4, i & 1, 1, without});
  }
}

static void count_shuffles(LaneOp *op, void *arg) {
  int *in_loops = arg;
  if (op->code != LANE_SHFL) return;
  for (const LaneBlock *b = op->block; b->parent; b = b->parent->block)
    if (b->parent->code == LANE_FOR) {
      ++*in_loops;
      return;
    }
}

/* A loop that carries sums of rows adds them up within lanes. */
static void sums_across_lanes_behind_the_loop(void **state) {
  int in_loops[2] = {0};
  for (int i = 0; i < 2; i++) {
    DotCase c = attention_case(&(Attention){130, 32, 64, 32, 4, false, 0, i ? "late_sums" : NULL});
    c.specialize = false;
    dot_compile(&c);
    lane_walk(c.lane->body, count_shuffles, &in_loops[i]);
    dot_free(&c);
  }
  assert_true(in_loops[0] > 0 && in_loops[0] < in_loops[1]);
}

/* ---- gradients: dots that are issued together ---------------------------------------------------------------------- */

typedef enum { OF_QUERIES, OF_KEYS, OF_ALL } Gradients;
static const char *const gradient_kernels[] = {"attention_backward_q", "attention_backward_kv", "attention_backward"};

static int gradient_rows(Gradients of) { return of == OF_ALL ? 160 : 100; }

static DotCase gradient_case(Gradients of, const char *without) {
  enum { D = 32 };
  int n = gradient_rows(of);
  DotCase c = {.file = "attention.py", .kernel = gradient_kernels[of], .target = "sm_90a", .warps = 4, .stages = 3};
  const char *wrong;
  c.specialize = true, c.blocks = 1, c.without = gpu_without(without, &wrong);
  c.grid[0] = (n + 63) / 64, c.grid[1] = 2, c.grid[2] = 1;
  for (int i = 0; i < 4; i++) dot_array(&c, DT_F16, 2 * n * D);
  for (int i = 0; i < 2; i++) dot_array(&c, DT_F32, 2 * n);
  if (of == OF_ALL) dot_array(&c, DT_F32, 2 * n * D);
  for (int i = 0; i < 1 + (of != OF_QUERIES); i++) dot_array(&c, DT_F16, 2 * n * D);
  dot_int(&c, n), dot_float(&c, 0.1);
  /* columns of dq are a warpgroup's 64 rows of keys, and 32 of queries are none: of all, blocks of 64 */
  dot_const(&c, D), dot_const(&c, of == OF_KEYS ? 32 : 64), dot_const(&c, of == OF_QUERIES ? 32 : 64), dot_const(&c, 1);
  return c;
}

/* They are the same dots, in the same order of sums. */
static void gradients(void **state) {
  for (Gradients of = OF_QUERIES; of <= OF_ALL; of++) {
    DotCase c[2] = {gradient_case(of, NULL), gradient_case(of, "dots_together")};
    int most[2], results = of == OF_QUERIES ? 1 : of == OF_KEYS ? 2 : 3;
    for (int i = 0; i < 2; i++) {
      dot_run(&c[i], "gradients");
      assert_true(is_specialized(&c[i]));
      most[i] = dot_count(&c[i]).products_at_once;
    }
    /* of queries, the first dot is computed an iteration earlier */
    assert_true(most[0] == (of != OF_QUERIES) && most[1] == 0);
    for (int k = 6; k < 6 + results; k++)
      assert_memory_equal(c[0].args[k].data, c[1].args[k].data,
                          c[0].args[k].count * dtype_bytes(c[0].args[k].spec.dtype));
    dot_free(&c[0]), dot_free(&c[1]);
  }
}

/* The dot that goes up to the first takes a tile that another took before it: the wait for the tile goes up, too. */
static const char raised_text[] = HEAD
    "@triton.jit\ndef k(q_ptr, g_ptr, a_ptr, v_ptr, out_ptr, n, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):\n"
    "    rows = tl.arange(0, M)[:, None] * D + tl.arange(0, D)[None, :]\n"
    "    a = tl.load(a_ptr + rows)\n"
    "    v = tl.load(v_ptr + rows)\n"
    "    first = tl.zeros([M, D], tl.float32)\n"
    "    second = tl.zeros([M, D], tl.float32)\n"
    "    for start in range(0, n, N):\n"
    "        at = (start + tl.arange(0, N)[:, None]) * D + tl.arange(0, D)[None, :]\n"
    "        q = tl.load(q_ptr + at)\n"
    "        s = tl.dot(a, tl.trans(q)) * 0.1\n"
    "        g = tl.load(g_ptr + at)\n"
    "        first = tl.dot(s.to(tl.float16), g, first)\n"
    "        t = tl.dot(v, tl.trans(g)) * s\n"
    "        second = tl.dot(t.to(tl.float16), q, second)\n"
    "    tl.store(out_ptr + rows, first)\n"
    "    tl.store(out_ptr + M * D + rows, second)\n";

static void raised_dots_wait_for_their_tiles(void **state) {
  enum { M = 64, N = 32, D = 32, ROWS = 5 * N };
  const char *wrong;
  DotCase c[2];
  for (int i = 0; i < 2; i++) {
    c[i] = dot_case(raised_text, "sm_90a", 4, 3);
    c[i].specialize = true, c[i].blocks = 1, c[i].without = gpu_without(i ? "dots_together" : NULL, &wrong);
    for (int k = 0; k < 2; k++) dot_array(&c[i], DT_F16, ROWS * D);
    for (int k = 0; k < 2; k++) dot_array(&c[i], DT_F16, M * D);
    dot_array(&c[i], DT_F32, 2 * M * D);
    dot_int(&c[i], ROWS), dot_const(&c[i], M), dot_const(&c[i], N), dot_const(&c[i], D);
    dot_run(&c[i], "raised");
    assert_true(is_specialized(&c[i]));
    assert_int_equal(dot_count(&c[i]).products_at_once, !i);
  }
  assert_memory_equal(c[0].args[4].data, c[1].args[4].data, 2 * M * D * sizeof(float));
  dot_free(&c[0]), dot_free(&c[1]);
}

typedef struct Adds {
  int boxes, atomics, barriers, loads;
} Adds;

static bool is_in_loop_with_products(const LaneOp *op) {
  bool products = false;
  const LaneBlock *b = op->block;
  while (b->parent && b->parent->code == LANE_IF) b = b->parent->block;
  for (const LaneOp *o = b->first; o; o = o->next) products |= o->code == LANE_WGMMA;
  return products;
}

static void count_adds(LaneOp *op, void *arg) {
  Adds *n = arg;
  if (!is_in_loop_with_products(op)) return;
  n->boxes += op->code == LANE_TENSOR_RED;
  n->atomics += op->code == LANE_ATOM;
  n->barriers += op->code == LANE_BARRIER && !op->warp;
  n->loads += op->code == LANE_LD && op->space == SPACE_GLOBAL;
}

/* The loop adds to memory by a tensor map; and the block meets where it hands a tile from registers to a product alone:
 * before it is written, and after. Its rows of lse and delta, which might be what it adds to, a launch knows to be
 * elsewhere. */
static void a_loop_that_adds_to_memory(void **state) {
  DotCase c = gradient_case(OF_ALL, NULL);
  Adds n = {0};
  dot_compile(&c);
  lane_walk(c.lane->body, count_adds, &n);
  assert_true(n.boxes > 0 && !n.atomics && n.barriers == 2);
  dot_free(&c);
}

/* What else than tiles such kernels load: rows that no tensor map brings, in the loop; a tile after it. */
static const char beside_text[] =
    HEAD "@triton.jit\ndef k(q_ptr, r_ptr, a_ptr, v_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, "
         "TRIPS: tl.constexpr):\n"
         "    rows = tl.arange(0, M)[:, None] * D + tl.arange(0, D)[None, :]\n"
         "    a = tl.load(a_ptr + rows)\n"
         "    sum = tl.zeros([M, D], tl.float32)\n"
         "    for start in range(0, TRIPS * N, N):\n"
         "        n = start + tl.arange(0, N)\n"
         "        q = tl.load(q_ptr + n[:, None] * D + tl.arange(0, D)[None, :])\n"
         "        s = tl.dot(a, tl.trans(q))\n"
         "        if TRIPS > 2:\n"
         "            s = s * tl.load(r_ptr + n * 3)[None, :]\n"
         "        sum = tl.dot(s.to(tl.float16), q, sum)\n"
         "    if TRIPS <= 2:\n"
         "        sum += tl.dot(sum.to(tl.float16), tl.load(v_ptr + rows))\n"
         "    tl.store(out_ptr + rows, sum)\n";

static DotCase beside_case(int D, int trips, bool specialize) {
  enum { M = 64, N = 64 };
  DotCase c = dot_case(beside_text, "sm_90a", 4, 3);
  c.specialize = specialize, c.blocks = 1;
  dot_array(&c, DT_F16, trips * N * D), dot_array(&c, DT_F32, 3 * trips * N);
  for (int i = 0; i < 2; i++) dot_array(&c, DT_F16, M * D);
  dot_array(&c, DT_F32, M * D);
  dot_const(&c, M), dot_const(&c, N), dot_const(&c, D), dot_const(&c, trips);
  dot_run(&c, specialize ? "specialized" : "whole");
  assert_int_equal(is_specialized(&c), specialize);
  return c;
}

/* Where registers do not hold the next iteration's, threads copy them. */
static void no_loop_waits_for_rows(void **state) {
  DotCase c = beside_case(256, 5, true), whole = beside_case(256, 5, false);
  Adds n = {0};
  lane_walk(c.lane->body, count_adds, &n);
  assert_int_equal(n.loads, 0);
  assert_true(dot_count(&c).copies[4] > 0);
  assert_memory_equal(c.args[4].data, whole.args[4].data, 64 * 256 * sizeof(float));
  dot_free(&c), dot_free(&whole);
}

/* After the loops those that compute are fewer than the block has threads: each bin of a histogram is cleared by one of
 * them, numbers in order by as many, and one thread adds for all. */
static void counts_of_those_that_compute(void **state) {
  static const char text[] = HEAD
      "@triton.jit\ndef k(a_ptr, b_ptr, x_ptr, bins_ptr, sorted_ptr, sum_ptr, M: tl.constexpr, BINS: tl.constexpr):\n"
      "    m = tl.arange(0, M)[:, None] * 64 + tl.arange(0, 64)[None, :]\n"
      "    n = tl.arange(0, 64)\n"
      "    acc = tl.zeros([M, 64], tl.float32)\n"
      "    for i in range(3):\n"
      "        acc = tl.dot(tl.load(a_ptr + i * M * 64 + m), tl.load(b_ptr + i * 4096 + n[:, None] * 64 + n[None, :]), "
      "acc)\n"
      "    x = tl.load(x_ptr + tl.arange(0, BINS))\n"
      "    tl.store(bins_ptr + tl.arange(0, BINS), tl.histogram(x, BINS))\n"
      "    tl.store(sorted_ptr + tl.arange(0, BINS), tl.sort(x))\n"
      "    tl.atomic_add(sum_ptr, tl.sum(tl.sum(acc, 1), 0))\n";
  for (int warps = 4; warps <= 8; warps += 4) {
    enum { BINS = 1024 };
    int m = 16 * warps;
    DotCase c = dot_case(text, "sm_90a", warps, 3);
    c.specialize = true, c.blocks = 1;
    const DotArg *a = dot_array(&c, DT_F16, 3 * m * 64), *b = dot_array(&c, DT_F16, 3 * 64 * 64);
    DotArg *x = dot_array(&c, DT_I32, BINS);
    const DotArg *bins = dot_array(&c, DT_I32, BINS), *sorted = dot_array(&c, DT_I32, BINS),
                 *sum = dot_array(&c, DT_F32, 1);
    dot_const(&c, m), dot_const(&c, BINS);
    for (int i = 0; i < BINS; i++) dot_store(x, i, i * 7 % BINS);
    dot_store((DotArg *)sum, 0, 0);
    dot_run(&c, "counts");
    assert_true(is_specialized(&c));
    for (int i = 0; i < BINS; i++)
      if (bins->values[i] != 1 || sorted->values[i] != i)
        fail_msg("%d warps, %d: %g and %g", warps, i, bins->values[i], sorted->values[i]);
    double want = 0, size = 0;
    for (int i = 0; i < 3 * m * 64 * 64; i++) {
      int at = i / 64, column = i % 64, row = at / 64;
      double product = a->values[at] * b->values[row / m * 4096 + at % 64 * 64 + column];
      want += product, size += fabs(product);
    }
    if (fabs(sum->values[0] - want) > 1e-5 * size) fail_msg("%d warps: %g, not %g", warps, sum->values[0], want);
    dot_free(&c);
  }
}

typedef struct Early {
  int loads;
  bool multiplied;
} Early;

static void count_early(LaneOp *op, void *arg) {
  Early *n = arg;
  n->multiplied |= op->code == LANE_WGMMA;
  n->loads += op->code == LANE_LD && op->space == SPACE_GLOBAL && !n->multiplied;
}

/* What stands after a short loop of products is loaded before it. */
static void tiles_after_a_short_loop(void **state) {
  DotCase c = beside_case(64, 2, true), whole = beside_case(64, 2, false);
  Early n = {0};
  lane_walk(c.lane->body, count_early, &n);
  assert_true(n.loads > 0);
  assert_memory_equal(c.args[4].data, whole.args[4].data, 64 * 64 * sizeof(float));
  dot_free(&c), dot_free(&whole);
}

/* Of its rows of lse and delta a loop loads nothing itself: they come with the tiles. */
static void rows_come_with_tiles(void **state) {
  for (int without = 0; without < 2; without++) {
    DotCase c = gradient_case(OF_ALL, without ? "row_rings" : NULL);
    Adds n = {0};
    dot_compile(&c);
    lane_walk(c.lane->body, count_adds, &n);
    assert_true(without ? n.loads > 0 : !n.loads);
    dot_free(&c);
  }
}

/* It runs so where what it adds to is apart from what it loads ahead: up to the last byte. */
static void arrays_that_must_be_apart(void **state) {
  enum { Q, GRAD = 3, LSE, SUMS = 6, N = 9, HEADS = 2 };
  DotCase c = gradient_case(OF_ALL, NULL);
  GpuTensorMap maps[GPU_PLAN_MAPS];
  uint64_t slots[DOT_ARGS + 3] = {0};
  dot_compile(&c);
  assert_true(is_specialized(&c) && c.lane->plan);
  uint64_t n = (uint64_t)gradient_rows(OF_ALL), halves = HEADS * n * 32 * 2, floats = 2 * halves, rows = HEADS * n * 4,
           at = 1 << 20;
  for (int i = 0; i < 9; i++) slots[i] = at + (uint64_t)i * (1 << 16);
  slots[N] = n, slots[N + 1] = c.args[N + 1].bits;
  gpu_put_grid(c.lane, c.grid, slots);
  assert_int_equal(gpu_plan_maps(c.lane->plan, slots, c.grid, maps), 0);
  static const int loaded[] = {Q, GRAD, LSE};
  for (int i = 0; i < 3; i++) {
    uint64_t sums = slots[SUMS], own = slots[loaded[i]], bytes = i < 2 ? halves : rows;
    slots[SUMS] = own + bytes; /* side by side, either way */
    assert_int_equal(gpu_plan_maps(c.lane->plan, slots, c.grid, maps), 0);
    slots[SUMS] -= 16;
    assert_int_not_equal(gpu_plan_maps(c.lane->plan, slots, c.grid, maps), 0);
    slots[SUMS] = own - floats;
    assert_int_equal(gpu_plan_maps(c.lane->plan, slots, c.grid, maps), 0);
    slots[SUMS] += 16;
    assert_int_not_equal(gpu_plan_maps(c.lane->plan, slots, c.grid, maps), 0);
    slots[SUMS] = sums;
  }
  dot_free(&c);
}

/* ---- results by tensor maps -------------------------------------------------------------------------------------- */

typedef struct Result {
  Product p;
  bool across; /* neighbours down a column lie side by side */
  int pitch;   /* elements from one row, or column, to the next */
  bool by_map;
} Result;

static void count_box(LaneOp *op, void *arg) { *(int *)arg += op->code == LANE_TENSOR_STORE; }

static void check_result(const Result *r, int64_t without) {
  const Product *p = &r->p;
  DotCase c = product_case(p, "matmul");
  int64_t strides[] = {r->across ? 1 : r->pitch, r->across ? r->pitch : 1};
  int boxes = 0, count = (r->across ? p->n : p->m) * r->pitch;
  DotCase out = {0};
  DotArg *to = dot_array(&out, DT_F16, count);
  free(c.args[2].memory), free(c.args[2].values);
  c.args[2] = *to;
  for (int i = 0; i < 2; i++) c.args[10 + i].spec.int_value = strides[i], c.args[10 + i].bits = (uint64_t)strides[i];
  c.without = without;
  dot_compile(&c);
  lane_walk(c.lane->body, count_box, &boxes);
  assert_true(is_specialized(&c));
  if ((boxes > 0) != (r->by_map && !without)) fail_msg("%d x %d, pitch %d: %d boxes", p->m, p->n, r->pitch, boxes);
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    LaneSimFault fault;
    for (int64_t i = 0; i < count; i++) dot_store(&c.args[2], i, 7);
    if (!dot_simulate(&c, seed, &fault)) fail_msg("%d x %d, pitch %d: %s", p->m, p->n, r->pitch, fault.message);
    dot_read_back(&c.args[2]);
    for (int i = 0; i < p->m; i++)
      for (int j = 0; j < p->n; j++) {
        double sum = 0, got = c.args[2].values[i * strides[0] + j * strides[1]];
        for (int k = 0; k < p->k; k++) sum += c.args[0].values[i * p->k + k] * c.args[1].values[k * p->n + j];
        uint16_t half;
        dtype_store_float(DT_F16, &half, sum);
        if (got != dtype_load_float(DT_F16, &half))
          fail_msg("%d x %d, pitch %d: [%d, %d] is %g, not %g", p->m, p->n, r->pitch, i, j, got, sum);
      }
    for (int i = 0; i < (r->across ? p->n : p->m); i++) /* nothing beside the matrix */
      for (int j = r->across ? p->m : p->n; j < r->pitch; j++) assert_true(c.args[2].values[i * r->pitch + j] == 7);
  }
  dot_free(&c);
}

/* Tiles cut by the matrix's end, rows of 32, 64 and 128 bytes, columns side by side; what is stored as ever: rows that
 * are not at 16 bytes, or not known to be (for their sake the launch takes no kernel without maps). */
static void results(void **state) {
  static const Result all[] = {
      {{150, 72, 48, 64, 64, 32, 4, 2, 0}, false, 80, true},
      {{150, 72, 48, 64, 32, 32, 4, 1, 0}, false, 96, true},
      {{64, 48, 64, 64, 16, 32, 4, 1, 0}, false, 48, true},
      {{200, 136, 64, 128, 128, 32, 8, 2, 0}, false, 144, true},
      {{136, 264, 32, 64, 256, 16, 4, 1, 0}, false, 272, true},
      {{72, 72, 48, 64, 64, 32, 4, 1, 0}, true, 80, true},
      {{200, 72, 32, 128, 64, 32, 8, 1, 0}, true, 208, true},
      {{70, 72, 48, 64, 64, 32, 4, 2, 0}, false, 72, false},
      {{70, 72, 48, 64, 64, 32, 4, 2, 0}, false, 75, false},
  };
  const char *wrong;
  for (int i = 0; i < (int)(sizeof all / sizeof *all); i++) check_result(&all[i], 0);
  check_result(&all[0], gpu_without("tensor_stores", &wrong));
}

/* Tiles whose corners lie before their arrays: loads by maps give zeros there; a map's store may not begin there (CUDA
 * C++ Programming Guide), so that it is one by threads, but where the corner is known to be inside, or a launch sees.
 */
#define CORNER \
  HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, rows, n_k, shift, UP: tl.constexpr, LEFT: tl.constexpr, " \
       "M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):\n" \
       "    a = tl.make_tensor_descriptor(a_ptr, [rows, n_k], [n_k, 1], [M, BK])\n" \
       "    b = tl.make_tensor_descriptor(b_ptr, [n_k, N], [N, 1], [BK, N])\n" \
       "    out = tl.make_tensor_descriptor(out_ptr, [rows, N], [N, 1], [M, N])\n" \
       "    m = tl.program_id(0) * M + shift - UP\n"
#define CORNER_SUM \
  "    acc = tl.zeros([M, N], tl.float32)\n" \
  "    for i in range(0, n_k, BK):\n" \
  "        acc = tl.dot(a.load([m, i]), b.load([i, -LEFT]), acc)\n"
static const char stored_at_corner[] = CORNER CORNER_SUM "    out.store([m, -LEFT], acc)\n";
static const char added_at_corner[] =
    CORNER "    for i in range(0, n_k, BK):\n"
           "        out.atomic_add([m, -LEFT], tl.dot(a.load([m, i]), b.load([i, -LEFT])))\n";

typedef struct Corner {
  const char *text;
  int shift, up, left;
  bool by_map;
} Corner;

static void count_corner(LaneOp *op, void *arg) {
  *(int *)arg += op->code == LANE_TENSOR_STORE || op->code == LANE_TENSOR_RED;
}

static void corners_before_arrays(void **state) {
  static const Corner all[] = {
      {stored_at_corner, 0, 0, 0, true},    {stored_at_corner, 32, 0, 0, true}, {stored_at_corner, 0, 16, 0, false},
      {stored_at_corner, 0, 0, 8, false},   {stored_at_corner, 0, 3, 5, false}, {stored_at_corner, -32, 0, 0, false},
      {stored_at_corner, -32, 0, 8, false}, {added_at_corner, 0, 0, 0, true},   {added_at_corner, 0, 16, 0, false},
      {added_at_corner, 0, 0, 8, false},
  };
  enum { M = 64, N = 32, BK = 32, ROWS = 3 * M, K = 2 * BK };
  for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
    const Corner *p = &all[n];
    DotCase c = dot_case(p->text, "sm_90a", 4, 3);
    LaneSimFault fault;
    int boxes = 0, first = p->shift - p->up;
    c.grid[0] = ROWS / M, c.specialize = true, c.blocks = 2;
    DotArg *a = dot_array(&c, DT_F16, ROWS * K), *b = dot_array(&c, DT_F16, K * N),
           *out = dot_array(&c, DT_F32, ROWS * N);
    dot_int(&c, ROWS), dot_int(&c, K), dot_int(&c, p->shift), dot_const(&c, p->up), dot_const(&c, p->left);
    dot_const(&c, M), dot_const(&c, N), dot_const(&c, BK);
    for (int i = 0; i < ROWS * N; i++) dot_store(out, i, p->text == added_at_corner ? 0 : 7);
    dot_compile(&c);
    if (!dot_simulate(&c, n, &fault)) fail_msg("number %zu: %s", n, fault.message);
    lane_walk(c.lane->body, count_corner, &boxes);
    if ((boxes > 0) != p->by_map) fail_msg("number %zu: %d boxes", n, boxes);
    dot_read_back(out);
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < N; j++) {
        bool there = i >= first && i < first + ROWS && j < N - p->left;
        double sum = there || p->text == added_at_corner ? 0 : 7;
        for (int k = 0; k < K && there; k++) sum += a->values[i * K + k] * b->values[k * N + j];
        if (out->values[i * N + j] != sum)
          fail_msg("number %zu: [%d, %d] is %g, not %g", n, i, j, out->values[i * N + j], sum);
      }
    dot_free(&c);
  }
}

/* ---- attention with a tile that is added to the scores ------------------------------------------------------------ */

static const char biased[] =
    HEAD "@triton.jit\ndef k(q_ptr, k_ptr, v_ptr, bias_ptr, out_ptr, keys, scale, D: tl.constexpr, M: tl.constexpr, "
         "N: tl.constexpr):\n"
         "    m = tl.program_id(0) * M + tl.arange(0, M)\n    d = tl.arange(0, D)[None, :]\n"
         "    q = tl.load(q_ptr + m[:, None] * D + d)\n"
         "    most = tl.full([M], -float('inf'), tl.float32)\n    total = tl.zeros([M], tl.float32)\n"
         "    acc = tl.zeros([M, D], tl.float32)\n"
         "    for i in range(0, keys, N):\n"
         "        n = i + tl.arange(0, N)\n"
         "        key = tl.load(k_ptr + n[:, None] * D + d)\n"
         "        s = tl.dot(q, key.T) * scale + tl.load(bias_ptr + m[:, None] * keys + n[None, :])\n"
         "        now = tl.maximum(most, tl.max(s, 1))\n"
         "        p = tl.exp(s - now[:, None])\n        was = tl.exp(most - now)\n"
         "        total = total * was + tl.sum(p, 1)\n"
         "        acc = tl.dot(p.to(tl.float16), tl.load(v_ptr + n[:, None] * D + d), acc * was[:, None])\n"
         "        most = now\n"
         "    tl.store(out_ptr + m[:, None] * D + d, acc / total[:, None])\n";

static DotCase biased_case(int stages, int keys, int d, int m, int n) {
  DotCase c = dot_case(biased, "sm_90a", 8, stages);
  c.specialize = true, c.blocks = 1;
  for (int i = 0; i < 3; i++) dot_array(&c, DT_F16, (int64_t)(i ? keys : m) * d);
  dot_array(&c, DT_F16, (int64_t)m * keys), dot_array(&c, DT_F32, (int64_t)m * d);
  dot_int(&c, keys), dot_float(&c, softmax_scale), dot_const(&c, d), dot_const(&c, m), dot_const(&c, n);
  return c;
}

static void check_biased(const DotCase *c, int keys, int d, int m) {
  double *p = calloc((size_t)keys, sizeof *p);
  for (int row = 0; row < m; row++) {
    double most = -INFINITY, sum = 0;
    for (int j = 0; j < keys; j++) {
      p[j] = c->args[3].values[(int64_t)row * keys + j];
      for (int h = 0; h < d; h++) p[j] += softmax_scale * c->args[0].values[row * d + h] * c->args[1].values[j * d + h];
      most = fmax(most, p[j]);
    }
    for (int j = 0; j < keys; j++) sum += p[j] = exp(p[j] - most);
    for (int h = 0; h < d; h++) {
      double want = 0, scale = 0, got = c->args[4].values[row * d + h];
      for (int j = 0; j < keys; j++) {
        double v = c->args[2].values[j * d + h];
        want += p[j] / sum * v, scale += p[j] / sum * fabs(v);
      }
      if (!(fabs(got - want) <= 0x1p-9 * scale + 0x1p-20))
        fail_msg("row %d, column %d is %g, not %g", row, h, got, want);
    }
  }
  free(p);
}

/* The tile comes by the threads' own copies, where the rings that other warps fill leave room for it: two and three
 * iterations ahead, and with rings for all of shared memory. */
static void attention_with_a_bias(void **state) {
  enum { KEYS = 32 * 5, D = 64, M = 256, N = 32 };
  for (int stages = 2; stages <= 4; stages++) {
    DotCase c = biased_case(stages, KEYS, D, M, N);
    LaneSimFault fault;
    dot_compile(&c);
    assert_true(is_specialized(&c));
    if (!dot_simulate(&c, stages, &fault)) fail_msg("%d stages: %s", stages, fault.message);
    dot_read_back(&c.args[4]);
    check_biased(&c, KEYS, D, M);
    dot_free(&c);
    for (int big = 0; big < 2; big++) {
      DotCase large = biased_case(stages, 256, 128, 128, big ? 128 : 64);
      dot_compile(&large);
      assert_true(is_specialized(&large));
      dot_free(&large);
    }
  }
}

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

typedef struct Opening {
  LaneFunc *f;
  int made[2], arrivals[2], meetings[2]; /* by part */
} Opening;

static bool is_opening(const Opening *o, const LaneOp *op) { return op->warps == o->f->num_warps; }

static void look(Opening *o, const LaneBlock *b, int part) {
  for (const LaneOp *op = b->first; op; op = op->next) {
    o->made[part] += op->code == LANE_MBAR_INIT;
    o->arrivals[part] += op->code == LANE_BARRIER_ARRIVE && is_opening(o, op);
    o->meetings[part] += op->code == LANE_BARRIER && is_opening(o, op);
    for (int i = 0; i < 2; i++)
      if (op->body[i]) look(o, op->body[i], op->code == LANE_IF && op->warps ? i : part);
  }
}

/* The warp that copies makes the mbarriers, and goes on; who computes waits for it, not for the other warps. */
static void the_copier_begins_at_once(void **state) {
  Product p = {64 * 3, 32, 32 * 5, 64, 32, 32, 4, 1};
  DotCase c = product_case(&p, "matmul");
  dot_compile(&c);
  Opening o = {c.lane};
  look(&o, c.lane->body, 0);
  assert_int_equal(o.made[0], 0);
  assert_true(o.made[1] > 0);
  assert_int_equal(o.meetings[0], 1);
  assert_int_equal(o.arrivals[0] + o.meetings[1], 0);
  assert_int_equal(o.arrivals[1], 1);
  for (const LaneOp *op = c.lane->body->first; op; op = op->next) assert_true(op->code != LANE_BARRIER);
  dot_free(&c);
}

/* ---- what the two halves wait for -------------------------------------------------------------------------------- */

static void a_product_needs_its_waits(void **state) {
  Product p = {64 * 3, 32, 32 * 5, 64, 32, 32, 4, 1};
  DotCase c = product_case(&p, "matmul");
  needs_all(&c, 5, 32 * 5, 12, 0);
  dot_free(&c);
}

/* Threads load words of b from its slots, which they free when they have them. */
static void a_turned_product_needs_its_waits(void **state) {
  static const char text[] =
      HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):\n"
           "    m = tl.program_id(0) * M + tl.arange(0, M)[:, None]\n    n = tl.arange(0, N)[None, :]\n    k = "
           "tl.arange(0, BK)\n"
           "    acc = tl.zeros([M, N], tl.float32)\n"
           "    for i in range(0, K, BK):\n"
           "        a = tl.load(a_ptr + m * K + (i + k)[None, :])\n"
           "        acc = tl.dot(a, tl.load(b_ptr + (i + k)[:, None] * N + n), acc)\n"
           "    tl.store(out_ptr + m * N + n, acc)\n";
  enum { M = 64, PROGRAMS = 6, N = 64, K = 32 * 3 };
  DotCase c = dot_case(text, "sm_90a", 4, 3);
  dot_array(&c, DT_F32, PROGRAMS * M * K), dot_array(&c, DT_F32, K * N), dot_array(&c, DT_F32, PROGRAMS * M * N);
  dot_int(&c, K), dot_const(&c, M), dot_const(&c, N), dot_const(&c, 32);
  c.grid[0] = PROGRAMS, c.blocks = 1;
  needs_all(&c, 3, K, 12, 1);
  dot_free(&c);
}

static void gradients_need_their_waits(void **state) {
  static const int length[] = {7, 8, 9}, spare[] = {1, 2, 4}; /* of all, rows are freed with the tiles */
  for (Gradients of = OF_QUERIES; of <= OF_ALL; of++) {
    DotCase c = gradient_case(of, NULL);
    needs_all(&c, length[of], gradient_rows(of), 20, spare[of]);
    dot_free(&c);
  }
}

static void attention_needs_its_waits(void **state) {
  for (int ahead = 0; ahead < 2; ahead++) {
    Attention a = {64 * 2, 32, 64, 32, 4, false, 1, ahead ? "dots_behind" : NULL};
    DotCase c = attention_case(&a);
    needs_all(&c, 5, 64 * 2, 20, ahead);
    dot_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products),
      cmocka_unit_test(loops_in_all_places),
      cmocka_unit_test(refused),
      cmocka_unit_test(of_its_own_accord),
      cmocka_unit_test(attention),
      cmocka_unit_test(attention_with_a_bias),
      cmocka_unit_test(results),
      cmocka_unit_test(corners_before_arrays),
      cmocka_unit_test(the_copier_begins_at_once),
      cmocka_unit_test(a_product_needs_its_waits),
      cmocka_unit_test(a_turned_product_needs_its_waits),
      cmocka_unit_test(attention_needs_its_waits),
      cmocka_unit_test(sums_across_lanes_behind_the_loop),
      cmocka_unit_test(gradients),
      cmocka_unit_test(raised_dots_wait_for_their_tiles),
      cmocka_unit_test(a_loop_that_adds_to_memory),
      cmocka_unit_test(no_loop_waits_for_rows),
      cmocka_unit_test(counts_of_those_that_compute),
      cmocka_unit_test(tiles_after_a_short_loop),
      cmocka_unit_test(rows_come_with_tiles),
      cmocka_unit_test(arrays_that_must_be_apart),
      cmocka_unit_test(gradients_need_their_waits),
  };
  return cmocka_run_group_tests_name("specialize", tests, NULL, NULL);
}
