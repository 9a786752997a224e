/* Names that a host knows: what surrounds a source is asked for, not read.
 *
 * A function that Python hands over is a text without its file: `BLOCK`, `relu`, `tl` in it mean what Python says they
 * mean. Each name is asked for once a compilation; the answer, built outside of the compilation's memory so that
 * nothing unwinds through the host, becomes a value like any other:
 *
 *     the host says             a kernel sees
 *     an int, a str, a tuple    the same, a constexpr if it is marked as one
 *     a library's name          what the tables of library/ have under it
 *     a source                  a jit function, constexpr function or class of its own Module, whose names are asked
 *                               for with its own scope; one scope and text are one function, so that recursion is found
 *     a module, an object       PY_HOST: its attributes are asked for
 *
 * What was asked for is listed with a hash of each answer, in order: a function comes before its names, so whoever asks
 * again and stops at the first change never asks for the names of something that is gone. */
#include "front/core.h"

#include <errno.h>
#include <stdlib.h>

static const char *const ask_names[] = {"", "attribute ", "the default of ", "the annotation of "};

static NORETURN void host_fails(Front *fr, Ask what, const char *name, const char *why) {
  Context *cx = fr->cx;
  diag_fail(cx, cx->place ? *cx->place : (Span){0}, "%s`%s`: %s", ask_names[what], name, why);
}

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

static uint64_t hash_text(uint64_t h, const char *s, size_t n) {
  h = hash_bytes(&n, sizeof n, h);
  return s ? hash_bytes(s, n, h) : h;
}

static uint64_t hash_z(uint64_t h, const char *s) { return hash_text(h, s, s ? strlen(s) : 0); }

static uint64_t hash_list(uint64_t h, const char *const *list) {
  for (; list && *list; list++) h = hash_z(h, *list);
  return hash_z(h, NULL);
}

static uint64_t hash_source(uint64_t h, const HostSource *s) {
  const int numbers[] = {(int)s->kind, s->line, s->whole, s->noinline, s->debug, s->launch_only};
  h = hash_bytes(numbers, sizeof numbers, h);
  h = hash_bytes(&s->scope, sizeof s->scope, h);
  h = hash_text(hash_z(hash_z(hash_z(h, s->path), s->name), s->must_use), s->text, s->text_size);
  return hash_list(hash_list(h, s->no_specialize), s->no_align);
}

uint64_t host_value_hash(const HostValue *v) {
  const int numbers[] = {(int)v->kind, v->is_constexpr, v->count};
  uint64_t h = hash_bytes(numbers, sizeof numbers, 1);
  h = hash_bytes(&v->i, sizeof v->i, h);
  h = hash_bytes(&v->f, sizeof v->f, h);
  h = hash_bytes(&v->object, sizeof v->object, h);
  h = hash_z(hash_text(h, v->text, v->n), v->member);
  for (int i = 0; i < v->count; i++) {
    if (v->fields) h = hash_z(h, v->fields[i]);
    if (!v->items) continue;
    uint64_t item = host_value_hash(&v->items[i]);
    h = hash_bytes(&item, sizeof item, h);
  }
  return (v->source ? hash_source(h, v->source) : h) | 1;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

/* Its lines are those of its file: empty ones stand for what is above. */
static Source *padded(Front *fr, const HostSource *s) {
  Context *cx = fr->cx;
  if (s->whole) {
    Source *file = s->text ? source_from_text(cx, s->path, s->text, s->text_size) : source_from_file(cx, s->path);
    if (!file) diag_fail(cx, (Span){0}, "cannot read %s: %s", s->path, file_reason(errno));
    return file;
  }
  int64_t above = s->line > 1 ? s->line - 1 : 0;
  if (above + (int64_t)s->text_size > cx->limits.file)
    host_fails(fr, ASK_NAME, s->path, "its line and its text are larger than a file may be");
  char *text = arena_alloc(cx->arena, (size_t)above + s->text_size + 1);
  memset(text, '\n', (size_t)above);
  memcpy(text + above, s->text, s->text_size);
  Source *src = source_from_text(cx, s->path, text, (size_t)above + s->text_size);
  if (!src) host_fails(fr, ASK_NAME, s->path, "its text is too large");
  src->is_part = true;
  return src;
}

static Module *module_of(Front *fr, Project *p, const HostSource *s) {
  Module *m = module_from_source(p, padded(fr, s), s->path, s->path);
  m->host = p->host;
  m->scope = s->scope;
  return m;
}

typedef struct Nearest {
  NodeKind kind;
  const char *name;
  int line, distance;
  Node *found;
} Nearest;

static void look_nearer(void *arg, Node *n) {
  stack_guard();
  Nearest *near = arg;
  bool is_def = n->kind == NODE_FUNCTION_DEF, is_class = n->kind == NODE_CLASS_DEF;
  const NodeList *decorators = is_def ? &n->FunctionDef.decorator_list : is_class ? &n->ClassDef.decorator_list : NULL;
  if (decorators && n->kind == near->kind && !strcmp(near->name, is_def ? n->FunctionDef.name : n->ClassDef.name)) {
    int line = decorators->n ? decorators->at[0]->span.line : n->span.line; /* where Python says that it begins */
    int distance = abs(line - near->line);
    if (!near->found || distance < near->distance) near->found = n, near->distance = distance;
  }
  node_children(n, look_nearer, near);
}

static Node *definition(Front *fr, const Module *m, NodeKind kind, const HostSource *s) {
  const NodeList *body = &m->tree->Module.body;
  if (s->whole) {
    Nearest near = {.kind = kind, .name = s->name, .line = s->line};
    look_nearer(&near, m->tree);
    if (near.found) return near.found;
    diag_fail(fr->cx, (Span){.source = m->source, .line = 1}, "%s has no %s `%s`", s->path,
              kind == NODE_CLASS_DEF ? "class" : "def", s->name);
  }
  for (int i = 0; i < body->n; i++)
    if (body->at[i]->kind == kind) return body->at[i];
  diag_fail(fr->cx, (Span){.source = m->source, .line = s->line > 1 ? s->line : 1}, "%s: its text has no %s",
            s->name ? s->name : s->path, kind == NODE_CLASS_DEF ? "class" : "def");
}

static const char *keep(Front *fr, const char *s) { return s ? arena_strdup(fr->cx->arena, s) : NULL; }

static const char *const *keep_list(Front *fr, const char *const *list) {
  int n = 0;
  while (list && list[n]) n++;
  const char **out = NEW_N(fr->cx->arena, const char *, n + 1);
  for (int i = 0; i < n; i++) out[i] = keep(fr, list[i]);
  return out;
}

static Function *function_of(Front *fr, Project *p, const HostSource *s) {
  Context *cx = fr->cx;
  HostSource *kept = arena_copy(cx->arena, s, sizeof *s);
  kept->path = keep(fr, s->path);
  kept->name = keep(fr, s->name);
  kept->must_use = keep(fr, s->must_use);
  kept->no_specialize = keep_list(fr, s->no_specialize);
  kept->no_align = keep_list(fr, s->no_align);
  Module *m = module_of(fr, p, kept);
  kept->text = m->source->text;
  Function *fn = NEW(cx->arena, Function);
  fn->def = definition(fr, m, NODE_FUNCTION_DEF, s);
  fn->name = kept->name ? kept->name : fn->def->FunctionDef.name;
  fn->kind = s->kind == HOST_JIT ? FN_JIT : FN_CONSTEXPR;
  fn->noinline = s->noinline;
  fn->must_use = kept->must_use;
  fn->module = m;
  fn->is_kernel_wrapper = s->launch_only;
  fn->source = kept;
  return fn;
}

static const char *source_id(Front *fr, const HostSource *s) {
  return arena_printf(fr->cx->arena, "%p %llx", s->scope, (unsigned long long)hash_source(0, s));
}

static Py *source_value(Front *fr, const HostSource *s) {
  Project *p = front_project(fr);
  const char *id = source_id(fr, s);
  Py *v = map_get(p->functions, id);
  if (v) return v;
  if (s->kind == HOST_CLASS) {
    Module *m = module_of(fr, p, s);
    v = front_hooks.class_value(fr, definition(fr, m, NODE_CLASS_DEF, s), m->globals);
  } else {
    v = py_function(fr, function_of(fr, p, s));
  }
  map_put(p->functions, id, v);
  return v;
}

Module *host_module(Front *fr, Project *p, const HostSource *s) {
  const Function *fn = function_of(fr, p, s);
  fr->module = fn->module;
  kernel_add(fr, fn->module, arena_copy(fr->cx->arena, fn, sizeof *fn));
  map_put(p->functions, source_id(fr, s), py_function(fr, fn->module->kernels.at[0]->fn)); /* it may call itself */
  return fn->module;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static Py *convert(Front *fr, const HostValue *v, Ask what, const char *name);

static const Type *named_type(Context *cx, const char *s) {
  Type t = {0};
  while (*s == '*') s++, t.ptr++;
  t.is_const = t.ptr && *s == 'k';
  return dtype_parse(s + t.is_const, &t.dtype) ? type_make(cx, t) : NULL;
}

static Py *library_value(Front *fr, const char *path) {
  const char *dot = strrchr(path, '.');
  if (dot) {
    const char *library = arena_strndup(fr->cx->arena, path, (size_t)(dot - path));
    Py *v = host_library(fr, path);
    if (!v && front_hooks.library_path(fr, library)) v = front_hooks.library_lookup(fr, library, dot + 1);
    if (!v && !strcmp(library, "builtins")) v = front_hooks.library_lookup(fr, library, dot + 1);
    if (v) return v;
  }
  const char *known = front_hooks.library_path(fr, path);
  /* any name below triton is a library's; of the language we know them all */
  if (!known || (!strncmp(path, "triton.language.", 16) && !strcmp(known, path) && !strstr(path, ".extra")))
    return py_unknown(fr, "%s, which is not there", path);
  return py_library(fr, known);
}

/* The class of the host's named tuples and Enums. */
static PyClass *class_of(Front *fr, const HostValue *v, bool is_enum) {
  Project *p = front_project(fr);
  PyClass *cls = v->object ? map_get(p->classes, v->object) : NULL;
  if (cls && cls->is_enum == is_enum && (is_enum || cls->field_count == v->count)) return cls;
  cls = NEW(fr->cx->arena, PyClass);
  cls->name = v->text ? intern_z(fr->cx, v->text) : is_enum ? "Enum" : "tuple";
  cls->module = fr->module;
  cls->is_enum = is_enum;
  cls->host = v->object;
  cls->is_namedtuple = !is_enum;
  cls->members = map_create(fr->cx->arena, true);
  cls->field_count = is_enum ? 0 : v->count;
  cls->fields = NEW_N(fr->cx->arena, const char *, cls->field_count + 1);
  cls->defaults = NEW_N(fr->cx->arena, Py *, cls->field_count + 1);
  for (int i = 0; i < cls->field_count; i++) cls->fields[i] = intern_z(fr->cx, v->fields[i]);
  if (v->object) map_put(p->classes, v->object, cls);
  return cls;
}

static Py *items_of(Front *fr, const HostValue *v, Ask what, const char *name) {
  Py **items = NEW_N(fr->cx->arena, Py *, v->count + 1);
  for (int i = 0; i < v->count; i++) items[i] = convert(fr, &v->items[i], what, name);
  return v->kind == HOST_LIST ? py_list(fr, v->count, items) : py_tuple(fr, v->count, items);
}

static Py *object_value(Front *fr, const HostValue *v) {
  Py *p = NEW(fr->cx->arena, Py);
  p->kind = PY_HOST;
  p->host.object = v->object;
  p->host.what = v->text ? intern_z(fr->cx, v->text) : "object";
  p->host.is_module = v->kind == HOST_MODULE;
  p->host.is_function = v->kind == HOST_CONSTEXPR_FUNCTION;
  return p;
}

static Py *expression(Front *fr, const char *text, const char *name) {
  Context *cx = fr->cx;
  const Source *src = source_from_text(cx, arena_printf(cx->arena, "<%s>", name), text, strlen(text));
  Py *v = front_hooks.host_eval_in(fr, fr->module->globals, parse_expression(cx, src));
  return arena_copy(cx->arena, v, sizeof *v);
}

static Py *whole(Front *fr, const HostValue *v, Ask what, const char *name) {
  switch (v->kind) {
    case HOST_NONE: return py_none(fr);
    case HOST_BOOL: return py_bool(fr, v->i != 0);
    case HOST_INT: return py_int(fr, v->i);
    case HOST_FLOAT: return py_float(fr, v->f);
    case HOST_STR: return py_str_n(fr, v->text, v->n);
    case HOST_TYPE: {
      const Type *t = named_type(fr->cx, v->text);
      if (!t) host_fails(fr, what, name, arena_printf(fr->cx->arena, "there is no type '%s'", v->text));
      return py_type(fr, t);
    }
    case HOST_LIBRARY: return library_value(fr, v->text);
    case HOST_TUPLE: {
      Py *t = items_of(fr, v, what, name);
      if (v->fields) t->tuple.cls = class_of(fr, v, false);
      return t;
    }
    case HOST_LIST: return items_of(fr, v, what, name);
    case HOST_DICT: {
      Py *d = py_dict(fr);
      for (int i = 0; i + 1 < v->count; i += 2)
        py_dict_put(fr, d, convert(fr, &v->items[i], what, name), convert(fr, &v->items[i + 1], what, name));
      return d;
    }
    case HOST_NAMED_TUPLE_CLASS: {
      Py *p = NEW(fr->cx->arena, Py);
      p->kind = PY_CLASS;
      p->cls = class_of(fr, v, false);
      return p;
    }
    case HOST_ENUM: {
      PyClass *cls = class_of(fr, v, true);
      Py *member = map_get(cls->members, v->member);
      if (member) return arena_copy(fr->cx->arena, member, sizeof *member);
      member = py_object(fr, cls, cls->name);
      map_put(member->object.fields, "value", convert(fr, &v->items[0], what, name));
      map_put(member->object.fields, "name", py_str(fr, intern_z(fr->cx, v->member)));
      map_put(cls->members, intern_z(fr->cx, v->member), member);
      return arena_copy(fr->cx->arena, member, sizeof *member);
    }
    case HOST_MODULE:
    case HOST_OBJECT:
    case HOST_CONSTEXPR_FUNCTION: return object_value(fr, v);
    case HOST_SOURCE: return arena_copy(fr->cx->arena, source_value(fr, v->source), sizeof(Py));
    case HOST_EXPRESSION: return expression(fr, v->text, name);
    case HOST_OTHER: return py_unknown(fr, "%s", v->text);
    case HOST_ERROR: host_fails(fr, what, name, v->text);
    default: host_fails(fr, what, name, "the host knows it, but has not said what it is");
  }
}

static Py *convert(Front *fr, const HostValue *v, Ask what, const char *name) {
  stack_guard();
  Py *p = whole(fr, v, what, name);
  if (v->is_constexpr) p->is_constexpr = true;
  return p;
}

/* The answer's memory goes, whatever becomes of the compilation. */
static Py *take(Front *fr, HostAnswer *answer, Ask what, const char *name) {
  Context *cx = fr->cx;
  Py *volatile v = NULL;
  if (context_try(cx)) {
    if (answer->problem) host_fails(fr, what, name, answer->problem);
    v = convert(fr, &answer->value, what, name);
    context_end_try(cx);
  }
  arena_destroy(answer->arena);
  if (!v) diag_fail_now(cx);
  return v;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static char no_answer, busy; /* marks: what the host does not know, and what it is being asked for */

Py *host_ask(Front *fr, Ask what, void *object, const char *name) {
  Project *p = front_project(fr);
  Arena *a = fr->cx->arena;
  if (!p->answers[what]) p->answers[what] = map_create(a, false);
  Map *of = map_get(p->answers[what], object);
  if (!of) map_put(p->answers[what], object, of = map_create(a, false));
  name = intern_z(fr->cx, name);
  void *before = map_get(of, name);
  if (before == &busy) return py_unknown(fr, "`%s`, which is still being defined", name);
  if (before) return before == &no_answer ? NULL : before;
  context_step(fr->cx, 100);
  map_put(of, name, &busy);
  int index = p->asked.n;
  vec_push(a, &p->asked, (Asked){what, object, name, 0});
  HostAnswer answer = {.arena = arena_create(NULL)};
  if (!answer.arena) context_out_of_memory(fr->cx);
  answer.value.answer = &answer;
  bool known = p->host->ask(p->host->of, what, object, name, &answer);
  Py *v = NULL;
  if (known) {
    p->asked.at[index].hash = host_value_hash(&answer.value);
    v = take(fr, &answer, what, name);
  } else {
    arena_destroy(answer.arena);
  }
  map_put(of, name, v ? (void *)v : &no_answer);
  return v;
}

const Asked *front_asked(const Module *m, int *count) {
  *count = m->project->asked.n;
  return m->project->asked.at;
}

Py *host_attribute_of(Front *fr, const Py *x, const char *attr) {
  return host_ask(fr, ASK_ATTRIBUTE, x->host.object, attr);
}

Py *host_default(Front *fr, const Function *fn, const char *param) {
  return fn->source ? host_ask(fr, ASK_DEFAULT, fn->source->scope, param) : NULL;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void describe(HostValue *out, HostKind kind, const char *text) {
  out->kind = kind;
  out->text = text;
  out->n = strlen(text);
}

static const char *type_text(Front *fr, const Type *t) {
  return arena_printf(fr->cx->arena, "%.*s%s%s", t->ptr, "****************", t->is_const ? "k" : "",
                      dtype_triton_name(t->dtype));
}

static HostValue *host_items(Front *fr, HostValue *out, int n) {
  out->count = n;
  return out->items = NEW_N(fr->cx->arena, HostValue, n + 1);
}

static void argument(Front *fr, const Py *p, HostValue *out) {
  stack_guard();
  out->is_constexpr = p->is_constexpr;
  switch (p->kind) {
    case PY_NONE: out->kind = HOST_NONE; break;
    case PY_BOOL:
    case PY_INT: {
      Buf digits = {.arena = fr->cx->arena};
      py_write_int(&digits, p->i);
      describe(out, p->kind == PY_BOOL ? HOST_BOOL : HOST_INT, arena_strdup(fr->cx->arena, digits.at));
      buf_destroy(&digits);
      out->i = p->i;
      break;
    }
    case PY_FLOAT:
      out->kind = HOST_FLOAT;
      out->f = p->f;
      break;
    case PY_STR:
      out->kind = HOST_STR;
      out->text = p->str.s;
      out->n = p->str.n;
      break;
    case PY_TYPE:
      if (p->type->rank) describe(out, HOST_OTHER, py_describe(fr, p));
      else describe(out, HOST_TYPE, type_text(fr, p->type));
      break;
    case PY_TUPLE: {
      out->kind = p->tuple.is_list ? HOST_LIST : HOST_TUPLE;
      HostValue *items = host_items(fr, out, p->tuple.n);
      for (int i = 0; i < p->tuple.n; i++) argument(fr, p->tuple.at[i], &items[i]);
      if (p->tuple.cls && p->tuple.cls->field_count == p->tuple.n) out->fields = p->tuple.cls->fields;
      break;
    }
    case PY_DICT: {
      out->kind = HOST_DICT;
      HostValue *items = host_items(fr, out, 2 * p->dict.n);
      for (int i = 0; i < p->dict.n; i++) {
        argument(fr, p->dict.keys[i], &items[2 * i]);
        argument(fr, p->dict.values[i], &items[2 * i + 1]);
      }
      break;
    }
    case PY_TENSOR: {
      const Type *t = p->value->type;
      describe(out, HOST_TENSOR, type_text(fr, t));
      HostValue *items = host_items(fr, out, t->rank);
      for (int i = 0; i < t->rank; i++) argument(fr, py_int(fr, t->shape[i]), &items[i]);
      break;
    }
    case PY_LIBRARY: describe(out, HOST_LIBRARY, p->library); break;
    case PY_BUILTIN:
      describe(out, HOST_LIBRARY, arena_printf(fr->cx->arena, "%s.%s", p->builtin.b->library, p->builtin.b->name));
      break;
    case PY_CONSTEXPR_TYPE: describe(out, HOST_LIBRARY, "triton.language.constexpr"); break;
    case PY_FUNCTION:
      describe(out, p->fn->source ? HOST_OBJECT : HOST_OTHER, py_describe(fr, p));
      if (p->fn->source) out->object = p->fn->source->scope;
      break;
    case PY_HOST:
      describe(out, HOST_OBJECT, p->host.what);
      out->object = p->host.object;
      break;
    case PY_OBJECT:
      if (p->object.cls && p->object.cls->is_enum) {
        const Py *name = map_get(p->object.fields, "name"), *value = map_get(p->object.fields, "value");
        describe(out, HOST_ENUM, name->str.s);
        argument(fr, value, host_items(fr, out, 1));
        out->object = p->object.cls->host;
        break;
      } /* fallthrough */
    default: describe(out, HOST_OTHER, py_describe(fr, p));
  }
}

Py *host_call_object(Front *fr, const Py *callee, const Call *call) {
  const FrontHost *host = front_project(fr)->host;
  Arena *a = fr->cx->arena;
  if (!callee->host.is_function || !host->call)
    return py_unknown(fr, "%s, which is no constexpr function", callee->host.what);
  int n = call->n + call->kw_n;
  HostValue *values = NEW_N(a, HostValue, n + 1);
  const HostValue **args = NEW_N(a, const HostValue *, n + 1);
  const char **names = NEW_N(a, const char *, n + 1);
  for (int i = 0; i < n; i++) {
    argument(fr, i < call->n ? call->args[i] : call->kw_values[i - call->n], &values[i]);
    args[i] = &values[i];
    names[i] = i < call->n ? NULL : call->kw_names[i - call->n];
  }
  context_step(fr->cx, 100);
  HostAnswer answer = {.arena = arena_create(NULL)};
  if (!answer.arena) context_out_of_memory(fr->cx);
  answer.value.answer = &answer;
  if (!host->call(host->of, callee->host.object, n, args, names, &answer) && !answer.problem &&
      answer.value.kind != HOST_ERROR)
    answer.problem = "the call failed";
  return take(fr, &answer, ASK_NAME, callee->host.what);
}
