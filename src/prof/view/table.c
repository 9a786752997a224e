/* table: what a run consisted of, as PyTorch's profiler prints it: a row a name, with
 *
 *     Self CPU     time in it on its thread, without what is nested in it     CPU total    the same with that
 *     Self CUDA    time of the kernel, copy or fill itself on a GPU           CUDA total   of a call, what it started;
 *                  of a range, what was
 *                                                                                          started within it (on its
 *                                                                                            thread)
 *
 * A name inside of itself counts once in totals. Percentages are of the sums of the two Self columns, which are printed
 * below. Kernels of our own devices without a GPU are intervals of the thread that launched them: their time is CPU
 * time, and without a GPU there are no CUDA columns.
 */
#include <stdlib.h>

#include "prof/view/views.h"

typedef enum { ROW_RANGE, ROW_CALL, ROW_KERNEL, ROW_COPY, ROW_FILL } RowKind;
static const char *const row_kinds[] = {"range", "call", "kernel", "copy", "fill"};

typedef struct Row {
  RowKind kind;
  const char *name, *shapes, *legible;
  bool on_gpu;
  int64_t self_cpu, cpu, self_cuda, cuda, calls;
  double flops, bytes, moved;
} Row;

typedef struct Table {
  EventJoin *t;
  const ViewOptions *o;
  Map *by_key;
  VEC(Row) rows;
  Buf key;
  int64_t self_cpu, self_cuda;
} Table;

static int row_of(Table *v, const JoinedEvent *i) {
  RowKind kind = i->kind == TRACE_RANGE    ? ROW_RANGE
                 : i->kind == TRACE_CALL   ? ROW_CALL
                 : i->kind == TRACE_KERNEL ? ROW_KERNEL
                 : i->kind == TRACE_COPY   ? ROW_COPY
                                           : ROW_FILL;
  const char *name = event_name(v->t, i),
             *shapes = v->o->shapes && i->shapes ? trace_text(v->t->reader, i->shapes) : "";
  v->key.n = 0;
  buf_printf(&v->key, "%d%d%s", kind, i->on_gpu, name);
  buf_putc(&v->key, '\n'), buf_puts(&v->key, shapes);
  if (v->key.failed) context_out_of_memory(v->t->cx);
  int *at = map_get_n(v->by_key, v->key.at, v->key.n);
  if (at) return *at;
  at = NEW(v->t->arena, int);
  *at = v->rows.n;
  map_put_n(v->by_key, arena_copy(v->t->arena, v->key.at, v->key.n), v->key.n, at);
  vec_push(v->t->arena, &v->rows,
           (Row){.kind = kind,
                 .name = arena_strdup(v->t->arena, name),
                 .shapes = arena_strdup(v->t->arena, shapes),
                 .on_gpu = i->on_gpu});
  return *at;
}

static bool again(const IntervalStack *n, int at) { /* whether its row is open further out */
  for (int i = 0; i < at; i++)
    if (n->open[i].row == n->open[at].row) return true;
  return false;
}

static void closed(void *view, IntervalStack *n, const Open *o) {
  Table *v = view;
  Row *r = &v->rows.at[o->row];
  int64_t took = o->event.end - o->event.start, self = took - o->covered;
  r->self_cpu += self > 0 ? self : 0, v->self_cpu += self > 0 ? self : 0;
  bool outer = true;
  for (int i = 0; i < n->n - 1; i++) outer &= n->open[i].row != o->row;
  if (outer) r->cpu += took;
}

static void gather(Table *v) {
  IntervalStacks stacks = {.arena = v->t->arena, .closed = closed, .view = v};
  for (const JoinedEvent *i; (i = events_next(v->t));) {
    if (!event_of_thread(i) && !event_is_activity(i)) continue;
    int row = row_of(v, i);
    Row *r = &v->rows.at[row];
    r->calls++, r->flops += i->flops, r->bytes += i->bytes;
    if (i->kind == TRACE_COPY || i->kind == TRACE_FILL) r->moved += (double)i->moved;
    if (event_of_thread(i)) {
      intervals_open(&stacks, i)->row = row;
      continue;
    }
    int64_t took = i->end - i->start;
    r->self_cuda += took, r->cuda += took, v->self_cuda += took;
    IntervalStack *n;
    for (int at = intervals_launch(&stacks, i, &n); at >= 0; at--)
      if (!again(n, at)) v->rows.at[n->open[at].row].cuda += took;
  }
  intervals_close_all(&stacks);
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static const char *const sort_names[] = {"self_cuda", "cuda_total", "self_cpu", "cpu_total", "calls", "name"};
typedef struct Sorted {
  const Row *row;
  double key;
} Sorted;

static int by_key(const void *a, const void *b) {
  const Sorted *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? 1 : -1;
  int c = strcmp(x->row->name, y->row->name);
  if (!c) c = strcmp(x->row->shapes, y->row->shapes);
  return c ? c : (int)x->row->kind - (int)y->row->kind;
}

static double key_of(const Row *r, const char *sort) {
  if (!strcmp(sort, "self_cuda")) return (double)r->self_cuda;
  if (!strcmp(sort, "cuda_total")) return (double)r->cuda;
  if (!strcmp(sort, "self_cpu")) return (double)r->self_cpu;
  if (!strcmp(sort, "cpu_total")) return (double)r->cpu;
  return !strcmp(sort, "calls") ? (double)r->calls : 0;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

void cell_percent(FILE *out, int64_t part, int64_t whole) {
  char text[32];
  snprintf(text, sizeof text, "%.2f%%", whole ? 100.0 * (double)part / (double)whole : 0.0);
  fprintf(out, "  %12s", text);
}
void cell_time(FILE *out, double ns) {
  char text[32];
  fprintf(out, "  %12s", time_text(text, ns));
}
void cell_name(FILE *out, const char *text, int width) {
  fprintf(out, "%*s", width - utf8_columns(text), ""), plain_text(out, text);
}
static void rule_part(FILE *out, int width, int columns) {
  for (int i = 0; i < width; i++) putc('-', out);
  for (int c = 0; c < columns; c++) fputs("  ------------", out);
}
void cell_rule(FILE *out, int width, int columns) { rule_part(out, width, columns), putc('\n', out); }
static void rule(FILE *out, int width, int shapes, int columns) {
  rule_part(out, width, columns);
  if (shapes) fputs("  ", out);
  for (int i = 0; i < shapes; i++) putc('-', out);
  putc('\n', out);
}

static void print_text(Table *v, const Sorted *s, int n, FILE *out) {
  bool gpu = v->t->has_gpu;
  static const char *const cpu_heads[] = {"Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"},
                           *const cuda_heads[] = {"Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"};
  int width = 20, shapes = 0, columns = gpu ? 10 : 6;
  for (int i = 0; i < n; i++) {
    int w = utf8_columns(s[i].row->legible), h = utf8_columns(s[i].row->shapes);
    if (w > width) width = w;
    if (h > shapes) shapes = h;
  }
  if (shapes && shapes < 6) shapes = 6;
  rule(out, width, shapes, columns);
  cell_name(out, "Name", width);
  for (int c = 0; c < 5; c++) fprintf(out, "  %12s", cpu_heads[c]);
  for (int c = 0; gpu && c < 4; c++) fprintf(out, "  %12s", cuda_heads[c]);
  fprintf(out, "  %12s", "# of Calls");
  if (shapes) fputs("  ", out), cell_name(out, "Shapes", shapes);
  putc('\n', out);
  rule(out, width, shapes, columns);
  for (int i = 0; i < n; i++) {
    const Row *r = s[i].row;
    cell_name(out, r->legible, width);
    cell_percent(out, r->self_cpu, v->self_cpu), cell_time(out, (double)r->self_cpu);
    cell_percent(out, r->cpu, v->self_cpu), cell_time(out, (double)r->cpu);
    cell_time(out, (double)r->cpu / (double)r->calls);
    if (gpu) {
      cell_time(out, (double)r->self_cuda), cell_percent(out, r->self_cuda, v->self_cuda);
      cell_time(out, (double)r->cuda), cell_time(out, (double)r->cuda / (double)r->calls);
    }
    fprintf(out, "  %12lld", (long long)r->calls);
    if (shapes) fputs("  ", out), cell_name(out, r->shapes, shapes);
    putc('\n', out);
  }
  rule(out, width, shapes, columns);
  char text[32];
  if (n < v->rows.n) fprintf(out, "%d of %d rows\n", n, v->rows.n);
  fprintf(out, "Self CPU time total: %s\n", time_text(text, (double)v->self_cpu));
  if (gpu) fprintf(out, "Self CUDA time total: %s\n", time_text(text, (double)v->self_cuda));
  events_warnings(v->t, out, "note: ");
}

static void print_json(Table *v, const Sorted *s, int n, FILE *out) {
  JsonWriter w = {.file = out, .spaced = true};
  json_begin_object(&w, NULL);
  json_put_int(&w, "self_cpu_ns", v->self_cpu);
  json_put_int(&w, "self_cuda_ns", v->self_cuda);
  json_put_bool(&w, "gpu", v->t->has_gpu);
  json_put_bool(&w, "truncated", v->t->truncated);
  json_put_int(&w, "lost", v->t->lost);
  json_put_int(&w, "row_count", v->rows.n);
  json_break(&w, "\n ");
  json_begin_array(&w, "rows");
  for (int i = 0; i < n; i++) {
    const Row *r = s[i].row;
    char full[4096];
    json_break(&w, "\n  ");
    json_begin_object(&w, NULL);
    json_put_text(&w, "name", r->name);
    json_put_text(&w, "short", r->legible);
    if (r->kind == ROW_KERNEL) json_put_text(&w, "demangled", name_demangled(r->name, full, sizeof full));
    json_put_text(&w, "kind", row_kinds[r->kind]);
    json_put_int(&w, "calls", r->calls);
    json_put_int(&w, "self_cpu_ns", r->self_cpu);
    json_put_int(&w, "cpu_ns", r->cpu);
    json_put_int(&w, "self_cuda_ns", r->self_cuda);
    json_put_int(&w, "cuda_ns", r->cuda);
    if (*r->shapes) json_put_text(&w, "shapes", r->shapes);
    if (r->flops > 0) json_put_real(&w, "flops", 17, r->flops);
    if (r->bytes + r->moved > 0) json_put_real(&w, "bytes", 17, r->bytes + r->moved);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
  fputc('\n', out);
}

static void table(EventJoin *t, FILE *out, const ViewOptions *o) {
  Table v = {.t = t, .o = o, .by_key = map_create(t->arena, true)};
  const char *sort = o->sort;
  bool known = !sort;
  for (size_t i = 0; i < sizeof sort_names / sizeof *sort_names && sort; i++) known |= !strcmp(sort, sort_names[i]);
  if (!known) {
    snprintf(t->error, sizeof t->error,
             "a table cannot be sorted by \"%.40s\": sort by self_cuda, cuda_total, self_cpu, cpu_total, calls or name",
             sort);
    return;
  }
  if (!events_begin(t, BY_LAUNCH)) return;
  gather(&v);
  buf_destroy(&v.key);
  if (t->error[0]) return;
  if (!sort) sort = t->has_gpu ? "self_cuda" : "self_cpu";
  Sorted *s = NEW_N(t->arena, Sorted, v.rows.n + 1);
  const char **names = NEW_N(t->arena, const char *, v.rows.n + 1),
             **legible = NEW_N(t->arena, const char *, v.rows.n + 1);
  for (int i = 0; i < v.rows.n; i++) names[i] = v.rows.at[i].name;
  names_legible(t->arena, names, v.rows.n, o->width, legible);
  for (int i = 0; i < v.rows.n; i++) /* only kernels have names of C++ */
    if (v.rows.at[i].kind != ROW_KERNEL && utf8_columns(names[i]) <= (o->width ? o->width : 60)) legible[i] = names[i];
  for (int i = 0; i < v.rows.n; i++)
    v.rows.at[i].legible = legible[i], s[i] = (Sorted){&v.rows.at[i], key_of(&v.rows.at[i], sort)};
  qsort(s, (size_t)v.rows.n, sizeof *s, by_key);
  int n = o->rows > 0 && o->rows < v.rows.n ? o->rows : v.rows.n;
  (o->json ? print_json : print_text)(&v, s, n, out);
}

int view_table(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]) {
  return view_run(r, out, o, why, table);
}
