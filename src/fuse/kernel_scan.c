/* Scans of one tensor along one dim: rows as in kernel_reduce.c, block by block, what came so far carried along.
 *
 *     before = tl.full([X, 1], 1, tl.float32)
 *     for start in range(0, 5000, R):
 *         ...
 *         part = tl.where(x_mask & r_mask, v, 1).to(tl.float32)
 *         cumprod = multiply(before, tl.associative_scan(part, 1, multiply))
 *         before = multiply(before, tl.reduce(part, 1, multiply)[:, None])
 *
 * An index of the largest goes by pairs of element and place. */
#include "fuse/fuse.h"

static const struct {
  Reduction kind; /* whose neutral element it has */
  const char *helper;
} kinds[GRAPH_OP_COUNT] = {[GRAPH_CUMSUM] = {REDUCE_SUM, NULL},
                           [GRAPH_CUMPROD] = {REDUCE_PROD, "multiply"},
                           [GRAPH_CUMMAX] = {REDUCE_MAX, "max_nan"},
                           [GRAPH_CUMMIN] = {REDUCE_MIN, "min_nan"},
                           [GRAPH_CUMARGMAX] = {REDUCE_ARGMAX, "last_max"},
                           [GRAPH_CUMARGMIN] = {REDUCE_ARGMIN, "last_min"},
                           [GRAPH_CUMLOGSUMEXP] = {REDUCE_MAX, "log_add_exp"}};

typedef struct Scan {
  Tensor *t;
  bool index;
  const char *before, *place; /* of the blocks so far; place: of an index */
} Scan;

static void begin(Writer *w, Scan *s, Tensor *t) {
  *s =
      (Scan){.t = t, .index = t->op == GRAPH_CUMARGMAX || t->op == GRAPH_CUMARGMIN, .before = writer_name(w, "before")};
  writer_line(w, "%s = tl.full([X, 1], %s, %s)", s->before, fuse_neutral(w->cx, kinds[t->op].kind, t->in[0]->dtype),
              triton_compute_type(t->in[0]->dtype));
  if (s->index) {
    s->place = writer_name(w, "place");
    writer_line(w, "%s = tl.full([X, 1], 0, tl.int64)", s->place);
  }
  if (kinds[t->op].helper) fuse_need_helper(w->plan, kinds[t->op].helper);
  vec_push(w->cx->arena, &w->members, t);
}

static void step(Writer *w, Scan *s, const Index *at) {
  Tensor *t = s->t;
  Dtype in = t->in[0]->dtype;
  const char *helper = kinds[t->op].helper, *before = s->before;
  const char *part = writer_name(w, "part"), *name = writer_name(w, t->name ? t->name : graph_ops[t->op].name);
  FuseValue v = writer_value(w, t->in[0], at);
  writer_line(w, "%s = tl.where(x_mask & r_mask, %s, %s).to(%s)", part, v.text,
              fuse_neutral(w->cx, kinds[t->op].kind, in), triton_compute_type(in));
  if (s->index) {
    const char *here = writer_name(w, "here");
    writer_line(w, "%s = tl.broadcast_to(r, [X, R]).to(tl.int64)", here);
    const char *best = writer_name(w, "best"), *last = writer_name(w, "last");
    writer_line(w, "%s, %s = tl.associative_scan((%s, %s), 1, %s)", best, last, part, here, helper);
    writer_line(w, "%s = %s(%s, %s, %s, %s)[1]", name, helper, before, s->place, best, last);
    writer_line(w, "%s, %s = tl.reduce((%s, %s), 1, %s)", best, last, part, here, helper);
    writer_line(w, "%s, %s = %s(%s, %s, %s[:, None], %s[:, None])", before, s->place, helper, before, s->place, best,
                last);
  } else if (helper) {
    writer_line(w, "%s = %s(%s, tl.associative_scan(%s, 1, %s))", name, helper, before, part, helper);
    writer_line(w, "%s = %s(%s, tl.reduce(%s, 1, %s)[:, None])", before, helper, before, part, helper);
  } else {
    writer_line(w, "%s = tl.cumsum(%s, 1) + %s", name, part, before);
    writer_line(w, "%s = %s + tl.sum(%s, 1)[:, None]", before, before, part);
  }
  writer_store(w, t, at, (FuseValue){name, 3, false});
}

FuseKernel *kernel_scan(FusePlan *p, const FuseGroup *group) {
  Graph *g = p->g;
  Tensor *t = group->roots[0];
  Writer *w = writer_create(p, group, fuse_kernel_name(p, group));
  const Size *n = t->size[t->dim], *rows = size_int(g, 1);
  bool skip[GRAPH_MAX_RANK] = {false};
  for (int d = 0; d < t->rank; d++)
    if (d != t->dim) rows = size_mul(g, rows, t->size[d]);
  skip[t->dim] = true;
  const IndexVar *x = writer_var(w, "x", "x_mask", rows, 1), *r = writer_var(w, "r", "r_mask", n, 2);
  Index at[GRAPH_MAX_RANK];
  writer_split(w, index_var(w->g, x), t->rank, t->size, skip, at);
  at[t->dim] = index_var(g, r);
  writer_line(w, "x = %s * X + tl.arange(0, X)[:, None]", kernel_program(w, 0, rows));
  writer_line(w, "x_mask = x < %s", writer_size(w, rows));
  Scan *scans = NEW_N(w->cx->arena, Scan, group->n);
  for (int i = 0; i < group->n; i++) begin(w, &scans[i], group->roots[i]);
  writer_line(w, "for start in range(0, %s, R):", writer_size(w, n));
  Map *outside = writer_enter(w);
  writer_line(w, "r = start + tl.arange(0, R)[None, :]");
  writer_line(w, "r_mask = r < %s", writer_size(w, n));
  for (int i = 0; i < group->n; i++) step(w, &scans[i], at);
  writer_leave(w, outside);
  int64_t count;
  w->kernel->grid[0] = rows;
  w->kernel->block[0] = size_is_int(rows, &count) && count < 4 ? 1 : 4;
  int64_t length, block = 512;
  while (size_is_int(n, &length) && block > 1 && block / 2 >= length) block /= 2;
  writer_constant(w, "X", w->kernel->block[0]);
  writer_constant(w, "R", block);
  return writer_finish(w);
}
