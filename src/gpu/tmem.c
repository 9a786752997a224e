/* Products that add to tensor memory (sm_100a), in loops that carry sums for them alone. async_loads asks for it, with
 * both operands in rings.
 *
 *     %acc = %zero                              %t = tmem                    at the function's beginning
 *     for ... carrying %acc                     tmem_store %zero, %t
 *       %d = dot %a, %b, %acc            ->     for ... carrying a place among %t's barriers
 *       yield %d                                  tmem_dot %a, %b, %t
 *     ... %d ...                                  tmem_commit %t, %place
 *                                                 tmem_wait for the commit of the iteration before, if there is one:
 *                                                 then its tiles are read, and copies may write over them
 *                                               tmem_commit, tmem_wait
 *                                               %d = tmem_load %t
 *
 * A commit arrives when all products before it are done, so that the wait for the last one is for all. The thread that
 * issues may be ahead of those that wait for the commit before the last one, by one at a loop's end: three barriers
 * let each find its phase.
 */
#include "gpu/tmem.h"

enum { BARS = TMEM_BARS, MOST_AROUND = 8 };

typedef struct Found {
  int64_t columns;
  bool ends_early;
} Found;

static void find(Op *op, void *arg) {
  Found *f = arg;
  if (op->code == OP_TMEM) f->columns += layout_tmem_columns(op->dims[0], op->dims[1]);
  if (op->code == OP_ASSERT) f->ends_early = true; /* who has allocated must free */
}

/* Why it may not; NULL: it may. */
static const char *refuses(const Func *f, const GpuOptions *o, const Op *loop, const Op *dot, int64_t more) {
  bool int8 = o->target->sm == 100 || o->target->sm == 110;
  if (!layout_takes_tmem(dot, f->num_warps, int8)) return "it does not take a product of these types, shapes or warps";
  if (!loop || loop->code != OP_FOR) return "the product stands in no loop";
  if (!loop_carries_sum(loop->body[0], dot)) return "a loop does more with the sums than to carry them";
  int around = 0;
  for (const Op *out = loop->block->parent; out; out = out->block->parent)
    if (out->code != OP_FOR || ++around > MOST_AROUND) return "the loop stands in more than loops";
  Found found = {0};
  tile_walk(f->body, find, &found);
  if (found.ends_early) return "a device_assert may end a thread that has to free it";
  if (found.columns + more > TMEM_COLUMNS) return "it has too few columns";
  return NULL;
}

bool tmem_takes(const Func *f, const GpuOptions *o, const Op *loop, const Op *dot, int64_t *columns) {
  const Type *t = dot->out[0]->type;
  int64_t all = *columns + layout_tmem_columns(t->shape[0], t->shape[1]);
  if (!gpu_has_tcgen05(o) || refuses(f, o, loop, dot, all)) return false;
  *columns = all;
  return true;
}

typedef struct Left {
  Func *f;
  const GpuOptions *o;
} Left;

static void note(Op *op, void *arg) {
  const Left *l = arg;
  if (op->code != OP_DOT || l->f->not_in_tmem) return;
  const Type *t = op->out[0]->type;
  const char *why = refuses(l->f, l->o, op->block->parent, op, layout_tmem_columns(t->shape[0], t->shape[1]));
  l->f->not_in_tmem = why ? why : "the operands do not both come by asynchronous copies";
}

void tmem_note_left(Func *f, const GpuOptions *o) {
  Left left = {f, o};
  if (gpu_has_tcgen05(o)) tile_walk(f->body, note, &left);
}

/* ---- the walk over barriers -------------------------------------------------------------------------------------- */

static void commit(Builder *b, Value *tile, Value *slot) {
  build_op(b, OP_TMEM_COMMIT, 2, (Value *[]){tile, slot}, 0, NULL);
}

static void wait_for(Builder *b, Value *tile, RingPlace at) {
  build_op(b, OP_TMEM_WAIT, 3, (Value *[]){tile, at.slot, at.parity}, 0, NULL);
}

static RingPlace place_before(Builder *b, RingPlace at) {
  const Type *t = at.slot->type;
  Value *one = build_int(b, t, 1), *first = build_cmp(b, CMP_EQ, at.slot, build_int(b, t, 0));
  return (RingPlace){build_select(b, first, build_int(b, t, BARS - 1), build_binary(b, OP_SUB, at.slot, one)),
                     build_select(b, first, build_binary(b, OP_XOR, at.parity, one), at.parity)};
}

/* At `end` of the body: when the iteration before is over, of which there may be none. */
static void commit_iteration(Builder *end, Op *loop, Value *tile, RingPlace at) {
  commit(end, tile, at.slot);
  Value *later = build_cmp(end, CMP_NE, loop->body[0]->args[0], loop->in[0]);
  Builder inside = loop_branch_on(end, later);
  wait_for(&inside, tile, place_before(&inside, at));
  ring_yield(loop, at, ring_next(end, BARS, at));
}

static Value *make_tile(Func *f, const Op *dot) {
  Builder top = {.func = f, .block = f->body, .before = f->body->first, .span = dot->span};
  const Type *t = dot->out[0]->type, *handle = type_pointer(f->cx, t->dtype);
  Op *tile = build_op(&top, OP_TMEM, 0, NULL, 1, &handle);
  tile->dim_count = 2;
  tile->dims = NEW_N(f->cx->arena, int64_t, 2);
  for (int d = 0; d < 2; d++) tile->dims[d] = t->shape[d];
  return tile->out[0];
}

/* The sums' way: to the tile before the loop, from it after. What the loop carried nobody looks at any more. */
static void move_sums(Builder *before, Builder *after, Op *loop, Op *dot, Value *tile) {
  Block *body = loop->body[0];
  int carried = dot->in[2]->index - 1;
  const Type *t = dot->out[0]->type;
  before->span = after->span = dot->span;
  build_op(before, OP_TMEM_STORE, 2, (Value *[]){tile, loop->in[3 + carried]}, 0, NULL);
  Builder here = {.func = before->func, .block = body, .before = dot, .span = dot->span};
  build_op(&here, OP_TMEM_DOT, 3, (Value *[]){dot->in[0], dot->in[1], tile}, 0, NULL);
  body->last->in[carried] = body->args[1 + carried];
  op_remove(dot);
  Op *load = build_op(after, OP_TMEM_LOAD, 1, &tile, 1, &t);
  load->out[0]->name = loop->out[carried]->name;
  value_replace(loop->out[carried], load->out[0]);
}

void tmem_put(Func *f, Op *loop, Op *const *dots, int n, Builder *end, Builder *after) {
  Op *around[MOST_AROUND];
  int depth = 0;
  for (Op *out = loop->block->parent; out; out = out->block->parent) around[depth++] = out;
  Op *outer = depth ? around[depth - 1] : loop;
  Builder first = {.func = f, .block = outer->block, .before = outer, .span = loop->span},
          before = {.func = f, .block = loop->block, .before = loop, .span = loop->span};
  RingPlace at[MOST_AROUND + 1], place = ring_first(&first);
  for (int i = depth; i--;) at[i] = place = ring_carry(f, around[i], place);
  RingPlace inside = ring_carry(f, loop, place);
  Value *tile = NULL;
  Value *tiles[n];
  for (int i = 0; i < n; i++) tiles[i] = make_tile(f, dots[i]);
  tile = tiles[0];
  commit_iteration(end, loop, tile, inside);
  place = ring_result(loop, inside);
  commit(after, tile, place.slot);
  wait_for(after, tile, place);
  for (int i = 0; i < n; i++) move_sums(&before, after, loop, dots[i], tiles[i]);
  place = ring_next(after, BARS, place);
  for (int i = 0; i < depth; i++) place = ring_yield(around[i], at[i], place);
}
