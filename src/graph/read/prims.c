/* The primitives as library/ calls them: prim.NAME(...). The elementwise ones are those of graph.def. */
#include <stdlib.h>

#include "graph/read/object.h"

static Tensor *tensor(Reader *r, const Args *a, int i) {
  if (i >= a->n) read_fail(r, a->span, "argument %d is missing", i + 1);
  if (a->at[i]->kind != O_TENSOR) read_fail(r, a->span, "a tensor is wanted, and not %s", object_describe(r, a->at[i]));
  return use_tensor(r, a->span, a->at[i]);
}

static Object *argument(Reader *r, const Args *a, int i) {
  if (i >= a->n) read_fail(r, a->span, "argument %d is missing", i + 1);
  return a->at[i];
}

static Dtype dtype(Reader *r, const Args *a, int i) {
  Object *x = argument(r, a, i);
  if (x->kind == O_PATH && !strcmp(x->s, "python.float")) return DT_F32;
  if (x->kind == O_PATH && !strcmp(x->s, "python.int")) return DT_I64;
  if (x->kind == O_PATH && !strcmp(x->s, "python.bool")) return DT_I1;
  if (x->kind == O_PATH) refuse_complex(r, a->span, x->s);
  if (x->kind == O_DTYPE && x->is_complex) read_fail(r, a->span, "%s is not supported here", object_text(r, x));
  if (x->kind != O_DTYPE) read_fail(r, a->span, "a type is wanted, and not %s", object_describe(r, x));
  return x->dtype;
}

static bool is_dtype(Reader *r, Span at, const Object *x) {
  if (x->kind == O_PATH) refuse_complex(r, at, x->s); /* and not what is no type */
  return x->kind == O_DTYPE;
}

static int dim(Reader *r, const Args *a, int i, const Tensor *x) {
  return graph_dim(r->g, want_int(r, a->span, argument(r, a, i), "a dim"), x->rank);
}

static int sizes(Reader *r, const Args *a, int i, const Size **out) {
  Object *x = argument(r, a, i);
  Object *items = x->kind == O_INT || x->kind == O_SIZE ? object_list(r, O_LIST, 1, &x) : want_items(r, a->span, x);
  if (items->list.n > GRAPH_MAX_RANK) read_fail(r, a->span, "a tensor has at most %d dims", GRAPH_MAX_RANK);
  for (int d = 0; d < items->list.n; d++) out[d] = want_size(r, a->span, items->list.at[d], "a size");
  return items->list.n;
}

static int ints(Reader *r, const Args *a, int i, int64_t *out) {
  Object *x = argument(r, a, i);
  Object *items = x->kind == O_INT ? object_list(r, O_LIST, 1, &x) : want_items(r, a->span, x);
  if (items->list.n > GRAPH_MAX_RANK) read_fail(r, a->span, "a tensor has at most %d dims", GRAPH_MAX_RANK);
  for (int d = 0; d < items->list.n; d++) out[d] = want_int(r, a->span, items->list.at[d], "a number");
  return items->list.n;
}

static double number(Reader *r, const Args *a, int i) {
  Object *x = argument(r, a, i);
  if (!object_is_number(x)) read_fail(r, a->span, "a number is wanted, and not %s", object_describe(r, x));
  return object_double(x);
}

/* ---- one function a primitive ------------------------------------------------------------------------------------ */

static Tensor *p_convert(Reader *r, const Args *a) {
  if (argument(r, a, 0)->kind != O_TENSOR) return op_tensor(r, a->span, a->at[0], dtype(r, a, 1));
  return graph_convert(r->g, tensor(r, a, 0), dtype(r, a, 1));
}

static Tensor *p_full(Reader *r, const Args *a) {
  const Size *s[GRAPH_MAX_RANK];
  int rank = sizes(r, a, 0, s);
  Dtype t = dtype(r, a, 2);
  Tensor *exact = op_long(r, argument(r, a, 1), t);
  if (exact) return graph_expand(r->g, exact, rank, s);
  double v = number(r, a, 1);
  return graph_full(r->g, t, rank, s, t == DT_I1 ? v != 0 : dtype_is_int(t) ? (double)(int64_t)v : v);
}

static Tensor *p_iota(Reader *r, const Args *a) {
  return graph_iota(r->g, dtype(r, a, 3), want_size(r, a->span, argument(r, a, 0), "a size"),
                    want_int(r, a->span, argument(r, a, 1), "iota's start"),
                    want_int(r, a->span, argument(r, a, 2), "iota's step"));
}

static Tensor *p_uniform(Reader *r, const Args *a) {
  const Size *s[GRAPH_MAX_RANK];
  int rank = sizes(r, a, 0, s);
  return graph_uniform(r->g, dtype(r, a, 1), rank, s);
}

static Tensor *p_view(Reader *r, const Args *a) { /* x, the function that takes the view, whether elements overlap */
  bool overlaps = a->n > 2 && object_truth(r, a->span, a->at[2]);
  return tensor_view(r, a->span, tensor(r, a, 0), argument(r, a, 1), overlaps);
}

static Tensor *p_contiguous(Reader *r, const Args *a) {
  Tensor *x = tensor(r, a, 0);
  return tensor_is_contiguous(r, x) ? x : graph_detach(r->g, x, x);
}

static Tensor *p_permute(Reader *r, const Args *a) {
  int64_t dims[GRAPH_MAX_RANK];
  Tensor *x = tensor(r, a, 0);
  if (ints(r, a, 1, dims) != x->rank) read_fail(r, a->span, "a permutation of %d dims", x->rank);
  return graph_permute(r->g, x, dims);
}

static Tensor *p_reshape(Reader *r, const Args *a) { /* one size may be -1 */
  Tensor *x = tensor(r, a, 0);
  const Size *s[GRAPH_MAX_RANK], *rest = graph_numel(r->g, x), *known = size_int(r->g, 1);
  int rank = sizes(r, a, 1, s), open = -1;
  for (int d = 0; d < rank; d++)
    if (size_is(s[d], -1)) open = d;
    else known = size_mul(r->g, known, s[d]);
  if (open >= 0) {
    s[open] = size_divide(r->g, rest, known);
    if (!s[open]) read_fail(r, a->span, "%s elements cannot be divided by %s", rest->text, known->text);
  }
  Tensor *y = graph_reshape(r->g, x, rank, s);
  bool copies = y->op == GRAPH_RESHAPE && !tensor_is_view(r, y);
  return copies ? graph_detach(r->g, y, y) : y;
}

static Tensor *p_expand(Reader *r, const Args *a) { /* -1 keeps a size */
  Tensor *x = tensor(r, a, 0);
  const Size *s[GRAPH_MAX_RANK];
  int rank = sizes(r, a, 1, s);
  for (int d = 0; d < rank; d++)
    if (size_is(s[d], -1) && d >= rank - x->rank) s[d] = x->size[d - (rank - x->rank)];
  return graph_expand(r->g, x, rank, s);
}

/* A bound of a slice, counted from the end where negative and kept within the dim. */
static const Size *bound(Reader *r, Span at, const Object *x, const Size *n, const Size *none) {
  if (x->kind == O_NONE) return none;
  const Size *s = want_size(r, at, x, "a slice's bound");
  int64_t v, all;
  if (!size_is_int(s, &v)) return s;
  if (v == INT64_MAX) return n;
  if (!size_is_int(n, &all)) return v < 0 ? size_add(r->g, n, s) : s;
  if (v < 0) v += all;
  return size_int(r->g, v < 0 ? 0 : v > all ? all : v);
}

Tensor *prim_slice(Reader *r, Span at, Tensor *x, int d, const Object *start, const Object *stop, int64_t step) {
  Graph *g = r->g;
  if (step < 1) read_fail(r, at, "a slice of a tensor has a step of 1 or more");
  const Size *from = bound(r, at, start, x->size[d], size_int(g, 0)), *to = bound(r, at, stop, x->size[d], x->size[d]);
  const Size *length = size_sub(g, to, from), *n = size_divide(g, length, size_int(g, step));
  int64_t v;
  if (size_is_int(length, &v)) n = size_int(g, v <= 0 ? 0 : cdiv(v, step));
  if (!n) read_fail(r, at, "a slice of %s elements with a step of %lld", length->text, (long long)step);
  return graph_slice(g, x, d, from, n, step);
}

static Tensor *p_slice(Reader *r, const Args *a) {
  Tensor *x = tensor(r, a, 0);
  return prim_slice(r, a->span, x, dim(r, a, 1, x), argument(r, a, 2), argument(r, a, 3),
                    want_int(r, a->span, argument(r, a, 4), "a step"));
}

static Tensor *p_flip(Reader *r, const Args *a) {
  Tensor *x = tensor(r, a, 0);
  int d = dim(r, a, 1, x);
  return graph_slice(r->g, x, d, size_sub(r->g, x->size[d], size_int(r->g, 1)), x->size[d], -1);
}

static Tensor *p_pad(Reader *r, const Args *a) { /* x, before, after, between, value */
  Tensor *x = tensor(r, a, 0);
  const Size *before[GRAPH_MAX_RANK], *after[GRAPH_MAX_RANK], *size[GRAPH_MAX_RANK];
  int64_t between[GRAPH_MAX_RANK];
  if (sizes(r, a, 1, before) != x->rank || sizes(r, a, 2, after) != x->rank || ints(r, a, 3, between) != x->rank)
    read_fail(r, a->span, "padding of %d dims", x->rank);
  for (int d = 0; d < x->rank; d++) {
    const Size *gaps = size_mul(r->g, size_sub(r->g, x->size[d], size_int(r->g, 1)), size_int(r->g, between[d]));
    size[d] = size_add(r->g, size_add(r->g, size_add(r->g, x->size[d], gaps), before[d]), after[d]);
  }
  return graph_pad(r->g, x, before, between, size, number(r, a, 4));
}

static Tensor *p_concat(Reader *r, const Args *a) {
  Object *items = want_items(r, a->span, argument(r, a, 0));
  Tensor **in = NEW_N(r->cx->arena, Tensor *, items->list.n + 1);
  for (int i = 0; i < items->list.n; i++) {
    if (items->list.at[i]->kind != O_TENSOR)
      read_fail(r, a->span, "a tensor is wanted, and not %s", object_describe(r, items->list.at[i]));
    in[i] = use_tensor(r, a->span, items->list.at[i]);
  }
  return graph_concat(r->g, items->list.n, in, items->list.n ? dim(r, a, 1, in[0]) : 0);
}

static Tensor *p_unfold(Reader *r, const Args *a) {
  Tensor *x = tensor(r, a, 0);
  int64_t k[3];
  for (int i = 0; i < 3; i++) k[i] = want_int(r, a->span, argument(r, a, i + 2), "a window's number");
  return graph_unfold(r->g, x, dim(r, a, 1, x), k[0], k[1], k[2]);
}

static Tensor *p_gather(Reader *r, const Args *a) {
  Tensor *x = tensor(r, a, 0);
  return graph_gather(r->g, x, tensor(r, a, 1), dim(r, a, 2, x));
}

static Tensor *scatter(Reader *r, const Args *a, ScatterMode mode) {
  Tensor *x = tensor(r, a, 0);
  return graph_scatter(r->g, x, tensor(r, a, 1), tensor(r, a, 2), dim(r, a, 3, x), mode);
}

static Tensor *p_scatter(Reader *r, const Args *a) { return scatter(r, a, SCATTER_SET); }
static Tensor *p_scatter_add(Reader *r, const Args *a) { return scatter(r, a, SCATTER_ADD); }
static Tensor *p_scatter_max(Reader *r, const Args *a) { return scatter(r, a, SCATTER_MAX); }
static Tensor *p_scatter_min(Reader *r, const Args *a) { return scatter(r, a, SCATTER_MIN); }

static Tensor *p_sort(Reader *r, const Args *a) { /* x, dim, descending, how many of the first */
  Tensor *x = tensor(r, a, 0);
  return graph_sort(r->g, x, dim(r, a, 1, x), object_truth(r, a->span, argument(r, a, 2)),
                    want_size(r, a->span, argument(r, a, 3), "how many elements"));
}

static Tensor *p_detach(Reader *r, const Args *a) { /* x, twin */
  bool twin = a->n > 1 && a->at[1]->kind != O_NONE;
  return graph_detach(r->g, tensor(r, a, 0), twin ? tensor(r, a, 1) : NULL);
}

static Tensor *p_differentiate(Reader *r, const Args *a) { /* y, [x, ...], f */
  return differentiate(r, a->span, tensor(r, a, 0), want_items(r, a->span, argument(r, a, 1)), argument(r, a, 2));
}

static Tensor *p_dot(Reader *r, const Args *a) { /* a, b, whether tf32 will do */
  bool tf32 = a->n > 2 && want_int(r, a->span, argument(r, a, 2), "whether tf32 will do");
  return graph_product(r->g, tensor(r, a, 0), tensor(r, a, 1), tf32);
}

enum { TF32_CHANNELS = 16 }; /* of a group, as convolution.py's is_rounded has it */

/* y, image or gradient, filter or gradient, part, [strides, paddings, dilations], groups: y, which a library may
 * compute as well; y itself, where the sizes are none that libraries take. */
static Tensor *p_convolution(Reader *r, const Args *a) {
  Tensor *y = tensor(r, a, 0), *in[] = {tensor(r, a, 1), tensor(r, a, 2), y};
  int64_t dims[GRAPH_MAX_RANK];
  const Object *part = argument(r, a, 3);
  const Object *list = want_items(r, a->span, argument(r, a, 4));
  Tensor like = *y;
  Convolution c;
  const char *why;
  for (int i = 0; i < list->list.n; i++)
    if (list->list.at[i]->kind != O_INT) return y;
  if (list->list.n > GRAPH_MAX_RANK) return y;
  like.dim_count = ints(r, a, 4, dims);
  like.dims = dims;
  memset(like.attr, 0, sizeof like.attr);
  like.groups = want_int(r, a->span, argument(r, a, 5), "a number of groups");
  while (like.part < CONVOLUTION_PARTS && strcmp(graph_convolution_parts[like.part], part->s)) like.part++;
  if (like.part == CONVOLUTION_PARTS || !graph_convolution_of(&like, in, &c, &why)) return y;
  like.tf32 = (like.part == CONVOLUTION_DATA ? c.filters : c.channels) / like.groups >= TF32_CHANNELS;
  return graph_convolution(r->g, &like, 3, in);
}

static const struct {
  const char *name;
  Tensor *(*make)(Reader *r, const Args *a);
  bool is_view; /* shares its operand's memory, as PyTorch has it */
} prims[] = {{"convert", p_convert, true},
             {"full", p_full, false},
             {"iota", p_iota, false},
             {"uniform", p_uniform, false},
             {"view", p_view, true},
             {"contiguous", p_contiguous, true},
             {"permute", p_permute, true},
             {"reshape", p_reshape, true},
             {"expand", p_expand, true},
             {"slice", p_slice, true},
             {"flip", p_flip, false},
             {"pad", p_pad, false},
             {"concat", p_concat, false},
             {"unfold", p_unfold, false},
             {"gather", p_gather, false},
             {"scatter", p_scatter, false},
             {"scatter_add", p_scatter_add, false},
             {"scatter_max", p_scatter_max, false},
             {"scatter_min", p_scatter_min, false},
             {"sort", p_sort, false},
             {"dot", p_dot, false},
             {"convolution", p_convolution, false},
             {"detach", p_detach, false},
             {"differentiate", p_differentiate, false}};

static void add_child(Reader *r, Object *out, bool named, Object *name, Object *x) {
  if (x->kind != O_OBJECT) return;
  object_append(r, out, named ? object_list(r, O_TUPLE, 2, (Object *[]){name, x}) : x);
}

/* The modules among a module's fields; named: pairs of a name and a module. */
static Object *children(Reader *r, Object *x, bool named) {
  Object *out = object_new(r, O_LIST);
  for (int i = 0; x->kind == O_OBJECT && i < map_count(x->object.fields); i++) {
    const void *key;
    void *value;
    map_entry(x->object.fields, i, &key, &value);
    Object *v = value;
    add_child(r, out, named, object_str(r, key), v);
    for (int k = 0; v->kind == O_LIST && k < v->list.n; k++) add_child(r, out, named, object_int(r, k), v->list.at[k]);
    for (int k = 0; v->kind == O_DICT && k < v->dict.n; k++)
      add_child(r, out, named, v->dict.keys[k], v->dict.values[k]);
  }
  return out;
}

/* A module of its own with parameters of its own, as copy.deepcopy gives; seen: of what is copied, its copy. */
static Object *clone_module(Reader *r, Object *x, Map *seen) {
  stack_guard();
  Object *y = map_get(seen, x);
  if (y) return y;
  bool is_state = x->kind == O_TENSOR && x->tensor->op == GRAPH_INPUT;
  if (x->kind == O_COMPLEX && x->parts.pair) {
    Object *pair = clone_module(r, x->parts.pair, seen);
    y = pair == x->parts.pair ? x : complex_of_pairs(r, r->g->place, pair);
    map_put(seen, x, y);
    return y;
  }
  if (!is_state && x->kind != O_OBJECT && x->kind != O_LIST && x->kind != O_TUPLE && x->kind != O_DICT) return x;
  y = arena_copy(r->cx->arena, x, sizeof *x);
  map_put(seen, x, y);
  if (is_state) {
    const Tensor *t = x->tensor;
    y->tensor = graph_input(r->g, NULL, t->dtype, t->rank, t->size);
    y->tensor->is_state = t->is_state;
    y->tensor->is_complex = t->is_complex;
    if (x->is_parameter && dtype_is_float(t->dtype)) autograd_ask(r, r->g->place, y, true);
  } else if (x->kind == O_OBJECT) {
    y->object.fields = map_create(r->cx->arena, false);
    for (int i = 0; i < map_count(x->object.fields); i++) {
      const void *key;
      void *value;
      map_entry(x->object.fields, i, &key, &value);
      map_put(y->object.fields, key, clone_module(r, value, seen));
    }
  } else if (x->kind == O_DICT) {
    y->dict = object_new(r, O_DICT)->dict;
    for (int i = 0; i < x->dict.n; i++) dict_put(r, y, x->dict.keys[i], clone_module(r, x->dict.values[i], seen));
  } else {
    y->list.n = y->list.cap = 0;
    y->list.at = NULL;
    for (int i = 0; i < x->list.n; i++) object_append(r, y, clone_module(r, x->list.at[i], seen));
  }
  return y;
}

/* The number that a tensor of one element holds, where it is made of constants alone. */
static Object *item(Reader *r, Tensor *t) {
  Graph part = *r->g;
  bool *needed = NEW_N(r->cx->arena, bool, r->g->at.n + 1);
  double *value = NULL;
  memset(&part.at, 0, sizeof part.at);
  memset(&part.outputs, 0, sizeof part.outputs);
  part.writes.n = 0;
  needed[t->id] = true;
  for (int i = r->g->at.n - 1; i >= 0; i--)
    for (int k = 0; needed[i] && k < r->g->at.at[i]->in_count; k++) needed[r->g->at.at[i]->in[k]->id] = true;
  for (int i = 0; i < r->g->at.n; i++) {
    Tensor *x = r->g->at.at[i];
    if (!needed[i]) continue;
    if (x->op == GRAPH_INPUT || x->op == GRAPH_UNIFORM || x->op == GRAPH_EXTENT)
      read_fail(r, r->g->place, "item() of a tensor: what is computed may not depend on data");
    vec_push(r->cx->arena, &part.at, x);
  }
  if (!size_is(graph_numel(r->g, t), 1)) read_fail(r, r->g->place, "item() of more than one element");
  vec_push(r->cx->arena, &part.outputs, t);
  for (int i = 0; i < part.at.n; i++) part.at.at[i]->id = i;
  graph_reference(&part, &(GraphValues){.outputs = &value});
  for (int i = 0; i < r->g->at.n; i++) r->g->at.at[i]->id = i;
  double v = *value;
  free(value);
  return t->dtype == DT_I1        ? object_bool(r, v != 0)
         : dtype_is_int(t->dtype) ? object_int(r, (int64_t)v)
                                  : object_float(r, v);
}

static Object *strides(Reader *r, Span at, const Tensor *t) {
  const Size *stride[GRAPH_MAX_RANK];
  Object *out = object_new(r, O_TUPLE);
  if (!tensor_strides(r, t, stride)) read_fail(r, at, "the strides of this view are not known");
  for (int d = 0; d < t->rank; d++) object_append(r, out, object_size(r, stride[d]));
  return out;
}

static Object *write(Reader *r, const Args *a) {
  Tensor *input = tensor(r, a, 0), *value = tensor(r, a, 1);
  if (input->op != GRAPH_INPUT) {
    in_place(r, a->span, a->at[0], "copy_", value);
    return a->at[0];
  }
  value = graph_expand(r->g, graph_convert(r->g, value, input->dtype), input->rank, input->size);
  vec_push(r->cx->arena, &r->g->writes, (GraphWrite){input, value});
  return object_tensor(r, value);
}

/* Questions about values, and what is no operation. */
static Object *other(Reader *r, const char *name, const Args *a) {
  if (!strcmp(name, "result_type")) return object_dtype(r, op_result_type(r, a->span, a->n, a->at));
  if (!strcmp(name, "is_float")) return object_bool(r, dtype_is_float(dtype(r, a, 0)));
  if (!strcmp(name, "is_dtype")) return object_bool(r, is_dtype(r, a->span, argument(r, a, 0)));
  if (!strcmp(name, "is_bool")) return object_bool(r, dtype(r, a, 0) == DT_I1);
  if (!strcmp(name, "is_empty")) return object_bool(r, graph_is_empty(r->g, tensor(r, a, 0)));
  if (!strcmp(name, "numel")) return object_size(r, graph_numel(r->g, tensor(r, a, 0)));
  if (!strcmp(name, "broadcast")) {
    Tensor **x = NEW_N(r->cx->arena, Tensor *, a->n + 1);
    for (int i = 0; i < a->n; i++) x[i] = tensor(r, a, i);
    op_broadcast(r, a->span, a->n, x);
    Object *out = object_new(r, O_LIST);
    for (int i = 0; i < a->n; i++) object_append(r, out, object_tensor(r, x[i]));
    return out;
  }
  if (!strcmp(name, "write")) return write(r, a);
  if (!strcmp(name, "assign")) {
    bool before = r->no_grad;
    r->no_grad = true;
    in_place(r, a->span, argument(r, a, 0), "an assignment", tensor(r, a, 1));
    r->no_grad = before;
    return a->at[0];
  }
  if (!strcmp(name, "parameter") || !strcmp(name, "buffer") || !strcmp(name, "state")) {
    /* of a module: an input of the graph; named when the module is complete */
    const Size *s[GRAPH_MAX_RANK];
    int rank = sizes(r, a, 0, s);
    Object *x =
        object_tensor(r, graph_input(r->g, a->n > 2 ? object_text(r, a->at[2]) : NULL, dtype(r, a, 1), rank, s));
    x->tensor->is_state = *name == 's';
    x->is_parameter = *name == 'p';
    if (x->is_parameter && dtype_is_float(x->tensor->dtype)) autograd_ask(r, a->span, x, true);
    return x;
  }
  if (!strcmp(name, "requires_grad")) {
    tensor(r, a, 0);
    autograd_ask(r, a->span, a->at[0], object_truth(r, a->span, argument(r, a, 1)));
    return a->at[0];
  }
  if (!strcmp(name, "grad_mode")) {
    Object *before = object_bool(r, !r->no_grad);
    if (a->n) r->no_grad = !object_truth(r, a->span, a->at[0]);
    return before;
  }
  if (!strcmp(name, "seed")) {
    Tensor *x = tensor(r, a, 0);
    if (x->op != GRAPH_INPUT || x->dtype != DT_I64 || !size_is(graph_numel(r->g, x), 1))
      read_fail(r, a->span, "the seed of random numbers is an input of one int64");
    r->g->seed = x;
    return r->none;
  }
  if (!strcmp(name, "overwrite")) { /* as x.add_(y) does */
    in_place(r, a->span, argument(r, a, 0), object_text(r, argument(r, a, 2)), tensor(r, a, 1));
    return a->at[0];
  }
  if (!strcmp(name, "is_contiguous")) return object_bool(r, tensor_is_contiguous(r, tensor(r, a, 0)));
  if (!strcmp(name, "strides")) return strides(r, a->span, tensor(r, a, 0));
  if (!strcmp(name, "share")) return autograd_detach(r, a->at[0]);
  if (!strcmp(name, "backward")) return autograd_backward(r, a);
  if (!strcmp(name, "grad")) return autograd_grad(r, a);
  if (!strcmp(name, "parameters")) return autograd_parameters(r, argument(r, a, 0));
  if (!strcmp(name, "item")) return item(r, tensor(r, a, 0));
  if (!strcmp(name, "named")) { /* 'values indices', values, indices */
    Object *out = object_list(r, O_TUPLE, a->n - 1, a->at + 1);
    out->list.names = object_text(r, argument(r, a, 0));
    return out;
  }
  if (!strcmp(name, "clone_module")) return clone_module(r, argument(r, a, 0), map_create(r->cx->arena, false));
  if (!strcmp(name, "children")) return children(r, argument(r, a, 0), false);
  if (!strcmp(name, "named_children")) return children(r, argument(r, a, 0), true);
  if (!strcmp(name, "fail")) read_fail(r, a->span, "%s", object_text(r, argument(r, a, 0)));
  read_fail(r, a->span, "prim.%s is not known", name);
}

/* Where nothing was to be done: a view is the tensor itself, anything else a copy, which may be written apart. */
static Object *result(Reader *r, const Args *a, Tensor *t, bool is_view) {
  if (a->n && a->at[0]->kind == O_TENSOR && a->at[0]->tensor == t && is_view) return a->at[0];
  bool same = false;
  for (int i = 0; i < a->n; i++) {
    const Object *x = a->at[i];
    same |= x->kind == O_TENSOR && x->tensor == t;
    for (int k = 0; x->kind == O_LIST && k < x->list.n; k++)
      same |= x->list.at[k]->kind == O_TENSOR && x->list.at[k]->tensor == t;
  }
  return object_tensor(r, same && !is_view ? graph_detach(r->g, t, t) : t);
}

Object *prim_call(Reader *r, const char *name, const Args *a) {
  Object *complex = complex_prim(r, name, a);
  if (complex) return complex;
  for (size_t i = 0; i < sizeof prims / sizeof *prims; i++)
    if (!strcmp(prims[i].name, name)) return result(r, a, prims[i].make(r, a), prims[i].is_view);
  int reduction = graph_reduction_named(name);
  if (reduction >= 0) {
    int64_t dims[GRAPH_MAX_RANK];
    int n = ints(r, a, 1, dims);
    return result(r, a, graph_reduce(r->g, (Reduction)reduction, tensor(r, a, 0), n, dims), false);
  }
  int scan = graph_scan_named(name);
  if (scan >= 0) {
    Tensor *x = tensor(r, a, 0);
    return result(r, a, graph_scan(r->g, (GraphOp)scan, x, dim(r, a, 1, x)), false);
  }
  int point = graph_point_named(name);
  if (point >= 0) return object_tensor(r, op_point(r, a->span, (PointOp)point, a->n, a->at));
  return other(r, name, a);
}

Object *tensor_attribute(Reader *r, Span at, Tensor *t, const char *name) {
  if (!strcmp(name, "shape")) {
    Object *out = object_new(r, O_TUPLE);
    for (int d = 0; d < t->rank; d++) object_append(r, out, object_size(r, t->size[d]));
    return out;
  }
  if (!strcmp(name, "dtype")) return object_dtype(r, t->dtype);
  if (!strcmp(name, "ndim")) return object_int(r, t->rank);
  if (!strcmp(name, "device")) return object_str(r, "cpu");
  if (!strcmp(name, "is_cpu")) return object_bool(r, true);
  if (!strcmp(name, "layout")) return object_path(r, "torch.strided");
  if (!strcmp(name, "itemsize")) return object_int(r, dtype_bytes(t->dtype));
  if (!strcmp(name, "nbytes")) {
    const Size *n = graph_numel(r->g, t);
    return op_binary(r, at, PYOP_MULT, object_size(r, n), object_int(r, dtype_bytes(t->dtype)));
  }
  static const char *const never[] = {"is_cuda",   "is_sparse", "is_quantized", "is_meta", "is_mkldnn",
                                      "is_nested", "is_xpu",    "is_mps",       NULL};
  for (int i = 0; never[i]; i++)
    if (!strcmp(name, never[i])) return object_bool(r, false);
  if (!strcmp(name, "real")) return object_tensor(r, t);
  if (!strcmp(name, "T") || !strcmp(name, "mT") || !strcmp(name, "H") || !strcmp(name, "mH")) {
    int64_t dims[GRAPH_MAX_RANK];
    bool all = *name == 'T' || *name == 'H';
    if (!all && t->rank < 2) read_fail(r, at, "%s of a tensor of %d dims", name, t->rank);
    for (int d = 0; d < t->rank; d++) dims[d] = all ? t->rank - 1 - d : d < t->rank - 2 ? d : 2 * t->rank - 3 - d;
    return object_tensor(r, graph_permute(r->g, t, dims));
  }
  return NULL;
}
