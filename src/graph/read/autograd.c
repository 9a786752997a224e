/* PyTorch's autograd in a program that is being read: which values are asked for gradients, backward(), x.grad.
 *
 * A leaf is a module's parameter, or what requires_grad_() was called of. backward() differentiates the graph as it
 * stands (grad.c) and adds to each leaf's grad; nothing of that is part of a later gradient, unless create_graph says
 * so. Under no_grad() every result is detached. */
#include "graph/read/object.h"

static Object *leaf_of(Reader *r, const Object *x) {
  for (int i = 0; i < r->leaves.n; i++)
    if (r->leaves.at[i] == x) return r->leaves.at[i];
  Tensor *now = tensor_now(r, r->g->place, x->tensor);
  for (int i = 0; i < r->leaves.n; i++)
    if (r->leaves.at[i]->tensor == now) return r->leaves.at[i];
  return NULL;
}

static bool is_leaf(Reader *r, const Object *x) {
  for (int i = 0; i < r->leaves.n; i++)
    if (r->leaves.at[i] == x) return true;
  return false;
}

void autograd_ask(Reader *r, Span at, Object *x, bool wanted) {
  int n = 0;
  for (int i = 0; i < r->leaves.n; i++)
    if (r->leaves.at[i] != x) r->leaves.at[n++] = r->leaves.at[i];
  r->leaves.n = n;
  if (!wanted) return;
  if (!dtype_is_float(x->tensor->dtype))
    read_fail(r, at, "only tensors of floats have gradients, and not %s", object_describe(r, x));
  if (x->tensor->op == GRAPH_FULL) x->tensor = graph_detach(r->g, x->tensor, x->tensor); /* constants are made anew */
  vec_push(r->cx->arena, &r->leaves, x);
  autograd_value(r, x);
}

void autograd_value(Reader *r, Object *x) { map_put(r->asked, x->tensor, x); }

/* Whether a leaf leads to it, as it is or as it was. */
static bool requires_grad(Reader *r, const Tensor *t) {
  bool *on = NEW_N(r->cx->arena, bool, t->id + 1);
  for (int i = 0; i <= t->id; i++) {
    const Tensor *x = r->g->at.at[i];
    if (!dtype_is_float(x->dtype)) continue;
    on[i] = map_get(r->asked, x) != NULL;
    for (int k = x->op == GRAPH_DETACH; k < x->in_count; k++) on[i] |= on[x->in[k]->id];
  }
  return on[t->id];
}

Object *autograd_detach(Reader *r, Object *x) {
  return object_tensor(r, graph_detach(r->g, use_tensor(r, r->g->place, x), NULL));
}

Object *autograd_result(Reader *r, Object *x, int made_before) {
  stack_guard();
  if (x->kind == O_TENSOR) {
    bool detached = x->tensor->op == GRAPH_DETACH && x->tensor->in_count == 1;
    bool own = x->tensor->id >= made_before && x->tensor->op != GRAPH_INPUT && !detached && !is_leaf(r, x);
    return own && dtype_is_float(x->tensor->dtype) ? object_tensor(r, graph_detach(r->g, x->tensor, NULL)) : x;
  }
  if (complex_is_tensor(x)) {
    Object *pair = x->parts.pair ? autograd_result(r, x->parts.pair, made_before) : NULL;
    if (pair) return pair == x->parts.pair ? x : complex_of_pairs(r, r->g->place, pair);
    x->parts.real = autograd_result(r, x->parts.real, made_before);
    x->parts.imag = autograd_result(r, x->parts.imag, made_before);
  }
  for (int i = 0; (x->kind == O_TUPLE || x->kind == O_LIST) && i < x->list.n; i++)
    x->list.at[i] = autograd_result(r, x->list.at[i], made_before);
  return x;
}

/* ---- attributes of tensors --------------------------------------------------------------------------------------- */

Object *autograd_attribute(Reader *r, Object *x, const char *name) {
  if (!strcmp(name, "grad")) {
    Object *leaf = leaf_of(r, x), *g = leaf ? leaf->grad : x->grad;
    return g ? g : r->none;
  }
  if (!strcmp(name, "requires_grad")) return object_bool(r, requires_grad(r, use_tensor(r, r->g->place, x)));
  if (!strcmp(name, "is_leaf"))
    return object_bool(r, leaf_of(r, x) || !requires_grad(r, use_tensor(r, r->g->place, x)));
  if (!strcmp(name, "data")) return autograd_detach(r, x);
  return NULL;
}

bool autograd_assign(Reader *r, Span at, Object *x, const char *name, Object *value) {
  if (!strcmp(name, "grad")) {
    if (value->kind != O_NONE && (value->kind != O_TENSOR || !graph_same_shape(value->tensor, x->tensor)))
      read_fail(r, at, "the gradient of %s cannot be %s", object_describe(r, x), object_describe(r, value));
    Object *leaf = leaf_of(r, x);
    (leaf ? leaf : x)->grad = value->kind == O_NONE ? NULL : value;
  } else if (!strcmp(name, "requires_grad")) autograd_ask(r, at, x, object_truth(r, at, value));
  else if (!strcmp(name, "data")) {
    if (value->kind != O_TENSOR) read_fail(r, at, "the data of a tensor cannot be %s", object_describe(r, value));
    Tensor *v = use_tensor(r, at, value);
    bool done = v->op == GRAPH_DETACH && v->in_count == 1 && v->in[0] == use_tensor(r, at, x); /* x.data += y */
    if (!done) in_place(r, at, x, "data", v);
  } else return false;
  return true;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static Tensor *seed_of(Reader *r, Span at, const Object *y, const Object *seed) {
  if (seed && seed->kind == O_TENSOR) {
    if (!graph_same_shape(seed->tensor, y->tensor))
      read_fail(r, at, "the gradient of %s cannot be %s", object_describe(r, y), object_describe(r, seed));
    return use_tensor(r, at, (Object *)seed);
  }
  if (!size_is(graph_numel(r->g, y->tensor), 1))
    read_fail(r, at, "backward() of %s: of more than one element, it needs their gradients", object_describe(r, y));
  return NULL;
}

/* A copy; of one tensor, a list of it. */
static Object *as_list(Reader *r, Span at, Object *x) {
  if (x->kind == O_NONE) return NULL;
  if (x->kind == O_TENSOR || complex_is_tensor(x)) return object_list(r, O_LIST, 1, &x);
  x = want_items(r, at, x);
  return object_list(r, O_LIST, x->list.n, x->list.at);
}

/* A complex result and its seed, which it must have, become pairs. */
static void complex_seed(Reader *r, Span at, Object *ys, Object *seeds, int i) {
  Object *y = ys->list.at[i], *seed = seeds && i < seeds->list.n ? seeds->list.at[i] : r->none;
  if (seed->kind != O_TENSOR && !complex_is_tensor(seed))
    read_fail(r, at, "backward() of %s: of complex numbers, it needs their gradients", object_describe(r, y));
  if (seed->kind == O_TENSOR) seed = complex_join(r, at, seed, object_int(r, 0));
  ys->list.at[i] = object_tensor(r, complex_pairs(r, at, y));
  seeds->list.at[i] = object_tensor(r, complex_pairs(r, at, seed));
}

/* Of complex tensors the parts: a leaf's are those of its pair. */
static Object *parts_of(Reader *r, Object *list) {
  Object *out = list ? object_new(r, O_LIST) : NULL;
  for (int i = 0; list && i < list->list.n; i++) {
    Object *x = list->list.at[i];
    bool split = complex_is_tensor(x) && !x->parts.pair;
    object_append(r, out, split ? x->parts.real : complex_is_tensor(x) ? x->parts.pair : x);
    if (split) object_append(r, out, x->parts.imag);
  }
  return out;
}

/* of: a LIST of tensors; the gradients, or NULL, in `out`. */
static void differentiate_all(Reader *r, Span at, Object *results, Object *weights, Object *of, Tensor **out) {
  Arena *a = r->cx->arena;
  Object *ys = as_list(r, at, results), *seeds = as_list(r, at, weights);
  for (int i = 0; i < ys->list.n; i++)
    if (complex_is_tensor(ys->list.at[i])) complex_seed(r, at, ys, seeds, i);
  Tensor **y = NEW_N(a, Tensor *, ys->list.n + 1), **seed = NEW_N(a, Tensor *, ys->list.n + 1),
         **x = NEW_N(a, Tensor *, of->list.n + 1);
  for (int i = 0; i < ys->list.n; i++) {
    const Object *g = seeds && i < seeds->list.n ? seeds->list.at[i] : NULL;
    if (ys->list.at[i]->kind != O_TENSOR) read_fail(r, at, "a gradient of %s", object_describe(r, ys->list.at[i]));
    y[i] = use_tensor(r, at, ys->list.at[i]);
    seed[i] = seed_of(r, at, ys->list.at[i], g);
    if (!requires_grad(r, y[i]))
      read_fail(r, at, "%s does not depend on a tensor that requires a gradient", object_describe(r, ys->list.at[i]));
  }
  for (int i = 0; i < of->list.n; i++) {
    if (of->list.at[i]->kind != O_TENSOR) read_fail(r, at, "a gradient by %s", object_describe(r, of->list.at[i]));
    x[i] = use_tensor(r, at, of->list.at[i]);
  }
  gradients(r, ys->list.n, y, seed, of->list.n, x, out);
}

static Object *gradient(Reader *r, Tensor *g, bool create_graph) {
  return object_tensor(r, create_graph ? g : graph_detach(r->g, g, NULL));
}

Object *autograd_backward(Reader *r, const Args *a) { /* y or [y], seeds or None, create_graph, leaves or None */
  Object *leaves = a->n > 3 ? as_list(r, a->span, a->at[3]) : NULL;
  leaves = parts_of(r, leaves);
  for (int i = 0; leaves && i < leaves->list.n; i++)
    if (leaves->list.at[i]->kind != O_TENSOR || !is_leaf(r, leaves->list.at[i]))
      read_fail(r, a->span, "backward() into %s, which is no tensor that requires_grad_() was called of",
                object_describe(r, leaves->list.at[i]));
  if (!leaves) leaves = object_list(r, O_LIST, r->leaves.n, r->leaves.at);
  Tensor **g = NEW_N(r->cx->arena, Tensor *, leaves->list.n + 1);
  bool create_graph = object_truth(r, a->span, a->at[2]);
  differentiate_all(r, a->span, a->at[0], a->at[1], leaves, g);
  for (int i = 0; i < leaves->list.n; i++) {
    Object *leaf = leaves->list.at[i];
    if (!g[i]) continue;
    if (leaf->grad) g[i] = graph_point(r->g, POINT_ADD, 2, (Tensor *[]){use_tensor(r, a->span, leaf->grad), g[i]});
    leaf->grad = gradient(r, g[i], create_graph);
  }
  return r->none;
}

Object *autograd_grad(Reader *r, const Args *a) { /* ys, xs, seeds, create_graph, allow_unused */
  Object *xs = as_list(r, a->span, a->at[1]), *out = object_new(r, O_TUPLE), *of = parts_of(r, xs);
  if (!of) read_fail(r, a->span, "gradients by nothing");
  Tensor **g = NEW_N(r->cx->arena, Tensor *, of->list.n + 1);
  bool create_graph = object_truth(r, a->span, a->at[3]);
  differentiate_all(r, a->span, a->at[0], a->at[2], of, g);
  for (int i = 0, at = 0; i < xs->list.n; i++) {
    Object *x = xs->list.at[i];
    bool split = complex_is_tensor(x) && !x->parts.pair, any = g[at] || (split && g[at + 1]);
    if (!any && !object_truth(r, a->span, a->at[4]))
      read_fail(r, a->span, "no result depends on %s, and allow_unused is not set", object_describe(r, x));
    Object *y = g[at] ? gradient(r, g[at], create_graph) : any ? object_int(r, 0) : r->none;
    if (any && split)
      y = complex_join(r, a->span, y, g[at + 1] ? gradient(r, g[at + 1], create_graph) : object_int(r, 0));
    else if (any && x->kind == O_COMPLEX) y = complex_of_pairs(r, a->span, y);
    object_append(r, out, y);
    at += 1 + split;
  }
  return out;
}

/* ---- a module's parameters --------------------------------------------------------------------------------------- */

static void add_parameter(Reader *r, Object *x, const char *name, Object *names, Object *out) {
  if (x->kind == O_COMPLEX && x->parts.pair) x = x->parts.pair; /* optimizers see pairs of reals, as PyTorch's do */
  if (x->kind != O_TENSOR || !x->is_parameter) return;
  for (int i = 0; i < out->list.n; i++)
    if (out->list.at[i] == x) return;
  object_append(r, out, x);
  object_append(r, names, object_str(r, name));
}

static void find_parameters(Reader *r, Object *x, const char *path, Object *names, Object *out) {
  stack_guard();
  Arena *a = r->cx->arena;
  const char *dot = *path ? "." : "";
  if (x->kind == O_LIST || x->kind == O_TUPLE)
    for (int i = 0; i < x->list.n; i++) {
      const char *name = arena_printf(a, "%s%s%d", path, dot, i);
      add_parameter(r, x->list.at[i], name, names, out);
      if (x->list.at[i]->kind == O_OBJECT) find_parameters(r, x->list.at[i], name, names, out);
    }
  if (x->kind == O_DICT)
    for (int i = 0; i < x->dict.n; i++) {
      const char *name = arena_printf(a, "%s%s%s", path, dot, object_text(r, x->dict.keys[i]));
      add_parameter(r, x->dict.values[i], name, names, out);
      if (x->dict.values[i]->kind == O_OBJECT) find_parameters(r, x->dict.values[i], name, names, out);
    }
  if (x->kind != O_OBJECT) return;
  for (int own = 1; own >= 0; own--) /* its own before those of modules in it */
    for (int i = 0; i < map_count(x->object.fields); i++) {
      const void *key;
      void *value;
      map_entry(x->object.fields, i, &key, &value);
      Object *v = value;
      bool hidden = !strcmp(key, "_items") || !strcmp(key, "_dict");
      const char *name = hidden ? path : arena_printf(a, "%s%s%s", path, dot, (const char *)key);
      if (own) add_parameter(r, v, name, names, out);
      else if (v->kind == O_OBJECT || hidden) find_parameters(r, v, name, names, out);
    }
}

Object *autograd_parameters(Reader *r, Object *module) { /* [names, tensors] */
  Object *names = object_new(r, O_LIST), *out = object_new(r, O_LIST);
  find_parameters(r, module, "", names, out);
  return object_list(r, O_TUPLE, 2, (Object *[]){names, out});
}
