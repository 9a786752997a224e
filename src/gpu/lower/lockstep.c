/* Rings in lockstep share mbarriers.
 *
 *     ring_full %a, %slot, %parity               wait for the tiles of both
 *     ring_full %b, %slot, %parity
 *     ... dot of both                     ->     ...
 *     ring_free %a, %slot
 *     ring_free %b, %slot                        say that both are free
 *
 * The operands of a product come and go together: the tile IR has a wait and an arrival for each ring, and a thread
 * needs one of both. So a slot's full barrier counts an arrival for each ring that shares it, each with the bytes of
 * its own copies; the first ring's operations wait, the last one's say that a slot is free.
 *
 * Two rings are in lockstep where each operation that waits for or frees a slot of the one is followed by the same of
 * the other, with nothing between but arithmetic, reads of rings and the copies themselves. Not those of clusters,
 * where the empty barrier counts blocks, nor where threads read slots and fence before they free them.
 */
#include "gpu/lower/ring.h"

static bool is_of_slot(OpCode code) {
  return code == OP_RING_FULL || code == OP_RING_EMPTY || code == OP_RING_FREE || code == OP_RING_DRAIN;
}

static bool is_between(const Op *op) {
  return !op->body[0] && (op_info[op->code].effect == EFFECT_PURE || op->code == OP_RING_READ ||
                          op->code == OP_RING_TENSOR || is_of_slot(op->code));
}

/* Whether the same is computed: by one operation, or by two alike, a few operations deep. */
static bool is_same(const Value *a, const Value *b, int depth) {
  stack_guard();
  if (a == b) return true;
  const Op *x = a->def, *y = b->def;
  if (!x || !y || !depth || x->code != y->code || x->in_count != y->in_count || x->body[0] || a->type != b->type ||
      op_info[x->code].effect != EFFECT_PURE || x->text || y->text || x->dim_count || y->dim_count ||
      memcmp(x->attr, y->attr, sizeof x->attr) || memcmp(&x->number, &y->number, sizeof x->number))
    return false;
  for (int i = 0; i < x->in_count; i++)
    if (!is_same(x->in[i], y->in[i], depth - 1)) return false;
  return true;
}

/* Whether the operation of ring b is preceded by the same of ring a. */
static bool follows(const Op *op, const Value *a) {
  enum { DEPTH = 3 };
  for (const Op *o = op->prev; o && is_between(o); o = o->prev) {
    if (!is_of_slot(o->code) || o->code != op->code) continue;
    if (o->in[0] == op->in[0]) return false;
    if (o->in[0] != a) continue;
    for (int i = 1; i < op->in_count; i++)
      if (!is_same(op->in[i], o->in[i], DEPTH)) return false;
    return true;
  }
  return false;
}

typedef struct Pair {
  const Value *a, *b;
  int count[2]; /* operations of each */
  bool follows; /* each of b's one of a's */
} Pair;

static void look_at(Op *op, void *arg) {
  Pair *p = arg;
  if (!is_of_slot(op->code)) return;
  p->count[0] += op->in[0] == p->a;
  p->count[1] += op->in[0] == p->b;
  if (op->in[0] == p->b) p->follows &= follows(op, p->a);
}

static bool are_in_lockstep(const Lower *l, const Value *a, const Value *b) {
  const LowerRing *x = lower_ring_of((Lower *)l, a), *y = lower_ring_of((Lower *)l, b);
  if (a->def->slots != b->def->slots || x->cluster || y->cluster || lower_ring_is_loaded(l, a) ||
      lower_ring_is_loaded(l, b))
    return false;
  Pair p = {a, b, {0, 0}, true};
  tile_walk(l->f->body, look_at, &p);
  return p.follows && p.count[0] == p.count[1];
}

void lower_ring_join(Lower *l, const Value *ring, const Value *const *before, int n) {
  LowerRing *r = lower_ring_of(l, ring);
  r->first = r->last = r;
  r->sharers = 1;
  if (!l->lockstep) return;
  for (int i = 0; i < n; i++) {
    LowerRing *other = lower_ring_of(l, before[i]);
    if (other->first->last != other || !are_in_lockstep(l, before[i], ring)) continue;
    r->first = other->first;
    r->first->last = r;
    r->first->sharers++;
    return;
  }
}
