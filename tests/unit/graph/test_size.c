/* Sizes: polynomials of symbols, equal exactly when they are one object. */
#include "graph/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static Graph *graph(Context *cx) { return graph_create(cx, "test"); }

static void equal_sizes_are_one_object(void **state) {
  Context *cx = context_create();
  Graph *g = graph(cx);
  const Size *n = size_symbol(g, "n"), *m = size_symbol(g, "m"), *four = size_int(g, 4);
  assert_ptr_equal(size_mul(g, n, m), size_mul(g, m, n));
  assert_ptr_equal(size_add(g, size_mul(g, n, four), n), size_mul(g, n, size_int(g, 5)));
  assert_ptr_equal(size_sub(g, size_add(g, n, four), n), four);
  assert_ptr_equal(size_sub(g, n, n), size_int(g, 0));
  assert_string_equal(size_sub(g, size_mul(g, n, m), four)->text, "n*m - 4");
  assert_ptr_not_equal(n, m);
  context_destroy(cx);
}

static void division_leaves_no_remainder_for_any_value(void **state) {
  Context *cx = context_create();
  Graph *g = graph(cx);
  const Size *n = size_symbol(g, "n"), *m = size_symbol(g, "m"), *one = size_int(g, 1);
  assert_ptr_equal(size_divide(g, size_mul(g, n, m), m), n);
  assert_ptr_equal(size_divide(g, size_mul(g, size_int(g, 12), n), size_int(g, 4)), size_mul(g, size_int(g, 3), n));
  /* (n + 1) * (n + 1) by n + 1 */
  const Size *more = size_add(g, n, one);
  assert_ptr_equal(size_divide(g, size_mul(g, more, more), more), more);
  assert_null(size_divide(g, n, m));
  assert_null(size_divide(g, more, size_int(g, 2)));
  assert_null(size_divide(g, n, size_int(g, 0)));
  context_destroy(cx);
}

static void values_that_do_not_fit_are_told(void **state) {
  Context *cx = context_create();
  Graph *g = graph(cx);
  const Size *n = size_symbol(g, "n");
  int64_t v;
  assert_true(size_value(size_add(g, size_mul(g, n, n), size_int(g, -3)), (int64_t[]){5}, &v));
  assert_int_equal(v, 22);
  assert_false(size_value(size_mul(g, n, n), (int64_t[]){INT64_C(1) << 40}, &v));
  context_destroy(cx);
}

static void operations_that_are_wrong_fail(void **state) {
  Context *cx = context_create();
  Graph *g = graph(cx);
  const Size *a[] = {size_int(g, 3), size_int(g, 4)}, *b[] = {size_int(g, 5)};
  volatile int failed = 0;
  Tensor *x = graph_input(g, "x", DT_F32, 2, a), *i = graph_input(g, "i", DT_I64, 2, a);
  if (context_try(cx)) {
    graph_reshape(g, x, 1, b);
    context_end_try(cx);
  } else failed++;
  if (context_try(cx)) {
    graph_point(g, POINT_ADD, 2, (Tensor *[]){x, i});
    context_end_try(cx);
  } else failed++;
  if (context_try(cx)) {
    graph_point(g, POINT_EXP, 1, &i);
    context_end_try(cx);
  } else failed++;
  if (context_try(cx)) {
    graph_product(g, x, x, false);
    context_end_try(cx);
  } else failed++;
  assert_int_equal(failed, 4);
  assert_int_equal(cx->diags.n, 4);
  assert_string_equal(cx->diags.at[0].message,
                      "a view has as many elements as its tensor, and not f32[3, 4] and f32[5]");
  context_destroy(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_sizes_are_one_object),
      cmocka_unit_test(division_leaves_no_remainder_for_any_value),
      cmocka_unit_test(values_that_do_not_fit_are_told),
      cmocka_unit_test(operations_that_are_wrong_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
