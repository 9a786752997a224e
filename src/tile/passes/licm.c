/* Loop-invariant code: pure operations of a loop's body whose operands come from outside move before the loop.
 *
 * Inner loops first, so that what leaves an inner loop may go on and leave the outer one. Only operations directly in a
 * loop's body move: those under an `if` in it stay, since they may be dear and rarely reached, unless the whole branch
 * moves. Loads stay, as a store in the loop may change what they read. A loop that forbids it (disable_licm) keeps its
 * code.
 */
#include "tile/tile.h"

/* Whether the operation uses anything of block `inside` (whose own bodies it may have). */
static bool uses_block(const Op *op, const Block *inside) {
  stack_guard();
  for (int i = 0; i < op->in_count; i++)
    if (value_block(op->in[i]) == inside) return true;
  for (int i = 0; i < 2; i++)
    if (op->body[i])
      for (const Op *inner = op->body[i]->first; inner; inner = inner->next)
        if (uses_block(inner, inside)) return true;
  return false;
}

/* One may not end. */
static bool has_loop(const Op *branch) {
  stack_guard();
  for (int i = 0; i < 2; i++)
    for (const Op *inner = branch->body[i]->first; inner; inner = inner->next)
      if (op_info[inner->code].effect == EFFECT_CONTROL && (inner->code != OP_IF || has_loop(inner))) return true;
  return false;
}

static bool is_movable(const Op *op) {
  Effect e = op_info[op->code].effect;
  if (e == EFFECT_TERMINATOR || (e == EFFECT_CONTROL && (op->code != OP_IF || has_loop(op)))) return false;
  return op_is_pure(op);
}

static void hoist(Block *body, Op *loop) {
  for (Op *op = body->first, *next; op; op = next) {
    next = op->next;
    if (is_movable(op) && !uses_block(op, body)) op_move_before(op, loop);
  }
}

static void visit_block(Block *block) {
  stack_guard();
  for (Op *op = block->first; op; op = op->next) {
    for (int i = 0; i < 2; i++)
      if (op->body[i]) visit_block(op->body[i]);
    if (op->code == OP_FOR && !(op->flags & LOOP_NO_LICM)) hoist(op->body[0], op);
    if (op->code == OP_WHILE)
      for (int i = 0; i < 2; i++) hoist(op->body[i], op);
  }
}

void tile_licm(Func *f) {
  tile_replace_uses(f);
  visit_block(f->body);
}
