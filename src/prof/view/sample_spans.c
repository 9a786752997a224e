/* sample_spans: the samples of a thread as nested intervals, for a timeline. A sample at time t stands for the CPU time
 * since the one before it, its weight; a function that stands at the same place of neighbouring stacks ran on:
 *
 *     samples    main>work>add   main>work>mul   (waits)   main>rest
 *     spans      [main                       ]             [main   ]
 *                [work                       ]             [rest   ]
 *                [add         ][mul          ]
 */
#include <stdlib.h>

#include "prof/view/views.h"

enum {
  MOST_SAMPLES = 50000, /* of more, every second, third, ... is looked at */
  LATEST_BIT = 58       /* of a time in ns; what a damaged trace says beyond is no time */
};

typedef struct Sample {
  uint32_t process, thread, depth;
  int64_t start, end;
  const char **frames; /* outermost first; equal names are one pointer */
} Sample;

typedef struct Spans {
  EventJoin *t;
  VEC(Sample) samples;
  Map *names;
  void (*put)(void *arg, const SampleSpan *s);
  void *arg;
  SampleSpan open[TRACE_STACK];
  int depth;
} Spans;

static const char *one_pointer(Spans *s, const char *name) {
  const char *own = map_get(s->names, name);
  if (own) return own;
  own = arena_strdup(s->t->arena, name);
  map_put(s->names, own, (void *)own);
  return own;
}

static int by_thread_and_time(const void *x, const void *y) {
  const Sample *a = x, *b = y;
  if (a->process != b->process) return a->process < b->process ? -1 : 1;
  if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
  return (a->end > b->end) - (a->end < b->end);
}

/* The next one that is looked at, without its frames. */
static bool next_sample(EventJoin *t, int64_t *n, TraceEvent *e, Sample *out) {
  int64_t stride = t->counts[TRACE_SAMPLE] / MOST_SAMPLES + 1;
  while (samples_next(t, e)) {
    bool damaged = e->sample.depth > TRACE_STACK || e->start <= 0 || e->start >> LATEST_BIT;
    if ((*n)++ % stride || damaged) continue;
    int64_t weight = e->sample.weight > 0 && e->sample.weight < e->start / stride ? e->sample.weight * stride : 0;
    *out = (Sample){e->process, e->thread, e->sample.depth, e->start - weight, e->start, NULL};
    return true;
  }
  return false;
}

void sample_times(EventJoin *t, int64_t *first, int64_t *last) {
  Sample x;
  TraceEvent e;
  trace_rewind(t->reader);
  for (int64_t n = 0; next_sample(t, &n, &e, &x);) {
    if (!*first || x.start < *first) *first = x.start;
    if (x.end > *last) *last = x.end;
  }
}

static void gather(Spans *s) {
  EventJoin *t = s->t;
  Symbols *symbols = samples_begin(t);
  Sample x;
  TraceEvent e;
  for (int64_t n = 0; next_sample(t, &n, &e, &x);) {
    x.frames = NEW_N(t->arena, const char *, x.depth + 1);
    for (uint32_t i = 0; i < x.depth; i++) x.frames[i] = one_pointer(s, sample_name(t, symbols, &e, x.depth - 1 - i));
    vec_push(t->arena, &s->samples, x);
  }
  symbols_free(symbols);
}

static void close_to(Spans *s, int depth, int64_t end) {
  while (s->depth > depth) {
    SampleSpan *o = &s->open[--s->depth];
    o->end = end;
    s->put(s->arg, o);
  }
}

void sample_spans(EventJoin *t, void (*put)(void *arg, const SampleSpan *s), void *arg) {
  Spans s = {.t = t, .put = put, .arg = arg, .names = map_create(t->arena, true)};
  gather(&s);
  if (!s.samples.n) return;
  qsort(s.samples.at, (size_t)s.samples.n, sizeof *s.samples.at, by_thread_and_time);
  const Sample *before = NULL;
  for (int i = 0; i < s.samples.n; i++) {
    Sample *x = &s.samples.at[i];
    bool same = before && before->process == x->process && before->thread == x->thread;
    if (same && x->start - before->end < (x->end - x->start) / 2) x->start = before->end; /* a timer is not exact */
    bool runs_on = same && x->start == before->end;
    int common = 0;
    while (runs_on && common < s.depth && common < (int)x->depth && s.open[common].name == x->frames[common]) common++;
    if (before) close_to(&s, common, before->end);
    for (; s.depth < (int)x->depth; s.depth++)
      s.open[s.depth] = (SampleSpan){
          .process = x->process, .thread = x->thread, .start = x->start, .name = x->frames[s.depth], .depth = s.depth};
    before = x;
  }
  close_to(&s, 0, s.samples.at[s.samples.n - 1].end);
}
