/* See fakes/cupti.h. */
#define _GNU_SOURCE
#include "fakes/cupti.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prof/record/cupti_api.h"

#define API __attribute__((visibility("default")))

static FakeCupti fake = {.version = 18};
static CuptiRequest request;
static CuptiComplete complete;
static CuptiCallback callback;
static uint8_t *buffer;
static size_t buffer_size, used, walked;
/* Of the buffer: a program records while the profiler's thread flushes. Recursive, since a full buffer's records are
 * asked for from within. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

API FakeCupti *fake_cupti(void) { return &fake; }
API void fake_cupti_reset(void) {
  free(buffer);
  buffer = NULL, used = walked = 0, request = NULL, complete = NULL;
  fake = (FakeCupti){.version = 18};
}

/* Sizes of the records, from the headers of CUDA 12.0 and 13.0. */
static size_t size_of(uint32_t kind) {
  bool new = fake.version >= 130000;
  switch (kind) {
    case CUPTI_MEMCPY: return new ? 96 : 88;
    case CUPTI_MEMCPY2: return 96;
    case CUPTI_MEMSET: return 88;
    case CUPTI_DRIVER:
    case CUPTI_RUNTIME: return 40;
    case CUPTI_KERNEL:
    case CUPTI_CONCURRENT_KERNEL: return new ? 216 : 208;
    case CUPTI_DEVICE: return new ? 184 : 176;
    case CUPTI_MEMORY2: return new ? 128 : 120;
    default: return 64;
  }
}

static void put_record(const void *record, size_t bytes, size_t n) {
  if (buffer && used + n > buffer_size) fake_cupti_deliver();
  if (!buffer) {
    size_t most = 0;
    request(&buffer, &buffer_size, &most);
    if (!buffer) {
      fake.dropped++;
      return;
    }
    memset(buffer, 0xee, buffer_size);
  }
  memset(buffer + used, 0, n);
  memcpy(buffer + used, record, bytes < n ? bytes : n);
  used += n;
}

API void fake_cupti_record(const void *record, size_t bytes) {
  uint32_t kind;
  memcpy(&kind, record, 4);
  pthread_mutex_lock(&lock);
  put_record(record, bytes, size_of(kind));
  pthread_mutex_unlock(&lock);
}

API void fake_cupti_deliver(void) {
  pthread_mutex_lock(&lock);
  uint8_t *full = buffer;
  size_t n = used;
  buffer = NULL, used = 0, walked = 0;
  if (full) complete(NULL, 0, full, buffer_size, n);
  pthread_mutex_unlock(&lock);
}

API void fake_cupti_launch(uint32_t number, uint32_t correlation) {
  CuptiCall call = {.correlation = correlation};
  if (number < 1024 && fake.callbacks[number]) callback(NULL, CUPTI_DOMAIN_DRIVER, number, &call);
}

/* ---- CUPTI's own ------------------------------------------------------------------------------------------------- */

API int cuptiGetVersion(uint32_t *v) { return *v = fake.version, 0; }
API int cuptiGetResultString(int r, const char **text) {
  *text = r == 39   ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
          : r == 27 ? "CUPTI_ERROR_NOT_SUPPORTED"
          : r == 15 ? "CUPTI_ERROR_NOT_INITIALIZED"
                    : "CUPTI_ERROR_UNKNOWN";
  return 0;
}
API int cuptiSubscribe(CuptiSubscriber *out, CuptiCallback f, void *data) {
  if (fake.subscribe_result) return fake.subscribe_result;
  if (fake.subscribers) return CUPTI_MULTIPLE_SUBSCRIBERS;
  fake.subscribers++, callback = f;
  *out = (void *)&fake;
  return 0;
}
API int cuptiUnsubscribe(CuptiSubscriber s) {
  fake.subscribers--;
  memset(fake.callbacks, 0, sizeof fake.callbacks);
  return 0;
}
API int cuptiEnableCallback(uint32_t on, CuptiSubscriber s, uint32_t domain, uint32_t number) {
  return fake.callbacks[number] = on && domain == CUPTI_DOMAIN_DRIVER, 0;
}

static const char *const driver_names[] = {NULL,
                                           "cuInit",
                                           "cuCtxGetCurrent",
                                           "cuLaunchKernel",
                                           "cuLaunchKernel_ptsz",
                                           "cuMemcpyHtoD_v2",
                                           "cuStreamSynchronize",
                                           "cuFuncGetAttribute",
                                           "cuMemAlloc_v2",
                                           "cuLaunchHostFunc"};
static const char *const runtime_names[] = {NULL,
                                            "cudaGetDevice_v3020",
                                            "cudaLaunchKernel_v7000",
                                            "cudaMemcpyAsync_v3020",
                                            "cudaMemcpy_v3020",
                                            "cudaMalloc_v3020",
                                            "cudaFree_v3020",
                                            "cudaDeviceSynchronize_v3020",
                                            "cudaMemsetAsync_ptsz_v7000",
                                            "cudaGraphLaunch_v10000",
                                            "cudaStreamWaitEvent_v3020",
                                            "__cudaLaunchKernel_v13000"};
API int cuptiGetCallbackName(uint32_t domain, uint32_t number, const char **name) {
  bool driver = domain == CUPTI_DOMAIN_DRIVER;
  uint32_t n = driver ? sizeof driver_names / sizeof *driver_names : sizeof runtime_names / sizeof *runtime_names;
  if (!number || number >= n) return 1;
  *name = driver ? driver_names[number] : runtime_names[number];
  return 0;
}
API int cuptiActivityRegisterCallbacks(CuptiRequest r, CuptiComplete c) { return request = r, complete = c, 0; }
API int cuptiActivityRegisterTimestampCallback(uint64_t (*clock)(void)) { return fake.clock = clock, 0; }
API int cuptiSetThreadIdType(uint32_t type) { return fake.thread_ids = type, 0; }
API int cuptiActivityEnable(uint32_t kind) {
  if (kind == fake.failing_kind) return 27;
  fake.kinds |= 1ull << kind;
  if (kind == CUPTI_RUNTIME) memset(fake.runtime, 1, sizeof fake.runtime);
  return 0;
}
API int cuptiActivityDisable(uint32_t kind) { return fake.kinds &= ~(1ull << kind), 0; }
API int cuptiActivityEnableDriverApi(uint32_t number, uint8_t on) { return fake.driver[number] = on, 0; }
API int cuptiActivityEnableRuntimeApi(uint32_t number, uint8_t on) { return fake.runtime[number] = on, 0; }
API int cuptiActivityFlushAll(uint32_t flags) {
  fake.flushes++, fake.forced_flushes += flags == CUPTI_FLUSH_FORCED;
  fake_cupti_deliver();
  return 0;
}
API int cuptiActivityGetNextRecord(uint8_t *at, size_t valid, CuptiRecord **record) {
  if (walked >= valid) return CUPTI_MAX_LIMIT_REACHED;
  *record = (CuptiRecord *)(at + walked);
  walked += size_of((*record)->kind);
  return 0;
}
API int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
  return *count = fake.dropped, fake.dropped = 0, 0;
}
