/* gen_control: statements, loops, branches, helper functions, and the kernel as a whole. See gen.h. */
#include "gen.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool make_loop(Gen *g);
static bool make_branch(Gen *g);
static bool make_helper(Gen *g);
static bool make_map(Gen *g);
static bool make_ternary(Gen *g);

static bool make_statement(Gen *g) {
  int d = g->depth;
  switch (draw(g, 45)) {
    case 0:
    case 1: return make_constant(g);
    case 2:
    case 3:
    case 4:
    case 5:
    case 6: return make_load(g);
    case 7:
    case 8:
    case 9:
    case 10: return make_shape_op(g);
    case 11:
    case 12:
    case 13: return make_reduction(g);
    case 14:
    case 15: return make_scan_or_sort(g);
    case 16: return make_dot(g);
    case 17: return make_random_numbers(g);
    case 18: return make_atomic(g);
    case 19: return d < 2 && make_loop(g);
    case 20: return d < 3 && make_branch(g);
    case 21: return d < 2 && make_helper(g);
    case 22: return chance(g, 50) ? make_map(g) : make_ternary(g);
    case 23:
    case 24:
    case 25: return make_in_place(g);
    case 26:
    case 27: return make_product_loop(g);
    default: return make_elementwise(g);
  }
}

void make_statements(Gen *g, int n) {
  for (int tries = 0; n > 0 && tries < 400; tries++) n -= make_statement(g);
}

/* Stores values from `first` on: those that nobody uses, and some of the others. */
static void store_some(Gen *g, int first, int most, bool all_unused) {
  for (int i = g->count - 1; i >= first && most > 0; i--)
    if (g->pool[i].terminal || (g->pool[i].uses == 0 && all_unused) || chance(g, 20))
      for (int tries = 0; tries < 5; tries++)
        if (store_value(g, &g->pool[i])) {
          most--;
          break;
        }
}

/* ---- small things ------------------------------------------------------------------------------------------------ */

/* A function with control flow on each element. */
static bool make_map(Gen *g) {
  Val *x = pick(g, WANT_INT | WANT_BLOCK), *y = NULL, r;
  if (!x || !is_signed(x->t) || width(x->t) < 32) return false;
  for (int i = g->count - 1; i >= g->base && !y; i--)
    if (g->pool[i].t == x->t && same_shape(&g->pool[i], x) && chance(g, 60)) y = &g->pool[i];
  if (!y) y = x;
  r = *x;
  set_int_range(&r, int_min(r.t), int_max(r.t));
  emit(g, r, "tl.map_elementwise(map_fn, %s, %s)", x->name, y->name);
  return true;
}

static bool make_ternary(Gen *g) {
  char condition[100];
  Val *x = pick(g, WANT_INT | WANT_FLOAT | WANT_SCALAR), *y = NULL;
  if (!x) return false;
  for (int i = g->count - 1; i >= g->base && !y; i--)
    if (g->pool[i].t == x->t && !g->pool[i].rank && &g->pool[i] != x && fits_want(&g->pool[i], WANT_ANY))
      y = &g->pool[i];
  if (!y || !make_condition(g, condition, sizeof condition)) return false;
  Val r = *x;
  r.lo = x->lo < y->lo ? x->lo : y->lo, r.hi = x->hi > y->hi ? x->hi : y->hi;
  r.flo = fmin(x->flo, y->flo), r.fhi = fmax(x->fhi, y->fhi), r.err = fmax(x->err, y->err);
  r.step = x->step == NO_STEP || y->step == NO_STEP ? NO_STEP : x->step < y->step ? x->step : y->step;
  r.special |= y->special, r.fresh = false;
  if (r.special && r.err > 0) return false;
  emit(g, r, "%s if %s else %s", x->name, condition, y->name);
  return true;
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* An integer and a float tile are carried. The integer may be read anywhere in the body; the float only adds up, so
 * that its range and error after all turns are known. */
static bool make_loop(Gen *g) {
  if (g->in_helper || g->loop_count == MAX_LOOPS) return false;
  Val *start = pick(g, WANT_INT | WANT_BLOCK);
  if (!start) return false;
  Val carried = *start;
  set_int_range(&carried, int_min(carried.t), int_max(carried.t));
  char c_name[12], f_name[12], counter[12], induction[12];
  int id = new_id(g), trips = (int)draw_between(g, 1, 4);
  snprintf(c_name, sizeof c_name, "c%d", id), snprintf(f_name, sizeof f_name, "f%d", id);
  snprintf(counter, sizeof counter, "k%d", id), snprintf(induction, sizeof induction, "t%d", id);
  line(g, "%s = %s", c_name, start->name);
  Val acc = {.t = chance(g, 80) ? NEREID_F32 : NEREID_F64, .step = 0};
  random_shape(g, &acc.rank, acc.shape);
  char shape[64];
  print_shape(&acc, shape);
  line(g, "%s = tl.zeros(%s, %s)", f_name, shape, tl_name(acc.t));
  bool maximum = chance(g, 25);

  /* a pointer that walks */
  Param *walk = chance(g, 40) ? add_param(g, PARAM_IN, "i") : NULL;
  Val walked = {0};
  int64_t walk_step = 0;
  if (walk) {
    walked = input_array(g, walk, random_dtype(g));
    walked.rank = 1, walked.shape[0] = g->dims[0];
    walk_step = draw_between(g, 0, 2 * g->dims[0]);
    walk->count = g->programs * 3 + walk_step * trips + g->dims[0];
    line(g, "q%d = %s + lin * 3 + tl.arange(0, %d)", id, walk->name, g->dims[0]);
  }
  line(g, "%s = 0", counter);
  int from = (int)draw_between(g, -3, 20), step = (int)draw_between(g, 1, 3),
      limit = from + step * trips - (int)draw(g, (uint32_t)step);
  Val turn = scalar_int(NEREID_I32, from, from + step * trips);
  char bound[24];
  Param *run_time = chance(g, 40) ? add_param(g, PARAM_INT, "n") : NULL;
  bool has_turn = true;
  switch (draw(g, 6)) {
    case 0: /* downwards */
      line(g, "for %s in range(%d, %d, -%d):", induction, limit - from, 0, step);
      trips = (limit - from + step - 1) / step;
      turn = scalar_int(NEREID_I32, 0, limit - from);
      if (run_time) run_time->i = 5;
      break;
    case 1:
      line(g, "for %s in tl.static_range(%d, %d, %d):", induction, from, limit, step);
      if (run_time) run_time->i = 6;
      has_turn = false; /* a constexpr: not a value of the pool */
      break;
    case 2:
      if (run_time) run_time->i = trips, snprintf(bound, sizeof bound, "%s", run_time->name);
      else snprintf(bound, sizeof bound, "%d", trips);
      line(g, "while %s < %s:", counter, bound);
      has_turn = false;
      break;
    default:
      if (run_time) run_time->i = limit, snprintf(bound, sizeof bound, "%s", run_time->name);
      else snprintf(bound, sizeof bound, "%d", limit);
      if (chance(g, 50)) line(g, "for %s in range(%d, %s, %d):", induction, from, bound, step);
      else
        line(g, "for %s in tl.range(%d, %s, %d, num_stages=%d):", induction, from, bound, step,
             (int)draw_between(g, 1, 4));
      break;
  }
  int before = g->count;
  g->indent++, g->depth++;
  g->loops[g->loop_count].trips = trips;
  snprintf(g->loops[g->loop_count].counter, sizeof g->loops[0].counter, "%s", counter);
  g->loop_count++;
  Val *c = add_named(g, carried, c_name);
  c->uses = 1;
  if (has_turn) add_named(g, turn, induction)->uses = 1;
  add_named(g, scalar_int(NEREID_I32, 0, trips), counter)->uses = 1;
  if (walk) {
    emit(g, walked, "tl.load(q%d)", id);
    line(g, "q%d += %ld", id, (long)walk_step);
  }
  make_statements(g, (int)draw_between(g, 2, 6));
  /* what adds up */
  Val after = acc, part = {0};
  Val *e = pick_into(g, &acc, WANT_INT | WANT_FLOAT | WANT_FINITE);
  if (e && cast_val(e, acc.t, &part)) {
    if (maximum) {
      after.flo = 0, after.fhi = fmax(0, part.fhi), after.err = part.err, after.step = part.step;
      line(g, "%s = tl.maximum(%s, %s.to(%s))", f_name, f_name, e->name, tl_name(acc.t));
    } else {
      after.flo = trips * fmin(part.flo, 0), after.fhi = trips * fmax(part.fhi, 0), after.err = trips * part.err,
      after.step = part.step;
      if (float_result(&after, false)) {
        if (after.err > 0) after.err += trips * 2 * unit(acc.t) * val_max(&after);
        line(g, "%s += %s.to(%s)", f_name, e->name, tl_name(acc.t));
      } else {
        after = acc;
      }
    }
  }
  /* what changes at will */
  Val tile = carried;
  Val *d = pick_into(g, &tile, WANT_INT | WANT_BOOL);
  if (d) line(g, "%s = (%s %c %s).to(%s)", c_name, c_name, "+^-*"[draw(g, 4)], d -> name, tl_name(carried.t));
  store_some(g, before + 3, 2, false);
  line(g, "%s += 1", counter);
  g->loop_count--, g->indent--, g->depth--;
  g->count = before;
  add_named(g, carried, c_name);
  add_named(g, after, f_name);
  return true;
}

/* ---- branches ---------------------------------------------------------------------------------------------------- */

/* A value of the branch brought to x's type and shape; its text. */
static bool alike(Gen *g, const Val *x, char *text, size_t n, Val *out) {
  Val *y = pick_into(g, x,
                     is_fp8(x->t)        ? WANT_FP8
                     : is_float(x->t)    ? WANT_FLOAT
                     : x->t == NEREID_I1 ? WANT_BOOL
                                         : WANT_INT);
  if (!y || (x->t == NEREID_I1 && y->t != NEREID_I1) || (is_fp8(x->t) && y->t != x->t) || !cast_val(y, x->t, out))
    return false;
  spread_text(y, x, text, n);
  size_t used = strlen(text);
  if (y->t != x->t) snprintf(text + used, n - used, ".to(%s)", tl_name(x->t));
  set_shape(out, x->rank, x->shape);
  return true;
}

static void join(Val *r, const Val *a) {
  r->lo = a->lo < r->lo ? a->lo : r->lo, r->hi = a->hi > r->hi ? a->hi : r->hi;
  r->flo = fmin(a->flo, r->flo), r->fhi = fmax(a->fhi, r->fhi), r->err = fmax(a->err, r->err);
  r->step = a->step == NO_STEP || r->step == NO_STEP ? NO_STEP : a->step < r->step ? a->step : r->step;
  r->special |= a->special, r->fresh &= a->fresh;
}

static bool make_branch(Gen *g) {
  char condition[100], name[12], text[140];
  Val *x = pick(g, WANT_ANY);
  if (!x || !make_condition(g, condition, sizeof condition)) return false;
  if (x->special || x->err > 0) return false;
  Val r = *x, y;
  snprintf(name, sizeof name, "w%d", new_id(g));
  line(g, "%s = %s", name, x->name);
  int before = g->count;
  bool otherwise = chance(g, 60);
  for (int side = 0; side < (otherwise ? 2 : 1); side++) {
    if (side) line(g, "else:");
    else line(g, "if %s:", condition);
    g->indent++, g->depth++;
    make_statements(g, (int)draw_between(g, 1, 4));
    Val like = *x;
    if (alike(g, &like, text, sizeof text, &y) && !y.special && (y.err == 0 || is_float(r.t))) {
      join(&r, &y);
      line(g, "%s = %s", name, text);
    } else {
      line(g, "pass");
    }
    store_some(g, before, 1, false);
    g->indent--, g->depth--;
    g->count = before;
  }
  r.uses = 0;
  add_named(g, r, name);
  return true;
}

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

/* Some statements as a function of their own, of two or three values, with one or two results. */
static bool make_helper(Gen *g) {
  if (g->in_helper) return false;
  int arguments = (int)draw_between(g, 1, 3), id = new_id(g);
  Val args[3];
  char list[80] = "", names[80] = "", name[12];
  for (int i = 0; i < arguments; i++) {
    Val *x = pick(g, WANT_ANY);
    if (!x) return false;
    args[i] = *x;
    char piece[30];
    snprintf(piece, sizeof piece, "%s%s", i ? ", " : "", x->name), strcat(list, piece);
    snprintf(piece, sizeof piece, "%sa%d_%d", i ? ", " : "", id, i), strcat(names, piece);
  }
  Text *out = g->out, mine = {0};
  int indent = g->indent, before = g->count, base = g->base;
  g->out = &mine, g->indent = 1, g->in_helper = true, g->base = g->count, g->depth++;
  for (int i = 0; i < arguments; i++) {
    snprintf(name, sizeof name, "a%d_%d", id, i);
    add_named(g, args[i], name);
  }
  int first = g->count;
  make_statements(g, (int)draw_between(g, 2, 6));
  Val results[2];
  int n = 0;
  for (int i = g->count - 1; i >= first && n < 2; i--)
    if (n == 0 || chance(g, 50)) results[n++] = g->pool[i];
  if (n == 2) line(g, "return %s, %s", results[0].name, results[1].name);
  else if (n == 1) line(g, "return %s", results[0].name);
  g->out = out, g->indent = indent, g->in_helper = false, g->count = before, g->base = base, g->depth--;
  if (n) {
    text_print(&g->helpers, "@triton.jit\ndef helper%d(%s):\n%s\n\n", id, names, mine.at);
    int a = new_id(g), b = new_id(g);
    if (n == 2) line(g, "v%d, v%d = helper%d(%s)", a, b, id, list);
    else line(g, "v%d = helper%d(%s)", a, id, list);
    snprintf(name, sizeof name, "v%d", a), add_named(g, results[0], name);
    if (n == 2) snprintf(name, sizeof name, "v%d", b), add_named(g, results[1], name);
  }
  free(mine.at);
  return n > 0;
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

static void add_scalars(Gen *g) {
  Param *p = add_param(g, PARAM_INT, "n");
  p->i = draw_between(g, 2, 200);
  add_named(g, scalar_int(NEREID_I32, p->i, p->i), p->name)->uses = 1;
  if (chance(g, 30)) {
    p = add_param(g, PARAM_INT, "n");
    p->i = ((int64_t)draw(g, 1000) << 32) + 5, p->i += (int64_t)1 << 33;
    add_named(g, scalar_int(NEREID_I64, p->i, p->i), p->name)->uses = 1;
  }
  p = add_param(g, PARAM_FLOAT, "x");
  p->f = ldexp((double)draw_between(g, -20, 20), -2);
  add_named(g, (Val){.t = NEREID_F32, .flo = p->f, .fhi = p->f, .step = -2}, p->name)->uses = 1;
  if (chance(g, 30)) {
    p = add_param(g, PARAM_BOOL, "b");
    p->i = draw(g, 2);
    add_named(g, (Val){.t = NEREID_I1, .lo = 0, .hi = 1, .step = NO_STEP}, p->name)->uses = 1;
  }
}

void random_kernel_make(RandomKernel *k, uint64_t seed) {
  *k = (RandomKernel){0};
  Gen g = {.k = k, .random = seed * 0xD1342543DE82EF95u + 1, .indent = 1};
  g.out = &g.body;
  static const int extents[] = {2, 4, 8, 16, 16, 32, 32, 64, 128};
  g.dims[0] = extents[draw(&g, 9)], g.dims[1] = extents[draw(&g, 7)], g.dims[2] = 1 << draw(&g, 3);
  while (g.dims[0] * g.dims[1] * g.dims[2] > MAX_NUMEL / 2) g.dims[1] /= 2;
  k->grid[0] = draw_between(&g, 1, 4), k->grid[1] = chance(&g, 40) ? draw_between(&g, 1, 3) : 1,
  k->grid[2] = chance(&g, 15) ? 2 : 1;
  g.programs = k->grid[0] * k->grid[1] * k->grid[2];
  for (int d = 0; d < 3; d++) {
    line(&g, "pid%d = tl.program_id(%d)", d, d);
    char name[12];
    snprintf(name, sizeof name, "pid%d", d);
    add_named(&g, scalar_int(NEREID_I32, 0, k->grid[d] - 1), name)->uses = 1;
  }
  line(&g, "lin = (pid2 * tl.num_programs(1) + pid1) * tl.num_programs(0) + pid0");
  add_named(&g, scalar_int(NEREID_I32, 0, g.programs - 1), "lin")->uses = 1;
  add_scalars(&g);
  g.plain = chance(&g, 30);
  int first = g.count, parts = g.plain ? 1 : (int)draw_between(&g, 1, 4);
  if (g.plain)
    for (int i = (int)draw_between(&g, 1, 2); i > 0; i--) make_product_loop(&g);
  else
    for (int i = 0; i < 3; i++) make_load(&g);
  if (!g.plain) first = g.count;
  for (int i = 0; i < parts; i++) {
    make_statements(&g, g.plain ? (int)draw(&g, 4) : (int)draw_between(&g, 3, 9));
    if (i + 1 == parts) break;
    store_some(&g, first, 2, false);
    if (chance(&g, 10)) {
      line(&g, "if lin == %d:", (int)draw(&g, (uint32_t)g.programs));
      line(&g, "    return");
    }
  }
  store_some(&g, first, 8, true);
  if (g.k->param_count && g.count > first) /* at least one output */
    for (int tries = 0; tries < 20; tries++)
      if (store_value(&g, &g.pool[g.count - 1])) break;

  Text all = {0};
  text_print(&all,
             "import triton\nimport triton.language as tl\nfrom triton.language.extra import "
             "libdevice\n\n\n%s%s@triton.jit\ndef kernel(",
             combine_functions, g.helpers.at ? g.helpers.at : "");
  for (int i = 0; i < k->param_count; i++)
    text_print(&all, "%s%s%s", i ? ", " : "", k->params[i].name,
               k->params[i].kind == PARAM_CONSTEXPR ? ": tl.constexpr" : "");
  text_print(&all, "):\n%s", g.body.at);
  k->text = all.at;
  k->num_warps = chance(&g, 40) ? 0 : 1 << draw(&g, 4);
  k->num_stages = chance(&g, 40) ? 0 : (int)draw_between(&g, 1, 5);
  static const char *const passes[] = {"wgmma",         "tensor_cores",  "dots_ahead",  "async_loads", "prefetch",
                                       "hoist_loads",   "sink_masks",    "skip_masks",  "persist",     "tensor_maps",
                                       "specialize",    "late_scales",   "dots_behind", "heavy_first", "late_sums",
                                       "lane_sums",     "dots_together", "turn_dots",   "apart",       "loads_ahead",
                                       "tensor_stores", "staged_reads",  "late_stores", "late_copies", "lockstep"};
  k->persist = chance(&g, 30), k->specialize = chance(&g, 40);
  if (chance(&g, 25)) k->without = passes[draw(&g, sizeof passes / sizeof *passes)];
  if (chance(&g, 20)) k->num_ctas = 2;
  free(g.helpers.at), free(g.body.at);
}

void random_kernel_free(RandomKernel *k) {
  free(k->text);
  *k = (RandomKernel){0};
}
