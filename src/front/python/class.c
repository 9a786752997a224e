/* Classes of a file: named tuples, @triton.aggregate, enums, dataclasses. A named tuple's instance is a tuple with
 * names; all others are objects with fields. */
#include "front/core.h"

static bool is_named(Front *fr, Namespace *ns, Node *def, int base, const char *name) {
  const char *dotted = namespace_dotted(fr, ns, def->ClassDef.bases.at[base]);
  const char *last = dotted ? strrchr(dotted, '.') : NULL;
  return dotted && !strcmp(last ? last + 1 : dotted, name);
}

static bool base_is(Front *fr, Namespace *ns, Node *def, const char *name) {
  for (int i = 0; i < def->ClassDef.bases.n; i++)
    if (is_named(fr, ns, def, i, name)) return true;
  return false;
}

bool class_is(const PyClass *cls, const PyClass *other) {
  stack_guard();
  if (cls == other || (cls->def && cls->def == other->def)) return true;
  for (int i = 0; i < cls->bases.n; i++)
    if (class_is(cls->bases.at[i], other)) return true;
  return false;
}

static bool have_common_base(const PyClass *a, const PyClass *b) {
  stack_guard();
  if (class_is(b, a)) return true;
  for (int i = 0; i < a->bases.n; i++)
    if (have_common_base(a->bases.at[i], b)) return true;
  return false;
}

static const char *decorator_name(Front *fr, Namespace *ns, const Node *d) {
  if (d->kind == NODE_CALL) d = d->Call.func;
  const char *name = namespace_dotted(fr, ns, d), *last = name ? strrchr(name, '.') : NULL;
  return last ? last + 1 : name ? name : "";
}

/* A method, a property, or something unknown where a decorator makes another thing of it. */
static Py *method_value(Front *fr, Node *def, Namespace *around) {
  Py *f = function_value(fr, def, around, NULL);
  for (int i = 0; i < def->FunctionDef.decorator_list.n; i++) {
    const Node *d = def->FunctionDef.decorator_list.at[i];
    const char *name = decorator_name(fr, around, d);
    if (!strcmp(name, "property") || !strcmp(name, "cached_property")) f->fn->is_property = true;
    else if (decorator_kind(fr, around, d) == DECO_OTHER && strcmp(name, "staticmethod"))
      return py_unknown(fr, "a method under the decorator %s", name);
  }
  return f;
}

static void inherit(Front *fr, PyClass *cls, const PyClass *base) {
  cls->is_aggregate |= base->is_aggregate;
  cls->is_enum |= base->is_enum;
  cls->is_number |= base->is_number;
  vec_push(fr->cx->arena, &cls->bases, base);
  for (int k = 0; k < map_count(base->members); k++) {
    const void *name;
    void *v;
    map_entry(base->members, k, &name, &v);
    map_put(cls->members, name, v);
  }
}

typedef struct Fields {
  VEC(const char *) names;
  VEC(Py *) defaults;
} Fields;

/* One that a base has keeps its place. */
static void put_field(Front *fr, Fields *f, const char *name, Py *value) {
  for (int i = 0; i < f->names.n; i++) {
    if (strcmp(f->names.at[i], name)) continue;
    f->defaults.at[i] = value;
    return;
  }
  vec_push(fr->cx->arena, &f->names, name);
  vec_push(fr->cx->arena, &f->defaults, value);
}

/* What decorators make of a class: a function of the file is called; those of libraries that leave it as it is are
 * listed; of others nobody knows. */
static Py *decorated(Front *fr, Namespace *around, const Node *def, Py *cls) {
  static const char *const leave[] = {"dataclass", "total_ordering", "unique", "final", "runtime_checkable", NULL};
  for (int i = def->ClassDef.decorator_list.n - 1; i >= 0; i--) {
    Node *d = def->ClassDef.decorator_list.at[i];
    const char *name = decorator_name(fr, around, d);
    bool leaves = decorator_kind(fr, around, d) != DECO_OTHER;
    for (int k = 0; leave[k]; k++) leaves |= !strcmp(name, leave[k]);
    if (leaves) continue;
    Py *with = front_hooks.host_eval_at(fr, around ? around : fr->module->globals, d, def->span.line);
    cls = with->kind == PY_FUNCTION && with->fn->kind != FN_JIT
              ? front_hooks.host_call(fr, with, &(Call){.n = 1, .args = &cls, .span = d->span})
              : py_unknown(fr, "a class under the decorator %s", name);
  }
  return cls;
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
  for (int i = 0; i < def->ClassDef.decorator_list.n; i++) {
    const Node *d = def->ClassDef.decorator_list.at[i], *eq = decorator_keyword(d, "eq");
    if (decorator_kind(fr, around, d) == DECO_AGGREGATE) cls->is_aggregate = true;
    if (!strcmp(decorator_name(fr, around, d), "dataclass")) cls->is_dataclass = !eq;
  }
  if (def->ClassDef.keywords.n) return py_unknown(fr, "%s, a class with a metaclass or options", cls->name);
  Fields fields = {0};
  for (int i = def->ClassDef.bases.n - 1; i >= 0; i--) { /* of bases of this project; what the first has holds */
    Node *base_node = def->ClassDef.bases.at[i];
    Py *base = base_node->kind == NODE_NAME ? namespace_lookup(fr, around, base_node->Name.id) : NULL;
    if (!base || base->kind != PY_CLASS) continue;
    for (int k = 0; k < cls->bases.n; k++)
      if (have_common_base(cls->bases.at[k], base->cls))
        return py_unknown(fr, "%s, a class whose bases have a base in common", cls->name);
    if (class_member(fr, base->cls, "__init_subclass__"))
      return py_unknown(fr, "%s, a class that its base changes", cls->name);
    inherit(fr, cls, base->cls);
    for (int k = 0; k < base->cls->field_count; k++)
      put_field(fr, &fields, base->cls->fields[k], base->cls->defaults[k]);
  }
  Namespace *ns = namespace_create(cls->module, around, &def->ClassDef.body, def);
  for (int i = 0; i < def->ClassDef.body.n; i++) {
    Node *s = def->ClassDef.body.at[i];
    if (s->kind == NODE_ANN_ASSIGN && s->AnnAssign.target->kind == NODE_NAME) {
      const char *name = s->AnnAssign.target->Name.id;
      Py *value = s->AnnAssign.value ? namespace_get(fr, ns, name) : NULL;
      put_field(fr, &fields, name, value);
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
      map_put(cls->members, s->FunctionDef.name, method_value(fr, s, around));
    }
  }
  cls->field_count = fields.names.n;
  vec_push(a, &fields.names, NULL);
  cls->fields = fields.names.at;
  cls->defaults = fields.defaults.at;
  for (int i = 0; i < def->ClassDef.bases.n; i++)
    cls->is_number |= cls->is_enum && !is_named(fr, around, def, i, "Enum");
  Py *p = NEW(a, Py);
  p->kind = PY_CLASS;
  p->cls = cls;
  return decorated(fr, around, def, p);
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
  Py *after = class_member(fr, cls, "__post_init__");
  if (after && after->kind == PY_FUNCTION && !cls->is_aggregate)
    front_hooks.host_call(fr, py_method_of(fr, o, "__post_init__", after->fn), &(Call){.span = call->span});
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
