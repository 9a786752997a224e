/* Expressions that are something simpler. Each rule holds in exact arithmetic, for all finite values:
 *
 *     i + 0, x * 1, where(test, 1, 0) != 0    i, x, test (masks are often made so)
 *     where(not test, a, b)                   where(test, b, a)
 *     sum of where(place == y, f(place), 0)   f(y), if y is a place, else 0: one element is read in place of all (the
 *                                             loss of a classifier)
 *     scatter of one element a row            where(place == y, element, what is there): the gradient of that loss
 *     sum over k of a[m, k] * (b c)[m, k]     sum over d of b[m, d] * (a c^T)[m, d], where a c^T is there already: the
 *                                             sums change places (the gradient of an attention, whose a c^T is its
 *                                             result), and what b c would have been need not be gone through */
#include "fuse/fuse.h"

/* ---- one place of a row ------------------------------------------------------------------------------------------ */

/* Whether t at an index differs along the axis of `bit`. */
static bool varies(Graph *g, const Tensor *t, const Index *at, unsigned bit) {
  stack_guard();
  Index in[GRAPH_MAX_RANK];
  bool by_index = false;
  for (int d = 0; d < t->rank; d++) by_index |= (index_bits(&at[d]) & bit) != 0;
  if (!by_index || t->op == GRAPH_FULL) return false;
  if (graph_is_view(t) && fuse_view_index(g, t, at, in)) return varies(g, t->in[0], in, bit);
  if (t->op != GRAPH_POINT) return true;
  for (int i = 0; i < t->in_count; i++)
    if (varies(g, t->in[i], at, bit)) return true;
  return false;
}

/* Whether t at an index is the place along `v`, plus a constant. */
static bool counts(Graph *g, const Tensor *t, const Index *at, const IndexVar *v, int64_t *plus) {
  stack_guard();
  Index in[GRAPH_MAX_RANK];
  int64_t c;
  if (graph_is_view(t)) return fuse_view_index(g, t, at, in) && counts(g, t->in[0], in, v, plus);
  if (t->op == GRAPH_POINT && t->point == POINT_CONVERT && dtype_is_int(t->dtype) && dtype_bits(t->dtype) >= 32)
    return counts(g, t->in[0], at, v, plus);
  if (t->op != GRAPH_IOTA || t->step != 1 || at[0].n != 1 || !size_is_int(at[0].constant, &c)) return false;
  const IndexTerm *term = &at[0].at[0];
  *plus = t->start + c;
  return term->var == v && !term->size && size_is(term->below, 1) && size_is(term->factor, 1);
}

static Tensor *number(Graph *g, const Tensor *like, Dtype t, double v) {
  return graph_full(g, t, like->rank, like->size, v);
}

static Tensor *point2(Graph *g, PointOp op, Tensor *a, Tensor *b) { return graph_point(g, op, 2, (Tensor *[]){a, b}); }

/* f(y), or 0. */
static Tensor *element_at(Graph *g, Tensor *f, Tensor *y, int dim, int64_t plus) {
  y = graph_convert(g, graph_slice(g, y, dim, size_int(g, 0), size_int(g, 1), 1), DT_I64);
  if (plus) y = point2(g, POINT_SUB, y, number(g, y, DT_I64, (double)plus));
  Tensor *end = graph_expand(g, graph_extent(g, DT_I64, f->size[dim]), y->rank, y->size);
  Tensor *inside = point2(g, POINT_AND, point2(g, POINT_GE, y, number(g, y, DT_I64, 0)), point2(g, POINT_LT, y, end));
  y = graph_point(g, POINT_WHERE, 3, (Tensor *[]){inside, y, number(g, y, DT_I64, 0)});
  return graph_point(g, POINT_WHERE, 3, (Tensor *[]){inside, graph_gather(g, f, y, dim), number(g, y, f->dtype, 0)});
}

static Tensor *picked(Graph *g, Tensor *x, int dim) {
  if (x->op != GRAPH_POINT || x->point != POINT_WHERE || size_is(x->size[dim], 1)) return NULL;
  const Tensor *none = x->in[2];
  while (graph_is_view(none) && none->in_count == 1 && none->op != GRAPH_PAD) none = none->in[0];
  Tensor *test = x->in[0];
  Index at[GRAPH_MAX_RANK];
  IndexVar vars[GRAPH_MAX_RANK];
  int64_t plus;
  for (int d = 0; d < x->rank; d++) {
    vars[d] = (IndexVar){.text = "i", .extent = x->size[d], .bit = 1u << d};
    at[d] = index_var(g, &vars[d]);
  }
  while (graph_is_view(test)) { /* a test of fewer dims, spread */
    Index in[GRAPH_MAX_RANK];
    if (!fuse_view_index(g, test, at, in)) return NULL;
    bool same = test->op == GRAPH_EXPAND;
    if (!same) return NULL;
    test = test->in[0];
    memcpy(at, in, sizeof at);
  }
  if (none->op != GRAPH_FULL || none->number != 0 || test->op != GRAPH_POINT || test->point != POINT_EQ) return NULL;
  for (int i = 0; i < 2; i++) {
    Tensor *y = test->in[1 - i];
    if (!dtype_is_int(y->dtype) || !counts(g, test->in[i], at, &vars[dim], &plus)) continue;
    if (varies(g, y, at, 1u << dim)) continue;
    const Size *size[GRAPH_MAX_RANK];
    for (int d = 0; d < x->rank; d++) size[d] = x->size[d];
    return element_at(g, x->in[1], graph_expand(g, y, x->rank, size), dim, plus);
  }
  return NULL;
}

/* An element at one place of each row of something that is a number all over. The gather looks whether y is a place. */
static Tensor *put(Graph *g, Tensor *t) {
  double number;
  if (t->op != GRAPH_SCATTER || (t->mode != SCATTER_SET && t->mode != SCATTER_ADD)) return NULL;
  Tensor *x = t->in[0], *index = t->in[1], *element = t->in[2];
  int dim = (int)t->dim;
  if (!graph_is_number(x, &number) || !size_is(index->size[dim], 1) || size_is(x->size[dim], 1)) return NULL;
  const Size *row[GRAPH_MAX_RANK];
  for (int d = 0; d < x->rank; d++) {
    row[d] = d == dim ? x->size[d] : size_int(g, 1);
    if (d != dim && index->size[d] != x->size[d]) return NULL;
  }
  Tensor *places = graph_iota(g, DT_I64, x->size[dim], 0, 1);
  places = graph_expand(g, graph_reshape(g, places, x->rank, row), x->rank, x->size);
  index = graph_expand(g, graph_gather(g, places, graph_convert(g, index, DT_I64), dim), x->rank, x->size);
  element = graph_expand(g, element, x->rank, x->size);
  if (t->mode == SCATTER_ADD && number != 0) element = point2(g, POINT_ADD, element, x);
  return graph_point(g, POINT_WHERE, 3, (Tensor *[]){point2(g, POINT_EQ, index, places), element, x});
}

/* ---- factors of a row ---------------------------------------------------------------------------------------- */

enum { MOST_FACTORS = 8 };
typedef struct Factors { /* of a row: taken out of its sum */
  Tensor *at[MOST_FACTORS];
  bool divides[MOST_FACTORS];
  int n;
  bool negative;
} Factors;

static bool is_of_row(Graph *g, const Tensor *t, int dim) {
  Index at[GRAPH_MAX_RANK];
  IndexVar vars[GRAPH_MAX_RANK];
  for (int d = 0; d < t->rank; d++) {
    vars[d] = (IndexVar){.text = "i", .extent = t->size[d], .bit = 1u << d};
    at[d] = index_var(g, &vars[d]);
  }
  return !varies(g, t, at, 1u << dim);
}

/* t without one factor of the row; NULL: it has none. */
static Tensor *without_factor(Graph *g, Tensor *t, int dim, Factors *out) {
  if (t->op != GRAPH_POINT || out->n == MOST_FACTORS) return NULL;
  if (t->point == POINT_NEG) {
    out->negative = !out->negative;
    return t->in[0];
  }
  for (int i = 0; i < 2 && (t->point == POINT_MUL || t->point == POINT_DIV); i++) {
    if ((t->point == POINT_DIV && i == 0) || !is_of_row(g, t->in[i], dim)) continue;
    out->at[out->n] = t->in[i];
    out->divides[out->n++] = t->point == POINT_DIV;
    return t->in[1 - i];
  }
  return NULL;
}

/* A sum, with factor i that was taken out of it. */
static Tensor *times(Graph *g, Tensor *sum, const Factors *all, int i, int dim) {
  Tensor *by = graph_slice(g, all->at[i], dim, size_int(g, 0), size_int(g, 1), 1);
  return point2(g, all->divides[i] ? POINT_DIV : POINT_MUL, sum, graph_convert(g, by, sum->dtype));
}

/* Also of the opposite, of another type, and of what is multiplied by something that is the same in all of the row. */
static Tensor *pick(Graph *g, Tensor *t) {
  if (t->op != GRAPH_REDUCE || t->kind != REDUCE_SUM || t->dim_count != 1) return NULL;
  int dim = (int)t->dims[0];
  Factors factors = {0};
  Tensor *x = t->in[0];
  for (Tensor *next; x; x = next) {
    bool converts = x->op == GRAPH_POINT && x->point == POINT_CONVERT && dtype_is_float(x->in[0]->dtype) &&
                    dtype_is_float(x->dtype);
    Tensor *sum = picked(g, x, dim);
    if (sum) {
      sum = graph_convert(g, sum, t->dtype);
      for (int f = 0; f < factors.n; f++) sum = times(g, sum, &factors, f, dim);
      return factors.negative ? graph_point(g, POINT_NEG, 1, &sum) : sum;
    }
    next = converts ? x->in[0] : without_factor(g, x, dim, &factors);
  }
  return NULL;
}

/* ---- sums that change places ------------------------------------------------------------------------------------- */

static bool is_transposed(const Tensor *a, const Tensor *b) { /* a is b with its last two dims exchanged */
  if (a->op != GRAPH_PERMUTE || a->in[0] != b) return false;
  for (int d = 0; d < a->rank; d++)
    if (a->dims[d] != (d == a->rank - 2 ? a->rank - 1 : d == a->rank - 1 ? a->rank - 2 : d)) return false;
  return true;
}

/* The product a c^T that is there, for a product b c. */
static Tensor *product_with(Graph *g, const Tensor *a, const Tensor *bc) {
  for (int k = 0; k < g->at.n; k++) {
    Tensor *ac = g->at.at[k];
    if (ac->op == GRAPH_PRODUCT && ac->in[0] == a &&
        (is_transposed(bc->in[1], ac->in[1]) || is_transposed(ac->in[1], bc->in[1])))
      return ac;
  }
  return NULL;
}

static Tensor *exchange(Graph *g, Tensor *t) {
  if (t->op != GRAPH_REDUCE || t->kind != REDUCE_SUM || t->dim_count != 1 || t->dims[0] != t->in[0]->rank - 1)
    return NULL;
  int dim = (int)t->dims[0];
  Factors outer = {0};
  Tensor *x = t->in[0];
  for (Tensor *next; (next = without_factor(g, x, dim, &outer)) != NULL;) x = next;
  if (x->op != GRAPH_POINT || x->point != POINT_MUL || x->rank < 2) return NULL;
  for (int i = 0; i < 2; i++) {
    Factors all = outer;
    Tensor *bc = x->in[1 - i], *ac = NULL, *a = x->in[i];
    while (bc && bc->op != GRAPH_PRODUCT) bc = without_factor(g, bc, dim, &all);
    for (; bc && a && !(ac = product_with(g, a, bc));) a = without_factor(g, a, dim, &all);
    if (!ac) continue;
    Tensor *sum = graph_reduce(g, REDUCE_SUM, point2(g, POINT_MUL, bc->in[0], ac), 1, t->dims);
    for (int f = 0; f < all.n; f++) sum = times(g, sum, &all, f, dim);
    return all.negative ? graph_point(g, POINT_NEG, 1, &sum) : sum;
  }
  return NULL;
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

/* The test of which x is the opposite, spread as x is; NULL: of none. */
static Tensor *without_not(Graph *g, Tensor *x) {
  stack_guard();
  if (x->op == GRAPH_POINT && x->point == POINT_NOT) return x->in[0];
  if (x->op != GRAPH_EXPAND && x->op != GRAPH_RESHAPE) return NULL;
  Tensor *in = without_not(g, x->in[0]);
  if (!in) return NULL;
  return x->op == GRAPH_EXPAND ? graph_expand(g, in, x->rank, x->size) : graph_reshape(g, in, x->rank, x->size);
}

static Tensor *elementwise(Graph *g, Tensor *t) {
  double a, b;
  if (t->op != GRAPH_POINT) return NULL;
  Tensor *x = t->in[0], *y = t->in_count > 1 ? t->in[1] : NULL;
  switch (t->point) {
    case POINT_ADD:
      if (!dtype_is_int(t->dtype) || t->dtype == DT_I1) return NULL;
      if (graph_is_number(y, &b) && b == 0) return x;
      return graph_is_number(x, &a) && a == 0 ? y : NULL;
    case POINT_MUL:
      if (graph_is_number(y, &b) && b == 1) return x;
      return graph_is_number(x, &a) && a == 1 ? y : NULL;
    case POINT_CONVERT:
      if (t->dtype != DT_I1 || x->op != GRAPH_POINT || x->point != POINT_WHERE) return NULL;
      if (!graph_is_number(x->in[1], &a) || !graph_is_number(x->in[2], &b) || (a != 0) == (b != 0)) return NULL;
      return a != 0 ? x->in[0] : graph_point(g, POINT_NOT, 1, x->in);
    case POINT_NOT: return t->dtype == DT_I1 && x->op == GRAPH_POINT && x->point == POINT_NOT ? x->in[0] : NULL;
    case POINT_WHERE:
      x = without_not(g, x);
      return x ? graph_point(g, POINT_WHERE, 3, (Tensor *[]){x, t->in[2], t->in[1]}) : NULL;
    default: return NULL;
  }
}

/* ---- no elements ------------------------------------------------------------------------------------------------- */

static Tensor *without_elements(Graph *g, Tensor *t, const FuseTarget *target) {
  (void)target;
  bool scattered = t->op == GRAPH_SCATTER && graph_is_empty(g, t->in[1]);
  if (t->op == GRAPH_INPUT || t->op == GRAPH_FULL) return NULL;
  if (graph_is_empty(g, t)) return graph_full(g, t->dtype, t->rank, t->size, 0);
  return scattered ? t->in[0] : NULL;
}

void fuse_drop_empty(Graph *g) {
  fuse_rewrite(g, without_elements, NULL);
  graph_dce(g);
}

static Tensor *simpler(Graph *g, Tensor *t, const FuseTarget *target) {
  Tensor *s = elementwise(g, t);
  if (!s) s = pick(g, t);
  if (!s) s = put(g, t);
  return s ? s : exchange(g, t);
}

void fuse_simplify(Graph *g) {
  fuse_rewrite(g, simpler, NULL);
  graph_cse(g);
  graph_dce(g);
}
