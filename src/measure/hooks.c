/* hooks: what measuring does for the runtime, and for rt (runtime/hooks.h and rt/hooks.h say what each is). */
#include "measure/prof.h"
#include "measure/tune.h"
#include "runtime/instrument.h"

static void module_closes(nereid_module *m) {
  prof_work_clear();
  tuning_cache_free(m);
}

const MeasureHooks measure_hooks = {
    .find_configuration = autotune_find,
    .found_free = found_free,
    .zero_arrays = autotune_zero,
    .module_closes = module_closes,
    .compiled = prof_compiled,
};

const RtHooks rt_hooks = {
    .now = trace_clock,
    .called = prof_call,
    .memory = prof_memory,
    .cuda_opened = prof_cuda_opened,
    .cuda_closed = prof_cuda_closed,
    .launch = prof_launch,
    .record = instrument_host_record,
    .cpu_compiler = cpu_compiler_name,
};
