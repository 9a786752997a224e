/* How far the accesses of kernels in the Triton language reach, in bytes from where each argument points, for some
 * numbers and a grid: what a launch computes before it takes arrays to lie apart. */
#include "test_front_kit.h"
#include "tile/analysis/reach.h"

enum { MOST_ARGS = 24 };

/* Of the arguments that are integers, by their names' first letter; all are specialized as numbers that nobody knows.
 */
typedef struct Numbers {
  int64_t n, m, s;
  int32_t grid[3];
} Numbers;

static ArgSpec argument(const char *name) {
  if (!strcmp(name, "B")) return (ArgSpec){.kind = ARG_CONSTEXPR, .text = "16"};
  if (*name == 'n' || *name == 'm' || *name == 's')
    return (ArgSpec){.kind = ARG_INT, .has_value = true, .int_value = 777};
  return (ArgSpec){.kind = ARG_POINTER, .dtype = DT_I32, .aligned = true};
}

static void show(Buf *out, NdSpan s) {
  if (nd_span_none(s)) buf_puts(out, " -");
  else if (s.lo == INT64_MIN && s.hi == INT64_MAX) buf_puts(out, " any");
  else buf_printf(out, " %lld:%lld", (long long)s.lo, (long long)s.hi);
}

static void describe(Buf *out, const Func *f, const Numbers *of) {
  Reach *r = reach_create(f->cx->arena, f, provenance_create(f->cx->arena, f));
  int count, through[MOST_ARGS][2];
  uint64_t args[MOST_ARGS] = {0};
  for (int i = 0; i < f->body->arg_count; i++) {
    const Value *v = f->body->args[i];
    int64_t n = *v->name == 'n' ? of->n : *v->name == 'm' ? of->m : of->s;
    if (v->type->ptr)
      for (int k = 0; k < 2; k++) through[i][k] = reach_through(r, i, k ? REACH_WRITES : REACH_READS);
    else scalar_store(v->type->dtype, &args[i], (Scalar){.i = n});
  }
  const SpanStep *steps = reach_steps(r, &count);
  NdSpan *done = NEW_N(f->cx->arena, NdSpan, count);
  span_run(steps, count, args, of->grid, done);
  for (int i = 0; i < f->body->arg_count; i++) {
    if (!f->body->args[i]->type->ptr) continue;
    buf_printf(out, "%s%s", out->n ? "; " : "", f->body->args[i]->name);
    for (int k = 0; k < 2; k++) show(out, done[through[i][k]]);
  }
}

static void reach(const char *text, Numbers of, const char *expected) {
  Context *cx = context_create();
  Buf messages = {0}, found = {0};
  if (context_try(cx)) {
    Module *m = front_load_text(cx, "k.py", text, strlen(text));
    Kernel *kernel = front_kernel_at(m, 0);
    ArgSpec args[MOST_ARGS];
    for (int i = 0; i < kernel_param_count(kernel); i++) args[i] = argument(kernel_param(kernel, i)->name);
    Compiled *c = front_compile(m, kernel, args, &(CompileOptions){0});
    tile_optimize(c->func, NULL, NULL, true);
    describe(&found, c->func, &of);
    context_end_try(cx);
  } else {
    diags_print(&messages, cx, false);
    fail_msg("%s", messages.at);
  }
  assert_string_equal(found.at ? found.at : "", expected);
  buf_destroy(&found);
  context_destroy(cx);
}

#define K HEAD "@triton.jit\ndef k"

static void masks(void **state) {
  const char *copy = K "(x, o, n, B: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n"
                       "    tl.store(o + i, tl.load(x + i, mask=i < n), mask=(i < n) & (i >= 2))\n";
  reach(copy, (Numbers){.n = 30, .grid = {2, 1, 1}}, "x 0:119 -; o - 8:119");
  reach(copy, (Numbers){.n = 300, .grid = {2, 1, 1}}, "x 0:127 -; o - 8:127"); /* the grid ends before */
  reach(copy, (Numbers){.n = 0, .grid = {2, 1, 1}}, "x - -; o - -");
  reach(copy, (Numbers){.n = -5, .grid = {2, 1, 1}}, "x - -; o - -");
  reach(K "(x, o, n, B: tl.constexpr):\n    i = tl.program_id(1) * B + tl.arange(0, B)\n    tl.store(o + i, tl.load(x "
          "+ i))\n",
        (Numbers){.grid = {5, 3, 1}}, "x 0:191 -; o - 0:191");
  /* What a mask says of rows, it does not say of columns. */
  reach(K "(x, o, n, m, B: tl.constexpr):\n    i = tl.arange(0, B)\n    at = i[:, None] * 16 + i[None, :]\n"
          "    tl.store(o + at, tl.load(x + at, mask=i[None, :] < n), mask=(i[:, None] < m) & (i[None, :] < n))\n",
        (Numbers){.n = 2, .m = 3, .grid = {1, 1, 1}}, "x 0:967 -; o - 0:135");
}

static void strides(void **state) {
  const char *rows = K "(x, o, n, s, B: tl.constexpr):\n    i = tl.arange(0, B)\n    row = tl.program_id(0)\n"
                       "    tl.store(o + row * 16 + i, tl.load(x + row * s + i, mask=i < n))\n";
  reach(rows, (Numbers){.n = 9, .s = 100, .grid = {4, 1, 1}}, "x 0:1235 -; o - 0:255");
  reach(rows, (Numbers){.n = 9, .s = -100, .grid = {4, 1, 1}}, "x -1200:35 -; o - 0:255");
  reach(rows, (Numbers){.n = 9, .s = 0, .grid = {4, 1, 1}}, "x 0:35 -; o - 0:255");
  /* 3 * 2^30 wraps in 32 bits: it may be anything of them. */
  reach(rows, (Numbers){.n = 9, .s = 1 << 30, .grid = {4, 1, 1}}, "x -8589934592:12884901923 -; o - 0:255");
}

static void remainders(void **state) {
  reach(K "(x, o, n, m, B: tl.constexpr):\n    p = tl.program_id(0)\n    i = p * B + tl.arange(0, B)\n"
          "    tl.store(o + (p // m) * B + i % n, tl.load(x + i % n))\n",
        (Numbers){.n = 20, .m = 3, .grid = {7, 1, 1}}, "x 0:79 -; o - 0:207");
  /* By what may be zero: the number itself. */
  reach(K "(x, o, n, m, B: tl.constexpr):\n    p = tl.program_id(0)\n    tl.store(o + p // (m - p), tl.load(x + p % (m "
          "- p)))\n",
        (Numbers){.m = 3, .grid = {7, 1, 1}}, "x 0:27 -; o - -24:27");
}

static void loops(void **state) {
  reach(K "(x, o, n, s, B: tl.constexpr):\n    i = tl.arange(0, B)\n    p = x + i\n"
          "    for t in range(2, n, 3):\n        tl.store(o + t * s + i, tl.load(p))\n        p += s\n",
        (Numbers){.n = 10, .s = 50, .grid = {1, 1, 1}}, "x 0:463 -; o - 400:1663");
  reach(K "(x, o, n, s, B: tl.constexpr):\n    i = tl.arange(0, B)\n    p = x + i\n"
          "    for t in range(n, 0, -1):\n        tl.store(o + t, tl.sum(tl.load(p), 0))\n        p -= s\n",
        (Numbers){.n = 4, .s = 50, .grid = {1, 1, 1}}, "x -600:63 -; o - 4:19");
  /* Rows of n elements, in blocks of 16, to the end of the last one and no further. */
  const char *advancing = K "(x, o, n, m, s, B: tl.constexpr):\n    i = tl.arange(0, B)\n"
                            "    p = x + i[:, None] * s + i[None, :]\n    for k in range(0, n, B):\n"
                            "        v = tl.load(p, mask=(i[:, None] < m) & (i[None, :] < n - k))\n"
                            "        tl.store(o + k, tl.sum(v))\n        p += B\n";
  reach(advancing, (Numbers){.n = 20, .m = 3, .s = 24, .grid = {1, 1, 1}}, "x 0:271 -; o - 0:67");
  reach(advancing, (Numbers){.n = 20, .m = 3, .s = -24, .grid = {1, 1, 1}}, "x -192:127 -; o - 0:67");
  reach(advancing, (Numbers){.n = 20, .m = 0, .s = 24, .grid = {1, 1, 1}}, "x - -; o - 0:67");
  /* No iteration, and one whose number is data. */
  reach(K "(x, o, n, B: tl.constexpr):\n    for t in range(0, n):\n        tl.store(o + t, tl.load(x + t))\n",
        (Numbers){.n = 0, .grid = {1, 1, 1}}, "x - -; o - -");
  reach(K "(x, o, n, B: tl.constexpr):\n    for t in range(0, tl.load(x)):\n        tl.store(o + t, 1)\n",
        (Numbers){.n = 0, .grid = {1, 1, 1}}, "x 0:3 -; o - 0:8589934587");
}

static void descriptors(void **state) {
  const char *block = K "(x, o, n, m, s, B: tl.constexpr):\n"
                        "    p = tl.make_block_ptr(x, (n, m), (s, 1), (tl.program_id(0) * B, 0), (B, B), (1, 0))\n"
                        "    q = tl.make_block_ptr(o, (n, m), (s, 1), (tl.program_id(0) * B, 0), (B, B), (1, 0))\n"
                        "    for t in range(0, m, B):\n        v = tl.load(p, boundary_check=(0, 1))\n"
                        "        tl.store(q, v, boundary_check=(0, 1))\n        p = tl.advance(p, (0, B))\n"
                        "        q = tl.advance(q, (0, B))\n";
  reach(block, (Numbers){.n = 20, .m = 40, .s = 40, .grid = {2, 1, 1}}, "x 0:3199 -; o - 0:3199");
  const char *descriptor = K "(x, o, n, m, s, B: tl.constexpr):\n"
                             "    d = tl.make_tensor_descriptor(x, [n, m], [s, 1], [B, B])\n"
                             "    e = tl.make_tensor_descriptor(o, [n, m], [s, 1], [B, B])\n"
                             "    r = tl.program_id(0) * B\n    for t in range(0, m, B):\n"
                             "        e.store([r, t], d.load([r, t]))\n";
  reach(descriptor, (Numbers){.n = 20, .m = 40, .s = 40, .grid = {2, 1, 1}}, "x 0:3199 -; o - 0:3199");
}

static void unknown(void **state) {
  reach(
      K
      "(x, y, o, n, B: tl.constexpr):\n    i = tl.arange(0, B)\n    at = tl.load(y + i).to(tl.int64) * tl.load(y + i)\n"
      "    tl.store(o + (tl.load(y + i) & 63), tl.load(x + at))\n",
      (Numbers){.grid = {1, 1, 1}}, "x any -; y 0:63 -; o - 0:255");
  /* A pointer out of memory may be to each of them; so may one of two. */
  reach(K "(x, y, o, n, B: tl.constexpr):\n    i = tl.arange(0, B)\n    p = tl.where(n > 3, x, y)\n    tl.store(o + i, "
          "tl.load(p + i))\n",
        (Numbers){.n = 1, .grid = {1, 1, 1}}, "x any -; y any -; o - 0:63");
  reach(K "(x, o, n, B: tl.constexpr):\n    tl.atomic_add(o + tl.program_id(0), tl.load(x))\n",
        (Numbers){.grid = {9, 1, 1}}, "x 0:3 -; o 0:35 0:35");
}

static void same(NdSpan a, NdSpan b) {
  if (nd_span_none(a) && nd_span_none(b)) return;
  assert_int_equal(a.lo, b.lo);
  assert_int_equal(a.hi, b.hi);
}

/* The steps that a constant operand makes simpler are the general ones with it. */
static void constant_operands(void **state) {
  const int64_t at[] = {INT64_MIN, INT64_MIN + 1, INT32_MIN, -7, -1, 0, 1, 5, INT32_MAX, INT64_MAX - 1, INT64_MAX};
  enum { N = sizeof at / sizeof *at };
  for (int i = 0; i < N * N * N; i++) {
    const NdSpan a = nd_span_of(at[i % N], at[i / N % N]);
    const int64_t n = at[i / N / N];
    if (n >= 0) same(nd_span_scale(a, n), nd_span_times(a, nd_span_of(n, n)));
    if (n < INT64_MAX) same(nd_span_count(n, a), nd_span_loop(nd_span_of(n, n), a, nd_span_of(1, 1)));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constant_operands), cmocka_unit_test(masks), cmocka_unit_test(strides),
      cmocka_unit_test(remainders),        cmocka_unit_test(loops), cmocka_unit_test(descriptors),
      cmocka_unit_test(unknown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
