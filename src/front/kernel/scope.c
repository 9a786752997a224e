/* The names of a kernel's body, and where in the source something stands.
 *
 * A Frame is one activation: the kernel itself, or an inlined call. Its scope is an array of bindings, copied at every
 * branch so that branches.c can compare what the branches did. A binding's stamp grows with each assignment: equal
 * stamps mean "not assigned since". Every operation built while a frame is active carries the span of its expression
 * with the chain of calls after it. */
#include "front/core.h"

/* ---- scopes ------------------------------------------------------------------------------------------------------ */

Scope scope_copy(Front *fr, const Scope *s) {
  Scope c = {NULL, s->n, s->n + 8};
  c.at = NEW_N(fr->cx->arena, Binding, c.cap);
  if (s->n) memcpy(c.at, s->at, sizeof(Binding) * (size_t)s->n);
  return c;
}

Binding *scope_find(Scope *s, const char *name) {
  for (int i = s->n - 1; i >= 0; i--)
    if (s->at[i].name == name) return &s->at[i];
  return NULL;
}

static Binding *scope_slot(Front *fr, Scope *s, const char *name) {
  Binding *b = scope_find(s, name);
  if (b) return b;
  if (s->n == s->cap) {
    int cap = s->cap ? 2 * s->cap : 16;
    Binding *at = NEW_N(fr->cx->arena, Binding, cap);
    if (s->n) memcpy(at, s->at, sizeof(Binding) * (size_t)s->n);
    s->at = at;
    s->cap = cap;
  }
  b = &s->at[s->n++];
  *b = (Binding){.name = name};
  return b;
}

void scope_set(Front *fr, const char *name, Py *value, const Node *where) {
  Core *core = core_of(fr);
  Binding *b = scope_slot(fr, &core->frame->scope, name);
  *b = (Binding){.name = name, .value = value, .where = where, .stamp = ++core->stamp};
  if (value->kind == PY_TENSOR && !value->value->name) value->value->name = name;
}

void scope_undefine(Front *fr, const char *name, const char *why) {
  Core *core = core_of(fr);
  Binding *b = scope_slot(fr, &core->frame->scope, name);
  *b = (Binding){.name = name, .stamp = ++core->stamp, .why = why};
}

NORETURN void fail_unknown_name(Front *fr, Span at, const char *name) {
  Frame *f = core_of(fr)->frame;
  Py *list = py_list(fr, 0, NULL);
  for (int i = 0; i < f->scope.n; i++)
    if (f->scope.at[i].value) py_append(fr, list, py_str(fr, f->scope.at[i].name));
  namespace_names(fr, f->ns, list);
  static const char *const own[] = {"range",      "len",     "min",     "max",   "float", "int",
                                    "isinstance", "getattr", "hasattr", "print", "list"};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) py_append(fr, list, py_str(fr, own[i]));
  const char **names = NEW_N(fr->cx->arena, const char *, list->tuple.n + 1);
  for (int i = 0; i < list->tuple.n; i++) names[i] = list->tuple.at[i]->str.s;
  static const char *const absent[] = {
      "abs", "sum", "round", "bool", "str",      "tuple",  "type",     "slice",   "zip",       "sorted", "any",
      "all", "map", "dict",  "set",  "iter",     "filter", "reversed", "next",    "pow",       "divmod", "repr",
      "ord", "chr", "hash",  "id",   "callable", "open",   "setattr",  "complex", "enumerate", NULL};
  for (int i = 0; absent[i]; i++)
    if (!strcmp(absent[i], name)) {
      const char *hint = i == 0 || i == 1 ? arena_printf(fr->cx->arena, "use tl.%s", name)
                                          : "of Python's functions a kernel has len, list, range, float, int, "
                                            "isinstance, getattr, hasattr, print, min and max";
      diag_fail_hint(diag_as(fr->cx, ERROR_NAME), at, hint, "%s is not defined in a kernel", name);
    }
  const char *near = nearest_name(name, names);
  if (near)
    diag_fail_hint(diag_as(fr->cx, ERROR_NAME), at, arena_printf(fr->cx->arena, "did you mean `%s`?", near),
                   "%s is not defined", name);
  diag_fail(diag_as(fr->cx, ERROR_NAME), at, "%s is not defined", name);
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

/* What prelude.py does is told at the call that uses it: its lines mean nothing to a reader. */
static bool in_prelude(Front *fr, const Frame *f) { return fr->prelude && f->fn->module == fr->prelude && f->site; }

Span core_span(Front *fr, const Node *n) {
  Span s = n->span;
  Core *core = core_of(fr);
  if (!core || !core->frame) return s;
  if (in_prelude(fr, core->frame)) return *core->frame->site;
  s.inlined_at = core->frame->site;
  return s;
}

void core_at(Front *fr, const Node *n) {
  Core *core = core_of(fr);
  if (!core->frame->site) fr->b.span = &n->span;
  else if (in_prelude(fr, core->frame)) fr->b.span = core->frame->site;
  else {
    Span s = core_span(fr, n);
    fr->b.span = arena_copy(fr->cx->arena, &s, sizeof s);
  }
  fr->cx->place = fr->b.span;
}

NORETURN void core_unsupported(Front *fr, const Node *n, const char *what, const char *hint) {
  const char *text = arena_printf(fr->cx->arena, "unsupported AST node type: %s: %s cannot be used in a kernel",
                                  node_name(n->kind), what);
  if (hint) diag_fail_hint(diag_as(fr->cx, ERROR_UNSUPPORTED), core_span(fr, n), hint, "%s", text);
  diag_fail(diag_as(fr->cx, ERROR_UNSUPPORTED), core_span(fr, n), "%s", text);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */
