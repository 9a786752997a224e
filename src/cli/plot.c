/* plot: a table of `nereid bench` as a picture (SVG). Over a sweep: the rate of each kernel by size, both axes
 * logarithmic, with the spread of the times as bars and the ceiling as a dashed line (the copy's bandwidth, or the
 * roofline's); the rate is GB/s, TFLOP/s where a kernel does more than 30 operations a byte, and the time where neither
 * is known. Without a sweep: the time of each kernel, as bars.
 */
#include "plot.h"
#include "bench.h"
#include <errno.h>
#include <math.h>
#include <string.h>

enum {
  WIDTH = PLOT_WIDTH,
  HEIGHT = PLOT_HEIGHT,
  LEFT = PLOT_LEFT,
  RIGHT = PLOT_RIGHT,
  TOP = PLOT_TOP,
  BOTTOM = PLOT_BOTTOM
};
const char *const plot_colors[8] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#000000", "#999933"};

typedef enum { RATE_GBS, RATE_TFLOPS, RATE_TIME } Rate;
static const char *const rate_names[] = {"GB/s", "TFLOP/s", "time in µs"};

double plot_place(const Axis *a, double v) {
  return a->from + (log10(v) - a->low) / (a->high - a->low) * (a->to - a->from);
}

void plot_text(FILE *f, double x, double y, const char *anchor, const char *s) {
  fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
  for (; *s; s++) {
    if (*s == '<') fputs("&lt;", f);
    else if (*s == '&') fputs("&amp;", f);
    else fputc(*s, f);
  }
  fputs("</text>\n", f);
}

static Rate choose_rate(const Table *t) {
  Rate rate = t->sweep ? RATE_GBS : RATE_TIME;
  for (int i = 0; i < t->n; i++) {
    if (row_gbs(&t->rows[i]) <= 0) return RATE_TIME;
    if (row_intensity(&t->rows[i]) > 30) rate = RATE_TFLOPS;
  }
  return rate;
}

/* The rate if a trial had taken ns. */
static double rate_at(const Row *r, Rate rate, double ns) {
  double scale = row_times(r)->median / ns;
  return rate == RATE_TIME ? ns / 1000 : (rate == RATE_GBS ? row_gbs(r) : row_tflops(r)) * scale;
}
static double rate_of(const Row *r, Rate rate) { return rate_at(r, rate, row_times(r)->median); }
/* The copy's bandwidth; of TFLOP/s, what the ceiling that bounds the kernel allows it. */
static double ceiling_of(const Row *r, Rate rate) {
  if (rate == RATE_TFLOPS) return r->bounded && r->bound.share > 0 ? row_tflops(r) / r->bound.share : 0;
  return rate == RATE_GBS && row_share(r) > 0 ? row_gbs(r) / row_share(r) : 0;
}

static int case_count(const Table *t) {
  int n = 0;
  for (int i = 0; i < t->n; i++) n = t->rows[i].case_index >= n ? t->rows[i].case_index + 1 : n;
  return n;
}

void plot_number(char out[32], double v) {
  if (v >= 10000 && v == floor(v) && v < 1e15 && log2(v) == floor(log2(v))) snprintf(out, 32, "2^%d", (int)log2(v));
  else snprintf(out, 32, v >= 0.01 && v < 1e5 ? "%g" : "%.0e", v);
}

void plot_begin(FILE *f, const char *title, const char *subtitle, int height) {
  fprintf(f,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
          "font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n",
          WIDTH, height, WIDTH, height);
  fprintf(f, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", WIDTH, height);
  char cut[128];
  fprintf(f, "<g font-size=\"16\">");
  snprintf(cut, sizeof cut, strlen(title) > 95 ? "%.94s…" : "%s", title);
  plot_text(f, LEFT, 24, "start", cut);
  fprintf(f, "</g>\n");
  plot_text(f, LEFT, 42, "start", subtitle);
}

static void begin(FILE *f, const Table *t, const char *y_name, int height) {
  char subtitle[128];
  snprintf(subtitle, sizeof subtitle, "%s, on %s%s", y_name, t->device,
           t->cold ? ", caches empty before each run" : "");
  plot_begin(f, t->title ? t->title : t->n ? t->rows[0].label : "", subtitle, height);
}

void plot_line(FILE *f, double x1, double y1, double x2, double y2, const char *color) {
  fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, color);
}

/* Ticks at 1, 2, 5 times powers of ten; over more than three decades at 1 alone, within one at more. */
int plot_ticks(const Axis *a, double out[], int most) {
  static const double coarse[] = {1}, usual[] = {1, 2, 5}, fine[] = {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8};
  double decades = a->high - a->low;
  const double *steps = decades > 3 ? coarse : decades > 1 ? usual : fine;
  int step_count = decades > 3 ? 1 : decades > 1 ? 3 : 10, n = 0;
  for (int e = (int)floor(a->low); e <= (int)ceil(a->high); e++)
    for (int s = 0; s < step_count; s++) {
      double v = steps[s] * pow(10, e);
      if (log10(v) >= a->low - 1e-9 && log10(v) <= a->high + 1e-9 && n < most) out[n++] = v;
    }
  return n;
}

void plot_y_ticks(FILE *f, const Axis *y) {
  double at[64];
  int n = plot_ticks(y, at, 64);
  for (int i = 0; i < n; i++) {
    char label[32];
    bool is_power = fabs(log10(at[i]) - round(log10(at[i]))) < 1e-9;
    plot_number(label, at[i]);
    plot_line(f, LEFT, plot_place(y, at[i]), WIDTH - RIGHT, plot_place(y, at[i]), is_power ? "#ccc" : "#eee");
    plot_text(f, LEFT - 8, plot_place(y, at[i]) + 4, "end", label);
  }
}

void plot_legend(FILE *f, int line, const char *color, const char *name, bool dashed) {
  double y = TOP + 14 + 22 * line;
  fprintf(f, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2.5\"%s/>\n",
          WIDTH - RIGHT + 14, y, WIDTH - RIGHT + 40, y, color, dashed ? " stroke-dasharray=\"6 4\"" : "");
  char cut[40];
  snprintf(cut, sizeof cut, strlen(name) > 27 ? "%.26s…" : "%s", name);
  plot_text(f, WIDTH - RIGHT + 46, y + 4, "start", cut);
}

static void line_of_case(FILE *f, const Table *t, int c, Rate rate, const Axis *x, const Axis *y, bool ceiling) {
  const char *color = ceiling ? "#777" : plot_colors[c % 8];
  fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", color,
          ceiling ? " stroke-dasharray=\"6 4\"" : "");
  for (int i = 0; i < t->n; i++) {
    double v = ceiling ? ceiling_of(&t->rows[i], rate) : rate_of(&t->rows[i], rate);
    if (t->rows[i].case_index == c && v > 0) fprintf(f, "%.1f,%.1f ", plot_place(x, t->rows[i].x), plot_place(y, v));
  }
  fprintf(f, "\"/>\n");
  for (int i = 0; i < t->n && !ceiling; i++) {
    const Row *r = &t->rows[i];
    if (r->case_index != c) continue;
    double px = plot_place(x, r->x);
    plot_line(f, px, plot_place(y, rate_at(r, rate, row_times(r)->p90)), px,
              plot_place(y, rate_at(r, rate, row_times(r)->p10)), color);
    fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n", px, plot_place(y, rate_of(r, rate)), color);
  }
}

static void draw_sweep(FILE *f, const Table *t, Rate rate) {
  Axis x = {INFINITY, -INFINITY, LEFT + 20, WIDTH - RIGHT - 20}, y = {INFINITY, -INFINITY, HEIGHT - BOTTOM, TOP};
  bool ceiling = false;
  for (int i = 0; i < t->n; i++) {
    const Row *r = &t->rows[i];
    double values[] = {rate_at(r, rate, row_times(r)->p10), rate_at(r, rate, row_times(r)->p90), ceiling_of(r, rate)};
    ceiling |= values[2] > 0;
    for (int k = 0; k < 3; k++)
      if (values[k] > 0) y.low = fmin(y.low, log10(values[k])), y.high = fmax(y.high, log10(values[k]));
    x.low = fmin(x.low, log10(r->x)), x.high = fmax(x.high, log10(r->x));
  }
  double middle = (y.low + y.high) / 2, half = fmax((y.high - y.low) / 2 * 1.08, 0.16); /* at least a factor of two */
  y.low = middle - half, y.high = middle + half;
  if (x.high - x.low < 1e-9) x.low -= 0.5, x.high += 0.5;
  plot_y_ticks(f, &y);
  double last = -INFINITY;
  for (int i = 0; i < t->n; i++) {
    char label[32];
    double px = plot_place(&x, t->rows[i].x);
    plot_number(label, t->rows[i].x);
    if (px - last < 44) continue;
    last = px;
    plot_line(f, px, TOP, px, HEIGHT - BOTTOM, "#eee");
    plot_text(f, px, HEIGHT - BOTTOM + 20, "middle", label);
  }
  plot_text(f, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 14, "middle", t->sweep);
  for (int c = 0, n = case_count(t); c < n; c++) {
    line_of_case(f, t, c, rate, &x, &y, false);
    for (int i = 0; i < t->n; i++)
      if (t->rows[i].case_index == c) {
        plot_legend(f, c, plot_colors[c % 8], t->rows[i].label, false);
        break;
      }
  }
  if (ceiling)
    line_of_case(f, t, 0, rate, &x, &y, true),
        plot_legend(f, case_count(t), "#777", rate == RATE_GBS ? "copy in memory" : "ceiling of the first kernel",
                    true);
}

enum { BAR_STEP = 40 };

static void draw_bars(FILE *f, const Table *t) {
  double most = 0, left = 260, wide = WIDTH - left - 120;
  for (int i = 0; i < t->n; i++) most = fmax(most, row_times(&t->rows[i])->p90);
  for (int i = 0; i < t->n; i++) {
    const Row *r = &t->rows[i];
    const nereid_times *x = row_times(r);
    double y = TOP + BAR_STEP * i, middle = y + BAR_STEP * 0.35;
    char value[32], label[48];
    snprintf(label, sizeof label, strlen(r->label) > 32 ? "%.31s…" : "%s", r->label);
    snprintf(value, sizeof value, x->median < 9.995e4 ? "%.1f µs" : "%.0f µs", x->median / 1000);
    plot_text(f, left - 10, middle + 5, "end", label);
    fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", left, y,
            x->median / most * wide, BAR_STEP * 0.7, plot_colors[r->case_index % 8]);
    plot_line(f, left + x->p10 / most * wide, middle, left + x->p90 / most * wide, middle, "#000");
    plot_text(f, left + x->p90 / most * wide + 8, middle + 5, "start", value);
  }
}

int plot_svg(const Table *t, const char *path) {
  FILE *f = fopen(path, "wb");
  Rate rate = choose_rate(t);
  if (f) {
    begin(f, t, rate_names[rate], t->sweep ? HEIGHT : TOP + BAR_STEP * t->n + 10);
    if (t->sweep) draw_sweep(f, t, rate);
    else draw_bars(f, t);
    fputs("</svg>\n", f);
  }
  bool bad = !f || ferror(f);
  if (f && fclose(f)) bad = true;
  return bad ? fprintf(stderr, "nereid bench: --plot %s: cannot be written: %s\n", path, strerror(errno)), 1 : 0;
}
