/* lib_blockptr.c: block pointers and tensor descriptors, lowered to plain addresses and masks.
 *
 *     address = base + sum over dims of (offset[d] + arange(block[d])) * stride[d]
 *
 * A block pointer's offsets are 64-bit; `boundary_check` names the dims whose coordinates must lie in [0, shape). A
 * descriptor's offsets are 32-bit and every dim is checked, so its coordinates are compared as int32 and widened only
 * to be multiplied by the strides. Both are values that loops may carry: the address is built where it is used.
 */
#include "front/library/lib.h"

#include <math.h>

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static int32_t *line_shape(const BlockPtr *bp, int d, int32_t *shape) {
  for (int i = 0; i < bp->rank; i++) shape[i] = i == d ? bp->block_shape[d] : 1;
  return shape;
}

/* A line along dim d as a tensor of the whole block's rank, sizes 1 elsewhere. */
static Value *place(Front *fr, const BlockPtr *bp, Value *line, int d) {
  int32_t shape[MAX_RANK];
  return bp->rank == 1 ? line : build_reshape(&fr->b, line, bp->rank, line_shape(bp, d, shape));
}

/* offset + arange along dim d, in the offset's integer type. */
static Value *coordinates(Front *fr, const BlockPtr *bp, Value *offset, int d) {
  Builder *b = &fr->b;
  int32_t n = bp->block_shape[d];
  Value *range = build_convert(b, build_arange(b, 0, n), offset->type->dtype);
  return build_binary(b, OP_ADD, build_splat(b, offset, 1, &n), range);
}

static Value *addresses(Front *fr, const BlockPtr *bp, Value *const *coords) {
  Builder *b = &fr->b;
  Value *sum = NULL;
  for (int d = 0; d < bp->rank; d++) {
    Value *c = build_convert(b, coords[d], DT_I64);
    int64_t one;
    if (!value_is_const(bp->strides[d], &one) || one != 1)
      c = build_binary(b, OP_MUL, c, build_splat(b, bp->strides[d], 1, c->type->shape));
    c = build_broadcast(b, place(fr, bp, c, d), bp->rank, bp->block_shape);
    sum = sum ? build_binary(b, OP_ADD, sum, c) : c;
  }
  return build_addptr(b, build_splat(b, bp->base, bp->rank, bp->block_shape), sum);
}

/* 0 <= coordinate < shape in the dims of `checked`; NULL when none is. */
static Value *bounds(Front *fr, const BlockPtr *bp, Value *const *coords, unsigned checked) {
  Builder *b = &fr->b;
  Value *all = NULL;
  for (int d = 0; d < bp->rank; d++) {
    if (!(checked & 1u << d)) continue;
    Value *c = coords[d], *size = build_splat(b, build_convert(b, bp->shape[d], c->type->dtype), 1, c->type->shape);
    Value *in =
        build_binary(b, OP_AND, build_cmp(b, CMP_GE, c, build_int(b, c->type, 0)), build_cmp(b, CMP_LT, c, size));
    in = build_broadcast(b, place(fr, bp, in, d), bp->rank, bp->block_shape);
    all = all ? build_binary(b, OP_AND, all, in) : in;
  }
  return all;
}

static Value *padding_value(Front *fr, const Type *elem, const BlockPtr *bp, bool nan) {
  return nan ? build_float(&fr->b, type_tensor(fr->cx, elem, bp->rank, bp->block_shape), NAN) : NULL;
}

/* ---- block pointers ---------------------------------------------------------------------------------------------- */

static unsigned read_boundary(Front *fr, const Builtin *b, Span at, const BlockPtr *bp, const Py *p) {
  if (lib_none(p) || (p->kind == PY_BOOL && !p->i)) return 0;
  if (p->kind == PY_BOOL)
    lib_refuse(fr, at, "name dims, as in (0, 1)", "'bool' object is not iterable: `boundary_check` is True");
  int64_t dims[MAX_RANK];
  int n = lib_ints(fr, at, b, "boundary_check", p, dims, MAX_RANK);
  unsigned checked = 0;
  for (int i = 0; i < n; i++) {
    if (dims[i] < 0 || dims[i] >= bp->rank)
      lib_fail(fr, at, b, NULL, "`boundary_check` names dim %lld of a block pointer that has dims 0 to %d",
               (long long)dims[i], bp->rank - 1);
    if (checked & 1u << dims[i])
      lib_refuse(fr, at, NULL, "Duplicate dimension in `boundary_check`: %lld", (long long)dims[i]);
    checked |= 1u << dims[i];
  }
  return checked;
}

static void block_coordinates(Front *fr, const BlockPtr *bp, Value **coords) {
  for (int d = 0; d < bp->rank; d++) coords[d] = coordinates(fr, bp, bp->offsets[d], d);
}

Py *lib_load_block_ptr(Front *fr, const Builtin *b, Span at, BlockPtr *bp, const Py *boundary_check,
                       const char *padding, int cache, int evict, bool is_volatile) {
  const Type *elem = type_pointee(fr->cx, bp->base->type);
  bool nan = !strcmp(padding, "nan");
  if (nan && (elem->ptr || !dtype_is_float(elem->dtype)))
    lib_refuse(fr, at, "use \"zero\"", "Padding option `nan` is not supported for integer block pointers, of %s",
               type_text(fr, elem));
  Value *coords[MAX_RANK] = {0};
  block_coordinates(fr, bp, coords);
  Value *mask = bounds(fr, bp, coords, read_boundary(fr, b, at, bp, boundary_check));
  Value *r = build_load(&fr->b, addresses(fr, bp, coords), mask, mask ? padding_value(fr, elem, bp, nan) : NULL);
  r->def->cache = cache, r->def->evict = evict, r->def->is_volatile = is_volatile;
  return py_tensor(fr, r);
}

void lib_store_block_ptr(Front *fr, const Builtin *b, Span at, BlockPtr *bp, Py *value, const Py *boundary_check,
                         int cache, int evict) {
  const Type *elem = type_pointee(fr->cx, bp->base->type);
  if (bp->base->type->is_const) lib_refuse(fr, at, NULL, "Cannot store to a constant pointer");
  Value *v = lib_value(fr, at, b, "value", value);
  if (v->type->rank &&
      !(v->type->rank == bp->rank && !memcmp(v->type->shape, bp->block_shape, sizeof(int32_t) * (size_t)bp->rank)))
    lib_refuse(fr, at, "broadcast it with tl.broadcast_to", "Block shape(%s) and value shape(%s) mismatch",
               shape_text(fr, bp->rank, bp->block_shape), shape_text(fr, v->type->rank, v->type->shape));
  const Type *from = type_elem(fr->cx, v->type);
  if (from != elem)
    lib_refuse(fr, at,
               py_is_number(value) ? "make the number of that type: tl.full([], value, dtype)"
                                   : "a store through a block pointer does not cast: write value.to(dtype)",
               "Block element type(%s) and value element type(%s) mismatch", type_text(fr, elem), type_text(fr, from));
  v = sem_broadcast_to(fr, at, v, bp->rank, bp->block_shape);
  Value *coords[MAX_RANK] = {0};
  block_coordinates(fr, bp, coords);
  Value *mask = bounds(fr, bp, coords, read_boundary(fr, b, at, bp, boundary_check));
  Op *op = build_store(&fr->b, addresses(fr, bp, coords), v, mask);
  op->cache = cache, op->evict = evict;
}

/* Integers of a shape, strides or offsets argument as scalars of type `to`. */
static int scalars(Front *fr, const Builtin *b, Span at, const char *name, const Py *p, Dtype to, Value **out) {
  int n = p->kind == PY_TUPLE ? p->tuple.n : 1;
  if (n > MAX_RANK) lib_fail(fr, at, b, NULL, "`%s` has %d entries, but at most %d can be", name, n, MAX_RANK);
  for (int i = 0; i < n; i++) {
    Py *item = p->kind == PY_TUPLE ? p->tuple.at[i] : (Py *)p;
    if (item->kind == PY_INT || item->kind == PY_BOOL) {
      if ((to == DT_I32 || !strcmp(name, "offsets")) && (item->i < INT32_MIN || item->i > INT32_MAX))
        lib_refuse(fr, at, NULL,
                   "Block pointers only support 32 bit `offsets/block_shape`, got a value %s which is out "
                   "of the range, for `%s[%d]`",
                   py_describe(fr, item), name, i);
      if (item->i < INT64_MIN || item->i > INT64_MAX)
        lib_refuse(fr, at, NULL,
                   "Block pointers only support 64 bit `shape/strides`, got a value %s which is out of the range, for "
                   "`%s[%d]`",
                   py_describe(fr, item), name, i);
      out[i] = build_int(&fr->b, type_number(fr->cx, to), (int64_t)item->i);
      continue;
    }
    if (item->kind == PY_TENSOR && type_numel(item->value->type) != 1)
      lib_refuse(fr, at, NULL, "Expected a scalar in shape/strides/offsets: `%s[%d]` is %s", name, i,
                 py_describe(fr, item));
    if (item->kind != PY_TENSOR || item->value->type->ptr || !dtype_is_int(item->value->type->dtype))
      lib_refuse(fr, at, NULL, "Expected an integer scalar type in shape/strides/offsets: `%s[%d]` is %s", name, i,
                 py_describe(fr, item));
    Value *v = item->value;
    if (v->type->rank) v = build_reshape(&fr->b, v, 0, NULL);
    out[i] = build_convert(&fr->b, v, to);
  }
  return n;
}

static NORETURN void length_differs(Front *fr, const Builtin *b, Span at, const char *name, int n, int rank) {
  if (strstr(b->name, "descriptor")) lib_refuse(fr, at, NULL, "Expected %d %s but got %d", rank, name, n);
  lib_refuse(
      fr, at, NULL,
      "Expected shape/strides/offsets/block_shape to have the same length: `%s` has %d, but `block_shape` has %d", name,
      n, rank);
}

static Value *base_arg(Front *fr, const Builtin *b, Span at, Py *p) {
  Value *base = lib_tensor(fr, at, b, "base", p);
  if (!base->type->ptr || base->type->rank)
    lib_refuse(fr, at, base->type->ptr ? "the block's offsets go into `offsets`" : NULL,
               "Expected `base` to be a pointer type (but not a block pointer type or others): it is of type %s",
               type_text(fr, base->type));
  return base;
}

static Py *bp_value(Front *fr, PyKind kind, const BlockPtr *bp) {
  Py *p = NEW(fr->cx->arena, Py);
  p->kind = kind;
  p->bp = arena_copy(fr->cx->arena, bp, sizeof *bp);
  return p;
}

static Py *call_make_block_ptr(Front *fr, const Builtin *b, Span at, Py **args) {
  BlockPtr bp = {.base = base_arg(fr, b, at, args[0])};
  const Type *elem = type_pointee(fr->cx, bp.base->type);
  if (!elem->ptr && elem->dtype == DT_I1) /* bytes, which int1 is neither loaded from nor stored to */
    bp.base = build_bitcast(&fr->b, bp.base, type_pointer(fr->cx, DT_I8));
  bp.rank = lib_shape(fr, at, b, "block_shape", args[4], bp.block_shape);
  if (bp.rank == 0) lib_fail(fr, at, b, NULL, "`block_shape` must have at least one dim");
  static const char *const names[] = {"shape", "strides", "offsets"};
  Value **parts[] = {bp.shape, bp.strides, bp.offsets};
  for (int i = 0; i < 3; i++) {
    int n = scalars(fr, b, at, names[i], args[1 + i], DT_I64, parts[i]);
    if (n != bp.rank) length_differs(fr, b, at, names[i], n, bp.rank);
  }
  int64_t order[MAX_RANK];
  int n = lib_ints(fr, at, b, "order", args[5], order, MAX_RANK);
  if (n != bp.rank) length_differs(fr, b, at, "order", n, bp.rank);
  unsigned seen = 0;
  for (int i = 0; i < n; i++)
    if (order[i] >= 0 && order[i] < n) seen |= 1u << order[i];
  if (seen != (1u << n) - 1)
    lib_refuse(fr, at, NULL, "Expected a permutation of (0, 1, ..., len(order)-1) in order, but it is %s",
               py_describe(fr, args[5]));
  return bp_value(fr, PY_BLOCK_PTR, &bp);
}

static Py *call_advance(Front *fr, const Builtin *b, Span at, Py **args) {
  if (args[0]->kind != PY_BLOCK_PTR)
    lib_fail(fr, at, b, args[0]->kind == PY_TENSOR ? "add to a plain pointer with +" : NULL,
             "`base` must be a block pointer, but it is %s", py_describe(fr, args[0]));
  BlockPtr bp = *args[0]->bp;
  Value *by[MAX_RANK];
  int n = scalars(fr, b, at, "offsets", args[1], DT_I64, by);
  if (n != bp.rank)
    lib_fail(fr, at, b, NULL, "`offsets` has %d entries, but the block pointer has %d dims", n, bp.rank);
  for (int d = 0; d < n; d++) {
    int64_t zero;
    if (!value_is_const(by[d], &zero) || zero != 0) bp.offsets[d] = build_binary(&fr->b, OP_ADD, bp.offsets[d], by[d]);
  }
  return bp_value(fr, PY_BLOCK_PTR, &bp);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

static Value *promise(Front *fr, Value *v, int64_t divisor) {
  int64_t known;
  if (value_is_const(v, &known)) return v;
  Op *op = build_op(&fr->b, OP_HINT, 1, &v, 1, &v->type);
  op->kind = HINT_DIVISIBLE;
  op->dims = arena_copy(fr->cx->arena, &divisor, sizeof divisor);
  op->dim_count = 1;
  op->out[0]->name = v->name;
  return op->out[0];
}

static const Value *unconverted(const Value *v) {
  while (v->def && v->def->code == OP_CONVERT) v = v->def->in[0];
  return v;
}

/* What Triton asks of descriptors: that they begin at 16 bytes, and that so do all rows. So does the end of rows that
 * lie without gaps, whose number of columns is the stride. */
static void promise_alignment(Front *fr, BlockPtr *d) {
  int bytes = type_elem_bytes(type_pointee(fr->cx, d->base->type)), elements = bytes < 16 ? 16 / bytes : 1;
  d->base = promise(fr, d->base, 16);
  for (int i = 0; i + 1 < d->rank; i++) {
    for (int k = 0; k < d->rank; k++)
      if (unconverted(d->shape[k]) == unconverted(d->strides[i])) d->shape[k] = promise(fr, d->shape[k], elements);
    d->strides[i] = promise(fr, d->strides[i], elements);
  }
}

static Py *call_make_descriptor(Front *fr, const Builtin *b, Span at, Py **args) {
  BlockPtr d = {.base = base_arg(fr, b, at, args[0])};
  const Type *elem = type_pointee(fr->cx, d.base->type);
  d.rank = lib_shape(fr, at, b, "block_shape", args[3], d.block_shape);
  if (d.rank < 1 || d.rank > 5) lib_refuse(fr, at, NULL, "Expected 1 <= ndim <= 5 but got %d dimensions", d.rank);
  int n = scalars(fr, b, at, "shape", args[1], DT_I32, d.shape);
  if (n != d.rank) length_differs(fr, b, at, "shape", n, d.rank);
  const Py *strides = args[2],
           *last = strides->kind == PY_TUPLE && strides->tuple.n ? strides->tuple.at[strides->tuple.n - 1] : strides;
  n = scalars(fr, b, at, "strides", strides, DT_I64, d.strides);
  if (n != d.rank) length_differs(fr, b, at, "strides", n, d.rank);
  if (!(last->kind == PY_INT && last->i == 1) && !(last->kind == PY_BOOL && last->i == 1))
    lib_refuse(fr, at, "write the literal 1", "Tensor descriptor last dim must be 1 but got %s: the last of `strides`",
               py_describe(fr, last));
  if ((int64_t)d.block_shape[d.rank - 1] * type_elem_bytes(elem) < 16)
    lib_refuse(fr, at, NULL,
               "Descriptor block shape must have at least 16 bytes in the last dimension, but got %d * %d = %d bytes",
               d.block_shape[d.rank - 1], type_elem_bytes(elem), d.block_shape[d.rank - 1] * type_elem_bytes(elem));
  const char *padding = lib_option(fr, at, b, "padding_option", args[4]);
  d.nan_padding = !strcmp(padding, "nan");
  if (padding[0] && !d.nan_padding && strcmp(padding, "zero"))
    lib_refuse(fr, at, "it is \"zero\" or \"nan\"", "Padding option %s not supported", padding);
  if (d.nan_padding && (elem->ptr || !dtype_is_float(elem->dtype)))
    lib_refuse(fr, at, "use \"zero\"", "Padding option `nan` is not supported for integer blocks, of %s",
               type_text(fr, elem));
  promise_alignment(fr, &d);
  return bp_value(fr, PY_DESC, &d);
}

static BlockPtr *descriptor_arg(Front *fr, const Builtin *b, Span at, const Py *p) {
  if (p->kind != PY_DESC)
    lib_fail(fr, at, b, "make one with tl.make_tensor_descriptor", "`desc` must be a tensor descriptor, but it is %s",
             py_describe(fr, p));
  return p->bp;
}

static void no_int64(Front *fr, const Builtin *b, Span at, const char *name, const Py *p) {
  int n = p->kind == PY_TUPLE ? p->tuple.n : 1;
  for (int i = 0; i < n; i++) {
    const Py *item = p->kind == PY_TUPLE ? p->tuple.at[i] : p;
    if (item->kind == PY_TENSOR && !item->value->type->ptr && item->value->type->dtype == DT_I64)
      lib_refuse(fr, at, "add .to(tl.int32)",
                 "Block pointers only support 32 bit `offsets/block_shape`, and so do "
                 "descriptors: `%s[%d]` is %s",
                 name, i, py_describe(fr, item));
  }
}

typedef struct DescAccess {
  Value *ptr, *mask;
} DescAccess;

static DescAccess access_at(Front *fr, const Builtin *b, Span at, const BlockPtr *d, const Py *offsets) {
  Value *by[MAX_RANK] = {0}, *coords[MAX_RANK] = {0};
  no_int64(fr, b, at, "offsets", offsets);
  int n = scalars(fr, b, at, "offsets", offsets, DT_I32, by);
  if (n != d->rank) lib_refuse(fr, at, NULL, "expected %d offsets, but got %d", d->rank, n);
  for (int i = 0; i < n; i++) coords[i] = coordinates(fr, d, by[i], i);
  Value *mask = bounds(fr, d, coords, (1u << n) - 1);
  return (DescAccess){addresses(fr, d, coords), mask};
}

static Py *call_desc_load(Front *fr, const Builtin *b, Span at, Py **args) {
  BlockPtr *d = descriptor_arg(fr, b, at, args[0]);
  const Type *elem = type_pointee(fr->cx, d->base->type);
  DescAccess a = access_at(fr, b, at, d, args[1]);
  Value *r = build_load(&fr->b, a.ptr, a.mask, padding_value(fr, elem, d, d->nan_padding));
  return py_tensor(fr, r);
}

static Value *desc_value(Front *fr, const Builtin *b, Span at, const BlockPtr *d, Py *p) {
  Value *v = lib_tensor(fr, at, b, "value", p);
  if (v->type->rank != d->rank || memcmp(v->type->shape, d->block_shape, sizeof(int32_t) * (size_t)d->rank))
    lib_refuse(fr, at, NULL, "expected value shape %s, got %s", shape_text(fr, d->rank, d->block_shape),
               shape_text(fr, v->type->rank, v->type->shape));
  return v;
}

static Py *call_desc_store(Front *fr, const Builtin *b, Span at, Py **args) {
  BlockPtr *d = descriptor_arg(fr, b, at, args[0]);
  Value *v = sem_cast_value(fr, at, desc_value(fr, b, at, d, args[2]), type_pointee(fr->cx, d->base->type), 0, false);
  DescAccess a = access_at(fr, b, at, d, args[1]);
  build_store(&fr->b, a.ptr, v, a.mask);
  return py_void(fr);
}

static Py *call_desc_atomic(Front *fr, const Builtin *b, Span at, Py **args) {
  static const struct {
    const char *name;
    RmwKind kind;
    const char *types;
  } kinds[] = {{"atomic_add", RMW_ADD, " u32 i32 u64 f32 f16 bf16 "},
               {"atomic_min", RMW_MIN, " u32 i32 u64 i64 f16 bf16 "},
               {"atomic_max", RMW_MAX, " u32 i32 u64 i64 f16 bf16 "},
               {"atomic_and", RMW_AND, " u32 i32 u64 i64 "},
               {"atomic_or", RMW_OR, " u32 i32 u64 i64 "},
               {"atomic_xor", RMW_XOR, " u32 i32 u64 i64 "}};
  BlockPtr *d = descriptor_arg(fr, b, at, args[0]);
  const Type *elem = type_pointee(fr->cx, d->base->type);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(kinds[i].name, b->name)) continue;
    if (elem->ptr || !strstr(kinds[i].types, arena_printf(fr->cx->arena, " %s ", dtype_name(elem->dtype))))
      lib_refuse(fr, at, NULL, "Unsupported dtype: the descriptor's elements must be one of%s, but they are %s",
                 arena_strndup(fr->cx->arena, kinds[i].types, strlen(kinds[i].types) - 1), type_text(fr, elem));
    Value *v = sem_cast_value(fr, at, desc_value(fr, b, at, d, args[2]), elem, 0, false);
    DescAccess a = access_at(fr, b, at, d, args[1]);
    Op *op = build_op(&fr->b, OP_ATOMIC_RMW, 3, (Value *[]){a.ptr, v, a.mask}, 1, &v->type);
    op->kind = kinds[i].kind;
    op->sem = SEM_RELAXED;
  }
  return py_void(fr);
}

/* gather and scatter: rows x_offsets, columns y_offset + arange. */
static DescAccess rows_at(Front *fr, const Builtin *b, Span at, const BlockPtr *d, Py *x_offsets, Py *y_offset) {
  if (d->rank != 2)
    lib_refuse(fr, at, NULL, "descriptor must be 2D, but got %s", shape_text(fr, d->rank, d->block_shape));
  if (d->block_shape[0] != 1)
    lib_refuse(fr, at, NULL, "descriptor block must have 1 row, but got %s", shape_text(fr, d->rank, d->block_shape));
  Value *x = lib_block(fr, at, b, "x_offsets", x_offsets), *y;
  if (x->type->rank != 1) lib_refuse(fr, at, NULL, "x offsets must be 1D, but got %s", type_text(fr, x->type));
  if (x->type->ptr || (x->type->dtype != DT_I32 && x->type->dtype != DT_I16))
    lib_refuse(fr, at, NULL, "x offsets must have dtype int16 or int32, but got %s", type_text(fr, x->type));
  if (x->type->shape[0] < 8)
    lib_refuse(fr, at, NULL, "descriptor %s must have at least 8 rows, but got %s", b->name, type_text(fr, x->type));
  const Type *elem = type_pointee(fr->cx, d->base->type);
  int columns = 32 / (type_elem_bytes(elem) * 8) * 8;
  if (d->block_shape[1] < columns)
    lib_refuse(fr, at, NULL, "descriptor %s of %s must have at least %d columns, but got %d", b->name,
               type_text(fr, elem), columns, d->block_shape[1]);
  no_int64(fr, b, at, "y_offset", y_offset);
  scalars(fr, b, at, "y_offset", y_offset, DT_I32, &y);
  BlockPtr rows = *d;
  rows.block_shape[0] = x->type->shape[0];
  Value *coords[2] = {build_convert(&fr->b, x, DT_I32), coordinates(fr, &rows, y, 1)};
  Value *mask = bounds(fr, &rows, coords, 3);
  return (DescAccess){addresses(fr, &rows, coords), mask};
}

static Py *call_desc_gather(Front *fr, const Builtin *b, Span at, Py **args) {
  BlockPtr *d = descriptor_arg(fr, b, at, args[0]);
  DescAccess a = rows_at(fr, b, at, d, args[1], args[2]);
  BlockPtr rows = {.rank = 2, .block_shape = {a.ptr->type->shape[0], a.ptr->type->shape[1]}};
  return py_tensor(fr, build_load(&fr->b, a.ptr, a.mask,
                                  padding_value(fr, type_pointee(fr->cx, d->base->type), &rows, d->nan_padding)));
}

static Py *call_desc_scatter(Front *fr, const Builtin *b, Span at, Py **args) {
  BlockPtr *d = descriptor_arg(fr, b, at, args[0]);
  DescAccess a = rows_at(fr, b, at, d, args[2], args[3]);
  Value *v = lib_tensor(fr, at, b, "value", args[1]);
  if (!type_same_shape(v->type, a.ptr->type))
    lib_fail(fr, at, b, NULL, "`value` must have shape %s, but it is %s", shape_text(fr, 2, a.ptr->type->shape),
             type_text(fr, v->type));
  build_store(&fr->b, a.ptr, sem_cast_value(fr, at, v, type_pointee(fr->cx, d->base->type), 0, false), a.mask);
  return py_void(fr);
}

/* Triton 3.0's form took a pointer to a descriptor that the CUDA driver had encoded. */
static Py *call_raw_descriptor(Front *fr, const Builtin *b, Span at, Py **args) {
  lib_fail(fr, at, b, "pass a tensor descriptor, or make one with tl.make_tensor_descriptor",
           "descriptors encoded by the CUDA driver are not supported");
}

static const char BLOCK[] = "Block pointers and descriptors";
#define DESC_ATOMIC(name) \
  { "desc", name, "desc, offsets, value", call_desc_atomic, BLOCK, 0, NULL }
const Builtin lib_blockptr_table[] = {
    {"tl", "make_block_ptr", "base, shape, strides, offsets, block_shape, order", call_make_block_ptr, BLOCK, 0, NULL},
    {"tl", "advance", "base, offsets", call_advance, BLOCK, BUILTIN_MEMBER | BUILTIN_MUST_USE, NULL},
    {"block_ptr", "advance", "base, offsets", call_advance, NULL, BUILTIN_MUST_USE, NULL},
    {"tl", "make_tensor_descriptor", "base, shape, strides, block_shape, padding_option=\"zero\"", call_make_descriptor,
     BLOCK, 0, NULL},
    {"tl", "_experimental_make_tensor_descriptor", "base, shape, strides, block_shape, padding_option=\"zero\"",
     call_make_descriptor, BLOCK, 0, "Triton 3.3"},
    {"tl", "load_tensor_descriptor", "desc, offsets", call_desc_load, BLOCK, 0, NULL},
    {"tl", "store_tensor_descriptor", "desc, offsets, value", call_desc_store, BLOCK, 0, NULL},
    {"desc", "load", "desc, offsets", call_desc_load, BLOCK, 0, NULL},
    {"desc", "store", "desc, offsets, value", call_desc_store, BLOCK, 0, NULL},
    {"desc", "gather", "desc, x_offsets, y_offset", call_desc_gather, BLOCK, 0, NULL},
    {"desc", "scatter", "desc, value, x_offsets, y_offset", call_desc_scatter, BLOCK, 0, NULL},
    {"tl", "_experimental_descriptor_load", "desc_pointer, offsets, shape, dtype", call_raw_descriptor, NULL,
     BUILTIN_NOWHERE, NULL},
    {"tl", "_experimental_descriptor_store", "desc_pointer, value, offsets", call_raw_descriptor, NULL, BUILTIN_NOWHERE,
     NULL},
    DESC_ATOMIC("atomic_add"),
    DESC_ATOMIC("atomic_min"),
    DESC_ATOMIC("atomic_max"),
    DESC_ATOMIC("atomic_and"),
    DESC_ATOMIC("atomic_or"),
    DESC_ATOMIC("atomic_xor"),
    {0},
};
