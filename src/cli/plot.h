/* plot: what pictures (SVG) of measurements are made of: axes with logarithmic scales, text, lines, a legend on the
 * right. */
#ifndef NEREID_CLI_PLOT_H
#define NEREID_CLI_PLOT_H

#include <stdbool.h>
#include <stdio.h>

enum { PLOT_WIDTH = 860, PLOT_HEIGHT = 500, PLOT_LEFT = 80, PLOT_RIGHT = 250, PLOT_TOP = 60, PLOT_BOTTOM = 60 };
extern const char *const plot_colors[8]; /* that people who see few colours tell apart (Okabe and Ito's) */

typedef struct Axis {
  double low, high;
  int from, to;
} Axis; /* of log10 of a value; pixels */
double plot_place(const Axis *a, double v);
void plot_begin(FILE *f, const char *title, const char *subtitle, int height); /* ends with "</svg>\n" */
void plot_text(FILE *f, double x, double y, const char *anchor, const char *s);
void plot_line(FILE *f, double x1, double y1, double x2, double y2, const char *color);
/* Where labels stand; several even within one decade. Returns how many. */
int plot_ticks(const Axis *a, double out[], int most);
void plot_y_ticks(FILE *f, const Axis *y); /* across the picture */
void plot_number(char out[32], double v);
void plot_legend(FILE *f, int line, const char *color, const char *name, bool dashed);

#endif
