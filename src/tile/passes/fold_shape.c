/* Folding of operations that only move elements about: of constants and splats they are constants and splats of the new
 * shape, and pairs of them make one or none. So is an arange of one element. An elementwise operation whose operands
 * are all splats is done once, on the scalars.
 */
#include "tile/passes/fold.h"

Value *const_like(Builder *b, const Type *t, const Value *constant) {
  const Op *op = constant->def;
  return dtype_is_float(t->dtype) ? build_float(b, t, op->number) : build_int(b, t, op->value);
}

Value *splatted(Builder *b, Value *v) {
  if (!v->type->rank) return v;
  if (is_splat(v)) return value_replacement(v->def->in[0]);
  if (is_const(v)) return const_like(b, type_elem(b->func->cx, v->type), v);
  return NULL;
}

/* op(splat a, splat b) = splat op(a, b) */
static Value *fold_splats(Builder *b, Op *op) {
  stack_guard();
  bool any = false;
  for (int i = 0; i < op->in_count; i++) {
    if (!is_splat(op->in[i]) && !is_const(op->in[i])) return NULL;
    any = any || is_splat(op->in[i]);
  }
  if (!any || op->in_count > 4) return NULL;
  Value *in[4];
  for (int i = 0; i < op->in_count; i++) in[i] = splatted(b, op->in[i]);
  const Type *t = op->out[0]->type, *elem = type_elem(b->func->cx, t);
  Op *scalar = build_op(b, op->code, op->in_count, in, 1, &elem);
  memcpy(scalar->attr, op->attr, sizeof scalar->attr);
  scalar->span = op->span;
  Builder before = *b;
  before.before = scalar;
  Value *v = scalar->out[0], *simpler = fold_op(&before, scalar);
  if (simpler) {
    value_replace(v, simpler);
    op_remove(scalar);
    v = simpler;
  }
  return is_const(v) ? const_like(b, t, v) : build_splat(b, v, t->rank, t->shape);
}

static Value *fold_trans(Builder *b, Op *op) {
  bool same_order = true;
  for (int d = 0; d < op->dim_count; d++) same_order = same_order && op->dims[d] == d;
  Value *x = op->in[0];
  if (same_order) return x;
  if (!x->def || x->def->code != OP_TRANS) return NULL;
  int64_t both[MAX_RANK];
  for (int d = 0; d < op->dim_count; d++) both[d] = x->def->dims[op->dims[d]];
  return build_trans(b, value_replacement(x->def->in[0]), both);
}

/* Results of split; the operation has two, so it is not among those that fold_op replaces. */
static void fold_split(Builder *b, Op *op) {
  Value *x = op->in[0];
  for (int i = 0; i < 2; i++) {
    const Type *t = op->out[i]->type;
    Value *half = NULL;
    if (x->def && x->def->code == OP_JOIN) half = value_replacement(x->def->in[i]);
    else if (is_const(x)) half = const_like(b, t, x);
    else if (is_splat(x)) half = build_splat(b, value_replacement(x->def->in[0]), t->rank, t->shape);
    if (half) value_replace(op->out[i], half);
  }
}

/* The same number in every element, however the elements are moved. */
static Value *fold_uniform(Builder *b, Op *op) {
  const Type *t = op->out[0]->type;
  for (int i = 1; i < op->in_count && op->code != OP_GATHER; i++)
    if (op->in[i] != op->in[0]) return NULL;
  Value *x = op->in[0];
  if (is_const(x)) return const_like(b, t, x);
  bool scalar = !x->type->rank;
  if (!is_splat(x) && !scalar) return NULL;
  return build_splat(b, scalar ? x : value_replacement(x->def->in[0]), t->rank, t->shape);
}

Value *fold_shape(Builder *b, Op *op) {
  Value *x = op->in[0];
  const Op *def = x->def;
  const Type *t = op->out[0]->type;
  switch (op->code) {
    case OP_SPLAT: return is_const(x) ? const_like(b, t, x) : NULL;
    case OP_BROADCAST:
      if (x->type == t) return x;
      if (def && def->code == OP_BROADCAST) return build_broadcast(b, value_replacement(def->in[0]), t->rank, t->shape);
      return fold_uniform(b, op);
    case OP_RESHAPE:
      if (x->type == t) return x;
      if (def && def->code == OP_RESHAPE && !op->reorder && !def->reorder)
        return build_reshape(b, value_replacement(def->in[0]), t->rank, t->shape);
      return fold_uniform(b, op);
    case OP_TRANS: {
      Value *v = fold_trans(b, op);
      return v ? v : fold_uniform(b, op);
    }
    case OP_EXPAND_DIMS:
    case OP_JOIN:
    case OP_CAT:
    case OP_GATHER: return fold_uniform(b, op);
    case OP_SPLIT: fold_split(b, op); return NULL;
    case OP_HINT: return is_const(x) ? x : NULL;
    default: return fold_splats(b, op);
  }
}

Value *fold_op(Builder *b, Op *op) {
  if (op->code == OP_SPLIT) return fold_shape(b, op);
  if (op->code == OP_ARANGE && op->end == op->start + 1) return build_int(b, op->out[0]->type, op->start);
  if (op->out_count != 1 || op->in_count == 0) return NULL;
  if (op_is_elementwise(op)) {
    Value *v = fold_elementwise(b, op);
    return v ? v : op->out[0]->type->rank ? fold_shape(b, op) : NULL;
  }
  if (op_info[op->code].group == GROUP_SHAPE || op->code == OP_HINT) return fold_shape(b, op);
  return NULL;
}
