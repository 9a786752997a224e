/* Tensors that are written in place: x.add_(y), x += y, x.data = y. A graph's values never change, so the object gets
 * another value; an input of the graph is written when the program ends.
 *
 * What shares memory with it must see the change. x.detach() and x.data do. Of a view of x, taken before, nothing is
 * known but that it is no longer right: using it is an error. So is writing an input through a view of it. */
#include "graph/read/object.h"

static bool is_alias(const Tensor *t) {
  return t->op == GRAPH_PERMUTE || t->op == GRAPH_RESHAPE || t->op == GRAPH_EXPAND || t->op == GRAPH_SLICE ||
         t->op == GRAPH_UNFOLD || (t->op == GRAPH_DETACH && t->in_count == 1);
}

/* Two slices of one tensor that have no element in common. */
static bool apart(const Tensor *a, const Tensor *b) {
  int64_t x, y, n, m;
  if (a->op != GRAPH_SLICE || b->op != GRAPH_SLICE || a->dims[0] != b->dims[0] || a->dims[1] != 1 || b->dims[1] != 1)
    return false;
  if (!size_is_int(a->sizes[0], &x) || !size_is_int(b->sizes[0], &y) || !size_is_int(a->size[a->dims[0]], &n) ||
      !size_is_int(b->size[b->dims[0]], &m))
    return false;
  return x + n <= y || y + m <= x;
}

/* All that may share an element with `old` is no longer right. */
static void outdate(Reader *r, Span at, const char *name, Tensor *old, const Tensor *written) {
  Graph *g = r->g;
  bool *shares = NEW_N(r->cx->arena, bool, g->at.n + 1);
  const Tensor **child = NEW_N(r->cx->arena, const Tensor *, g->at.n + 1); /* of those above: the view below it */
  shares[old->id] = true;
  for (Tensor *t = old; is_alias(t); t = t->in[0]) {
    child[t->in[0]->id] = t;
    shares[t->in[0]->id] = true;
    if (t->in[0]->op == GRAPH_INPUT && t->in[0] != written)
      read_fail(r, at, "%s on a view of the input %s is not supported: write the input itself", name,
                t->in[0]->name ? t->in[0]->name : "");
  }
  for (int i = 0; i < g->at.n; i++) {
    Tensor *t = g->at.at[i];
    const Tensor *path = is_alias(t) && shares[t->in[0]->id] ? child[t->in[0]->id] : NULL;
    if (is_alias(t) && shares[t->in[0]->id] && !(path && path != t && apart(path, t))) shares[i] = true;
    if (shares[i]) t->stale = true;
  }
}

void in_place(Reader *r, Span at, Object *x, const char *name, Tensor *value) {
  Graph *g = r->g;
  Object *root = x->base ? x->base : x;
  Tensor *old = root->tensor;
  for (int i = 0; i < r->leaves.n; i++)
    if (r->leaves.at[i] == x && !r->no_grad && strcmp(name, "data"))
      read_fail(r, at, "%s on a tensor that requires a gradient: it stands in `with torch.no_grad():`", name);
  value = graph_convert(g, value, old->dtype);
  if (!graph_same_shape(value, old)) value = graph_expand(g, value, old->rank, old->size);
  if (value == old) return;
  if (value->op == GRAPH_INPUT || value->stale) value = graph_detach(g, value, value); /* its own from now on */
  if (r->no_grad || x != root) value = graph_detach(g, value, NULL);
  outdate(r, at, name, x->tensor, old);
  value->stale = false;
  bool known = false;
  for (int i = 0; i < g->writes.n; i++) {
    if (g->writes.at[i].value != old) continue;
    g->writes.at[i].value = value;
    known = true;
  }
  if (old->op == GRAPH_INPUT && !known) vec_push(r->cx->arena, &g->writes, (GraphWrite){old, value});
  root->tensor = value;
  if (x != root) x->tensor = graph_detach(g, value, NULL);
  for (int i = 0; i < r->leaves.n; i++)
    if (r->leaves.at[i] == root) autograd_value(r, root);
}
