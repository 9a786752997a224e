/* Late sums: a sum over a row's elements that a loop carries is added up across lanes after the loop.
 *
 *     for ... carrying %l : f32[128]              for ... carrying %l : f32[128,4]
 *       %s = reduce add %p {axis=1}                 %s = reduce add, of reshape %p to [128,16,4,2], of the last dim, of
 *                                                        the second
 *       yield add (mul %l, %g), %s          ->      yield add (mul %l, %g), %s
 *     ... %l                                      ... reduce add %l {axis=1}
 *
 * What products of warpgroups leave in registers, four lanes hold of a row: columns 8 i + 2 k and 8 i + 2 k + 1 lie
 * with lane k. So those sums stay within a lane, where otherwise each iteration waits for two exchanges. The parts are
 * added in another order, as sums across a tile are in any.
 */
#include "gpu/loop.h"

enum { LANES = 4, PAIR = 2 };

typedef struct Sums {
  Func *f;
  Op *loop, *add, *scale, *reduce; /* scale: what the sum is multiplied by; NULL: nothing */
  int carried;
} Sums;

static bool adds(const Op *op) {
  const Op *add = op->code == OP_REDUCE && op->in_count == 1 ? op->body[0]->first : NULL;
  return add && add->code == OP_ADD && add->next == op->body[0]->last && add->next->in[0] == add->out[0];
}

/* Whether v is made element by element of what a product of warpgroups of the block leaves. */
static bool is_of_product(const Func *f, const Value *v, const Block *body) {
  stack_guard();
  const Op *op = v->def;
  if (!op || op->block != body) return false;
  if (op->code == OP_DOT) return layout_takes_wgmma(op, f->num_warps);
  if (!op_is_elementwise(op)) return false;
  for (int i = 0; i < op->in_count; i++)
    if (is_of_product(f, op->in[i], body)) return true;
  return false;
}

static bool find(Sums *p, int carried) {
  Block *body = p->loop->body[0];
  Value *arg = body->args[1 + carried];
  const Type *t = arg->type;
  Op *add = body->last->in[carried]->def;
  if (t->rank != 1 || t->dtype != DT_F32 || !value_is_zero(p->loop->in[3 + carried])) return false;
  if (!add || add->code != OP_ADD || add->block != body || block_uses(body, add->out[0]) != 1) return false;
  if (block_uses(body, arg) != 1) return false;
  for (int k = 0; k < 2; k++) {
    Op *reduce = add->in[k]->def, *other = add->in[!k]->def;
    if (!reduce || reduce->block != body || !adds(reduce) || reduce->axis != 1) continue;
    const Type *tile = reduce->in[0]->type;
    if (tile->rank != 2 || tile->shape[1] < LANES * PAIR * 2 || block_uses(body, reduce->out[0]) != 1) continue;
    if (!is_of_product(p->f, reduce->in[0], body)) continue;
    bool plain = add->in[!k] == arg;
    bool scaled = other && other->code == OP_MUL && other->block == body && block_uses(body, other->out[0]) == 1 &&
                  (other->in[0] == arg || other->in[1] == arg);
    if (!plain && !scaled) continue;
    p->add = add, p->reduce = reduce, p->carried = carried, p->scale = scaled ? other : NULL;
    return true;
  }
  return false;
}

static void put(Sums *p) {
  Func *f = p->f;
  Op *loop = p->loop;
  Block *body = loop->body[0];
  const Type *t = p->reduce->in[0]->type;
  int32_t parts[] = {t->shape[0], t->shape[1] / (LANES * PAIR), LANES, PAIR}, shape[] = {t->shape[0], LANES};
  const Type *wide = type_tensor(f->cx, type_number(f->cx, DT_F32), 2, shape);
  Builder before = {.func = f, .block = loop->block, .before = loop, .span = p->add->span},
          here = {.func = f, .block = body, .before = p->add, .span = p->add->span},
          after = {.func = f, .block = loop->block, .before = loop->next, .span = p->add->span};
  Value *zero = build_float(&before, wide, 0), *sum = control_carry(f, loop, zero, zero), *old = sum;
  Value *part = loop_reduce_as(
      &here, p->reduce, loop_reduce_as(&here, p->reduce, build_reshape(&here, p->reduce->in[0], 4, parts), 3), 1);
  if (p->scale) {
    Value *arg = body->args[1 + p->carried], *factor = p->scale->in[p->scale->in[0] == arg];
    sum = build_binary(&here, OP_MUL, sum, build_broadcast(&here, build_expand_dims(&here, factor, 1), 2, shape));
  }
  body->last->in[old->index - 1] = build_binary(&here, OP_ADD, sum, part);
  Op *result = loop->out[old->index - 1]->def;
  Value *total = loop_reduce_as(&after, p->reduce, result->out[old->index - 1], 1);
  loop_replace_but(f->body, loop->out[p->carried], total->def);
  body->last->in[p->carried] = body->args[1 + p->carried]; /* nobody asks for it any more */
  op_remove(p->add);
  if (p->scale) op_remove(p->scale);
  op_remove(p->reduce);
}

static bool replace(Func *f, Op *loop, int carried) {
  Sums p = {.f = f, .loop = loop};
  if (!find(&p, carried)) return false;
  put(&p);
  return true;
}

static void visit_loop(Func *f, const GpuOptions *o, Op *loop) { loop_replace_carried(f, loop, replace); }

void gpu_late_sums(Func *f, const GpuOptions *o) {
  if (!gpu_has_wgmma(o)) return;
  tile_replace_uses(f);
  loop_visit(f, o, visit_loop);
  tile_dce(f);
}
