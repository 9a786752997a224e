/* Where stored tensors lie: slots of memory, each of which holds one tensor after another. A tensor takes the smallest
 * free slot that is large enough, and no more than twice as large, from the first kernel that has it to the last. */
#include "fuse/fuse.h"

const Tensor *fuse_base(const FusePlan *p, const Tensor *t) {
  while (p->alias[t->id]) t = p->alias[t->id];
  return t;
}

static void find_lives(const FusePlan *p, int *first, int *last) {
  Graph *g = p->g;
  for (int i = 0; i < g->at.n; i++) first[i] = last[i] = -1;
  for (int k = 0; k < p->kernels.n; k++)
    for (int b = 0; b < p->kernels.at[k]->buffer_count; b++) {
      int t = fuse_base(p, p->kernels.at[k]->buffers[b])->id;
      if (first[t] < 0) first[t] = k;
      last[t] = k;
    }
  for (int i = 0; i < g->outputs.n; i++)
    if (g->outputs.at[i]) last[fuse_base(p, g->outputs.at[i])->id] = p->kernels.n;
  for (int i = 0; i < g->writes.n; i++) last[fuse_base(p, g->writes.at[i].value)->id] = p->kernels.n;
}

FuseMemory *fuse_memory(const FusePlan *p, const int64_t *bytes, const int *place) {
  Graph *g = p->g;
  Arena *a = g->cx->arena;
  FuseMemory *m = NEW(a, FuseMemory);
  int *first = NEW_N(a, int, g->at.n + 1), *last = NEW_N(a, int, g->at.n + 1), *until = NEW_N(a, int, g->at.n + 1);
  m->slot = NEW_N(a, int, g->at.n + 1);
  m->bytes = NEW_N(a, int64_t, g->at.n + 1);
  find_lives(p, first, last);
  for (int i = 0; i < g->at.n; i++) m->slot[i] = -1;
  for (int k = 0; k < p->kernels.n; k++)
    for (int b = 0; b < p->kernels.at[k]->buffer_count; b++) {
      const Tensor *t = fuse_base(p, p->kernels.at[k]->buffers[b]);
      if (place[t->id] != INT32_MAX || m->slot[t->id] >= 0) continue;
      int best = -1;
      int64_t need = bytes[t->id] ? bytes[t->id] : 1;
      for (int s = 0; s < m->count; s++)
        if (until[s] < k && m->bytes[s] >= need && m->bytes[s] / 2 <= need &&
            (best < 0 || m->bytes[s] < m->bytes[best]))
          best = s;
      if (best < 0) {
        best = m->count++;
        m->bytes[best] = need;
        m->total += need;
      }
      m->slot[t->id] = best;
      m->unshared += need;
      until[best] = last[t->id];
    }
  return m;
}
