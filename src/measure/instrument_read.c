/* From records to regions and spans.
 *
 * A warp's records are read in order. Each has the low half of the clock; since they follow each other, the next is the
 * least value above the last that ends so. A beginning is put on a stack; an end takes the topmost of its region off
 * it, with what lies above, whose ends are missing (a `return` within a region, records that were lost). What is open
 * when a warp ended by itself ends with it.
 *
 *     begin a @10, begin b @14, end b @30, end a @31      spans  a [10, 31] depth 1,  b [14, 30] depth 2
 *
 * On a GPU each multiprocessor counts cycles of its own. The timer is one for all, but coarse (32 ns on an H100, a
 * microsecond on others). So the length of a cycle is taken from all warps together, and a multiprocessor's clock is
 * put where its earliest warp's timer says.
 */
#include <math.h>
#include <stdlib.h>

#include "measure/instrument.h"

typedef struct Open {
  int region;
  int64_t span;
} Open;
enum { MOST_OPEN = 200 };

typedef struct Reader {
  nereid_instrument *in;
  const InstrumentPlace *place;
  bool failed;
} Reader;

static const InstrumentWarp *warp_at(const InstrumentPlace *p, int64_t block, int warp) {
  const InstrumentBuffer *b = p->buffer;
  return (const InstrumentWarp *)(const void *)((const char *)b + b->first +
                                                (uint64_t)(block * b->warps + warp) * b->stride);
}

static bool has_run(const InstrumentWarp *w) { return w->clock[0] || w->clock[1] || w->used || w->timer[0]; }

static int64_t add_span(Reader *r, nereid_instrument_span s) {
  nereid_instrument *in = r->in;
  if (in->info.span_count == in->span_cap) {
    int64_t cap = in->span_cap ? 2 * in->span_cap : 256;
    nereid_instrument_span *at = realloc(in->spans, sizeof *at * (size_t)cap);
    if (!at) {
      r->failed = true;
      return -1;
    }
    in->spans = at;
    in->span_cap = cap;
  }
  in->spans[in->info.span_count] = s;
  return in->info.span_count++;
}

/* The region's place among those that were met. */
static int met(nereid_instrument *in, int name, int depth) {
  if (in->number[name] >= 0) return in->number[name];
  int i = (int)in->info.region_count++;
  const InstrumentName *n = &in->names->at[name];
  in->regions[i] =
      (nereid_instrument_region){.name = n->name, .line = n->line, .automatic = n->automatic, .depth = depth - 1};
  return in->number[name] = i;
}

/* Takes the spans from `from` on out that were begun and not ended: they stay out of it all. */
static void drop_unended(nereid_instrument *in, int64_t from) {
  int64_t kept = from;
  for (int64_t i = from; i < in->info.span_count; i++)
    if (!isnan(in->spans[i].end)) in->spans[kept++] = in->spans[i];
    else in->info.cut++;
  in->info.span_count = kept;
}

static void read_warp(Reader *r, int64_t block, int warp) {
  const InstrumentPlace *p = r->place;
  const InstrumentWarp *w = warp_at(p, block, warp);
  nereid_instrument *in = r->in;
  if (!has_run(w)) return;
  uint32_t most = p->buffer->limit / (uint32_t)sizeof(InstrumentRecord), n = 0;
  while (n < most && w->records[n].tag) n++; /* one that an assertion ended has not said how many */
  bool ended = w->clock[1] != 0;
  in->info.records += n;
  in->info.lost += w->lost;
  nereid_instrument_span all = {-1, p->blocks[block], warp, (int)w->sm, 0, 0, 0};
  int64_t whole = add_span(r, all);
  Open open[MOST_OPEN];
  int depth = 0;
  uint64_t now = w->clock[0];
  for (uint32_t i = 0; i < n && !r->failed; i++) {
    now += (uint32_t)(w->records[i].clock - (uint32_t)now);
    double at = (double)(now - w->clock[0]);
    int name = instrument_tag_region(w->records[i].tag), k = depth - 1;
    if (name < 0 || name >= in->names->count) break; /* never by our kernels: somebody else wrote there */
    if (!instrument_tag_ends(w->records[i].tag)) {
      if (depth == MOST_OPEN) continue;
      nereid_instrument_span s = {met(in, name, depth + 1), p->blocks[block], warp, (int)w->sm, depth + 1, at, NAN};
      open[depth] = (Open){name, add_span(r, s)};
      depth++;
      continue;
    }
    while (k >= 0 && open[k].region != name) k--;
    if (k < 0) continue;
    in->spans[open[k].span].end = at;
    depth = k;
  }
  double end = ended ? (double)(w->clock[1] - w->clock[0]) : (double)(now - w->clock[0]);
  if (r->failed) return;
  in->spans[whole].end = end;
  for (int k = 0; k < depth && ended && !w->lost; k++) in->spans[open[k].span].end = end; /* a return left them */
  drop_unended(in, whole);
}

/* ---- one clock for all ------------------------------------------------------------------------------------------- */

static double length_of_unit(const InstrumentPlace *p, int warps) {
  double cycles = 0, ns = 0;
  for (int64_t b = 0; b < p->count; b++)
    for (int k = 0; k < warps; k++) {
      const InstrumentWarp *w = warp_at(p, b, k);
      if (w->clock[1] <= w->clock[0] || w->timer[1] < w->timer[0]) continue;
      cycles += (double)(w->clock[1] - w->clock[0]);
      ns += (double)(w->timer[1] - w->timer[0]);
    }
  double length = cycles > 0 ? ns / cycles : 0;
  return length > 0.2 && length < 20 ? length : 0; /* 5 GHz to 50 MHz: what lies outside is the timer's coarseness */
}

typedef struct Start {
  uint32_t sm;
  uint64_t clock, timer;
  int64_t block;
  int warp;
  double at;
} Start;

static int by_sm(const void *x, const void *y) {
  const Start *a = x, *b = y;
  if (a->sm != b->sm) return a->sm < b->sm ? -1 : 1;
  return a->clock < b->clock ? -1 : a->clock > b->clock;
}

static int by_place(const void *x, const void *y) {
  const Start *a = x, *b = y;
  if (a->block != b->block) return a->block < b->block ? -1 : 1;
  return a->warp - b->warp;
}

/* Where each warp begins, in units since the first one did. */
static Start *align(const InstrumentPlace *p, int warps, double unit, bool counted, int64_t *count) {
  Start *s = malloc(sizeof *s * (size_t)(p->count * warps + 1));
  int64_t n = 0;
  for (int64_t b = 0; s && b < p->count; b++)
    for (int k = 0; k < warps; k++) {
      const InstrumentWarp *w = warp_at(p, b, k);
      if (has_run(w)) s[n++] = (Start){w->sm, w->clock[0], w->timer[0], b, k, 0};
    }
  if (!s) return NULL;
  uint64_t first = UINT64_MAX;
  for (int64_t i = 0; i < n; i++)
    if (s[i].timer < first) first = s[i].timer;
  qsort(s, (size_t)n, sizeof *s, by_sm);
  for (int64_t i = 0, lead = 0; i < n; i++) {
    if (s[i].sm != s[lead].sm) lead = i;
    if (counted) s[i].at = (double)s[i].clock; /* each block from zero */
    else s[i].at = (unit > 0 ? (double)(s[lead].timer - first) / unit : 0) + (double)(s[i].clock - s[lead].clock);
  }
  qsort(s, (size_t)n, sizeof *s, by_place);
  double least = INFINITY;
  for (int64_t i = 0; i < n; i++)
    if (s[i].at < least) least = s[i].at;
  for (int64_t i = 0; i < n; i++) s[i].at -= least;
  *count = n;
  return s;
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static void count_regions(nereid_instrument *in) {
  double all = 0;
  int64_t warps = 0;
  for (int64_t i = 0; i < in->info.span_count; i++) {
    const nereid_instrument_span *s = &in->spans[i];
    double length = s->end - s->start;
    if (s->region < 0) {
      all += length;
      warps++;
      if (length > in->info.warp_max) in->info.warp_max = length;
      continue;
    }
    nereid_instrument_region *r = &in->regions[s->region];
    if (!r->count++) r->min = r->max = length;
    if (length < r->min) r->min = length;
    if (length > r->max) r->max = length;
    r->mean += length; /* their sum so far */
  }
  in->info.warp_mean = warps ? all / (double)warps : 0;
  for (int64_t i = 0; i < in->info.region_count; i++) {
    nereid_instrument_region *r = &in->regions[i];
    r->share = all > 0 ? r->mean / all : 0;
    if (r->count) r->mean /= (double)r->count;
  }
}

nereid_status instrument_read(nereid_instrument *in, const InstrumentPlace *p, nereid_error **error) {
  Reader r = {.in = in, .place = p};
  int names = in->names->count, warps = in->info.warps;
  in->number = malloc(sizeof *in->number * (size_t)(names + 1));
  in->regions = calloc((size_t)names + 1, sizeof *in->regions);
  if (!in->number || !in->regions) return error_out_of_memory(error);
  for (int i = 0; i < names; i++) in->number[i] = -1;
  for (int64_t b = 0; b < p->count && !r.failed; b++)
    for (int k = 0; k < warps && !r.failed; k++) read_warp(&r, b, k);
  bool is_gpu = !strcmp(in->info.unit, "cycles"), counted = !strcmp(in->info.unit, "operations");
  if (is_gpu) in->info.ns_per_unit = length_of_unit(p, warps);
  int64_t count = 0, at = -1;
  Start *starts = r.failed ? NULL : align(p, warps, in->info.ns_per_unit, counted, &count);
  if (!starts) return error_out_of_memory(error);
  for (int64_t i = 0; i < in->info.span_count; i++) { /* spans stand in the order of the starts */
    nereid_instrument_span *s = &in->spans[i];
    at += s->region < 0;
    s->start += starts[at].at;
    s->end += starts[at].at;
  }
  free(starts);
  count_regions(in);
  return NEREID_OK;
}
