/* Drops operations whose results nobody uses: pure ones, loads that are not volatile, reads of a clock, and control
 * without effect.
 *
 * From the end to the front: uses are counted, an operation without any goes, and takes its own uses with it. Carried
 * values that nobody uses stay; folding a loop's shape is not this pass's business.
 */
#include "gpu/lane/table.h"

static void count_uses(LaneOp *op, void *arg) {
  int *uses = arg;
  for (int i = 0; i < op->in_count; i++) uses[op->in[i]->id]++;
  if (op->guard) uses[op->guard->id]++;
}

static bool may_drop(const LaneOp *op) {
  switch (lane_info[op->code].effect) {
    case LE_PURE: return true;
    case LE_READ: return !op->is_volatile && op->cache != CACHE_CV;
    case LE_CONTROL:
      if (op->code == LANE_WHILE) return false; /* may be a loop that waits */
      for (int i = 0; i < 2; i++) {
        const LaneBlock *body = op->body[i];
        if (!body || !body->first) continue;
        if (body->first->next || lane_info[body->first->code].effect != LE_TERMINATOR) return false;
      }
      return true;
    case LE_CONVERGED: return op->out_count > 0;
    default: return op->code == LANE_ASM && op->is_pure;
  }
}

static bool is_used(const LaneOp *op, const int *uses) {
  for (int i = 0; i < op->out_count; i++)
    if (uses[op->out[i]->id]) return true;
  return false;
}

static void sweep(LaneBlock *block, int *uses) {
  stack_guard();
  for (LaneOp *op = block->last, *before; op; op = before) {
    before = op->prev;
    for (int i = 1; i >= 0; i--)
      if (op->body[i]) sweep(op->body[i], uses);
    if (is_used(op, uses) || !may_drop(op)) continue;
    for (int i = 0; i < op->in_count; i++) uses[op->in[i]->id]--;
    if (op->guard) uses[op->guard->id]--;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && op->body[i]->first) { /* what ends an empty body */
        LaneOp *end = op->body[i]->first;
        for (int j = 0; j < end->in_count; j++) uses[end->in[j]->id]--;
      }
    lane_remove(op);
  }
}

static int *uses_in(const LaneFunc *f) {
  int *uses = NEW_N(f->cx->arena, int, f->value_count);
  lane_walk(f->body, count_uses, uses);
  return uses;
}

void lane_dce(LaneFunc *f) { sweep(f->body, uses_in(f)); }

static bool holds_dead(const LaneBlock *block, const int *uses) {
  stack_guard();
  for (const LaneOp *op = block->first; op; op = op->next) {
    if (!is_used(op, uses) && may_drop(op)) return true;
    for (int i = 0; i < 2 && op->body[i]; i++)
      if (holds_dead(op->body[i], uses)) return true;
  }
  return false;
}

bool lane_has_dead(const LaneFunc *f) { return holds_dead(f->body, uses_in(f)); }
