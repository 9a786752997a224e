/* A product by a library: its operands as matrices in memory, and its epilogue as kernels of their own.
 *
 * Views between a product and an array (slices, transposes, reshapes) are in the array's index, a sum of digits
 * (index.c). A library takes a matrix whose index is row * lead + column, or row + column * lead, and for each batch
 * so many elements further on. */
#include "fuse/fuse.h"

typedef struct Axes {
  IndexVar batch, row, column;
} Axes;

/* How many elements lie between neighbours along v; 0: it does not count. NULL: there is no such number. */
static const Size *stride(Graph *g, const Index *place, const IndexVar *v) {
  const Size *found = size_int(g, 0);
  for (int i = 0; i < place->n; i++) {
    const IndexTerm *t = &place->at[i];
    if (t->var != v) continue;
    if (t->size || !size_is(t->below, 1) || !size_is(found, 0)) return NULL;
    found = t->factor;
  }
  return found;
}

/* Whether rows (or columns) that are `lead` apart do not overlap, for certain. */
static bool is_lead(Graph *g, const Size *lead, const Size *length) {
  int64_t a, b;
  if (size_is_int(lead, &a) && size_is_int(length, &b)) return a >= b && a > 0;
  return size_divide(g, lead, length) != NULL;
}

static bool find_lead(Graph *g, FuseMatrix *m, const Axes *x, const Size *row, const Size *column) {
  bool one_row = size_is(x->row.extent, 1), one_column = size_is(x->column.extent, 1);
  if (!row || !column || (!one_row && size_is(row, 0)) || (!one_column && size_is(column, 0))) return false;
  m->across = !(one_column || size_is(column, 1));
  if (m->across && !(one_row || size_is(row, 1))) return false;
  m->lead = m->across ? column : one_row ? x->column.extent : row;
  return is_lead(g, m->lead, m->across ? x->row.extent : x->column.extent);
}

static bool find_matrix(FusePlan *p, Tensor *t, const Size *batches, FuseMatrix *m) {
  Graph *g = p->g;
  Axes x = {
      {"batch", NULL, batches, 0}, {"row", NULL, t->size[t->rank - 2], 0}, {"column", NULL, t->size[t->rank - 1], 0}};
  Index at[GRAPH_MAX_RANK], in[GRAPH_MAX_RANK];
  if (!index_split(g, index_var(g, &x.batch), t->rank - 2, t->size, NULL, at)) return false;
  at[t->rank - 2] = index_var(g, &x.row);
  at[t->rank - 1] = index_var(g, &x.column);
  while (t->op != GRAPH_INPUT && !p->stored[t->id]) {
    if (!graph_is_view(t) || !fuse_view_index(g, t, at, in)) return false;
    memcpy(at, in, sizeof at);
    t = t->in[0];
  }
  Index place = index_linear(g, t->rank, t->size, at);
  m->array = t;
  m->first = place.constant;
  m->batch = stride(g, &place, &x.batch);
  return m->batch && find_lead(g, m, &x, stride(g, &place, &x.row), stride(g, &place, &x.column));
}

bool product_as_library(FusePlan *p, Tensor *t, FuseLibrary *out) {
  Tensor *a = t->in[0], *b = t->in[1];
  *out = (FuseLibrary){.product = t, .m = t->size[t->rank - 2], .n = t->size[t->rank - 1], .k = a->size[a->rank - 1]};
  out->batches = size_product(p->g, t->rank - 2, t->size);
  return find_matrix(p, a, out->batches, &out->a) && find_matrix(p, b, out->batches, &out->b) &&
         out->a.array->dtype == t->dtype && out->b.array->dtype == t->dtype;
}

static FuseKernel *kernel_library(FusePlan *p, const FuseLibrary *l) {
  Arena *arena = p->g->cx->arena;
  FuseGroup group = {.n = 1, .roots = (Tensor **)&l->product};
  FuseKernel *k = fuse_library_kernel(p, &group, l->a.array, l->b.array);
  k->library = arena_copy(arena, l, sizeof *l);
  k->text = arena_printf(arena, "# %s: a library multiplies [%s, %s] by [%s, %s]\n", k->name, l->m->text, l->k->text,
                         l->k->text, l->n->text);
  return k;
}

void product_by_library(FusePlan *p, const FuseGroup *group, const FuseLibrary *l, const char *notes) {
  Arena *arena = p->g->cx->arena;
  FuseKernel *k = kernel_library(p, l);
  k->notes = notes;
  p->stored[l->product->id] = true;
  vec_push(arena, &p->kernels, k);
  for (int i = 1; i < group->n; i++) {
    FuseGroup one = {.kind = FUSE_POINT, .n = 1, .roots = &group->roots[i]};
    if (p->stored[group->roots[i]->id])
      vec_push(arena, &p->kernels, kernel_point(p, arena_copy(arena, &one, sizeof one)));
  }
}
