/* cupti_api: the part of CUPTI that we use, declared after its documentation and opened at run time.
 *
 * CUPTI hands out records in its newest layout, and a new layout only adds fields at a record's end
 * (CUpti_ActivityKernel7 of CUDA 11.5 to Kernel10 of 13 agree in all that is read here; so do the copies', fills',
 * memory's and device's). Hence one declaration a kind, of the fields up to the last that we need: a record is read in
 * place and its size never asked for. CUPTI_OLDEST is the first version for which that holds and that takes a clock of
 * ours. CUPTI packs its structures to 8 bytes, which on the 64-bit machines that there are is no packing.
 */
#ifndef NEREID_PROF_CUPTI_API_H
#define NEREID_PROF_CUPTI_API_H

#include <stddef.h>
#include <stdint.h>

enum { CUPTI_OLDEST = 16 }; /* cuptiGetVersion: CUDA 11.6; 12.x has 18 to 28, 13.0 has 130000 */

typedef int CuptiResult;
enum {
  CUPTI_MAX_LIMIT_REACHED = 12,
  CUPTI_NOT_INITIALIZED = 15,
  CUPTI_INSUFFICIENT_PRIVILEGES = 35,
  CUPTI_MULTIPLE_SUBSCRIBERS = 39
};

enum { /* CUpti_ActivityKind */
       CUPTI_MEMCPY = 1,
       CUPTI_MEMSET = 2,
       CUPTI_KERNEL = 3,
       CUPTI_DRIVER = 4,
       CUPTI_RUNTIME = 5,
       CUPTI_DEVICE = 8,
       CUPTI_CONCURRENT_KERNEL = 10,
       CUPTI_MEMCPY2 = 22,
       CUPTI_MEMORY2 = 49,
};
enum { CUPTI_DOMAIN_DRIVER = 1, CUPTI_DOMAIN_RUNTIME = 2 }; /* CUpti_CallbackDomain */
/* gettid's number; records of what has not ended as well */
enum { CUPTI_THREAD_ID_SYSTEM = 1, CUPTI_FLUSH_FORCED = 1 };
/* CUpti_ActivityMemoryKind */
enum { CUPTI_PAGEABLE = 1, CUPTI_PINNED = 2, CUPTI_DEVICE_MEMORY = 3, CUPTI_ARRAY = 4, CUPTI_MANAGED = 5 };
enum { CUPTI_ALLOCATION = 1, CUPTI_RELEASE = 2 };

typedef struct CuptiRecord {
  uint32_t kind;
} CuptiRecord;

typedef struct CuptiApi_ { /* CUpti_ActivityAPI */
  uint32_t kind, function;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
} CuptiApiRecord;

typedef struct CuptiKernel { /* CUpti_ActivityKernel7 and later */
  uint32_t kind;
  uint8_t cache_config, shared_config;
  uint16_t registers;
  uint32_t global_cache_requested, global_cache_executed;
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3], static_shared, dynamic_shared;
  uint32_t local_per_thread, local_total, correlation;
  int64_t grid_id;
  const char *name;
  void *reserved;
  uint64_t queued, submitted;
  uint8_t launch_type, carveout_requested, carveout, padding;
  uint32_t shared_executed;
  uint64_t graph_node;
  uint32_t shared_limit, graph;
} CuptiKernel;

typedef struct CuptiCopy { /* CUpti_ActivityMemcpy4 and later */
  uint32_t kind;
  uint8_t copy_kind, from, to, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
} CuptiCopy;

typedef struct CuptiPeerCopy { /* CUpti_ActivityMemcpyPtoP3 and later */
  uint32_t kind;
  uint8_t copy_kind, from, to, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, from_device, from_context, to_device, to_context, correlation;
} CuptiPeerCopy;

typedef struct CuptiFill { /* CUpti_ActivityMemset3 and later */
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
} CuptiFill;

typedef struct CuptiMemory { /* CUpti_ActivityMemory2 and later */
  uint32_t kind, operation, memory_kind, correlation;
  uint64_t address, bytes, time, pc;
  uint32_t process, device, context, stream;
} CuptiMemory;

typedef struct CuptiDevice { /* CUpti_ActivityDevice3 and later */
  uint32_t kind, flags;
  uint64_t bandwidth; /* kB/s */
  uint64_t memory;
  uint32_t constant_memory, l2, warp_lanes, clock_khz, copy_engines, multiprocessors, max_ipc, warps, blocks,
      shared_per_multiprocessor, registers_per_multiprocessor, registers_per_block, shared_per_block, threads_per_block,
      max_block[3], max_grid[3];
  uint32_t major, minor, id, ecc;
  uint8_t uuid[16];
  const char *name;
} CuptiDevice;

typedef struct CuptiCall { /* CUpti_CallbackData */
  uint32_t site;           /* 0: on entry, 1: on exit */
  const char *function;
  const void *arguments;
  void *result;
  const char *symbol;
  void *context;
  uint32_t context_id;
  uint64_t *data;
  uint32_t correlation;
} CuptiCall;

_Static_assert(offsetof(CuptiApiRecord, result) == 36 && offsetof(CuptiKernel, start) == 16 &&
                   offsetof(CuptiKernel, correlation) == 92 && offsetof(CuptiKernel, name) == 104 &&
                   offsetof(CuptiKernel, graph) == 156 && offsetof(CuptiCopy, correlation) == 44 &&
                   offsetof(CuptiPeerCopy, correlation) == 60 && offsetof(CuptiFill, correlation) == 44 &&
                   offsetof(CuptiMemory, device) == 52 && offsetof(CuptiDevice, major) == 104 &&
                   offsetof(CuptiDevice, name) == 136,
               "CUPTI's layouts");

typedef struct CuptiSubscriber *CuptiSubscriber;
typedef void (*CuptiCallback)(void *data, uint32_t domain, uint32_t function, const CuptiCall *call);
typedef void (*CuptiRequest)(uint8_t **buffer, size_t *size, size_t *most_records);
typedef void (*CuptiComplete)(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

/* X(field, symbol, needed, arguments): without a needed one it is no CUPTI that we know. */
#define CUPTI_FUNCTIONS(X) \
  X(version, "cuptiGetVersion", 1, (uint32_t * version)) \
  X(result_string, "cuptiGetResultString", 1, (CuptiResult r, const char **text)) \
  X(subscribe, "cuptiSubscribe", 1, (CuptiSubscriber * out, CuptiCallback f, void *data)) \
  X(unsubscribe, "cuptiUnsubscribe", 1, (CuptiSubscriber s)) \
  X(callback_enable, "cuptiEnableCallback", 1, (uint32_t on, CuptiSubscriber s, uint32_t domain, uint32_t function)) \
  X(callback_name, "cuptiGetCallbackName", 1, (uint32_t domain, uint32_t function, const char **name)) \
  X(register_buffers, "cuptiActivityRegisterCallbacks", 1, (CuptiRequest request, CuptiComplete complete)) \
  X(register_clock, "cuptiActivityRegisterTimestampCallback", 1, (uint64_t(*clock)(void))) \
  X(set_thread_id, "cuptiSetThreadIdType", 1, (uint32_t type)) \
  X(enable, "cuptiActivityEnable", 1, (uint32_t kind)) \
  X(disable, "cuptiActivityDisable", 1, (uint32_t kind)) \
  X(enable_driver, "cuptiActivityEnableDriverApi", 0, (uint32_t function, uint8_t on)) \
  X(enable_runtime, "cuptiActivityEnableRuntimeApi", 0, (uint32_t function, uint8_t on)) \
  X(flush, "cuptiActivityFlushAll", 1, (uint32_t flags)) \
  X(next_record, "cuptiActivityGetNextRecord", 1, (uint8_t * buffer, size_t valid, CuptiRecord * *record)) \
  X(dropped, "cuptiActivityGetNumDroppedRecords", 1, (void *context, uint32_t stream, size_t *count))

typedef struct CuptiApi {
  void *library;
#define X(field, symbol, needed, arguments) CuptiResult(*field) arguments;
  CUPTI_FUNCTIONS(X)
#undef X
} CuptiApi;

#endif
