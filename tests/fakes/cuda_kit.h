/* What every test against fakes/cuda.c asks at its end: nothing is left behind, and no call ran outside its context. */
#ifndef FAKE_CUDA_KIT_H
#define FAKE_CUDA_KIT_H

#include "fakes/cuda.h"
#include "unit/runtime/runtime_kit.h"

static inline void assert_nothing_left(const FakeCuda *fake) {
  assert_int_equal(fake->modules, 0);
  assert_int_equal(fake->allocations, 0);
  assert_int_equal(fake->host_allocations, 0);
  assert_int_equal(fake->pool_allocations, 0);
  assert_int_equal(fake->pools, 0);
  assert_int_equal(fake->registered, 0);
  assert_int_equal(fake->streams, 0);
  assert_int_equal(fake->events, 0);
  assert_int_equal(fake->graphs, 0);
  assert_int_equal(fake->graph_execs, 0);
  assert_int_equal(fake->contexts_retained, 0);
  assert_int_equal(fake->without_context, 0);
  assert_int_equal(fake->unloaded_in_flight, 0);
}

/* The call fails, and its text holds these words. */
#define assert_says(call, want_status, words) \
  do { \
    nereid_error *error = NULL; \
    nereid_status got = (call); \
    assert_non_null(error); \
    if (!strstr(nereid_error_text(error), words)) fail_msg("does not say '%s':\n%s", words, nereid_error_text(error)); \
    assert_int_equal(got, want_status); \
    nereid_error_free(error); \
  } while (0)

#endif
