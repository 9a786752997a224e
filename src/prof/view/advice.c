/* advice: what is wrong with a run, in words, each with the figures that say so, the costliest first; and which of the
 * five bottlenecks it is under.
 *
 * measure.c has the figures; here are the thresholds from which something is worth a person's time (one table,
 * explained in docs/guide/profiles.md) and the words. A finding says what, how often, how long and where, then what to
 * do about it.
 */
#include <stdlib.h>

#include "prof/view/advice.h"

/* Shares are of the region looked at. */
static const struct {
  double wait, gaps, launch, copies, pageable, dominates, compile, alloc;
  int64_t waits_after_copy, small_kernels, allocs;
} from = {
    .wait = 0.005, /* waits of one kind, from two on, by their time or by the GPU's idle time after them */
    .waits_after_copy =
        5, /* ... or so many that each read something back, whatever they cost here: they end all running ahead */
    .gaps = 0.10,        /* the GPU idle */
    .small_kernels = 20, /* kernels that took less than the call that launched them, */
    .launch = 0.25,      /* ... when they are such a part of all kernels */
    .copies = 0.05,      /* copies from or to the host while no kernel ran */
    .pageable = 0.02,    /* copies of host memory that is not page-locked */
    .dominates = 0.40,   /* one kernel, of all kernels' time */
    .compile = 0.05,
    .alloc = 0.01,
    .allocs = 10,
};

typedef struct Finding {
  const char *kind;                    /* for programs */
  int64_t cost;                        /* ns */
  Buf what, evidence, advice, figures; /* evidence: lines; figures: members of a JSON object, after others */
  JsonWriter members;
} Finding;

typedef struct Advice {
  Measured m;
  VEC(Finding) findings;
} Advice;

static Finding *finding(Advice *a, const char *kind, int64_t cost) {
  vec_push(a->m.t->arena, &a->findings,
           (Finding){.kind = kind, .cost = cost, .members = {.spaced = true, .follows = true}});
  return &a->findings.at[a->findings.n - 1];
}

static double part(int64_t a, int64_t b) { return b > 0 ? (double)a / (double)b : 0; }
static double percent(int64_t a, int64_t b) { return 100 * part(a, b); }
#define TIME(ns) time_text((char[32]){0}, (double)(ns))
#define BYTES(n) bytes_text((char[32]){0}, (double)(n))

/* Where a finding's next figure goes. Findings move as they grow more. */
static JsonWriter *figures(Finding *f) {
  f->members.buf = &f->figures;
  return &f->members;
}
static void figure(Finding *f, const char *name, double v) { json_put_real(figures(f), name, 17, v); }
static void figure_text(Finding *f, const char *name, const char *text) { json_put_text(figures(f), name, text); }

/* ---- waits ------------------------------------------------------------------------------------------------------- */

static const char *const directions[] = {"host to device", "device to host",   "device to device",
                                         "host to host",   "device to device", "unknown direction"};

static void say_waits(Advice *a) {
  Measured *m = &a->m;
  for (int i = 0; i < m->waits.n; i++) {
    Waits *w = &m->waits.at[i];
    bool reads_back = w->copy_call && w->copy == COPY_DEVICE_TO_HOST;
    int64_t cost = w->total > w->idle ? w->total : w->idle;
    if (w->is_alloc
            ? w->count < from.allocs || part(w->total, m->span) < from.alloc
            : w->count < 2 || (part(cost, m->span) < from.wait && !(reads_back && w->count >= from.waits_after_copy)))
      continue;
    Finding *f = finding(a, w->is_alloc ? "allocation" : "synchronization", cost);
    bool own = w->copy_call && !strcmp(w->copy_call, w->call);
    if (w->is_alloc)
      buf_printf(&f->what, "Memory is allocated or freed while the run goes on: %s, %lld times, %s in all", w->call,
                 (long long)w->count, TIME(w->total));
    else
      buf_printf(&f->what, "The CPU stood still for the GPU: %s%s%s, %lld times, %s in all", w->call,
                 reads_back && !own ? " after " : "", reads_back && !own ? w->copy_call : "", (long long)w->count,
                 TIME(w->total));
    buf_printf(&f->evidence, "%.1f%% of the run; mean %s, longest %s\n", percent(w->total, m->span),
               TIME((double)w->total / (double)w->count), TIME(w->longest));
    if (m->launches >= 2 * w->count && !w->is_alloc)
      buf_printf(&f->evidence, "once every %lld launches\n", (long long)(m->launches / w->count));
    if (*w->range) buf_printf(&f->evidence, "in range \"%s\"\n", w->range);
    if (w->copy_call && w->copy != COPY_UNKNOWN) {
      buf_printf(&f->evidence, "%s copied %s (%s at most)", own ? "it" : w->copy_call, directions[w->copy],
                 BYTES(w->bytes));
      buf_puts(&f->evidence, reads_back && w->bytes <= 64
                                 ? ": a number read back, as print(tensor), tensor.item() or float(tensor) do\n"
                                 : "\n");
    }
    if (w->idle)
      buf_printf(&f->evidence,
                 "%lld times the GPU had nothing left to do by then, and idled %s until it got work again (%.1f%% of "
                 "the run)\n",
                 (long long)w->idle_count, TIME(w->idle), percent(w->idle, m->span));
    buf_puts(&f->advice,
             w->is_alloc ? "allocate once, before the loop, or from a pool (PyTorch's caching allocator, "
                           "cudaMallocAsync): cudaMalloc and cudaFree may wait for the device"
             : reads_back && w->bytes <= 64 ? "leave the number on the GPU (sum losses there), and read it every "
                                              "hundredth step or at the end; until then the CPU runs ahead of the GPU"
             : reads_back
                 ? "copy into page-locked memory without waiting (non_blocking=True), and use the result a step later"
                 : "wait once, at the end, or for one event rather than for everything; work in one stream is in order "
                   "without it");
    figure_text(f, "call", w->call), figure_text(f, "range", w->range);
    if (w->copy_call) figure_text(f, "after_copy", w->copy_call);
    if (w->copy != COPY_UNKNOWN) figure_text(f, "direction", directions[w->copy]), figure(f, "bytes", (double)w->bytes);
    figure(f, "count", (double)w->count), figure(f, "total_ns", (double)w->total),
        figure(f, "longest_ns", (double)w->longest);
    figure(f, "idle_after_ns", (double)w->idle);
  }
}

/* ---- gaps -------------------------------------------------------------------------------------------------------- */

static int by_ns(const void *x, const void *y) {
  const Doing *a = x, *b = y;
  return a->ns != b->ns ? (a->ns < b->ns ? 1 : -1) : strcmp(a->what, b->what);
}

static void say_gaps(Advice *a) {
  Measured *m = &a->m;
  if (!m->gpu || part(m->idle, m->span) < from.gaps || !m->gaps) return;
  Finding *f = finding(a, "idle", m->idle);
  buf_printf(&f->what, "The GPU idled %.1f%% of the run: %s in %lld gaps, mean %s", percent(m->idle, m->span),
             TIME(m->idle), (long long)m->gaps, TIME((double)m->idle / (double)m->gaps));
  buf_printf(&f->evidence, "the longest: %s, %s into the run\n", TIME(m->longest_gap),
             TIME(m->longest_gap_at - m->t->first));
  if (m->doing.n) qsort(m->doing.at, (size_t)m->doing.n, sizeof *m->doing.at, by_ns);
  figure(f, "gaps", (double)m->gaps);
  figure(f, "idle_ns", (double)m->idle);
  figure(f, "longest_ns", (double)m->longest_gap);
  json_begin_array(figures(f), "meanwhile");
  for (int i = 0; i < m->doing.n && i < 6; i++) {
    Doing *d = &m->doing.at[i];
    if (i && part(d->ns, m->idle) < 0.02) break;
    buf_printf(&f->evidence, "%s%5.1f%% %s%s%s%s\n", i ? "           " : "meanwhile: ", percent(d->ns, m->idle),
               d->what, *d->range ? " (in range \"" : "", d->range, *d->range ? "\")" : "");
    json_begin_object(figures(f), NULL);
    figure_text(f, "what", d->what);
    figure_text(f, "range", d->range);
    figure(f, "ns", (double)d->ns);
    json_end_object(figures(f));
  }
  json_end_array(figures(f));
  buf_puts(&f->advice, "let the CPU run ahead (no waits in the loop), start fewer and larger kernels (fusion, larger "
                       "batches), or record the step as a CUDA graph; prepare input in another thread");
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static int by_small(const void *x, const void *y) {
  const KernelSum *a = x, *b = y;
  return a->small != b->small ? (a->small < b->small ? 1 : -1) : strcmp(a->name, b->name);
}
static int by_total(const void *x, const void *y) {
  const KernelSum *a = x, *b = y;
  return a->total != b->total ? (a->total < b->total ? 1 : -1) : strcmp(a->name, b->name);
}
static const char *legible(Advice *a, const char *name) {
  return arena_strdup(a->m.t->arena, name_legible(name, 70, (char[512]){0}, 512));
}

static void say_small(Advice *a) {
  Measured *m = &a->m;
  int64_t small = 0, launched = 0, took = 0, calls = 0;
  for (int i = 0; i < m->kernel.n; i++) {
    KernelSum *k = &m->kernel.at[i];
    small += k->small, launched += k->launched, took += k->small_total, calls += k->small_launch_total;
  }
  if (small < from.small_kernels || part(small, launched) < from.launch) return;
  Finding *f = finding(a, "small_kernels", calls - took);
  buf_printf(&f->what, "%lld of %lld kernels (%.0f%%) took less than the call that launched them", (long long)small,
             (long long)launched, percent(small, launched));
  buf_printf(&f->evidence, "mean %s on the GPU, %s in the launching call; all of them %s against %s\n",
             TIME((double)took / (double)small), TIME((double)calls / (double)small), TIME(took), TIME(calls));
  qsort(m->kernel.at, (size_t)m->kernel.n, sizeof *m->kernel.at, by_small);
  int64_t unfilled = 0;
  for (int i = 0; i < m->kernel.n; i++) unfilled += m->kernel.at[i].unfilled;
  for (int i = 0; i < m->kernel.n && i < 4 && m->kernel.at[i].small; i++) {
    KernelSum *k = &m->kernel.at[i];
    buf_printf(&f->evidence, "%8lld times %s, mean %s\n", (long long)k->small, legible(a, k->name),
               TIME((double)k->small_total / (double)k->small));
  }
  if (part(unfilled, m->kernel_time) > 0.2)
    buf_printf(&f->evidence,
               "%.0f%% of kernels' time went into launches with fewer blocks than the GPU has multiprocessors\n",
               percent(unfilled, m->kernel_time));
  buf_puts(&f->advice, "fuse neighbouring elementwise kernels into one, make batches larger, or record the step as a "
                       "CUDA graph: its launches cost a fraction");
  figure(f, "small", (double)small), figure(f, "launched", (double)launched), figure(f, "gpu_ns", (double)took),
      figure(f, "call_ns", (double)calls);
  figure(f, "unfilled_ns", (double)unfilled);
}

static void say_dominates(Advice *a) {
  Measured *m = &a->m;
  int64_t all = m->kernel_time;
  if (m->kernel.n < 2) return;
  qsort(m->kernel.at, (size_t)m->kernel.n, sizeof *m->kernel.at, by_total);
  KernelSum *k = m->kernel.at;
  if (part(k->total, all) < from.dominates || part(k->total, m->span) < 0.05) return;
  Finding *f = finding(a, "dominant_kernel", k->total);
  buf_printf(&f->what, "One kernel is %.0f%% of all kernels' time: %s", percent(k->total, all), legible(a, k->name));
  buf_printf(&f->evidence, "%lld times, %s in all, mean %s (%.1f%% of the run)\n", (long long)k->count, TIME(k->total),
             TIME((double)k->total / (double)k->count), percent(k->total, m->span));
  if (k->flops + k->bytes > 0)
    buf_printf(&f->evidence, "%.3g TFLOP/s, %.4g GB/s\n", k->flops / (double)k->total / 1e3,
               k->bytes / (double)k->total);
  buf_puts(&f->advice, "what makes this kernel faster makes the run faster: place it on the roofline (nereid "
                       "roofline), look into it (nereid inspect --report; nereid prof --instrument)");
  figure_text(f, "kernel", k->name), figure(f, "count", (double)k->count), figure(f, "total_ns", (double)k->total),
      figure(f, "share", part(k->total, all));
}

/* ---- copies, compilation ----------------------------------------------------------------------------------------- */

static void say_copies(Advice *a) {
  Measured *m = &a->m;
  CopySum *in = &m->copies[COPY_HOST_TO_DEVICE], *out = &m->copies[COPY_DEVICE_TO_HOST];
  if (part(m->copies_alone, m->span) >= from.copies) {
    Finding *f = finding(a, "copies", m->copies_alone);
    buf_printf(&f->what,
               "Copies could overlap with kernels: %s of copies between host and GPU ran while no kernel did (%.1f%% "
               "of the run)",
               TIME(m->copies_alone), percent(m->copies_alone, m->span));
    buf_printf(&f->evidence, "to the GPU: %lld copies, %s, %s", (long long)in->count, BYTES(in->bytes),
               TIME(in->total));
    if (in->total) buf_printf(&f->evidence, " (%.3g GB/s)", (double)in->bytes / (double)in->total);
    buf_printf(&f->evidence, "\nfrom the GPU: %lld copies, %s, %s", (long long)out->count, BYTES(out->bytes),
               TIME(out->total));
    if (out->total) buf_printf(&f->evidence, " (%.3g GB/s)", (double)out->bytes / (double)out->total);
    buf_puts(&f->evidence, "\n");
    buf_puts(&f->advice, "copy the next batch in a second stream while kernels work on this one; from page-locked "
                         "memory (pin_memory=True, non_blocking=True), else the copy is not asynchronous");
    figure(f, "alone_ns", (double)m->copies_alone), figure(f, "copies_ns", (double)m->copies_all),
        figure(f, "to_gpu_bytes", (double)in->bytes), figure(f, "from_gpu_bytes", (double)out->bytes);
  }
  int64_t pageable = in->pageable_total + out->pageable_total;
  if (part(pageable, m->span) >= from.pageable) {
    int64_t bytes = in->pageable_bytes + out->pageable_bytes, n = in->pageable + out->pageable,
            fast = in->total + out->total - pageable, fast_bytes = in->bytes + out->bytes - bytes;
    Finding *f = finding(a, "pageable", pageable);
    buf_printf(&f->what, "%lld copies had host memory that is not page-locked: %s in %s", (long long)n, BYTES(bytes),
               TIME(pageable));
    buf_printf(&f->evidence, "%.1f%% of the run, at %.3g GB/s", percent(pageable, m->span),
               (double)bytes / (double)pageable);
    if (fast > 0 && fast_bytes > 0)
      buf_printf(&f->evidence, "; page-locked copies of this run: %.3g GB/s", (double)fast_bytes / (double)fast);
    buf_puts(&f->evidence, "\n");
    buf_puts(&f->advice, "page-lock the buffers that are copied again and again (pin_memory=True, cudaHostAlloc): such "
                         "copies are faster, and do not hold the CPU");
    figure(f, "count", (double)n), figure(f, "bytes", (double)bytes), figure(f, "total_ns", (double)pageable);
  }
  if (part(m->compile_time, m->span) >= from.compile) {
    Finding *f = finding(a, "compilation", m->compile_time);
    buf_printf(&f->what, "Kernels were compiled while the run went on: %lld, %s (%.1f%% of the run)",
               (long long)m->compiles, TIME(m->compile_time), percent(m->compile_time, m->span));
    buf_puts(&f->evidence, "compiled kernels are kept on disk: a second run has them\n");
    buf_puts(&f->advice,
             "run each kernel once before the loop that is to be fast (warm-up), or build them ahead of time");
    figure(f, "count", (double)m->compiles), figure(f, "total_ns", (double)m->compile_time);
  }
}

/* ---- the five ---------------------------------------------------------------------------------------------------- */

static const char *const bound_names[] = {"compute", "memory bandwidth", "overhead", "data loading", "network"};
static const char *const bound_keys[] = {"compute", "memory", "overhead", "data", "network"};

static void bound_evidence(const Measured *m, int b, char *text, size_t size) {
  int64_t kernels = 0;
  for (int i = 0; i < m->kernel.n; i++)
    if ((int)m->kernel.at[i].bound == b) kernels += m->kernel.at[i].count;
  switch (b) {
    case BOUND_COMPUTE:
      snprintf(text, size, "%lld kernels that compute%s", (long long)kernels,
               m->bound_by_names ? " (matrix products, convolutions, attention)" : "");
      break;
    case BOUND_MEMORY:
      snprintf(text, size, "%lld kernels that move memory%s", (long long)kernels,
               m->gpu ? ", copies on the GPU, fills" : "");
      break;
    case BOUND_OVERHEAD:
      if (m->gpu)
        snprintf(text, size, "no work for the GPU: %lld gaps; %lld launches, %s in the launching calls",
                 (long long)m->gaps, (long long)m->launches, TIME(m->launch_time));
      else snprintf(text, size, "not in a kernel; of it %s in compilation", TIME(m->compile_time));
      break;
    case BOUND_DATA:
      snprintf(text, size, "%s in gaps that ended with input from the host, %s in copies beside which no kernel ran",
               TIME(m->gaps_data), TIME(m->copies_alone));
      break;
    default:
      snprintf(text, size, "%lld kernels of the network (NCCL), %s, of which %s beside nothing else",
               (long long)m->network_count, TIME(m->network), TIME(m->network_alone));
      break;
  }
}

static int verdict(const Measured *m) {
  int best = 0;
  for (int b = 1; b < BOUNDS; b++)
    if (m->bound[b] > m->bound[best]) best = b;
  return best;
}

static const char *const verdict_words[] = {
    "it computes most of the time: lower precision, tensor cores or fewer operations would help, not better scheduling",
    "it moves memory most of the time: fusing kernels so that intermediate results stay in registers would help most",
    "the GPU is idle most of the time, waiting for the program to start more work",
    "it waits for input most of the time: load and copy the next batch while this one is computed",
    "it communicates most of the time: overlap communication with computation, send less, or send it less often"};

static void print_text(Advice *a, FILE *out) {
  Measured *m = &a->m;
  if (events_simulated(m->t)) {
    fputs("No advice: the times are a simulator's or the interpreter's, not a machine's.\n", out);
    return;
  }
  if (m->span <= 0) {
    fputs("nothing ran that could be judged: there are neither kernels nor copies in this trace\n", out);
    events_warnings(m->t, out, "note: ");
    return;
  }
  int v = verdict(m);
  fprintf(out, "What bounds this run: %s (%.0f%% of %s%s)\n", bound_names[v], percent(m->bound[v], m->span),
          TIME(m->to - m->from), m->devices > 1 ? " on each GPU" : "");
  fprintf(out, "  %s\n",
          v == BOUND_OVERHEAD && !m->gpu ? "most of the time goes into what is not a kernel" : verdict_words[v]);
  for (int b = 0; b < (m->gpu ? BOUNDS : BOUND_DATA); b++) {
    char text[300] = "";
    if (m->bound[b]) bound_evidence(m, b, text, sizeof text);
    fprintf(out, "  %5.1f%%  %s%s%s\n", percent(m->bound[b], m->span), bound_names[b], *text ? ": " : "", text);
  }
  if (m->bound_by_names)
    fputs("  (compute and memory are told apart by kernels' names, where a launch's operations are not known)\n", out);
  if (m->startup) fprintf(out, "  (a start-up of %s is left out)\n", TIME(m->startup));
  if (!a->findings.n) fputs("\nNothing else stands out.\n", out);
  for (int i = 0; i < a->findings.n; i++) {
    Finding *f = &a->findings.at[i];
    fprintf(out, "\n%d. %s\n", i + 1, f->what.at);
    for (const char *p = f->evidence.at; p && *p;) {
      const char *end = strchr(p, '\n');
      fprintf(out, "     %.*s\n", (int)(end - p), p), p = end + 1;
    }
    fprintf(out, "   What to do: %s.\n", f->advice.at);
  }
  events_warnings(m->t, out, "note: ");
}

static void print_json(Advice *a, FILE *out) {
  Measured *m = &a->m;
  JsonWriter w = {.file = out, .spaced = true};
  json_begin_object(&w, NULL);
  json_put_bool(&w, "gpu", m->gpu);
  json_put_int(&w, "span_ns", m->span);
  json_put_int(&w, "devices", m->devices);
  json_put_int(&w, "startup_ns", m->startup);
  json_put_int(&w, "busy_ns", m->busy);
  json_put_int(&w, "idle_ns", m->idle);
  json_put_bool(&w, "truncated", m->t->truncated);
  json_put_int(&w, "lost", m->t->lost);
  json_break(&w, "\n ");
  if (m->span > 0) json_put_text(&w, "bound", bound_keys[verdict(m)]);
  else json_put_null(&w, "bound");
  json_put_bool(&w, "by_name", m->bound_by_names);
  json_begin_object(&w, "bounds");
  for (int b = 0; b < BOUNDS; b++) {
    char key[64];
    snprintf(key, sizeof key, "%s_ns", bound_keys[b]);
    json_put_int(&w, key, m->bound[b]);
  }
  json_end_object(&w);
  json_break(&w, "\n ");
  json_begin_array(&w, "findings");
  for (int i = 0; i < a->findings.n; i++) {
    Finding *f = &a->findings.at[i];
    json_break(&w, "\n  ");
    json_begin_object(&w, NULL);
    json_put_text(&w, "kind", f->kind);
    json_put_int(&w, "cost_ns", f->cost);
    json_put_text(&w, "what", f->what.at);
    json_put_text(&w, "evidence", f->evidence.at);
    json_put_text(&w, "advice", f->advice.at);
    fputs(f->figures.at, out);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
  fputc('\n', out);
}

static int by_cost(const void *x, const void *y) {
  const Finding *a = x, *b = y;
  return a->cost != b->cost ? (a->cost < b->cost ? 1 : -1) : strcmp(a->kind, b->kind);
}

static void advice(EventJoin *t, FILE *out, const ViewOptions *o) {
  Advice a = {0};
  if (!view_measure(t, &a.m)) return;
  if (events_simulated(t)) a.m.span = 0; /* nothing follows from such times */
  if (a.m.span > 0) say_waits(&a), say_gaps(&a), say_small(&a), say_copies(&a), say_dominates(&a);
  bool failed = false;
  for (int i = 0; i < a.findings.n; i++)
    failed |= a.findings.at[i].what.failed || a.findings.at[i].evidence.failed || a.findings.at[i].figures.failed ||
              a.findings.at[i].advice.failed;
  if (a.findings.n) qsort(a.findings.at, (size_t)a.findings.n, sizeof *a.findings.at, by_cost);
  if (failed) snprintf(t->error, sizeof t->error, "out of memory");
  else (o->json ? print_json : print_text)(&a, out);
  for (int i = 0; i < a.findings.n; i++)
    buf_destroy(&a.findings.at[i].what), buf_destroy(&a.findings.at[i].evidence), buf_destroy(&a.findings.at[i].advice),
        buf_destroy(&a.findings.at[i].figures);
}

int view_advice(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]) {
  return view_run(r, out, o, why, advice);
}
