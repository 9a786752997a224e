/* semantic_attr.c: attributes of tensors, dtypes, block pointers and descriptors: x.shape, x.dtype.element_ty,
 * desc.load, ...
 *
 * For a pointer (or a tensor of pointers) `.dtype` is the pointer type, whose `.element_ty` is what it points to; for a
 * tensor of numbers it is the element's type. A block pointer's `.dtype` is its base's pointer type.
 */
#include "front/core.h"
#include "front/library/lib.h"

static Py *shape_tuple(Front *fr, int rank, const int32_t *shape) {
  Py *items[MAX_RANK];
  for (int i = 0; i < rank; i++) items[i] = py_int(fr, shape[i]);
  return py_tuple(fr, rank, items);
}

static Py *tensor_attribute(Front *fr, Span at, Py *x, const char *attr) {
  Value *v = x->value;
  const Type *t = v->type;
  if (!strcmp(attr, "dtype")) return py_type(fr, type_elem(fr->cx, t));
  if (!strcmp(attr, "type")) return py_type(fr, t);
  if (!strcmp(attr, "shape")) return shape_tuple(fr, t->rank, t->shape);
  if (!strcmp(attr, "numel")) return py_int(fr, type_numel(t));
  if (!strcmp(attr, "T")) {
    if (t->rank != 2)
      diag_fail_hint(
          diag_as(fr->cx, ERROR_TYPE), at, "use tl.permute or tl.trans(x, ...) with the dims in their new order",
          "permute dims must have the same length as input shape: .T wants rank 2, but this is %s", type_text(fr, t));
    return py_tensor(fr, build_trans(&fr->b, v, (int64_t[]){1, 0}));
  }
  return lib_member(fr, "tensor", attr, x);
}

const char *const *sem_type_attributes(Front *fr) {
  static const char *const own[] = {"scalar",
                                    "element_ty",
                                    "shape",
                                    "numel",
                                    "nbytes",
                                    "name",
                                    "itemsize",
                                    "const",
                                    "int_bitwidth",
                                    "primitive_bitwidth",
                                    "int_signedness",
                                    "address_space",
                                    "fp_mantissa_width",
                                    "exponent_bias"};
  enum { OWN = sizeof own / sizeof *own };
  const char *const *tests = builtin_names(fr, "dtype");
  int n = 0;
  while (tests[n]) n++;
  const char **all = NEW_N(fr->cx->arena, const char *, OWN + n + 1);
  memcpy(all, own, sizeof own);
  memcpy(all + OWN, tests, (size_t)n * sizeof *tests);
  return all;
}

static const char *signedness(Dtype d) { return dtype_is_signed(d) ? "SIGNED" : "UNSIGNED"; }

static Py *type_attribute(Front *fr, Py *x, const char *attr) {
  const Type *t = x->type, *elem = type_elem(fr->cx, t);
  int bits = elem->ptr ? 64 : dtype_bits(elem->dtype);
  if (!strcmp(attr, "scalar")) return py_type(fr, elem);
  if (!strcmp(attr, "element_ty")) {
    if (t->rank) return py_type(fr, elem);
    if (t->ptr) return py_type(fr, sem_pointee(fr->cx, t));
    return NULL;
  }
  if (!strcmp(attr, "shape")) return t->rank ? shape_tuple(fr, t->rank, t->shape) : NULL;
  if (!strcmp(attr, "numel")) return t->rank ? py_int(fr, type_numel(t)) : NULL;
  if (!strcmp(attr, "nbytes")) return t->rank ? py_int(fr, type_numel(t) * type_elem_bytes(t)) : NULL;
  if (!strcmp(attr, "name")) return py_str(fr, elem->ptr ? "pointer" : dtype_triton_name(elem->dtype));
  if (!strcmp(attr, "primitive_bitwidth")) return py_int(fr, bits);
  if (!strcmp(attr, "itemsize")) return py_int(fr, (bits + 7) / 8);
  if (!strcmp(attr, "address_space")) return t->ptr ? py_int(fr, 1) : NULL;
  if (!strcmp(attr, "const")) return t->ptr ? py_bool(fr, t->is_const) : NULL;
  if (!elem->ptr && dtype_is_int(elem->dtype)) {
    if (!strcmp(attr, "int_bitwidth")) return py_int(fr, bits);
    if (!strcmp(attr, "int_signedness")) return py_str(fr, signedness(elem->dtype));
  }
  if (!elem->ptr && dtype_is_float(elem->dtype)) {
    static const struct {
      Dtype d;
      int mantissa, bias;
    } floats[] = {{DT_F8E5, 2, 15}, {DT_F8E4NV, 3, 7}, {DT_F8E4B15, 3, 15}, {DT_F8E4B8, 3, 8}, {DT_F8E5B16, 2, 16},
                  {DT_F16, 10, 15}, {DT_BF16, 7, 127}, {DT_F32, 23, 127},   {DT_F64, 52, 1023}};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
      if (floats[i].d != elem->dtype) continue;
      if (!strcmp(attr, "fp_mantissa_width")) return py_int(fr, floats[i].mantissa);
      if (!strcmp(attr, "exponent_bias")) return py_int(fr, floats[i].bias);
    }
  }
  return lib_member(fr, "dtype", attr, x);
}

static Py *block_ptr_attribute(Front *fr, Py *x, const char *attr) {
  BlockPtr *bp = x->bp;
  if (!strcmp(attr, "dtype") || !strcmp(attr, "type")) return py_type(fr, bp->base->type);
  if (!strcmp(attr, "block_shape")) return shape_tuple(fr, bp->rank, bp->block_shape);
  if (!strcmp(attr, "shape")) return shape_tuple(fr, bp->rank, bp->block_shape);
  return lib_member(fr, "block_ptr", attr, x);
}

/* What Triton's `.type` gives: of a number's constexpr constexpr_type(value), of a tuple the types of its items. */
Py *sem_type_of(Front *fr, Py *x) {
  stack_guard();
  if (x->kind == PY_TENSOR) return py_type(fr, x->value->type);
  if (x->kind == PY_BLOCK_PTR) return py_type(fr, x->bp->base->type);
  if (x->kind == PY_DESC) {
    Py *o = py_object(fr, NULL, "tensor_descriptor_type");
    map_put(o->object.fields, "block_type", sem_attribute(fr, (Span){0}, x, "block_type"));
    return o;
  }
  if (x->kind != PY_TUPLE || x->is_constexpr) {
    Py *o = py_object(fr, NULL, "constexpr_type");
    map_put(o->object.fields, "value", x);
    return o;
  }
  int n = x->tuple.n;
  Py *o = py_object(fr, NULL, "tuple_type"), *types = py_tuple(fr, n, x->tuple.at),
     *names = py_tuple(fr, n, x->tuple.at);
  for (int i = 0; i < n; i++) {
    types->tuple.at[i] = sem_type_of(fr, x->tuple.at[i]);
    names->tuple.at[i] = py_str(fr, x->tuple.cls ? x->tuple.cls->fields[i] : "");
  }
  map_put(o->object.fields, "types", types);
  map_put(o->object.fields, "fields", names);
  return o;
}

static Py *descriptor_attribute(Front *fr, Py *x, const char *attr) {
  BlockPtr *d = x->bp;
  Py *items[MAX_RANK];
  if (!strcmp(attr, "shape") || !strcmp(attr, "strides")) {
    for (int i = 0; i < d->rank; i++) items[i] = py_tensor(fr, attr[1] == 'h' ? d->shape[i] : d->strides[i]);
    return py_tuple(fr, d->rank, items);
  }
  if (!strcmp(attr, "block_shape")) return shape_tuple(fr, d->rank, d->block_shape);
  if (!strcmp(attr, "type")) return sem_type_of(fr, x);
  if (!strcmp(attr, "dtype")) return py_type(fr, sem_pointee(fr->cx, d->base->type));
  if (!strcmp(attr, "block_type"))
    return py_type(fr, type_tensor(fr->cx, sem_pointee(fr->cx, d->base->type), d->rank, d->block_shape));
  return lib_member(fr, "desc", attr, x);
}

Py *sem_attribute(Front *fr, Span at, Py *x, const char *attr) {
  stack_guard();
  switch (x->kind) {
    case PY_TENSOR: return tensor_attribute(fr, at, x, attr);
    case PY_TYPE: return type_attribute(fr, x, attr);
    case PY_BLOCK_PTR: return block_ptr_attribute(fr, x, attr);
    case PY_DESC: return descriptor_attribute(fr, x, attr);
    default: return NULL;
  }
}
