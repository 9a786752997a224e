/* What a hint says of a value holds wherever the value is used after it, not of the hint's own result alone (Triton
 * notes it on the operation that makes the value):
 *
 *     %1 = hint %0 {divisible 16}              %1 = hint %0 {divisible 16}
 *     %2 = load %0                    ->       %2 = load %1
 *
 * That is, in the hint's block and the blocks within, after it: there the hint has been passed. What a block hands on
 * stays as it is, so that a value that a loop only carries round is still seen to be that.
 */
#include "tile/tile.h"

typedef struct Passed { /* a hint that has been passed */
  Value *of, *hinted;
} Passed;

typedef struct Spread {
  Arena *arena;
  Value **hinted; /* by value id */
  VEC(Passed) passed;
} Spread;

static Value *latest(const Spread *s, Value *v) {
  v = value_replacement(v);
  while (s->hinted[v->id]) v = s->hinted[v->id];
  return v;
}

static void spread(Spread *s, Block *b) {
  stack_guard();
  int before = s->passed.n;
  for (Op *op = b->first; op; op = op->next) {
    if (op != b->last || !b->parent)
      for (int i = 0; i < op->in_count; i++) op->in[i] = latest(s, op->in[i]);
    for (int i = 0; i < 2; i++)
      if (op->body[i]) spread(s, op->body[i]);
    if (op->code != OP_HINT) continue;
    vec_push(s->arena, &s->passed, (Passed){op->in[0], op->out[0]});
    s->hinted[op->in[0]->id] = op->out[0];
  }
  while (s->passed.n > before) s->hinted[s->passed.at[--s->passed.n].of->id] = NULL;
}

void tile_spread_hints(Func *f) {
  Spread s = {.arena = f->cx->arena, .hinted = NEW_N(f->cx->arena, Value *, f->value_count + 1)};
  spread(&s, f->body);
}
