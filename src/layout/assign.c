/* Writes the choice of layouts into the IR.
 *
 * One walk in program order. Each operation is given its results' layouts (the choice, unless the operation cannot make
 * them so), and from these follow those it wants its operands in. An operand that is held otherwise is
 *
 *     cheap:  made again, right after the first making; its operands, cheap too, in the layouts that this needs
 *     else:   converted, once, in the block in which it is defined, before whatever there uses it first
 *
 * so a conversion of what a loop does not change stands before the loop, and nothing is made or converted twice.
 */
#include "layout/choose.h"

/* ---- prices ------------------------------------------------------------------------------------------------------ */

int convert_layout_price(Chooser *c, const Layout *from, const Layout *to, const Type *t) {
  if (from == to || !from || !to) return 0;
  int bytes = type_elem_bytes(t), squares = squares_of_type(c->f->squares, t);
  Price *p = &c->prices[((uintptr_t)from / 16 * 31 + (uintptr_t)to / 16 * 7 + (uintptr_t)(bytes + squares)) % PRICES];
  if (p->from != from || p->to != to || p->bytes != bytes || p->squares != squares)
    *p = (Price){from, to, bytes, squares, convert_cost(convert_plan(c->cx, from, to, bytes, squares), bytes)};
  return p->cost;
}

/* ---- a value in a layout ----------------------------------------------------------------------------------------- */

static Held *find_held(const Node *n, const Layout *l) {
  Held *h = n->held;
  while (h && h->layout != l) h = h->next;
  return h;
}

static void hold(Chooser *c, Node *n, Value *v, const Layout *l) {
  Held *h = NEW(c->cx->arena, Held);
  *h = (Held){l, v, n->held};
  n->held = h;
  v->layout = l;
}

static Value *made_in(Chooser *c, Value *v, const Layout *l);
static Value *held_in(Chooser *c, Value *v, const Layout *l, Op *op);
static bool is_node(const Chooser *c, const Value *v);
static Op *ancestor_in(Op *op, const Block *block);

/* Operand k of a cheap operation whose result is to have layout l. Where it is no cheap value, it is converted before
 * `op`, or earlier: who asked for that first may stand behind. */
static Value *cheap_operand(Chooser *c, Op *op, int k, Value *x, const Layout *l) {
  if (!is_tensor(x)) return x;
  const Layout *of = layout_backward(c->cx, op, k, l);
  if (!is_node(c, x)) return made_in(c, x, of);
  Value *held = held_in(c, x, of, op);
  Op *place = ancestor_in(op, value_block(x));
  for (Op *later = place; later && held != x; later = later->next)
    if (later == held->def) {
      op_move_before(later, place);
      break;
    }
  return held;
}

/* A cheap value in layout l. Its depth of recursion is bounded by the work that a cheap value may be, but for
 * operations that are no work; chains of those are short, since folding merges them. */
static Value *made_in(Chooser *c, Value *v, const Layout *l) {
  stack_guard();
  Node *n = &c->node[v->id];
  Held *h = find_held(n, l);
  if (h) return h->value;
  Op *op = v->def;
  if (!v->layout) {
    n->operands = op->in_count ? arena_copy(c->cx->arena, op->in, sizeof *op->in * (size_t)op->in_count) : NULL;
    for (int i = 0; i < op->in_count; i++) op->in[i] = cheap_operand(c, op, i, n->operands[i], l);
    hold(c, n, v, l);
    return v;
  }
  Builder b = {.func = c->f, .block = op->block, .before = op->next, .span = op->span};
  Op *copy = op_clone(&b, op, c->cloned);
  for (int i = 0; i < op->in_count; i++) copy->in[i] = cheap_operand(c, op, i, n->operands[i], l);
  copy->out[0]->axis = v->axis;
  hold(c, n, copy->out[0], l);
  return copy->out[0];
}

/* The operation in `block` that op is or lies in. */
static Op *ancestor_in(Op *op, const Block *block) {
  while (op->block != block) op = op->block->parent;
  return op;
}

/* v in layout l, for op to use. */
static Value *held_in(Chooser *c, Value *v, const Layout *l, Op *op) {
  if (!is_tensor(v) || v->id >= c->node_count) return v;
  Node *n = &c->node[v->id];
  if (n->cheap) return made_in(c, v, l);
  if (v->layout == l) return v;
  Held *h = find_held(n, l);
  if (h) return h->value;
  Block *block = v->def ? v->def->block : v->block;
  Op *place = ancestor_in(op, block);
  Builder b = {.func = c->f, .block = block, .before = place, .span = op->span};
  Value *moved = build_op(&b, OP_CONVERT_LAYOUT, 1, &v, 1, &v->type)->out[0];
  moved->axis = v->axis;
  moved->name = v->name;
  hold(c, n, moved, l);
  return moved;
}

/* ---- operation by operation -------------------------------------------------------------------------------------- */

static bool is_node(const Chooser *c, const Value *v) {
  return is_tensor(v) && v->id < c->node_count && !c->node[v->id].cheap;
}

static const Layout *wanted(Chooser *c, const Value *v) {
  return !is_tensor(v)         ? NULL
         : c->node[v->id].want ? c->node[v->id].want
                               : layout_default(c->cx, v->type, c->num_warps);
}

static void take(Chooser *c, Op *op, int i, const Layout *l) { op->in[i] = held_in(c, op->in[i], l, op); }

static void take_all(Chooser *c, Op *op, const Layout *l) {
  for (int i = 0; i < op->in_count; i++) take(c, op, i, l);
}

static void give_all(Op *op, const Layout *l) {
  for (int i = 0; i < op->out_count; i++)
    if (is_tensor(op->out[i])) op->out[i]->layout = l;
}

/* The layout of the first operand that has one (of the shape of `like`, unless NULL). */
static const Layout *first_held(const Chooser *c, const Op *op, const Type *like) {
  for (int i = 0; i < op->in_count; i++)
    if (is_node(c, op->in[i]) && (!like || type_same_shape(op->in[i]->type, like))) return op->in[i]->layout;
  return NULL;
}

/* Threads read what they have copied: in one layout, of at most the bytes that gpu/async_loads.c counts on. */
static const Layout *own_layout(Chooser *c, const Op *ring) {
  const Op *copy = layout_ring_user(c->f, ring->out[0], OP_RING_COPY);
  const Value *tile = layout_ring_user(c->f, ring->out[0], OP_RING_LOAD)->out[0], *ptr = copy->in[0],
              *mask = op_mask(copy);
  const Layout *want = wanted(c, tile), *best = access_layout(c->cx, ptr, mask, c->num_warps);
  int64_t bytes = type_elem_bytes(tile->type), threads = 32 * c->num_warps;
  int dim;
  if (want == best || !access_may_copy(copy, want, &dim) ||
      layout_registers(want) * threads * bytes > layout_own_bytes(tile->type, c->num_warps))
    return best;
  double apart = access_cost(ptr, mask, best, false) + convert_layout_price(c, best, want, tile->type);
  return access_cost(ptr, mask, want, false) <= apart ? want : best;
}

static void assign_memory(Chooser *c, Op *op) {
  const Anchor *k = op->note;
  if (!k) return; /* of scalars */
  if (op->code == OP_RING_COPY && op->in[1]->def->own) {
    take_all(c, op, own_layout(c, op->in[1]->def));
    return;
  }
  const Value *mask = op_mask(op);
  const Layout *options[6] = {0}, *best = NULL;
  int n = 0, dim;
  double least = 0;
  if (op->out_count) options[n++] = wanted(c, op->out[0]);
  for (int i = 0; i < op->in_count; i++)
    if (is_node(c, op->in[i])) options[n++] = op->in[i]->layout;
  options[n++] = k->best;
  for (int o = 0; o < n; o++) {
    if (op->code == OP_RING_COPY && !access_may_copy(op, options[o], &dim)) continue; /* the best one may: k->best */
    double cost = access_cost(op->in[0], mask, options[o], !op_is_load(op));
    for (int i = 0; i < op->in_count; i++)
      if (is_node(c, op->in[i])) cost += convert_layout_price(c, op->in[i]->layout, options[o], op->in[i]->type);
    if (op->out_count) cost += convert_layout_price(c, options[o], wanted(c, op->out[0]), op->out[0]->type);
    if (!best || cost < least) least = cost, best = options[o];
  }
  take_all(c, op, best);
  give_all(op, best);
}

/* Where several operands come in one layout and the result is wanted in another, convert the result. */
static const Layout *agreed(Chooser *c, const Op *op, const Layout *want) {
  const Layout *common = NULL;
  const Value *first = NULL;
  bool several = false;
  int64_t narrowest = 8;
  for (int i = 0; i < op->in_count; i++) {
    const Value *x = op->in[i];
    if (!is_node(c, x)) continue;
    if (x->layout == want || find_held(&c->node[x->id], want) || (common && common != x->layout)) return want;
    common = x->layout;
    several |= first && first != x;
    first = x;
    if (type_elem_bytes(x->type) < narrowest) narrowest = type_elem_bytes(x->type);
  }
  if (!common || op->out_count != 1) return want;
  return several || type_elem_bytes(op->out[0]->type) < narrowest ? common : want;
}

static void assign_elementwise(Chooser *c, Op *op) {
  const Layout *want = op->out_count ? wanted(c, op->out[0]) : NULL;
  if (!want) want = first_held(c, op, NULL);
  if (!want) /* asserts of what is cheap */
    for (int i = 0; i < op->in_count && !want; i++) want = wanted(c, op->in[i]);
  if (!want) return;
  if (op_is_elementwise(op)) want = agreed(c, op, want);
  if (op->code == OP_SCAN || op->code == OP_SORT || op->code == OP_MAP) want = layout_suitable(c, op, want);
  take_all(c, op, want);
  give_all(op, want);
}

/* Operations that rename elements. Where the result cannot have the layout wanted, it has what becomes of the
 * operand's. */
static void assign_shape(Chooser *c, Op *op) {
  const Layout *want = wanted(c, op->out[0]);
  if (!want) { /* split of [2], reshape of [1] */
    want = first_held(c, op, NULL);
    if (op->code == OP_SPLIT) want = layout_suitable(c, op, want);
    else if (!want) want = layout_default(c->cx, op->in[0]->type, c->num_warps);
    if (is_tensor(op->in[0])) take_all(c, op, want);
    return;
  }
  if (!is_tensor(op->in[0])) { /* splat, and what else may begin with a scalar */
    give_all(op, want);
    return;
  }
  const Layout *from = layout_backward(c->cx, op, 0, want);
  if (!from) {
    from = first_held(c, op, NULL);
    if (!from) from = layout_default(c->cx, op->in[0]->type, c->num_warps);
    want = layout_forward(c->cx, op, 0, from);
  }
  take_all(c, op, from);
  give_all(op, want);
}

static void assign_reduce(Chooser *c, Op *op) {
  const Layout *l = first_held(c, op, NULL);
  int axis = (int)op->axis;
  if (!l && is_tensor(op->out[0])) l = layout_widened(c->cx, op->in[0]->type, wanted(c, op->out[0]), axis);
  l = layout_suitable(c, op, l);
  take_all(c, op, l);
  if (!is_tensor(op->out[0])) return;
  const Layout *want = c->node[op->out[0]->id].want;
  give_all(op, want ? want : layout_slice(c->cx, op->in[0]->type, l, axis));
}

/* An operand that may be held in any way. */
static void take_any(Chooser *c, Op *op, int i) {
  Value *x = op->in[i];
  if (is_tensor(x) && !is_node(c, x)) take(c, op, i, layout_default(c->cx, x->type, c->num_warps));
}

static void assign_print(Chooser *c, Op *op) {
  Value **in = arena_copy(c->cx->arena, op->in, sizeof *op->in * (size_t)op->in_count);
  for (int i = 0; i < op->in_count; i++) {
    if (!is_tensor(in[i])) continue;
    const Layout *l = NULL;
    for (int k = 0; k < op->in_count && !l; k++)
      if (is_node(c, in[k]) && type_same_shape(in[k]->type, in[i]->type)) l = in[k]->layout;
    take(c, op, i, l ? l : layout_default(c->cx, in[i]->type, c->num_warps));
  }
}

static void assign_control(Chooser *c, Op *op) {
  int skip = control_skip(op);
  for (int i = 0; i < op->out_count; i++) {
    if (!is_tensor(op->out[i])) continue;
    const Layout *l = op->out[i]->layout = wanted(c, op->out[i]);
    if (op->code == OP_IF) continue;
    take(c, op, i + skip, l);
    for (int b = 0; b < op_info[op->code].regions; b++) op->body[b]->args[i + (op->code == OP_FOR)]->layout = l;
  }
}

static void assign_end(Chooser *c, Op *op) {
  int skip = op->code == OP_CONDITION;
  for (int i = skip; i < op->in_count; i++)
    if (is_tensor(op->in[i])) take(c, op, i, op->block->parent->out[i - skip]->layout);
}

static void assign_op(Chooser *c, Op *op) {
  switch (op->code) {
    case OP_RING_COPY:
    case OP_LOAD:
    case OP_STORE:
    case OP_ATOMIC_RMW:
    case OP_ATOMIC_CAS: assign_memory(c, op); return;
    case OP_CONST:
    case OP_ARANGE:
    case OP_SPLAT:
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_RESHAPE:
    case OP_TRANS:
    case OP_JOIN:
    case OP_SPLIT:
    case OP_CAT: assign_shape(c, op); return;
    case OP_REDUCE:
      if (is_tensor(op->in[0])) assign_reduce(c, op);
      return;
    case OP_DOT: {
      const Layout *l = layout_for_dot(c, op);
      take_any(c, op, 0), take_any(c, op, 1);
      take(c, op, 2, l);
      give_all(op, l);
      return;
    }
    case OP_TMEM_DOT: take_any(c, op, 0), take_any(c, op, 1); return;
    case OP_TMEM_STORE: take(c, op, 1, layout_for_tmem(c->cx, op->in[1]->type, c->num_warps)); return;
    case OP_TMEM_LOAD: give_all(op, layout_for_tmem(c->cx, op->out[0]->type, c->num_warps)); return;
    case OP_GATHER:
      take_any(c, op, 0);
      take(c, op, 1, wanted(c, op->out[0]));
      give_all(op, wanted(c, op->out[0]));
      return;
    case OP_RING_READ: give_all(op, wanted(c, op->out[0])); return;
    case OP_RING_LOAD:
      give_all(op, op->in[0]->def->own ? own_layout(c, op->in[0]->def) : wanted(c, op->out[0]));
      return;
    case OP_HISTOGRAM: {
      const Layout *l = first_held(c, op, NULL);
      take_all(c, op, l ? l : layout_default(c->cx, op->in[0]->type, c->num_warps));
      give_all(op, wanted(c, op->out[0]));
      return;
    }
    case OP_PRINT: assign_print(c, op); return;
    case OP_FOR:
    case OP_WHILE:
    case OP_IF: assign_control(c, op); return;
    case OP_YIELD:
    case OP_CONDITION: assign_end(c, op); return;
    case OP_ASSUME: take_any(c, op, 0); return;
    default: assign_elementwise(c, op);
  }
}

static void assign_block(Chooser *c, Block *b) {
  stack_guard();
  for (Op *op = b->first, *next; op; op = next) {
    next = op->next;
    bool cheap = op->out_count == 1 && is_tensor(op->out[0]) &&
                 (op->out[0]->id >= c->node_count || c->node[op->out[0]->id].cheap);
    if (cheap) continue; /* made when somebody wants it */
    assign_op(c, op);
    if (op->code != OP_FOR && op->code != OP_WHILE && op->code != OP_IF) continue;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) assign_block(c, op->body[i]);
  }
}

void assign_layouts(Chooser *c) {
  c->cloned = map_create(c->cx->arena, false);
  assign_block(c, c->f->body);
}
