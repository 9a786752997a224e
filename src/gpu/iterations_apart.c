/* Loops whose iterations touch different memory: what a launch shows of that, so that no barrier is needed in them.
 *
 *     for %row ...                                            require %stride >= %n
 *       store %x + %row * %stride + %cols, ..., %cols < %n    a program writes to no address through %x twice
 *       %m = load %means + %row                               apart %means, %x
 *
 * Threads that store to one address must do so in order, and one that loads must not come after another's store of the
 * next iteration: a barrier an iteration (lower/membar.c), which has all warps wait for the slowest one's loads. Where
 * rows are as long as their stride says, and arrays are arrays of their own, there is no such pair; a launch looks at
 * the strides (`require`) and at how far accesses reach (`apart`, disjoint.h), and takes a kernel with barriers where
 * it must.
 *
 * An argument is written once if one store writes through it, a box (tile/analysis/regular.h) that each loop around it
 * moves along a dim of its own, by no less than the box has there; and each dim's stride is no less than what the dims
 * before it span.
 */
#include "gpu/disjoint.h"
#include "gpu/loop.h"
#include "gpu/ring.h"
#include "tile/analysis/overlap.h"

enum { MOST_LOOPS = 4, MOST_REQUIRED = 8, MOST_ACCESSES = 32 };

typedef struct Apart {
  Func *f;
  const Provenance *provenance;
  int *writes; /* by argument: how many operations write through it */
  Op **stores; /* the last one of them that is a store */
} Apart;

static bool writes_memory(const Op *op) { return op->code == OP_STORE || op_is_atomic(op); }

static void note_write(Op *op, void *arg) {
  Apart *p = arg;
  int to = writes_memory(op) ? provenance_argument(p->provenance, op_pointer(op)) : -1;
  if (to < 0) return;
  p->writes[to]++;
  if (op->code == OP_STORE) p->stores[to] = op;
}

/* ---- stores that write each address once ------------------------------------------------------------------------- */

typedef struct Loops {
  const Op *at[MOST_LOOPS]; /* around the store, inner ones first */
  bool found[MOST_LOOPS];   /* along one of the box's dims */
  int count;
} Loops;

static bool loops_around(const Op *store, Loops *out) {
  *out = (Loops){.count = 0};
  for (const Op *op = store->block->parent; op; op = op->block->parent) {
    if (op->code == OP_IF) continue;
    if (op->code != OP_FOR || out->count == MOST_LOOPS) return false;
    out->at[out->count++] = op;
  }
  return out->count > 0;
}

static bool is_around(const Loops *loops, const Value *v) {
  const Op *outermost = loops->at[loops->count - 1];
  for (const Block *b = value_block(v); b; b = b->parent ? b->parent->block : NULL)
    if (b->parent == outermost) return false;
  return true;
}

/* Whether the box moves along d by at most one of the loops, far enough in each iteration, and is moved by nothing else
 * that they change; *moves: by one of them. */
static bool moves_along(Loops *loops, const RegularTile *box, const RegularDim *d, bool *moves) {
  const PolySpace *s = box->space;
  *moves = false;
  for (int i = 0; i < d->start->count; i++) {
    const PolyTerm *t = &d->start->at[i];
    for (int k = 0; k < t->count; k++) {
      const PolyAtom *a = &s->atoms.at[t->atoms[k]];
      if (a->is_static || (a->kind == ATOM_VALUE && is_around(loops, a->value))) continue;
      int n = 0;
      while (n < loops->count && loops->at[n] != a->loop) n++;
      if (a->kind != ATOM_TRIP || n == loops->count || loops->found[n] || *moves) return false;
      if (t->count > 1 || (t->factor < d->box && t->factor > -d->box)) return false;
      loops->found[n] = *moves = true;
    }
  }
  return true;
}

static bool is_written_once(const RegularTile *box, Loops *loops) {
  PolySpace *s = box->space;
  const Poly *span = poly_int(s, 0); /* from the first element to the last one, of the dims so far */
  bool endless = false, moves;
  for (int i = 0; i < box->count; i++) {
    const RegularDim *d = &box->dims[i];
    if (!moves_along(loops, box, d, &moves)) return false;
    if (!moves && d->box == 1) continue;
    if (endless || !poly_need(s, POLY_AT_LEAST, poly_sub(s, d->stride, span), 1)) return false;
    const Poly *size = d->size ? d->size : poly_int(s, d->box);
    endless = moves && !d->size;
    span = poly_add(s, span, poly_mul(s, poly_sub(s, size, poly_int(s, 1)), d->stride));
  }
  for (int i = 0; i < loops->count; i++)
    if (!loops->found[i]) return false;
  return true;
}

static void take_stores(Apart *p) {
  Func *f = p->f;
  Builder top = {.func = f, .block = f->body, .before = f->body->first};
  for (int i = 0, left = MOST_REQUIRED; i < f->body->arg_count && left; i++) {
    Loops loops;
    const char *why;
    const Op *store = p->writes[i] == 1 ? p->stores[i] : NULL;
    if (!store || !loops_around(store, &loops)) continue;
    RegularTile *box = regular_access(f, store, &why);
    if (!box || !is_written_once(box, &loops)) continue;
    top.span = store->span;
    ring_require(&top, box->space);
    if (!f->written_once) f->written_once = NEW_N(f->cx->arena, bool, f->body->arg_count);
    f->written_once[i] = true;
    left--;
  }
}

/* ---- loads and stores of different arrays ------------------------------------------------------------------------ */

typedef struct Accesses {
  Op *loads[MOST_ACCESSES], *stores[MOST_ACCESSES];
  int load_count, store_count;
} Accesses;

static void note_access(Op *op, void *arg) {
  Accesses *a = arg;
  if (op->code == OP_LOAD && a->load_count < MOST_ACCESSES) a->loads[a->load_count++] = op;
  if (op->code == OP_STORE && a->store_count < MOST_ACCESSES) a->stores[a->store_count++] = op;
}

/* Whether threads may load what others store, by what is known without a launch. */
static bool may_cross(const Provenance *p, const Op *loop, const Op *load, const Op *store) {
  const Value *from = op_pointer(load), *to = op_pointer(store);
  if (!from->type->rank || !type_same_shape(from->type, to->type)) return true;
  return overlap_crosswise(p, from, to, NULL) || overlap_crosswise(p, to, from, loop);
}

static void take_loop(Func *f, const GpuOptions *o, Op *loop) {
  (void)o;
  DisjointStores all;
  if (!disjoint_stores(f, loop->body[0], &all) || !all.count) return;
  Accesses a = {.load_count = 0};
  tile_walk(loop->body[0], note_access, &a);
  for (int i = 0; i < a.load_count; i++)
    for (int k = 0; k < a.store_count; k++) {
      DisjointStores one = {.f = f, .provenance = all.provenance, .count = 1};
      one.arguments[0] = provenance_argument(all.provenance, op_pointer(a.stores[k]));
      if (disjoint_may_precede(&one, a.loads[i]) && may_cross(all.provenance, loop, a.loads[i], a.stores[k]))
        disjoint_require(&one, a.loads[i]);
    }
}

void gpu_iterations_apart(Func *f, const GpuOptions *o) {
  if (!o->apart || gpu_leaves_out(o, "apart")) return;
  loop_visit(f, o, take_loop);
  if (!o->tensor_maps || gpu_leaves_out(o, "tensor_maps")) return; /* with which a kernel without is told apart */
  Apart p = {.f = f, .provenance = provenance_create(f->cx->arena, f)};
  p.writes = NEW_N(f->cx->arena, int, f->body->arg_count + 1);
  p.stores = NEW_N(f->cx->arena, Op *, f->body->arg_count + 1);
  tile_walk(f->body, note_write, &p);
  take_stores(&p);
}
