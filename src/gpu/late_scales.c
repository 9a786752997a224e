/* Late scales: what a tile is multiplied by before a maximum multiplies the maximum instead.
 *
 *     %t = mul %s, %scale                        %t = select %seen, %s, -inf
 *     %u = select %seen, %t, -inf                %m = mul (reduce max %t), %scale
 *     %m = reduce max %u                  ->     %u = mul %t, %scale
 *     %v = sub %u, %m                            %v = sub %u, %m
 *
 * The product is then the difference's alone, and the two are one instruction; before, the maximum wanted it as well.
 * Rounding keeps order, so the maximum is the same number, where the scale is greater than zero and no infinity. A
 * launch looks at that (OP_REQUIRE), as it looks at what tensor maps ask for: so this is done for scales made of
 * arguments, in kernels that have such maps, and in loops.
 */
#include "gpu/launch_plan.h"
#include "gpu/loop.h"

#include <math.h>

typedef struct Scale {
  Func *f;
  Op *loop;
  bool has_maps;
} Scale;

/* The only operation of the body that takes v, and nothing in it does; NULL: there is none. */
static Op *only_use(const Block *body, const Value *v) {
  Op *use = NULL;
  if (block_uses(body, v) != 1) return NULL;
  for (Op *op = body->first; op; op = op->next)
    for (int i = 0; i < op->in_count; i++)
      if (op->in[i] == v) use = op;
  return use;
}

static bool is_maximum(const Op *op) {
  if (op->code != OP_REDUCE || op->in_count != 1) return false;
  const Op *max = op->body[0]->first;
  return max->code == OP_MAX && max->next && max->next == op->body[0]->last && max->next->in[0] == max->out[0];
}

static bool is_lowest(const Value *v) {
  while (v->def && (v->def->code == OP_SPLAT || v->def->code == OP_BROADCAST)) v = v->def->in[0];
  return v->def && v->def->code == OP_CONST && v->def->number == -INFINITY;
}

/* What all elements of v are: a scalar, or a constant of v's own type; NULL: they differ. */
static Value *number_of(Value *v) {
  if (!v->def || v->def->code == OP_CONST) return v->def ? v : NULL;
  return v->def->code == OP_SPLAT ? v->def->in[0] : NULL;
}

static Value *as_tile(Builder *b, Value *number, const Type *t) {
  if (number->def && number->def->code == OP_CONST) return build_float(b, t, number->def->number);
  return t->rank ? build_splat(b, number, t->rank, t->shape) : number;
}

/* Whether the scale is known to be greater than zero and finite, or a launch can tell (*asks). */
static bool is_positive(const Scale *p, const Value *scale, bool *asks) {
  *asks = !scale->def || scale->def->code != OP_CONST;
  if (!*asks) return scale->def->number > 0 && scale->def->number < INFINITY;
  GpuLaunchPlan probe = {0};
  return p->has_maps && gpu_plan_value(p->f->cx, &probe, p->f, scale) >= 0;
}

static void ask(const Scale *p, Value *scale) {
  Builder b = {.func = p->f, .block = p->loop->block, .before = p->loop, .span = p->loop->span};
  Value *some = build_cmp(&b, CMP_GT, scale, build_float(&b, scale->type, 0)),
        *finite = build_cmp(&b, CMP_LT, scale, build_float(&b, scale->type, INFINITY));
  build_op(&b, OP_REQUIRE, 1, &some, 0, NULL);
  build_op(&b, OP_REQUIRE, 1, &finite, 0, NULL);
}

/* The maximum of `plain`, scaled after it. */
static void put_maximum(const Scale *p, Op *max, Value *plain, Value *scale) {
  Builder b = {.func = p->f, .block = max->block, .before = max, .span = max->span};
  Map *map = map_create(p->f->cx->arena, false);
  map_put(map, max->in[0], plain);
  Value *out = op_clone(&b, max, map)->out[0];
  value_replace(max->out[0], build_binary(&b, OP_MUL, out, as_tile(&b, scale, out->type)));
  op_remove(max);
}

static bool scale_later(const Scale *p, Op *mul) {
  Block *body = p->loop->body[0];
  int which = number_of(mul->in[1]) ? 1 : 0;
  Value *scale = number_of(mul->in[which]), *plain = mul->in[!which], *last = mul->out[0];
  bool asks;
  if (!scale || last->type->dtype != DT_F32 || !is_positive(p, scale, &asks)) return false;
  Op *select = only_use(body, last), *first = NULL; /* first: that takes the product */
  if (!select || select->code != OP_SELECT || select->in[1] != last || !is_lowest(select->in[2])) select = NULL;
  if (select) last = select->out[0];
  int uses = 0, maxima = 0;
  for (Op *op = body->first; op; op = op->next) {
    bool maximum = is_maximum(op) && op->in[0] == last, difference = op->code == OP_SUB && op->in[0] == last;
    uses += maximum || difference, maxima += maximum;
    if (difference && !first) first = op;
  }
  if (!maxima || !first || uses != block_uses(body, last)) return false;
  if (asks) ask(p, scale);
  if (select) {
    Builder here = {.func = p->f, .block = body, .before = select, .span = select->span};
    plain = build_select(&here, select->in[0], plain, select->in[2]);
    plain->name = last->name;
  }
  Builder here = {.func = p->f, .block = body, .before = first, .span = mul->span};
  Value *product = build_binary(&here, OP_MUL, plain, mul->in[which]);
  for (Op *op = body->first, *next; op; op = next) {
    next = op->next;
    if (is_maximum(op) && op->in[0] == last) put_maximum(p, op, plain, scale);
  }
  value_replace(last, product);
  if (select) op_remove(select);
  op_remove(mul);
  tile_replace_uses(p->f);
  return true;
}

static void find_map(Op *op, void *found) {
  if (op->code == OP_TENSOR_MAP) *(bool *)found = true;
}

static void visit_loop(Func *f, const GpuOptions *o, Op *loop) {
  Scale p = {.f = f, .loop = loop};
  tile_walk(f->body, find_map, &p.has_maps);
  for (Op *op = loop->body[0]->first; op;)
    op = op->code == OP_MUL && op->out[0]->type->rank && scale_later(&p, op) ? loop->body[0]->first : op->next;
}

void gpu_late_scales(Func *f, const GpuOptions *o) {
  tile_replace_uses(f);
  loop_visit(f, o, visit_loop);
}
