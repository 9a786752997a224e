/* What two regions yield: values that differ between them become results of the `if`. */
#include "front/kernel/join.h"

int join_value(Join *j, Value *a, Value *b) {
  if (a == b) return -1;
  Arena *arena = j->fr->cx->arena;
  for (int i = 0; i < j->from_a.n; i++)
    if (j->from_a.at[i] == a && j->from_b.at[i] == b) return i;
  vec_push(arena, &j->from_a, a);
  vec_push(arena, &j->from_b, b);
  vec_push(arena, &j->types, a->type);
  return j->from_a.n - 1;
}

Merge join_py(Join *j, const Py *a, const Py *b) { /* of the same type */
  Merge m = {.like = (Py *)a};
  Value **pa = NULL, **pb = NULL;
  int nb = 0;
  py_flatten(j->fr, a, &pa, &m.n);
  py_flatten(j->fr, b, &pb, &nb);
  m.parts = pa;
  m.index = NEW_N(j->fr->cx->arena, int, m.n + 1);
  for (int i = 0; i < m.n; i++) m.index[i] = join_value(j, pa[i], pb[i]);
  return m;
}

Py *join_result(Front *fr, const Merge *m, const Op *op) {
  Value **values = NEW_N(fr->cx->arena, Value *, m->n + 1);
  for (int i = 0; i < m->n; i++) values[i] = m->index[i] < 0 ? m->parts[i] : op->out[m->index[i]];
  int used = 0;
  return py_unflatten(fr, m->like, values, &used);
}

Op *join_build(Join *j, Value *cond, const Span *span) {
  Front *fr = j->fr;
  Builder outer = fr->b;
  fr->b.span = span;
  fr->b.block = j->a;
  fr->b.before = NULL;
  build_yield(&fr->b, j->from_a.n, j->from_a.at);
  fr->b.block = j->b;
  build_yield(&fr->b, j->from_b.n, j->from_b.at);
  fr->b = outer;
  fr->b.span = span;
  Op *op = build_op(&fr->b, OP_IF, 1, &cond, j->types.n, j->types.at);
  op->body[0] = j->a;
  op->body[1] = j->b;
  j->a->parent = j->b->parent = op;
  return op;
}
