/* gen_products: loops around dots, whose tiles are loaded in the loop: both ways round, with and without masks, rows of
 * any alignment, steps up and down, pointers that advance and indices made of the loop's variable. See gen.h. */
#include "gen.h"
#include <math.h>
#include <stdio.h>

/* An operand: `lines` by k elements of each iteration. across: the k's are the rows in memory. */
typedef struct Operand {
  Param *p;
  Val v;
  int lines, pitch; /* pitch: elements from one row in memory to the next */
  bool across, walks, computed;
  char name[12], at[12]; /* the tile's, and the pointers' */
} Operand;

typedef struct Product {
  int m, n, k, trips, total; /* total: k's that there are; the last iteration may have fewer than k */
  int from, step;            /* of the loop's variable */
  bool masked, down;
  Operand a, b;
  char turn[12], columns[12];
} Product;

/* The operand's tile is [rows, columns], in the order of the load. */
static void put_operand(const Operand *o, const char *first, char *text, size_t size) {
  bool rows_are_k = o->across;
  char line_index[40], k_index[40];
  snprintf(line_index, sizeof line_index, "tl.arange(0, %d)[%s]", o->lines, rows_are_k ? "None, :" : ":, None");
  snprintf(k_index, sizeof k_index, "%s[%s]", first, rows_are_k ? ":, None" : "None, :");
  if (rows_are_k) snprintf(text, size, "%s + %s * %d + %s", o->p->name, k_index, o->pitch, line_index);
  else snprintf(text, size, "%s + %s * %d + %s", o->p->name, line_index, o->pitch, k_index);
}

static bool begin_operand(Gen *g, const Product *p, Operand *o, nereid_dtype t, int lines) {
  *o = (Operand){.lines = lines, .across = chance(g, 50)};
  o->walks = !p->down && chance(g, 50);
  o->computed = chance(g, 15);
  o->p = add_param(g, PARAM_IN, "i");
  if (!o->p) return false;
  int row = o->across ? lines : p->total, rows = o->across ? p->total : lines;
  o->pitch = chance(g, 60) ? (row + 7) / 8 * 8 : row + (int)draw(g, 6);
  o->p->t = t, o->p->fill = FILL_QUANTIZED, o->p->hi = 7, o->p->lo = -7, o->p->step = -2;
  o->p->place_at_end = chance(g, 50);
  o->p->count = (int64_t)(rows - 1) * o->pitch + row;
  o->v = (Val){.t = t, .flo = -1.75, .fhi = 1.75, .step = -2};
  int id = new_id(g);
  snprintf(o->name, sizeof o->name, "g%d", id), snprintf(o->at, sizeof o->at, "q%d", id);
  if (!o->walks) return true;
  char text[200], k[40];
  snprintf(k, sizeof k, "tl.arange(0, %d)", p->k);
  put_operand(o, k, text, sizeof text);
  line(g, "%s = %s", o->at, text);
  return true;
}

/* Loads the tile of this iteration, as the product takes it: a is [lines, k], b is [k, lines]. */
static void load_operand(Gen *g, const Product *p, Operand *o, bool is_a) {
  char text[200], mask[80] = "";
  if (!o->walks) put_operand(o, p->columns, text, sizeof text);
  if (p->masked)
    snprintf(mask, sizeof mask, ", mask=%s[%s] < %d, other=0.0", p->columns,
             o->across ? ":, None" : "None, :", p->total);
  line(g, "%s = tl.load(%s%s)", o->name, o->walks ? o->at : text, mask);
  if (o->across == is_a) line(g, "%s = tl.trans(%s)", o->name, o->name);
  if (o->computed) line(g, "%s = %s * 2", o->name, o->name);
  if (o->walks) line(g, "%s += %d", o->at, p->k * (o->across ? o->pitch : 1));
}

static void put_loop(Gen *g, const Product *p) {
  char bounds[60];
  int to = p->from + p->step * p->trips;
  if (p->down) snprintf(bounds, sizeof bounds, "%d, %d, -%d", to - p->step, p->from - p->step, p->step);
  else snprintf(bounds, sizeof bounds, "%d, %d, %d", p->from, to - (int)draw(g, (uint32_t)p->step), p->step);
  if (chance(g, 50)) line(g, "for %s in range(%s):", p->turn, bounds);
  else line(g, "for %s in tl.range(%s, num_stages=%d):", p->turn, bounds, (int)draw_between(g, 1, 5));
}

bool make_product_loop(Gen *g) {
  Product p = {.m = 16 << draw(g, 3), .n = 16 << draw(g, 2), .k = 16 << draw(g, 3), .trips = (int)draw(g, 7)};
  if (g->in_helper || g->k->param_count > MAX_PARAMS - 10) return false;
  nereid_dtype t = chance(g, 40) ? NEREID_BF16 : chance(g, 85) ? NEREID_F16 : NEREID_F32;
  p.down = chance(g, 25), p.masked = chance(g, 40);
  p.from = (int)draw_between(g, -3, 20), p.step = (int)draw_between(g, 1, 3);
  if (chance(g, 40)) p.from = 0, p.step = p.k; /* as it is mostly written: the variable is the first k */
  p.total = p.trips * p.k - (p.masked && p.trips ? (int)draw(g, (uint32_t)p.k) : 0);
  if (!p.total) p.total = 1; /* arrays that nobody reads */
  char acc[12], shape[64];
  int id = new_id(g);
  snprintf(acc, sizeof acc, "s%d", id), snprintf(p.turn, sizeof p.turn, "t%d", id);
  snprintf(p.columns, sizeof p.columns, "c%d", id);
  if (!begin_operand(g, &p, &p.a, t, p.m) || !begin_operand(g, &p, &p.b, t, p.n)) return false;
  Val r = {.t = NEREID_F32, .step = -4};
  set_shape(&r, 2, (int[]){p.m, p.n});
  print_shape(&r, shape);
  line(g, "%s = tl.full(%s, %d.0, tl.float32)", acc, shape, (int)draw(g, 3));
  put_loop(g, &p);
  g->indent++;
  line(g, "%s = (%s - %d) // %d * %d + tl.arange(0, %d)", p.columns, p.turn, p.from, p.step, p.k, p.k);
  bool b_first = chance(g, 30);
  for (int i = 0; i < 2; i++) load_operand(g, &p, (i == 1) == b_first ? &p.a : &p.b, (i == 1) == b_first);
  const char *precision = t == NEREID_F32 ? ", input_precision=\"ieee\"" : "";
  if (chance(g, 60)) line(g, "%s = tl.dot(%s, %s, %s%s)", acc, p.a.name, p.b.name, acc, precision);
  else line(g, "%s += tl.dot(%s, %s%s)", acc, p.a.name, p.b.name, precision);
  g->indent--;
  double most = 2 + p.trips * p.k * 4 * p.a.v.fhi * p.b.v.fhi; /* sums stay exact: multiples of 1/16 */
  r.flo = -most, r.fhi = most;
  add_named(g, r, acc);
  return true;
}
