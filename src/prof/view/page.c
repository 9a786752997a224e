/* page: the timeline as one HTML page that needs neither network nor server: page.html, the template, with the trace as
 * JSON in its middle.
 *
 * The page holds its events as one list of integers in the order of time (eight an event: see COLUMNS), so that it is
 * written as it is read and a hundred thousand events are some megabytes. After them, thread by thread, stand the
 * functions that samples of the CPU found (sample_spans.c). A page is for looking at: of more than
 * MOST_EVENTS the shortest are left out, and the page says how many and how much time they stand for. The first pass
 * counts durations to find where to cut; the second writes.
 */
#include "prof/view/tracks.h"

enum {
  MOST_EVENTS = 400000,
  MOST_DETAILS = 60000, /* different ones: kernels are launched in few shapes */
  DEEPEST = 300,
  BUCKETS = 64 * 16,
  NAME_WIDTH = 70 /* of kernels; a selected one's full name is shown beside */
};

typedef struct Numbering { /* texts by number, in the order in which they were met */
  Arena *arena;
  Map *by_text;
  VEC(const char *) texts;
} Numbering;

typedef struct Page {
  EventJoin *t;
  JsonWriter w;
  Tracks tracks;
  Map *group_numbers;
  VEC(TrackGroup *) groups;
  VEC(Track *) all;
  Numbering names, details;
  int64_t first, end; /* of all that is shown */
  VEC(int) is_kernel; /* by name */
  int64_t histogram[BUCKETS], last;
  int cut;               /* the bucket of which only some are kept */
  uint64_t keep, random; /* of 2^32 */
  int64_t kept, kept_spans, dropped, dropped_ns;
  bool few_details;
} Page;

static int number_of(Numbering *n, const char *text) {
  if (!n->by_text) n->by_text = map_create(n->arena, true);
  intptr_t at = (intptr_t)map_get(n->by_text, text);
  if (at) return (int)at - 1;
  const char *own = arena_strdup(n->arena, text);
  vec_push(n->arena, &n->texts, own);
  map_put(n->by_text, own, (void *)(intptr_t)n->texts.n);
  return n->texts.n - 1;
}

/* Sixteen buckets an octave. */
static int bucket_of(int64_t ns) {
  if (ns < 16) return (int)(ns < 0 ? 0 : ns);
  int octave = 63 - __builtin_clzll((unsigned long long)ns);
  int at = (octave - 3) * 16 + (int)(ns >> (octave - 4) & 15);
  return at < BUCKETS ? at : BUCKETS - 1;
}

static bool is_interval(const JoinedEvent *i) { return event_of_thread(i) || event_is_activity(i); }

static void choose_cut(Page *p) {
  int64_t n = 0;
  p->cut = -1;
  for (int b = BUCKETS - 1; b >= 0; b--) {
    if (n + p->histogram[b] > MOST_EVENTS) {
      p->cut = b, p->keep = (uint64_t)((double)(MOST_EVENTS - n) * 0.99 / (double)p->histogram[b] * UINT32_MAX);
      return;
    }
    n += p->histogram[b];
  }
}

static bool keeps(Page *p, const JoinedEvent *i) {
  int b = bucket_of(i->end - i->start);
  if (b > p->cut) return true;
  /* At random, and the same each time: every so-manieth would fall in step with what a program does again and again. */
  return b == p->cut && (p->random = p->random * 6364136223846793005u + 1442695040888963407u) >> 32 < p->keep;
}

/* What hovering shows besides name and times. */
static int detail_of(Page *p, const JoinedEvent *i) {
  char text[700], size[32];
  size_t n = 0;
  double seconds = (double)(i->end - i->start) / 1e9;
  text[0] = 0;
#define ADD(...) \
  (n += (size_t)snprintf(text + n, sizeof text - n, __VA_ARGS__), n = n < sizeof text ? n : sizeof text - 1)
  if (i->kind == TRACE_KERNEL) {
    const uint32_t *g = i->kernel.grid, *b = i->kernel.block;
    if (g[0]) ADD("grid %u × %u × %u\n", g[0], g[1], g[2]);
    if (b[0]) ADD("block %u × %u × %u\n", b[0], b[1], b[2]);
    if (i->kernel.registers) ADD("%u registers a thread\n", i->kernel.registers);
    if (i->on_gpu) ADD("%s shared memory a block\n", bytes_text(size, i->kernel.shared));
    if (i->kernel.graph) ADD("of graph %llu\n", (unsigned long long)i->kernel.graph);
    if (i->shapes) ADD("%.300s\n", trace_text(p->t->reader, i->shapes));
    if (i->flops > 0) ADD("%.4g Mflop\n", i->flops / 1e6);
  }
  double bytes = i->kind == TRACE_KERNEL                          ? i->bytes
                 : i->kind == TRACE_COPY || i->kind == TRACE_FILL ? (double)i->moved
                                                                  : 0;
  if (bytes > 0) ADD("%s\n", bytes_text(size, bytes));
  if (i->kind != TRACE_KERNEL && bytes > 0 && seconds > 0) ADD("%.3g GB/s\n", bytes / seconds / 1e9);
  if (i->kind == TRACE_CALL && i->result) ADD("failed: %d\n", i->result);
#undef ADD
  if (n) text[n - 1] = 0;
  if (p->details.texts.n >= MOST_DETAILS && n && !map_has(p->details.by_text, text)) return p->few_details = true, 0;
  return number_of(&p->details, text);
}

enum { KIND_KERNEL = 3, KIND_CPU_KERNEL = 7, KIND_SAMPLES = 8 };
/* As the page's script names them. */
static int kind_of(const JoinedEvent *i) {
  switch (i->kind) {
    case TRACE_CALL: return i->sub == CALL_SYNC || i->sub == CALL_COPY_SYNC ? 2 : i->sub == CALL_LAUNCH ? 1 : 0;
    case TRACE_KERNEL: return i->on_gpu ? KIND_KERNEL : KIND_CPU_KERNEL;
    case TRACE_COPY: return 4;
    case TRACE_FILL: return 5;
    default: return 6;
  }
}

static uint64_t exact_in_double(uint64_t n) {
  return n >> 53 ? (n & 0xFFFFFFFFFFFFF) | 1ull << 52 : n;
} /* the page's numbers are doubles */

static void announce(Page *p, Track *k) {
  if (k->announced) return;
  k->announced = true;
  vec_push(p->t->arena, &p->all, k);
  if (map_has(p->group_numbers, k->group)) return;
  vec_push(p->t->arena, &p->groups, k->group);
  map_put(p->group_numbers, k->group, (void *)(intptr_t)p->groups.n);
}

/* COLUMNS: track, ns since the last event's start, ns, name, depth, kind; the caller puts detail and correlation. */
static void put_row(Page *p, const Track *k, int64_t start, int64_t end, int name, int depth, int kind) {
  JsonWriter *w = &p->w;
  while (p->is_kernel.n <= name) vec_push(p->t->arena, &p->is_kernel, kind == KIND_KERNEL || kind == KIND_CPU_KERNEL);
  json_break(w, "\n");
  json_put_int(w, NULL, k->index);
  json_put_int(w, NULL, start - p->last);
  json_put_int(w, NULL, end - start);
  json_put_int(w, NULL, name);
  json_put_int(w, NULL, depth);
  json_put_int(w, NULL, kind);
  p->kept++;
  p->last = start;
}

static void put_event(Page *p, const JoinedEvent *i) {
  int64_t end;
  Track *k = tracks_place(&p->tracks, i, &end);
  if (k->depth > DEEPEST) { /* nobody sees these */
    p->dropped++, p->dropped_ns += end - i->start;
    return;
  }
  announce(p, k);
  put_row(p, k, i->start, end, number_of(&p->names, event_name(p->t, i)), k->depth - 1, kind_of(i));
  json_put_int(&p->w, NULL, detail_of(p, i));
  json_put_unsigned(&p->w, NULL, i->kind == TRACE_CALL || i->has_call ? exact_in_double(i->correlation) : 0);
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static void put_span(void *arg, const SampleSpan *s) {
  Page *p = arg;
  if (p->kept_spans == MOST_EVENTS) {
    p->dropped++, p->dropped_ns += s->end - s->start;
    return;
  }
  Track *k = tracks_samples(&p->tracks, s->process, s->thread);
  announce(p, k);
  put_row(p, k, s->start, s->end, number_of(&p->names, s->name), s->depth, KIND_SAMPLES);
  json_put_int(&p->w, NULL, 0);
  json_put_int(&p->w, NULL, 0);
  p->kept_spans++;
}

/* ---- what comes beside the events -------------------------------------------------------------------------------- */

static void put_array(JsonWriter *w, const char *key) {
  json_break(w, "\n");
  json_begin_array(w, key);
}

static void put_points(Page *p) {
  JsonWriter *w = &p->w;
  int64_t *in_use = NULL;
  put_array(w, "memory");
  if (p->t->counts[TRACE_MEMORY] && events_begin(p->t, BY_TIME))
    for (const JoinedEvent *i; (i = events_next(p->t));) {
      if (i->kind != TRACE_MEMORY) continue;
      TrackGroup *g =
          i->memory.pinned ? tracks_process(&p->tracks, i->process) : tracks_device(&p->tracks, i->process, i->device);
      in_use = i->memory.pinned ? &g->pinned_in_use : &g->in_use;
      *in_use = i->memory.in_use >= 0 && !i->memory.pinned ? i->memory.in_use : *in_use + i->memory.bytes;
      if (!map_has(p->group_numbers, g)) {
        vec_push(p->t->arena, &p->groups, g);
        map_put(p->group_numbers, g, (void *)(intptr_t)p->groups.n);
      }
      json_put_int(w, NULL, (int)(intptr_t)map_get(p->group_numbers, g) - 1);
      json_put_int(w, NULL, i->start - p->first);
      json_put_int(w, NULL, *in_use < 0 ? 0 : *in_use);
    }
  json_end_array(w);
  put_array(w, "notes");
  if ((p->t->counts[TRACE_NOTE] || p->t->counts[TRACE_LOST]) && events_begin(p->t, BY_TIME)) {
    int n = 0;
    for (const JoinedEvent *i; (i = events_next(p->t)) && n < 1000;) {
      if (i->kind != TRACE_NOTE && i->kind != TRACE_LOST) continue;
      char text[800];
      const char *name = trace_text(p->t->reader, i->name);
      if (i->kind == TRACE_LOST) name = lost_text(text, i->count, name);
      json_begin_array(w, NULL);
      json_put_int(w, NULL, i->start - p->first);
      json_put_text(w, NULL, name);
      json_end_array(w);
      n++;
    }
  }
  json_end_array(w);
}

static void put_tables(Page *p) {
  JsonWriter *w = &p->w;
  char text[2048];
  put_array(w, "names");
  for (int i = 0; i < p->names.texts.n; i++) {
    const char *name = p->names.texts.at[i];
    json_break(w, "\n");
    json_put_text(w, NULL, p->is_kernel.at[i] ? name_legible(name, NAME_WIDTH, text, sizeof text) : name);
  }
  json_end_array(w);
  json_break(w, "\n");
  json_begin_object(w, "full"); /* of kernels: as the driver knows them */
  for (int i = 0; i < p->names.texts.n; i++) {
    const char *name = p->names.texts.at[i];
    char key[16];
    if (!p->is_kernel.at[i] || !strcmp(name, name_legible(name, NAME_WIDTH, text, sizeof text))) continue;
    snprintf(key, sizeof key, "%d", i);
    json_break(w, "\n");
    json_put_text(w, key, name_demangled(name, text, sizeof text));
  }
  json_end_object(w);
  put_array(w, "details");
  for (int i = 0; i < p->details.texts.n; i++) {
    json_break(w, "\n");
    json_put_text(w, NULL, p->details.texts.at[i]);
  }
  json_end_array(w);
  put_array(w, "groups");
  for (int i = 0; i < p->groups.n; i++) {
    TrackGroup *g = p->groups.at[i];
    json_break(w, "\n");
    json_begin_object(w, NULL);
    json_put_bool(w, "gpu", g->gpu);
    json_put_int(w, "sort", g->sort);
    json_put_int(w, "process", g->process);
    json_put_text(w, "name", track_group_name(p->t, g, text, sizeof text));
    json_end_object(w);
  }
  json_end_array(w);
  put_array(w, "tracks");
  for (int i = 0; i < p->all.n; i++) {
    Track *k = p->all.at[i];
    json_break(w, "\n");
    json_begin_object(w, NULL);
    json_put_int(w, "index", k->index);
    json_put_int(w, "group", (int)(intptr_t)map_get(p->group_numbers, k->group) - 1);
    json_put_int(w, "sort", k->sort);
    json_put_text(w, "name", track_name(p->t, k, text, sizeof text));
    json_end_object(w);
  }
  json_end_array(w);
}

static const char template_text[] =
#include "page.html.inc"
    ;

static void page(EventJoin *t, FILE *out, const ViewOptions *o) {
  Page p = {.t = t,
            .w = {.file = out},
            .tracks = {.arena = t->arena},
            .names = {.arena = t->arena},
            .details = {.arena = t->arena}};
  p.group_numbers = map_create(t->arena, false);
  if (!events_begin(t, BY_TIME)) return;
  for (const JoinedEvent *i; (i = events_next(t));)
    if (is_interval(i)) p.histogram[bucket_of(i->end - i->start)]++;
  if (t->error[0]) return;
  choose_cut(&p);
  p.first = t->first, p.end = t->last;
  if (t->counts[TRACE_SAMPLE]) sample_times(t, &p.first, &p.end);
  const char *marker = strstr(template_text, "@DATA@"), *title = o->title ? o->title
                                                                 : t->processes.n
                                                                     ? trace_text(t->reader, t->processes.at[0].name)
                                                                     : "profile";
  fwrite(template_text, 1, (size_t)(marker - template_text), out);
  JsonWriter *w = &p.w;
  json_begin_object(w, NULL);
  json_put_text(w, "title", title);
  json_put_int(w, "length", p.end - p.first);
  json_put_bool(w, "truncated", t->truncated);
  json_put_int(w, "lost", t->lost);
  json_put_int(w, "wall", t->processes.n ? p.first + t->processes.at[0].wall : 0);
  put_array(w, "events");
  p.last = p.first;
  number_of(&p.details, ""); /* 0: none */
  if (!events_begin(t, BY_TIME)) return;
  for (const JoinedEvent *i; (i = events_next(t));) {
    if (!is_interval(i)) continue;
    if (keeps(&p, i)) put_event(&p, i);
    else p.dropped++, p.dropped_ns += i->end - i->start;
  }
  if (t->counts[TRACE_SAMPLE]) sample_spans(t, put_span, &p);
  json_end_array(w);
  put_points(&p);
  put_tables(&p);
  json_break(w, "\n");
  json_put_int(w, "kept", p.kept);
  json_put_int(w, "dropped", p.dropped);
  json_put_int(w, "dropped_ns", p.dropped_ns);
  json_put_bool(w, "few_details", p.few_details);
  json_end_object(w);
  fputs(marker + strlen("@DATA@"), out);
}

int view_html(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]) { return view_run(r, out, o, why, page); }
