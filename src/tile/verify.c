/* Checks that IR is what tile.h and ops.def say: links, what is visible where, counts, types, attributes.
 *
 * Wrong IR is a mistake of Nereid's own (or of a person who wrote IR text), so the message speaks of operations:
 *
 *     k.py:12:9: error: wrong IR after licm: 'add': operand 1 is f32[64], not f32[32]
 *       hint: %7 = add %5, %6 : f32[32]
 *
 * Values are visible from their definition to the end of their block, and in the bodies between. `visible` holds a byte
 * a value, set when the walk passes its definition and cleared when it leaves the block, so the whole is linear.
 */
#include "tile/tile.h"

enum { MAX_DEPTH = 512 };

typedef struct Verifier {
  Func *func;
  const char *after;
  uint8_t *visible; /* by value id */
  int scalars_only; /* > 0 inside the body of reduce, scan or map */
  int depth;
} Verifier;

/* ---- messages ---------------------------------------------------------------------------------------------------- */

void tile_wrong(const Func *f, const char *after, const Op *op, const char *what) {
  Context *cx = f->cx;
  Buf text = {.arena = cx->arena};
  bool printable = op->in_count >= 0 && op->out_count >= 0;
  for (int i = 0; i < op->in_count; i++) printable = printable && op->in[i];
  if (printable) tile_print_op(&text, op, 0, 0);
  const char *line = text.at ? arena_strndup(cx->arena, text.at, strcspn(text.at, "\n")) : NULL;
  buf_destroy(&text);
  Span span = op->span ? *op->span : (Span){0};
  if (line) diag_fail_hint(cx, span, line, "wrong IR after %s: '%s': %s", after, op_info[op->code].name, what);
  diag_fail(cx, span, "wrong IR after %s: '%s': %s", after, op_info[op->code].name, what);
}

static NORETURN PRINTF_LIKE(3, 4) void bad(Verifier *v, const Op *op, const char *format, ...) {
  char what[400];
  va_list ap;
  va_start(ap, format);
  vsnprintf(what, sizeof what, format, ap);
  va_end(ap);
  tile_wrong(v->func, v->after, op, what);
}

/* A type as text that lives as long as the compilation. */
static const char *show(Verifier *v, const Type *t) {
  Buf text = {.arena = v->func->cx->arena};
  type_print(&text, t);
  const char *kept = arena_strdup(v->func->cx->arena, text.at ? text.at : "?");
  buf_destroy(&text);
  return kept;
}

static void need_type(Verifier *v, const Op *op, const char *what, int i, const Type *is, const Type *want) {
  if (is != want) bad(v, op, "%s %d is %s, not %s", what, i, show(v, is), show(v, want));
}

static const Type *in(const Op *op, int i) { return op->in[i]->type; }
static const Type *out(const Op *op, int i) { return op->out[i]->type; }

static void need_in(Verifier *v, const Op *op, int i, const Type *want) {
  need_type(v, op, "operand", i, in(op, i), want);
}
static void need_out(Verifier *v, const Op *op, int i, const Type *want) {
  need_type(v, op, "result", i, out(op, i), want);
}

static void need_shape(Verifier *v, const Op *op, const char *what, int i, const Type *is, const Type *like) {
  if (!type_same_shape(is, like))
    bad(v, op, "%s %d is %s, whose shape is not that of %s", what, i, show(v, is), show(v, like));
}

static void need_same_elem(Verifier *v, const Op *op, const Type *a, const Type *b) {
  Context *cx = v->func->cx;
  if (type_elem(cx, a) != type_elem(cx, b)) bad(v, op, "the element changes from %s to %s", show(v, a), show(v, b));
}

static bool is_number(const Type *t) { return !t->ptr; }
static bool is_int(const Type *t) { return !t->ptr && dtype_is_int(t->dtype); }
static bool is_float(const Type *t) { return !t->ptr && dtype_is_float(t->dtype); }
static bool is_bool(const Type *t) { return !t->ptr && t->dtype == DT_I1; }

static void need_int(Verifier *v, const Op *op, int i) {
  if (!is_int(in(op, i))) bad(v, op, "operand %d is %s, not integers", i, show(v, in(op, i)));
}

/* Operand i, an i1 of the shape of `like`. */
static void need_mask(Verifier *v, const Op *op, int i, const Type *like) {
  need_in(v, op, i, type_with_dtype(v->func->cx, like, DT_I1));
}

static int need_axis(Verifier *v, const Op *op, int64_t axis, int rank) {
  if (axis < 0 || axis >= rank) bad(v, op, "axis %lld is not below the rank %d", (long long)axis, rank);
  return (int)axis;
}

/* ---- shape ------------------------------------------------------------------------------------------------------- */

static const Type *without_dim(Verifier *v, const Type *t, int axis) {
  int32_t shape[MAX_RANK];
  for (int d = 0, n = 0; d < t->rank; d++)
    if (d != axis) shape[n++] = t->shape[d];
  return type_tensor(v->func->cx, type_elem(v->func->cx, t), t->rank - 1, shape);
}

static void check_trans(Verifier *v, const Op *op) {
  const Type *from = in(op, 0), *to = out(op, 0);
  need_same_elem(v, op, from, to);
  if (op->dim_count != from->rank || to->rank != from->rank)
    bad(v, op, "dims has %d entries for a tensor of rank %d", op->dim_count, from->rank);
  unsigned seen = 0;
  for (int d = 0; d < op->dim_count; d++) {
    int64_t dim = op->dims[d];
    if (dim < 0 || dim >= from->rank || seen >> dim & 1) bad(v, op, "dims is not a permutation");
    seen |= 1u << dim;
    if (to->shape[d] != from->shape[dim])
      bad(v, op, "dim %d of the result is %d, not %d", d, to->shape[d], from->shape[dim]);
  }
}

static void check_cat(Verifier *v, const Op *op) {
  const Type *a = in(op, 0), *b = in(op, 1), *to = out(op, 0);
  need_same_elem(v, op, a, b);
  need_same_elem(v, op, a, to);
  if (a->rank != b->rank || a->rank != to->rank) bad(v, op, "the ranks differ");
  int axis = need_axis(v, op, op->axis, a->rank);
  for (int d = 0; d < a->rank; d++)
    if (d == axis ? to->shape[d] != a->shape[d] + b->shape[d]
                  : to->shape[d] != a->shape[d] || to->shape[d] != b->shape[d])
      bad(v, op, "dim %d is %d and %d, and of the result %d", d, a->shape[d], b->shape[d], to->shape[d]);
}

static void check_shape_op(Verifier *v, const Op *op) {
  const Type *from = in(op, 0), *to = out(op, 0);
  if (op->code != OP_GATHER) need_same_elem(v, op, from, to);
  switch (op->code) {
    case OP_SPLAT:
      if (from->rank) bad(v, op, "the operand is %s, not a scalar", show(v, from));
      if (!to->rank) bad(v, op, "the result is a scalar");
      break;
    case OP_BROADCAST:
      if (from->rank != to->rank) bad(v, op, "the rank changes from %d to %d", from->rank, to->rank);
      for (int d = 0; d < to->rank; d++)
        if (from->shape[d] != to->shape[d] && from->shape[d] != 1)
          bad(v, op, "dim %d grows from %d to %d; only 1 can", d, from->shape[d], to->shape[d]);
      break;
    case OP_EXPAND_DIMS: {
      if (to->rank != from->rank + 1) bad(v, op, "the result's rank is %d, not %d", to->rank, from->rank + 1);
      int axis = need_axis(v, op, op->axis, to->rank);
      for (int d = 0; d < to->rank; d++) {
        int32_t want = d == axis ? 1 : from->shape[d - (d > axis)];
        if (to->shape[d] != want) bad(v, op, "dim %d of the result is %d, not %d", d, to->shape[d], want);
      }
      break;
    }
    case OP_RESHAPE:
      if (type_numel(from) != type_numel(to)) bad(v, op, "%s and %s differ in size", show(v, from), show(v, to));
      break;
    case OP_JOIN:
      need_in(v, op, 1, from);
      if (to->rank != from->rank + 1 || to->shape[to->rank - 1] != 2)
        bad(v, op, "the result needs a new last dim of 2");
      need_type(v, op, "half of result", 0, without_dim(v, to, to->rank - 1), from);
      break;
    case OP_SPLIT:
      if (!from->rank || from->shape[from->rank - 1] != 2) bad(v, op, "the last dim of %s is not 2", show(v, from));
      for (int i = 0; i < 2; i++) need_out(v, op, i, without_dim(v, from, from->rank - 1));
      break;
    default: { /* gather */
      const Type *index = in(op, 1);
      need_int(v, op, 1);
      if (index->rank != from->rank) bad(v, op, "the index has rank %d, the source %d", index->rank, from->rank);
      int axis = need_axis(v, op, op->axis, from->rank);
      for (int d = 0; d < from->rank; d++)
        if (d != axis && index->shape[d] != from->shape[d])
          bad(v, op, "dim %d of the index is %d, of the source %d", d, index->shape[d], from->shape[d]);
      need_out(v, op, 0, type_with_elem(v->func->cx, index, type_elem(v->func->cx, from)));
    }
  }
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

static void check_arithmetic(Verifier *v, const Op *op) {
  const Type *t = out(op, 0);
  bool ints_only = op->code == OP_AND || op->code == OP_OR || op->code == OP_XOR || op->code == OP_SHL ||
                   op->code == OP_SHR || op->code == OP_MULHI || op->code == OP_NOT;
  if (!is_number(t)) bad(v, op, "the result is %s, not numbers", show(v, t));
  if (ints_only && !is_int(t)) bad(v, op, "the result is %s, not integers", show(v, t));
  for (int i = 0; i < op->in_count; i++) need_in(v, op, i, t);
}

static void check_math(Verifier *v, const Op *op) {
  if (op->fn < 0 || op->fn >= MATH_COUNT) bad(v, op, "there is no function %lld", (long long)op->fn);
  const MathInfo *info = &math_info[op->fn];
  if (op->in_count != info->arity) bad(v, op, "%s takes %d operands, not %d", info->name, info->arity, op->in_count);
  Dtype types[4], result;
  for (int i = 0; i < op->in_count; i++) {
    if (!is_number(in(op, i))) bad(v, op, "operand %d is %s, not numbers", i, show(v, in(op, i)));
    need_shape(v, op, "operand", i, in(op, i), out(op, 0));
    types[i] = in(op, i)->dtype;
  }
  if (!math_signature((MathFn)op->fn, op->in_count, types, &result))
    bad(v, op, "%s takes %s, not operands of these types", info->name, info->sig);
  need_out(v, op, 0, type_with_dtype(v->func->cx, in(op, 0), result));
}

static int width(const Type *t) { return t->ptr ? 64 : dtype_bits(t->dtype); }

static void check_elementwise(Verifier *v, const Op *op) {
  const Type *x = in(op, 0), *to = out(op, 0);
  switch (op->code) {
    case OP_MATH: check_math(v, op); break;
    case OP_CMP:
      need_in(v, op, 1, x);
      if (x->ptr && op->pred != CMP_EQ && op->pred != CMP_NE) bad(v, op, "pointers compare by eq and ne only");
      need_out(v, op, 0, type_with_dtype(v->func->cx, x, DT_I1));
      break;
    case OP_SELECT:
      need_mask(v, op, 0, to);
      need_in(v, op, 1, to);
      need_in(v, op, 2, to);
      break;
    case OP_CONVERT:
      if (!is_number(x) || !is_number(to)) bad(v, op, "converts numbers, not pointers");
      need_shape(v, op, "result", 0, to, x);
      if (op->rounding < 0 || op->rounding > 1) bad(v, op, "rounding is 0 or 1");
      if (op->rounding && (!is_float(x) || !is_float(to))) bad(v, op, "rounding is for floats to floats");
      break;
    case OP_BITCAST:
      need_shape(v, op, "result", 0, to, x);
      if (width(x) != width(to)) bad(v, op, "%s has %d bits, %s has %d", show(v, x), width(x), show(v, to), width(to));
      if (x->ptr ? is_float(to) : to->ptr && is_float(x)) bad(v, op, "pointers are no floats");
      break;
    case OP_ADDPTR:
      if (!x->ptr) bad(v, op, "operand 0 is %s, not pointers", show(v, x));
      need_int(v, op, 1);
      need_shape(v, op, "operand", 1, in(op, 1), x);
      need_out(v, op, 0, x);
      break;
    default: check_arithmetic(v, op);
  }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void check_memory(Verifier *v, const Op *op) {
  const Type *p = in(op, 0);
  if (!p->ptr) bad(v, op, "operand 0 is %s, not pointers", show(v, p));
  const Type *pointee = type_pointee(v->func->cx, p);
  if (op->code == OP_LOAD) {
    if (op->in_count > 1) need_mask(v, op, 1, p);
    if (op->in_count > 2) need_in(v, op, 2, pointee);
    need_out(v, op, 0, pointee);
    return;
  }
  if (p->is_const) bad(v, op, "writes through %s", show(v, p));
  need_in(v, op, 1, pointee);
  if (op->code == OP_ATOMIC_CAS) need_in(v, op, 2, pointee);
  else if (op->in_count > 2) need_mask(v, op, 2, p);
  if (op->code == OP_STORE) return;
  need_out(v, op, 0, pointee);
  int64_t kind = op->kind;
  bool bitwise = op->code == OP_ATOMIC_RMW && (kind == RMW_AND || kind == RMW_OR || kind == RMW_XOR);
  if (bitwise && !is_int(pointee)) bad(v, op, "the bitwise kinds are for integers, not %s", show(v, pointee));
  if (op->code == OP_ATOMIC_RMW && kind != RMW_XCHG && pointee->ptr) bad(v, op, "arithmetic on pointers");
}

/* ---- whole tiles ------------------------------------------------------------------------------------------------- */

static void check_dot(Verifier *v, const Op *op) {
  const Type *a = in(op, 0), *b = in(op, 1), *acc = in(op, 2);
  int r = a->rank;
  if (r != b->rank || r != acc->rank || r < 2 || r > 3) bad(v, op, "the ranks must be all 2 or all 3");
  if (!is_number(a) || !is_number(b) || !is_number(acc)) bad(v, op, "pointers have no product");
  bool both_fp8 = dtype_is_fp8(a->dtype) && dtype_is_fp8(b->dtype);
  if (a->dtype != b->dtype && !both_fp8) bad(v, op, "the operands are %s and %s", show(v, a), show(v, b));
  if (is_float(a) != is_float(acc)) bad(v, op, "%s cannot be summed as %s", show(v, a), show(v, acc));
  bool fits = a->shape[r - 1] == b->shape[r - 2] && a->shape[r - 2] == acc->shape[r - 2] &&
              b->shape[r - 1] == acc->shape[r - 1];
  if (r == 3) fits = fits && a->shape[0] == b->shape[0] && a->shape[0] == acc->shape[0];
  if (!fits) bad(v, op, "%s times %s is not %s", show(v, a), show(v, b), show(v, acc));
  need_out(v, op, 0, acc);
}

/* A body whose arguments are `types` and that ends by yielding `results`. */
static void check_body(Verifier *v, const Op *op, int which, int arg_count, const Type *const *types) {
  const Block *b = op->body[which];
  if (b->arg_count != arg_count) bad(v, op, "body %d has %d arguments, not %d", which, b->arg_count, arg_count);
  for (int i = 0; i < arg_count; i++) need_type(v, op, "body argument", i, b->args[i]->type, types[i]);
}

/* Whether the body's last operation, past its first `skip` operands, hands on these types. */
static void check_end(Verifier *v, const Op *op, int which, OpCode end, int skip, int count, const Type *const *types) {
  const Op *last = op->body[which]->last;
  if (!last || last->code != end) bad(v, op, "body %d does not end in %s", which, op_info[end].name);
  if (last->in_count != count + skip)
    bad(v, op, "body %d ends with %d values, not %d", which, last->in_count - skip, count);
  for (int i = 0; i < count; i++) need_type(v, op, "yielded value", i, in(last, i + skip), types[i]);
}

static const Type **value_types(Verifier *v, Value *const *values, int n) {
  const Type **types = NEW_N(v->func->cx->arena, const Type *, n + 1);
  for (int i = 0; i < n; i++) types[i] = values[i]->type;
  return types;
}

static void check_combine(Verifier *v, const Op *op) { /* reduce, scan */
  int k = op->in_count;
  const Type *first = in(op, 0);
  if (op->out_count != k) bad(v, op, "%d operands but %d results", k, op->out_count);
  int axis = need_axis(v, op, op->axis, first->rank);
  const Type **types = NEW_N(v->func->cx->arena, const Type *, 2 * k);
  for (int i = 0; i < k; i++) {
    need_shape(v, op, "operand", i, in(op, i), first);
    need_out(v, op, i, op->code == OP_SCAN ? in(op, i) : without_dim(v, in(op, i), axis));
    types[i] = types[i + k] = type_elem(v->func->cx, in(op, i));
  }
  check_body(v, op, 0, 2 * k, types);
  check_end(v, op, 0, OP_YIELD, 0, k, types);
}

static void check_map(Verifier *v, const Op *op) {
  int64_t pack = op->pack;
  if (pack < 1 || pack > 1024) bad(v, op, "pack is %lld", (long long)pack);
  if (type_numel(in(op, 0)) % pack) bad(v, op, "pack does not divide the size");
  int n_in = op->in_count * (int)pack, n_out = op->out_count * (int)pack;
  const Type **args = NEW_N(v->func->cx->arena, const Type *, n_in),
             **results = NEW_N(v->func->cx->arena, const Type *, n_out);
  for (int i = 0; i < n_in; i++) args[i] = type_elem(v->func->cx, in(op, i / (int)pack));
  for (int i = 0; i < n_out; i++) results[i] = type_elem(v->func->cx, out(op, i / (int)pack));
  for (int i = 0; i < op->in_count; i++) need_shape(v, op, "operand", i, in(op, i), in(op, 0));
  for (int i = 0; i < op->out_count; i++) need_shape(v, op, "result", i, out(op, i), in(op, 0));
  check_body(v, op, 0, n_in, args);
  check_end(v, op, 0, OP_YIELD, 0, n_out, results);
}

static void check_tensor_map(Verifier *v, const Op *op) {
  int rank = op->dim_count;
  if (rank < 1 || rank > 5 || op->in_count != 2 * rank) bad(v, op, "%d operands for %d dims", op->in_count, rank);
  const Type *t = in(op, 0);
  if (t->ptr != 1 || t->rank) bad(v, op, "operand 0 is %s, not a pointer", show(v, t));
  for (int i = 1; i < op->in_count; i++) need_in(v, op, i, type_number(v->func->cx, DT_I64));
  if (op->parts && (rank < 2 || op->parts < 0 || op->dims[1] % op->parts))
    bad(v, op, "rows of %lld parts", (long long)op->parts);
  need_out(v, op, 0, t);
}

/* Operand `at` is a ring; those after it, up to the end, i32. */
static void check_slot(Verifier *v, const Op *op, int at, int end) {
  if (!op->in[at]->def || op->in[at]->def->code != OP_RING) bad(v, op, "operand %d is no ring", at);
  for (int i = at + 1; i < end; i++) need_in(v, op, i, type_number(v->func->cx, DT_I32));
}

static void check_tensor_copy(Verifier *v, const Op *op) {
  const Op *map = op->in[0]->def;
  if (!map || map->code != OP_TENSOR_MAP) bad(v, op, "operand 0 is no map");
  check_slot(v, op, 1, 3);
  need_in(v, op, 3, type_number(v->func->cx, DT_I1));
  const Op *ring = op->in[1]->def;
  int end = op->in_count - (ring->cluster > 1);
  if (end != 4 + map->dim_count) bad(v, op, "%d coordinates of %d", end - 4, map->dim_count);
  for (int i = 4; i < end; i++) need_in(v, op, i, type_number(v->func->cx, DT_I32));
  if (ring->cluster > 1) need_in(v, op, end, type_number(v->func->cx, DT_I1));
  int inner = (int)ring->inner;
  bool same = in(op, 0)->dtype == in(op, 1)->dtype && map->dims[0] == ring->dims[inner];
  if (ring->dim_count == 2) same &= map->dim_count > 1 && map->dims[1] == ring->dims[!inner];
  for (int i = ring->dim_count; i < map->dim_count; i++) same &= map->dims[i] == 1;
  if (!same) bad(v, op, "the map's tile is not the ring's");
}

static void check_tensor_store(Verifier *v, const Op *op) {
  const Op *map = op->in[0]->def;
  if (!map || map->code != OP_TENSOR_MAP) bad(v, op, "operand 0 is no map");
  if (op->in_count != 2 + map->dim_count) bad(v, op, "%d coordinates of %d", op->in_count - 2, map->dim_count);
  for (int i = 2; i < op->in_count; i++) need_in(v, op, i, type_number(v->func->cx, DT_I32));
  const Type *t = in(op, 1);
  int inner = (int)op->inner;
  bool same = t->rank == 2 && !t->ptr && t->dtype == in(op, 0)->dtype && inner >= 0 && inner < 2 &&
              map->dims[0] == t->shape[inner] && map->dims[1] == t->shape[!inner];
  if (!same) bad(v, op, "the map's tile is not %s", show(v, t));
}

static void check_tensor_add(Verifier *v, const Op *op) {
  const Op *map = op->in[0]->def;
  const Type *t = in(op, 1);
  if (!map || map->code != OP_TENSOR_MAP) bad(v, op, "operand 0 is no map");
  if (op->in_count != 2 + map->dim_count) bad(v, op, "%d coordinates of %d", op->in_count - 2, map->dim_count);
  for (int i = 2; i < op->in_count; i++) need_in(v, op, i, type_number(v->func->cx, DT_I32));
  if (t->rank != 2 || t->dtype != in(op, 0)->dtype || t->shape[1] % map->dims[0] || t->shape[0] % map->dims[1])
    bad(v, op, "the map's boxes do not make up the tile");
}

static void check_ring(Verifier *v, const Op *op) {
  switch (op->code) {
    case OP_RING: {
      const Type *t = out(op, 0);
      if (t->ptr != 1 || t->rank) bad(v, op, "the result is %s, not a pointer", show(v, t));
      if (op->slots < 1 || op->slots > 64) bad(v, op, "%lld slots", (long long)op->slots);
      if ((op->dim_count != 2 && op->dim_count != 1 && !op->own) || op->inner < 0 || op->inner >= op->dim_count)
        bad(v, op, "a tile has two dims, or one");
      if (op->cluster < 0 || op->cluster > 8 || (op->cluster & (op->cluster - 1)) || (op->cluster && op->own))
        bad(v, op, "a cluster of %lld blocks", (long long)op->cluster);
      break;
    }
    case OP_RING_READ:
    case OP_RING_LOAD:
    case OP_RING_COPY: {
      int at = op->code == OP_RING_COPY;
      const Op *ring = op->in[at]->def;
      const Type *tile = at ? in(op, 0) : out(op, 0);
      if (!ring || ring->code != OP_RING) bad(v, op, "operand %d is no ring", at);
      need_in(v, op, at + 1, type_number(v->func->cx, DT_I32));
      bool fits = tile->rank == ring->dim_count && tile->ptr == at && tile->dtype == in(op, at)->dtype;
      for (int d = 0; d < tile->rank && fits; d++) fits = tile->shape[d] == ring->dims[d];
      if (!fits) bad(v, op, "%s is no tile of %s", show(v, tile), show(v, in(op, at)));
      if (op->code == OP_RING_READ && (ring->own || ring->dim_count != 2)) bad(v, op, "no product takes such a tile");
      if (at && op->in_count > 3) need_mask(v, op, 3, tile);
      break;
    }
    case OP_TENSOR_MAP: check_tensor_map(v, op); break;
    case OP_REQUIRE: need_in(v, op, 0, type_number(v->func->cx, DT_I1)); break;
    case OP_APART:
      for (int i = 0; i < 2; i++)
        if (op->in[i]->def || !op->in[i]->type->ptr || op->in[i]->block != v->func->body)
          bad(v, op, "operand %d is no pointer among the arguments", i);
      break;
    case OP_RING_TENSOR: check_tensor_copy(v, op); break;
    case OP_STORE_TENSOR: check_tensor_store(v, op); break;
    case OP_TENSOR_ADD: check_tensor_add(v, op); break;
    case OP_RING_FULL:
    case OP_RING_EMPTY:
    case OP_RING_FREE:
    case OP_RING_DRAIN: check_slot(v, op, 0, op->in_count); break;
    case OP_DOT_WAIT:
      if (op->in_count != op->out_count) bad(v, op, "%d operands and %d results", op->in_count, op->out_count);
      if (op->in_count) need_out(v, op, 0, in(op, 0));
      break;
    default: break;
  }
}

/* Operand `at` is a tile of sums. */
static const Op *need_tmem(Verifier *v, const Op *op, int at) {
  const Op *tmem = op->in[at]->def;
  if (!tmem || tmem->code != OP_TMEM) bad(v, op, "operand %d is no tensor memory", at);
  return tmem;
}

static void check_tmem(Verifier *v, const Op *op) {
  const Type *i32 = type_number(v->func->cx, DT_I32);
  if (op->code == OP_TMEM) {
    const Type *t = out(op, 0);
    if (t->ptr != 1 || t->rank || (t->dtype != DT_F32 && t->dtype != DT_I32))
      bad(v, op, "the result is %s, not a pointer to sums", show(v, t));
    if (op->dim_count != 2) bad(v, op, "a tile has two dims");
    return;
  }
  const Op *tmem = need_tmem(v, op, op->code == OP_TMEM_DOT ? 2 : 0);
  const Type *tile = op->code == OP_TMEM_LOAD ? out(op, 0) : op->code == OP_TMEM_STORE ? in(op, 1) : NULL;
  if (tile && (tile->rank != 2 || tile->ptr || tile->shape[0] != tmem->dims[0] || tile->shape[1] != tmem->dims[1] ||
               tile->dtype != tmem->out[0]->type->dtype))
    bad(v, op, "%s is no tile of %s", show(v, tile), show(v, tmem->out[0]->type));
  if (op->code == OP_TMEM_DOT) {
    const Type *a = in(op, 0), *x = in(op, 1);
    if (a->rank != 2 || x->rank != 2 || a->shape[0] != tmem->dims[0] || a->shape[1] != x->shape[0] ||
        x->shape[1] != tmem->dims[1])
      bad(v, op, "%s times %s is no tile", show(v, a), show(v, x));
  }
  for (int i = 1; i < op->in_count && (op->code == OP_TMEM_COMMIT || op->code == OP_TMEM_WAIT); i++)
    need_in(v, op, i, i32);
}

static void check_tile(Verifier *v, const Op *op) {
  const Type *x = in(op, 0), *to = out(op, 0);
  switch (op->code) {
    case OP_DOT: check_dot(v, op); break;
    case OP_MAP: check_map(v, op); break;
    case OP_SORT:
      need_out(v, op, 0, x);
      if (!x->rank || !is_number(x)) bad(v, op, "sorts a tensor of numbers, not %s", show(v, x));
      break;
    case OP_HISTOGRAM:
      need_int(v, op, 0);
      if (x->rank != 1) bad(v, op, "counts a tensor of rank 1, not %s", show(v, x));
      if (op->in_count > 1) need_mask(v, op, 1, x);
      if (to->rank != 1 || to->ptr || to->dtype != DT_I32)
        bad(v, op, "the result is %s, not i32 of rank 1", show(v, to));
      break;
    default: check_combine(v, op);
  }
}

/* ---- control, creation, hints ------------------------------------------------------------------------------------ */

static void check_control(Verifier *v, const Op *op) {
  const Type **results = value_types(v, op->out, op->out_count);
  Context *cx = v->func->cx;
  int skip = op->code == OP_FOR ? 3 : op->code == OP_IF ? 1 : 0, carried = op->in_count - skip;
  if (op->code == OP_IF) {
    need_in(v, op, 0, type_number(cx, DT_I1));
    for (int i = 0; i < 2; i++) {
      check_body(v, op, i, 0, NULL);
      check_end(v, op, i, OP_YIELD, 0, op->out_count, results);
    }
    return;
  }
  if (carried != op->out_count) bad(v, op, "carries %d values but has %d results", carried, op->out_count);
  for (int i = 0; i < carried; i++) need_in(v, op, i + skip, results[i]);
  if (op->code == OP_WHILE) {
    for (int i = 0; i < 2; i++) check_body(v, op, i, carried, results);
    check_end(v, op, 0, OP_CONDITION, 1, carried, results);
    if (in(op->body[0]->last, 0) != type_number(cx, DT_I1)) bad(v, op, "the condition is not one i1");
    check_end(v, op, 1, OP_YIELD, 0, carried, results);
    return;
  }
  const Type *counter = in(op, 0);
  if (!is_int(counter) || counter->rank) bad(v, op, "counts in %s, not an integer", show(v, counter));
  need_in(v, op, 1, counter);
  need_in(v, op, 2, counter);
  const Type **args = NEW_N(cx->arena, const Type *, carried + 1);
  args[0] = counter;
  for (int i = 0; i < carried; i++) args[i + 1] = results[i];
  check_body(v, op, 0, carried + 1, args);
  check_end(v, op, 0, OP_YIELD, 0, carried, results);
}

static void check_creation(Verifier *v, const Op *op) {
  const Type *t = out(op, 0);
  if (op->code == OP_CONST) {
    if (!is_number(t)) bad(v, op, "a constant is a number, not %s", show(v, t));
    if (is_int(t) && int_wrap(t->dtype, op->value) != op->value)
      bad(v, op, "%lld does not fit into %s", (long long)op->value, show(v, t));
    return;
  }
  if (op->code == OP_ARANGE) {
    int64_t start = op->start, end = op->end;
    if (start < INT32_MIN || end > INT32_MAX || start >= end) bad(v, op, "the range is empty or not of i32");
    if (t->ptr || t->dtype != DT_I32 || t->rank != 1 || t->shape[0] != end - start)
      bad(v, op, "the result is %s, not i32[%lld]", show(v, t), (long long)(end - start));
    return;
  }
  need_out(v, op, 0, type_number(v->func->cx, DT_I32));
  need_axis(v, op, op->axis, 3);
}

static void check_debug(Verifier *v, const Op *op) {
  switch (op->code) {
    case OP_HINT: {
      need_out(v, op, 0, in(op, 0));
      int want = in(op, 0)->rank ? in(op, 0)->rank : 1;
      if (op->dim_count != want) bad(v, op, "dims has %d entries, not %d", op->dim_count, want);
      for (int d = 0; d < op->dim_count; d++)
        if (op->dims[d] < 1) bad(v, op, "dims holds %lld", (long long)op->dims[d]);
      break;
    }
    case OP_ASSUME:
      if (!is_bool(in(op, 0))) bad(v, op, "operand 0 is %s, not i1", show(v, in(op, 0)));
      break;
    case OP_ASSERT:
      need_int(v, op, 0);
      if (op->in_count > 1) need_mask(v, op, 1, in(op, 0));
      break;
    case OP_SCOPE:
      if (!op->text) bad(v, op, "has no text");
      if (op->end & ~1) bad(v, op, "end is %lld", (long long)op->end);
      break;
    case OP_ASM:
      if (!op->text) bad(v, op, "has no text");
      for (int i = 0; i < op->in_count; i++) need_shape(v, op, "operand", i, in(op, i), out(op, 0));
      for (int i = 0; i < op->out_count; i++) need_shape(v, op, "result", i, out(op, i), out(op, 0));
      break;
    default: break;
  }
}

static void check_types(Verifier *v, const Op *op) {
  switch (op->code) {
    case OP_CONST:
    case OP_PROGRAM_ID:
    case OP_NUM_PROGRAMS:
    case OP_ARANGE: check_creation(v, op); break;
    case OP_COMPUTES: need_out(v, op, 0, type_number(v->func->cx, DT_I1)); break;
    case OP_TRANS: check_trans(v, op); break;
    case OP_CAT: check_cat(v, op); break;
    case OP_SPLAT:
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_RESHAPE:
    case OP_JOIN:
    case OP_SPLIT:
    case OP_GATHER: check_shape_op(v, op); break;
    case OP_CONVERT_LAYOUT: need_out(v, op, 0, in(op, 0)); break;
    case OP_LOAD:
    case OP_STORE:
    case OP_ATOMIC_RMW:
    case OP_ATOMIC_CAS: check_memory(v, op); break;
    case OP_RING:
    case OP_RING_COPY:
    case OP_RING_COMMIT:
    case OP_RING_WAIT:
    case OP_RING_READ:
    case OP_RING_LOAD:
    case OP_TENSOR_MAP:
    case OP_REQUIRE:
    case OP_APART:
    case OP_RING_TENSOR:
    case OP_STORE_TENSOR:
    case OP_TENSOR_ADD:
    case OP_RING_FULL:
    case OP_RING_EMPTY:
    case OP_RING_FREE:
    case OP_RING_DRAIN:
    case OP_DOT_WAIT: check_ring(v, op); break;
    case OP_TMEM:
    case OP_TMEM_STORE:
    case OP_TMEM_DOT:
    case OP_TMEM_COMMIT:
    case OP_TMEM_WAIT:
    case OP_TMEM_LOAD: check_tmem(v, op); break;
    case OP_DOT:
    case OP_REDUCE:
    case OP_SCAN:
    case OP_MAP:
    case OP_SORT:
    case OP_HISTOGRAM: check_tile(v, op); break;
    case OP_FOR:
    case OP_WHILE:
    case OP_IF: check_control(v, op); break;
    case OP_HINT:
    case OP_ASSUME:
    case OP_PRINT:
    case OP_ASSERT:
    case OP_SCOPE:
    case OP_ASM: check_debug(v, op); break;
    case OP_YIELD:
    case OP_CONDITION:
    case OP_BARRIER:
    case OP_COUNT: break;
    default: check_elementwise(v, op);
  }
}

/* ---- structure --------------------------------------------------------------------------------------------------- */

static void check_counts(Verifier *v, const Op *op) {
  const OpInfo *info = &op_info[op->code];
  if (op->in_count < info->min_in || (info->max_in >= 0 && op->in_count > info->max_in))
    bad(v, op, "has %d operands", op->in_count);
  if (op->out_count < info->min_out || (info->max_out >= 0 && op->out_count > info->max_out))
    bad(v, op, "has %d results", op->out_count);
  for (int i = 0; i < 2; i++)
    if ((i < info->regions) != (op->body[i] != NULL))
      bad(v, op, i < info->regions ? "lacks a body" : "has a body too many");
}

static void check_operands(Verifier *v, const Op *op) {
  for (int i = 0; i < op->in_count; i++) {
    const Value *x = op->in[i];
    if (!x) bad(v, op, "operand %d is missing", i);
    if (x->replacement) bad(v, op, "operand %d was replaced and not resolved", i);
    if (x->id < 0 || x->id >= v->func->value_count) bad(v, op, "operand %d has the id %d", i, x->id);
    if (!v->visible[x->id]) bad(v, op, "operand %d is not defined where it is used", i);
  }
}

static void check_attrs(Verifier *v, const Op *op) {
  AttrInfo attrs[MAX_ATTRS];
  int n = op_attrs(op->code, attrs);
  for (int i = 0; i < n; i++)
    if (attrs[i].kind == ATTR_WORD && !attr_word(&attrs[i], op->attr[attrs[i].slot]))
      bad(v, op, "%.*s has no meaning %lld", attrs[i].name_length, attrs[i].name, (long long)op->attr[attrs[i].slot]);
}

static void define(Verifier *v, const Op *op, const Value *x) {
  if (x->id < 0 || x->id >= v->func->value_count || v->visible[x->id])
    bad(v, op, "a value's id %d is not its own", x->id);
  const Type *t = x->type;
  int64_t numel = 1;
  for (int d = 0; d < t->rank && numel <= MAX_TILE_ELEMENTS; d++) {
    if (t->shape[d] < 1) bad(v, op, "a dim is %d", t->shape[d]);
    numel *= t->shape[d];
  }
  if (numel > MAX_TILE_ELEMENTS) bad(v, op, "%s has more than %d elements", show(v, t), MAX_TILE_ELEMENTS);
  if (v->scalars_only && t->rank) bad(v, op, "%s inside a body that works on scalars", show(v, t));
  v->visible[x->id] = 1;
}

static void check_block(Verifier *v, const Op *parent, const Block *b);

static void check_op(Verifier *v, const Op *op) {
  check_counts(v, op);
  check_operands(v, op);
  check_attrs(v, op);
  check_types(v, op);
  bool scalars = op->code == OP_REDUCE || op->code == OP_SCAN || op->code == OP_MAP;
  v->scalars_only += scalars;
  if (++v->depth > MAX_DEPTH)
    diag_fail_limit(v->func->cx, op->span ? *op->span : (Span){0}, "nest it less",
                    "loops and branches are nested more than %d deep", MAX_DEPTH);
  for (int i = 0; i < 2; i++)
    if (op->body[i]) check_block(v, op, op->body[i]);
  v->depth--;
  v->scalars_only -= scalars;
  for (int i = 0; i < op->out_count; i++) {
    const Value *x = op->out[i];
    if (x->def != op || x->index != i) bad(v, op, "result %d does not know its place", i);
    define(v, op, x);
  }
}

static void check_block(Verifier *v, const Op *parent, const Block *b) {
  stack_guard();
  static const Op kernel = {.code = OP_YIELD}; /* to speak of when the block is the kernel's */
  const Op *speaker = parent ? parent : b->first ? b->first : &kernel;
  if (b->parent != parent) bad(v, speaker, "a body does not know where it belongs");
  for (int i = 0; i < b->arg_count; i++) {
    if (b->args[i]->block != b || b->args[i]->index != i) bad(v, speaker, "argument %d does not know its place", i);
    define(v, speaker, b->args[i]);
  }
  const Op *before = NULL;
  for (const Op *op = b->first; op; before = op, op = op->next) {
    if (op->block != b || op->prev != before) bad(v, op, "the links between operations are broken");
    if (op_info[op->code].effect == EFFECT_TERMINATOR && (!parent || op->next)) bad(v, op, "ends a block that goes on");
    check_op(v, op);
  }
  if (b->last != before) bad(v, speaker, "the links between operations are broken");
  for (int i = 0; i < b->arg_count; i++) v->visible[b->args[i]->id] = 0;
  for (const Op *op = b->first; op; op = op->next)
    for (int i = 0; i < op->out_count; i++) v->visible[op->out[i]->id] = 0;
}

void tile_verify(Func *f, const char *after) {
  Verifier v = {.func = f, .after = after ? after : "building"};
  v.visible = NEW_N(f->cx->arena, uint8_t, f->value_count);
  for (int i = 0; i < f->body->arg_count; i++)
    if (f->body->args[i]->type->rank)
      diag_fail(f->cx, (Span){0}, "wrong IR after %s: argument %d of the kernel is a tensor", v.after, i);
  check_block(&v, NULL, f->body);
}
