/* Reports: what a launch will ask of a GPU, in the public interface's words. The counting is gpu/report/counts.c's;
 * here it is compiled, put beside what the target's multiprocessors give, and judged (report_text.c prints it).
 *
 * Bounds. Each is the least time that one resource takes when nothing else holds it up; the longest is what bounds the
 * launch:
 *
 *     memory               sectors that must come and go once, at the memory's bandwidth
 *     L2                   sectors asked for, about 48 bytes a cycle a multiprocessor
 *     L1 and shared memory 128 bytes, or one pass over the banks, a cycle
 *     fp32, fp16, ...      operations of the class, at its rate
 *     issue                instructions, four a cycle: one a scheduler
 *     latency              waves, each as long as a block's longest chain of operations that wait for each other; or
 *                          the longest block
 *     launch               what an empty kernel takes
 *
 * What a multiprocessor does itself is done by the busiest one: with 133 programs on 132 of them one has two.
 */
#include <stdlib.h>

#include "measure/report.h"

/* ---- the machine ------------------------------------------------------------------------------------------------- */

static void choose_machine(Report *r, const nereid_report_options *how) {
  const GpuMachine *m = &r->target->machine;
  nereid_report *p = &r->out;
  p->machine = m->name;
  p->multiprocessors = m->multiprocessors, p->clock_mhz = m->clock_mhz, p->memory_gbs = m->memory_gbs;
  enum { MOST = 64 };
  nereid_device_info info[MOST];
  bool is_device = how->target && !strncmp(how->target, "cuda", 4);
  for (int i = 0, n = is_device ? nereid_devices(info, MOST) : 0; i < n && i < MOST; i++)
    if (!strcmp(info[i].name, strcmp(how->target, "cuda") ? how->target : "cuda:0") && info[i].multiprocessors) {
      p->multiprocessors = info[i].multiprocessors;
      p->machine = arena_strdup(r->arena, info[i].description);
    }
  if (how->multiprocessors) p->multiprocessors = how->multiprocessors;
  if (how->clock_mhz > 0) p->clock_mhz = how->clock_mhz;
  if (how->memory_gbs > 0) p->memory_gbs = how->memory_gbs;
}

static void put_waves(nereid_report *p) {
  double at_once = (double)p->occupancy.blocks * p->multiprocessors;
  if (!at_once || !p->programs) return;
  p->waves = (double)p->programs / at_once;
  int64_t whole = (int64_t)p->waves + ((double)(int64_t)p->waves < p->waves);
  p->tail_waste = 1 - p->waves / (double)whole;
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

enum { LAUNCH_NS = 2000 }; /* what an empty kernel takes on the device, from its start to the next one's */

static void put_time(Report *r, const char *bound, double ns, const char *format, ...) PRINTF_LIKE(4, 5);
static void put_time(Report *r, const char *bound, double ns, const char *format, ...) {
  nereid_report_time t = {.bound = bound, .ns = ns};
  va_list ap;
  va_start(ap, format);
  vsnprintf(t.why, sizeof t.why, format, ap);
  va_end(ap);
  if (ns > 0) vec_push(r->arena, &r->times, t);
}

/* Cycles of the busiest multiprocessor, when all together take so many. */
static double ns_of(const nereid_report *p, double cycles) {
  double busiest = (double)((p->programs + p->multiprocessors - 1) / p->multiprocessors) / (double)p->programs;
  return cycles * busiest * 1000 / p->clock_mhz;
}

static void put_rate(Report *r, const char *bound, GpuClass class, double a_cycle) {
  double n = (double)r->counted->classes[class] * 32;
  put_time(r, bound, ns_of(&r->out, n / a_cycle), "%.4g operations, %.0f a cycle a multiprocessor", n, a_cycle);
}

static int by_time(const void *x, const void *y) {
  const nereid_report_time *a = x, *b = y;
  return (a->ns < b->ns) - (a->ns > b->ns);
}

static void put_times(Report *r) {
  const GpuReport *g = r->counted;
  const GpuMachine *m = &r->target->machine;
  nereid_report *p = &r->out;
  double bytes = (double)p->load_bytes + (double)p->store_bytes, sectors = 0, passes = 0;
  for (int i = 0; i < g->access_count; i++) {
    const GpuAccess *a = &g->accesses[i];
    sectors += (double)a->sectors;
    /* what a copy reads goes straight to where it writes */
    if (a->shared) passes += (double)a->wavefronts;
    else if (a->op->code != LANE_CP_ASYNC) passes += (double)a->sectors * 32 / GPU_L1_BYTES;
  }
  put_time(r, "memory", bytes / p->memory_gbs, "%.4g MB at %.0f GB/s", bytes / 1e6, p->memory_gbs);
  put_time(r, "L2", ns_of(p, sectors * 32 / GPU_L2_BYTES), "%.4g MB of sectors, %d bytes a cycle a multiprocessor",
           sectors * 32 / 1e6, GPU_L2_BYTES);
  put_time(r, "L1 and shared memory", ns_of(p, passes), "%.4g passes of 128 bytes", passes);
  put_rate(r, "fp32", GC_FP32, m->fp32);
  put_rate(r, "fp16", GC_FP16, m->fp16 / 2.0); /* two in each lane */
  put_rate(r, "fp64", GC_FP64, m->fp64);
  put_rate(r, "special functions", GC_SPECIAL, GPU_SPECIAL_RATE);
  if (g->classes[GC_TENSOR])
    put_time(r, "tensor", ns_of(p, (double)p->cost.dot / m->tensor),
             "%.4g multiply-adds, %d a cycle a multiprocessor (16 bits, sums of 32)", (double)p->cost.dot, m->tensor);
  put_time(r, "issue", ns_of(p, (double)g->instructions / GPU_SCHEDULERS),
           "%.4g instructions of warps, %d a cycle a multiprocessor", (double)g->instructions, GPU_SCHEDULERS);
  double whole = p->waves > (double)(int64_t)p->waves ? (double)(int64_t)p->waves + 1 : p->waves,
         cycles = whole * g->block_cycles;
  if (g->longest_cycles > cycles)
    put_time(r, "latency", g->longest_cycles * 1000 / p->clock_mhz, "%.0f cycles of the longest program",
             g->longest_cycles);
  else
    put_time(r, "latency", cycles * 1000 / p->clock_mhz, "%.0f wave%s of %.0f cycles", whole, whole == 1 ? "" : "s",
             g->block_cycles);
  put_time(r, "launch", LAUNCH_NS, "an empty kernel's");
  qsort(r->times.at, (size_t)r->times.n, sizeof *r->times.at, by_time);
  p->times = r->times.at, p->time_count = r->times.n;
  p->bound = p->times[0].bound;
}

/* ---- what was counted -------------------------------------------------------------------------------------------- */

static char *line_text(Arena *a, const Span *s) {
  if (!s || !s->source || s->line < 1 || s->line > s->source->line_count) return arena_strdup(a, "");
  const char *text = s->source->text + s->source->line_start[s->line - 1];
  text += strspn(text, " \t");
  return arena_strndup(a, text, strcspn(text, "\r\n"));
}

static void put_rings(Report *r, const LaneFunc *f) {
  nereid_report_ring *rings = NEW_N(r->arena, nereid_report_ring, f->buffers.n + 1);
  for (int i = 0; i < f->buffers.n; i++) {
    const LaneBuffer *b = &f->buffers.at[i];
    if (b->ring) rings[r->out.ring_count++] = (nereid_report_ring){.slots = b->ring, .slot_bytes = b->bytes / b->ring};
  }
  r->out.rings = rings;
  r->out.bytes_in_flight = gpu_bytes_in_flight(f);
}

static const char *what_of(LaneCode code) {
  switch (code) {
    case LANE_LD:
    case LANE_LDMATRIX: return "load";
    case LANE_STMATRIX:
    case LANE_ST: return "store";
    case LANE_CP_ASYNC: return "copy";
    case LANE_WGMMA: return "wgmma";
    case LANE_TMEM_MMA: return "tcgen05";
    default: return "atomic";
  }
}

static void put_accesses(Report *r, const LaneFunc *f) {
  const GpuReport *g = r->counted;
  Arena *a = r->arena;
  nereid_report_access *out = NEW_N(a, nereid_report_access, g->access_count + 1);
  for (int i = 0; i < g->access_count; i++) {
    const GpuAccess *x = &g->accesses[i];
    bool placed = x->span && x->span->source;
    out[i] = (nereid_report_access){
        .file = arena_strdup(a, placed ? x->span->source->path : ""),
        .text = line_text(a, x->span),
        .line = placed ? x->span->line : 0,
        .what = what_of(x->op->code),
        .shared = x->shared,
        .buffer = x->shared && x->op->buffer >= 0 ? arena_strdup(a, f->buffers.at[x->op->buffer].name) : "",
        .bytes = x->bytes,
        .count = x->count,
        .masked = x->masked,
        .in_loop = x->in_loop,
        .known = x->known,
        .requests = x->requests,
        .lanes = x->lanes,
        .sectors = x->sectors,
        .ideal_sectors = x->ideal_sectors,
        .wavefronts = x->wavefronts,
        .ideal_wavefronts = x->ideal_wavefronts};
  }
  r->out.accesses = out, r->out.access_count = g->access_count;
}

static void put_counts(Report *r, const LaneFunc *f) {
  const GpuReport *g = r->counted;
  nereid_report *p = &r->out;
  p->counted = true;
  p->programs_walked = g->walked;
  p->exact = !g->data && !g->sampled && !g->cut;
  p->divergent = g->splits;
  p->warp_instructions = g->instructions;
  p->active_lanes = g->instructions ? (double)g->threads / (double)g->instructions : 0;
  nereid_report_class *classes = NEW_N(r->arena, nereid_report_class, GC_COUNT);
  for (int i = 0; i < GC_COUNT; i++)
    if (g->classes[i]) classes[p->class_count++] = (nereid_report_class){gpu_class_names[i], g->classes[i]};
  p->classes = classes;
  put_accesses(r, f);
  p->load_bytes = g->memory_loads, p->store_bytes = g->memory_stores;
  double bytes = (double)p->load_bytes + (double)p->store_bytes;
  p->intensity = bytes > 0 ? p->cost.flops / bytes : 0;
  if (p->programs) put_times(r);
  else p->bound = "launch";
}

/* ---- compiling and counting -------------------------------------------------------------------------------------- */

typedef struct Making {
  nereid_module *module;
  const Call *call;
  const nereid_options *options;
  const nereid_report_options *how;
  const int32_t *grid; /* NULL: occupancy alone */
  const GpuTarget *target;
  int64_t programs;
  Specialization spec; /* its slots alone */
  Report *report;      /* lies in the context, as all it points to */
  GpuCubin cubin;
  Buf ptx, print;
} Making;

static void assemble(Making *k, Context *cx, const LaneFunc *f) {
  nereid_report *p = &k->report->out;
  GpuPtx ptx = gpu_print_ptx(&k->ptx, f, k->report->target, true);
  if (k->ptx.failed) context_out_of_memory(cx);
  if (!gpu_ptxas(cx, &k->ptx, &ptx, k->report->target, &k->cubin)) return;
  p->registers = k->cubin.registers, p->spill_bytes = k->cubin.spill_bytes, p->stack_bytes = k->cubin.stack_bytes;
}

static nereid_status make_in(Making *k, Context *cx, volatile nereid_status *phase, nereid_error **error) {
  Report *r = k->report = NEW(cx->arena, Report);
  nereid_report *p = &r->out;
  *r = (Report){.cx = cx, .arena = cx->arena, .target = k->target};
  p->kernel = arena_strdup(cx->arena, k->call->kernel->info.name), p->target = k->target->name;
  p->programs = k->programs;
  for (int i = 0; k->grid && i < 3; i++) p->grid[i] = k->grid[i];
  p->remarks = "";
  choose_machine(r, k->how);
  Compiled *front = compile_front(k->module, k->call, k->options, r->target->sm, cx, &k->print);
  *phase = NEREID_INTERNAL;
  p->num_warps = front->num_warps, p->num_stages = front->num_stages;
  k->spec.kernel = k->call->kernel;
  specialization_keep_slots(&k->spec, front, cx);
  tile_optimize(front->func, NULL, NULL, false);
  uint64_t *args = NEW_N(cx->arena, uint64_t, k->spec.run.slot_count + 3); /* hidden ones are 0 */
  HostArray *contents = NEW_N(cx->arena, HostArray, k->spec.run.slot_count + 3);
  bool counts = !k->how->occupancy_only;
  if (counts) {
    nereid_status status = call_pack(k->call, &k->spec, args, error);
    if (status) return status;
    call_contents(k->call, &k->spec, contents);
    tile_host_arrays(front->func, args, contents);
    cost_put(&p->cost, tile_cost(front->func, args, contents, k->grid));
  }
  *phase = NEREID_UNSUPPORTED;
  const char *wrong;
  LaneFunc *f = gpu_compile(front->func, &(GpuOptions){.target = r->target,
                                                       .persist = k->options->persist,
                                                       .specialize = k->options->specialize,
                                                       .without = gpu_without(k->options->without, &wrong)});
  *phase = NEREID_INTERNAL;
  p->shared_bytes = f->shared_bytes;
  put_rings(r, f);
  assemble(k, cx, f);
  p->occupancy = report_occupancy(r->target, p->registers, p->shared_bytes, p->num_warps);
  put_waves(p);
  if (!counts) return NEREID_OK;
  gpu_put_grid(f, k->grid, args);
  r->counted = gpu_report(f, args, contents, k->grid);
  put_counts(r, f);
  report_judge(r);
  return NEREID_OK;
}

static nereid_status make(Making *k, Context *cx, nereid_error **error) {
  volatile nereid_status phase = NEREID_BAD_SOURCE, status = NEREID_OK;
  if (context_try(cx)) {
    status = make_in(k, cx, &phase, error);
    context_end_try(cx);
  } else {
    status = error_from_context(error, phase, cx);
  }
  return status;
}

static nereid_status check(nereid_module *m, const int64_t grid[3], const nereid_options *o,
                           const nereid_report_options *how, nereid_error **error) {
  if (!grid && !how->occupancy_only) return error_null(error, "nereid_report_launch", "the grid");
  if (m->is_cuda_c)
    return error_set(error, NEREID_UNSUPPORTED,
                     "compile it for a device, and hand its registers and shared memory to nereid_occupancy_of; nereid "
                     "inspect shows its ptx and sass",
                     "there is no report on CUDA C, which NVRTC compiles: its accesses are not known here");
  if (how->multiprocessors < 0 || how->clock_mhz < 0 || how->memory_gbs < 0)
    return error_set(error, NEREID_BAD_ARGUMENT, "leave it 0 for that of a typical machine",
                     "a report on %d multiprocessors at %g MHz and %g GB/s", how->multiprocessors, how->clock_mhz,
                     how->memory_gbs);
  if (o->programs)
    return error_set(error, NEREID_UNSUPPORTED, "report on the whole grid", "there is no report on a list of programs");
  return NEREID_OK;
}

nereid_status nereid_report_launch(nereid_module *m, const char *kernel, const int64_t grid[3], const nereid_arg *args,
                                   int arg_count, const nereid_options *o, const nereid_report_options *how,
                                   nereid_report **out, nereid_error **error) {
  static const nereid_report_options usual = {0};
  if (!m) return error_null(error, "nereid_report_launch", "the module");
  if (!kernel) return error_null(error, "nereid_report_launch", "the kernel's name");
  if (!out) return error_null(error, "nereid_report_launch", "out");
  TAKE_OPTIONS(o);
  if (!how) how = &usual;
  const GpuTarget *target;
  nereid_status status = check(m, grid, o, how, error);
  if (!status) status = report_target(how->target, &target, error);
  if (status) return status;
  const KernelInfo *info = module_kernel(m, kernel, error);
  if (!info) return NEREID_BAD_ARGUMENT;
  int32_t programs[3] = {0};
  int64_t total = 0;
  if (grid && (status = grid_check(grid, o, programs, &total, error))) return status;
  if (!how->occupancy_only && (status = grid_countable(total, error))) return status;
  Call c;
  status = call_bind(&c, info, &device_cpu, args, arg_count, o, error);
  Making k = {.module = m,
              .call = &c,
              .options = o,
              .how = how,
              .grid = grid ? programs : NULL,
              .target = target,
              .programs = total};
  Context *cx = status ? NULL : context_within(o);
  if (!status) status = cx ? make(&k, cx, error) : error_out_of_memory(error);
  free(k.spec.run.slots);
  gpu_cubin_free(&k.cubin);
  buf_destroy(&k.ptx);
  print_lines(&k.print, o);
  buf_destroy(&k.print);
  call_free(&c);
  if (status) context_destroy(cx);
  else *out = &k.report->out;
  return status;
}

void nereid_report_free(nereid_report *p) {
  if (p) context_destroy(((Report *)p)->cx);
}
