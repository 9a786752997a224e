/* Kernels built ahead of time: what a bundle launches agrees with what the module does; which specialization and code
 * is taken; files that are cut off, changed or for others are errors. GPUs are a driver that is not there
 * (fakes/cuda.c). */
#include "unit/aot/aot_kit.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static const char text[] =
    "import triton\n"
    "import triton.language as tl\n"
    "\n"
    "@triton.jit\n"
    "def add(x, y, out, n, step, BLOCK: tl.constexpr):\n"
    "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    a = tl.load(x + i * step, mask=i < n)\n"
    "    b = tl.load(y + i, mask=i < n)\n"
    "    tl.store(out + i, a + b, mask=i < n)\n"
    "\n"
    "@triton.jit\n"
    "def scale(x, out, by, half: tl.float64, on, BLOCK: tl.constexpr, KIND: tl.constexpr = 'mul'):\n"
    "    i = tl.arange(0, BLOCK)\n"
    "    a = tl.load(x + i)\n"
    "    tl.store(out + i, a * by if KIND == 'mul' else a + by)\n"
    "    if on:\n"
    "        tl.store(out, half.to(tl.float32))\n"
    "\n"
    "@triton.jit\n"
    "def shift(x, out, n, BLOCK: tl.constexpr):\n"
    "    i = tl.arange(0, BLOCK)\n"
    "    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)\n"
    "    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)\n"
    "\n"
    "@triton.jit\n"
    "def say(x):\n"
    "    pid = tl.program_id(0)\n"
    "    tl.device_print('program', pid)\n"
    "    tl.store(x + pid, pid + 1)\n"
    "\n"
    "@triton.jit\n"
    "def refuse(x, n):\n"
    "    tl.device_assert(n < 4, 'n is too large')\n"
    "    tl.store(x, n)\n"
    "\n"
    "@triton.autotune(configs=[triton.Config({'BLOCK': 64}), triton.Config({'BLOCK': 128})], key=['n'])\n"
    "@triton.jit\n"
    "def tuned(out, n, BLOCK: tl.constexpr):\n"
    "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    tl.store(out + i, BLOCK, mask=i < n)\n"
    "\n"
    "@triton.heuristics({'EVEN': lambda args: args['n'] % 2 == 0})\n"
    "@triton.jit\n"
    "def even(out, n, EVEN: tl.constexpr):\n"
    "    tl.store(out, 1 if EVEN else 0)\n"
    "\n"
    "@triton.jit\n"
    "def recurrence(x, out, n, B: tl.constexpr):\n"
    "    i = tl.arange(0, B)\n"
    "    h = tl.zeros([B], dtype=tl.float32)\n"
    "    for t in range(n):\n"
    "        h = h * 0.5 + tl.load(x + t * B + i)\n"
    "        tl.store(out + t * B + i, h)\n"
    "\n"
    "@triton.jit\n"
    "def wide(a_ptr, b_ptr, out_ptr, M, K, stride, BK: tl.constexpr):\n"
    "    m = tl.program_id(0) * 64 + tl.arange(0, 64)\n"
    "    n = tl.arange(0, 64)\n"
    "    k = tl.arange(0, BK)\n"
    "    acc = tl.zeros([64, 64], tl.float32)\n"
    "    for i in range(0, K, BK):\n"
    "        am = (m[:, None] < M) & (i + k[None, :] < K)\n"
    "        a = tl.load(a_ptr + m[:, None] * stride + i + k[None, :], mask=am, other=0.0)\n"
    "        b = tl.load(b_ptr + (i + k)[:, None] * 64 + n[None, :], mask=i + k[:, None] < K, other=0.0)\n"
    "        acc = tl.dot(a, b, acc)\n"
    "    out = out_ptr + tl.program_id(1) * M * 64 + m[:, None] * 64 + n[None, :]\n"
    "    tl.store(out, acc, mask=m[:, None] < M)\n"
    "\n"
    "@triton.jit\n"
    "def narrow(x, y):\n"
    "    i = tl.arange(0, 64)\n"
    "    tl.store(y + i, tl.load(x + i).to(tl.float8e4nv))\n"
    "\n"
    "@triton.jit\n"
    "def hopper(x, y):\n"
    "    i = tl.arange(0, 64)\n"
    "    v = tl.load(x + i)\n"
    "    v = tl.inline_asm_elementwise('add.rn.bf16 $0, $1, $1;', '=h,h', [v], tl.bfloat16, is_pure=True, pack=1)\n"
    "    tl.store(y + i, v)\n";

static int setup(void **state) { return aot_setup(state, text); }

static nereid_build *build_add(Fixture *f, const char *targets) {
  nereid_build *b = new_build(targets);
  ADD(b, f, "add", "cdiv(n, BLOCK)", {"x", "f32[N]"}, {"y", "*f32"}, {"out", "f32*"}, {"n", "i32"},
      {"step", "i32:1|any"}, {"BLOCK", "64"});
  return b;
}

/* ---- on a processor ---------------------------------------------------------------------------------------------- */

static void test_every_specialization(void **state) {
  Fixture *f = *state;
  nereid_bundle *b = write_and_open(f, build_add(f, "cpu:native"), f->cpu);
  assert_int_equal(nereid_bundle_kernel_count(b), 1);
  assert_string_equal(nereid_bundle_kernel_at(b, 0)->name, "add");
  assert_int_equal(nereid_bundle_kernel_at(b, 0)->param_count, 6);
  assert_null(nereid_bundle_kernel_at(b, 1));
  _Alignas(64) float x[1000], y[400], out[400];
  for (int i = 0; i < 1000; i++) x[i] = (float)i;
  for (int i = 0; i < 400; i++) y[i] = 0.5f;
  for (int at = 0; at < 2; at++) /* aligned, and not */
    for (int n = 256; n < 259; n++)
      for (int step = 1; step < 3; step++) {
        memset(out, 0, sizeof out);
        nereid_arg args[] = {nereid_pointer(x + at, NEREID_F32), nereid_pointer(y, NEREID_F32),
                             nereid_pointer(out, NEREID_F32), nereid_int(n), nereid_int(step)};
        assert_ok(nereid_bundle_launch(b, NULL, "add", NULL, args, 5, &error));
        for (int i = 0; i < 300; i++) assert_true(out[i] == (i < n ? (float)(at + i * step) + 0.5f : 0));
      }
  nereid_bundle_close(b);
}

static void test_numbers_and_constants(void **state) {
  Fixture *f = *state;
  nereid_build *b = new_build("cpu:native");
  ADD(b, f, "scale", NULL, {"x", "f32*"}, {"out", "f32*"}, {"by", "f32"}, {"half", "f64"}, {"on", "i1"},
      {"BLOCK", "4"});
  ADD(b, f, "scale", NULL, {"x", "f32*"}, {"out", "f32*"}, {"by", "f32"}, {"half", "f64"}, {"on", "i1"}, {"BLOCK", "4"},
      {"KIND", "'add'"});
  nereid_bundle *k = write_and_open(f, b, f->cpu);
  float x[4] = {1, 2, 3, 4}, out[4] = {0};
  nereid_arg args[] = {nereid_pointer(x, NEREID_F32),
                       nereid_pointer(out, NEREID_F32),
                       nereid_float(2.5),
                       nereid_float(0.5),
                       nereid_bool(false),
                       nereid_named(nereid_constexpr_int(4), "BLOCK"),
                       nereid_named(nereid_constexpr("'add'"), "KIND")};
  assert_ok(nereid_bundle_launch(k, NULL, "scale", one_program, args, 5, &error));
  assert_true(out[0] == 2.5f && out[3] == 10);
  args[4] = nereid_bool(true);
  assert_ok(nereid_bundle_launch(k, NULL, "scale", one_program, args, 7, &error));
  assert_true(out[0] == 0.5f && out[3] == 6.5f);
  assert_says(nereid_bundle_launch(k, NULL, "scale", NULL, args, 5, &error), NEREID_BAD_ARGUMENT, "the grid is NULL");
  args[5] = nereid_named(nereid_constexpr_int(8), "BLOCK");
  assert_says(nereid_bundle_launch(k, NULL, "scale", one_program, args, 6, &error), NEREID_BAD_ARGUMENT,
              "kernel 'scale' was not built for arguments of these types and constants");
  assert_says(nereid_bundle_launch(k, NULL, "scales", one_program, args, 6, &error), NEREID_BAD_ARGUMENT,
              "the bundle has no kernel 'scales'");
  args[0] = nereid_pointer(x, NEREID_F64);
  assert_says(nereid_bundle_launch(k, NULL, "scale", one_program, args, 5, &error), NEREID_BAD_ARGUMENT,
              "kernel 'scale' was not built for arguments of these types and constants");
  nereid_bundle_close(k);
}

static void test_arrays_that_overlap(void **state) {
  Fixture *f = *state;
  nereid_build *b = new_build("cpu:native");
  ADD(b, f, "shift", "1", {"x", "i32*"}, {"out", "i32*"}, {"n", "i32"}, {"BLOCK", "64"});
  nereid_bundle *k = write_and_open(f, b, f->cpu);
  int32_t got[80], want[80];
  for (int at = 0; at < 3; at++) {
    for (int i = 0; i < 80; i++) got[i] = want[i] = i * i;
    nereid_arg args[] = {nereid_pointer(got, NEREID_I32), nereid_pointer(got + at, NEREID_I32), nereid_int(60),
                         nereid_named(nereid_constexpr_int(64), "BLOCK")};
    assert_ok(nereid_bundle_launch(k, NULL, "shift", NULL, args, 4, &error));
    args[0].pointer = want, args[1].pointer = want + at;
    assert_ok(nereid_launch(f->cpu, NULL, f->m, "shift", one_program, args, 4, NULL, &error));
    assert_memory_equal(got, want, sizeof got);
  }
  nereid_bundle_close(k);
}

static void test_conditions_that_do_not_hold(void **state) {
  Fixture *f = *state;
  nereid_build *b = new_build("cpu:native");
  ADD(b, f, "shift", "cdiv(n, 0)", {"x", "i32*:16"}, {"out", "i32*:16|any"}, {"n", "i32"}, {"BLOCK", "64"});
  nereid_bundle *k = write_and_open(f, b, f->cpu);
  _Alignas(16) int32_t x[80];
  nereid_arg args[] = {nereid_pointer(x + 1, NEREID_I32), nereid_pointer(x, NEREID_I32), nereid_int(60)};
  assert_says(
      nereid_bundle_launch(k, NULL, "shift", one_program, args, 3, &error), NEREID_BAD_ARGUMENT,
      "kernel 'shift' was built for arguments that are aligned, divisible by 16 or equal to one where these are "
      "not");
  args[0].pointer = x;
  assert_says(
      nereid_bundle_launch(k, NULL, "shift", NULL, args, 3, &error), NEREID_BAD_ARGUMENT,
      "the grid of kernel 'shift' cannot be computed for these arguments: it divides by zero, or is more than 64 "
      "bits");
  nereid_bundle_close(k);
}

static void test_asserts_name_their_line(void **state) {
  Fixture *f = *state;
  nereid_build *b = new_build("cpu:native");
  const nereid_build_arg args[] = {{"x", "i32*"}, {"n", "i32:any"}};
  assert_ok(nereid_build_add(b, f->m, "refuse", args, 2, NULL, &(nereid_options){.debug = true}, &error));
  nereid_bundle *k = write_and_open(f, b, f->cpu);
  int32_t x = 0;
  nereid_arg list[] = {nereid_pointer(&x, NEREID_I32), nereid_int(3)};
  assert_ok(nereid_bundle_launch(k, NULL, "refuse", one_program, list, 2, &error));
  assert_int_equal(x, 3);
  list[1] = nereid_int(7);
  nereid_error *e = NULL;
  assert_int_equal(nereid_bundle_launch(k, NULL, "refuse", one_program, list, 2, &e), NEREID_KERNEL_FAULT);
  assert_non_null(strstr(nereid_error_text(e), "tl.device_assert(n < 4"));
  assert_non_null(strstr(nereid_error_text(e), "n is too large"));
  nereid_error_free(e);
  nereid_bundle_close(k);
}

static void test_configurations_by_value(void **state) {
  Fixture *f = *state;
  nereid_build *b = new_build("cpu:native");
  const nereid_build_arg args[] = {{"out", "i32*"}, {"n", "i32"}};
  const char *const cases[] = {"n=200:BLOCK=32,num_warps=2"};
  const nereid_build_how how = {.grid = "cdiv(n, BLOCK)", .cases = cases, .case_count = 1};
  assert_ok(nereid_build_add(b, f->m, "tuned", args, 2, &how, NULL, &error));
  nereid_bundle *k = write_and_open(f, b, f->cpu);
  int32_t out[300] = {0};
  nereid_arg list[] = {nereid_pointer(out, NEREID_I32), nereid_int(200)};
  assert_ok(nereid_bundle_launch(k, NULL, "tuned", NULL, list, 2, &error));
  assert_true(out[0] == 32 && out[199] == 32 && out[200] == 0);
  list[1] = nereid_int(201);
  assert_ok(nereid_bundle_launch(k, NULL, "tuned", NULL, list, 2, &error));
  assert_true(out[0] == 64 && out[200] == 64 && out[201] == 0);
  nereid_bundle_close(k);
  b = new_build("cpu:native");
  const nereid_build_arg of_even[] = {{"out", "i32*"}, {"n", "i32"}};
  assert_says(nereid_build_add(b, f->m, "even", of_even, 2, NULL, NULL, &error), NEREID_BAD_ARGUMENT,
              "the decorators of kernel 'even' compute 'EVEN' of 'n'");
  nereid_build_free(b);
}

static void test_a_recorded_launch(void **state) {
  Fixture *f = *state;
  nereid_build *b = new_build("cpu:native");
  for (int n = 5; n < 8; n++) {
    nereid_arg args[] = {nereid_pointer((void *)4096, NEREID_I32), nereid_int(n)};
    assert_ok(nereid_build_add_launch(b, f->m, "even", args, 2, NULL, &error));
  }
  nereid_bundle *k = write_and_open(f, b, f->cpu);
  assert_int_equal(nereid_bundle_kernel_count(k), 1);
  _Alignas(16) int32_t out[4];
  for (int n = 5; n < 9; n++) {
    nereid_arg args[] = {nereid_pointer(out, NEREID_I32), nereid_int(n)};
    out[0] = 9;
    if (n == 8)
      assert_says(nereid_bundle_launch(k, NULL, "even", one_program, args, 2, &error), NEREID_BAD_ARGUMENT,
                  "kernel 'even' was built for arguments that are aligned, divisible by 16 or equal to one where these "
                  "are not");
    else assert_ok(nereid_bundle_launch(k, NULL, "even", one_program, args, 2, &error));
    assert_int_equal(out[0], n == 8 ? 9 : n % 2 == 0);
  }
  nereid_bundle_close(k);
}

/* ---- what is not right ------------------------------------------------------------------------------------------- */

static void test_wrong_signatures(void **state) {
  Fixture *f = *state;
  nereid_build *b = new_build("cpu:native");
  const struct {
    nereid_build_arg arg;
    const char *grid, *message;
  } wrong[] = {
      {{"m", "i32"}, NULL, "kernel 'shift' has no parameter 'm'"},
      {{"x", "f33*"}, NULL, NULL},
      {{"n", "i32:3"}, NULL, "n=i32:3: after the colon stand 16, 1 or any, with | between"},
      {{"x", "i32*:1"}, NULL, "x=i32*:1: after the colon of a pointer or a descriptor stand 16 or any, with | between"},
      {{"n", "f32:16"}, NULL, "n=f32:16: only pointers, integers and descriptors have cases"},
      {{"n", "i32"}, "n +", "the grid 'n +' ends too soon"},
      {{"n", "i32"}, "x", "the grid 'x' names 'x', which is no integer"},
      {{"n", "i32"}, "n, n, n, n", "the grid 'n, n, n, n' has more than three dimensions"},
      {{"n", "i32"},
       "exp(n)",
       "the grid 'exp(n)' calls what a grid does not have: cdiv, next_power_of_2, min and max are "
       "there"},
      {{"n", "i32"}, "n / 2", "the grid 'n / 2' has something after it"},
      {{"n", "i32"}, "SIZE", "the grid 'SIZE' names 'SIZE', which kernel 'shift' does not have as an integer"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    if (!wrong[i].message) continue;
    nereid_build_arg args[] = {{"x", "i32*"}, {"out", "i32*"}, {"n", "i32"}, {"BLOCK", "64"}, wrong[i].arg};
    int n = 5;
    for (int k = 0; k < 4; k++)
      if (!strcmp(args[k].name, wrong[i].arg.name)) args[k] = wrong[i].arg, n = 4;
    assert_says(nereid_build_add(b, f->m, "shift", args, n, &(nereid_build_how){.grid = wrong[i].grid}, NULL, &error),
                NEREID_BAD_ARGUMENT, wrong[i].message);
  }
  nereid_build_arg few[] = {{"x", "i32*"}};
  assert_says(nereid_build_add(b, f->m, "shift", few, 1, NULL, NULL, &error), NEREID_BAD_ARGUMENT,
              "kernel 'shift' lacks its parameter 'out'");
  nereid_build_free(b);
  b = NULL;
  assert_says(nereid_build_create(&(nereid_build_options){.targets = "sm_12"}, &b, &error), NEREID_BAD_ARGUMENT,
              "there is no target 'sm_12'");
  assert_null(b);
}

/* The bytes with their checksum made right again. */
static nereid_status open_changed(nereid_device *d, const char *bytes, size_t n, bool mends, nereid_error **error) {
  char *copy = aligned_alloc(64, (n + 127) / 64 * 64);
  nereid_bundle *b = NULL;
  memcpy(copy, bytes, n);
  if (mends && n >= BUNDLE_HEADER + 8) {
    uint64_t size = n, entries;
    memcpy(&entries, copy + BUNDLE_HEADER, 8);
    if (entries > n - BUNDLE_HEADER - 8) entries = n - BUNDLE_HEADER - 8;
    uint64_t hash = hash_bytes(copy + BUNDLE_HEADER, entries + 8, 0);
    memcpy(copy + 16, &size, 8), memcpy(copy + 24, &hash, 8);
  }
  nereid_status status = nereid_bundle_open_memory(d, copy, n, &b, error);
  float x[64] = {0};
  nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_pointer(x, NEREID_F32), nereid_pointer(x, NEREID_F32),
                       nereid_int(50), nereid_int(1)};
  if (!status) status = nereid_bundle_launch(b, NULL, "add", NULL, args, 5, error);
  nereid_bundle_close(b);
  free(copy);
  return status;
}

static void test_damaged_files(void **state) {
  Fixture *f = *state;
  nereid_build *b = build_add(f, "cpu:native");
  assert_ok(nereid_build_write(b, f->path, &error));
  nereid_build_free(b);
  size_t n;
  char *bytes = read_all(f->path, &n);
  nereid_bundle *out = NULL;
  assert_ok(open_changed(f->cpu, bytes, n, false, &error));
  assert_says(open_changed(f->cpu, "ELF what is this", 16, false, &error), NEREID_BAD_FILE,
              "the bundle is no bundle that can be used: it is another kind of file");
  for (size_t cut = 0; cut < n; cut += cut < 400 ? 1 : 997) {
    assert_int_equal(open_changed(f->cpu, bytes, cut, false, NULL), NEREID_BAD_FILE);
    assert_int_equal(open_changed(f->cpu, bytes, cut, true, NULL), NEREID_BAD_FILE);
  }
  uint64_t entries;
  memcpy(&entries, bytes + BUNDLE_HEADER, 8);
  for (size_t at = 16; at < BUNDLE_HEADER + entries; at += 3) { /* a byte that is not what it was */
    bytes[at] ^= 0x41;
    assert_int_equal(open_changed(f->cpu, bytes, n, false, NULL), NEREID_BAD_FILE);
    bytes[at] ^= 0x41;
  }
  int found = 0; /* of code, by the launch that takes it */
  for (size_t at = BUNDLE_HEADER + 8 + entries; at < n; at += 331) {
    bytes[at] ^= 0x41;
    found += open_changed(f->cpu, bytes, n, false, NULL) == NEREID_BAD_FILE;
    bytes[at] ^= 0x41;
  }
  assert_true(found > 10);
  bytes[8] = 77;
  assert_says(open_changed(f->cpu, bytes, n, false, &error), NEREID_BAD_FILE,
              "the bundle is a bundle of format 77; this is Nereid " NEREID_VERSION ", which takes format 3");
  assert_says(nereid_bundle_open(f->cpu, "/nonexistent", &out, &error), NEREID_BAD_FILE,
              "cannot open /nonexistent: No such file or directory");
  assert_int_equal(nereid_bundle_open(f->cpu, "/tmp", &out, NULL), NEREID_BAD_FILE);
  nereid_device *interp;
  assert_ok(nereid_device_open("interp", &interp, &error));
  assert_says(nereid_bundle_open(interp, f->path, &out, &error), NEREID_UNSUPPORTED, "/tmp/nereid-test-bundle-");
  nereid_device_close(interp);
  free(bytes);
}

static void test_another_processor(void **state) {
  Fixture *f = *state;
  Bundle content = {.made_by = "a test"};
  BundleCode code = {.kind = CODE_CPU,
                     .target = "cpu:future",
                     .entry = "",
                     .machine = processor_machine(),
                     .image = "x",
                     .image_bytes = 1,
                     .feature_count = 1,
                     .features = (const char *[]){"AVX4096"}};
  BundleVariant v = {.codes = &code, .code_count = 1};
  BundleEntry e = {.name = "k", .path = "k.py", .variants = &v, .variant_count = 1};
  content.entries = &e, content.entry_count = 1;
  Context *cx = context_create();
  assert_true(context_try(cx));
  for (int i = 0; i < 2; i++) {
    Buf bytes = {.arena = cx->arena};
    nereid_bundle *b = NULL;
    aot_write(&content, cx->arena, &bytes);
    char *copy = aligned_alloc(64, (bytes.n + 63) / 64 * 64);
    memcpy(copy, bytes.at, bytes.n);
    assert_ok(nereid_bundle_open_memory(f->cpu, copy, bytes.n, &b, &error));
    assert_says(
        nereid_bundle_launch(b, NULL, "k", one_program, NULL, 0, &error), NEREID_UNSUPPORTED,
        i ? "kernel 'k' was not built for this device: there is cpu: cpu:future; this is "
          : "kernel 'k' was not built for this device: there is cpu: cpu:future; this processor has no AVX4096");
    nereid_bundle_close(b);
    free(copy);
    code.machine = 1, code.feature_count = 0;
  }
  context_end_try(cx);
  context_destroy(cx);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void keep_line(void *arg, const char *line) {
  char *said = arg;
  snprintf(said + strlen(said), 200 - strlen(said), "%s|", line);
}

static void test_options(void **state) {
  Fixture *f = *state;
  nereid_build *built = new_build("cpu:native,sm_90a");
  ADD(built, f, "say", NULL, {"x", "i32*"});
  nereid_bundle *b = write_and_open(f, built, f->cpu);
  int32_t x[8] = {0};
  const nereid_arg args[] = {nereid_pointer(x, NEREID_I32)};
  const int64_t grid[3] = {8, 1, 1}, programs[] = {5, 2};
  char said[200] = "";
  nereid_options o = {.size = sizeof o, .print = keep_line, .print_arg = said};
  assert_ok(nereid_bundle_launch_with(b, NULL, "say", grid, args, 1, NULL, &error));
  for (int i = 0; i < 8; i++) assert_int_equal(x[i], i + 1);
  memset(x, 0, sizeof x);
  o.programs = programs, o.program_count = 2;
  assert_ok(nereid_bundle_launch_with(b, NULL, "say", grid, args, 1, &o, &error));
  for (int i = 0; i < 8; i++) assert_int_equal(x[i], i == 2 || i == 5 ? i + 1 : 0);
  assert_non_null(strstr(said, "program: 5"));
  const int64_t outside[] = {8};
  o.programs = outside, o.program_count = 1;
  assert_says(nereid_bundle_launch_with(b, NULL, "say", grid, args, 1, &o, &error), NEREID_BAD_ARGUMENT,
              "options.programs[0] is 8");
  o = (nereid_options){.size = sizeof o, .num_warps = 8};
  assert_says(nereid_bundle_launch_with(b, NULL, "say", grid, args, 1, &o, &error), NEREID_UNSUPPORTED,
              "options.num_warps is for compiling");
  nereid_bundle_close(b);
}

/* ---- threads and forks ------------------------------------------------------------------------------------------- */

typedef struct Shared {
  nereid_bundle *b;
  atomic_int wrong;
} Shared;

static void *launch_often(void *arg) {
  Shared *s = arg;
  float x[64], out[64];
  for (int i = 0; i < 64; i++) x[i] = (float)i;
  for (int round = 0; round < 200; round++) {
    nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_pointer(x, NEREID_F32), nereid_pointer(out, NEREID_F32),
                         nereid_int(round % 64 + 1), nereid_int(1)};
    if (nereid_bundle_launch(s->b, NULL, "add", NULL, args, 5, NULL) || out[round % 64] != 2.0f * (float)(round % 64))
      s->wrong++;
  }
  return NULL;
}

static void test_threads_and_fork(void **state) {
  Fixture *f = *state;
  Shared s = {.b = write_and_open(f, build_add(f, "cpu:native"), f->cpu)};
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, launch_often, &s), 0);
#ifdef __SANITIZE_ADDRESS__ /* its allocator keeps its locks over a fork */
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
#endif
  pid_t child = fork();
  if (!child) {
    launch_often(&s);
    _exit(s.wrong != 0);
  }
  int status = 1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
#ifndef __SANITIZE_ADDRESS__
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
#endif
  assert_int_equal(s.wrong, 0);
  nereid_bundle_close(s.b);
}

/* ---- on GPUs that are not there ---------------------------------------------------------------------------------- */

static int run_add(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  float **out = p[2];
  **out = (float)(grid[0] * 1000 + block[0]);
  return 0;
}

static void launch_on_gpu(Fixture *f, nereid_bundle *b, nereid_device *d, int n, nereid_status want, const char *says) {
  void *p;
  float got = 0;
  assert_ok(nereid_alloc(d, 4096, &p, &error));
  nereid_arg args[] = {nereid_pointer(p, NEREID_F32), nereid_pointer(p, NEREID_F32), nereid_pointer(p, NEREID_F32),
                       nereid_int(n), nereid_int(1)};
  nereid_error *e = NULL;
  nereid_status status = nereid_bundle_launch(b, NULL, "add", NULL, args, 5, &e);
  assert_int_equal(status, want);
  if (status) assert_non_null(strstr(nereid_error_text(e), says));
  else {
    assert_ok(nereid_copy_to_host(d, &got, p, 4, &error));
    assert_true(got == (float)((n + 63) / 64 * 1000 + 128));
  }
  nereid_error_free(e);
  nereid_free(d, p);
}

static void test_gpus(void **state) {
  Fixture *f = *state;
  static const struct {
    int sm, cubins, ptx;
    nereid_status status;
    const char *says;
  } gpus[] = {{80, 1, 0, NEREID_OK, NULL},
              {86, 1, 0, NEREID_OK, NULL},
              {90, 1, 0, NEREID_OK, NULL},
              {100, 0, 1, NEREID_OK, NULL},
              {120, 0, 1, NEREID_OK, NULL}};
  bool ptxas = !access("/usr/local/cuda/bin/ptxas", X_OK);
  for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
    fake_reset();
    fake_kernel("add", run_add);
    fake->major = gpus[i].sm / 10, fake->minor = gpus[i].sm % 10;
    nereid_device *d;
    assert_ok(nereid_device_open("cuda", &d, &error));
    nereid_bundle *b = write_and_open(f, build_add(f, "sm_80,sm_90a"), d);
    launch_on_gpu(f, b, d, 256, gpus[i].status, gpus[i].says);
    launch_on_gpu(f, b, d, 200, gpus[i].status, gpus[i].says);
    if (ptxas) assert_int_equal(fake->cubins_loaded > 0, gpus[i].cubins);
    if (ptxas) assert_int_equal(fake->ptx_loaded > 0, gpus[i].ptx);
    nereid_bundle_close(b);
    nereid_device_close(d);
    assert_nothing_left(fake);
  }
}

static void test_a_gpu_without_code(void **state) {
  Fixture *f = *state;
  nereid_device *d;
  fake_kernel("add", run_add);
  fake->major = 8, fake->minor = 0;
  assert_ok(nereid_device_open("cuda", &d, &error));
  nereid_bundle *b = write_and_open(f, build_add(f, "cpu:native"), d);
  launch_on_gpu(f, b, d, 200, NEREID_UNSUPPORTED,
                "kernel 'add' was not built for this device: there is cpu: cpu:native; cuda:0 is of compute capability "
                "8.0");
  nereid_bundle_close(b);
  b = write_and_open(f, build_add(f, "sm_86"), d);
  launch_on_gpu(f, b, d, 200, NEREID_UNSUPPORTED, "PTX of sm_86; cuda:0 is of compute capability 8.0");
  nereid_bundle_close(b);
  nereid_device_close(d);
}

static void test_an_old_driver(void **state) {
  Fixture *f = *state;
  nereid_device *d;
  fake_kernel("add", run_add);
  fake->major = 12, fake->minor = 0;
  fake->ptx_result = 222;
  assert_ok(nereid_device_open("cuda", &d, &error));
  nereid_bundle *b = write_and_open(f, build_add(f, "sm_80"), d);
  launch_on_gpu(f, b, d, 200, NEREID_NO_COMPILER, "the driver is too old for this PTX");
  fake->ptx_result = 0;
  launch_on_gpu(f, b, d, 200, NEREID_OK, NULL); /* what failed is tried again */
  nereid_bundle_close(b);
  nereid_device_close(d);
}

static int run_nothing(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) { return 0; }

static int codes_loaded(void) { return fake->cubins_loaded + fake->ptx_loaded; }

/* Of one specialization there is code that has its loads ahead, and code for arrays that may meet; a launch chooses. */
static void test_arrays_that_lie_apart(void **state) {
  Fixture *f = *state;
  nereid_device *d;
  char *p;
  fake_kernel("recurrence", run_nothing);
  fake->major = 8, fake->minor = 0;
  assert_ok(nereid_device_open("cuda", &d, &error));
  assert_ok(nereid_alloc(d, 1 << 16, (void **)&p, &error));
  nereid_build *built = new_build("sm_80");
  ADD(built, f, "recurrence", NULL, {"x", "f32*"}, {"out", "f32*"}, {"n", "i32"}, {"B", "64"});
  nereid_bundle *b = write_and_open(f, built, d);
  static const struct {
    int out, n, codes; /* bytes after x; how many codes have been loaded then */
  } cases[] = {{256 * 16, 15, 1}, {256 * 16, 17, 2}, {256 * 16, 15, 2}, {0, 15, 2}, {256 * 32, 31, 2}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    nereid_arg args[] = {nereid_pointer(p, NEREID_F32), nereid_pointer(p + cases[i].out, NEREID_F32),
                         nereid_int(cases[i].n)};
    assert_ok(nereid_bundle_launch(b, NULL, "recurrence", one_program, args, 3, &error));
    assert_int_equal(codes_loaded(), cases[i].codes);
  }
  nereid_free(d, p);
  nereid_bundle_close(b);
  nereid_device_close(d);
}

enum { WIDE_ROWS = 150, WIDE_K = 35 };
static uint64_t copied_row;
static int run_copy(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  copied_row = *(uint64_t *)p[3];
  assert_int_equal(grid[0], WIDE_ROWS);
  return 0;
}

/* Rows that do not begin at 16 bytes are copied to rows that do, where each is read often; else code without maps is
 * loaded, too. */
static void test_odd_rows(void **state) {
  Fixture *f = *state;
  nereid_device *d;
  char *p;
  fake_kernel("wide", run_nothing);
  fake_kernel("nereid_copy_rows_2", run_copy);
  copied_row = 0;
  fake->major = 9, fake->minor = 0;
  assert_ok(nereid_device_open("cuda", &d, &error));
  assert_ok(nereid_alloc(d, 1 << 20, (void **)&p, &error));
  nereid_build *built = new_build("sm_90a");
  ADD(built, f, "wide", NULL, {"a_ptr", "f16*"}, {"b_ptr", "f16*"}, {"out_ptr", "f32*"}, {"M", "i32"}, {"K", "i32"},
      {"stride", "i32"}, {"BK", "32"});
  nereid_bundle *b = write_and_open(f, built, d);
  nereid_arg args[] = {nereid_pointer(p, NEREID_F16),
                       nereid_pointer(p + (1 << 18), NEREID_F16),
                       nereid_pointer(p + (1 << 19), NEREID_F32),
                       nereid_int(WIDE_ROWS),
                       nereid_int(WIDE_K),
                       nereid_int(WIDE_K)};
  const int64_t often[3] = {3, 8, 1}, once[3] = {3, 1, 1};
  assert_ok(nereid_bundle_launch(b, NULL, "wide", often, args, 6, &error));
  assert_int_equal(copied_row, 80);
  assert_int_equal(fake->pool_taken, 1);
  int loaded = codes_loaded();
  assert_ok(nereid_bundle_launch(b, NULL, "wide", once, args, 6, &error));
  assert_int_equal(fake->pool_taken, 1);
  assert_true(codes_loaded() > loaded);
  nereid_free(d, p);
  nereid_bundle_close(b);
  nereid_device_close(d);
}

static void keep_warning(void *arg, const nereid_error *warning) {
  char *said = arg;
  assert_int_equal(nereid_error_status(warning), NEREID_OK);
  snprintf(said + strlen(said), 400 - strlen(said), "%s|", nereid_error_text(warning));
}

/* Where sm_90a alone is named, PTX for later GPUs is of sm_80, of sm_89 for fp8, or is not there: the build goes on. */
static void test_ptx_for_later_gpus(void **state) {
  Fixture *f = *state;
  bool ptxas = !access("/usr/local/cuda/bin/ptxas", X_OK);
  char said[400] = "";
  const nereid_options o = {.size = sizeof o, .warn = keep_warning, .warn_arg = said};
  const nereid_build_arg narrow[] = {{"x", "f32*"}, {"y", "fp8e4nv*"}}, hopper[] = {{"x", "bf16*"}, {"y", "bf16*"}};
  nereid_build *b = new_build("sm_90a");
  assert_ok(nereid_build_add(
      b, f->m, "add",
      (nereid_build_arg[]){{"x", "f32*"}, {"y", "f32*"}, {"out", "f32*"}, {"n", "i32"}, {"step", "1"}, {"BLOCK", "64"}},
      6, NULL, &o, &error));
  assert_ok(nereid_build_add(b, f->m, "narrow", narrow, 2, NULL, &o, &error));
  assert_string_equal(said, "");
  if (ptxas) assert_ok(nereid_build_add(b, f->m, "hopper", hopper, 2, NULL, &o, &error));
  static const int later[] = {80, 89, 0};
  for (int e = 0; e < b->content.entry_count; e++)
    for (int i = 0; i < b->content.entries[e].variant_count; i++) {
      const BundleVariant *v = &b->content.entries[e].variants[i];
      int sm = 0;
      for (int c = 0; c < v->code_count; c++)
        if (v->codes[c].kind == CODE_PTX && !v->codes[c].exact) sm = v->codes[c].sm;
      assert_int_equal(sm, later[e]);
    }
  if (ptxas) {
    const char *once = strstr(said, "warning: kernel 'hopper' is built without PTX for later GPUs: ");
    assert_non_null(once);
    assert_null(strstr(once + 1, "warning"));
  }
  nereid_build_free(b);
  b = new_build("sm_80,sm_90a"); /* what is named must be there */
  assert_says(nereid_build_add(b, f->m, "narrow", narrow, 2, NULL, &o, &error), NEREID_BAD_SOURCE,
              "type fp8e4nv not supported in this architecture");
  nereid_build_free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, aot_teardown)
      T(test_every_specialization),
      T(test_numbers_and_constants),
      T(test_arrays_that_overlap),
      T(test_conditions_that_do_not_hold),
      T(test_asserts_name_their_line),
      T(test_configurations_by_value),
      T(test_a_recorded_launch),
      T(test_wrong_signatures),
      T(test_damaged_files),
      T(test_another_processor),
      T(test_options),
      T(test_ptx_for_later_gpus),
      T(test_threads_and_fork),
      T(test_gpus),
      T(test_a_gpu_without_code),
      T(test_an_old_driver),
      T(test_arrays_that_lie_apart),
      T(test_odd_rows),
  };
  aot_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
