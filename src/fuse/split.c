/* A reduction of many elements to few would be the work of a few programs. It becomes two: parts of each row by many
 * programs, then the parts. */
#include "fuse/fuse.h"

enum { FEW_ROWS = 64, MANY = 1 << 17, LEAST_PART = 1024, MOST_PARTS = 512 };

/* Into how many parts the first reduced dim is cut; 1: none. */
static int64_t parts_of(Graph *g, const Tensor *t) {
  int64_t rows, all, n;
  if (t->op != GRAPH_REDUCE || t->attr[0] == REDUCE_ARGMAX || t->attr[0] == REDUCE_ARGMIN) return 1;
  if (!size_is_int(graph_numel(g, t), &rows) || !size_is_int(graph_numel(g, t->in[0]), &all)) return 1;
  if (!rows || rows >= FEW_ROWS || all < MANY || !size_is_int(t->in[0]->size[t->dims[0]], &n)) return 1;
  int64_t best = 1;
  for (int64_t c = 2; c <= MOST_PARTS && c <= n; c++)
    if (n % c == 0 && all / rows / c >= LEAST_PART) best = c;
  return best;
}

static Tensor *split(Graph *g, const Tensor *t, int64_t parts) {
  Tensor *x = t->in[0];
  const Size *size[GRAPH_MAX_RANK];
  int64_t dims[GRAPH_MAX_RANK];
  int d = (int)t->dims[0];
  for (int i = 0; i < x->rank; i++) size[i + (i > d)] = x->size[i];
  size[d] = size_int(g, parts);
  size[d + 1] = size_divide(g, x->size[d], size[d]);
  for (int i = 0; i < t->dim_count; i++) dims[i] = t->dims[i] + 1;
  Tensor *part = graph_reduce(g, (Reduction)t->attr[0], graph_reshape(g, x, x->rank + 1, size), t->dim_count, dims);
  return graph_reshape(g, graph_reduce(g, (Reduction)t->attr[0], part, 1, (int64_t[]){d}), t->rank, t->size);
}

void fuse_split_reductions(Graph *g) {
  int n = g->at.n;
  Tensor **old = g->at.at, **now = NEW_N(g->cx->arena, Tensor *, n + 1);
  memset(&g->at, 0, sizeof g->at);
  for (int i = 0; i < n; i++) {
    Tensor *t = old[i];
    for (int k = 0; k < t->in_count; k++) t->in[k] = now[t->in[k]->id];
    g->place = t->span;
    int64_t parts = t->op == GRAPH_REDUCE && t->in[0]->rank < GRAPH_MAX_RANK ? parts_of(g, t) : 1;
    if (parts > 1) {
      now[i] = split(g, t, parts);
      now[i]->name = t->name;
    } else {
      vec_push(g->cx->arena, &g->at, t);
      now[i] = t;
    }
  }
  /* ids were the old places until here */
  for (int i = 0; i < g->outputs.n; i++)
    if (g->outputs.at[i]) g->outputs.at[i] = now[g->outputs.at[i]->id];
  for (int i = 0; i < g->writes.n; i++) g->writes.at[i].value = now[g->writes.at[i].value->id];
  for (int i = 0; i < g->at.n; i++) g->at.at[i]->id = i;
  g->place = (Span){0};
}
