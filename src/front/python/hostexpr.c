/* Host expressions: Python evaluated now, for module constants, decorators' arguments, heuristics and constexpr
 * functions.
 *
 * What is not at hand (torch.cuda..., an argument nobody gave) is a PY_UNKNOWN, and so is everything computed from it;
 * nothing here fails. A budget of steps for a whole file keeps endless loops out. */
#include "front/core.h"

Py *host_found(const HostScope *sc, const char *name) {
  Py *v = NULL;
  for (; sc && !v; sc = sc->up) v = map_get(sc->names, name);
  return v;
}

static Py *lookup(Front *fr, HostScope *sc, const char *name) {
  Py *v = host_found(sc, name);
  if (v) return v;
  v = sc->ns ? namespace_lookup(fr, sc->ns, name) : NULL;
  if (!v && host_python(name)) v = py_unknown(fr, "python.%s", name);
  if (!v) v = front_hooks.python_name(fr, name, true);
  return v ? v : py_unknown(fr, "'%s'", name);
}

Py *host_attribute(Front *fr, Py *x, const char *attr) {
  if (x->kind == PY_UNKNOWN && strchr(x->library, ' ')) return x; /* why nobody knows it, and no name */
  if (x->kind == PY_UNKNOWN || x->kind == PY_LIBRARY) {
    const char *path = arena_printf(fr->cx->arena, "%s.%s", x->library, attr);
    Py *v = host_library(fr, path);
    if (v) return v;
    if (x->kind == PY_LIBRARY) {
      v = front_hooks.library_lookup(fr, x->library, attr);
      if (v) return v;
      const char *deeper = strncmp(path, "triton.language.", 16) ? front_hooks.library_path(fr, path) : NULL;
      if (deeper) return py_library(fr, deeper);
    }
    return py_unknown(fr, "%s", path);
  }
  Py *v = front_hooks.attribute(fr, (Span){0}, x, intern_z(fr->cx, attr));
  if (v) return v;
  v = py_unknown(fr, "%s.%s", py_describe(fr, x), attr);
  py_spoil(fr, x, v->library); /* a method that may change it */
  return v;
}

/* ---- assignments -------------------------------------------------------------------------------------------------- */

void host_name(HostScope *sc, const char *name, Py *value) {
  if (sc->globals && map_get(sc->globals, name)) namespace_bind(namespace_file(sc->ns), name, value, NULL);
  else if (sc->outer && map_get(sc->outer, name)) {
    HostScope *s = sc->up;
    while (s && !map_get(s->names, name)) s = s->up;
    if (s) map_put(s->names, name, value);
  } else if (sc->top) namespace_bind(sc->ns, name, value, NULL);
  else map_put(sc->names, name, value);
}

static void set_attribute(Front *fr, Py *x, const char *attr, Py *value) {
  if (py_contains(value, x)) value = py_unknown(fr, "a value that contains itself");
  if (x->kind == PY_OBJECT) map_put(x->object.fields, attr, value);
  if (x->kind == PY_CLASS) map_put(x->cls->members, attr, value);
  if (x->kind == PY_MODULE) namespace_bind(x->module->globals, intern_z(fr->cx, attr), value, NULL);
}

/* globals()["X"] = value */
static bool is_names_of_file(const Node *n) {
  return n->kind == NODE_CALL && n->Call.func->kind == NODE_NAME &&
         (!strcmp(n->Call.func->Name.id, "globals") || !strcmp(n->Call.func->Name.id, "vars"));
}

void host_assign(Front *fr, HostScope *sc, Node *target, Py *value) {
  stack_guard();
  switch (target->kind) {
    case NODE_NAME: host_name(sc, target->Name.id, value); break;
    case NODE_TUPLE:
    case NODE_LIST: {
      Py *items = host_iterate(fr, value);
      int n = target->Tuple.elts.n, star = -1, have = items->kind == PY_TUPLE ? items->tuple.n : 0;
      for (int i = 0; i < n; i++)
        if (target->Tuple.elts.at[i]->kind == NODE_STARRED) star = i;
      for (int i = 0; i < n; i++) {
        Node *t = target->Tuple.elts.at[i];
        Py *part;
        if (items->kind != PY_TUPLE || have < (star < 0 ? n : n - 1))
          part = py_unknown(fr, "part of %s", py_describe(fr, value));
        else if (i == star) part = py_list(fr, have - (n - 1), items->tuple.at + i);
        else part = items->tuple.at[star >= 0 && i > star ? i + have - n : i];
        host_assign(fr, sc, t->kind == NODE_STARRED ? t->Starred.value : t, part);
      }
      break;
    }
    case NODE_SUBSCRIPT: {
      Py *x = host_eval(fr, sc, target->Subscript.value), *index = host_eval(fr, sc, target->Subscript.slice);
      if (is_names_of_file(target->Subscript.value) && index->kind == PY_STR && sc->ns)
        namespace_bind(namespace_file(sc->ns), intern_z(fr->cx, index->str.s), value, NULL);
      if (py_contains(value, x)) {
        py_spoil(fr, x, "a value that contains itself");
        break;
      }
      if (x->kind == PY_DICT && index->kind != PY_UNKNOWN) py_dict_put(fr, x, index, value);
      if (x->kind == PY_TUPLE && x->tuple.is_list && index->kind == PY_INT) {
        PyInt i = index->i < 0 ? index->i + x->tuple.n : index->i;
        if (i >= 0 && i < x->tuple.n) x->tuple.at[i] = value;
      } else if (x->kind == PY_TUPLE) py_spoil(fr, x, "a list of which a part is replaced");
      break;
    }
    case NODE_ATTRIBUTE: {
      set_attribute(fr, host_eval(fr, sc, target->Attribute.value), target->Attribute.attr, value);
      break;
    }
    default: break;
  }
}

/* ---- comprehensions ---------------------------------------------------------------------------------------------- */

typedef struct Comprehension {
  Node *n;
  const NodeList *generators;
  Py *out;
  Py *unknown;
} Comprehension;

static void run_generators(Front *fr, HostScope *sc, Comprehension *c, int level) {
  stack_guard();
  if (c->unknown) return;
  if (level == c->generators->n) {
    Node *n = c->n;
    if (n->kind == NODE_DICT_COMP) {
      Py *key = host_eval(fr, sc, n->DictComp.key);
      if (key->kind == PY_UNKNOWN) c->unknown = key;
      else py_dict_put(fr, c->out, key, host_eval(fr, sc, n->DictComp.value));
    } else {
      py_append(fr, c->out, host_eval(fr, sc, n->ListComp.elt));
    }
    return;
  }
  Node *g = c->generators->at[level];
  Py *items = host_iterate(fr, host_eval(fr, sc, g->comprehension.iter));
  if (items->kind == PY_UNKNOWN) {
    c->unknown = items;
    return;
  }
  for (int i = 0; i < items->tuple.n && !c->unknown; i++) {
    if (!host_step(fr)) {
      c->unknown = py_unknown(fr, "a computation that takes too long");
      return;
    }
    host_assign(fr, sc, g->comprehension.target, items->tuple.at[i]);
    bool keep = true;
    for (int k = 0; k < g->comprehension.ifs.n && keep; k++) {
      Py *test = host_eval(fr, sc, g->comprehension.ifs.at[k]);
      int truth = py_truth_known(test);
      if (truth < 0) {
        c->unknown = test;
        return;
      }
      keep = truth;
    }
    if (keep) run_generators(fr, sc, c, level + 1);
  }
}

static Py *comprehension(Front *fr, HostScope *sc, Node *n) {
  HostScope inner = {.names = map_create(fr->cx->arena, false), .up = sc, .ns = sc->ns};
  Comprehension c = {.n = n};
  c.generators = n->kind == NODE_DICT_COMP ? &n->DictComp.generators : &n->ListComp.generators;
  c.out = n->kind == NODE_DICT_COMP ? py_dict(fr) : py_list(fr, 0, NULL);
  run_generators(fr, &inner, &c, 0);
  return c.unknown ? c.unknown : c.out;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static Py *bool_op(Front *fr, HostScope *sc, Node *n) {
  bool is_and = n->BoolOp.op == PYOP_AND;
  Py *last = NULL, *unknown = NULL;
  for (int i = 0; i < n->BoolOp.values.n; i++) {
    last = host_eval(fr, sc, n->BoolOp.values.at[i]);
    int truth = py_truth_known(last);
    if (truth < 0) unknown = last;
    else if (truth != is_and) return last; /* decides whatever the unknown ones are, but for its exact value */
  }
  return unknown ? unknown : last;
}

static Py *compare(Front *fr, HostScope *sc, Node *n) {
  Py *left = host_eval(fr, sc, n->Compare.left), *result = NULL;
  for (int i = 0; i < n->Compare.ops.n; i++) {
    Py *right = host_eval(fr, sc, n->Compare.comparators.at[i]);
    result = host_compare(fr, n->Compare.ops.at[i], left, right);
    int truth = py_truth_known(result);
    if (truth <= 0) return truth < 0 && result->kind != PY_UNKNOWN ? py_unknown(fr, "a comparison") : result;
    left = right;
  }
  return result;
}

/* super().f(...): which class's it is nobody knows here, so that `self` may have changed. */
static bool calls_super(const Node *n) {
  const Node *x = n->Call.func->kind == NODE_ATTRIBUTE ? n->Call.func->Attribute.value : NULL;
  return x && x->kind == NODE_CALL && x->Call.func->kind == NODE_NAME && !strcmp(x->Call.func->Name.id, "super");
}

static void forget_fields(Front *fr, Py *x, const char *why) {
  for (int i = 0; x && x->kind == PY_OBJECT && i < map_count(x->object.fields); i++) {
    const void *name;
    void *v;
    map_entry(x->object.fields, i, &name, &v);
    map_put(x->object.fields, name, py_unknown(fr, "%s", why));
  }
}

static Py *call(Front *fr, HostScope *sc, Node *n) {
  Arena *a = fr->cx->arena;
  if (calls_super(n)) forget_fields(fr, host_found(sc, intern_z(fr->cx, "self")), "what super() may have changed");
  Py *callee = host_eval(fr, sc, n->Call.func);
  Call c = {.span = n->span};
  VEC(Py *) args = {0};
  VEC(const char *) names = {0};
  for (int i = 0; i < n->Call.args.n; i++) {
    Node *arg = n->Call.args.at[i];
    if (arg->kind != NODE_STARRED) {
      vec_push(a, &args, host_eval(fr, sc, arg));
      continue;
    }
    Py *items = host_iterate(fr, host_eval(fr, sc, arg->Starred.value));
    if (items->kind == PY_UNKNOWN) return items;
    for (int k = 0; k < items->tuple.n; k++) vec_push(a, &args, items->tuple.at[k]);
  }
  c.n = args.n;
  for (int i = 0; i < n->Call.keywords.n; i++) {
    Node *k = n->Call.keywords.at[i];
    Py *v = host_eval(fr, sc, k->keyword.value);
    if (k->keyword.arg) {
      vec_push(a, &names, k->keyword.arg);
      vec_push(a, &args, v);
      continue;
    }
    if (v->kind != PY_DICT) return v->kind == PY_UNKNOWN ? v : py_unknown(fr, "** of %s", py_describe(fr, v));
    for (int d = 0; d < v->dict.n; d++) {
      if (v->dict.keys[d]->kind != PY_STR) continue;
      vec_push(a, &names, intern_z(fr->cx, v->dict.keys[d]->str.s));
      vec_push(a, &args, v->dict.values[d]);
    }
  }
  c.args = args.at;
  c.kw_n = names.n;
  c.kw_names = names.at;
  c.kw_values = args.at + c.n;
  if (n->Call.func->kind == NODE_NAME && !strcmp(n->Call.func->Name.id, "setattr") && c.n == 3 && !c.kw_n) {
    if (c.args[1]->kind == PY_STR) set_attribute(fr, c.args[0], intern_z(fr->cx, c.args[1]->str.s), c.args[2]);
    return py_none(fr);
  }
  c.arg_spans = NEW_N(a, Span, args.n + 1);
  for (int i = 0; i < args.n; i++) c.arg_spans[i] = n->span;
  return front_hooks.host_call(fr, callee, &c);
}

static Py *display(Front *fr, HostScope *sc, const NodeList *elts, bool is_list) {
  Py *t = is_list ? py_list(fr, 0, NULL) : py_tuple(fr, 0, NULL);
  for (int i = 0; i < elts->n; i++) {
    Node *e = elts->at[i];
    Py *v = host_eval(fr, sc, e->kind == NODE_STARRED ? e->Starred.value : e);
    if (e->kind != NODE_STARRED) {
      py_append(fr, t, v);
      continue;
    }
    v = host_iterate(fr, v);
    if (v->kind == PY_UNKNOWN) return v;
    for (int k = 0; k < v->tuple.n; k++) py_append(fr, t, v->tuple.at[k]);
  }
  return t;
}

static Py *set_of(Front *fr, Py *list) {
  const Py *hole = py_hole(list);
  if (hole) return py_unknown(fr, "a set with %s", py_describe(fr, hole));
  return list->kind == PY_TUPLE ? py_set(fr, list->tuple.n, list->tuple.at) : list;
}

static Py *dict_display(Front *fr, HostScope *sc, Node *n) {
  Py *d = py_dict(fr);
  for (int i = 0; i < n->Dict.values.n; i++) {
    Py *v = host_eval(fr, sc, n->Dict.values.at[i]);
    if (n->Dict.keys.at[i]) {
      Py *k = host_eval(fr, sc, n->Dict.keys.at[i]);
      if (k->kind != PY_UNKNOWN) py_dict_put(fr, d, k, v);
      continue;
    }
    if (v->kind != PY_DICT) return v->kind == PY_UNKNOWN ? v : py_unknown(fr, "** of %s", py_describe(fr, v));
    for (int k = 0; k < v->dict.n; k++) py_dict_put(fr, d, v->dict.keys[k], v->dict.values[k]);
  }
  return d;
}

static Py *f_string(Front *fr, HostScope *sc, Node *n) {
  Py *text = py_str(fr, "");
  for (int i = 0; i < n->JoinedStr.values.n; i++) {
    Node *v = n->JoinedStr.values.at[i];
    Py *part;
    if (v->kind == NODE_CONSTANT) part = py_str_n(fr, v->Constant.value.text, v->Constant.value.size);
    else {
      Py *x = host_eval(fr, sc, v->FormattedValue.value);
      Py *spec = v->FormattedValue.format_spec ? host_eval(fr, sc, v->FormattedValue.format_spec) : NULL;
      if (x->kind == PY_UNKNOWN) return x;
      if (!py_has_text(x)) return py_unknown(fr, "the text of %s", py_describe(fr, x));
      if (spec && spec->kind != PY_STR) return spec;
      const char *why = NULL;
      part = py_format(fr, x, v->FormattedValue.conversion, spec ? spec->str.s : NULL, &why);
      if (!part) return py_unknown(fr, "%s", why);
    }
    text = host_binary(fr, PYOP_ADD, text, part);
  }
  return text;
}

static Py *slice(Front *fr, HostScope *sc, Node *n) {
  Py *p = NEW(fr->cx->arena, Py);
  p->kind = PY_SLICE;
  p->slice.start = n->Slice.lower ? host_eval(fr, sc, n->Slice.lower) : py_none(fr);
  p->slice.stop = n->Slice.upper ? host_eval(fr, sc, n->Slice.upper) : py_none(fr);
  p->slice.step = n->Slice.step ? host_eval(fr, sc, n->Slice.step) : py_none(fr);
  return p;
}

/* The scopes that a nested function sees: it shares their names, so that it sees what they are bound to later. */
static HostScope *closure_of(Front *fr, HostScope *sc) {
  stack_guard();
  HostScope *copy = arena_copy(fr->cx->arena, sc, sizeof *sc);
  if (sc->up) copy->up = closure_of(fr, sc->up);
  return copy;
}

static void keep_default(Front *fr, HostScope *sc, Function *fn, const Node *param, Node *value) {
  if (value) map_put(fn->kept, param, host_eval(fr, sc, value));
}

Py *host_function(Front *fr, HostScope *sc, Node *def) {
  Py *f = function_value(fr, def, sc->ns, closure_of(fr, sc));
  const Node *a = def->kind == NODE_LAMBDA ? def->Lambda.args : def->FunctionDef.args;
  const NodeList *first = &a->arguments.posonlyargs, *args = &a->arguments.args, *by_name = &a->arguments.kwonlyargs;
  int positional = first->n + args->n, without = positional - a->arguments.defaults.n;
  f->fn->kept = map_create(fr->cx->arena, false);
  for (int i = without; i < positional; i++)
    keep_default(fr, sc, f->fn, i < first->n ? first->at[i] : args->at[i - first->n],
                 a->arguments.defaults.at[i - without]);
  for (int i = 0; i < by_name->n; i++) keep_default(fr, sc, f->fn, by_name->at[i], a->arguments.kw_defaults.at[i]);
  return f;
}

/* Python raises `name` here, as far as is known. */
static Py *raise(Front *fr, const char *name, const char *why) {
  Project *p = front_project(fr);
  p->raised = name;
  Py *none = py_unknown(fr, "%s", why);
  p->raising = none->library;
  return none;
}

static Py *subscript(Front *fr, HostScope *sc, Node *n) {
  Py *x = host_eval(fr, sc, n->Subscript.value), *index = host_eval(fr, sc, n->Subscript.slice);
  if (x->kind == PY_UNKNOWN) return x;
  if (index->kind == PY_UNKNOWN) return index;
  if (x->kind == PY_CLASS && x->cls->is_enum && index->kind == PY_STR) return host_attribute(fr, x, index->str.s);
  Py *own = host_special(fr, x, "__getitem__", index);
  if (own) return own;
  if (x->kind == PY_DICT && py_hole(index)) return (Py *)py_hole(index);
  const char *why = NULL;
  Py *v = py_subscript(fr, x, index, &why);
  if (v) return v;
  bool counted = (x->kind == PY_TUPLE && !x->tuple.is_set) || (x->kind == PY_STR && py_is_ascii(x));
  if (x->kind == PY_DICT) return raise(fr, "KeyError", why);
  return counted && index->kind == PY_INT ? raise(fr, "IndexError", why) : py_unknown(fr, "%s", why);
}

static Py *bin_op(Front *fr, HostScope *sc, Node *n) {
  Py *a = host_eval(fr, sc, n->BinOp.left), *b = host_eval(fr, sc, n->BinOp.right);
  PyOp op = n->BinOp.op;
  bool divides = op == PYOP_DIV || op == PYOP_FLOOR_DIV || op == PYOP_MOD;
  if (divides && py_is_number(a) && py_is_number(b) && py_as_double(b) == 0)
    return raise(fr, "ZeroDivisionError", "division by zero");
  return host_binary(fr, op, a, b);
}

Py *host_eval(Front *fr, HostScope *sc, Node *n) {
  stack_guard();
  if (front_project(fr)->raising) return py_unknown(fr, "%s", front_project(fr)->raising);
  if (!host_step(fr)) return py_unknown(fr, "a computation that takes too long");
  switch (n->kind) {
    case NODE_NAME: return lookup(fr, sc, n->Name.id);
    case NODE_CONSTANT: {
      const char *why = "bytes";
      Py *v = n->Constant.value.kind == CONST_BYTES ? NULL : py_constant(fr, n, &why);
      return v ? v : py_unknown(fr, "%s", why);
    }
    case NODE_BIN_OP: return bin_op(fr, sc, n);
    case NODE_UNARY_OP: {
      Py *x = host_eval(fr, sc, n->UnaryOp.operand);
      if (x->kind == PY_UNKNOWN) return x;
      const char *why = NULL;
      Py *v = py_unary(fr, n->UnaryOp.op, x, &why);
      return v ? v : py_unknown(fr, "%s", why);
    }
    case NODE_BOOL_OP: return bool_op(fr, sc, n);
    case NODE_COMPARE: return compare(fr, sc, n);
    case NODE_CALL: return call(fr, sc, n);
    case NODE_ATTRIBUTE: return host_attribute(fr, host_eval(fr, sc, n->Attribute.value), n->Attribute.attr);
    case NODE_SUBSCRIPT: return subscript(fr, sc, n);
    case NODE_SLICE: return slice(fr, sc, n);
    case NODE_TUPLE: return display(fr, sc, &n->Tuple.elts, false);
    case NODE_LIST: return display(fr, sc, &n->List.elts, true);
    case NODE_SET: return set_of(fr, display(fr, sc, &n->Set.elts, true));
    case NODE_DICT: return dict_display(fr, sc, n);
    case NODE_IF_EXP: {
      Py *test = host_eval(fr, sc, n->IfExp.test);
      int truth = py_truth_known(test);
      return truth < 0 ? test : host_eval(fr, sc, truth ? n->IfExp.body : n->IfExp.orelse);
    }
    case NODE_NAMED_EXPR: {
      Py *v = host_eval(fr, sc, n->NamedExpr.value);
      host_assign(fr, sc, n->NamedExpr.target, v);
      return v;
    }
    case NODE_JOINED_STR: return f_string(fr, sc, n);
    case NODE_LIST_COMP:
    case NODE_GENERATOR_EXP:
    case NODE_DICT_COMP: return comprehension(fr, sc, n);
    case NODE_SET_COMP: return set_of(fr, comprehension(fr, sc, n));
    case NODE_LAMBDA: return host_function(fr, sc, n);
    default: return py_unknown(fr, "Python's %s", node_name(n->kind));
  }
}

Py *host_eval_at(Front *fr, Namespace *ns, Node *n, int line) {
  Module *m = namespace_module(ns);
  int now = m->now;
  m->now = line;
  Py *v = host_eval_in(fr, ns, n);
  m->now = now;
  return v;
}

Py *host_eval_in(Front *fr, Namespace *ns, Node *n) {
  HostScope sc = {.names = map_create(fr->cx->arena, false), .ns = ns};
  Project *p = front_project(fr);
  const char *outside = p->raising;
  p->raising = NULL; /* a name's value is what its statement gives, whoever asks for it */
  Py *v = host_eval(fr, &sc, n);
  p->raising = outside;
  return v;
}

/* A constexpr's value from the text of a Python expression; names are the kernel's file's, and tl's types. */
Py *host_constexpr(Front *fr, Kernel *k, const char *text, const char *what) {
  Context *cx = fr->cx;
  Source *src =
      source_from_text(cx, arena_printf(cx->arena, "<%s>", what), text ? text : "None", strlen(text ? text : "None"));
  Node *n = parse_expression(cx, src);
  Py *v = host_eval_in(fr, k->fn->around ? k->fn->around : k->module->globals, n);
  if (v->kind == PY_FUNCTION) {
    v = arena_copy(cx->arena, v, sizeof *v);
    v->is_constexpr = true;
  }
  if (v->kind != PY_UNKNOWN) return v;
  const char *last = NULL;
  /* tl.float16 in a file that calls it otherwise; tl.fp16 */
  if (n->kind == NODE_ATTRIBUTE && n->Attribute.value->kind == NODE_NAME) last = n->Attribute.attr;
  if (n->kind == NODE_NAME) last = n->Name.id;
  Dtype d;
  if (last && dtype_parse(last, &d)) return py_dtype(fr, d);
  Py *named = last ? front_hooks.library_lookup(fr, "triton.language", last) : NULL;
  if (named && named->kind == PY_TYPE) return named;
  diag_fail(cx, n->span, "the value of the constexpr `%s` is not known: %s", what, v->library);
}
