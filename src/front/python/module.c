/* Files and their names.
 *
 * A file is parsed whole and nothing of it is run. Every name that its top level binds gets an entry with the
 * statements that may bind it, in order; asking for the name evaluates the last one that counts, once:
 *
 *     try:                                    rsqrt   from ... import   counts unless an import of the `try` body is
 *                                                                       missing
 *         from libdevice import rsqrt                 from ... import   counts if one is
 *     except ImportError:
 *         from math import rsqrt
 *     if torch.version.hip: W = 64            W       = 64              counts if the test is true
 *     else: W = 32                                    = 32              counts if the test is false
 *
 * Where a test cannot be known, both count: a name that they bind to one value, or that one of them alone binds, is
 * that; any other is unknown, and says of which test.
 *
 * Where statements change what names are bound to (CONFIGS.append(x), for, a call of a function with `global`), the top
 * level is run in order instead, once, when a name is first asked for (toplevel.c). Each name then has its moments:
 * what it was bound to, in which line.
 *
 * A statement sees the bindings above it: evaluating one sets the file's `now` to its line. Functions see what their
 * caller sees. While a binding is being evaluated its own name means the binding before it (x = x + 1). The same
 * machinery serves functions around a kernel (their parameters are known if they have defaults) and class bodies. */
#include "front/core.h"

/* If: 0 body, 1 else; Try: 0 body, 1 handlers */
typedef struct Guard {
  Node *stmt;
  int branch;
  const struct Guard *up;
} Guard;

typedef enum { DEF_FUNCTION, DEF_CLASS, DEF_ASSIGN, DEF_AUG, DEF_IMPORT, DEF_FROM, DEF_PARAM, DEF_LOOP } DefKind;

typedef struct Def {
  DefKind kind;
  Node *stmt;  /* ASSIGN: Assign or AnnAssign; PARAM: the default, or NULL; LOOP: what binds it when it is run */
  Node *alias; /* imports */
  const Guard *guard;
  Py *value;  /* once evaluated */
  bool going; /* a star that is being searched */
} Def;

typedef struct Entry {
  const char *name;
  VEC(Def *) defs;
  int limit;
  bool busy, done;
  Py *value;
} Entry;

/* What running the top level has bound a name to, the latest first. */
typedef struct Moment {
  int line;
  Py *value; /* NULL: what this statement binds it to, evaluated when somebody asks */
  const Node *stmt;
  const struct Moment *before;
} Moment;

typedef enum { RUN_UNASKED, RUN_NOT_NEEDED, RUN_GOING, RUN_DONE } Run;

struct Namespace {
  Module *module;
  Namespace *parent;
  Node *owner; /* FunctionDef, ClassDef; NULL: the file */
  Map *entries;
  VEC(Def *) stars; /* from x import * */
  Map *tests;       /* If or Try statement -> (void *) of a Counts */
  Map *why;         /* If -> the text of its test, which cannot be known */
  Map *values;      /* statement -> Py of its right side */
  const NodeList *body;
  Run run;
  int line;     /* of the statement that runs */
  Map *moments; /* name -> Moment */
};

Module *namespace_module(const Namespace *ns) { return ns->module; }
const NodeList *namespace_body(const Namespace *ns) { return ns->body; }
Map *namespace_values(const Namespace *ns) { return ns->values; }
Namespace *namespace_file(Namespace *ns) { return ns->module->globals; }

/* ---- collecting -------------------------------------------------------------------------------------------------- */

static Arena *arena_of(const Namespace *ns) { return ns->module->cx->arena; }

static Def *add(Namespace *ns, const char *name, DefKind kind, Node *stmt, Node *alias, const Guard *guard) {
  Entry *e = map_get(ns->entries, name);
  if (!e) {
    e = NEW(arena_of(ns), Entry);
    e->name = name;
    map_put(ns->entries, name, e);
  }
  Def *d = NEW(arena_of(ns), Def);
  *d = (Def){.kind = kind, .stmt = stmt, .alias = alias, .guard = guard};
  vec_push(arena_of(ns), &e->defs, d);
  return d;
}

static void add_targets(Namespace *ns, Node *target, Node *stmt, const Guard *guard) {
  stack_guard();
  switch (target->kind) {
    case NODE_NAME: add(ns, target->Name.id, DEF_ASSIGN, stmt, NULL, guard); break;
    case NODE_TUPLE:
    case NODE_LIST: /* one layout for both */
      for (int i = 0; i < target->Tuple.elts.n; i++) add_targets(ns, target->Tuple.elts.at[i], stmt, guard);
      break;
    case NODE_STARRED: add_targets(ns, target->Starred.value, stmt, guard); break;
    default: break;
  }
}

typedef struct LoopWalk {
  Namespace *ns;
  Node *stmt;
  const Guard *guard;
} LoopWalk;

static void find_bound(void *arg, Node *n) { /* every name that a loop binds */
  LoopWalk *w = arg;
  if (n->kind == NODE_NAME && n->Name.ctx == CTX_STORE) add(w->ns, n->Name.id, DEF_LOOP, w->stmt, NULL, w->guard);
  if (n->kind == NODE_FUNCTION_DEF || n->kind == NODE_CLASS_DEF || n->kind == NODE_LAMBDA) return;
  node_children(n, find_bound, arg);
}

static const Guard *guarded(Namespace *ns, Node *stmt, int branch, const Guard *up) {
  Guard *g = NEW(arena_of(ns), Guard);
  *g = (Guard){stmt, branch, up};
  return g;
}

static void collect(Namespace *ns, const NodeList *body, const Guard *guard);

static void collect_statement(Namespace *ns, Node *s, const Guard *guard) {
  stack_guard();
  Context *cx = ns->module->cx;
  switch (s->kind) {
    case NODE_FUNCTION_DEF:
    case NODE_ASYNC_FUNCTION_DEF: add(ns, s->FunctionDef.name, DEF_FUNCTION, s, NULL, guard); break;
    case NODE_CLASS_DEF: add(ns, s->ClassDef.name, DEF_CLASS, s, NULL, guard); break;
    case NODE_ASSIGN:
      for (int i = 0; i < s->Assign.targets.n; i++) add_targets(ns, s->Assign.targets.at[i], s, guard);
      break;
    case NODE_ANN_ASSIGN:
      if (s->AnnAssign.value) add_targets(ns, s->AnnAssign.target, s, guard);
      break;
    case NODE_AUG_ASSIGN:
      if (s->AugAssign.target->kind == NODE_NAME) add(ns, s->AugAssign.target->Name.id, DEF_AUG, s, NULL, guard);
      else add_targets(ns, s->AugAssign.target, s, guard);
      break;
    case NODE_IMPORT:
      for (int i = 0; i < s->Import.names.n; i++) {
        Node *a = s->Import.names.at[i];
        const char *name = a->alias.asname ? a->alias.asname : intern(cx, a->alias.name, strcspn(a->alias.name, "."));
        add(ns, name, DEF_IMPORT, s, a, guard);
      }
      break;
    case NODE_IMPORT_FROM:
      for (int i = 0; i < s->ImportFrom.names.n; i++) {
        Node *a = s->ImportFrom.names.at[i];
        if (!strcmp(a->alias.name, "*")) {
          Def *d = NEW(arena_of(ns), Def);
          *d = (Def){.kind = DEF_FROM, .stmt = s, .alias = a, .guard = guard};
          vec_push(arena_of(ns), &ns->stars, d);
        } else add(ns, a->alias.asname ? a->alias.asname : a->alias.name, DEF_FROM, s, a, guard);
      }
      break;
    case NODE_IF:
      collect(ns, &s->If.body, guarded(ns, s, 0, guard));
      collect(ns, &s->If.orelse, guarded(ns, s, 1, guard));
      break;
    case NODE_TRY:
    case NODE_TRY_STAR:
      collect(ns, &s->Try.body, guarded(ns, s, 0, guard));
      collect(ns, &s->Try.orelse, guarded(ns, s, 0, guard));
      for (int i = 0; i < s->Try.handlers.n; i++)
        collect(ns, &s->Try.handlers.at[i]->ExceptHandler.body, guarded(ns, s, 1, guard));
      collect(ns, &s->Try.finalbody, guard);
      break;
    case NODE_WITH:
    case NODE_ASYNC_WITH: collect(ns, &s->With.body, guard); break;
    case NODE_FOR:
    case NODE_WHILE: find_bound(&(LoopWalk){ns, s, guard}, s); break;
    default: break;
  }
}

static void collect(Namespace *ns, const NodeList *body, const Guard *guard) {
  for (int i = 0; i < body->n; i++) collect_statement(ns, body->at[i], guard);
}

static void add_parameter(Namespace *ns, Node *arg, Node *def) {
  if (arg) add(ns, arg->arg.arg, DEF_PARAM, def, NULL, NULL);
}

Namespace *namespace_create(Module *m, Namespace *parent, const NodeList *body, Node *owner) {
  Namespace *ns = NEW(m->cx->arena, Namespace);
  ns->module = m;
  ns->parent = parent;
  ns->owner = owner;
  ns->entries = map_create(m->cx->arena, false);
  ns->tests = map_create(m->cx->arena, false);
  ns->why = map_create(m->cx->arena, false);
  ns->values = map_create(m->cx->arena, false);
  ns->moments = map_create(m->cx->arena, false);
  ns->body = body;
  if (owner && owner->kind == NODE_FUNCTION_DEF) {
    Node *a = owner->FunctionDef.args;
    int positional = a->arguments.posonlyargs.n + a->arguments.args.n, first = positional - a->arguments.defaults.n;
    for (int i = 0; i < positional; i++) {
      int p = i - a->arguments.posonlyargs.n;
      add_parameter(ns, p < 0 ? a->arguments.posonlyargs.at[i] : a->arguments.args.at[p],
                    i >= first ? a->arguments.defaults.at[i - first] : NULL);
    }
    for (int i = 0; i < a->arguments.kwonlyargs.n; i++)
      add_parameter(ns, a->arguments.kwonlyargs.at[i], a->arguments.kw_defaults.at[i]);
    add_parameter(ns, a->arguments.vararg, NULL);
    add_parameter(ns, a->arguments.kwarg, NULL);
  }
  collect(ns, body, NULL);
  return ns;
}

/* ---- evaluating -------------------------------------------------------------------------------------------------- */

static Py *import_of(Front *fr, Namespace *ns, const Def *d) {
  Module *m = ns->module;
  if (d->kind == DEF_IMPORT) {
    const char *dotted = d->alias->alias.name;
    if (!d->alias->alias.asname && strchr(dotted, '.')) { /* import a.b binds a */
      Py *whole = front_hooks.import_module(fr, m, dotted, 0);
      if (whole->kind == PY_UNKNOWN) return whole;
      return front_hooks.import_module(fr, m, intern(m->cx, dotted, strcspn(dotted, ".")), 0);
    }
    return front_hooks.import_module(fr, m, dotted, 0);
  }
  Py *from = front_hooks.import_module(fr, m, d->stmt->ImportFrom.module, d->stmt->ImportFrom.level);
  return front_hooks.import_name(fr, m, from, d->stmt->ImportFrom.module, d->alias->alias.name);
}

/* Do all imports at the top of a `try` body find what they name? */
static bool imports_found(Front *fr, Namespace *ns, const NodeList *body) {
  for (int i = 0; i < body->n; i++) {
    Node *s = body->at[i];
    if (s->kind != NODE_IMPORT && s->kind != NODE_IMPORT_FROM) continue;
    const NodeList *names = s->kind == NODE_IMPORT ? &s->Import.names : &s->ImportFrom.names;
    for (int k = 0; k < names->n; k++) {
      Def d = {.kind = s->kind == NODE_IMPORT ? DEF_IMPORT : DEF_FROM, .stmt = s, .alias = names->at[k]};
      if (!strcmp(d.alias->alias.name, "*")) {
        if (front_hooks.import_module(fr, ns->module, s->ImportFrom.module, s->ImportFrom.level)->kind == PY_UNKNOWN)
          return false;
      } else {
        Py *v = import_of(fr, ns, &d);
        if (v->kind == PY_UNKNOWN && !strncmp(v->library, "module ", 7)) return false;
      }
    }
  }
  return true;
}

typedef enum { COUNTS_UNASKED, COUNTS_NO, COUNTS_YES, COUNTS_MAYBE } Counts;

static Counts branch_counts(Front *fr, Namespace *ns, const Guard *g) {
  Counts memo = (Counts)(uintptr_t)map_get(ns->tests, g->stmt);
  if (!memo) {
    map_put(ns->tests, g->stmt, (void *)(uintptr_t)COUNTS_YES); /* while it is being evaluated: as if it were true */
    if (g->stmt->kind == NODE_IF) {
      const Py *test = front_hooks.host_eval_at(fr, ns, g->stmt->If.test, g->stmt->span.line);
      int truth = py_truth_known(test);
      memo = truth < 0 ? COUNTS_MAYBE : truth ? COUNTS_YES : COUNTS_NO;
      if (truth < 0) map_put(ns->why, g->stmt, (void *)py_describe(fr, test));
    } else memo = imports_found(fr, ns, &g->stmt->Try.body) ? COUNTS_YES : COUNTS_NO;
    map_put(ns->tests, g->stmt, (void *)(uintptr_t)memo);
  }
  if (memo == COUNTS_MAYBE) return memo;
  return (memo == COUNTS_YES) == (g->branch == 0) ? COUNTS_YES : COUNTS_NO;
}

static Counts counts(Front *fr, Namespace *ns, const Guard *g) {
  Counts all = COUNTS_YES;
  for (; g; g = g->up) {
    Counts c = branch_counts(fr, ns, g);
    if (c == COUNTS_NO) return c;
    if (c == COUNTS_MAYBE) all = c;
  }
  return all;
}

/* Where a full name is all that is asked for, the first branch of a test that cannot be known. */
static bool counts_first(Front *fr, Namespace *ns, const Guard *g) {
  for (; g; g = g->up) {
    Counts c = branch_counts(fr, ns, g);
    if (c == COUNTS_NO || (c == COUNTS_MAYBE && g->branch)) return false;
  }
  return true;
}

/* The innermost guard from here outwards whose test cannot be known. */
static const Guard *doubtful(Front *fr, Namespace *ns, const Guard *g) {
  while (g && branch_counts(fr, ns, g) != COUNTS_MAYBE) g = g->up;
  return g;
}

Py *namespace_doubt(Front *fr, Namespace *ns, const Node *test, const char *why) {
  return py_unknown(fr, "it depends on the `if` in line %d of %s, and so on %s", test->span.line, ns->module->path,
                    why);
}

bool py_same_constant(const Py *a, const Py *b) {
  if (a->kind == PY_UNKNOWN || b->kind == PY_UNKNOWN) return a->kind == b->kind;
  return a == b || (a->kind == b->kind && a->is_constexpr == b->is_constexpr && !py_hole(a) && py_equal(a, b));
}

/* Hands the parts of a value to the defs that `stmt` made for the names in `target`. */
static void spread(Front *fr, Namespace *ns, Node *target, Node *stmt, Py *value) {
  stack_guard();
  switch (target->kind) {
    case NODE_NAME: {
      Entry *e = map_get(ns->entries, target->Name.id);
      for (int i = 0; e && i < e->defs.n; i++)
        if (e->defs.at[i]->stmt == stmt) e->defs.at[i]->value = value;
      break;
    }
    case NODE_TUPLE:
    case NODE_LIST: {
      Py *items = value->kind == PY_UNKNOWN ? value : host_iterate(fr, value);
      int n = target->Tuple.elts.n, star = -1, have = items->kind == PY_TUPLE ? items->tuple.n : 0;
      for (int i = 0; i < n; i++)
        if (target->Tuple.elts.at[i]->kind == NODE_STARRED) star = i;
      for (int i = 0; i < n; i++) {
        Py *part;
        if (items->kind != PY_TUPLE || have < (star < 0 ? n : n - 1))
          part = py_unknown(fr, "part of %s", py_describe(fr, value));
        else if (i == star) part = py_list(fr, have - (n - 1), items->tuple.at + i);
        else part = items->tuple.at[star >= 0 && i > star ? i + have - n : i];
        Node *t = target->Tuple.elts.at[i];
        spread(fr, ns, t->kind == NODE_STARRED ? t->Starred.value : t, stmt, part);
      }
      break;
    }
    default: break;
  }
}

static Py *before(Front *fr, Namespace *ns, Entry *e, int limit);

static Py *evaluate(Front *fr, Namespace *ns, Entry *e, int index) {
  stack_guard();
  Def *d = e->defs.at[index];
  if (d->value) return d->value;
  int limit = e->limit, now = ns->module->now;
  bool busy = e->busy;
  if (d->stmt && d->kind != DEF_PARAM) ns->module->now = d->stmt->span.line;
  e->limit = index;
  e->busy = true;
  Py *v = NULL;
  switch (d->kind) {
    case DEF_FUNCTION: {
      HostScope sc = {.names = map_create(fr->cx->arena, false), .ns = ns};
      v = front_hooks.apply_decorators(fr, &sc, d->stmt, front_hooks.function_value(fr, d->stmt, ns, NULL));
      break;
    }
    case DEF_CLASS: v = front_hooks.class_value(fr, d->stmt, ns); break;
    case DEF_IMPORT:
    case DEF_FROM: v = import_of(fr, ns, d); break;
    case DEF_PARAM:
      v = d->stmt ? front_hooks.host_eval_in(fr, ns->parent ? ns->parent : ns, d->stmt)
                  : py_unknown(fr, "the argument '%s'", e->name);
      break;
    case DEF_AUG: {
      Py *old = before(fr, ns, e, index);
      v = host_binary(fr, d->stmt->AugAssign.op, old ? old : py_unknown(fr, "'%s'", e->name),
                      front_hooks.host_eval_in(fr, ns, d->stmt->AugAssign.value));
      break;
    }
    case DEF_ASSIGN: {
      Node *s = d->stmt;
      Py *value = map_get(ns->values, s);
      if (!value) {
        value = front_hooks.host_eval_in(fr, ns, s->kind == NODE_ASSIGN ? s->Assign.value : s->AnnAssign.value);
        map_put(ns->values, s, value);
      }
      if (s->kind == NODE_ASSIGN)
        for (int i = 0; i < s->Assign.targets.n; i++) spread(fr, ns, s->Assign.targets.at[i], s, value);
      else spread(fr, ns, s->AnnAssign.target, s, value);
      v = d->value;
      break;
    }
    case DEF_LOOP: break;
  }
  ns->module->now = now;
  e->limit = limit;
  e->busy = busy;
  return d->value = v ? v : py_unknown(fr, "'%s'", e->name);
}

bool host_surely_raises(const Py *v) {
  return v->kind == PY_UNKNOWN && (!strncmp(v->library, "module ", 7) || !strncmp(v->library, "triton.language.", 16));
}

/* What a def gives; where a `try` surely cannot, what a handler below it does. */
static Py *given_by(Front *fr, Namespace *ns, Entry *e, int index, int limit) {
  Py *value = evaluate(fr, ns, e, index);
  const Guard *g = e->defs.at[index]->guard;
  if (!host_surely_raises(value) || !g || g->stmt->kind != NODE_TRY || g->branch) return value;
  for (int i = index + 1; i < limit; i++)
    if (e->defs.at[i]->kind != DEF_LOOP && e->defs.at[i]->guard && e->defs.at[i]->guard->stmt == g->stmt) {
      Py *other = evaluate(fr, ns, e, i);
      if (other->kind != PY_UNKNOWN) return other;
    }
  return value;
}

/* Branches of tests that cannot be known, in which a name is bound. */
typedef struct Covered {
  VEC(const Guard *) at;
} Covered;

/* Adds one; true: whatever the tests are, one of these branches is taken. */
static bool cover(Front *fr, Namespace *ns, Covered *c, const Guard *g) {
  g = doubtful(fr, ns, g);
  for (int i = 0; g && i < c->at.n; i++) {
    if (c->at.at[i]->stmt != g->stmt || c->at.at[i]->branch == g->branch) continue;
    g = doubtful(fr, ns, g->up); /* both branches: as if it stood outside of the `if` */
    i = -1;
  }
  if (g) vec_push(fr->cx->arena, &c->at, g);
  return !g;
}

/* The name's value as the statements before `limit` leave it. */
static Py *before(Front *fr, Namespace *ns, Entry *e, int limit) {
  Py *value = NULL;
  Covered covered = {0};
  const Guard *doubt = NULL;
  for (int i = limit - 1; i >= 0; i--) {
    const Def *d = e->defs.at[i];
    Counts c = d->kind == DEF_LOOP ? COUNTS_NO : counts(fr, ns, d->guard);
    if (c == COUNTS_NO) continue;
    Py *v = given_by(fr, ns, e, i, limit);
    if (c == COUNTS_MAYBE && !doubt) doubt = doubtful(fr, ns, d->guard);
    if (value && !py_same_constant(value, v))
      return namespace_doubt(fr, ns, doubt->stmt, map_get(ns->why, doubt->stmt));
    if (!value) value = v;
    if (c == COUNTS_YES || cover(fr, ns, &covered, d->guard)) break;
  }
  return value;
}

static Py *from_stars(Front *fr, Namespace *ns, const char *name) {
  for (int i = ns->stars.n - 1; i >= 0; i--) {
    Def *d = ns->stars.at[i];
    if (d->going || counts(fr, ns, d->guard) == COUNTS_NO) continue; /* a cycle of files */
    d->going = true;
    Py *from = front_hooks.import_module(fr, ns->module, d->stmt->ImportFrom.module, d->stmt->ImportFrom.level),
       *v = NULL;
    if (from->kind == PY_MODULE) v = namespace_get(fr, from->module->globals, name);
    else if (from->kind == PY_LIBRARY) v = front_hooks.library_lookup(fr, from->library, name);
    d->going = false;
    if (v && v->kind != PY_UNKNOWN) return v;
  }
  return NULL;
}

void namespace_line(Namespace *ns, int line) { ns->line = line; }

void namespace_bind(Namespace *ns, const char *name, Py *value, const Node *stmt) {
  Moment *m = NEW(arena_of(ns), Moment);
  *m = (Moment){.line = ns->line, .value = value, .stmt = stmt, .before = map_get(ns->moments, name)};
  map_put(ns->moments, name, m);
}

bool namespace_bound(const Namespace *ns, const char *name) { return map_get(ns->moments, name) != NULL; }

void namespace_forget(Front *fr, Namespace *ns, const char *why) {
  for (int i = 0; i < map_count(ns->moments); i++) {
    const void *name;
    void *v;
    map_entry(ns->moments, i, &name, &v);
    const Moment *m = v;
    if (m->value && m->value->kind != PY_FUNCTION) namespace_bind(ns, name, py_unknown(fr, "%s", why), NULL);
  }
}

/* The name's value by its moments above the line `now`, or the last; NULL: by the file's text. */
static Py *at_moment(Front *fr, Namespace *ns, Entry *e, const char *name) {
  if (ns->run == RUN_UNASKED) {
    ns->run = front_hooks.host_changes(fr, ns) ? RUN_GOING : RUN_NOT_NEEDED;
    if (ns->run == RUN_GOING) front_hooks.host_run(fr, ns);
    if (ns->run == RUN_GOING) ns->run = RUN_DONE;
  }
  const Moment *m = map_get(ns->moments, name);
  int now = ns->run == RUN_DONE ? ns->module->now : 0;
  const Moment *last = m;
  while (m && now && m->line >= now) m = m->before;
  if (!m) m = last; /* Python would raise; be helpful */
  for (; m; m = m->before) {
    if (m->value) return m->value;
    int i = 0;
    while (e && i < e->defs.n && e->defs.at[i]->stmt != m->stmt) i++;
    if (!e || i == e->defs.n) return NULL;
    if (!e->busy || i < e->limit) return evaluate(fr, ns, e, i); /* else it asks for itself: what was before */
  }
  return NULL;
}

Py *namespace_get(Front *fr, Namespace *ns, const char *name) {
  stack_guard();
  Entry *e = map_get(ns->entries, name);
  Py *bound = at_moment(fr, ns, e, name);
  if (bound) return bound;
  if (!e) return from_stars(fr, ns, name);
  int limit = e->defs.n, now = ns->module->now;
  if (now) {
    while (limit > 0 && e->defs.at[limit - 1]->stmt && e->defs.at[limit - 1]->kind != DEF_PARAM &&
           e->defs.at[limit - 1]->stmt->span.line >= now)
      limit--;
    if (limit == 0) limit = e->defs.n; /* Python would raise; be helpful */
  }
  if (e->busy) return before(fr, ns, e, limit < e->limit ? limit : e->limit);
  if (limit < e->defs.n) return before(fr, ns, e, limit);
  if (e->done) return e->value;
  Py *v = before(fr, ns, e, e->defs.n);
  e->done = true;
  return e->value = v;
}

Py *namespace_lookup(Front *fr, Namespace *ns, const char *name) {
  Py *said = ns && ns->module->host ? front_hooks.ask(fr, ASK_NAME, ns->module->scope, name) : NULL;
  if (said) return said;
  Py *v = NULL;
  for (Namespace *at = ns; at && !v; at = at->parent) {
    /* class bodies are not seen from methods */
    if (at != ns && at->owner && at->owner->kind == NODE_CLASS_DEF) continue;
    v = namespace_get(fr, at, name);
  }
  if (v && v->kind == PY_UNKNOWN && !ns->module->host) { /* of an imported file: the host may know what it does not */
    const Module *first = ns->module->project->fr->module;
    said = first && first->host ? front_hooks.ask(fr, ASK_NAME, first->scope, name) : NULL;
  }
  if (said || v) return said ? said : v;
  if (ns && !strcmp(name, "__name__")) return py_str(fr, ns->module->name);
  if (ns && !strcmp(name, "__file__")) return py_str(fr, ns->module->path);
  return NULL;
}

void namespace_names(Front *fr, Namespace *ns, Py *list) {
  for (; ns; ns = ns->parent)
    for (int i = 0; i < map_count(ns->entries); i++) {
      const void *name;
      void *e;
      map_entry(ns->entries, i, &name, &e);
      py_append(fr, list, py_str(fr, name));
    }
}

/* ---- full names -------------------------------------------------------------------------------------------------- */

static const char *dotted_within(Front *fr, Namespace *ns, const Node *n, int depth) {
  stack_guard();
  Arena *a = fr->cx->arena;
  if (depth > 20) return NULL;
  if (n->kind == NODE_CONSTANT && n->Constant.value.kind == CONST_STR) return n->Constant.value.text;
  if (n->kind == NODE_ATTRIBUTE) {
    const char *base = dotted_within(fr, ns, n->Attribute.value, depth + 1);
    return base ? arena_printf(a, "%s.%s", base, n->Attribute.attr) : NULL;
  }
  if (n->kind != NODE_NAME) return NULL;
  const Py *said = ns->module->host ? front_hooks.ask(fr, ASK_NAME, ns->module->scope, n->Name.id) : NULL;
  if (said && said->kind == PY_LIBRARY) return said->library;
  if (said && said->kind == PY_BUILTIN)
    return arena_printf(a, "%s.%s", said->builtin.b->library, said->builtin.b->name);
  if (said) return said->kind == PY_CONSTEXPR_TYPE ? "triton.language.constexpr" : n->Name.id;
  Entry *e = NULL;
  Namespace *at = ns;
  for (; at && !e; at = e ? at : at->parent) e = map_get(at->entries, n->Name.id);
  if (!e) {
    for (at = ns; at; at = at->parent) {
      Py *v = from_stars(fr, at, n->Name.id);
      if (v && v->kind == PY_BUILTIN) return arena_printf(a, "%s.%s", v->builtin.b->library, v->builtin.b->name);
      if (v && v->kind == PY_CONSTEXPR_TYPE) return "triton.language.constexpr";
    }
    return n->Name.id;
  }
  Def *d = e->defs.at[e->defs.n - 1];
  for (int i = e->defs.n - 1; i >= 0; i--)
    if (counts_first(fr, at, e->defs.at[i]->guard)) {
      d = e->defs.at[i];
      break;
    }
  if (d->kind == DEF_IMPORT) return d->alias->alias.asname ? d->alias->alias.name : n->Name.id;
  if (d->kind == DEF_FROM) {
    Node *s = d->stmt;
    if (!s->ImportFrom.level && s->ImportFrom.module && front_hooks.library_path(fr, s->ImportFrom.module))
      return arena_printf(a, "%s.%s", s->ImportFrom.module, d->alias->alias.name);
    Py *from = front_hooks.import_module(fr, ns->module, s->ImportFrom.module, s->ImportFrom.level);
    if (from->kind == PY_MODULE) {
      Node name = {.kind = NODE_NAME};
      name.Name.id = d->alias->alias.name;
      return dotted_within(fr, from->module->globals, &name, depth + 1);
    }
    return arena_printf(a, "%s.%s", s->ImportFrom.module ? s->ImportFrom.module : "", d->alias->alias.name);
  }
  if (d->kind == DEF_ASSIGN && d->stmt->kind == NODE_ASSIGN && d->stmt->Assign.targets.n == 1 &&
      d->stmt->Assign.targets.at[0]->kind == NODE_NAME) {
    Node *value = d->stmt->Assign.value;
    if (value->kind == NODE_NAME && value->Name.id == n->Name.id) return n->Name.id;
    if (value->kind == NODE_NAME || value->kind == NODE_ATTRIBUTE) return dotted_within(fr, at, value, depth + 1);
  }
  return n->Name.id;
}

const char *namespace_dotted(Front *fr, Namespace *ns, const Node *n) { return dotted_within(fr, ns, n, 0); }

/* ---- files ------------------------------------------------------------------------------------------------------- */

Module *module_from_source(Project *p, Source *src, const char *path, const char *name) {
  Module *m = NEW(p->cx->arena, Module);
  m->cx = p->cx;
  m->project = p;
  m->path = arena_strdup(p->cx->arena, path);
  m->name = arena_strdup(p->cx->arena, name);
  m->source = src;
  m->tree = parse_module(p->cx, src);
  m->globals = namespace_create(m, NULL, &m->tree->Module.body, NULL);
  map_put(p->modules, m->path, m);
  return m;
}

Module *module_load(Project *p, const char *path, const char *name) {
  Module *m = map_get(p->modules, path);
  if (m) return m;
  Source *src = source_from_file(p->cx, path);
  return src ? module_from_source(p, src, path, name) : NULL;
}
