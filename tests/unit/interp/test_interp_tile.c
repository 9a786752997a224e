/* The interpreter's whole-tile operations: shapes, reductions, scans, maps, sort, histogram, gather, dot. */
#include "test_interp_kit.h"

#include <math.h>

/* A kernel that loads %x0 (and %x1, %x2) of the given types, runs `body`, and stores %r at %o. Types like "f32[8,4]".
 */
static char *kernel_of(const char *body, int n, const char *const *types, const char *result) {
  static char text[1 << 14];
  char *at = text;
  at += sprintf(at, "kernel @k(");
  const char *all[4];
  for (int i = 0; i <= n; i++) {
    all[i] = i < n ? types[i] : result;
    int elem = (int)strcspn(all[i], "[");
    at += sprintf(at, "%s%%p%d: *%.*s", i ? ", " : "", i, elem, all[i]);
  }
  at += sprintf(at, ") {\n");
  for (int i = 0; i <= n; i++) {
    const char *dims = all[i] + strcspn(all[i], "[");
    if (*dims) {
      int64_t numel = 1;
      for (const char *d = dims; *d; d++)
        if (*d == '[' || *d == ',') numel *= atoi(d + 1);
      at += sprintf(at, "%%l%d = arange {start=0, end=%d} : i32[%d]\n%%i%d = reshape %%l%d : i32%s\n", i, (int)numel,
                    (int)numel, i, i, dims);
      at +=
          sprintf(at, "%%s%d = splat %%p%d : *%s\n%%q%d = addptr %%s%d, %%i%d : *%s\n", i, i, all[i], i, i, i, all[i]);
    } else {
      at += sprintf(at, "%%q%d = hint %%p%d {kind=divisible, dims=[1]} : *%s\n", i, i, all[i]);
    }
    if (i < n) at += sprintf(at, "%%x%d = load %%q%d : %s\n", i, i, all[i]);
  }
  sprintf(at, "%s\nstore %%q%d, %%r\n}\n", body, n);
  return text;
}

/* Runs it; returns the result, which lives until the kit is closed. */
static void *run_of(Kit **kit, const char *body, int n, const char *const *types, const void *const *x,
                    const size_t *bytes, const char *result, size_t result_bytes) {
  Kit *k = *kit = kit_open(kernel_of(body, n, types, result));
  for (int i = 0; i < n; i++) kit_array(k, "x", bytes[i], x[i]);
  void *o = kit_array(k, "o", result_bytes, NULL);
  kit_succeeds(k);
  return o;
}

static void check1(const char *body, const char *type, const void *x, size_t bytes, const char *result,
                   const void *expected, size_t result_bytes) {
  Kit *k;
  void *o = run_of(&k, body, 1, (const char *[]){type}, (const void *[]){x}, (size_t[]){bytes}, result, result_bytes);
  assert_memory_equal(o, expected, result_bytes);
  kit_close(k);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static void shapes(void **state) {
  int32_t x[24], y[64];
  for (int i = 0; i < 24; i++) x[i] = i * 10;

  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 4; j++)
      for (int l = 0; l < 2; l++) y[i * 8 + j * 2 + l] = x[i * 2 + l];
  check1("%r = broadcast %x0 : i32[2,4,2]", "i32[2,1,2]", x, 16, "i32[2,4,2]", y, 64);
  for (int i = 0; i < 16; i++) y[i] = x[i / 8];
  check1("%r = broadcast %x0 : i32[2,8]", "i32[2,1]", x, 8, "i32[2,8]", y, 64);
  for (int i = 0; i < 16; i++) y[i] = x[i % 8];
  check1("%r = broadcast %x0 : i32[2,8]", "i32[1,8]", x, 32, "i32[2,8]", y, 64);
  for (int i = 0; i < 16; i++) y[i] = x[0];
  check1("%r = broadcast %x0 : i32[4,4]", "i32[1,1]", x, 4, "i32[4,4]", y, 64);
  check1("%r = splat %x0 : i32[4,4]", "i32", x, 4, "i32[4,4]", y, 64);

  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 2; j++) y[i * 2 + j] = x[j * 4 + i];
  check1("%r = trans %x0 {dims=[1,0]} : i32[4,2]", "i32[2,4]", x, 32, "i32[4,2]", y, 32);
  for (int a = 0; a < 4; a++)
    for (int b = 0; b < 2; b++)
      for (int c = 0; c < 2; c++) y[a * 4 + b * 2 + c] = x[b * 8 + c * 4 + a];
  check1("%r = trans %x0 {dims=[2,0,1]} : i32[4,2,2]", "i32[2,2,4]", x, 64, "i32[4,2,2]", y, 64);
  check1("%r = trans %x0 {dims=[0,2,1]} : i32[2,1,4]", "i32[2,4,1]", x, 32, "i32[2,1,4]", x, 32);
  check1("%r = reshape %x0 : i32[2,2,2]", "i32[8]", x, 32, "i32[2,2,2]", x, 32);
  check1("%a = expand_dims %x0 {axis=1} : i32[4,1]\n%r = reshape %a : i32[4]", "i32[4]", x, 16, "i32[4]", x, 16);
  check1("%a = expand_dims %x0 {axis=0} : i32[1]\n%r = reshape %a : i32", "i32", x, 4, "i32", x, 4);

  for (int i = 0; i < 4; i++) y[2 * i] = x[i], y[2 * i + 1] = -x[i];
  check1("%n = neg %x0 : i32[2,2]\n%r = join %x0, %n : i32[2,2,2]", "i32[2,2]", x, 16, "i32[2,2,2]", y, 32);
  for (int i = 0; i < 4; i++) y[i] = x[2 * i] - x[2 * i + 1] * 2;
  check1("%a, %b = split %x0 : i32[2,2], i32[2,2]\n%c = add %b, %b : i32[2,2]\n%r = sub %a, %c : i32[2,2]",
         "i32[2,2,2]", x, 32, "i32[2,2]", y, 16);
  y[0] = x[1];
  check1("%a, %r = split %x0 : i32, i32", "i32[2]", x, 8, "i32", y, 4);
  memcpy(y, ((int32_t[]){0, 10, 0, -10, 20, 30, -20, -30}), 32);
  check1("%n = neg %x0 : i32[2,2]\n%r = cat %x0, %n {axis=1} : i32[2,4]", "i32[2,2]", x, 16, "i32[2,4]", y, 32);
  memcpy(y, ((int32_t[]){0, 10, 20, 30, 0, -10, -20, -30}), 32);
  check1("%n = neg %x0 : i32[2,2]\n%r = cat %x0, %n {axis=0} : i32[4,2]", "i32[2,2]", x, 16, "i32[4,2]", y, 32);
  for (int i = 0; i < 8; i++) y[i] = 5 + i;
  check1("%a = arange {start=5, end=13} : i32[8]\n%z = sub %x0, %x0 : i32[8]\n%r = add %a, %z : i32[8]", "i32[8]", x,
         32, "i32[8]", y, 32);
  /* Narrow and wide elements go the same ways. */
  check1("%a = trans %x0 {dims=[1,0]} : i8[2,2]\n%b = join %a, %a : i8[2,2,2]\n%c, %d = split %b : i8[2,2], "
         "i8[2,2]\n%r = trans %d {dims=[1,0]} : i8[2,2]",
         "i8[2,2]", "\1\2\3\4", 4, "i8[2,2]", "\1\2\3\4", 4);
  check1("%a = trans %x0 {dims=[1,0]} : i64[2,2]\n%b = join %a, %a : i64[2,2,2]\n%c, %d = split %b : i64[2,2], "
         "i64[2,2]\n%r = trans %d {dims=[1,0]} : i64[2,2]",
         "i64[2,2]", x, 32, "i64[2,2]", x, 32);
  check1("%a = trans %x0 {dims=[1,0]} : f16[2,2]\n%b = join %a, %a : f16[2,2,2]\n%c, %d = split %b : f16[2,2], "
         "f16[2,2]\n%r = trans %d {dims=[1,0]} : f16[2,2]",
         "f16[2,2]", x, 8, "f16[2,2]", x, 8);
}

static void gather(void **state) {
  float src[4 * 8], expected[4 * 4];
  int8_t index[4 * 4];
  for (int i = 0; i < 32; i++) src[i] = (float)i;
  for (int i = 0; i < 16; i++) index[i] = (int8_t)((i * 5) % 8);
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) expected[i * 4 + j] = src[i * 8 + index[i * 4 + j]];
  Kit *k;
  const char *types[] = {"f32[4,8]", "i8[4,4]"};
  const void *x[] = {src, index};
  size_t bytes[] = {sizeof src, sizeof index};
  float *o = run_of(&k, "%r = gather %x0, %x1 {axis=1} : f32[4,4]", 2, types, x, bytes, "f32[4,4]", sizeof expected);
  assert_memory_equal(o, expected, sizeof expected);
  kit_close(k);

  int64_t rows[2 * 8];
  float picked[2 * 8];
  for (int i = 0; i < 16; i++) rows[i] = (i * 3) % 4;
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 8; j++) picked[i * 8 + j] = src[rows[i * 8 + j] * 8 + j];
  types[1] = "i64[2,8]", x[1] = rows, bytes[1] = sizeof rows;
  o = run_of(&k, "%r = gather %x0, %x1 {axis=0} : f32[2,8]", 2, types, x, bytes, "f32[2,8]", sizeof picked);
  assert_memory_equal(o, picked, sizeof picked);
  ((int64_t *)(uintptr_t)k->args[1])[9] = 4;
  kit_faults(k, "gather out of range: index 4 along axis 0 of size 4");
  assert_int_equal(k->fault.index[0], 1);
  assert_int_equal(k->fault.index[1], 1);
  kit_close(k);
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

#define SUM "do (%a: f32, %b: f32) {\n%c = add %a, %b : f32\nyield %c\n}"

static float tree_sum(const float *x, int n, int stride) {
  return n == 1 ? *x : tree_sum(x, n / 2, stride) + tree_sum(x + n / 2 * stride, n / 2, stride);
}

static void sums(void **state) {
  enum { A = 4, B = 256, C = 16 };
  static float x[A * B * C], y[A * B * C];
  uint64_t seed = 1;
  for (int i = 0; i < A * B * C; i++) x[i] = kit_uniform(&seed);
  for (int a = 0; a < A; a++)
    for (int b = 0; b < B; b++) y[a * B + b] = tree_sum(x + (a * B + b) * C, C, 1);
  check1("%r = reduce %x0 {axis=2} : f32[4,256] " SUM, "f32[4,256,16]", x, sizeof x, "f32[4,256]", y, A * B * 4);
  for (int a = 0; a < A; a++)
    for (int c = 0; c < C; c++) y[a * C + c] = tree_sum(x + a * B * C + c, B, C);
  check1("%r = reduce %x0 {axis=1} : f32[4,16] " SUM, "f32[4,256,16]", x, sizeof x, "f32[4,16]", y, A * C * 4);
  for (int b = 0; b < B * C; b++) y[b] = tree_sum(x + b, A, B * C);
  check1("%r = reduce %x0 {axis=0} : f32[256,16] " SUM, "f32[4,256,16]", x, sizeof x, "f32[256,16]", y, B * C * 4);
  y[0] = tree_sum(x, A * B * C, 1);
  check1("%r = reduce %x0 {axis=0} : f32 " SUM, "f32[16384]", x, sizeof x, "f32", y, 4);
  check1("%r = reduce %x0 {axis=0} : f32 " SUM, "f32[1]", x, 4, "f32", x, 4);
  check1("%r = reduce %x0 {axis=1} : f32[4] " SUM, "f32[4,1]", x, 16, "f32[4]", x, 16);

  /* bf16 adds in bf16: 512 ones are 512, by the tree. */
  static uint16_t ones[512], all;
  for (int i = 0; i < 512; i++) ones[i] = f32_to_bf16(1);
  all = f32_to_bf16(512);
  check1("%r = reduce %x0 {axis=0} : bf16 do (%a: bf16, %b: bf16) {\n%c = add %a, %b : bf16\nyield %c\n}", "bf16[512]",
         ones, sizeof ones, "bf16", &all, 2);
  /* NaN is skipped by max, and wins with nan=1. */
  float with_nan[4] = {1, NAN, 3, 2}, three = 3;
  check1("%r = reduce %x0 {axis=0} : f32 do (%a: f32, %b: f32) {\n%c = max %a, %b : f32\nyield %c\n}", "f32[4]",
         with_nan, 16, "f32", &three, 4);
  Kit *k;
  float *o =
      run_of(&k, "%r = reduce %x0 {axis=0} : f32 do (%a: f32, %b: f32) {\n%c = max %a, %b {nan=1} : f32\nyield %c\n}",
             1, (const char *[]){"f32[4]"}, (const void *[]){with_nan}, (size_t[]){16}, "f32", 4);
  assert_true(isnan(*o));
  kit_close(k);
}

/* Order of operands is kept: digits joined by a*shift(b)+b stand in order. Two tensors, a constant and an outer value
 * in the body; the same with control flow in it, which runs element by element. */
static void combine_functions(void **state) {
  int64_t digits[8] = {1, 2, 3, 4, 5, 6, 7, 8}, joined = 12345678;
  check1("%ten = const {value=10} : i64\n%tens = const {value=10} : i64[8]\n"
         "%r, %s = reduce %x0, %tens {axis=0} : i64, i64 do (%a: i64, %w: i64, %b: i64, %v: i64) {\n"
         "%m = mul %a, %v : i64\n%n = add %m, %b : i64\n%u = mul %w, %v : i64\nyield %n, %u\n}",
         "i64[8]", digits, 64, "i64", &joined, 8);
  check1("%one = const {value=1} : i64\n%tens = const {value=10} : i64[8]\n"
         "%r, %s = reduce %x0, %tens {axis=0} : i64, i64 do (%a: i64, %w: i64, %b: i64, %v: i64) {\n"
         "%yes = cmp %one, %one {pred=eq} : i1\n%t = if %yes : i64 do () {\n%m = mul %a, %v : i64\nyield %m\n} do () "
         "{\nyield %a\n}\n"
         "%n = add %t, %b : i64\n%u = mul %w, %v : i64\nyield %n, %u\n}",
         "i64[8]", digits, 64, "i64", &joined, 8);

  /* argmax with ties to the left, along both axes; one result alone is used. */
  static const char *const body =
      "%%l = arange {start=0, end=%d} : i32[%d]\n%%e = expand_dims %%l {axis=%d} : i32[%s]\n%%i = broadcast %%e : "
      "i32[64,32]\n"
      "%%v, %%r = reduce %%x0, %%i {axis=%d} : f32[%d], i32[%d] do (%%a: f32, %%j: i32, %%b: f32, %%k: i32) {\n"
      "%%gt = cmp %%a, %%b {pred=gt} : i1\n%%eq = cmp %%a, %%b {pred=eq} : i1\n%%lt = cmp %%j, %%k {pred=lt} : i1\n"
      "%%tie = and %%eq, %%lt : i1\n%%left = or %%gt, %%tie : i1\n%%c = select %%left, %%a, %%b : f32\n%%d = select "
      "%%left, %%j, %%k : i32\nyield %%c, %%d\n}";
  static float x[64 * 32];
  uint64_t seed = 5;
  for (int i = 0; i < 64 * 32; i++) x[i] = (float)(kit_random(&seed) % 20);
  int32_t best[64];
  char text[2048];
  for (int i = 0; i < 64; i++) {
    best[i] = 0;
    for (int j = 1; j < 32; j++)
      if (x[i * 32 + j] > x[i * 32 + best[i]]) best[i] = j;
  }
  snprintf(text, sizeof text, body, 32, 32, 0, "1,32", 1, 64, 64);
  check1(text, "f32[64,32]", x, sizeof x, "i32[64]", best, sizeof best);
  for (int j = 0; j < 32; j++) {
    best[j] = 0;
    for (int i = 1; i < 64; i++)
      if (x[i * 32 + j] > x[best[j] * 32 + j]) best[j] = i;
  }
  snprintf(text, sizeof text, body, 64, 64, 1, "64,1", 0, 32, 32);
  check1(text, "f32[64,32]", x, sizeof x, "i32[32]", best, 128);
}

static void captured_values(void **state) {
  /* The body uses a value from outside that changes with the loop. */
  int32_t x[4] = {1, 2, 3, 4}, sum = 0;
  for (int i = 0; i < 3; i++) sum += 1 + 2 + 3 + 4 + 3 * i;
  check1("%zero = const {value=0} : i32\n%one = const {value=1} : i32\n%three = const {value=3} : i32\n"
         "%r = for %zero, %three, %one, %zero : i32 do (%i: i32, %s: i32) {\n"
         "%t = reduce %x0 {axis=0} : i32 do (%a: i32, %b: i32) {\n%c = add %a, %b : i32\n%d = add %c, %i : i32\nyield "
         "%d\n}\n"
         "%u = add %s, %t : i32\nyield %u\n}",
         "i32[4]", x, 16, "i32", &sum, 4);
}

/* ---- scans ------------------------------------------------------------------------------------------------------- */

static void scans(void **state) {
  enum { A = 8, B = 32, C = 4 };
  static float x[A * B * C], y[A * B * C];
  uint64_t seed = 2;
  for (int i = 0; i < A * B * C; i++) x[i] = kit_uniform(&seed);
  for (int axis = 0; axis < 3; axis++)
    for (int reverse = 0; reverse < 2; reverse++) {
      int stride = axis == 0 ? B * C : axis == 1 ? C : 1, length = axis == 0 ? A : axis == 1 ? B : C;
      for (int i = 0; i < A * B * C; i++) {
        int at = i / stride % length, begin = i - at * stride, sign = reverse ? -1 : 1;
        int first = reverse ? begin + (length - 1) * stride : begin;
        float sum = x[first];
        for (int j = first; j != i;) {
          j += sign * stride;
          sum = sum + x[j];
        }
        y[i] = sum;
      }
      char body[256];
      snprintf(body, sizeof body, "%%r = scan %%x0 {axis=%d, reverse=%d} : f32[8,32,4] %s", axis, reverse, SUM);
      check1(body, "f32[8,32,4]", x, sizeof x, "f32[8,32,4]", y, sizeof y);
    }
  /* Not commutative: the last non-zero so far; with a body that yields its operands crosswise. */
  int32_t v[8] = {0, 3, 0, 0, 7, 0, 1, 0}, last[8] = {0, 3, 3, 3, 7, 7, 1, 1}, back[8] = {3, 3, 7, 7, 7, 1, 1, 0};
  const char *keep =
      "%%zero = const {value=0} : i32\n%%r = scan %%x0 {axis=0, reverse=%d} : i32[8] do (%%a: i32, %%b: i32) {\n"
      "%%z = cmp %%b, %%zero {pred=eq} : i1\n%%c = select %%z, %%a, %%b : i32\nyield %%c\n}";
  char body[512];
  snprintf(body, sizeof body, keep, 0);
  check1(body, "i32[8]", v, 32, "i32[8]", last, 32);
  snprintf(body, sizeof body, keep, 1);
  check1(body, "i32[8]", v, 32, "i32[8]", back, 32);
  int32_t ones[4] = {1, 1, 1, 1}, fibonacci[4] = {1, 2, 3, 5};
  check1("%n = neg %x0 : i32[4]\n%s, %r = scan %n, %x0 {axis=0} : i32[4], i32[4] do (%a: i32, %b: i32, %c: i32, %d: "
         "i32) {\n"
         "%t = add %a, %b : i32\n%nb = neg %b : i32\n%nt = sub %b, %a : i32\nyield %nb, %nt\n}",
         "i32[4]", ones, 16, "i32[4]", fibonacci, 16);
  /* Longer than the lanes that are run at once. */
  static int32_t many[1024 * 2], sums[1024 * 2];
  for (int i = 0; i < 2048; i++) many[i] = i;
  for (int i = 0; i < 2048; i++) sums[i] = i < 1024 ? i : i + i - 1024;
  check1("%r = scan %x0 {axis=0} : i32[2,1024] do (%a: i32, %b: i32) {\n%c = add %a, %b : i32\nyield %c\n}",
         "i32[2,1024]", many, sizeof many, "i32[2,1024]", sums, sizeof sums);
  for (int i = 0; i < 2048; i++) sums[i] = i % 2 ? 2 * i - 1 : i;
  check1("%r = scan %x0 {axis=1} : i32[1024,2] do (%a: i32, %b: i32) {\n%c = add %a, %b : i32\nyield %c\n}",
         "i32[1024,2]", many, sizeof many, "i32[1024,2]", sums, sizeof sums);
}

static void maps(void **state) {
  static int32_t x[1024], y[1024];
  for (int i = 0; i < 1024; i++) x[i] = i - 512, y[i] = x[i] < 0 ? -x[i] * 3 : x[i] + 1;
  check1("%r = map %x0 {pack=1} : i32[1024] do (%a: i32) {\n%zero = const {value=0} : i32\n%neg = cmp %a, %zero "
         "{pred=lt} : i1\n"
         "%v = if %neg : i32 do () {\n%m = const {value=-3} : i32\n%p = mul %a, %m : i32\nyield %p\n} do () {\n%one = "
         "const {value=1} : i32\n%q = add %a, %one : i32\nyield %q\n}\nyield %v\n}",
         "i32[1024]", x, sizeof x, "i32[1024]", y, sizeof y);
  for (int i = 0; i < 1024; i++) y[i] = x[i ^ 1] * 2;
  check1("%r = map %x0 {pack=2} : i32[1024] do (%a: i32, %b: i32) {\n%c = add %a, %a : i32\n%d = add %b, %b : "
         "i32\nyield %d, %c\n}",
         "i32[1024]", x, sizeof x, "i32[1024]", y, sizeof y);
  /* Two operands of two types, two results, grouped by operand. */
  for (int i = 0; i < 1024; i++) y[i] = x[i] + (i % 2 ? -100 : 100);
  check1("%f = convert %x0 : f32[1024]\n%s, %r = map %x0, %f {pack=2} : f32[1024], i32[1024] do (%a0: i32, %a1: i32, "
         "%b0: f32, %b1: f32) {\n"
         "%h = const {value=100} : i32\n%c0 = add %a0, %h : i32\n%c1 = sub %a1, %h : i32\nyield %b0, %b1, %c0, %c1\n}",
         "i32[1024]", x, sizeof x, "i32[1024]", y, sizeof y);
}

/* ---- sort, histogram --------------------------------------------------------------------------------------------- */

static int compare_floats(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
  if (x == y) return !!signbit(y) - !!signbit(x); /* -0 before 0 */
  return x < y ? -1 : 1;
}

static void sorts(void **state) {
  for (int n = 2; n <= 1024; n *= 8)
    for (int descending = 0; descending < 2; descending++) {
      static float x[4 * 1024], y[4 * 1024];
      uint64_t seed = (uint64_t)n;
      for (int i = 0; i < 4 * n; i++) {
        uint64_t r = kit_random(&seed) % 10;
        y[i] = x[i] = r == 0   ? -0.0f
                      : r == 1 ? 0
                      : r == 2 ? INFINITY
                      : r == 3 ? -INFINITY
                      : r == 4 ? NAN
                               : kit_uniform(&seed);
      }
      for (int row = 0; row < 4; row++) {
        qsort(y + row * n, (size_t)n, 4, compare_floats);
        for (int i = 0; i < n / 2 && descending; i++) {
          float t = y[row * n + i];
          y[row * n + i] = y[row * n + n - 1 - i], y[row * n + n - 1 - i] = t;
        }
      }
      char body[128], type[32];
      snprintf(type, sizeof type, "f32[4,%d]", n);
      snprintf(body, sizeof body, "%%r = sort %%x0 {descending=%d} : %s", descending, type);
      Kit *k;
      float *o = run_of(&k, body, 1, (const char *[]){type}, (const void *[]){x}, (size_t[]){(size_t)n * 16}, type,
                        (size_t)n * 16);
      for (int i = 0; i < 4 * n; i++) {
        if (isnan(y[i])) assert_true(isnan(o[i]));
        else assert_memory_equal(&o[i], &y[i], 4);
      }
      kit_close(k);
    }
  for (int t = 0; t < DT_COUNT; t++) { /* every type: neighbours are in order, and nothing is lost */
    int bytes = dtype_bytes((Dtype)t);
    uint64_t seed = 9;
    uint8_t x[128 * 8];
    double sum = 0;
    for (int i = 0; i < 128; i++) {
      double v = kit_uniform(&seed) * 100;
      dtype_store_float((Dtype)t, x + i * bytes, dtype_is_float((Dtype)t) || dtype_is_signed((Dtype)t) ? v : fabs(v));
      sum += dtype_load_float((Dtype)t, x + i * bytes);
    }
    char body[128], type[32];
    snprintf(type, sizeof type, "%s[128]", dtype_name((Dtype)t));
    snprintf(body, sizeof body, "%%r = sort %%x0 : %s", type);
    Kit *k;
    uint8_t *o = run_of(&k, body, 1, (const char *[]){type}, (const void *[]){x}, (size_t[]){128u * (size_t)bytes},
                        type, 128u * (size_t)bytes);
    double after = 0;
    for (int i = 0; i < 128; i++) {
      after += dtype_load_float((Dtype)t, o + i * bytes);
      if (i) assert_true(dtype_load_float((Dtype)t, o + (i - 1) * bytes) <= dtype_load_float((Dtype)t, o + i * bytes));
    }
    assert_true(fabs(after - sum) < 1e-3);
    kit_close(k);
  }
}

static void histograms(void **state) {
  int16_t x[16] = {0, 1, 1, 3, 3, 3, 4, -1, 100, 2, 2, 0, 0, 0, 3, 1};
  int32_t all[4] = {4, 3, 2, 4}, some[4] = {0, 2, 0, 3};
  check1("%r = histogram %x0 : i32[4]", "i16[16]", x, 32, "i32[4]", all, 16);
  check1("%i = arange {start=0, end=16} : i32[16]\n%a = const {value=8} : i32[16]\n%m = cmp %i, %a {pred=lt} : i1[16]\n"
         "%z = const {value=0} : i16[16]\n%p = cmp %x0, %z {pred=ne} : i1[16]\n%b = and %m, %p : i1[16]\n%r = "
         "histogram %x0, %b : i32[4]",
         "i16[16]", x, 32, "i32[4]", some, 16);
}

/* ---- dot --------------------------------------------------------------------------------------------------------- */

static void dot_of(const char *a_type, const char *c_type, int batch, int m, int n, int k_size, double tolerance) {
  Dtype ta, tc;
  assert_true(dtype_parse(a_type, &ta));
  assert_true(dtype_parse(c_type, &tc));
  int ab = dtype_bytes(ta), cb = dtype_bytes(tc);
  uint8_t *a = malloc((size_t)(batch * m * k_size * ab)), *b = malloc((size_t)(batch * k_size * n * ab));
  uint8_t *c = malloc((size_t)(batch * m * n * cb));
  uint64_t seed = (uint64_t)(m * n);
  double scale = dtype_is_float(ta) ? 1 : 127;
  for (int i = 0; i < batch * m * k_size; i++) dtype_store_float(ta, a + i * ab, kit_uniform(&seed) * scale);
  for (int i = 0; i < batch * k_size * n; i++) dtype_store_float(ta, b + i * ab, kit_uniform(&seed) * scale);
  for (int i = 0; i < batch * m * n; i++) dtype_store_float(tc, c + i * cb, kit_uniform(&seed) * scale);
  char types[3][32], body[128], batches[16] = "";
  if (batch > 1) snprintf(batches, sizeof batches, "%d,", batch);
  snprintf(types[0], 32, "%s[%s%d,%d]", a_type, batches, m, k_size);
  snprintf(types[1], 32, "%s[%s%d,%d]", a_type, batches, k_size, n);
  snprintf(types[2], 32, "%s[%s%d,%d]", c_type, batches, m, n);
  snprintf(body, sizeof body, "%%r = dot %%x0, %%x1, %%x2 {precision=ieee} : %s", types[2]);
  Kit *k;
  size_t bytes[3] = {(size_t)(batch * m * k_size * ab), (size_t)(batch * k_size * n * ab),
                     (size_t)(batch * m * n * cb)};
  uint8_t *o = run_of(&k, body, 3, (const char *[]){types[0], types[1], types[2]}, (const void *[]){a, b, c}, bytes,
                      types[2], bytes[2]);
  for (int e = 0; e < batch * m * n; e++) {
    int z = e / (m * n), i = e / n % m, j = e % n;
    double sum = dtype_load_float(tc, c + e * cb);
    for (int p = 0; p < k_size; p++)
      sum += dtype_load_float(ta, a + ((z * m + i) * k_size + p) * ab) *
             dtype_load_float(ta, b + ((z * k_size + p) * n + j) * ab);
    double got = dtype_load_float(tc, o + e * cb);
    if (fabs(got - sum) > tolerance * (1 + fabs(sum)))
      fail_msg("dot %s %s %dx%dx%d, element (%d, %d): %g, not %g", a_type, c_type, m, n, k_size, i, j, got, sum);
  }
  kit_close(k);
  free(a);
  free(b);
  free(c);
}

static void dots(void **state) {
  int sizes[][3] = {{16, 16, 16}, {1, 1, 1}, {1, 64, 32},  {64, 1, 8},    {2, 2, 64},
                    {4, 8, 4},    {8, 4, 2}, {32, 64, 16}, {64, 128, 32}, {2, 32, 8}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    int *d = sizes[s];
    dot_of("f32", "f32", 1, d[0], d[1], d[2], 1e-5);
    dot_of("f32", "f32", 4, d[0], d[1], d[2], 1e-5);
    dot_of("f64", "f64", 2, d[0], d[1], d[2], 1e-13);
    dot_of("bf16", "f32", 1, d[0], d[1], d[2], 1e-5);
    dot_of("f16", "f32", 2, d[0], d[1], d[2], 1e-5);
    dot_of("f16", "f16", 1, d[0], d[1], d[2], 1e-3);
    dot_of("fp8e5", "f32", 1, d[0], d[1], d[2], 1e-5);
    dot_of("fp8e4nv", "f16", 1, d[0], d[1], d[2], 1e-3);
    dot_of("i8", "i32", 2, d[0], d[1], d[2], 0);
  }
  /* An f16 accumulator is rounded once, not at each step: 2048 + 16 * 0.25 is 2052. */
  uint16_t a[16], b[16], c = f32_to_f16(2048), right = f32_to_f16(2052);
  for (int i = 0; i < 16; i++) a[i] = f32_to_f16(0.5), b[i] = f32_to_f16(0.5);
  Kit *k;
  uint16_t *o =
      run_of(&k, "%r = dot %x0, %x1, %x2 : f16[1,1]", 3, (const char *[]){"f16[1,16]", "f16[16,1]", "f16[1,1]"},
             (const void *[]){a, b, &c}, (size_t[]){32, 32, 2}, "f16[1,1]", 2);
  assert_int_equal(*o, right);
  kit_close(k);
  /* NaN and infinity spread as they should. */
  float x[4] = {INFINITY, 0, NAN, 1}, y[4] = {1, 0, 0, 1}, z[4] = {0};
  float *p = run_of(&k, "%r = dot %x0, %x1, %x2 : f32[2,2]", 3, (const char *[]){"f32[2,2]", "f32[2,2]", "f32[2,2]"},
                    (const void *[]){x, y, z}, (size_t[]){16, 16, 16}, "f32[2,2]", 16);
  assert_true(isinf(p[0]) && isnan(p[1]) && isnan(p[2]) && isnan(p[3]));
  kit_close(k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes),
      cmocka_unit_test(gather),
      cmocka_unit_test(sums),
      cmocka_unit_test(combine_functions),
      cmocka_unit_test(captured_values),
      cmocka_unit_test(scans),
      cmocka_unit_test(maps),
      cmocka_unit_test(sorts),
      cmocka_unit_test(histograms),
      cmocka_unit_test(dots),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
