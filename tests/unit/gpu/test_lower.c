/* Lowering: tile IR in, lane IR run by its simulator, compared with the interpreter (test_lower_kit.h). */
#include "test_lower_kit.h"

static const char *const targets[] = {"sm_80", "sm_90a", "sm_100a"};
enum { TARGETS = sizeof targets / sizeof *targets };

/* ---- elementwise: one operation on arrays of a type ---- */

/* o[i] = OP(a[i], b[i], c[i]) for N elements, with bits of all kinds. `line` is the operation's text after "%r = ",
 * with %x, %y, %z; `before` are whole lines. */
static void check_elementwise(const char *before, const char *line, const Dtype *in, int n_in, Dtype out, int n,
                              int warps, const char *target, double tolerance, uint64_t seed) {
  Buf b = {0};
  static const char *const names[] = {"x", "y", "z"};
  buf_puts(&b, "kernel @k(");
  for (int i = 0; i < n_in; i++) buf_printf(&b, "%%p%d: *%s {divisible=16}, ", i, dtype_name(in[i]));
  buf_printf(&b, "%%o: *%s {divisible=16}) {\n  %%i = arange {start=0, end=%d} : i32[%d]\n", dtype_name(out), n, n);
  for (int i = 0; i < n_in; i++)
    buf_printf(&b,
               "  %%s%d = splat %%p%d : *%s[%d]\n  %%a%d = addptr %%s%d, %%i : *%s[%d]\n  %%%s = load %%a%d : %s[%d]\n",
               i, i, dtype_name(in[i]), n, i, i, dtype_name(in[i]), n, names[i], i, dtype_name(in[i]), n);
  buf_printf(&b,
             "%s  %%r = %s : %s[%d]\n  %%so = splat %%o : *%s[%d]\n  %%ao = addptr %%so, %%i : *%s[%d]\n  store %%ao, "
             "%%r\n}\n",
             before, line, dtype_name(out), n, dtype_name(out), n, dtype_name(out), n);
  Kit k = kit_of(b.at);
  k.warps = warps;
  k.target = target;
  k.tolerance = tolerance;
  for (int i = 0; i < n_in; i++) kit_fill(in[i], kit_array(&k, in[i], n), n, seed + (uint64_t)i * 77);
  kit_array(&k, out, n);
  kit_check(&k);
  kit_free(&k);
  buf_destroy(&b);
}

/* Few and many registers, odd ones too, and copies. */
static void check_op(const char *line, const Dtype *in, int n_in, Dtype out, double tolerance) {
  static const struct { int n, warps; } sizes[] = {{1024, 4}, {32, 1}, {16, 2}, {1, 1}};
  for (int t = 0; t < TARGETS; t++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      check_elementwise("", line, in, n_in, out, sizes[i].n, sizes[i].warps, targets[t], tolerance, i + 1);
}

static const Dtype ints[] = {DT_I8, DT_I16, DT_I32, DT_I64, DT_U8, DT_U16, DT_U32, DT_U64};
static const Dtype floats[] = {DT_F16, DT_BF16, DT_F32, DT_F64};
#define EACH(T, list) \
  for (size_t T##_i = 0; T##_i < sizeof list / sizeof *list; T##_i++) \
    for (Dtype T = list[T##_i], once_##T = 1; once_##T; once_##T = 0)

static void binary(const char *line, Dtype t, double tolerance) { check_op(line, (Dtype[]){t, t}, 2, t, tolerance); }

static void test_int_arithmetic(void **state) {
  EACH(t, ints) {
    binary("add %x, %y", t, 0);
    binary("sub %x, %y", t, 0);
    binary("mul %x, %y", t, 0);
    binary("mulhi %x, %y", t, 0);
    binary("min %x, %y", t, 0);
    binary("max %x, %y", t, 0);
    binary("and %x, %y", t, 0);
    binary("or %x, %y", t, 0);
    binary("xor %x, %y", t, 0);
    check_op("neg %x", &t, 1, t, 0);
    check_op("not %x", &t, 1, t, 0);
    check_op("abs %x", &t, 1, t, 0);
    check_op("fma %x, %y, %z", (Dtype[]){t, t, t}, 3, t, 0);
  }
}

static void test_division(void **state) {
  EACH(t, ints) {
    binary("div %x, %y", t, 0);
    binary("rem %x, %y", t, 0);
  }
}

/* What was known not to be negative may be so once it has been added or multiplied: sums and products wrap. */
static void test_division_of_wrapped(void **state) {
  /* clang-format off */
  static const struct { Dtype t; const char *name, *first; } rows[] = {
      {DT_I16, "i16", "abs %x"}, {DT_I32, "i32", "abs %x"}, {DT_I32, "i32", "and %x, %low"},
      {DT_I32, "i32", "max %x, %k"}, {DT_I64, "i64", "and %x, %low"}};
  /* clang-format on */
  static const char *const ops[] = {"div %w, %d", "rem %w, %d", "rem %w, %p", "div %w, %p", "div %v, %d", "div %v, %y"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
      char before[1000];
      const char *t = rows[i].name;
      int bits = dtype_bits(rows[i].t);
      snprintf(before, sizeof before,
               "  %%k = const {value=11} : %s[1024]\n  %%low = const {value=%lld} : %s[1024]\n  %%d = const "
               "{value=255} : %s[1024]\n  %%p = const {value=64} : %s[1024]\n"
               "  %%m = %s : %s[1024]\n  %%w = mul %%m, %%k : %s[1024]\n  %%v = add %%m, %%low : %s[1024]\n",
               t, (long long)(((uint64_t)1 << (bits - 1)) - 1), t, t, t, rows[i].first, t, t, t);
      for (int target = 0; target < TARGETS; target++)
        check_elementwise(before, ops[k], (Dtype[]){rows[i].t, rows[i].t}, 2, rows[i].t, 1024, 4, targets[target], 0,
                          i + k + 1);
    }
}

/* Many quotients by one number: of any size, and by what is none. */
static void test_division_by_one(void **state) {
  static const float by[] = {3,      -0.7f,  1e-40f, -3e-39f, 0x1p-126f, 0x1p126f, 1e38f,
                             -3e38f, 1e-30f, 0,      -0.0f,   INFINITY,  NAN};
  static const float special[] = {0, -0.0f, INFINITY, -INFINITY, NAN};
  for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
    Kit k = kit_of(
        "kernel @k(%p: *f32 {divisible=16}, %q: *f32 {divisible=16}, %o: *f32 {divisible=16}) {\n"
        "  %i = arange {start=0, end=512} : i32[512]\n  %s = splat %p : *f32[512]\n  %a = addptr %s, %i : *f32[512]\n"
        "  %x = load %a : f32[512]\n  %d = load %q : f32\n  %y = splat %d : f32[512]\n  %r = div %x, %y : f32[512]\n"
        "  %so = splat %o : *f32[512]\n  %ao = addptr %so, %i : *f32[512]\n  store %ao, %r\n}\n");
    k.warps = 1;
    k.tolerance = 2.5e-7; /* 2 units in the last place */
    float *x = kit_array(&k, DT_F32, 512), size = isfinite(by[i]) && by[i] != 0 ? by[i] : 1;
    uint64_t seed = i;
    for (int e = 0; e < 512; e++)
      x[e] = e < 5 ? special[e] : (float)(0.5 * size * (1 + (double)(kit_random(&seed) >> 40) / 0x1p24));
    *(float *)kit_array(&k, DT_F32, 1) = by[i];
    kit_array(&k, DT_F32, 512);
    kit_check(&k);
    kit_free(&k);
  }
}

/* By constants: every small one, powers of two and their neighbours, the ends. */
static void test_division_by_constants(void **state) {
  /* clang-format off */
  static const int64_t by[] = {1, -1, 2, -2, 3, -3, 5, 6, 7, -7, 9, 10, 11, 12, 16, -16, 25, 100, 125, 127, -128, 255,
    641, 1000, 32767, -32768, 65535,
                               1000003, 2147483647, -2147483648LL, 4294967295LL, 4294967297LL, 1000000007000LL,
                               INT64_MAX, INT64_MIN};
  /* clang-format on */
  char line[120];
  EACH(t, ints)
  for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
    if (int_wrap(t, by[i]) != by[i]) continue;
    snprintf(line, sizeof line, "  %%c = const {value=%lld} : %s[256]\n", (long long)by[i], dtype_name(t));
    check_elementwise(line, "div %x, %c", &t, 1, t, 256, 1, "sm_90a", 0, i + 3);
    check_elementwise(line, "rem %x, %c", &t, 1, t, 256, 1, "sm_90a", 0, i + 4);
  }
}

/* 64 bits that are extended from 32: where both may be negative, -2^31 / -1 takes more than 32. */
static void test_division_of_halves(void **state) {
  static const char before[] =
      "  %low = const {value=2147483647} : i32[512]\n  %xp = and %x, %low : i32[512]\n  %yp = and %y, %low : i32[512]\n"
      "  %u = convert %x : i64[512]\n  %v = convert %y : i64[512]\n  %up = convert %xp : i64[512]\n"
      "  %vp = convert %yp : i64[512]\n  %least = not %low : i32[512]\n"
      "  %m = convert %least : i64[512]\n  %all = or %x, %y : i32[512]\n  %n = or %all, %least : i32[512]\n"
      "  %w = convert %n : i64[512]\n";
  static const char *const ops[] = {"div %u, %v", "div %m, %w", "div %up, %v", "div %u, %vp", "div %up, %vp",
                                    "rem %u, %v", "rem %m, %w", "rem %up, %v", "rem %u, %vp", "rem %up, %vp"};
  for (int i = 0; i < 10; i++)
    check_elementwise(before, ops[i], (Dtype[]){DT_I32, DT_I32}, 2, DT_I64, 512, 4, "sm_90a", 0, 5);
}

static void test_shifts(void **state) {
  char line[120];
  EACH(t, ints)
  for (int count = 0; count < dtype_bits(t); count += count < 2 ? 1 : dtype_bits(t) / 2 - 1) {
    snprintf(line, sizeof line, "  %%c = const {value=%d} : %s[128]\n", count, dtype_name(t));
    check_elementwise(line, "shl %x, %c", &t, 1, t, 128, 1, "sm_90a", 0, 5);
    check_elementwise(line, "shr %x, %c", &t, 1, t, 128, 1, "sm_90a", 0, 6);
  }
}

static void test_float_arithmetic(void **state) {
  EACH(t, floats) {
    binary("add %x, %y", t, 0);
    binary("sub %x, %y", t, 0);
    binary("mul %x, %y", t, 0);
    binary("div %x, %y", t, 1e-6);
    binary("div %x, %y {rounding=1}", t, 0);
    binary("min %x, %y", t, 0);
    binary("max %x, %y", t, 0);
    binary("min %x, %y {nan=1}", t, 0);
    binary("max %x, %y {nan=1}", t, 0);
    check_op("neg %x", &t, 1, t, 0);
    check_op("abs %x", &t, 1, t, 0);
    check_op("fma %x, %y, %z", (Dtype[]){t, t, t}, 3, t, 0);
  }
}

static void test_bools(void **state) {
  static const char *const lines[] = {"add %x, %y", "sub %x, %y", "mul %x, %y", "and %x, %y",
                                      "or %x, %y",  "xor %x, %y", "min %x, %y", "max %x, %y"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) binary(lines[i], DT_I1, 0);
  Dtype t = DT_I1;
  check_op("not %x", &t, 1, t, 0);
}

static void test_compare(void **state) {
  static const char *const preds[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  char line[64];
  for (int p = 0; p < 6; p++) {
    snprintf(line, sizeof line, "cmp %%x, %%y {pred=%s}", preds[p]);
    EACH(t, ints) check_op(line, (Dtype[]){t, t}, 2, DT_I1, 0);
    EACH(f, floats) check_op(line, (Dtype[]){f, f}, 2, DT_I1, 0);
    check_op(line, (Dtype[]){DT_I1, DT_I1}, 2, DT_I1, 0);
  }
}

static void test_select(void **state) {
  EACH(t, ints) check_op("select %x, %y, %z", (Dtype[]){DT_I1, t, t}, 3, t, 0);
  EACH(f, floats) check_op("select %x, %y, %z", (Dtype[]){DT_I1, f, f}, 3, f, 0);
  check_op("select %x, %y, %z", (Dtype[]){DT_I1, DT_I1, DT_I1}, 3, DT_I1, 0);
}

/* ---- conversions: all pairs ---- */

static void test_convert(void **state) {
  for (int from = 0; from < DT_COUNT; from++)
    for (int to = 0; to < DT_COUNT; to++) {
      Dtype f = (Dtype)from;
      if (from == to) continue;
      check_op("convert %x", &f, 1, (Dtype)to, 0);
    }
}

static void test_convert_towards_zero(void **state) {
  for (int from = DT_F8E5; from < DT_COUNT; from++)
    for (int to = DT_F8E5; to < DT_F64; to++) {
      Dtype f = (Dtype)from;
      if (from == to) continue;
      check_op("convert %x {rounding=1}", &f, 1, (Dtype)to, 0);
    }
}

/* All bit patterns of the narrow types, and what lies between the numbers of fp8. */
static void test_convert_everything(void **state) {
  for (int to = DT_F8E5; to <= DT_F8E5B16; to++)
    for (int zero = 0; zero < 2; zero++) {
      Dtype from = DT_F16;
      char line[64];
      snprintf(line, sizeof line, "convert %%x {rounding=%d}", zero);
      Buf b = {0};
      buf_printf(&b,
                 "kernel @k(%%p: *f16 {divisible=16}, %%o: *%s {divisible=16}) {\n  %%g = program_id {axis=0} : i32\n  "
                 "%%n = const {value=2048} : i32\n"
                 "  %%b = mul %%g, %%n : i32\n  %%t = splat %%b : i32[2048]\n  %%j = arange {start=0, end=2048} : "
                 "i32[2048]\n  %%i = add %%t, %%j : i32[2048]\n"
                 "  %%s = splat %%p : *f16[2048]\n  %%a = addptr %%s, %%i : *f16[2048]\n  %%x = load %%a : f16[2048]\n "
                 " %%r = %s : %s[2048]\n"
                 "  %%so = splat %%o : *%s[2048]\n  %%ao = addptr %%so, %%i : *%s[2048]\n  store %%ao, %%r\n}\n",
                 dtype_name((Dtype)to), line, dtype_name((Dtype)to), dtype_name((Dtype)to), dtype_name((Dtype)to));
      for (int t = 0; t < TARGETS; t++) {
        Kit k = kit_of(b.at);
        k.grid[0] = 32;
        k.target = targets[t];
        uint16_t *x = kit_array(&k, from, 65536);
        for (int i = 0; i < 65536; i++) x[i] = (uint16_t)i;
        kit_array(&k, (Dtype)to, 65536);
        kit_check(&k);
        kit_free(&k);
      }
      buf_destroy(&b);
    }
}

static void test_bitcast(void **state) {
  static const Dtype pairs[][2] = {{DT_F32, DT_I32},  {DT_I32, DT_F32},  {DT_F16, DT_I16}, {DT_I16, DT_F16},
                                   {DT_BF16, DT_U16}, {DT_U16, DT_BF16}, {DT_F64, DT_I64}, {DT_U64, DT_F64},
                                   {DT_I8, DT_U8},    {DT_U8, DT_I8},    {DT_F8E5, DT_I8}, {DT_I8, DT_F8E4NV},
                                   {DT_F16, DT_BF16}, {DT_U32, DT_I32},  {DT_I16, DT_U16}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) check_op("bitcast %x", &pairs[i][0], 1, pairs[i][1], 0);
}

/* ---- memory ---- */

/* Copies n elements from p + shift to o, masked by i < m, with `other`; sizes that divide 16 let vectors be formed. */
static void check_copy(Dtype t, int n, int shift, int m, bool other, int warps) {
  Buf b = {0};
  const char *d = dtype_name(t);
  buf_printf(&b, "kernel @k(%%p: *%s {divisible=16}, %%o: *%s {divisible=16}, %%m: i32 {divisible=%d}) {\n", d, d,
             m % 16 ? 1 : 16);
  buf_printf(&b,
             "  %%i = arange {start=0, end=%d} : i32[%d]\n  %%c = const {value=%d} : i32[%d]\n  %%j = add %%i, %%c : "
             "i32[%d]\n",
             n, n, shift, n, n);
  buf_printf(&b, "  %%s = splat %%p : *%s[%d]\n  %%a = addptr %%s, %%j : *%s[%d]\n  %%ms = splat %%m : i32[%d]\n", d, n,
             d, n, n);
  buf_printf(&b, "  %%k = cmp %%i, %%ms {pred=lt} : i1[%d]\n", n);
  if (other) buf_printf(&b, "  %%v = const {%s} : %s[%d]\n", dtype_is_float(t) ? "value=2.5" : "value=1", d, n);
  buf_printf(&b, "  %%x = load %%a, %%k%s : %s[%d]\n", other ? ", %v" : "", d, n);
  buf_printf(&b, "  %%so = splat %%o : *%s[%d]\n  %%ao = addptr %%so, %%j : *%s[%d]\n  store %%ao, %%x\n", d, n, d, n);
  buf_printf(&b, "  %%e = const {value=%d} : i32[%d]\n  %%ae = addptr %%ao, %%e : *%s[%d]\n  store %%ae, %%x, %%k\n}\n",
             n + 16, n, d, n);
  Kit k = kit_of(b.at);
  k.warps = warps;
  int size = 2 * n + shift + 16;
  kit_fill(t, kit_array(&k, t, n + shift), n + shift, 11);
  kit_fill(t, kit_array(&k, t, size), size, 12);
  kit_int(&k, m);
  kit_check(&k);
  kit_free(&k);
  buf_destroy(&b);
}

static void test_copies(void **state) {
  for (int t = 0; t < DT_COUNT; t++) {
    check_copy((Dtype)t, 1024, 0, 512, false, 4);
    check_copy((Dtype)t, 1024, 0, 1000, true, 1);
    check_copy((Dtype)t, 256, 1, 250, true, 2);
    check_copy((Dtype)t, 32, 16, 16, true, 8);
    check_copy((Dtype)t, 4, 0, 3, true, 4);
  }
}

static void test_scalars(void **state) {
  for (int t = 0; t < DT_COUNT; t++) {
    char ir[600];
    const char *d = dtype_name((Dtype)t);
    snprintf(ir, sizeof ir,
             "kernel @k(%%p: *%s, %%o: *%s) {\n  %%g = program_id {axis=0} : i32\n  %%a = addptr %%p, %%g : *%s\n  %%x "
             "= load %%a : %s\n"
             "  %%b = addptr %%o, %%g : *%s\n  store %%b, %%x\n}\n",
             d, d, d, d, d);
    Kit k = kit_of(ir);
    k.grid[0] = 7;
    kit_fill((Dtype)t, kit_array(&k, (Dtype)t, 7), 7, 3);
    kit_array(&k, (Dtype)t, 7);
    kit_check(&k);
    kit_free(&k);
  }
}

static void test_offsets(void **state) {
  static const Dtype types[] = {DT_I8, DT_U8, DT_I16, DT_U16, DT_I32, DT_U32, DT_I64, DT_U64};
  EACH(t, types) {
    char ir[1200];
    const char *d = dtype_name(t);
    snprintf(
        ir, sizeof ir,
        "kernel @k(%%p: *f64 {divisible=16}, %%o: *f64 {divisible=16}) {\n  %%i = arange {start=0, end=64} : i32[64]\n"
        "  %%c = convert %%i : %s[64]\n  %%u = const {value=63} : %s[64]\n  %%j = sub %%u, %%c : %s[64]\n"
        "  %%s = splat %%p : *f64[64]\n  %%a = addptr %%s, %%j : *f64[64]\n  %%x = load %%a : f64[64]\n"
        "  %%so = splat %%o : *f64[64]\n  %%ao = addptr %%so, %%i : *f64[64]\n  store %%ao, %%x\n}\n",
        d, d, d);
    Kit k = kit_of(ir);
    k.warps = 1;
    double *x = kit_array(&k, DT_F64, 64);
    for (int i = 0; i < 64; i++) x[i] = i;
    kit_array(&k, DT_F64, 64);
    kit_check(&k);
    kit_free(&k);
  }
}

/* ---- shapes ---- */

/* A kernel on x = load i32[8,16] (x[i][j] = 16 i + j) that stores %r of the given type at consecutive places. */
static void check_shape(const char *lines, int rank, const int *shape, int warps) {
  Buf b = {0};
  char type[64] = "";
  int n = 1;
  for (int d = 0; d < rank; d++) {
    snprintf(type + strlen(type), sizeof type - strlen(type), "%s%d", d ? "," : "", shape[d]);
    n *= shape[d];
  }
  buf_puts(
      &b, "kernel @k(%p: *i32 {divisible=16}, %o: *i32 {divisible=16}) {\n  %i = arange {start=0, end=128} : i32[128]\n"
          "  %i2 = reshape %i : i32[8,16]\n  %s = splat %p : *i32[8,16]\n  %a = addptr %s, %i2 : *i32[8,16]\n  %x = "
          "load %a : i32[8,16]\n");
  buf_printf(&b, "%s\n  %%l = arange {start=0, end=%d} : i32[%d]\n  %%l2 = reshape %%l : i32[%s]\n", lines, n, n, type);
  buf_printf(&b, "  %%so = splat %%o : *i32[%s]\n  %%ao = addptr %%so, %%l2 : *i32[%s]\n  store %%ao, %%r\n}\n", type,
             type);
  Kit k = kit_of(b.at);
  k.warps = warps;
  int32_t *x = kit_array(&k, DT_I32, 128);
  for (int i = 0; i < 128; i++) x[i] = i * 3 + 1;
  kit_array(&k, DT_I32, n);
  kit_check(&k);
  kit_free(&k);
  buf_destroy(&b);
}

static void test_shapes(void **state) {
  for (int warps = 1; warps <= 8; warps *= 2) {
    check_shape("  %r = trans %x {dims=[1,0]} : i32[16,8]", 2, (int[]){16, 8}, warps);
    check_shape("  %r = reshape %x : i32[4,4,8]", 3, (int[]){4, 4, 8}, warps);
    check_shape("  %y = reshape %x : i32[4,4,8]\n  %r = trans %y {dims=[2,0,1]} : i32[8,4,4]", 3, (int[]){8, 4, 4},
                warps);
    check_shape("  %y = expand_dims %x {axis=1} : i32[8,1,16]\n  %r = broadcast %y : i32[8,4,16]", 3, (int[]){8, 4, 16},
                warps);
    check_shape("  %y = expand_dims %x {axis=2} : i32[8,16,1]\n  %r = broadcast %y : i32[8,16,8]", 3, (int[]){8, 16, 8},
                warps);
    check_shape("  %y = add %x, %x : i32[8,16]\n  %r = join %x, %y : i32[8,16,2]", 3, (int[]){8, 16, 2}, warps);
    check_shape(
        "  %y = reshape %x : i32[8,8,2]\n  %u, %v = split %y : i32[8,8], i32[8,8]\n  %r = sub %u, %v : i32[8,8]", 2,
        (int[]){8, 8}, warps);
    check_shape("  %y = mul %x, %x : i32[8,16]\n  %r = cat %x, %y {axis=0} : i32[16,16]", 2, (int[]){16, 16}, warps);
    check_shape("  %y = mul %x, %x : i32[8,16]\n  %r = cat %x, %y {axis=1} : i32[8,32]", 2, (int[]){8, 32}, warps);
    check_shape("  %c = const {value=9} : i32\n  %y = splat %c : i32[8,16]\n  %r = sub %x, %y : i32[8,16]", 2,
                (int[]){8, 16}, warps);
    check_shape("  %c = const {value=9} : i32\n  %d = expand_dims %c {axis=0} : i32[1]\n  %e = reshape %d : i32\n  %y "
                "= splat %e : i32[8,16]\n  %r = add %x, %y : i32[8,16]",
                2, (int[]){8, 16}, warps);
  }
}

/* ---- control ---- */

static void check_kernel(const char *ir, int n_in, int n_out, int32_t m, int grid, bool list) {
  Kit k = kit_of(ir);
  k.grid[0] = grid;
  k.list = list;
  int32_t *x = kit_array(&k, DT_I32, n_in);
  for (int i = 0; i < n_in; i++) x[i] = (i * 7919) % 257 - 100;
  kit_array(&k, DT_I32, n_out);
  kit_int(&k, m);
  kit_check(&k);
  kit_free(&k);
}

static void test_control(void **state) {
  static const char loop[] =
      "kernel @k(%p: *i32 {divisible=16}, %o: *i32 {divisible=16}, %m: i32) {\n"
      "  %i = arange {start=0, end=128} : i32[128]\n  %s = splat %p : *i32[128]\n  %a = addptr %s, %i : *i32[128]\n"
      "  %zero = const {value=0} : i32\n  %one = const {value=1} : i32\n  %init = const {value=0} : i32[128]\n  %step "
      "= const {value=128} : i32[128]\n"
      "  %r, %q, %w = for %zero, %m, %one, %init, %a, %zero : i32[128], *i32[128], i32 do (%j: i32, %acc: i32[128], "
      "%ptr: *i32[128], %n: i32) {\n"
      "    %x = load %ptr : i32[128]\n    %t = splat %j : i32[128]\n    %y = mul %x, %t : i32[128]\n    %z = add %acc, "
      "%y : i32[128]\n"
      "    %next = addptr %ptr, %step : *i32[128]\n    %n2 = add %n, %j : i32\n    yield %z, %next, %n2\n  }\n"
      "  %c = cmp %w, %one {pred=gt} : i1\n"
      "  %f = if %c : i32[128] do () {\n    %u = splat %w : i32[128]\n    %v = add %r, %u : i32[128]\n    yield %v\n  "
      "} do () {\n    yield %init\n  }\n"
      "  %so = splat %o : *i32[128]\n  %ao = addptr %so, %i : *i32[128]\n  store %ao, %f\n}\n";
  for (int m = 0; m < 6; m++) check_kernel(loop, 128 * 6, 128, m, 1, false);
  static const char whiles[] =
      "kernel @k(%p: *i32 {divisible=16}, %o: *i32 {divisible=16}, %m: i32) {\n"
      "  %g = program_id {axis=0} : i32\n  %h = num_programs {axis=0} : i32\n  %k = add %m, %g : i32\n  %one = const "
      "{value=1} : i32\n  %two = const {value=2} : i32\n  %three = const {value=3} : i32\n"
      "  %r, %c = while %k, %h : i32, i32 do (%a: i32, %b: i32) {\n    %t = cmp %a, %one {pred=gt} : i1\n    condition "
      "%t, %a, %b\n  } do (%a1: i32, %b1: i32) {\n"
      "    %odd = and %a1, %one : i32\n    %is = cmp %odd, %one {pred=eq} : i1\n"
      "    %n = if %is : i32 do () {\n      %u = mul %a1, %three : i32\n      %v = add %u, %one : i32\n      yield "
      "%v\n    } do () {\n      %w = div %a1, %two : i32\n      yield %w\n    }\n"
      "    %b2 = add %b1, %one : i32\n    yield %n, %b2\n  }\n"
      "  %e = addptr %o, %g : *i32\n  store %e, %c\n}\n";
  for (int list = 0; list < 2; list++) check_kernel(whiles, 1, 20, 5, 20, list);
}

/* Programs of a three-dimensional grid know themselves, in order and by list. */
static void test_programs(void **state) {
  static const char ir[] =
      "kernel @k(%o: *i32) {\n  %x = program_id {axis=0} : i32\n  %y = program_id {axis=1} : i32\n  %z = program_id "
      "{axis=2} : i32\n"
      "  %nx = num_programs {axis=0} : i32\n  %ny = num_programs {axis=1} : i32\n  %nz = num_programs {axis=2} : i32\n"
      "  %a = mul %z, %ny : i32\n  %b = add %a, %y : i32\n  %c = mul %b, %nx : i32\n  %d = add %c, %x : i32\n  %p = "
      "addptr %o, %d : *i32\n"
      "  %h = const {value=100} : i32\n  %e = mul %x, %h : i32\n  %f = add %e, %y : i32\n  %g = mul %f, %h : i32\n  %i "
      "= add %g, %z : i32\n  %v = add %i, %nz : i32\n"
      "  store %p, %v\n}\n";
  for (int list = 0; list < 2; list++) {
    Kit k = kit_of(ir);
    k.grid[0] = 3, k.grid[1] = 4, k.grid[2] = 5;
    k.list = list;
    kit_array(&k, DT_I32, 60);
    kit_check(&k);
    kit_free(&k);
  }
}

/* ---- atomics ---- */

/* Every element of x[256] updates o[i % 16] (or o[i], `apart`); the old values go to r when they cannot depend on
 * order. */
static void check_atomic(const char *kind, Dtype t, bool apart, int warps, const char *target, int n) {
  char ir[2400];
  const char *d = dtype_name(t);
  snprintf(ir, sizeof ir,
           "kernel @k(%%p: *%s {divisible=16}, %%o: *%s {divisible=16}, %%q: *%s {divisible=16}) {\n  %%i = arange "
           "{start=0, end=%d} : i32[%d]\n"
           "  %%s = splat %%p : *%s[%d]\n  %%a = addptr %%s, %%i : *%s[%d]\n  %%x = load %%a : %s[%d]\n"
           "  %%c = const {value=%d} : i32[%d]\n  %%j = and %%i, %%c : i32[%d]\n  %%m5 = const {value=5} : i32[%d]\n  "
           "%%rem = rem %%i, %%m5 : i32[%d]\n"
           "  %%m = cmp %%rem, %%m5 {pred=ne} : i1[%d]\n  %%three = const {value=3} : i32[%d]\n  %%mask = cmp %%rem, "
           "%%three {pred=ne} : i1[%d]\n"
           "  %%so = splat %%o : *%s[%d]\n  %%ao = addptr %%so, %%j : *%s[%d]\n  %%old = atomic_rmw %%ao, %%x%s "
           "{kind=%s} : %s[%d]\n",
           d, d, d, n, n, d, n, d, n, d, n, apart ? n - 1 : 15, n, n, n, n, n, n, n, d, n, d, n, apart ? "" : ", %mask",
           kind, d, n);
  if (apart)
    snprintf(ir + strlen(ir), sizeof ir - strlen(ir),
             "  %%sq = splat %%q : *%s[%d]\n  %%aq = addptr %%sq, %%i : *%s[%d]\n  store %%aq, %%old\n", d, n, d, n);
  strcat(ir, "}\n");
  Kit k = kit_of(ir);
  k.warps = warps;
  k.target = target;
  k.tolerance = dtype_is_float(t) && !apart ? 1e-2 : 0;
  char *x = kit_array(&k, t, n), *o = kit_array(&k, t, n);
  kit_array(&k, t, n);
  for (int i = 0; i < n; i++) {
    if (dtype_is_float(t)) {
      dtype_store_float(t, x + i * dtype_bytes(t), apart || strcmp(kind, "add") ? (i * 37 % 100) - 50 : i % 7);
      dtype_store_float(t, o + i * dtype_bytes(t), (i * 53 % 100) - 50);
    } else {
      dtype_store_int(t, x + i * dtype_bytes(t), (i * 37 % 100) - 50);
      dtype_store_int(t, o + i * dtype_bytes(t), (i * 53 % 100) - 50);
    }
  }
  kit_check(&k);
  kit_free(&k);
}

static void test_atomics(void **state) {
  static const Dtype wide[] = {DT_I32, DT_U32, DT_I64, DT_U64, DT_F32, DT_F64};
  static const char *const kinds[] = {"add", "max", "min", "and", "or", "xor", "xchg"};
  for (int target = 0; target < TARGETS; target++)
    for (int warps = 1; warps <= 4; warps *= 4) {
      EACH(t, wide)
      for (int kind = 0; kind < 7; kind++) {
        if (dtype_is_float(t) && kind >= 3 && kind < 6) continue;
        check_atomic(kinds[kind], t, true, warps, targets[target], 256);
        check_atomic(kinds[kind], t, true, warps, targets[target], 16); /* copies */
        if (kind < 6) check_atomic(kinds[kind], t, false, warps, targets[target], 256);
      }
      check_atomic("add", DT_F16, true, warps, targets[target], 256);
      check_atomic("add", DT_BF16, true, warps, targets[target], 256);
      check_atomic("add", DT_F16, false, warps, targets[target], 256);
      check_atomic("add", DT_BF16, false, warps, targets[target], 256);
    }
}

static void test_vector_atomics(void **state) { /* no mask, no result: the widest forms */
  static const Dtype types[] = {DT_F32, DT_F16, DT_BF16};
  EACH(t, types)
  for (int target = 0; target < TARGETS; target++) {
    char ir[900];
    const char *d = dtype_name(t);
    snprintf(ir, sizeof ir,
             "kernel @k(%%p: *%s {divisible=16}, %%o: *%s {divisible=16}) {\n  %%i = arange {start=0, end=1024} : "
             "i32[1024]\n  %%s = splat %%p : *%s[1024]\n"
             "  %%a = addptr %%s, %%i : *%s[1024]\n  %%x = load %%a : %s[1024]\n  %%so = splat %%o : *%s[1024]\n  %%ao "
             "= addptr %%so, %%i : *%s[1024]\n"
             "  %%old = atomic_rmw %%ao, %%x {kind=add} : %s[1024]\n}\n",
             d, d, d, d, d, d, d, d);
    Kit k = kit_of(ir);
    k.target = targets[target];
    k.grid[0] = 3;
    char *x = kit_array(&k, t, 1024);
    for (int i = 0; i < 1024; i++) dtype_store_float(t, x + i * dtype_bytes(t), i % 17 - 8);
    kit_array(&k, t, 1024);
    kit_check(&k);
    kit_free(&k);
  }
}

static void test_scalar_atomics(void **state) {
  static const char ir[] =
      "kernel @k(%o: *i32, %q: *i32) {\n  %g = program_id {axis=0} : i32\n  %one = const {value=1} : i32\n  %old = "
      "atomic_rmw %o, %one {kind=add} : i32\n"
      "  %i = arange {start=0, end=64} : i32[64]\n  %sixtyfour = const {value=64} : i32\n  %b = mul %old, %sixtyfour : "
      "i32\n  %bs = splat %b : i32[64]\n  %at = add %bs, %i : i32[64]\n"
      "  %sq = splat %q : *i32[64]\n  %aq = addptr %sq, %at : *i32[64]\n  %v = splat %old : i32[64]\n  store %aq, %v\n"
      "  %o1 = addptr %o, %one : *i32\n  %old2 = atomic_cas %o1, %g, %old : i32\n  %p = addptr %o1, %one : *i32\n  %pp "
      "= addptr %p, %g : *i32\n  store %pp, %old2\n"
      "  %unused = atomic_rmw %o, %one {kind=xor} : i32\n  %again = atomic_rmw %o, %one {kind=xor} : i32\n}\n";
  for (int warps = 1; warps <= 8; warps *= 2) {
    Kit k = kit_of(ir);
    k.warps = warps;
    k.grid[0] = 9;
    kit_array(&k, DT_I32, 16);
    kit_array(&k, DT_I32, 64 * 9);
    kit_check(&k);
    kit_free(&k);
  }
}

static void test_cas(void **state) {
  static const Dtype types[] = {DT_I16, DT_U16, DT_F16, DT_I32, DT_F32, DT_I64, DT_F64};
  EACH(t, types) {
    char ir[1200];
    const char *d = dtype_name(t);
    snprintf(ir, sizeof ir,
             "kernel @k(%%p: *%s {divisible=16}, %%o: *%s {divisible=16}, %%q: *%s) {\n  %%i = arange {start=0, "
             "end=128} : i32[128]\n  %%s = splat %%p : *%s[128]\n"
             "  %%a = addptr %%s, %%i : *%s[128]\n  %%x = load %%a : %s[128]\n  %%so = splat %%o : *%s[128]\n  %%ao = "
             "addptr %%so, %%i : *%s[128]\n"
             "  %%old = atomic_cas %%ao, %%x, %%x : %s[128]\n  %%old2 = atomic_cas %%ao, %%old, %%x : %s[128]\n  %%sq "
             "= splat %%q : *%s[128]\n  %%aq = addptr %%sq, %%i : *%s[128]\n  store %%aq, %%old2\n}\n",
             d, d, d, d, d, d, d, d, d, d, d, d);
    Kit k = kit_of(ir);
    k.warps = 8;
    kit_fill(t, kit_array(&k, t, 128), 128, 1);
    kit_fill(t, kit_array(&k, t, 128), 128, 2);
    kit_array(&k, t, 128);
    kit_check(&k);
    kit_free(&k);
  }
}

/* ---- print, assert ---- */

static void test_print(void **state) {
  Kit k = kit_of("kernel @k(%o: *i32) {\n  %g = program_id {axis=0} : i32\n  %i = arange {start=0, end=16} : i32[16]\n "
                 " %t = splat %g : i32[16]\n"
                 "  %j = add %i, %t : i32[16]\n  %d = convert %g : f64\n  print %j, %d {hex=0, text=\" v: \"}\n}\n");
  k.grid[0] = 2;
  kit_array(&k, DT_I32, 1);
  kit_check(&k);
  assert_int_equal(k.diag->used, 2 * 17 * (GPU_RECORD_WORDS + 2));
  int seen[2][16] = {{0}}, scalars = 0;
  for (uint32_t at = 0; at < k.diag->used; at += GPU_RECORD_WORDS + 2) {
    const uint32_t *w = k.diag->words + at;
    if (w[0] == 1) {
      assert_true(w[1] < 2 && w[4] < 16 && w[2] == 0 && w[3] == 0);
      seen[w[1]][w[4]]++;
      assert_int_equal(w[5], w[4] + w[1]);
    } else {
      double v;
      memcpy(&v, w + 5, 8);
      assert_true(v == w[1]);
      scalars++;
    }
  }
  for (int g = 0; g < 2; g++)
    for (int i = 0; i < 16; i++) assert_int_equal(seen[g][i], 1);
  assert_int_equal(scalars, 2);
  kit_free(&k);
}

/* After 2^32 words the count begins again; the record at the seam is lost. */
static void test_print_much(void **state) {
  Kit k = kit_of("kernel @k(%o: *i32) {\n  %g = program_id {axis=0} : i32\n  print %g {hex=0, text=\"\"}\n}\n");
  kit_array(&k, DT_I32, 1);
  k.diag_used = UINT32_MAX - 1;
  kit_check(&k);
  assert_int_equal(k.diag->used, GPU_RECORD_WORDS);
  for (int i = 0; i < GPU_RECORD_WORDS; i++) assert_int_equal(k.diag->words[i], 0);
  kit_free(&k);
}

static void test_assert(void **state) {
  Kit k = kit_of("kernel @k(%o: *i32) {\n  %i = arange {start=0, end=256} : i32[256]\n  %c = const {value=77} : "
                 "i32[256]\n  %t = cmp %i, %c {pred=ne} : i1[256]\n"
                 "  assert %t {text=\"not 77\"}\n}\n");
  kit_array(&k, DT_I32, 1);
  kit_check(&k);
  assert_int_equal(k.diag->failed, 1);
  assert_int_equal(k.diag->used, GPU_RECORD_WORDS);
  assert_int_equal(k.diag->words[4], 77);
  kit_free(&k);
}

/* ---- the order of accesses by different threads ---- */

static int count_barriers(const char *ir) {
  Context *cx = context_create();
  Buf text = {0};
  int n = 0;
  if (context_try(cx)) {
    Kit k = kit_of(ir);
    GpuOptions o = {.target = gpu_target_find("sm_90a"), .verify = true};
    lane_print(&text, gpu_compile(kit_parse(&k, cx), &o), false);
    context_end_try(cx);
  } else {
    diags_print(&text, cx, false);
    fail_msg("%s", text.at);
  }
  for (const char *p = text.at; (p = strstr(p, "barrier")); p++) n++;
  buf_destroy(&text);
  context_destroy(cx);
  return n;
}

#define TILE(n) \
  "  %i = arange {start=0, end=" #n "} : i32[" #n "]\n  %s = splat %p : *i32[" #n "]\n  %a = addptr %s, %i : *i32[" #n \
  "]\n"

static void test_order(void **state) {
  /* Each thread its own elements. */
  assert_int_equal(count_barriers("kernel @k(%p: *i32 {divisible=16}, %q: *i32) {\n" TILE(
                       1024) "  %x = load %a : i32[1024]\n  %y = add %x, %x : i32[1024]\n  store %a, %y\n}\n"),
                   0);
  /* All load a scalar, one stores it. */
  assert_int_equal(
      count_barriers(
          "kernel @k(%p: *i32, %q: *i32) {\n  %x = load %p : i32\n  %y = add %x, %x : i32\n  store %p, %y\n}\n"),
      1);
  /* Into what may be the same memory. */
  assert_int_equal(
      count_barriers(
          "kernel @k(%p: *i32, %q: *i32) {\n  %x = load %p : i32\n  %y = add %x, %x : i32\n  store %q, %y\n}\n"),
      1);
  /* Fewer elements than threads. */
  assert_int_equal(count_barriers("kernel @k(%p: *i32 {divisible=16}, %q: *i32) {\n" TILE(
                       16) "  %x = load %a : i32[16]\n  %y = add %x, %x : i32[16]\n  store %a, %y\n}\n"),
                   1);
  assert_int_equal(
      count_barriers("kernel @k(%p: *i32 {divisible=16}, %q: *i32) {\n" TILE(16) "  store %a, %i\n  store %a, %i\n}\n"),
      0);
  /* A barrier that is there already. */
  assert_int_equal(
      count_barriers("kernel @k(%p: *i32, %q: *i32) {\n  %x = load %p : i32\n  barrier\n  store %p, %x\n}\n"), 1);
  /* Turn after turn: before the load, and before the store; after the loop once more. */
  static const char loop[] =
      "kernel @k(%p: *i32, %n: i32) {\n  %zero = const {value=0} : i32\n  %one = const {value=1} : i32\n"
      "  for %zero, %n, %one do (%i: i32) {\n    %x = load %p : i32\n    %y = add %x, %one : i32\n    store %p, %y\n   "
      " yield\n  }\n"
      "  %z = load %p : i32\n  %q = addptr %p, %one : *i32\n  %w = addptr %q, %z : *i32\n  %t = load %w : i32\n  %v = "
      "add %t, %z : i32\n  store %w, %v\n}\n";
  assert_int_equal(count_barriers(loop), 4);
  /* In either branch, seen after both. */
  static const char branch[] =
      "kernel @k(%p: *i32, %n: i32) {\n  %zero = const {value=0} : i32\n  %c = cmp %n, %zero {pred=gt} : i1\n"
      "  if %c do () {\n    store %p, %n\n    yield\n  } do () {\n    %x = load %p : i32\n    assert %x {text=\"\"}\n  "
      "  yield\n  }\n  %y = load %p : i32\n  assert %y {text=\"\"}\n}\n";
  assert_int_equal(count_barriers(branch), 1);
}

/* A pointer that may be one argument or another, and pointers that a loop swaps. */
static void test_order_of_choices(void **state) {
  static const char either[] = "kernel @k(%p: *i32, %q: *i32, %flag: i1) {\n  %t = select %flag, %p, %q : *i32\n"
                               "  %x = load %q : i32\n  store %t, %x\n}\n";
  assert_int_equal(count_barriers(either), 1);
  static const char swap[] = "kernel @k(%p: *i32, %q: *i32, %r: *i32, %n: i32) {\n  %zero = const {value=0} : i32\n"
                             "  %one = const {value=1} : i32\n  %a, %b = for %zero, %n, %one, %p, %q : *i32, *i32 do "
                             "(%i: i32, %from: *i32, %to: *i32) {\n    %x = load %from : i32\n    store %to, %x\n"
                             "    yield %to, %from\n  }\n}\n";
  assert_int_equal(count_barriers(swap), 2);
  static const char loaded[] = "kernel @k(%p: **i32, %q: *i32) {\n  %t = load %p : *i32\n  %x = load %q : i32\n"
                               "  store %t, %x\n}\n";
  assert_int_equal(count_barriers(loaded), 1);
}

/* ---- what loads ask of the caches ---- */

static int priority_of_loads, priority_of_stores; /* of all global ones; -1: none, or different ones */

static void see_priority(LaneOp *op, void *arg) {
  bool *any = arg; /* loads, stores */
  if ((op->code != LANE_LD && op->code != LANE_ST) || op->space != SPACE_GLOBAL) return;
  int *seen = op->code == LANE_LD ? &priority_of_loads : &priority_of_stores;
  *seen = !any[op->code == LANE_ST] || *seen == op->evict ? op->evict : -1;
  any[op->code == LANE_ST] = true;
}

static int priority(const char *target, const char *body) {
  Context *cx = context_create();
  priority_of_loads = priority_of_stores = -1;
  if (context_try(cx)) {
    char ir[2000];
    snprintf(ir, sizeof ir,
             "kernel @k(%%p: *f32 {divisible=16}, %%q: *f32 {divisible=16}) {\n  %%g = program_id {axis=0} : i32\n  "
             "%%n = const {value=512} : i32\n"
             "  %%r = mul %%g, %%n : i32\n  %%pg = addptr %%p, %%r : *f32\n  %%qg = addptr %%q, %%r : *f32\n  %%i = "
             "arange {start=0, end=512} : i32[512]\n"
             "  %%ps = splat %%pg : *f32[512]\n  %%a = addptr %%ps, %%i : *f32[512]\n  %%qs = splat %%qg : *f32[512]\n "
             " %%o = addptr %%qs, %%i : *f32[512]\n"
             "  %%ws = splat %%p : *f32[512]\n  %%w = addptr %%ws, %%i : *f32[512]\n%s}\n",
             body);
    Kit k = kit_of(ir);
    GpuOptions o = {.target = gpu_target_find(target), .verify = true};
    bool any[2] = {false, false};
    lane_walk(gpu_compile(kit_parse(&k, cx), &o)->body, see_priority, any);
    context_end_try(cx);
  } else {
    Buf text = {0};
    diags_print(&text, cx, false);
    fail_msg("%s", text.at);
  }
  context_destroy(cx);
  return priority_of_loads;
}

static void test_priorities(void **state) {
  static const char stores[] = "  %x = load %a : f32[512]\n  store %o, %x\n";
  assert_int_equal(priority("sm_90a", stores), PRIORITY_L2_LAST);
  assert_int_equal(priority_of_stores, PRIORITY_L2_LAST);
  assert_int_equal(priority("sm_90a", "  %x = load %a : f32[512]\n  store %o, %x {evict=normal}\n"), PRIORITY_L2_LAST);
  assert_int_equal(priority_of_stores, PRIORITY_NONE);
  assert_int_equal(priority("sm_80", stores), PRIORITY_NONE); /* nobody has measured there */
  assert_int_equal(priority_of_stores, PRIORITY_NONE);
  /* every program reads the same */
  assert_int_equal(priority("sm_90a", "  %x = load %w : f32[512]\n  store %o, %x\n"), PRIORITY_LAST);
  assert_int_equal(priority("sm_80", "  %x = load %w : f32[512]\n  store %o, %x\n"), PRIORITY_LAST);
  /* the kernel's own word stands */
  assert_int_equal(priority("sm_90a", "  %x = load %a {evict=first} : f32[512]\n  store %o, %x\n"), PRIORITY_FIRST);
  assert_int_equal(priority("sm_90a", "  %x = load %a {evict=normal} : f32[512]\n  store %o, %x\n"), PRIORITY_NONE);
  assert_int_equal(priority("sm_90a", "  %x = load %a {cache=cg} : f32[512]\n  store %o, %x\n"), PRIORITY_NONE);
  assert_int_equal(priority("sm_90a", "  %x = load %a : f32[512]\n  %y = atomic_rmw %o, %x {kind=add} : f32[512]\n"),
                   PRIORITY_NO_L1);
  assert_int_equal(priority("sm_90a", "  %s = load %pg : f32\n  store %qg, %s\n"), PRIORITY_NONE);
  assert_int_equal(priority_of_stores, PRIORITY_NONE);
  assert_int_equal(priority("sm_90a", "  %zero = const {value=0} : i32\n  %one = const {value=1} : i32\n  for %zero, "
                                      "%n, %one do (%k: i32) {\n    %x = load %a : f32[512]\n"
                                      "    %y = atomic_rmw %o, %x {kind=add} : f32[512]\n    yield\n  }\n"),
                   PRIORITY_NONE);
}

/* ---- inline assembly: the text ---- */

static void check_asm(const char *element, const char *line, const char *want) {
  char ir[1000];
  snprintf(ir, sizeof ir,
           "kernel @k(%%p: *%s {divisible=16}, %%o: *%s {divisible=16}) {\n  %%i = arange {start=0, end=512} : "
           "i32[512]\n  %%s = splat %%p : *%s[512]\n"
           "  %%k = const {value=202} : i32[512]\n"
           "  %%a = addptr %%s, %%i : *%s[512]\n  %%x = load %%a : %s[512]\n  %%r = %s\n  %%so = splat %%o : "
           "*%s[512]\n  %%ao = addptr %%so, %%i : *%s[512]\n"
           "  store %%ao, %%r\n}\n",
           element, element, element, element, element, line, element, element);
  Context *cx = context_create();
  Buf text = {0};
  if (context_try(cx)) {
    Kit k = kit_of(ir);
    GpuOptions o = {.target = gpu_target_find("sm_90a"), .verify = true};
    LaneFunc *lane = gpu_compile(kit_parse(&k, cx), &o);
    gpu_print_ptx(&text, lane, o.target, false);
    context_end_try(cx);
  } else {
    diags_print(&text, cx, false);
  }
  if (!text.at || !strstr(text.at, want)) fail_msg("expected \"%s\" in:\n%s", want, text.at);
  buf_destroy(&text);
  context_destroy(cx);
}

static void test_asm(void **state) {
  check_asm("i32", "asm %x {pure=1, pack=1, text=\"shl.b32 $0, $1, 3;\\x1f=r,r\"} : i32[512]", "shl.b32 %r");
  check_asm("i32", "asm %x, %k, %x {pure=1, pack=1, text=\"lop3.b32 $0, $1, ${3}, $1, $2;\\x1f=r,r,n,r\"} : i32[512]",
            ", 202;"); /* known now, as the instruction wants it */
  check_asm("i32", "asm %x, %x {pure=1, pack=1, text=\"lop3.b32 $0, $1, $1, $1, $2;\\x1f=r,r,n\"} : i32[512]",
            "with the constraint 'n' is no constant");
  /* the loaded word itself */
  check_asm("i8", "asm %x {pure=1, pack=4, text=\"not.b32 $0, $1;\\x1f=r,r\"} : i8[512]", "not.b32 %r4, %r3;");
  check_asm("f16", "asm %x {pure=1, pack=2, text=\"neg.f16x2 $0, $1;\\x1f=r,r\"} : f16[512]", "neg.f16x2 %r");
  check_asm("f16", "asm %x {pure=1, pack=1, text=\"neg.f16 $0, $1;\\x1f=h,h\"} : f16[512]", "neg.f16 %h");
  check_asm("f64", "asm %x, %x {pure=1, pack=1, text=\"add.f64 $0, $1, $2;\\x1f=d,d,d\"} : f64[512]", "add.f64 %rd");
  /* no ; after a comment */
  check_asm("i32", "asm %x {pure=1, pack=1, text=\"/* $ */ not.b32 $0, $1; // a\\n  \\x1f=r,r\"} : i32[512]",
            " not.b32 %r7, %r3; \n  \n");
  check_asm("i32", "asm %x {pure=1, pack=1, text=\"mov.b32 $0, $1;\\x1f=r,r,r\"} : i32[512]",
            "1 results and 1 operands need as many constraints");
  check_asm("i32", "asm %x {pure=1, pack=1, text=\"mov.b32 $0, $1;\\x1f=r,q\"} : i32[512]",
            "the constraint 'q' is not one of r, f, h, l, d");
  check_asm("i32", "asm %x {pure=1, pack=1, text=\"mov.b32 $0, $1;\\x1f=l,r\"} : i32[512]",
            "a register of another width");
}

/* ---- refusals ---- */

static void test_refusals(void **state) {
  Kit k =
      kit_of("kernel @k(%o: *i8) {\n  %one = const {value=1} : i8\n  %old = atomic_rmw %o, %one {kind=add} : i8\n}\n");
  k.fails = "no such atomic operation on elements of type i8";
  kit_check(&k);
  k = kit_of("kernel @k(%o: *i32) {\n  %i = arange {start=0, end=48} : i32[48]\n  %s = splat %o : *i32[48]\n  %a = "
             "addptr %s, %i : *i32[48]\n  store %a, %i\n}\n");
  k.fails = "powers of 2";
  kit_check(&k);
  k = kit_of("kernel @k(%o: *i32) {\n  %one = const {value=1} : i32\n  store %o, %one\n}\n");
  k.warps = 3;
  k.fails = "num_warps is 3";
  kit_check(&k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_int_arithmetic),
      cmocka_unit_test(test_division),
      cmocka_unit_test(test_division_by_one),
      cmocka_unit_test(test_division_of_wrapped),
      cmocka_unit_test(test_division_by_constants),
      cmocka_unit_test(test_division_of_halves),
      cmocka_unit_test(test_shifts),
      cmocka_unit_test(test_float_arithmetic),
      cmocka_unit_test(test_bools),
      cmocka_unit_test(test_compare),
      cmocka_unit_test(test_select),
      cmocka_unit_test(test_convert),
      cmocka_unit_test(test_convert_towards_zero),
      cmocka_unit_test(test_convert_everything),
      cmocka_unit_test(test_bitcast),
      cmocka_unit_test(test_copies),
      cmocka_unit_test(test_scalars),
      cmocka_unit_test(test_offsets),
      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_control),
      cmocka_unit_test(test_programs),
      cmocka_unit_test(test_atomics),
      cmocka_unit_test(test_vector_atomics),
      cmocka_unit_test(test_scalar_atomics),
      cmocka_unit_test(test_cas),
      cmocka_unit_test(test_print),
      cmocka_unit_test(test_print_much),
      cmocka_unit_test(test_assert),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_order_of_choices),
      cmocka_unit_test(test_priorities),
      cmocka_unit_test(test_asm),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
