/* bench: times kernels beside each other and beside the machine's copy bandwidth, with operations and bytes counted by
 * the compiler.
 *
 *     nereid bench FILE:KERNEL ARG=SPEC ... --grid G [--then FILE:KERNEL ...] [--vs FILE:KERNEL ...] --sweep
 *       n=2^20..2^24
 *     nereid bench --all [TABLES.txt]
 *
 * A file of tables holds "[title]" lines, and after each the words of such a command line, over as many lines as it
 * takes; '...' and "..." keep words together, # begins a comment. Files in it are named from where it lies. The
 * variable `bytes` is the size of an array that leaves the caches of the device, so that a table fits every machine:
 * n='bytes // 4'. A title that begins with "cpu: " or "cuda: " is for such a device only.
 */
#include "bench.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TABLES = 100, MAX_SIZES = 64 };

typedef struct Bench {
  Plan plans[MAX_TABLES];
  int plan_count;
  Words texts; /* titles and other strings of the plans */
  nereid_bench_options options;
  const char *device, *save, *against, *plot, *all, *only;
  bool json, csv, triton;
  Checks checks;
  Triton *remote;                  /* --triton */
  const nereid_ceilings *ceilings; /* kept ones of the device, or NULL */
  int64_t bytes;                   /* the variable; 0: by the device */
  int64_t started;
  const char *now; /* what is measured, for the progress line */
} Bench;

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int sweep_option(Plan *p, const char *text) {
  const char *equals = strchr(text, '='), *at = NULL;
  bool good = equals && equals != text && read_whole(equals + 1, 0, &at, &p->from);
  if (good && !strncmp(at, "..", 2)) good = read_whole(at + 2, 0, &at, &p->to);
  else p->to = p->from;
  if (!good || *at || p->from < 1 || p->to < p->from)
    return usage_error(p->verb, "--sweep %s: give NAME=FIRST..LAST, as in n=2^20..2^24", text);
  free(p->sweep);
  p->sweep = format_string("%.*s", (int)(equals - text), text);
  return 0;
}

static int check_option(Bench *b, int argc, char **argv) {
  const char *equals = argc > 1 ? strchr(argv[1], '=') : NULL;
  if (!equals || equals == argv[1] || !equals[1])
    return usage_error(&verb_bench,
                       "--check needs ARG=REF: @FILE.npy, or a device that computes it too, as interp or cpu"),
           -1;
  if (b->checks.n == MAX_CHECKS) return usage_error(&verb_bench, "at most %d --check", MAX_CHECKS), -1;
  char *name = format_string("%.*s", (int)(equals - argv[1]), argv[1]);
  b->checks.at[b->checks.n++] = (Check){name, equals + 1};
  return 2;
}

/* Options of the whole run: how many words, 0 for none of them, -1 for wrong. */
static int run_option(void *arg, int argc, char **argv) {
  Bench *b = arg;
  const char *o = argv[0];
  if (!strcmp(o, "--cold")) return b->options.cold = true, 1;
  if (!strcmp(o, "--json")) return b->json = true, 1;
  if (!strcmp(o, "--csv")) return b->csv = true, 1;
  if (!strcmp(o, "--triton")) return b->triton = true, 1;
  if (!strcmp(o, "--no-check")) return b->checks.off = true, 1;
  if (!strcmp(o, "--check")) return check_option(b, argc, argv);
  double *tolerance = !strcmp(o, "--rtol") ? &b->checks.rtol : !strcmp(o, "--atol") ? &b->checks.atol : NULL;
  if (!strcmp(o, "--all")) {
    bool named = argc > 1 && argv[1][0] != '-' && !strchr(argv[1], '=');
    return b->all = named ? argv[1] : "kernels/bench.txt", named ? 2 : 1;
  }
  const char **text = !strcmp(o, "--device")    ? &b->device
                      : !strcmp(o, "--save")    ? &b->save
                      : !strcmp(o, "--against") ? &b->against
                      : !strcmp(o, "--plot")    ? &b->plot
                      : !strcmp(o, "--only")    ? &b->only
                                                : NULL;
  bool repeat = !strcmp(o, "--repeat"), warmup = !strcmp(o, "--warmup"), bytes = !strcmp(o, "--bytes"),
       time = !strcmp(o, "--time");
  if (!text && !tolerance && !repeat && !warmup && !bytes && !time) return 0;
  if (argc < 2) return usage_error(&verb_bench, "%s needs a value", o), -1;
  if (text) return *text = argv[1], 2;
  if (tolerance) {
    char *stop;
    *tolerance = strtod(argv[1], &stop);
    return *stop || stop == argv[1] || !(*tolerance >= 0)
               ? (usage_error(&verb_bench, "%s %s: give a number, 0 or more", o, argv[1]), -1)
               : 2;
  }
  const char *end;
  int64_t v;
  if (!read_whole(argv[1], 0, &end, &v) || *end || v < 1 || (v > 1000000 && !bytes))
    return usage_error(&verb_bench, "%s %s: give a whole number above 0%s", o, argv[1],
                       bytes ? "" : ", at most 1000000"),
           -1;
  if (repeat) b->options.repeat = (int)v;
  if (warmup) b->options.warmup = (int)v;
  if (bytes) b->bytes = v;
  if (time) b->options.min_ms = (double)v;
  return 2;
}

int plan_words(Plan *p, int argc, char **argv, int (*option)(void *arg, int argc, char **argv), void *arg) {
  p->segment_count = 1;
  for (int i = 0; i < argc;) {
    Segment *s = &p->segments[p->segment_count - 1];
    bool vs = !strcmp(argv[i], "--vs"), then = !strcmp(argv[i], "--then"), beside = !strcmp(argv[i], "--beside");
    if (vs || then || beside) {
      if (p->segment_count == MAX_SEGMENTS)
        return usage_error(p->verb, "at most %d launches stand in a table", MAX_SEGMENTS);
      if (!s->words.n) return usage_error(p->verb, "%s follows FILE[:KERNEL] ARG=SPEC ...", argv[i]);
      p->segments[p->segment_count].other = beside;
      p->segments[p->segment_count++].follows = then, i++;
      continue;
    }
    if (!strcmp(argv[i], "--sweep")) {
      if (i + 1 == argc) return usage_error(p->verb, "--sweep needs a value");
      int status = sweep_option(p, argv[i + 1]);
      if (status) return status;
      i += 2;
      continue;
    }
    int took = option ? option(arg, argc - i, argv + i) : 0;
    if (took < 0) return 2;
    if (!took && !s->words.n && argv[i][0] == '-') took = option_of_others(p->verb, argc - i, argv + i);
    if (took < 0) return 2;
    if (!took && !words_add(&s->words, argv[i])) return report_error(NULL);
    i += took ? took : 1;
  }
  const Segment *last = &p->segments[p->segment_count - 1];
  if (p->segment_count > 1 && !last->words.n)
    return usage_error(p->verb, "which file? %s is followed by FILE[:KERNEL]",
                       last->follows ? "--then"
                       : last->other ? "--beside"
                                     : "--vs");
  return 0;
}

void plan_free(Plan *p) {
  for (int k = 0; k < p->segment_count; k++) words_free(&p->segments[k].words);
  free(p->sweep);
}

/* ---- a file of tables -------------------------------------------------------------------------------------------- */

static int table_words(Words *out, const char *text, const char *end) {
  while (text < end) {
    if (strchr(" \t\r\n", *text)) {
      text++;
      continue;
    }
    if (*text == '#') {
      while (text < end && *text != '\n') text++;
      continue;
    }
    char *word = malloc((size_t)(end - text) + 1), *o = word;
    if (!word) return report_error(NULL);
    char quote = 0;
    for (; text < end && (quote || !strchr(" \t\r\n", *text)); text++) {
      if (quote ? *text == quote : *text == '\'' || *text == '"') quote = quote ? 0 : *text;
      else *o++ = *text;
    }
    *o = 0;
    bool good = words_add(out, word);
    free(word);
    if (!good) return report_error(NULL);
  }
  return 0;
}

static const char *next_title(const char *p) { /* the next line that begins with [ */
  for (; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
    if (*p == '[') return p;
  return NULL;
}

static int load_table(Bench *b, const char *path, const char *at, const char *end) {
  const char *close = memchr(at, ']', strcspn(at, "\n"));
  if (!close)
    return usage_error(&verb_bench, "%s: the title '%.*s' has no closing bracket", path, (int)strcspn(at, "\n"), at);
  char *title = format_string("%.*s", (int)(close - at - 1), at + 1);
  static const char *const devices[] = {"cpu: ", "cuda: "}; /* a table for one kind of device */
  bool wanted = !b->only || strstr(title, b->only), good = words_add(&b->texts, title);
  free(title);
  if (!good) return report_error(NULL);
  for (int i = 0; i < 2; i++) {
    size_t n = strlen(devices[i]) - 2;
    if (!strncmp(at + 1, devices[i], n + 2) && strncmp(b->device, devices[i], n)) return 0;
  }
  if (!wanted) return 0;
  if (b->plan_count == MAX_TABLES) return usage_error(&verb_bench, "%s: more than %d tables", path, MAX_TABLES);
  Plan *p = &b->plans[b->plan_count++];
  p->verb = &verb_bench, p->title = b->texts.at[b->texts.n - 1];
  Words words = {0};
  int status = table_words(&words, close + 1, end);
  if (!status) status = plan_words(p, words.n, words.at, NULL, NULL);
  words_free(&words);
  const char *slash = strrchr(path, '/');
  for (int i = 0; i < p->segment_count && !status && slash; i++) { /* files are named from where the table lies */
    Words *w = &p->segments[i].words;
    char *full = w->n ? format_string("%.*s/%s", (int)(slash - path), path, w->at[0]) : NULL;
    if (!full) return usage_error(&verb_bench, "%s: the table '%s' names no kernel", path, p->title);
    free(w->at[0]);
    w->at[0] = full;
  }
  return status;
}

static int load_tables(Bench *b) {
  enum { MOST = 1 << 20 };
  const char *why;
  char *text = read_text(b->all, MOST, &why);
  if (!text) {
    fprintf(stderr, "nereid bench: cannot open %s: %s; --all FILE names the file of tables\n", b->all, why);
    return 1;
  }
  size_t n = strlen(text);
  int status = 0, before = b->plan_count;
  const char *at = next_title(text);
  while (at && !status) {
    const char *line = strchr(at, '\n'), *next = line ? next_title(line + 1) : NULL;
    status = load_table(b, b->all, at, next ? next : text + n);
    at = next;
  }
  if (!status && b->plan_count == before)
    status = b->only ? usage_error(&verb_bench, "%s has no table whose title holds '%s'", b->all, b->only)
                     : usage_error(&verb_bench, "%s has no tables: lines [title], each with a command's words after it",
                                   b->all);
  free(text);
  return status;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static bool show_progress(void *arg, int done, int of) {
  Bench *b = arg;
  progress(b->started, "%s: trial %d of %d", b->now, done, of < done ? done : of);
  return true;
}

static Row *new_row(Table *t) {
  if (t->n == t->cap) {
    int cap = t->cap ? 2 * t->cap : 16;
    Row *rows = realloc(t->rows, sizeof *rows * (size_t)cap);
    if (!rows) return NULL;
    t->rows = rows, t->cap = cap;
  }
  t->rows[t->n] = (Row){0};
  return &t->rows[t->n++];
}

static void bound_row(const Bench *b, Row *r) {
  if (!b->ceilings || !r->counted || r->is_simulated) return;
  bool replayed = r->result.graph.count > 0;
  r->bounded = !nereid_bound_of(b->ceilings, &r->cost, row_kernel_ns(r), b->options.cold, replayed, &r->bound, NULL);
}

/* The cases in turn, those of Triton among them, and a row for each. */
static int measure(Bench *b, nereid_device *d, Case *cases, Row *rows, int n, const char *size, double x, Table *t) {
  nereid_bench_case list[2 * MAX_CASES];
  nereid_bench_result results[2 * MAX_CASES], copy;
  TritonCase remote[MAX_CASES];
  int64_t copy_bytes;
  nereid_error *err = NULL;
  int all = n;
  for (int i = 0; i < n; i++) list[i] = (nereid_bench_case){.launches = cases[i].bench, .launch_count = cases[i].count};
  for (int i = 0; i < n; i++) {
    if (!rows[i].has_triton) continue;
    remote[i] = (TritonCase){b->remote, i};
    list[all++] = (nereid_bench_case){.trial = triton_trial, .trial_arg = &remote[i]};
  }
  nereid_bench_options o = b->options;
  o.copy = true, o.copy_bytes = b->bytes, o.progress = show_progress, o.progress_arg = b;
  b->now = *size ? size : cases[0].label;
  if (nereid_bench_run(d, list, all, &o, results, &copy, &copy_bytes, &err)) return report_error(err);
  progress_clear();
  all = n;
  for (int i = 0; i < n; i++) {
    Row *r = new_row(t);
    if (!r) return report_error(NULL);
    *r = rows[i];
    r->x = x, r->case_index = i, r->counted = cases[i].counted, r->cost = cases[i].cost, r->result = results[i],
    r->copy = copy, r->copy_bytes = copy_bytes;
    r->is_simulated = !strncmp(b->device, "interp", 6) || !strncmp(b->device, "sim", 3);
    if (r->has_triton) r->triton = results[all++];
    if (r->has_triton && r->result.graph.count) {
      double ns = triton_graph(b->remote, i, 20);
      r->triton.graph = (nereid_times){.count = ns > 0, .median = ns};
    }
    r->label = format_string("%s", cases[i].label), r->size = format_string("%s", size);
    rows[i].triton_why = rows[i].checked_with = NULL; /* the table's now */
    bound_row(b, r);
  }
  return 0;
}

/* Triton's kernel of one case: made ready, run once, and its results compared with ours. */
static int prepare_triton(Bench *b, Case *c, int i, const Outputs *ours, Row *r) {
  char why[300] = "";
  int status = triton_open(b->remote, c, i, why);
  Outputs theirs = {0};
  if (!status) status = triton_outputs(b->remote, c, i, &theirs, why);
  r->has_triton = !status;
  if (!status && !b->checks.off)
    r->triton_verdict = outputs_compare(&theirs, ours, "ours", b->checks.rtol, b->checks.atol);
  outputs_free(&theirs);
  if (status < 0) r->triton_why = format_string("%s", why);
  return status > 0;
}

/* Runs every case once, on fresh data, and compares what they wrote. */
static int check_results(Bench *b, nereid_device *d, const Plan *p, const Words *variables, Case *cases,
                         const bool *other, Row *rows, int n) {
  Outputs *outputs = calloc((size_t)n + 1, sizeof *outputs), *wanted = &outputs[n];
  int status = outputs ? 0 : report_error(NULL);
  if (!status && !b->checks.off) status = check_references(&b->checks, p, variables, wanted);
  for (int i = 0; i < n && !status; i++) {
    Row *r = &rows[i];
    progress(b->started, "%s: checking", cases[i].label);
    status = case_check_run(&cases[i], d, &outputs[i]);
    r->is_other = other[i];
    bool referred = wanted->n > 0 && !r->is_other, compares = !b->checks.off && (referred || (i > 0 && !r->is_other));
    if (!status && compares) {
      r->checked_with = format_string("%s", referred ? b->checks.at[0].value : cases[0].label);
      r->verdict = outputs_compare(&outputs[i], referred ? wanted : &outputs[0],
                                   referred ? "the reference" : cases[0].label, b->checks.rtol, b->checks.atol);
    }
    bool cuda_c = launch_is_cuda_c(cases[i].launches[0].path);
    if (!status && b->remote && !cuda_c) status = prepare_triton(b, &cases[i], i, &outputs[i], r);
    case_drop_inputs(&cases[i]);
    if (i) outputs_free(&outputs[i]);
  }
  for (int i = 0; outputs && i <= n; i++) outputs_free(&outputs[i]);
  free(outputs);
  return status;
}

static int run_size(Bench *b, nereid_device *d, const Plan *p, const char *size, double x, Table *t) {
  Words variables = {0};
  char *bytes = format_string("bytes=%lld", (long long)b->bytes);
  bool good = words_add(&variables, bytes) && (!*size || words_add(&variables, size)), other[MAX_CASES] = {false};
  free(bytes);
  Case *cases = calloc(MAX_CASES, sizeof *cases);
  Row *rows = calloc(MAX_CASES, sizeof *rows);
  int n = 0, status = cases && rows && good ? 0 : report_error(NULL);
  bool has_cuda = !strncmp(b->device, "cuda", 4), compares = b->checks.n > 0;
  for (int i = 1; i < p->segment_count; i++)
    compares |= !b->checks.off && !p->segments[i].follows && !p->segments[i].other;
  for (int i = 0; i < p->segment_count && !status; i++) {
    if (p->segments[i].follows) continue;
    if (n == MAX_CASES) status = usage_error(&verb_bench, "at most %d cases stand in a table", MAX_CASES);
    /* of the tables for all machines, what this one has */
    else if (b->all && !has_cuda && segment_is_cuda_c(&p->segments[i])) continue;
    else {
      progress(b->started, "%s: preparing", *size ? size : p->segments[i].words.at[0]);
      other[n] = p->segments[i].other, cases[n].keep_inputs = compares || b->remote;
      status = case_open(&cases[n++], d, p, i, &variables);
    }
  }
  if (!status && !number_labels(cases, n)) status = report_error(NULL);
  if (!status && (compares || b->remote)) status = check_results(b, d, p, &variables, cases, other, rows, n);
  if (!status && n) status = measure(b, d, cases, rows, n, size, x, t);
  for (int i = 0; i < n; i++) case_close(&cases[i], d);
  for (int i = 0; rows && i < n; i++) free(rows[i].triton_why), free(rows[i].checked_with);
  if (b->remote) triton_clear(b->remote);
  free(cases), free(rows);
  words_free(&variables);
  return status;
}

static int run_plan(Bench *b, nereid_device *d, const Plan *p, Table *t) {
  *t = (Table){.title = p->title,
               .device = b->device,
               .sweep = p->sweep,
               .cold = b->options.cold,
               .triton = b->remote ? triton_version(b->remote) : NULL};
  if (!p->segments[0].words.n) return usage_error(&verb_bench, "which file? usage: nereid %s", verb_bench.synopsis);
  if (!p->sweep) return run_size(b, d, p, "", 0, t);
  int status = 0, sizes = 0;
  for (int64_t v = p->from; v <= p->to && !status && sizes < MAX_SIZES; v *= 2, sizes++) {
    char *size = format_string("%s=%lld", p->sweep, (long long)v);
    status = run_size(b, d, p, size, (double)v, t);
    free(size);
    if (v > p->to / 2) break;
  }
  return status;
}

static int save(const Bench *b, const Table *tables, int n) {
  FILE *f = fopen(b->save, "wb");
  if (f) table_json(f, tables, n);
  bool bad = !f || ferror(f);
  if (f && fclose(f)) bad = true;
  return bad ? fprintf(stderr, "nereid bench: --save %s: cannot be written: %s\n", b->save, strerror(errno)), 1 : 0;
}

static int run_all(Bench *b) {
  nereid_device *d = NULL;
  nereid_error *err = NULL;
  if (nereid_device_open(b->device, &d, &err)) return report_error(err);
  if (!b->bytes) b->bytes = nereid_bench_bytes(d);
  nereid_ceilings *ceilings = malloc(sizeof *ceilings);
  if (ceilings && !nereid_ceilings_load(d, ceilings, NULL)) b->ceilings = ceilings;
  Table *tables = calloc((size_t)b->plan_count + 1, sizeof *tables);
  int status = tables && ceilings ? 0 : report_error(NULL), n = 0;
  if (!status && b->triton) status = triton_start(&b->remote);
  bool plain = !b->json && !b->csv;
  for (int i = 0; i < b->plan_count && !status; i++) {
    status = run_plan(b, d, &b->plans[i], &tables[n++]);
    if (!status && b->against) status = table_compare(&tables[i], 1, b->against);
    if (!status && plain && tables[i].n) printf("%s", i ? "\n" : ""), table_print(&tables[i]);
    if (!status && b->csv) table_csv(stdout, &tables[i], i == 0);
  }
  if (!status && b->json) table_json(stdout, tables, n);
  if (!status && b->save) status = save(b, tables, n);
  if (!status && b->plot) status = plot_svg(&tables[0], b->plot);
  for (int i = 0; i < n && !status; i++) status = table_is_wrong(&tables[i]);
  triton_stop(b->remote);
  free(ceilings);
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < tables[i].n; k++)
      free(tables[i].rows[k].label), free(tables[i].rows[k].size), free(tables[i].rows[k].triton_why),
          free(tables[i].rows[k].checked_with);
    free(tables[i].rows);
  }
  free(tables);
  nereid_device_close(d);
  return status;
}

static int bench(int argc, char **argv) {
  Bench *b = calloc(1, sizeof *b);
  if (!b) return report_error(NULL);
  b->device = "cpu", b->started = now_ns(), b->checks.rtol = b->checks.atol = -1;
  Plan typed = {.verb = &verb_bench};
  int status = plan_words(&typed, argc - 1, argv + 1, run_option, b);
  if (!status && b->json && b->csv)
    status = usage_error(&verb_bench, "--json and --csv are two forms of the same; give one");
  if (!status && b->only && !b->all) status = usage_error(&verb_bench, "--only chooses tables of --all");
  if (!status && b->triton && strncmp(b->device, "cuda", 4))
    status = usage_error(&verb_bench, "--triton runs kernels on a GPU; give --device cuda");
  if (!status && b->checks.off && b->checks.n)
    status = usage_error(&verb_bench, "--check and --no-check are opposites; give one");
  if (!status && b->all && b->checks.n)
    status = usage_error(&verb_bench,
                         "--check is for kernels named on the command line; --all compares the variants of each table");
  if (!status && b->all && (typed.segments[0].words.n || typed.sweep))
    status = usage_error(&verb_bench, "--all takes its kernels from %s; '%s' is too much", b->all,
                         typed.sweep ? "--sweep" : typed.segments[0].words.at[0]);
  if (!status && b->all) status = load_tables(b);
  if (!status && !b->all) b->plans[b->plan_count++] = typed;
  if (!status && b->plot && b->plan_count > 1)
    status = usage_error(&verb_bench, "--plot draws one table; choose it with --only");
  if (!status) status = run_all(b);
  for (int i = 0; b->all && i < b->plan_count; i++) plan_free(&b->plans[i]);
  plan_free(&typed);
  for (int i = 0; i < b->checks.n; i++) free(b->checks.at[i].name);
  words_free(&b->texts);
  free(b);
  return status;
}

/* clang-format off */
const Verb verb_bench = {
    "bench", "bench FILE[:KERNEL] ARG=SPEC ... --grid G [--vs FILE:KERNEL ...] [options], or bench --all",
    "times kernels and says how fast that is", bench,
    "  ARG=SPEC, --grid, --block, --shared, --warps, --stages, --ctas, --seed, --define, --limits  as for nereid run; expressions may use `bytes`, the size of an array that\n"
    "                 leaves the device's caches: n='bytes // 4' 'x_ptr=randn:f32[n]'\n"
    "  --vs FILE:KERNEL [ARG=SPEC ...] [--grid G]    a variant in the same table, measured in turn; what it does not say it has from the first. It must\n"
    "                 write what the first one writes: results are compared before they are timed, and the exit status says so\n"
    "  --beside FILE:KERNEL ...                      the same, but it computes something else: its results are not compared\n"
    "  --then FILE:KERNEL [ARG=SPEC ...] [--grid G]  a launch that follows and is timed together with the one before; its arrays are the ones\n"
    "                 of those before it, by name, or ARG=same:NAME\n"
    "  --sweep n=2^20..2^24  a row for each size, doubled each step; a variable that is no parameter serves expressions: M=n N=n\n"
    "  --device D     cpu (default), cpu:THREADS, cuda, cuda:N, interp, sim\n"
    "  --check ARG=REF  compare all kernels' ARG with @FILE.npy, or with what the first kernel writes on another device: ARG=interp, ARG=cpu\n"
    "  --rtol R, --atol R, --no-check  tolerances (default: what rounding of the type explains, relative to the largest of the array); compare nothing\n"
    "  --triton       cuda: the same file and configuration under Triton, by python3 (NEREID_PYTHON), timed in turn; needs PyTorch and Triton\n"
    "  --cold         empty the caches before each trial\n"
    "  --repeat N, --warmup N, --time MS  trials (default: until 200 ms are measured, at least 5), trials before (3), milliseconds to measure\n"
    "  --save FILE, --against FILE  keep the results as JSON; compare with kept ones: the ratio (above 1: faster now; = where the spreads\n"
    "                 overlap) and the times then\n"
    "  --json, --csv  instead of the table\n"
    "  --plot FILE.svg  draw it: over the sweep with logarithmic axes, else as bars\n"
    "  --all [FILE]   the tables of kernels/bench.txt, or FILE; --only TEXT: those whose title holds TEXT\n"
    "  --bytes N      another size for `bytes`, and for the copy's arrays (usual: the last cache's, between 2^26 and 2^29; 2^29 on cuda)\n\n"
    "Operations and bytes are counted by the compiler. GB/s: each byte of an argument counted once; of copy: that beside a copy in memory,\n"
    "measured in turn; queued: time a launch of many that do not wait for each other; graph: the kernels' time alone, of many replayed as a CUDA\n"
    "graph; ceiling: what bounds it, and the share of that ceiling it reaches (nereid roofline measures them); ~: not exact, with the reason below.\n\n"
    "example: nereid bench kernels/softmax.py:softmax x_ptr=randn:f32[4096,781] out_ptr=like:x_ptr x_stride=781 out_stride=781 n_cols=781 \\\n"
    "           BLOCK=1024 --grid 4096 --vs kernels/softmax.py:softmax_online\n"};
/* clang-format on */
