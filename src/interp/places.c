/* Where values lie: their bytes, which of them share a place, and memory that lives as long as the plan. */
#include "interp/run.h"

int plan_elem_bytes(const Type *t) { return t->ptr ? 8 : dtype_bytes(t->dtype); }
int64_t plan_type_bytes(const Type *t) { return type_numel(t) * plan_elem_bytes(t); }

void *plan_alloc(Plan *p, size_t bytes) {
  void *at = arena_alloc(p->arena, bytes);
  if (!at) p->failed = true;
  return at;
}

/* The operand whose elements are the result's, in the same order and of the same bits; NULL when there is none. */
const Value *plan_same_elements(const Op *op) {
  const Type *from = op->in_count ? op->in[0]->type : NULL, *to = op->out_count ? op->out[0]->type : NULL;
  switch (op->code) {
    case OP_HINT:
    case OP_RESHAPE:
    case OP_EXPAND_DIMS:
    case OP_BITCAST: return op->in[0];
    case OP_BROADCAST: return type_numel(from) == type_numel(to) ? op->in[0] : NULL;
    case OP_SPLAT: return type_numel(to) == 1 ? op->in[0] : NULL;
    case OP_CONVERT:
      if (from->dtype == to->dtype) return op->in[0];
      if (!dtype_is_int(from->dtype) || !dtype_is_int(to->dtype)) return NULL;
      return dtype_bits(from->dtype) == dtype_bits(to->dtype) ? op->in[0] : NULL;
    default: return NULL;
  }
}

static const Value *resolve(const Value *v) {
  while (v->replacement) v = v->replacement;
  return v;
}

const Value *plan_root(const Value *v) {
  for (;;) {
    v = resolve(v);
    const Value *from = v->def ? plan_same_elements(v->def) : NULL;
    if (!from) return v;
    v = from;
  }
}

void fill_elements(void *out, const void *from, int bytes, int64_t n) {
  switch (bytes) {
    case 1: memset(out, *(const uint8_t *)from, (size_t)n); break;
#define FILL(size, T) \
  case size: { \
    T v, *o = out; \
    memcpy(&v, from, sizeof v); \
    for (int64_t i = 0; i < n; i++) o[i] = v; \
    break; \
  }
      FILL(2, uint16_t)
      FILL(4, uint32_t)
      FILL(8, uint64_t)
#undef FILL
  }
}
