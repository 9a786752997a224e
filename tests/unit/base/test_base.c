/* Tests of src/base through base.h. Numbers are checked against values worked out here in plain double arithmetic, code
 * by code: every code's value, and every boundary between two neighbouring codes from both sides and on the tie. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void arena_gives_zeroed_aligned_memory(void **state) {
  Arena *a = arena_create(NULL);
  size_t sizes[] = {0, 1, 15, 16, 17, 1000, 5000, 16384, 100000, 3 << 20};
  for (int round = 0; round < 200; round++) {
    size_t n = sizes[round % 10];
    unsigned char *p = arena_alloc(a, n);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 16, 0);
    for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
    memset(p, 0xff, n); /* so that overlapping pieces would be seen */
  }
  assert_true(arena_used(a) >= 20 * (3u << 20));
  assert_null(arena_alloc(a, SIZE_MAX));
  assert_null(arena_alloc(a, SIZE_MAX - 20));
  assert_string_equal(arena_strdup(a, "abc"), "abc");
  assert_string_equal(arena_strndup(a, "abcdef", 4), "abcd");
  assert_string_equal(arena_strndup(a, "ab", 4), "ab");
  assert_string_equal(arena_printf(a, "%d-%s", 7, "x"), "7-x");
  assert_memory_equal(arena_copy(a, "q\0r", 3), "q\0r", 3);
  arena_destroy(a);
  arena_destroy(NULL);
}

static void vectors_grow(void **state) {
  Arena *a = arena_create(NULL);
  VEC(int) v = {0};
  for (int i = 0; i < 10000; i++) vec_push(a, &v, i * 3);
  assert_int_equal(v.n, 10000);
  for (int i = 0; i < 10000; i++) assert_int_equal(v.at[i], i * 3);
  arena_destroy(a);
}

static void out_of_memory_unwinds(void **state) {
  Context *cx = context_create();
  volatile bool after = false;
  if (context_try(cx)) {
    arena_alloc(cx->arena, (size_t)PTRDIFF_MAX);
    after = true;
    context_end_try(cx);
  } else {
    assert_true(cx->out_of_memory);
    assert_int_equal(cx->diags.n, 1);
    assert_string_equal(cx->diags.at[0].message, "out of memory");
  }
  assert_false(after);
  assert_null(cx->unwind);
  assert_null(arena_alloc(cx->arena, (size_t)PTRDIFF_MAX)); /* no try: NULL */
  assert_int_equal(cx->diags.n, 1);
  context_destroy(cx);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void buf_builds_text(void **state) {
  Buf b = {0};
  buf_puts(&b, "");
  assert_string_equal(b.at, "");
  for (int i = 0; i < 1000; i++) buf_printf(&b, "%d,", i);
  buf_putc(&b, '!');
  assert_int_equal(b.n, strlen(b.at));
  assert_string_equal(b.at + b.n - 5, "999,!");
  size_t before = b.n;
  buf_printf(&b, "%*d", 5000, 7); /* longer than the room there is */
  assert_int_equal(b.n, before + 5000);
  assert_int_equal(b.at[b.n - 1], '7');
  assert_false(b.failed);
  buf_write(&b, "x", (size_t)PTRDIFF_MAX);
  assert_true(b.failed);
  buf_destroy(&b);
  assert_null(b.at);
}

static void doubles_print_shortest(void **state) {
  static const struct {
    double v;
    const char *text;
  } cases[] = {{0, "0.0"},
               {-0.0, "-0.0"},
               {1, "1.0"},
               {-2, "-2.0"},
               {100, "100.0"},
               {0.1, "0.1"},
               {1e-4, "0.0001"},
               {1e-5, "1e-05"},
               {1.5e-7, "1.5e-07"},
               {1e15, "1000000000000000.0"},
               {1e16, "1e+16"},
               {1e22, "1e+22"},
               {1e300, "1e+300"},
               {5e-324, "5e-324"},
               {DBL_MAX, "1.7976931348623157e+308"},
               {12.5, "12.5"},
               {1 / 3.0, "0.3333333333333333"},
               {INFINITY, "inf"},
               {-INFINITY, "-inf"},
               {NAN, "nan"},
               {123456.789, "123456.789"},
               {0.1 + 0.2, "0.30000000000000004"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Buf b = {0};
    buf_double(&b, cases[i].v);
    assert_string_equal(b.at, cases[i].text);
    buf_destroy(&b);
  }
  uint64_t random = 1;
  for (int i = 0; i < 20000; i++) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    uint64_t bits = random ^ random >> 29;
    double v;
    memcpy(&v, &bits, 8);
    if (isnan(v)) continue;
    Buf b = {0};
    buf_double(&b, v);
    assert_true(strtod(b.at, NULL) == v);
    buf_destroy(&b);
  }
}

/* ---- maps, hashes ------------------------------------------------------------------------------------------------ */

static void string_maps(void **state) {
  Arena *a = arena_create(NULL);
  Map *m = map_create(a, true);
  assert_null(map_get(m, "x"));
  int values[5000];
  for (int i = 0; i < 5000; i++) map_put(m, arena_printf(a, "key%d", i), &values[i]);
  assert_int_equal(map_count(m), 5000);
  for (int i = 0; i < 5000; i++) assert_ptr_equal(map_get(m, arena_printf(a, "key%d", i)), &values[i]);
  assert_null(map_get(m, "key5000"));
  map_put(m, "key17", NULL);
  assert_int_equal(map_count(m), 5000);
  assert_null(map_get(m, "key17"));
  assert_true(map_has(m, "key17"));
  assert_false(map_has(m, "key"));
  for (int i = 0; i < 5000; i++) { /* in order of first insertion */
    const void *key;
    map_entry(m, i, &key, NULL);
    assert_string_equal(key, arena_printf(a, "key%d", i));
  }
  assert_ptr_equal(map_get_n(m, "key42-and-more", 5), &values[42]);
  map_put_n(m, "a\0b", 3, &values[0]);
  map_put_n(m, "a\0c", 3, &values[1]);
  assert_ptr_equal(map_get_n(m, "a\0b", 3), &values[0]);
  assert_ptr_equal(map_get_n(m, "a\0c", 3), &values[1]);
  assert_false(map_has(m, "a"));
  arena_destroy(a);
}

static void address_maps(void **state) {
  Arena *a = arena_create(NULL);
  Map *m = map_create(a, false);
  static char place[3000];
  for (int i = 0; i < 3000; i++) map_put(m, &place[i], &place[2999 - i]);
  map_put(m, NULL, &place[1]);
  for (int i = 0; i < 3000; i++) assert_ptr_equal(map_get(m, &place[i]), &place[2999 - i]);
  assert_ptr_equal(map_get(m, NULL), &place[1]);
  assert_false(map_has(m, &m));
  char same[2][4] = {"abc", "abc"};
  map_put(m, same[0], &place[0]);
  assert_false(map_has(m, same[1]));
  arena_destroy(a);
}

static void hashes(void **state) {
  char out[33];
  hash_hex("abc", 3, out); /* FIPS 180-4's examples, the first 128 bits */
  assert_string_equal(out, "ba7816bf8f01cfea414140de5dae2223");
  hash_hex("", 0, out);
  assert_string_equal(out, "e3b0c44298fc1c149afbf4c8996fb924");
  hash_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, out);
  assert_string_equal(out, "248d6a61d20638b8e5c026930c3e6039");
  assert_true(hash_bytes("abc", 3, 0) == hash_bytes("abc", 3, 0));
  assert_true(hash_bytes("abc", 3, 0) != hash_bytes("abc", 3, 1));
  assert_true(hash_bytes("abc", 3, 0) != hash_bytes("abc\0", 4, 0));
  assert_true(hash_bytes("12345678abcdefgh", 16, 0) != hash_bytes("abcdefgh12345678", 16, 0));
}

/* ---- contexts and diagnostics ------------------------------------------------------------------------------------ */

static void interning(void **state) {
  Context *cx = context_create();
  const char *a = intern(cx, "hello world", 5);
  assert_string_equal(a, "hello");
  assert_ptr_equal(a, intern_z(cx, "hello"));
  assert_ptr_not_equal(a, intern_z(cx, "Hello"));
  assert_ptr_not_equal(intern(cx, "a\0b", 3), intern(cx, "a\0c", 3));
  assert_ptr_equal(intern(cx, "", 0), intern_z(cx, ""));
  context_destroy(cx);
}

static void sources(void **state) {
  Context *cx = context_create();
  const char text[] = "\xef\xbb\xbf"
                      "a\nbb\r\n\rc";
  Source *s = source_from_text(cx, "t.py", text, sizeof text - 1);
  assert_string_equal(s->text, "a\nbb\r\n\rc");
  assert_int_equal(s->size, 8);
  assert_int_equal(s->line_count, 4);
  uint32_t starts[] = {0, 2, 6, 7};
  assert_memory_equal(s->line_start, starts, sizeof starts);
  assert_ptr_equal(source_from_file(cx, "t.py"), s);
  assert_int_equal(source_from_text(cx, "e", "", 0)->line_count, 1);

  errno = 0;
  assert_null(source_from_file(cx, "/nonexistent/file"));
  assert_int_equal(errno, ENOENT);
  assert_null(source_from_file(cx, "/"));
  assert_int_equal(errno, EISDIR);
  assert_int_equal(cx->diags.n, 0);

  char path[] = "/tmp/nereid-test-XXXXXX";
  close(mkstemp(path));
  assert_true(file_write_atomic(path, "x = 1\ny = 2\n", 12));
  Source *f = source_from_file(cx, path);
  assert_string_equal(f->path, path);
  assert_string_equal(f->text, "x = 1\ny = 2\n");
  assert_ptr_equal(source_from_file(cx, path), f);
  unlink(path);
  context_destroy(cx);
}

static void fail_in_depth(Context *cx, int depth) {
  if (depth < 0) return;
  if (depth > 0) fail_in_depth(cx, depth - 1);
  diag_fail_hint(cx, (Span){0}, "do less", "too deep by %d", 3);
}

static void failing_unwinds_to_the_innermost_try(void **state) {
  Context *cx = context_create();
  volatile int steps = 0;
  if (context_try(cx)) {
    if (context_try(cx)) {
      steps |= 1;
      fail_in_depth(cx, 5);
    } else {
      steps |= 2;
      assert_int_equal(cx->diags.n, 1);
    }
    if (context_try(cx)) {
      steps |= 4;
      context_end_try(cx);
    } else {
      fail_msg("nothing failed here");
    }
    diag_warn(cx, (Span){0}, "%s", "a warning");
    diag_note(cx, (Span){0}, "a note");
    steps |= 8;
    diag_fail_now(cx);
  } else {
    steps |= 16;
  }
  assert_int_equal(steps, 31);
  assert_null(cx->unwind);
  assert_int_equal(cx->diags.n, 3);
  Buf b = {0};
  diags_print(&b, cx, false);
  assert_string_equal(b.at, "error: too deep by 3\n  hint: do less\nwarning: a warning\nnote: a note\n");
  buf_destroy(&b);
  context_destroy(cx);
}

static void expect_printed(const Diag *d, bool color, const char *text) {
  Buf b = {0};
  diag_print(&b, d, color);
  assert_string_equal(b.at, text);
  buf_destroy(&b);
}

static void diagnostics_show_the_place(void **state) {
  Context *cx = context_create();
  const char text[] = "def f(x):\n"
                      "\ty = tl.load(x)  \n"
                      "  s = 'h\xc3\xa9llo' + 1\n"
                      "call(1,\n"
                      "     2)\n"
                      "e\033[31m\n";
  Source *s = source_from_text(cx, "k.py", text, sizeof text - 1);
  Span outer = {s, 4, 0, 5, 7, NULL}, call = {s, 3, 6, 3, 14, &outer};
  Diag d = {DIAG_ERROR, 0, {s, 2, 5, 2, 15, NULL}, "no pointer", NULL};
  expect_printed(&d, false,
                 "k.py:2:6: error: no pointer\n"
                 "  \ty = tl.load(x)\n"
                 "  \t    ^~~~~~~~~~\n");
  d.hint = "add the base";
  d.span.inlined_at = &call;
  expect_printed(&d, false,
                 "k.py:2:6: error: no pointer\n"
                 "  \ty = tl.load(x)\n"
                 "  \t    ^~~~~~~~~~\n"
                 "  hint: add the base\n"
                 "  called from k.py:3:7\n"
                 "      s = 'h\xc3\xa9llo' + 1\n"
                 "          ^~~~~~~\n"
                 "  called from k.py:4:1\n"
                 "    call(1,\n"
                 "    ^~~~~~~\n");
  /* No escape sequence of the file reaches the terminal; ours do when asked. */
  Diag e = {DIAG_WARNING, 0, {s, 6, 0, 6, 1, NULL}, "odd", NULL};
  expect_printed(&e, false, "k.py:6:1: warning: odd\n  e [31m\n  ^\n");
  expect_printed(&e, true, "\033[1mk.py:6:1: \033[0m\033[1;35mwarning:\033[0m odd\n  e [31m\n  \033[1;32m^\033[0m\n");
  /* Places outside the text are printed without it. */
  Diag out = {DIAG_NOTE, 0, {s, 99, 3, 99, 4, NULL}, "far", NULL};
  expect_printed(&out, false, "k.py:99:4: note: far\n");
  out.span = (Span){s, 1, 500, 1, 501, NULL};
  expect_printed(&out, false, "k.py:1:501: note: far\n");
  context_destroy(cx);
}

static void long_lines_and_chains_are_cut(void **state) {
  Context *cx = context_create();
  char text[5001];
  memset(text, 'x', 5000);
  text[2500] = '!';
  text[5000] = 0;
  Source *s = source_from_text(cx, "k.py", text, 5000);
  Span chain[100];
  for (int i = 0; i < 100; i++) chain[i] = (Span){s, 1, 0, 1, 1, i ? &chain[i - 1] : NULL};
  Diag d = {DIAG_ERROR, 0, {s, 1, 2500, 1, 2501, &chain[99]}, "m", NULL};
  Buf b = {0};
  diag_print(&b, &d, false);
  const char *mark = strchr(b.at, '!'), *caret = strchr(b.at, '^');
  assert_non_null(mark);
  const char *line = strstr(b.at, "  ..."), *caret_line = strchr(line, '\n') + 1;
  assert_int_equal(mark - line, caret - caret_line);
  assert_true(b.n < 12 * 600);
  assert_non_null(strstr(b.at, "called from 88 more places\n"));
  buf_destroy(&b);
  context_destroy(cx);
}

static void near_names(void **state) {
  const char *names[] = {"load", "store", "program_id", "num_programs", "dot", "sum", "BLOCK_SIZE", NULL};
  assert_string_equal(nearest_name("laod", names), "load");
  assert_string_equal(nearest_name("stor", names), "store");
  assert_string_equal(nearest_name("programid", names), "program_id");
  assert_string_equal(nearest_name("block_size", names), "BLOCK_SIZE");
  assert_string_equal(nearest_name("BLOCKSIZE", names), "BLOCK_SIZE");
  assert_null(nearest_name("softmax", names));
  assert_null(nearest_name("xyz", names));
  assert_null(nearest_name("", names));
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void names_of_types(void **state) {
  for (int t = 0; t < DT_COUNT; t++) {
    Dtype got;
    assert_true(dtype_parse(dtype_triton_name((Dtype)t), &got) && got == (Dtype)t);
    assert_true(dtype_parse(dtype_name((Dtype)t), &got) && got == (Dtype)t);
    assert_true(dtype_parse(dtype_torch_name((Dtype)t), &got) && got == (Dtype)t);
    assert_true(dtype_is_int((Dtype)t) != dtype_is_float((Dtype)t));
  }
  Dtype got;
  assert_true(dtype_parse("half", &got) && got == DT_F16);
  assert_true(dtype_parse("long", &got) && got == DT_I64);
  assert_false(dtype_parse("quarter", &got));
  assert_int_equal(dtype_bytes(DT_I1), 1);
  assert_int_equal(dtype_bits(DT_I1), 1);
  assert_int_equal(dtype_bytes(DT_F64), 8);
  assert_false(dtype_is_signed(DT_I1));
  assert_true(dtype_is_signed(DT_I8));
  assert_false(dtype_is_signed(DT_F32));
  assert_true(dtype_is_fp8(DT_F8E5B16));
  assert_false(dtype_is_fp8(DT_I8));
}

/* What the tests know of each narrow format, in words of its definition. */
typedef struct {
  Dtype type;
  int bits, fraction, bias;
  bool infinities, fnuz, top_code_is_nan, ties_away, saturates;
  double largest_stored;
} Narrow;

static const Narrow narrow[] = {
    {DT_F16, 16, 10, 15, true, false, false, false, false, 65504},
    {DT_BF16, 16, 7, 127, true, false, false, false, false, 0x1.fep127},
    {DT_F8E5, 8, 2, 15, true, false, false, false, true, 57344},
    {DT_F8E4NV, 8, 3, 7, false, false, true, false, true, 448},
    {DT_F8E4B8, 8, 3, 8, false, true, false, false, true, 240},
    {DT_F8E5B16, 8, 2, 16, false, true, false, false, true, 57344},
    {DT_F8E4B15, 8, 3, 15, false, false, false, true, true, 1.75},
};

/* The value of a code without its sign. */
static double plain_value(const Narrow *f, int code) {
  int fraction = code & ((1 << f->fraction) - 1), exponent = code >> f->fraction;
  int top = (1 << (f->bits - 1 - f->fraction)) - 1;
  if (f->infinities && exponent == top) return fraction ? NAN : INFINITY;
  if (f->top_code_is_nan && code == (1 << (f->bits - 1)) - 1) return NAN;
  double m = fraction / (double)(1 << f->fraction);
  return exponent ? ldexp(1 + m, exponent - f->bias) : ldexp(m, 1 - f->bias);
}

static uint32_t store(Dtype t, double v) {
  uint32_t bits = 0;
  dtype_store_float(t, &bits, v);
  if (!isnan(v) && v == (double)(float)v) { /* the function for floats says the same */
    uint32_t again = t == DT_F16 ? f32_to_f16((float)v) : t == DT_BF16 ? f32_to_bf16((float)v) : f32_to_f8(t, (float)v);
    assert_int_equal(again, bits);
  }
  return bits;
}

static double load(Dtype t, uint32_t bits) {
  double v = dtype_load_float(t, &bits);
  float again = t == DT_F16    ? f16_to_f32((uint16_t)bits)
                : t == DT_BF16 ? bf16_to_f32((uint16_t)bits)
                               : f8_to_f32(t, (uint8_t)bits);
  assert_true(isnan(v) ? isnan(again) : v == again && !signbit(v) == !signbit(again));
  return v;
}

static void every_code_of_narrow_floats(void **state) {
  for (size_t k = 0; k < sizeof narrow / sizeof *narrow; k++) {
    const Narrow *f = &narrow[k];
    int sign = 1 << (f->bits - 1);
    for (int code = 0; code < sign; code++) {
      double want = plain_value(f, code);
      double plus = load(f->type, (uint32_t)code), minus = load(f->type, (uint32_t)(code | sign));
      if (isnan(want)) {
        assert_true(isnan(plus) && isnan(minus));
        continue;
      }
      assert_true(plus == want && !signbit(plus));
      if (code == 0 && f->fnuz) assert_true(isnan(minus));
      else assert_true(minus == -want && signbit(minus));
      if (want <= f->largest_stored) { /* and back */
        assert_int_equal(store(f->type, want), code);
        assert_int_equal(store(f->type, -want), code == 0 && f->fnuz ? 0 : code | sign);
      }
    }
  }
}

static void every_boundary_of_narrow_floats(void **state) {
  for (size_t k = 0; k < sizeof narrow / sizeof *narrow; k++) {
    const Narrow *f = &narrow[k];
    uint32_t sign = 1u << (f->bits - 1);
    uint32_t code = 0;
    for (; plain_value(f, (int)code) < f->largest_stored; code++) {
      double low = plain_value(f, (int)code), high = plain_value(f, (int)code + 1), tie = (low + high) / 2;
      uint32_t on_tie = f->ties_away || (code & 1) ? code + 1 : code;
      double points[] = {low, nextafter(low, high), nextafter(tie, low),
                         tie, nextafter(tie, high), nextafter(high, low)};
      uint32_t want[] = {code, code, code, on_tie, code + 1, code + 1};
      for (int i = 0; i < 6; i++) {
        assert_int_equal(store(f->type, points[i]), want[i]);
        assert_int_equal(store(f->type, -points[i]), f->fnuz && want[i] == 0 ? 0 : want[i] | sign);
      }
      /* The neighbours that a float can be. */
      assert_int_equal(store(f->type, nextafterf((float)tie, 0)), code);
      assert_int_equal(store(f->type, nextafterf((float)tie, INFINITY)), code + 1);
    }
    /* Beyond the largest: half a step more rounds down, the tie itself goes to infinity where there is one. */
    double largest = f->largest_stored, step = largest - plain_value(f, (int)code - 1), edge = largest + step / 2;
    assert_true(load(f->type, code) == largest);
    uint32_t beyond = f->saturates ? code : code + 1;
    assert_int_equal(store(f->type, nextafter(edge, 0)), code);
    assert_int_equal(store(f->type, edge), beyond);
    assert_int_equal(store(f->type, 1e300), beyond);
    assert_int_equal(store(f->type, INFINITY), beyond);
    assert_int_equal(store(f->type, -INFINITY), beyond | sign);
    /* NaN stays NaN where the format has one. */
    double nan_back = load(f->type, store(f->type, NAN));
    if (f->type == DT_F8E4B15) assert_true(nan_back == 1.75);
    else assert_true(isnan(nan_back));
    assert_int_equal(store(f->type, 5e-324), 0);
  }
}

static void rounding_towards_zero(void **state) {
  for (uint32_t code = 0; code < 0x7c00; code++) {
    float v = f16_to_f32((uint16_t)code), next = code == 0x7bff ? 70000.0f : f16_to_f32((uint16_t)(code + 1));
    float just_below = nextafterf(next, 0);
    assert_int_equal(f32_to_f16_rtz(v), code);
    assert_int_equal(f32_to_f16_rtz(just_below), code);
    assert_int_equal(f32_to_f16_rtz(-just_below), code | 0x8000);
  }
  assert_int_equal(f32_to_f16_rtz(1e30f), 0x7bff);
  assert_int_equal(f32_to_f16_rtz(INFINITY), 0x7c00);
  assert_true(isnan(f16_to_f32(f32_to_f16_rtz(NAN))));
  uint64_t random = 7;
  for (int i = 0; i < 100000; i++) { /* for bf16 it is the upper half of the float */
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    uint32_t bits = (uint32_t)(random >> 32);
    float v;
    memcpy(&v, &bits, 4);
    if (isnan(v)) continue;
    assert_int_equal(f32_to_bf16_rtz(v), bits >> 16);
  }
}

/* 1 + 2^-11 + 2^-40 lies above a tie of f16, but a float cannot tell: one rounding must. */
static void doubles_round_once(void **state) {
  double above = 1 + 0x1p-11 + 0x1p-40;
  assert_int_equal(f64_to_f16(above), 0x3c01);
  assert_int_equal(f32_to_f16((float)above), 0x3c00);
  uint16_t bits;
  dtype_store_float(DT_BF16, &bits, 1 + 0x1p-8 + 0x1p-40);
  assert_int_equal(bits, 0x3f81);
  /* The same of integers: 2^62 + 2^54 is a tie of bf16. */
  dtype_store_int(DT_BF16, &bits, (1LL << 62) + (1LL << 54));
  assert_int_equal(bits, 0x5e80);
  dtype_store_int(DT_BF16, &bits, (1LL << 62) + (1LL << 54) + 1);
  assert_int_equal(bits, 0x5e81);
  dtype_store_int(DT_BF16, &bits, -((1LL << 62) + (1LL << 54)) - 1);
  assert_int_equal(bits, 0xde81);
  dtype_store_int(DT_BF16, &bits, -((1LL << 62) + (1LL << 54)) + 1);
  assert_int_equal(bits, 0xde80);
  dtype_store_int(DT_BF16, &bits, INT64_MIN);
  assert_int_equal(bits, 0xdf00);
  float single;
  dtype_store_int(DT_F32, &single, (1LL << 60) + (1LL << 36) + 1);
  assert_true(single == 0x1.000002p60f);
}

static void integers_in_memory(void **state) {
  unsigned char room[8];
  dtype_store_int(DT_I8, room, 200);
  assert_int_equal(dtype_load_int(DT_I8, room), -56);
  assert_int_equal(dtype_load_int(DT_U8, room), 200);
  dtype_store_int(DT_U16, room, -1);
  assert_int_equal(dtype_load_int(DT_U16, room), 65535);
  assert_int_equal(dtype_load_int(DT_I16, room), -1);
  dtype_store_int(DT_U32, room, -1);
  assert_true(dtype_load_int(DT_U32, room) == 4294967295LL);
  assert_true(dtype_load_float(DT_U32, room) == 4294967295.0);
  dtype_store_int(DT_U64, room, -1);
  assert_true(dtype_load_int(DT_U64, room) == -1);
  assert_true(dtype_load_float(DT_U64, room) == 0x1p64);
  assert_true(dtype_load_float(DT_I64, room) == -1);
  memset(room, 0xee, 8);
  dtype_store_int(DT_I1, room, 256);
  assert_int_equal(room[0], 1);
  assert_int_equal(room[1], 0xee);
  room[0] = 0x80;
  assert_int_equal(dtype_load_int(DT_I1, room), 1);
  assert_true(dtype_load_float(DT_I1, room) == 1);
}

static int64_t through(Dtype t, double v) {
  int64_t room = 0;
  dtype_store_float(t, &room, v);
  return dtype_load_int(t, &room);
}

static void floats_become_integers(void **state) {
  assert_int_equal(through(DT_I32, 2.9), 2);
  assert_int_equal(through(DT_I32, -2.9), -2);
  assert_int_equal(through(DT_I32, 1e20), INT32_MAX);
  assert_int_equal(through(DT_I32, -1e20), INT32_MIN);
  assert_int_equal(through(DT_I32, NAN), 0);
  assert_int_equal(through(DT_I8, -128.5), -128);
  assert_int_equal(through(DT_I8, 300), 127);
  assert_int_equal(through(DT_U8, -1), 0);
  assert_int_equal(through(DT_U8, 255.99), 255);
  assert_true(through(DT_I64, 1e30) == INT64_MAX);
  assert_true(through(DT_I64, -0x1p63) == INT64_MIN);
  assert_true((uint64_t)through(DT_U64, 0x1.8p63) == 0xc000000000000000ULL);
  assert_true((uint64_t)through(DT_U64, 1e30) == UINT64_MAX);
  assert_int_equal(through(DT_I1, 0.25), 1);
  assert_int_equal(through(DT_I1, -0.0), 0);
  float f = -7.75f;
  assert_int_equal(dtype_load_int(DT_F32, &f), -7);
  f = 0.1f;
  assert_true(dtype_load_float(DT_F32, &f) == (double)0.1f);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct {
  Pool *pool;
  atomic_uchar *seen;
  atomic_int bad_worker, busy;
  atomic_long calls;
} Work;

static void mark(void *arg, int64_t begin, int64_t end, int worker) {
  Work *w = arg;
  if (worker < 0 || worker >= pool_threads(w->pool)) w->bad_worker++;
  for (int64_t i = begin; i < end; i++) w->seen[i]++;
  w->calls++;
}

static void pool_covers_the_range_once(void **state) {
  Pool *p = pool_create(4);
  assert_int_equal(pool_threads(p), 4);
  static atomic_uchar seen[10007];
  int64_t sizes[] = {0, 1, 2, 5, 100, 10007}, chunks[] = {0, 1, 3, 64, 20000};
  for (int round = 0; round < 300; round++) {
    int64_t n = sizes[round % 6], chunk = chunks[round % 5];
    memset(seen, 0, sizeof seen);
    Work w = {.pool = p, .seen = seen};
    pool_run(p, n, chunk, mark, &w);
    for (int64_t i = 0; i < 10007; i++) assert_int_equal(seen[i], i < n);
    assert_int_equal(w.bad_worker, 0);
    assert_int_equal(w.calls, chunk > 1 ? (n + chunk - 1) / chunk : n);
  }
  pool_destroy(p);
  p = pool_create(0);
  assert_true(pool_threads(p) >= 1);
  pool_destroy(p);
  pool_destroy(NULL);
}

static void nested(void *arg, int64_t begin, int64_t end, int worker) {
  Work *w = arg;
  for (int64_t i = begin; i < end; i++) {
    Work inner = {.pool = w->pool, .seen = w->seen + 10 * i};
    pool_run(w->pool, 10, 3, mark, &inner);
  }
}

static void cancel_early(void *arg, int64_t begin, int64_t end, int worker) {
  Work *w = arg;
  if (w->calls++ == 10) pool_cancel(w->pool);
}

static void slow(void *arg, int64_t begin, int64_t end, int worker) {
  Work *w = arg;
  if (worker != 0) usleep(2000); /* the caller runs out of chunks first */
  w->calls += end - begin;
}

static void *run_often(void *arg) {
  Work *shared = arg;
  static _Thread_local atomic_uchar seen[100];
  for (int i = 0; i < 200; i++) {
    memset(seen, 0, sizeof seen);
    Work w = {.pool = shared->pool, .seen = seen};
    pool_run(shared->pool, 100, 7, mark, &w);
    for (int j = 0; j < 100; j++)
      if (seen[j] != 1) shared->bad_worker++;
  }
  return NULL;
}

static void pool_nests_cancels_and_is_shared(void **state) {
  Pool *p = pool_create(3);
  static atomic_uchar seen[1000];
  Work w = {.pool = p, .seen = seen};
  pool_run(p, 100, 1, nested, &w);
  for (int i = 0; i < 1000; i++) assert_int_equal(seen[i], 1);

  Work c = {.pool = p};
  pool_run(p, 1000000, 1, cancel_early, &c);
  assert_in_range(c.calls, 11, 100000);
  Work after = {.pool = p, .seen = seen}; /* a cancelled run does not cancel the next */
  pool_run(p, 1000, 10, mark, &after);
  assert_int_equal(after.calls, 100);

  for (int i = 0; i < 20; i++) { /* nobody is left working when pool_run returns */
    Work late = {.pool = p};
    pool_run(p, 1000, 1, slow, &late);
    assert_int_equal(late.calls, 1000);
  }

  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, run_often, &w);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  assert_int_equal(w.bad_worker, 0);
  pool_destroy(p);
}

/* ---- the system -------------------------------------------------------------------------------------------------- */

static void files_are_written_whole(void **state) {
  Context *cx = context_create();
  char root[] = "/tmp/nereid-test-XXXXXX";
  assert_non_null(mkdtemp(root));
  char *dir = arena_printf(cx->arena, "%s/a/b//c/", root), *file = arena_printf(cx->arena, "%s/f", dir);
  assert_true(dir_create_all(dir));
  assert_true(dir_create_all(dir)); /* again */
  assert_true(file_write_atomic(file, "one", 3));
  assert_true(file_write_atomic(file, "three", 5));
  assert_string_equal(source_from_file(cx, file)->text, "three");
  const char *list[] = {"ls", "-A", dir, NULL}; /* nothing temporary is left */
  Buf out = {0};
  assert_int_equal(process_run(list, &out), 0);
  assert_string_equal(out.at, "f\n");
  buf_destroy(&out);
  assert_false(file_write_atomic(dir, "x", 1)); /* a directory */
  /* a link stays one, and what only its owner reads stays so */
  char *link = arena_printf(cx->arena, "%s/link", root);
  struct stat st;
  assert_int_equal(symlink(file, link), 0);
  assert_int_equal(chmod(file, 0600), 0);
  assert_true(file_write_atomic(link, "four", 4));
  assert_true(!lstat(link, &st) && S_ISLNK(st.st_mode));
  assert_true(!stat(file, &st) && (st.st_mode & 0777) == 0600);
  assert_true(file_read(file, &out));
  assert_int_equal(out.n, 4);
  assert_memory_equal(out.at, "four", 4);
  buf_destroy(&out);
  /* what is no file is written, and nothing takes its place */
  char *pipe = arena_printf(cx->arena, "%s/pipe", root), got[8] = "";
  assert_int_equal(mkfifo(pipe, 0600), 0);
  int reader = open(pipe, O_RDONLY | O_NONBLOCK);
  assert_true(reader >= 0);
  assert_true(file_write_atomic(pipe, "five", 4));
  assert_int_equal(read(reader, got, sizeof got), 4);
  assert_string_equal(got, "five");
  close(reader);
  assert_true(!lstat(pipe, &st) && S_ISFIFO(st.st_mode));
  assert_false(file_write_atomic("/nonexistent/f", "x", 1));
  assert_int_equal(errno, ENOENT);
  assert_false(dir_create_all(arena_printf(cx->arena, "%s/f/g", dir)));
  assert_int_equal(errno, ENOTDIR);
  assert_false(dir_create_all(""));
  const char *clean[] = {"rm", "-r", root, NULL};
  assert_int_equal(process_run(clean, NULL), 0);
  context_destroy(cx);
}

static void processes_run(void **state) {
  const char *both[] = {"sh", "-c", "echo out; echo err >&2; cat; exit 7", NULL};
  Buf out = {0};
  assert_int_equal(process_run(both, &out), 7); /* `cat` ends: stdin is empty */
  assert_string_equal(out.at, "out\nerr\n");
  buf_destroy(&out);
  const char *quoted[] = {"printf", "%s", "a b; $HOME", NULL}; /* no shell reads it */
  assert_int_equal(process_run(quoted, &out), 0);
  assert_string_equal(out.at, "a b; $HOME");
  buf_destroy(&out);
  const char *killed[] = {"sh", "-c", "kill -9 $$", NULL};
  assert_int_equal(process_run(killed, NULL), 128 + 9);
  const char *none[] = {"/nonexistent/program", NULL};
  assert_int_equal(process_run(none, NULL), -1);
  assert_int_equal(errno, ENOENT);
  const char *much[] = {"head", "-c", "1000000", "/dev/zero", NULL};
  assert_int_equal(process_run(much, &out), 0);
  assert_int_equal(out.n, 1000000);
  buf_destroy(&out);
  const char *set[] = {"sh", "-c", "printf '%s %s' \"$NEREID_TEST_A\" \"$NEREID_TEST_AB\"", NULL};
  assert_int_equal(setenv("NEREID_TEST_AB", "kept", 1), 0);
  assert_int_equal(process_run_with(set, &(ProcessOptions){.setting = "NEREID_TEST_A=given"}, &out), 0);
  assert_int_equal(process_run_with(set, &(ProcessOptions){.setting = "NEREID_TEST_AB=other"}, &out),
                   0); /* it has a value */
  assert_string_equal(out.at, "given kept kept");
  assert_null(getenv("NEREID_TEST_A"));
  unsetenv("NEREID_TEST_AB");
  buf_destroy(&out);
}

static void places_are_found(void **state) {
  Arena *a = arena_create(NULL);
  char *sh = find_program(a, "sh");
  assert_non_null(sh);
  assert_int_equal(sh[0], '/');
  assert_null(find_program(a, "no-such-program-at-all"));
  assert_null(find_program(a, ""));
  assert_null(find_program(a, "/tmp"));
  setenv("NEREID_CACHE_DIR", "/x", 1);
  assert_string_equal(cache_dir(a), "/x");
  unsetenv("NEREID_CACHE_DIR");
  setenv("XDG_CACHE_HOME", "/y", 1);
  assert_string_equal(cache_dir(a), "/y/nereid");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/h", 1);
  assert_string_equal(cache_dir(a), "/h/.cache/nereid");
  unsetenv("HOME");
  assert_null(cache_dir(a));
  int64_t t = clock_ns();
  assert_true(clock_ns() >= t);
  arena_destroy(a);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void cursor_reads_words_numbers_and_texts(void **state) {
  Context *cx = context_create();
  static const char text[] = " %x.1 = f32 [ -0x10, +7 ] // seven\n \"a\\n\\\"\\x01\" @3:4";
  Cursor c = cursor_source(cx, source_from_text(cx, "t", text, strlen(text)));
  assert_string_equal(cursor_value_name(&c), "x.1");
  assert_false(cursor_take(&c, '%'));
  cursor_expect(&c, '=');
  assert_false(cursor_take_word(&c, "f3"));
  assert_true(cursor_take_word(&c, "f32"));
  cursor_expect(&c, '[');
  assert_int_equal(cursor_int(&c), -16);
  cursor_expect(&c, ',');
  assert_int_equal(cursor_int_between(&c, 0, 7, "it"), 7);
  cursor_expect(&c, ']');
  assert_int_equal(cursor_peek_line(&c), '/');
  const char *read = cursor_text(&c);
  assert_string_equal(read, "a\n\"\x01");
  Buf quoted = {0};
  buf_quote(&quoted, read);
  assert_string_equal(quoted.at, "\"a\\n\\\"\\x01\"");
  buf_destroy(&quoted);
  const Span *place = cursor_place(&c, c.at);
  assert_int_equal(place->line, 3);
  assert_int_equal(place->col, 4);
  assert_int_equal(cursor_peek(&c), 0);
  context_destroy(cx);
}

static void cursor_says_where_it_fails(void **state) {
  static const struct {
    const char *text, *message;
    int line, col;
  } cases[] = {
      {"a\n b", "expected an integer, found 'b'", 2, 1},
      {"a 18446744073709551616", "the integer does not fit into 64 bits", 1, 21},
      {"a 8", "it must lie between 0 and 7", 1, 2},
      {"a", "expected an integer, found the end of the text", 1, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Context *cx = context_create();
    Cursor c = cursor_source(cx, source_from_text(cx, "t", cases[i].text, strlen(cases[i].text)));
    if (context_try(cx)) {
      assert_true(cursor_take_word(&c, "a"));
      cursor_int_between(&c, 0, 7, "it");
      context_end_try(cx);
      fail_msg("'%s' was read", cases[i].text);
    }
    assert_string_equal(cx->diags.at[0].message, cases[i].message);
    assert_int_equal(cx->diags.at[0].span.line, cases[i].line);
    assert_int_equal(cx->diags.at[0].span.col, cases[i].col);
    context_destroy(cx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arena_gives_zeroed_aligned_memory),
      cmocka_unit_test(vectors_grow),
      cmocka_unit_test(out_of_memory_unwinds),
      cmocka_unit_test(buf_builds_text),
      cmocka_unit_test(doubles_print_shortest),
      cmocka_unit_test(string_maps),
      cmocka_unit_test(address_maps),
      cmocka_unit_test(hashes),
      cmocka_unit_test(interning),
      cmocka_unit_test(sources),
      cmocka_unit_test(failing_unwinds_to_the_innermost_try),
      cmocka_unit_test(diagnostics_show_the_place),
      cmocka_unit_test(long_lines_and_chains_are_cut),
      cmocka_unit_test(near_names),
      cmocka_unit_test(names_of_types),
      cmocka_unit_test(every_code_of_narrow_floats),
      cmocka_unit_test(every_boundary_of_narrow_floats),
      cmocka_unit_test(rounding_towards_zero),
      cmocka_unit_test(doubles_round_once),
      cmocka_unit_test(integers_in_memory),
      cmocka_unit_test(floats_become_integers),
      cmocka_unit_test(pool_covers_the_range_once),
      cmocka_unit_test(pool_nests_cancels_and_is_shared),
      cmocka_unit_test(files_are_written_whole),
      cmocka_unit_test(processes_run),
      cmocka_unit_test(cursor_reads_words_numbers_and_texts),
      cmocka_unit_test(cursor_says_where_it_fails),
      cmocka_unit_test(places_are_found),
  };
  return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
