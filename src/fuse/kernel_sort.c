/* The steps of a sort (sort.c), on keys of 64 bits.
 *
 * Blocks are sorted in registers; of short rows a program has several:
 *
 *     x = tl.program_id(0) * X + tl.arange(0, X)[:, None]
 *     r = tl.arange(0, R)[None, :]
 *     ordered = tl.sort(tl.where(x_mask & r_mask, key, 9223372036854775807))
 *
 * Two runs are merged by as many programs as there are blocks in the result. Each looks first how many of the left
 * run's keys stand before its own, by halving (the merge path). The R keys from there on, of both runs, have its own
 * among them: left ones ascending and right ones descending, the smaller of each pair are these, and a bitonic merge
 * orders them. */
#include "fuse/fuse.h"

enum { TILE = 1024 };
#define LAST "9223372036854775807"

/* The rows and the places in a row that a program has. */
static void place_blocks(Writer *w, const IndexVar *x, const IndexVar *r, int64_t blocks, const Size *all) {
  const char *program = kernel_program(w, 0, all);
  if (blocks == 1) {
    writer_line(w, "x = %s * X + tl.arange(0, X)[:, None]", program);
    writer_line(w, "x_mask = x < %s", writer_size(w, x->extent));
    writer_line(w, "r = tl.arange(0, R)[None, :]");
  } else {
    writer_line(w, "x = %s // %lld", program, (long long)blocks);
    writer_line(w, "block = %s %% %lld", program, (long long)blocks);
    writer_line(w, "r = block * R + tl.arange(0, R)[None, :]");
  }
  if (r->mask) writer_line(w, "r_mask = r < %s", writer_size(w, r->extent));
}

/* Of a block's elements the first ones go to the result. */
static const IndexVar *place_kept(Writer *w, const Tensor *t, int64_t blocks, int64_t n) {
  const char *kept = writer_size(w, size_int(w->g, t->kept));
  writer_line(w, "place = tl.arange(0, R)[None, :]");
  const IndexVar *to = writer_var(w, "to", "kept", size_int(w->g, n), 2);
  if (blocks == 1) writer_line(w, "to = place");
  else writer_line(w, "to = block * %s + place", kept);
  writer_line(w, "kept = (place < %s) & (to < %lld)", kept, (long long)n);
  return to;
}

static FuseKernel *sort_blocks(FusePlan *p, Writer *w, Tensor *t) {
  Graph *g = p->g;
  Tensor *keys = t->in[0];
  int last = t->rank - 1;
  int64_t n, out, rows, block = t->block;
  size_is_int(keys->size[last], &n);
  size_is_int(t->size[last], &out);
  const Size *row_count = size_product(g, last, keys->size);
  int64_t blocks = cdiv(n, block), at_once = 1;
  if (!size_is_int(row_count, &rows)) rows = INT64_MAX;
  while (blocks == 1 && at_once * block < TILE && at_once < rows) at_once *= 2;
  const IndexVar *x = writer_var(w, "x", blocks == 1 ? "x_mask" : NULL, row_count, blocks == 1),
                 *r = writer_var(w, "r", n % block ? "r_mask" : NULL, keys->size[last], 2);
  place_blocks(w, x, r, blocks, graph_numel(g, keys));
  bool skip[GRAPH_MAX_RANK] = {false};
  Index at[GRAPH_MAX_RANK];
  skip[last] = true;
  writer_split(w, index_var(g, x), t->rank, keys->size, skip, at);
  at[last] = index_var(g, r);
  FuseValue v = writer_value(w, keys, at);
  const char *ordered = writer_name(w, "ordered"), *mask = r->mask;
  if (x->mask) mask = r->mask ? "x_mask & r_mask" : "x_mask";
  if (mask) writer_line(w, "%s = tl.sort(tl.where(%s, %s, " LAST "), 1)", ordered, mask, v.text);
  else writer_line(w, "%s = tl.sort(%s, 1)", ordered, v.text);
  if (t->kept < block) at[last] = index_var(g, place_kept(w, t, blocks, out));
  vec_push(w->cx->arena, &w->members, t);
  writer_store(w, t, at, (FuseValue){ordered, blocks == 1 ? 3 : 2, false});
  w->kernel->grid[0] = blocks == 1 ? row_count : size_mul(g, row_count, size_int(g, blocks));
  w->kernel->block[0] = at_once;
  if (blocks == 1) writer_constant(w, "X", at_once);
  writer_constant(w, "R", block);
  return writer_finish(w);
}

static FuseKernel *merge_runs(FusePlan *p, Writer *w, Tensor *t) {
  Graph *g = p->g;
  Tensor *keys = t->in[0];
  int last = t->rank - 1;
  int64_t n, tile = t->run < TILE ? t->run : TILE;
  long long run = t->run;
  size_is_int(keys->size[last], &n);
  const char *program = kernel_program(w, 0, graph_numel(g, keys)), *in = writer_buffer(w, keys),
             *out = writer_buffer(w, t);
  long long tiles = cdiv(n, tile), size = n;
  map_put(w->loaded_at, keys, "");
  map_put(w->stored_at, t, "");
  vec_push(w->cx->arena, &w->members, t);
  const char *row = size_is(size_product(g, last, keys->size), 1)
                        ? ""
                        : arena_printf(w->cx->arena, "%s // %lld * %lld + ", program, tiles, size);
  writer_line(w, "start = %s %% %lld * R", program, tiles);
  writer_line(w, "first = start // %lld * %lld", 2 * run, 2 * run);
  writer_line(w, "before = start - first");
  writer_line(w, "left_count = tl.minimum(%lld - first, %lld)", size, run);
  writer_line(w, "right_count = tl.maximum(tl.minimum(%lld - first, %lld) - %lld, 0)", size, 2 * run, run);
  writer_line(w, "left = %s + %sfirst", in, row);
  writer_line(w, "right = left + %lld", run);
  writer_line(w, "low = tl.maximum(before - right_count, 0)");
  writer_line(w, "high = tl.minimum(before, left_count)");
  writer_line(w, "while low < high:  # of the left run's keys, how many are among those before the tile");
  writer_line(w, "    middle = (low + high) // 2");
  writer_line(w, "    is_before = tl.load(left + middle) < tl.load(right + before - 1 - middle)");
  writer_line(w, "    low = tl.where(is_before, middle + 1, low)");
  writer_line(w, "    high = tl.where(is_before, high, middle)");
  writer_line(w, "r = tl.arange(0, R)");
  writer_line(w, "up = low + r");
  writer_line(w, "down = before - low + R - 1 - r");
  writer_line(w, "left_keys = tl.load(left + up, mask=up < left_count, other=" LAST ")");
  writer_line(w, "right_keys = tl.load(right + down, mask=down < right_count, other=" LAST ")");
  writer_line(w, "merged = tl.bitonic_merge(tl.minimum(left_keys, right_keys))");
  writer_line(w, "tl.store(%s + %sstart + r, merged, mask=start + r < %lld)", out, row, size);
  w->kernel->grid[0] = size_mul(g, size_product(g, last, keys->size), size_int(g, tiles));
  w->kernel->block[0] = 1;
  writer_constant(w, "R", tile);
  return writer_finish(w);
}

FuseKernel *kernel_sort(FusePlan *p, const FuseGroup *group) {
  Tensor *t = group->roots[0];
  Writer *w = writer_create(p, group, fuse_kernel_name(p, group));
  return t->op == GRAPH_SORT_BLOCKS ? sort_blocks(p, w, t) : merge_runs(p, w, t);
}
