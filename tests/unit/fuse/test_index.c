/* Indices: what a view does and the next one undoes is gone from the text; what is left has the right value. */
#include "fuse/fuse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct Test {
  Context *cx;
  Graph *g;
  IndexVar x;
} Test;

static Test *start(int64_t extent) {
  Context *cx = context_create();
  Test *t = NEW(cx->arena, Test);
  t->cx = cx;
  t->g = graph_create(cx, "test");
  t->x = (IndexVar){.text = "x", .extent = size_int(t->g, extent), .bit = 1};
  return t;
}

static int64_t number(const Size *s) {
  int64_t v = 0;
  assert_true(size_is_int(s, &v));
  return v;
}

static int64_t value(const Index *a, int64_t x) {
  int64_t v = number(a->constant);
  for (int i = 0; i < a->n; i++) {
    int64_t digit = x / number(a->at[i].below);
    if (a->at[i].size) digit %= number(a->at[i].size);
    v += digit * number(a->at[i].factor);
  }
  return v;
}

static void a_split_that_is_put_together_is_plain(void **state) {
  Test *t = start(24 * 10);
  const Size *size[] = {size_int(t->g, 4), size_int(t->g, 6), size_int(t->g, 10)};
  Index at[3];
  assert_true(index_split(t->g, index_var(t->g, &t->x), 3, size, NULL, at));
  assert_string_equal(index_text(t->g, &at[0]), "x // 60");
  assert_string_equal(index_text(t->g, &at[1]), "x // 10 % 6");
  assert_string_equal(index_text(t->g, &at[2]), "x % 10");
  Index linear = index_linear(t->g, 3, size, at);
  assert_string_equal(index_text(t->g, &linear), "x");
  context_destroy(t->cx);
}

static void splits_of_transposes_have_the_right_values(void **state) {
  Test *t = start(24 * 10);
  const Size *size[] = {size_int(t->g, 4), size_int(t->g, 6), size_int(t->g, 10)};
  const Size *turned[] = {size[2], size[0], size[1]}, *other[] = {size_int(t->g, 8), size_int(t->g, 30)};
  Index at[3], in[3], out[2];
  assert_true(index_split(t->g, index_var(t->g, &t->x), 3, turned, NULL, at));
  in[2] = at[0];
  in[0] = at[1];
  in[1] = at[2];
  Index linear = index_linear(t->g, 3, size, in);
  bool split = index_split(t->g, linear, 2, other, NULL, out);
  for (int64_t x = 0; x < 240; x++) {
    int64_t wanted = x / 6 % 4 * 60 + x % 6 * 10 + x / 24;
    assert_int_equal(value(&linear, x), wanted);
    if (!split) continue; /* then the caller names the index */
    assert_int_equal(value(&out[0], x), wanted / 30);
    assert_int_equal(value(&out[1], x), wanted % 30);
  }
  context_destroy(t->cx);
}

static void divisions_by_any_size_are_right_or_refused(void **state) {
  Test *t = start(360);
  int done = 0;
  for (int64_t a = 1; a <= 40; a++)
    for (int64_t b = 1; b <= 40; b++)
      for (int64_t c = 0; c < 3; c++) {
        Index q, r, whole, i = index_var(t->g, &t->x);
        i = index_add(t->g, index_scale(t->g, i, size_int(t->g, a)), index_constant(t->g, size_int(t->g, c)));
        if (!index_divide(t->g, i, size_int(t->g, b), &q, &r)) continue;
        done++;
        whole = index_add(t->g, index_scale(t->g, q, size_int(t->g, b)), r);
        for (int64_t x = 0; x < 360; x += 7) {
          assert_int_equal(value(&q, x), (a * x + c) / b);
          assert_int_equal(value(&r, x), (a * x + c) % b);
          assert_int_equal(value(&whole, x), a * x + c);
        }
      }
  assert_true(done > 200);
  context_destroy(t->cx);
}

static void symbols_split_too(void **state) {
  Test *t = start(1);
  const Size *n = size_symbol(t->g, "n"), *m = size_symbol(t->g, "m");
  const Size *size[] = {n, m}, *flat[] = {size_mul(t->g, n, m)};
  t->x.extent = flat[0];
  Index at[2], back[1];
  assert_true(index_split(t->g, index_var(t->g, &t->x), 2, size, NULL, at));
  assert_string_equal(index_text(t->g, &at[0]), "x // m");
  assert_string_equal(index_text(t->g, &at[1]), "x % m");
  assert_true(index_split(t->g, index_linear(t->g, 2, size, at), 1, flat, NULL, back));
  assert_string_equal(index_text(t->g, &back[0]), "x");
  Index third = index_scale(t->g, at[0], size_mul(t->g, m, m));
  assert_string_equal(index_text(t->g, &third), "x // m * (m*m)");
  const Size *none = size_int(t->g, 0), *squares = size_mul(t->g, n, n), *below = size_sub(t->g, none, squares);
  Index before = index_add(t->g, third, index_constant(t->g, size_sub(t->g, below, n)));
  assert_string_equal(index_text(t->g, &before), "x // m * (m*m) - n*n - n");
  before = index_add(t->g, third, index_constant(t->g, size_add(t->g, below, m)));
  assert_string_equal(index_text(t->g, &before), "x // m * (m*m) - n*n + m");
  context_destroy(t->cx);
}

/* Of arrays above 2^31 elements only what needs 64 bits has them: divisions have 32. */
static void large_places_have_64_bits(void **state) {
  Test *t = start(35426304);
  t->x.narrow = true;
  const Size *size[] = {size_int(t->g, 1024), size_int(t->g, 186), size_int(t->g, 186)},
             *of[] = {size_int(t->g, 1024), size_int(t->g, 2048), size_int(t->g, 2048)};
  Index at[3];
  assert_true(index_split(t->g, index_var(t->g, &t->x), 3, size, NULL, at));
  Index place = index_linear(t->g, 3, of, at);
  assert_string_equal(index_text(t->g, &place),
                      "(x // 34596).to(tl.int64) * 4194304 + x // 186 % 186 * 2048 + x % 186");
  t->x.narrow = false;
  assert_string_equal(index_text(t->g, &place), "x // 34596 * 4194304 + x // 186 % 186 * 2048 + x % 186");
  context_destroy(t->cx);
  t = start(1 << 20); /* two that are too much together */
  t->x.narrow = true;
  IndexVar y = {.text = "y", .extent = size_int(t->g, 1024), .bit = 2, .narrow = true};
  Index sum = index_add(t->g, index_scale(t->g, index_var(t->g, &t->x), size_int(t->g, 1100)),
                        index_scale(t->g, index_var(t->g, &y), size_int(t->g, 1 << 20)));
  assert_string_equal(index_text(t->g, &sum), "y.to(tl.int64) * 1048576 + x.to(tl.int64) * 1100");
  context_destroy(t->cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_split_that_is_put_together_is_plain),
      cmocka_unit_test(splits_of_transposes_have_the_right_values),
      cmocka_unit_test(divisions_by_any_size_are_right_or_refused),
      cmocka_unit_test(symbols_split_too),
      cmocka_unit_test(large_places_have_64_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
