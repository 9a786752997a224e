/* Which tensors are stored, and which of them one kernel computes together.
 *
 * A root is a tensor that some kernel computes as such: results, reductions, scans, scatters, products, and elementwise
 * tensors that several kernels would otherwise compute again. All others are inlined where they are read. Roots join
 * one kernel when they are over one space of indices, have data in common, and no other kernel stands between them:
 *
 *     elementwise     roots of as many elements
 *     reductions      reductions of as many rows of as many elements, with elementwise roots of the whole space or of
 *                     the rows: what stands before them, after them and between them
 *     a product       its elementwise epilogue
 *
 * A reduction's or product's value is there for one index only, that of the row or tile at hand; consistent() goes
 * through the views between to see that this one is asked for.
 *
 * Then two kernels may compute the same elementwise tensor. If that costs more memory traffic than storing it would, it
 * becomes a root, and all is done again. */
#include "fuse/fuse.h"

enum { MOST_READS = 24, MOST_ROOTS = 24, MOST_REPEATED = 24, ROUNDS = 4, SMALL = 65536 };

typedef struct Grouping {
  FusePlan *p;
  Graph *g;
  bool *root;
  int *group;       /* by id: of a root; -1 */
  uint64_t **reads; /* by id: the roots and inputs from which it is computed */
  int words;
  VEC(FuseGroup *) groups;
} Grouping;

static bool is_view(const Tensor *t) { return graph_ops[t->op].group == CLASS_VIEW; }
static bool is_free(const Tensor *t) {
  return is_view(t) || t->op == GRAPH_INPUT || t->op == GRAPH_FULL || t->op == GRAPH_IOTA || t->op == GRAPH_EXTENT;
}

static FuseKind kind_of(const Tensor *t) {
  switch (graph_ops[t->op].group) {
    case CLASS_REDUCE: return FUSE_REDUCE;
    case CLASS_SCAN: return FUSE_SCAN;
    case CLASS_PRODUCT: return FUSE_PRODUCT;
    case CLASS_MEMORY: return t->op == GRAPH_SCATTER ? FUSE_SCATTER : FUSE_POINT;
    default: return FUSE_POINT;
  }
}

static bool has(const uint64_t *set, int i) { return set[i / 64] >> (i % 64) & 1; }
static void add(uint64_t *set, int i) { set[i / 64] |= UINT64_C(1) << (i % 64); }
static int count(const uint64_t *set, int words) {
  int n = 0;
  for (int i = 0; i < words; i++) n += __builtin_popcountll(set[i]);
  return n;
}

/* A result that the caller gets: a reshape of a stored tensor shares its memory. */
static void store_result(FusePlan *p, bool *root, Tensor *t) {
  if (t->op == GRAPH_INPUT) return;
  p->stored[t->id] = true;
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

static void find_reads(Grouping *q) {
  for (int i = 0; i < q->g->at.n; i++) {
    Tensor *t = q->g->at.at[i];
    uint64_t *set = NEW_N(q->g->cx->arena, uint64_t, q->words);
    for (int k = 0; k < t->in_count; k++) {
      Tensor *x = t->in[k];
      if (q->root[x->id] || x->op == GRAPH_INPUT) add(set, x->id);
      else
        for (int w = 0; w < q->words; w++) set[w] |= q->reads[x->id][w];
    }
    q->reads[i] = set;
  }
}

/* Of a group: what its roots read, without its own. */
static uint64_t *group_reads(Grouping *q, const FuseGroup *group) {
  uint64_t *set = NEW_N(q->g->cx->arena, uint64_t, q->words);
  for (int i = 0; i < group->n; i++)
    for (int w = 0; w < q->words; w++) set[w] |= q->reads[group->roots[i]->id][w];
  for (int i = 0; i < group->n; i++) set[group->roots[i]->id / 64] &= ~(UINT64_C(1) << (group->roots[i]->id % 64));
  return set;
}

/* Whether `from` needs, through other kernels, what group `to` computes. */
static bool depends(Grouping *q, int from, int to, bool *seen) {
  if (from == to) return true;
  if (seen[from]) return false;
  seen[from] = true;
  stack_guard();
  const FuseGroup *f = q->groups.at[from];
  for (int i = 0; i < f->n; i++)
    for (int w = 0; w < q->words; w++)
      for (uint64_t bits = q->reads[f->roots[i]->id][w]; bits; bits &= bits - 1) {
        int of = q->group[w * 64 + __builtin_ctzll(bits)];
        if (of >= 0 && of != from && depends(q, of, to, seen)) return true;
      }
  return false;
}

static bool makes_cycle(Grouping *q, const Tensor *t, int to) {
  bool *seen = NEW_N(q->g->cx->arena, bool, q->groups.n + 1);
  for (int w = 0; w < q->words; w++)
    for (uint64_t bits = q->reads[t->id][w]; bits; bits &= bits - 1) {
      int of = q->group[w * 64 + __builtin_ctzll(bits)];
      if (of >= 0 && of != to && depends(q, of, to, seen)) return true;
    }
  return false;
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

/* The index at which the group has the value of one of its roots; false: at any (it is computed again). */
static bool own_index(Walk *k, const Tensor *t, Index *at) {
  Graph *g = k->q->g;
  if (t->op == GRAPH_REDUCE) {
    bool skip[GRAPH_MAX_RANK] = {false};
    for (int i = 0; i < t->dim_count; i++) skip[t->dims[i]] = true;
    return index_split(g, index_var(g, k->x), t->rank, t->size, skip, at);
  }
  return t->op == GRAPH_PRODUCT && index_split(g, index_var(g, k->x), t->rank, t->size, NULL, at);
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
  if (member && (t->op == GRAPH_REDUCE || t->op == GRAPH_PRODUCT)) {
    if (!own_index(k, t, in)) return false;
    for (int d = 0; d < t->rank; d++)
      if (strcmp(index_text(g, &at[d]), index_text(g, &in[d]))) return false;
    return true;
  }
  bool needs = false; /* a member at all, where the index is not known */
  for (int i = 0; i < k->group->n; i++) needs |= has(k->q->reads[t->id], k->group->roots[i]->id);
  if (!needs) return true;
  if (is_view(t)) return fuse_view_index(g, t, at, in) && consistent(k, t->in[0], in);
  if (graph_ops[t->op].group != CLASS_POINT) return false;
  for (int i = 0; i < t->in_count; i++)
    if (!consistent(k, t->in[i], at)) return false;
  return true;
}

/* Whether t can be a root of a group over that space. */
static bool fits_space(Grouping *q, const FuseGroup *group, Tensor *t) {
  Graph *g = q->g;
  const Size *n = graph_numel(g, t), *rows, *length;
  IndexVar x = {.text = "x", .extent = n, .bit = 1}, r = {.text = "r", .bit = 2};
  Walk walk = {q, group, &x, &r, map_create(g->cx->arena, true)};
  Index at[GRAPH_MAX_RANK], of_space[GRAPH_MAX_RANK], in_row[GRAPH_MAX_RANK];
  if (group->kind != FUSE_REDUCE) {
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
    if (!index_split(g, linear, t->rank, t->size, NULL, at)) return false;
  }
  t->note = &walk; /* it is a root, and yet looked into */
  bool good = consistent(&walk, t, at);
  t->note = NULL;
  return good;
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

static bool shares(Grouping *q, const FuseGroup *group, const Tensor *t) {
  const uint64_t *set = group_reads(q, group);
  for (int w = 0; w < q->words; w++)
    if (set[w] & q->reads[t->id][w]) return true;
  for (int i = 0; i < group->n; i++)
    if (has(q->reads[t->id], group->roots[i]->id)) return true;
  int64_t n;
  return group->kind == FUSE_POINT && size_is_int(graph_numel(q->g, t), &n) && n <= SMALL && group->n < 8;
}

static bool joins(Grouping *q, int to, Tensor *t) {
  FuseGroup *group = q->groups.at[to];
  FuseKind kind = kind_of(t);
  if (group->kind == FUSE_SCAN || group->kind == FUSE_SCATTER || kind == FUSE_SCAN || kind == FUSE_SCATTER ||
      kind == FUSE_PRODUCT)
    return false;
  if (group->n >= MOST_ROOTS || !shares(q, group, t)) return false;
  if (group->kind == FUSE_PRODUCT && (kind != FUSE_POINT || !has(q->reads[t->id], group->roots[0]->id))) return false;
  FuseGroup trial = *group;
  if (kind == FUSE_REDUCE && group->kind == FUSE_POINT) { /* the group becomes what stands before the reduction */
    trial.kind = FUSE_REDUCE;
    trial.space = t;
    if (graph_numel(q->g, group->roots[0]) != graph_numel(q->g, t->in[0])) return false;
    for (int i = 0; i < group->n; i++)
      if (!fits_space(q, &trial, group->roots[i])) return false;
  }
  if (!fits_space(q, &trial, t) || makes_cycle(q, t, to)) return false;
  const uint64_t *set = group_reads(q, group);
  int reads = 0;
  for (int w = 0; w < q->words; w++) reads += __builtin_popcountll(set[w] | q->reads[t->id][w]);
  if (reads > MOST_READS) return false;
  Tensor **roots = NEW_N(q->g->cx->arena, Tensor *, group->n + 1);
  memcpy(roots, group->roots, sizeof *roots * (size_t)group->n);
  roots[group->n] = t;
  *group = trial;
  group->roots = roots;
  group->n++;
  return true;
}

static void place(Grouping *q, Tensor *t, bool eager) {
  for (int i = eager ? -1 : q->groups.n - 1; i >= 0; i--)
    if (joins(q, i, t)) {
      q->group[t->id] = i;
      return;
    }
  FuseGroup *group = NEW(q->g->cx->arena, FuseGroup);
  group->kind = kind_of(t);
  group->n = 1;
  group->roots = NEW(q->g->cx->arena, Tensor *);
  group->roots[0] = t;
  group->space = group->kind == FUSE_REDUCE ? t : NULL;
  q->group[t->id] = q->groups.n;
  vec_push(q->g->cx->arena, &q->groups, group);
}

/* ---- computed twice, or stored ----------------------------------------------------------------------------------- */

/* Operations that a kernel does for t. */
static int cost_of(Grouping *q, const Tensor *t, bool *seen) {
  if (seen[t->id] || t->op == GRAPH_INPUT || (q->root[t->id] && t->note == NULL)) return 0;
  seen[t->id] = true;
  stack_guard();
  int n = t->op == GRAPH_UNIFORM ? 10 : !is_free(t);
  for (int i = 0; i < t->in_count; i++) n += cost_of(q, t->in[i], seen);
  return n;
}

static int cost(Grouping *q, Tensor *t) {
  int c = 0;
  bool *seen = NEW_N(q->g->cx->arena, bool, q->g->at.n);
  for (int i = 0; i < t->in_count; i++) c += cost_of(q, t->in[i], seen);
  return c + 1;
}

/* Elements read for t, of arrays as large as itself counted as 1. */
static double traffic(Grouping *q, const Tensor *t) {
  double n = 0;
  int64_t own, one;
  for (int w = 0; w < q->words; w++)
    for (uint64_t bits = q->reads[t->id][w]; bits; bits &= bits - 1) {
      const Tensor *x = q->g->at.at[w * 64 + __builtin_ctzll(bits)];
      const Size *mine = graph_numel(q->g, t), *its = graph_numel(q->g, x);
      bool known = size_is_int(mine, &own) && size_is_int(its, &one) && own;
      n += known ? (double)one / (double)own : x->rank >= t->rank && mine == its;
    }
  return n;
}

/* Whether something new became a root. */
static bool store_repeated(Grouping *q) {
  Arena *a = q->g->cx->arena;
  int words = q->groups.n / 64 + 1, n = q->g->at.n;
  uint64_t *users = NEW_N(a, uint64_t, (size_t)words * (size_t)n);
  bool changed = false;
  for (int i = n - 1; i >= 0; i--) { /* the kernels that inline it: users before operands */
    Tensor *t = q->g->at.at[i];
    if (q->root[i] && q->group[i] >= 0) add(users + (size_t)i * (size_t)words, q->group[i]);
    for (int k = 0; k < t->in_count; k++)
      if (!q->root[t->in[k]->id])
        for (int w = 0; w < words; w++)
          users[(size_t)t->in[k]->id * (size_t)words + (size_t)w] |= users[(size_t)i * (size_t)words + (size_t)w];
  }
  for (int i = 0; i < n; i++) {
    Tensor *t = q->g->at.at[i];
    if (q->root[i] || is_free(t)) continue;
    int kernels = count(users + (size_t)i * (size_t)words, words);
    if (kernels < 2) continue;
    double saved = (kernels - 1) * (traffic(q, t) - 1);
    if (saved <= 1 && cost(q, t) <= MOST_REPEATED) continue;
    q->root[i] = changed = true;
    find_reads(q);
  }
  return changed;
}

/* Operands of products are read again and again, those of scatters' copies at other indices. */
static void store_operands(Grouping *q) {
  for (int i = 0; i < q->g->at.n; i++) {
    Tensor *t = q->g->at.at[i];
    if (t->op != GRAPH_PRODUCT) continue;
    for (int k = 0; k < 2; k++) {
      Tensor *x = t->in[k];
      while (is_view(x) && x->in_count == 1) x = x->in[0];
      if (!is_free(x) && cost(q, x) > 2) q->root[x->id] = true;
    }
  }
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static void visit(Grouping *q, int i, bool *done, FuseGroup **out, int *n) {
  if (done[i]) return;
  done[i] = true;
  stack_guard();
  const FuseGroup *group = q->groups.at[i];
  for (int k = 0; k < group->n; k++)
    for (int w = 0; w < q->words; w++)
      for (uint64_t bits = q->reads[group->roots[k]->id][w]; bits; bits &= bits - 1) {
        int of = q->group[w * 64 + __builtin_ctzll(bits)];
        if (of >= 0) visit(q, of, done, out, n);
      }
  out[(*n)++] = q->groups.at[i];
}

static void make_groups(Grouping *q, bool eager) {
  find_reads(q);
  q->groups.n = 0;
  for (int i = 0; i < q->g->at.n; i++) q->group[i] = -1;
  for (int i = 0; i < q->g->at.n; i++) q->g->at.at[i]->note = NULL;
  for (int i = 0; i < q->g->at.n; i++)
    if (q->root[i]) place(q, q->g->at.at[i], eager);
}

FuseGroup **fuse_groups(FusePlan *p, const FuseOptions *o) {
  Graph *g = p->g;
  Arena *a = g->cx->arena;
  Grouping *q = &(Grouping){.p = p, .g = g, .words = g->at.n / 64 + 1};
  q->root = NEW_N(a, bool, g->at.n + 1);
  q->group = NEW_N(a, int, g->at.n + 1);
  q->reads = NEW_N(a, uint64_t *, g->at.n + 1);
  for (int i = 0; i < g->at.n; i++) {
    Tensor *t = g->at.at[i];
    FuseKind kind = kind_of(t);
    q->root[i] = !is_free(t) && (o->eager || kind != FUSE_POINT);
  }
  for (int i = 0; i < g->outputs.n; i++)
    if (g->outputs.at[i]) store_result(p, q->root, g->outputs.at[i]);
  for (int i = 0; i < g->writes.n; i++) store_result(p, q->root, g->writes.at[i].value);
  if (!o->eager) store_operands(q);
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
      if (kind == FUSE_SCAN || kind == FUSE_SCATTER) p->stored[t->id] = true;
      for (int w = 0; w < q->words; w++)
        for (uint64_t bits = q->reads[t->id][w]; bits; bits &= bits - 1) {
          int x = w * 64 + __builtin_ctzll(bits);
          if (q->group[x] >= 0 && q->group[x] != i) p->stored[x] = true;
        }
    }
  }
  FuseGroup **out = NEW_N(a, FuseGroup *, q->groups.n + 1);
  bool *done = NEW_N(a, bool, q->groups.n + 1);
  int n = 0;
  for (int i = 0; i < q->groups.n; i++) visit(q, i, done, out, &n);
  return out;
}
