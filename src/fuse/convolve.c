/* Who computes a convolution: kernels of ours, or a library.
 *
 * The graph has both (graph.def): operands of the convolution itself, and the products of windows that come to the
 * same. Here one of the two goes. On a device that measures, the convolution alone is planned as a program of its own,
 * once for us and for each of the library's likely ways, and these run in turn (race.c). What follows a convolution of
 * ours is in the same kernel, and is one more after a library's: where something elementwise follows, these programs
 * end with something elementwise, too. The outcome is kept in the cache's folder `convolution`, under a name made of
 * the program. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "fuse/dnn.h"
#include "fuse/race.h"

enum { WAYS = 3, MOST_WAYS = 1 + 2 * WAYS, OURS = -1 };
/* A library must be faster by so much, twice. */
static const double library_gain = 0.95, layout_gain = 0.97;
/* And on a CPU as exact: of f32, what it may differ from ours by, over the largest value. Ours adds up a block of terms
 * at a time, and is 2e-7 to 4e-7 off; a library that adds up all of them in one chain, 1e-6 and more. Of many terms a
 * sum has an error that grows as their root. */
static const double most_apart = 6e-7, apart_of_root = 3e-8;

/* Who computes a convolution. */
typedef struct Way {
  int way; /* OURS, or the library's */
  bool channels_last;
} Way;

typedef struct Outcome {
  Way way;
  double own_ms, rows_ms, last_ms; /* 0: not measured */
  double apart;                    /* of the library's fastest, where it is too much; else 0 */
} Outcome;

typedef struct Chooser {
  Graph *g;
  const FuseProducts *products;
  Map *outcomes;       /* of convolutions so far, by their programs */
  unsigned char *ends; /* by tensor's id: what becomes of it */
  bool no_library;     /* it could not be opened */
} Chooser;

/* ---- what stands around ------------------------------------------------------------------------------------------ */

/* What becomes of a tensor: it is needed; it is a result, or a view of it is; a kernel takes it row by row; it, or what
 * elementwise work makes of it, is one or the other. */
enum { NEEDED = 1, SHOWN = 2, TAKEN = 4, ROWS = 8 };

static void find_ends(Chooser *c) {
  const Graph *g = c->g;
  unsigned char *ends = c->ends = NEW_N(g->cx->arena, unsigned char, g->at.n + 1);
  for (int i = 0; i < g->outputs.n; i++)
    if (g->outputs.at[i]) ends[g->outputs.at[i]->id] = NEEDED | SHOWN | ROWS;
  for (int i = 0; i < g->writes.n; i++) ends[g->writes.at[i].value->id] = NEEDED | SHOWN | ROWS;
  for (int i = g->at.n - 1; i >= 0; i--) {
    const Tensor *t = g->at.at[i];
    bool convolution = t->op == GRAPH_CONVOLUTION;
    unsigned char of = NEEDED | TAKEN | ROWS;
    if (convolution || t->op == GRAPH_REDUCE) of = NEEDED;
    else if (graph_is_view(t)) of = ends[i];
    else if (t->op == GRAPH_POINT) of = NEEDED | (ends[i] & ROWS);
    for (int k = 0; ends[i] && k < (convolution ? 2 : t->in_count); k++) ends[t->in[k]->id] |= of;
  }
}

/* Whether whoever computes x can write it with its channels last as well. */
static bool is_written_freely(const Tensor *x) {
  while (graph_is_view(x)) x = x->in[0];
  if (x->op == GRAPH_CONVOLUTION) return x->way != OURS && x->channels_last;
  return x->op == GRAPH_POINT || x->op == GRAPH_REDUCE || x->op == GRAPH_FULL;
}

static const Tensor *user_of(const Graph *g, const Tensor *t, int *reductions, int *others) {
  const Tensor *user = NULL;
  *reductions = *others = 0;
  for (int i = t->id + 1; i < g->at.n; i++)
    for (int k = 0; k < g->at.at[i]->in_count; k++) {
      if (g->at.at[i]->in[k] != t) continue;
      user = g->at.at[i];
      *reductions += user->op == GRAPH_REDUCE;
      *others += user->op != GRAPH_REDUCE && user->op != GRAPH_POINT;
    }
  return user;
}

/* Whether a kernel of ours for t would have elementwise work with it, which nobody else takes as well: a reduction
 * computes what stands before it. */
static bool is_followed(const Graph *g, const Tensor *t) {
  int reductions, others;
  bool some = false;
  for (;;) {
    const Tensor *user = user_of(g, t, &reductions, &others);
    if (!user || reductions) return some && !reductions;
    bool moves = user->op == GRAPH_RESHAPE || user->op == GRAPH_PERMUTE;
    if (others && !(moves && t->uses == 1)) return some;
    some |= !moves;
    if (t->uses > 1) return some;
    t = user;
  }
}

/* ---- a program of its own ---------------------------------------------------------------------------------------- */

typedef struct Part { /* of a graph, copied; its operands are inputs */
  Graph graph;
  Map *copies;
  Arena *arena;
} Part;

static Tensor *copy(Part *p, const Tensor *t, bool is_operand) {
  stack_guard();
  Tensor *known = map_get(p->copies, t);
  if (known) return known;
  Tensor *c = arena_copy(p->arena, t, sizeof *t);
  c->name = NULL;
  if (is_operand) {
    c->op = GRAPH_INPUT;
    c->in_count = 0;
    memset(c->attr, 0, sizeof c->attr);
  }
  c->in = NEW_N(p->arena, Tensor *, c->in_count + 1);
  for (int i = 0; i < c->in_count; i++) c->in[i] = copy(p, t->in[i], false);
  c->id = p->graph.at.n;
  if (c->op == GRAPH_INPUT) vec_push(p->arena, &p->graph.inputs, c);
  vec_push(p->arena, &p->graph.at, c);
  map_put(p->copies, t, c);
  return c;
}

/* The convolution alone, as text; with something elementwise after it. */
static const char *program_of_rows(Graph *g, const Tensor *t, int way, bool followed) {
  Arena *a = g->cx->arena;
  Part p = {.graph = {.cx = g->cx, .name = "convolution"}, .copies = map_create(a, false), .arena = a};
  Buf text = {.arena = a};
  copy(&p, t->in[0], true);
  copy(&p, t->in[1], true);
  Tensor *out = copy(&p, t, false);
  out->way = way;
  if (followed) {
    Tensor *negative = arena_copy(a, t, sizeof *t);
    *negative = (Tensor){.op = GRAPH_POINT, .point = POINT_NEG, .dtype = t->dtype, .rank = t->rank, .size = t->size};
    negative->in_count = 1;
    negative->in = arena_copy(a, &out, sizeof out);
    negative->id = p.graph.at.n;
    vec_push(a, &p.graph.at, negative);
    out = negative;
  }
  vec_push(a, &p.graph.outputs, out);
  graph_print(&text, &p.graph);
  return text.at;
}

static Tensor *input(Graph *g, const Tensor *x, bool channels_last) {
  const Size *size[GRAPH_MAX_RANK];
  int64_t n = 0;
  for (int d = 0; d < x->rank; d++) {
    size_is_int(x->size[!channels_last || !d ? d : d == x->rank - 1 ? 1 : d + 1], &n);
    size[d] = size_int(g, n);
  }
  return graph_input(g, NULL, x->dtype, x->rank, size);
}

/* The same with channels last, and with the transposes that it costs: of what comes row by row, and of what has to end
 * so. */
static const char *program_of_channels(const Chooser *c, const Tensor *t, int way, bool followed) {
  Graph *g = graph_create(c->g->cx, "convolution");
  Buf text = {.arena = c->g->cx->arena};
  Tensor *in[2];
  for (int i = 0; i < 2; i++) in[i] = input(g, t->in[i], is_written_freely(t->in[i]));
  for (int i = 0; i < 2; i++)
    if (!is_written_freely(t->in[i])) in[i] = fuse_channels_last(g, in[i]);
  Tensor *out = fuse_turned_convolution(g, t, in[0], in[1]);
  out->way = way;
  if (followed) out = graph_point(g, POINT_NEG, 1, &out);
  if (c->ends[t->id] & (followed ? ROWS : SHOWN)) out = fuse_channels_second(g, out);
  vec_push(g->cx->arena, &g->outputs, out);
  graph_print(&text, g);
  return text.at;
}

static const char *program(const Chooser *c, const Tensor *t, Way way, bool followed) {
  return way.channels_last ? program_of_channels(c, t, way.way, followed) : program_of_rows(c->g, t, way.way, followed);
}

/* ---- the race ---------------------------------------------------------------------------------------------------- */

typedef struct Contest {
  nereid_device *device;
  nereid_fusion *fusions[MOST_WAYS]; /* ours first */
  Way ways[MOST_WAYS];
  int n;
  RaceTime time[MOST_WAYS];
  double apart[MOST_WAYS]; /* of each, from ours */
  double most_apart;
  RaceClock clock;
  void **in, *out;
} Contest;

static nereid_status run_one(void *arg, int i, nereid_stream *s, nereid_error **error) {
  const Contest *k = arg;
  return nereid_fusion_run(k->fusions[i], k->device, s, k->in, &k->out, error);
}

static nereid_status array_for(Contest *k, nereid_tensor_info t, void **out, nereid_error **error) {
  int64_t bytes = nereid_dtype_bytes(t.dtype);
  for (int d = 0; d < t.rank; d++) bytes *= t.shape[d];
  nereid_status status = nereid_alloc(k->device, bytes, out, error);
  return status ? status : race_fill(k->device, k->clock.stream, *out, (Dtype)t.dtype, bytes, error);
}

static double largest_difference(const float *a, const float *b, int64_t n) {
  double most = 0, apart = 0;
  for (int64_t i = 0; i < n; i++) {
    most = fmax(most, fabs((double)a[i]));
    apart = fmax(apart, fabs((double)a[i] - (double)b[i]));
  }
  return most > 0 ? apart / most : apart;
}

/* How far apart the results are, on a CPU. */
static nereid_status compare(Contest *k, nereid_error **error) {
  nereid_tensor_info t = nereid_fusion_output(k->fusions[0], 0);
  int64_t n = 1;
  nereid_status status = NEREID_OK;
  if (k->device->cuda_sm || t.dtype != NEREID_F32) return status;
  for (int d = 0; d < t.rank; d++) n *= t.shape[d];
  float *own = malloc((size_t)n * sizeof *own + 1), *its = malloc((size_t)n * sizeof *its + 1);
  if (!own || !its) status = error_out_of_memory(error);
  for (int i = 0; i < k->n && !status; i++) {
    float *to = i ? its : own;
    if (!(k->time[i].ms > 0)) continue;
    status = run_one(k, i, k->clock.stream, error);
    if (!status) status = nereid_copy_to_host_async(k->device, k->clock.stream, to, k->out, n * 4, error);
    if (!status) status = nereid_stream_synchronize(k->device, k->clock.stream, error);
    if (!status && i && k->time[0].ms > 0) k->apart[i] = largest_difference(own, its, n);
  }
  free(own);
  free(its);
  return status;
}

static nereid_status run_contest(void *arg, nereid_error **error) {
  Contest *k = *(Contest **)arg;
  int n = nereid_fusion_input_count(k->fusions[0]);
  k->in = calloc((size_t)n + 1, sizeof *k->in);
  nereid_status status = k->in ? race_open(&k->clock, k->device, error) : error_out_of_memory(error);
  for (int i = 0; i < n && !status; i++) status = array_for(k, nereid_fusion_input(k->fusions[0], i), &k->in[i], error);
  if (!status) status = array_for(k, nereid_fusion_output(k->fusions[0], 0), &k->out, error);
  if (!status) status = race_rounds(&k->clock, k->n, k->time, run_one, k, error);
  if (!status) status = compare(k, error);
  for (int i = 0; i < n && k->in; i++)
    if (k->in[i]) nereid_free(k->device, k->in[i]);
  if (k->out) nereid_free(k->device, k->out);
  free(k->in);
  race_close(&k->clock);
  return status;
}

/* Planned for the device: ours with the fastest tiles. */
static bool enter(Contest *k, const char *text, Way way) {
  nereid_fuse_options o = {.device = k->device,
                           .products = way.way == OURS ? NEREID_PRODUCTS_AUTO : NEREID_PRODUCTS_LIBRARY};
  if (fusion_create("convolution", text, NULL, NULL, 0, &o, &k->fusions[k->n], NULL)) return false;
  k->ways[k->n++] = way;
  return true;
}

/* The fastest of the library's in that layout, which has run twice, of the exact ones if there are some; NULL: none has
 * run. */
static const RaceTime *fastest(const Contest *k, bool channels_last, Way *way) {
  const RaceTime *best = NULL;
  bool best_is_exact = false;
  for (int i = 1; i < k->n; i++) {
    const RaceTime *t = &k->time[i];
    bool exact = k->apart[i] <= k->most_apart;
    if (k->ways[i].channels_last != channels_last || !(t->twice_ms > 0)) continue;
    if (best && (exact != best_is_exact ? best_is_exact : t->ms >= best->ms)) continue;
    best = t;
    best_is_exact = exact;
    *way = k->ways[i];
  }
  return best;
}

static bool decide(const Contest *k, Outcome *out) {
  Way way = {OURS, false}, turned = way;
  const RaceTime *own = &k->time[0], *rows = fastest(k, false, &way), *last = fastest(k, true, &turned), *best = rows;
  *out = (Outcome){{OURS, false}, own->ms, rows ? rows->ms : 0, last ? last->ms : 0, 0};
  if (last && (!rows || last->twice_ms < layout_gain * rows->ms)) {
    best = last;
    way = turned;
  }
  if (best && k->apart[best - k->time] > k->most_apart) out->apart = k->apart[best - k->time];
  else if (best && (!(own->ms > 0) || best->twice_ms < library_gain * own->ms)) out->way = way;
  return best != NULL;
}

/* Whether a way of the library's, from that on, can be gone at all; sets it. */
static bool find_way(const Chooser *c, const Tensor *t, Way *way, nereid_error **error) {
  DnnConvolution v = dnn_convolution(t, true);
  DnnPlan *plan = NULL;
  v.sizes.channels_last = way->channels_last;
  bool can = !dnn_plan(*c->products->dnn, &v, &way->way, &plan, error);
  dnn_plan_free(plan);
  return can;
}

/* Whether the image may lie with its channels last, and whether it may not. The race does not see what follows. */
static bool may_turn(const Chooser *c, const Tensor *t) {
  const FuseProducts *o = c->products;
  bool wanted =
      o->layouts == LAYOUTS_CHANNELS_LAST || (o->layouts == LAYOUTS_AUTO && dnn_wants_channels_last(o->device));
  return wanted && !(c->ends[t->id] & TAKEN);
}
static bool must_turn(const Chooser *c, const Tensor *t) {
  return c->products->layouts == LAYOUTS_CHANNELS_LAST && may_turn(c, t);
}

static void enter_library(const Chooser *c, Contest *k, const Tensor *t, bool channels_last, bool followed) {
  Way way = {0, channels_last};
  for (int n = 0; n < WAYS && find_way(c, t, &way, NULL) && enter(k, program(c, t, way, followed), way); n++) way.way++;
}

/* Multiply-adds. */
static double work_of(const Tensor *t) {
  Convolution c = dnn_convolution(t, true).sizes;
  double work = (double)c.n * (double)c.filters * (double)(c.channels / c.groups);
  for (int d = 0; d < c.dims; d++) work *= (double)c.places[d] * (double)c.kernel[d];
  return work;
}

/* How far apart results may be: by the terms of each. */
static double may_be_apart(Graph *g, const Tensor *t) {
  int64_t n = 1;
  size_is_int(graph_numel(g, t), &n);
  return fmax(most_apart, apart_of_root * sqrt(work_of(t) / (double)n));
}

typedef struct Measured {
  const Chooser *c;
  const Tensor *t;
  bool followed;
} Measured;

static bool measure(void *of, void *out) {
  const Chooser *c = ((Measured *)of)->c;
  const Tensor *t = ((Measured *)of)->t;
  bool followed = ((Measured *)of)->followed;
  Contest contest = {.device = c->products->device, .most_apart = may_be_apart(c->g, t)}, *k = &contest;
  Way own = {OURS, false};
  bool good = enter(k, program(c, t, own, followed), own);
  if (good && !must_turn(c, t)) enter_library(c, k, t, false, followed);
  if (good && may_turn(c, t)) enter_library(c, k, t, true, followed);
  good = good && k->n > 1 && !device_call(k->device, NULL, run_contest, &k, sizeof k, NULL) && decide(k, out);
  for (int i = 0; i < k->n; i++) nereid_fusion_free(k->fusions[i]);
  return good;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static const char *key_of(const Chooser *c, const Tensor *t, bool followed) {
  Buf b = {.arena = c->g->cx->arena};
  buf_printf(&b, "%s\n", NEREID_VERSION);
  c->products->device->kind->signature(c->products->device, &b);
  buf_putc(&b, '\n');
  dnn_identity(*c->products->dnn, &b);
  for (int last = must_turn(c, t); last <= may_turn(c, t); last++)
    buf_printf(&b, "\n%s", program(c, t, (Way){0, last}, followed));
  return b.at;
}

static bool read_record(void *of, const char *text, void *outcome) {
  Outcome *out = outcome;
  int end = 0, last;
  if (sscanf(text, "way=%d channels_last=%d own_ms=%lf rows_ms=%lf last_ms=%lf apart=%lf%n", &out->way.way, &last,
             &out->own_ms, &out->rows_ms, &out->last_ms, &out->apart, &end) != 6)
    return false;
  out->way.channels_last = last;
  bool sane = isfinite(out->own_ms) && isfinite(out->rows_ms) && isfinite(out->last_ms) && out->apart >= 0 &&
              out->own_ms >= 0 && out->rows_ms >= 0 && out->last_ms >= 0 && out->rows_ms + out->last_ms > 0;
  return sane && !strcmp(text + end, "\n") && out->way.way >= OURS && (last == 0 || last == 1);
}

static const char *record(Arena *arena, const void *outcome) {
  const Outcome *o = outcome;
  return arena_printf(arena, "way=%d channels_last=%d own_ms=%.6f rows_ms=%.6f last_ms=%.6f apart=%.3g\n", o->way.way,
                      o->way.channels_last, o->own_ms, o->rows_ms, o->last_ms, o->apart);
}

static bool find_outcome(Chooser *c, const Tensor *t, Outcome *out) {
  static const OutcomeKind kind = {"convolution", sizeof *out, read_record, measure, record};
  Measured m = {c, t, is_followed(c->g, t)};
  const char *key = key_of(c, t, m.followed);
  return outcome_find(&kind, &m, key, c->products->who == PRODUCTS_AUTO, c->g->cx->arena, c->outcomes, out);
}

static bool is_worth_it(const FuseProducts *o, const Tensor *t) { return race_is_worth_it(o->device, work_of(t)); }

static void explain(Chooser *c, const Tensor *t, const char *format, ...) {
  Buf *out = c->products->notes;
  if (!out) return;
  buf_puts(out, "convolution ");
  if (t->name) buf_printf(out, "%s ", t->name);
  graph_print_type(out, t);
  buf_puts(out, ": ");
  va_list args;
  va_start(args, format);
  buf_vprintf(out, format, args);
  va_end(args);
  buf_putc(out, '\n');
}

/* The library; NULL: there is none, which is said. */
static Dnn *library(Chooser *c, const Tensor *t) {
  const FuseProducts *o = c->products;
  nereid_error *error = NULL;
  if (!*o->dnn && !c->no_library) c->no_library = dnn_open(o->device, o->dnn, &error);
  if (error && o->who == PRODUCTS_LIBRARY) explain(c, t, "ours: %s", nereid_error_message(error));
  nereid_error_free(error);
  return *o->dnn;
}

/* The library's first way, channels last where that is wanted and can be. */
static Way ask_library(Chooser *c, const Tensor *t) {
  nereid_error *error = NULL;
  Way way = {(int)t->way, must_turn(c, t)};
  if (!library(c, t)) return (Way){OURS, false};
  bool can = find_way(c, t, &way, &error);
  explain(c, t, "%s%s", can ? "the library's" : "ours: ",
          !can                ? nereid_error_message(error)
          : way.channels_last ? ", channels last"
                              : "");
  nereid_error_free(error);
  return can ? way : (Way){OURS, false};
}

static void explain_outcome(Chooser *c, const Tensor *t, const Outcome *o) {
  Buf times = {.arena = c->g->cx->arena};
  if (o->rows_ms > 0) buf_printf(&times, ", %s %.4g ms", dnn_name(*c->products->dnn), o->rows_ms);
  if (o->last_ms > 0) buf_printf(&times, ", channels last %.4g ms", o->last_ms);
  if (o->apart > 0) buf_printf(&times, ", less exact by %.1e of the largest value", o->apart);
  explain(c, t, "%s, as measured: ours takes %.4g ms%s",
          o->way.way == OURS     ? "ours"
          : o->way.channels_last ? "the library's, channels last"
                                 : "the library's",
          o->own_ms, times.at);
}

static Way choose(Chooser *c, const Tensor *t) {
  const FuseProducts *o = c->products;
  Outcome outcome = {.way = {OURS, false}};
  if (t->way == OURS || o->who == PRODUCTS_OWN || !o->device || !o->dnn || !dnn_takes(o->device, t->dtype))
    return outcome.way;
  if (o->who == PRODUCTS_LIBRARY) return ask_library(c, t);
  if (is_worth_it(o, t) && library(c, t) && find_outcome(c, t, &outcome)) explain_outcome(c, t, &outcome);
  return outcome.way;
}

static Tensor *chosen(Graph *g, Tensor *t, const FuseTarget *target) {
  if (t->op != GRAPH_CONVOLUTION || t->in_count < 3) return NULL;
  if (t->way == OURS) return t->in[2];
  t->in_count = 2;
  if (!t->channels_last) return NULL;
  Tensor *a = fuse_channels_last(g, t->in[0]), *b = fuse_channels_last(g, t->in[1]);
  Tensor *turned = fuse_turned_convolution(g, t, a, b);
  turned->name = t->name;
  return fuse_channels_second(g, turned);
}

void fuse_convolutions(Graph *g, const FuseOptions *o) {
  Chooser c = {.g = g, .products = &o->products, .outcomes = map_create(g->cx->arena, true)};
  int n = g->at.n;
  graph_count_uses(g);
  find_ends(&c);
  for (int i = 0; i < n; i++) {
    Tensor *t = g->at.at[i];
    if (t->op != GRAPH_CONVOLUTION || t->in_count < 3) continue;
    Way way = choose(&c, t);
    t->way = way.way;
    t->channels_last = way.channels_last;
  }
  fuse_rewrite(g, chosen, NULL);
  graph_dce(g);
}
