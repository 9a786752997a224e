/* Run-time `if` and early return.
 *
 * Both branches of a run-time `if` are walked, each in a copy of the scope and into a block of its own; then the scopes
 * are compared by Triton's rules (docs/reference/language.md): a name survives if it was there before or both branches
 * assign it, and its type must be the same everywhere.
 *
 * The IR's control flow is structured, so `return` under a run-time condition moves what follows into the other branch:
 *
 *     if n == 0: return               if (n == 0) { }
 *     rest                            else { rest }
 *
 * Where both branches may go on, or the statement stands inside another `if`, the regions also yield a flag "has
 * returned" (and the value returned, and the names that what follows needs), and the rest is put under `if (flag) {}
 * else { rest }`. In tail position, where nothing follows, neither flag nor names are needed. */
#include "front/kernel/join.h"

static Value *zero_of(Front *fr, const Type *t) {
  if (!t->ptr) return build_int(&fr->b, t, 0);
  return build_bitcast(&fr->b, build_int(&fr->b, type_with_elem(fr->cx, t, type_number(fr->cx, DT_I64)), 0),
                       type_elem(fr->cx, t));
}

static Py *zero_like(Front *fr, Block *block, const Py *like) { /* stands where control never gets to */
  Value **parts = NULL;
  int n = 0, used = 0;
  py_flatten(fr, like, &parts, &n);
  Builder keep = fr->b;
  fr->b.block = block;
  fr->b.before = NULL;
  for (int i = 0; i < n; i++) parts[i] = zero_of(fr, parts[i]->type);
  fr->b = keep;
  return py_unflatten(fr, like, parts, &used);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool assigned(const Binding *now, const Binding *then) { return now && (!then || now->stamp != then->stamp); }

static Span binding_span(Front *fr, const Binding *b, const Node *otherwise) {
  return core_span(fr, b && b->where ? b->where : otherwise);
}

static NORETURN void fail_redefined(Front *fr, const Node *n, const Binding *before, const Binding *now,
                                    const char *branch) {
  Context *cx = fr->cx;
  const char *name = before->name;
  Span at = binding_span(fr, now, n);
  if (!py_is_runtime(before->value))
    diag_fail_hint(
        cx, at,
        arena_printf(cx->arena, "a plain assignment before the `if` makes it a run-time value: %s = %s", name, name),
        "`%s` is the constexpr %s and cannot be changed inside a run-time `if`", name, py_describe(fr, before->value));
  diag_fail_hint(cx, at, "both branches must leave the type that the name had before",
                 "initial value for `%s` is of type %s, but the %s block redefines it as %s", name,
                 py_describe(fr, before->value), branch, now->value ? py_describe(fr, now->value) : "undefined");
}

typedef struct NameMerge {
  const char *name;
  const Node *where;
  Merge merge;
} NameMerge;
typedef VEC(NameMerge) NameMerges;

/* Triton asks both values for their types; None, a dtype and the void of a store have none. */
static void check_has_type(Front *fr, const Node *n, const Binding *b) {
  if (b->value->kind != PY_NONE && b->value->kind != PY_VOID && b->value->kind != PY_TYPE) return;
  diag_fail_hint(fr->cx, binding_span(fr, b, n), "assign it once, before the `if`",
                 "'%s' object has no attribute 'type': a run-time `if` cannot give `%s` the value %s",
                 b->value->kind == PY_TYPE ? "dtype" : "NoneType", b->name, py_describe(fr, b->value));
}

static void lose(Front *fr, Scope *after, const char *name, const char *why) {
  Frame *f = core_of(fr)->frame;
  Scope keep = f->scope;
  f->scope = *after;
  scope_undefine(fr, name, why);
  *after = f->scope;
  f->scope = keep;
}

/* Compares what the branches did with each name (Triton's rules); the names to carry out go to `out`, those that are
 * lost are undefined in `after`, which starts as a copy of `before`. `check_only`: nothing is carried, the rules alone
 * are applied. */
static void merge_names(Join *j, const Node *n, Scope *before, Scope *then, Scope *other, Scope *after, NameMerges *out,
                        bool check_only) {
  Front *fr = j->fr;
  Context *cx = fr->cx;
  Arena *arena = cx->arena;
  for (int i = 0; i < before->n; i++) {
    Binding *old = &before->at[i];
    if (!old->value) continue;
    Binding *a = scope_find(then, old->name), *b = scope_find(other, old->name);
    bool in_a = assigned(a, old), in_b = assigned(b, old);
    if (!in_a && !in_b) continue;
    if ((a && a->is_declared && in_a) || (b && b->is_declared && in_b)) continue;
    if ((in_a && !a->value) || (in_b && !b->value)) { /* a loop variable after its loop */
      lose(fr, after, old->name, (in_a && !a->value ? a : b)->why);
      continue;
    }
    if (!py_is_runtime(old->value) && !py_is_number(old->value)) {
      bool merged = in_a && in_b && a->value && b->value && py_same_type(a->value, b->value);
      if (!merged) { /* None or a dtype: Triton keeps the old value without a word */
        if (in_a && in_b && a->value && b->value)
          diag_fail(cx, binding_span(fr, b, n), "`%s` is %s after one branch of the `if` and %s after the other",
                    old->name, py_describe(fr, a->value), py_describe(fr, b->value));
        Binding *now = in_a ? a : b;
        if (!check_only && now->value && !py_same_type(now->value, old->value))
          diag_warn(
              cx, binding_span(fr, now, n),
              "`%s` is %s before this run-time `if` and stays so after it, as in Triton: it is assigned in one branch "
              "only",
              old->name, py_describe(fr, old->value));
        continue;
      }
    } else {
      if (in_a && (!a->value || !py_same_type(a->value, old->value))) fail_redefined(fr, n, old, a, "then");
      if (in_b && (!b->value || !py_same_type(b->value, old->value))) fail_redefined(fr, n, old, b, "else");
      if (!py_is_runtime(old->value)) continue; /* the same constexpr again */
    }
    if (check_only) continue;
    NameMerge m = {old->name, in_a ? a->where : b->where, join_py(j, a->value, b->value)};
    vec_push(arena, out, m);
  }
  for (int pass = 0; pass < 2; pass++) {
    Scope *s = pass ? other : then;
    for (int i = 0; i < s->n; i++) {
      Binding *a = &s->at[i], *old = scope_find(before, a->name);
      if (!a->value || a->is_declared || (old && old->value) || !assigned(a, old)) continue;
      Binding *b = scope_find(pass ? then : other, a->name);
      bool both = b && b->value && assigned(b, old) && !b->is_declared;
      if (both) {
        if (pass) continue; /* seen from the other side */
        check_has_type(fr, n, a);
        check_has_type(fr, n, b);
        if (!py_same_type(a->value, b->value))
          diag_fail_hint(cx, binding_span(fr, b, n),
                         "a name assigned in both branches must get one type; cast one of them",
                         "Mismatched type for %s between then block (%s) and else block (%s)", a->name,
                         py_describe(fr, a->value), py_describe(fr, b->value));
        if (check_only) continue;
        NameMerge m = {a->name, a->where, join_py(j, a->value, b->value)};
        vec_push(arena, out, m);
      } else {
        lose(fr, after, a->name,
             arena_printf(arena, "it is assigned in only one branch of the `if` in line %d", n->span.line));
      }
    }
  }
}

/* ---- returned values --------------------------------------------------------------------------------------------- */

static Py *in_block(Front *fr, Block *block, Span at, Py *p) { /* numbers as run-time scalars, built in that block */
  Builder keep = fr->b;
  fr->b.block = block;
  fr->b.before = NULL;
  p = front_demote(fr, at, p);
  fr->b = keep;
  return p;
}

/* Brings two returned values to one type: equal constants stay, others become scalars; tuples by element. */
static void agree(Join *j, const Node *where, Py **a, Py **b) {
  stack_guard();
  Front *fr = j->fr;
  Span at = core_span(fr, where);
  if (!py_is_runtime(*a) && !py_is_runtime(*b) && py_equal(*a, *b)) return;
  if ((*a)->kind == PY_TUPLE && (*b)->kind == PY_TUPLE && (*a)->tuple.n == (*b)->tuple.n &&
      py_same_fields((*a)->tuple.cls, (*b)->tuple.cls)) {
    int n = (*a)->tuple.n;
    Py *x = py_tuple(fr, n, (*a)->tuple.at), *y = py_tuple(fr, n, (*b)->tuple.at);
    x->tuple.cls = y->tuple.cls = (*a)->tuple.cls;
    for (int i = 0; i < n; i++) agree(j, where, &x->tuple.at[i], &y->tuple.at[i]);
    *a = x;
    *b = y;
    return;
  }
  if (py_is_number(*a)) *a = in_block(fr, j->a, at, *a);
  if (py_is_number(*b)) *b = in_block(fr, j->b, at, *b);
  if (!py_same_type(*a, *b))
    diag_fail_hint(fr->cx, at,
                   "all returns of a function must agree in type; write `else:` before what follows a constexpr `if`",
                   "Inconsistent return types: %s and %s", py_describe(fr, *a), py_describe(fr, *b));
}

/* ---- the joint of two branches ----------------------------------------------------------------------------------- */

typedef struct Branch {
  Block *block;
  Scope scope;
  Flow flow;
} Branch;

static Value *flag_of(Front *fr, Branch *b) {
  if (b->flow.kind == FLOW_MAYBE) return b->flow.flag;
  Builder keep = fr->b;
  fr->b.block = b->block;
  fr->b.before = NULL;
  Value *v = build_int(&fr->b, type_number(fr->cx, DT_I1), b->flow.kind == FLOW_RETURNS);
  fr->b = keep;
  return v;
}

/* A branch that returns does not reach what follows: its side of a name is whatever is at hand. */
static void names_of_one(Join *j, const Scope *before, Branch *goes_on, Branch *returns, bool swapped,
                         NameMerges *out) {
  Front *fr = j->fr;
  Scope *s = &goes_on->scope;
  for (int i = 0; i < s->n; i++) {
    Binding *now = &s->at[i], *old = scope_find((Scope *)before, now->name);
    if (!now->value || !assigned(now, old)) continue;
    if (!py_is_runtime(now->value)) { /* known: nothing to carry */
      NameMerge m = {now->name, now->where, {.like = now->value}};
      vec_push(fr->cx->arena, out, m);
      continue;
    }
    Py *other = old && old->value && py_same_type(old->value, now->value) ? old->value
                                                                          : zero_like(fr, returns->block, now->value);
    NameMerge m = {now->name, now->where, swapped ? join_py(j, other, now->value) : join_py(j, now->value, other)};
    vec_push(fr->cx->arena, out, m);
  }
}

/* Builds the `if` from two finished branches; the scope becomes what follows sees. */
static Flow join_branches(Front *fr, const Node *n, Value *cond, const Span *span, Scope before, Branch *a, Branch *b,
                          bool tail) {
  Core *core = core_of(fr);
  Join j = {.fr = fr, .a = a->block, .b = b->block};
  NameMerges names = {0};
  Scope after = scope_copy(fr, &before);
  FlowKind ka = a->flow.kind, kb = b->flow.kind;
  bool returned = ka != FLOW_FALLS || kb != FLOW_FALLS;
  if (!(tail && returned)) {
    if (ka != FLOW_RETURNS && kb != FLOW_RETURNS)
      merge_names(&j, n, &before, &a->scope, &b->scope, &after, &names, false);
    else if (ka != FLOW_RETURNS) names_of_one(&j, &before, a, b, false, &names);
    else if (kb != FLOW_RETURNS) names_of_one(&j, &before, b, a, true, &names);
  }
  Merge value = {0};
  bool has_value = false;
  if (returned) {
    Py *va = ka != FLOW_FALLS ? a->flow.value : NULL, *vb = kb != FLOW_FALLS ? b->flow.value : NULL;
    if (!va) va = py_is_runtime(vb) ? zero_like(fr, a->block, vb) : vb; /* falling off the end: any value will do */
    if (!vb) vb = py_is_runtime(va) ? zero_like(fr, b->block, va) : va;
    const Node *where = b->flow.where ? b->flow.where : a->flow.where;
    agree(&j, where ? where : n, &va, &vb);
    value = join_py(&j, va, vb);
    has_value = true;
  }
  int flag = -2;
  Value *known_flag = NULL;
  FlowKind kind = !returned                                            ? FLOW_FALLS
                  : (ka == FLOW_RETURNS && kb == FLOW_RETURNS) || tail ? FLOW_RETURNS
                                                                       : FLOW_MAYBE;
  if (kind == FLOW_MAYBE) {
    if (ka == FLOW_RETURNS && kb == FLOW_FALLS) known_flag = cond;
    else flag = join_value(&j, flag_of(fr, a), flag_of(fr, b));
  }
  Op *op = join_build(&j, cond, span);
  core->frame->scope = after;
  for (int i = 0; i < names.n; i++)
    scope_set(fr, names.at[i].name, join_result(fr, &names.at[i].merge, op), names.at[i].where);
  Flow flow = {.kind = kind, .where = b->flow.where ? b->flow.where : a->flow.where};
  if (has_value) flow.value = join_result(fr, &value, op);
  if (kind == FLOW_MAYBE) flow.flag = known_flag ? known_flag : flag >= 0 ? op->out[flag] : flag_of(fr, a);
  return flow;
}

static Branch begin_branch(Front *fr, const Scope *before) {
  Branch b = {.block = block_create(fr->func, NULL)};
  fr->b.block = b.block;
  fr->b.before = NULL;
  core_of(fr)->frame->scope = scope_copy(fr, before);
  return b;
}

/* What follows a return that always happens is never run, but Triton walks it: it must be right, and its returns and
 * the names that it assigns must be of the same type. It is built into a block that is dropped. */
static void walk_unreached(Front *fr, Flow *flow, Rest *rest) {
  if (rest->empty) return;
  Core *core = core_of(fr);
  Builder outer = fr->b;
  const OpenRegion *regions = core->regions;
  Block *block = block_create(fr->func, NULL);
  fr->b.block = block;
  fr->b.before = NULL;
  Flow more = rest->run(fr, rest, false);
  Join j = {.fr = fr, .a = outer.block, .b = fr->b.block};
  fr->b = outer;
  core->regions = regions;
  if (more.value && flow->value) agree(&j, more.where ? more.where : flow->where, &flow->value, &more.value);
}

/* What follows a statement that returned where flow.flag holds. */
Flow core_guard(Front *fr, Flow flow, Rest *rest, bool tail) {
  if (flow.kind == FLOW_FALLS) return flow;
  flow.rest_done = true;
  if (flow.kind == FLOW_RETURNS) {
    walk_unreached(fr, &flow, rest);
    return flow;
  }
  if (rest->empty) {
    if (tail) flow.kind = FLOW_RETURNS;
    return flow;
  }
  Core *core = core_of(fr);
  Builder outer = fr->b;
  Scope before = core->frame->scope;
  Branch then = begin_branch(fr, &before);
  then.flow = flow;
  then.flow.kind = FLOW_RETURNS;
  then.scope = core->frame->scope;
  Branch other = begin_branch(fr, &before);
  other.flow = rest->run(fr, rest, tail);
  other.scope = core->frame->scope;
  fr->b = outer;
  Flow joined = join_branches(fr, flow.where, flow.flag, outer.span, before, &then, &other, tail);
  joined.rest_done = true;
  if (joined.kind == FLOW_RETURNS) core->frame->scope = other.scope; /* for the rules of names around it */
  return joined;
}

bool contains_return(const Node *n);
static void look_for_return(void *arg, Node *n) {
  bool *found = arg;
  if (!*found && n->kind != NODE_FUNCTION_DEF && n->kind != NODE_LAMBDA) *found = contains_return(n);
}

bool contains_return(const Node *n) {
  if (n->kind == NODE_RETURN) return true;
  bool found = false;
  switch (n->kind) { /* only statements hold statements */
    case NODE_IF:
    case NODE_FOR:
    case NODE_WHILE:
    case NODE_WITH:
    case NODE_TRY:
    case NODE_MODULE:
    case NODE_EXCEPT_HANDLER: node_children(n, look_for_return, &found); break;
    default: break;
  }
  return found;
}

static Flow runtime_if(Front *fr, Node *n, Value *cond, Rest *rest, bool tail) {
  Core *core = core_of(fr);
  Frame *f = core->frame;
  bool has_return = contains_return(n);
  if (has_return && f->loop_depth)
    diag_fail_hint(fr->cx, core_span(fr, n), "carry a flag out of the loop, or use tl.static_range",
                   "Cannot have `return` statements inside `while` or `for` statements in triton");
  bool body_tail = has_return && tail && rest->empty;
  const Span *span = fr->b.span;
  Builder outer = fr->b;
  Scope before = f->scope;
  /* each branch begins with those, and what follows has those of one that gets there */
  const OpenRegion *regions = core->regions;
  Branch a = begin_branch(fr, &before);
  a.flow = core_of(fr)->exec(fr, &n->If.body, 0, body_tail);
  a.scope = f->scope;
  const OpenRegion *regions_a = core->regions;
  core->regions = regions;
  Branch b = begin_branch(fr, &before);
  b.flow = core_of(fr)->exec(fr, &n->If.orelse, 0, body_tail);
  b.scope = f->scope;
  if (a.flow.kind != FLOW_RETURNS) core->regions = regions_a;
  bool ra = a.flow.kind == FLOW_RETURNS, rb = b.flow.kind == FLOW_RETURNS;
  Scope on_scope = scope_copy(fr, ra ? &b.scope : &a.scope);
  if (has_return) { /* Triton compares the names of both branches, also where one of them never gets to what follows */
    Join rules = {.fr = fr, .a = a.block, .b = b.block};
    merge_names(&rules, n, &before, &a.scope, &b.scope, &on_scope, NULL, true);
  }
  if (body_tail || (ra && rb) || (a.flow.kind == FLOW_FALLS && b.flow.kind == FLOW_FALLS)) {
    fr->b = outer;
    Flow flow = join_branches(fr, n, cond, span, before, &a, &b, body_tail);
    flow.rest_done = flow.kind != FLOW_FALLS;
    if (flow.kind == FLOW_RETURNS) f->scope = on_scope;
    if (ra && rb) walk_unreached(fr, &flow, rest);
    return flow;
  }
  /* the rest goes into the branch that goes on */
  if ((ra && b.flow.kind == FLOW_FALLS) || (rb && a.flow.kind == FLOW_FALLS)) {
    Branch *on = ra ? &b : &a;
    f->scope = on_scope;
    fr->b = outer;
    fr->b.block = on->block;
    fr->b.before = NULL;
    if (!rest->empty) on->flow = rest->run(fr, rest, tail);
    on->scope = f->scope;
    fr->b = outer;
    Flow flow = join_branches(fr, n, cond, span, before, &a, &b, tail);
    flow.rest_done = true;
    if (flow.kind == FLOW_RETURNS) f->scope = on->scope;
    return flow;
  }
  fr->b = outer;
  return core_guard(fr, join_branches(fr, n, cond, span, before, &a, &b, false), rest, tail);
}

Flow core_if(Front *fr, Node *n, Rest *rest, bool tail) {
  Py *cond = core_eval(fr, n->If.test);
  core_at(fr, n);
  Span at = core_span(fr, n->If.test);
  if (cond->kind == PY_TENSOR && !cond->is_constexpr) return runtime_if(fr, n, sem_condition(fr, at, cond), rest, tail);
  bool yes = constexpr_condition(fr, at, cond);
  return core_guard(fr, core_of(fr)->exec(fr, yes ? &n->If.body : &n->If.orelse, 0, tail && rest->empty), rest, tail);
}
