/* What is the same is computed once; what nobody needs is not computed. */
#include "graph/graph.h"

void graph_count_uses(Graph *g) {
  for (int i = 0; i < g->at.n; i++) g->at.at[i]->uses = 0;
  for (int i = 0; i < g->at.n; i++)
    for (int k = 0; k < g->at.at[i]->in_count; k++) g->at.at[i]->in[k]->uses++;
  for (int i = 0; i < g->outputs.n; i++)
    if (g->outputs.at[i]) g->outputs.at[i]->uses++;
  for (int i = 0; i < g->writes.n; i++) g->writes.at[i].value->uses++;
}

static void number(Graph *g) {
  for (int i = 0; i < g->at.n; i++) g->at.at[i]->id = i;
}

void graph_dce(Graph *g) {
  for (int i = 0; i < g->at.n; i++) g->at.at[i]->uses = 0;
  for (int i = 0; i < g->outputs.n; i++)
    if (g->outputs.at[i]) g->outputs.at[i]->uses = 1;
  for (int i = 0; i < g->writes.n; i++) g->writes.at[i].value->uses = g->writes.at[i].input->uses = 1;
  for (int i = g->at.n - 1; i >= 0; i--)
    for (int k = 0; g->at.at[i]->uses && k < g->at.at[i]->in_count; k++) g->at.at[i]->in[k]->uses = 1;
  Tensor **kept = NEW_N(g->cx->arena, Tensor *, g->at.n + 1);
  int n = g->inputs.n;
  for (int i = 0; i < n; i++) kept[i] = g->inputs.at[i];
  for (int i = 0; i < g->at.n; i++)
    if (g->at.at[i]->uses && g->at.at[i]->op != GRAPH_INPUT) kept[n++] = g->at.at[i];
  memcpy(g->at.at, kept, sizeof(Tensor *) * (size_t)n);
  g->at.n = n;
  number(g);
  graph_count_uses(g);
}

static const char *key_of(Graph *g, const Tensor *t) {
  Buf b = {.arena = g->cx->arena};
  buf_printf(&b, "%d %d %a %s", (int)t->op, (int)t->point, t->number, t->first ? t->first->text : "");
  for (size_t i = 0; i < sizeof t->attr / sizeof *t->attr; i++) buf_printf(&b, " %lld", (long long)t->attr[i]);
  graph_print_type(&b, t);
  for (int i = 0; i < t->in_count; i++) buf_printf(&b, " %d", t->in[i]->id);
  for (int i = 0; i < t->dim_count; i++) buf_printf(&b, ",%lld", (long long)t->dims[i]);
  for (int i = 0; i < t->before_count; i++) buf_printf(&b, ";%s", t->before[i]->text);
  return b.at;
}

static Tensor *times_one(const Tensor *t) {
  for (int i = 0; i < 2; i++)
    if (t->in[i]->op == GRAPH_FULL && t->in[i]->number == 1) return t->in[1 - i];
  return NULL;
}

/* Views of constants, and of views of their kind, which the program's own sharing of memory kept apart until now. */
static void fold_view(Tensor *t) {
  Tensor *x = t->in_count ? t->in[0] : NULL;
  bool view = t->op == GRAPH_PERMUTE || t->op == GRAPH_RESHAPE || t->op == GRAPH_EXPAND || t->op == GRAPH_SLICE;
  if (!view) return;
  if (x->op == GRAPH_FULL) {
    t->op = GRAPH_FULL;
    t->number = x->number;
    t->in_count = t->dim_count = 0;
    memset(t->attr, 0, sizeof t->attr);
    t->first = NULL;
  } else if (x->op == t->op && (t->op == GRAPH_RESHAPE || t->op == GRAPH_EXPAND)) t->in[0] = x->in[0];
}

/* The part of a concatenation that a slice takes, alone. */
static void fold_part(Graph *g, Tensor *t) {
  Tensor *x = t->in_count ? t->in[0] : NULL;
  int64_t first, count, n, at = 0;
  if (t->op != GRAPH_SLICE || x->op != GRAPH_CONCAT || x->dim != t->dim || t->step != 1) return;
  int d = (int)t->dim;
  if (!size_is_int(t->first, &first) || !size_is_int(t->size[d], &count) || !count) return;
  for (int i = 0; i < x->in_count && size_is_int(x->in[i]->size[d], &n); i++, at += n) {
    if (first < at || first + count > at + n) continue;
    t->in[0] = x->in[i];
    t->first = size_int(g, first - at);
    return;
  }
}

/* A slice of a slice. */
static void fold_slice(Graph *g, Tensor *t) {
  Tensor *x = t->in_count ? t->in[0] : NULL;
  if (t->op != GRAPH_SLICE || x->op != GRAPH_SLICE || x->dim != t->dim || x->step != 1) return;
  t->in[0] = x->in[0];
  t->first = size_add(g, t->first, x->first);
}

/* Which parts of a concatenation a slice takes whole: their number, from *from on; 0: some only in part. */
static int whole_parts(const Tensor *t, int64_t dim, int *from) {
  const Tensor *x = t->in_count ? t->in[0] : NULL;
  int64_t first, count, n, at = 0;
  if (t->op != GRAPH_SLICE || x->op != GRAPH_CONCAT || x->dim != dim || t->dim != dim || t->step != 1) return 0;
  if (!size_is_int(t->first, &first) || !size_is_int(t->size[dim], &count) || !count) return 0;
  *from = -1;
  for (int i = 0; i < x->in_count && size_is_int(x->in[i]->size[dim], &n); i++, at += n) {
    if (at == first) *from = i;
    if (*from >= 0 && at + n == first + count) return i - *from + 1;
  }
  return 0;
}

/* The parts of a concatenation that are concatenations, or slices that take several parts of one. */
static void fold_concat(Graph *g, Tensor *t) {
  if (t->op != GRAPH_CONCAT) return;
  VEC(Tensor *) parts = {0};
  int64_t d = t->dim;
  for (int i = 0; i < t->in_count; i++) {
    Tensor *x = t->in[i];
    int from = 0, n = whole_parts(x, d, &from);
    if (x->op == GRAPH_CONCAT && x->dim == d) n = x->in_count;
    else if (n) x = x->in[0];
    for (int k = 0; k < n; k++) vec_push(g->cx->arena, &parts, x->in[from + k]);
    if (!n) vec_push(g->cx->arena, &parts, x);
  }
  t->in = parts.at;
  t->in_count = parts.n;
}

static bool takes_all(const Tensor *t) { return t->op == GRAPH_SLICE && t->step == 1 && graph_same_shape(t, t->in[0]); }

void graph_cse(Graph *g) {
  Map *seen = map_create(g->cx->arena, true);
  number(g);
  for (int i = 0; i < g->at.n; i++) g->at.at[i]->note = g->at.at[i];
  for (int i = 0; i < g->at.n; i++) {
    Tensor *t = g->at.at[i];
    for (int k = 0; k < t->in_count; k++) t->in[k] = t->in[k]->note;
    if (t->op == GRAPH_INPUT) continue;
    fold_view(t);
    fold_part(g, t);
    fold_slice(g, t);
    fold_concat(g, t);
    if (t->op == GRAPH_DETACH || takes_all(t)) { /* gradients have been made */
      t->note = t->in[0];
      continue;
    }
    Tensor *x = t->op == GRAPH_POINT && t->point == POINT_MUL && dtype_is_float(t->dtype) ? times_one(t) : NULL;
    if (x) {
      t->note = x;
      continue;
    }
    const char *key = key_of(g, t);
    Tensor *same = map_get(seen, key);
    if (!same) map_put(seen, key, t);
    else {
      t->note = same;
      if (!same->name) same->name = t->name;
    }
  }
  for (int i = 0; i < g->outputs.n; i++)
    if (g->outputs.at[i]) g->outputs.at[i] = g->outputs.at[i]->note;
  for (int i = 0; i < g->writes.n; i++) g->writes.at[i].value = g->writes.at[i].value->note;
}
