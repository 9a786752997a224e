/* The CPU back end against the interpreter: every elementwise operation on every type, as vectors and as scalars. */
#include "test_cpu_kit.h"

static Buf ir;

static void begin(const char *format, ...) PRINTF_LIKE(1, 2);
static void begin(const char *format, ...) {
  buf_destroy(&ir);
  ir = (Buf){0};
  va_list ap;
  va_start(ap, format);
  buf_vprintf(&ir, format, ap);
  va_end(ap);
}
#define ADD(...) buf_printf(&ir, __VA_ARGS__)

/* Loads three operands of type t; out[op][i] = op(...), each op into its own stretch of the output. */
static void kernel_head(const char *t, const char *out, const char *shape, int n) {
  begin("kernel @k(%%x: *%s, %%y: *%s, %%z: *%s, %%o: *%s) {\n", t, t, t, out);
  if (*shape) {
    ADD("  %%i = arange {start=0, end=%d} : i32[%d]\n", n, n);
    for (const char *p = "xyz"; *p; p++) {
      ADD("  %%p%c = splat %%%c : *%s[%d]\n  %%q%c = addptr %%p%c, %%i : *%s[%d]\n  %%%c%c = load %%q%c : %s[%d]\n", *p,
          *p, t, n, *p, *p, t, n, *p, *p, *p, t, n);
    }
  } else {
    for (const char *p = "xyz"; *p; p++) ADD("  %%%c%c = load %%%c : %s\n", *p, *p, *p, t);
  }
}

static int stored;
static void store_value(const char *value, const char *out, const char *shape, int n) {
  int k = stored++;
  ADD("  %%c%d = const {value=%d} : i32\n  %%b%d = addptr %%o, %%c%d : *%s\n", k, k * n, k, k, out);
  if (*shape) {
    ADD("  %%s%d = splat %%b%d : *%s[%d]\n  %%a%d = addptr %%s%d, %%i : *%s[%d]\n  store %%a%d, %s\n", k, k, out, n, k,
        k, out, n, k, value);
  } else {
    ADD("  store %%b%d, %s\n", k, value);
  }
}

static const char *const int_ops[] = {"add", "sub", "mul", "div", "rem",   "and",
                                      "or",  "xor", "min", "max", "mulhi", NULL};
static const char *const float_ops[] = {"add", "sub", "mul",         "div",         "rem",
                                        "min", "max", "min {nan=1}", "max {nan=1}", NULL};
static const char *const bool_ops[] = {"add", "sub", "mul", "and", "or", "xor", "min", "max", NULL};
static const char *const unary_int[] = {"neg", "not", "abs", NULL};
static const char *const unary_float[] = {"neg", "abs", NULL};

static void binary_text(char *s, size_t size, const char *op, const char *x, const char *y) {
  const char *brace = strchr(op, '{');
  if (brace) snprintf(s, size, "%.*s %s, %s %s", (int)(brace - op - 1), op, x, y, brace);
  else snprintf(s, size, "%s %s, %s", op, x, y);
}

static void check_type(Dtype d, int n, Fill fill) {
  const char *t = dtype_name(d);
  char shape[16] = "";
  if (n > 0) snprintf(shape, sizeof shape, "[%d]", n);
  else n = 1;
  bool floats = dtype_is_float(d);
  const char *const *ops = d == DT_I1 ? bool_ops : floats ? float_ops : int_ops;
  stored = 0;
  kernel_head(t, t, shape, n);
  for (int i = 0; ops[i]; i++) {
    char s[64];
    binary_text(s, sizeof s, ops[i], "%xx", "%yy");
    bool divides = !strcmp(ops[i], "div") || !strcmp(ops[i], "rem");
    if (divides && !floats) {
      /* x/0 and MIN/-1 may be anything: y of 0 or -1 becomes 3. */
      ADD("  %%one%d = const {value=1} : %s%s\n  %%three%d = const {value=3} : %s%s\n", i, t, shape, i, t, shape);
      ADD("  %%yp%d = add %%yy, %%one%d : %s%s\n", i, i, t, shape);
      ADD("  %%le%d = cmp %%yp%d, %%one%d {pred=le} : i1%s\n", i, i, i, shape);
      ADD("  %%d%d = select %%le%d, %%three%d, %%yy : %s%s\n", i, i, i, t, shape);
      char y[16];
      snprintf(y, sizeof y, "%%d%d", i);
      binary_text(s, sizeof s, ops[i], "%xx", y);
    }
    ADD("  %%r%d = %s : %s%s\n", i, s, t, shape);
    char v[16];
    snprintf(v, sizeof v, "%%r%d", i);
    store_value(v, t, shape, n);
  }
  const char *const *unary = floats ? unary_float : unary_int;
  for (int i = 0; unary[i]; i++) {
    char v[16];
    ADD("  %%u%d = %s %%xx : %s%s\n", i, unary[i], t, shape);
    snprintf(v, sizeof v, "%%u%d", i);
    store_value(v, t, shape, n);
  }
  static const char *const preds[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (int i = 0; i < 6; i++) {
    char v[16];
    ADD("  %%m%d = cmp %%xx, %%yy {pred=%s} : i1%s\n  %%w%d = select %%m%d, %%xx, %%zz : %s%s\n", i, preds[i], shape, i,
        i, t, shape);
    snprintf(v, sizeof v, "%%w%d", i);
    store_value(v, t, shape, n);
  }
  if (d != DT_I1 && !floats) {
    /* Shift counts within the width. */
    ADD("  %%width = const {value=7} : %s%s\n  %%count = and %%yy, %%width : %s%s\n", t, shape, t, shape);
    ADD("  %%shl = shl %%xx, %%count : %s%s\n  %%shr = shr %%xx, %%count : %s%s\n", t, shape, t, shape);
    store_value("%shl", t, shape, n);
    store_value("%shr", t, shape, n);
  }
  if (floats) {
    ADD("  %%fma = fma %%xx, %%yy, %%zz : %s%s\n", t, shape);
    store_value("%fma", t, shape, n);
  }
  ADD("}\n");
  cpu_check(&(CpuCase){.ir = ir.at, .count = stored * n, .fill = fill});
}

static void test_arithmetic(void **state) {
  (void)state;
  for (int d = 0; d < DT_COUNT; d++) {
    check_type((Dtype)d, 64, FILL_SMALL);
    if (!dtype_is_float((Dtype)d)) check_type((Dtype)d, 32, FILL_WIDE);
  }
}

static void test_scalars(void **state) {
  (void)state;
  for (int d = 0; d < DT_COUNT; d++) check_type((Dtype)d, 0, FILL_SMALL);
}

static void test_short(void **state) {
  (void)state;
  check_type(DT_F32, 2, FILL_SMALL);
  check_type(DT_I64, 4, FILL_WIDE);
  check_type(DT_BF16, 8, FILL_SMALL);
  check_type(DT_I8, 1, FILL_SMALL);
}

static void check_converts(Dtype from, int n) {
  /* Every target takes its own kernel's output array: one kernel a pair keeps failures readable, one a source keeps cc
   * calls few. */
  const char *t = dtype_name(from);
  char shape[16] = "";
  if (n) snprintf(shape, sizeof shape, "[%d]", n);
  else n = 1;
  begin("kernel @k(%%x: *%s", t);
  for (int d = 0; d < DT_COUNT; d++) ADD(", %%o%d: *%s", d, dtype_name((Dtype)d));
  ADD(") {\n");
  if (*shape) {
    ADD("  %%i = arange {start=0, end=%d} : i32[%d]\n  %%p = splat %%x : *%s[%d]\n  %%q = addptr %%p, %%i : *%s[%d]\n  "
        "%%xx = load %%q : %s[%d]\n",
        n, n, t, n, t, n, t, n);
  } else {
    ADD("  %%xx = load %%x : %s\n", t);
  }
  for (int d = 0; d < DT_COUNT; d++) {
    const char *to = dtype_name((Dtype)d);
    if ((Dtype)d == from) continue;
    /* none in the language */
    if ((dtype_is_fp8((Dtype)d) && dtype_is_int(from)) || (dtype_is_fp8(from) && dtype_is_int((Dtype)d))) continue;
    ADD("  %%v%d = convert %%xx : %s%s\n", d, to, shape);
    if (*shape) {
      ADD("  %%s%d = splat %%o%d : *%s[%d]\n  %%a%d = addptr %%s%d, %%i : *%s[%d]\n  store %%a%d, %%v%d\n", d, d, to, n,
          d, d, to, n, d, d);
    } else {
      ADD("  store %%o%d, %%v%d\n", d, d);
    }
    if (dtype_bits((Dtype)d) == dtype_bits(from)) {
      ADD("  %%b%d = bitcast %%xx : %s%s\n", d, to, shape);
      ADD("  %%bc%d = const {value=%d} : i32\n  %%bp%d = addptr %%o%d, %%bc%d : *%s\n", d, n, d, d, d, to);
      if (*shape) {
        ADD("  %%bs%d = splat %%bp%d : *%s[%d]\n  %%ba%d = addptr %%bs%d, %%i : *%s[%d]\n  store %%ba%d, %%b%d\n", d, d,
            to, n, d, d, to, n, d, d);
      } else {
        ADD("  store %%bp%d, %%b%d\n", d, d);
      }
    }
  }
  ADD("}\n");
  cpu_check(&(CpuCase){.ir = ir.at, .count = 2 * n});
}

static void test_converts(void **state) {
  (void)state;
  for (int d = 0; d < DT_COUNT; d++) {
    check_converts((Dtype)d, 64);
    check_converts((Dtype)d, 0);
  }
}

/* Narrowing towards zero, from f32 and f64. */
static void test_towards_zero(void **state) {
  (void)state;
  static const Dtype to[] = {DT_F16, DT_BF16, DT_F8E5, DT_F8E4NV, DT_F8E4B15, DT_F8E4B8, DT_F8E5B16};
  for (int wide = 0; wide < 2; wide++) {
    const char *t = wide ? "f64" : "f32";
    begin("kernel @k(%%x: *%s", t);
    for (int d = 0; d < 7; d++) ADD(", %%o%d: *%s", d, dtype_name(to[d]));
    ADD(") {\n  %%i = arange {start=0, end=64} : i32[64]\n  %%p = splat %%x : *%s[64]\n  %%q = addptr %%p, %%i : "
        "*%s[64]\n  %%xx = load %%q : %s[64]\n  %%one = load %%x : %s\n",
        t, t, t, t);
    for (int d = 0; d < 7; d++) {
      const char *n = dtype_name(to[d]);
      ADD("  %%v%d = convert %%xx {rounding=1} : %s[64]\n  %%s%d = splat %%o%d : *%s[64]\n  %%a%d = addptr %%s%d, %%i "
          ": *%s[64]\n  store %%a%d, %%v%d\n",
          d, n, d, d, n, d, d, n, d, d);
      ADD("  %%w%d = convert %%one {rounding=1} : %s\n  %%c%d = const {value=64} : i32\n  %%b%d = addptr %%o%d, %%c%d "
          ": *%s\n  store %%b%d, %%w%d\n",
          d, n, d, d, d, d, n, d, d);
    }
    ADD("}\n");
    cpu_check(&(CpuCase){.ir = ir.at, .count = 65});
  }
}

/* Every function of math.def, every signature, on numbers in [0.1, 1]. */
static void test_math(void **state) {
  (void)state;
  for (int vector = 0; vector < 2; vector++) {
    for (int at = 0; at < MATH_COUNT; at += 25) {
      const char *shape = vector ? "[32]" : "";
      begin("kernel @k(%%f32: *f32, %%f64: *f64, %%i32: *i32, %%i64: *i64, %%u32: *u32, %%u64: *u64, %%of32: *f32, "
            "%%of64: *f64, %%oi32: *i32, "
            "%%oi64: *i64, %%ou32: *u32, %%ou64: *u64, %%oi1: *i1) {\n");
      static const char *const types[] = {"f32", "f64", "i32", "i64", "u32", "u64"};
      if (vector) ADD("  %%i = arange {start=0, end=32} : i32[32]\n");
      for (int k = 0; k < 6; k++)
        for (int j = 0; j < 4; j++) {
          const char *t = types[k];
          ADD("  %%c%d%d = const {value=%d} : i32\n  %%b%d%d = addptr %%%s, %%c%d%d : *%s\n", k, j, j * 32, k, j, t, k,
              j, t);
          if (vector)
            ADD("  %%s%d%d = splat %%b%d%d : *%s[32]\n  %%q%d%d = addptr %%s%d%d, %%i : *%s[32]\n  %%%s_%d = load "
                "%%q%d%d : %s[32]\n",
                k, j, k, j, t, k, j, k, j, t, t, j, k, j, t);
          else ADD("  %%%s_%d = load %%b%d%d : %s\n", t, j, k, j, t);
        }
      int n = 0;
      for (int fn = at; fn < at + 25 && fn < MATH_COUNT; fn++) {
        const char *sig = math_info[fn].sig;
        if (!strcmp(math_info[fn].name, "rcp64h")) continue;
        while (*sig) {
          char one[64], args[64] = "";
          int length = (int)strcspn(sig, " ");
          snprintf(one, sizeof one, "%.*s", length, sig);
          sig += length + (sig[length] == ' ');
          char *colon = strchr(one, ':');
          *colon = 0;
          const char *out = colon + 1;
          int j = 0;
          char *save = NULL;
          for (char *t = strtok_r(one, ",", &save); t; t = strtok_r(NULL, ",", &save), j++)
            snprintf(args + strlen(args), sizeof args - strlen(args), "%s%%%s_%d", j ? ", " : "", t, j);
          ADD("  %%r%d = math %s {fn=%s} : %s%s\n", n, args, math_info[fn].name, out, shape);
          ADD("  %%k%d = const {value=%d} : i32\n  %%ob%d = addptr %%o%s, %%k%d : *%s\n", n, n * 32, n, out, n, out);
          if (vector)
            ADD("  %%os%d = splat %%ob%d : *%s[32]\n  %%oa%d = addptr %%os%d, %%i : *%s[32]\n  store %%oa%d, %%r%d\n",
                n, n, out, n, n, out, n, n);
          else ADD("  store %%ob%d, %%r%d\n", n, n);
          n++;
        }
      }
      ADD("}\n");
      cpu_check(&(CpuCase){.ir = ir.at, .count = 32 * (n > 4 ? n : 4), .fill = FILL_UNIT, .tolerance = 2e-5});
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_scalars), cmocka_unit_test(test_short),
      cmocka_unit_test(test_converts),   cmocka_unit_test(test_math),    cmocka_unit_test(test_towards_zero),
  };
  int failed = cmocka_run_group_tests(tests, kit_setup, kit_teardown);
  buf_destroy(&ir);
  return failed;
}
