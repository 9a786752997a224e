/* Calls of jit functions, which are inlined where they stand: arguments are bound as Python does, and the body is
 * walked in a frame of its own. */
#include "front/core.h"

enum { MAX_CALL_DEPTH = 80 };

static Py *default_of(Front *fr, Function *fn, int index, const Node *param, Node *node) {
  Node *args = fn->def->FunctionDef.args;
  if (!fn->defaults)
    fn->defaults = NEW_N(fr->cx->arena, Py *,
                         args->arguments.posonlyargs.n + args->arguments.args.n + args->arguments.kwonlyargs.n + 1);
  if (!fn->defaults[index]) fn->defaults[index] = host_default(fr, fn, param->arg.arg);
  if (!fn->defaults[index] && fn->kept) fn->defaults[index] = map_get(fn->kept, param);
  if (!fn->defaults[index])
    fn->defaults[index] = host_eval_at(fr, fn->around ? fn->around : fn->module->globals, node, fn->def->span.line);
  return fn->defaults[index];
}

/* Of defaults Triton makes numbers, types, functions and None constexprs, and finds no type in what else Python has. */
static void check_default(Front *fr, const Function *fn, const Call *call, const char *param, const Py *v) {
  if (v->is_constexpr || fn->module == fr->prelude) return;
  if (v->kind != PY_STR && v->kind != PY_TUPLE && v->kind != PY_DICT && v->kind != PY_OBJECT) return;
  const Py *part = v->kind == PY_TUPLE && v->tuple.n && !v->tuple.is_list ? v->tuple.at[0] : v;
  diag_fail_hint(fr->cx, call->span, "give the argument, or make the default with tl.constexpr(...)",
                 "'%s' object has no attribute 'type': the default of %s is %s", py_class_name(part), param,
                 py_describe(fr, v));
}

static const char *signature_text(Front *fr, Function *fn) {
  Node *a = fn->def->FunctionDef.args;
  Buf b = {.arena = fr->cx->arena};
  buf_printf(&b, "%s(", fn->name);
  const NodeList *lists[] = {&a->arguments.posonlyargs, &a->arguments.args, &a->arguments.kwonlyargs};
  bool any = false;
  for (int l = 0; l < 3; l++)
    for (int i = 0; i < lists[l]->n; i++, any = true) buf_printf(&b, "%s%s", any ? ", " : "", lists[l]->at[i]->arg.arg);
  buf_putc(&b, ')');
  const char *s = arena_strdup(fr->cx->arena, b.at ? b.at : fn->name);
  buf_destroy(&b);
  return s;
}

static const char *near_parameter(Front *fr, Function *fn, const char *name, const char *otherwise) {
  const Node *a = fn->def->FunctionDef.args;
  const NodeList *lists[] = {&a->arguments.args, &a->arguments.kwonlyargs};
  VEC(const char *) names = {0};
  for (int l = 0; l < 2; l++)
    for (int i = 0; i < lists[l]->n; i++) vec_push(fr->cx->arena, &names, lists[l]->at[i]->arg.arg);
  vec_push(fr->cx->arena, &names, NULL);
  const char *near = nearest_name(name, names.at);
  return near ? arena_printf(fr->cx->arena, "did you mean `%s`? %s", near, otherwise) : otherwise;
}

/* Binds a call's arguments as Python does; the values in order of the parameters go to f->args. */
static void bind(Front *fr, Frame *f, Function *fn, Py *self, const Call *call) {
  Context *cx = fr->cx;
  Node *a = fn->def->FunctionDef.args;
  int pos_only = a->arguments.posonlyargs.n, positional = pos_only + a->arguments.args.n,
      total = positional + a->arguments.kwonlyargs.n;
  int first_default = positional - a->arguments.defaults.n, self_n = self ? 1 : 0, given = call->n + self_n;
  Py **values = NEW_N(cx->arena, Py *, total + 2);
  for (int i = 0; i < call->n + call->kw_n; i++)
    if (call->args[i]->kind == PY_VOID)
      diag_fail(cx, call->span, "void cannot be an argument of %s(): what is called for it has no result", fn->name);
  for (int i = 0; i < given && i < positional; i++) values[i] = i < self_n ? self : call->args[i - self_n];
  const char *hint = arena_printf(cx->arena, "it is defined as %s", signature_text(fr, fn));
  if (given > positional && !a->arguments.vararg)
    diag_fail_hint(diag_as(cx, ERROR_TYPE), call->span, hint, "%s() takes %d positional argument%s but %d %s given",
                   fn->name, positional, positional == 1 ? "" : "s", given, given == 1 ? "was" : "were");
  Py *extra = py_tuple(fr, given > positional ? given - positional : 0,
                       given > positional ? call->args + (positional - self_n) : NULL);
  for (int k = 0; k < call->kw_n; k++) {
    int i = pos_only;
    for (; i < total; i++) {
      Node *p = i < positional ? a->arguments.args.at[i - pos_only] : a->arguments.kwonlyargs.at[i - positional];
      if (!strcmp(p->arg.arg, call->kw_names[k])) break;
    }
    if (i == total && a->arguments.kwarg) continue;
    if (i == total)
      diag_fail_hint(diag_as(cx, ERROR_TYPE), call->span, near_parameter(fr, fn, call->kw_names[k], hint),
                     "%s() got an unexpected keyword argument '%s'", fn->name, call->kw_names[k]);
    if (values[i])
      diag_fail_hint(diag_as(cx, ERROR_TYPE), call->span, hint, "%s() got multiple values for argument '%s'", fn->name,
                     call->kw_names[k]);
    values[i] = call->kw_values[k];
  }
  VEC(const char *) missing = {0};
  for (int i = 0; i < total; i++) {
    Node *p = i < pos_only     ? a->arguments.posonlyargs.at[i]
              : i < positional ? a->arguments.args.at[i - pos_only]
                               : a->arguments.kwonlyargs.at[i - positional];
    if (!values[i]) {
      Node *def = i >= positional      ? a->arguments.kw_defaults.at[i - positional]
                  : i >= first_default ? a->arguments.defaults.at[i - first_default]
                                       : NULL;
      if (!def) {
        vec_push(cx->arena, &missing, p->arg.arg);
        continue;
      }
      values[i] = default_of(fr, fn, i, p, def);
      check_default(fr, fn, call, p->arg.arg, values[i]);
    }
    scope_set(fr, p->arg.arg, values[i], p);
  }
  if (missing.n)
    diag_fail_hint(diag_as(cx, ERROR_TYPE), call->span, hint, "%s",
                   py_missing_arguments(fr, fn->name, missing.n, missing.at));
  /* Triton binds these two kinds to nothing, or to the wrong argument. */
  for (int i = 0; i < pos_only; i++)
    scope_undefine(fr, a->arguments.posonlyargs.at[i]->arg.arg, "a kernel has no positional-only parameters");
  for (int i = 0; i < a->arguments.kwonlyargs.n; i++)
    scope_undefine(fr, a->arguments.kwonlyargs.at[i]->arg.arg, "a kernel has no keyword-only parameters");
  if (a->arguments.kwarg)
    diag_fail_hint(diag_as(cx, ERROR_TYPE), call->span, hint,
                   "'dict' object has no attribute 'type': a kernel's functions cannot take **%s",
                   a->arguments.kwarg->arg.arg);
  if (a->arguments.vararg) {
    values[total] = extra;
    scope_set(fr, a->arguments.vararg->arg.arg, extra, a->arguments.vararg);
  }
  f->args = values;
  f->arg_count = total + (a->arguments.vararg ? 1 : 0);
}

static void check_recursion(Front *fr, const Frame *f, const Call *call) {
  for (const Frame *up = f->up; up; up = up->up) {
    if (up->fn->def != f->fn->def || up->arg_count != f->arg_count) continue;
    bool same = true;
    for (int i = 0; i < f->arg_count && same; i++) same = py_same_type(up->args[i], f->args[i]);
    if (same)
      diag_fail_hint(fr->cx, call->span, "recursion works only at compile time, with constexpr arguments that end it",
                     "recursion: %s calls itself with arguments of the same types", f->fn->name);
  }
  if (fr->depth >= MAX_CALL_DEPTH)
    diag_fail(fr->cx, call->span, "recursion: calls are nested more than %d deep", MAX_CALL_DEPTH);
}

/* Calls of noinline functions are inlined like all others; what Triton cannot pass to them is refused all the same. */
static void check_noinline(Front *fr, const Function *fn, const Frame *f, Span at) {
  for (int i = 0; fn->noinline && i < f->arg_count; i++) {
    const Py *v = f->args[i];
    if (v && v->kind == PY_TENSOR && v->value->type->rank && type_numel(v->value->type) > 1)
      diag_fail_hint(fr->cx, at, "pass scalars and pointers, or leave out noinline=True",
                     "Function %s is marked noinline, but was called with non-scalar argument %s", fn->name,
                     py_describe(fr, v));
  }
}

Py *core_call_function(Front *fr, Function *fn, Py *self, const Call *call) {
  stack_guard();
  Core *core = core_of(fr);
  Span *site = arena_copy(fr->cx->arena, &call->span, sizeof call->span);
  Frame f = {.up = core->frame, .fn = fn, .ns = fn->around ? fn->around : fn->module->globals, .site = site};
  const Span *span = fr->b.span;
  core->frame = &f;
  bind(fr, &f, fn, self, call);
  check_noinline(fr, fn, &f, call->span);
  core_check_annotations(fr, fn);
  check_recursion(fr, &f, call);
  fr->depth++;
  const OpenRegion *regions = core->regions;
  regions_begin(fr, fn->def);
  Flow flow = core_exec(fr, &fn->def->FunctionDef.body, 0, true);
  regions_end(fr, regions);
  fr->depth--;
  core->frame = f.up;
  fr->b.span = span;
  if (flow.kind == FLOW_FALLS || !flow.value) return py_none(fr);
  if (!py_is_number(flow.value)) return flow.value;
  Py *number = arena_copy(fr->cx->arena, flow.value, sizeof *flow.value);
  number->is_returned = true;
  return number;
}
