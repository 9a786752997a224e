/* roofline: what the machine can do at most, and where a kernel stands under it.
 *
 *     nereid roofline                        measures the ceilings, keeps them, prints them
 *     nereid roofline FILE:KERNEL ...        times a kernel as `nereid bench` does, and says what bounds it and how far
 * it is from that
 *
 * The picture (--plot) is the roofline: operations a byte to the right, operations a second upwards, both logarithmic.
 * Bandwidths are slopes, rates are flat; below them stand the points of the experiment (one array, a growing number of
 * products an element) and the kernels.
 */
#include "bench.h"

#include "base/json.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Roofline {
  Plan plan;
  const char *device, *plot;
  bool json, quick, measure, kept, cold, no_blas, not_kept;
  nereid_bench_options bench;
  int64_t started;
  nereid_ceilings ceilings;
  nereid_error *unkept; /* why the ceilings could not be kept */
  Placed placed[MAX_CASES];
  int placed_count;
} Roofline;

static int run_option(void *arg, int argc, char **argv) {
  Roofline *r = arg;
  const char *o = argv[0];
  bool *flag = !strcmp(o, "--json")      ? &r->json
               : !strcmp(o, "--quick")   ? &r->quick
               : !strcmp(o, "--measure") ? &r->measure
               : !strcmp(o, "--kept")    ? &r->kept
               : !strcmp(o, "--cold")    ? &r->cold
               : !strcmp(o, "--no-blas") ? &r->no_blas
                                         : NULL;
  if (flag) return *flag = true, 1;
  const char **text = !strcmp(o, "--device") ? &r->device : !strcmp(o, "--plot") ? &r->plot : NULL;
  bool repeat = !strcmp(o, "--repeat"), time = !strcmp(o, "--time");
  if (!text && !repeat && !time) return 0;
  if (argc < 2) return usage_error(&verb_roofline, "%s needs a value", o), -1;
  if (text) return *text = argv[1], 2;
  int v;
  if (!read_count(argv[1], 1, 1000000, &v))
    return usage_error(&verb_roofline, "%s %s: give a whole number above 0, at most 1000000", o, argv[1]), -1;
  if (repeat) r->bench.repeat = v;
  else r->bench.min_ms = (double)v;
  return 2;
}

/* ---- the ceilings ------------------------------------------------------------------------------------------------ */

static bool show_step(void *arg, const char *what, int done, int of) {
  Roofline *r = arg;
  progress(r->started, "measuring the ceilings, %d of %d: %s", done, of, what);
  return true;
}

static int measure_ceilings(Roofline *r, nereid_device *d) {
  nereid_error *err = NULL;
  nereid_ceilings_options o = {.quick = r->quick, .no_blas = r->no_blas, .progress = show_step, .progress_arg = r};
  if (nereid_ceilings_measure(d, &o, &r->ceilings, &err)) return report_error(err);
  progress_clear();
  nereid_ceilings *kept = malloc(sizeof *kept);
  if (!kept) return report_error(NULL);
  /* what is rough does not replace what is not */
  r->not_kept = r->quick && !nereid_ceilings_load(d, kept, NULL) && !kept->quick;
  free(kept);
  if (!r->not_kept) nereid_ceilings_save(&r->ceilings, &r->unkept);
  return 0;
}

static int get_ceilings(Roofline *r, nereid_device *d, bool has_kernel) {
  nereid_error *err = NULL;
  if (r->measure || (!has_kernel && !r->kept)) return measure_ceilings(r, d);
  if (!nereid_ceilings_load(d, &r->ceilings, &err)) return 0;
  if (r->kept) return report_error(err);
  nereid_error_free(err);
  return measure_ceilings(r, d); /* which this device does not have yet */
}

static void put(char out[24], double v) {
  snprintf(out, 24, v <= 0 ? "-" : v < 9.995 ? "%.2f" : v < 99.95 ? "%.1f" : "%.0f", v);
}

static void put_bytes(char out[24], double v) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  while (v >= 1024 && u < 4) v /= 1024, u++;
  snprintf(out, 24, v == (int)v ? "%.0f %s" : "%.1f %s", v, units[u]);
}

static void print_bandwidth(const nereid_bandwidth *b, const char *name) {
  char bytes[24], read[24], write[24], copy[24];
  put_bytes(bytes, b->bytes), put(read, b->read), put(write, b->write), put(copy, b->copy);
  printf("%-10s  %10s  %8s  %8s  %8s\n", name, b->bytes > 0 ? bytes : "", read, write, copy);
}

static void print_ceilings(const Roofline *r) {
  const nereid_ceilings *c = &r->ceilings;
  printf("ceilings of %s: %s\nmeasured %s UTC%s; %s\n\n", c->device, c->description, c->date,
         c->quick ? ", quickly: they are rough" : "",
         r->unkept     ? "not kept"
         : r->not_kept ? "not kept, for better ones are"
                       : "kept for bench and roofline");
  printf("GB/s             holds      read     write      copy\n");
  for (int i = 0; i < c->level_count; i++) print_bandwidth(&c->levels[i], c->levels[i].name);
  printf("\nGB/s      working set      read     write      copy\n");
  for (int i = 0; i < c->size_count; i++) print_bandwidth(&c->sizes[i], "");
  printf("\nGFLOP/s, a multiply-add as two; of i32, exp and div (f32) operations\n");
  for (int i = 0; i < NEREID_RATE_COUNT; i++) {
    char rate[24];
    put(rate, c->rates[i]);
    if (c->rates[i] > 0)
      printf("%-10s  %10s%s%s\n", nereid_rate_name((nereid_rate)i), rate, i >= NEREID_RATE_DOT_F64 ? "  " : "",
             i >= NEREID_RATE_DOT_F64 ? c->blas : "");
  }
  if (!*c->blas)
    printf("no rates of products of matrices: %s\n",
           !strncmp(c->device, "cuda", 4)
               ? "cuBLAS was not found (NEREID_LIBCUBLAS names its file)"
               : "OpenBLAS was not found (libopenblas0, or NEREID_LIBOPENBLAS names its file)");
  printf("\na launch of nothing takes %.2f us%s", c->launch_ns / 1000, c->replay_ns > 0 ? "" : "\n");
  if (c->replay_ns > 0) printf(", in a graph %.2f us\n", c->replay_ns / 1000);
  printf("\none array, read and written once, with products on each element in between\ntype   products  flop/byte     "
         " GB/s   GFLOP/s\n");
  for (int i = 0; i < c->point_count; i++) {
    const nereid_roofline_point *p = &c->points[i];
    double bytes = 2 * p->elements * (double)nereid_dtype_bytes(p->dtype), flops = p->operations * p->elements;
    char intensity[24], gbs[24], rate[24];
    snprintf(intensity, sizeof intensity, "%.4g", flops / bytes), put(gbs, bytes / p->ns), put(rate, flops / p->ns);
    printf("%-5s  %8d  %9s  %8s  %8s\n", nereid_dtype_name(p->dtype), p->operations, intensity, gbs, rate);
  }
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static bool show_trial(void *arg, int done, int of) {
  Roofline *r = arg;
  progress(r->started, "trial %d of %d", done, of < done ? done : of);
  return true;
}

static int place_case(Roofline *r, const Case *c, const nereid_bench_result *result) {
  Placed *p = &r->placed[r->placed_count];
  const nereid_times *plain = result->device.count ? &result->device : &result->wall;
  bool replayed = result->graph.count > 0;
  nereid_error *err = NULL;
  *p = (Placed){.label = format_string("%s", c->label),
                .cost = c->cost,
                .ns = replayed ? result->graph.min : plain->min,
                .replayed = replayed}; /* as ceilings are measured */
  if (!p->label) return report_error(NULL);
  r->placed_count++;
  if (!c->counted)
    return usage_error(&verb_roofline, "%s is a kernel of CUDA C: its operations cannot be counted", p->label);
  return nereid_bound_of(&r->ceilings, &p->cost, p->ns, r->cold, replayed, &p->bound, &err) ? report_error(err) : 0;
}

static int place_kernels(Roofline *r, nereid_device *d) {
  Case *cases = calloc(MAX_CASES, sizeof *cases);
  Words variables = {0};
  char *bytes = format_string("bytes=%lld", (long long)nereid_bench_bytes(d));
  int n = 0, status = cases && bytes && words_add(&variables, bytes) ? 0 : report_error(NULL);
  free(bytes);
  nereid_bench_case list[MAX_CASES];
  nereid_bench_result results[MAX_CASES];
  nereid_error *err = NULL;
  for (int i = 0; i < r->plan.segment_count && !status; i++) {
    if (r->plan.segments[i].follows) continue;
    if (n == MAX_CASES) status = usage_error(&verb_roofline, "at most %d kernels", MAX_CASES);
    else status = case_open(&cases[n++], d, &r->plan, i, &variables);
  }
  if (!status && !number_labels(cases, n)) status = report_error(NULL);
  for (int i = 0; i < n && !status; i++)
    list[i] = (nereid_bench_case){.launches = cases[i].bench, .launch_count = cases[i].count};
  r->bench.cold = r->cold, r->bench.progress = show_trial, r->bench.progress_arg = r;
  if (!status && nereid_bench_run(d, list, n, &r->bench, results, NULL, NULL, &err)) status = report_error(err);
  progress_clear();
  for (int i = 0; i < n && !status; i++) status = place_case(r, &cases[i], &results[i]);
  for (int i = 0; i < n; i++) case_close(&cases[i], d);
  free(cases);
  words_free(&variables);
  return status;
}

static void print_placed(const Roofline *r) {
  const nereid_ceilings *c = &r->ceilings;
  for (int i = 0; i < r->placed_count; i++) {
    const Placed *p = &r->placed[i];
    const nereid_bound *b = &p->bound;
    double bytes = b->working_set;
    char gbs[24], rate[24], intensity[24], time[24];
    put_row_time(time, p->ns), put(gbs, bytes / p->ns), put(rate, p->cost.flops / p->ns),
        put(intensity, bytes > 0 ? p->cost.flops / bytes : 0);
    printf("%s: %s%s, %s GB/s, %s GFLOP/s, %s operations a byte\n  %s\n", p->label, time,
           p->replayed ? " (in a graph)" : "", gbs, rate, intensity, b->text);
  }
  printf("(ceilings of %s, measured %s UTC%s)\n", c->device, c->date,
         c->quick ? ", quickly: they are rough; nereid roofline measures them well" : "");
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void put_bandwidths(JsonWriter *w, const char *name, const nereid_bandwidth *b, int n) {
  json_begin_array(w, name);
  for (int i = 0; i < n; i++) {
    json_break(w, "\n  ");
    json_begin_object(w, NULL);
    if (*b[i].name) json_put_text(w, "name", b[i].name);
    json_put_real(w, "bytes", 9, b[i].bytes);
    json_put_real(w, "read", 6, b[i].read);
    json_put_real(w, "write", 6, b[i].write);
    json_put_real(w, "copy", 6, b[i].copy);
    json_end_object(w);
  }
  json_end_array(w);
}

static void put_rates(JsonWriter *w, const char *name, const double rates[NEREID_RATE_COUNT]) {
  json_begin_object(w, name);
  for (int i = 0; i < NEREID_RATE_COUNT; i++)
    if (rates[i] > 0) json_put_real(w, nereid_rate_name((nereid_rate)i), 6, rates[i]);
  json_end_object(w);
}

static void put_ceilings(JsonWriter *w, const nereid_ceilings *c) {
  json_put_text(w, "device", c->device);
  json_put_text(w, "description", c->description);
  json_put_text(w, "date", c->date);
  json_put_bool(w, "quick", c->quick);
  put_bandwidths(w, "levels_gb_per_s", c->levels, c->level_count);
  put_bandwidths(w, "sizes_gb_per_s", c->sizes, c->size_count);
  json_break(w, "\n ");
  put_rates(w, "rates_gflop_per_s", c->rates);
  json_put_text(w, "blas", c->blas);
  json_put_real(w, "launch_ns", 6, c->launch_ns);
  json_put_real(w, "replay_ns", 6, c->replay_ns);
  json_begin_array(w, "points");
  for (int i = 0; i < c->point_count; i++) {
    const nereid_roofline_point *p = &c->points[i];
    json_break(w, "\n  ");
    json_begin_object(w, NULL);
    json_put_text(w, "dtype", nereid_dtype_name(p->dtype));
    json_put_int(w, "operations", p->operations);
    json_put_real(w, "elements", 9, p->elements);
    json_put_real(w, "ns", 9, p->ns);
    json_end_object(w);
  }
  json_end_array(w);
}

static void put_placed(JsonWriter *w, const Placed *p) {
  static const char *const kinds[] = {"memory", "requests", "arithmetic", "launch", "latency"};
  const nereid_bound *b = &p->bound;
  json_break(w, "\n  ");
  json_begin_object(w, NULL);
  json_put_text(w, "kernel", p->label);
  json_put_real(w, "ns", 9, p->ns);
  json_put_bool(w, "replayed", p->replayed);
  json_put_real(w, "flops", 17, p->cost.flops);
  json_put_real(w, "bytes", 17, b->working_set);
  json_put_text(w, "bound", kinds[b->kind]);
  json_put_text(w, "name", b->name);
  json_put_real(w, "share", 6, b->share);
  json_put_real(w, "least_ns", 6, b->least_ns);
  json_put_text(w, "level", b->level);
  json_put_real(w, "bandwidth", 6, b->bandwidth);
  json_put_real(w, "memory_ns", 6, b->memory_ns);
  json_put_real(w, "requests_ns", 6, b->requests_ns);
  json_put_real(w, "launch_ns", 6, b->launch_ns);
  put_rates(w, "rates_ns", b->rate_ns);
  json_put_text(w, "text", b->text);
  json_end_object(w);
}

static void print_json(const Roofline *r, bool has_kernel) {
  JsonWriter w = {.file = stdout};
  json_begin_object(&w, NULL);
  json_put_text(&w, "nereid", nereid_version());
  put_ceilings(&w, &r->ceilings);
  if (has_kernel) {
    json_break(&w, "\n ");
    json_begin_array(&w, "kernels");
    for (int i = 0; i < r->placed_count; i++) put_placed(&w, &r->placed[i]);
    json_end_array(&w);
  }
  json_end_object(&w);
  printf("\n");
}

/* ---- the verb ---------------------------------------------------------------------------------------------------- */

static int run_on(Roofline *r, nereid_device *d) {
  bool has_kernel = r->plan.segments[0].words.n > 0;
  int status = get_ceilings(r, d, has_kernel);
  if (!status && has_kernel) status = place_kernels(r, d);
  if (status) return nereid_error_free(r->unkept), status;
  if (r->json) print_json(r, has_kernel);
  else if (has_kernel) print_placed(r);
  else print_ceilings(r);
  if (r->plot) status = plot_roofline(&r->ceilings, r->placed, r->placed_count, r->plot);
  return r->unkept ? report_error(r->unkept) : status;
}

static int roofline(int argc, char **argv) {
  Roofline *r = calloc(1, sizeof *r);
  if (!r) return report_error(NULL);
  r->device = "cpu", r->started = now_ns(), r->plan.verb = &verb_roofline;
  nereid_device *d = NULL;
  nereid_error *err = NULL;
  int status = plan_words(&r->plan, argc - 1, argv + 1, run_option, r);
  if (!status && r->plan.sweep)
    status =
        usage_error(&verb_roofline, "--sweep is for nereid bench; here a kernel has one size, and --vs adds another");
  if (!status && r->kept && r->measure)
    status = usage_error(&verb_roofline, "--kept takes the ceilings that are there, --measure measures them; give one");
  if (!status && nereid_device_open(r->device, &d, &err)) status = report_error(err);
  if (!status) status = run_on(r, d);
  nereid_device_close(d);
  for (int i = 0; i < r->placed_count; i++) free(r->placed[i].label);
  plan_free(&r->plan);
  free(r);
  return status;
}

const Verb verb_roofline = {
    "roofline", "roofline [options], or roofline FILE[:KERNEL] ARG=SPEC ... --grid G [--vs FILE:KERNEL ...] [options]",
    "measures what the machine can do at most, and says what bounds a kernel", roofline,
    "  Without FILE: bandwidth by size through the caches, rates of arithmetic by type, of exp and division, of "
    "products of matrices (by cuBLAS or\n"
    "  OpenBLAS where one is found), what a launch takes, and the roofline's experiment: one array, a growing number "
    "of products an element. They\n"
    "  are kept in the cache folder, by device, for bench and for placing kernels.\n"
    "  With FILE: times the kernel as `nereid bench` does and says under which ceiling it stands; measures the "
    "ceilings first if they are not kept.\n\n"
    "  ARG=SPEC, --grid, --then, --vs, --cold, --repeat N, --time MS  as for nereid bench\n"
    "  --device D     cpu (default), cpu:THREADS, cuda, cuda:N\n"
    "  --plot FILE.svg  the roofline with the measured points, and the kernels\n"
    "  --measure      measure the ceilings anew, also with FILE; --kept: take those that are kept, also without FILE\n"
    "  --quick        small arrays and short trials: seconds, and rough; they are kept unless better ones are\n"
    "  --no-blas      without products of matrices by a library\n"
    "  --json         instead of the table\n\n"
    "example: nereid roofline kernels/vector_add.py n=2^24 'x_ptr=randn:f32[n]' 'y_ptr=randn:f32[n]' "
    "'out_ptr=empty:f32[n]' BLOCK=1024 --grid 'cdiv(n, BLOCK)' --plot roofline.svg\n"};
