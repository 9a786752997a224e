/* Carried values that are parts of one word travel as the word.
 *
 *     %w = ld.b32 ...                                   for ... carrying %w: b32
 *     %a, %b = unpack %w                                  %a, %b = unpack %w
 *     for ... carrying %a, %b: b16, b16          ->       ...
 *       %v = ld.b32 ...                                   %v = ld.b32 ...
 *       %c, %d = unpack %v                                yield %v
 *       yield %c, %d
 *
 * A register holds 32 bits: of halves that a loop carries apart, each takes a whole one, and bytes take four for a
 * word. Tiles of narrow types that were loaded an iteration ahead (gpu/prefetch.c) are such.
 *
 * Where several carried values begin as, and are in every iteration, the same pure functions of one value, before the
 * loop of X and in an iteration of Y, the loop carries X and Y in their place and computes the functions at the top of
 * its body.
 */
#include "gpu/lane/scope.h"
#include "gpu/lane/table.h"

enum { DEEPEST = 4, FEW_PREDS = 4 };

/* The value that some carried ones are functions of; `carried`: where it stands in their place. */
typedef struct Leaf {
  LaneValue *init, *next, *carried;
  int bits, users, place;
} Leaf;

/* What it takes of a thread's registers. A few predicates have registers of their own; of more, the assembler moves
 * each to a word and back. */
static int bits_of(LaneType t, bool many_preds) {
  if (t == LT_PRED) return many_preds ? 16 : 0;
  return t == LT_B16 || t == LT_B32 ? 32 : 64;
}

static bool inside(const LaneBlock *body, const LaneValue *v) {
  const LaneBlock *b = v->def ? v->def->block : v->block;
  for (; b; b = b->parent ? b->parent->block : NULL)
    if (b == body) return true;
  return false;
}

/* Whether `next`, made in the body, and `init`, made before the loop, are the same function of one value each: of *to
 * and *from. */
static bool alike(const LaneBlock *body, LaneValue *next, LaneValue *init, int depth, LaneValue **to,
                  LaneValue **from) {
  stack_guard();
  uint64_t x, y;
  if (next == init && !inside(body, next)) return true; /* what both take from outside */
  if (lane_is_const(next, &x) && lane_is_const(init, &y) && x == y && next->type == init->type) return true;
  const LaneOp *a = next->def, *b = init->def;
  bool same = a && b && a != b && inside(body, next) && next->index == init->index && a->code == b->code &&
              a->in_count == b->in_count && a->in_count > 0 && depth > 0 && lane_op_is_pure(a) && lane_op_is_pure(b) &&
              a->code != LANE_ASM && lane_same_attrs(a, b);
  if (!same) {
    if (next->type != init->type || (*to && (*to != next || *from != init))) return false;
    *to = next;
    *from = init;
    return true;
  }
  for (int i = 0; i < a->in_count; i++)
    if (!alike(body, a->in[i], b->in[i], depth - 1, to, from)) return false;
  return true;
}

/* The function again, of `carried` instead of `next`, at the end of the builder's block. */
static LaneValue *again(LaneBuilder *b, const LaneBlock *body, const Leaf *leaf, LaneValue *v) {
  stack_guard();
  if (v == leaf->next) return leaf->carried;
  if (!inside(body, v)) return v;
  const LaneOp *op = v->def;
  LaneValue *in[4], *low, *high;
  uint64_t bits;
  if (lane_is_const(v, &bits)) return lane_const(b, v->type, bits);
  for (int i = 0; i < op->in_count; i++) in[i] = again(b, body, leaf, op->in[i]);
  if (op->code == LANE_UNPACK) {
    lane_unpack(b, in[0], &low, &high);
    return v->index ? high : low;
  }
  LaneOp proto = *op;
  proto.prev = proto.next = NULL;
  proto.block = NULL;
  return lane_op(b, proto, op->in_count, in);
}

static Leaf *leaf_of(Leaf *leaves, int n, LaneValue *init, LaneValue *next) {
  for (int i = n - 1; i >= 0 && i >= n - 8; i--) /* parts of one word stand side by side */
    if (leaves[i].init == init && leaves[i].next == next) return &leaves[i];
  return NULL;
}

static bool few_operands(const LaneBlock *body, const LaneValue *v, const LaneValue *leaf) {
  stack_guard();
  if (v == leaf || !inside(body, v)) return true;
  if (v->def->in_count > 4 || v->def->out_count > 2 || (v->def->out_count == 2 && v->def->code != LANE_UNPACK))
    return false;
  for (int i = 0; i < v->def->in_count; i++)
    if (!few_operands(body, v->def->in[i], leaf)) return false;
  return true;
}

/* Operations of a block of their own go before `place`, or to the end. */
static void splice(LaneBlock *from, LaneBlock *to, LaneOp *place) {
  for (LaneOp *op = from->first, *next; op; op = next) {
    next = op->next;
    if (place) {
      lane_insert_before(op, place);
      continue;
    }
    op->block = to;
    op->prev = to->last;
    op->next = NULL;
    if (to->last) to->last->next = op;
    else to->first = op;
    to->last = op;
  }
}

static void visit_loop(LaneFunc *f, LaneOp *loop, LaneValue **instead) {
  Arena *arena = f->cx->arena;
  LaneBlock *body = loop->body[0];
  LaneOp *yield = body->last;
  int n = loop->out_count, count = 0, dropped = 0, kept = 0, preds = 0;
  Leaf *leaves = NEW_N(arena, Leaf, n), **of = NEW_N(arena, Leaf *, n);
  for (int i = 0; i < n; i++) preds += yield->in[i]->type == LT_PRED;
  bool many = preds > FEW_PREDS;
  for (int i = 0; i < n; i++) {
    LaneValue *to = NULL, *from = NULL, *next = yield->in[i];
    if (!alike(body, next, loop->in[3 + i], DEEPEST, &to, &from) || !to || to == next || !few_operands(body, next, to))
      continue;
    of[i] = leaf_of(leaves, count, from, to);
    if (!of[i]) {
      of[i] = &leaves[count++];
      *of[i] = (Leaf){.init = from, .next = to, .place = -1};
    }
    of[i]->bits += bits_of(next->type, many);
    of[i]->users++;
  }
  for (int i = 0; i < n; i++) {
    if (of[i] && (of[i]->users < 2 || of[i]->bits <= bits_of(of[i]->next->type, many))) of[i] = NULL;
    dropped += of[i] != NULL;
  }
  if (!dropped) return;

  LaneBlock top = {.parent = loop}, after = {.parent = loop->block->parent};
  LaneBuilder at_top = lane_builder(f), at_after = lane_builder(f);
  at_top.block = &top;
  at_after.block = &after;
  at_top.span = at_after.span = loop->span;
  LaneValue **next = NEW_N(arena, LaneValue *, n), **args = NEW_N(arena, LaneValue *, n + 1),
            **out = NEW_N(arena, LaneValue *, n);
  args[0] = body->args[0];
  for (int i = 0; i < n; i++) { /* operands move down in place: kept is never above i */
    if (of[i] && of[i]->place >= 0) continue;
    loop->in[3 + kept] = of[i] ? of[i]->init : loop->in[3 + i];
    next[kept] = of[i] ? of[i]->next : yield->in[i];
    args[1 + kept] = of[i] ? lane_value_create(f, of[i]->next->type, kept + 1) : body->args[1 + i];
    out[kept] = of[i] ? lane_value_create(f, of[i]->next->type, kept) : loop->out[i];
    args[1 + kept]->block = body;
    args[1 + kept]->index = kept + 1;
    out[kept]->def = loop;
    out[kept]->index = kept;
    if (of[i]) of[i]->place = kept;
    kept++;
  }
  for (int i = 0; i < n; i++) {
    if (!of[i]) continue;
    of[i]->carried = args[1 + of[i]->place];
    instead[body->args[1 + i]->id] = again(&at_top, body, of[i], yield->in[i]);
    of[i]->carried = out[of[i]->place];
    instead[loop->out[i]->id] = again(&at_after, body, of[i], yield->in[i]);
  }
  memcpy(yield->in, next, sizeof *next * (size_t)kept);
  yield->in_count = kept;
  loop->in_count = kept + 3;
  loop->out = out;
  loop->out_count = kept;
  body->args = args;
  body->arg_count = kept + 1;
  splice(&top, body, body->first);
  splice(&after, loop->block, loop->next);
}

typedef struct Carry {
  LaneFunc *f;
  LaneValue **instead;
  int count;
} Carry;

static void visit(LaneOp *op, void *arg) {
  Carry *c = arg;
  if (op->code == LANE_FOR && op->out_count > 1 && op->body[0]->last && op->body[0]->last->code == LANE_YIELD)
    visit_loop(c->f, op, c->instead);
}

static LaneValue *current(const Carry *c, LaneValue *v) {
  while (v->id < c->count && c->instead[v->id]) v = c->instead[v->id];
  return v;
}

static void rename_operands(LaneOp *op, void *arg) {
  for (int i = 0; i < op->in_count; i++) op->in[i] = current(arg, op->in[i]);
  if (op->guard) op->guard = current(arg, op->guard);
}

void lane_pack_carried(LaneFunc *f) {
  Carry c = {f, NEW_N(f->cx->arena, LaneValue *, f->value_count + 1), f->value_count};
  lane_walk(f->body, visit, &c);
  lane_walk(f->body, rename_operands, &c);
}
