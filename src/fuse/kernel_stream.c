/* Sums, maxima and products along rows of a product that is computed again in tiles (stream.c). A program keeps M rows;
 * blocks of K places go by, all of a row's in one loop, corrected by the laws of law.c.
 *
 *     q = tl.load(...)                                     [M, D]
 *     for start in range(0, 4096, K):
 *         s = tl.dot(q, tl.trans(tl.load(...)))            [M, K]
 *         top = maximum(top, max(s))                       [M, 1]
 *         ...
 *         out = tl.dot(p, v, out * rescale)                [M, N] */
#include "fuse/fuse.h"

typedef struct StreamTiles {
  Stream *s;
  Map *down; /* text of variables that are used down the rows of an operand */
} StreamTiles;

typedef struct Sink { /* a reduction or product on its way */
  Tensor *t;
  const Law *law;
  const char *acc;
  bool is_reference;
} Sink;

typedef struct Rows {
  Writer *w;
  Stream *s;
  Online online;
  const IndexVar *k_row; /* s->k, down the rows of a tile */
  int m_block, k_block, tile_count;
} Rows;

static int64_t power_from(int64_t least, const Size *s, int64_t most) {
  int64_t n, b = least;
  if (!size_is_int(s, &n)) return most;
  while (b < n && b < most) b *= 2;
  return b;
}

static void set_axes(Writer *w, const IndexVar *rows, const IndexVar *columns) {
  w->vars.n = 0;
  vec_push(w->cx->arena, &w->vars, rows);
  vec_push(w->cx->arena, &w->vars, columns);
}

static void define(Writer *w, const IndexVar *v, const char *text) {
  writer_line(w, "%s = %s", v->text, text);
  if (v->mask) writer_line(w, "%s = %s < %s", v->mask, v->text, writer_size(w, v->extent));
}

static bool is_narrow(const Tensor *t) { return dtype_is_float(t->dtype) && dtype_bits(t->dtype) < 32; }

/* ---- operands of tl.dot ------------------------------------------------------------------------------------------ */

/* Where an operand comes from memory as it stands. */
static const Tensor *loaded_from(Writer *w, const Tensor *t, const Index *at, Index *in) {
  memcpy(in, at, sizeof *in * (size_t)t->rank);
  while (!(t->op == GRAPH_INPUT || (w->plan->stored[t->id] && !w->plan->alias[t->id]))) {
    Index next[GRAPH_MAX_RANK];
    if (!graph_is_view(t) || !fuse_view_index(w->g, t, in, next)) return NULL;
    t = t->in[0];
    memcpy(in, next, sizeof *in * (size_t)t->rank);
  }
  return t;
}

/* Whether elements that follow each other along v lie side by side in memory. */
static bool is_contiguous(Writer *w, const Tensor *t, const Index *at, const IndexVar *v) {
  Index in[GRAPH_MAX_RANK];
  t = loaded_from(w, t, at, in);
  if (!t) return false;
  Index place = index_linear(w->g, t->rank, t->size, in);
  for (int i = 0; i < place.n; i++)
    if (place.at[i].var == v && size_is(place.at[i].factor, 1) && size_is(place.at[i].below, 1)) return true;
  return false;
}

/* The value of a tile with rows and columns, of the tensor's own type; 0 where there is no element. */
static const char *operand(Writer *w, Tensor *t, const Index *at, const IndexVar *rows, const IndexVar *columns,
                           const char *shape) {
  Index in[GRAPH_MAX_RANK], both[] = {index_var(w->g, rows), index_var(w->g, columns)};
  set_axes(w, rows, columns);
  map_put(w->tiles->down, rows->text, (void *)rows);
  w->raw = is_narrow(t) && loaded_from(w, t, at, in);
  FuseValue v = writer_value(w, t, at);
  /* rows of the program that are not there are not stored either */
  const char *mask = rows == w->tiles->s->m ? writer_mask(w, &both[1], 0, NULL) : writer_mask(w, &both[0], 1, &both[1]);
  if (v.bits != 3 || v.literal)
    v.text = arena_printf(w->cx->arena, v.literal ? "tl.full(%s, %s, %s)" : "tl.broadcast_to(%s, %s)",
                          v.literal ? shape : v.text, v.literal ? v.text : shape, triton_compute_type(t->dtype));
  if (mask && (!v.loaded || v.bits != 3)) /* a load has the masks of the axes along which it goes */
    v.text = arena_printf(w->cx->arena, "tl.where(%s, %s, 0.0)", mask, v.text);
  if (is_narrow(t) && !w->raw) v.text = arena_printf(w->cx->arena, "(%s).to(%s)", v.text, triton_type(t->dtype));
  w->raw = false;
  return v.text;
}

/* The same variable with its values down the rows. */
static const IndexVar *row_of(Writer *w, const IndexVar *v) {
  IndexVar *r = NEW(w->cx->arena, IndexVar);
  *r = *v;
  r->text = arena_printf(w->cx->arena, "%s_row", v->text);
  if (v->mask) r->mask = arena_printf(w->cx->arena, "%s_row_mask", v->text);
  r->bit = 1;
  map_put(w->names, r->text, r);
  if (r->mask) map_put(w->names, r->mask, r);
  return r;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

static const IndexVar *terms_of(const StreamTiles *tiles, const Tensor *t) {
  return stream_axis(tiles->s, t->in[0]->size[t->rank - 1]);
}

/* The operand with the program's rows: [M, D]. */
static const char *rows_operand(Writer *w, const StreamTiles *tiles, Tensor *t, const Index *at, bool straight) {
  const IndexVar *d = terms_of(tiles, t);
  Index in[GRAPH_MAX_RANK];
  memcpy(in, at, sizeof in);
  in[t->rank - (straight ? 2 : 1)] = index_var(w->g, tiles->s->m);
  in[t->rank - (straight ? 1 : 2)] = index_var(w->g, d);
  return operand(w, t->in[!straight], in, tiles->s->m, d,
                 arena_printf(w->cx->arena, "[M, %d]", (int)power_from(16, d->extent, 1 << 20)));
}

static FuseValue tile_at(Writer *w, Tensor *t, const Index *at) {
  const StreamTiles *tiles = w->tiles;
  const IndexVar *k = tiles->s->k, *d = terms_of(tiles, t), *k_row = row_of(w, k), *d_row = row_of(w, d);
  bool straight = !strcmp(index_text(w->g, &at[t->rank - 2]), tiles->s->m->text);
  const char *left = rows_operand(w, tiles, t, at, straight), *right;
  Tensor *x = t->in[straight];
  Index in[GRAPH_MAX_RANK];
  memcpy(in, at, sizeof in);
  int place = t->rank - (straight ? 1 : 2), term = t->rank - (straight ? 2 : 1);
  int size = (int)power_from(16, d->extent, 1 << 20);
  in[place] = index_var(w->g, k_row);
  in[term] = index_var(w->g, d);
  if (is_contiguous(w, x, in, d))
    right = arena_printf(w->cx->arena, "tl.trans(%s)",
                         operand(w, x, in, k_row, d, arena_printf(w->cx->arena, "[K, %d]", size)));
  else {
    in[place] = index_var(w->g, k);
    in[term] = index_var(w->g, d_row);
    right = operand(w, x, in, d_row, k, arena_printf(w->cx->arena, "[%d, K]", size));
  }
  set_axes(w, tiles->s->m, k);
  const char *name = writer_name(w, t->name ? t->name : "tile");
  writer_line(w, "%s = tl.dot(%s, %s, input_precision=\"%s\"%s)", name, left, right,
              fuse_precision(&tiles->s->plan->target, t, IN_STREAM),
              t->dtype == DT_F64 ? ", out_dtype=tl.float64" : "");
  vec_push(w->cx->arena, &w->members, t);
  return (FuseValue){.text = name, .bits = 3};
}

/* What t is made of at an index, each at its own: tiles, and what is loaded. */
static void find_parts(Rows *k, Tensor *t, const Index *at, Map *seen, void (*found)(Rows *, Tensor *, const Index *)) {
  stack_guard();
  Writer *w = k->w;
  Index in[GRAPH_MAX_RANK];
  for (int i = 0; i < k->s->group->n; i++)
    if (k->s->group->roots[i] == t) return;
  Buf key = {.arena = w->cx->arena};
  buf_printf(&key, "%d", t->id);
  for (int d = 0; d < t->rank; d++) buf_printf(&key, ",%s", index_text(w->g, &at[d]));
  if (map_get(seen, key.at)) return;
  map_put(seen, key.at, k);
  bool loaded = t->op == GRAPH_INPUT || (w->plan->stored[t->id] && !w->plan->alias[t->id]);
  if (loaded || w->plan->stream[t->id] == STREAM_TILE) found(k, t, at);
  else if (graph_is_view(t) && fuse_view_index(w->g, t, at, in)) find_parts(k, t->in[0], in, seen, found);
  else if (t->op == GRAPH_POINT)
    for (int i = 0; i < t->in_count; i++) find_parts(k, t->in[i], at, seen, found);
}

static void add_terms(Rows *k, Tensor *t, const Index *at) {
  (void)at;
  if (k->w->plan->stream[t->id] == STREAM_TILE) terms_of(k->w->tiles, t);
}

/* What is the same for all blocks is loaded before the loop. */
static void load_rows(Rows *k, Tensor *t, const Index *at) {
  unsigned bits = 0;
  for (int d = 0; d < t->rank; d++) bits |= index_bits(&at[d]);
  if (k->w->plan->stream[t->id] != STREAM_TILE) {
    set_axes(k->w, k->s->m, k->s->k);
    if (!(bits & k->s->k->bit)) writer_value(k->w, t, at);
    return;
  }
  rows_operand(k->w, k->w->tiles, t, at, !strcmp(index_text(k->w->g, &at[t->rank - 2]), k->s->m->text));
}

static void for_all_parts(Rows *k, void (*found)(Rows *, Tensor *, const Index *)) {
  Index at[GRAPH_MAX_RANK];
  Map *seen = map_create(k->w->cx->arena, true);
  for (int i = 0; i < k->s->group->n; i++) {
    Tensor *t = k->s->group->roots[i];
    if (!stream_is_sink(k->s->plan, t) || !stream_operand_index(k->s, t, at)) continue;
    find_parts(k, stream_operand(k->s->plan, t), at, seen, found);
  }
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static const char *name_of(const Tensor *t) {
  return t->name ? t->name : t->op == GRAPH_PRODUCT ? "acc" : graph_reductions[t->kind];
}

static const char *type_of(const Tensor *t) { return triton_compute_type(t->dtype); }

static void begin(Rows *k, Sink *p) {
  Writer *w = k->w;
  p->acc = writer_name(w, name_of(p->t));
  if (p->t->op == GRAPH_PRODUCT) {
    int64_t block = power_from(16, stream_columns(k->s, p->t)->extent, 1 << 20);
    writer_line(w, "%s = tl.zeros([M, %lld], %s)", p->acc, (long long)block, type_of(p->t));
    return;
  }
  Reduction kind = (Reduction)p->t->kind;
  const char *none = kind == REDUCE_SUM ? "0" : kind == REDUCE_MAX ? "float(\"-inf\")" : "float(\"inf\")";
  writer_line(w, "%s = tl.full([M, 1], %s, %s)", p->acc, none, type_of(p->t));
}

static void step_product(Rows *k, Sink *p, const Index *at, const char *factor) {
  Writer *w = k->w;
  Stream *s = k->s;
  Tensor *t = p->t;
  bool left = s->plan->stream[t->id] == STREAM_LEFT;
  const char *x = operand(w, stream_operand(s->plan, t), at, s->m, s->k, "[M, K]"), *y;
  const IndexVar *n = stream_columns(s, t), *n_row = row_of(w, n);
  Index other[GRAPH_MAX_RANK];
  memcpy(other, at, sizeof other);
  int size = (int)power_from(16, n->extent, 1 << 20), column = t->rank - (left ? 1 : 2), row = t->rank - (left ? 2 : 1);
  other[row] = index_var(w->g, k->k_row);
  other[column] = index_var(w->g, n);
  if (is_contiguous(w, t->in[left], other, k->k_row)) {
    other[row] = index_var(w->g, s->k);
    other[column] = index_var(w->g, n_row);
    y = arena_printf(w->cx->arena, "tl.trans(%s)",
                     operand(w, t->in[left], other, n_row, s->k, arena_printf(w->cx->arena, "[%d, K]", size)));
  } else y = operand(w, t->in[left], other, k->k_row, n, arena_printf(w->cx->arena, "[K, %d]", size));
  set_axes(w, s->m, s->k);
  writer_line(w, "%s = tl.dot(%s, %s, %s%s%s, input_precision=\"%s\"%s)", p->acc, x, y, p->acc, factor ? " * " : "",
              factor ? factor : "", fuse_precision(&s->plan->target, t, OF_TILES),
              t->dtype == DT_F64 ? ", out_dtype=tl.float64" : "");
}

static void step_reduction(Rows *k, Sink *p, const Index *at, const char *factor) {
  Writer *w = k->w;
  Arena *a = w->cx->arena;
  Reduction kind = (Reduction)p->t->kind;
  set_axes(w, k->s->m, k->s->k);
  FuseValue v = writer_value(w, p->t->in[0], at);
  const char *mask = k->s->k->mask, *text = v.text;
  const char *none = kind == REDUCE_SUM ? "0" : kind == REDUCE_MAX ? "float(\"-inf\")" : "float(\"inf\")";
  if (v.literal) text = arena_printf(a, "tl.full([M, K], %s, %s)", text, type_of(p->t));
  else if (v.bits != 3) text = arena_printf(a, "tl.broadcast_to(%s, [M, K])", text);
  if (mask) text = arena_printf(a, "tl.where(%s, %s, %s)", mask, text, none);
  if (kind == REDUCE_SUM) {
    const char *old = factor ? arena_printf(a, "%s * %s", p->acc, factor) : p->acc;
    writer_line(w, "%s = %s + tl.sum(%s, 1)[:, None]", p->acc, old, text);
    return;
  }
  const char *helper = kind == REDUCE_MAX ? "max_nan" : "min_nan";
  fuse_need_helper(w->plan, helper);
  writer_line(w, "%s = %s(%s, tl.reduce(%s, 1, %s)[:, None])", p->acc, helper, p->acc, text, helper);
}

static void step(Rows *k, Sink *p) {
  Index at[GRAPH_MAX_RANK];
  const char *factor = NULL;
  stream_operand_index(k->s, p->t, at);
  set_axes(k->w, k->s->m, k->s->k);
  if (p->law) {
    factor = online_move(&k->online, p->law).factor;
    online_strip(k->w, p->law);
  }
  if (p->t->op == GRAPH_PRODUCT) step_product(k, p, at, factor);
  else step_reduction(k, p, at, factor);
  if (online_needs(&k->online, p->t) && p->t->kind != REDUCE_SUM) online_refer(&k->online, p->t, p->acc);
}

static void end(Rows *k, Sink *p) {
  Writer *w = k->w;
  FuseValue v = {.text = p->acc, .bits = p->t->op == GRAPH_PRODUCT ? 3 : 1};
  if (p->law) {
    const char *factor = online_move(&k->online, p->law).factor;
    if (factor) writer_line(w, "%s = %s * %s", p->acc, p->acc, factor);
    v = online_factors(w, p->law, v, v.bits);
  }
  writer_hold(w, p->t, v);
  vec_push(w->cx->arena, &w->members, p->t);
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* Of scores, and of what is loaded for each of them. */
static void count_tile(Rows *k, Tensor *t, const Index *at) {
  unsigned bits = 0;
  for (int d = 0; d < t->rank; d++) bits |= index_bits(&at[d]);
  k->tile_count += k->w->plan->stream[t->id] == STREAM_TILE || bits == 3;
}

/* Rows that a program keeps, and places that go by: the tiles of a product, its sums and its operands in registers. On
 * a GPU, tensor cores take as much as there is room for: measured (bench/results/h200.md). */
static void choose_blocks(Rows *k, FuseKernel *kernel) {
  int sums = 0;
  int64_t widest = 16, m = 64, n = 64;
  bool wide = false, adds = false; /* by multiply-adds */
  for (int i = 0; i < k->s->group->n; i++) {
    Tensor *t = k->s->group->roots[i];
    if (!stream_is_sink(k->s->plan, t) || t->op != GRAPH_PRODUCT) continue;
    int64_t columns = power_from(16, stream_columns(k->s, t)->extent, 256);
    sums++;
    wide |= dtype_bits(t->dtype) > 16;
    adds |= dtype_bits(t->dtype) > 16 && !strcmp(fuse_precision(&k->s->plan->target, t, OF_TILES), "ieee");
    if (columns > widest) widest = columns;
  }
  for_all_parts(k, count_tile);
  if (wide || widest > 128 || k->s->plan->target.kind == TARGET_CPU) n = 32;
  else if (sums <= 1 || widest <= 64) {
    m = 128;
    n = k->tile_count > 1 ? 64 : 128;
  }
  k->m_block = (int)power_from(16, k->s->rows, m);
  k->k_block = (int)power_from(16, k->s->length, n);
  kernel->num_warps = k->m_block >= 128 || widest > 64 || (adds && widest > 32) ? 8 : 4;
}

static const IndexVar *masked_var(Writer *w, const char *text, const Size *extent, int block, unsigned bit) {
  int64_t n;
  bool whole = size_is_int(extent, &n) && n % block == 0;
  return writer_var(w, text, whole ? NULL : arena_printf(w->cx->arena, "%s_mask", text), extent, bit);
}

static void set_stream(Rows *k, FuseKernel *kernel) {
  Stream *s = k->s;
  for (int i = 0; i < s->group->n && !s->m; i++)
    if (stream_is_sink(s->plan, s->group->roots[i])) stream_space(s, s->group->roots[i]);
  choose_blocks(k, kernel);
  s->batch = writer_var(k->w, "batch", NULL, s->batches, 0);
  s->m = masked_var(k->w, "m", s->rows, k->m_block, 1);
  s->k = masked_var(k->w, "k", s->length, k->k_block, 2);
  k->k_row = row_of(k->w, s->k);
}

static void write_head(Rows *k) {
  Writer *w = k->w;
  Stream *s = k->s;
  define(w, s->m, "tl.program_id(0) * M + tl.arange(0, M)[:, None]");
  if (!size_is(s->batches, 1)) {
    const Size *all = size_mul(w->g, s->batches, size_mul(w->g, s->rows, s->length)); /* no operand is larger */
    writer_line(w, "batch = %s", kernel_program(w, 1, all));
  }
  for_all_parts(k, add_terms);
  for (int i = 0; i < s->d.n; i++) {
    const IndexVar *v = s->d.at[i];
    map_put(w->names, v->text, w);
    if (v->mask) map_put(w->names, v->mask, w);
    int size = (int)power_from(16, v->extent, 1 << 20);
    define(w, v, arena_printf(w->cx->arena, "tl.arange(0, %d)[None, :]", size));
  }
}

/* Of the variables above, those that are used down the rows, too. */
static void write_rows(Rows *k) {
  Writer *w = k->w;
  const StreamTiles *tiles = w->tiles;
  for (int i = 0; i < k->s->d.n; i++) {
    const IndexVar *v = row_of(w, k->s->d.at[i]);
    int size = (int)power_from(16, v->extent, 1 << 20);
    if (map_get(tiles->down, v->text)) define(w, v, arena_printf(w->cx->arena, "tl.arange(0, %d)[:, None]", size));
  }
}

static void write_loop(Rows *k) {
  Writer *w = k->w;
  const char *begin, *end, *length = writer_size(w, k->s->length);
  stream_bounds(k->s, w, &begin, &end);
  if (end) {
    const char *name = writer_name(w, "end");
    writer_line(w, "%s = tl.minimum(%s, %s)", name, end, length);
    length = name;
    buf_puts(&w->notes, "    blocks after those that the mask leaves are not computed: they would change nothing\n");
  }
  if (begin) {
    const char *name = writer_name(w, "begin");
    writer_line(w, "%s = tl.maximum(%s, 0) // K * K", name, begin);
    begin = name;
    buf_puts(&w->notes, "    blocks before those that the mask leaves are not computed: they would change nothing\n");
  }
  writer_line(w, "for start in range(%s, %s, K):", begin ? begin : "0", length);
}

static void store_all(Rows *k) {
  Stream *s = k->s;
  Index at[GRAPH_MAX_RANK];
  for (int i = 0; i < s->group->n; i++) {
    Tensor *t = s->group->roots[i];
    bool sink = stream_is_sink(s->plan, t);
    if (!(sink ? stream_result_index(s, t, at) : stream_root_index(s, t, at)))
      diag_fail(k->w->cx, t->span, "internal error: a kernel's indices");
    bool row = s->plan->stream[t->id] == STREAM_REDUCE;
    set_axes(k->w, s->m, row || !s->d.n ? s->m : s->d.at[0]);
    FuseValue v = writer_value(k->w, t, at);
    if (s->plan->stored[t->id]) writer_store(k->w, t, at, v);
  }
}

FuseKernel *kernel_stream(FusePlan *p, const FuseGroup *group) {
  Graph *g = p->g;
  Stream stream = {.g = g, .plan = p, .root = p->stored, .group = group}, *s = &stream;
  Rows rows = {.w = writer_create(p, group, fuse_kernel_name(p, group)), .s = s}, *k = &rows;
  Writer *w = k->w;
  StreamTiles tiles = {.s = s, .down = map_create(g->cx->arena, true)};
  LawSearch live = {.g = g, .plan = p, .group = group};
  VEC(Sink) sinks = {0};
  w->tiles = &tiles;
  w->tile_at = tile_at;
  set_stream(k, w->kernel);
  k->online = (Online){.w = w, .shape = "[M, 1]", .bits = 1};
  for (int i = 0; i < group->n; i++) {
    Tensor *t = group->roots[i];
    if (!stream_is_sink(p, t)) continue;
    Sink sink = {.t = t, .law = stream_law(s, t)};
    if (p->stream[t->id] == STREAM_REDUCE) live.live[live.live_count++] = t;
    if (t->op == GRAPH_PRODUCT) stream_columns(s, t);
    vec_push(g->cx->arena, &sinks, sink);
    if (sink.law)
      buf_printf(&w->notes, "    %s is computed in one loop with what it depends on: %s\n", name_of(t),
                 law_text(g, sink.law, REDUCE_SUM));
  }
  write_head(k);
  Buf head = w->body;
  w->body = (Buf){.arena = g->cx->arena};
  for_all_parts(k, load_rows);
  for (int i = 0; i < sinks.n; i++)
    if (sinks.at[i].law) online_add(&k->online, &live, sinks.at[i].law);
  for (int i = 0; i < sinks.n; i++) begin(k, &sinks.at[i]);
  online_start(&k->online);
  write_loop(k);
  Map *outside = writer_enter(w);
  define(w, s->k, "start + tl.arange(0, K)[None, :]");
  define(w, k->k_row, "start + tl.arange(0, K)[:, None]");
  for (int i = 0; i < sinks.n; i++) step(k, &sinks.at[i]);
  online_carry(&k->online);
  writer_leave(w, outside);
  online_end(&k->online);
  for (int i = 0; i < sinks.n; i++) end(k, &sinks.at[i]);
  store_all(k);
  Buf body = w->body;
  w->body = head;
  write_rows(k);
  buf_write(&w->body, body.at, body.n);
  w->kernel->grid[0] = s->rows;
  w->kernel->block[0] = k->m_block;
  w->kernel->grid[1] = s->batches;
  w->kernel->block[1] = 1;
  writer_constant(w, "M", k->m_block);
  writer_constant(w, "K", k->k_block);
  return writer_finish(w);
}
