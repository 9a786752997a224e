/* A plan as a picture, SVG: a box for each kernel with the operations that it computes, below those whose results it
 * reads; arrows are arrays, as thick as they are large. Kernels of one row do not wait for each other. */
#include <math.h>

#include "fuse/fuse.h"

enum { WIDE = 300, GAP = 40, LINE = 16, MARGIN = 20, MOST_LINES = 12, PER_LINE = 44 };

typedef struct Box {
  const FuseKernel *kernel;
  int level, place;
  int x, y, high, line_count;
  const char *lines[MOST_LINES + 1];
} Box;

typedef struct Plot {
  const FusePlan *plan;
  Arena *arena;
  Buf *out;
  int n, levels;
  Box *boxes;
} Plot;

static void put_text(Buf *out, const char *s) {
  for (; *s; s++) {
    if (*s == '<') buf_puts(out, "&lt;");
    else if (*s == '>') buf_puts(out, "&gt;");
    else if (*s == '&') buf_puts(out, "&amp;");
    else if (*s == '"') buf_puts(out, "&quot;");
    else buf_putc(out, *s);
  }
}

/* The kernel that writes what k's buffer holds when it runs; -1: an input. */
static int writer_of(const Plot *p, int k, int buffer) {
  const Tensor *t = fuse_base(p->plan, p->boxes[k].kernel->buffers[buffer]);
  for (int i = k - 1; i >= 0; i--)
    for (int b = 0; b < p->boxes[i].kernel->buffer_count; b++)
      if (fuse_base(p->plan, p->boxes[i].kernel->buffers[b]) == t && p->boxes[i].kernel->writes[b]) return i;
  return -1;
}

static void add_line(Plot *p, Box *b, Buf *line) {
  if (!line->n) return;
  if (b->line_count < MOST_LINES) b->lines[b->line_count++] = line->at;
  else b->lines[MOST_LINES - 1] = "...";
  *line = (Buf){.arena = p->arena};
}

static void describe(Plot *p, Box *b) {
  Buf line = {.arena = p->arena};
  for (int m = 0; m < b->kernel->member_count; m++) {
    const char *op = fuse_operation_name(b->kernel->members[m]);
    const char *name = b->kernel->members[m]->name;
    if (line.n && line.n + strlen(op) + (name ? strlen(name) : 0) > PER_LINE) add_line(p, b, &line);
    buf_printf(&line, "%s%s", line.n ? ", " : "", op);
    if (name) buf_printf(&line, " %.40s", name);
  }
  add_line(p, b, &line);
  for (int i = 0; i < b->kernel->buffer_count; i++) {
    const Tensor *t = b->kernel->buffers[i];
    if (!b->kernel->writes[i] && fuse_base(p->plan, t)->op != GRAPH_INPUT) continue;
    buf_printf(&line, "%s %s ", b->kernel->writes[i] ? "→" : "←", t->name ? t->name : "");
    graph_print_type(&line, t);
    add_line(p, b, &line);
  }
  b->high = LINE * (b->line_count + 1) + 12;
}

static void place(Plot *p) {
  for (int k = 0; k < p->n; k++) {
    Box *b = &p->boxes[k];
    for (int i = 0; i < b->kernel->buffer_count; i++) {
      int from = writer_of(p, k, i);
      if (from >= 0 && p->boxes[from].level >= b->level) b->level = p->boxes[from].level + 1;
    }
    if (b->level >= p->levels) p->levels = b->level + 1;
    for (int i = 0; i < k; i++) b->place += p->boxes[i].level == b->level;
    b->x = MARGIN + b->place * (WIDE + GAP);
  }
  int y = MARGIN;
  for (int l = 0; l < p->levels; l++) {
    int high = 0;
    for (int k = 0; k < p->n; k++) {
      if (p->boxes[k].level != l) continue;
      p->boxes[k].y = y;
      if (p->boxes[k].high > high) high = p->boxes[k].high;
    }
    y += high + GAP;
  }
}

static void draw_arrows(Plot *p, int k) {
  const Box *to = &p->boxes[k];
  for (int i = 0; i < to->kernel->buffer_count; i++) {
    int from = writer_of(p, k, i);
    if (from < 0) continue;
    const Box *b = &p->boxes[from];
    const Tensor *t = to->kernel->buffers[i];
    int64_t n;
    double bytes = size_is_int(graph_numel(p->plan->g, t), &n) ? (double)n * dtype_bytes(t->dtype) : 1 << 20;
    int x1 = b->x + WIDE / 2, y1 = b->y + b->high, x2 = to->x + WIDE / 2, y2 = to->y, middle = (y1 + y2) / 2;
    double width = bytes > 1024 ? 1 + 0.25 * log2(bytes / 1024) : 1;
    buf_printf(p->out, "<path class=\"array\" stroke-width=\"%.1f\" d=\"M%d %dC%d %d %d %d %d %d\"><title>", width, x1,
               y1, x1, middle, x2, middle, x2, y2);
    put_text(p->out, t->name ? t->name : "");
    buf_putc(p->out, ' ');
    graph_print_type(p->out, t);
    buf_puts(p->out, "</title></path>\n");
  }
}

static void draw_box(Plot *p, const Box *b) {
  buf_printf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", b->x, b->y, WIDE, b->high);
  buf_printf(p->out, "<text class=\"name\" x=\"%d\" y=\"%d\">", b->x + 8, b->y + LINE + 2);
  put_text(p->out, b->kernel->name);
  buf_puts(p->out, "</text>\n");
  for (int i = 0; i < b->line_count; i++) {
    buf_printf(p->out, "<text x=\"%d\" y=\"%d\">", b->x + 8, b->y + LINE * (i + 2) + 2);
    put_text(p->out, b->lines[i]);
    buf_puts(p->out, "</text>\n");
  }
}

void fuse_plot(Buf *out, const FusePlan *plan) {
  Plot plot = {plan, plan->g->cx->arena, out, plan->kernels.n, 0, NULL}, *p = &plot;
  p->boxes = NEW_N(p->arena, Box, p->n + 1);
  for (int k = 0; k < p->n; k++) {
    p->boxes[k].kernel = plan->kernels.at[k];
    describe(p, &p->boxes[k]);
  }
  place(p);
  int wide = 0, high = 0;
  for (int k = 0; k < p->n; k++) {
    if (p->boxes[k].x + WIDE > wide) wide = p->boxes[k].x + WIDE;
    if (p->boxes[k].y + p->boxes[k].high > high) high = p->boxes[k].y + p->boxes[k].high;
  }
  buf_printf(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n"
             "<style>rect{fill:#f2f6fc;stroke:#4a6fa5}text{font:11px monospace;fill:#223}.name{font-weight:bold}"
             ".array{fill:none;stroke:#9aa7b8;stroke-opacity:.7}</style>\n",
             wide + MARGIN, high + MARGIN, wide + MARGIN, high + MARGIN);
  for (int k = 0; k < p->n; k++) draw_arrows(p, k);
  for (int k = 0; k < p->n; k++) draw_box(p, &p->boxes[k]);
  buf_puts(out, "</svg>\n");
}
