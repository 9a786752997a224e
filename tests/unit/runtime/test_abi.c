/* What of nereid.h must stay as it is while the soname does: the layout of structs, and that a library takes those of a
 * program that was built against an older version. Of a struct with `reserved`, take from there what is added; of one
 * with `size`, add at the end. Where a change is meant, the soname changes with it. */
#include "unit/runtime/runtime_kit.h"

#define FIXED(type) \
  { #type, sizeof(type), 0 }
#define GROWS(type) \
  { #type, sizeof(type), 1 }
static const struct {
  const char *name;
  size_t size;
  bool grows;
} structs[] = {
    FIXED(nereid_arg),           FIXED(nereid_device_info),   FIXED(nereid_param),         FIXED(nereid_kernel_info),
    FIXED(nereid_limits),        FIXED(nereid_function_info), FIXED(nereid_cost),          FIXED(nereid_times),
    FIXED(nereid_bench_options), FIXED(nereid_bench_result),  FIXED(nereid_tune_options),  FIXED(nereid_tune_result),
    FIXED(nereid_config),        FIXED(nereid_report),        FIXED(nereid_report_access), FIXED(nereid_report_options),
    FIXED(nereid_occupancy),     FIXED(nereid_prof_options),  FIXED(nereid_array),         FIXED(nereid_tensor_info),
    GROWS(nereid_options),       GROWS(nereid_source),        GROWS(nereid_host),          GROWS(nereid_slot),
};
enum { STRUCT_COUNT = sizeof structs / sizeof *structs };

/* As version 0.1 has them, where pointers have 64 bits. */
static const size_t sizes_then[STRUCT_COUNT] = {200, 352,  32,  56, 64, 136, 952, 64,  112, 328, 136, 504,
                                                64,  1336, 144, 96, 56, 80,  88,  184, 240, 104, 48,  48};

static void test_layouts(void **state) {
  (void)state;
  for (int i = 0; i < STRUCT_COUNT && sizeof(void *) == 8; i++) {
    bool good = structs[i].grows ? structs[i].size >= sizes_then[i] : structs[i].size == sizes_then[i];
    if (!good) fail_msg("%s has %zu bytes, but had %zu", structs[i].name, structs[i].size, sizes_then[i]);
  }
}

/* After an old program's options lies whatever it keeps there. */
static void test_old_options(void **state) {
  (void)state;
  nereid_device *d = kit_device("interp");
  nereid_module *m = kit_module();
  int64_t grid[3] = {1, 1, 1};
  nereid_options o;
  memset(&o, 0x5a, sizeof o);
  memset(&o, 0, offsetof(nereid_options, warn));
  o.size = offsetof(nereid_options, warn);
  o.num_warps = 8;
  nereid_function *f = NULL;
  assert_ok(nereid_launch(d, NULL, m, "nothing", grid, NULL, 0, &o, &error));
  assert_ok(nereid_compile(d, m, "nothing", NULL, 0, &o, &f, &error));
  nereid_function_info info;
  nereid_function_get_info(f, &info);
  assert_int_equal(info.num_warps, 8);
  assert_ok(nereid_run(f, NULL, grid, NULL, 0, &error));
  nereid_function_free(f);
  char *text = NULL;
  assert_ok(nereid_inspect(m, "nothing", NULL, 0, &o, "tile", NULL, &text, &error));
  free(text);
  /* of a program that knows no sizes: the numbers that options begin with, and zeros */
  union {
    int numbers[128];
    nereid_options options;
  } first = {.numbers = {2, 3, 1}};
  assert_ok(nereid_compile(d, m, "nothing", NULL, 0, &first.options, &f, &error));
  nereid_function_get_info(f, &info);
  assert_int_equal(info.num_warps, 2);
  nereid_function_free(f);
  /* of a newer program: what we do not know is not looked at */
  struct {
    nereid_options known;
    int more[8];
  } newer = {.known = {.size = sizeof newer, .num_warps = 2}, .more = {1, 2, 3}};
  assert_ok(nereid_compile(d, m, "nothing", NULL, 0, &newer.known, &f, &error));
  nereid_function_get_info(f, &info);
  assert_int_equal(info.num_warps, 2);
  nereid_function_free(f);
  nereid_module_free(m);
  nereid_device_close(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts), cmocka_unit_test(test_old_options)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
