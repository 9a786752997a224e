/* Products: a tile [M, N] of the result for each program, K in steps. Operands are read through their views, whatever
 * these are: a convolution is a product of windows.
 *
 * On a CPU columns whose places come by dividing n (the pixels of an image, row by row) are two axes of the tile, so
 * that a vector lies in one row, and divides nothing:
 *
 *     y = tl.program_id(1) * Y + tl.arange(0, Y)[None, :, None]
 *     x = tl.arange(0, X)[None, None, :]
 *     x_2 = tl.load(x_ptr + ... + y * 62 + x, mask=x_mask & y_mask)
 *     acc = tl.dot(w, tl.reshape(x_2, [K, Y * X]), acc) */
#include "fuse/fuse.h"

enum { LEAST_RUN = 8, NO_AXIS = 1 << 30 };

typedef struct Dot {
  Writer *w;
  Tensor *t;
  FuseTile tile;
  int64_t run;                   /* columns of which rows of `run` are an axis of their own; 0: n counts all */
  const IndexVar *m, *n;         /* of the result's tile; of a tile with rows y and x, in place of n */
  const IndexVar *y, *x, *m_row; /* m_row: m, as an axis before these */
  int64_t y_block, x_block;
  Index batch[GRAPH_MAX_RANK];
} Dot;

static bool in_rows(const Dot *d) { return d->run > 0; }

/* The column of the result. */
static Index column(const Dot *d) {
  Graph *g = d->w->g;
  if (!in_rows(d)) return index_var(g, d->n);
  return index_add(g, index_scale(g, index_var(g, d->y), size_int(g, d->run)), index_var(g, d->x));
}

/* Whether x is an array as it stands, or a part of one. */
static bool is_stored(const Writer *w, const Tensor *x) {
  while (graph_is_view(x) && x->op != GRAPH_PAD && x->op != GRAPH_CONCAT && !w->plan->stored[x->id]) x = x->in[0];
  return x->op == GRAPH_INPUT || w->plan->stored[x->id];
}

/* The tile of an operand, zeros where there is no element. */
static const char *operand(Dot *d, Tensor *x, Index row, Index column, const char *shape) {
  Writer *w = d->w;
  Index at[GRAPH_MAX_RANK], both[] = {row, column};
  unsigned all = 0;
  for (int i = 0; i < w->vars.n; i++) all |= w->vars.at[i]->bit;
  memcpy(at, d->batch, sizeof at);
  at[x->rank - 2] = row;
  at[x->rank - 1] = column;
  bool narrow = dtype_is_float(x->dtype) && dtype_bits(x->dtype) < 32;
  w->raw = narrow && is_stored(w, x);
  w->zeros = true;
  FuseValue v = writer_value(w, x, at);
  w->zeros = false;
  const char *mask = writer_mask(w, &both[0], 1, &both[1]);
  if (v.bits != all || v.literal) {
    v.text = arena_printf(w->cx->arena, v.literal ? "tl.full(%s, %s, %s)" : "tl.broadcast_to(%s, %s)",
                          v.literal ? shape : v.text, v.literal ? v.text : shape, triton_compute_type(x->dtype));
  }
  if (mask && (!v.loaded || v.bits != all)) /* a load has the masks of the axes along which it goes */
    v.text = arena_printf(w->cx->arena, "tl.where(%s, %s, 0.0)", mask, v.text);
  if (narrow && !w->raw) v.text = arena_printf(w->cx->arena, "(%s).to(%s)", v.text, triton_type(x->dtype));
  w->raw = false;
  return v.text;
}

/* Whether operands may come by tensor maps (of 16 bits, sm_90): from masks these learn where the array ends. */
static bool wants_bounds(const Writer *w, const Tensor *t) {
  return w->plan->target.kind == TARGET_GPU && w->plan->target.sm >= 90 && dtype_bits(t->dtype) == 16;
}

/* A variable of one of the tile's dims, masked where its blocks do not come out even. */
static const IndexVar *axis(Writer *w, const Tensor *t, const char *text, const Size *extent, int64_t block,
                            unsigned bit) {
  int64_t n;
  bool even = !wants_bounds(w, t) && size_is_int(extent, &n) && n % block == 0;
  return writer_var(w, text, even ? NULL : arena_printf(w->cx->arena, "%s_mask", text), extent, bit);
}

static void define(Writer *w, const IndexVar *v, const char *text) {
  writer_line(w, "%s = %s", v->text, text);
  if (v->mask) writer_line(w, "%s = %s < %s", v->mask, v->text, writer_size(w, v->extent));
}

static void set_axes(Writer *w, const IndexVar *rows, const IndexVar *columns) {
  w->vars.n = 0;
  vec_push(w->cx->arena, &w->vars, rows);
  vec_push(w->cx->arena, &w->vars, columns);
}

/* Of a tile with the result's columns. */
static void set_axes_of(const Dot *d, const IndexVar *rows) {
  Writer *w = d->w;
  set_axes(w, rows, in_rows(d) ? d->y : d->n);
  if (in_rows(d)) vec_push(w->cx->arena, &w->vars, d->x);
}

/* The number of a program, or of a step's beginning: with 64 bits where indices up to the extent need them. */
static const char *widened(Writer *w, const Size *extent, const char *text) {
  return index_is_wide(extent) ? arena_printf(w->cx->arena, "%s.to(tl.int64)", text) : text;
}

static const char *blocks(Writer *w, const char *program, const char *block, const char *shape) {
  return arena_printf(w->cx->arena, "%s * %s + tl.arange(0, %s)%s", program, block, block, shape);
}

static int64_t rows_of(const Dot *d) {
  int64_t rows = 1;
  size_is_int(d->y->extent, &rows);
  return rows;
}

static int64_t tiles_across(const Dot *d) { return cdiv(d->run, d->x_block); }

static void define_columns(Dot *d, const char *program) {
  Writer *w = d->w;
  if (!in_rows(d)) {
    define(w, d->n, blocks(w, widened(w, d->n->extent, program), "N", "[None, :]"));
    return;
  }
  Arena *arena = w->cx->arena;
  int64_t across = tiles_across(d);
  const char *down = across == 1 ? program : arena_printf(arena, "%s // %lld", program, (long long)across);
  define(w, d->y, blocks(w, widened(w, d->t->size[d->t->rank - 1], down), "Y", "[None, :, None]"));
  if (across == 1) define(w, d->x, "tl.arange(0, X)[None, None, :]");
  else
    define(w, d->x, blocks(w, arena_printf(arena, "%s %% %lld", program, (long long)across), "X", "[None, None, :]"));
}

/* Where the program's tile lies. Of many tiles groups of rows go together, so that what they read is in the cache. */
static void place_tiles(Dot *d, const Size *n_size, const Size *batches) {
  Writer *w = d->w;
  int64_t rows, columns, tiles = in_rows(d) ? tiles_across(d) * cdiv(rows_of(d), d->y_block) : 0;
  bool few = size_is_int(d->m->extent, &rows) && size_is_int(n_size, &columns) &&
             (rows <= 8 * d->tile.m || columns <= d->tile.n || w->plan->target.kind == TARGET_ANY);
  if (!few) {
    const char *count = in_rows(d) ? arena_printf(w->cx->arena, "%lld", (long long)tiles)
                                   : arena_printf(w->cx->arena, "tl.cdiv(%s, N)", writer_size(w, n_size));
    writer_line(w, "tile_m, tile_n = grouped_tile(tl.program_id(0), tl.cdiv(%s, M), %s)", writer_size(w, d->m->extent),
                count);
    fuse_need_helper(w->plan, "grouped_tile");
    w->kernel->flat = true;
  }
  const char *row = widened(w, d->m->extent, few ? "tl.program_id(0)" : "tile_m");
  define(w, d->m, blocks(w, row, "M", "[:, None]"));
  define_columns(d, few ? "tl.program_id(1)" : "tile_n");
  if (in_rows(d)) define(w, d->m_row, blocks(w, row, "M", "[:, None, None]"));
  if (!size_is(batches, 1))
    writer_line(w, "batch = %s", widened(w, batches, few ? "tl.program_id(2)" : "tl.program_id(1)"));
  w->kernel->grid[1] = in_rows(d) ? size_int(w->g, tiles) : n_size;
  w->kernel->block[1] = in_rows(d) ? 1 : d->tile.n;
}

void product_dims(Graph *g, const Tensor *t, const Size *dims[4]) {
  const Tensor *a = t->in[0];
  dims[0] = t->size[t->rank - 2];
  dims[1] = t->size[t->rank - 1];
  dims[2] = a->size[a->rank - 1];
  dims[3] = size_product(g, t->rank - 2, t->size);
}

/* The axes of the result's columns. */
static void make_columns(Dot *d, const Size *n_size) {
  Writer *w = d->w;
  int64_t all;
  if (!in_rows(d)) {
    d->n = axis(w, d->t, "n", n_size, d->tile.n, 2);
    return;
  }
  size_is_int(n_size, &all);
  d->m_row = axis(w, d->t, "m_row", d->m->extent, d->tile.m, 1);
  d->y = axis(w, d->t, "y", size_int(w->g, all / d->run), d->y_block, 2);
  d->x = axis(w, d->t, "x", size_int(w->g, d->run), d->x_block, 4);
}

/* The loop over k. */
static void write_sum(Dot *d, const Size *k_size, const char *acc) {
  Writer *w = d->w;
  Graph *g = w->g;
  Tensor *t = d->t;
  bool f64 = t->dtype == DT_F64, rows = in_rows(d);
  /* k runs along the columns of a and the rows of b */
  const IndexVar *ka = axis(w, t, "k", k_size, d->tile.k, 2), *kb = axis(w, t, "k_row", k_size, d->tile.k, 1);
  writer_line(w, "%s = tl.zeros([M, %s], %s)", acc, rows ? "Y * X" : "N", f64 ? "tl.float64" : "tl.float32");
  writer_line(w, "for start in range(0, %s, K):", writer_size(w, k_size));
  Map *outside = writer_enter(w);
  const char *start = widened(w, k_size, "start");
  define(w, ka, arena_printf(g->cx->arena, "%s + tl.arange(0, K)[None, :]", start));
  define(w, kb, arena_printf(g->cx->arena, "%s + tl.arange(0, K)[:, None%s]", start, rows ? ", None" : ""));
  set_axes(w, d->m, ka);
  const char *left = operand(d, t->in[0], index_var(g, d->m), index_var(g, ka), "[M, K]");
  set_axes_of(d, kb);
  w->run_bit = 2;
  const char *right = operand(d, t->in[1], index_var(g, kb), column(d), rows ? "[K, Y, X]" : "[K, N]");
  w->run_bit = NO_AXIS;
  if (rows) right = arena_printf(g->cx->arena, "tl.reshape(%s, [K, Y * X])", right);
  writer_line(w, "%s = tl.dot(%s, %s, %s, input_precision=\"%s\"%s)", acc, left, right, acc,
              fuse_precision(&w->plan->target, t, ALONE), f64 ? ", out_dtype=tl.float64" : "");
  writer_leave(w, outside);
  if (rows) writer_line(w, "%s = tl.reshape(%s, [M, Y, X])", acc, acc);
}

/* An element of the result's tile. */
static void element(const Dot *d, Index *at) {
  memcpy(at, d->batch, sizeof d->batch);
  at[d->t->rank - 2] = index_var(d->w->g, in_rows(d) ? d->m_row : d->m);
  at[d->t->rank - 1] = column(d);
}

static FuseKernel *product(FusePlan *p, const FuseGroup *group, const char *name, Dot *d, int64_t *run) {
  Graph *g = p->g;
  Tensor *t = group->roots[0], *a = t->in[0];
  Writer *w = d->w = writer_create(p, group, name);
  d->t = t;
  w->run_bit = NO_AXIS;
  const Size *m_size = t->size[t->rank - 2], *n_size = t->size[t->rank - 1], *k_size = a->size[a->rank - 1];
  const Size *batches = size_product(g, t->rank - 2, t->size);
  const IndexVar *batch = writer_var(w, "batch", NULL, batches, 0);
  d->m = axis(w, t, "m", m_size, d->tile.m, 1);
  make_columns(d, n_size);
  place_tiles(d, n_size, batches);
  writer_split(w, index_var(w->g, batch), t->rank - 2, t->size, NULL, d->batch);
  const char *acc = writer_name(w, t->name ? t->name : "acc");
  write_sum(d, k_size, acc);
  vec_push(w->cx->arena, &w->members, t);
  FuseValue v = {acc, in_rows(d) ? 7 : 3, false};
  map_put(w->held, t, arena_copy(w->cx->arena, &v, sizeof v));
  Index at[GRAPH_MAX_RANK], its[GRAPH_MAX_RANK];
  element(d, at);
  set_axes_of(d, in_rows(d) ? d->m_row : d->m);
  w->run_bit = 2;
  w->phased = true;
  for (int i = 0; i < group->n; i++) { /* the product itself, and its epilogue */
    Tensor *root = group->roots[i];
    if (!fuse_epilogue_index(g, t, root, at, its)) diag_fail(g->cx, root->span, "internal error: an epilogue's index");
    FuseValue out = writer_value(w, root, its);
    if (p->stored[root->id]) writer_store(w, root, its, out);
  }
  w->kernel->grid[0] = m_size;
  w->kernel->grid[2] = batches;
  w->kernel->block[0] = d->tile.m;
  w->kernel->block[2] = 1;
  w->kernel->num_warps = d->tile.num_warps;
  writer_constant(w, "M", d->tile.m);
  if (in_rows(d)) {
    writer_constant(w, "Y", d->y_block);
    writer_constant(w, "X", d->x_block);
  } else writer_constant(w, "N", d->tile.n);
  writer_constant(w, "K", d->tile.k);
  *run = w->run;
  return writer_finish(w);
}

/* Whether columns are better taken in rows of `run`: then the widest blocks of them with the least that is not there.
 */
static bool find_rows(FusePlan *p, const FuseGroup *group, int64_t run, Dot *d) {
  const Tensor *t = group->roots[0];
  Graph *g = p->g;
  int64_t all, least = INT64_MAX;
  if (p->target.kind != TARGET_CPU || run < LEAST_RUN || !size_is_int(t->size[t->rank - 1], &all)) return false;
  if (run >= all || all % run) return false;
  d->run = run;
  for (int64_t x_block = d->tile.n; x_block >= LEAST_RUN; x_block /= 2) {
    int64_t y_block = d->tile.n / x_block, wide = cdiv(run, x_block) * x_block * cdiv(all / run, y_block) * y_block;
    if (wide >= least) continue;
    least = wide;
    d->x_block = x_block;
    d->y_block = y_block;
  }
  if (least * 8 > all * 9) return false;
  IndexVar y = {.text = "y", .extent = size_int(g, all / run), .bit = 2},
           x = {.text = "x", .extent = size_int(g, run), .bit = 4}, m = {.text = "m", .bit = 1};
  m.extent = t->size[t->rank - 2];
  Writer w = {.cx = g->cx, .g = g};
  Dot trial = {.w = &w, .t = d->t, .run = run, .m_row = &m, .y = &y, .x = &x};
  Index at[GRAPH_MAX_RANK], its[GRAPH_MAX_RANK];
  memcpy(trial.batch, d->batch, sizeof trial.batch);
  element(&trial, at);
  for (int i = 0; i < group->n; i++)
    if (!fuse_epilogue_index(g, t, group->roots[i], at, its)) return false;
  return true;
}

FuseKernel *kernel_product(FusePlan *p, const FuseGroup *group, FuseTile tile) {
  const Tensor *t = group->roots[0];
  if (!dtype_is_float(t->dtype)) diag_fail(p->g->cx, t->span, "a product of %s is not supported", dtype_name(t->dtype));
  const char *name = fuse_kernel_name(p, group);
  int64_t run, none;
  Dot d = {.tile = tile};
  FuseKernel *kernel = product(p, group, name, &d, &run);
  return find_rows(p, group, run, &d) ? product(p, group, name, &d, &none) : kernel;
}
