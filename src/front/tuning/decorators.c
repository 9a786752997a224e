/* What @triton.autotune and @triton.heuristics decide when the caller leaves parameters open, and the launch options.
 *
 * Decorators act from the outermost inwards, each seeing what was decided before it. Of autotune's configurations the
 * one that was found best is taken, else the first that agrees with the given arguments (tuning.c). A heuristic is a
 * function of the arguments so far; the caller's own value stands. */
#include "front/core.h"

/* The arguments as heuristics see them: values where known; arrays as objects with a dtype. */
static Py *argument_value(Front *fr, Kernel *k, int i, const ArgSpec *arg) {
  stack_guard();
  switch (arg->kind) {
    case ARG_INT:
      if (!arg->has_value) break;
      return py_int(fr, arg->is_unsigned ? (PyInt)(uint64_t)arg->int_value : (PyInt)arg->int_value);
    case ARG_BOOL: return py_bool(fr, arg->int_value != 0);
    case ARG_FLOAT: return py_float(fr, arg->float_value);
    case ARG_NONE: return py_none(fr);
    case ARG_CONSTEXPR: return host_constexpr(fr, k, arg->text, k->params[i].name);
    case ARG_POINTER: {
      Py *o = py_object(fr, NULL, "torch.Tensor");
      map_put(o->object.fields, "dtype", py_dtype(fr, arg->dtype));
      map_put(o->object.fields, "zero_", py_unknown(fr, "argument.zero_.%d", i)); /* called in hostlib.c */
      map_put(o->object.fields, "element_size", py_unknown(fr, "argument.element_size.%d", dtype_bytes(arg->dtype)));
      map_put(o->object.fields, "itemsize", py_int(fr, dtype_bytes(arg->dtype)));
      return o;
    }
    case ARG_DESCRIPTOR: {
      Py *o = py_object(fr, NULL, "TensorDescriptor"), *block = py_list(fr, 0, NULL);
      for (int d = 0; d < arg->rank; d++) py_append(fr, block, py_int(fr, arg->block_shape[d]));
      map_put(o->object.fields, "dtype", py_dtype(fr, arg->dtype));
      map_put(o->object.fields, "block_shape", block);
      return o;
    }
    case ARG_TUPLE: {
      Py *t = py_tuple(fr, 0, NULL);
      for (int n = 0; n < arg->item_count; n++) py_append(fr, t, argument_value(fr, k, i, &arg->items[n]));
      return t;
    }
    default: break;
  }
  return py_unknown(fr, "the value of '%s'", k->params[i].name);
}

static void apply_heuristics(Choice *c, Namespace *ns, Node *decorator) {
  Front *fr = c->fr;
  Node *node = decorator_argument(decorator, 0, "values");
  Py *values = node ? host_eval_in(fr, ns, node) : NULL;
  if (!values || values->kind != PY_DICT) return;
  for (int i = 0; i < values->dict.n; i++) {
    int p = values->dict.keys[i]->kind == PY_STR ? choice_param(c->k, values->dict.keys[i]->str.s) : -1;
    if (p < 0 || c->args[p].kind != ARG_MISSING) continue;
    Py *dict = py_dict(fr);
    for (int k = 0; k < c->k->param_count; k++)
      if (c->known[k]) py_dict_put(fr, dict, py_str(fr, c->k->params[k].name), c->known[k]);
    Call call = {.span = decorator->span, .arg_spans = NEW_N(fr->cx->arena, Span, 1), .n = 1, .args = &dict};
    Py *v = host_call(fr, values->dict.values[i], &call);
    c->chosen[p] = c->known[p] = v;
  }
}

/* num_warps: tl.constexpr is option and parameter at once */
static void launch_parameter(Choice *c, const char *name, int *value) {
  int p = choice_param(c->k, name);
  if (p < 0 || !c->k->params[p].is_constexpr) return;
  if (c->known[p] && c->known[p]->kind == PY_INT && c->known[p]->i > 0 && c->known[p]->i < 1000) {
    if (!*value) *value = (int)c->known[p]->i;
  }
}

static void take_found(Choice *c, const Chosen *found) { /* by `nereid tune` */
  for (int i = 0; i < found->count; i++) {
    int p = choice_param(c->k, found->names[i]);
    if (p >= 0) choice_take(c, p, host_constexpr(c->fr, c->k, found->texts[i], found->names[i]));
  }
  c->config->num_warps = found->num_warps, c->config->num_stages = found->num_stages,
  c->config->num_ctas = found->num_ctas;
}

void autotune_choose(Front *fr, Kernel *k, const ArgSpec *args, const CompileOptions *options, Py **chosen,
                     Launch *launch, Tuning *list) {
  Namespace *ns = k->fn->around ? k->fn->around : k->module->globals;
  Launch config = {.args = args};
  *launch = (Launch){.num_warps = options->num_warps, .num_stages = options->num_stages, .num_ctas = options->num_ctas};
  Choice c = {.fr = fr, .k = k, .args = args, .options = options, .chosen = chosen, .config = &config, .list = list};
  c.known = NEW_N(fr->cx->arena, Py *, k->param_count + 1);
  for (int i = 0; i < k->param_count; i++)
    if (args[i].kind != ARG_MISSING) c.known[i] = argument_value(fr, k, i, &args[i]);
  if (options->chosen) take_found(&c, options->chosen);
  launch_parameter(&c, "num_warps", &launch->num_warps);
  launch_parameter(&c, "num_stages", &launch->num_stages);
  launch_parameter(&c, "num_ctas", &launch->num_ctas);
  int now = k->module->now;
  k->module->now = k->decorated_at;
  for (int i = 0; i < k->decorator_count && !options->no_autotune && !(list && list->count); i++) {
    DecoratorKind kind = decorator_kind(fr, ns, k->decorators[i]);
    if (kind == DECO_AUTOTUNE) apply_autotune(&c, ns, k->decorators[i]);
    else if (kind == DECO_HEURISTICS) apply_heuristics(&c, ns, k->decorators[i]);
  }
  k->module->now = now;
  launch_parameter(&c, "num_warps", &config.num_warps);
  launch_parameter(&c, "num_stages", &config.num_stages);
  launch_parameter(&c, "num_ctas", &config.num_ctas);
  launch->args = config.args, launch->zeroed = config.zeroed, launch->zeroed_count = config.zeroed_count;
  if (!launch->num_warps) launch->num_warps = config.num_warps ? config.num_warps : 4;
  if (!launch->num_stages) launch->num_stages = config.num_stages ? config.num_stages : 3;
  if (!launch->num_ctas) launch->num_ctas = config.num_ctas ? config.num_ctas : 1;
  static const char *const names[] = {"num_warps", "num_stages", "num_ctas"};
  int values[] = {launch->num_warps, launch->num_stages, launch->num_ctas};
  for (int i = 0; i < 3; i++) {
    int p = choice_param(k, names[i]);
    if (p >= 0 && k->params[p].is_constexpr && args[p].kind == ARG_MISSING && !chosen[p] && !k->params[p].has_default)
      chosen[p] = py_int(fr, values[i]);
  }
}

/* ---- grids of the command line ----------------------------------------------------------------------------------- */

static NORETURN void fail_eval(Context *cx, Node *e, Front *fr, Py *v, int n, const char *const *names) {
  if (v->kind == PY_UNKNOWN) {
    const char *near = NULL, *what = v->library;
    if (what[0] == '\'') {
      const char *name = arena_strndup(cx->arena, what + 1, strcspn(what + 1, "'")); /* of what is called, too */
      what = arena_printf(cx->arena, "'%s'", name);
      static const char *const always[] = {"cdiv", "next_power_of_2", "min", "max", "math", "triton", "tl"};
      const char **known = NEW_N(cx->arena, const char *, n + 8);
      for (int i = 0; i < n; i++) known[i] = names[i];
      memcpy(known + n, always, sizeof always);
      near = nearest_name(name, known);
    } else {
      near = front_hooks.library_near(fr, what);
    }
    if (near) diag_fail_hint(cx, e->span, arena_printf(cx->arena, "did you mean `%s`?", near), "%s is not known", what);
    diag_fail(cx, e->span, "%s is not known", what);
  }
  if (v->kind == PY_FLOAT)
    diag_fail_hint(cx, e->span, "divide with // or cdiv", "%s is a float, and an integer is needed",
                   py_describe(fr, v));
  if (v->kind != PY_INT && v->kind != PY_BOOL)
    diag_fail(cx, e->span, "%s (%s) is not an integer", py_describe(fr, v), py_kind_name(v));
  diag_fail(cx, e->span, "%s does not fit in 64 bits", py_describe(fr, v));
}

/* Up to `most` expressions separated by commas; returns how many there are. */
static int eval_ints(Context *cx, const char *expression, int n, const char *const *names, const double *values,
                     int most, int64_t *out) {
  static const char around[] =
      "import math\nimport triton\nimport triton.language as tl\nfrom triton import cdiv, next_power_of_2\n";
  Module *m = front_load_text(cx, "<expression>", around, sizeof around - 1);
  Front *fr = m->project->fr;
  Source *src = source_from_text(cx, "<expression>", expression, strlen(expression));
  Node *e = parse_expression(cx, src);
  HostScope sc = {.names = map_create(cx->arena, false), .ns = m->globals};
  for (int i = 0; i < n; i++) {
    double v = values[i];
    bool whole = v >= -0x1p62 && v <= 0x1p62 && (double)(int64_t)v == v;
    map_put(sc.names, intern_z(cx, names[i]), whole ? py_int(fr, (int64_t)v) : py_float(fr, v));
  }
  bool several = most > 1 && e->kind == NODE_TUPLE;
  int count = several ? e->Tuple.elts.n : 1;
  if (count < 1 || count > most) diag_fail(cx, e->span, "a grid has one to three dimensions, not %d", count);
  for (int i = 0; i < count; i++) {
    Node *part = several ? e->Tuple.elts.at[i] : e;
    Py *v = host_eval(fr, &sc, part);
    if ((v->kind != PY_INT && v->kind != PY_BOOL) || v->i > INT64_MAX || v->i < INT64_MIN)
      fail_eval(cx, part, fr, v, n, names);
    out[i] = (int64_t)v->i;
  }
  return count;
}

int64_t front_eval_int(Context *cx, const char *expression, int n, const char *const *names, const double *values) {
  int64_t out;
  return eval_ints(cx, expression, n, names, values, 1, &out), out;
}

void front_eval_grid(Context *cx, const char *expressions, int n, const char *const *names, const double *values,
                     int64_t out[3]) {
  out[0] = out[1] = out[2] = 1;
  eval_ints(cx, expressions, n, names, values, 3, out);
}
