/* Autotune: what configuration a launch takes that leaves it open. Looked up, or measured, when its specialization is
 * not there yet; so a warm launch knows nothing of it.
 *
 *     what nereid_tune kept for such a call  ─▶  what autotune found for its key  ─▶  the race (tune.c)
 *                                                                                 ─▶  else the first that fits
 *
 * The key of autotune is Triton's (values of the arguments that `key` names, element types) with the list of the
 * configurations itself: a file whose list changes is tuned anew. One kernel of a module is measured at a time; who
 * waited finds the winner.
 */
#include <errno.h>
#include <stdlib.h>

#include "measure/tune.h"

/* ---- what the front end says ------------------------------------------------------------------------------------- */

typedef struct Plan {
  Context *cx;    /* of list */
  Tuning *list;   /* NULL: nothing is to be tried */
  Buf key;        /* for winners */
  int *chosen, n; /* indices of the list's configurations that may be tried */
} Plan;

static void plan_free(Plan *p) {
  context_destroy(p->cx);
  buf_destroy(&p->key);
  free(p->chosen);
}

static nereid_status plan_make(Plan *p, nereid_device *d, nereid_module *m, const Call *c, const nereid_options *o,
                               Tunes tunes, nereid_error **error) {
  p->cx = context_within(o);
  if (!p->cx) return error_out_of_memory(error);
  if (context_try(p->cx)) {
    const CompileOptions options = {
        .num_warps = o->num_warps, .num_stages = o->num_stages, .num_ctas = o->num_ctas, .cuda_sm = d->cuda_sm};
    Module *front = module_front(m, p->cx, d->cuda_sm);
    p->list = front_tuning(front, front_kernel_at(front, c->kernel->index), call_specs(c, p->cx), &options);
    names_remember(m, front);
    context_end_try(p->cx);
  } else {
    return error_from_context(error, NEREID_BAD_SOURCE, p->cx);
  }
  if (!p->list) return NEREID_OK;
  const Tuning *t = p->list;
  p->chosen = calloc((size_t)t->count, sizeof *p->chosen);
  buf_printf(&p->key, "autotune\n%s", t->key);
  for (int i = 0; i < t->count && p->chosen; i++) {
    if (tunes != TUNES_ANY && !t->configs[i].like_first) continue;
    buf_printf(&p->key, "--\n%s", t->configs[i].text);
    p->chosen[p->n++] = i;
  }
  return p->chosen && !p->key.failed ? NEREID_OK : error_out_of_memory(error);
}

static bool cached_config(const Plan *p, nereid_device *d, nereid_module *m, const Call *c, Chosen *out) {
  Buf text = {0};
  bool found = tuning_cache_find(d, m, c->kernel, p->key.at, p->key.n, &text);
  int config = 0;
  for (int i = 0; i < p->n && found && !config; i++) {
    const TuneConfig *k = &p->list->configs[p->chosen[i]];
    size_t n = strlen(k->text); /* comments follow in a file */
    if (!strncmp(text.at, k->text, n) && (!text.at[n] || text.at[n] == '#')) config = k->config;
  }
  buf_destroy(&text);
  *out = (Chosen){.config = config};
  return config != 0;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static nereid_status mark_arrays(Tuner *t, const Call *c, const Tuning *list, nereid_error **error) {
  for (int k = 0; k < 2; k++) {
    const int *params = k ? list->restore : list->reset;
    for (int i = 0; i < (k ? list->restore_count : list->reset_count); i++) {
      TuneArray *a = arrays_find(&t->arrays, params[i]);
      if (!a) continue; /* None */
      if (!a->bytes) return array_unknown(c, params[i], k ? "autotune is to restore" : "autotune is to zero", error);
      if (k) a->restores = true;
      else a->resets = true;
    }
  }
  return NEREID_OK;
}

static nereid_status measure(nereid_device *d, nereid_module *m, const Call *c, const nereid_options *o,
                             const int64_t grid[3], const Plan *p, Specialization **made, nereid_error **error) {
  static const nereid_tune_options usual = {0};
  nereid_tune_options how = o->tune ? *o->tune : usual;
  how.unchecked = true; /* as in Triton: what is in the list is meant */
  Tuner t = {.device = d,
             .module = m,
             .options = &how,
             .grid = grid,
             .count = p->n,
             .no_programs = NOTHING_TO_MEASURE,
             .lock = PTHREAD_MUTEX_INITIALIZER};
  t.at = calloc((size_t)p->n, sizeof *t.at);
  nereid_tune_result *results = calloc((size_t)p->n, sizeof *results);
  nereid_status status = t.at && results ? arrays_open(&t.arrays, d, c, error) : error_out_of_memory(error);
  if (!status) status = mark_arrays(&t, c, p->list, error);
  for (int i = 0; i < p->n && !status; i++) {
    t.at[i] = (Candidate){
        .call = c, .options = *o, .chosen = {.config = p->list->configs[p->chosen[i]].config}, .result = &results[i]};
    t.at[i].options.tune = NULL;
  }
  if (status) t.count = 0;
  if (!how.repeat && p->list->rep_ms > 0 && p->list->rep_ms < 20) how.repeat = 25; /* who asks for little gets little */
  int best = -1;
  if (!status) status = tuner_run(&t, &best, error);
  if (!status) {
    Candidate *w = &t.at[best];
    /* else other processes find it again */
    tuning_cache_keep(d, m, c->kernel, p->key.at, p->key.n, p->list->configs[p->chosen[best]].text,
                      results[best].times.median);
    print_lines(&w->print, o);
    *made = w->spec;
    w->spec = NULL;
  }
  tuner_close(&t);
  free(t.at);
  free(results);
  return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

nereid_status autotune_find(nereid_device *d, nereid_module *m, Call *c, const nereid_options *o, const int64_t grid[3],
                            bool measures, Found *found, Specialization **made, nereid_error **error) {
  Tunes tunes = call_tunes(d, o);
  if (tunes == TUNES_NOT || m->is_cuda_c) return NEREID_OK;
  size_t size;
  const void *key = call_stable_key(c, &size);
  if (tuning_cache_find(d, m, c->kernel, key, size, &found->text) && found_parse(found) &&
      (tunes == TUNES_ANY || !found->chosen.count)) {
    c->chosen = &found->chosen;
    return NEREID_OK;
  }
  if (c->open) return call_still_open(c, error);
  if (!c->kernel->decorated) return NEREID_OK;
  Plan p = {0};
  nereid_status status = plan_make(&p, d, m, c, o, tunes, error);
  bool tries = !status && p.list && p.n > 1;
  if (tries && cached_config(&p, d, m, c, &found->chosen)) c->chosen = &found->chosen;
  else if (tries && measures) {
    pthread_mutex_lock(&m->tune_lock);
    if (cached_config(&p, d, m, c, &found->chosen)) c->chosen = &found->chosen; /* by who held the lock */
    else status = measure(d, m, c, o, grid, &p, made, error);
    pthread_mutex_unlock(&m->tune_lock);
  }
  plan_free(&p);
  return status;
}

/* ---- nereid_tune ------------------------------------------------------------------------------------------------- */

/* The launch's arguments with what a configuration sets; in `out`, with room for both. */
static int merge(const nereid_arg *args, int n, const nereid_config *k, nereid_arg *out) {
  int count = 0;
  for (int i = 0; i < n; i++) {
    bool set = false;
    for (int j = 0; j < k->arg_count && !set; j++) set = args[i].name && !strcmp(args[i].name, k->args[j].name);
    if (!set) out[count++] = args[i];
  }
  for (int j = 0; j < k->arg_count; j++) out[count++] = k->args[j];
  return count;
}

typedef struct Tuned { /* of nereid_tune: what each candidate is made of */
  nereid_arg **args;
  Call *calls;
  int bound;
} Tuned;

static nereid_status check_configs(const nereid_config *configs, int n, nereid_error **error) {
  for (int i = 0; i < n; i++) {
    if (configs[i].arg_count < 0 || (configs[i].arg_count && !configs[i].args))
      return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_tune: configuration %d has %d arguments at NULL", i,
                       configs[i].arg_count);
    for (int j = 0; j < configs[i].arg_count; j++)
      if (!configs[i].args[j].name)
        return error_set(error, NEREID_BAD_ARGUMENT, "name it with nereid_named",
                         "nereid_tune: argument %d of configuration %d has no name", j, i);
  }
  return NEREID_OK;
}

static nereid_options options_of(const nereid_options *o, const nereid_config *k) {
  nereid_options out = *o;
  out.no_autotune = true, out.tune = NULL;
  if (k->num_warps) out.num_warps = k->num_warps;
  if (k->num_stages) out.num_stages = k->num_stages;
  if (k->num_ctas) out.num_ctas = k->num_ctas;
  if (k->grid) out.grid = k->grid;
  return out;
}

static void put_value(Buf *out, const nereid_arg *a) {
  if (a->kind == NEREID_ARG_CONSTEXPR && a->text) buf_puts(out, a->text);
  else if (a->kind == NEREID_ARG_FLOAT) buf_double(out, a->f);
  else if (a->kind == NEREID_ARG_BOOL) buf_puts(out, a->i ? "True" : "False");
  else if (a->kind == NEREID_ARG_NONE) buf_puts(out, "None");
  else buf_printf(out, "%lld", (long long)a->i);
}

/* The winner, for launches that leave open what any configuration sets. */
static nereid_status keep(nereid_device *d, nereid_module *m, const KernelInfo *k, const nereid_arg *args, int n,
                          const nereid_options *o, const nereid_config *configs, int count, int best,
                          const nereid_tune_result *r, nereid_error **error) {
  nereid_arg *rest = malloc(sizeof *rest * (size_t)(n + 1));
  if (!rest) return error_out_of_memory(error);
  int rest_count = 0;
  nereid_options open = *o;
  for (int i = 0; i < n; i++) {
    bool set = false;
    for (int j = 0; j < count && !set; j++)
      for (int a = 0; a < configs[j].arg_count && !set; a++)
        set = args[i].name && !strcmp(args[i].name, configs[j].args[a].name);
    if (!set) rest[rest_count++] = args[i];
  }
  for (int j = 0; j < count; j++) {
    if (configs[j].num_warps) open.num_warps = 0;
    if (configs[j].num_stages) open.num_stages = 0;
    if (configs[j].num_ctas) open.num_ctas = 0;
  }
  Call c;
  nereid_status status = call_bind_on(&c, k, d, rest, rest_count, &open, error);
  Buf text = {0};
  const nereid_config *w = &configs[best];
  for (int a = 0; a < w->arg_count; a++) {
    buf_printf(&text, "%s=", w->args[a].name);
    put_value(&text, &w->args[a]);
    buf_putc(&text, '\n');
  }
  buf_printf(&text, "num_warps=%d\nnum_stages=%d\nnum_ctas=%d\n", w->num_warps, w->num_stages, w->num_ctas);
  if (!status && text.failed) status = error_out_of_memory(error);
  if (!status) {
    size_t size;
    const void *key = call_stable_key(&c, &size);
    if (!tuning_cache_keep(d, m, k, key, size, text.at, r->times.median))
      status = error_set(error, NEREID_BAD_FILE,
                         "name a folder that can be written with NEREID_CACHE_DIR; in this process the winner is known",
                         "the winner of '%s' cannot be kept in the folder 'tune' of the cache: %s", k->info.name,
                         strerror(errno));
  }
  buf_destroy(&text);
  call_free(&c);
  free(rest);
  return status;
}

static nereid_status bind_all(Tuner *t, Tuned *u, const KernelInfo *k, const nereid_arg *args, int n,
                              const nereid_options *o, const nereid_config *configs, nereid_tune_result *results,
                              nereid_error **error) {
  nereid_status status = NEREID_OK;
  for (int i = 0; i < t->count && !status; i++) {
    u->args[i] = malloc(sizeof **u->args * (size_t)(n + configs[i].arg_count + 1));
    if (!u->args[i]) return error_out_of_memory(error);
    t->at[i] = (Candidate){.call = &u->calls[i], .options = options_of(o, &configs[i]), .result = &results[i]};
    int count = merge(args, n, &configs[i], u->args[i]);
    status = call_bind_on(&u->calls[i], k, t->device, u->args[i], count, &t->at[i].options, error);
    u->bound = i + 1;
  }
  return status;
}

static nereid_status mark_outputs(Tuner *t, const KernelInfo *k, nereid_error **error) {
  const nereid_tune_options *o = t->options;
  for (int j = 0; j < o->ignore_count; j++) {
    int p = 0;
    while (o->ignore[j] && p < k->info.param_count && strcmp(o->ignore[j], k->names[p])) p++;
    if (!o->ignore[j] || p == k->info.param_count)
      return error_set(error, NEREID_BAD_ARGUMENT, NULL,
                       "what is not to be compared: kernel '%s' has no parameter '%s'", k->info.name,
                       o->ignore[j] ? o->ignore[j] : "");
  }
  for (int i = 0; i < t->arrays.count; i++) {
    TuneArray *a = &t->arrays.at[i];
    a->compared = t->checks && a->bytes > 0;
    for (int j = 0; j < o->ignore_count; j++)
      if (!strcmp(o->ignore[j], k->names[a->param])) a->compared = false;
  }
  return NEREID_OK;
}

nereid_status nereid_tune(nereid_device *d, nereid_module *m, const char *kernel, const int64_t grid[3],
                          const nereid_arg *args, int arg_count, const nereid_options *o, const nereid_config *configs,
                          int config_count, const nereid_tune_options *how, nereid_tune_result *results, int *best,
                          nereid_error **error) {
  static const nereid_tune_options usual = {0};
  if (!d) return error_null(error, "nereid_tune", "the device");
  if (!m) return error_null(error, "nereid_tune", "the module");
  if (!kernel) return error_null(error, "nereid_tune", "the kernel's name");
  if (config_count < 1 || !configs || !results || !best)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_tune: %d configurations, or where results go is NULL",
                     config_count);
  if (!d->kind->signature)
    return error_set(error, NEREID_UNSUPPORTED, "tune on cpu or cuda", "the device %s does not measure", d->name);
  TAKE_OPTIONS(o);
  if (!how) how = &usual;
  if (arg_count < 0 || (arg_count && !args))
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_tune: %d arguments at NULL", arg_count);
  if (how->repeat < 0 || how->repeat > 1000 || !(how->budget_s >= 0))
    return error_set(error, NEREID_BAD_ARGUMENT, "0 asks for the usual ones",
                     "nereid_tune: repeat %d, budget_s %g make no sense", how->repeat, how->budget_s);
  const KernelInfo *k = module_kernel(m, kernel, error);
  if (!k) return NEREID_BAD_ARGUMENT;
  nereid_status status = check_configs(configs, config_count, error);
  if (status) return status;
  memset(results, 0, sizeof *results * (size_t)config_count);
  *best = -1;
  Tuner t = {.device = d,
             .module = m,
             .options = how,
             .grid = grid,
             .count = config_count,
             .checks = !how->unchecked,
             .no_programs = NEREID_BAD_ARGUMENT,
             .lock = PTHREAD_MUTEX_INITIALIZER};
  Tuned u = {calloc((size_t)config_count, sizeof *u.args), calloc((size_t)config_count, sizeof *u.calls), 0};
  t.at = calloc((size_t)config_count, sizeof *t.at);
  status = u.args && u.calls && t.at ? bind_all(&t, &u, k, args, arg_count, o, configs, results, error)
                                     : error_out_of_memory(error);
  if (!status) status = arrays_open(&t.arrays, d, &u.calls[0], error);
  if (!status) status = mark_outputs(&t, k, error);
  if (!status) {
    pthread_mutex_lock(&m->tune_lock);
    status = tuner_run(&t, best, error);
    pthread_mutex_unlock(&m->tune_lock);
  }
  if (!status && how->keep && !t.ended && !configs[*best].grid)
    status = keep(d, m, k, args, arg_count, o, configs, config_count, *best, &results[*best], error);
  if (!t.at) t.count = 0;
  tuner_close(&t);
  free(t.at);
  for (int i = 0; i < config_count && u.args; i++) free(u.args[i]);
  for (int i = 0; i < u.bound; i++) call_free(&u.calls[i]);
  free(u.args), free(u.calls);
  return status;
}
