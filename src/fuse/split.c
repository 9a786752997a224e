/* Reductions that are better computed otherwise, before kernels are planned.
 *
 * One of many elements to few would be the work of a few programs. It becomes two: parts of each row by many programs,
 * then the parts.
 *
 * Where no number divides a row well (its length is a prime), the last part is filled up with what changes nothing.
 *
 * Of one whose rows lie in short runs, others' between them, a program would read a few bytes here and there: a group
 * of 8 of 64 channels that lie last. It becomes two as well: a program goes along what is reduced before, for
 * neighbours in memory side by side, and what comes of that is reduced further.
 *
 *     sum of [n, pixels, group, 8] over dims 1 and 3:  [n, parts, pixels / parts, group, 8] to [n, parts, group, 8],
 *                                                      [n, parts, group, 8] to [n, group]
 *
 * One over a small window (pooling) becomes elementwise work on the window's places: neighbours' windows overlap, so
 * that each element is in the cache when the next one asks, and each place is read as rows are. On a CPU one over many
 * places goes dim by dim: of 11 x 11 places 11 are added up, then 11 of these sums, in place of 121. */
#include <math.h>

#include "fuse/fuse.h"

enum {
  FEW = 8,            /* rows, columns, terms of a product that has no tiles */
  FEW_PROGRAMS = 128, /* parts do not fuse with what needs the whole: only where processors would stand idle */
  MANY_PROGRAMS = 2048,
  MANY = 1 << 17,        /* elements */
  MANY_OF_ONE = 1 << 15, /* of a single row */
  LEAST_PART = 2048,     /* of a part */
  LEAST_ACROSS = 256,    /* and of one across rows */
  LINE = 128,            /* bytes of memory that are read together */
  MOST_PARTS = 512,
  EACH = 16, /* elements of a part that is filled up are a multiple of */
  SIDE = 128,
  WINDOW = 32,      /* elements of a window */
  CPU_WINDOW = 128, /* on a CPU, where places in a row of windows would be divided */
  LEAST_DIM_BY_DIM = 16,
  K_SIDE = 64, /* of a tile of a product */
  LEAST_K = 256
};

static bool is_reduced(const Tensor *t, int d) {
  for (int i = 0; i < t->dim_count; i++)
    if (t->dims[i] == d) return true;
  return false;
}

/* Elements of x's dims from *d downwards that are reduced or not, as asked; *d: the first that is not so. 0: unknown.
 */
static int64_t run_of(const Tensor *t, bool reduced, int *d) {
  const Tensor *x = t->in[0];
  int64_t run = 1, n;
  for (; *d >= 0 && (is_reduced(t, *d) == reduced || size_is(x->size[*d], 1)); --*d) {
    if (!size_is_int(x->size[*d], &n)) return 0;
    run *= n;
  }
  return run;
}

/* How many reduced dims stand before the last kept ones, where rows are long and lie in runs shorter than a line,
 * others' beside them; else 0. *run: elements of such a run. */
static int before_runs(Graph *g, const Tensor *t, int64_t *run) {
  const Tensor *x = t->in[0];
  int64_t bytes = dtype_bytes(x->dtype), rows, all, side;
  int d = x->rank - 1, count = 0;
  if (!size_is_int(graph_numel(g, t), &rows) || !size_is_int(graph_numel(g, x), &all)) return 0;
  *run = run_of(t, true, &d);
  side = *run * run_of(t, false, &d);
  if (*run < 2 || *run * bytes >= LINE || side * bytes < LINE) return 0;
  if (all / rows <= FUSE_HELD || all / rows / *run < LEAST_ACROSS) return 0;
  while (count < t->dim_count && t->dims[count] <= d) count++;
  return count;
}

/* What changes no result of a reduction, as a number; false: a double does not hold it. */
static bool neutral_number(Reduction kind, Dtype t, double *out) {
  int bits = dtype_bits(t);
  bool is_signed = dtype_is_float(t) || (t != DT_I1 && t != DT_U8);
  if (kind == REDUCE_ARGMAX || kind == REDUCE_ARGMIN) kind = kind == REDUCE_ARGMAX ? REDUCE_MAX : REDUCE_MIN;
  double most = dtype_is_float(t) ? INFINITY : t == DT_I1 ? 1 : ldexp(1, bits - is_signed) - 1;
  *out = kind == REDUCE_PROD ? 1 : kind == REDUCE_MIN ? most : 0;
  if (kind == REDUCE_MAX) *out = dtype_is_float(t) ? -INFINITY : is_signed && t != DT_I1 ? -most - 1 : 0;
  return dtype_is_float(t) || bits <= 32 || kind == REDUCE_SUM || kind == REDUCE_PROD;
}

/* How a reduced dim is cut, where there are `before` parts already; parts 1: not at all. run: of each row so many are
 * neighbours that are not reduced yet. *few_still: that is too few still. */
static void cut_dim(Graph *g, const Tensor *t, FuseCut *c, int64_t before, int64_t run, const FuseTarget *target,
                    bool *few_still) {
  int64_t rows, all, n;
  double neutral;
  *few_still = false;
  c->parts = 1;
  c->each = 0;
  if (!size_is_int(graph_numel(g, t), &rows) || !size_is_int(graph_numel(g, t->in[0]), &all)) return;
  bool across = run > 1 || !fuse_goes_along_rows(t); /* of neighbours a program takes SIDE */
  int64_t few = target->kind == TARGET_CPU ? 2 * target->processors : FEW_PROGRAMS;
  rows *= run;
  int64_t programs = (across ? cdiv(rows, SIDE) : rows) * before, least = across ? LEAST_ACROSS : LEAST_PART;
  if (!rows || programs >= few || all < (rows == 1 ? MANY_OF_ONE : MANY) ||
      !size_is_int(t->in[0]->size[t->dims[c->begin]], &n))
    return;
  int64_t most = 2, longest = all / rows / before / least;
  while (most < MOST_PARTS && most < n && programs * (most + 1) <= MANY_PROGRAMS) most++;
  for (int64_t k = 2; k <= most && k <= n; k++)
    if (n % k == 0 && longest >= k) c->parts = k;
  *few_still = c->parts == n && programs * n < few;
  if (most > longest) most = longest;
  if (programs * c->parts >= few || most < 2 * c->parts ||
      !neutral_number((Reduction)t->kind, t->in[0]->dtype, &neutral))
    return;
  c->each = cdiv(n, most);
  if (c->each > EACH) c->each = cdiv(c->each, EACH) * EACH; /* parts begin where lines of memory do */
  c->parts = cdiv(n, c->each);
}

/* Of a product with few terms, which stream.c may compute again where it is needed: its rows are left whole. */
static bool is_of_tile(Graph *g, const Tensor *t, const Size *count, Map *seen) {
  stack_guard();
  int64_t terms;
  if (map_has(seen, t)) return false;
  map_put(seen, t, g);
  if (t->op == GRAPH_PRODUCT)
    return graph_numel(g, t) == count && size_is_int(t->in[0]->size[t->rank - 1], &terms) && terms <= 256;
  if (t->op != GRAPH_POINT && !graph_is_view(t)) return false;
  for (int i = 0; i < t->in_count; i++)
    if (is_of_tile(g, t->in[i], count, seen)) return true;
  return false;
}

static bool can_cut(Graph *g, const Tensor *t) {
  bool is_place = t->op == GRAPH_REDUCE && (t->kind == REDUCE_ARGMAX || t->kind == REDUCE_ARGMIN);
  return t->op == GRAPH_REDUCE && t->dim_count && (!is_place || t->dim_count == 1) && t->in[0]->rank < GRAPH_MAX_RANK &&
         !is_of_tile(g, t->in[0], graph_numel(g, t->in[0]), map_create(g->cx->arena, false));
}

/* Where the first reduced dims are short, each of their elements is a part, and the next one is cut. */
bool fuse_cut(Graph *g, const Tensor *t, const FuseTarget *target, FuseCut *out) {
  int64_t before = 1, run = 1;
  bool few = can_cut(g, t);
  *out = (FuseCut){.parts = 1, .end = t->dim_count};
  if (!few) return false;
  int outer = before_runs(g, t, &run);
  if (outer) out->end = outer;
  else run = 1;
  while (few && out->begin < out->end) {
    cut_dim(g, t, out, before, run, target, &few);
    if (few && ++out->begin) before *= out->parts;
  }
  if (few) out->parts = 1;
  if (out->begin == out->end) return false;
  out->dim = (int)t->dims[out->begin];
  out->whole = t->in[0]->size[out->dim];
  return outer || before * out->parts >= 2;
}

/* Whether t has all elements of the dim that is cut, filled up or not, and not one for all of them. */
static bool is_whole(Graph *g, const FuseCut *c, const Tensor *t) {
  return t->size[c->dim] == c->whole || (c->each && t->size[c->dim] == size_int(g, c->parts * c->each));
}

int fuse_cut_sizes(Graph *g, const FuseCut *c, const Tensor *t, const Size **size) {
  bool is_cut = c->parts > 1, whole = is_whole(g, c, t);
  for (int i = 0; i < t->rank; i++) size[i + (is_cut && i > c->dim)] = t->size[i];
  if (!is_cut) return t->rank;
  size[c->dim] = size_int(g, whole ? c->parts : 1);
  size[c->dim + 1] = whole && c->each ? size_int(g, c->each) : size_divide(g, t->size[c->dim], size[c->dim]);
  return t->rank + 1;
}

/* t, whose last part is filled up where parts do not come out even. */
static Tensor *filled(Graph *g, const FuseCut *c, Tensor *t, double number) {
  const Size *size[GRAPH_MAX_RANK];
  if (!c->each || !is_whole(g, c, t)) return t;
  for (int d = 0; d < t->rank; d++) size[d] = t->size[d];
  size[c->dim] = size_int(g, c->parts * c->each);
  return graph_pad(g, t, NULL, NULL, size, number);
}

Tensor *fuse_cut_shape(Graph *g, const FuseCut *c, Tensor *t, double number) {
  const Size *size[GRAPH_MAX_RANK];
  int rank = fuse_cut_sizes(g, c, t, size);
  return graph_reshape(g, filled(g, c, t, number), rank, size);
}

Tensor *fuse_cut_parts(Graph *g, const FuseCut *c, const Tensor *t, Tensor *x) {
  int64_t dims[GRAPH_MAX_RANK];
  for (int i = c->begin; i < c->end; i++) dims[i] = t->dims[i] + (c->parts > 1);
  return graph_reduce(g, (Reduction)t->kind, x, c->end - c->begin, dims + c->begin);
}

Tensor *fuse_cut_whole(Graph *g, const FuseCut *c, const Tensor *t, Tensor *parts) {
  int64_t dims[GRAPH_MAX_RANK];
  int n = 0;
  for (int i = 0; i < t->dim_count; i++)
    if (i < c->begin || i >= c->end || (i == c->begin && c->parts > 1))
      dims[n++] = t->dims[i] + (i >= c->end && c->parts > 1);
  return graph_reshape(g, graph_reduce(g, (Reduction)t->kind, parts, n, dims), t->rank, t->size);
}

/* The place of an extreme value: each part's, beside its value; and of the part that has the first such value. */
static Tensor *split_place(Graph *g, Tensor *t, const FuseCut *c, Tensor *x) {
  int64_t d = c->dim, inner = d + 1, each = c->each;
  if (!each && !size_is_int(size_divide(g, c->whole, size_int(g, c->parts)), &each)) return NULL;
  Tensor *places = graph_reduce(g, (Reduction)t->kind, x, 1, &inner);
  Tensor *values = graph_reduce(g, t->kind == REDUCE_ARGMAX ? REDUCE_MAX : REDUCE_MIN, x, 1, &inner);
  Tensor *part = graph_reduce(g, (Reduction)t->kind, values, 1, &d);
  Tensor *first = graph_full(g, part->dtype, part->rank, part->size, (double)each);
  first = graph_point(g, POINT_MUL, 2, (Tensor *[]){part, first});
  Tensor *place = graph_point(g, POINT_ADD, 2, (Tensor *[]){first, graph_gather(g, places, part, (int)d)});
  return graph_reshape(g, place, t->rank, t->size);
}

static Tensor *split(Graph *g, Tensor *t, const FuseTarget *target) {
  FuseCut c;
  double neutral = 0;
  if (!fuse_cut(g, t, target, &c)) return NULL;
  bool is_place = t->kind == REDUCE_ARGMAX || t->kind == REDUCE_ARGMIN;
  neutral_number((Reduction)t->kind, t->in[0]->dtype, &neutral);
  Tensor *x = fuse_cut_shape(g, &c, t->in[0], neutral);
  if (is_place) return c.parts > 1 ? split_place(g, t, &c, x) : NULL;
  return fuse_cut_whole(g, &c, t, fuse_cut_parts(g, &c, t, x));
}

/* What is known of tensors' dims, a bit each. */
typedef struct Windows {
  Graph *g;
  Map *of; /* of a tensor, Dims */
} Windows;

typedef struct Dims {
  uint64_t asked, are;
} Dims;

static bool is_window(const Windows *w, const Tensor *t, int d);

/* Of a reshape's dim: of all dims of the operand that it joins. */
static bool joins_windows(const Windows *w, const Tensor *t, int d) {
  Graph *g = w->g;
  const Tensor *x = t->in[0];
  const Size *before = size_product(g, d, t->size);
  int e = 0, end;
  while (e < x->rank && size_product(g, e, x->size) != before) e++;
  for (end = e; end < x->rank && size_product(g, end - e, x->size + e) != t->size[d]; end++)
    if (!size_is(x->size[end], 1) && !is_window(w, x, end)) return false;
  return end > e && size_product(g, end - e, x->size + e) == t->size[d];
}

static bool finds_window(const Windows *w, const Tensor *t, int d) {
  const Tensor *x = t->in_count ? t->in[0] : NULL;
  switch (t->op) {
    case GRAPH_UNFOLD: return d == t->rank - 1 || is_window(w, x, d);
    case GRAPH_PERMUTE: return is_window(w, x, (int)t->dims[d]);
    case GRAPH_RESHAPE: return joins_windows(w, t, d);
    case GRAPH_EXPAND: return t->rank == x->rank && is_window(w, x, d);
    case GRAPH_SLICE:
    case GRAPH_PAD: return is_window(w, x, d);
    case GRAPH_POINT:
      for (int i = 0; i < t->in_count; i++)
        if (is_window(w, t->in[i], d)) return true;
      return false;
    default: return false;
  }
}

/* Whether dim d counts the places of a window. Elementwise work has many ways to an operand: each is asked once. */
static bool is_window(const Windows *w, const Tensor *t, int d) {
  stack_guard();
  Dims *dims = map_get(w->of, t);
  if (!dims) map_put(w->of, t, dims = NEW(w->g->cx->arena, Dims));
  uint64_t bit = UINT64_C(1) << d;
  if (!(dims->asked & bit)) {
    dims->asked |= bit;
    if (finds_window(w, t, d)) dims->are |= bit;
  }
  return dims->are & bit;
}

static bool is_small_window(Graph *g, const Tensor *t, const FuseTarget *target) {
  Windows w = {g, map_create(g->cx->arena, false)};
  int64_t n = 1, size, most = target->kind == TARGET_CPU ? CPU_WINDOW : WINDOW;
  if (t->kind == REDUCE_ARGMAX || t->kind == REDUCE_ARGMIN) return false;
  for (int i = 0; i < t->dim_count; i++) {
    if (!size_is_int(t->in[0]->size[t->dims[i]], &size) || size > most) return false;
    if (size > 1 && !is_window(&w, t->in[0], (int)t->dims[i])) return false;
    n *= size;
  }
  return n >= 2 && n <= most;
}

/* All places of the dims from `first` on. */
static Tensor *unroll(Graph *g, const Tensor *t, Tensor *x, int first) {
  static const PointOp ops[] = {
      [REDUCE_SUM] = POINT_ADD, [REDUCE_PROD] = POINT_MUL, [REDUCE_MAX] = POINT_MAXIMUM, [REDUCE_MIN] = POINT_MINIMUM};
  if (first == t->dim_count) return x;
  Tensor *all = NULL;
  int64_t n;
  int d = (int)t->dims[first];
  size_is_int(x->size[d], &n);
  for (int64_t i = 0; i < n; i++) {
    Tensor *one = unroll(g, t, graph_slice(g, x, d, size_int(g, i), size_int(g, 1), 1), first + 1);
    all = all ? graph_point(g, ops[t->kind], 2, (Tensor *[]){all, one}) : one;
  }
  return all;
}

/* The windows of x, last dim last: how many there are, and what they are taken of. */
static int windows_of(Tensor *x, Tensor **each) {
  int n = 0;
  for (; x->op == GRAPH_UNFOLD && n < GRAPH_MAX_RANK; x = x->in[0]) each[n++] = x;
  return n;
}

/* A reduction over all places of windows that go along two dims, on a CPU: along one dim after the other. What comes of
 * the first is stored; of three dims two would be, which costs more than it saves. NULL: it is none. */
static Tensor *dim_by_dim(Graph *g, const Tensor *t, const FuseTarget *target) {
  Tensor *x = t->in[0], *each[GRAPH_MAX_RANK];
  int64_t places, all = 1;
  if (target->kind != TARGET_CPU || x->op != GRAPH_RESHAPE || t->dim_count != 1 || t->dims[0] != x->rank - 1)
    return NULL;
  if (dtype_bits(t->dtype) < 32 && t->kind != REDUCE_MAX && t->kind != REDUCE_MIN) return NULL; /* they are rounded */
  int n = windows_of(x->in[0], each);
  if (n != 2 || x->in[0]->rank != x->rank - 1 + n || !size_is_int(x->size[x->rank - 1], &places)) return NULL;
  for (int i = 0; i < n; i++) {
    if (each[i]->window < 2 || each[i]->dim >= x->rank - 1) return NULL;
    for (int k = 0; k < i; k++)
      if (each[k]->dim == each[i]->dim) return NULL;
    all *= each[i]->window;
  }
  if (all != places || places < LEAST_DIM_BY_DIM) return NULL;
  Tensor *y = each[n - 1]->in[0];
  for (int i = n - 1; i >= 0; i--) {
    int64_t order[GRAPH_MAX_RANK], dim = each[i]->dim + 1;
    y = graph_unfold(g, y, (int)each[i]->dim, each[i]->window, each[i]->step, each[i]->dilation);
    for (int d = 0; d < y->rank; d++) order[d] = d < dim ? d : d == dim ? y->rank - 1 : d - 1;
    y = graph_permute(g, y, order); /* places before the dims after them, along which memory goes */
    Tensor *stored = graph_reduce(g, (Reduction)t->kind, y, 1, &dim);
    y = i ? stored : unroll(g, stored, y, 0);
    const Size *size[GRAPH_MAX_RANK];
    for (int d = 0; d < y->rank - 1; d++) size[d] = y->size[d < dim ? d : d + 1];
    y = graph_reshape(g, y, y->rank - 1, size);
  }
  return graph_reshape(g, y, t->rank, t->size);
}

/* A product of few tiles and a long k: parts of k by as many programs, and their sum. Of f16 the parts would be
 * rounded.
 */
static Tensor *split_product(Graph *g, Tensor *t, const FuseTarget *target) {
  Tensor *a = t->in[0], *b = t->in[1];
  int rank = t->rank;
  int64_t m, n, k, batches, parts = 1;
  if (target->kind != TARGET_GPU || dtype_bits(t->dtype) < 32 || rank >= GRAPH_MAX_RANK) return NULL;
  if (!size_is_int(t->size[rank - 2], &m) || !size_is_int(t->size[rank - 1], &n) ||
      !size_is_int(a->size[rank - 1], &k) || !size_is_int(size_product(g, rank - 2, t->size), &batches))
    return NULL;
  int64_t tiles = cdiv(m, K_SIDE) * cdiv(n, K_SIDE) * batches;
  for (int64_t c = 2; tiles * c <= 2 * target->processors && k / c >= LEAST_K; c++)
    if (k % c == 0) parts = c;
  if (parts < 2 || tiles > target->processors / 2) return NULL;
  const Size *of_a[GRAPH_MAX_RANK], *of_b[GRAPH_MAX_RANK], *count = size_int(g, parts), *each = size_int(g, k / parts);
  int64_t order[GRAPH_MAX_RANK];
  for (int d = 0; d < rank - 2; d++) {
    of_a[d] = of_b[d] = t->size[d];
    order[d] = d;
  }
  of_a[rank - 2] = t->size[rank - 2];
  of_a[rank - 1] = of_b[rank - 2] = count;
  of_a[rank] = of_b[rank - 1] = each;
  of_b[rank] = t->size[rank - 1];
  order[rank - 2] = rank - 1;
  order[rank - 1] = rank - 2;
  order[rank] = rank;
  Tensor *part = graph_product(g, graph_permute(g, graph_reshape(g, a, rank + 1, of_a), order),
                               graph_reshape(g, b, rank + 1, of_b), t->tf32);
  return graph_reshape(g, graph_reduce(g, REDUCE_SUM, part, 1, (int64_t[]){rank - 2}), rank, t->size);
}

/* x with its last two dims in turn; what was turned already is turned back. */
static Tensor *turn(Graph *g, Tensor *x) {
  int64_t order[GRAPH_MAX_RANK];
  for (int d = 0; d < x->rank; d++) order[d] = d;
  order[x->rank - 2] = x->rank - 1;
  order[x->rank - 1] = x->rank - 2;
  bool turned = x->op == GRAPH_PERMUTE;
  for (int d = 0; turned && d < x->rank; d++) turned = x->dims[d] == order[d];
  return turned ? x->in[0] : graph_permute(g, x, order);
}

static bool is_turned(Graph *g, Tensor *x) { return x->op == GRAPH_PERMUTE && turn(g, x) == x->in[0]; }

/* Products of matrices of a few rows, columns and terms, of which a tile would be empty mostly: each term is a column
 * of a by a row of b, and a kernel of elementwise work adds them up. */
static Tensor *sum_of_few(Graph *g, Tensor *t) {
  int64_t m, n, k;
  int rank = t->rank;
  Tensor *a = t->in[0], *b = t->in[1], *all = NULL;
  if (!dtype_is_float(t->dtype) || !size_is_int(t->size[rank - 2], &m) || !size_is_int(t->size[rank - 1], &n) ||
      !size_is_int(a->size[rank - 1], &k) || k < 1 || k > FEW || (m > FEW && n > 1) || (n > FEW && m > 1))
    return NULL;
  Dtype wide = dtype_bits(t->dtype) < 32 ? DT_F32 : t->dtype; /* as products add up */
  a = graph_convert(g, a, wide);
  b = graph_convert(g, b, wide);
  for (int64_t i = 0; i < k; i++) {
    Tensor *column = graph_slice(g, a, rank - 1, size_int(g, i), size_int(g, 1), 1);
    Tensor *row = graph_slice(g, b, rank - 2, size_int(g, i), size_int(g, 1), 1);
    Tensor *both[] = {graph_expand(g, column, rank, t->size), graph_expand(g, row, rank, t->size)};
    Tensor *term = graph_point(g, POINT_MUL, 2, both);
    all = all ? graph_point(g, POINT_ADD, 2, (Tensor *[]){all, term}) : term;
  }
  return graph_convert(g, all, t->dtype);
}

/* A product with a vector is a sum, on a CPU: a tile would have one row of sixteen, and a matrix is read once whoever
 * reads it. It is added up along neighbours in memory, or across. */
static Tensor *sum_of_vector(Graph *g, Tensor *t, const FuseTarget *target) {
  if (t->op != GRAPH_PRODUCT) return NULL;
  Tensor *few = sum_of_few(g, t);
  if (few || target->kind != TARGET_CPU || !dtype_is_float(t->dtype)) return few;
  Tensor *a = t->in[0], *b = t->in[1];
  int rank = t->rank;
  bool row = size_is(t->size[rank - 2], 1), column = size_is(t->size[rank - 1], 1);
  if (!row && !column) return NULL;
  bool across = row && !column && !is_turned(g, b); /* columns of b are added up */
  Tensor *vector = across ? turn(g, a) : row ? a : turn(g, b), *matrix = across ? b : row ? turn(g, b) : a;
  Tensor *each = graph_point(g, POINT_MUL, 2, (Tensor *[]){graph_expand(g, vector, rank, matrix->size), matrix});
  Tensor *sum = graph_reduce(g, REDUCE_SUM, each, 1, (int64_t[]){across ? rank - 2 : rank - 1});
  return graph_reshape(g, sum, rank, t->size);
}

void fuse_vector_products(Graph *g, const FuseTarget *target) {
  fuse_rewrite(g, sum_of_vector, target);
  graph_cse(g);
  graph_dce(g);
}

static Tensor *better(Graph *g, Tensor *t, const FuseTarget *target) {
  if (t->op == GRAPH_PRODUCT) return split_product(g, t, target);
  if (t->op != GRAPH_REDUCE) return NULL;
  if (!is_small_window(g, t, target)) return split(g, t, target);
  Tensor *dims = dim_by_dim(g, t, target);
  return dims ? dims : unroll(g, t, t->in[0], 0);
}

void fuse_split_reductions(Graph *g, const FuseTarget *target) {
  fuse_rewrite(g, better, target);
  graph_cse(g);
  graph_dce(g);
}

void fuse_rewrite(Graph *g, FuseRule rule, const FuseTarget *target) {
  int n = g->at.n;
  Tensor **old = g->at.at, **now = NEW_N(g->cx->arena, Tensor *, n + 1);
  memset(&g->at, 0, sizeof g->at);
  for (int i = 0; i < n; i++) {
    Tensor *t = old[i];
    for (int k = 0; k < t->in_count; k++) t->in[k] = now[t->in[k]->id];
    g->place = t->span;
    int before = g->at.n;
    now[i] = rule(g, t, target);
    for (int k = before; k < g->at.n; k++) g->at.at[k]->id = INT32_MAX; /* no place of the old ones */
    if (now[i]) now[i]->name = now[i]->name ? now[i]->name : t->name;
    else {
      vec_push(g->cx->arena, &g->at, t);
      now[i] = t;
    }
  }
  /* ids were the old places until here */
  for (int i = 0; i < g->outputs.n; i++)
    if (g->outputs.at[i]) g->outputs.at[i] = now[g->outputs.at[i]->id];
  for (int i = 0; i < g->writes.n; i++) g->writes.at[i].value = now[g->writes.at[i].value->id];
  for (int i = 0; i < g->at.n; i++) g->at.at[i]->id = i;
  g->place = (Span){0};
}
