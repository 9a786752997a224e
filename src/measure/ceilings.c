/* Measuring a machine's ceilings, by the kernels of kernels/roofline.py, which the library carries as text.
 *
 * Each kernel repeats its work `iterations` times, and iterations grow until a trial is long enough to be timed. Of
 * several trials the shortest counts: a ceiling is what the machine can do, not what it did while something else ran.
 *
 * Bandwidth is taken at working sets from a few KiB, doubled, to what no cache holds: each program goes over its slice
 * again and again. On a CPU a thread keeps its slice, and so finds it in its own caches. On a GPU the slices move on by
 * one program an iteration, since what one kernel leaves for the next lies in the L2 cache; what a multiprocessor's L1
 * gives is measured apart, with slices that stay.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "measure/ceilings.h"
#include "rt/cuda/cuda.h"

static const char text[] =
#include "roofline.py.inc"
    ;

typedef struct Meter {
  nereid_device *device;
  nereid_module *module;
  const nereid_ceilings_options *options;
  bool cuda;
  int processors; /* threads, or multiprocessors */
  int l2_bytes;   /* of a GPU */
  double enough;  /* ns of a trial */
  double ms;      /* of a measurement's trials together */
  int done, of;
} Meter;

static nereid_status step(Meter *m, const char *what, nereid_error **error) {
  const nereid_ceilings_options *o = m->options;
  if (o->progress && !o->progress(o->progress_arg, what, m->done < m->of ? m->done : m->of, m->of))
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_ceilings_measure: stopped by the caller");
  m->done++;
  return NEREID_OK;
}

/* The shortest of so many trials of one launch, ns; of 0 trials as many as m->ms allow. */
static nereid_status time_launch(Meter *m, nereid_function *f, const int64_t grid[3], const nereid_arg *args, int n,
                                 int trials, double *ns, nereid_error **error) {
  nereid_bench_launch launch = {f, {grid[0], grid[1], grid[2]}, args, n};
  nereid_bench_case one = {.launches = &launch, .launch_count = 1};
  nereid_bench_options o = {.warmup = 1, .repeat = trials, .min_ms = m->ms, .trials_only = true};
  nereid_bench_result r;
  nereid_status status = nereid_bench_run(m->device, &one, 1, &o, &r, NULL, NULL, error);
  if (!status) *ns = r.device.count ? r.device.min : r.wall.min;
  return status;
}

/* The same for a kernel whose argument `iterations` says how often it does its work: ns an iteration. */
static nereid_status time_iterations(Meter *m, const char *kernel, int64_t programs, nereid_arg *args, int n,
                                     int iterations, int warps, double *ns, nereid_error **error) {
  nereid_options o = {.num_warps = m->cuda ? warps : 0};
  nereid_function *f = NULL;
  int64_t grid[3] = {programs, 1, 1};
  args[iterations].i = 1;
  nereid_status status = nereid_compile(m->device, m->module, kernel, args, n, &o, &f, error);
  double took = 0;
  for (int attempt = 0; attempt < 6 && !status; attempt++) {
    status = time_launch(m, f, grid, args, n, 1, &took, error);
    if (status || took >= m->enough) break;
    double more = 1.3 * m->enough / (took > 100 ? took : 100);
    double next = (double)args[iterations].i * (more < 1000 ? more : 1000) + 1;
    args[iterations].i = next < 1e9 ? (int64_t)next : 1000000000;
  }
  if (!status) status = time_launch(m, f, grid, args, n, 0, &took, error);
  nereid_function_free(f);
  *ns = took / (double)args[iterations].i;
  return status;
}

/* ---- bandwidth --------------------------------------------------------------------------------------------------- */

typedef struct Slices {
  int64_t programs, blocks;
  int block, warps;
} Slices;

/* A working set of `bytes` as slices of whole blocks. */
static Slices slices_of(const Meter *m, double bytes) {
  Slices s = {
      .block = m->cuda ? 2048 : 1024, .warps = 8, .programs = m->cuda ? 8 * (int64_t)m->processors : m->processors};
  int64_t all = (int64_t)(bytes / 4) / s.block;
  if (all < s.programs) s.programs = all > 0 ? all : 1;
  s.blocks = all / s.programs > 0 ? all / s.programs : 1;
  return s;
}

static nereid_status bandwidth(Meter *m, const char *kernel, double bytes, int shift, double *gbs,
                               nereid_error **error) {
  bool reads = strcmp(kernel, "write") != 0, writes = strcmp(kernel, "read") != 0;
  Slices s = slices_of(m, reads && writes ? bytes / 2 : bytes);
  int64_t each = s.programs * s.blocks * s.block * 4;
  void *x = NULL, *out = NULL;
  nereid_status status = reads ? nereid_alloc(m->device, each, &x, error) : NEREID_OK;
  if (!status) status = nereid_alloc(m->device, writes ? each : 4 * s.programs, &out, error);
  if (!status && x) status = nereid_fill_async(m->device, NULL, x, 0, each, error);
  if (!status && writes) status = nereid_fill_async(m->device, NULL, out, 0, each, error);
  nereid_arg args[8];
  int n = 0;
  if (reads) args[n++] = nereid_named(nereid_pointer(x, NEREID_F32), "x_ptr");
  args[n++] = nereid_named(nereid_pointer(out, NEREID_F32), "out_ptr");
  args[n++] = nereid_named(nereid_int(s.blocks), "blocks");
  args[n++] = nereid_named(nereid_int(shift), "shift");
  int iterations = n;
  args[n++] = nereid_named(nereid_int(1), "iterations");
  args[n++] = nereid_named(nereid_constexpr_int(s.block), "BLOCK");
  if (!writes) args[n++] = nereid_named(nereid_constexpr_int(m->cuda), "EACH");
  double ns = 0;
  if (!status) status = time_iterations(m, kernel, s.programs, args, n, iterations, s.warps, &ns, error);
  if (!status) *gbs = (double)each * (reads + writes) / ns;
  if (x) nereid_free(m->device, x);
  if (out) nereid_free(m->device, out);
  return status;
}

static nereid_status all_three(Meter *m, double bytes, nereid_bandwidth *b, nereid_error **error) {
  char what[64];
  snprintf(what, sizeof what, "bandwidth at %.0f KiB", bytes / 1024);
  b->bytes = bytes;
  nereid_status status = step(m, what, error);
  if (!status) status = bandwidth(m, "read", bytes, m->cuda, &b->read, error);
  if (!status) status = bandwidth(m, "write", bytes, m->cuda, &b->write, error);
  if (!status) status = bandwidth(m, "copy", bytes, m->cuda, &b->copy, error);
  return status;
}

static double greater(double a, double b) { return a > b ? a : b; }

/* The best that working sets above `least`, which fit, have shown; where none is of that size, the largest one below.
 */
static void level(nereid_ceilings *c, const char *name, double least, double bytes) {
  nereid_bandwidth *l = &c->levels[c->level_count++];
  snprintf(l->name, sizeof l->name, "%s", name);
  l->bytes = bytes;
  const nereid_bandwidth *next = c->sizes;
  for (const nereid_bandwidth *s = c->sizes; s < c->sizes + c->size_count; s++) {
    if (bytes && s->bytes > 0.75 * bytes) break;
    next = s;
    if (s->bytes > least)
      l->read = greater(l->read, s->read), l->write = greater(l->write, s->write), l->copy = greater(l->copy, s->copy);
  }
  if (!l->read) l->read = next->read, l->write = next->write, l->copy = next->copy;
}

#ifdef _SC_LEVEL1_DCACHE_SIZE
static double cache_bytes(int which) {
  static const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  long n = sysconf(names[which]);
  return n > 0 ? (double)n : 0;
}
#else
static double cache_bytes(int which) { return 0; }
#endif

static nereid_status bandwidths(Meter *m, nereid_ceilings *c, nereid_error **error) {
  double largest = m->options->quick ? (m->cuda ? 0x1p28 : 0x1p24) : 2.0 * (double)nereid_bench_bytes(m->device);
  double bytes = m->cuda ? 0x1p21 : 8192.0 * m->processors;
  nereid_status status = NEREID_OK;
  for (; bytes <= largest * 1.01 && c->size_count < NEREID_MAX_SIZES && !status; bytes *= m->options->quick ? 4 : 2)
    status = all_three(m, bytes, &c->sizes[c->size_count++], error);
  if (status) return status;
  double below = 0;
  if (m->cuda) {
    nereid_bandwidth *l1 = &c->levels[c->level_count++];
    snprintf(l1->name, sizeof l1->name, "L1");
    l1->bytes = m->processors * 8 * 16384.0;
    status = bandwidth(m, "read", l1->bytes, 0, &l1->read, error);
    if (m->l2_bytes) level(c, "L2", 0, below = m->l2_bytes);
  } else {
    static const char *const names[] = {"L1", "L2", "L3"};
    for (int i = 0; i < 3; i++) {
      double holds = cache_bytes(i) * (i < 2 ? m->processors : 1);
      if (holds > below) level(c, names[i], below, holds), below = holds;
    }
  }
  level(c, "memory", (m->cuda ? 8 : 2) * below, 0); /* of a set of twice a GPU's cache, half is found there */
  return status;
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

static nereid_status arithmetic(Meter *m, const char *kernel, nereid_dtype t, nereid_rate which, double operations,
                                nereid_ceilings *c, nereid_error **error) {
  bool is_exp = which == NEREID_RATE_EXP, is_div = which == NEREID_RATE_DIV, whole = t == NEREID_I32,
       small = t == NEREID_F16 || t == NEREID_BF16;
  int block = m->cuda            ? 1024
              : is_exp || is_div ? 1024
                                 : 256,
      chain = m->cuda            ? (is_exp || is_div ? 16 : 64)
              : is_exp || is_div ? 2
                                 : 8;
  int64_t programs = m->cuda ? 8 * (int64_t)m->processors : 4 * (int64_t)m->processors,
          bytes = programs * block * (int64_t)nereid_dtype_bytes(t);
  nereid_status status = step(m, nereid_rate_name(which), error);
  void *x = NULL;
  char *host = malloc((size_t)bytes);
  if (!status && !host) status = error_out_of_memory(error);
  if (!status) status = nereid_alloc(m->device, bytes, &x, error);
  for (int64_t i = 0; !status && i < programs * block; i++)
    nereid_dtype_store(t, host + (size_t)i * nereid_dtype_bytes(t),
                       whole ? (double)(i % 1000) : 1 + (double)(i % 97) / 97);
  if (!status) status = nereid_copy_to_device(m->device, x, host, bytes, error);
  nereid_arg args[8] = {nereid_named(nereid_pointer(x, t), "x_ptr"), nereid_named(nereid_int(1), "iterations"),
                        nereid_named(nereid_constexpr_int(block), "BLOCK"),
                        nereid_named(nereid_constexpr_int(chain), "CHAIN")};
  int n = 4;
  if (!is_exp) args[n++] = nereid_named(whole ? nereid_int(3) : nereid_float(is_div ? 1.5 : 0.5), "a");
  if (!is_exp && !is_div) args[n++] = nereid_named(whole ? nereid_int(5) : nereid_float(0.75), "b");
  if (!is_exp && !is_div) args[n++] = nereid_named(nereid_constexpr_int(!whole && (m->cuda || !small)), "FUSED");
  double ns = 0;
  if (!status) status = time_iterations(m, kernel, programs, args, n, 1, 8, &ns, error);
  if (!status) c->rates[which] = (double)programs * block * chain * operations / ns;
  if (x) nereid_free(m->device, x);
  free(host);
  return status;
}

static nereid_status nothing(Meter *m, nereid_ceilings *c, nereid_error **error) {
  nereid_function *f = NULL;
  nereid_options warps = {.num_warps = m->cuda ? 4 : 0};
  nereid_status status = nereid_compile(m->device, m->module, "nothing", NULL, 0, &warps, &f, error);
  nereid_bench_launch launch = {f, {1, 1, 1}, NULL, 0};
  nereid_bench_case one = {.launches = &launch, .launch_count = 1};
  nereid_bench_options o = {.warmup = 3, .repeat = 100, .min_ms = 20};
  nereid_bench_result r = {0};
  if (!status) status = nereid_bench_run(m->device, &one, 1, &o, &r, NULL, NULL, error);
  c->launch_ns = r.device.count ? r.device.median : r.wall.median;
  c->replay_ns = r.graph.median;
  nereid_function_free(f);
  return status;
}

/* ---- the experiment ---------------------------------------------------------------------------------------------- */

static nereid_status doubling(Meter *m, nereid_dtype t, nereid_ceilings *c, nereid_error **error) {
  int64_t bytes = m->options->quick ? 1 << 20 : nereid_bench_bytes(m->device) / (m->cuda ? 1 : 2);
  int64_t n = bytes / (int64_t)nereid_dtype_bytes(t), grid[3] = {cdiv(n, 1024), 1, 1};
  void *x = NULL, *out = NULL;
  nereid_status status = nereid_alloc(m->device, bytes, &x, error);
  if (!status) status = nereid_alloc(m->device, bytes, &out, error);
  if (!status) status = nereid_fill_async(m->device, NULL, x, 0x3c, bytes, error); /* 1.06 in f16, 0.0115 in f32 */
  if (!status) status = nereid_fill_async(m->device, NULL, out, 0, bytes, error);
  double before = 0;
  int flat = 0;
  for (int k = 1; k <= 2048 && flat < 2 && !status && c->point_count < NEREID_MAX_POINTS; k *= 2) {
    char what[64];
    snprintf(what, sizeof what, "%s, %d operations an element", nereid_dtype_name(t), k);
    nereid_arg args[] = {nereid_pointer(x, t),      nereid_pointer(out, t),  nereid_int(n),
                         nereid_float(1 + 0x1p-10), nereid_constexpr_int(k), nereid_constexpr_int(1024)};
    nereid_function *f = NULL;
    nereid_options o = {.num_warps = m->cuda ? 4 : 0};
    double ns = 0;
    status = step(m, what, error);
    if (!status) status = nereid_compile(m->device, m->module, "doubling", args, 6, &o, &f, error);
    if (!status) status = time_launch(m, f, grid, args, 6, 0, &ns, error);
    nereid_function_free(f);
    if (status) break;
    c->points[c->point_count++] = (nereid_roofline_point){t, k, (double)n, ns};
    double rate = k * (double)n / ns;
    flat = k >= 32 && rate < 1.06 * before ? flat + 1 : 0; /* it grows no more */
    before = rate;
    if (ns > (m->options->quick ? 0.02e9 : 0.3e9)) break;
  }
  if (x) nereid_free(m->device, x);
  if (out) nereid_free(m->device, out);
  return status;
}

/* A ceiling is the best that was reached: kernels that go over arrays once, as the experiment's, may move them faster
 * than one that goes over slices. */
static void raise_copies(nereid_ceilings *c) {
  for (const nereid_roofline_point *p = c->points; p < c->points + c->point_count; p++) {
    double bytes = 2 * p->elements * (double)nereid_dtype_bytes(p->dtype), rate = bytes / p->ns;
    for (nereid_bandwidth *s = c->sizes; s < c->sizes + c->size_count; s++)
      if (s->bytes >= bytes / 2) s->copy = greater(s->copy, rate);
    nereid_bandwidth *memory = &c->levels[c->level_count - 1];
    if (bytes / 2 >= c->sizes[c->size_count - 1].bytes / 4) memory->copy = greater(memory->copy, rate);
  }
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static nereid_status measure(Meter *m, nereid_ceilings *c, nereid_error **error) {
  nereid_status status = bandwidths(m, c, error);
  /* clang-format off */
  static const struct { const char *kernel; nereid_dtype type; nereid_rate rate; double operations; } all[] = {
      {"multiply_add", NEREID_F64, NEREID_RATE_F64, 2}, {"multiply_add", NEREID_F32, NEREID_RATE_F32, 2},
      {"multiply_add", NEREID_F16, NEREID_RATE_F16, 2},
      {"multiply_add", NEREID_BF16, NEREID_RATE_BF16, 2}, {"multiply_add", NEREID_I32, NEREID_RATE_I32, 2},
      {"exponential", NEREID_F32, NEREID_RATE_EXP, 1},
      {"divide", NEREID_F32, NEREID_RATE_DIV, 1}};
  /* clang-format on */
  for (size_t i = 0; i < sizeof all / sizeof all[0] && !status; i++)
    status = arithmetic(m, all[i].kernel, all[i].type, all[i].rate, all[i].operations, c, error);
  if (!status) status = step(m, "launches", error);
  if (!status) status = nothing(m, c, error);
  if (!status) status = doubling(m, NEREID_F32, c, error);
  if (!status) status = doubling(m, NEREID_F16, c, error);
  if (!status) raise_copies(c);
  if (!status && !m->options->no_blas) {
    status = step(m, "products of matrices", error);
    if (!status) ceilings_blas(m->device, 4 * m->enough, m->options->quick, c);
  }
  return status;
}

static const char *const rate_names[NEREID_RATE_COUNT] = {"f64",     "f32",      "f16",     "bf16",    "i32",
                                                          "exp",     "div",      "dot f64", "dot f32", "dot tf32",
                                                          "dot f16", "dot bf16", "dot f8",  "dot i8"};
const char *nereid_rate_name(nereid_rate r) { return (unsigned)r < NEREID_RATE_COUNT ? rate_names[r] : "unknown"; }

void ceilings_identify(const nereid_device *d, char name[32], char description[256]) {
  nereid_device_info info[16];
  int n = nereid_devices(info, 16);
  const char *wanted = d->kind == &device_cuda ? ((const Cuda *)d->state)->name : d->kind->name;
  snprintf(name, 32, "%s", wanted), *description = 0;
  for (int i = 0; i < n && i < 16; i++)
    if (!strcmp(info[i].name, wanted)) snprintf(description, 256, "%s", info[i].description);
  if (d->kind == &device_cpu) snprintf(name, 32, "cpu:%d", d->threads);
}

static int attribute_of(const nereid_device *d, int which) {
  const Cuda *c = d->state;
  int v = 0;
  return d->kind == &device_cuda && !c->api.device_attribute(&v, which, c->device) && v > 0 ? v : 0;
}

nereid_status nereid_ceilings_measure(nereid_device *d, const nereid_ceilings_options *o, nereid_ceilings *out,
                                      nereid_error **error) {
  static const nereid_ceilings_options usual = {0};
  if (!d) return error_null(error, "nereid_ceilings_measure", "the device");
  if (!out) return error_null(error, "nereid_ceilings_measure", "out");
  if (!o) o = &usual;
  Meter m = {
      .device = d, .options = o, .cuda = d->kind == &device_cuda, .ms = o->quick ? 1 : 60, .of = o->quick ? 40 : 58};
  if (!m.cuda && d->kind != &device_cpu)
    return error_set(error, NEREID_UNSUPPORTED, "measure cpu or cuda",
                     "the device %s has no ceilings: it shows what a kernel does, not how fast", d->name);
  m.processors = m.cuda ? attribute_of(d, CU_MULTIPROCESSORS) : d->threads;
  if (m.processors < 1) m.processors = 1;
  m.l2_bytes = attribute_of(d, CU_L2_BYTES);
  m.enough = o->quick ? 1e5 : m.cuda ? 1e6 : 2e5; /* on a busy CPU a short trial is likelier to have it whole */
  nereid_ceilings *c = calloc(1, sizeof *c);
  if (!c) return error_out_of_memory(error);
  c->quick = o->quick;
  ceilings_identify(d, c->device, c->description);
  time_t now = time(NULL);
  struct tm utc;
  strftime(c->date, sizeof c->date, "%Y-%m-%d %H:%M:%S", gmtime_r(&now, &utc));
  nereid_status status = nereid_module_load_string("roofline.py", text, &m.module, error);
  if (!status) status = measure(&m, c, error);
  nereid_module_free(m.module);
  if (!status) *out = *c;
  free(c);
  return status;
}
