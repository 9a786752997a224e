/* Operands and attributes of accesses to memory, by name; where they stand is ops.def's affair. */
#include "tile/tile.h"

int op_mask_at(const Op *op) {
  int at = op->code == OP_LOAD                                 ? 1
           : op->code == OP_STORE || op->code == OP_ATOMIC_RMW ? 2
           : op->code == OP_RING_COPY                          ? 3
                                                               : -1;
  return at < op->in_count ? at : -1;
}

Value *op_mask(const Op *op) {
  int at = op_mask_at(op);
  return at < 0 ? NULL : op->in[at];
}

Value *op_other(const Op *op) { return op->code == OP_LOAD && op->in_count > 2 ? op->in[2] : NULL; }

Value *op_value(const Op *op) {
  int at = op->code == OP_STORE || op->code == OP_ATOMIC_RMW ? 1 : op->code == OP_ATOMIC_CAS ? 2 : -1;
  return at < 0 ? NULL : op->in[at];
}

bool op_is_volatile(const Op *op) { return op->code == OP_LOAD && op->is_volatile != 0; }

MemSem op_sem(const Op *op) { return (MemSem)op->sem; }

MemScope op_scope(const Op *op) { return (MemScope)op->scope; }

CacheHint op_cache(const Op *op) {
  return op->code == OP_LOAD || op->code == OP_STORE || op->code == OP_RING_COPY ? (CacheHint)op->cache : CACHE_NONE;
}

Wait op_waits(const Op *op) { return op->code == OP_WHILE ? (Wait)op->waits : WAIT_NONE; }

EvictHint op_evict(const Op *op) {
  return op->code == OP_LOAD || op->code == OP_STORE || op->code == OP_RING_COPY ? (EvictHint)op->evict : EVICT_DEFAULT;
}
