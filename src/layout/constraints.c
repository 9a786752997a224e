/* Which values want the same layout.
 *
 * Values are linked through operations: the operands and results of an addition should be held alike, so should a
 * loop's carried value in all its places; what trans makes of a value should be held as trans makes of its layout. A
 * layout given to one value propagates along the constraints to all that hang together. Not joined are the operand and
 * result of reduce and of broadcast: there the smaller one has the slice of the larger one's layout, or is converted
 * (choose.c weighs that).
 *
 * Not joined, but left out of all propagation, are cheap values: index arithmetic, masks, constants. They are made in
 * whatever layout is asked for, in several if need be (assign.c).
 */
#include "layout/choose.h"

/* ---- cheap values ------------------------------------------------------------------------------------------------ */

enum { MOST_WORK = 64 }; /* instructions an element; a conversion through shared memory takes about so long */

static float own_work(const Op *op) {
  const Type *t = op->out[0]->type;
  int wide = t->ptr || dtype_bits(t->dtype) == 64 ? 2 : 1;
  int64_t c;
  switch (op->code) {
    case OP_CONST:
    case OP_SPLAT: return 0;
    /* so that chains of them end */
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_RESHAPE:
    case OP_TRANS:
    case OP_HINT: return 0.05f;
    case OP_DIV:
    case OP_REM:
      if (dtype_is_float(t->dtype)) return 10;
      if (value_is_const(op->in[1], &c)) return (float)(((uint64_t)c & ((uint64_t)c - 1)) ? 6 * wide : 2 * wide);
      return (float)(20 * wide);
    case OP_MATH: return 20;
    default: return (float)wide;
  }
}

static bool may_be_cheap(const Op *op) {
  switch (op->code) {
    case OP_CONST:
    case OP_ARANGE:
    case OP_SPLAT:
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_RESHAPE:
    case OP_TRANS:
    case OP_HINT: return true;
    default: return op_is_elementwise(op);
  }
}

/* Of a row of indices, addresses or conditions that a kernel computes, loads included: what is broadcast of it is made
 * anew from the row, which is converted. So copies, loads and stores that share addresses have each their own layout.
 */
enum { FEWER = 8 };

static bool is_of_row(const Op *op) {
  const Type *t = op->in[0]->type;
  return op->code == OP_BROADCAST && (t->ptr || !dtype_is_float(t->dtype)) &&
         FEWER * type_numel(t) <= type_numel(op->out[0]->type);
}

static void weigh_value(Chooser *c, const Op *op) {
  if (op->out_count != 1 || !is_tensor(op->out[0]) || !may_be_cheap(op)) return;
  double size = (double)type_numel(op->out[0]->type), work = own_work(op);
  for (int i = 0; i < op->in_count; i++) {
    const Value *x = op->in[i];
    if (!is_tensor(x)) continue;
    bool cheap = c->node[x->id].cheap;
    if (!cheap && !is_of_row(op)) return;
    /* of a row that is broadcast there is less to do */
    work += (cheap ? c->node[x->id].work : MOST_WORK) * (double)type_numel(x->type) / size;
  }
  Node *n = &c->node[op->out[0]->id];
  n->cheap = work <= MOST_WORK;
  n->work = (float)work;
}

/* ---- nodes, uses, anchors ---------------------------------------------------------------------------------------- */

static bool is_anchor(const Op *op) {
  switch (op->code) {
    case OP_REDUCE:
    case OP_SCAN:
    case OP_SORT:
    case OP_MAP:
    case OP_JOIN:
    case OP_SPLIT:
    case OP_CAT:
    case OP_TMEM_LOAD:
    case OP_DOT: return true;
    default: return op_is_access(op);
  }
}

static double weight_of(const Op *op, int depth) {
  double bytes = 0;
  for (int i = 0; i < op->in_count; i++) {
    double b = (double)type_numel(op->in[i]->type) * type_elem_bytes(op->in[i]->type);
    if (op_is_access(op) && i == 0)
      b = (double)type_numel(op->in[0]->type) * (op->in[0]->type->ptr > 1 ? 8 : dtype_bytes(op->in[0]->type->dtype));
    if (b > bytes && !(op_is_access(op) && i)) bytes = b;
  }
  for (int i = 0; i < depth && i < 5; i++) bytes *= 10;
  return bytes;
}

/* Bodies of reduce, scan and map work on scalars. */
static bool has_tensor_bodies(const Op *op) { return op->code == OP_FOR || op->code == OP_WHILE || op->code == OP_IF; }

static void visit_block(Chooser *c, const Block *b, int depth) {
  stack_guard();
  for (int i = 0; i < b->arg_count; i++) c->node[b->args[i]->id].depth = depth;
  for (Op *op = b->first; op; op = op->next) {
    bool tensors = false;
    op->note = NULL;
    for (int i = 0; i < op->in_count; i++) {
      c->node[op->in[i]->id].use_count++;
      tensors |= is_tensor(op->in[i]);
    }
    for (int i = 0; i < op->out_count; i++) {
      c->node[op->out[i]->id].depth = depth;
      tensors |= is_tensor(op->out[i]);
    }
    weigh_value(c, op);
    if (tensors && is_anchor(op)) {
      Anchor *k = NEW(c->cx->arena, Anchor);
      *k = (Anchor){.op = op, .depth = depth, .weight = weight_of(op, depth)};
      if (op_is_access(op)) {
        const Value *mask = op_mask(op);
        k->best = access_layout(c->cx, op->in[0], mask, c->num_warps);
        k->best_cost = access_cost(op->in[0], mask, k->best, !op_is_load(op));
      }
      op->note = k;
      vec_push(c->cx->arena, &c->anchors, k);
    }
    if (has_tensor_bodies(op))
      for (int i = 0; i < 2; i++)
        if (op->body[i]) visit_block(c, op->body[i], depth + (op->code != OP_IF));
  }
}

static void gather_uses(Chooser *c, const Block *b) {
  stack_guard();
  for (Op *op = b->first; op; op = op->next) {
    for (int i = 0; i < op->in_count; i++) {
      Node *n = &c->node[op->in[i]->id];
      c->uses[n->first_use + n->use_count++] = (Use){op, i};
    }
    if (has_tensor_bodies(op))
      for (int i = 0; i < 2; i++)
        if (op->body[i]) gather_uses(c, op->body[i]);
  }
}

void constraints_build(Chooser *c) {
  c->node_count = c->f->value_count;
  c->node = NEW_N(c->cx->arena, Node, c->node_count);
  visit_block(c, c->f->body, 0);
  int total = 0;
  for (int i = 0; i < c->node_count; i++) {
    c->node[i].first_use = total;
    total += c->node[i].use_count;
    c->node[i].use_count = 0;
  }
  c->uses = NEW_N(c->cx->arena, Use, total + 1);
  gather_uses(c, c->f->body);
}

/* ---- the constraints --------------------------------------------------------------------------------------------------- */

typedef void Reach(Chooser *c, Value *v, const Layout *l);

/* All places of carried value i. */
static void reach_carried(Chooser *c, Op *op, int i, const Layout *l, Reach *reach) {
  reach(c, op->out[i], l);
  if (op->code != OP_IF) reach(c, op->in[i + control_skip(op)], l);
  for (int b = 0; b < op_info[op->code].regions; b++) {
    Op *end = op->body[b]->last;
    if (op->code != OP_IF) reach(c, op->body[b]->args[i + (op->code == OP_FOR)], l);
    reach(c, end->in[i + (end->code == OP_CONDITION)], l);
  }
}

static void reach_all(Chooser *c, Op *op, const Layout *l, Reach *reach) {
  for (int i = 0; i < op->in_count; i++) reach(c, op->in[i], l);
  for (int i = 0; i < op->out_count; i++) reach(c, op->out[i], l);
}

static void from_result(Chooser *c, Op *op, int index, const Layout *l, Reach *reach) {
  switch (op->code) {
    case OP_EXPAND_DIMS:
    case OP_RESHAPE:
    case OP_TRANS:
    case OP_JOIN:
    case OP_CAT:
    case OP_SPLIT:
      for (int i = 0; i < op->in_count; i++) reach(c, op->in[i], layout_backward(c->cx, op, i, l));
      break;
    case OP_DOT: reach(c, op->in[2], l); return;
    case OP_GATHER: reach(c, op->in[1], l); return;
    case OP_FOR:
    case OP_WHILE:
    case OP_IF: reach_carried(c, op, index, l, reach); return;
    case OP_REDUCE: break;
    default:
      if (op_shares_layout(op)) reach_all(c, op, l, reach);
      return;
  }
  for (int i = 0; i < op->out_count; i++) reach(c, op->out[i], l);
}

static void from_operand(Chooser *c, Op *op, int k, const Layout *l, Reach *reach) {
  Op *parent = op->block->parent;
  switch (op->code) {
    case OP_EXPAND_DIMS:
    case OP_RESHAPE:
    case OP_TRANS:
    case OP_JOIN:
    case OP_CAT:
    case OP_SPLIT:
      for (int i = 0; i < op->out_count; i++) reach(c, op->out[i], layout_forward(c->cx, op, k, l));
      /* fall through */
    case OP_REDUCE:
      for (int i = 0; i < op->in_count; i++) reach(c, op->in[i], l);
      return;
    case OP_DOT:
      if (k == 2) reach(c, op->out[0], l);
      return;
    case OP_GATHER:
      if (k == 1) reach(c, op->out[0], l);
      return;
    case OP_HISTOGRAM:
      for (int i = 0; i < op->in_count; i++) reach(c, op->in[i], l);
      return;
    case OP_FOR:
    case OP_WHILE: /* for's bounds are scalars */
      if (k >= control_skip(op)) reach_carried(c, op, k - control_skip(op), l, reach);
      return;
    case OP_YIELD: /* only control operations' bodies are asked about */ reach_carried(c, parent, k, l, reach); return;
    case OP_CONDITION:
      if (k > 0) reach_carried(c, parent, k - 1, l, reach);
      return;
    default:
      if (op_shares_layout(op)) reach_all(c, op, l, reach);
  }
}

void constraints_each(Chooser *c, Value *v, const Layout *l, Reach *reach) {
  const Node *n = &c->node[v->id];
  if (v->def) from_result(c, v->def, v->index, l, reach);
  else if (v->block->parent)
    reach_carried(c, v->block->parent, v->index - (v->block->parent->code == OP_FOR), l, reach);
  for (int i = 0; i < n->use_count; i++)
    from_operand(c, c->uses[n->first_use + i].op, c->uses[n->first_use + i].operand, l, reach);
}

static bool hands_on(const Op *op) {
  switch (op->code) {
    case OP_DOT:
    case OP_DOT_WAIT:
    case OP_FOR:
    case OP_WHILE:
    case OP_IF:
    case OP_YIELD:
    case OP_CONDITION: return true;
    default: return false;
  }
}

void constraints_each_sum(Chooser *c, Value *v, const Layout *l, Reach *reach) {
  const Node *n = &c->node[v->id];
  if (v->def && hands_on(v->def)) from_result(c, v->def, v->index, l, reach);
  else if (!v->def && v->block->parent)
    reach_carried(c, v->block->parent, v->index - (v->block->parent->code == OP_FOR), l, reach);
  for (int i = 0; i < n->use_count; i++) {
    const Use *use = &c->uses[n->first_use + i];
    if (hands_on(use->op)) from_operand(c, use->op, use->operand, l, reach);
  }
}
