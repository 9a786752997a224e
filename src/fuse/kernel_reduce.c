/* Reductions, several over one space together, with what stands before and after them.
 *
 * The space is that of the operand: its kept dims are counted by x, its reduced ones by r. Short rows are held whole: a
 * tile [X, R], each element loaded once. Long ones go by in loops: a reduction whose operand depends on another one's
 * result is computed in a later loop, and the last one stores what has the operand's shape.
 *
 *     for start in range(0, 100000, R):
 *         r = start + tl.arange(0, R)[None, :]
 *         ...
 *         total = total + tl.where(mask, v, 0)
 *     sum = tl.sum(total, 1)[:, None] */
#include "fuse/fuse.h"

enum { HELD = 4096 }; /* elements of a row that is held */

typedef struct Rows {
  Writer *w;
  const FuseGroup *group;
  const IndexVar *x, *r;
  const Tensor *space; /* the operand */
  bool reduced[GRAPH_MAX_RANK];
  Index at[GRAPH_MAX_RANK]; /* of an element of the space */
  bool held;
  int x_block, r_block;
} Rows;

static const struct {
  const char *start_float, *helper;
} kinds[REDUCE_COUNT] = {[REDUCE_SUM] = {"0", NULL},
                         [REDUCE_PROD] = {"1", "multiply"},
                         [REDUCE_MAX] = {"float(\"-inf\")", "max_nan"},
                         [REDUCE_MIN] = {"float(\"inf\")", "min_nan"},
                         [REDUCE_ARGMAX] = {"float(\"-inf\")", "first_max"},
                         [REDUCE_ARGMIN] = {"float(\"inf\")", "first_min"}};

/* What changes no result. */
static const char *neutral(Context *cx, Reduction kind, Dtype t) {
  bool most = kind == REDUCE_MAX || kind == REDUCE_ARGMAX;
  if (kind == REDUCE_SUM || kind == REDUCE_PROD || dtype_is_float(t)) return kinds[kind].start_float;
  if (t == DT_I1) return most ? "0" : "1";
  int bits = dtype_bits(t);
  if (!dtype_is_signed(t)) return most ? "0" : arena_printf(cx->arena, "%llu", bits == 64 ? ~0ull : (1ull << bits) - 1);
  int64_t high = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - 1)) - 1;
  return arena_printf(cx->arena, "%lld", (long long)(most ? -high - 1 : high));
}

static bool is_arg(const Tensor *t) { return t->attr[0] == REDUCE_ARGMAX || t->attr[0] == REDUCE_ARGMIN; }

/* In which loop a tensor's value is there: one after those of all reductions of this kernel that it needs. */
static int level(const Rows *k, Tensor *t, Map *known) {
  stack_guard();
  void *have = map_get(known, t);
  if (have) return (int)(intptr_t)have - 1;
  int most = 0;
  bool own = false;
  for (int i = 0; i < k->group->n; i++) own |= k->group->roots[i] == t;
  if (own || (t->op != GRAPH_INPUT && (!k->w->plan->stored[t->id] || k->w->plan->alias[t->id])))
    for (int i = 0; i < t->in_count; i++) {
      int l = level(k, t->in[i], known);
      if (l > most) most = l;
    }
  if (own && t->op == GRAPH_REDUCE) most++;
  map_put(known, t, (void *)(intptr_t)(most + 1));
  return most;
}

typedef struct Pending { /* a reduction on its way */
  Tensor *t;
  const char *acc, *index; /* accumulators; index: of argmax */
  FuseValue value;
} Pending;

static const char *accumulator_type(const Tensor *t) {
  Dtype d = t->in[0]->dtype;
  return d == DT_I1 ? "tl.int32" : triton_compute_type(d);
}

static void begin(Rows *k, Pending *p) {
  Writer *w = k->w;
  if (k->held) return;
  const char *name = p->t->name ? p->t->name : graph_reductions[p->t->attr[0]];
  p->acc = writer_name(w, arena_printf(w->cx->arena, "%s_parts", name));
  writer_line(w, "%s = tl.full([X, R], %s, %s)", p->acc, neutral(w->cx, (Reduction)p->t->attr[0], p->t->in[0]->dtype),
              accumulator_type(p->t));
  if (!is_arg(p->t)) return;
  p->index = writer_name(w, arena_printf(w->cx->arena, "%s_at", name));
  writer_line(w, "%s = tl.full([X, R], 0x7FFFFFFF, tl.int32)", p->index);
}

/* The value of each element of the tile, and what changes nothing where there is none. */
static const char *masked(Rows *k, const Pending *p) {
  Writer *w = k->w;
  const Tensor *t = p->t;
  const char *mask = k->r->mask, *text = p->value.text;
  if (t->in[0]->dtype == DT_I1) text = arena_printf(w->cx->arena, "(%s).to(tl.int32)", text);
  if (p->value.literal)
    text = arena_printf(w->cx->arena, "tl.full([X, R], %s, %s)", p->value.text, accumulator_type(t));
  const char *none = neutral(w->cx, (Reduction)t->attr[0], t->in[0]->dtype);
  if (mask) text = arena_printf(w->cx->arena, "tl.where(%s, %s, %s)", mask, text, none);
  return (p->value.bits & 3) == 3 || p->value.literal ? text
                                                      : arena_printf(w->cx->arena, "tl.broadcast_to(%s, [X, R])", text);
}

static const char *combine(Rows *k, const Pending *p, const char *a, const char *b) {
  Context *cx = k->w->cx;
  switch ((Reduction)p->t->attr[0]) {
    case REDUCE_SUM: return arena_printf(cx->arena, "%s + %s", a, b);
    case REDUCE_PROD: return arena_printf(cx->arena, "%s * %s", a, b);
    default: return arena_printf(cx->arena, "%s(%s, %s)", kinds[p->t->attr[0]].helper, a, b);
  }
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
  writer_split(k->w, index_var(k->w->g, k->x), in->rank, in->size, skip[0], at);
  writer_split(k->w, index_var(k->w->g, k->r), in->rank, in->size, skip[1], in_row);
  for (int d = 0; d < in->rank; d++)
    if (skip[0][d]) at[d] = in_row[d];
}

static void step(Rows *k, Pending *p) {
  Writer *w = k->w;
  Index at[GRAPH_MAX_RANK];
  element(k, p->t, at);
  p->value = writer_value(w, p->t->in[0], at);
  if (k->held) return;
  if (!is_arg(p->t)) {
    writer_line(w, "%s = %s", p->acc, combine(k, p, p->acc, masked(k, p)));
    return;
  }
  const char *here = k->r->mask ? arena_printf(w->cx->arena, "tl.where(%s, r, 0x7FFFFFFF)", k->r->mask) : "r";
  writer_line(w, "%s, %s = %s(%s, %s, %s, tl.broadcast_to(%s, [X, R]))", p->acc, p->index, kinds[p->t->attr[0]].helper,
              p->acc, p->index, masked(k, p), here);
}

static void end(Rows *k, Pending *p) {
  Writer *w = k->w;
  Tensor *t = p->t;
  const char *name = writer_name(w, t->name ? t->name : graph_reductions[t->attr[0]]),
             *helper = kinds[t->attr[0]].helper;
  const char *in = k->held ? masked(k, p) : p->acc;
  if (is_arg(t)) {
    const char *here = k->held ? "tl.broadcast_to(r, [X, R])" : p->index;
    writer_line(w, "%s = tl.reduce((%s, %s), 1, %s)[1][:, None].to(tl.int64)", name, in, here, helper);
  } else if (!helper) writer_line(w, "%s = tl.sum(%s, 1)[:, None]", name, in);
  else writer_line(w, "%s = tl.reduce(%s, 1, %s)[:, None]", name, in, helper);
  if (t->dtype == DT_I1) writer_line(w, "%s = %s != 0", name, name);
  if (helper) ((FusePlan *)w->plan)->helpers[t->attr[0]] = true;
  FuseValue v = {name, 1, false};
  map_put(w->held, t, arena_copy(w->cx->arena, &v, sizeof v));
  vec_push(w->cx->arena, &w->members, t);
}

/* Whether t has an element for each of the space, and not one for each row. */
static bool has_rows(const Rows *k, const Tensor *t) {
  return t->op != GRAPH_REDUCE && graph_numel(k->w->g, t) == graph_numel(k->w->g, k->space);
}

static void store(Rows *k, Tensor *t) {
  Graph *g = k->w->g;
  Index at[GRAPH_MAX_RANK];
  Index linear = has_rows(k, t) ? index_linear(g, k->space->rank, k->space->size, k->at) : index_var(g, k->x);
  writer_split(k->w, linear, t->rank, t->size, NULL, at);
  FuseValue v = writer_value(k->w, t, at);
  if (k->w->plan->stored[t->id]) writer_store(k->w, t, at, v);
}

static int power_above(int64_t n) {
  int p = 1;
  while (p < n) p *= 2;
  return p;
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
  k->held = known && n <= HELD;
  k->r_block = k->held ? power_above(n) : inner ? 2048 : 64;
  k->x_block = k->held ? 4096 / k->r_block : inner ? 1 : 32;
  if (!inner && k->held && k->x_block < 4) k->held = false, k->r_block = 64, k->x_block = 32;
  if (k->x_block > 64) k->x_block = 64;
  while (k->x_block > 1 && k->x_block / 2 >= rows) k->x_block /= 2;
  while (inner && k->held && k->x_block > 1 && rows / k->x_block < 64)
    k->x_block /= 2; /* programs for all processors */
}

FuseKernel *kernel_reduce(FusePlan *p, const FuseGroup *group) {
  Graph *g = p->g;
  Rows rows = {.group = group, .space = group->space->in[0]}, *k = &rows;
  Writer *w = k->w = writer_create(p, group, fuse_kernel_name(p, group));
  const Tensor *space = k->space;
  const Size *n[2] = {size_int(g, 1), size_int(g, 1)};
  for (int i = 0; i < group->space->dim_count; i++) k->reduced[group->space->dims[i]] = true;
  for (int d = 0; d < space->rank; d++) n[k->reduced[d]] = size_mul(g, n[k->reduced[d]], space->size[d]);
  IndexVar x = {.extent = n[0]}, r = {.extent = n[1]};
  k->x = &x;
  k->r = &r;
  choose_blocks(k);
  int64_t length, count;
  bool whole = size_is_int(n[1], &length) && length % k->r_block == 0;
  bool all = size_is_int(n[0], &count) && count % k->x_block == 0;
  k->x = writer_var(w, "x", all ? NULL : "x_mask", n[0], 1);
  k->r = writer_var(w, "r", whole ? NULL : "r_mask", n[1], 2);
  element(k, group->space, k->at);
  writer_line(w, "x = %s * X + tl.arange(0, X)[:, None]", kernel_program(w, 0, graph_numel(g, space)));
  if (!all) writer_line(w, "x_mask = x < %s", writer_size(w, n[0]));
  if (k->held) {
    writer_line(w, "r = tl.arange(0, R)[None, :]");
    if (!whole) writer_line(w, "r_mask = r < %s", writer_size(w, n[1]));
  }
  Map *levels = map_create(w->cx->arena, false);
  int last = 0;
  for (int i = 0; i < group->n; i++) {
    int l = level(k, group->roots[i], levels) - (group->roots[i]->op == GRAPH_REDUCE);
    if (l > last) last = l;
  }
  for (int l = 0; l <= last; l++) {
    VEC(Pending) pending = {0};
    bool any = false;
    for (int i = 0; i < group->n; i++) {
      Tensor *t = group->roots[i];
      bool reduces = t->op == GRAPH_REDUCE;
      if (level(k, t, levels) - reduces != l) continue;
      if (reduces) vec_push(w->cx->arena, &pending, (Pending){.t = t});
      any |= reduces || has_rows(k, t);
    }
    for (int i = 0; i < pending.n; i++) begin(k, &pending.at[i]);
    Map *outside = NULL;
    if (any && !k->held) {
      writer_line(w, "for start in range(0, %s, R):", writer_size(w, n[1]));
      outside = writer_enter(w);
      writer_line(w, "r = start + tl.arange(0, R)[None, :]");
      if (!whole) writer_line(w, "r_mask = r < %s", writer_size(w, n[1]));
    }
    for (int i = 0; i < pending.n; i++) step(k, &pending.at[i]);
    for (int i = 0; i < group->n; i++) {
      Tensor *t = group->roots[i];
      if (t->op != GRAPH_REDUCE && level(k, t, levels) == l && has_rows(k, t)) store(k, t);
    }
    if (outside) writer_leave(w, outside);
    for (int i = 0; i < pending.n; i++) end(k, &pending.at[i]);
    for (int i = 0; i < group->n; i++) {
      Tensor *t = group->roots[i];
      bool row = t->op == GRAPH_REDUCE || !has_rows(k, t);
      if (row && level(k, t, levels) - (t->op == GRAPH_REDUCE) == l) store(k, t);
    }
  }
  w->kernel->grid[0] = n[0];
  w->kernel->block[0] = k->x_block;
  writer_constant(w, "X", k->x_block);
  writer_constant(w, "R", k->r_block);
  return writer_finish(w);
}
