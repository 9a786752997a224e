/* What a call in a kernel's body calls: a function of the library, a jit function, a method, a class. */
#include "front/core.h"

/* What Python has computed. A tuple says that it is a constexpr's, since its type tells. */
Py *core_python_tuple(Front *fr, Py *v) {
  if (v->kind != PY_TUPLE) return v;
  v = arena_copy(fr->cx->arena, v, sizeof *v);
  v->is_constexpr = v->is_python = true;
  return v;
}

static Py *call_constexpr_function(Front *fr, const char *name, Py *v, Span at) {
  if (v->kind == PY_UNKNOWN) diag_fail(fr->cx, at, "%s could not be evaluated at compile time: %s", name, v->library);
  return core_python_tuple(fr, v);
}

Py *front_call(Front *fr, Py *callee, const Call *call) {
  switch (callee->kind) {
    case PY_BUILTIN: return builtin_call(fr, callee->builtin.b, callee->builtin.self, call);
    case PY_FUNCTION: {
      Function *fn = callee->fn;
      if (fn->kind == FN_JIT && fn->is_kernel_wrapper)
        diag_fail_hint(fr->cx, call->span, "move the body into a @triton.jit function of its own and call that",
                       "%s stands under autotune or heuristics and can only be launched, not called", fn->name);
      if (fn->kind == FN_JIT) return front_hooks.call_function(fr, fn, NULL, call);
      if (fn->kind == FN_CONSTEXPR || callee->is_constexpr) /* is_constexpr: tl.constexpr(f), or a constexpr argument */
        return call_constexpr_function(fr, fn->name, host_call(fr, callee, call), call->span);
      diag_fail_hint(fr->cx, call->span,
                     "put @triton.jit above its definition, or @triton.constexpr_function if it computes constants",
                     "%s is a plain Python function; a kernel can only call @triton.jit functions", fn->name);
    }
    case PY_METHOD: {
      if (callee->method.fn) {
        Function *fn = callee->method.fn;
        if (fn->kind == FN_JIT) return front_hooks.call_function(fr, fn, callee->method.self, call);
        if (fn->kind == FN_CONSTEXPR)
          return call_constexpr_function(fr, fn->name, host_call(fr, callee, call), call->span);
        diag_fail_hint(fr->cx, call->span, "put @triton.jit above it",
                       "%s is a plain Python method; a kernel can only call @triton.jit methods", fn->name);
      }
      const char *why = NULL;
      Py *v = py_call_method(fr, callee->method.self, callee->method.name, call, &why);
      if (!v) diag_fail(fr->cx, call->span, "%s", why);
      return v;
    }
    case PY_CLASS: return core_construct(fr, callee->cls, call);
    case PY_CONSTEXPR_TYPE:
      if (call->n != 1 || call->kw_n) diag_fail(fr->cx, call->span, "tl.constexpr takes one value");
      return call->args[0];
    case PY_TYPE:
      diag_fail_hint(fr->cx, call->span, "write x.to(dtype), or tl.full([], value, dtype) for a constant",
                     "'dtype' object is not callable: it is %s", py_describe(fr, callee));
    case PY_HOST:
      if (callee->host.is_function)
        return call_constexpr_function(fr, callee->host.what, host_call_object(fr, callee, call), call->span);
      diag_fail_hint(fr->cx, call->span,
                     "put @triton.jit above its definition, or @triton.constexpr_function if it computes constants",
                     "%s is Python's; a kernel can only call @triton.jit functions", callee->host.what);
    case PY_UNKNOWN: {
      const char *near = builtin_near(fr, callee->library);
      diag_fail_hint(fr->cx, call->span, near ? arena_printf(fr->cx->arena, "did you mean `%s`?", near) : NULL,
                     "%s is not known here and cannot be called in a kernel", callee->library);
    }
    default:
      diag_fail(fr->cx, call->span, "'%s' object is not callable: it is %s", py_class_name(callee),
                py_describe(fr, callee));
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
  if (!k) diag_fail(fr->cx, at, "the library has no function %s written in Triton", name);
  return front_call_values(fr, py_function(fr, k->fn), at, n, args);
}
