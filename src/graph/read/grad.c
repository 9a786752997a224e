/* Reverse-mode differentiation. The graph is gone through from the last operation to the first: an operation whose
 * result has a gradient gives its operands theirs, by the rule of grad.py that has its name. What comes to one tensor
 * from several users is added up when all have been seen, which is when its own turn comes.
 *
 * Slices of one tensor (the steps of a sequence, the parts of a split) give parts that do not overlap: those are one
 * concatenation, and not a sum of tensors that are zero but for a part each. */
#include <stdlib.h>

#include "graph/read/object.h"

static const char rules_text[] =
#include "grad.py.inc"
    ;

typedef struct Part {
  Tensor *g;
  const Tensor *slice; /* NULL: of the whole; else g is the gradient of this slice of the tensor */
  struct Part *next;
} Part;

typedef struct Sweep {
  Reader *r;
  Graph *g;
  int n;        /* operations there were before */
  bool *needed; /* by id: some tensor that is asked for leads to it */
  bool *zero;   /* it has a gradient, which is 0 as far as is known */
  Part **parts;
} Sweep;

static void give(Sweep *s, const Tensor *to, Tensor *g, const Tensor *slice) {
  Part *p = NEW(s->r->cx->arena, Part);
  *p = (Part){g, slice, s->parts[to->id]};
  s->parts[to->id] = p;
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

static void read_rules(Reader *r) {
  if (r->rules) return;
  r->rules = NEW(r->cx->arena, Scope);
  *r->rules = (Scope){map_create(r->cx->arena, false), NULL, true, NULL};
  exec_file(r, r->rules, parse_module(r->cx, source_from_text(r->cx, "grad.py", rules_text, sizeof rules_text - 1)));
}

static const char *rule_name(const Tensor *t) {
  if (t->op == GRAPH_POINT) return graph_points[t->point].name;
  return t->op == GRAPH_REDUCE ? graph_reductions[t->kind] : graph_ops[t->op].name;
}

static Object *attribute(Reader *r, const Tensor *t, const GraphAttr *a) {
  Object *list = object_new(r, O_LIST);
  switch (a->type) {
    case GRAPH_ATTR_INT: return object_int(r, t->attr[a->slot]);
    case GRAPH_ATTR_WORD: return object_str(r, a->words[t->attr[a->slot]]);
    case GRAPH_ATTR_NUMBER: return object_float(r, t->number);
    case GRAPH_ATTR_SIZE: return object_size(r, t->first);
    case GRAPH_ATTR_DIMS:
      for (int i = 0; i < t->dim_count; i++) object_append(r, list, object_int(r, t->dims[i]));
      break;
    case GRAPH_ATTR_SIZES:
      for (int i = 0; i < t->before_count; i++) object_append(r, list, object_size(r, t->before[i]));
      break;
  }
  return list;
}

/* What the rule gives: an object for each operand, or one. */
static Object *call_rule(Sweep *s, Tensor *t, Tensor *g) {
  Reader *r = s->r;
  Object *rule = map_get(s->r->rules->names, intern_z(r->cx, rule_name(t))), *args = object_new(r, O_LIST);
  if (!rule) diag_fail(r->cx, t->span, "%s has no gradient", rule_name(t));
  object_append(r, args, object_tensor(r, g));
  object_append(r, args, object_tensor(r, t));
  Object *list = t->op == GRAPH_CONCAT ? object_new(r, O_LIST) : args;
  for (int i = 0; i < t->in_count; i++) object_append(r, list, object_tensor(r, t->in[i]));
  if (list != args) object_append(r, args, list);
  const GraphAttr *attrs[GRAPH_MAX_ATTRS];
  int n = graph_attrs(t->op, attrs);
  for (int i = 0; i < n; i++)
    if (t->op != GRAPH_REDUCE || attrs[i]->type != GRAPH_ATTR_WORD) /* its kind says which rule */
      object_append(r, args, attribute(r, t, attrs[i]));
  return call_values(r, t->span, rule, args->list.n, args->list.at);
}

/* Of prim.differentiate(y, [x, ...], f). */
typedef struct Rule {
  Object *of, *f;
} Rule;

Tensor *differentiate(Reader *r, Span at, Tensor *y, Object *of, Object *f) {
  for (int i = 0; i < of->list.n; i++)
    if (of->list.at[i]->kind != O_TENSOR) read_fail(r, at, "a gradient by %s", object_describe(r, of->list.at[i]));
  Rule *rule = NEW(r->cx->arena, Rule);
  *rule = (Rule){object_new(r, O_LIST), f};
  for (int i = 0; i < of->list.n; i++) /* as they are now: objects change when they are written in place */
    object_append(r, rule->of, object_tensor(r, use_tensor(r, at, of->list.at[i])));
  y = graph_detach(r->g, y, y);
  y->rule = rule;
  return y;
}

static void give_object(Sweep *s, const Tensor *from, Tensor *to, Object *x) {
  if (!s->needed[to->id] || x->kind == O_NONE) return;
  if (object_is_number(x)) s->zero[to->id] = true;
  else if (x->kind != O_TENSOR || !graph_same_shape(x->tensor, to))
    diag_fail(s->r->cx, from->span, "internal error: the gradient of %s is %s", rule_name(from),
              object_describe(s->r, x));
  else give(s, to, graph_convert(s->g, x->tensor, to->dtype), NULL);
}

static void spread(Sweep *s, Tensor *t, Tensor *g) {
  if (t->op == GRAPH_SLICE && t->step == 1) { /* by the slice, for sum_parts() */
    give(s, t->in[0], g, t);
    return;
  }
  if (t->rule) {
    const Rule *rule = t->rule;
    Object *args = object_list(s->r, O_LIST, 1, &(Object *){object_tensor(s->r, g)});
    for (int i = 0; i < rule->of->list.n; i++) object_append(s->r, args, rule->of->list.at[i]);
    Object *got = want_items(s->r, t->span, call_values(s->r, t->span, rule->f, args->list.n, args->list.at));
    for (int i = 0; i < rule->of->list.n && i < got->list.n; i++)
      give_object(s, t, rule->of->list.at[i]->tensor, got->list.at[i]);
    return;
  }
  Object *got = call_rule(s, t, g);
  bool many = got->kind == O_TUPLE || got->kind == O_LIST;
  for (int k = 0; k < t->in_count && (many ? k < got->list.n : !k); k++)
    give_object(s, t, t->in[k], many ? got->list.at[k] : got);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static Tensor *plus(Sweep *s, Tensor *a, Tensor *b) {
  return a && b ? graph_point(s->g, POINT_ADD, 2, (Tensor *[]){a, b}) : a ? a : b;
}

static Tensor *zeros(Sweep *s, const Tensor *like) { return graph_full(s->g, like->dtype, like->rank, like->size, 0); }

typedef struct Piece {
  int64_t first, end;
  Tensor *g;
} Piece;

static int by_place(const void *a, const void *b) {
  const Piece *x = a, *y = b;
  return x->first < y->first ? -1 : x->first > y->first;
}

/* Pieces that follow each other along a dim, zeros between them. */
static Tensor *join(Sweep *s, const Tensor *t, int dim, int n, const Piece *pieces) {
  VEC(Tensor *) in = {0};
  int64_t at = 0, all = 0;
  size_is_int(t->size[dim], &all);
  for (int i = 0; i <= n; i++) {
    int64_t next = i < n ? pieces[i].first : all;
    if (next > at) {
      const Size *size[GRAPH_MAX_RANK];
      for (int d = 0; d < t->rank; d++) size[d] = d == dim ? size_int(s->g, next - at) : t->size[d];
      vec_push(s->r->cx->arena, &in, graph_full(s->g, t->dtype, t->rank, size, 0));
    }
    if (i == n) break;
    vec_push(s->r->cx->arena, &in, pieces[i].g);
    at = pieces[i].end;
  }
  return graph_concat(s->g, in.n, in.at, dim);
}

/* The slices along a dim: as many concatenations as some of them overlap. */
static Tensor *sum_slices(Sweep *s, const Tensor *t, int dim) {
  VEC(Piece) pieces = {0};
  int64_t all, first, n;
  Tensor *sum = NULL;
  for (const Part *p = s->parts[t->id]; p; p = p->next) {
    if (!p->slice || p->slice->dim != dim) continue;
    bool known =
        size_is_int(t->size[dim], &all) && size_is_int(p->slice->first, &first) && size_is_int(p->g->size[dim], &n);
    if (known && n > 0) vec_push(s->r->cx->arena, &pieces, (Piece){first, first + n, p->g});
    else if (!known) {
      s->g->place = p->slice->span;
      Object *g = call_rule(s, (Tensor *)p->slice, p->g);
      sum = plus(s, sum, g->kind == O_TENSOR ? g->tensor : zeros(s, t));
    }
  }
  if (pieces.n > 1) qsort(pieces.at, (size_t)pieces.n, sizeof(Piece), by_place);
  while (pieces.n) {
    Piece *row = NEW_N(s->r->cx->arena, Piece, pieces.n);
    int taken = 0, left = 0;
    for (int i = 0; i < pieces.n; i++)
      if (!taken || pieces.at[i].first >= row[taken - 1].end) row[taken++] = pieces.at[i];
      else pieces.at[left++] = pieces.at[i];
    pieces.n = left;
    sum = plus(s, sum, join(s, t, dim, taken, row));
  }
  return sum;
}

static Tensor *sum_parts(Sweep *s, const Tensor *t) {
  Tensor *sum = NULL;
  bool sliced[GRAPH_MAX_RANK] = {false}, any = false;
  for (const Part *p = s->parts[t->id]; p; p = p->next) {
    any = true;
    if (p->slice) sliced[p->slice->dim] = true;
    else sum = plus(s, sum, p->g);
  }
  for (int d = 0; d < t->rank; d++)
    if (sliced[d]) sum = plus(s, sum, sum_slices(s, t, d));
  return sum ? sum : any || s->zero[t->id] ? zeros(s, t) : NULL;
}

/* ---- the sweep --------------------------------------------------------------------------------------------------- */

void gradients(Reader *r, int n, Tensor *const *outputs, Tensor *const *seeds, int count, Tensor *const *of,
               Tensor **out) {
  Graph *g = r->g;
  Arena *a = r->cx->arena;
  read_rules(r);
  Sweep s = {.r = r, .g = g, .n = g->at.n};
  s.needed = NEW_N(a, bool, s.n + 1);
  s.zero = NEW_N(a, bool, s.n + 1);
  s.parts = NEW_N(a, Part *, s.n + 1);
  bool *asked = NEW_N(a, bool, s.n + 1);
  Tensor **done = NEW_N(a, Tensor *, s.n + 1);
  Span place = g->place;
  bool no_grad = r->no_grad, sweeping = r->sweeping;
  r->no_grad = false;
  r->sweeping = true;
  for (int i = 0; i < s.n; i++) g->at.at[i]->id = i;
  for (int i = 0; i < count; i++) s.needed[of[i]->id] = asked[of[i]->id] = dtype_is_float(of[i]->dtype);
  for (int i = 0; i < s.n; i++) {
    const Tensor *t = g->at.at[i];
    if (!dtype_is_float(t->dtype)) continue;
    if (t->op == GRAPH_DETACH) s.needed[i] |= t->in_count > 1 && s.needed[t->in[1]->id];
    else
      for (int k = 0; k < t->in_count; k++) s.needed[i] |= s.needed[t->in[k]->id];
  }
  for (int i = 0; i < n; i++) {
    Tensor *y = outputs[i], *seed = seeds ? seeds[i] : NULL;
    if (!dtype_is_float(y->dtype) || !s.needed[y->id]) continue;
    give(&s, y, seed ? graph_convert(g, seed, y->dtype) : graph_full(g, y->dtype, y->rank, y->size, 1), NULL);
  }
  for (int i = s.n - 1; i >= 0; i--) {
    Tensor *t = g->at.at[i];
    bool on = false;
    for (int k = 0; k < t->in_count; k++) on |= s.needed[t->in[k]->id];
    if (!s.needed[i] || (!asked[i] && !on)) continue;
    g->place = t->span;
    done[i] = sum_parts(&s, t);
    if (done[i] && on) spread(&s, t, done[i]);
  }
  for (int i = 0; i < count; i++) out[i] = done[of[i]->id];
  r->no_grad = no_grad;
  r->sweeping = sweeping;
  g->place = place;
}

/* ---- of a graph that has been read ------------------------------------------------------------------------------- */

void graph_gradients(Graph *g, int n, Tensor *const *outputs, Tensor *const *seeds, int count, Tensor *const *of,
                     Tensor **out) {
  Reader *r = g->reader ? g->reader : reader_create(g->cx, g, false);
  gradients(r, n, outputs, seeds, count, of, out);
}

static Tensor *named_input(Graph *g, const char *name, size_t n) {
  for (int i = 0; i < g->inputs.n; i++) {
    const char *has = g->inputs.at[i]->name;
    if (has && strlen(has) == n && !memcmp(has, name, n)) return g->inputs.at[i];
  }
  const char **all = NEW_N(g->cx->arena, const char *, g->inputs.n + 1);
  int count = 0;
  for (int i = 0; i < g->inputs.n; i++)
    if (g->inputs.at[i]->name) all[count++] = g->inputs.at[i]->name;
  const char *word = arena_strndup(g->cx->arena, name, n), *near = nearest_name(word, all);
  const char *hint = near ? arena_printf(g->cx->arena, "did you mean %s?", near) : "--grad all takes every input";
  diag_fail_hint(g->cx, (Span){0}, hint, "a gradient by %s, which is no input", word);
}

/* The input that has the gradient of output i. */
/* Without one: 1. */
static Tensor *one(Graph *g, int i, const Tensor *y) {
  const Size *size[GRAPH_MAX_RANK];
  if (!graph_is_complex_output(g, i)) return NULL;
  for (int d = 0; d < y->rank; d++) size[d] = d + 1 < y->rank ? y->size[d] : size_int(g, 1);
  Tensor *parts[] = {graph_full(g, y->dtype, y->rank, size, 1), graph_full(g, y->dtype, y->rank, size, 0)};
  return graph_concat(g, 2, parts, y->rank - 1);
}

static Tensor *seed_of(Graph *g, int i, const Tensor *y, int n, const ReadInput *said) {
  const char *name = i ? arena_printf(g->cx->arena, "grad_output_%d", i) : "grad_output";
  for (int k = 0; k < n; k++) {
    if (strcmp(said[k].name, name) || !said[k].is_tensor) continue;
    const Size *size[GRAPH_MAX_RANK];
    for (int d = 0; d < said[k].rank; d++) size[d] = size_int(g, said[k].shape[d]);
    Tensor *seed = graph_input(g, name, said[k].dtype, said[k].rank, size);
    if (!graph_same_shape(seed, y) || seed->dtype != y->dtype) {
      Buf has = {.arena = g->cx->arena}, wants = {.arena = g->cx->arena};
      graph_print_type(&has, seed);
      graph_print_type(&wants, y);
      diag_fail(g->cx, (Span){0}, "%s is %s, and output %d is %s", name, has.at, i, wants.at);
    }
    return seed;
  }
  return one(g, i, y);
}

void graph_add_gradients(Graph *g, const char *names, int n, const ReadInput *said) {
  Arena *a = g->cx->arena;
  VEC(Tensor *) of = {0}, ys = {0}, seeds = {0};
  bool all = !strcmp(names, "all");
  for (int i = 0; all && i < g->inputs.n; i++)
    if (dtype_is_float(g->inputs.at[i]->dtype)) vec_push(a, &of, g->inputs.at[i]);
  for (const char *s = names; !all && *s;) {
    size_t k = strcspn(s, ",");
    Tensor *x = named_input(g, s, k);
    if (!dtype_is_float(x->dtype))
      diag_fail(g->cx, (Span){0}, "a gradient by %s, which is of type %s", x->name, dtype_name(x->dtype));
    vec_push(a, &of, x);
    s += k + (s[k] == ',');
  }
  for (int i = 0; i < g->outputs.n; i++) {
    Tensor *y = g->outputs.at[i];
    if (!y || !dtype_is_float(y->dtype)) continue;
    vec_push(a, &ys, y);
    vec_push(a, &seeds, seed_of(g, i, y, n, said));
  }
  Tensor **out = NEW_N(a, Tensor *, of.n + 1);
  graph_gradients(g, ys.n, ys.at, seeds.at, of.n, of.at, out);
  for (int i = 0; i < of.n; i++) {
    const Tensor *x = of.at[i];
    Tensor *t = out[i] ? out[i] : graph_full(g, x->dtype, x->rank, x->size, 0);
    if (x->op == GRAPH_INPUT && x->is_complex) graph_complex_output(g, g->outputs.n);
    if (x->name) graph_name_output(g, g->outputs.n, arena_printf(a, "grad_%s", x->name));
    vec_push(a, &g->outputs, t);
  }
}
