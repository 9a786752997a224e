/* plan_verify: whether a plan keeps the rule of memory.h, read off the plan alone.
 *
 * Each block's plan is a list of items. An access runs where an item runs it: a nest its loads (found as the emitter
 * finds them) and its stores, an operation itself, a loop or branch all that its bodies run. For two accesses that come
 * from different operations of the block, one of which writes:
 *
 *     the first of the program runs in an earlier item             good
 *     both in one nest, in which they may stand                    good
 *     else, when both may go to one array                          an error of the planner
 *     else                                                         good for arguments that do not overlap
 *
 * The last are noted (`e->apart`): the launch has to find out whether they do.
 */
#include "cpu/memory.h"

typedef struct Run {
  Access at;
  const Op *home; /* the block's own operation that it is or lies in; NULL: it comes from outside */
  int order;      /* of home in the block */
  int item;
  const Group *group; /* NULL: an operation */
} Run;
typedef VEC(Run) Runs;

typedef struct Check {
  Emit *e;
  const Block *block;
  const Map *order; /* operation of the block -> its number */
  Runs runs;
} Check;

static void note_run(Check *c, const Access *a, int item, const Group *g) {
  const Op *home = a->op;
  while (home && home->block != c->block) home = home->block->parent;
  Run r = {.at = *a, .home = home, .item = item, .group = g};
  if (home) r.order = (int)(intptr_t)map_get(c->order, home);
  vec_push(c->e->arena, &c->runs, r);
}

static void note_group(Check *c, const Group *g, int item, bool own) {
  Accesses loads = group_loads(c->e, g);
  for (int i = 0; i < loads.n; i++) note_run(c, &loads.at[i], item, own ? g : NULL);
  for (int i = 0; i < g->roots.n; i++) {
    Access write = root_access(g->roots.at[i]);
    if (root_writes(g->roots.at[i])) note_run(c, &write, item, own ? g : NULL);
  }
}

/* What the items of a body run counts as run by the item of the loop or branch. */
static void note_plan(Check *c, const Block *b, int item) {
  stack_guard();
  Plan *p = map_get(c->e->plans, b);
  for (int i = 0; p && i < p->n; i++) {
    int at = item < 0 ? i : item;
    Op *op = p->at[i].op;
    if (p->at[i].group) note_group(c, p->at[i].group, at, item < 0);
    else if (op && op_is_access(op)) note_run(c, &(Access){.op = op}, at, NULL);
    for (int r = 0; op && r < 2; r++)
      if (op_info[op->code].effect == EFFECT_CONTROL && op->body[r]) note_plan(c, op->body[r], at);
  }
}

static void note_pair(Emit *e, int p, int q, bool or_same) {
  for (int i = 0; i < e->apart.n; i++) {
    ArgPair *known = &e->apart.at[i];
    if (!((known->a == p && known->b == q) || (known->a == q && known->b == p))) continue;
    known->or_same &= or_same;
    return;
  }
  vec_push(e->arena, &e->apart, (ArgPair){p, q, or_same});
}

static void note_apart(Emit *e, const Op *a, const Op *b, bool or_same) {
  int n = e->f->body->arg_count;
  for (int p = 0; p < n; p++)
    for (int q = 0; q < n; q++)
      if (provenance_may_be(e->provenance, a->in[0], p) && provenance_may_be(e->provenance, b->in[0], q))
        note_pair(e, p, q, or_same);
}

void plan_relies_apart(Emit *e, const Op *a, const Op *b) { note_apart(e, a, b, false); }

static void check_order(Check *c, const Run *first, const Run *second) {
  Emit *e = c->e;
  if (first->item < second->item) return;
  bool one_nest = first->item == second->item && first->group;
  int rank = one_nest ? first->group->rank : 0;
  const int32_t *shape = one_nest ? first->group->shape : NULL;
  if (!memory_conflict(e, first->at.op, second->at.op))
    note_apart(e, first->at.op, second->at.op,
               one_nest && memory_may_share_if_same(e, &first->at, &second->at, rank, shape));
  else if (!one_nest || !memory_may_share(e, &first->at, &second->at, rank, shape))
    diag_fail_hint(e->cx, second->at.op->span ? *second->at.op->span : (Span){0},
                   "this is a fault of Nereid, not of the kernel: please report it",
                   "internal error in the CPU back end: %s and %s of one array would run in the wrong order",
                   op_info[first->at.op->code].name, op_info[second->at.op->code].name);
}

static void verify_block(Emit *e, const Block *b) {
  Map *order = map_create(e->arena, false);
  intptr_t number = 0;
  for (Op *op = b->first; op; op = op->next) map_put(order, op, (void *)++number);
  Check c = {.e = e, .block = b, .order = order};
  note_plan(&c, b, -1);
  for (int i = 0; i < c.runs.n; i++) {
    const Run *w = &c.runs.at[i];
    if (!w->home || !memory_writes(w->at.op)) continue;
    for (int k = 0; k < c.runs.n; k++) {
      const Run *x = &c.runs.at[k];
      if (!x->home || x->home == w->home || (k < i && memory_writes(x->at.op))) continue;
      if (x->order < w->order) check_order(&c, x, w);
      else check_order(&c, w, x);
    }
  }
}

void plan_verify(Emit *e) {
  for (int i = 0; i < map_count(e->plans); i++) {
    const void *block;
    void *plan;
    map_entry(e->plans, i, &block, &plan);
    verify_block(e, block);
  }
}
