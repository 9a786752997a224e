/* All kernels of a graph, in order. */
#include "fuse/fuse.h"

/* What a scatter begins with: its operand, as a kernel that copies it into the scatter's buffer. */
static FuseKernel *copy_kernel(FusePlan *p, Tensor *scatter) {
  FuseGroup group = {.kind = FUSE_POINT, .n = 1, .roots = &scatter};
  Writer *w = writer_create(p, arena_copy(p->g->cx->arena, &group, sizeof group), fuse_kernel_name(p, &group));
  const Size *n = graph_numel(p->g, scatter);
  const IndexVar *x = writer_var(w, "x", "mask", n, 1);
  Index at[GRAPH_MAX_RANK];
  writer_line(w, "x = %s * BLOCK + tl.arange(0, BLOCK)", kernel_program(w, 0, n));
  writer_line(w, "mask = x < %s", writer_size(w, n));
  writer_split(w, index_var(w->g, x), scatter->rank, scatter->size, NULL, at);
  writer_store(w, scatter, at, writer_value(w, scatter->in[0], at));
  w->kernel->grid[0] = n;
  w->kernel->block[0] = 1024;
  writer_constant(w, "BLOCK", 1024);
  return writer_finish(w);
}

static FuseKernel *kernel_of(FusePlan *p, const FuseGroup *group) {
  switch (group->kind) {
    case FUSE_POINT: return kernel_point(p, group);
    case FUSE_REDUCE: return kernel_reduce(p, group);
    case FUSE_SCAN: return kernel_scan(p, group);
    case FUSE_SCATTER: return kernel_scatter(p, group);
    case FUSE_SORT: return kernel_sort(p, group);
    case FUSE_PRODUCT: break; /* it may be several: product_add */
    case FUSE_STREAM: return kernel_stream(p, group);
    case FUSE_CONVOLUTION: return kernel_convolution(p, group);
  }
  return NULL;
}

FusePlan *fuse_plan(Graph *g, const FuseOptions *o) {
  Arena *a = g->cx->arena;
  FusePlan *p = NEW(a, FusePlan);
  p->g = g;
  p->target = o->target;
  p->products = o->products;
  p->names = map_create(a, true);
  p->outcomes = map_create(a, true);
  p->no_online = o->no_online || o->eager;
  p->stored = NEW_N(a, bool, g->at.n + 1);
  p->alias = NEW_N(a, Tensor *, g->at.n + 1);
  p->stream = NEW_N(a, unsigned char, g->at.n + 1);
  FuseGroup **groups = fuse_groups(p, o);
  if (!o->eager) groups = fuse_beside(p, groups);
  for (; *groups; groups++) {
    if ((*groups)->kind == FUSE_SCATTER) vec_push(a, &p->kernels, copy_kernel(p, (*groups)->roots[0]));
    if ((*groups)->kind == FUSE_PRODUCT) product_add(p, *groups);
    else vec_push(a, &p->kernels, (*groups)->beside ? kernel_beside(p, *groups, kernel_of) : kernel_of(p, *groups));
  }
  fuse_share(p);
  p->text = fuse_text(p);
  return p;
}
