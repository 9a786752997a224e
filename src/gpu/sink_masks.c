/* Late masks: what is compared before a product and selects after it is compared after it.
 *
 *     %seen = cmp %columns, %rows                %s = dot %q, %k
 *     %s = dot %q, %k                    ->      %seen = cmp %columns, %rows
 *     %p = select %seen, %s, %low                %p = select %seen, %s, %low
 *
 * A thread has seven predicates; those of a tile that wait for a product's end are packed into words and taken apart
 * again, which takes as long as to compute them. So tiles of i1 go down in their block to their first user, when a
 * product stands between.
 */
#include "gpu/gpu.h"

static bool uses(const Op *op, const Value *v) {
  stack_guard();
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i] == v) return true;
  for (int b = 0; b < 2 && op->body[b]; b++)
    for (const Op *o = op->body[b]->first; o; o = o->next)
      if (uses(o, v)) return true;
  return false;
}

static void lower_mask(Op *op) {
  bool product = false;
  for (Op *o = op->next; o; o = o->next) {
    if (uses(o, op->out[0])) {
      if (product) op_move_before(op, o);
      return;
    }
    product |= o->code == OP_DOT;
  }
}

static void visit_block(Block *block) {
  stack_guard();
  for (Op *op = block->last, *before; op; op = before) { /* users first */
    before = op->prev;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) visit_block(op->body[i]);
    const Type *t = op->out_count == 1 ? op->out[0]->type : NULL;
    if (t && t->rank && !t->ptr && t->dtype == DT_I1 && op_info[op->code].effect == EFFECT_PURE && !op->body[0])
      lower_mask(op);
  }
}

void gpu_sink_masks(Func *f, const GpuOptions *o) {
  tile_replace_uses(f);
  visit_block(f->body);
}
