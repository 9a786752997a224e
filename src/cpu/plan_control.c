/* Loops and branches in the plan.
 *
 * What a body needs from outside is kept before it begins. A carried tensor stands in one buffer: its first value is
 * written there, the body reads it there, and the body's end writes the next value there, all reads before all writes
 * (by way of a second buffer where one nest cannot do both). A product that a loop adds up is added in that buffer.
 */
#include "cpu/gemm.h"

typedef struct Nested {
  Planner *p;
  Op *control;
  bool writes;
  int serial;
} Nested;

static bool is_inside(const Block *b, const Op *control) {
  for (; b && b->parent; b = b->parent->block)
    if (b->parent == control) return true;
  return false;
}

static bool is_deferred(const Op *op) { return op_is_elementwise(op) || op_is_view(op); }

/* A nest inside needs v: if v comes from outside it must be kept; what is computed inside needs its own operands. */
static void keep_from_outside(Nested *n, Value *v) {
  stack_guard();
  Emit *e = n->p->e;
  Info *info = info_of(e, v);
  if (v->type->rank == 0 || info->demanded == n->serial || value_is_recomputable(e, v)) return;
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
    if (i > 0 || !op_is_access(op)) keep_from_outside(n, op->in[i]);
    for (int k = 0; k < count; k++) keep_from_outside(n, terms[k].value);
  }
}

static void keep_for_bodies(Planner *p, Op *op) {
  Nested n = {.p = p, .control = op, .serial = ++p->e->serial};
  for (int r = 0; r < 2; r++)
    if (op->body[r]) tile_walk(op->body[r], keep_operands_of, &n);
  if (n.writes || op_waits(op)) { /* what others write, where it waits for them */
    settle_loads(p, NULL);
    p->epoch++;
  }
}

/* The view of a carried value or a result in its buffer. */
static void carried_view(Emit *e, Value *v, Buffer *b) { info_of(e, v)->view = view_row_major(e, b, v->type); }

static bool reads_buffer(Emit *e, Value *v, Buffer *b) {
  stack_guard();
  Info *info = info_of(e, v);
  if (v->type->rank == 0 || info->visit == e->stamp) return false;
  info->visit = e->stamp;
  if (info->view && !value_is_recomputable(e, v)) return info->view->buffer == b;
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

/* Writes the values of a yield to their buffers. All are read before any is changed: a buffer that another of them
 * still reads, or that its own nest reads at another index, is written by way of a second one. */
static void write_carried(Planner *p, int n, Value **values, Buffer **to) {
  Emit *e = p->e;
  Plan copies = {0};
  for (int k = 0; k < n; k++) {
    Value *v = values[k];
    if (!to[k]) continue;
    Info *info = info_of(e, v);
    if (info->view && info->view->buffer == to[k] && view_is_compact(info->view, v->type) &&
        !value_is_recomputable(e, v))
      continue;
    bool aside = false;
    for (int j = 0; j < n && !aside; j++) {
      if (j == k || !to[j]) continue;
      e->stamp++;
      aside = reads_buffer(e, values[j], to[k]);
    }
    if (p->open && has(p->open->skewed.at, p->open->skewed.n, to[k])) close_group(p);
    FusionRoot *r = NEW(e->arena, FusionRoot);
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
    if (!to[k] || !op || op->code != OP_DOT || op->block != body || info_of(e, yielded[k])->view ||
        info_of(e, yielded[k])->uses != 1)
      continue;
    Value *v = op->in[2];
    if (v == args[k]) {
      if (info_of(e, v)->uses != 1) continue;
    } else {
      /* One chain of elementwise operations, each value used once, down to the argument, which is used once. */
      Value *at = v;
      bool ok = true, found = false;
      while (ok && !found) {
        if (info_of(e, at)->uses != 1) {
          ok = false;
          break;
        }
        if (at == args[k]) {
          found = true;
          break;
        }
        if (!at->def || !op_is_elementwise(at->def) || at->def->block != op->block) {
          ok = false;
          break;
        }
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

bool is_last_mark(const Op *op) {
  while (op && op->code == OP_SCOPE) op = op->next;
  return op && (op->code == OP_YIELD || op->code == OP_CONDITION);
}

static void push_last_marks(Planner *p, const Block *b) {
  for (Op *op = b->first; op; op = op->next)
    if (op->code == OP_SCOPE && is_last_mark(op)) push_op(p, op);
}

/* What a body kept of values that are computed anew wherever they are needed, it kept for itself: after it nobody
 * knows whether it ran. */
static void forget_materialized(Emit *e, int since) {
  for (; e->materialized_recomputable.n > since; e->materialized_recomputable.n--) {
    Info *info = e->materialized_recomputable.at[e->materialized_recomputable.n - 1];
    info->view = NULL, info->owner = NULL;
  }
}

void plan_for(Planner *p, Op *op) {
  Emit *e = p->e;
  OpPlan *o = op_plan(p, op);
  Block *body = op->body[0];
  int n = op->out_count;
  keep_for_bodies(p, op);
  o->gemm = gemm_of(e, op);
  for (int k = 0; k < n; k++) {
    Value *init = op->in[3 + k];
    if (init->type->rank == 0) continue;
    Buffer *b = o->carry[k] = buffer_new(e, init->type);
    if (!o->gemm || !value_is_zero(init)) keep_at(p, init, view_row_major(e, b, init->type));
    carried_view(e, body->args[k + 1], b);
    carried_view(e, op->out[k], b);
  }
  close_group(p);
  push_op(p, op);
  Planner inner = {.e = e, .gemm = o->gemm};
  int kept = e->materialized_recomputable.n;
  place_dots(e, body, n, body->last->in, body->args + 1, o->carry);
  plan_body(e, body, &inner);
  if (o->gemm) gemm_planned(&inner, o->gemm);
  write_carried(&inner, n, body->last->in, o->carry);
  push_last_marks(&inner, body);
  forget_materialized(e, kept);
  map_put(e->plans, body, inner.plan);
}

void plan_while(Planner *p, Op *op) {
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
  int kept = e->materialized_recomputable.n;
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
  push_last_marks(&first, before);
  map_put(e->plans, before, first.plan);
  Planner second = {.e = e};
  plan_body(e, body, &second);
  write_carried(&second, n, body->last->in, o->carry);
  push_last_marks(&second, body);
  forget_materialized(e, kept);
  map_put(e->plans, body, second.plan);
}

void plan_if(Planner *p, Op *op) {
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
    int kept = e->materialized_recomputable.n;
    plan_body(e, op->body[r], &inner);
    if (op->body[r]->last && op->body[r]->last->code == OP_YIELD)
      write_carried(&inner, op->out_count, op->body[r]->last->in, o->carry);
    close_group(&inner);
    push_last_marks(&inner, op->body[r]);
    forget_materialized(e, kept);
    map_put(e->plans, op->body[r], inner.plan);
  }
}
