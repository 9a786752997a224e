/* The sim device: what it prints and what it finds. Lines of device_print are the interpreter's, in the same order;
 * wrong accesses, races and failed assertions are faults that name the kernel's line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants those first */
#include <cmocka.h>
#include <nereid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kernels[] =
    "import triton\n"
    "import triton.language as tl\n"
    "\n"
    "@triton.jit\n"
    "def scalar(x, n):\n"
    "    tl.device_print('who', tl.program_id(0), tl.program_id(1), n)\n"
    "\n"
    "@triton.jit\n"
    "def words(x, n):\n"
    "    tl.device_print('only words')\n"
    "\n"
    "@triton.jit\n"
    "def tensors(x, n):\n"
    "    i = tl.arange(0, 16)\n"
    "    v = tl.load(x + i)\n"
    "    m = tl.reshape(v, (4, 4))\n"
    "    tl.device_print('matrix', m)\n"
    "    tl.device_print('two', v, i > 7)\n"
    "    tl.device_print('hex', i * 1000, hex=True)\n"
    "\n"
    "@triton.jit\n"
    "def types(x, n):\n"
    "    v = tl.load(x + tl.arange(0, 8))\n"
    "    tl.device_print('f16', v.to(tl.float16))\n"
    "    tl.device_print('bf16', v.to(tl.bfloat16))\n"
    "    tl.device_print('f64', v.to(tl.float64) / 3)\n"
    "    tl.device_print('i8', v.to(tl.int8), v.to(tl.uint8), v.to(tl.int16), v.to(tl.uint16))\n"
    "    tl.device_print('i64', v.to(tl.int64) * 1000000007 * 1000, v.to(tl.uint64))\n"
    "    tl.device_print('fp8', v.to(tl.float8e5), v.to(tl.float8e4b15))\n"
    "\n"
    "@triton.jit\n"
    "def loop(x, n):\n"
    "    tl.device_print('before', n)\n"
    "    for k in range(n):\n"
    "        tl.device_print('turn', tl.arange(0, 64) + 100 * k)\n"
    "        if k % 2 == 1:\n"
    "            tl.device_print('odd', k)\n"
    "    tl.device_print('after', tl.arange(0, 8))\n"
    "\n"
    "@triton.jit\n"
    "def asserts(x, n):\n"
    "    i = tl.arange(0, 64)\n"
    "    tl.device_print('x', tl.load(x))\n"
    "    tl.device_assert(tl.load(x + i) < n, 'too large')\n"
    "\n"
    "@triton.jit\n"
    "def past(x, n):\n"
    "    tl.store(x + n + tl.arange(0, 16), 1.0)\n"
    "\n"
    "@triton.jit\n"
    "def before(x, n):\n"
    "    tl.store(x, tl.sum(tl.load(x + tl.arange(0, 16) - n)))\n"
    "\n"
    "@triton.jit\n"
    "def far(x, n):\n"
    "    tl.store(x, tl.load((-n.to(tl.int64)).to(tl.pointer_type(tl.float32))))\n"
    "\n"
    "@triton.jit\n"
    "def mark(x, n):\n"
    "    tl.store(x + tl.program_id(0) + 3 * tl.program_id(1), 1.0 + tl.program_id(0))\n"
    "\n"
    "@triton.jit\n"
    "def growing(x, n):\n"
    "    p = tl.program_id(0)\n"
    "    sum = 0.0\n"
    "    for i in range(0, (p + 1) * 2):\n"
    "        sum += 1.0\n"
    "    tl.store(x + p, sum)\n"
    "\n"
    "@triton.jit\n"
    "def total(x, n):\n"
    "    tl.atomic_add(x, tl.sum(tl.load(x + 1 + tl.arange(0, 32))))\n";

typedef struct Lines {
  char *text;
  size_t n, room;
} Lines;

static void take_line(void *arg, const char *line) {
  Lines *l = arg;
  size_t n = strlen(line);
  if (l->n + n + 2 > l->room) l->text = realloc(l->text, l->room = 2 * (l->n + n + 2));
  memcpy(l->text + l->n, line, n);
  l->n += n;
  l->text[l->n++] = '\n';
  l->text[l->n] = 0;
}

typedef struct Setup {
  const char *device, *kernel;
  int64_t grid[3];
  int n, warps;
  nereid_options options;
  float *x; /* 64 of them, in and out; NULL: 0, 1.5, 3, ... */
} Setup;

/* The kernel's status; *error is set when it is not OK. */
static nereid_status run(const Setup *s, Lines *lines, nereid_error **error) {
  nereid_device *d = NULL;
  nereid_module *m = NULL;
  nereid_error *err = NULL;
  if (nereid_device_open(s->device, &d, &err) || nereid_module_load_string("k.py", kernels, &m, &err))
    fail_msg("%s", nereid_error_text(err));
  void *p = NULL;
  float host[64];
  for (int i = 0; i < 64; i++) host[i] = s->x ? s->x[i] : 1.5f * (float)i;
  assert_int_equal(nereid_alloc(d, sizeof host, &p, &err), NEREID_OK);
  assert_int_equal(nereid_copy_to_device(d, p, host, sizeof host, &err), NEREID_OK);
  nereid_options o = s->options;
  o.print = take_line, o.print_arg = lines, o.debug = true, o.num_warps = s->warps;
  nereid_arg args[] = {nereid_pointer(p, NEREID_F32), nereid_int(s->n)};
  nereid_status status = nereid_launch(d, NULL, m, s->kernel, s->grid, args, 2, &o, error);
  if (s->x) assert_int_equal(nereid_copy_to_host(d, s->x, p, sizeof host, &err), NEREID_OK);
  nereid_free(d, p);
  nereid_module_free(m);
  nereid_device_close(d);
  return status;
}

static void same_lines(Setup s) {
  static const char *const devices[] = {"interp", "sim", "sim:sm_80"};
  Lines want = {0};
  for (int i = 0; i < 3; i++)
    for (int warps = 1; warps <= 4; warps *= 4) {
      s.device = devices[i], s.warps = warps;
      Lines got = {0};
      nereid_error *err = NULL;
      if (run(&s, &got, &err)) fail_msg("%s on %s: %s", s.kernel, s.device, nereid_error_text(err));
      assert_non_null(got.text);
      if (!want.text) want = got;
      else {
        assert_string_equal(got.text, want.text);
        free(got.text);
      }
    }
  free(want.text);
}

static void test_prints(void **state) {
  (void)state;
  static const char *const names[] = {"scalar", "words", "tensors", "types", "loop"};
  for (int i = 0; i < 5; i++) {
    same_lines((Setup){.kernel = names[i], .grid = {2, 3, 2}, .n = 3});
    same_lines((Setup){.kernel = names[i], .grid = {1, 1, 1}, .n = 1});
  }
}

/* A buffer has room for so many records; then it is said that some are lost. */
static void test_too_many_lines(void **state) {
  (void)state;
  Lines got = {0};
  nereid_error *err = NULL;
  assert_int_equal(
      run(&(Setup){.device = "sim", .kernel = "loop", .grid = {1, 1, 1}, .n = 4000, .warps = 4}, &got, &err),
      NEREID_OK);
  size_t lines = 0;
  for (const char *c = got.text; (c = strchr(c, '\n')); c++) lines++;
  assert_in_range(lines, 140000, 160000); /* 4 MiB of 7 words each */
  assert_non_null(strstr(
      got.text, "device_print: the buffer of 4194288 bytes was full, so that lines of kernel 'loop' are missing\n"));
  free(got.text);
}

static void faults(Setup s, const char *text, const char *printed) {
  static const char *const devices[] = {"sim", "sim:sm_80"};
  for (int i = 0; i < 2; i++)
    for (int warps = 1; warps <= 4; warps *= 4) {
      s.device = devices[i], s.warps = warps;
      Lines got = {0};
      nereid_error *err = NULL;
      assert_int_equal(run(&s, &got, &err), NEREID_KERNEL_FAULT);
      if (!strstr(nereid_error_text(err), text)) fail_msg("'%s' is not in:\n%s", text, nereid_error_text(err));
      if (printed && (!got.text || !strstr(got.text, printed))) fail_msg("'%s' was not printed", printed);
      const char *file;
      int line, column;
      nereid_error_place(err, &file, &line, &column);
      assert_string_equal(file, "k.py");
      assert_true(line > 3);
      nereid_error_free(err);
      free(got.text);
    }
}

static void test_asserts(void **state) {
  (void)state;
  faults((Setup){.kernel = "asserts", .grid = {1, 2, 1}, .n = 60},
         "error: assertion failed: too large, in program (0, 0, 0), element [40]\n", "idx () x: 0.000000");
  Lines got = {0};
  nereid_error *err = NULL;
  assert_int_equal(
      run(&(Setup){.device = "sim", .kernel = "asserts", .grid = {1, 1, 1}, .n = 100, .warps = 4}, &got, &err),
      NEREID_OK);
  free(got.text);
}

static void test_wrong_accesses(void **state) {
  (void)state;
  faults((Setup){.kernel = "past", .grid = {1, 1, 1}, .n = 49},
         "store out of bounds: writes 4 bytes at x+256 (x has 256 bytes), in program (0, 0, 0), thread 15", NULL);
  faults((Setup){.kernel = "before", .grid = {1, 1, 1}, .n = 2},
         "load out of bounds: reads 4 bytes at x-8 (x has 256 bytes), in program (0, 0, 0), thread 0", NULL);
  faults((Setup){.kernel = "far", .grid = {1, 1, 1}, .n = 4},
         "load out of bounds: reads 4 bytes at 0xfffffffffffffffc, in no array that the device knows", NULL);
}

static void test_programs(void **state) {
  (void)state;
  static const int64_t listed[] = {5, 0, 4};
  float x[64] = {0}, all[64] = {0};
  Lines got = {0};
  nereid_error *err = NULL;
  Setup s = {.device = "sim",
             .kernel = "mark",
             .grid = {3, 2, 1},
             .n = 1,
             .warps = 2,
             .x = x,
             .options = {.programs = listed, .program_count = 3}};
  if (run(&s, &got, &err)) fail_msg("%s", nereid_error_text(err));
  static const float want[] = {1, 0, 0, 0, 2, 3};
  for (int i = 0; i < 64; i++) assert_true(x[i] == (i < 6 ? want[i] : 0));
  s.x = all, s.options = (nereid_options){0};
  assert_int_equal(run(&s, &got, &err), NEREID_OK);
  for (int i = 0; i < 64; i++) assert_true(all[i] == (i < 6 ? 1 + i % 3 : 0));

  /* The programs that are listed run, also where those with more to do would begin first. */
  float longer[64] = {0}, same[64] = {0};
  s = (Setup){.device = "sim",
              .kernel = "growing",
              .grid = {6, 1, 1},
              .n = 2,
              .warps = 1,
              .x = longer,
              .options = {.no_sanitize_overflow = true}};
  assert_int_equal(run(&s, &got, &err), NEREID_OK);
  for (int i = 0; i < 64; i++) assert_true(longer[i] == (i < 6 ? 2 * (i + 1) : 0));
  s.x = same, s.options = (nereid_options){.programs = listed, .program_count = 3, .no_sanitize_overflow = true};
  assert_int_equal(run(&s, &got, &err), NEREID_OK);
  for (int i = 0; i < 64; i++) assert_true(same[i] == (i == 0 || i == 4 || i == 5 ? 2 * (i + 1) : 0));
}

/* Blocks run at the same time; what they add to one place all arrives. */
static void test_atomics(void **state) {
  (void)state;
  float x[64] = {0};
  for (int i = 1; i < 64; i++) x[i] = 1;
  Lines got = {0};
  nereid_error *err = NULL;
  assert_int_equal(
      run(&(Setup){.device = "sim", .kernel = "total", .grid = {3000, 1, 1}, .n = 1, .warps = 1, .x = x}, &got, &err),
      NEREID_OK);
  assert_true(x[0] == 96000);
}

/* Likewise where the copy engine adds. */
static void test_added_boxes(void **state) {
  (void)state;
  static const char text[] =
      "import triton\n"
      "import triton.language as tl\n"
      "@triton.jit\n"
      "def k(a, b, out, n):\n"
      "    m, j, i = tl.arange(0, 64)[:, None], tl.arange(0, 32)[None, :], tl.arange(0, 32)\n"
      "    for at in range(0, n, 32):\n"
      "        x = tl.load(a + m * 128 + (at + i)[None, :], mask=(at + i)[None, :] < n, other=0.0)\n"
      "        y = tl.load(b + (at + i)[:, None] * 32 + j, mask=(at + i)[:, None] < n, other=0.0)\n"
      "        tl.atomic_add(out + m * 32 + j, tl.dot(x, y))\n";
  enum { ROWS = 64, COLUMNS = 32, K = 128, PROGRAMS = 64 };
  nereid_device *d = NULL;
  nereid_module *m = NULL;
  nereid_error *err = NULL;
  static uint16_t ones[ROWS * K];
  static float sums[ROWS * COLUMNS];
  void *p[3];
  for (int i = 0; i < ROWS * K; i++) ones[i] = 0x3c00;
  if (nereid_device_open("sim:sm_90a", &d, &err) || nereid_module_load_string("k.py", text, &m, &err))
    fail_msg("%s", nereid_error_text(err));
  for (int i = 0; i < 3; i++) assert_int_equal(nereid_alloc(d, sizeof ones, &p[i], &err), NEREID_OK);
  for (int i = 0; i < 3; i++)
    assert_int_equal(
        nereid_copy_to_device(d, p[i], i < 2 ? (void *)ones : sums, i < 2 ? sizeof ones : sizeof sums, &err),
        NEREID_OK);
  nereid_arg args[] = {nereid_pointer(p[0], NEREID_F16), nereid_pointer(p[1], NEREID_F16),
                       nereid_pointer(p[2], NEREID_F32), nereid_int(K)};
  nereid_options o = {.num_warps = 4, .num_stages = 2, .persist = true, .specialize = true};
  if (nereid_launch(d, NULL, m, "k", (int64_t[]){PROGRAMS, 1, 1}, args, 4, &o, &err))
    fail_msg("%s", nereid_error_text(err));
  assert_int_equal(nereid_copy_to_host(d, sums, p[2], sizeof sums, &err), NEREID_OK);
  for (int i = 0; i < ROWS * COLUMNS; i++) assert_true(sums[i] == PROGRAMS * K);
  for (int i = 0; i < 3; i++) nereid_free(d, p[i]);
  nereid_module_free(m);
  nereid_device_close(d);
}

/* Arrays that overlap in part want a barrier, which the message says (docs/guide/gpu.md). */
static void test_overlap_in_part(void **state) {
  (void)state;
  static const char text[] = "import triton\n"
                             "import triton.language as tl\n"
                             "@triton.jit\n"
                             "def k(x, y, WAITS: tl.constexpr):\n"
                             "    i = tl.arange(0, 128)\n"
                             "    v = tl.load(x + i)\n"
                             "    if WAITS: tl.debug_barrier()\n"
                             "    tl.store(y + i, v + 1)\n"
                             "    if WAITS: tl.debug_barrier()\n"
                             "    v += tl.load(x + i)\n"
                             "    if WAITS: tl.debug_barrier()\n"
                             "    tl.store(y + i, v)\n";
  static const struct {
    int shift;
    const char *waits;
  } cases[] = {{8, "False"}, {8, "True"}, {0, "False"}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    nereid_device *d = NULL;
    nereid_module *m = NULL;
    nereid_error *err = NULL;
    int32_t memory[136], shift = cases[c].shift;
    for (int i = 0; i < 136; i++) memory[i] = i;
    if (nereid_device_open("sim", &d, &err) || nereid_module_load_string("k.py", text, &m, &err))
      fail_msg("%s", nereid_error_text(err));
    assert_int_equal(nereid_register(d, memory, sizeof memory, "memory", &err), NEREID_OK);
    nereid_arg args[] = {nereid_pointer(memory, NEREID_I32), nereid_pointer(memory + shift, NEREID_I32),
                         nereid_constexpr(cases[c].waits)};
    nereid_options o = {.num_warps = 4};
    nereid_status status = nereid_launch(d, NULL, m, "k", (int64_t[]){1, 1, 1}, args, 3, &o, &err);
    if (c == 0) {
      assert_int_equal(status, NEREID_KERNEL_FAULT);
      if (!strstr(nereid_error_text(err),
                  "unless `x` and `y`, of one array, overlap in part and want tl.debug_barrier()"))
        fail_msg("%s", nereid_error_text(err));
      nereid_error_free(err);
    } else {
      if (status) fail_msg("%s", nereid_error_text(err));
      for (int i = 0; i < 128; i++) /* x[i] is i, then, from `shift` on, one more than what stood before it */
        assert_int_equal(memory[i + shift], i + (i < shift ? i : i - shift + 1));
    }
    nereid_unregister(d, memory);
    nereid_module_free(m);
    nereid_device_close(d);
  }
}

static void test_opening(void **state) {
  (void)state;
  nereid_device *d = NULL;
  nereid_error *err = NULL;
  assert_int_equal(nereid_device_open("sim:sm_70", &d, &err), NEREID_BAD_ARGUMENT);
  assert_non_null(strstr(nereid_error_text(err), "device 'sim:sm_70': after the colon stands a target"));
  assert_non_null(strstr(nereid_error_text(err), "there are sm_80,"));
  nereid_error_free(err);
  nereid_device_info info[8];
  int n = nereid_devices(info, 8), found = 0;
  for (int i = 0; i < n; i++) found += !strcmp(info[i].name, "sim") && info[i].available;
  assert_int_equal(found, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_prints),         cmocka_unit_test(test_too_many_lines),  cmocka_unit_test(test_asserts),
      cmocka_unit_test(test_wrong_accesses), cmocka_unit_test(test_programs),        cmocka_unit_test(test_atomics),
      cmocka_unit_test(test_added_boxes),    cmocka_unit_test(test_overlap_in_part), cmocka_unit_test(test_opening),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
