/* Products: a tile [M, N] of the result for each program, K in steps. Operands are read through their views, whatever
 * these are: a convolution is a product of windows. */
#include "fuse/fuse.h"

typedef struct Dot {
  Writer *w;
  Tensor *t;
  Index batch[GRAPH_MAX_RANK];
} Dot;

/* Whether x is an array as it stands, or a part of one. */
static bool is_stored(const Writer *w, const Tensor *x) {
  while (graph_is_view(x) && x->op != GRAPH_PAD && x->op != GRAPH_CONCAT && !w->plan->stored[x->id]) x = x->in[0];
  return x->op == GRAPH_INPUT || w->plan->stored[x->id];
}

/* The tile of an operand, zeros where there is no element. masks: "", or what says where there are some. */
static const char *operand(Dot *d, Tensor *x, Index row, Index column) {
  Writer *w = d->w;
  Index at[GRAPH_MAX_RANK], both[] = {row, column};
  memcpy(at, d->batch, sizeof at);
  at[x->rank - 2] = row;
  at[x->rank - 1] = column;
  bool narrow = dtype_is_float(x->dtype) && dtype_bits(x->dtype) < 32;
  w->raw = narrow && is_stored(w, x);
  w->zeros = true;
  FuseValue v = writer_value(w, x, at);
  w->zeros = false;
  const char *mask = writer_mask(w, &both[0], 1, &both[1]);
  if (v.bits != 3 || v.literal) {
    const char *shape = x == d->t->in[0] ? "[M, K]" : "[K, N]";
    v.text = arena_printf(w->cx->arena, v.literal ? "tl.full(%s, %s, %s)" : "tl.broadcast_to(%s, %s)",
                          v.literal ? shape : v.text, v.literal ? v.text : shape, triton_compute_type(x->dtype));
  }
  if (mask && (!v.loaded || v.bits != 3)) /* a load has the masks of the axes along which it goes */
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

/* The number of a program, or of a step's beginning: with 64 bits where indices up to the extent need them. */
static const char *widened(Writer *w, const Size *extent, const char *text) {
  return index_is_wide(extent) ? arena_printf(w->cx->arena, "%s.to(tl.int64)", text) : text;
}

static const char *blocks(Writer *w, const char *program, const char *block, const char *shape) {
  return arena_printf(w->cx->arena, "%s * %s + tl.arange(0, %s)%s", program, block, block, shape);
}

/* Where the program's tile lies. Of many tiles groups of rows go together, so that what they read is in the cache. */
static void place_tiles(Writer *w, const Tensor *t, FuseTile tile, const IndexVar *m, const IndexVar *n,
                        const Size *batches) {
  int64_t rows, columns;
  bool few = size_is_int(m->extent, &rows) && size_is_int(n->extent, &columns) &&
             (rows <= 8 * tile.m || columns <= tile.n || w->plan->target.kind == TARGET_ANY);
  if (few) {
    define(w, m, blocks(w, widened(w, m->extent, "tl.program_id(0)"), "M", "[:, None]"));
    define(w, n, blocks(w, widened(w, n->extent, "tl.program_id(1)"), "N", "[None, :]"));
  } else {
    writer_line(w, "tile_m, tile_n = grouped_tile(tl.program_id(0), tl.cdiv(%s, M), tl.cdiv(%s, N))",
                writer_size(w, m->extent), writer_size(w, n->extent));
    define(w, m, blocks(w, widened(w, m->extent, "tile_m"), "M", "[:, None]"));
    define(w, n, blocks(w, widened(w, n->extent, "tile_n"), "N", "[None, :]"));
    fuse_need_helper(w->plan, "grouped_tile");
    w->kernel->flat = true;
  }
  if (!size_is(batches, 1))
    writer_line(w, "batch = %s", widened(w, batches, few ? "tl.program_id(2)" : "tl.program_id(1)"));
}

void product_dims(Graph *g, const Tensor *t, const Size *dims[4]) {
  const Tensor *a = t->in[0];
  dims[0] = t->size[t->rank - 2];
  dims[1] = t->size[t->rank - 1];
  dims[2] = a->size[a->rank - 1];
  dims[3] = size_product(g, t->rank - 2, t->size);
}

FuseKernel *kernel_product(FusePlan *p, const FuseGroup *group, FuseTile tile) {
  Graph *g = p->g;
  Tensor *t = group->roots[0], *a = t->in[0], *b = t->in[1];
  if (!dtype_is_float(t->dtype)) diag_fail(g->cx, t->span, "a product of %s is not supported", dtype_name(t->dtype));
  Dot dot = {.w = writer_create(p, group, fuse_kernel_name(p, group)), .t = t};
  Writer *w = dot.w;
  const Size *m_size = t->size[t->rank - 2], *n_size = t->size[t->rank - 1], *k_size = a->size[a->rank - 1];
  const Size *batches = size_product(g, t->rank - 2, t->size);
  const IndexVar *batch = writer_var(w, "batch", NULL, batches, 0);
  const IndexVar *m = axis(w, t, "m", m_size, tile.m, 1), *n = axis(w, t, "n", n_size, tile.n, 2);
  /* k runs along the columns of a and the rows of b */
  const IndexVar *ka = axis(w, t, "k", k_size, tile.k, 2), *kb = axis(w, t, "k_row", k_size, tile.k, 1);
  place_tiles(w, t, tile, m, n, batches);
  writer_split(w, index_var(w->g, batch), t->rank - 2, t->size, NULL, dot.batch);
  bool f64 = t->dtype == DT_F64;
  const char *acc = writer_name(w, t->name ? t->name : "acc");
  const char *type = f64 ? "tl.float64" : "tl.float32";
  writer_line(w, "%s = tl.zeros([M, N], %s)", acc, type);
  writer_line(w, "for start in range(0, %s, K):", writer_size(w, k_size));
  Map *outside = writer_enter(w);
  const char *start = widened(w, k_size, "start");
  define(w, ka, arena_printf(g->cx->arena, "%s + tl.arange(0, K)[None, :]", start));
  define(w, kb, arena_printf(g->cx->arena, "%s + tl.arange(0, K)[:, None]", start));
  set_axes(w, m, ka);
  const char *left = operand(&dot, a, index_var(g, m), index_var(g, ka));
  set_axes(w, kb, n);
  const char *right = operand(&dot, b, index_var(g, kb), index_var(g, n));
  writer_line(w, "%s = tl.dot(%s, %s, %s, input_precision=\"%s\"%s)", acc, left, right, acc,
              fuse_precision(&p->target, t, ALONE), f64 ? ", out_dtype=tl.float64" : "");
  writer_leave(w, outside);
  vec_push(w->cx->arena, &w->members, t);
  FuseValue v = {acc, 3, false};
  map_put(w->held, t, arena_copy(w->cx->arena, &v, sizeof v));
  Index at[GRAPH_MAX_RANK], its[GRAPH_MAX_RANK];
  memcpy(at, dot.batch, sizeof at);
  at[t->rank - 2] = index_var(g, m);
  at[t->rank - 1] = index_var(g, n);
  set_axes(w, m, n);
  for (int i = 0; i < group->n; i++) { /* the product itself, and its epilogue */
    Tensor *root = group->roots[i];
    if (!fuse_epilogue_index(g, t, root, at, its)) diag_fail(g->cx, root->span, "internal error: an epilogue's index");
    FuseValue out = writer_value(w, root, its);
    if (p->stored[root->id]) writer_store(w, root, its, out);
  }
  w->kernel->grid[0] = m_size;
  w->kernel->grid[1] = n_size;
  w->kernel->grid[2] = batches;
  w->kernel->block[0] = tile.m;
  w->kernel->block[1] = tile.n;
  w->kernel->block[2] = 1;
  w->kernel->num_warps = tile.num_warps;
  writer_constant(w, "M", tile.m);
  writer_constant(w, "N", tile.n);
  writer_constant(w, "K", tile.k);
  return writer_finish(w);
}
