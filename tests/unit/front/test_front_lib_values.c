/* Tests of what library functions compute: small kernels through the front end, run by the interpreter, against values
 * worked out here. Above all the functions that are written in Triton (prelude.py) and those that the front end lowers
 * to several operations: block pointers, descriptors, random numbers, argmax, dot_scaled, TorchInductor's helpers. */
#include "front/front.h"
#include "interp/interp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { N = 4096 };

/* A kernel(I, O, n): I points to floats (or whatever it is cast to), O to floats; n is an int. */
typedef struct Rig {
  float in[N], out[N];
  int64_t n;
  char error[600];
} Rig;

static Rig *rig_create(void) {
  Rig *r = calloc(1, sizeof *r);
  for (int i = 0; i < N; i++) r->out[i] = -77;
  return r;
}

static bool run(Rig *r, const char *body) {
  Context *cx = context_create();
  Buf text = {0};
  buf_puts(&text,
           "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\nfrom "
           "torch._inductor.runtime import triton_helpers\n"
           "@triton.jit\ndef _first(a, b):\n    return a\n"
           "@triton.jit\ndef _compose(a, b, c, d):\n    return a * c, b * c + d\n" /* x -> a x + b: associative, not
                                                                                      commutative */
           "@triton.jit\ndef _swap(a, b):\n    return b, a\n"
           "@triton.jit\ndef _clip(a):\n    if a > 2.0:\n        r = 2.0\n    else:\n        r = a\n    return r\n"
           "@triton.jit\ndef kernel(I, O, n):\n");
  buf_puts(&text, body);
  ArgSpec args[3] = {{.kind = ARG_POINTER, .dtype = DT_F32}, {.kind = ARG_POINTER, .dtype = DT_F32}, {.kind = ARG_INT}};
  CompileOptions o = {0};
  volatile bool ok = false;
  r->error[0] = 0;
  if (context_try(cx)) {
    Module *m = front_load_text(cx, "k.py", text.at, text.n);
    Compiled *c = front_compile(m, front_kernel(m, "kernel"), args, &o);
    tile_verify(c->func, "front");
    InterpMemory *memory = interp_memory_create();
    interp_memory_add(memory, r->in, sizeof r->in, "I");
    interp_memory_add(memory, r->out, sizeof r->out, "O");
    uint64_t slots[3] = {(uint64_t)(uintptr_t)r->in, (uint64_t)(uintptr_t)r->out, (uint64_t)r->n};
    InterpFault fault = {0};
    InterpOptions io = {0};
    ok = interp_run(c->func, memory, slots, (int32_t[3]){1, 1, 1}, &io, &fault);
    if (!ok) snprintf(r->error, sizeof r->error, "%s", fault.message);
    interp_memory_destroy(memory);
    context_end_try(cx);
  } else {
    Buf b = {0};
    diags_print(&b, cx, false);
    snprintf(r->error, sizeof r->error, "%s", b.at);
    buf_destroy(&b);
  }
  buf_destroy(&text);
  context_destroy(cx);
  return ok;
}

#define MUST_RUN(r, body) \
  do { \
    if (!run(r, body)) { \
      fprintf(stderr, "%s", (r)->error); \
      fail_msg("the kernel did not run"); \
    } \
  } while (0)

static void same_floats(const float *got, const float *want, int n) {
  for (int i = 0; i < n; i++)
    if (!(got[i] == want[i] || (isnan(got[i]) && isnan(want[i]))))
      fail_msg("element %d is %.9g, not %.9g", i, (double)got[i], (double)want[i]);
}
#define SAME(r, ...) \
  do { \
    const float want_[] = {__VA_ARGS__}; \
    same_floats((r)->out, want_, (int)(sizeof want_ / sizeof *want_)); \
  } while (0)

static void near_float(float got, double want, double tolerance) {
  if (!(fabs((double)got - want) <= tolerance)) fail_msg("%.9g is not near %.9g", (double)got, want);
}

/* ---- random numbers: Triton's own bits --------------------------------------------------------------------------- */

static void philox_has_tritons_bits(void **state) {
  static const struct {
    const char *seed, *offset;
    uint32_t bits[4];
    float uniform;
    double normal;
  } rows[] = {
      {"0", "0", {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}, 0.798092902f, 0.04655152},
      {"42", "1", {0xfcdb2127, 0x53ba6cfd, 0x838f5a6e, 0x744e06fb}, 0.024562696f, -1.542713},
      {"42", "4294967296", {0x42e0b8b3, 0x7dbf5de8, 0x2fe739d4, 0x6aaf03eb}, 0.522482872f, 1.132483},
      {"-1", "7", {0x6e20f2b1, 0xc1403a74, 0x90c17850, 0x5cf56484}, 0.860380411f, -0.5473835},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Rig *r = rig_create();
    char body[800];
    snprintf(body, sizeof body,
             "    off = tl.full((1,), %s, %s)\n    U = O.to(tl.pointer_type(tl.uint32))\n    z = tl.arange(0, 1)\n    "
             "a, b, c, d = tl.randint4x(%s, off)\n"
             "    tl.store(U + z, a)\n    tl.store(U + 1 + z, b)\n    tl.store(U + 2 + z, c)\n    tl.store(U + 3 + z, "
             "d)\n    tl.store(U + 4 + z, tl.randint(%s, off))\n"
             "    tl.store(O + 5 + z, tl.rand(%s, off))\n    tl.store(O + 6 + z, tl.randn(%s, off))\n    n0, n1, n2, "
             "n3 = tl.randn4x(%s, off)\n    tl.store(O + 7 + z, n0)\n",
             rows[i].offset, i == 2 ? "tl.int64" : "tl.int32", rows[i].seed, rows[i].seed, rows[i].seed, rows[i].seed,
             rows[i].seed);
    MUST_RUN(r, body);
    assert_memory_equal(r->out, rows[i].bits, 16);
    assert_memory_equal(&r->out[4], &rows[i].bits[0], 4);
    near_float(r->out[5], rows[i].uniform, 1e-8);
    near_float(r->out[6], rows[i].normal, 2e-6);
    assert_true(r->out[7] == r->out[6]);
    free(r);
  }
}

/* ---- reductions, scans, order ------------------------------------------------------------------------------------ */

static void reductions_skip_nan_and_break_ties_left(void **state) {
  Rig *r = rig_create();
  const float x[8] = {3, NAN, 7, -1, 7, NAN, -1, 0};
  memcpy(r->in, x, sizeof x);
  MUST_RUN(r, "    x = tl.load(I + tl.arange(0, 8))\n    tl.store(O, tl.max(x, 0))\n    tl.store(O + 1, tl.min(x, "
              "0))\n    tl.store(O + 2, tl.argmax(x, 0))\n    tl.store(O + 3, tl.argmin(x, 0))\n"
              "    v, i = tl.max(x, 0, return_indices=True)\n    tl.store(O + 4, v)\n    tl.store(O + 5, i)\n    y = "
              "tl.reshape(x, (2, 4))\n    j = tl.argmax(y, 1)\n    tl.store(O + 6 + tl.arange(0, 2), j)\n"
              "    tl.store(O + 8 + tl.arange(0, 4), tl.max(y, 0))\n    tl.store(O + 12, triton_helpers.max2(x, 0))\n  "
              "  tl.store(O + 13, tl.sum(x == x, 0))\n"
              "    w, k = triton_helpers.max_with_index(x, tl.arange(0, 8), 0)\n    tl.store(O + 14, w)\n    "
              "tl.store(O + 15, k)\n");
  SAME(r, 7, -1, 2, 3, 7, 2, 2, 0, 7, NAN, 7, 0, NAN, 6, NAN, 1);
  free(r);
}

static void scans_go_both_ways(void **state) {
  Rig *r = rig_create();
  for (int i = 0; i < 8; i++) r->in[i] = (float)(i + 1);
  MUST_RUN(r, "    a = tl.arange(0, 4)\n    x = tl.load(I + a)\n    tl.store(O + a, tl.cumsum(x))\n    tl.store(O + 4 "
              "+ a, tl.cumsum(x, reverse=True))\n    tl.store(O + 8 + a, tl.cumprod(x))\n"
              "    p, q = tl.associative_scan((x, x + 1), 0, _compose)\n    tl.store(O + 12 + a, q)\n    p, q = "
              "tl.associative_scan((x, x + 1), 0, _compose, reverse=True)\n    tl.store(O + 16 + a, q)\n");
  float want[20] = {1, 3, 6, 10, 10, 9, 7, 4, 1, 2, 6, 24};
  double b = 2; /* (a, b) then (c, d): b * c + d */
  want[12] = 2;
  for (int i = 1; i < 4; i++) want[12 + i] = (float)(b = b * (i + 1) + i + 2);
  b = 5;
  want[19] = 5;
  for (int i = 2; i >= 0; i--) want[16 + i] = (float)(b = b * (i + 1) + i + 2);
  same_floats(r->out, want, 20);
  free(r);
}

static void order_of_elements(void **state) {
  Rig *r = rig_create();
  const float x[8] = {3, 1, 7, -1, 5, 2, 6, 0};
  memcpy(r->in, x, sizeof x);
  MUST_RUN(
      r, "    a = tl.arange(0, 8)\n    q = tl.arange(0, 4)\n    x = tl.load(I + a)\n    tl.store(O + a, tl.sort(x))\n  "
         "  tl.store(O + 8 + q, tl.topk(x, 4))\n    tl.store(O + 12 + q, tl.flip(tl.topk(x, 4, descending=False), 0))\n"
         "    y = tl.flip(tl.reshape(x, (2, 4)), 0)\n    tl.store(O + 16 + a, tl.ravel(y))\n    tl.store(O + 24 + a, "
         "tl.interleave(tl.load(I + q), tl.load(I + 4 + q)))\n"
         "    v, i = triton_helpers.sort_with_index(x, a, None, 0, True, True)\n    tl.store(O + 32 + a, v)\n    "
         "tl.store(O + 40 + a, i)\n    h = tl.histogram(tl.arange(0, 8) // 3, 4)\n    tl.store(O + 48 + q, h)\n"
         "    lo, hi = tl.split(tl.reshape(x, (4, 2)))\n    tl.store(O + 52 + q, lo)\n    v, i = "
         "triton_helpers.sort_with_index(x, a, 5, 0, True, False)\n    tl.store(O + 56 + a, v)\n");
  SAME(r, -1, 0, 1, 2, 3, 5, 6, 7, 7, 6, 5, 3, 2, 1, 0, -1, 5, 2, 6, 0, 3, 1, 7, -1, 3, 5, 1, 2, 7, 6, -1, 0, 7, 6, 5,
       3, 2, 1, 0, -1, 2, 6, 4, 0, 5, 1, 7, 3, 3, 3, 2, 0, 3, 7, 5, 6, -1, 1, 3, 5, 7);
  free(r);
}

/* ---- block pointers and descriptors ------------------------------------------------------------------------------ */

/* A 5x6 matrix in rows of 8; windows of 4x4 that hang over each edge. */
static void windows_over_the_edges(void **state) {
  static const struct {
    int row, col;
    const char *check;
  } rows[] = {{0, 0, "(0, 1)"}, {3, 4, "(0, 1)"}, {-2, -1, "(0, 1)"}, {3, 1, "(0,)"},
              {1, 4, "(1,)"},   {1, 1, "()"},     {40, 40, "(0, 1)"}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    for (int kind = 0; kind < 3; kind++) { /* block pointer padded with zero, with nan; descriptor */
      if (kind == 2 && strcmp(rows[k].check, "(0, 1)")) continue;
      Rig *r = rig_create();
      for (int i = 0; i < N; i++) r->in[i] = (float)(100 + i);
      r->n = 5;
      char body[700];
      if (kind < 2)
        snprintf(
            body, sizeof body,
            "    p = tl.make_block_ptr(I + 200, (n, 6), (8, 1), (%d, 2), (4, 4), (1, 0))\n    p = tl.advance(p, (0, "
            "%d))\n    x = tl.load(p, boundary_check=%s, padding_option='%s')\n"
            "    a = tl.arange(0, 4)\n    tl.store(O + a[:, None] * 4 + a[None, :], x)\n    q = tl.make_block_ptr(O + "
            "200, (n, 6), (8, 1), (%d, %d), (4, 4), (1, 0))\n    tl.store(q, x, boundary_check=%s)\n",
            rows[k].row, rows[k].col - 2, rows[k].check, kind ? "nan" : "zero", rows[k].row, rows[k].col,
            rows[k].check);
      else
        snprintf(body, sizeof body,
                 "    d = tl.make_tensor_descriptor(I + 200, [n, 6], [8, 1], [4, 4])\n    x = d.load([%d, %d])\n    a "
                 "= tl.arange(0, 4)\n    tl.store(O + a[:, None] * 4 + a[None, :], x)\n"
                 "    e = tl.make_tensor_descriptor(O + 200, [n, 6], [8, 1], [4, 4])\n    e.store([%d, %d], x)\n",
                 rows[k].row, rows[k].col, rows[k].row, rows[k].col);
      MUST_RUN(r, body);
      bool check_rows = strchr(rows[k].check, '0'), check_cols = strchr(rows[k].check, '1');
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
          int y = rows[k].row + i, x = rows[k].col + j;
          bool inside = !(check_rows && (y < 0 || y >= 5)) && !(check_cols && (x < 0 || x >= 6));
          float want = inside ? (float)(100 + 200 + y * 8 + x) : kind == 1 ? NAN : 0;
          same_floats(&r->out[i * 4 + j], &want, 1);
          if (!inside) continue;
          assert_true(r->out[200 + y * 8 + x] == want);
          r->out[200 + y * 8 + x] = -77;
        }
      for (int i = 100; i < N; i++) assert_true(r->out[i] == -77); /* nothing else was written */
      free(r);
    }
  }
}

static void gather_and_scatter_rows(void **state) {
  Rig *r = rig_create();
  for (int i = 0; i < N; i++) r->in[i] = (float)i;
  MUST_RUN(r,
           "    d = tl.make_tensor_descriptor(I, [20, 16], [16, 1], [1, 8])\n    rows = (tl.arange(0, 8) * 3) % 21\n   "
           " x = d.gather(rows, 4)\n    a = tl.arange(0, 8)\n    tl.store(O + a[:, None] * 8 + a[None, :], x)\n"
           "    e = tl.make_tensor_descriptor(O + 1000, [20, 16], [16, 1], [1, 8])\n    e.scatter(x, rows, 12)\n    "
           "tl.store(O + 64 + a, tl.sum(x, 1))\n");
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++) {
      int row = i * 3 % 21;
      float want = row < 20 ? (float)(row * 16 + 4 + j) : 0;
      assert_true(r->out[i * 8 + j] == want);
      if (12 + j < 16 && i < 7)
        assert_true(r->out[1000 + row * 16 + 12 + j] == (row == 0 && i == 7 ? r->out[1000 + 12 + j] : want));
    }
  free(r);
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

static void integer_functions(void **state) {
  Rig *r = rig_create();
  MUST_RUN(
      r,
      "    a = tl.arange(0, 8) - 4\n    z = tl.arange(0, 8)\n    tl.store(O + z, triton_helpers.div_floor_integer(a, "
      "3))\n    tl.store(O + 8 + z, triton_helpers.remainder_integer(a, 3))\n    tl.store(O + 16 + z, a // 3)\n"
      "    tl.store(O + 24 + z, a % 3)\n    tl.store(O + 32 + z, tl.cdiv(z, 3))\n    h = tl.umulhi(a, a)\n    "
      "tl.store(O + 40 + z, h.to(tl.uint32))\n    tl.store(O + 48 + z, a >> 1)\n    tl.store(O + 56 + z, "
      "a.to(tl.uint32) >> 31)\n");
  SAME(r, -2, -1, -1, -1, 0, 0, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, -1, -1, 0, 0, 0, 0, 0, 1, -1, 0, -2, -1, 0, 1, 2, 0, 0, 1,
       1, 1, 2, 2, 2, 3, 4294967288.f, 4294967290.f, 4294967292.f, 4294967294.f, 0, 0, 0, 0, -2, -2, -1, -1, 0, 0, 1, 1,
       1, 1, 1, 1, 0, 0, 0, 0);
  free(r);
}

static void swizzle_walks_groups_by_columns(void **state) {
  Rig *r = rig_create();
  MUST_RUN(r, "    i = tl.arange(0, 4)[:, None]\n    j = tl.arange(0, 4)[None, :]\n    x, y = tl.swizzle2d(i, j, 4, 4, "
              "2)\n    tl.store(O + x * 4 + y, i * 4 + j)\n");
  SAME(r, 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  free(r);
}

static void float_functions(void **state) {
  Rig *r = rig_create();
  const float x[8] = {NAN, -3, 0.75f, 5, -0.0f, INFINITY, 1e-30f, 10};
  memcpy(r->in, x, sizeof x);
  MUST_RUN(r, "    z = tl.arange(0, 8)\n    x = tl.load(I + z)\n    tl.store(O + z, tl.clamp(x, -1.0, 4.0))\n    "
              "tl.store(O + 8 + z, tl.clamp(x, -1.0, 4.0, propagate_nan=tl.PropagateNan.ALL))\n    tl.store(O + 16 + "
              "z, tl.maximum(x, 1.0))\n"
              "    tl.store(O + 24 + z, triton_helpers.maximum(x, 1.0))\n    m, e = triton_helpers.frexp(x)\n    "
              "tl.store(O + 32 + z, tl.where(z == 3, m, 0.0))\n    tl.store(O + 40 + z, tl.where(z == 3, e, 0))\n"
              "    tl.store(O + 48 + z, tl.map_elementwise(_clip, x))\n    p, q = tl.map_elementwise(_swap, x, pack=2) "
              "if False else (x, x)\n");
  SAME(r, -1, -1, 0.75f, 4, 0, 4, 1e-30f, 4, NAN, -1, 0.75f, 4, 0, 4, 1e-30f, 4, 1, 1, 1, 5, 1, INFINITY, 1, 10, NAN, 1,
       1, 5, 1, INFINITY, 1, 10, 0, 0, 0, 0.625f, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, NAN, -3, 0.75f, 2, 0, 2, 1e-30f,
       2);
  free(r);
}

static void softmax_and_welford(void **state) {
  Rig *r = rig_create();
  double sum = 0, sq = 0, total = 0;
  for (int i = 0; i < 64; i++) {
    r->in[i] = (float)((i * 37 % 64) / 8.0 - 3);
    sum += r->in[i];
    total += exp(r->in[i]);
  }
  for (int i = 0; i < 64; i++) sq += (r->in[i] - sum / 64) * (r->in[i] - sum / 64);
  MUST_RUN(r, "    z = tl.arange(0, 64)\n    x = tl.load(I + z)\n    tl.store(O + z, tl.softmax(x))\n    one = "
              "tl.full((64,), 1.0, tl.float32)\n    mean, m2, w = triton_helpers.welford(x, one * 0, one, 0)\n"
              "    tl.store(O + 64, mean)\n    tl.store(O + 65, m2)\n    tl.store(O + 66, w)\n    top, s = "
              "triton_helpers.online_softmax_reduce(x, one, 0, False)\n    tl.store(O + 67, tl.log(s) + top)\n    "
              "tl.store(O + 68, tl.sum(tl.sigmoid(x)))\n");
  for (int i = 0; i < 64; i++) near_float(r->out[i], exp(r->in[i]) / total, 1e-6);
  near_float(r->out[64], sum / 64, 1e-5);
  near_float(r->out[65], sq, 1e-3);
  assert_true(r->out[66] == 64);
  near_float(r->out[67], log(total), 1e-5);
  free(r);
}

static void inductor_searches_and_picks(void **state) {
  Rig *r = rig_create();
  const float bounds[5] = {1, 2, 2, 5, 9}, values[8] = {0, 1, 1.5f, 2, 4, 5, 9, 10};
  memcpy(r->in, bounds, sizeof bounds);
  memcpy(r->in + 8, values, sizeof values);
  MUST_RUN(
      r, "    z = tl.arange(0, 8)\n    v = tl.load(I + 8 + z)\n    i = triton_helpers.bucketize_binary_search(v, I, 5, "
         "5, 1, 0, tl.int64, False)\n    j = triton_helpers.bucketize_binary_search(v, I, 5, 5, 1, 0, tl.int64, True)\n"
         "    tl.store(O + z, i)\n    tl.store(O + 8 + z, j)\n    tl.store(O + 16, triton_helpers.select_one(v, z == "
         "4, 0))\n    u = triton_helpers.randint64(7, z, 10, 20)\n    tl.store(O + 17, tl.min(u, 0))\n    tl.store(O + "
         "18, tl.max(u, 0))\n");
  SAME(r, 0, 0, 1, 1, 3, 3, 4, 5, 0, 1, 1, 3, 3, 4, 5, 5, 4);
  assert_true(r->out[17] >= 10 && r->out[18] < 20);
  free(r);
}

/* ---- dot_scaled -------------------------------------------------------------------------------------------------- */

static void scaled_products(void **state) {
  static const float e2m1[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -.5f, -1, -1.5f, -2, -3, -4, -6};
  enum { M = 4, K = 64, C = 8 };
  Rig *r = rig_create();
  uint8_t *bytes = (uint8_t *)r->in;
  uint8_t *a = bytes, *as = bytes + 1024, *b = bytes + 2048,
          *bs = bytes + 4096; /* a [M, K/2], as [M, K/32], b [K/2, C], bs [C, K/32] */
  for (int i = 0; i < M * K / 2; i++) a[i] = (uint8_t)(i * 89 + 13);
  for (int i = 0; i < M * K / 32; i++) as[i] = (uint8_t)(125 + i % 5);
  for (int i = 0; i < C * K / 2; i++) b[i] = (uint8_t)(i * 57 + 201);
  for (int i = 0; i < C * K / 32; i++) bs[i] = (uint8_t)(129 - i % 7);
  MUST_RUN(r,
           "    B = I.to(tl.pointer_type(tl.uint8))\n    m = tl.arange(0, 4)[:, None]\n    k = tl.arange(0, 32)\n    c "
           "= tl.arange(0, 8)\n    g = tl.arange(0, 2)[None, :]\n    a = tl.load(B + m * 32 + k[None, :])\n"
           "    sa = tl.load(B + 1024 + m * 2 + g)\n    b = tl.load(B + 2048 + k[:, None] * 8 + c[None, :])\n    sb = "
           "tl.load(B + 4096 + c[:, None] * 2 + g)\n"
           "    tl.store(O + m * 8 + c[None, :], tl.dot_scaled(a, sa, 'e2m1', b, sb, 'e2m1'))\n    tl.store(O + 32 + m "
           "* 8 + c[None, :], tl.dot_scaled(a, None, 'e2m1', b, sb, 'e2m1', acc=tl.full((4, 8), 1.0, tl.float32)))\n");
  for (int i = 0; i < M; i++)
    for (int j = 0; j < C; j++) {
      double scaled = 0, plain = 1;
      for (int k = 0; k < K; k++) {
        double x = e2m1[a[i * K / 2 + k / 2] >> (k % 2 * 4) & 15],
               y = e2m1[b[k / 2 * C + j] >> (k % 2 * 4) & 15] * exp2(bs[j * 2 + k / 32] - 127);
        scaled += x * exp2(as[i * 2 + k / 32] - 127) * y;
        plain += x * y;
      }
      near_float(r->out[i * C + j], scaled, 1e-3);
      near_float(r->out[32 + i * C + j], plain, 1e-3);
    }
  free(r);
}

static void masked_and_bool_memory(void **state) {
  Rig *r = rig_create();
  for (int i = 0; i < 8; i++) r->in[i] = (float)(i + 1);
  MUST_RUN(
      r, "    z = tl.arange(0, 8)\n    tl.store(O + z, tl.load(I + z, mask=z < 3))\n    tl.store(O + 8 + z, tl.load(I "
         "+ z, mask=z < 3, other=9))\n    B = (O + 100).to(tl.pointer_type(tl.int1))\n    tl.store(B + z, z * 0.5)\n"
         "    tl.store(O + 16 + z, tl.load(B + z))\n    tl.store(O + 24 + z, tl.load(B + z, mask=z < 4, other=1))\n    "
         "tl.store(O + 32 + z, tl.atomic_add(O + 40 + z * 0, 1.0, mask=z < 5) * 0)\n");
  SAME(r, 1, 2, 3, 0, 0, 0, 0, 0, 1, 2, 3, 9, 9, 9, 9, 9, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0,
       0, 0, 0, -72);
  free(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(philox_has_tritons_bits),
      cmocka_unit_test(reductions_skip_nan_and_break_ties_left),
      cmocka_unit_test(scans_go_both_ways),
      cmocka_unit_test(order_of_elements),
      cmocka_unit_test(windows_over_the_edges),
      cmocka_unit_test(gather_and_scatter_rows),
      cmocka_unit_test(integer_functions),
      cmocka_unit_test(swizzle_walks_groups_by_columns),
      cmocka_unit_test(float_functions),
      cmocka_unit_test(softmax_and_welford),
      cmocka_unit_test(inductor_searches_and_picks),
      cmocka_unit_test(scaled_products),
      cmocka_unit_test(masked_and_bool_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
