/* cuda_api: the part of NVIDIA's driver interface that we use, opened at run time.
 *
 * Nothing of CUDA is needed to build: the functions, their argument types and the numbers of attributes and errors are
 * declared here, after cuda.h. Names with _v2 are today's forms (the bare names are of older interfaces).
 *
 * Every use reads like the driver's own call: c->api.mem_alloc(&p, n).
 */
#ifndef NEREID_CUDA_API_H
#define NEREID_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

typedef int CuResult; /* 0: success */
typedef int CuDevice;
typedef uint64_t CuPointer; /* CUdeviceptr */
typedef struct CUctx_st *CuContext;
typedef struct CUmod_st *CuModule;
typedef struct CUfunc_st *CuFunction;
typedef struct CUstream_st *CuStream;
typedef struct CUevent_st *CuEvent;
typedef struct CUgraph_st *CuGraph;
typedef struct CUgraphExec_st *CuGraphExec;
typedef struct CUgraphNode_st *CuGraphNode;
typedef struct CuKernelNode { /* CUDA_KERNEL_NODE_PARAMS_v2 */
  CuFunction function;
  unsigned grid[3], block[3], shared;
  void **params, **extra, *kernel;
  CuContext context;
} CuKernelNode;

typedef struct CUmemPoolHandle_st *CuMemPool;
typedef struct CuMemPoolProps { /* CUmemPoolProps */
  int kind, handles, place, device;
  void *security;
  size_t most;
  char reserved[56];
} CuMemPoolProps;

enum { CU_LAUNCH_COOPERATIVE = 2, CU_LAUNCH_CLUSTER = 4, CU_LAUNCH_PROGRAMMATIC = 6 };
typedef struct CuLaunchAttribute { /* CUlaunchAttribute */
  int id, pad;
  union {
    int yes;
    unsigned blocks[3]; /* CLUSTER */
    char bytes[64];
  } value;
} CuLaunchAttribute;
typedef struct CuLaunchConfig { /* CUlaunchConfig */
  unsigned grid[3], block[3], shared;
  CuStream stream;
  CuLaunchAttribute *attributes;
  unsigned attribute_count;
} CuLaunchConfig;

/* X(field, symbol, needed, arguments): a driver without a needed one is too old for us. */
#define CUDA_FUNCTIONS(X) \
  X(init, "cuInit", 1, (unsigned flags)) \
  X(driver_version, "cuDriverGetVersion", 1, (int *version)) \
  X(error_name, "cuGetErrorName", 1, (CuResult r, const char **out)) \
  X(error_string, "cuGetErrorString", 1, (CuResult r, const char **out)) \
  X(device_count, "cuDeviceGetCount", 1, (int *count)) \
  X(device_get, "cuDeviceGet", 1, (CuDevice * out, int ordinal)) \
  X(device_name, "cuDeviceGetName", 1, (char *out, int size, CuDevice d)) \
  X(device_attribute, "cuDeviceGetAttribute", 1, (int *out, int attribute, CuDevice d)) \
  X(device_memory, "cuDeviceTotalMem_v2", 1, (size_t * bytes, CuDevice d)) \
  X(primary_retain, "cuDevicePrimaryCtxRetain", 1, (CuContext * out, CuDevice d)) \
  X(primary_release, "cuDevicePrimaryCtxRelease_v2", 1, (CuDevice d)) \
  X(context_get, "cuCtxGetCurrent", 1, (CuContext * out)) \
  X(context_set, "cuCtxSetCurrent", 1, (CuContext c)) \
  X(context_push, "cuCtxPushCurrent_v2", 1, (CuContext c)) \
  X(context_pop, "cuCtxPopCurrent_v2", 1, (CuContext * out)) \
  X(context_device, "cuCtxGetDevice", 1, (CuDevice * out)) \
  X(context_synchronize, "cuCtxSynchronize", 1, (void)) \
  X(module_load, "cuModuleLoadDataEx", 1, \
    (CuModule * out, const void *image, unsigned n, int *options, void **values)) \
  X(module_unload, "cuModuleUnload", 1, (CuModule m)) \
  X(module_function, "cuModuleGetFunction", 1, (CuFunction * out, CuModule m, const char *name)) \
  X(function_attribute, "cuFuncGetAttribute", 1, (int *out, int attribute, CuFunction f)) \
  X(function_set, "cuFuncSetAttribute", 1, (CuFunction f, int attribute, int value)) \
  X(function_load, "cuFuncLoad", 0, (CuFunction f)) \
  X(launch, "cuLaunchKernel", 1, \
    (CuFunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, \
     CuStream s, void **params, void **extra)) \
  X(launch_with, "cuLaunchKernelEx", 0, (const CuLaunchConfig *config, CuFunction f, void **params, void **extra)) \
  X(mem_alloc, "cuMemAlloc_v2", 1, (CuPointer * out, size_t bytes)) \
  X(mem_free, "cuMemFree_v2", 1, (CuPointer p)) \
  X(mem_info, "cuMemGetInfo_v2", 1, (size_t * free, size_t * total)) \
  X(host_alloc, "cuMemHostAlloc", 1, (void **out, size_t bytes, unsigned flags)) \
  X(host_free, "cuMemFreeHost", 1, (void *p)) \
  X(host_register, "cuMemHostRegister_v2", 1, (void *p, size_t bytes, unsigned flags)) \
  X(host_unregister, "cuMemHostUnregister", 1, (void *p)) \
  X(pointer_attribute, "cuPointerGetAttribute", 1, (void *out, int attribute, CuPointer p)) \
  X(copy_in, "cuMemcpyHtoD_v2", 1, (CuPointer dst, const void *src, size_t bytes)) \
  X(copy_out, "cuMemcpyDtoH_v2", 1, (void *dst, CuPointer src, size_t bytes)) \
  X(copy_in_async, "cuMemcpyHtoDAsync_v2", 1, (CuPointer dst, const void *src, size_t bytes, CuStream s)) \
  X(copy_out_async, "cuMemcpyDtoHAsync_v2", 1, (void *dst, CuPointer src, size_t bytes, CuStream s)) \
  X(copy_async, "cuMemcpyDtoDAsync_v2", 1, (CuPointer dst, CuPointer src, size_t bytes, CuStream s)) \
  X(fill_async, "cuMemsetD8Async", 1, (CuPointer dst, unsigned char value, size_t bytes, CuStream s)) \
  X(stream_create, "cuStreamCreate", 1, (CuStream * out, unsigned flags)) \
  X(stream_destroy, "cuStreamDestroy_v2", 1, (CuStream s)) \
  X(stream_synchronize, "cuStreamSynchronize", 1, (CuStream s)) \
  X(stream_wait, "cuStreamWaitEvent", 1, (CuStream s, CuEvent e, unsigned flags)) \
  X(stream_query, "cuStreamQuery", 0, (CuStream s)) \
  X(stream_capturing, "cuStreamIsCapturing", 1, (CuStream s, int *status)) \
  X(capture_info, "cuStreamGetCaptureInfo_v2", 0, \
    (CuStream s, int *status, uint64_t *id, CuGraph *graph, const CuGraphNode **after, size_t *after_count)) \
  X(capture_begin, "cuStreamBeginCapture_v2", 0, (CuStream s, int mode)) \
  X(capture_end, "cuStreamEndCapture", 0, (CuStream s, CuGraph * out)) \
  X(thread_capture_mode, "cuThreadExchangeStreamCaptureMode", 0, (int *mode)) \
  X(graph_create, "cuGraphCreate", 0, (CuGraph * out, unsigned flags)) \
  X(graph_add_kernel, "cuGraphAddKernelNode_v2", 0, \
    (CuGraphNode * out, CuGraph g, const CuGraphNode *after, size_t after_count, const CuKernelNode *launch)) \
  X(graph_set_kernel, "cuGraphExecKernelNodeSetParams_v2", 0, \
    (CuGraphExec g, CuGraphNode n, const CuKernelNode *launch)) \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", 0, (CuGraphExec * out, CuGraph g, unsigned long long flags)) \
  X(graph_launch, "cuGraphLaunch", 0, (CuGraphExec g, CuStream s)) \
  X(graph_destroy, "cuGraphDestroy", 0, (CuGraph g)) \
  X(graph_exec_destroy, "cuGraphExecDestroy", 0, (CuGraphExec g)) \
  X(pool_create, "cuMemPoolCreate", 0, (CuMemPool * out, const CuMemPoolProps *props)) \
  X(pool_destroy, "cuMemPoolDestroy", 0, (CuMemPool p)) \
  X(pool_set, "cuMemPoolSetAttribute", 0, (CuMemPool p, int attribute, void *value)) \
  X(pool_alloc, "cuMemAllocFromPoolAsync", 0, (CuPointer * out, size_t bytes, CuMemPool p, CuStream s)) \
  X(free_async, "cuMemFreeAsync", 0, (CuPointer p, CuStream s)) \
  X(map_encode, "cuTensorMapEncodeTiled", 0, \
    (void *map, int type, unsigned rank, void *base, const uint64_t *sizes, const uint64_t *strides, \
     const uint32_t *box, const uint32_t *element_strides, int interleave, int swizzle, int promotion, int fill)) \
  X(event_create, "cuEventCreate", 1, (CuEvent * out, unsigned flags)) \
  X(event_destroy, "cuEventDestroy_v2", 1, (CuEvent e)) \
  X(event_record, "cuEventRecord", 1, (CuEvent e, CuStream s)) \
  X(event_synchronize, "cuEventSynchronize", 1, (CuEvent e)) \
  X(event_elapsed, "cuEventElapsedTime", 1, (float *ms, CuEvent start, CuEvent end))

typedef struct CudaApi {
  void *library;
#define X(field, symbol, needed, arguments) CuResult(*field) arguments;
  CUDA_FUNCTIONS(X)
#undef X
} CudaApi;

enum {                     /* CUdevice_attribute */
       CU_MAX_BLOCK_X = 2, /* y and z follow */
       CU_MULTIPROCESSORS = 16,
       CU_COMPUTE_MODE = 20,
       CU_L2_BYTES = 38,
       CU_MAJOR = 75,
       CU_MINOR = 76,
       CU_PAGEABLE_ACCESS = 88, /* kernels reach all of the host's memory */
       CU_SHARED_PER_BLOCK = 97 /* after cuFuncSetAttribute */
};
enum {
  CU_FUNCTION_MAX_THREADS = 0,
  CU_FUNCTION_STATIC_SHARED = 1,
  CU_FUNCTION_REGISTERS = 4,
  CU_FUNCTION_DYNAMIC_SHARED = 8
};
enum { /* CUtensorMapDataType, and what else of a map is always the same */
       CU_MAP_U8 = 0,
       CU_MAP_U16 = 1,
       CU_MAP_F16 = 6,
       CU_MAP_F32 = 7,
       CU_MAP_BF16 = 9,
       CU_MAP_NO_INTERLEAVE = 0,
       CU_MAP_PROMOTE_128 = 2, /* what misses comes to L2 by 128 bytes */
       CU_MAP_FILL_ZEROS = 0
};
enum { CU_POINTER_MEMORY_TYPE = 2 };
enum { CU_MEMORY_HOST = 1, CU_MEMORY_DEVICE = 2 };
enum { CU_JIT_INFO_LOG = 3, CU_JIT_INFO_SIZE = 4, CU_JIT_ERROR_LOG = 5, CU_JIT_ERROR_SIZE = 6 };
enum { CU_HOST_PORTABLE = 1, CU_HOST_MAPPED = 2 };
#define CU_STREAM_PER_THREAD ((CuStream)2) /* a handle that means another stream in each thread */
enum { CU_CAPTURE_RELAXED = 2 };           /* other threads, and calls of ours that touch no stream, go on */

enum { /* CUresult */
       CU_INVALID_VALUE = 1,
       CU_OUT_OF_MEMORY = 2,
       CU_NOT_INITIALIZED = 3,
       CU_STUB_LIBRARY = 34,
       CU_DEVICE_UNAVAILABLE = 46,
       CU_NO_DEVICE = 100,
       CU_INVALID_DEVICE = 101,
       CU_INVALID_IMAGE = 200,
       CU_INVALID_CONTEXT = 201,
       CU_NO_BINARY_FOR_GPU = 209,
       CU_INVALID_PTX = 218,
       CU_NO_JIT_COMPILER = 221,
       CU_PTX_TOO_NEW = 222,
       CU_JIT_DISABLED = 223,
       CU_NOT_FOUND = 500,
       CU_NOT_READY = 600,
       CU_ILLEGAL_ADDRESS = 700,
       CU_OUT_OF_RESOURCES = 701,
       CU_LAUNCH_TIMEOUT = 702,
       CU_CONTEXT_IS_DESTROYED = 709,
       CU_ASSERT = 710,
       CU_STACK_ERROR = 714,
       CU_ILLEGAL_INSTRUCTION = 715,
       CU_MISALIGNED_ADDRESS = 716,
       CU_INVALID_ADDRESS_SPACE = 717,
       CU_INVALID_PC = 718,
       CU_LAUNCH_FAILED = 719,
       CU_NOT_SUPPORTED = 801,
       CU_SYSTEM_NOT_READY = 802,
       CU_DRIVER_MISMATCH = 803,
       CU_CAPTURE_FIRST = 900, /* to 908: what a stream under capture does not allow */
       CU_CAPTURE_LAST = 908
};

/* The driver's library: $NEREID_LIBCUDA, else libcuda.so.1. False: why and hint say what is missing (hint may be NULL).
 * cuInit has been called. A library once opened stays in the process: it has threads of its own. */
bool cuda_api_open(CudaApi *api, char why[512], const char **hint);
/* Errors after which the context, and on many systems the process's use of the GPU, is at an end. */
bool cuda_is_sticky(CuResult r);
/* "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)" */
void cuda_describe(const CudaApi *api, CuResult r, char *out, size_t size);
/* What to do about it, or NULL. */
const char *cuda_hint(CuResult r);

#endif
