/* One compilation of one kernel: arguments and configuration are chosen, its body is walked, what was built is checked.
 */
#include "front/core.h"
#include "tile/passes/instrument.h"

static Front *begin(Module *m, Kernel *k, const CompileOptions *options) {
  Context *cx = m->cx;
  Front *fr = NEW(cx->arena, Front);
  Core *core = NEW(cx->arena, Core);
  fr->cx = cx;
  fr->module = k->module;
  fr->options = options ? options : NEW(cx->arena, CompileOptions);
  fr->core = core;
  core->exec = core_exec;
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
  diag_fail(fr->cx, at,
            "type %s not supported in this architecture. The supported fp8 dtypes are ('fp8e4b15', %s'fp8e5')",
            dtype_triton_name(t->dtype), sm >= 89 ? "'fp8e4nv', " : "");
}

static void check_fp8_results(Op *op, void *arg) {
  for (int i = 0; i < op->out_count; i++) check_fp8_type(arg, op->span ? *op->span : (Span){0}, op->out[i]->type);
}

static void check_kernel_parameters(Front *fr, const Function *fn) {
  const Node *a = fn->def->FunctionDef.args;
  if (a->arguments.posonlyargs.n)
    diag_fail_hint(fr->cx, a->arguments.posonlyargs.at[0]->span, "leave out the `/`",
                   "%s is not defined: a kernel has no positional-only parameters",
                   a->arguments.posonlyargs.at[0]->arg.arg);
  if (a->arguments.kwarg)
    diag_fail(fr->cx, a->arguments.kwarg->span, "a kernel cannot take **%s", a->arguments.kwarg->arg.arg);
  for (int i = 0; i < a->arguments.kwonlyargs.n; i++)
    scope_undefine(fr, a->arguments.kwonlyargs.at[i]->arg.arg, "a kernel has no keyword-only parameters");
  core_check_annotations(fr, fn);
}

/* The body of a reduction, scan or map around the operation, or NULL. */
static const Op *body_of_scalars(const Op *op) {
  const Op *up = op->block->parent;
  while (up && op_info[up->code].effect == EFFECT_CONTROL) up = up->block->parent;
  return up;
}

static void refuse_unusable(Op *op, void *arg) {
  Front *fr = arg;
  for (int i = 0; i < op->out_count; i++) {
    const Type *t = op->out[i]->type;
    if (type_numel(t) == 0)
      diag_fail_hint(fr->cx, op->span ? *op->span : (Span){0},
                     "put it under an `if` on the constexpr that makes the size 0",
                     "a value depends on a tensor of no elements");
    if (t->rank && body_of_scalars(op))
      diag_fail_hint(
          fr->cx, op->span ? *op->span : (Span){0}, "compute it before, or element by element",
          "a function that is called for each element or pair of elements works on scalars, but this makes %s",
          py_describe(fr, py_tensor(fr, op->out[i])));
  }
}

/* Tensors of no elements may be made, carried and stored, as long as nothing depends on them: no device sees one. So
 * may tensors where a function works on scalars, to ask for their type. */
static void drop_unusable(Front *fr) {
  tile_dce(fr->func);
  tile_walk(fr->func->body, refuse_unusable, fr);
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
  fr->func->no_fusion = fr->options->no_fp_fusion;
  fr->func->max_registers = fr->options->max_registers;
  if (fr->options->instrument) {
    fr->func->instrument = NEW(a, Instrument);
    fr->func->instrument->mode = (InstrumentMode)fr->options->instrument;
  }
  fr->b = (Builder){.func = fr->func, .block = fr->func->body, .span = &k->fn->def->span};
  Frame f = {.fn = k->fn, .ns = k->fn->around ? k->fn->around : k->module->globals};
  core->frame = &f;
  Arguments *bound = front_specialize(fr, k, launch.args, chosen);
  for (int i = 0; i < k->param_count; i++) scope_set(fr, k->params[i].name, bound->values[i], k->param_nodes[i]);
  f.args = bound->values;
  f.arg_count = k->param_count;
  check_kernel_parameters(fr, k->fn);
  regions_begin(fr, k->fn->def);
  Flow flow = core_exec(fr, &k->fn->def->FunctionDef.body, 0, true);
  if (flow.value && py_is_runtime(flow.value))
    diag_fail_hint(cx, core_span(fr, flow.where), "write the value to memory with tl.store",
                   "a kernel cannot return a value: this is %s", py_describe(fr, flow.value));
  regions_end(fr, NULL);
  core->frame = NULL;
  for (int i = 0; i < fr->func->body->arg_count; i++)
    check_fp8_type(fr, k->fn->def->span, fr->func->body->args[i]->type);
  tile_walk(fr->func->body, check_fp8_results, fr);
  tile_replace_uses(fr->func);
  if (fr->has_empty || fr->has_inner_tensors) drop_unusable(fr);
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
