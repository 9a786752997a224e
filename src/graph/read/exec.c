/* Statements, calls and classes. */
#include "graph/read/object.h"

typedef enum { NEXT, RETURNED, BROKE, CONTINUED } How;
enum { MAX_CALLS = 200 };

static How exec_list(Reader *r, Scope *sc, const NodeList *list, Object **result);
static Object *call_method(Reader *r, Object *self, Object *f, const Args *a);

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void name_tensor(Reader *r, Scope *sc, const char *name, Object *value) {
  if (complex_is_tensor(value)) {
    name_tensor(r, sc, arena_printf(r->cx->arena, "%s_real", name), value->parts.real);
    name_tensor(r, sc, arena_printf(r->cx->arena, "%s_imag", name), value->parts.imag);
  }
  if (value->kind == O_TENSOR && !value->tensor->name && !sc->is_library) value->tensor->name = name;
}

/* x[index] = value, also through views of x. */
static void assign_elements(Reader *r, Span at, Object *x, Object *index, Object *value) {
  stack_guard();
  if (x->kind == O_COMPLEX) {
    Object *of[] = {value};
    Args args = {.span = at, .n = 1, .at = of};
    Object *real = prim_call(r, "real", &args), *imag = prim_call(r, "imag", &args);
    if (imag->kind == O_TENSOR) imag = object_tensor(r, use_tensor(r, at, imag)); /* as it is before it is written */
    assign_elements(r, at, x->parts.real, index, real);
    assign_elements(r, at, x->parts.imag, index, imag);
    return;
  }
  Object *places, *view = op_subscript_view(r, at, use_tensor(r, at, x), index, &places);
  Tensor *v = op_tensor(r, at, value, view->tensor->dtype);
  if (places) {
    Object *in[] = {view, places, object_tensor(r, v)};
    v = call_values(r, at, library_named(r, "with_elements"), 3, in)->tensor;
  }
  in_place(r, at, view, "an assignment to elements", v);
}

/* x[index] += value, where the index has tensors. */
static void update_elements(Reader *r, Node *n, Object *view, Object *places, Object *value) {
  Object *in[] = {view, places}, *with_index = library_named(r, "elements_to_update");
  Object *old = call_values(r, n->span, with_index, 2, in);
  Object *sum = op_binary(r, n->span, n->AugAssign.op, old, value);
  Object *put[] = {view, places, sum, r->yes};
  Object *v = call_values(r, n->span, library_named(r, "with_elements"), 4, put);
  in_place(r, n->span, view, "an assignment to elements", v->tensor);
}

void assign(Reader *r, Scope *sc, Node *target, Object *value) {
  stack_guard();
  switch (target->kind) {
    case NODE_NAME:
      name_tensor(r, sc, target->Name.id, value);
      map_put(sc->names, target->Name.id, value);
      break;
    case NODE_TUPLE:
    case NODE_LIST: {
      Object *items = want_items(r, target->span, value);
      int n = target->Tuple.elts.n, star = -1, have = items->list.n;
      for (int i = 0; i < n; i++)
        if (target->Tuple.elts.at[i]->kind == NODE_STARRED) star = i;
      if (star < 0 ? have != n : have < n - 1) read_fail(r, target->span, "%d values for %d names", have, n);
      for (int i = 0; i < n; i++) {
        Node *t = target->Tuple.elts.at[i];
        if (i == star) assign(r, sc, t->Starred.value, object_list(r, O_LIST, have - (n - 1), items->list.at + i));
        else assign(r, sc, t, items->list.at[star >= 0 && i > star ? i + have - n : i]);
      }
      break;
    }
    case NODE_ATTRIBUTE: {
      Object *x = eval(r, sc, target->Attribute.value);
      if (x->kind == O_TENSOR && autograd_assign(r, target->span, x, target->Attribute.attr, value)) break;
      if (x->kind == O_COMPLEX && complex_assign(r, target->span, x, target->Attribute.attr, value)) break;
      if (x->kind != O_OBJECT) read_fail(r, target->span, "attributes of %s cannot be set", object_describe(r, x));
      name_tensor(r, sc, target->Attribute.attr, value);
      map_put(x->object.fields, target->Attribute.attr, value);
      break;
    }
    case NODE_SUBSCRIPT: {
      Object *x = eval(r, sc, target->Subscript.value), *index = eval(r, sc, target->Subscript.slice);
      if (x->kind == O_DICT) {
        dict_put(r, x, index, value);
        break;
      }
      if (x->kind == O_OBJECT && class_find(x->object.cls, "__setitem__")) {
        Object *in[] = {x, index, value};
        call_values(r, target->span, class_find(x->object.cls, "__setitem__"), 3, in);
        break;
      }
      if (x->kind == O_TENSOR || complex_is_tensor(x)) {
        assign_elements(r, target->span, x, index, value);
        break;
      }
      if (x->kind != O_LIST) read_fail(r, target->span, "items of %s cannot be set", object_describe(r, x));
      int64_t i = want_int(r, target->span, index, "an index");
      if (i < -x->list.n || i >= x->list.n)
        read_fail(r, target->span, "index %lld of %d items", (long long)i, x->list.n);
      x->list.at[i < 0 ? i + x->list.n : i] = value;
      break;
    }
    default: read_fail(r, target->span, "nothing can be assigned to a %s", node_name(target->kind));
  }
}

static void import(Reader *r, Scope *sc, Node *n) {
  const NodeList *names = n->kind == NODE_IMPORT ? &n->Import.names : &n->ImportFrom.names;
  for (int i = 0; i < names->n; i++) {
    const char *name = names->at[i]->alias.name, *as = names->at[i]->alias.asname;
    if (n->kind == NODE_IMPORT) {
      const char *top = intern(r->cx, name, strcspn(name, "."));
      map_put(sc->names, as ? as : top, object_path(r, as ? name : top));
      continue;
    }
    const char *path = arena_printf(r->cx->arena, "%s.%s", n->ImportFrom.module ? n->ImportFrom.module : "", name);
    Object *v = path_value(r, path);
    map_put(sc->names, as ? as : name, v ? v : object_path(r, path));
  }
}

static Object *class_value(Reader *r, Scope *sc, Node *n) {
  Object *c = object_new(r, O_CLASS);
  c->cls.name = n->ClassDef.name;
  c->cls.def = n;
  for (int i = 0; i < n->ClassDef.decorator_list.n; i++) {
    const Node *d = n->ClassDef.decorator_list.at[i];
    if (d->kind == NODE_CALL) d = d->Call.func;
    const char *name = d->kind == NODE_ATTRIBUTE ? d->Attribute.attr : d->kind == NODE_NAME ? d->Name.id : "";
    c->cls.has_fields |= !strcmp(name, "dataclass");
  }
  for (int i = 0; i < n->ClassDef.bases.n; i++) {
    Object *b = eval(r, sc, n->ClassDef.bases.at[i]);
    if (b->kind == O_PATH) b = library_function(r, b->s);
    if (b && b->kind == O_CLASS && !c->cls.base) c->cls.base = b;
  }
  c->cls.members = NEW(r->cx->arena, Scope);
  *c->cls.members = (Scope){map_create(r->cx->arena, false), sc, sc->is_library, NULL};
  Object *unused = NULL;
  exec_list(r, c->cls.members, &n->ClassDef.body, &unused);
  return c;
}

Object *class_find(Object *cls, const char *name) {
  for (; cls; cls = cls->cls.base)
    for (int i = 0; i < map_count(cls->cls.members->names); i++) {
      const void *key;
      void *v;
      map_entry(cls->cls.members->names, i, &key, &v);
      if (!strcmp(key, name)) return v;
    }
  return NULL;
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static How loop(Reader *r, Scope *sc, Node *n, Object **result) {
  bool is_for = n->kind == NODE_FOR;
  Object *items = is_for ? want_items(r, n->span, eval(r, sc, n->For.iter)) : NULL;
  for (int i = 0; is_for ? i < items->list.n : object_truth(r, n->span, eval(r, sc, n->While.test)); i++) {
    context_step(r->cx, 1);
    if (is_for) assign(r, sc, n->For.target, items->list.at[i]);
    How how = exec_list(r, sc, is_for ? &n->For.body : &n->While.body, result);
    if (how == BROKE) return NEXT;
    if (how == RETURNED) return how;
  }
  return exec_list(r, sc, is_for ? &n->For.orelse : &n->While.orelse, result);
}

/* Contexts are entered in order, and left in the other. */
static How with(Reader *r, Scope *sc, Node *n, Object **result) {
  const NodeList *items = &n->With.items;
  Object **contexts = NEW_N(r->cx->arena, Object *, items->n + 1);
  for (int i = 0; i < items->n; i++) {
    Node *item = items->at[i];
    Object *x = contexts[i] = eval(r, sc, item->withitem.context_expr);
    Object *enter = x->kind == O_OBJECT ? class_find(x->object.cls, "__enter__") : NULL;
    if (!enter) read_fail(r, item->span, "%s is no context", object_describe(r, x));
    Object *v = call_method(r, x, enter, &(Args){.span = item->span});
    if (item->withitem.optional_vars) assign(r, sc, item->withitem.optional_vars, v);
  }
  How how = exec_list(r, sc, &n->With.body, result);
  for (int i = items->n - 1; i >= 0; i--) {
    Object *leave = class_find(contexts[i]->object.cls, "__exit__");
    if (leave) call_method(r, contexts[i], leave, &(Args){.span = n->span});
  }
  return how;
}

void write_result(Reader *r, Span at, Object *x, const char *name, Object *value) {
  if (x->kind == O_COMPLEX || value->kind == O_COMPLEX) complex_in_place(r, at, x, name, value);
  else in_place(r, at, x, name, use_tensor(r, at, value));
}

static void augmented(Reader *r, Scope *sc, Node *n) {
  Node *target = n->AugAssign.target;
  Object *x = target->kind == NODE_SUBSCRIPT ? eval(r, sc, target->Subscript.value) : NULL, *places = NULL, *old;
  if (x && complex_is_tensor(x)) {
    Object *index = eval(r, sc, target->Subscript.slice), *more = eval(r, sc, n->AugAssign.value);
    more = op_binary(r, n->span, n->AugAssign.op, op_subscript(r, n->span, x, index), more);
    assign_elements(r, n->span, x, index, more);
    return;
  }
  if (x && x->kind == O_TENSOR) {
    Object *index = eval(r, sc, target->Subscript.slice);
    old = op_subscript_view(r, n->span, use_tensor(r, n->span, x), index, &places);
  } else old = eval(r, sc, target);
  Object *v = eval(r, sc, n->AugAssign.value);
  if (places) {
    update_elements(r, n, old, places, v);
    return;
  }
  if (old->kind == O_TENSOR || complex_is_tensor(old)) { /* in place */
    write_result(r, n->span, old, arena_printf(r->cx->arena, "'%s='", pyop_symbol(n->AugAssign.op)),
                 op_binary(r, n->span, n->AugAssign.op, old, v));
    if (!x || x->kind != O_TENSOR) assign(r, sc, target, old);
    return;
  }
  if (old->kind != O_LIST || n->AugAssign.op != PYOP_ADD) {
    assign(r, sc, target, op_binary(r, n->span, n->AugAssign.op, old, v));
    return;
  }
  Object *items = want_items(r, n->span, v); /* in place */
  for (int i = 0, m = items->list.n; i < m; i++) object_append(r, old, items->list.at[i]);
  assign(r, sc, target, old);
}

/* f as its decorators make it, from the last to the first. Functions of the file are called; those of libraries
 * (@torch.compile, @functools.wraps) leave what it computes as it is, but for gradients. */
static Object *decorated(Reader *r, Scope *sc, const Node *def, Object *f) {
  static const char *const kinds[] = {
      [AS_STATIC] = "staticmethod", [AS_CLASS_METHOD] = "classmethod", [AS_PROPERTY] = "property"};
  for (int i = def->FunctionDef.decorator_list.n - 1; i >= 0; i--) {
    Node *d = def->FunctionDef.decorator_list.at[i], *named = d->kind == NODE_CALL ? d->Call.func : d;
    const char *name = named->kind == NODE_ATTRIBUTE ? named->Attribute.attr
                       : named->kind == NODE_NAME    ? named->Name.id
                                                     : "";
    Object *own = named->kind == NODE_NAME ? name_find(sc, name) : NULL;
    if (own && own->kind != O_PATH) {
      f = call_values(r, d->span, eval(r, sc, d), 1, &f);
      continue;
    }
    if (f->kind != O_FUNCTION) continue;
    if (!strcmp(name, "no_grad") || !strcmp(name, "inference_mode")) f->function.no_grad = true;
    for (int k = AS_STATIC; k <= AS_PROPERTY; k++)
      if (!strcmp(name, kinds[k])) f->function.as = k;
    if (!strcmp(name, "cached_property")) f->function.as = AS_PROPERTY;
    if (!strcmp(name, "setter")) read_fail(r, d->span, "setters of properties are not supported");
  }
  return f;
}

static How exec(Reader *r, Scope *sc, Node *n, Object **result) {
  stack_guard();
  if (!sc->is_library) r->g->place = n->span; /* what is made now comes from this line */
  switch (n->kind) {
    case NODE_EXPR: eval(r, sc, n->Expr.value); return NEXT;
    case NODE_ASSIGN: {
      Object *v = eval(r, sc, n->Assign.value);
      for (int i = 0; i < n->Assign.targets.n; i++) assign(r, sc, n->Assign.targets.at[i], v);
      return NEXT;
    }
    case NODE_ANN_ASSIGN: {
      if (!n->AnnAssign.value) return NEXT;
      Object *v = eval(r, sc, n->AnnAssign.value);
      Node *a = n->AnnAssign.annotation;
      if (a->kind == NODE_CONSTANT && a->Constant.value.kind == CONST_STR)
        annotation_check(r, n->span, a->Constant.value.text, v);
      assign(r, sc, n->AnnAssign.target, v);
      return NEXT;
    }
    case NODE_AUG_ASSIGN: augmented(r, sc, n); return NEXT;
    case NODE_RETURN: *result = n->Return.value ? eval(r, sc, n->Return.value) : r->none; return RETURNED;
    case NODE_IF: {
      bool yes = object_truth(r, n->span, eval(r, sc, n->If.test));
      return exec_list(r, sc, yes ? &n->If.body : &n->If.orelse, result);
    }
    case NODE_FOR:
    case NODE_WHILE: return loop(r, sc, n, result);
    case NODE_TRY: { /* nothing is ever raised and caught: an error ends the reading */
      How how = exec_list(r, sc, &n->Try.body, result);
      if (how == NEXT) how = exec_list(r, sc, &n->Try.orelse, result);
      return how == NEXT ? exec_list(r, sc, &n->Try.finalbody, result) : how;
    }
    case NODE_WITH: return with(r, sc, n, result);
    case NODE_ASSERT:
      if (!object_truth(r, n->span, eval(r, sc, n->Assert.test)))
        read_fail(r, n->span, "the assertion fails%s%s", n->Assert.msg ? ": " : "",
                  n->Assert.msg ? object_text(r, eval(r, sc, n->Assert.msg)) : "");
      return NEXT;
    case NODE_RAISE: {
      Node *e = n->Raise.exc;
      bool message = e && e->kind == NODE_CALL && e->Call.args.n;
      read_fail(r, n->span, "%s", message ? object_text(r, eval(r, sc, e->Call.args.at[0])) : "an exception is raised");
    }
    case NODE_BREAK: return BROKE;
    case NODE_CONTINUE: return CONTINUED;
    case NODE_IMPORT:
    case NODE_IMPORT_FROM: import(r, sc, n); return NEXT;
    case NODE_FUNCTION_DEF: {
      Object *f = object_new(r, O_FUNCTION);
      f->function.def = n;
      f->function.scope = sc;
      map_put(sc->names, n->FunctionDef.name, decorated(r, sc, n, f));
      return NEXT;
    }
    case NODE_CLASS_DEF: map_put(sc->names, n->ClassDef.name, class_value(r, sc, n)); return NEXT;
    case NODE_PASS:
    case NODE_DELETE: return NEXT;
    default: read_fail(r, n->span, "Python's %s is not supported here", node_name(n->kind));
  }
}

static How exec_list(Reader *r, Scope *sc, const NodeList *list, Object **result) {
  for (int i = 0; i < list->n; i++) {
    How how = exec(r, sc, list->at[i], result);
    if (how != NEXT) return how;
  }
  return NEXT;
}

static bool is_main_guard(const Node *n) { /* if __name__ == "__main__": */
  return n->kind == NODE_IF && n->If.test->kind == NODE_COMPARE && n->If.test->Compare.left->kind == NODE_NAME &&
         !strcmp(n->If.test->Compare.left->Name.id, "__name__");
}

void exec_file(Reader *r, Scope *sc, Node *module) {
  Object *unused = NULL;
  for (int i = 0; i < module->Module.body.n; i++)
    if (!is_main_guard(module->Module.body.at[i])) exec(r, sc, module->Module.body.at[i], &unused);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static const char *function_name(const Node *def) {
  return def->kind == NODE_LAMBDA ? "lambda" : def->FunctionDef.name;
}

static Node *parameter(const Node *a, int i) {
  int only = a->arguments.posonlyargs.n, positional = only + a->arguments.args.n;
  return i < only         ? a->arguments.posonlyargs.at[i]
         : i < positional ? a->arguments.args.at[i - only]
                          : a->arguments.kwonlyargs.at[i - positional];
}

/* Which parameter a keyword names; -1: none. PyTorch's `input` and `other` are x and y in library/, or come first. */
static int named(const Scope *sc, const Node *a, int total, const char *keyword) {
  for (int i = 0; i < total; i++)
    if (!strcmp(parameter(a, i)->arg.arg, keyword)) return i;
  int place = !strcmp(keyword, "input") ? 0 : !strcmp(keyword, "other") ? 1 : -1;
  if (place < 0 || !sc->is_library) return -1;
  for (int i = 0; i < total; i++)
    if (!strcmp(parameter(a, i)->arg.arg, place ? "y" : "x")) return i;
  return place < total && !a->arguments.vararg ? place : -1;
}

/* Of a keyword that library/ takes as one of **placed, which say where a tensor lies and not what it is. */
static bool places(const char *keyword) {
  static const char *const words[] = {"device",    "layout", "pin_memory",   "memory_format", "requires_grad",
                                      "generator", "names",  "non_blocking", "copy",          NULL};
  for (int i = 0; words[i]; i++)
    if (!strcmp(words[i], keyword)) return true;
  return false;
}

/* Arguments that are left for *args and **kwargs. In library/, as in PyTorch, the first may come by its name. */
static void bind_rest(Reader *r, Node *def, Scope *sc, const Args *call, int positional, const bool *used) {
  Node *a = def->kind == NODE_LAMBDA ? def->Lambda.args : def->FunctionDef.args;
  const char *star = a->arguments.vararg ? a->arguments.vararg->arg.arg : NULL;
  const char *stars = a->arguments.kwarg ? a->arguments.kwarg->arg.arg : NULL;
  if (call->n > positional && !star)
    read_fail(r, call->span, "%s takes %d arguments, and not %d", function_name(def), positional, call->n);
  Object *items = object_list(r, O_TUPLE, call->n > positional ? call->n - positional : 0, call->at + positional);
  Object *rest = stars ? object_new(r, O_DICT) : NULL;
  bool is_placed = sc->is_library && stars && !strcmp(stars, "placed");
  for (int k = 0; k < call->kw_n; k++) {
    const char *name = call->names[k];
    if (used[k]) continue;
    if (sc->is_library && star && !strcmp(name, star) && !items->list.n) object_append(r, items, call->values[k]);
    else if (!rest || (is_placed && !places(name)))
      read_fail(r, call->span, "%s has no parameter '%s'", function_name(def), name);
    else dict_put(r, rest, object_str(r, name), call->values[k]);
  }
  if (star) map_put(sc->names, star, items);
  if (rest) map_put(sc->names, stars, rest);
}

static void bind(Reader *r, Node *def, Scope *sc, Scope *outside, const Args *call) {
  Node *a = def->kind == NODE_LAMBDA ? def->Lambda.args : def->FunctionDef.args;
  int only = a->arguments.posonlyargs.n, positional = only + a->arguments.args.n;
  int total = positional + a->arguments.kwonlyargs.n, first_default = positional - a->arguments.defaults.n;
  bool *used = NEW_N(r->cx->arena, bool, call->kw_n + 1);
  for (int i = 0; i < total; i++) {
    Node *p = parameter(a, i);
    Object *v = i < positional && i < call->n ? call->at[i] : NULL;
    for (int k = 0; k < call->kw_n; k++)
      if (named(sc, a, total, call->names[k]) == i) {
        if (v) read_fail(r, call->span, "%s gets '%s' twice", function_name(def), p->arg.arg);
        v = call->values[k];
        used[k] = true;
      }
    if (!v) {
      Node *d = i >= positional      ? a->arguments.kw_defaults.at[i - positional]
                : i >= first_default ? a->arguments.defaults.at[i - first_default]
                                     : NULL;
      if (!d) read_fail(r, call->span, "%s needs a value for '%s'", function_name(def), p->arg.arg);
      v = eval(r, outside, d);
    }
    map_put(sc->names, p->arg.arg, v);
  }
  bind_rest(r, def, sc, call, positional, used);
}

static Object *call_function(Reader *r, Object *f, const Args *a) {
  stack_guard();
  if (r->depth >= MAX_CALLS) read_fail(r, a->span, "calls nest more than %d deep", MAX_CALLS);
  Node *def = f->function.def;
  Scope *outside = f->function.scope, *sc = NEW(r->cx->arena, Scope);
  /* a class's body is not in the scope of its methods */
  Object *of_class = NULL;
  *sc = (Scope){map_create(r->cx->arena, false), outside, outside->is_library, of_class};
  bind(r, def, sc, outside, a);
  Span place = r->g->place;
  if (outside->is_library && !place.source) r->g->place = a->span;
  r->depth++;
  Object *result = r->none;
  bool no_grad = r->no_grad;
  r->no_grad |= f->function.no_grad;
  if (def->kind == NODE_LAMBDA) result = eval(r, sc, def->Lambda.body);
  else exec_list(r, sc, &def->FunctionDef.body, &result);
  if (f->function.no_grad) r->no_grad = no_grad;
  for (int i = 0; i < a->kw_n && outside->is_library; i++) { /* torch.zeros(.., requires_grad=True) */
    if (strcmp(a->names[i], "requires_grad")) continue;
    if (result->kind == O_TENSOR) autograd_ask(r, a->span, result, object_truth(r, a->span, a->values[i]));
    if (complex_is_tensor(result)) complex_ask(r, a->span, result, object_truth(r, a->span, a->values[i]));
  }
  Object *inplace =
      outside->is_library && def->kind != NODE_LAMBDA ? map_get(sc->names, intern_z(r->cx, "inplace")) : NULL;
  if (inplace && inplace->kind == O_BOOL && inplace->i && result->kind == O_TENSOR && a->n &&
      a->at[0]->kind == O_TENSOR) { /* F.relu(x, inplace=True) */
    in_place(r, a->span, a->at[0], "inplace=True", use_tensor(r, a->span, result));
    result = a->at[0];
  }
  r->depth--;
  r->g->place = place;
  return result;
}

static Object *class_around(Object *cls, Object *function) { /* in whose body the function stands */
  for (; cls; cls = cls->cls.base)
    if (cls->cls.members == function->function.scope) return cls;
  return NULL;
}

static Object *call_method(Reader *r, Object *self, Object *f, const Args *a) {
  Args b = *a;
  b.n = a->n + 1;
  b.at = NEW_N(r->cx->arena, Object *, b.n);
  b.at[0] = self;
  for (int i = 0; i < a->n; i++) b.at[i + 1] = a->at[i];
  Object *cls = self->kind == O_OBJECT && f->kind == O_FUNCTION ? class_around(self->object.cls, f) : NULL;
  if (!cls) return call(r, f, &b);
  Scope *sc = NEW(r->cx->arena, Scope); /* knows the class, for super() */
  *sc = (Scope){map_create(r->cx->arena, false), cls->cls.members->up, cls->cls.members->is_library, cls};
  map_put(sc->names, intern_z(r->cx, "self"), self);
  Object *bound = object_new(r, O_FUNCTION);
  bound->function.def = f->function.def;
  bound->function.scope = sc;
  return call_function(r, bound, &b);
}

/* The fields of a @dataclass, those of its bases first; the arguments before *used are taken. */
static void fill_fields(Reader *r, Object *x, Object *cls, const Args *a, int *used) {
  stack_guard();
  if (cls->cls.base) fill_fields(r, x, cls->cls.base, a, used);
  const NodeList *body = &cls->cls.def->ClassDef.body;
  for (int i = 0; i < body->n && cls->cls.has_fields; i++) {
    if (body->at[i]->kind != NODE_ANN_ASSIGN || body->at[i]->AnnAssign.target->kind != NODE_NAME) continue;
    const char *name = body->at[i]->AnnAssign.target->Name.id;
    if (map_get(x->object.fields, name)) continue;
    Object *v = *used < a->n ? a->at[(*used)++] : NULL;
    for (int k = 0; k < a->kw_n && !v; k++)
      if (!strcmp(a->names[k], name)) v = a->values[k];
    if (!v) v = class_find(x->object.cls, name);
    if (!v) read_fail(r, a->span, "%s needs a value for '%s'", x->object.cls->cls.name, name);
    map_put(x->object.fields, name, v);
  }
}

static void construct_fields(Reader *r, Object *x, const Args *a) {
  int used = 0;
  fill_fields(r, x, x->object.cls, a, &used);
  if (used < a->n) read_fail(r, a->span, "%s takes %d arguments, and not %d", x->object.cls->cls.name, used, a->n);
  for (int k = 0; k < a->kw_n; k++)
    if (!map_get(x->object.fields, a->names[k]))
      read_fail(r, a->span, "%s has no parameter '%s'", x->object.cls->cls.name, a->names[k]);
  call_special(r, a->span, x, "__post_init__", NULL);
}

static Object *construct(Reader *r, Object *cls, const Args *a) {
  Object *x = object_new(r, O_OBJECT);
  x->object.cls = cls;
  x->object.fields = map_create(r->cx->arena, false);
  Object *init = class_find(cls, "__init__");
  r->constructing++;
  if (init) call_method(r, x, init, a);
  r->constructing--;
  if (!init && cls->cls.has_fields) construct_fields(r, x, a);
  return x;
}

/* x.add_(y): whoever has x sees the result. */
static Object *call_in_place(Reader *r, Object *self, const char *name, Object *f, const Args *a) {
  Object *v = call_method(r, self, f, a);
  if (v->kind != O_TENSOR && !complex_is_tensor(v)) read_fail(r, a->span, "%s gives %s", name, object_describe(r, v));
  static const char *const views[] = {"t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_", "swapdims_"};
  for (size_t i = 0; i < sizeof views / sizeof *views; i++)
    if (!strcmp(name, views[i]) && self->kind == O_TENSOR) { /* the same memory, seen otherwise */
      self->tensor = use_tensor(r, a->span, v);
      return self;
    }
  write_result(r, a->span, self, name, v);
  return self;
}

Object *call(Reader *r, Object *f, const Args *a) {
  stack_guard();
  switch (f->kind) {
    case O_FUNCTION: return call_function(r, f, a);
    case O_METHOD:
      if (f->method.in_place) return call_in_place(r, f->method.self, f->method.name, f->method.function, a);
      if (f->method.function) return call_method(r, f->method.self, f->method.function, a);
      return method_call(r, f->method.self, f->method.name, a);
    case O_CLASS: return construct(r, f, a);
    case O_OBJECT: {
      if (map_get(f->object.fields, intern_z(r->cx, "_before")))
        return call_method(r, f, library_named(r, "hooked"), a);
      Object *forward = class_find(f->object.cls, "__call__");
      Object *own = forward ? NULL : map_get(f->object.fields, intern_z(r->cx, "forward"));
      if (own) return call(r, own, a); /* model.forward = f */
      if (!forward) forward = class_find(f->object.cls, "forward");
      if (forward) return call_method(r, f, forward, a);
      break;
    }
    case O_PATH: return path_call(r, f->s, a);
    default: break;
  }
  read_fail(r, a->span, "%s cannot be called", object_describe(r, f));
}

Object *call_special(Reader *r, Span at, Object *x, const char *name, Object *argument) {
  Object *f = x->kind == O_OBJECT ? class_find(x->object.cls, name) : NULL;
  return f ? call_method(r, x, f, &(Args){.span = at, .n = argument != NULL, .at = &argument}) : NULL;
}

Object *call_values(Reader *r, Span at, Object *f, int n, Object *const *values) {
  if (!f) read_fail(r, at, "this operation is not supported");
  Args a = {.span = at, .n = n, .at = (Object **)values};
  return call(r, f, &a);
}
