/* Tensors that are written in place: x.add_(y), x[:, 0] = y, x.data = y. A graph's values never change: what is written
 * gets another value, and whoever shares its memory is made anew from that when it is used next.
 *
 *     b = a.view(2, 2)      %b = reshape %a           b shares the memory of %a, its root
 *     b[0] += 1             %c = concat(...)          the new value of b: its first row is another
 *                           %d = reshape %c           the new value of a: the views are gone back, one by one
 *     return a + 1          %d + 1                    %a->now is %d; of b, reshape %d
 *
 * A tensor of the graph stands for a place in memory, as it was at one time. So what PyTorch copies has a tensor of its
 * own (graph_detach), and a view is an operation on what it views: permute, reshape where strides allow it, expand, a
 * slice, x.detach(), or a function of the library that says so (prim.view; a diagonal). An input of the graph that is
 * written is written when the program ends. */
#include "graph/read/object.h"

/* Of prim.view(x, f): x, and the function that takes the view of it. */
typedef struct View {
  Tensor *of;
  Object *f;     /* NULL: a copy that PyTorch has as a view, which must not be written */
  bool overlaps; /* an element of x may be in the view twice */
} View;

/* ---- what shares memory ------------------------------------------------------------------------------------------ */

static bool strides_of(Graph *g, const Tensor *t, const Size **stride);

static void row_major(Graph *g, int rank, const Size *const *size, const Size **stride) {
  const Size *n = size_int(g, 1);
  for (int d = rank - 1; d >= 0; d--) {
    stride[d] = n;
    n = size_mul(g, n, size[d]);
  }
}

/* Of a reshape that needs no copy: each of its dims lies within dims of x that are one in memory. */
static bool reshaped(Graph *g, const Tensor *t, const Size **stride) {
  const Tensor *x = t->in[0];
  const Size *of[GRAPH_MAX_RANK];
  if (graph_is_empty(g, t) || !strides_of(g, x, of)) return false;
  int d = x->rank - 1, k = t->rank - 1;
  for (; k >= 0 && size_is(t->size[k], 1); k--) stride[k] = size_int(g, 1);
  while (k >= 0) {
    while (d >= 0 && size_is(x->size[d], 1)) d--;
    if (d < 0) return false;
    const Size *step = of[d], *have = x->size[d], *want = size_int(g, 1);
    int first = k;
    for (d--;; d--) { /* dims of x that follow each other */
      while (d >= 0 && size_is(x->size[d], 1)) d--;
      if (d < 0 || of[d] != size_mul(g, step, have)) break;
      have = size_mul(g, have, x->size[d]);
    }
    for (; k >= 0 && want != have; k--) {
      stride[k] = size_mul(g, step, want);
      want = size_mul(g, want, t->size[k]);
    }
    for (; k >= 0 && size_is(t->size[k], 1); k--) stride[k] = size_mul(g, step, want);
    if (want != have || first == k) return false;
  }
  return true;
}

/* A reshape that adds or drops dims of 1: a view of whatever strides. */
static bool keeps_dims(const Tensor *t) {
  const Tensor *x = t->in[0];
  int k = 0;
  for (int d = 0; d < x->rank; d++) {
    if (size_is(x->size[d], 1)) continue;
    while (k < t->rank && size_is(t->size[k], 1)) k++;
    if (k == t->rank || t->size[k++] != x->size[d]) return false;
  }
  while (k < t->rank && size_is(t->size[k], 1)) k++;
  return k == t->rank;
}

static bool is_view(Graph *g, const Tensor *t) {
  const Size *stride[GRAPH_MAX_RANK];
  switch (t->op) {
    case GRAPH_PERMUTE:
    case GRAPH_EXPAND: return true;
    case GRAPH_SLICE: return t->step > 0;
    case GRAPH_RESHAPE: return keeps_dims(t) || reshaped(g, t, stride);
    case GRAPH_DETACH: return t->in_count == 1 || t->view;
    default: return false;
  }
}

static Tensor *viewed(const Tensor *t) { return t->view ? ((View *)t->view)->of : t->in[0]; }

/* In elements; false: they are not known. What is no view lies row by row. */
static bool strides_of(Graph *g, const Tensor *t, const Size **stride) {
  stack_guard();
  const Size *of[GRAPH_MAX_RANK];
  if (t->op == GRAPH_RESHAPE && reshaped(g, t, stride)) return true;
  if (t->op == GRAPH_RESHAPE && keeps_dims(t)) return false;
  if (t->op == GRAPH_RESHAPE || !is_view(g, t)) {
    row_major(g, t->rank, t->size, stride);
    return true;
  }
  if (t->view || !strides_of(g, t->in[0], of)) return false;
  for (int d = 0; d < t->rank; d++) {
    stride[d] = of[t->op == GRAPH_PERMUTE ? t->dims[d] : d];
    if (t->op == GRAPH_EXPAND && t->in[0]->size[d] != t->size[d]) stride[d] = size_int(g, 0);
    if (t->op == GRAPH_SLICE && t->dim == d) stride[d] = size_mul(g, stride[d], size_int(g, t->step));
  }
  return true;
}

bool tensor_is_view(Reader *r, const Tensor *t) { return is_view(r->g, t); }
bool tensor_strides(Reader *r, const Tensor *t, const Size **stride) { return strides_of(r->g, t, stride); }

bool tensor_is_contiguous(Reader *r, const Tensor *t) {
  const Size *stride[GRAPH_MAX_RANK], *want[GRAPH_MAX_RANK];
  if (!strides_of(r->g, t, stride)) return false;
  row_major(r->g, t->rank, t->size, want);
  for (int d = 0; d < t->rank; d++)
    if (stride[d] != want[d] && !size_is(t->size[d], 1)) return false;
  return true;
}

/* f(x), of which the program is told that it shares x's memory. */
Tensor *tensor_view(Reader *r, Span at, Tensor *x, Object *f, bool overlaps) {
  Object *in = object_tensor(r, x), *y = call_values(r, at, f, 1, &in);
  View *v = NEW(r->cx->arena, View);
  *v = (View){x, f, overlaps};
  Tensor *t = graph_detach(r->g, use_tensor(r, at, y), y->tensor);
  t->view = v;
  return t;
}

Tensor *tensor_unwritable(Reader *r, Tensor *x) {
  View *v = NEW(r->cx->arena, View);
  v->of = x;
  Tensor *t = graph_detach(r->g, x, x);
  t->view = v;
  return t;
}

/* The view t, of another tensor. */
static Tensor *view_of(Reader *r, Span at, const Tensor *t, Tensor *x) {
  Graph *g = r->g;
  if (t->view) return tensor_view(r, at, x, ((View *)t->view)->f, ((View *)t->view)->overlaps);
  switch (t->op) {
    case GRAPH_PERMUTE: return graph_permute(g, x, t->dims);
    case GRAPH_RESHAPE: return graph_reshape(g, x, t->rank, t->size);
    case GRAPH_EXPAND: return graph_expand(g, x, t->rank, t->size);
    case GRAPH_SLICE: return graph_slice(g, x, (int)t->dim, t->first, t->size[t->dim], t->step);
    default: return graph_detach(g, x, NULL);
  }
}

Tensor *tensor_now(Reader *r, Span at, Tensor *t) {
  stack_guard();
  while (t->now) t = t->now;
  if (!r->g->is_written || !is_view(r->g, t)) return t;
  Tensor *x = tensor_now(r, at, viewed(t));
  if (x == viewed(t)) return t;
  t->now = view_of(r, at, t, x);
  return t->now;
}

/* ---- a write, through views -------------------------------------------------------------------------------------- */

/* x, with `value` in the place of its slice t. */
static Tensor *with_slice(Reader *r, Tensor *x, const Tensor *t, Tensor *value) {
  Graph *g = r->g;
  int d = (int)t->dim;
  const Size *first = t->first, *n = t->size[d], *end = size_add(g, first, n), *all = x->size[d];
  if (t->step == 1) {
    Tensor *parts[3];
    int count = 0;
    if (!size_is(first, 0)) parts[count++] = graph_slice(g, x, d, size_int(g, 0), first, 1);
    parts[count++] = value;
    if (end != all) parts[count++] = graph_slice(g, x, d, end, size_sub(g, all, end), 1);
    return graph_concat(g, count, parts, d);
  }
  const Size *before[GRAPH_MAX_RANK];
  int64_t gaps[GRAPH_MAX_RANK] = {0};
  for (int k = 0; k < x->rank; k++) before[k] = k == d ? first : size_int(g, 0);
  gaps[d] = t->step - 1;
  const Size *one[GRAPH_MAX_RANK];
  for (int k = 0; k < x->rank; k++) one[k] = k == d ? n : size_int(g, 1);
  Tensor *hit = graph_full(g, DT_I1, x->rank, one, 1);
  for (int k = 0; k < x->rank; k++) one[k] = k == d ? all : size_int(g, 1);
  hit = graph_expand(g, graph_pad(g, hit, before, gaps, one, 0), x->rank, x->size);
  return graph_point(g, POINT_WHERE, 3, (Tensor *[]){hit, graph_pad(g, value, before, gaps, x->size, 0), x});
}

/* x, with `value` at the places that f takes from a tensor of x's shape. */
static Tensor *with_places(Reader *r, Span at, Tensor *x, Object *f, Tensor *value) {
  Graph *g = r->g;
  const Size *n = graph_numel(g, x), *m = graph_numel(g, value);
  Object *place = object_tensor(r, graph_reshape(g, graph_iota(g, DT_I64, n, 0, 1), x->rank, x->size));
  Tensor *index = call_values(r, at, f, 1, &place)->tensor;
  Tensor *flat = graph_scatter(g, graph_reshape(g, x, 1, &n), graph_reshape(g, index, 1, &m),
                               graph_reshape(g, value, 1, &m), 0, SCATTER_SET);
  return graph_reshape(g, flat, x->rank, x->size);
}

/* What the tensor that t views is when t is `value`. */
static Tensor *written(Reader *r, Span at, const char *name, const Tensor *t, Tensor *value) {
  Graph *g = r->g;
  Tensor *x = viewed(t);
  int64_t back[GRAPH_MAX_RANK];
  const View *v = t->view;
  if (v && !v->f) read_fail(r, at, "%s on view_as_real of a view: clone() it first", name);
  bool twice = v ? v->overlaps : t->op == GRAPH_EXPAND && !graph_is_empty(g, t);
  if (twice) read_fail(r, at, "%s on a view in which an element is more than once: clone() it first", name);
  if (graph_is_empty(g, t)) return x;
  if (v) return with_places(r, at, x, v->f, value);
  switch (t->op) {
    case GRAPH_PERMUTE:
      for (int d = 0; d < t->rank; d++) back[t->dims[d]] = d;
      return graph_permute(g, value, back);
    case GRAPH_RESHAPE: return graph_reshape(g, value, x->rank, x->size);
    case GRAPH_SLICE: return with_slice(r, x, t, value);
    default: return value;
  }
}

static void check_leaf(Reader *r, Span at, const char *name, const Tensor *root) {
  for (int i = 0; i < r->leaves.n; i++)
    if (use_tensor(r, at, r->leaves.at[i]) == root)
      read_fail(r, at, "%s on a tensor that requires a gradient: it stands in `with torch.no_grad():`", name);
}

/* `value` as what is assigned to a tensor like `to`: of its type, broadcast to its shape. */
static Tensor *fitted(Graph *g, Tensor *value, const Tensor *to) {
  int extra = 0;
  value = graph_convert(g, value, to->dtype);
  while (value->rank - extra > to->rank && size_is(value->size[extra], 1)) extra++;
  if (extra) value = graph_reshape(g, value, value->rank - extra, value->size + extra);
  return graph_same_shape(value, to) ? value : graph_expand(g, value, to->rank, to->size);
}

void in_place(Reader *r, Span at, Object *x, const char *name, Tensor *value) {
  Graph *g = r->g;
  Tensor *root = use_tensor(r, at, x);
  bool silent = r->no_grad || !strcmp(name, "data"); /* gradients do not see it */
  value = fitted(g, value, root);
  if (value == root) return;
  g->is_written = true;
  while (is_view(g, root)) {
    silent |= root->op == GRAPH_DETACH && root->in_count == 1;
    value = written(r, at, name, root, value);
    root = viewed(root);
  }
  if (r->constructing && root->op == GRAPH_INPUT) return;
  if (!silent) check_leaf(r, at, name, root);
  if (silent) value = graph_detach(g, value, root);
  value = graph_detach(g, value, value); /* memory of its own: nobody else has this tensor */
  bool known = false;
  for (int i = 0; i < g->writes.n; i++) {
    if (g->writes.at[i].value != root) continue;
    g->writes.at[i].value = value;
    known = true;
  }
  if (root->op == GRAPH_INPUT && !known) vec_push(r->cx->arena, &g->writes, (GraphWrite){root, value});
  root->now = value;
  for (int i = 0; i < r->leaves.n; i++) {
    Object *leaf = r->leaves.at[i];
    if (leaf->tensor != use_tensor(r, at, leaf)) autograd_value(r, leaf);
  }
}
