/* The cuda device against a driver that is not there (fakes/cuda.c): what is asked of the driver, and what is made of
 * each way in which it fails. What a kernel computes on a GPU is tests/gpu's business. */
#define _GNU_SOURCE
#include "gpu/gpu.h" /* before cmocka, whose `fail` is a macro */

#include "test_cuda_kit.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void test_no_driver(void **state) {
  nereid_device *d = NULL;
  setenv("NEREID_LIBCUDA", "/nonexistent/libcuda.so", 1);
  assert_error(nereid_device_open("cuda", &d, &error), NEREID_NO_DEVICE,
               "error: device 'cuda' cannot be opened: no NVIDIA driver: /nonexistent/libcuda.so: cannot open shared "
               "object file: No such file or directory\n"
               "  hint: NEREID_LIBCUDA names the driver's library; unset it for libcuda.so.1\n");
  nereid_device_info info[8];
  int n = nereid_devices(info, 8);
  assert_string_equal(info[n - 1].name, "cuda");
  assert_false(info[n - 1].available);
  assert_non_null(strstr(info[n - 1].description, "no NVIDIA driver"));
  setenv("NEREID_LIBCUDA", "libm.so.6", 1); /* a library, but no driver */
  assert_says(nereid_device_open("cuda:0", &d, &error), NEREID_NO_DEVICE,
              "the NVIDIA driver is too old: libm.so.6 has no cuInit");
  assert_null(d);
}

static void test_opening_fails(void **state) {
  nereid_device *d = NULL;
  const struct {
    const char *symbol;
    int code;
    nereid_status status;
    const char *words;
  } cases[] = {
      {"cuInit", 100, NEREID_NO_DEVICE,
       "device 'cuda' cannot be opened: no NVIDIA GPU: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)\n  "
       "hint: see with nvidia-smi"},
      {"cuInit", 803, NEREID_NO_DEVICE,
       "the NVIDIA driver does not start: system has unsupported display driver / cuda driver combination "
       "(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)\n  hint: the driver's library"},
      {"cuInit", 34, NEREID_NO_DEVICE, "CUDA error 34\n  hint: this libcuda is the CUDA toolkit's stub"},
      {"cuDevicePrimaryCtxRetain", 46, NEREID_NO_DEVICE,
       "busy or unavailable (CUDA_ERROR_DEVICE_UNAVAILABLE)\n  hint: another process holds the GPU"},
      {"cuDevicePrimaryCtxRetain", 2, NEREID_OUT_OF_MEMORY,
       "device 'cuda' cannot be opened: out of memory (CUDA_ERROR_OUT_OF_MEMORY)"},
      {"cuDeviceGetCount", 999, NEREID_NO_DEVICE, "CUDA error 999\n  hint: see with nvidia-smi and"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fake->fail.symbol = cases[i].symbol, fake->fail.result = cases[i].code;
    assert_says(nereid_device_open("cuda", &d, &error), cases[i].status, cases[i].words);
  }
  fake->device_count = 0;
  assert_says(nereid_device_open("cuda", &d, &error), NEREID_NO_DEVICE, "the driver finds no GPU");
  fake->device_count = 1;
  assert_error(nereid_device_open("cuda:1", &d, &error), NEREID_NO_DEVICE,
               "error: there is no device 'cuda:1': this machine has one GPU, cuda:0\n  hint: `nereid devices` lists "
               "the devices\n");
  fake->device_count = 4;
  assert_says(nereid_device_open("cuda:4", &d, &error), NEREID_NO_DEVICE,
              "there is no device 'cuda:4': this machine has 4 GPUs, cuda:0 to cuda:3");
  fake->compute_mode = 2;
  assert_says(nereid_device_open("cuda:3", &d, &error), NEREID_NO_DEVICE, "compute mode is Prohibited");
  fake->compute_mode = 0, fake->major = 7, fake->minor = 5;
  assert_says(nereid_device_open("cuda", &d, &error), NEREID_UNSUPPORTED,
              "device 'cuda:0' (Fake GPU) is too old: its compute capability is 7.5");
  static const char *const wrong[] = {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    assert_says(nereid_device_open(wrong[i], &d, &error), NEREID_BAD_ARGUMENT,
                "after the colon stands the number of a GPU");
  assert_null(d);
  assert_int_equal(fake->contexts_retained, 0);
}

static void test_rows(void **state) {
  fake->device_count = 2, fake->driver_version = 12080;
  nereid_device_info info[16];
  int n = nereid_devices(info, 16);
  assert_string_equal(info[n - 2].name, "cuda:0");
  assert_string_equal(info[n - 1].name, "cuda:1");
  assert_string_equal(info[n - 1].description,
                      "Fake GPU, compute capability 9.0, 132 multiprocessors, 1.0 GiB; driver for CUDA 12.8");
  assert_true(info[n - 1].available);
  assert_int_equal(info[n - 1].compute_capability, 90);
  assert_int_equal(info[n - 1].multiprocessors, 132);
  assert_int_equal(info[n - 1].driver_version, 12080);
  assert_int_equal(info[n - 1].memory_bytes, (int64_t)1 << 30);
  assert_int_equal(nereid_devices(NULL, 0), n);
  assert_int_equal(nereid_devices(info, n - 1), n);
  assert_int_equal(fake->contexts_retained, 0);
}

static void test_callers_context(void **state) {
  nereid_device *d = NULL;
  void *now = NULL, *p = NULL;
  BAD(nereid_device_open_cuda(NULL, &d, &error),
      "error: nereid_device_open_cuda: no CUDA context is current in this thread\n"
      "  hint: give a CUcontext, or make one current; nereid_device_open(\"cuda:0\") takes the primary one\n");
  BAD(nereid_device_open_cuda(NULL, NULL, &error), "error: nereid_device_open_cuda: out is NULL\n");
  fake->fail.symbol = "cuCtxGetDevice", fake->fail.result = 201;
  assert_says(nereid_device_open_cuda(fake_context(), &d, &error), NEREID_BAD_ARGUMENT,
              "the context cannot be used: invalid device context (CUDA_ERROR_INVALID_CONTEXT)\n  hint: the context "
              "must be alive");
  assert_null(d);
  /* By handle, in a thread that has no context: it has none afterwards either. */
  assert_ok(nereid_device_open_cuda(fake_context(), &d, &error));
  context_get(&now);
  assert_null(now);
  assert_ptr_equal(nereid_device_native(d), fake_context());
  assert_int_equal(fake->contexts_retained, 0); /* nothing of the primary one */
  /* In a thread that works in another context, that one is current again after each call. */
  int other;
  context_set(&other);
  assert_ok(nereid_alloc(d, 100, &p, &error));
  context_get(&now);
  assert_ptr_equal(now, &other);
  nereid_free(d, p);
  assert_ok(nereid_synchronize(d, &error));
  nereid_device_close(d);
  context_get(&now);
  assert_ptr_equal(now, &other);
  context_set(fake_context());
  assert_ok(nereid_device_open_cuda(NULL, &d, &error)); /* the current one */
  assert_ptr_equal(nereid_device_native(d), fake_context());
  nereid_device_close(d);
  context_set(NULL);
  assert_int_equal(fake->without_context, 0);
  nereid_device *cpu = kit_device("cpu:1");
  assert_null(nereid_device_native(cpu));
  nereid_device_close(cpu);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void test_memory(void **state) {
  Fixture *f = *state;
  void *p = NULL;
  char out[256], in[256];
  for (int i = 0; i < 256; i++) in[i] = (char)i;
  assert_error(nereid_alloc(f->d, (int64_t)1 << 40, &p, &error), NEREID_OUT_OF_MEMORY,
               "error: out of memory: cuda:0 has no 1099511627776 bytes; 536870912 of its 1073741824 are free\n"
               "  hint: free device memory, or see with nvidia-smi who else uses the GPU\n");
  assert_ok(nereid_alloc(f->d, 0, &p, &error));
  nereid_free(f->d, p);
  assert_ok(nereid_copy_to_device(f->d, f->p[0], in, 256, &error));
  assert_ok(nereid_copy_async(f->d, NULL, f->p[1], f->p[0], 256, &error));
  assert_ok(nereid_copy_to_host(f->d, out, f->p[1], 256, &error));
  assert_memory_equal(in, out, 256);
  assert_ok(nereid_fill_async(f->d, NULL, f->p[1], 7, 100, &error));
  assert_ok(nereid_copy_to_host_async(f->d, NULL, out, f->p[1], 256, &error));
  assert_int_equal(out[99], 7);
  assert_int_equal(out[100], 100);
  BAD(nereid_fill_async(f->d, NULL, f->p[1], 7, 257, &error),
      "error: nereid_fill_async: 257 bytes do not fit the 256 that the array has there\n");
  BAD(nereid_copy_async(f->d, NULL, f->p[1], (char *)f->p[0] + 1, 256, &error),
      "error: nereid_copy_async: 256 bytes do not fit the 255 that the array has there\n");
  BAD(nereid_copy_to_device_async(f->d, NULL, f->p[1], NULL, 8, &error),
      "error: nereid_copy_to_device_async: the host's pointer is NULL\n");
  fake->fail.symbol = "cuMemcpyHtoD_v2", fake->fail.result = 1;
  BAD(nereid_copy_to_device(f->d, f->p[0], in, 256, &error),
      "error: 256 bytes cannot be copied to cuda:0: invalid argument (CUDA_ERROR_INVALID_VALUE)\n");
  void *h = NULL;
  assert_ok(nereid_alloc_host(f->d, 1000, &h, &error));
  assert_int_equal(fake->host_allocations, 1);
  nereid_free_host(f->d, h);
  nereid_free_host(f->d, NULL);
  fake->fail.symbol = "cuMemHostAlloc", fake->fail.result = 2;
  assert_says(nereid_alloc_host(f->d, 1000, &h, &error), NEREID_OUT_OF_MEMORY,
              "1000 bytes of the host's memory cannot be page-locked: out of memory (CUDA_ERROR_OUT_OF_MEMORY)");
}

/* The caller's memory: what CUDA knows is left as it is, the rest is page-locked and let go again. */
static void test_registered(void **state) {
  Fixture *f = *state;
  float host[16], other[16];
  assert_ok(nereid_register(f->d, host, sizeof host, "host", &error));
  assert_int_equal(fake->registered, 1);
  assert_ok(nereid_register(f->d, (char *)f->p[0] + 64, 8, "the device's", &error));
  assert_int_equal(fake->registered, 1);
  f->add[0].pointer = host;
  assert_ok(LAUNCH("add", f->add, 4));
  nereid_unregister(f->d, host);
  assert_int_equal(fake->registered, 0);
  nereid_unregister(f->d, (char *)f->p[0] + 64);
  fake->fail.symbol = "cuMemHostRegister_v2", fake->fail.result = 2;
  assert_says(nereid_register(f->d, host, 64, "host", &error), NEREID_OUT_OF_MEMORY,
              "64 bytes of the host's memory cannot be page-locked for cuda:0");
  assert_ok(nereid_register(f->d, other, sizeof other, "other", &error)); /* left to nereid_device_close */
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static void test_launch(void **state) {
  Fixture *f = *state;
  float x[8], out[8];
  for (int i = 0; i < 8; i++) x[i] = (float)i;
  assert_ok(nereid_copy_to_device(f->d, f->p[0], x, sizeof x, &error));
  assert_ok(nereid_copy_to_device(f->d, f->p[1], x, sizeof x, &error));
  const int64_t grid[3] = {5, 6, 7};
  nereid_options o = {.block = {32, 4, 2}, .shared_bytes = 1000};
  assert_ok(nereid_launch(f->d, NULL, f->m, "add", grid, f->add, 4, &o, &error));
  assert_ok(nereid_synchronize(f->d, &error));
  assert_ok(nereid_copy_to_host(f->d, out, f->p[2], sizeof out, &error));
  for (int i = 0; i < 8; i++) assert_true(out[i] == 2 * x[i]);
  for (int i = 0; i < 3; i++) assert_int_equal(fake->last_grid[i], grid[i]);
  for (int i = 0; i < 3; i++) assert_int_equal(fake->last_block[i], o.block[i]);
  assert_int_equal(fake->last_shared, 1000);
  assert_non_null(strstr(fake->nvrtc_options, "--gpu-architecture=sm_90a "));
  /* no programs */
  assert_ok(
      nereid_launch(f->d, NULL, f->m, "quiet", (int64_t[]){0, 1, 1}, (nereid_arg[]){nereid_int(3)}, 1, &o, &error));
  assert_int_equal(fake->launches, 1);
}

/* Attributes go by the driver's call that takes them, also when the kernel comes again and again. */
static void test_attributes(void **state) {
  Fixture *f = *state;
  nereid_arg n[] = {nereid_int(3)};
  for (int i = 0; i < 40; i++) assert_ok(LAUNCH("quiet", n, 1));
  assert_int_equal(fake->last_attributes, 0);
  f->block.launch_pdl = true;
  for (int i = 0; i < 40; i++) assert_ok(LAUNCH("quiet", n, 1));
  assert_int_equal(fake->last_attributes, 1 << 6);
  f->block.cooperative_grid = true;
  assert_ok(LAUNCH("quiet", n, 1));
  assert_int_equal(fake->last_attributes, 1 << 6 | 1 << 2);
  f->block.launch_pdl = false;
  assert_ok(LAUNCH("quiet", n, 1));
  assert_int_equal(fake->last_attributes, 1 << 2);
}

/* After the first launch, one costs the question which context is current, and the launch itself: nothing that a
 * capture forbids. */
static void test_warm_launch(void **state) {
  Fixture *f = *state;
  nereid_function *fn = NULL;
  nereid_stream *s = NULL;
  assert_ok(nereid_stream_create(f->d, &s, &error));
  assert_ok(nereid_compile(f->d, f->m, "add", f->add, 4, &f->block, &fn, &error));
  assert_ok(nereid_run(fn, s, one, f->add, 4, &error));
  fake->capturing = nereid_stream_native(s);
  int before = fake->calls;
  for (int i = 0; i < 15; i++) assert_ok(nereid_run(fn, s, one, f->add, 4, &error));
  assert_int_equal(fake->calls - before, 2 * 15);
  before = fake->calls;
  for (int i = 0; i < 15; i++) assert_ok(nereid_launch(f->d, s, f->m, "add", one, f->add, 4, &f->block, &error));
  assert_int_equal(fake->calls - before, 2 * 15);
  assert_int_equal(fake->captured, 30);
  assert_int_equal(fake->forbidden_in_capture, 0);
  /* A kernel that was never compiled cannot be loaded now. */
  assert_says(nereid_launch(f->d, s, f->m, "quiet", one, (nereid_arg[]){nereid_int(3)}, 1, &f->block, &error),
              NEREID_BAD_ARGUMENT,
              "operation not permitted when stream is capturing (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)\n  hint: a "
              "stream of this context is capturing");
  fake->capturing = NULL;
  nereid_function_free(fn);
  nereid_stream_destroy(s);
}

/* What a stream recorded runs as one, with the arguments of the recording, and only then. */
static void test_graph(void **state) {
  Fixture *f = *state;
  nereid_function *fn = NULL;
  nereid_stream *s = NULL;
  nereid_graph *g = NULL;
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {0};
  assert_ok(nereid_copy_to_device(f->d, f->p[0], x, sizeof x, &error));
  assert_ok(nereid_copy_to_device(f->d, f->p[1], x, sizeof x, &error));
  assert_ok(nereid_stream_create(f->d, &s, &error));
  assert_ok(nereid_compile(f->d, f->m, "add", f->add, 4, &f->block, &fn, &error));
  assert_ok(nereid_run(fn, s, one, f->add, 4, &error));
  assert_ok(nereid_stream_synchronize(f->d, s, &error));
  assert_ok(nereid_fill_async(f->d, NULL, f->p[2], 0, sizeof out, &error));
  fake->capture_params = 4;
  assert_ok(nereid_graph_begin(f->d, s, &error));
  nereid_arg second[4];
  memcpy(second, f->add, sizeof second);
  second[0] = f->add[2], second[1] = f->add[2]; /* out = out + out */
  assert_ok(nereid_run(fn, s, one, f->add, 4, &error));
  assert_ok(nereid_run(fn, s, one, second, 4, &error));
  assert_ok(nereid_graph_end(f->d, s, &g, &error));
  assert_ok(nereid_copy_to_host(f->d, out, f->p[2], sizeof out, &error));
  assert_true(out[3] == 0);
  assert_int_equal(fake->captured, 2);
  assert_int_equal(fake->graphs, 0);
  assert_int_equal(fake->graph_execs, 1);
  for (int i = 0; i < 2; i++) assert_ok(nereid_graph_launch(g, s, &error));
  assert_ok(nereid_stream_synchronize(f->d, s, &error));
  assert_ok(nereid_copy_to_host(f->d, out, f->p[2], sizeof out, &error));
  for (int i = 0; i < 8; i++) assert_true(out[i] == 4 * x[i]);
  assert_int_equal(fake->graph_launches, 2);
  nereid_graph_free(g), g = NULL;
  assert_int_equal(fake->graph_execs, 0);
  BAD(nereid_graph_begin(f->d, NULL, &error),
      "error: nereid_graph_begin: the default stream cannot be recorded\n  hint: make one with nereid_stream_create\n");
  assert_says(nereid_graph_end(f->d, s, &g, &error), NEREID_BAD_ARGUMENT,
              "what the stream recorded cannot be made a graph: ");
  fake->fail.symbol = "cuGraphInstantiateWithFlags", fake->fail.result = 2;
  assert_ok(nereid_graph_begin(f->d, s, &error));
  assert_says(nereid_graph_end(f->d, s, &g, &error), NEREID_OUT_OF_MEMORY,
              "what the stream recorded cannot be made a graph: out of memory");
  assert_int_equal(fake->graphs, 0);
  assert_null(fake->capturing);
  nereid_function_free(fn);
  nereid_stream_destroy(s);
}

static const char plus_text[] = "import triton\nimport triton.language as tl\n\n@triton.jit\n"
                                "def plus(x):\n    tl.store(x, tl.load(x) + 1)\n";

/* The attributes of two launches in a graph, the second one's in the upper half. */
static unsigned captured_attributes(Fixture *f, nereid_stream *s, nereid_module *m, const nereid_options *o,
                                    const nereid_options *second, bool fill) {
  nereid_graph *g = NULL;
  unsigned first;
  assert_ok(nereid_launch(f->d, s, m, "plus", one, f->add, 1, o, &error)); /* compiled before */
  assert_ok(nereid_launch(f->d, s, m, "plus", one, f->add, 1, second, &error));
  assert_ok(nereid_graph_begin(f->d, s, &error));
  fake->last_attributes = 0;
  assert_ok(nereid_launch(f->d, s, m, "plus", one, f->add, 1, o, &error));
  first = fake->last_attributes;
  if (fill) assert_ok(nereid_fill_async(f->d, s, f->p[0], 0, 4, &error));
  fake->last_attributes = 0;
  assert_ok(nereid_launch(f->d, s, m, "plus", one, f->add, 1, second, &error));
  assert_ok(nereid_graph_end(f->d, s, &g, &error));
  nereid_graph_free(g);
  return first | fake->last_attributes << 16;
}

/* In a graph a kernel may begin while the one ahead of it ends (attribute 6) where both wait for what is ahead of them,
 * and nothing else lies between. */
static void test_begins_early(void **state) {
  enum { EARLY = 1 << 6, COOPERATIVE = 1 << 2 };
  Fixture *f = *state;
  nereid_module *m = NULL;
  nereid_stream *s = NULL;
  const nereid_options plain = {.size = sizeof plain}, never = {.size = sizeof never, .without = "grid_wait"},
                       cooperative = {.size = sizeof cooperative, .cooperative_grid = true};
  assert_ok(nereid_stream_create(f->d, &s, &error));
  assert_ok(nereid_module_load_string("plus.py", plus_text, &m, &error));
  assert_int_equal(captured_attributes(f, s, m, &plain, &plain, false), EARLY << 16);
  assert_int_equal(captured_attributes(f, s, m, &plain, &plain, true), 0);
  assert_int_equal(captured_attributes(f, s, m, &plain, &never, false), 0);
  assert_int_equal(captured_attributes(f, s, m, &never, &plain, false), 0);
  assert_int_equal(captured_attributes(f, s, m, &plain, &cooperative, false), COOPERATIVE << 16);
  assert_int_equal(captured_attributes(f, s, m, &cooperative, &plain, false), COOPERATIVE | EARLY << 16);
  fake->last_attributes = 0;
  for (int i = 0; i < 3; i++) assert_ok(nereid_launch(f->d, s, m, "plus", one, f->add, 1, &plain, &error));
  assert_int_equal(fake->last_attributes, 0); /* nothing is captured */
  nereid_module_free(m);
  nereid_stream_destroy(s);
}

static bool other_trial(void *arg, bool cold, double *device_ns, double *wall_ns) {
  *device_ns = 7000, *wall_ns = 9000;
  return ++*(int *)arg < 100;
}

/* A case is measured alone and as one of many in a graph; another process's kernel measures itself, and ours is warmed
 * before each trial. */
static void test_bench(void **state) {
  Fixture *f = *state;
  nereid_function *fn = NULL;
  int trials = 0;
  assert_ok(nereid_compile(f->d, f->m, "add", f->add, 4, &f->block, &fn, &error));
  nereid_bench_launch launch = {fn, {1, 1, 1}, f->add, 4};
  nereid_bench_case cases[2] = {{.launches = &launch, .launch_count = 1}, {.trial = other_trial, .trial_arg = &trials}};
  nereid_bench_options o = {.repeat = 5, .warmup = 2, .min_ms = 1000};
  nereid_bench_result r[2];
  fake->capture_params = 4;
  fake->fail.symbol = "cuGraphCreate",
  fake->fail.result = 801; /* no graphs but the bench's own (cuda/graph_replay.c) */
  for (int i = 0; i < 40; i++) assert_ok(nereid_run(fn, NULL, one, f->add, 4, &error));
  assert_ok(nereid_bench_run(f->d, cases, 1, &o, r, NULL, NULL, &error));
  assert_int_equal(r[0].device.count, 5);
  assert_int_equal(r[0].graph.count, 5);
  assert_true(r[0].graph.median > 0 && r[0].graph.median < r[0].device.median);
  assert_int_equal(fake->graph_launches, 6);
  assert_true(fake->captured >= 2 && r[0].queued > 0);
  assert_int_equal(fake->forbidden_in_capture, 0);
  int before = fake->launches;
  o.trials_only = true;
  assert_ok(nereid_bench_run(f->d, cases, 2, &o, r, NULL, NULL, &error));
  assert_int_equal(fake->launches - before, 2 * 7);
  assert_int_equal(trials, 7);
  assert_true(r[1].device.median == 7000 && r[1].wall.median == 9000 && r[1].launch.count == 0 &&
              r[0].graph.count == 0 && r[0].queued == 0);
  trials = 95; /* it gives up */
  assert_says(nereid_bench_run(f->d, cases, 2, &o, r, NULL, NULL, &error), NEREID_BAD_ARGUMENT,
              "a case of the caller's own ended the measurement");
  o.trials_only = false;
  fake->fail.symbol = "cuGraphLaunch", fake->fail.result = 2, fake->fail.after = 1;
  assert_says(nereid_bench_run(f->d, cases, 1, &o, r, NULL, NULL, &error), NEREID_OUT_OF_MEMORY,
              "the graph cannot be launched: out of memory");
  nereid_function_free(fn);
}

/* A function takes what specialises alike, named or not, and says what does not. */
static void test_run_arguments(void **state) {
  Fixture *f = *state;
  nereid_module *m = kit_module();
  nereid_function *fn = NULL;
  setenv("NEREID_PTXAS", "none", 1);
  nereid_arg a[] = {nereid_pointer(f->p[0], NEREID_F32), nereid_pointer(f->p[1], NEREID_F32),
                    nereid_pointer(f->p[2], NEREID_F32), nereid_int(32), nereid_named(nereid_constexpr("64"), "BLOCK")};
  assert_ok(nereid_compile(f->d, m, "add", a, 5, NULL, &fn, &error));
  unsetenv("NEREID_PTXAS");
  assert_ok(nereid_run(fn, NULL, one, a, 5, &error));
  const char *const hint = "does not specialise as it did when the function was compiled";
  char name[] = "BLOCK", text[] = "64";
  nereid_arg b[5];
#define CHANGED(i, value) (memcpy(b, a, sizeof a), b[i] = (value), nereid_run(fn, NULL, one, b, 5, &error))
  assert_ok(CHANGED(0, nereid_pointer((char *)f->p[0] + 16, NEREID_F32)));
  assert_ok(CHANGED(3, nereid_int(48)));
  assert_ok(CHANGED(4, nereid_named(nereid_constexpr(text), name)));
  assert_ok(CHANGED(4, nereid_constexpr("64")));                          /* by position: the long way */
  assert_ok(CHANGED(4, nereid_named(nereid_constexpr_int(64), "BLOCK"))); /* likewise */
  assert_says(CHANGED(0, nereid_pointer((char *)f->p[0] + 4, NEREID_F32)), NEREID_BAD_ARGUMENT, hint);
  assert_says(CHANGED(0, nereid_pointer(f->p[0], NEREID_I32)), NEREID_BAD_ARGUMENT, hint);
  assert_says(CHANGED(3, nereid_int(33)), NEREID_BAD_ARGUMENT, hint);
  assert_says(CHANGED(3, nereid_int(1)), NEREID_BAD_ARGUMENT, hint);
  assert_says(CHANGED(3, nereid_int((int64_t)1 << 32)), NEREID_BAD_ARGUMENT, hint);
  assert_says(CHANGED(3, nereid_float(32)), NEREID_BAD_ARGUMENT, hint);
  text[0] = '3';
  assert_says(CHANGED(4, nereid_named(nereid_constexpr(text), name)), NEREID_BAD_ARGUMENT, hint);
  name[0] = 'b';
  assert_says(CHANGED(4, nereid_named(nereid_constexpr("64"), name)), NEREID_BAD_ARGUMENT, "has no parameter 'bLOCK'");
  assert_says(nereid_run(fn, NULL, one, a, 4, &error), NEREID_BAD_ARGUMENT,
              "parameter 'BLOCK' of kernel 'add' (5 of 5) is missing");
  assert_says(nereid_run(fn, NULL, one, NULL, 5, &error), NEREID_BAD_ARGUMENT, "5 arguments at NULL");
  assert_says(nereid_run(fn, NULL, (int64_t[]){1, -1, 1}, a, 5, &error), NEREID_BAD_ARGUMENT, "the grid (1, -1, 1)");
  nereid_function_free(fn);
  nereid_module_free(m);
}

static void test_pointers(void **state) {
  Fixture *f = *state;
  float host[8];
  char want[512];
  f->add[1].pointer = host;
  snprintf(want, sizeof want,
           "error: parameter 'y' of kernel 'add' points to the host's memory (0x%llx), which cuda:0 does not reach\n"
           "  hint: allocate it with nereid_alloc and copy with nereid_copy_to_device; or nereid_alloc_host or "
           "nereid_register, for memory of the host that kernels reach\n",
           (unsigned long long)(uintptr_t)host);
  BAD(LAUNCH("add", f->add, 4), want);
  f->add[1].pointer = (char *)f->p[1] + 2;
  snprintf(want, sizeof want,
           "error: parameter 'y' of kernel 'add' is the address 0x%llx, which is not aligned to the 4 bytes of f32\n"
           "  hint: a GPU reads and writes elements at multiples of their size\n",
           (unsigned long long)(uintptr_t)f->p[1] + 2);
  BAD(LAUNCH("add", f->add, 4), want);
  f->add[1].pointer = (char *)f->p[1] + 4; /* within an array */
  assert_ok(LAUNCH("add", f->add, 4));
  f->add[3] = nereid_int(0);
  f->add[1].pointer = NULL; /* a kernel may never look at it */
  assert_ok(LAUNCH("add", f->add, 4));
  f->add[1] = nereid_none();
  assert_ok(LAUNCH("add", f->add, 4));
  f->add[1] = nereid_pointer(host, NEREID_F32);
  /* what was good before is not good for all */
  assert_says(LAUNCH("add", f->add, 4), NEREID_BAD_ARGUMENT, "points to the host's memory");
  void *pinned = NULL;
  assert_ok(nereid_alloc_host(f->d, 64, &pinned, &error));
  f->add[1].pointer = pinned;
  assert_ok(LAUNCH("add", f->add, 4));
  nereid_free_host(f->d, pinned);
}

static void test_pageable(void **state) { /* a GPU that reaches all of the host's memory takes any pointer */
  fake->pageable = 1;
  nereid_device *d = kit_device("cuda:0");
  nereid_module *m = NULL;
  assert_ok(nereid_module_load_string("k.cu", text_cu, &m, &error));
  float host[4] = {1, 2, 3, 4};
  nereid_arg add[] = {nereid_pointer(host, NEREID_F32), nereid_pointer(host, NEREID_F32),
                      nereid_pointer(host, NEREID_F32), nereid_int(4)};
  assert_ok(nereid_launch(d, NULL, m, "add", one, add, 4, &(nereid_options){.block = {32}}, &error));
  assert_true(host[3] == 8);
  nereid_device_close(d);
  nereid_module_free(m); /* after its device */
  assert_int_equal(fake->modules, 0);
  assert_int_equal(fake->contexts_retained, 0);
}

static void test_launch_fails(void **state) {
  Fixture *f = *state;
  nereid_arg n[] = {nereid_int(3)};
  fake->fail.symbol = "cuLaunchKernel", fake->fail.result = 701;
  BAD(LAUNCH("quiet", n, 1), "error: kernel 'quiet' cannot be launched with grid (1, 1, 1), block (128, 1, 1), 0 bytes "
                             "of shared memory and 40 registers a thread: too many resources requested for launch "
                             "(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)\n  hint: the block needs more registers than the "
                             "GPU has: use fewer warps (num_warps) or smaller tiles\n");
  f->block.block[0] = 0;
  BAD(LAUNCH("quiet", n, 1), "error: kernel 'quiet' is CUDA C: its launch must say how many threads a block has\n  "
                             "hint: set options.block, or --block X[,Y[,Z]]\n");
  f->block.block[0] = 2000;
  BAD(LAUNCH("quiet", n, 1), "error: the block has 2000 threads along x; 1 to 1024 are possible\n");
  f->block.block[0] = 64, f->block.block[1] = 32;
  BAD(LAUNCH("quiet", n, 1),
      "error: the block (64, 32, 1) has 2048 threads; 1024 are possible for kernel 'quiet' (40 registers a thread)\n");
  f->block.block[1] = 1, f->block.block[2] = -1;
  BAD(LAUNCH("quiet", n, 1), "error: the block has -1 threads along z; 1 to 64 are possible\n");
  f->block.block[2] = 1, f->block.shared_bytes = 300000;
  BAD(LAUNCH("quiet", n, 1), "error: kernel 'quiet' is to have 300000 bytes of dynamic shared memory beside 0 of its "
                             "own; cuda:0 has 232448 for a block\n");
  f->block.shared_bytes = 100000; /* more than 48 KiB must be asked for */
  assert_ok(LAUNCH("quiet", n, 1));
  assert_int_equal(fake->last_function_shared, 100000);
  assert_int_equal(fake->last_shared, 100000);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static const char crash_text[] =
    "error: kernel 'crash' failed: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS); the CUDA "
    "context of cuda:0 is lost\n"
    "  hint: the GPU cannot be used in this process any more: start a new one. The device interp finds wrong accesses; "
    "NEREID_CUDA_BLOCKING=1 lets each launch wait for its end, and so finds "
    "the launch\n";

static void test_illegal_address(void **state) {
  Fixture *f = *state;
  void *p = NULL;
  nereid_arg crash[] = {nereid_pointer(f->p[0], NEREID_I32)};
  assert_ok(LAUNCH("add", f->add, 4));
  assert_ok(nereid_synchronize(f->d, &error)); /* so it cannot have been add */
  assert_ok(LAUNCH("crash", crash, 1));
  assert_error(nereid_synchronize(f->d, &error), NEREID_KERNEL_FAULT, crash_text);
  /* Whatever is asked from now on says so. */
  assert_error(LAUNCH("add", f->add, 4), NEREID_KERNEL_FAULT, crash_text);
  assert_error(nereid_alloc(f->d, 10, &p, &error), NEREID_KERNEL_FAULT, crash_text);
  assert_error(nereid_copy_to_host(f->d, &p, f->p[0], 8, &error), NEREID_KERNEL_FAULT, crash_text);
  assert_error(nereid_synchronize(f->d, &error), NEREID_KERNEL_FAULT, crash_text);
  assert_error(nereid_stream_synchronize(f->d, NULL, &error), NEREID_KERNEL_FAULT, crash_text);
  /* a cold one */
  assert_says(nereid_launch(f->d, NULL, f->m, "quiet", one, (nereid_arg[]){nereid_int(1)}, 1, &f->block, &error),
              NEREID_KERNEL_FAULT, "kernel 'crash' failed");
}

static void test_fault_of_several(void **state) {
  Fixture *f = *state;
  nereid_arg crash[] = {nereid_pointer(f->p[0], NEREID_I32)};
  assert_ok(LAUNCH("add", f->add, 4));
  assert_ok(LAUNCH("add", f->add, 4));
  assert_ok(LAUNCH("crash", crash, 1));
  assert_says(LAUNCH("add", f->add, 4), NEREID_KERNEL_FAULT,
              "error: one of the kernels launched since the last synchronize (the first was 'add') failed: an illegal "
              "memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS); the CUDA context of cuda:0 is lost\n");
}

/* Waiting for the only stream in use settles who it was, too. */
static void test_fault_after_stream(void **state) {
  Fixture *f = *state;
  nereid_arg crash[] = {nereid_pointer(f->p[0], NEREID_I32)};
  nereid_stream *s = NULL;
  assert_ok(nereid_stream_create(f->d, &s, &error));
  assert_ok(nereid_launch(f->d, s, f->m, "add", one, f->add, 4, &f->block, &error));
  assert_ptr_equal(fake->last_stream, nereid_stream_native(s));
  assert_ok(nereid_stream_synchronize(f->d, s, &error));
  assert_ok(nereid_launch(f->d, s, f->m, "crash", one, crash, 1, &f->block, &error));
  assert_error(nereid_stream_synchronize(f->d, s, &error), NEREID_KERNEL_FAULT, crash_text);
  fake->sticky = 0;
  nereid_stream_destroy(s);
}

static void test_blocking(void **state) {
  Fixture *f = *state;
  nereid_arg crash[] = {nereid_pointer(f->p[0], NEREID_I32)};
  nereid_options blocking = {.block = {32}, .blocking = true};
  assert_ok(nereid_launch(f->d, NULL, f->m, "add", one, f->add, 4, &blocking, &error));
  assert_error(nereid_launch(f->d, NULL, f->m, "crash", one, crash, 1, &blocking, &error), NEREID_KERNEL_FAULT,
               crash_text);
}

static void test_blocking_environment(void **state) {
  setenv("NEREID_CUDA_BLOCKING", "1", 1);
  Fixture f = {.block.block[0] = 32};
  f.d = kit_device("cuda");
  unsetenv("NEREID_CUDA_BLOCKING");
  assert_ok(nereid_module_load_string("k.cu", text_cu, &f.m, &error));
  nereid_arg crash[] = {nereid_none()};
  assert_error(nereid_launch(f.d, NULL, f.m, "crash", one, crash, 1, &f.block, &error), NEREID_KERNEL_FAULT,
               crash_text);
  fake->sticky = 0;
  nereid_module_free(f.m);
  nereid_device_close(f.d);
}

/* Freeing a module waits for its kernels; a fault found meanwhile is said at the next synchronize. */
static void test_free_in_flight(void **state) {
  Fixture *f = *state;
  assert_ok(LAUNCH("add", f->add, 4));
  nereid_module_free(f->m);
  assert_int_equal(fake->unloaded_in_flight, 0);
  assert_int_equal(fake->modules, 0);
  assert_ok(nereid_synchronize(f->d, &error));
  assert_ok(nereid_module_load_string("k.cu", text_cu, &f->m, &error));
  nereid_arg crash[] = {nereid_pointer(f->p[0], NEREID_I32)};
  assert_ok(LAUNCH("crash", crash, 1));
  nereid_module_free(f->m);
  f->m = NULL;
  fake->sticky = 0;  /* a driver that forgot would not make us forget */
  fake->modules = 0; /* nothing can be unloaded from a lost context */
  assert_error(nereid_synchronize(f->d, &error), NEREID_KERNEL_FAULT, crash_text);
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static void test_loading(void **state) {
  Fixture *f = *state;
  nereid_arg n[] = {nereid_int(3)};
  assert_ok(LAUNCH("add", f->add, 4));
  assert_int_equal(fake->cubins_loaded, 1);
  fake->cubin_result = 209; /* a driver older than the compiler: the PTX is tried */
  assert_ok(LAUNCH("quiet", n, 1));
  assert_int_equal(fake->cubins_loaded, 1);
  assert_int_equal(fake->ptx_loaded, 1);
  fake->ptx_result = 222, fake->jit_error_log = "ptxas fatal: Unsupported .version 9.0\n",
  fake->jit_info_log = "info line";
  assert_error(LAUNCH("nothing", NULL, 0), NEREID_NO_COMPILER,
               "note: the driver's information log: info line\n"
               "error: the driver does not load kernel 'nothing': the provided PTX was compiled with an unsupported "
               "toolchain. (CUDA_ERROR_UNSUPPORTED_PTX_VERSION)\n"
               "ptxas fatal: Unsupported .version 9.0\n"
               "  hint: the driver is too old for this PTX: update it, or install ptxas of the CUDA toolkit "
               "(NEREID_PTXAS names one)\n");
  fake->ptx_result = 0;
  assert_ok(LAUNCH("nothing", NULL, 0)); /* a failure is not kept */
  fake->fail.symbol = "cuModuleGetFunction", fake->fail.result = 500;
  assert_says(LAUNCH("crash", &f->add[0], 0), NEREID_BAD_ARGUMENT,
              "parameter 'p' of kernel 'crash' (1 of 1) is missing");
}

/* ---- streams and events, on every device ------------------------------------------------------------------------- */

static void streams_on(const char *name) {
  nereid_device *d = kit_device(name), *other = kit_device("interp");
  nereid_stream *s = NULL, *wrapped = NULL;
  nereid_event *a = NULL, *b = NULL, *foreign = NULL;
  double ms = -1;
  void *p = NULL, *h = NULL;
  assert_ok(nereid_stream_create(d, &s, &error));
  assert_ok(nereid_stream_wrap(d, (void *)2, &wrapped, &error));
  assert_ok(nereid_event_create(d, &a, &error));
  assert_ok(nereid_event_create(d, &b, &error));
  assert_ok(nereid_event_create(other, &foreign, &error));
  assert_ok(nereid_alloc(d, 64, &p, &error));
  assert_ok(nereid_alloc_host(d, 64, &h, &error));
  BAD(nereid_event_elapsed(a, b, &ms, &error),
      "error: nereid_event_elapsed: the event was never recorded\n  hint: record it with nereid_event_record\n");
  assert_ok(nereid_event_record(a, s, &error));
  memset(h, 5, 64);
  assert_ok(nereid_copy_to_device_async(d, s, p, h, 64, &error));
  assert_ok(nereid_fill_async(d, s, p, 6, 32, &error));
  assert_ok(nereid_copy_to_host_async(d, s, h, p, 64, &error));
  assert_ok(nereid_event_record(b, s, &error));
  assert_ok(nereid_stream_wait(d, NULL, b, &error));
  assert_ok(nereid_stream_wait(d, wrapped, b, &error));
  assert_ok(nereid_event_synchronize(b, &error));
  assert_ok(nereid_stream_synchronize(d, s, &error));
  assert_int_equal(((char *)h)[0], 6);
  assert_int_equal(((char *)h)[63], 5);
  assert_ok(nereid_event_elapsed(a, b, &ms, &error));
  assert_true(ms >= 0);
  if (strcmp(name, "interp")) {
    char want[200];
    snprintf(
        want, sizeof want,
        "error: the stream belongs to another device (%s) than this one (interp)\n  hint: make one for each device\n",
        strcmp(name, "cuda") ? name : "cuda:0");
    BAD(nereid_stream_synchronize(other, s, &error), want);
  }
  BAD(nereid_stream_create(NULL, &s, &error), "error: nereid_stream_create: the device is NULL\n");
  BAD(nereid_event_record(NULL, s, &error), "error: nereid_event_record: the event is NULL\n");
  assert_null(nereid_stream_native(NULL));
  nereid_event_destroy(a), nereid_event_destroy(b), nereid_event_destroy(foreign), nereid_event_destroy(NULL);
  nereid_stream_destroy(s), nereid_stream_destroy(wrapped), nereid_stream_destroy(NULL);
  nereid_free_host(d, h);
  nereid_free(d, p);
  nereid_device_close(d), nereid_device_close(other);
}

static void test_streams(void **state) {
  streams_on("cpu:1");
  streams_on("interp");
  streams_on("cuda");
}

static void test_wrapped_stream(void **state) {
  Fixture *f = *state;
  int mine;
  nereid_stream *s = NULL;
  assert_ok(nereid_stream_wrap(f->d, &mine, &s, &error));
  assert_ptr_equal(nereid_stream_native(s), &mine);
  assert_ok(nereid_launch(f->d, s, f->m, "add", one, f->add, 4, &f->block, &error));
  assert_ptr_equal(fake->last_stream, &mine);
  nereid_stream_destroy(s); /* the caller's stays */
  assert_int_equal(fake->streams, 0);
  fake->fail.symbol = "cuStreamCreate", fake->fail.result = 2;
  assert_says(nereid_stream_create(f->d, &s, &error), NEREID_OUT_OF_MEMORY,
              "a stream cannot be created: out of memory");
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void *work(void *arg) {
  Fixture *f = arg;
  for (int i = 0; i < 200; i++) {
    if (nereid_launch(f->d, NULL, f->m, i % 3 ? "add" : "quiet", one, i % 3 ? f->add : &f->add[3], i % 3 ? 4 : 1,
                      &f->block, NULL))
      return arg;
    if (i % 10 == 0 && nereid_synchronize(f->d, NULL)) return arg;
  }
  return NULL;
}

static void test_threads(void **state) {
  Fixture *f = *state;
  pthread_t t[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, work, f), 0);
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(t[i], &failed);
    assert_null(failed);
  }
  assert_int_equal(fake->modules, 2); /* each compiled once */
}

static int run(void) {
  const struct CMUnitTest tests[] = {
      ALONE(test_no_driver),
      ALONE(test_opening_fails),
      ALONE(test_rows),
      ALONE(test_callers_context),
      ALONE(test_pageable),
      ALONE(test_blocking_environment),
      ALONE(test_streams),
      OPEN(test_memory),
      OPEN(test_registered),
      OPEN(test_launch),
      OPEN(test_attributes),
      OPEN(test_warm_launch),
      OPEN(test_graph),
      OPEN(test_begins_early),
      OPEN(test_bench),
      OPEN(test_run_arguments),
      OPEN(test_pointers),
      OPEN(test_launch_fails),
      OPEN(test_illegal_address),
      OPEN(test_fault_of_several),
      OPEN(test_fault_after_stream),
      OPEN(test_blocking),
      OPEN(test_free_in_flight),
      OPEN(test_loading),
      OPEN(test_wrapped_stream),
      OPEN(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return cuda_tests(run); }
