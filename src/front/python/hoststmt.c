/* Host statements and calls of host functions. A statement says how it ended; GIVE_UP is what becomes of a function
 * when a condition is unknown: its result is then unknown, and nothing else is lost. */
#include "front/core.h"

static How exec_list(Front *fr, HostScope *sc, const NodeList *list, Py **result);

/* Whether what was evaluated last has raised an exception, which the statement now hands on. */
static bool raised(Front *fr) {
  Project *p = front_project(fr);
  bool is = p->raising != NULL;
  p->raising = NULL;
  return is;
}

static How exec_loop(Front *fr, HostScope *sc, Node *n, Py **result) {
  bool is_for = n->kind == NODE_FOR;
  Py *items = is_for ? host_iterate(fr, host_eval(fr, sc, n->For.iter)) : NULL;
  if (raised(fr)) return HOW_RAISE;
  if (items && items->kind == PY_UNKNOWN) {
    *result = items;
    return HOW_GIVE_UP;
  }
  for (int i = 0; !is_for || items->kind != PY_TUPLE || i < items->tuple.n; i++) {
    if (!host_step(fr)) {
      *result = py_unknown(fr, "a computation that takes too long");
      return HOW_GIVE_UP;
    }
    if (is_for && items->kind != PY_TUPLE) { /* spoilt by what the loop does */
      *result = items;
      return HOW_GIVE_UP;
    }
    if (is_for) host_assign(fr, sc, n->For.target, items->tuple.at[i]);
    else {
      Py *test = host_eval(fr, sc, n->While.test);
      if (raised(fr)) return HOW_RAISE;
      int truth = py_truth_known(test);
      if (truth < 0) {
        *result = test;
        return HOW_GIVE_UP;
      }
      if (!truth) break;
    }
    How how = exec_list(fr, sc, is_for ? &n->For.body : &n->While.body, result);
    if (how == HOW_BREAK) return HOW_NEXT;
    if (how != HOW_NEXT && how != HOW_CONTINUE) return how;
  }
  return exec_list(fr, sc, is_for ? &n->For.orelse : &n->While.orelse, result);
}

static How exec_import(Front *fr, HostScope *sc, Node *n) {
  Module *m = sc->ns ? namespace_module(sc->ns) : fr->module;
  const NodeList *names = n->kind == NODE_IMPORT ? &n->Import.names : &n->ImportFrom.names;
  Py *from = n->kind == NODE_IMPORT
                 ? NULL
                 : import_module(fr, m, n->ImportFrom.module ? n->ImportFrom.module : NULL, n->ImportFrom.level);
  How how = HOW_NEXT;
  for (int i = 0; i < names->n; i++) {
    Node *a = names->at[i];
    Py *v =
        from ? import_name(fr, m, from, n->ImportFrom.module, a->alias.name) : import_module(fr, m, a->alias.name, 0);
    const char *name = a->alias.asname ? a->alias.asname : a->alias.name;
    if (!from && !a->alias.asname && strchr(name, '.')) {
      name = intern(fr->cx, name, strcspn(name, "."));
      v = import_module(fr, m, name, 0);
    }
    host_name(sc, name, v);
    if (v->kind != PY_UNKNOWN || strncmp(v->library, "module ", 7)) continue;
    front_project(fr)->raised = "ModuleNotFoundError";
    how = HOW_RAISE;
  }
  return how;
}

/* Whether `except ...:` takes an exception of this name; NULL: nobody knows which it is. */
bool host_catches(const Node *handler, const char *raised) {
  static const char *const below[][2] = {{"ModuleNotFoundError", "ImportError"},
                                         {"ImportError", "ModuleNotFoundError"},
                                         {"KeyError", "LookupError"},
                                         {"IndexError", "LookupError"},
                                         {"ZeroDivisionError", "ArithmeticError"},
                                         {"OverflowError", "ArithmeticError"},
                                         {"NotImplementedError", "RuntimeError"},
                                         {"RecursionError", "RuntimeError"}};
  const Node *type = handler->ExceptHandler.type;
  int n = !type ? 0 : type->kind == NODE_TUPLE ? type->Tuple.elts.n : 1;
  if (!type || !raised) return true;
  for (int i = 0; i < n; i++) {
    const Node *t = type->kind == NODE_TUPLE ? type->Tuple.elts.at[i] : type;
    const char *name = t->kind == NODE_NAME ? t->Name.id : t->kind == NODE_ATTRIBUTE ? t->Attribute.attr : "";
    if (!strcmp(name, raised) || !strcmp(name, "Exception") || !strcmp(name, "BaseException")) return true;
    for (size_t k = 0; k < sizeof below / sizeof *below; k++)
      if (!strcmp(raised, below[k][0]) && !strcmp(name, below[k][1])) return true;
  }
  return false;
}

static How exec_raise(Front *fr, const Node *n) {
  const Node *what = n->Raise.exc;
  if (what && what->kind == NODE_CALL) what = what->Call.func;
  if (what) front_project(fr)->raised = what->kind == NODE_NAME ? what->Name.id : NULL;
  return HOW_RAISE;
}

static How exec_try(Front *fr, HostScope *sc, Node *n, Py **result) {
  How how = exec_list(fr, sc, &n->Try.body, result);
  if (how == HOW_RAISE) {
    for (int i = 0; i < n->Try.handlers.n; i++) {
      Node *h = n->Try.handlers.at[i];
      if (!host_catches(h, front_project(fr)->raised)) continue;
      if (h->ExceptHandler.name) host_name(sc, h->ExceptHandler.name, py_unknown(fr, "an exception"));
      how = exec_list(fr, sc, &h->ExceptHandler.body, result);
      break;
    }
  } else if (how == HOW_NEXT) how = exec_list(fr, sc, &n->Try.orelse, result);
  Py *unused = NULL;
  How last = exec_list(fr, sc, &n->Try.finalbody, &unused);
  if (last == HOW_RETURN) {
    *result = unused;
    return last;
  }
  return how;
}

Py *host_function(Front *fr, HostScope *sc, Node *def);

static How exec_delete(Front *fr, HostScope *sc, const Node *n) {
  for (int i = 0; i < n->Delete.targets.n; i++) {
    Node *t = n->Delete.targets.at[i];
    Py *gone = py_unknown(fr, "what `del` has deleted");
    if (t->kind == NODE_NAME) host_name(sc, t->Name.id, gone);
    if (t->kind == NODE_ATTRIBUTE) host_assign(fr, sc, t, gone);
    if (t->kind != NODE_SUBSCRIPT) continue;
    Py *x = host_eval(fr, sc, t->Subscript.value), *index = host_eval(fr, sc, t->Subscript.slice);
    const char *why = NULL;
    Call c = {.n = 1, .args = &index, .span = t->span};
    bool done = (x->kind == PY_DICT || index->kind == PY_INT) && py_call_method(fr, x, "pop", &c, &why);
    if (!done) py_spoil(fr, x, "a list or dict of which `del` deletes something");
  }
  return HOW_NEXT;
}

/* a += b: lists, sets and dicts change in place, under all of their names. */
static How exec_aug_assign(Front *fr, HostScope *sc, Node *n) {
  Py *old = host_eval(fr, sc, n->AugAssign.target), *v = host_eval(fr, sc, n->AugAssign.value);
  if (raised(fr)) return HOW_RAISE;
  PyOp op = n->AugAssign.op;
  bool is_list = old->kind == PY_TUPLE && old->tuple.is_list;
  if (is_list && !old->tuple.is_set && op == PYOP_ADD) {
    Py *items = host_iterate(fr, v);
    bool fits = items->kind == PY_TUPLE && (items == old || !py_contains(items, old)) &&
                items->tuple.n + old->tuple.n < MAX_HOST_ITEMS;
    for (int i = 0, m = fits ? items->tuple.n : 0; i < m; i++) py_append(fr, old, items->tuple.at[i]);
    if (!fits) py_spoil(fr, old, items->kind == PY_UNKNOWN ? items->library : "a list to which too much is added");
    v = old;
  } else {
    bool own = old->kind == PY_OBJECT && old->object.cls;
    for (int i = 0; own && i < map_count(old->object.cls->members); i++) { /* __iadd__ and its like */
      const void *name;
      void *unused;
      map_entry(old->object.cls->members, i, &name, &unused);
      if (!strncmp(name, "__i", 3) && strcmp(name, "__init__") && strcmp(name, "__iter__"))
        v = py_unknown(fr, "what %s.%s makes", old->object.cls->name, (const char *)name);
    }
    v = host_binary(fr, op, old, v);
    if (raised(fr)) return HOW_RAISE;
    if (is_list && v->kind == PY_TUPLE && v->tuple.is_list) old->tuple = v->tuple, v = old;
    else if (old->kind == PY_DICT && v->kind == PY_DICT) {
      py_dict_changes(fr, old);
      old->dict = v->dict;
      v = old;
    } else if ((is_list || old->kind == PY_DICT) && v->kind == PY_UNKNOWN) {
      py_spoil(fr, old, v->library);
      v = old;
    }
  }
  host_assign(fr, sc, n->AugAssign.target, v);
  return HOW_NEXT;
}

static How exec(Front *fr, HostScope *sc, Node *n, Py **result) {
  stack_guard();
  if (!host_step(fr)) {
    *result = py_unknown(fr, "a computation that takes too long");
    return HOW_GIVE_UP;
  }
  switch (n->kind) {
    case NODE_EXPR: {
      Py *v = host_eval(fr, sc, n->Expr.value);
      if (raised(fr)) return HOW_RAISE;
      if (v->kind == PY_UNKNOWN && !front_project(fr)->lost) front_project(fr)->lost = v->library;
      return HOW_NEXT;
    }
    case NODE_ASSIGN: {
      Py *v = host_eval(fr, sc, n->Assign.value);
      if (raised(fr)) return HOW_RAISE;
      for (int i = 0; i < n->Assign.targets.n; i++) host_assign(fr, sc, n->Assign.targets.at[i], v);
      return HOW_NEXT;
    }
    case NODE_ANN_ASSIGN: {
      if (!n->AnnAssign.value) return HOW_NEXT;
      Py *v = host_eval(fr, sc, n->AnnAssign.value);
      if (raised(fr)) return HOW_RAISE;
      host_assign(fr, sc, n->AnnAssign.target, v);
      return HOW_NEXT;
    }
    case NODE_AUG_ASSIGN: return exec_aug_assign(fr, sc, n);
    case NODE_RETURN:
      *result = n->Return.value ? host_eval(fr, sc, n->Return.value) : py_none(fr);
      return raised(fr) ? HOW_RAISE : HOW_RETURN;
    case NODE_IF: {
      Py *test = host_eval(fr, sc, n->If.test);
      int truth = py_truth_known(test);
      if (raised(fr)) return HOW_RAISE;
      if (truth < 0) {
        *result = test;
        return HOW_GIVE_UP;
      }
      return exec_list(fr, sc, truth ? &n->If.body : &n->If.orelse, result);
    }
    case NODE_FOR:
    case NODE_WHILE: return exec_loop(fr, sc, n, result);
    case NODE_TRY: return exec_try(fr, sc, n, result);
    case NODE_WITH: return exec_list(fr, sc, &n->With.body, result);
    case NODE_ASSERT:
      if (py_truth_known(host_eval(fr, sc, n->Assert.test)) != 0) return raised(fr) ? HOW_RAISE : HOW_NEXT;
      front_project(fr)->raised = "AssertionError";
      return HOW_RAISE;
    case NODE_RAISE: return exec_raise(fr, n);
    case NODE_DELETE: return exec_delete(fr, sc, n);
    case NODE_BREAK: return HOW_BREAK;
    case NODE_CONTINUE: return HOW_CONTINUE;
    case NODE_IMPORT:
    case NODE_IMPORT_FROM: return exec_import(fr, sc, n);
    case NODE_FUNCTION_DEF:
      host_name(sc, n->FunctionDef.name, host_apply_decorators(fr, sc, n, host_function(fr, sc, n)));
      return HOW_NEXT;
    case NODE_CLASS_DEF: host_name(sc, n->ClassDef.name, class_value(fr, n, sc->ns)); return HOW_NEXT;
    case NODE_PASS: return HOW_NEXT;
    case NODE_NONLOCAL:
      if (!sc->outer) sc->outer = map_create(fr->cx->arena, false);
      for (int i = 0; i < n->Nonlocal.names.n; i++) map_put(sc->outer, n->Nonlocal.names.at[i], n);
      return HOW_NEXT;
    case NODE_GLOBAL:
      if (!sc->globals) sc->globals = map_create(fr->cx->arena, false);
      for (int i = 0; i < n->Global.names.n; i++) {
        namespace_get(fr, namespace_file(sc->ns), n->Global.names.at[i]); /* its file is run before it changes */
        map_put(sc->globals, n->Global.names.at[i], n);
      }
      return HOW_NEXT;
    default: *result = py_unknown(fr, "Python's %s", node_name(n->kind)); return HOW_GIVE_UP;
  }
}

static How exec_list(Front *fr, HostScope *sc, const NodeList *list, Py **result) {
  for (int i = 0; i < list->n; i++) {
    How how = exec(fr, sc, list->at[i], result);
    if (how != HOW_NEXT) return how;
  }
  return HOW_NEXT;
}

How host_exec(Front *fr, HostScope *sc, Node *stmt, Py **result) {
  stack_guard();
  return exec(fr, sc, stmt, result);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static Py *bind(Front *fr, Function *fn, HostScope *sc, Py *self, const Call *call) {
  Node *a = fn->def->kind == NODE_LAMBDA ? fn->def->Lambda.args : fn->def->FunctionDef.args;
  int pos_only = a->arguments.posonlyargs.n, positional = pos_only + a->arguments.args.n,
      total = positional + a->arguments.kwonlyargs.n;
  int first_default = positional - a->arguments.defaults.n, self_n = self ? 1 : 0, given = call->n + self_n;
  bool *used = NEW_N(fr->cx->arena, bool, call->kw_n + 1);
  HostScope outside = {.names = map_create(fr->cx->arena, false), .ns = fn->around ? fn->around : fn->module->globals};
  if (fn->closure) outside = *fn->closure;
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
      if (!fn->kept) fn->kept = map_create(fr->cx->arena, false);
      v = map_get(fn->kept, p); /* made once: the next call sees what this one has changed */
      m->now = fn->def->span.line;
      if (!v) map_put(fn->kept, p, v = host_eval(fr, &outside, def));
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

static void find_yield(void *arg, Node *n) {
  stack_guard();
  if (n->kind == NODE_YIELD || n->kind == NODE_YIELD_FROM || n->kind == NODE_AWAIT) *(bool *)arg = true;
  if (n->kind != NODE_LAMBDA && n->kind != NODE_FUNCTION_DEF && n->kind != NODE_CLASS_DEF)
    node_children(n, find_yield, arg);
}

static bool is_generator(const Node *def) {
  bool yields = false;
  for (int i = 0; def->kind == NODE_FUNCTION_DEF && i < def->FunctionDef.body.n; i++)
    find_yield(&yields, def->FunctionDef.body.at[i]);
  return yields;
}

static Py *call_function(Front *fr, Function *fn, Py *self, const Call *call) {
  stack_guard();
  Project *p = front_project(fr);
  if (is_generator(fn->def)) return py_unknown(fr, "the generator %s", fn->name);
  if (fn->kind == FN_JIT) return py_unknown(fr, "the result of the kernel function %s", fn->name);
  if (fn->def->kind != NODE_LAMBDA && fn->def->kind != NODE_FUNCTION_DEF)
    return py_unknown(fr, "the result of %s", fn->name);
  if (p->host_depth >= 100) return py_unknown(fr, "a recursion without end");
  HostScope sc = {.names = map_create(fr->cx->arena, false),
                  .up = (HostScope *)fn->closure,
                  .ns = fn->around ? fn->around : fn->module->globals};
  Py *bad = bind(fr, fn, &sc, self, call);
  if (bad) return bad;
  p->host_depth++;
  Py *result = NULL;
  How how = HOW_RETURN;
  if (fn->def->kind == NODE_LAMBDA) result = host_eval(fr, &sc, fn->def->Lambda.body);
  else how = exec_list(fr, &sc, &fn->def->FunctionDef.body, &result);
  p->host_depth--;
  if (how == HOW_GIVE_UP) {
    const char *why = result && result->kind == PY_UNKNOWN ? result->library : fn->name;
    for (int i = 0; i < fn->def->FunctionDef.body.n; i++)
      host_spoil_changed(fr, &sc, fn->def->FunctionDef.body.at[i], why);
  }
  if (how == HOW_NEXT) return py_none(fr);
  if (how == HOW_RAISE) {
    Py *none = py_unknown(fr, "the result of %s, which raises an exception", fn->name);
    p->raising = none->library;
    return none;
  }
  return result ? result : py_none(fr);
}

/* isinstance(x, type) where the type, or one of several, is not a library's; NULL: as in kernels. */
static Py *host_isinstance(Front *fr, Py *x, Py *type) {
  if (x->kind == PY_UNKNOWN) return x;
  if (type->kind == PY_TUPLE) {
    Py *unknown = NULL;
    for (int i = 0; i < type->tuple.n; i++) {
      Py *both[] = {x, type->tuple.at[i]};
      Py *isinstance = front_hooks.python_name(fr, "isinstance", true);
      Py *is = host_call(fr, isinstance, &(Call){.n = 2, .args = both});
      if (is->kind == PY_UNKNOWN) unknown = is;
      else if (py_truth_known(is)) return is;
    }
    return unknown ? unknown : py_bool(fr, false);
  }
  if (type->kind != PY_UNKNOWN) return NULL;
  if (!strcmp(type->library, "python.object")) return py_bool(fr, true);
  if (!strcmp(type->library, "python.dict")) return py_bool(fr, x->kind == PY_DICT);
  if (!strcmp(type->library, "python.set")) return py_bool(fr, x->kind == PY_TUPLE && x->tuple.is_set);
  return type;
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
  if (!strcmp(b->name, "isinstance") && call->n == 2) {
    Py *is = host_isinstance(fr, call->args[0], call->args[1]);
    if (is) return is;
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
      if (!v) py_spoil(fr, callee->method.self, why);
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

/* What the file's own functions above a def make of it; those of libraries leave it as it is, kernels stay kernels. */
Py *host_apply_decorators(Front *fr, HostScope *sc, Node *def, Py *value) {
  for (int i = def->FunctionDef.decorator_list.n - 1; i >= 0; i--) {
    Node *d = def->FunctionDef.decorator_list.at[i];
    if (decorator_kind(fr, sc->ns, d) != DECO_OTHER) continue;
    Py *with = host_eval(fr, sc, d);
    if (with->kind != PY_FUNCTION || with->fn->kind == FN_JIT) continue;
    Py *made = front_hooks.host_call(fr, with, &(Call){.n = 1, .args = &value, .span = d->span});
    if (value->kind != PY_FUNCTION || value->fn->kind != FN_JIT) value = made;
  }
  return value;
}
