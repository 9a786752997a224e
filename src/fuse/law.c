/* Laws by which a reduction is computed in one loop with another one that it depends on.
 *
 * A softmax sums exp(x - m), where m is the maximum of x. Before the loop over x has ended, m is not known. What is
 * summed with another number c in place of m is not lost: it times exp(c - m) is what it would have been. So the loop
 * keeps a reference c beside each sum, which may be any number, and when c changes the sum is corrected. The laws say
 * which expressions have such a correction. They are found by going down from the reduction's operand to what changes,
 * with the form of each node, where c stands for values of the row that are not known yet, and h for all others:
 *
 *     h + c, h - c, s * (h - c)       a shift
 *     exp(shift)                      times exp(change of the shift)
 *     h * (...)                       as (...)
 *     (...) * c, (...) / c            as (...): c comes out of the sum, and is applied when it is known
 *     shift^1, shift^2                a polynomial: sum (h - c)^2 changes by d * (2 * sum (h - c) + d * n)
 *     where(h, shift, -inf)           a shift
 *     shift - c', with c' a value that is corrected itself   a shift; c' is taken for 0 until it is known
 *     where(h, (...), 0)              as (...)
 *
 * A sum of products of these, and a maximum of a shift, have a law; anything else has none, and is computed in a loop
 * after. Any reference is right in exact arithmetic. For floats it must be near: exp(h - c) is summed only where c is
 * the maximum of h so far, that no term is above 1; the reference for a mean is the mean so far. */
#include <math.h>

#include "fuse/fuse.h"

typedef enum { FORM_FIXED, FORM_ROW, FORM_SHIFT, FORM_PRODUCT, FORM_NONE } FormKind;

typedef struct Form {
  FormKind kind;
  Law law; /* PRODUCT; of a SHIFT: shift and shift_terms; NONE: why */
  /* SHIFT: scale * h, where it is one tensor, else NULL */
  const Tensor *h;
  double scale;
} Form;

static Form none(LawSearch *k, const char *why) {
  return (Form){.kind = FORM_NONE, .law.why = why ? why : arena_strdup(k->g->cx->arena, "")};
}

static bool is_loaded(const LawSearch *k, const Tensor *t) {
  for (int i = 0; i < k->group->n; i++)
    if (k->group->roots[i] == t) return false;
  if (k->root && k->root[t->id]) return true;
  if (!k->plan) return t->op == GRAPH_INPUT; /* before there is one */
  return t->op == GRAPH_INPUT || (k->plan->stored[t->id] && !k->plan->alias[t->id]);
}

/* A value that a loop before has left, or this loop will. */
static bool is_row(const LawSearch *k, const Tensor *t) {
  bool own = false;
  for (int i = 0; i < k->group->n; i++) own |= k->group->roots[i] == t;
  return own && t->op == GRAPH_REDUCE;
}

/* The reductions of this loop that t is computed from. */
static void find_live(LawSearch *k, Tensor *t, Map *seen, const Tensor **found, int *n) {
  stack_guard();
  if (map_has(seen, t)) return;
  map_put(seen, t, k);
  if (is_row(k, t)) {
    for (int i = 0; i < k->live_count; i++)
      if (k->live[i] == t) found[(*n)++] = t;
    return;
  }
  if (is_loaded(k, t)) return;
  for (int i = 0; i < t->in_count; i++) find_live(k, t->in[i], seen, found, n);
}

static int live_in(LawSearch *k, Tensor *t, const Tensor **found) {
  int n = 0;
  find_live(k, t, map_create(k->g->cx->arena, false), found, &n);
  return n;
}

/* Whether t at an index is another value for each place of the row. */
static bool varies(const LawSearch *k, const Tensor *t, const Index *at) {
  stack_guard();
  Index in[GRAPH_MAX_RANK];
  if (t->op == GRAPH_FULL || t->op == GRAPH_EXTENT || is_row(k, t)) return false;
  bool by_index = false;
  for (int d = 0; d < t->rank; d++) by_index |= (index_bits(&at[d]) & k->bit) != 0;
  if (!by_index || is_loaded(k, t)) return by_index;
  if (graph_is_view(t) && fuse_view_index(k->g, t, at, in)) return varies(k, t->in[0], in);
  if (t->op != GRAPH_POINT) return true;
  for (int i = 0; i < t->in_count; i++)
    if (varies(k, t->in[i], at)) return true;
  return false;
}

static const Tensor *through_views(const Tensor *t) {
  while ((graph_is_view(t) && t->in_count == 1 && t->op != GRAPH_PAD) ||
         (t->op == GRAPH_POINT && t->point == POINT_CONVERT && dtype_is_float(t->in[0]->dtype)))
    t = t->in[0];
  return t;
}

static const Index *keep_index(const LawSearch *k, const Tensor *t, const Index *at) {
  return arena_copy(k->g->cx->arena, at, sizeof *at * (size_t)(t->rank ? t->rank : 1));
}

static bool same_place(const LawSearch *k, const Tensor *a, const Index *at, const Tensor *b, const Index *bt) {
  if (a != b) return false;
  for (int d = 0; d < a->rank; d++)
    if (strcmp(index_text(k->g, &at[d]), index_text(k->g, &bt[d]))) return false;
  return true;
}

/* ---- the laws ---------------------------------------------------------------------------------------------------- */

static void add_terms(LawSearch *k, LawTerms *to, const LawTerms *more, double factor) {
  for (int i = 0; i < more->n; i++) {
    LawTerm term = more->at[i];
    term.factor *= factor;
    vec_push(k->g->cx->arena, to, term);
  }
}

/* What t is shifted by now is known by its terms; the shift itself is t. */
static Form shift_of(LawSearch *k, Tensor *t, const Index *at, Form f) {
  f.kind = FORM_SHIFT;
  f.law.shift = t;
  f.law.shift_at = keep_index(k, t, at);
  return f;
}

static Form scaled_shift(LawSearch *k, Tensor *t, const Index *at, const Form *f, double by) {
  Form s = {.h = f->h, .scale = f->scale * by, .law.factors = f->law.factors};
  add_terms(k, &s.law.shift_terms, &f->law.shift_terms, by);
  return shift_of(k, t, at, s);
}

/* One operand of a sum: what it adds to h and to the terms. */
static void add_part(LawSearch *k, Form *s, const Form *part, const Tensor *t, double sign, bool only) {
  add_terms(k, &s->law.shift_terms, &part->law.shift_terms, sign);
  if (part->kind == FORM_ROW) return;
  const Tensor *h = part->kind == FORM_FIXED ? t : part->h;
  s->h = only ? h : NULL;
  s->scale = sign * (part->kind == FORM_FIXED ? 1 : part->scale);
}

static LawFactor factor_at(LawSearch *k, Tensor *t, const Index *at, int keep, LawHow how) {
  return (LawFactor){t, keep_index(k, t, at), keep, how};
}

static void add_factors(LawSearch *k, LawFactors *to, const LawFactors *more) {
  for (int i = 0; i < more->n; i++) vec_push(k->g->cx->arena, to, more->at[i]);
}

static Form sum_of(LawSearch *k, Tensor *t, const Index *at, const Form *a, const Form *b, double sign) {
  if (a->kind == FORM_PRODUCT || b->kind == FORM_PRODUCT)
    return none(k, arena_printf(k->g->cx->arena, "%s of what is corrected by a factor", graph_points[t->point].name));
  Form s = {0};
  bool one = a->kind == FORM_ROW || b->kind == FORM_ROW;
  add_part(k, &s, a, t->in[0], 1, one);
  add_part(k, &s, b, t->in[1], sign, one);
  add_factors(k, &s.law.factors, &a->law.factors);
  add_factors(k, &s.law.factors, &b->law.factors);
  for (int i = 0; i < 2; i++) {
    const Form *row = i ? b : a;
    if (row->kind != FORM_ROW || !row->law.shift_terms.at[0].late) continue;
    if (i == 0 && sign < 0) return none(k, "what is not known yet, less what changes");
    vec_push(k->g->cx->arena, &s.law.factors, factor_at(k, t, at, 1 - i, LAW_LATE));
  }
  return shift_of(k, t, at, s);
}

static Form product_form(Form f) { /* as a product of its factors */
  if (f.kind == FORM_SHIFT) f.law.shifts = 1;
  f.kind = FORM_PRODUCT;
  return f;
}

/* in[keep] times or over a value of the row. */
static Form taken_out(LawSearch *k, Tensor *t, const Index *at, Form f, int keep, LawHow how) {
  Form p = product_form(f);
  p.law.factors = (LawFactors){0};
  add_factors(k, &p.law.factors, &f.law.factors);
  vec_push(k->g->cx->arena, &p.law.factors, factor_at(k, t, at, keep, how));
  return p;
}

static Form product_of(LawSearch *k, Tensor *t, const Index *at, Form a, Form b) {
  double c;
  if (a.kind == FORM_ROW) return taken_out(k, t, at, b, 1, LAW_TIMES);
  if (b.kind == FORM_ROW) return taken_out(k, t, at, a, 0, LAW_TIMES);
  if (a.kind == FORM_SHIFT && graph_is_number(t->in[1], &c)) return scaled_shift(k, t, at, &a, c);
  if (b.kind == FORM_SHIFT && graph_is_number(t->in[0], &c)) return scaled_shift(k, t, at, &b, c);
  Tensor *side[2] = {t->in[0], t->in[1]};
  Form f[2] = {product_form(a), product_form(b)}, p = {.kind = FORM_PRODUCT};
  for (int i = 0; i < 2; i++) {
    const Law *l = &f[i].law;
    if (l->exponent.n && p.law.exponent.n && l->base2 != p.law.base2)
      return none(k, "powers of two bases in one product");
    add_terms(k, &p.law.exponent, &l->exponent, 1);
    p.law.base2 |= l->base2;
    add_factors(k, &p.law.factors, &l->factors);
  }
  const Law *with = f[0].law.shifts ? &f[0].law : &f[1].law, *other = f[0].law.shifts ? &f[1].law : &f[0].law;
  p.law.shifts = with->shifts + other->shifts;
  if (!p.law.shifts) return p;
  if (with->only || other->only) return none(k, "a product with a condition");
  if (p.law.shifts > 2) return none(k, "a shift to the third power");
  p.law.shift = with->shift;
  p.law.shift_at = with->shift_at;
  p.law.shift_terms = with->shift_terms;
  if (other->shifts) {
    if (with->weight || other->weight || !same_place(k, with->shift, with->shift_at, other->shift, other->shift_at))
      return none(k, "a product of two shifts that differ");
  } else {
    if (with->weight) return none(k, "a shift with two weights");
    p.law.weight = f[0].law.shifts ? side[1] : side[0];
    p.law.weight_at = keep_index(k, p.law.weight, at);
  }
  return p;
}

static Form quotient_of(LawSearch *k, Tensor *t, const Index *at, Form a, const Form *b) {
  double c;
  if (b->kind == FORM_ROW) return taken_out(k, t, at, a, 0, LAW_OVER);
  if (b->kind != FORM_FIXED) return none(k, "a division by what changes along the row");
  if (a.kind == FORM_ROW) return none(k, "a value of the row over a tensor");
  if (a.kind == FORM_SHIFT && graph_is_number(t->in[1], &c)) return scaled_shift(k, t, at, &a, 1 / c);
  if (a.kind == FORM_SHIFT || a.law.shifts) return none(k, "a shift over a tensor");
  return a;
}

/* Whether exp(shift) stays at 1 and below: the shift takes the maximum of h away from h. */
static bool is_bounded(LawSearch *k, const Form *s) {
  const Tensor *found[LAW_MOST_LIVE];
  bool bounds = false;
  for (int i = 0; i < s->law.shift_terms.n; i++) {
    const LawTerm *term = &s->law.shift_terms.at[i];
    if (term->late) continue;
    if (live_in(k, term->row, found) != 1 || !s->h) return false;
    bool most = found[0]->kind == REDUCE_MAX, least = found[0]->kind == REDUCE_MIN;
    if (through_views(s->h) != through_views(found[0]->in[0])) return false;
    if (!(most && s->scale > 0 && term->factor < 0) && !(least && s->scale < 0 && term->factor > 0)) return false;
    bounds = true;
  }
  return bounds;
}

static Form power_of(LawSearch *k, Tensor *t, const Form *s) {
  if (s->kind != FORM_SHIFT) return none(k, "exp of more than a shift");
  if (!is_bounded(k, s)) return none(k, "exp of what no maximum bounds");
  Form p = {.kind = FORM_PRODUCT, .law.base2 = t->point == POINT_EXP2, .law.factors = s->law.factors};
  add_terms(k, &p.law.exponent, &s->law.shift_terms, 1);
  return p;
}

static Form choice_of(LawSearch *k, Tensor *t, const Index *at, const Form *in) {
  double c;
  if (in[0].kind != FORM_FIXED) return none(k, "a condition that changes");
  for (int i = 1; i < 3; i++) {
    const Form *f = &in[i];
    if (in[3 - i].kind != FORM_FIXED || !graph_is_number(t->in[3 - i], &c)) continue;
    if (f->kind == FORM_SHIFT && isinf(c)) return scaled_shift(k, t, at, f, 1);
    if (f->kind == FORM_PRODUCT && c == 0 && !f->law.shifts) return *f;
    if (c != 0 || f->law.only || f->kind == FORM_ROW) continue;
    Form p = product_form(*f);
    p.law.only = t->in[0];
    p.law.only_at = keep_index(k, t->in[0], at);
    p.law.only_not = i == 2;
    return p;
  }
  return none(k, "a choice between what changes and what does not");
}

static Form form(LawSearch *k, Tensor *t, const Index *at);

static Form point_form(LawSearch *k, Tensor *t, const Index *at) {
  Form in[3];
  double c;
  for (int i = 0; i < t->in_count; i++) {
    in[i] = form(k, t->in[i], at);
    if (in[i].kind == FORM_NONE) return in[i];
  }
  switch (t->point) {
    case POINT_ADD: return sum_of(k, t, at, &in[0], &in[1], 1);
    case POINT_SUB: return sum_of(k, t, at, &in[0], &in[1], -1);
    case POINT_MUL: return product_of(k, t, at, in[0], in[1]);
    case POINT_DIV: return quotient_of(k, t, at, in[0], &in[1]);
    case POINT_NEG: return in[0].kind == FORM_SHIFT ? scaled_shift(k, t, at, &in[0], -1) : in[0];
    case POINT_EXP:
    case POINT_EXP2: return power_of(k, t, &in[0]);
    case POINT_WHERE: return choice_of(k, t, at, in);
    case POINT_POW:
      if (in[0].kind != FORM_SHIFT || !graph_is_number(t->in[1], &c) || c != 2) break;
      in[0].law.shifts = 2;
      in[0].kind = FORM_PRODUCT;
      return in[0];
    case POINT_CONVERT:
      if (!dtype_is_float(t->dtype) || !dtype_is_float(t->in[0]->dtype)) break;
      if (in[0].kind == FORM_SHIFT) return scaled_shift(k, t, at, &in[0], 1);
      /* what has no factor yet may not fit into f16 */
      if (t->dtype == DT_F16 && in[0].law.factors.n && !in[0].law.exponent.n) break;
      return in[0];
    default: break;
  }
  return none(k, arena_printf(k->g->cx->arena, "%s of what changes", graph_points[t->point].name));
}

static Form form(LawSearch *k, Tensor *t, const Index *at) {
  stack_guard();
  const Tensor *found[LAW_MOST_LIVE];
  Index in[GRAPH_MAX_RANK];
  int live = live_in(k, t, found);
  if (!live) return (Form){.kind = FORM_FIXED};
  if (!varies(k, t, at)) {
    Form row = {.kind = FORM_ROW};
    LawTerm term = {1, t, keep_index(k, t, at), false};
    for (int i = 0; i < k->live_count; i++)
      for (int j = 0; j < live; j++) term.late |= k->live[i] == found[j] && k->corrected[i];
    vec_push(k->g->cx->arena, &row.law.shift_terms, term);
    return row;
  }
  if (graph_is_view(t) && fuse_view_index(k->g, t, at, in)) return form(k, t->in[0], in);
  if (t->op == GRAPH_POINT) return point_form(k, t, at);
  return none(k, arena_printf(k->g->cx->arena, "%s of what changes", graph_ops[t->op].name));
}

/* ---- what is asked ----------------------------------------------------------------------------------------------- */

static bool can_be_reference(const Tensor *t) {
  return dtype_is_float(t->dtype) && (t->kind == REDUCE_SUM || t->kind == REDUCE_MAX || t->kind == REDUCE_MIN);
}

static bool has_references(LawSearch *k, const LawTerms *terms) {
  const Tensor *found[LAW_MOST_LIVE];
  for (int i = 0; i < terms->n; i++)
    for (int n = live_in(k, terms->at[i].row, found); n > 0; n--)
      if (!terms->at[i].late && !can_be_reference(found[n - 1])) return false;
  return true;
}

Law *law_find(LawSearch *k, Tensor *operand, Reduction kind, const Index *at) {
  Form f = form(k, operand, at);
  Law *law = NEW(k->g->cx->arena, Law);
  *law = f.law;
  if (f.kind == FORM_NONE) return law;
  if (f.kind == FORM_FIXED) law->why = "it does not depend on this loop";
  else if (f.kind == FORM_ROW) law->why = "it is of one value";
  else if (!dtype_is_float(operand->dtype)) law->why = "it is of integers";
  else if (!has_references(k, &law->shift_terms) || !has_references(k, &law->exponent))
    law->why = "it depends on a reduction that is no sum, maximum or minimum of floats";
  else if (kind == REDUCE_SUM) law->shifts += f.kind == FORM_SHIFT;
  else if ((kind != REDUCE_MAX && kind != REDUCE_MIN) || f.kind != FORM_SHIFT)
    law->why = arena_printf(k->g->cx->arena, "a %s has no law for it", graph_reductions[kind]);
  else law->shifts = 1;
  return law;
}

bool law_depends(LawSearch *k, Tensor *t, const Tensor *on) {
  const Tensor *found[LAW_MOST_LIVE];
  for (int n = live_in(k, t, found); n > 0; n--)
    if (found[n - 1] == on) return true;
  return false;
}

/* What --explain says of it. */
const char *law_text(Graph *g, const Law *law, Reduction kind) {
  Buf b = {.arena = g->cx->arena};
  if (law->exponent.n) buf_puts(&b, "a change of the maximum multiplies it by exp(old - new)");
  if (law->shifts && kind == REDUCE_SUM)
    buf_printf(&b, "%sa change d of the shift adds %s", b.n ? ", and " : "",
               law->shifts == 2 ? "d * (2 * sum of shifted + d * count)" : "d * count");
  if (law->shifts && kind != REDUCE_SUM) buf_puts(&b, "a change of the shift is added to it");
  bool factor = false;
  for (int i = 0; i < law->factors.n; i++) factor |= law->factors.at[i].how != LAW_LATE;
  if (factor) buf_printf(&b, "%sa factor of the row is applied when it is known", b.n ? ", and " : "");
  return b.at ? b.at : "";
}
