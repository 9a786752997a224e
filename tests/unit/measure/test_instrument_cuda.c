/* Records of a GPU's warps: what a launch hands its kernel, and what is made of clocks that each multiprocessor counts
 * for itself, and whose low half alone is in a record. The driver is fakes/cuda.c; the kernel is written here. */
#include "tile/passes/instrument.h" /* before cmocka, whose `fail` is a macro */

#include "fakes/cuda.h"
#include "unit/runtime/runtime_kit.h"

#include <dlfcn.h>

static FakeCuda *fake;

enum { WARPS = 4, TIMER = 32 /* ns between its ticks */ };
static const double cycle = 0.5; /* ns */

/* Where a multiprocessor's clock stands at time t (ns): block b runs on number b + 1. */
static uint64_t clock_of(int block, double t) {
  static const uint64_t begin[] = {1000, 0x1fffffff0ull, 77}; /* the second wraps in its low half */
  return begin[block] + (uint64_t)(t / cycle);
}
static uint64_t timer_at(double t) { return 5000000 + (uint64_t)(t / TIMER) * TIMER; }

/* Each warp of block b begins at 100 us * b + 10 us * warp; is in region 0 for 3 us from its second on, and, after 1 us
 * of it, for 1 us in region 1; ends after 8 us. */
static int run_kernel(void **params, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  if (fake->last_params < 2) return 0; /* not instrumented */
  void *buffer = *(void **)params[1];
  for (int b = 0; b < (int)grid[0]; b++)
    for (int w = 0; w < (int)block[0] / 32; w++) {
      InstrumentBuffer *in = buffer;
      double t = 1e5 * b + 1e4 * w;
      InstrumentCursor c = {0};
      if (b >= (int)in->programs || !in->slot[b]) continue;
      c.limit = in->limit;
      instrument_begin(&c,
                       (InstrumentWarp *)(void *)((char *)in + in->first +
                                                  ((uint64_t)(in->slot[b] - 1) * in->warps + (uint64_t)w) * in->stride),
                       (uint32_t)b + 1, clock_of(b, t), timer_at(t));
      instrument_mark(&c, INSTRUMENT_TAG(0, 0), clock_of(b, t + 1000));
      instrument_mark(&c, INSTRUMENT_TAG(1, 0), clock_of(b, t + 2000));
      instrument_mark(&c, INSTRUMENT_TAG(1, 1), clock_of(b, t + 3000));
      instrument_mark(&c, INSTRUMENT_TAG(0, 1), clock_of(b, t + 4000));
      instrument_close(&c, clock_of(b, t + 8000), timer_at(t + 8000));
    }
  return 0;
}

static const char text[] = "import triton\nimport triton.language as tl\n\n"
                           "@triton.jit\ndef k(x):\n"
                           "    # nereid: begin outer\n"
                           "    # nereid: begin inner\n"
                           "    tl.store(x, 1.0)\n"
                           "    # nereid: end inner\n"
                           "    # nereid: end outer\n";

static int fresh(void **state) {
  setenv("NEREID_LIBCUDA", FAKE_CUDA, 1);
  setenv("NEREID_PTXAS", "none", 1); /* so that the driver sees PTX, with its parameters */
  void *library = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_GLOBAL);
  assert_non_null(library);
  FakeCuda *(*get)(void) = (FakeCuda * (*)(void)) dlsym(library, "fake_cuda");
  void (*reset)(void) = (void (*)(void))dlsym(library, "fake_reset");
  void (*kernel)(const char *, FakeKernel) = (void (*)(const char *, FakeKernel))dlsym(library, "fake_kernel");
  reset();
  fake = get();
  kernel("k", run_kernel);
  return 0;
}

static bool near(double got, double want, double within) { return got > want - within && got < want + within; }

static void test_clocks(void **state) {
  nereid_device *d = kit_device("cuda");
  nereid_module *m = NULL;
  void *x = NULL;
  assert_ok(nereid_module_load_string("k.py", text, &m, &error));
  assert_ok(nereid_alloc(d, 256, &x, &error));
  nereid_arg args[] = {nereid_pointer(x, NEREID_F32)};
  nereid_instrument *in = NULL;
  assert_ok(nereid_instrument_run(
      d, m, "k", (int64_t[]){3, 1, 1}, args, 1, NULL,
      &(nereid_instrument_options){.blocks = (int64_t[]){0, 1}, .block_count = 2, .trials = -1}, &in, &error));
  assert_int_equal(fake->last_params, 2); /* x, and where it records to */
  nereid_instrument_info info;
  nereid_instrument_get_info(in, &info);
  assert_string_equal(info.unit, "cycles");
  assert_int_equal(info.warps, WARPS);
  assert_int_equal(info.region_count, 2);
  assert_true(near(info.ns_per_unit, cycle, 0.01));
  assert_true(near(info.warp_mean, 8000 / cycle, 1));
  const nereid_instrument_region *outer = nereid_instrument_region_at(in, 0),
                                 *inner = nereid_instrument_region_at(in, 1);
  assert_string_equal(outer->name, "outer");
  assert_int_equal(outer->count, 2 * WARPS);
  assert_true(near(outer->mean, 3000 / cycle, 1) && near(inner->max, 1000 / cycle, 2));
  assert_true(near(outer->share, 3.0 / 8, 0.001));
  for (int64_t i = 0; i < info.span_count; i += 3) { /* a warp, outer, inner */
    const nereid_instrument_span *s = nereid_instrument_span_at(in, i), *o = nereid_instrument_span_at(in, i + 1);
    double t = 1e5 * (double)s->block + 1e4 * s->warp;
    assert_int_equal(s->region, -1);
    assert_int_equal(s->sm, s->block + 1);
    /* by the timer between multiprocessors */
    assert_true(near(s->start * info.ns_per_unit, t, 0.02 * 1e5 + 2 * TIMER));
    assert_true(near(o->start - s->start, 1000 / cycle, 2));
  }
  nereid_instrument_free(in);
  nereid_free(d, x);
  nereid_module_free(m);
  nereid_device_close(d);
  assert_int_equal(fake->allocations, 0);
}

/* The slowdown is measured, and what those launches recorded is not what is shown. */
static void test_measured(void **state) {
  nereid_device *d = kit_device("cuda");
  nereid_module *m = NULL;
  void *x = NULL;
  assert_ok(nereid_module_load_string("k.py", text, &m, &error));
  assert_ok(nereid_alloc(d, 256, &x, &error));
  nereid_arg args[] = {nereid_pointer(x, NEREID_F32)};
  nereid_instrument *in = NULL;
  fake->launches = 0;
  nereid_status status = nereid_instrument_run(
      d, m, "k", (int64_t[]){1, 1, 1}, args, 1, NULL,
      &(nereid_instrument_options){.regions = NEREID_INSTRUMENT_AUTOMATIC, .trials = 3}, &in, NULL);
  /* the kernel's records name regions that this one does not have: they are left out */
  assert_int_equal(status, NEREID_OK);
  assert_true(fake->launches > 6);
  nereid_instrument_info info;
  nereid_instrument_get_info(in, &info);
  assert_int_equal(info.region_count, 0);
  nereid_instrument_free(in);
  nereid_free(d, x);
  nereid_module_free(m);
  nereid_device_close(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_clocks, fresh),
                                     cmocka_unit_test_setup(test_measured, fresh)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
