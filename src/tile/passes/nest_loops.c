/* Loops over all steps of all tiles become two: one over tiles, one over the steps of each.
 *
 *     for %_ = 0 to %total, %s = -1, %tile ...         for %t = 0 to cdiv(%total, %steps), %tile ...
 *       %step = select %s == %last, 0, %s + 1            ... begin a tile
 *       if %step == 0: begin a tile             ->       for %step = 0 to min(%steps, %total - %t * %steps) ...
 *       ... one step                                       ... one step
 *       if %step == %last: end a tile                    if the tile had all its steps: ... end it
 *       yield %step, %tile ...                           yield %tile ...
 *
 * Persistent kernels are written so, that their loads may be ahead of the next tile. Two loops show more: what a tile
 * begins with does not change in its steps, sums are only carried, and the steps store nothing, so that loads and
 * products are pipelined as in any other kernel (gpu/async_loads.c, gpu/specialize.c), and the end of a tile has no
 * branch in each step.
 *
 * The counter begins at -1, so that iteration n has step n % %steps, where %steps is %last + 1. If %last is negative or
 * not reached, all is one tile, which has no end: %steps is %total there. Whatever %total is, it need be no multiple.
 *
 * `if`s at the beginning come before the steps where nothing before them has an effect, and what they hand on when no
 * tile begins is what the loop carried; those at the end follow the steps where nothing after them has an effect, and
 * what they take is known after the steps. Others stay. Loops of which none moves are left alone.
 */
#include "tile/tile.h"

enum { MOST_CARRIED = 64, MOST_MOVED = 4 };

typedef struct Nest {
  Func *f;
  Op *loop; /* over all; then over steps */
  Block *body;
  Value *last, *step, *carried; /* of the counter; of an iteration; of the one before */
  Op *heads[MOST_MOVED], *tails[MOST_MOVED];
  int head_count, tail_count;
  Value *from[MOST_CARRIED]; /* by carried value: what a head begins with; NULL: none does */
  Op *outer;
  Builder b; /* in the loop over tiles */
  Map *before, *after;
} Nest;

static bool in_body(const Nest *n, const Value *v) { return value_block(v) == n->body; }

static bool is_number(const Value *v, int64_t want) {
  int64_t is;
  return value_is_const(v, &is) && is == want;
}

static int uses(const Nest *n, const Value *v) { return block_uses(n->f->body, v); }

/* ---- the counter ------------------------------------------------------------------------------------------------- */

/* The operand that `cmp` holds v equal to; NULL: it does not. */
static Value *equal_to(const Value *cmp, const Value *v, CmpPred pred) {
  const Op *op = cmp->def;
  if (!op || op->code != OP_CMP || op->pred != pred) return NULL;
  return op->in[0] == v ? op->in[1] : op->in[1] == v ? op->in[0] : NULL;
}

static bool is_next(const Value *v, const Value *carried) {
  const Op *op = v->def;
  return op && op->code == OP_ADD &&
         ((op->in[0] == carried && is_number(op->in[1], 1)) || (op->in[1] == carried && is_number(op->in[0], 1)));
}

/* Whether carried value i counts the steps of tiles, and nothing else takes it. */
static bool is_counter(Nest *n, int i) {
  Value *carried = n->body->args[1 + i], *step = n->body->last->in[i];
  const Op *select = step->def;
  if (carried->type != n->body->args[0]->type || !is_number(n->loop->in[3 + i], -1)) return false;
  if (!select || select->block != n->body || select->code != OP_SELECT) return false;
  for (int k = 0; k < 2; k++) { /* s == last ? 0 : s + 1, or s != last ? s + 1 : 0 */
    Value *last = equal_to(select->in[0], carried, k ? CMP_NE : CMP_EQ);
    if (!last || in_body(n, last) || !is_number(select->in[1 + k], 0) || !is_next(select->in[2 - k], carried)) continue;
    n->last = last, n->step = step, n->carried = carried;
    return uses(n, carried) == 2 && uses(n, select->in[0]) == 1 && uses(n, select->in[2 - k]) == 1 &&
           !uses(n, n->loop->out[i]);
  }
  return false;
}

static bool find_counter(Nest *n) {
  const Op *loop = n->loop;
  if (!is_number(loop->in[0], 0) || !is_number(loop->in[2], 1) || uses(n, n->body->args[0])) return false;
  if (loop->out_count > MOST_CARRIED || !dtype_is_signed(n->body->args[0]->type->dtype)) return false;
  for (int i = 0; i < loop->out_count; i++)
    if (is_counter(n, i)) return true;
  return false;
}

/* ---- what moves -------------------------------------------------------------------------------------------------- */

static int head_of(const Nest *n, const Value *v) {
  for (int i = 0; i < n->head_count; i++)
    if (v->def == n->heads[i]) return i;
  return -1;
}

/* The carried value that result j of a head is without one; -1: none, or not as it was. */
static int carried_by(const Nest *n, const Op *head, int j) {
  const Value *v = head->body[1]->last->in[j];
  return v->block == n->body && v->index > 0 && v != n->carried ? v->index - 1 : -1;
}

/* Whether a head's result stays what it is in all steps of a tile. */
static bool stays(const Nest *n, const Value *v) { return n->body->last->in[carried_by(n, v->def, v->index)] == v; }

/* Whether v is known before the steps. */
static bool is_known_before(const Nest *n, const Value *v) {
  stack_guard();
  if (!in_body(n, v) || v == n->step || head_of(n, v) >= 0) return true;
  if (!v->def) return v->index > 0 && v != n->carried;
  if (!op_is_pure(v->def) || v->def->body[0]) return false;
  for (int i = 0; i < v->def->in_count; i++)
    if (!is_known_before(n, v->def->in[i])) return false;
  return true;
}

/* Whether it is after the steps, of the last one. */
static bool is_known_after(const Nest *n, const Value *v) {
  stack_guard();
  if (!in_body(n, v) || v == n->step || (head_of(n, v) >= 0 && stays(n, v))) return true;
  for (int i = 0; i < n->body->last->in_count; i++)
    if (n->body->last->in[i] == v) return true;
  for (int t = 0; t < n->tail_count; t++) /* in a step that is not a tile's last one the loop hands that on */
    for (int j = 0; j < n->tails[t]->out_count; j++)
      if (n->tails[t]->body[1]->last->in[j] == v) return true;
  if (!v->def || !op_is_pure(v->def) || v->def->body[0]) return false;
  for (int i = 0; i < v->def->in_count; i++)
    if (!is_known_after(n, v->def->in[i])) return false;
  return true;
}

static bool all_known(const Nest *n, const Block *b, bool (*known)(const Nest *, const Value *)) {
  stack_guard();
  for (const Op *op = b->first; op; op = op->next) {
    for (int i = 0; i < op->in_count; i++)
      if (!known(n, op->in[i])) return false;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && !all_known(n, op->body[i], known)) return false;
  }
  return true;
}

static bool is_if(const Nest *n, const Op *op, bool last) {
  const Value *to = op->code == OP_IF ? equal_to(op->in[0], n->step, CMP_EQ) : NULL;
  return to && (last ? to == n->last : is_number(to, 0));
}

static bool is_head(Nest *n, const Op *op) {
  if (!is_if(n, op, false) || n->head_count == MOST_MOVED || op->body[1]->first != op->body[1]->last) return false;
  for (int j = 0; j < op->out_count; j++) {
    int i = carried_by(n, op, j);
    if (i < 0 || n->from[i]) return false;
    const Value *carried = n->body->args[1 + i];
    if (uses(n, carried) != block_uses(op->body[0], carried) + 1) return false;
    for (int k = 0; k < j; k++)
      if (carried_by(n, op, k) == i) return false;
  }
  return all_known(n, op->body[0], is_known_before);
}

static void find_heads(Nest *n) {
  for (Op *op = n->body->first; op; op = op->next)
    if (is_head(n, op)) {
      n->heads[n->head_count++] = op;
      for (int j = 0; j < op->out_count; j++) n->from[carried_by(n, op, j)] = op->body[0]->last->in[j];
    } else if (!op_is_pure(op)) {
      return;
    }
}

/* Its results are what the loop carries, and nothing else. */
static bool is_tail(const Nest *n, const Op *op) {
  if (!is_if(n, op, true) || n->tail_count == MOST_MOVED || op->body[1]->first != op->body[1]->last) return false;
  for (int j = 0; j < op->out_count; j++) {
    int handed = 0;
    for (int i = 0; i < n->body->last->in_count; i++) handed += n->body->last->in[i] == op->out[j];
    if (handed != 1 || uses(n, op->out[j]) != 1) return false;
  }
  return true;
}

/* From the last one on. */
static void find_tails(Nest *n) {
  for (Op *op = n->body->last->prev; op; op = op->prev)
    if (is_tail(n, op)) {
      n->tails[n->tail_count++] = op;
      if (all_known(n, op->body[0], is_known_after)) continue;
      n->tail_count--;
      return;
    } else if (!op_is_pure(op)) {
      return;
    }
}

/* ---- the change -------------------------------------------------------------------------------------------------- */

static Value *value_in(Nest *n, Map *known, Value *v);

/* Operands of the operation, and in it, as `known` has them where it stands now. */
static void move(Nest *n, Map *known, Op *op) {
  stack_guard();
  for (int i = 0; i < op->in_count; i++) op->in[i] = value_in(n, known, op->in[i]);
  for (int i = 0; i < 2; i++)
    for (Op *inner = op->body[i] ? op->body[i]->first : NULL; inner; inner = inner->next) move(n, known, inner);
}

/* What is not known, but pure, is computed again. */
static Value *value_in(Nest *n, Map *known, Value *v) {
  stack_guard();
  Value *there = map_get(known, v);
  if (there || !in_body(n, v)) return there ? there : v;
  Map *operands = map_create(n->f->cx->arena, false);
  for (int i = 0; i < v->def->in_count; i++) map_put(operands, v->def->in[i], value_in(n, known, v->def->in[i]));
  n->b.span = v->def->span;
  Op *clone = op_clone(&n->b, v->def, operands);
  for (int i = 0; i < clone->out_count; i++) map_put(known, v->def->out[i], clone->out[i]);
  return map_get(known, v);
}

/* Steps of a tile, of `total` ones. */
static Value *tile_steps(Nest *n, Builder *b, Value *total) {
  const Type *t = total->type;
  Value *zero = build_int(b, t, 0), *one = build_int(b, t, 1);
  Value *reached = build_binary(b, OP_AND, build_cmp(b, CMP_GE, n->last, zero), build_cmp(b, CMP_LT, n->last, total));
  return build_select(b, reached, build_binary(b, OP_ADD, n->last, one), build_binary(b, OP_MAX, total, one));
}

static void make_outer(Nest *n, int counter) {
  Op *loop = n->loop;
  const Type *t = n->body->args[0]->type, *types[MOST_CARRIED];
  Builder b = {.func = n->f, .block = loop->block, .before = loop, .span = loop->span};
  Value *total = loop->in[1], *zero = build_int(&b, t, 0), *one = build_int(&b, t, 1), *in[3 + MOST_CARRIED];
  Value *steps = tile_steps(n, &b, total);
  Value *tiles = build_binary(&b, OP_ADD, build_binary(&b, OP_DIV, build_binary(&b, OP_SUB, total, one), steps), one);
  in[0] = zero, in[2] = one;
  in[1] = build_select(&b, build_cmp(&b, CMP_GT, total, zero), tiles, zero);
  int count = 0;
  for (int i = 0; i < loop->out_count; i++)
    if (i != counter) in[3 + count] = loop->in[3 + i], types[count++] = loop->out[i]->type;
  n->outer = build_op(&b, OP_FOR, 3 + count, in, count, types);
  Block *body = block_create(n->f, n->outer);
  Value *tile = block_add_arg(n->f, body, t, "tile");
  n->b = (Builder){.func = n->f, .block = body, .span = loop->span};
  n->before = map_create(n->f->cx->arena, false), n->after = map_create(n->f->cx->arena, false);
  for (int i = 0, k = 0; i < loop->out_count; i++) {
    if (i == counter) continue;
    map_put(n->before, n->body->args[1 + i], block_add_arg(n->f, body, types[k++], n->body->args[1 + i]->name));
  }
  Value *left = build_binary(&n->b, OP_SUB, total, build_binary(&n->b, OP_MUL, tile, steps));
  loop->in[1] = build_binary(&n->b, OP_MIN, steps, left);
  map_put(n->before, n->step, zero);
  map_put(n->after, n->step, n->last);
}

/* Before the steps. Their results are what the tile's steps begin with. */
static void move_heads(Nest *n) {
  for (int h = 0; h < n->head_count; h++) {
    Op *head = n->heads[h], *yield = head->body[0]->last;
    for (Op *op = head->body[0]->first, *next; op != yield; op = next) {
      next = op->next;
      move(n, n->before, op);
      op_move_before(op, n->loop);
    }
    move(n, n->before, yield);
    for (int j = 0; j < head->out_count; j++) {
      int i = carried_by(n, head, j);
      n->from[i] = yield->in[j];
      map_put(n->before, head->out[j], yield->in[j]);
      if (stays(n, head->out[j])) map_put(n->after, head->out[j], yield->in[j]);
    }
  }
}

/* The loop over steps has its counter for a variable. Its carried values begin as the tile does. */
static void make_inner(Nest *n, int counter) {
  Op *loop = n->loop, *yield = n->body->last;
  for (int i = 0; i < loop->out_count; i++)
    if (i != counter) loop->in[3 + i] = n->from[i] ? n->from[i] : map_get(n->before, n->body->args[1 + i]);
  for (int h = 0; h < n->head_count; h++) {
    Op *head = n->heads[h];
    for (int j = 0; j < head->out_count; j++) {
      int i = carried_by(n, head, j);
      value_replace(head->out[j], stays(n, head->out[j]) ? n->from[i] : n->body->args[1 + i]);
    }
  }
  for (int t = 0; t < n->tail_count; t++)
    for (int j = 0; j < n->tails[t]->out_count; j++)
      for (int i = 0; i < yield->in_count; i++)
        if (yield->in[i] == n->tails[t]->out[j]) yield->in[i] = n->tails[t]->body[1]->last->in[j];
  for (int i = 0; i < loop->out_count; i++)
    if (i != counter && !map_get(n->after, yield->in[i]) && in_body(n, yield->in[i]))
      map_put(n->after, yield->in[i], loop->out[i]);
}

/* After the steps, if the tile had all of them. The last tail was found first. */
static void move_tails(Nest *n) {
  Builder *b = &n->b;
  Value *one = build_int(b, n->last->type, 1);
  Value *ended = build_cmp(b, CMP_EQ, build_binary(b, OP_SUB, n->loop->in[1], one), n->last);
  Builder end = *b;
  for (int t = n->tail_count; t-- > 0;) {
    Op *tail = n->tails[t], *place = build_op(&end, OP_YIELD, 0, NULL, 0, NULL);
    n->b.before = place;
    for (int i = 0; i < 2; i++)
      for (Op *op = tail->body[i]->first; op; op = op->next) move(n, n->after, op);
    tail->in[0] = ended;
    op_move_before(tail, place);
    op_remove(place);
  }
}

/* What the loop over tiles hands on. A tile without an end is the last one: if nobody takes a value after that, it is
 * what the end of a tile makes of it. */
static Value *handed_on(Nest *n, Value *v, int i, bool taken_later) {
  if (!v->def || v->def->block != n->outer->body[0] || v->def->code != OP_IF) return v;
  Value *ended = v->def->body[0]->last->in[v->index];
  bool outside = value_block(ended) != v->def->body[0] && value_block(ended) != n->outer->body[0];
  return outside && !taken_later ? ended : v;
}

static void nest(Nest *n) {
  Op *loop = n->loop;
  int counter = n->carried->index - 1;
  Value *hands[MOST_CARRIED];
  bool taken[MOST_CARRIED];
  for (int i = 0; i < loop->out_count; i++) hands[i] = n->body->last->in[i], taken[i] = uses(n, loop->out[i]) > 0;
  make_outer(n, counter);
  Op *yield = build_op(&n->b, OP_YIELD, 0, NULL, 0, NULL);
  n->b.before = yield;
  op_move_before(loop, yield);
  n->b.before = loop;
  move_heads(n);
  n->b.before = NULL;
  op_remove(yield);
  for (int i = 0, k = 0; i < loop->out_count; i++)
    if (i != counter) value_replace(loop->out[i], n->outer->out[k++]);
  tile_replace_uses(n->f); /* from here on the loop's results are those of a tile's steps */
  for (int i = 0; i < loop->out_count; i++) loop->out[i]->replacement = NULL;
  make_inner(n, counter);
  move_tails(n);
  Value *end[MOST_CARRIED];
  int count = 0;
  for (int i = 0; i < loop->out_count; i++) {
    if (i == counter) continue;
    Value *v = map_get(n->before, hands[i]), *after = map_get(n->after, hands[i]);
    bool head = head_of(n, hands[i]) >= 0, tail = hands[i]->def && hands[i]->def->block == n->outer->body[0];
    end[count++] = head ? v : tail ? handed_on(n, hands[i], i, taken[i]) : after ? after : loop->out[i];
  }
  n->b.before = NULL;
  build_yield(&n->b, count, end);
  for (int h = 0; h < n->head_count; h++) op_remove(n->heads[h]);
  n->body->args[0]->name = n->step->name;
  value_replace(n->step, n->body->args[0]);
  tile_replace_uses(n->f);
  const Op *select = n->step->def;
  Op *unused[] = {n->step->def, select->in[0]->def, select->in[1]->def, select->in[2]->def};
  control_drop(loop, counter);
  op_remove(unused[0]);
  for (int i = 1; i < 4; i++)
    if (unused[i] && unused[i]->block == n->body && !uses(n, unused[i]->out[0])) op_remove(unused[i]);
}

static void visit_block(Func *f, Block *block) {
  stack_guard();
  for (Op *op = block->first, *next; op; op = next) {
    next = op->next;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) visit_block(f, op->body[i]);
    Nest n = {.f = f, .loop = op, .body = op->body[0]};
    if (op->code != OP_FOR || !find_counter(&n)) continue;
    find_heads(&n);
    find_tails(&n);
    if (n.head_count || n.tail_count) nest(&n);
  }
}

void tile_nest_loops(Func *f) {
  tile_replace_uses(f);
  visit_block(f, f->body);
}
