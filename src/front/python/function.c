/* A def of a file, and what the decorators above it make of it. */
#include "front/core.h"

DecoratorKind decorator_kind(Front *fr, Namespace *ns, const Node *d) {
  if (d->kind == NODE_CALL) d = d->Call.func;
  const char *name = namespace_dotted(fr, ns, d);
  if (!name) return DECO_OTHER;
  bool ours = !strncmp(name, "triton.", 7) || !strncmp(name, "torch._inductor.runtime.triton_compat.", 38) ||
              !strncmp(name, "tl.", 3) || !strchr(name, '.');
  if (!ours || strstr(name, "gluon")) return DECO_OTHER; /* Gluon is another language */
  const char *last = strrchr(name, '.');
  last = last ? last + 1 : name;
  bool qualified = last != name;
  if (!strcmp(last, "jit") && qualified) return DECO_JIT;
  if (!strcmp(last, "autotune") && qualified) return DECO_AUTOTUNE;
  if (!strcmp(last, "heuristics") && qualified) return DECO_HEURISTICS;
  if ((!strcmp(last, "constexpr_function") && strcmp(name, "triton.language.constexpr_function")) ||
      (!strcmp(last, "constexpr") && qualified))
    return DECO_CONSTEXPR_FUNCTION;
  if (!strcmp(last, "must_use_result")) return DECO_MUST_USE;
  if (text_ends_with(last, "aggregate") && qualified) return DECO_AGGREGATE;
  return DECO_OTHER;
}

const Node *decorator_keyword(const Node *call, const char *name) {
  if (call->kind != NODE_CALL) return NULL;
  for (int i = 0; i < call->Call.keywords.n; i++) {
    const Node *k = call->Call.keywords.at[i];
    if (k->keyword.arg && !strcmp(k->keyword.arg, name)) return k->keyword.value;
  }
  return NULL;
}

Py *function_value(Front *fr, Node *def, Namespace *around, const HostScope *closure) {
  Function *fn = NEW(fr->cx->arena, Function);
  fn->name = def->kind == NODE_LAMBDA ? "<lambda>" : def->FunctionDef.name;
  fn->def = def;
  fn->module = around ? namespace_module(around) : fr->module;
  fn->around = around;
  fn->closure = closure;
  if (def->kind != NODE_LAMBDA)
    for (int i = 0; i < def->FunctionDef.decorator_list.n; i++) {
      const Node *d = def->FunctionDef.decorator_list.at[i];
      switch (decorator_kind(fr, around, d)) {
        case DECO_JIT: {
          fn->kind = FN_JIT;
          const Node *noinline = decorator_keyword(d, "noinline");
          fn->noinline = noinline && noinline->kind == NODE_CONSTANT && noinline->Constant.value.kind == CONST_TRUE;
          break;
        }
        case DECO_AUTOTUNE:
        case DECO_HEURISTICS: fn->is_kernel_wrapper = true; break;
        case DECO_CONSTEXPR_FUNCTION: fn->kind = FN_CONSTEXPR; break;
        case DECO_MUST_USE:
          fn->must_use = "";
          if (d->kind == NODE_CALL && d->Call.args.n == 1) {
            const Py *why =
                front_hooks.host_eval_at(fr, around ? around : fr->module->globals, d->Call.args.at[0], def->span.line);
            if (why->kind == PY_STR) fn->must_use = why->str.s;
          }
          break;
        default: break;
      }
    }
  return py_function(fr, fn);
}
