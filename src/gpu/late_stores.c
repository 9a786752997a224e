/* Late stores: what products take is stored while they run.
 *
 *     store %p, %h                               %v = dot %w, %h {async=1}
 *     %v = dot %w, %h {async=1}          ->      store %p, %h
 *     ... (dot_wait %v)                          ... (dot_wait %v)
 *
 * Threads that store hold other elements than those that have computed them, so a tile goes through shared memory. A
 * product's operand lies there already (lower_staged_read): behind the product, its store is a few loads and stores
 * that nobody waits for. Before it, as often as two tiles are stored, the second has to be written by itself.
 *
 * A store goes down to the wait for what is in flight, past operations without effect and reads of rings, and takes
 * those that it has passed with it. It passes loads where a launch shows that these read elsewhere (gpu/disjoint.h).
 */
#include "gpu/disjoint.h"
#include "gpu/ring.h"

static bool takes(const Op *dot, const Value *v) {
  return dot->code == OP_DOT && dot->async && (dot->in[0] == v || dot->in[1] == v);
}

/* Where it may go; NULL: it stays. stores: of the loop whose body this is, or NULL. */
static Op *place_of(const Op *store, const DisjointStores *stores) {
  bool taken = false;
  for (Op *op = store->next; op; op = op->next) {
    if (taken && (op->code == OP_DOT_WAIT || op->code == OP_STORE)) return op;
    taken |= takes(op, op_value(store));
    bool may_load = op->code == OP_LOAD && stores && disjoint_may_precede(stores, op);
    if (!may_load && !ring_may_be_passed(op)) return NULL;
  }
  return NULL;
}

static void move(Op *store, Op *place, const DisjointStores *stores) {
  for (Op *op = store->next; op != place; op = op->next)
    if (op->code == OP_LOAD) disjoint_require(stores, op);
  op_move_before(store, place);
}

static void visit_block(Func *f, Block *block) {
  stack_guard();
  DisjointStores of_loop, *stores = NULL;
  if (block->parent && block->parent->code == OP_FOR && disjoint_stores(f, block, &of_loop)) stores = &of_loop;
  for (Op *op = block->last, *before; op; op = before) { /* the last first: their order stays */
    before = op->prev;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) visit_block(f, op->body[i]);
    Op *place = op->code == OP_STORE && op_value(op)->type->rank ? place_of(op, stores) : NULL;
    if (place) move(op, place, stores);
  }
}

void gpu_late_stores(Func *f, const GpuOptions *o) {
  if (!gpu_has_wgmma(o) || gpu_leaves_out(o, "staged_reads")) return;
  tile_replace_uses(f);
  visit_block(f, f->body);
}
