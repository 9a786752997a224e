/* hooks: what measuring does for the runtime (runtime/hooks.h says what each is). */
#include "measure/prof.h"
#include "measure/tune.h"

static void module_closes(nereid_module *m) {
  prof_work_clear();
  tuning_cache_free(m);
}

const MeasureHooks measure_hooks = {
    .find_configuration = autotune_find,
    .found_free = found_free,
    .zero_arrays = autotune_zero,
    .module_closes = module_closes,
    .called = prof_call,
    .compiled = prof_compiled,
    .memory = prof_memory,
    .cuda_opened = prof_cuda_opened,
    .cuda_closed = prof_cuda_closed,
    .launch = prof_launch,
};
