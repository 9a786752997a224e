/* What libraries of kernels reach for (language.py), on every device of the machine. */
#include "harness.h"

static const char FILE_NAME[] = "../tests/kernels/language.py";

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

enum { N = 1024 }; /* ten dims of size 2 */

static void sorted_on(const char *device) {
  Tensor x = tensor_random(NEREID_F32, N, 1), out = tensor_full(NEREID_F32, N, 0);
  double want[N], bound[N] = {0};
  memcpy(want, x.values, sizeof want);
  qsort(want, N, sizeof *want, ascending);
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &out), arg_const(&c, "N", N);
  launch(device, FILE_NAME, "sort_by_cube", &c, 1, 1);
  check_close("sort", &out, want, bound, N);
  tensor_free(&x), tensor_free(&out);
}
static void a_sort_on_ten_dims(void **s) {
  (void)s;
  on_every_device(sorted_on);
}

static void pairs_on(const char *device) {
  Tensor x = tensor_random(NEREID_F32, N, 2), out = tensor_full(NEREID_F32, N / 2, 0);
  double want[N / 2], bound[N / 2];
  for (int i = 0; i < N / 2; i++) {
    want[i] = x.values[2 * i] + x.values[2 * i + 1];
    bound[i] = 0x1p-23 * fabs(want[i]);
  }
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &out), arg_const(&c, "N", N);
  launch(device, FILE_NAME, "pairs_of_many_dims", &c, 1, 1);
  check_close("pairs", &out, want, bound, N / 2);
  tensor_free(&x), tensor_free(&out);
}
static void a_reduction_on_ten_dims(void **s) {
  (void)s;
  on_every_device(pairs_on);
}

static void best_on(const char *device) {
  enum { ROWS = 8, COLUMNS = 32 };
  Tensor x = tensor_random(NEREID_F32, ROWS * COLUMNS, 3), out = tensor_full(NEREID_F32, ROWS, 0),
         index = tensor_full(NEREID_I32, ROWS, 0);
  double want[ROWS], where[ROWS], bound[ROWS] = {0};
  for (int r = 0; r < ROWS; r++) {
    if (r % 2) tensor_set(&x, r * COLUMNS + 5, 9), tensor_set(&x, r * COLUMNS + 20, 9); /* a tie: the first wins */
    where[r] = 0;
    for (int i = 1; i < COLUMNS; i++)
      if (x.values[r * COLUMNS + i] > x.values[r * COLUMNS + (int)where[r]]) where[r] = i;
    want[r] = x.values[r * COLUMNS + (int)where[r]];
  }
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &out), arg_tensor(&c, &index), arg_const(&c, "ROWS", ROWS);
  arg_const(&c, "N", COLUMNS);
  launch(device, FILE_NAME, "best_of_rows", &c, 1, 1);
  check_close("best", &out, want, bound, ROWS);
  check_close("where", &index, where, bound, ROWS);
  tensor_free(&x), tensor_free(&out), tensor_free(&index);
}
static void tritons_own_combine_functions(void **s) {
  (void)s;
  on_every_device(best_on);
}

static void signs_on(const char *device) {
  enum { COUNT = 128 };
  static const nereid_dtype types[] = {NEREID_F32, NEREID_F64};
  for (int k = 0; k < 2; k++) {
    Tensor x = tensor_random(types[k], COUNT, 4), out = tensor_full(types[k], COUNT, 0);
    double before[COUNT], after[COUNT], bound[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) before[i] = x.values[i], after[i] = -x.values[i];
    Call c = {0};
    arg_tensor(&c, &x), arg_tensor(&c, &out), arg_const(&c, "N", COUNT);
    launch(device, FILE_NAME, "flip_signs", &c, 1, 1);
    check_close("old", &out, before, bound, COUNT);
    check_close("new", &x, after, bound, COUNT);
    tensor_free(&x), tensor_free(&out);
  }
}
static void atomics_on_the_bits_of_floats(void **s) {
  (void)s;
  on_every_device(signs_on);
}

static void returns_on(const char *device) {
  enum { COUNT = 16 };
  for (int n = 2; n < 6; n += 2)
    for (int whole = 0; whole < 2; whole++) {
      Tensor x = tensor_random(NEREID_F32, COUNT, 5), out = tensor_full(NEREID_F32, 2 * COUNT, 7);
      double want[2 * COUNT], bound[2 * COUNT] = {0};
      for (int i = 0; i < 2 * COUNT; i++) want[i] = 7;
      for (int i = 0; i < COUNT && !(whole && n > 3); i++) want[whole ? i : 2 * i] = x.values[i];
      Call c = {0};
      arg_tensor(&c, &x), arg_tensor(&c, &out), arg_int(&c, n), arg_const(&c, "WHOLE", whole),
          arg_const(&c, "N", COUNT);
      launch(device, FILE_NAME, "first_or_rest", &c, 1, 1);
      check_close("returns", &out, want, bound, 2 * COUNT);
      tensor_free(&x), tensor_free(&out);
    }
}
static void pointers_after_an_early_return(void **s) {
  (void)s;
  on_every_device(returns_on);
}

static void operators_on(const char *device) {
  enum { COUNT = 16 };
  Tensor x = tensor_full(NEREID_I32, COUNT, 0), out = tensor_full(NEREID_I32, COUNT, 7);
  double want[COUNT] = {0};
  for (int i = 0; i < COUNT; i++) tensor_set(&x, i, i + 1);
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &out), arg_int(&c, 5), arg_const(&c, "N", COUNT);
  launch(device, FILE_NAME, "operators_by_name", &c, 1, 1);
  check_close("operators", &out, want, want, COUNT);
  tensor_free(&x), tensor_free(&out);
}
static void operators_that_are_methods(void **s) {
  (void)s;
  on_every_device(operators_on);
}

static void tail_on(const char *device) {
  enum { COUNT = 16 };
  Tensor x = tensor_random(NEREID_F32, COUNT, 6), out = tensor_full(NEREID_F32, COUNT, 0);
  double want[COUNT], bound[COUNT];
  for (int i = 0; i < COUNT; i++) want[i] = 3 * x.values[i], bound[i] = 0x1p-22 * fabs(want[i]);
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &out), arg_int(&c, 3), arg_const(&c, "TAIL", 0), arg_const(&c, "N", COUNT);
  launch(device, FILE_NAME, "nothing_in_the_tail", &c, 1, 1);
  check_close("tail", &out, want, bound, COUNT);
  tensor_free(&x), tensor_free(&out);
}
static void tensors_of_no_elements(void **s) {
  (void)s;
  on_every_device(tail_on);
}

/* Steps of rows that come out even, that end in the middle of a row, of one step, that are never over, and none. */
static void steps_on(const char *device) {
  static const int cases[][2] = {{8, 3}, {10, 3}, {7, -1}, {5, -3}, {5, 100}, {5, 4}, {6, 0}, {0, 3}, {-2, 3}};
  enum { COLUMNS = 64, B = 16, ROWS = 8, ENDS = 64 };
  Tensor x = tensor_full(NEREID_F32, ROWS * COLUMNS, 0);
  for (int i = 0; i < ROWS * COLUMNS; i++) tensor_set(&x, i, i * 7 % 32 - 9);
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    int total = cases[k][0], last = cases[k][1], step = -1, row = -1, ends = 0;
    Tensor out = tensor_full(NEREID_F32, ENDS, 0), log = tensor_full(NEREID_I32, ROWS, 0);
    double want[ENDS] = {0}, rows[ROWS] = {0}, bound[ENDS] = {0}, sum = 0;
    for (int n = 0; n < total; n++) {
      step = step == last ? 0 : step + 1;
      if (step == 0) row++, rows[row] = row + 100;
      double begun = 0;
      for (int i = 0; i < B; i++) {
        sum += x.values[row * COLUMNS + step % 4 * B + i] * (step + 1);
        begun += x.values[row * COLUMNS + i] * step;
      }
      if (step == last) want[row] = sum + begun, sum = 0, ends++;
    }
    want[60] = sum, want[61] = ends, want[62] = row;
    Call c = {0};
    arg_tensor(&c, &x), arg_tensor(&c, &out), arg_tensor(&c, &log), arg_int(&c, total), arg_int(&c, last);
    arg_const(&c, "COLUMNS", COLUMNS), arg_const(&c, "B", B);
    launch(device, FILE_NAME, "rows_by_steps", &c, 1, 1);
    check_close("sums of rows", &out, want, bound, ENDS);
    check_close("rows begun", &log, rows, bound, ROWS);
    tensor_free(&out), tensor_free(&log);
  }
  tensor_free(&x);
}
static void rows_and_steps_in_one_loop(void **s) {
  (void)s;
  on_every_device(steps_on);
}

static int close_devices(void **s) {
  (void)s;
  test_devices_close();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_sort_on_ten_dims),
      cmocka_unit_test(a_reduction_on_ten_dims),
      cmocka_unit_test(tritons_own_combine_functions),
      cmocka_unit_test(atomics_on_the_bits_of_floats),
      cmocka_unit_test(pointers_after_an_early_return),
      cmocka_unit_test(operators_that_are_methods),
      cmocka_unit_test(tensors_of_no_elements),
      cmocka_unit_test(rows_and_steps_in_one_loop),
  };
  return cmocka_run_group_tests(tests, NULL, close_devices);
}
