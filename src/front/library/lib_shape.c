/* lib_shape.c: shape manipulation, and indexing that only moves elements (gather, flip). */
#include "front/library/lib.h"

static int64_t numel_of(int rank, const int32_t *shape) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= shape[i];
  return n;
}

/* A number has no shape to be broadcast from. */
static Value *broadcast_operand(Front *fr, const Builtin *b, Span at, const char *name, Py *p) {
  if (py_is_number(p))
    lib_refuse(fr, at, "tl.full(shape, value, dtype) makes a tensor of a number",
               "'constexpr_type' object has no attribute 'is_block': `%s` of %s is the number %s", name,
               lib_full_name(fr, b), py_describe(fr, p));
  return lib_value(fr, at, b, name, p);
}

static Py *call_broadcast(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = broadcast_operand(fr, b, at, "input", args[0]), *y = broadcast_operand(fr, b, at, "other", args[1]);
  sem_broadcast_pair(fr, at, &x, &y);
  return py_tuple(fr, 2, (Py *[]){py_tensor(fr, x), py_tensor(fr, y)});
}

static Py *call_broadcast_to(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = broadcast_operand(fr, b, at, "input", args[0]);
  int32_t shape[MAX_RANK];
  int rank = lib_shape(fr, at, b, "shape", args[1], shape);
  return py_tensor(fr, sem_broadcast_to(fr, at, x, rank, shape));
}

static const char *list_text(Front *fr, int n, const int64_t *at) {
  const char *s = "[";
  for (int i = 0; i < n; i++) s = arena_printf(fr->cx->arena, "%s%s%lld", s, i ? ", " : "", (long long)at[i]);
  return arena_printf(fr->cx->arena, "%s]", s);
}

static Py *call_expand_dims(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = lib_value(fr, at, b, "input", args[0]);
  int64_t axes[MAX_RANK];
  int n = lib_ints(fr, at, b, "axis", args[1], axes, MAX_RANK), rank = x->type->rank + n;
  if (rank > MAX_RANK) lib_fail(fr, at, b, NULL, "the result has %d dims, but a tensor has at most %d", rank, MAX_RANK);
  bool is_new[MAX_RANK] = {false};
  for (int i = 0; i < n; i++) { /* axes count in the result */
    if (axes[i] < -rank || axes[i] >= rank)
      lib_refuse(fr, at, NULL, "invalid axis %lld. Expected %d <= axis < %d", (long long)axes[i], -rank, rank);
    if (axes[i] < 0) axes[i] += rank;
  }
  for (int i = 0; i < n; i++) {
    if (is_new[axes[i]])
      lib_refuse(fr, at, NULL, "expand_dims received duplicate axes, normalized axes = %s", list_text(fr, n, axes));
    is_new[axes[i]] = true;
  }
  for (int a = 0; a < rank; a++)
    if (is_new[a]) x = sem_expand_dims(fr, x, a);
  return py_tensor(fr, x);
}

static Value *reshape(Front *fr, const Builtin *b, Span at, Value *x, int rank, const int32_t *shape, bool reorder) {
  if (numel_of(rank, shape) != type_numel(x->type))
    lib_refuse(fr, at, NULL, "reshape() cannot change total number of elements in tensor: it is %s, the new shape %s",
               type_text(fr, x->type), shape_text(fr, rank, shape));
  Value *r = x->type->rank ? build_reshape(&fr->b, x, rank, shape) : sem_splat(fr, x, rank, shape);
  if (r != x && r->def->code == OP_RESHAPE) r->def->reorder = reorder;
  return r;
}

/* A shape argument in which one entry may be -1 is not Triton's: say so rather than "not a power of 2". */
static int reshape_shape(Front *fr, const Builtin *b, Span at, const Py *p, int32_t *shape) {
  const Py *items = p->tuple.n == 1 && p->tuple.at[0]->kind == PY_TUPLE ? p->tuple.at[0] : p;
  if (p->kind == PY_TUPLE)
    for (int i = 0; i < items->tuple.n; i++)
      if (items->tuple.at[i]->kind == PY_INT && items->tuple.at[i]->i == -1)
        lib_refuse(fr, at, "it is -1, but a size cannot be left to be deduced: write it out",
                   "Shape element %d must be a power of 2", i);
  return lib_shape(fr, at, b, "shape", p, shape);
}

static Py *call_reshape(Front *fr, const Builtin *b, Span at, Py **args) {
  int32_t shape[MAX_RANK];
  int rank = reshape_shape(fr, b, at, args[1], shape);
  bool stays =
      !rank && b->name[0] == 'r' && args[0]->kind == PY_TENSOR && !args[0]->value->type->rank; /* n.reshape(()) */
  if (stays) return args[0];
  Value *x = lib_block(fr, at, b, "input", args[0]);
  /* `view` was reshape(can_reorder=True) once; keeping the order is always allowed. */
  bool reorder = b->name[0] == 'r' && lib_flag(fr, at, b, "can_reorder", args[2]);
  return py_tensor(fr, reshape(fr, b, at, x, rank, shape, reorder));
}

static Py *call_ravel(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = lib_block(fr, at, b, "x", args[0]);
  return py_tensor(fr, reshape(fr, b, at, x, 1, (int32_t[]){(int32_t)type_numel(x->type)},
                               lib_flag(fr, at, b, "can_reorder", args[1])));
}

static Py *call_item(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = lib_tensor(fr, at, b, "input", args[0]);
  if (type_numel(x->type) != 1)
    lib_refuse(fr, at, "reduce it first, or use tl.gather", "can only unsplat single-element tensors, but this is %s",
               type_text(fr, x->type));
  return py_tensor(fr, x->type->rank ? build_reshape(&fr->b, x, 0, NULL) : x);
}

static Py *call_trans(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = lib_tensor(fr, at, b, "input", args[0]);
  int rank = x->type->rank;
  int64_t dims[MAX_RANK];
  const Py *given = args[1];
  bool none = given->kind == PY_TUPLE &&
              (given->tuple.n == 0 ||
               (given->tuple.n == 1 && given->tuple.at[0]->kind == PY_TUPLE && given->tuple.at[0]->tuple.n == 0));
  if (none && b->name[0] == 't') {
    if (rank < 2)
      lib_refuse(fr, at, NULL, "tl.trans invoked with a 0- or 1-dimensional tensor: %s", type_text(fr, x->type));
    for (int i = 0; i < rank; i++) dims[i] = i;
    dims[rank - 2] = rank - 1, dims[rank - 1] = rank - 2;
  } else {
    int n = lib_ints(fr, at, b, "dims", given, dims, MAX_RANK);
    bool seen[MAX_RANK] = {false};
    if (n != rank)
      lib_refuse(fr, at, NULL,
                 "permute dims must have the same length as input shape, but they are %s, and the tensor %s",
                 py_describe(fr, given), type_text(fr, x->type));
    if (!n) lib_refuse(fr, at, NULL, "0d block_type is forbidden: the tensor is %s", type_text(fr, x->type));
    bool good = true;
    for (int i = 0; i < n && good; i++) {
      good = dims[i] >= 0 && dims[i] < rank && !seen[dims[i]];
      if (good) seen[dims[i]] = true;
    }
    if (!good)
      lib_refuse(fr, at, NULL, "permute dims must be a permutation of 0, 1, ..., n-1, but were %s",
                 py_describe(fr, given));
  }
  return py_tensor(fr, build_trans(&fr->b, x, dims));
}

static Value *join(Front *fr, const Builtin *b, Span at, Value *x, Value *y) {
  sem_broadcast_pair(fr, at, &x, &y);
  const Type *a = type_elem(fr->cx, x->type), *c = type_elem(fr->cx, y->type);
  bool ints = !a->ptr && !c->ptr && dtype_is_int(a->dtype) && dtype_is_int(c->dtype);
  if (ints && dtype_bits(a->dtype) == dtype_bits(c->dtype)) y = build_bitcast(&fr->b, y, a); /* signs may differ */
  if (x->type != y->type)
    lib_fail(fr, at, b, "cast one of them with .to(...)",
             "`a` and `b` must have one element type, but they are %s and %s", type_text(fr, x->type),
             type_text(fr, y->type));
  int rank = x->type->rank;
  if (rank == MAX_RANK) lib_fail(fr, at, b, NULL, "the result has more than %d dims", MAX_RANK);
  if (rank == 0) { /* two scalars: [1, 2], then [2] */
    x = sem_expand_dims(fr, x, 0);
    y = sem_expand_dims(fr, y, 0);
  }
  int32_t shape[MAX_RANK] = {1};
  memcpy(shape, x->type->shape, sizeof(int32_t) * (size_t)x->type->rank);
  shape[x->type->rank] = 2;
  if (type_numel(x->type) * 2 > MAX_TILE_ELEMENTS)
    lib_fail(fr, at, b, NULL, "the result has more than %d elements", MAX_TILE_ELEMENTS);
  const Type *t = type_tensor(fr->cx, type_elem(fr->cx, x->type), x->type->rank + 1, shape);
  Value *r = build_op(&fr->b, OP_JOIN, 2, (Value *[]){x, y}, 1, &t)->out[0];
  return rank ? r : build_reshape(&fr->b, r, 1, (int32_t[]){2});
}

static Py *call_join(Front *fr, const Builtin *b, Span at, Py **args) {
  return py_tensor(fr, join(fr, b, at, lib_tensor(fr, at, b, "a", args[0]), lib_tensor(fr, at, b, "b", args[1])));
}

static Py *call_interleave(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *r = join(fr, b, at, lib_tensor(fr, at, b, "a", args[0]), lib_tensor(fr, at, b, "b", args[1]));
  int rank = r->type->rank;
  if (rank == 1) return py_tensor(fr, r);
  int32_t shape[MAX_RANK];
  memcpy(shape, r->type->shape, sizeof shape);
  shape[rank - 2] *= 2;
  return py_tensor(fr, build_reshape(&fr->b, r, rank - 1, shape));
}

static Py *call_split(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = lib_block(fr, at, b, "a", args[0]);
  int rank = x->type->rank;
  if (x->type->shape[rank - 1] != 2)
    lib_fail(fr, at, b, "reshape or permute so that the last dim has size 2", "`a`'s last dim must be 2, but it is %s",
             type_text(fr, x->type));
  const Type *t = type_tensor(fr->cx, type_elem(fr->cx, x->type), rank - 1, x->type->shape);
  const Type *both[2] = {t, t};
  Op *op = build_op(&fr->b, OP_SPLIT, 1, &x, 2, both);
  return py_tuple(fr, 2, (Py *[]){py_tensor(fr, op->out[0]), py_tensor(fr, op->out[1])});
}

static Py *call_squeeze(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = lib_block(fr, at, b, "x", args[0]);
  int rank = x->type->rank, dim = lib_axis(fr, at, b, "dim", args[1], rank);
  if (x->type->shape[dim] != 1)
    lib_fail(fr, at, b, NULL, "dim %d must have size 1, but `x` is %s", dim, type_text(fr, x->type));
  int32_t shape[MAX_RANK];
  for (int i = 0, k = 0; i < rank; i++)
    if (i != dim) shape[k++] = x->type->shape[i];
  return py_tensor(fr, build_reshape(&fr->b, x, rank - 1, shape));
}

/* ---- moving elements by an index --------------------------------------------------------------------------------- */

static Value *gather(Front *fr, Value *src, Value *index, int axis) {
  const Type *t = type_with_elem(fr->cx, index->type, type_elem(fr->cx, src->type));
  Op *op = build_op(&fr->b, OP_GATHER, 2, (Value *[]){src, index}, 1, &t);
  op->axis = axis;
  return op->out[0];
}

static Py *call_gather(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *src = lib_block(fr, at, b, "src", args[0]), *index = lib_block(fr, at, b, "index", args[1]);
  if (index->type->ptr || !dtype_is_int(index->type->dtype))
    lib_refuse(fr, at, NULL, "index must be an integer tensor, but it is %s", type_text(fr, index->type));
  int rank = src->type->rank;
  if (index->type->rank != rank)
    lib_refuse(fr, at, "add dims with [:, None] and tl.broadcast_to",
               "source and index tensors must have the same rank, but they are %s and %s", type_text(fr, src->type),
               type_text(fr, index->type));
  int axis = lib_small_int(fr, at, b, "axis", args[2]);
  if (axis < -rank || axis >= rank) lib_refuse(fr, at, NULL, "gather axis %d must be < source rank (%d)", axis, rank);
  if (axis < 0) axis += rank;
  for (int i = 0; i < rank; i++)
    if (i != axis && index->type->shape[i] != src->type->shape[i])
      lib_refuse(fr, at, NULL,
                 "index dim %d must match the corresponding source dim: they are %s and %s, and only dim "
                 "%d may differ",
                 i, type_text(fr, index->type), type_text(fr, src->type), axis);
  return py_tensor(fr, gather(fr, src, index, axis));
}

Value *lib_take(Front *fr, Value *x, int axis, int32_t n, bool backwards) {
  int rank = x->type->rank;
  int32_t shape[MAX_RANK], line[MAX_RANK];
  for (int i = 0; i < rank; i++) shape[i] = x->type->shape[i], line[i] = 1;
  shape[axis] = line[axis] = n;
  Value *index = build_arange(&fr->b, 0, n);
  if (backwards) index = build_binary(&fr->b, OP_SUB, build_int(&fr->b, index->type, n - 1), index);
  if (rank > 1) index = build_broadcast(&fr->b, build_reshape(&fr->b, index, rank, line), rank, shape);
  return gather(fr, x, index, axis);
}

static Py *call_flip(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *x = lib_block(fr, at, b, "x", args[0]);
  if (lib_none(args[1]))
    lib_refuse(fr, at, "name the dim, as in tl.flip(x, 0)",
               "'<=' not supported between instances of 'int' and 'NoneType': `dim` is None");
  int dim = lib_axis(fr, at, b, "dim", args[1], x->type->rank);
  if (type_numel(x->type) == 1)
    lib_refuse(fr, at, "there is nothing to flip", "'dtype' object has no attribute 'numel': %s has one element",
               type_text(fr, x->type));
  return py_tensor(fr, lib_take(fr, x, dim, x->type->shape[dim], true));
}

static const char SHAPE[] = "Shape manipulation", INDEXING[] = "Indexing";
const Builtin lib_shape_table[] = {
    {"tl", "broadcast", "input, other", call_broadcast, SHAPE, 0, NULL},
    {"tl", "broadcast_to", "input, *shape", call_broadcast_to, SHAPE, BUILTIN_MEMBER, NULL},
    {"tl", "expand_dims", "input, axis", call_expand_dims, SHAPE, BUILTIN_MEMBER, NULL},
    {"tl", "unsqueeze", "input, axis", call_expand_dims, SHAPE, 0, "Triton 3.7"},
    {"tl", "squeeze", "x, dim", call_squeeze, SHAPE, 0, "Triton 3.7"},
    {"tl", "reshape", "input, *shape, can_reorder=False", call_reshape, SHAPE, BUILTIN_MEMBER, NULL},
    {"tl", "view", "input, *shape", call_reshape, SHAPE, BUILTIN_MEMBER, "as reshape: keeps the order"},
    {"tl", "ravel", "x, can_reorder=False", call_ravel, SHAPE, BUILTIN_MEMBER, NULL},
    {"tensor", "item", "input", call_item, SHAPE, 0, NULL},
    {"tl", "trans", "input, *dims", call_trans, SHAPE, BUILTIN_MEMBER, NULL},
    {"tl", "permute", "input, *dims", call_trans, SHAPE, BUILTIN_MEMBER, NULL},
    {"tl", "join", "a, b", call_join, SHAPE, 0, NULL},
    {"tl", "split", "a", call_split, SHAPE, BUILTIN_MEMBER, NULL},
    {"tl", "interleave", "a, b", call_interleave, SHAPE, 0, NULL},
    {"tl", "gather", "src, index, axis", call_gather, INDEXING, BUILTIN_MEMBER, NULL},
    {"tl", "flip", "x, dim=None", call_flip, INDEXING, BUILTIN_MEMBER, NULL},
    {0},
};
