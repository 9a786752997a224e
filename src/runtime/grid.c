/* Grids that depend on the configuration: options.grid, an expression over the launch's numbers and what was chosen for
 * it.
 *
 * The expression is evaluated as Python (front_eval_grid), which takes tens of microseconds; a specialization remembers
 * the last expression, its numbers and the grid, so that a warm launch compares instead. Who finds the memory in use by
 * another launch evaluates.
 */
#include <stdlib.h>

#include "runtime/runtime.h"

enum { MOST_NAMES = 96 };

struct GridMemo {
  pthread_mutex_t lock;
  char *text;
  int count;
  double values[MOST_NAMES];
  int64_t grid[3];
};

struct GridMemo *grid_memo_create(void) {
  struct GridMemo *g = calloc(1, sizeof *g);
  if (g) pthread_mutex_init(&g->lock, NULL);
  return g;
}

void grid_memo_free(struct GridMemo *g) {
  if (!g) return;
  pthread_mutex_destroy(&g->lock);
  free(g->text);
  free(g);
}

typedef struct Names {
  int count;
  const char *name[MOST_NAMES];
  double value[MOST_NAMES];
} Names;

static void add(Names *n, const char *name, double value) {
  for (int i = 0; i < n->count; i++)
    if (!strcmp(n->name[i], name)) return;
  if (n->count < MOST_NAMES) n->name[n->count] = name, n->value[n->count++] = value;
}

static void gather(const Call *c, const Specialization *s, Names *n) {
  for (int i = 0; i < s->constant_count; i++) add(n, s->constants[i].name, s->constants[i].value);
  for (int i = 0; i < c->kernel->info.param_count; i++) {
    const nereid_arg *a = c->args[i];
    if (!a) continue;
    if (a->kind == NEREID_ARG_INT || a->kind == NEREID_ARG_BOOL || (a->kind == NEREID_ARG_CONSTEXPR && !a->text))
      add(n, c->kernel->names[i], (double)a->i);
    if (a->kind == NEREID_ARG_FLOAT) add(n, c->kernel->names[i], a->f);
  }
  add(n, "num_warps", s->info.num_warps), add(n, "num_stages", s->info.num_stages);
}

static nereid_status evaluate(const char *text, const Names *n, int64_t out[3], nereid_error **error) {
  Context *cx = context_within(NULL);
  if (!cx) return error_out_of_memory(error);
  nereid_status status = NEREID_OK;
  if (context_try(cx)) {
    front_eval_grid(cx, text, n->count, n->name, n->value, out);
    context_end_try(cx);
  } else {
    status = error_from_context(error, NEREID_BAD_ARGUMENT, cx);
  }
  context_destroy(cx);
  return status;
}

nereid_status grid_find(const Call *c, const Specialization *s, const int64_t given[3], const nereid_options *o,
                        int64_t out[3], nereid_error **error) {
  if (given) return memcpy(out, given, 3 * sizeof *out), NEREID_OK;
  if (!o->grid || !*o->grid)
    return error_set(error, NEREID_BAD_ARGUMENT, "give one, or an expression in options.grid", "the grid is NULL");
  Names n;
  n.count = 0;
  gather(c, s, &n);
  struct GridMemo *g = s->grid_memo;
  bool mine = g && !pthread_mutex_trylock(&g->lock);
  bool known = mine && g->text && !strcmp(g->text, o->grid) && g->count == n.count &&
               !memcmp(g->values, n.value, sizeof *n.value * (size_t)n.count);
  if (known) memcpy(out, g->grid, sizeof g->grid);
  nereid_status status = known ? NEREID_OK : evaluate(o->grid, &n, out, error);
  if (mine && !known && !status) {
    if (!g->text || strcmp(g->text, o->grid)) free(g->text), g->text = strdup(o->grid);
    g->count = n.count;
    memcpy(g->values, n.value, sizeof *n.value * (size_t)n.count);
    memcpy(g->grid, out, sizeof g->grid);
  }
  if (mine) pthread_mutex_unlock(&g->lock);
  return status;
}
