/* A product that starts from nothing and is added to something starts from that:
 *
 *     %p = dot %a, %b, %zero        ->        %sum = dot %a, %b, %acc
 *     %sum = add %acc, %p
 *
 * as kernels that say `acc += tl.dot(a, b)` mean it, and as Triton builds them; beside the accumulator there is then no
 * second tile. Only where nobody else wants the product, and where an element of the sum has the type that products are
 * summed in, so that nothing is rounded less or more often than an addition's order makes of it. That order is part of
 * a kernel's meaning: this runs first, and before the interpreter, too.
 */
#include "tile/tile.h"

static void count_uses(Op *op, void *arg) {
  int *uses = arg;
  for (int i = 0; i < op->in_count; i++) uses[value_replacement(op->in[i])->id]++;
}

static bool is_zero(const Value *v) {
  return v->def && v->def->code == OP_CONST && v->def->number == 0 &&
         (dtype_is_float(v->type->dtype) || v->def->value == 0);
}

static bool sums_exactly_so(Dtype t) { return t == DT_F32 || t == DT_F64 || (dtype_is_int(t) && dtype_bits(t) >= 32); }

static void visit(Func *f, Op *add, const int *uses) {
  for (int k = 0; k < 2; k++) {
    Value *product = value_replacement(add->in[k]), *acc = value_replacement(add->in[1 - k]);
    Op *dot = product->def;
    if (!dot || dot->code != OP_DOT || dot->block != add->block || uses[product->id] != 1 ||
        product->type != add->out[0]->type)
      continue;
    if (!is_zero(value_replacement(dot->in[2])) || dot->in[2]->type != acc->type || !sums_exactly_so(acc->type->dtype))
      continue;
    op_move_before(dot, add);
    dot->in[2] = acc;
    if (add->out[0]->name) product->name = add->out[0]->name;
    value_replace(add->out[0], product);
    op_remove(add);
    return;
  }
}

typedef struct Adds {
  VEC(Op *) list;
  Arena *arena;
  bool dots;
} Adds;

static void find_adds(Op *op, void *arg) {
  Adds *a = arg;
  if (op->code == OP_DOT) a->dots = true;
  if (op->code == OP_ADD && op->out[0]->type->rank >= 2) vec_push(a->arena, &a->list, op);
}

void tile_fold_dot_sum(Func *f) {
  Adds adds = {.arena = f->cx->arena};
  tile_walk(f->body, find_adds, &adds);
  if (!adds.dots || !adds.list.n) return;
  int *uses = NEW_N(f->cx->arena, int, f->value_count + 1);
  tile_walk(f->body, count_uses, uses);
  for (int i = 0; i < adds.list.n; i++) visit(f, adds.list.at[i], uses);
  tile_replace_uses(f);
}
