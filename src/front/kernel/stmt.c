/* Statements of a kernel's body.
 *
 * core_exec runs a list of statements. A statement that may have returned, under a run-time condition, has to run what
 * follows it itself, inside a region: such statements get the rest of the list as a `Rest` (control.c). */
#include "front/core.h"

enum { MAX_STATEMENTS = 200000 };

typedef struct ListRest {
  Rest rest;
  const NodeList *list;
  int from;
} ListRest;

static Flow run_list(Front *fr, Rest *rest, bool tail) {
  ListRest *r = (ListRest *)rest;
  regions_after(fr, r->list, r->from - 1);
  return core_exec(fr, r->list, r->from, tail);
}

static NORETURN void unsupported(Front *fr, const Node *n, const char *what, const char *hint) {
  if (hint) fail_hint(fr->cx, core_span(fr, n), hint, "%s cannot be used in a kernel", what);
  fail(fr->cx, core_span(fr, n), "%s cannot be used in a kernel", what);
}

bool core_is_constexpr_annotation(Front *fr, Node *annotation) {
  const char *name = namespace_dotted(fr, core_of(fr)->frame->ns, annotation);
  size_t n = name ? strlen(name) : 0;
  return n >= 9 && !strcmp(name + n - 9, "constexpr");
}

static void declare_constexpr(Front *fr, Node *target, Py *value, const Node *where) {
  Frame *f = core_of(fr)->frame;
  const char *name = target->Name.id;
  Binding *old = scope_find(&f->scope, name);
  if (old && old->value &&
      !(old->is_declared && old->where == where)) /* the same line again: the next turn of a static_range */
    fail_hint(fr->cx, core_span(fr, target), "give the constant a name of its own",
              "`%s` is defined already; a constexpr cannot be assigned again", name);
  scope_set(fr, name, value, where);
  scope_find(&f->scope, name)->is_declared = true;
}

static bool take_pending(Frame *f, const char *name) {
  for (int i = 0; i < f->pending.n; i++)
    if (f->pending.at[i] == name) {
      f->pending.at[i] = f->pending.at[--f->pending.n];
      return true;
    }
  return false;
}

void core_assign(Front *fr, Node *target, Py *value) {
  Context *cx = fr->cx;
  Span at = core_span(fr, target);
  switch (target->kind) {
    case NODE_NAME: {
      Frame *f = core_of(fr)->frame;
      if (f->pending.n && take_pending(f, target->Name.id)) declare_constexpr(fr, target, value, target);
      else scope_set(fr, target->Name.id, front_demote(fr, at, value), target);
      return;
    }
    case NODE_TUPLE:
    case NODE_LIST: {
      int n = target->Tuple.elts.n;
      if (value->kind != PY_TUPLE) fail(cx, at, "%s cannot be unpacked into %d names", py_describe(fr, value), n);
      if (value->tuple.n < n) fail(cx, at, "%d values cannot be unpacked into %d names", value->tuple.n, n);
      for (int i = 0; i < n; i++) core_assign(fr, target->Tuple.elts.at[i], value->tuple.at[i]);
      return;
    }
    case NODE_STARRED: unsupported(fr, target, "a starred target", "slice the tuple instead");
    case NODE_SUBSCRIPT:
      fail_hint(cx, at, "tensors are values; use tl.where to build a changed one, or tl.store to write to memory",
                "an item cannot be assigned");
    case NODE_ATTRIBUTE: fail(cx, at, "an attribute cannot be assigned in a kernel");
    default: fail(cx, at, "this cannot be assigned to");
  }
}

static void exec_assign(Front *fr, Node *n) {
  if (n->Assign.targets.n != 1) unsupported(fr, n, "multiple assignment (a = b = c)", "write one assignment a line");
  Py *v = core_eval(fr, n->Assign.value);
  core_at(fr, n);
  core_assign(fr, n->Assign.targets.at[0], v);
}

static void exec_ann_assign(Front *fr, Node *n) {
  Node *target = n->AnnAssign.target;
  bool is_constexpr = core_is_constexpr_annotation(fr, n->AnnAssign.annotation);
  if (!n->AnnAssign.value) {
    if (is_constexpr && target->kind == NODE_NAME)
      vec_push(fr->cx->arena, &core_of(fr)->frame->pending, target->Name.id);
    return;
  }
  Py *v = core_eval(fr, n->AnnAssign.value);
  core_at(fr, n);
  if (is_constexpr && target->kind == NODE_NAME) declare_constexpr(fr, target, v, n);
  else core_assign(fr, target, v);
}

static void exec_aug_assign(Front *fr, Node *n) {
  Node *target = n->AugAssign.target;
  if (target->kind != NODE_NAME) core_assign(fr, target, py_none(fr)); /* says why not */
  Node load = {.kind = NODE_NAME, .span = target->span};
  load.Name.id = target->Name.id;
  Node *load_node = arena_copy(fr->cx->arena, &load, sizeof load); /* spans of operations may point into it */
  Py *old = core_lookup(fr, load_node), *v = core_eval(fr, n->AugAssign.value);
  core_at(fr, n);
  core_assign(fr, target, core_binary(fr, core_span(fr, n), n->AugAssign.op, old, v));
}

static void exec_expression(Front *fr, Node *n) {
  Node *e = n->Expr.value;
  if (e->kind == NODE_CONSTANT) return; /* docstrings, ... */
  if (e->kind != NODE_CALL) {
    core_eval(fr, e);
    return;
  }
  Py *callee = core_eval(fr, e->Call.func);
  if (callee->kind == PY_BUILTIN && (callee->builtin.b->flags & BUILTIN_MUST_USE)) {
    const char *name = callee->builtin.b->name;
    fail_hint(fr->cx, core_span(fr, e),
              arena_printf(fr->cx->arena, "tl.%s returns the new value: write p = tl.%s(p, ...)", name, name),
              "the result of tl.%s is not used", name);
  }
  Call *call = core_make_call(fr, e);
  core_at(fr, e);
  front_call(fr, callee, call);
}

static Flow exec_return(Front *fr, Node *n) {
  Frame *f = core_of(fr)->frame;
  if (f->loop_depth)
    fail_hint(fr->cx, core_span(fr, n), "carry a flag out of the loop, or use tl.static_range",
              "`return` cannot stand inside a run-time `for` or `while`");
  if (f->no_return) unsupported(fr, n, "`return` inside `with`", NULL);
  Flow flow = {.kind = FLOW_RETURNS, .where = n};
  flow.value = n->Return.value ? core_eval(fr, n->Return.value) : py_none(fr);
  return flow;
}

static void exec_assert(Front *fr, Node *n) {
  if (!core_of(fr)->debug) return;
  Py *device_assert = builtin_lookup(fr, "triton.language", "device_assert");
  Py *args[2] = {core_eval(fr, n->Assert.test), n->Assert.msg ? core_eval(fr, n->Assert.msg) : py_str(fr, "")};
  core_at(fr, n);
  front_call_values(fr, device_assert, core_span(fr, n), 2, args);
}

static Flow exec_with(Front *fr, Node *n) {
  for (int i = 0; i < n->With.items.n; i++) { /* profiler scopes: nothing else to do on entry and exit */
    Node *item = n->With.items.at[i];
    if (item->withitem.optional_vars) core_assign(fr, item->withitem.optional_vars, py_none(fr));
  }
  Frame *f = core_of(fr)->frame;
  bool outer = f->no_return;
  f->no_return = true;
  int regions = regions_with(fr, n);
  Flow flow = core_exec(fr, &n->With.body, 0, false);
  regions_leave(fr, n, regions);
  f->no_return = outer;
  return flow;
}

static Flow exec_statement(Front *fr, Node *n, Rest *rest, bool tail) {
  Flow falls = {.kind = FLOW_FALLS};
  core_at(fr, n);
  if (++core_of(fr)->statements > MAX_STATEMENTS)
    fail_hint(fr->cx, core_span(fr, n), "use range instead of tl.static_range",
              "the kernel unrolls to more than %d statements", MAX_STATEMENTS);
  switch (n->kind) {
    case NODE_EXPR: exec_expression(fr, n); return falls;
    case NODE_ASSIGN: exec_assign(fr, n); return falls;
    case NODE_ANN_ASSIGN: exec_ann_assign(fr, n); return falls;
    case NODE_AUG_ASSIGN: exec_aug_assign(fr, n); return falls;
    case NODE_RETURN: return exec_return(fr, n);
    case NODE_IF: return core_if(fr, n, rest, tail);
    case NODE_FOR: return core_for(fr, n, rest, tail);
    case NODE_WHILE: core_while(fr, n); return falls;
    case NODE_ASSERT: exec_assert(fr, n); return falls;
    case NODE_WITH: return exec_with(fr, n);
    case NODE_PASS: return falls;
    case NODE_FUNCTION_DEF: unsupported(fr, n, "a function definition", "define it outside, under @triton.jit");
    case NODE_CLASS_DEF: unsupported(fr, n, "a class definition", NULL);
    case NODE_BREAK: unsupported(fr, n, "`break`", "use `while` with a condition, or a mask");
    case NODE_CONTINUE: unsupported(fr, n, "`continue`", "put the rest of the body under an `if`");
    case NODE_TRY:
    case NODE_TRY_STAR: unsupported(fr, n, "`try`", NULL);
    case NODE_RAISE: unsupported(fr, n, "`raise`", "use tl.static_assert or tl.device_assert");
    case NODE_DELETE: unsupported(fr, n, "`del`", NULL);
    case NODE_GLOBAL:
    case NODE_NONLOCAL: unsupported(fr, n, "`global` and `nonlocal`", "pass values as arguments and return them");
    case NODE_IMPORT:
    case NODE_IMPORT_FROM: unsupported(fr, n, "`import`", "import at the top of the file");
    case NODE_MATCH: unsupported(fr, n, "`match`", "use `if`");
    default: unsupported(fr, n, arena_printf(fr->cx->arena, "%s", node_name(n->kind)), NULL);
  }
}

Flow core_exec(Front *fr, const NodeList *list, int from, bool tail) {
  for (int i = from; i < list->n; i++) {
    ListRest rest = {{run_list, i + 1 >= list->n && !regions_follow(fr, list, i)}, list, i + 1};
    regions_at(fr, list, i);
    Flow flow = exec_statement(fr, list->at[i], &rest.rest, tail);
    if (flow.kind != FLOW_FALLS || flow.rest_done) return flow;
    regions_after(fr, list, i);
  }
  regions_at(fr, list, list->n);
  return (Flow){.kind = FLOW_FALLS};
}
