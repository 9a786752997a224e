/* Launches: nereid_launch, and nereid_compile with nereid_run, which is the same with the search done before. */
#include <limits.h>
#include <stdlib.h>

#include "runtime/hooks.h"

enum { PLAN_SLOTS = 64 };

/* ---- finding the specialization ---------------------------------------------------------------------------------- */

typedef struct Make {
  nereid_module *module;
  const Call *call;
  nereid_device *device;
  const nereid_options *options;
  const int64_t *grid;
} Make;

static Specialization *make(void *arg, nereid_error **error) {
  const Make *m = arg;
  int64_t start = prof_begin();
  Specialization *s = NULL;
  Call c = *m->call; /* c.chosen is ours, the rest the caller's */
  Found found = {0};
  nereid_status status =
      measure_hooks.find_configuration(m->device, m->module, &c, m->options, m->grid,
                                       m->grid || call_tunes(m->device, m->options) == TUNES_ANY, &found, &s, error);
  if (!status && !s) s = specialization_create(m->module, &c, m->device, m->options, error);
  measure_hooks.found_free(&found);
  if (start) measure_hooks.compiled(start, m->call->kernel->info.name, s ? NEREID_OK : NEREID_INTERNAL);
  return s;
}

/* grid: of the launch that may be measured; NULL: options->grid, or nothing is. */
static nereid_status find_specialization(nereid_device *d, nereid_module *m, const Call *c, const nereid_options *o,
                                         const int64_t grid[3], Specialization **out, nereid_error **error) {
  nereid_error *why = NULL;
  *out = cache_get(m->cache, c->hash, c->key, c->key_size, make, &(Make){m, c, d, o, grid}, &why);
  if (*out) return NEREID_OK;
  nereid_status status = nereid_error_status(why);
  if (error) *error = why;
  else nereid_error_free(why);
  return status;
}

nereid_status launch_specialization(nereid_device *d, nereid_module *m, const Call *c, const nereid_options *o,
                                    Specialization **out, nereid_error **error) {
  return find_specialization(d, m, c, o, NULL, out, error);
}

/* ---- kernels with launch plans ----------------------------------------------------------------------------------- */

nereid_options launch_plainer(const nereid_options *o, GpuPlanFit fit, char text[WITHOUT_TEXT]) {
  nereid_options out = *o;
  const char *before = o->without && *o->without ? o->without : NULL;
  snprintf(text, WITHOUT_TEXT, "%s%s%s", before ? before : "", before ? "," : "", gpu_plan_lacks(fit));
  out.without = text;
  return out;
}

/* The same of a call. */
static GpuPlanFit call_plan_fit(nereid_device *d, void *stream, const Call *c, Specialization *s,
                                const int64_t grid[3]) {
  uint64_t slots[PLAN_SLOTS];
  if (!s->run.plan) return GPU_PLAN_FITS;
  if (s->run.slot_count > PLAN_SLOTS || call_pack(c, s, slots, NULL))
    return s->run.plan->apart_count ? GPU_PLAN_NOT_APART : GPU_PLAN_NO_MAPS;
  return launch_plan_fit(d, &s->run, stream, grid, slots);
}

/* With the slots filled. */
nereid_status launch_slots(nereid_device *d, void *stream, Specialization *s, const int64_t grid[3],
                           const uint64_t *slots, const nereid_options *o, const ProfCall *profiled,
                           nereid_error **error) {
  Launch l = {.kernel = &s->run, .options = o, .stream = stream, .args = slots};
  nereid_status status = grid_check(grid, o, l.grid, &l.total, error);
  return status || !l.total ? status : launch_now(d, &l, profiled, error);
}

nereid_status launch_call(nereid_device *d, void *stream, const Call *c, Specialization *s, const int64_t grid[3],
                          const nereid_options *o, bool (*step)(void *, InterpFrame *, const Op *), void *step_arg,
                          const ProfCall *profiled, nereid_error **error) {
  Launch l = {.kernel = &s->run, .options = o, .step = step, .step_arg = step_arg, .stream = stream};
  nereid_status status = grid_check(grid, o, l.grid, &l.total, error);
  if (status) return status;
  uint64_t on_stack[64], *args = on_stack;
  if (s->run.slot_count > 64) {
    args = malloc(sizeof *args * (size_t)s->run.slot_count);
    if (!args) return error_out_of_memory(error);
  }
  status = call_pack(c, s, args, error);
  if (!status && s->zeroed_count) status = measure_hooks.zero_arrays(d, stream, c, s, error);
  l.args = args;
  if (!status && l.total) status = launch_now(d, &l, profiled, error);
  if (args != on_stack) free(args);
  return status;
}

nereid_status launch_args(nereid_device *d, void *stream, nereid_module *m, const KernelInfo *k, const int64_t grid[3],
                          const nereid_arg *args, int arg_count, const nereid_options *o, const ProfCall *profiled,
                          nereid_error **error) {
  Call c;
  nereid_status status = call_bind_on(&c, k, d, args, arg_count, o, error);
  int32_t checked[3];
  int64_t total, found[3];
  /* before a compilation that may take long */
  if (!status && (grid || !o->grid)) status = grid_check(grid, o, checked, &total, error);
  Specialization *s = NULL;
  if (!status) status = find_specialization(d, m, &c, o, grid, &s, error);
  if (!status) status = grid_find(&c, s, grid, o, found, error);
  GpuPlanFit fit = status ? GPU_PLAN_FITS : call_plan_fit(d, stream, &c, s, found);
  if (!status && !fit) status = launch_call(d, stream, &c, s, found, o, NULL, NULL, profiled, error);
  call_free(&c);
  if (!fit) return status;
  char without[WITHOUT_TEXT];
  nereid_options plain = launch_plainer(o, fit, without);
  return launch_args(d, stream, m, k, grid, args, arg_count, &plain, profiled, error);
}

/* After NOTHING_TO_MEASURE, which says `why`: a launch without programs takes the first configuration that fits, under
 * a key of its own, since nobody may take that for a winner. */
static nereid_options untuned(const nereid_options *o, nereid_error **why) {
  nereid_options first = *o;
  nereid_error_free(*why);
  *why = NULL;
  first.no_autotune = true;
  return first;
}

static void hand_over(nereid_error *why, nereid_error **error) {
  if (why && error) *error = why;
  else nereid_error_free(why);
}

nereid_status nereid_launch(nereid_device *d, nereid_stream *stream, nereid_module *m, const char *kernel,
                            const int64_t grid[3], const nereid_arg *args, int arg_count, const nereid_options *o,
                            nereid_error **error) {
  const ProfCall profiled = {prof_begin(), "nereid_launch", args, arg_count};
  if (!d) return error_null(error, "nereid_launch", "the device");
  if (!m) return error_null(error, "nereid_launch", "the module");
  if (!kernel) return error_null(error, "nereid_launch", "the kernel's name");
  void *handle = NULL;
  nereid_status status = stream_handle(d, stream, &handle, error);
  if (status) return status;
  TAKE_OPTIONS(o);
  nereid_options changed;
  if (grid && o->grid) changed = *o, changed.grid = NULL, o = &changed;
  const KernelInfo *k = module_kernel(m, kernel, error);
  if (!k) return NEREID_BAD_ARGUMENT;
  names_check(m);
  nereid_error *why = NULL;
  status = launch_args(d, handle, m, k, grid, args, arg_count, o, &profiled, &why);
  if (status == NOTHING_TO_MEASURE) {
    changed = untuned(o, &why);
    status = launch_args(d, handle, m, k, grid, args, arg_count, &changed, &profiled, &why);
  }
  hand_over(why, error);
  return status;
}

/* ---- a specialization in the caller's hands ---------------------------------------------------------------------- */

static nereid_status compile_args(nereid_device *d, nereid_module *m, const KernelInfo *k, const nereid_arg *args,
                                  int arg_count, const nereid_options *o, Specialization **s, ArgPlan **plan,
                                  nereid_error **error) {
  Call c;
  nereid_status status = call_bind_on(&c, k, d, args, arg_count, o, error);
  if (!status) status = find_specialization(d, m, &c, o, NULL, s, error);
  if (!status) *plan = arg_plan_create(&c, *s, args, arg_count);
  call_free(&c);
  return status;
}

nereid_status nereid_compile(nereid_device *d, nereid_module *m, const char *kernel, const nereid_arg *args,
                             int arg_count, const nereid_options *o, nereid_function **out, nereid_error **error) {
  if (!d) return error_null(error, "nereid_compile", "the device");
  if (!m) return error_null(error, "nereid_compile", "the module");
  if (!kernel) return error_null(error, "nereid_compile", "the kernel's name");
  if (!out) return error_null(error, "nereid_compile", "out");
  TAKE_OPTIONS(o);
  nereid_options changed = *o;
  if (!o->grid) changed.grid = "", o = &changed;
  const KernelInfo *k = module_kernel(m, kernel, error);
  if (!k) return NEREID_BAD_ARGUMENT;
  names_check(m);
  Specialization *s = NULL;
  ArgPlan *plan = NULL;
  nereid_error *why = NULL;
  nereid_status status = compile_args(d, m, k, args, arg_count, o, &s, &plan, &why);
  if (status == NOTHING_TO_MEASURE) {
    changed = untuned(o, &why), o = &changed;
    status = compile_args(d, m, k, args, arg_count, o, &s, &plan, &why);
  }
  hand_over(why, error);
  if (status) return status;
  nereid_function *f = calloc(1, sizeof *f);
  size_t list = o->programs ? sizeof *o->programs * (size_t)o->program_count : 0;
  int64_t *programs = o->programs ? malloc(list + 1) : NULL;
  char *grid = o->grid ? strdup(o->grid) : NULL;
  if (!f || (o->programs && !programs) || (o->grid && !grid)) {
    free(f);
    free(programs);
    free(grid);
    arg_plan_free(plan);
    return error_out_of_memory(error);
  }
  if (programs) memcpy(programs, o->programs, list);
  *f = (nereid_function){d, s, *o, programs, grid, plan, NULL, 0};
  if (s->run.plan) { /* a launch may need another kernel, and give its arguments as slots */
    f->args = args_copy(args, arg_count);
    f->arg_count = f->args ? arg_count : 0;
  }
  f->options.programs = programs;
  f->options.grid = grid;
  f->options.tune = NULL;
  *out = f;
  return NEREID_OK;
}

/* Names the first parameter by which the call specialises otherwise than the function. */
static nereid_status differs(const nereid_function *f, const Call *c, nereid_error **error) {
  size_t same = 0;
  if (c->open) return call_still_open(c, error);
  while (same < c->key_size && same < f->spec->key_size && c->key[same] == f->spec->key[same]) same++;
  return error_set(error, NEREID_BAD_ARGUMENT,
                   "compile one function for each case, or use nereid_launch. A function holds for one element type "
                   "and alignment to 16 bytes of a "
                   "pointer, one value of a constexpr and of a number that decorators read, and for integers that are "
                   "alike in being 1, multiples of 16, "
                   "and 32 bits wide",
                   "parameter '%s' of kernel '%s' does not specialise as it did when the function was compiled",
                   call_param_at(c, same), f->spec->kernel->info.name);
}

nereid_status nereid_run(nereid_function *f, nereid_stream *stream, const int64_t grid[3], const nereid_arg *args,
                         int arg_count, nereid_error **error) {
  const ProfCall profiled = {prof_begin(), "nereid_run", args, arg_count};
  if (!f) return error_null(error, "nereid_run", "the function");
  void *handle = NULL;
  nereid_status status = stream_handle(f->device, stream, &handle, error);
  if (status) return status;
  const Specialization *s = f->spec;
  uint64_t slots[PLAN_SLOTS];
  if (f->plan && grid && !s->zeroed_count && s->run.slot_count <= PLAN_SLOTS &&
      arg_plan_pack(f->plan, args, arg_count, slots) && !launch_plan_fit(f->device, &f->spec->run, handle, grid, slots))
    return launch_slots(f->device, handle, f->spec, grid, slots, &f->options, &profiled, error);
  Call c;
  status = call_bind_on(&c, s->kernel, f->device, args, arg_count, &f->options, error);
  if (!status && (c.key_size != s->key_size || memcmp(c.key, s->key, s->key_size))) status = differs(f, &c, error);
  int64_t found[3];
  if (!status) status = grid_find(&c, s, grid, &f->options, found, error);
  GpuPlanFit fit = status ? GPU_PLAN_FITS : call_plan_fit(f->device, handle, &c, f->spec, found);
  if (!status && !fit)
    status = launch_call(f->device, handle, &c, f->spec, found, &f->options, NULL, NULL, &profiled, error);
  call_free(&c);
  if (!fit) return status;
  char without[WITHOUT_TEXT];
  nereid_options plain = launch_plainer(&f->options, fit, without);
  if (grid) plain.grid = NULL;
  return launch_args(f->device, handle, s->module, s->kernel, grid, args, arg_count, &plain, &profiled, error);
}

nereid_status nereid_function_grid(const nereid_function *f, const nereid_arg *args, int arg_count, int64_t grid[3],
                                   nereid_error **error) {
  if (!f) return error_null(error, "nereid_function_grid", "the function");
  if (!grid) return error_null(error, "nereid_function_grid", "the grid");
  Call c;
  nereid_status status = call_bind_on(&c, f->spec->kernel, f->device, args, arg_count, &f->options, error);
  if (!status) status = grid_find(&c, f->spec, NULL, &f->options, grid, error);
  call_free(&c);
  return status;
}

bool nereid_function_writes(const nereid_function *f, const char *parameter) {
  if (!f || !parameter || f->spec->module->is_cuda_c) return true;
  for (int i = 0; i < f->spec->kernel->info.param_count; i++)
    if (!strcmp(f->spec->kernel->names[i], parameter)) return f->spec->writes >> (i < 63 ? i : 63) & 1;
  return false;
}

const char *nereid_function_config(const nereid_function *f) { return f && f->spec->config ? f->spec->config : ""; }

void nereid_function_free(nereid_function *f) {
  if (!f) return;
  free(f->grid);
  free(f->programs);
  arg_plan_free(f->plan);
  args_free(f->args, f->arg_count);
  free(f);
}

void nereid_function_get_info(const nereid_function *f, nereid_function_info *out) {
  if (f && out) *out = f->spec->info;
}
