/* One compilation of one kernel: its scopes, and calls of jit functions, which are inlined where they stand.
 *
 * A Frame is one activation: the kernel itself, or an inlined call. Its scope is an array of bindings, copied at every
 * branch so that control.c can compare what the branches did. A binding's stamp grows with each assignment: equal
 * stamps mean "not assigned since". Every operation built while a frame is active carries the span of its expression
 * with the chain of calls after it. */
#include "front/core.h"
#include "tile/passes/instrument.h"

enum { MAX_CALL_DEPTH = 80 };

/* ---- scopes ------------------------------------------------------------------------------------------------------ */

Scope scope_copy(Front *fr, const Scope *s) {
  Scope c = {NULL, s->n, s->n + 8};
  c.at = NEW_N(fr->cx->arena, Binding, c.cap);
  if (s->n) memcpy(c.at, s->at, sizeof(Binding) * (size_t)s->n);
  return c;
}

Binding *scope_find(Scope *s, const char *name) {
  for (int i = s->n - 1; i >= 0; i--)
    if (s->at[i].name == name) return &s->at[i];
  return NULL;
}

static Binding *scope_slot(Front *fr, Scope *s, const char *name) {
  Binding *b = scope_find(s, name);
  if (b) return b;
  if (s->n == s->cap) {
    int cap = s->cap ? 2 * s->cap : 16;
    Binding *at = NEW_N(fr->cx->arena, Binding, cap);
    if (s->n) memcpy(at, s->at, sizeof(Binding) * (size_t)s->n);
    s->at = at;
    s->cap = cap;
  }
  b = &s->at[s->n++];
  *b = (Binding){.name = name};
  return b;
}

void scope_set(Front *fr, const char *name, Py *value, const Node *where) {
  Core *core = core_of(fr);
  Binding *b = scope_slot(fr, &core->frame->scope, name);
  *b = (Binding){.name = name, .value = value, .where = where, .stamp = ++core->stamp};
  if (value->kind == PY_TENSOR && !value->value->name) value->value->name = name;
}

void scope_undefine(Front *fr, const char *name, const char *why) {
  Core *core = core_of(fr);
  Binding *b = scope_slot(fr, &core->frame->scope, name);
  *b = (Binding){.name = name, .stamp = ++core->stamp, .why = why};
}

NORETURN void fail_unknown_name(Front *fr, Span at, const char *name) {
  Frame *f = core_of(fr)->frame;
  Py *list = py_list(fr, 0, NULL);
  for (int i = 0; i < f->scope.n; i++)
    if (f->scope.at[i].value) py_append(fr, list, py_str(fr, f->scope.at[i].name));
  namespace_names(fr, f->ns, list);
  static const char *const own[] = {"range",      "len",     "min",     "max",   "float", "int",
                                    "isinstance", "getattr", "hasattr", "print", "list"};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) py_append(fr, list, py_str(fr, own[i]));
  const char **names = NEW_N(fr->cx->arena, const char *, list->tuple.n + 1);
  for (int i = 0; i < list->tuple.n; i++) names[i] = list->tuple.at[i]->str.s;
  static const char *const absent[] = {
      "abs", "sum", "round", "bool", "str",      "tuple",  "type",     "slice",   "zip",       "sorted", "any",
      "all", "map", "dict",  "set",  "iter",     "filter", "reversed", "next",    "pow",       "divmod", "repr",
      "ord", "chr", "hash",  "id",   "callable", "open",   "setattr",  "complex", "enumerate", NULL};
  for (int i = 0; absent[i]; i++)
    if (!strcmp(absent[i], name)) {
      const char *hint = i == 0 || i == 1 ? arena_printf(fr->cx->arena, "use tl.%s", name)
                                          : "of Python's functions a kernel has len, list, range, float, int, "
                                            "isinstance, getattr, hasattr, print, min and max";
      fail_hint(fr->cx, at, hint, "%s is not defined in a kernel", name);
    }
  const char *near = nearest_name(name, names);
  if (near) fail_hint(fr->cx, at, arena_printf(fr->cx->arena, "did you mean `%s`?", near), "%s is not defined", name);
  fail(fr->cx, at, "%s is not defined", name);
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

/* What prelude.py does is told at the call that uses it: its lines mean nothing to a reader. */
static bool in_prelude(Front *fr, const Frame *f) { return fr->prelude && f->fn->module == fr->prelude && f->site; }

Span core_span(Front *fr, const Node *n) {
  Span s = n->span;
  Core *core = core_of(fr);
  if (!core || !core->frame) return s;
  if (in_prelude(fr, core->frame)) return *core->frame->site;
  s.inlined_at = core->frame->site;
  return s;
}

void core_at(Front *fr, const Node *n) {
  Core *core = core_of(fr);
  if (!core->frame->site) fr->b.span = &n->span;
  else if (in_prelude(fr, core->frame)) fr->b.span = core->frame->site;
  else {
    Span s = core_span(fr, n);
    fr->b.span = arena_copy(fr->cx->arena, &s, sizeof s);
  }
  fr->cx->place = fr->b.span;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static Py *default_of(Front *fr, Function *fn, int index, Node *node) {
  Node *args = fn->def->FunctionDef.args;
  if (!fn->defaults)
    fn->defaults = NEW_N(fr->cx->arena, Py *,
                         args->arguments.posonlyargs.n + args->arguments.args.n + args->arguments.kwonlyargs.n + 1);
  if (!fn->defaults[index])
    fn->defaults[index] = host_eval_at(fr, fn->around ? fn->around : fn->module->globals, node, fn->def->span.line);
  return fn->defaults[index];
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
  for (int i = 0; i < given && i < positional; i++) values[i] = i < self_n ? self : call->args[i - self_n];
  const char *hint = arena_printf(cx->arena, "it is defined as %s", signature_text(fr, fn));
  if (given > positional && !a->arguments.vararg)
    fail_hint(cx, call->span, hint, "%s() takes %d positional argument%s but %d %s given", fn->name, positional,
              positional == 1 ? "" : "s", given, given == 1 ? "was" : "were");
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
      fail_hint(cx, call->span, near_parameter(fr, fn, call->kw_names[k], hint),
                "%s() got an unexpected keyword argument '%s'", fn->name, call->kw_names[k]);
    if (values[i])
      fail_hint(cx, call->span, hint, "%s() got multiple values for argument '%s'", fn->name, call->kw_names[k]);
    values[i] = call->kw_values[k];
  }
  for (int i = 0; i < total; i++) {
    Node *p = i < pos_only     ? a->arguments.posonlyargs.at[i]
              : i < positional ? a->arguments.args.at[i - pos_only]
                               : a->arguments.kwonlyargs.at[i - positional];
    if (!values[i]) {
      Node *def = i >= positional      ? a->arguments.kw_defaults.at[i - positional]
                  : i >= first_default ? a->arguments.defaults.at[i - first_default]
                                       : NULL;
      if (!def) fail_hint(cx, call->span, hint, "%s() missing an argument: '%s'", fn->name, p->arg.arg);
      values[i] = default_of(fr, fn, i, def);
    }
    scope_set(fr, p->arg.arg, values[i], p);
  }
  /* Triton binds these two kinds to nothing, or to the wrong argument. */
  for (int i = 0; i < pos_only; i++)
    scope_undefine(fr, a->arguments.posonlyargs.at[i]->arg.arg, "a kernel has no positional-only parameters");
  for (int i = 0; i < a->arguments.kwonlyargs.n; i++)
    scope_undefine(fr, a->arguments.kwonlyargs.at[i]->arg.arg, "a kernel has no keyword-only parameters");
  if (a->arguments.kwarg)
    fail_hint(cx, call->span, hint, "'dict' object has no attribute 'type': a kernel's functions cannot take **%s",
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
      fail_hint(fr->cx, call->span, "recursion works only at compile time, with constexpr arguments that end it",
                "recursion: %s calls itself with arguments of the same types", f->fn->name);
  }
  if (fr->depth >= MAX_CALL_DEPTH)
    fail(fr->cx, call->span, "recursion: calls are nested more than %d deep", MAX_CALL_DEPTH);
}

/* Calls of noinline functions are inlined like all others; what Triton cannot pass to them is refused all the same. */
static void check_noinline(Front *fr, const Function *fn, const Frame *f, Span at) {
  for (int i = 0; fn->noinline && i < f->arg_count; i++) {
    const Py *v = f->args[i];
    if (v && v->kind == PY_TENSOR && v->value->type->rank && type_numel(v->value->type) > 1)
      fail_hint(fr->cx, at, "pass scalars and pointers, or leave out noinline=True",
                "Function %s is marked noinline, but was called with non-scalar argument %s", fn->name,
                py_describe(fr, v));
  }
}

static void check_annotations(Front *fr, const Function *fn) {
  const NodeList *args = &fn->def->FunctionDef.args->arguments.args;
  for (int i = 0; i < args->n; i++)
    if (args->at[i]->arg.annotation) core_check_annotation(fr, args->at[i]->arg.annotation);
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
  check_annotations(fr, fn);
  check_recursion(fr, &f, call);
  fr->depth++;
  const OpenRegion *regions = core->regions;
  regions_begin(fr, fn->def);
  Flow flow = core_exec(fr, &fn->def->FunctionDef.body, 0, true);
  regions_end(fr, regions);
  fr->depth--;
  core->frame = f.up;
  fr->b.span = span;
  return flow.kind == FLOW_FALLS || !flow.value ? py_none(fr) : flow.value;
}

Py *front_call(Front *fr, Py *callee, const Call *call) {
  switch (callee->kind) {
    case PY_BUILTIN: return builtin_call(fr, callee->builtin.b, callee->builtin.self, call);
    case PY_FUNCTION: {
      Function *fn = callee->fn;
      if (fn->kind == FN_JIT && fn->is_kernel_wrapper)
        fail_hint(fr->cx, call->span, "move the body into a @triton.jit function of its own and call that",
                  "%s stands under autotune or heuristics and can only be launched, not called", fn->name);
      if (fn->kind == FN_JIT) return core_call_function(fr, fn, NULL, call);
      if (fn->kind == FN_CONSTEXPR ||
          callee->is_constexpr) { /* is_constexpr: tl.constexpr(f), or a constexpr argument */
        Py *v = host_call(fr, callee, call);
        if (v->kind == PY_UNKNOWN)
          fail(fr->cx, call->span, "%s could not be evaluated at compile time: %s", fn->name, v->library);
        return v;
      }
      fail_hint(fr->cx, call->span,
                "put @triton.jit above its definition, or @triton.constexpr_function if it computes constants",
                "%s is a plain Python function; a kernel can only call @triton.jit functions", fn->name);
    }
    case PY_METHOD: {
      if (callee->method.fn) {
        Function *fn = callee->method.fn;
        if (fn->kind == FN_JIT) return core_call_function(fr, fn, callee->method.self, call);
        if (fn->kind == FN_CONSTEXPR) {
          Py *v = host_call(fr, callee, call);
          if (v->kind == PY_UNKNOWN)
            fail(fr->cx, call->span, "%s could not be evaluated at compile time: %s", fn->name, v->library);
          return v;
        }
        fail_hint(fr->cx, call->span, "put @triton.jit above it",
                  "%s is a plain Python method; a kernel can only call @triton.jit methods", fn->name);
      }
      const char *why = NULL;
      Py *v = py_call_method(fr, callee->method.self, callee->method.name, call, &why);
      if (!v) fail(fr->cx, call->span, "%s", why);
      return v;
    }
    case PY_CLASS: return core_construct(fr, callee->cls, call);
    case PY_CONSTEXPR_TYPE:
      if (call->n != 1 || call->kw_n) fail(fr->cx, call->span, "tl.constexpr takes one value");
      return call->args[0];
    case PY_TYPE:
      fail_hint(fr->cx, call->span, "write x.to(dtype), or tl.full([], value, dtype) for a constant",
                "a dtype cannot be called");
    case PY_UNKNOWN: fail(fr->cx, call->span, "%s is not known here and cannot be called in a kernel", callee->library);
    default: fail(fr->cx, call->span, "%s (%s) cannot be called", py_describe(fr, callee), py_kind_name(callee));
  }
}

Py *front_call_values(Front *fr, Py *callee, Span at, int n, Py *const *args) {
  Call call = {.span = at, .n = n, .args = (Py **)args};
  call.arg_spans = NEW_N(fr->cx->arena, Span, n + 1);
  for (int i = 0; i < n; i++) call.arg_spans[i] = at;
  return front_call(fr, callee, &call);
}

static const char prelude_text[] =
#include "prelude.py.inc"
    "";

Py *front_call_prelude(Front *fr, const char *name, Span at, int n, Py *const *args) {
  if (!fr->prelude) {
    Project *p = front_project(fr);
    Module *m = map_get(p->modules, "<prelude>");
    if (!m) {
      m = front_load_text(fr->cx, "<prelude>", prelude_text, sizeof prelude_text - 1);
      map_put(p->modules, "<prelude>", m);
    }
    fr->prelude = m;
  }
  Kernel *k = NULL;
  for (int i = 0; i < fr->prelude->kernels.n && !k; i++)
    if (!strcmp(fr->prelude->kernels.at[i]->fn->name, name)) k = fr->prelude->kernels.at[i];
  if (!k) fail(fr->cx, at, "the library has no function %s written in Triton", name);
  return front_call_values(fr, py_function(fr, k->fn), at, n, args);
}

/* ---- the entry --------------------------------------------------------------------------------------------------- */

static Front *begin(Module *m, Kernel *k, const CompileOptions *options) {
  Context *cx = m->cx;
  Front *fr = NEW(cx->arena, Front);
  Core *core = NEW(cx->arena, Core);
  fr->cx = cx;
  fr->module = k->module;
  fr->options = options ? options : NEW(cx->arena, CompileOptions);
  fr->core = core;
  k->module->now = 0;
  m->project->steps = HOST_STEPS;
  m->project->host_depth = 0;
  core->kernel = k;
  cx->place = &k->fn->def->span;
  kernel_prepare(fr, k);
  core->debug = fr->options->debug || k->debug;
  return fr;
}

Tuning *front_tuning(Module *m, Kernel *k, const ArgSpec *args, const CompileOptions *options) {
  Front *fr = begin(m, k, options);
  Tuning *t = NEW(m->cx->arena, Tuning);
  Launch unused = {0};
  autotune_choose(fr, k, args, fr->options, NEW_N(m->cx->arena, Py *, k->param_count + 1), &unused, t);
  return t->count ? t : NULL;
}

/* The fp8 types that Triton has for the GPU. On other devices all that any GPU has are there. */
static void check_fp8_type(Front *fr, Span at, const Type *t) {
  int sm = fr->options->cuda_sm;
  if (!sm || !dtype_is_fp8(t->dtype) || t->dtype == DT_F8E5 || t->dtype == DT_F8E4B15 ||
      (t->dtype == DT_F8E4NV && sm >= 89))
    return;
  fail(fr->cx, at, "type %s not supported in this architecture. The supported fp8 dtypes are ('fp8e4b15', %s'fp8e5')",
       dtype_triton_name(t->dtype), sm >= 89 ? "'fp8e4nv', " : "");
}

static void check_fp8_results(Op *op, void *arg) {
  for (int i = 0; i < op->out_count; i++) check_fp8_type(arg, op->span ? *op->span : (Span){0}, op->out[i]->type);
}

static void check_kernel_parameters(Front *fr, const Function *fn) {
  const Node *a = fn->def->FunctionDef.args;
  if (a->arguments.posonlyargs.n)
    fail_hint(fr->cx, a->arguments.posonlyargs.at[0]->span, "leave out the `/`",
              "%s is not defined: a kernel has no positional-only parameters", a->arguments.posonlyargs.at[0]->arg.arg);
  if (a->arguments.kwarg)
    fail(fr->cx, a->arguments.kwarg->span, "a kernel cannot take **%s", a->arguments.kwarg->arg.arg);
  for (int i = 0; i < a->arguments.kwonlyargs.n; i++)
    scope_undefine(fr, a->arguments.kwonlyargs.at[i]->arg.arg, "a kernel has no keyword-only parameters");
  check_annotations(fr, fn);
}

static void refuse_empty(Op *op, void *arg) {
  Front *fr = arg;
  for (int i = 0; i < op->out_count; i++)
    if (type_numel(op->out[i]->type) == 0)
      fail_hint(fr->cx, op->span ? *op->span : (Span){0}, "put it under an `if` on the constexpr that makes the size 0",
                "a value depends on a tensor of no elements");
}

/* Tensors of no elements may be made, carried and stored, as long as nothing depends on them: no device sees one. */
static void drop_empty(Front *fr) {
  tile_dce(fr->func);
  tile_walk(fr->func->body, refuse_empty, fr);
}

Compiled *front_compile(Module *m, Kernel *k, const ArgSpec *args, const CompileOptions *options) {
  Context *cx = m->cx;
  Arena *a = cx->arena;
  Front *fr = begin(m, k, options);
  Core *core = core_of(fr);
  Py **chosen = NEW_N(a, Py *, k->param_count + 1);
  Launch launch = {0};
  autotune_choose(fr, k, args, fr->options, chosen, &launch, NULL);
  fr->func = func_create(cx, k->fn->name);
  fr->func->num_warps = launch.num_warps;
  fr->func->num_stages = launch.num_stages;
  fr->func->num_ctas = launch.num_ctas;
  fr->func->debug = core->debug;
  if (fr->options->instrument) {
    fr->func->instrument = NEW(a, Instrument);
    fr->func->instrument->mode = (InstrumentMode)fr->options->instrument;
  }
  fr->b = (Builder){.func = fr->func, .block = fr->func->body, .span = &k->fn->def->span};
  Frame f = {.fn = k->fn, .ns = k->fn->around ? k->fn->around : k->module->globals};
  core->frame = &f;
  Arguments *bound = front_specialize(fr, k, launch.args, chosen);
  for (int i = 0; i < k->param_count; i++) scope_set(fr, k->params[i].name, bound->values[i], k->param_nodes[i]);
  Node *rest[] = {k->fn->def->FunctionDef.args->arguments.vararg};
  if (rest[0]) scope_set(fr, rest[0]->arg.arg, py_tuple(fr, 0, NULL), rest[0]);
  f.args = bound->values;
  f.arg_count = k->param_count;
  check_kernel_parameters(fr, k->fn);
  regions_begin(fr, k->fn->def);
  Flow flow = core_exec(fr, &k->fn->def->FunctionDef.body, 0, true);
  if (flow.value && py_is_runtime(flow.value))
    fail_hint(cx, core_span(fr, flow.where), "write the value to memory with tl.store",
              "a kernel cannot return a value: this is %s", py_describe(fr, flow.value));
  regions_end(fr, NULL);
  core->frame = NULL;
  for (int i = 0; i < fr->func->body->arg_count; i++)
    check_fp8_type(fr, k->fn->def->span, fr->func->body->args[i]->type);
  tile_walk(fr->func->body, check_fp8_results, fr);
  tile_resolve(fr->func);
  if (fr->has_empty) drop_empty(fr);
  tile_instrument_check(fr->func);

  Compiled *c = NEW(a, Compiled);
  c->func = fr->func;
  c->slot_count = bound->slots.n;
  c->slots = bound->slots.at;
  c->num_warps = launch.num_warps;
  c->num_stages = launch.num_stages;
  c->num_ctas = launch.num_ctas;
  c->zeroed = launch.zeroed;
  c->zeroed_count = launch.zeroed_count;
  c->constexpr_names = NEW_N(a, const char *, k->param_count + 1);
  c->constexpr_values = NEW_N(a, const char *, k->param_count + 1);
  for (int i = 0; i < k->param_count; i++) {
    if (!k->params[i].is_constexpr) continue;
    c->constexpr_names[c->constexpr_count] = k->params[i].name;
    c->constexpr_values[c->constexpr_count++] = py_describe(fr, bound->values[i]);
  }
  return c;
}
