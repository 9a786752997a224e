/* Making operations: the rule of each stands here, and the verifier asks these same functions again. Views that change
 * nothing are not made, and a view of a view of the same kind is one. */
#include <math.h>
#include <stdlib.h>

#include "graph/graph.h"

Graph *graph_create(Context *cx, const char *name) {
  Graph *g = NEW(cx->arena, Graph);
  g->cx = cx;
  g->name = arena_strdup(cx->arena, name);
  g->symbol_map = map_create(cx->arena, true);
  g->sizes = map_create(cx->arena, true);
  g->numbers = map_create(cx->arena, false);
  return g;
}

static const char *type_text(Graph *g, const Tensor *t) {
  Buf b = {.arena = g->cx->arena};
  graph_print_type(&b, t);
  return b.at;
}

static NORETURN void wrong(Graph *g, const char *what, const Tensor *a, const Tensor *b) {
  if (!b) diag_fail(g->cx, g->place, "%s, and not %s", what, type_text(g, a));
  diag_fail(g->cx, g->place, "%s, and not %s and %s", what, type_text(g, a), type_text(g, b));
}

static Tensor *make(Graph *g, GraphOp op, Dtype t, int rank, const Size *const *size, int n, Tensor *const *in) {
  if (rank > GRAPH_MAX_RANK)
    diag_fail(g->cx, g->place, "a tensor has at most %d dims, and not %d", GRAPH_MAX_RANK, rank);
  Tensor *x = NEW(g->cx->arena, Tensor);
  *x = (Tensor){.op = op, .dtype = t, .rank = rank, .in_count = n, .span = g->place, .id = g->at.n};
  x->size = NEW_N(g->cx->arena, const Size *, rank + 1);
  for (int d = 0; d < rank; d++) {
    int64_t v;
    if (size_is_int(size[d], &v) && v < 0) diag_fail(g->cx, g->place, "a size of %lld", (long long)v);
    x->size[d] = size[d];
  }
  x->in = NEW_N(g->cx->arena, Tensor *, n + 1);
  for (int i = 0; i < n; i++) x->in[i] = in[i];
  vec_push(g->cx->arena, &g->at, x);
  return x;
}

static void set_dims(Graph *g, Tensor *x, int n, const int64_t *dims) {
  x->dim_count = n;
  x->dims = arena_copy(g->cx->arena, dims, sizeof *dims * (size_t)(n ? n : 1));
}

bool graph_same_shape(const Tensor *a, const Tensor *b) {
  if (a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; d++)
    if (a->size[d] != b->size[d]) return false;
  return true;
}

void graph_name_output(Graph *g, int i, const char *name) {
  while (g->output_names.n <= i) vec_push(g->cx->arena, &g->output_names, NULL);
  g->output_names.at[i] = name;
}

void graph_complex_output(Graph *g, int i) {
  while (g->complex_outputs.n <= i) vec_push(g->cx->arena, &g->complex_outputs, false);
  g->complex_outputs.at[i] = true;
}

const char *graph_output_name(const Graph *g, int i) {
  const char *own = i < g->output_names.n ? g->output_names.at[i] : NULL;
  return own || !g->outputs.at[i] ? own : g->outputs.at[i]->name;
}

const Size *graph_numel(Graph *g, const Tensor *t) { return size_product(g, t->rank, t->size); }

bool graph_is_empty(Graph *g, const Tensor *t) { return size_is(graph_numel(g, t), 0); }

int graph_dim(Graph *g, int64_t dim, int rank) {
  int n = rank ? rank : 1; /* a scalar may be asked for its dim 0 */
  if (dim < -n || dim >= n)
    diag_fail(g->cx, g->place, "there is no dim %lld in a tensor of %d dims", (long long)dim, rank);
  return (int)(dim < 0 ? dim + n : dim);
}

/* ---- creation ---------------------------------------------------------------------------------------------------- */

Tensor *graph_input(Graph *g, const char *name, Dtype t, int rank, const Size *const *size) {
  Tensor *x = make(g, GRAPH_INPUT, t, rank, size, 0, NULL);
  x->name = name ? arena_strdup(g->cx->arena, name) : NULL;
  vec_push(g->cx->arena, &g->inputs, x);
  return x;
}

/* A number as a type has it: PyTorch's integers wrap. */
static double number_of(Dtype t, double v) {
  if (t == DT_I1) return v != 0;
  if (!dtype_is_int(t) || dtype_bits(t) > 32) return dtype_is_int(t) ? trunc(v) : v;
  double span = ldexp(1, dtype_bits(t));
  v = fmod(trunc(v), span);
  if (v < 0) v += span;
  return dtype_is_signed(t) && v >= span / 2 ? v - span : v;
}

bool graph_is_number(const Tensor *t, double *v) {
  stack_guard();
  bool convert = t->op == GRAPH_POINT && t->point == POINT_CONVERT;
  if (convert || (graph_is_view(t) && t->in_count == 1 && t->op != GRAPH_PAD)) {
    if (!graph_is_number(t->in[0], v)) return false;
    if (!convert || dtype_is_float(t->dtype)) return true;
    bool fits = fabs(*v) < 0x1p53; /* infinities are no integers, nor NaN */
    if (fits) *v = number_of(t->dtype, *v);
    return fits;
  }
  *v = t->number;
  return t->op == GRAPH_FULL;
}

Tensor *graph_full(Graph *g, Dtype t, int rank, const Size *const *size, double value) {
  Tensor *x = make(g, GRAPH_FULL, t, rank, size, 0, NULL);
  x->number = number_of(t, value);
  return x;
}

Tensor *graph_iota(Graph *g, Dtype t, const Size *n, int64_t start, int64_t step) {
  Tensor *x = make(g, GRAPH_IOTA, t, 1, &n, 0, NULL);
  x->start = start;
  x->step = step;
  return x;
}

Tensor *graph_extent(Graph *g, Dtype t, const Size *value) {
  int64_t v;
  if (size_is_int(value, &v)) return graph_full(g, t, 0, NULL, (double)v);
  Tensor *x = make(g, GRAPH_EXTENT, t, 0, NULL, 0, NULL);
  x->extent = value;
  return x;
}

Tensor *graph_uniform(Graph *g, Dtype t, int rank, const Size *const *size) {
  if (!dtype_is_float(t)) diag_fail(g->cx, g->place, "random numbers of %s", dtype_name(t));
  Tensor *x = make(g, GRAPH_UNIFORM, t, rank, size, 0, NULL);
  x->stream = g->streams++;
  return x;
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

Tensor *graph_point(Graph *g, PointOp op, int n, Tensor *const *in) {
  const PointInfo *p = &graph_points[op];
  if (n != p->operands) diag_fail(g->cx, g->place, "%s takes %d operands, and not %d", p->name, p->operands, n);
  int first = p->result == RESULT_SELECT;
  if (first && in[0]->dtype != DT_I1) wrong(g, "where's condition is bool", in[0], NULL);
  for (int i = 0; i < n; i++) {
    if (!graph_same_shape(in[i], in[0]))
      wrong(g, arena_printf(g->cx->arena, "%s takes operands of one shape", p->name), in[0], in[i]);
    if (i > first && in[i]->dtype != in[first]->dtype)
      wrong(g, arena_printf(g->cx->arena, "%s takes operands of one type", p->name), in[first], in[i]);
  }
  Dtype t = in[first]->dtype;
  if (p->result == RESULT_FLOAT && !dtype_is_float(t))
    wrong(g, arena_printf(g->cx->arena, "%s takes floats", p->name), in[0], NULL);
  if (p->result == RESULT_INT && !dtype_is_int(t))
    wrong(g, arena_printf(g->cx->arena, "%s takes integers or bool", p->name), in[0], NULL);
  Tensor *x = make(g, GRAPH_POINT, p->result == RESULT_TEST ? DT_I1 : t, in[0]->rank, in[0]->size, n, in);
  x->point = op;
  return x;
}

Tensor *graph_convert(Graph *g, Tensor *x, Dtype t) {
  if (x->dtype == t) return x;
  if (x->op == GRAPH_FULL && dtype_is_float(t)) return graph_full(g, t, x->rank, x->size, x->number);
  if (x->op == GRAPH_EXTENT) return graph_extent(g, t, x->extent);
  Tensor *to = make(g, GRAPH_POINT, t, x->rank, x->size, 1, &x);
  to->point = POINT_CONVERT;
  return to;
}

/* ---- reductions, scans ------------------------------------------------------------------------------------------- */

Tensor *graph_reduce(Graph *g, Reduction kind, Tensor *x, int n, const int64_t *dims) {
  const Size *size[GRAPH_MAX_RANK];
  bool out[GRAPH_MAX_RANK] = {false};
  for (int d = 0; d < x->rank; d++) size[d] = x->size[d];
  bool index = kind == REDUCE_ARGMAX || kind == REDUCE_ARGMIN;
  for (int i = 0; i < n; i++) {
    int d = graph_dim(g, dims[i], x->rank);
    if (!x->rank) return index ? graph_full(g, DT_I64, 0, NULL, 0) : x;
    if (out[d]) diag_fail(g->cx, g->place, "dim %d is reduced twice", d);
    if (size_is(x->size[d], 0) && kind != REDUCE_SUM && kind != REDUCE_PROD)
      diag_fail(g->cx, g->place, "the %s of no elements", graph_reductions[kind]);
    out[d] = true;
    size[d] = size_int(g, 1);
  }
  if (index && n != 1) diag_fail(g->cx, g->place, "%s is along one dim", graph_reductions[kind]);
  int64_t sorted[GRAPH_MAX_RANK];
  int m = 0;
  for (int d = 0; d < x->rank; d++)
    if (out[d]) sorted[m++] = d;
  if (!m) return x;
  for (int i = 0; i < m; i++) /* of nothing */
    if (size_is(x->size[sorted[i]], 0)) return graph_full(g, x->dtype, x->rank, size, kind == REDUCE_PROD);
  int64_t count;
  const Size *reduced[GRAPH_MAX_RANK];
  for (int i = 0; i < m; i++) reduced[i] = x->size[sorted[i]];
  if (kind == REDUCE_SUM && x->op == GRAPH_FULL && dtype_is_float(x->dtype) &&
      size_is_int(size_product(g, m, reduced), &count))
    return graph_full(g, x->dtype, x->rank, size, x->number * (double)count);
  Tensor *t = make(g, GRAPH_REDUCE, index ? DT_I64 : x->dtype, x->rank, size, 1, &x);
  t->kind = kind;
  set_dims(g, t, m, sorted);
  return t;
}

Tensor *graph_scan(Graph *g, GraphOp op, Tensor *x, int dim) {
  bool index = op == GRAPH_CUMARGMAX || op == GRAPH_CUMARGMIN;
  if (op == GRAPH_CUMLOGSUMEXP && !dtype_is_float(x->dtype)) wrong(g, "cumlogsumexp takes floats", x, NULL);
  if (!x->rank) return index ? graph_full(g, DT_I64, 0, NULL, 0) : x;
  int64_t d = graph_dim(g, dim, x->rank);
  Tensor *t = make(g, op, index ? DT_I64 : x->dtype, x->rank, x->size, 1, &x);
  t->dim = d;
  return t;
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

Tensor *graph_permute(Graph *g, Tensor *x, const int64_t *dims) {
  stack_guard();
  const Size *size[GRAPH_MAX_RANK];
  int64_t to[GRAPH_MAX_RANK];
  bool seen[GRAPH_MAX_RANK] = {false}, same = true;
  for (int d = 0; d < x->rank; d++) {
    to[d] = graph_dim(g, dims[d], x->rank);
    if (seen[to[d]]) diag_fail(g->cx, g->place, "a permutation names dim %d twice", (int)to[d]);
    seen[to[d]] = true;
    same &= to[d] == d;
    size[d] = x->size[to[d]];
  }
  if (same) return x;
  if (x->op == GRAPH_FULL) return graph_full(g, x->dtype, x->rank, size, x->number);
  if (x->op == GRAPH_PERMUTE) {
    for (int d = 0; d < x->rank; d++) to[d] = x->dims[to[d]];
    return graph_permute(g, x->in[0], to);
  }
  Tensor *t = make(g, GRAPH_PERMUTE, x->dtype, x->rank, size, 1, &x);
  set_dims(g, t, x->rank, to);
  return t;
}

Tensor *graph_reshape(Graph *g, Tensor *x, int rank, const Size *const *size) {
  stack_guard();
  if (size_product(g, rank, size) != graph_numel(g, x)) {
    Tensor like = {.dtype = x->dtype, .rank = rank, .size = (const Size **)size};
    wrong(g, "a view has as many elements as its tensor", x, &like);
  }
  Tensor shape = {.rank = rank, .size = (const Size **)size};
  if (graph_same_shape(x, &shape)) return x;
  if (x->op == GRAPH_FULL) return graph_full(g, x->dtype, rank, size, x->number);
  if (x->op == GRAPH_RESHAPE) return graph_reshape(g, x->in[0], rank, size);
  return make(g, GRAPH_RESHAPE, x->dtype, rank, size, 1, &x);
}

Tensor *graph_expand(Graph *g, Tensor *x, int rank, const Size *const *size) {
  stack_guard();
  if (rank > x->rank) { /* leading dims */
    const Size *padded[GRAPH_MAX_RANK];
    if (rank > GRAPH_MAX_RANK) diag_fail(g->cx, g->place, "a tensor has at most %d dims", GRAPH_MAX_RANK);
    for (int d = 0; d < rank; d++) padded[d] = d < rank - x->rank ? size_int(g, 1) : x->size[d - (rank - x->rank)];
    x = graph_reshape(g, x, rank, padded);
  }
  Tensor like = {.dtype = x->dtype, .rank = rank, .size = (const Size **)size};
  if (rank < x->rank) wrong(g, "an expansion has as many dims as its tensor, or more", x, &like);
  for (int d = 0; d < rank; d++)
    if (x->size[d] != size[d] && !size_is(x->size[d], 1)) wrong(g, "only dims of size 1 expand", x, &like);
  if (graph_same_shape(x, &like)) return x;
  if (x->op == GRAPH_FULL) return graph_full(g, x->dtype, rank, size, x->number);
  if (x->op == GRAPH_EXPAND) return graph_expand(g, x->in[0], rank, size);
  return make(g, GRAPH_EXPAND, x->dtype, rank, size, 1, &x);
}

Tensor *graph_slice(Graph *g, Tensor *x, int dim, const Size *first, const Size *count, int64_t step) {
  const Size *size[GRAPH_MAX_RANK];
  if (!x->rank) diag_fail(g->cx, g->place, "a scalar cannot be sliced");
  for (int d = 0; d < x->rank; d++) size[d] = d == dim ? count : x->size[d];
  if (!step) diag_fail(g->cx, g->place, "a slice has a step other than 0");
  int64_t n, from, all;
  if (size_is_int(count, &n) && size_is_int(first, &from) && size_is_int(x->size[dim], &all) && n > 0) {
    int64_t last = from + (n - 1) * step;
    if (from < 0 || from >= all || last < 0 || last >= all)
      diag_fail(g->cx, g->place, "a slice from %lld to %lld of a dim of %lld", (long long)from, (long long)last,
                (long long)all);
  }
  if (count == x->size[dim] && step == 1 && size_is(first, 0)) return x;
  Tensor *t = make(g, GRAPH_SLICE, x->dtype, x->rank, size, 1, &x);
  t->dim = dim;
  t->step = step;
  t->first = first;
  return t;
}

Tensor *graph_pad(Graph *g, Tensor *x, const Size *const *before, const int64_t *between, const Size *const *size,
                  double value) {
  const Size *low[GRAPH_MAX_RANK];
  int64_t gap[GRAPH_MAX_RANK];
  bool nothing = true;
  for (int d = 0; d < x->rank; d++) {
    low[d] = before ? before[d] : size_int(g, 0);
    gap[d] = between ? between[d] : 0;
    nothing &= size_is(low[d], 0) && !gap[d] && size[d] == x->size[d];
    if (gap[d] < 0) diag_fail(g->cx, g->place, "padding of %lld elements between two", (long long)gap[d]);
  }
  if (nothing) return x;
  value = number_of(x->dtype, value);
  if (graph_is_empty(g, x)) return graph_full(g, x->dtype, x->rank, size, value);
  Tensor *t = make(g, GRAPH_PAD, x->dtype, x->rank, size, 1, &x);
  set_dims(g, t, x->rank, gap);
  t->before_count = x->rank;
  t->before = arena_copy(g->cx->arena, low, sizeof *low * (size_t)(x->rank + 1));
  t->number = value;
  return t;
}

Tensor *graph_concat(Graph *g, int n, Tensor *const *in, int dim) {
  if (!n) diag_fail(g->cx, g->place, "a concatenation of nothing");
  if (n == 1) return in[0];
  const Size *size[GRAPH_MAX_RANK], *total = size_int(g, 0);
  if (!in[0]->rank) diag_fail(g->cx, g->place, "scalars cannot be concatenated");
  for (int i = 0; i < n; i++) {
    bool fits = in[i]->rank == in[0]->rank && in[i]->dtype == in[0]->dtype;
    for (int d = 0; fits && d < in[0]->rank; d++) fits = d == dim || in[i]->size[d] == in[0]->size[d];
    if (!fits) wrong(g, "a concatenation takes tensors that are alike but for one dim", in[0], in[i]);
    total = size_add(g, total, in[i]->size[dim]);
  }
  for (int d = 0; d < in[0]->rank; d++) size[d] = d == dim ? total : in[0]->size[d];
  Tensor **some = NEW_N(g->cx->arena, Tensor *, n);
  int m = 0;
  for (int i = 0; i < n; i++)
    if (!size_is(in[i]->size[dim], 0)) some[m++] = in[i];
  if (m < 2) return m ? some[0] : in[0];
  Tensor *t = make(g, GRAPH_CONCAT, in[0]->dtype, in[0]->rank, size, m, some);
  t->dim = dim;
  return t;
}

Tensor *graph_unfold(Graph *g, Tensor *x, int dim, int64_t window, int64_t step, int64_t dilation) {
  const Size *size[GRAPH_MAX_RANK + 1];
  if (!x->rank) diag_fail(g->cx, g->place, "a scalar has no windows");
  if (window < 1 || step < 1 || dilation < 1)
    diag_fail(g->cx, g->place, "windows of %lld elements, %lld apart, a step of %lld", (long long)window,
              (long long)dilation, (long long)step);
  if (x->rank == GRAPH_MAX_RANK) diag_fail(g->cx, g->place, "a tensor has at most %d dims", GRAPH_MAX_RANK);
  int64_t reach = (window - 1) * dilation, n;
  const Size *last = size_sub(g, x->size[dim], size_int(g, reach + 1)),
             *count = size_divide(g, last, size_int(g, step));
  if (size_is_int(last, &n)) {
    if (n < 0)
      diag_fail(g->cx, g->place, "a window of %lld elements in a dim of %s", (long long)reach + 1, x->size[dim]->text);
    count = size_int(g, n / step);
  }
  if (!count) diag_fail(g->cx, g->place, "windows %lld apart in a dim of %s", (long long)step, x->size[dim]->text);
  for (int d = 0; d < x->rank; d++) size[d] = d == dim ? size_add(g, count, size_int(g, 1)) : x->size[d];
  size[x->rank] = size_int(g, window);
  Tensor *t = make(g, GRAPH_UNFOLD, x->dtype, x->rank + 1, size, 1, &x);
  t->dim = dim;
  t->window = window;
  t->step = step;
  t->dilation = dilation;
  return t;
}

Tensor *graph_detach(Graph *g, Tensor *x, Tensor *twin) {
  if (twin && (!graph_same_shape(x, twin) || x->dtype != twin->dtype))
    wrong(g, "a tensor and the one that has its gradient are alike", x, twin);
  return make(g, GRAPH_DETACH, x->dtype, x->rank, x->size, twin ? 2 : 1, (Tensor *[]){x, twin});
}

/* ---- places that are data, products ------------------------------------------------------------------------------ */

static void check_index(Graph *g, const char *what, Tensor *x, Tensor *index, int dim) {
  if (!dtype_is_int(index->dtype) || index->dtype == DT_I1)
    wrong(g, arena_printf(g->cx->arena, "%s takes an index of integers", what), index, NULL);
  bool fits = x->rank == index->rank && x->rank;
  for (int d = 0; fits && d < x->rank; d++) fits = d == dim || x->size[d] == index->size[d];
  if (!fits)
    wrong(g, arena_printf(g->cx->arena, "%s takes an index of its tensor's shape but in one dim", what), x, index);
}

Tensor *graph_gather(Graph *g, Tensor *x, Tensor *index, int dim) {
  check_index(g, "gather", x, index, dim);
  Tensor *t = make(g, GRAPH_GATHER, x->dtype, index->rank, index->size, 2, (Tensor *[]){x, index});
  t->dim = dim;
  return t;
}

Tensor *graph_scatter(Graph *g, Tensor *x, Tensor *index, Tensor *src, int dim, ScatterMode mode) {
  check_index(g, "scatter", x, index, dim);
  if (!graph_same_shape(index, src) || src->dtype != x->dtype)
    wrong(g, "scatter takes a source of the index's shape and its tensor's type", index, src);
  if ((mode == SCATTER_MAX || mode == SCATTER_MIN) && dtype_bits(x->dtype) < 32)
    wrong(g, "a scatter of maxima takes elements of 32 or 64 bits", x, NULL);
  Tensor *t = make(g, GRAPH_SCATTER, x->dtype, x->rank, x->size, 3, (Tensor *[]){x, index, src});
  t->dim = dim;
  t->mode = mode;
  return t;
}

Tensor *graph_sort(Graph *g, Tensor *x, int dim, bool descending, const Size *count) {
  const Size *size[GRAPH_MAX_RANK];
  int64_t n, k;
  if (!x->rank) diag_fail(g->cx, g->place, "a scalar cannot be sorted");
  for (int d = 0; d < x->rank; d++) size[d] = d == dim ? count : x->size[d];
  if (!size_is_int(x->size[dim], &n) || !size_is_int(count, &k))
    diag_fail(g->cx, g->place, "a sort of %s elements: how many there are must be known", x->size[dim]->text);
  if (k < 0 || k > n) diag_fail(g->cx, g->place, "the first %lld of %lld elements", (long long)k, (long long)n);
  if (n > UINT32_MAX) diag_fail(g->cx, g->place, "a sort of more than 2^32 - 1 elements");
  Tensor *t = make(g, GRAPH_SORT, DT_I64, x->rank, size, 1, &x);
  t->dim = dim;
  t->descending = descending;
  return t;
}

Tensor *graph_sort_found(Graph *g, const Tensor *sort, Tensor *places) {
  if (places->dtype != sort->dtype || !graph_same_shape(sort, places))
    wrong(g, "a sort's places have its type and shape", sort, places);
  Tensor *t = make(g, GRAPH_SORT, DT_I64, sort->rank, sort->size, 2, (Tensor *[]){sort->in[0], places});
  t->dim = sort->dim;
  t->descending = sort->descending;
  return t;
}

Tensor *graph_sort_keys(Graph *g, Tensor *x, bool upper, bool descending) {
  if (!x->rank) diag_fail(g->cx, g->place, "a scalar cannot be sorted");
  Tensor *t = make(g, GRAPH_SORT_KEYS, DT_I64, x->rank, x->size, 1, &x);
  t->word = upper;
  t->descending = descending;
  return t;
}

static int64_t want_keys(Graph *g, const char *what, const Tensor *keys, int64_t block) {
  int64_t n;
  if (keys->dtype != DT_I64 || !keys->rank || !size_is_int(keys->size[keys->rank - 1], &n))
    wrong(g, arena_printf(g->cx->arena, "%s takes keys in rows of a known size", what), keys, NULL);
  if (block < 1 || block > INT64_C(1) << 40 || block & (block - 1))
    diag_fail(g->cx, g->place, "%s goes by a power of two, and not %lld", what, (long long)block);
  return n;
}

Tensor *graph_sort_blocks(Graph *g, Tensor *keys, int64_t block, int64_t kept) {
  const Size *size[GRAPH_MAX_RANK];
  int64_t n = want_keys(g, "sort_blocks", keys, block), rest = n % block;
  if (kept < 0 || kept > block)
    diag_fail(g->cx, g->place, "%lld elements of a block of %lld", (long long)kept, (long long)block);
  for (int d = 0; d < keys->rank; d++) size[d] = keys->size[d];
  size[keys->rank - 1] = size_int(g, n / block * kept + (rest < kept ? rest : kept));
  Tensor *t = make(g, GRAPH_SORT_BLOCKS, DT_I64, keys->rank, size, 1, &keys);
  t->block = block;
  t->kept = kept;
  return t;
}

Tensor *graph_merge_runs(Graph *g, Tensor *keys, int64_t run) {
  want_keys(g, "merge_runs", keys, run);
  Tensor *t = make(g, GRAPH_MERGE_RUNS, DT_I64, keys->rank, keys->size, 1, &keys);
  t->run = run;
  return t;
}

/* Of an operand of a convolution, its channels second. */
static bool has_sizes(const Tensor *t, bool channels_last, int64_t *out) {
  for (int d = 0; d < t->rank; d++) {
    const Size *size = t->size[!channels_last || !d ? d : d == 1 ? t->rank - 1 : d - 1];
    if (!size_is_int(size, &out[d]) || out[d] < 1 || out[d] > INT32_MAX) return false;
  }
  return true;
}

bool graph_convolution_of(const Tensor *like, Tensor *const *in, Convolution *out, const char **why) {
  int64_t size[3][2 + CONVOLUTION_DIMS]; /* of the image, the filter, the result */
  static const int places[CONVOLUTION_PARTS][3] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}};
  const Tensor *of[] = {in[0], in[1], like};
  int dims = like->rank - 2;
  *why = "a convolution is of three tensors of one float type, of 1 to 3 dims";
  for (int i = 0; i < 3; i++)
    if (of[i]->rank != like->rank || of[i]->dtype != like->dtype) return false;
  if (dims < 1 || dims > CONVOLUTION_DIMS || !dtype_is_float(like->dtype)) return false;
  *why = "a convolution's sizes are known, and not 0";
  for (int i = 0; i < 3; i++)
    if (!has_sizes(of[i], like->channels_last, size[places[like->part][i]])) return false;
  *why = "a convolution has strides, paddings and dilations";
  if (like->dim_count != 3 * dims) return false;
  const int64_t *x = size[0], *w = size[1], *y = size[2], g = like->groups;
  *out = (Convolution){.part = (ConvolutionPart)like->part,
                       .dims = dims,
                       .n = x[0],
                       .channels = x[1],
                       .filters = y[1],
                       .groups = g,
                       .channels_last = like->channels_last};
  *why = "a convolution's channels";
  if (g < 1 || x[1] % g || y[1] % g || y[0] != x[0] || w[0] != y[1] || w[1] != x[1] / g) return false;
  for (int d = 0; d < dims; d++) {
    int64_t s = like->dims[d], p = like->dims[dims + d], r = like->dims[2 * dims + d];
    *why = "a convolution's strides, paddings and dilations";
    if (s < 1 || p < 0 || r < 1 || s > INT32_MAX || p > INT32_MAX || r > INT32_MAX) return false;
    int64_t room = x[2 + d] + 2 * p - r * (w[2 + d] - 1) - 1;
    *why = "a convolution's places";
    if (room < 0 || room / s + 1 != y[2 + d]) return false;
    out->image[d] = x[2 + d], out->kernel[d] = w[2 + d], out->places[d] = y[2 + d];
    out->stride[d] = s, out->padding[d] = p, out->dilation[d] = r;
  }
  return true;
}

Tensor *graph_convolution(Graph *g, const Tensor *like, int n, Tensor *const *in) {
  Convolution c;
  const char *why;
  if (n > 3) diag_fail(g->cx, g->place, "a convolution takes 2 or 3 operands, and not %d", n);
  if (!graph_convolution_of(like, in, &c, &why)) wrong(g, why, in[0], in[1]);
  if (n == 3 && (in[2]->dtype != like->dtype || !graph_same_shape(in[2], like)))
    wrong(g, "a convolution is what computes it", like, in[2]);
  Tensor *t = make(g, GRAPH_CONVOLUTION, like->dtype, like->rank, like->size, n, in);
  memcpy(t->attr, like->attr, sizeof t->attr);
  set_dims(g, t, like->dim_count, like->dims);
  return t;
}

Tensor *graph_product(Graph *g, Tensor *a, Tensor *b, bool tf32) {
  bool fits = a->rank == b->rank && a->rank >= 2 && a->dtype == b->dtype;
  for (int d = 0; fits && d < a->rank - 2; d++) fits = a->size[d] == b->size[d];
  if (!fits || a->size[a->rank - 1] != b->size[b->rank - 2])
    wrong(g, "a product takes [.., M, K] and [.., K, N] of one type", a, b);
  const Size *size[GRAPH_MAX_RANK];
  for (int d = 0; d < a->rank; d++) size[d] = d == a->rank - 1 ? b->size[d] : a->size[d];
  if (graph_is_empty(g, a) || graph_is_empty(g, b)) return graph_full(g, a->dtype, a->rank, size, 0);
  Tensor *t = make(g, GRAPH_PRODUCT, a->dtype, a->rank, size, 2, (Tensor *[]){a, b});
  t->tf32 = tf32;
  return t;
}
