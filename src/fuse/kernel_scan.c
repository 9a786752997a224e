/* Running sums: rows as in kernel_reduce.c, block by block, the sum so far carried along. */
#include "fuse/fuse.h"

FuseKernel *kernel_scan(FusePlan *p, const FuseGroup *group) {
  Graph *g = p->g;
  Tensor *t = group->roots[0];
  Writer *w = writer_create(p, group, fuse_kernel_name(p, group));
  const Size *n = t->size[t->dims[0]], *rows = size_int(g, 1);
  bool skip[GRAPH_MAX_RANK] = {false};
  for (int d = 0; d < t->rank; d++)
    if (d != t->dims[0]) rows = size_mul(g, rows, t->size[d]);
  skip[t->dims[0]] = true;
  const IndexVar *x = writer_var(w, "x", "x_mask", rows, 1), *r = writer_var(w, "r", "r_mask", n, 2);
  Index at[GRAPH_MAX_RANK];
  writer_split(w, index_var(w->g, x), t->rank, t->size, skip, at);
  at[t->dims[0]] = index_var(g, r);
  writer_line(w, "x = %s * X + tl.arange(0, X)[:, None]", kernel_program(w, 0, graph_numel(g, t)));
  writer_line(w, "x_mask = x < %s", writer_size(w, rows));
  const char *type = triton_compute_type(t->dtype), *sum = writer_name(w, "before");
  writer_line(w, "%s = tl.full([X, 1], 0, %s)", sum, type);
  writer_line(w, "for start in range(0, %s, R):", writer_size(w, n));
  Map *outside = writer_enter(w);
  writer_line(w, "r = start + tl.arange(0, R)[None, :]");
  writer_line(w, "r_mask = r < %s", writer_size(w, n));
  FuseValue v = writer_value(w, t->in[0], at);
  const char *part = writer_name(w, "part"), *name = writer_name(w, t->name ? t->name : "cumsum");
  writer_line(w, "%s = tl.where(x_mask & r_mask, %s, 0).to(%s)", part, v.text, type);
  writer_line(w, "%s = tl.cumsum(%s, 1) + %s", name, part, sum);
  vec_push(w->cx->arena, &w->members, t);
  writer_store(w, t, at, (FuseValue){name, 3, false});
  writer_line(w, "%s = %s + tl.sum(%s, 1)[:, None]", sum, sum, part);
  writer_leave(w, outside);
  int64_t count;
  w->kernel->grid[0] = rows;
  w->kernel->block[0] = size_is_int(rows, &count) && count < 4 ? 1 : 4;
  int64_t length, block = 512;
  while (size_is_int(n, &length) && block > 1 && block / 2 >= length) block /= 2;
  writer_constant(w, "X", w->kernel->block[0]);
  writer_constant(w, "R", block);
  return writer_finish(w);
}
