/* Convolutions that a library computes (convolve.c): a launch without a kernel of ours. */
#include "fuse/fuse.h"

FuseKernel *kernel_convolution(FusePlan *p, const FuseGroup *group) {
  Arena *arena = p->g->cx->arena;
  Tensor *t = group->roots[0];
  FuseKernel *k = NEW(arena, FuseKernel);
  Tensor *buffers[] = {fuse_unshaped(t->in[0]), fuse_unshaped(t->in[1]), t};
  k->convolution = t;
  k->name = fuse_kernel_name(p, group);
  k->buffer_count = 3;
  k->buffers = arena_copy(arena, buffers, sizeof buffers);
  k->loaded_at = NEW_N(arena, const char *, 3);
  k->stored_at = NEW_N(arena, const char *, 3);
  k->writes = NEW_N(arena, bool, 3);
  k->writes[2] = true;
  k->members = arena_copy(arena, &buffers[2], sizeof *buffers);
  k->member_count = 1;
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
