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

/* ---- Triton kernels: PTX of ours, and what comes back from kernels that print, assert, or run some programs only ---- */

/* As the kernel `talk` of the kit does it for program 2: its print is the first site, its assert the second. */
static int run_talk(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  int limit = *(int *)p[1];
  GpuDiag *d = *(GpuDiag **)p[2];
  const uint32_t print[7] = {1, 2, 0, 0, 0, 2, 0}, assert[5] = {2, 2, 0, 0, 0};
  memcpy(d->words + d->used, print, sizeof print);
  d->used += 7;
  if (2 >= limit) {
    memcpy(d->words + d->used, assert, sizeof assert);
    d->used += 5;
    d->failed++;
  }
  return 0;
}

static void test_reports(void **state) {
  Fixture *f = *state;
  nereid_module *m = kit_module();
  Lines lines = {0};
  nereid_options o = {.debug = true, .print = lines_print, .print_arg = &lines};
  nereid_arg args[] = {nereid_pointer(f->p[0], NEREID_F32), nereid_int(5)};
  fake_kernel("talk", run_talk);
  setenv("NEREID_PTXAS", "none", 1); /* the driver compiles */
  assert_ok(nereid_launch(f->d, NULL, m, "talk", (int64_t[]){3, 1, 1}, args, 2, &o, &error));
  assert_int_equal(fake->ptx_loaded, 1);
  assert_int_equal(fake->last_params, 3);
  assert_int_equal(lines.count, 0);
  assert_ok(nereid_synchronize(f->d, &error));
  assert_int_equal(lines.count, 1);
  assert_non_null(strstr(lines.text, "(2, 0, 0)"));
  assert_ok(nereid_synchronize(f->d, &error));
  assert_int_equal(lines.count, 1); /* said once */
  args[1] = nereid_int(2);
  assert_ok(nereid_launch(f->d, NULL, m, "talk", (int64_t[]){3, 1, 1}, args, 2, &o, &error));
  assert_says(nereid_stream_synchronize(f->d, NULL, &error), NEREID_KERNEL_FAULT, "p is too large");
  assert_int_equal(lines.count, 2);
  assert_ok(nereid_synchronize(f->d, &error)); /* a failed assert does not end the context */
  assert_ok(nereid_launch(f->d, NULL, m, "talk", (int64_t[]){3, 1, 1}, args, 2, &o, &error));
  nereid_module_free(m); /* what it said is kept */
  assert_int_equal(lines.count, 3);
  assert_says(nereid_synchronize(f->d, &error), NEREID_KERNEL_FAULT, "p is too large");
  m = kit_module();
  fake->fail.symbol = "cuLaunchKernel", fake->fail.result = 701;
  assert_says(nereid_launch(f->d, NULL, m, "talk", (int64_t[]){3, 1, 1}, args, 2, &o, &error), NEREID_BAD_ARGUMENT,
              "cannot be launched");
  nereid_module_free(m); /* a launch that failed leaves nothing to read */
  assert_ok(nereid_synchronize(f->d, &error));
  assert_int_equal(lines.count, 3);
  unsetenv("NEREID_PTXAS");
}

/* A launch that comes while another thread's synchronize is on its way to read: it is still running then, and nothing
 * of what it writes may get lost, or be read half written. */
static struct {
  GpuDiag *of[8];
  int n;
} slow;
static int run_slow(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  GpuDiag *d = slow.of[slow.n++ % 8] = *(GpuDiag **)p[2];
  d->used += 7; /* taken, and not written yet */
  return 0;
}
static void finish(GpuDiag *d, int at) { memcpy(d->words + at, (uint32_t[]){1, 2, 0, 0, 0, 2, 0}, 28); }

static struct {
  Fixture *f;
  nereid_module *m;
  nereid_stream *s;
  Lines lines;
  nereid_options o;
} talk;
static nereid_status launch_talk(void) {
  nereid_arg args[] = {nereid_pointer(talk.f->p[0], NEREID_F32), nereid_int(5)};
  return nereid_launch(talk.f->d, talk.s, talk.m, "talk", (int64_t[]){3, 1, 1}, args, 2, &talk.o, NULL);
}
static void *launch_talk_thread(void *out) { return *(nereid_status *)out = launch_talk(), NULL; }

static void start_talk(Fixture *f, FakeKernel run) {
  memset(&talk, 0, sizeof talk), slow.n = 0;
  talk.f = f, talk.m = kit_module();
  talk.o = (nereid_options){.debug = true, .print = lines_print, .print_arg = &talk.lines};
  fake_kernel("talk", run);
  setenv("NEREID_PTXAS", "none", 1);
}
static void end_talk(void) {
  nereid_module_free(talk.m);
  unsetenv("NEREID_PTXAS");
}

static nereid_status from_beside;
static void launch_beside(void) { from_beside = launch_talk(); }

static void test_reports_while_running(void **state) {
  start_talk(*state, run_slow);
  nereid_device *d = talk.f->d;
  assert_ok(launch_talk());
  finish(slow.of[0], 0);
  fake->on_wait = launch_beside;
  assert_ok(nereid_synchronize(d, &error));
  assert_ok(from_beside);
  assert_int_equal(slow.n, 2);
  assert_int_equal(talk.lines.count, 1);
  assert_ok(launch_talk()); /* into the same buffer: both wait for the same synchronize */
  assert_ptr_equal(slow.of[1], slow.of[2]);
  assert_ptr_not_equal(slow.of[0], slow.of[1]);
  finish(slow.of[1], 0), finish(slow.of[2], 7);
  assert_ok(nereid_synchronize(d, &error));
  assert_int_equal(talk.lines.count, 3);
  /* What runs in another stream is left alone by waiting for this one. */
  assert_ok(nereid_stream_create(d, &talk.s, &error));
  assert_ok(launch_talk());
  assert_ok(nereid_stream_synchronize(d, NULL, &error));
  finish(slow.of[3], 0);
  assert_int_equal(talk.lines.count, 3);
  assert_ok(nereid_stream_synchronize(d, talk.s, &error));
  assert_int_equal(talk.lines.count, 4);
  /* A wait that the driver refuses has ended nothing. */
  assert_ok(launch_talk());
  fake->fail.symbol = "cuCtxSynchronize", fake->fail.result = 900;
  assert_says(nereid_synchronize(d, &error), NEREID_BAD_ARGUMENT, "waiting for cuda:0");
  finish(slow.of[4], 0);
  assert_ok(nereid_synchronize(d, &error));
  assert_int_equal(talk.lines.count, 5);
  assert_int_equal(fake->host_allocations, 2); /* buffers are used again */
  nereid_stream_destroy(talk.s);
  end_talk();
}

/* A graph keeps the buffer that its kernels were captured with. */
static void test_reports_of_graph(void **state) {
  start_talk(*state, run_talk);
  nereid_device *d = talk.f->d;
  nereid_stream *other = NULL;
  nereid_graph *g = NULL;
  assert_ok(nereid_stream_create(d, &talk.s, &error));
  assert_ok(nereid_stream_create(d, &other, &error));
  assert_ok(launch_talk());
  assert_ok(nereid_synchronize(d, &error));
  assert_int_equal(talk.lines.count, 1);
  fake->capture_params = 3;
  assert_ok(nereid_graph_begin(d, talk.s, &error));
  assert_ok(launch_talk());
  assert_ok(nereid_graph_end(d, talk.s, &g, &error));
  for (int i = 0; i < 3; i++) {
    assert_ok(nereid_graph_launch(g, talk.s, &error));
    assert_ok(nereid_stream_synchronize(d, talk.s, &error));
    assert_int_equal(talk.lines.count, 3 * i + 2);
    assert_ok(nereid_graph_launch(g, other, &error)); /* and a plain launch beside */
    assert_ok(launch_talk());
    assert_ok(nereid_stream_synchronize(d, talk.s, &error));
    assert_int_equal(talk.lines.count, 3 * i + 3);
    assert_ok(nereid_synchronize(d, &error));
    assert_int_equal(talk.lines.count, 3 * i + 4);
  }
  nereid_graph_free(g);
  nereid_stream_destroy(talk.s), nereid_stream_destroy(other);
  end_talk();
}

/* Nobody waits for the GPU with a lock that another thread's launch needs. */
static void launch_in_thread(void) {
  pthread_t t;
  struct timespec limit;
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 1200; /* only where it hangs */
  if (pthread_create(&t, NULL, launch_talk_thread, &from_beside)) return;
  if (pthread_timedjoin_np(t, NULL, &limit)) pthread_detach(t), fake->launches = -1000;
}

static void test_waits_without_lock(void **state) {
  Fixture *f = *state;
  start_talk(f, run_talk);
  assert_ok(launch_talk());
  assert_ok(LAUNCH("add", f->add, 4));
  from_beside = NEREID_INTERNAL;
  fake->on_wait = launch_in_thread;
  nereid_module_free(f->m); /* a kernel of it was launched */
  f->m = NULL;
  assert_null(fake->on_wait);
  assert_int_equal(fake->launches, 3);
  assert_ok(from_beside);
  assert_ok(nereid_synchronize(f->d, &error));
  assert_int_equal(talk.lines.count, 2);
  end_talk();
}

static void *talk_work(void *arg) {
  for (int i = 0; i < 100; i++) {
    if (launch_talk()) return arg;
    if (i % 3 == 0 && nereid_synchronize(talk.f->d, NULL)) return arg;
    if (i % 5 == 0 && nereid_stream_synchronize(talk.f->d, NULL, NULL)) return arg;
  }
  return NULL;
}
static void count_line(void *arg, const char *line) {
  atomic_fetch_add((atomic_int *)arg, strstr(line, "(2, 0, 0)") != NULL);
}

static void test_threads_that_print(void **state) {
  start_talk(*state, run_talk);
  atomic_int count = 0;
  talk.o.print = count_line, talk.o.print_arg = &count;
  pthread_t t[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, talk_work, talk.f), 0);
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(t[i], &failed);
    assert_null(failed);
  }
  assert_ok(nereid_synchronize(talk.f->d, &error));
  assert_int_equal(count, 400);
  end_talk();
}

static int64_t listed[8];
static int32_t listed_grid[3];
static int run_mark(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  const GpuProgramList *list = *(GpuProgramList **)p[1];
  memcpy(listed, list->programs, sizeof listed[0] * grid[0]);
  memcpy(listed_grid, list->grid, sizeof listed_grid);
  return 0;
}

static void test_program_list(void **state) {
  Fixture *f = *state;
  nereid_module *m = kit_module();
  const int64_t grid[3] = {3, 4, 2}, programs[] = {23, 0, 7};
  nereid_options o = {.programs = programs, .program_count = 3};
  nereid_arg args[] = {nereid_pointer(f->p[0], NEREID_I32)};
  fake_kernel("mark", run_mark);
  setenv("NEREID_PTXAS", "none", 1);
  assert_ok(nereid_launch(f->d, NULL, m, "mark", grid, args, 1, &o, &error));
  assert_int_equal(fake->last_grid[0], 3);
  assert_int_equal(fake->last_grid[1], 1);
  assert_memory_equal(listed, programs, sizeof programs);
  for (int i = 0; i < 3; i++) assert_int_equal(listed_grid[i], grid[i]);
  assert_int_equal(fake->host_allocations, 1); /* the list lives until the kernel has ended */
  assert_ok(nereid_synchronize(f->d, &error));
  assert_int_equal(fake->host_allocations, 0);
  fake->kernel_count = 0;
  assert_ok(nereid_launch(f->d, NULL, m, "mark", grid, args, 1, NULL, &error)); /* all: another specialization */
  assert_int_equal(fake->last_grid[1], 4);
  assert_int_equal(fake->last_params, 1);
  o.program_count = 0;
  assert_ok(nereid_launch(f->d, NULL, m, "mark", grid, args, 1, &o, &error));
  fake_kernel("mark", run_mark);
  o.program_count = 3;
  for (int i = 0; i < 200; i++) assert_ok(nereid_launch(f->d, NULL, m, "mark", grid, args, 1, &o, &error));
  assert_true(fake->host_allocations < 100);
  assert_ok(nereid_synchronize(f->d, &error));
  Lines lines = {0}; /* now and then a launch waits for the lists of others; what it says itself is read later */
  nereid_options talks = {
      .debug = true, .print = lines_print, .print_arg = &lines, .programs = (int64_t[]){2}, .program_count = 1};
  fake_kernel("talk", run_talk);
  for (int i = 0; i < 65; i++)
    assert_ok(nereid_launch(f->d, NULL, m, "talk", (int64_t[]){3, 1, 1}, (nereid_arg[]){args[0], nereid_int(5)}, 2,
                            &talks, &error));
  assert_ok(nereid_synchronize(f->d, &error));
  assert_int_equal(lines.count, 65);
  nereid_stream *s = NULL; /* a graph reads its list at every launch */
  nereid_graph *g = NULL;
  assert_ok(nereid_stream_create(f->d, &s, &error));
  fake->capture_params = 2;
  assert_ok(nereid_graph_begin(f->d, s, &error));
  assert_ok(nereid_launch(f->d, s, m, "mark", grid, args, 1, &o, &error));
  assert_ok(nereid_graph_end(f->d, s, &g, &error));
  for (int i = 0; i < 2; i++) {
    memset(listed, 0, sizeof listed);
    assert_ok(nereid_graph_launch(g, s, &error));
    assert_memory_equal(listed, programs, sizeof programs);
    assert_ok(nereid_synchronize(f->d, &error));
  }
  nereid_graph_free(g);
  nereid_stream_destroy(s);
  fake->fail.symbol = "cuLaunchKernel", fake->fail.result = 701; /* its list goes with it */
  int before = fake->host_allocations;
  assert_int_equal(nereid_launch(f->d, NULL, m, "mark", grid, args, 1, &o, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(fake->host_allocations, before);
  nereid_module_free(m);
  unsetenv("NEREID_PTXAS");
}

static unsigned persistent_grid[3];
static int run_persistent(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  for (int i = 0; i < 3; i++) persistent_grid[i] = *(unsigned *)p[1 + i];
  return 0;
}

/* As many blocks as run at once, or as there are programs; the kernel is told how many programs there are. */
static void test_persistent(void **state) {
  Fixture *f = *state;
  nereid_module *m = kit_module();
  nereid_arg args[] = {nereid_pointer(f->p[0], NEREID_I32)};
  nereid_options o = {.persist = true};
  fake_kernel("mark", run_persistent);
  setenv("NEREID_PTXAS", "none", 1);
  assert_ok(nereid_launch(f->d, NULL, m, "mark", (int64_t[]){3, 4, 2}, args, 1, &o, &error));
  assert_int_equal(fake->last_params, 4);
  assert_int_equal(fake->last_grid[0], 24);
  for (int i = 0; i < 3; i++) assert_int_equal(persistent_grid[i], ((int[]){3, 4, 2})[i]);
  fake->capture_params = 4; /* launched again and again: by a graph */
  for (int i = 0; i < 50; i++)
    assert_ok(nereid_launch(f->d, NULL, m, "mark", (int64_t[]){100000 + i, 3, 1}, args, 1, &o, &error));
  assert_int_equal(fake->last_grid[0] % 132, 0);
  assert_true(fake->last_grid[0] < 100000 && fake->last_grid[1] == 1);
  assert_int_equal(persistent_grid[0], 100049);
  assert_error(nereid_launch(f->d, NULL, m, "mark", (int64_t[]){INT32_MAX, 2, 1}, args, 1, &o, &error),
               NEREID_UNSUPPORTED,
               "error: kernel 'mark' runs 4294967294 programs in loops, which count to 2147483647\n"
               "  hint: leave persist out (options.without)\n");
  nereid_module_free(m);
  unsetenv("NEREID_PTXAS");
}

static const char big_text[] =
    "import triton\nimport triton.language as tl\n\n@triton.jit\ndef big(x, y, N: tl.constexpr):\n"
    "    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]\n"
    "    tl.store(y + tl.trans(i), tl.load(x + i))\n";

/* A GPU of the target's generation may have less shared memory than the target stands for. */
static void test_shared_memory(void **state) {
  fake->shared_per_block = 1000;
  nereid_device *d = kit_device("cuda");
  nereid_module *m = NULL;
  void *p = NULL;
  assert_ok(nereid_module_load_string("big.py", big_text, &m, &error));
  assert_ok(nereid_alloc(d, 1 << 16, &p, &error));
  nereid_arg args[] = {nereid_pointer(p, NEREID_F32), nereid_pointer(p, NEREID_F32), nereid_constexpr_int(64)};
  nereid_error *error = NULL;
  nereid_status status = nereid_launch(d, NULL, m, "big", one, args, 3, NULL, &error);
  if (status) { /* the layouts may come to need none */
    assert_int_equal(status, NEREID_UNSUPPORTED);
    assert_non_null(strstr(nereid_error_text(error), "bytes of shared memory a block; cuda:0 has 1000\n  hint: use "
                                                     "smaller tiles or fewer stages; the largest buffers are "));
    const char *name;
    int64_t required, limit;
    assert_int_equal(nereid_error_get_kind(error), NEREID_ERROR_RESOURCES);
    assert_true(nereid_error_resource(error, &name, &required, &limit));
    assert_string_equal(name, "shared memory");
    assert_true(required > 1000 && limit == 1000);
    nereid_error_free(error);
  }
  nereid_module_free(m);
  nereid_device_close(d);
}

/* ---- CUDA C ------------------------------------------------------------------------------------------------------ */

static void assert_param(const nereid_kernel_info *k, int i, const char *name, const char *type) {
  assert_string_equal(k->params[i].name, name);
  assert_string_equal(k->params[i].annotation, type);
}

static void test_signatures(void **state) {
  Fixture *f = *state;
  assert_int_equal(nereid_kernel_count(f->m), 7);
  const nereid_kernel_info *k = nereid_kernel_find(f->m, "add");
  assert_int_equal(k->line, 6);
  assert_int_equal(k->param_count, 4);
  assert_param(k, 0, "x", "const float *");
  assert_param(k, 3, "n", "int");
  k = nereid_kernel_find(f->m, "many");
  assert_int_equal(k->param_count, 17);
  static const char *const types[][2] = {{"c", "char"},
                                         {"sc", "signed char"},
                                         {"uc", "unsigned char *"},
                                         {"arg3", "short"},
                                         {"u", "unsigned"},
                                         {"l", "long"},
                                         {"ull", "unsigned long long int"},
                                         {"h", "HALF"},
                                         {"hp", "const HALF *"},
                                         {"d", "double const &"},
                                         {"v", "float4 *"},
                                         {"pp", "void **"},
                                         {"config", "struct Config"},
                                         {"b", "bool"},
                                         {"m", "int *"},
                                         {"z", "std::size_t"},
                                         {"s", "const char *"}};
  for (int i = 0; i < 17; i++) assert_param(k, i, types[i][0], types[i][1]);
  assert_int_equal(nereid_kernel_find(f->m, "nothing")->param_count, 0);
  assert_null(nereid_kernel_find(f->m, "comment"));
  assert_null(nereid_kernel_find(f->m, "other<float>"));
  const nereid_kernel_info *scale = nereid_kernel_find(f->m, "a::b::scale<__half, 8>");
  assert_non_null(scale);
  assert_ptr_equal(scale, nereid_kernel_find(f->m, "a::b::scale<__half, 8>"));
  assert_param(scale, 0, "x", "const T * __restrict__");
}

static void test_cuda_c_arguments(void **state) {
  Fixture *f = *state;
  f->add[0].dtype = NEREID_F16;
  BAD(LAUNCH("add", f->add, 4),
      "error: parameter 'x' of kernel 'add' is of type const float *, but a pointer to f16 is given\n");
  f->add[0] = nereid_int(3);
  BAD(LAUNCH("add", f->add, 4),
      "error: parameter 'x' of kernel 'add' is of type const float *, but an integer is given\n");
  f->add[0] = f->add[1], f->add[3] = nereid_float(1);
  BAD(LAUNCH("add", f->add, 4), "error: parameter 'n' of kernel 'add' is of type int, but a float is given\n");
  f->add[3] = nereid_int((int64_t)1 << 31);
  BAD(LAUNCH("add", f->add, 4), "error: parameter 'n' of kernel 'add' is 2147483648 which does not fit its type i32\n");
  BAD(LAUNCH("a::b::scale", f->add, 4),
      "error: kernel 'a::b::scale' of k.cu is a template\n  hint: name its arguments too, as in \"k<float, 4>\"\n");
  assert_says(LAUNCH("a::b::scale<float, 1, 2>", f->add, 4), NEREID_BAD_ARGUMENT,
              "the template has fewer parameters than arguments are given");
  assert_says(LAUNCH("a::b::scale<>", f->add, 4), NEREID_BAD_ARGUMENT,
              "the template needs an argument for this parameter");
  BAD(LAUNCH("addd", f->add, 4), "error: k.cu has no kernel 'addd'\n  hint: did you mean 'add'?\n");
  nereid_arg scale[] = {nereid_pointer(f->p[0], NEREID_F16), nereid_pointer(f->p[1], NEREID_F16), nereid_float(0.5),
                        nereid_int((int64_t)1 << 40)};
  assert_ok(LAUNCH("a::b::scale<__half>", scale, 4));
  assert_string_equal(fake->nvrtc_names, "a::b::scale<__half>");
  BAD(LAUNCH("a::b::scale<float>", scale, 4), "error: parameter 'x' of kernel 'a::b::scale<float>' is of type const T "
                                              "* __restrict__, but a pointer to f16 is given\n");
  nereid_arg many[17];
  for (int i = 0; i < 17; i++) many[i] = nereid_int(0);
  static const int pointers[] = {2, 8, 10, 11, 14, 16};
  for (int i = 0; i < 6; i++) many[pointers[i]] = nereid_none();
  BAD(LAUNCH("many", many, 17), "error: parameter 'd' of kernel 'many' is of type double const &, which cannot be "
                                "passed\n  hint: numbers and pointers can be passed; put the rest into memory\n");
  nereid_device *cpu = kit_device("cpu:1");
  assert_error(
      nereid_launch(cpu, NULL, f->m, "quiet", one, (nereid_arg[]){nereid_int(3)}, 1, &f->block, &error),
      NEREID_UNSUPPORTED,
      "error: kernel 'quiet' is CUDA C, which the device cpu:1 does not run\n  hint: open the device \"cuda\"\n");
  nereid_device_close(cpu);
}

static void test_nvrtc_fails(void **state) {
  Fixture *f = *state;
  fake->nvrtc_log = "k.cu(7): error: identifier \"z\" is undefined\n    out[0] = z;\n             ^\n\n1 error "
                    "detected in the compilation of \"k.cu\".\n";
  assert_error(LAUNCH("add", f->add, 4), NEREID_BAD_SOURCE,
               "k.cu:7:1: error: identifier \"z\" is undefined\n    if (n) { out[0] = x[0] + y[0]; }\n  ^\n");
  fake->nvrtc_log = NULL;
  setenv("NEREID_LIBNVRTC", "/nonexistent/libnvrtc.so", 1);
  assert_says(LAUNCH("add", f->add, 4), NEREID_NO_COMPILER,
              "CUDA C needs NVRTC, which was not found: /nonexistent/libnvrtc.so");
  setenv("NEREID_LIBNVRTC", "libm.so.6", 1);
  assert_says(LAUNCH("add", f->add, 4), NEREID_NO_COMPILER,
              "this NVRTC is too old, or none: libm.so.6 has no nvrtcVersion");
  nereid_module *m = NULL;
  assert_says(nereid_module_load_string("bad.cu", "__global__ void k(int a", &m, &error), NEREID_BAD_SOURCE,
              "bad.cu:1:18: error: this bracket is not closed");
  assert_ok(nereid_module_load_string("empty.cu", "", &m, &error));
  assert_int_equal(nereid_kernel_count(m), 0);
  nereid_module_free(m);
}

/* ---- what NVRTC made, on disk ------------------------------------------------------------------------------------ */

static void put_text(const char *folder, const char *name, const char *text) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

/* How often NVRTC is asked when k.cu of the folder is compiled anew, as by another process. */
static int compiles(const char *folder, const char *kernel, bool cached) {
  char path[200];
  snprintf(path, sizeof path, "%s/k.cu", folder);
  nereid_device *d = kit_device("cuda");
  nereid_module *m = NULL;
  nereid_function *fn = NULL;
  int before = fake->nvrtc_compiled;
  assert_ok(nereid_module_load(path, &m, &error));
  assert_ok(
      nereid_compile(d, m, kernel, (nereid_arg[]){nereid_int(1)}, 1, &(nereid_options){.block = {32}}, &fn, &error));
  nereid_function_info info;
  nereid_function_get_info(fn, &info);
  if (info.from_cache != cached) fail_msg("%s: cached: %d", kernel, info.from_cache);
  nereid_function_free(fn);
  nereid_module_free(m);
  nereid_device_close(d);
  assert_int_equal(fake->modules, 0);
  return fake->nvrtc_compiled - before;
}
#define assert_compiled() assert_int_equal(compiles(folder, "k", false), 1)
#define assert_kept() assert_int_equal(compiles(folder, "k", true), 0)

/* Every file of the cache loses its last byte, or has one changed in its middle. */
static void damage(bool cut) {
  char command[300];
  snprintf(
      command, sizeof command,
      cut ? "for f in $NEREID_CACHE_DIR/nvrtc/*; do truncate -s -1 $f; done"
          : "for f in $NEREID_CACHE_DIR/nvrtc/*; do printf X | dd of=$f bs=1 seek=20 conv=notrunc 2>/dev/null; done");
  assert_int_equal(system(command), 0);
}

static void test_nvrtc_kept(void **state) {
  char folder[] = "/tmp/nereid-test-XXXXXX", command[100];
  assert_non_null(mkdtemp(folder));
  put_text(folder, "k.cu",
           "#include <missing.h>\n # include \"a.h\"\n__global__ void k(int n) {}\ntemplate <int N> __global__ void "
           "t(int n) {}\n");
  put_text(folder, "a.h",
           "#if 0 // include what?\n#include <sub.h>\n#endif\n#if defined(__has_include) && __has_include "
           "(\"b.h\")\n#endif\n");
  put_text(folder, "sub.h", "");
  assert_compiled();
  assert_kept();
  assert_int_equal(compiles(folder, "t<1>", false), 1);
  assert_int_equal(compiles(folder, "t<2>", false), 1);
  assert_int_equal(compiles(folder, "t<1>", true), 0);
  fake->minor = 1; /* another GPU */
  assert_compiled();
  fake->minor = 0, fake->nvrtc_minor = 1; /* another NVRTC */
  assert_compiled();
  fake->nvrtc_minor = 0;
  assert_kept();
  /* Each file that the text may reach counts, and so does one that is not there yet. */
  put_text(folder, "sub.h", "int x;");
  assert_compiled();
  assert_kept();
  put_text(folder, "b.h", "");
  assert_compiled();
  put_text(folder, "missing.h", "#include \"k.cu\"\n");
  assert_compiled();
  assert_kept();
  /* A file of the cache that was damaged is made again. */
  damage(true);
  assert_compiled();
  assert_kept();
  damage(false);
  assert_compiled();
  assert_kept();
  /* What is not known is not kept. */
  /* clang-format off */
  static const char *const open[] = {"#include NAME\n", "#include \\\n<a.h>\n", "#\\\ninclude <a.h>\n",
    "#/**/include <a.h>\n", "#if __has_include(NAME)\n#endif\n",
                                     "const char *at = __TIME__;\n", "#include <a.h\n"};
  /* clang-format on */
  for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
    put_text(folder, "b.h", open[i]);
    assert_compiled();
    assert_compiled();
  }
  put_text(folder, "b.h", "int include_of(int);\n");
  assert_compiled();
  assert_kept();
  setenv("NEREID_CACHE_DIR", "/proc/nothing", 1); /* no place */
  assert_compiled();
  assert_compiled();
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

static void test_inspect(void **state) {
  Fixture *f = *state;
  char *text = NULL;
  assert_ok(nereid_inspect(f->m, "add", NULL, 0, NULL, "ptx", "sm_80", &text, &error));
  assert_non_null(strstr(text, ".entry add("));
  assert_non_null(strstr(fake->nvrtc_options, "--gpu-architecture=sm_80 "));
  free(text);
  BAD(nereid_inspect(f->m, "add", NULL, 0, NULL, "tile", "sm_80", &text, &error),
      "error: CUDA C has no stage 'tile'\n  hint: there are ptx and sass, for a GPU's target\n");
  BAD(nereid_inspect(f->m, NULL, NULL, 0, NULL, "ptx", "sm_80", &text, &error),
      "error: nereid_inspect: the kernel's name is NULL\n");
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
      ALONE(test_nvrtc_kept),
      OPEN(test_memory),
      OPEN(test_registered),
      OPEN(test_launch),
      OPEN(test_attributes),
      OPEN(test_warm_launch),
      OPEN(test_graph),
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
      OPEN(test_reports),
      OPEN(test_reports_while_running),
      OPEN(test_reports_of_graph),
      OPEN(test_waits_without_lock),
      OPEN(test_threads_that_print),
      OPEN(test_program_list),
      OPEN(test_persistent),
      ALONE(test_shared_memory),
      OPEN(test_signatures),
      OPEN(test_cuda_c_arguments),
      OPEN(test_nvrtc_fails),
      OPEN(test_inspect),
      OPEN(test_wrapped_stream),
      OPEN(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return cuda_tests(run); }
