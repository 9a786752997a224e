/* The public interface: devices, memory, modules, arguments, specializations, launches, inspection, evaluation. */
#include "unit/runtime/runtime_kit.h"

#include <math.h>

static const char *const devices[] = {"interp", "cpu", "cpu:3"};
enum { DEVICE_COUNT = 3 };

/* ---- devices, memory --------------------------------------------------------------------------------------------- */

static void test_devices(void **state) {
  nereid_device_info info[8];
  setenv("NEREID_LIBCUDA", "/nonexistent", 1);
  int n = nereid_devices(info, 8);
  assert_int_equal(n, 4);
  assert_string_equal(info[0].name, "cpu");
  assert_true(info[0].available);
  assert_true(info[0].threads >= 1 && info[0].memory_bytes > 0);
  assert_non_null(strstr(info[0].description, "thread"));
  assert_string_equal(info[1].name, "interp");
  assert_string_equal(info[2].name, "sim");
  assert_string_equal(info[3].name, "cuda");
  assert_false(info[3].available);
  assert_int_equal(nereid_devices(NULL, 0), 4);
  unsetenv("NEREID_LIBCUDA");
  nereid_device_close(NULL);
}

static void test_memory(void **state) {
  for (int k = 0; k < DEVICE_COUNT; k++) {
    nereid_device *d = kit_device(devices[k]);
    void *p = NULL, *q = NULL;
    assert_ok(nereid_alloc(d, 1000, &p, &error));
    assert_ok(nereid_alloc(d, 0, &q, &error));
    assert_non_null(q);
    assert_int_equal((uintptr_t)p % 64, 0);
    char text[1000] = "hello", back[1000];
    assert_ok(nereid_copy_to_device(d, p, text, 1000, &error));
    assert_ok(nereid_copy_to_host(d, back, p, 1000, &error));
    assert_memory_equal(text, back, 1000);
    nereid_free(d, q);
    nereid_free(d, NULL);
    nereid_free(d, text);                             /* not the device's: left alone */
    assert_ok(nereid_alloc(d, 20 << 20, &q, &error)); /* on huge pages; left to nereid_device_close */
    memset(q, 1, 20 << 20);
    assert_ok(nereid_synchronize(d, &error));
    nereid_device_close(d);
  }
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static void test_types(void **state) {
  nereid_dtype t;
  assert_true(nereid_dtype_parse("float16", &t));
  assert_int_equal(t, NEREID_F16);
  assert_true(nereid_dtype_parse("bf16", &t));
  assert_int_equal(t, NEREID_BF16);
  assert_false(nereid_dtype_parse("f33", &t));
  assert_string_equal(nereid_dtype_name(NEREID_F32), "f32");
  assert_int_equal(nereid_dtype_bytes(NEREID_I1), 1);
  assert_int_equal(nereid_dtype_bytes((nereid_dtype)99), 0);
  for (int i = 0; i <= NEREID_F64; i++) {
    unsigned char bytes[8] = {0};
    nereid_dtype_store((nereid_dtype)i, bytes, 1.0);
    assert_true(nereid_dtype_load((nereid_dtype)i, bytes) == 1.0);
  }
  int8_t small;
  nereid_dtype_store(NEREID_I8, &small, 1e30); /* the nearest there is */
  assert_int_equal(small, 127);
  nereid_dtype_store(NEREID_I8, &small, -7.9);
  assert_int_equal(small, -7);
  uint64_t big = UINT64_MAX;
  assert_true(nereid_dtype_load(NEREID_U64, &big) == 18446744073709551616.0);
}

/* A number of fp8 that is read and stored keeps its bits, also the largest of fp8e4b15, which no conversion gives. */
static void test_fp8_bits(void **state) {
  static const struct {
    nereid_dtype type;
    int last; /* the largest that is a number */
  } types[] = {{NEREID_F8E4B15, 0x7f}, {NEREID_F8E5, 0x7c}, {NEREID_F8E4NV, 0x7e}};
  static const char text[] = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x, y, z):\n"
                             "    i = tl.arange(0, 256)\n    v = tl.load(x + i)\n    tl.store(y + i, v)\n"
                             "    tl.store(z + i, tl.abs(v))\n";
  for (int k = 0; k < 6; k++) {
    nereid_device *d = kit_device(k & 1 ? "cpu" : "interp");
    nereid_module *m = NULL;
    unsigned char x[256], y[256], z[256];
    nereid_arg args[] = {nereid_pointer(x, types[k / 2].type), nereid_pointer(y, types[k / 2].type),
                         nereid_pointer(z, types[k / 2].type)};
    int64_t grid[3] = {1, 1, 1};
    for (int i = 0; i < 256; i++) x[i] = (unsigned char)((i & 0x7f) > types[k / 2].last ? 0 : i);
    assert_ok(nereid_module_load_string("k.py", text, &m, &error));
    for (int i = 0; i < 3; i++) assert_ok(nereid_register(d, args[i].pointer, 256, "array", &error));
    assert_ok(nereid_launch(d, NULL, m, "k", grid, args, 3, NULL, &error));
    for (int i = 0; i < 256; i++) {
      assert_int_equal(y[i], x[i]);
      assert_int_equal(z[i], x[i] & 0x7f);
    }
    nereid_module_free(m);
    nereid_device_close(d);
  }
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

static void test_module(void **state) {
  nereid_module *m = kit_module();
  assert_int_equal(nereid_kernel_count(m), 8);
  assert_null(nereid_kernel_at(m, 8));
  assert_null(nereid_kernel_at(m, -1));
  assert_null(nereid_kernel_find(m, "sub"));
  const nereid_kernel_info *k = nereid_kernel_find(m, "scalars");
  assert_ptr_equal(k, nereid_kernel_at(m, 1));
  assert_string_equal(k->name, "scalars");
  assert_int_equal(k->line, 13);
  assert_int_equal(k->param_count, 9);
  assert_string_equal(k->params[0].name, "out");
  assert_null(k->params[0].annotation);
  assert_string_equal(k->params[6].annotation, "i64");
  assert_string_equal(k->params[7].default_text, "2.5");
  assert_true(k->params[8].is_constexpr);
  nereid_module_free(m);
  nereid_module_free(NULL);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static void add_on(const char *device, bool own) {
  enum { N = 1000 };
  nereid_device *d = kit_device(device);
  nereid_module *m = kit_module();
  float *x, *y, *out;
  float host[3][N];
  for (int i = 0; i < N; i++) host[0][i] = (float)i, host[1][i] = (float)(i * i), host[2][i] = -1;
  if (own) {
    float **all[] = {&x, &y, &out};
    for (int i = 0; i < 3; i++) {
      assert_ok(nereid_alloc(d, sizeof host[i], (void **)all[i], &error));
      assert_ok(nereid_copy_to_device(d, *all[i], host[i], sizeof host[i], &error));
    }
  } else {
    x = host[0], y = host[1], out = host[2];
    for (int i = 0; i < 3; i++) assert_ok(nereid_register(d, host[i], sizeof host[i], "host", &error));
  }
  nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_pointer(y, NEREID_F32),
                       nereid_named(nereid_constexpr("128"), "BLOCK"), nereid_named(nereid_int(N), "n"),
                       nereid_named(nereid_pointer(out, NEREID_F32), "out")};
  Lines lines = {0};
  nereid_options options = {.print = lines_print, .print_arg = &lines};
  assert_ok(nereid_launch(d, NULL, m, "add", (int64_t[]){8, 1, 1}, args, 5, &options, &error));
  assert_ok(nereid_launch(d, NULL, m, "add", (int64_t[]){8, 1, 1}, args, 5, &options, &error));
  assert_int_equal(lines.count, 1); /* compiled once */
  if (own) assert_ok(nereid_copy_to_host(d, host[2], out, sizeof host[2], &error));
  for (int i = 0; i < N; i++) assert_true(host[2][i] == host[0][i] + host[1][i]);
  if (own) nereid_free(d, x);
  else nereid_unregister(d, x);
  nereid_module_free(m);
  nereid_device_close(d);
}

static void test_add(void **state) {
  for (int k = 0; k < DEVICE_COUNT; k++) add_on(devices[k], true), add_on(devices[k], false);
}

static void test_arguments(void **state) {
  for (int k = 0; k < DEVICE_COUNT; k++) {
    nereid_device *d = kit_device(devices[k]);
    nereid_module *m = kit_module();
    double out[8] = {0};
    assert_ok(nereid_register(d, out, sizeof out, "out", &error));
    nereid_arg inner[] = {nereid_int(9)};
    nereid_arg items[] = {nereid_int(7), {.kind = NEREID_ARG_TUPLE, .item_count = 1, .items = inner}};
    nereid_arg args[] = {nereid_pointer(out, NEREID_F64),
                         nereid_int((int64_t)1 << 40),
                         nereid_float(0.1),
                         nereid_bool(true),
                         nereid_none(),
                         {.kind = NEREID_ARG_TUPLE, .item_count = 2, .items = items},
                         nereid_int(5),
                         nereid_float(-1),
                         nereid_int(11)};
    assert_ok(nereid_launch(d, NULL, m, "scalars", (int64_t[]){1, 1, 1}, args, 7, NULL, &error));
    assert_true(out[0] == 1099511627776.0);
    assert_true(out[1] == (double)0.1f);
    assert_true(out[2] == 1 && out[3] == 1 && out[4] == 709 && out[5] == 5 && out[6] == 2.5 && out[7] == 3);
    args[1] = nereid_int(INT64_MIN); /* a uint64 */
    args[1].is_unsigned = true;
    args[2] = nereid_float(0.1); /* exactly */
    args[2].has_dtype = true;
    args[2].dtype = NEREID_F64;
    args[3] = nereid_bool(false);
    assert_ok(nereid_launch(d, NULL, m, "scalars", (int64_t[]){1, 1, 1}, args, 9, NULL, &error));
    assert_true(out[0] == 9223372036854775808.0);
    assert_true(out[1] == 0.1);
    assert_true(out[2] == 0 && out[6] == -1 && out[7] == 11);
    nereid_module_free(m);
    nereid_device_close(d);
  }
}

/* Items with names: the kernel reads them by name, and may put a named tuple of its own in their place. */
static void test_named_tuple(void **state) {
  static const char text[] = "from typing import NamedTuple\n"
                             "import triton\n"
                             "import triton.language as tl\n"
                             "class Pair(NamedTuple):\n"
                             "    first: tl.tensor\n"
                             "    second: tl.tensor\n"
                             "@triton.jit\n"
                             "def fields(out, pair, n):\n"
                             "    for i in range(n):\n"
                             "        pair = Pair(pair.second, pair.first + 1)\n"
                             "    tl.store(out, pair.first * 100 + pair.second)\n";
  for (int k = 0; k < DEVICE_COUNT; k++) {
    nereid_device *d = kit_device(devices[k]);
    nereid_module *m = NULL;
    int32_t out[4] = {0};
    assert_ok(nereid_module_load_string("fields.py", text, &m, &error));
    assert_ok(nereid_register(d, out, sizeof out, "out", &error));
    nereid_arg items[] = {nereid_named(nereid_int(7), "first"), nereid_named(nereid_int(3), "second")};
    nereid_arg args[] = {
        nereid_pointer(out, NEREID_I32), {.kind = NEREID_ARG_TUPLE, .item_count = 2, .items = items}, nereid_int(2)};
    assert_ok(nereid_launch(d, NULL, m, "fields", (int64_t[]){1, 1, 1}, args, 3, NULL, &error));
    assert_int_equal(out[0], 804);
    items[0].name = "second"; /* other names: another specialization */
    items[1].name = "other";
    nereid_error *refused = NULL;
    nereid_status status = nereid_launch(d, NULL, m, "fields", (int64_t[]){1, 1, 1}, args, 3, NULL, &refused);
    assert_int_equal(status, NEREID_BAD_SOURCE);
    nereid_error_free(refused);
    nereid_module_free(m);
    nereid_device_close(d);
  }
}

/* *args takes what stands behind the parameters, each number of arguments a specialization of its own. */
static void test_rest(void **state) {
  static const char text[] = "import triton\n"
                             "import triton.language as tl\n"
                             "@triton.jit\n"
                             "def sums(out, n, *args):\n"
                             "    tl.store(out, len(args))\n"
                             "    for i in tl.static_range(len(args)):\n"
                             "        tl.store(out + 1 + i, args[i] + n)\n"
                             "@triton.jit\n"
                             "def shape(out, *args: tl.constexpr):\n"
                             "    tl.store(out + tl.arange(0, args[0]), args[1])\n";
  const int64_t one[3] = {1, 1, 1};
  for (int k = 0; k < DEVICE_COUNT; k++) {
    nereid_device *d = kit_device(devices[k]);
    nereid_module *m = NULL;
    int32_t out[8];
    assert_ok(nereid_module_load_string("rest.py", text, &m, &error));
    assert_string_equal(nereid_kernel_find(m, "sums")->params[2].default_text, "()");
    assert_ok(nereid_register(d, out, sizeof out, "out", &error));
    for (int warm = 0; warm < 2; warm++)
      for (int n = 0; n <= 3; n++) {
        nereid_arg args[] = {nereid_pointer(out, NEREID_I32), nereid_int(10), nereid_int(5 + warm), nereid_int(1),
                             nereid_int(1000)};
        memset(out, 0, sizeof out);
        assert_ok(nereid_launch(d, NULL, m, "sums", one, args, 2 + n, NULL, &error));
        const int32_t wanted[] = {n, n > 0 ? 15 + warm : 0, n > 1 ? 11 : 0, n > 2 ? 1010 : 0, 0};
        assert_memory_equal(out, wanted, sizeof wanted);
        nereid_function *f = NULL;
        assert_ok(nereid_compile(d, m, "sums", args, 2 + n, NULL, &f, &error));
        args[2] = nereid_int(7);
        assert_ok(nereid_run(f, NULL, one, args, 2 + n, &error));
        assert_int_equal(out[1], n ? 17 : 0);
        nereid_function_free(f);
      }
    nereid_arg items[] = {nereid_int(4), nereid_int(6)};
    nereid_arg named[] = {nereid_pointer(out, NEREID_I32),
                          nereid_int(10),
                          {.kind = NEREID_ARG_TUPLE, .name = "args", .item_count = 2, .items = items}};
    assert_ok(nereid_launch(d, NULL, m, "sums", one, named, 3, NULL, &error));
    assert_memory_equal(out, ((int32_t[]){2, 14, 16}), 12);
    nereid_arg shape[] = {nereid_pointer(out, NEREID_I32), nereid_int(4), nereid_constexpr("3")};
    assert_ok(nereid_launch(d, NULL, m, "shape", one, shape, 3, NULL, &error));
    assert_memory_equal(out, ((int32_t[]){3, 3, 3, 3}), 16);
    named[2] = nereid_named(nereid_int(4), "args");
    nereid_error *refused = NULL;
    assert_int_equal(nereid_launch(d, NULL, m, "sums", one, named, 3, NULL, &refused), NEREID_BAD_ARGUMENT);
    assert_non_null(strstr(nereid_error_text(refused), "'args' of kernel 'sums' stands for several arguments"));
    nereid_error_free(refused);
    nereid_module_free(m);
    nereid_device_close(d);
  }
}

static void test_descriptor(void **state) {
  for (int k = 0; k < DEVICE_COUNT; k++) {
    nereid_device *d = kit_device(devices[k]);
    nereid_module *m = kit_module();
    float *x, *out, host[4];
    assert_ok(nereid_alloc(d, 6 * 12 * 4, (void **)&x, &error));
    assert_ok(nereid_alloc(d, 16, (void **)&out, &error));
    float values[72];
    for (int i = 0; i < 72; i++) values[i] = (float)i;
    assert_ok(nereid_copy_to_device(d, x, values, sizeof values, &error));
    nereid_arg desc = {.kind = NEREID_ARG_DESCRIPTOR,
                       .dtype = NEREID_F32,
                       .pointer = x,
                       .rank = 2,
                       .shape = {6, 10},
                       .strides = {12, 1},
                       .block_shape = {4, 8}};
    nereid_arg args[] = {desc, nereid_pointer(out, NEREID_F32)};
    assert_ok(nereid_launch(d, NULL, m, "rows", (int64_t[]){1, 1, 1}, args, 2, NULL, &error));
    assert_ok(nereid_copy_to_host(d, host, out, 16, &error));
    assert_true(host[0] == 48 * 8 + 28 && host[1] == 60 * 8 + 28); /* rows 4 and 5 */
    assert_true(host[2] == 0 && host[3] == 0);                     /* rows 6 and 7 are not there */
    nereid_module_free(m);
    nereid_device_close(d);
  }
}

/* ---- specializations --------------------------------------------------------------------------------------------- */

typedef struct Adder {
  nereid_device *d;
  nereid_module *m;
  float *x, *y, *out;
  Lines lines;
  nereid_options options;
} Adder;

static Adder *adder(const char *device) {
  Adder *a = calloc(1, sizeof *a);
  a->d = kit_device(device);
  a->m = kit_module();
  float **all[] = {&a->x, &a->y, &a->out};
  for (int i = 0; i < 3; i++) {
    assert_ok(nereid_alloc(a->d, 4096, (void **)all[i], &error));
    assert_ok(nereid_copy_to_device(a->d, *all[i], kernels_text, 1024, &error)); /* something */
  }
  a->options = (nereid_options){.print = lines_print, .print_arg = &a->lines};
  return a;
}

static void adder_free(Adder *a) {
  nereid_module_free(a->m);
  nereid_device_close(a->d);
  free(a);
}

/* How many compilations the launch took. */
static int compiles(Adder *a, int64_t n, int offset, nereid_dtype t, int block) {
  int before = a->lines.count;
  nereid_arg args[] = {nereid_pointer(a->x, NEREID_F32), nereid_pointer(a->y, t),
                       nereid_pointer((char *)a->out + offset, NEREID_F32), nereid_int(n), nereid_int(block)};
  nereid_error *error = NULL;
  if (nereid_launch(a->d, NULL, a->m, "add", (int64_t[]){1, 1, 1}, args, 5, &a->options, &error))
    fail_msg("%s", nereid_error_text(error));
  return a->lines.count - before;
}

static void test_specializations(void **state) {
  for (int k = 0; k < 2; k++) {
    Adder *a = adder(devices[k]);
    assert_int_equal(compiles(a, 17, 0, NEREID_F32, 64), 1);
    assert_int_equal(compiles(a, 19, 0, NEREID_F32, 64), 0);
    assert_int_equal(compiles(a, 16, 0, NEREID_F32, 64), 1); /* divisible by 16 */
    assert_int_equal(compiles(a, 64, 0, NEREID_F32, 64), 0);
    assert_int_equal(compiles(a, 0, 0, NEREID_F32, 64), 0);
    assert_int_equal(compiles(a, 1, 0, NEREID_F32, 64), 1);                /* a constant */
    assert_int_equal(compiles(a, (int64_t)1 << 40, 0, NEREID_F32, 64), 1); /* int64 */
    assert_int_equal(compiles(a, 17, 4, NEREID_F32, 64), 1);               /* not aligned to 16 bytes */
    assert_int_equal(compiles(a, 21, 8, NEREID_F32, 64), 0);
    assert_int_equal(compiles(a, 17, 0, NEREID_F16, 64), 1);
    assert_int_equal(compiles(a, 17, 0, NEREID_F32, 32), 1);
    a->options.num_warps = 8;
    assert_int_equal(compiles(a, 17, 0, NEREID_F32, 64), 1);
    assert_int_equal(compiles(a, 17, 0, NEREID_F32, 64), 0);
    a->options.num_warps = 0;
    for (int block = 1; block <= 256; block *= 2)
      compiles(a, 17, 0, NEREID_F32, block), compiles(a, 16, 0, NEREID_F32, block);
    /* the table has grown */
    for (int block = 1; block <= 256; block *= 2) assert_int_equal(compiles(a, 18, 0, NEREID_F32, block), 0);
    adder_free(a);
  }
}

static void test_function(void **state) {
  Adder *a = adder("cpu");
  nereid_arg args[] = {nereid_pointer(a->x, NEREID_F32), nereid_pointer(a->y, NEREID_F32),
                       nereid_pointer(a->out, NEREID_F32), nereid_int(17), nereid_int(64)};
  nereid_function *f = NULL;
  assert_ok(nereid_compile(a->d, a->m, "add", args, 5, &a->options, &f, &error));
  nereid_function_info info;
  nereid_function_get_info(f, &info);
  assert_int_equal(info.num_warps, 4);
  assert_int_equal(info.num_stages, 3);
  assert_true(info.front_ms > 0 && info.backend_ms > 0 && info.peak_bytes > 1000);
  assert_true(info.from_cache || info.compiler_ms > 0);
  assert_ok(nereid_run(f, NULL, (int64_t[]){1, 1, 1}, args, 5, &error));
  args[3] = nereid_int(23);
  assert_ok(nereid_run(f, NULL, (int64_t[]){1, 1, 1}, args, 5, &error));
  static const char text[] =
      "error: parameter '%s' of kernel 'add' does not specialise as it did when the function was compiled\n"
      "  hint: compile one function for each case, or use nereid_launch. A function holds for one element type and "
      "alignment to 16 bytes of a "
      "pointer, one value of a constexpr and of a number that decorators read, and for integers that are alike in "
      "being 1, multiples of 16, and 32 bits wide\n";
  char want[600];
  snprintf(want, sizeof want, text, "n");
  args[3] = nereid_int(16);
  assert_error(nereid_run(f, NULL, (int64_t[]){1, 1, 1}, args, 5, &error), NEREID_BAD_ARGUMENT, want);
  args[3] = nereid_int(17);
  args[2] = nereid_pointer(a->out + 1, NEREID_F32);
  snprintf(want, sizeof want, text, "out");
  assert_error(nereid_run(f, NULL, (int64_t[]){1, 1, 1}, args, 5, &error), NEREID_BAD_ARGUMENT, want);
  args[2] = nereid_pointer(a->out, NEREID_F32);
  args[4] = nereid_constexpr("'relu, a longer text'");
  snprintf(want, sizeof want, text, "BLOCK");
  assert_error(nereid_run(f, NULL, (int64_t[]){1, 1, 1}, args, 5, &error), NEREID_BAD_ARGUMENT, want);
  nereid_function_free(f);
  nereid_function_free(NULL);
  adder_free(a);
}

static void test_heuristics(void **state) {
  nereid_device *d = kit_device("interp");
  nereid_module *m = kit_module();
  int32_t out;
  assert_ok(nereid_register(d, &out, sizeof out, "out", &error));
  for (int n = 20; n < 32; n++) { /* the heuristic looks at n itself */
    nereid_arg args[] = {nereid_pointer(&out, NEREID_I32), nereid_int(n)};
    assert_ok(nereid_launch(d, NULL, m, "guess", (int64_t[]){1, 1, 1}, args, 2, NULL, &error));
    assert_int_equal(out, n % 5 == 0 ? 1 : 2);
  }
  nereid_module_free(m);
  nereid_device_close(d);
}

/* ---- grids ------------------------------------------------------------------------------------------------------- */

static void test_grids(void **state) {
  for (int k = 0; k < DEVICE_COUNT; k++) {
    nereid_device *d = kit_device(devices[k]);
    nereid_module *m = kit_module();
    int32_t out[3 * 40 * 5];
    assert_ok(nereid_register(d, out, sizeof out, "out", &error));
    nereid_arg args[] = {nereid_pointer(out, NEREID_I32)};
    for (int turn = 0; turn < 3; turn++) { /* through the pool, then, once its cost is known, directly */
      memset(out, 0, sizeof out);
      assert_ok(nereid_launch(d, NULL, m, "mark", (int64_t[]){3, 40, 5}, args, 1, NULL, &error));
      for (int i = 0; i < 600; i++) assert_int_equal(out[i], i + 1);
    }
    memset(out, 0, sizeof out);
    for (int i = 0; i < 3; i++) {
      int64_t grid[3] = {2, 2, 2};
      grid[i] = 0;
      assert_ok(nereid_launch(d, NULL, m, "mark", grid, args, 1, NULL, &error));
    }
    assert_int_equal(out[0], 0);
    int64_t some[] = {7, 8, 9, 599, 3, 0};
    nereid_options options = {.programs = some, .program_count = 6};
    assert_ok(nereid_launch(d, NULL, m, "mark", (int64_t[]){3, 40, 5}, args, 1, &options, &error));
    int sum = 0;
    for (int i = 0; i < 600; i++) sum += out[i];
    assert_int_equal(sum, 8 + 9 + 10 + 600 + 4 + 1);
    nereid_function *f = NULL; /* keeps its own list */
    assert_ok(nereid_compile(d, m, "mark", args, 1, &options, &f, &error));
    memset(some, 0xff, sizeof some);
    memset(out, 0, sizeof out);
    assert_ok(nereid_run(f, NULL, (int64_t[]){3, 40, 5}, args, 1, &error));
    assert_int_equal(out[599], 600);
    nereid_function_free(f);
    options = (nereid_options){.programs = some, .program_count = 0};
    assert_ok(nereid_launch(d, NULL, m, "mark", (int64_t[]){3, 40, 5}, args, 1, &options, &error));
    nereid_module_free(m);
    nereid_device_close(d);
  }
}

/* An array of more than 2^31 elements, of which only the end is touched. */
static void test_large_array(void **state) {
  static const char text[] = "import triton\nimport triton.language as tl\n\n"
                             "@triton.jit\ndef fill(out, n, B: tl.constexpr):\n"
                             "    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)\n"
                             "    tl.store(out + i, (i % 100).to(tl.int8), mask=i < n)\n";
  const int64_t n = ((int64_t)1 << 31) + 1000, programs = (n + 255) / 256;
  nereid_module *m = NULL;
  assert_ok(nereid_module_load_string("large.py", text, &m, &error));
  for (int k = 0; k < 2; k++) {
    nereid_device *d = kit_device(devices[k]);
    char *out = NULL, end[1000];
    assert_ok(nereid_alloc(d, n, (void **)&out, &error));
    int64_t last[] = {programs - 1, programs - 2, programs - 3, programs - 4};
    nereid_options options = {.programs = last, .program_count = 4};
    nereid_arg args[] = {nereid_pointer(out, NEREID_I8), nereid_int(n), nereid_constexpr_int(256)};
    assert_ok(nereid_launch(d, NULL, m, "fill", (int64_t[]){programs, 1, 1}, args, 3, &options, &error));
    assert_ok(nereid_copy_to_host(d, end, out + n - 1000, 1000, &error));
    for (int i = 0; i < 1000; i++) assert_int_equal(end[i], (n - 1000 + i) % 100);
    nereid_device_close(d);
  }
  nereid_module_free(m);
}

/* ---- print and assert -------------------------------------------------------------------------------------------- */

static void test_print_and_assert(void **state) {
  for (int k = 0; k < DEVICE_COUNT; k++) {
    nereid_device *d = kit_device(devices[k]);
    nereid_module *m = kit_module();
    Lines lines = {0};
    nereid_options options = {.print = lines_print, .print_arg = &lines};
    nereid_arg args[] = {nereid_pointer(NULL, NEREID_I32), nereid_int(6)};
    /* asserts are not compiled */
    assert_ok(nereid_launch(d, NULL, m, "talk", (int64_t[]){8, 1, 1}, args, 2, &options, &error));
    assert_int_equal(lines.count, 8);
    options.debug = true;
    nereid_error *error = NULL;
    assert_int_equal(nereid_launch(d, NULL, m, "talk", (int64_t[]){7, 1, 1}, args, 2, &options, &error),
                     NEREID_KERNEL_FAULT);
    assert_string_equal(nereid_error_text(error),
                        "kit.py:33:5: error: assertion failed: p is too large, in program (6, 0, 0)\n"
                        "      tl.device_assert(p < limit, 'p is too large')\n"
                        "      ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n");
    const char *file;
    int line, column;
    nereid_error_place(error, &file, &line, &column);
    assert_string_equal(file, "kit.py");
    assert_int_equal(line, 33);
    assert_int_equal(column, 5);
    nereid_error_free(error);
    nereid_module_free(m);
    nereid_device_close(d);
  }
}

/* An assert in a helper is told with the call; when the helper is called from two places, without. */
static void test_assert_in_helper(void **state) {
  static const char text[] = "import triton\nimport triton.language as tl\n\n"
                             "@triton.jit\ndef check(x):\n    tl.device_assert(x < 2)\n\n"
                             "@triton.jit\ndef once(n):\n    check(n + 0)\n\n"
                             "@triton.jit\ndef twice(n):\n    check(n + 0)\n    check(n * 2)\n";
  static const char head[] = "h.py:6:5: error: assertion failed, in program (0, 0, 0)\n      tl.device_assert(x < 2)\n "
                             "     ^~~~~~~~~~~~~~~~~~~~~~~\n";
  char with_call[400];
  snprintf(with_call, sizeof with_call, "%s  called from h.py:10:5\n        check(n + 0)\n        ^~~~~~~~~~~~\n",
           head);
  nereid_module *m = NULL;
  assert_ok(nereid_module_load_string("h.py", text, &m, &error));
  nereid_device *cpu = kit_device("cpu"), *interp = kit_device("interp");
  nereid_options options = {.debug = true};
  nereid_arg args[] = {nereid_int(7)};
  assert_error(nereid_launch(interp, NULL, m, "once", (int64_t[]){1, 1, 1}, args, 1, &options, &error),
               NEREID_KERNEL_FAULT, with_call);
  assert_error(nereid_launch(cpu, NULL, m, "once", (int64_t[]){1, 1, 1}, args, 1, &options, &error),
               NEREID_KERNEL_FAULT, with_call);
  assert_error(nereid_launch(interp, NULL, m, "twice", (int64_t[]){1, 1, 1}, args, 1, &options, &error),
               NEREID_KERNEL_FAULT,
               "h.py:6:5: error: assertion failed, in program (0, 0, 0)\n      tl.device_assert(x < 2)\n      "
               "^~~~~~~~~~~~~~~~~~~~~~~\n"
               "  called from h.py:14:5\n        check(n + 0)\n        ^~~~~~~~~~~~\n");
  assert_error(nereid_launch(cpu, NULL, m, "twice", (int64_t[]){1, 1, 1}, args, 1, &options, &error),
               NEREID_KERNEL_FAULT, head);
  nereid_module_free(m);
  nereid_device_close(cpu);
  nereid_device_close(interp);
}

/* ---- looking inside ---------------------------------------------------------------------------------------------- */

static void test_inspect(void **state) {
  nereid_module *m = kit_module();
  nereid_arg args[] = {nereid_pointer(NULL, NEREID_F32), nereid_pointer(NULL, NEREID_F32),
                       nereid_pointer(NULL, NEREID_F32), nereid_int(17), nereid_int(64)};
  /* clang-format off */
  static const struct { const char *stage, *holds; } cases[] = {
      {"ast", "FunctionDef name=add"}, {"tile-raw", "kernel @add("}, {"tile", "kernel @add("},
      {"c", "int nereid_kernel(const uint64_t *args"}};
  /* clang-format on */
  Lines lines = {0};
  nereid_options options = {.print = lines_print, .print_arg = &lines};
  for (int i = 0; i < 4; i++) {
    char *text = NULL;
    assert_ok(nereid_inspect(m, "add", args, 5, &options, cases[i].stage, i % 2 ? "cpu" : "host", &text, &error));
    if (!strstr(text, cases[i].holds)) fail_msg("stage %s: %s", cases[i].stage, text);
    free(text);
  }
  assert_string_equal(lines.text, "compiling add\ncompiling add\ncompiling add\n");
  char *text = NULL;
  options.dump_after = "all";
  assert_ok(nereid_inspect(m, "add", args, 5, &options, "tile", NULL, &text, &error));
  assert_non_null(strstr(text, "kernel @add("));
  free(text);
  nereid_module_free(m);
}

static void test_eval(void **state) {
  int64_t v = 0;
  const char *names[] = {"n", "BLOCK"};
  double values[] = {1000, 128};
  assert_ok(nereid_eval("cdiv(n, BLOCK)", 2, names, values, &v, &error));
  assert_int_equal(v, 8);
  assert_ok(nereid_eval("triton.next_power_of_2(n) * 2 - 1", 2, names, values, &v, &error));
  assert_int_equal(v, 2047);
}

/* ---- stepping ---------------------------------------------------------------------------------------------------- */

typedef struct Walk {
  int lines[64], count, stop_after;
  char values[4096];
} Walk;

static bool walk(void *arg, nereid_step *s, const char *file, int line, const int32_t program[3]) {
  Walk *w = arg;
  assert_string_equal(file, "kit.py");
  w->lines[w->count++] = line;
  if (line == 10)
    for (int i = 0; i < nereid_step_value_count(s); i++) {
      char *text = nereid_step_value_text(s, i, 4);
      snprintf(w->values + strlen(w->values), sizeof w->values - strlen(w->values), "%s = %s\n",
               nereid_step_value_name(s, i), text);
      free(text);
    }
  static const char *const asked[] = {"i + K", "tl.sum(a)", "(a * n)[-2:]", "a[20]", "pointers"};
  static const double k = 7;
  for (int i = 0; i < 5 && line == 10; i++) {
    char *text = NULL;
    nereid_error *why = NULL;
    nereid_status status = nereid_step_eval(s, asked[i], 1, (const char *const[]){"K"}, &k, 4, &text, &why);
    assert_int_equal(status != NEREID_OK, text == NULL);
    snprintf(w->values + strlen(w->values), sizeof w->values - strlen(w->values), "%s: %s\n", asked[i],
             text ? text : nereid_error_message(why));
    free(text);
    nereid_error_free(why);
  }
  return w->count != w->stop_after;
}

static void test_step(void **state) {
  nereid_device *d = kit_device("interp");
  nereid_module *m = kit_module();
  float x[3][20];
  for (int i = 0; i < 20; i++) x[0][i] = (float)i / 4, x[1][i] = 1;
  for (int i = 0; i < 3; i++) assert_ok(nereid_register(d, x[i], sizeof x[i], NULL, &error));
  nereid_arg args[] = {nereid_pointer(x[0], NEREID_F32), nereid_pointer(x[1], NEREID_F32),
                       nereid_pointer(x[2], NEREID_F32), nereid_int(20), nereid_int(16)};
  Walk w = {0};
  Lines lines = {0};
  nereid_options options = {.print = lines_print, .print_arg = &lines};
  assert_ok(nereid_launch_stepped(d, m, "add", (int64_t[]){2, 1, 1}, args, 5, &options, walk, &w, &error));
  assert_true(w.count >= 8);
  assert_int_equal(w.lines[0], 7);
  assert_non_null(strstr(w.values, "i = i32[16] [0, 1, ..., 14, 15]\n"));
  assert_non_null(strstr(w.values, "a = f32[16] [0.0, 0.25, ..., 3.5, 3.75]\n"));
  assert_non_null(strstr(w.values, "i + K: i32[16] [7, 8, ..., 21, 22]\n"));
  assert_non_null(strstr(w.values, "tl.sum(a): f32 30.0\n"));
  assert_non_null(strstr(w.values, "(a * n)[-2:]: f32[2] [70.0, 75.0]\n"));
  assert_non_null(strstr(w.values, "a[20]: dimension 0 has 16 elements, not 20\n"));
  assert_non_null(strstr(w.values, "pointers: pointers is not defined\n"));
  assert_non_null(strstr(w.values, "b = f32[16] [1.0, 1.0, ..., 1.0, 1.0]\n"));
  w = (Walk){.stop_after = 2};
  assert_ok(nereid_launch_stepped(d, m, "add", (int64_t[]){2, 1, 1}, args, 5, &options, walk, &w, &error));
  assert_int_equal(w.count, 2);
  nereid_module_free(m);
  nereid_device_close(d);
}

static void test_language(void **state) {
  int n = nereid_language_count();
  assert_true(n > 100);
  for (int i = 0; i < n; i++) assert_non_null(nereid_language_at(i).name);
  assert_null(nereid_language_at(n).name);
  assert_string_equal(nereid_version(), NEREID_VERSION);
}

int main(void) {
  /* clang-format off */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_devices),    cmocka_unit_test(test_memory),          cmocka_unit_test(test_types), cmocka_unit_test(test_fp8_bits),
      cmocka_unit_test(test_module),     cmocka_unit_test(test_add),             cmocka_unit_test(test_arguments),
      cmocka_unit_test(test_named_tuple),
      cmocka_unit_test(test_rest),
      cmocka_unit_test(test_descriptor), cmocka_unit_test(test_specializations), cmocka_unit_test(test_function),
      cmocka_unit_test(test_heuristics), cmocka_unit_test(test_grids), cmocka_unit_test(test_print_and_assert),
      cmocka_unit_test(test_inspect),    cmocka_unit_test(test_eval),            cmocka_unit_test(test_step),
      cmocka_unit_test(test_language),   cmocka_unit_test(test_assert_in_helper),
      cmocka_unit_test(test_large_array),
  };
  /* clang-format on */
  return cmocka_run_group_tests_name("runtime", tests, NULL, NULL);
}
