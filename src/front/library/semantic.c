/* semantic.c: the types of operators on tensors.
 *
 * Triton's rule for x op y (docs/reference/language.md, "Result types"): a Python number is weak, so it takes the
 * tensor's type when its kind (bool < int < float) is not above the tensor's; two tensors promote by dtype alone, block
 * or scalar alike. Then both sides get one shape (semantic_cast.c), and one operation of the tile IR is built.
 *
 *     int8 block + 1          -> int8          fp16 block * fp32 scalar argument -> fp32
 *     int1 block + 1          -> int32         bf16 block * int32 scalar         -> fp32
 *     fp16 block < 0.1        -> compared in fp32: comparisons convert a number to a tensor first
 */
#include "front/library/lib.h"

#include <math.h>

/* ---- promotion --------------------------------------------------------------------------------------------------- */

static int kind_rank(Dtype d) { return d == DT_I1 ? 0 : dtype_is_float(d) ? 2 : 1; }

/* C's usual conversions, without promotion to int. */
static Dtype promote_ints(Dtype x, Dtype y) {
  int bx = dtype_bits(x), by = dtype_bits(y);
  bool sx = dtype_is_signed(x), sy = dtype_is_signed(y);
  if (sx == sy) return bx > by ? x : y;
  if (!sx) return bx >= by ? x : y;
  return by >= bx ? y : x;
}

static Dtype promote_dtypes(Front *fr, Span at, const char *what, Dtype x, Dtype y, bool div) {
  if (x == DT_F64 || y == DT_F64) return DT_F64;
  if (x == DT_F32 || y == DT_F32) return DT_F32;
  if (x == DT_F16 || y == DT_F16) return div ? DT_F32 : DT_F16;
  if (x == DT_BF16 && y == DT_BF16) return div ? DT_F32 : DT_BF16;
  if (x == DT_BF16 || y == DT_BF16) return DT_F32;
  if (dtype_is_fp8(x) && dtype_is_fp8(y)) return x == y ? x : DT_F16;
  if (!dtype_is_int(x) || !dtype_is_int(y))
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "cast one side with .to(...)",
                   "unexpected type %s and %s: operator %s has no common type for them", dtype_name(x), dtype_name(y),
                   what);
  if (div && dtype_is_signed(x) != dtype_is_signed(y))
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "cast both sides to the same signedness",
                   "Cannot use /, #, or %% with %s and %s because they have different signedness", dtype_name(x),
                   dtype_name(y));
  return promote_ints(x, y);
}

const Type *sem_common_type(Front *fr, Span at, const char *what, const Type *x, const Type *y, bool div) {
  return type_number(fr->cx, promote_dtypes(fr, at, what, x->dtype, y->dtype, div));
}

/* A weak number must fit the integer type that the operation is done in. */
static void check_weak_range(Front *fr, Span at, const Py *number, Dtype to) {
  if (!dtype_is_int(to)) return;
  PyInt v = number->kind == PY_FLOAT ? (PyInt)number->f : number->i;
  int bits = dtype_bits(to);
  if (v < 0 && !dtype_is_signed(to))
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at,
                   "cast the tensor to a signed type, or write the number as an unsigned one",
                   "Cannot perform a binary operation between an unsigned tensor and a negative scalar: %s and %s",
                   dtype_name(to), py_describe(fr, number));
  PyInt one = 1, lo = dtype_is_signed(to) ? -(one << (bits - 1)) : 0,
        hi = dtype_is_signed(to) ? (one << (bits - 1)) - 1 : (one << bits) - 1;
  if (v < lo || v > hi)
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "cast the tensor to a wider type first",
                   "Scalar %s is out of range for type %s", py_describe(fr, number), dtype_name(to));
}

void sem_pair(Front *fr, Span at, const char *what, unsigned flags, Py *x, Py *y, Value **vx, Value **vy) {
  bool nx = py_is_number(x), ny = py_is_number(y);
  if (!nx && x->kind != PY_TENSOR) sem_to_value(fr, at, x, arena_printf(fr->cx->arena, "the left side of %s", what));
  if (!ny && y->kind != PY_TENSOR) sem_to_value(fr, at, y, arena_printf(fr->cx->arena, "the right side of %s", what));
  const Type *tx = nx ? sem_natural_type(fr, at, x) : type_elem(fr->cx, x->value->type);
  const Type *ty = ny ? sem_natural_type(fr, at, y) : type_elem(fr->cx, y->value->type);
  bool px = sem_is_ptr(tx), py = sem_is_ptr(ty);
  if ((px && !(flags & PAIR_PTR_X)) || (py && !(flags & PAIR_PTR_Y)) || (px && py && tx != ty) ||
      (px && dtype_is_float(ty->dtype) && !py) || (py && dtype_is_float(tx->dtype) && !px))
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at,
                   px && py ? "pointers can be compared with `is None` only, and not be added"
                            : "a pointer takes an integer offset by + and -",
                   "invalid operands of type %s and %s for %s", type_text(fr, nx ? tx : x->value->type),
                   type_text(fr, ny ? ty : y->value->type), what);
  Value *a, *b;
  if (!(flags & PAIR_NO_PROMOTION) && !px && !py) {
    const Type *to = NULL;
    if (nx != ny) {
      const Type *num = nx ? tx : ty, *ten = nx ? ty : tx;
      if (kind_rank(num->dtype) <= kind_rank(ten->dtype))
        to = (flags & PAIR_DIV) && (ten->dtype == DT_F16 || ten->dtype == DT_BF16) ? type_number(fr->cx, DT_F32) : ten;
    }
    if (!to) to = sem_common_type(fr, at, what, tx, ty, flags & PAIR_DIV);
    if (nx) check_weak_range(fr, at, x, to->dtype);
    if (ny) check_weak_range(fr, at, y, to->dtype);
    a = nx ? sem_constant(fr, at, x, to) : sem_cast_value(fr, at, x->value, to, 0, false);
    b = ny ? sem_constant(fr, at, y, to) : sem_cast_value(fr, at, y->value, to, 0, false);
  } else {
    a = nx ? sem_constant(fr, at, x, tx) : x->value;
    b = ny ? sem_constant(fr, at, y, ty) : y->value;
  }
  sem_broadcast_pair(fr, at, &a, &b);
  *vx = a, *vy = b;
}

Value *sem_bf16_to_f32(Front *fr, Value *v) {
  if (v->type->ptr || v->type->dtype != DT_BF16) return v;
  return build_convert(&fr->b, v, DT_F32);
}

/* Triton has fp8 to be stored, moved and multiplied by tl.dot; no GPU adds or compares it. */
static Value *no_fp8(Front *fr, Span at, const char *what, Value *v) {
  if (!v->type->ptr && dtype_is_fp8(v->type->dtype))
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "convert first: x.to(tl.float16)",
                   "operator %s does not take %s: there is no arithmetic on fp8", what, type_text(fr, v->type));
  return v;
}

/* ---- binary operators -------------------------------------------------------------------------------------------- */

/* // and % want integers of one signedness; sem_pair has brought them to one type, unless a weak number decided it. */
static Value *floor_div(Front *fr, Span at, Py *x, Py *y) {
  Value *a, *b;
  sem_pair(fr, at, "//", PAIR_DIV, x, y, &a, &b);
  if (!dtype_is_int(a->type->dtype))
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "tl.floor(x / y) is the same for floats",
                   "unexpected type %s: operator // wants integers", type_text(fr, a->type));
  return build_binary(&fr->b, OP_DIV, a, b);
}

static Value *true_div(Front *fr, Span at, Py *x, Py *y) {
  Value *a, *b;
  sem_pair(fr, at, "/", PAIR_DIV, x, y, &a, &b);
  if (dtype_is_int(a->type->dtype)) { /* also for int64: the quotient is f32 */
    const Type *f32 = type_number(fr->cx, DT_F32);
    a = sem_cast_value(fr, at, a, f32, 0, false);
    b = sem_cast_value(fr, at, b, f32, 0, false);
  }
  return build_binary(&fr->b, OP_DIV, no_fp8(fr, at, "/", a), b);
}

static Value *bitwise(Front *fr, Span at, PyOp op, OpCode code, Py *x, Py *y) {
  Value *a, *b;
  sem_pair(fr, at, pyop_symbol(op), 0, x, y, &a, &b);
  if (!dtype_is_int(a->type->dtype))
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at,
                   "cast to an integer type, or reinterpret the bits with .to(tl.int32, bitcast=True)",
                   "invalid operands of type %s and %s: operator %s wants integers", py_describe(fr, x),
                   py_describe(fr, y), pyop_symbol(op));
  /* >> is arithmetic when the left operand's own type is signed, whatever the common type is. */
  if (code == OP_SHR) {
    bool wants_signed = x->kind == PY_TENSOR ? dtype_is_signed(x->value->type->dtype) : dtype_is_signed(a->type->dtype);
    Dtype d = a->type->dtype;
    if (wants_signed != dtype_is_signed(d) && d != DT_I1) {
      static const Dtype flip[DT_COUNT] = {[DT_I8] = DT_U8, [DT_I16] = DT_U16, [DT_I32] = DT_U32, [DT_I64] = DT_U64,
                                           [DT_U8] = DT_I8, [DT_U16] = DT_I16, [DT_U32] = DT_I32, [DT_U64] = DT_I64};
      const Type *other = type_number(fr->cx, flip[d]), *back = type_elem(fr->cx, a->type);
      Value *r = build_binary(&fr->b, code, build_bitcast(&fr->b, a, other), build_bitcast(&fr->b, b, other));
      return build_bitcast(&fr->b, r, back);
    }
  }
  return build_binary(&fr->b, code, a, b);
}

/* With debug, an integer sum, difference or product that its type of less than 64 bits does not hold fails an
 * assertion: the same is computed in 64 bits and compared. */
static void check_overflow(Front *fr, OpCode code, Value *x, Value *y) {
  Dtype d = x->type->dtype;
  if (!fr->func || !fr->func->debug || fr->options->no_sanitize_overflow || !dtype_is_int(d) || dtype_bits(d) >= 64)
    return;
  Builder *b = &fr->b;
  int bits = dtype_bits(d), value_bits = bits - dtype_is_signed(d);
  int64_t max = ((int64_t)1 << value_bits) - 1, min = dtype_is_signed(d) ? -max - 1 : 0;
  Value *wide = build_binary(b, code, build_convert(b, x, DT_I64), build_convert(b, y, DT_I64));
  Value *fits = build_binary(b, OP_AND, build_cmp(b, CMP_LE, wide, build_int(b, wide->type, max)),
                             build_cmp(b, CMP_GE, wide, build_int(b, wide->type, min)));
  Op *op = build_op(b, OP_ASSERT, 1, &fits, 0, NULL);
  const char *name = code == OP_ADD ? "add" : code == OP_SUB ? "sub" : "mul";
  op->text = intern_z(fr->cx, arena_printf(fr->cx->arena, "int%d overflow detected for operation %s", bits, name));
}

Py *sem_arithmetic(Front *fr, Span at, PyOp op, Py *x, Py *y, bool check) {
  OpCode code = op == PYOP_ADD ? OP_ADD : op == PYOP_SUB ? OP_SUB : OP_MUL;
  unsigned pointers = op == PYOP_ADD ? PAIR_PTR_X | PAIR_PTR_Y : op == PYOP_SUB ? PAIR_PTR_X : 0;
  Value *a, *b;
  sem_pair(fr, at, pyop_symbol(op), pointers, x, y, &a, &b);
  if (a->type->ptr && b->type->ptr)
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "a pointer takes an integer offset",
                   "cannot add pointers together");
  if (b->type->ptr) return py_tensor(fr, build_addptr(&fr->b, b, a));
  if (a->type->ptr && op == PYOP_SUB) {
    /* An unsigned offset would wrap when negated in its own width. */
    if (!dtype_is_signed(b->type->dtype)) b = build_convert(&fr->b, b, DT_I64);
    b = build_unary(&fr->b, OP_NEG, b);
  }
  if (a->type->ptr) return py_tensor(fr, build_addptr(&fr->b, a, b));
  no_fp8(fr, at, pyop_symbol(op), a);
  if (check) check_overflow(fr, code, a, b);
  return py_tensor(fr, build_binary(&fr->b, code, a, b));
}

Py *sem_binary(Front *fr, Span at, PyOp op, Py *x, Py *y) {
  Value *a, *b;
  switch (op) {
    case PYOP_ADD:
    case PYOP_SUB:
    case PYOP_MULT: return sem_arithmetic(fr, at, op, x, y, true);
    case PYOP_DIV: return py_tensor(fr, true_div(fr, at, x, y));
    case PYOP_FLOOR_DIV: return py_tensor(fr, floor_div(fr, at, x, y));
    case PYOP_MOD:
      sem_pair(fr, at, "%", PAIR_DIV, x, y, &a, &b);
      return py_tensor(fr, build_binary(&fr->b, OP_REM, no_fp8(fr, at, "%", a), b));
    case PYOP_BIT_AND: return py_tensor(fr, bitwise(fr, at, op, OP_AND, x, y));
    case PYOP_BIT_OR: return py_tensor(fr, bitwise(fr, at, op, OP_OR, x, y));
    case PYOP_BIT_XOR: return py_tensor(fr, bitwise(fr, at, op, OP_XOR, x, y));
    case PYOP_L_SHIFT: return py_tensor(fr, bitwise(fr, at, op, OP_SHL, x, y));
    case PYOP_R_SHIFT: return py_tensor(fr, bitwise(fr, at, op, OP_SHR, x, y));
    case PYOP_POW:
      diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at,
                     "multiply it out, or use tl.exp2(y * tl.log2(x)) or libdevice.pow(x, y)",
                     "operator ** does not take tensors");
    case PYOP_MAT_MULT:
      diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "use tl.dot(a, b)", "operator @ does not take tensors");
    default: diag_fail(diag_as(fr->cx, ERROR_TYPE), at, "operator %s does not take tensors", pyop_symbol(op));
  }
}

Py *sem_compare(Front *fr, Span at, PyOp op, Py *x, Py *y) {
  CmpPred pred;
  switch (op) {
    case PYOP_EQ: pred = CMP_EQ; break;
    case PYOP_NOT_EQ: pred = CMP_NE; break;
    case PYOP_LT: pred = CMP_LT; break;
    case PYOP_LT_E: pred = CMP_LE; break;
    case PYOP_GT: pred = CMP_GT; break;
    case PYOP_GT_E: pred = CMP_GE; break;
    default:
      diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "compare the elements instead",
                     "operator `%s` does not take tensors", pyop_symbol(op));
  }
  const char *symbol = pyop_symbol(op);
  if (x->kind == PY_NONE || y->kind == PY_NONE)
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at, "write `is None` or `is not None`",
                   "cannot convert None to tensor: a tensor cannot be compared with None by %s", symbol);
  /* Not weak: a number becomes a tensor of its natural type first. */
  Value *a = sem_to_value(fr, at, x, arena_printf(fr->cx->arena, "the left side of %s", symbol));
  Value *b = sem_to_value(fr, at, y, arena_printf(fr->cx->arena, "the right side of %s", symbol));
  if (a->type->ptr || b->type->ptr)
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at,
                   "cast pointers to tl.int64 to compare addresses; `is None` tests for an argument that was not given",
                   "invalid operands of type %s and %s: pointers cannot be compared by %s", type_text(fr, a->type),
                   type_text(fr, b->type), symbol);
  sem_pair(fr, at, symbol, 0, py_tensor(fr, a), py_tensor(fr, b), &a, &b);
  return py_tensor(fr, build_cmp(&fr->b, pred, no_fp8(fr, at, symbol, a), b));
}

/* ---- unary and logical operators --------------------------------------------------------------------------------- */

static Value *as_int1(Front *fr, Span at, const char *op, Py *x) {
  Value *v = sem_to_value(fr, at, x, arena_printf(fr->cx->arena, "the operand of `%s`", op));
  if (v->type->ptr) return sem_cast_value(fr, at, v, type_number(fr->cx, DT_I1), 0, false); /* is it set? */
  if (v->type->dtype != DT_I1)
    diag_fail_hint(
        diag_as(fr->cx, ERROR_TYPE), at, "compare first, as in `x != 0`",
        "Cannot bitcast data-type of size %d to data-type of size 1: `%s` wants conditions (int1), but its operand "
        "is of type %s",
        dtype_bits(v->type->dtype), op, type_text(fr, v->type));
  return v;
}

Py *sem_unary(Front *fr, Span at, PyOp op, Py *x) {
  const char *symbol = pyop_symbol(op);
  Value *v = sem_to_value(fr, at, x, arena_printf(fr->cx->arena, "the operand of unary %s", symbol));
  switch (op) {
    case PYOP_NOT: return py_tensor(fr, build_unary(&fr->b, OP_NOT, as_int1(fr, at, "not", x)));
    case PYOP_U_SUB:
      if (v->type->ptr)
        diag_fail(diag_as(fr->cx, ERROR_TYPE), at, "wrong type argument to unary minus (%s)", type_text(fr, v->type));
      return py_tensor(fr, build_unary(&fr->b, OP_NEG, no_fp8(fr, at, "-", v)));
    case PYOP_INVERT:
      if (v->type->ptr || !dtype_is_int(v->type->dtype))
        diag_fail(diag_as(fr->cx, ERROR_TYPE), at, "wrong type argument to unary invert (%s)", type_text(fr, v->type));
      return py_tensor(fr, build_unary(&fr->b, OP_NOT, v));
    default: return py_tensor(fr, v); /* unary +: Triton refuses it; it changes nothing */
  }
}

Py *sem_logical(Front *fr, Span at, PyOp op, Py *x, Py *y) {
  const char *name = op == PYOP_AND ? "and" : "or";
  Value *a = as_int1(fr, at, name, x), *b = as_int1(fr, at, name, y);
  sem_broadcast_pair(fr, at, &a, &b);
  return py_tensor(fr, build_binary(&fr->b, op == PYOP_AND ? OP_AND : OP_OR, a, b));
}

Value *sem_condition(Front *fr, Span at, Py *x) {
  Value *v = sem_to_value(fr, at, x, "a condition");
  if (v->type->rank && type_numel(v->type) > 1)
    diag_fail_hint(diag_as(fr->cx, ERROR_TYPE), at,
                   "use tl.where to choose by element, or reduce the condition to a scalar first",
                   "Boolean value of Tensor with more than one value is ambiguous: it is %s", type_text(fr, v->type));
  if (v->type->rank) v = build_reshape(&fr->b, v, 0, NULL);
  return sem_cast_value(fr, at, v, type_number(fr->cx, DT_I1), 0, false);
}

Py *front_demote(Front *fr, Span at, Py *p) {
  stack_guard();
  if (py_is_number(p)) return py_tensor(fr, sem_to_value(fr, at, p, "the assigned value"));
  if ((p->kind == PY_TENSOR || p->kind == PY_BLOCK_PTR) && p->is_constexpr) {
    Py *plain = arena_copy(fr->cx->arena, p, sizeof *p);
    plain->is_constexpr = false;
    return plain;
  }
  if (p->kind != PY_TUPLE) return p;
  bool any = false;
  for (int i = 0; i < p->tuple.n && !any; i++)
    any = py_is_number(p->tuple.at[i]) || p->tuple.at[i]->kind == PY_TUPLE || p->tuple.at[i]->kind == PY_TENSOR;
  if (!any) return p;
  Py *q = py_tuple(fr, p->tuple.n, p->tuple.at);
  q->tuple.is_list = p->tuple.is_list;
  q->tuple.cls = p->tuple.cls;
  for (int i = 0; i < q->tuple.n; i++) q->tuple.at[i] = front_demote(fr, at, q->tuple.at[i]);
  return q;
}
