/* Expressions of a kernel's body. An operand that is a run-time tensor goes to semantic.c; everything else is Python
 * now. */
#include "front/kernel/join.h"

#include <strings.h>

static bool allows_globals(Front *fr) { /* as Triton's knob reads it */
  const FrontHost *host = front_project(fr)->host;
  if (host && host->allow_globals) return true;
  const char *s = environment_get("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS");
  static const char *const yes[] = {"1", "true", "on", "y", "yes"};
  for (size_t i = 0; s && i < sizeof yes / sizeof *yes; i++)
    if (!strcasecmp(s, yes[i])) return true;
  return false;
}

/* Begins as Triton's message does, as all messages do that Triton has words for. */
static void check_global(Front *fr, Span at, const char *name, const Py *v) {
  Context *cx = fr->cx;
  switch (v->kind) {
    case PY_HOST:
      if (v->host.is_module || v->host.is_function || v->is_constexpr || allows_globals(fr)) return;
      diag_fail_hint(diag_as(cx, ERROR_NAME), at,
                     "give the kernel what it holds as a global of its own, made with tl.constexpr(...)",
                     "Cannot access global variable %s from within @jit'ed function: it is %s, and no tl.constexpr",
                     name, v->host.what);
    case PY_BOOL:
    case PY_INT:
    case PY_FLOAT:
    case PY_STR:
    case PY_DICT: break;
    case PY_TUPLE:
      if (!v->tuple.n) return;
      break;
    case PY_CLASS:
      if (v->cls->is_aggregate || v->cls->is_namedtuple || v->is_constexpr || allows_globals(fr)) return;
      diag_fail_hint(
          diag_as(cx, ERROR_NAME), at,
          "give the kernel what it holds as a global of its own, made with tl.constexpr(...)",
          "Cannot access global variable %s from within @jit'ed function: it is a class, and no tl.constexpr", name);
    case PY_UNKNOWN: {
      bool module = !strncmp(v->library, "module ", 7);
      const char *near = builtin_near(fr, v->library);
      diag_fail_hint(diag_as(cx, ERROR_NAME), at,
                     near ? arena_printf(cx->arena, "did you mean `%s`?", near)
                     : module && strstr(v->library, "without a name") ? "the import names what is not in that file"
                     : module ? "put the file where the import finds it, beside this one or above it"
                              : "a kernel needs values that do not depend on the machine or on what runs around it; "
                                "say what it is, or what that depends on: --define NAME=VALUE",
                     "`%s` comes from %s", name,
                     module ? v->library : arena_printf(cx->arena, "something that is not known here: %s", v->library));
    }
    default: return;
  }
  if (v->is_constexpr || allows_globals(fr)) return;
  diag_fail_hint(diag_as(cx, ERROR_NAME), at,
                 arena_printf(cx->arena,
                              "write %s = tl.constexpr(%s) where it is defined, or pass it as a tl.constexpr parameter",
                              name, py_describe(fr, v)),
                 "Cannot access global variable %s from within @jit'ed function: it is a plain %s, and no tl.constexpr",
                 name, py_kind_name(v));
}

Py *core_lookup(Front *fr, Node *n) {
  Frame *f = core_of(fr)->frame;
  const char *name = n->Name.id;
  Binding *b = scope_find(&f->scope, name);
  if (b && b->value) {
    bool argument = b->where && b->where->kind == NODE_ARG;
    if (argument && (b->value->kind == PY_TENSOR || b->value->kind == PY_BLOCK_PTR) && b->value->is_constexpr)
      diag_fail_hint(fr->cx, core_span(fr, n), "leave out `: tl.constexpr` where the caller assigns it",
                     "`%s` was declared tl.constexpr, but is known only at run time (%s)", name,
                     py_describe(fr, b->value));
    return b->value;
  }
  Py *v = host_found(f->fn->closure, name);
  if (!v) v = namespace_lookup(fr, f->ns, name);
  if (v) {
    if (v->kind != PY_FUNCTION && v->kind != PY_LIBRARY) check_global(fr, core_span(fr, n), name, v);
    return v;
  }
  v = builtin_python(fr, name, false);
  if (v) return v;
  if (b && b->ended) { /* Triton allows it and promises no value */
    core_at(fr, n);
    diag_warn(fr->cx, core_span(fr, n), "`%s` has no defined value here: %s", name, b->why);
    return py_tensor(fr, build_int(&fr->b, b->ended, 0));
  }
  if (b)
    diag_fail_hint(diag_as(fr->cx, ERROR_NAME), core_span(fr, n), "give it a value before",
                   "`%s` is not defined here: %s", name, b->why ? b->why : "it has lost its value");
  fail_unknown_name(fr, core_span(fr, n), name);
}

void core_check_annotation(Front *fr, Node *n) {
  stack_guard();
  if (n->kind == NODE_ATTRIBUTE || n->kind == NODE_SUBSCRIPT) {
    core_check_annotation(fr, n->kind == NODE_ATTRIBUTE ? n->Attribute.value : n->Subscript.value);
    return;
  }
  if (n->kind != NODE_NAME) return;
  Frame *f = core_of(fr)->frame;
  const char *name = n->Name.id;
  Binding *b = scope_find(&f->scope, name);
  if ((b && b->value) || host_found(f->fn->closure, name)) return;
  const Py *v = namespace_lookup(fr, f->ns, name);
  bool host_class = v && ((v->kind == PY_CLASS && !v->cls->is_aggregate && !v->cls->is_namedtuple) ||
                          (v->kind == PY_UNKNOWN && !strncmp(v->library, "typing.", 7)));
  if (host_class)
    diag_fail_hint(fr->cx, core_span(fr, n), "Triton evaluates annotations: write a string, or leave it out",
                   "Cannot access global variable %s from within @jit'ed function: it is a class", name);
  if (v || builtin_python(fr, name, false)) return;
  diag_fail_hint(fr->cx, core_span(fr, n), "Triton evaluates annotations: write a string, or leave it out",
                 "%s is not defined", name);
}

void core_check_annotations(Front *fr, const Function *fn) {
  const NodeList *args = &fn->def->FunctionDef.args->arguments.args;
  for (int i = 0; i < args->n; i++)
    if (args->at[i]->arg.annotation) core_check_annotation(fr, args->at[i]->arg.annotation);
}

bool core_is_bare_type(Front *fr, Node *n, const Py *v) {
  stack_guard();
  if (v->kind != PY_TYPE || v->is_constexpr) return false;
  if (n->kind == NODE_NAME) {
    const Binding *b = scope_find(&core_of(fr)->frame->scope, n->Name.id);
    return !b || !b->value || !b->where || (!b->is_declared && b->where->kind != NODE_ARG);
  }
  if (n->kind != NODE_ATTRIBUTE) return false;
  Node *base = n->Attribute.value;
  if (base->kind != NODE_NAME && base->kind != NODE_ATTRIBUTE) return true;
  const Py *x = core_eval(fr, base); /* fields of tuples and objects may hold constexprs */
  return x->kind != PY_TUPLE && x->kind != PY_OBJECT && x->kind != PY_HOST && x->kind != PY_MODULE;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

Py *front_attribute(Front *fr, Span at, Py *x, const char *attr) {
  switch (x->kind) {
    case PY_TENSOR:
    case PY_BLOCK_PTR:
    case PY_DESC: return sem_attribute(fr, at, x, attr);
    case PY_TYPE: {
      Py *v = sem_attribute(fr, at, x, attr);
      if (v) return v;
      break;
    }
    case PY_LIBRARY: {
      Py *v = builtin_lookup(fr, x->library, attr);
      if (v && v->kind != PY_UNKNOWN) return v;
      Py *host = host_library(fr, arena_printf(fr->cx->arena, "%s.%s", x->library, attr));
      return host ? host : v;
    }
    case PY_MODULE: {
      Py *v = import_name(fr, x->module, x, NULL, intern_z(fr->cx, attr));
      return v->kind == PY_UNKNOWN && strstr(v->library, "without a name") ? NULL : v;
    }
    case PY_OBJECT: {
      Py *v = map_get(x->object.fields, attr);
      if (v) return v;
      Py *m = x->object.cls ? class_member(fr, x->object.cls, attr) : NULL;
      if (!m || m->kind != PY_FUNCTION) return m;
      Py *method = py_method_of(fr, x, attr, m->fn);
      return m->fn->is_property ? host_call(fr, method, &(Call){.span = at}) : method;
    }
    case PY_BUILTIN: { /* tl.dtype.SIGNEDNESS, tl.dtype.KIND */
      const char *path = arena_printf(fr->cx->arena, "triton.language.%s.%s", x->builtin.b->name, attr);
      const char *library = !strcmp(x->builtin.b->library, "tl") ? builtin_library(fr, path) : NULL;
      if (library && strstr(library, ".dtype.")) return py_library(fr, library);
      break;
    }
    case PY_CLASS: {
      Py *v = class_member(fr, x->cls, attr);
      if (v) return v;
      break;
    }
    case PY_TUPLE:
      if (x->tuple.cls)
        for (int i = 0; i < x->tuple.cls->field_count; i++)
          if (!strcmp(x->tuple.cls->fields[i], attr)) return x->tuple.at[i];
      if (!strcmp(attr, "values")) return x;
      break;
    case PY_HOST: {
      Py *v = host_attribute_of(fr, x, attr);
      if (v) return v;
      break;
    }
    case PY_FUNCTION:
      if (!strcmp(attr, "__name__")) return py_str(fr, x->fn->name);
      if (!strcmp(attr, "fn")) return x;
      break;
    default: break;
  }
  if (!strcmp(attr, "value")) return x; /* of a constexpr, whatever it holds */
  if (!strcmp(attr, "type")) return sem_type_of(fr, x);
  if (x->kind == PY_TUPLE && !x->tuple.is_list && !x->is_constexpr) return NULL; /* Triton's tuple has fields alone */
  return py_has_method(x, attr) ? py_method_of(fr, x, intern_z(fr->cx, attr), NULL) : NULL;
}

/* In Python's words. */
static const char *no_attribute(Front *fr, const Py *x, const char *attr) {
  Arena *a = fr->cx->arena;
  switch (x->kind) {
    case PY_LIBRARY: return arena_printf(a, "module '%s' has no attribute '%s'", x->library, attr);
    case PY_MODULE: return arena_printf(a, "module '%s' has no attribute '%s'", x->module->name, attr);
    case PY_CLASS: return arena_printf(a, "type object '%s' has no attribute '%s'", x->cls->name, attr);
    case PY_NONE:
    case PY_OBJECT: return arena_printf(a, "'%s' object has no attribute '%s'", py_class_name(x), attr);
    default:
      return arena_printf(a, "'%s' object has no attribute '%s': it is %s", py_class_name(x), attr, py_describe(fr, x));
  }
}

static NORETURN void fail_attribute(Front *fr, Span at, Py *x, const char *attr) {
  Context *cx = fr->cx;
  const char *near = NULL, *hint = NULL;
  switch (x->kind) {
    case PY_LIBRARY:
      if (!strncmp(x->library, "triton.language.", 16) && builtin_lookup(fr, "triton.language", attr))
        hint = arena_printf(cx->arena, "it is tl.%s", attr);
      else near = nearest_name(attr, builtin_names(fr, x->library));
      break;
    case PY_TENSOR: {
      static const char *const own[] = {"dtype", "type", "shape", "numel", "T", "to", NULL};
      near = nearest_name(attr, own);
      if (!near) near = nearest_name(attr, builtin_names(fr, "triton.language"));
      break;
    }
    case PY_TYPE: near = nearest_name(attr, sem_type_attributes(fr)); break;
    case PY_MODULE: {
      Py *list = py_list(fr, 0, NULL);
      namespace_names(fr, x->module->globals, list);
      const char **names = NEW_N(cx->arena, const char *, list->tuple.n + 1);
      for (int i = 0; i < list->tuple.n; i++) names[i] = list->tuple.at[i]->str.s;
      near = nearest_name(attr, names);
      break;
    }
    case PY_OBJECT:
    case PY_CLASS: break;
    case PY_TUPLE:
      if (x->tuple.cls) near = nearest_name(attr, x->tuple.cls->fields);
      break;
    case PY_INT:
    case PY_BOOL:
    case PY_FLOAT:
      if (py_is_number(x) && (!strcmp(attr, "to") || !strcmp(attr, "dtype") || !strcmp(attr, "type") ||
                              !strcmp(attr, "shape") || !strcmp(attr, "cast"))) {
        hint = x->kind == PY_INT && x->i == 1
                   ? "an integer argument that equals 1 is a constexpr: use tl.cast(x, dtype), which takes both, "
                     "annotate the parameter with its type, or list it in do_not_specialize"
                   : "tl.cast(x, dtype) takes constants and tensors alike";
        diag_fail_hint(cx, at, hint, "'%s' object has no attribute '%s': the constexpr %s is no tensor",
                       py_class_name(x), attr, py_describe(fr, x));
      }
      near = nearest_name(attr, py_method_names(x));
      break;
    case PY_NONE: hint = "test `is not None` first"; break;
    default: near = nearest_name(attr, py_method_names(x)); break;
  }
  if (near && strcmp(near, attr)) hint = arena_printf(cx->arena, "did you mean `%s`?", near);
  const char *text = no_attribute(fr, x, attr);
  if (hint) diag_fail_hint(cx, at, hint, "%s", text);
  diag_fail(cx, at, "%s", text);
}

static bool is_declared_tensor(const Py *p) { return p && p->kind == PY_TENSOR && p->is_constexpr; }

static Py *eval_attribute(Front *fr, Node *n) {
  Py *x = core_eval(fr, n->Attribute.value);
  core_at(fr, n);
  if (!strcmp(n->Attribute.attr, "value") && core_is_bare_type(fr, n->Attribute.value, x))
    diag_fail_hint(fr->cx, core_span(fr, n), "leave out `.value`: only constexprs have it",
                   "'dtype' object has no attribute 'value': it is %s", py_describe(fr, x));
  if (is_declared_tensor(x) && !strcmp(n->Attribute.attr, "value")) return py_tensor(fr, x->value);
  Py *v = front_attribute(fr, core_span(fr, n), x, n->Attribute.attr);
  if (!v && x->is_returned)
    v = front_attribute(fr, core_span(fr, n), py_tensor(fr, sem_to_value(fr, core_span(fr, n), x, "a number")),
                        n->Attribute.attr);
  if (!v) fail_attribute(fr, core_span(fr, n), x, n->Attribute.attr);
  if (v->kind == PY_UNKNOWN) {
    const char *near = builtin_near(fr, v->library);
    diag_fail_hint(fr->cx, core_span(fr, n), near ? arena_printf(fr->cx->arena, "did you mean `%s`?", near) : NULL,
                   "`%s` is not known to a kernel: %s", n->Attribute.attr, v->library);
  }
  return v;
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

/* A method such as __add__ or __getitem__ of an aggregate, or NULL. */
static Py *operator_method(Front *fr, Py *x, const char *name) {
  if (x->kind != PY_OBJECT || !x->object.cls) return NULL;
  Py *m = class_member(fr, x->object.cls, intern_z(fr->cx, name));
  return m && m->kind == PY_FUNCTION ? py_method_of(fr, x, name, m->fn) : NULL;
}

/* Where no operand is a tensor in Triton's eyes, one that a declaration wrapped makes its operator fail. */
static void check_constexpr_operands(Front *fr, Span at, const Py *a, const Py *b) {
  bool wrapped = is_declared_tensor(a) || is_declared_tensor(b);
  bool tensor = (a->kind == PY_TENSOR && !a->is_constexpr) || (b && b->kind == PY_TENSOR && !b->is_constexpr);
  if (!wrapped || tensor) return;
  const Py *p = is_declared_tensor(a) ? a : b;
  py_fail_declared(fr, at, p);
}

Py *core_binary(Front *fr, Span at, PyOp op, Py *a, Py *b) {
  if (op == PYOP_MAT_MULT)
    diag_fail_hint(fr->cx, at, "use tl.dot(a, b)", "AST binary operator 'MatMult' is not (currently) implemented");
  a = py_number_of(a), b = py_number_of(b);
  bool ta = a->kind == PY_TENSOR, tb = b->kind == PY_TENSOR;
  if (ta || tb) {
    check_constexpr_operands(fr, at, a, b);
    if (op == PYOP_POW)
      diag_fail_hint(fr->cx, at, "multiply, or use libdevice.pow",
                     "'tensor' object has no attribute '%s': `**` does not work on tensors",
                     ta ? "__pow__" : "__rpow__");
    return sem_binary(fr, at, op, a, b);
  }
  static const char *const methods[] = {[PYOP_ADD] = "__add__",
                                        [PYOP_SUB] = "__sub__",
                                        [PYOP_MULT] = "__mul__",
                                        [PYOP_DIV] = "__truediv__",
                                        [PYOP_FLOOR_DIV] = "__floordiv__",
                                        [PYOP_MOD] = "__mod__"};
  if (op < sizeof methods / sizeof *methods && methods[op]) {
    Py *m = operator_method(fr, a, methods[op]);
    if (m) return front_call_values(fr, m, at, 1, &b);
  }
  const char *why = NULL;
  if (op == PYOP_ADD && a->is_python && b->kind == PY_TUPLE && !b->is_python && !b->tuple.is_list)
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "write the items out, as in (x[0], x[1], 4)",
                   "can only concatenate tuple (not \"tuple\") to tuple: %s is Python's, in a constexpr, and %s is "
                   "Triton's",
                   py_describe(fr, a), py_describe(fr, b));
  if (op == PYOP_MULT && b->kind == PY_TUPLE && !b->is_python && a->kind == PY_INT && !b->tuple.is_list)
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "write the tuple first",
                   "unsupported operand type(s) for *: 'int' and 'tuple'");
  Py *v = py_binary(fr, op, a, b, &why);
  if (!v) diag_fail(fr->cx, at, "%s", why);
  if (a->is_python || (op == PYOP_MULT && b->is_python)) v = core_python_tuple(fr, v);
  return v;
}

static Py *eval_unary(Front *fr, Node *n) {
  Py *x = core_eval(fr, n->UnaryOp.operand);
  core_at(fr, n);
  Span at = core_span(fr, n);
  if (x->kind == PY_TENSOR) {
    check_constexpr_operands(fr, at, x, NULL);
    if (n->UnaryOp.op == PYOP_U_ADD)
      diag_fail(fr->cx, at, "'tensor' object has no attribute '__pos__': unary `+` does not work on tensors");
    return sem_unary(fr, at, n->UnaryOp.op, x);
  }
  if (n->UnaryOp.op == PYOP_NOT && x->kind == PY_TUPLE && !x->tuple.is_list && !x->is_constexpr)
    diag_fail_hint(diag_as(fr->cx, ERROR_UNSUPPORTED), at, "compare its length: len(x) == 0",
                   "AST unary operator '__not__' is not (currently) implemented on type tuple");
  const char *why = NULL;
  Py *v = py_unary(fr, n->UnaryOp.op, x, &why);
  if (!v) diag_fail(fr->cx, at, "%s", why);
  return v;
}

/* One made in a kernel, which is Triton's; a constexpr's is Python's own. */
static bool is_kernel_tuple(const Py *p) { return p->kind == PY_TUPLE && !p->is_python; }

/* Triton compares the lists of two tuples, as Python does: what is one object is equal, the rest is compared up to the
 * first that differs. A tensor there cannot be compared, nor a tuple with what is none. */
static bool tuples_equal(Front *fr, Span at, const Py *a, const Py *b) {
  stack_guard();
  if (a == b) return true;
  if (a->kind == PY_TENSOR && b->kind == PY_TENSOR && a->value == b->value) return true;
  if (a->kind == PY_TYPE && b->kind != PY_TYPE) return false;
  if (a->kind == PY_TENSOR || b->kind == PY_TENSOR)
    diag_fail_hint(fr->cx, at, "compare the items one by one",
                   "Did you forget to add @triton.jit ? (`_semantic` argument must be provided outside of JIT "
                   "functions.): %s and %s are items of tuples that are compared",
                   py_describe(fr, a), py_describe(fr, b));
  if (!is_kernel_tuple(a) && !is_kernel_tuple(b)) return py_equal(a, b);
  const Py *other = a->kind != PY_TUPLE ? a : b;
  if (other->kind != PY_TUPLE)
    diag_fail(fr->cx, at, "'%s' object has no attribute 'values': %s and %s are compared", py_class_name(other),
              py_describe(fr, a), py_describe(fr, b));
  if (a->tuple.n != b->tuple.n) return false;
  for (int i = 0; i < a->tuple.n; i++)
    if (!tuples_equal(fr, at, a->tuple.at[i], b->tuple.at[i])) return false;
  return true;
}

static Py *compare_pair(Front *fr, Span at, PyOp op, Py *a, Py *b) {
  if (op != PYOP_IS && op != PYOP_IS_NOT) a = py_number_of(a), b = py_number_of(b);
  if (op == PYOP_IS || op == PYOP_IS_NOT) {
    const char *why = NULL;
    return py_compare(fr, op, a, b, &why);
  }
  if (op != PYOP_IN && op != PYOP_NOT_IN && (a->kind == PY_TENSOR || b->kind == PY_TENSOR)) {
    check_constexpr_operands(fr, at, a, b);
    if (a->kind == PY_NONE || b->kind == PY_NONE)
      diag_fail_hint(fr->cx, at, "write `is None` or `is not None`",
                     "cannot convert None to tensor: a tensor cannot be compared with None");
    return sem_compare(fr, at, op, a, b);
  }
  if (op == PYOP_IN || op == PYOP_NOT_IN)
    diag_fail_hint(fr->cx, at, "compare with each value: `a == 1 or a == 2`",
                   "AST comparison operator '%s' is not (currently) implemented", op == PYOP_IN ? "In" : "NotIn");
  if (a->kind == PY_VOID || b->kind == PY_VOID) diag_fail(fr->cx, at, "void cannot be compared: it is no value");
  if (is_kernel_tuple(a) || is_kernel_tuple(b)) {
    if (op == PYOP_EQ || op == PYOP_NOT_EQ) return py_bool(fr, tuples_equal(fr, at, a, b) == (op == PYOP_EQ));
    diag_fail(fr->cx, at, "'%s' not supported between instances of '%s' and '%s': %s and %s", pyop_symbol(op),
              py_class_name(a), py_class_name(b), py_describe(fr, a), py_describe(fr, b));
  }
  const char *why = NULL;
  Py *v = py_compare(fr, op, a, b, &why);
  if (!v) diag_fail(fr->cx, at, "%s", why);
  return v;
}

/* A text or number of the file's that is no object of another's: Python keeps one of each integer from -5 to 256. */
static bool is_object_of_its_own(const Node *n, const Py *v) {
  return n->kind == NODE_CONSTANT && (v->kind == PY_STR || v->kind == PY_FLOAT || (v->kind == PY_INT && v->i > 256));
}

static Py *eval_compare(Front *fr, Node *n) {
  Span at = core_span(fr, n);
  if (n->Compare.ops.n > 1)
    diag_fail_hint(fr->cx, at, "write (a < b) & (b < c); of constexprs, a < b and b < c",
                   "simultaneous multiple comparison is not supported");
  Py *left = core_eval(fr, n->Compare.left), *right = core_eval(fr, n->Compare.comparators.at[0]);
  core_at(fr, n);
  PyOp op = n->Compare.ops.at[0];
  if ((op == PYOP_IS || op == PYOP_IS_NOT) &&
      (is_object_of_its_own(n->Compare.left, left) || is_object_of_its_own(n->Compare.comparators.at[0], right))) {
    diag_warn(fr->cx, at, "`%s` compares objects, of which a literal is one of its own: write `%s`", pyop_symbol(op),
              op == PYOP_IS ? "==" : "!=");
    return py_bool(fr, op == PYOP_IS_NOT);
  }
  return compare_pair(fr, at, op, left, right);
}

/* Constants short-circuit; of run-time operands all are evaluated. */
static Py *eval_bool_op(Front *fr, Node *n) {
  bool is_and = n->BoolOp.op == PYOP_AND;
  Py *result = NULL, *last = NULL;
  for (int i = 0; i < n->BoolOp.values.n; i++) {
    Py *v = last = core_eval(fr, n->BoolOp.values.at[i]);
    core_at(fr, n);
    if (v->kind != PY_TENSOR) {
      bool truth = py_truth(fr, core_span(fr, n->BoolOp.values.at[i]), v);
      if (truth != is_and) return v;
      continue;
    }
    result = result ? sem_logical(fr, core_span(fr, n), n->BoolOp.op, result, v) : v;
  }
  return result ? result : last;
}

/* ---- subscripts -------------------------------------------------------------------------------------------------- */

static Py *eval_slice(Front *fr, Node *n) {
  Py *p = NEW(fr->cx->arena, Py);
  p->kind = PY_SLICE;
  p->slice.start = n->Slice.lower ? core_eval(fr, n->Slice.lower) : py_none(fr);
  p->slice.stop = n->Slice.upper ? core_eval(fr, n->Slice.upper) : py_none(fr);
  p->slice.step = n->Slice.step ? core_eval(fr, n->Slice.step) : py_none(fr);
  return p;
}

static Py *eval_subscript(Front *fr, Node *n) {
  Py *x = core_eval(fr, n->Subscript.value), *index = core_eval(fr, n->Subscript.slice);
  core_at(fr, n);
  Span at = core_span(fr, n);
  check_constexpr_operands(fr, at, x, NULL);
  if (x->kind == PY_TENSOR) return sem_subscript(fr, at, x, index);
  Py *m = operator_method(fr, x, "__getitem__");
  if (m) return front_call_values(fr, m, at, 1, &index);
  const char *why = NULL;
  if (x->is_python && index->kind == PY_SLICE)
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "take the items one by one",
                   "tuple indices must be integers or slices, not slice: %s is Python's, in a constexpr",
                   py_describe(fr, x));
  Py *v = py_subscript(fr, x, index, &why);
  if (!v) diag_fail(fr->cx, at, "%s", why);
  return x->is_python ? core_python_tuple(fr, v) : v;
}

/* ---- calls, displays --------------------------------------------------------------------------------------------- */

Call *core_make_call(Front *fr, Node *n) {
  Arena *a = fr->cx->arena;
  Call *call = NEW(a, Call);
  VEC(Py *) args = {0};
  VEC(Span) spans = {0};
  call->span = core_span(fr, n);
  for (int i = 0; i < n->Call.args.n; i++) {
    Node *arg = n->Call.args.at[i];
    if (arg->kind == NODE_STARRED) {
      Py *items = core_eval(fr, arg->Starred.value);
      if (items->kind != PY_TUPLE || items->is_python)
        diag_fail(fr->cx, core_span(fr, arg), "only a tuple can be spread with `*`, not %s%s", py_describe(fr, items),
                  items->is_python ? ", which is Python's, in a constexpr" : "");
      for (int k = 0; k < items->tuple.n; k++) {
        vec_push(a, &args, items->tuple.at[k]);
        vec_push(a, &spans, core_span(fr, arg));
      }
    } else {
      vec_push(a, &args, core_eval(fr, arg));
      vec_push(a, &spans, core_span(fr, arg));
    }
  }
  call->n = args.n;
  VEC(const char *) names = {0};
  for (int i = 0; i < n->Call.keywords.n; i++) {
    Node *k = n->Call.keywords.at[i];
    Py *v = core_eval(fr, k->keyword.value);
    if (k->keyword.arg) {
      vec_push(a, &names, k->keyword.arg);
      vec_push(a, &args, v);
      vec_push(a, &spans, core_span(fr, k));
      continue;
    }
    if (v->kind != PY_DICT) diag_fail(fr->cx, core_span(fr, k), "only a dict can be spread with `**`");
    for (int d = 0; d < v->dict.n; d++)
      if (v->dict.keys[d]->kind == PY_STR) {
        vec_push(a, &names, intern_z(fr->cx, v->dict.keys[d]->str.s));
        vec_push(a, &args, v->dict.values[d]);
        vec_push(a, &spans, core_span(fr, k));
      }
  }
  call->args = args.at;
  call->kw_n = names.n;
  call->kw_names = names.at;
  call->kw_values = args.n ? args.at + call->n : NULL;
  call->arg_spans = spans.at;
  return call;
}

static Py *eval_call(Front *fr, Node *n) {
  Py *callee = core_eval(fr, n->Call.func);
  Call *call = core_make_call(fr, n);
  core_at(fr, n);
  return front_call(fr, callee, call);
}

static Py *eval_display(Front *fr, Node *n) {
  Py *t = py_tuple(fr, 0, NULL);
  for (int i = 0; i < n->Tuple.elts.n; i++) {
    Node *e = n->Tuple.elts.at[i];
    Py *item = core_eval(fr, e);
    bool of_python = item->kind == PY_BUILTIN && !strcmp(item->builtin.b->library, "python");
    if (of_python || item->kind == PY_MODULE || item->kind == PY_LIBRARY || item->kind == PY_CONSTEXPR_TYPE)
      diag_fail_hint(fr->cx, core_span(fr, e), of_python ? "ask for one type at a time" : NULL,
                     "'%s' object has no attribute 'type': %s cannot be in a kernel's tuple", py_class_name(item),
                     py_describe(fr, item));
    py_append(fr, t, item);
  }
  return t; /* a list, too: Triton makes a tuple of it */
}

static Py *eval_comprehension(Front *fr, Node *n) {
  if (n->ListComp.generators.n != 1) diag_fail(fr->cx, core_span(fr, n), "nested comprehensions are not supported");
  Node *g = n->ListComp.generators.at[0];
  if (g->comprehension.ifs.n)
    diag_warn(fr->cx, core_span(fr, g->comprehension.ifs.at[0]),
              "a comprehension's `if` has no effect, as in Triton: all elements are kept");
  Py *over = core_eval(fr, g->comprehension.iter);
  Py *items = over->kind == PY_TUPLE && !over->tuple.is_list && !over->is_python ? py_items(fr, over) : NULL;
  if (!items)
    diag_fail_hint(fr->cx, core_span(fr, g->comprehension.iter),
                   over->kind == PY_RANGE ? "write the tuple out, or loop with tl.static_range" : NULL,
                   "only tuple comprehensions are supported, and this is one over %s%s", py_describe(fr, over),
                   over->is_python ? ", which is Python's, in a constexpr" : "");
  Py *out = py_tuple(fr, 0, NULL);
  for (int i = 0; i < items->tuple.n; i++) {
    Node *t = g->comprehension.target;
    if (t->kind == NODE_NAME) scope_set(fr, t->Name.id, items->tuple.at[i], t);
    else core_assign(fr, t, items->tuple.at[i]);
    py_append(fr, out, core_eval(fr, n->ListComp.elt));
  }
  return out;
}

static Py *eval_f_string(Front *fr, Node *n) {
  Buf out = {.arena = fr->cx->arena};
  for (int i = 0; i < n->JoinedStr.values.n; i++) {
    Node *v = n->JoinedStr.values.at[i];
    if (v->kind == NODE_CONSTANT) {
      buf_write(&out, v->Constant.value.text, v->Constant.value.size);
      continue;
    }
    Py *x = core_eval(fr, v->FormattedValue.value);
    if (py_is_runtime(x))
      diag_fail_hint(fr->cx, core_span(fr, v), "use tl.device_print for run-time values",
                     "Cannot evaluate f-string containing non-constexpr conversion values, found conversion of %s",
                     py_describe(fr, x));
    const char *why = NULL;
    Py *text = py_format(fr, x, v->FormattedValue.conversion, NULL, &why); /* Triton passes over {N:>8} */
    buf_write(&out, text->str.s, text->str.n);
  }
  Py *r = py_str_n(fr, out.at ? out.at : "", out.n);
  buf_destroy(&out);
  return r;
}

static Py *eval_walrus(Front *fr, Node *n) {
  Py *v = core_eval(fr, n->NamedExpr.value);
  core_at(fr, n);
  core_assign(fr, n->NamedExpr.target, v);
  return core_lookup(fr, n->NamedExpr.target);
}

int constexpr_condition(Front *fr, Span at, Py *cond) {
  cond = py_number_of(cond);
  if (cond->kind == PY_BOOL || cond->kind == PY_INT) return cond->i != 0;
  if (cond->kind == PY_NONE) return 0;
  const char *hint = cond->kind == PY_STR ? "compare it: `if NAME == \"...\"` or `if NAME != \"\"`"
                     : cond->kind == PY_BLOCK_PTR || cond->kind == PY_DESC ? "write `is not None`"
                                                                           : "compare it, or test `is not None`";
  diag_fail_hint(fr->cx, at, hint,
                 "`if` conditionals can only accept values of type {bool, int, NoneType}, not objects of type %s: %s",
                 py_kind_name(cond), py_describe(fr, cond));
}

static Py *eval_ternary(Front *fr, Node *n) {
  Py *cond = core_eval(fr, n->IfExp.test);
  core_at(fr, n);
  if (cond->kind != PY_TENSOR || cond->is_constexpr)
    return core_eval(fr, constexpr_condition(fr, core_span(fr, n->IfExp.test), cond) ? n->IfExp.body : n->IfExp.orelse);
  Value *c = sem_condition(fr, core_span(fr, n->IfExp.test), cond);
  const Span *span = fr->b.span;
  Builder outer = fr->b;
  Py *side[2];
  Join j = {.fr = fr, .a = block_create(fr->func, NULL), .b = block_create(fr->func, NULL)};
  for (int i = 0; i < 2; i++) {
    fr->b.block = i ? j.b : j.a;
    fr->b.before = NULL;
    side[i] = core_eval(fr, i ? n->IfExp.orelse : n->IfExp.body);
    core_at(fr, n);
    if (side[i]->kind == PY_TUPLE)
      diag_fail_hint(fr->cx, core_span(fr, n), "choose each element",
                     "cannot convert %s to tensor: a run-time condition chooses between tensors and numbers only",
                     py_describe(fr, side[i]));
    side[i] = front_demote(fr, core_span(fr, n), side[i]);
    if (side[i]->kind != PY_TENSOR && side[i]->kind != PY_BLOCK_PTR && side[i]->kind != PY_VOID)
      diag_fail_hint(fr->cx, core_span(fr, n), "a run-time condition chooses between tensors and numbers only",
                     "cannot convert %s of type <class '%s'> to tensor", py_describe(fr, side[i]),
                     py_class_name(side[i]));
  }
  fr->b = outer;
  if (!py_same_type(side[0], side[1]))
    diag_fail_hint(fr->cx, core_span(fr, n),
                   "both sides must have one type; write the constant with the type's kind (1.0, not 1) or cast",
                   "Ternary expression with dynamic condition has inconsistent types %s and %s",
                   py_describe(fr, side[0]), py_describe(fr, side[1]));
  Merge m = join_py(&j, side[0], side[1]);
  Op *op = join_build(&j, c, span);
  return join_result(fr, &m, op);
}

Py *core_eval(Front *fr, Node *n) {
  stack_guard();
  context_step(fr->cx, 1);
  switch (n->kind) {
    case NODE_NAME: return core_lookup(fr, n);
    case NODE_CONSTANT: {
      const char *why = NULL;
      Py *v = py_constant(fr, n, &why);
      if (!v) diag_fail(fr->cx, core_span(fr, n), "%s", why);
      return v;
    }
    case NODE_BIN_OP: {
      Py *a = core_eval(fr, n->BinOp.left), *b = core_eval(fr, n->BinOp.right);
      core_at(fr, n);
      return core_binary(fr, core_span(fr, n), n->BinOp.op, a, b);
    }
    case NODE_UNARY_OP: return eval_unary(fr, n);
    case NODE_BOOL_OP: return eval_bool_op(fr, n);
    case NODE_COMPARE: return eval_compare(fr, n);
    case NODE_CALL: return eval_call(fr, n);
    case NODE_ATTRIBUTE: return eval_attribute(fr, n);
    case NODE_SUBSCRIPT: return eval_subscript(fr, n);
    case NODE_SLICE: return eval_slice(fr, n);
    case NODE_TUPLE:
    case NODE_LIST: return eval_display(fr, n);
    case NODE_IF_EXP: return eval_ternary(fr, n);
    case NODE_NAMED_EXPR: return eval_walrus(fr, n);
    case NODE_JOINED_STR: return eval_f_string(fr, n);
    case NODE_LIST_COMP: return eval_comprehension(fr, n);
    case NODE_LAMBDA: core_unsupported(fr, n, "`lambda`", "define the function outside, under @triton.jit");
    case NODE_DICT: core_unsupported(fr, n, "a dict", "use a tuple");
    case NODE_SET: core_unsupported(fr, n, "a set", "use a tuple");
    case NODE_GENERATOR_EXP: core_unsupported(fr, n, "a generator", "use a list comprehension over a tuple");
    case NODE_SET_COMP:
    case NODE_DICT_COMP: core_unsupported(fr, n, "a set or dict comprehension", NULL);
    case NODE_STARRED: core_unsupported(fr, n, "`*` here", "add the tuples: t + (x,)");
    case NODE_AWAIT:
    case NODE_YIELD:
    case NODE_YIELD_FROM: core_unsupported(fr, n, "`await` and `yield`", NULL);
    default: core_unsupported(fr, n, node_name(n->kind), NULL);
  }
}
