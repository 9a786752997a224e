/* gen_scaled: loops around tl.dot_scaled, of every pair of its formats, packed along k or not, with and without scales.
 * Scales are powers of two, and all sums are exact. See gen.h. */
#include "gen.h"
#include <math.h>
#include <stdio.h>

typedef struct Format {
  const char *name;
  nereid_dtype t;
  double max; /* of the elements */
  int step;
} Format;
static const Format formats[] = {{"e2m1", NEREID_U8, 6, -1},        {"e2m1", NEREID_U8, 6, -1},
                                 {"e4m3", NEREID_F8E4NV, 1.75, -2}, {"e5m2", NEREID_F8E5, 1.75, -2},
                                 {"bf16", NEREID_BF16, 1.75, -2},   {"fp16", NEREID_F16, 1.75, -2}};

typedef struct Side {
  Format f;
  bool packed; /* along k; e2m1 only may be packed along the other dim */
  char tile[12], scale[12];
  double max;
  int step;
} Side;

/* A tile [rows, columns] of iteration `turn` from an array of its own. */
static bool load_part(Gen *g, nereid_dtype t, int lo, int hi, int rows, int columns, const char *turn, int trips,
                      char name[12]) {
  Param *p = add_param(g, PARAM_IN, "i");
  if (!p) return false;
  p->t = t, p->fill = is_float(t) ? FILL_QUANTIZED : FILL_INTS, p->lo = lo, p->hi = hi, p->step = -2;
  p->place_at_end = chance(g, 50), p->count = (int64_t)rows * columns * trips;
  snprintf(name, 12, "g%d", new_id(g));
  line(g, "%s = tl.load(%s + %s * %d + tl.arange(0, %d)[:, None] * %d + tl.arange(0, %d)[None, :])", name, p->name,
       turn, rows * columns, rows, columns, columns);
  return true;
}

/* lines by k, as the left operand stands; the right one is turned. */
static bool load_side(Gen *g, Side *s, int lines, int k, bool left, const char *turn, int trips) {
  do s->f = formats[draw(g, 6)];
  while (gpu_dtype(s->f.t) != s->f.t);
  bool pairs = s->f.t == NEREID_U8;
  s->packed = !pairs || chance(g, 60);
  int across = pairs && s->packed ? k / 2 : k, along = pairs && !s->packed ? lines / 2 : lines;
  if (!load_part(g, s->f.t, pairs ? 1 : -7, pairs ? 0 : 7, left ? along : across, left ? across : along, turn, trips,
                 s->tile))
    return false;
  snprintf(s->scale, sizeof s->scale, "None");
  s->max = s->f.max, s->step = s->f.step;
  if (chance(g, 20)) return true;
  s->max *= 4, s->step -= 1; /* 2^-1 to 2^2 */
  return load_part(g, NEREID_U8, 126, 129, lines, k / 32, turn, trips, s->scale);
}

bool make_scaled_product(Gen *g) {
  if (g->in_helper || g->k->param_count > MAX_PARAMS - 10) return false;
  int m = 16 << draw(g, 4), n = 16 << draw(g, 3), k = 32 << draw(g, 3), trips = (int)draw_between(g, 1, 3);
  while (m * n > MAX_NUMEL) n /= 2;
  Val r = {.t = NEREID_F32};
  set_shape(&r, 2, (int[]){m, n});
  char acc[12], turn[12];
  int id = new_id(g);
  snprintf(acc, sizeof acc, "s%d", id), snprintf(turn, sizeof turn, "t%d", id);
  line(g, "%s = tl.zeros([%d, %d], tl.float32)", acc, m, n);
  char count[24];
  number_text(g, trips, count);
  line(g, "for %s in tl.range(0, %s, num_stages=%d):", turn, count, (int)draw_between(g, 1, 4));
  g->indent++;
  Side a, b;
  bool made = load_side(g, &a, m, k, true, turn, trips) && load_side(g, &b, n, k, false, turn, trips);
  if (made)
    line(g, "%s = tl.dot_scaled(%s, %s, \"%s\", %s, %s, \"%s\", acc=%s, lhs_k_pack=%s, rhs_k_pack=%s)", acc, a.tile,
         a.scale, a.f.name, b.tile, b.scale, b.f.name, acc, a.packed ? "True" : "False", b.packed ? "True" : "False");
  else line(g, "pass");
  g->indent--;
  double most = made ? (double)trips * k * a.max * b.max : 0;
  r.flo = -most, r.fhi = most, r.step = made ? a.step + b.step : 0;
  add_named(g, r, acc);
  return true;
}
