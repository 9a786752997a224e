/* A kernel under construction: its lines, names and arguments. */
#include "fuse/fuse.h"

const char *triton_type(Dtype t) {
  static const char *const names[DT_COUNT] = {
#define X(id, triton, ir, torch, bits, kind) [DT_##id] = "tl." triton,
      DTYPE_TABLE(X)
#undef X
  };
  static const struct {
    const char *from, *to;
  } words[] = {
      {"tl.fp16", "tl.float16"}, {"tl.bf16", "tl.bfloat16"}, {"tl.fp32", "tl.float32"}, {"tl.fp64", "tl.float64"}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(names[t], words[i].from)) return words[i].to;
  return names[t];
}

const char *triton_compute_type(Dtype t) { return triton_type(dtype_is_float(t) && dtype_bits(t) < 32 ? DT_F32 : t); }

/* Words that no variable may be called. */
static const char *const taken[] = {
    "and",       "as",       "assert",   "break",       "class",    "continue",     "def",       "del",     "elif",
    "else",      "except",   "for",      "from",        "global",   "if",           "import",    "in",      "is",
    "lambda",    "not",      "or",       "pass",        "raise",    "return",       "try",       "while",   "with",
    "yield",     "None",     "True",     "False",       "tl",       "triton",       "libdevice", "range",   "float",
    "int",       "max",      "min",      "abs",         "sum",      "seed",         "max_nan",   "min_nan", "first_max",
    "first_min", "last_max", "last_min", "log_add_exp", "multiply", "grouped_tile", "tile_m",    "tile_n",  "M",
    "N",         "K",        "X",        "R",           "BLOCK",    "start",        "first",     "program", NULL};

Writer *writer_create(FusePlan *p, const FuseGroup *group, const char *name) {
  Context *cx = p->g->cx;
  Writer *w = NEW(cx->arena, Writer);
  *w = (Writer){.cx = cx, .g = p->g, .plan = p, .group = group, .indent = 1, .run_bit = 1};
  w->kernel = NEW(cx->arena, FuseKernel);
  w->kernel->name = name;
  w->body.arena = w->notes.arena = cx->arena;
  w->memo = map_create(cx->arena, true);
  w->held = map_create(cx->arena, false);
  w->names = map_create(cx->arena, true);
  w->buffers = map_create(cx->arena, false);
  w->loaded_at = map_create(cx->arena, false);
  w->stored_at = map_create(cx->arena, false);
  w->part = p->parts;
  for (int i = 0; taken[i]; i++) map_put(w->names, taken[i], w);
  map_put(w->names, name, w);
  return w;
}

void writer_line(Writer *w, const char *format, ...) {
  for (int i = 0; i < w->indent; i++) buf_puts(&w->body, "    ");
  va_list ap;
  va_start(ap, format);
  buf_vprintf(&w->body, format, ap);
  va_end(ap);
  buf_putc(&w->body, '\n');
}

const char *writer_name(Writer *w, const char *wanted) {
  char base[48];
  size_t n = 0;
  for (const char *s = wanted; *s && n < sizeof base - 1; s++)
    base[n++] = (*s >= '0' && *s <= '9') || ((*s | 32) >= 'a' && (*s | 32) <= 'z') || *s == '_' ? *s : '_';
  base[n] = 0;
  if (!n || (base[0] >= '0' && base[0] <= '9')) snprintf(base, sizeof base, "t");
  const char *name = arena_strdup(w->cx->arena, base);
  for (int k = 2; map_get(w->names, name); k++) name = arena_printf(w->cx->arena, "%s_%d", base, k);
  map_put(w->names, name, w);
  return name;
}

const char *writer_size(Writer *w, const Size *s) {
  for (int i = 0; i < s->n; i++)
    for (int k = 0; k < s->terms[i].degree; k++) {
      const Symbol *symbol = s->terms[i].symbols[k];
      bool known = false;
      for (int j = 0; j < w->symbols.n; j++) known |= w->symbols.at[j] == symbol;
      if (known) continue;
      vec_push(w->cx->arena, &w->symbols, symbol);
      map_put(w->names, symbol->name, w);
    }
  return s->text;
}

const char *writer_buffer(Writer *w, Tensor *t) {
  const char *name = map_get(w->buffers, t);
  if (name) return name;
  name = writer_name(
      w, arena_printf(w->cx->arena, "%s_ptr", t->name ? t->name : arena_printf(w->cx->arena, "t%d", t->id)));
  map_put(w->buffers, t, (void *)name);
  vec_push(w->cx->arena, &w->buffer_list, t);
  return name;
}

const IndexVar *writer_var(Writer *w, const char *text, const char *mask, const Size *extent, unsigned bit) {
  IndexVar *v = NEW(w->cx->arena, IndexVar);
  *v = (IndexVar){text, mask, extent, bit, !index_is_wide(extent)};
  map_put(w->names, text, w);
  if (mask) map_put(w->names, mask, w);
  if (bit) vec_push(w->cx->arena, &w->vars, v);
  return v;
}

Map *writer_enter(Writer *w) {
  Map *outside = w->memo;
  w->memo = map_create(w->cx->arena, true);
  for (int i = 0; i < map_count(outside); i++) {
    const void *key;
    void *value;
    map_entry(outside, i, &key, &value);
    map_put(w->memo, key, value);
  }
  w->indent++;
  return outside;
}

void writer_leave(Writer *w, Map *outside) {
  w->memo = outside;
  w->indent--;
}

/* The user's lines that the kernel covers, each once. */
void writer_source(Writer *w) {
  Buf head = {.arena = w->cx->arena};
  const Source *last = NULL;
  int lines[12], n = 0, more = 0;
  for (int i = 0; i < w->members.n; i++) {
    const Span *s = &w->members.at[i]->span;
    if (!s->source || (last && last != s->source)) continue;
    last = s->source;
    bool seen = false;
    for (int k = 0; k < n; k++) seen |= lines[k] == s->line;
    if (seen) continue;
    if (n < 12) lines[n++] = s->line;
    else more++;
  }
  for (int i = 1; i < n; i++)
    for (int k = i; k > 0 && lines[k - 1] > lines[k]; k--) {
      int t = lines[k];
      lines[k] = lines[k - 1];
      lines[k - 1] = t;
    }
  for (int i = 0; i < n; i++) {
    const char *text = last->text + last->line_start[lines[i] - 1];
    text += strspn(text, " \t");
    int length = (int)strcspn(text, "\n");
    buf_printf(&head, "# %s:%d: %.*s%s\n", last->path, lines[i], length > 100 ? 100 : length, text,
               length > 100 ? " ..." : "");
  }
  if (more) buf_printf(&head, "# and %d lines more\n", more);
  buf_write(&w->body, head.at ? head.at : "", head.n);
}

void writer_constant(Writer *w, const char *name, int64_t value) {
  FuseKernel *k = w->kernel;
  k->constant_names[k->constant_count] = name;
  k->constants[k->constant_count++] = value;
}

/* In the order of the buffers. */
static const char **places(Writer *w, Map *map) {
  const char **out = NEW_N(w->cx->arena, const char *, w->buffer_list.n + 1);
  for (int i = 0; i < w->buffer_list.n; i++) {
    const char *text = map_get(map, w->buffer_list.at[i]);
    out[i] = text && *text ? text : NULL;
  }
  return out;
}

FuseKernel *writer_finish(Writer *w) {
  FuseKernel *k = w->kernel;
  Buf body = w->body;
  w->body = (Buf){.arena = w->cx->arena};
  writer_source(w);
  buf_printf(&w->body, "@triton.jit\ndef %s(%s", k->name, w->part ? "program" : "");
  const char *comma = w->part ? ", " : "";
  for (int i = 0; i < w->buffer_list.n; i++, comma = ", ")
    buf_printf(&w->body, "%s%s", comma, (const char *)map_get(w->buffers, w->buffer_list.at[i]));
  for (int i = 0; i < w->symbols.n; i++, comma = ", ") buf_printf(&w->body, "%s%s", comma, w->symbols.at[i]->name);
  if (k->seed) {
    buf_printf(&w->body, "%sseed", comma);
    comma = ", ";
  }
  for (int i = 0; i < k->constant_count; i++, comma = ", ")
    buf_printf(&w->body, "%s%s: tl.constexpr", comma, k->constant_names[i]);
  buf_puts(&w->body, "):\n");
  buf_write(&w->body, body.at ? body.at : "", body.n);
  k->text = w->body.at;
  k->notes = w->notes.at;
  k->buffer_count = w->buffer_list.n;
  k->buffers = w->buffer_list.at;
  k->loaded_at = places(w, w->loaded_at);
  k->stored_at = places(w, w->stored_at);
  k->writes = NEW_N(w->cx->arena, bool, k->buffer_count + 1);
  for (int i = 0; i < k->buffer_count; i++) k->writes[i] = map_get(w->stored_at, k->buffers[i]) != NULL;
  k->symbol_count = w->symbols.n;
  k->symbols = w->symbols.at;
  k->member_count = w->members.n;
  k->members = w->members.at;
  return k;
}

void writer_split(Writer *w, Index a, int rank, const Size *const *size, const bool *skip, Index *out) {
  if (!index_split(w->g, a, rank, size, skip, out)) diag_fail(w->cx, (Span){0}, "internal error: a kernel's indices");
}

const char *fuse_kernel_name(FusePlan *p, const FuseGroup *group) {
  Arena *a = p->g->cx->arena;
  const Tensor *t = group->roots[group->n - 1];
  const char *base = t->name                 ? t->name
                     : t->op == GRAPH_POINT  ? graph_points[t->point].name
                     : t->op == GRAPH_REDUCE ? graph_reductions[t->kind]
                                             : graph_ops[t->op].name;
  const char *kind = p->parts ? "part" : "kernel", *name = arena_printf(a, "%s_%s", base, kind);
  for (int k = 2; map_get(p->names, name); k++) name = arena_printf(a, "%s_%s_%d", base, kind, k);
  map_put(p->names, name, p);
  return name;
}

FuseKernel *fuse_library_kernel(FusePlan *p, const FuseGroup *group, Tensor *a, Tensor *b) {
  Arena *arena = p->g->cx->arena;
  Tensor *const buffers[] = {a, b, group->roots[0]};
  FuseKernel *k = NEW(arena, FuseKernel);
  k->name = fuse_kernel_name(p, group);
  k->buffer_count = 3;
  k->buffers = arena_copy(arena, buffers, sizeof buffers);
  k->loaded_at = NEW_N(arena, const char *, 3);
  k->stored_at = NEW_N(arena, const char *, 3);
  k->writes = NEW_N(arena, bool, 3);
  k->writes[2] = true;
  k->members = arena_copy(arena, &buffers[2], sizeof *buffers);
  k->member_count = 1;
  return k;
}
