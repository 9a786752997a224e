/* Sums and maxima of whole tiles that loops carry (gpu/lane_sums.c): each thread carries its own, so that iterations
 * neither shuffle nor meet, and the numbers are those of float64. */
#include "unit/gpu/test_dot_kit.h"

#include <math.h>

enum { N = 1000, B = 256, ROWS = 3 };

/* Loops in the kernel, and exchanges in their bodies. */
typedef struct Seen {
  int loops, exchanges, depth;
} Seen;

static void look(Seen *s, const LaneBlock *b) {
  for (const LaneOp *op = b->first; op; op = op->next) {
    bool loop = op->code == LANE_FOR || op->code == LANE_WHILE;
    s->loops += loop;
    s->exchanges += s->depth && (op->code == LANE_SHFL || op->code == LANE_BARRIER);
    s->depth += loop;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) look(s, op->body[i]);
    s->depth -= loop;
  }
}

static Seen seen_in(const DotCase *c) {
  Seen s = {0};
  look(&s, c->lane->body);
  return s;
}

/* One loop: a sum from 3, one of f16, a maximum from -1, a minimum, an integer's sum. */
static const char one_loop[] = HEAD
    "@triton.jit\ndef k(x_ptr, h_ptr, i_ptr, out_ptr, n, B: tl.constexpr):\n    s = 3.0\n    h = 0.0\n    m = -1.0\n"
    "    low = 50.0\n    count = 0\n"
    "    for i in range(0, n, B):\n        at = i + tl.arange(0, B)\n"
    "        x = tl.load(x_ptr + at, mask=at < n, other=0.0)\n"
    "        s += tl.sum(x)\n        h += tl.sum(tl.load(h_ptr + at, mask=at < n, other=0.0).to(tl.float32) * x)\n"
    "        m = tl.maximum(m, tl.max(x))\n        low = tl.minimum(tl.min(x), low)\n"
    "        count += tl.sum(tl.load(i_ptr + at, mask=at < n, other=0))\n"
    "    tl.store(out_ptr, s)\n    tl.store(out_ptr + 1, h)\n    tl.store(out_ptr + 2, m)\n"
    "    tl.store(out_ptr + 3, low)\n    tl.store(out_ptr + 4, count)\n";

static void sums_and_maxima(void **state) {
  static const int sizes[] = {0, 1, 200, 256, N};
  for (int k = 0; k < 4 * 5; k++) {
    int n = sizes[k / 4];
    DotCase c = dot_case(one_loop, k % 4 < 2 ? "sm_90a" : "sm_80", 1 << k % 4, 3);
    DotArg *x = dot_array(&c, DT_F32, N), *h = dot_array(&c, DT_F16, N), *ints = dot_array(&c, DT_I32, N),
           *out = dot_array(&c, DT_F32, 5);
    dot_int(&c, n), dot_const(&c, B);
    double want[5] = {3, 0, -1, 50, 0};
    for (int i = 0; i < N; i++) ((int32_t *)ints->data)[i] = i * 37 % 101 - 20;
    for (int i = 0; i < n; i++) {
      want[0] += x->values[i], want[1] += x->values[i] * h->values[i], want[4] += i * 37 % 101 - 20;
      want[2] = fmax(want[2], x->values[i]), want[3] = fmin(want[3], x->values[i]);
    }
    if (n % B) want[2] = fmax(want[2], 0), want[3] = fmin(want[3], 0);
    dot_run(&c, "sums and maxima");
    Seen s = seen_in(&c);
    if ((n > 1 && !s.loops) || s.exchanges) fail_msg("%d loops, %d exchanges in them", s.loops, s.exchanges);
    for (int i = 0; i < 5; i++)
      if (fabs(out->values[i] - want[i]) > 1e-4 * (1 + fabs(want[i])))
        fail_msg("n %d, %d warps, %d: %g, not %g", n, c.warps, i, out->values[i], want[i]);
    dot_free(&c);
  }
}

/* Loops in loops: rows' own sums are exchanged once a row, the sum of all once. A number that an iteration takes is
 * exchanged there. */
static const char rows[] =
    HEAD "@triton.jit\ndef k(x_ptr, out_ptr, rows, n, B: tl.constexpr, TAKES: tl.constexpr):\n    all = 1.0\n"
         "    for r in range(rows):\n        own = 0.0\n        for i in range(0, n, B):\n"
         "            at = i + tl.arange(0, B)\n            x = tl.load(x_ptr + r * n + at, mask=at < n, other=0.0)\n"
         "            own += tl.sum(x)\n            all += tl.sum(x * x)\n"
         "            if TAKES:\n                tl.store(out_ptr + 10, own)\n        tl.store(out_ptr + r, own)\n"
         "    tl.store(out_ptr + rows, all)\n";

static void loops_in_loops(void **state) {
  for (int takes = 0; takes < 2; takes++) {
    DotCase c = dot_case(rows, "sm_90a", 4, 3);
    DotArg *x = dot_array(&c, DT_F32, ROWS * N), *out = dot_array(&c, DT_F32, 16);
    dot_int(&c, ROWS), dot_int(&c, N), dot_const(&c, B), dot_const(&c, takes);
    dot_run(&c, "loops in loops");
    Seen s = seen_in(&c);
    int shuffles = 5 + 2; /* lanes, then warps, of one row's sum */
    bool once = s.exchanges > 0 && s.exchanges <= shuffles + 3;
    if (once != !takes) fail_msg("%s: %d exchanges in loops", takes ? "taken" : "not taken", s.exchanges);
    double all = 1;
    for (int r = 0; r < ROWS; r++) {
      double own = 0;
      for (int i = 0; i < N; i++) own += x->values[r * N + i], all += x->values[r * N + i] * x->values[r * N + i];
      if (fabs(out->values[r] - own) > 1e-3 * (1 + fabs(own))) fail_msg("row %d: %g, not %g", r, out->values[r], own);
    }
    if (fabs(out->values[ROWS] - all) > 1e-4 * all) fail_msg("%g, not %g", out->values[ROWS], all);
    dot_free(&c);
  }
}

/* Of -0.0 alone a sum is -0.0, unless it begins with +0.0: a number that is loaded, either zero, an outer loop's. */
static const char zeros[] = HEAD
    "@triton.jit\ndef k(x_ptr, out_ptr, n, B: tl.constexpr):\n    a = tl.load(x_ptr)\n    b = -0.0\n    c = 0.0\n"
    "    d = tl.load(x_ptr)\n"
    "    for r in range(2):\n        for i in range(0, n, B):\n            x = tl.load(x_ptr + i + tl.arange(0, B))\n"
    "            a += tl.sum(x)\n            b += tl.sum(x)\n            c += tl.sum(x)\n        e = -0.0\n"
    "        for i in range(0, n, B):\n            e += tl.sum(tl.load(x_ptr + i + tl.arange(0, B)))\n"
    "        d += e\n"
    "    tl.store(out_ptr, a)\n    tl.store(out_ptr + 1, b)\n    tl.store(out_ptr + 2, c)\n    tl.store(out_ptr + 3, "
    "d)\n";

static void negative_zeros(void **state) {
  static const bool negative[] = {true, true, false, true};
  for (int n = 0; n <= 4 * B; n += 2 * B) {
    DotCase c = dot_case(zeros, "sm_90a", 4, 3);
    DotArg *x = dot_array(&c, DT_F32, 4 * B), *out = dot_array(&c, DT_F32, 4);
    for (int i = 0; i < 4 * B; i++) ((float *)x->data)[i] = x->values[i] = -0.0F;
    dot_int(&c, n), dot_const(&c, B);
    dot_run(&c, "negative zeros");
    for (int i = 0; i < 4; i++)
      if (out->values[i] != 0 || !signbit(out->values[i]) == negative[i])
        fail_msg("n %d, %d: %g, not %s", n, i, out->values[i], negative[i] ? "-0" : "0");
    dot_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_and_maxima), cmocka_unit_test(loops_in_loops),
                                     cmocka_unit_test(negative_zeros)};
  return cmocka_run_group_tests_name("lane sums", tests, NULL, NULL);
}
