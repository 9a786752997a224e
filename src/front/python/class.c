/* Classes of a file: named tuples, @triton.aggregate, enums, dataclasses. A named tuple's instance is a tuple with
 * names; all others are objects with fields. */
#include "front/core.h"

static bool base_is(Front *fr, Namespace *ns, Node *def, const char *name) {
  for (int i = 0; i < def->ClassDef.bases.n; i++) {
    const char *base = namespace_dotted(fr, ns, def->ClassDef.bases.at[i]);
    const char *last = base ? strrchr(base, '.') : NULL;
    if (base && !strcmp(last ? last + 1 : base, name)) return true;
  }
  return false;
}

Py *class_value(Front *fr, Node *def, Namespace *around) {
  Arena *a = fr->cx->arena;
  PyClass *cls = NEW(a, PyClass);
  cls->name = def->ClassDef.name;
  cls->def = def;
  cls->module = around ? namespace_module(around) : fr->module;
  cls->members = map_create(a, true);
  cls->is_namedtuple = base_is(fr, around, def, "NamedTuple");
  cls->is_enum =
      base_is(fr, around, def, "Enum") || base_is(fr, around, def, "IntEnum") || base_is(fr, around, def, "IntFlag");
  for (int i = 0; i < def->ClassDef.decorator_list.n; i++)
    if (decorator_kind(fr, around, def->ClassDef.decorator_list.at[i]) == DECO_AGGREGATE) cls->is_aggregate = true;
  VEC(const char *) fields = {0};
  VEC(Py *) defaults = {0};
  for (int i = 0; i < def->ClassDef.bases.n; i++) { /* fields of a base of this project come first */
    Node *base_node = def->ClassDef.bases.at[i];
    Py *base = base_node->kind == NODE_NAME ? namespace_lookup(fr, around, base_node->Name.id) : NULL;
    if (!base || base->kind != PY_CLASS) continue;
    cls->is_aggregate |= base->cls->is_aggregate;
    cls->is_enum |= base->cls->is_enum;
    for (int k = 0; k < base->cls->field_count; k++) {
      vec_push(a, &fields, base->cls->fields[k]);
      vec_push(a, &defaults, base->cls->defaults[k]);
    }
    for (int k = 0; k < map_count(base->cls->members); k++) {
      const void *name;
      void *v;
      map_entry(base->cls->members, k, &name, &v);
      map_put(cls->members, name, v);
    }
  }
  Namespace *ns = namespace_create(cls->module, around, &def->ClassDef.body, def);
  for (int i = 0; i < def->ClassDef.body.n; i++) {
    Node *s = def->ClassDef.body.at[i];
    if (s->kind == NODE_ANN_ASSIGN && s->AnnAssign.target->kind == NODE_NAME) {
      const char *name = s->AnnAssign.target->Name.id;
      Py *value = s->AnnAssign.value ? namespace_get(fr, ns, name) : NULL;
      vec_push(a, &fields, name);
      vec_push(a, &defaults, value);
      if (value) map_put(cls->members, name, value);
    } else if (s->kind == NODE_ASSIGN && s->Assign.targets.n == 1 && s->Assign.targets.at[0]->kind == NODE_NAME) {
      const char *name = s->Assign.targets.at[0]->Name.id;
      Py *value = namespace_get(fr, ns, name);
      if (cls->is_enum && value) {
        Py *member = py_object(fr, cls, cls->name);
        map_put(member->object.fields, "value", value);
        map_put(member->object.fields, "name", py_str(fr, name));
        value = member;
      }
      if (value) map_put(cls->members, name, value);
    } else if (s->kind == NODE_FUNCTION_DEF) {
      map_put(cls->members, s->FunctionDef.name, function_value(fr, s, around, NULL));
    }
  }
  cls->fields = fields.at;
  cls->defaults = defaults.at;
  cls->field_count = fields.n;
  vec_push(a, &fields, NULL);
  cls->fields = fields.at;
  Py *p = NEW(a, Py);
  p->kind = PY_CLASS;
  p->cls = cls;
  return p;
}

Py *class_member(Front *fr, PyClass *cls, const char *name) { return map_get(cls->members, name); }

static const char *explain(Front *fr, const char *format, const char *a, const char *b) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  return arena_printf(fr->cx->arena, format, a, b);
#pragma GCC diagnostic pop
}

Py *class_bind(Front *fr, PyClass *cls, const Call *call, const char **why) {
  Arena *a = fr->cx->arena;
  if (cls->is_enum) {
    for (int i = 0; i < map_count(cls->members) && call->n == 1; i++) {
      const void *name;
      void *v;
      map_entry(cls->members, i, &name, &v);
      Py *m = v, *value = m->kind == PY_OBJECT ? map_get(m->object.fields, "value") : NULL;
      if (value && py_equal(value, call->args[0])) return m;
    }
    *why = explain(fr, "%s has no such member%s", cls->name, "");
    return NULL;
  }
  Py *init = class_member(fr, cls, "__init__");
  if (init && init->kind == PY_FUNCTION && !cls->is_namedtuple) {
    Py *o = py_object(fr, cls, cls->name);
    if (init->fn->kind == FN_JIT && fr->core) front_hooks.call_function(fr, init->fn, o, call);
    else front_hooks.host_call(fr, py_method_of(fr, o, "__init__", init->fn), call);
    return o;
  }
  Py **values = NEW_N(a, Py *, cls->field_count + 1);
  if (call->n > cls->field_count) {
    *why = arena_printf(a, "%s has %d fields, but %d values are given", cls->name, cls->field_count, call->n);
    return NULL;
  }
  for (int i = 0; i < call->n; i++) values[i] = call->args[i];
  for (int k = 0; k < call->kw_n; k++) {
    int i = 0;
    while (i < cls->field_count && strcmp(cls->fields[i], call->kw_names[k])) i++;
    if (i == cls->field_count) {
      const char *near = nearest_name(call->kw_names[k], cls->fields);
      *why = explain(fr, "%s has no field `%s`", cls->name, call->kw_names[k]);
      if (near) *why = arena_printf(a, "%s; did you mean `%s`?", *why, near);
      return NULL;
    }
    values[i] = call->kw_values[k];
  }
  for (int i = 0; i < cls->field_count; i++) {
    if (!values[i]) values[i] = cls->defaults[i];
    if (!values[i]) {
      *why = explain(fr, "%s needs a value for its field `%s`", cls->name, cls->fields[i]);
      return NULL;
    }
  }
  if (cls->is_namedtuple) {
    Py *t = py_tuple(fr, cls->field_count, values);
    t->tuple.cls = cls;
    return t;
  }
  Py *o = py_object(fr, cls, cls->name);
  for (int i = 0; i < cls->field_count; i++) map_put(o->object.fields, cls->fields[i], values[i]);
  return o;
}

Py *core_construct(Front *fr, PyClass *cls, const Call *call) {
  if (!cls->is_namedtuple && !cls->is_aggregate && !cls->is_enum)
    diag_fail_hint(fr->cx, call->span, "make it a NamedTuple or put @triton.language.core._aggregate above it",
                   "%s is a plain Python class and cannot be constructed in a kernel", cls->name);
  const char *why = NULL;
  Py *v = class_bind(fr, cls, call, &why);
  if (!v) diag_fail(fr->cx, call->span, "%s", why);
  return v;
}
