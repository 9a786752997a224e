/* Which nest computes what, and which values are kept.
 *
 * A root (a store, a reduction, a value to keep) joins the open group when it runs over the same dims along the same
 * vectors and all it needs can be had at its own index there (can_fuse). Then what it needs runs in that group
 * (fuse_producer); what an earlier group computes is kept by that group after all (keep_in), unless it is a load that
 * may be repeated.
 *
 * Vectors run along the last dim, or along the one in which a store is contiguous. A load that is contiguous along
 * another is kept along that one and turned (transposed) in memory, which costs less than gathering single elements.
 */
#include "cpu/memory.h"

static bool can_fuse_inputs(Planner *p, Op *op, Group *g);

/* Whether v can be had, at its own index, in the nest of g. Call with a fresh stamp. */
bool can_fuse(Planner *p, Value *v, Group *g) {
  stack_guard();
  Emit *e = p->e;
  Info *info = info_of(e, v);
  if (v->type->rank == 0) return !g || info->owner != g;
  if (info->visit == e->stamp) return info->visit_ok;
  info->visit = e->stamp;
  info->visit_ok = true;
  bool recomputable = value_is_recomputable(e, v);
  if (info->view && !recomputable) {
    if (info->owner != g) return true;
    if (info->closed) {
      info->visit_ok = false;
      return false;
    }
  }
  if (!v->def) return true;
  Op *op = v->def;
  if (!recomputable && !op_is_view(op) && info->owner && info->owner != g && !load_may_repeat(p, v)) return true;
  info->visit_ok = can_fuse_inputs(p, op, g);
  return info->visit_ok;
}

static bool can_fuse_inputs(Planner *p, Op *op, Group *g) {
  const Term *terms;
  for (int i = 0; i < op->in_count; i++) {
    if (!can_fuse(p, op->in[i], g)) return false;
    for (int k = address_terms(p->e, op, i, &terms) - 1; k >= 0; k--)
      if (!can_fuse(p, terms[k].value, g)) return false;
  }
  return true;
}

static void note_read(Planner *p, Group *g, Value *v, const int8_t map[MAX_RANK]) {
  Emit *e = p->e;
  View *view = info_of(e, v)->view;
  vec_push(e->arena, &g->reads, view->buffer);
  bool straight = v->type->rank == g->rank && view_is_compact(view, v->type);
  for (int k = 0; straight && k < v->type->rank; k++)
    straight = map[k] == k || (v->type->shape[k] == 1 && g->shape[k] == 1);
  if (!straight) vec_push(e->arena, &g->skewed, view->buffer);
}

/* g already computes v: it writes it down as well. */
static void keep_in(Planner *p, Group *g, Value *v) {
  Emit *e = p->e;
  Info *info = info_of(e, v);
  info->view = view_row_major(e, buffer_new(e, v->type), v->type);
  FusionRoot *r = NEW(e->arena, FusionRoot);
  r->kind = ROOT_KEEP;
  r->value = v;
  r->view = info->view;
  memcpy(r->map, info->map, sizeof r->map);
  vec_push(e->arena, &g->roots, r);
}

static void fuse_inputs(Planner *p, Op *op, Group *g, const int8_t map[MAX_RANK]);

static void fuse_producer(Planner *p, Value *v, Group *g, const int8_t map[MAX_RANK]) {
  stack_guard();
  Emit *e = p->e;
  Info *info = info_of(e, v);
  if (v->type->rank == 0) return;
  Op *op = v->def;
  bool recomputable = value_is_recomputable(e, v);
  if (!recomputable && info->view && info->owner != g) {
    note_read(p, g, v, map);
    return;
  }
  if (op_is_view(op)) {
    int8_t m[MAX_RANK], inner[MAX_RANK];
    view_map(op, m);
    for (int k = 0; k < MAX_RANK; k++) inner[k] = m[k] < 0 ? -1 : map[m[k]];
    fuse_producer(p, op->in[0], g, inner);
    return;
  }
  if (!recomputable) {
    if (info->owner == g) return;
    if (info->owner && !load_may_repeat(p, v)) {
      keep_in(p, info->owner, v);
      note_read(p, g, v, map);
      return;
    }
    if (op->code == OP_LOAD) {
      vec_push(e->arena, &g->loads, op);
      if (info->owner) vec_push(e->arena, &g->repeats, op);
    }
    info->owner = g;
    memcpy(info->map, map, sizeof info->map);
  } else {
    return; /* made of scalars and recomputable values only */
  }
  fuse_inputs(p, op, g, map);
}

static void fuse_inputs(Planner *p, Op *op, Group *g, const int8_t map[MAX_RANK]) {
  for (int i = 0; i < op->in_count; i++) {
    const Term *terms;
    int n = address_terms(p->e, op, i, &terms);
    if (i > 0 || !op_is_access(op)) fuse_producer(p, op->in[i], g, map);
    for (int t = 0; t < n; t++) {
      int8_t inner[MAX_RANK];
      for (int k = 0; k < MAX_RANK; k++) inner[k] = terms[t].dim[k] < 0 ? -1 : map[terms[t].dim[k]];
      fuse_producer(p, terms[t].value, g, inner);
    }
  }
}

const Type *root_shape(const FusionRoot *r) { return r->kind == ROOT_KEEP ? r->value->type : r->op->in[0]->type; }

/* ---- which dim vectors run along ---- */

static int last_dim(const Type *t) {
  for (int d = t->rank - 1; d >= 0; d--)
    if (t->shape[d] > 1) return d;
  return -1;
}

/* The dim along which neighbours of a tensor of pointers are neighbours in memory, or -1. */
static int contiguous_dim(Emit *e, Value *ptr) {
  const Type *t = ptr->type;
  Index *x = index_of(e, ptr);
  int bytes = t->ptr > 1 ? 8 : dtype_bytes(t->dtype);
  for (int d = t->rank - 1; d >= 0; d--) {
    if (t->shape[d] < 8 || !sym_is(x->coef[d], bytes)) continue;
    bool other = false;
    for (int i = 0; i < x->term_count; i++)
      for (int k = 0; k < MAX_RANK; k++) other |= x->term[i].dim[k] == d;
    if (!other) return d;
  }
  return -1;
}

static int root_vector_dim(Emit *e, const FusionRoot *r) {
  const Type *t = root_shape(r);
  int d = r->kind == ROOT_STORE ? contiguous_dim(e, r->op->in[0]) : -1;
  return d >= 0 ? d : last_dim(t);
}

void own_map(const Type *t, int8_t map[MAX_RANK]) {
  for (int k = 0; k < MAX_RANK; k++) map[k] = k < t->rank && t->shape[k] > 1 ? (int8_t)k : -1;
}

static Group *add_root_along(Planner *p, FusionRoot *r, int vector_dim);

/* Keeps a load, contiguous along its dim k, so that dim t is: it is written along k, and then turned. */
static void keep_turned(Planner *p, Value *v, int k, int t) {
  Emit *e = p->e;
  const Type *type = v->type;
  View *along_k = view_row_major(e, buffer_new(e, type), type), *along_t = view_row_major(e, buffer_new(e, type), type);
  along_k->stride[k] = along_t->stride[t] = 1;
  along_k->stride[t] = type->shape[k];
  along_t->stride[k] = type->shape[t];
  FusionRoot *r = NEW(e->arena, FusionRoot);
  r->kind = ROOT_KEEP;
  r->value = v;
  r->view = along_k;
  add_root_along(p, r, k);
  close_group(p);
  Item item = {
      .copy_to = along_t->buffer, .copy_from = along_k->buffer, .rows = type->shape[t], .columns = type->shape[k]};
  item.matrices = type_numel(type) / (item.rows * item.columns);
  push_item(p, item);
  Info *info = info_of(e, v);
  info->view = along_t;
  info->owner = NULL;
}

/* Whether load v is contiguous along its dim k while vectors run along t: of matrices large enough for it to matter. */
static bool is_turned(Planner *p, Value *v, const int8_t map[MAX_RANK], int vector_dim, int *k, int *t) {
  Emit *e = p->e;
  const Type *type = v->type;
  if (type->rank < 2 || type_numel(type) < 256) return false;
  *k = contiguous_dim(e, v->def->in[0]);
  if (*k < type->rank - 2 || map[*k] == vector_dim) return false;
  *t = *k == type->rank - 1 ? type->rank - 2 : type->rank - 1;
  return map[*t] == vector_dim && type->shape[*t] >= 8 && !sym_is(index_of(e, v->def->in[0])->coef[*t], 0);
}

/* Turns the loads that v needs and that lie across the vectors. */
static void transpose_loads(Planner *p, Value *v, const int8_t map[MAX_RANK], int vector_dim) {
  stack_guard();
  Emit *e = p->e;
  Info *info = info_of(e, v);
  Op *op = v->def;
  if (v->type->rank == 0 || !op || info->view || value_is_recomputable(e, v)) return;
  if (op_is_view(op)) {
    int8_t m[MAX_RANK], inner[MAX_RANK];
    view_map(op, m);
    for (int k = 0; k < MAX_RANK; k++) inner[k] = m[k] < 0 ? -1 : map[m[k]];
    transpose_loads(p, op->in[0], inner, vector_dim);
    return;
  }
  if (info->owner || info->transpose_asked == vector_dim + 1) return;
  info->transpose_asked = (int8_t)(vector_dim + 1);
  int k, t;
  if (op->code == OP_LOAD && is_turned(p, v, map, vector_dim, &k, &t)) {
    keep_turned(p, v, k, t);
    return;
  }
  for (int i = 0; i < op->in_count; i++) transpose_loads(p, op->in[i], map, vector_dim);
}

Group *add_root(Planner *p, FusionRoot *r) {
  const Type *t = root_shape(r);
  int vector_dim = root_vector_dim(p->e, r);
  if (t->rank >= 2) {
    int8_t map[MAX_RANK];
    own_map(t, map);
    if (r->kind == ROOT_KEEP) transpose_loads(p, r->value, map, vector_dim);
    else
      for (int i = 0; i < r->op->in_count; i++) transpose_loads(p, r->op->in[i], map, vector_dim);
  }
  return add_root_along(p, r, vector_dim);
}

static Group *add_root_along(Planner *p, FusionRoot *r, int vector_dim) {
  Emit *e = p->e;
  const Type *t = root_shape(r);
  own_map(t, r->map);
  if (p->open) {
    bool ok = p->open->rank == t->rank && p->open->vector_dim == vector_dim &&
              memcmp(p->open->shape, t->shape, sizeof(int32_t) * (size_t)t->rank) == 0;
    e->stamp++;
    if (ok) ok = r->kind == ROOT_KEEP ? can_fuse(p, r->value, p->open) : can_fuse_inputs(p, r->op, p->open);
    if (ok) ok = memory_fits(p, p->open, r);
    if (!ok) close_group(p);
  }
  if (!p->open) {
    p->open = NEW(e->arena, Group);
    p->open->id = ++e->group_count;
    p->open->rank = t->rank;
    p->open->vector_dim = vector_dim;
    memcpy(p->open->shape, t->shape, sizeof p->open->shape);
  }
  Accesses loads = root_loads(e, p, p->open, r);
  for (int i = 0; i < loads.n; i++) vec_push(e->arena, &p->open->accesses, loads.at[i]);
  if (r->kind == ROOT_KEEP) fuse_producer(p, r->value, p->open, r->map);
  else fuse_inputs(p, r->op, p->open, r->map);
  vec_push(e->arena, &p->open->roots, r);
  return p->open;
}

Group *keep_at(Planner *p, Value *v, View *view) {
  FusionRoot *r = NEW(p->e->arena, FusionRoot);
  r->kind = ROOT_KEEP;
  r->value = v;
  r->view = view;
  return add_root(p, r);
}

/* ---- kept values ---- */

static View *derived_view(Emit *e, const Op *op, const View *from) {
  int8_t map[MAX_RANK];
  view_map(op, map);
  View *v = NEW(e->arena, View);
  v->buffer = from->buffer;
  v->offset = from->offset;
  for (int k = 0; k < op->in[0]->type->rank; k++)
    if (map[k] >= 0) v->stride[map[k]] = from->stride[k];
  return v;
}

View *need_view(Planner *p, Value *v) {
  stack_guard();
  Emit *e = p->e;
  Info *info = info_of(e, v);
  if (info->view) return info->view;
  Op *op = v->def;
  bool recomputable = value_is_recomputable(e, v);
  if (!recomputable && op_is_view(op) && op->in[0]->type->rank > 0) {
    View *from = need_view(p, op->in[0]);
    Info *of = info_of(e, op->in[0]);
    info->owner = of->owner;
    info->closed = of->closed;
    return info->view = derived_view(e, op, from);
  }
  if (!recomputable && info->owner && !op_is_view(op)) {
    keep_in(p, info->owner, v);
    return info->view;
  }
  if (!recomputable && op->code == OP_LOAD) {
    int8_t map[MAX_RANK];
    own_map(v->type, map);
    int k, t;
    if (is_turned(p, v, map, last_dim(v->type), &k, &t)) {
      keep_turned(p, v, k, t);
      return info->view;
    }
  }
  View *view = view_row_major(e, buffer_new(e, v->type), v->type);
  Group *g = keep_at(p, v, view);
  info->view = view;
  if (recomputable || op_is_view(op)) info->owner = g;
  if (recomputable) vec_push(e->arena, &e->materialized_recomputable, info);
  return view;
}

/* The same, as rows one after the other. */
View *need_compact(Planner *p, Value *v) {
  View *view = need_view(p, v);
  if (view_is_compact(view, v->type)) return view;
  Emit *e = p->e;
  const Type *t = v->type;
  Info *info = info_of(e, v);
  if (info->owner == p->open) close_group(p);
  View *compact = view_row_major(e, buffer_new(e, t), t);
  /* Whole matrices that lie the other way round. */
  int a = t->rank - 2, b = t->rank - 1;
  bool turned = t->rank >= 2 && view->offset == 0 && view->stride[a] == 1 && view->stride[b] == t->shape[a] &&
                view->buffer->count == type_numel(t);
  for (int d = 0; d < a; d++) turned = turned && (t->shape[d] == 1 || view->stride[d] == compact->stride[d]);
  if (turned && type_numel(t) >= 256) {
    close_group(p);
    Item item = {.copy_to = compact->buffer, .copy_from = view->buffer, .rows = t->shape[b], .columns = t->shape[a]};
    item.matrices = type_numel(t) / (item.rows * item.columns);
    push_item(p, item);
    return compact;
  }
  keep_at(p, v, compact);
  return compact;
}

/* Marks the loads that the tensor store or atomic `write` can take along, and keeps those that it needs and must not
 * run. */
static void settle_own_loads(Planner *p, Op *write) {
  Emit *e = p->e;
  FusionRoot r = {.kind = write->code == OP_STORE ? ROOT_STORE : ROOT_ATOMIC, .op = write};
  const Type *t = write->in[0]->type;
  own_map(t, r.map);
  Access own = root_access(&r);
  Accesses loads = root_loads(e, p, NULL, &r);
  for (int i = 0; i < loads.n; i++) info_of(e, loads.at[i].op->out[0])->taken_along = write;
  for (int i = 0; i < loads.n; i++) {
    const Access *a = &loads.at[i];
    if (memory_conflict(e, a->op, write) && !memory_may_share(e, a, &own, t->rank, t->shape))
      need_view(p, a->op->out[0]);
  }
}

void settle_loads(Planner *p, Op *write) {
  Emit *e = p->e;
  if (write && write->in[0]->type->rank > 0) settle_own_loads(p, write);
  for (int i = 0; i < p->loads.n; i++) {
    Op *load = p->loads.at[i];
    Info *info = info_of(e, load->out[0]);
    if (info->owner || info->view || !info->uses || (write && info->taken_along == write)) continue;
    if (!write || memory_conflict(e, load, write)) need_view(p, load->out[0]);
  }
}
