/* cupti: what CUDA did in this process, from CUPTI's activity records into a trace.
 *
 *     program's threads ─ call ─▶ driver ─▶ CUPTI's buffers ─ complete() ─▶ records in order ─▶ TraceWriter
 *
 * CUPTI writes records into buffers that we lend (1 MiB each) and gives a buffer back when it is full or flushed, on a
 * thread of its own or on that which flushes. So a launch costs the program what CUPTI itself costs; all else happens
 * elsewhere.
 *
 * Calls. A call of the runtime (cudaLaunchKernel) calls the driver (cuLaunchKernel) in the same thread, and both have
 * records. Only the outer one shall count. The inner record comes first, as it ends first; so a driver's record waits
 * until the next record of its thread: a runtime's that encloses it takes its place, one that does not lets it go. A
 * flush lets all go. Of the driver's many functions only those that do something are recorded, by name; of the
 * runtime's, all but those that ask and are fast.
 *
 * Clock. CUPTI takes ours (CLOCK_MONOTONIC, as the trace has it) and converts the GPU's times to it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prof/record/cupti_api.h"
#include "prof/record/cupti_find.h"
#include "prof/prof.h"

enum { BUFFER = 1 << 20, WAITING = 64, FUNCTIONS = 2048 };

typedef struct Waiting { /* a thread's driver calls of which it is not known yet whether the runtime made them */
  uint32_t thread;
  int n;
  CuptiApiRecord calls[WAITING];
} Waiting;

typedef struct Function {
  const char *name;
  TraceCallKind kind;
} Function; /* name NULL: not asked for yet */

struct CuptiSession {
  CuptiApi api;
  TraceWriter *trace;
  CuptiOptions options;
  CuptiSubscriber subscriber;
  uint32_t enabled[16];
  int enabled_count;
  /* under `lock`: */
  Arena *arena;
  Map *waiting;                     /* thread + 1 -> Waiting */
  Map *allocated;                   /* device address -> bytes */
  Map *in_use;                      /* device + 1 -> int64_t */
  Map *devices;                     /* written already */
  Function functions[2][FUNCTIONS]; /* of the driver, of the runtime */
  int64_t *paused;                  /* begin and end of each pause; the last may be open (INT64_MAX) */
  int paused_count, paused_cap;
  int64_t dropped;
  /* a thread of ours that waits for the devices, from when and until when: its calls are not the program's */
  uint32_t waiter;
  int64_t wait_from, wait_to;
};

/* CUPTI's callbacks have no argument of ours, and may come when a session is over. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CuptiSession *current;
static _Thread_local uint64_t last_launch;

uint64_t cupti_last_launch(void) { return last_launch; }

static uint64_t our_clock(void) { return (uint64_t)trace_clock(); }

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool starts(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

/* cudaMemcpyAsync_ptsz_v7000 and the like, without what tells its version and its kind of default stream. */
static size_t plain_length(const char *name) {
  size_t n = strlen(name);
  for (;;) {
    size_t m = n;
    while (m && name[m - 1] >= '0' && name[m - 1] <= '9') m--;
    if (m < n && m > 2 && !strncmp(name + m - 2, "_v", 2)) n = m - 2;
    else if (n > 5 && (!strncmp(name + n - 5, "_ptsz", 5) || !strncmp(name + n - 5, "_ptds", 5))) n -= 5;
    else return n;
  }
}

TraceCallKind cupti_call_kind(const char *name) {
  const char *s = starts(name, "cuda")     ? name + 4
                  : starts(name, "__cuda") ? name + 6
                  : starts(name, "cu")     ? name + 2
                                           : name;
  if (starts(s, "LaunchHostFunc")) return CALL_OTHER;
  if (starts(s, "Launch") || starts(s, "GraphLaunch")) return CALL_LAUNCH;
  if (starts(s, "CtxSynchronize") || starts(s, "StreamSynchronize") || starts(s, "EventSynchronize") ||
      starts(s, "DeviceSynchronize") || starts(s, "ThreadSynchronize"))
    return CALL_SYNC;
  if (starts(s, "Memcpy")) return strstr(s, "Async") ? CALL_COPY : CALL_COPY_SYNC;
  if (starts(s, "Memset")) return CALL_FILL;
  if (starts(s, "Malloc") || starts(s, "HostAlloc") || starts(s, "MemAlloc") || starts(s, "MemHostAlloc") ||
      starts(s, "MemCreate"))
    return CALL_ALLOC;
  if (starts(s, "Free") || starts(s, "MemFree") || starts(s, "MemRelease")) return CALL_FREE;
  if (starts(s, "LinkComplete") || starts(s, "LinkAdd")) return CALL_COMPILE;
  return CALL_OTHER;
}

/* Of the driver's functions: those that act. */
static bool driver_wanted(const char *name) {
  return cupti_call_kind(name) != CALL_OTHER || starts(name, "cuModuleLoad") || starts(name, "cuModuleUnload") ||
         starts(name, "cuLibraryLoad") || starts(name, "cuStreamWait") || starts(name, "cuGraphInstantiate") ||
         starts(name, "cuInit") || starts(name, "cuCtxCreate") || starts(name, "cuDevicePrimaryCtxRetain") ||
         starts(name, "cuMemMap") || starts(name, "cuMemUnmap") || starts(name, "cuMemPrefetch");
}

/* Of the runtime's: what a program asks between any two launches. */
static bool runtime_unwanted(const char *name) {
  /* clang-format off */
  static const char *const fast[] = {
      "cudaGetDevice_", "cudaSetDevice_", "cudaGetDeviceCount", "cudaGetLastError", "cudaPeekAtLastError",
      "cudaDeviceGetAttribute",
      "cudaFuncGetAttributes", "cudaFuncSetAttribute", "cudaOccupancy", "cudaStreamIsCapturing",
      "cudaStreamGetCaptureInfo",
      "cudaStreamGetPriority", "cudaThreadExchangeStreamCaptureMode", "cudaPointerGetAttributes",
      "cudaGetDriverEntryPoint",
      "cudaGetFuncBySymbol", "cudaDriverGetVersion", "cudaRuntimeGetVersion", "__cudaPushCallConfiguration",
      "__cudaPopCallConfiguration"};
  /* clang-format on */
  for (size_t i = 0; i < sizeof fast / sizeof *fast; i++)
    if (starts(name, fast[i])) return true;
  return false;
}

static const Function *function_of(CuptiSession *c, uint32_t kind, uint32_t number) {
  static const Function other = {"a function of CUDA's", CALL_OTHER};
  if (number >= FUNCTIONS) return &other;
  Function *f = &c->functions[kind == CUPTI_RUNTIME][number];
  if (!f->name) {
    const char *name = NULL;
    *f = other;
    if (!c->api.callback_name(kind == CUPTI_RUNTIME ? CUPTI_DOMAIN_RUNTIME : CUPTI_DOMAIN_DRIVER, number, &name) &&
        name) {
      f->kind = cupti_call_kind(name);
      f->name = arena_strndup(c->arena, name, plain_length(name));
      if (!f->name) f->name = other.name;
    }
  }
  return f;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static bool in_pause(const CuptiSession *c, uint64_t start) { /* the last pause that begins before it */
  int low = 0, high = c->paused_count / 2;
  while (low < high) {
    int middle = (low + high) / 2;
    if (c->paused[2 * middle] <= (int64_t)start) low = middle + 1;
    else high = middle;
  }
  return low && (int64_t)start < c->paused[2 * low - 1];
}

static void call_write(CuptiSession *c, const CuptiApiRecord *r) {
  const Function *f = function_of(c, r->kind, r->function);
  trace_event(c->trace, &(TraceEvent){.kind = TRACE_CALL,
                                      .name = trace_string(c->trace, f->name),
                                      .start = (int64_t)r->start,
                                      .end = (int64_t)r->end,
                                      .thread = r->thread,
                                      .correlation = r->correlation,
                                      .call = {f->kind, (int32_t)r->result}});
}

static void waiting_write(CuptiSession *c, Waiting *w, const CuptiApiRecord *around) {
  for (int i = 0; i < w->n; i++)
    if (!around || w->calls[i].start < around->start || w->calls[i].end > around->end) call_write(c, &w->calls[i]);
  w->n = 0;
}

static void call_read(CuptiSession *c, const CuptiApiRecord *r) {
  if (r->thread == c->waiter && (int64_t)r->start >= c->wait_from && (int64_t)r->end <= c->wait_to) return;
  if (!c->options.runtime_api || !c->options.driver_api) {
    call_write(c, r);
    return;
  }
  const void *key = (void *)(uintptr_t)(r->thread + 1ull);
  Waiting *w = map_get(c->waiting, key);
  if (!w) {
    if (!(w = NEW(c->arena, Waiting))) return;
    w->thread = r->thread;
    map_put(c->waiting, key, w);
  }
  if (r->kind == CUPTI_RUNTIME) {
    waiting_write(c, w, r);
    call_write(c, r);
    return;
  }
  if (w->n == WAITING) waiting_write(c, w, NULL);
  w->calls[w->n++] = *r;
}

static void all_waiting_write(CuptiSession *c) {
  for (int i = 0; i < map_count(c->waiting); i++) {
    const void *key;
    void *w;
    map_entry(c->waiting, i, &key, &w);
    waiting_write(c, w, NULL);
  }
}

static void kernel_read(CuptiSession *c, const CuptiKernel *r) {
  TraceEvent e = {.kind = TRACE_KERNEL,
                  .name = trace_string(c->trace, r->name),
                  .start = (int64_t)r->start,
                  .end = (int64_t)r->end,
                  .correlation = r->correlation,
                  .device = r->device,
                  .stream = r->stream,
                  .kernel = {.registers = r->registers, .shared = (uint32_t)(r->static_shared + r->dynamic_shared)}};
  if (r->graph != UINT32_MAX) e.kernel.graph = r->graph;
  for (int i = 0; i < 3; i++) e.kernel.grid[i] = (uint32_t)r->grid[i], e.kernel.block[i] = (uint32_t)r->block[i];
  trace_event(c->trace, &e);
}

static TraceCopyKind copy_kind(uint8_t kind) { /* CUpti_ActivityMemcpyKind; an array is device memory */
  /* clang-format off */
  static const TraceCopyKind kinds[] = {COPY_UNKNOWN, COPY_HOST_TO_DEVICE, COPY_DEVICE_TO_HOST, COPY_HOST_TO_DEVICE,
    COPY_DEVICE_TO_HOST, COPY_DEVICE_TO_DEVICE,
                                        COPY_DEVICE_TO_DEVICE, COPY_DEVICE_TO_DEVICE, COPY_DEVICE_TO_DEVICE,
                                          COPY_HOST_TO_HOST, COPY_PEER};
  /* clang-format on */
  return kind < sizeof kinds / sizeof *kinds ? kinds[kind] : COPY_UNKNOWN;
}

static void copy_read(CuptiSession *c, const CuptiCopy *r, uint32_t correlation) {
  trace_event(c->trace,
              &(TraceEvent){.kind = TRACE_COPY,
                            .start = (int64_t)r->start,
                            .end = (int64_t)r->end,
                            .correlation = correlation,
                            .device = r->device,
                            .stream = r->stream,
                            .copy = {copy_kind(r->copy_kind), r->from == CUPTI_PAGEABLE || r->to == CUPTI_PAGEABLE,
                                     (int64_t)r->bytes}});
}

static void memory_read(CuptiSession *c, const CuptiMemory *r) {
  bool on_device =
      r->memory_kind == CUPTI_DEVICE_MEMORY || r->memory_kind == CUPTI_ARRAY || r->memory_kind == CUPTI_MANAGED;
  if (!on_device && r->memory_kind != CUPTI_PINNED) return;
  const void *key = (void *)(uintptr_t)r->address, *device = (void *)(uintptr_t)(r->device + 1ull);
  int64_t bytes = (int64_t)r->bytes, in_use = -1;
  if (r->operation == CUPTI_ALLOCATION) map_put(c->allocated, key, (void *)(uintptr_t)bytes);
  else {
    int64_t was = (int64_t)(uintptr_t)map_get(c->allocated, key); /* 0: allocated before we looked */
    bytes = -(was ? was : bytes);
    map_put(c->allocated, key, NULL);
  }
  if (on_device) {
    in_use = (int64_t)(intptr_t)map_get(c->in_use, device) + bytes;
    if (in_use < 0) in_use = 0;
    map_put(c->in_use, device, (void *)(intptr_t)in_use);
  }
  trace_event(c->trace, &(TraceEvent){.kind = TRACE_MEMORY,
                                      .start = (int64_t)r->time,
                                      .end = (int64_t)r->time,
                                      .device = r->device,
                                      .correlation = r->correlation,
                                      .memory = {r->address, bytes, in_use, !on_device}});
}

/* fp32 lanes of a multiprocessor: CUDA's programming guide, table of arithmetic instructions. */
static int fp32_lanes(uint32_t major, uint32_t minor) {
  if (major >= 9 || (major == 8 && minor >= 6) || major == 5 || (major == 6 && minor)) return 128;
  return major >= 6 ? 64 : 0;
}

static void device_read(CuptiSession *c, const CuptiDevice *r) {
  const void *key = (void *)(uintptr_t)(r->id + 1ull);
  if (map_has(c->devices, key)) return;
  map_put(c->devices, key, c);
  int64_t now = trace_clock();
  trace_event(c->trace, &(TraceEvent){.kind = TRACE_DEVICE,
                                      .name = trace_string(c->trace, r->name),
                                      .start = now,
                                      .end = now,
                                      .device = r->id,
                                      .device_ = {.sm = (int)(r->major * 10 + r->minor),
                                                  .multiprocessors = (int)r->multiprocessors,
                                                  .bandwidth = (double)r->bandwidth * 1e3,
                                                  .flops = 2e3 * r->clock_khz * r->multiprocessors *
                                                           fp32_lanes(r->major, r->minor),
                                                  .memory = (int64_t)r->memory}});
}

static void record_read(CuptiSession *c, const CuptiRecord *r) {
  const CuptiApiRecord *call = (const void *)r;
  const CuptiKernel *kernel = (const void *)r;
  const CuptiCopy *copy = (const void *)r; /* its times are where a fill's are */
  const CuptiFill *fill = (const void *)r;
  switch (r->kind) {
    case CUPTI_DRIVER:
    case CUPTI_RUNTIME:
      if (!in_pause(c, call->start)) call_read(c, call);
      break;
    case CUPTI_KERNEL:
    case CUPTI_CONCURRENT_KERNEL:
      /* 0: it has not run, or its times were lost */
      if (kernel->start && !in_pause(c, kernel->start)) kernel_read(c, kernel);
      break;
    case CUPTI_MEMCPY:
      if (copy->start && !in_pause(c, copy->start)) copy_read(c, copy, copy->correlation);
      break;
    case CUPTI_MEMCPY2:
      if (copy->start && !in_pause(c, copy->start))
        copy_read(c, copy, ((const CuptiPeerCopy *)(const void *)r)->correlation);
      break;
    case CUPTI_MEMSET:
      if (fill->start && !in_pause(c, fill->start))
        trace_event(c->trace, &(TraceEvent){.kind = TRACE_FILL,
                                            .start = (int64_t)fill->start,
                                            .end = (int64_t)fill->end,
                                            .correlation = fill->correlation,
                                            .device = fill->device,
                                            .stream = fill->stream,
                                            .fill.bytes = (int64_t)fill->bytes});
      break;
    case CUPTI_MEMORY2: memory_read(c, (const void *)r); break; /* in a pause as well: what is in use is a sum */
    case CUPTI_DEVICE: device_read(c, (const void *)r); break;
  }
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

static void buffer_request(uint8_t **buffer, size_t *size, size_t *most_records) {
  *buffer = aligned_alloc(64, BUFFER);
  *size = *buffer ? BUFFER : 0;
  *most_records = 0;
}

static void buffer_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  pthread_mutex_lock(&lock);
  CuptiSession *c = current;
  if (c) {
    CuptiRecord *r = NULL;
    while (valid && !c->api.next_record(buffer, valid, &r)) record_read(c, r);
    size_t dropped = 0;
    if (!c->api.dropped(context, stream, &dropped)) c->dropped += (int64_t)dropped;
  }
  pthread_mutex_unlock(&lock);
  free(buffer);
}

static void on_call(void *data, uint32_t domain, uint32_t function, const CuptiCall *call) {
  if (call && !call->site) last_launch = call->correlation;
}

/* ---- a session --------------------------------------------------------------------------------------------------- */

static void tell(TraceWriter *w, const char *text) {
  int64_t now = trace_clock();
  trace_event(w, &(TraceEvent){.kind = TRACE_NOTE, .name = trace_string(w, text), .start = now, .end = now});
}

static const char *result_text(const CuptiApi *api, CuptiResult r) {
  const char *text = NULL;
  return !api->result_string(r, &text) && text ? text : "unknown error";
}

static bool enable(CuptiSession *c, uint32_t kind, const char *what) {
  CuptiResult r = c->api.enable(kind);
  if (!r) {
    c->enabled[c->enabled_count++] = kind;
    return true;
  }
  char text[300];
  snprintf(text, sizeof text, "CUPTI does not record %s here: %s", what, result_text(&c->api, r));
  tell(c->trace, text);
  return false;
}

/* Calls f for each function of a domain that has a name. */
static void each_function(CuptiSession *c, uint32_t domain,
                          void (*f)(CuptiSession *c, uint32_t number, const char *name)) {
  for (uint32_t i = 1; i < FUNCTIONS; i++) {
    const char *name = NULL;
    if (c->api.callback_name(domain, i, &name)) break; /* past the last */
    if (name) f(c, i, name);
  }
}
static void skip_fast(CuptiSession *c, uint32_t number, const char *name) {
  if (runtime_unwanted(name)) c->api.enable_runtime(number, 0);
}
static void take_acting(CuptiSession *c, uint32_t number, const char *name) {
  if (driver_wanted(name)) c->api.enable_driver(number, 1);
}
static void leave_acting(CuptiSession *c, uint32_t number, const char *name) {
  if (driver_wanted(name)) c->api.enable_driver(number, 0);
}
static void watch_launch(CuptiSession *c, uint32_t number, const char *name) {
  if (cupti_call_kind(name) == CALL_LAUNCH) c->api.callback_enable(1, c->subscriber, CUPTI_DOMAIN_DRIVER, number);
}

static void session_free(CuptiSession *c) {
  if (!c) return;
  if (c->arena) arena_destroy(c->arena);
  free(c->paused);
  free(c);
}

CuptiSession *cupti_start(TraceWriter *w, const CuptiOptions *o, char why[500]) {
  pthread_mutex_lock(&lock);
  bool busy = current != NULL;
  pthread_mutex_unlock(&lock);
  if (busy) return snprintf(why, 500, "this process records CUDA already: end that session first"), NULL;
  CuptiSession *c = calloc(1, sizeof *c);
  if (c && (c->arena = arena_create(NULL))) {
    c->waiting = map_create(c->arena, false), c->allocated = map_create(c->arena, false);
    c->in_use = map_create(c->arena, false), c->devices = map_create(c->arena, false);
  }
  if (!c || !c->devices) return session_free(c), snprintf(why, 500, "out of memory"), NULL;
  c->trace = w, c->options = *o;
  if (!cupti_open(&c->api, &c->subscriber, on_call, why)) return session_free(c), NULL;

  c->api.register_clock(our_clock);
  c->api.set_thread_id(CUPTI_THREAD_ID_SYSTEM);
  pthread_mutex_lock(&lock);
  current = c;
  pthread_mutex_unlock(&lock);
  CuptiResult r = c->api.register_buffers(buffer_request, buffer_complete);
  const char *failed = r ? result_text(&c->api, r) : NULL;
  if (!failed && !enable(c, CUPTI_CONCURRENT_KERNEL, "kernels")) failed = "it does not record kernels here";
  if (failed) {
    snprintf(why, 500, "CUPTI cannot record: %s", failed);
    cupti_stop(c);
    return NULL;
  }
  enable(c, CUPTI_MEMCPY, "copies");
  enable(c, CUPTI_MEMCPY2, "copies between devices");
  enable(c, CUPTI_MEMSET, "fills");
  enable(c, CUPTI_DEVICE, "devices");
  if (o->memory) enable(c, CUPTI_MEMORY2, "allocations");
  if (o->runtime_api && enable(c, CUPTI_RUNTIME, "calls of the runtime") && c->api.enable_runtime)
    each_function(c, CUPTI_DOMAIN_RUNTIME, skip_fast);
  if (o->driver_api && c->api.enable_driver) each_function(c, CUPTI_DOMAIN_DRIVER, take_acting);
  else if (o->driver_api) enable(c, CUPTI_DRIVER, "calls of the driver");
  if (o->own_launches) each_function(c, CUPTI_DOMAIN_DRIVER, watch_launch);
  return c;
}

void cupti_pause(CuptiSession *c, bool paused) {
  pthread_mutex_lock(&lock);
  bool is_paused = c->paused_count && c->paused[c->paused_count - 1] == INT64_MAX;
  if (is_paused && !paused) c->paused[c->paused_count - 1] = trace_clock();
  if (!is_paused && paused) {
    if (c->paused_count + 2 > c->paused_cap) {
      int cap = c->paused_cap ? c->paused_cap * 2 : 16;
      int64_t *more = realloc(c->paused, (size_t)cap * sizeof *more);
      if (more) c->paused = more, c->paused_cap = cap;
    }
    if (c->paused_count + 2 <= c->paused_cap)
      c->paused[c->paused_count++] = trace_clock(), c->paused[c->paused_count++] = INT64_MAX;
  }
  pthread_mutex_unlock(&lock);
}

void cupti_abandon(CuptiSession *c) {
  if (!c) return;
  lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* perhaps held by a thread that this process does not have */
  current = NULL;
}

void cupti_poll(CuptiSession *c) { c->api.flush(0); }

void cupti_flush(CuptiSession *c) {
  int64_t from = trace_clock();
  cupti_wait_for_devices();
  pthread_mutex_lock(&lock);
  c->waiter = (uint32_t)syscall(SYS_gettid), c->wait_from = from, c->wait_to = trace_clock();
  pthread_mutex_unlock(&lock);
  c->api.flush(CUPTI_FLUSH_FORCED);
  pthread_mutex_lock(&lock);
  all_waiting_write(c);
  pthread_mutex_unlock(&lock);
}

void cupti_stop(CuptiSession *c) {
  if (!c) return;
  cupti_flush(c);
  if (c->options.driver_api && c->api.enable_driver) each_function(c, CUPTI_DOMAIN_DRIVER, leave_acting);
  for (int i = 0; i < c->enabled_count; i++) c->api.disable(c->enabled[i]);
  c->api.flush(CUPTI_FLUSH_FORCED); /* what was under way in other threads */
  c->api.unsubscribe(c->subscriber);
  pthread_mutex_lock(&lock);
  all_waiting_write(c);
  if (c->dropped) {
    int64_t now = trace_clock();
    uint32_t what = trace_string(c->trace, "records that CUPTI had no buffer for");
    trace_event(c->trace,
                &(TraceEvent){.kind = TRACE_LOST, .name = what, .start = now, .end = now, .lost.count = c->dropped});
  }
  current = NULL;
  pthread_mutex_unlock(&lock);
  session_free(c);
}
