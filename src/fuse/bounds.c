/* Blocks of a row that change nothing, and so need not go by.
 *
 * A causal mask compares the place in a row with the row's number. Let such a comparison have one outcome in all of a
 * block. Then constants spread through what is reduced: where(False, s, -inf) is -inf, exp(-inf - c) is 0, 0 * x is 0.
 * If by that every maximum of the loop is of -inf, and every sum and product of 0, the block can be left out. Where the
 * comparison can have the other outcome at all is a linear inequality between places and rows:
 *
 *     k <= m + c      the loop ends after the last row's last place, (program + 1) * M + c
 *     k >= m + c      it begins with the block of the first row's first place
 *
 * (Of what is not finite in a block that is left out nothing is seen: 0 times an infinite value would be NaN.) */
#include <math.h>

#include "fuse/fuse.h"

enum { MOST_TESTS = 8 };

typedef struct Bounds {
  Stream *s;
  Writer *w;
  Tensor *tests[MOST_TESTS];                           /* comparisons of places and rows */
  int64_t k[MOST_TESTS], m[MOST_TESTS], c[MOST_TESTS]; /* outcome: k * place + m * row + c >= 0 */
  int n;
  const Tensor *assumed; /* one of them, and its outcome */
  bool outcome;
  Map *seen;
} Bounds;

static bool is_loaded(const Bounds *b, const Tensor *t) {
  return t->op == GRAPH_INPUT || (b->w->plan->stored[t->id] && !b->w->plan->alias[t->id]);
}

/* left (comparison) right as k * place + m * row + c >= 0. */
static bool read_test(Bounds *b, Tensor *t, const Index *at) {
  Graph *g = b->s->g;
  Index x, y;
  bool less = t->point == POINT_LT || t->point == POINT_LE, strict = t->point == POINT_LT || t->point == POINT_GT;
  if (!less && t->point != POINT_GT && t->point != POINT_GE) return false;
  if (b->n == MOST_TESTS || !writer_affine(b->w, t->in[0], at, &x) || !writer_affine(b->w, t->in[1], at, &y))
    return false;
  Index d = index_add(g, less ? y : x, index_scale(g, less ? x : y, size_int(g, -1)));
  int64_t k = 0, m = 0, c, factor;
  if (!size_is_int(d.constant, &c)) return false;
  for (int i = 0; i < d.n; i++) {
    const IndexTerm *term = &d.at[i];
    bool row = term->var == b->s->m;
    if ((!row && term->var != b->s->k) || term->size || !size_is(term->below, 1) || !size_is_int(term->factor, &factor))
      return false;
    if (factor < -1 || factor > 1) return false;
    *(row ? &m : &k) = factor;
  }
  if (!k) return false;
  for (int i = 0; i < b->n; i++) /* the same comparison at another index: one outcome would be assumed of both */
    if (b->tests[i] == t && (b->k[i] != k || b->m[i] != m)) b->k[i] = 0;
  for (int i = 0; i < b->n; i++)
    if (b->tests[i] == t) return true;
  b->tests[b->n] = t;
  b->k[b->n] = k;
  b->m[b->n] = m;
  b->c[b->n++] = c - strict;
  return true;
}

static void find_tests(Bounds *b, Tensor *t, const Index *at) {
  stack_guard();
  Index in[GRAPH_MAX_RANK];
  Buf key = {.arena = b->s->g->cx->arena};
  if (is_loaded(b, t) || t->op == GRAPH_PRODUCT || t->op == GRAPH_REDUCE) return;
  buf_printf(&key, "%d", t->id);
  for (int d = 0; d < t->rank; d++) buf_printf(&key, ",%s", index_text(b->s->g, &at[d]));
  if (map_get(b->seen, key.at)) return;
  map_put(b->seen, key.at, b);
  if (graph_is_view(t) && fuse_view_index(b->s->g, t, at, in)) find_tests(b, t->in[0], in);
  if (t->op != GRAPH_POINT || read_test(b, t, at)) return;
  for (int i = 0; i < t->in_count; i++) find_tests(b, t->in[i], at);
}

/* ---- what is constant under the assumption ----------------------------------------------------------------------- */

static bool constant_point(Bounds *b, const Tensor *t, double *v);

static bool constant(Bounds *b, const Tensor *t, double *v) {
  stack_guard();
  if (t == b->assumed) *v = b->outcome;
  if (t == b->assumed) return true;
  if (is_loaded(b, t)) return false;
  if (t->op == GRAPH_FULL) *v = t->number;
  if (t->op == GRAPH_FULL) return true;
  if (graph_is_view(t) && t->in_count == 1 && t->op != GRAPH_PAD) return constant(b, t->in[0], v);
  return t->op == GRAPH_POINT && constant_point(b, t, v);
}

/* Values that are not known are taken for finite numbers, references among them. */
static bool constant_point(Bounds *b, const Tensor *t, double *v) {
  double x[3] = {0};
  bool known[3] = {false};
  for (int i = 0; i < t->in_count; i++) known[i] = constant(b, t->in[i], &x[i]);
  bool zero[2] = {known[0] && x[0] == 0, known[1] && x[1] == 0};
  *v = 0;
  switch (t->point) {
    case POINT_WHERE: *v = x[1 + (x[0] == 0)]; return known[0] && known[1 + (x[0] == 0)];
    case POINT_MUL:
    case POINT_AND:
      if (zero[0] || zero[1]) return true;
      if (t->point == POINT_AND || isinf(x[0]) || isinf(x[1])) return false;
      *v = x[0] * x[1];
      return known[0] && known[1];
    case POINT_OR: *v = 1; return t->dtype == DT_I1 && ((known[0] && x[0] != 0) || (known[1] && x[1] != 0));
    case POINT_ADD:
    case POINT_SUB:
      for (int i = 0; i < 2; i++)
        if (known[i] && isinf(x[i]) && !(known[1 - i] && isinf(x[1 - i]))) {
          *v = i && t->point == POINT_SUB ? -x[i] : x[i];
          return true;
        }
      *v = t->point == POINT_ADD ? x[0] + x[1] : x[0] - x[1];
      return known[0] && known[1] && isfinite(*v);
    case POINT_DIV: return zero[0] && !known[1];
    case POINT_NOT: *v = x[0] == 0; return known[0] && t->dtype == DT_I1;
    case POINT_CONVERT:
      *v = t->dtype == DT_I1 ? x[0] != 0 : x[0];
      return known[0] && (dtype_is_float(t->dtype) || isfinite(x[0]));
    case POINT_EXP:
    case POINT_EXP2: return known[0] && x[0] == -INFINITY;
    case POINT_EQ:
    case POINT_NE: *v = (x[0] == x[1]) == (t->point == POINT_EQ); return known[0] && known[1];
    default: return false;
  }
}

static bool changes_nothing(Bounds *b) {
  for (int i = 0; i < b->s->group->n; i++) {
    const Tensor *t = b->s->group->roots[i];
    double v, none = 0;
    if (!stream_is_sink(b->s->plan, t)) continue;
    if (t->op == GRAPH_REDUCE && t->kind != REDUCE_SUM) none = t->kind == REDUCE_MAX ? -INFINITY : INFINITY;
    if (!constant(b, stream_operand(b->s->plan, t), &v) || v != none) return false;
  }
  return true;
}

/* ---- the loop's bounds ------------------------------------------------------------------------------------------- */

static const char *plus(Arena *a, const char *text, int64_t c) {
  return c ? arena_printf(a, "%s %c %lld", text, c < 0 ? '-' : '+', (long long)(c < 0 ? -c : c)) : text;
}

static const char *both(Arena *a, const char *function, const char *x, const char *y) {
  return x ? arena_printf(a, "tl.%s(%s, %s)", function, x, y) : y;
}

/* Blocks matter only where k * place + m * row + c >= 0 for one of the program's rows. */
static void add_bound(Bounds *b, int64_t k, int64_t m, int64_t c, const char **begin, const char **end) {
  Arena *a = b->w->cx->arena;
  const char *rows = "tl.program_id(0) * M";
  /* k = -1: place <= m * row + c; k = 1: place >= -m * row - c. The row is the program's last one or its first one. */
  if (k > 0) c = -c, m = -m;
  bool last = k < 0 ? m > 0 : m < 0;
  const char *most = !m      ? NULL
                     : m > 0 ? last ? "(tl.program_id(0) + 1) * M" : rows
                     : last  ? "-(tl.program_id(0) + 1) * M"
                             : "-tl.program_id(0) * M";
  if (m && last) c -= m; /* the row before the next program's first */
  if (k < 0) c++;        /* after that place */
  const char *text = most ? plus(a, most, c) : arena_printf(a, "%lld", (long long)c);
  if (k < 0) *end = both(a, "minimum", *end, text);
  else *begin = both(a, "maximum", *begin, text);
}

void stream_bounds(Stream *s, Writer *w, const char **begin, const char **end) {
  Bounds *b = &(Bounds){.s = s, .w = w, .seen = map_create(s->g->cx->arena, true)};
  Index at[GRAPH_MAX_RANK];
  *begin = *end = NULL;
  for (int i = 0; i < s->group->n; i++) {
    Tensor *t = s->group->roots[i];
    if (stream_is_sink(s->plan, t) && stream_operand_index(s, t, at)) find_tests(b, stream_operand(s->plan, t), at);
  }
  for (int i = 0; i < 2 * b->n; i++) {
    int n = i / 2;
    b->assumed = b->tests[n];
    b->outcome = i % 2;
    if (!b->k[n] || !changes_nothing(b)) continue;
    if (b->outcome) add_bound(b, -b->k[n], -b->m[n], -b->c[n] - 1, begin, end);
    else add_bound(b, b->k[n], b->m[n], b->c[n], begin, end);
  }
}
