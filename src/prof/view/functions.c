/* functions: where the processor's time went, by function, of the samples of a trace: what a program that uses no GPU
 * is asked first.
 *
 *     Self CPU     of the samples in which the function itself ran
 *     CPU total    of those in which it was anywhere in the stack, once each
 *
 * A sample stands for the CPU time since the one before it, so the figures add up to the CPU time of the program while
 * it was sampled.
 *
 * Where Python names its functions they have a table of their own, first: there Self CPU is with all that the
 * interpreter and C did for the function, that is, of the samples in which it was the innermost function of Python's.
 */
#include <stdlib.h>

#include "prof/view/views.h"

enum { MOST_ROWS = 20, MOST_PROCESSES = 10 };

typedef struct Function {
  const char *name;
  bool is_python;
  int64_t self, total, last; /* last: the sample in which it was counted last */
} Function;

typedef struct Functions {
  EventJoin *t;
  Map *by_name;
  VEC(Function *) all, python;
  Map *by_process; /* process -> Function, without a name */
  int64_t cpu, samples;
  bool has_interpreter;
} Functions;

static Function *function_of(Functions *f, const char *name) {
  Function *known = map_get(f->by_name, name);
  if (known) return known;
  known = NEW(f->t->arena, Function);
  known->name = arena_strdup(f->t->arena, name);
  map_put(f->by_name, known->name, known);
  known->is_python = !strncmp(name, "python: ", 8);
  if (known->is_python) vec_push(f->t->arena, &f->python, known);
  else vec_push(f->t->arena, &f->all, known);
  f->has_interpreter |= !strncmp(name, "_PyEval_", 8);
  return known;
}

static void count(Functions *f, Symbols *symbols, const TraceEvent *e) {
  bool in_python = false;
  f->samples++, f->cpu += e->sample.weight;
  for (uint32_t at = 0; at < e->sample.depth; at++) {
    Function *x = function_of(f, sample_name(f->t, symbols, e, at));
    if (x->is_python ? !in_python : !at) x->self += e->sample.weight;
    in_python |= x->is_python;
    if (x->last != f->samples) x->total += e->sample.weight;
    x->last = f->samples;
  }
  const void *key = (const void *)(uintptr_t)e->process;
  Function *p = map_get(f->by_process, key);
  if (!p) map_put(f->by_process, key, p = NEW(f->t->arena, Function));
  p->self += e->sample.weight, p->last = e->process;
}

static int three_way(int64_t a, int64_t b) { return (a > b) - (a < b); }
static int by_self(const void *a, const void *b) {
  const Function *x = *(Function *const *)a, *y = *(Function *const *)b;
  int c = three_way(y->self, x->self);
  if (!c) c = three_way(y->total, x->total);
  return c || !x->name ? c : strcmp(x->name, y->name);
}

/* The processes that were sampled, the busiest first. */
static const Function **processes_of(Functions *f) {
  int n = map_count(f->by_process);
  const Function **all = NEW_N(f->t->arena, const Function *, n + 1);
  for (int i = 0; i < n; i++) {
    void *p;
    map_entry(f->by_process, i, NULL, &p);
    all[i] = p;
  }
  qsort(all, (size_t)n, sizeof *all, by_self);
  return all;
}

static int rows_of(int n, const ViewOptions *o) {
  int most = o->rows > 0 ? o->rows : MOST_ROWS;
  return n < most ? n : most;
}

static const char *command_of(const Functions *f, int64_t process) {
  const ProcessInfo *p = events_process(f->t, (uint32_t)process);
  return p ? trace_text(f->t->reader, p->name) : "";
}

static void print_rows(Functions *f, Function *const *all, int n, const char *head, const ViewOptions *o, FILE *out) {
  int rows = rows_of(n, o);
  const char **names = NEW_N(f->t->arena, const char *, rows + 1),
             **legible = NEW_N(f->t->arena, const char *, rows + 1);
  static const char *const heads[] = {"Self CPU %", "Self CPU", "CPU total %", "CPU total"};
  int width = 20;
  for (int i = 0; i < rows; i++) names[i] = all[i]->name + (all[i]->is_python ? 8 : 0);
  names_legible(f->t->arena, names, rows, o->width, legible);
  for (int i = 0; i < rows; i++)
    if (all[i]->is_python && utf8_columns(names[i]) <= (o->width ? o->width : 60)) legible[i] = names[i];
  for (int i = 0; i < rows; i++)
    if (utf8_columns(legible[i]) > width) width = utf8_columns(legible[i]);
  cell_rule(out, width, 4);
  cell_name(out, head, width);
  for (int c = 0; c < 4; c++) fprintf(out, "  %12s", heads[c]);
  putc('\n', out);
  cell_rule(out, width, 4);
  for (int i = 0; i < rows; i++) {
    const Function *x = all[i];
    cell_name(out, legible[i], width);
    cell_percent(out, x->self, f->cpu), cell_time(out, (double)x->self);
    cell_percent(out, x->total, f->cpu), cell_time(out, (double)x->total);
    putc('\n', out);
  }
  cell_rule(out, width, 4);
  if (rows < n) fprintf(out, "%d of %d functions\n", rows, n);
}

static void print_text(Functions *f, const ViewOptions *o, FILE *out) {
  if (!f->samples) {
    fputs("no CPU time was sampled: the program ran for less than a sample stands for, or sampling was off\n", out);
    events_warnings(f->t, out, "note: ");
    return;
  }
  char text[32];
  if (f->python.n) print_rows(f, f->python.at, f->python.n, "Python function", o, out);
  if (f->all.n) print_rows(f, f->all.at, f->all.n, "Function", o, out);
  fprintf(out, "CPU time total: %s, by %lld samples of the stacks of running threads\n",
          time_text(text, (double)f->cpu), (long long)f->samples);
  int n = map_count(f->by_process);
  const Function **processes = processes_of(f);
  for (int i = 0; i < n && n > 1 && i < MOST_PROCESSES; i++)
    fprintf(out, "  %12s  process %lld: %.100s\n", time_text(text, (double)processes[i]->self),
            (long long)processes[i]->last, command_of(f, processes[i]->last));
  if (n > MOST_PROCESSES) fprintf(out, "  and %d processes more\n", n - MOST_PROCESSES);
  if (f->has_interpreter && !f->python.n)
    fputs("note: of Python only the interpreter is seen; with --hz N it names its functions (Python 3.12 or later)\n",
          out);
  events_warnings(f->t, out, "note: ");
}

static void put_rows(JsonWriter *w, const char *key, Function *const *all, int rows) {
  json_break(w, "\n ");
  json_begin_array(w, key);
  for (int i = 0; i < rows; i++) {
    json_break(w, "\n  ");
    json_begin_object(w, NULL);
    json_put_text(w, "name", all[i]->name + (all[i]->is_python ? 8 : 0));
    json_put_int(w, "self_ns", all[i]->self);
    json_put_int(w, "total_ns", all[i]->total);
    json_end_object(w);
  }
  json_end_array(w);
}

static void print_json(Functions *f, const ViewOptions *o, FILE *out) {
  JsonWriter w = {.file = out, .spaced = true};
  json_begin_object(&w, NULL);
  json_put_int(&w, "cpu_ns", f->cpu);
  json_put_int(&w, "samples", f->samples);
  json_put_int(&w, "function_count", f->all.n);
  put_rows(&w, "functions", f->all.at, rows_of(f->all.n, o));
  put_rows(&w, "python_functions", f->python.at, rows_of(f->python.n, o));
  json_break(&w, "\n ");
  json_begin_array(&w, "processes");
  const Function **processes = processes_of(f);
  for (int i = 0; i < map_count(f->by_process); i++) {
    json_break(&w, "\n  ");
    json_begin_object(&w, NULL);
    json_put_int(&w, "process", processes[i]->last);
    json_put_int(&w, "cpu_ns", processes[i]->self);
    json_put_text(&w, "command", command_of(f, processes[i]->last));
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
  fputc('\n', out);
}

static void functions(EventJoin *t, FILE *out, const ViewOptions *o) {
  Functions f = {.t = t, .by_name = map_create(t->arena, true), .by_process = map_create(t->arena, false)};
  if (!events_begin(t, BY_TIME)) return;
  if (t->counts[TRACE_SAMPLE]) {
    Symbols *symbols = samples_begin(t);
    for (TraceEvent e; samples_next(t, &e);) count(&f, symbols, &e);
    symbols_free(symbols);
  }
  if (f.all.n) qsort(f.all.at, (size_t)f.all.n, sizeof *f.all.at, by_self);
  if (f.python.n) qsort(f.python.at, (size_t)f.python.n, sizeof *f.python.at, by_self);
  if (o->json) print_json(&f, o, out);
  else print_text(&f, o, out);
}

int view_functions(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]) {
  return view_run(r, out, o, why, functions);
}
