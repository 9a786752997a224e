/* @triton.autotune: its list of configurations, which of them a launch may choose from, and the one it takes.
 *
 *     configs ──fits: agrees with what the caller gave──▶ ──early_config_prune──▶ ──perf_model, top_k──▶ to try, in
 *         order
 *
 * Who measures asks for the list (front_tuning) and names the winner when it compiles (CompileOptions.chosen); else the
 * first is taken. A caller who gives every parameter that the configurations set has chosen, and nothing is tried.
 *
 * prune_configs_by and pre_hook are Python functions of the file: they are evaluated as host code (hostexpr.c), on the
 * configurations as objects, numbers as they are, arrays as objects that know their dtype. A hook can do two things
 * that reach the launch: nargs["x"].zero_(), and setting the block_shape of a descriptor. One that does something else
 * to an array fails, with its name. */
#include "front/core.h"

Node *tuning_argument(Node *decorator, const char *name) {
  static const char *const names[] = {
      "configs", "key", "prune_configs_by", "reset_to_zero", "restore_value", "pre_hook", "post_hook", "warmup", "rep"};
  int position = 0;
  while (strcmp(names[position], name)) position++;
  return decorator_argument(decorator, position, name);
}

static Py *value_of(Choice *c, Namespace *ns, Node *decorator, const char *name) { /* NULL: not given, or None */
  Node *node = tuning_argument(decorator, name);
  Py *v = node ? host_eval_in(c->fr, ns, node) : NULL;
  return v && v->kind != PY_NONE ? v : NULL;
}

/* ---- one configuration ------------------------------------------------------------------------------------------- */

static Py *kwargs_of(const Py *config) {
  Py *kwargs = config->kind == PY_OBJECT ? map_get(config->object.fields, "kwargs") : NULL;
  return kwargs && kwargs->kind == PY_DICT ? kwargs : NULL;
}

static int option(const Py *config, const char *name) {
  Py *v = map_get(config->object.fields, name), *in = py_dict_get_name(kwargs_of(config), name);
  if (in && in->kind == PY_INT) v = in; /* {"num_warps": 4} among the parameters, as some files have it */
  return v && v->kind == PY_INT && v->i > 0 && v->i < 1000 ? (int)v->i : 0;
}

static bool fits(const Choice *c, const Py *kwargs) {
  for (int i = 0; i < kwargs->dict.n; i++) {
    int p = kwargs->dict.keys[i]->kind == PY_STR ? choice_param(c->k, kwargs->dict.keys[i]->str.s) : -1;
    if (p < 0) continue;
    if (c->known[p] && c->known[p]->kind != PY_UNKNOWN && !py_equal(c->known[p], kwargs->dict.values[i])) return false;
  }
  return true;
}

/* Whether the caller left open something that the configuration sets. */
static bool leaves_open(const Choice *c, const Py *kwargs) {
  bool sets = false;
  for (int i = 0; i < kwargs->dict.n; i++) {
    int p = kwargs->dict.keys[i]->kind == PY_STR ? choice_param(c->k, kwargs->dict.keys[i]->str.s) : -1;
    if (p >= 0 && c->args[p].kind == ARG_MISSING) return true;
    sets |= p >= 0;
  }
  return !sets && !c->options->num_warps;
}

static const char *parameters_text(Choice *c, const Py *kwargs) {
  Context *cx = c->fr->cx;
  const char *text = "";
  for (int i = 0; i < kwargs->dict.n; i++) {
    if (kwargs->dict.keys[i]->kind != PY_STR || choice_param(c->k, kwargs->dict.keys[i]->str.s) < 0) continue;
    text = arena_printf(cx->arena, "%s%s=%s\n", text, kwargs->dict.keys[i]->str.s,
                        py_describe(c->fr, kwargs->dict.values[i]));
  }
  return text;
}

static const char *config_text(Choice *c, const Py *config) {
  const CompileOptions *o = c->options;
  int warps = o->num_warps ? o->num_warps : option(config, "num_warps"),
      stages = o->num_stages ? o->num_stages : option(config, "num_stages");
  int ctas = o->num_ctas ? o->num_ctas : option(config, "num_ctas");
  return arena_printf(c->fr->cx->arena, "%snum_warps=%d\nnum_stages=%d\nnum_ctas=%d\n",
                      parameters_text(c, kwargs_of(config)), warps ? warps : 4, stages ? stages : 3, ctas ? ctas : 1);
}

/* ---- prune_configs_by -------------------------------------------------------------------------------------------- */

static bool accepts(const Py *fn, const char *name) { /* functions whose parameters are not known take all */
  if (fn->kind != PY_FUNCTION) return true;
  const Node *def = fn->fn->def, *a = def->kind == NODE_LAMBDA ? def->Lambda.args : def->FunctionDef.args;
  const NodeList *lists[] = {&a->arguments.posonlyargs, &a->arguments.args, &a->arguments.kwonlyargs};
  if (a->arguments.kwarg) return true;
  for (int l = 0; l < 3; l++)
    for (int i = 0; i < lists[l]->n; i++)
      if (!strcmp(lists[l]->at[i]->arg.arg, name)) return true;
  return false;
}

static void add_keyword(Call *call, const Py *fn, const char *name, Py *v) {
  for (int i = 0; i < call->kw_n; i++)
    if (!strcmp(call->kw_names[i], name)) return;
  if (!accepts(fn, name)) return;
  call->kw_names[call->kw_n] = name;
  call->kw_values[call->kw_n++] = v;
}

/* A call with room for `n` arguments by position and `keywords` by name. */
static Call call_of(Choice *c, Node *at, int n, int keywords) {
  Arena *a = c->fr->cx->arena;
  Call call = {.span = at->span, .arg_spans = NEW_N(a, Span, n + keywords + 1), .n = n, .args = NEW_N(a, Py *, n + 1)};
  call.kw_names = NEW_N(a, const char *, keywords + 1), call.kw_values = NEW_N(a, Py *, keywords + 1);
  return call;
}

static Py *named_arguments(Choice *c, const Py *config) { /* config: with what it sets; or NULL */
  Front *fr = c->fr;
  Py *d = py_dict(fr);
  for (int i = 0; i < c->k->param_count; i++)
    if (c->known[i]) py_dict_put(fr, d, py_str(fr, c->k->params[i].name), c->known[i]);
  if (!config) return d;
  Py *kwargs = kwargs_of(config);
  for (int i = 0; i < kwargs->dict.n; i++) py_dict_put(fr, d, kwargs->dict.keys[i], kwargs->dict.values[i]);
  static const char *const names[] = {"num_warps", "num_stages", "num_ctas"};
  for (int i = 0; i < 3; i++) py_dict_put(fr, d, py_str(fr, names[i]), py_int(fr, option(config, names[i])));
  return d;
}

static Py *early_prune(Choice *c, Node *at, Py *fn, Py *configs) {
  Call call = call_of(c, at, 2, c->k->param_count);
  call.args[0] = py_list(c->fr, configs->tuple.n, configs->tuple.at), call.args[1] = named_arguments(c, NULL);
  for (int i = 0; i < c->k->param_count; i++)
    if (c->known[i] && c->k->params[i].is_constexpr)
      add_keyword(&call, fn, intern_z(c->fr->cx, c->k->params[i].name), c->known[i]);
  return host_iterate(c->fr, host_call(c->fr, fn, &call));
}

static Py *estimate(Choice *c, Node *at, Py *fn, const Py *config) {
  Py *all = named_arguments(c, config);
  Call call = call_of(c, at, 0, all->dict.n);
  for (int i = 0; i < all->dict.n; i++)
    add_keyword(&call, fn, intern_z(c->fr->cx, all->dict.keys[i]->str.s), all->dict.values[i]);
  return host_call(c->fr, fn, &call);
}

/* The best `top` of configs by the model's times. NULL with *bad set: it cannot be evaluated. */
static Py *by_model(Choice *c, Node *at, Py *model, const Py *top, int all, Py *configs, Py **bad) {
  Front *fr = c->fr;
  int64_t keep = top && top->kind == PY_INT     ? (int64_t)top->i
                 : top && top->kind == PY_FLOAT ? (int64_t)(top->f * all)
                                                : all;
  if (keep >= configs->tuple.n) return configs;
  Py *order = py_list(fr, configs->tuple.n, configs->tuple.at), *times = py_list(fr, 0, NULL);
  for (int i = 0; i < configs->tuple.n; i++) {
    Py *t = estimate(c, at, model, configs->tuple.at[i]);
    if (!py_is_number(t))
      return *bad = t->kind == PY_UNKNOWN ? t : py_unknown(fr, "a time that is %s", py_describe(fr, t)), NULL;
    py_append(fr, times, t);
  }
  py_sort(fr, order, times, false);
  return py_tuple(fr, keep < 1 ? 1 : (int)keep, order->tuple.at);
}

/* What is left of `configs`, of which `all` there were. Where a function cannot be evaluated: an error when somebody
 * measures, else all of them. */
static Py *prune(Choice *c, Namespace *ns, Node *decorator, Py *configs, int all) {
  Front *fr = c->fr;
  Context *cx = fr->cx;
  Node *at = tuning_argument(decorator, "prune_configs_by");
  Py *by = value_of(c, ns, decorator, "prune_configs_by"), *bad = NULL, *left = configs;
  if (!by) return configs;
  if (by->kind != PY_DICT) bad = by->kind == PY_UNKNOWN ? by : py_unknown(fr, "%s", py_describe(fr, by));
  const char *what = "prune_configs_by";
  Py *early = bad ? NULL : py_dict_get_name(by, "early_config_prune"),
     *model = bad ? NULL : py_dict_get_name(by, "perf_model");
  if (early && early->kind != PY_NONE) {
    left = early_prune(c, at, early, configs);
    if (left->kind == PY_UNKNOWN) bad = left, what = "early_config_prune";
    else if (!left->tuple.n && c->list)
      diag_fail_hint(cx, at->span, "it should leave one at least", "early_config_prune of %s leaves no configuration",
                     c->k->fn->name);
  }
  if (!bad && left->tuple.n && model && model->kind != PY_NONE) {
    left = by_model(c, at, model, py_dict_get_name(by, "top_k"), all, left, &bad);
    if (bad) what = "perf_model";
  }
  if (bad && c->list)
    diag_fail_hint(cx, at->span,
                   "give the configuration's parameters, or take the first that fits with NEREID_AUTOTUNE=0",
                   "%s of %s cannot be evaluated: %s is not supported here", what, c->k->fn->name, bad->library);
  return bad || !left->tuple.n ? configs : left;
}

/* ---- pre_hook ---------------------------------------------------------------------------------------------------- */

static NORETURN void fail_hook(Choice *c, Span at, const char *what, const char *why) {
  diag_fail_hint(
      c->fr->cx, at,
      "a hook may call zero_() on arrays and set block_shape of descriptors; reset_to_zero and restore_value "
      "serve for the rest",
      "%s of %s cannot be evaluated: %s is not supported here", what, c->k->fn->name, why);
}

/* Runs a hook on the arguments with what `config` sets. What it zeroes goes to zeroed, block shapes that it sets to
 * c->config->args. */
static void run_hook(Choice *c, Span at, const char *what, Py *hook, const Py *config, int **zeroed, int *count) {
  Front *fr = c->fr;
  Project *project = front_project(fr);
  Py *nargs = named_arguments(c, config);
  project->lost = NULL;
  memset(&project->zeroed, 0, sizeof project->zeroed);
  Call call = {.span = at, .arg_spans = NEW_N(fr->cx->arena, Span, 2), .n = 1, .args = &nargs};
  Py *result = host_call(fr, hook, &call);
  const char *why = result->kind == PY_UNKNOWN ? result->library : project->lost;
  if (why) fail_hook(c, at, what, why);
  *zeroed = project->zeroed.at, *count = project->zeroed.n;
  ArgSpec *args = NULL;
  for (int i = 0; i < c->k->param_count; i++) {
    if (c->args[i].kind != ARG_DESCRIPTOR) continue;
    Py *block = map_get(c->known[i]->object.fields, "block_shape"), *items = block ? py_items(fr, block) : NULL;
    if (!items || items->tuple.n != c->args[i].rank) fail_hook(c, at, what, "a block_shape of another rank");
    if (!args)
      c->config->args = args = arena_copy(fr->cx->arena, c->config->args, sizeof *args * (size_t)c->k->param_count);
    for (int d = 0; d < items->tuple.n; d++) {
      Py *n = items->tuple.at[d];
      if (n->kind != PY_INT || n->i < 1 || n->i > INT32_MAX || (n->i & (n->i - 1)))
        fail_hook(c, at, what, arena_printf(fr->cx->arena, "a block_shape of %s", py_describe(fr, n)));
      args[i].block_shape[d] = (int32_t)n->i;
    }
  }
}

/* ---- the list to try --------------------------------------------------------------------------------------------- */

static void read_names(Choice *c, Namespace *ns, Node *decorator, const char *what, const int **out, int *count) {
  Py *v = value_of(c, ns, decorator, what), *items = v ? host_iterate(c->fr, v) : NULL;
  Span at = v ? tuning_argument(decorator, what)->span : decorator->span;
  if (!items) return;
  if (items->kind == PY_UNKNOWN)
    diag_fail(c->fr->cx, at, "%s of %s is not known here: %s", what, c->k->fn->name, items->library);
  int *list = NEW_N(c->fr->cx->arena, int, items->tuple.n + 1);
  for (int i = 0; i < items->tuple.n; i++) {
    const Py *name = items->tuple.at[i];
    int p = name->kind == PY_STR ? choice_param(c->k, name->str.s) : -1;
    if (p < 0)
      diag_fail(c->fr->cx, at, "%s of %s names %s, which is no parameter", what, c->k->fn->name,
                py_describe(c->fr, name));
    if (c->args[p].kind == ARG_POINTER || c->args[p].kind == ARG_DESCRIPTOR) list[(*count)++] = p;
  }
  *out = list;
}

/* Triton's key: the values of the arguments that are named, and the element types of all arrays. */
static const char *key_text(Choice *c, Namespace *ns, Node *decorator) {
  Arena *a = c->fr->cx->arena;
  Py *v = value_of(c, ns, decorator, "key"), *names = v ? host_iterate(c->fr, v) : NULL;
  const char *text = "";
  if (names && names->kind == PY_UNKNOWN)
    diag_fail(c->fr->cx, tuning_argument(decorator, "key")->span, "key of %s is not known here: %s", c->k->fn->name,
              names->library);
  for (int i = 0; names && i < names->tuple.n; i++) {
    int p = names->tuple.at[i]->kind == PY_STR ? choice_param(c->k, names->tuple.at[i]->str.s) : -1;
    if (p >= 0 && c->known[p] && c->known[p]->kind != PY_OBJECT)
      text = arena_printf(a, "%s%s=%s\n", text, c->k->params[p].name, py_describe(c->fr, c->known[p]));
  }
  for (int p = 0; p < c->k->param_count; p++)
    if (c->args[p].kind == ARG_POINTER || c->args[p].kind == ARG_DESCRIPTOR)
      text = arena_printf(a, "%s%s:%s\n", text, c->k->params[p].name, dtype_name(c->args[p].dtype));
  return text;
}

static double milliseconds(Choice *c, Namespace *ns, Node *decorator, const char *name) {
  Py *v = value_of(c, ns, decorator, name);
  return v && py_is_number(v) && py_as_double(v) > 0 ? py_as_double(v) : 0;
}

/* pre_hook of the decorator itself: as a reset */
static void join_hook(Choice *c, Namespace *ns, Node *decorator, const Py *config) {
  Py *pre = value_of(c, ns, decorator, "pre_hook");
  if (value_of(c, ns, decorator, "post_hook"))
    diag_fail_hint(c->fr->cx, tuning_argument(decorator, "post_hook")->span, "use restore_value",
                   "post_hook of %s is not supported", c->k->fn->name);
  if (!pre) return;
  int *zeroed, n;
  run_hook(c, tuning_argument(decorator, "pre_hook")->span, "pre_hook", pre, config, &zeroed, &n);
  int *all = NEW_N(c->fr->cx->arena, int, c->list->reset_count + n + 1);
  if (c->list->reset_count) memcpy(all, c->list->reset, sizeof *all * (size_t)c->list->reset_count);
  for (int i = 0; i < n; i++) all[c->list->reset_count++] = zeroed[i];
  c->list->reset = all;
}

static void fill_list(Choice *c, Namespace *ns, Node *decorator, Py *all, Py *left) {
  Context *cx = c->fr->cx;
  Tuning *t = c->list;
  t->configs = NEW_N(cx->arena, TuneConfig, left->tuple.n);
  const char *first = NULL;
  for (int i = 0; i < left->tuple.n; i++) {
    const Py *config = left->tuple.at[i];
    int at = 0;
    while (at < all->tuple.n && all->tuple.at[at] != config) at++;
    const char *text = kwargs_of(config) ? config_text(c, config) : "";
    for (int k = 0; at == all->tuple.n && k < all->tuple.n; k++) /* a copy of one of them */
      if (kwargs_of(all->tuple.at[k]) && !strcmp(config_text(c, all->tuple.at[k]), text)) at = k;
    if (at == all->tuple.n)
      diag_fail(cx, tuning_argument(decorator, "prune_configs_by")->span,
                "early_config_prune of %s makes a configuration that is not among configs", c->k->fn->name);
    int same = 0;
    while (same < t->count && strcmp(t->configs[same].text, text)) same++;
    if (same < t->count) continue; /* they differ in what the caller decided */
    const char *parameters = parameters_text(c, kwargs_of(config));
    if (!first) first = parameters;
    t->configs[t->count++] = (TuneConfig){at + 1, text, !strcmp(parameters, first)};
  }
  read_names(c, ns, decorator, "reset_to_zero", &t->reset, &t->reset_count);
  read_names(c, ns, decorator, "restore_value", &t->restore, &t->restore_count);
  join_hook(c, ns, decorator, left->tuple.at[0]);
  t->key = key_text(c, ns, decorator);
  t->warmup_ms = milliseconds(c, ns, decorator, "warmup"), t->rep_ms = milliseconds(c, ns, decorator, "rep");
}

/* ---- the decorator ----------------------------------------------------------------------------------------------- */

static void take_config(Choice *c, const Py *config, bool decides, Span at) {
  Py *kwargs = kwargs_of(config), *hook = map_get(config->object.fields, "pre_hook");
  for (int i = 0; i < kwargs->dict.n; i++) {
    int p = kwargs->dict.keys[i]->kind == PY_STR ? choice_param(c->k, kwargs->dict.keys[i]->str.s) : -1;
    if (p >= 0) choice_take(c, p, kwargs->dict.values[i]);
  }
  if (!c->config->num_warps) c->config->num_warps = option(config, "num_warps");
  if (!c->config->num_stages) c->config->num_stages = option(config, "num_stages");
  if (!c->config->num_ctas) c->config->num_ctas = option(config, "num_ctas");
  int *zeroed;
  if (!decides || !hook || hook->kind == PY_NONE) return;
  run_hook(c, at, "pre_hook of a configuration", hook, config, &zeroed, &c->config->zeroed_count);
  c->config->zeroed = zeroed;
}

void apply_autotune(Choice *c, Namespace *ns, Node *decorator) {
  Front *fr = c->fr;
  Node *node = tuning_argument(decorator, "configs");
  Py *all = node ? host_iterate(fr, host_eval_in(fr, ns, node)) : NULL;
  if (!all) return;
  if (all->kind == PY_UNKNOWN) { /* no name is known to be tuned: let every open constexpr say why it has no value */
    for (int i = 0; i < c->k->param_count; i++)
      if (c->k->params[i].is_constexpr && !c->k->params[i].has_default && !c->known[i]) choice_take(c, i, all);
    return;
  }
  Py *fitting = py_list(fr, 0, NULL), *first = NULL;
  for (int i = 0; i < all->tuple.n; i++) {
    Py *config = all->tuple.at[i], *kwargs = kwargs_of(config);
    if (kwargs && !first) first = config;
    if (kwargs && fits(c, kwargs)) py_append(fr, fitting, config);
  }
  if (!first) return;
  if (!fitting->tuple.n) py_append(fr, fitting, first); /* what is given stands; the rest comes from the first */
  const Py *best = fitting->tuple.at[0];
  bool decides = leaves_open(c, kwargs_of(best));
  int number = c->options->chosen ? c->options->chosen->config : 0;
  if (number > 0 && number <= all->tuple.n && kwargs_of(all->tuple.at[number - 1])) best = all->tuple.at[number - 1];
  else if (decides) {
    Py *left = prune(c, ns, decorator, fitting, all->tuple.n);
    if (c->list) {
      fill_list(c, ns, decorator, all, left);
      return;
    }
    if (kwargs_of(left->tuple.at[0])) best = left->tuple.at[0];
  }
  take_config(c, best, decides, node->span);
}
