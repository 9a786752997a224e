/* harness: see harness.h. */
#include "harness.h"

#include "fakes/malloc.h"

#ifndef KERNELS_DIR
#define KERNELS_DIR "kernels"
#endif

static nereid_device *opened[8], *in_order;

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
  nereid_device_close(in_order), in_order = NULL;
}

void on_every_device(void (*test)(const char *device)) {
  assert_non_null(test_devices[0]); /* to test on no device is to test nothing */
  for (int i = 0; test_devices[i]; i++) test(test_devices[i]);
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

typedef struct Job {
  nereid_device *d;
  const char *path, *kernel;
  const Call *c;
  const int64_t *grid;
  const char *stage; /* NULL: a launch; else what nereid_inspect shows */
} Job;
typedef struct Result {
  void *arrays[MAX_ARGS];
  char *text;
} Result;

static int64_t bytes_of(const Tensor *t) { return t ? t->count * (int64_t)nereid_dtype_bytes(t->dtype) : 0; }

static nereid_status launch_as_asked(const Job *j, nereid_module *m, const nereid_arg *args, nereid_error **err) {
  const Call *c = j->c;
  if (j->grid[0] * j->grid[1] == 0 || !getenv("NEREID_TEST_INSIDE"))
    return nereid_launch(j->d, NULL, m, j->kernel, j->grid, args, c->n, &c->options, err);
  nereid_instrument *in = NULL; /* the same, instrumented: it must compute the same */
  nereid_status status =
      nereid_instrument_run(j->d, m, j->kernel, j->grid, args, c->n, &c->options,
                            &(nereid_instrument_options){.trials = -1, .regions = NEREID_INSTRUMENT_BOTH}, &in, err);
  nereid_instrument_free(in);
  return status;
}

/* From the file to the results; the tensors stay as they are. */
static nereid_status run_job(const Job *j, Result *r, nereid_error **err) {
  const Call *c = j->c;
  nereid_arg args[MAX_ARGS];
  memcpy(args, c->args, sizeof args);
  nereid_module *m = NULL;
  nereid_status status = nereid_module_load(j->path, &m, err);
  if (j->stage) {
    if (!status) status = nereid_inspect(m, j->kernel, args, c->n, &c->options, j->stage, "sm_90a", &r->text, err);
    nereid_module_free(m);
    return status;
  }
  for (int i = 0; i < c->n && !status; i++) {
    Tensor *t = c->tensors[i];
    if (!t) continue;
    status = nereid_alloc(j->d, bytes_of(t), &args[i].pointer, err);
    if (!status) status = nereid_copy_to_device(j->d, args[i].pointer, t->data, bytes_of(t), err);
  }
  if (!status) status = launch_as_asked(j, m, args, err);
  for (int i = 0; i < c->n && !status; i++)
    if (c->tensors[i]) status = nereid_copy_to_host(j->d, r->arrays[i], args[i].pointer, bytes_of(c->tensors[i]), err);
  for (int i = 0; i < c->n; i++)
    if (c->tensors[i] && args[i].pointer) nereid_free(j->d, args[i].pointer);
  nereid_module_free(m);
  return status;
}

static Result result_create(const Call *c) {
  Result r = {0};
  for (int i = 0; i < c->n; i++)
    if (c->tensors[i]) assert_non_null(r.arrays[i] = calloc(1, (size_t)bytes_of(c->tensors[i]) + 1));
  return r;
}
static void result_destroy(Result *r) {
  for (int i = 0; i < MAX_ARGS; i++) free(r->arrays[i]);
  free(r->text);
}
static bool same_result(const Call *c, const Result *a, const Result *b) {
  for (int i = 0; i < c->n; i++)
    if (c->tensors[i] && memcmp(a->arrays[i], b->arrays[i], (size_t)bytes_of(c->tensors[i]))) return false;
  return !a->text || (b->text && !strcmp(a->text, b->text));
}

/* The same again with an allocation refused: it fails cleanly, or gives what it gave. */
static void run_refused(const Job *j, const Result *want, long n, bool later) {
  Result r = result_create(j->c);
  nereid_error *err = NULL;
  malloc_refuse(n, later);
  nereid_status status = run_job(j, &r, &err);
  malloc_refuse(0, false);
  const char *wrong = !status != !err             ? "status and error differ"
                      : status == NEREID_INTERNAL ? nereid_error_text(err)
                                                  : NULL;
  if (!status && !j->c->may_race && !same_result(j->c, want, &r)) wrong = "the result is wrong";
  if (wrong)
    fail_msg("%s of %s %s, allocation %ld%s: %s", j->kernel, j->path, j->stage ? j->stage : "", n,
             later ? " and all after it" : "", wrong);
  nereid_error_free(err);
  result_destroy(&r);
}

/* A CPU of one thread, on which programs run in order. */
static nereid_device *one_thread(void) {
  nereid_error *err = NULL;
  if (!in_order && nereid_device_open("cpu:1", &in_order, &err)) fail_msg("%s", nereid_error_text(err));
  return in_order;
}

/* $NEREID_TEST_ALLOCATIONS: how many allocations of each launch (1) are refused, drawn from all that it makes, alone
 * and with all after them; "all": each. */
static void refuse_some(const Job *j, const Result *want, long count) {
  static uint64_t seed = 1;
  const char *asked = getenv("NEREID_TEST_ALLOCATIONS");
  bool all = asked && !strcmp(asked, "all");
  long tries = all ? count : asked ? atol(asked) : 1;
  if (!malloc_refuses() || getenv("NEREID_TEST_INSIDE")) return;
  for (long i = 0; i < tries; i++)
    for (int later = 0; later < 2; later++)
      run_refused(j, want, all ? i + 1 : 1 + (long)(uniform(&seed) * (double)count), later);
}

/* The result; err is not NULL where there is none. */
static Result run_soundly(const Job *j, long *count, nereid_error **err) {
  Result r = result_create(j->c);
  malloc_refuse(0, false);
  run_job(j, &r, err);
  *count = malloc_count();
  return r;
}

static bool run_here(const char *device, const char *file, const char *kernel, Call *c, int64_t gx, int64_t gy,
                     bool refuse, nereid_error **error) {
  char path[512];
  const char *dir = getenv("NEREID_KERNELS_DIR"); /* where the program runs on another machine than built it */
  snprintf(path, sizeof path, "%s/%s", dir ? dir : KERNELS_DIR, file);
  c->options.check_races = !c->may_race;
  int64_t grid[3] = {gx, gy, c->grid_z ? c->grid_z : 1};
  Job j = {test_device(device), path, kernel, c, grid, NULL};
  long count;
  *error = NULL;
  Result r = run_soundly(&j, &count, error);
  if (refuse && !*error && c->any_order && !strncmp(device, "cpu", 3)) {
    j.d = one_thread();
    Result ordered = run_soundly(&j, &count, error);
    if (!*error) refuse_some(&j, &ordered, count);
    result_destroy(&ordered);
  } else if (refuse && !*error && strncmp(device, "cuda", 4)) /* a driver allocates, too */
    refuse_some(&j, &r, count);
  if (refuse && !*error && !strncmp(device, "sim", 3)) {
    j.stage = "ptx";
    nereid_error *unsupported = NULL;
    Result text = run_soundly(&j, &count, &unsupported);
    if (!unsupported) refuse_some(&j, &text, count);
    nereid_error_free(unsupported);
    result_destroy(&text);
  }
  for (int i = 0; i < c->n && !*error; i++) {
    Tensor *t = c->tensors[i];
    if (!t) continue;
    size_t item = nereid_dtype_bytes(t->dtype);
    memcpy(t->data, r.arrays[i], (size_t)bytes_of(t));
    for (int64_t k = 0; k < t->count; k++)
      t->values[k] = nereid_dtype_load(t->dtype, (char *)t->data + (size_t)k * item);
  }
  result_destroy(&r);
  return !*error;
}

bool try_launch(const char *device, const char *file, const char *kernel, Call *c, int64_t gx, int64_t gy,
                nereid_error **error) {
  return run_here(device, file, kernel, c, gx, gy, false, error);
}

void launch(const char *device, const char *file, const char *kernel, Call *c, int64_t gx, int64_t gy) {
  nereid_error *err = NULL;
  if (run_here(device, file, kernel, c, gx, gy, true, &err)) return;
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
