/* Which functions of a file are kernels, and what their definitions say of their parameters.
 *
 * A kernel is a def with a decorator whose full name is triton.jit, wherever it stands: at the top, in a class, inside
 * a function (then the names around it are looked up in that function). `k = triton.jit(f)` and `k =
 * triton.autotune(...)(triton.jit(f))` are found too. Decorators that are not Triton's are passed over. */
#include "front/core.h"

#include <ctype.h>

/* ---- finding ----------------------------------------------------------------------------------------------------- */

Kernel *kernel_add(Front *fr, Module *m, Function *fn) {
  Kernel *k = NEW(fr->cx->arena, Kernel);
  k->module = m;
  k->fn = fn;
  k->decorated_at = fn->def->span.line;
  vec_push(fr->cx->arena, &m->kernels, k);
  map_put(m->project->jit_of, fn->def, k);
  return k;
}

typedef struct Search {
  Front *fr;
  Module *m;
  Namespace *ns;
} Search;

static void find_in(void *arg, Node *n) {
  stack_guard();
  Search *s = arg;
  if (n->kind == NODE_FUNCTION_DEF) {
    bool jit = false;
    for (int i = 0; i < n->FunctionDef.decorator_list.n && !jit; i++)
      jit = decorator_kind(s->fr, s->ns, n->FunctionDef.decorator_list.at[i]) == DECO_JIT;
    if (jit) {
      kernel_add(s->fr, s->m, function_value(s->fr, n, s->ns, NULL)->fn);
      return;
    }
    Namespace *inner = NULL;
    /* most functions hold no defs: look before building a namespace */
    for (int i = 0; i < n->FunctionDef.body.n; i++) {
      Node *b = n->FunctionDef.body.at[i];
      if (b->kind == NODE_FUNCTION_DEF || b->kind == NODE_CLASS_DEF || b->kind == NODE_IF || b->kind == NODE_WITH ||
          b->kind == NODE_TRY) {
        if (!inner) inner = namespace_create(s->m, s->ns, &n->FunctionDef.body, n);
        find_in(&(Search){s->fr, s->m, inner}, b);
      }
    }
    return;
  }
  if (n->kind == NODE_CLASS_DEF) {
    Search inner = {s->fr, s->m, namespace_create(s->m, s->ns, &n->ClassDef.body, n)};
    for (int i = 0; i < n->ClassDef.body.n; i++) find_in(&inner, n->ClassDef.body.at[i]);
    return;
  }
  if (n->kind == NODE_ASSIGN && n->Assign.value->kind == NODE_CALL && n->Assign.targets.at[0]->kind == NODE_NAME) {
    Node *call = n->Assign.value, *fn = NULL; /* k = autotune(...)(jit(f)) */
    VEC(Node *) wrappers = {0};
    while (call->kind == NODE_CALL && call->Call.args.n == 1) {
      DecoratorKind kind = decorator_kind(s->fr, s->ns, call->Call.func);
      if (kind == DECO_JIT) {
        fn = call->Call.args.at[0];
        break;
      }
      if (kind != DECO_AUTOTUNE && kind != DECO_HEURISTICS) break;
      vec_push(s->fr->cx->arena, &wrappers, call->Call.func);
      call = call->Call.args.at[0];
    }
    Py *f = fn && fn->kind == NODE_NAME ? namespace_lookup(s->fr, s->ns, fn->Name.id) : NULL;
    if (f && f->kind == PY_FUNCTION && f->fn->def->kind == NODE_FUNCTION_DEF) {
      Function *copy = arena_copy(s->fr->cx->arena, f->fn, sizeof *f->fn);
      copy->kind = FN_JIT;
      copy->name = n->Assign.targets.at[0]->Name.id;
      copy->is_kernel_wrapper = wrappers.n > 0;
      Kernel *k = kernel_add(s->fr, s->m, copy);
      k->decorators = wrappers.at;
      k->decorator_count = wrappers.n;
      k->decorated_at = n->span.line;
    }
    return;
  }
  if (n->kind == NODE_IF || n->kind == NODE_TRY || n->kind == NODE_WITH || n->kind == NODE_EXCEPT_HANDLER ||
      n->kind == NODE_FOR)
    node_children(n, find_in, s);
}

void kernels_find(Front *fr, Module *m) {
  Search s = {fr, m, m->globals};
  for (int i = 0; i < m->tree->Module.body.n; i++) find_in(&s, m->tree->Module.body.at[i]);
}

int front_kernel_count(Module *m) { return m->kernels.n; }
Kernel *front_kernel_at(Module *m, int i) { return m->kernels.at[i]; }

Kernel *front_kernel(Module *m, const char *name) {
  VEC(const char *) names = {0};
  for (int i = m->kernels.n - 1; i >= 0; i--) { /* of two with one name the later stands, as in Python */
    if (!strcmp(m->kernels.at[i]->fn->name, name)) return m->kernels.at[i];
    vec_push(m->cx->arena, &names, m->kernels.at[i]->fn->name);
  }
  vec_push(m->cx->arena, &names, NULL);
  Span at = {.source = m->source, .line = 1};
  if (names.n == 1) diag_fail_hint(m->cx, at, "kernels are functions under @triton.jit", "%s has no kernel", m->path);
  const char *near = nearest_name(name, names.at);
  if (near)
    diag_fail_hint(m->cx, at, arena_printf(m->cx->arena, "did you mean `%s`?", near), "%s has no kernel `%s`", m->path,
                   name);
  Buf list = {.arena = m->cx->arena};
  for (int i = 0; i + 1 < names.n && i < 12; i++) buf_printf(&list, "%s%s", i ? ", " : "it has ", names.at[i]);
  const char *hint = arena_strdup(m->cx->arena, list.at ? list.at : "");
  buf_destroy(&list);
  diag_fail_hint(m->cx, at, hint, "%s has no kernel `%s`", m->path, name);
}

Kernel *kernel_of(Front *fr, Function *fn) { return map_get(front_project(fr)->jit_of, fn->def); }

/* ---- parameters -------------------------------------------------------------------------------------------------- */

/* clang-format off */
static const struct { const char *name; int dtype; } annotation_types[] = {
    {"bool", DT_I1}, {"int1", DT_I1}, {"uint1", DT_I1}, {"i1", DT_I1}, {"u1", DT_I1},
    {"int8", DT_I8}, {"i8", DT_I8}, {"int16", DT_I16}, {"i16", DT_I16}, {"int32", DT_I32}, {"i32", DT_I32},
    {"int", DT_I32}, {"int64", DT_I64}, {"i64", DT_I64},
    {"uint8", DT_U8}, {"u8", DT_U8}, {"uint16", DT_U16}, {"u16", DT_U16}, {"uint32", DT_U32}, {"u32", DT_U32},
    {"uint64", DT_U64}, {"u64", DT_U64},
    {"float8e4nv", DT_F8E4NV}, {"fp8e4nv", DT_F8E4NV}, {"float8_e4m3fn", DT_F8E4NV}, {"float8e5", DT_F8E5},
    {"fp8e5", DT_F8E5}, {"float8_e5m2", DT_F8E5},
    {"float8e4b15", DT_F8E4B15}, {"fp8e4b15", DT_F8E4B15}, {"float8e4b8", DT_F8E4B8}, {"fp8e4b8", DT_F8E4B8},
    {"float8_e4m3fnuz", DT_F8E4B8},
    {"float8e5b16", DT_F8E5B16}, {"fp8e5b16", DT_F8E5B16}, {"float8_e5m2fnuz", DT_F8E5B16},
    {"float16", DT_F16}, {"half", DT_F16}, {"fp16", DT_F16}, {"bfloat16", DT_BF16}, {"bf16", DT_BF16},
    {"float32", DT_F32}, {"float", DT_F32}, {"fp32", DT_F32}, {"float64", DT_F64}, {"double", DT_F64}, {"fp64", DT_F64},
};
/* clang-format on */

/* "i64", "*fp16", "*ki32", "const *fp32", "tl.int64": the type that an annotation's text forces, or NULL. */
static const Type *parse_annotation(Context *cx, const char *s, bool *is_const) {
  while (isspace((unsigned char)*s)) s++;
  *is_const = false;
  if (!strncmp(s, "const", 5) && s[5] != 'e') {
    *is_const = true;
    s += 5;
    while (*s == ' ') s++;
  }
  int stars = 0;
  while (*s == '*') stars++, s++;
  if (stars && *s == 'k') *is_const = true, s++;
  const char *dot = strrchr(s, '.');
  if (dot) {
    if (strncmp(s, "tl.", 3) && strncmp(s, "triton.language.", 16)) return NULL;
    s = dot + 1;
  }
  size_t n = strlen(s);
  while (n && isspace((unsigned char)s[n - 1])) n--;
  if (n > 2 && s[n - 1] == 't' && s[n - 2] == '_') n -= 2;
  for (size_t i = 0; i < sizeof annotation_types / sizeof *annotation_types; i++)
    if (strlen(annotation_types[i].name) == n && !strncmp(annotation_types[i].name, s, n)) {
      Type t = {.dtype = (Dtype)annotation_types[i].dtype, .ptr = (uint8_t)stars, .is_const = stars && *is_const};
      return type_make(cx, t);
    }
  return NULL;
}

static const char *source_text(Context *cx, const Node *n) {
  const Span *s = &n->span;
  if (!s->source || s->line < 1 || s->end_line > s->source->line_count) return "";
  size_t from = s->source->line_start[s->line - 1] + (size_t)s->col,
         to = s->source->line_start[s->end_line - 1] + (size_t)s->end_col;
  return from <= to && to <= s->source->size ? arena_strndup(cx->arena, s->source->text + from, to - from) : "";
}

static bool listed(Front *fr, Py *list, const char *name, int index) {
  Py *items = list ? py_items(fr, list) : NULL;
  for (int i = 0; items && i < items->tuple.n; i++) {
    Py *p = items->tuple.at[i];
    if (p->kind == PY_STR ? !strcmp(p->str.s, name) : p->kind == PY_INT && p->i == index) return true;
  }
  return false;
}

static bool named(const char *const *list, const char *name) {
  for (; list && *list; list++)
    if (!strcmp(*list, name)) return true;
  return false;
}

static void force_type(Front *fr, Kernel *k, int i, const Type *t) {
  if (!t) return;
  k->forced[i] = t;
  Buf text = {.arena = fr->cx->arena};
  type_print(&text, t);
  k->params[i].annotation = text.at ? arena_strdup(fr->cx->arena, text.at) : NULL;
  buf_destroy(&text);
}

/* As the host says it. */
static void take_annotation(Front *fr, Kernel *k, int i, const Py *said) {
  if (said->kind == PY_CONSTEXPR_TYPE || (said->kind == PY_STR && strstr(said->str.s, "constexpr")))
    k->params[i].is_constexpr = true;
  else if (said->kind == PY_STR) force_type(fr, k, i, parse_annotation(fr->cx, said->str.s, &k->is_const[i]));
  else if (said->kind == PY_TYPE && !said->type->rank) force_type(fr, k, i, said->type);
}

static void read_annotation(Front *fr, Kernel *k, int i, Node *annotation) {
  Context *cx = fr->cx;
  Namespace *ns = k->fn->around ? k->fn->around : k->module->globals;
  KernelParam *p = &k->params[i];
  const char *dotted = namespace_dotted(fr, ns, annotation);
  if (strstr(dotted ? dotted : source_text(cx, annotation), "constexpr")) {
    p->is_constexpr = true;
    return;
  }
  if (dotted && (text_ends_with(dotted, "language.const") || !strcmp(dotted, "tl.const"))) {
    k->is_const[i] = true;
    return;
  }
  const Type *t = dotted ? parse_annotation(cx, dotted, &k->is_const[i]) : NULL;
  if (!t && annotation->kind != NODE_CONSTANT) {
    Py *v = host_eval_at(fr, ns, annotation, k->fn->def->span.line);
    if (v->kind == PY_CONSTEXPR_TYPE) p->is_constexpr = true;
    if (v->kind == PY_TYPE && v->type->rank == 0 && (!dotted || strncmp(dotted, "torch.", 6))) t = v->type;
  }
  force_type(fr, k, i, t);
}

/* Fills in what needs host evaluation, on first use. */
void kernel_prepare(Front *fr, Kernel *k) {
  if (k->prepared) return;
  k->prepared = true;
  Context *cx = fr->cx;
  Arena *a = cx->arena;
  Node *def = k->fn->def, *args = def->FunctionDef.args;
  Namespace *ns = k->fn->around ? k->fn->around : k->module->globals;
  int pos = args->arguments.posonlyargs.n, n = pos + args->arguments.args.n,
      first_default = n - args->arguments.defaults.n;
  int rest = args->arguments.vararg != NULL, total = n + rest + args->arguments.kwonlyargs.n;
  k->param_count = total;
  k->params = NEW_N(a, KernelParam, total + 1);
  k->param_nodes = NEW_N(a, Node *, total + 1);
  k->default_nodes = NEW_N(a, Node *, total + 1);
  k->forced = NEW_N(a, const Type *, total + 1);
  k->is_const = NEW_N(a, bool, total + 1);
  for (int i = 0; i < total; i++) {
    KernelParam *p = &k->params[i];
    p->is_rest = rest && i == n;
    k->param_nodes[i] = i < pos      ? args->arguments.posonlyargs.at[i]
                        : i < n      ? args->arguments.args.at[i - pos]
                        : p->is_rest ? args->arguments.vararg
                                     : args->arguments.kwonlyargs.at[i - n - rest];
    k->default_nodes[i] = p->is_rest           ? NULL
                          : i >= n             ? args->arguments.kw_defaults.at[i - n - rest]
                          : i >= first_default ? args->arguments.defaults.at[i - first_default]
                                               : NULL;
    p->name = k->param_nodes[i]->arg.arg;
    p->has_default = p->is_rest || k->default_nodes[i] != NULL;
    p->default_text = p->is_rest ? "()" : p->has_default ? source_text(cx, k->default_nodes[i]) : NULL;
    Py *said = k->fn->source ? front_hooks.ask(fr, ASK_ANNOTATION, k->fn->source->scope, p->name) : NULL;
    if (said) take_annotation(fr, k, i, said);
    else if (k->param_nodes[i]->arg.annotation) read_annotation(fr, k, i, k->param_nodes[i]->arg.annotation);
  }
  if (k->fn->source) { /* decorators are the host's */
    k->debug = k->fn->source->debug;
    for (int i = 0; i < total; i++) {
      k->params[i].no_specialize = named(k->fn->source->no_specialize, k->params[i].name);
      k->params[i].no_align = named(k->fn->source->no_align, k->params[i].name);
    }
    return;
  }
  VEC(Node *) wrappers = {0};
  int line = def->span.line;
  for (int i = 0; i < def->FunctionDef.decorator_list.n; i++) {
    Node *d = def->FunctionDef.decorator_list.at[i];
    DecoratorKind kind = decorator_kind(fr, ns, d);
    if (kind == DECO_AUTOTUNE || kind == DECO_HEURISTICS) vec_push(a, &wrappers, d);
    if (kind != DECO_JIT || d->kind != NODE_CALL) continue;
    const Node *no_spec = decorator_keyword(d, "do_not_specialize"),
               *no_align = decorator_keyword(d, "do_not_specialize_on_alignment"),
               *debug = decorator_keyword(d, "debug");
    Py *spec_list = no_spec ? host_eval_at(fr, ns, (Node *)no_spec, line) : NULL,
       *align_list = no_align ? host_eval_at(fr, ns, (Node *)no_align, line) : NULL;
    for (int p = 0; p < total; p++) {
      k->params[p].no_specialize = listed(fr, spec_list, k->params[p].name, p);
      k->params[p].no_align = listed(fr, align_list, k->params[p].name, p);
    }
    k->debug = debug && py_truth_known(host_eval_at(fr, ns, (Node *)debug, line)) == 1;
  }
  if (!k->decorators) {
    k->decorators = wrappers.at;
    k->decorator_count = wrappers.n;
  }
}

const char *kernel_name(const Kernel *k) { return k->fn->name; }
int kernel_line(const Kernel *k) { return k->fn->def->span.line; }

int kernel_param_count(const Kernel *k) {
  kernel_prepare(k->module->project->fr, (Kernel *)k);
  return k->param_count;
}

const KernelParam *kernel_param(const Kernel *k, int i) {
  kernel_prepare(k->module->project->fr, (Kernel *)k);
  return &k->params[i];
}
