/* gen_in_place: arrays that a kernel reads, changes and reads again: in place, flipped, shifted, turned and scattered,
 * through one parameter and through others that begin some elements further on in the same array. See gen.h.
 *
 * Each program has a part of the array for itself, a little longer than what its tiles cover, so that all parameters
 * may begin up to MOST_SHIFT elements into it. What a load finds is what the program's stores before it have left
 * there, on every device. All are integers: whatever is computed of them is exact.
 */
#include "gen.h"
#include <stdio.h>
#include <string.h>

enum { MOST_SHIFT = 8 };

static int64_t elements(const Array *a) { return (int64_t)a->rows * a->columns; }

static Array *new_array(Gen *g) {
  static const nereid_dtype types[] = {NEREID_I32, NEREID_I32, NEREID_I32, NEREID_U32,
                                       NEREID_I64, NEREID_I16, NEREID_I8};
  if (g->array_count == MAX_ARRAYS) return NULL;
  Param *p = add_param(g, PARAM_OUT, "a");
  if (!p) return NULL;
  Array *a = &g->arrays[g->array_count++];
  *a = (Array){.t = types[draw(g, 7)], .rows = 1, .columns = 1 << draw_between(g, 2, 9)};
  if (chance(g, 60)) a->rows = 1 << draw_between(g, 1, 5), a->columns = 1 << draw_between(g, 1, 5);
  p->t = a->t, p->count = g->programs * (elements(a) + MOST_SHIFT), p->place_at_end = chance(g, 50);
  p->fill = FILL_INTS, p->lo = 1, p->hi = 0;
  snprintf(a->names[a->name_count++].name, sizeof p->name, "%s", p->name);
  int base = (int)(p - g->k->params);
  for (int i = (int)draw(g, MAX_NAMES); i > 0; i--) {
    Param *other = add_param(g, PARAM_ALIAS, "a");
    if (!other) break;
    int shift = chance(g, 40) ? 0 : (int)draw_between(g, 1, MOST_SHIFT);
    other->t = a->t, other->of = base, other->i = shift;
    a->names[a->name_count].shift = shift;
    snprintf(a->names[a->name_count++].name, sizeof p->name, "%s", other->name);
  }
  return a;
}

/* The text of a number: itself, or a run-time argument. */
static void size_text(Gen *g, int64_t n, char out[24]) {
  Param *p = chance(g, 25) ? add_param(g, PARAM_INT, "n") : NULL;
  if (p) p->i = n, snprintf(out, 24, "%s", p->name);
  else snprintf(out, 24, "%ld", (long)n);
}

/* Pointers to a tile of the array, and perhaps a mask. unique: no two lanes go to one element. */
static void place_text(Gen *g, const Array *a, bool unique, char *text, size_t n, char mask[240]) {
  int which = (int)draw(g, (uint32_t)a->name_count), shift = a->names[which].shift;
  int more = chance(g, 25) ? (int)draw_between(g, 0, MOST_SHIFT - shift) : 0;
  int64_t all = elements(a);
  char where[320], flat[220], i[60], j[60], columns[24], begin[60];
  size_text(g, all + MOST_SHIFT, columns);
  int used = snprintf(begin, sizeof begin, "%s + lin * %s", a->names[which].name, columns);
  if (more) snprintf(begin + used, sizeof begin - (size_t)used, " + %d", more);
  *mask = 0;
  if (a->rows == 1) {
    snprintf(i, sizeof i, "tl.arange(0, %d)", a->columns), snprintf(flat, sizeof flat, "%s", i);
    if (chance(g, 20)) snprintf(mask, 240, ", mask=%s < %d", i, (int)draw_between(g, 1, a->columns));
  } else {
    size_text(g, a->columns, columns);
    snprintf(i, sizeof i, "tl.arange(0, %d)[:, None]", a->rows);
    snprintf(j, sizeof j, "tl.arange(0, %d)[None, :]", a->columns);
    snprintf(flat, sizeof flat, "(%s * %s + %s)", i, columns, j);
    if (chance(g, 20))
      snprintf(mask, 240, ", mask=(%s < %d) & (%s < %d)", i, (int)draw_between(g, 1, a->rows), j,
               (int)draw_between(g, 1, a->columns));
  }
  int odd = 2 * (int)draw(g, 8) + 1, by = (int)draw(g, (uint32_t)all);
  Val tile = {0}, *index = NULL;
  set_shape(&tile, a->rows == 1 ? 1 : 2, a->rows == 1 ? (int[]){a->columns} : (int[]){a->rows, a->columns});
  switch (draw(g, unique ? 7 : 10)) {
    case 0: snprintf(where, sizeof where, "(%ld - %s)", (long)all - 1, flat); break;
    case 1: snprintf(where, sizeof where, "((%s * %d + %d) & %ld)", flat, odd, by, (long)all - 1); break;
    case 2: snprintf(where, sizeof where, "(%s ^ %d)", flat, by); break;
    case 3:
      if (a->rows > 1) snprintf(where, sizeof where, "(%s * %d + %s)", j, a->rows, i); /* turned */
      else snprintf(where, sizeof where, "((%s + %d) & %ld)", flat, by, (long)all - 1);
      break;
    case 7: snprintf(where, sizeof where, "(%s // 2)", flat); break;
    case 8: snprintf(where, sizeof where, "(%s * 0 + %d)", flat, by); break;
    case 9:
      index = pick(g, WANT_INT | WANT_BLOCK);
      if (index && same_shape(index, &tile) && width(index->t) >= 32) {
        snprintf(where, sizeof where, "(%s & %ld)", index->name, (long)all - 1);
        break;
      } /* fall through */
    default: snprintf(where, sizeof where, "%s", flat); break;
  }
  snprintf(text, n, "%s + %s", begin, where);
}

static Val element(const Array *a) {
  Val v = {.t = a->t, .step = NO_STEP, .fresh = true};
  v.lo = int_min(a->t), v.hi = int_max(a->t);
  return v;
}

static Val *load_tile(Gen *g, const Array *a) {
  char text[400], mask[240];
  Val v = element(a);
  set_shape(&v, a->rows == 1 ? 1 : 2, a->rows == 1 ? (int[]){a->columns} : (int[]){a->rows, a->columns});
  place_text(g, a, false, text, sizeof text, mask);
  return emit(g, v, "tl.load(%s%s%s)", text, mask, *mask ? ", other=3" : "");
}

/* One element, as a scalar. */
static void scalar_access(Gen *g, const Array *a) {
  const char *name = a->names[draw(g, (uint32_t)a->name_count)].name;
  int at = (int)draw(g, (uint32_t)elements(a));
  Val *x = chance(g, 50) ? pick(g, WANT_INT | WANT_SCALAR) : NULL;
  if (x) line(g, "tl.store(%s + lin * %ld + %d, %s)", name, (long)elements(a) + MOST_SHIFT, at, x->name), x->uses++;
  else emit(g, element(a), "tl.load(%s + lin * %ld + %d)", name, (long)elements(a) + MOST_SHIFT, at);
}

/* What a tile is changed by: a number of the whole tile, of its rows or columns, or another value. */
static void changed_text(Gen *g, const Array *a, const char *v, char *text, size_t n) {
  static const char *const statistics[] = {"max", "min", "sum", "xor_sum"};
  const char *fn = statistics[draw(g, 4)];
  int axis = (int)draw(g, 2);
  Val tile = element(a);
  set_shape(&tile, a->rows == 1 ? 1 : 2, a->rows == 1 ? (int[]){a->columns} : (int[]){a->rows, a->columns});
  Val *other = chance(g, 40) ? pick_into(g, &tile, WANT_INT | WANT_BLOCK) : NULL;
  if (other) snprintf(text, n, "(%s %c %s).to(%s)", v, "+-^"[draw(g, 3)], other -> name, tl_name(a->t)), other->uses++;
  else if (a->rows == 1) snprintf(text, n, "(%s - tl.%s(%s, 0)).to(%s)", v, fn, v, tl_name(a->t));
  else if (a->rows == a->columns && chance(g, 30))
    snprintf(text, n, "%s.trans()%s%s", v, chance(g, 50) ? " ^ " : " * 3 - ", v);
  else snprintf(text, n, "(%s - tl.%s(%s, %d, keep_dims=True)).to(%s)", v, fn, v, axis, tl_name(a->t));
}

bool make_in_place(Gen *g) {
  if (g->in_helper) return false;
  Array *a = g->array_count && chance(g, 75) ? &g->arrays[draw(g, (uint32_t)g->array_count)] : new_array(g);
  if (!a) return false;
  if (chance(g, 10)) {
    scalar_access(g, a);
    return true;
  }
  char v[12], changed[160], text[400], mask[240], name[12];
  snprintf(v, sizeof v, "%s", load_tile(g, a)->name);
  if (chance(g, 20)) return true;
  changed_text(g, a, v, changed, sizeof changed);
  Val w = element(a);
  set_shape(&w, a->rows == 1 ? 1 : 2, a->rows == 1 ? (int[]){a->columns} : (int[]){a->rows, a->columns});
  snprintf(name, sizeof name, "%s", emit(g, w, "%s", changed)->name);
  place_text(g, a, true, text, sizeof text, mask);
  if (chance(g, 8) && width(a->t) >= 32) line(g, "tl.atomic_add(%s, %s%s)", text, name, mask);
  else line(g, "tl.store(%s, %s%s)", text, name, mask);
  if (chance(g, 50)) load_tile(g, a);
  if (chance(g, 50)) emit(g, w, "%s ^ %s", v, name); /* what was read before the store */
  return true;
}
