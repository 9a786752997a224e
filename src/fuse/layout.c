/* Tensors that lie in memory in another order of their dims than the program has them in: images whose channels come
 * last, [n, height, width, channels] where the program has [n, channels, height, width].
 *
 * To the graph a layout is a transpose. A convolution that a library does with its channels last (convolve.c) has the
 * other shape, and stands between transposes:
 *
 *     %a = permute %x {dims=[0, 2, 3, 1]}
 *     %b = permute %w {dims=[0, 2, 3, 1]}
 *     %c = convolution %a, %b {channels_last=1}
 *     %y = permute %c {dims=[0, 3, 1, 2]}
 *
 * The first two are written by whoever computes %x and %w; of inputs they are kernels that copy. The last one moves on
 * through what reads it: elementwise work, reductions, windows, slices, reshapes that leave dims together. These have
 * the other shape then, so that their kernels count elements in the order in which they lie. Where it meets the
 * transpose before another convolution, both are gone. It ends at a result of the program, which is stored transposed,
 * and before what a product of ours or a library reads row by row.
 *
 * A transpose of an input moves on, too, where a reduction takes what comes of it: it then goes along memory. It stays
 * where it would meet a tensor of its size that lies otherwise, one of which would have to be read across. */
#include <stdlib.h>

#include "fuse/fuse.h"

/* ---- one transpose ----------------------------------------------------------------------------------------------- */

/* Whether the dims that have more than one element stay in order. */
static bool moves_nothing(const Tensor *x, const int64_t *dims) {
  int64_t last = -1;
  for (int d = 0; d < x->rank; d++) {
    if (size_is(x->size[dims[d]], 1)) continue;
    if (dims[d] < last) return false;
    last = dims[d];
  }
  return true;
}

/* x with its dims in that order; of a transpose, what it is one of. What is spread is so after it. */
static Tensor *transpose(Graph *g, Tensor *x, const int64_t *dims) {
  stack_guard();
  const Size *size[GRAPH_MAX_RANK];
  int64_t of[GRAPH_MAX_RANK];
  bool twice = x->op == GRAPH_PERMUTE;
  for (int d = 0; d < x->rank; d++) {
    size[d] = x->size[dims[d]];
    of[d] = twice ? x->dims[dims[d]] : dims[d];
  }
  if (twice) x = x->in[0];
  if (x->op == GRAPH_EXPAND && x->in[0]->rank == x->rank)
    return graph_expand(g, transpose(g, x->in[0], of), x->rank, size);
  return moves_nothing(x, of) ? graph_reshape(g, x, x->rank, size) : graph_permute(g, x, of);
}

Tensor *fuse_channels_last(Graph *g, Tensor *x) {
  int64_t dims[GRAPH_MAX_RANK] = {0};
  for (int d = 1; d < x->rank; d++) dims[d] = d == x->rank - 1 ? 1 : d + 1;
  return transpose(g, x, dims);
}

Tensor *fuse_channels_second(Graph *g, Tensor *x) {
  int64_t dims[GRAPH_MAX_RANK] = {0};
  for (int d = 1; d < x->rank; d++) dims[d] = d == 1 ? x->rank - 1 : d - 1;
  return transpose(g, x, dims);
}

Tensor *fuse_turned_convolution(Graph *g, const Tensor *t, Tensor *a, Tensor *b) {
  Tensor like = *t;
  const Size *size[GRAPH_MAX_RANK];
  int64_t n;
  for (int d = 0; d < t->rank; d++) {
    size_is_int(t->size[!d ? 0 : d == t->rank - 1 ? 1 : d + 1], &n); /* as all sizes of a convolution are known */
    size[d] = size_int(g, n);
  }
  like.size = size;
  like.channels_last = true;
  return graph_convolution(g, &like, 2, (Tensor *[]){a, b});
}

/* ---- transposes move on ------------------------------------------------------------------------------------------ */

/* A tensor's note: a transpose that moves; one that begins to; what is read row by row. */
static char is_moving, is_first, is_rows;

static bool moves(const Tensor *t) { return t->note == &is_moving; }

/* A transpose moves, unless it is none. */
static Tensor *moving(Tensor *t) {
  if (t->op == GRAPH_PERMUTE) t->note = &is_moving;
  return t;
}

static int by_value(const void *a, const void *b) {
  return (*(const int64_t *)a > *(const int64_t *)b) - (*(const int64_t *)a < *(const int64_t *)b);
}

/* t of operands whose dims are in another order: where t has dim d of an operand, they have dims[d]. */
static Tensor *reordered(Graph *g, const Tensor *t, const int64_t *dims) {
  Arena *a = g->cx->arena;
  Tensor *like = arena_copy(a, t, sizeof *t);
  int rank = t->in[0]->rank;
  int64_t inverse[GRAPH_MAX_RANK], out[GRAPH_MAX_RANK];
  for (int d = 0; d < rank; d++) inverse[dims[d]] = d;
  like->in = NEW_N(a, Tensor *, t->in_count + 1);
  for (int i = 0; i < t->in_count; i++) like->in[i] = transpose(g, t->in[i], inverse);
  like->size = NEW_N(a, const Size *, t->rank + 1);
  for (int d = 0; d < t->rank; d++) { /* windows are one more dim, the last one */
    out[d] = d < rank ? dims[d] : d;
    like->size[out[d]] = t->size[d];
  }
  if (t->op == GRAPH_SLICE || t->op == GRAPH_CONCAT || t->op == GRAPH_UNFOLD) like->dim = dims[t->dim];
  if (t->op == GRAPH_REDUCE) {
    like->dims = NEW_N(a, int64_t, t->dim_count + 1);
    for (int i = 0; i < t->dim_count; i++) like->dims[i] = dims[t->dims[i]];
    qsort(like->dims, (size_t)t->dim_count, sizeof *like->dims, by_value);
  }
  if (t->op == GRAPH_PAD) {
    like->between = NEW_N(a, int64_t, rank + 1);
    like->before = NEW_N(a, const Size *, rank + 1);
    for (int d = 0; d < rank; d++) {
      like->between[dims[d]] = t->between[d];
      like->before[dims[d]] = t->before[d];
    }
  }
  Tensor *made = graph_again(g, like);
  if (!made->name) made->name = t->name;
  return moving(transpose(g, made, out));
}

/* ---- reshapes ---------------------------------------------------------------------------------------------------- */

/* Dims of a reshape's operand [from, end) that become some of its result: as many elements. */
typedef struct Block {
  int from, end, to_from, to_end;
  int64_t at; /* the first of them in the other order */
} Block;

/* How many blocks there are, as small as they can be; 0: sizes are not known. */
static int find_blocks(const Tensor *x, const Tensor *t, Block *out) {
  int n = 0, i = 0, k = 0;
  int64_t size;
  while (i < x->rank || k < t->rank) {
    Block b = {.from = i, .to_from = k};
    int64_t a = 1, c = 1;
    do {
      bool left = k == t->rank || (i < x->rank && a <= c);
      if (!size_is_int(left ? x->size[i] : t->size[k], &size) || size < 1) return 0;
      if (left) a *= size, i++;
      else c *= size, k++;
    } while ((a != c || i == b.from || k == b.to_from) && (i < x->rank || k < t->rank));
    b.end = i;
    b.to_end = k;
    out[n++] = b;
  }
  return n;
}

/* Whether the block's dims stand together in the other order, and where. */
static bool stays_together(const Tensor *x, const int64_t *dims, Block *b) {
  int64_t last = -1;
  b->at = INT64_MAX;
  for (int d = b->from; d < b->end; d++) {
    if (size_is(x->size[d], 1)) continue;
    if (last < 0) b->at = dims[d];
    for (int64_t between = last + 1; last >= 0 && between < dims[d]; between++)
      for (int other = 0; other < x->rank; other++)
        if (dims[other] == between && !size_is(x->size[other], 1)) return false;
    if (dims[d] < last) return false;
    last = dims[d];
  }
  return true;
}

static int by_place(const void *left, const void *right) {
  const Block *a = left, *b = right;
  return a->at != b->at ? (a->at > b->at) - (a->at < b->at) : a->from - b->from;
}

/* Of a reshape whose operand is a transpose by `dims`: its sizes in the other order, and where it has dim d of them.
 * False: its dims do not stay together. */
static bool reorder_reshape(const Tensor *t, const int64_t *dims, const Size **size, int64_t *out) {
  const Tensor *x = t->in[0];
  Block blocks[2 * GRAPH_MAX_RANK];
  int n = find_blocks(x, t, blocks), at = 0;
  for (int i = 0; i < n; i++)
    if (!stays_together(x, dims, &blocks[i])) return false;
  qsort(blocks, (size_t)n, sizeof *blocks, by_place);
  for (int i = 0; i < n; i++)
    for (int d = blocks[i].to_from; d < blocks[i].to_end; d++) {
      size[at] = t->size[d];
      out[d] = at++;
    }
  return n > 0;
}

static Tensor *reshaped(Graph *g, const Tensor *t) {
  const Size *size[GRAPH_MAX_RANK];
  int64_t out[GRAPH_MAX_RANK];
  if (!reorder_reshape(t, t->in[0]->dims, size, out)) return NULL;
  return moving(transpose(g, graph_reshape(g, t->in[0]->in[0], t->rank, size), out));
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

/* What products, and libraries' convolutions of rows, read as it is. */
static void find_rows(Graph *g) {
  for (int i = 0; i < g->at.n; i++) g->at.at[i]->note = NULL;
  for (int i = g->at.n - 1; i >= 0; i--) {
    const Tensor *t = g->at.at[i];
    bool takes = graph_ops[t->op].group == CLASS_PRODUCT && !(t->op == GRAPH_CONVOLUTION && t->channels_last);
    bool passes = graph_is_view(t) && t->note == &is_rows;
    for (int k = 0; (takes || passes) && k < t->in_count; k++) t->in[k]->note = &is_rows;
  }
}

static bool can_move(const Tensor *t) {
  switch (t->op) {
    case GRAPH_POINT: return t->note != &is_rows;
    case GRAPH_EXPAND: return t->rank == t->in[0]->rank;
    case GRAPH_REDUCE:
    case GRAPH_SLICE:
    case GRAPH_PAD:
    case GRAPH_CONCAT:
    case GRAPH_UNFOLD: return true;
    default: return false;
  }
}

/* ---- where transposes of inputs begin to move -------------------------------------------------------------------- */

/* What would become of a tensor: read in the order `order`; or of little memory, however large. */
typedef struct Course {
  bool moves, is_light, is_refused, leads;
  int64_t order[GRAPH_MAX_RANK];
} Course;

static bool is_of_input(const Tensor *t) {
  const Tensor *x = t->in_count ? t->in[0] : NULL;
  if (t->op != GRAPH_PERMUTE || moves_nothing(x, t->dims)) return false;
  return x->op == GRAPH_INPUT || (x->op == GRAPH_RESHAPE && x->in[0]->op == GRAPH_INPUT);
}

static bool is_light(Graph *g, const Course *all, const Tensor *t) {
  if (t->op == GRAPH_FULL || t->op == GRAPH_IOTA) return true;
  if (t->op == GRAPH_EXPAND) return graph_numel(g, t->in[0]) != graph_numel(g, t) || all[t->in[0]->id].is_light;
  if (t->op != GRAPH_POINT && !graph_is_view(t)) return false;
  for (int i = 0; i < t->in_count; i++)
    if (!all[t->in[i]->id].is_light) return false;
  return true;
}

/* The operand that moves; NULL: none does. */
static const Tensor *mover(const Course *all, const Tensor *t) {
  for (int i = 0; i < t->in_count; i++)
    if (all[t->in[i]->id].moves) return t->in[i];
  return NULL;
}

static bool find_order(const Tensor *t, const Tensor *x, Course *all) {
  const int64_t *of = all[x->id].order;
  int64_t *order = all[t->id].order;
  const Size *size[GRAPH_MAX_RANK];
  if (t->op == GRAPH_RESHAPE) return reorder_reshape(t, of, size, order);
  for (int d = 0; d < t->rank; d++) order[d] = t->op == GRAPH_PERMUTE ? of[t->dims[d]] : d < x->rank ? of[d] : d;
  return t->op == GRAPH_PERMUTE ? !moves_nothing(t, order) : can_move(t);
}

/* Whether operands that are not light would lie in different orders. */
static bool is_torn(const Course *all, const Tensor *t, const Tensor *x) {
  for (int i = 0; i < t->in_count; i++) {
    const Course *c = &all[t->in[i]->id];
    if (c->is_light || t->in[i] == x) continue;
    if (!c->moves || memcmp(c->order, all[x->id].order, (size_t)x->rank * sizeof *c->order)) return true;
  }
  return false;
}

/* The transposes from which what moves at `from` comes are refused, or are known to lead to a reduction. */
static void mark_beginnings(Graph *g, Course *all, int from, bool refuse) {
  bool *on_the_way = NEW_N(g->cx->arena, bool, from + 1);
  on_the_way[from] = true;
  for (int i = from; i >= 0; i--) {
    const Tensor *t = g->at.at[i];
    if (!on_the_way[i] || (i < from && !all[i].moves)) continue;
    if (is_of_input(t)) *(refuse ? &all[i].is_refused : &all[i].leads) = true;
    for (int k = 0; k < t->in_count; k++) on_the_way[t->in[k]->id] = true;
  }
}

/* One look at all tensors; false: a transpose was refused, and another look is needed. */
static bool follow(Graph *g, Course *all) {
  bool agreed = true;
  for (int i = 0; i < g->at.n; i++) {
    const Tensor *t = g->at.at[i], *x = mover(all, t);
    Course *c = &all[i];
    c->is_light = is_light(g, all, t);
    c->leads = c->moves = false;
    if (is_of_input(t) && !c->is_refused) {
      c->moves = true;
      memcpy(c->order, t->dims, (size_t)t->rank * sizeof *t->dims);
    }
    if (!x) continue;
    c->moves = find_order(t, x, all);
    if (c->moves && is_torn(all, t, x)) {
      mark_beginnings(g, all, i, true);
      c->moves = agreed = false;
    }
  }
  return agreed;
}

static bool find_beginnings(Graph *g) {
  Course *all = NEW_N(g->cx->arena, Course, g->at.n + 1);
  bool any = false;
  while (!follow(g, all)) continue;
  for (int i = 0; i < g->at.n; i++)
    if (g->at.at[i]->op == GRAPH_REDUCE && all[i].moves) mark_beginnings(g, all, i, false);
  for (int i = 0; i < g->at.n; i++) {
    if (!all[i].leads) continue;
    g->at.at[i]->note = &is_first;
    any = true;
  }
  return any;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static Tensor *move(Graph *g, Tensor *t, const FuseTarget *target) {
  const Tensor *x = t->in_count ? t->in[0] : NULL;
  bool begins = t->op == GRAPH_PERMUTE && x->op == GRAPH_CONVOLUTION && x->channels_last;
  if ((begins && x->part != CONVOLUTION_FILTER) || t->note == &is_first) t->note = &is_moving;
  int k = 0;
  while (k < t->in_count && !moves(t->in[k])) k++;
  if (k == t->in_count) return NULL;
  if (t->op == GRAPH_PERMUTE) return moving(transpose(g, t->in[0], t->dims));
  if (t->op == GRAPH_RESHAPE) return reshaped(g, t);
  return can_move(t) ? reordered(g, t, t->in[k]->dims) : NULL;
}

void fuse_layouts(Graph *g) {
  find_rows(g);
  bool any = find_beginnings(g);
  for (int i = 0; i < g->at.n; i++) any |= g->at.at[i]->op == GRAPH_CONVOLUTION && g->at.at[i]->channels_last;
  if (!any) return;
  fuse_rewrite(g, move, NULL);
  graph_cse(g);
  graph_dce(g);
}
