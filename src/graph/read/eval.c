/* Expressions. */
#include "graph/read/object.h"

Object *name_find(Scope *sc, const char *name) {
  for (; sc; sc = sc->up) {
    Object *v = map_get(sc->names, name);
    if (v) return v;
  }
  return NULL;
}

static Object *lookup(Reader *r, Scope *sc, Node *n) {
  Object *v = name_find(sc, n->Name.id);
  if (!v) v = builtin_name(r, n->Name.id);
  if (!v && sc->is_library) v = map_get(r->library->names, n->Name.id);
  if (!v) read_fail(r, n->span, "the name '%s' is not defined", n->Name.id);
  return v;
}

static Object *constant(Reader *r, Node *n) {
  const ConstValue *v = &n->Constant.value;
  switch (v->kind) {
    case CONST_NONE: return r->none;
    case CONST_TRUE: return r->yes;
    case CONST_FALSE: return r->no;
    case CONST_ELLIPSIS: return object_new(r, O_ELLIPSIS);
    case CONST_INT:
      if (!v->fits) read_fail(r, n->span, "an integer does not fit in 64 bits");
      return object_int(r, v->i);
    case CONST_FLOAT: return object_float(r, v->f);
    case CONST_STR: return object_str(r, v->text);
    case CONST_IMAGINARY: return complex_number(r, 0, v->f);
    default: read_fail(r, n->span, "constants of this kind are not supported");
  }
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static Object *bind(Reader *r, Object *self, Object *function, const char *name) {
  Object *m = object_new(r, O_METHOD);
  m->method.self = self;
  m->method.function = function;
  m->method.name = name;
  return m;
}

/* What a class's member is as an attribute of `self`: an object, or the class itself. */
static Object *member(Reader *r, Span at, Object *self, Object *cls, Object *v, const char *name) {
  if (v->kind != O_FUNCTION || v->function.as == AS_STATIC) return v;
  if (v->function.as == AS_CLASS_METHOD) return bind(r, cls, v, name);
  if (self == cls) return v;
  Object *m = bind(r, self, v, name);
  return v->function.as == AS_PROPERTY ? call_values(r, at, m, 0, NULL) : m;
}

/* Whether the i-th of some words is `name`. */
static bool name_is_word(const char *words, int i, const char *name) {
  for (; i > 0; i--) words = strchr(words, ' ') ? strchr(words, ' ') + 1 : words + strlen(words);
  size_t n = strcspn(words, " ");
  return n == strlen(name) && !memcmp(words, name, n);
}

Object *find_attribute(Reader *r, Span at, Object *x, const char *name) {
  Object *v = NULL;
  switch (x->kind) {
    case O_PATH: {
      const char *path = arena_printf(r->cx->arena, "%s.%s", x->s, name);
      v = path_value(r, path);
      if (v) return v;
      Object *cls = library_function(r, x->s); /* nn.Transformer.generate_square_subsequent_mask */
      v = cls && cls->kind == O_CLASS ? class_find(cls, name) : NULL;
      return v ? member(r, at, cls, cls, v, name) : object_path(r, path);
    }
    case O_COMPLEX:
    case O_TENSOR:
      v = x->kind == O_COMPLEX ? complex_attribute(r, at, x, name) : autograd_attribute(r, x, name);
      if (!v && x->kind == O_TENSOR) v = tensor_attribute(r, at, use_tensor(r, at, x), name);
      if (v) return v;
      v = library_named(r, arena_printf(r->cx->arena, "tensor_%s", name));
      if (!v) v = library_named(r, name);
      if (v) return bind(r, x, v, name);
      if (name[strlen(name) - 1] == '_') {
        const char *plain = arena_strndup(r->cx->arena, name, strlen(name) - 1);
        v = library_named(r, arena_printf(r->cx->arena, "tensor_%s", plain));
        if (!v) v = library_named(r, plain);
        if (!v) break;
        v = bind(r, x, v, name);
        v->method.in_place = true;
        return v;
      }
      break;
    case O_OBJECT: {
      v = map_get(x->object.fields, name);
      if (v) return v;
      Object *parameters = map_get(x->object.fields, intern_z(r->cx, "_names"));
      if (parameters && (v = dict_get(parameters, object_str(r, name)))) return v;
      v = class_find(x->object.cls, name);
      if (v) return member(r, at, x, x->object.cls, v, name);
      if (!v && map_get(x->object.fields, intern_z(r->cx, "_dict")) && class_find(x->object.cls, "__getattr__"))
        v = dict_get(map_get(x->object.fields, intern_z(r->cx, "_dict")), object_str(r, name));
      if (v) return v;
      break;
    }
    case O_TUPLE: /* of names: the n-th word */
      for (int i = 0; x->list.names && i < x->list.n; i++)
        if (name_is_word(x->list.names, i, name)) return x->list.at[i];
      if (has_method(x, name)) return bind(r, x, NULL, name);
      break;
    case O_DTYPE:
      if (!strcmp(name, "is_complex")) return object_bool(r, x->is_complex);
      if (!strcmp(name, "is_floating_point")) return object_bool(r, !x->is_complex && dtype_is_float(x->dtype));
      if (!strcmp(name, "itemsize")) return object_int(r, dtype_bytes(x->dtype) * (x->is_complex ? 2 : 1));
      break;
    case O_STR: /* a device is its name, "cuda:0" */
      if (!strcmp(name, "type")) return object_str(r, arena_strndup(r->cx->arena, x->s, strcspn(x->s, ":")));
      if (has_method(x, name)) return bind(r, x, NULL, name);
      break;
    case O_CLASS:
      v = class_find(x, name);
      if (v) return member(r, at, x, x, v, name);
      if (!strcmp(name, "__name__")) return object_str(r, x->cls.name);
      break;
    case O_SUPER:
      v = x->super.cls ? class_find(x->super.cls, name) : NULL;
      return v ? member(r, at, x->super.self, x->super.self->object.cls, v, name) : bind(r, x->super.self, v, name);
    default:
      if (has_method(x, name)) return bind(r, x, NULL, name);
  }
  return NULL;
}

Object *eval_attribute(Reader *r, Span at, Object *x, const char *name) {
  Object *v = find_attribute(r, at, x, name);
  if (v) return v;
  read_fail(r, at, "%s has no attribute '%s'", object_describe(r, x), name);
}

/* ---- comprehensions ---------------------------------------------------------------------------------------------- */

static void generate(Reader *r, Scope *sc, Node *n, const NodeList *generators, int level, Object *out) {
  stack_guard();
  if (level == generators->n) {
    if (n->kind == NODE_DICT_COMP) dict_put(r, out, eval(r, sc, n->DictComp.key), eval(r, sc, n->DictComp.value));
    else object_append(r, out, eval(r, sc, n->ListComp.elt));
    return;
  }
  Node *g = generators->at[level];
  Object *items = want_items(r, g->span, eval(r, sc, g->comprehension.iter));
  for (int i = 0; i < items->list.n; i++) {
    assign(r, sc, g->comprehension.target, items->list.at[i]);
    bool keep = true;
    for (int k = 0; k < g->comprehension.ifs.n && keep; k++)
      keep = object_truth(r, g->span, eval(r, sc, g->comprehension.ifs.at[k]));
    if (keep) generate(r, sc, n, generators, level + 1, out);
  }
}

static Object *comprehension(Reader *r, Scope *sc, Node *n) {
  Scope inner = {map_create(r->cx->arena, false), sc, sc->is_library, sc->of_class};
  Object *out = object_new(r, n->kind == NODE_DICT_COMP ? O_DICT : O_LIST);
  generate(r, &inner, n, n->kind == NODE_DICT_COMP ? &n->DictComp.generators : &n->ListComp.generators, 0, out);
  return out;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* super(), of the method around, or super(Class, self). */
static Object *eval_super(Reader *r, Scope *sc, Node *n) {
  Object *x = object_new(r, O_SUPER), *cls = NULL;
  if (n->Call.args.n == 2) {
    cls = eval(r, sc, n->Call.args.at[0]);
    x->super.self = eval(r, sc, n->Call.args.at[1]);
  } else if (!n->Call.args.n) {
    Scope *s = sc;
    while (s && !s->of_class) s = s->up;
    if (s) cls = s->of_class;
    if (s) x->super.self = map_get(s->names, intern_z(r->cx, "self"));
  }
  if (!cls || cls->kind != O_CLASS || !x->super.self) read_fail(r, n->span, "super() outside a method");
  x->super.cls = cls->cls.base;
  return x;
}

static Object *eval_call(Reader *r, Scope *sc, Node *n) {
  Arena *a = r->cx->arena;
  Args args = {.span = n->span};
  VEC(Object *) at = {0}, values = {0};
  VEC(const char *) names = {0};
  if (n->Call.func->kind == NODE_NAME && !strcmp(n->Call.func->Name.id, "super")) return eval_super(r, sc, n);
  Object *f = eval(r, sc, n->Call.func);
  for (int i = 0; i < n->Call.args.n; i++) {
    Node *x = n->Call.args.at[i];
    if (x->kind != NODE_STARRED) {
      vec_push(a, &at, eval(r, sc, x));
      continue;
    }
    Object *items = want_items(r, x->span, eval(r, sc, x->Starred.value));
    for (int k = 0; k < items->list.n; k++) vec_push(a, &at, items->list.at[k]);
  }
  for (int i = 0; i < n->Call.keywords.n; i++) {
    Node *k = n->Call.keywords.at[i];
    Object *v = eval(r, sc, k->keyword.value);
    if (k->keyword.arg) {
      vec_push(a, &names, k->keyword.arg);
      vec_push(a, &values, v);
      continue;
    }
    if (v->kind != O_DICT) read_fail(r, n->span, "** of %s", object_describe(r, v));
    for (int d = 0; d < v->dict.n; d++) {
      vec_push(a, &names, intern_z(r->cx, object_text(r, v->dict.keys[d])));
      vec_push(a, &values, v->dict.values[d]);
    }
  }
  args.n = at.n;
  args.at = at.at;
  args.kw_n = names.n;
  args.names = names.at;
  args.values = values.at;
  return call(r, f, &args);
}

static Object *f_string(Reader *r, Scope *sc, Node *n) {
  Buf b = {.arena = r->cx->arena};
  buf_puts(&b, "");
  for (int i = 0; i < n->JoinedStr.values.n; i++) {
    Node *v = n->JoinedStr.values.at[i];
    if (v->kind == NODE_CONSTANT) buf_puts(&b, v->Constant.value.text);
    else buf_puts(&b, object_text(r, eval(r, sc, v->FormattedValue.value)));
  }
  return object_str(r, b.at ? b.at : "");
}

static Object *display(Reader *r, Scope *sc, const NodeList *elts, ObjectKind kind) {
  Object *out = object_new(r, kind);
  for (int i = 0; i < elts->n; i++) {
    Node *e = elts->at[i];
    if (e->kind != NODE_STARRED) {
      object_append(r, out, eval(r, sc, e));
      continue;
    }
    Object *items = want_items(r, e->span, eval(r, sc, e->Starred.value));
    for (int k = 0; k < items->list.n; k++) object_append(r, out, items->list.at[k]);
  }
  return out;
}

static Object *dict_display(Reader *r, Scope *sc, Node *n) {
  Object *d = object_new(r, O_DICT);
  for (int i = 0; i < n->Dict.values.n; i++) {
    Object *v = eval(r, sc, n->Dict.values.at[i]);
    if (n->Dict.keys.at[i]) {
      dict_put(r, d, eval(r, sc, n->Dict.keys.at[i]), v);
      continue;
    }
    if (v->kind != O_DICT) read_fail(r, n->span, "** of %s", object_describe(r, v));
    for (int k = 0; k < v->dict.n; k++) dict_put(r, d, v->dict.keys[k], v->dict.values[k]);
  }
  return d;
}

static Object *evaluate(Reader *r, Scope *sc, Node *n) {
  switch (n->kind) {
    case NODE_NAME: return lookup(r, sc, n);
    case NODE_CONSTANT: return constant(r, n);
    case NODE_BIN_OP: {
      Object *a = eval(r, sc, n->BinOp.left), *b = eval(r, sc, n->BinOp.right);
      return op_binary(r, n->span, n->BinOp.op, a, b);
    }
    case NODE_UNARY_OP: return op_unary(r, n->span, n->UnaryOp.op, eval(r, sc, n->UnaryOp.operand));
    case NODE_BOOL_OP: {
      Object *v = NULL;
      for (int i = 0; i < n->BoolOp.values.n; i++) {
        v = eval(r, sc, n->BoolOp.values.at[i]);
        if (i + 1 < n->BoolOp.values.n && object_truth(r, n->span, v) != (n->BoolOp.op == PYOP_AND)) return v;
      }
      return v;
    }
    case NODE_COMPARE: {
      Object *left = eval(r, sc, n->Compare.left), *v = NULL;
      for (int i = 0; i < n->Compare.ops.n; i++) {
        Object *right = eval(r, sc, n->Compare.comparators.at[i]);
        v = op_compare(r, n->span, n->Compare.ops.at[i], left, right);
        if (i + 1 < n->Compare.ops.n && !object_truth(r, n->span, v)) return v;
        left = right;
      }
      return v;
    }
    case NODE_CALL: return eval_call(r, sc, n);
    case NODE_ATTRIBUTE: return eval_attribute(r, n->span, eval(r, sc, n->Attribute.value), n->Attribute.attr);
    case NODE_SUBSCRIPT: {
      Object *x = eval(r, sc, n->Subscript.value);
      return op_subscript(r, n->span, x, eval(r, sc, n->Subscript.slice));
    }
    case NODE_SLICE: {
      Object *x = object_new(r, O_SLICE);
      x->slice.start = n->Slice.lower ? eval(r, sc, n->Slice.lower) : r->none;
      x->slice.stop = n->Slice.upper ? eval(r, sc, n->Slice.upper) : r->none;
      x->slice.step = n->Slice.step ? eval(r, sc, n->Slice.step) : r->none;
      return x;
    }
    case NODE_TUPLE: return display(r, sc, &n->Tuple.elts, O_TUPLE);
    case NODE_LIST: return display(r, sc, &n->List.elts, O_LIST);
    case NODE_SET: {
      Object *items = display(r, sc, &n->Set.elts, O_LIST);
      return call_values(r, n->span, builtin_name(r, "set"), 1, &items);
    }
    case NODE_DICT: return dict_display(r, sc, n);
    case NODE_IF_EXP: {
      bool yes = object_truth(r, n->span, eval(r, sc, n->IfExp.test));
      return eval(r, sc, yes ? n->IfExp.body : n->IfExp.orelse);
    }
    case NODE_NAMED_EXPR: {
      Object *v = eval(r, sc, n->NamedExpr.value);
      assign(r, sc, n->NamedExpr.target, v);
      return v;
    }
    case NODE_JOINED_STR: return f_string(r, sc, n);
    case NODE_LIST_COMP:
    case NODE_GENERATOR_EXP:
    case NODE_SET_COMP:
    case NODE_DICT_COMP: return comprehension(r, sc, n);
    case NODE_LAMBDA: {
      Object *f = object_new(r, O_FUNCTION);
      f->function.def = n;
      f->function.scope = sc;
      return f;
    }
    default: read_fail(r, n->span, "Python's %s is not supported here", node_name(n->kind));
  }
}

/* torch.zeros(4): memory, of which views are to know (graph_permute makes another constant of a constant) */
static void own_memory(Reader *r, Object *x) {
  if (x->kind == O_TENSOR && x->tensor->op == GRAPH_FULL && !x->tensor->now)
    x->tensor = graph_detach(r->g, x->tensor, x->tensor);
}

Object *eval(Reader *r, Scope *sc, Node *n) {
  stack_guard();
  int before = r->g->at.n;
  Object *x = evaluate(r, sc, n);
  bool makes = n->kind == NODE_CALL || n->kind == NODE_BIN_OP || n->kind == NODE_UNARY_OP || n->kind == NODE_SUBSCRIPT;
  if (n->kind == NODE_CALL && !sc->is_library && !r->sweeping) {
    if (complex_is_tensor(x)) {
      own_memory(r, x->parts.real);
      own_memory(r, x->parts.imag);
    } else own_memory(r, x);
  }
  return r->no_grad && makes && !sc->is_library ? autograd_result(r, x, before) : x;
}
