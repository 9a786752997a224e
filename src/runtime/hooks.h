/* hooks: what the runtime tells measuring, and asks of it. src/measure stands above src/runtime, so a launch knows
 * profiling and tuning by this one table; measure/hooks.c fills it. Private to src/runtime and src/measure.
 *
 *     launch.c ──find_configuration──▶ a configuration kept by nereid_tune or autotune, or one that is measured now

 * What the lower half of the runtime tells stands in rt/hooks.h.
 */
#ifndef NEREID_RUNTIME_HOOKS_H
#define NEREID_RUNTIME_HOOKS_H

#include "rt/hooks.h"
#include "runtime/runtime.h"

/* A configuration, kept as text, a line each: "BLOCK=128\nnum_warps=4\n"; chosen points into the others. */
typedef struct Found {
  Buf text;
  Chosen chosen;
  const char **lists;
} Found;

/* Stays within launch.c: autotune would have to measure, but the launch has no programs. */
#define NOTHING_TO_MEASURE ((nereid_status)100)

typedef struct MeasureHooks {
  /* Before a compilation: c->chosen gets what was found for such a call, by `nereid tune` or autotune; `found` must
   * live as long as that. Where autotune has to measure, and `measures`, it does, and *made is the winner, compiled.
   * grid: of the launch, or NULL. */
  nereid_status (*find_configuration)(nereid_device *d, nereid_module *m, Call *c, const nereid_options *o,
                                      const int64_t grid[3], bool measures, Found *found, Specialization **made,
                                      nereid_error **error);
  void (*found_free)(Found *f);
  /* Zeroes what the configuration's pre_hook zeroes. */
  nereid_status (*zero_arrays)(nereid_device *d, void *stream, const Call *c, const Specialization *s,
                               nereid_error **error);
  void (*module_closes)(nereid_module *m); /* what is kept of it goes */

  void (*compiled)(int64_t start, const char *kernel, nereid_status result);
} MeasureHooks;
extern const MeasureHooks measure_hooks;

#endif
