/* Host statements and calls of host functions. A statement says how it ended; GIVE_UP is what becomes of a function
 * when a condition is unknown: its result is then unknown, and nothing else is lost. */
#include "front/core.h"

typedef enum { NEXT, RETURN, BREAK, CONTINUE, RAISE, GIVE_UP } How;

static How exec_list(Front *fr, HostScope *sc, const NodeList *list, Py **result);

static How exec_loop(Front *fr, HostScope *sc, Node *n, Py **result) {
  bool is_for = n->kind == NODE_FOR;
  Py *items = is_for ? host_iterate(fr, host_eval(fr, sc, n->For.iter)) : NULL;
  if (items && items->kind == PY_UNKNOWN) {
    *result = items;
    return GIVE_UP;
  }
  for (int i = 0; !is_for || i < items->tuple.n; i++) {
    if (!host_step(fr)) {
      *result = py_unknown(fr, "a computation that takes too long");
      return GIVE_UP;
    }
    if (is_for) host_assign(fr, sc, n->For.target, items->tuple.at[i]);
    else {
      Py *test = host_eval(fr, sc, n->While.test);
      int truth = py_truth_known(test);
      if (truth < 0) {
        *result = test;
        return GIVE_UP;
      }
      if (!truth) break;
    }
    How how = exec_list(fr, sc, is_for ? &n->For.body : &n->While.body, result);
    if (how == BREAK) return NEXT;
    if (how != NEXT && how != CONTINUE) return how;
  }
  return exec_list(fr, sc, is_for ? &n->For.orelse : &n->While.orelse, result);
}

static How exec_import(Front *fr, HostScope *sc, Node *n) {
  Module *m = sc->ns ? namespace_module(sc->ns) : fr->module;
  const NodeList *names = n->kind == NODE_IMPORT ? &n->Import.names : &n->ImportFrom.names;
  Py *from = n->kind == NODE_IMPORT
                 ? NULL
                 : import_module(fr, m, n->ImportFrom.module ? n->ImportFrom.module : NULL, n->ImportFrom.level);
  How how = NEXT;
  for (int i = 0; i < names->n; i++) {
    Node *a = names->at[i];
    Py *v =
        from ? import_name(fr, m, from, n->ImportFrom.module, a->alias.name) : import_module(fr, m, a->alias.name, 0);
    const char *name = a->alias.asname ? a->alias.asname : a->alias.name;
    if (!from && !a->alias.asname && strchr(name, '.')) {
      name = intern(fr->cx, name, strcspn(name, "."));
      v = import_module(fr, m, name, 0);
    }
    map_put(sc->names, name, v);
    if (v->kind == PY_UNKNOWN && !strncmp(v->library, "module ", 7)) how = RAISE;
  }
  return how;
}

static How exec_try(Front *fr, HostScope *sc, Node *n, Py **result) {
  How how = exec_list(fr, sc, &n->Try.body, result);
  if (how == RAISE && n->Try.handlers.n) {
    Node *h = n->Try.handlers.at[0];
    if (h->ExceptHandler.name) map_put(sc->names, h->ExceptHandler.name, py_unknown(fr, "an exception"));
    how = exec_list(fr, sc, &h->ExceptHandler.body, result);
  } else if (how == NEXT) how = exec_list(fr, sc, &n->Try.orelse, result);
  Py *unused = NULL;
  How last = exec_list(fr, sc, &n->Try.finalbody, &unused);
  if (last == RETURN) {
    *result = unused;
    return last;
  }
  return how;
}

Py *host_function(Front *fr, HostScope *sc, Node *def);

static How exec(Front *fr, HostScope *sc, Node *n, Py **result) {
  stack_guard();
  if (!host_step(fr)) {
    *result = py_unknown(fr, "a computation that takes too long");
    return GIVE_UP;
  }
  switch (n->kind) {
    case NODE_EXPR: {
      Py *v = host_eval(fr, sc, n->Expr.value);
      if (v->kind == PY_UNKNOWN && !front_project(fr)->lost) front_project(fr)->lost = v->library;
      return NEXT;
    }
    case NODE_ASSIGN: {
      Py *v = host_eval(fr, sc, n->Assign.value);
      for (int i = 0; i < n->Assign.targets.n; i++) host_assign(fr, sc, n->Assign.targets.at[i], v);
      return NEXT;
    }
    case NODE_ANN_ASSIGN:
      if (n->AnnAssign.value) host_assign(fr, sc, n->AnnAssign.target, host_eval(fr, sc, n->AnnAssign.value));
      return NEXT;
    case NODE_AUG_ASSIGN: {
      Py *old = host_eval(fr, sc, n->AugAssign.target), *v = host_eval(fr, sc, n->AugAssign.value);
      if (old->kind == PY_TUPLE && old->tuple.is_list && n->AugAssign.op == PYOP_ADD) { /* in place */
        Py *items = host_iterate(fr, v);
        for (int i = 0, m = items->kind == PY_TUPLE && (items == old || !py_contains(items, old)) &&
                                    items->tuple.n + old->tuple.n < MAX_HOST_ITEMS
                                ? items->tuple.n
                                : 0;
             i < m; i++)
          py_append(fr, old, items->tuple.at[i]);
        v = old;
      } else v = host_binary(fr, n->AugAssign.op, old, v);
      host_assign(fr, sc, n->AugAssign.target, v);
      return NEXT;
    }
    case NODE_RETURN: *result = n->Return.value ? host_eval(fr, sc, n->Return.value) : py_none(fr); return RETURN;
    case NODE_IF: {
      Py *test = host_eval(fr, sc, n->If.test);
      int truth = py_truth_known(test);
      if (truth < 0) {
        *result = test;
        return GIVE_UP;
      }
      return exec_list(fr, sc, truth ? &n->If.body : &n->If.orelse, result);
    }
    case NODE_FOR:
    case NODE_WHILE: return exec_loop(fr, sc, n, result);
    case NODE_TRY: return exec_try(fr, sc, n, result);
    case NODE_WITH: return exec_list(fr, sc, &n->With.body, result);
    case NODE_ASSERT: return py_truth_known(host_eval(fr, sc, n->Assert.test)) == 0 ? RAISE : NEXT;
    case NODE_RAISE: return RAISE;
    case NODE_BREAK: return BREAK;
    case NODE_CONTINUE: return CONTINUE;
    case NODE_IMPORT:
    case NODE_IMPORT_FROM: return exec_import(fr, sc, n);
    case NODE_FUNCTION_DEF: map_put(sc->names, n->FunctionDef.name, host_function(fr, sc, n)); return NEXT;
    case NODE_CLASS_DEF: map_put(sc->names, n->ClassDef.name, class_value(fr, n, sc->ns)); return NEXT;
    case NODE_PASS:
    case NODE_GLOBAL:
    case NODE_NONLOCAL:
    case NODE_DELETE: return NEXT;
    default: *result = py_unknown(fr, "Python's %s", node_name(n->kind)); return GIVE_UP;
  }
}

static How exec_list(Front *fr, HostScope *sc, const NodeList *list, Py **result) {
  for (int i = 0; i < list->n; i++) {
    How how = exec(fr, sc, list->at[i], result);
    if (how != NEXT) return how;
  }
  return NEXT;
}

void host_exec(Front *fr, HostScope *sc, Node *stmt) {
  stack_guard();
  Py *unused = NULL;
  exec(fr, sc, stmt, &unused);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static Py *bind(Front *fr, Function *fn, HostScope *sc, Py *self, const Call *call) {
  Node *a = fn->def->kind == NODE_LAMBDA ? fn->def->Lambda.args : fn->def->FunctionDef.args;
  int pos_only = a->arguments.posonlyargs.n, positional = pos_only + a->arguments.args.n,
      total = positional + a->arguments.kwonlyargs.n;
  int first_default = positional - a->arguments.defaults.n, self_n = self ? 1 : 0, given = call->n + self_n;
  bool *used = NEW_N(fr->cx->arena, bool, call->kw_n + 1);
  HostScope outside = {.names = fn->closure ? fn->closure : map_create(fr->cx->arena, false),
                       .ns = fn->around ? fn->around : fn->module->globals};
  for (int i = 0; i < total; i++) {
    Node *p = i < pos_only     ? a->arguments.posonlyargs.at[i]
              : i < positional ? a->arguments.args.at[i - pos_only]
                               : a->arguments.kwonlyargs.at[i - positional];
    Py *v = NULL;
    if (i < positional && i < given) v = i < self_n ? self : call->args[i - self_n];
    for (int k = 0; k < call->kw_n; k++)
      if (!strcmp(call->kw_names[k], p->arg.arg)) {
        v = call->kw_values[k];
        used[k] = true;
      }
    if (!v) {
      Node *def = i >= positional      ? a->arguments.kw_defaults.at[i - positional]
                  : i >= first_default ? a->arguments.defaults.at[i - first_default]
                                       : NULL;
      if (!def) return py_unknown(fr, "%s without an argument for '%s'", fn->name, p->arg.arg);
      Module *m = outside.ns ? namespace_module(outside.ns) : fn->module;
      int now = m->now;
      m->now = fn->def->span.line;
      v = host_eval(fr, &outside, def);
      m->now = now;
    }
    map_put(sc->names, p->arg.arg, v);
  }
  if (given > positional && !a->arguments.vararg) return py_unknown(fr, "%s with too many arguments", fn->name);
  if (a->arguments.vararg)
    map_put(sc->names, a->arguments.vararg->arg.arg,
            py_tuple(fr, given > positional ? given - positional : 0,
                     given > positional ? call->args + (positional - self_n) : NULL));
  if (a->arguments.kwarg) {
    Py *d = py_dict(fr);
    for (int k = 0; k < call->kw_n; k++)
      if (!used[k]) py_dict_put(fr, d, py_str(fr, call->kw_names[k]), call->kw_values[k]);
    map_put(sc->names, a->arguments.kwarg->arg.arg, d);
  } else {
    for (int k = 0; k < call->kw_n; k++)
      if (!used[k]) return py_unknown(fr, "%s without a parameter '%s'", fn->name, call->kw_names[k]);
  }
  return NULL;
}

static Py *call_function(Front *fr, Function *fn, Py *self, const Call *call) {
  stack_guard();
  Project *p = front_project(fr);
  if (fn->kind == FN_JIT) return py_unknown(fr, "the result of the kernel function %s", fn->name);
  if (fn->def->kind != NODE_LAMBDA && fn->def->kind != NODE_FUNCTION_DEF)
    return py_unknown(fr, "the result of %s", fn->name);
  if (p->host_depth >= 100) return py_unknown(fr, "a recursion without end");
  HostScope outer = {.names = fn->closure, .ns = fn->around ? fn->around : fn->module->globals};
  HostScope sc = {.names = map_create(fr->cx->arena, false), .up = fn->closure ? &outer : NULL, .ns = outer.ns};
  Py *bad = bind(fr, fn, &sc, self, call);
  if (bad) return bad;
  p->host_depth++;
  Py *result = NULL;
  How how = RETURN;
  if (fn->def->kind == NODE_LAMBDA) result = host_eval(fr, &sc, fn->def->Lambda.body);
  else how = exec_list(fr, &sc, &fn->def->FunctionDef.body, &result);
  p->host_depth--;
  if (how == NEXT) return py_none(fr);
  if (how == RAISE) return py_unknown(fr, "the result of %s, which raises an exception", fn->name);
  return result ? result : py_none(fr);
}

static Py *call_builtin(Front *fr, Py *callee, const Call *call) {
  const Builtin *b = callee->builtin.b;
  if (!strcmp(b->library, "triton")) { /* decorators used as functions: k = triton.jit(f) */
    bool jit = !strcmp(b->name, "jit"), wraps = !strcmp(b->name, "autotune") || !strcmp(b->name, "heuristics");
    if (jit || wraps) {
      Py *f = call->n == 1 && !call->kw_n && call->args[0]->kind == PY_FUNCTION ? call->args[0] : NULL;
      if (!f) return callee; /* its options: the decorator itself */
      Function *copy = arena_copy(fr->cx->arena, f->fn, sizeof *f->fn);
      if (jit) copy->kind = FN_JIT;
      else copy->is_kernel_wrapper = true;
      return py_function(fr, copy);
    }
    if (!strcmp(b->name, "constexpr_function") && call->n == 1 && call->args[0]->kind == PY_FUNCTION) {
      Function *copy = arena_copy(fr->cx->arena, call->args[0]->fn, sizeof *call->args[0]->fn);
      copy->kind = FN_CONSTEXPR;
      return py_function(fr, copy);
    }
  }
  if (!(b->flags & (BUILTIN_HOST | BUILTIN_HOST_ONLY)))
    return py_unknown(fr, "the result of %s.%s outside a kernel", b->library, b->name);
  for (int i = 0; i < call->n + call->kw_n; i++) {
    Py *arg = i < call->n ? call->args[i] : call->kw_values[i - call->n];
    if (arg->kind == PY_UNKNOWN && strcmp(b->name, "Config") && strcmp(b->name, "isinstance")) return arg;
  }
  Context *cx = fr->cx;
  volatile int diags = cx->diags.n;
  Py *volatile result = NULL;
  if (context_try(cx)) {
    result = front_hooks.library_call(fr, b, callee->builtin.self, call);
    context_end_try(cx);
  } else {
    context_go_on(cx);
    const char *why = cx->diags.n > diags ? cx->diags.at[diags].message : b->name;
    cx->diags.n = diags;
    result = py_unknown(fr, "%s", why);
  }
  return result;
}

Py *host_call(Front *fr, Py *callee, const Call *call) {
  stack_guard();
  switch (callee->kind) {
    case PY_FUNCTION: return call_function(fr, callee->fn, NULL, call);
    case PY_METHOD: {
      if (callee->method.fn) return call_function(fr, callee->method.fn, callee->method.self, call);
      const char *why = NULL;
      Py *v = py_call_method(fr, callee->method.self, callee->method.name, call, &why);
      return v ? v : py_unknown(fr, "%s", why);
    }
    case PY_BUILTIN: return call_builtin(fr, callee, call);
    case PY_CONSTEXPR_TYPE: {
      if (call->n != 1 || call->args[0]->kind == PY_UNKNOWN)
        return call->n == 1 ? call->args[0] : py_unknown(fr, "tl.constexpr of %d values", call->n);
      Py *v = arena_copy(fr->cx->arena, call->args[0], sizeof(Py));
      v->is_constexpr = true;
      v->is_python = v->kind == PY_TUPLE;
      return v;
    }
    case PY_CLASS: {
      const char *why = NULL;
      Py *v = class_bind(fr, callee->cls, call, &why);
      return v ? v : py_unknown(fr, "%s", why);
    }
    case PY_OBJECT: {
      Py *fn = map_get(callee->object.fields, "__call__"); /* functools.partial: see hostlib.c */
      Py *args = map_get(callee->object.fields, "args"), *kw = map_get(callee->object.fields, "keywords");
      if (!fn || !args || !kw) break;
      Call c = *call;
      c.n = args->tuple.n + call->n;
      c.kw_n = kw->dict.n + call->kw_n;
      c.args = NEW_N(fr->cx->arena, Py *, c.n + c.kw_n + 1);
      c.kw_names = NEW_N(fr->cx->arena, const char *, c.kw_n + 1);
      c.kw_values = c.args + c.n;
      for (int i = 0; i < c.n; i++) c.args[i] = i < args->tuple.n ? args->tuple.at[i] : call->args[i - args->tuple.n];
      for (int i = 0; i < c.kw_n; i++) {
        c.kw_names[i] = i < kw->dict.n ? intern_z(fr->cx, kw->dict.keys[i]->str.s) : call->kw_names[i - kw->dict.n];
        c.kw_values[i] = i < kw->dict.n ? kw->dict.values[i] : call->kw_values[i - kw->dict.n];
      }
      return host_call(fr, fn, &c);
    }
    case PY_HOST: return host_call_object(fr, callee, call);
    case PY_UNKNOWN: {
      bool known = false;
      Py *v = host_library_call(fr, callee->library, call, &known);
      return known ? v : strchr(callee->library, ' ') ? callee : py_unknown(fr, "%s()", callee->library);
    }
    case PY_LIBRARY: return py_unknown(fr, "%s()", callee->library);
    default: break;
  }
  return py_unknown(fr, "the result of %s", py_describe(fr, callee));
}
