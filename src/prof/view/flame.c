/* flame: where time went by stack, as folded stacks ("main;train;forward 12345", ns) for other tools, and as a flame
 * graph (SVG).
 *
 *     CPU     of each sample the stack of functions, outermost first, under its thread; weight: the CPU time that it
 *             stands for
 *     GPU     of each kernel, copy and fill the ranges that were open in the thread that launched it, then its name;
 *             weight: its time on the GPU
 *
 * A tree of stacks is all that is kept. In the picture a frame is as wide as its time and hangs from its caller (stacks
 * of Python are a hundred deep: so the picture begins with what holds most); what is narrower than a third of a pixel
 * is left out. A script in it zooms (click), searches (Ctrl-F or the corner) and shows figures; it needs no network.
 */
#include <stdlib.h>

#include "prof/view/views.h"

typedef struct Frame {
  const char *name;
  int64_t self, total;
  struct Frame *child, *next;
  int index; /* in order of creation */
} Frame;

typedef struct Flame {
  EventJoin *t;
  Frame *root;
  Map *edges; /* parent's index + name -> Frame */
  Buf key;
  int frames;
} Flame;
enum { DEEPEST = 250 }; /* frames of a stack: ranges may nest anyhow */

static Frame *child_of(Flame *f, Frame *parent, const char *name) {
  f->key.n = 0;
  buf_write(&f->key, &parent->index, sizeof parent->index), buf_puts(&f->key, name);
  if (f->key.failed) context_out_of_memory(f->t->cx);
  Frame *c = map_get_n(f->edges, f->key.at, f->key.n);
  if (c) return c;
  c = NEW(f->t->arena, Frame);
  c->index = ++f->frames, c->next = parent->child, parent->child = c;
  const char *key = arena_copy(f->t->arena, f->key.at, f->key.n + 1);
  c->name = key + sizeof parent->index;
  map_put_n(f->edges, key, f->key.n, c);
  return c;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(Frame *const *)a)->name, (*(Frame *const *)b)->name);
}

/* Totals, and children in the order of their names so that the same run looks the same. */
static void finish(Flame *f, Frame *x) {
  stack_guard();
  int n = 0;
  x->total = x->self;
  for (Frame *c = x->child; c; c = c->next) finish(f, c), x->total += c->total, n++;
  if (n < 2) return;
  Frame **all = NEW_N(f->t->arena, Frame *, n);
  n = 0;
  for (Frame *c = x->child; c; c = c->next) all[n++] = c;
  qsort(all, (size_t)n, sizeof *all, by_name);
  x->child = all[0];
  for (int i = 0; i < n; i++) all[i]->next = i + 1 < n ? all[i + 1] : NULL;
}

/* ---- gathering --------------------------------------------------------------------------------------------------- */

Symbols *samples_begin(EventJoin *t) {
  TraceEvent e;
  Symbols *symbols = symbols_create();
  if (!symbols) context_out_of_memory(t->cx);
  trace_rewind(t->reader);
  while (
      trace_next(t->reader, &e)) /* all of the address space first: a module may be known later than its first sample */
    if (e.kind == TRACE_MODULE)
      symbols_add(symbols, e.process, trace_text(t->reader, e.name), e.module.base, e.module.size, e.module.offset);
  trace_rewind(t->reader);
  return symbols;
}
bool samples_next(EventJoin *t, TraceEvent *e) {
  while (trace_next(t->reader, e))
    if (e->kind == TRACE_SAMPLE) return true;
  return false;
}
const char *sample_name(const EventJoin *t, Symbols *symbols, const TraceEvent *e, uint32_t at) {
  uint64_t a = e->sample.stack[at];
  /* a return address is past its call */
  const char *name =
      e->sample.is_symbolic ? trace_text(t->reader, (uint32_t)a) : symbols_name(symbols, e->process, at ? a - 1 : a);
  return name && *name ? name : "[unknown]";
}

static void gather_cpu(Flame *f, Symbols *symbols) {
  TraceEvent e;
  EventJoin *t = f->t;
  char text[400];
  while (samples_next(t, &e)) {
    Frame *x = f->root;
    if (t->processes.n > 1) {
      const ProcessInfo *p = events_process(t, e.process);
      snprintf(text, sizeof text, "%.300s (%u)", p ? trace_text(t->reader, p->name) : "process", e.process);
      x = child_of(f, x, text);
    }
    const char *thread = events_thread_name(t, e.process, e.thread);
    if (*thread) x = child_of(f, x, thread);
    else {
      snprintf(text, sizeof text, e.thread == e.process ? "main thread" : "thread %u", e.thread);
      x = child_of(f, x, text);
    }
    for (uint32_t at = e.sample.depth; at-- > 0;) x = child_of(f, x, sample_name(t, symbols, &e, at));
    x->self += e.sample.weight;
  }
}

static void gather_gpu(Flame *f) {
  IntervalStacks stacks = {.arena = f->t->arena};
  Map *names = map_create(f->t->arena, true);
  char text[600];
  for (const JoinedEvent *i; (i = events_next(f->t));) {
    if (event_of_thread(i)) intervals_open(&stacks, i);
    if (!event_is_activity(i)) continue;
    Frame *x = f->root;
    if (f->t->processes.n > 1) {
      const ProcessInfo *p = events_process(f->t, i->process);
      snprintf(text, sizeof text, "%.300s (%u)", p ? trace_text(f->t->reader, p->name) : "process", i->process);
      x = child_of(f, x, text);
    }
    IntervalStack *n;
    int depth = intervals_launch(&stacks, i, &n);
    for (int at = 0, most = DEEPEST - 4; at < depth && most; at++)
      if (n->open[at].event.kind == TRACE_RANGE)
        x = child_of(f, x, trace_text(f->t->reader, n->open[at].event.name)), most--;
    const char *name = event_name(f->t, i), *known = i->kind == TRACE_KERNEL ? map_get(names, name) : name;
    if (!known) {
      known = arena_strdup(f->t->arena, name_legible(name, 70, text, sizeof text));
      map_put(names, arena_strdup(f->t->arena, name), (void *)known);
    }
    x = child_of(f, x, known);
    x->self += i->end - i->start;
  }
}

/* ---- folded ------------------------------------------------------------------------------------------------------ */

static void folded_name(FILE *out, const char *s) { /* ; and line ends have a meaning there */
  for (; *s; s++) putc(*s == ';' ? ':' : (unsigned char)*s < 0x20 ? ' ' : *s, out);
}

static void print_folded(FILE *out, const Frame **path, int depth, const Frame *x) {
  path[depth] = x;
  if (x->self > 0 && depth) {
    for (int i = 1; i <= depth; i++) folded_name(out, path[i]->name), putc(i < depth ? ';' : ' ', out);
    fprintf(out, "%lld\n", (long long)x->self);
  }
  for (const Frame *c = x->child; c && depth + 1 < DEEPEST; c = c->next) print_folded(out, path, depth + 1, c);
}

/* ---- SVG --------------------------------------------------------------------------------------------------------- */

enum { WIDTH = 1200, ROW = 18, TOP = 68, BOTTOM = 12, MARGIN = 10 };

static int depth_of(const Frame *x, double scale) {
  int most = 0;
  for (const Frame *c = x->child; c; c = c->next)
    if ((double)c->total * scale >= 0.33) {
      int d = depth_of(c, scale);
      if (d > most) most = d;
    }
  return most + 1;
}

/* Warm colours by name, so that one function has one colour everywhere; ranges and kernels of a GPU are blue and green.
 */
static void color_of(const Frame *x, bool gpu, char out[32]) {
  uint64_t h = hash_bytes(x->name, strlen(x->name), 0);
  if (gpu)
    snprintf(out, 32, "hsl(%d,45%%,%d%%)", x->child ? 205 + (int)(h % 30) : 140 + (int)(h % 40),
             62 + (int)(h >> 8) % 12);
  else if (!strncmp(x->name, "python:", 7))
    snprintf(out, 32, "hsl(%d,55%%,%d%%)", 195 + (int)(h % 35), 65 + (int)(h >> 8) % 10);
  else snprintf(out, 32, "hsl(%d,%d%%,%d%%)", 15 + (int)(h % 35), 70 + (int)(h >> 8) % 20, 62 + (int)(h >> 16) % 10);
}

static void draw(FILE *out, const Frame *x, const Frame *root, bool gpu, int64_t start, int level, double scale) {
  double left = (double)start * scale, width = (double)x->total * scale;
  if (width < 0.33) return;
  char color[32], took[32];
  color_of(x, gpu, color);
  fprintf(out, "<g class=\"f\" data-x=\"%.4f\" data-w=\"%.4f\" data-l=\"%d\"><title>", left, width, level);
  xml_text(out, x->name);
  fprintf(out, "\n%s, %.2f%%", time_text(took, (double)x->total), 100.0 * (double)x->total / (double)root->total);
  if (x->child && x->self) fprintf(out, "; %s without what it calls", time_text(took, (double)x->self));
  fprintf(
      out,
      "</title><rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" rx=\"2\" fill=\"%s\"/><text x=\"%.2f\" y=\"%d\">",
      MARGIN + left, TOP + level * ROW, width < 0.5 ? 0.5 : width - 0.4, ROW - 1, color, MARGIN + left + 3,
      TOP + (level + 1) * ROW - 6);
  int room = (int)((width - 6) / 6.7), columns = utf8_columns(x->name);
  if (room >= 3) {
    char *cut = strdup(x->name);
    size_t end = 0;
    int keep = columns <= room ? columns : room - 1;
    for (; cut && cut[end]; end++)
      if (((unsigned char)cut[end] & 0xC0) != 0x80 && keep-- == 0) break;
    if (cut) cut[end] = 0, xml_text(out, cut);
    if (columns > room) fputs("…", out);
    free(cut);
  }
  fputs("</text></g>\n", out);
  int64_t at = start;
  for (const Frame *c = x->child; c && level < DEEPEST; c = c->next)
    draw(out, c, root, gpu, at, level + 1, scale), at += c->total;
}

static const char flame_script[] =
#include "flame.js.inc"
    ;

static void print_svg(Flame *f, FILE *out, const char *title, bool gpu) {
  const Frame *root = f->root;
  double scale = root->total ? (double)(WIDTH - 2 * MARGIN) / (double)root->total : 0;
  int levels = root->total ? depth_of(root, scale) : 1, height = TOP + BOTTOM + levels * ROW;
  char took[32];
  fprintf(out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
          "font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"11\">\n",
          WIDTH, height, WIDTH, height);
  fputs("<style>.bg{fill:#fff}.ink{fill:#222}.f text{fill:#111;pointer-events:none}.f:hover "
        "rect{stroke:#000;stroke-width:.7}.f.hit rect{fill:#e13bd0}.f.dim{opacity:.45}"
        ".b{cursor:pointer}.off{display:none}@media(prefers-color-scheme:dark){.bg{fill:#16181d}.ink{fill:#dde}.f:"
        "hover rect{stroke:#fff}}</style>\n",
        out);
  fprintf(out,
          "<rect class=\"bg\" width=\"%d\" height=\"%d\"/>\n<text class=\"ink\" x=\"%d\" y=\"24\" font-size=\"16\" "
          "font-family=\"sans-serif\">",
          WIDTH, height, MARGIN);
  char short_title[120];
  snprintf(short_title, sizeof short_title, strlen(title) > 110 ? "%.106s ..." : "%s", title);
  xml_text(out, short_title);
  fprintf(out,
          "</text>\n<text class=\"ink\" x=\"%d\" y=\"42\" font-family=\"sans-serif\">%s of %s; a frame's width is its "
          "time</text>\n",
          MARGIN, time_text(took, (double)root->total), gpu ? "GPU time by range and kernel" : "CPU time by stack");
  fprintf(out,
          "<text id=\"reset\" class=\"ink b off\" x=\"%d\" y=\"24\" text-anchor=\"end\">reset zoom</text><text "
          "id=\"search\" class=\"ink b\" x=\"%d\" y=\"24\" text-anchor=\"end\">search</text>\n",
          WIDTH - MARGIN - 70, WIDTH - MARGIN);
  fprintf(out,
          "<text id=\"info\" class=\"ink\" x=\"%d\" y=\"60\"> </text><text id=\"found\" class=\"ink\" x=\"%d\" "
          "y=\"42\" text-anchor=\"end\"> </text>\n<g id=\"frames\">\n",
          MARGIN, WIDTH - MARGIN);
  if (root->total) draw(out, root, root, gpu, 0, 0, scale);
  fputs("</g>\n<script><![CDATA[\n", out);
  fputs(flame_script, out);
  fputs("]]></script>\n</svg>\n", out);
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

static void run(EventJoin *t, FILE *out, const ViewOptions *o, bool gpu, bool svg) {
  Flame f = {.t = t, .root = NEW(t->arena, Frame), .edges = map_create(t->arena, true)};
  f.root->name = "all";
  if (!events_begin(t, BY_LAUNCH)) return;
  if (gpu && !t->has_gpu) {
    snprintf(t->error, sizeof t->error,
             "no GPU ran in this trace: there is no GPU time to show (the flame graph of CPU time needs samples)");
    return;
  }
  if (!gpu && !t->counts[TRACE_SAMPLE]) {
    snprintf(t->error, sizeof t->error, "there are no samples of the CPU in this trace: record it with sampling on");
    return;
  }
  if (gpu) gather_gpu(&f);
  else {
    Symbols *symbols = samples_begin(t);
    gather_cpu(&f, symbols);
    symbols_free(symbols);
  }
  buf_destroy(&f.key);
  if (t->error[0]) return;
  finish(&f, f.root);
  if (svg)
    print_svg(&f, out,
              o->title         ? o->title
              : t->processes.n ? trace_text(t->reader, t->processes.at[0].name)
                               : "profile",
              gpu);
  else print_folded(out, NEW_N(t->arena, const Frame *, DEEPEST + 2), 0, f.root);
}
static void folded(EventJoin *t, FILE *out, const ViewOptions *o) { run(t, out, o, false, false); }
static void flame(EventJoin *t, FILE *out, const ViewOptions *o) { run(t, out, o, false, true); }
static void folded_gpu(EventJoin *t, FILE *out, const ViewOptions *o) { run(t, out, o, true, false); }
static void flame_gpu(EventJoin *t, FILE *out, const ViewOptions *o) { run(t, out, o, true, true); }

int view_folded(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]) {
  return view_run(r, out, o, why, folded);
}
int view_flame(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]) {
  return view_run(r, out, o, why, flame);
}
int view_folded_gpu(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]) {
  return view_run(r, out, o, why, folded_gpu);
}
int view_flame_gpu(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]) {
  return view_run(r, out, o, why, flame_gpu);
}
