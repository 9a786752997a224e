/* Which tensors are stored, and which of them one kernel computes together.
 *
 * A root is a tensor that some kernel computes as such: results, reductions, scans, scatters, products, and elementwise
 * tensors that several kernels would otherwise compute again. All others are inlined where they are read. Roots join
 * one kernel when they are over one space of indices, have data in common, and no other kernel stands between them:
 *
 *     elementwise     roots of as many elements
 *     reductions      reductions of as many rows of as many elements, all along neighbours in memory or none, with
 *                     elementwise roots of the whole space or of the rows: what stands before them, after them and
 *                     between them
 *     a product       its elementwise epilogue
 *     a stream        sums, maxima and products along rows of a product that is not stored (stream.c), and what
 *                     follows them
 *
 * A reduction's or product's value is there for one index only, that of the row or tile at hand; consistent() goes
 * through the views between to see that this one is asked for.
 *
 * Then two kernels may compute the same elementwise tensor. If that costs more memory traffic than storing it would, it
 * becomes a root, and all is done again.
 *
 * A graph may have a hundred thousand operations (a recurrent network's steps), so that nothing here is done for all
 * pairs. What a tensor is computed from is a short list (sets.c), since what would read too many arrays is stored on
 * the way. Groups that have something in common with a new root are found by what they read. They are kept in an order
 * of launches, so that whether one needs another is a search between the two places. */
#include <stdlib.h>

#include "fuse/fuse.h"

enum { MOST_READS = 24, MOST_ROOTS = 24, MOST_REPEATED = 24, ROUNDS = 4, SMALL = 1024 };
enum { TILE_LINES = 64, FEW_OPERATIONS = 2 }; /* of a product's result in a tile; for an element that many tiles read */
enum { MANY_SHARE = 4 };                      /* elements for which one is computed */
enum { MOST_PLACES = 32, MANY_PLACES = 1 << 20 };
enum { MANY_SCATTERED = 1 << 17, SHORT_ROW = 512 }; /* elements that are stored; of a row, of which a tile has 8 then */
enum { MOST_INLINED = 2 * MOST_READS, MOST_TRIED = 64, MOST_USERS = 64 };

typedef VEC(int) Numbers;
typedef struct Grouping {
  FusePlan *p;
  Graph *g;
  bool *root;
  int *group; /* by id: of a root; -1 */
  Set *reads; /* by id: the roots and inputs from which it is computed */
  bool *made_of_tile;
  const int *numbers; /* i at i: sets of one */
  int *seen;          /* scratch: of a tensor or group, the search in which it was met last */
  int search;
  VEC(FuseGroup *) groups;
  VEC(Set) needs;   /* of each group: what its roots read, without its own */
  Numbers order;    /* of each group: its place among the launches */
  Numbers at_place; /* and of each place: its group */
  Numbers *of;      /* by id: the groups that read it, as they came */
  Map *small;       /* number of elements -> Numbers of elementwise groups */
  Numbers pending;  /* scratch */
} Grouping;

static bool is_free(const Tensor *t) {
  return graph_is_view(t) || t->op == GRAPH_INPUT || t->op == GRAPH_FULL || t->op == GRAPH_IOTA ||
         t->op == GRAPH_EXTENT;
}

static FuseKind kind_of(const FusePlan *p, const Tensor *t) {
  if (stream_is_sink(p, t)) return FUSE_STREAM;
  switch (graph_ops[t->op].group) {
    case CLASS_REDUCE: return FUSE_REDUCE;
    case CLASS_SCAN: return FUSE_SCAN;
    case CLASS_PRODUCT: return t->op == GRAPH_CONVOLUTION ? FUSE_CONVOLUTION : FUSE_PRODUCT;
    case CLASS_MEMORY:
      if (t->op == GRAPH_SORT_BLOCKS || t->op == GRAPH_MERGE_RUNS) return FUSE_SORT;
      return t->op == GRAPH_SCATTER ? FUSE_SCATTER : FUSE_POINT;
    default: return FUSE_POINT;
  }
}

Tensor *fuse_unshaped(Tensor *t) {
  while (t->op == GRAPH_RESHAPE) t = t->in[0];
  return t;
}

/* A result that the caller gets: a reshape of a stored tensor shares its memory. */
static void store_result(FusePlan *p, bool *root, Tensor *t) {
  if (t->op == GRAPH_INPUT) return;
  p->stored[t->id] = true;
  if (graph_is_empty(p->g, t)) return; /* nobody computes it */
  Tensor *base = t->op == GRAPH_RESHAPE ? t->in[0] : NULL;
  if (base && (base->op == GRAPH_INPUT || !is_free(base))) {
    p->alias[t->id] = base;
    if (base->op == GRAPH_INPUT) return;
    p->stored[base->id] = true;
    t = base;
  }
  root[t->id] = true;
}

/* ---- what is computed from what ---------------------------------------------------------------------------------- */

static Set leaf(Grouping *q, const Tensor *t) {
  return q->root[t->id] || t->op == GRAPH_INPUT ? (Set){1, q->numbers + t->id} : q->reads[t->id];
}

static void find_reads_of(Grouping *q, Tensor *t) { /* what stands before is as it was */
  Set all = {0};
  bool made_of_tile = q->p->stream[t->id] == STREAM_TILE;
  for (int k = 0; k < t->in_count; k++) {
    all = set_union(q->g->cx->arena, all, leaf(q, t->in[k]));
    made_of_tile |= !q->root[t->in[k]->id] && q->made_of_tile[t->in[k]->id];
  }
  q->reads[t->id] = all;
  q->made_of_tile[t->id] = made_of_tile; /* such are never stored */
}

/* What would read more arrays than a kernel should is stored. */
static void store_wide(Grouping *q) {
  for (int i = 0; i < q->g->at.n; i++) {
    Tensor *t = q->g->at.at[i];
    find_reads_of(q, t);
    q->root[i] |= q->reads[i].n > MOST_INLINED && t->op == GRAPH_POINT && !graph_is_empty(q->g, t);
  }
}

/* What a kernel would compute at many places for one of its elements is stored: windows of windows multiply. */
static void store_windows(Grouping *q) {
  Arena *a = q->g->cx->arena;
  int *by_views = NEW_N(a, int, q->g->at.n + 1), *beside = NEW_N(a, int, q->g->at.n + 1);
  for (int i = q->g->at.n - 1; i >= 0; i--) {
    Tensor *t = q->g->at.at[i];
    int places = q->root[i] ? 1 : by_views[i] + beside[i];
    if (places > MOST_PLACES && t->op == GRAPH_POINT && !graph_is_empty(q->g, t)) q->root[i] = true, places = 1;
    if (places > MANY_PLACES) places = MANY_PLACES;
    for (int k = 0; k < t->in_count; k++) {
      int in = t->in[k]->id;
      if (graph_is_view(t) && by_views[in] < MANY_PLACES) by_views[in] += places;
      if (!graph_is_view(t) && beside[in] < places) beside[in] = places;
    }
  }
}

/* ---- the order of launches --------------------------------------------------------------------------------------- */

static void push(Grouping *q, Numbers *list, int v) { vec_push(q->g->cx->arena, list, v); }

static int group_of(Grouping *q, Set s, int i) { return q->group[s.at[i]]; }

/* Marks, with a new number of search, all groups that those of `from` need, down to a place in the order, and lists
 * them after what stands in `found`. */
static void mark_needed(Grouping *q, Set from, int least, Numbers *found) {
  q->search++;
  q->pending.n = 0;
  for (int i = 0; i < from.n; i++)
    if (group_of(q, from, i) >= 0) push(q, &q->pending, group_of(q, from, i));
  while (q->pending.n) {
    int at = q->pending.at[--q->pending.n];
    Set needs = q->needs.at[at];
    for (int i = 0; i < needs.n; i++) {
      int of = group_of(q, needs, i);
      if (of < 0 || q->seen[of] == q->search || q->order.at[of] < least) continue;
      q->seen[of] = q->search;
      push(q, &q->pending, of);
      if (found) push(q, found, of);
    }
  }
}

static int by_number(const void *a, const void *b) {
  int x = *(const int *)a, y = *(const int *)b;
  return (x > y) - (x < y);
}

/* Places in the order, ascending, in place of the groups that have them. */
static void sort_by_place(Grouping *q, Numbers *groups) {
  for (int i = 0; i < groups->n; i++) groups->at[i] = q->order.at[groups->at[i]];
  if (groups->n) qsort(groups->at, (size_t)groups->n, sizeof *groups->at, by_number);
}

/* Group `to` needs what is in `from` now: those of `from`, and what they need, go before it and what needs it. None of
 * the one needs one of the other. (Pearce and Kelly, a dynamic topological sort.) */
static void move_after(Grouping *q, int to, Set from) {
  int least = q->order.at[to], most = least;
  for (int i = 0; i < from.n; i++)
    if (group_of(q, from, i) >= 0 && q->order.at[group_of(q, from, i)] > most) most = q->order.at[group_of(q, from, i)];
  if (most == least) return;
  Numbers before = {0}, after = {0};
  mark_needed(q, from, least, &before);
  for (int i = 0; i < from.n; i++) {
    int of = group_of(q, from, i);
    if (of < 0 || of == to || q->seen[of] == q->search || q->order.at[of] < least) continue;
    q->seen[of] = q->search;
    push(q, &before, of);
  }
  q->search++;
  q->seen[to] = q->search;
  push(q, &after, to);
  for (int done = 0; done < after.n; done++) {
    const FuseGroup *group = q->groups.at[after.at[done]];
    for (int k = 0; k < group->n; k++) {
      const Numbers *readers = &q->of[group->roots[k]->id];
      for (int i = 0; i < readers->n; i++) {
        int of = readers->at[i];
        if (q->seen[of] == q->search || q->order.at[of] > most) continue;
        q->seen[of] = q->search;
        push(q, &after, of);
      }
    }
  }
  int n = before.n, all = before.n + after.n;
  sort_by_place(q, &before);
  sort_by_place(q, &after);
  int *at = NEW_N(q->g->cx->arena, int, 2 * all),
      *free_places = at + all; /* groups in their new order; places for them */
  for (int i = 0; i < all; i++) {
    free_places[i] = i < n ? before.at[i] : after.at[i - n];
    at[i] = q->at_place.at[free_places[i]];
  }
  qsort(free_places, (size_t)all, sizeof *free_places, by_number);
  for (int i = 0; i < all; i++) {
    q->order.at[at[i]] = free_places[i];
    q->at_place.at[free_places[i]] = at[i];
  }
}

/* ---- spaces ------------------------------------------------------------------------------------------------------ */

static void row_counts(Graph *g, const Tensor *reduce, const Size **rows, const Size **length) {
  const Tensor *x = reduce->in[0];
  *length = size_int(g, 1);
  for (int i = 0; i < reduce->dim_count; i++) *length = size_mul(g, *length, x->size[reduce->dims[i]]);
  *rows = graph_numel(g, reduce);
}

typedef struct Walk {
  Grouping *q;
  const FuseGroup *group;
  const IndexVar *x, *r; /* rows and places; of a product and of elementwise groups x alone */
  Map *seen;
} Walk;

/* Whether a kernel of t goes on with elementwise work on what it computes. */
static bool has_epilogue(const Tensor *t) { return t->op == GRAPH_PRODUCT || graph_ops[t->op].group == CLASS_SCAN; }

/* The index at which the group has the value of one of its roots; false: at any (it is computed again). */
static bool own_index(Walk *k, const Tensor *t, Index *at) {
  Graph *g = k->q->g;
  if (t->op == GRAPH_REDUCE) {
    bool skip[GRAPH_MAX_RANK] = {false};
    for (int i = 0; i < t->dim_count; i++) skip[t->dims[i]] = true;
    return index_split(g, index_var(g, k->x), t->rank, t->size, skip, at);
  }
  return has_epilogue(t) && index_split(g, index_var(g, k->x), t->rank, t->size, NULL, at);
}

/* Whether a kernel of the group would compute one of its roots for t. */
static bool needs_member(const Walk *k, const Tensor *t) {
  for (int i = 0; i < k->group->n; i++) {
    const Tensor *root = k->group->roots[i];
    if (root == t || (!k->q->root[t->id] && set_has(k->q->reads[t->id], root->id))) return true;
  }
  return false;
}

/* Whether every reduction and product of the group that t needs is needed at the index at which it is there. */
static bool consistent(Walk *k, Tensor *t, const Index *at) {
  stack_guard();
  Graph *g = k->q->g;
  bool member = false;
  for (int i = 0; i < k->group->n; i++) member |= k->group->roots[i] == t;
  if (t->op == GRAPH_INPUT || (k->q->root[t->id] && !member && t->note != k)) return true;
  Buf key = {.arena = g->cx->arena};
  buf_printf(&key, "%d", t->id);
  for (int d = 0; d < t->rank; d++) {
    buf_putc(&key, ',');
    index_print(&key, &at[d]);
  }
  if (map_get(k->seen, key.at)) return true;
  map_put(k->seen, key.at, k);
  Index in[GRAPH_MAX_RANK];
  if (member && (t->op == GRAPH_REDUCE || has_epilogue(t))) {
    if (!own_index(k, t, in)) return false;
    for (int d = 0; d < t->rank; d++)
      if (strcmp(index_text(g, &at[d]), index_text(g, &in[d]))) return false;
    return true;
  }
  bool needs = false; /* a member at all, where the index is not known */
  for (int i = 0; i < k->group->n; i++) needs |= set_has(k->q->reads[t->id], k->group->roots[i]->id);
  if (!needs) return true;
  if (graph_is_view(t)) return fuse_view_index(g, t, at, in) && consistent(k, t->in[0], in);
  if (t->op == GRAPH_GATHER) return !needs_member(k, t->in[0]) && consistent(k, t->in[1], at);
  if (t->op == GRAPH_SORT) return consistent(k, t->in[1], at);
  if (graph_ops[t->op].group != CLASS_POINT) return false;
  for (int i = 0; i < t->in_count; i++)
    if (!consistent(k, t->in[i], at)) return false;
  return true;
}

static bool has_many(Graph *g, const Tensor *space) {
  int64_t all;
  return size_is_int(graph_numel(g, space), &all) && all >= MANY_SCATTERED;
}

/* A tensor read backwards along one dim. */
static bool is_flip(const Tensor *t) {
  return t->op == GRAPH_SLICE && t->step == -1 && t->size[t->dim] == t->in[0]->size[t->dim];
}

/* Where t has what a product or a scan has at an index, if t is elementwise work on that, transposed, reshaped and (of
 * a scan) read backwards; consistent() sees whether it is. */
static bool epilogue_index(Graph *g, const Tensor *product, const Tensor *t, const Index *at, Index *out, Map *seen) {
  stack_guard();
  if (t == product) {
    memcpy(out, at, sizeof *out * (size_t)t->rank);
    return true;
  }
  if (map_get(seen, t)) return false;
  map_put(seen, t, (void *)t);
  bool flips = is_flip(t) && product->op != GRAPH_PRODUCT;
  /* a scan goes along its rows: neighbours of a large transposed result would be written one by one */
  bool is_near = t->op == GRAPH_PERMUTE && (product->op == GRAPH_PRODUCT || !has_many(g, t));
  bool moves = is_near || t->op == GRAPH_RESHAPE || flips;
  if (!moves && graph_ops[t->op].group != CLASS_POINT) return false;
  for (int i = 0; i < t->in_count; i++) {
    Index in[GRAPH_MAX_RANK];
    const Tensor *x = t->in[i];
    if (!epilogue_index(g, product, x, at, in, seen)) continue;
    if (t->op == GRAPH_RESHAPE)
      return index_split(g, index_linear(g, x->rank, x->size, in), t->rank, t->size, NULL, out);
    for (int d = 0; d < t->rank; d++) out[d] = in[t->op == GRAPH_PERMUTE ? t->dims[d] : d];
    if (flips) out[t->dim] = index_add(g, index_scale(g, in[t->dim], size_int(g, -1)), index_constant(g, t->first));
    return true;
  }
  return false;
}

bool fuse_epilogue_index(Graph *g, const Tensor *product, const Tensor *t, const Index *at, Index *out) {
  return epilogue_index(g, product, t, at, out, map_create(g->cx->arena, false));
}

bool fuse_root_index(Graph *g, const Tensor *t, Index linear, Index *out) {
  stack_guard();
  if (t->op != GRAPH_PERMUTE) return index_split(g, linear, t->rank, t->size, NULL, out);
  Index in[GRAPH_MAX_RANK];
  if (!fuse_root_index(g, t->in[0], linear, in)) return false;
  for (int d = 0; d < t->rank; d++) out[d] = in[t->dims[d]];
  return true;
}

bool fuse_goes_along_rows(const Tensor *reduce) {
  const Tensor *space = reduce->in[0];
  int inner = space->rank - 1;
  while (inner > 0 && size_is(space->size[inner], 1)) inner--;
  for (int i = 0; i < reduce->dim_count; i++)
    if (reduce->dims[i] == inner) return true;
  return false;
}

/* Whether neighbours among t's elements, at an index, are far from each other in the tile of a reduction, so that each
 * would be written on its own: places with others between, or rows of which a tile has few. Elementwise work has a tile
 * with an axis for them. */
static bool is_scattered(Graph *g, const FuseGroup *group, const Tensor *t, const Index *at, const IndexVar *r) {
  int64_t length;
  int d = t->rank - 1;
  while (d > 0 && size_is(t->size[d], 1)) d--;
  bool by_row = false, by_place = false;
  for (int i = 0; d >= 0 && i < at[d].n; i++) {
    const IndexTerm *term = &at[d].at[i];
    if (!size_is(term->factor, 1) || !size_is(term->below, 1)) continue;
    *(term->var == r ? &by_place : &by_row) = true;
  }
  if (!size_is_int(r->extent, &length) || !has_many(g, group->space->in[0])) return false;
  return fuse_goes_along_rows(group->space) && !by_place && !(by_row && length <= SHORT_ROW);
}

/* Whether t can be a root of a group over that space. */
static bool fits_space(Grouping *q, const FuseGroup *group, Tensor *t) {
  Graph *g = q->g;
  const Size *n = graph_numel(g, t), *rows, *length;
  IndexVar x = {.text = "x", .extent = n, .bit = 1}, r = {.text = "r", .bit = 2};
  Walk walk = {q, group, &x, &r, map_create(g->cx->arena, true)};
  Index at[GRAPH_MAX_RANK], of_space[GRAPH_MAX_RANK], in_row[GRAPH_MAX_RANK];
  if (group->kind == FUSE_PRODUCT || group->kind == FUSE_SCAN) {
    const Tensor *product = group->roots[0];
    if (n != graph_numel(g, product) || !own_index(&walk, product, of_space) ||
        !fuse_epilogue_index(g, product, t, of_space, at))
      return false;
  } else if (group->kind != FUSE_REDUCE) {
    if (n != graph_numel(g, group->roots[0]) || !index_split(g, index_var(g, &x), t->rank, t->size, NULL, at))
      return false;
  } else {
    const Tensor *s = group->space, *space = s->in[0];
    bool skip[2][GRAPH_MAX_RANK] = {{false}, {false}};
    row_counts(g, s, &rows, &length);
    x.extent = rows;
    r.extent = length;
    if (t->op == GRAPH_REDUCE) {
      const Size *its_rows, *its_length;
      row_counts(g, t, &its_rows, &its_length);
      if (its_rows != rows || its_length != length) return false;
      /* of a square matrix, one of both would jump from row to row */
      if (fuse_goes_along_rows(t) != fuse_goes_along_rows(s) && has_many(g, space)) return false;
      s = t;
      space = t->in[0];
    }
    for (int d = 0; d < space->rank; d++) skip[1][d] = true;
    for (int i = 0; i < s->dim_count; i++) {
      skip[0][s->dims[i]] = true;
      skip[1][s->dims[i]] = false;
    }
    if (!index_split(g, index_var(g, &x), space->rank, space->size, skip[0], of_space) ||
        !index_split(g, index_var(g, &r), space->rank, space->size, skip[1], in_row))
      return false;
    for (int d = 0; d < space->rank; d++)
      if (skip[0][d]) of_space[d] = in_row[d];
    if (t->op == GRAPH_REDUCE) return consistent(&walk, t->in[0], of_space);
    bool whole = n == graph_numel(g, space);
    if (!whole && n != rows) return false;
    Index linear = whole ? index_linear(g, space->rank, space->size, of_space) : index_var(g, &x);
    if (!fuse_root_index(g, t, linear, at)) return false;
    if (whole && is_scattered(g, group, t, at, &r)) return false;
  }
  t->note = &walk; /* it is a root, and yet looked into */
  bool good = consistent(&walk, t, at);
  t->note = NULL;
  return good;
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

static bool shares(Grouping *q, int to, const Tensor *t) {
  const FuseGroup *group = q->groups.at[to];
  if (set_meets(q->needs.at[to], q->reads[t->id])) return true;
  for (int i = 0; i < group->n; i++)
    if (set_has(q->reads[t->id], group->roots[i]->id)) return true;
  int64_t n;
  return group->kind == FUSE_POINT && size_is_int(graph_numel(q->g, t), &n) && n <= SMALL && group->n < 8;
}

/* How many stored tensors it would read. */
static int reads_with(Grouping *q, int to, const Tensor *t) {
  return set_union_count(q->needs.at[to], q->reads[t->id]);
}

/* Whether a group from which t is computed needs `to`: mark_needed() has been asked. */
static bool makes_cycle(Grouping *q, int to) { return q->seen[to] == q->search; }

static void append(Grouping *q, FuseGroup *group, Tensor *t) {
  Tensor **roots = NEW_N(q->g->cx->arena, Tensor *, group->n + 1);
  memcpy(roots, group->roots, sizeof *roots * (size_t)group->n);
  roots[group->n++] = t;
  group->roots = roots;
}

static bool joins_stream(Grouping *q, int to, Tensor *t) {
  FuseGroup *group = q->groups.at[to], trial = *group;
  if (group->kind != FUSE_STREAM || group->n >= MOST_ROOTS || !shares(q, to, t)) return false;
  if (!stream_is_sink(q->p, t) && kind_of(q->p, t) != FUSE_POINT) return false;
  append(q, &trial, t);
  Stream s = {.g = q->g, .plan = q->p, .root = q->root, .group = &trial};
  stream_space(&s, group->roots[0]);
  if (stream_is_sink(q->p, t)) {
    Stream own = {.g = q->g, .plan = q->p};
    stream_space(&own, t);
    if (!stream_shares(&s, t)) return false;
    if (own.rows != s.rows || own.length != s.length || own.batches != s.batches) return false;
  } else {
    bool follows = false; /* it is made of what the group computes */
    for (int i = 0; i < group->n; i++) follows |= set_has(q->reads[t->id], group->roots[i]->id);
    if (!follows) return false;
  }
  if (makes_cycle(q, to) || reads_with(q, to, t) > MOST_READS || stream_refuses(&s, t)) return false;
  *group = trial;
  return true;
}

/* Of a scan what is made of it, while a block of it is there. */
static bool reads_scan(Grouping *q, const FuseGroup *group, const Tensor *t) {
  for (int i = 0; i < group->n; i++)
    if (graph_ops[group->roots[i]->op].group == CLASS_SCAN && set_has(q->reads[t->id], group->roots[i]->id))
      return true;
  return false;
}

static bool joins(Grouping *q, int to, Tensor *t) {
  FuseGroup *group = q->groups.at[to];
  FuseKind kind = kind_of(q->p, t);
  if (group->kind == FUSE_STREAM || kind == FUSE_STREAM) return joins_stream(q, to, t);
  if (group->kind == FUSE_SCAN && kind == FUSE_SCAN && t->in[0] == group->roots[0]->in[0] &&
      t->dim == group->roots[0]->dim && group->n < MOST_ROOTS && has_epilogue(group->roots[group->n - 1])) {
    append(q, group, t);
    return true;
  }
  static const bool alone[] = {
      [FUSE_SCAN] = true, [FUSE_SCATTER] = true, [FUSE_SORT] = true, [FUSE_STREAM] = false, [FUSE_CONVOLUTION] = true};
  bool after_scan = group->kind == FUSE_SCAN && kind == FUSE_POINT;
  if ((alone[group->kind] && !after_scan) || alone[kind] || kind == FUSE_PRODUCT) return false;
  if (group->n >= MOST_ROOTS || !shares(q, to, t) || makes_cycle(q, to)) return false;
  if (reads_with(q, to, t) > MOST_READS) return false;
  if (group->kind == FUSE_PRODUCT && (kind != FUSE_POINT || !set_has(q->reads[t->id], group->roots[0]->id)))
    return false;
  if (after_scan && !reads_scan(q, group, t)) return false;
  FuseGroup trial = *group;
  if (kind == FUSE_REDUCE && group->kind == FUSE_POINT) { /* the group becomes what stands before the reduction */
    trial.kind = FUSE_REDUCE;
    trial.space = t;
    if (graph_numel(q->g, group->roots[0]) != graph_numel(q->g, t->in[0])) return false;
    for (int i = 0; i < group->n; i++)
      if (!fits_space(q, &trial, group->roots[i])) return false;
  }
  if (!fits_space(q, &trial, t)) return false;
  append(q, &trial, t);
  *group = trial;
  return true;
}

/* The groups that t may join: those that compute or read what it reads, and small ones; the latest first. */
static void find_candidates(Grouping *q, const Tensor *t, Numbers *out) {
  Set reads = q->reads[t->id];
  q->search++;
  for (int i = 0; i < reads.n; i++) {
    const Numbers *readers = &q->of[reads.at[i]];
    if (group_of(q, reads, i) >= 0) push(q, out, group_of(q, reads, i));
    for (int k = readers->n - 1; k >= 0 && k >= readers->n - MOST_TRIED; k--) push(q, out, readers->at[k]);
  }
  const Tensor *spaces[] = {t, t->op == GRAPH_REDUCE ? t->in[0] : t};
  for (int s = 0; s < 2; s++) {
    const Numbers *same = map_get(q->small, graph_numel(q->g, spaces[s]));
    for (int k = same ? same->n - 1 : -1; k >= 0 && k >= same->n - MOST_TRIED; k--) push(q, out, same->at[k]);
  }
  int n = 0;
  for (int i = 0; i < out->n; i++) {
    if (q->seen[out->at[i]] == q->search) continue;
    q->seen[out->at[i]] = q->search;
    out->at[n++] = -out->at[i];
  }
  if (n) qsort(out->at, (size_t)n, sizeof *out->at, by_number);
  out->n = n < MOST_TRIED ? n : MOST_TRIED;
  for (int i = 0; i < out->n; i++) out->at[i] = -out->at[i];
}

/* What group `to` reads, now that t is in it. */
static void note(Grouping *q, int to, Tensor *t) {
  Arena *a = q->g->cx->arena;
  Set reads = q->reads[t->id];
  const FuseGroup *group = q->groups.at[to];
  q->group[t->id] = to;
  for (int i = 0; i < reads.n; i++) {
    Numbers *readers = &q->of[reads.at[i]];
    bool own = group_of(q, reads, i) == to, known = readers->n && readers->at[readers->n - 1] == to;
    if (!own && !known && !set_has(q->needs.at[to], reads.at[i])) push(q, readers, to);
  }
  Set needs = set_union(a, q->needs.at[to], reads);
  for (int i = 0; i < group->n; i++) needs = set_without(a, needs, group->roots[i]->id);
  q->needs.at[to] = needs;
}

static void place(Grouping *q, Tensor *t, bool eager) {
  Arena *a = q->g->cx->arena;
  Numbers tried = {0};
  if (!eager) find_candidates(q, t, &tried);
  int least = INT32_MAX;
  for (int i = 0; i < tried.n; i++)
    if (q->order.at[tried.at[i]] < least) least = q->order.at[tried.at[i]];
  if (tried.n) mark_needed(q, q->reads[t->id], least, NULL);
  for (int i = 0; i < tried.n; i++)
    if (joins(q, tried.at[i], t)) {
      move_after(q, tried.at[i], q->reads[t->id]);
      note(q, tried.at[i], t);
      return;
    }
  FuseGroup *group = NEW(a, FuseGroup);
  group->kind = kind_of(q->p, t);
  group->n = 1;
  group->roots = NEW(a, Tensor *);
  group->roots[0] = t;
  group->space = group->kind == FUSE_REDUCE ? t : NULL;
  push(q, &q->order, q->groups.n);
  push(q, &q->at_place, q->groups.n);
  vec_push(a, &q->groups, group);
  vec_push(a, &q->needs, (Set){0});
  note(q, q->groups.n - 1, t);
  int64_t n;
  if (group->kind != FUSE_POINT || eager || !size_is_int(graph_numel(q->g, t), &n) || n > SMALL) return;
  Numbers *same = map_get(q->small, graph_numel(q->g, t));
  if (!same) {
    same = NEW(a, Numbers);
    map_put(q->small, graph_numel(q->g, t), same);
  }
  push(q, same, q->groups.n - 1);
}

/* ---- groups that become one -------------------------------------------------------------------------------------- */

/* Whether one kernel saves something: group j reads what i computes, or both read what is as large as their rows. */
static bool saves(Grouping *q, int i, int j) {
  Set needs = q->needs.at[j];
  const Size *all = graph_numel(q->g, q->groups.at[i]->space->in[0]);
  for (int k = 0; k < needs.n; k++) {
    if (group_of(q, needs, k) == i) return true;
    const Tensor *x = q->g->at.at[needs.at[k]];
    if (set_has(q->needs.at[i], x->id) && graph_numel(q->g, x) == all) return true;
  }
  return false;
}

/* Whether the roots of group j are in group i now, which stands before it. */
static bool takes(Grouping *q, int i, int j) {
  FuseGroup *group = q->groups.at[i], *other = q->groups.at[j], trial = *group;
  if (i == j || q->order.at[i] > q->order.at[j] || other->kind != FUSE_REDUCE || !other->n) return false;
  if (group->n + other->n > MOST_ROOTS || !saves(q, i, j)) return false;
  Set needs = q->needs.at[j];
  if (set_union_count(q->needs.at[i], needs) > MOST_READS) return false;
  for (int k = 0; k < group->n; k++) needs = set_without(q->g->cx->arena, needs, group->roots[k]->id);
  mark_needed(q, needs, q->order.at[i], NULL);
  if (makes_cycle(q, i)) return false;
  for (int k = 0; k < other->n; k++) {
    if (!fits_space(q, &trial, other->roots[k])) return false;
    append(q, &trial, other->roots[k]);
  }
  *group = trial;
  move_after(q, i, needs);
  for (int k = 0; k < other->n; k++) note(q, i, other->roots[k]);
  other->n = 0;
  q->needs.at[j] = (Set){0};
  return true;
}

/* Each root has joined what was there when it came. Of reductions of x and of y, which one of both has brought together
 * later, the other group may be taken in now. */
static void merge_groups(Grouping *q) {
  for (int i = 0; i < q->groups.n; i++) {
    const FuseGroup *group = q->groups.at[i];
    if (group->kind != FUSE_REDUCE || !group->n) continue;
    Set all = q->needs.at[i];
    for (int k = 0; k < group->n; k++)
      all = set_union(q->g->cx->arena, all, (Set){1, q->numbers + group->roots[k]->id});
    for (int k = 0; k < all.n; k++) {
      const Numbers *readers = &q->of[all.at[k]];
      for (int r = readers->n - 1, tried = 0; r >= 0 && tried < MOST_TRIED; r--, tried++) takes(q, i, readers->at[r]);
    }
  }
}

/* ---- computed twice, or stored ----------------------------------------------------------------------------------- */

/* Operations that a kernel does for t; no more than `most` are counted. */
static int cost_of(Grouping *q, const Tensor *t, int most) {
  if (q->seen[t->id] == q->search || t->op == GRAPH_INPUT || q->root[t->id] || most <= 0) return 0;
  q->seen[t->id] = q->search;
  stack_guard();
  int n = t->op == GRAPH_UNIFORM ? 10 : !is_free(t);
  for (int i = 0; i < t->in_count && n < most; i++) n += cost_of(q, t->in[i], most - n);
  return n;
}

static int cost(Grouping *q, Tensor *t) {
  int c = 1;
  q->search++;
  for (int i = 0; i < t->in_count && c <= MOST_REPEATED; i++) c += cost_of(q, t->in[i], MOST_REPEATED + 1 - c);
  return c;
}

/* Elements read for t, of arrays as large as itself counted as 1. */
static double traffic(Grouping *q, const Tensor *t) {
  double n = 0;
  int64_t own, one;
  const Size *mine = graph_numel(q->g, t);
  for (int i = 0; i < q->reads[t->id].n; i++) {
    const Tensor *x = q->g->at.at[q->reads[t->id].at[i]];
    const Size *its = graph_numel(q->g, x);
    bool known = size_is_int(mine, &own) && size_is_int(its, &one) && own;
    n += known ? (double)one / (double)own : x->rank >= t->rank && mine == its;
  }
  return n;
}

/* Whether something new became a root. Users come before operands: what only a new root is made of has one kernel. */
static bool store_repeated(Grouping *q) {
  Arena *a = q->g->cx->arena;
  int n = q->g->at.n;
  Set *users = NEW_N(a, Set, n + 1); /* the kernels that inline it, MOST_USERS of them */
  bool changed = false;
  for (int i = 0; i < n; i++) find_reads_of(q, q->g->at.at[i]);
  for (int i = n - 1; i >= 0; i--) {
    Tensor *t = q->g->at.at[i];
    Set own = q->root[i] && q->group[i] >= 0 ? (Set){1, q->numbers + q->group[i]} : users[i];
    if (!q->root[i] && !is_free(t) && !q->made_of_tile[i] && own.n > 1) {
      double saved = (own.n - 1) * (traffic(q, t) - 1);
      if (saved > 1 || cost(q, t) > MOST_REPEATED) {
        q->root[i] = changed = true;
        own.n = 1; /* one of those will store it */
      }
    }
    for (int k = 0; k < t->in_count; k++) {
      Set *its = &users[t->in[k]->id];
      if (!q->root[t->in[k]->id] && its->n < MOST_USERS) *its = set_union(a, *its, own);
    }
  }
  return changed;
}

/* Of a product's operand, operations that are better done again than stored: it is read again and again, but once where
 * a tile has all of the other operand's lines. */
static int most_operations(const Tensor *product, int operand) {
  int64_t n;
  const Size *others = product->size[product->rank - (operand ? 2 : 1)];
  return product->op == GRAPH_PRODUCT && size_is_int(others, &n) && n <= TILE_LINES ? MOST_REPEATED : FEW_OPERATIONS;
}

/* Operands of products are read again and again, and those of windows that overlap; what is sorted, too. An operand
 * that is joined of computed parts is stored by a kernel that goes part by part: in the product's each element would be
 * computed as every part has it. */
static void store_operands(Grouping *q) {
  for (int i = 0; i < q->g->at.n; i++) {
    Tensor *t = q->g->at.at[i];
    bool overlaps = t->op == GRAPH_UNFOLD && t->step < t->window * t->dilation;
    bool sorted = t->op == GRAPH_SORT_KEYS; /* who computes it again may round otherwise, and what is in order is not */
    if (t->op != GRAPH_PRODUCT && !overlaps && !sorted) continue;
    for (int k = 0; k < t->in_count; k++) {
      Tensor *x = t->in[k];
      if (stream_is_sink(q->p, t) && x == stream_operand(q->p, t)) continue;
      while (graph_is_view(x) && x->in_count == 1) x = x->in[0];
      bool joined = x->op == GRAPH_CONCAT;
      int most = joined ? FEW_OPERATIONS : most_operations(t, k);
      if ((joined || !is_free(x)) && (sorted || cost(q, x) > most)) q->root[x->id] = true;
    }
  }
}

/* x, or what its parts are made of. */
static void store_table(Grouping *q, const bool *constant, Tensor *x) {
  stack_guard();
  while (graph_is_view(x) && x->in_count == 1) x = x->in[0];
  if (x->op == GRAPH_POINT && constant[x->id] && cost(q, x) > 4) q->root[x->id] = true;
  for (int i = 0; x->op == GRAPH_CONCAT && i < x->in_count; i++) store_table(q, constant, x->in[i]);
}

/* Tables: what no input enters, and products read, or many elements share (roots of unity of a Fourier transform). */
static void store_tables(Grouping *q) {
  bool *constant = NEW_N(q->g->cx->arena, bool, q->g->at.n + 1);
  for (int i = 0; i < q->g->at.n; i++) {
    const Tensor *t = q->g->at.at[i];
    int64_t all, few;
    constant[i] = t->op == GRAPH_IOTA || t->op == GRAPH_FULL || t->op == GRAPH_POINT || graph_is_view(t);
    for (int k = 0; k < t->in_count; k++) constant[i] &= constant[t->in[k]->id];
    bool shared = t->op == GRAPH_EXPAND && size_is_int(graph_numel(q->g, t), &all) &&
                  size_is_int(graph_numel(q->g, t->in[0]), &few) && all >= MANY_SHARE * few;
    for (int k = 0; (shared || t->op == GRAPH_PRODUCT) && k < t->in_count; k++) store_table(q, constant, t->in[k]);
  }
}

/* What a tensor comes to: a result is computed from it; it is one, or is taken in its own type; it is compared, or what
 * is computed from it. */
enum { END_COMPUTED = 1, END_SHOWN = 2, END_COMPARED = 4 };

/* A row's maximum or sum is kept in f32 for the elementwise work of other kernels: of a maximum rounded to bf16,
 * another exp would come out than in the kernel that has it as it is, and a sum of f16 may not fit. Products take it in
 * its own type. */
static void keep_statistics_wide(FusePlan *p) {
  Graph *g = p->g;
  unsigned char *ends = NEW_N(g->cx->arena, unsigned char, g->at.n + 1);
  for (int i = 0; i < g->outputs.n; i++)
    if (g->outputs.at[i]) ends[g->outputs.at[i]->id] = END_SHOWN;
  for (int i = 0; i < g->writes.n; i++) ends[g->writes.at[i].value->id] = END_SHOWN;
  for (int i = g->at.n - 1; i >= 0; i--) { /* users before operands */
    const Tensor *t = g->at.at[i];
    unsigned char of = 0;
    if (graph_is_view(t)) of = ends[i];
    else if (t->op == GRAPH_POINT)
      of = (ends[i] ? END_COMPUTED : 0) | (ends[i] & END_COMPARED) |
           (graph_points[t->point].result == RESULT_TEST ? END_COMPARED : 0);
    for (int k = 0; k < t->in_count; k++) ends[t->in[k]->id] |= of;
  }
  for (int i = 0; i < g->at.n; i++) {
    if (p->alias[i]) ends[p->alias[i]->id] |= END_SHOWN;
    bool typed = g->at.at[i]->op != GRAPH_POINT && g->at.at[i]->op != GRAPH_REDUCE && !graph_is_view(g->at.at[i]);
    for (int k = 0; typed && k < g->at.at[i]->in_count; k++) {
      const Tensor *x = g->at.at[i]->in[k];
      while (graph_is_view(x)) x = x->in[0];
      ends[x->id] |= END_SHOWN;
    }
  }
  for (int i = 0; i < g->at.n; i++) {
    Tensor *t = g->at.at[i];
    bool narrow = dtype_is_float(t->dtype) && dtype_bits(t->dtype) < 32;
    bool wide = !ends[i] || (t->kind == REDUCE_SUM && ends[i] == END_COMPUTED);
    if (t->op == GRAPH_REDUCE && p->stored[i] && narrow && wide) t->dtype = DT_F32;
  }
}

static void make_groups(Grouping *q, bool eager) {
  Graph *g = q->g;
  for (int i = 0; i < g->at.n; i++) find_reads_of(q, g->at.at[i]);
  q->groups.n = q->needs.n = q->order.n = q->at_place.n = 0;
  q->of = NEW_N(g->cx->arena, Numbers, g->at.n + 1);
  q->small = map_create(g->cx->arena, false);
  for (int i = 0; i < g->at.n; i++) {
    q->group[i] = -1;
    g->at.at[i]->note = NULL;
  }
  for (int i = 0; i < g->at.n; i++)
    if (q->root[i]) place(q, g->at.at[i], eager);
  if (!eager) merge_groups(q);
}

FuseGroup **fuse_groups(FusePlan *p, const FuseOptions *o) {
  Graph *g = p->g;
  Arena *a = g->cx->arena;
  Grouping *q = &(Grouping){.p = p, .g = g};
  int *numbers = NEW_N(a, int, g->at.n + 1);
  for (int i = 0; i < g->at.n; i++) numbers[i] = i;
  q->numbers = numbers;
  q->root = NEW_N(a, bool, g->at.n + 1);
  q->group = NEW_N(a, int, g->at.n + 1);
  q->reads = NEW_N(a, Set, g->at.n + 1);
  q->made_of_tile = NEW_N(a, bool, g->at.n + 1);
  q->seen = NEW_N(a, int, g->at.n + 1);
  for (int i = 0; i < g->at.n; i++) {
    Tensor *t = g->at.at[i];
    FuseKind kind = kind_of(p, t);
    q->root[i] = !is_free(t) && !graph_is_empty(g, t) && (o->eager || kind != FUSE_POINT);
    for (int k = 0; kind == FUSE_CONVOLUTION && k < t->in_count; k++) { /* a library takes arrays */
      const Tensor *x = fuse_unshaped(t->in[k]);
      q->root[x->id] |= x->op != GRAPH_INPUT;
    }
    if (t->op == GRAPH_MERGE_RUNS && t->in[0]->op != GRAPH_INPUT) q->root[t->in[0]->id] = true;
  }
  for (int i = 0; i < g->outputs.n; i++)
    if (g->outputs.at[i]) store_result(p, q->root, g->outputs.at[i]);
  for (int i = 0; i < g->writes.n; i++) store_result(p, q->root, g->writes.at[i].value);
  if (!o->eager) store_windows(q);
  if (!o->eager) store_wide(q);
  if (!o->eager && !o->no_online) stream_find(p, q->root);
  if (!o->eager) store_operands(q);
  if (!o->eager) store_tables(q);
  for (int round = 0; round < ROUNDS; round++) {
    make_groups(q, o->eager);
    if (o->eager || !store_repeated(q)) break;
    if (round == ROUNDS - 1) make_groups(q, false);
  }
  /* stored: what another kernel reads */
  for (int i = 0; i < q->groups.n; i++) {
    FuseKind kind = q->groups.at[i]->kind;
    for (int k = 0; k < q->groups.at[i]->n; k++) {
      Tensor *t = q->groups.at[i]->roots[k];
      bool always = kind == FUSE_SCATTER || kind == FUSE_SORT || kind == FUSE_CONVOLUTION;
      if (always) p->stored[t->id] = true;
      Set reads = q->reads[t->id];
      for (int x = 0; x < reads.n; x++)
        if (group_of(q, reads, x) >= 0 && group_of(q, reads, x) != i) p->stored[reads.at[x]] = true;
    }
  }
  if (!o->eager) keep_statistics_wide(p);
  FuseGroup **out = NEW_N(a, FuseGroup *, q->groups.n + 1);
  for (int i = 0, n = 0; i < q->groups.n; i++) {
    FuseGroup *group = q->groups.at[q->at_place.at[i]];
    if (!group->n) continue; /* it went into another one */
    group->reads = q->needs.at[q->at_place.at[i]];
    out[n++] = group;
  }
  return out;
}
