/* Operations that only move elements: which element of the operand each element of the result is. */
#include "tile/tile.h"

/* Reshapes that only drop or insert dims of size 1. */
static bool reshape_is_renaming(const Type *from, const Type *to) {
  int i = 0, k = 0;
  for (;;) {
    while (i < from->rank && from->shape[i] == 1) i++;
    while (k < to->rank && to->shape[k] == 1) k++;
    if (i == from->rank || k == to->rank) return i == from->rank && k == to->rank;
    if (from->shape[i++] != to->shape[k++]) return false;
  }
}

bool op_is_view(const Op *op) {
  switch (op->code) {
    case OP_HINT:
    case OP_EXPAND_DIMS:
    case OP_BROADCAST:
    case OP_TRANS:
    case OP_SPLAT: return true;
    case OP_RESHAPE: return reshape_is_renaming(op->in[0]->type, op->out[0]->type);
    default: return false;
  }
}

void view_map(const Op *op, int8_t map[MAX_RANK]) {
  const Type *from = op->in[0]->type, *to = op->out[0]->type;
  for (int k = 0; k < MAX_RANK; k++) map[k] = -1;
  switch (op->code) {
    case OP_HINT:
    case OP_BROADCAST:
      for (int k = 0; k < from->rank; k++) map[k] = from->shape[k] == 1 ? -1 : (int8_t)k;
      break;
    case OP_EXPAND_DIMS:
      for (int k = 0; k < from->rank; k++) map[k] = from->shape[k] == 1 ? -1 : (int8_t)(k < op->axis ? k : k + 1);
      break;
    case OP_TRANS:
      for (int d = 0; d < to->rank; d++)
        if (to->shape[d] != 1) map[op->dims[d]] = (int8_t)d;
      break;
    case OP_RESHAPE:
      for (int k = 0, d = 0; k < from->rank; k++) {
        if (from->shape[k] == 1) continue;
        while (to->shape[d] == 1) d++;
        map[k] = (int8_t)d++;
      }
      break;
    default: break;
  }
}
