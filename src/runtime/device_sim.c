/* The sim device: a GPU's kernel, thread by thread, on this machine. "sim" compiles as for sm_90a, "sim:sm_80" as for
 * that target; what runs is the lane IR, from which PTX is only a print. So it shows without a GPU whether layouts,
 * shuffles, shared memory and barriers are right: races on shared memory, barriers that not all threads reach and wrong
 * addresses are faults with the kernel's source line.
 *
 * Memory is the process's own, and every access is looked up among the device's allocations as they were when the
 * launch began. Around each one lies a gap that belongs to none. Blocks of a grid run on a pool of threads, each block
 * on one.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sched.h>
#include <unistd.h>

#include "gpu/launch_plan.h"
#include "runtime/instrument.h"

/* Blocks that run at once, for persistent kernels: few, so that each runs several programs. */
enum { GAP = 256, CHUNKS_PER_THREAD = 16, PERSISTENT_BLOCKS = 3, CLUSTERED_BLOCKS = 4 };
static const char *const default_target = "sm_90a";

typedef struct Sim {
  Pool *pool;
  const GpuTarget *target;
} Sim;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void *sim_alloc(nereid_device *d, int64_t bytes) {
  char *p = NULL;
  if (posix_memalign((void **)&p, GAP, (size_t)bytes + 2 * GAP) != 0) return NULL;
  return p + GAP;
}
static void sim_free(nereid_device *d, void *p, int64_t bytes) { free((char *)p - GAP); }
static bool sim_attach(nereid_device *d, void *p, int64_t bytes, const char *name) { return true; }
static void sim_detach(nereid_device *d, void *p) {}

static nereid_status sim_copy(nereid_device *d, void *to, const void *from, int64_t bytes, nereid_error **error) {
  memmove(to, from, (size_t)bytes);
  return NEREID_OK;
}

/* ---- which addresses a launch may touch -------------------------------------------------------------------------- */

typedef struct Extent {
  uint64_t base, end;
} Extent;
typedef struct Extents {
  Extent *at; /* by base; overlapping ones are one */
  int count;
} Extents;

static int by_base(const void *x, const void *y) {
  const Extent *a = x, *b = y;
  return a->base < b->base ? -1 : a->base > b->base;
}

/* The device's allocations, and memory of the launch itself. */
static bool extents_take(nereid_device *d, Extent own, Extents *out) {
  pthread_rwlock_rdlock(&d->lock);
  int n = 0;
  Extent *at = malloc(sizeof *at * (size_t)(d->allocation_count + 1));
  for (int i = 0; at && i < d->allocation_count; i++) {
    const Allocation *a = &d->allocations[i];
    at[n++] = (Extent){a->base, a->base + (uint64_t)a->bytes};
  }
  pthread_rwlock_unlock(&d->lock);
  if (!at) return false;
  if (own.end > own.base) at[n++] = own;
  qsort(at, (size_t)n, sizeof *at, by_base);
  int kept = 0;
  for (int i = 0; i < n; i++) {
    if (kept && at[i].base < at[kept - 1].end) {
      if (at[i].end > at[kept - 1].end) at[kept - 1].end = at[i].end;
    } else {
      at[kept++] = at[i];
    }
  }
  *out = (Extents){at, kept};
  return true;
}

typedef struct Checker { /* of one worker */
  const Extents *extents;
  Extent last;
  uint64_t address; /* of the access that was wrong */
  int bytes;        /* 0: none was */
  bool write;
} Checker;

/* address + n may pass 2^64. */
static bool holds(const Extent *e, uint64_t address, uint64_t n) {
  return address >= e->base && address <= e->end && n <= e->end - address;
}

static bool check(void *arg, uint64_t address, int bytes, bool write) {
  Checker *c = arg;
  uint64_t n = (uint64_t)bytes;
  if (holds(&c->last, address, n)) return true;
  int low = 0, high = c->extents->count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (c->extents->at[middle].base <= address) low = middle + 1;
    else high = middle;
  }
  if (low && holds(&c->extents->at[low - 1], address, n)) {
    c->last = c->extents->at[low - 1];
    return true;
  }
  c->address = address, c->bytes = bytes, c->write = write;
  return false;
}

/* "store out of bounds: writes 4 bytes at out_ptr+400 (out_ptr has 400 bytes)", by the argument whose array is nearest.
 */
static void describe_access(const Launch *l, const Checker *c, char *out, size_t size) {
  const Specialization *s = launch_spec(l);
  const Extent *nearest = NULL;
  uint64_t least = UINT64_MAX;
  const char *name = NULL;
  for (int i = 0; i < c->extents->count; i++) {
    const Extent *e = &c->extents->at[i];
    uint64_t away = c->address < e->base ? e->base - c->address : c->address >= e->end ? c->address - e->end : 0;
    if (away < least) least = away, nearest = e;
  }
  for (int i = 0; i < s->run.slot_count && nearest && !name; i++)
    if (s->run.slots[i].is_pointer && l->args[i] >= nearest->base && l->args[i] <= nearest->end &&
        s->run.slots[i].depth == 0)
      name = s->kernel->info.params[s->run.slots[i].param].name;
  const char *what = c->write ? "store out of bounds: writes" : "load out of bounds: reads";
  if (name && least < (uint64_t)1 << 40)
    snprintf(out, size, "%s %d bytes at %s%+lld (%s has %lld bytes)", what, c->bytes, name,
             (long long)(c->address - nearest->base), name, (long long)(nearest->end - nearest->base));
  else
    snprintf(out, size, "%s %d bytes at %#llx, in no array that the device knows", what, c->bytes,
             (unsigned long long)c->address);
}

/* Two arguments that lie in one array, at two places, may overlap in part: then a barrier is the kernel's affair
 * (docs/guide/gpu.md, order of loads and stores). */
static void describe_order(const Launch *l, const Extents *extents, char *out, size_t size) {
  const Specialization *s = launch_spec(l);
  const ArgSlot *slots = s->run.slots;
  for (int i = 0; i < s->run.slot_count; i++)
    for (int j = 0; j < i; j++) {
      if (!slots[i].is_pointer || !slots[j].is_pointer || slots[i].depth || slots[j].depth) continue;
      for (int k = 0; l->args[i] != l->args[j] && k < extents->count; k++) {
        const Extent *e = &extents->at[k];
        if (!holds(e, l->args[i], 1) || !holds(e, l->args[j], 1)) continue;
        char *end = strstr(out, ": a fault of the compiler");
        size_t used = end ? (size_t)(end - out) : strlen(out);
        snprintf(out + used, size - used,
                 ": a fault of the compiler, unless `%s` and `%s`, of one array, overlap in part and want "
                 "tl.debug_barrier()",
                 s->kernel->info.params[slots[j].param].name, s->kernel->info.params[slots[i].param].name);
        return;
      }
    }
}

/* ---- one launch -------------------------------------------------------------------------------------------------- */

typedef struct SimRun {
  const Launch *launch;
  const Extents *extents;
  const uint64_t *args;
  Pool *pool;
  nereid_limits limits;
  _Atomic int64_t operations; /* left */
  pthread_mutex_t lock;       /* of the rest */
  int64_t blocks;             /* of a persistent kernel; 0: one a program */
  int cluster;                /* blocks of a cluster; 1: there are none */
  bool has_fault;
  LaneSimFault fault;
  Residents *residents; /* of programs that wait for each other, else NULL */
  LaneCaches *caches;   /* of programs that learn of each other, else NULL */
} SimRun;

static LaneSimOptions block_options(SimRun *r, Checker *checker) {
  return (LaneSimOptions){.grid = r->launch->grid,
                          .programs = r->launch->options->programs,
                          .blocks = r->blocks,
                          .cluster = r->cluster,
                          .seed = 1,
                          .check = check,
                          .check_arg = checker,
                          .caches = r->caches,
                          .memory = r->limits.memory_bytes,
                          .operations = &r->operations};
}

static void record_fault(SimRun *r, const Checker *c, LaneSimFault *fault) {
  if (c->bytes) describe_access(r->launch, c, fault->message, sizeof fault->message);
  if (fault->of_order) describe_order(r->launch, r->extents, fault->message, sizeof fault->message);
  pthread_mutex_lock(&r->lock);
  if (!r->has_fault) r->fault = *fault;
  r->has_fault = true;
  pthread_mutex_unlock(&r->lock);
}

static void run_blocks(void *arg, int64_t begin, int64_t end, int worker) {
  SimRun *r = arg;
  const Launch *l = r->launch;
  Checker checker = {.extents = r->extents};
  LaneSimOptions o = block_options(r, &checker);
  o.begin = begin * r->cluster, o.end = end * r->cluster;
  LaneSimFault fault = {0};
  if (lane_sim_run(launch_spec(l)->lane, r->args, &o, &fault)) return;
  record_fault(r, &checker, &fault);
  pool_cancel(r->pool);
}

/* ---- programs that wait for each other ---- */

typedef struct SimProgram {
  SimRun *run;
  LaneSimOptions options;
  Checker checker;
  LaneSimFault fault;
  LaneSim *sim;
} SimProgram;

static bool on_wait(void *arg, bool got_ahead) { return residents_wait(arg, got_ahead); }

static SimProgram *make_program(SimRun *r, LaneSimFault *fault) {
  SimProgram *b = malloc(sizeof *b);
  if (!b) return NULL;
  *b = (SimProgram){.run = r, .checker = {.extents = r->extents}};
  b->options = block_options(r, &b->checker);
  b->options.wait = on_wait;
  b->options.wait_arg = r->residents;
  b->sim = lane_sim_open(launch_spec(r->launch)->lane, r->args, &b->options, &b->fault);
  if (b->sim) return b;
  if (fault) *fault = b->fault;
  free(b);
  return NULL;
}

static void *open_program(void *arg) { return make_program(arg, NULL); }

static void close_program(void *arg, void *state) {
  SimProgram *b = state;
  lane_sim_close(b->sim);
  free(b);
}

static bool run_program(void *arg, void *state, int64_t i) {
  SimRun *r = arg;
  SimProgram *b = state;
  const int64_t *programs = r->launch->options->programs;
  if (lane_sim_step(b->sim, programs ? programs[i] : i)) return !lane_sim_gave_up(b->sim);
  bool ended = !*b->fault.message, in_vain = ended && residents_in_vain(r->residents);
  if (in_vain || (b->fault.over_limit && residents_all_wait(r->residents))) {
    residents_message(r->residents, b->fault.message, sizeof b->fault.message);
    b->fault.over_limit = true;
  } else if (ended) {
    return false; /* another program has failed */
  }
  record_fault(r, &b->checker, &b->fault);
  return false;
}

static void work_on(void *arg, int64_t begin, int64_t end, int worker) { residents_work(arg); }

static void run_together(SimRun *r, int64_t count) {
  int threads = count < pool_threads(r->pool) ? (int)count : pool_threads(r->pool);
  Residents residents = {.count = count,
                         .open = open_program,
                         .close = close_program,
                         .run = run_program,
                         .arg = r,
                         .operations = &r->operations};
  r->residents = &residents;
  static const LaneSimFault no_memory = {.out_of_memory = true, .message = "out of memory"};
  r->fault = no_memory;
  SimProgram *first = make_program(r, &r->fault);
  if (first) {
    residents.bytes = lane_sim_bytes(first->sim);
    close_program(NULL, first);
    r->fault = no_memory; /* unless a program faults */
    residents_init(&residents, threads);
    pool_run(r->pool, threads, 1, work_on, &residents);
  }
  r->has_fault |= !first || residents.no_memory;
}

static nereid_status fault_error(const LaneSimFault *f, nereid_error **error) {
  if (f->out_of_memory) return error_out_of_memory(error);
  Buf message = {0};
  fault_message(&message, f->message, f->program, 0, NULL);
  if (!f->over_limit) buf_printf(&message, ", thread %d", f->thread);
  nereid_status status = message.failed ? error_out_of_memory(error)
                                        : error_at(error, f->over_limit ? NEREID_OVER_LIMIT : NEREID_KERNEL_FAULT,
                                                   f->span ? *f->span : (Span){0}, NULL, message.at);
  buf_destroy(&message);
  return status;
}

static nereid_status run_grid(nereid_device *d, const Launch *l, const uint64_t *args, Extent diag,
                              nereid_error **error) {
  const Sim *sim = d->state;
  Extents extents;
  if (!extents_take(d, diag, &extents)) return error_out_of_memory(error);
  SimRun r = {.launch = l, .extents = &extents, .args = args, .pool = sim->pool, .lock = PTHREAD_MUTEX_INITIALIZER};
  if (lane_learns(launch_spec(l)->lane) && !(r.caches = lane_caches_create())) {
    free(extents.at);
    return error_out_of_memory(error);
  }
  r.limits = limits_of(l->options);
  r.operations = r.limits.operations;
  r.cluster = 1;
  int64_t count = l->options->programs ? l->options->program_count : l->total;
  if (launch_spec(l)->lane->persistent && !l->options->programs) {
    int most = launch_spec(l)->lane->cluster, few = most > 1 ? CLUSTERED_BLOCKS : PERSISTENT_BLOCKS;
    if (count > few) count = few;
    r.cluster = gpu_plan_cluster(most, l->grid, &count);
    r.blocks = count;
    count /= r.cluster;
  }
  int64_t chunk = count / ((int64_t)pool_threads(sim->pool) * CHUNKS_PER_THREAD);
  if (lane_waits(launch_spec(l)->lane)) run_together(&r, count);
  else pool_run(sim->pool, count, chunk ? chunk : 1, run_blocks, &r);
  pthread_mutex_destroy(&r.lock);
  lane_caches_destroy(r.caches);
  free(extents.at);
  return r.has_fault ? fault_error(&r.fault, error) : NEREID_OK;
}

/* The kernel's own arguments: the slots, and how many programs there are. */
static void put_arguments(const Launch *l, uint64_t *args) {
  memcpy(args, l->args, sizeof *args * (size_t)l->kernel->slot_count);
  gpu_put_grid(launch_spec(l)->lane, l->grid, args);
}

/* Whether all of the array of a map with `padded` is memory of the device. */
static bool is_there(nereid_device *d, const GpuTensorMap *m) {
  uint64_t bytes = (m->sizes[1] - 1) * m->strides[0] + m->sizes[0] * (uint64_t)dtype_bytes(m->dtype);
  Extents extents;
  if (!extents_take(d, (Extent){0}, &extents)) return false;
  bool found = false;
  for (int i = 0; i < extents.count && !found; i++) found = holds(&extents.at[i], m->base, bytes);
  free(extents.at);
  return found;
}

/* Its copy is memory of the device, too, as long as the launch runs. */
static bool copy_rows(nereid_device *d, GpuTensorMap *m, void **out) {
  if (nereid_alloc(d, (int64_t)gpu_map_copy_bytes(m), out, NULL)) return false;
  for (uint64_t i = 0; i < m->sizes[1]; i++)
    memcpy((char *)*out + i * m->padded, (const char *)(uintptr_t)(m->base + i * m->strides[0]),
           m->sizes[0] * (uint64_t)dtype_bytes(m->dtype));
  gpu_map_take_copy(m, (uintptr_t)*out);
  return true;
}

static GpuPlanFit sim_plan_fit(nereid_device *d, const Launch *l) {
  const LaneFunc *f = launch_spec(l)->lane;
  GpuTensorMap maps[GPU_PLAN_MAPS];
  uint64_t *args = calloc((size_t)f->param_count + 1, sizeof *args);
  if (!args) return GPU_PLAN_NO_MAPS;
  put_arguments(l, args);
  const GpuLaunchPlan *p = l->kernel->plan;
  GpuPlanFit fit = gpu_plan_maps(p, args, l->grid, maps);
  for (int i = 0; i < p->map_count && !fit; i++)
    if (maps[i].padded && !is_there(d, &maps[i])) fit = GPU_PLAN_NO_MAPS;
  free(args);
  return fit;
}

typedef struct SimMap {
  _Alignas(GPU_MAP_ALIGN) char bytes[GPU_MAP_BYTES];
} SimMap;

/* copies: what the launch is to free in the end. */
static GpuPlanFit put_maps(nereid_device *d, const LaneFunc *f, const int32_t grid[3], uint64_t *args, SimMap *out,
                           void *copies[GPU_PLAN_MAPS]) {
  GpuTensorMap maps[GPU_PLAN_MAPS];
  GpuPlanFit fit = f->plan ? gpu_plan_maps(f->plan, args, grid, maps) : GPU_PLAN_FITS;
  if (fit) return fit;
  for (int i = 0; i < f->maps; i++) {
    if (maps[i].padded && (!is_there(d, &maps[i]) || !copy_rows(d, &maps[i], &copies[i]))) return GPU_PLAN_NO_MAPS;
    memcpy(out[i].bytes, &maps[i], sizeof maps[i]);
    args[f->param_count - f->maps + i] = (uintptr_t)out[i].bytes;
  }
  return GPU_PLAN_FITS;
}

static void free_copies(nereid_device *d, void *copies[GPU_PLAN_MAPS]) {
  for (int i = 0; i < GPU_PLAN_MAPS; i++)
    if (copies[i]) nereid_free(d, copies[i]);
}

static nereid_status sim_launch(nereid_device *d, const Launch *l, nereid_error **error) {
  const Specialization *s = launch_spec(l);
  const LaneFunc *f = s->lane;
  if (launch_check_instrument(l, error)) return NEREID_BAD_ARGUMENT;
  uint64_t *args = calloc((size_t)f->param_count + 1, sizeof *args);
  GpuDiag *diag = f->uses_diag ? malloc(DIAG_BYTES) : NULL;
  if (!args || (f->uses_diag && !diag)) {
    free(args), free(diag);
    return error_out_of_memory(error);
  }
  SimMap maps[GPU_PLAN_MAPS];
  put_arguments(l, args);
  void *copies[GPU_PLAN_MAPS] = {0};
  GpuPlanFit fit = put_maps(d, f, l->grid, args, maps, copies);
  if (fit) {
    free_copies(d, copies);
    free(args), free(diag);
    return plan_refused(s->kernel->info.name, fit, error);
  }
  Extent own = {0};
  if (diag) {
    diag_clear(diag, DIAG_BYTES);
    own = (Extent){(uintptr_t)diag, (uintptr_t)diag + DIAG_BYTES};
    args[s->run.slot_count] = (uintptr_t)diag;
  }
  if (f->instrument) args[s->run.slot_count + (diag != NULL)] = (uintptr_t)l->options->instrument_buffer;
  nereid_error *why = NULL;
  nereid_status status = run_grid(d, l, args, own, &why);
  free_copies(d, copies);
  /* What was printed before a fault is printed; a failed assertion comes before what it led to. */
  nereid_error *said = NULL;
  nereid_status reported = diag ? diag_report(s->sites, diag, s->kernel->info.name, l->options, &said) : NEREID_OK;
  if (reported) {
    nereid_error_free(why);
    why = said, status = reported;
  }
  if (error) *error = status ? why : *error;
  else nereid_error_free(why);
  free(args), free(diag);
  return status;
}

static nereid_status sim_synchronize(nereid_device *d, nereid_error **error) { return NEREID_OK; }

/* ---- compiling --------------------------------------------------------------------------------------------------- */

static void refuse_assembly(LaneOp *op, void *cx) {
  if (op->code == LANE_ASM)
    diag_fail_hint(cx, op->span ? *op->span : (Span){0},
                   "write the same in Triton's own operations, or run it on a GPU",
                   "inline assembly is for a GPU; it cannot run on a simulated one");
}

static void sim_compile(Specialization *s, Func *func, Context *cx, Buf *text, volatile nereid_status *phase) {
  const Sim *sim = s->device->state;
  const char *wrong;
  GpuOptions o = {.target = sim->target,
                  .verify = true,
                  .persist = s->persist,
                  .specialize = s->specialize,
                  .tensor_maps = true,
                  .apart = true,
                  .without = gpu_without(s->without, &wrong)};
  if (s->lists_programs) o.without |= gpu_without("heavy_first", &wrong); /* the list has the kernel's own numbers */
  *phase = NEREID_UNSUPPORTED;
  int64_t start = clock_ns();
  s->info.tf32_chain = gpu_tf32_chain(func, &o);
  LaneFunc *f = gpu_compile(func, &o);
  lane_walk(f->body, refuse_assembly, cx);
  s->info.backend_ms = (double)(clock_ns() - start) / 1e6;
  s->info.shared_bytes = f->shared_bytes;
  if (!diag_sites_keep(f, &s->sites)) context_out_of_memory(cx);
  if (f->plan && !(s->run.plan = gpu_plan_keep(f->plan))) context_out_of_memory(cx);
  s->lane = f;
  s->keeps_context = true;
}

static void sim_discard(LoadedKernel *k) { diag_sites_free(((Specialization *)k)->sites); }

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void sim_describe(nereid_device_info *out) {
  cpu_set_t usable;
  out->threads =
      sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : (int)sysconf(_SC_NPROCESSORS_ONLN);
  out->available = true;
  out->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  snprintf(out->description, sizeof out->description,
           "a GPU's threads one by one, as compiled for %s: slow, finds races and wrong accesses", default_target);
}

static nereid_status sim_open(nereid_device *d, const char *suffix, nereid_error **error) {
  const GpuTarget *target = gpu_target_find(suffix ? suffix : default_target);
  if (!target) {
    Buf hint = {0};
    buf_puts(&hint, "there are");
    for (const GpuTarget *t = gpu_targets; t->name; t++)
      buf_printf(&hint, "%s %s", t == gpu_targets ? "" : ",", t->name);
    nereid_status status =
        error_set(error, NEREID_BAD_ARGUMENT, hint.at, "device 'sim:%s': after the colon stands a target", suffix);
    buf_destroy(&hint);
    return status;
  }
  Sim *sim = calloc(1, sizeof *sim);
  if (sim) sim->pool = pool_create(0);
  if (!sim || !sim->pool) {
    free(sim);
    return error_out_of_memory(error);
  }
  sim->target = target;
  d->identity = (uint64_t)target->sm;
  d->cuda_sm = target->sm;
  d->state = sim;
  d->threads = pool_threads(sim->pool);
  return NEREID_OK;
}

static void sim_close(nereid_device *d) {
  Sim *sim = d->state;
  pool_destroy(sim->pool);
  free(sim);
}

const DeviceKind device_sim = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .describe = sim_describe,
    .alloc = sim_alloc,
    .free = sim_free,
    .attach = sim_attach,
    .detach = sim_detach,
    .copy_in = sim_copy,
    .copy_out = sim_copy,
    .discard = sim_discard,
    .launch = sim_launch,
    .plan_fit = sim_plan_fit,
    .synchronize = sim_synchronize,
    .lists_programs = true,
};

const Compiler compiler_sim = {.kind = &device_sim, .optimizes = true, .compile = sim_compile};
