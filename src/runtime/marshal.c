/* Packing: a launch's arguments as the 8-byte slots that compiled code reads.
 *
 * A slot says where its value comes from: an argument, an item of a (nested) tuple, or a part of a tensor descriptor (a
 * parameter's default is a constant of the compiled code). Integers are extended by their sign, floats stand as the
 * bits of their type in the low bytes.
 */
#include "runtime/runtime.h"

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
  return pack_arg(c->kernel->info.name, c->kernel->names[s->param], s, a, out, error);
}

nereid_status call_pack(const Call *c, const Specialization *s, uint64_t *out, nereid_error **error) {
  nereid_status status = NEREID_OK;
  for (int i = 0; i < s->run.slot_count && !status; i++) status = pack_slot(c, &s->run.slots[i], &out[i], error);
  return status;
}

void call_contents(const Call *c, const Specialization *s, HostArray *out) {
  for (int i = 0; i < s->run.slot_count; i++) {
    const ArgSlot *slot = &s->run.slots[i];
    const nereid_arg *a = slot_arg(c, slot);
    bool is_array = a && a->bytes > 0 &&
                    (slot->kind == SLOT_DESC_BASE || (slot->kind == SLOT_ARG && a->kind == NEREID_ARG_POINTER));
    out[i] = is_array ? (HostArray){a->values, a->bytes} : (HostArray){0};
  }
}
