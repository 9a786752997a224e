/* Statements of a kernel's body.
 *
 * core_exec runs a list of statements. A statement that may have returned, under a run-time condition, has to run what
 * follows it itself, inside a region: such statements get the rest of the list as a `Rest` (branches.c). */
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

static void exec_assign(Front *fr, Node *n) {
  if (n->Assign.targets.n != 1)
    diag_fail_hint(fr->cx, core_span(fr, n), "write one assignment a line",
                   "Simultaneous multiple assignment is not supported");
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
  core_check_annotation(fr, n->AnnAssign.annotation);
  Py *v = core_eval(fr, n->AnnAssign.value);
  core_at(fr, n);
  if (is_constexpr && target->kind == NODE_NAME) core_declare_constexpr(fr, target, v, n);
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

static const char *callee_text(Front *fr, const Node *n) {
  stack_guard();
  if (n->kind == NODE_NAME) return n->Name.id;
  if (n->kind != NODE_ATTRIBUTE) return "this call";
  return arena_printf(fr->cx->arena, "%s.%s", callee_text(fr, n->Attribute.value), n->Attribute.attr);
}

/* A call as a statement of its own, of a function that says its result must be used. */
static void check_used(Front *fr, Node *call, const Py *callee) {
  Span at = core_span(fr, call);
  const char *name = callee_text(fr, call->Call.func);
  if (callee->kind == PY_BUILTIN && (callee->builtin.b->flags & BUILTIN_MUST_USE)) {
    const char *hint = "it returns the new value: write p = tl.advance(p, ...)";
    if (!callee->builtin.self) diag_fail_hint(fr->cx, at, hint, "The result of %s is not being used", name);
    diag_warn(fr->cx, at, "The result of %s is not being used: %s", name, hint); /* Triton says nothing of the method */
  }
  const Function *fn = callee->kind == PY_FUNCTION ? callee->fn : callee->kind == PY_METHOD ? callee->method.fn : NULL;
  if (fn && fn->must_use)
    diag_fail(fr->cx, at, "The result of %s is not being used.%s%s", name, fn->must_use[0] ? " " : "", fn->must_use);
}

static void exec_expression(Front *fr, Node *n) {
  Node *e = n->Expr.value;
  if (e->kind == NODE_CONSTANT) return; /* docstrings, ... */
  if (e->kind != NODE_CALL) {
    core_eval(fr, e);
    return;
  }
  Py *callee = core_eval(fr, e->Call.func);
  check_used(fr, e, callee);
  Call *call = core_make_call(fr, e);
  core_at(fr, e);
  front_call(fr, callee, call);
}

/* Can it be returned? Constexprs can; a type that is one only by its name, as in `return tl.float32`, is none. */
static bool is_returnable(Front *fr, Node *n, const Py *v) {
  stack_guard();
  if (n->kind == NODE_IF_EXP) return is_returnable(fr, n->IfExp.body, v) && is_returnable(fr, n->IfExp.orelse, v);
  switch (v->kind) {
    case PY_VOID:
    case PY_MODULE:
    case PY_LIBRARY:
    case PY_RANGE:
    case PY_SLICE:
    case PY_CONSTEXPR_TYPE: return false;
    case PY_TYPE: return !core_is_bare_type(fr, n, v);
    case PY_TUPLE:
      for (int i = 0; i < v->tuple.n; i++) {
        bool own = (n->kind == NODE_TUPLE || n->kind == NODE_LIST) && n->Tuple.elts.n == v->tuple.n;
        if (!is_returnable(fr, own ? n->Tuple.elts.at[i] : n, v->tuple.at[i])) return false;
      }
      return true;
    default: return true;
  }
}

static Flow exec_return(Front *fr, Node *n) {
  Frame *f = core_of(fr)->frame;
  if (f->loop_depth)
    diag_fail_hint(fr->cx, core_span(fr, n), "carry a flag out of the loop, or use tl.static_range",
                   "Cannot have `return` statements inside `while` or `for` statements in triton");
  if (f->no_return)
    diag_fail(fr->cx, core_span(fr, n), "Cannot have `return` statements inside `with` statements in triton");
  Flow flow = {.kind = FLOW_RETURNS, .where = n};
  flow.value = n->Return.value ? core_eval(fr, n->Return.value) : py_none(fr);
  if (n->Return.value && !is_returnable(fr, n->Return.value, flow.value))
    diag_fail_hint(fr->cx, core_span(fr, n->Return.value),
                   flow.value->kind == PY_VOID ? "write the call and `return` as two lines"
                                               : "pass types as tl.constexpr parameters: those can be returned",
                   "`return` takes tensors and constexprs, not %s", py_describe(fr, flow.value));
  return flow;
}

/* Without debug nothing is checked, but Triton walks the condition and the message all the same. */
static void exec_assert(Front *fr, Node *n) {
  Builder outer = fr->b;
  if (!core_of(fr)->debug) { /* a block that is dropped */
    fr->b.block = block_create(fr->func, NULL);
    fr->b.before = NULL;
  }
  Py *device_assert = builtin_lookup(fr, "triton.language", "device_assert");
  Py *args[2] = {core_eval(fr, n->Assert.test), n->Assert.msg ? core_eval(fr, n->Assert.msg) : py_str(fr, "")};
  core_at(fr, n);
  front_call_values(fr, device_assert, core_span(fr, n), 2, args);
  if (!core_of(fr)->debug) fr->b = outer;
}

static Flow exec_with(Front *fr, Node *n) {
  for (int i = 0; i < n->With.items.n; i++) { /* profiler scopes: nothing else to do on entry and exit */
    Node *item = n->With.items.at[i];
    if (item->withitem.context_expr->kind != NODE_CALL)
      diag_fail(fr->cx, core_span(fr, item->withitem.context_expr),
                "a kernel's `with` takes calls of context managers, such as triton.profiler.language.scope(\"name\")");
    const Py *manager = core_eval(fr, item->withitem.context_expr->Call.func);
    if (manager->kind != PY_BUILTIN || strcmp(manager->builtin.b->library, "triton.profiler.language"))
      diag_fail(fr->cx, core_span(fr, item->withitem.context_expr), "%s is no context manager",
                py_describe(fr, manager));
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
  stack_guard();
  Flow falls = {.kind = FLOW_FALLS};
  core_at(fr, n);
  if (++core_of(fr)->statements > MAX_STATEMENTS)
    diag_fail_hint(fr->cx, core_span(fr, n), "use range instead of tl.static_range",
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
    case NODE_FUNCTION_DEF:
      diag_fail_hint(fr->cx, core_span(fr, n), "define it outside, under @triton.jit",
                     "nested function definition is not supported");
    case NODE_CLASS_DEF: core_unsupported(fr, n, "a class definition", NULL);
    case NODE_BREAK: core_unsupported(fr, n, "`break`", "use `while` with a condition, or a mask");
    case NODE_CONTINUE: core_unsupported(fr, n, "`continue`", "put the rest of the body under an `if`");
    case NODE_TRY:
    case NODE_TRY_STAR: core_unsupported(fr, n, "`try`", NULL);
    case NODE_RAISE: core_unsupported(fr, n, "`raise`", "use tl.static_assert or tl.device_assert");
    case NODE_DELETE: core_unsupported(fr, n, "`del`", NULL);
    case NODE_GLOBAL:
    case NODE_NONLOCAL: core_unsupported(fr, n, "`global` and `nonlocal`", "pass values as arguments and return them");
    case NODE_IMPORT:
    case NODE_IMPORT_FROM: core_unsupported(fr, n, "`import`", "import at the top of the file");
    case NODE_MATCH: core_unsupported(fr, n, "`match`", "use `if`");
    default: core_unsupported(fr, n, arena_printf(fr->cx->arena, "%s", node_name(n->kind)), NULL);
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
