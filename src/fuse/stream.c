/* Products that are never stored. The scores of an attention, q k^T, have few terms (q's width) and many elements (all
 * queries by all keys), so that it costs less to compute them again, a tile at a time, than to store them. Such a
 * product is a tile here. What needs it must be able to take it as it goes by, a block of each row after another: sums
 * and maxima along a row, and products with what is made of it. These are sinks, and become roots of one kernel
 * (kernel_stream.c), if the laws of law.c allow those that depend on others:
 *
 *     forward      m = max(s), l = sum(exp(s - m)), exp(s - m) / l @ v
 *     backward     for the queries dS @ k; for the keys dS^T @ q and P^T @ dO, with the rows of s^T
 *
 * Rows are the first or the second of the two dims; a sink says which. Nothing here knows of attention: a tile's sinks
 * are found by going on from it, through elementwise operations and views. */
#include "fuse/fuse.h"

enum { MOST_TERMS_NARROW = 256, MOST_TERMS = 128, MOST_COLUMNS = 256, MOST_SINKS = 32 };

bool stream_is_sink(const FusePlan *p, const Tensor *t) { return p->stream[t->id] > STREAM_TILE; }

Tensor *stream_operand(const FusePlan *p, const Tensor *t) { return t->in[p->stream[t->id] == STREAM_RIGHT]; }

/* Which dims of its operand are rows and places. */
static void dims_of(const FusePlan *p, const Tensor *sink, int *row, int *column) {
  int rank = stream_operand(p, sink)->rank;
  StreamPart part = p->stream[sink->id];
  *column = part == STREAM_REDUCE ? (int)sink->dims[0] : part == STREAM_LEFT ? rank - 1 : rank - 2;
  *row = *column == rank - 1 ? rank - 2 : rank - 1;
}

static const IndexVar *new_var(Graph *g, const char *text, const Size *extent, unsigned bit) {
  IndexVar *v = NEW(g->cx->arena, IndexVar);
  *v = (IndexVar){.text = text, .extent = extent, .bit = bit};
  return v;
}

void stream_space(Stream *s, const Tensor *sink) {
  const Tensor *x = stream_operand(s->plan, sink);
  int row, column;
  dims_of(s->plan, sink, &row, &column);
  s->rows = x->size[row];
  s->length = x->size[column];
  s->batches = size_product(s->g, x->rank - 2, x->size);
  if (s->m) return;
  s->batch = new_var(s->g, "batch", s->batches, 0);
  s->m = new_var(s->g, "m", s->rows, 1);
  s->k = new_var(s->g, "k", s->length, 2);
}

const IndexVar *stream_axis(Stream *s, const Size *extent) {
  int64_t n = 0, block = 16;
  for (int i = 0; i < s->d.n; i++)
    if (s->d.at[i]->extent == extent) return s->d.at[i];
  while (size_is_int(extent, &n) && block < n) block *= 2;
  const char *text = s->d.n ? arena_printf(s->g->cx->arena, "d_%d", s->d.n + 1) : "d";
  IndexVar *v = NEW(s->g->cx->arena, IndexVar);
  *v = (IndexVar){.text = text, .extent = extent, .bit = 2};
  if (block != n) v->mask = arena_printf(s->g->cx->arena, "%s_mask", text);
  vec_push(s->g->cx->arena, &s->d, v);
  return v;
}

const IndexVar *stream_columns(Stream *s, const Tensor *sink) {
  return stream_axis(s, sink->size[sink->rank - (s->plan->stream[sink->id] == STREAM_LEFT ? 1 : 2)]);
}

static bool index_with(Stream *s, int rank, const Size *const *size, int row, Index r, int column, Index c, Index *at) {
  bool skip[GRAPH_MAX_RANK] = {false};
  skip[row] = skip[column] = true;
  if (!index_split(s->g, index_var(s->g, s->batch), rank, size, skip, at)) return false;
  at[row] = r;
  at[column] = c;
  return true;
}

bool stream_operand_index(Stream *s, const Tensor *sink, Index *at) {
  const Tensor *x = stream_operand(s->plan, sink);
  int row, column;
  dims_of(s->plan, sink, &row, &column);
  return index_with(s, x->rank, x->size, row, index_var(s->g, s->m), column, index_var(s->g, s->k), at);
}

bool stream_result_index(Stream *s, const Tensor *sink, Index *at) {
  int row, column;
  dims_of(s->plan, sink, &row, &column);
  Index c = index_constant(s->g, size_int(s->g, 0));
  if (s->plan->stream[sink->id] != STREAM_REDUCE) c = index_var(s->g, stream_columns(s, sink));
  return index_with(s, sink->rank, sink->size, row, index_var(s->g, s->m), column, c, at);
}

bool stream_root_index(Stream *s, const Tensor *t, Index *at) {
  Graph *g = s->g;
  Index result[GRAPH_MAX_RANK];
  const Size *count = graph_numel(g, t);
  if (count == size_mul(g, s->batches, s->rows)) {
    Index row = index_add(g, index_scale(g, index_var(g, s->batch), s->rows), index_var(g, s->m));
    if (index_split(g, row, t->rank, t->size, NULL, at)) return true;
  }
  for (int i = 0; i < s->group->n; i++) {
    const Tensor *sink = s->group->roots[i];
    if (sink == t || !stream_is_sink(s->plan, sink) || graph_numel(g, sink) != count) continue;
    if (s->plan->stream[sink->id] == STREAM_REDUCE || !stream_result_index(s, sink, result)) continue;
    if (index_split(g, index_linear(g, sink->rank, sink->size, result), t->rank, t->size, NULL, at)) return true;
  }
  return false;
}

/* ---- whether a kernel can compute it ----------------------------------------------------------------------------- */

typedef struct Walk {
  Stream *s;
  const Tensor *top; /* a root, and looked into all the same */
  Map *seen, *needs;
  const char *why;
} Walk;

static bool is_member(const Stream *s, const Tensor *t) {
  for (int i = 0; i < s->group->n; i++)
    if (s->group->roots[i] == t) return true;
  return false;
}

static bool is_loaded(const Stream *s, const Tensor *t) { return t->op == GRAPH_INPUT || s->root[t->id]; }

/* Whether it is made of a tile or of what this kernel computes. */
static bool needs_loop(Walk *w, const Tensor *t) {
  stack_guard();
  void *known = map_get(w->needs, t);
  if (known) return (intptr_t)known == 2;
  bool needs = (is_member(w->s, t) && t != w->top) || w->s->plan->stream[t->id] == STREAM_TILE;
  if (!needs && (t == w->top || !is_loaded(w->s, t)))
    for (int i = 0; i < t->in_count && !needs; i++) needs = needs_loop(w, t->in[i]);
  map_put(w->needs, t, (void *)(intptr_t)(1 + needs));
  return needs;
}

static bool refuse(Walk *w, const char *why) {
  w->why = why;
  return false;
}

static bool same_index(Stream *s, const Tensor *t, const Index *a, const Index *b) {
  for (int d = 0; d < t->rank; d++)
    if (strcmp(index_text(s->g, &a[d]), index_text(s->g, &b[d]))) return false;
  return true;
}

/* A tile is there for the rows and the block at hand, as it lies or transposed. */
static bool takes_tile(Walk *w, const Tensor *t, const Index *at) {
  Stream *s = w->s;
  int rank = t->rank;
  const char *row = index_text(s->g, &at[rank - 2]), *column = index_text(s->g, &at[rank - 1]);
  bool straight = !strcmp(row, s->m->text) && !strcmp(column, s->k->text),
       turned = !strcmp(row, s->k->text) && !strcmp(column, s->m->text);
  if (!straight && !turned) return refuse(w, "a product is needed at other places than the block's");
  for (int d = 0; d < rank - 2; d++)
    if (index_bits(&at[d])) return refuse(w, "a product of another batch is needed");
  return (!needs_loop(w, t->in[0]) && !needs_loop(w, t->in[1])) || refuse(w, "a product of what this kernel computes");
}

static bool walk(Walk *w, Tensor *t, const Index *at) {
  stack_guard();
  Stream *s = w->s;
  Index in[GRAPH_MAX_RANK];
  if (!needs_loop(w, t)) return true;
  Buf key = {.arena = s->g->cx->arena};
  buf_printf(&key, "%d", t->id);
  for (int d = 0; d < t->rank; d++) buf_printf(&key, ",%s", index_text(s->g, &at[d]));
  if (map_get(w->seen, key.at)) return true;
  map_put(w->seen, key.at, w);
  if (t != w->top && is_member(s, t) && stream_is_sink(s->plan, t))
    return (stream_result_index(s, t, in) && same_index(s, t, at, in)) || refuse(w, "a result of other rows is needed");
  if (t->op == GRAPH_PRODUCT) return takes_tile(w, t, at);
  if (graph_is_view(t)) {
    if (!fuse_view_index(s->g, t, at, in)) return refuse(w, "a view stands between");
    return walk(w, t->in[0], in);
  }
  if (t->op != GRAPH_POINT) return refuse(w, arena_printf(s->g->cx->arena, "%s stands between", graph_ops[t->op].name));
  for (int i = 0; i < t->in_count; i++)
    if (!walk(w, t->in[i], at)) return false;
  return true;
}

Law *stream_law(Stream *s, Tensor *sink) {
  LawSearch k = {.g = s->g, .plan = s->plan, .group = s->group, .root = s->root, .bit = s->k->bit};
  Index at[GRAPH_MAX_RANK];
  bool depends = false;
  for (int i = 0; i < s->group->n && s->group->roots[i] != sink && k.live_count < LAW_MOST_LIVE; i++) {
    Tensor *t = s->group->roots[i];
    if (s->plan->stream[t->id] != STREAM_REDUCE) continue;
    for (int j = 0; j < k.live_count; j++) k.corrected[k.live_count] |= law_depends(&k, t->in[0], k.live[j]);
    k.live[k.live_count++] = t;
  }
  Tensor *x = stream_operand(s->plan, sink);
  for (int i = 0; i < k.live_count; i++) depends |= law_depends(&k, x, k.live[i]);
  if (!depends || !stream_operand_index(s, sink, at)) return NULL;
  Law *law = law_find(&k, x, sink->op == GRAPH_PRODUCT ? REDUCE_SUM : (Reduction)sink->kind, at);
  if (!law->why && law->shifts) law->why = "a shift is not corrected here";
  return law;
}

/* Marks what goes by for a sink: tiles, and stored tensors with an element for each row and place; 1: as they lie, 2:
 * transposed. */
static void mark_streams(const Stream *s, const Tensor *t, const Index *at, bool *seen, unsigned char *marks) {
  stack_guard();
  Index in[GRAPH_MAX_RANK];
  if (seen[t->id]) return;
  seen[t->id] = true;
  bool tile = s->plan->stream[t->id] == STREAM_TILE;
  if (tile || is_loaded(s, t)) {
    unsigned bits = 0;
    for (int d = 0; d < t->rank; d++) bits |= index_bits(&at[d]);
    if (bits == 3) marks[t->id] |= index_bits(&at[t->rank - 1]) & 2 ? 1 : 2;
    return;
  }
  if (graph_is_view(t) && fuse_view_index(s->g, t, at, in)) mark_streams(s, t->in[0], in, seen, marks);
  if (t->op != GRAPH_POINT) return;
  for (int i = 0; i < t->in_count; i++) mark_streams(s, t->in[i], at, seen, marks);
}

bool stream_shares(Stream *s, const Tensor *t) {
  enum { MOST = 4 }; /* tiles of scores and of results, which all are in registers at once */
  Arena *a = s->g->cx->arena;
  int n = s->g->at.n, all = t->op == GRAPH_PRODUCT;
  unsigned char *marks = NEW_N(a, unsigned char, n), *own = NEW_N(a, unsigned char, n);
  bool shares = false;
  Index at[GRAPH_MAX_RANK];
  for (int i = 0; i < s->group->n; i++) {
    const Tensor *sink = s->group->roots[i];
    if (!stream_is_sink(s->plan, sink) || !stream_operand_index(s, sink, at)) continue;
    mark_streams(s, stream_operand(s->plan, sink), at, NEW_N(a, bool, n), sink == t ? own : marks);
    all += sink->op == GRAPH_PRODUCT && sink != t;
  }
  for (int i = 0; i < n; i++) {
    shares |= marks[i] & own[i];
    if (s->plan->stream[i] == STREAM_TILE) all += __builtin_popcount(marks[i] | own[i]);
  }
  return shares && all <= MOST;
}

const char *stream_refuses(Stream *s, Tensor *t) {
  Arena *a = s->g->cx->arena;
  Walk w = {s, t, map_create(a, true), map_create(a, false), NULL};
  Index at[GRAPH_MAX_RANK];
  if (stream_is_sink(s->plan, t)) {
    if (!stream_operand_index(s, t, at)) return "batches of another kind";
    if (!walk(&w, stream_operand(s->plan, t), at)) return w.why;
    if (t->op == GRAPH_PRODUCT && needs_loop(&w, t->in[s->plan->stream[t->id] == STREAM_LEFT]))
      return "both operands of a product are computed";
    const Law *law = stream_law(s, t);
    return law ? law->why : NULL;
  }
  if (!stream_root_index(s, t, at)) return "its elements are none of the kernel's";
  return walk(&w, t, at) ? NULL : w.why;
}

/* ---- tiles and their sinks --------------------------------------------------------------------------------------- */

/* Computing it again is cheap, and storing it is not. */
static bool can_be_tile(const FusePlan *p, const Tensor *t) {
  int64_t terms, sizes[3];
  if (t->op != GRAPH_PRODUCT || !dtype_is_float(t->dtype) || p->stored[t->id] || p->stream[t->id]) return false;
  if (!size_is_int(t->in[0]->size[t->rank - 1], &terms)) return false;
  if (terms > (dtype_bits(t->dtype) <= 16 ? MOST_TERMS_NARROW : MOST_TERMS)) return false;
  const Tensor *all[] = {t, t->in[0], t->in[1]};
  for (int i = 0; i < 3; i++)
    if (!size_is_int(graph_numel(p->g, all[i]), &sizes[i])) return size_is_int(t->size[t->rank - 1], &terms) == 0;
  return sizes[0] > sizes[1] + sizes[2];
}

static bool reduces_rows(const Tensor *t) {
  return t->op == GRAPH_REDUCE && t->dim_count == 1 && t->in[0]->rank >= 2 && t->dims[0] >= t->in[0]->rank - 2 &&
         dtype_is_float(t->dtype) && (t->kind == REDUCE_SUM || t->kind == REDUCE_MAX || t->kind == REDUCE_MIN);
}

/* How t takes what is marked in `from`; STREAM_NONE: it does not. */
static StreamPart part_of(const Tensor *t, const bool *from) {
  int64_t n;
  if (reduces_rows(t)) return STREAM_REDUCE;
  if (t->op != GRAPH_PRODUCT || from[t->in[0]->id] == from[t->in[1]->id]) return STREAM_NONE;
  StreamPart part = from[t->in[0]->id] ? STREAM_LEFT : STREAM_RIGHT;
  bool few = size_is_int(t->size[t->rank - (part == STREAM_LEFT ? 1 : 2)], &n) && n <= MOST_COLUMNS;
  return few ? part : STREAM_NONE;
}

static bool takes_alone(FusePlan *p, const bool *root, Tensor *sink) {
  FuseGroup group = {.kind = FUSE_STREAM, .n = 1, .roots = &sink};
  Stream s = {.g = p->g, .plan = p, .root = root, .group = &group};
  stream_space(&s, sink);
  return !stream_refuses(&s, sink);
}

/* Everything that needs t must be a sink. */
static bool becomes_tile(FusePlan *p, bool *root, Tensor *tile) {
  Graph *g = p->g;
  bool *from = NEW_N(g->cx->arena, bool, g->at.n);
  Tensor *sinks[MOST_SINKS];
  StreamPart were[MOST_SINKS];
  int n = 0;
  bool good = true;
  from[tile->id] = true;
  p->stream[tile->id] = STREAM_TILE;
  root[tile->id] = false;
  for (int i = tile->id + 1; i < g->at.n && good; i++) {
    Tensor *t = g->at.at[i];
    bool needs = false;
    for (int k = 0; k < t->in_count; k++) needs |= from[t->in[k]->id];
    if (!needs) continue;
    /* which element equals the maximum is asked of the very same values: kernels may round each in its way */
    bool equals = t->op == GRAPH_POINT && (t->point == POINT_EQ || t->point == POINT_NE);
    bool passes = !root[i] && !equals && (t->op == GRAPH_POINT || graph_is_view(t));
    if (passes) {
      from[i] = true;
      continue;
    }
    StreamPart part = n < MOST_SINKS ? part_of(t, from) : STREAM_NONE;
    good = part && (!p->stream[i] || p->stream[i] == part);
    if (!good) break;
    were[n] = p->stream[i];
    sinks[n++] = t;
    p->stream[i] = (unsigned char)part;
  }
  for (int i = 0; i < n && good; i++) good = takes_alone(p, root, sinks[i]);
  if (good && n) return true;
  while (n-- > 0) p->stream[sinks[n]->id] = (unsigned char)were[n];
  p->stream[tile->id] = STREAM_NONE;
  root[tile->id] = true;
  return false;
}

/* ---- products with what follows a reduction ---------------------------------------------------------------------- */

/* The reductions of its rows from which t is made, operands first. */
static void find_reductions(FusePlan *p, const bool *root, Tensor *t, Map *seen, Tensor **found, int *n) {
  stack_guard();
  if (map_has(seen, t) || t->op == GRAPH_INPUT) return;
  map_put(seen, t, p);
  bool row = root[t->id] && reduces_rows(t) && (!p->stream[t->id] || p->stream[t->id] == STREAM_REDUCE);
  if (root[t->id] && !row) return;
  for (int i = 0; i < t->in_count; i++) find_reductions(p, root, t->in[i], seen, found, n);
  if (row && *n < MOST_SINKS) found[(*n)++] = t;
}

/* A product whose operand is made of a stored tensor and of reductions of its rows, as softmax(x) @ v: all in one loop.
 */
static void joins_reductions(FusePlan *p, bool *root, Tensor *product, StreamPart part) {
  Tensor *found[MOST_SINKS + 1];
  StreamPart were[MOST_SINKS];
  int n = 0;
  Tensor *x = product->in[part == STREAM_RIGHT];
  if (root[x->id]) return;
  find_reductions(p, root, x, map_create(p->g->cx->arena, false), found, &n);
  if (!n) return;
  for (int i = 0; i < n; i++) {
    were[i] = p->stream[found[i]->id];
    p->stream[found[i]->id] = STREAM_REDUCE;
  }
  found[n] = product;
  p->stream[product->id] = (unsigned char)part;
  bool good = true, corrected = false;
  for (int i = 0; i <= n && good; i++) {
    FuseGroup group = {.kind = FUSE_STREAM, .n = i + 1, .roots = found};
    Stream s = {.g = p->g, .plan = p, .root = root, .group = &group}, own = {.g = p->g, .plan = p};
    stream_space(&s, product);
    stream_space(&own, found[i]);
    good = s.rows == own.rows && s.length == own.length && s.batches == own.batches && !stream_refuses(&s, found[i]);
    corrected |= good && i == n && stream_law(&s, product);
  }
  if (good && corrected) return;
  for (int i = 0; i < n; i++) p->stream[found[i]->id] = (unsigned char)were[i];
  p->stream[product->id] = STREAM_NONE;
}

void stream_find(FusePlan *p, bool *root) {
  Graph *g = p->g;
  int64_t n;
  for (int i = 0; i < g->at.n; i++)
    if (can_be_tile(p, g->at.at[i])) becomes_tile(p, root, g->at.at[i]);
  for (int i = 0; i < g->at.n; i++) {
    Tensor *t = g->at.at[i];
    for (StreamPart part = STREAM_LEFT; part <= STREAM_RIGHT; part++)
      if (t->op == GRAPH_PRODUCT && dtype_is_float(t->dtype) && !p->stream[i] &&
          size_is_int(t->size[t->rank - (part == STREAM_LEFT ? 1 : 2)], &n) && n <= MOST_COLUMNS)
        joins_reductions(p, root, t, part);
  }
}
