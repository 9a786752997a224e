/* The rules of build.c, asked again of a finished graph: operands stand before their users, and an operation made anew
 * from the same operands and attributes has the same type. */
#include "graph/graph.h"

static NORETURN void wrong(const Graph *g, const Tensor *t, const char *after, const char *what) {
  diag_fail(g->cx, t->span, "internal error: the graph is wrong after %s: %%%d: %s", after, t->id, what);
}

Tensor *graph_again(Graph *g, const Tensor *t) {
  switch (t->op) {
    case GRAPH_INPUT:
    case GRAPH_OP_COUNT: return NULL;
    case GRAPH_FULL: return graph_full(g, t->dtype, t->rank, t->size, t->number);
    case GRAPH_IOTA: return graph_iota(g, t->dtype, t->rank ? t->size[0] : size_int(g, 0), t->start, t->step);
    case GRAPH_EXTENT: return graph_extent(g, t->dtype, t->extent);
    case GRAPH_UNIFORM: {
      int streams = g->streams;
      Tensor *same = graph_uniform(g, t->dtype, t->rank, t->size);
      g->streams = streams;
      return same;
    }
    case GRAPH_POINT:
      if (t->point == POINT_CONVERT) return graph_convert(g, t->in[0], t->dtype);
      return graph_point(g, t->point, t->in_count, t->in);
    case GRAPH_REDUCE: return graph_reduce(g, (Reduction)t->kind, t->in[0], t->dim_count, t->dims);
    case GRAPH_CUMSUM:
    case GRAPH_CUMPROD:
    case GRAPH_CUMMAX:
    case GRAPH_CUMMIN:
    case GRAPH_CUMARGMAX:
    case GRAPH_CUMARGMIN:
    case GRAPH_CUMLOGSUMEXP: return graph_scan(g, t->op, t->in[0], (int)t->dim);
    case GRAPH_PERMUTE: return graph_permute(g, t->in[0], t->dims);
    case GRAPH_RESHAPE: return graph_reshape(g, t->in[0], t->rank, t->size);
    case GRAPH_EXPAND: return graph_expand(g, t->in[0], t->rank, t->size);
    case GRAPH_SLICE: return graph_slice(g, t->in[0], (int)t->dim, t->first, t->size[t->dim], t->step);
    case GRAPH_PAD: return graph_pad(g, t->in[0], t->before, t->between, t->size, t->number);
    case GRAPH_CONCAT: return graph_concat(g, t->in_count, t->in, (int)t->dim);
    case GRAPH_UNFOLD: return graph_unfold(g, t->in[0], (int)t->dim, t->window, t->step, t->dilation);
    case GRAPH_DETACH: return graph_detach(g, t->in[0], t->in_count > 1 ? t->in[1] : NULL);
    case GRAPH_GATHER: return graph_gather(g, t->in[0], t->in[1], (int)t->dim);
    case GRAPH_SCATTER: return graph_scatter(g, t->in[0], t->in[1], t->in[2], (int)t->dim, (ScatterMode)t->mode);
    case GRAPH_SORT:
      if (t->in_count > 1) return graph_sort_found(g, t, t->in[1]);
      return graph_sort(g, t->in[0], (int)t->dim, t->descending, t->size[t->dim]);
    case GRAPH_SORT_KEYS: return graph_sort_keys(g, t->in[0], t->word, t->descending);
    case GRAPH_SORT_BLOCKS: return graph_sort_blocks(g, t->in[0], t->block, t->kept);
    case GRAPH_MERGE_RUNS: return graph_merge_runs(g, t->in[0], t->run);
    case GRAPH_CONVOLUTION: return graph_convolution(g, t, t->in_count, t->in);
    case GRAPH_PRODUCT: return graph_product(g, t->in[0], t->in[1], t->tf32);
  }
  return NULL;
}

void graph_verify(Graph *g, const char *after) {
  int n = g->at.n;
  for (int i = 0; i < n; i++) g->at.at[i]->note = NULL;
  for (int i = 0; i < n; i++) {
    Tensor *t = g->at.at[i];
    const GraphOpInfo *info = &graph_ops[t->op];
    if (t->in_count < info->least || (info->most >= 0 && t->op != GRAPH_POINT && t->in_count > info->most))
      wrong(g, t, after, "its number of operands");
    for (int k = 0; k < t->in_count; k++)
      if (!t->in[k]->note) wrong(g, t, after, "an operand that comes later");
    g->place = t->span;
    Tensor *same = graph_again(g, t);
    if (same && (same->dtype != t->dtype || !graph_same_shape(same, t))) wrong(g, t, after, "its type");
    g->at.n = n;
    t->note = t;
  }
  for (int i = 0; i < g->outputs.n; i++)
    if (g->outputs.at[i] && !g->outputs.at[i]->note)
      diag_fail(g->cx, (Span){0}, "internal error: output %d after %s", i, after);
  g->place = (Span){0};
}
