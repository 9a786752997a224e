/* Late loads and copies: what is loaded or copied ahead is asked for while products run.
 *
 *     %next = load ...                           ring_wait
 *     ring_wait                                  %v = dot %w, %h {async=1}
 *     if %wanted { ring_tensor ... }             %next = load ...
 *     ring_commit                        ->      if %wanted { ring_tensor ... }
 *     %v = dot %w, %h {async=1}                  ring_commit
 *     ... (dot_wait %v)                          ... (dot_wait %v)
 *     yield %next                                yield %next
 *
 * A slot is free where all have met, at the loop's top (gpu/async_loads.c), and there prefetch puts its loads, too. But
 * what stands there all wait for: one thread asks for a tile after the other, and the next barrier waits for that
 * thread; a tile's addresses, masks and loads are as many instructions as the products' operands. Behind the loop's
 * first products nobody waits, until these are over. What is wanted iterations later comes early enough.
 *
 * Copies pass stores: what a loop stores lies apart from what is copied ahead. Loads do where that was required.
 */
#include "gpu/disjoint.h"
#include "gpu/loop.h"

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

static bool is_passable(const Op *op) {
  Effect e = op_info[op->code].effect;
  return !op->body[0] && (e == EFFECT_PURE || op->code == OP_RING_READ || op->code == OP_RING_LOAD ||
                          op->code == OP_LOAD || op->code == OP_STORE);
}

/* Whether it says which copies are waited for, or makes them. */
static bool is_of_copies(const Op *op) {
  return op->code == OP_RING_FULL || op->code == OP_RING_WAIT || op->code == OP_RING_COMMIT || only_copies(op);
}

/* The wait for the first products at `op` and after it that are in flight; NULL: others come first, or something that
 * copies (loads, which are in no order with copies) do not pass. */
static Op *place_of(Op *op, bool loads) {
  bool dots = false;
  for (; op; op = op->next) {
    if (op->code == OP_DOT_WAIT) return dots ? op : NULL;
    if (!is_passable(op) && !(loads && is_of_copies(op))) return NULL;
    if (op->code == OP_DOT && !op->async) return NULL;
    dots |= op->code == OP_DOT;
  }
  return NULL;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static void visit_copies(Func *f, const GpuOptions *o, Op *loop) {
  for (Op *op = loop->body[0]->first; op; op = op->next) {
    Op *commit = op->next;
    if (!only_copies(op) || !commit || commit->code != OP_RING_COMMIT) continue;
    Op *place = place_of(commit->next, false);
    if (!place) return;
    op_move_before(op, place);
    op_move_before(commit, place);
    return;
  }
}

void gpu_late_copies(Func *f, const GpuOptions *o) {
  if (!gpu_has_wgmma(o)) return;
  tile_replace_uses(f);
  loop_visit(f, o, visit_copies);
}

/* ---- loads ------------------------------------------------------------------------------------------------------- */

static bool takes(const Op *op, const Value *v) {
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i] == v) return true;
  for (int i = 0; i < 2 && op->body[i]; i++)
    if (loop_uses(op->body[i], v)) return true;
  return false;
}

/* Whether anything between op and place takes its result. */
static bool is_taken_before(const Op *op, const Op *place) {
  for (const Op *o = op->next; o && o != place; o = o->next)
    if (takes(o, op->out[0])) return true;
  return false;
}

/* A load for the next iteration, which may come as late as `place`. */
static bool can_wait(const Provenance *p, const Op *load, const Op *place) {
  if (load->code != OP_LOAD || op_is_volatile(load) || op_cache(load) == CACHE_CV) return false;
  if (is_taken_before(load, load->block->last)) return false;
  for (const Op *op = load->next; op != place; op = op->next)
    if (op->code == OP_STORE && !disjoint_is_required(p, op_pointer(load), op_pointer(op))) return false;
  return true;
}

/* What `op` alone takes of the operations before it is computed there. */
static void sink_operands(Op *op) {
  stack_guard();
  for (int i = 0; i < op->in_count; i++) {
    Op *def = op->in[i]->def;
    if (!def || def->block != op->block || op_info[def->code].effect != EFFECT_PURE || def->body[0] ||
        def->out_count != 1 || def->code == OP_DOT || is_taken_before(def, op))
      continue;
    op_move_before(def, op);
    sink_operands(def);
  }
}

static void visit_loads(Func *f, const GpuOptions *o, Op *loop) {
  Block *body = loop->body[0];
  Op *place = place_of(body->first, true), *end = place;
  if (!place) return;
  const Provenance *p = provenance_create(f->cx->arena, f);
  for (Op *op = place->prev, *before; op; op = before) {
    before = op->prev;
    if (!can_wait(p, op, end)) continue;
    op_move_before(op, place);
    place = op;
  }
  for (Op *op = place, *next; op != end; op = next) {
    next = op->next;
    if (op->code == OP_LOAD) sink_operands(op);
  }
}

void gpu_late_loads(Func *f, const GpuOptions *o) {
  if (!gpu_has_wgmma(o)) return;
  tile_replace_uses(f);
  loop_visit(f, o, visit_loads);
}
