/* Complex numbers. The graph has none: a complex value is two real tensors that are alike, its parts, or two floats.
 *
 *     z = torch.view_as_complex(x)     parts x[..., 0] and x[..., 1], views of x, which is the value's pair
 *     z * w                            complex_mul of library/complex.py: four products of parts, in one kernel
 *     z.reshape(4, -1)[0]              both parts reshaped, and sliced
 *     return z                         the parts in pairs: memory as PyTorch and NumPy have it
 *
 * A primitive that meets a complex value is the function complex_NAME of library/complex.py. Where there is none, and
 * the primitive moves elements or is linear (`maps`), it is applied to each part. So the library's functions serve
 * complex values as they stand. Gradients are those of the parts: PyTorch's, of a real loss (conjugate Wirtinger). */
#include "graph/read/object.h"

static const char *const part_names[] = {"real", "imag"};

Dtype complex_part(const Object *dtype) { return dtype->dtype; }

bool complex_is_tensor(const Object *x) { return x->kind == O_COMPLEX && x->parts.real->kind == O_TENSOR; }

static Object *make(Reader *r, Object *real, Object *imag) {
  Object *x = object_new(r, O_COMPLEX);
  x->parts.real = real;
  x->parts.imag = imag;
  return x;
}

Object *complex_number(Reader *r, double real, double imag) {
  return make(r, object_float(r, real), object_float(r, imag));
}

Object *complex_join(Reader *r, Span at, Object *real, Object *imag) {
  Object *in[] = {real, imag};
  if (real->kind != O_TENSOR && imag->kind != O_TENSOR) {
    for (int k = 0; k < 2; k++)
      if (!object_is_number(in[k])) read_fail(r, at, "a complex number of %s", object_describe(r, in[k]));
    return complex_number(r, object_double(real), object_double(imag));
  }
  Dtype t = op_result_type(r, at, 2, in);
  if (!dtype_is_float(t)) t = DT_F32;
  if (dtype_bits(t) < 32)
    read_fail(r, at, "complex numbers have parts of float32 or float64, and not of %s", dtype_torch_name(t));
  Tensor *x[2];
  for (int k = 0; k < 2; k++) x[k] = op_tensor(r, at, in[k], t);
  op_broadcast(r, at, 2, x);
  for (int k = 0; k < 2; k++)
    if (in[k]->kind != O_TENSOR || in[k]->tensor != x[k]) in[k] = object_tensor(r, x[k]);
  return make(r, in[0], in[1]);
}

/* The real (0) or imaginary part (1) of a value. */
static Object *part(Reader *r, Object *x, int k) {
  if (x->kind == O_COMPLEX) return k ? x->parts.imag : x->parts.real;
  if (!k || (x->kind != O_TENSOR && x->kind != O_SIZE && !object_is_number(x))) return x;
  if (x->kind != O_TENSOR) return object_int(r, 0);
  return object_tensor(r, graph_full(r->g, x->tensor->dtype, x->tensor->rank, x->tensor->size, 0));
}

static Tensor *part_now(Reader *r, Span at, Object *x, int k) { return use_tensor(r, at, part(r, x, k)); }

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

static Tensor *of_pair(Reader *r, Tensor *t, int k) {
  int last = t->rank - 1;
  t = graph_slice(r->g, t, last, size_int(r->g, k), size_int(r->g, 1), 1);
  return graph_reshape(r->g, t, last, t->size);
}

Object *complex_of_pairs(Reader *r, Span at, Object *pair) {
  Tensor *t = use_tensor(r, at, pair);
  if (!t->rank || !size_is(t->size[t->rank - 1], 2) || !dtype_is_float(t->dtype) || dtype_bits(t->dtype) < 32)
    read_fail(r, at, "view_as_complex takes pairs of float32 or float64 in the last dim, and not %s",
              object_describe(r, pair));
  Object *x = make(r, object_tensor(r, of_pair(r, t, 0)), object_tensor(r, of_pair(r, t, 1)));
  x->parts.pair = pair;
  return x;
}

Tensor *complex_pairs(Reader *r, Span at, Object *x) {
  const Size *size[GRAPH_MAX_RANK];
  Tensor *in[2];
  if (!complex_is_tensor(x)) read_fail(r, at, "a complex tensor is wanted, and not %s", object_describe(r, x));
  if (x->parts.pair) return use_tensor(r, at, x->parts.pair);
  for (int k = 0; k < 2; k++) {
    in[k] = part_now(r, at, x, k);
    if (in[k]->rank == GRAPH_MAX_RANK) read_fail(r, at, "a complex tensor has at most %d dims", GRAPH_MAX_RANK - 1);
    for (int d = 0; d < in[k]->rank; d++) size[d] = in[k]->size[d];
    size[in[k]->rank] = size_int(r->g, 1);
    in[k] = graph_reshape(r->g, in[k], in[k]->rank + 1, size);
  }
  return graph_concat(r->g, 2, in, in[0]->rank - 1);
}

/* Its parts become views of a pair, so that who writes the one is seen in the other. */
static Object *pair_of(Reader *r, Span at, Object *x) {
  if (!complex_is_tensor(x)) read_fail(r, at, "a complex tensor is wanted, and not %s", object_describe(r, x));
  if (x->parts.pair) return x->parts.pair;
  Tensor *t = complex_pairs(r, at, x);
  for (int k = 0; k < 2; k++)
    if (tensor_is_view(r, part_now(r, at, x, k))) return object_tensor(r, tensor_unwritable(r, t));
  t = graph_detach(r->g, t, t);
  for (int k = 0; k < 2; k++) part_now(r, at, x, k)->now = of_pair(r, t, k);
  r->g->is_written = true;
  return x->parts.pair = object_tensor(r, t);
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

Object *complex_binary(Reader *r, Span at, const char *name, Object *a, Object *b) {
  Object *f = library_named(r, arena_printf(r->cx->arena, "complex_%s", name));
  if (!f) read_fail(r, at, "%s of complex numbers is not supported", name);
  return call_values(r, at, f, 2, (Object *[]){a, b});
}

Object *complex_compare(Reader *r, Span at, PyOp op, Object *a, Object *b) {
  if (op != PYOP_EQ && op != PYOP_NOT_EQ)
    read_fail(r, at, "complex numbers have no order: '%s' of %s and %s", pyop_symbol(op), object_describe(r, a),
              object_describe(r, b));
  if (!complex_is_tensor(a) && !complex_is_tensor(b) && a->kind != O_TENSOR && b->kind != O_TENSOR)
    return object_bool(r, (object_equal(part(r, a, 0), part(r, b, 0)) && object_equal(part(r, a, 1), part(r, b, 1))) ==
                              (op == PYOP_EQ));
  return complex_binary(r, at, op == PYOP_EQ ? "eq" : "ne", a, b);
}

Object *complex_unary(Reader *r, Span at, PyOp op, Object *x) {
  if (op == PYOP_U_ADD) return x;
  if (op != PYOP_U_SUB) read_fail(r, at, "'~' does not work on %s", object_describe(r, x));
  return make(r, op_unary(r, at, op, part(r, x, 0)), op_unary(r, at, op, part(r, x, 1)));
}

Object *complex_subscript(Reader *r, Span at, Object *x, Object *index) {
  return make(r, op_subscript(r, at, part(r, x, 0), index), op_subscript(r, at, part(r, x, 1), index));
}

void complex_in_place(Reader *r, Span at, Object *x, const char *name, Object *value) {
  Tensor *to[2];
  if (!complex_is_tensor(x)) read_fail(r, at, "%s: %s cannot hold complex numbers", name, object_describe(r, x));
  for (int k = 0; k < 2; k++) to[k] = op_tensor(r, at, part(r, value, k), part_now(r, at, x, k)->dtype);
  for (int k = 0; k < 2; k++) in_place(r, at, part(r, x, k), name, to[k]);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

void complex_ask(Reader *r, Span at, Object *x, bool wanted) { autograd_ask(r, at, pair_of(r, at, x), wanted); }

/* .grad and its kin are those of the pair. */
static Object *gradient_attribute(Reader *r, Span at, Object *x, const char *name) {
  Object *v = autograd_attribute(r, x->parts.pair ? x->parts.pair : part(r, x, 0), name);
  if (v && !strcmp(name, "requires_grad") && !x->parts.pair && !v->i) v = autograd_attribute(r, part(r, x, 1), name);
  if (!v || v->kind != O_TENSOR) return v;
  return !strcmp(name, "grad") ? complex_of_pairs(r, at, v)
                               : make(r, autograd_detach(r, part(r, x, 0)), autograd_detach(r, part(r, x, 1)));
}

Object *complex_attribute(Reader *r, Span at, Object *x, const char *name) {
  for (int k = 0; k < 2; k++)
    if (!strcmp(name, part_names[k])) return part(r, x, k);
  if (!complex_is_tensor(x)) return NULL;
  if (!strcmp(name, "dtype")) return object_complex_dtype(r, part(r, x, 0)->tensor->dtype);
  Object *v = gradient_attribute(r, at, x, name);
  if (v) return v;
  v = tensor_attribute(r, at, part_now(r, at, x, 0), name);
  if (!v || v->kind != O_TENSOR) return v;
  v = make(r, v, tensor_attribute(r, at, part_now(r, at, x, 1), name)); /* T, mT, H, mH */
  return strchr(name, 'H') ? call_values(r, at, library_named(r, "conj"), 1, &v) : v;
}

bool complex_assign(Reader *r, Span at, Object *x, const char *name, Object *value) {
  for (int k = 0; k < 2; k++) {
    if (strcmp(name, part_names[k])) continue;
    Object *to = part(r, x, k);
    if (to->kind != O_TENSOR || value->kind == O_COMPLEX)
      read_fail(r, at, "the %s part of %s cannot be %s", k ? "imaginary" : "real", object_describe(r, x),
                object_describe(r, value));
    if (value != to) in_place(r, at, to, "an assignment", op_tensor(r, at, value, to->tensor->dtype));
    return true;
  }
  if (!complex_is_tensor(x)) return false;
  if (!strcmp(name, "data")) {
    complex_in_place(r, at, x, "data", value);
    return true;
  }
  if (value->kind == O_COMPLEX) value = object_tensor(r, complex_pairs(r, at, value));
  return autograd_assign(r, at, pair_of(r, at, x), name, value);
}

/* ---- primitives -------------------------------------------------------------------------------------------------- */

/* Applied to each part. values: bits of the arguments that are values; of a real one the imaginary part is 0. */
static const struct {
  const char *name;
  unsigned values;
} maps[] = {{"permute", 1}, {"reshape", 1}, {"expand", 1}, {"slice", 1},      {"flip", 1},       {"unfold", 1},
            {"gather", 1},  {"view", 1},    {"detach", 3}, {"sum", 1},        {"cumsum", 1},     {"pad", 17},
            {"concat", 1},  {"scatter", 5}, {"full", 2},   {"uniform", 0},    {"convert", 1},    {"where", 6},
            {"neg", 1},     {"item", 1},    {"share", 1},  {"contiguous", 1}, {"scatter_add", 5}};

static bool is_complex(const Object *x) {
  stack_guard();
  for (int i = 0; (x->kind == O_LIST || x->kind == O_TUPLE) && i < x->list.n; i++)
    if (is_complex(x->list.at[i])) return true;
  return x->kind == O_COMPLEX || (x->kind == O_DTYPE && x->is_complex);
}

/* An argument, for one of the parts. */
static Object *argument_part(Reader *r, Object *x, bool is_value, int k) {
  stack_guard();
  if (x->kind == O_DTYPE && x->is_complex) return object_dtype(r, complex_part(x));
  if (is_complex(x) && x->kind != O_COMPLEX) {
    Object *list = object_new(r, x->kind);
    for (int i = 0; i < x->list.n; i++) object_append(r, list, argument_part(r, x->list.at[i], is_value, k));
    return list;
  }
  return x->kind == O_COMPLEX || is_value ? part(r, x, k) : x;
}

static Object *call_part(Reader *r, const char *name, const Args *a, unsigned values, int k) {
  Args b = *a;
  b.at = NEW_N(r->cx->arena, Object *, a->n + 1);
  for (int i = 0; i < a->n; i++) b.at[i] = argument_part(r, a->at[i], values >> i & 1, k);
  return prim_call(r, name, &b);
}

static Object *broadcast(Reader *r, const Args *a) {
  Object *out[2] = {call_part(r, "broadcast", a, 0, 0), call_part(r, "broadcast", a, 0, 1)};
  for (int i = 0; i < a->n; i++)
    if (a->at[i]->kind == O_COMPLEX) out[0]->list.at[i] = make(r, out[0]->list.at[i], out[1]->list.at[i]);
  return out[0];
}

/* A module's: an input of pairs. */
static Object *parameter(Reader *r, const char *name, const Args *a) {
  Object *of[3] = {object_list(r, O_LIST, 0, NULL), object_dtype(r, complex_part(a->at[1])),
                   a->n > 2 ? a->at[2] : NULL};
  Object *items = want_items(r, a->span, a->at[0]);
  for (int i = 0; i < items->list.n; i++) object_append(r, of[0], items->list.at[i]);
  object_append(r, of[0], object_int(r, 2));
  Object *pair = prim_call(r, name, &(Args){.span = a->span, .n = a->n, .at = of});
  pair->tensor->is_complex = true;
  return complex_of_pairs(r, a->span, pair);
}

static Object *write(Reader *r, const Args *a) { /* an input */
  Object *x = a->at[0], *pair = x->kind == O_COMPLEX ? x->parts.pair : NULL;
  if (!pair || pair->tensor->op != GRAPH_INPUT) {
    complex_in_place(r, a->span, x, "copy_", a->at[1]);
    return x;
  }
  Object *v = complex_join(r, a->span, part(r, a->at[1], 0), part(r, a->at[1], 1));
  Object *of[] = {pair, object_tensor(r, complex_pairs(r, a->span, v))};
  prim_call(r, "write", &(Args){.span = a->span, .n = 2, .at = of});
  return v;
}

/* Questions about complex values, and what is done with pairs. */
static Object *other(Reader *r, const char *name, const Args *a) {
  if (!strcmp(name, "is_float") || !strcmp(name, "is_dtype")) return r->yes;
  if (!strcmp(name, "is_bool")) return r->no;
  if (!strcmp(name, "is_empty") || !strcmp(name, "numel")) return call_part(r, name, a, 0, 0);
  if (!strcmp(name, "result_type")) {
    Dtype t = complex_part(call_part(r, name, a, 0, 0));
    return object_complex_dtype(r, dtype_is_float(t) ? t : DT_F32);
  }
  if (!strcmp(name, "broadcast")) return broadcast(r, a);
  if (!strcmp(name, "parameter") || !strcmp(name, "buffer") || !strcmp(name, "state")) return parameter(r, name, a);
  if (!strcmp(name, "write")) return write(r, a);
  if (!strcmp(name, "assign") || !strcmp(name, "overwrite")) {
    bool before = r->no_grad;
    r->no_grad |= *name == 'a';
    complex_in_place(r, a->span, a->at[0], *name == 'a' ? "an assignment" : object_text(r, a->at[2]), a->at[1]);
    r->no_grad = before;
    return a->at[0];
  }
  if (!strcmp(name, "requires_grad")) {
    complex_ask(r, a->span, a->at[0], object_truth(r, a->span, a->at[1]));
    return a->at[0];
  }
  Object *pair = a->n && a->at[0]->kind == O_COMPLEX ? a->at[0]->parts.pair : NULL;
  if (!strcmp(name, "is_contiguous"))
    return object_bool(
        r, tensor_is_contiguous(r, pair ? use_tensor(r, a->span, pair) : part_now(r, a->span, a->at[0], 0)));
  if (!strcmp(name, "contiguous") && pair && tensor_is_contiguous(r, use_tensor(r, a->span, pair))) return a->at[0];
  if (!strcmp(name, "convert") && !a->at[1]->is_complex) return call_part(r, name, a, 1, 0); /* drops the other part */
  return NULL;
}

/* To and from parts: of real values as well. */
static Object *conversion(Reader *r, const char *name, const Args *a) {
  if (!strcmp(name, "complex") && a->n == 2) { /* has memory of its own */
    Object *x = complex_join(r, a->span, a->at[0], a->at[1]);
    if (!complex_is_tensor(x)) return x;
    for (int k = 0; k < 2; k++) {
      Tensor *t = part_now(r, a->span, x, k);
      *(k ? &x->parts.imag : &x->parts.real) = object_tensor(r, graph_detach(r->g, t, t));
    }
    return x;
  }
  if (a->n != 1) return NULL;
  for (int k = 0; k < 2; k++)
    if (!strcmp(name, part_names[k])) return part(r, a->at[0], k);
  if (!strcmp(name, "is_complex")) return object_bool(r, is_complex(a->at[0]));
  if (!strcmp(name, "view_as_real")) return pair_of(r, a->span, a->at[0]);
  if (!strcmp(name, "pairs")) return object_tensor(r, complex_pairs(r, a->span, a->at[0])); /* which nobody writes */
  if (strcmp(name, "view_as_complex")) return NULL;
  if (a->at[0]->kind != O_TENSOR) read_fail(r, a->span, "view_as_complex of %s", object_describe(r, a->at[0]));
  return complex_of_pairs(r, a->span, a->at[0]);
}

Object *complex_prim(Reader *r, const char *name, const Args *a) {
  stack_guard();
  Object *y = conversion(r, name, a);
  static const char *const passed[] = {"named", "fail", "backward", "grad", "clone_module", "children", "parameters"};
  bool any = false;
  for (int i = 0; i < a->n; i++) any |= is_complex(a->at[i]);
  for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) any &= strcmp(name, passed[i]) != 0;
  if (y || !any) return y;
  y = other(r, name, a);
  if (y) return y;
  Object *f = library_named(r, arena_printf(r->cx->arena, "complex_%s", name));
  if (f) return call(r, f, a);
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
    if (!strcmp(maps[i].name, name)) {
      Object *real = call_part(r, name, a, maps[i].values, 0), *imag = call_part(r, name, a, maps[i].values, 1);
      return complex_join(r, a->span, real, imag);
    }
  read_fail(r, a->span, "%s of complex numbers is not supported", name);
}
