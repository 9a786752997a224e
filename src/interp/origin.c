/* Origin: which kernel argument each pointer comes from, so that an access which leaves the array that it started from
 * is caught even where it lands in another one.
 *
 * A forward walk over the operations, repeated until nothing changes: addptr, splat, reshape and the like keep the
 * origin, select and control flow join those of their operands. A pointer that may come from two arguments, or that was
 * loaded or made of an integer, has no known origin; its accesses are looked up by address.
 *
 *     unset -> argument i -> unknown      what a value's origin can become on the way
 */
#include "interp/run.h"

enum { FROM_UNSET = -2, FROM_UNKNOWN = -1 };

static bool join_arg(int *into, int from) {
  int joined = *into == FROM_UNSET ? from : from == FROM_UNSET || from == *into ? *into : FROM_UNKNOWN;
  bool changed = joined != *into;
  *into = joined;
  return changed;
}

static const Value *resolved(const Value *v) {
  while (v->forward) v = v->forward;
  return v;
}

static bool trace(Plan *p, const Block *block) {
  int *arg_of = p->arg_of;
  bool changed = false;
#define JOIN(to, from) (changed |= join_arg(&arg_of[(to)->id], arg_of[resolved(from)->id]))
  for (const Op *op = block->first; op; op = op->next) {
    const Op *end0 = op_info[op->code].regions ? op->body[0]->last : NULL;
    const Op *end1 = op_info[op->code].regions > 1 ? op->body[1]->last : NULL;
    switch (op->code) {
      case OP_SPLAT:
      case OP_BROADCAST:
      case OP_EXPAND_DIMS:
      case OP_RESHAPE:
      case OP_TRANS:
      case OP_GATHER:
      case OP_HINT:
      case OP_ADDPTR: JOIN(op->out[0], op->in[0]); break;
      case OP_BITCAST:
        if (op->in[0]->type->ptr) JOIN(op->out[0], op->in[0]);
        else changed |= join_arg(&arg_of[op->out[0]->id], FROM_UNKNOWN);
        break;
      case OP_SPLIT: JOIN(op->out[0], op->in[0]), JOIN(op->out[1], op->in[0]); break;
      case OP_JOIN:
      case OP_CAT: JOIN(op->out[0], op->in[0]), JOIN(op->out[0], op->in[1]); break;
      case OP_SELECT: JOIN(op->out[0], op->in[1]), JOIN(op->out[0], op->in[2]); break;
      case OP_FOR:
        for (int i = 0; i < op->out_count; i++) {
          JOIN(op->body[0]->args[i + 1], op->in[i + 3]);
          JOIN(op->body[0]->args[i + 1], end0->in[i]);
          JOIN(op->out[i], op->body[0]->args[i + 1]);
        }
        break;
      case OP_WHILE:
        for (int i = 0; i < op->in_count; i++) {
          JOIN(op->body[0]->args[i], op->in[i]);
          JOIN(op->body[0]->args[i], end1->in[i]);
        }
        for (int i = 0; i < op->out_count; i++) {
          JOIN(op->body[1]->args[i], end0->in[i + 1]);
          JOIN(op->out[i], end0->in[i + 1]);
        }
        break;
      case OP_IF:
        for (int i = 0; i < op->out_count; i++) {
          JOIN(op->out[i], end0->in[i]);
          JOIN(op->out[i], end1->in[i]);
        }
        break;
      default: /* loads and the rest: a pointer from anywhere */
        for (int i = 0; i < op->out_count; i++) changed |= join_arg(&arg_of[op->out[i]->id], FROM_UNKNOWN);
        for (int r = 0; r < op_info[op->code].regions; r++)
          for (int i = 0; i < op->body[r]->arg_count; i++)
            changed |= join_arg(&arg_of[op->body[r]->args[i]->id], FROM_UNKNOWN);
    }
    for (int r = 0; r < op_info[op->code].regions; r++) changed |= trace(p, op->body[r]);
  }
#undef JOIN
  return changed;
}

void plan_trace_pointers(Plan *p) {
  const Block *body = p->func->body;
  for (int i = 0; i < p->func->value_count; i++) p->arg_of[i] = FROM_UNSET;
  for (int i = 0; i < body->arg_count; i++) p->arg_of[body->args[i]->id] = i;
  while (trace(p, body)) {}
  for (int i = 0; i < p->func->value_count; i++)
    if (p->arg_of[i] == FROM_UNSET) p->arg_of[i] = FROM_UNKNOWN;
}
