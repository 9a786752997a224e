/* Convolutions that a library computes (convolve.c): a launch without a kernel of ours. */
#include "fuse/fuse.h"

FuseKernel *kernel_convolution(FusePlan *p, const FuseGroup *group) {
  Arena *arena = p->g->cx->arena;
  Tensor *t = group->roots[0];
  FuseKernel *k = fuse_library_kernel(p, group, fuse_unshaped(t->in[0]), fuse_unshaped(t->in[1]));
  k->convolution = t;
  Buf text = {.arena = arena};
  buf_printf(&text, "# %s: a library computes ", k->name);
  graph_print_type(&text, t);
  for (int i = 0; i < 2; i++) {
    buf_puts(&text, i ? ", " : " of ");
    graph_print_type(&text, t->in[i]);
  }
  buf_putc(&text, '\n');
  k->text = text.at;
  return k;
}
