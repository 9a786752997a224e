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

/* Multiply-adds below which a convolution is not measured. */
enum { WORTH_MEASURING = 1 << 25, WAYS = 3, OURS = -1 };
/* A library must be faster by so much, twice. */
static const double library_gain = 0.95;

typedef struct Outcome {
  int way;                   /* OURS, or the library's */
  double own_ms, library_ms; /* 0: not measured */
} Outcome;

typedef struct Chooser {
  Graph *g;
  const FuseProducts *products;
  Map *outcomes;   /* of convolutions so far, by their programs */
  bool no_library; /* it could not be opened */
} Chooser;

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
static const char *program(Graph *g, const Tensor *t, int way, bool followed) {
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

/* ---- the race ---------------------------------------------------------------------------------------------------- */

typedef struct Contest {
  nereid_device *device;
  nereid_fusion *fusions[1 + WAYS]; /* ours first */
  int ways[1 + WAYS], n;
  RaceTime time[1 + WAYS];
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

static nereid_status run_contest(void *arg, nereid_error **error) {
  Contest *k = *(Contest **)arg;
  int n = nereid_fusion_input_count(k->fusions[0]);
  k->in = calloc((size_t)n + 1, sizeof *k->in);
  nereid_status status = k->in ? race_open(&k->clock, k->device, error) : error_out_of_memory(error);
  for (int i = 0; i < n && !status; i++) status = array_for(k, nereid_fusion_input(k->fusions[0], i), &k->in[i], error);
  if (!status) status = array_for(k, nereid_fusion_output(k->fusions[0], 0), &k->out, error);
  if (!status) status = race_rounds(&k->clock, k->n, k->time, run_one, k, error);
  for (int i = 0; i < n && k->in; i++)
    if (k->in[i]) nereid_free(k->device, k->in[i]);
  if (k->out) nereid_free(k->device, k->out);
  free(k->in);
  race_close(&k->clock);
  return status;
}

/* Planned for the device: ours with the fastest tiles. */
static void enter(Contest *k, const char *text, int way) {
  nereid_fuse_options o = {.device = k->device,
                           .products = way == OURS ? NEREID_PRODUCTS_AUTO : NEREID_PRODUCTS_LIBRARY};
  if (fusion_create("convolution", text, NULL, NULL, 0, &o, &k->fusions[k->n], NULL)) return;
  k->ways[k->n++] = way;
}

static bool decide(const Contest *k, Outcome *out) {
  int best = 0;
  for (int i = 1; i < k->n; i++)
    if (k->time[i].twice_ms > 0 && (!best || k->time[i].ms < k->time[best].ms)) best = i;
  if (!best) return false;
  const RaceTime *own = &k->time[0], *library = &k->time[best];
  *out = (Outcome){OURS, own->ms, library->ms};
  if (!(own->ms > 0) || library->twice_ms < library_gain * own->ms) out->way = k->ways[best];
  return true;
}

static bool measure(Chooser *c, const Tensor *t, bool followed, Outcome *out) {
  Contest contest = {.device = c->products->device}, *k = &contest;
  DnnConvolution v = dnn_convolution(t, true);
  DnnPlan *plan;
  enter(k, program(c->g, t, OURS, followed), OURS);
  bool good = k->n == 1;
  for (int way = 0; good && k->n <= WAYS && !dnn_plan(*c->products->dnn, &v, &way, &plan, NULL); way++) {
    int n = k->n;
    dnn_plan_free(plan);
    enter(k, program(c->g, t, way, followed), way);
    if (k->n == n) break;
  }
  good = good && k->n > 1 && !device_call(k->device, NULL, run_contest, &k, sizeof k, NULL) && decide(k, out);
  for (int i = 0; i < k->n; i++) nereid_fusion_free(k->fusions[i]);
  return good;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static const char *key_of(Chooser *c, const Tensor *t, bool followed) {
  Buf b = {.arena = c->g->cx->arena};
  buf_printf(&b, "%s\n", NEREID_VERSION);
  c->products->device->kind->signature(c->products->device, &b);
  buf_putc(&b, '\n');
  dnn_identity(*c->products->dnn, &b);
  buf_printf(&b, "\n%s", program(c->g, t, 0, followed));
  return b.at;
}

static bool read_record(const char *text, Outcome *out) {
  int end = 0;
  return sscanf(text, "way=%d own_ms=%lf library_ms=%lf%n", &out->way, &out->own_ms, &out->library_ms, &end) == 3 &&
         !strcmp(text + end, "\n") && out->way >= OURS && out->own_ms >= 0 && isfinite(out->own_ms) &&
         out->library_ms > 0 && isfinite(out->library_ms);
}

/* Known of this graph, or kept, or measured now; false: it cannot be measured, or is not to be. */
static bool find_outcome(Chooser *c, const Tensor *t, Outcome *out) {
  Arena *arena = c->g->cx->arena;
  bool followed = is_followed(c->g, t);
  const char *key = key_of(c, t, followed);
  Outcome *known = map_get(c->outcomes, key);
  if (known) {
    *out = *known;
    return known->library_ms > 0;
  }
  char name[33];
  Buf kept = {0};
  hash_hex(key, strlen(key), name);
  bool found = store_find("convolution", name, "", &kept) && read_record(kept.at, out);
  buf_destroy(&kept);
  if (!found && c->products->who == PRODUCTS_AUTO && (found = measure(c, t, followed, out))) {
    const char *text =
        arena_printf(arena, "way=%d own_ms=%.6f library_ms=%.6f\n", out->way, out->own_ms, out->library_ms);
    store_keep("convolution", name, "", text, strlen(text)); /* else it is measured again */
  }
  if (!found) *out = (Outcome){.way = OURS};
  map_put(c->outcomes, key, arena_copy(arena, out, sizeof *out));
  return found;
}

static bool is_worth_it(const FuseProducts *o, const Tensor *t) {
  Convolution c = dnn_convolution(t, true).sizes;
  double work = (double)c.n * (double)c.filters * (double)(c.channels / c.groups);
  for (int d = 0; d < c.dims; d++) work *= (double)c.places[d] * (double)c.kernel[d];
  return o->device->autotunes && o->device->kind->signature && work >= WORTH_MEASURING;
}

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

static int choose(Chooser *c, const Tensor *t) {
  const FuseProducts *o = c->products;
  Outcome outcome = {.way = OURS};
  if (t->way == OURS || o->who == PRODUCTS_OWN || !o->device || !o->dnn || !dnn_takes(o->device, t->dtype)) return OURS;
  if (o->who == PRODUCTS_LIBRARY) {
    DnnConvolution v = dnn_convolution(t, true);
    DnnPlan *plan = NULL;
    nereid_error *error = NULL;
    int way = (int)t->way;
    if (!library(c, t)) return OURS;
    bool can = !dnn_plan(*o->dnn, &v, &way, &plan, &error);
    dnn_plan_free(plan);
    explain(c, t, can ? "the library's" : "ours: %s", can ? "" : nereid_error_message(error));
    nereid_error_free(error);
    return can ? way : OURS;
  }
  if (!is_worth_it(o, t) || !library(c, t) || !find_outcome(c, t, &outcome)) return OURS;
  explain(c, t, "%s, as measured: ours takes %.4g ms, %s %.4g ms", outcome.way == OURS ? "ours" : "the library's",
          outcome.own_ms, dnn_name(*o->dnn), outcome.library_ms);
  return outcome.way;
}

static Tensor *chosen(Graph *g, Tensor *t, const FuseTarget *target) {
  if (t->op != GRAPH_CONVOLUTION || t->in_count < 3) return NULL;
  if (t->way == OURS) return t->in[2];
  t->in_count = 2;
  return NULL;
}

void fuse_convolutions(Graph *g, const FuseOptions *o) {
  Chooser c = {g, &o->products, map_create(g->cx->arena, true), false};
  int n = g->at.n;
  graph_count_uses(g);
  for (int i = 0; i < n; i++)
    if (g->at.at[i]->op == GRAPH_CONVOLUTION && g->at.at[i]->in_count == 3) g->at.at[i]->way = choose(&c, g->at.at[i]);
  fuse_rewrite(g, chosen, NULL);
  graph_dce(g);
}
