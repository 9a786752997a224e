/* Marks the loops in which a program waits for what another program writes, and orders what follows after it.
 *
 *     while tl.atomic_cas(lock, 0, 1) == 1: pass          while tl.load(flag, volatile=True) == 0: pass
 *
 * A `while` may be such a loop when what it reads from memory decides whether it goes on: an atomic, a volatile load,
 * or a plain load of a place that is the same in each iteration. (A plain load of other places, as in a list that is
 * followed or a table that is searched, is no reason: others may write there, but nobody counts on it.) On devices
 * whose programs do not run all at once, such a loop gives way to other programs in each iteration.
 *
 * WAIT_LOOKS is a loop that does nothing but look; WAIT_WORKS one that also does something that others see, such as a
 * program that takes its work from a counter: an iteration of it is not in vain.
 *
 * What a program does because of what it saw comes after it. An atomic that acquires sees to that itself. Where others,
 * or volatile loads, decide that a loop ends or which branch is taken, a barrier that acquires follows:
 *
 *     while tl.atomic_cas(lock, 0, 1, sem="relaxed") == 1: pass
 *     x = tl.load(p)                 what the last owner stored, not what a cache kept from before
 *
 * What only computes with an old value (the index that a counter gives) gets none: that is what `relaxed` is for.
 */
#include "tile/tile.h"

typedef enum { FIND_READ, FIND_CHANGE, FIND_UNORDERED } Find;

typedef struct Search {
  const Op *loop; /* what is outside of it is not looked at; NULL: the whole function */
  Find what;
  MemScope scope; /* of what is unordered */
  Map *seen;      /* values */
  VEC(const Value *) work;
  Context *cx;
} Search;

static bool is_inside(const Value *v, const Op *loop) {
  if (!loop) return true;
  for (const Block *b = value_block(v); b->parent; b = b->parent->block)
    if (b->parent == loop) return true;
  return false;
}

static void push(Search *s, const Value *v) {
  if (!is_inside(v, s->loop) || map_get(s->seen, v)) return;
  map_put(s->seen, v, s);
  vec_push(s->cx->arena, &s->work, v);
}

static void push_operands(Search *s, const Op *op, int from, int to) {
  for (int i = from; i < to; i++) push(s, op->in[i]);
}

/* What the argument is, iteration after iteration. */
static void push_sources(Search *s, const Value *arg) {
  const Op *op = arg->block->parent;
  int i = arg->index;
  if (!op) return; /* the kernel's argument */
  switch (op->code) {
    case OP_WHILE:
      if (arg->block == op->body[1]) {
        push(s, op->body[0]->last->in[i + 1]);
      } else {
        push(s, op->in[i]);
        push(s, op->body[1]->last->in[i]);
      }
      return;
    case OP_FOR:
      push_operands(s, op, 0, 3);
      if (i == 0) return;
      push(s, op->in[i + 2]);
      push(s, op->body[0]->last->in[i - 1]);
      return;
    default: push_operands(s, op, 0, op->in_count);
  }
}

static void push_result(Search *s, const Op *op, int i) {
  switch (op->code) {
    case OP_WHILE:
      push(s, op->body[0]->last->in[0]);
      push(s, op->body[0]->last->in[i + 1]);
      return;
    case OP_FOR:
      push_operands(s, op, 0, 3);
      push(s, op->in[i + 3]);
      push(s, op->body[0]->last->in[i]);
      return;
    case OP_IF:
      push(s, op->in[0]);
      for (int r = 0; r < 2; r++) push(s, op->body[r]->last->in[i]);
      return;
    default: push_operands(s, op, 0, op->in_count);
  }
}

static bool place_changes(Search *s, const Value *pointer);

/* Reads what others write, but does not put what follows after them. Atomics of tensors never do. */
static bool is_unordered(Search *s, const Op *op) {
  if (!op_is_atomic(op)) return op_is_volatile(op);
  MemSem sem = op_sem(op);
  if (!op->in[0]->type->rank && (sem == SEM_ACQ_REL || sem == SEM_ACQUIRE)) return false;
  if (op_scope(op) == SCOPE_SYS) s->scope = SCOPE_SYS;
  return true;
}

static bool finds(Search *s, const Value *v) {
  const Op *op = v->def;
  if (s->what == FIND_UNORDERED) return op && is_unordered(s, op);
  if (!op) return s->what == FIND_CHANGE && v->block->parent == s->loop;
  bool reads = op_is_atomic(op) || op->code == OP_LOAD || (op->code == OP_ASM && !op->pure);
  if (!reads || s->what == FIND_CHANGE) return reads;
  return op->code != OP_LOAD || op_is_volatile(op) || !place_changes(s, op_pointer(op));
}

/* Whether something of that kind has a part in `start`. All of it is seen, so that `seen` is whole. */
static bool search(Search *s, const Value *start) {
  bool found = false;
  s->seen = map_create(s->cx->arena, false);
  push(s, start);
  while (s->work.n) {
    context_step(s->cx, 1);
    const Value *v = s->work.at[--s->work.n];
    found |= finds(s, v);
    if (v->def) push_result(s, v->def, v->index);
    else push_sources(s, v);
  }
  return found;
}

static bool place_changes(Search *s, const Value *pointer) {
  stack_guard(); /* twice at most: a search for changes asks for none */
  Search inner = {.loop = s->loop, .what = FIND_CHANGE, .cx = s->cx};
  return search(&inner, pointer);
}

typedef struct Work {
  const Search *s;
  bool found;
} Work;

static void find_work(Op *op, void *arg) {
  Work *w = arg;
  if (op->code == OP_STORE || op->code == OP_PRINT) w->found = true;
  if (op_is_atomic(op) && !map_get(w->s->seen, op->out[0])) w->found = true;
}

static void find_unordered(Op *op, void *arg) {
  Search s = {0};
  *(bool *)arg |= is_unordered(&s, op);
}

static void find_access(Op *op, void *arg) { *(bool *)arg |= op_is_access(op) || op->code == OP_ASM; }

/* What stands from `place` on (NULL: nothing does) comes after what `decides` rests on. */
static void order(Func *f, const Op *inside, const Value *decides, Op *place) {
  Search s = {.loop = inside, .what = FIND_UNORDERED, .cx = f->cx};
  if (!place || (place->code == OP_BARRIER && place->acquire) || !search(&s, decides)) return;
  Builder b = {.func = f, .block = place->block, .before = place, .span = decides->def ? decides->def->span : NULL};
  Op *barrier = build_op(&b, OP_BARRIER, 0, NULL, 0, NULL);
  barrier->acquire = 1;
  barrier->scope = s.scope;
}

static void order_control(Op *op, void *arg) {
  Func *f = arg;
  if (op->code == OP_WHILE) order(f, op, op->body[0]->last->in[0], op->next);
  for (int r = 0; op->code == OP_IF && r < 2; r++) {
    bool accesses = false;
    tile_walk(op->body[r], find_access, &accesses);
    if (accesses) order(f, NULL, op->in[0], op->body[r]->first);
  }
}

static void mark(Op *op, void *arg) {
  Func *f = arg;
  if (op->code != OP_WHILE) return;
  Search s = {.loop = op, .what = FIND_READ, .cx = f->cx};
  op->waits = WAIT_NONE;
  if (!search(&s, op->body[0]->last->in[0])) return;
  Work w = {.s = &s};
  for (int r = 0; r < 2; r++) tile_walk(op->body[r], find_work, &w);
  op->waits = w.found ? WAIT_WORKS : WAIT_LOOKS;
}

void tile_mark_waits(Func *f) {
  bool unordered = false;
  tile_walk(f->body, mark, f);
  tile_walk(f->body, find_unordered, &unordered);
  if (unordered) tile_walk(f->body, order_control, f);
}

static void find_wait(Op *op, void *arg) { *(bool *)arg |= op_waits(op) != WAIT_NONE; }

bool tile_waits(const Func *f) {
  bool found = false;
  tile_walk(f->body, find_wait, &found);
  return found;
}
