/* Dims of one element are dropped where memory is accessed.
 *
 *     %x = load %p, %m : f32[1,64,64]                 %q = addptr (splat %a), %o' : *f32[64,64]
 *     %y = reshape %x : f32[64,64]             ->     %y = load %q, %m' : f32[64,64]
 *
 *     %z = reshape %y : f32[1,64,64]           ->     store %q, %y
 *     store %p, %z
 *
 * A descriptor of a batch of matrices brings a box of three dims, of which a product takes two. As a tile of two dims
 * it is what the passes on products look for: one that comes by asynchronous copies, and leaves by a tensor map.
 *
 * Where nobody else takes what is loaded, and where its addresses are arithmetic on broadcasts, splats and reshapes
 * down to values of one dim: then they are made anew, beside their originals, which dce removes. Nothing of an address
 * but the number of its dims changes.
 */
#include "tile/tile.h"

typedef struct DropDims {
  Func *f;
  int *uses;
  VEC(Op *) list;
} DropDims;

static bool is_unit_change(const Type *from, const Type *to) {
  int i = 0, k = 0;
  if (!from->rank || !to->rank || from->rank == to->rank) return false;
  for (;; i++, k++) {
    while (i < from->rank && from->shape[i] == 1) i++;
    while (k < to->rank && to->shape[k] == 1) k++;
    if (i == from->rank || k == to->rank) return i == from->rank && k == to->rank;
    if (from->shape[i] != to->shape[k]) return false;
  }
}

/* The shape of y, which x is a broadcast of, where x gets the shape `to`. */
static void shape_before(const Type *x, const Type *y, const Type *to, int32_t *shape) {
  for (int i = 0, k = 0; k < to->rank; k++) {
    shape[k] = 1;
    if (to->shape[k] == 1) continue;
    while (x->shape[i] == 1) i++;
    shape[k] = y->shape[i++];
  }
}

enum { MOST_OPS = 64 };

/* left: so many operations may be made anew. */
static bool can_reshape(const Value *v, int *left) {
  stack_guard();
  v = value_replacement((Value *)v);
  const Op *op = v->def;
  if (!op || --*left < 0) return false;
  switch (op->code) {
    case OP_CONST:
    case OP_SPLAT:
    case OP_BROADCAST:
    case OP_EXPAND_DIMS: return true;
    case OP_RESHAPE: return !op->reorder;
    default: break;
  }
  if (!op_is_elementwise(op) || (!v->type->ptr && dtype_is_float(v->type->dtype))) return false;
  for (int i = 0; i < op->in_count; i++)
    if (!can_reshape(op->in[i], left)) return false;
  return true;
}

static const Type *reshaped_type(Context *cx, const Type *t, int rank, const int32_t *shape) {
  return type_tensor(cx, type_elem(cx, t), rank, shape);
}

/* v with the shape of `to`, made where v is. */
static Value *reshaped(Func *f, Value *v, const Type *to) {
  stack_guard();
  v = value_replacement(v);
  Op *op = v->def;
  Builder b = {.func = f, .block = op->block, .before = op->next, .span = op->span};
  int32_t shape[MAX_RANK];
  switch (op->code) {
    case OP_SPLAT: return build_splat(&b, value_replacement(op->in[0]), to->rank, to->shape);
    case OP_RESHAPE:
    case OP_EXPAND_DIMS: return build_reshape(&b, value_replacement(op->in[0]), to->rank, to->shape);
    case OP_BROADCAST: {
      Value *from = value_replacement(op->in[0]);
      shape_before(v->type, from->type, to, shape);
      return build_broadcast(&b, build_reshape(&b, from, to->rank, shape), to->rank, to->shape);
    }
    case OP_CONST: return build_reshape(&b, v, to->rank, to->shape);
    default: break;
  }
  Value *in[4];
  for (int i = 0; i < op->in_count; i++) in[i] = reshaped(f, op->in[i], to);
  const Type *t = reshaped_type(f->cx, v->type, to->rank, to->shape);
  Op *made = build_op(&b, op->code, op->in_count, in, 1, &t);
  memcpy(made->attr, op->attr, sizeof made->attr);
  made->number = op->number, made->text = op->text;
  return made->out[0];
}

/* Pointer, mask, and what stands for masked elements. */
static bool can_reshape_all(const Op *access) {
  int left = MOST_OPS;
  for (int i = 0; i < access->in_count; i++)
    if (access->in[i] != op_value(access) && !can_reshape(access->in[i], &left)) return false;
  return true;
}

static void drop_of_load(DropDims *p, Op *reshape) {
  Op *load = value_replacement(reshape->in[0])->def;
  const Type *to = reshape->out[0]->type;
  if (!load || load->code != OP_LOAD || p->uses[load->out[0]->id] != 1 || reshape->reorder ||
      load->out[0]->type->rank <= to->rank || !is_unit_change(load->out[0]->type, to) || !can_reshape_all(load))
    return;
  Value *in[3] = {NULL, NULL, NULL};
  for (int i = 0; i < load->in_count; i++) in[i] = reshaped(p->f, load->in[i], to);
  Builder b = {.func = p->f, .block = load->block, .before = load, .span = load->span};
  Value *v = build_load(&b, in[0], in[1], in[2]);
  memcpy(v->def->attr, load->attr, sizeof load->attr);
  v->name = reshape->out[0]->name ? reshape->out[0]->name : load->out[0]->name;
  value_replace(reshape->out[0], v);
  op_remove(reshape);
  op_remove(load);
}

static void drop_of_store(DropDims *p, Op *store) {
  Value *v = value_replacement(op_value(store));
  Op *reshape = v->def;
  if (!reshape || reshape->code != OP_RESHAPE || reshape->reorder) return;
  Value *from = value_replacement(reshape->in[0]);
  if (from->type->rank >= v->type->rank || !is_unit_change(v->type, from->type) || !can_reshape_all(store)) return;
  Value *mask = op_mask(store);
  Builder b = {.func = p->f, .block = store->block, .before = store, .span = store->span};
  Value *pointer = reshaped(p->f, store->in[0], from->type);
  if (mask) mask = reshaped(p->f, mask, from->type);
  memcpy(build_store(&b, pointer, from, mask)->attr, store->attr, sizeof store->attr);
  op_remove(store);
}

static void count_uses(Op *op, void *arg) {
  DropDims *p = arg;
  for (int i = 0; i < op->in_count; i++) p->uses[value_replacement(op->in[i])->id]++;
  if (op->code == OP_RESHAPE || (op->code == OP_STORE && op_value(op)->type->rank))
    vec_push(p->f->cx->arena, &p->list, op);
}

void tile_drop_dims(Func *f) {
  DropDims p = {.f = f, .uses = NEW_N(f->cx->arena, int, f->value_count + 1)};
  tile_walk(f->body, count_uses, &p);
  for (int i = 0; i < p.list.n; i++)
    if (p.list.at[i]->code == OP_STORE) drop_of_store(&p, p.list.at[i]);
    else drop_of_load(&p, p.list.at[i]);
  tile_replace_uses(f);
}
