/* Arguments of one launch that overlap, on the simulated GPU: loops that store have their loads ahead where the launch
 * shows the arrays to lie apart, and no barriers where their iterations touch different memory; every place of the
 * arrays, and rows that run into each other, give what the interpreter gives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <nereid.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROOM = 12000, MIDDLE = 4000 };

static const char source[] =
    "import triton\nimport triton.language as tl\n\n"
    "@triton.jit\ndef recurrence(x, y, o, n, B: tl.constexpr):\n"
    "    i = tl.arange(0, B)\n    h = tl.zeros([B], dtype=tl.float32)\n    for t in range(n):\n"
    "        h = h * 0.5 + tl.load(x + t * B + i) - tl.load(y + t * B + i)\n        tl.store(o + t * B + i, h)\n\n"
    "@triton.jit\ndef branch(x, y, o, n, B: tl.constexpr):\n"
    "    i = tl.arange(0, B)\n    h = tl.zeros([B], dtype=tl.float32)\n    for t in range(n):\n"
    "        v = tl.load(x + t * B + i)\n        h = h * 0.5 + v\n        if t % 3 == n % 3:\n"
    "            tl.store(o + t * B + i, h)\n        else:\n            h += 1\n"
    "            tl.store(o + t * B + (B - 1 - i), h, mask=i < t * 16)\n\n"
    "@triton.jit\ndef rows(x, y, o, n, B: tl.constexpr):\n"
    "    i = tl.arange(0, B)\n    for t in range(n):\n        v = tl.load(x + t * B + i) + tl.load(y + t)\n"
    "        tl.store(o + t * B + i, v - tl.sum(v, 0))\n\n"
    "@triton.jit\ndef backwards(x, y, o, n, B: tl.constexpr):\n"
    "    i = tl.arange(0, B)\n    h = tl.zeros([B], dtype=tl.float32)\n    p = x + (n - 1) * B + i\n    q = o + (n - "
    "1) * B + i\n"
    "    for t in range(n):\n        h = h * 0.25 + tl.load(p) + tl.load(y)\n        tl.store(q, h)\n        p -= B\n  "
    "      q -= B\n\n"
    "@triton.jit\ndef scaled(x, y, o, n, B: tl.constexpr):\n"
    "    i = tl.arange(0, B)\n    for t in range(n):\n"
    "        tl.store(o + t * B + i, tl.load(x + t * B + i) * tl.load(y + t))\n\n"
    "@triton.jit\ndef strided(x, y, o, n, B: tl.constexpr):\n" /* n < 5: each row runs into the next one */
    "    i = tl.arange(0, B)\n    for t in range(n):\n"
    "        tl.store(o + t * (n * 8) + i, tl.load(x + t * B + i), mask=i < 40)\n\n"
    "@triton.jit\ndef products(x, y, o, n, B: tl.constexpr):\n"
    "    i = tl.arange(0, B)\n    at = i[:, None] * B + i[None, :]\n    h = tl.zeros([B, B], dtype=tl.float32)\n"
    "    for t in range(n):\n        a = tl.load(x + t * B * B + at)\n        b = tl.load(y + t * B * B + at)\n"
    "        h = tl.dot(a, b, h)\n        tl.store(o + t * B * B + at, h * 0.125)\n";

typedef struct Devices {
  nereid_device *sim, *interp;
  nereid_module *module;
  float *memory, *own; /* the interpreter's and the simulator's */
} Devices;

static int setup(void **state) {
  static Devices d;
  nereid_error *error = NULL;
  assert_int_equal(nereid_device_open("sim", &d.sim, &error), NEREID_OK);
  assert_int_equal(nereid_device_open("interp", &d.interp, &error), NEREID_OK);
  assert_int_equal(nereid_module_load_string("k.py", source, &d.module, &error), NEREID_OK);
  assert_int_equal(nereid_alloc(d.interp, ROOM * 4, (void **)&d.memory, &error), NEREID_OK);
  assert_int_equal(nereid_alloc(d.sim, ROOM * 4, (void **)&d.own, &error), NEREID_OK);
  *state = &d;
  return 0;
}

static int teardown(void **state) {
  Devices *d = *state;
  nereid_free(d->interp, d->memory);
  nereid_free(d->sim, d->own);
  nereid_module_free(d->module);
  nereid_device_close(d->sim);
  nereid_device_close(d->interp);
  return 0;
}

static void launch(nereid_device *d, nereid_module *m, const char *kernel, float *at, int y, int o, int n, int block,
                   const char *without) {
  nereid_error *error = NULL;
  nereid_arg args[] = {nereid_pointer(at, NEREID_F32), nereid_pointer(at + y, NEREID_F32),
                       nereid_pointer(at + o, NEREID_F32), nereid_int(n), nereid_constexpr_int(block)};
  const nereid_options options = {.num_warps = 2, .without = without};
  if (nereid_launch(d, NULL, m, kernel, (int64_t[]){1, 1, 1}, args, 5, &options, &error))
    fail_msg("%s: %s", kernel, nereid_error_text(error));
}

/* x in the middle of one array, y and o so far from it. The interpreter rounds no operand of a product to tf32, so
 * these are compared with what runs without `apart`. */
static void check(Devices *d, const char *kernel, int y, int o, int n, int block) {
  const bool product = !strcmp(kernel, "products");
  nereid_device *other = product ? d->sim : d->interp;
  float *memory = product ? d->own : d->memory;
  nereid_error *error = NULL;
  float *start = malloc(ROOM * 4), *want = malloc(ROOM * 4), *got = malloc(ROOM * 4);
  assert_non_null(start);
  assert_non_null(want);
  assert_non_null(got);
  for (int i = 0; i < ROOM; i++) start[i] = (float)((uint32_t)i * 2654435761u >> 28) - 8; /* sums of these are exact */
  assert_int_equal(nereid_copy_to_device(other, memory, start, ROOM * 4, &error), NEREID_OK);
  launch(other, d->module, kernel, memory + MIDDLE, y, o, n, block, product ? "apart" : NULL);
  assert_int_equal(nereid_copy_to_host(other, want, memory, ROOM * 4, &error), NEREID_OK);
  assert_int_equal(nereid_copy_to_device(d->sim, d->own, start, ROOM * 4, &error), NEREID_OK);
  launch(d->sim, d->module, kernel, d->own + MIDDLE, y, o, n, block, NULL);
  assert_int_equal(nereid_copy_to_host(d->sim, got, d->own, ROOM * 4, &error), NEREID_OK);
  for (int i = 0; i < ROOM; i++)
    if (got[i] != want[i] && (got[i] == got[i] || want[i] == want[i]))
      fail_msg("%s, y %d, o %d, n %d: element %d is %g, not %g", kernel, y, o, n, i - MIDDLE, (double)got[i],
               (double)want[i]);
  free(start);
  free(want);
  free(got);
}

/* Element i of a tile is never element j of another: that two arguments are shifted views of one array is not looked
 * for where they are accessed alike (lower/membar.c). */
static void places(void **state) {
  static const char *const kernels[] = {"recurrence", "rows", "backwards", "scaled"};
  static const int far[] = {0, 64, -64, 128, -128, 576, 640, -640, 1024, 3008, -3008};
  for (int k = 0; k < 4; k++)
    for (int i = 0; i < 11; i++) {
      check(*state, kernels[k], 2000, far[i], 10, 64);
      check(*state, kernels[k], far[i], 2000, 10, 64);
    }
}

/* Iterations that come in groups, and what is left of them. */
static void trips(void **state) {
  for (int n = 0; n < 20; n++) {
    check(*state, "recurrence", 2000, -3000, n, 64);
    check(*state, "branch", 2000, -3000, n, 64);
    check(*state, "scaled", 2000, -3000, n, 64);
    check(*state, "strided", 2000, -3000, n, 64);
  }
}

static void tiles(void **state) {
  static const int far[] = {0, 256, -256, 1024, 2304, -3000};
  for (int i = 0; i < 6; i++) check(*state, "products", 3000, far[i], 5, 16);
}

/* ---- rows that do not begin at 16 bytes --------------------------------------------------------------------------- */

static const char odd_source[] =
    "import triton\nimport triton.language as tl\n\n@triton.jit\n"
    "def odd(a, b, c, M, N, K, sa, sb, B: tl.constexpr):\n"
    "    m = tl.program_id(0) * B + tl.arange(0, B)\n    n = tl.program_id(1) * B + tl.arange(0, B)\n"
    "    k = tl.arange(0, B)\n    h = tl.zeros([B, B], dtype=tl.float32)\n    for t in range(0, K, B):\n"
    "        x = tl.load(a + m[:, None] * sa + t + k[None, :], mask=(m[:, None] < M) & (t + k[None, :] < K), other=0)\n"
    "        y = tl.load(b + (t + k)[:, None] * sb + n[None, :], mask=(t + k[:, None] < K) & (n[None, :] < N), "
    "other=0)\n"
    "        h = tl.dot(x, y, h)\n"
    "    tl.store(c + m[:, None] * N + n[None, :], h, mask=(m[:, None] < M) & (n[None, :] < N))\n";

enum { M = 150, N = 170, K = 37 };

static void odd(Devices *d, nereid_module *m, float *c, int sa, int sb, const char *without) {
  nereid_error *error = NULL;
  uint16_t *a = NULL, *b = NULL;
  float *out = NULL;
  assert_int_equal(nereid_alloc(d->sim, 2 * M * sa, (void **)&a, &error), NEREID_OK);
  assert_int_equal(nereid_alloc(d->sim, 2 * K * sb, (void **)&b, &error), NEREID_OK);
  assert_int_equal(nereid_alloc(d->sim, 4 * M * N, (void **)&out, &error), NEREID_OK);
  for (int i = 0; i < M * sa; i++) a[i] = (uint16_t)(0x3c00 + i * 37 % 1024); /* f16 from 1 to 2 */
  for (int i = 0; i < K * sb; i++) b[i] = (uint16_t)(0xbc00 + i * 53 % 1024);
  memset(out, 0xff, 4 * M * N);
  nereid_arg args[] = {nereid_pointer(a, NEREID_F16),
                       nereid_pointer(b, NEREID_F16),
                       nereid_pointer(out, NEREID_F32),
                       nereid_int(M),
                       nereid_int(N),
                       nereid_int(K),
                       nereid_int(sa),
                       nereid_int(sb),
                       nereid_constexpr_int(32)};
  const nereid_options options = {.num_warps = 4, .without = without};
  if (nereid_launch(d->sim, NULL, m, "odd", (int64_t[]){5, 6, 1}, args, 9, &options, &error))
    fail_msg("%s", nereid_error_text(error));
  assert_int_equal(nereid_copy_to_host(d->sim, c, out, 4 * M * N, &error), NEREID_OK);
  nereid_free(d->sim, a);
  nereid_free(d->sim, b);
  nereid_free(d->sim, out);
}

/* By copies with rows of 16 bytes, and by loads of single elements: to the bit the same. */
static void odd_rows(void **state) {
  static float got[M * N], want[M * N];
  static const int strides[][2] = {{K, N}, {40, 171}, {K + 2, 176}, {40, 176}};
  nereid_error *error = NULL;
  nereid_module *m;
  assert_int_equal(nereid_module_load_string("odd.py", odd_source, &m, &error), NEREID_OK);
  for (int i = 0; i < 4; i++) {
    odd(*state, m, got, strides[i][0], strides[i][1], NULL);
    odd(*state, m, want, strides[i][0], strides[i][1], "tensor_maps");
    assert_memory_equal(got, want, sizeof got);
  }
  nereid_module_free(m);
}

/* ---- which kernel runs ------------------------------------------------------------------------------------------- */

static char *inspected(Devices *d, const char *kernel, const char *stage, const char *without) {
  nereid_error *error = NULL;
  char *text = NULL;
  nereid_arg args[] = {nereid_pointer(d->own, NEREID_F32), nereid_pointer(d->own, NEREID_F32),
                       nereid_pointer(d->own, NEREID_F32), nereid_int(10),
                       nereid_constexpr_int(!strcmp(kernel, "products") ? 16 : 64)};
  const nereid_options options = {.num_warps = 2, .without = without};
  if (nereid_inspect(d->module, kernel, args, 5, &options, stage, "sm_90a", &text, &error))
    fail_msg("%s", nereid_error_text(error));
  return text;
}

static int times(const char *text, const char *what) {
  int n = 0;
  for (const char *s = text; (s = strstr(s, what)); s++) n++;
  return n;
}

/* Loads ahead of the loop say that they run ahead. */
static void are_ahead(void **state) {
  static const char *const kernels[] = {"recurrence", "rows", "backwards", "products"};
  for (int k = 0; k < 4; k++) {
    char *with = inspected(*state, kernels[k], "layout", NULL),
         *plain = inspected(*state, kernels[k], "layout", "apart");
    assert_int_equal(times(with, "\n  apart "), 2);
    assert_int_equal(times(plain, "\n  apart "), 0);
    const char *load = k == 3 ? " ring_copy " : " = load ";
    assert_true(times(with, load) > times(plain, load));
    free(with);
    free(plain);
  }
}

/* Where a launch shows that iterations touch different memory, no barrier orders them. */
static void are_free(void **state) {
  static const struct {
    const char *kernel, *without;
  } cases[] = {{"scaled", "apart"}, {"strided", "apart"}, {"strided", "tensor_maps"}};
  for (int k = 0; k < 3; k++) {
    char *with = inspected(*state, cases[k].kernel, "lane", NULL),
         *plain = inspected(*state, cases[k].kernel, "lane", cases[k].without);
    assert_int_equal(times(with, "barrier"), 0);
    assert_true(times(plain, "barrier") > 0);
    free(with);
    free(plain);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(places),   cmocka_unit_test(trips),     cmocka_unit_test(tiles),
      cmocka_unit_test(odd_rows), cmocka_unit_test(are_ahead), cmocka_unit_test(are_free),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
