/* Runs a kernel with its regions recorded (tile/passes/instrument.h has the form of the records,
 * measure/instrument_read.c what is made of them).
 *
 *     compile, plainly and instrumented ── run in turn: the slowdown ── run once more, its buffer cleared
 *                                       ── copy the buffer to the host, read it
 *
 * The buffer is memory of the device like any array, so that every device can fill it; a launch gets its address in
 * options.instrument_buffer.
 */
#include <stdlib.h>

#include "measure/instrument.h"
#include "prof/record/instrumented.h"

enum { USUAL_RECORDS = 16384, LEAST_RECORDS = 256, MOST_RECORDS = 1 << 24 };
static const int64_t most_bytes = (int64_t)256 << 20;

/* ---- the buffer -------------------------------------------------------------------------------------------------- */

typedef struct Recording {
  nereid_device *device;
  int64_t *blocks; /* without doubles, ascending */
  int64_t count, bytes;
  InstrumentBuffer *host; /* as it is before a launch, then what came back */
  void *at;               /* on the device */
} Recording;

static int ascending(const void *x, const void *y) {
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return a < b ? -1 : a > b;
}

static nereid_status choose_blocks(Recording *r, const nereid_instrument_options *o, int64_t total,
                                   nereid_error **error) {
  static const int64_t first = 0;
  const int64_t *list = o->blocks ? o->blocks : &first;
  int64_t n = o->all_blocks ? total : o->blocks ? o->block_count : 1;
  if (!o->all_blocks && o->blocks && n < 1)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "no block is to be recorded: block_count is %lld", (long long)n);
  if (n > most_bytes / (int64_t)sizeof(InstrumentWarp))
    return error_set(error, NEREID_BAD_ARGUMENT, "choose some of them", "%lld blocks are too many to record at once",
                     (long long)n);
  r->blocks = malloc(sizeof *r->blocks * (size_t)n);
  if (!r->blocks) return error_out_of_memory(error);
  for (int64_t i = 0; i < n; i++) r->blocks[i] = o->all_blocks ? i : list[i];
  qsort(r->blocks, (size_t)n, sizeof *r->blocks, ascending);
  for (int64_t i = 0; i < n; i++) {
    if (r->blocks[i] < 0 || r->blocks[i] >= total)
      return error_set(error, NEREID_BAD_ARGUMENT, NULL,
                       "block %lld is to be recorded, but the grid has blocks 0 to %lld", (long long)r->blocks[i],
                       (long long)total - 1);
    if (!r->count || r->blocks[r->count - 1] != r->blocks[i]) r->blocks[r->count++] = r->blocks[i];
  }
  return NEREID_OK;
}

static nereid_status make_buffer(Recording *r, const nereid_instrument_options *o, int warps, nereid_error **error) {
  if (o->records < 0 || o->records > MOST_RECORDS)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "room for %d records a warp; 1 to %d are possible", o->records,
                     MOST_RECORDS);
  int64_t programs = r->blocks[r->count - 1] + 1, areas = r->count * warps,
          records = o->records ? o->records : USUAL_RECORDS;
  if (programs > most_bytes / 4)
    return error_set(error, NEREID_BAD_ARGUMENT, "choose blocks of the grid's beginning",
                     "block %lld cannot be recorded: its number is too high", (long long)programs - 1);
  int64_t first = ((int64_t)sizeof(InstrumentBuffer) + 4 * programs + 63) & ~63LL,
          area = (int64_t)sizeof(InstrumentWarp);
  while (!o->records && records > LEAST_RECORDS &&
         areas * (area + records * (int64_t)sizeof(InstrumentRecord)) > most_bytes)
    records /= 2;
  int64_t stride = area + records * (int64_t)sizeof(InstrumentRecord);
  r->bytes = first + areas * stride;
  if (areas > most_bytes / stride)
    return error_set(error, NEREID_BAD_ARGUMENT, "record fewer blocks, or give fewer records a warp",
                     "%lld blocks of %d warps with room for %lld records each take %.1f GB; 0.25 GB are possible",
                     (long long)r->count, warps, (long long)records, (double)r->bytes / 1e9);
  if (!(r->host = calloc(1, (size_t)r->bytes))) return error_out_of_memory(error);
  *r->host =
      (InstrumentBuffer){(uint32_t)programs, (uint32_t)warps, (uint32_t)(records * (int64_t)sizeof(InstrumentRecord)),
                         (uint32_t)stride, (uint64_t)first};
  for (int64_t i = 0; i < r->count; i++) r->host->slot[r->blocks[i]] = (uint32_t)i + 1;
  nereid_status status = nereid_alloc(r->device, r->bytes, &r->at, error);
  return status ? status : nereid_copy_to_device(r->device, r->at, r->host, r->bytes, error);
}

static void recording_free(Recording *r) {
  if (r->at) nereid_free(r->device, r->at);
  free(r->host);
  free(r->blocks);
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

typedef struct Job {
  nereid_device *device;
  nereid_module *module;
  const char *kernel;
  const int64_t *grid;
  const nereid_arg *args;
  int arg_count;
  nereid_options plain, instrumented;
} Job;

/* Compiles the instrumented kernel; what it is called is kept in `in`. */
static nereid_status prepare(const Job *j, nereid_instrument *in, int *warps, nereid_error **error) {
  const KernelInfo *k = module_kernel(j->module, j->kernel, error);
  if (!k) return NEREID_BAD_ARGUMENT;
  if (j->module->is_cuda_c)
    return error_set(error, NEREID_UNSUPPORTED, "read clock64() in it",
                     "kernel '%s' is CUDA C, which is not instrumented", j->kernel);
  Call c;
  Specialization *s = NULL;
  nereid_status status = call_bind_on(&c, k, j->device, j->args, j->arg_count, &j->instrumented, error);
  if (!status) status = launch_specialization(j->device, j->module, &c, &j->instrumented, &s, error);
  call_free(&c);
  if (status) return status;
  *warps = j->device->kind == &device_cuda || j->device->kind == &device_sim ? s->block_warps : 1;
  in->names = instrument_names_copy(s->regions->count, s->regions->at);
  return in->names ? NEREID_OK : error_out_of_memory(error);
}

static nereid_status measure(const Job *j, int trials, nereid_instrument *in, nereid_error **error) {
  nereid_function *f[2] = {0};
  const nereid_options *options[2] = {&j->plain, &j->instrumented};
  nereid_bench_launch launches[2];
  nereid_bench_case cases[2] = {{0}};
  nereid_bench_result results[2];
  nereid_status status = NEREID_OK;
  for (int i = 0; i < 2 && !status; i++) {
    status = nereid_compile(j->device, j->module, j->kernel, j->args, j->arg_count, options[i], &f[i], error);
    launches[i] = (nereid_bench_launch){f[i], {j->grid[0], j->grid[1], j->grid[2]}, j->args, j->arg_count};
    cases[i].launches = &launches[i];
    cases[i].launch_count = 1;
  }
  const nereid_bench_options o = {.repeat = trials, .min_ms = 100, .trials_only = true};
  if (!status) status = nereid_bench_run(j->device, cases, 2, &o, results, NULL, NULL, error);
  for (int i = 0; i < 2 && !status; i++) {
    const nereid_times *t = results[i].device.count ? &results[i].device : &results[i].wall;
    *(i ? &in->info.instrument_ns : &in->info.plain_ns) = t->median;
  }
  for (int i = 0; i < 2; i++) nereid_function_free(f[i]);
  return status;
}

static nereid_status record(Job *j, const nereid_instrument_options *o, Recording *r, nereid_instrument *in,
                            nereid_error **error) {
  int warps = 0;
  int32_t grid[3];
  int64_t total = 0;
  nereid_status status = grid_check(j->grid, &j->plain, grid, &total, error);
  if (!status && !total)
    status = error_set(error, NEREID_BAD_ARGUMENT, NULL, "the grid (%d, %d, %d) has no block to record", grid[0],
                       grid[1], grid[2]);
  if (!status) status = choose_blocks(r, o, total, error);
  if (!status) status = prepare(j, in, &warps, error);
  if (!status) status = make_buffer(r, o, warps, error);
  if (status) return status;
  j->instrumented.instrument_buffer = r->at;
  bool is_time = j->device->kind == &device_cuda || j->device->kind == &device_cpu;
  if (is_time && o->trials >= 0) status = measure(j, o->trials, in, error);
  /* clear what that recorded */
  if (!status) status = nereid_copy_to_device(j->device, r->at, r->host, r->bytes, error);
  if (!status)
    status =
        nereid_launch(j->device, NULL, j->module, j->kernel, j->grid, j->args, j->arg_count, &j->instrumented, error);
  if (!status) status = nereid_synchronize(j->device, error);
  if (!status) status = nereid_copy_to_host(j->device, r->host, r->at, r->bytes, error);
  in->info.warps = warps;
  in->info.blocks = r->count;
  in->info.unit = j->device->kind == &device_cuda ? "cycles" : j->device->kind == &device_cpu ? "ns" : "operations";
  in->info.ns_per_unit = j->device->kind == &device_cpu ? 1 : 0;
  return status ? status : instrument_read(in, &(InstrumentPlace){r->host, r->blocks, r->count}, error);
}

nereid_status nereid_instrument_run(nereid_device *d, nereid_module *m, const char *kernel, const int64_t grid[3],
                                    const nereid_arg *args, int arg_count, const nereid_options *options,
                                    const nereid_instrument_options *inside, nereid_instrument **out,
                                    nereid_error **error) {
  static const nereid_instrument_options usual;
  if (!d) return error_null(error, "nereid_instrument_run", "the device");
  if (!m) return error_null(error, "nereid_instrument_run", "the module");
  if (!kernel) return error_null(error, "nereid_instrument_run", "the kernel's name");
  if (!out) return error_null(error, "nereid_instrument_run", "out");
  if (!inside) inside = &usual;
  TAKE_OPTIONS(options);
  Job j = {d, m, kernel, grid, args, arg_count, *options, {0}};
  j.plain.instrument = NEREID_INSTRUMENT_OFF;
  j.instrumented = j.plain;
  j.instrumented.instrument = inside->regions ? (int)inside->regions : NEREID_INSTRUMENT_DEFAULT;
  Recording r = {.device = d};
  nereid_instrument *in = calloc(1, sizeof *in);
  if (!in || !(in->kernel = strdup(kernel))) {
    free(in);
    return error_out_of_memory(error);
  }
  snprintf(in->device, sizeof in->device, "%s", d->name);
  nereid_status status = record(&j, inside, &r, in, error);
  recording_free(&r);
  if (status) nereid_instrument_free(in);
  else *out = in;
  return status;
}

/* ---- what the caller sees ---------------------------------------------------------------------------------------- */

void nereid_instrument_get_info(const nereid_instrument *in, nereid_instrument_info *out) {
  if (!in || !out) return;
  *out = in->info;
  out->kernel = in->kernel;
  out->device = in->device;
}

const nereid_instrument_region *nereid_instrument_region_at(const nereid_instrument *in, int64_t i) {
  return in && i >= 0 && i < in->info.region_count ? &in->regions[i] : NULL;
}

const nereid_instrument_span *nereid_instrument_span_at(const nereid_instrument *in, int64_t i) {
  return in && i >= 0 && i < in->info.span_count ? &in->spans[i] : NULL;
}

nereid_status nereid_instrument_save(const nereid_instrument *in, const char *path, nereid_error **error) {
  if (!in) return error_null(error, "nereid_instrument_save", "what was recorded");
  if (!path) return error_null(error, "nereid_instrument_save", "the path");
  int64_t n = in->info.span_count;
  InstrumentSpan *spans = malloc(sizeof *spans * (size_t)(n + 1));
  if (!spans) return error_out_of_memory(error);
  double scale = in->info.ns_per_unit ? in->info.ns_per_unit : 1;
  for (int64_t i = 0; i < n; i++) {
    const nereid_instrument_span *s = &in->spans[i];
    spans[i] = (InstrumentSpan){s->region < 0 ? in->kernel : in->regions[s->region].name,
                                s->block,
                                s->warp,
                                s->sm,
                                s->depth,
                                (int64_t)(s->start * scale + 0.5),
                                (int64_t)(s->end * scale + 0.5)};
  }
  int number = instrument_trace(
      path, in->kernel, !strcmp(in->device, "cpu") || !strncmp(in->device, "cpu:", 4) ? "processor" : "SM",
      in->info.warps, !strncmp(in->device, "sim", 3) || !strcmp(in->device, "interp"), spans, n, in->info.lost);
  free(spans);
  if (!number) return NEREID_OK;
  return error_errno(error, NEREID_BAD_FILE, number, "cannot write %s", path);
}

void nereid_instrument_free(nereid_instrument *in) {
  if (!in) return;
  instrument_free_regions(in->names);
  free(in->number);
  free(in->regions);
  free(in->spans);
  free(in->kernel);
  free(in);
}
