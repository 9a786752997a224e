/* Loops of a few iterations are written out: what iterations share is computed once, what depends on their number is a
 * constant, and their loads need not wait for one another.
 *
 *     %s = for 0, 3, 1, %zero (%i, %sum):              %p0 = addptr %p, 0;  %x0 = load %p0;  %s0 = add %zero, %x0
 *       %a = addptr %p, %i; %x = load %a       ->      %p1 = addptr %p, 1;  %x1 = load %p1;  %s1 = add %s0, %x1
 *       %next = add %sum, %x                           %p2 = addptr %p, 2;  %x2 = load %p2;  %s = add %s1, %x2
 *
 * Inner loops first, so that a filter's rows and columns become one block. Taken are loops with constant bounds that
 * compute, load and store, as far as the work of a block of 128 threads stays small. Loops with products, reductions or
 * sorts stay, since passes for these want them as they are, and so do loops that say how they are to be run.
 */
#include "tile/passes/fold.h"

enum { MOST_ITERATIONS = 8, MOST_WORK = 384, BLOCK_THREADS = 128 };

/* Instructions of a thread, about; -1: what is not written out. */
static int64_t work_of(const Block *body) {
  stack_guard();
  int64_t sum = 0;
  for (const Op *op = body->first; op; op = op->next) {
    Effect effect = op_info[op->code].effect;
    if (effect == EFFECT_TERMINATOR) continue;
    if (op->code == OP_IF) {
      int64_t then = work_of(op->body[0]), other = work_of(op->body[1]);
      if (then < 0 || other < 0) return -1;
      sum += 1 + then + other;
    } else if (op_is_elementwise(op) || op->code == OP_LOAD || op->code == OP_STORE) {
      int64_t share = type_numel(op->in[0]->type) / BLOCK_THREADS;
      sum += share < 1 ? 1 : share;
    } else if (effect != EFFECT_PURE || op->body[0] || op->code == OP_DOT || op->code == OP_SORT ||
               op->code == OP_HISTOGRAM || op->code == OP_GATHER) {
      return -1;
    }
  }
  return sum;
}

/* How often a loop runs that is written out; 0: it stays. */
static int64_t iterations(const Op *loop) {
  int64_t low, step, count = fold_trips(loop);
  if (loop->flags || loop->num_stages > 0 || loop->unroll > 0 || count < 1 || count > MOST_ITERATIONS) return 0;
  if (!value_is_const(loop->in[0], &low) || !value_is_const(loop->in[2], &step) || low < 0 || step < 0) return 0;
  int64_t work = work_of(loop->body[0]);
  return work >= 0 && work * count <= MOST_WORK ? count : 0;
}

static void write_out(Func *f, Op *loop, int64_t count) {
  Builder b = {.func = f, .block = loop->block, .before = loop, .span = loop->span};
  Block *body = loop->body[0];
  int64_t low = 0, step = 0;
  value_is_const(loop->in[0], &low), value_is_const(loop->in[2], &step);
  Value **carried = arena_copy(f->cx->arena, loop->in, sizeof *loop->in * (size_t)loop->in_count);
  for (int64_t i = 0; i < count; i++) {
    Map *map = map_create(f->cx->arena, false);
    map_put(map, body->args[0], build_int(&b, loop->in[0]->type, low + i * step));
    for (int k = 0; k < loop->out_count; k++) map_put(map, body->args[k + 1], carried[k + 3]);
    for (const Op *op = body->first; op != body->last; op = op->next) {
      b.span = op->span;
      op_clone(&b, op, map);
    }
    for (int k = 0; k < loop->out_count; k++) {
      Value *next = value_replacement(body->last->in[k]), *made = map_get(map, next);
      carried[k + 3] = made ? made : next;
    }
  }
  for (int k = 0; k < loop->out_count; k++) value_replace(loop->out[k], carried[k + 3]);
  op_remove(loop);
}

static void visit(Func *f, Block *block) {
  stack_guard();
  for (Op *op = block->first, *next; op; op = next) {
    next = op->next;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) visit(f, op->body[i]);
    int64_t count = op->code == OP_FOR ? iterations(op) : 0;
    if (count) write_out(f, op, count);
  }
}

void tile_unroll(Func *f) {
  tile_replace_uses(f);
  visit(f, f->body);
  tile_replace_uses(f);
}
