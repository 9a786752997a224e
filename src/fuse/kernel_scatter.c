/* Scatters: the buffer holds a copy of the operand already (the kernel before it makes that); here each element of the
 * source goes to its place, where it is set, added, or the larger or smaller one stays. */
#include "fuse/fuse.h"

FuseKernel *kernel_scatter(FusePlan *p, const FuseGroup *group) {
  Graph *g = p->g;
  Tensor *t = group->roots[0], *index = t->in[1], *src = t->in[2];
  Writer *w = writer_create(p, group, fuse_kernel_name(p, group));
  const Size *n = graph_numel(g, index);
  const IndexVar *x = writer_var(w, "x", "mask", n, 1);
  Index at[GRAPH_MAX_RANK], to[GRAPH_MAX_RANK];
  writer_line(w, "x = %s * BLOCK + tl.arange(0, BLOCK)", kernel_program(w, 0, n));
  writer_line(w, "mask = x < %s", writer_size(w, n));
  writer_split(w, index_var(w->g, x), t->rank, index->size, NULL, at);
  FuseValue i = writer_value(w, index, at), v = writer_value(w, src, at);
  writer_check_index(w, t, i, t->size[t->dim], "mask");
  IndexVar place = {.text = i.text, .mask = "mask", .extent = t->size[t->dim], .bit = i.bits};
  IndexTerm term = {&place, size_int(g, 1), size_int(g, 1), NULL};
  memcpy(to, at, sizeof to);
  to[t->dim] = (Index){.n = 1, .at = &term, .constant = size_int(g, 0)};
  Index linear = index_linear(g, t->rank, t->size, to);
  vec_push(w->cx->arena, &w->members, t);
  map_put(w->stored_at, t, "");
  const char *buffer = writer_buffer(w, t), *text = index_text(g, &linear);
  bool zero = !linear.n && size_is(linear.constant, 0);
  writer_line(w, "tl.%s(%s + %s%s, %s, mask=mask%s)", graph_scatter_triton[t->mode], buffer, zero ? "0 * x" : text,
              index_bits(&linear) ? "" : " + 0 * x", v.text, t->mode == SCATTER_SET ? "" : ", sem=\"relaxed\"");
  w->kernel->grid[0] = n;
  w->kernel->block[0] = 256;
  writer_constant(w, "BLOCK", 256);
  return writer_finish(w);
}
