/* Launches on a GPU, and what comes of them later.
 *
 * A warm launch is one call of the driver, or the three that take less (cuda/graph_replay.c). Before it: the context is
 * made current if it is not; pointers are looked at (aligned to their elements; memory that the device reaches, which
 * costs a question to the driver only for a page not seen before); the kernel is noted as one that may be meant when a
 * fault shows up. No lock is taken and nothing allocated.
 *
 * Not so for two kinds of kernels that debugging needs: those that print or assert write to a buffer that the next
 * synchronize must read (cuda/messages.c); and launches of listed programs have lists that live until then. A list is
 * noted once the driver has taken the launch: what is noted has been launched, so that a synchronize which finds it and
 * then waits has waited for it.
 */
#include <stdlib.h>

#include "rt/cuda/cuda.h"

enum { MOST_LISTS = 64 }; /* that wait for a synchronize */

/* ---- pointers ---------------------------------------------------------------------------------------------------- */

static const char *param_name(const LoadedKernel *s, const ArgSlot *slot) { return s->params[slot->param]; }

static nereid_status host_pointer(const Cuda *c, const LoadedKernel *s, const ArgSlot *slot, uint64_t p,
                                  nereid_error **error) {
  return error_set(error, NEREID_BAD_ARGUMENT,
                   "allocate it with nereid_alloc and copy with nereid_copy_to_device; or nereid_alloc_host or "
                   "nereid_register, for memory of "
                   "the host that kernels reach",
                   "parameter '%s' of kernel '%s' points to the host's memory (0x%llx), which %s does not reach",
                   param_name(s, slot), s->name, (unsigned long long)p, c->name);
}

/* True when the driver knows the address. Pages of the device's own memory are remembered; the host's may hold both
 * kinds. */
static bool known_to_driver(Cuda *c, uint64_t p) {
  _Atomic uint64_t *entry = &c->pages[(p >> CUDA_PAGE_SHIFT) % CUDA_PAGES];
  uint64_t page = p >> CUDA_PAGE_SHIFT;
  if (atomic_load_explicit(entry, memory_order_relaxed) == page) return true;
  int type = 0;
  CuResult r = c->api.pointer_attribute(&type, CU_POINTER_MEMORY_TYPE, p);
  if (!r && type == CU_MEMORY_DEVICE) atomic_store_explicit(entry, page, memory_order_relaxed);
  return r != CU_INVALID_VALUE;
}

static nereid_status check_pointers(Cuda *c, const Launch *l, nereid_error **error) {
  const LoadedKernel *s = l->kernel;
  for (int i = 0, left = s->pointer_count; left && i < s->slot_count; i++) {
    const ArgSlot *slot = &s->slots[i];
    if (!slot->is_pointer) continue;
    left--;
    uint64_t p = l->args[i], align = (uint64_t)(slot->align ? slot->align : dtype_bytes(slot->dtype));
    if (!p) continue; /* fine where a mask keeps the kernel off it */
    if (p & (align - 1))
      return error_set(
          error, NEREID_BAD_ARGUMENT, "a GPU reads and writes elements at multiples of their size",
          "parameter '%s' of kernel '%s' is the address 0x%llx, which is not aligned to the %d bytes of %s",
          param_name(s, slot), s->name, (unsigned long long)p, (int)align,
          slot->align ? "an element" : dtype_name(slot->dtype));
    if (!c->pageable && !known_to_driver(c, p)) return host_pointer(c, s, slot, p, error);
  }
  return NEREID_OK;
}

/* ---- lists of programs ------------------------------------------------------------------------------------------- */

struct CudaList {
  CudaList *next;
  GpuProgramList *at;
};

CudaList *cuda_take_lists(Cuda *c) {
  CudaList *list = c->lists;
  c->lists = NULL;
  c->list_count = 0;
  return list;
}

void cuda_free_lists(Cuda *c, CudaList *list) {
  for (CudaList *next; list; list = next) {
    next = list->next;
    c->api.host_free(list->at);
    free(list);
  }
}

static void keep_captured(CudaKernel *k, CudaList *list) {
  pthread_mutex_lock(&k->cuda->lock);
  list->next = k->captured_lists;
  k->captured_lists = list;
  pthread_mutex_unlock(&k->cuda->lock);
}

static void keep_lists(Cuda *c, CudaList *list) {
  pthread_mutex_lock(&c->lock);
  for (CudaList *next; list; list = next) {
    next = list->next;
    list->next = c->lists;
    c->lists = list;
    c->list_count++;
  }
  pthread_mutex_unlock(&c->lock);
}

static nereid_status make_list(Cuda *c, nereid_device *d, const Launch *l, CudaList **out, nereid_error **error) {
  pthread_mutex_lock(&c->lock);
  bool many = c->list_count >= MOST_LISTS;
  pthread_mutex_unlock(&c->lock);
  nereid_status status = many ? cuda_synchronize(d, error) : NEREID_OK;
  if (status) return status;
  const nereid_options *o = l->options;
  CudaList *list = malloc(sizeof *list);
  if (!list) return error_out_of_memory(error);
  size_t bytes = sizeof *list->at + sizeof list->at->programs[0] * (size_t)o->program_count;
  CuResult r = c->api.host_alloc((void **)&list->at, bytes, CU_HOST_PORTABLE | CU_HOST_MAPPED);
  if (r) {
    free(list);
    return cuda_error(c, r, error, "the list of programs for kernel '%s'", l->kernel->name);
  }
  memcpy(list->at->grid, l->grid, sizeof l->grid);
  list->at->reserved = 0;
  memcpy(list->at->programs, o->programs, sizeof *o->programs * (size_t)o->program_count);
  list->next = NULL;
  *out = list;
  return NEREID_OK;
}

/* ---- launching --------------------------------------------------------------------------------------------------- */

static void note_launch(Cuda *c, CudaKernel *k, void *stream) {
  CudaKernel *first = atomic_load_explicit(&c->suspect, memory_order_relaxed);
  if (!first && atomic_compare_exchange_strong(&c->suspect, &first, k)) {
    atomic_store_explicit(&c->suspect_stream, stream, memory_order_relaxed);
    first = k;
  }
  if (first != k && !atomic_load_explicit(&c->several, memory_order_relaxed)) atomic_store(&c->several, true);
  if (atomic_load_explicit(&c->suspect_stream, memory_order_relaxed) != stream &&
      !atomic_load_explicit(&c->several_streams, memory_order_relaxed))
    atomic_store(&c->several_streams, true);
  if (!atomic_load_explicit(&k->launched, memory_order_relaxed)) atomic_store(&k->launched, true);
}

static nereid_status launch_failed(Cuda *c, const CudaKernel *k, CuResult r, const unsigned grid[3],
                                   const unsigned block[3], unsigned shared, nereid_error **error) {
  return cuda_error(
      c, r, error,
      "kernel '%s' cannot be launched with grid (%u, %u, %u), block (%u, %u, %u), %u bytes of shared memory and %d "
      "registers a thread",
      k->name, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, k->registers);
}

/* The block of a CUDA C kernel, which the launch says. */
static nereid_status block_of(const Cuda *c, const CudaKernel *k, const nereid_options *o, unsigned block[3],
                              nereid_error **error) {
  int64_t total = 1;
  if (o->block[0] < 1)
    return error_set(error, NEREID_BAD_ARGUMENT, "set options.block, or --block X[,Y[,Z]]",
                     "kernel '%s' is CUDA C: its launch must say how many threads a block has", k->name);
  for (int i = 0; i < 3; i++) {
    int n = i && !o->block[i] ? 1 : o->block[i];
    if (n < 1 || n > c->max_block[i])
      return error_set(error, NEREID_BAD_ARGUMENT, NULL, "the block has %d threads along %c; 1 to %d are possible", n,
                       "xyz"[i], c -> max_block[i]);
    block[i] = (unsigned)n;
    total *= n;
  }
  if (total > (int64_t)k->threads)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL,
                     "the block (%u, %u, %u) has %lld threads; %u are possible for kernel '%s' (%d registers a thread)",
                     block[0], block[1], block[2], (long long)total, k->threads, k->name, k->registers);
  return NEREID_OK;
}

static nereid_status ask_capturing(Cuda *c, const Launch *l, int *out, nereid_error **error) {
  CuResult r = c->api.stream_capturing(l->stream, out);
  return r ? cuda_error(c, r, error, "kernel '%s'", l->kernel->name) : NEREID_OK;
}

static nereid_status wait_for_launch(nereid_device *d, const Launch *l, nereid_error **error) {
  int capturing = 0;
  nereid_status status = ask_capturing(d->state, l, &capturing, error);
  return status || capturing ? status : cuda_synchronize_stream(d, l->stream, error);
}

/* Of a kernel whose blocks run several programs: it is told the grid, and launched with as many blocks as run at once.
 * *cluster: how many are one.
 */
static nereid_status persist(const CudaKernel *k, const Launch *l, unsigned grid[3], uint64_t hidden[3], void **params,
                             int *cluster, nereid_error **error) {
  for (int i = 0; i < 3; i++) {
    hidden[i] = grid[i];
    params[i] = &hidden[i];
  }
  int64_t blocks = l->total < k->blocks ? l->total : k->blocks;
  *cluster = gpu_plan_cluster(k->cuda->api.launch_with ? k->cluster : 1, l->grid, &blocks);
  grid[0] = (unsigned)blocks;
  grid[1] = grid[2] = 1;
  if (l->total <= INT32_MAX) return NEREID_OK;
  return error_set(error, NEREID_UNSUPPORTED, "leave persist out (options.without)",
                   "kernel '%s' runs %lld programs in loops, which count to %d", k->name, (long long)l->total,
                   INT32_MAX);
}

GpuPlanFit cuda_plan_fit(nereid_device *d, const Launch *l) {
  CudaMap maps[GPU_PLAN_MAPS];
  CudaEntered entered;
  GpuPlanFit fit = cuda_enter(d->state, &entered) ? GPU_PLAN_NO_MAPS : cuda_maps_make(l->kernel->cuda, l, maps, NULL);
  cuda_leave(d->state, entered);
  return fit;
}

static nereid_status pass_maps(CudaKernel *k, const Launch *l, CudaMap *maps, CudaCopies *copies, void **params,
                               nereid_error **error) {
  GpuPlanFit fit = cuda_maps_make(k, l, maps, copies);
  if (fit) return plan_refused(k->name, fit, error);
  for (int i = 0; i < l->kernel->plan->map_count; i++) params[i] = &maps[i];
  return NEREID_OK;
}

/* By the driver's call that takes attributes, where there are some. */
static CuResult launch_with(const Cuda *c, const CuKernelNode *n, int cluster, bool early, bool cooperative,
                            CuStream stream) {
  CuLaunchAttribute attributes[3];
  CuLaunchConfig config = {.grid = {n->grid[0], n->grid[1], n->grid[2]},
                           .block = {n->block[0], n->block[1], n->block[2]},
                           .shared = n->shared,
                           .stream = stream,
                           .attributes = attributes};
  const struct {
    bool wanted;
    int id;
  } all[] = {{early, CU_LAUNCH_PROGRAMMATIC}, {cooperative, CU_LAUNCH_COOPERATIVE}};
  for (int i = 0; i < 2; i++)
    if (all[i].wanted) attributes[config.attribute_count++] = (CuLaunchAttribute){.id = all[i].id, .value = {.yes = 1}};
  if (cluster > 1)
    attributes[config.attribute_count++] =
        (CuLaunchAttribute){.id = CU_LAUNCH_CLUSTER, .value = {.blocks = {(unsigned)cluster, 1, 1}}};
  if (config.attribute_count) return c->api.launch_with(&config, n->function, n->params, NULL);
  return c->api.launch(n->function, n->grid[0], n->grid[1], n->grid[2], n->block[0], n->block[1], n->block[2],
                       n->shared, stream, n->params, NULL);
}

/* ---- what a stream captures -------------------------------------------------------------------------------------- */

/* The node after which the next launch comes, when that is one alone; NULL. */
static CuGraphNode captured_last(const Cuda *c, CuStream stream, uint64_t *id) {
  const CuGraphNode *after = NULL;
  size_t n = 0;
  int capturing = 0;
  CuGraph graph;
  bool known = c->api.capture_info && c->api.launch_with && stream != CU_STREAM_PER_THREAD &&
               !c->api.capture_info(stream, &capturing, id, &graph, &after, &n);
  return known && capturing == 1 && n == 1 ? after[0] : NULL;
}

/* In a graph a kernel that waits_for_grid begins while the blocks of the one before end (programmatic dependent launch:
 * 0.2 to 0.6 us less a kernel on an H200, bench/results/fuse.md), where that one waits, too: what came before both is
 * over then. Of other kernels nobody knows for what they waited. */
static bool may_begin_early(Cuda *c, const CudaKernel *k, CuStream stream) {
  uint64_t id = 0;
  CuGraphNode last = k->waits_for_grid ? captured_last(c, stream, &id) : NULL;
  if (!last) return false;
  pthread_mutex_lock(&c->lock);
  bool ours = c->captured_in == id && c->captured == last;
  pthread_mutex_unlock(&c->lock);
  return ours;
}

static void note_captured(Cuda *c, const CudaKernel *k, CuStream stream) {
  uint64_t id = 0;
  CuGraphNode last = k->waits_for_grid ? captured_last(c, stream, &id) : NULL;
  if (!last) return;
  pthread_mutex_lock(&c->lock);
  c->captured_in = id, c->captured = last;
  pthread_mutex_unlock(&c->lock);
}

static bool has_attributes(const nereid_options *o) { return o->launch_pdl || o->cooperative_grid; }

static CuResult start(Cuda *c, const Launch *l, const CuKernelNode *node, int cluster, bool has_buffers) {
  CudaKernel *k = l->kernel->cuda;
  bool plain = !has_attributes(l->options) && cluster < 2 && !has_buffers && !c->blocking;
  CuResult r = 0;
  if (plain && cuda_replay_launch(c, k, node, l->stream, &r)) return r;
  bool cooperative = l->options->cooperative_grid;
  bool early = l->options->launch_pdl || (!cooperative && may_begin_early(c, k, l->stream));
  r = launch_with(c, node, cluster, early, cooperative, l->stream);
  if (!r) note_captured(c, k, l->stream);
  return r;
}

static nereid_status launch(nereid_device *d, const Launch *l, nereid_error **error) {
  Cuda *c = d->state;
  const LoadedKernel *s = l->kernel;
  CudaKernel *k = s->cuda;
  unsigned grid[3] = {(unsigned)l->grid[0], (unsigned)l->grid[1], (unsigned)l->grid[2]};
  unsigned block[3] = {k->threads, 1, 1}, shared = k->shared_bytes;
  nereid_status status = launch_check_instrument(l, error);
  if (!status) status = check_pointers(c, l, error);
  if (!status && k->is_cuda_c) {
    status = block_of(c, k, l->options, block, error);
    shared = (unsigned)l->options->shared_bytes;
    if (!status && shared > k->shared_bytes) status = cuda_allow_shared(k, shared, error);
  }
  if (!status && has_attributes(l->options) && !c->api.launch_with)
    status = error_set(error, NEREID_UNSUPPORTED, "CUDA 11.8's driver and newer ones do",
                       "the driver does not take launch_pdl and cooperative_grid");
  if (status) return status;

  uint64_t hidden[3];
  CudaMap maps[GPU_PLAN_MAPS];
  CudaCopies copies = {0};
  CudaList *list = NULL;
  CudaReport *report = NULL;
  void *on_stack[67 + GPU_PLAN_MAPS], **params = on_stack;
  int n = s->slot_count, extra = 0, capturing = 0, cluster = 1;
  if (n > 64) {
    params = malloc(sizeof *params * (size_t)(n + 3 + GPU_PLAN_MAPS));
    if (!params) return error_out_of_memory(error);
  }
  for (int i = 0; i < n; i++) params[i] = (void *)(uintptr_t)&l->args[i];
  if (k->reports || k->uses_list) status = ask_capturing(c, l, &capturing, error);
  /* it may synchronize, and so comes before a report is entered */
  if (k->uses_list && !status) status = make_list(c, d, l, &list, error);
  if (k->reports && !status) status = cuda_report_enter(k, l->stream, capturing, l->options, &report, error);
  if (report) {
    hidden[extra] = (uint64_t)(uintptr_t)cuda_report_diag(report);
    params[n + extra] = &hidden[extra];
    extra++;
  }
  if (list) {
    hidden[extra] = (uint64_t)(uintptr_t)list->at;
    params[n + extra] = &hidden[extra];
    grid[0] = (unsigned)l->options->program_count, grid[1] = grid[2] = 1;
    extra++;
  }
  if (s->instrumented) {
    hidden[extra] = (uint64_t)(uintptr_t)l->options->instrument_buffer;
    params[n + extra] = &hidden[extra];
  }
  if (k->persistent && !status) status = persist(k, l, grid, hidden, params + n, &cluster, error);
  if (s->plan && !status)
    status = pass_maps(k, l, maps, &copies, params + n + (k->persistent ? 3 : extra + (s->instrumented)), error);
  if (!status) {
    const CuKernelNode node = {.function = k->function,
                               .grid = {grid[0], grid[1], grid[2]},
                               .block = {block[0], block[1], block[2]},
                               .shared = shared,
                               .params = params};
    CuResult r = start(c, l, &node, cluster, extra || s->instrumented);
    if (r) {
      status = launch_failed(c, k, r, grid, block, shared, error);
      cuda_free_lists(c, list);
    } else {
      note_launch(c, k, l->stream);
      if (list && capturing) keep_captured(k, list);
      else if (list) keep_lists(c, list);
    }
  } else {
    cuda_free_lists(c, list);
  }
  cuda_free_copies(c, l->stream, &copies);
  if (report) cuda_report_leave(report);
  if (params != on_stack) free(params);
  if (!status && (c->blocking || l->options->blocking)) status = wait_for_launch(d, l, error);
  return status;
}

nereid_status cuda_launch(nereid_device *d, const Launch *l, nereid_error **error) {
  Cuda *c = d->state;
  if (l->options->programs && !l->options->program_count) return NEREID_OK;
  if (l->options->program_count > INT32_MAX)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "options.programs has %lld entries; %d are possible on %s",
                     (long long)l->options->program_count, INT32_MAX, c->name);
  CudaEntered entered;
  CuResult r = cuda_enter(c, &entered);
  nereid_status status =
      r ? cuda_error(c, r, error, "kernel '%s' cannot be launched", l->kernel->name) : launch(d, l, error);
  cuda_leave(c, entered);
  return status;
}

/* ---- synchronizing ----------------------------------------------------------------------------------------------- */

/* What may be meant when a wait fails: noted before the wait, since others go on launching meanwhile. Under the lock.
 */
static CudaBlame take_blame(Cuda *c) {
  CudaBlame b = {.several = atomic_exchange(&c->several, false)};
  const CudaKernel *k = atomic_exchange(&c->suspect, NULL);
  atomic_store(&c->several_streams, false);
  if (k) snprintf(b.name, sizeof b.name, "%s", k->name);
  return b;
}

/* A fault that was found where it could not be said. Under the lock. */
static nereid_status take_pending(Cuda *c, nereid_error **error) {
  nereid_error *e = c->pending;
  c->pending = NULL;
  nereid_status status = nereid_error_status(e);
  if (error && e) *error = e;
  else nereid_error_free(e);
  return status;
}

static void keep_pending(Cuda *c, nereid_error *e) {
  if (c->pending) nereid_error_free(e);
  else c->pending = e;
}

/* What is to be looked at after a wait, taken before it: what launches that come meanwhile leave behind is not among
 * it. */
typedef struct Awaited {
  CudaBlame blame;
  CudaList *lists;
  CudaReport *reports;
} Awaited;

/* What is said after a wait that returned r. The reports come first, also of a context that is lost: they lie in the
 * host's memory, and may say why. */
static nereid_status after_wait(Cuda *c, CuResult r, const Awaited *a, nereid_error **error) {
  pthread_mutex_lock(&c->lock);
  nereid_status status = take_pending(c, error);
  pthread_mutex_unlock(&c->lock);
  nereid_status report = cuda_reports_read(c, a->reports, !r || cuda_is_sticky(r), status ? NULL : error);
  if (!status) status = report;
  if (r) {
    pthread_mutex_lock(&c->lock);
    nereid_status failed = cuda_error_blaming(c, r, &a->blame, status ? NULL : error, "waiting for %s", c->name);
    if (!status) status = failed;
    pthread_mutex_unlock(&c->lock);
    keep_lists(c, a->lists); /* a kernel may run yet */
  } else {
    cuda_free_lists(c, a->lists);
  }
  return status;
}

static nereid_status synchronize(Cuda *c, nereid_error **error) {
  CudaEntered entered;
  pthread_mutex_lock(&c->lock);
  Awaited a = {.lists = cuda_take_lists(c), .reports = cuda_reports_close(c, true, NULL)};
  a.blame = take_blame(c);
  pthread_mutex_unlock(&c->lock);
  CuResult r = cuda_enter(c, &entered);
  if (!r) r = c->api.context_synchronize();
  nereid_status status = after_wait(c, r, &a, error);
  cuda_leave(c, entered);
  return status;
}

nereid_status cuda_synchronize(nereid_device *d, nereid_error **error) { return synchronize(d->state, error); }

nereid_status cuda_synchronize_stream(nereid_device *d, void *stream, nereid_error **error) {
  Cuda *c = d->state;
  CudaEntered entered;
  pthread_mutex_lock(&c->lock);
  Awaited a = {.reports = cuda_reports_close(c, false, stream)};
  pthread_mutex_unlock(&c->lock);
  CuResult r = cuda_enter(c, &entered);
  if (!r) r = c->api.stream_synchronize(stream);
  pthread_mutex_lock(&c->lock);
  /* When nothing was launched elsewhere, all that was noted has ended. */
  if (r || (atomic_load(&c->suspect_stream) == stream && !atomic_load(&c->several_streams))) a.blame = take_blame(c);
  pthread_mutex_unlock(&c->lock);
  nereid_status status = after_wait(c, r, &a, error);
  cuda_leave(c, entered);
  return status;
}

void cuda_retire(CudaKernel *k) {
  Cuda *c = k->cuda;
  nereid_error *e = NULL;
  if (!atomic_load(&k->launched)) return;
  synchronize(c, &e);
  if (!e) return;
  pthread_mutex_lock(&c->lock);
  keep_pending(c, e);
  pthread_mutex_unlock(&c->lock);
}
