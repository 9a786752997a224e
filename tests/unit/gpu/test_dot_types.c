/* Loops around products of every type of operand that tensor cores take: exact, whichever way the operands lie, with
 * tiles brought by asynchronous copies wherever they can be taken as they lie. */
#include "unit/gpu/test_dot_kit.h"

#include <float.h>
#include <math.h>

static const char text[] =
    HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, K, sam, sak, sbk, sbn, M: tl.constexpr, N: tl.constexpr, "
         "BK: tl.constexpr, X3: tl.constexpr):\n"
         "    m = tl.arange(0, M)\n"
         "    n = tl.arange(0, N)\n"
         "    k = tl.arange(0, BK)\n"
         "    acc = tl.zeros([M, N], out_ptr.dtype.element_ty)\n"
         "    for i in range(0, K, BK):\n"
         "        at = i + k\n"
         "        a = tl.load(a_ptr + m[:, None] * sam + at[None, :] * sak, mask=at[None, :] < K, other=0.0)\n"
         "        b = tl.load(b_ptr + at[:, None] * sbk + n[None, :] * sbn, mask=at[:, None] < K, other=0.0)\n"
         "        acc = tl.dot(a, b, acc, input_precision='ieee' if X3 == 2 else 'tf32x3' if X3 else 'tf32', "
         "out_dtype=out_ptr.dtype.element_ty)\n"
         "    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)\n";

typedef struct Types {
  Dtype in, out;
  int block; /* of K */
  bool x3;
} Types;

static const Types types[] = {{DT_F16, DT_F32, 32, false}, {DT_F32, DT_F32, 16, false},    {DT_F32, DT_F32, 32, true},
                              {DT_I8, DT_I32, 64, false},  {DT_F8E4NV, DT_F32, 32, false}, {DT_F8E5, DT_F32, 64, false},
                              {DT_F64, DT_F64, 16, false}};

/* Numbers that every type has, other than the kit's, of which integers have few. */
static DotArg *whole_numbers(DotCase *c, Dtype t, int64_t count) {
  DotArg *a = dot_array(c, DT_F64, count);
  a->spec.dtype = t;
  for (int64_t i = 0; i < count; i++) {
    a->values[i] = (double)((int64_t)(a->values[i] * 4));
    char *at = (char *)a->data + i * dtype_bytes(t);
    if (dtype_is_int(t)) dtype_store_int(t, at, (int64_t)a->values[i]);
    else dtype_store_float(t, at, a->values[i]);
  }
  return a;
}

static void check(const Types *t, const char *target, int warps, int k, bool a_along, bool b_along) {
  enum { M = 64, N = 32 };
  char what[160];
  snprintf(what, sizeof what, "%s of %d k's, a %s, b %s, %s, %d warps%s", dtype_name(t->in), k,
           a_along ? "along" : "across", b_along ? "along" : "across", target, warps, t->x3 ? ", tf32x3" : "");
  DotCase c = dot_case(text, target, warps, 3);
  int row = k < 16 ? 16 : k;
  const DotArg *a = whole_numbers(&c, t->in, M * row), *b = whole_numbers(&c, t->in, N * row);
  DotArg *out = dot_array(&c, DT_F64, M * N);
  out->spec.dtype = t->out;
  int strides[] = {k, a_along ? row : 1, a_along ? 1 : M, b_along ? 1 : N, b_along ? row : 1};
  for (int i = 0; i < 5; i++) dot_int(&c, strides[i]);
  dot_const(&c, M), dot_const(&c, N), dot_const(&c, t->block), dot_const(&c, t->x3);
  LaneSimFault fault;
  dot_compile(&c);
  if (!dot_simulate(&c, 1, &fault)) fail_msg("%s: %s", what, fault.message);
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      const char *at = (char *)out->data + (i * N + j) * dtype_bytes(t->out);
      double want = 0, got = t->out == DT_I32 ? *(const int32_t *)(const void *)at : dtype_load_float(t->out, at);
      for (int p = 0; p < k; p++)
        want += a->values[a_along ? i * row + p : p * M + i] * b->values[b_along ? j * row + p : p * N + j];
      if (got != want) fail_msg("%s: %g at %d, %d instead of %g", what, got, i, j, want);
    }
  DotCount n = dot_count(&c);
  bool small = dtype_bits(t->in) == 8, widened = small && t->in != DT_I8 && !strcmp(target, "sm_80"),
       warpgroups = !strcmp(target, "sm_90a") && warps == 4 && t->in != DT_F64 && !t->x3 &&
                    (dtype_bits(t->in) != 32 || b_along), /* of f32, threads load a where it lies across */
      tmem = !strcmp(target, "sm_100a") && warps == 4 && t->in != DT_F64 && !t->x3 &&
             (dtype_bits(t->in) == 16 || (a_along && b_along));
  if ((n.wgmma > 0) != warpgroups || (n.tmem > 0) != tmem || (n.mma > 0) == (warpgroups || tmem))
    fail_msg("%s: %d products of warpgroups, %d to tensor memory, %d of warps", what, n.wgmma, n.tmem, n.mma);
  bool copied = !widened && (!small || a_along || b_along || warpgroups); /* threads copy what they turn */
  if ((n.copies[0] > 0) != copied) fail_msg("%s: %d copies", what, n.copies[0]);
  dot_free(&c);
}

static void loops_of_every_type(void **state) {
  static const char *const targets[] = {"sm_80", "sm_89", "sm_90a", "sm_100a"};
  static const int lengths[] = {0, 16, 144, 224};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (int target = 0; target < 4; target++)
      for (int ways = 0; ways < 4; ways++)
        for (int i = 0; i < 4; i++) {
          if (types[t].in == DT_F8E4NV && target == 0) continue; /* Triton refuses it there */
          check(&types[t], targets[target], i & 1 ? 4 : 2, lengths[i], ways & 1, ways & 2);
        }
}

/* ---- long sums of f32: errors neither grow with k nor have a sign ---- */

typedef struct Errors {
  double mean, most; /* of each sum of products from 1 to 4, beside itself */
} Errors;

static Errors errors_of(const char *target, int precision, int M, int N, const char *left_out) {
  enum { K = 512 };
  const char *wrong;
  int64_t without = gpu_without(left_out, &wrong);
  bool wgmma = M * N == 128 * 64 && !without && !strcmp(target, "sm_90a");
  DotCase c = dot_case(text, target, 4, 3);
  DotArg *in[] = {dot_array(&c, DT_F32, M * K), dot_array(&c, DT_F32, N * K)};
  uint64_t seed = 3;
  for (int n = 0; n < 2; n++)
    for (int i = 0; i < in[n]->count; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      dot_store(in[n], i, 1 + (double)(seed >> 41) * 0x1p-23);
    }
  const DotArg *out = dot_array(&c, DT_F32, M * N);
  dot_int(&c, K), dot_int(&c, K), dot_int(&c, 1), dot_int(&c, N), dot_int(&c, 1);
  dot_const(&c, M), dot_const(&c, N), dot_const(&c, 32), dot_const(&c, precision);
  c.without = without;
  dot_run(&c, target);
  assert_true((dot_count(&c).mma > 0) == (precision == 1 && !wgmma));
  assert_true((dot_count(&c).wgmma > 0) == wgmma);
  Errors e = {0};
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double want = 0;
      for (int k = 0; k < K; k++) want += in[0]->values[i * K + k] * in[1]->values[k * N + j];
      double error = out->values[i * N + j] / want - 1;
      e.mean += error / (M * N);
      e.most = fmax(e.most, fabs(error));
    }
  dot_free(&c);
  return e;
}

static void long_sums(void **state) {
  static const char *const targets[] = {"sm_80", "sm_90a"};
  for (int precision = 1; precision <= 2; precision++)
    for (int target = 0; target < 2; target++) {
      Errors sum = errors_of(targets[target], precision, 64, 32, ""),
             chain = errors_of(targets[target], precision, 64, 32, "short_sums");
      if (fabs(sum.mean) > 0x1p-25 || sum.most > 0x1p-21 || chain.most < 1.5 * sum.most)
        fail_msg("%s, %s: %g in the mean, %g at most; in one chain %g", targets[target],
                 precision == 2 ? "ieee" : "tf32x3", sum.mean, sum.most, chain.most);
    }
}

/* Large tiles of f32 in three products of warpgroups (gpu/split_dots.c). */
static void sums_in_three_products(void **state) {
  Errors split = errors_of("sm_90a", 1, 128, 64, ""), whole = errors_of("sm_90a", 1, 128, 64, "split_dots");
  if (fabs(split.mean) > 0x1p-22 || split.most > 0x1p-21)
    fail_msg("%g in the mean, %g at most; by mma %g", split.mean, split.most, whole.most);
}

/* Whichever way operands lie, made by copies or by arithmetic, with warps that copy or without: numbers of two pieces
 * times numbers of one, so that sums are exact. */
static const char pieces[] =
    HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, K, sam, sak, sbk, sbn, M: tl.constexpr, N: tl.constexpr, "
         "BK: tl.constexpr, MADE: tl.constexpr):\n"
         "    m = tl.arange(0, M)\n"
         "    n = tl.arange(0, N)\n"
         "    k = tl.arange(0, BK)\n"
         "    acc = tl.zeros([M, N], tl.float32)\n"
         "    for i in range(0, K, BK):\n"
         "        at = i + k\n"
         "        a = tl.load(a_ptr + m[:, None] * sam + at[None, :] * sak, mask=at[None, :] < K, other=0.0)\n"
         "        b = tl.load(b_ptr + at[:, None] * sbk + n[None, :] * sbn, mask=at[:, None] < K, other=0.0)\n"
         "        acc = tl.dot(-a if MADE & 1 else a, tl.abs(b) if MADE & 2 else b, acc, input_precision='tf32x3')\n"
         "    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)\n";

typedef struct Way {
  int m, n, block, warps;
  bool a_along, b_along, specialize;
  int made, fine; /* fine: which operand has numbers of two pieces */
} Way;

static void check_pieces(const Way *w) {
  enum { K = 80 };
  DotCase c = dot_case(pieces, "sm_90a", w->warps, 3);
  DotArg *in[] = {dot_array(&c, DT_F32, w->m * K), dot_array(&c, DT_F32, w->n * K)};
  for (int i = 0; i < in[w->fine]->count; i++)
    dot_store(in[w->fine], i, ((double)((unsigned)i * 2654435761u % 8191) - 4095) / 1024);
  const DotArg *out = dot_array(&c, DT_F32, w->m * w->n);
  int strides[] = {K, w->a_along ? K : 1, w->a_along ? 1 : w->m, w->b_along ? 1 : w->n, w->b_along ? K : 1};
  for (int i = 0; i < 5; i++) dot_int(&c, strides[i]);
  dot_const(&c, w->m), dot_const(&c, w->n), dot_const(&c, w->block), dot_const(&c, w->made);
  c.specialize = w->specialize;
  char what[120];
  snprintf(what, sizeof what, "%d x %d x %d, %d warps, a %s, b %s, made %d, fine %d%s", w->m, w->n, w->block, w->warps,
           w->a_along ? "along" : "across", w->b_along ? "along" : "across", w->made, w->fine,
           w->specialize ? ", specialized" : "");
  dot_run(&c, what);
  if (!dot_count(&c).wgmma || dot_count(&c).mma) fail_msg("%s: not by warpgroups", what);
  bool copied = w->warps == 8 && !w->made && (w->a_along || w->b_along); /* two warpgroups, tiles as they lie */
  if (!w->specialize && (c.lane->num_warps > w->warps) != copied) fail_msg("%s: %d warps", what, c.lane->num_warps);
  for (int i = 0; i < w->m * w->n; i++) {
    double want = 0;
    for (int k = 0; k < K; k++) {
      double a = in[0]->values[w->a_along ? i / w->n * K + k : k * w->m + i / w->n],
             b = in[1]->values[w->b_along ? i % w->n * K + k : k * w->n + i % w->n];
      want += (w->made & 1 ? -a : a) * (w->made & 2 ? fabs(b) : b);
    }
    if (out->values[i] != want) fail_msg("%s: %g, not %g at %d", what, out->values[i], want, i);
  }
  dot_free(&c);
}

static void pieces_of_every_way(void **state) {
  static const int shapes[][4] = {{128, 64, 32, 4}, {64, 128, 32, 4}, {128, 128, 16, 8}, {64, 256, 16, 4}};
  for (int shape = 0; shape < 4; shape++)
    for (int i = 0; i < 64; i++) {
      const int *s = shapes[shape];
      check_pieces(&(Way){s[0], s[1], s[2], s[3], i & 1, i & 2, i & 4, i >> 3 & 3, i >> 5 & 1});
    }
}

/* What is no number, or infinite, is so as in one product; an infinity meets rests of both signs, and none. */
static void infinities_in_three_products(void **state) {
  enum { M = 128, N = 64, K = 32 };
  DotCase c = dot_case(text, "sm_90a", 4, 3);
  DotArg *a = dot_array(&c, DT_F32, M * K), *b = dot_array(&c, DT_F32, N * K);
  const double odd[] = {1, -1, 0, 1 + 0x1p-20, -1 - 0x1p-12, 3, -0.1f, 0x1p100};
  for (int i = 0; i < a->count; i++) dot_store(a, i, odd[i * 7 % 8]);
  for (int i = 0; i < b->count; i++) dot_store(b, i, odd[(i * 5 + i / N) % 8]);
  dot_store(a, 3 * K + 5, INFINITY), dot_store(a, 20 * K, -INFINITY), dot_store(a, 90 * K + 31, NAN);
  dot_store(b, 7 * N + 9, -INFINITY), dot_store(b, 30 * N + 60, INFINITY);
  const DotArg *out = dot_array(&c, DT_F32, M * N);
  dot_int(&c, K), dot_int(&c, K), dot_int(&c, 1), dot_int(&c, N), dot_int(&c, 1);
  dot_const(&c, M), dot_const(&c, N), dot_const(&c, 32), dot_const(&c, 1);
  dot_run(&c, "infinities");
  assert_true(dot_count(&c).wgmma > 0);
  int infinite = 0;
  for (int i = 0; i < M * N; i++) {
    double want = 0, got = out->values[i];
    for (int k = 0; k < K; k++) want += a->values[i / N * K + k] * b->values[k * N + i % N];
    want = fabs(want) > FLT_MAX ? copysign(INFINITY, want) : want;
    infinite += isinf(want);
    if (isnan(want) ? !isnan(got) : isinf(want) ? got != want : !isfinite(got))
      fail_msg("%d: %g, not %g", i, got, want);
  }
  assert_true(infinite > 100);
  dot_free(&c);
}

/* ---- products that passes leave in flight, and the layout gives to single warps after all ---- */

static const char both[] = HEAD "@triton.jit\ndef k(a_ptr, b_ptr, d_ptr, out_ptr, K, FIRST: tl.constexpr):\n"
                                "    m = tl.arange(0, 64)\n"
                                "    k = tl.arange(0, 32)\n"
                                "    acc = tl.zeros([64, 64], tl.float32)\n"
                                "    for i in range(0, K, 32):\n"
                                "        a = tl.load(a_ptr + m[:, None] * K + (i + k)[None, :])\n"
                                "        b = tl.load(b_ptr + (i + k)[:, None] + m[None, :] * K)\n"  /* along k */
                                "        d = tl.load(d_ptr + (i + k)[:, None] * 64 + m[None, :])\n" /* across */
                                "        s = tl.dot(a, b if FIRST else d)\n"
                                "        s = tl.dot(a, d, s)\n"
                                "        acc += s * 2\n"
                                "    tl.store(out_ptr + m[:, None] * 64 + m[None, :], acc)\n";

static void left_to_single_warps(void **state) {
  enum { M = 64, K = 64 };
  const char *wrong;
  for (int first = 0; first < 2; first++) {
    DotCase c = dot_case(both, "sm_90a", 4, 1);
    const DotArg *a = dot_array(&c, DT_F32, M * K), *b = dot_array(&c, DT_F32, M * K),
                 *d = dot_array(&c, DT_F32, M * K), *out = dot_array(&c, DT_F32, M * M);
    dot_int(&c, K), dot_const(&c, first);
    c.without = gpu_without("turned_operands", &wrong);
    dot_run(&c, first ? "one of each" : "both");
    assert_true(dot_count(&c).mma > 0 && (dot_count(&c).wgmma > 0) == first);
    for (int i = 0; i < M * M; i++) {
      double want = 0;
      for (int k = 0; k < K; k++)
        want += 2 * a->values[i / M * K + k] *
                (d->values[k * M + i % M] + (first ? b->values[i % M * K + k] : d->values[k * M + i % M]));
      if (out->values[i] != want) fail_msg("%d: %g, not %g at %d", first, out->values[i], want, i);
    }
    dot_free(&c);
  }
}

/* ---- products of f32 that was made of something narrow (gpu/narrow_dots.c) ---- */

static const char widened[] =
    HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, K, BK: tl.constexpr, IEEE: tl.constexpr):\n"
         "    m = tl.arange(0, 64)\n"
         "    k = tl.arange(0, BK)\n"
         "    acc = tl.zeros([64, 64], tl.float32)\n"
         "    for i in range(0, K, BK):\n"
         "        inside = (i + k)[None, :] < K\n"
         "        a = tl.load(a_ptr + m[:, None] * K + (i + k)[None, :], mask=inside, other=0.0).to(tl.float32)\n"
         "        b = tl.load(b_ptr + m[:, None] * K + (i + k)[None, :], mask=inside, other=0.0).to(tl.float32)\n"
         "        b = tl.where(inside & (m[:, None] > 2), b, 0.0).T\n"
         "        acc += tl.dot(a, b, input_precision='ieee' if IEEE else 'tf32')\n"
         "    tl.store(out_ptr + m[:, None] * 64 + m[None, :], acc)\n";

typedef struct Widened {
  Dtype a, b;
  int block, ieee;
  bool narrow; /* whether it is multiplied as what it was */
} Widened;

static int widened_products(const Widened *w, const char *target, int warps, const char *without) {
  enum { M = 64, K = 80 };
  const char *wrong;
  DotCase c = dot_case(widened, target, warps, 3);
  const DotArg *a = whole_numbers(&c, w->a, M * K), *b = whole_numbers(&c, w->b, M * K),
               *out = dot_array(&c, DT_F32, M * M);
  dot_int(&c, K), dot_const(&c, w->block), dot_const(&c, w->ieee);
  c.without = gpu_without(without, &wrong);
  dot_run(&c, target);
  for (int i = 0; i < M * M; i++) {
    double want = 0;
    for (int k = 0; k < K && i % M > 2; k++) want += a->values[i / M * K + k] * b->values[i % M * K + k];
    if (out->values[i] != want)
      fail_msg("%s times %s: %g, not %g at %d", dtype_name(w->a), dtype_name(w->b), out->values[i], want, i);
  }
  DotCount n = dot_count(&c);
  dot_free(&c);
  return n.mma + n.wgmma;
}

static void narrow_operands(void **state) {
  static const Widened cases[] = {
      {DT_BF16, DT_BF16, 32, 0, true}, {DT_F16, DT_F16, 32, 0, true},    {DT_I8, DT_BF16, 32, 0, true},
      {DT_F8E5, DT_F8E5, 32, 0, true}, {DT_F16, DT_I8, 16, 0, true},     {DT_F16, DT_BF16, 32, 0, false},
      {DT_F32, DT_BF16, 32, 0, false}, {DT_BF16, DT_BF16, 32, 1, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int way = 0; way < 3; way++) {
      const Widened *w = &cases[i];
      const char *target = way ? "sm_90a" : "sm_80";
      int warps = way == 1 ? 2 : 4, narrow = widened_products(w, target, warps, ""),
          wide = widened_products(w, target, warps, "narrow_dots");
      if (w->narrow ? narrow * 2 != wide : narrow != wide)
        fail_msg("%s times %s, blocks of %d, %s, %d warps: %d products, %d as f32", dtype_name(w->a), dtype_name(w->b),
                 w->block, target, warps, narrow, wide);
    }
}

/* ---- chains of products that are cut to tf32: what a tolerance counts ---- */

static const char chains[] =
    HEAD "@triton.jit\ndef k(x_ptr, out_ptr, K, KIND: tl.constexpr):\n"
         "    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]\n"
         "    x = tl.load(x_ptr + at)\n"
         "    y = tl.zeros([16, 16], tl.float32)\n"
         "    z = y\n"
         "    if KIND == 1:\n" /* two that meet in no operand */
         "        y = tl.dot(x, x) + tl.dot(x, x + 1)\n"
         "    elif KIND == 2:\n" /* attention: the accumulator adds none */
         "        for i in range(0, K):\n"
         "            y = tl.dot(tl.exp(tl.dot(x, x + i)), x, y)\n"
         "    elif KIND == 3:\n" /* what a loop carries is an operand of another product */
         "        for i in range(0, K):\n"
         "            z += tl.dot(x, y)\n"
         "            y = tl.dot(x, x + i, y)\n"
         "    elif KIND == 4:\n" /* only where a branch is taken */
         "        if K > 3:\n"
         "            y = tl.dot(tl.dot(x, x), tl.dot(x, x))\n"
         "        y = tl.dot(y, x)\n"
         "    elif KIND == 5:\n" /* powers: each iteration adds one */
         "        y = x\n"
         "        for i in range(0, K):\n"
         "            y = tl.dot(y, x)\n"
         "    elif KIND == 6:\n"
         "        y = tl.dot(tl.dot(x, x, input_precision='ieee'), x, input_precision='ieee')\n"
         "    tl.store(out_ptr + at, y + z)\n";

/* ---- a fence waits for all that threads have asked of memory: only warpgroups need it ---- */

static void count_fences(LaneOp *op, void *arg) { *(int *)arg += op->code == LANE_FENCE_PROXY; }

static void fences_for_warpgroups_alone(void **state) {
  for (int groups = 0; groups < 2; groups++) {
    int fences = 0;
    DotCase c = dot_case(groups ? both : chains, "sm_90a", 4, 1);
    for (int i = 0; i < (groups ? 4 : 2); i++) dot_array(&c, DT_F32, 64 * 64);
    dot_int(&c, 64), dot_const(&c, groups ? 1 : 2);
    dot_compile(&c);
    lane_walk(c.lane->body, count_fences, &fences);
    assert_true((dot_count(&c).wgmma > 0) == groups && (fences > 0) == groups);
    dot_free(&c);
  }
}

static int chain_of(int kind, int64_t without) {
  DotCase c = dot_case(chains, "sm_90a", 4, 3);
  dot_array(&c, DT_F32, 256), dot_array(&c, DT_F32, 256);
  dot_int(&c, 4), dot_const(&c, kind);
  c.without = without;
  dot_compile(&c);
  int chain = gpu_tf32_chain(c.compiled->func, &(GpuOptions){.target = gpu_target_find("sm_90a"), .without = without});
  dot_free(&c);
  return chain;
}

static void chains_of_products(void **state) {
  static const int want[] = {0, 1, 2, 2, 3, 8, 0};
  const char *wrong;
  for (int kind = 0; kind < 7; kind++) assert_int_equal(chain_of(kind, 0), want[kind]);
  assert_int_equal(chain_of(2, gpu_without("tensor_cores", &wrong)), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(loops_of_every_type),
                                     cmocka_unit_test(long_sums),
                                     cmocka_unit_test(sums_in_three_products),
                                     cmocka_unit_test(pieces_of_every_way),
                                     cmocka_unit_test(infinities_in_three_products),
                                     cmocka_unit_test(narrow_operands),
                                     cmocka_unit_test(left_to_single_warps),
                                     cmocka_unit_test(fences_for_warpgroups_alone),
                                     cmocka_unit_test(chains_of_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
