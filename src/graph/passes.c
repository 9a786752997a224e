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
  buf_printf(&b, "%d %d %lld %lld %a", (int)t->op, (int)t->point, (long long)t->attr[0], (long long)t->attr[1],
             t->number);
  graph_print_type(&b, t);
  for (int i = 0; i < t->in_count; i++) buf_printf(&b, " %d", t->in[i]->id);
  for (int i = 0; i < t->dim_count; i++) buf_printf(&b, ",%lld", (long long)t->dims[i]);
  for (int i = 0; i < t->size_count; i++) buf_printf(&b, ";%s", t->sizes[i]->text);
  return b.at;
}

static Tensor *times_one(const Tensor *t) {
  for (int i = 0; i < 2; i++)
    if (t->in[i]->op == GRAPH_FULL && t->in[i]->number == 1) return t->in[1 - i];
  return NULL;
}

void graph_cse(Graph *g) {
  Map *seen = map_create(g->cx->arena, true);
  number(g);
  for (int i = 0; i < g->at.n; i++) g->at.at[i]->note = g->at.at[i];
  for (int i = 0; i < g->at.n; i++) {
    Tensor *t = g->at.at[i];
    for (int k = 0; k < t->in_count; k++) t->in[k] = t->in[k]->note;
    if (t->op == GRAPH_INPUT) continue;
    if (t->op == GRAPH_DETACH) { /* gradients have been made */
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
