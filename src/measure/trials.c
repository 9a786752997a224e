/* Measuring: trials of several cases in turn, and the figures of their times.
 *
 * A round runs each case once, and the copy where it is asked for. A trial is: caches filled with other data (cold), an
 * event, the launches, an event, a synchronisation; the host's clock stands around all but the first. A case that is
 * another process's kernel measures itself; then each of ours is launched once before it is timed, for what the other
 * has left in the caches is no concern of it. Last, on a device with graphs, each case is replayed many times as one
 * graph: the kernels' time alone. What lies in the caches of a CPU's cores is put there by a kernel that runs on them,
 * so the caches are filled by the same copy that measures the ceiling, on arrays that no cache holds.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/runtime.h"

enum {
  LEAST_TRIALS = 5,
  FEW_TRIALS = 3,
  /* of what takes longer than all of a case's time */ MOST_TRIALS = 1000,
  WARMUP = 3,
  MANY_LAUNCHES = 20
};
static const double min_ms_default = 200;

static const char copy_text[] = "import triton\n"
                                "import triton.language as tl\n"
                                "\n"
                                "@triton.jit\n"
                                "def copy(x, out, BLOCK: tl.constexpr):\n"
                                "    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)\n"
                                "    tl.store(out + i, tl.load(x + i))\n";

/* ---- the figures of numbers -------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Between the two samples around the place, as NumPy's percentile does. */
static double quantile(const double *sorted, int n, double q) {
  double at = q * (n - 1);
  int i = (int)at;
  return i + 1 < n ? sorted[i] + (sorted[i + 1] - sorted[i]) * (at - i) : sorted[n - 1];
}

nereid_times nereid_times_of(double *samples, int n) {
  nereid_times t = {0};
  if (!samples || n < 1) return t;
  qsort(samples, (size_t)n, sizeof *samples, by_value);
  double sum = 0, squares = 0;
  for (int i = 0; i < n; i++) sum += samples[i];
  t.count = n, t.mean = sum / n, t.min = samples[0], t.max = samples[n - 1];
  for (int i = 0; i < n; i++) squares += (samples[i] - t.mean) * (samples[i] - t.mean);
  t.deviation = n > 1 ? sqrt(squares / (n - 1)) : 0;
  t.median = quantile(samples, n, 0.5), t.p10 = quantile(samples, n, 0.1), t.p90 = quantile(samples, n, 0.9);
  return t;
}

/* ---- the copy ---------------------------------------------------------------------------------------------------- */

enum { COPY_BLOCK = 4096 }; /* elements of 4 bytes */

typedef struct Copy {
  nereid_module *module;
  nereid_function *function;
  void *from, *to;
  nereid_arg args[3];
  nereid_bench_launch launch;
  nereid_bench_case as_case;
  int64_t bytes; /* of one array */
} Copy;

/* As much as the last cache holds, and no less than 64 MiB; a GPU's holds up to 126 MiB. */
int64_t nereid_bench_bytes(const nereid_device *d) {
  if (d && d->kind == &device_cuda) return (int64_t)512 << 20;
  if (d && d->kind != &device_cpu) return 1 << 14; /* where nothing is cached, and time is short */
  int64_t least = (int64_t)64 << 20, most = (int64_t)512 << 20, bytes = least;
#ifdef _SC_LEVEL3_CACHE_SIZE
  int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE),
          memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 16;
  if (cache > bytes) bytes = cache;
  if (bytes > memory) bytes = memory;
#endif
  return bytes < least ? least : bytes > most ? most : bytes;
}

static void copy_close(nereid_device *d, Copy *c) {
  nereid_function_free(c->function);
  nereid_module_free(c->module);
  if (c->from) nereid_free(d, c->from);
  if (c->to) nereid_free(d, c->to);
}

static nereid_status copy_open(nereid_device *d, int64_t bytes, Copy *c, nereid_error **error) {
  const int64_t unit = COPY_BLOCK * 4;
  if (bytes <= 0) bytes = nereid_bench_bytes(d);
  c->bytes = align_up(bytes, unit);
  nereid_status status = nereid_alloc(d, c->bytes, &c->from, error);
  if (!status) status = nereid_alloc(d, c->bytes, &c->to, error);
  if (!status) status = nereid_fill_async(d, NULL, c->from, 1, c->bytes, error);
  if (!status) status = nereid_fill_async(d, NULL, c->to, 2, c->bytes, error);
  if (!status) status = nereid_module_load_string("copy.py", copy_text, &c->module, error);
  c->args[0] = nereid_pointer(c->from, NEREID_I32), c->args[1] = nereid_pointer(c->to, NEREID_I32);
  c->args[2] = nereid_constexpr_int(COPY_BLOCK);
  if (!status) status = nereid_compile(d, c->module, "copy", c->args, 3, NULL, &c->function, error);
  c->launch = (nereid_bench_launch){c->function, {c->bytes / unit, 1, 1}, c->args, 3};
  c->as_case = (nereid_bench_case){&c->launch, 1};
  return status;
}

/* ---- trials ------------------------------------------------------------------------------------------------------ */

/* ns; spent: all trials together, with what prepares them; slow: warm after one */
typedef struct Samples {
  double *device, *wall, *launch;
  double spent;
  int count;
  bool slow;
} Samples;

typedef struct Bench {
  nereid_device *device;
  const nereid_bench_options *options;
  nereid_event *start, *end; /* NULL: the device has none */
  bool others;               /* a case is another process's */
  Copy copy;
  bool has_copy;
} Bench;

static nereid_status launch_all(const nereid_bench_case *c, nereid_stream *s, nereid_error **error) {
  nereid_status status = NEREID_OK;
  for (int i = 0; i < c->launch_count && !status; i++) {
    const nereid_bench_launch *l = &c->launches[i];
    status = nereid_run(l->function, s, l->grid, l->args, l->arg_count, error);
  }
  return status;
}

static nereid_status trial(Bench *b, const nereid_bench_case *c, Samples *s, nereid_error **error) {
  nereid_status status = NEREID_OK;
  int64_t start = clock_ns();
  if (c->trial) {
    double device = 0, wall = 0;
    if (!c->trial(c->trial_arg, b->options->cold, &device, &wall))
      return error_set(error, NEREID_BAD_ARGUMENT, NULL,
                       "nereid_bench_run: a case of the caller's own ended the measurement");
    if (!s) return NEREID_OK;
    s->device[s->count] = device, s->wall[s->count] = wall, s->launch[s->count] = 0;
    s->spent += (double)(clock_ns() - start);
    s->count++;
    return NEREID_OK;
  }
  if (b->others && !b->options->cold) status = launch_all(c, NULL, error);
  if (!status && b->options->cold && c != &b->copy.as_case) status = launch_all(&b->copy.as_case, NULL, error);
  if (!status) status = nereid_synchronize(b->device, error);
  if (!status && b->start) status = nereid_event_record(b->start, NULL, error);
  int64_t begin = clock_ns();
  if (!status) status = launch_all(c, NULL, error);
  int64_t launched = clock_ns();
  if (!status && b->end) status = nereid_event_record(b->end, NULL, error);
  if (!status) status = nereid_synchronize(b->device, error);
  int64_t done = clock_ns();
  double ms = 0;
  if (!status && b->end) status = nereid_event_elapsed(b->start, b->end, &ms, error);
  if (status || !s) return status;
  s->device[s->count] = ms * 1e6;
  s->wall[s->count] = (double)(done - begin);
  s->launch[s->count] = (double)(launched - begin);
  s->spent += (double)(done - start);
  s->count++;
  return NEREID_OK;
}

static nereid_status queued(Bench *b, const nereid_bench_case *c, double one, double *out, nereid_error **error) {
  double fit = b->options->min_ms > 0 ? b->options->min_ms * 1e6 : min_ms_default * 1e6;
  int n = one * MANY_LAUNCHES < fit ? MANY_LAUNCHES : (int)(fit / one);
  if (n < 2) n = 2;
  nereid_status status = nereid_synchronize(b->device, error);
  int64_t begin = clock_ns();
  for (int i = 0; i < n && !status; i++) status = launch_all(c, NULL, error);
  if (!status) status = nereid_synchronize(b->device, error);
  *out = (double)(clock_ns() - begin) / n;
  return status;
}

/* ---- as a graph -------------------------------------------------------------------------------------------------- */

enum { GRAPH_TRIALS = 5, GRAPH_LAUNCHES = 100 };

static nereid_status graph_of(Bench *b, nereid_stream *s, const nereid_bench_case *c, int times, nereid_graph **out,
                              nereid_error **error) {
  nereid_status status = nereid_graph_begin(b->device, s, error);
  if (status) return status;
  nereid_error *why = NULL;
  for (int i = 0; i < times && !status; i++) status = launch_all(c, s, &why);
  nereid_status ended = nereid_graph_end(b->device, s, out, status ? NULL : &why);
  if (!status) status = ended;
  else nereid_graph_free(ended ? NULL : *out), *out = NULL;
  if (error && why) *error = why;
  else nereid_error_free(why);
  return status;
}

/* A trial's time when many are replayed as one graph. Nothing is said where the driver has no graphs. */
static nereid_status replayed(Bench *b, const nereid_bench_case *c, double one, nereid_times *out,
                              nereid_error **error) {
  double want = (b->options->min_ms > 0 ? b->options->min_ms : min_ms_default) * 1e6 / GRAPH_TRIALS,
         samples[GRAPH_TRIALS];
  int times = one * GRAPH_LAUNCHES < want ? GRAPH_LAUNCHES : (int)(want / one), n = 0;
  if (times < 2) return NEREID_OK; /* so long that a launch does not show */
  nereid_stream *s = NULL;
  nereid_graph *g = NULL;
  nereid_error *why = NULL;
  nereid_status status = nereid_stream_create(b->device, &s, &why);
  if (!status) status = graph_of(b, s, c, times, &g, &why);
  if (!status) status = nereid_graph_launch(g, s, &why);
  for (; n < GRAPH_TRIALS && !status; n++) {
    double ms = 0;
    status = nereid_event_record(b->start, s, &why);
    if (!status) status = nereid_graph_launch(g, s, &why);
    if (!status) status = nereid_event_record(b->end, s, &why);
    if (!status) status = nereid_stream_synchronize(b->device, s, &why);
    if (!status) status = nereid_event_elapsed(b->start, b->end, &ms, &why);
    samples[n] = ms * 1e6 / times;
  }
  nereid_graph_free(g);
  nereid_stream_destroy(s);
  if (status == NEREID_UNSUPPORTED) status = NEREID_OK, nereid_error_free(why), why = NULL;
  else if (!status) *out = nereid_times_of(samples, n);
  if (error && why) *error = why;
  else nereid_error_free(why);
  return status;
}

/* Whether a case has had its trials. Without a number of them a short case goes on when a long one is done. */
static bool enough(const Bench *b, const Samples *s) {
  const nereid_bench_options *o = b->options;
  if (o->repeat > 0) return s->count >= o->repeat;
  double want = (o->min_ms > 0 ? o->min_ms : min_ms_default) * 1e6;
  int least = s->count && s->spent / s->count > want ? FEW_TRIALS : LEAST_TRIALS;
  return s->count >= least && (s->count >= MOST_TRIALS || s->spent >= want);
}

static nereid_bench_result result_of(const Bench *b, const nereid_bench_case *c, Samples *s) {
  nereid_bench_result r = {.wall = nereid_times_of(s->wall, s->count)};
  if (c->trial && s->count && s->device[0] > 0) r.device = nereid_times_of(s->device, s->count);
  if (!b->start || c->trial) return r;
  r.device = nereid_times_of(s->device, s->count);
  r.launch = nereid_times_of(s->launch, s->count);
  return r;
}

/* The samples of n cases; the last, where there is one more, is the copy's. */
static nereid_status rounds(Bench *b, const nereid_bench_case *const *cases, Samples *s, int n, nereid_error **error) {
  const nereid_bench_options *o = b->options;
  nereid_status status = NEREID_OK;
  int warmup = o->warmup > 0 ? o->warmup : WARMUP;
  double want = (o->min_ms > 0 ? o->min_ms : min_ms_default) * 1e6;
  for (int w = 0; w < warmup && !status; w++)
    for (int i = 0; i < n && !status; i++) {
      int64_t began = clock_ns();
      if (!s[i].slow) status = trial(b, cases[i], NULL, error);
      s[i].slow |= !o->warmup && (double)(clock_ns() - began) > want;
    }
  for (int round = 0; !status; round++) {
    bool all = true;
    for (int i = 0; i < n && !status; i++) {
      if (enough(b, &s[i])) continue;
      all = false;
      status = trial(b, cases[i], &s[i], error);
    }
    if (all || status) break;
    int of = o->repeat;
    for (int i = 0; i < n && o->repeat <= 0; i++) { /* as many as the time will allow the shortest case */
      double guess = s[i].spent > 0 ? want / s[i].spent * s[i].count : MOST_TRIALS;
      guess = guess < LEAST_TRIALS ? LEAST_TRIALS : guess < MOST_TRIALS ? guess : MOST_TRIALS;
      if (guess > of) of = (int)guess;
    }
    if (o->progress && !o->progress(o->progress_arg, round + 1, of)) break;
  }
  return status;
}

static nereid_status measure(Bench *b, const nereid_bench_case *cases, int n, nereid_bench_result *results,
                             nereid_bench_result *copy, nereid_error **error) {
  int all = n + (b->has_copy && b->options->copy),
      most = b->options->repeat > MOST_TRIALS ? b->options->repeat : MOST_TRIALS;
  Samples *s = calloc((size_t)all + 1, sizeof *s);
  const nereid_bench_case **list = calloc((size_t)all + 1, sizeof *list);
  double *numbers = malloc(sizeof *numbers * 3 * (size_t)most * ((size_t)all + 1));
  nereid_status status = s && list && numbers ? NEREID_OK : error_out_of_memory(error);
  for (int i = 0; i < all && !status; i++) {
    list[i] = i < n ? &cases[i] : &b->copy.as_case;
    double *own = numbers + 3 * (size_t)most * (size_t)i;
    s[i] = (Samples){.device = own, .wall = own + most, .launch = own + 2 * most};
  }
  if (!status) status = rounds(b, list, s, all, error);
  for (int i = 0; i < all && !status; i++) {
    nereid_bench_result r = result_of(b, list[i], &s[i]);
    bool ours = i < n && !cases[i].trial && !b->options->cold && !b->options->trials_only;
    if (ours && r.wall.median < 0.5e6 * (b->options->min_ms > 0 ? b->options->min_ms : min_ms_default))
      status = queued(b, &cases[i], r.wall.median, &r.queued, error);
    if (ours && !status && b->start) status = replayed(b, &cases[i], r.device.median, &r.graph, error);
    if (i < n) results[i] = r;
    else *copy = r;
  }
  free(s), free(list), free(numbers);
  return status;
}

static nereid_status check(const nereid_device *d, const nereid_bench_case *cases, int n, const nereid_bench_options *o,
                           const nereid_bench_result *results, nereid_error **error) {
  if (!d) return error_null(error, "nereid_bench_run", "the device");
  if (n < 0 || (n && (!cases || !results)))
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_bench_run: %d cases at NULL", n);
  for (int i = 0; i < n; i++) {
    if (cases[i].trial) continue;
    if (cases[i].launch_count < 1 || !cases[i].launches)
      return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_bench_run: case %d has no launches", i);
    for (int k = 0; k < cases[i].launch_count; k++)
      if (!cases[i].launches[k].function) return error_null(error, "nereid_bench_run", "a launch's function");
  }
  if (o->warmup < 0 || o->repeat < 0 || o->repeat > 1000000 || o->copy_bytes < 0 || !(o->min_ms >= 0))
    return error_set(error, NEREID_BAD_ARGUMENT, "0 asks for the usual one; at most 1000000 trials",
                     "nereid_bench_run: warmup %d, repeat %d, min_ms %g, copy_bytes %lld make no sense", o->warmup,
                     o->repeat, o->min_ms, (long long)o->copy_bytes);
  return NEREID_OK;
}

nereid_status nereid_bench_run(nereid_device *d, const nereid_bench_case *cases, int n, const nereid_bench_options *o,
                               nereid_bench_result *results, nereid_bench_result *copy, int64_t *copy_bytes,
                               nereid_error **error) {
  static const nereid_bench_options usual = {0};
  nereid_bench_result unused;
  Bench b = {.device = d, .options = o ? o : &usual};
  nereid_status status = check(d, cases, n, b.options, results, error);
  if (status) return status;
  for (int i = 0; i < n; i++) b.others |= cases[i].trial != NULL;
  if (!copy) copy = &unused;
  *copy = (nereid_bench_result){0};
  if (copy_bytes) *copy_bytes = 0;
  b.has_copy = (b.options->copy || b.options->cold) && (d->kind == &device_cpu || d->kind == &device_cuda);
  if (b.has_copy) status = copy_open(d, b.options->copy_bytes, &b.copy, error);
  if (!status && b.options->cold && !b.has_copy)
    status = error_set(error, NEREID_UNSUPPORTED, "measure cold on cpu or cuda", "the device %s has no caches to empty",
                       d->name);
  if (!status && d->kind->async) status = nereid_event_create(d, &b.start, error);
  if (!status && d->kind->async) status = nereid_event_create(d, &b.end, error);
  if (!status) status = measure(&b, cases, n, results, copy, error);
  if (!status && copy_bytes && copy->wall.count) *copy_bytes = 2 * b.copy.bytes;
  nereid_event_destroy(b.start), nereid_event_destroy(b.end);
  copy_close(d, &b.copy);
  return status;
}
