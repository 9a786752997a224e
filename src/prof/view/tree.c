/* tree: scopes, nested as they were open, with the kernels that were launched in them as leaves; as Proton has it.
 *
 *     time/ms tflop/s
 *     0.040 6.645 ROOT
 *     ├─ 0.004 nan distribution_uniform
 *     └─ 0.037 7.284 fused_gemm_bias_relu [M=1024, N=256, K=512]      a scope, with the flops that the user gave it
 *        └─ 0.037 nan fused_gemm_bias_relu                            a kernel, launched while the scope was open
 *
 * Scopes of one name in one place are one node, as are kernels of one name; a node's figures are the sums of what is in
 * and below it. Time is that of kernels, copies and fills on the device, by launch: what ran for a scope may have run
 * after it was left.
 *
 * Rates are flops and bytes by time. What the user says of a scope takes the place of what was counted (TRACE_WORK) for
 * the launches in it, so that nothing counts twice.
 */
#include <math.h>
#include <stdlib.h>

#include "prof/view/views.h"

typedef enum { NODE_SCOPE, NODE_KERNEL, NODE_MOVE } NodeKind;
static const char *const node_kinds[] = {"scope", "kernel", "copy"};

/* scopes that a loop opens and never leaves go no deeper */
enum { PROCESS_NODE = 1 /* in place of a device */, MOST_DEEP = 200 };

typedef struct Key {
  int32_t parent;
  uint32_t kind, name, device;
} Key;

typedef struct Metric { /* a figure of the user's */
  const char *name;
  double value;
  struct Metric *next;
} Metric;

typedef struct Node {
  Key key;
  const char *name;
  struct Node *parent, *first, *last, *next;
  int index, depth;
  int64_t calls;
  double time, cpu;    /* ns, of its own: of a leaf on the device; of a scope by the clock, with all in it */
  double flops, bytes; /* counted */
  Metric *metrics;
  double total_time;   /* with all below */
  int64_t total_calls; /* of leaves */
  bool hidden, on_gpu;
} Node;

typedef struct Tree {
  EventJoin *t;
  const ViewOptions *o;
  Arena *arena;
  Map *by_key;
  VEC(Node *) nodes; /* the root first; parents before their children */
  bool has_scopes;
} Tree;

/* ---- from the trace ---------------------------------------------------------------------------------------------- */

static Node *node_of(Tree *v, Node *parent, NodeKind kind, uint32_t name_id, uint32_t device, const char *name) {
  Key key = {parent ? parent->index : -1, (uint32_t)kind, name_id, device};
  Node *n = map_get_n(v->by_key, (char *)&key, sizeof key);
  if (n) return n;
  n = NEW(v->arena, Node);
  *n = (Node){.key = key,
              .name = arena_strdup(v->arena, name),
              .parent = parent,
              .index = v->nodes.n,
              .depth = parent ? parent->depth + 1 : 0};
  vec_push(v->arena, &v->nodes, n);
  map_put_n(v->by_key, (char *)&n->key, sizeof n->key, n);
  if (!parent) return n;
  if (parent->last) parent->last->next = n;
  else parent->first = n;
  return parent->last = n;
}

static void add_metric(Tree *v, Node *n, const char *name, double value) {
  Metric **at = &n->metrics;
  while (*at && strcmp((*at)->name, name)) at = &(*at)->next;
  if (!*at) {
    *at = NEW(v->arena, Metric);
    (*at)->name = arena_strdup(v->arena, name);
  }
  (*at)->value += value;
}

/* With several processes each has a node below the root. */
static Node *top_of(Tree *v, uint32_t process) {
  Node *root = v->nodes.at[0];
  if (v->t->processes.n < 2) return root;
  const ProcessInfo *p = events_process(v->t, process);
  return node_of(v, root, NODE_SCOPE, process, PROCESS_NODE,
                 arena_printf(v->arena, "process %u: %.80s", process, p ? trace_text(v->t->reader, p->name) : ""));
}

/* The node of the innermost scope among open[0 .. n-1]. */
static Node *scope_in(Tree *v, const IntervalStack *stack, int n, uint32_t process) {
  while (stack && n > 0 && stack->open[n - 1].event.kind != TRACE_RANGE) n--;
  Node *found = stack && n > 0 ? v->nodes.at[stack->open[n - 1].row] : top_of(v, process);
  while (found->depth >= MOST_DEEP) found = found->parent;
  return found;
}

static void add_leaf(Tree *v, Node *parent, const JoinedEvent *i) {
  bool is_kernel = i->kind == TRACE_KERNEL;
  uint32_t what = is_kernel ? i->name : (uint32_t)(i->kind == TRACE_FILL ? 0x100 : i->sub) | (uint32_t)i->pageable << 9;
  Node *n = node_of(v, parent, is_kernel ? NODE_KERNEL : NODE_MOVE, what, i->device, event_name(v->t, i));
  n->calls++, n->time += (double)(i->end - i->start);
  n->flops += i->flops, n->bytes += i->bytes;
  n->on_gpu = i->on_gpu;
}

static void gather(Tree *v) {
  IntervalStacks stacks = {.arena = v->arena};
  node_of(v, NULL, NODE_SCOPE, 0, 0, "ROOT");
  for (const JoinedEvent *i; (i = events_next(v->t));) {
    if (event_is_activity(i)) {
      IntervalStack *stack;
      int depth = intervals_launch(&stacks, i, &stack);
      add_leaf(v, scope_in(v, stack, depth + 1, i->process), i);
    } else if (i->kind == TRACE_METRIC) {
      IntervalStack *stack = intervals_get(&stacks, i->process, i->thread);
      int at = stack->n - 1;
      while (at >= 0 && !(stack->open[at].event.kind == TRACE_RANGE && stack->open[at].event.id == i->id)) at--;
      add_metric(v, at < 0 ? top_of(v, i->process) : v->nodes.at[stack->open[at].row], event_name(v->t, i), i->value);
    } else if (event_of_thread(i)) {
      Open *o = intervals_open(&stacks, i);
      IntervalStack *stack = intervals_get(&stacks, i->process, i->thread);
      Node *around = scope_in(v, stack, stack->n - 1, i->process);
      if (i->kind == TRACE_RANGE) {
        Node *n = node_of(v, around, NODE_SCOPE, i->name, 0, event_name(v->t, i));
        n->calls++, n->cpu += (double)(i->end - i->start);
        o->row = n->index;
        v->has_scopes = true;
      } else if (i->kind != TRACE_CALL) {
        add_leaf(v, around, i);
      }
    }
  }
  for (int i = v->nodes.n - 1; i >= 0; i--) { /* children come after their parents */
    Node *n = v->nodes.at[i], *p = n->parent;
    n->total_time += n->time;
    if (n->key.kind != NODE_SCOPE) n->total_calls = n->calls;
    if (p) p->total_time += n->total_time, p->total_calls += n->total_calls;
  }
  Node *root = v->nodes.at[0], *only = root->first;
  /* the others did nothing */
  if (only && only == root->last && only->key.kind == NODE_SCOPE && only->key.device == PROCESS_NODE) {
    root->first = only->first, root->last = only->last;
    for (Node *n = root->first; n; n = n->next) n->parent = root;
    only->hidden = true;
  }
  for (const Node *n = root->first; n; n = n->next) root->cpu += n->cpu;
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static const Metric *metric_of(const Node *n, const char *name) {
  for (const Metric *m = n->metrics; m; m = m->next)
    if (!strcmp(m->name, name)) return m;
  return NULL;
}

static double counted(const Node *n, const char *name) {
  return !strcmp(name, "flops") ? n->flops : !strcmp(name, "bytes") ? n->bytes : 0;
}

static bool is_covered(const Node *n, const char *name) { /* the user gave it for a scope around n */
  for (n = n->parent; n; n = n->parent)
    if (metric_of(n, name)) return true;
  return false;
}

/* Of n and all below it; NAN: nobody knows. `top`: what was counted of a leaf is shown at the leaf itself in any case.
 */
static double total(const Node *n, const char *name, bool covered, bool top) {
  const Metric *own = metric_of(n, name);
  double sum = own ? own->value : 0, c = counted(n, name);
  bool known = own;
  if (c > 0 && (top || !covered)) sum += c, known = true;
  for (const Node *k = n->first; k; k = k->next) {
    double below = total(k, name, covered || own, false);
    if (!isnan(below)) sum += below, known = true;
  }
  return known ? sum : NAN;
}

static double total_of(const Node *n, const char *name) { return total(n, name, is_covered(n, name), true); }

typedef enum { COL_TIME, COL_CPU, COL_COUNT, COL_METRIC, COL_RATE } ColumnKind;
typedef struct Column {
  ColumnKind kind;
  const char *label, *metric;
  double factor;
  bool average, percent;
} Column;

static double base_value(const Column *c, const Node *n) {
  switch (c->kind) {
    case COL_TIME: return n->total_time;
    case COL_CPU: return n->key.kind == NODE_SCOPE ? n->cpu : NAN;
    case COL_COUNT: return (double)(n->key.kind == NODE_SCOPE && n->calls ? n->calls : n->total_calls);
    default: return total_of(n, c->metric);
  }
}

static double value(const Tree *v, const Column *c, const Node *n) {
  double x = base_value(c, n);
  if (c->percent) return 100 * x / base_value(c, v->nodes.at[0]);
  if (c->average) {
    double calls = (double)(c->kind == COL_CPU ? n->calls : n->total_calls);
    return calls > 0 ? x / calls / c->factor : NAN;
  }
  if (c->kind == COL_RATE) return n->total_time > 0 ? x / (n->total_time * 1e-9) / c->factor : NAN;
  return x / c->factor;
}

static double unit_of(const char *text) { /* ns in it; 0: no unit of time */
  static const struct {
    const char *name;
    double ns;
  } units[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (!strcmp(units[i].name, text)) return units[i].ns;
  return 0;
}

static bool has_metric(const Tree *v, const char *name) {
  for (int i = 0; i < v->nodes.n; i++)
    if (metric_of(v->nodes.at[i], name) || counted(v->nodes.at[i], name) > 0) return true;
  return false;
}

/* "tflop/s", "gflop16/s", "gbyte/s": by which figure, and its factor. */
static bool parse_rate(const Tree *v, const char *text, Column *c) {
  static const struct {
    char letter;
    double factor;
  } scales[] = {{'g', 1e9}, {'t', 1e12}, {'m', 1e6}};
  double factor = 1;
  const char *at = text;
  for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++)
    if (*at == scales[i].letter && (!strncmp(at + 1, "flop", 4) || !strncmp(at + 1, "byte", 4)))
      factor = scales[i].factor, at++;
  size_t digits = strspn(at + 4, "0123456789");
  if (!strncmp(at, "flop", 4) && !strcmp(at + 4 + digits, "/s"))
    *c = (Column){COL_RATE, text, arena_printf(v->arena, "flops%.*s", (int)digits, at + 4), factor, false, false};
  else if (!strcmp(at, "byte/s")) *c = (Column){COL_RATE, text, "bytes", factor, false, false};
  else return false;
  return true;
}

static bool parse_column(const Tree *v, char *text, Column *c) {
  *c = (Column){.label = text, .factor = 1};
  if (parse_rate(v, text, c)) return true;
  char *name = arena_strdup(v->arena, text), *slash = strrchr(name, '/');
  const char *unit = slash ? slash + 1 : "";
  if (slash) *slash = 0;
  c->percent = !strcmp(unit, "%");
  c->average = !strncmp(name, "avg_", 4);
  const char *base = c->average ? name + 4 : name;
  bool time = !strcmp(base, "time") || !strcmp(base, "cpu_time");
  if (time) {
    c->kind = *base == 't' ? COL_TIME : COL_CPU;
    if (!c->percent) c->factor = *unit ? unit_of(unit) : 1;
    return c->factor > 0;
  }
  if (*unit && !c->percent) return false;
  c->average = false;
  if (!strcmp(name, "count")) return c->kind = COL_COUNT, true;
  c->kind = COL_METRIC, c->metric = name;
  return has_metric(v, name);
}

enum { MOST_COLUMNS = 16 };

static const char *default_columns(const Tree *v) {
  const Node *root = v->nodes.at[0];
  Buf text = {0};
  bool device = root->total_time > 0;
  double most = device ? root->total_time : root->cpu;
  buf_printf(&text, "%s/%s", device ? "time" : "cpu_time", most < 1e4 ? "ns" : most < 1e7 ? "us" : "ms");
  bool rates = device && !events_simulated(v->t); /* a simulator's time says nothing of a machine */
  if (rates && has_metric(v, "flops"))
    buf_puts(&text, total_of(root, "flops") / root->total_time >= 100 ? ",tflop/s" : ",gflop/s");
  for (int w = 8; rates && w <= 64; w *= 2) {
    char name[20];
    snprintf(name, sizeof name, "flops%d", w);
    if (has_metric(v, name)) buf_printf(&text, ",tflop%d/s", w);
  }
  if (rates && has_metric(v, "bytes")) buf_puts(&text, ",gbyte/s");
  const char *result = arena_strdup(v->arena, text.failed ? "time/ms" : text.at);
  buf_destroy(&text);
  return result;
}

/* How many; 0: v->t->error says what is wrong. */
static int parse_columns(Tree *v, Column columns[MOST_COLUMNS]) {
  char *text = arena_strdup(v->arena, v->o->metrics ? v->o->metrics : default_columns(v)), *rest = NULL;
  int n = 0;
  for (char *word = strtok_r(text, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest)) {
    if (n == MOST_COLUMNS) return snprintf(v->t->error, sizeof v->t->error, "more than %d metrics", MOST_COLUMNS), 0;
    if (!parse_column(v, word, &columns[n++]))
      return snprintf(v->t->error, sizeof v->t->error,
                      "there is no metric '%.60s': time/ms, avg_time/us, cpu_time/ms, count, tflop/s, gbyte/s, or a "
                      "name given to nereid_prof_metric",
                      word),
             0;
  }
  if (!n) snprintf(v->t->error, sizeof v->t->error, "no metric is asked for");
  return n;
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static int longer_first(const void *x, const void *y) {
  const Node *a = *(Node *const *)x, *b = *(Node *const *)y;
  double ta = a->total_time + a->cpu, tb = b->total_time + b->cpu;
  return ta != tb ? (ta < tb ? 1 : -1) : a->index - b->index;
}

/* Of more nodes than asked for those with the most time stay. A node has no more than its parent, so no child outlives
 * it. */
static void hide_small(Tree *v) {
  int keep = v->o->rows;
  if (keep <= 0 || v->nodes.n <= keep) return;
  Node **order = arena_copy(v->arena, v->nodes.at, sizeof *order * (size_t)v->nodes.n);
  qsort(order, (size_t)v->nodes.n, sizeof *order, longer_first);
  for (int i = keep; i < v->nodes.n; i++) order[i]->hidden = true;
  v->nodes.at[0]->hidden = false;
  for (int i = 1; i < v->nodes.n; i++)
    if (v->nodes.at[i]->parent->hidden) v->nodes.at[i]->hidden = true;
}

typedef struct Printer {
  const Tree *v;
  const Column *columns;
  int column_count;
  FILE *out;
  Buf indent;
} Printer;

static void print_node(Printer *p, const Node *n, bool last) {
  if (n->parent) fprintf(p->out, "%s%s", p->indent.at ? p->indent.at : "", last ? "└─ " : "├─ ");
  for (int i = 0; i < p->column_count; i++) {
    double x = value(p->v, &p->columns[i], n);
    bool whole = p->columns[i].kind == COL_COUNT && !p->columns[i].percent;
    if (isnan(x)) fprintf(p->out, "nan ");
    else fprintf(p->out, whole ? "%.0f " : fabs(x) >= 1e6 ? "%.4g " : "%.3f ", x);
  }
  char name[1024];
  plain_text(p->out, n->key.kind == NODE_KERNEL
                         ? name_legible(n->name, p->v->o->width ? p->v->o->width : 60, name, sizeof name)
                         : n->name);
  putc('\n', p->out);
  size_t before = p->indent.n;
  if (n->parent) buf_puts(&p->indent, last ? "   " : "│  ");
  int hidden = 0;
  const Node *final = NULL;
  for (const Node *k = n->first; k; k = k->next) {
    if (k->hidden) hidden++;
    else final = k;
  }
  for (const Node *k = n->first; k; k = k->next)
    if (!k->hidden) print_node(p, k, k == final && !hidden);
  if (hidden) fprintf(p->out, "%s└─ (%d more)\n", p->indent.at ? p->indent.at : "", hidden);
  if (p->indent.at) p->indent.n = before, p->indent.at[before] = 0;
}

static void print_text(Tree *v, FILE *out) {
  Column columns[MOST_COLUMNS];
  Printer p = {v, columns, parse_columns(v, columns), out, {0}};
  if (!p.column_count) return;
  hide_small(v);
  for (int i = 0; i < p.column_count; i++) fprintf(out, "%s ", columns[i].label);
  fprintf(out, "(%s)\n",
          v->has_scopes ? "scopes, and what was launched in them" : "there are no scopes: what was launched");
  print_node(&p, v->nodes.at[0], true);
  buf_destroy(&p.indent);
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */

static void put_if_finite(JsonWriter *w, const char *name, double x) {
  if (isfinite(x)) json_put_real(w, name, 15, x);
}

static void put_node(JsonWriter *w, const Node *n) {
  json_begin_object(w, NULL);
  json_put_text(w, "name", n->name);
  json_put_text(w, "kind", node_kinds[n->key.kind]);
  json_put_int(w, "count", n->calls);
  json_put_real(w, "time_ns", 15, n->total_time);
  if (n->key.kind == NODE_SCOPE) put_if_finite(w, "cpu_time_ns", n->cpu);
  put_if_finite(w, "flops", total_of(n, "flops"));
  put_if_finite(w, "bytes", total_of(n, "bytes"));
  json_begin_object(w, "metrics");
  for (const Metric *m = n->metrics; m; m = m->next) json_put_real(w, m->name, 15, m->value);
  json_end_object(w);
  json_begin_array(w, "children");
  for (const Node *k = n->first; k; k = k->next) {
    if (k != n->first) json_break(w, "\n");
    put_node(w, k);
  }
  json_end_array(w);
  json_end_object(w);
}

/* ---- hatchet: the literal that Proton's viewer reads ----------------------------------------------------------------------------------------
 *
 *     [ {"frame": {"name": "ROOT", "type": "function"}, "metrics": {...}, "children": [...]}, {"CUDA": {"0": {"arch":
 * "90", ...}}} ]
 *
 * Figures there are a node's own: the viewer adds up. The root names every figure, so that the viewer knows it for one
 * to add up. Peaks are made by the viewer of a GPU's bus and clocks; what is given here are a bus and clocks that come
 * to the peaks which the trace has. */

static const char *device_name(const Node *n, char out[16]) {
  if (!n->on_gpu) return "0";
  snprintf(out, 16, "%u", n->key.device);
  return out;
}

static void hatchet_node(JsonWriter *w, const Node *n, const char *const *names, int name_count, bool devices) {
  char device[16];
  json_begin_object(w, NULL);
  json_begin_object(w, "frame");
  json_put_text(w, "name", n->name);
  json_put_text(w, "type", "function");
  json_end_object(w);
  json_begin_object(w, "metrics");
  if (n->key.kind != NODE_SCOPE) {
    json_put_int(w, "count", n->calls);
    json_put_text(w, "device_id", device_name(n, device));
    json_put_text(w, "device_type", n->on_gpu ? "CUDA" : "CPU");
    json_put_fixed(w, "time (ns)", 0, n->time);
  } else if (n->parent) {
    double own = n->cpu;
    for (const Node *k = n->first; k; k = k->next)
      if (k->key.kind == NODE_SCOPE) own -= k->cpu;
    if (n->calls) json_put_fixed(w, "cpu_time (ns)", 0, own > 0 ? own : 0);
  } else {
    if (devices) {
      json_put_int(w, "count", 0);
      json_put_int(w, "time (ns)", 0);
    }
    json_put_int(w, "cpu_time (ns)", 0);
  }
  for (int i = 0; i < name_count; i++) {
    const Metric *m = metric_of(n, names[i]);
    double x = (m ? m->value : 0) + (is_covered(n, names[i]) ? 0 : counted(n, names[i]));
    if (n->parent && !m && !(x > 0)) continue;
    json_put_real(w, names[i], 15, isfinite(x) ? x : 0);
  }
  json_end_object(w);
  json_begin_array(w, "children");
  for (const Node *k = n->first; k; k = k->next) {
    if (k != n->first) json_break(w, "\n");
    hatchet_node(w, k, names, name_count, devices);
  }
  json_end_array(w);
  json_end_object(w);
}

static bool uses_device(const Tree *v, uint32_t device, bool on_gpu) {
  for (int i = 0; i < v->nodes.n; i++)
    if (v->nodes.at[i]->key.kind != NODE_SCOPE && v->nodes.at[i]->on_gpu == on_gpu &&
        v->nodes.at[i]->key.device == device)
      return true;
  return false;
}

static void hatchet_device(JsonWriter *w, const char *key, const char *arch, const DeviceInfo *d) {
  int bus = d->multiprocessors ? 8192 : 0; /* bits */
  json_begin_object(w, key);
  json_put_text(w, "arch", arch);
  json_put_int(w, "num_sms", d->multiprocessors);
  json_put_fixed(w, "clock_rate", 0, d->multiprocessors ? d->flops / (256.0 * d->multiprocessors) / 1e3 : 0);
  json_put_fixed(w, "memory_clock_rate", 0, bus ? d->bandwidth * 8 / (2.0 * bus) / 1e3 : 0);
  json_put_int(w, "bus_width", bus);
  json_end_object(w);
}

static void hatchet_devices(const Tree *v, JsonWriter *w) {
  bool first = true;
  json_begin_object(w, NULL);
  for (int i = 0; i < v->t->devices.n; i++) {
    const DeviceInfo *d = &v->t->devices.at[i];
    bool again = false;
    for (int k = 0; k < i; k++) again |= v->t->devices.at[k].device == d->device;
    if (again || d->device == TRACE_CPU_DEVICE || !uses_device(v, d->device, true)) continue;
    if (first) json_begin_object(w, "CUDA");
    first = false;
    char key[16], arch[16];
    snprintf(key, sizeof key, "%u", d->device);
    snprintf(arch, sizeof arch, "%d", d->sm);
    hatchet_device(w, key, arch, d);
  }
  if (!first) json_end_object(w);
  if (uses_device(v, TRACE_CPU_DEVICE, false)) {
    json_begin_object(w, "CPU");
    hatchet_device(w, "0", "cpu", &(DeviceInfo){0});
    json_end_object(w);
  }
  json_end_object(w);
}

static void print_hatchet(Tree *v, FILE *out) {
  VEC(const char *) names = {0};
  bool devices = false;
  static const char *const counts[] = {"flops", "bytes"};
  for (int i = 0; i < 2; i++)
    if (has_metric(v, counts[i])) vec_push(v->arena, &names, counts[i]);
  for (int i = 0; i < v->nodes.n; i++) {
    devices |= v->nodes.at[i]->key.kind != NODE_SCOPE;
    for (const Metric *m = v->nodes.at[i]->metrics; m; m = m->next) {
      int k = 0;
      while (k < names.n && strcmp(names.at[k], m->name)) k++;
      if (k == names.n) vec_push(v->arena, &names, m->name);
    }
  }
  JsonWriter w = {.file = out};
  json_begin_array(&w, NULL);
  hatchet_node(&w, v->nodes.at[0], names.at, names.n, devices);
  json_break(&w, "\n");
  hatchet_devices(v, &w);
  json_end_array(&w);
  fputc('\n', out);
}

/* ---- the views --------------------------------------------------------------------------------------------------- */

static bool load(Tree *v, EventJoin *t, const ViewOptions *o) {
  *v = (Tree){.t = t, .o = o, .arena = t->arena, .by_key = map_create(t->arena, true)};
  if (!events_begin(t, BY_LAUNCH)) return false;
  gather(v);
  return !*t->error;
}

static void tree_body(EventJoin *t, FILE *out, const ViewOptions *o) {
  Tree v;
  if (!load(&v, t, o)) return;
  if (!o->json) {
    print_text(&v, out);
    return;
  }
  put_node(&(JsonWriter){.file = out}, v.nodes.at[0]);
  fputc('\n', out);
}

static void hatchet_body(EventJoin *t, FILE *out, const ViewOptions *o) {
  Tree v;
  if (load(&v, t, o)) print_hatchet(&v, out);
}

int view_tree(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]) {
  return view_run(r, out, o, why, tree_body);
}
int view_hatchet(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]) {
  return view_run(r, out, o, why, hatchet_body);
}
