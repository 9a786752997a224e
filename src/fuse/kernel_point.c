/* Elementwise kernels: one element of each stored tensor for each index.
 *
 *     x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
 *     mask = x < 1000000
 *     ...
 *     tl.store(out_ptr + x, y, mask=mask)
 *
 * Where an operand lies transposed, the elements that are neighbours there are another axis of the tile, so that both
 * are read and written in runs:
 *
 *     y = tile // 16 * Y + tl.arange(0, Y)[:, None]
 *     x = tile % 16 * X + tl.arange(0, X)[None, :]
 *     value = tl.load(in_ptr + x * 2000 + y)
 *     tl.store(out_ptr + y * 1000 + x, value)
 *
 * Where it is the same in all of a row (a maximum of each), the tile has few long runs of rows instead.
 *
 * On a CPU so do those whose places are found by dividing x: a vector has one row's, and divides nothing. And there
 * what is joined of parts is computed part by part, without the digits of x that tell them apart (phases.c). */
#include "fuse/fuse.h"

enum { BLOCK = 1024, SIDE = 64, RUN = 512, LEAST_SIDE = 16, LEAST_RUN = 8, RUN_TILE = 4096 };

const char *kernel_program(Writer *w, int axis, const Size *extent) {
  const char *program = w->part ? "program" : arena_printf(w->cx->arena, "tl.program_id(%d)", axis);
  return index_is_wide(extent) ? arena_printf(w->cx->arena, "%s.to(tl.int64)", program) : program;
}

/* rest: x, without the digits of phases. */
static void write_roots(Writer *w, const FuseGroup *group, const FusePhases *phases, Index rest) {
  for (int phase = 0; phase < phases->count; phase++) {
    Index linear, at[GRAPH_MAX_RANK];
    if (!fuse_phase_index(w->g, phases, phase, rest, &linear))
      diag_fail(w->cx, group->roots[0]->span, "internal error: a phase's index");
    for (int i = 0; i < group->n; i++) {
      Tensor *t = group->roots[i];
      writer_split(w, linear, t->rank, t->size, NULL, at);
      FuseValue v = writer_value(w, t, at);
      if (w->plan->stored[t->id]) writer_store(w, t, at, v);
    }
  }
}

/* Whether the roots' indices can be said, where x without the digits of phases is `rest`. */
static bool can_split(Graph *g, const FuseGroup *group, const FusePhases *phases, Index rest) {
  for (int phase = 0; phase < phases->count; phase++) {
    Index linear, out[GRAPH_MAX_RANK];
    if (!fuse_phase_index(g, phases, phase, rest, &linear)) return false;
    for (int i = 0; i < group->n; i++)
      if (!index_split(g, linear, group->roots[i]->rank, group->roots[i]->size, NULL, out)) return false;
  }
  return true;
}

/* ---- two axes ---------------------------------------------------------------------------------------------------- */

typedef struct Transpose {
  int64_t outer, rows, columns; /* x = (outer * rows + row) * columns + column */
  int64_t y_block, x_block;
} Transpose;

static int64_t side(int64_t n) {
  int64_t b = LEAST_SIDE;
  while (b < n && b < SIDE) b *= 2;
  return b;
}

/* Of a row: as much as goes into it without much that is not there. */
static int64_t run(int64_t n) {
  int64_t best = side(n);
  for (int64_t b = 2 * SIDE; b <= RUN && b <= n; b *= 2)
    if (cdiv(n, b) * b * 16 <= 17 * n) best = b;
  return best;
}

static bool find_transpose(const Writer *w, const Size *n, Transpose *transpose) {
  int64_t all, rows, columns;
  if (!w->turned_below || !w->turned_size) return false;
  if (!size_is_int(n, &all) || !size_is_int(w->turned_size, &rows) || !size_is_int(w->turned_below, &columns))
    return false;
  if (rows < LEAST_SIDE || columns < LEAST_SIDE || all % (rows * columns)) return false;
  *transpose = (Transpose){all / (rows * columns), rows, columns, side(rows), side(columns)};
  if (w->turned_flat) {
    transpose->x_block = run(columns);
    if (transpose->x_block > SIDE) transpose->y_block = SIDE * SIDE / transpose->x_block;
  }
  return true;
}

static bool find_runs(const Writer *w, const Size *n, Transpose *transpose) {
  int64_t all, x_block = LEAST_RUN, y_block = 1;
  if (w->plan->target.kind != TARGET_CPU || !size_is_int(n, &all) || w->run < LEAST_RUN) return false;
  if (all % w->run || w->run == all) return false;
  while (x_block < w->run && x_block < BLOCK) x_block *= 2;
  while (x_block * y_block < RUN_TILE && y_block < all / w->run) y_block *= 2;
  *transpose = (Transpose){1, all / w->run, w->run, y_block, x_block};
  return true;
}

static bool can_transpose(Graph *g, const FuseGroup *group, const FusePhases *phases, const Writer *w, const Size *n,
                          Transpose *transpose) {
  if (!find_transpose(w, n, transpose) && !find_runs(w, n, transpose)) return false;
  int64_t rows = transpose->rows, columns = transpose->columns;
  const Size *size[] = {size_int(g, transpose->outer), size_int(g, rows), size_int(g, columns)};
  const char *const names[] = {"outer", "y", "x"};
  IndexVar vars[3];
  Index at[3];
  for (int i = 0; i < 3; i++) {
    vars[i] = (IndexVar){.text = names[i], .extent = size[i], .bit = (unsigned)i};
    at[i] = index_var(g, &vars[i]);
  }
  return can_split(g, group, phases, index_linear(g, 3, size, at));
}

static FuseKernel *transposed(FusePlan *p, const FuseGroup *group, const FusePhases *phases, const char *name,
                              const Size *n, Transpose transpose) {
  Graph *g = p->g;
  Writer *w = writer_create(p, group, name);
  int64_t y_block = transpose.y_block, x_block = transpose.x_block;
  int64_t across = cdiv(transpose.columns, x_block), down = cdiv(transpose.rows, y_block);
  const Size *size[] = {size_int(g, transpose.outer), size_int(g, transpose.rows), size_int(g, transpose.columns)};
  const IndexVar *outer = writer_var(w, "outer", NULL, size[0], 0),
                 *y = writer_var(w, "y", transpose.rows % y_block ? "y_mask" : NULL, size[1], 1),
                 *x = writer_var(w, "x", transpose.columns % x_block ? "x_mask" : NULL, size[2], 2);
  const char *tile = writer_name(w, "tile");
  writer_line(w, "%s = %s", tile, kernel_program(w, 0, n));
  if (transpose.outer > 1) {
    writer_line(w, "outer = %s // %lld", tile, (long long)(across * down));
    writer_line(w, "%s = %s %% %lld", tile, tile, (long long)(across * down));
  }
  const char *row = across == 1 ? tile : arena_printf(w->cx->arena, "%s // %lld", tile, (long long)across);
  writer_line(w, "y = %s * Y + tl.arange(0, Y)[:, None]", row);
  if (y->mask) writer_line(w, "y_mask = y < %lld", (long long)transpose.rows);
  if (across == 1) writer_line(w, "x = tl.arange(0, X)[None, :]");
  else writer_line(w, "x = %s %% %lld * X + tl.arange(0, X)[None, :]", tile, (long long)across);
  if (x->mask) writer_line(w, "x_mask = x < %lld", (long long)transpose.columns);
  Index at[] = {index_var(g, outer), index_var(g, y), index_var(g, x)};
  write_roots(w, group, phases, index_linear(g, 3, size, at));
  w->kernel->grid[0] = size_int(g, transpose.outer * across * down);
  w->kernel->block[0] = 1;
  writer_constant(w, "Y", y_block);
  writer_constant(w, "X", x_block);
  return writer_finish(w);
}

/* x without the digits of phases, in one axis. */
static Writer *flat(FusePlan *p, const FuseGroup *group, const FusePhases *phases, const char *name, const Size *n) {
  Writer *w = writer_create(p, group, name);
  bool one = size_is(n, 1);
  const IndexVar *x = writer_var(w, "x", one ? NULL : "mask", n, one ? 0 : 1);
  w->phased = phases->digits > 0;
  if (!one) {
    writer_line(w, "x = %s * BLOCK + tl.arange(0, BLOCK)", kernel_program(w, 0, n));
    writer_line(w, "mask = x < %s", writer_size(w, n));
  }
  write_roots(w, group, phases, index_var(p->g, x));
  w->kernel->grid[0] = n;
  w->kernel->block[0] = one ? 1 : BLOCK;
  if (!one) writer_constant(w, "BLOCK", BLOCK);
  return w;
}

FuseKernel *kernel_point(FusePlan *p, const FuseGroup *group) {
  const char *name = fuse_kernel_name(p, group);
  const Size *all = graph_numel(p->g, group->roots[0]), *n = all;
  FusePhases phases = {.count = 1};
  Writer *w = flat(p, group, &phases, name, n);
  for (FusePhases more = phases; p->target.kind != TARGET_GPU && fuse_add_phase(w, &more);) {
    const Size *rest = size_divide(p->g, all, size_int(p->g, more.count));
    IndexVar x = {.text = "x", .extent = rest, .bit = 1};
    if (!rest || !can_split(p->g, group, &more, index_var(p->g, &x))) break;
    phases = more;
    n = rest;
    w = flat(p, group, &phases, name, n);
  }
  Transpose transpose;
  if (can_transpose(p->g, group, &phases, w, n, &transpose)) return transposed(p, group, &phases, name, n, transpose);
  return writer_finish(w);
}
