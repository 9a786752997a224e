/* Sizes: polynomials with integer coefficients. Each value is there once a graph, found by its text, so that two sizes
 * are equal for all values of their symbols exactly when they are one object. */
#include <stdlib.h>

#include "graph/graph.h"

static int compare_terms(const SizeTerm *a, const SizeTerm *b) { /* higher degrees first, a constant last */
  if (a->degree != b->degree) return b->degree - a->degree;
  for (int i = 0; i < a->degree; i++)
    if (a->symbols[i] != b->symbols[i]) return a->symbols[i]->index - b->symbols[i]->index;
  return 0;
}

static NORETURN void too_large(Graph *g) { diag_fail(g->cx, g->place, "a size does not fit in 63 bits"); }

/* Most sizes are numbers: they are found by value, and no text is made. */
const Size *size_int(Graph *g, int64_t v) {
  Size *s = map_get(g->numbers, (const void *)(intptr_t)v);
  if (s) return s;
  s = NEW(g->cx->arena, Size);
  s->n = v != 0;
  s->terms = arena_copy(g->cx->arena, &(SizeTerm){.factor = v}, sizeof *s->terms);
  s->text = arena_printf(g->cx->arena, "%lld", (long long)v);
  map_put(g->numbers, (const void *)(intptr_t)v, s);
  return s;
}

/* terms in any order; like ones are added up */
static const Size *make(Graph *g, int n, SizeTerm *terms) {
  for (int i = 1; i < n; i++)
    for (int k = i; k > 0 && compare_terms(&terms[k - 1], &terms[k]) > 0; k--) {
      SizeTerm t = terms[k];
      terms[k] = terms[k - 1];
      terms[k - 1] = t;
    }
  int m = 0;
  for (int i = 0; i < n; i++) {
    if (m && compare_terms(&terms[m - 1], &terms[i]) == 0) {
      if (__builtin_add_overflow(terms[m - 1].factor, terms[i].factor, &terms[m - 1].factor)) too_large(g);
    } else terms[m++] = terms[i];
    if (!terms[m - 1].factor) m--;
  }
  if (!m) return size_int(g, 0);
  if (!terms[0].degree) return size_int(g, terms[0].factor);
  Buf text = {.arena = g->cx->arena};
  for (int i = 0; i < m; i++) {
    int64_t f = terms[i].factor;
    if (i) buf_puts(&text, f < 0 ? " - " : " + ");
    else if (f < 0) buf_putc(&text, '-');
    uint64_t size = f < 0 ? -(uint64_t)f : (uint64_t)f;
    if (size != 1 || !terms[i].degree)
      buf_printf(&text, "%llu%s", (unsigned long long)size, terms[i].degree ? "*" : "");
    for (int k = 0; k < terms[i].degree; k++) buf_printf(&text, "%s%s", k ? "*" : "", terms[i].symbols[k]->name);
  }
  Size *s = map_get(g->sizes, text.at);
  if (s) return s;
  s = NEW(g->cx->arena, Size);
  s->n = m;
  s->terms = arena_copy(g->cx->arena, terms, sizeof *terms * (size_t)m);
  s->text = arena_strdup(g->cx->arena, text.at);
  map_put(g->sizes, s->text, s);
  return s;
}

const Size *size_symbol(Graph *g, const char *name) {
  Symbol *s = map_get(g->symbol_map, name);
  if (!s) {
    s = NEW(g->cx->arena, Symbol);
    *s = (Symbol){.name = arena_strdup(g->cx->arena, name), .index = g->symbols.n};
    vec_push(g->cx->arena, &g->symbols, s);
    map_put(g->symbol_map, s->name, s);
  }
  return make(g, 1, &(SizeTerm){.factor = 1, .degree = 1, .symbols = {s}});
}

static const Size *sum(Graph *g, const Size *a, const Size *b, int sign) {
  int64_t x, y;
  if (size_is_int(a, &x) && size_is_int(b, &y)) {
    bool fits = sign > 0 ? !__builtin_add_overflow(x, y, &x) : !__builtin_sub_overflow(x, y, &x);
    if (!fits) too_large(g);
    return size_int(g, x);
  }
  SizeTerm *t = NEW_N(g->cx->arena, SizeTerm, a->n + b->n + 1);
  for (int i = 0; i < a->n; i++) t[i] = a->terms[i];
  for (int i = 0; i < b->n; i++) {
    t[a->n + i] = b->terms[i];
    t[a->n + i].factor *= sign;
  }
  return make(g, a->n + b->n, t);
}

const Size *size_add(Graph *g, const Size *a, const Size *b) { return sum(g, a, b, 1); }
const Size *size_sub(Graph *g, const Size *a, const Size *b) { return sum(g, a, b, -1); }

static SizeTerm term_product(Graph *g, const SizeTerm *a, const SizeTerm *b) {
  SizeTerm t = {.degree = a->degree + b->degree};
  if (t.degree > SIZE_MAX_DEGREE) diag_fail(g->cx, g->place, "a size is a product of too many symbols");
  if (__builtin_mul_overflow(a->factor, b->factor, &t.factor)) too_large(g);
  for (int i = 0, k = 0, n = 0; n < t.degree; n++)
    t.symbols[n] = k == b->degree || (i < a->degree && a->symbols[i]->index <= b->symbols[k]->index) ? a->symbols[i++]
                                                                                                     : b->symbols[k++];
  return t;
}

const Size *size_mul(Graph *g, const Size *a, const Size *b) {
  int64_t x, y;
  if (size_is_int(a, &x) && size_is_int(b, &y)) {
    if (__builtin_mul_overflow(x, y, &x)) too_large(g);
    return size_int(g, x);
  }
  SizeTerm *t = NEW_N(g->cx->arena, SizeTerm, a->n * b->n + 1);
  for (int i = 0; i < a->n; i++)
    for (int k = 0; k < b->n; k++) t[i * b->n + k] = term_product(g, &a->terms[i], &b->terms[k]);
  return make(g, a->n * b->n, t);
}

static bool term_divide(const SizeTerm *a, const SizeTerm *b, SizeTerm *out) {
  *out = (SizeTerm){0};
  if (a->factor % b->factor) return false;
  out->factor = a->factor / b->factor;
  int k = 0;
  for (int i = 0; i < a->degree; i++)
    if (k < b->degree && a->symbols[i] == b->symbols[k]) k++;
    else out->symbols[out->degree++] = a->symbols[i];
  return k == b->degree;
}

const Size *size_divide(Graph *g, const Size *a, const Size *b) {
  if (!b->n) return NULL;
  int64_t x, y;
  if (size_is_int(a, &x) && size_is_int(b, &y) && y != -1) return x % y ? NULL : size_int(g, x / y);
  const Size *rest = a, *quotient = size_int(g, 0);
  for (int i = 0; rest->n; i++) { /* by the leading terms */
    SizeTerm t;
    if (i > 16 || !term_divide(&rest->terms[0], &b->terms[0], &t)) return NULL;
    const Size *part = make(g, 1, &t);
    quotient = size_add(g, quotient, part);
    rest = size_sub(g, rest, size_mul(g, part, b));
  }
  return quotient;
}

bool size_is_int(const Size *s, int64_t *out) {
  if (s->n > 1 || (s->n && s->terms[0].degree)) return false;
  if (out) *out = s->n ? s->terms[0].factor : 0;
  return true;
}

bool size_is(const Size *s, int64_t v) {
  int64_t is;
  return size_is_int(s, &is) && is == v;
}

const Size *size_product(Graph *g, int n, const Size *const *sizes) {
  const Size *p = size_int(g, 1);
  for (int i = 0; i < n; i++) p = size_mul(g, p, sizes[i]);
  return p;
}

bool size_value(const Size *s, const int64_t *symbols, int64_t *out) {
  int64_t total = 0;
  for (int i = 0; i < s->n; i++) {
    int64_t v = s->terms[i].factor;
    for (int k = 0; k < s->terms[i].degree; k++)
      if (__builtin_mul_overflow(v, symbols[s->terms[i].symbols[k]->index], &v)) return false;
    if (__builtin_add_overflow(total, v, &total)) return false;
  }
  *out = total;
  return true;
}
