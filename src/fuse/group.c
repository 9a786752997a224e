/* Which tensors are stored, and which kernel computes them. */
#include "fuse/fuse.h"

static FuseKind kind_of(const Tensor *t) {
  switch (graph_ops[t->op].group) {
    case CLASS_REDUCE: return FUSE_REDUCE;
    case CLASS_SCAN: return FUSE_SCAN;
    case CLASS_PRODUCT: return FUSE_PRODUCT;
    case CLASS_MEMORY: return t->op == GRAPH_SCATTER ? FUSE_SCATTER : FUSE_POINT;
    default: return FUSE_POINT;
  }
}

static bool is_view(const Tensor *t) { return graph_ops[t->op].group == CLASS_VIEW; }

/* A result that the caller gets: a reshape of a stored tensor shares its memory. */
static void store_result(FusePlan *p, Tensor *t) {
  if (t->op == GRAPH_INPUT) return;
  p->stored[t->id] = true;
  if (t->op != GRAPH_RESHAPE) return;
  Tensor *base = t->in[0];
  if (is_view(base) || base->op == GRAPH_FULL || base->op == GRAPH_IOTA || base->op == GRAPH_EXTENT) return;
  p->alias[t->id] = base;
  if (base->op != GRAPH_INPUT) p->stored[base->id] = true;
}

static FuseGroup *group_of(FusePlan *p, Tensor *t, FuseKind kind) {
  Arena *a = p->g->cx->arena;
  FuseGroup *group = NEW(a, FuseGroup);
  group->kind = kind;
  group->n = 1;
  group->roots = NEW(a, Tensor *);
  group->roots[0] = t;
  if (kind == FUSE_REDUCE) group->space = t;
  return group;
}

FuseGroup **fuse_groups(FusePlan *p, const FuseOptions *o) {
  Graph *g = p->g;
  VEC(FuseGroup *) groups = {0};
  for (int i = 0; i < g->at.n; i++) {
    Tensor *t = g->at.at[i];
    p->stored[i] =
        t->op != GRAPH_INPUT && t->op != GRAPH_FULL && t->op != GRAPH_IOTA && t->op != GRAPH_EXTENT && !is_view(t);
  }
  for (int i = 0; i < g->outputs.n; i++)
    if (g->outputs.at[i]) store_result(p, g->outputs.at[i]);
  for (int i = 0; i < g->writes.n; i++) store_result(p, g->writes.at[i].value);
  for (int i = 0; i < g->at.n; i++) {
    Tensor *t = g->at.at[i];
    if (!p->stored[i] || p->alias[i]) continue;
    vec_push(g->cx->arena, &groups, group_of(p, t, kind_of(t)));
  }
  vec_push(g->cx->arena, &groups, NULL);
  return groups.at;
}
