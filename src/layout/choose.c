/* A layout for every tensor.
 *
 * What has an opinion are the operations that meet memory (the widest, coalesced layout of each load and store), and
 * dot, which has one layout only. The rest takes what comes:
 *
 *   1. layout/constraints.c finds which values hang together, and which are cheap and stay out of it.
 *   2. dot's layouts propagate along the constraints, heaviest dot first (bytes x 10^depth of loops).
 *   3. Then accesses, heaviest first: each is propagated to what has no layout yet. Of the layouts that the accesses so
 * reached would like best the one is taken with which the whole costs least: where an access is better off in a layout
 * of its own and a conversion than in this one, it counts so.
 *   4. What is left (row maxima; tiles that are computed from nothing) gets the layout with which least is converted of
 * what it is reduced from and broadcast to, else a default.
 *   5. assign.c writes it down, and puts in copies and conversions.
 *
 * A row-wise softmax has one layout; a transpose has its load's or its store's, and one conversion; bf16 rows with f32
 * weights take 8 elements a thread, since two 16-byte loads of weights cost less than twice as many loads of rows.
 *
 * Each value is reached by a constant number of propagations before it has its layout, so the whole is linear.
 */
#include "layout/choose.h"
#include <stdlib.h>

static double tens(int depth) {
  double x = 1;
  for (int i = 0; i < depth && i < 5; i++) x *= 10;
  return x;
}

/* ---- propagation ------------------------------------------------------------------------------------------------- */

static void reach(Chooser *c, Value *v, const Layout *l) {
  if (!l || !is_tensor(v)) return;
  Node *n = &c->node[v->id];
  if (n->cheap || n->epoch == c->epoch) return;
  n->epoch = c->epoch;
  const Layout *settled = n->want ? n->want : n->sum && n->sum != l ? n->sum : NULL;
  if (settled) { /* by a heavier propagate, or a product */
    if (settled != l) c->cost += convert_layout_price(c, settled, l, v->type) * tens(n->depth);
    return;
  }
  n->trial = l;
  vec_push(c->cx->arena, &c->queue, v);
}

/* A thread's neighbours are scanned in a chain; what is left goes through all lanes, each time a shuffle, the body and
 * a selection for each word. */
static double scan_cost(const Op *op, const Layout *l, uint32_t axis, int lanes, int warps) {
  int near = 0, words = 0;
  uint32_t low = axis & -axis;
  while (near < l->reg_bits && low << near & axis && layout_find_register(l, low << near) >= 0) near++;
  for (int i = 0; i < op->in_count; i++) words += (type_elem_bytes(op->in[i]->type) + 3) / 4;
  int groups = layout_registers(l) >> near;
  return words * (2.0 * layout_registers(l) + 5.0 * lanes * groups + (warps ? 4.0 * groups : 0)) + (warps ? 30 : 0);
}

static double combine_cost(const Op *op, const Layout *l) { /* reduce, scan */
  uint32_t axis = layout_dim_mask(op->in[0]->type, (int)op->axis);
  int regs = 0, lanes = 0, warps = 0;
  for (int i = 0; i < layout_inputs(l); i++)
    if (l->basis[i] & axis) (*(i < l->reg_bits ? &regs : i < l->reg_bits + l->lane_bits ? &lanes : &warps))++;
  if (op->code == OP_SCAN) return scan_cost(op, l, axis, lanes, warps);
  int results = (layout_registers(l) >> regs) * op->in_count;
  return 2.0 * lanes * results + (warps ? 30 + 4.0 * results : 0);
}

/* What the operation costs when v, one of its values, has layout l. */
static void add_cost(Chooser *c, Op *op, const Value *v, const Layout *l) {
  Anchor *k = op->note;
  if (!k || k->epoch == c->epoch) return;
  double cost = 0;
  if (op_is_access(op)) {
    cost = access_cost(op->in[0], op_mask(op), l, !op_is_load(op));
    if (cost > k->best_cost) {
      double apart = k->best_cost + convert_layout_price(c, k->best, l,
                                                         op->code == OP_LOAD        ? op->out[0]->type
                                                         : op->code == OP_RING_COPY ? op->in[0]->type
                                                                                    : op->in[1]->type);
      if (apart < cost) cost = apart;
    }
  } else if (op->code == OP_REDUCE || op->code == OP_SCAN || op->code == OP_SORT || op->code == OP_MAP) {
    if (v->def == op && op->code == OP_REDUCE) return; /* a result says nothing of the operand */
    if (op->code == OP_REDUCE || op->code == OP_SCAN) cost = combine_cost(op, l);
    if (!layout_suits(op, l)) cost += 60 + 4.0 * layout_registers(l);
  } else if (op->code != OP_DOT && op->code != OP_TMEM_LOAD) {
    bool is_result = v->def == op;
    if (!(is_result ? layout_backward(c->cx, op, 0, l) : layout_forward(c->cx, op, 0, l)))
      cost = 60 + 4.0 * layout_registers(l);
  }
  k->epoch = c->epoch;
  c->cost += cost * tens(k->depth);
}

enum { MOST_CANDIDATES = 8 };
/* what its cost is multiplied by, where not 1 */
typedef struct Candidate {
  Value *seed;
  const Layout *layout;
  double handicap;
} Candidate;
typedef struct Candidates {
  int n;
  Candidate at[MOST_CANDIDATES];
} Candidates;

static void offer(Candidates *list, Value *v, const Layout *l) {
  if (!list || list->n == MOST_CANDIDATES) return;
  for (int i = 0; i < list->n; i++)
    if (list->at[i].layout == l) return; /* here, or as it is held elsewhere */
  list->at[list->n++] = (Candidate){v, l, 1};
}

/* Where v, held as `has`, meets something that is settled and that has, or wants, `wants`. */
static void meet(Chooser *c, Candidates *list, Value *v, const Layout *has, const Layout *wants, int depth) {
  if (has == wants) return;
  c->cost += convert_layout_price(c, has, wants, v->type) * tens(depth);
  offer(list, v, wants);
}

static const Layout *settled(const Chooser *c, const Value *v) {
  return is_tensor(v) ? c->node[v->id].want : NULL;
} /* NULL of cheap ones */

static const Layout *settled_operand(const Chooser *c, const Op *reduce) {
  for (int i = 0; i < reduce->in_count; i++)
    if (settled(c, reduce->in[i])) return settled(c, reduce->in[i]);
  return NULL;
}

static const Layout *reduced(Chooser *c, const Op *op, const Layout *l) {
  return l ? layout_reduced(c->cx, op->in[0]->type, l, (int)op->axis) : NULL;
}

/* Reductions and broadcasts from and to values that are settled. */
static void meet_neighbours(Chooser *c, Candidates *list, Value *v, const Layout *l) {
  const Node *n = &c->node[v->id];
  const Layout *other;
  if (v->def && v->def->code == OP_REDUCE && (other = settled_operand(c, v->def))) {
    const Layout *left = reduced(c, v->def, other);
    c->cost += convert_layout_price(c, left, l, v->type) * tens(n->depth);
    offer(list, v, layout_slice(c->cx, v->def->in[0]->type, other, (int)v->def->axis));
    int count = list ? list->n : 0;
    offer(list, v, left); /* where the choice is close, what is broadcast again is better off in the slice */
    if (list && list->n > count) list->at[count].handicap = 1.25;
  }
  if (v->def && v->def->code == OP_BROADCAST && (other = settled(c, v->def->in[0])))
    meet(c, NULL, v->def->in[0], other, layout_backward(c->cx, v->def, 0, l), n->depth);
  for (int i = 0; i < n->use_count; i++) {
    Op *op = c->uses[n->first_use + i].op;
    if (op->code == OP_REDUCE && (other = settled(c, op->out[0])))
      meet(c, NULL, op->out[0], reduced(c, op, l), other, c->node[op->out[0]->id].depth);
    if (op->code == OP_BROADCAST && (other = settled(c, op->out[0])))
      meet(c, list, v, l, layout_backward(c->cx, op, 0, other), c->node[op->out[0]->id].depth);
  }
}

/* Floods from v; the values reached are in c->queue, their layouts in Node.trial. Returns the cost; adds to `list` what
 * settled neighbours would like better. */
static double propagate(Chooser *c, Value *v, const Layout *l, Candidates *list) {
  c->epoch++;
  c->cost = 0;
  c->queue.n = 0;
  reach(c, v, l);
  for (int i = 0; i < c->queue.n; i++) {
    Value *x = c->queue.at[i];
    const Layout *at = c->node[x->id].trial;
    if (x->def) add_cost(c, x->def, x, at);
    for (int k = 0; k < c->node[x->id].use_count; k++) add_cost(c, c->uses[c->node[x->id].first_use + k].op, x, at);
    meet_neighbours(c, list, x, at);
    constraints_each(c, x, at, reach);
  }
  return c->cost;
}

static void commit(Chooser *c, Value *v, const Layout *l) {
  propagate(c, v, l, NULL);
  for (int i = 0; i < c->queue.n; i++) c->node[c->queue.at[i]->id].want = c->node[c->queue.at[i]->id].trial;
}

/* Takes the candidate with the least cost, of those that propagate back to the first one's seed (others are of other
 * matters). `least` is the first one's cost. */
static void commit_best(Chooser *c, const Candidates *list, double least) {
  int best = 0;
  for (int i = 1; i < list->n; i++) {
    double cost = propagate(c, list->at[i].seed, list->at[i].layout, NULL) * list->at[i].handicap;
    if (c->node[list->at[0].seed->id].epoch == c->epoch && cost < least) least = cost, best = i;
  }
  commit(c, list->at[best].seed, list->at[best].layout);
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

static bool is_own_copy(const Op *op) { return op->code == OP_RING_COPY && op->in[1]->def->own; }

/* The value whose layout is the access's own; NULL when all its tensors are cheap. */
static Value *seed_of(Chooser *c, const Op *op) {
  if (is_own_copy(op)) return layout_ring_user(c->f, op->in[1], OP_RING_LOAD)->out[0];
  if (op->code == OP_LOAD) return op->out[0];
  if (op->code == OP_RING_COPY) return c->node[op->in[0]->id].cheap ? NULL : op->in[0];
  static const int order[] = {1, 0, 2};
  for (int i = 0; i < 3; i++)
    if (order[i] < op->in_count && !c->node[op->in[order[i]]->id].cheap) return op->in[order[i]];
  return op->out_count ? op->out[0] : NULL;
}

static void offer_best(Chooser *c, Candidates *list, const Op *op, Value *v, int64_t numel) {
  const Anchor *k = op->note;
  if (k && op_is_access(op) && k->best != c->node[v->id].trial && type_numel(v->type) == numel) offer(list, v, k->best);
}

static void settle(Chooser *c, const Anchor *k) {
  Value *seed = seed_of(c, k->op);
  if (!seed || !is_tensor(seed) || c->node[seed->id].want) return;
  if (is_own_copy(k->op)) {
    commit(c, seed, k->best);
    return;
  }
  Candidates list = {1, {{seed, k->best, 1}}};
  if (seed->type->rank > 1)
    offer(&list, seed, access_layout_with(c->cx, k->op->in[0], op_mask(k->op), c->num_warps, 16, true));
  double least = propagate(c, seed, k->best, &list);
  int64_t numel = type_numel(seed->type);
  for (int i = 0; i < c->queue.n && list.n < MOST_CANDIDATES; i++) {
    Value *v = c->queue.at[i];
    const Node *node = &c->node[v->id];
    if (v->def) offer_best(c, &list, v->def, v, numel);
    for (int u = 0; u < node->use_count; u++) offer_best(c, &list, c->uses[node->first_use + u].op, v, numel);
  }
  commit_best(c, &list, least);
}

/* It has one layout only. */
static bool is_product(const Op *op) { return op->code == OP_DOT || op->code == OP_TMEM_LOAD; }

static int heavier(const void *a, const void *b) {
  const Anchor *x = *(Anchor *const *)a, *y = *(Anchor *const *)b;
  if (is_product(x->op) != is_product(y->op)) return is_product(x->op) ? -1 : 1;
  return x->weight > y->weight ? -1 : x->weight < y->weight ? 1 : x->number - y->number;
}

/* ---- what is left ------------------------------------------------------------------------------------------------ */

static bool is_open(const Chooser *c, const Value *v) {
  return is_tensor(v) && !c->node[v->id].cheap && !c->node[v->id].want;
}

/* What a settled neighbour would have v in; NULL when there is none. */
static const Layout *suggestion(Chooser *c, Value *v) {
  Candidates list = {0};
  meet_neighbours(c, &list, v, NULL);
  return list.n ? list.at[0].layout : NULL;
}

/* The other way through reduce and broadcast: there are many, and this is one in which little moves. */
static const Layout *widened(Chooser *c, Value *v) {
  const Node *n = &c->node[v->id];
  const Layout *l;
  for (int i = 0; i < n->use_count; i++) {
    const Op *op = c->uses[n->first_use + i].op;
    if (op->code == OP_REDUCE && (l = settled(c, op->out[0]))) return layout_widened(c->cx, v->type, l, (int)op->axis);
  }
  if (!v->def || v->def->code != OP_BROADCAST || !(l = settled(c, v->def->in[0]))) return NULL;
  Type t = *v->def->in[0]->type;
  for (int d = 0; d < t.rank; d++)
    if (t.shape[d] != v->type->shape[d]) {
      t.shape[d] = v->type->shape[d];
      l = layout_widened(c->cx, &t, l, d);
    }
  return l;
}

static void settle_value(Chooser *c, Value *v, int stage) {
  if (!is_open(c, v)) return;
  const Layout *l = suggestion(c, v);
  if (!l && stage >= 1) l = widened(c, v);
  if (!l && stage >= 2) l = layout_default(c->cx, v->type, c->num_warps);
  if (!l) return;
  Candidates list = {1, {{v, l, 1}}};
  commit_best(c, &list, propagate(c, v, l, &list));
}

static void settle_rest(Chooser *c, const Block *b, int stage) {
  stack_guard();
  for (int i = 0; i < b->arg_count; i++) settle_value(c, b->args[i], stage);
  for (Op *op = b->first; op; op = op->next) {
    for (int i = 0; i < op->out_count; i++) settle_value(c, op->out[i], stage);
    if (op->code == OP_FOR || op->code == OP_WHILE || op->code == OP_IF)
      for (int i = 0; i < 2; i++)
        if (op->body[i]) settle_rest(c, op->body[i], stage);
  }
}

static void commit_operand(Chooser *c, const Op *dot, int k) {
  Value *v = dot->in[k];
  const Layout *l = is_open(c, v) ? layout_for_operand(c, dot, k) : NULL;
  if (!l) return;
  commit(c, v, l);
  for (int i = 0; i < c->queue.n; i++) { /* loads stay wide, and what loops carry of them: it is turned at its use */
    const Op *load = layout_load_of(c->queue.at[i]);
    const Anchor *anchor = load ? load->note : NULL;
    if (anchor) c->node[c->queue.at[i]->id].want = anchor->best;
  }
}

/* Products whose accumulators want different layouts may hang together: each keeps its own. */
static void claim(Chooser *c, Value *v, const Layout *l) {
  stack_guard();
  if (!is_tensor(v)) return;
  Node *n = &c->node[v->id];
  if (n->cheap || n->sum) return;
  n->sum = l;
  constraints_each_sum(c, v, l, claim);
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static void check_op(Op *op, void *arg) {
  const Func *f = arg;
  for (int i = 0; i < op->out_count; i++) {
    const Type *t = op->out[i]->type;
    for (int d = 0; d < t->rank; d++)
      if (t->shape[d] & (t->shape[d] - 1))
        diag_fail_hint(f->cx, op->span ? *op->span : (Span){0}, "round it up and mask what is too much",
                       "dim %d of a tensor is %d; a GPU's tensors have dims that are powers of 2", d, t->shape[d]);
  }
}

/* A row's warps matter where rows are reduced, and to products that follow one another. */
static bool wants_rows(const Chooser *c) {
  int products = 0;
  for (int i = 0; i < c->anchors.n; i++) {
    const Op *op = c->anchors.at[i]->op;
    if (op->code == OP_REDUCE || op->code == OP_SCAN || op->code == OP_SORT || (op->code == OP_DOT && products++))
      return true;
  }
  return false;
}

void layout_choose(Func *f, int warps, DotUnit unit) {
  if (warps < 1 || warps > 32 || (warps & (warps - 1)))
    diag_fail(f->cx, (Span){0}, "`num_warps` must be a power of 2 from 1 to 32, but it is %d", warps);
  tile_replace_uses(f);
  tile_walk(f->body, check_op, f);
  Chooser c = {.cx = f->cx, .f = f, .num_warps = warps, .unit = unit};
  c.prices = NEW_N(f->cx->arena, Price, PRICES);
  constraints_build(&c);
  c.rows_first = wants_rows(&c);
  Anchor **order = NEW_N(f->cx->arena, Anchor *, c.anchors.n + 1);
  for (int i = 0; i < c.anchors.n; i++) order[i] = c.anchors.at[i], order[i]->number = i;
  if (c.anchors.n) qsort(order, (size_t)c.anchors.n, sizeof *order, heavier);
  for (int i = 0; i < c.anchors.n; i++)
    if (order[i]->op->code == OP_DOT) claim(&c, order[i]->op->out[0], layout_for_dot(&c, order[i]->op));
  for (int i = 0; i < c.anchors.n; i++) {
    Op *op = order[i]->op;
    if (is_product(op)) {
      const Layout *own = op->code == OP_DOT ? layout_for_dot(&c, op) : layout_for_tmem(f->cx, op->out[0]->type, warps);
      if (!c.node[op->out[0]->id].want) commit(&c, op->out[0], own);
      for (int k = 0; k < 2 && op->code == OP_DOT; k++) commit_operand(&c, op, k);
    } else if (op_is_access(op)) settle(&c, order[i]);
  }
  for (int stage = 0; stage < 3; stage++) settle_rest(&c, f->body, stage);
  assign_layouts(&c);
  tile_dce(f);
}
