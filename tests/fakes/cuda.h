/* A driver that is not there: libcuda's functions, and NVRTC's, on the host's memory, which fail when told to.
 *
 * fakes/cuda.c is built as a library of its own; NEREID_LIBCUDA and NEREID_LIBNVRTC name it, and a test that opens it
 * too (fake_cuda()) looks at what was called, and says what is to go wrong.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kernel, by its name in the PTX: runs on the host when it is launched. The result is what the device says at the
 * next call that waits: 0, or an error such as 700. */
typedef int (*FakeKernel)(void **params, const unsigned grid[3], const unsigned block[3], unsigned shared);

/* What a tensor map of ours holds, in its 128 bytes. */
typedef struct FakeMap {
  uint64_t base, sizes[5], strides[4];
  uint32_t box[5];
  uint8_t type, rank, swizzle, promotion;
} FakeMap;

typedef struct FakeCuda {
  /* what the machine has */
  int device_count, driver_version, major, minor, shared_per_block, compute_mode, max_threads, pageable;
  size_t memory;
  /* what the driver does not take */
  int cubin_result, ptx_result; /* of loading such an image */
  const char *jit_error_log, *jit_info_log;
  /* the call after `after` good ones fails, once; symbol NULL: none */
  struct {
    const char *symbol;
    int result;
    int after;
  } fail;
  struct {
    char name[64];
    FakeKernel run;
  } kernels[16];
  int kernel_count;
  /* runs when a wait for the device or a stream is over, before its caller knows; no lock of the driver is held; once
   */
  void (*on_wait)(void);
  int nvrtc_minor;       /* of its version */
  const char *nvrtc_log; /* not NULL: NVRTC does not compile, and says this */

  /* what has happened */
  int sticky; /* the context is lost */
  int calls;  /* of any function */
  int launches, last_params;
  int modules, allocations, host_allocations, streams, events, contexts_retained; /* alive */
  int registered;                                                                 /* page-locked memory of others */
  int unloaded_in_flight; /* modules that were unloaded while their kernels might run */
  int without_context;    /* calls that need a current context and found none, or another */
  int cubins_loaded, ptx_loaded;
  int forbidden_in_capture;                                           /* calls that a capture does not allow */
  unsigned last_grid[3], last_block[3], last_shared, last_attributes; /* a bit each, by CUlaunchAttributeID */
  unsigned last_cluster;                                              /* blocks along x; 0: nothing was said */
  int last_function_shared;                                           /* cuFuncSetAttribute's */
  void *last_stream;
  char nvrtc_options[1024], nvrtc_names[256];
  int nvrtc_compiled;
  void *capturing;                         /* the stream that captures; NULL: none */
  int captured;                            /* launches in it */
  int capture_params;                      /* parameters of each kernel in a graph */
  int graphs, graph_execs, graph_launches; /* alive, alive, calls */
  bool stream_busy;                        /* cuStreamQuery says that there is work left */
  int stream_queries;                      /* calls of it */
  int maps_encoded;
  int pools, pool_allocations; /* alive */
  int pool_taken;              /* allocations from pools, ever */
  uint64_t memory_end;         /* where the device's memory ends, as cuPointerGetAttribute says; 0: at its end */
} FakeCuda;

#endif
