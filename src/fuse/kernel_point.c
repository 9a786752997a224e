/* Elementwise kernels: one element of each stored tensor for each index.
 *
 *     x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
 *     mask = x < 1000000
 *     ...
 *     tl.store(out_ptr + x, y, mask=mask) */
#include "fuse/fuse.h"

/* Whether indices up to n may not fit 32 bits. */
static bool is_wide(const Size *n) {
  int64_t v;
  return !size_is_int(n, &v) || v >= (INT64_C(1) << 31) - 65536;
}

const char *kernel_program(Writer *w, int axis, const Size *extent) {
  return arena_printf(w->cx->arena, is_wide(extent) ? "tl.program_id(%d).to(tl.int64)" : "tl.program_id(%d)", axis);
}

FuseKernel *kernel_point(FusePlan *p, const FuseGroup *group) {
  Graph *g = p->g;
  const Tensor *first = group->roots[0];
  const Size *n = graph_numel(g, first);
  Writer *w = writer_create(p, group, fuse_kernel_name(p, group));
  bool one = size_is(n, 1);
  const IndexVar *x = writer_var(w, "x", one ? NULL : "mask", n, one ? 0 : 1);
  if (!one) {
    writer_line(w, "x = %s * BLOCK + tl.arange(0, BLOCK)", kernel_program(w, 0, n));
    writer_line(w, "mask = x < %s", writer_size(w, n));
  }
  for (int i = 0; i < group->n; i++) {
    Tensor *t = group->roots[i];
    Index at[GRAPH_MAX_RANK];
    writer_split(w, index_var(w->g, x), t->rank, t->size, NULL, at);
    FuseValue v = writer_value(w, t, at);
    if (p->stored[t->id]) writer_store(w, t, at, v);
  }
  w->kernel->grid[0] = n;
  w->kernel->block[0] = one ? 1 : 1024;
  if (!one) writer_constant(w, "BLOCK", 1024);
  return writer_finish(w);
}
