/* The lines of an online reduction (law.c): references, and what is done when they change.
 *
 *     top = tl.full([X, 1], -inf)
 *     base = tl.full([X, 1], LOWEST)                            online_start
 *     for ...:
 *         top = maximum(top, max(x))
 *         now = maximum(top, LOWEST)                            online_refer: what the maximum is taken for
 *         rescale = exp(base - now)                             online_move
 *         total = total * rescale + exp(x - now)
 *         base = now                                            online_carry
 *     sum = sum(total * exp(base - top))                        online_end, online_move
 *
 * The reference of a maximum is the maximum so far, but finite: it begins at the least finite number, so that a row of
 * -inf so far subtracts no -inf from -inf, and sums nothing. At the end sums move to what the row's values really are:
 * a row that is -inf everywhere becomes NaN there, as it does in three loops.
 *
 * The reference of a sum is what the row's first block would make of it, and stays so in the loop. For a variance that
 * is the mean m of the first R of n elements. What is lost by subtracting m and not the mean of all is bounded: of the
 * sum q of squares around the mean of all, the first block's share alone is R * (m - mean)^2 or more, so that the sum
 * around m, q + n * (m - mean)^2, is at most q * (1 + n / R). */
#include <math.h>

#include "fuse/fuse.h"

static bool is_known(const Online *o, const LawTerm *term, int *at) {
  for (int i = 0; i < o->rows.n; i++) {
    bool same = o->rows.at[i].row == term->row;
    for (int d = 0; same && d < term->row->rank; d++)
      same = !strcmp(index_text(o->w->g, &o->rows.at[i].at[d]), index_text(o->w->g, &term->at[d]));
    *at = i;
    if (same) return true;
  }
  return false;
}

/* The live reductions from which t is computed; running: one of them changes in the loop. */
static void add_live(Online *o, const LawSearch *k, Tensor *t, Map *seen, bool *running) {
  stack_guard();
  if (map_has(seen, t)) return;
  map_put(seen, t, o);
  for (int i = 0; i < k->live_count; i++)
    if (k->live[i] == t) {
      *running |= t->kind != REDUCE_SUM;
      bool have = false;
      for (int j = 0; j < o->live.n; j++) have |= o->live.at[j] == t;
      if (!have) vec_push(o->w->cx->arena, &o->live, t);
      return;
    }
  for (int i = 0; i < t->in_count; i++) add_live(o, k, t->in[i], seen, running);
}

void online_add(Online *o, const LawSearch *k, const Law *law) {
  const LawTerms *lists[] = {&law->exponent, &law->shift_terms};
  for (int l = 0; l < 2; l++)
    for (int i = 0; i < lists[l]->n; i++) {
      const LawTerm *term = &lists[l]->at[i];
      int at;
      if (is_known(o, term, &at)) continue;
      OnlineRow row = {.row = term->row, .at = term->at, .late = term->late};
      bool running = false;
      if (!term->late) add_live(o, k, term->row, map_create(o->w->cx->arena, false), &running);
      row.fixed = !term->late && !running;
      vec_push(o->w->cx->arena, &o->rows, row);
    }
}

bool online_needs(const Online *o, const Tensor *reduction) {
  for (int i = 0; i < o->live.n; i++)
    if (o->live.at[i] == reduction) return true;
  return false;
}

static const char *limit(const Tensor *t) { /* the finite number at which a reference begins */
  bool least = t->kind == REDUCE_MIN;
  if (t->dtype == DT_F64) return least ? "1.7976931348623157e308" : "-1.7976931348623157e308";
  return least ? "3.4028234663852886e38" : "-3.4028234663852886e38";
}

void online_start(Online *o) {
  Writer *w = o->w;
  if (!o->rows.n) return;
  for (int i = 0; i < o->live.n; i++) {
    const Tensor *t = o->live.at[i];
    if (t->kind == REDUCE_SUM) continue; /* the caller has held it */
    const char *name = writer_name(w, arena_printf(w->cx->arena, "%s_before", t->name ? t->name : "base"));
    writer_line(w, "%s = tl.full(%s, %s, %s)", name, o->shape, limit(t), triton_compute_type(t->dtype));
    writer_hold(w, t, (FuseValue){.text = name, .bits = o->bits});
  }
  Map *outside = writer_enter(w);
  w->indent--;
  for (int i = 0; i < o->rows.n; i++) {
    OnlineRow *row = &o->rows.at[i];
    if (!row->late) row->old = row->now = writer_value(w, row->row, row->at).text;
  }
  w->indent++;
  writer_leave(w, outside);
  for (int i = 0; i < o->rows.n; i++)
    if (!o->rows.at[i].fixed) o->rows.at[i].now = NULL;
  for (int i = 0; i < o->live.n; i++)
    if (o->live.at[i]->kind != REDUCE_SUM) map_put(w->held, o->live.at[i], NULL);
}

void online_refer(Online *o, Tensor *t, const char *accumulator) {
  Writer *w = o->w;
  const char *name = writer_name(w, arena_printf(w->cx->arena, "%s_now", t->name ? t->name : "base"));
  writer_line(w, "%s = tl.%s(%s, %s, propagate_nan=tl.PropagateNan.ALL)", name,
              t->kind == REDUCE_MAX ? "maximum" : "minimum", accumulator, limit(t));
  writer_hold(w, t, (FuseValue){.text = name, .bits = o->bits});
}

/* The sum of the terms' changes; NULL: nothing changes. */
static const char *change(Online *o, const LawTerms *terms) {
  Writer *w = o->w;
  Buf b = {.arena = w->cx->arena};
  for (int i = 0; i < terms->n; i++) {
    int at;
    double f = terms->at[i].factor;
    if (!is_known(o, &terms->at[i], &at)) diag_fail(w->cx, terms->at[i].row->span, "internal error: a law's row");
    OnlineRow *row = &o->rows.at[at];
    if ((row->late || row->fixed) && !o->ended) continue;
    if (!row->now) row->now = writer_value(w, row->row, row->at).text;
    const char *less = row->late ? row->now : f < 0 ? row->now : row->old, *more = f < 0 ? row->old : row->now;
    buf_puts(&b, row->late && f < 0 ? b.n ? " - " : "-" : b.n ? " + " : "");
    if (fabs(f) != 1) {
      buf_double(&b, fabs(f));
      buf_puts(&b, " * ");
    }
    buf_printf(&b, row->late ? "%s" : fabs(f) == 1 ? "%s - %s" : "(%s - %s)", row->late ? less : more, less);
  }
  return b.at;
}

static const char *named(Writer *w, const char *name, const char *text) { /* each text once in its scope */
  const char *key = arena_printf(w->cx->arena, "online %s", text);
  const char *known = map_get(w->memo, key);
  if (known) return known;
  known = writer_name(w, name);
  writer_line(w, "%s = %s", known, text);
  map_put(w->memo, key, (void *)known);
  return known;
}

OnlineMove online_move(Online *o, const Law *law) {
  Writer *w = o->w;
  OnlineMove m = {0};
  const char *exponent = change(o, &law->exponent), *shift = law->shifts ? change(o, &law->shift_terms) : NULL;
  if (exponent)
    m.factor = named(w, "rescale", arena_printf(w->cx->arena, law->base2 ? "tl.exp2(%s)" : "tl.exp(%s)", exponent));
  if (shift) m.shift = named(w, "moved", shift);
  return m;
}

void online_carry(Online *o) {
  for (int i = 0; i < o->rows.n; i++) {
    OnlineRow *row = &o->rows.at[i];
    if (row->late || row->fixed) continue;
    writer_line(o->w, "%s = %s", row->old, row->now);
    row->now = NULL;
  }
  for (int i = 0; i < o->live.n; i++) map_put(o->w->held, o->live.at[i], NULL);
}

void online_end(Online *o) {
  o->ended = true;
  for (int i = 0; i < o->rows.n; i++) o->rows.at[i].now = NULL;
}

void online_strip(Writer *w, const Law *law) {
  for (int i = 0; i < law->factors.n; i++) {
    const LawFactor *f = &law->factors.at[i];
    writer_know(w, f->node, f->at, writer_value(w, f->node->in[f->keep], f->at));
  }
}

FuseValue online_factors(Writer *w, const Law *law, FuseValue v, unsigned bits) {
  for (int i = 0; i < law->factors.n; i++) {
    const LawFactor *f = &law->factors.at[i];
    if (f->how == LAW_LATE) continue;
    FuseValue by = writer_value(w, f->node->in[1 - f->keep], f->at);
    const char *name = writer_name(w, f->node->name ? f->node->name : "scaled");
    writer_line(w, "%s = %s %s %s", name, v.text, f->how == LAW_OVER ? "/" : "*", by.text);
    v = (FuseValue){.text = name, .bits = bits};
  }
  return v;
}
