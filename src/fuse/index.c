/* Indices as sums of digits: factor * (var // below % size).
 *
 * A kernel counts its elements with one variable x; element [i, j] of a shape [A, B] is i = x // B, j = x % B. The
 * place of it in memory, i * B + j, must come out as x again, and that of a transposed array as x % B * A + x // B. So
 * an index is kept as a sum of digits of variables: adjacent digits join when their factors fit, and dividing by a size
 * splits them. What cannot be said so, the caller gives a name of its own. */
#include "fuse/fuse.h"

Index index_constant(Graph *g, const Size *v) { return (Index){.constant = v}; }

Index index_var(Graph *g, const IndexVar *v) {
  Index a = {.constant = size_int(g, 0)};
  if (size_is(v->extent, 1) && v->bit == 0) return a;
  a.at = NEW(g->cx->arena, IndexTerm);
  a.n = 1;
  a.at[0] = (IndexTerm){v, size_int(g, 1), size_int(g, 1), NULL};
  return a;
}

/* How many values the digit takes; NULL: not known. */
static const Size *extent(Graph *g, const IndexTerm *t) {
  if (t->size) return t->size;
  int64_t all, below;
  if (size_is_int(t->var->extent, &all) && size_is_int(t->below, &below)) return size_int(g, cdiv(all, below));
  return size_divide(g, t->var->extent, t->below);
}

/* Whether a is the digit right above b, and joins it. */
static bool join(Graph *g, const IndexTerm *a, IndexTerm *b) {
  if (a->var != b->var || !b->size) return false;
  if (a->below != size_mul(g, b->below, b->size) || a->factor != size_mul(g, b->factor, b->size)) return false;
  b->size = a->size ? size_mul(g, a->size, b->size) : NULL;
  return true;
}

static Index normal(Graph *g, Index a) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < a.n && !changed; i++) {
      IndexTerm *t = &a.at[i];
      const Size *e = extent(g, t);
      if (t->size && size_mul(g, t->below, t->size) == t->var->extent) t->size = NULL; /* the topmost digit */
      bool none = size_is(t->factor, 0) || (e && size_is(e, 1) && t->var->bit == 0) || (t->size && size_is(t->size, 1));
      if (none) {
        a.at[i] = a.at[--a.n];
        changed = true;
      }
      for (int k = 0; k < a.n && !changed; k++) {
        if (k == i) continue;
        if (!join(g, &a.at[i], &a.at[k])) continue;
        a.at[i] = a.at[--a.n];
        changed = true;
      }
    }
  }
  return a;
}

Index index_add(Graph *g, Index a, Index b) {
  Index c = {.n = a.n + b.n, .constant = size_add(g, a.constant, b.constant)};
  c.at = NEW_N(g->cx->arena, IndexTerm, c.n + 1);
  for (int i = 0; i < c.n; i++) c.at[i] = i < a.n ? a.at[i] : b.at[i - a.n];
  for (int i = 0; i < c.n; i++)
    for (int k = i + 1; k < c.n; k++) /* the same digit twice */
      if (c.at[i].var == c.at[k].var && c.at[i].below == c.at[k].below && c.at[i].size == c.at[k].size) {
        c.at[i].factor = size_add(g, c.at[i].factor, c.at[k].factor);
        c.at[k--] = c.at[--c.n];
      }
  return normal(g, c);
}

Index index_scale(Graph *g, Index a, const Size *by) {
  Index c = {.n = a.n, .constant = size_mul(g, a.constant, by)};
  c.at = NEW_N(g->cx->arena, IndexTerm, c.n + 1);
  for (int i = 0; i < c.n; i++) {
    c.at[i] = a.at[i];
    c.at[i].factor = size_mul(g, a.at[i].factor, by);
  }
  return normal(g, c);
}

static bool positive(const Size *s) { /* for all symbols of 1 and more */
  for (int i = 0; i < s->n; i++)
    if (s->terms[i].factor <= 0) return false;
  return s->n > 0;
}

/* Whether 0 <= a < by, for certain. */
static bool is_below(Graph *g, const Index *a, const Size *by) {
  const Size *most = a->constant;
  if (a->constant->n && !positive(a->constant)) return false;
  for (int i = 0; i < a->n; i++) {
    const Size *e = extent(g, &a->at[i]);
    if (!e || !positive(a->at[i].factor)) return false;
    most = size_add(g, most, size_mul(g, a->at[i].factor, size_sub(g, e, size_int(g, 1))));
  }
  return positive(size_sub(g, by, most));
}

bool index_range(Graph *g, const Index *a, int64_t *least, int64_t *most) {
  if (!size_is_int(a->constant, least)) return false;
  *most = *least;
  for (int i = 0; i < a->n; i++) {
    int64_t factor, n;
    const Size *e = extent(g, &a->at[i]);
    if (!e || !size_is_int(e, &n) || !size_is_int(a->at[i].factor, &factor)) return false;
    int64_t *end = factor < 0 ? least : most;
    if (__builtin_mul_overflow(factor, n - 1, &factor) || __builtin_add_overflow(*end, factor, end)) return false;
  }
  return true;
}

bool index_divide(Graph *g, Index a, const Size *by, Index *quotient, Index *rest) {
  Index q = {.constant = size_int(g, 0)}, r = {.constant = size_int(g, 0)};
  q.at = NEW_N(g->cx->arena, IndexTerm, a.n + 1);
  r.at = NEW_N(g->cx->arena, IndexTerm, a.n + 1);
  const Size *whole = size_divide(g, a.constant, by);
  int64_t constant, each;
  if (whole) q.constant = whole;
  else if (size_is_int(a.constant, &constant) && size_is_int(by, &each) && constant >= 0 && each > 0) {
    q.constant = size_int(g, constant / each);
    r.constant = size_int(g, constant % each);
  } else r.constant = a.constant;
  for (int i = 0; i < a.n; i++) {
    IndexTerm t = a.at[i];
    const Size *f = size_divide(g, t.factor, by), *k = f ? NULL : size_divide(g, by, t.factor);
    const Size *e = extent(g, &t), *high = k && e ? size_divide(g, e, k) : NULL;
    if (f) {
      t.factor = f;
      q.at[q.n++] = t;
    } else if (k && (high || !t.size) && e != k) { /* the digit straddles: its upper part counts whole `by`s */
      IndexTerm up = {t.var, size_int(g, 1), size_mul(g, t.below, k), t.size ? high : NULL};
      if (!high && !size_is(k, 1) && e && positive(size_sub(g, k, e))) { /* it is too small to have an upper part */
        r.at[r.n++] = t;
        continue;
      }
      q.at[q.n++] = up;
      t.size = k;
      r.at[r.n++] = t;
    } else r.at[r.n++] = t;
  }
  if (!is_below(g, &r, by)) return false;
  *quotient = normal(g, q);
  *rest = normal(g, r);
  return true;
}

Index index_linear(Graph *g, int rank, const Size *const *size, const Index *at) {
  Index a = index_constant(g, size_int(g, 0));
  const Size *stride = size_int(g, 1);
  for (int d = rank - 1; d >= 0; d--) {
    a = index_add(g, a, index_scale(g, at[d], stride));
    stride = size_mul(g, stride, size[d]);
  }
  return a;
}

static void print_size(Buf *out, const Size *s) { buf_printf(out, strpbrk(s->text, "*+-") ? "(%s)" : "%s", s->text); }

/* Large strides first. */
static bool comes_before(const IndexTerm *a, const IndexTerm *b) {
  int64_t x, y;
  bool known_x = size_is_int(a->factor, &x), known_y = size_is_int(b->factor, &y);
  if (known_x != known_y) return known_y;
  return known_x && x > y;
}

bool index_is_wide(const Size *extent) {
  int64_t n;
  return !size_is_int(extent, &n) || n >= (INT64_C(1) << 31) - 65536; /* a block may go beyond */
}

/* The most that a term's amount comes to; INT64_MAX: who knows. */
static int64_t most_of(const IndexTerm *t) {
  int64_t extent, below, size, factor, most;
  if (!size_is_int(t->var->extent, &extent) || !size_is_int(t->below, &below) || !size_is_int(t->factor, &factor))
    return INT64_MAX;
  most = (extent + below - 1) / below;
  if (t->size && size_is_int(t->size, &size) && size < most) most = size;
  return __builtin_mul_overflow(most, factor < 0 ? -factor : factor, &most) ? INT64_MAX : most;
}

/* How much a term may be without 64 bits. Several such, added up, fit 32. */
static int64_t most_narrow(const Index *a) {
  const int64_t limit = (INT64_C(1) << 31) - 65536;
  int64_t all = 0;
  if (!size_is_int(a->constant, &all)) return -1;
  if (all < 0) all = -all;
  if (all >= limit) return -1;
  for (int i = 0; i < a->n; i++)
    if (__builtin_add_overflow(all, most_of(&a->at[i]), &all)) all = INT64_MAX;
  return all < limit ? limit : limit / (a->n + 1);
}

void index_print(Buf *out, const Index *a) {
  int64_t narrow = most_narrow(a);
  for (int i = 1; i < a->n; i++)
    for (int k = i; k > 0 && comes_before(&a->at[k], &a->at[k - 1]); k--) {
      IndexTerm t = a->at[k];
      a->at[k] = a->at[k - 1];
      a->at[k - 1] = t;
    }
  for (int i = 0; i < a->n; i++) {
    const IndexTerm *t = &a->at[i];
    bool widen = t->var->narrow && most_of(t) > narrow, digit = !size_is(t->below, 1) || t->size;
    if (i) buf_puts(out, " + ");
    if (widen && digit) buf_putc(out, '(');
    buf_puts(out, t->var->text);
    if (!size_is(t->below, 1)) {
      buf_puts(out, " // ");
      print_size(out, t->below);
    }
    if (t->size) {
      buf_puts(out, " % ");
      print_size(out, t->size);
    }
    if (widen) buf_puts(out, digit ? ").to(tl.int64)" : ".to(tl.int64)");
    if (!size_is(t->factor, 1)) {
      buf_puts(out, " * ");
      print_size(out, t->factor);
    }
  }
  if (a->n && !a->constant->n) return;
  bool minus = a->constant->n && a->constant->terms[0].factor < 0;
  if (a->n) buf_puts(out, minus ? " - " : " + ");
  buf_puts(out, a->n && minus ? a->constant->text + 1 : a->constant->text); /* -n*n - n: the rest has its own signs */
}

const char *index_text(Graph *g, const Index *a) {
  Buf b = {.arena = g->cx->arena};
  index_print(&b, a);
  return b.at;
}

unsigned index_bits(const Index *a) {
  unsigned bits = 0;
  for (int i = 0; i < a->n; i++) bits |= a->at[i].var->bit;
  return bits;
}

bool index_split(Graph *g, Index a, int rank, const Size *const *size, const bool *skip, Index *out) {
  const Size *left = size_int(g, 1);
  Index q, r;
  for (int d = 0; d < rank; d++)
    if (!skip || !skip[d]) left = size_mul(g, left, size[d]);
  for (int d = rank - 1; d >= 0; d--) {
    out[d] = index_constant(g, size_int(g, 0));
    if ((skip && skip[d]) || size_is(size[d], 1)) continue;
    if (left == size[d]) { /* the outermost of them */
      out[d] = a;
      left = size_int(g, 1);
      continue;
    }
    if (!index_divide(g, a, size[d], &q, &r)) return false;
    out[d] = r;
    a = q;
    left = size_divide(g, left, size[d]);
    if (!left) return false;
  }
  return true;
}
