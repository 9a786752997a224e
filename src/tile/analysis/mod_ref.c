/* Uses: which of a Func's arguments its accesses read and write.
 *
 * Each pointer carries the set of arguments it may come from, a bit each; a walk over the operations hands the sets on
 * until nothing changes:
 *
 *     x_ptr {x}   out_ptr {out}   select(c, x_ptr, out_ptr) {x, out}   a pointer that was loaded or made of an integer:
 * any
 *
 * An access reads or writes all arguments of its pointer's set. That may be more than it does, never less.
 */
#include "tile/tile.h"

typedef struct Uses {
  uint64_t *of, any;
  uint64_t read, written;
  bool changed;
} Uses; /* of: per value id */

static void join(Uses *u, const Value *to, uint64_t set) {
  if (!to->type->ptr || !(set & ~u->of[to->id])) return;
  u->of[to->id] |= set;
  u->changed = true;
}

static uint64_t from(const Uses *u, const Value *v) { return u->of[v->id]; }

/* Values that the bodies of control hand around, position by position. */
static void join_control(Uses *u, const Op *op) {
  const Op *end0 = op->body[0]->last, *end1 = op->body[1] ? op->body[1]->last : NULL;
  if (op->code == OP_FOR) {
    for (int i = 0; i < op->out_count; i++) {
      const Value *arg = op->body[0]->args[i + 1];
      join(u, arg, from(u, op->in[i + 3]) | from(u, end0->in[i]));
      join(u, op->out[i], from(u, arg));
    }
  } else if (op->code == OP_WHILE) {
    for (int i = 0; i < op->in_count; i++) join(u, op->body[0]->args[i], from(u, op->in[i]) | from(u, end1->in[i]));
    for (int i = 0; i < op->out_count; i++) {
      join(u, op->body[1]->args[i], from(u, end0->in[i + 1]));
      join(u, op->out[i], from(u, end0->in[i + 1]));
    }
  } else if (op->code == OP_IF) {
    for (int i = 0; i < op->out_count; i++) join(u, op->out[i], from(u, end0->in[i]) | from(u, end1->in[i]));
  }
}

static void visit(Op *op, void *arg) {
  Uses *u = arg;
  if (op->code == OP_LOAD) u->read |= from(u, op->in[0]);
  if (op->code == OP_STORE) u->written |= from(u, op->in[0]);
  if (op->code == OP_ATOMIC_RMW || op->code == OP_ATOMIC_CAS)
    u->read |= from(u, op->in[0]), u->written |= from(u, op->in[0]);
  if (op->code == OP_FOR || op->code == OP_WHILE || op->code == OP_IF) {
    join_control(u, op);
    return;
  }
  uint64_t set = 0;
  bool known = op->code != OP_LOAD && op->code != OP_ASM;
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i]->type->ptr) set |= from(u, op->in[i]);
  if (op->code == OP_BITCAST && !op->in[0]->type->ptr) known = false;
  for (int i = 0; i < op->out_count; i++) join(u, op->out[i], known ? set : u->any);
  for (int r = 0; r < op_info[op->code].regions; r++) /* bodies of reductions and the like */
    for (int i = 0; i < op->body[r]->arg_count; i++) join(u, op->body[r]->args[i], set);
}

void tile_uses(Func *f, uint64_t *read, uint64_t *written) {
  Uses u = {.of = NEW_N(f->cx->arena, uint64_t, f->value_count + 1)};
  for (int i = 0; i < f->body->arg_count; i++)
    if (f->body->args[i]->type->ptr) u.any |= u.of[f->body->args[i]->id] = (uint64_t)1 << (i < 63 ? i : 63);
  do u.changed = false, tile_walk(f->body, visit, &u);
  while (u.changed);
  *read = u.read, *written = u.written;
}
