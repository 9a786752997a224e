/* measure: the figures that advice rests on. Three passes over the trace:
 *
 *     1  by time     when GPUs were busy at all: the region to look at, without a start-up in which a framework loads
 *                    its libraries
 *     2  by launch   waits, by call, range and the copy before them; kernels by name, beside what launched them; copies
 *     3  by time     gaps in which a GPU had nothing to do, and what the thread that ended the gap did meanwhile; what
 *                    ran beside what
 *
 * The five bottlenecks divide the region: a moment in which a GPU ran a kernel of the network alone is the network's;
 * another in which it ran something is compute's or memory's, by what the kernel does; a gap that ended with input from
 * the host is data loading's, and any other gap is overhead. Where flops and bytes of a launch are known (our own
 * launches) and the device's peaks too, the roofline says which of the two bounds it; else its name does: matrix
 * products, convolutions and attention compute, the rest moves memory.
 */
#include <ctype.h>

#include "prof/view/advice.h"

/* ---- by name ----------------------------------------------------------------------------------------------------- */

static bool has(const char *text, const char *part) {
  for (; *text; text++) {
    size_t i = 0;
    while (part[i] && tolower((unsigned char)text[i]) == part[i]) i++;
    if (!part[i]) return true;
  }
  return false;
}
static bool has_any(const char *text, const char *const *parts) {
  for (; *parts; parts++)
    if (has(text, *parts)) return true;
  return false;
}
static bool is_network(const char *kernel) {
  return has_any(kernel, (const char *const[]){"nccl", "nvshmem", "all_reduce", "allreduce", "allgather",
                                               "reducescatter", "deep_ep", NULL});
}
static bool is_matrix(const char *kernel) {
  return has_any(kernel, (const char *const[]){"gemm", "matmul", "cutlass", "nvjet", "xmma", "conv2d", "conv3d",
                                               "wgrad", "dgrad", "fprop", "flash_fwd", "flash_bwd", "attention", "fmha",
                                               "_dot_kernel", "cublaslt", NULL});
}
static bool is_input(const char *range) {
  return has_any(range, (const char *const[]){"dataload", "data_load", "data load", "next_batch", "load batch",
                                              "get_batch", "fetch", "tokeniz", NULL});
}

/* ---- pass 1 ------------------------------------------------------------------------------------------------------ */

enum { KEPT_GAPS = 8 };
typedef struct Gap {
  int64_t start, end, before;
} Gap; /* before: activities that had begun */

static void region(Measured *m) {
  Gap longest[KEPT_GAPS] = {0};
  int64_t until = 0, n = 0;
  bool seen[64] = {false};
  VEC(Gap) loads = {0};
  for (const JoinedEvent *i; (i = events_next(m->t));) {
    if (m->gpu && i->kind == TRACE_CALL && strstr(trace_text(m->t->reader, i->name), "Load"))
      vec_push(m->t->arena, &loads, (Gap){i->start, i->end, n});
    bool counts = m->gpu ? event_is_activity(i)
                         : i->kind == TRACE_KERNEL ||
                               (i->kind == TRACE_CALL && (i->sub == CALL_LAUNCH || i->sub == CALL_COMPILE));
    if (!counts) continue;
    if (m->gpu && !seen[i->device % 64]) seen[i->device % 64] = true, m->devices++;
    int64_t start = m->gpu && i->has_call && i->call_start < i->start && !n ? i->call_start : i->start;
    if (!n) m->from = until = start;
    if (i->start > until) {
      Gap g = {until, m->gpu && i->has_call && i->call_start > until ? i->call_start : i->start, n};
      int least = 0;
      for (int k = 1; k < KEPT_GAPS; k++)
        if (longest[k].end - longest[k].start < longest[least].end - longest[least].start) least = k;
      if (g.end - g.start > longest[least].end - longest[least].start) longest[least] = g;
    }
    if (i->end > until) until = i->end;
    n++;
  }
  m->to = until;
  if (!m->gpu) m->devices = 1;
  int64_t first = m->from; /* a gap of a tenth of all that comes before a tenth of the activity is start-up */
  for (int again = 0; again < KEPT_GAPS; again++)
    for (int k = 0; k < KEPT_GAPS; k++)
      if (longest[k].end > m->from && longest[k].before * 10 <= n &&
          (longest[k].end - longest[k].start) * 10 > m->to - m->from)
        m->from = longest[k].end;
  /* So is all until libraries are loaded (cuLibraryLoadData, cuModuleLoad: at the first use of a kernel), as far as
   * that comes in the first quarter. */
  for (int k = 0; k < loads.n; k++)
    if (loads.at[k].before && loads.at[k].before * 4 <= n && loads.at[k].end > m->from && loads.at[k].end < m->to)
      m->from = loads.at[k].end;
  m->startup = m->from - first;
  m->span = (m->to - m->from) * m->devices;
}

/* ---- pass 2 ------------------------------------------------------------------------------------------------------ */

typedef struct ThreadState {
  const char *copy_call;
  uint64_t copy_correlation;
  TraceCopyKind copy;
  int64_t bytes;
  int wait;
  uint64_t wait_correlation;
} ThreadState;

static const char *keep(Measured *m, const char *text) { return *text ? intern_z(m->t->cx, text) : ""; }

static int waits_of(Measured *m, const JoinedEvent *i, const char *range, const ThreadState *s) {
  char key[1200];
  bool own = i->sub == CALL_COPY_SYNC, alloc = i->sub == CALL_ALLOC || i->sub == CALL_FREE;
  const char *name = event_name(m->t, i), *copy_call = own ? name : alloc ? NULL : s->copy_call;
  int n = snprintf(key, sizeof key, "%.500s\n%.500s\n%s\n%d", name, range, copy_call ? copy_call : "",
                   own || !copy_call ? -1 : (int)s->copy);
  int *at = map_get(m->wait_by, key);
  if (at) return *at;
  at = NEW(m->t->arena, int);
  *at = m->waits.n;
  map_put(m->wait_by, arena_strndup(m->t->arena, key, (size_t)n < sizeof key ? (size_t)n : sizeof key - 1), at);
  vec_push(m->t->arena, &m->waits,
           (Waits){.call = keep(m, name),
                   .range = keep(m, range),
                   .copy_call = copy_call ? keep(m, copy_call) : NULL,
                   .copy = own || !copy_call ? COPY_UNKNOWN : s->copy,
                   .is_alloc = alloc});
  return *at;
}

static KernelSum *kernel_of(Measured *m, const JoinedEvent *i) {
  const char *name = event_name(m->t, i);
  int *at = map_get(m->kernel_by, name);
  if (!at) {
    at = NEW(m->t->arena, int);
    *at = m->kernel.n;
    const char *own = keep(m, name);
    map_put(m->kernel_by, own, at);
    vec_push(m->t->arena, &m->kernel,
             (KernelSum){.name = own,
                         .bound = is_network(name)  ? BOUND_NETWORK
                                  : is_matrix(name) ? BOUND_COMPUTE
                                                    : BOUND_MEMORY});
  }
  return &m->kernel.at[*at];
}

static const char *range_around(Measured *m, const IntervalStack *n, int depth) {
  for (int at = depth - 1; at >= 0; at--)
    if (n->open[at].event.kind == TRACE_RANGE) return trace_text(m->t->reader, n->open[at].event.name);
  return "";
}
static bool in_a_call(const IntervalStack *n,
                      int depth) { /* the driver's call inside of the runtime's is the same wait */
  for (int at = 0; at < depth; at++)
    if (n->open[at].event.kind == TRACE_CALL) return true;
  return false;
}
static bool may_wait(const JoinedEvent *i) {
  return i->kind == TRACE_CALL &&
         (i->sub == CALL_SYNC || i->sub == CALL_COPY_SYNC || i->sub == CALL_ALLOC || i->sub == CALL_FREE);
}
static bool inside(const Measured *m, const JoinedEvent *i) { return i->start >= m->from && i->start <= m->to; }

/* A kernel's bound by the roofline, where work and peaks are known. */
static void judge(Measured *m, KernelSum *k, const JoinedEvent *i) {
  if (k->bound == BOUND_NETWORK || i->flops + i->bytes <= 0) return;
  const DeviceInfo *d = events_device(m->t, i->process, i->device);
  double ridge = d && d->bandwidth > 0 && d->flops > 0 ? d->flops / d->bandwidth : 10;
  k->bound = i->bytes <= 0 || i->flops / i->bytes > ridge ? BOUND_COMPUTE : BOUND_MEMORY, k->known = true;
}

static void count_kernel(Measured *m, const JoinedEvent *i) {
  KernelSum *k = kernel_of(m, i);
  int64_t took = i->end - i->start, call = i->call_end - i->call_start;
  const DeviceInfo *d = events_device(m->t, i->process, i->device);
  const uint32_t *g = i->kernel.grid;
  judge(m, k, i);
  k->count++, k->total += took, k->flops += i->flops, k->bytes += i->bytes;
  m->kernels++, m->kernel_time += took;
  if (d && d->multiprocessors && (uint64_t)g[0] * g[1] * g[2] < (uint64_t)d->multiprocessors) k->unfilled += took;
  if (!i->has_call || i->kernel.graph || !i->on_gpu) return;
  k->launched++, k->launch_total += call;
  if (took < call) k->small++, k->small_total += took, k->small_launch_total += call;
}

static void by_launch(Measured *m) {
  IntervalStacks stacks = {.arena = m->t->arena};
  VEC(ThreadState) states = {0};
  for (const JoinedEvent *i; (i = events_next(m->t));) {
    if (event_is_activity(i)) {
      if (!inside(m, i)) continue;
      if (i->kind == TRACE_KERNEL) count_kernel(m, i);
      if (i->kind == TRACE_COPY) {
        CopySum *c = &m->copies[i->sub <= COPY_UNKNOWN ? i->sub : COPY_UNKNOWN];
        c->count++, c->total += i->end - i->start, c->bytes += i->moved;
        if (i->pageable) c->pageable++, c->pageable_total += i->end - i->start, c->pageable_bytes += i->moved;
        IntervalStack *n = i->has_call ? intervals_get(&stacks, i->process, i->call_thread) : NULL;
        if (!n || n->row < 0) continue;
        ThreadState *s = &states.at[n->row];
        if (s->copy_correlation == i->correlation) s->copy = i->sub, s->bytes = i->moved;
        if (s->wait >= 0 && s->wait_correlation == i->correlation) { /* a copy that waits: itself */
          Waits *w = &m->waits.at[s->wait];
          w->copy = i->sub, w->bytes = i->moved > w->bytes ? i->moved : w->bytes;
        }
      }
      continue;
    }
    if (!event_of_thread(i)) continue;
    Open *o = intervals_open(&stacks, i);
    IntervalStack *n = intervals_get(&stacks, i->process, i->thread);
    int depth = (int)(o - n->open);
    if (n->row < 0) n->row = states.n, vec_push(m->t->arena, &states, (ThreadState){.wait = -1});
    ThreadState *s = &states.at[n->row];
    if (i->kind == TRACE_KERNEL && inside(m, i)) count_kernel(m, i);
    if (i->kind != TRACE_CALL) continue;
    bool nested = in_a_call(n, depth);
    if (may_wait(i) && !nested) {
      int w = waits_of(m, i, range_around(m, n, depth), s);
      vec_push(m->t->arena, &m->wait_of, w);
      Waits *x = &m->waits.at[w];
      if (inside(m, i)) {
        int64_t took = i->end - i->start;
        x->count++, x->total += took;
        if (took > x->longest) x->longest = took;
        if (s->copy_call && i->sub == CALL_SYNC && s->bytes > x->bytes) x->bytes = s->bytes;
      }
      s->wait = w, s->wait_correlation = i->correlation;
    }
    if (!nested) { /* what the next wait comes right after */
      bool copy = i->sub == CALL_COPY;
      s->copy_call = copy ? keep(m, event_name(m->t, i)) : NULL, s->copy_correlation = copy ? i->correlation : 0,
      s->copy = COPY_UNKNOWN, s->bytes = 0;
    }
    if (!inside(m, i)) continue;
    if (i->sub == CALL_LAUNCH && !nested) m->launches++, m->launch_time += i->end - i->start;
    if (i->sub == CALL_COMPILE) m->compiles++, m->compile_time += i->end - i->start;
  }
}

/* ---- pass 3 ------------------------------------------------------------------------------------------------------ */

enum { RECENT = 512 };
typedef struct Recent {
  int64_t start, end;
  const char *what;
} Recent;
typedef struct Thread {
  Recent call[RECENT];
  int64_t n;
} Thread; /* the outermost calls of a thread, the last ones */
typedef struct Gpu {
  int64_t until, kernels_until, network_until, copies_until;
  int wait;
  int64_t wait_end;
} Gpu;

static void doing(Measured *m, const char *what, const char *range, int64_t ns) {
  char key[1100];
  snprintf(key, sizeof key, "%.500s\n%.500s", what, range);
  int *at = map_get(m->doing_by, key);
  if (!at) {
    at = NEW(m->t->arena, int);
    *at = m->doing.n;
    map_put(m->doing_by, arena_strdup(m->t->arena, key), at);
    vec_push(m->t->arena, &m->doing, (Doing){.what = keep(m, what), .range = keep(m, range)});
  }
  m->doing.at[*at].ns += ns, m->doing.at[*at].gaps++;
}

static const char program[] = "the program's own code, outside of CUDA calls";

/* A gap of a GPU, from `from` to the start of i. */
static void gap(Measured *m, IntervalStacks *stacks, Gpu *g, const JoinedEvent *i, int64_t from, Thread **threads) {
  int64_t to = i->start, length = to - from;
  m->idle += length, m->gaps++;
  if (length > m->longest_gap) m->longest_gap = length, m->longest_gap_at = from;
  IntervalStack *n = i->has_call ? intervals_get(stacks, i->process, i->call_thread) : NULL;
  const char *range = "";
  /* What the thread did that ended the gap. Its launch of i may have ended, and what came after is not the gap's. */
  int64_t until = i->has_call && i->call_end < to ? i->call_end : to, in_calls = 0;
  if (n && until > from) {
    for (int at = 0; at < n->n; at++) /* the innermost that was open all the while */
      if (n->open[at].event.kind == TRACE_RANGE && n->open[at].event.start <= from)
        range = trace_text(m->t->reader, n->open[at].event.name);
    Thread *s = n->row >= 0 ? threads[n->row] : NULL;
    for (int64_t k = s ? (s->n > RECENT ? s->n - RECENT : 0) : 0; s && k < s->n; k++) {
      Recent *r = &s->call[k % RECENT];
      int64_t a = r->start > from ? r->start : from, b = r->end < until ? r->end : until;
      if (b > a) doing(m, r->what, range, b - a), in_calls += b - a;
    }
    if (until - from > in_calls) doing(m, program, range, until - from - in_calls);
    if (to > until) doing(m, "the work was launched, the GPU had not begun it", range, to - until);
  } else
    doing(m,
          i->has_call ? "the work was launched before; the GPU waited for other reasons (a stream or an event)"
                      : "not known (the call that ended the gap is not in the trace)",
          "", length);
  bool input = i->kind == TRACE_COPY && i->sub == COPY_HOST_TO_DEVICE && i->moved >= 4096;
  if (input || is_input(range)) m->bound[BOUND_DATA] += length, m->gaps_data += length;
  else m->bound[BOUND_OVERHEAD] += length;
  if (g->wait >= 0 && g->wait_end >= from && g->wait_end <= to)
    m->waits.at[g->wait].idle += to - g->wait_end, m->waits.at[g->wait].idle_count++;
  g->wait = -1;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void by_time(Measured *m) {
  IntervalStacks stacks = {.arena = m->t->arena};
  Gpu gpus[64];
  VEC(Thread *) threads = {0};
  int waits_seen = 0, last_wait = -1;
  int64_t last_wait_end = 0;
  for (int k = 0; k < 64; k++) gpus[k] = (Gpu){m->from, m->from, m->from, m->from, -1, 0};
  for (const JoinedEvent *i; (i = events_next(m->t));) {
    if (event_of_thread(i)) {
      Open *o = intervals_open(&stacks, i);
      IntervalStack *n = intervals_get(&stacks, i->process, i->thread);
      int depth = (int)(o - n->open);
      if (i->kind != TRACE_CALL) continue;
      bool nested = in_a_call(n, depth);
      if (may_wait(i) && !nested) {
        int w = waits_seen < m->wait_of.n ? m->wait_of.at[waits_seen++] : -1;
        if (i->end >= last_wait_end) last_wait = w, last_wait_end = i->end;
      }
      if (nested) continue;
      if (n->row < 0) {
        Thread *fresh = NEW(m->t->arena, Thread);
        n->row = threads.n, vec_push(m->t->arena, &threads, fresh);
      }
      Thread *s = threads.at[n->row];
      s->call[s->n++ % RECENT] = (Recent){i->start, i->end, keep(m, event_name(m->t, i))};
      continue;
    }
    if (!event_is_activity(i) || i->end <= m->from || i->start > m->to) continue;
    Gpu *g = &gpus[i->device % 64];
    int64_t start = most(i->start, m->from);
    if (start > g->until) {
      g->wait = last_wait, g->wait_end = last_wait_end;
      gap(m, &stacks, g, i, g->until, threads.at);
    }
    int64_t fresh = most(0, i->end - most(start, g->until)); /* ns in which nothing else had run so far */
    m->busy += fresh;
    bool host = i->kind == TRACE_COPY && (i->sub == COPY_HOST_TO_DEVICE || i->sub == COPY_DEVICE_TO_HOST);
    if (i->kind == TRACE_KERNEL) {
      KernelSum *k = kernel_of(m, i);
      bool network = k->bound == BOUND_NETWORK;
      if (network) m->network += i->end - start, m->network_count++;
      /* Kernels come in the order of their starts: what a later one takes over from the network or from copies is
       * moved. */
      int64_t over_network = network ? 0 : most(0, least(i->end, g->network_until) - most(start, g->kernels_until));
      int64_t over_copies =
          most(0, least(i->end, g->copies_until) - most(start, most(g->kernels_until, g->network_until)));
      m->bound[k->bound] += fresh;
      if (over_network > 0)
        m->bound[BOUND_NETWORK] -= over_network, m->bound[k->bound] += over_network, m->network_alone -= over_network;
      if (over_copies > 0)
        m->bound[BOUND_DATA] -= over_copies, m->bound[k->bound] += over_copies, m->copies_alone -= over_copies;
      if (network) m->network_alone += fresh, g->network_until = most(g->network_until, i->end);
      else g->kernels_until = most(g->kernels_until, i->end);
      if (!k->known && !network) m->bound_by_names = true;
    } else if (host) {
      m->bound[BOUND_DATA] += fresh, m->copies_alone += fresh, m->copies_all += i->end - start;
      g->copies_until = most(g->copies_until, i->end);
    } else m->bound[BOUND_MEMORY] += fresh;
    g->until = most(g->until, i->end);
  }
  for (int k = 0, left = m->devices; k < 64 && left; k++) /* the end of a GPU that stopped before the others */
    if (gpus[k].until > m->from) {
      int64_t rest = m->to - gpus[k].until;
      if (rest > 0) m->idle += rest, m->bound[BOUND_OVERHEAD] += rest;
      left--;
    }
}

/* Without a GPU: kernels of our own devices ran on the thread that launched them; the rest of the region is overhead.
 */
static void on_cpu(Measured *m) {
  int64_t kernels = 0;
  for (int k = 0; k < m->kernel.n; k++)
    m->bound[m->kernel.at[k].bound] += m->kernel.at[k].total, kernels += m->kernel.at[k].total,
        m->bound_by_names |= !m->kernel.at[k].known;
  m->busy = kernels, m->idle = m->span > kernels ? m->span - kernels : 0;
  m->bound[BOUND_OVERHEAD] += m->idle;
}

bool view_measure(EventJoin *t, Measured *m) {
  *m = (Measured){.t = t};
  m->wait_by = map_create(t->arena, true), m->kernel_by = map_create(t->arena, true),
  m->doing_by = map_create(t->arena, true);
  if (!events_begin(t, BY_TIME)) return false;
  m->gpu = t->has_gpu;
  region(m);
  if (t->error[0] || !events_begin(t, BY_LAUNCH)) return false;
  by_launch(m);
  if (t->error[0] || !m->gpu) return on_cpu(m), !t->error[0];
  if (!events_begin(t, BY_TIME)) return false;
  by_time(m);
  return !t->error[0];
}
