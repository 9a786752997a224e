/* Rows that are cut (split.c), of which a sum depends on another reduction: parts of each row by many programs, both in
 * one pass.
 *
 * split.c would cut them one after the other: parts' maxima, the maximum, parts' sums of exp(x - maximum), the sum. By
 * the laws (law.c) a part's sum may be of exp(x - c) with any c, so that it is made with the part's own maximum, in the
 * kernel which finds that:
 *
 *     sum = sum over parts of (sum of exp(x - c)) * exp(c - maximum),  c = max(maximum of the part, LOWEST)
 *
 * So with squares of distances from a mean m, in whose place a part of n elements has its own mean c:
 *
 *     sum = sum over parts of (sum of (x - c)^2) + (m - c) * ((m - c) * n - 2 * (sum of x - n * c))
 *
 * Written as operations of the graph, of which split.c and group.c then make kernels as of any others. */
#include <math.h>

#include "fuse/fuse.h"

typedef struct Parts {
  Graph *g;
  LawSearch search;
  FuseCut cut;
  const Tensor *t;      /* the sum */
  Tensor *other, *base; /* what it depends on; what parts take for that */
} Parts;

/* t in parts; what a maximum goes over is filled up with what changes none, also where sums read it. */
static Tensor *cut(const Parts *p, Tensor *t) {
  bool of_maximum = p->other->kind == REDUCE_MAX && t == p->other->in[0];
  return fuse_cut_shape(p->g, &p->cut, t, of_maximum ? -INFINITY : 0);
}

static Tensor *point2(Graph *g, PointOp op, Tensor *a, Tensor *b) { return graph_point(g, op, 2, (Tensor *[]){a, b}); }

static Tensor *times(Graph *g, Tensor *t, double factor) {
  return point2(g, POINT_MUL, t, graph_full(g, t->dtype, t->rank, t->size, factor));
}

static bool is_of_rows(const Parts *p, const Tensor *t) { return graph_numel(p->g, t) == graph_numel(p->g, p->t); }

static Tensor *as_rows(const Parts *p, Tensor *t) { return graph_reshape(p->g, t, p->t->rank, p->t->size); }

/* t of parts, made with their own base; NULL: views stand between. */
static Tensor *remake(Parts *p, Tensor *t) {
  stack_guard();
  const Size *size[GRAPH_MAX_RANK];
  Tensor *in[3];
  bool rows = is_of_rows(p, t); /* whatever their shape is: all are in one order */
  if (t == p->other) return p->base;
  if (!rows && t->rank != p->t->rank) return NULL;
  if (!law_depends(&p->search, t, p->other)) return cut(p, rows ? as_rows(p, t) : t);
  if (rows && t->op == GRAPH_RESHAPE) return remake(p, t->in[0]);
  if (t->op != GRAPH_EXPAND && t->op != GRAPH_POINT) return NULL;
  int rank = fuse_cut_sizes(p->g, &p->cut, rows ? p->t : t, size);
  for (int i = 0; i < t->in_count; i++) {
    in[i] = remake(p, t->in[i]);
    if (!in[i]) return NULL;
    for (int d = 0; d < rank; d++) /* a base is one for each part, where there was one for all */
      if (size_is(size[d], 1)) size[d] = in[i]->size[d];
  }
  for (int i = 0; i < t->in_count; i++) in[i] = graph_expand(p->g, in[i], rank, size);
  if (t->op == GRAPH_EXPAND) return in[0];
  return t->point == POINT_CONVERT ? graph_convert(p->g, in[0], t->dtype)
                                   : graph_point(p->g, t->point, t->in_count, in);
}

/* One number for all parts but the last, and one for that. */
static Tensor *of_part(Parts *p, const Tensor *like, double number, double last) {
  Graph *g = p->g;
  if (!p->cut.each) return graph_full(g, like->dtype, like->rank, like->size, number);
  const Size *size[GRAPH_MAX_RANK];
  for (int d = 0; d < like->rank; d++) size[d] = size_int(g, d == p->cut.dim ? p->cut.parts : 1);
  Tensor *place = graph_iota(g, DT_I64, size_int(g, p->cut.parts), 0, 1), *is_last;
  place = graph_reshape(g, place, like->rank, size);
  is_last = point2(g, POINT_EQ, place, graph_full(g, DT_I64, like->rank, size, (double)(p->cut.parts - 1)));
  Tensor *in[] = {graph_expand(g, is_last, like->rank, like->size),
                  graph_full(g, like->dtype, like->rank, like->size, last),
                  graph_full(g, like->dtype, like->rank, like->size, number)};
  return graph_point(g, POINT_WHERE, 3, in);
}

/* What is summed, of parts: 0 where the last one was filled up. */
static Tensor *summed(Parts *p) {
  Graph *g = p->g;
  Tensor *x = remake(p, p->t->in[0]);
  if (!x || !p->cut.each) return x;
  const Size *size[GRAPH_MAX_RANK];
  for (int d = 0; d < p->t->rank; d++) size[d] = d == p->cut.dim ? p->cut.whole : size_int(g, 1);
  Tensor *there = fuse_cut_shape(g, &p->cut, graph_full(g, DT_I1, p->t->rank, size, 1), 0);
  Tensor *in[] = {graph_expand(g, there, x->rank, x->size), x, graph_full(g, x->dtype, x->rank, x->size, 0)};
  return graph_point(g, POINT_WHERE, 3, in);
}

/* What parts took for a row's value, and by how much that differs; NULL: views stand between. */
static Tensor *change(Parts *p, Tensor *row, Tensor **part) {
  while (row->op == GRAPH_EXPAND) row = row->in[0];
  *part = is_of_rows(p, row) ? remake(p, row) : NULL;
  if (!*part) return NULL;
  row = graph_expand(p->g, cut(p, as_rows(p, row)), (*part)->rank, (*part)->size);
  return point2(p->g, POINT_SUB, row, *part);
}

/* The parts' sums as they would be with what the row has. */
static Tensor *of_exponentials(Parts *p, const Law *law) {
  Graph *g = p->g;
  Tensor *most = fuse_cut_parts(g, &p->cut, p->other, cut(p, p->other->in[0])), *move = NULL, *part;
  double lowest = most->dtype == DT_F64 ? -1.7976931348623157e308 : -3.4028234663852886e38;
  p->base = point2(g, POINT_MAXIMUM, most, graph_full(g, most->dtype, most->rank, most->size, lowest));
  for (int i = 0; i < law->exponent.n; i++) {
    Tensor *one = change(p, law->exponent.at[i].row, &part);
    if (!one) return NULL;
    one = times(g, one, law->exponent.at[i].factor);
    move = move ? point2(g, POINT_ADD, move, one) : one;
  }
  Tensor *operand = summed(p);
  if (!operand) return NULL;
  move = graph_point(g, law->base2 ? POINT_EXP2 : POINT_EXP, 1, &move);
  return point2(g, POINT_MUL, fuse_cut_parts(g, &p->cut, p->t, operand), move);
}

static Tensor *of_squares(Parts *p, const Law *law) {
  Graph *g = p->g;
  const Tensor *shift = law->shift;
  int64_t all, rows, parts;
  Tensor *mean, *sum = fuse_cut_parts(g, &p->cut, p->other, cut(p, p->other->in[0]));
  if (shift->op != GRAPH_POINT || shift->point != POINT_SUB || shift->in[0] != p->other->in[0]) return NULL;
  if (!size_is_int(graph_numel(g, p->t->in[0]), &all) || !size_is_int(graph_numel(g, p->t), &rows) ||
      !size_is_int(graph_numel(g, sum), &parts))
    return NULL;
  double count = (double)(all / parts), last = count, row = (double)(all / rows);
  if (p->cut.each) {
    int64_t n;
    if (!size_is_int(p->cut.whole, &n)) return NULL;
    int64_t others = all / n / (parts / p->cut.parts); /* elements of a part for each of the dim that is cut */
    count = (double)(others * p->cut.each);
    last = (double)(others * (n - (p->cut.parts - 1) * p->cut.each));
  }
  /* what the row's would be if all parts were alike */
  p->base = point2(g, POINT_MUL, sum, of_part(p, sum, row / count, row / last));
  Tensor *off = change(p, shift->in[1], &mean), *operand = off ? summed(p) : NULL;
  if (!operand) return NULL;
  Tensor *counts = of_part(p, mean, count, last);
  Tensor *left = point2(g, POINT_SUB, sum, point2(g, POINT_MUL, mean, counts)); /* of the shifts: about 0 */
  Tensor *more = point2(g, POINT_SUB, point2(g, POINT_MUL, off, counts), times(g, left, 2));
  return point2(g, POINT_ADD, fuse_cut_parts(g, &p->cut, p->t, operand), point2(g, POINT_MUL, off, more));
}

static Tensor *sum_with(Parts *p) {
  Graph *g = p->g;
  const Tensor *t = p->t, *x = t->in[0];
  Index at[GRAPH_MAX_RANK];
  IndexVar vars[GRAPH_MAX_RANK];
  FuseGroup group = {.kind = FUSE_REDUCE, .n = 1, .roots = &p->other};
  for (int d = 0; d < x->rank; d++) {
    vars[d] = (IndexVar){.text = arena_printf(g->cx->arena, "i%d", d), .extent = x->size[d], .bit = 1};
    for (int i = 0; i < t->dim_count; i++)
      if (t->dims[i] == d) vars[d].bit = 2;
    at[d] = index_var(g, &vars[d]);
  }
  p->search = (LawSearch){.g = g, .group = &group, .bit = 2, .live = {p->other}, .live_count = 1};
  if (!law_depends(&p->search, t->in[0], p->other)) return NULL;
  const Law *law = law_find(&p->search, t->in[0], REDUCE_SUM, at);
  if (law->why || law->factors.n) return NULL;
  bool most = p->other->kind == REDUCE_MAX;
  Tensor *parts = NULL;
  if (most && law->exponent.n && !law->shifts) parts = of_exponentials(p, law);
  if (!most && law->shifts == 2 && !law->exponent.n && !law->weight && !law->only) parts = of_squares(p, law);
  return parts ? fuse_cut_whole(g, &p->cut, t, parts) : NULL;
}

static Tensor *in_parts(Graph *g, Tensor *t, const FuseTarget *target) {
  Parts p = {.g = g, .t = t};
  if (t->op != GRAPH_REDUCE || t->kind != REDUCE_SUM || !dtype_is_float(t->dtype)) return NULL;
  if (!fuse_cut(g, t, target, &p.cut)) return NULL;
  for (int i = g->at.n - 1; i >= 0; i--) {
    p.other = g->at.at[i];
    bool alike = p.other->op == GRAPH_REDUCE && (p.other->kind == REDUCE_MAX || p.other->kind == REDUCE_SUM) &&
                 p.other->dim_count == t->dim_count && graph_same_shape(p.other->in[0], t->in[0]);
    for (int d = 0; alike && d < t->dim_count; d++) alike = p.other->dims[d] == t->dims[d];
    Tensor *sum = alike ? sum_with(&p) : NULL;
    if (sum) return sum;
  }
  return NULL;
}

void fuse_split_dependent(Graph *g, const FuseTarget *target) { fuse_rewrite(g, in_parts, target); }
