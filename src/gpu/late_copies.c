/* Late copies: what is copied ahead is asked for while products run.
 *
 *     ring_wait                                  ring_wait
 *     if %wanted { ring_tensor ... }             %v = dot %w, %h {async=1}
 *     ring_commit                        ->      if %wanted { ring_tensor ... }
 *     %v = dot %w, %h {async=1}                  ring_commit
 *     ... (dot_wait %v)                          ... (dot_wait %v)
 *
 * A slot is free where all have met, at the loop's top (gpu/async_loads.c). But what stands there all wait for: one
 * thread asks for a tile after the other, and the next barrier waits for that thread. Behind the loop's first products
 * nobody waits, until these are over. What is wanted iterations later comes early enough. (Loads to registers that went
 * there, too, made states 1.3 to 1.6 times as slow on an H200: they stay at the top.)
 *
 * Copies pass stores: what a loop stores lies apart from what is copied ahead.
 */
#include "gpu/ring.h"

/* A branch around copies alone. */
static bool only_copies(const Op *op) {
  if (op->code != OP_IF || op->out_count) return false;
  bool any = false;
  for (int i = 0; i < 2 && op->body[i]; i++)
    for (const Op *o = op->body[i]->first; o; o = o->next) {
      bool copies = o->code == OP_RING_TENSOR || o->code == OP_RING_COPY;
      any |= copies;
      if (o->body[0] || !(copies || op_info[o->code].effect == EFFECT_PURE || o->code == OP_YIELD)) return false;
    }
  return any;
}

/* The wait for the first products at `op` and after it that are in flight; NULL: others come first, or something that
 * copies do not pass. */
static Op *place_of(Op *op) {
  bool dots = false;
  for (; op; op = op->next) {
    if (op->code == OP_DOT_WAIT) return dots ? op : NULL;
    if (!ring_may_be_passed(op) && op->code != OP_LOAD && op->code != OP_STORE) return NULL;
    if (op->code == OP_DOT && !op->async) return NULL;
    dots |= op->code == OP_DOT;
  }
  return NULL;
}

static void visit_loop(Func *f, const GpuOptions *o, Op *loop) {
  for (Op *op = loop->body[0]->first; op; op = op->next) {
    Op *commit = op->next;
    if (!only_copies(op) || !commit || commit->code != OP_RING_COMMIT) continue;
    Op *place = place_of(commit->next);
    if (!place) return;
    op_move_before(op, place);
    op_move_before(commit, place);
    return;
  }
}

void gpu_late_copies(Func *f, const GpuOptions *o) {
  if (!gpu_has_wgmma(o)) return;
  tile_replace_uses(f);
  loop_visit(f, o, visit_loop);
}
