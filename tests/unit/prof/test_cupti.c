/* What is made of CUPTI's records, in the layouts of two versions (fakes/cupti.c), and of a CUPTI that is missing, too
 * old or taken. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "prof/record/cupti_api.h"
#include "prof/prof.h"

#include "fakes/cupti.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static FakeCupti *fake;
static void (*reset)(void), (*deliver)(void), (*record)(const void *, size_t), (*launch)(uint32_t, uint32_t);
static char path[64];
static TraceWriter *w;
static const CuptiOptions everything = {.runtime_api = true, .driver_api = true, .memory = true, .own_launches = true};

static int fresh(void **state) {
  reset();
  setenv("NEREID_CUPTI", FAKE_CUPTI, 1);
  strcpy(path, "/tmp/nereid-cupti-XXXXXX");
  close(mkstemp(path));
  w = trace_create(path, "prog");
  return w ? 0 : 1;
}
static int clean(void **state) { return unlink(path); }

static CuptiSession *start(const CuptiOptions *o) {
  char why[500] = "";
  CuptiSession *c = cupti_start(w, o, why);
  if (!c) fail_msg("%s", why);
  return c;
}

/* The trace's events of a kind, as "name ..." lines. */
static TraceEvent events[256];
static char names[256][128];
static int read_back(TraceKind kind) {
  trace_close(w, NULL);
  const char *why = NULL;
  char buffer[300];
  TraceReader *r = trace_open(path, &why, buffer);
  assert_non_null(r);
  int n = 0;
  TraceEvent e;
  while (trace_next(r, &e))
    if (e.kind == kind && n < 256) snprintf(names[n], sizeof names[0], "%s", trace_text(r, e.name)), events[n++] = e;
  trace_reader_free(r);
  return n;
}

#define SEND(T, ...) record(&(T)__VA_ARGS__, sizeof(T))
static void call(uint32_t kind, uint32_t function, uint32_t thread, uint64_t from, uint64_t to, uint32_t correlation) {
  SEND(CuptiApiRecord,
       {.kind = kind, .function = function, .thread = thread, .start = from, .end = to, .correlation = correlation});
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static void kernels_and_copies(uint32_t version) {
  fake->version = version;
  CuptiSession *c = start(&everything);
  assert_ptr_equal(fake->clock() > 0, 1);
  assert_int_equal(fake->thread_ids, CUPTI_THREAD_ID_SYSTEM);
  SEND(CuptiKernel, {.kind = CUPTI_CONCURRENT_KERNEL,
                     .registers = 40,
                     .start = 1000,
                     .end = 3000,
                     .device = 1,
                     .stream = 7,
                     .grid = {2, 3, 4},
                     .block = {128, 1, 1},
                     .static_shared = 16,
                     .dynamic_shared = 32,
                     .correlation = 9,
                     .name = "_Z3addPf",
                     .graph = 5});
  SEND(CuptiKernel, {.kind = CUPTI_CONCURRENT_KERNEL, .correlation = 10, .name = "not run"});
  SEND(CuptiCopy, {.kind = CUPTI_MEMCPY,
                   .copy_kind = 2,
                   .from = CUPTI_DEVICE_MEMORY,
                   .to = CUPTI_PAGEABLE,
                   .bytes = 64,
                   .start = 4000,
                   .end = 4100,
                   .stream = 13,
                   .correlation = 11});
  SEND(CuptiPeerCopy, {.kind = CUPTI_MEMCPY2,
                       .copy_kind = 10,
                       .from = CUPTI_DEVICE_MEMORY,
                       .to = CUPTI_DEVICE_MEMORY,
                       .bytes = 65,
                       .start = 5000,
                       .end = 5100,
                       .correlation = 12});
  SEND(CuptiFill, {.kind = CUPTI_MEMSET, .bytes = 66, .start = 6000, .end = 6100, .device = 1, .correlation = 13});
  SEND(CuptiDevice, {.kind = CUPTI_DEVICE,
                     .bandwidth = 4800000000ull,
                     .memory = 1ull << 37,
                     .clock_khz = 1980000,
                     .multiprocessors = 132,
                     .major = 9,
                     .id = 1,
                     .name = "NVIDIA H200"});
  SEND(CuptiDevice, {.kind = CUPTI_DEVICE, .major = 9, .id = 1, .name = "NVIDIA H200"}); /* once is enough */
  record(&(CuptiRecord){60}, sizeof(CuptiRecord));                                       /* a kind of the future */
  cupti_stop(c);
  assert_int_equal(read_back(TRACE_KERNEL), 1);
  assert_string_equal(names[0], "_Z3addPf");
  const TraceEvent *e = &events[0];
  assert_true(e->start == 1000 && e->end == 3000 && e->correlation == 9 && e->device == 1 && e->stream == 7);
  assert_true(e->kernel.grid[0] == 2 && e->kernel.grid[2] == 4 && e->kernel.block[0] == 128 &&
              e->kernel.registers == 40 && e->kernel.shared == 48 && e->kernel.graph == 5);
}
static void kernels_12(void **state) { kernels_and_copies(18); }
static void kernels_13(void **state) { kernels_and_copies(130001); }
static void copies(void **state) {
  kernels_and_copies(28);
  w = NULL;
  assert_int_equal(read_back(TRACE_COPY), 2);
  assert_true(events[0].copy.kind == COPY_DEVICE_TO_HOST && events[0].copy.pageable && events[0].copy.bytes == 64 &&
              events[0].correlation == 11 && events[0].stream == 13);
  assert_true(events[1].copy.kind == COPY_PEER && !events[1].copy.pageable && events[1].correlation == 12);
  assert_int_equal(read_back(TRACE_FILL), 1);
  assert_true(events[0].fill.bytes == 66 && events[0].correlation == 13 && events[0].device == 1);
  assert_int_equal(read_back(TRACE_DEVICE), 1);
  assert_string_equal(names[0], "NVIDIA H200");
  assert_true(events[0].device_.sm == 90 && events[0].device_.multiprocessors == 132 &&
              events[0].device_.bandwidth == 4.8e12);
  assert_true(events[0].device_.flops > 66.8e12 && events[0].device_.flops < 67e12);
}

/* A driver's call inside of a runtime's is not told; others are. */
static void calls_once(void **state) {
  CuptiSession *c = start(&everything);
  call(CUPTI_DRIVER, 3, 1, 110, 190, 1);  /* cuLaunchKernel in */
  call(CUPTI_DRIVER, 3, 2, 120, 150, 2);  /* another thread, alone */
  call(CUPTI_RUNTIME, 2, 1, 100, 200, 1); /* cudaLaunchKernel */
  call(CUPTI_DRIVER, 3, 1, 300, 400, 3);  /* alone: Triton launches so */
  call(CUPTI_DRIVER, 5, 1, 500, 600, 4);  /* cuMemcpyHtoD */
  deliver();                              /* what is inside may be told in another buffer than what is around it */
  call(CUPTI_DRIVER, 8, 1, 710, 720, 5);
  deliver();
  call(CUPTI_RUNTIME, 5, 1, 700, 800, 5); /* cudaMalloc */
  cupti_stop(c);
  int n = read_back(TRACE_CALL);
  assert_int_equal(n, 5);
  static const struct {
    const char *name;
    uint32_t thread;
    int64_t start;
    TraceCallKind kind;
  } wanted[] = {{"cudaLaunchKernel", 1, 100, CALL_LAUNCH},
                {"cuLaunchKernel", 1, 300, CALL_LAUNCH},
                {"cuMemcpyHtoD", 1, 500, CALL_COPY_SYNC},
                {"cudaMalloc", 1, 700, CALL_ALLOC},
                {"cuLaunchKernel", 2, 120, CALL_LAUNCH}};
  for (int i = 0; i < 5; i++) {
    assert_string_equal(names[i], wanted[i].name);
    assert_int_equal(events[i].thread, wanted[i].thread);
    assert_int_equal(events[i].start, wanted[i].start);
    assert_int_equal(events[i].call.kind, wanted[i].kind);
  }
}

static void many_driver_calls(void **state) { /* more than wait at once */
  CuptiSession *c = start(&everything);
  for (uint32_t i = 0; i < 200; i++) call(CUPTI_DRIVER, 3, 1, 10 * i, 10 * i + 5, i);
  cupti_stop(c);
  assert_int_equal(read_back(TRACE_CALL), 200);
}

static void kinds_of_calls(void **state) {
  static const struct {
    const char *name;
    TraceCallKind kind;
  } all[] = {{"cudaLaunchKernel_v7000", CALL_LAUNCH},
             {"cudaLaunchKernelExC_v11060", CALL_LAUNCH},
             {"__cudaLaunchKernel_v13000", CALL_LAUNCH},
             {"cuLaunchKernelEx", CALL_LAUNCH},
             {"cudaGraphLaunch_v10000", CALL_LAUNCH},
             {"cuLaunchHostFunc", CALL_OTHER},
             {"cudaLaunchHostFunc_v10000", CALL_OTHER},
             {"cudaMemcpy_v3020", CALL_COPY_SYNC},
             {"cudaMemcpyAsync_v3020", CALL_COPY},
             {"cuMemcpyDtoHAsync_v2", CALL_COPY},
             {"cuMemcpyDtoH_v2", CALL_COPY_SYNC},
             {"cudaMemsetAsync_v3020", CALL_FILL},
             {"cuMemsetD8Async", CALL_FILL},
             {"cudaStreamSynchronize_v3020", CALL_SYNC},
             {"cuCtxSynchronize", CALL_SYNC},
             {"cudaEventSynchronize_v3020", CALL_SYNC},
             {"cudaDeviceSynchronize_v3020", CALL_SYNC},
             {"cudaStreamWaitEvent_v3020", CALL_OTHER},
             {"cudaMalloc_v3020", CALL_ALLOC},
             {"cudaMallocAsync_v11020", CALL_ALLOC},
             {"cuMemAlloc_v2", CALL_ALLOC},
             {"cudaHostAlloc_v3020", CALL_ALLOC},
             {"cudaFree_v3020", CALL_FREE},
             {"cuMemFree_v2", CALL_FREE},
             {"cudaFreeHost_v3020", CALL_FREE},
             {"cudaEventRecord_v3020", CALL_OTHER},
             {"cuLinkComplete", CALL_COMPILE},
             {"", CALL_OTHER}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (cupti_call_kind(all[i].name) != all[i].kind) fail_msg("%s", all[i].name);
  trace_close(w, NULL);
}

/* What is asked of CUPTI: functions that act, not those that ask. */
static void asked_for(void **state) {
  CuptiSession *c = start(&everything);
  assert_true(fake->driver[3] && fake->driver[4] && fake->driver[5] && fake->driver[6] && fake->driver[8]);
  assert_false(fake->driver[2] || fake->driver[7] || fake->driver[9]);
  assert_true(!fake->runtime[1] && fake->runtime[2] && fake->runtime[7] && fake->runtime[10]);
  assert_true(fake->callbacks[3] && fake->callbacks[4] && !fake->callbacks[5]);
  cupti_stop(c);
  assert_int_equal(fake->kinds, 0);
  assert_int_equal(fake->subscribers, 0);
  for (int i = 0; i < 1024; i++) assert_false(fake->driver[i]);
  c = start(&(CuptiOptions){0});
  assert_false(fake->kinds >> CUPTI_RUNTIME & 1 || fake->kinds >> CUPTI_MEMORY2 & 1 || fake->driver[3] ||
               fake->callbacks[3]);
  assert_true(fake->kinds >> CUPTI_CONCURRENT_KERNEL & 1);
  cupti_stop(c);
  trace_close(w, NULL);
}

static void last_launch(void **state) {
  CuptiSession *c = start(&everything);
  launch(3, 77);
  assert_int_equal(cupti_last_launch(), 77);
  launch(5, 78); /* no launch */
  assert_int_equal(cupti_last_launch(), 77);
  cupti_stop(c);
  trace_close(w, NULL);
}

static void allocations(void **state) {
  CuptiSession *c = start(&everything);
  SEND(CuptiMemory, {.kind = CUPTI_MEMORY2,
                     .operation = CUPTI_ALLOCATION,
                     .memory_kind = CUPTI_DEVICE_MEMORY,
                     .address = 0x1000,
                     .bytes = 100,
                     .time = 1});
  SEND(CuptiMemory, {.kind = CUPTI_MEMORY2,
                     .operation = CUPTI_ALLOCATION,
                     .memory_kind = CUPTI_DEVICE_MEMORY,
                     .address = 0x2000,
                     .bytes = 50,
                     .time = 2});
  SEND(CuptiMemory, {.kind = CUPTI_MEMORY2,
                     .operation = CUPTI_ALLOCATION,
                     .memory_kind = CUPTI_DEVICE_MEMORY,
                     .address = 0x2000,
                     .bytes = 7,
                     .time = 3,
                     .device = 1});
  SEND(CuptiMemory, {.kind = CUPTI_MEMORY2,
                     .operation = CUPTI_ALLOCATION,
                     .memory_kind = CUPTI_PINNED,
                     .address = 0x7000,
                     .bytes = 9,
                     .time = 4});
  SEND(CuptiMemory, {.kind = CUPTI_MEMORY2,
                     .operation = CUPTI_RELEASE,
                     .memory_kind = CUPTI_DEVICE_MEMORY,
                     .address = 0x1000,
                     .bytes = 0,
                     .time = 5});
  /* allocated before we looked */
  SEND(CuptiMemory, {.kind = CUPTI_MEMORY2,
                     .operation = CUPTI_RELEASE,
                     .memory_kind = CUPTI_DEVICE_MEMORY,
                     .address = 0x9000,
                     .bytes = 1000,
                     .time = 6});
  SEND(CuptiMemory, {.kind = CUPTI_MEMORY2,
                     .operation = CUPTI_ALLOCATION,
                     .memory_kind = CUPTI_PAGEABLE,
                     .address = 0x1,
                     .bytes = 1,
                     .time = 7});
  cupti_stop(c);
  assert_int_equal(read_back(TRACE_MEMORY), 6);
  static const int64_t bytes[] = {100, 50, 7, 9, -100, -1000}, in_use[] = {100, 150, 7, -1, 50, 0};
  for (int i = 0; i < 6; i++) {
    assert_int_equal(events[i].memory.bytes, bytes[i]);
    assert_int_equal(events[i].memory.in_use, in_use[i]);
    assert_int_equal(events[i].memory.pinned_host, i == 3);
  }
}

static void paused(void **state) {
  CuptiSession *c = start(&everything);
  int64_t times[4];
  for (int i = 0; i < 4; i++) {
    cupti_pause(c, i % 2 == 1);
    cupti_pause(c, i % 2 == 1); /* twice is once */
    usleep(1000);
    times[i] = trace_clock(); /* after this pause and before the next, however long the processor is away */
    usleep(1000);
  }
  for (int i = 0; i < 4; i++) {
    uint64_t t = (uint64_t)times[i];
    call(CUPTI_RUNTIME, 2, 1, t, t + 1, (uint32_t)i);
    SEND(CuptiKernel,
         {.kind = CUPTI_CONCURRENT_KERNEL, .start = t, .end = t + 1, .name = "k", .correlation = (uint32_t)i});
  }
  cupti_stop(c);
  assert_int_equal(read_back(TRACE_CALL), 2);
  assert_true(events[0].correlation == 0 && events[1].correlation == 2);
  w = NULL;
  assert_int_equal(read_back(TRACE_KERNEL), 2);
}

static void more_than_a_buffer(void **state) {
  CuptiSession *c = start(&everything);
  for (int i = 0; i < 20000; i++)
    SEND(CuptiKernel, {.kind = CUPTI_CONCURRENT_KERNEL, .start = 1, .end = 2, .name = "k"});
  cupti_poll(c);
  cupti_flush(c);
  assert_true(fake->flushes == 2 && fake->forced_flushes == 1);
  fake->dropped = 17;
  SEND(CuptiFill, {.kind = CUPTI_MEMSET, .start = 1, .end = 1});
  cupti_stop(c);
  assert_int_equal(read_back(TRACE_LOST), 1);
  assert_int_equal(events[0].lost.count, 17);
  assert_non_null(strstr(names[0], "CUPTI"));
}

static void late_buffer(void **state) { /* CUPTI may give one back after the end */
  CuptiSession *c = start(&everything);
  cupti_stop(c);
  SEND(CuptiFill, {.kind = CUPTI_MEMSET, .start = 1, .end = 1});
  deliver();
  assert_int_equal(read_back(TRACE_FILL), 0);
}

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */

static void says(const char *wanted) {
  char why[500] = "";
  CuptiSession *c = cupti_start(w, &everything, why);
  assert_null(c);
  if (!strstr(why, wanted)) fail_msg("'%s' is not in '%s'", wanted, why);
}

static void refusals(void **state) {
  fake->subscribe_result = CUPTI_MULTIPLE_SUBSCRIBERS;
  says("another profiler is attached to this process");
  fake->subscribe_result = 999;
  says("does not start");
  fake->subscribe_result = 0;
  fake->version = 12;
  says("CUPTI's version 12, which is too old: CUDA 11.6 or later is needed");
  fake->version = 18;
  setenv("NEREID_CUPTI", "/nonexistent/libcupti.so", 1);
  says("NEREID_CUPTI names a library that does not open: /nonexistent/libcupti.so");
  setenv("NEREID_CUPTI", "libm.so.6", 1);
  says("libm.so.6 is not a CUPTI that nereid can use: it has no cuptiGetVersion");
  setenv("NEREID_CUPTI", FAKE_CUPTI, 1);
  fake->failing_kind = CUPTI_CONCURRENT_KERNEL;
  says("CUPTI cannot record");
  assert_int_equal(fake->subscribers, 0);
  fake->failing_kind = 0;
  CuptiSession *c = start(&everything);
  says("this process records CUDA already");
  cupti_stop(c);
  trace_close(w, NULL);
}

static void one_kind_missing(void **state) {
  fake->failing_kind = CUPTI_MEMORY2;
  cupti_stop(start(&everything));
  assert_int_equal(read_back(TRACE_NOTE), 1);
  assert_string_equal(names[0], "CUPTI does not record allocations here: CUPTI_ERROR_NOT_SUPPORTED");
}

int main(void) {
  void *lib = dlopen(FAKE_CUPTI, RTLD_NOW);
  if (!lib) return fprintf(stderr, "%s\n", dlerror()), 1;
  fake = ((FakeCupti * (*)(void)) dlsym(lib, "fake_cupti"))();
  *(void **)&reset = dlsym(lib, "fake_cupti_reset");
  *(void **)&deliver = dlsym(lib, "fake_cupti_deliver");
  *(void **)&record = dlsym(lib, "fake_cupti_record");
  *(void **)&launch = dlsym(lib, "fake_cupti_launch");
#define T(f) cmocka_unit_test_setup_teardown(f, fresh, clean)
  const struct CMUnitTest tests[] = {
      T(kernels_12),         T(kernels_13),  T(copies),      T(calls_once),      T(many_driver_calls),
      T(kinds_of_calls),     T(asked_for),   T(last_launch), T(allocations),     T(paused),
      T(more_than_a_buffer), T(late_buffer), T(refusals),    T(one_kind_missing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
