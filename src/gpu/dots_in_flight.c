/* Products of a block that do not wait for each other are in flight at a time, and waited for once.
 *
 *     %s = dot %w, %h, 0                           %s = dot %w, %h, 0 {async=1}
 *     %t = dot %u, %g, %s                          %t = dot %u, %g, %s {async=1}
 *     ... %p made of %t                            ... (dot_wait %t)
 *     %c = dot %k, %p, %a                  ->      %c = dot %k, %p, %a {async=1}
 *     %d = dot %l, %p, %b                          %d = dot %l, %p, %b {async=1}
 *     yield %c, %d                                 yield (dot_wait %c), (dot_wait %d)
 *
 * A wait lets a warpgroup's tensor core run dry: it ends with the last product, and the next one begins with an empty
 * pipe. So a product goes on while the next one is issued, if that takes nothing of its result, or only adds to it: the
 * hardware adds in order. They are waited for together, where a result is taken first, or at the block's end. What
 * stands between (loads, the other operands' arithmetic) runs beside them.
 *
 * Done for products of warpgroups with sums of f32, outside of blocks where other passes have left some in flight
 * (async_loads, dots_ahead, dots_behind, dots_together) or where warps of their own copy tiles (gpu/specialize.c):
 * tiles of this iteration are free where all have met in the next.
 */
#include "gpu/loop.h"

enum { MOST_DOTS = 16 };

typedef struct Flight {
  Func *f;
  Block *block;
  Op *dots[MOST_DOTS];
  int count;
} Flight;

static bool is_eligible(const Flight *p, const Op *op) {
  return op->code == OP_DOT && layout_flies(op, p->f->num_warps) && op->out[0]->type->dtype == DT_F32;
}

/* Whether products of the block are left in flight, or their tiles are freed one by one. */
static bool is_taken(const Block *b) {
  for (const Op *op = b->first; op; op = op->next)
    if (op->code == OP_DOT_WAIT || op->code == OP_RING_FREE || op->code == OP_TMEM_DOT ||
        (op->code == OP_DOT && op->async))
      return true;
  return false;
}

static bool is_in_flight(const Flight *p, const Value *v) {
  for (int i = 0; i < p->count; i++)
    if (p->dots[i]->out[0] == v) return true;
  return false;
}

/* Whether op, or what it holds, takes what is in flight. */
static bool takes_one(const Flight *p, const Op *op) {
  for (int i = 0; i < op->in_count; i++)
    if (is_in_flight(p, op->in[i])) return true;
  for (int k = 0; k < 2 && op->body[k]; k++)
    for (int i = 0; i < p->count; i++)
      if (block_uses(op->body[k], p->dots[i]->out[0])) return true;
  return false;
}

static bool holds_product(const Block *b) {
  stack_guard();
  for (const Op *op = b->first; op; op = op->next) {
    if (op->code == OP_DOT || op->code == OP_FOR || op->code == OP_WHILE) return true;
    for (int k = 0; k < 2 && op->body[k]; k++)
      if (holds_product(op->body[k])) return true;
  }
  return false;
}

/* Whether the product adds to one in flight, whose sum nobody else takes. */
static bool adds_on(const Flight *p, const Op *dot) {
  const Value *sum = dot->in[2];
  return is_in_flight(p, sum) && block_uses(p->f->body, sum) == 1;
}

/* All are waited for before `place`. One alone is left as it was. */
static void land(Flight *p, Op *place) {
  for (int i = 0; i < p->count && p->count > 1; i++) {
    Op *dot = p->dots[i];
    dot->async = 1;
    bool added = false;
    for (int k = i + 1; k < p->count; k++) added |= p->dots[k]->in[2] == dot->out[0];
    if (added) continue;
    Builder b = {.func = p->f, .block = p->block, .before = place, .span = dot->span};
    Op *wait = build_op(&b, OP_DOT_WAIT, 1, &dot->out[0], 1, &dot->out[0]->type);
    wait->out[0]->name = dot->out[0]->name;
    loop_replace_but(p->f->body, dot->out[0], wait);
  }
  p->count = 0;
}

static void visit_block(Func *f, Block *block) {
  stack_guard();
  Flight p = {.f = f, .block = block};
  bool taken = is_taken(block);
  for (Op *op = block->first; op; op = op->next) {
    bool dot = !taken && is_eligible(&p, op), holds = false;
    for (int k = 0; k < 2 && op->body[k]; k++) {
      holds |= holds_product(op->body[k]);
      visit_block(f, op->body[k]);
    }
    bool free = dot && !is_in_flight(&p, op->in[0]) && !is_in_flight(&p, op->in[1]) &&
                (!is_in_flight(&p, op->in[2]) || adds_on(&p, op));
    bool stays = op->code != OP_DOT && !holds && op != block->last && !takes_one(&p, op);
    if (p.count && !(free || stays)) land(&p, op);
    if (dot && p.count < MOST_DOTS) p.dots[p.count++] = op;
  }
}

void gpu_dots_in_flight(Func *f, const GpuOptions *o) {
  if (!gpu_has_wgmma(o)) return;
  tile_replace_uses(f);
  visit_block(f, f->body);
  tile_replace_uses(f);
}
