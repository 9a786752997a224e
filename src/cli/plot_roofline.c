/* The roofline as a picture. */
#include "plot.h"
#include "bench.h"
#include <errno.h>
#include <math.h>
#include <string.h>

enum { LEFT = PLOT_LEFT, RIGHT = PLOT_RIGHT, TOP = PLOT_TOP, BOTTOM = PLOT_BOTTOM, WIDTH = PLOT_WIDTH, HEIGHT = 560 };

typedef struct Picture {
  FILE *f;
  Axis x, y;         /* operations a byte; GFLOP/s or TFLOP/s */
  double unit;       /* of y, in GFLOP/s: 1 or 1000 */
  int lines;         /* of the legend */
  double labels[16]; /* heights that labels at the right edge take */
  int label_count;
} Picture;

static double height(const Picture *p, double gflops) { return plot_place(&p->y, gflops / p->unit); }
static void put(char out[64], const char *name, double giga, const char *unit) { /* "L2 6.30 TB/s" */
  bool tera = giga >= 999.5;
  double v = tera ? giga / 1000 : giga;
  snprintf(out, 64, "%s %.*f %s%s", name, v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v, tera ? "T" : "G", unit);
}

static void grow(Axis *a, double v) {
  if (v > 0 && isfinite(v)) a->low = fmin(a->low, log10(v)), a->high = fmax(a->high, log10(v));
}

/* Where a slope or a flat roof is seen: from the left or lower edge to the right or upper one, as far as `flat`. */
static void slope(Picture *p, double gbs, double flat, const char *color, const char *name) {
  double first = pow(10, p->x.low), last = flat / gbs, bottom = pow(10, p->y.low) * p->unit;
  if (first * gbs < bottom) first = bottom / gbs;
  if (last > pow(10, p->x.high)) last = pow(10, p->x.high);
  if (last <= first) return;
  double x1 = plot_place(&p->x, first), y1 = height(p, first * gbs), x2 = plot_place(&p->x, last),
         y2 = height(p, last * gbs);
  fprintf(p->f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"/>\n", x1, y1,
          x2, y2, color);
  char label[64];
  put(label, name, gbs, "B/s");
  plot_legend(p->f, p->lines++, color, label, false);
}

static void flat(Picture *p, double rate, double from_gbs, const char *color, const char *name, bool dashed) {
  if (rate <= 0) return;
  static const int places[] = {-5, 14, -18, 27, -31};
  double first = fmax(rate / from_gbs, pow(10, p->x.low)), y = height(p, rate), at = y - 5;
  fprintf(p->f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"%s/>\n",
          plot_place(&p->x, first), y, WIDTH - RIGHT, y, color, dashed ? " stroke-dasharray=\"6 4\"" : "");
  for (int k = 0, free = 0; k < 5 && !free; k++) { /* above its line, or where no other label stands */
    at = y + places[k], free = 1;
    for (int i = 0; i < p->label_count; i++) free &= fabs(p->labels[i] - at) >= 13;
  }
  if (p->label_count < 16) p->labels[p->label_count++] = at;
  char label[64];
  put(label, name, rate, "FLOP/s");
  plot_text(p->f, WIDTH - RIGHT - 4, at, "end", label);
}

static void ticks(Picture *p) {
  plot_y_ticks(p->f, &p->y);
  double values[64];
  int n = plot_ticks(&p->x, values, 64);
  for (int i = 0; i < n; i++) {
    double at = plot_place(&p->x, values[i]);
    char label[32];
    plot_number(label, values[i]);
    plot_line(p->f, at, TOP, at, HEIGHT - BOTTOM, "#ccc");
    plot_text(p->f, at, HEIGHT - BOTTOM + 20, "middle", label);
  }
  plot_text(p->f, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 14, "middle", "operations a byte (arithmetic intensity)");
}

static void points_of(Picture *p, const nereid_ceilings *c, nereid_dtype t, const char *color) {
  int n = 0;
  fprintf(p->f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1\" points=\"", color);
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < c->point_count; i++) {
      const nereid_roofline_point *q = &c->points[i];
      if (q->dtype != t) continue;
      double flops = q->operations * q->elements,
             x = plot_place(&p->x, flops / (2 * q->elements * (double)nereid_dtype_bytes(t))),
             y = height(p, flops / q->ns);
      if (!pass) fprintf(p->f, "%.1f,%.1f ", x, y), n++;
      else fprintf(p->f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x, y, color);
    }
    if (!pass) fprintf(p->f, "\"/>\n");
  }
  char name[64];
  snprintf(name, sizeof name, "measured: %s products", nereid_dtype_name(t));
  if (n) plot_legend(p->f, p->lines++, color, name, false);
}

static void kernels(Picture *p, const Placed *k, int n) {
  for (int i = 0; i < n; i++) {
    const char *color = plot_colors[(i + 3) % 8];
    if (k[i].cost.flops <= 0 || k[i].bound.working_set <= 0) continue;
    double x = plot_place(&p->x, k[i].cost.flops / k[i].bound.working_set), y = height(p, k[i].cost.flops / k[i].ns);
    fprintf(p->f,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"11\" height=\"11\" transform=\"rotate(45 %.1f %.1f)\" fill=\"%s\" "
            "stroke=\"#000\"/>\n",
            x - 5.5, y - 5.5, x, y, color);
    plot_legend(p->f, p->lines++, color, k[i].label, false);
  }
}

static void draw(Picture *p, const nereid_ceilings *c, const Placed *placed, int n) {
  p->x = (Axis){log10(0.05), 1, LEFT, WIDTH - RIGHT}, p->y = (Axis){INFINITY, -INFINITY, HEIGHT - BOTTOM, TOP};
  const nereid_bandwidth *memory = &c->levels[c->level_count - 1];
  double slow = memory->copy, fast = slow, best, plain = fmax(c->rates[NEREID_RATE_F32], c->rates[NEREID_RATE_F16]);
  for (int i = 0; i < c->level_count; i++)
    fast = fmax(fast, fmax(c->levels[i].copy, c->levels[i].copy > 0 ? 0 : c->levels[i].read));
  bool tensor = c->rates[NEREID_RATE_DOT_F16] > plain;
  best = fmax(plain, tensor ? c->rates[NEREID_RATE_DOT_F16] : c->rates[NEREID_RATE_DOT_F32]);
  p->unit = best >= 20000 ? 1000 : 1;
  for (int i = 0; i < c->point_count; i++) {
    const nereid_roofline_point *q = &c->points[i];
    double flops = q->operations * q->elements;
    grow(&p->x, flops / (2 * q->elements * (double)nereid_dtype_bytes(q->dtype))), grow(&p->y, flops / q->ns / p->unit);
  }
  for (int i = 0; i < n; i++)
    grow(&p->x, placed[i].cost.flops / placed[i].bound.working_set),
        grow(&p->y, placed[i].cost.flops / placed[i].ns / p->unit);
  grow(&p->x, best / slow * 2), grow(&p->y, best / p->unit), grow(&p->y, slow * 0.05 / p->unit);
  p->x.high += 0.1, p->y.high += 0.15, p->y.low -= 0.1;
  ticks(p);
  for (int i = 0; i < c->level_count; i++) {
    const nereid_bandwidth *l = &c->levels[i];
    static const char *const greys[] = {"#bbb", "#999", "#777", "#555", "#333"};
    bool last = i + 1 == c->level_count;
    slope(p, l->copy > 0 ? l->copy : l->read,
          last        ? best
          : plain > 0 ? plain
                      : best,
          last ? "#000" : greys[i], l->name);
  }
  flat(p, c->rates[NEREID_RATE_F32], fast, plot_colors[0], "f32", false);
  flat(p, c->rates[NEREID_RATE_F32] / 2, fast, plot_colors[0], "f32, products alone", true);
  if (c->rates[NEREID_RATE_F16] > 1.2 * c->rates[NEREID_RATE_F32] ||
      c->rates[NEREID_RATE_F16] < 0.8 * c->rates[NEREID_RATE_F32])
    flat(p, c->rates[NEREID_RATE_F16], fast, plot_colors[1], "f16", false);
  if (tensor) flat(p, c->rates[NEREID_RATE_DOT_F16], slow, plot_colors[2], "products of matrices, f16", false);
  else flat(p, c->rates[NEREID_RATE_DOT_F32], slow, plot_colors[2], "products of matrices, f32", true);
  points_of(p, c, NEREID_F32, plot_colors[0]);
  points_of(p, c, NEREID_F16, plot_colors[1]);
  kernels(p, placed, n);
}

int plot_roofline(const nereid_ceilings *c, const Placed *placed, int n, const char *path) {
  Picture p = {.f = fopen(path, "wb")};
  char title[96], subtitle[160];
  snprintf(title, sizeof title, "Roofline of %s", c->device);
  double most = fmax(fmax(c->rates[NEREID_RATE_F32], c->rates[NEREID_RATE_F16]), c->rates[NEREID_RATE_DOT_F16]);
  snprintf(subtitle, sizeof subtitle, "%sFLOP/s; %.120s, %.10s%s", most >= 20000 ? "T" : "G", c->description, c->date,
           c->quick ? " (rough)" : "");
  if (p.f) {
    plot_begin(p.f, title, subtitle, HEIGHT);
    draw(&p, c, placed, n);
    fputs("</svg>\n", p.f);
  }
  bool bad = !p.f || ferror(p.f);
  if (p.f && fclose(p.f)) bad = true;
  return bad ? fprintf(stderr, "nereid roofline: --plot %s: cannot be written: %s\n", path, strerror(errno)), 1 : 0;
}
