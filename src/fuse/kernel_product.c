/* Products: a tile [M, N] of the result for each program, K in steps. Operands are read through their views, whatever
 * these are: a convolution is a product of windows. */
#include "fuse/fuse.h"

static int64_t block_for(const Size *s, int64_t least, int64_t most) {
  int64_t n, b = least;
  if (!size_is_int(s, &n)) return most;
  while (b < n && b < most) b *= 2;
  return b;
}

typedef struct Dot {
  Writer *w;
  Tensor *t;
  Index batch[GRAPH_MAX_RANK];
} Dot;

/* The tile of an operand, zeros where there is no element. masks: "", or what says where there are some. */
static const char *operand(Dot *d, Tensor *x, Index row, Index column) {
  Writer *w = d->w;
  Index at[GRAPH_MAX_RANK], both[] = {row, column};
  memcpy(at, d->batch, sizeof at);
  at[x->rank - 2] = row;
  at[x->rank - 1] = column;
  FuseValue v = writer_value(w, x, at);
  const char *mask = writer_mask(w, &both[0], 1, &both[1]);
  if (v.bits != 3 || v.literal) {
    const char *shape = x == d->t->in[0] ? "[M, K]" : "[K, N]";
    v.text = arena_printf(w->cx->arena, v.literal ? "tl.full(%s, %s, %s)" : "tl.broadcast_to(%s, %s)",
                          v.literal ? shape : v.text, v.literal ? v.text : shape, triton_compute_type(x->dtype));
  }
  if (mask && !v.loaded) v.text = arena_printf(w->cx->arena, "tl.where(%s, %s, 0.0)", mask, v.text);
  bool narrow = dtype_is_float(x->dtype) && dtype_bits(x->dtype) < 32;
  if (narrow) v.text = arena_printf(w->cx->arena, "(%s).to(%s)", v.text, triton_type(x->dtype));
  return v.text;
}

/* A variable of one of the tile's dims, masked where its blocks do not come out even. */
static const IndexVar *axis(Writer *w, const char *text, const Size *extent, int64_t block, unsigned bit) {
  int64_t n;
  bool even = size_is_int(extent, &n) && n % block == 0;
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

FuseKernel *kernel_product(FusePlan *p, const FuseGroup *group) {
  Graph *g = p->g;
  Tensor *t = group->roots[0], *a = t->in[0], *b = t->in[1];
  if (!dtype_is_float(t->dtype)) diag_fail(g->cx, t->span, "a product of %s is not supported", dtype_name(t->dtype));
  Dot dot = {.w = writer_create(p, group, fuse_kernel_name(p, group)), .t = t};
  Writer *w = dot.w;
  const Size *m_size = t->size[t->rank - 2], *n_size = t->size[t->rank - 1], *k_size = a->size[a->rank - 1];
  const Size *batches = size_product(g, t->rank - 2, t->size);
  const IndexVar *batch = writer_var(w, "batch", NULL, batches, 0);
  int64_t bm = block_for(m_size, 16, 64), bn = block_for(n_size, 16, 64), bk = block_for(k_size, 16, 32);
  const IndexVar *m = axis(w, "m", m_size, bm, 1), *n = axis(w, "n", n_size, bn, 2);
  /* k runs along the columns of a and the rows of b */
  const IndexVar *ka = axis(w, "k", k_size, bk, 2), *kb = axis(w, "k_row", k_size, bk, 1);
  define(w, m, "tl.program_id(0) * M + tl.arange(0, M)[:, None]");
  define(w, n, "tl.program_id(1) * N + tl.arange(0, N)[None, :]");
  if (!size_is(batches, 1)) writer_line(w, "batch = tl.program_id(2)");
  writer_split(w, index_var(w->g, batch), t->rank - 2, t->size, NULL, dot.batch);
  bool f64 = t->dtype == DT_F64;
  const char *acc = writer_name(w, t->name ? t->name : "acc");
  writer_line(w, "%s = tl.zeros([M, N], %s)", acc, f64 ? "tl.float64" : "tl.float32");
  writer_line(w, "for start in range(0, %s, K):", writer_size(w, k_size));
  Map *outside = writer_enter(w);
  define(w, ka, "start + tl.arange(0, K)[None, :]");
  define(w, kb, "start + tl.arange(0, K)[:, None]");
  set_axes(w, m, ka);
  const char *left = operand(&dot, a, index_var(g, m), index_var(g, ka));
  set_axes(w, kb, n);
  const char *right = operand(&dot, b, index_var(g, kb), index_var(g, n));
  writer_line(w, "%s = tl.dot(%s, %s, %s, input_precision=\"ieee\"%s)", acc, left, right, acc,
              f64 ? ", out_dtype=tl.float64" : "");
  writer_leave(w, outside);
  vec_push(w->cx->arena, &w->members, t);
  FuseValue v = {acc, 3, false};
  map_put(w->held, t, arena_copy(w->cx->arena, &v, sizeof v));
  Index at[GRAPH_MAX_RANK], its[GRAPH_MAX_RANK];
  memcpy(at, dot.batch, sizeof at);
  at[t->rank - 2] = index_var(g, m);
  at[t->rank - 1] = index_var(g, n);
  Index linear = index_linear(g, t->rank, t->size, at);
  set_axes(w, m, n);
  for (int i = 0; i < group->n; i++) { /* the product itself, and its epilogue */
    Tensor *root = group->roots[i];
    writer_split(w, linear, root->rank, root->size, NULL, its);
    FuseValue out = writer_value(w, root, its);
    if (p->stored[root->id]) writer_store(w, root, its, out);
  }
  w->kernel->grid[0] = m_size;
  w->kernel->grid[1] = n_size;
  w->kernel->grid[2] = batches;
  w->kernel->block[0] = bm;
  w->kernel->block[1] = bn;
  w->kernel->block[2] = 1;
  writer_constant(w, "M", w->kernel->block[0]);
  writer_constant(w, "N", w->kernel->block[1]);
  writer_constant(w, "K", bk);
  return writer_finish(w);
}
