/* What the tests of asynchronous copies share: loops of matmul kind, products of f32 that lie across, and attention
 * with its gradients, each with what float64 says of it. */
#ifndef TEST_ASYNC_KIT_H
#define TEST_ASYNC_KIT_H
#include "unit/gpu/test_dot_kit.h"

#include <math.h>

enum { TARGETS = 3 };
static const char *const targets[TARGETS] = {"sm_90a", "sm_80", "sm_100a"};

#define TILES \
  "    m = tl.arange(0, M)\n" \
  "    n = tl.arange(0, N)\n" \
  "    k = tl.arange(0, BK)\n" \
  "    acc = tl.zeros([M, N], tl.float32)\n"
#define STORE "    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)\n"
#define PARAMS "a_ptr, b_ptr, out_ptr, lo, hi, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, SA: tl.constexpr"

/* One kernel of matmul kind: out[M, N] = the sum over i of a[:, at(i)] times b[at(i), :], BK columns of a at a time,
 * whose rows are SA long. */
typedef struct Loop {
  const char *name, *text;
  int (*block)(int64_t i, int64_t lo, int64_t hi, int bk, int *columns); /* which block iteration i takes; columns of
                                                                            it that count */
  int64_t (*step)(int bk);
  bool down, wide;
} Loop;

static inline int by_start(int64_t i, int64_t lo, int64_t hi, int bk, int *columns) {
  *columns = hi - i < bk ? (int)(hi - i) : bk;
  return (int)((i - lo) / bk);
}

static inline int by_number(int64_t i, int64_t lo, int64_t hi, int bk, int *columns) {
  *columns = bk;
  return (int)(i - lo);
}

static inline int by_remainder(int64_t i, int64_t lo, int64_t hi, int bk, int *columns) {
  *columns = bk;
  return (int)(i - hi - 1);
}

static inline int64_t block_step(int bk) { return bk; }
static inline int64_t one_step(int bk) { return 1; }
static inline int64_t three_step(int bk) { return 3; }
static inline int64_t down_step(int bk) { return -1; }

static const Loop pointers = {"pointers that advance",
                              HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES
                                   "    a = a_ptr + m[:, None] * SA + k[None, :]\n"
                                   "    b = b_ptr + k[:, None] * N + n[None, :]\n"
                                   "    for i in range(lo, hi, BK):\n"
                                   "        acc = tl.dot(tl.load(a, mask=k[None, :] < hi - i, other=0.0), "
                                   "tl.load(b, mask=k[:, None] < hi - i, other=0.0), acc)\n"
                                   "        a += BK\n"
                                   "        b += BK * N\n" STORE,
                              by_start,
                              block_step,
                              false,
                              false};

static const Loop indices = {
    "indices made of the loop's variable",
    HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi, BK):\n"
         "        at = i - lo + k\n"
         "        acc += tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :], mask=at[None, :] < hi - lo, other=0.0), "
         "tl.load(b_ptr + at[:, None] * N + n[None, :], mask=at[:, None] < hi - lo, other=0.0))\n" STORE,
    by_start,
    block_step,
    false,
    false};

static const Loop transposed = {"b's tile transposed",
                                HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi):\n"
                                     "        at = (i - lo) * BK + k\n"
                                     "        b = tl.load(b_ptr + at[:, None] * N + n[None, :])\n"
                                     "        a = tl.load(a_ptr + m[:, None] * SA + at[None, :])\n"
                                     "        acc += tl.trans(tl.dot(tl.trans(b), tl.trans(a)))\n" STORE,
                                by_number,
                                one_step,
                                false,
                                false};

static const Loop stepped = {"every third block",
                             HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi, 3):\n"
                                  "        at = (i - lo) * BK + k\n"
                                  "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                  "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                             by_number,
                             three_step,
                             false,
                             false};

static const Loop down = {"downwards",
                          HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi, -1):\n"
                               "        at = (i - hi - 1) * BK + k\n"
                               "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                               "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                          by_remainder,
                          down_step,
                          true,
                          false};

static const Loop computed = {"b's tile computed",
                              HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi):\n"
                                   "        at = (i - lo) * BK + k\n"
                                   "        b = tl.load(b_ptr + at[:, None] * N + n[None, :])\n"
                                   "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), b * 2, acc)\n"
                                   "    acc = acc * 0.5\n" STORE,
                              by_number,
                              one_step,
                              false,
                              false};

/* Both tiles go through arithmetic, with a row of numbers; each thread copies what it reads. */
static const Loop scaled = {"tiles and rows computed",
                            HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi):\n"
                                 "        at = (i - lo) * BK + k\n"
                                 "        two = tl.load(b_ptr + at * N) * 0 + 2\n"
                                 "        a = tl.load(a_ptr + m[:, None] * SA + at[None, :]) * 2\n"
                                 "        b = tl.load(b_ptr + at[:, None] * N + n[None, :]) * two[:, None]\n"
                                 "        acc = tl.dot(a, b, acc)\n"
                                 "    acc = acc * 0.25\n" STORE,
                            by_number,
                            one_step,
                            false,
                            false};

static const Loop hinted = {"num_stages of the loop",
                            HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES
                                 "    for i in tl.range(lo, hi, num_stages=4):\n"
                                 "        at = (i - lo) * BK + k\n"
                                 "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                 "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                            by_number,
                            one_step,
                            false,
                            false};

/* A branch in the loop that has nothing to do with the tiles; a reduction, which has a body of its own, stands in it.
 */
static const Loop branching = {"a reduction in a branch",
                               HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    total = 0\n"
                                    "    for i in range(lo, hi):\n"
                                    "        at = (i - lo) * BK + k\n"
                                    "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                    "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n"
                                    "        if i % 2 == 0:\n"
                                    "            total += tl.sum(at)\n"
                                    "    acc = tl.where(total >= 0, acc, -1.0)\n" STORE,
                               by_number,
                               one_step,
                               false,
                               false};

/* Two loops, one after the other: the second takes the other half. */
static const Loop twice = {"two loops",
                           HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    half = (lo + hi) // 2\n"
                                "    for i in range(lo, half):\n"
                                "        at = (i - lo) * BK + k\n"
                                "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n"
                                "    for i in range(half, hi):\n"
                                "        at = (i - lo) * BK + k\n"
                                "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                           by_number,
                           one_step,
                           false,
                           false};

/* A loop inside another one, which stores what the inner one has so far. */
static const Loop nested = {"a loop inside another",
                            HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for half in range(2):\n"
                                 "        middle = (lo + hi) // 2\n"
                                 "        for i in range(lo + half * (middle - lo), middle + half * (hi - middle)):\n"
                                 "            at = (i - lo) * BK + k\n"
                                 "            acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                 "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n"
                                 "        tl.store(out_ptr + m[:, None] * N + n[None, :], acc)\n",
                            by_number,
                            one_step,
                            false,
                            false};

static const Loop wide = {"a variable of 64 bits",
                          HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi, BK):\n"
                               "        at = (i - lo) + k\n"
                               "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                               "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                          by_start,
                          block_step,
                          false,
                          true};

/* The same near the end of the type: the variable is not an index. */
static const Loop narrow = {"a variable of 32 bits",
                            HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi, BK):\n"
                                 "        at = (i - lo) + k\n"
                                 "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                 "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                            by_start,
                            block_step,
                            false,
                            false};

static const Loop wide_down = {"a variable of 64 bits, downwards",
                               HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    for i in range(lo, hi, -1):\n"
                                    "        at = (i - hi - 1) * BK + k\n"
                                    "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :]), "
                                    "tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE,
                               by_remainder,
                               down_step,
                               true,
                               true};

typedef struct Shape {
  int m, n, bk, row, warps; /* row: elements from one row of a to the next beyond what there is of them */
  Dtype type;
} Shape;

static const Shape usual = {64, 32, 32, 0, 4, DT_F16};

/* All warps copy and multiply. */
static inline DotCase whole_case(const char *text, const char *target, int warps, int stages) {
  DotCase c = dot_case(text, target, warps, stages);
  const char *wrong;
  c.without = gpu_without("specialize", &wrong);
  return c;
}

/* Runs the loop from lo to hi; returns what it is made of. */
static inline DotCount check_case(DotCase c, const Loop *l, const Shape *s, int64_t lo, int64_t hi, int stages,
                                  const char *target) {
  int blocks = 0;
  int64_t step = l->step(s->bk);
  __int128 i;
  for (i = lo; l->down ? i > hi : i < hi; i += step) {
    int columns, b = l->block((int64_t)i, lo, hi, s->bk, &columns);
    if (b >= blocks) blocks = b + 1;
  }
  int row = blocks * s->bk + s->row;
  DotArg *a = dot_array(&c, s->type, (int64_t)s->m * row), *b = dot_array(&c, s->type, (int64_t)blocks * s->bk * s->n),
         *out = dot_array(&c, DT_F32, s->m * s->n);
  (l->wide ? dot_i64 : dot_int)(&c, lo), (l->wide ? dot_i64 : dot_int)(&c, hi);
  dot_const(&c, s->m), dot_const(&c, s->n), dot_const(&c, s->bk), dot_const(&c, row);
  char what[160];
  snprintf(what, sizeof what, "%s, %lld to %lld, %d by %d by %d, rows of %d", l->name, (long long)lo, (long long)hi,
           s->m, s->n, s->bk, row);
  dot_run(&c, what);
  double *want = calloc((size_t)(s->m * s->n), sizeof *want);
  for (i = lo; l->down ? i > hi : i < hi; i += step) {
    int columns, at = l->block((int64_t)i, lo, hi, s->bk, &columns) * s->bk;
    for (int r = 0; r < s->m; r++)
      for (int x = 0; x < s->n; x++)
        for (int k = at; k < at + columns; k++) want[r * s->n + x] += a->values[r * row + k] * b->values[k * s->n + x];
  }
  for (int e = 0; e < s->m * s->n; e++)
    if (out->values[e] != want[e])
      fail_msg("%s, %d stages, %s: element %d is %g, not %g", what, stages, target, e, out->values[e], want[e]);
  free(want);
  DotCount n = dot_count(&c);
  dot_free(&c);
  return n;
}

static inline DotCount check_loop(const Loop *l, const Shape *s, int64_t lo, int64_t hi, int stages,
                                  const char *target) {
  return check_case(whole_case(l->text, target, s->warps, stages), l, s, lo, hi, stages, target);
}

/* ---- f32, the other way round ------------------------------------------------------------------------------------ */

/* A stored by columns, B stored by columns: what lies across is the other operand, both, or none. */
#define STORED(AT_A, AT_B) \
  HEAD "@triton.jit\ndef k(" PARAMS "):\n" TILES "    K = (hi - lo) * BK\n    for i in range(lo, hi):\n" \
       "        at = (i - lo) * BK + k\n" \
       "        acc = tl.dot(tl.load(a_ptr + " AT_A "), tl.load(b_ptr + " AT_B "), acc)\n" STORE

typedef struct Stored {
  const char *text;
  bool a_across, b_across;
} Stored;

static const Stored stored[] = {
    {STORED("m[:, None] * SA + at[None, :]", "at[:, None] * N + n[None, :]"), false, true},
    {STORED("at[None, :] * M + m[:, None]", "n[None, :] * SA + at[:, None]"), true, false},
    {STORED("m[:, None] * SA + at[None, :]", "n[None, :] * SA + at[:, None]"), false, false},
    {STORED("at[None, :] * M + m[:, None]", "at[:, None] * N + n[None, :]"), true, true},
};

static inline DotCase stored_case(const Stored *t, const Shape *s, int trips, int stages, const char *without) {
  DotCase c = dot_case(t->text, "sm_90a", s->warps, stages);
  const char *wrong;
  int row = trips * s->bk;
  c.without = gpu_without(without, &wrong);
  dot_array(&c, DT_F32, s->m * row), dot_array(&c, DT_F32, s->n * row), dot_array(&c, DT_F32, s->m * s->n);
  dot_int(&c, 0), dot_int(&c, trips);
  dot_const(&c, s->m), dot_const(&c, s->n), dot_const(&c, s->bk), dot_const(&c, row);
  return c;
}

static inline DotCount check_stored(const Stored *t, const Shape *s, int trips, const char *without) {
  DotCase c = stored_case(t, s, trips, 3, without);
  const DotArg *a = &c.args[0], *b = &c.args[1], *out = &c.args[2];
  char what[200];
  snprintf(what, sizeof what, "%d by %d by %d, %d warps, %d times, a %s, b %s, without %s", s->m, s->n, s->bk, s->warps,
           trips, t->a_across ? "across" : "along", t->b_across ? "across" : "along", without);
  dot_run(&c, what);
  int row = trips * s->bk;
  for (int i = 0; i < s->m; i++)
    for (int j = 0; j < s->n; j++) {
      double want = 0;
      for (int k = 0; k < row; k++)
        want +=
            a->values[t->a_across ? k * s->m + i : i * row + k] * b->values[t->b_across ? k * s->n + j : j * row + k];
      if (out->values[i * s->n + j] != want)
        fail_msg("%s: [%d, %d] is %g, not %g", what, i, j, out->values[i * s->n + j], want);
    }
  DotCount n = dot_count(&c);
  dot_free(&c);
  return n;
}

/* One operand across goes to warpgroups from registers, as the first, turned where it is the second; two do not. */
/* ---- attention --------------------------------------------------------------------------------------------------- */

enum { HEADS = 2 };

typedef struct Attention {
  int n, d, block_m, block_n, warps;
  Dtype type;
  bool causal;
  const char *target;
} Attention;

enum { Q, K, V, GRAD, OUT, LSE, DELTA, DQ, DK, DV, ARRAYS };

typedef struct Work {
  double *want[ARRAYS], *scale[ARRAYS]; /* scale: the sum of the absolute values of what is summed up for an element */
  DotArg arrays[ARRAYS];
} Work;

static const double softmax_scale = 0.25;

/* What float64 makes of one head's arrays; of each element, how much its sum adds up in absolute values. */
static inline void attention_reference(const Attention *c, Work *w, int head) {
  int n = c->n, d = c->d;
  size_t at = (size_t)(head * n * d);
  const double *q = w->arrays[Q].values + at, *k = w->arrays[K].values + at, *v = w->arrays[V].values + at,
               *g = w->arrays[GRAD].values + at;
  double *p = calloc((size_t)(n * n), sizeof *p);
  for (int i = 0; i < n; i++) {
    double top = -INFINITY, sum = 0;
    int end = c->causal ? i + 1 : n;
    for (int j = 0; j < end; j++) {
      double s = 0;
      for (int h = 0; h < d; h++) s += softmax_scale * q[i * d + h] * k[j * d + h];
      p[i * n + j] = s;
      top = fmax(top, s);
    }
    for (int j = 0; j < end; j++) sum += p[i * n + j] = exp(p[i * n + j] - top);
    for (int j = 0; j < end; j++) p[i * n + j] /= sum;
    w->want[LSE][head * n + i] = (top + log(sum)) / log(2);
    double delta = 0, size = 0;
    for (int h = 0; h < d; h++) {
      double *o = &w->want[OUT][at + (size_t)(i * d + h)], *z = &w->scale[OUT][at + (size_t)(i * d + h)];
      for (int j = 0; j < end; j++) *o += p[i * n + j] * v[j * d + h], *z += p[i * n + j] * fabs(v[j * d + h]);
      delta += *o * g[i * d + h], size += fabs(*o * g[i * d + h]);
    }
    w->want[DELTA][head * n + i] = delta, w->scale[DELTA][head * n + i] = size;
    for (int j = 0; j < end; j++) {
      double dp = 0;
      for (int h = 0; h < d; h++) dp += g[i * d + h] * v[j * d + h];
      double ds = p[i * n + j] * (dp - delta) * softmax_scale, most = p[i * n + j] * (fabs(dp) + size) * softmax_scale;
      for (int h = 0; h < d; h++) {
        size_t row = at + (size_t)(i * d + h), column = at + (size_t)(j * d + h);
        w->want[DQ][row] += ds * k[j * d + h], w->scale[DQ][row] += most * fabs(k[j * d + h]);
        w->want[DK][column] += ds * q[i * d + h], w->scale[DK][column] += most * fabs(q[i * d + h]);
        w->want[DV][column] += p[i * n + j] * g[i * d + h];
        w->scale[DV][column] += p[i * n + j] * fabs(g[i * d + h]);
      }
    }
  }
  free(p);
}

static inline void share_array(DotCase *c, const DotArg *from) { c->args[c->arg_count++] = *from; }

/* A case of a kernel of kernels/attention.py; the arrays stay the Work's. */
static inline DotCase attention_case(const Attention *a, const Work *w, const char *kernel, const int *arrays,
                                     int count) {
  DotCase c = {.file = "attention.py", .kernel = kernel, .target = a->target, .warps = a->warps, .stages = 3};
  for (int i = 0; i < count; i++) share_array(&c, &w->arrays[arrays[i]]);
  dot_int(&c, a->n);
  if (strcmp(kernel, "attention_delta")) dot_float(&c, softmax_scale);
  dot_const(&c, a->d), dot_const(&c, a->block_m);
  if (strcmp(kernel, "attention_delta")) dot_const(&c, a->block_n), dot_const(&c, a->causal);
  int block = strcmp(kernel, "attention_backward_kv") ? a->block_m : a->block_n;
  c.grid[0] = (a->n + block - 1) / block, c.grid[1] = HEADS, c.grid[2] = 1;
  return c;
}

static inline void close_case(DotCase *c) {
  c->arg_count = 0; /* the arrays are others' */
  dot_free(c);
}

static inline Work attention_work(const Attention *a) {
  Work w = {0};
  DotCase c = {0};
  for (int i = 0; i < ARRAYS; i++) {
    bool row = i == LSE || i == DELTA;
    int64_t n = (int64_t)HEADS * a->n * (row ? 1 : a->d);
    dot_array(&c, row ? DT_F32 : a->type, n);
    w.arrays[i] = c.args[i];
    w.want[i] = calloc((size_t)n, sizeof *w.want[i]), w.scale[i] = calloc((size_t)n, sizeof *w.scale[i]);
  }
  return w;
}

static inline void free_work(Work *w) {
  for (int i = 0; i < ARRAYS; i++)
    free(w->want[i]), free(w->scale[i]), free(w->arrays[i].memory), free(w->arrays[i].values);
}

/* Probabilities and their gradients are rounded to the arrays' type before they are multiplied, and results once: two
 * roundings of u each of what is summed up, and twice that of exp2's and f32's few; where numbers are too small for u,
 * half of the type's least one, times 2 at most. delta comes of the rounded out. */
static inline void check_array(const Attention *a, const Work *w, int which, const char *name) {
  double u = a->type == DT_F16 ? 0x1p-11 : 0x1p-8, least = a->type == DT_F16 ? 0x1p-24 : 0x1p-133;
  bool row = which == LSE || which == DELTA;
  for (int64_t i = 0; i < (int64_t)HEADS * a->n * (row ? 1 : a->d); i++) {
    double got = w->arrays[which].values[i], want = w->want[which][i],
           bound = which == LSE ? 1e-5 : 4 * u * w->scale[which][i] + u * fabs(want) + 4 * a->n * least;
    if (!(fabs(got - want) <= bound))
      fail_msg("%s, n %d, D %d, %s, %s: element %lld is %g, not %g +- %g", name, a->n, a->d,
               a->causal ? "causal" : "full", a->target, (long long)i, got, want, bound);
  }
}

static inline void run_attention(const Attention *a, Work *w, const char *kernel, const int *arrays, int count) {
  DotCase c = attention_case(a, w, kernel, arrays, count);
  dot_run(&c, kernel);
  DotCount n = dot_count(&c);
  if (strcmp(kernel, "attention_delta")) {
    assert_true(n.copies[16] > 0);
    int rows = strcmp(kernel, "attention_backward_kv") ? a->block_m : a->block_n;
    bool group = !strcmp(a->target, "sm_90a") && rows >= 64;
    if (!(group ? n.wgmma : n.mma)) fail_msg("%s, %s: %d wgmma, %d mma", kernel, a->target, n.wgmma, n.mma);
  }
  for (int i = 0; i < count; i++) w->arrays[arrays[i]] = c.args[i]; /* values were read back */
  close_case(&c);
}

static const int forward_arrays[] = {Q, K, V, OUT, LSE};

static inline void check_attention(const Attention *a) {
  Work w = attention_work(a);
  for (int h = 0; h < HEADS; h++) attention_reference(a, &w, h);
  run_attention(a, &w, "attention", forward_arrays, 5);
  check_array(a, &w, OUT, "out"), check_array(a, &w, LSE, "lse");
  run_attention(a, &w, "attention_delta", (int[]){OUT, GRAD, DELTA}, 3);
  check_array(a, &w, DELTA, "delta");
  run_attention(a, &w, "attention_backward_kv", (int[]){Q, K, V, GRAD, LSE, DELTA, DK, DV}, 8);
  check_array(a, &w, DK, "dk"), check_array(a, &w, DV, "dv");
  run_attention(a, &w, "attention_backward_q", (int[]){Q, K, V, GRAD, LSE, DELTA, DQ}, 7);
  check_array(a, &w, DQ, "dq");
  free_work(&w);
}

#endif
