/* Types of the tile IR, interned.
 *
 * cx->types maps a type's bytes to the one Type that has them, so that equal types are the same pointer and comparing
 * types is comparing pointers. The bytes are brought into one form first: dims past the rank are 0, padding is 0.
 *
 * In text a type is its stars, "const" for memory that is not stored through, the element, and the shape:
 *
 *     f32    i1[128]    *bf16[64,32]    **f32    *const f32[16]
 */
#include "tile/tile.h"

const Type *type_make(Context *cx, Type t) {
  Type key;
  memset(&key, 0, sizeof key);
  key.dtype = t.dtype;
  key.ptr = t.ptr;
  key.rank = t.rank;
  key.is_const = t.ptr && t.is_const;
  for (int d = 0; d < t.rank; d++) key.shape[d] = t.shape[d];
  if (!cx->types) cx->types = map_create(cx->arena, true);
  Type *known = map_get_n(cx->types, (const char *)&key, sizeof key);
  if (known) return known;
  Type *made = arena_copy(cx->arena, &key, sizeof key);
  map_put_n(cx->types, (const char *)made, sizeof *made, made);
  return made;
}

const Type *type_number(Context *cx, Dtype d) { return type_make(cx, (Type){.dtype = d}); }
const Type *type_pointer(Context *cx, Dtype d) { return type_make(cx, (Type){.dtype = d, .ptr = 1}); }

const Type *type_tensor(Context *cx, const Type *elem, int rank, const int32_t *shape) {
  Type t = *elem;
  t.rank = (uint8_t)rank;
  for (int d = 0; d < rank; d++) t.shape[d] = shape[d];
  return type_make(cx, t);
}

const Type *type_elem(Context *cx, const Type *t) { return t->rank ? type_tensor(cx, t, 0, NULL) : t; }

const Type *type_with_elem(Context *cx, const Type *t, const Type *elem) {
  return type_tensor(cx, elem, t->rank, t->shape);
}

const Type *type_with_dtype(Context *cx, const Type *t, Dtype d) {
  Type with = *t;
  with.dtype = d;
  with.ptr = 0;
  return type_make(cx, with);
}

const Type *type_pointee(Context *cx, const Type *t) {
  Type to = *t;
  to.ptr--;
  to.is_const = false;
  return type_make(cx, to);
}

int64_t type_numel(const Type *t) {
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) n *= t->shape[d];
  return n;
}

int type_elem_bytes(const Type *t) { return t->ptr ? 8 : dtype_bytes(t->dtype); }

bool type_same_shape(const Type *a, const Type *b) {
  if (a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; d++)
    if (a->shape[d] != b->shape[d]) return false;
  return true;
}

void type_print(Buf *out, const Type *t) {
  for (int i = 0; i < t->ptr; i++) buf_putc(out, '*');
  if (t->is_const) buf_puts(out, "const ");
  buf_puts(out, dtype_name(t->dtype));
  if (!t->rank) return;
  for (int d = 0; d < t->rank; d++) buf_printf(out, "%c%d", d ? ',' : '[', t->shape[d]);
  buf_putc(out, ']');
}
