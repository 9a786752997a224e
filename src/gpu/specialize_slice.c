/* The function taken twice: for the warps that compute, without the copies; for those that copy, with these, the
 * control flow around them and the scalars that all this needs, and nothing else.
 */
#include "gpu/specialize.h"

/* ---- what the half that copies needs ----------------------------------------------------------------------------- */

static bool need(Specialize *p, Value *v) {
  stack_guard();
  if (map_get(p->needed, v)) return true;
  map_put(p->needed, v, v);
  if (v->type->rank) return specialize_refuse(p, "which tiles it takes depends on a tile");
  const Op *op = v->def;
  if (!op) {
    const Op *parent = v->block->parent;
    if (!parent) return true;
    if (parent->code != OP_FOR) return specialize_refuse(p, "which tiles it takes depends on a while");
    return !v->index || (need(p, parent->in[v->index + 2]) && need(p, v->block->last->in[v->index - 1]));
  }
  if (op->code == OP_FOR) return need(p, op->body[0]->args[v->index + 1]);
  if (op->code == OP_IF) {
    for (int i = 0; i < 2; i++)
      if (!need(p, op->body[i]->last->in[v->index])) return false;
    return need(p, op->in[0]);
  }
  if (op_info[op->code].effect != EFFECT_PURE || op->body[0])
    return specialize_refuse(p, op->code == OP_LOAD ? "which tiles it takes is read from memory"
                                                    : "which tiles it takes is computed by what has effects");
  for (int i = 0; i < op->in_count; i++)
    if (!need(p, op->in[i])) return false;
  return true;
}

/* What the control flow around a block goes by. */
static bool need_around(Specialize *p, const Block *b) {
  for (const Op *op = b->parent; op; op = op->block->parent) {
    if (op->code != OP_FOR && op->code != OP_IF) return specialize_refuse(p, "a loop of products is in a while");
    for (int i = 0; i < (op->code == OP_FOR ? 3 : 1); i++)
      if (!need(p, op->in[i])) return false;
  }
  return true;
}

static bool need_poly(Specialize *p, const PolySpace *s, const Poly *x) {
  stack_guard();
  for (int i = 0; i < x->count; i++)
    for (int k = 0; k < x->at[i].count; k++) {
      const PolyAtom *a = &s->atoms.at[x->at[i].atoms[k]];
      if (a->kind == ATOM_VALUE && !need(p, a->value)) return false;
      if (a->kind == ATOM_REM && (!need_poly(p, s, a->x) || !need_poly(p, s, a->y))) return false;
    }
  return true;
}

static bool need_ring(Specialize *p, const Ring *r) {
  const RegularTile *box = r->box;
  for (int d = 0; d < box->count; d++)
    if (!need_poly(p, box->space, box->dims[d].start)) return false;
  for (int g = 0; g < box->guard_count; g++)
    if (!need(p, box->guards[g])) return false;
  return true;
}

bool specialize_can_slice(Specialize *p) {
  for (int i = 0; i < p->loop_count; i++) {
    const Loop *l = &p->loops[i];
    if (!need_around(p, l->op->body[0])) return false;
    for (int k = 0; k < l->ring_count; k++)
      if (!need_ring(p, &l->rings[k])) return false;
  }
  for (int i = 0; i < p->single_count; i++) {
    const Ring *r = &p->singles[i].ring;
    if (!need_around(p, r->load->block) || !need_ring(p, r)) return false;
  }
  return true;
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

static bool is_copy(const Op *op) { return op->code == OP_RING_TENSOR || op->code == OP_RING_EMPTY; }

static void remove_copies(Op *op, void *arg) {
  if (is_copy(op)) op_remove(op);
}

static bool holds_copy(const Block *b) {
  stack_guard();
  for (const Op *op = b->first; op; op = op->next) {
    if (is_copy(op)) return true;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && holds_copy(op->body[i])) return true;
  }
  return false;
}

static void need_copies(Op *op, void *arg) {
  Specialize *p = arg;
  if (!is_copy(op)) return;
  for (int i = 0; i < op->in_count; i++) need(p, op->in[i]);
  need_around(p, op->block);
}

static bool is_needed(const Specialize *p, const Op *op) {
  for (int i = 0; i < op->out_count; i++)
    if (map_get(p->needed, op->out[i])) return true;
  return is_copy(op) || (op->body[0] && op_info[op->code].effect == EFFECT_CONTROL &&
                         (holds_copy(op->body[0]) || (op->body[1] && holds_copy(op->body[1]))));
}

/* Leaves of a block what is needed. */
static void keep_needed(Specialize *p, Block *b) {
  stack_guard();
  for (Op *op = b->last, *before; op; op = before) {
    before = op->prev;
    if (op_info[op->code].effect == EFFECT_TERMINATOR) continue;
    if (!is_needed(p, op)) {
      op_remove(op);
      continue;
    }
    if (op->code != OP_FOR && op->code != OP_IF) continue;
    for (int i = op->out_count - 1; i >= 0; i--)
      if (!map_get(p->needed, op->out[i]) && (op->code == OP_IF || !map_get(p->needed, op->body[0]->args[i + 1])))
        control_drop(op, i);
    for (int i = 0; i < 2; i++)
      if (op->body[i]) keep_needed(p, op->body[i]);
  }
}

void specialize_slice(Specialize *p) {
  Func *f = p->f;
  const Type *t = type_number(f->cx, DT_I1);
  Builder b = {.func = f, .block = f->body};
  Value *computes = build_op(&b, OP_COMPUTES, 0, NULL, 1, &t)->out[0];
  Op *halves = build_op(&b, OP_IF, 1, &computes, 0, NULL);
  Block *half[2];
  for (int i = 0; i < 2; i++) half[i] = block_create(f, halves);
  for (Op *op = p->first, *next; op != computes->def; op = next) {
    next = op->next;
    op_remove(op);
    op->block = half[0];
    op->prev = half[0]->last, op->next = NULL;
    if (half[0]->last) half[0]->last->next = op;
    else half[0]->first = op;
    half[0]->last = op;
  }
  Map *clones = map_create(f->cx->arena, false);
  Builder other = {.func = f, .block = half[1]};
  for (Op *op = half[0]->first; op; op = op->next) op_clone(&other, op, clones);
  loop_copy_axes(half[0], half[1]);
  for (int i = 0; i < 2; i++) build_yield(&(Builder){.func = f, .block = half[i]}, 0, NULL);
  tile_walk(half[0], remove_copies, NULL);
  p->needed = map_create(f->cx->arena, false);
  tile_walk(half[1], need_copies, p);
  keep_needed(p, half[1]);
}
