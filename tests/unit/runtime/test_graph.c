/* Graphs on the devices that have done all when a call returns: a recorded list, gone through at each launch. CUDA's
 * are test_cuda.c's. */
#include "unit/runtime/runtime_kit.h"

typedef struct World {
  nereid_device *d;
  nereid_module *m;
  nereid_stream *s;
  nereid_function *f;
  float *x, *y, *out;
  nereid_arg args[5];
} World;
static const int64_t one[3] = {1, 1, 1};
#define OK(call) assert_int_equal((call), NEREID_OK)

static void quiet(void *arg, const char *line) { (void)arg, (void)line; }

static void begin(World *w, const char *device) {
  *w = (World){.d = kit_device(device), .m = kit_module()};
  float **arrays[] = {&w->x, &w->y, &w->out}, host[32];
  for (int i = 0; i < 3; i++) {
    OK(nereid_alloc(w->d, sizeof host, (void **)arrays[i], NULL));
    for (int k = 0; k < 32; k++) host[k] = i < 2 ? (float)(k + 100 * i) : 0;
    OK(nereid_copy_to_device(w->d, *arrays[i], host, sizeof host, NULL));
    w->args[i] = nereid_pointer(*arrays[i], NEREID_F32);
  }
  w->args[3] = nereid_int(32), w->args[4] = nereid_constexpr_int(32);
  nereid_options o = {.print = quiet};
  OK(nereid_stream_create(w->d, &w->s, NULL));
  OK(nereid_compile(w->d, w->m, "add", w->args, 5, &o, &w->f, NULL));
}

static void end(World *w) {
  nereid_stream_destroy(w->s);
  nereid_function_free(w->f);
  nereid_free(w->d, w->x), nereid_free(w->d, w->y), nereid_free(w->d, w->out);
  nereid_module_free(w->m);
  nereid_device_close(w->d);
}

static float at(World *w, const float *p, int i) {
  float host[32];
  OK(nereid_copy_to_host(w->d, host, p, sizeof host, NULL));
  return host[i];
}

static void a_recording_is_replayed(void **state) {
  static const char *const devices[] = {"cpu", "interp", "sim"};
  for (int i = 0; i < 3; i++) {
    World w;
    nereid_graph *g = NULL;
    begin(&w, devices[i]);
    OK(nereid_graph_begin(w.d, w.s, NULL));
    OK(nereid_fill_async(w.d, w.s, w.y, 0, 128, NULL));
    OK(nereid_run(w.f, w.s, one, w.args, 5, NULL));
    OK(nereid_copy_async(w.d, w.s, w.x, w.out, 128, NULL));
    nereid_arg twice[5];
    memcpy(twice, w.args, sizeof twice);
    twice[1] = w.args[0];
    OK(nereid_run(w.f, w.s, one, twice, 5, NULL));
    memset(twice, 0, sizeof twice); /* the recording has its own */
    float host[32] = {0};
    OK(nereid_copy_to_host_async(w.d, w.s, host, w.out, 128, NULL));
    assert_true(at(&w, w.out, 5) == 0);
    assert_null(nereid_stream_native(w.s));
    OK(nereid_graph_end(w.d, w.s, &g, NULL));
    assert_true(at(&w, w.out, 5) == 0 && at(&w, w.y, 5) == 105);
    OK(nereid_graph_launch(g, NULL, NULL));
    assert_true(at(&w, w.out, 5) == 10 && at(&w, w.y, 5) == 0 && host[5] == 10);
    OK(nereid_graph_launch(g, w.s, NULL));
    assert_true(at(&w, w.out, 5) == 10);
    OK(nereid_run(w.f, w.s, one, w.args, 5, NULL)); /* recorded no more */
    assert_true(at(&w, w.out, 7) == 7);
    nereid_graph_free(g);
    end(&w);
  }
}

static void wrong_uses_get_errors(void **state) {
  World w;
  nereid_graph *g = NULL, *h = NULL;
  begin(&w, "cpu");
  assert_int_equal(nereid_graph_begin(NULL, w.s, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(nereid_graph_begin(w.d, NULL, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(nereid_graph_end(w.d, w.s, &g, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(nereid_graph_launch(NULL, w.s, NULL), NEREID_BAD_ARGUMENT);
  OK(nereid_graph_begin(w.d, w.s, NULL));
  assert_int_equal(nereid_graph_begin(w.d, w.s, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(nereid_graph_end(w.d, w.s, NULL, NULL), NEREID_BAD_ARGUMENT);
  OK(nereid_graph_end(w.d, w.s, &g, NULL));
  OK(nereid_graph_begin(w.d, w.s, NULL));
  assert_int_equal(nereid_graph_launch(g, w.s, NULL), NEREID_UNSUPPORTED);
  OK(nereid_graph_launch(g, NULL, NULL)); /* of nothing */
  OK(nereid_graph_end(w.d, w.s, &h, NULL));
  OK(nereid_graph_begin(w.d, w.s, NULL)); /* a stream that goes while it is recorded */
  OK(nereid_run(w.f, w.s, one, w.args, 5, NULL));
  nereid_graph_free(g), nereid_graph_free(h), nereid_graph_free(NULL);
  end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_recording_is_replayed),
                                     cmocka_unit_test(wrong_uses_get_errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
