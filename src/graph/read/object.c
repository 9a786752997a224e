/* Values: making them, naming them, comparing them. */
#include <math.h>

#include "graph/read/object.h"

Object *object_new(Reader *r, ObjectKind kind) {
  Object *x = NEW(r->cx->arena, Object);
  x->kind = kind;
  return x;
}

Object *object_int(Reader *r, int64_t v) {
  Object *x = object_new(r, O_INT);
  x->i = v;
  return x;
}

Object *object_float(Reader *r, double v) {
  Object *x = object_new(r, O_FLOAT);
  x->f = v;
  return x;
}

Object *object_bool(Reader *r, bool v) { return v ? r->yes : r->no; }

Object *object_str(Reader *r, const char *s) {
  Object *x = object_new(r, O_STR);
  x->s = s;
  return x;
}

Object *object_path(Reader *r, const char *s) {
  Object *x = object_new(r, O_PATH);
  x->s = s;
  return x;
}

Object *object_size(Reader *r, const Size *s) {
  int64_t v;
  if (size_is_int(s, &v)) return object_int(r, v);
  Object *x = object_new(r, O_SIZE);
  x->size = s;
  return x;
}

Object *object_tensor(Reader *r, Tensor *t) {
  Object *x = object_new(r, O_TENSOR);
  x->tensor = t;
  return x;
}

Tensor *use_tensor(Reader *r, Span at, Object *x) {
  if (!r->sweeping) x->tensor = tensor_now(r, at, x->tensor); /* rules of gradients want what was */
  return x->tensor;
}

Object *object_dtype(Reader *r, Dtype t) {
  Object *x = object_new(r, O_DTYPE);
  x->dtype = t;
  return x;
}

Object *object_complex_dtype(Reader *r, Dtype part) {
  Object *x = object_dtype(r, part);
  x->is_complex = true;
  return x;
}

void object_append(Reader *r, Object *list, Object *x) {
  vec_reserve(r->cx->arena, (void **)&list->list.at, &list->list.cap, list->list.n + 1, sizeof *list->list.at);
  list->list.at[list->list.n++] = x;
}

Object *object_list(Reader *r, ObjectKind kind, int n, Object *const *at) {
  Object *x = object_new(r, kind);
  for (int i = 0; i < n; i++) object_append(r, x, at[i]);
  return x;
}

Object *dict_get(const Object *dict, const Object *key) {
  for (int i = 0; i < dict->dict.n; i++)
    if (object_equal(dict->dict.keys[i], key)) return dict->dict.values[i];
  return NULL;
}

void dict_put(Reader *r, Object *dict, Object *key, Object *value) {
  for (int i = 0; i < dict->dict.n; i++)
    if (object_equal(dict->dict.keys[i], key)) {
      dict->dict.values[i] = value;
      return;
    }
  int cap = dict->dict.cap;
  vec_reserve(r->cx->arena, (void **)&dict->dict.keys, &cap, dict->dict.n + 1, sizeof *dict->dict.keys);
  vec_reserve(r->cx->arena, (void **)&dict->dict.values, &dict->dict.cap, dict->dict.n + 1, sizeof *dict->dict.values);
  dict->dict.keys[dict->dict.n] = key;
  dict->dict.values[dict->dict.n++] = value;
}

void dict_remove(Object *dict, const Object *key) {
  int to = 0;
  for (int i = 0; i < dict->dict.n; i++) {
    if (object_equal(dict->dict.keys[i], key)) continue;
    dict->dict.keys[to] = dict->dict.keys[i];
    dict->dict.values[to++] = dict->dict.values[i];
  }
  dict->dict.n = to;
}

const char *object_kind(const Object *x) {
  static const char *const names[] = {"None",    "bool",     "int",    "float", "str",    "size", "tensor",
                                      "complex", "dtype",    "...",    "tuple", "list",   "dict", "slice",
                                      "library", "function", "method", "class", "object", "super"};
  return names[x->kind];
}

/* c64[2, 3], (1.0+2.0j) */
static void print_complex(Reader *r, Buf *out, const Object *x) {
  if (complex_is_tensor(x)) {
    Buf type = {.arena = r->cx->arena};
    graph_print_type(&type, x->parts.real->tensor);
    buf_printf(out, "c%d%s", 2 * dtype_bits(x->parts.real->tensor->dtype), strchr(type.at, '['));
    return;
  }
  buf_putc(out, '(');
  buf_double(out, x->parts.real->f);
  if (!signbit(x->parts.imag->f)) buf_putc(out, '+');
  buf_double(out, x->parts.imag->f);
  buf_puts(out, "j)");
}

static void text(Reader *r, Buf *out, const Object *x, bool quoted) {
  stack_guard();
  switch (x->kind) {
    case O_BOOL: buf_puts(out, x->i ? "True" : "False"); break;
    case O_INT: buf_printf(out, "%lld", (long long)x->i); break;
    case O_FLOAT: buf_double(out, x->f); break;
    case O_STR: buf_printf(out, quoted ? "'%s'" : "%s", x->s); break;
    case O_PATH: buf_puts(out, x->s); break;
    case O_SIZE: buf_puts(out, x->size->text); break;
    case O_DTYPE:
      if (x->is_complex) buf_printf(out, "torch.complex%d", 2 * dtype_bits(x->dtype));
      else buf_printf(out, "torch.%s", dtype_torch_name(x->dtype));
      break;
    case O_COMPLEX: print_complex(r, out, x); break;
    case O_TENSOR: graph_print_type(out, x->tensor); break;
    case O_TUPLE:
    case O_LIST:
      buf_putc(out, x->kind == O_LIST ? '[' : '(');
      for (int i = 0; i < x->list.n; i++) {
        if (i) buf_puts(out, ", ");
        text(r, out, x->list.at[i], true);
      }
      buf_puts(out, x->kind == O_LIST ? "]" : x->list.n == 1 ? ",)" : ")");
      break;
    case O_CLASS: buf_puts(out, x->cls.name); break;
    case O_OBJECT: buf_printf(out, "%s()", x->object.cls->cls.name); break;
    case O_FUNCTION:
      buf_puts(out, x->function.def->kind == NODE_LAMBDA ? "lambda" : x->function.def->FunctionDef.name);
      break;
    default: buf_puts(out, object_kind(x));
  }
}

const char *object_text(Reader *r, const Object *x) {
  Buf b = {.arena = r->cx->arena};
  text(r, &b, x, false);
  return b.at ? b.at : "";
}

const char *object_describe(Reader *r, const Object *x) {
  Buf b = {.arena = r->cx->arena};
  if (x->kind == O_TENSOR || complex_is_tensor(x)) buf_puts(&b, "a tensor ");
  text(r, &b, x, true);
  return b.at;
}

bool object_is_number(const Object *x) { return x->kind == O_BOOL || x->kind == O_INT || x->kind == O_FLOAT; }
double object_double(const Object *x) { return x->kind == O_FLOAT ? x->f : (double)x->i; }

bool object_equal(const Object *a, const Object *b) {
  stack_guard();
  if (object_is_number(a) && object_is_number(b))
    return a->kind == O_FLOAT || b->kind == O_FLOAT ? object_double(a) == object_double(b) : a->i == b->i;
  if (a->kind != b->kind) return false;
  switch (a->kind) {
    case O_NONE:
    case O_ELLIPSIS: return true;
    case O_STR:
    case O_PATH: return !strcmp(a->s, b->s);
    case O_SIZE: return a->size == b->size;
    case O_DTYPE: return a->dtype == b->dtype && a->is_complex == b->is_complex;
    case O_TENSOR: return a->tensor == b->tensor;
    case O_TUPLE:
    case O_LIST:
      for (int i = 0; i < a->list.n && i < b->list.n; i++)
        if (!object_equal(a->list.at[i], b->list.at[i])) return false;
      return a->list.n == b->list.n;
    default: return a == b;
  }
}

bool object_truth(Reader *r, Span at, const Object *x) {
  switch (x->kind) {
    case O_NONE: return false;
    case O_BOOL:
    case O_INT: return x->i != 0;
    case O_FLOAT: return x->f != 0;
    case O_STR: return *x->s;
    case O_TUPLE:
    case O_LIST: return x->list.n;
    case O_DICT: return x->dict.n;
    case O_COMPLEX: return object_truth(r, at, x->parts.real) || object_truth(r, at, x->parts.imag);
    case O_TENSOR: read_fail(r, at, "a condition on the values of a tensor: what is computed may not depend on data");
    default: return true;
  }
}

void read_fail(Reader *r, Span at, const char *format, ...) {
  Buf b = {.arena = r->cx->arena};
  va_list ap;
  va_start(ap, format);
  buf_vprintf(&b, format, ap);
  va_end(ap);
  if (r->g->place.source) at = r->g->place; /* the user's line */
  diag_fail(r->cx, at, "%s", b.at);
}

int64_t want_int(Reader *r, Span at, const Object *x, const char *what) {
  if (x->kind != O_INT && x->kind != O_BOOL)
    read_fail(r, at, "%s is an integer, and not %s", what, object_describe(r, x));
  return x->i;
}

const Size *want_size(Reader *r, Span at, const Object *x, const char *what) {
  if (x->kind == O_SIZE) return x->size;
  return size_int(r->g, want_int(r, at, x, what));
}

Object *want_items(Reader *r, Span at, Object *x) {
  stack_guard();
  Object *out;
  switch (x->kind) {
    case O_TUPLE:
    case O_LIST: return x;
    case O_DICT: return object_list(r, O_LIST, x->dict.n, x->dict.keys);
    case O_STR:
      out = object_new(r, O_LIST);
      for (const char *s = x->s; *s; s++) object_append(r, out, object_str(r, arena_strndup(r->cx->arena, s, 1)));
      return out;
    case O_COMPLEX:
    case O_TENSOR: {
      int64_t n;
      const Object *part = x->kind == O_COMPLEX ? x->parts.real : x;
      if (part->kind != O_TENSOR || !part->tensor->rank || !size_is_int(part->tensor->size[0], &n)) break;
      out = object_new(r, O_LIST);
      for (int64_t i = 0; i < n; i++) object_append(r, out, op_subscript(r, at, x, object_int(r, i)));
      return out;
    }
    case O_OBJECT: /* nn.Sequential, nn.ModuleList: their items */
      out = call_special(r, at, x, "__iter__", NULL);
      if (out) return want_items(r, at, out);
      break;
    default: break;
  }
  read_fail(r, at, "%s has no items", object_describe(r, x));
}
