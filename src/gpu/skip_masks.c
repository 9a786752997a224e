/* A mask that most iterations of a loop do not need is passed by in those.
 *
 *     %seen = cmp %columns, %n {pred=lt}            %all = start + 63 < n, of scalars
 *     %t = select %seen, %s, %low            ->     %t = if %all { yield %s } else { the two operations; yield }
 *
 * Done for selects of a loop's body, of 16 elements a thread (GpuBudgets.skipped_mask) or more, whose mask is made of
 * comparisons of 32-bit indices: sums of scalars and ranges. It holds for all elements when it does at the ends of the
 * ranges; those are computed in 64 bits, so that an index which wraps is no index that fits.
 */
#include "gpu/gpu.h"

typedef struct Bounds {
  Value *low, *high; /* i64 scalars */
} Bounds;

typedef struct Skip {
  Func *f;
  Op *select, *loop;
  Builder here, before; /* at the select; before its loop */
} Skip;

static Builder *builder_for(Skip *p, const Value *v) {
  return value_block(v) == p->select->block ? &p->here : &p->before;
}

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
    case OP_ARANGE: *out = (Bounds){wide(p, b, op->attr[0]), wide(p, b, op->attr[1] - 1)}; return true;
    case OP_CONST: *out = (Bounds){wide(p, b, op->attr[0]), wide(p, b, op->attr[0])}; return true;
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
      switch (op->attr[0]) {
        case CMP_LT:
        case CMP_LE: return all_below(p, op->in[0], op->in[1], (CmpPred)op->attr[0]);
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
    case OP_CMP: return op->attr[0] != CMP_EQ && op->attr[0] != CMP_NE && can_bound(op->in[0]) && can_bound(op->in[1]);
    default: return false;
  }
}

/* v and what it is made of in this block, again. */
static Value *again(Builder *b, const Block *block, Value *v, Map *made) {
  stack_guard();
  Value *there = map_get(made, v);
  if (there) return there;
  if (value_block(v) != block || !v->def) return v;
  Map *operands = map_create(b->func->cx->arena, false);
  for (int i = 0; i < v->def->in_count; i++) map_put(operands, v->def->in[i], again(b, block, v->def->in[i], made));
  Op *twin = op_clone(b, v->def, operands);
  twin->out[0]->axis = v->axis;
  map_put(made, v, twin->out[0]);
  return twin->out[0];
}

/* The mask's own operations: those on tensors, which bounds took apart. */
static void skip(Func *f, Op *select) {
  Op *loop = select->block->parent;
  Skip p = {.f = f, .select = select, .loop = loop};
  p.here = (Builder){.func = f, .block = select->block, .before = select, .span = select->span};
  p.before = (Builder){.func = f, .block = loop->block, .before = loop, .span = select->span};
  Value *all = all_of(&p, select->in[0]);
  if (!all) return;
  const Type *t = select->out[0]->type;
  Op *branch = build_op(&p.here, OP_IF, 1, &all, 1, &t);
  Builder yes = {.func = f, .block = block_create(f, branch), .span = select->span};
  build_yield(&yes, 1, &select->in[1]);
  Builder no = {.func = f, .block = block_create(f, branch), .span = select->span};
  Value *mask = again(&no, select->block, select->in[0], map_create(f->cx->arena, false));
  Value *out = build_select(&no, mask, select->in[1], select->in[2]);
  build_yield(&no, 1, &out);
  branch->out[0]->name = select->out[0]->name;
  value_replace(select->out[0], branch->out[0]);
  op_remove(select);
}

static bool depends_on_loop(const Value *v, const Block *body) {
  stack_guard();
  if (value_block(v) != body) return false;
  if (!v->def) return true;
  for (int i = 0; i < v->def->in_count; i++)
    if (depends_on_loop(v->def->in[i], body)) return true;
  return false;
}

static void visit_block(Func *f, const GpuOptions *o, Block *block) {
  stack_guard();
  for (Op *op = block->first, *next; op; op = next) {
    next = op->next;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && op_info[op->code].effect == EFFECT_CONTROL) visit_block(f, o, op->body[i]);
    if (op->code != OP_SELECT || !block->parent || block->parent->code != OP_FOR) continue;
    const Type *t = op->out[0]->type;
    int64_t fewest = (int64_t)o->target->budgets->skipped_mask * 32 * f->num_warps;
    if (t->rank && type_numel(t) >= fewest && depends_on_loop(op->in[0], block) && can_tell(op->in[0])) skip(f, op);
  }
}

void gpu_skip_masks(Func *f, const GpuOptions *o) {
  tile_resolve(f);
  visit_block(f, o, f->body);
  tile_resolve(f);
}
