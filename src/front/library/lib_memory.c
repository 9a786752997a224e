/* lib_memory.c: load and store through pointers. Block pointers and descriptors are lib_blockptr.c's.
 *
 * A load broadcasts pointer, mask and `other` to one shape; a store brings value and mask to the pointer's shape, never
 * the pointer to theirs. Without `other`, masked lanes give 0, on which real kernels depend.
 */
#include "front/library/lib.h"

static Value *pointer_arg(Front *fr, const Builtin *b, Span at, Py *p) {
  if (p->kind == PY_DESC)
    lib_refuse(fr, at, "use the descriptor's .load(offsets) and .store(offsets, value)",
               "Unsupported ptr type tensor descriptor in `%s`", lib_full_name(fr, b));
  if (p->kind != PY_TENSOR)
    lib_refuse(fr, at, NULL, "Unsupported ptr type %s in `%s`: it is %s", py_kind_name(p), lib_full_name(fr, b),
               py_describe(fr, p));
  Value *v = p->value;
  if (!v->type->ptr)
    lib_refuse(fr, at,
               dtype_is_int(v->type->dtype)
                   ? "an address held in an integer becomes a pointer by .to(tl.pointer_type(tl.float32))"
                   : NULL,
               "Unsupported ptr type %s in `%s`", type_text(fr, v->type), lib_full_name(fr, b));
  return v;
}

static Value *mask_arg(Front *fr, const Builtin *b, Span at, Py *p, const Value *ptr) {
  if (lib_none(p)) return NULL;
  Value *m = lib_value(fr, at, b, "mask", p);
  if (m->type->ptr || m->type->dtype != DT_I1)
    lib_refuse(fr, at, "compare first, as in `mask != 0`", "Mask must have boolean scalar type, but it is of type %s",
               type_text(fr, m->type));
  if (!ptr->type->rank && m->type->rank)
    lib_refuse(fr, at, "add offsets to the pointer, as in `ptr + tl.arange(0, N)`",
               "Mask argument cannot be block type if pointer argument is not a block: it is %s",
               type_text(fr, m->type));
  return m;
}

static const char *read_padding(Front *fr, const Builtin *b, Span at, Py *p) {
  const char *padding = lib_option(fr, at, b, "padding_option", p);
  if (padding[0] && strcmp(padding, "nan") && strcmp(padding, "zero"))
    lib_refuse(fr, at, "it is \"\", \"zero\" or \"nan\"", "Padding option %s not supported", padding);
  return padding;
}

static void no_boundary(Front *fr, const Builtin *b, Span at, const Py *boundary, const char *padding) {
  bool has_boundary = !lib_none(boundary) && !(boundary->kind == PY_TUPLE && boundary->tuple.n == 0);
  if (has_boundary || padding[0])
    lib_refuse(fr, at, "use `mask`, or a block pointer made by tl.make_block_ptr",
               b->name[0] == 'l'
                   ? "`padding_option` or `boundary_check` argument is not supported for loading a tensor of "
                     "pointers or loading a scalar"
                   : "`boundary_check` argument is not supported for storing a tensor of pointers or "
                     "storing a scalar");
}

static Py *call_load(Front *fr, const Builtin *b, Span at, Py **args) {
  int cache = lib_cache(fr, at, b, args[5], false), evict = lib_evict(fr, at, b, args[6]);
  bool is_volatile = lib_bool(fr, at, b, "volatile", args[7]);
  const char *padding = read_padding(fr, b, at, args[4]);
  if (args[0]->kind == PY_BLOCK_PTR) {
    if (!lib_none(args[1]) || !lib_none(args[2]))
      lib_refuse(fr, at, "use `boundary_check` and `padding_option`",
                 "`mask` and `other` arguments cannot be specified for loading block pointers");
    return lib_load_block_ptr(fr, b, at, args[0]->bp, args[3], padding, cache, evict, is_volatile);
  }
  Value *ptr = pointer_arg(fr, b, at, args[0]);
  no_boundary(fr, b, at, args[3], padding);
  Value *mask = mask_arg(fr, b, at, args[1], ptr), *other = NULL;
  const Type *elem = sem_pointee(fr->cx, type_elem(fr->cx, ptr->type));
  if (!lib_none(args[2])) {
    if (!mask) lib_refuse(fr, at, NULL, "`other` cannot be provided without `mask`");
    other = lib_value(fr, at, b, "other", args[2]);
    if (!ptr->type->rank && other->type->rank)
      lib_refuse(fr, at, NULL, "Other argument cannot be block type if pointer argument is not a block: it is %s",
                 type_text(fr, other->type));
    /* An int1 element is a byte: `other` is cast to int8, then tested. */
    if (elem == type_number(fr->cx, DT_I1) && other->type->dtype != DT_I1)
      other = sem_cast_value(fr, at, other, type_number(fr->cx, DT_I8), 0, false);
    other = sem_cast_value(fr, at, other, elem, 0, false);
  }
  if (ptr->type->rank) {
    if (mask) sem_broadcast_pair(fr, at, &ptr, &mask);
    if (other) {
      sem_broadcast_pair(fr, at, &ptr, &other);
      if (!type_same_shape(ptr->type, mask->type))
        lib_refuse(fr, at, "broadcast the mask or the pointers first",
                   "Cannot broadcast, `other` makes the pointers' shape that of %s, and the mask is %s",
                   type_text(fr, other->type), type_text(fr, mask->type));
    }
  }
  Value *r = build_load(&fr->b, ptr, mask, other);
  r->def->cache = cache, r->def->evict = evict, r->def->is_volatile = is_volatile;
  return py_tensor(fr, r);
}

/* The value as it goes to memory: cast to the element's type; into int1 pointers by way of int8, as a byte. */
static Value *stored_value(Front *fr, Span at, Value **ptr, Py *value, Value *v) {
  const Type *elem = sem_pointee(fr->cx, type_elem(fr->cx, (*ptr)->type));
  if (elem == type_number(fr->cx, DT_I1) && (v->type->ptr || v->type->dtype != DT_I1)) {
    elem = type_number(fr->cx, DT_I8);
    *ptr = build_bitcast(&fr->b, *ptr, type_pointer(fr->cx, DT_I8));
  }
  return sem_cast_value(fr, at, v, elem, 0, false);
}

static Py *call_store(Front *fr, const Builtin *b, Span at, Py **args) {
  int cache = lib_cache(fr, at, b, args[4], true), evict = lib_evict(fr, at, b, args[5]);
  if (args[0]->kind == PY_BLOCK_PTR) {
    if (!lib_none(args[2]))
      lib_refuse(
          fr, at, "use `boundary_check`",
          "`mask` and `other` arguments cannot be specified for loading block pointers, nor for storing to them");
    lib_store_block_ptr(fr, b, at, args[0]->bp, args[1], args[3], cache, evict);
    return py_void(fr);
  }
  Value *ptr = pointer_arg(fr, b, at, args[0]);
  if (ptr->type->is_const)
    lib_refuse(fr, at, NULL, "Cannot store to a constant pointer (%s)", type_text(fr, ptr->type));
  no_boundary(fr, b, at, args[3], "");
  Value *mask = mask_arg(fr, b, at, args[2], ptr);
  Value *v = lib_value(fr, at, b, "value", args[1]);
  const Type *given = ptr->type;
  if (!given->rank && v->type->rank)
    lib_refuse(fr, at, "add offsets to the pointer, as in `ptr + tl.arange(0, N)`",
               "Value argument cannot be block type if pointer argument is not a block: they are %s and %s",
               type_text(fr, v->type), type_text(fr, given));
  if (given->rank) {
    Value *wide = ptr;
    const Type *value_type = v->type, *mask_type = mask ? mask->type : NULL;
    sem_broadcast_pair(fr, at, &wide, &v);
    if (mask) sem_broadcast_pair(fr, at, &wide, &mask);
    if (wide->type != given)
      lib_refuse(fr, at,
                 "a store never broadcasts its pointer: broadcast it with tl.broadcast_to or by adding offsets of the "
                 "full shape",
                 "Expected pointer argument to have shape %s but got %s: %s is %s",
                 shape_text(fr, wide->type->rank, wide->type->shape), shape_text(fr, given->rank, given->shape),
                 mask && value_type->rank == 0 ? "`mask`" : "`value`",
                 type_text(fr, mask && value_type->rank == 0 ? mask_type : value_type));
    v = sem_broadcast_to(fr, at, v, given->rank, given->shape);
  }
  v = stored_value(fr, at, &ptr, args[1], v);
  Op *op = build_store(&fr->b, ptr, v, mask);
  op->cache = cache, op->evict = evict;
  return py_void(fr);
}

static const char MEMORY[] = "Memory";
const Builtin lib_memory_table[] = {
    {"tl", "load",
     "pointer, mask=None, other=None, boundary_check=(), padding_option=\"\", cache_modifier=\"\", "
     "eviction_policy=\"\", volatile=False",
     call_load, MEMORY, 0, "`cache_modifier=\".cs\"`: Triton 3.8"},
    {"tl", "store", "pointer, value, mask=None, boundary_check=(), cache_modifier=\"\", eviction_policy=\"\"",
     call_store, MEMORY, BUILTIN_MEMBER, NULL},
    {0},
};
