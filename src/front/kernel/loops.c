/* Run-time loops, and static_range.
 *
 * Triton walks a loop's body twice, first to see which names change. Here it is walked once: every name that the body
 * could assign (a look at the syntax) and that holds a run-time value enters the body as a block argument; what comes
 * out unchanged at the end is taken off the list again, its argument replaced by the value before the loop.
 *
 *     acc = zeros; n = 0              %r = for %lb, %ub, %step, %acc do (%i, %a) { ... yield %a2 }
 *     for i in range(k): acc += x     (n is not assigned in the body: never on the list)
 */
#include "front/core.h"

/* ---- what a body may assign -------------------------------------------------------------------------------------- */

typedef VEC(const char *) Names;
typedef struct Scan {
  Front *fr;
  Names *names;
} Scan;

static void scan_node(void *arg, Node *n) {
  stack_guard();
  Scan *s = arg;
  switch (n->kind) {
    case NODE_NAME:
      if (n->Name.ctx == CTX_STORE) {
        for (int i = 0; i < s->names->n; i++)
          if (s->names->at[i] == n->Name.id) return;
        vec_push(s->fr->cx->arena, s->names, n->Name.id);
      }
      return;
    case NODE_FOR: /* its variable belongs to that loop */
      scan_node(arg, n->For.iter);
      for (int i = 0; i < n->For.body.n; i++) scan_node(arg, n->For.body.at[i]);
      for (int i = 0; i < n->For.orelse.n; i++) scan_node(arg, n->For.orelse.at[i]);
      return;
    case NODE_CONSTANT:
    case NODE_ATTRIBUTE: return;
    case NODE_AUG_ASSIGN: scan_node(arg, n->AugAssign.target), scan_node(arg, n->AugAssign.value); return;
    default: node_children(n, scan_node, arg);
  }
}

static Names assigned_names(Front *fr, const NodeList *body, Node *test) {
  Names names = {0};
  Scan s = {fr, &names};
  if (test) scan_node(&s, test);
  for (int i = 0; i < body->n; i++) scan_node(&s, body->at[i]);
  return names;
}

/* ---- carried values ---------------------------------------------------------------------------------------------- */

typedef struct Carried {
  const char *name;
  Py *init;
  Value **init_parts;
  int n, first;     /* its block arguments: args[first .. first + n), the induction variable not counted */
  Binding *binding; /* before the loop */
} Carried;
typedef VEC(Carried) CarriedList;

static Value *resolved(Value *v) {
  while (v->replacement) v = v->replacement;
  return v;
}

static CarriedList carried_of(Front *fr, const Node *loop, const Names *names) {
  Scope *s = &core_of(fr)->frame->scope;
  CarriedList list = {0};
  int first = 0;
  for (int i = 0; i < s->n; i++) { /* in the scope's order, so that the text of the IR does not depend on the body */
    Binding *b = &s->at[i];
    if (!b->value || !py_is_runtime(b->value)) continue;
    bool found = false;
    for (int k = 0; k < names->n && !found; k++) found = names->at[k] == b->name;
    if (!found) continue;
    if (b->value->is_constexpr && b->value->kind != PY_TUPLE)
      diag_fail_hint(fr->cx, core_span(fr, loop), "leave out the annotation",
                     "cannot reassign constexpr %s in the loop: it is %s before", b->name, py_describe(fr, b->value));
    Carried c = {.name = b->name, .init = b->value, .binding = b, .first = first};
    py_flatten(fr, b->value, &c.init_parts, &c.n);
    first += c.n;
    vec_push(fr->cx->arena, &list, c);
  }
  return list;
}

static void bind_arguments(Front *fr, const CarriedList *list, Block *block, int skip, bool create) {
  for (int i = 0; i < list->n; i++) {
    const Carried *c = &list->at[i];
    if (create)
      for (int k = 0; k < c->n; k++) block_add_arg(fr->func, block, c->init_parts[k]->type, c->name);
    int used = 0;
    Py *v = py_unflatten(fr, c->init, block->args + skip + c->first, &used);
    scope_set(fr, c->name, v, c->binding->where);
  }
}

static NORETURN void fail_carried(Front *fr, const Node *loop, const Carried *c, const Binding *now) {
  Span at = core_span(fr, now && now->where ? now->where : loop);
  const char *hint = "a loop-carried variable keeps its type: start it with the right one, or cast in the body";
  if (!now || !now->value)
    diag_fail(fr->cx, at,
              "`%s` is used by the next iteration of the loop, but it is not defined at the end of the body", c->name);
  diag_fail_hint(fr->cx, at, hint,
                 "Loop-carried variable %s has initial type %s but is re-assigned to %s in loop! "
                 "Please make sure that the type stays consistent",
                 c->name, py_describe(fr, c->init), py_describe(fr, now->value));
}

/* After the body: checks types, and gathers what it yields in the order of the arguments. */
static Value **end_of_body(Front *fr, const Node *loop, const CarriedList *list, const Scope *before, int *count) {
  Scope *s = &core_of(fr)->frame->scope;
  Value **yields = NULL;
  *count = 0;
  for (int i = 0; i < list->n; i++) {
    const Carried *c = &list->at[i];
    Binding *now = scope_find(s, c->name);
    if (!now || !now->value || !py_same_type(now->value, c->init)) fail_carried(fr, loop, c, now);
    py_flatten(fr, now->value, &yields, count);
  }
  for (int i = 0; i < before->n; i++) {
    const Binding *old = &before->at[i];
    if (!old->value || py_is_runtime(old->value)) continue;
    Binding *now = scope_find(s, old->name);
    if (!now || now->stamp == old->stamp || !now->value || now->is_declared) continue;
    bool none = now->value->kind == PY_NONE || now->value->kind == PY_TYPE; /* also where the loop changes nothing */
    if (none && old->value->kind == now->value->kind)
      diag_fail_hint(fr->cx, core_span(fr, now->where ? now->where : loop), "assign it before the loop",
                     "Loop carried variable %s is not a triton value, but %s", old->name, py_describe(fr, now->value));
    if (py_same_type(now->value, old->value) || !py_is_runtime(now->value)) continue; /* a static_range's variable */
    const char *hint =
        py_is_number(old->value)
            ? arena_printf(fr->cx->arena, "a plain assignment before the loop makes it a run-time value: %s = %s",
                           old->name, old->name)
            : "give it a tensor before the loop";
    diag_fail_hint(fr->cx, core_span(fr, now->where ? now->where : loop), hint,
                   "cannot reassign constexpr %s in the loop: it is %s before", old->name, py_describe(fr, old->value));
  }
  return yields;
}

/* After the loop: the scope before it, with the results; names that only the body has are undefined. */
static void end_of_loop(Front *fr, const Node *loop, Scope before, const CarriedList *list, Value *const *results) {
  Frame *f = core_of(fr)->frame;
  Scope body = f->scope;
  f->scope = before;
  for (int i = 0; i < list->n; i++) {
    const Carried *c = &list->at[i];
    Binding *now = scope_find(&body, c->name);
    int used = 0;
    bool changed = false;
    for (int k = 0; k < c->n; k++) changed = changed || results[c->first + k] != c->init_parts[k];
    if (changed) scope_set(fr, c->name, py_unflatten(fr, c->init, results + c->first, &used), now->where);
  }
  for (int i = 0; i < body.n; i++) {
    Binding *b = &body.at[i], *old = scope_find(&before, b->name);
    if (b->value && (!old || !old->value))
      scope_undefine(fr, b->name,
                     arena_printf(fr->cx->arena, "it is assigned only inside the loop in line %d", loop->span.line));
  }
}

/* Takes unchanged arguments out of the blocks (skip: the induction variable) and compacts inits and yields. keep[i]:
 * index among the loop's results, or -1. */
static int prune(Block *const *blocks, int block_count, int skip, int n, Value **inits, Value **yields, int *keep) {
  int kept = 0;
  for (int i = 0; i < n; i++) {
    bool same = resolved(yields[i]) == resolved(inits[i]);
    for (int b = 0; b < block_count; b++) same = same || resolved(yields[i]) == blocks[b]->args[skip + i];
    keep[i] = same ? -1 : kept++;
  }
  for (int b = 0; b < block_count; b++) {
    int out = skip;
    for (int i = 0; i < n; i++) {
      Value *arg = blocks[b]->args[skip + i];
      if (keep[i] < 0) value_replace(arg, inits[i]);
      else {
        arg->index = out;
        blocks[b]->args[out++] = arg;
      }
    }
    blocks[b]->arg_count = out;
  }
  for (int i = 0; i < n; i++)
    if (keep[i] >= 0) {
      inits[keep[i]] = inits[i];
      yields[keep[i]] = yields[i];
    }
  return kept;
}

static Value **flat_inits(Front *fr, const CarriedList *list, int *n) {
  Value **inits = NULL;
  *n = 0;
  for (int i = 0; i < list->n; i++) py_flatten(fr, list->at[i].init, &inits, n);
  return inits;
}

/* ---- for --------------------------------------------------------------------------------------------------------- */

static Value *bound(Front *fr, const Node *n, Py *p, int otherwise, const char *what) {
  Span at = core_span(fr, n);
  bool is_end = what[0] == 'e'; /* the one that has no default */
  if (!p || (p->kind == PY_NONE && !is_end)) return build_int(&fr->b, type_number(fr->cx, DT_I32), otherwise);
  if (p->kind != PY_TENSOR && p->kind != PY_INT && p->kind != PY_BOOL)
    diag_fail(fr->cx, at, "For loop bounds and step must all be ints: the %s is %s (%s)", what, py_describe(fr, p),
              py_kind_name(p));
  Value *v = sem_to_value(fr, at, p, what);
  if (v->type->ptr || !dtype_is_int(v->type->dtype))
    diag_fail(fr->cx, at, "For loop bounds and step must all be ints: the %s is %s", what, py_describe(fr, p));
  const char *triton = is_end ? "upper bound" : !strcmp(what, "start") ? "lower bound" : what;
  if (v->type->rank) diag_fail(fr->cx, at, "For %s must be a scalar, got %s", triton, py_describe(fr, p));
  return v;
}

static Dtype promote_int(Dtype a, Dtype b) {
  bool sa = dtype_is_signed(a), sb = dtype_is_signed(b);
  int wa = dtype_bits(a), wb = dtype_bits(b);
  if (sa == sb) return wa > wb ? a : b;
  Dtype u = sa ? b : a, s = sa ? a : b;
  return dtype_bits(u) >= dtype_bits(s) ? u : s;
}

/* What is known only at run time counts as true, as for Python. */
static int hint_flag(const Py *range, const char *name, int flag) {
  Py *p = range->range.hints ? py_dict_get_name(range->range.hints, name) : NULL;
  return p && py_truth_known(p) ? flag : 0;
}

static int64_t hint_int(Front *fr, const Node *n, const Py *range, const char *name) {
  Py *p = range->range.hints ? py_dict_get_name(range->range.hints, name) : NULL;
  if (!p || p->kind == PY_NONE) return 0;
  if (p->kind != PY_INT && p->kind != PY_BOOL)
    diag_fail(fr->cx, core_span(fr, n), "tl.range's %s must be a constexpr int, not %s", name, py_describe(fr, p));
  return (int64_t)p->i;
}

static void runtime_for(Front *fr, Node *n, Py *range) {
  Context *cx = fr->cx;
  Core *core = core_of(fr);
  Frame *f = core->frame;
  const char *iv_name = n->For.target->Name.id;
  const Span *span = fr->b.span;
  Py *step_py = range->range.step;
  if (step_py && (step_py->kind == PY_INT || step_py->kind == PY_BOOL) && step_py->i == 0)
    diag_warn(cx, core_span(fr, n->For.iter),
              "the step of this loop is 0: unless it has no iterations, it does not end");
  Value *lb = bound(fr, n->For.iter, range->range.start, 0, "start"),
        *ub = bound(fr, n->For.iter, range->range.stop, 0, "end");
  bool known_step = !step_py || step_py->kind != PY_TENSOR;
  Value *step = known_step ? NULL : bound(fr, n->For.iter, step_py, 1, "step");
  /* says why not */
  if (known_step && step_py && step_py->kind != PY_NONE && step_py->kind != PY_INT && step_py->kind != PY_BOOL)
    bound(fr, n->For.iter, step_py, 1, "step");
  PyInt step_value = step_py && (step_py->kind == PY_INT || step_py->kind == PY_BOOL) ? step_py->i : 1;
  Dtype step_type = !known_step                                          ? step->type->dtype
                    : step_value >= INT32_MIN && step_value <= INT32_MAX ? DT_I32
                                                                         : DT_I64;
  Dtype dt = promote_int(promote_int(lb->type->dtype, ub->type->dtype), step_type);
  if (step_value < 0 && !dtype_is_signed(dt))
    diag_fail_hint(cx, core_span(fr, n->For.iter), "cast the bounds: x.to(tl.int32)",
                   "a loop with a negative step needs signed bounds, not %s", dtype_name(dt));
  lb = build_convert(&fr->b, lb, dt);
  ub = build_convert(&fr->b, ub, dt);
  step = known_step ? build_int(&fr->b, type_number(cx, dt), (int64_t)step_value) : build_convert(&fr->b, step, dt);

  Names names = assigned_names(fr, &n->For.body, NULL);
  for (int i = 0; i < names.n;
       i++) /* the variable itself is not carried: assigning it lasts until the iteration ends */
    if (names.at[i] == iv_name) names.at[i--] = names.at[--names.n];
  CarriedList carried = carried_of(fr, n, &names);
  Scope before = f->scope;
  Builder outer = fr->b;
  f->scope = scope_copy(fr, &before);
  Block *body = block_create(fr->func, NULL);
  Value *iv = block_add_arg(fr->func, body, type_number(cx, dt), iv_name);
  fr->b.block = body;
  fr->b.before = NULL;
  bind_arguments(fr, &carried, body, 1, true);
  Scope inside = scope_copy(fr, &f->scope);
  scope_set(fr, iv_name, py_tensor(fr, iv), n->For.target);
  f->loop_depth++;
  core_of(fr)->exec(fr, &n->For.body, 0, false);
  f->loop_depth--;
  int count, n_yields;
  Value **inits = flat_inits(fr, &carried, &count), **yields = end_of_body(fr, n, &carried, &inside, &n_yields);
  int *keep = NEW_N(cx->arena, int, count + 1);
  Value **original = NEW_N(cx->arena, Value *, count + 1);
  for (int i = 0; i < count; i++) original[i] = inits[i];
  int kept = prune(&body, 1, 1, count, inits, yields, keep);
  fr->b.span = span;
  build_yield(&fr->b, kept, yields);

  fr->b = outer;
  fr->b.span = span;
  Value **in = NEW_N(cx->arena, Value *, kept + 3);
  const Type **types = NEW_N(cx->arena, const Type *, kept + 1);
  in[0] = lb, in[1] = ub, in[2] = step;
  for (int i = 0; i < kept; i++) in[3 + i] = inits[i], types[i] = inits[i]->type;
  Op *op = build_op(&fr->b, OP_FOR, 3 + kept, in, kept, types);
  op->body[0] = body;
  body->parent = op;
  op->num_stages = hint_int(fr, n, range, "num_stages");
  op->unroll = hint_int(fr, n, range, "loop_unroll_factor");
  op->flags = hint_flag(range, "flatten", LOOP_FLATTEN) | hint_flag(range, "warp_specialize", LOOP_WARP_SPECIALIZE) |
              hint_flag(range, "disable_licm", LOOP_NO_LICM) |
              hint_flag(range, "disallow_acc_multi_buffer", LOOP_NO_MULTI_BUFFER);
  Value **results = NEW_N(cx->arena, Value *, count + 1);
  for (int i = 0; i < count; i++) results[i] = keep[i] < 0 ? original[i] : op->out[keep[i]];
  end_of_loop(fr, n, before, &carried, results);
  scope_undefine(fr, iv_name,
                 arena_printf(cx->arena, "it is the variable of the loop in line %d, which has ended", n->span.line));
  scope_find(&f->scope, iv_name)->ended = type_number(cx, dt);
}

/* The iterations of a static_range that are left, then what follows the loop. */
typedef struct Unrolled {
  Rest rest;
  Node *loop;
  PyInt at, stop, step;
  Rest *after;
} Unrolled;

static Flow run_unrolled(Front *fr, Rest *rest, bool tail) {
  Unrolled *t = (Unrolled *)rest;
  Node *n = t->loop;
  for (PyInt i = t->at; t->step > 0 ? i < t->stop : i > t->stop; i += t->step) {
    PyInt next = i + t->step;
    bool last = t->step > 0 ? next >= t->stop : next <= t->stop;
    scope_set(fr, n->For.target->Name.id, py_int(fr, i), n->For.target);
    Flow flow = core_of(fr)->exec(fr, &n->For.body, 0, tail && last && t->after->empty && !n->For.orelse.n);
    if (flow.kind == FLOW_FALLS) continue;
    Unrolled more = *t;
    more.at = next;
    more.rest.empty = last && t->after->empty && !n->For.orelse.n;
    return core_guard(fr, flow, &more.rest, tail);
  }
  for (int i = 0; i < n->For.orelse.n; i++)
    if (n->For.orelse.at[i]->kind != NODE_EXPR)
      diag_fail_hint(fr->cx, core_span(fr, n->For.orelse.at[i]), "write it after the loop",
                     "Don't know what to do with else after for: it cannot be used in a kernel");
  if (n->For.orelse.n) {
    Flow flow = core_of(fr)->exec(fr, &n->For.orelse, 0, tail && t->after->empty);
    if (flow.kind != FLOW_FALLS) return core_guard(fr, flow, t->after, tail);
  }
  if (t->after->empty) return (Flow){.kind = FLOW_FALLS};
  Flow flow = t->after->run(fr, t->after, tail);
  flow.rest_done = true;
  return flow;
}

static PyInt static_bound(Front *fr, const Node *n, const Py *p, PyInt otherwise, const char *what) {
  if (!p || (p->kind == PY_NONE && what[0] != 'e')) return otherwise;
  if (p->kind != PY_INT && p->kind != PY_BOOL)
    diag_fail_hint(fr->cx, core_span(fr, n), "use range or tl.range for bounds that are known only at run time",
                   "%s used as tl.static_range %s value is not a constexpr int", py_describe(fr, p), what);
  return p->i;
}

Flow core_for(Front *fr, Node *n, Rest *rest, bool tail) {
  Context *cx = fr->cx;
  Flow falls = {.kind = FLOW_FALLS};
  Py *range = core_eval(fr, n->For.iter);
  core_at(fr, n);
  Span at = core_span(fr, n->For.iter);
  if (range->kind != PY_RANGE)
    diag_fail_hint(cx, at, "to walk over a tuple: for i in tl.static_range(len(t)): ... t[i]",
                   "Only `range` and `static_range` iterators are currently supported, not %s", py_describe(fr, range));
  if (n->For.target->kind != NODE_NAME) diag_fail(cx, core_span(fr, n->For.target), "a loop has one plain variable");
  if (!range->range.is_static) {
    if (n->For.orelse.n)
      diag_fail(cx, core_span(fr, n->For.orelse.at[0]),
                "Don't know what to do with else after for: it cannot be used in a kernel");
    runtime_for(fr, n, range);
    return falls;
  }
  Unrolled t = {.rest = {run_unrolled, false}, .loop = n, .after = rest};
  t.at = static_bound(fr, n->For.iter, range->range.start, 0, "start");
  t.stop = static_bound(fr, n->For.iter, range->range.stop, 0, "end");
  t.step = static_bound(fr, n->For.iter, range->range.step, 1, "step");
  if (t.step == 0) diag_fail(cx, at, "range() arg 3 must not be zero: the step of a loop that is unrolled");
  PyInt iterations = t.step > 0 ? (t.stop - t.at) / t.step : (t.at - t.stop) / -t.step;
  if (iterations > 100000)
    diag_fail_hint(cx, at, "use range", "tl.static_range would unroll %lld iterations", (long long)iterations);
  bool returns = contains_return(n);
  if (returns) return run_unrolled(fr, &t.rest, tail);
  Rest nothing = {NULL, true}; /* the usual case: the caller goes on with what follows */
  t.after = &nothing;
  run_unrolled(fr, &t.rest, false);
  return falls;
}

/* ---- while ------------------------------------------------------------------------------------------------------- */

void core_while(Front *fr, Node *n) {
  Context *cx = fr->cx;
  Core *core = core_of(fr);
  Frame *f = core->frame;
  const Span *span = fr->b.span;
  if (n->While.orelse.n)
    diag_fail(cx, core_span(fr, n->While.orelse.at[0]), "`while ... else` cannot be used in a kernel");
  Names names = assigned_names(fr, &n->While.body, n->While.test);
  CarriedList carried = carried_of(fr, n, &names);
  Scope before = f->scope;
  Builder outer = fr->b;
  Block *test = block_create(fr->func, NULL), *body = block_create(fr->func, NULL);

  f->scope = scope_copy(fr, &before);
  fr->b.block = test;
  fr->b.before = NULL;
  bind_arguments(fr, &carried, test, 0, true);
  Py *cond = core_eval(fr, n->While.test);
  if (cond->kind != PY_TENSOR)
    diag_fail_hint(cx, core_span(fr, n->While.test),
                   "a kernel has no `break`: let the condition depend on a value that the body changes",
                   "the condition of a `while` must be a run-time scalar, not %s", py_describe(fr, cond));
  if (cond->value->type->ptr || cond->value->type->dtype != DT_I1)
    diag_fail_hint(cx, core_span(fr, n->While.test), "compare it: `while n != 0`",
                   "the condition of a `while` must be of type i1, but it is %s", py_describe(fr, cond));
  Value *c = sem_condition(fr, core_span(fr, n->While.test), cond);
  Scope after_test = f->scope;

  f->scope = scope_copy(fr, &before);
  fr->b.block = body;
  bind_arguments(fr, &carried, body, 0, true);
  Scope inside = scope_copy(fr, &f->scope);
  f->loop_depth++;
  core_of(fr)->exec(fr, &n->While.body, 0, false);
  f->loop_depth--;
  int count, n_yields;
  Value **inits = flat_inits(fr, &carried, &count), **yields = end_of_body(fr, n, &carried, &inside, &n_yields);
  /* `while (x := f(x)) > 0`: the test's own assignments would have to leave the loop */
  for (int i = 0; i < carried.n; i++) {
    Binding *b = scope_find(&after_test, carried.at[i].name);
    if (b && b->where && b->where != carried.at[i].binding->where)
      diag_fail(cx, core_span(fr, b->where), "the condition of a `while` cannot assign a variable");
  }
  int *keep = NEW_N(cx->arena, int, count + 1);
  Value **original = NEW_N(cx->arena, Value *, count + 1);
  for (int i = 0; i < count; i++) original[i] = inits[i];
  int kept = prune((Block *const[]){test, body}, 2, 0, count, inits, yields, keep);
  fr->b.span = span;
  fr->b.block = body;
  build_yield(&fr->b, kept, yields);
  fr->b.block = test;
  Value **handed = NEW_N(cx->arena, Value *, kept + 1);
  handed[0] = c;
  for (int i = 0; i < kept; i++) handed[1 + i] = test->args[i];
  build_op(&fr->b, OP_CONDITION, kept + 1, handed, 0, NULL);

  fr->b = outer;
  fr->b.span = span;
  const Type **types = NEW_N(cx->arena, const Type *, kept + 1);
  for (int i = 0; i < kept; i++) types[i] = inits[i]->type;
  Op *op = build_op(&fr->b, OP_WHILE, kept, inits, kept, types);
  op->body[0] = test;
  op->body[1] = body;
  test->parent = body->parent = op;
  Value **results = NEW_N(cx->arena, Value *, count + 1);
  for (int i = 0; i < count; i++) results[i] = keep[i] < 0 ? original[i] : op->out[keep[i]];
  end_of_loop(fr, n, before, &carried, results);
}
