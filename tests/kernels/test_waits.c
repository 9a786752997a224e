/* Programs that wait for each other (waits.py), on every device of the machine, with one thread and with several: for
 * earlier programs, for later ones, for all of the grid; and what is said of those that wait in vain. */
#include "harness.h"

static const char FILE_NAME[] = "../tests/kernels/waits.py";
enum { BLOCK = 64, N = 37 * BLOCK - 5, PROGRAMS = 37 };

static double total(const Tensor *x, double *magnitude) {
  double sum = 0;
  *magnitude = 0;
  for (int64_t i = 0; i < x->count; i++) sum += x->values[i], *magnitude += fabs(x->values[i]);
  return sum;
}

static void locked_sum_on(const char *device) {
  Tensor x = tensor_random(NEREID_F32, N, 1), out = tensor_full(NEREID_F64, 1, 0), lock = tensor_full(NEREID_I32, 1, 0);
  double magnitude, want = total(&x, &magnitude), bound = 2 * N * 0x1p-53 * magnitude;
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &out), arg_tensor(&c, &lock), arg_int(&c, N), arg_const(&c, "BLOCK", BLOCK);
  launch(device, FILE_NAME, "locked_sum", &c, PROGRAMS, 1);
  check_close("sum", &out, &want, &bound, 1);
  assert_true(lock.values[0] == 0);
  tensor_free(&x), tensor_free(&out), tensor_free(&lock);
}
static void a_sum_under_one_lock(void **s) {
  (void)s;
  on_every_device(locked_sum_on);
}

static void locked_sum_with_on(const char *device) {
  static const char *const sems[] = {"acq_rel", "acquire", "release", "relaxed"};
  for (int i = 0; i < 4; i++) {
    Tensor x = tensor_random(NEREID_F32, N, 1), out = tensor_full(NEREID_F64, 1, 0),
           lock = tensor_full(NEREID_I32, 1, 0);
    double magnitude, want = total(&x, &magnitude), bound = 2 * N * 0x1p-53 * magnitude;
    Call c = {0};
    arg_tensor(&c, &x), arg_tensor(&c, &out), arg_tensor(&c, &lock), arg_int(&c, N), arg_const(&c, "SEM", i);
    arg_const(&c, "BLOCK", BLOCK);
    launch(device, FILE_NAME, "locked_sum_with", &c, PROGRAMS, 1);
    check_close(sems[i], &out, &want, &bound, 1);
    tensor_free(&x), tensor_free(&out), tensor_free(&lock);
  }
}
static void a_lock_taken_in_any_order_of_memory(void **s) {
  (void)s;
  on_every_device(locked_sum_with_on);
}

static void locked_rows_on(const char *device) {
  enum { ROWS = 50, GROUPS = 4 };
  Tensor x = tensor_random(NEREID_F32, ROWS * BLOCK, 2), sums = tensor_full(NEREID_F64, GROUPS * BLOCK, 9),
         locks = tensor_full(NEREID_I32, GROUPS, 0), counts = tensor_full(NEREID_I32, GROUPS, 0);
  double want[GROUPS * BLOCK] = {0}, bound[GROUPS * BLOCK] = {0};
  for (int i = 0; i < ROWS * BLOCK; i++) {
    int at = i / BLOCK % GROUPS * BLOCK + i % BLOCK;
    want[at] += x.values[i], bound[at] += 2 * ROWS * 0x1p-53 * fabs(x.values[i]);
  }
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &sums), arg_tensor(&c, &locks), arg_tensor(&c, &counts), arg_int(&c, ROWS);
  arg_const(&c, "GROUPS", GROUPS), arg_const(&c, "BLOCK", BLOCK);
  launch(device, FILE_NAME, "locked_rows", &c, ROWS, 1);
  check_close("sums", &sums, want, bound, GROUPS * BLOCK);
  tensor_free(&x), tensor_free(&sums), tensor_free(&locks), tensor_free(&counts);
}
static void rows_under_locks_of_their_own(void **s) {
  (void)s;
  on_every_device(locked_rows_on);
}

static bool collect(const char *device, const char *kernel, bool may_race, nereid_error **error) {
  Tensor x = tensor_random(NEREID_F32, N, 3), parts = tensor_full(NEREID_F64, PROGRAMS, 0),
         ready = tensor_full(NEREID_I32, PROGRAMS, 0), out = tensor_full(NEREID_F64, 1, 0);
  double magnitude, want = total(&x, &magnitude), bound = 2 * N * 0x1p-53 * magnitude;
  Call c = {.may_race = may_race};
  arg_tensor(&c, &x), arg_tensor(&c, &parts), arg_tensor(&c, &ready), arg_tensor(&c, &out), arg_int(&c, N);
  arg_const(&c, "BLOCK", BLOCK);
  bool ok = try_launch(device, FILE_NAME, kernel, &c, PROGRAMS, 1, error);
  if (ok) check_close("sum", &out, &want, &bound, 1);
  tensor_free(&x), tensor_free(&parts), tensor_free(&ready), tensor_free(&out);
  return ok;
}

static void collect_on(const char *device) {
  nereid_error *error = NULL;
  assert_true(collect(device, "collect", true, &error));
  assert_true(collect(device, "collect_atomic", false, &error));
}
static void the_first_program_waits_for_all_others(void **s) {
  (void)s;
  on_every_device(collect_on);
}

static void last_adds_on(const char *device) {
  nereid_error *error = NULL;
  assert_true(collect(device, "last_adds", false, &error));
}
static void the_last_to_count_sees_what_all_stored(void **s) {
  (void)s;
  on_every_device(last_adds_on);
}

/* What a volatile load finds is in no order with what was stored before it. */
static void a_race_between_programs_that_wait_is_found(void **s) {
  (void)s;
  nereid_error *error = NULL;
  assert_false(collect("interp", "collect", false, &error));
  assert_non_null(strstr(nereid_error_message(error), "race: program"));
  nereid_error_free(error);
}

/* Each step adds three numbers and divides: 4 roundings, which the next steps average. */
static void smooth_on(const char *device) {
  enum { STEPS = 6 };
  Tensor a = tensor_random(NEREID_F32, N, 4), b = tensor_full(NEREID_F32, N, 0),
         counter = tensor_full(NEREID_I32, 1, 0);
  static double want[N], next[N], bound[N];
  double most = 0;
  for (int i = 0; i < N; i++) want[i] = a.values[i], most = fmax(most, fabs(want[i]));
  for (int i = 0; i < N; i++) bound[i] = STEPS * 4 * 0x1p-24 * most;
  for (int step = 0; step < STEPS; step++) {
    for (int i = 0; i < N; i++) next[i] = (want[i ? i - 1 : 0] + want[i] + want[i < N - 1 ? i + 1 : N - 1]) / 3;
    memcpy(want, next, sizeof want);
  }
  Call c = {0};
  arg_tensor(&c, &a), arg_tensor(&c, &b), arg_tensor(&c, &counter), arg_int(&c, N);
  arg_const(&c, "STEPS", STEPS), arg_const(&c, "BLOCK", BLOCK);
  launch(device, FILE_NAME, "smooth", &c, PROGRAMS, 1);
  check_close("smooth", &a, want, bound, N);
  tensor_free(&a), tensor_free(&b), tensor_free(&counter);
}
static void all_programs_wait_for_all(void **s) {
  (void)s;
  on_every_device(smooth_on);
}

static void look_back(const char *device, bool reverse) {
  Tensor x = tensor_random(NEREID_F32, N, 5), y = tensor_full(NEREID_F64, N, 0),
         sums = tensor_full(NEREID_F64, 2 * PROGRAMS, 0), flags = tensor_full(NEREID_I32, PROGRAMS, 0);
  static double want[N], bound[N];
  double sum = 0, magnitude = 0;
  for (int k = 0; k < N; k++) {
    int i = reverse ? N - 1 - k : k;
    sum += x.values[i], magnitude += fabs(x.values[i]);
    want[i] = sum, bound[i] = 2 * N * 0x1p-53 * magnitude;
  }
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &y), arg_tensor(&c, &sums), arg_tensor(&c, &flags), arg_int(&c, N);
  arg_const(&c, "REVERSE", reverse), arg_const(&c, "BLOCK", BLOCK);
  launch(device, FILE_NAME, "look_back", &c, PROGRAMS, 1);
  check_close("scan", &y, want, bound, N);
  tensor_free(&x), tensor_free(&y), tensor_free(&sums), tensor_free(&flags);
}
static void look_back_on(const char *device) { look_back(device, false), look_back(device, true); }
static void a_scan_that_looks_back(void **s) {
  (void)s;
  on_every_device(look_back_on);
}

/* ---- TorchInductor's ---- */

static void two_phases_on(const char *device) {
  Tensor x = tensor_random(NEREID_F32, N, 7), parts = tensor_full(NEREID_F64, 64, 0),
         out = tensor_full(NEREID_F64, PROGRAMS, 0), sem = tensor_full(NEREID_U32, 1, 0);
  double magnitude, sum = total(&x, &magnitude), want[PROGRAMS], bound[PROGRAMS];
  for (int i = 0; i < PROGRAMS; i++) want[i] = sum, bound[i] = 2 * N * 0x1p-53 * magnitude;
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &parts), arg_tensor(&c, &out), arg_tensor(&c, &sem), arg_int(&c, N);
  arg_const(&c, "PROGRAMS", 64), arg_const(&c, "BLOCK", BLOCK);
  launch(device, FILE_NAME, "two_phases", &c, PROGRAMS, 1);
  check_close("sums", &out, want, bound, PROGRAMS);
  assert_true(sem.values[0] == 0x80000000); /* three barriers */
  tensor_free(&x), tensor_free(&parts), tensor_free(&out), tensor_free(&sem);
}
static void inductors_grid_barrier(void **s) {
  (void)s;
  on_every_device(two_phases_on);
}

static void split_scan(const char *device, bool wide) {
  Tensor x = tensor_random(NEREID_F32, N, 8), y = tensor_full(wide ? NEREID_F64 : NEREID_F32, N, 0),
         words = tensor_full(NEREID_U64, 3 * PROGRAMS, 0);
  static double want[N], bound[N];
  double sum = 0, magnitude = 0;
  for (int i = 0; i < N; i++) { /* eighths, whose sums are exact: who is ready decides in what order they are added */
    tensor_set(&x, i, round(8 * x.values[i]) / 8);
    sum += x.values[i], magnitude += fabs(x.values[i]);
    want[i] = sum, bound[i] = 2 * N * unit_roundoff(y.dtype) * magnitude;
  }
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &y), arg_tensor(&c, &words), arg_int(&c, N), arg_const(&c, "BLOCK", BLOCK);
  launch(device, FILE_NAME, wide ? "split_scan_64" : "split_scan", &c, PROGRAMS, 1);
  check_close("scan", &y, want, bound, N);
  tensor_free(&x), tensor_free(&y), tensor_free(&words);
}
static void split_scan_on(const char *device) { split_scan(device, false), split_scan(device, true); }
static void inductors_look_back(void **s) {
  (void)s;
  on_every_device(split_scan_on);
}

static void chain_on(const char *device) {
  enum { LONG = 300 };
  Tensor x = tensor_full(NEREID_I32, LONG, 2), tokens = tensor_full(NEREID_I32, LONG, 0),
         out = tensor_full(NEREID_I32, LONG, -1);
  double want[LONG], bound[LONG] = {0};
  for (int i = 0; i < LONG; i++) want[i] = 2 * (LONG - 1 - i);
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &tokens), arg_tensor(&c, &out);
  launch(device, FILE_NAME, "chain", &c, LONG, 1);
  check_close("chain", &out, want, bound, LONG);
  /* some of them alone, in another order */
  for (int i = 0; i < LONG; i++) tensor_set(&tokens, i, 0);
  tensor_set(&tokens, 12, 7);
  static const int64_t some[] = {9, 11, 10};
  c.options.programs = some, c.options.program_count = 3;
  launch(device, FILE_NAME, "chain", &c, LONG, 1);
  assert_true(out.values[11] == 14 && out.values[10] == 16 && out.values[9] == 18);
  tensor_free(&x), tensor_free(&tokens), tensor_free(&out);
}
static void a_chain_from_the_last_to_the_first(void **s) {
  (void)s;
  on_every_device(chain_on);
}

static void counter_on(const char *device) {
  Tensor x = tensor_random(NEREID_F32, N, 6), y = tensor_full(NEREID_F32, N, 0),
         counter = tensor_full(NEREID_I32, 1, 0);
  static double want[N], bound[N];
  for (int i = 0; i < N; i++) want[i] = 2 * x.values[i];
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &y), arg_tensor(&c, &counter), arg_int(&c, N), arg_const(&c, "BLOCK", BLOCK);
  launch(device, FILE_NAME, "from_counter", &c, 5, 1);
  check_close("twice", &y, want, bound, N);
  tensor_free(&x), tensor_free(&y), tensor_free(&counter);
}
static void work_from_a_counter(void **s) {
  (void)s;
  on_every_device(counter_on);
}

/* ---- in vain ----------------------------------------------------------------------------------------------------- */

static void stuck_on(const char *device) {
  if (strstr(device, "cuda")) return; /* a GPU waits forever */
  Tensor lock = tensor_full(NEREID_I32, 1, 1), out = tensor_full(NEREID_I32, 9, 0);
  Call c = {.options = {.limits = {.operations = 200 << 20}}};
  arg_tensor(&c, &lock), arg_tensor(&c, &out);
  nereid_error *error = NULL;
  assert_false(try_launch(device, FILE_NAME, "stuck", &c, 9, 1, &error));
  assert_int_equal(nereid_error_status(error), NEREID_OVER_LIMIT);
  assert_non_null(strstr(nereid_error_message(error), "programs wait for each other: 9 are in a loop that waits for "
                                                      "memory to change, and no other is left to change it"));
  assert_non_null(strstr(nereid_error_text(error), "while tl.atomic_cas(lock, 0, 1) == 1"));
  nereid_error_free(error);
  tensor_free(&lock), tensor_free(&out);
}
static void programs_that_wait_in_vain_are_told_of(void **s) {
  (void)s;
  on_every_device(stuck_on);
}

/* The others end, instead of waiting for the one that has failed. */
static void failing_on(const char *device) {
  if (strstr(device, "cuda")) return;
  Tensor ready = tensor_full(NEREID_I32, 1, 0), out = tensor_full(NEREID_I32, 9, 0);
  Call c = {.options = {.debug = true}};
  arg_tensor(&c, &ready), arg_tensor(&c, &out);
  nereid_error *error = NULL;
  assert_false(try_launch(device, FILE_NAME, "failing", &c, 9, 1, &error));
  assert_int_equal(nereid_error_status(error), NEREID_KERNEL_FAULT);
  assert_non_null(strstr(nereid_error_message(error), "the last one fails"));
  nereid_error_free(error);
  tensor_free(&ready), tensor_free(&out);
}
static void a_failure_ends_those_that_wait(void **s) {
  (void)s;
  on_every_device(failing_on);
}

static int open_devices(void **s) {
  (void)s;
  static const char *const also[] = {"interp", "cpu:1", "cpu:4"};
  if (getenv("NEREID_TEST_DEVICES")) return 0;
  for (int i = 0; i < 3; i++) test_device(also[i]);
  return 0;
}

static int close_devices(void **s) {
  (void)s;
  test_devices_close();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_sum_under_one_lock),
      cmocka_unit_test(a_lock_taken_in_any_order_of_memory),
      cmocka_unit_test(the_last_to_count_sees_what_all_stored),
      cmocka_unit_test(rows_under_locks_of_their_own),
      cmocka_unit_test(the_first_program_waits_for_all_others),
      cmocka_unit_test(a_race_between_programs_that_wait_is_found),
      cmocka_unit_test(all_programs_wait_for_all),
      cmocka_unit_test(a_scan_that_looks_back),
      cmocka_unit_test(inductors_grid_barrier),
      cmocka_unit_test(inductors_look_back),
      cmocka_unit_test(a_chain_from_the_last_to_the_first),
      cmocka_unit_test(work_from_a_counter),
      cmocka_unit_test(programs_that_wait_in_vain_are_told_of),
      cmocka_unit_test(a_failure_ends_those_that_wait),
  };
  return cmocka_run_group_tests(tests, open_devices, close_devices);
}
