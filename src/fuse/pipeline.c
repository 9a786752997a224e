/* The passes over a tensor graph, from what was read to what is planned, in their order, with what each needs, gives
 * and keeps.
 *
 *     no_detach   gradients have been made: nothing takes a `detach` any more
 *     no_empty    what has no elements is a constant or an input
 *     chosen      each convolution is ours or a library's
 *     swept       each tensor but the inputs is needed
 *
 * After each pass the graph is verified, and what the pass gives or keeps is looked at: a property is one bit, with a
 * function that finds a tensor for which it does not hold.
 */
#include "fuse/fuse.h"

enum { NO_DETACH = 1, NO_EMPTY = 2, SWEPT = 4, CHOSEN = 8, SOUND = NO_DETACH | NO_EMPTY | CHOSEN, ALL = SOUND | SWEPT };

typedef enum { ALWAYS, UNLESS_EAGER, IF_ONLINE } When;

static void cse(Graph *g, const FuseOptions *o) { graph_cse(g); }
static void dce(Graph *g, const FuseOptions *o) { graph_dce(g); }
static void drop_empty(Graph *g, const FuseOptions *o) { fuse_drop_empty(g); }
static void vector_products(Graph *g, const FuseOptions *o) {
  if (o->products.who != PRODUCTS_LIBRARY) fuse_vector_products(g, &o->target);
}
static void layouts(Graph *g, const FuseOptions *o) { fuse_layouts(g); }
static void sort_in_steps(Graph *g, const FuseOptions *o) { fuse_sort_in_steps(g, &o->target); }
static void simplify(Graph *g, const FuseOptions *o) { fuse_simplify(g); }
static void split_dependent(Graph *g, const FuseOptions *o) { fuse_split_dependent(g, &o->target); }
static void split_reductions(Graph *g, const FuseOptions *o) { fuse_split_reductions(g, &o->target); }

/* clang-format off */
static const struct {
  const char *name;
  void (*run)(Graph *g, const FuseOptions *o);
  When when;
  unsigned needs, gives, keeps;
} passes[] = {
    /*                                                                    needs, gives, keeps */
    {"cse", cse, ALWAYS,                                                  0, NO_DETACH, 0},
    {"dce", dce, ALWAYS,                                                  NO_DETACH, SWEPT, NO_DETACH},
    {"drop_empty", drop_empty, ALWAYS,                                    NO_DETACH, NO_EMPTY | SWEPT, NO_DETACH},
    {"convolutions", fuse_convolutions, ALWAYS,                           NO_DETACH | NO_EMPTY, CHOSEN | SWEPT, SOUND},
    {"vector_products", vector_products, UNLESS_EAGER,                    SOUND, SWEPT, SOUND},
    {"layouts", layouts, ALWAYS,                                          ALL, SWEPT, SOUND},
    {"sort_in_steps", sort_in_steps, ALWAYS,                              ALL, SWEPT, SOUND},
    {"simplify", simplify, IF_ONLINE,                                     ALL, SWEPT, SOUND},
    {"split_dependent", split_dependent, IF_ONLINE,                       ALL, 0, SOUND}, /* of maxima, means */
    {"split_reductions", split_reductions, UNLESS_EAGER,                  SOUND, 0, SOUND},
    {"dce", dce, UNLESS_EAGER,                                            NO_DETACH, SWEPT, SOUND},
};
/* clang-format on */

/* ---- the properties ---------------------------------------------------------------------------------------------- */

static bool is_no_detach(Graph *g, const Tensor *t) { return t->op != GRAPH_DETACH || !t->uses; }

static bool is_no_empty(Graph *g, const Tensor *t) {
  return t->op == GRAPH_FULL || t->op == GRAPH_INPUT || !graph_is_empty(g, t);
}

static bool is_chosen(Graph *g, const Tensor *t) { return t->op != GRAPH_CONVOLUTION || t->in_count == 2; }

static bool is_swept(Graph *g, const Tensor *t) { return t->op == GRAPH_INPUT || t->uses; }

static const struct {
  const char *name;
  unsigned bit;
  bool (*holds)(Graph *g, const Tensor *t);
} properties[] = {{"no_detach", NO_DETACH, is_no_detach},
                  {"no_empty", NO_EMPTY, is_no_empty},
                  {"chosen", CHOSEN, is_chosen},
                  {"swept", SWEPT, is_swept}};
enum { PROPERTIES = sizeof properties / sizeof *properties };

static void check(Graph *g, const char *pass, unsigned holds) {
  graph_count_uses(g);
  for (int p = 0; p < PROPERTIES; p++)
    for (int i = 0; holds & properties[p].bit && i < g->at.n; i++)
      if (!properties[p].holds(g, g->at.at[i]))
        diag_fail(g->cx, (Span){0}, "wrong graph after %s: %%%d is not '%s'", pass, i, properties[p].name);
}

static void require(Graph *g, const char *who, unsigned needs, unsigned holds) {
  for (int p = 0; p < PROPERTIES; p++)
    if (needs & ~holds & properties[p].bit)
      diag_fail(g->cx, (Span){0}, "%s needs a graph that is '%s'", who, properties[p].name);
}

void fuse_optimize(Graph *g, const FuseOptions *o) {
  unsigned holds = 0;
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
    if ((passes[i].when != ALWAYS && o->eager) || (passes[i].when == IF_ONLINE && o->no_online)) continue;
    require(g, passes[i].name, passes[i].needs, holds);
    passes[i].run(g, o);
    holds = (holds & passes[i].keeps) | passes[i].gives;
    graph_verify(g, passes[i].name);
    check(g, passes[i].name, holds);
  }
  require(g, "the plan", ALL, holds);
}
