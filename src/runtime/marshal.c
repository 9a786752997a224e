/* Packing: a launch's arguments as the 8-byte slots that compiled code reads.
 *
 * A slot says where its value comes from: an argument, an item of a (nested) tuple, or a part of a tensor descriptor (a
 * parameter's default is a constant of the compiled code). Integers are extended by their sign, floats stand as the
 * bits of their type in the low bytes.
 */
#include "runtime/runtime.h"

static nereid_status wrong(const KernelInfo *k, const ArgSlot *s, const char *what, const nereid_arg *a,
                           nereid_error **error) {
  char value[40] = "";
  if (a && a->kind == NEREID_ARG_INT) {
    if (a->is_unsigned) snprintf(value, sizeof value, "%llu ", (unsigned long long)a->i);
    else snprintf(value, sizeof value, "%lld ", (long long)a->i);
  }
  return error_set(error, NEREID_BAD_ARGUMENT, NULL, "parameter '%s' of kernel '%s' is %s%s %s", k->names[s->param],
                   k->info.name, value, what, dtype_name(s->dtype));
}

static uint64_t float_bits(Dtype t, double v) {
  uint64_t bits = 0;
  dtype_store_float(t, &bits, v);
  return bits;
}

static bool int_fits(Dtype t, int64_t v, bool is_unsigned) {
  int bits = dtype_bits(t);
  bool above = is_unsigned && v < 0; /* beyond INT64_MAX */
  if (t == DT_I1) return true;
  if (dtype_is_signed(t))
    return !above && (bits == 64 || (v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1)));
  if (bits == 64) return above || v >= 0;
  return !above && v >= 0 && v < (int64_t)1 << bits;
}

static nereid_status pack_number(const KernelInfo *k, const ArgSlot *s, const nereid_arg *a, uint64_t *out,
                                 nereid_error **error) {
  bool is_float = a->kind == NEREID_ARG_FLOAT;
  if (!is_float && a->kind != NEREID_ARG_INT && a->kind != NEREID_ARG_BOOL)
    return wrong(k, s, "not a number, but must be", a, error);
  if (dtype_is_float(s->dtype)) {
    *out = float_bits(s->dtype, is_float ? a->f : a->is_unsigned ? (double)(uint64_t)a->i : (double)a->i);
    return NEREID_OK;
  }
  if (is_float) return wrong(k, s, "a float, but must be", a, error);
  if (!int_fits(s->dtype, a->i, a->is_unsigned)) return wrong(k, s, "which does not fit its type", a, error);
  *out = s->dtype == DT_I1 ? a->i != 0 : (uint64_t)a->i;
  return NEREID_OK;
}

nereid_status pack_arg(const KernelInfo *k, const ArgSlot *s, const nereid_arg *a, uint64_t *out,
                       nereid_error **error) {
  if (!s->is_pointer) return pack_number(k, s, a, out, error);
  if (a->kind == NEREID_ARG_NONE) return *out = 0, NEREID_OK; /* CUDA C's NULL */
  if (a->kind != NEREID_ARG_POINTER) return wrong(k, s, "not a pointer, but must be one to", a, error);
  *out = (uint64_t)(uintptr_t)a->pointer;
  return NEREID_OK;
}

/* The argument, or item of a tuple, that a slot is of; NULL: there is none. */
static const nereid_arg *slot_arg(const Call *c, const ArgSlot *s) {
  const nereid_arg *a = c->args[s->param];
  for (int i = 0; i < s->depth && a; i++) {
    bool there = a->kind == NEREID_ARG_TUPLE && s->path[i] < a->item_count;
    a = there ? &a->items[s->path[i]] : NULL;
  }
  return a;
}

static nereid_status pack_slot(const Call *c, const ArgSlot *s, uint64_t *out, nereid_error **error) {
  const nereid_arg *a = slot_arg(c, s);
  if (!a)
    return error_set(error, NEREID_INTERNAL, "please report it", "parameter '%s' of kernel '%s' has no value to pass",
                     c->kernel->names[s->param], c->kernel->info.name);
  switch (s->kind) {
    case SLOT_DESC_SHAPE: return *out = (uint64_t)a->shape[s->dim], NEREID_OK;
    case SLOT_DESC_STRIDE: return *out = (uint64_t)a->strides[s->dim], NEREID_OK;
    case SLOT_DESC_BASE: return *out = (uint64_t)(uintptr_t)a->pointer, NEREID_OK;
    case SLOT_ARG: break;
  }
  return pack_arg(c->kernel, s, a, out, error);
}

nereid_status call_pack(const Call *c, const Specialization *s, uint64_t *out, nereid_error **error) {
  nereid_status status = NEREID_OK;
  for (int i = 0; i < s->slot_count && !status; i++) status = pack_slot(c, &s->slots[i], &out[i], error);
  return status;
}

void call_contents(const Call *c, const Specialization *s, HostArray *out) {
  for (int i = 0; i < s->slot_count; i++) {
    const ArgSlot *slot = &s->slots[i];
    const nereid_arg *a = slot_arg(c, slot);
    bool is_array = a && a->bytes > 0 &&
                    (slot->kind == SLOT_DESC_BASE || (slot->kind == SLOT_ARG && a->kind == NEREID_ARG_POINTER));
    out[i] = is_array ? (HostArray){a->values, a->bytes} : (HostArray){0};
  }
}
