/* harness: see harness.h. */
#include "harness.h"

#ifndef KERNELS_DIR
#define KERNELS_DIR "kernels"
#endif

static nereid_device *opened[8];

/* $NEREID_TEST_DEVICES names them with spaces between, as nereid_device_open takes them, and one that is not there
 * fails; else all that this machine has. */
enum { MOST_DEVICES = 7 };
const char *test_devices[MOST_DEVICES + 1];
static char names[MOST_DEVICES][32];

static void add_device(int count, const char *name, size_t n) {
  snprintf(names[count], sizeof names[count], "%.*s", (int)n, name);
  test_devices[count] = names[count];
}

__attribute__((constructor)) static void find_devices(void) {
  const char *wanted = getenv("NEREID_TEST_DEVICES");
  nereid_device_info info[16];
  int n = wanted ? 0 : nereid_devices(info, 16), count = 0;
  for (int i = 0; i < n && i < 16 && count < MOST_DEVICES; i++)
    if (info[i].available) add_device(count++, info[i].name, strlen(info[i].name));
  for (size_t length; wanted && *wanted && count < MOST_DEVICES; wanted += length) {
    wanted += strspn(wanted, " ");
    length = strcspn(wanted, " ");
    if (length) add_device(count++, wanted, length);
  }
}

nereid_device *test_device(const char *name) {
  for (int i = 0; i < MOST_DEVICES; i++) {
    if (!test_devices[i]) add_device(i, name, strlen(name));
    if (strcmp(name, test_devices[i])) continue;
    nereid_error *err = NULL;
    if (!opened[i] && nereid_device_open(name, &opened[i], &err)) fail_msg("%s", nereid_error_text(err));
    return opened[i];
  }
  return NULL;
}

void test_devices_close(void) {
  for (int i = 0; test_devices[i]; i++) nereid_device_close(opened[i]), opened[i] = NULL;
}

double unit_roundoff(nereid_dtype t) {
  switch (t) {
    case NEREID_F64: return 0x1p-53;
    case NEREID_F32: return 0x1p-24;
    case NEREID_F16: return 0x1p-11;
    case NEREID_BF16: return 0x1p-8;
    case NEREID_F8E4NV: return 0x1p-4;
    case NEREID_F8E5: return 0x1p-3;
    default: return 0;
  }
}

static double uniform(uint64_t *state) { /* splitmix64 */
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

void tensor_set(Tensor *t, int64_t i, double v) {
  char *p = (char *)t->data + i * (int64_t)nereid_dtype_bytes(t->dtype);
  nereid_dtype_store(t->dtype, p, v);
  t->values[i] = nereid_dtype_load(t->dtype, p);
}

static Tensor make(nereid_dtype t, int64_t count) {
  Tensor x = {t, count, malloc(sizeof(double) * (size_t)(count + 1)),
              malloc(nereid_dtype_bytes(t) * (size_t)(count + 1))};
  assert_true(x.values && x.data);
  return x;
}

Tensor tensor_random(nereid_dtype t, int64_t count, uint64_t seed) {
  Tensor x = make(t, count);
  for (int64_t i = 0; i < count; i++) {
    double r = sqrt(-2 * log(1 - uniform(&seed)));
    tensor_set(&x, i, r * cos(6.283185307179586 * uniform(&seed)));
  }
  return x;
}

Tensor tensor_full(nereid_dtype t, int64_t count, double v) {
  Tensor x = make(t, count);
  for (int64_t i = 0; i < count; i++) tensor_set(&x, i, v);
  return x;
}

void tensor_free(Tensor *t) {
  free(t->values), free(t->data);
  *t = (Tensor){0};
}

void arg_tensor(Call *c, Tensor *t) { c->tensors[c->n] = t, c->args[c->n++] = nereid_pointer(NULL, t->dtype); }
void arg_int(Call *c, int64_t v) { c->args[c->n++] = nereid_int(v); }
void arg_float(Call *c, double v) { c->args[c->n++] = nereid_float(v); }
void arg_const(Call *c, const char *name, int64_t v) { c->args[c->n++] = nereid_named(nereid_constexpr_int(v), name); }

bool try_launch(const char *device, const char *file, const char *kernel, Call *c, int64_t gx, int64_t gy,
                nereid_error **error) {
  nereid_device *d = test_device(device);
  nereid_error *err = NULL;
  nereid_module *m = NULL;
  char path[512];
  const char *dir = getenv("NEREID_KERNELS_DIR"); /* where the program runs on another machine than built it */
  snprintf(path, sizeof path, "%s/%s", dir ? dir : KERNELS_DIR, file);
  nereid_status status = nereid_module_load(path, &m, &err);
  for (int i = 0; i < c->n && !status; i++) {
    Tensor *t = c->tensors[i];
    int64_t bytes = t ? t->count * (int64_t)nereid_dtype_bytes(t->dtype) : 0;
    if (!t) continue;
    status = nereid_alloc(d, bytes, &c->args[i].pointer, &err);
    if (!status) status = nereid_copy_to_device(d, c->args[i].pointer, t->data, bytes, &err);
  }
  int64_t grid[3] = {gx, gy, 1};
  c->options.check_races = !c->may_race;
  if (!status && gx * gy > 0 && getenv("NEREID_TEST_INSIDE")) { /* the same, instrumented: it must compute the same */
    nereid_instrument *in = NULL;
    status =
        nereid_instrument_run(d, m, kernel, grid, c->args, c->n, &c->options,
                              &(nereid_instrument_options){.trials = -1, .regions = NEREID_INSTRUMENT_BOTH}, &in, &err);
    nereid_instrument_free(in);
  } else if (!status) {
    status = nereid_launch(d, NULL, m, kernel, grid, c->args, c->n, &c->options, &err);
  }
  for (int i = 0; i < c->n && !status; i++) {
    Tensor *t = c->tensors[i];
    if (!t) continue;
    size_t item = nereid_dtype_bytes(t->dtype);
    status = nereid_copy_to_host(d, t->data, c->args[i].pointer, t->count * (int64_t)item, &err);
    for (int64_t k = 0; k < t->count; k++)
      t->values[k] = nereid_dtype_load(t->dtype, (char *)t->data + (size_t)k * item);
  }
  for (int i = 0; i < c->n; i++)
    if (c->tensors[i] && c->args[i].pointer) nereid_free(d, c->args[i].pointer), c->args[i].pointer = NULL;
  nereid_module_free(m);
  *error = err;
  return status == NEREID_OK;
}

void launch(const char *device, const char *file, const char *kernel, Call *c, int64_t gx, int64_t gy) {
  nereid_error *err = NULL;
  if (try_launch(device, file, kernel, c, gx, gy, &err)) return;
  print_error("%s on %s:\n%s\n", kernel, device, nereid_error_text(err));
  nereid_error_free(err);
  fail();
}

void check_close(const char *what, const Tensor *out, const double *want, const double *bound, int64_t n) {
  double u = unit_roundoff(out->dtype);
  for (int64_t i = 0; i < n; i++) {
    double got = out->values[i], allowed = bound[i] + u * (fabs(want[i]) + bound[i]) + 0x1p-149;
    if (isnan(want[i]) ? isnan(got) : got == want[i] || fabs(got - want[i]) <= allowed) continue;
    print_error("%s[%ld] is %.9g, want %.9g +- %.3g\n", what, (long)i, got, want[i], allowed);
    fail();
  }
}
