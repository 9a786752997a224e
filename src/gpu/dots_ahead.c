/* A dot whose operands are known an iteration ahead is computed while the work of this iteration goes on.
 *
 *     for ... carrying the slot              ring_wait;  %s0 = dot %q, slot 0;  %t0 = mul %s0, %scale
 *       ring_wait                            for ... carrying the slot and %t
 *       %s = dot %q, slot             ->       ring_wait, for one group more
 *       %t = mul %s, %scale                    %next = dot %q, next slot {async=1}
 *       ... exponentials of %t ...             ... exponentials of %t ...
 *       %acc = dot %p, ..                      %acc = dot %p, ..
 *                                              %u = mul (dot_wait %next), %scale
 *                                              yield %u
 *
 * So tensor cores work while a warp takes exponentials. What is first done to the result, by numbers from outside the
 * loop, is done where it is waited for: that brings it to the registers in which the loop carries it. The last
 * iteration computes one dot too many, of zeros: slots that no iteration fills are filled with them.
 *
 * Done for wgmma that adds to zeros, in loops whose tiles come through rings (gpu/async_loads.c) at least two
 * iterations ahead, that have another dot for the result to wait for, and where a thread has registers for it.
 */
#include "gpu/ahead.h"
#include "gpu/ring.h"

typedef struct Ahead {
  Func *f;
  const GpuOptions *o;
  Op *loop, *wait; /* wait: the body's ring_wait */
  Block *body;
} Ahead;

static bool in_body(const Ahead *p, const Value *v) { return value_block(v) == p->body; }

/* The ring_read that v is, or a transpose of. */
static Op *read_of(const Value *v) {
  v = loop_untransposed(v);
  return v->def && v->def->code == OP_RING_READ ? v->def : NULL;
}

typedef struct Uses {
  const Value *v;
  Op *last;
  int count;
} Uses;

static void count_use(Op *op, void *arg) {
  Uses *u = arg;
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i] == u->v) u->last = op, u->count++;
}

/* The only operation that takes v; NULL when there are others, or it is of another block. */
static Op *only_use(Block *body, const Value *v) {
  Uses u = {v, NULL, 0};
  tile_walk(body, count_use, &u);
  return u.count == 1 && u.last->block == body ? u.last : NULL;
}

Op *ahead_first_step(Block *body, const Op *dot) {
  Op *use = only_use(body, dot->out[0]);
  if (!use || !op_is_elementwise(use) || use->out_count != 1 || use->out[0]->type != dot->out[0]->type) return NULL;
  for (int i = 0; i < use->in_count; i++)
    if (use->in[i] != dot->out[0] && value_block(use->in[i]) == body) return NULL;
  return use;
}

bool ahead_is_wanted(const Func *f, const GpuOptions *o, const Block *body, const Op *dot, AheadTile is_tile,
                     void *arg) {
  if (dot->code != OP_DOT || dot->async || !layout_flies(dot, f->num_warps) || !value_is_zero(dot->in[2])) return false;
  if (dot->out[0]->type->dtype != DT_F32) return false;
  bool ring = false;
  for (int k = 0; k < 2; k++) {
    if (value_block(dot->in[k]) != body) continue;
    if (!is_tile(dot->in[k], arg)) return false;
    ring = true;
  }
  const Op *end = body->last;
  for (int i = 0; i < end->in_count; i++)
    if (end->in[i] == dot->out[0]) return false;
  const GpuBudgets *budgets = o->target->budgets;
  int64_t registers = budgets->beside_sums + loop_sum_registers(f, dot) + loop_sums(f, body);
  bool another = false;
  for (const Op *op = body->first; op; op = op->next) another |= op->code == OP_DOT && op != dot && !op->async;
  int most = gpu_thread_registers(f->num_warps);
  return ring && another && registers <= (budgets->with_sums_ahead < most ? budgets->with_sums_ahead : most);
}

static bool is_read(const Value *v, void *arg) { return read_of(v) != NULL; }

/* ---- the change -------------------------------------------------------------------------------------------------- */

/* v, of the tile in another slot. */
static Value *from_slot(Builder *b, Value *v, Value *slot) {
  stack_guard();
  Op *op = v->def;
  if (!read_of(v)) return v;
  Map *map = map_create(b->func->cx->arena, false);
  map_put(map, op->in[0], op->code == OP_TRANS ? from_slot(b, op->in[0], slot) : op->in[0]);
  Op *clone = op_clone(b, op, map);
  if (op->code == OP_RING_READ) clone->in[1] = slot;
  return clone->out[0];
}

Value *ahead_dot(Builder *b, const Block *body, const Op *dot, Value *slot, bool async) {
  b->span = dot->span;
  Value *a = value_block(dot->in[0]) == body ? from_slot(b, dot->in[0], slot) : dot->in[0],
        *x = value_block(dot->in[1]) == body ? from_slot(b, dot->in[1], slot) : dot->in[1];
  Value *zero = build_float(b, dot->out[0]->type, 0), *out = build_dot(b, a, x, zero, (DotPrecision)dot->precision);
  out->def->async = async;
  return out;
}

Value *ahead_step(Builder *b, const Op *use, const Op *dot, Value *result) {
  if (!use) return result;
  Map *map = map_create(b->func->cx->arena, false);
  map_put(map, dot->out[0], result);
  Op *clone = op_clone(b, use, map);
  return clone->out[0];
}

static void move_ahead(Ahead *p, Op *dot, Op *last_dot) {
  Func *f = p->f;
  Op *loop = p->loop, *use = ahead_first_step(p->body, dot);
  const Op *read = read_of(in_body(p, dot->in[0]) ? dot->in[0] : dot->in[1]);
  Value *slot = read->in[1];
  int64_t slots = read->in[0]->def->slots;
  Builder before = {.func = f, .block = loop->block, .before = loop, .span = dot->span};
  Value *first = ahead_step(&before, use, dot, ahead_dot(&before, p->body, dot, loop->in[3 + slot->index - 1], false));
  Builder top = {.func = f, .block = p->body, .before = p->wait->next, .span = dot->span};
  Value *result = ahead_dot(&top, p->body, dot, ring_next_slot(&top, slots, slot), true);
  Builder after = {.func = f, .block = p->body, .before = last_dot->next, .span = dot->span};
  Op *wait = build_op(&after, OP_DOT_WAIT, 1, &result, 1, &result->type);
  Value *carried = control_carry(f, loop, first, ahead_step(&after, use, dot, wait->out[0]));
  Op *old = use ? use : dot;
  carried->name = old->out[0]->name;
  value_replace(old->out[0], carried);
  op_remove(old);
  if (use) op_remove(dot);
}

/* The value that the loop begins with where its body has this one. */
static Value *at_first(const Op *loop, Value *v) {
  return value_block(v) == loop->body[0] ? loop->in[3 + v->index - 1] : v;
}

/* The operation goes by the place after its own. */
static void place_later(Func *f, Op *op) {
  Builder here = {.func = f, .block = op->block, .before = op, .span = op->span};
  RingPlace next = ring_next(&here, op->in[0]->def->slots, (RingPlace){op->in[1], op->in[2]});
  op->in[1] = next.slot, op->in[2] = next.parity;
}

/* Tiles that tensor maps bring are waited for an iteration earlier, too: the first one before the loop. What is waited
 * for after it begins a tile later. */
static void wait_earlier(Ahead *p) {
  Func *f = p->f;
  Op *loop = p->loop;
  Builder before = {.func = f, .block = loop->block, .before = loop, .span = loop->span};
  for (Op *op = p->body->first; op; op = op->next) {
    if (op->code != OP_RING_FULL) continue;
    ring_full(&before, op->in[0], (RingPlace){at_first(loop, op->in[1]), at_first(loop, op->in[2])});
    place_later(f, op);
  }
  for (Op *op = loop->next; op; op = op->next) {
    if (op->code != OP_RING_DRAIN) continue;
    if (op->in[1]->def == loop) place_later(f, op);
  }
}

static void visit_loop(Func *f, const GpuOptions *o, Op *loop) {
  Ahead p = {.f = f, .o = o, .loop = loop, .body = loop->body[0]};
  Op *last_dot = NULL, *wanted = NULL;
  for (Op *op = p.body->first; op; op = op->next) {
    if (op->code == OP_RING_WAIT && !p.wait) p.wait = op;
    if (op->code == OP_FOR || op->code == OP_WHILE) return;
    if (op->code == OP_RING_FREE) return; /* gpu/specialize.c has decided, and what it waits for goes by places */
    if (op->code == OP_DOT) last_dot = op;
  }
  if (!p.wait || p.wait->pending < 1) return; /* tiles of the next iteration are not there in time */
  for (Op *op = p.body->first; op && !wanted; op = op->next)
    if (op != last_dot && ahead_is_wanted(f, o, p.body, op, is_read, NULL)) wanted = op;
  if (!wanted) return;
  wait_earlier(&p);
  Builder before = {.func = f, .block = loop->block, .before = loop, .span = wanted->span};
  Op *wait = build_op(&before, OP_RING_WAIT, 0, NULL, 0, NULL);
  wait->pending = p.wait->pending;
  p.wait->pending--;
  move_ahead(&p, wanted, last_dot);
  tile_replace_uses(f);
}

void gpu_dots_ahead(Func *f, const GpuOptions *o) {
  if (!gpu_has_wgmma(o)) return;
  tile_replace_uses(f);
  loop_visit(f, o, visit_loop);
  tile_replace_uses(f);
}
