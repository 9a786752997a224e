/* Operators. On tensors they follow PyTorch's rules: of the operands' types the highest category (bool, integer, float)
 * decides, tensors with dims before those without before Python's numbers; shapes broadcast from the right. */
#include <math.h>

#include "graph/read/object.h"

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static int category(Dtype t) { return t == DT_I1 ? 0 : dtype_is_int(t) ? 1 : 2; }

static Dtype promote(Dtype a, Dtype b) {
  if (a == b) return a;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  if (category(a) == 2) {
    if (dtype_bits(a) == dtype_bits(b)) return DT_F32; /* f16 and bf16 */
    return dtype_bits(a) > dtype_bits(b) ? a : b;
  }
  if (dtype_is_signed(a) == dtype_is_signed(b)) return dtype_bits(a) > dtype_bits(b) ? a : b;
  Dtype s = dtype_is_signed(a) ? a : b, u = dtype_is_signed(a) ? b : a;
  if (dtype_bits(s) > dtype_bits(u)) return s;
  return dtype_bits(u) == 8 ? DT_I16 : dtype_bits(u) == 16 ? DT_I32 : DT_I64;
}

Dtype op_result_type(Reader *r, Span at, int n, Object *const *in) {
  bool has[3] = {false};
  Dtype of[3] = {DT_I1, DT_I1, DT_I1};
  int best = -1;
  for (int i = 0; i < n; i++) {
    Dtype t;
    int rung = 2;
    if (in[i]->kind == O_TENSOR) {
      t = in[i]->tensor->dtype;
      rung = in[i]->tensor->rank ? 0 : 1;
    } else if (in[i]->kind == O_FLOAT) t = DT_F32;
    else if (in[i]->kind == O_INT || in[i]->kind == O_SIZE) t = DT_I64;
    else if (in[i]->kind == O_BOOL) t = DT_I1;
    else read_fail(r, at, "%s is neither a tensor nor a number", object_describe(r, in[i]));
    of[rung] = has[rung] ? promote(of[rung], t) : t;
    has[rung] = true;
    if (category(t) > best) best = category(t);
  }
  for (int rung = 0; rung < 3; rung++)
    if (has[rung] && category(of[rung]) == best) return of[rung];
  return DT_F32;
}

/* An integer that a double does not hold, of no dims; NULL: it does, or t is a float. */
Tensor *op_long(Reader *r, const Object *x, Dtype t) {
  if (x->kind != O_INT || t == DT_I1 || !dtype_is_int(t) || (x->i >> 53 == x->i >> 63)) return NULL;
  return graph_reshape(r->g, graph_iota(r->g, t, size_int(r->g, 1), x->i, 0), 0, NULL);
}

Tensor *op_tensor(Reader *r, Span at, Object *x, Dtype t) {
  if (x->kind == O_TENSOR) return graph_convert(r->g, use_tensor(r, at, x), t);
  if (x->kind == O_SIZE) return graph_extent(r->g, t, x->size);
  if (!object_is_number(x)) read_fail(r, at, "%s is neither a tensor nor a number", object_describe(r, x));
  Tensor *exact = op_long(r, x, t);
  if (exact) return exact;
  double v = object_double(x);
  return graph_full(r->g, t, 0, NULL, dtype_is_int(t) ? (t == DT_I1 ? v != 0 : trunc(v)) : v);
}

void op_broadcast(Reader *r, Span at, int n, Tensor **in) {
  const Size *size[GRAPH_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < n; i++)
    if (in[i]->rank > rank) rank = in[i]->rank;
  for (int d = 0; d < rank; d++) size[d] = size_int(r->g, 1);
  for (int i = 0; i < n; i++)
    for (int d = 0; d < in[i]->rank; d++) {
      const Size **to = &size[rank - in[i]->rank + d], *s = in[i]->size[d];
      if (size_is(*to, 1)) *to = s;
      else if (*to != s && !size_is(s, 1))
        read_fail(r, at, "shapes do not broadcast: a dim of %s and one of %s", (*to)->text, s->text);
    }
  for (int i = 0; i < n; i++)
    in[i] = in[i]->op == GRAPH_FULL ? graph_full(r->g, in[i]->dtype, rank, size, in[i]->number)
                                    : graph_expand(r->g, in[i], rank, size);
}

Tensor *op_point(Reader *r, Span at, PointOp op, int n, Object *const *in) {
  const PointInfo *p = &graph_points[op];
  if (n != p->operands) read_fail(r, at, "%s takes %d operands, and not %d", p->name, p->operands, n);
  Tensor *x[3];
  int first = p->result == RESULT_SELECT;
  Dtype t = op_result_type(r, at, n - first, in + first);
  if (p->result == RESULT_FLOAT && !dtype_is_float(t)) t = DT_F32;
  for (int i = 0; i < n; i++) x[i] = op_tensor(r, at, in[i], i < first ? DT_I1 : t);
  op_broadcast(r, at, n, x);
  return graph_point(r->g, op, n, x);
}

static const struct {
  PyOp op;
  PointOp point;
} points[] = {
    {PYOP_ADD, POINT_ADD},     {PYOP_SUB, POINT_SUB},   {PYOP_MULT, POINT_MUL},    {PYOP_DIV, POINT_DIV},
    {PYOP_BIT_AND, POINT_AND}, {PYOP_BIT_OR, POINT_OR}, {PYOP_BIT_XOR, POINT_XOR}, {PYOP_FLOOR_DIV, POINT_FLOORDIV},
    {PYOP_EQ, POINT_EQ},       {PYOP_NOT_EQ, POINT_NE}, {PYOP_LT, POINT_LT},       {PYOP_LT_E, POINT_LE},
    {PYOP_GT, POINT_GT},       {PYOP_GT_E, POINT_GE}};

static Object *tensor_binary(Reader *r, Span at, PyOp op, Object *a, Object *b) {
  Object *in[] = {a, b};
  bool complex = a->kind == O_COMPLEX || b->kind == O_COMPLEX;
  for (size_t i = 0; i < sizeof points / sizeof *points; i++)
    if (points[i].op == op && complex) return complex_binary(r, at, graph_points[points[i].point].name, a, b);
    else if (points[i].op == op) return object_tensor(r, op_point(r, at, points[i].point, 2, in));
  static const char *const names[PYOP_COUNT] = {[PYOP_POW] = "pow",
                                                [PYOP_MAT_MULT] = "matmul",
                                                [PYOP_MOD] = "remainder",
                                                [PYOP_L_SHIFT] = "bitwise_left_shift",
                                                [PYOP_R_SHIFT] = "bitwise_right_shift"};
  const char *name = names[op];
  if (!name) read_fail(r, at, "the operator %s on tensors", pyop_symbol(op));
  return call_values(r, at, library_named(r, name), 2, in);
}

/* ---- Python's numbers, sizes, lists ------------------------------------------------------------------------------ */

static NORETURN void bad(Reader *r, Span at, PyOp op, Object *a, Object *b) {
  read_fail(r, at, "'%s' does not work between %s and %s", pyop_symbol(op), object_describe(r, a),
            object_describe(r, b));
}

static Object *size_binary(Reader *r, Span at, PyOp op, Object *a, Object *b) {
  if (a->kind == O_FLOAT || b->kind == O_FLOAT) bad(r, at, op, a, b);
  const Size *x = want_size(r, at, a, "a size"), *y = want_size(r, at, b, "a size"), *q;
  switch (op) {
    case PYOP_ADD: return object_size(r, size_add(r->g, x, y));
    case PYOP_SUB: return object_size(r, size_sub(r->g, x, y));
    case PYOP_MULT: return object_size(r, size_mul(r->g, x, y));
    case PYOP_POW: {
      int64_t n = want_int(r, at, b, "an exponent");
      q = size_int(r->g, 1);
      for (int64_t i = 0; i < n; i++) q = size_mul(r->g, q, x);
      return object_size(r, q);
    }
    case PYOP_FLOOR_DIV:
      q = size_divide(r->g, x, y);
      if (q) return object_size(r, q);
      read_fail(r, at, "the size %s is divided by %s, and may have a remainder", x->text, y->text);
    case PYOP_MOD:
      if (size_divide(r->g, x, y)) return object_int(r, 0);
      read_fail(r, at, "the remainder of the size %s by %s is not known", x->text, y->text);
    default: bad(r, at, op, a, b);
  }
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static Object *int_binary(Reader *r, Span at, PyOp op, Object *a, Object *b) {
  int64_t x = a->i, y = b->i, v = 0;
  bool over = false;
  switch (op) {
    case PYOP_ADD: over = __builtin_add_overflow(x, y, &v); break;
    case PYOP_SUB: over = __builtin_sub_overflow(x, y, &v); break;
    case PYOP_MULT: over = __builtin_mul_overflow(x, y, &v); break;
    case PYOP_DIV:
    case PYOP_FLOOR_DIV:
    case PYOP_MOD:
      if (!y) read_fail(r, at, "division by zero");
      if (op == PYOP_DIV) return object_float(r, (double)x / (double)y);
      over = y == -1 && x == INT64_MIN;
      if (!over) v = op == PYOP_MOD ? x - floor_div(x, y) * y : floor_div(x, y);
      break;
    case PYOP_POW:
      if (y < 0) return object_float(r, pow((double)x, (double)y));
      v = 1;
      for (int64_t i = 0; i < y && !over && i < 64; i++) over = __builtin_mul_overflow(v, x, &v);
      over |= y > 64 && x != 1 && x != 0 && x != -1;
      break;
    case PYOP_L_SHIFT: over = y < 0 || y > 62 || __builtin_mul_overflow(x, INT64_C(1) << y, &v); break;
    case PYOP_R_SHIFT: v = x >> (y > 63 ? 63 : y); break;
    case PYOP_BIT_AND: v = x & y; break;
    case PYOP_BIT_OR: v = x | y; break;
    case PYOP_BIT_XOR: v = x ^ y; break;
    default: bad(r, at, op, a, b);
  }
  if (over) read_fail(r, at, "an integer does not fit in 64 bits");
  return object_int(r, v);
}

static Object *sequence_binary(Reader *r, Span at, PyOp op, Object *a, Object *b) {
  stack_guard();
  if (op == PYOP_ADD && a->kind == b->kind && a->kind == O_STR)
    return object_str(r, arena_printf(r->cx->arena, "%s%s", a->s, b->s));
  if (op == PYOP_ADD && a->kind == b->kind && (a->kind == O_LIST || a->kind == O_TUPLE)) {
    Object *out = object_list(r, a->kind, a->list.n, a->list.at);
    for (int i = 0; i < b->list.n; i++) object_append(r, out, b->list.at[i]);
    return out;
  }
  if (op == PYOP_MULT && a->kind == O_INT) return sequence_binary(r, at, op, b, a);
  if (op == PYOP_MULT && b->kind == O_INT && (a->kind == O_LIST || a->kind == O_TUPLE)) {
    Object *out = object_new(r, a->kind);
    context_step(r->cx, b->i * a->list.n);
    for (int64_t k = 0; k < b->i; k++)
      for (int i = 0; i < a->list.n; i++) object_append(r, out, a->list.at[i]);
    return out;
  }
  bad(r, at, op, a, b);
}

Object *op_binary(Reader *r, Span at, PyOp op, Object *a, Object *b) {
  bool complex = a->kind == O_COMPLEX || b->kind == O_COMPLEX;
  if (complex || a->kind == O_TENSOR || b->kind == O_TENSOR) return tensor_binary(r, at, op, a, b);
  bool numbers = object_is_number(a) && object_is_number(b);
  if (numbers && a->kind != O_FLOAT && b->kind != O_FLOAT) return int_binary(r, at, op, a, b);
  if (numbers) {
    double x = object_double(a), y = object_double(b);
    if (y == 0 && (op == PYOP_DIV || op == PYOP_FLOOR_DIV || op == PYOP_MOD)) read_fail(r, at, "division by zero");
    switch (op) {
      case PYOP_ADD: return object_float(r, x + y);
      case PYOP_SUB: return object_float(r, x - y);
      case PYOP_MULT: return object_float(r, x * y);
      case PYOP_DIV: return object_float(r, x / y);
      case PYOP_FLOOR_DIV: return object_float(r, floor(x / y));
      case PYOP_MOD: return object_float(r, x - floor(x / y) * y);
      case PYOP_POW: return object_float(r, pow(x, y));
      default: bad(r, at, op, a, b);
    }
  }
  if (a->kind == O_SIZE || b->kind == O_SIZE) return size_binary(r, at, op, a, b);
  return sequence_binary(r, at, op, a, b);
}

/* ---- comparisons ------------------------------------------------------------------------------------------------- */

static bool contains(Reader *r, Span at, Object *x, Object *item) {
  if (x->kind == O_STR && item->kind == O_STR) return strstr(x->s, item->s) != NULL;
  Object *said = call_special(r, at, x, "__contains__", item);
  if (said) return object_truth(r, at, said);
  Object *items = want_items(r, at, x);
  for (int i = 0; i < items->list.n; i++)
    if (object_equal(items->list.at[i], item)) return true;
  return false;
}

/* A size that is not known is 2 or more: one of 0 or 1 is always known. */
static Object *size_compare(Reader *r, Span at, PyOp op, Object *a, Object *b) {
  stack_guard();
  static const PyOp turned[PYOP_COUNT] = {
      [PYOP_LT] = PYOP_GT,     [PYOP_LT_E] = PYOP_GT_E, [PYOP_GT] = PYOP_LT,
      [PYOP_GT_E] = PYOP_LT_E, [PYOP_EQ] = PYOP_EQ,     [PYOP_NOT_EQ] = PYOP_NOT_EQ};
  if (a->kind != O_SIZE) return size_compare(r, at, turned[op], b, a);
  if (object_equal(a, b)) return object_bool(r, op == PYOP_EQ || op == PYOP_LT_E || op == PYOP_GT_E);
  bool positive = true, above = op == PYOP_GT || op == PYOP_GT_E || op == PYOP_NOT_EQ;
  for (int i = 0; i < a->size->n; i++) positive &= a->size->terms[i].factor > 0;
  int64_t least = op == PYOP_GT_E || op == PYOP_LT ? 2 : 1;
  if (positive && object_is_number(b) && object_double(b) <= (double)least) return object_bool(r, above);
  read_fail(r, at, "whether %s %s %s is not known", object_text(r, a), pyop_symbol(op), object_text(r, b));
}

Object *op_compare(Reader *r, Span at, PyOp op, Object *a, Object *b) {
  if (op == PYOP_IS || op == PYOP_IS_NOT) return object_bool(r, object_equal(a, b) == (op == PYOP_IS));
  if (op == PYOP_IN || op == PYOP_NOT_IN) return object_bool(r, contains(r, at, b, a) == (op == PYOP_IN));
  bool none = a->kind == O_NONE || b->kind == O_NONE || a->kind == O_STR || b->kind == O_STR;
  if ((a->kind == O_COMPLEX || b->kind == O_COMPLEX) && !none) return complex_compare(r, at, op, a, b);
  if ((a->kind == O_TENSOR || b->kind == O_TENSOR) && !none) return tensor_binary(r, at, op, a, b);
  if (a->kind == O_SIZE || b->kind == O_SIZE) return size_compare(r, at, op, a, b);
  if (op == PYOP_EQ || op == PYOP_NOT_EQ) return object_bool(r, object_equal(a, b) == (op == PYOP_EQ));
  int order;
  if (object_is_number(a) && object_is_number(b)) {
    double x = object_double(a), y = object_double(b);
    if (x != x || y != y) return r->no;
    order = x < y ? -1 : x > y;
  } else if (a->kind == O_STR && b->kind == O_STR) order = strcmp(a->s, b->s);
  else bad(r, at, op, a, b);
  return object_bool(r, op == PYOP_LT     ? order < 0
                        : op == PYOP_LT_E ? order <= 0
                        : op == PYOP_GT   ? order > 0
                                          : order >= 0);
}

Object *op_unary(Reader *r, Span at, PyOp op, Object *x) {
  if (op == PYOP_NOT) return object_bool(r, !object_truth(r, at, x));
  if (x->kind == O_COMPLEX) return complex_unary(r, at, op, x);
  if (x->kind == O_TENSOR && op == PYOP_U_ADD) return x;
  if (x->kind == O_TENSOR) return object_tensor(r, op_point(r, at, op == PYOP_INVERT ? POINT_NOT : POINT_NEG, 1, &x));
  if (x->kind == O_SIZE) return op_binary(r, at, PYOP_MULT, x, object_int(r, op == PYOP_U_SUB ? -1 : 1));
  if (!object_is_number(x)) read_fail(r, at, "'%s' does not work on %s", pyop_symbol(op), object_describe(r, x));
  if (op == PYOP_U_ADD) return x;
  if (x->kind == O_FLOAT && op == PYOP_U_SUB) return object_float(r, -x->f);
  if (x->kind == O_FLOAT) read_fail(r, at, "'~' does not work on a float");
  return op == PYOP_INVERT ? object_int(r, ~x->i) : op_binary(r, at, PYOP_SUB, object_int(r, 0), x);
}

/* ---- x[...] ------------------------------------------------------------------------------------------------------ */

static int64_t bound(Reader *r, Span at, const Object *x, int64_t n, int64_t none) {
  if (x->kind == O_NONE) return none;
  int64_t v = want_int(r, at, x, "a slice's bound");
  if (v < 0) v += n;
  return v < 0 ? 0 : v > n ? n : v;
}

Object *op_subscript_view(Reader *r, Span at, Tensor *x, Object *index, Object **found) {
  Object *one[] = {index};
  int n = 1, used = 0, dim = 0;
  Object *const *at_ = one;
  if (index->kind == O_TUPLE) {
    n = index->list.n;
    at_ = index->list.at;
  }
  for (int i = 0; i < n; i++) used += at_[i]->kind != O_NONE && at_[i]->kind != O_ELLIPSIS;
  Object *places = object_new(r, O_LIST); /* tensors among the indices, by dim */
  bool any = false;
  for (int i = 0; i < n; i++) {
    Object *k = at_[i];
    const Size *size[GRAPH_MAX_RANK + 1];
    if (k->kind == O_ELLIPSIS) {
      for (int skip = x->rank - dim - used; skip > 0; skip--, dim++) object_append(r, places, r->none);
      continue;
    }
    if (k->kind == O_NONE) {
      for (int d = 0; d <= x->rank; d++) size[d] = d < dim ? x->size[d] : d == dim ? size_int(r->g, 1) : x->size[d - 1];
      x = graph_reshape(r->g, x, x->rank + 1, size);
      object_append(r, places, r->none);
      dim++;
      continue;
    }
    used--;
    if (dim >= x->rank) read_fail(r, at, "too many indices for %s", object_describe(r, object_tensor(r, x)));
    if (k->kind == O_SLICE) {
      int64_t step = k->slice.step->kind == O_NONE ? 1 : want_int(r, at, k->slice.step, "a slice's step");
      x = prim_slice(r, at, x, dim++, k->slice.start, k->slice.stop, step);
      object_append(r, places, r->none);
    } else if (k->kind == O_INT || k->kind == O_SIZE) {
      const Size *first = want_size(r, at, k, "an index");
      int64_t v;
      if (size_is_int(first, &v) && v < 0) first = size_add(r->g, x->size[dim], first);
      x = graph_slice(r->g, x, dim, first, size_int(r->g, 1), 1);
      for (int d = 0; d + 1 < x->rank; d++) size[d] = x->size[d < dim ? d : d + 1];
      x = graph_reshape(r->g, x, x->rank - 1, size);
    } else {
      if (k->kind == O_LIST) k = call_values(r, at, library_named(r, "tensor"), 1, &k);
      if (k->kind != O_TENSOR) read_fail(r, at, "%s is no index of a tensor", object_describe(r, k));
      object_append(r, places, k);
      any = true;
      dim++;
    }
  }
  *found = any ? places : NULL;
  return object_tensor(r, x);
}

static Object *tensor_subscript(Reader *r, Span at, Tensor *x, Object *index) {
  Object *places, *v = op_subscript_view(r, at, x, index, &places);
  return places ? call_values(r, at, library_named(r, "index"), 2, (Object *[]){v, places}) : v;
}

Object *op_subscript(Reader *r, Span at, Object *x, Object *index) {
  stack_guard();
  if (x->kind == O_TENSOR) return tensor_subscript(r, at, use_tensor(r, at, x), index);
  if (complex_is_tensor(x)) return complex_subscript(r, at, x, index);
  if (x->kind == O_DICT) {
    Object *v = dict_get(x, index);
    if (!v) read_fail(r, at, "there is no key %s", object_describe(r, index));
    return v;
  }
  if (x->kind == O_OBJECT) {
    Object *f = class_find(x->object.cls, "__getitem__");
    if (f) return call_values(r, at, f, 2, (Object *[]){x, index});
  }
  Object *items = want_items(r, at, x);
  int n = items->list.n;
  if (index->kind == O_SLICE) {
    int64_t step = index->slice.step->kind == O_NONE ? 1 : want_int(r, at, index->slice.step, "a slice's step");
    if (!step) read_fail(r, at, "a slice has a step other than 0");
    int64_t from = bound(r, at, index->slice.start, n, step > 0 ? 0 : n - 1);
    int64_t to = bound(r, at, index->slice.stop, n, step > 0 ? n : -1);
    Object *out = object_new(r, x->kind == O_TUPLE ? O_TUPLE : O_LIST);
    if (from >= n && step < 0) from = n - 1;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) object_append(r, out, items->list.at[i]);
    if (x->kind != O_STR) return out;
    Buf b = {.arena = r->cx->arena};
    buf_puts(&b, "");
    for (int i = 0; i < out->list.n; i++) buf_puts(&b, out->list.at[i]->s);
    return object_str(r, b.at ? b.at : "");
  }
  int64_t i = want_int(r, at, index, "an index");
  if (i < -n || i >= n) read_fail(r, at, "index %lld of %d items", (long long)i, n);
  return items->list.at[i < 0 ? i + n : i];
}
