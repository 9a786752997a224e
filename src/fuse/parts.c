/* Few long rows, of which a sum depends on a maximum: parts of each row by many programs, both in one pass.
 *
 * split.c would cut them one after the other: parts' maxima, the maximum, parts' sums of exp(x - maximum), the sum. By
 * the laws (law.c) a part's sum may be of exp(x - c) with any c, so that it is made with the part's own maximum, in the
 * kernel which finds that:
 *
 *     sum = sum over parts of (sum of exp(x - c)) * exp(c - maximum),  c = max(maximum of the part, LOWEST)
 *
 * Written as operations of the graph, of which split.c and group.c then make kernels as of any others. */
#include "fuse/fuse.h"

typedef struct Parts {
  Graph *g;
  LawSearch search;
  Tensor *most, *base; /* the row's maximum; what parts take for it */
  const Tensor *x;     /* the operand */
  int dim;             /* that is cut */
  const Size *parts;
} Parts;

static void cut_shape(const Parts *p, const Tensor *t, const Size **size) {
  bool whole = t->size[p->dim] == p->x->size[p->dim] && !size_is(t->size[p->dim], 1);
  for (int i = 0; i < t->rank; i++) size[i + (i > p->dim)] = t->size[i];
  size[p->dim] = whole ? p->parts : size_int(p->g, 1);
  size[p->dim + 1] = whole ? size_divide(p->g, t->size[p->dim], p->parts) : size_int(p->g, 1);
}

static Tensor *cut(const Parts *p, Tensor *t) {
  const Size *size[GRAPH_MAX_RANK];
  cut_shape(p, t, size);
  return graph_reshape(p->g, t, t->rank + 1, size);
}

/* t of parts, made with their own maxima; NULL: views stand between. */
static Tensor *remake(Parts *p, Tensor *t) {
  stack_guard();
  const Size *size[GRAPH_MAX_RANK];
  if (t == p->most) return p->base;
  if (t->rank != p->x->rank) return NULL;
  if (!law_depends(&p->search, t, p->most)) return cut(p, t);
  if (t->op == GRAPH_EXPAND) {
    Tensor *in = remake(p, t->in[0]);
    cut_shape(p, t, size);
    return in ? graph_expand(p->g, in, t->rank + 1, size) : NULL;
  }
  if (t->op != GRAPH_POINT) return NULL;
  Tensor *in[3];
  const Tensor *widest = NULL;
  for (int i = 0; i < t->in_count; i++) {
    in[i] = remake(p, t->in[i]);
    if (!in[i]) return NULL;
    if (!widest || !size_is(in[i]->size[p->dim], 1)) widest = in[i];
  }
  for (int i = 0; i < t->in_count; i++) in[i] = graph_expand(p->g, in[i], widest->rank, widest->size);
  if (t->point == POINT_CONVERT) return graph_convert(p->g, in[0], t->dtype);
  return graph_point(p->g, t->point, t->in_count, in);
}

static Tensor *point2(Graph *g, PointOp op, Tensor *a, Tensor *b) { return graph_point(g, op, 2, (Tensor *[]){a, b}); }

/* What moves a part's sum from its own maximum to the row's. */
static Tensor *rescaling(Parts *p, const Law *law) {
  Tensor *all = NULL;
  for (int i = 0; i < law->exponent.n; i++) {
    Tensor *row = law->exponent.at[i].row;
    while (row->op == GRAPH_EXPAND) row = row->in[0];
    if (row->rank != p->x->rank || !size_is(row->size[p->dim], 1)) return NULL;
    Tensor *part = remake(p, row);
    if (!part) return NULL;
    Tensor *change = point2(p->g, POINT_SUB, graph_expand(p->g, cut(p, row), part->rank, part->size), part);
    Tensor *factor = graph_full(p->g, part->dtype, part->rank, part->size, law->exponent.at[i].factor);
    change = point2(p->g, POINT_MUL, change, factor);
    all = all ? point2(p->g, POINT_ADD, all, change) : change;
  }
  return all ? graph_point(p->g, law->base2 ? POINT_EXP2 : POINT_EXP, 1, &all) : NULL;
}

static Tensor *sum_with(Parts *p, Tensor *t, Tensor *most) {
  Graph *g = p->g;
  Index at[GRAPH_MAX_RANK];
  IndexVar vars[GRAPH_MAX_RANK];
  int64_t dims[GRAPH_MAX_RANK];
  FuseGroup group = {.kind = FUSE_REDUCE, .n = 1, .roots = &most};
  for (int d = 0; d < p->x->rank; d++) {
    vars[d] = (IndexVar){.text = arena_printf(g->cx->arena, "i%d", d), .extent = p->x->size[d], .bit = 1};
    for (int i = 0; i < t->dim_count; i++)
      if (t->dims[i] == d) vars[d].bit = 2;
    at[d] = index_var(g, &vars[d]);
  }
  for (int i = 0; i < t->dim_count; i++) dims[i] = t->dims[i] + 1;
  p->search = (LawSearch){.g = g, .group = &group, .bit = 2, .live = {most}, .live_count = 1};
  if (!law_depends(&p->search, t->in[0], most)) return NULL;
  const Law *law = law_find(&p->search, t->in[0], REDUCE_SUM, at);
  if (law->why || law->shifts || law->factors.n || !law->exponent.n) return NULL;
  Tensor *part = graph_reduce(g, REDUCE_MAX, cut(p, most->in[0]), t->dim_count, dims);
  double lowest = most->dtype == DT_F64 ? -1.7976931348623157e308 : -3.4028234663852886e38;
  p->most = most;
  p->base = point2(g, POINT_MAXIMUM, part, graph_full(g, part->dtype, part->rank, part->size, lowest));
  Tensor *move = rescaling(p, law), *operand = move ? remake(p, t->in[0]) : NULL;
  if (!operand) return NULL;
  Tensor *sum = graph_reduce(g, REDUCE_SUM, operand, t->dim_count, dims);
  Tensor *all = graph_reduce(g, REDUCE_SUM, point2(g, POINT_MUL, sum, move), 1, (int64_t[]){p->dim});
  return graph_reshape(g, all, t->rank, t->size);
}

static Tensor *in_parts(Graph *g, Tensor *t, const FuseTarget *target) {
  int64_t parts = fuse_parts(g, t, target);
  if (parts < 2 || t->kind != REDUCE_SUM || !dtype_is_float(t->dtype)) return NULL;
  Parts p = {.g = g, .x = t->in[0], .dim = (int)t->dims[0], .parts = size_int(g, parts)};
  for (int i = g->at.n - 1; i >= 0; i--) {
    Tensor *most = g->at.at[i];
    bool alike = most->op == GRAPH_REDUCE && most->kind == REDUCE_MAX && most->dim_count == t->dim_count &&
                 graph_same_shape(most->in[0], t->in[0]);
    for (int d = 0; alike && d < t->dim_count; d++) alike = most->dims[d] == t->dims[d];
    Tensor *sum = alike ? sum_with(&p, t, most) : NULL;
    if (sum) return sum;
  }
  return NULL;
}

void fuse_split_dependent(Graph *g, const FuseTarget *target) { fuse_rewrite(g, in_parts, target); }
