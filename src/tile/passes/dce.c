/* Dead code: what no effect depends on goes.
 *
 * An operation is wanted when it writes, has another effect, or computes a wanted value; a body's end wants what it
 * hands on for a wanted result. So a value that a loop carries round and round without anyone else looking at it is
 * dead although it is "used": marking starts from the effects, and what is not reached is dropped, carried values one
 * by one.
 *
 * A volatile load stays. A loop without effects is dropped when nobody wants its results, whether or not it would end.
 */
#include "tile/tile.h"

typedef struct Marker {
  Func *func;
  uint8_t *wanted;    /* by value id */
  VEC(Value *) queue; /* wanted values whose reasons are still to be marked */
} Marker;

static void want(Marker *m, Value *v) {
  v = value_replacement(v);
  if (m->wanted[v->id]) return;
  m->wanted[v->id] = 1;
  vec_push(m->func->cx->arena, &m->queue, v);
}

/* The operation stays; op->note says so. Of control operations only what decides the way is wanted with that. */
static void want_op(Marker *m, Op *op) {
  for (; op && !op->note; op = op->block->parent) {
    op->note = op;
    bool control = op_info[op->code].effect == EFFECT_CONTROL;
    int n = op->code == OP_FOR ? 3 : op->code == OP_IF ? 1 : op->code == OP_WHILE ? 0 : op->in_count;
    for (int i = 0; i < n; i++) want(m, op->in[i]);
    if (op->code == OP_WHILE) want(m, op->body[0]->last->in[0]);
    for (int i = 0; i < 2 && !control; i++) /* reduce, scan, map: the body's results are all wanted */
      if (op->body[i] && op->body[i]->last)
        for (int k = 0; k < op->body[i]->last->in_count; k++) want(m, op->body[i]->last->in[k]);
  }
}

/* All places of carried value i. */
static void want_carried(Marker *m, Op *op, int i) {
  want(m, op->out[i]);
  if (op->code == OP_IF) {
    for (int b = 0; b < 2; b++) want(m, op->body[b]->last->in[i]);
    return;
  }
  want(m, op->in[i + control_skip(op)]);
  for (int b = 0; b < op_info[op->code].regions; b++) {
    Op *end = op->body[b]->last;
    want(m, op->body[b]->args[i + (op->code == OP_FOR)]);
    want(m, end->in[i + (end->code == OP_CONDITION)]);
  }
}

static bool is_control(const Op *op) { return op_info[op->code].effect == EFFECT_CONTROL; }

static void mark_value(Marker *m, Value *v) {
  if (v->def) {
    want_op(m, v->def);
    if (is_control(v->def)) want_carried(m, v->def, v->index);
    return;
  }
  Op *owner = v->block->parent;
  if (!owner || !is_control(owner)) return;
  int i = v->index - (owner->code == OP_FOR);
  if (i >= 0) want_carried(m, owner, i);
}

static bool has_effect(const Op *op) {
  for (int i = 0; i < op->in_count; i++) /* of no elements: nothing to write */
    if (type_numel(op->in[i]->type) == 0) return false;
  switch (op_info[op->code].effect) {
    case EFFECT_WRITE: return true;
    case EFFECT_SIDE: return op->code != OP_ASM || !op->pure;
    case EFFECT_READ: return op_is_volatile(op);
    default: return false;
  }
}

static void clear_note(Op *op, void *arg) { op->note = NULL; }

static void mark_effects(Op *op, void *arg) {
  if (has_effect(op)) want_op(arg, op);
}

static void sweep(Op *op, void *arg) {
  Marker *m = arg;
  if (op_info[op->code].effect == EFFECT_TERMINATOR) return;
  if (!op->note) {
    op_remove(op);
    return;
  }
  if (!is_control(op)) return;
  for (int i = op->out_count - 1; i >= 0; i--)
    if (!m->wanted[op->out[i]->id]) control_drop(op, i);
}

void tile_dce(Func *f) {
  tile_replace_uses(f);
  Marker m = {.func = f, .wanted = NEW_N(f->cx->arena, uint8_t, f->value_count)};
  tile_walk(f->body, clear_note, NULL);
  tile_walk(f->body, mark_effects, &m);
  while (m.queue.n) mark_value(&m, m.queue.at[--m.queue.n]);
  tile_walk(f->body, sweep, &m);
  tile_walk(f->body, clear_note, NULL);
}
