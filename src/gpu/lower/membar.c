/* membar: keeps a program's accesses to global memory in their order where different threads make them.
 *
 * A program's stores and loads happen one after the other, as written. A thread's own do anyway, so nothing is needed
 * as long as each thread reads what it wrote itself:
 *
 *     x = load(p + i); store(p + i, f(x))          one layout, every element held once: the same thread
 *
 * But when elements have several holders all of them load and the first one stores, and with another layout another
 * thread does:
 *
 *     n = load(count); store(count, n + 1)         128 threads load, one stores: a slow warp would read n + 1
 *     store(p + i, x); y = load(p + perm(i))       likewise
 *
 * Then the block meets at a barrier, which orders its accesses. Two arguments may be one array, so an access through
 * any pointer may meet one through any other; but in one layout that holds each element once, accesses stay with their
 * threads unless element i of the one may be element j of the other (tile/analysis/overlap.h). So do stores in one
 * layout, by their elected threads. And a launch knows of some arguments that nothing is accessed through both
 * (Func.apart), or that a program writes nothing through an argument twice (gpu/iterations_apart.c).
 *
 * This walks along with the lowering: `pending` are the accesses since the last barrier. A loop's body begins as if an
 * iteration had gone before; what follows a loop, as if it had not run. What a launch shows to lie apart (`apart`) does
 * not meet. Only the programs that a persistent kernel runs
 * one after the other are in no order.
 */
#include "gpu/disjoint.h"
#include "gpu/loop.h"
#include "gpu/lower/lower.h"
#include "tile/analysis/overlap.h"

typedef struct Access {
  const Value *pointer;
  bool reads, writes;
  const Layout *layout; /* NULL: a scalar */
  bool shared;          /* elements have several holders: all of them read, the first one writes */
  const Op *loop;       /* the access is of an earlier iteration of it, or NULL */
} Access;

typedef struct LowerMembar {
  const Provenance *provenance;
  VEC(Access) pending;
  LaneBlock *block; /* where all pending accesses have been made, to see barriers since: behind `last` of this block */
  LaneOp *last;     /* NULL: at its top */
} Membar;

/* ---- what an operation accesses ---------------------------------------------------------------------------------- */

static bool access_of(const Op *op, Access *a) {
  switch (op->code) {
    case OP_RING_COPY:
    case OP_LOAD: *a = (Access){.reads = true}; break;
    case OP_STORE: *a = (Access){.writes = true}; break;
    case OP_ATOMIC_RMW:
    case OP_ATOMIC_CAS: *a = (Access){.reads = true, .writes = true}; break;
    default: return false;
  }
  const Value *p = op->in[0];
  a->pointer = p;
  a->layout = p->type->rank ? p->layout : NULL;
  a->shared = !a->layout || layout_copies(a->layout);
  return true;
}

static bool is_atomic(const Access *a) { return a->reads && a->writes; }

static bool are_apart(const Membar *m, const Access *a, const Access *b) {
  int x = provenance_argument(m->provenance, a->pointer), y = provenance_argument(m->provenance, b->pointer);
  for (const ApartArgs *p = m->provenance->func->apart; p; p = p->next)
    if (x >= 0 && y >= 0 && ((p->x == x && p->y == y) || (p->x == y && p->y == x))) return true;
  return false;
}

/* Both through one argument, through which nothing is written twice. */
static bool write_once(const Membar *m, const Access *a, const Access *b) {
  const bool *once = m->provenance->func->written_once;
  int x = provenance_argument(m->provenance, a->pointer);
  return once && x >= 0 && once[x] && x == provenance_argument(m->provenance, b->pointer);
}

/* a came before b. */
static bool conflict(const Membar *m, const Access *a, const Access *b) {
  bool both_write = a->writes && b->writes; /* in one layout the same thread writes an element each time */
  if (!(a->writes || b->writes) || (is_atomic(a) && is_atomic(b)) || are_apart(m, a, b)) return false;
  if (both_write && write_once(m, a, b)) return false;
  if (a->writes != b->writes && !is_atomic(a) && !is_atomic(b) &&
      disjoint_is_required(m->provenance, (a->writes ? b : a)->pointer, (a->writes ? a : b)->pointer))
    return false;
  if (a->layout != b->layout || (a->shared && !both_write)) return true;
  return a->layout && overlap_crosswise(m->provenance, a->pointer, b->pointer, a->loop);
}

/* ---- what is pending --------------------------------------------------------------------------------------------- */

static Membar *membar_of(Lower *l) {
  if (l->membar) return l->membar;
  l->membar = NEW(l->cx->arena, Membar);
  l->membar->provenance = provenance_create(l->cx->arena, l->f);
  return l->membar;
}

static void add(Lower *l, Membar *m, const Access *a) {
  for (int i = 0; i < m->pending.n; i++) {
    const Access *p = &m->pending.at[i];
    if (p->pointer == a->pointer && p->reads == a->reads && p->writes == a->writes && p->layout == a->layout &&
        p->loop == a->loop)
      return;
  }
  vec_push(l->cx->arena, &m->pending, *a);
}

static bool meets(const Membar *m, const Access *a) {
  for (int i = 0; i < m->pending.n; i++)
    if (conflict(m, &m->pending.at[i], a)) return true;
  return false;
}

/* Whether the block has met since, for some other reason. */
static bool barrier_since(Lower *l, const Membar *m) {
  if (m->block != l->b.block) return false;
  for (const LaneOp *op = m->last ? m->last->next : m->block->first; op; op = op->next)
    if (op->code == LANE_BARRIER && (!op->warp || l->out->num_warps == 1)) return true;
  return false;
}

static void wait_for_all(Lower *l, Membar *m) {
  if (!barrier_since(l, m)) lane_barrier(&l->b, l->out->num_warps == 1);
  m->pending.n = 0;
}

void lower_membar_here(Lower *l) {
  Membar *m = membar_of(l);
  m->block = l->b.block;
  m->last = l->b.block->last;
}

void lower_membar(Lower *l, const Op *op) {
  Access a;
  if (l->divergent || !access_of(op, &a)) return;
  Membar *m = membar_of(l);
  if (meets(m, &a)) wait_for_all(l, m);
  add(l, m, &a);
  lower_membar_here(l);
}

void lower_membar_met(Lower *l) {
  if (l->membar) l->membar->pending.n = 0;
}

/* ---- loops and branches ------------------------------------------------------------------------------------------ */

typedef struct Scan {
  Lower *l;
  Membar *membar;
  const Op *loop;
  bool meets;
} Scan;

static void scan_meets(Op *op, void *arg) {
  Scan *s = arg;
  Access a;
  if (access_of(op, &a) && meets(s->membar, &a)) s->meets = true;
}

static void scan_add(Op *op, void *arg) {
  Scan *s = arg;
  Access a;
  if (!access_of(op, &a)) return;
  a.loop = s->loop;
  add(s->l, s->membar, &a);
}

LowerMembar *lower_membar_loop(Lower *l, const Op *loop) {
  Membar *m = membar_of(l);
  if (l->divergent) return lower_membar_branch(l, NULL);
  Scan s = {l, m, loop, false};
  for (int i = 0; i < 2; i++)
    if (loop->body[i]) tile_walk(loop->body[i], scan_meets, &s);
  if (s.meets) wait_for_all(l, m); /* once, not in every iteration */
  LowerMembar *before = lower_membar_branch(l, NULL);
  for (int i = 0; i < 2 && !loop_runs_programs(l->f, loop); i++)
    if (loop->body[i]) tile_walk(loop->body[i], scan_add, &s);
  return before;
}

/* Before a branch's first body, before its second, and after it: what is pending there is what either left. */
LowerMembar *lower_membar_branch(Lower *l, LowerMembar *before) {
  Membar *m = membar_of(l), *copy = NEW(l->cx->arena, Membar);
  copy->provenance = m->provenance;
  for (int i = 0; i < m->pending.n; i++) add(l, copy, &m->pending.at[i]);
  lower_membar_here(l);
  if (before) {
    m->pending.n = 0;
    for (int i = 0; i < before->pending.n; i++) add(l, m, &before->pending.at[i]);
  }
  return copy;
}

void lower_membar_join(Lower *l, const LowerMembar *other) {
  Membar *m = membar_of(l);
  for (int i = 0; i < other->pending.n; i++) add(l, m, &other->pending.at[i]);
  lower_membar_here(l);
}
