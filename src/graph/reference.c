/* The float64 reference: each operation as its definition says, a loop over the result's elements. Slow and plain; what
 * the kernels compute is compared with this. A value is dropped after its last use. */
#include <math.h>
#include <stdlib.h>

#include "base/mathfn.h"
#include "graph/graph.h"

typedef struct Array {
  double *at;
  int64_t n, size[GRAPH_MAX_RANK], stride[GRAPH_MAX_RANK];
  int users; /* left */
} Array;

typedef struct Run {
  Graph *g;
  const GraphValues *v;
  Array *arrays; /* by id */
} Run;

static NORETURN void out_of_memory(Run *r) {
  for (int i = 0; i < r->g->at.n; i++) free(r->arrays[i].at);
  context_out_of_memory(r->g->cx);
  diag_fail_now(r->g->cx);
}

static int64_t value_of(Run *r, const Tensor *t, const Size *s) {
  int64_t v;
  if (!size_value(s, r->v->symbols, &v)) diag_fail(r->g->cx, t->span, "the size %s does not fit in 63 bits", s->text);
  return v;
}

static void shape(Run *r, const Tensor *t) {
  Array *a = &r->arrays[t->id];
  a->n = 1;
  for (int d = t->rank - 1; d >= 0; d--) {
    a->size[d] = value_of(r, t, t->size[d]);
    a->stride[d] = a->n;
    if (a->size[d] < 0 || __builtin_mul_overflow(a->n, a->size[d], &a->n) || a->n > INT64_C(1) << 40)
      diag_fail(r->g->cx, t->span, "a tensor of too many elements");
  }
}

static void split(const Array *a, int rank, int64_t i, int64_t *index) {
  for (int d = 0; d < rank; d++) {
    index[d] = i / a->stride[d];
    i %= a->stride[d];
  }
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

static double to_type(Dtype t, double v) {
  if (t == DT_I1) return v != 0;
  if (!dtype_is_int(t) || v != v) return v;
  v = trunc(v);
  int bits = dtype_bits(t);
  if (bits == 64) return v;
  int64_t i = v >= -0x1p62 && v <= 0x1p62 ? (int64_t)v : 0;
  i = (int64_t)((uint64_t)i << (64 - bits));
  return dtype_is_signed(t) ? (double)(i >> (64 - bits)) : (double)((uint64_t)i >> (64 - bits));
}

static double point(const Tensor *t, double a, double b, double c) {
  double v = 0;
  if (t->point == POINT_NOT) return t->dtype == DT_I1 ? a == 0 : to_type(t->dtype, -a - 1);
  switch (t->point) {
#define POINT(id, name, operands, result, triton, expression) \
  case POINT_##id: \
    v = (expression); \
    break;
#include "graph/graph.def"
    case POINT_COUNT: break;
  }
  return dtype_is_int(t->dtype) ? to_type(t->dtype, v) : v;
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

/* The operand's place of result index `at`; -1: the element is padding. */
static int64_t view_place(Run *r, const Tensor *t, const int64_t *at, int64_t linear, int *which) {
  const Array *x = &r->arrays[t->in[0]->id];
  int64_t place = 0;
  *which = 0;
  switch (t->op) {
    case GRAPH_PERMUTE:
      for (int d = 0; d < t->rank; d++) place += at[d] * x->stride[t->dims[d]];
      return place;
    case GRAPH_RESHAPE: return linear;
    case GRAPH_EXPAND:
      for (int d = 0; d < t->rank; d++) place += x->size[d] == 1 ? 0 : at[d] * x->stride[d];
      return place;
    case GRAPH_SLICE:
      for (int d = 0; d < t->rank; d++)
        place += (d == t->dim ? value_of(r, t, t->first) + at[d] * t->step : at[d]) * x->stride[d];
      return place;
    case GRAPH_PAD:
      for (int d = 0; d < t->rank; d++) {
        int64_t i = at[d] - value_of(r, t, t->before[d]), step = t->between[d] + 1;
        if (i < 0 || i % step || i / step >= x->size[d]) return -1;
        place += i / step * x->stride[d];
      }
      return place;
    case GRAPH_CONCAT: {
      int dim = (int)t->dim;
      int64_t i = at[dim];
      while (i >= r->arrays[t->in[*which]->id].size[dim]) i -= r->arrays[t->in[(*which)++]->id].size[dim];
      x = &r->arrays[t->in[*which]->id];
      for (int d = 0; d < t->rank; d++) place += (d == dim ? i : at[d]) * x->stride[d];
      return place;
    }
    case GRAPH_UNFOLD:
      for (int d = 0; d + 1 < t->rank; d++)
        place += (d == t->dim ? at[d] * t->step + at[t->rank - 1] * t->dilation : at[d]) * x->stride[d];
      return place;
    default: return linear;
  }
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

/* As tl.rand: the first word of Philox-4x32-10, its top 31 bits. */
static double uniform(uint64_t seed, uint64_t offset) {
  uint32_t c0 = (uint32_t)offset, c1 = (uint32_t)(offset >> 32), c2 = 0, c3 = 0, k0 = (uint32_t)seed,
           k1 = (uint32_t)(seed >> 32);
  for (int i = 0; i < 10; i++) {
    uint64_t a = (uint64_t)0xD2511F53 * c0, b = (uint64_t)0xCD9E8D57 * c2;
    c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)b;
    c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)a;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  int32_t x = (int32_t)c0;
  return (double)((float)(x < 0 ? -x - 1 : x) * 4.6566127342e-10f);
}

static void reduce(Run *r, const Tensor *t, double *out) {
  const Array *x = &r->arrays[t->in[0]->id], *y = &r->arrays[t->id];
  Reduction kind = (Reduction)t->kind;
  bool arg = kind == REDUCE_ARGMAX || kind == REDUCE_ARGMIN, most = kind == REDUCE_MAX || kind == REDUCE_ARGMAX;
  double *best = arg ? malloc(sizeof(double) * (size_t)(y->n + 1)) : out, start[] = {0, 1, -INFINITY, INFINITY};
  if (!best) out_of_memory(r);
  for (int64_t i = 0; i < y->n; i++) best[i] = arg ? (most ? -INFINITY : INFINITY) : start[kind];
  for (int64_t i = 0; arg && i < y->n; i++) out[i] = -1;
  int64_t at[GRAPH_MAX_RANK];
  for (int64_t i = 0; i < x->n; i++) {
    split(x, t->rank, i, at);
    int64_t place = 0;
    for (int d = 0; d < t->rank; d++) place += y->size[d] == 1 ? 0 : at[d] * y->stride[d];
    double v = x->at[i], *b = &best[place];
    if (kind == REDUCE_SUM) *b += v;
    else if (kind == REDUCE_PROD) *b *= v;
    else if (*b == *b && (v != v || (most ? v > *b : v < *b) || (arg && out[place] < 0))) {
      *b = v;
      if (arg) out[place] = (double)at[t->dims[0]];
    }
  }
  if (arg) free(best);
}

static double joined(GraphOp op, double so_far, double v) {
  double most = fmax(so_far, v), least = fmin(so_far, v);
  bool nan = so_far != so_far || v != v;
  switch (op) {
    case GRAPH_CUMSUM: return so_far + v;
    case GRAPH_CUMPROD: return so_far * v;
    case GRAPH_CUMLOGSUMEXP: return nan ? NAN : most + log1p(exp(least == most ? 0 : least - most));
    default: return nan ? NAN : op == GRAPH_CUMMAX || op == GRAPH_CUMARGMAX ? most : least;
  }
}

static void scan(Run *r, const Tensor *t, double *out) {
  const Array *x = &r->arrays[t->in[0]->id];
  int64_t stride = x->stride[t->dim], size = x->size[t->dim];
  bool index = t->op == GRAPH_CUMARGMAX || t->op == GRAPH_CUMARGMIN;
  for (int64_t i = 0; i < x->n; i++) {
    int64_t place = i / stride % size;
    double v = x->at[i];
    if (!place) out[i] = index ? 0 : v;
    else if (!index) out[i] = joined(t->op, out[i - stride], v);
    else {
      double last = out[i - stride], best = joined(t->op, x->at[i + ((int64_t)last - place) * stride], v);
      out[i] = v != v || v == best ? (double)place : last;
    }
  }
}

static void scatter_one(ScatterMode mode, double *to, double b) {
  double a = *to;
  switch (mode) {
#define SCATTER_MODE(id, name, triton, c) \
  case SCATTER_##id: \
    c; \
    break;
#include "graph/graph.def"
    case SCATTER_COUNT: break;
  }
  *to = a;
}

static void gather_scatter(Run *r, const Tensor *t, double *out) {
  const Array *x = &r->arrays[t->in[0]->id], *index = &r->arrays[t->in[1]->id];
  bool scatter = t->op == GRAPH_SCATTER;
  const double *src = scatter ? r->arrays[t->in[2]->id].at : NULL;
  int64_t dim = t->dim, at[GRAPH_MAX_RANK];
  if (scatter) memcpy(out, x->at, sizeof *out * (size_t)x->n);
  for (int64_t i = 0; i < index->n; i++) {
    split(index, t->rank, i, at);
    double k = index->at[i];
    if (!(k >= 0 && k < (double)x->size[dim]))
      diag_fail(r->g->cx, t->span, "index %.0f of a dim of %lld", k, (long long)x->size[dim]);
    at[dim] = (int64_t)k;
    int64_t place = 0;
    for (int d = 0; d < t->rank; d++) place += at[d] * x->stride[d];
    if (!scatter) out[i] = x->at[place];
    else scatter_one((ScatterMode)t->mode, &out[place], src[i]);
  }
}

/* ---- sort ------------------------------------------------------------------------------------------------------- */

typedef struct Placed {
  double v;
  int64_t place;
  bool descending;
} Placed;

static int by_order(const void *left, const void *right) {
  const Placed *a = left, *b = right;
  bool a_nan = a->v != a->v, b_nan = b->v != b->v;
  int order = a_nan || b_nan ? a_nan - b_nan : (a->v > b->v) - (a->v < b->v);
  if (order) return a->descending ? -order : order;
  return (a->place > b->place) - (a->place < b->place);
}

static void sort(Run *r, const Tensor *t, double *out) {
  const Array *x = &r->arrays[t->in[0]->id], *y = &r->arrays[t->id];
  int64_t dim = t->dim, n = x->size[dim], stride = x->stride[dim], kept = y->size[dim];
  Placed *row = malloc(sizeof *row * (size_t)(n + 1));
  if (!row) out_of_memory(r);
  for (int64_t i = 0; n && i < x->n / n; i++) {
    int64_t first = i / stride * stride * n + i % stride, to = i / stride * stride * kept + i % stride;
    for (int64_t k = 0; k < n; k++) row[k] = (Placed){x->at[first + k * stride], k, t->descending};
    qsort(row, (size_t)n, sizeof *row, by_order);
    for (int64_t k = 0; k < kept; k++) out[to + k * stride] = (double)row[k].place;
  }
  free(row);
}

static void product(Run *r, const Tensor *t, double *out) {
  const Array *a = &r->arrays[t->in[0]->id], *b = &r->arrays[t->in[1]->id], *y = &r->arrays[t->id];
  int64_t m = y->size[t->rank - 2], n = y->size[t->rank - 1], k = a->size[t->rank - 1];
  memset(out, 0, sizeof *out * (size_t)y->n);
  for (int64_t batch = 0; y->n && batch < y->n / (m * n); batch++)
    for (int64_t i = 0; i < m; i++)
      for (int64_t l = 0; l < k; l++) {
        double x = a->at[(batch * m + i) * k + l];
        const double *row = b->at + (batch * k + l) * n;
        double *to = out + (batch * m + i) * n;
        for (int64_t j = 0; j < n; j++) to[j] += x * row[j];
      }
}

/* Of a place: what it has to do with image, filter and result; all three parts add up products of two of them. */
static void convolve_place(const Convolution *c, const int64_t *place, double *image, double *filter, double *result) {
  int64_t kernel = c->kernel[0] * c->kernel[1] * c->kernel[2], each = c->channels / c->groups;
  for (int64_t k = 0; k < kernel; k++) {
    int64_t rest = k, at = 0, size = 1;
    bool inside = true;
    for (int d = CONVOLUTION_DIMS - 1; d >= 0; d--) {
      int64_t i = place[d] * c->stride[d] + rest % c->kernel[d] * c->dilation[d] - c->padding[d];
      inside &= i >= 0 && i < c->image[d];
      at += i * size;
      size *= c->image[d];
      rest /= c->kernel[d];
    }
    for (int64_t i = 0; inside && i < each; i++) {
      double *x = image + (c->channels_last ? at * c->channels + i : i * size + at);
      double *w = filter + (c->channels_last ? k * each + i : i * kernel + k);
      if (c->part == CONVOLUTION_FORWARD) *result += *x * *w;
      else if (c->part == CONVOLUTION_DATA) *x += *result * *w;
      else *w += *x * *result;
    }
  }
}

static void convolution(Run *r, const Tensor *t, double *out) {
  static const int operand[CONVOLUTION_PARTS][3] = {{0, 1, -1}, {-1, 1, 0}, {0, -1, 1}};
  Convolution c;
  const char *why;
  double *of[3]; /* image, filter, result */
  for (int i = 0; i < 3; i++) {
    int k = operand[t->part][i];
    of[i] = k < 0 ? out : r->arrays[t->in[k]->id].at;
  }
  graph_convolution_of(t, t->in, &c, &why);
  memset(out, 0, sizeof *out * (size_t)r->arrays[t->id].n);
  for (int d = c.dims; d < CONVOLUTION_DIMS; d++)
    c.image[d] = c.kernel[d] = c.places[d] = c.stride[d] = c.dilation[d] = 1;
  int64_t image = c.image[0] * c.image[1] * c.image[2], kernel = c.kernel[0] * c.kernel[1] * c.kernel[2];
  int64_t places = c.places[0] * c.places[1] * c.places[2], each = c.channels / c.groups;
  for (int64_t i = 0; i < c.n * c.filters * places; i++) {
    int64_t n = i / places / c.filters, f = i / places % c.filters, o = i % places, group = f / (c.filters / c.groups);
    int64_t place[] = {o / c.places[2] / c.places[1], o / c.places[2] % c.places[1], o % c.places[2]};
    double *x = of[0] + n * c.channels * image + group * each * (c.channels_last ? 1 : image);
    double *w = of[1] + f * each * kernel, *y = of[2] + (c.channels_last ? (n * places + o) * c.filters + f : i);
    convolve_place(&c, place, x, w, y);
  }
}

static uint64_t seed_of(const Run *r) {
  return r->g->seed ? (uint64_t)(int64_t)*r->arrays[r->g->seed->id].at : r->v->seed;
}

static void compute(Run *r, const Tensor *t, double *out) {
  const Array *y = &r->arrays[t->id];
  int64_t at[GRAPH_MAX_RANK];
  int which;
  switch (graph_ops[t->op].group) {
    case CLASS_CREATE:
      for (int64_t i = 0; i < y->n; i++)
        out[i] = t->op == GRAPH_FULL     ? t->number
                 : t->op == GRAPH_EXTENT ? (double)value_of(r, t, t->extent)
                 : t->op == GRAPH_IOTA   ? (double)(t->start + i * t->step)
                                         : uniform(seed_of(r) + (uint64_t)t->stream, (uint64_t)i);
      break;
    case CLASS_POINT: {
      const double *in[3] = {0};
      for (int i = 0; i < t->in_count; i++) in[i] = r->arrays[t->in[i]->id].at;
      if (t->point == POINT_CONVERT && dtype_is_int(t->dtype))
        for (int64_t i = 0; i < y->n; i++) out[i] = to_type(t->dtype, in[0][i]);
      else
        for (int64_t i = 0; i < y->n; i++) out[i] = point(t, in[0][i], in[1] ? in[1][i] : 0, in[2] ? in[2][i] : 0);
      break;
    }
    case CLASS_VIEW:
      for (int64_t i = 0; i < y->n; i++) {
        split(y, t->rank, i, at);
        int64_t place = view_place(r, t, at, i, &which);
        out[i] = place < 0 ? t->number : r->arrays[t->in[which]->id].at[place];
      }
      break;
    case CLASS_REDUCE: reduce(r, t, out); break;
    case CLASS_SCAN: scan(r, t, out); break;
    case CLASS_MEMORY:
      if (t->op == GRAPH_GATHER || t->op == GRAPH_SCATTER) gather_scatter(r, t, out);
      else if (t->op == GRAPH_SORT) sort(r, t, out);
      else memset(out, 0, sizeof *out * (size_t)y->n); /* of a sort in steps: it looks at what it sorts alone */
      break;
    case CLASS_PRODUCT:
      if (t->op == GRAPH_PRODUCT) product(r, t, out);
      else if (t->in_count == 2) convolution(r, t, out);
      else memcpy(out, r->arrays[t->in[2]->id].at, sizeof *out * (size_t)y->n);
      break;
  }
}

static double *take(Run *r, const Tensor *t) { /* a copy for the caller */
  const Array *a = &r->arrays[t->id];
  double *out = malloc(sizeof(double) * (size_t)(a->n ? a->n : 1));
  if (!out) out_of_memory(r);
  memcpy(out, a->at, sizeof(double) * (size_t)a->n);
  return out;
}

static void drop(Run *r, const Tensor *t) {
  if (--r->arrays[t->id].users) return;
  free(r->arrays[t->id].at);
  r->arrays[t->id].at = NULL;
}

void graph_reference(Graph *g, const GraphValues *v) {
  Run r = {.g = g, .v = v, .arrays = NEW_N(g->cx->arena, Array, g->at.n + 1)};
  graph_count_uses(g);
  if (context_try(g->cx)) {
    for (int i = 0; i < g->at.n; i++) {
      const Tensor *t = g->at.at[i];
      shape(&r, t);
      Array *a = &r.arrays[i];
      a->users = t->uses + 1 + (t == g->seed); /* random numbers ask for it until the end */
      a->at = malloc(sizeof(double) * (size_t)(a->n ? a->n : 1));
      if (!a->at) out_of_memory(&r);
      if (t->op != GRAPH_INPUT) compute(&r, t, a->at);
      else
        for (int k = 0; k < g->inputs.n; k++)
          if (g->inputs.at[k] == t) memcpy(a->at, v->inputs[k], sizeof(double) * (size_t)a->n);
      for (int k = 0; k < t->in_count; k++) drop(&r, t->in[k]);
      drop(&r, t);
    }
    for (int i = 0; i < g->outputs.n; i++) v->outputs[i] = g->outputs.at[i] ? take(&r, g->outputs.at[i]) : NULL;
    for (int i = 0; v->writes && i < g->writes.n; i++) v->writes[i] = take(&r, g->writes.at[i].value);
    context_end_try(g->cx);
  } else {
    for (int i = 0; i < g->at.n; i++) free(r.arrays[i].at);
    diag_fail_now(g->cx);
  }
  for (int i = 0; i < g->at.n; i++) free(r.arrays[i].at);
}
