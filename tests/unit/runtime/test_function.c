/* What a program can know of a compiled function and of what went wrong: kinds of errors, warnings, options, keys,
 * slots, and launches by slots. */
#include "unit/runtime/runtime_kit.h"

static const char text[] = "import triton\n"
                           "import triton.language as tl\n"
                           "\n"
                           "@triton.jit\n"
                           "def scale(x, n, f, pair, N: tl.constexpr):\n"
                           "    i = tl.arange(0, N)\n"
                           "    v = tl.load(x + i, mask=i < n, other=0.0)\n"
                           "    tl.store(x + i, v * f + pair[0] + pair[1][0], mask=i < n)\n"
                           "\n"
                           "@triton.jit\n"
                           "def warns(x):\n"
                           "    p = tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,))\n"
                           "    p.advance((0,))\n"
                           "    for i in range(0, 3):\n"
                           "        pass\n"
                           "    tl.store(x, i)\n"
                           "\n"
                           "@triton.jit\n"
                           "def product(a, b, c):\n"
                           "    i = tl.arange(0, 16)\n"
                           "    at = i[:, None] * 16 + i[None, :]\n"
                           "    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))\n"
                           "\n"
                           "@triton.jit\n"
                           "def counts(x, n):\n"
                           "    tl.store(x, n + 2147483647)\n";

/* The call fails with this status and a text that holds `part`. */
#define assert_says(call, want, part) \
  do { \
    nereid_error *error = NULL; \
    assert_int_equal((call), want); \
    if (!strstr(nereid_error_text(error), part)) fail_msg("%s lacks %s", nereid_error_text(error), part); \
    nereid_error_free(error); \
  } while (0)

static nereid_module *load(const char *source) {
  nereid_module *m = NULL;
  assert_ok(nereid_module_load_string("f.py", source, &m, &error));
  return m;
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void test_kinds(void **state) {
  (void)state;
  static const struct {
    const char *body;
    nereid_error_kind kind;
  } cases[] = {{"    x = undefined\n", NEREID_ERROR_NAME},
               {"    x = GLOBAL\n", NEREID_ERROR_NAME},
               {"    x = lambda y: y\n", NEREID_ERROR_UNSUPPORTED},
               {"    tl.static_assert(False, 'no')\n", NEREID_ERROR_ASSERTION},
               {"    tl.arange(0, 5)\n", NEREID_ERROR_VALUE},
               {"    tl.load(3, nonsense=1)\n", NEREID_ERROR_TYPE},
               {"    tl.device_assert(tl.program_id(0) > 0)\n", NEREID_ERROR_FAULT}};
  nereid_device *d = kit_device("interp");
  int64_t grid[3] = {1, 1, 1};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char source[400];
    snprintf(source, sizeof source,
             "import triton\nimport triton.language as tl\nGLOBAL = 3\n@triton.jit\ndef k():\n%s", cases[i].body);
    nereid_module *m = load(source);
    nereid_error *e = NULL;
    assert_int_not_equal(nereid_launch(d, NULL, m, "k", grid, NULL, 0, &(nereid_options){.debug = true}, &e),
                         NEREID_OK);
    if (nereid_error_get_kind(e) != cases[i].kind)
      fail_msg("kind %d: %s", (int)nereid_error_get_kind(e), nereid_error_text(e));
    assert_false(nereid_error_resource(e, NULL, NULL, NULL));
    nereid_error_free(e);
    nereid_module_free(m);
  }
  nereid_module *m = NULL;
  nereid_error *e = NULL;
  assert_int_equal(nereid_module_load_string("f.py", "def f(:\n", &m, &e), NEREID_BAD_SOURCE);
  assert_int_equal(nereid_error_get_kind(e), NEREID_ERROR_SYNTAX);
  nereid_error_free(e);
  assert_int_equal(nereid_error_get_kind(NULL), NEREID_ERROR_OTHER);
  m = load(text);
  assert_int_equal(nereid_launch(d, NULL, m, "warns", grid, NULL, 0, NULL, &e), NEREID_BAD_ARGUMENT);
  assert_int_equal(nereid_error_get_kind(e), NEREID_ERROR_LAUNCH);
  nereid_error_free(e);
  nereid_module_free(m);
  nereid_device_close(d);
}

static void keep_warning(void *arg, const nereid_error *warning) {
  char *to = arg;
  const char *file;
  int line;
  nereid_error_place(warning, &file, &line, NULL);
  size_t used = strlen(to);
  snprintf(to + used, 400 - used, "%s:%d %s\n", file, line, nereid_error_message(warning));
}

static void test_calls(void **state) {
  (void)state;
  nereid_module *m = load("import triton\nimport triton.language as tl\n@triton.jit\ndef g(x):\n    tl.arange(0, 5)\n"
                          "@triton.jit\ndef f(x):\n    y = 1 + g(x)\n@triton.jit\ndef k():\n    f(3)\n");
  nereid_error *e = NULL;
  char *out = NULL;
  assert_int_equal(nereid_inspect(m, "k", NULL, 0, NULL, "tile-raw", NULL, &out, &e), NEREID_BAD_SOURCE);
  const char *file;
  int line, column;
  nereid_error_place(e, &file, &line, &column);
  assert_int_equal(line, 5);
  assert_int_equal(nereid_error_call_count(e), 2);
  assert_true(nereid_error_call(e, 0, &file, &line, &column));
  assert_string_equal(file, "f.py");
  assert_int_equal(line, 8);
  assert_int_equal(column, 13);
  assert_true(nereid_error_call(e, 1, &file, &line, NULL));
  assert_int_equal(line, 11);
  assert_false(nereid_error_call(e, 2, NULL, NULL, NULL));
  nereid_error_free(e);
  nereid_module_free(m);
}

static void test_constexpr_types(void **state) {
  (void)state;
  nereid_module *m =
      load("import triton\nimport triton.language as tl\nfrom triton.language.core import constexpr_type\n"
           "@triton.jit\ndef k(T: tl.constexpr):\n    t: tl.constexpr = (5, 6, 7)\n"
           "    tl.static_assert(t.type == constexpr_type((5, 6, 7)))\n"
           "    tl.static_assert(T.type == constexpr_type((5, 6, 7)))\n"
           "    u: tl.constexpr = T\n    tl.static_assert(u.type == t.type and u == t)\n"
           "    c = tl.full((4,), 0, tl.uint32)\n    tl.where(c, 1, 2)\n");
  char *out = NULL, said[400] = "";
  nereid_arg t = nereid_constexpr("(5, 6, 7)");
  nereid_options o = {.warn = keep_warning, .warn_arg = said};
  assert_ok(nereid_inspect(m, "k", &t, 1, &o, "tile-raw", NULL, &out, &error));
  assert_non_null(strstr(said, "f.py:12 tl.where with a non-boolean condition is deprecated"));
  free(out);
  nereid_module_free(m);
}

static void test_warnings(void **state) {
  (void)state;
  nereid_device *d = kit_device("interp");
  nereid_module *m = load(text);
  float x = 0;
  int64_t grid[3] = {1, 1, 1};
  char said[400] = "";
  nereid_arg arg = nereid_pointer(&x, NEREID_F32);
  nereid_options o = {.warn = keep_warning, .warn_arg = said};
  assert_ok(nereid_register(d, &x, sizeof x, "x", &error));
  assert_ok(nereid_launch(d, NULL, m, "warns", grid, &arg, 1, &o, &error));
  assert_non_null(strstr(said, "f.py:13 The result of p.advance is not being used"));
  assert_non_null(strstr(said, "f.py:16 `i` has no defined value here"));
  said[0] = 0;
  assert_ok(nereid_launch(d, NULL, m, "warns", grid, &arg, 1, &o, &error)); /* it is compiled already */
  assert_string_equal(said, "");
  nereid_module_free(m);
  nereid_device_close(d);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static char *stage_of(nereid_module *m, const char *kernel, const nereid_arg *args, int n, const nereid_options *o,
                      const char *stage) {
  char *out = NULL;
  assert_ok(nereid_inspect(m, kernel, args, n, o, stage, strcmp(stage, "c") ? "sm_90a" : "host", &out, &error));
  return out;
}

static void has(nereid_module *m, const char *kernel, const nereid_arg *args, int n, const nereid_options *o,
                const char *stage, const char *what, bool there) {
  char *out = stage_of(m, kernel, args, n, o, stage);
  if ((strstr(out, what) != NULL) != there) fail_msg("%s: %s\n%s", there ? "missing" : "there", what, out);
  free(out);
}

static void test_options(void **state) {
  (void)state;
  nereid_module *m = load(text);
  float x[256];
  nereid_arg items[] = {nereid_float(1), nereid_float(2)}, inner = {.kind = NEREID_ARG_TUPLE, .item_count = 1};
  inner.items = &items[1];
  nereid_arg pair_items[] = {items[0], inner}, pair = {.kind = NEREID_ARG_TUPLE, .item_count = 2, .items = pair_items};
  nereid_arg scale[] = {nereid_pointer(x, NEREID_F32), nereid_int(3), nereid_float(2), pair, nereid_constexpr_int(64)};
  nereid_arg product[] = {nereid_pointer(x, NEREID_F32), nereid_pointer(x, NEREID_F32), nereid_pointer(x, NEREID_F32)};
  const nereid_options unfused = {.no_fp_fusion = true}, few = {.max_registers = 40}, none = {0},
                       ieee = {.dot_precision = "IEEE"}, wrong = {.dot_precision = "tf33"},
                       many = {.max_registers = 300};
  has(m, "scale", scale, 5, &none, "ptx", "mul.rn.f32", false);
  has(m, "scale", scale, 5, &unfused, "ptx", "mul.rn.f32", true);
  has(m, "scale", scale, 5, &none, "c", "fp-contract=off", false);
  has(m, "scale", scale, 5, &unfused, "c", "fp-contract=off", true);
  has(m, "scale", scale, 5, &none, "ptx", ".maxnreg", false);
  has(m, "scale", scale, 5, &few, "ptx", ".maxnreg 40\n", true);
  has(m, "product", product, 3, &none, "tile", "ieee", false);
  has(m, "product", product, 3, &ieee, "tile", "ieee", true);
  char *out = NULL;
  assert_says(nereid_inspect(m, "scale", scale, 5, &wrong, "tile", NULL, &out, &error), NEREID_BAD_ARGUMENT,
              "dot_precision: there is no 'tf33'");
  assert_says(nereid_inspect(m, "scale", scale, 5, &many, "tile", NULL, &out, &error), NEREID_BAD_ARGUMENT,
              "max_registers is 300");
  nereid_module_free(m);
}

/* Not fused, 1 + 2^-23 times itself, less 1 + 2^-22, is 0; fused it is 2^-46. */
static void test_fusion(void **state) {
  (void)state;
  nereid_module *m = load("import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n"
                          "    i = tl.arange(0, 64)\n    v = tl.load(x + i)\n"
                          "    tl.store(x + i, v * v - (1 + 2.0 ** -22))\n");
  nereid_device *d = kit_device("cpu");
  int64_t grid[3] = {1, 1, 1};
  float x[64];
  for (int i = 0; i < 64; i++) x[i] = 1 + 0x1p-23f;
  nereid_arg arg = nereid_pointer(x, NEREID_F32);
  assert_ok(nereid_launch(d, NULL, m, "k", grid, &arg, 1, &(nereid_options){.no_fp_fusion = true}, &error));
  for (int i = 0; i < 64; i++) assert_true(x[i] == 0);
  nereid_module_free(m);
  nereid_device_close(d);
}

static void test_overflow(void **state) {
  (void)state;
  nereid_device *d = kit_device("interp");
  nereid_module *m = load(text);
  int32_t x = 0;
  int64_t grid[3] = {1, 1, 1};
  nereid_arg args[] = {nereid_pointer(&x, NEREID_I32), nereid_int(7)};
  assert_ok(nereid_register(d, &x, sizeof x, "x", &error));
  assert_says(nereid_launch(d, NULL, m, "counts", grid, args, 2, &(nereid_options){.debug = true}, &error),
              NEREID_KERNEL_FAULT, "overflow");
  const nereid_options o = {.debug = true, .no_sanitize_overflow = true};
  assert_ok(nereid_launch(d, NULL, m, "counts", grid, args, 2, &o, &error));
  assert_int_equal(x, INT32_MIN + 6);
  nereid_module_free(m);
  nereid_device_close(d);
}

static void test_undefined(void **state) {
  (void)state;
  nereid_device *d = kit_device("interp");
  nereid_module *m = load("import triton\nimport triton.language as tl\n\n@triton.jit\ndef looks(x, n):\n"
                          "    i = tl.arange(0, 8)\n    v = tl.load(x + i, mask=i < n)\n"
                          "    tl.store(x + i, v, mask=v > 0)\n");
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  int64_t grid[3] = {1, 1, 1};
  nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_int(7)};
  assert_ok(nereid_register(d, x, sizeof x, "x", &error));
  nereid_options o = {.size = sizeof o, .debug = true};
  assert_says(nereid_launch(d, NULL, m, "looks", grid, args, 2, &o, &error), NEREID_KERNEL_FAULT, "undefined mask");
  o.allow_unwritten = true;
  assert_ok(nereid_launch(d, NULL, m, "looks", grid, args, 2, &o, &error));
  nereid_module_free(m);
  nereid_device_close(d);
}

/* ---- keys, slots ------------------------------------------------------------------------------------------------- */

static void test_keys(void **state) {
  (void)state;
  nereid_device *d = kit_device("cpu");
  nereid_module *m = load(text);
  float x[64] = {0};
  nereid_arg items[] = {nereid_float(1), nereid_float(2)}, inner = {.kind = NEREID_ARG_TUPLE, .item_count = 1};
  inner.items = &items[1];
  nereid_arg pair_items[] = {items[0], inner}, pair = {.kind = NEREID_ARG_TUPLE, .item_count = 2, .items = pair_items};
  nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_int(3), nereid_float(2), pair, nereid_constexpr_int(64)};
  char key[33], other[33];
  nereid_function *f = NULL;
  assert_ok(nereid_compile(d, m, "scale", args, 5, NULL, &f, &error));
  assert_string_equal(nereid_function_name(f), "scale");
  nereid_function_key(f, key);
  assert_int_equal(strlen(key), 32);
  assert_ok(nereid_key(d, m, "scale", args, 5, NULL, other, &error));
  assert_string_equal(key, other);
  args[1] = nereid_int(5);
  assert_ok(nereid_key(d, m, "scale", args, 5, NULL, other, &error));
  assert_string_equal(key, other);
  args[1] = nereid_int(16);
  assert_ok(nereid_key(d, m, "scale", args, 5, NULL, other, &error));
  assert_string_not_equal(key, other);
  args[1] = nereid_int(3);
  assert_ok(nereid_key(d, m, "scale", args, 5, &(nereid_options){.no_fp_fusion = true}, other, &error));
  assert_string_not_equal(key, other);
  args[4] = nereid_none();
  args[4].kind = NEREID_ARG_DESCRIPTOR;
  assert_int_equal(nereid_key(d, m, "scale", args, 5, NULL, other, NULL), NEREID_BAD_ARGUMENT);

  /* x, n, f, pair[0], pair[1][0] */
  assert_int_equal(nereid_function_slot_count(f), 5);
  nereid_slot s = {.size = sizeof s};
  assert_true(nereid_function_slot(f, 0, &s));
  assert_true(s.is_pointer && s.dtype == NEREID_F32 && s.param == 0 && s.kind == NEREID_SLOT_VALUE);
  assert_true(nereid_function_slot(f, 4, &s));
  assert_true(!s.is_pointer && s.param == 3 && s.depth == 2 && s.path[0] == 1 && s.path[1] == 0);
  assert_false(nereid_function_slot(f, 5, &s));
  s = (nereid_slot){.size = offsetof(nereid_slot, path), .dim = 77}; /* of an older program */
  assert_true(nereid_function_slot(f, 4, &s));
  assert_true(s.param == 3 && s.dim == 77 && s.size == offsetof(nereid_slot, path));
  s.size = 0;
  assert_false(nereid_function_slot(f, 0, &s));
  nereid_function_free(f);
  nereid_module_free(m);
  nereid_device_close(d);
}

static uint64_t bits_of(float v) {
  uint32_t u;
  memcpy(&u, &v, sizeof u);
  return u;
}

static void test_values(void **state) {
  (void)state;
  static const char *const devices[] = {"cpu", "interp", "sim"};
  for (int k = 0; k < 3; k++) {
    nereid_device *d = kit_device(devices[k]);
    nereid_module *m = load(text);
    float x[64];
    nereid_arg items[] = {nereid_float(1), nereid_float(2)}, inner = {.kind = NEREID_ARG_TUPLE, .item_count = 1};
    inner.items = &items[1];
    nereid_arg pair_items[] = {items[0], inner},
               pair = {.kind = NEREID_ARG_TUPLE, .item_count = 2, .items = pair_items};
    nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_int(3), nereid_float(2), pair, nereid_constexpr_int(64)};
    nereid_function *f = NULL;
    int64_t grid[3] = {1, 1, 1};
    if (k) assert_ok(nereid_register(d, x, sizeof x, "x", &error));
    for (int i = 0; i < 64; i++) x[i] = 1;
    assert_ok(nereid_compile(d, m, "scale", args, 5, NULL, &f, &error));
    uint64_t values[] = {(uint64_t)(uintptr_t)x, 5, bits_of(10), bits_of(100), bits_of(1000)};
    assert_ok(nereid_run_values(f, NULL, grid, values, &error));
    for (int i = 0; i < 64; i++) assert_true(x[i] == (i < 5 ? 1110 : 1));
    grid[0] = -1;
    assert_says(nereid_run_values(f, NULL, grid, values, &error), NEREID_BAD_ARGUMENT, "-1 programs");
    assert_says(nereid_run_values(f, NULL, grid, NULL, &error), NEREID_BAD_ARGUMENT, "values is NULL");
    nereid_function_free(f);
    nereid_module_free(m);
    nereid_device_close(d);
  }
}

static void test_types(void **state) {
  (void)state;
  nereid_device *d = kit_device("cpu");
  nereid_module *m = load("import triton\nimport triton.language as tl\n@triton.jit\ndef k(p, i, f, b, n):\n"
                          "    tl.static_assert(n is None)\n"
                          "    tl.store(p, f + i + b)\n");
  static const char *const signature[] = {"*fp16:16", "i64:16", "fp64", "i1", "none"};
  nereid_arg args[5];
  for (int i = 0; i < 5; i++) assert_true(nereid_arg_of_type(signature[i], &args[i]));
  char *out = NULL;
  assert_ok(nereid_inspect(m, "k", args, 5, NULL, "tile-raw", NULL, &out, &error));
  assert_non_null(strstr(out, "%p: *f16 {divisible=16}"));
  assert_non_null(strstr(out, "%i: i64 {divisible=16}"));
  assert_non_null(strstr(out, "%f: f64"));
  free(out);
  static const char *const wrong[] = {"*fp17", "fp32:16", "*fp32:1", "i32:4", "", "*", NULL};
  for (int i = 0; wrong[i]; i++) assert_false(nereid_arg_of_type(wrong[i], &args[0]));
  assert_false(nereid_arg_of_type(NULL, &args[0]));
  nereid_module_free(m);
  nereid_device_close(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_kinds),    cmocka_unit_test(test_calls),     cmocka_unit_test(test_constexpr_types),
      cmocka_unit_test(test_warnings), cmocka_unit_test(test_options),   cmocka_unit_test(test_fusion),
      cmocka_unit_test(test_overflow), cmocka_unit_test(test_undefined), cmocka_unit_test(test_keys),
      cmocka_unit_test(test_values),   cmocka_unit_test(test_types)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
