/* Tests of the roofline's model on ceilings made up for it: which one bounds a launch, how far it is from it, what is
 * said; and of how ceilings are kept. Nothing is measured but in the last test, where no figure matters. */
#include "unit/runtime/runtime_kit.h"

#include <math.h>

/* A GPU with round figures: memory 4000 GB/s beyond 50 MB, L2 10000 GB/s, L1 30000 GB/s; f32 60, f16 120, dots of f16
 * 800 TFLOP/s. */
static nereid_ceilings gpu(void) {
  nereid_ceilings c = {.device = "cuda:0",
                       .description = "a GPU made up",
                       .date = "2026-01-31 12:00:00",
                       .launch_ns = 2000,
                       .replay_ns = 1000,
                       .level_count = 3,
                       .size_count = 4};
  c.levels[0] = (nereid_bandwidth){"L1", 2e7, 30000, 0, 0};
  c.levels[1] = (nereid_bandwidth){"L2", 5e7, 10000, 8000, 10000};
  c.levels[2] = (nereid_bandwidth){"memory", 0, 4000, 4000, 4000};
  const double bytes[] = {1e6, 1e7, 1e8, 1e9}, gbs[] = {10000, 10000, 4000, 4000};
  for (int i = 0; i < 4; i++) c.sizes[i] = (nereid_bandwidth){"", bytes[i], gbs[i], gbs[i], gbs[i]};
  c.rates[NEREID_RATE_F32] = 60000, c.rates[NEREID_RATE_F16] = 120000, c.rates[NEREID_RATE_EXP] = 4000,
  c.rates[NEREID_RATE_DIV] = 3000, c.rates[NEREID_RATE_I32] = 30000;
  c.rates[NEREID_RATE_DOT_F16] = 800000;
  return c;
}

static nereid_ceilings cpu(void) {
  nereid_ceilings c = {
      .device = "cpu:2", .description = "a CPU made up", .launch_ns = 200, .level_count = 2, .size_count = 2};
  c.levels[0] = (nereid_bandwidth){"L1", 1e5, 400, 200, 300};
  c.levels[1] = (nereid_bandwidth){"memory", 0, 40, 20, 30};
  c.sizes[0] = (nereid_bandwidth){"", 1e5, 400, 200, 300};
  c.sizes[1] = (nereid_bandwidth){"", 1e7, 40, 20, 30};
  c.rates[NEREID_RATE_F32] = 200, c.rates[NEREID_RATE_F16] = 10;
  return c;
}

static nereid_bound bound(const nereid_ceilings *c, const nereid_cost *k, double ns, bool cold) {
  nereid_bound b;
  assert_ok(nereid_bound_of(c, k, ns, cold, false, &b, &error));
  assert_true(strlen(b.text) > 20 && b.text[strlen(b.text) - 1] != ' ');
  return b;
}
#define near(a, b) assert_true(fabs((a) - (double)(b)) < 1e-6 * fabs((double)(b)))
#define assert_text(b, part) \
  do { \
    if (!strstr((b).text, part)) fail_msg("'%s' does not say '%s'", (b).text, part); \
  } while (0)

/* One addition an element, 2^26 of them: 3 * 2^28 bytes. */
static nereid_cost vector_add(int64_t n) {
  nereid_cost k = {.programs = n / 1024,
                   .flops = (double)n,
                   .add = n,
                   .load_bytes = 8 * n,
                   .store_bytes = 4 * n,
                   .load_distinct = 8 * n,
                   .store_distinct = 4 * n};
  k.typed[1].add = n;
  return k;
}

static void memory_bounds(void **state) {
  nereid_ceilings c = gpu();
  nereid_cost k = vector_add(1 << 26);
  double least = 12.0 * (1 << 26) / 4000;
  nereid_bound b = bound(&c, &k, least / 0.8, false);
  assert_int_equal(b.kind, NEREID_BOUND_MEMORY);
  assert_string_equal(b.name, "memory");
  assert_string_equal(b.level, "memory");
  near(b.share, 0.8), near(b.least_ns, least), near(b.bandwidth, 4000), near(b.working_set, 12.0 * (1 << 26));
  near(b.rate_ns[NEREID_RATE_F32], 2.0 * (1 << 26) / 60000); /* a sum takes the place of a multiply-add */
  assert_text(
      b,
      "bound by memory bandwidth: 805 MB that lie in memory, moved at 3.20 TB/s, 80% of the 4.00 TB/s that it gives.");
  assert_text(b, "f32 arithmetic would allow 112 times the speed.");
  b = bound(&c, &k, least / 0.4, false); /* too slow for it */
  assert_int_equal(b.kind, NEREID_BOUND_LATENCY);
  assert_string_equal(b.name, "latency");
  near(b.share, 0.4);
  assert_text(b, "bound by none of them, so by latency: the nearest, memory, explains 40% of the time.");
}

static void a_cache_bounds_what_fits(void **state) {
  nereid_ceilings c = gpu();
  nereid_cost k = vector_add(1 << 19); /* 6 MB: between 1e6 and 1e7 */
  nereid_bound b = bound(&c, &k, 12.0 * (1 << 19) / 10000 / 0.9, false);
  assert_int_equal(b.kind, NEREID_BOUND_MEMORY);
  assert_string_equal(b.name, "L2");
  near(b.share, 0.9);
  assert_text(b, "bound by the bandwidth of L2: 6.29 MB that lie in L2");
  b = bound(&c, &k, 12.0 * (1 << 19) / 4000 / 0.9, true); /* cold: it comes from memory all the same */
  assert_string_equal(b.name, "memory");
  near(b.share, 0.9);
  assert_text(b, "in memory (cold)");
  k = vector_add((int64_t)(sqrt(1e7 * 1e8) / 12)); /* half way between two sizes, on a logarithmic scale */
  b = bound(&c, &k, 1e6, false);
  assert_true(fabs(b.bandwidth - 7000) < 1);
}

static void reads_and_writes_mix(void **state) {
  nereid_ceilings c = cpu();
  nereid_cost k = {.load_distinct = 10000000, .load_bytes = 10000000};
  near(bound(&c, &k, 1e6, true).bandwidth, 40);
  k.store_distinct = k.store_bytes = 10000000;
  near(bound(&c, &k, 1e6, true).bandwidth, 30);
  k.load_distinct = k.load_bytes = 0;
  near(bound(&c, &k, 1e6, true).bandwidth, 20);
  /* three reads to a write: half way between reading and copying, by time a byte */
  k.load_distinct = k.load_bytes = 30000000;
  near(bound(&c, &k, 1e7, true).bandwidth, 1 / (0.5 / 40 + 0.5 / 30));
}

static void arithmetic_bounds(void **state) {
  nereid_ceilings c = gpu();
  nereid_cost k = vector_add(1 << 20);
  k.typed[1].add = 0, k.typed[1].fma = 1000000000;
  nereid_bound b = bound(&c, &k, 2e9 / 60000 / 0.75, false);
  assert_int_equal(b.kind, NEREID_BOUND_ARITHMETIC);
  assert_string_equal(b.name, "f32");
  near(b.share, 0.75);
  assert_text(b, "bound by f32 arithmetic: 75% of its ceiling.");
  k.typed[1].add = 2000000000, k.typed[1].mul = 1500000000; /* on a GPU these may be one instruction */
  near(bound(&c, &k, 1e6, false).rate_ns[NEREID_RATE_F32], (2 * 2e9 + 2e9) / 60000);
  k.transcendental = 1000000000;
  b = bound(&c, &k, 1e9 / 4000 / 0.6, false);
  assert_string_equal(b.name, "exp");
  assert_text(b, "special functions (exp and the like): 60% of its ceiling");
  k.dots[3] = (int64_t)1 << 40;
  b = bound(&c, &k, 2 * 0x1p40 / 800000 / 0.55, false);
  assert_string_equal(b.name, "dot f16");
  assert_text(b, "products of matrices (f16): 55%");
  nereid_ceilings d = cpu();
  k = vector_add(1000);
  k.typed[1].mul = 1000; /* on a CPU a sum and a product are two */
  near(bound(&d, &k, 1e4, false).rate_ns[NEREID_RATE_F32], 2 * 2000.0 / 200);
  k.typed[2].add = 1000; /* and f16 was measured with both */
  near(bound(&d, &k, 1e4, false).rate_ns[NEREID_RATE_F16], 1000.0 / 10);
  k.dots[1] = 1000; /* no library: its own multiply-adds are the ceiling */
  near(bound(&d, &k, 1e4, false).rate_ns[NEREID_RATE_DOT_F32], 2000.0 / 200);
}

static void requests_launches_and_few_programs(void **state) {
  nereid_ceilings c = gpu();
  nereid_cost k = {.programs = 1000,
                   .load_bytes = 3000000000,
                   .load_distinct = 1000000,
                   .store_bytes = 1000,
                   .store_distinct = 1000};
  nereid_bound b = bound(&c, &k, 1e5 / 0.7, false);
  assert_int_equal(b.kind, NEREID_BOUND_REQUESTS);
  assert_string_equal(b.name, "L1");
  assert_text(b, "bound by the bandwidth of L1: the programs ask for 3.00 GB, 2997.0 times what there is, at 70% of "
                 "what it gives.");
  k = vector_add(1024);
  b = bound(&c, &k, 2200, false);
  assert_int_equal(b.kind, NEREID_BOUND_LAUNCH);
  near(b.share, 2000.0 / 2200);
  assert_text(b, "bound by the launch: a launch of nothing takes 2.00 us of its 2.20 us");
  assert_ok(nereid_bound_of(&c, &k, 1100, false, true, &b, &error)); /* in a graph a launch is less */
  assert_int_equal(b.kind, NEREID_BOUND_LAUNCH);
  near(b.launch_ns, 1000);
  b = bound(&c, &k, 1e5, false);
  assert_int_equal(b.kind, NEREID_BOUND_LATENCY);
  assert_text(b, "1 program cannot keep the machine busy");
  k.integer = (int64_t)1 << 40; /* more than could be done in the time: compilers do away with it */
  assert_true(bound(&c, &k, 1e5, false).rate_ns[NEREID_RATE_I32] == 0);
  k.at_least = true;
  assert_text(bound(&c, &k, 1e5, false), "at least so much");
}

static void wrong_questions(void **state) {
  nereid_ceilings c = gpu();
  nereid_cost k = vector_add(1024);
  nereid_bound b;
  assert_int_equal(nereid_bound_of(NULL, &k, 1, false, false, &b, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(nereid_bound_of(&c, NULL, 1, false, false, &b, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(nereid_bound_of(&c, &k, 1, false, false, NULL, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(nereid_bound_of(&c, &k, 0, false, false, &b, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(nereid_bound_of(&c, &k, NAN, false, false, &b, NULL), NEREID_BAD_ARGUMENT);
  nereid_ceilings none = {0}; /* nothing known, nothing said of it */
  assert_ok(nereid_bound_of(&none, &k, 1000, false, false, &b, &error));
  assert_int_equal(b.kind, NEREID_BOUND_LATENCY);
  assert_string_equal(nereid_rate_name(NEREID_RATE_DOT_F8), "dot f8");
  assert_string_equal(nereid_rate_name((nereid_rate)99), "unknown");
}

static bool stop_at_once(void *arg, const char *what, int done, int of) { return *(int *)arg -= 1, *(int *)arg >= 0; }

static void ceilings_are_measured_and_kept(void **state) {
  char folder[] = "/tmp/nereid-test-XXXXXX", command[100], path[300];
  assert_non_null(mkdtemp(folder));
  setenv("NEREID_CACHE_DIR", folder, 1);
  nereid_device *d = kit_device("cpu:1"), *sim = kit_device("sim");
  nereid_ceilings *c = calloc(1, sizeof *c), *e = calloc(1, sizeof *e);
  assert_error(nereid_ceilings_load(d, c, &error), NEREID_BAD_FILE,
               "error: the ceilings of cpu:1 are not known\n  hint: `nereid roofline` measures and keeps them "
               "(--device as here); from C, nereid_ceilings_measure and nereid_ceilings_save\n");
  int steps = 0;
  nereid_ceilings_options o = {.quick = true, .no_blas = true, .progress = stop_at_once, .progress_arg = &steps};
  assert_error(nereid_ceilings_measure(d, &o, c, &error), NEREID_BAD_ARGUMENT,
               "error: nereid_ceilings_measure: stopped by the caller\n");
  steps = 1 << 20;
  assert_ok(nereid_ceilings_measure(d, &o, c, &error));
  assert_true(c->quick && c->size_count > 3 && c->level_count >= 1 && c->point_count >= 4 && c->launch_ns > 0 &&
              c->replay_ns == 0);
  assert_string_equal(c->device, "cpu:1");
  assert_string_equal(c->levels[c->level_count - 1].name, "memory");
  for (int i = 0; i < c->level_count; i++)
    assert_true(c->levels[i].read > 0 && c->levels[i].write > 0 && c->levels[i].copy > 0);
  for (int i = 0; i <= NEREID_RATE_DIV; i++) assert_true(c->rates[i] > 0);
  assert_true(c->rates[NEREID_RATE_DOT_F32] == 0);
  assert_ok(nereid_ceilings_save(c, &error));
  assert_ok(nereid_ceilings_load(d, e, &error));
  assert_string_equal(e->date, c->date);
  assert_string_equal(e->description, c->description);
  assert_int_equal(e->size_count, c->size_count);
  assert_int_equal(e->point_count, c->point_count);
  assert_true(fabs(e->rates[NEREID_RATE_EXP] / c->rates[NEREID_RATE_EXP] - 1) < 1e-4 &&
              fabs(e->points[0].ns / c->points[0].ns - 1) < 1e-4);
  /* A file that is not whole is not believed. */
  snprintf(command, sizeof command, "ls %s/ceilings-cpu-*.txt", folder);
  FILE *f = popen(command, "r");
  assert_non_null(fgets(path, sizeof path, f));
  pclose(f);
  path[strcspn(path, "\n")] = 0;
  static const char *const bad[] = {"", "nereid ceilings 2\nend\n", "nereid ceilings 1\nlevel L1 1 2 3\nend\n",
                                    "nereid ceilings 1\nsize 1 2 3 4\nlevel memory 0 1 1 1\n",
                                    "nereid ceilings 1\nnonsense\nend\n"};
  for (int i = 0; i < 5; i++) {
    f = fopen(path, "w");
    fputs(bad[i], f);
    fclose(f);
    nereid_error *error = NULL;
    assert_int_equal(nereid_ceilings_load(d, e, &error), NEREID_BAD_FILE);
    assert_non_null(strstr(nereid_error_text(error), "are damaged, or of another version"));
    nereid_error_free(error);
  }
  assert_int_equal(nereid_ceilings_measure(sim, &o, c, NULL), NEREID_UNSUPPORTED);
  assert_int_equal(nereid_ceilings_measure(NULL, &o, c, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(nereid_ceilings_save(NULL, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(nereid_ceilings_load(d, NULL, NULL), NEREID_BAD_ARGUMENT);
  setenv("NEREID_CACHE_DIR", "/dev/null/x", 1);
  assert_int_equal(nereid_ceilings_save(c, NULL), NEREID_BAD_FILE);
  nereid_device_close(d), nereid_device_close(sim);
  free(c), free(e);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

int main(void) {
  /* clang-format off */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_bounds), cmocka_unit_test(a_cache_bounds_what_fits),
        cmocka_unit_test(reads_and_writes_mix), cmocka_unit_test(arithmetic_bounds),
      cmocka_unit_test(requests_launches_and_few_programs), cmocka_unit_test(wrong_questions),
        cmocka_unit_test(ceilings_are_measured_and_kept)};
  /* clang-format on */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
