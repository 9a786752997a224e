/* The interpreter's elementwise operations give, for every type, the bits that tile/scalar.c says, whatever loop runs
 * them. */
#include "test_interp_kit.h"

#include <math.h>

enum { N = 512 };

static bool is_nan_of(Dtype t, const void *p) { return dtype_is_float(t) && isnan(dtype_load_float(t, p)); }

/* Random bits, with zeros, extremes, infinities and NaN among them. */
static void fill(Dtype t, uint8_t *p, int64_t n, uint64_t *seed) {
  static const double floats[] = {0,     -0.0, 1,    -1,       2,         0.5, -1.5,         3,    1e-5, 65504, -65504,
                                  1e-40, 448,  3e38, INFINITY, -INFINITY, NAN, 2147483648.0, 255.5};
  static const int64_t ints[] = {0,  1,  -1, 2,   3,    7,         8,         15,        16,        31,  32,
                                 33, 63, 64, 127, -128, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 255, 65535};
  int bytes = dtype_bytes(t);
  for (int64_t i = 0; i < n; i++) {
    uint64_t r = kit_random(seed);
    if (t == DT_I1) p[i] = r & 1;
    else if (r % 3 == 0 && dtype_is_float(t))
      dtype_store_float(t, p + i * bytes, floats[kit_random(seed) % (sizeof floats / 8)]);
    else if (r % 3 == 0) dtype_store_int(t, p + i * bytes, ints[kit_random(seed) % (sizeof ints / 8)]);
    else if (r % 3 == 1 && dtype_is_float(t)) dtype_store_float(t, p + i * bytes, kit_uniform(seed) * 10);
    else {
      r = kit_random(seed);
      memcpy(p + i * bytes, &r, (size_t)bytes);
    }
  }
}

/* A kernel that loads `n` elements of each input, applies `op` ("add %a0, %a1 {..}") and stores the result; scalars for
 * n 0. */
static char *kernel_text(const char *op, int in_count, const Dtype *in, Dtype out, int n) {
  static char text[4096];
  char dims[16] = "", *at = text;
  if (n) snprintf(dims, sizeof dims, "[%d]", n);
  at += sprintf(at, "kernel @k(");
  for (int i = 0; i < in_count; i++) at += sprintf(at, "%%p%d: *%s, ", i, dtype_name(in[i]));
  at += sprintf(at, "%%q: *%s) {\n", dtype_name(out));
  if (n) at += sprintf(at, "%%i = arange {start=0, end=%d} : i32[%d]\n", n, n);
  for (int i = 0; i <= in_count; i++) {
    char p[16] = "q";
    const char *t = dtype_name(i < in_count ? in[i] : out);
    if (i < in_count) snprintf(p, sizeof p, "p%d", i);
    if (n)
      at +=
          sprintf(at, "%%s%s = splat %%%s : *%s%s\n%%x%s = addptr %%s%s, %%i : *%s%s\n", p, p, t, dims, p, p, t, dims);
    else at += sprintf(at, "%%x%s = hint %%%s {kind=divisible, dims=[1]} : *%s\n", p, p, t);
    if (i < in_count) at += sprintf(at, "%%a%d = load %%x%s : %s%s\n", i, p, t, dims);
  }
  sprintf(at, "%%r = %s : %s%s\nstore %%xq, %%r\n}\n", op, dtype_name(out), dims);
  return text;
}

static bool small_first; /* the first operand is the order of a Bessel function */

typedef Scalar (*Expected)(const void *arg, const Scalar *x);

static void check(const char *op, int in_count, const Dtype *in, Dtype out, Expected expected, const void *arg) {
  for (int n = 0; n <= N; n += N) {
    uint64_t seed = 7;
    int64_t count = n ? n : 1;
    Kit *k = kit_open(kernel_text(op, in_count, in, out, n));
    uint8_t *x[4], bytes[N * 8];
    for (int i = 0; i < in_count; i++) {
      fill(in[i], bytes, count, &seed);
      if (small_first && i == 0)
        for (int64_t e = 0; e < count; e++) ((int32_t *)bytes)[e] &= 31;
      x[i] = kit_array(k, "x", (size_t)(count * dtype_bytes(in[i])), bytes);
    }
    uint8_t *y = kit_array(k, "y", (size_t)(count * dtype_bytes(out)), NULL);
    kit_succeeds(k);
    for (int64_t e = 0; e < count; e++) {
      Scalar v[4];
      uint8_t right[8] = {0}, *got = y + e * dtype_bytes(out);
      for (int i = 0; i < in_count; i++) v[i] = scalar_load(in[i], x[i] + e * dtype_bytes(in[i]));
      if (expected) scalar_store(out, right, expected(arg, v));
      else memcpy(right, x[0] + e * dtype_bytes(out), (size_t)dtype_bytes(out)); /* the same bits */
      if (is_nan_of(out, right) && is_nan_of(out, got)) continue;
      uint8_t saturated[8] = {0}; /* fp8's infinity does not survive a scalar; select keeps it */
      scalar_store(out, saturated, scalar_load(out, got));
      if (dtype_is_fp8(out) && expected) got = saturated;
      if (memcmp(right, got, (size_t)dtype_bytes(out))) {
        uint64_t a = 0, b = 0;
        memcpy(&a, right, 8), memcpy(&b, got, (size_t)dtype_bytes(out));
        fail_msg("%s on %s, element %d of %d: %llx, not %llx (x %g %lld)", op, dtype_name(in[0]), (int)e, (int)count,
                 (unsigned long long)b, (unsigned long long)a, v[0].f, (long long)v[0].i);
      }
    }
    kit_close(k);
  }
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

typedef struct What {
  OpCode code;
  Dtype t, to;
  int attr;
  const Dtype *in;
} What;

static Scalar expect_binary(const void *arg, const Scalar *x) {
  const What *w = arg;
  return scalar_binary(w->code, w->t, x[0], x[1], w->attr);
}
static Scalar expect_unary(const void *arg, const Scalar *x) {
  const What *w = arg;
  return scalar_unary(w->code, w->t, x[0]);
}
static Scalar expect_fma(const void *arg, const Scalar *x) {
  const What *w = arg;
  return scalar_fma(w->t, x[0], x[1], x[2]);
}
static Scalar expect_cmp(const void *arg, const Scalar *x) {
  const What *w = arg;
  return (Scalar){.i = scalar_cmp((CmpPred)w->attr, w->t, x[0], x[1])};
}
static Scalar expect_select(const void *arg, const Scalar *x) { return x[0].i ? x[1] : x[2]; }
static Scalar expect_convert(const void *arg, const Scalar *x) {
  const What *w = arg;
  return scalar_convert(w->t, w->to, w->attr, x[0]);
}
static Scalar expect_math(const void *arg, const Scalar *x) {
  const What *w = arg;
  return scalar_math((MathFn)w->attr, w->in, w->to, x);
}

static void arithmetic(void **state) {
  for (int code = OP_ADD; code <= OP_MULHI; code++)
    for (int t = 0; t < DT_COUNT; t++) {
      bool is_float = dtype_is_float((Dtype)t), bits = code >= OP_AND && code <= OP_SHR;
      if (is_float && (bits || code == OP_MULHI)) continue;
      bool extreme = code == OP_MIN || code == OP_MAX;
      for (int nan = 0; nan <= (extreme && is_float); nan++) {
        char op[64];
        snprintf(op, sizeof op, nan ? "%s %%a0, %%a1 {nan=1}" : "%s %%a0, %%a1", op_info[code].name);
        What w = {(OpCode)code, (Dtype)t, .attr = nan};
        check(op, 2, (Dtype[]){w.t, w.t}, w.t, expect_binary, &w);
      }
    }
}

static void unary_and_fma(void **state) {
  for (int t = 0; t < DT_COUNT; t++) {
    What w = {OP_NEG, (Dtype)t};
    if (t != DT_I1) check("neg %a0", 1, &w.t, w.t, expect_unary, &w);
    w.code = OP_ABS;
    check("abs %a0", 1, &w.t, w.t, expect_unary, &w);
    w.code = OP_NOT;
    if (dtype_is_int(w.t)) check("not %a0", 1, &w.t, w.t, expect_unary, &w);
    if (dtype_is_float(w.t)) check("fma %a0, %a1, %a2", 3, (Dtype[]){w.t, w.t, w.t}, w.t, expect_fma, &w);
  }
}

static void compare_and_select(void **state) {
  static const char *const preds[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (int t = 0; t < DT_COUNT; t++) {
    for (int p = 0; p < 6; p++) {
      char op[64];
      snprintf(op, sizeof op, "cmp %%a0, %%a1 {pred=%s}", preds[p]);
      What w = {OP_CMP, (Dtype)t, .attr = p};
      check(op, 2, (Dtype[]){w.t, w.t}, DT_I1, expect_cmp, &w);
    }
    check("select %a0, %a1, %a2", 3, (Dtype[]){DT_I1, (Dtype)t, (Dtype)t}, (Dtype)t, expect_select, NULL);
  }
}

static void conversions(void **state) {
  for (int from = 0; from < DT_COUNT; from++)
    for (int to = 0; to < DT_COUNT; to++) {
      What w = {OP_CONVERT, (Dtype)from, (Dtype)to};
      if (from != to) check("convert %a0", 1, &w.t, w.to, expect_convert, &w);
      bool narrower = dtype_is_float(w.t) && dtype_is_float(w.to) && dtype_bits(w.to) < dtype_bits(w.t);
      w.attr = 1;
      if (narrower) check("convert %a0 {rounding=1}", 1, &w.t, w.to, expect_convert, &w);
      w.attr = 0;
      if (from != to && dtype_bits(w.t) == dtype_bits(w.to)) check("bitcast %a0", 1, &w.t, w.to, NULL, &w);
    }
}

/* Every half there is to f32, and f32 around every half back. */
static void halves_exhaustively(void **state) {
  static const char *const text =
      "kernel @k(%x: *T, %y: *f32, %z: *T) {\n"
      "%i = arange {start=0, end=65536} : i32[65536]\n"
      "%xs = splat %x : *T[65536]\n%xp = addptr %xs, %i : *T[65536]\n%a = load %xp : T[65536]\n"
      "%b = convert %a : f32[65536]\n"
      "%ys = splat %y : *f32[65536]\n%yp = addptr %ys, %i : *f32[65536]\n%c = load %yp : f32[65536]\n"
      "%d = convert %c : T[65536]\n"
      "%zs = splat %z : *T[65536]\n%zp = addptr %zs, %i : *T[65536]\n"
      "store %yp, %b\nstore %zp, %d\n}\n";
  for (int t = DT_F16; t <= DT_BF16; t++) {
    char ir[1024], *to = ir;
    for (const char *s = text; *s; s++) {
      if (*s == 'T') to += sprintf(to, "%s", dtype_name((Dtype)t));
      else *to++ = *s;
    }
    *to = 0;
    uint16_t *x = malloc(1 << 17);
    float *y = malloc(1 << 18);
    for (int half = 0; half < 3; half++) { /* exactly, just below, just above a tie */
      for (int i = 0; i < 65536; i++) {
        x[i] = (uint16_t)i;
        uint32_t bits;
        if (t == DT_BF16) {
          bits = (uint32_t)i << 16 | (half == 0 ? 0x8000 : half == 1 ? 0x7fff : 0x8001);
        } else {
          float v = f16_to_f32((uint16_t)i), next = f16_to_f32((uint16_t)(i ^ 1));
          v = half == 0 ? (v + next) / 2 : half == 1 ? v : v * 1.00001f;
          memcpy(&bits, &v, 4);
        }
        memcpy(&y[i], &bits, 4);
      }
      Kit *k = kit_open(ir);
      kit_array(k, "x", 1 << 17, x);
      float *wide = kit_array(k, "y", 1 << 18, y);
      uint16_t *narrow = kit_array(k, "z", 1 << 17, NULL);
      kit_succeeds(k);
      for (int i = 0; i < 65536; i++) {
        float right = t == DT_F16 ? f16_to_f32((uint16_t)i) : bf16_to_f32((uint16_t)i);
        assert_memory_equal(&wide[i], &right, 4);
        uint16_t back = t == DT_F16 ? f32_to_f16(y[i]) : f32_to_bf16(y[i]);
        assert_int_equal(narrow[i], back);
      }
      kit_close(k);
    }
    free(x);
    free(y);
  }
}

/* ---- math -------------------------------------------------------------------------------------------------------- */

static void math_functions(void **state) {
  for (int fn = 0; fn < MATH_COUNT; fn++)
    for (const char *s = math_info[fn].sig; *s;) {
      Dtype types[5];
      int n = 0;
      char name[8];
      while (*s && *s != ' ') {
        size_t length = strcspn(s, ",: ");
        snprintf(name, sizeof name, "%.*s", (int)length, s);
        assert_true(n < 5 && dtype_parse(name, &types[n++]));
        s += length;
        s += *s == ',' || *s == ':';
      }
      s += *s == ' ';
      char op[128], *at = op + sprintf(op, "math ");
      for (int i = 0; i + 1 < n; i++) at += sprintf(at, "%s%%a%d", i ? ", " : "", i);
      sprintf(at, " {fn=%s}", math_info[fn].name);
      What w = {OP_MATH, types[0], types[n - 1], .attr = fn, .in = types};
      small_first = fn == MATH_JN || fn == MATH_YN;
      bool moves_bits = strstr(math_info[fn].name, "_as_") != NULL; /* signalling NaNs too */
      check(op, n - 1, types, types[n - 1], moves_bits ? NULL : expect_math, &w);
      small_first = false;
    }
}

/* ---- pointers ---------------------------------------------------------------------------------------------------- */

static void pointers(void **state) {
  /* Offsets are extended by their sign and count elements: i1 one byte, pointers eight. */
  Kit *k = kit_open(
      "kernel @k(%p: *f32, %q: *i1, %r: **f32, %o: *i64) {\n"
      "%i = arange {start=0, end=4} : i32[4]\n"
      "%minus = const {value=-2} : i8[4]\n%big = const {value=200} : u8[4]\n%w = const {value=-3} : i64[4]\n"
      "%ps = splat %p : *f32[4]\n%qs = splat %q : *i1[4]\n%rs = splat %r : **f32[4]\n"
      "%a = addptr %ps, %minus : *f32[4]\n%b = addptr %qs, %big : *i1[4]\n%c = addptr %rs, %w : **f32[4]\n"
      "%d = addptr %ps, %i : *f32[4]\n%eq = cmp %d, %ps {pred=eq} : i1[4]\n"
      "%ai = bitcast %a : i64[4]\n%bi = bitcast %b : i64[4]\n%ci = bitcast %c : i64[4]\n%di = bitcast %d : i64[4]\n"
      "%sel = select %eq, %d, %a : *f32[4]\n%si = bitcast %sel : i64[4]\n"
      "%os = splat %o : *i64[4]\n%o0 = addptr %os, %i : *i64[4]\n%four = const {value=4} : i32[4]\n"
      "%o1 = addptr %o0, %four : *i64[4]\n%o2 = addptr %o1, %four : *i64[4]\n%o3 = addptr %o2, %four : *i64[4]\n"
      "%o4 = addptr %o3, %four : *i64[4]\n"
      "store %o0, %ai\nstore %o1, %bi\nstore %o2, %ci\nstore %o3, %di\nstore %o4, %si\n}\n");
  int64_t p = (int64_t)(uintptr_t)kit_array(k, "p", 16, NULL), q = (int64_t)(uintptr_t)kit_array(k, "q", 16, NULL);
  int64_t r = (int64_t)(uintptr_t)kit_array(k, "r", 16, NULL);
  int64_t *o = kit_array(k, "o", 20 * 8, NULL);
  kit_succeeds(k);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(o[i], p - 8);
    assert_int_equal(o[4 + i], q + 200);
    assert_int_equal(o[8 + i], r - 24);
    assert_int_equal(o[12 + i], p + 4 * i);
    assert_int_equal(o[16 + i], i == 0 ? p : p - 8);
  }
  kit_close(k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arithmetic),  cmocka_unit_test(unary_and_fma),       cmocka_unit_test(compare_and_select),
      cmocka_unit_test(conversions), cmocka_unit_test(halves_exhaustively), cmocka_unit_test(math_functions),
      cmocka_unit_test(pointers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
