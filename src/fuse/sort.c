/* Sorts in steps.
 *
 * What is sorted are keys: numbers of 64 bits, an element's order in the upper half and its place in the lower one. No
 * two are equal, so that however they are sorted equal elements stay as they came, and the places are read off the
 * result. Rows that fit a block are one step:
 *
 *     %k = sort_keys %x {word=1, descending=0}
 *     %b = sort_blocks %k {block=1024, kept=1024}
 *
 * Longer ones are sorted by blocks, whose runs are merged two by two; of a few first elements each block keeps as many,
 * and what they have kept is sorted by blocks again. Elements of 64 bits are sorted by their lower halves first, and
 * what came of it by the upper ones. */
#include "fuse/fuse.h"

enum { BLOCK = 1024, FEW = 4 };

/* The first k places of the last dim. */
static Tensor *in_order(Graph *g, const Tensor *sort, Tensor *x, bool upper, int64_t k) {
  int dim = x->rank - 1;
  int64_t n, block = 1;
  Tensor *keys = graph_sort_keys(g, x, upper, sort->descending);
  while (size_is_int(keys->size[dim], &n) && n > BLOCK && k <= BLOCK / FEW) keys = graph_sort_blocks(g, keys, BLOCK, k);
  while (block < n && block < BLOCK) block *= 2;
  keys = graph_sort_blocks(g, keys, block, n > block || k > block ? block : k);
  for (int64_t run = block; run < n; run *= 2) keys = graph_merge_runs(g, keys, run);
  keys = graph_slice(g, keys, dim, size_int(g, 0), size_int(g, k), 1);
  Tensor *mask = graph_full(g, DT_I64, keys->rank, keys->size, UINT32_MAX);
  return graph_point(g, POINT_AND, 2, (Tensor *[]){keys, mask});
}

static Tensor *in_steps(Graph *g, Tensor *t, const FuseTarget *target) {
  if (t->op != GRAPH_SORT || t->in_count > 1) return NULL;
  int64_t order[GRAPH_MAX_RANK], n, k, d = t->dim;
  int last = t->rank - 1;
  for (int i = 0; i <= last; i++) order[i] = i;
  order[d] = last;
  order[last] = d;
  Tensor *x = graph_permute(g, t->in[0], order), *places;
  size_is_int(x->size[last], &n);
  size_is_int(t->size[d], &k);
  if (dtype_bits(x->dtype) == 64) {
    Tensor *lower = in_order(g, t, x, false, n);
    places = graph_gather(g, lower, in_order(g, t, graph_gather(g, x, lower, last), true, k), last);
  } else places = in_order(g, t, x, true, k);
  return graph_sort_found(g, t, graph_permute(g, places, order));
}

void fuse_sort_in_steps(Graph *g, const FuseTarget *target) {
  fuse_rewrite(g, in_steps, target);
  graph_cse(g);
  graph_dce(g);
}
