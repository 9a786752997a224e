/* The plan: which operations share a loop nest, what is kept in memory between nests, and in what order all runs.
 *
 * The walk goes through a block in order with at most one open Group. Pure tensor operations and loads are not placed when
 * they are met: they run in the nest of whoever needs them ("pulled"). What places things are roots: stores, reductions,
 * and values that must be kept, because dot, sort, a loop, another nest, ... reads them. A root joins the open Group when it runs over
 * the same dims and needs nothing that this very nest has yet to finish; else the Group is closed and the next one opened.
 *
 *     x = load; m = reduce max x        group 1 { x; m }
 *     e = exp(x - m); s = reduce e      group 2 { x (loaded again: no store came between); e -> kept; s }
 *     store e / s                       group 3 { e <- kept; store }
 *
 * A value that a second nest needs is kept by the first after all, unless it is virtual (index arithmetic) or a load that
 * may be repeated since no memory was written in between.
 *
 * Memory order. Two accesses may conflict when they come from the same argument or their origin is not known. A load that
 * waits to be pulled runs at the latest before the first conflicting store. In one nest a load may stand beside a later
 * store if both use the same addresses, or different arguments; a load after a store opens a new nest.
 */
#include "cpu/emit.h"

typedef struct Planner {
  Emit *e;
  Plan *plan;
  Group *open;
  VEC(Op *) loads; /* of this block so far */
  int epoch;       /* counts writes to memory */
} Planner;

/* ---- buffers and views ---- */

Buffer *buffer_new(Emit *e, const Type *t) {
  Buffer *b = NEW(e->arena, Buffer);
  b->id = e->buffers.n;
  b->dtype = t->ptr ? DT_I64 : t->dtype;
  b->count = type_numel(t);
  b->first = -1;
  vec_push(e->arena, &e->buffers, b);
  return b;
}

View *view_row_major(Emit *e, Buffer *b, const Type *t) {
  View *v = NEW(e->arena, View);
  v->buffer = b;
  int64_t stride = 1;
  for (int d = t->rank - 1; d >= 0; d--) {
    v->stride[d] = stride;
    stride *= t->shape[d];
  }
  return v;
}

bool view_is_compact(const View *v, const Type *t) {
  int64_t stride = 1;
  for (int d = t->rank - 1; d >= 0; d--) {
    if (t->shape[d] > 1 && v->stride[d] != stride) return false;
    stride *= t->shape[d];
  }
  return v->offset == 0;
}

static void push_item(Planner *p, Item item) { vec_push(p->e->arena, p->plan, item); }

static void close_group(Planner *p) {
  if (!p->open) return;
  push_item(p, (Item){.group = p->open});
  p->open = NULL;
}

/* ---- what may conflict ---- */

static bool may_alias(Emit *e, Value *p, Value *q) {
  Value *a = pointer_root(e, p), *b = pointer_root(e, q);
  return !a || !b || a == b;
}

static bool same_address(Emit *e, Value *p, Value *q) {
  if (p == q) return true;
  if (!type_same_shape(p->type, q->type) || p->type->dtype != q->type->dtype) return false;
  Index *a = index_of(e, p), *b = index_of(e, q);
  return a && b && index_equal(a, b, p->type->rank);
}

/* ---- addresses ---- */

static bool is_access(const Op *op) {
  return op->code == OP_LOAD || op->code == OP_STORE || op->code == OP_ATOMIC_RMW || op->code == OP_ATOMIC_CAS;
}

/* A nest writes an address out of its Index (access.c), so it reads the terms of that, also where the pointers themselves are
 * kept. How many terms operand i of op has; 0 when it is read as it stands. */
static int address_terms(Emit *e, const Op *op, int i, const Term **terms) {
  if (i > 0 || !is_access(op) || op->in[0]->type->rank == 0) return 0;
  Index *x = index_of(e, op->in[0]);
  *terms = x->term;
  return x->term_count;
}

/* ---- pulling ---- */

static View *need_view(Planner *p, Value *v);

static bool load_may_repeat(Planner *p, Value *v) {
  return v->def->code == OP_LOAD && !v->def->attr[2] && info_of(p->e, v)->epoch == p->epoch && v->def->block;
}

static bool inputs_fit(Planner *p, Op *op, Group *g);

/* Whether v can be had, at its own index, in the nest of g. Call with a fresh stamp. */
static bool fits(Planner *p, Value *v, Group *g) {
  Emit *e = p->e;
  Info *info = info_of(e, v);
  if (v->type->rank == 0) return !g || info->owner != g;
  if (info->visit == e->stamp) return info->visit_ok;
  info->visit = e->stamp;
  info->visit_ok = true;
  bool virtual = value_is_virtual(e, v);
  if (info->view && !virtual) {
    if (info->owner != g) return true;
    if (info->sealed) {
      info->visit_ok = false;
      return false;
    }
  }
  if (!v->def) return true;
  Op *op = v->def;
  if (!virtual && !op_is_view(op) && info->owner && info->owner != g && !load_may_repeat(p, v)) return true;
  info->visit_ok = inputs_fit(p, op, g);
  return info->visit_ok;
}

static bool inputs_fit(Planner *p, Op *op, Group *g) {
  const Term *terms;
  for (int i = 0; i < op->in_count; i++) {
    if (!fits(p, op->in[i], g)) return false;
    for (int k = address_terms(p->e, op, i, &terms) - 1; k >= 0; k--)
      if (!fits(p, terms[k].value, g)) return false;
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
  Root *r = NEW(e->arena, Root);
  r->kind = ROOT_KEEP;
  r->value = v;
  r->view = info->view;
  memcpy(r->map, info->map, sizeof r->map);
  vec_push(e->arena, &g->roots, r);
}

static void pull_inputs(Planner *p, Op *op, Group *g, const int8_t map[MAX_RANK]);

static void pull(Planner *p, Value *v, Group *g, const int8_t map[MAX_RANK]) {
  Emit *e = p->e;
  Info *info = info_of(e, v);
  if (v->type->rank == 0) return;
  Op *op = v->def;
  bool virtual = value_is_virtual(e, v);
  if (!virtual && info->view && info->owner != g) {
    note_read(p, g, v, map);
    return;
  }
  if (op_is_view(op)) {
    int8_t m[MAX_RANK], inner[MAX_RANK];
    view_map(op, m);
    for (int k = 0; k < MAX_RANK; k++) inner[k] = m[k] < 0 ? -1 : map[m[k]];
    pull(p, op->in[0], g, inner);
    return;
  }
  if (!virtual) {
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
    return; /* made of scalars and virtual values only */
  }
  pull_inputs(p, op, g, map);
}

static void pull_inputs(Planner *p, Op *op, Group *g, const int8_t map[MAX_RANK]) {
  for (int i = 0; i < op->in_count; i++) {
    const Term *terms;
    int n = address_terms(p->e, op, i, &terms);
    if (i > 0 || !is_access(op)) pull(p, op->in[i], g, map);
    for (int t = 0; t < n; t++) {
      int8_t inner[MAX_RANK];
      for (int k = 0; k < MAX_RANK; k++) inner[k] = terms[t].dim[k] < 0 ? -1 : map[terms[t].dim[k]];
      pull(p, terms[t].value, g, inner);
    }
  }
}

static const Type *root_shape(const Root *r) {
  return r->kind == ROOT_KEEP ? r->value->type : r->op->in[0]->type;
}

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

static int root_vector_dim(Emit *e, const Root *r) {
  const Type *t = root_shape(r);
  int d = r->kind == ROOT_STORE ? contiguous_dim(e, r->op->in[0]) : -1;
  return d >= 0 ? d : last_dim(t);
}

/* The nest's own index: dim k runs with dim k. */
static void own_map(const Type *t, int8_t map[MAX_RANK]) {
  for (int k = 0; k < MAX_RANK; k++) map[k] = k < t->rank && t->shape[k] > 1 ? (int8_t)k : -1;
}

static Group *add_root_along(Planner *p, Root *r, int vector_dim);

/* Keeps a load, contiguous along its dim k, so that dim t is: it is written along k, and then turned. */
static void keep_turned(Planner *p, Value *v, int k, int t) {
  Emit *e = p->e;
  const Type *type = v->type;
  View *along_k = view_row_major(e, buffer_new(e, type), type), *along_t = view_row_major(e, buffer_new(e, type), type);
  along_k->stride[k] = along_t->stride[t] = 1;
  along_k->stride[t] = type->shape[k];
  along_t->stride[k] = type->shape[t];
  Root *r = NEW(e->arena, Root);
  r->kind = ROOT_KEEP;
  r->value = v;
  r->view = along_k;
  add_root_along(p, r, k);
  close_group(p);
  Item item = {.copy_to = along_t->buffer, .copy_from = along_k->buffer, .rows = type->shape[t], .columns = type->shape[k]};
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
static void turn_loads(Planner *p, Value *v, const int8_t map[MAX_RANK], int vector_dim) {
  Emit *e = p->e;
  Info *info = info_of(e, v);
  Op *op = v->def;
  if (v->type->rank == 0 || !op || info->view || value_is_virtual(e, v)) return;
  if (op_is_view(op)) {
    int8_t m[MAX_RANK], inner[MAX_RANK];
    view_map(op, m);
    for (int k = 0; k < MAX_RANK; k++) inner[k] = m[k] < 0 ? -1 : map[m[k]];
    turn_loads(p, op->in[0], inner, vector_dim);
    return;
  }
  if (info->owner || info->turn_asked == vector_dim + 1) return;
  info->turn_asked = (int8_t)(vector_dim + 1);
  int k, t;
  if (op->code == OP_LOAD && is_turned(p, v, map, vector_dim, &k, &t)) {
    keep_turned(p, v, k, t);
    return;
  }
  for (int i = 0; i < op->in_count; i++) turn_loads(p, op->in[i], map, vector_dim);
}

static Group *add_root(Planner *p, Root *r) {
  const Type *t = root_shape(r);
  int vector_dim = root_vector_dim(p->e, r);
  if (t->rank >= 2) {
    int8_t map[MAX_RANK];
    own_map(t, map);
    if (r->kind == ROOT_KEEP) turn_loads(p, r->value, map, vector_dim);
    else
      for (int i = 0; i < r->op->in_count; i++) turn_loads(p, r->op->in[i], map, vector_dim);
  }
  return add_root_along(p, r, vector_dim);
}

static Group *add_root_along(Planner *p, Root *r, int vector_dim) {
  Emit *e = p->e;
  const Type *t = root_shape(r);
  if (p->open) {
    bool ok = p->open->rank == t->rank && p->open->vector_dim == vector_dim &&
              memcmp(p->open->shape, t->shape, sizeof(int32_t) * (size_t)t->rank) == 0;
    e->stamp++;
    if (ok) ok = r->kind == ROOT_KEEP ? fits(p, r->value, p->open) : inputs_fit(p, r->op, p->open);
    if (!ok) close_group(p);
  }
  if (!p->open) {
    p->open = NEW(e->arena, Group);
    p->open->id = ++e->group_count;
    p->open->rank = t->rank;
    p->open->vector_dim = vector_dim;
    memcpy(p->open->shape, t->shape, sizeof p->open->shape);
  }
  own_map(t, r->map);
  if (r->kind == ROOT_KEEP) pull(p, r->value, p->open, r->map);
  else pull_inputs(p, r->op, p->open, r->map);
  vec_push(e->arena, &p->open->roots, r);
  return p->open;
}

static Group *keep_at(Planner *p, Value *v, View *view) {
  Root *r = NEW(p->e->arena, Root);
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

static View *need_view(Planner *p, Value *v) {
  Emit *e = p->e;
  Info *info = info_of(e, v);
  if (info->view) return info->view;
  Op *op = v->def;
  bool virtual = value_is_virtual(e, v);
  if (!virtual && op_is_view(op) && op->in[0]->type->rank > 0) {
    View *from = need_view(p, op->in[0]);
    Info *of = info_of(e, op->in[0]);
    info->owner = of->owner;
    info->sealed = of->sealed;
    return info->view = derived_view(e, op, from);
  }
  if (!virtual && info->owner && !op_is_view(op)) {
    keep_in(p, info->owner, v);
    return info->view;
  }
  if (!virtual && op->code == OP_LOAD) {
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
  if (virtual || op_is_view(op)) info->owner = g;
  return view;
}

/* The same, as rows one after the other. */
static View *need_compact(Planner *p, Value *v) {
  View *view = need_view(p, v);
  if (view_is_compact(view, v->type)) return view;
  Emit *e = p->e;
  const Type *t = v->type;
  Info *info = info_of(e, v);
  if (info->owner == p->open) close_group(p);
  View *compact = view_row_major(e, buffer_new(e, t), t);
  /* Whole matrices that lie the other way round. */
  int a = t->rank - 2, b = t->rank - 1;
  bool turned = t->rank >= 2 && view->offset == 0 && view->stride[a] == 1 && view->stride[b] == t->shape[a] && view->buffer->count == type_numel(t);
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

/* Runs the loads that wait and may conflict with a write through ptr (NULL: any); `together` is the store that may take
 * the loads of its own addresses along. */
static void force_loads(Planner *p, Value *ptr, Op *together) {
  Emit *e = p->e;
  for (int i = 0; i < p->loads.n; i++) {
    Op *load = p->loads.at[i];
    Info *info = info_of(e, load->out[0]);
    if (info->owner || info->view || !info->uses) continue;
    if (ptr && !may_alias(e, ptr, load->in[0])) continue;
    if (together && same_address(e, together->in[0], load->in[0])) {
      /* Does the store need it? Then they go together. */
      e->stamp++;
      for (int k = 0; k < together->in_count; k++) fits(p, together->in[k], NULL);
      if (info->visit == e->stamp) continue;
    }
    need_view(p, load->out[0]);
  }
}

/* ---- operations ---- */

static OpPlan *op_plan(Planner *p, Op *op) {
  Emit *e = p->e;
  OpPlan *o = NEW(e->arena, OpPlan);
  o->in = NEW_N(e->arena, View *, op->in_count + 1);
  o->out = NEW_N(e->arena, View *, op->out_count + 1);
  o->carry = NEW_N(e->arena, Buffer *, op->in_count + op->out_count + 1);
  o->carry2 = NEW_N(e->arena, Buffer *, op->in_count + op->out_count + 1);
  op->note = o;
  return o;
}

static void new_result(Planner *p, Op *op, int k) {
  Emit *e = p->e;
  Value *v = op->out[k];
  if (v->type->rank == 0) return;
  Info *info = info_of(e, v);
  info->view = ((OpPlan *)op->note)->out[k] = view_row_major(e, buffer_new(e, v->type), v->type);
}

static void push_op(Planner *p, Op *op) { push_item(p, (Item){.op = op}); }

/* Operations that read and write whole tiles. */
static void plan_special(Planner *p, Op *op) {
  OpPlan *o = op_plan(p, op);
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i]->type->rank > 0) o->in[i] = need_compact(p, op->in[i]);
  close_group(p);
  for (int k = 0; k < op->out_count; k++) new_result(p, op, k);
  push_op(p, op);
}

static bool is_zero(Value *v) {
  int64_t n;
  while (v->def && (v->def->code == OP_SPLAT || op_is_view(v->def))) v = v->def->in[0];
  if (!v->def || v->def->code != OP_CONST || v->type->ptr) return false;
  if (dtype_is_float(v->type->dtype)) return v->def->number == 0;
  return value_is_const(v, &n) && n == 0;
}

/* Buffers that a dot works in, by type: NULL where it needs none. */
static void dot_room(Emit *e, const Op *op, const Type *room[3]) {
  const Type *a = op->in[0]->type, *b = op->in[1]->type, *c = op->in[2]->type;
  DotKind kind = dot_kind(op);
  room[0] = room[1] = room[2] = NULL;
  if (kind == DOT_BF16 || kind == DOT_I8) {
    int64_t n = b->shape[b->rank - 1], k = b->shape[b->rank - 2];
    Type t = {.dtype = DT_U8, .rank = 1, .shape = {(int32_t)(n * (k + 3) * 4 + 128)}}; /* nd_dot_pack_bytes */
    room[0] = type_make(e->cx, t);
    return;
  }
  Dtype wide = kind == DOT_I32 ? DT_I32 : kind == DOT_F64 ? DT_F64 : DT_F32;
  if (a->dtype != wide) room[0] = type_with_dtype(e->cx, a, wide);
  if (b->dtype != wide) room[1] = type_with_dtype(e->cx, b, wide);
  if (c->dtype != wide) room[2] = type_with_dtype(e->cx, c, wide);
}

/* The accumulator's tile is copied to the result's, which the product is then added to. */
static void plan_dot(Planner *p, Op *op) {
  OpPlan *o = op_plan(p, op);
  Emit *e = p->e;
  Value *out = op->out[0];
  /* Room for what special.c widens or packs: a, b, the accumulator. */
  const Type *room[3];
  dot_room(e, op, room);
  for (int i = 0; i < 2; i++) {
    Value *v = op->in[i];
    if (room[i] && room[i]->dtype == DT_F32 && dtype_is_float(v->type->dtype) && v->type->dtype != DT_F64 && !info_of(e, v)->view) {
      /* A register holds it as f32 anyway: so it is kept. */
      o->in[i] = view_row_major(e, buffer_new(e, room[i]), room[i]);
      keep_at(p, v, o->in[i]);
      room[i] = NULL;
    } else {
      o->in[i] = need_compact(p, v);
    }
  }
  for (int i = 0; i < 3; i++)
    if (room[i]) o->carry[i] = buffer_new(e, room[i]);
  Info *info = info_of(e, out);
  View *wanted = info->view; /* a loop may have said where it wants it */
  info->view = NULL;
  if (!wanted) wanted = view_row_major(e, buffer_new(e, out->type), out->type);
  Info *acc = info_of(e, op->in[2]);
  if (!(acc->view && acc->view->buffer == wanted->buffer) && !is_zero(op->in[2])) keep_at(p, op->in[2], wanted);
  close_group(p);
  info->view = o->out[0] = wanted;
  o->in[2] = is_zero(op->in[2]) ? NULL : wanted;
  push_op(p, op);
}

static void plan_join(Planner *p, Op *op) {
  Emit *e = p->e;
  Value *out = op->out[0];
  const Type *t = out->type;
  View *whole = view_row_major(e, buffer_new(e, t), t);
  bool cat = op->code == OP_CAT;
  Group *g = NULL;
  for (int i = 0; i < 2; i++) {
    if (op->in[i]->type->rank == 0) continue;
    View *part = NEW(e->arena, View);
    *part = *whole;
    part->offset = i == 0 ? 0 : cat ? whole->stride[op->attr[0]] * op->in[0]->type->shape[op->attr[0]] : 1;
    g = keep_at(p, op->in[i], part);
  }
  Info *info = info_of(e, out);
  info->view = whole;
  info->owner = g;
  info->sealed = true;
  if (op->in[0]->type->rank == 0) { /* two scalars */
    close_group(p);
    OpPlan *o = op_plan(p, op);
    o->out[0] = whole;
    info->owner = NULL;
    push_op(p, op);
  }
}

static void plan_split(Planner *p, Op *op) {
  Emit *e = p->e;
  Value *in = op->in[0];
  View *from = need_view(p, in);
  Info *of = info_of(e, in);
  OpPlan *o = op_plan(p, op);
  for (int k = 0; k < 2; k++) {
    View *v = NEW(e->arena, View);
    *v = *from;
    v->offset += k * from->stride[in->type->rank - 1];
    v->stride[in->type->rank - 1] = 0;
    o->in[k > 0 ? 0 : 0] = from;
    o->out[k] = v;
    if (op->out[k]->type->rank == 0) continue;
    Info *info = info_of(e, op->out[k]);
    info->view = v;
    info->owner = of->owner;
    info->sealed = true;
  }
  if (op->out[0]->type->rank == 0) {
    close_group(p);
    push_op(p, op);
  }
}

static void plan_reshape(Planner *p, Op *op) {
  Emit *e = p->e;
  Value *in = op->in[0], *out = op->out[0];
  View *from = need_compact(p, in);
  if (out->type->rank == 0) {
    OpPlan *o = op_plan(p, op);
    o->in[0] = from;
    close_group(p);
    push_op(p, op);
    return;
  }
  Info *info = info_of(e, out);
  info->view = view_row_major(e, from->buffer, out->type);
  info->owner = p->open; /* which may be writing it */
  info->sealed = true;
}

static void plan_reduce(Planner *p, Op *op) {
  Emit *e = p->e;
  OpPlan *o = op_plan(p, op);
  Root *r = NEW(e->arena, Root);
  r->kind = ROOT_REDUCE;
  r->op = op;
  Group *g = add_root(p, r);
  for (int k = 0; k < op->out_count; k++) {
    Info *info = info_of(e, op->out[k]);
    new_result(p, op, k);
    info->owner = g;
    info->sealed = true;
    if (op->out[k]->type->rank && reduces_wide(op)) o->carry[k] = buffer_new(e, type_with_dtype(e->cx, op->out[k]->type, DT_F32));
  }
}

static void plan_store(Planner *p, Op *op) {
  Emit *e = p->e;
  force_loads(p, op->in[0], op);
  if (p->open) {
    bool ok = true;
    for (int i = 0; ok && i < p->open->loads.n; i++) {
      Value *from = p->open->loads.at[i]->in[0];
      ok = !may_alias(e, from, op->in[0]) || same_address(e, from, op->in[0]);
    }
    for (int i = 0; ok && i < p->open->roots.n; i++) {
      Root *r = p->open->roots.at[i];
      if (r->kind != ROOT_STORE) continue;
      ok = !may_alias(e, r->op->in[0], op->in[0]) || same_address(e, r->op->in[0], op->in[0]);
    }
    if (!ok) close_group(p);
  }
  Root *r = NEW(e->arena, Root);
  r->kind = ROOT_STORE;
  r->op = op;
  add_root(p, r);
  p->epoch++;
}

static void plan_atomic(Planner *p, Op *op) {
  Emit *e = p->e;
  force_loads(p, NULL, NULL);
  close_group(p);
  op_plan(p, op);
  Root *r = NEW(e->arena, Root);
  r->kind = ROOT_ATOMIC;
  r->op = op;
  Group *g = add_root(p, r);
  if (info_of(e, op->out[0])->uses) {
    new_result(p, op, 0);
    info_of(e, op->out[0])->owner = g;
    info_of(e, op->out[0])->sealed = true;
  }
  close_group(p);
  p->epoch++;
}

static bool group_stores(const Group *g) {
  for (int i = 0; g && i < g->roots.n; i++)
    if (g->roots.at[i]->kind == ROOT_STORE) return true;
  return false;
}

/* ---- control flow ---- */

static void plan_block(Emit *e, Block *b, Planner *p);
static void plan_body(Emit *e, Block *b, Planner *p);

typedef struct Nested { Planner *p; Op *control; bool writes; int serial; } Nested;

static bool is_inside(const Block *b, const Op *control) {
  for (; b && b->parent; b = b->parent->block)
    if (b->parent == control) return true;
  return false;
}

static bool is_deferred(const Op *op) { return op_is_elementwise(op) || op_is_view(op); }

/* A nest inside needs v: if v comes from outside it must be kept; what is computed inside needs its own operands. */
static void keep_from_outside(Nested *n, Value *v) {
  Emit *e = n->p->e;
  Info *info = info_of(e, v);
  if (v->type->rank == 0 || info->demanded == n->serial || value_is_virtual(e, v)) return;
  info->demanded = n->serial;
  Block *home = v->block ? v->block : v->def->block;
  if (!is_inside(home, n->control)) need_view(n->p, v);
  else if (v->def && is_deferred(v->def))
    for (int i = 0; i < v->def->in_count; i++) keep_from_outside(n, v->def->in[i]);
}

static void keep_operands_of(Op *op, void *arg) {
  Nested *n = arg;
  Emit *e = n->p->e;
  Effect effect = op_info[op->code].effect;
  if (effect == EFFECT_WRITE || op->code == OP_BARRIER) n->writes = true;
  if (is_deferred(op)) return; /* runs where it is needed, if it is */
  for (int i = 0; i < op->in_count; i++) {
    const Term *terms;
    int count = address_terms(e, op, i, &terms);
    if (i > 0 || !is_access(op)) keep_from_outside(n, op->in[i]);
    for (int k = 0; k < count; k++) keep_from_outside(n, terms[k].value);
  }
}

static void keep_for_bodies(Planner *p, Op *op) {
  Nested n = {.p = p, .control = op, .serial = ++p->e->serial};
  for (int r = 0; r < 2; r++)
    if (op->body[r]) tile_walk(op->body[r], keep_operands_of, &n);
  if (n.writes) {
    force_loads(p, NULL, NULL);
    p->epoch++;
  }
}

/* The view of a carried value or a result in its buffer. */
static void carried_view(Emit *e, Value *v, Buffer *b) {
  info_of(e, v)->view = view_row_major(e, b, v->type);
}

static bool reads_buffer(Emit *e, Value *v, Buffer *b) {
  Info *info = info_of(e, v);
  if (v->type->rank == 0 || info->visit == e->stamp) return false;
  info->visit = e->stamp;
  if (info->view && !value_is_virtual(e, v)) return info->view->buffer == b;
  if (!v->def) return false;
  for (int i = 0; i < v->def->in_count; i++) {
    const Term *terms;
    int n = address_terms(e, v->def, i, &terms);
    if (reads_buffer(e, v->def->in[i], b)) return true;
    for (int k = 0; k < n; k++)
      if (reads_buffer(e, terms[k].value, b)) return true;
  }
  return false;
}

static bool has(Buffer *const *at, int n, const Buffer *b) {
  for (int i = 0; i < n; i++)
    if (at[i] == b) return true;
  return false;
}

/* Writes the values of a yield to their buffers. All are read before any is changed: a buffer that another of them still
 * reads, or that its own nest reads at another index, is written by way of a second one. */
static void write_carried(Planner *p, int n, Value **values, Buffer **to) {
  Emit *e = p->e;
  Plan copies = {0};
  for (int k = 0; k < n; k++) {
    Value *v = values[k];
    if (!to[k]) continue;
    Info *info = info_of(e, v);
    if (info->view && info->view->buffer == to[k] && view_is_compact(info->view, v->type) && !value_is_virtual(e, v)) continue;
    bool aside = false;
    for (int j = 0; j < n && !aside; j++) {
      if (j == k || !to[j]) continue;
      e->stamp++;
      aside = reads_buffer(e, values[j], to[k]);
    }
    if (p->open && has(p->open->skewed.at, p->open->skewed.n, to[k])) close_group(p);
    Root *r = NEW(e->arena, Root);
    r->kind = ROOT_KEEP;
    r->value = v;
    r->view = view_row_major(e, to[k], v->type);
    Group *g = add_root(p, r);
    if (aside || has(g->skewed.at, g->skewed.n, to[k])) {
      Buffer *second = buffer_new(e, v->type);
      r->view = view_row_major(e, second, v->type);
      vec_push(e->arena, &copies, (Item){.copy_to = to[k], .copy_from = second});
    }
  }
  close_group(p);
  for (int i = 0; i < copies.n; i++) push_item(p, copies.at[i]);
}

/* acc = dot(a, b, f(acc)) where nothing else reads the carried acc: the product is added in the carried buffer. */
static void place_dots(Emit *e, Block *body, int n, Value **yielded, Value **args, Buffer **to) {
  for (int k = 0; k < n; k++) {
    Op *op = yielded[k]->def;
    if (!to[k] || !op || op->code != OP_DOT || op->block != body || info_of(e, yielded[k])->view || info_of(e, yielded[k])->uses != 1) continue;
    Value *v = op->in[2];
    if (v == args[k]) {
      if (info_of(e, v)->uses != 1) continue;
    } else {
      /* One chain of elementwise operations, each value used once, down to the argument, which is used once. */
      Value *at = v;
      bool ok = true, found = false;
      while (ok && !found) {
        if (info_of(e, at)->uses != 1) { ok = false; break; }
        if (at == args[k]) { found = true; break; }
        if (!at->def || !op_is_elementwise(at->def) || at->def->block != op->block) { ok = false; break; }
        Value *next = NULL;
        for (int i = 0; i < at->def->in_count; i++) {
          e->stamp++;
          if (reads_buffer(e, at->def->in[i], to[k])) {
            if (next) ok = false;
            next = at->def->in[i];
          }
        }
        if (!next) ok = false;
        at = next;
      }
      if (!ok) continue;
    }
    /* Other values of the yield must not want the old one. */
    bool wanted = false;
    for (int j = 0; j < n; j++) wanted |= yielded[j] == args[k];
    if (!wanted) carried_view(e, yielded[k], to[k]);
  }
}

static void plan_for(Planner *p, Op *op) {
  Emit *e = p->e;
  OpPlan *o = op_plan(p, op);
  Block *body = op->body[0];
  int n = op->out_count;
  keep_for_bodies(p, op);
  for (int k = 0; k < n; k++) {
    Value *init = op->in[3 + k];
    if (init->type->rank == 0) continue;
    Buffer *b = o->carry[k] = buffer_new(e, init->type);
    keep_at(p, init, view_row_major(e, b, init->type));
    carried_view(e, body->args[k + 1], b);
    carried_view(e, op->out[k], b);
  }
  close_group(p);
  push_op(p, op);
  Planner inner = {.e = e};
  place_dots(e, body, n, body->last->in, body->args + 1, o->carry);
  plan_body(e, body, &inner);
  write_carried(&inner, n, body->last->in, o->carry);
  map_put(e->plans, body, inner.plan);
}

static void plan_while(Planner *p, Op *op) {
  Emit *e = p->e;
  OpPlan *o = op_plan(p, op);
  Block *before = op->body[0], *body = op->body[1];
  int n = op->in_count;
  keep_for_bodies(p, op);
  for (int k = 0; k < n; k++) {
    Value *init = op->in[k];
    if (init->type->rank == 0) continue;
    Buffer *b = o->carry[k] = buffer_new(e, init->type);
    keep_at(p, init, view_row_major(e, b, init->type));
    carried_view(e, before->args[k], b);
  }
  close_group(p);
  push_op(p, op);
  Planner first = {.e = e};
  plan_body(e, before, &first);
  Value **handed = before->last->in + 1;
  int handed_count = before->last->in_count - 1;
  for (int k = 0; k < handed_count; k++) {
    if (handed[k]->type->rank == 0) continue;
    bool same = k < n && handed[k] == before->args[k];
    Buffer *b = o->carry2[k] = same ? o->carry[k] : buffer_new(e, handed[k]->type);
    carried_view(e, body->args[k], b);
    carried_view(e, op->out[k], b);
  }
  write_carried(&first, handed_count, handed, o->carry2);
  map_put(e->plans, before, first.plan);
  Planner second = {.e = e};
  plan_body(e, body, &second);
  write_carried(&second, n, body->last->in, o->carry);
  map_put(e->plans, body, second.plan);
}

static void plan_if(Planner *p, Op *op) {
  Emit *e = p->e;
  OpPlan *o = op_plan(p, op);
  keep_for_bodies(p, op);
  close_group(p);
  for (int k = 0; k < op->out_count; k++) {
    if (op->out[k]->type->rank == 0) continue;
    o->carry[k] = buffer_new(e, op->out[k]->type);
    carried_view(e, op->out[k], o->carry[k]);
  }
  push_op(p, op);
  for (int r = 0; r < 2; r++) {
    if (!op->body[r]) continue;
    Planner inner = {.e = e};
    plan_body(e, op->body[r], &inner);
    if (op->body[r]->last && op->body[r]->last->code == OP_YIELD)
      write_carried(&inner, op->out_count, op->body[r]->last->in, o->carry);
    close_group(&inner);
    map_put(e->plans, op->body[r], inner.plan);
  }
}

static bool all_scalar(const Op *op) {
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i]->type->rank) return false;
  for (int i = 0; i < op->out_count; i++)
    if (op->out[i]->type->rank) return false;
  return true;
}

static void plan_scalar(Planner *p, Op *op) {
  Emit *e = p->e;
  if (p->open) {
    bool close = false;
    for (int i = 0; i < op->in_count; i++) close |= info_of(e, op->in[i])->owner == p->open;
    Effect effect = op_info[op->code].effect;
    if (effect == EFFECT_READ) close |= group_stores(p->open);
    if (effect == EFFECT_WRITE || effect == EFFECT_SIDE) close = true;
    if (close) close_group(p);
  }
  if (op_info[op->code].effect == EFFECT_WRITE) {
    force_loads(p, op->in[0], NULL);
    close_group(p);
    p->epoch++;
  }
  push_op(p, op);
}

static void plan_op(Planner *p, Op *op) {
  Emit *e = p->e;
  switch (op->code) {
    case OP_FOR: plan_for(p, op); return;
    case OP_WHILE: plan_while(p, op); return;
    case OP_IF: plan_if(p, op); return;
    case OP_YIELD: case OP_CONDITION: case OP_ASSUME: return;
    case OP_BARRIER:
      force_loads(p, NULL, NULL);
      close_group(p);
      p->epoch++;
      return;
    case OP_ASM:
      fail_hint(e->cx, op->span ? *op->span : (Span){0}, "write the same in Triton's own operations, or run it on a GPU",
                "inline assembly is for a GPU; it cannot run on a CPU");
    default: break;
  }
  if (all_scalar(op) && op->code != OP_REDUCE) { plan_scalar(p, op); return; }
  switch (op->code) {
    case OP_LOAD:
      if (group_stores(p->open)) close_group(p);
      info_of(e, op->out[0])->epoch = p->epoch;
      vec_push(e->arena, &p->loads, op);
      break;
    case OP_STORE: plan_store(p, op); break;
    case OP_ATOMIC_RMW: case OP_ATOMIC_CAS: plan_atomic(p, op); break;
    case OP_REDUCE: plan_reduce(p, op); break;
    case OP_DOT: plan_dot(p, op); break;
    case OP_JOIN: case OP_CAT: plan_join(p, op); break;
    case OP_SPLIT:
      if (info_of(e, op->out[0])->uses || info_of(e, op->out[1])->uses) plan_split(p, op);
      break;
    case OP_RESHAPE:
      if (info_of(e, op->out[0])->uses && op->in[0]->type->rank > 0 &&
          (op->out[0]->type->rank == 0 || (!op_is_view(op) && !value_is_virtual(e, op->out[0]))))
        plan_reshape(p, op);
      break;
    case OP_SCAN: case OP_SORT: case OP_HISTOGRAM: case OP_GATHER: case OP_MAP: plan_special(p, op); break;
    case OP_PRINT: case OP_ASSERT: plan_special(p, op); break;
    default: break; /* elementwise and views: pulled where they are needed */
  }
}

/* Without what the block's last operation asks for. */
static void plan_body(Emit *e, Block *b, Planner *p) {
  p->plan = NEW(e->arena, Plan);
  for (Op *op = b->first; op; op = op->next) plan_op(p, op);
}

static void plan_block(Emit *e, Block *b, Planner *p) {
  plan_body(e, b, p);
  close_group(p);
  map_put(e->plans, b, p->plan);
}

static void count_uses(Op *op, void *arg) {
  Emit *e = arg;
  for (int i = 0; i < op->in_count; i++) info_of(e, op->in[i])->uses++;
}

void plan_function(Emit *e) {
  tile_walk(e->f->body, count_uses, e);
  Planner p = {.e = e};
  plan_block(e, e->f->body, &p);
}
