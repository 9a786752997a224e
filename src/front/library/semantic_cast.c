/* semantic_cast.c: casts, broadcasting and subscripts of tensors.
 *
 * Broadcasting is numpy's: the operand of lower rank gets leading dims of size 1, then dims of size 1 grow; scalars
 * splat.
 *
 *     i32[128] with i32[64,1]  ->  [1,128] and [64,1]  ->  both [64,128]
 *
 * Casts follow the table in docs/reference/language.md: floats to narrower floats round to nearest even, fp8 saturates,
 * anything to int1 is `!= 0`, and a float reaches an fp8 type or leaves it only by way of floats.
 */
#include "front/library/lib.h"

#include <math.h>

/* ---- constants --------------------------------------------------------------------------------------------------- */

const Type *sem_natural_type(Front *fr, Span at, const Py *number) {
  Dtype d = DT_I1;
  if (number->kind == PY_INT) {
    PyInt v = number->i, one = 1;
    if (v >= -(one << 31) && v < (one << 31)) d = DT_I32;
    else if (v >= 0 && v < (one << 32)) d = DT_U32;
    else if (v >= -(one << 63) && v < (one << 63)) d = DT_I64;
    else if (v >= 0 && v < (one << 64)) d = DT_U64;
    else
      diag_fail(diag_as(fr->cx, ERROR_TYPE), at, "Nonrepresentable integer %s: it does not fit in 64 bits",
                py_describe(fr, number));
  } else if (number->kind == PY_FLOAT) {
    double a = fabs(number->f);
    d = isinf(a) || a == 0 || isnan(a) || (a >= 0x1p-126 && a <= 0x1.fffffep127) ? DT_F32 : DT_F64;
  }
  return type_number(fr->cx, d);
}

Value *sem_constant(Front *fr, Span at, const Py *number, const Type *elem) {
  if (dtype_is_float(elem->dtype)) return build_float(&fr->b, elem, py_as_double(number));
  if (number->kind == PY_FLOAT) return build_int(&fr->b, elem, (int64_t)number->f);
  return build_int(&fr->b, elem, (int64_t)number->i);
}

Value *sem_to_value(Front *fr, Span at, Py *x, const char *what) {
  if (x->kind == PY_TENSOR) return x->value;
  if (py_is_number(x)) return sem_constant(fr, at, x, sem_natural_type(fr, at, x));
  if (x->kind == PY_BLOCK_PTR || x->kind == PY_DESC)
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "tl.load gives its elements",
                   "cannot convert a %s to tensor: %s must be a tensor or a number", py_kind_name(x), what);
  diag_fail(diag_as(fr->cx, ERROR_TYPE), at,
            "cannot convert %s of type <class '%s'> to tensor: %s must be a tensor or a number", py_describe(fr, x),
            py_class_name(x), what);
}

bool sem_is_ptr(const Type *t) { return t->ptr > 0; }

const Type *sem_pointee(Context *cx, const Type *t) { return type_pointee(cx, t); }

const char *type_text(Front *fr, const Type *t) {
  Buf b = {.arena = fr->cx->arena};
  type_print(&b, t);
  const char *s = arena_strdup(fr->cx->arena, b.at ? b.at : "");
  buf_destroy(&b);
  return s;
}

const char *shape_text(Front *fr, int rank, const int32_t *shape) {
  const char *s = "[";
  for (int i = 0; i < rank; i++) s = arena_printf(fr->cx->arena, "%s%s%d", s, i ? ", " : "", shape[i]);
  return arena_printf(fr->cx->arena, "%s]", s);
}

/* ---- casts ------------------------------------------------------------------------------------------------------- */

static NORETURN void cannot_cast(Front *fr, Span at, Value *v, const Type *to, const char *hint) {
  if (hint)
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, hint, "cannot cast %s to %s", type_text(fr, v->type),
                   type_text(fr, to));
  diag_fail(diag_as(fr->cx, ERROR_TYPE), at, "cannot cast %s to %s", type_text(fr, v->type), type_text(fr, to));
}

static Value *not_zero(Front *fr, Value *v) {
  Builder *b = &fr->b;
  Value *zero = dtype_is_float(v->type->dtype) ? build_float(b, v->type, 0.0) : build_int(b, v->type, 0);
  return build_cmp(b, CMP_NE, v, zero);
}

/* Between pointers, or a pointer and an integer: the address itself. */
static Value *cast_pointer(Front *fr, Span at, Value *v, const Type *to) {
  Builder *b = &fr->b;
  const Type *from = v->type;
  if (from->ptr && to->ptr) return build_bitcast(b, v, to);
  if (from->ptr) {
    if (!dtype_is_int(to->dtype)) cannot_cast(fr, at, v, to, "a pointer casts to tl.int64 or tl.uint64");
    if (dtype_bits(to->dtype) == 64) return build_bitcast(b, v, to);
    if (to->dtype == DT_I1) return not_zero(fr, build_bitcast(b, v, type_number(fr->cx, DT_I64)));
    cannot_cast(fr, at, v, to, "a pointer casts to tl.int64 or tl.uint64");
  }
  if (!dtype_is_int(from->dtype)) cannot_cast(fr, at, v, to, "only integers become pointers");
  if (dtype_bits(from->dtype) != 64) cannot_cast(fr, at, v, to, "only integers of 64 bits do: cast to tl.int64 first");
  return build_bitcast(b, v, to);
}

Value *sem_cast_value(Front *fr, Span at, Value *v, const Type *to, int rounding, bool bitcast) {
  Builder *b = &fr->b;
  to = type_elem(fr->cx, to);
  const Type *from = type_elem(fr->cx, v->type);
  if (from == to) return v;
  if (from->ptr || to->ptr) return cast_pointer(fr, at, v, to);
  Dtype f = from->dtype, t = to->dtype;
  if (bitcast) {
    if (dtype_bits(f) != dtype_bits(t))
      diag_fail(diag_as(fr->cx, ERROR_TYPE), at,
                "Cannot bitcast data-type of size %d to data-type of size %d: %s to %s", dtype_bits(f), dtype_bits(t),
                type_text(fr, v->type), dtype_name(t));
    return build_bitcast(b, v, to);
  }
  if ((dtype_is_fp8(f) && dtype_is_int(t)) || (dtype_is_fp8(t) && dtype_is_int(f)))
    cannot_cast(fr, at, v, to, "fp8 and integers convert only by way of a float type such as tl.float32");
  if (t == DT_I1) return not_zero(fr, v);
  Value *r = build_convert(b, v, t);
  if (rounding && r->def && r->def->code == OP_CONVERT) r->def->rounding = rounding;
  return r;
}

Py *sem_cast(Front *fr, Span at, Py *x, const Type *to_elem, int rounding, bool bitcast) {
  return py_tensor(fr, sem_cast_value(fr, at, sem_to_value(fr, at, x, "what is cast"), to_elem, rounding, bitcast));
}

/* ---- broadcasting ------------------------------------------------------------------------------------------------ */

Value *sem_splat(Front *fr, Value *v, int rank, const int32_t *shape) {
  return rank ? build_splat(&fr->b, v, rank, shape) : v;
}

Value *sem_expand_dims(Front *fr, Value *v, int axis) {
  if (v->type->rank == 0) return build_splat(&fr->b, v, 1, (int32_t[]){1});
  return build_expand_dims(&fr->b, v, axis);
}

Value *sem_broadcast_to(Front *fr, Span at, Value *v, int rank, const int32_t *shape) {
  if (v->type->rank == 0) return sem_splat(fr, v, rank, shape);
  if (v->type->rank != rank)
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "add dims with [:, None] or tl.expand_dims first",
                   "Cannot broadcast, rank mismatch: %s, %s", shape_text(fr, v->type->rank, v->type->shape),
                   shape_text(fr, rank, shape));
  bool same = true;
  for (int i = 0; i < rank; i++) {
    if (v->type->shape[i] == shape[i]) continue;
    same = false;
    if (v->type->shape[i] != 1)
      diag_fail(
          fr->cx, at,
          "Cannot broadcast, the expanded size of the tensor (%d) must match the existing size (%d) at non-singleton "
          "dimension %d: %s, %s",
          shape[i], v->type->shape[i], i, shape_text(fr, rank, v->type->shape), shape_text(fr, rank, shape));
  }
  return same ? v : build_broadcast(&fr->b, v, rank, shape);
}

void sem_broadcast_pair(Front *fr, Span at, Value **pa, Value **pb) {
  Value *a = *pa, *b = *pb;
  if (a->type->rank == 0 && b->type->rank == 0) return;
  if (a->type->rank == 0) {
    *pa = sem_splat(fr, a, b->type->rank, b->type->shape);
    return;
  }
  if (b->type->rank == 0) {
    *pb = sem_splat(fr, b, a->type->rank, a->type->shape);
    return;
  }
  const Type *ta = a->type, *tb = b->type;
  while (a->type->rank < b->type->rank) a = build_expand_dims(&fr->b, a, 0);
  while (b->type->rank < a->type->rank) b = build_expand_dims(&fr->b, b, 0);
  int rank = a->type->rank;
  int32_t shape[MAX_RANK];
  int64_t numel = 1;
  for (int i = 0; i < rank; i++) {
    int32_t x = a->type->shape[i], y = b->type->shape[i];
    if (x != y && x != 1 && y != 1)
      diag_fail(diag_as(fr->cx, ERROR_TYPE), at,
                "Cannot make_shape_compatible: incompatible dimensions at index %d: %d and %d, of %s and %s", i, x, y,
                type_text(fr, ta), type_text(fr, tb));
    shape[i] = x == 1 ? y : x;
    numel *= shape[i];
  }
  if (numel > MAX_TILE_ELEMENTS)
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "use smaller blocks",
                   "numel (%lld) exceeds triton maximum tensor numel (%d): %s and %s broadcast to %s", (long long)numel,
                   MAX_TILE_ELEMENTS, type_text(fr, ta), type_text(fr, tb), shape_text(fr, rank, shape));
  *pa = sem_broadcast_to(fr, at, a, rank, shape);
  *pb = sem_broadcast_to(fr, at, b, rank, shape);
}

void sem_broadcast_all(Front *fr, Span at, int n, Value **v) {
  for (int i = 1; i < n; i++) sem_broadcast_pair(fr, at, &v[0], &v[i]);
  for (int i = 1; i < n; i++) sem_broadcast_pair(fr, at, &v[0], &v[i]);
}

/* ---- subscripts -------------------------------------------------------------------------------------------------- */

static bool absent(const Py *p) { return !p || p->kind == PY_NONE; }

/* None inserts a dim at its place among the subscripts; a full slice stands for a dim that stays (also for one more
 * than there are, as Triton has it). */
static Value *subscript_one(Front *fr, Span at, Value *v, const Py *index, int dim) {
  if (index->kind == PY_NONE) {
    if (v->type->rank == MAX_RANK) diag_fail(diag_as(fr->cx, ERROR_TYPE), at, "a tensor has at most %d dims", MAX_RANK);
    return sem_expand_dims(fr, v, dim < v->type->rank ? dim : v->type->rank);
  }
  if (index->kind == PY_SLICE && absent(index->slice.start) && absent(index->slice.stop) && absent(index->slice.step))
    return v;
  diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at,
                 "to pick elements use tl.gather, tl.split, a reduction, or load them from memory",
                 "unsupported tensor index: %s; a tensor takes only `:` and `None`",
                 index->kind == PY_SLICE ? "a slice with bounds" : py_describe(fr, index));
}

Py *sem_subscript(Front *fr, Span at, Py *tensor, Py *index) {
  Value *v = sem_to_value(fr, at, tensor, "what is subscripted");
  if (index->kind != PY_TUPLE) return py_tensor(fr, subscript_one(fr, at, v, index, 0));
  for (int i = 0; i < index->tuple.n; i++) v = subscript_one(fr, at, v, index->tuple.at[i], i);
  return py_tensor(fr, v);
}
