/* A mask that most iterations of a loop do not need is passed by in those.
 *
 *     %seen = cmp %columns, %n {pred=lt}            %all = start + 63 < n, of scalars
 *     %t = select %seen, %s, %low            ->     %t = if %all { yield %s } else { the two operations; yield }
 *     atomic_rmw %p, %x, %seen               ->     if %all { atomic_rmw %p, %x } else { atomic_rmw %p, %x, %seen }
 *
 * Done for selects of a loop's body, of 16 elements a thread (GpuBudgets.skipped_mask) or more, but not of half of its
 * registers or of all that the loop's sums leave it, and for atomics of as many whose old values nobody wants, where
 * the mask is made of comparisons of 32-bit indices: sums of scalars and ranges. It holds for all elements when it does
 * at the ends of the ranges; those are computed in 64 bits, so that an index which wraps is no index that fits.
 */
#include "gpu/loop.h"

typedef struct Bounds {
  Value *low, *high; /* i64 scalars */
} Bounds;

typedef struct Skip {
  Func *f;
  Op *op, *loop;
  Builder here, before; /* at the operation; before its loop */
} Skip;

static Builder *builder_for(Skip *p, const Value *v) { return value_block(v) == p->op->block ? &p->here : &p->before; }

static Value *wide(Skip *p, Builder *b, int64_t v) { return build_int(b, type_number(p->f->cx, DT_I64), v); }

static bool is_index(const Value *v) { return !v->type->ptr && v->type->dtype == DT_I32; }

static bool bounds_of(Skip *p, Value *v, Bounds *out) {
  stack_guard();
  if (!is_index(v)) return false;
  Builder *b = builder_for(p, v);
  Op *op = v->def;
  if (!v->type->rank) {
    out->low = out->high = build_convert(b, v, DT_I64);
    return true;
  }
  if (!op) return false;
  Bounds x, y;
  switch (op->code) {
    case OP_SPLAT:
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_TRANS: return bounds_of(p, op->in[0], out);
    case OP_ARANGE: *out = (Bounds){wide(p, b, op->start), wide(p, b, op->end - 1)}; return true;
    case OP_CONST: *out = (Bounds){wide(p, b, op->value), wide(p, b, op->value)}; return true;
    case OP_ADD:
    case OP_SUB:
      if (!bounds_of(p, op->in[0], &x) || !bounds_of(p, op->in[1], &y)) return false;
      out->low = build_binary(b, op->code, x.low, op->code == OP_ADD ? y.low : y.high);
      out->high = build_binary(b, op->code, x.high, op->code == OP_ADD ? y.high : y.low);
      return true;
    default: return false;
  }
}

/* Of x < y, or x <= y: also that the lowest and the highest of all are numbers of 32 bits, as then are all. */
static Value *all_below(Skip *p, Value *x, Value *y, CmpPred pred) {
  Bounds a, b;
  if (!bounds_of(p, x, &a) || !bounds_of(p, y, &b)) return NULL;
  Builder *at = &p->here;
  Value *holds = build_cmp(at, pred, a.high, b.low);
  if (x->def && (x->def->code == OP_ADD || x->def->code == OP_SUB))
    holds = build_binary(at, OP_AND, holds, build_cmp(at, CMP_GE, a.low, wide(p, at, INT32_MIN)));
  if (y->def && (y->def->code == OP_ADD || y->def->code == OP_SUB))
    holds = build_binary(at, OP_AND, holds, build_cmp(at, CMP_LE, b.high, wide(p, at, INT32_MAX)));
  return holds;
}

/* A scalar that says that all elements of the mask hold; NULL: there is none. */
static Value *all_of(Skip *p, Value *mask) {
  stack_guard();
  Op *op = mask->def;
  if (!mask->type->rank) return mask;
  if (!op) return NULL;
  Value *x, *y;
  switch (op->code) {
    case OP_SPLAT:
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_TRANS: return all_of(p, op->in[0]);
    case OP_AND:
      x = all_of(p, op->in[0]);
      y = x ? all_of(p, op->in[1]) : NULL;
      return y ? build_binary(&p->here, OP_AND, x, y) : NULL;
    case OP_CMP:
      switch (op->pred) {
        case CMP_LT:
        case CMP_LE: return all_below(p, op->in[0], op->in[1], (CmpPred)op->pred);
        case CMP_GT: return all_below(p, op->in[1], op->in[0], CMP_LT);
        case CMP_GE: return all_below(p, op->in[1], op->in[0], CMP_LE);
        default: return NULL;
      }
    default: return NULL;
  }
}

/* Whether all_of() will find one: nothing is to be built otherwise. */
static bool can_bound(const Value *v) {
  stack_guard();
  const Op *op = v->def;
  if (!is_index(v)) return false;
  if (!v->type->rank) return true;
  if (!op) return false;
  switch (op->code) {
    case OP_ARANGE:
    case OP_CONST: return true;
    case OP_SPLAT:
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_TRANS: return can_bound(op->in[0]);
    case OP_ADD:
    case OP_SUB: return can_bound(op->in[0]) && can_bound(op->in[1]);
    default: return false;
  }
}

static bool can_tell(const Value *mask) {
  stack_guard();
  const Op *op = mask->def;
  if (!mask->type->rank) return true;
  if (!op) return false;
  switch (op->code) {
    case OP_SPLAT:
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_TRANS: return can_tell(op->in[0]);
    case OP_AND: return can_tell(op->in[0]) && can_tell(op->in[1]);
    case OP_CMP: return op->pred != CMP_EQ && op->pred != CMP_NE && can_bound(op->in[0]) && can_bound(op->in[1]);
    default: return false;
  }
}

/* A tensor v and the tensors that it is made of in this block, again; not what is loaded, reduced or branched for. */
static Value *again(Builder *b, const Block *block, Value *v, Map *made) {
  stack_guard();
  Value *there = map_get(made, v);
  if (there) return there;
  const Op *op = v->def;
  if (value_block(v) != block || !op || !v->type->rank) return v;
  if (op_info[op->code].effect != EFFECT_PURE || op->body[0]) return v;
  Map *operands = map_create(b->func->cx->arena, false);
  for (int i = 0; i < op->in_count; i++) map_put(operands, op->in[i], again(b, block, op->in[i], made));
  loop_clone(b, op, operands, made);
  return map_get(made, v);
}

/* A branch on whether all elements of the operation's mask hold; *yes and *no build its bodies. NULL: nobody can say.
 */
static Op *branch_on_all(Func *f, Op *op, Value *mask, Builder *yes, Builder *no) {
  Op *loop = op->block->parent;
  Skip p = {.f = f, .op = op, .loop = loop};
  p.here = (Builder){.func = f, .block = op->block, .before = op, .span = op->span};
  p.before = (Builder){.func = f, .block = loop->block, .before = loop, .span = op->span};
  Value *all = all_of(&p, mask);
  if (!all) return NULL;
  bool selects = op->code == OP_SELECT;
  Op *branch = build_op(&p.here, OP_IF, 1, &all, selects, selects ? &op->out[0]->type : NULL);
  *yes = (Builder){.func = f, .block = block_create(f, branch), .span = op->span};
  *no = (Builder){.func = f, .block = block_create(f, branch), .span = op->span};
  return branch;
}

/* The mask's own operations go along: those on tensors, which bounds took apart. */
static Value *mask_again(Builder *no, const Op *op, Value *mask) {
  return again(no, op->block, mask, map_create(no->func->cx->arena, false));
}

static void skip_select(Func *f, Op *select) {
  Builder yes, no;
  Op *branch = branch_on_all(f, select, select->in[0], &yes, &no);
  if (!branch) return;
  build_yield(&yes, 1, &select->in[1]);
  Value *out = build_select(&no, mask_again(&no, select, select->in[0]), select->in[1], select->in[2]);
  build_yield(&no, 1, &out);
  branch->out[0]->name = select->out[0]->name;
  branch->out[0]->axis = select->out[0]->axis;
  value_replace(select->out[0], branch->out[0]);
  op_remove(select);
}

static void skip_atomic(Func *f, Op *op) {
  Builder yes, no;
  if (!branch_on_all(f, op, op->in[2], &yes, &no)) return;
  Value *in[] = {op->in[0], op->in[1], mask_again(&no, op, op->in[2])};
  for (int i = 0; i < 2; i++) {
    Builder *b = i ? &no : &yes;
    Op *clone = build_op(b, OP_ATOMIC_RMW, 2 + i, in, 1, &op->out[0]->type);
    memcpy(clone->attr, op->attr, sizeof op->attr);
    build_yield(b, 0, NULL);
  }
  op_remove(op);
}

static int64_t registers_of(const Func *f, const Type *t) {
  return (type_numel(t) * type_elem_bytes(t) + 3) / 4 / (32 * f->num_warps);
}

/* Whether what a thread has of a tile takes half of its registers, or all that the loop carries leaves it: the tile
 * would be there as a whole at the branch, beside what it is made of. */
static bool takes_many_registers(const Func *f, const Op *loop, const Type *t) {
  int64_t words = registers_of(f, t), carried = 0, most = gpu_thread_registers(f->num_warps);
  for (int i = 3; i < loop->in_count; i++) carried += registers_of(f, loop->in[i]->type);
  return 2 * words >= most || carried + words >= most;
}

static void visit_block(Func *f, const GpuOptions *o, Block *block) {
  stack_guard();
  for (Op *op = block->first, *next; op; op = next) {
    next = op->next;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && op_info[op->code].effect == EFFECT_CONTROL) visit_block(f, o, op->body[i]);
    bool is_atomic = op->code == OP_ATOMIC_RMW && op_mask(op) && !block_uses(block, op->out[0]);
    if ((op->code != OP_SELECT && !is_atomic) || !block->parent || block->parent->code != OP_FOR) continue;
    const Type *t = op->out[0]->type;
    const Value *mask = is_atomic ? op_mask(op) : op->in[0];
    int64_t fewest = (int64_t)o->target->budgets->skipped_mask * 32 * f->num_warps;
    if (!t->rank || type_numel(t) < fewest || !can_tell(mask)) continue;
    if (!is_atomic && takes_many_registers(f, block->parent, t)) continue;
    if (is_atomic) skip_atomic(f, op);
    else skip_select(f, op);
  }
}

void gpu_skip_masks(Func *f, const GpuOptions *o) {
  tile_replace_uses(f);
  visit_block(f, o, f->body);
  tile_replace_uses(f);
}
