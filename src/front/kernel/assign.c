/* Assignments in a kernel's body: names, tuples of them, and constants that `x: tl.constexpr` declares. */
#include "front/core.h"

bool core_is_constexpr_annotation(Front *fr, Node *annotation) {
  /* a text is none: Triton evaluates it to itself */
  const char *name =
      annotation->kind == NODE_CONSTANT ? NULL : namespace_dotted(fr, core_of(fr)->frame->ns, annotation);
  size_t n = name ? strlen(name) : 0;
  return n >= 9 && !strcmp(name + n - 9, "constexpr");
}

void core_declare_constexpr(Front *fr, Node *target, Py *value, const Node *where) {
  Frame *f = core_of(fr)->frame;
  const char *name = target->Name.id;
  Binding *old = scope_find(&f->scope, name);
  if (old && old->value) {
    bool again = old->is_declared && old->where == where;
    diag_fail_hint(fr->cx, core_span(fr, target),
                   again ? "the body of a tl.static_range runs once for each value: write the constant where it is used"
                         : "give the constant a name of its own",
                   "%s is already defined. constexpr cannot be reassigned", name);
  }
  if (value->kind == PY_TENSOR ||
      value->kind == PY_BLOCK_PTR) { /* Triton wraps it, and lets the library and plain assignments unwrap it */
    value = arena_copy(fr->cx->arena, value, sizeof *value);
    value->is_constexpr = true;
  }
  if (value->kind == PY_TUPLE && !py_is_runtime(value)) {
    value = arena_copy(fr->cx->arena, value, sizeof *value);
    value->is_constexpr = true;
  }
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

/* A plain assignment makes tensors of numbers; of these it cannot. */
static void check_assigned(Front *fr, Span at, const Py *value) {
  stack_guard();
  switch (value->kind) {
    case PY_TUPLE:
      if (value->is_python) break;
      for (int i = 0; i < value->tuple.n; i++) {
        check_assigned(fr, at, value->tuple.at[i]);
        if (value->tuple.at[i]->kind == PY_TYPE)
          diag_fail_hint(fr->cx, at, "annotate the variable: `x: tl.constexpr = ...`",
                         "'dtype' object has no attribute 'type': a tuple with %s in it cannot be assigned",
                         py_describe(fr, value->tuple.at[i]));
      }
      if (!value->tuple.is_list) return;
      break;
    case PY_RANGE:
      if (value->range.is_tl) return;
      break;
    case PY_OBJECT:
      if (value->object.cls) return;
      break;
    case PY_STR:
    case PY_LIBRARY:
    case PY_MODULE:
    case PY_DICT:
    case PY_FUNCTION:
    case PY_BUILTIN:
    case PY_CONSTEXPR_TYPE: break;
    default: return;
  }
  diag_fail_hint(fr->cx, at,
                 value->is_python ? "annotate the variable, `x: tl.constexpr = ...`, and take its items by x[0], x[1]"
                                  : "annotate the variable: `x: tl.constexpr = ...`",
                 "cannot convert %s of type <class '%s'> to tensor", py_describe(fr, value), py_class_name(value));
}

void core_assign(Front *fr, Node *target, Py *value) {
  stack_guard();
  Context *cx = fr->cx;
  Span at = core_span(fr, target);
  switch (target->kind) {
    case NODE_NAME: {
      Frame *f = core_of(fr)->frame;
      if (f->pending.n && take_pending(f, target->Name.id)) core_declare_constexpr(fr, target, value, target);
      else {
        check_assigned(fr, at, value);
        scope_set(fr, target->Name.id, front_demote(fr, at, value), target);
      }
      return;
    }
    case NODE_LIST: diag_fail_hint(cx, at, "write the names without brackets", "values cannot be unpacked into a list");
    case NODE_TUPLE: {
      int n = target->Tuple.elts.n;
      if (value->is_python) check_assigned(fr, at, value);
      if (value->kind != PY_TUPLE) diag_fail(cx, at, "%s cannot be unpacked into %d names", py_describe(fr, value), n);
      if (value->tuple.n < n) diag_fail(cx, at, "%d values cannot be unpacked into %d names", value->tuple.n, n);
      for (int i = 0; i < n; i++) {
        const Node *part = target->Tuple.elts.at[i];
        if (part->kind == NODE_TUPLE || part->kind == NODE_LIST)
          diag_fail_hint(cx, core_span(fr, part), "unpack in two steps: t, c = ...; a, b = t",
                         "unhashable type: 'list': Triton finds no names in a target within a target");
        core_assign(fr, target->Tuple.elts.at[i], value->tuple.at[i]);
      }
      return;
    }
    case NODE_STARRED: core_unsupported(fr, target, "a starred target", "slice the tuple instead");
    case NODE_SUBSCRIPT:
      diag_fail_hint(cx, at, "tensors are values; use tl.where to build a changed one, or tl.store to write to memory",
                     "__setitem__ is not supported in triton: an item cannot be assigned");
    case NODE_ATTRIBUTE: diag_fail(cx, at, "Attribute assignment is not supported in triton");
    default: diag_fail(cx, at, "this cannot be assigned to");
  }
}
