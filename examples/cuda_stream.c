/* A Triton kernel in the middle of a program's own CUDA work: its context, its stream, its memory, and no copy or wait
 * of ours.
 *
 *     cuda_stream kernels/vector_add.py
 *
 * The program talks to the driver as an engine would; so that this file builds where no CUDA is, it opens libcuda.so.1
 * itself. In one stream: fill x and y (the driver), out = x + y (the kernel), copy out to the host (the driver).
 */
#include <dlfcn.h>
#include <nereid.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 20, BLOCK = 1024 };

typedef struct Driver {
  int (*init)(unsigned flags);
  int (*device_get)(int *device, int ordinal);
  int (*retain)(void **context, int device);
  int (*release)(int device);
  int (*set_current)(void *context);
  int (*stream_create)(void **stream, unsigned flags);
  int (*stream_destroy)(void *stream);
  int (*mem_alloc)(uint64_t *p, size_t bytes);
  int (*mem_free)(uint64_t p);
  int (*fill)(uint64_t p, unsigned value, size_t count, void *stream);
  int (*copy_out)(void *host, uint64_t p, size_t bytes, void *stream);
} Driver;

static int open_driver(Driver *d) {
  static const char *const names[] = {
      "cuInit",          "cuDeviceGet",      "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2",
      "cuCtxSetCurrent", "cuStreamCreate",   "cuStreamDestroy_v2",       "cuMemAlloc_v2",
      "cuMemFree_v2",    "cuMemsetD32Async", "cuMemcpyDtoHAsync_v2"};
  void **functions[] = {(void **)&d->init,           (void **)&d->device_get,  (void **)&d->retain,
                        (void **)&d->release,        (void **)&d->set_current, (void **)&d->stream_create,
                        (void **)&d->stream_destroy, (void **)&d->mem_alloc,   (void **)&d->mem_free,
                        (void **)&d->fill,           (void **)&d->copy_out};
  const char *file = getenv("NEREID_LIBCUDA");
  void *library = dlopen(file && *file ? file : "libcuda.so.1", RTLD_NOW);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (!library || !(*functions[i] = dlsym(library, names[i])))
      return fprintf(stderr, "there is no %s: this example needs an NVIDIA driver\n", names[i]), 0;
  return 1;
}

static int done(int result, const char *what) {
  if (result) fprintf(stderr, "%s fails: CUDA error %d\n", what, result);
  return result == 0;
}

int main(int argc, char **argv) {
  Driver d = {0};
  if (!open_driver(&d)) return 77;

  /* The program's own. */
  void *context = NULL, *stream = NULL;
  int gpu = 0, failed;
  uint64_t x = 0, y = 0, out = 0;
  size_t bytes = sizeof(float) * N;
  float *host = malloc(bytes);
  if (!host || !done(d.init(0), "cuInit") || !done(d.device_get(&gpu, 0), "cuDeviceGet") ||
      !done(d.retain(&context, gpu), "cuDevicePrimaryCtxRetain") || !done(d.set_current(context), "cuCtxSetCurrent") ||
      !done(d.stream_create(&stream, 1 /* does not wait for the default stream */), "cuStreamCreate") ||
      !done(d.mem_alloc(&x, bytes) | d.mem_alloc(&y, bytes) | d.mem_alloc(&out, bytes), "cuMemAlloc"))
    return 1;

  /* What Nereid is told of it. */
  nereid_error *error = NULL;
  nereid_device *device = NULL;
  nereid_stream *ours = NULL;
  nereid_module *module = NULL;
  nereid_arg args[] = {nereid_pointer((void *)(uintptr_t)x, NEREID_F32),
                       nereid_pointer((void *)(uintptr_t)y, NEREID_F32),
                       nereid_pointer((void *)(uintptr_t)out, NEREID_F32), nereid_int(N),
                       nereid_named(nereid_constexpr_int(BLOCK), "BLOCK")};
  int64_t grid[3] = {(N + BLOCK - 1) / BLOCK, 1, 1};
  failed = nereid_device_open_cuda(context, &device, &error) || nereid_stream_wrap(device, stream, &ours, &error) ||
           nereid_module_load(argc > 1 ? argv[1] : "kernels/vector_add.py", &module, &error);

  /* One stream, four pieces of work; the host waits once. */
  failed = failed || !done(d.fill(x, 0x3f800000u /* 1.0f */, N, stream), "cuMemsetD32Async") ||
           !done(d.fill(y, 0x40000000u /* 2.0f */, N, stream), "cuMemsetD32Async") ||
           nereid_launch(device, ours, module, "vector_add", grid, args, 5, NULL, &error) ||
           !done(d.copy_out(host, out, bytes, stream), "cuMemcpyDtoHAsync") ||
           nereid_stream_synchronize(device, ours, &error);
  if (error) fputs(nereid_error_text(error), stderr);
  nereid_error_free(error);

  int wrong = 0;
  for (int i = 0; i < N && !failed; i++) wrong += host[i] != 3.0f;
  if (!failed) printf("%d sums on a stream of our own, %d wrong\n", N, wrong);
  nereid_module_free(module);
  nereid_stream_destroy(ours); /* the CUstream is still the program's */
  nereid_device_close(device);
  if (!done(d.mem_free(x) | d.mem_free(y) | d.mem_free(out), "cuMemFree")) failed = 1;
  if (!done(d.stream_destroy(stream), "cuStreamDestroy") || !done(d.release(gpu), "cuDevicePrimaryCtxRelease"))
    failed = 1;
  free(host);
  return failed || wrong != 0;
}
