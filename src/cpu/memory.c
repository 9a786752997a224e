/* Which accesses conflict, which of those may share a nest, and which loads a nest runs. memory.h has the rule. */
#include "cpu/memory.h"

bool memory_writes(const Op *op) { return op_info[op->code].effect == EFFECT_WRITE; }

bool memory_conflict(Emit *e, const Op *a, const Op *b) {
  return (memory_writes(a) || memory_writes(b)) &&
         provenance_may_alias(e->provenance, a->in[0], b->in[0], e->arguments);
}

/* ---- one place an index ------------------------------------------------------------------------------------------ */

/* s without the argument that it begins at, so that accesses of two arguments can be compared. */
static Sym *without_argument(Emit *e, Sym *s) {
  stack_guard();
  switch (s->kind) {
    case SYM_VALUE: return s->value->type->ptr && !s->value->def && !s->value->block->parent ? sym_const(e, 0) : s;
    case SYM_ADD: return sym_add(e, without_argument(e, s->l), without_argument(e, s->r));
    default: return s;
  }
}

/* The place of an access by the nest's own dims. */
static Index place_in_nest(Emit *e, const Access *a, bool from_argument) {
  const Value *ptr = a->op->in[0];
  const Index *x = index_of(e, a->op->in[0]);
  Index y = {.base = from_argument ? without_argument(e, x->base) : x->base, .term_count = x->term_count};
  for (int d = 0; d < MAX_RANK; d++) y.coef[d] = sym_const(e, 0);
  for (int k = 0; k < ptr->type->rank; k++)
    if (a->map[k] >= 0) y.coef[a->map[k]] = sym_add(e, y.coef[a->map[k]], x->coef[k]);
  for (int i = 0; i < x->term_count; i++) {
    y.term[i] = x->term[i];
    for (int k = 0; k < MAX_RANK; k++) y.term[i].dim[k] = x->term[i].dim[k] < 0 ? -1 : a->map[(int)x->term[i].dim[k]];
  }
  return y;
}

/* Whether no two indices of the nest are places with a byte in common: the strides, from the smallest on, each step
 * over all that the smaller ones reach. */
static bool is_one_to_one(const Index *x, int bytes, int rank, const int32_t *shape) {
  int64_t stride[MAX_RANK], extent[MAX_RANK], reach = bytes;
  int n = 0;
  if (x->term_count) return false;
  for (int d = 0; d < rank; d++) {
    if (shape[d] == 1) continue;
    if (x->coef[d]->kind != SYM_CONST || x->coef[d]->number == INT64_MIN) return false;
    int64_t s = x->coef[d]->number < 0 ? -x->coef[d]->number : x->coef[d]->number;
    int k = n++;
    for (; k > 0 && stride[k - 1] > s; k--) stride[k] = stride[k - 1], extent[k] = extent[k - 1];
    stride[k] = s, extent[k] = shape[d];
  }
  for (int k = 0; k < n; k++) {
    if (stride[k] < reach || stride[k] > INT64_MAX / 2 / extent[k]) return false;
    reach += stride[k] * (extent[k] - 1);
  }
  return true;
}

/* The number that s ends with, and what it is added to; NULL: nothing. */
static const Sym *known_part(const Sym *s, int64_t *number) {
  *number = 0;
  if (s->kind == SYM_ADD && s->r->kind == SYM_CONST) {
    *number = s->r->number;
    return s->l;
  }
  if (s->kind != SYM_CONST) return s;
  *number = s->number;
  return NULL;
}

/* Whether no place of x has a byte in common with one of y: both go by multiples of one step, from bases that differ by
 * a part of it. The real and the imaginary parts of an array are such. */
static bool never_meet(Emit *e, const Index *x, const Index *y, int bytes, int rank) {
  int64_t apart, of_x, step = 0;
  if (x->term_count || y->term_count || known_part(x->base, &of_x) != known_part(y->base, &apart)) return false;
  if (__builtin_sub_overflow(apart, of_x, &apart)) return false;
  for (int d = 0; d < rank; d++) {
    const Sym *steps[] = {x->coef[d], y->coef[d]};
    for (int k = 0; k < 2; k++) {
      if (steps[k]->kind != SYM_CONST || steps[k]->number == INT64_MIN) return false;
      step = gcd(step, steps[k]->number < 0 ? -steps[k]->number : steps[k]->number);
    }
  }
  if (!step) return false;
  int64_t rest = (apart % step + step) % step;
  return rest >= bytes && rest <= step - bytes;
}

static bool is_plain(const Op *op) { return op->code == OP_LOAD || op->code == OP_STORE; }

static bool share(Emit *e, const Access *first, const Access *second, int rank, const int32_t *shape, bool as_one) {
  const Type *p = type_pointee(e->cx, first->op->in[0]->type), *q = type_pointee(e->cx, second->op->in[0]->type);
  if (!is_plain(first->op) || second->op->code != OP_STORE || type_elem_bytes(p) != type_elem_bytes(q)) return false;
  Index x = place_in_nest(e, first, as_one), y = place_in_nest(e, second, as_one);
  if (never_meet(e, &x, &y, type_elem_bytes(p), rank)) return true;
  return index_equal(&x, &y, rank) && is_one_to_one(&x, type_elem_bytes(p), rank, shape);
}

bool memory_may_share(Emit *e, const Access *first, const Access *second, int rank, const int32_t *shape) {
  return share(e, first, second, rank, shape, false);
}

bool memory_may_share_if_same(Emit *e, const Access *first, const Access *second, int rank, const int32_t *shape) {
  return share(e, first, second, rank, shape, true);
}

/* ---- the loads of a nest ----------------------------------------------------------------------------------------- */

/* A load may be repeated by a later group, which may then keep it; this one has its own, also where it reads a view of
 * it. */
bool loads_here(const Group *g, const Op *op) {
  while (op && op_is_view(op)) op = op->in[0]->def;
  for (int i = 0; op && op->code == OP_LOAD && i < g->loads.n; i++)
    if (g->loads.at[i] == op) return true;
  return false;
}

struct SeenAt {
  int8_t map[MAX_RANK];
  SeenAt *next;
};

typedef struct Walk {
  Emit *e;
  Planner *planner; /* NULL: all is planned */
  const Group *g;
  Accesses found;
} Walk;

static bool seen_before(Walk *w, Value *v, const int8_t *map) {
  Info *info = info_of(w->e, v);
  if (info->walk != w->e->walk) info->walk = w->e->walk, info->seen = NULL;
  for (SeenAt *s = info->seen; s; s = s->next)
    if (!memcmp(s->map, map, (size_t)v->type->rank)) return true;
  SeenAt *s = NEW(w->e->arena, SeenAt);
  memcpy(s->map, map, sizeof s->map);
  s->next = info->seen;
  info->seen = s;
  return false;
}

/* Whether the nest reads v where it was kept, as value_text (nest.c) finds it or will find it. */
static bool reads_kept(const Walk *w, Value *v) {
  const Info *info = info_of(w->e, v);
  if (w->g && loads_here(w->g, v->def)) return false;
  if (info->view) return !w->g || info->owner != w->g || info->closed;
  if (!w->planner || !v->def || op_is_view(v->def)) return false;
  return info->owner && info->owner != w->g && info->owner != w->planner->open && !load_may_repeat(w->planner, v);
}

static void walk_inputs(Walk *w, Op *op, const int8_t *map);

static void walk_value(Walk *w, Value *v, const int8_t *map) {
  stack_guard();
  if (v->type->rank == 0 || value_is_recomputable(w->e, v) || !v->def || reads_kept(w, v) || seen_before(w, v, map))
    return;
  if (op_is_view(v->def)) {
    int8_t m[MAX_RANK], inner[MAX_RANK];
    view_map(v->def, m);
    for (int k = 0; k < MAX_RANK; k++) inner[k] = m[k] < 0 ? -1 : map[m[k]];
    walk_value(w, v->def->in[0], inner);
    return;
  }
  if (v->def->code == OP_LOAD) {
    Access a = {.op = v->def};
    memcpy(a.map, map, sizeof a.map);
    vec_push(w->e->arena, &w->found, a);
  }
  walk_inputs(w, v->def, map);
}

static void walk_inputs(Walk *w, Op *op, const int8_t *map) {
  for (int i = 0; i < op->in_count; i++) {
    const Term *terms;
    int n = address_terms(w->e, op, i, &terms);
    if (i > 0 || !op_is_access(op)) walk_value(w, op->in[i], map);
    for (int t = 0; t < n; t++) {
      int8_t inner[MAX_RANK];
      for (int k = 0; k < MAX_RANK; k++) inner[k] = terms[t].dim[k] < 0 ? -1 : map[(int)terms[t].dim[k]];
      walk_value(w, terms[t].value, inner);
    }
  }
}

static Accesses loads_of(Emit *e, Planner *p, const Group *g, int n, FusionRoot *const *roots) {
  Walk w = {.e = e, .planner = p, .g = g};
  e->walk++;
  for (int i = 0; i < n; i++) {
    if (roots[i]->kind == ROOT_KEEP) walk_value(&w, roots[i]->value, roots[i]->map);
    else walk_inputs(&w, roots[i]->op, roots[i]->map);
  }
  return w.found;
}

Accesses root_loads(Emit *e, Planner *p, const Group *g, FusionRoot *r) { return loads_of(e, p, g, 1, &r); }

Accesses group_loads(Emit *e, const Group *g) { return loads_of(e, NULL, g, g->roots.n, g->roots.at); }

/* ---- who may join a nest ----------------------------------------------------------------------------------------- */

bool root_writes(const FusionRoot *r) { return r->kind == ROOT_STORE || r->kind == ROOT_ATOMIC; }

Access root_access(const FusionRoot *r) {
  Access a = {.op = r->op};
  memcpy(a.map, r->map, sizeof a.map);
  return a;
}

static bool may_meet(Emit *e, const Group *g, const Access *first, const Access *second) {
  return !memory_conflict(e, first->op, second->op) || memory_may_share(e, first, second, g->rank, g->shape);
}

bool memory_fits(Planner *p, const Group *g, FusionRoot *r) {
  Emit *e = p->e;
  Access own = root_access(r);
  Accesses loads = root_loads(e, p, g, r);
  for (int k = 0; k < g->roots.n; k++) {
    if (!root_writes(g->roots.at[k])) continue;
    Access write = root_access(g->roots.at[k]);
    if (root_writes(r) && !may_meet(e, g, &write, &own)) return false;
    for (int i = 0; i < loads.n; i++)
      if (!may_meet(e, g, &loads.at[i], &write)) return false;
  }
  if (!root_writes(r)) return true;
  for (int i = 0; i < loads.n; i++)
    if (!may_meet(e, g, &loads.at[i], &own)) return false;
  for (int i = 0; i < g->accesses.n; i++)
    if (!may_meet(e, g, &g->accesses.at[i], &own)) return false;
  return true;
}

bool load_may_repeat(Planner *p, Value *v) {
  return v->def->code == OP_LOAD && !op_is_volatile(v->def) && info_of(p->e, v)->epoch == p->epoch && v->def->block;
}
