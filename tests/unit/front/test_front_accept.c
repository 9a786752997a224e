/* What Triton takes and real kernels use: constexprs of every kind and their .value and .type, functions that are
 * constexprs, Triton's private names, casts and atomics that change little. Each kernel here compiles under Triton 3.6;
 * where a value is asserted, it is Triton's. */
#include "test_front_kit.h"

/* A kernel whose body is `lines`, over x, out, n, f and N = 16, with D, S and more constexprs of the file. */
#define FILE_HEAD \
  HEAD "from typing import NamedTuple, TYPE_CHECKING\n" \
       "import triton.language.core as core\n" \
       "from triton.language import core as core2\n" \
       "from triton.language.standard import _log2\n" \
       "if TYPE_CHECKING:\n" \
       "    from nowhere import SIZE\n" \
       "else:\n" \
       "    SIZE = tl.constexpr(8)\n" \
       "D = tl.constexpr(tl.float16)\n" \
       "S = tl.constexpr('relu')\n" \
       "TABLE = tl.constexpr((1, 2, 4))\n" \
       "TYPES = tl.constexpr({'half': tl.float16})\n" \
       "class Pair(NamedTuple):\n    a: tl.tensor\n    b: tl.constexpr\n" \
       "def plain(v):\n    return v * 2\n" \
       "wrapped = tl.constexpr(plain)\n" \
       "@tl.constexpr\ndef decorated(v, w=1):\n    return v + w\n" \
       "@triton.constexpr_function\ndef function(v):\n    return v - 1\n" \
       "@triton.jit\ndef same(v: tl.constexpr):\n    return v\n" \
       "@triton.jit\ndef head(t):\n    return t[0]\n" \
       "@triton.jit\ndef typed(a, b):\n    return a + b if (a + tl.zeros((1,), tl.int1)).dtype.is_int() else b\n" \
       "@triton.jit\ndef k(x, out, n, f, N: tl.constexpr):\n"

static void body_is_taken(const char *lines) {
  Buf b = {0};
  buf_puts(&b, FILE_HEAD);
  for (const char *s = lines; *s;) {
    size_t n = strcspn(s, "\n");
    buf_printf(&b, "    %.*s\n", (int)n, s);
    s += n + (s[n] == '\n');
  }
  kit_accepts(b.at);
  buf_destroy(&b);
}

/* Of one statement, around an expression; the message says `what`. */
static void body_is_refused(const char *before, const char *expression, const char *after, const char *what) {
  char text[4000];
  snprintf(text, sizeof text, FILE_HEAD "    %s%s%s\n", before, expression, after);
  kit_refuses(text, what);
}

static void values_and_types_of_constexprs(void **state) {
  (void)state;
  static const char *const asserted[] = {
      "N.value == 16",
      "S.value == 'relu'",
      "D.value == tl.float16",
      "TABLE.value[2] == 4",
      "N.type == tl.constexpr_type(16)",
      "isinstance(D.type, tl.constexpr_type)",
      "isinstance(N.type, core.constexpr_type)",
      "not isinstance(N, tl.constexpr)", /* it sees the int, as Triton's does */
      "isinstance(N, int)",
      "isinstance(D, tl.dtype)",
      "isinstance(n, tl.tensor)",
      "not isinstance(None, tl.constexpr)",
      "(n, N).type == (n, N).type",
      "(n, N).type.types[0] == tl.int32",
      "isinstance((n, f).type, tl.tuple_type)",
      "isinstance(tl.make_tensor_descriptor(x, [64, 64], [64, 1], [16, 16]).type, tl.tensor_descriptor_type)",
      "tl.make_tensor_descriptor(x, [64, 64], [64, 1], [16, 16]).type.block_type.shape[0] == 16",
      "n.dtype.int_signedness == core.dtype.SIGNEDNESS.SIGNED",
      "n.dtype.kind() == tl.dtype.KIND.INTEGRAL",
      "TYPES['half'] == tl.float16",
      "SIZE == 8",
      "f'{N:04d}|{S!r:>9}' == \"16|'relu'\"", /* what stands behind the colon is passed over */
      "core2.CONSTEXPR_0 == 0",
      "tl.full((16,), -1, tl.int1).dtype == tl.int1",
      "tl.full((16,), 0.5, tl.int1).dtype == tl.int1",
      /* block pointers to int1 are to bytes */
      "tl.load(tl.make_block_ptr(x.to(tl.pointer_type(tl.int1)), (16,), (1,), (0,), (16,), (0,))).dtype == tl.int8",
  };
  for (size_t i = 0; i < sizeof asserted / sizeof *asserted; i++) {
    char line[300];
    snprintf(line, sizeof line, "tl.static_assert(%s)", asserted[i]);
    body_is_taken(line);
  }
}

/* What Triton asks Python, or C++, for the truth of: docs of lib_bool and its neighbours. */
static void what_counts_as_a_bool(void **state) {
  (void)state;
  static const char *const taken[] = {
      "v = tl.load(x, volatile=1.5)",
      "tl.device_print('n', n, hex='yes')",
      "tl.device_print('n', n, hex=TABLE)",
      "v = tl.reshape(tl.arange(0, 16), (4, 4), can_reorder='yes')",
      "v = tl.cumsum(tl.arange(0, 16), 0, reverse=0.0)",
      "v = tl.dot(tl.zeros((16, 16), tl.float32), tl.zeros((16, 16), tl.float32), allow_tf32=n)",
      "v = tl.fdiv(f, f, ieee_rounding=n)",
      "tl.static_assert(tl.sum(tl.arange(0, 16), 0, keep_dims='yes').shape == (1,))",
      "tl.static_assert(tl.sum(tl.zeros((4, 4), tl.int32), 0, keep_dims=()).shape == (4,))",
      "tl.static_assert(tl.max(tl.arange(0, 16), 0, keep_dims=n).shape == (1,))",
      "tl.static_assert(tl.cast(n, tl.float32, bitcast='').dtype == tl.float32)",
      "tl.static_assert(tl.core.get_int_dtype(32, tl.float32) == tl.int32)",
      "tl.static_assert(tl.core.get_int_dtype(32, '') == tl.uint32)",
      "v = tl.sort(tl.arange(0, 16), descending=1)",
      "v = tl.argmax(tl.arange(0, 16), 0, tie_break_left=n > 3)",
      "v = tl.argmin(tl.arange(0, 16), 0, tie_break_left=f)",
      "v = tl.max(tl.arange(0, 16), 0, return_indices=True, return_indices_tie_break_left=x)",
      "v = tl.min(tl.arange(0, 16), 0, return_indices_tie_break_left=tl.arange(0, 16))",
      "if n > 3:\n    tl.assume(False)",
  };
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) body_is_taken(taken[i]);
  static const char *const refused[][2] = {
      {"tl.load(x, volatile='yes')", "`volatile` must be a constexpr bool"},
      {"tl.load(x, volatile=n)", "`volatile` must be constexpr"},
      {"tl.device_print('n', n, hex=(1,))", "`hex` must be a constexpr bool"},
      {"tl.reshape(tl.arange(0, 16), (4, 4), can_reorder=n)", "`can_reorder` must be constexpr"},
      {"tl.max(tl.arange(0, 16), 0, return_indices=1.0)", "`return_indices` must be a constexpr bool"},
      {"tl.argmax(tl.arange(0, 16), 0, tie_break_left='yes')", "`tie_break_left` must be a constexpr bool"},
      {"tl.sort(tl.arange(0, 16), descending=2)", "`descending` must be 0 or 1, but it is 2"},
      {"tl.sort(tl.arange(0, 16), descending=None)", "`descending` must be 0 or 1, but it is None"},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    body_is_refused("v = ", refused[i][0], "", refused[i][1]);
}

/* A None that is written is given, and false: allow_tf32=None asks for f32's precision. */
static void precisions_of_dots(void **state) {
  (void)state;
  static const struct {
    const char *arguments;
    bool ieee;
  } rows[] = {{"", false},
              {", allow_tf32=True", false},
              {", allow_tf32=False", true},
              {", allow_tf32=None", true},
              {", input_precision=None", false},
              {", input_precision='tf32'", false},
              {", input_precision='ieee'", true}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[4000];
    snprintf(text, sizeof text,
             FILE_HEAD "    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]\n"
                       "    a = tl.load(x + at)\n"
                       "    tl.store(x + at, tl.dot(a, a%s))\n",
             rows[i].arguments);
    Kit k = kit_compile(text);
    if (!k.c) fail_msg("refused:\n%s\n%s", text, k.messages);
    Buf b = {0};
    tile_print(&b, k.c->func, 0);
    assert_non_null(strstr(b.at, "= dot "));
    assert_int_equal(strstr(b.at, "{precision=ieee}") != NULL, rows[i].ieee);
    buf_destroy(&b);
    kit_free(&k);
  }
}

/* Triton's tuples compare as lists, up to the first items that differ. */
static void tuples_are_compared_as_lists(void **state) {
  (void)state;
  static const char *const asserted[] = {
      "(1, 2) == [1, 2]",         "(1, 2, 4) == TABLE", "(1, 2) != (1, 3)", "(n, 2) == (n, 2)",
      "(1, n) != (2, f)",         "(1, n) != (1,)",     "TABLE != 1",       "tl.int32 != (1, 2)",
      "((1, 2), n) != ((1,), f)", "x.dtype != (1, 2)",  "N != TABLE",
  };
  for (size_t i = 0; i < sizeof asserted / sizeof *asserted; i++) {
    char line[300];
    snprintf(line, sizeof line, "tl.static_assert(%s)", asserted[i]);
    body_is_taken(line);
  }
  static const char *const refused[][2] = {
      {"(1, 2) == 1", "'int' object has no attribute 'values'"},
      {"1.0 != (1, 2)", "'float' object has no attribute 'values'"},
      {"(n, 2) == None", "'NoneType' object has no attribute 'values'"},
      {"S == (n, 2)", "'str' object has no attribute 'values'"},
      {"((1, 2), n) == (1, n)", "'int' object has no attribute 'values'"},
      {"(1, n) == (1, f)", "Did you forget to add @triton.jit ?"},
      {"(1, n) == (1, 2)", "Did you forget to add @triton.jit ?"},
      {"(1, 2) < (1, 3)", "'<' not supported between instances of 'tuple' and 'tuple'"},
      {"TABLE >= (1, 3)", "'>=' not supported between instances of 'tuple' and 'tuple'"},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    body_is_refused("if ", refused[i][0], ":\n        tl.store(x, n)", refused[i][1]);
}

static void functions_as_constexprs(void **state) {
  (void)state;
  body_is_taken("v: tl.constexpr = wrapped(N)\ntl.static_assert(v == 32)");
  body_is_taken("v: tl.constexpr = decorated(N)\ntl.static_assert(v == 17)");
  body_is_taken("v: tl.constexpr = decorated.value(N, w=4)\ntl.static_assert(v == 20)");
  body_is_taken("v: tl.constexpr = function(N)\ntl.static_assert(v == 15)");
  kit_refuses(HEAD "def plain(v):\n    return v * 2\n@triton.jit\ndef k(out, N: tl.constexpr):\n    v = plain(N)\n",
              "plain is a plain Python function");
}

static void private_names(void **state) {
  (void)state;
  static const char *const asserted[] = {
      "tl.standard._log2(N) == 4",
      "_log2(17) == 4",
      "isinstance(_log2(N), int)",
      "tl.standard._is_power_of_two(N)",
      "core._unwrap_if_constexpr(N) == 16",
      "core._wrap_axis(-1, 3) == 2",
      "core.get_primitive_bitwidth('fp16') == 16",
      "tl.standard._get_int_dtype(16, True) == tl.int16",
      "tl.standard._pick_sum_dtype(tl.int8, None) == tl.int32",
      "tl.zeros((_log2(N),), tl.float32).numel == 4",
  };
  for (size_t i = 0; i < sizeof asserted / sizeof *asserted; i++) {
    char line[300];
    snprintf(line, sizeof line, "tl.static_assert(%s)", asserted[i]);
    body_is_taken(line);
  }
  static const char *const combine[] = {"_sum_combine", "_prod_combine",    "_xor_combine",
                                        "_or_combine",  "_elementwise_max", "_elementwise_min"};
  for (size_t i = 0; i < sizeof combine / sizeof *combine; i++) {
    char lines[200];
    snprintf(lines, sizeof lines, "tl.store(out, tl.reduce(tl.arange(0, 16), 0, tl.standard.%s))", combine[i]);
    body_is_taken(lines);
  }
  kit_refuses(FILE_HEAD "    tl.core._load(x)\n", "has no attribute '_load'"); /* no name without its underscore */
}

static void ties_go_as_the_function_says(void **state) {
  (void)state;
  static const char *const names[] = {"_argmax_combine_tie_break_left", "_argmin_combine_tie_break_left",
                                      "_argmax_combine_tie_break_fast", "_argmin_combine_tie_break_fast"};
  for (int i = 0; i < 4; i++) { /* of equal ones `left` keeps the lower index, `fast` the second */
    char text[600];
    snprintf(text, sizeof text,
             HEAD "@triton.jit\ndef k(out, n):\n    v = n + 0\n"
                  "    best, at = tl.standard.%s(v, 3, v, 5)\n    tl.store(out, at)\n",
             names[i]);
    kit_gives(text, 0, 1, (const int32_t[]){i < 2 ? 3 : 5});
  }
}

static void casts_that_round_nothing(void **state) {
  (void)state;
  body_is_taken("v = n.to(tl.int32, fp_downcast_rounding='rtne')");
  body_is_taken("v = f.to(tl.float32, fp_downcast_rounding='rtz')");
  body_is_taken("v = f.to(tl.int32, fp_downcast_rounding='rtz', bitcast=True)");
  kit_refuses(FILE_HEAD "    v = n.to(tl.float32, fp_downcast_rounding='rtz')\n", "narrower float");
  kit_refuses(FILE_HEAD "    v = f.to(tl.float64, fp_downcast_rounding='rtz')\n", "narrower float");
}

static void library_functions_take_more(void **state) {
  (void)state;
  body_is_taken("tl.store(x, tl.div_rn(3, f) + tl.div_rn(f, 2) + tl.div_rn(1.5, 2))");
  body_is_taken("tl.store(out, tl.reduce(tl.arange(0, 16), 0, typed))");
  body_is_taken("tl.static_assert(tl.topk(tl.arange(0, 16), 5).shape[0] == 4)");
  body_is_taken("tl.static_assert(tl.topk(tl.arange(0, 16), 1).shape[0] == 1)");
  body_is_taken("tl.store(x, tl.reshape(n, ()) + n.reshape([]))");
  body_is_taken("tl.store(out, tl.reduce(tl.arange(0, 16), 0, tl.cdiv))");
  body_is_taken("for i in range(0, n, 0):\n    tl.store(out + i, 1)");
  body_is_taken("for i in tl.range(n, flatten=n > 3, warp_specialize=None):\n    tl.store(out + i, 1)");
  body_is_taken("tl.static_assert(tl.standard.sort_impl(tl.arange(0, 16), descending=True).shape[0] == 16)");
  body_is_taken("tl.static_assert(tl.zeros([0], tl.float32).shape[0] == 0)");
  body_is_taken("tl.static_assert(tl.trans(tl.full((2, 0), 1, tl.int32)).shape[1] == 2)");
  kit_refuses(FILE_HEAD "    tl.store(x, tl.sum(tl.zeros([0], tl.float32)))\n", "depends on a tensor of no elements");
  body_is_taken("if not x:\n    tl.store(out, 1)");
  body_is_taken("if x and n > 3:\n    tl.store(out, 1)");
  body_is_taken("a = tl.zeros((16, 32), tl.int8)\nb = tl.zeros((32, 16), tl.int8)\n"
                "c = tl.dot(a, b, out_dtype=tl.float32)\ntl.static_assert(c.dtype == tl.int32)");
  body_is_taken("a = tl.zeros((16, 32), tl.int8)\nb = tl.zeros((32, 16), tl.int8)\n"
                "c = tl.dot(a, b, tl.zeros((16, 16), tl.float32))");
  static const char *const types[] = {"float16", "int32", "float64"};
  for (int i = 0; i < 3; i++) {
    char lines[300];
    snprintf(lines, sizeof lines,
             "d = tl.make_tensor_descriptor(x, [64, 64], [64, 1], [16, 16])\n"
             "d.atomic_add([0, 0], tl.zeros((16, 16), tl.%s))",
             types[i]);
    body_is_taken(lines);
  }
  static const char *const atomics[] = {"and", "or", "xor"};
  for (int i = 0; i < 3; i++) {
    char line[100];
    snprintf(line, sizeof line, "tl.static_assert(tl.atomic_%s(x, f).dtype == tl.float32)", atomics[i]);
    body_is_taken(line);
  }
}

static void a_comprehensions_if_is_passed_over(void **state) {
  (void)state;
  Kit k = kit_compile(FILE_HEAD "    t = [v for v in (1, 2, 3) if v > 1]\n    tl.static_assert(len(t) == 3)\n");
  assert_non_null(k.c);
  assert_non_null(strstr(k.messages, "a comprehension's `if` has no effect"));
  kit_free(&k);
}

static void pointer_types_as_annotations(void **state) {
  (void)state;
  kit_builds(HEAD "@triton.jit\ndef k(x: tl.pointer_type(tl.uint8), n):\n    tl.store(x + n, 1)\n", "x: *u8");
  kit_builds(HEAD "T = tl.pointer_type(tl.float16)\n@triton.jit\ndef k(x: T, n):\n    tl.store(x + n, 1)\n", "x: *f16");
}

/* As a tensor: Triton 3.6 makes one of a number that a jit function returns. */
static void returned_numbers_have_a_tensors_attributes(void **state) {
  (void)state;
  body_is_taken("a = same(1).to(tl.float32)\ntl.store(x, a + same(3).to(tl.int64))\n"
                "tl.static_assert(same(3).dtype == tl.int32)\ntl.static_assert(same(N) == 16)");
}

static void tuples_of_python_are_read_and_passed_on(void **state) {
  (void)state;
  body_is_taken("a = TABLE[1] + head(TABLE)\nb = tl.zeros((4, 1, 2, 4, 2), tl.int32).reshape((4,) + TABLE + (2,))\n"
                "c = tl.zeros(TABLE, tl.int32)\nd: tl.constexpr = TABLE\nh = d[0] + n\n"
                "tl.static_assert(len(TABLE * 2) == 6)");
}

static void declared_tensors_have_a_value(void **state) {
  (void)state;
  body_is_taken("a: tl.constexpr = n + 1\nb = a.value + 1\nc = a\nd = c + 1\ntl.store(x, a)\n"
                "p: tl.constexpr = tl.make_block_ptr(x, (64, 64), (64, 1), (0, 0), (16, 16), (1, 0))\nq = p\n"
                "e = tl.load(q)");
}

static void cas_takes_integers_of_either_sign(void **state) {
  (void)state;
  body_is_taken("tl.atomic_cas(out.to(tl.pointer_type(tl.int32), bitcast=True), 4294967295, 1)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_and_types_of_constexprs),
      cmocka_unit_test(what_counts_as_a_bool),
      cmocka_unit_test(precisions_of_dots),
      cmocka_unit_test(tuples_are_compared_as_lists),
      cmocka_unit_test(functions_as_constexprs),
      cmocka_unit_test(private_names),
      cmocka_unit_test(ties_go_as_the_function_says),
      cmocka_unit_test(casts_that_round_nothing),
      cmocka_unit_test(library_functions_take_more),
      cmocka_unit_test(a_comprehensions_if_is_passed_over),
      cmocka_unit_test(pointer_types_as_annotations),
      cmocka_unit_test(returned_numbers_have_a_tensors_attributes),
      cmocka_unit_test(tuples_of_python_are_read_and_passed_on),
      cmocka_unit_test(declared_tensors_have_a_value),
      cmocka_unit_test(cas_takes_integers_of_either_sign),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
