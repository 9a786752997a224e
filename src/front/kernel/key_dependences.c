/* What the decorators above a kernel look at: the parameters on whose values a specialization depends.
 *
 * A launch with another step counter should find what was compiled, so the runtime puts a number's value into its key
 * only where something reads it:
 *
 *     @triton.autotune   the parameters that `key` names, for the choice among configurations; those that
 *                        configurations set, since a given value rules some out;
 *                        what the functions of prune_configs_by and pre_hook read
 *     @triton.heuristics what its functions read
 *
 * A function is given all arguments as one dict. It reads those that it takes out by name, args["n"] and args.get("n");
 * if it does anything else with the dict (hands it on, iterates over it), or is no function of the file, it reads all.
 */
#include "front/core.h"

typedef struct Reads {
  Front *fr;
  Namespace *ns;
  Kernel *k;
  DecoratorUse *use; /* per parameter */
  const char *dict;  /* what the function under the eye calls it; interned */
} Reads;

static void read_all(Reads *r) {
  for (int i = 0; i < r->k->param_count; i++) r->use[i].reads = true;
}

static bool read_name(Reads *r, const Node *n) { /* false: not known which */
  if (n->kind != NODE_CONSTANT || n->Constant.value.kind != CONST_STR) return false;
  const char *name = intern(r->fr->cx, n->Constant.value.text, n->Constant.value.size);
  int p = choice_param(r->k, name);
  if (p >= 0) r->use[p].reads = true; /* else it is what a configuration sets beside the parameters, num_warps */
  return true;
}

static bool is_dict(const Reads *r, const Node *n) { return n->kind == NODE_NAME && !strcmp(n->Name.id, r->dict); }

static void look(void *arg, Node *n) {
  stack_guard();
  Reads *r = arg;
  if (n->kind == NODE_SUBSCRIPT && is_dict(r, n->Subscript.value) && read_name(r, n->Subscript.slice)) return;
  if (n->kind == NODE_CALL && n->Call.func->kind == NODE_ATTRIBUTE && is_dict(r, n->Call.func->Attribute.value) &&
      !strcmp(n->Call.func->Attribute.attr, "get") && n->Call.args.n && read_name(r, n->Call.args.at[0])) {
    for (int i = 1; i < n->Call.args.n; i++) look(r, n->Call.args.at[i]);
    for (int i = 0; i < n->Call.keywords.n; i++) look(r, n->Call.keywords.at[i]);
    return;
  }
  if (is_dict(r, n)) read_all(r);
  else node_children(n, look, r);
}

static const Node *arguments_of(const Py *fn) {
  const Node *def = fn->fn->def;
  return def->kind == NODE_LAMBDA ? def->Lambda.args : def->FunctionDef.args;
}

/* fn is called with the dict as argument number `at`. NULL and None: there is none. */
static void read_function(Reads *r, const Py *fn, int at) {
  if (!fn || fn->kind == PY_NONE) return;
  if (fn->kind != PY_FUNCTION || fn->fn->kind != FN_PLAIN) {
    read_all(r);
    return;
  }
  const Node *a = arguments_of(fn);
  int pos = a->arguments.posonlyargs.n;
  if (at >= pos + a->arguments.args.n) {
    read_all(r); /* *args */
    return;
  }
  r->dict = (at < pos ? a->arguments.posonlyargs.at[at] : a->arguments.args.at[at - pos])->arg.arg;
  Node *def = fn->fn->def;
  if (def->kind == NODE_LAMBDA) look(r, def->Lambda.body);
  else if (def->FunctionDef.decorator_list.n) read_all(r);
  else
    for (int i = 0; i < def->FunctionDef.body.n; i++) look(r, def->FunctionDef.body.at[i]);
}

/* A perf_model is called with what its own parameters name. */
static void read_model(Reads *r, const Py *fn) {
  if (!fn || fn->kind == PY_NONE) return;
  if (fn->kind != PY_FUNCTION || arguments_of(fn)->arguments.kwarg) {
    read_all(r);
    return;
  }
  const Node *a = arguments_of(fn);
  const NodeList *lists[] = {&a->arguments.posonlyargs, &a->arguments.args, &a->arguments.kwonlyargs};
  for (int l = 0; l < 3; l++)
    for (int i = 0; i < lists[l]->n; i++) {
      int p = choice_param(r->k, lists[l]->at[i]->arg.arg);
      if (p >= 0) r->use[p].reads = true;
    }
}

static Py *value(Reads *r, Node *n) { return n ? host_eval_at(r->fr, r->ns, n, r->k->decorated_at) : NULL; }

static void read_heuristics(Reads *r, Node *decorator) {
  Py *values = value(r, decorator_argument(decorator, 0, "values"));
  if (!values || values->kind != PY_DICT) return; /* nothing is called (decorators.c) */
  for (int i = 0; i < values->dict.n; i++) {
    int p = values->dict.keys[i]->kind == PY_STR ? choice_param(r->k, values->dict.keys[i]->str.s) : -1;
    if (p < 0) continue;
    r->use[p].sets = true;
    read_function(r, values->dict.values[i], 0);
  }
}

static void read_autotune(Reads *r, Node *decorator) {
  Py *configs = value(r, tuning_argument(decorator, "configs"));
  if (configs) configs = host_iterate(r->fr, configs);
  if (configs && configs->kind == PY_UNKNOWN) /* any open constexpr may be theirs */
    for (int p = 0; p < r->k->param_count; p++) r->use[p].sets = true;
  if (!configs || configs->kind == PY_UNKNOWN) return;
  for (int i = 0; i < configs->tuple.n; i++) {
    const Py *config = configs->tuple.at[i];
    Py *kwargs = config->kind == PY_OBJECT ? map_get(config->object.fields, "kwargs") : NULL;
    if (!kwargs || kwargs->kind != PY_DICT) continue;
    for (int j = 0; j < kwargs->dict.n; j++) {
      int p = kwargs->dict.keys[j]->kind == PY_STR ? choice_param(r->k, kwargs->dict.keys[j]->str.s) : -1;
      if (p >= 0) r->use[p].sets = r->use[p].reads = true;
    }
    read_function(r, map_get(config->object.fields, "pre_hook"), 0);
  }
  read_function(r, value(r, tuning_argument(decorator, "pre_hook")), 0);
  Py *names = value(r, tuning_argument(decorator, "key")),
     *by = value(r, tuning_argument(decorator, "prune_configs_by"));
  if (names) names = host_iterate(r->fr, names);
  for (int i = 0; names && names->kind != PY_UNKNOWN && i < names->tuple.n; i++) {
    int p = names->tuple.at[i]->kind == PY_STR ? choice_param(r->k, names->tuple.at[i]->str.s) : -1;
    if (p >= 0) r->use[p].in_key = true;
  }
  if (!by || by->kind == PY_NONE) return;
  if (by->kind == PY_DICT) {
    read_function(r, py_dict_get_name(by, "early_config_prune"), 1);
    read_model(r, py_dict_get_name(by, "perf_model"));
  } else {
    read_all(r);
  }
}

bool kernel_decorator_use(const Kernel *k, DecoratorUse *use) {
  Front *fr = k->module->project->fr;
  kernel_prepare(fr, (Kernel *)k);
  for (int i = 0; i < k->param_count; i++) use[i] = (DecoratorUse){0};
  Reads r = {.fr = fr, .ns = k->fn->around ? k->fn->around : k->module->globals, .k = (Kernel *)k, .use = use};
  for (int i = 0; i < k->decorator_count; i++) {
    DecoratorKind kind = decorator_kind(fr, r.ns, k->decorators[i]);
    if (kind == DECO_AUTOTUNE) read_autotune(&r, k->decorators[i]);
    else if (kind == DECO_HEURISTICS) read_heuristics(&r, k->decorators[i]);
  }
  return k->decorator_count > 0;
}
