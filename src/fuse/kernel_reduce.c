/* Reductions, several over one space together, with what stands before and after them.
 *
 * The space is that of the operand: its kept dims are counted by x, its reduced ones by r. Short rows are held whole: a
 * tile [X, R], each element loaded once. Long ones go by in loops, in which each place of the tile has a result of its
 * own until the end. A reduction whose operand depends on another one's result is computed in the same loop where there
 * is a law for it (law.c), else in a later one. The last loop stores what has the operand's shape; it goes backwards,
 * for what the loop before it has read last is in the cache.
 *
 *     for start in range(0, 100000, R):
 *         r = start + tl.arange(0, R)[None, :]
 *         ...
 *         total = total + tl.where(mask, v, 0)
 *     sum = tl.sum(total, 1)[:, None]
 *
 * On a CPU a row whose places come by dividing r (the channels of a group) goes by in parts, in which nothing is
 * divided; each reduction then has a loop of its own:
 *
 *     for part in range(0, 4):
 *         for start in range(0, 25000, R):
 *             r = start + tl.arange(0, R)[None, :]
 *
 * There long rows that lie side by side, as columns, are the tile's last axis: a program reads long pieces of memory,
 * and its sums are neighbours as its elements are.
 *
 *     x = tl.program_id(0) * X + tl.arange(0, X)[None, :]
 *     for start in range(0, 100000, R):
 *         r = start + tl.arange(0, R)[:, None]
 *         ...
 *         total = total + tl.sum(v, 0)[None, :] */
#include "fuse/fuse.h"

/* Elements of a program, and of a block of a longer row with several sums; of one with one sum; and of a warp.
 * Programs that keep a processor busy. */
enum { TILE = 4096, BLOCK = 16384, WARP = 1024, PROGRAMS = 512, PART = 2048, LEAST_PART = 16, LEAST_PARTED = 256 };
enum { LEAST_BLOCK = 512 };
/* Of a turned tile: rows, and places that are added up before they go to a row's sum, which so is more exact. */
enum { LEAST_COLUMNS = 32, COLUMNS = 1024, BEFORE = 16, SECTION = 256, CACHED_COLUMNS = 256, CACHE = 1 << 19 };

typedef struct Rows {
  Writer *w;
  const FuseGroup *group;
  const IndexVar *x, *r;
  const IndexVar *part;  /* NULL: r counts all of a row; else a place of one of these parts */
  const IndexVar *outer; /* NULL: x counts all rows; else those of one of these, after the reduced dims */
  const Tensor *space;   /* the operand */
  bool reduced[GRAPH_MAX_RANK];
  Index at[GRAPH_MAX_RANK];        /* of an element of the space */
  bool held, inner;                /* inner: neighbours in memory are of one row */
  bool turned;                     /* rows are the tile's last axis, and places its first */
  int x_block, r_block, num_warps; /* num_warps: 0: as r_block says */
  Map *levels, *laws;              /* Tensor -> its level + 1, Law */
  const char *length;              /* of a row */
} Rows;

static const char *tile(const Rows *k) { return k->turned ? "[R, X]" : "[X, R]"; }
static const char *one_each(const Rows *k) { return k->turned ? "[1, X]" : "[X, 1]"; } /* row */
/* How an array of rows, or of places, becomes a tile. */
static const char *as_rows(const Rows *k) { return k->turned ? "[None, :]" : "[:, None]"; }
static const char *as_places(const Rows *k) { return k->turned ? "[:, None]" : "[None, :]"; }
static int along(const Rows *k) { return k->turned ? 0 : 1; } /* which axis is reduced */

static const struct {
  const char *start_float, *helper;
} kinds[REDUCE_COUNT] = {[REDUCE_SUM] = {"0", NULL},
                         [REDUCE_PROD] = {"1", "multiply"},
                         [REDUCE_MAX] = {"float(\"-inf\")", "max_nan"},
                         [REDUCE_MIN] = {"float(\"inf\")", "min_nan"},
                         [REDUCE_ARGMAX] = {"float(\"-inf\")", "first_max"},
                         [REDUCE_ARGMIN] = {"float(\"inf\")", "first_min"}};

const char *fuse_neutral(Context *cx, Reduction kind, Dtype t) {
  bool most = kind == REDUCE_MAX || kind == REDUCE_ARGMAX;
  if (kind == REDUCE_SUM || kind == REDUCE_PROD || dtype_is_float(t)) return kinds[kind].start_float;
  if (t == DT_I1) return most ? "0" : "1";
  int bits = dtype_bits(t);
  if (!dtype_is_signed(t)) return most ? "0" : arena_printf(cx->arena, "%llu", bits == 64 ? ~0ull : (1ull << bits) - 1);
  int64_t high = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - 1)) - 1;
  return arena_printf(cx->arena, "%lld", (long long)(most ? -high - 1 : high));
}

static bool is_arg(const Tensor *t) { return t->kind == REDUCE_ARGMAX || t->kind == REDUCE_ARGMIN; }

static void element(Rows *k, const Tensor *t, Index *at);

static bool is_own(const Rows *k, const Tensor *t) {
  for (int i = 0; i < k->group->n; i++)
    if (k->group->roots[i] == t) return true;
  return false;
}

static const char *name_of(const Tensor *t) { return t->name ? t->name : graph_reductions[t->kind]; }

/* On a CPU a second loop over a short row reads no memory, and three sums in place of one cost more. */
static bool stays_in_cache(const Rows *k, const Tensor *t) {
  int64_t n;
  return k->w->plan->target.kind == TARGET_CPU && size_is_int(k->r->extent, &n) &&
         n * dtype_bytes(t->in[0]->dtype) <= CACHE;
}

/* Nor does one over so many rows side by side. */
static bool tile_stays_in_cache(const Rows *k, int64_t rows) {
  int64_t n;
  return k->turned && size_is_int(k->r->extent, &n) && n <= CACHE / (rows * dtype_bytes(k->space->dtype));
}

/* The law by which t joins the loop of the reductions of that level; NULL: it has a loop of its own. */
static const Law *law_of(Rows *k, Tensor *t, int level) {
  Writer *w = k->w;
  if (k->held || k->part || !level) return NULL;
  LawSearch search = {.g = w->g, .plan = w->plan, .group = k->group, .bit = k->r->bit};
  Index at[GRAPH_MAX_RANK];
  Buf with = {.arena = w->cx->arena};
  for (int i = 0; i < k->group->n && k->group->roots[i] != t; i++) {
    Tensor *other = k->group->roots[i];
    if (other->op != GRAPH_REDUCE || (int)(intptr_t)map_get(k->levels, other) - 1 != level) continue;
    search.corrected[search.live_count] = map_get(k->laws, other) != NULL;
    search.live[search.live_count++] = other;
  }
  element(k, t, at);
  const Law *law = law_find(&search, t->in[0], (Reduction)t->kind, at);
  for (int i = 0; i < search.live_count; i++)
    if (law_depends(&search, t->in[0], search.live[i]))
      buf_printf(&with, "%s%s", with.n ? ", " : "", name_of(search.live[i]));
  const char *name = name_of(t);
  if (!law->why && ((law->shifts == 2 && stays_in_cache(k, t)) || tile_stays_in_cache(k, k->x_block))) {
    Law *none = NEW(w->cx->arena, Law);
    none->why = "the row stays in a processor's cache, where another loop costs less than its sums";
    law = none;
  }
  if (w->plan->no_online) buf_printf(&w->notes, "    %s has a loop of its own: online reductions are off\n", name);
  else if (law->why) buf_printf(&w->notes, "    %s has a loop of its own: %s\n", name, law->why);
  else
    buf_printf(&w->notes, "    %s is computed in one loop with %s: %s\n", name, with.at,
               law_text(w->g, law, (Reduction)t->kind));
  return w->plan->no_online || law->why ? NULL : law;
}

/* In which loop a tensor's value is there: one after those of all reductions of this kernel that it needs. */
static int level(Rows *k, Tensor *t) {
  stack_guard();
  void *have = map_get(k->levels, t);
  if (have) return (int)(intptr_t)have - 1;
  int most = 0;
  bool own = is_own(k, t);
  if (own || (t->op != GRAPH_INPUT && (!k->w->plan->stored[t->id] || k->w->plan->alias[t->id])))
    for (int i = 0; i < t->in_count; i++) {
      int l = level(k, t->in[i]);
      if (l > most) most = l;
    }
  if (own && t->op == GRAPH_REDUCE) {
    const Law *law = law_of(k, t, most);
    map_put(k->laws, t, (void *)law);
    most += !law;
  }
  map_put(k->levels, t, (void *)(intptr_t)(most + 1));
  return most;
}

typedef struct Pending { /* a reduction on its way */
  Tensor *t;
  const Law *law;            /* NULL: it depends on no other one of this loop */
  const char *acc, *index;   /* accumulators; index: of argmax */
  const char *whole;         /* where acc is a section's: the row's */
  const char *linear, *sum;  /* of a law with shifts: of weight * shift, of the weight */
  bool is_reference, is_row; /* a law moves by it; its accumulator is one number a row */
  bool is_wide;              /* of f64: sums of blocks, which so have no roundings of their own */
  FuseValue value;
} Pending;

static const char *accumulator_type(const Tensor *t) {
  Dtype d = t->in[0]->dtype;
  return d == DT_I1 ? "tl.int32" : triton_compute_type(d);
}

/* The value of each element of the tile, and what changes nothing where there is none. */
static const char *masked_value(Rows *k, const Tensor *t, FuseValue v) {
  Writer *w = k->w;
  const char *mask = k->r->mask, *text = v.text;
  if (t->in[0]->dtype == DT_I1) text = arena_printf(w->cx->arena, "(%s).to(tl.int32)", text);
  if (v.literal) text = arena_printf(w->cx->arena, "tl.full(%s, %s, %s)", tile(k), v.text, accumulator_type(t));
  const char *none = fuse_neutral(w->cx, (Reduction)t->kind, t->in[0]->dtype);
  if (mask) text = arena_printf(w->cx->arena, "tl.where(%s, %s, %s)", mask, text, none);
  return (v.bits & 3) == 3 || v.literal ? text : arena_printf(w->cx->arena, "tl.broadcast_to(%s, %s)", text, tile(k));
}

static const char *masked(Rows *k, const Pending *p) { return masked_value(k, p->t, p->value); }

static const char *begin_as(Rows *k, const Tensor *t, const char *name, const char *shape, const char *type) {
  Writer *w = k->w;
  name = writer_name(w, name);
  writer_line(w, "%s = tl.full(%s, %s, %s)", name, shape, fuse_neutral(w->cx, (Reduction)t->kind, t->in[0]->dtype),
              type);
  return name;
}

static const char *begin_one(Rows *k, const Tensor *t, const char *name, const char *shape) {
  return begin_as(k, t, name, shape, accumulator_type(t));
}

/* What the row's first block says of a sum of all of it. */
static void estimate(Rows *k, const Pending *p) {
  Writer *w = k->w;
  Index at[GRAPH_MAX_RANK];
  int64_t n;
  Map *outside = writer_enter(w);
  w->indent--;
  writer_line(w, "r = tl.arange(0, R)%s", as_places(k));
  if (k->r->mask) writer_line(w, "r_mask = r < %s", k->length);
  element(k, p->t, at);
  FuseValue v = writer_value(w, p->t->in[0], at);
  const char *name = writer_name(w, arena_printf(w->cx->arena, "%s_guess", name_of(p->t)));
  bool whole = size_is_int(k->r->extent, &n) && n >= k->r_block;
  writer_line(w, "%s = tl.sum(%s, %d)%s * %s%s / R%s", name, masked_value(k, p->t, v), along(k), as_rows(k),
              whole ? "(" : "tl.maximum(", k->length, whole ? ")" : ", 1)");
  w->indent++;
  writer_leave(w, outside);
  writer_hold(w, p->t, (FuseValue){.text = name, .bits = 1});
}

/* On a CPU the elements of a long block are added up in registers, where a tile of sums would be read and written for
 * each block. */
static bool adds_up_blocks(const Rows *k, const Pending *p) {
  if (k->w->plan->target.kind != TARGET_CPU || !k->inner || k->r_block < LEAST_BLOCK || is_arg(p->t)) return false;
  return p->law ? !p->law->shifts && !p->is_reference : !p->is_reference || p->t->kind != REDUCE_SUM;
}

static void begin(Rows *k, const Online *o, Pending *p) {
  Writer *w = k->w;
  if (k->held) return;
  const char *name = name_of(p->t), *parts = arena_printf(w->cx->arena, "%s_parts", name);
  p->is_reference = online_needs(o, p->t);
  bool blocks = adds_up_blocks(k, p);
  p->is_row = (p->is_reference && p->t->kind != REDUCE_SUM) || (k->turned && !p->law && !is_arg(p->t)) || blocks;
  p->is_wide = blocks && p->t->kind == REDUCE_SUM && dtype_is_float(p->t->dtype) && dtype_bits(p->t->dtype) <= 32;
  p->acc = begin_as(k, p->t, p->is_row ? name : parts, p->is_row ? one_each(k) : tile(k),
                    p->is_wide ? "tl.float64" : accumulator_type(p->t));
  if (p->is_reference && !p->is_row) estimate(k, p);
  bool sum = p->law && p->law->shifts && p->t->kind == REDUCE_SUM;
  if (sum && p->law->shifts == 2) p->linear = begin_one(k, p->t, "linear_parts", tile(k));
  if (sum && (p->law->weight || p->law->only)) p->sum = begin_one(k, p->t, "weight_parts", tile(k));
  if (!is_arg(p->t)) return;
  p->index = writer_name(w, arena_printf(w->cx->arena, "%s_at", name));
  writer_line(w, "%s = tl.full(%s, 0x7FFFFFFF, tl.int32)", p->index, tile(k));
}

static const char *combine(Rows *k, const Pending *p, const char *a, const char *b) {
  Context *cx = k->w->cx;
  switch ((Reduction)p->t->kind) {
    case REDUCE_SUM: return arena_printf(cx->arena, "%s + %s", a, b);
    case REDUCE_PROD: return arena_printf(cx->arena, "%s * %s", a, b);
    default: return arena_printf(cx->arena, "%s(%s, %s)", kinds[p->t->kind].helper, a, b);
  }
}

/* Of a row among all of them. */
static Index row_index(const Rows *k) {
  Graph *g = k->w->g;
  Index x = index_var(g, k->x);
  return k->outer ? index_add(g, index_scale(g, index_var(g, k->outer), k->x->extent), x) : x;
}

static Index place_in_row(const Rows *k) {
  Graph *g = k->w->g;
  Index r = index_var(g, k->r);
  return k->part ? index_add(g, index_scale(g, index_var(g, k->part), k->r->extent), r) : r;
}

/* The index of an element of a reduction's operand: its row is x, its place there r. */
static void element(Rows *k, const Tensor *t, Index *at) {
  const Tensor *in = t->in[0];
  Index in_row[GRAPH_MAX_RANK];
  bool skip[2][GRAPH_MAX_RANK] = {{false}, {false}};
  for (int d = 0; d < in->rank; d++) skip[1][d] = true;
  for (int i = 0; i < t->dim_count; i++) {
    skip[0][t->dims[i]] = true;
    skip[1][t->dims[i]] = false;
  }
  writer_split(k->w, row_index(k), in->rank, in->size, skip[0], at);
  writer_split(k->w, place_in_row(k), in->rank, in->size, skip[1], in_row);
  for (int d = 0; d < in->rank; d++)
    if (skip[0][d]) at[d] = in_row[d];
}

/* ---- corrections (law.c) ----------------------------------------------------------------------------------------- */

/* What a sum was becomes what it would have been; count: of the elements in it. */
static const char *moved(Rows *k, const Pending *p, OnlineMove m, const char *count) {
  Arena *a = k->w->cx->arena;
  const char *text = p->acc;
  if (p->t->kind != REDUCE_SUM) return m.shift ? arena_printf(a, "%s + %s", text, m.shift) : text;
  const char *n = p->sum ? p->sum : count;
  if (m.shift && p->law->shifts == 1) text = arena_printf(a, "(%s + %s * %s)", text, m.shift, n);
  if (m.shift && p->law->shifts == 2)
    text = arena_printf(a, "(%s + %s * (2 * %s + %s * %s))", text, m.shift, p->linear, m.shift, n);
  return m.factor ? arena_printf(a, "%s * %s", text, m.factor) : text;
}

/* A tile's rows. */
static const char *reduced(Rows *k, const Pending *p, const char *text) {
  Arena *a = k->w->cx->arena;
  const char *helper = kinds[p->t->kind].helper;
  if (!helper) return arena_printf(a, "tl.sum(%s, %d)%s", text, along(k), as_rows(k));
  return arena_printf(a, "tl.reduce(%s, %d, %s)%s", text, along(k), helper, as_rows(k));
}

static void step_online(Rows *k, Online *o, Pending *p, const Index *at) {
  Writer *w = k->w;
  Arena *a = w->cx->arena;
  const Law *law = p->law;
  OnlineMove m = online_move(o, law);
  online_strip(w, law);
  p->value = writer_value(w, p->t->in[0], at);
  const char *old = moved(k, p, m, "(start // R)"), *now = masked(k, p);
  writer_line(w, "%s = %s", p->acc, combine(k, p, old, p->is_row && !p->is_reference ? reduced(k, p, now) : now));
  if (!p->linear && !p->sum) return;
  const char *grow = m.factor ? arena_printf(a, " * %s", m.factor) : "", *n = p->sum ? p->sum : "(start // R)";
  FuseValue weight = {.text = "1", .literal = true};
  if (law->weight) weight = writer_value(w, law->weight, law->weight_at);
  if (law->only) {
    FuseValue only = writer_value(w, law->only, law->only_at);
    const char *one = weight.literal
                          ? arena_printf(a, "tl.full(%s, %s, %s)", tile(k), weight.text, accumulator_type(p->t))
                          : weight.text;
    const char *text = arena_printf(a, law->only_not ? "tl.where(%s, 0, %s)" : "tl.where(%s, %s, 0)", only.text, one);
    weight = (FuseValue){.text = text, .bits = 3};
  }
  if (p->linear) {
    FuseValue part = writer_value(w, law->shift, law->shift_at);
    if (p->sum) part.text = arena_printf(a, "%s * %s", weight.text, part.text);
    const char *old = m.shift ? arena_printf(a, "(%s + %s * %s)", p->linear, m.shift, n) : p->linear;
    writer_line(w, "%s = %s%s + %s", p->linear, old, grow, masked_value(k, p->t, part));
  }
  if (p->sum) writer_line(w, "%s = %s%s + %s", p->sum, p->sum, grow, masked_value(k, p->t, weight));
}

/* All places' results, once their references are what the row's values really are. */
static const char *end_online(Rows *k, Online *o, const Pending *p) {
  Arena *a = k->w->cx->arena;
  OnlineMove m = online_move(o, p->law);
  const char *count = arena_printf(a, "(%s // R)", k->length);
  if (k->r->mask) count = arena_printf(a, "((%s - tl.arange(0, R)%s + R - 1) // R)", k->length, as_places(k));
  return moved(k, p, m, count);
}

/* ---- a reduction's lines ----------------------------------------------------------------------------------------- */

static void step(Rows *k, Online *o, Pending *p) {
  Writer *w = k->w;
  Index at[GRAPH_MAX_RANK];
  element(k, p->t, at);
  if (p->law) step_online(k, o, p, at);
  else p->value = writer_value(w, p->t->in[0], at);
  if (k->held) return;
  if (is_arg(p->t)) {
    const char *here = k->r->mask ? arena_printf(w->cx->arena, "tl.where(%s, r, 0x7FFFFFFF)", k->r->mask) : "r";
    writer_line(w, "%s, %s = %s(%s, %s, %s, tl.broadcast_to(%s, %s))", p->acc, p->index, kinds[p->t->kind].helper,
                p->acc, p->index, masked(k, p), here, tile(k));
  } else if (p->is_row && (!p->law || p->is_reference)) {
    writer_line(w, "%s = %s", p->acc, combine(k, p, p->acc, reduced(k, p, masked(k, p))));
    if (p->is_reference) online_refer(o, p->t, p->acc);
  } else if (!p->law) writer_line(w, "%s = %s", p->acc, combine(k, p, p->acc, masked(k, p)));
}

static void end(Rows *k, Online *o, Pending *p) {
  Writer *w = k->w;
  Tensor *t = p->t;
  const char *helper = kinds[t->kind].helper, *name = p->is_row ? p->acc : writer_name(w, name_of(t));
  const char *in = p->law ? end_online(k, o, p) : k->held ? masked(k, p) : p->acc;
  if (is_arg(t)) {
    const char *here = k->held ? arena_printf(w->cx->arena, "tl.broadcast_to(r, %s)", tile(k)) : p->index;
    writer_line(w, "%s = tl.reduce((%s, %s), %d, %s)[1]%s.to(tl.int64)", name, in, here, along(k), helper, as_rows(k));
  } else if (!p->is_row) writer_line(w, "%s = %s", name, reduced(k, p, in));
  else if (p->is_wide) writer_line(w, "%s = (%s).to(tl.float32)", name, in);
  else if (in != p->acc) writer_line(w, "%s = %s", name, in);
  if (t->dtype == DT_I1) writer_line(w, "%s = %s != 0", name, name);
  if (helper) fuse_need_helper(w->plan, helper);
  FuseValue v = {.text = name, .bits = 1};
  writer_hold(w, t, p->law ? online_factors(w, p->law, v, 1) : v);
  vec_push(w->cx->arena, &w->members, t);
}

/* Whether t has an element for each of the space, and not one for each row. */
static bool has_rows(const Rows *k, const Tensor *t) {
  return t->op != GRAPH_REDUCE && graph_numel(k->w->g, t) == graph_numel(k->w->g, k->space);
}

static void store(Rows *k, Tensor *t) {
  Graph *g = k->w->g;
  Index at[GRAPH_MAX_RANK];
  Index linear = has_rows(k, t) ? index_linear(g, k->space->rank, k->space->size, k->at) : row_index(k);
  if (!fuse_root_index(g, t, linear, at)) diag_fail(g->cx, t->span, "internal error: a root's index");
  FuseValue v = writer_value(k->w, t, at);
  if (k->w->plan->stored[t->id]) writer_store(k->w, t, at, v);
}

static int power_above(int64_t n) {
  int p = 1;
  while (p < n) p *= 2;
  return p;
}

/* Of an element of the arrays that are as large as the space. */
static int least_bits(const Rows *k) {
  const Graph *g = k->w->g;
  int least = 64;
  for (int i = 0; i < k->group->reads.n; i++) {
    const Tensor *t = g->at.at[k->group->reads.at[i]];
    if (graph_numel(k->w->g, t) == graph_numel(k->w->g, k->space) && dtype_bits(t->dtype) < least)
      least = dtype_bits(t->dtype);
  }
  return least;
}

/* How many rows lie side by side, before another place of theirs comes. */
static int64_t columns(const Rows *k) {
  int64_t run = 1, n;
  for (int d = k->space->rank - 1; d >= 0 && !k->reduced[d]; d--)
    if (__builtin_mul_overflow(run, size_is_int(k->space->size[d], &n) ? n : 1 << 20, &run)) return INT64_MAX;
  return run;
}

/* Of these a program takes, on a CPU, as many as `most`, and so few that each processor has some. */
static void take_columns(Rows *k, int64_t rows, int64_t run, int64_t most) {
  int64_t each = rows / k->w->plan->target.processors;
  for (k->x_block = LEAST_COLUMNS; 2 * k->x_block <= most && 2 * k->x_block <= each && 2 * k->x_block <= run;) {
    if (k->x_block >= CACHED_COLUMNS && !tile_stays_in_cache(k, 2 * k->x_block) && tile_stays_in_cache(k, k->x_block))
      break;
    k->x_block *= 2;
  }
}

/* Whether each reduction adds up what no other one of them moves: a turned tile then has one sum for each row. */
static bool adds(const Rows *k) {
  bool all = true;
  for (int i = 0; i < k->group->n; i++) {
    const Tensor *t = k->group->roots[i];
    all &= t->op != GRAPH_REDUCE || (t->kind == REDUCE_SUM && stays_in_cache(k, t));
  }
  return all;
}

static void choose_blocks(Rows *k) {
  int64_t n = 0, rows = 0;
  bool known = size_is_int(k->r->extent, &n), inner = false;
  if (!size_is_int(k->x->extent, &rows)) rows = 1 << 20;
  for (int d = k->space->rank - 1, found = 0; d >= 0 && !found; d--)
    if (!size_is(k->space->size[d], 1)) {
      inner = k->reduced[d];
      found = 1;
    }
  k->inner = inner;
  k->held = known && n <= FUSE_HELD;
  int sums = 0;
  for (int i = 0; i < k->group->n; i++)
    sums += k->group->roots[i]->op == GRAPH_REDUCE && k->group->roots[i]->kind != REDUCE_MAX;
  k->r_block = k->held ? power_above(n) : inner ? (sums > 1 ? TILE : BLOCK) : 64;
  if (!k->held && inner && sums > 1 && k->w->plan->target.kind == TARGET_GPU)
    k->num_warps = 8; /* 16 places a thread: the sums are in registers, with what they are made of */
  if (!known) k->r_block = inner ? 2048 : 64;
  if (!k->held && inner && k->w->plan->target.kind == TARGET_CPU)
    k->r_block = PART; /* its sums stay in the first cache */
  k->x_block = k->held && k->r_block < TILE ? TILE / k->r_block : inner || k->held ? 1 : 32;
  if (k->x_block > 64) k->x_block = 64;
  bool gpu = k->w->plan->target.kind == TARGET_GPU, halves = gpu && least_bits(k) < 32;
  int64_t run = inner ? 0 : columns(k);
  k->turned = k->w->plan->target.kind == TARGET_CPU && !inner && (run >= LEAST_COLUMNS || run == rows);
  if (!inner && (!k->held || k->x_block < 32 ||
                 (k->turned && k->r_block > BEFORE))) { /* neighbours in memory are rows: many of them side by side */
    k->held = false;
    k->x_block = (rows < 64 * PROGRAMS ? 32 : gpu ? 64 : 128) << halves; /* 128 bytes in a row at least */
    if (k->turned) take_columns(k, rows, run, COLUMNS);
    k->r_block = k->turned && adds(k) ? BEFORE : TILE / k->x_block;
    k->num_warps = gpu ? 8 : 0; /* 16 places a thread: as many loads, where a load brings one */
  } else if (k->turned) take_columns(k, rows, run, TILE / k->r_block);
  while (k->x_block > 1 && k->x_block / 2 >= rows) k->x_block /= 2;
  while (inner && k->held && k->x_block > 1 && rows / k->x_block < 64)
    k->x_block /= 2; /* programs for all processors */
}

/* So many rows a program, as long as all processors have some. */
static int side_by_side(const Rows *k, int most) {
  int64_t rows;
  int n = 1;
  if (size_is_int(k->x->extent, &rows))
    while (2 * n <= most && rows / (2 * n) >= 64) n *= 2;
  return n;
}

static bool is_reduction(const Tensor *t) { return t->op == GRAPH_REDUCE; }

static void begin_all(Rows *k, Online *o, Pending *pending, int n) {
  LawSearch live = {.g = k->w->g, .plan = k->w->plan, .group = k->group};
  for (int i = 0; i < n; i++) live.live[live.live_count++] = pending[i].t;
  for (int i = 0; i < n; i++)
    if (pending[i].law) online_add(o, &live, pending[i].law);
  for (int i = 0; i < n; i++) begin(k, o, &pending[i]);
  online_start(o);
}

/* What there is one of for each row, of that level. */
static void store_rows(Rows *k, int l) {
  for (int i = 0; i < k->group->n; i++) {
    Tensor *t = k->group->roots[i];
    if ((is_reduction(t) || !has_rows(k, t)) && level(k, t) - is_reduction(t) == l) store(k, t);
  }
}

/* A CPU may load again, for the next reduction of a row that is held, what it has loaded, but not after a store. */
static bool stores_late(const Rows *k) { return k->held && k->w->plan->target.kind == TARGET_CPU; }

/* How many places are added up by themselves before they go to the sum of a long row, which so has few roundings; 0:
 * the row is short, or what it comes to is no sum of columns. */
static int64_t section(const Rows *k, int n, const Pending *pending) {
  int64_t length, places = SECTION;
  if (!k->turned || k->held || k->r_block != BEFORE || !n) return 0;
  for (int i = 0; i < n; i++)
    if (pending[i].law || pending[i].is_reference || pending[i].t->kind != REDUCE_SUM) return 0;
  if (!size_is_int(k->r->extent, &length)) return places;
  if (length <= 2 * places) return 0;
  while (places * places < 8 * length) places *= 2;
  return places;
}

static void begin_section(Rows *k, int n, Pending *pending, int64_t places) {
  Writer *w = k->w;
  int64_t length;
  bool even = size_is_int(k->r->extent, &length) && length % places == 0;
  writer_line(w, "for first in range(0, %s, %lld):", k->length, (long long)places);
  w->indent++;
  for (int i = 0; i < n; i++) {
    pending[i].whole = pending[i].acc;
    pending[i].acc =
        begin_one(k, pending[i].t, arena_printf(w->cx->arena, "%s_section", name_of(pending[i].t)), one_each(k));
  }
  writer_line(w,
              even ? "for start in range(first, first + %lld, R):"
                   : "for start in range(first, tl.minimum(first + %lld, %s), R):",
              (long long)places, k->length);
}

static void end_section(Rows *k, int n, Pending *pending) {
  for (int i = 0; i < n; i++) {
    writer_line(k->w, "%s = %s + %s", pending[i].whole, pending[i].whole, pending[i].acc);
    pending[i].acc = pending[i].whole;
  }
  k->w->indent--;
}

/* One loop: reductions, and what is stored for each element. */
static void write_level(Rows *k, int l) {
  Writer *w = k->w;
  const FuseGroup *group = k->group;
  Online online = {.w = w, .shape = one_each(k), .bits = 1}, *o = &online;
  VEC(Pending) pending = {0};
  bool any = false;
  for (int i = 0; i < group->n; i++) {
    Tensor *t = group->roots[i];
    if (level(k, t) - is_reduction(t) != l) continue;
    if (is_reduction(t)) vec_push(w->cx->arena, &pending, (Pending){.t = t, .law = map_get(k->laws, t)});
    any |= is_reduction(t) || has_rows(k, t);
  }
  begin_all(k, o, pending.at, pending.n);
  Map *outside = NULL, *around = NULL;
  int64_t places = section(k, pending.n, pending.at);
  if (any && !k->held) {
    if (k->part) {
      const char *parts = writer_size(w, k->part->extent);
      writer_line(w, pending.n ? "for part in range(0, %s):" : "for part in range(%s - 1, -1, -1):", parts);
      around = writer_enter(w);
    }
    const char *length = k->part ? writer_size(w, k->r->extent) : k->length;
    if (places) begin_section(k, pending.n, pending.at, places);
    else if (pending.n) writer_line(w, "for start in range(0, %s, R):", length);
    else writer_line(w, "for start in range((%s - 1) // R * R, -1, -R):", length);
    w->last_use = !pending.n;
    outside = writer_enter(w);
    writer_line(w, "r = start + tl.arange(0, R)%s", as_places(k));
    if (k->r->mask) writer_line(w, "r_mask = r < %s", length);
  }
  for (int i = 0; i < pending.n; i++) step(k, o, &pending.at[i]);
  for (int i = 0; i < group->n; i++) {
    Tensor *t = group->roots[i];
    if (!is_reduction(t) && level(k, t) == l && has_rows(k, t)) store(k, t);
  }
  if (outside) {
    online_carry(o);
    writer_leave(w, outside);
    if (places) end_section(k, pending.n, pending.at);
    if (around) writer_leave(w, around);
    w->last_use = false;
  }
  online_end(o);
  for (int i = 0; i < pending.n; i++) end(k, o, &pending.at[i]);
  if (!stores_late(k)) store_rows(k, l);
}

/* Where dims after the reduced ones are kept, neighbours in memory are counted on their own. How many such runs there
 * are, and *inner of each; NULL: x counts all. */
static const Size *outer_rows(const Rows *k, const Size **inner) {
  Graph *g = k->w->g;
  const Size *run = size_int(g, 1), *all = size_int(g, 1);
  int64_t n;
  bool after = true;
  for (int d = k->space->rank - 1; d >= 0; d--) {
    after &= !k->reduced[d];
    if (after) run = size_mul(g, run, k->space->size[d]);
    else if (!k->reduced[d]) all = size_mul(g, all, k->space->size[d]);
  }
  if (k->x_block < 32 || size_is(all, 1) || !size_is_int(run, &n) || n < k->x_block) return NULL;
  *inner = run;
  return all;
}

/* run: how many places of a row stand together, in parts of which the row then goes by; 0: all of it. *found: how many
 * do where that is 0. */
static FuseKernel *reduce(FusePlan *p, const FuseGroup *group, const char *name, int64_t run, int64_t *found) {
  Graph *g = p->g;
  Rows rows = {.group = group, .space = group->space->in[0]}, *k = &rows;
  Writer *w = k->w = writer_create(p, group, name);
  w->run_bit = 2;
  const Tensor *space = k->space;
  const Size *n[2] = {size_int(g, 1), size_int(g, 1)};
  for (int i = 0; i < group->space->dim_count; i++) k->reduced[group->space->dims[i]] = true;
  for (int d = 0; d < space->rank; d++) n[k->reduced[d]] = size_mul(g, n[k->reduced[d]], space->size[d]);
  IndexVar x = {.extent = n[0]}, r = {.extent = n[1]};
  k->x = &x;
  k->r = &r;
  choose_blocks(k);
  const Size *outer = outer_rows(k, &n[0]), *all_of_row = n[1];
  int64_t length, count;
  if (run) {
    k->held = false;
    k->r_block = power_above(run) < PART ? power_above(run) : PART;
    k->x_block = side_by_side(k, PART / k->r_block);
    k->part = writer_var(w, "part", NULL, size_divide(g, n[1], size_int(g, run)), 0);
    n[1] = size_int(g, run);
  }
  bool whole = size_is_int(n[1], &length) && length % k->r_block == 0;
  bool all = size_is_int(n[0], &count) && count % k->x_block == 0;
  k->x = writer_var(w, "x", all ? NULL : "x_mask", n[0], 1);
  k->r = writer_var(w, "r", whole ? NULL : "r_mask", n[1], 2);
  if (outer) k->outer = writer_var(w, "outer", NULL, outer, 0);
  element(k, group->space, k->at);
  const char *program = kernel_program(w, 0, n[0]);
  if (outer) {
    writer_line(w, "outer = %s // tl.cdiv(%s, X)", program, writer_size(w, n[0]));
    program = arena_printf(g->cx->arena, "%s %% tl.cdiv(%s, X)", program, writer_size(w, n[0]));
    w->kernel->grid[1] = outer;
    w->kernel->block[1] = 1;
    w->kernel->flat = true;
  }
  writer_line(w, "x = %s * X + tl.arange(0, X)%s", program, as_rows(k));
  if (!all) writer_line(w, "x_mask = x < %s", writer_size(w, n[0]));
  if (k->held) {
    writer_line(w, "r = tl.arange(0, R)%s", as_places(k));
    if (!whole) writer_line(w, "r_mask = r < %s", writer_size(w, n[1]));
  }
  k->levels = map_create(w->cx->arena, false);
  k->laws = map_create(w->cx->arena, false);
  k->length = writer_size(w, all_of_row);
  int last = 0;
  for (int i = 0; i < group->n; i++) {
    int l = level(k, group->roots[i]) - (group->roots[i]->op == GRAPH_REDUCE);
    if (l > last) last = l;
  }
  for (int l = 0; l <= last; l++) write_level(k, l);
  for (int l = 0; l <= last && stores_late(k); l++) store_rows(k, l);
  w->kernel->num_warps = k->r_block > TILE ? k->r_block / WARP : k->num_warps;
  w->kernel->grid[0] = n[0];
  w->kernel->block[0] = k->x_block;
  writer_constant(w, "X", k->x_block);
  writer_constant(w, "R", k->r_block);
  *found = p->target.kind == TARGET_CPU && k->inner ? w->run : 0;
  return writer_finish(w);
}

/* Whether a place of a row, as a part and a place in it, is one in each of the dims that the reduction has. */
static bool goes_by_parts(Graph *g, const Tensor *t, int64_t length, int64_t run) {
  const IndexVar part = {.text = "part", .extent = size_int(g, length / run)},
                 r = {.text = "r", .extent = size_int(g, run)};
  bool skip[GRAPH_MAX_RANK];
  Index at[GRAPH_MAX_RANK];
  for (int d = 0; d < t->in[0]->rank; d++) skip[d] = true;
  for (int i = 0; i < t->dim_count; i++) skip[t->dims[i]] = false;
  Index place = index_add(g, index_scale(g, index_var(g, &part), r.extent), index_var(g, &r));
  return index_split(g, place, t->in[0]->rank, t->in[0]->size, skip, at);
}

FuseKernel *kernel_reduce(FusePlan *p, const FuseGroup *group) {
  const char *name = fuse_kernel_name(p, group);
  int64_t run, length = 1, n, none;
  FuseKernel *kernel = reduce(p, group, name, 0, &run);
  for (int i = 0; i < group->space->dim_count; i++) {
    if (!size_is_int(group->space->in[0]->size[group->space->dims[i]], &n)) return kernel;
    length *= n;
  }
  if (run < LEAST_PART || run >= length || length % run || length < LEAST_PARTED) return kernel;
  for (int i = 0; i < group->n; i++) {
    const Tensor *t = group->roots[i];
    if (is_reduction(t) && (is_arg(t) || !goes_by_parts(p->g, t, length, run))) return kernel;
  }
  return reduce(p, group, name, run, &none);
}
