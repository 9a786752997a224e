/* Scans of one tensor along one dim: rows as in kernel_reduce.c, block by block, what came so far carried along.
 *
 *     before = tl.full([X, 1], 1, tl.float32)
 *     for start in range(0, 5000, R):
 *         ...
 *         part = tl.where(x_mask & r_mask, v, 1).to(tl.float32)
 *         cumprod = multiply(before, tl.associative_scan(part, 1, multiply))
 *         before = multiply(before, tl.reduce(part, 1, multiply)[:, None])
 *
 * Sums and products of many f32 drift, since each sum so far is rounded. On a CPU, where PyTorch computes such scans in
 * f64, so do these. Elsewhere the sum of the blocks before is kept in two numbers, the second what rounding the first
 * has lost (Knuth's TwoSum):
 *
 *     cumsum = tl.cumsum(part, 1) + lost + before
 *     total = tl.sum(part, 1)[:, None] + lost
 *     now = before + total
 *     added = now - before
 *     lost = (before - (now - added)) + (total - added)
 *     before = now
 *
 * An index of the largest goes by pairs of element and place. */
#include "fuse/fuse.h"

static const struct {
  Reduction kind; /* whose neutral element it has */
  const char *helper;
} kinds[GRAPH_OP_COUNT] = {[GRAPH_CUMSUM] = {REDUCE_SUM, NULL},
                           [GRAPH_CUMPROD] = {REDUCE_PROD, "multiply"},
                           [GRAPH_CUMMAX] = {REDUCE_MAX, "max_nan"},
                           [GRAPH_CUMMIN] = {REDUCE_MIN, "min_nan"},
                           [GRAPH_CUMARGMAX] = {REDUCE_ARGMAX, "last_max"},
                           [GRAPH_CUMARGMIN] = {REDUCE_ARGMIN, "last_min"},
                           [GRAPH_CUMLOGSUMEXP] = {REDUCE_MAX, "log_add_exp"}};

/* How a tile lies: rows down and their places to the right; or turned, where rows lie side by side in memory. */
typedef struct Tile {
  const char *all, *ends;  /* its shape, and that of one element a row */
  const char *row, *place; /* what makes an axis of its row and of its places */
  int axis;                /* the places' */
} Tile;
static const Tile straight = {"[X, R]", "[X, 1]", "[:, None]", "[None, :]", 1},
                  turned = {"[R, X]", "[1, X]", "[None, :]", "[:, None]", 0};

typedef struct Scan {
  Tensor *t;
  const Tile *tile;
  bool index;
  const char *before, *place; /* of the blocks so far; place: of an index */
  const char *lost;           /* what `before` was rounded by; NULL: that is not kept */
  const char *type;           /* in which it is computed */
} Scan;

enum { LEAST_BESIDE = 16 }; /* rows side by side that turn the tile */

/* Whether rounding each sum so far to f32 would tell. */
static bool drifts(const Tensor *t) { return t->dtype == DT_F32 && (t->op == GRAPH_CUMSUM || t->op == GRAPH_CUMPROD); }

static void begin(Writer *w, Scan *s, Tensor *t, const Tile *tile) {
  *s = (Scan){.t = t,
              .tile = tile,
              .index = t->op == GRAPH_CUMARGMAX || t->op == GRAPH_CUMARGMIN,
              .before = writer_name(w, "before")};
  bool cpu = w->plan->target.kind == TARGET_CPU;
  s->type = triton_compute_type(drifts(t) && cpu ? DT_F64 : t->in[0]->dtype);
  writer_line(w, "%s = tl.full(%s, %s, %s)", s->before, tile->ends,
              fuse_neutral(w->cx, kinds[t->op].kind, t->in[0]->dtype), s->type);
  if (drifts(t) && t->op == GRAPH_CUMSUM && !cpu) {
    s->lost = writer_name(w, "lost");
    writer_line(w, "%s = tl.full(%s, 0, tl.float32)", s->lost, tile->ends);
  }
  if (s->index) {
    s->place = writer_name(w, "place");
    writer_line(w, "%s = tl.full(%s, 0, tl.int64)", s->place, tile->ends);
  }
  if (kinds[t->op].helper) fuse_need_helper(w->plan, kinds[t->op].helper);
  vec_push(w->cx->arena, &w->members, t);
}

/* before += total, and what that rounds off; of a sum that is infinite or no number nothing. */
static void add_block(Writer *w, const Scan *s, const char *part) {
  const char *before = s->before, *lost = s->lost;
  const char *total = writer_name(w, "total"), *now = writer_name(w, "now"), *added = writer_name(w, "added");
  writer_line(w, "%s = tl.sum(%s, %d)%s + %s", total, part, s->tile->axis, s->tile->row, lost);
  writer_line(w, "%s = %s + %s", now, before, total);
  writer_line(w, "%s = %s - %s", added, now, before);
  writer_line(w, "%s = (%s - (%s - %s)) + (%s - %s)", lost, before, now, added, total, added);
  writer_line(w, "%s = tl.where(%s == %s, %s, 0)", lost, lost, lost, lost);
  writer_line(w, "%s = %s", before, now);
}

static void step(Writer *w, Scan *s, const Index *at) {
  Tensor *t = s->t;
  Dtype in = t->in[0]->dtype;
  const char *helper = kinds[t->op].helper, *before = s->before, *row = s->tile->row;
  int axis = s->tile->axis;
  const char *part = writer_name(w, "part"), *name = writer_name(w, t->name ? t->name : graph_ops[t->op].name);
  FuseValue v = writer_value(w, t->in[0], at);
  writer_line(w, "%s = tl.where(x_mask & r_mask, %s, %s).to(%s)", part, v.text,
              fuse_neutral(w->cx, kinds[t->op].kind, in), s->type);
  if (s->index) {
    const char *here = writer_name(w, "here");
    writer_line(w, "%s = tl.broadcast_to(r, %s).to(tl.int64)", here, s->tile->all);
    const char *best = writer_name(w, "best"), *last = writer_name(w, "last");
    writer_line(w, "%s, %s = tl.associative_scan((%s, %s), %d, %s)", best, last, part, here, axis, helper);
    writer_line(w, "%s = %s(%s, %s, %s, %s)[1]", name, helper, before, s->place, best, last);
    writer_line(w, "%s, %s = tl.reduce((%s, %s), %d, %s)", best, last, part, here, axis, helper);
    writer_line(w, "%s, %s = %s(%s, %s, %s%s, %s%s)", before, s->place, helper, before, s->place, best, row, last, row);
  } else if (helper) {
    writer_line(w, "%s = %s(%s, tl.associative_scan(%s, %d, %s))", name, helper, before, part, axis, helper);
    writer_line(w, "%s = %s(%s, tl.reduce(%s, %d, %s)%s)", before, helper, before, part, axis, helper, row);
  } else if (s->lost) {
    writer_line(w, "%s = tl.cumsum(%s, %d) + %s + %s", name, part, axis, s->lost, before);
    add_block(w, s, part);
  } else {
    writer_line(w, "%s = tl.cumsum(%s, %d) + %s", name, part, axis, before);
    writer_line(w, "%s = %s + tl.sum(%s, %d)%s", before, before, part, axis, row);
  }
  if (drifts(t) && strcmp(s->type, "tl.float32")) writer_line(w, "%s = %s.to(tl.float32)", name, name);
  FuseValue out = {name, 3, false};
  writer_hold(w, t, out);
  if (w->plan->stored[t->id]) writer_store(w, t, at, out);
}

/* What is made of the scan, while a block of it is there. */
static void epilogue(Writer *w, Tensor *scan, Tensor *root, const Index *at) {
  Index its[GRAPH_MAX_RANK];
  if (!fuse_epilogue_index(w->g, scan, root, at, its))
    diag_fail(w->cx, root->span, "internal error: a scan's epilogue");
  writer_store(w, root, its, writer_value(w, root, its));
}

FuseKernel *kernel_scan(FusePlan *p, const FuseGroup *group) {
  Graph *g = p->g;
  Tensor *t = group->roots[0];
  Writer *w = writer_create(p, group, fuse_kernel_name(p, group));
  const Size *n = t->size[t->dim], *rows = size_int(g, 1);
  bool skip[GRAPH_MAX_RANK] = {false};
  int64_t beside = 1, size;
  for (int d = 0; d < t->rank; d++)
    if (d != t->dim) rows = size_mul(g, rows, t->size[d]);
  for (int d = (int)t->dim + 1; d < t->rank && beside < LEAST_BESIDE; d++)
    beside *= size_is_int(t->size[d], &size) ? size : LEAST_BESIDE;
  const Tile *tile = beside < LEAST_BESIDE ? &straight : &turned;
  skip[t->dim] = true;
  const IndexVar *x = writer_var(w, "x", "x_mask", rows, tile == &turned ? 2 : 1),
                 *r = writer_var(w, "r", "r_mask", n, tile == &turned ? 1 : 2);
  Index at[GRAPH_MAX_RANK];
  writer_split(w, index_var(w->g, x), t->rank, t->size, skip, at);
  at[t->dim] = index_var(g, r);
  writer_line(w, "x = %s * X + tl.arange(0, X)%s", kernel_program(w, 0, rows), tile->row);
  writer_line(w, "x_mask = x < %s", writer_size(w, rows));
  Scan *scans = NEW_N(w->cx->arena, Scan, group->n);
  int count_of = 0; /* scans; what follows is made of them */
  while (count_of < group->n && graph_ops[group->roots[count_of]->op].group == CLASS_SCAN) count_of++;
  for (int i = 0; i < count_of; i++) begin(w, &scans[i], group->roots[i], tile);
  writer_line(w, "for start in range(0, %s, R):", writer_size(w, n));
  Map *outside = writer_enter(w);
  writer_line(w, "r = start + tl.arange(0, R)%s", tile->place);
  writer_line(w, "r_mask = r < %s", writer_size(w, n));
  for (int i = 0; i < count_of; i++) step(w, &scans[i], at);
  for (int i = count_of; i < group->n; i++) epilogue(w, t, group->roots[i], at);
  writer_leave(w, outside);
  bool cpu = p->target.kind == TARGET_CPU;
  int64_t count, length, block = tile == &straight ? 512 : cpu ? 16 : 64;
  if (!size_is_int(rows, &count)) count = INT64_MAX;
  w->kernel->grid[0] = rows;
  w->kernel->block[0] = tile == &straight ? 4 : cpu ? 256 : 32;
  if (tile == &straight && count < 4) w->kernel->block[0] = 1;
  while (tile == &turned && w->kernel->block[0] > 16 && w->kernel->block[0] / 2 >= count) w->kernel->block[0] /= 2;
  while (size_is_int(n, &length) && block > 1 && block / 2 >= length) block /= 2;
  writer_constant(w, "X", w->kernel->block[0]);
  writer_constant(w, "R", block);
  return writer_finish(w);
}
