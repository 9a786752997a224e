/* What the tests of kernels built ahead of time share. GPUs are a driver that is not there (fakes/cuda.c). */
#ifndef AOT_KIT_H
#define AOT_KIT_H

#include <dlfcn.h>
#include <unistd.h>

#include "aot/aot.h"
#include "fakes/cuda_kit.h"

static FakeCuda *fake;
static void (*fake_reset)(void);
static void (*fake_kernel)(const char *name, FakeKernel run);

static const int64_t one_program[3] = {1, 1, 1};

typedef struct Fixture {
  nereid_module *m;
  nereid_device *cpu;
  char path[64];
} Fixture;

static inline nereid_build *new_build(const char *targets) {
  nereid_build *b = NULL;
  assert_ok(nereid_build_create(&(nereid_build_options){.targets = targets}, &b, &error));
  return b;
}

#define ADD(b, f, kernel, grid_text, ...) \
  do { \
    const nereid_build_arg list[] = {__VA_ARGS__}; \
    assert_ok(nereid_build_add(b, (f)->m, kernel, list, sizeof list / sizeof list[0], \
                               &(nereid_build_how){.grid = grid_text}, NULL, &error)); \
  } while (0)

static inline nereid_bundle *write_and_open(Fixture *f, nereid_build *b, nereid_device *d) {
  nereid_bundle *out = NULL;
  assert_ok(nereid_build_write(b, f->path, &error));
  nereid_build_free(b);
  assert_ok(nereid_bundle_open(d, f->path, &out, &error));
  return out;
}

static inline char *read_all(const char *path, size_t *n) {
  Buf b = {0};
  assert_true(file_read(path, &b));
  *n = b.n;
  return b.at;
}

static inline int aot_setup(void **state, const char *text) {
  static Fixture f;
  f = (Fixture){0};
  fake_reset();
  assert_ok(nereid_module_load_string("k.py", text, &f.m, &error));
  assert_ok(nereid_device_open("cpu:2", &f.cpu, &error));
  snprintf(f.path, sizeof f.path, "/tmp/nereid-test-bundle-%d.nereid", (int)getpid());
  *state = &f;
  return 0;
}

static inline int aot_teardown(void **state) {
  Fixture *f = *state;
  nereid_module_free(f->m);
  nereid_device_close(f->cpu);
  unlink(f->path);
  assert_nothing_left(fake);
  return 0;
}

static inline void aot_start(void) {
  setenv("NEREID_LIBCUDA", FAKE_CUDA, 1);
  if (getenv("NEREID_TEST_CACHE")) setenv("NEREID_CACHE_DIR", getenv("NEREID_TEST_CACHE"), 1);
  void *library = dlopen(FAKE_CUDA, RTLD_NOW);
  FakeCuda *(*get)(void);
  *(void **)&get = dlsym(library, "fake_cuda");
  *(void **)&fake_reset = dlsym(library, "fake_reset");
  *(void **)&fake_kernel = dlsym(library, "fake_kernel");
  fake = get();
}

#endif
