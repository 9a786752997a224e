/* tune: searches the space that the command line spans for the fastest configuration of a kernel.
 *
 *     nereid tune FILE:KERNEL ARG=SPEC ... --grid 'cdiv(n, BLOCK)' BLOCK=256..8192 warps=1..16 stages=1..4
 *
 * NAME=A..B is a space: powers of two from A on; stages count by one. NAME=A,B,C lists values. All combinations are
 * configurations. A name that is no parameter may be one of the grid: --grid '132 * waves' waves=1..16. The launch is
 * made as `nereid bench` makes it, nereid_tune does the rest; Ctrl-C ends it with what is known then.
 */
#include "tune.h"

#include "base/base.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t interrupts;
static void on_interrupt(int signal) { interrupts++; }

/* ---- spaces ------------------------------------------------------------------------------------------------------ */

/* What of a configuration the space of this name sets; NULL: an argument, or the grid. */
static int *option_of(nereid_config *c, const char *name) {
  return !strcmp(name, "warps")    ? &c->num_warps
         : !strcmp(name, "stages") ? &c->num_stages
         : !strcmp(name, "ctas")   ? &c->num_ctas
                                   : NULL;
}
static bool is_option_space(const char *name) { return option_of(&(nereid_config){0}, name) != NULL; }

/* Whether a value is meant as FIRST..LAST, right or wrong. */
static bool is_range(const char *text) { return (isdigit((unsigned char)*text) || *text == '-') && strstr(text, ".."); }

/* Whether NAME=TEXT is a space: a range, or values without brackets and colons between commas. */
static bool is_space(const char *word) {
  const char *equals = strchr(word, '=');
  if (word[0] == '-' || !equals || equals == word) return false;
  if (is_range(equals + 1)) return true;
  char name[8];
  snprintf(name, sizeof name, "%.*s", (int)(equals - word), word);
  return is_option_space(name) || (strchr(equals, ',') && !strpbrk(equals, ":[](){}"));
}

static bool add_value(Space *s, const char *text, size_t n) {
  if (s->count == MAX_CHOICES) return false;
  s->values[s->count] = format_string("%.*s", (int)n, text);
  return s->values[s->count++] != NULL;
}

static int parse_space(Search *s, const char *word) {
  if (s->space_count == MAX_SPACES)
    return usage_error(&verb_tune, "at most %d names may have several values", MAX_SPACES);
  Space *p = &s->spaces[s->space_count++];
  const char *equals = strchr(word, '='), *text = equals + 1, *end;
  int64_t from, to;
  p->name = format_string("%.*s", (int)(equals - word), word);
  if (!p->name) return report_error(NULL);
  for (Space *o = s->spaces; o < p; o++)
    if (!strcmp(o->name, p->name))
      return usage_error(&verb_tune, "%s: the space of '%s' is given twice", word, p->name);
  if (is_range(text)) {
    bool linear = !strcmp(p->name, "stages");
    if (!read_whole(text, 10, &end, &from) || strncmp(end, "..", 2) || !read_whole(end + 2, 10, &end, &to) || *end)
      return usage_error(&verb_tune, "%s: give NAME=FIRST..LAST, as in BLOCK=256..8192; numbers below 2^63", word);
    if (from < 1 || to < from)
      return usage_error(&verb_tune, "%s: %s; give NAME=FIRST..LAST, as in BLOCK=256..8192", word,
                         from < 1 ? "a range begins at 1 or above" : "the range is empty");
    for (int64_t v = from; v <= to; v = linear ? v + 1 : 2 * v) {
      char digits[24];
      if (!add_value(p, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)v)))
        return usage_error(&verb_tune, "%s: at most %d values", word, MAX_CHOICES);
      if (v > to / 2 && !linear) break;
    }
  } else {
    for (; *text; text += strcspn(text, ","), text += *text == ',') {
      size_t n = strcspn(text, ",");
      if (!n || !add_value(p, text, n))
        return usage_error(&verb_tune, "%s: give NAME=VALUE,VALUE,..., at most %d", word, MAX_CHOICES);
      char *power = strchr(p->values[p->count - 1], '^');
      if (power && read_whole(p->values[p->count - 1], 10, &end, &from) && !*end) {
        free(p->values[p->count - 1]);
        if (!(p->values[p->count - 1] = format_string("%lld", (long long)from))) return report_error(NULL);
      }
    }
    if (!p->count) return usage_error(&verb_tune, "%s: no value", word);
  }
  for (int i = 0; i < p->count && is_option_space(p->name); i++) {
    bool power = strcmp(p->name, "stages") != 0;
    if (!read_whole(p->values[i], 10, &end, &from) || *end || from < 1 || from > (power ? 64 : 100) ||
        (power && from & (from - 1)))
      return usage_error(&verb_tune, "%s: %s is no number of %s%s", word, p->values[i], p->name,
                         power ? ": powers of two up to 64" : "");
  }
  return 0;
}

/* ---- configurations ---------------------------------------------------------------------------------------------- */

/* Whether the grid speaks of the name. */
static bool in_grid(const char *grid, const char *name) {
  size_t n = strlen(name);
  for (const char *p = grid; (p = strstr(p, name)); p += n)
    if ((p == grid || (!isalnum((unsigned char)p[-1]) && p[-1] != '_')) && !isalnum((unsigned char)p[n]) && p[n] != '_')
      return true;
  return false;
}

/* The grid with (value) in the stead of the name. Takes text. */
static char *put_in(char *text, const char *name, const char *value) {
  char *out = NULL;
  size_t size = 0, n = strlen(name);
  FILE *f = text ? open_memstream(&out, &size) : NULL;
  for (const char *p = text; f && *p;) {
    size_t word = 0;
    while (isalnum((unsigned char)p[word]) || p[word] == '_') word++;
    if (word == n && !strncmp(p, name, n)) fprintf(f, "(%s)", value);
    else fwrite(p, 1, word ? word : 1, f);
    p += word ? word : 1;
  }
  if (f && fclose(f)) free(out), out = NULL;
  free(text);
  return out;
}

static int make_configs(Search *s) {
  int64_t count = 1;
  for (int i = 0; i < s->space_count; i++) {
    Space *p = &s->spaces[i];
    bool known = is_option_space(p->name);
    for (int k = 0; k < s->launch.kernel->param_count && !known; k++)
      known = !strcmp(s->launch.kernel->params[k].name, p->name);
    p->of_grid = !known && in_grid(s->grid, p->name);
    if (!known && !p->of_grid)
      return usage_error(&verb_tune, "%s has no parameter '%s'; warps, stages and ctas are options",
                         s->launch.kernel->name, p->name);
    if (launch_arg(&s->launch, p->name)) return usage_error(&verb_tune, "'%s' is given a value and a space", p->name);
    count *= p->count;
    if (count > MAX_CONFIGS)
      return usage_error(&verb_tune, "more than %d configurations; make the spaces smaller", MAX_CONFIGS);
  }
  if (!s->space_count)
    return usage_error(&verb_tune, "what is to be tried? give spaces, as in BLOCK=256..8192 warps=1..16");
  s->configs = calloc((size_t)count, sizeof *s->configs);
  s->args = calloc((size_t)count * MAX_SPACES, sizeof *s->args);
  s->labels = calloc((size_t)count, sizeof *s->labels);
  s->grids = calloc((size_t)count, sizeof *s->grids);
  s->results = calloc((size_t)count, sizeof *s->results);
  if (!s->configs || !s->args || !s->labels || !s->grids || !s->results) return report_error(NULL);
  for (; s->count < count; s->count++) {
    nereid_config *c = &s->configs[s->count];
    nereid_arg *args = s->args + (size_t)s->count * MAX_SPACES;
    char label[512] = "";
    int rest = s->count, at = 0, index[MAX_SPACES]; /* the last space changes fastest */
    for (int i = s->space_count - 1; i >= 0; i--) index[i] = rest % s->spaces[i].count, rest /= s->spaces[i].count;
    for (int i = 0; i < s->space_count; i++) {
      const Space *p = &s->spaces[i];
      const char *value = p->values[index[i]];
      if (at < (int)sizeof label)
        at += snprintf(label + at, sizeof label - (size_t)at, "%s%s=%s", i ? " " : "", p->name, value);
      int *option = option_of(c, p->name);
      if (option) read_count(value, 1, 100, option); /* parse_space has looked at it */
      else if (p->of_grid) {
        char **grid = &s->grids[s->count];
        if (!*grid && launch_grid_text(&s->launch, s->grid, grid)) return 1;
        c->grid = *grid = put_in(*grid, p->name, value);
        if (!*grid) return report_error(NULL);
      } else args[c->arg_count++] = nereid_named(nereid_constexpr(value), p->name);
    }
    c->args = args;
    if (!(s->labels[s->count] = format_string("%s", label))) return report_error(NULL);
  }
  return 0;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static int tune_option(void *arg, int argc, char **argv) {
  Search *s = arg;
  const char *o = argv[0];
  if (!strcmp(o, "--json")) return s->json = true, 1;
  if (!strcmp(o, "--cold")) return s->options.caches = NEREID_CACHES_COLD, 1;
  if (!strcmp(o, "--warm")) return s->options.caches = NEREID_CACHES_WARM, 1;
  if (!strcmp(o, "--no-check")) return s->options.unchecked = true, 1;
  if (!strcmp(o, "--no-keep")) return s->options.keep = false, 1;
  if (!strcmp(o, "--exhaustive")) return s->exhaustive = true, 1;
  const char **text = !strcmp(o, "--grid")     ? &s->grid
                      : !strcmp(o, "--device") ? &s->device
                      : !strcmp(o, "--save")   ? &s->save
                                               : NULL;
  bool budget = !strcmp(o, "--budget"), trials = !strcmp(o, "--trials"), threads = !strcmp(o, "--threads"),
       ignore = !strcmp(o, "--ignore");
  if (!text && !budget && !trials && !threads && !ignore) return 0;
  if (argc < 2) return usage_error(&verb_tune, "%s needs a value", o), -1;
  if (text) return *text = argv[1], 2;
  if (ignore) {
    if (s->options.ignore_count == MAX_SPACES) return usage_error(&verb_tune, "too many --ignore"), -1;
    return s->ignore[s->options.ignore_count++] = argv[1], 2;
  }
  char *end;
  double v = strtod(argv[1], &end);
  if (end == argv[1] || *end || !(v > 0) || v > 1e6 || (trials && v > 1000) || (!budget && v != (double)(int)v))
    return usage_error(&verb_tune, "%s %s: give %s", o, argv[1],
                       budget   ? "seconds"
                       : trials ? "a whole number from 1 to 1000"
                                : "a whole number above 0"),
           -1;
  if (budget) s->options.budget_s = v;
  else if (trials) s->options.repeat = (int)v;
  else s->options.threads = (int)v;
  return 2;
}

static bool is_flag(const char *option) {
  static const char *const flags[] = {"--json",    "--cold",       "--warm", "--no-check",
                                      "--no-keep", "--exhaustive", "--debug"};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
    if (!strcmp(option, flags[i])) return true;
  return false;
}

/* The words that are no spaces. */
static int split_words(Search *s, int argc, char **argv, char **rest, int *rest_count) {
  int status = 0;
  for (int i = 0; i < argc && !status; i++) {
    /* of an option: --grid 'max(n,2)' is none either way */
    bool value = i && argv[i - 1][0] == '-' && !is_flag(argv[i - 1]);
    if (i && !value && is_space(argv[i])) status = parse_space(s, argv[i]);
    else rest[(*rest_count)++] = argv[i];
  }
  return status;
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

typedef struct Watch {
  Search *search;
  int64_t started;
  const char *what;
} Watch;

static bool watch(void *arg, const nereid_tune_progress *p) {
  Watch *w = arg;
  const Search *s = w->search;
  if (p->best >= 0)
    progress(w->started, "%s%s: %d of %d trials, %d of %d configurations left; best so far %s, %.4g us", w->what,
             p->phase, p->done, p->of, p->left, s->count, s->labels[p->best], p->best_ns / 1e3);
  else progress(w->started, "%s%s: %d of %d configurations", w->what, p->phase, p->done, p->of);
  return !interrupts;
}

static int upload_all(Search *s, nereid_device *d) {
  nereid_error *err = NULL;
  for (int i = 0; i < s->launch.arg_count; i++) {
    LaunchArg *a = &s->launch.args[i];
    if (!a->is_array) continue;
    if (nereid_alloc(d, a->array.bytes, &a->device_pointer, &err) ||
        nereid_copy_to_device(d, a->device_pointer, a->array.data, a->array.bytes, &err))
      return report_error(err);
    if (is_integer_type(a->array.dtype)) continue; /* counting reads it */
    free(a->array.data);
    a->array.data = NULL;
  }
  return 0;
}

/* The arguments that the kernel has; the others served expressions. */
static int kernel_args(const Search *s, nereid_arg *args) {
  int n = 0;
  for (int i = 0; i < s->launch.arg_count; i++) {
    bool param = false;
    for (int k = 0; k < s->launch.kernel->param_count && !param; k++)
      param = !strcmp(s->launch.kernel->params[k].name, args[i].name);
    if (param) args[n++] = args[i];
  }
  return n;
}

static void count_cost(Search *s, nereid_device *d, const nereid_arg *args, int n) {
  const nereid_config *c = &s->configs[s->best];
  nereid_arg all[MAX_SPACES + 256];
  nereid_options o = s->launch.options;
  if (n > 256) return;
  memcpy(all, args, sizeof *all * (size_t)n);
  for (int i = 0; i < n; i++) {
    const LaunchArg *a = launch_arg(&s->launch, all[i].name);
    if (a && a->is_array) launch_arg_knows(&all[i], &a->array);
  }
  memcpy(all + n, c->args, sizeof *all * (size_t)c->arg_count);
  if (c->num_warps) o.num_warps = c->num_warps;
  o.no_autotune = true;
  nereid_error *err = NULL;
  s->counted = nereid_launch_cost(d, s->launch.module, s->launch.kernel->name, s->results[s->best].grid, all,
                                  n + c->arg_count, &o, &s->cost, &err) == NEREID_OK;
  nereid_error_free(err);
}

/* How far the winner is from the best of all, each measured in full: found in turn with each other, since figures of
 * two runs differ by the clocks. */
static int prove(Search *s, nereid_device *d, const nereid_arg *args, int n, const nereid_options *o, Watch *w) {
  nereid_tune_options how = s->options;
  nereid_error *err = NULL;
  how.exhaustive = true, how.keep = false, how.unchecked = true, how.repeat = 0, how.budget_s = 600;
  s->all = calloc((size_t)s->count, sizeof *s->all);
  if (!s->all) return report_error(NULL);
  w->what = "all of them: ";
  nereid_module *m = s->launch.module;
  const char *kernel = s->launch.kernel->name;
  if (nereid_tune(d, m, kernel, NULL, args, n, o, s->configs, s->count, &how, s->all, &s->all_best, &err))
    return progress_clear(), report_error(err);
  progress_clear();
  nereid_config pair[2] = {s->configs[s->best], s->configs[s->all_best]};
  nereid_tune_result results[2];
  int best;
  how.repeat = 60;
  how.progress = NULL;
  if (nereid_tune(d, m, kernel, NULL, args, n, o, pair, 2, &how, results, &best, &err)) return report_error(err);
  bool same = results[1].state == NEREID_TUNE_SAME;
  s->behind = same ? 0 : results[0].times.median / results[1].times.median - 1;
  return 0;
}

static int save(const Search *s) {
  WholeFile whole;
  int fd = whole_file_open(&whole, s->save);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
  if (f) search_json(f, s);
  bool good = f && !ferror(f);
  if (f && fclose(f)) good = false;
  if (!f && fd >= 0) close(fd);
  if (fd >= 0) good = whole_file_end(&whole, good);
  if (!good) fprintf(stderr, "nereid tune: --save %s: cannot be written: %s\n", s->save, strerror(errno));
  return !good;
}

static int search(Search *s, nereid_device *d) {
  nereid_arg *args = launch_arg_list(&s->launch);
  nereid_options o = s->launch.options;
  char *grid = NULL;
  int status = args ? launch_grid_text(&s->launch, s->grid, &grid) : report_error(NULL);
  if (status) return free(args), status;
  int n = kernel_args(s, args);
  o.grid = grid;
  Watch w = {s, now_ns(), ""};
  s->options.progress = watch, s->options.progress_arg = &w;
  s->options.ignore = s->ignore;
  nereid_error *err = NULL;
  status = nereid_tune(d, s->launch.module, s->launch.kernel->name, NULL, args, n, &o, s->configs, s->count,
                       &s->options, s->results, &s->best, &err);
  progress_clear();
  s->seconds = (double)(now_ns() - w.started) / 1e9;
  s->interrupted = interrupts > 0;
  s->kept = s->options.keep && !status && !s->interrupted && !s->configs[s->best].grid;
  if (s->best >= 0) count_cost(s, d, args, n);
  bool found = s->best >= 0 && !s->interrupted; /* also when it cannot be kept */
  if (found && s->exhaustive && prove(s, d, args, n, &o, &w)) status = 1;
  bool begun = s->results[0].state || *s->results[0].why; /* else nothing was tried, and the error says all */
  if (!s->json && begun) search_table(s);
  if (s->json) search_json(stdout, s);
  if (err) report_error(err); /* after the table, which says more */
  if (s->save && found && save(s)) status = 1;
  free(args), free(grid);
  return s->interrupted ? 130 : status ? 1 : 0;
}

static int run_search(Search *s, int argc, char **argv) {
  int status = launch_parse(&s->launch, &verb_tune, argc, argv, tune_option, s);
  if (!status && launch_is_cuda_c(s->launch.path))
    status = usage_error(&verb_tune, "%s: kernels of CUDA C have no configurations", s->launch.path);
  if (!status) status = launch_make_args(&s->launch);
  if (!status && !s->grid)
    status = usage_error(&verb_tune, "--grid says how many programs to run, as in --grid 'cdiv(n, BLOCK)'");
  if (!status) status = make_configs(s);
  if (status) return status;
  nereid_device *d = NULL;
  nereid_error *err = NULL;
  if (nereid_device_open(s->device, &d, &err)) return report_error(err);
  /* the second Ctrl-C ends the process */
  struct sigaction act = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART | SA_RESETHAND}, before;
  sigaction(SIGINT, &act, &before);
  status = upload_all(s, d);
  if (!status) status = search(s, d);
  sigaction(SIGINT, &before, NULL);
  nereid_device_close(d);
  return status;
}

static int tune(int argc, char **argv) {
  Search *s = calloc(1, sizeof *s);
  char **rest = calloc((size_t)argc + 1, sizeof *rest);
  int rest_count = 0;
  if (!s || !rest) return report_error(NULL);
  s->device = "cpu", s->best = -1, s->options.keep = true, s->launch.repeats_data = true;
  int status = split_words(s, argc, argv, rest, &rest_count);
  if (!status) status = run_search(s, rest_count, rest);
  for (int i = 0; i < s->space_count; i++) {
    free(s->spaces[i].name);
    for (int k = 0; k < s->spaces[i].count; k++) free(s->spaces[i].values[k]);
  }
  for (int i = 0; i < s->count; i++) free(s->labels[i]), free(s->grids[i]);
  free(s->grids), free(s->labels), free(s->configs), free(s->args), free(s->results), free(s->all);
  launch_free(&s->launch);
  free(s), free(rest);
  return status;
}

const Verb verb_tune = {
    "tune", "tune FILE[:KERNEL] ARG=SPEC ... --grid G NAME=A..B ... [options]",
    "finds a kernel's fastest configuration", tune,
    "  ARG=SPEC, --grid, --warps, --stages, --ctas, --seed, --define, --limits  as for nereid run; the grid follows "
    "the "
    "configuration\n"
    "  NAME=A..B      a parameter, or warps, stages, ctas: powers of two from A to B are tried (stages: every number); "
    "NAME=A,B,C: these values\n"
    "                 a number that --grid alone speaks of may be one: --grid '132 * waves' waves=1..16\n"
    "  --budget S     seconds (60); what was not measured by then has lost\n"
    "  --device D     cpu (default), cpu:THREADS, cuda, cuda:N\n"
    "  --trials N     most trials of a configuration (100)\n"
    "  --cold, --warm empty the caches before each trial (usual on cuda), or do not (usual on cpu)\n"
    "  --ignore ARG, --no-check  an array, or all, that need not agree with the first configuration's\n"
    "  --no-keep      do not keep the winner; usually launches of the kernel that leave its configuration open take it "
    "from then on\n"
    "  --threads N    compile so many at a time (one a processor)\n"
    "  --exhaustive   afterwards measure all configurations in full, and say how far the winner is from the best\n"
    "  --json, --save FILE  the result as JSON, instead of the table, into a file\n\n"
    "Ctrl-C ends the search and prints what is known; nothing is kept then.\n\n"
    "example: nereid tune kernels/softmax.py:softmax_online x_ptr=randn:f32[512,8192] out_ptr=like:x_ptr x_stride=8192 "
    "out_stride=8192 \\\n"
    "           n_cols=8192 --grid 512 BLOCK=256..8192 warps=1..16\n"};
