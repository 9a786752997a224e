/* Tests of measuring through nereid.h: the cost of a launch, the figures of times, trials. None depends on how long
 * anything takes. */
#include "unit/runtime/runtime_kit.h"

#include <math.h>

static const char *const text =
    "import triton\nimport triton.language as tl\n\n"
    "@triton.jit\ndef scale(x, out, n, BLOCK: tl.constexpr):\n"
    "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    tl.store(out + i, tl.load(x + i, mask=i < n) * 2.0, mask=i < n)\n\n"
    "@triton.jit\ndef rows(d, out):\n    tl.store(out + tl.arange(0, 8), tl.sum(d.load([0, 0]), axis=1))\n\n"
    "@triton.jit\ndef count(out):\n    tl.atomic_add(out, 1)\n\n"
    "@triton.jit\ndef until(x):\n    i = 0\n    while i < tl.load(x):\n        i += 1\n    tl.store(x, i)\n";

static nereid_module *load(void) {
  nereid_module *m = NULL;
  assert_int_equal(nereid_module_load_string("b.py", text, &m, NULL), NEREID_OK);
  return m;
}

static void a_launch_is_counted(void **state) {
  nereid_module *m = load();
  nereid_arg args[] = {nereid_pointer((void *)0x1000, NEREID_F16), nereid_pointer((void *)0x2000, NEREID_F16),
                       nereid_int(1000), nereid_constexpr_int(256)};
  nereid_cost c;
  assert_int_equal(nereid_launch_cost(NULL, m, "scale", (int64_t[]){4, 1, 1}, args, 4, NULL, &c, NULL), NEREID_OK);
  assert_int_equal(c.mul, 1000);
  assert_true(c.flops == 1000);
  assert_int_equal(c.load_bytes, 2000);
  assert_int_equal(c.store_distinct, 2000);
  assert_int_equal(c.programs, 4);
  assert_int_equal(c.programs_walked, 4);
  assert_true(c.exact && !c.at_least);
  assert_string_equal(c.remarks, "");
  nereid_module_free(m);
}

/* Lengths and masks that an integer array decides, given its values; sums over what rows are long. */
static void values_of_integer_arrays_decide(void **state) {
  static const char *const ragged =
      "import triton\nimport triton.language as tl\n\n"
      "@triton.jit\ndef ragged(x, lengths, out, BLOCK: tl.constexpr):\n"
      "    i = tl.arange(0, BLOCK)\n    s = tl.zeros([BLOCK], tl.float32)\n"
      "    n = tl.load(lengths + tl.program_id(0))\n"
      "    for first in range(0, n, BLOCK):\n"
      "        s += tl.load(x + first + i, mask=first + i < n, other=0.0)\n"
      "    tl.store(out + tl.program_id(0), tl.sum(s))\n\n"
      "@triton.jit\ndef chosen(x, index, out, n, BLOCK: tl.constexpr):\n"
      "    i = tl.arange(0, BLOCK)\n    at = tl.load(index + i, mask=i < n, other=-1)\n"
      "    tl.store(out + i, tl.load(x + at, mask=at >= 0))\n\n"
      "@triton.jit\ndef packed(x, lengths, out, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):\n"
      "    row = tl.program_id(0)\n    r = tl.arange(0, ROWS)\n    i = tl.arange(0, BLOCK)\n"
      "    each = tl.load(lengths + r, mask=r < n, other=0)\n    ends = tl.cumsum(each, 0)\n"
      "    last = tl.max(tl.where(r == row, ends, 0), axis=0)\n"
      "    first = last - tl.sum(tl.where(r == row, each, 0), axis=0)\n"
      "    for at in range(first, last, BLOCK):\n"
      "        tl.store(out + at + i, tl.load(x + at + i, mask=at + i < last), mask=at + i < last)\n";
  nereid_module *m = NULL;
  assert_int_equal(nereid_module_load_string("r.py", ragged, &m, NULL), NEREID_OK);
  const int64_t lengths[] = {1, 0, 250, 64};
  nereid_arg l = nereid_pointer((void *)0x20000, NEREID_I64);
  nereid_arg args[] = {nereid_pointer((void *)0x1000, NEREID_F32), l, nereid_pointer((void *)0x3000, NEREID_F32),
                       nereid_constexpr_int(64)};
  nereid_cost c;
  assert_int_equal(nereid_launch_cost(NULL, m, "ragged", (int64_t[]){4, 1, 1}, args, 4, NULL, &c, NULL), NEREID_OK);
  assert_true(!c.exact && c.at_least);
  args[1].values = lengths, args[1].bytes = sizeof lengths;
  assert_int_equal(nereid_launch_cost(NULL, m, "ragged", (int64_t[]){4, 1, 1}, args, 4, NULL, &c, NULL), NEREID_OK);
  assert_true(c.exact && !c.at_least);
  assert_int_equal(c.load_bytes, (1 + 250 + 64) * 4 + 4 * 8);
  /* rows one after the other: where each begins is a sum of lengths */
  nereid_arg packed[] = {args[0], args[1], args[2], nereid_int(3), nereid_constexpr_int(8), nereid_constexpr_int(16)};
  assert_int_equal(nereid_launch_cost(NULL, m, "packed", (int64_t[]){3, 1, 1}, packed, 6, NULL, &c, NULL), NEREID_OK);
  assert_true(c.exact);
  assert_int_equal(c.store_bytes, (1 + 250) * 4);
  assert_int_equal(c.store_distinct, (1 + 250) * 4);
  assert_int_equal(c.load_bytes, (1 + 250) * 4 + 3 * 3 * 8);
  /* of 20 indices three are none; those masked off are none as well */
  int8_t index[32] = {0};
  index[3] = index[7] = index[19] = -5;
  nereid_arg i8 = nereid_pointer((void *)0x2000, NEREID_I8);
  i8.values = index, i8.bytes = sizeof index;
  nereid_arg chosen[] = {args[0], i8, args[2], nereid_int(20), nereid_constexpr_int(32)};
  assert_int_equal(nereid_launch_cost(NULL, m, "chosen", (int64_t[]){1, 1, 1}, chosen, 5, NULL, &c, NULL), NEREID_OK);
  assert_true(c.exact);
  assert_int_equal(c.load_bytes, 20 + 17 * 4);
  nereid_module_free(m);
}

static void a_descriptor_is_counted(void **state) {
  nereid_module *m = load();
  nereid_arg d = {.kind = NEREID_ARG_DESCRIPTOR,
                  .dtype = NEREID_F32,
                  .pointer = (void *)0x1000,
                  .rank = 2,
                  .shape = {8, 24},
                  .strides = {32, 1},
                  .block_shape = {8, 16}};
  nereid_arg args[] = {d, nereid_pointer((void *)0x2000, NEREID_F32)};
  nereid_cost c;
  assert_int_equal(nereid_launch_cost(NULL, m, "rows", (int64_t[]){1, 1, 1}, args, 2, NULL, &c, NULL), NEREID_OK);
  assert_int_equal(c.load_bytes, 8 * 16 * 4);
  assert_int_equal(c.add, 8 * 15);
  nereid_module_free(m);
}

static void what_is_not_exact_is_named(void **state) {
  nereid_module *m = load();
  nereid_arg args[] = {nereid_pointer((void *)0x1000, NEREID_I32)};
  nereid_cost c;
  assert_int_equal(nereid_launch_cost(NULL, m, "until", (int64_t[]){1, 1, 1}, args, 1, NULL, &c, NULL), NEREID_OK);
  assert_true(c.at_least && !c.exact);
  assert_non_null(strstr(c.remarks, "b.py:20: a loop whose end data decides"));
  nereid_module_free(m);
}

static void what_takes_centuries_is_many(void **state) {
  nereid_module *m;
  static const char nest[] =
      "import triton\nimport triton.language as tl\n@triton.jit\ndef nest(x, n):\n    s = tl.load(x)\n    for a in "
      "range(n):\n"
      "        for b in range(n):\n            for c in range(n):\n                s = s * 2 + c\n    tl.store(x, s)\n";
  assert_int_equal(nereid_module_load_string("n.py", nest, &m, NULL), NEREID_OK);
  nereid_arg args[] = {nereid_pointer((void *)0x1000, NEREID_F32), nereid_int(INT32_MAX)};
  nereid_cost c;
  /* 2^93 turns a program */
  assert_int_equal(nereid_launch_cost(NULL, m, "nest", (int64_t[]){1000000, 1, 1}, args, 2, NULL, &c, NULL), NEREID_OK);
  assert_true(c.flops > 1e17 && c.fma + c.mul > INT64_MAX / 100 && c.load_bytes == 4000000);
  nereid_module_free(m);
}

static void wrong_questions_get_errors(void **state) {
  nereid_module *m = load();
  nereid_arg args[] = {nereid_pointer((void *)0x1000, NEREID_I32)};
  nereid_cost c;
  nereid_error *e = NULL;
  assert_int_equal(nereid_launch_cost(NULL, m, "no", (int64_t[]){1, 1, 1}, args, 1, NULL, &c, &e), NEREID_BAD_ARGUMENT);
  nereid_error_free(e), e = NULL;
  assert_int_equal(nereid_launch_cost(NULL, m, "until", (int64_t[]){-1, 1, 1}, args, 1, NULL, &c, &e),
                   NEREID_BAD_ARGUMENT);
  nereid_error_free(e), e = NULL;
  assert_int_equal(nereid_launch_cost(NULL, m, "scale", (int64_t[]){1, 1, 1}, args, 1, NULL, &c, &e),
                   NEREID_BAD_ARGUMENT);
  nereid_error_free(e), e = NULL;
  assert_int_equal(nereid_launch_cost(NULL, NULL, "until", (int64_t[]){1, 1, 1}, args, 1, NULL, &c, NULL),
                   NEREID_BAD_ARGUMENT);
  nereid_module_free(m);
}

static void figures_of_times(void **state) {
  double x[] = {5, 1, 4, 2, 3, 9, 6, 7, 8, 10, 11};
  nereid_times t = nereid_times_of(x, 11);
  assert_int_equal(t.count, 11);
  assert_true(t.median == 6 && t.mean == 6 && t.min == 1 && t.max == 11 && t.p10 == 2 && t.p90 == 10);
  assert_true(fabs(t.deviation - sqrt(11)) < 1e-12);
  double two[] = {4, 2};
  t = nereid_times_of(two, 2);
  assert_true(t.median == 3 && fabs(t.p10 - 2.2) < 1e-12);
  double one[] = {7};
  t = nereid_times_of(one, 1);
  assert_true(t.median == 7 && t.p10 == 7 && t.p90 == 7 && t.deviation == 0);
  assert_int_equal(nereid_times_of(NULL, 0).count, 0);
}

static bool stop_at_four(void *arg, int done, int of) { return ++*(int *)arg < 4; }

static void trials_are_run_in_turn(void **state) {
  nereid_module *m = load();
  nereid_device *d = NULL;
  assert_int_equal(nereid_device_open("cpu:1", &d, NULL), NEREID_OK);
  int32_t *counter[2];
  nereid_function *f = NULL;
  nereid_arg args[2];
  for (int i = 0; i < 2; i++) {
    assert_int_equal(nereid_alloc(d, 64, (void **)&counter[i], NULL), NEREID_OK);
    *counter[i] = 0;
    args[i] = nereid_pointer(counter[i], NEREID_I32);
  }
  assert_int_equal(nereid_compile(d, m, "count", args, 1, NULL, &f, NULL), NEREID_OK);
  nereid_bench_launch launches[] = {
      {f, {1, 1, 1}, &args[0], 1}, {f, {1, 1, 1}, &args[1], 1}, {f, {1, 1, 1}, &args[1], 1}};
  nereid_bench_case cases[] = {{&launches[0], 1}, {&launches[1], 2}};
  nereid_bench_result r[2], copy;
  int64_t bytes;
  nereid_bench_options o = {.warmup = 2, .repeat = 7, .copy = true, .copy_bytes = 1 << 20, .min_ms = 1};
  assert_int_equal(nereid_bench_run(d, cases, 2, &o, r, &copy, &bytes, NULL), NEREID_OK);
  assert_int_equal(r[0].wall.count, 7);
  assert_int_equal(copy.wall.count, 7);
  assert_int_equal(bytes, 2 << 20);
  assert_int_equal(r[0].device.count, 0); /* cpu has no events */
  assert_true(r[1].wall.min <= r[1].wall.p10 && r[1].wall.p10 <= r[1].wall.median &&
              r[1].wall.median <= r[1].wall.p90 && r[1].wall.p90 <= r[1].wall.max);
  assert_true(r[0].queued > 0);
  assert_true(*counter[0] >= 2 + 7 + 2 && *counter[1] >= 2 * (2 + 7 + 2));
  *counter[0] = 0;
  o.cold = true; /* and no queued launches */
  assert_int_equal(nereid_bench_run(d, cases, 1, &o, r, NULL, NULL, NULL), NEREID_OK);
  assert_int_equal(*counter[0], 2 + 7);
  assert_true(r[0].queued == 0);
  int rounds = 0; /* a person who has seen enough */
  o = (nereid_bench_options){.repeat = 100, .progress = stop_at_four, .progress_arg = &rounds};
  assert_int_equal(nereid_bench_run(d, cases, 1, &o, r, NULL, NULL, NULL), NEREID_OK);
  assert_int_equal(r[0].wall.count, 4);
  o = (nereid_bench_options){.repeat = -1};
  assert_int_equal(nereid_bench_run(d, cases, 1, &o, r, NULL, NULL, NULL), NEREID_BAD_ARGUMENT);
  cases[0].launch_count = 0;
  assert_int_equal(nereid_bench_run(d, cases, 1, NULL, r, NULL, NULL, NULL), NEREID_BAD_ARGUMENT);
  nereid_function_free(f);
  nereid_free(d, counter[0]), nereid_free(d, counter[1]);
  nereid_device_close(d);
  nereid_module_free(m);
}

static void the_interpreter_is_timed_without_a_ceiling(void **state) {
  nereid_module *m = load();
  nereid_device *d = NULL;
  assert_int_equal(nereid_device_open("interp", &d, NULL), NEREID_OK);
  void *p = NULL;
  assert_int_equal(nereid_alloc(d, 64, &p, NULL), NEREID_OK);
  assert_int_equal(nereid_copy_to_device(d, p, (char[64]){0}, 64, NULL), NEREID_OK);
  nereid_arg arg = nereid_pointer(p, NEREID_I32);
  nereid_function *f = NULL;
  assert_int_equal(nereid_compile(d, m, "count", &arg, 1, NULL, &f, NULL), NEREID_OK);
  nereid_bench_launch l = {f, {1, 1, 1}, &arg, 1};
  nereid_bench_case c = {&l, 1};
  nereid_bench_result r, copy;
  assert_int_equal(
      nereid_bench_run(d, &c, 1, &(nereid_bench_options){.repeat = 3, .copy = true}, &r, &copy, NULL, NULL), NEREID_OK);
  assert_int_equal(r.wall.count, 3);
  assert_int_equal(copy.wall.count, 0);
  assert_int_equal(nereid_bench_run(d, &c, 1, &(nereid_bench_options){.cold = true}, &r, NULL, NULL, NULL),
                   NEREID_UNSUPPORTED);
  nereid_function_free(f);
  nereid_free(d, p);
  nereid_device_close(d);
  nereid_module_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_launch_is_counted),
      cmocka_unit_test(values_of_integer_arrays_decide),
      cmocka_unit_test(a_descriptor_is_counted),
      cmocka_unit_test(what_is_not_exact_is_named),
      cmocka_unit_test(what_takes_centuries_is_many),
      cmocka_unit_test(wrong_questions_get_errors),
      cmocka_unit_test(figures_of_times),
      cmocka_unit_test(trials_are_run_in_turn),
      cmocka_unit_test(the_interpreter_is_timed_without_a_ceiling),
  };
  return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
