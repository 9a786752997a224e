/* All kernels of a graph, in order, and their file's text. */
#include "fuse/fuse.h"

static const char head[] = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n";

static const char *const helper_texts[REDUCE_COUNT] = {
    [REDUCE_PROD] = "def multiply(a, b):\n    return a * b\n",
    [REDUCE_MAX] = "def max_nan(a, b):\n    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)\n",
    [REDUCE_MIN] = "def min_nan(a, b):\n    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)\n",
    [REDUCE_ARGMAX] = "def first_max(a, i, b, j):\n"
                      "    same = (a == b) | ((a != a) & (b != b))\n"
                      "    other = ((b > a) & (a == a)) | ((b != b) & (a == a)) | (same & (j < i))\n"
                      "    return tl.where(other, b, a), tl.where(other, j, i)\n",
    [REDUCE_ARGMIN] = "def first_min(a, i, b, j):\n"
                      "    same = (a == b) | ((a != a) & (b != b))\n"
                      "    other = ((b < a) & (a == a)) | ((b != b) & (a == a)) | (same & (j < i))\n"
                      "    return tl.where(other, b, a), tl.where(other, j, i)\n",
};

static const char grouped_tile[] =
    "def grouped_tile(program, rows, columns):\n"
    "    \"\"\"Down 8 rows of tiles, then one column on.\"\"\"\n"
    "    first = program // (8 * columns) * 8\n"
    "    height = min(rows - first, 8)\n"
    "    return first + program % (8 * columns) % height, program % (8 * columns) // height\n";

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
    case FUSE_PRODUCT: return kernel_product(p, group);
    case FUSE_STREAM: return kernel_stream(p, group);
  }
  return NULL;
}

FusePlan *fuse_plan(Graph *g, const FuseOptions *o) {
  Arena *a = g->cx->arena;
  FusePlan *p = NEW(a, FusePlan);
  p->g = g;
  p->target = o->target;
  p->names = map_create(a, true);
  p->no_online = o->no_online || o->eager;
  p->stored = NEW_N(a, bool, g->at.n + 1);
  p->alias = NEW_N(a, Tensor *, g->at.n + 1);
  p->stream = NEW_N(a, unsigned char, g->at.n + 1);
  FuseGroup **groups = fuse_groups(p, o);
  Buf text = {.arena = a};
  for (; *groups; groups++) {
    if ((*groups)->kind == FUSE_SCATTER) vec_push(a, &p->kernels, copy_kernel(p, (*groups)->roots[0]));
    vec_push(a, &p->kernels, kernel_of(p, *groups));
  }
  buf_puts(&text, head);
  for (int i = 0; i < REDUCE_COUNT; i++)
    if (p->helpers[i]) buf_printf(&text, "\n\n@triton.jit\n%s", helper_texts[i]);
  if (p->groups_tiles) buf_printf(&text, "\n\n@triton.jit\n%s", grouped_tile);
  for (int i = 0; i < p->kernels.n; i++) buf_printf(&text, "\n\n%s", p->kernels.at[i]->text);
  p->text = text.at;
  return p;
}
