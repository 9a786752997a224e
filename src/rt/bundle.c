/* Bundles on a device: which variant and which code a launch takes, loaded when it is first launched.
 *
 * What was loaded stands in a table of atomic pointers, one for each code of the bundle, so that a warm launch takes no
 * lock. A bundle that a program carries inside (nereid_builtin) is opened by its first launch on a device, and kept by
 * the device.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <errno.h>

#include "rt/bundle.h"
#include "rt/hooks.h"

struct nereid_bundle {
  nereid_bundle *next; /* of those that the device keeps */
  const void *bytes;
  nereid_device *device;
  Bundle content;
  nereid_kernel_info *infos;
  nereid_param *params;
  _Atomic(LoadedKernel *) *loaded;      /* by entry, variant and code */
  int *suits;                           /* likewise: how well it suits the device; 0: not at all */
  int *first_named, *next_named, names; /* entries by name: a table of lists, `names` of them; -1 ends a list */
  int *first_code;                      /* by entry: its first variant's first code in both */
  int code_count;
  pthread_mutex_t lock; /* of loading */
  ForkHook fork;
  void *mapped; /* the file, or NULL */
  size_t mapped_bytes;
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* How well code suits the device; 0: not at all. */
static int suits(const nereid_device *d, const BundleCode *c) {
  if (c->kind == CODE_CPU) {
    if (d->kind != &device_cpu || c->machine != processor_machine()) return 0;
    for (int i = 0; i < c->feature_count; i++)
      if (!processor_has(c->features[i])) return 0;
    return 1 + c->feature_count;
  }
  if (d->kind != &device_cuda) return 0;
  if (c->exact) return c->kind == CODE_CUBIN && c->sm == d->cuda_sm ? 4000 : c->sm == d->cuda_sm ? 3000 : 0;
  if (c->kind == CODE_CUBIN) return c->sm / 10 == d->cuda_sm / 10 && c->sm <= d->cuda_sm ? 2000 + c->sm : 0;
  return c->sm <= d->cuda_sm ? 1000 + c->sm : 0;
}

static int list_of(const nereid_bundle *b, const char *name) {
  return (int)(hash_bytes(name, strlen(name), 0) & (uint64_t)(b->names - 1));
}

static bool describe(nereid_bundle *b) {
  const Bundle *c = &b->content;
  int params = 0, codes = 0;
  for (int i = 0; i < c->entry_count; i++) params += c->entries[i].param_count;
  b->infos = calloc((size_t)c->entry_count + 1, sizeof *b->infos);
  b->params = calloc((size_t)params + 1, sizeof *b->params);
  b->first_code = calloc((size_t)c->entry_count + 1, sizeof *b->first_code);
  for (b->names = 16; b->names < 2 * c->entry_count;) b->names *= 2;
  b->first_named = malloc(sizeof *b->first_named * (size_t)b->names);
  b->next_named = malloc(sizeof *b->next_named * (size_t)(c->entry_count + 1));
  if (!b->infos || !b->params || !b->first_code || !b->first_named || !b->next_named) return false;
  for (int i = 0; i < b->names; i++) b->first_named[i] = -1;
  for (int i = c->entry_count - 1; i >= 0; i--) {
    int *list = &b->first_named[list_of(b, c->entries[i].name)];
    b->next_named[i] = *list, *list = i;
  }
  nereid_param *p = b->params;
  for (int i = 0; i < c->entry_count; i++) {
    const BundleEntry *e = &c->entries[i];
    b->infos[i] = (nereid_kernel_info){.name = e->name, .params = p};
    for (int k = 0; k < e->param_count; k += e->params[k].size, b->infos[i].param_count++)
      *p++ = (nereid_param){.name = e->params[k].name,
                            .default_text = e->params[k].kind == PARAM_CONSTEXPR ? e->params[k].constant : NULL,
                            .is_constexpr = e->params[k].kind == PARAM_CONSTEXPR};
    b->first_code[i] = codes;
    for (int v = 0; v < e->variant_count; v++) codes += e->variants[v].code_count;
  }
  b->code_count = codes;
  b->loaded = calloc((size_t)codes + 1, sizeof *b->loaded);
  b->suits = calloc((size_t)codes + 1, sizeof *b->suits);
  if (!b->loaded || !b->suits) return false;
  for (int i = 0, at = 0; i < c->entry_count; i++)
    for (int v = 0; v < c->entries[i].variant_count; v++)
      for (int k = 0; k < c->entries[i].variants[v].code_count; k++)
        b->suits[at++] = suits(b->device, &c->entries[i].variants[v].codes[k]);
  return true;
}

static void destroy(nereid_bundle *b) {
  for (int i = 0; b->loaded && i < b->code_count; i++) {
    LoadedKernel *k = atomic_load(&b->loaded[i]);
    if (k) kernel_release(k), free(k);
  }
  bundle_free(&b->content);
  free(b->infos), free(b->params), free(b->first_code), free(b->loaded), free(b->suits);
  free(b->first_named), free(b->next_named);
  if (b->mapped) munmap(b->mapped, b->mapped_bytes);
  free(b);
}

static nereid_status open_bytes(nereid_device *d, const char *name, const void *bytes, size_t size, nereid_bundle **out,
                                nereid_error **error) {
  if (d->kind != &device_cpu && d->kind != &device_cuda)
    return error_set(error, NEREID_UNSUPPORTED, "open a device cpu or cuda:N",
                     "%s has machine code, which the device %s does not run", name, d->name);
  nereid_bundle *b = calloc(1, sizeof *b);
  if (!b) return error_out_of_memory(error);
  b->bytes = bytes, b->device = d;
  nereid_status status = bundle_read(name, bytes, size, &b->content, error);
  if (!status && !describe(b)) status = error_out_of_memory(error);
  if (status) {
    destroy(b);
    return status;
  }
  pthread_mutex_init(&b->lock, NULL);
  b->fork = (ForkHook){.held = &b->lock};
  fork_hook_add(&b->fork);
  *out = b;
  return NEREID_OK;
}

nereid_status nereid_bundle_open_memory(nereid_device *d, const void *bytes, size_t size, nereid_bundle **out,
                                        nereid_error **error) {
  if (!d) return error_null(error, "nereid_bundle_open_memory", "the device");
  if (!bytes) return error_null(error, "nereid_bundle_open_memory", "bytes");
  if (!out) return error_null(error, "nereid_bundle_open_memory", "out");
  return open_bytes(d, "the bundle", bytes, size, out, error);
}

nereid_status nereid_bundle_open(nereid_device *d, const char *path, nereid_bundle **out, nereid_error **error) {
  static const int64_t most = (int64_t)1 << 36;
  if (!d) return error_null(error, "nereid_bundle_open", "the device");
  if (!path) return error_null(error, "nereid_bundle_open", "the path");
  if (!out) return error_null(error, "nereid_bundle_open", "out");
  int64_t size = 0;
  int fd = file_open(path, most, &size);
  if (fd < 0) return error_errno(error, NEREID_BAD_FILE, errno, "cannot open %s", path);
  void *bytes = size ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
  int number = errno;
  close(fd);
  if (bytes == MAP_FAILED) return error_errno(error, NEREID_BAD_FILE, number, "cannot read %s", path);
  nereid_bundle *b = NULL;
  nereid_status status = open_bytes(d, path, bytes ? bytes : "", (size_t)size, &b, error);
  if (status) {
    if (bytes) munmap(bytes, (size_t)size);
    return status;
  }
  b->mapped = bytes, b->mapped_bytes = (size_t)size;
  *out = b;
  return NEREID_OK;
}

void nereid_bundle_close(nereid_bundle *b) {
  if (!b) return;
  fork_hook_remove(&b->fork);
  pthread_mutex_destroy(&b->lock);
  destroy(b);
}

static void close_bundles(nereid_device *d) {
  for (nereid_bundle *b = atomic_load(&d->bundles), *next; b; b = next) next = b->next, nereid_bundle_close(b);
}

/* The device's copy of a bundle that the program carries inside. */
static nereid_status builtin_bundle(const nereid_builtin *in, nereid_device *d, nereid_bundle **out,
                                    nereid_error **error) {
  nereid_bundle *first = atomic_load_explicit(&d->bundles, memory_order_acquire);
  for (nereid_bundle *b = first; b; b = b->next)
    if (b->bytes == in->bytes) return *out = b, NEREID_OK;
  nereid_status status = open_bytes(d, in->name, in->bytes, in->size, out, error);
  if (status) return status;
  (*out)->next = first;
  atomic_store(&d->close_bundles, close_bundles);
  while (!atomic_compare_exchange_weak(&d->bundles, &(*out)->next, *out))
    for (nereid_bundle *b = (*out)->next; b; b = b->next)
      if (b->bytes == in->bytes) { /* another thread was first */
        nereid_bundle_close(*out);
        return *out = b, NEREID_OK;
      }
  return NEREID_OK;
}

int nereid_bundle_kernel_count(const nereid_bundle *b) { return b ? b->content.entry_count : 0; }
const nereid_kernel_info *nereid_bundle_kernel_at(const nereid_bundle *b, int i) {
  return b && i >= 0 && i < b->content.entry_count ? &b->infos[i] : NULL;
}

/* ---- which code -------------------------------------------------------------------------------------------------- */

static bool holds(const BundleCondition *c, const uint64_t *values) {
  int64_t v = (int64_t)values[c->param];
  switch (c->kind) {
    case CONDITION_ALIGNED: return (v & 15) == 0;
    case CONDITION_DIVISIBLE: return v % 16 == 0;
    case CONDITION_ONE: return v == 1;
    default: return v == c->value;
  }
}

static bool all_hold(const BundleVariant *v, const uint64_t *values) {
  for (int i = 0; i < v->condition_count; i++)
    if (!holds(&v->conditions[i], values)) return false;
  return true;
}

static nereid_status none_suits(const nereid_bundle *b, const BundleEntry *e, const BundleVariant *v,
                                nereid_error **error) {
  Buf there = {0};
  const char *missing = NULL;
  for (int i = 0; i < v->code_count; i++) {
    const BundleCode *c = &v->codes[i];
    buf_printf(&there, "%s%s", i ? ", " : "", c->kind == CODE_CPU ? "cpu: " : c->kind == CODE_PTX ? "PTX of " : "");
    buf_puts(&there, c->target);
    if (c->kind != CODE_CPU || b->device->kind != &device_cpu || c->machine != processor_machine()) continue;
    for (int k = 0; k < c->feature_count && !missing; k++)
      if (!processor_has(c->features[k])) missing = c->features[k];
  }
  char device[100];
  snprintf(device, sizeof device, b->device->kind == &device_cuda ? "%s is of compute capability %d.%d" : "%s%.0d%.0d",
           b->device->name, b->device->cuda_sm / 10, b->device->cuda_sm % 10);
  if (b->device->kind != &device_cuda)
    snprintf(device, sizeof device, missing ? "this processor has no %s" : "this is %s",
             missing                             ? missing
             : machine_name(processor_machine()) ? machine_name(processor_machine())
                                                 : "another machine");
  nereid_status status =
      error_set(error, NEREID_UNSUPPORTED, "name its target, too, when it is built: nereid build --target",
                "kernel '%s' was not built for this device: there is %s; %s", e->name,
                there.at && !there.failed ? there.at : "nothing", device);
  buf_destroy(&there);
  return status;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Under the lock. */
static nereid_status load(nereid_bundle *b, const BundleEntry *e, const BundleCode *c, LoadedKernel **out,
                          nereid_error **error) {
  LoadedKernel *k = calloc(1, sizeof *k);
  if (!k) return error_out_of_memory(error);
  int pointers = 0;
  for (int i = 0; i < c->slot_count; i++) pointers += c->slots[i].is_pointer;
  k->kind = b->device->kind;
  k->name = e->name, k->params = e->param_names, k->path = e->path;
  k->slots = c->slots, k->slot_count = c->slot_count, k->pointer_count = pointers;
  k->programs_wait = c->programs_wait;
  k->plan = c->plan;
  k->places = c->places;
  k->borrows = true;
  nereid_status status = bundle_check_code(e->name, c->image, c->image_bytes, c->image_hash, error);
  if (!status) status = b->device->kind->load(b->device, k, c, error);
  if (status) {
    kernel_release(k);
    free(k);
    return status;
  }
  *out = k;
  return NEREID_OK;
}

static nereid_status loaded(nereid_bundle *b, const BundleEntry *e, const BundleCode *c, int index, LoadedKernel **out,
                            nereid_error **error) {
  *out = atomic_load_explicit(&b->loaded[index], memory_order_acquire);
  if (*out) return NEREID_OK;
  pthread_mutex_lock(&b->lock);
  *out = atomic_load_explicit(&b->loaded[index], memory_order_relaxed);
  nereid_status status = *out ? NEREID_OK : load(b, e, c, out, error);
  if (!status) atomic_store_explicit(&b->loaded[index], *out, memory_order_release);
  pthread_mutex_unlock(&b->lock);
  return status;
}

/* ---- the grid ---------------------------------------------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* False: a division by zero, or more than 64 bits. */
static bool apply(GridOp op, int64_t *x, int64_t y) {
  bool divides = op == GRID_DIV || op == GRID_REM || op == GRID_CDIV;
  if (divides && (!y || (y == -1 && *x == INT64_MIN))) return false;
  switch (op) {
    case GRID_ADD: return !__builtin_add_overflow(*x, y, x);
    case GRID_SUB: return !__builtin_sub_overflow(*x, y, x);
    case GRID_MUL: return !__builtin_mul_overflow(*x, y, x);
    case GRID_DIV: *x = floor_div(*x, y); return true;
    case GRID_REM: *x -= floor_div(*x, y) * y; return true;
    case GRID_CDIV: *x = -floor_div(-*x, y); return true;
    case GRID_MIN: *x = *x < y ? *x : y; return true;
    default: *x = *x > y ? *x : y; return true;
  }
}

static bool run_grid(const GridProgram *g, const BundleVariant *v, const uint64_t *values, int64_t *out) {
  int64_t stack[GRID_MOST_DEPTH];
  int n = 0;
  for (int i = 0; i < g->count; i++) {
    const GridStep *s = &g->steps[i];
    int k = 0;
    switch (s->op) {
      case GRID_NUMBER: stack[n++] = s->value; break;
      case GRID_PARAM: stack[n++] = (int64_t)values[s->value]; break;
      case GRID_CONSTANT:
        while (k < v->constant_count && strcmp(v->constants[k].name, s->name)) k++;
        if (k == v->constant_count) return false;
        stack[n++] = v->constants[k].value;
        break;
      case GRID_NEGATE:
        if (stack[n - 1] == INT64_MIN) return false;
        stack[n - 1] = -stack[n - 1];
        break;
      case GRID_POWER_OF_2: {
        int64_t p = 1;
        while (p < stack[n - 1] && p < (int64_t)1 << 62) p *= 2;
        stack[n - 1] = p;
        break;
      }
      default:
        n--;
        if (!apply(s->op, &stack[n - 1], stack[n])) return false;
    }
  }
  *out = g->count ? stack[0] : 1;
  return true;
}

/* ---- launching --------------------------------------------------------------------------------------------------- */

static void fill_slots(const BundleEntry *e, const BundleCode *c, const uint64_t *values, uint64_t *out) {
  for (int i = 0; i < c->slot_count; i++) {
    const ArgSlot *s = &c->slots[i];
    uint64_t v = values[s->param];
    if (!s->is_pointer && dtype_is_float(s->dtype)) {
      double number;
      if (e->params[s->param].kind == PARAM_FLOAT) memcpy(&number, &v, sizeof number);
      else number = (double)(int64_t)v;
      v = 0;
      dtype_store_float(s->dtype, &v, number);
    } else if (s->dtype == DT_I1 && !s->is_pointer) {
      v = v != 0;
    }
    out[i] = v;
  }
}

/* A launcher hands over the parts of tensor descriptors: they must be such. */
static nereid_status check_descriptors(const BundleEntry *e, const uint64_t *values, nereid_error **error) {
  for (int p = 0; p < e->param_count; p += e->params[p].kind == PARAM_TUPLE ? 1 : e->params[p].size) {
    const BundleParam *param = &e->params[p];
    if (param->kind != PARAM_DESCRIPTOR) continue;
    nereid_arg a = {.dtype = (nereid_dtype)param->dtype, .pointer = (void *)(uintptr_t)values[p], .rank = param->rank};
    for (int d = 0; d < a.rank; d++) {
      a.shape[d] = (int64_t)values[p + 1 + d], a.strides[d] = (int64_t)values[p + 1 + a.rank + d];
      a.block_shape[d] = param->block_shape[d];
    }
    char why[160];
    const char *hint = NULL;
    if (!descriptor_fits(&a, why, sizeof why, &hint))
      return error_set(error, NEREID_BAD_ARGUMENT, hint, "parameter '%s' of kernel '%s' %s", param->name, e->name, why);
  }
  return NEREID_OK;
}

/* values: one a parameter: a pointer, an integer, the bits of a double. */
static nereid_status launch_entry(nereid_bundle *b, int entry, nereid_stream *stream, const int64_t grid[3],
                                  const uint64_t *values, const nereid_options *o, const ProfCall *profiled,
                                  nereid_error **error) {
  const BundleEntry *e = &b->content.entries[entry];
  void *handle = NULL;
  nereid_status status = stream_handle(b->device, stream, &handle, error);
  if (!status) status = check_descriptors(e, values, error);
  if (status) return status;
  int index = b->first_code[entry], v = 0;
  while (v < e->variant_count && !all_hold(&e->variants[v], values)) index += e->variants[v++].code_count;
  if (v == e->variant_count)
    return error_set(
        error, NEREID_BAD_ARGUMENT, "build it for such values, too: TYPE:16|any, TYPE:1|any (nereid build --help)",
        "kernel '%s' was built for arguments that are aligned, divisible by 16 or equal to one where these "
        "are not",
        e->name);
  const BundleVariant *variant = &e->variants[v];
  int64_t found[3];
  if (!grid && !e->has_grid)
    return error_set(error, NEREID_BAD_ARGUMENT, "pass one, or build the kernel with --grid", "the grid is NULL");
  for (int i = 0; !grid && i < 3; i++)
    if (!run_grid(&e->grid[i], variant, values, &found[i]))
      return error_set(error, NEREID_BAD_ARGUMENT, NULL,
                       "the grid of kernel '%s' cannot be computed for these arguments: it divides by zero, or is more "
                       "than 64 bits",
                       e->name);
  if (grid) memcpy(found, grid, sizeof found);
  Launch l = {.options = o, .stream = handle};
  status = grid_check(found, l.options, l.grid, &l.total, error);
  if (status || !l.total) return status;
  uint64_t slots[4 * BUNDLE_MOST_PARAMS];
  int best = -1, most = 0;
  for (int below = INT32_MAX;;) { /* the best code, then the next ones */
    best = -1, most = 0;
    for (int i = 0; i < variant->code_count; i++) {
      int s = 256 * b->suits[index + i] - i;
      if (s > most && s < below) best = i, most = s;
    }
    if (best < 0) return none_suits(b, e, variant, error);
    below = most;
    const BundleCode *c = &variant->codes[best];
    LoadedKernel *k;
    status = loaded(b, e, c, index + best, &k, error);
    if (status) return status;
    fill_slots(e, c, values, slots);
    l.kernel = k, l.args = slots;
    if (!c->plan || !launch_plan_fit(b->device, k, l.stream, found, slots))
      return launch_now(b->device, &l, profiled, error);
  }
}

nereid_status nereid_builtin_launch(const nereid_builtin *in, nereid_device *d, nereid_stream *stream, int kernel,
                                    const uint64_t *values, nereid_error **error) {
  const ProfCall profiled = {.start = prof_begin(), .function = "a launcher of nereid build"};
  nereid_bundle *b = NULL;
  if (!d) return error_null(error, in->name, "the device");
  nereid_status status = builtin_bundle(in, d, &b, error);
  if (status) return status;
  return launch_entry(b, kernel, stream, NULL, values, &options_default, &profiled, error);
}

nereid_status nereid_builtin_launch_grid(const nereid_builtin *in, nereid_device *d, nereid_stream *stream, int kernel,
                                         const int64_t grid[3], const uint64_t *values, nereid_error **error) {
  const ProfCall profiled = {.start = prof_begin(), .function = "a launcher of nereid build"};
  nereid_bundle *b = NULL;
  if (!d) return error_null(error, in->name, "the device");
  if (!grid) return error_null(error, in->name, "the grid");
  nereid_status status = builtin_bundle(in, d, &b, error);
  if (status) return status;
  return launch_entry(b, kernel, stream, grid, values, &options_default, &profiled, error);
}

/* ---- by name, with arguments of any kind -------------------------------------------------------------------------- */

static bool descriptor_values(const BundleParam *p, const nereid_arg *a, uint64_t *out) {
  if (a->kind != NEREID_ARG_DESCRIPTOR || (Dtype)a->dtype != p->dtype || a->rank != p->rank ||
      a->nan_padding != p->nan_padding ||
      memcmp(a->block_shape, p->block_shape, sizeof p->block_shape[0] * (size_t)p->rank))
    return false;
  out[0] = (uint64_t)(uintptr_t)a->pointer;
  for (int d = 0; d < p->rank; d++) out[1 + d] = (uint64_t)a->shape[d], out[1 + p->rank + d] = (uint64_t)a->strides[d];
  return true;
}

/* The values of an argument for a parameter; false: it is of another kind. */
static bool values_of(const BundleParam *p, const nereid_arg *a, uint64_t *out) {
  ArgSlot slot = {.dtype = p->dtype};
  switch (p->kind) {
    case PARAM_NONE: return a->kind == NEREID_ARG_NONE;
    case PARAM_POINTER:
      if (a->kind != NEREID_ARG_POINTER || (Dtype)a->dtype != p->dtype) return false;
      return *out = (uint64_t)(uintptr_t)a->pointer, true;
    case PARAM_BOOL:
      if (a->kind != NEREID_ARG_BOOL) return false;
      return *out = a->i != 0, true;
    case PARAM_INT:
      if (a->kind != NEREID_ARG_INT && a->kind != NEREID_ARG_BOOL) return false;
      return !pack_arg("", "", &slot, a, out, NULL);
    case PARAM_FLOAT: {
      double v = a->kind == NEREID_ARG_FLOAT ? a->f : (double)a->i;
      if (a->kind != NEREID_ARG_FLOAT && a->kind != NEREID_ARG_INT) return false;
      return memcpy(out, &v, sizeof v), true;
    }
    case PARAM_DESCRIPTOR: return descriptor_values(p, a, out);
    case PARAM_TUPLE: {
      if (a->kind != NEREID_ARG_TUPLE || (a->item_count && !a->items)) return false;
      int at = 1, i = 0;
      for (; i < a->item_count && at < p->size; at += p[at].size, i++)
        if (!values_of(p + at, &a->items[i], out + at)) return false;
      return *out = 0, i == a->item_count && at == p->size;
    }
    default: break;
  }
  Buf text = {0};
  bool same = arg_python_text(&text, a) && !text.failed && !strcmp(text.at, p->constant);
  buf_destroy(&text);
  return *out = 0, same;
}

/* Which parameter an argument is for, by position until the first named one; -1: none. */
static int param_of(const BundleEntry *e, const nereid_arg *a, int position) {
  for (int i = 0; i < e->param_count; i += e->params[i].size, position--)
    if (a->name ? !strcmp(e->params[i].name, a->name) : !position) return i;
  return -1;
}

/* Whether the entry was built for arguments of these kinds; *wrong: the parameter that tells, or -1. */
static bool takes(const BundleEntry *e, const nereid_arg *args, int n, uint64_t *values, int *wrong) {
  bool given[BUNDLE_MOST_PARAMS] = {0};
  *wrong = -1;
  for (int i = 0; i < n; i++) {
    int p = param_of(e, &args[i], i);
    if (p < 0) return false;
    *wrong = p;
    if (!values_of(&e->params[p], &args[i], &values[p])) return false;
    given[p] = true;
  }
  for (int p = 0; p < e->param_count; p += e->params[p].size) {
    *wrong = p;
    if (!given[p] && e->params[p].kind != PARAM_CONSTEXPR && e->params[p].kind != PARAM_NONE) return false;
    if (!given[p]) values[p] = 0;
  }
  return true;
}

static bool any_holds(const BundleEntry *e, const uint64_t *values) {
  for (int v = 0; v < e->variant_count; v++)
    if (all_hold(&e->variants[v], values)) return true;
  return false;
}

static nereid_status check_options(const nereid_bundle *b, const nereid_options *o, nereid_error **error) {
  const struct {
    const char *name;
    bool set;
  } rows[] = {{"num_warps", o->num_warps != 0},
              {"num_stages", o->num_stages != 0},
              {"num_ctas", o->num_ctas != 0},
              {"debug", o->debug},
              {"check_races", o->check_races},
              {"allow_unwritten", o->allow_unwritten},
              {"programs", o->programs && b->device->kind->lists_programs},
              {"dump_after", o->dump_after != NULL},
              {"persist", o->persist},
              {"specialize", o->specialize},
              {"block", o->block[0] || o->block[1] || o->block[2]},
              {"shared_bytes", o->shared_bytes != 0},
              {"instrument", o->instrument || o->instrument_buffer},
              {"grid", o->grid != NULL},
              {"tune", o->tune != NULL},
              {"without", o->without != NULL},
              {"dot_precision", o->dot_precision != NULL},
              {"no_sanitize_overflow", o->no_sanitize_overflow},
              {"no_fp_fusion", o->no_fp_fusion},
              {"max_registers", o->max_registers != 0},
              {"launch_pdl", o->launch_pdl},
              {"cooperative_grid", o->cooperative_grid}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].set)
      return error_set(error, NEREID_UNSUPPORTED, "say it to nereid_build_add, or leave it out",
                       "options.%s is for compiling, and a bundle's kernels are compiled", rows[i].name);
  return NEREID_OK;
}

nereid_status nereid_bundle_launch(nereid_bundle *b, nereid_stream *stream, const char *kernel, const int64_t grid[3],
                                   const nereid_arg *args, int arg_count, nereid_error **error) {
  return nereid_bundle_launch_with(b, stream, kernel, grid, args, arg_count, NULL, error);
}

nereid_status nereid_bundle_launch_with(nereid_bundle *b, nereid_stream *stream, const char *kernel,
                                        const int64_t grid[3], const nereid_arg *args, int arg_count,
                                        const nereid_options *o, nereid_error **error) {
  const ProfCall profiled = {prof_begin(), "nereid_bundle_launch", args, arg_count};
  if (!b) return error_null(error, "nereid_bundle_launch", "the bundle");
  if (!kernel) return error_null(error, "nereid_bundle_launch", "the kernel's name");
  if (arg_count < 0 || (arg_count && !args)) return error_null(error, "nereid_bundle_launch", "args");
  TAKE_OPTIONS(o);
  nereid_status refused = o == &options_default ? NEREID_OK : check_options(b, o, error);
  if (refused) return refused;
  int there = 0, wrong = -1, last = -1, chosen = -1;
  uint64_t values[BUNDLE_MOST_PARAMS], kept[BUNDLE_MOST_PARAMS];
  for (int i = b->first_named[list_of(b, kernel)]; i >= 0; i = b->next_named[i]) {
    const BundleEntry *e = &b->content.entries[i];
    if (strcmp(e->name, kernel)) continue;
    there++, last = i;
    if (!takes(e, args, arg_count, values, &wrong)) continue;
    if (any_holds(e, values)) return launch_entry(b, i, stream, grid, values, o, &profiled, error);
    if (chosen < 0) chosen = i, memcpy(kept, values, sizeof kept);
  }
  if (chosen >= 0)
    return launch_entry(b, chosen, stream, grid, kept, o, &profiled, error); /* which says what is missing */
  if (!there)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "the bundle has no kernel '%s'; it has %d others", kernel,
                     b->content.entry_count);
  const char *param = wrong >= 0 ? b->content.entries[last].params[wrong].name : NULL;
  return error_set(error, NEREID_BAD_ARGUMENT, "build it for them, too (nereid build --help)",
                   "kernel '%s' was not built for arguments of these types and constants%s%s%s", kernel,
                   there == 1 && param ? ": look at '" : "", there == 1 && param ? param : "",
                   there == 1 && param ? "'" : "");
}
