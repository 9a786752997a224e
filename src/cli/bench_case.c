/* bench_case: a case of `nereid bench` at one size: its modules loaded, arrays on the device, functions compiled,
 * operations and bytes counted.
 *
 * What a launch after --vs or --then does not say it has from the first launch: its ARG=SPEC, if the kernel has such a
 * parameter, and
 * --grid, --block, --warps and --stages. Launches after --then get the arrays of the ones before them.
 * A number that is no parameter serves expressions.
 */
#include "bench.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool words_add(Words *w, const char *word) {
  if (w->n == w->cap) {
    int cap = w->cap ? 2 * w->cap : 16;
    char **at = realloc(w->at, sizeof *at * (size_t)cap);
    if (!at) return false;
    w->at = at, w->cap = cap;
  }
  w->at[w->n++] = format_string("%s", word);
  return true;
}

void words_free(Words *w) {
  for (int i = 0; i < w->n; i++) free(w->at[i]);
  free(w->at);
  *w = (Words){0};
}

/* ---- words of one launch ----------------------------------------------------------------------------------------- */

static bool is_assignment(const char *word) { return word[0] != '-' && strchr(word, '=') && strchr(word, '=') != word; }
static bool same_name(const char *a, const char *b) {
  size_t n = strcspn(a, "=");
  return n == strcspn(b, "=") && !strncmp(a, b, n);
}
static bool takes_value(const char *o) { return option_words(o) == 2; }

static bool is_array_spec(const char *word) {
  const char *spec = strchr(word, '=') + 1;
  return *spec == '@' || (strchr(spec, ':') && (strchr(spec, '[') || !strncmp(spec, "like:", 5) ||
                                                !strncmp(spec, "same:", 5) || !strncmp(spec, "made:", 5)));
}

static const char *find_word(const Words *w, const char *like) { /* of the same name, or the same option */
  for (int i = 0; i < w->n; i++)
    if (is_assignment(like) ? is_assignment(w->at[i]) && same_name(w->at[i], like) : !strcmp(w->at[i], like))
      return w->at[i];
  return NULL;
}

bool segment_is_cuda_c(const Segment *s) {
  const char *file = s->words.n ? s->words.at[0] : "";
  return strstr(file, ".cu:") || launch_is_cuda_c(file);
}

/* One word of a launch as it goes on the command line: an array of a launch before it is not made again. */
static bool add_word(Words *out, const Words *from, int *k, bool inherits) {
  const char *w = from->at[*k];
  int n = (int)strcspn(w, "=");
  char *made = inherits && is_assignment(w) && is_array_spec(w) ? format_string("%.*s=made:%.*s", n, w, n, w) : NULL;
  bool good = words_add(out, made ? made : w);
  free(made);
  return good && takes_value(w) && *k + 1 < from->n ? words_add(out, from->at[++*k]) : good;
}

/* VERB FILE VARIABLES NUMBERS ARRAYS: numbers before arrays, since a shape may use them; of each the inherited ones
 * before the others, since what is said anew may use those. */
static bool compose(Words *out, const Plan *p, int i, const Words *variables) {
  const Words *own = &p->segments[i].words, *from = &p->segments[0].words;
  bool good = words_add(out, p->verb->name) && own->n > 0 && words_add(out, own->at[0]);
  for (int k = 0; k < variables->n && good; k++) {
    const char *v = variables->at[k];
    bool swept = p->sweep && same_name(v, p->sweep);
    if (swept || (!find_word(own, v) && !find_word(from, v))) good = words_add(out, v);
  }
  for (int arrays = 0; arrays < 2; arrays++) {
    for (int k = 1; k < from->n && good; k++) {
      const char *w = from->at[k], *anew = from != own ? find_word(own, w) : NULL;
      bool option = !is_assignment(w), skip = (arrays != 0) != (!option && is_array_spec(anew && !option ? anew : w)) ||
                                              (!option && p->sweep && same_name(w, p->sweep));
      if (skip || (anew && option)) k += takes_value(w);
      else if (anew) good = words_add(out, anew);
      else good = add_word(out, from, &k, p->segments[i].follows);
    }
    for (int k = 1; k < own->n && from != own && good; k++) {
      const char *w = own->at[k];
      bool option = !is_assignment(w), skip = (arrays != 0) != (!option && is_array_spec(w)) ||
                                              (!option && (find_word(from, w) || (p->sweep && same_name(w, p->sweep))));
      if (skip) k += takes_value(w);
      else good = add_word(out, own, &k, false);
    }
  }
  return good;
}

/* ---- one launch -------------------------------------------------------------------------------------------------- */

typedef struct Extra {
  const char *grid;
  Launch *launch;
} Extra;

static int launch_option(void *arg, int argc, char **argv) {
  Extra *e = arg;
  const char *o = argv[0];
  bool block = !strcmp(o, "--block"), shared = !strcmp(o, "--shared"), grid = !strcmp(o, "--grid");
  if (!block && !shared && !grid) return 0;
  if (argc < 2) return usage_error(e->launch->verb, "%s needs a value", o), -1;
  if (grid) return e->grid = argv[1], 2;
  int *to = block ? e->launch->options.block : &e->launch->options.shared_bytes;
  char end;
  int n = block ? sscanf(argv[1], "%d,%d,%d%c", &to[0], &to[1], &to[2], &end) : sscanf(argv[1], "%d%c", to, &end);
  bool good = n >= 1 && n <= (block ? 3 : 1) && to[0] >= block;
  return good ? 2
              : (usage_error(e->launch->verb, block ? "--block needs X[,Y[,Z]], numbers of threads"
                                                    : "--shared needs a number of bytes"),
                 -1);
}

static bool has_param(const nereid_kernel_info *k, const char *name) {
  for (int i = 0; k && i < k->param_count; i++)
    if (!strcmp(k->params[i].name, name)) return true;
  return false;
}

/* Whether an expression of the launch speaks of the variable. */
static bool is_used(const Words *words, const char *name) {
  size_t n = strlen(name);
  for (int i = 2; i < words->n; i++) {
    const char *text = strchr(words->at[i], '=');
    text = text && words->at[i][0] != '-' ? text : words->at[i];
    for (const char *p = text; (p = strstr(p, name)); p += n) {
      bool before = p > text && (isalnum((unsigned char)p[-1]) || p[-1] == '_'),
           after = isalnum((unsigned char)p[n]) || p[n] == '_';
      if (!before && !after) return true;
    }
  }
  return false;
}

/* Arrays of the first launch that this kernel has no parameter for are not made. */
static void drop_foreign_arrays(Launch *l, const Words *own) {
  const nereid_kernel_info *k = l->kernel_name                        ? nereid_kernel_find(l->module, l->kernel_name)
                                : nereid_kernel_count(l->module) == 1 ? nereid_kernel_at(l->module, 0)
                                                                      : NULL;
  if (!k) return; /* launch_make_args says so */
  int n = 0;
  for (int i = 0; i < l->arg_count; i++) {
    LaunchArg *a = &l->args[i];
    char *word = format_string("%s=", a->name);
    bool mine = find_word(own, word);
    free(word);
    if (!mine && !has_param(k, a->name) && strchr(a->spec, ':')) {
      free((char *)a->name);
      continue;
    }
    l->args[n++] = *a;
  }
  l->arg_count = n;
}

static int upload(nereid_device *d, LaunchArg *a, bool keep) {
  nereid_error *err = NULL;
  if (!a->is_array) return 0;
  if (a->shared) return a->device_pointer = a->shared->device_pointer, 0;
  if (nereid_alloc(d, a->array.bytes, &a->device_pointer, &err)) return report_error(err);
  if (nereid_copy_to_device(d, a->device_pointer, a->array.data, a->array.bytes, &err)) return report_error(err);
  if (!keep && !is_integer_type(a->array.dtype)) free(a->array.data), a->array.data = NULL; /* else counting reads it */
  return 0;
}

static void add_cost(nereid_cost *to, const nereid_cost *c) {
  double flops = to->flops + c->flops;
  int64_t *a = &to->add;
  const int64_t *b = &c->add;
  to->programs += c->programs, to->programs_walked += c->programs_walked;
  for (int i = 0; i < 32; i++) a[i] += b[i]; /* add .. dots */
  to->flops = flops;
  to->exact &= c->exact, to->at_least |= c->at_least;
  size_t n = strlen(to->remarks);
  if (*c->remarks && !strstr(to->remarks, c->remarks))
    snprintf(to->remarks + n, sizeof to->remarks - n, "%s", c->remarks);
}
_Static_assert(offsetof(nereid_cost, exact) - offsetof(nereid_cost, add) == 32 * sizeof(int64_t),
               "add_cost adds 32 numbers");

static int launch_open(Case *c, int i, nereid_device *d, const Words *words, const Words *own) {
  Launch *l = &c->launches[i];
  Extra extra = {.launch = l};
  l->repeats_data = true;
  l->before = i ? l - 1 : NULL;
  int status = launch_parse(l, c->verb, words->n, words->at, launch_option, &extra);
  if (status) return status;
  drop_foreign_arrays(l, own);
  if ((status = launch_make_args(l))) return status;
  if (!extra.grid)
    return usage_error(c->verb, "%s: --grid says how many programs to run, as in --grid 'cdiv(n, BLOCK)'",
                       words->at[1]);
  int64_t grid[3];
  char *text = NULL;
  if ((status = launch_grid_text(l, extra.grid, &text))) return status;
  l->options.grid = text;
  for (int k = 0; k < l->arg_count && !status; k++) status = upload(d, &l->args[k], c->keep_inputs);
  nereid_arg *all = status ? NULL : launch_arg_list(l);
  if (!all) return status ? status : report_error(NULL);
  c->args[i] = all;
  int n = 0;
  for (int k = 0; k < l->arg_count; k++) {
    char *word = format_string("%s=", l->args[k].name);
    bool given = find_word(own, word) && (l->args[k].is_array || !is_used(words, l->args[k].name));
    free(word);
    if (given || has_param(l->kernel, l->args[k].name)) all[n++] = all[k];
  }
  nereid_error *err = NULL;
  if (nereid_compile(d, l->module, l->kernel->name, all, n, &l->options, &c->functions[i], &err))
    return report_error(err);
  if (nereid_function_grid(c->functions[i], all, n, grid, &err)) return report_error(err);
  c->bench[i] = (nereid_bench_launch){c->functions[i], {grid[0], grid[1], grid[2]}, all, n};
  return 0;
}

/* ---- what they cost ---------------------------------------------------------------------------------------------- */

/* Whether a launch of the case may write the array: the others then find in it what nobody knows. */
static bool is_written(const Case *c, const LaunchArg *owner) {
  for (int i = 0; i < c->count; i++)
    for (int k = 0; k < c->launches[i].arg_count; k++) {
      const LaunchArg *a = &c->launches[i].args[k];
      if ((a->shared ? a->shared : a) == owner && nereid_function_writes(c->functions[i], a->name)) return true;
    }
  return false;
}

static int count_launch(Case *c, int i, nereid_device *d) {
  const nereid_bench_launch *b = &c->bench[i];
  Launch *l = &c->launches[i];
  nereid_arg *args = malloc(sizeof *args * (size_t)(b->arg_count + 1));
  nereid_error *err = NULL;
  nereid_cost cost;
  if (!args) return report_error(NULL);
  for (int k = 0; k < b->arg_count; k++) {
    const LaunchArg *a = launch_arg(l, b->args[k].name), *owner = a && a->shared ? a->shared : a;
    args[k] = b->args[k];
    if (owner && owner->is_array && !is_written(c, owner)) launch_arg_knows(&args[k], &owner->array);
  }
  int status = 0;
  if (nereid_launch_cost(d, l->module, l->kernel->name, b->grid, args, b->arg_count, &l->options, &cost, &err))
    status = report_error(err);
  else add_cost(&c->cost, &cost);
  free(args);
  return status;
}

/* Afterwards what integer arrays hold has served, unless checks compare with it. */
static int count_all(Case *c, nereid_device *d) {
  int status = 0;
  for (int i = 0; i < c->count; i++) c->counted &= !launch_is_cuda_c(c->launches[i].path);
  for (int i = 0; i < c->count && c->counted && !status; i++) status = count_launch(c, i, d);
  if (!c->keep_inputs) case_drop_inputs(c);
  return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

int case_open(Case *c, nereid_device *d, const Plan *p, int first, const Words *variables) {
  c->verb = p->verb, c->counted = true, c->cost.exact = true;
  for (int i = first; i < p->segment_count && (i == first || p->segments[i].follows); i++) {
    if (c->count == MAX_LAUNCHES) return usage_error(c->verb, "a case has at most %d launches", MAX_LAUNCHES);
    Words *words = &c->words[c->count];
    int status = compose(words, p, i, variables) ? launch_open(c, c->count, d, words, &p->segments[i].words)
                                                 : report_error(NULL);
    if (!status && !c->label) {
      const Launch *l = &c->launches[0];
      bool more = i + 1 < p->segment_count && p->segments[i + 1].follows;
      const char *slash = strrchr(l->path, '/');
      c->label = more || launch_is_cuda_c(l->path)
                     ? format_string("%s:%s%s", slash ? slash + 1 : l->path, l->kernel->name, more ? "..." : "")
                     : format_string("%s", l->kernel->name);
    }
    c->count++;
    if (status) return status;
  }
  return count_all(c, d);
}

bool number_labels(Case *cases, int n) {
  for (int i = 1; i < n; i++)
    for (int k = 0; k < i; k++) {
      if (strcmp(cases[i].label, cases[k].label)) continue;
      char *label = format_string("%s (%d)", cases[i].label, i + 1);
      if (!label) return false;
      free(cases[i].label);
      cases[i].label = label;
    }
  return true;
}

void case_close(Case *c, nereid_device *d) {
  for (int i = 0; i < c->count; i++) {
    Launch *l = &c->launches[i];
    for (int k = 0; l->args && k < l->arg_count; k++)
      if (l->args[k].device_pointer && !l->args[k].shared) nereid_free(d, l->args[k].device_pointer);
    nereid_function_free(c->functions[i]);
    free(c->args[i]);
    free((char *)l->options.grid);
    launch_free(l);
    words_free(&c->words[i]);
  }
  free(c->label);
}

void case_drop_inputs(Case *c) {
  for (int i = 0; i < c->count; i++)
    for (int k = 0; k < c->launches[i].arg_count; k++) {
      LaunchArg *a = &c->launches[i].args[k];
      if (a->is_array && !a->shared) free(a->array.data), a->array.data = NULL;
    }
}
