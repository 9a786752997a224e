/* What a compiled function says of itself, and its cheapest launch: by the slots that its code reads.
 *
 * Who launches a kernel over and over knows its arguments' kinds already, and looks up the function by a key of its
 * own. Then neither names nor kinds are looked at again: the values go to the device as they come.
 */
#include <stdlib.h>

#include "rt/hooks.h"
#include "runtime/runtime.h"

/* ---- slots ------------------------------------------------------------------------------------------------------- */

int nereid_function_slot_count(const nereid_function *f) { return f ? f->spec->run.slot_count : 0; }

bool nereid_function_slot(const nereid_function *f, int i, nereid_slot *out) {
  if (!f || !out || i < 0 || i >= f->spec->run.slot_count) return false;
  const ArgSlot *s = &f->spec->run.slots[i];
  nereid_slot slot = {.param = s->param,
                      .kind = (nereid_slot_kind)s->kind,
                      .depth = s->depth,
                      .dim = s->dim,
                      .is_pointer = s->is_pointer,
                      .dtype = (nereid_dtype)s->dtype};
  memcpy(slot.path, s->path, sizeof slot.path);
  return struct_give(out, &slot, sizeof slot);
}

/* The argument, or item of one, that a slot is of; NULL: it was not given. */
static nereid_arg *arg_of(nereid_function *f, nereid_arg *args, const ArgSlot *s) {
  nereid_arg *a = NULL;
  for (int i = 0; i < f->arg_count && !a; i++)
    if (args[i].name ? !strcmp(args[i].name, f->spec->kernel->names[s->param]) : i == s->param) a = &args[i];
  for (int i = 0; i < s->depth && a; i++)
    a = a->kind == NEREID_ARG_TUPLE && s->path[i] < a->item_count ? (nereid_arg *)&a->items[s->path[i]] : NULL;
  return a;
}

static void put_value(nereid_arg *a, const ArgSlot *s, uint64_t value) {
  switch (s->kind) {
    case SLOT_DESC_SHAPE: a->shape[s->dim] = (int64_t)value; return;
    case SLOT_DESC_STRIDE: a->strides[s->dim] = (int64_t)value; return;
    case SLOT_DESC_BASE: a->pointer = (void *)(uintptr_t)value; return;
    case SLOT_ARG: break;
  }
  if (s->is_pointer) a->pointer = (void *)(uintptr_t)value;
  else if (dtype_is_float(s->dtype)) a->f = dtype_load_float(s->dtype, &value);
  else a->i = (int64_t)value;
}

/* By way of the arguments: a kernel whose plan does not fit these is another one. */
static nereid_status run_args(nereid_function *f, GpuPlanFit fit, void *stream, const int64_t grid[3],
                              const uint64_t *values, const ProfCall *profiled, nereid_error **error) {
  const Specialization *s = f->spec;
  nereid_arg *args = args_copy(f->args, f->arg_count);
  if (!args) return error_out_of_memory(error);
  for (int i = 0; i < s->run.slot_count; i++) {
    nereid_arg *a = arg_of(f, args, &s->run.slots[i]);
    if (a) put_value(a, &s->run.slots[i], values[i]);
  }
  char without[WITHOUT_TEXT];
  nereid_options plain = launch_plainer(&f->options, fit, without);
  plain.grid = NULL;
  nereid_status status =
      launch_args(f->device, stream, s->module, s->kernel, grid, args, f->arg_count, &plain, profiled, error);
  args_free(args, f->arg_count);
  return status;
}

nereid_status nereid_run_values(nereid_function *f, void *stream, const int64_t grid[3], const uint64_t *values,
                                nereid_error **error) {
  const ProfCall profiled = {prof_begin(), "nereid_run_values", NULL, 0};
  if (!f) return error_null(error, "nereid_run_values", "the function");
  if (!grid) return error_null(error, "nereid_run_values", "the grid");
  if (!values && f->spec->run.slot_count) return error_null(error, "nereid_run_values", "values");
  if (f->spec->zeroed_count)
    return error_set(error, NEREID_BAD_ARGUMENT, "launch it with nereid_run",
                     "kernel '%s' has arrays that are zeroed before each launch", f->spec->kernel->info.name);
  if (!f->device->kind->async) stream = NULL;
  GpuPlanFit fit = launch_plan_fit(f->device, &f->spec->run, stream, grid, values);
  if (fit) return run_args(f, fit, stream, grid, values, &profiled, error);
  return launch_slots(f->device, stream, f->spec, grid, values, &f->options, &profiled, error);
}

/* ---- what it is -------------------------------------------------------------------------------------------------- */

const char *nereid_function_name(const nereid_function *f) { return f ? f->spec->kernel->info.name : ""; }

/* 32 hexadecimal digits of what decides on the code. */
static void digest(const nereid_module *m, const KernelInfo *k, const DeviceKind *kind, const void *key, size_t size,
                   char out[33]) {
  for (int half = 0; half < 2; half++) {
    uint64_t h = hash_bytes(NEREID_VERSION, sizeof NEREID_VERSION, (uint64_t)half);
    h = hash_bytes(kind->name, strlen(kind->name), h);
    h = hash_bytes(m->path, strlen(m->path), h);
    h = hash_bytes(m->text, m->size, h);
    h = hash_bytes(k->info.name, strlen(k->info.name), h);
    h = hash_bytes(key, size, h);
    int epoch = atomic_load((atomic_int *)&m->epoch);
    h = hash_bytes(&epoch, sizeof epoch, h);
    snprintf(out + 16 * half, 17, "%016llx", (unsigned long long)h);
  }
}

void nereid_function_key(const nereid_function *f, char key[33]) {
  Call c = {0};
  key[0] = 0;
  if (!f) return;
  c.key = f->spec->key;
  c.key_size = f->spec->key_size;
  size_t size;
  const void *stable = call_stable_key(&c, &size);
  digest(f->spec->module, f->spec->kernel, f->spec->run.kind, stable, size, key);
}

nereid_status nereid_key(nereid_device *d, nereid_module *m, const char *kernel, const nereid_arg *args, int arg_count,
                         const nereid_options *o, char key[33], nereid_error **error) {
  if (!d) return error_null(error, "nereid_key", "the device");
  if (!m) return error_null(error, "nereid_key", "the module");
  if (!kernel) return error_null(error, "nereid_key", "the kernel's name");
  if (!key) return error_null(error, "nereid_key", "key");
  const KernelInfo *k = module_kernel(m, kernel, error);
  if (!k) return NEREID_BAD_ARGUMENT;
  names_check(m);
  Call c;
  TAKE_OPTIONS(o);
  nereid_status status = call_bind_on(&c, k, d, args, arg_count, o, error);
  size_t size;
  if (!status) {
    const void *stable = call_stable_key(&c, &size);
    digest(m, k, d->kind, stable, size, key);
  }
  call_free(&c);
  return status;
}

/* ---- arguments of a signature ------------------------------------------------------------------------------------ */

/* An address, aligned or not, where no memory is. */
static void *stand_in(bool aligned) { return (void *)(uintptr_t)(aligned ? 1 << 16 : (1 << 16) + 8); }

bool nereid_arg_of_type(const char *type, nereid_arg *out) {
  if (!type || !out) return false;
  char name[32];
  const char *colon = strchr(type, ':');
  size_t n = colon ? (size_t)(colon - type) : strlen(type);
  bool one = colon && !strcmp(colon, ":1"), divisible = colon && (!strcmp(colon, ":16") || !strcmp(colon, ":D"));
  if (n >= sizeof name || (colon && !one && !divisible)) return false;
  memcpy(name, type, n);
  name[n] = 0;
  nereid_dtype t;
  if (!strcmp(name, "none") || !strcmp(name, "None")) {
    *out = nereid_none();
    return !colon;
  }
  if (*name == '*') {
    if (one || !nereid_dtype_parse(name + 1 + (name[1] == 'k'), &t)) return false;
    *out = nereid_pointer(stand_in(divisible), t);
    return true;
  }
  if (!nereid_dtype_parse(name, &t)) return false;
  if (dtype_is_float((Dtype)t)) {
    *out = nereid_float(0.5);
    out->dtype = t;
    out->has_dtype = t != NEREID_F32;
    return !colon;
  }
  if (t == NEREID_I1) {
    *out = nereid_bool(false);
    return !colon;
  }
  *out = nereid_int(one ? 1 : divisible ? 16 : 3);
  if (t == NEREID_I64 && !one) out->i += (int64_t)1 << 36;
  else if (t == NEREID_U64 && !one) out->i |= INT64_MIN, out->is_unsigned = true;
  else if (t != NEREID_I32) out->dtype = t, out->has_dtype = true;
  return true;
}
