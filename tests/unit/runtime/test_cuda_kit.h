/* What the tests of the cuda device share: the driver that is not there (fakes/cuda.c), CUDA C for it, a device that
 * each test opens, and the check that nothing is left behind. */
#ifndef TEST_CUDA_KIT_H
#define TEST_CUDA_KIT_H
#include "fakes/cuda_kit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static FakeCuda *fake;
static void (*fake_reset)(void);
static void (*fake_kernel)(const char *name, FakeKernel run);
static void *(*fake_context)(void);
static int (*context_set)(void *), (*context_get)(void **);

static const char text_cu[] = "#include <cuda_fp16.h>\n"
                              "typedef unsigned long long count_t;\n"
                              "using real = float;\n"
                              "#define HALF __half\n"
                              "// __global__ void comment(int a)\n"
                              "extern \"C\" __global__ void add(const float *x, const float *y, float *out, int n) {\n"
                              "  if (n) { out[0] = x[0] + y[0]; }\n"
                              "}\n"
                              "extern \"C\" __global__ void crash(int *p) { p[1 << 30] = 1; }\n"
                              "extern \"C\" __global__ void quiet(int n) {}\n"
                              "namespace a { namespace b {\n"
                              "template <typename T, int N = 4> __global__ void __launch_bounds__(256)\n"
                              "scale(const T *__restrict__ x, T *y, real by, count_t n) {}\n"
                              "} }\n"
                              "__global__ void many(char c, signed char sc, unsigned char *uc, short, unsigned u, long "
                              "l, unsigned long long int ull, HALF h, const HALF *hp,\n"
                              "                     double const &d, float4 *v, void **pp, struct Config config, bool "
                              "b = true, int m[], std::size_t z = sizeof(int), const char *s = \"a,b)\");\n"
                              "#if 0\n"
                              "#endif\n"
                              "#define ROUND ROUND ROUND ROUND ROUND\n"
                              "__global__ void nothing(void) {}\n"
                              "__global__ void round(ROUND x) {}\n";

static int run_add(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  const float *x = *(float **)p[0], *y = *(float **)p[1];
  float *out = *(float **)p[2];
  for (int i = 0; i < *(int *)p[3]; i++) out[i] = x[i] + y[i];
  return 0;
}
static int run_crash(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) { return 700; }

typedef struct Fixture {
  nereid_device *d;
  nereid_module *m;
  void *p[3];
  nereid_arg add[4];
  nereid_options block;
} Fixture;
static const int64_t one[3] = {1, 1, 1};

/* A cache on disk for each test. */
static char caches[] = "/tmp/nereid-test-XXXXXX";
static void fresh_cache(void) {
  static int n;
  char folder[64];
  snprintf(folder, sizeof folder, "%s/%d", caches, n++);
  setenv("NEREID_CACHE_DIR", folder, 1);
}

static int fresh(void **state) {
  fresh_cache();
  setenv("NEREID_LIBCUDA", FAKE_CUDA, 1);
  setenv("NEREID_LIBNVRTC", FAKE_CUDA, 1);
  unsetenv("NEREID_CUDA_BLOCKING");
  fake_reset();
  fake_kernel("add", run_add);
  fake_kernel("crash", run_crash);
  context_set(NULL);
  return 0;
}

static int setup(void **state) {
  fresh(state);
  Fixture *f = calloc(1, sizeof *f);
  f->d = kit_device("cuda");
  assert_ok(nereid_module_load_string("k.cu", text_cu, &f->m, &error));
  for (int i = 0; i < 3; i++) assert_ok(nereid_alloc(f->d, 256, &f->p[i], &error));
  for (int i = 0; i < 3; i++) f->add[i] = nereid_pointer(f->p[i], NEREID_F32);
  f->add[3] = nereid_int(8);
  f->block.block[0] = 128;
  *state = f;
  return 0;
}

static int teardown(void **state) {
  Fixture *f = *state;
  fake->sticky = 0;
  fake->capturing = NULL;
  nereid_module_free(f->m);
  nereid_device_close(f->d);
  free(f);
  assert_nothing_left(fake);
  return 0;
}

#define LAUNCH(kernel, args, n) nereid_launch(f->d, NULL, f->m, kernel, one, args, n, &f->block, &error)
#define BAD(call, text) assert_error(call, NEREID_BAD_ARGUMENT, text)

#define ALONE(test) cmocka_unit_test_setup(test, fresh)
#define OPEN(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* A program of such tests. */
static int cuda_tests(int (*run)(void)) {
  void *library = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  fake = ((FakeCuda * (*)(void)) dlsym(library, "fake_cuda"))();
  *(void **)&fake_reset = dlsym(library, "fake_reset");
  *(void **)&fake_kernel = dlsym(library, "fake_kernel");
  *(void **)&fake_context = dlsym(library, "fake_context");
  *(void **)&context_set = dlsym(library, "cuCtxSetCurrent");
  *(void **)&context_get = dlsym(library, "cuCtxGetCurrent");
  if (!mkdtemp(caches)) return perror(caches), 1;
  int failed = run();
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", caches);
  return system(command) ? 1 : failed;
}

#endif
