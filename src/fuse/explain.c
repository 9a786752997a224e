/* What was made of a graph, for people. */
#include "fuse/fuse.h"

static const char *name_of(Arena *a, const Tensor *t) { return t->name ? t->name : arena_printf(a, "%%%d", t->id); }

const char *fuse_operation_name(const Tensor *t) {
  if (t->op == GRAPH_POINT) return graph_points[t->point].name;
  return t->op == GRAPH_REDUCE ? graph_reductions[t->kind] : graph_ops[t->op].name;
}

void fuse_explain(Buf *out, const FusePlan *p) {
  Arena *a = p->g->cx->arena;
  for (int i = 0; i < p->kernels.n; i++) {
    const FuseKernel *k = p->kernels.at[i];
    buf_printf(out, "%s: ", k->name);
    for (int m = 0; m < k->member_count; m++) {
      const Tensor *t = k->members[m];
      buf_printf(out, "%s%s", m ? ", " : "", fuse_operation_name(t));
      if (t->name) buf_printf(out, " %s", t->name);
    }
    buf_puts(out, "\n   ");
    for (int b = 0; b < k->buffer_count; b++) {
      buf_printf(out, "%s%s ", b ? ", " : " ", name_of(a, k->buffers[b]));
      graph_print_type(out, k->buffers[b]);
    }
    buf_putc(out, '\n');
    if (k->notes) buf_puts(out, k->notes);
  }
  if (p->products.notes && p->products.notes->n) buf_puts(out, p->products.notes->at);
  buf_printf(out, "%d operations in %d kernels\n", p->g->at.n - p->g->inputs.n, p->kernels.n);
}
