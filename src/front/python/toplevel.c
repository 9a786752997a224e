/* A file's statements run in order, where looking names up one by one would not do:
 *
 *     TILES = {}                      for ... binds and changes names
 *     ALL = TILES                     the dict has two names
 *     def register(n, tile):
 *         TILES[n] = tile             a function that changes what it has not made
 *     for n in (64, 128): register(n, (n, 32))
 *     SIZE = len(ALL)                 2
 *
 * host_changes() says whether a file (a function around a kernel, a class's body) has such statements; host_run() then
 * runs all of it, once. Nothing fails. Where a condition is not known, what its branches bind differently is not known
 * either; where a statement cannot be run to its end, what it would have bound and changed is unknown from then on
 * (changed.c). Defs, classes and imports are evaluated when somebody asks for them.
 *
 * Functions of other files that a statement of the file calls are looked at likewise. Not seen: what libraries change,
 * and what other files change while they are imported but in themselves. */
#include "front/core.h"

#include <limits.h>

/* ---- which statements change something --------------------------------------------------------------------------- */

/* A function of the file: `impure` if it changes what it has not made itself. */
typedef struct Routine {
  const char *name;
  const Node *body;
  const char *self; /* of __init__: what is made is its own */
  bool impure;
  Map *made;   /* its names that hold only what it has made */
  Map *others; /* those that do not */
} Routine;

typedef struct Routines {
  Arena *arena;
  VEC(Routine *) all;
  Map *impure; /* by name; methods by theirs, __init__ by its class's */
} Routines;

/* Of lists, dicts and sets. */
static bool changes_in_place(PyOp op) {
  return op == PYOP_ADD || op == PYOP_MULT || op == PYOP_BIT_OR || op == PYOP_BIT_AND || op == PYOP_BIT_XOR ||
         op == PYOP_SUB;
}

static void find_made(void *arg, Node *n) {
  stack_guard();
  Routine *r = arg;
  if (n->kind == NODE_ASSIGN && n->Assign.targets.n == 1 && n->Assign.targets.at[0]->kind == NODE_NAME) {
    NodeKind k = n->Assign.value->kind;
    bool alias = k == NODE_NAME || k == NODE_ATTRIBUTE || k == NODE_SUBSCRIPT || k == NODE_IF_EXP || k == NODE_BOOL_OP;
    map_put(alias ? r->others : r->made, n->Assign.targets.at[0]->Name.id, r);
    find_made(arg, n->Assign.value);
    return;
  }
  if (n->kind == NODE_NAME && n->Name.ctx == CTX_STORE) map_put(r->others, n->Name.id, r);
  node_children(n, find_made, arg);
}

static void find_impure(void *arg, Node *n) {
  stack_guard();
  Routine *r = arg;
  if (n->kind == NODE_GLOBAL || n->kind == NODE_NONLOCAL) r->impure = true;
  const Node *what = host_changed_by(n);
  if (what && n->kind == NODE_AUG_ASSIGN && n->AugAssign.target->kind == NODE_NAME &&
      !changes_in_place(n->AugAssign.op))
    what = NULL;
  if (what && what->kind != NODE_NAME) r->impure = true;
  if (what && what->kind == NODE_NAME && !(r->self && !strcmp(r->self, what->Name.id)) &&
      (!map_get(r->made, what->Name.id) || map_get(r->others, what->Name.id)))
    r->impure = true;
  node_children(n, find_impure, arg);
}

static void add_routine(Routines *rs, const char *name, Node *body, const char *self) {
  Routine *r = NEW(rs->arena, Routine);
  *r = (Routine){.name = name, .body = body, .self = self, .made = map_create(rs->arena, false)};
  r->others = map_create(rs->arena, false);
  node_children(body, find_made, r);
  node_children(body, find_impure, r);
  vec_push(rs->arena, &rs->all, r);
  if (r->impure) map_put(rs->impure, name, r);
}

static void find_routines(void *arg, Node *n) {
  stack_guard();
  Routines *rs = arg;
  if (n->kind == NODE_FUNCTION_DEF) add_routine(rs, n->FunctionDef.name, n, NULL);
  if (n->kind == NODE_ASSIGN && n->Assign.value->kind == NODE_LAMBDA && n->Assign.targets.at[0]->kind == NODE_NAME)
    add_routine(rs, n->Assign.targets.at[0]->Name.id, n->Assign.value, NULL);
  if (n->kind == NODE_CLASS_DEF)
    for (int i = 0; i < n->ClassDef.body.n; i++) {
      Node *m = n->ClassDef.body.at[i];
      if (m->kind != NODE_FUNCTION_DEF || strcmp(m->FunctionDef.name, "__init__")) continue;
      const NodeList *args = &m->FunctionDef.args->arguments.args;
      add_routine(rs, n->ClassDef.name, m, args->n ? args->at[0]->arg.arg : NULL);
    }
  node_children(n, find_routines, arg);
}

typedef struct Search {
  const Map *impure;
  bool found;
} Search;

static void find_act(void *arg, Node *n) { /* an expression that changes something when it is evaluated */
  stack_guard();
  Search *s = arg;
  static const char *const acting[] = {"setattr", "delattr", "exec", "globals", "vars", "next", NULL};
  if (n->kind == NODE_LAMBDA) return;
  if (n->kind == NODE_NAMED_EXPR || (n->kind == NODE_CALL && host_changed_by(n))) s->found = true;
  if (n->kind == NODE_NAME && map_get(s->impure, n->Name.id)) s->found = true;
  if (n->kind == NODE_ATTRIBUTE && map_get(s->impure, n->Attribute.attr)) s->found = true;
  for (int i = 0; n->kind == NODE_NAME && acting[i]; i++) s->found |= !strcmp(n->Name.id, acting[i]);
  if (!s->found) node_children(n, find_act, arg);
}

static bool acts(const Map *impure, Node *n) {
  Search s = {impure, false};
  if (n) find_act(&s, n);
  return s.found;
}

/* ---- functions of other files ------------------------------------------------------------------------------------ */

static const Map *impure_of(Module *m);
static bool foreign_impure(Module *m, const char *name, int depth);

typedef struct Calls { /* of imported functions, in what stands at `m` */
  Module *m;
  Map *impure; /* those that change something */
  int depth;
  bool bodies; /* of functions, too */
} Calls;

static void find_import(void *arg, Node *n) {
  stack_guard();
  const NodeList *names = n->kind == NODE_IMPORT        ? &n->Import.names
                          : n->kind == NODE_IMPORT_FROM ? &n->ImportFrom.names
                                                        : NULL;
  for (int i = 0; names && i < names->n; i++) {
    const Node *a = names->at[i];
    map_put(arg, a->alias.asname ? a->alias.asname : a->alias.name, n);
  }
  if (n->kind != NODE_FUNCTION_DEF && n->kind != NODE_CLASS_DEF && n->kind != NODE_LAMBDA)
    node_children(n, find_import, arg);
}

static const Map *imports_of(Module *m) {
  if (m->imports) return m->imports;
  m->imports = map_create(m->cx->arena, false);
  node_children(m->tree, find_import, m->imports);
  return m->imports;
}

static const char *name_in_file(const NodeList *aliases, const char *name) {
  for (int i = 0; i < aliases->n; i++) {
    const Node *a = aliases->at[i];
    if (!strcmp(a->alias.asname ? a->alias.asname : a->alias.name, name)) return a->alias.name;
  }
  return name;
}

/* f after `from file import f`, file.f after `import file`; called, or a decorator */
static void look_at_foreign(Calls *c, const Node *callee) {
  bool by_name = callee->kind == NODE_NAME;
  const Node *from = callee->kind == NODE_ATTRIBUTE ? callee->Attribute.value : callee;
  const Node *import = from->kind == NODE_NAME ? map_get(imports_of(c->m), from->Name.id) : NULL;
  if (!import || (import->kind == NODE_IMPORT_FROM) != by_name) return;
  const char *name = from->Name.id, *called = by_name ? name : callee->Attribute.attr;
  Front *fr = c->m->project->fr;
  const Py *file = by_name ? import_module(fr, c->m, import->ImportFrom.module, import->ImportFrom.level)
                           : import_module(fr, c->m, name_in_file(&import->Import.names, name), 0);
  const char *there = by_name ? name_in_file(&import->ImportFrom.names, name) : called;
  if (file->kind == PY_MODULE && foreign_impure(file->module, there, c->depth + 1)) map_put(c->impure, called, c->m);
}

static void find_foreign_call(void *arg, Node *n) {
  stack_guard();
  Calls *c = arg;
  bool def = n->kind == NODE_FUNCTION_DEF;
  if (n->kind == NODE_CALL) look_at_foreign(c, n->Call.func);
  if (c->bodies || (!def && n->kind != NODE_LAMBDA)) node_children(n, find_foreign_call, arg);
  for (int i = 0; !c->bodies && def && i < n->FunctionDef.decorator_list.n; i++) {
    Node *d = n->FunctionDef.decorator_list.at[i];
    look_at_foreign(c, d);
    find_foreign_call(arg, d);
  }
}

/* Whether a function of a file, or one of a further file that it calls, changes what it has not made. */
static bool foreign_impure(Module *m, const char *name, int depth) {
  if (map_get(impure_of(m), name)) return true;
  Calls c = {m, map_create(m->cx->arena, false), depth, true};
  for (int i = 0; depth < 8 && i < m->tree->Module.body.n; i++) {
    Node *s = m->tree->Module.body.at[i];
    if (s->kind == NODE_FUNCTION_DEF && !strcmp(s->FunctionDef.name, name)) node_children(s, find_foreign_call, &c);
  }
  return map_count(c.impure) > 0;
}

static const Map *impure_of(Module *m) {
  if (m->impure) return m->impure;
  Routines rs = {.arena = m->cx->arena, .impure = map_create(m->cx->arena, false)};
  m->impure = rs.impure; /* a circle of files */
  node_children(m->tree, find_foreign_call, &(Calls){m, rs.impure, 0, false});
  find_routines(&rs, m->tree);
  for (bool more = true; more;) { /* who calls one is one */
    more = false;
    for (int i = 0; i < rs.all.n; i++) {
      Routine *r = rs.all.at[i];
      Search s = {rs.impure, false};
      if (!r->impure) node_children(r->body, find_act, &s);
      if (!s.found) continue;
      r->impure = more = true;
      map_put(rs.impure, r->name, r);
    }
  }
  for (int i = 0; map_count(rs.impure) && i < m->tree->Module.body.n; i++) { /* f = make(); f() */
    const Node *s = m->tree->Module.body.at[i], *target = s->kind == NODE_ASSIGN ? s->Assign.targets.at[0] : NULL;
    bool calls = target && (s->Assign.value->kind == NODE_CALL || s->Assign.value->kind == NODE_SUBSCRIPT);
    if (calls && target->kind == NODE_NAME) map_put(rs.impure, target->Name.id, m);
  }
  return rs.impure;
}

static bool list_changes(const Map *impure, const NodeList *list, bool in_try);

static bool plain_target(const Node *t) {
  stack_guard();
  if (t->kind == NODE_SUBSCRIPT || t->kind == NODE_ATTRIBUTE) return false;
  for (int i = 0; (t->kind == NODE_TUPLE || t->kind == NODE_LIST) && i < t->Tuple.elts.n; i++)
    if (!plain_target(t->Tuple.elts.at[i])) return false;
  return true;
}

static void find_raise(void *arg, Node *n) {
  stack_guard();
  if (n->kind == NODE_CALL || n->kind == NODE_SUBSCRIPT || n->kind == NODE_BIN_OP) *(bool *)arg = true;
  if (n->kind != NODE_LAMBDA && n->kind != NODE_FUNCTION_DEF && n->kind != NODE_CLASS_DEF)
    node_children(n, find_raise, arg);
}

/* A statement in a `try` that may end it, other than an import. */
static bool may_raise(Node *s) {
  bool may = false;
  find_raise(&may, s);
  return may;
}

static bool changes(const Map *impure, Node *s, bool in_try) {
  stack_guard();
  switch (s->kind) {
    case NODE_FOR:
    case NODE_WHILE:
    case NODE_DELETE:
    case NODE_MATCH: return true;
    case NODE_AUG_ASSIGN: return s->AugAssign.target->kind != NODE_NAME || changes_in_place(s->AugAssign.op);
    case NODE_RAISE: return in_try;
    case NODE_ASSERT: return in_try || acts(impure, s->Assert.test);
    case NODE_EXPR: return acts(impure, s->Expr.value);
    case NODE_ANN_ASSIGN: return !plain_target(s->AnnAssign.target) || acts(impure, s->AnnAssign.value);
    case NODE_ASSIGN:
      for (int i = 0; i < s->Assign.targets.n; i++)
        if (!plain_target(s->Assign.targets.at[i])) return true;
      return acts(impure, s->Assign.value);
    case NODE_FUNCTION_DEF:
      for (int i = 0; i < s->FunctionDef.decorator_list.n; i++)
        if (acts(impure, s->FunctionDef.decorator_list.at[i])) return true;
      return false;
    case NODE_IF:
      return acts(impure, s->If.test) || list_changes(impure, &s->If.body, in_try) ||
             list_changes(impure, &s->If.orelse, in_try);
    case NODE_WITH: return list_changes(impure, &s->With.body, in_try);
    case NODE_TRY:
      for (int i = 0; i < s->Try.body.n; i++)
        if (may_raise(s->Try.body.at[i])) return true;
      for (int i = 0; i < s->Try.handlers.n; i++)
        if (list_changes(impure, &s->Try.handlers.at[i]->ExceptHandler.body, false)) return true;
      return list_changes(impure, &s->Try.body, true) || list_changes(impure, &s->Try.orelse, in_try) ||
             list_changes(impure, &s->Try.finalbody, in_try);
    default: return false;
  }
}

static bool list_changes(const Map *impure, const NodeList *list, bool in_try) {
  for (int i = 0; i < list->n; i++)
    if (changes(impure, list->at[i], in_try)) return true;
  return false;
}

bool host_changes(Front *fr, Namespace *ns) {
  (void)fr;
  return list_changes(impure_of(namespace_module(ns)), namespace_body(ns), false);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct Top {
  Front *fr;
  Namespace *ns;
  HostScope sc;
  int tries; /* around the statement */
} Top;

static How run_list(Top *t, const NodeList *list);

static void bind_imports(Top *t, Node *s) {
  const NodeList *names = s->kind == NODE_IMPORT ? &s->Import.names : &s->ImportFrom.names;
  for (int i = 0; i < names->n; i++) {
    Node *a = names->at[i];
    const char *name = a->alias.asname ? a->alias.asname : a->alias.name;
    if (s->kind == NODE_IMPORT) name = intern(t->fr->cx, name, strcspn(name, "."));
    if (strcmp(name, "*")) namespace_bind(t->ns, name, NULL, s);
  }
}

static bool module_missing(Top *t, Node *s) {
  Module *m = namespace_module(t->ns);
  if (s->kind == NODE_IMPORT_FROM) {
    const Py *from = import_module(t->fr, m, s->ImportFrom.module, s->ImportFrom.level);
    return from->kind == PY_UNKNOWN && !strncmp(from->library, "module ", 7);
  }
  for (int i = 0; i < s->Import.names.n; i++) {
    const Py *v = import_module(t->fr, m, s->Import.names.at[i]->alias.name, 0);
    if (v->kind == PY_UNKNOWN && !strncmp(v->library, "module ", 7)) return true;
  }
  return false;
}

/* What a `try` surely could not give, a handler may: its plain assignments count for such names. */
static void ask_handlers(Top *t, const NodeList *handlers) {
  for (int h = 0; h < handlers->n; h++) {
    const NodeList *body = &handlers->at[h]->ExceptHandler.body;
    for (int i = 0; i < body->n; i++) {
      Node *s = body->at[i];
      if (s->kind != NODE_ASSIGN || s->Assign.targets.n != 1 || s->Assign.targets.at[0]->kind != NODE_NAME) continue;
      const char *name = s->Assign.targets.at[0]->Name.id;
      const Py *v = namespace_get(t->fr, t->ns, name);
      if (v && host_surely_raises(v)) namespace_bind(t->ns, name, host_eval(t->fr, &t->sc, s->Assign.value), s);
    }
  }
}

static How run_try(Top *t, Node *s) {
  t->tries++;
  How how = run_list(t, &s->Try.body);
  t->tries--;
  if (how == HOW_RAISE) {
    for (int i = 0; i < s->Try.handlers.n; i++) {
      const Node *h = s->Try.handlers.at[i];
      if (!host_catches(h, front_project(t->fr)->raised)) continue;
      if (h->ExceptHandler.name) host_name(&t->sc, h->ExceptHandler.name, py_unknown(t->fr, "an exception"));
      how = run_list(t, &h->ExceptHandler.body);
      break;
    }
  } else {
    ask_handlers(t, &s->Try.handlers);
    how = run_list(t, &s->Try.orelse);
  }
  How last = run_list(t, &s->Try.finalbody);
  return last == HOW_NEXT ? how : last;
}

/* exec(text), setattr(module, name, x): names of the file may have changed, nobody knows which. */
static bool may_bind_any(Top *t, const Node *s) {
  const Node *call = s->kind == NODE_EXPR ? s->Expr.value : NULL;
  if (!call || call->kind != NODE_CALL || call->Call.func->kind != NODE_NAME) return false;
  if (!strcmp(call->Call.func->Name.id, "exec")) return true;
  return !strcmp(call->Call.func->Name.id, "setattr") && call->Call.args.n &&
         host_eval(t->fr, &t->sc, call->Call.args.at[0])->kind == PY_UNKNOWN;
}

static bool raised(Top *t) {
  Project *p = front_project(t->fr);
  bool is = p->raising && t->tries;
  p->raising = NULL;
  return is;
}

/* ---- an `if` whose test nobody knows ----------------------------------------------------------------------------- */

typedef struct Branch {
  Front *fr;
  Map *names; /* that it binds -> their values after it */
} Branch;

static void find_names(void *arg, Node *n) {
  stack_guard();
  Branch *b = arg;
  if (n->kind == NODE_NAME && n->Name.ctx == CTX_STORE) map_put(b->names, n->Name.id, n);
  if (n->kind == NODE_ALIAS) {
    const char *name = n->alias.asname ? n->alias.asname : n->alias.name;
    if (strcmp(name, "*")) map_put(b->names, intern(b->fr->cx, name, strcspn(name, ".")), n);
  }
  if (n->kind == NODE_FUNCTION_DEF) map_put(b->names, n->FunctionDef.name, n);
  if (n->kind == NODE_CLASS_DEF) map_put(b->names, n->ClassDef.name, n);
  if (n->kind != NODE_FUNCTION_DEF && n->kind != NODE_CLASS_DEF && n->kind != NODE_LAMBDA)
    node_children(n, find_names, arg);
}

static Branch names_of(Top *t, const NodeList *body) {
  Branch b = {t->fr, map_create(t->fr->cx->arena, false)};
  for (int i = 0; i < body->n; i++) find_names(&b, body->at[i]);
  return b;
}

static Py *bound_to(Top *t, const char *name) {
  return namespace_bound(t->ns, name) ? namespace_get(t->fr, t->ns, name) : NULL;
}

/* Runs a branch, takes down what its names are then, and binds them to what they were before. */
static void try_branch(Top *t, const NodeList *body, Branch *b) {
  int n = map_count(b->names);
  Py **old = NEW_N(t->fr->cx->arena, Py *, n + 1);
  const void *name;
  void *unused;
  for (int i = 0; i < n; i++) {
    map_entry(b->names, i, &name, &unused);
    old[i] = bound_to(t, name);
  }
  run_list(t, body); /* `if ...: raise` is taken not to */
  for (int i = 0; i < n; i++) {
    map_entry(b->names, i, &name, &unused);
    map_put(b->names, name, bound_to(t, name));
    namespace_bind(t->ns, name, old[i] ? old[i] : py_unknown(t->fr, "'%s'", (const char *)name), NULL);
  }
}

/* Both branches, one after the other. A name that both bind to one value, or that one binds and nothing before, is
 * known; others are not, and neither is what they change in place. */
static How run_both(Top *t, Node *s, const char *why) {
  const Map *impure = impure_of(namespace_module(t->ns));
  Branch yes = names_of(t, &s->If.body), no = names_of(t, &s->If.orelse), all = names_of(t, &s->If.body);
  for (int i = 0; i < s->If.orelse.n; i++) find_names(&all, s->If.orelse.at[i]);
  Py *doubt = namespace_doubt(t->fr, t->ns, s, why);
  bool in_place = list_changes(impure, &s->If.body, t->tries) || list_changes(impure, &s->If.orelse, t->tries);
  if (in_place) host_spoil_changed(t->fr, &t->sc, s, doubt->library);
  Map *before = map_create(t->fr->cx->arena, false);
  const void *name;
  void *unused;
  for (int i = 0; i < map_count(all.names); i++) {
    map_entry(all.names, i, &name, &unused);
    map_put(before, name, bound_to(t, name));
  }
  if (!in_place) {
    try_branch(t, &s->If.body, &yes);
    try_branch(t, &s->If.orelse, &no);
  }
  for (int i = 0; i < map_count(all.names); i++) {
    map_entry(all.names, i, &name, &unused);
    Py *a = map_get(yes.names, name), *b = map_get(no.names, name);
    if (!a) a = map_get(before, name);
    if (!b) b = map_get(before, name);
    Py *v = in_place ? doubt : !a ? b : !b ? a : py_same_constant(a, b) ? a : doubt;
    if (v) namespace_bind(t->ns, name, v, NULL);
  }
  return HOW_NEXT;
}

static How run_leaf(Top *t, Node *s) {
  Project *p = front_project(t->fr);
  int64_t keep = p->steps, most = p->run_steps < HOST_STEPS / 4 ? p->run_steps : HOST_STEPS / 4;
  p->steps = most; /* what is not a kernel's does not use up what its own names need */
  Py *why = NULL;
  How how = HOW_NEXT;
  Node *value = s->kind == NODE_ASSIGN ? s->Assign.value : s->kind == NODE_ANN_ASSIGN ? s->AnnAssign.value : NULL;
  if (value) {
    Py *v = map_get(namespace_values(t->ns), s);
    if (!v) v = host_eval(t->fr, &t->sc, value);
    if (raised(t)) how = HOW_RAISE;
    map_put(namespace_values(t->ns), s, v);
    for (int i = 0; how == HOW_NEXT && i < (s->kind == NODE_ASSIGN ? s->Assign.targets.n : 1); i++)
      host_assign(t->fr, &t->sc, s->kind == NODE_ASSIGN ? s->Assign.targets.at[i] : s->AnnAssign.target, v);
  } else if (may_bind_any(t, s)) namespace_forget(t->fr, t->ns, "a name that `exec` or `setattr` may have changed");
  else how = host_exec(t->fr, &t->sc, s, &why);
  p->run_steps -= most - (p->steps > 0 ? p->steps : 0);
  p->steps = keep;
  if (how == HOW_GIVE_UP)
    host_spoil_changed(t->fr, &t->sc, s, why && why->kind == PY_UNKNOWN ? why->library : "a statement that is not run");
  return how == HOW_RAISE ? how : HOW_NEXT;
}

static How run_one(Top *t, Node *s) {
  stack_guard();
  Module *m = namespace_module(t->ns);
  const Map *impure = impure_of(m);
  namespace_line(t->ns, m->now = s->span.line);
  switch (s->kind) {
    case NODE_FUNCTION_DEF:
    case NODE_ASYNC_FUNCTION_DEF:
      namespace_bind(t->ns, s->FunctionDef.name, NULL, s);
      for (int i = 0; i < s->FunctionDef.decorator_list.n; i++)
        if (acts(impure, s->FunctionDef.decorator_list.at[i])) namespace_get(t->fr, t->ns, s->FunctionDef.name);
      return HOW_NEXT;
    case NODE_CLASS_DEF: namespace_bind(t->ns, s->ClassDef.name, NULL, s); return HOW_NEXT;
    case NODE_IMPORT:
    case NODE_IMPORT_FROM:
      bind_imports(t, s);
      if (!module_missing(t, s)) return HOW_NEXT;
      front_project(t->fr)->raised = "ModuleNotFoundError";
      return HOW_RAISE;
    case NODE_IF: {
      const Py *test = host_eval(t->fr, &t->sc, s->If.test);
      int truth = py_truth_known(test);
      if (raised(t)) return HOW_RAISE;
      if (truth < 0) return run_both(t, s, py_describe(t->fr, test));
      return run_list(t, truth ? &s->If.body : &s->If.orelse);
    }
    case NODE_TRY: return run_try(t, s);
    case NODE_WITH:
      for (int i = 0; i < s->With.items.n; i++)
        if (s->With.items.at[i]->withitem.optional_vars)
          host_assign(t->fr, &t->sc, s->With.items.at[i]->withitem.optional_vars,
                      py_unknown(t->fr, "what `with` opens"));
      return run_list(t, &s->With.body);
    case NODE_EXPR: return t->tries || acts(impure, s->Expr.value) ? run_leaf(t, s) : HOW_NEXT;
    default: return run_leaf(t, s);
  }
}

static How run_list(Top *t, const NodeList *list) {
  for (int i = 0; i < list->n; i++) {
    How how = run_one(t, list->at[i]);
    if (how != HOW_NEXT) return how;
  }
  return HOW_NEXT;
}

void host_run(Front *fr, Namespace *ns) {
  Module *m = namespace_module(ns);
  int now = m->now;
  Top t = {fr, ns, {.names = map_create(fr->cx->arena, false), .ns = ns, .top = true}};
  const NodeList *body = namespace_body(ns);
  for (int i = 0; i < body->n; i++) run_one(&t, body->at[i]); /* an exception ends a file; what follows is bound, too */
  namespace_line(ns, INT_MAX);
  m->now = now;
}
