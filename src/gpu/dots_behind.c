/* A dot that takes what a loop makes of another dot is computed an iteration later, under the work that makes its next
 * operand.
 *
 *     for %i ... carrying %acc                   if it runs at all {
 *       %s = dot %q, %k(%i)                        of the first iteration: %p, %x = mul %zero, %grow
 *       ... exponentials: %p, %grow                for %i from the second on ... carrying %x, %p
 *       %acc = dot %p, %v(%i), mul %acc, %grow       %s = dot %q, %k(%i) {async=1}
 *                                           ->       %acc = dot %p, %v(%i - 1), %x {async=1}
 *                                                    ... exponentials of (dot_wait %s): the next %p, %grow
 *                                                    yield mul (dot_wait %acc), %grow; and %p
 *                                                  %acc = dot %p, %v of the last, %x
 *                                                }
 *
 * So the tensor cores have two dots before them while a warp takes exponentials, and registers hold %p beside the sums
 * (a dot ahead, gpu/dots_ahead.c, holds another %s). The order of FlashAttention-3 (Shah and others, arXiv 2407.08608).
 * The assembler would wait for both dots at once: it moves a wait up to the last branch. So the next iteration's tile
 * for the first dot is waited for in between, where there is a next one.
 *
 * Done for products of warpgroups in loops whose tiles tensor maps bring, where the last dot's tile comes through a
 * ring of at least two slots that is freed for warps that copy (gpu/specialize.c), and where a thread has registers for
 * it.
 */
#include "gpu/ahead.h"
#include "gpu/ring.h"

typedef struct Behind {
  Func *f;
  const GpuOptions *o;
  Op *loop, *dot, *first; /* dot: the one that goes behind; first: what it waits for */
  Op *scale;              /* what is done to the sum before it is added to; NULL: nothing */
  Op *pack;               /* what makes the dot's operand of the same elements, wider; NULL: something else */
  Op *full, *free, *read; /* of its tile */
  Op *first_full;         /* of the first one's */
  int carried;            /* which of the loop's values is the sum */
} Behind;

/* ---- what is taken ----------------------------------------------------------------------------------------------- */

static Op *read_of(const Value *v) {
  v = loop_untransposed(v);
  return v->def && v->def->code == OP_RING_READ ? v->def : NULL;
}

/* The operations on the slot that the dot reads, each there once, and nobody else reads it. */
static bool find_tile(Behind *p, Block *body) {
  p->read = read_of(p->dot->in[1]);
  if (!p->read || p->read->block != body || p->read->in[1]->block != body) return false;
  int64_t slots;
  if (p->read->in[0]->def->code != OP_RING || (slots = p->read->in[0]->def->slots) < 2) return false;
  for (Op *op = body->first; op; op = op->next) {
    if (op->in_count < 2 || op->in[0] != p->read->in[0]) continue;
    Op **place = op->code == OP_RING_FULL ? &p->full : op->code == OP_RING_FREE ? &p->free : NULL;
    if (!place ? op != p->read : *place != NULL) return false;
    if (op->in[1] != p->read->in[1]) return false;
    if (place) *place = op;
  }
  for (const Value *v = p->dot->in[1];; v = v->def->in[0]) {
    if (block_uses(body, v) != 1) return false;
    if (v == p->read->out[0]) break;
  }
  return p->full && p->free && p->full->in[2]->block == body;
}

/* The sum is carried for the dot alone, plain or multiplied by something. */
static bool find_sum(Behind *p, Block *body) {
  Value *x = p->dot->in[2];
  if (x->def && x->def->code == OP_MUL && x->def->block == body && block_uses(body, x) == 1) {
    p->scale = x->def;
    bool left = !x->def->in[0]->def;
    x = x->def->in[!left];
  }
  if (x->def || x->block != body || x->index < 1 || block_uses(body, x) != 1) return false;
  p->carried = x->index - 1;
  return body->last->in[p->carried] == p->dot->out[0] && block_uses(body, p->dot->out[0]) == 1;
}

static bool depends_on(const Value *v, const Value *on, const Block *body, Map *seen) {
  stack_guard();
  if (v == on) return true;
  if (!v->def || v->def->block != body || map_get(seen, v)) return false;
  map_put(seen, v, v->def);
  for (int i = 0; i < v->def->in_count; i++)
    if (depends_on(v->def->in[i], on, body, seen)) return true;
  for (int b = 0; b < 2 && v->def->body[b]; b++)
    for (const Op *op = v->def->body[b]->first; op; op = op->next)
      for (int i = 0; i < op->in_count; i++)
        if (depends_on(op->in[i], on, body, seen)) return true;
  return false;
}

/* The first dot's operands are tiles, or there before; of one, the wait. */
static bool find_first(Behind *p, Block *body) {
  for (int k = 0; k < 2; k++) {
    if (value_block(p->first->in[k]) != body) continue;
    const Op *read = read_of(p->first->in[k]);
    if (!read) return false;
    for (Op *op = body->first; op != p->first; op = op->next)
      if (op->code == OP_RING_FULL && op->in[0] == read->in[0]) p->first_full = op;
  }
  return p->first_full && !p->first_full->in[1]->def && !p->first_full->in[2]->def;
}

/* Two dots, the second of what is made of the first. */
static bool find_dots(Behind *p, Block *body) {
  int dots = 0;
  for (Op *op = body->first; op; op = op->next) {
    if (op->code == OP_FOR || op->code == OP_WHILE) return false;
    if (op->code != OP_DOT) continue;
    if (op->async || !layout_flies(op, p->f->num_warps) || op->out[0]->type->dtype != DT_F32) return false;
    if (!dots++) p->first = op;
    p->dot = op;
  }
  if (dots != 2 || !value_is_zero(p->first->in[2]) || !find_sum(p, body)) return false;
  Value *a = p->dot->in[0];
  if (!a->def || a->def->block != body || block_uses(body, a) != 1) return false;
  if (!depends_on(a, p->first->out[0], body, map_create(p->f->cx->arena, false))) return false;
  if (a->def->code == OP_CONVERT) p->pack = a->def;
  int64_t held = type_numel(a->type) * type_elem_bytes(a->type) / (128 * p->f->num_warps);
  int64_t beside = p->o->target->budgets->beside_sums_behind;
  return loop_sums(p->f, body) + held + beside <= gpu_thread_registers(p->f->num_warps);
}

/* Whether v is made element by element of `of`, so that its layout is that one's. */
static bool follows(const Value *v, const Value *of, const Block *body) {
  stack_guard();
  if (v == of) return true;
  if (!v->def || v->def->block != body || !op_is_elementwise(v->def)) return false;
  for (int i = 0; i < v->def->in_count; i++)
    if (follows(v->def->in[i], of, body)) return true;
  return false;
}

bool behind_keeps_registers(Func *f, const GpuOptions *o, Op *loop, const Value *operand) {
  Behind p = {.f = f, .o = o, .loop = loop};
  return find_dots(&p, loop->body[0]) && operand == p.dot->in[0] && type_elem_bytes(operand->type) == 2 &&
         follows(operand, p.first->out[0], loop->body[0]);
}

bool behind_is_wanted(Func *f, const GpuOptions *o, Op *loop) {
  Behind p = {.f = f, .o = o, .loop = loop};
  return !gpu_leaves_out(o, "dots_behind") && find_dots(&p, loop->body[0]);
}

static bool find(Behind *p) {
  Block *body = p->loop->body[0];
  for (const Op *op = body->first; op; op = op->next)
    if (op->code == OP_RING_WAIT || op->code == OP_DOT_WAIT) return false;
  return find_dots(p, body) && find_first(p, body) && find_tile(p, body);
}

/* ---- the change -------------------------------------------------------------------------------------------------- */

static bool is_of_dot(const Behind *p, const Op *op) {
  if (op == p->dot || op == p->scale || op == p->full || op == p->free) return true;
  for (const Value *v = p->dot->in[1];; v = v->def->in[0]) {
    if (op == v->def) return true;
    if (v == p->read->out[0]) return false;
  }
}

/* An operation of the body again. */
static Value *again(Builder *b, const Op *op, Map *map) {
  b->span = op->span;
  Op *clone = loop_clone(b, op, map, map);
  return op->out_count ? clone->out[0] : NULL;
}

static Value *of(Map *map, Value *v) {
  Value *clone = map_get(map, v);
  return clone ? clone : v;
}

/* The dot, of what is held and of the tile at a place. */
static Value *put_dot(const Behind *p, Builder *b, Value *a, Value *x, RingPlace at, bool async) {
  Map *map = map_create(p->f->cx->arena, false);
  map_put(map, p->full->in[1], at.slot), map_put(map, p->full->in[2], at.parity);
  again(b, p->full, map);
  const Op *chain[8];
  int n = 0;
  for (const Value *v = p->dot->in[1]; n < 8; v = v->def->in[0]) {
    chain[n++] = v->def;
    if (v == p->read->out[0]) break;
  }
  while (n) again(b, chain[--n], map);
  map_put(map, p->dot->in[0], a), map_put(map, p->dot->in[2], x);
  Value *out = again(b, p->dot, map);
  out->def->async = async;
  return out;
}

static void free_tile(const Behind *p, Builder *b, Value *slot) {
  b->span = p->free->span;
  build_op(b, OP_RING_FREE, 2, (Value *[]){p->free->in[0], slot}, 0, NULL);
}

typedef struct Replace {
  Op *loop, *branch;
} Replace;

static void replace_results(Op *op, void *arg) {
  const Replace *r = arg;
  for (int i = 0; i < op->in_count; i++)
    for (int k = 0; k < r->loop->out_count; k++)
      if (op->in[i] == r->loop->out[k]) op->in[i] = r->branch->out[k];
}

/* Around the loop: a branch, which it runs in if it runs. Returns its first half, where the loop stands now. */
static Builder put_branch(Behind *p) {
  Func *f = p->f;
  Op *loop = p->loop;
  Builder before = {.func = f, .block = loop->block, .before = loop, .span = loop->span};
  Value *runs = build_cmp(&before, loop_leads_down(loop) ? CMP_GT : CMP_LT, loop->in[0], loop->in[1]);
  const Type **types = NEW_N(f->cx->arena, const Type *, loop->out_count + 1);
  for (int i = 0; i < loop->out_count; i++) types[i] = loop->out[i]->type;
  Op *branch = build_op(&before, OP_IF, 1, &runs, loop->out_count, types);
  Replace r = {loop, branch};
  tile_walk(f->body, replace_results, &r);
  for (int i = 0; i < loop->out_count; i++) {
    branch->out[i]->axis = loop->out[i]->axis;
    branch->out[i]->name = loop->out[i]->name;
  }
  Builder yes = {.func = f, .block = block_create(f, branch), .span = loop->span};
  build_yield(&yes, 0, NULL);
  yes.before = yes.block->last;
  op_move_before(loop, yes.before);
  yes.before = loop;
  Builder no = {.func = f, .block = block_create(f, branch), .span = loop->span};
  build_yield(&no, loop->out_count, loop->in + 3);
  return yes;
}

/* Waits for the first dot's tile of the iteration at i, if there is one. */
static void wait_first(const Behind *p, Builder *b, Value *i, RingPlace at) {
  const Op *loop = p->loop;
  b->span = p->first_full->span;
  Builder inside = loop_branch_on(b, build_cmp(b, loop_leads_down(loop) ? CMP_GT : CMP_LT, i, loop->in[1]));
  ring_full(&inside, p->first_full->in[0], at);
}

static Value *next_of(const Op *loop, const Value *arg) { return loop->body[0]->last->in[arg->index - 1]; }

static void put_behind(Behind *p) {
  Func *f = p->f;
  Op *loop = p->loop, *end;
  Block *body = loop->body[0];
  Builder b = put_branch(p);
  /* the first iteration, but for its dot */
  Map *map = map_create(f->cx->arena, false);
  map_put(map, body->args[0], loop->in[0]);
  for (int i = 1; i < body->arg_count; i++) map_put(map, body->args[i], loop->in[2 + i]);
  for (const Op *op = body->first; op != body->last; op = op->next)
    if (!is_of_dot(p, op)) again(&b, op, map);
  Value *x = p->scale ? again(&b, p->scale, map) : loop->in[3 + p->carried], *a = of(map, p->dot->in[0]);
  RingPlace place = {p->full->in[1], p->full->in[2]}, before = {of(map, place.slot), of(map, place.parity)};
  Value *next = build_binary(&b, OP_ADD, loop->in[0], loop->in[2]);
  next->axis = loop->in[0]->axis;
  loop->in[0] = next;
  for (int i = 0; i < loop->out_count; i++) loop->in[3 + i] = i == p->carried ? x : of(map, body->last->in[i]);
  Value *tile[] = {next_of(loop, p->first_full->in[1]), next_of(loop, p->first_full->in[2])};
  wait_first(p, &b, next, (RingPlace){of(map, tile[0]), of(map, tile[1])});
  /* the loop's: it carries the operand and the place */
  Value *held = control_carry(f, loop, a, p->dot->in[0]), *sum = body->args[1 + p->carried];
  held->name = p->dot->in[0]->name;
  RingPlace at = {control_carry(f, loop, before.slot, place.slot), control_carry(f, loop, before.parity, place.parity)};
  at.slot->axis = place.slot->axis, at.parity->axis = place.parity->axis;
  p->first->async = 1;
  Builder top = {.func = f, .block = body, .before = p->first->next, .span = p->dot->span};
  Value *flying = put_dot(p, &top, held, sum, at, true);
  end = build_op(&top, OP_DOT_WAIT, 1, &p->first->out[0], 1, &p->first->out[0]->type);
  end->pending = 1;
  end->out[0]->name = p->first->out[0]->name;
  loop_replace_but(body, p->first->out[0], end);
  Builder last = {.func = f, .block = body, .before = body->last, .span = p->dot->span};
  Value *then = build_binary(&last, OP_ADD, body->args[0], loop->in[2]);
  then->axis = body->args[0]->axis;
  wait_first(p, &last, then, (RingPlace){tile[0], tile[1]});
  op_remove(p->first_full);
  Op *wait = build_op(&last, OP_DOT_WAIT, 1, &flying, 1, &flying->type);
  free_tile(p, &last, at.slot);
  if (p->pack) op_move_before(p->pack, body->last);
  Value *yields = wait->out[0];
  if (p->scale) {
    op_move_before(p->scale, body->last);
    for (int i = 0; i < 2; i++)
      if (p->scale->in[i] == sum) p->scale->in[i] = yields;
    yields = p->scale->out[0];
  }
  body->last->in[p->carried] = yields;
  /* after the loop: the last iteration's dot */
  Builder after = {.func = f, .block = loop->block, .before = loop->next, .span = p->dot->span};
  int n = loop->out_count;
  RingPlace ends = {loop->out[n - 2], loop->out[n - 1]};
  ends.slot->axis = place.slot->axis, ends.parity->axis = place.parity->axis;
  Value *out = put_dot(p, &after, loop->out[n - 3], loop->out[p->carried], ends, false);
  free_tile(p, &after, ends.slot);
  Value **results = NEW_N(f->cx->arena, Value *, n);
  for (int i = 0; i < n - 3; i++) results[i] = i == p->carried ? out : loop->out[i];
  op_remove(loop->block->last);
  build_yield(&(Builder){.func = f, .block = loop->block, .span = loop->span}, n - 3, results);
  op_remove(p->dot), op_remove(p->free), op_remove(p->full);
  for (Value *v = p->dot->in[1];;) {
    Op *made = v->def;
    bool read = made == p->read;
    v = made->in[0];
    op_remove(made);
    if (read) break;
  }
}

static void visit_loop(Func *f, const GpuOptions *o, Op *loop) {
  Behind p = {.f = f, .o = o, .loop = loop};
  if (!find(&p)) return;
  put_behind(&p);
  tile_replace_uses(f);
}

void gpu_dots_behind(Func *f, const GpuOptions *o) {
  if (!gpu_has_wgmma(o)) return;
  tile_replace_uses(f);
  loop_visit(f, o, visit_loop);
  tile_replace_uses(f);
}
