/* From a file to a graph: its top level is run, then the function, on the graph's inputs. */
#include <stdlib.h>

#include "graph/read/object.h"

static const struct {
  const char *file, *text;
} library[] = {
#include "library.inc"
};

/* ---- annotations: "f32[2, s0*4][s0*4, 1]cpu" --------------------------------------------------------------------- */

/* The names of fx where they differ from ours. */
static bool dtype_of(const char *name, size_t n, Dtype *t, bool *is_complex) {
  char word[16];
  if (n >= sizeof word) return false;
  memcpy(word, name, n);
  word[n] = 0;
  *is_complex = !strcmp(word, "c64") || !strcmp(word, "c128");
  *t = strcmp(word, "c64") ? DT_F64 : DT_F32;
  if (*is_complex) return true;
  for (int i = 0; i < DT_COUNT; i++) {
    if (strcmp(dtype_name((Dtype)i), strcmp(word, "b8") ? word : "i1")) continue;
    *t = (Dtype)i;
    return true;
  }
  return false;
}

static Object *size_text(Reader *r, Span at, const char *text, size_t n);

/* A symbol, or the expression of other symbols that the caller says it equals. */
static Object *symbol_value(Reader *r, Span at, const char *name) {
  for (int i = 0; i < r->said_count; i++) {
    const ReadInput *s = &r->said[i];
    if (s->is_tensor || strcmp(s->name, name) || !s->text || !strpbrk(s->text, "_abcdefghijklmnopqrstuvwxyz")) continue;
    if (strcmp(s->text, name)) return size_text(r, at, s->text, strlen(s->text));
  }
  return object_size(r, size_symbol(r->g, name));
}

/* "4*s0**2 + s1": names are symbols. */
static Object *size_text(Reader *r, Span at, const char *text, size_t n) {
  stack_guard();
  char *end;
  long long v = strtoll(text, &end, 10);
  if (end == text + n) return object_int(r, v);
  Source *s = source_from_text(r->cx, at.source ? at.source->path : "<size>", text, n);
  Node *e = parse_expression(r->cx, s);
  Scope sc = {map_create(r->cx->arena, false), NULL, true, NULL};
  for (size_t i = 0; i < n; i++) {
    size_t k = i;
    while (k < n && (text[k] == '_' || (text[k] | 32) >= 'a' || (k > i && text[k] >= '0' && text[k] <= '9')) &&
           text[k] != '[')
      k++;
    if (k == i) continue;
    const char *name = intern(r->cx, text + i, k - i);
    map_put(sc.names, name, symbol_value(r, at, name));
    i = k;
  }
  return eval(r, &sc, e);
}

bool annotation_read(Reader *r, Span at, const char *text, Dtype *t, bool *is_complex, int *rank, const Size **size) {
  const char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
  if (!close || !dtype_of(text, (size_t)(open - text), t, is_complex)) return false;
  *rank = 0;
  for (const char *s = open + 1; s < close;) {
    size_t n = strcspn(s, ",]");
    for (; *s == ' '; s++) n--;
    if (*rank == GRAPH_MAX_RANK) read_fail(r, at, "a tensor has at most %d dims", GRAPH_MAX_RANK);
    size[(*rank)++] = want_size(r, at, size_text(r, at, s, n), "a size");
    s += n + 1;
  }
  return true;
}

static Object *symbolic(Reader *r, Span at, const char *text) { /* "Sym(s0)" */
  size_t n = strlen(text);
  if (strncmp(text, "Sym(", 4) || text[n - 1] != ')') return NULL;
  return size_text(r, at, text + 4, n - 5);
}

void annotation_check(Reader *r, Span at, const char *text, const Object *value) {
  const Size *size[GRAPH_MAX_RANK];
  Tensor said = {.size = size};
  Object *sym = symbolic(r, at, text);
  if (sym) {
    if (!object_equal(sym, value))
      read_fail(r, at, "is annotated as %s, and is %s", object_text(r, sym), object_describe(r, value));
    return;
  }
  bool is_complex;
  if (!annotation_read(r, at, text, &said.dtype, &is_complex, &said.rank, size)) return;
  const Object *x = is_complex && complex_is_tensor(value) ? value->parts.real : value;
  bool kind = x->kind == O_TENSOR && is_complex == (value->kind == O_COMPLEX);
  if (!kind || x->tensor->dtype != said.dtype || !graph_same_shape(x->tensor, &said))
    read_fail(r, at, "is annotated as %.*s, and is %s", (int)(strchr(text, ']') + 1 - text), text,
              object_describe(r, value));
}

/* ---- inputs and outputs ------------------------------------------------------------------------------------------ */

static Object *input(Reader *r, Span at, const char *name, Dtype t, bool is_complex, int rank, const Size **size) {
  if (!is_complex) return object_tensor(r, graph_input(r->g, name, t, rank, size));
  if (rank == GRAPH_MAX_RANK) read_fail(r, at, "a complex tensor has at most %d dims", GRAPH_MAX_RANK - 1);
  size[rank] = size_int(r->g, 2);
  Object *pair = object_tensor(r, graph_input(r->g, name, t, rank + 1, size));
  pair->tensor->is_complex = true;
  return complex_of_pairs(r, at, pair);
}

static Object *from_spec(Reader *r, Span at, const ReadInput *in) {
  if (in->is_tensor) {
    const Size *size[GRAPH_MAX_RANK];
    for (int d = 0; d < in->rank; d++) size[d] = size_int(r->g, in->shape[d]);
    if (in->is_complex && (!in->rank || in->shape[in->rank - 1] != 2))
      read_fail(r, at, "the complex input %s has a last dim of 2, for its parts", in->name);
    return input(r, at, in->name, in->dtype, in->is_complex, in->rank - in->is_complex, size);
  }
  Source *s = source_from_text(r->cx, in->name, in->text, strlen(in->text));
  return eval(r, r->file, parse_expression(r->cx, s));
}

static Object *parameter(Reader *r, Node *p, int n, const ReadInput *inputs) {
  Node *a = p->arg.annotation;
  const char *text =
      a && a->kind == NODE_CONSTANT && a->Constant.value.kind == CONST_STR ? a->Constant.value.text : NULL;
  Object *sym = text ? symbolic(r, p->span, text) : NULL;
  if (sym) return sym;
  for (int i = 0; i < n && !text; i++)
    if (!strcmp(inputs[i].name, p->arg.arg)) return from_spec(r, p->span, &inputs[i]);
  if (!text) return NULL;
  Dtype t;
  int rank;
  bool is_complex;
  const Size *size[GRAPH_MAX_RANK];
  if (!annotation_read(r, p->span, text, &t, &is_complex, &rank, size)) return NULL;
  return input(r, p->span, p->arg.arg, t, is_complex, rank, size);
}

static void outputs(Reader *r, Object *x) {
  stack_guard();
  if (x->kind == O_TUPLE || x->kind == O_LIST)
    for (int i = 0; i < x->list.n; i++) outputs(r, x->list.at[i]);
  else if (x->kind == O_DICT)
    for (int i = 0; i < x->dict.n; i++) outputs(r, x->dict.values[i]);
  else if (x->kind == O_TENSOR) vec_push(r->cx->arena, &r->g->outputs, use_tensor(r, (Span){0}, x));
  else if (complex_is_tensor(x)) {
    graph_complex_output(r->g, r->g->outputs.n);
    vec_push(r->cx->arena, &r->g->outputs, complex_pairs(r, (Span){0}, x));
  } else if (object_is_number(x) || x->kind == O_SIZE || x->kind == O_NONE || x->kind == O_COMPLEX)
    vec_push(r->cx->arena, &r->g->outputs, NULL);
  else read_fail(r, (Span){0}, "the function returns %s", object_describe(r, x));
}

/* ---- the function ------------------------------------------------------------------------------------------------ */

/* "a, b and 3 more"; n is not 0. */
static const char *some_of(Arena *a, const char *const *names, int n) {
  enum { SHOWN = 8 };
  const char *list = names[0];
  for (int i = 1; i < n && i < SHOWN; i++) list = arena_printf(a, "%s, %s", list, names[i]);
  return n > SHOWN ? arena_printf(a, "%s and %d more", list, n - SHOWN) : list;
}

static Object *find(Reader *r, Source *file, const char *name) {
  Object *only = NULL, *f = NULL;
  VEC(const char *) names = {0};
  for (int i = 0; i < map_count(r->file->names); i++) {
    const void *key;
    void *v;
    map_entry(r->file->names, i, &key, &v);
    Object *x = v;
    if (x->kind != O_FUNCTION && x->kind != O_CLASS) continue;
    vec_push(r->cx->arena, &names, (const char *)key);
    bool wanted = !strcmp(key, name ? name : "forward") || (!name && !strcmp(key, "Model"));
    if (wanted) f = x;
    only = x;
  }
  if (!name && !f && names.n == 1) f = only;
  if (f) return f;
  Span at = {.source = file};
  int n = names.n;
  vec_push(r->cx->arena, &names, NULL);
  const char *near = name ? nearest_name(name, names.at) : NULL;
  if (!near && n) near = some_of(r->cx->arena, names.at, n);
  const char *hint = near ? arena_printf(r->cx->arena, "%s has %s", file->path, near) : "it has no functions";
  if (!name) diag_fail_hint(r->cx, at, hint, "%s has several functions: name one after a colon", file->path);
  diag_fail_hint(r->cx, at, hint, "there is no function %s", name);
}

Reader *reader_create(Context *cx, Graph *g, bool with_library) {
  Reader *r = NEW(cx->arena, Reader);
  r->cx = cx;
  r->g = g;
  g->reader = r;
  r->asked = map_create(cx->arena, false);
  r->none = object_new(r, O_NONE);
  r->yes = object_new(r, O_BOOL);
  r->yes->i = 1;
  r->no = object_new(r, O_BOOL);
  r->library = NEW(cx->arena, Scope);
  *r->library = (Scope){map_create(cx->arena, false), NULL, true, NULL};
  r->file = NEW(cx->arena, Scope);
  *r->file = (Scope){map_create(cx->arena, false), NULL, false, NULL};
  if (!with_library) return r;
  for (size_t i = 0; i < sizeof library / sizeof *library; i++)
    exec_file(r, r->library,
              parse_module(cx, source_from_text(cx, library[i].file, library[i].text, strlen(library[i].text))));
  return r;
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

/* Parameters and buffers are called by their path from the module, those with several by the first; seen: what has one.
 * After the program was read (r->is_read), those that were made meanwhile. */
static void name_parameters(Reader *r, Object *x, const char *path, Map *seen) {
  stack_guard();
  Arena *a = r->cx->arena;
  if (x->kind == O_COMPLEX && x->parts.pair) x = x->parts.pair;
  if (x->kind == O_TENSOR && x->tensor->op == GRAPH_INPUT && *path && !map_get(seen, x->tensor) &&
      !(r->is_read && x->tensor->name)) {
    map_put(seen, x->tensor, x);
    x->tensor->name = path;
  }
  if (x->kind == O_LIST || x->kind == O_TUPLE)
    for (int i = 0; i < x->list.n; i++)
      name_parameters(r, x->list.at[i], arena_printf(a, "%s%s%d", path, *path ? "." : "", i), seen);
  if (x->kind == O_DICT)
    for (int i = 0; i < x->dict.n; i++)
      name_parameters(r, x->dict.values[i],
                      arena_printf(a, "%s%s%s", path, *path ? "." : "", object_text(r, x->dict.keys[i])), seen);
  if (x->kind != O_OBJECT) return;
  for (int i = 0; i < map_count(x->object.fields); i++) {
    const void *key;
    void *v;
    map_entry(x->object.fields, i, &key, &v);
    bool hidden = !strcmp(key, "_dict");
    name_parameters(r, v, hidden ? path : arena_printf(a, "%s%s%s", path, *path ? "." : "", (const char *)key), seen);
  }
}

/* Of a class that is a module: an instance made with what get_init_inputs() gives, or what the caller says. */
static Object *make_module(Reader *r, Object *cls, Node *place) {
  Object *init = map_get(r->file->names, intern_z(r->cx, "get_init_inputs"));
  Object *args = init ? want_items(r, place->span, call_values(r, place->span, init, 0, NULL)) : object_new(r, O_LIST);
  Object *module = call_values(r, place->span, cls, args->list.n, args->list.at);
  name_parameters(r, module, "", map_create(r->cx->arena, false));
  return module;
}

/* What get_inputs() gives for a parameter of forward: an input of that type and shape, or the value itself. */
static Object *from_example(Reader *r, const char *name, Object *x) {
  bool is_complex = complex_is_tensor(x);
  if (x->kind != O_TENSOR && !is_complex) return x;
  Tensor *t = is_complex ? x->parts.real->tensor : x->tensor;
  const Size *size[GRAPH_MAX_RANK];
  memcpy(size, t->size, sizeof *size * (size_t)t->rank);
  return input(r, r->g->place, name, t->dtype, is_complex, t->rank, size);
}

static Object *run_function(Reader *r, Object *f, Object *self, int n, const ReadInput *inputs) {
  Context *cx = r->cx;
  Node *def = f->function.def, *args = def->FunctionDef.args;
  Object *examples = map_get(r->file->names, intern_z(cx, "get_inputs"));
  if (examples && self) examples = want_items(r, def->span, call_values(r, def->span, examples, 0, NULL));
  else examples = NULL;
  VEC(Object *) values = {0};
  if (self) vec_push(cx->arena, &values, self);
  for (int i = self != NULL; i < args->arguments.args.n; i++) {
    Node *p = args->arguments.args.at[i];
    int place = i - (self != NULL), optional = i - (args->arguments.args.n - args->arguments.defaults.n);
    r->g->place = p->span;
    Object *v = parameter(r, p, n, inputs);
    if (!v && examples && place < examples->list.n) v = from_example(r, p->arg.arg, examples->list.at[place]);
    if (!v && optional >= 0) break;
    if (!v)
      diag_fail_hint(cx, p->span, arena_printf(cx->arena, "such as %s=randn:f32[64,1000]", p->arg.arg),
                     "nothing is said of the parameter %s", p->arg.arg);
    vec_push(cx->arena, &values, v);
  }
  Args call_args = {.span = def->span, .n = values.n, .at = values.at};
  if (!self) return call(r, f, &call_args);
  call_args.n--;
  call_args.at++;
  return call(r, self, &call_args);
}

int graph_evaluate(Graph *g, const Source *text, int n, Tensor *const *in, int most, Tensor **out) {
  Reader *r = g->reader ? g->reader : reader_create(g->cx, g, true);
  Scope sc = {map_create(g->cx->arena, false), NULL, false, NULL};
  map_put(sc.names, intern_z(g->cx, "F"), object_path(r, "torch.nn.functional"));
  for (int i = 0; i < n; i++) map_put(sc.names, intern_z(g->cx, (char[]){(char)('a' + i), 0}), object_tensor(r, in[i]));
  r->depth = 0; /* an earlier text may have failed */
  r->no_grad = r->sweeping = false;
  Node *e = parse_expression(g->cx, (Source *)text);
  g->place = e->span;
  Object *x = eval(r, &sc, e), *items = x->kind == O_TENSOR ? object_list(r, O_LIST, 1, &x) : want_items(r, e->span, x);
  if (items->list.n > most) read_fail(r, e->span, "it gives %d tensors, and not %d", items->list.n, most);
  for (int i = 0; i < items->list.n; i++) {
    if (items->list.at[i]->kind != O_TENSOR)
      read_fail(r, e->span, "it gives %s", object_describe(r, items->list.at[i]));
    out[i] = use_tensor(r, e->span, items->list.at[i]);
  }
  g->place = (Span){0};
  return items->list.n;
}

/* Modules and optimizers of the file: a module's name wins. */
static void name_modules_of_file(Reader *r) {
  for (int i = map_count(r->file->names) - 1; i >= 0; i--) {
    const void *key;
    void *x;
    map_entry(r->file->names, i, &key, &x);
    if (((Object *)x)->kind == O_OBJECT) name_parameters(r, x, key, map_create(r->cx->arena, false));
  }
}

/* Parameters of modules that no module keeps: of a layer of which an encoder has copies nobody uses them; one that
 * forward() makes for itself is used. */
static void drop_nameless(Graph *g) {
  graph_count_uses(g);
  int n = 0, made = 0;
  for (int i = 0; i < g->inputs.n; i++) {
    Tensor *t = g->inputs.at[i];
    if (!t->name && t->uses) t->name = arena_printf(g->cx->arena, "parameter_%d", made++);
  }
  for (int i = 0; i < g->inputs.n; i++)
    if (g->inputs.at[i]->name || g->inputs.at[i]->uses) g->inputs.at[n++] = g->inputs.at[i];
  g->inputs.n = n;
}

Graph *graph_read(Context *cx, Source *file, const char *function, int n, const ReadInput *inputs) {
  Graph *g = graph_create(cx, function ? function : "forward");
  Reader *r = reader_create(cx, g, true);
  r->said_count = n;
  r->said = inputs;
  Node *tree = parse_module(cx, file);
  exec_file(r, r->file, tree);
  g->place = (Span){0};
  Object *f = find(r, file, function), *self = NULL;
  if (f->kind == O_CLASS) {
    Object *forward = class_find(f, "forward");
    if (!forward || forward->kind != O_FUNCTION)
      diag_fail(cx, (Span){.source = file}, "the class %s has no forward", f->cls.name);
    self = make_module(r, f, forward->function.def);
    f = forward;
  }
  name_modules_of_file(r);
  outputs(r, run_function(r, f, self, n, inputs));
  g->place = (Span){0};
  r->is_read = true;
  if (self) name_parameters(r, self, "", map_create(cx->arena, false));
  name_modules_of_file(r);
  drop_nameless(g);
  graph_verify(g, "reading");
  return g;
}
