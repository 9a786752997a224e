/* Products of warpgroups, and of single warps beside them: every shape of tile, number of warps, type and orientation
 * of the operands leaves what float64 says, and goes to the instruction that it should. */
#include "unit/gpu/test_dot_kit.h"

/* How an operand lies in memory and comes to the product: a matrix's rows one after the other; its columns, loaded as
 * rows and transposed; its columns, loaded with strides. */
typedef enum { ROWS, TRANSPOSED, STRIDED } Way;

typedef struct Product {
  int m, n, k, warps;
  Dtype type, out;
  Way a, b;
  bool given;
} Product;

static const char product_text[] =
    HEAD "@triton.jit\n"
         "def tile(ptr, R: tl.constexpr, C: tl.constexpr, WAY: tl.constexpr):\n"
         "    r = tl.arange(0, R)\n"
         "    c = tl.arange(0, C)\n"
         "    if WAY == 0:\n"
         "        return tl.load(ptr + r[:, None] * C + c[None, :])\n"
         "    if WAY == 1:\n"
         "        return tl.trans(tl.load(ptr + c[:, None] * R + r[None, :]))\n"
         "    return tl.load(ptr + r[:, None] + c[None, :] * R)\n"
         "@triton.jit\n"
         "def k(a_ptr, b_ptr, c_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, A: tl.constexpr,\n"
         "      B: tl.constexpr, GIVEN: tl.constexpr):\n"
         "    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]\n"
         "    a = tile(a_ptr, M, K, A)\n"
         "    b = tile(b_ptr, K, N, B)\n"
         "    T: tl.constexpr = out_ptr.dtype.element_ty\n"
         "    if GIVEN:\n"
         "        out = tl.dot(a, b, tl.load(c_ptr + at), out_dtype=T)\n"
         "    else:\n"
         "        out = tl.dot(a, b, out_dtype=T)\n"
         "    tl.store(out_ptr + at, out)\n";

static double at(const DotArg *x, int rows, int columns, Way way, int r, int c) {
  return x->values[way == ROWS ? r * columns + c : c * rows + r];
}

static double rounded(double v, Dtype t) {
  uint64_t bits = 0;
  dtype_store_float(t, &bits, v);
  return dtype_load_float(t, &bits);
}

static void check_product(const Product *p, const char *target) {
  DotCase c = dot_case(product_text, target, p->warps, 3);
  DotArg *a = dot_array(&c, p->type, p->m * p->k), *b = dot_array(&c, p->type, p->k * p->n),
         *given = dot_array(&c, p->out, p->m * p->n), *out = dot_array(&c, p->out, p->m * p->n);
  dot_const(&c, p->m), dot_const(&c, p->n), dot_const(&c, p->k), dot_const(&c, p->a), dot_const(&c, p->b);
  dot_const(&c, p->given);
  char what[200];
  snprintf(what, sizeof what, "%d by %d by %d of %s, ways %d %d%s", p->m, p->n, p->k, dtype_name(p->type), p->a, p->b,
           p->given ? ", added" : "");
  dot_run(&c, what);
  DotCount n = dot_count(&c);
  bool group = !strcmp(target, "sm_90a") && p->m >= 64 && p->n >= 16 && p->warps >= 4;
  if ((n.wgmma > 0) != group || (n.mma > 0) == group) fail_msg("%s: %d wgmma, %d mma", what, n.wgmma, n.mma);
  for (int i = 0; i < p->m; i++)
    for (int j = 0; j < p->n; j++) {
      double want = p->given ? given->values[i * p->n + j] : 0, got = out->values[i * p->n + j];
      for (int k = 0; k < p->k; k++) want += at(a, p->m, p->k, p->a, i, k) * at(b, p->k, p->n, p->b, k, j);
      want = rounded(want, p->out);
      if (got != want) fail_msg("%s, %d warps, %s: [%d, %d] is %g, not %g", what, p->warps, target, i, j, got, want);
    }
  dot_free(&c);
}

static const int warp_counts[] = {4, 8, 16};

/* Each shape and number of warps; types, orientations, what is added and the result's type change from one to the
 * next. */
static void every_shape(void **state) {
  int turn = 0;
  for (int m = 64; m <= 256; m *= 2)
    for (int n = 16; n <= 256; n *= 2)
      for (int k = 16; k <= 128; k *= 2)
        for (int w = 0; w < 3; w++, turn++) {
          Product p = {m,
                       n,
                       k,
                       warp_counts[w],
                       turn % 2 ? DT_BF16 : DT_F16,
                       turn % 5 == 3 ? DT_F16 : DT_F32,
                       (Way)(turn / 2 % 3),
                       (Way)(turn / 6 % 3),
                       turn % 7 < 3};
          if (p.type == DT_BF16) p.out = DT_F32;
          check_product(&p, "sm_90a");
        }
}

static void every_way_on(const char *target, int m, int n, int k, int warps) {
  for (int i = 0; i < 3 * 3 * 2 * 2; i++) {
    Product p = {m, n, k, warps, i & 1 ? DT_BF16 : DT_F16, DT_F32, (Way)(i / 4 % 3), (Way)(i / 12), i >> 1 & 1};
    check_product(&p, target);
  }
}

/* Of smaller shapes, each type and orientation with each number of warps. */
static void every_way(void **state) {
  for (int w = 0; w < 3; w++)
    for (int n = 16; n <= 64; n *= 2)
      for (int k = 16; k <= 64; k *= 2) every_way_on("sm_90a", 64, n, k, warp_counts[w]);
  every_way_on("sm_90a", 128, 128, 128, 8);
  every_way_on("sm_80", 64, 32, 64, 4);
  every_way_on("sm_80", 128, 64, 32, 8);
}

/* What is no warpgroup's work goes to single warps: 32 rows, 8 columns, two warps. */
static void small_products(void **state) {
  static const int shapes[][4] = {{32, 64, 32, 4}, {16, 16, 16, 1}, {64, 64, 64, 2}, {128, 8, 32, 4}, {16, 256, 64, 8}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const int *s = shapes[i];
    Product p = {s[0], s[1], s[2], s[3], DT_F16, DT_F32, ROWS, TRANSPOSED, true};
    check_product(&p, "sm_90a");
    check_product(&p, "sm_80");
  }
}

/* What comes from memory across and goes through arithmetic is turned while it is narrow; warpgroups multiply it as
 * tf32, the first operand from registers. sm_80 has single warps do it. */
static void turned_operands(void **state) {
  static const char text[] =
      HEAD "@triton.jit\ndef k(q_ptr, x_ptr, g_ptr, out_ptr, R, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):\n"
           "    m = tl.arange(0, M)\n    n = tl.arange(0, N)\n    acc = tl.zeros([M, N], tl.float32)\n"
           "    for i in range(R):\n"
           "        k = i * K + tl.arange(0, K)\n"
           "        q = tl.load(q_ptr + m[:, None] + k[None, :] * M) * tl.load(g_ptr + k)[None, :]\n"
           "        x = tl.load(x_ptr + k[:, None] * N + n[None, :]).to(tl.float32)\n"
           "        acc += tl.dot(q, x) * 0.5\n"
           "    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)\n";
  static const int shapes[][5] = {{64, 64, 64, 4, 3}, {64, 16, 16, 4, 2}, {128, 64, 32, 4, 1}, {128, 128, 64, 8, 2}};
  for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
    const int *s = shapes[i / 2], m = s[0], n = s[1], k = s[2] * s[4];
    const char *target = i % 2 ? "sm_90a" : "sm_80";
    DotCase c = dot_case(text, target, s[3], 3);
    DotArg *q = dot_array(&c, DT_BF16, m * k), *x = dot_array(&c, DT_BF16, k * n), *g = dot_array(&c, DT_F32, k),
           *out = dot_array(&c, DT_F32, m * n);
    dot_int(&c, s[4]), dot_const(&c, m), dot_const(&c, n), dot_const(&c, s[2]);
    for (int j = 0; j < k; j++) dot_store(g, j, j % 3 - 1);
    dot_run(&c, "turned operands");
    DotCount count = dot_count(&c);
    if ((count.wgmma > 0) != (i % 2 == 1)) fail_msg("shape %zu, %s: %d wgmma", i / 2, target, count.wgmma);
    for (int r = 0; r < m * n; r++) {
      double want = 0;
      for (int j = 0; j < k; j++) want += q->values[j * m + r / n] * g->values[j] * x->values[j * n + r % n] / 2;
      if (out->values[r] != want) fail_msg("%s: [%d] is %g, not %g", target, r, out->values[r], want);
    }
    dot_free(&c);
  }
}

/* The more warps, the fewer registers a thread has: ptxas refuses an instruction whose sums leave it too few. */
static void sums_that_registers_hold(void **state) {
  static const int shapes[][4] = {{64, 256, 16, 4}, {128, 256, 16, 8}, {128, 512, 16, 16}, {128, 512, 16, 32}},
                   sums[] = {128, 128, 64, 32};
  for (int i = 0; i < 4; i++) {
    const int *s = shapes[i];
    DotCase c = dot_case(product_text, "sm_90a", s[3], 3);
    dot_array(&c, DT_F16, s[0] * s[2]), dot_array(&c, DT_F16, s[2] * s[1]), dot_array(&c, DT_F32, s[0] * s[1]);
    dot_array(&c, DT_F32, s[0] * s[1]), dot_const(&c, s[0]), dot_const(&c, s[1]), dot_const(&c, s[2]);
    dot_const(&c, ROWS), dot_const(&c, ROWS), dot_const(&c, 0);
    dot_compile(&c);
    assert_int_equal(dot_count(&c).sums, sums[i]);
    dot_free(&c);
    check_product(&(Product){s[0], s[1], s[2], s[3], DT_F16, DT_F32, ROWS, ROWS, true}, "sm_90a");
  }
}

/* max_num_imprecise_acc: of fp8, sums of so many k's at most stay in the tensor core, which keeps 14 bits of them; the
 * others are added in f32. 0: of one instruction's 32. None: the loop's sums stay there. */
static void promoted_sums(void **state) {
  static const char text[] =
      HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, R, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,\n"
           "      IMPRECISE: tl.constexpr, HELD: tl.constexpr):\n"
           "    m = tl.arange(0, M)\n    n = tl.arange(0, N)\n    acc = tl.zeros([M, N], tl.float32)\n"
           "    for i in range(R):\n"
           "        k = i * K + tl.arange(0, K)\n"
           "        a = tl.load(a_ptr + m[:, None] * (R * K) + k[None, :])\n"
           "        if HELD:\n"
           "            a = (a.to(tl.float16) * 1).to(a.dtype)\n"
           "        b = tl.load(b_ptr + k[:, None] + n[None, :] * (R * K))\n"
           "        if IMPRECISE == -1:\n"
           "            acc = tl.dot(a, b, acc)\n"
           "        else:\n"
           "            acc = tl.dot(a, b, acc, max_num_imprecise_acc=IMPRECISE)\n"
           "    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)\n";
  /* k's at a time, and groups of an iteration of 128 */
  static const int limits[][2] = {{-1, 0}, {0, 4}, {32, 4}, {64, 2}, {100, 2}, {128, 1}};
  for (size_t i = 0; i < 4 * sizeof limits / sizeof *limits; i++) {
    const int *limit = limits[i / 4], n = i & 1 ? 64 : 32, r = 3, k = 128 * r;
    Dtype type = i & 1 ? DT_F8E5 : DT_F8E4NV;
    DotCase c = dot_case(text, "sm_90a", 4, 3);
    DotArg *a = dot_array(&c, type, 64 * k), *b = dot_array(&c, type, n * k), *out = dot_array(&c, DT_F32, 64 * n);
    dot_int(&c, r), dot_const(&c, 64), dot_const(&c, n), dot_const(&c, 128), dot_const(&c, limit[0]);
    dot_const(&c, i >> 1 & 1);
    dot_run(&c, "promoted sums");
    DotCount count = dot_count(&c);
    if (!count.wgmma || count.from_zero * 4 != limit[1] * count.wgmma)
      fail_msg("%d k's at a time: %d of %d products add to nothing", limit[0], count.from_zero, count.wgmma);
    for (int j = 0; j < 64 * n; j++) {
      double want = 0;
      for (int t = 0; t < k; t++) want += a->values[j / n * k + t] * b->values[j % n * k + t];
      if (out->values[j] != want) fail_msg("[%d] is %g, not %g", j, out->values[j], want);
    }
    dot_free(&c);
  }
}

typedef struct Order {
  const LaneValue *sum; /* the first that the last product has left */
  int products, begun;  /* begun: those that add to others */
} Order;

static void follow(LaneOp *op, void *arg) {
  Order *o = arg;
  if (op->code != LANE_WGMMA) return;
  bool goes_on = false;
  for (int k = 0; k < op->in_count && o->sum; k++) goes_on |= op->in[k] == o->sum;
  o->begun += !goes_on;
  o->products++;
  o->sum = op->out[0];
}

/* Where a thread has registers for some of the sums only, each comes to them once: all k's of a block of sums, then the
 * next block's. Descriptors say nothing of that, but which sums an instruction adds to does. */
static void sums_that_registers_do_not_hold(void **state) {
  static const Product products[] = {{256, 256, 64, 4, DT_BF16, DT_F32, ROWS, ROWS, true},
                                     {256, 256, 32, 4, DT_F32, DT_F32, ROWS, TRANSPOSED, true},
                                     {128, 256, 64, 4, DT_F16, DT_F32, TRANSPOSED, ROWS, false},
                                     {128, 128, 64, 4, DT_F16, DT_F32, ROWS, ROWS, true}}; /* it has: 128 */
  for (int i = 0; i < 4; i++) {
    const Product *p = &products[i];
    DotCase c = dot_case(product_text, "sm_90a", p->warps, 3);
    dot_array(&c, p->type, p->m * p->k), dot_array(&c, p->type, p->k * p->n), dot_array(&c, DT_F32, p->m * p->n);
    dot_array(&c, DT_F32, p->m * p->n), dot_const(&c, p->m), dot_const(&c, p->n), dot_const(&c, p->k);
    dot_const(&c, p->a), dot_const(&c, p->b), dot_const(&c, p->given);
    dot_compile(&c);
    Order order = {0};
    lane_walk(c.lane->body, follow, &order);
    int blocks = p->m / 64 * p->n / 256, steps = p->k / (p->type == DT_F32 ? 8 : 16);
    assert_int_equal(order.products, (i == 3 ? 2 : blocks) * steps);
    assert_int_equal(order.begun, i == 3 ? order.products : blocks);
    dot_free(&c);
    check_product(p, "sm_90a");
  }
}

static void results_of_f16(void **state) {
  for (int given = 0; given < 2; given++) {
    Product p = {128, 64, 64, 4, DT_F16, DT_F16, ROWS, ROWS, given};
    check_product(&p, "sm_90a");
    check_product(&p, "sm_80");
  }
}

/* ---- a tile that a ring brings for two products, read along by one and across by the other ------------------------ */

static const char both_ways_text[] =
    HEAD "@triton.jit\n"
         "def k(q_ptr, k_ptr, v_ptr, s_ptr, kv_ptr, M: tl.constexpr, D: tl.constexpr, N: tl.constexpr,\n"
         "      TRIPS: tl.constexpr):\n"
         "    m = tl.arange(0, M)\n"
         "    d = tl.arange(0, D)\n"
         "    n = tl.arange(0, N)\n"
         "    q = tl.load(q_ptr + m[:, None] * D + d[None, :])\n"
         "    s = tl.zeros([M, N], tl.float32)\n"
         "    kv = tl.zeros([D, N], tl.float32)\n"
         "    for i in range(TRIPS):\n"
         "        row = i * N + n\n"
         "        k = tl.load(k_ptr + row[None, :] * D + d[:, None])\n"
         "        v = tl.load(v_ptr + row[:, None] * N + n[None, :])\n"
         "        s += tl.dot(q, k)\n"
         "        kv += tl.dot(k, v)\n"
         "    tl.store(s_ptr + m[:, None] * N + n[None, :], s)\n"
         "    tl.store(kv_ptr + d[:, None] * N + n[None, :], kv)\n";

static void check_both_ways(Dtype type, int m, int d, int n, int trips, const char *target) {
  DotCase c = dot_case(both_ways_text, target, 4, 3);
  DotArg *q = dot_array(&c, type, m * d), *k = dot_array(&c, type, trips * n * d),
         *v = dot_array(&c, type, trips * n * n), *s = dot_array(&c, DT_F32, m * n), *kv = dot_array(&c, DT_F32, d * n);
  dot_const(&c, m), dot_const(&c, d), dot_const(&c, n), dot_const(&c, trips);
  dot_run(&c, "one tile for two products");
  if (!strcmp(target, "sm_90a") && !dot_count(&c).wgmma) fail_msg("no product of warpgroups");
  for (int i = 0; i < m + d; i++)
    for (int j = 0; j < n; j++) {
      bool first = i < m;
      double want = 0, got = first ? s->values[i * n + j] : kv->values[(i - m) * n + j];
      for (int row = 0; row < trips * n; row++) {
        if (!first) want += k->values[row * d + i - m] * v->values[row * n + j];
        for (int h = 0; first && row % n == j && h < d; h++) want += q->values[i * d + h] * k->values[row * d + h];
      }
      if (got != want)
        fail_msg("%s, %d %d %d, %s: %s [%d, %d] is %g, not %g", dtype_name(type), m, d, n, target, first ? "s" : "kv",
                 first ? i : i - m, j, got, want);
    }
  dot_free(&c);
}

static void one_tile_both_ways(void **state) {
  static const Dtype types[] = {DT_F16, DT_BF16, DT_F32};
  for (int i = 0; i < 3; i++) {
    check_both_ways(types[i], 64, 64, 32, 3, "sm_90a");
    check_both_ways(types[i], 64, 32, 64, 2, "sm_90a");
    check_both_ways(types[i], 64, 16, 16, 5, "sm_90a");
    check_both_ways(types[i], 64, 64, 32, 3, "sm_80");
  }
}

/* ---- a product of a product: the second takes its first operand from registers ----------------------------------- */

static const char chain_text[] =
    HEAD "@triton.jit\n"
         "def k(a_ptr, b_ptr, c_ptr, out_ptr, M: tl.constexpr, K: tl.constexpr, L: tl.constexpr, N: tl.constexpr):\n"
         "    m = tl.arange(0, M)\n"
         "    l = tl.arange(0, L)\n"
         "    n = tl.arange(0, N)\n"
         "    k = tl.arange(0, K)\n"
         "    a = tl.load(a_ptr + m[:, None] * K + k[None, :])\n"
         "    b = tl.load(b_ptr + k[:, None] * L + l[None, :])\n"
         "    c = tl.load(c_ptr + l[:, None] * N + n[None, :])\n"
         "    s = tl.dot(a, b)\n"
         "    tl.store(out_ptr + m[:, None] * N + n[None, :], tl.dot(s.to(a.dtype), c))\n";

static void check_chain(int m, int k, int l, int n, int warps, Dtype type, const char *target) {
  DotCase c = dot_case(chain_text, target, warps, 3);
  DotArg *a = dot_array(&c, type, m * k), *b = dot_array(&c, type, k * l), *x = dot_array(&c, type, l * n),
         *out = dot_array(&c, DT_F32, m * n);
  dot_const(&c, m), dot_const(&c, k), dot_const(&c, l), dot_const(&c, n);
  dot_run(&c, "a chain");
  DotCount count = dot_count(&c);
  bool group = !strcmp(target, "sm_90a");
  /* rows stay with their warps; with more warpgroups than rows have slices, columns are dealt, too, and a moves */
  if (group && m / 16 >= warps && !count.from_registers)
    fail_msg("%d by %d, %d warps: a goes through shared memory", m, n, warps);
  double *s = calloc((size_t)l, sizeof *s);
  for (int i = 0; i < m; i++) {
    for (int j = 0; j < l; j++) {
      s[j] = 0;
      for (int h = 0; h < k; h++) s[j] += a->values[i * k + h] * b->values[h * l + j];
      s[j] = rounded(s[j], type);
    }
    for (int j = 0; j < n; j++) {
      double want = 0;
      for (int h = 0; h < l; h++) want += s[h] * x->values[h * n + j];
      if (out->values[i * n + j] != want)
        fail_msg("%d %d %d %d, %d warps, %s: [%d, %d] is %g, not %g", m, k, l, n, warps, target, i, j,
                 out->values[i * n + j], want);
    }
  }
  free(s);
  dot_free(&c);
}

static void chains(void **state) {
  for (int i = 0; i < 2; i++) {
    Dtype type = i ? DT_BF16 : DT_F16;
    check_chain(64, 64, 64, 64, 4, type, "sm_90a");
    check_chain(128, 32, 64, 128, 8, type, "sm_90a");
    check_chain(128, 64, 128, 64, 4, type, "sm_90a");
    check_chain(64, 16, 32, 256, 8, type, "sm_90a");
    check_chain(64, 16, 16, 16, 16, type, "sm_90a");
    check_chain(64, 64, 64, 64, 4, type, "sm_80");
    check_chain(16, 16, 32, 16, 1, type, "sm_80");
  }
}

/* Eight columns leave four results: a in registers and nothing to add to are five operands, too. */
static void a_from_registers_by_eight_columns(void **state) {
  static const char text[] =
      "kernel @k(%x: b32) warps=4 {\n  wgmma_fence\n"
      "  %r, %s, %t, %u = wgmma.f16 %x, %x, %x, %x, %x {imm=4611686018427387904} : b32, b32, b32, b32\n"
      "  wgmma_commit\n  %v, %w, %y, %z = wgmma_wait %r, %s, %t, %u : b32, b32, b32, b32\n}\n";
  Context *cx = context_create();
  Buf ptx = {0};
  if (context_try(cx)) {
    LaneFunc *f = lane_parse(cx, source_from_text(cx, "t.lane", text, strlen(text)));
    lane_verify(f, NULL);
    gpu_print_ptx(&ptx, f, gpu_target_find("sm_90a"), false);
    context_end_try(cx);
  }
  const char *at = ptx.at ? strstr(ptx.at, "m64n8k16") : NULL;
  if (!at || !strstr(at, "}, {%r") || !strstr(at, ", 0, 1, 1, 0;")) fail_msg("%s", ptx.at);
  buf_destroy(&ptx);
  context_destroy(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_shape),
      cmocka_unit_test(turned_operands),
      cmocka_unit_test(every_way),
      cmocka_unit_test(small_products),
      cmocka_unit_test(promoted_sums),
      cmocka_unit_test(sums_that_registers_hold),
      cmocka_unit_test(sums_that_registers_do_not_hold),
      cmocka_unit_test(results_of_f16),
      cmocka_unit_test(one_tile_both_ways),
      cmocka_unit_test(chains),
      cmocka_unit_test(a_from_registers_by_eight_columns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
