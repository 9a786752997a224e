/* Dots of a loop that do not wait for each other are issued together, and each is waited for where its result is taken.
 *
 *     %s = dot %k, %q                              %s = dot %k, %q {async=1}
 *     %p = exponentials of %s                      %t = dot %v, %g {async=1}
 *     %dv = dot %p, %g, %dv                        %p = exponentials of (dot_wait %s, but for one)
 *     %t = dot %v, %g                              %dv = dot %p, %g, %dv {async=1}
 *     %d = mul %p, %t                       ->     %d = mul %p, (dot_wait %t, but for one)
 *     %u = dot %d, %k                              %u = dot %d, %k {async=1}
 *     %dk = dot %d, %q, %dk                        %dk = dot %d, %q, %dk {async=1}
 *     add %u to memory                             add (dot_wait %u, but for one) to memory
 *                                                  dot_wait %dv, %dk
 *
 * The first two take nothing that the loop computes: the second goes up to the first. So the tensor cores have it
 * before them while a warp works on what the first has left, and a sum that the loop only carries while it works on the
 * second's: the gradients of attention, in FlashAttention-3's order. Tiles are free at the iteration's end.
 *
 * Done for products of warpgroups, in loops whose tiles warps of their own bring (gpu/specialize.c), where a thread has
 * registers for it. At one place there is one wait: with a second one, that lets more go on, ptxas 13 puts a wait
 * after each product (C7514).
 */
#include "gpu/loop.h"

enum { MOST_DOTS = 8 };

typedef struct Together {
  Func *f;
  Block *body;
  Op *first, *second;
  Op *dots[MOST_DOTS]; /* in order */
  int count;
} Together;

/* Adds to zeros what lies in shared memory. */
static bool is_plain(const Op *dot, const Block *body) {
  if (!value_is_zero(dot->in[2])) return false;
  for (int k = 0; k < 2; k++) {
    const Value *v = loop_untransposed(dot->in[k]);
    if (!v->def || v->def->code != OP_RING_READ) return false;
  }
  return true;
}

static bool stands_before(const Op *op, const Op *other) {
  for (; op; op = op->next)
    if (op == other) return true;
  return false;
}

/* The first operation of the body that takes v, or holds one that does. */
static Op *first_use(Block *body, const Value *v) {
  for (Op *op = body->first; op; op = op->next) {
    for (int i = 0; i < op->in_count; i++)
      if (op->in[i] == v) return op;
    for (int k = 0; k < 2 && op->body[k]; k++)
      if (block_uses(op->body[k], v)) return op;
  }
  return NULL;
}

static bool find(Together *p) {
  bool frees = false;
  for (Op *op = p->body->first; op; op = op->next) {
    if (op->code == OP_FOR || op->code == OP_WHILE || op->code == OP_RING_WAIT || op->code == OP_DOT_WAIT) return false;
    frees |= op->code == OP_RING_FREE;
    if (op->code != OP_DOT) continue;
    if (op->async || !layout_flies(op, p->f->num_warps) || op->out[0]->type->dtype != DT_F32) return false;
    if (!p->first && is_plain(op, p->body)) p->first = op;
    else if (p->first && !p->second && is_plain(op, p->body)) p->second = op;
  }
  if (!frees || !p->second) return false;
  return first_use(p->body, p->first->out[0]) && first_use(p->body, p->second->out[0]);
}

/* Where the tile that is read has come, if that is waited for in this block. */
static Op *full_of(const Op *read) {
  for (Op *op = read->prev; op; op = op->prev)
    if (op->code == OP_RING_FULL && op->in[0] == read->in[0] && op->in[1] == read->in[1]) return op;
  return NULL;
}

/* What the second dot takes goes up with it: reads, what they wait for, and transposes. */
static bool raise(const Together *p, Op *op, Op *place, bool moves) {
  stack_guard();
  if (stands_before(op, place)) return true;
  if (op != p->second && op->code != OP_TRANS && op->code != OP_RING_READ && op->code != OP_RING_FULL) return false;
  Op *full = op->code == OP_RING_READ ? full_of(op) : NULL;
  if (full && !raise(p, full, place, moves)) return false;
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i]->def && op->in[i]->def->block == p->body && !raise(p, op->in[i]->def, place, moves)) return false;
  if (moves) op_move_before(op, place);
  return true;
}

static Op *end_of_flight(const Together *p, const Op *dot) {
  Op *use = first_use(p->body, dot->out[0]);
  return use ? use : p->body->last;
}

/* How many dots may be in flight where dot i, and others there, are waited for. */
static int in_flight(const Together *p, int i, const Op *place) {
  int n = 0;
  for (int k = i + 1; k < p->count; k++) {
    n += stands_before(p->dots[k], place);
    if (end_of_flight(p, p->dots[k]) == place) n = 0;
  }
  return n;
}

/* Registers for the sums that the loop carries, and for most of the others at a time. */
static int64_t sum_registers(const Together *p) {
  int64_t carried = 0, most = 0;
  for (int i = 0; i < p->count; i++) {
    int64_t now = 0;
    if (loop_carries_sum(p->body, p->dots[i])) carried += loop_sum_registers(p->f, p->dots[i]);
    for (int k = 0; k <= i; k++)
      if (!loop_carries_sum(p->body, p->dots[k]) && stands_before(p->dots[i], end_of_flight(p, p->dots[k])))
        now += loop_sum_registers(p->f, p->dots[k]);
    if (now > most) most = now;
  }
  return carried + most;
}

static void wait_for(const Together *p, Op *dot, Op *place, int pending) {
  Builder b = {.func = p->f, .block = p->body, .before = place, .span = dot->span};
  Op *wait = build_op(&b, OP_DOT_WAIT, 1, &dot->out[0], 1, &dot->out[0]->type);
  wait->pending = pending;
  wait->out[0]->name = dot->out[0]->name;
  loop_replace_but(p->body, dot->out[0], wait);
}

static void visit_loop(Func *f, const GpuOptions *o, Op *loop) {
  Together p = {.f = f, .body = loop->body[0]};
  if (!find(&p)) return;
  Op *place = p.first->next;
  if (!raise(&p, p.second, place, false)) return;
  for (Op *op = p.body->first; op; op = op->next) {
    if (op->code != OP_DOT) continue;
    if (p.count == MOST_DOTS) return;
    p.dots[p.count++] = op;
  }
  if (sum_registers(&p) + o->target->budgets->beside_together > gpu_thread_registers(f->num_warps)) return;
  raise(&p, p.second, place, true);
  p.count = 0;
  for (Op *op = p.body->first; op; op = op->next)
    if (op->code == OP_DOT) p.dots[p.count++] = op;
  for (int i = 0; i < p.count; i++) p.dots[i]->async = 1;
  Op *places[MOST_DOTS];
  int pending[MOST_DOTS];
  for (int i = 0; i < p.count; i++) {
    places[i] = end_of_flight(&p, p.dots[i]);
    pending[i] = in_flight(&p, i, places[i]);
  }
  for (int i = 0; i < p.count; i++) wait_for(&p, p.dots[i], places[i], pending[i]);
  Op *end = p.body->last, *last = end->prev;
  for (Op *op = p.body->first, *next; op != last; op = next) {
    next = op->next;
    if (op->code == OP_RING_FREE) op_move_before(op, end);
  }
  if (last->code == OP_RING_FREE) op_move_before(last, end);
  tile_replace_uses(f);
}

void gpu_dots_together(Func *f, const GpuOptions *o) {
  if (!gpu_has_wgmma(o)) return;
  tile_replace_uses(f);
  loop_visit(f, o, visit_loop);
  tile_replace_uses(f);
}
