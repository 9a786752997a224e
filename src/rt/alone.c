/* What stands above rt, where nothing does: libnereid-rt has two kinds of devices, no profiler and no compiler. */
#include "rt/hooks.h"

const DeviceKind *const device_kinds[] = {&device_cpu, &device_cuda, NULL};
const char device_kinds_hint[] = "there are cpu, cpu:THREADS and cuda:N; interp and sim are of libnereid";
atomic_int prof_sessions;

static int64_t now(void) { return clock_ns(); }
static void called(int64_t start, const char *name, TraceCallKind kind, nereid_status result) {}
static void memory(const nereid_device *d, const void *at, int64_t bytes) {}
static void nothing(void) {}

static nereid_status launch(const ProfCall *c, nereid_device *d, const Launch *l, nereid_error **error) {
  return d->kind->launch(d, l, error);
}

static bool cpu_compiler(char *out, size_t size) {
  snprintf(out, size, "runs code that was built ahead of time");
  return true;
}

const RtHooks rt_hooks = {.now = now,
                          .called = called,
                          .memory = memory,
                          .cuda_opened = nothing,
                          .cuda_closed = nothing,
                          .launch = launch,
                          .cpu_compiler = cpu_compiler};
