/* Folding of elementwise operations.
 *
 * On constants they are computed with scalar.c, a tensor constant being one number. Where an operand is enough, the
 * identities apply: x + 0, x * 1, x & x, select(c, x, x), converting there and back. Those of floats are only the ones
 * that hold for NaN, infinities and -0: x * 1 and x + -0, but neither x + 0 nor x - x.
 *
 * Comparisons of integers are also decided from ranges: arange, program_id and constants bound what is computed from
 * them, which makes the mask of a tile that fits exactly `true` (i32 arithmetic on them is taken not to wrap only when
 * the range itself shows it).
 */
#include "tile/passes/fold.h"

static bool is_int(const Type *t) { return !t->ptr && dtype_is_int(t->dtype); }
static bool is_float(const Type *t) { return !t->ptr && dtype_is_float(t->dtype); }

static Scalar const_scalar(const Value *v) {
  return is_float(v->type) ? (Scalar){.f = v->def->number} : (Scalar){.i = v->def->value};
}

static Value *build_scalar(Builder *b, const Type *t, Scalar s) {
  return is_float(t) ? build_float(b, t, s.f) : build_int(b, t, s.i);
}

/* ---- all operands constant --------------------------------------------------------------------------------------- */

static bool compute(const Op *op, Scalar *result) {
  const Type *x = op->in[0]->type, *to = op->out[0]->type;
  Scalar in[4];
  for (int i = 0; i < op->in_count && i < 4; i++) in[i] = const_scalar(op->in[i]);
  switch (op->code) {
    case OP_NEG:
    case OP_NOT:
    case OP_ABS: *result = scalar_unary(op->code, x->dtype, in[0]); return true;
    case OP_FMA: *result = scalar_fma(x->dtype, in[0], in[1], in[2]); return true;
    case OP_CMP: result->i = scalar_cmp((CmpPred)op->pred, x->dtype, in[0], in[1]); return true;
    case OP_SELECT: *result = in[0].i ? in[1] : in[2]; return true;
    case OP_CONVERT: *result = scalar_convert(x->dtype, to->dtype, (int)op->rounding, in[0]); return true;
    case OP_BITCAST:
      if (to->ptr) return false;
      *result = scalar_bitcast(x->dtype, to->dtype, in[0]);
      return true;
    case OP_MATH: {
      Dtype types[4];
      for (int i = 0; i < op->in_count && i < 4; i++) types[i] = op->in[i]->type->dtype;
      bool by_order = op->fn == MATH_JN || op->fn == MATH_YN; /* takes time in proportion to the order */
      if (by_order && in[0].i > 1000) return false;
      *result = scalar_math((MathFn)op->fn, types, to->dtype, in);
      return true;
    }
    case OP_ADDPTR: return false;
    default: *result = scalar_binary(op->code, x->dtype, in[0], in[1], op->variant); return true;
  }
}

/* ---- what is known of an operand --------------------------------------------------------------------------------- */

static bool int_const(const Value *v, int64_t *c) { return value_is_const(v, c); }
static bool is_int_const(const Value *v, int64_t want) {
  int64_t c;
  return int_const(v, &c) && c == int_wrap(v->type->dtype, want);
}
static bool is_float_const(const Value *v, double want) {
  if (!is_const(v) || !is_float(v->type)) return false;
  return v->def->number == want && (want != 0 || __builtin_signbit(v->def->number) == __builtin_signbit(want));
}

static bool fits(Dtype t, int64_t v) { return int_wrap(t, v) == v && (t != DT_U64 || v >= 0); }

enum { MAX_RANGE_DEPTH = 8 };

static bool int_range(const Value *v, int depth, int64_t *low, int64_t *high);

/* Of a loop's variable: it begins at one bound and ends before the other, which may be unknown. */
static bool range_of_variable(const Value *v, int depth, int64_t *low, int64_t *high) {
  const Op *loop = v->block ? v->block->parent : NULL;
  int64_t step, l, h;
  Dtype t = v->type->dtype;
  if (!loop || loop->code != OP_FOR || v != loop->body[0]->args[0] || !dtype_is_signed(t) || depth == 0) return false;
  if (!int_const(value_replacement(loop->in[2]), &step) || step == 0) return false;
  int at_low = step > 0 ? 0 : 1, bits = dtype_bits(t);
  *low = (int64_t)(~(uint64_t)0 << (bits - 1)), *high = ~*low;
  bool from = int_range(value_replacement(loop->in[at_low]), depth - 1, &l, &h);
  if (from) *low = at_low && l < *high ? l + 1 : l;
  bool to = int_range(value_replacement(loop->in[!at_low]), depth - 1, &l, &h);
  if (to) *high = !at_low && h > *low ? h - 1 : h;
  return (from || to) && *low <= *high;
}

/* The same; where nothing is known, those of its type. */
static bool signed_range(const Value *v, int depth, int64_t *low, int64_t *high) {
  if (int_range(value_replacement((Value *)v), depth - 1, low, high)) return true;
  *low = (int64_t)(~(uint64_t)0 << (dtype_bits(v->type->dtype) - 1)), *high = ~*low;
  return dtype_is_signed(v->type->dtype);
}

/* Bounds of an integer's elements, when simple ones are known. */
static bool int_range(const Value *v, int depth, int64_t *low, int64_t *high) {
  stack_guard();
  const Op *op = v->def;
  int64_t c, al, ah, bl, bh;
  if (!is_int(v->type)) return false;
  if (int_const(v, &c)) return *low = *high = c, v->type->dtype != DT_U64 || c >= 0;
  if (!op) return range_of_variable(v, depth, low, high);
  if (depth == 0) return false;
  switch (op->code) {
    case OP_ARANGE: *low = op->start, *high = op->end - 1; return true;
    case OP_PROGRAM_ID: *low = 0, *high = INT32_MAX - 1; return true;
    case OP_NUM_PROGRAMS: *low = 1, *high = INT32_MAX; return true;
    case OP_SPLAT:
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_RESHAPE:
    case OP_TRANS:
    case OP_HINT: return int_range(value_replacement(op->in[0]), depth - 1, low, high);
    case OP_MIN:
      if (!signed_range(op->in[0], depth, &al, &ah) || !signed_range(op->in[1], depth, &bl, &bh)) return false;
      break; /* one of the two is enough */
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_MAX:
      if (!int_range(value_replacement(op->in[0]), depth - 1, &al, &ah)) return false;
      if (!int_range(value_replacement(op->in[1]), depth - 1, &bl, &bh)) return false;
      break;
    case OP_REM:
    case OP_DIV:
    case OP_AND:
      if (!int_range(value_replacement(op->in[0]), depth - 1, &al, &ah) || al < 0) return false;
      if (!int_const(op->in[1], &c) || c <= 0) return false;
      if (op->code == OP_DIV) return *low = al / c, *high = ah / c, true;
      return *low = 0, *high = op->code == OP_AND ? (c < ah ? c : ah) : (c - 1 < ah ? c - 1 : ah), true;
    case OP_CONVERT:
      if (!is_int(op->in[0]->type) || !int_range(value_replacement(op->in[0]), depth - 1, low, high)) return false;
      return fits(v->type->dtype, *low) && fits(v->type->dtype, *high);
    default: return false;
  }
  switch (op->code) {
    case OP_ADD:
      if (__builtin_add_overflow(al, bl, low) || __builtin_add_overflow(ah, bh, high)) return false;
      break;
    case OP_SUB:
      if (__builtin_sub_overflow(al, bh, low) || __builtin_sub_overflow(ah, bl, high)) return false;
      break;
    case OP_MUL:
      if (al < 0 || bl < 0 || __builtin_mul_overflow(al, bl, low) || __builtin_mul_overflow(ah, bh, high)) return false;
      break;
    case OP_MIN: *low = al < bl ? al : bl, *high = ah < bh ? ah : bh; break;
    default: *low = al > bl ? al : bl, *high = ah > bh ? ah : bh; break;
  }
  return fits(v->type->dtype, *low) && fits(v->type->dtype, *high);
}

bool fold_range(const Value *v, int64_t *low, int64_t *high) {
  return int_range(value_replacement((Value *)v), MAX_RANGE_DEPTH, low, high);
}

/* ---- identities -------------------------------------------------------------------------------------------------- */

static Value *int_identity(Builder *b, Op *op, Value *x, Value *y) {
  const Type *t = op->out[0]->type;
  bool same = x == y;
  int64_t c, c2;
  switch (op->code) {
    case OP_ADD:
      if (is_int_const(y, 0)) return x;
      /* (x + c2) + c = x + (c2 + c), and so for mul, and, or, xor */
      break;
    case OP_SUB:
      if (is_int_const(y, 0)) return x;
      if (same) return build_int(b, t, 0);
      break;
    case OP_MUL:
      if (is_int_const(y, 1)) return x;
      if (is_int_const(y, 0)) return y;
      break;
    case OP_DIV:
      if (is_int_const(y, 1)) return x;
      if (is_int_const(x, 0)) return x;
      break;
    case OP_REM:
      if (is_int_const(y, 1)) return build_int(b, t, 0);
      if (is_int_const(x, 0)) return x;
      break;
    case OP_AND:
      if (same || is_int_const(y, -1)) return x;
      if (is_int_const(y, 0)) return y;
      break;
    case OP_OR:
      if (same || is_int_const(y, 0)) return x;
      if (is_int_const(y, -1)) return y;
      break;
    case OP_XOR:
      if (is_int_const(y, 0)) return x;
      if (same) return build_int(b, t, 0);
      if (t->dtype == DT_I1 && is_int_const(y, 1)) return build_unary(b, OP_NOT, x);
      break;
    case OP_SHL:
    case OP_SHR:
      if (is_int_const(y, 0)) return x;
      if (is_int_const(x, 0)) return x;
      break;
    case OP_MIN:
    case OP_MAX:
      if (same) return x;
      break;
    default: break;
  }
  bool regroups =
      op->code == OP_ADD || op->code == OP_MUL || op->code == OP_AND || op->code == OP_OR || op->code == OP_XOR;
  if (regroups && x->def && x->def->code == op->code && int_const(y, &c) &&
      int_const(value_replacement(x->def->in[1]), &c2)) {
    Scalar both = scalar_binary(op->code, t->dtype, (Scalar){.i = c2}, (Scalar){.i = c}, 0);
    return build_binary(b, op->code, value_replacement(x->def->in[0]), build_int(b, t, both.i));
  }
  return NULL;
}

static Value *float_identity(Op *op, Value *x, Value *y) {
  switch (op->code) {
    case OP_ADD: return is_float_const(y, -0.0) ? x : NULL;
    case OP_SUB: return is_float_const(y, 0.0) ? x : NULL;
    case OP_MUL:
    case OP_DIV: return is_float_const(y, 1) ? x : NULL;
    case OP_MIN:
    case OP_MAX: return x == y ? x : NULL;
    default: return NULL;
  }
}

static bool commutes(OpCode code) {
  return code == OP_ADD || code == OP_MUL || code == OP_AND || code == OP_OR || code == OP_XOR || code == OP_MIN ||
         code == OP_MAX || code == OP_MULHI;
}

static CmpPred mirrored(CmpPred p) {
  static const CmpPred other[] = {CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT, CMP_LE};
  return other[p];
}

/* Narrow numbers widened to 64 bits, all against one: the one is cut, once, and where that changes it none of them is
 * equal. */
static Value *fold_wide_equality(Builder *b, CmpPred p, Value *x, Value *y) {
  if (!x->type->rank || !x->def || x->def->code != OP_CONVERT || !is_splat(y) || dtype_bits(x->type->dtype) != 64)
    return NULL;
  Value *narrow = value_replacement(x->def->in[0]), *one = value_replacement(y->def->in[0]);
  Dtype t = narrow->type->dtype;
  if (!is_int(narrow->type) || t == DT_I1 || dtype_bits(t) > 32 || !dtype_is_signed(t) ||
      !dtype_is_signed(x->type->dtype))
    return NULL;
  Value *cut = build_convert(b, one, t), *fits = build_cmp(b, p, build_convert(b, cut, one->type->dtype), one);
  Value *each = build_cmp(b, p, narrow, build_splat(b, cut, narrow->type->rank, narrow->type->shape));
  return build_binary(b, p == CMP_EQ ? OP_AND : OP_OR, each,
                      build_splat(b, fits, narrow->type->rank, narrow->type->shape));
}

static Value *fold_cmp(Builder *b, Op *op) {
  Value *x = op->in[0], *y = op->in[1];
  if (is_const(x) && !is_const(y)) { /* the constant goes to the right */
    op->in[0] = y, op->in[1] = x;
    op->pred = mirrored((CmpPred)op->pred);
    x = op->in[0], y = op->in[1];
  }
  CmpPred p = (CmpPred)op->pred;
  const Type *t = op->out[0]->type;
  if (x == y && !is_float(x->type)) return build_int(b, t, p == CMP_EQ || p == CMP_LE || p == CMP_GE);
  int64_t xl, xh, yl, yh, c;
  if (!is_int(x->type)) return NULL;
  if (!dtype_is_signed(x->type->dtype) && is_int_const(y, 0)) {
    if (p == CMP_LT) return build_int(b, t, 0);
    if (p == CMP_GE) return build_int(b, t, 1);
  }
  if (x->type->dtype == DT_I1 && int_const(y, &c) && (p == CMP_EQ || p == CMP_NE))
    return (p == CMP_NE) == (c == 0) ? x : build_unary(b, OP_NOT, x);
  if (p == CMP_EQ || p == CMP_NE) {
    Value *v = fold_wide_equality(b, p, x, y);
    if (!v) v = fold_wide_equality(b, p, y, x);
    if (v) return v;
  }
  if (!int_range(x, MAX_RANGE_DEPTH, &xl, &xh) || !int_range(y, MAX_RANGE_DEPTH, &yl, &yh)) return NULL;
  bool below = xh<yl, above = xl> yh, at_most = xh <= yl, at_least = xl >= yh;
  switch (p) {
    case CMP_EQ: return below || above ? build_int(b, t, 0) : NULL;
    case CMP_NE: return below || above ? build_int(b, t, 1) : NULL;
    case CMP_LT: return below ? build_int(b, t, 1) : at_least ? build_int(b, t, 0) : NULL;
    case CMP_LE: return at_most ? build_int(b, t, 1) : above ? build_int(b, t, 0) : NULL;
    case CMP_GT: return above ? build_int(b, t, 1) : at_most ? build_int(b, t, 0) : NULL;
    case CMP_GE: return at_least ? build_int(b, t, 1) : below ? build_int(b, t, 0) : NULL;
  }
  return NULL;
}

static Value *fold_not(Builder *b, Value *x) {
  Op *def = x->def;
  if (!def) return NULL;
  if (def->code == OP_NOT) return value_replacement(def->in[0]);
  if (def->code != OP_CMP || x->type->dtype != DT_I1) return NULL;
  CmpPred p = (CmpPred)def->pred;
  /* not (x < y) is x >= y only where no NaN can be */
  if (is_float(def->in[0]->type) && p != CMP_EQ && p != CMP_NE) return NULL;
  static const CmpPred opposite[] = {CMP_NE, CMP_EQ, CMP_GE, CMP_GT, CMP_LE, CMP_LT};
  return build_cmp(b, opposite[p], value_replacement(def->in[0]), value_replacement(def->in[1]));
}

static Value *fold_select(Builder *b, Op *op) {
  Value *c = op->in[0], *x = op->in[1], *y = op->in[2];
  int64_t known;
  if (x == y) return x;
  if (int_const(c, &known)) return known ? x : y;
  if (c->def && c->def->code == OP_NOT) return build_select(b, value_replacement(c->def->in[0]), y, x);
  if (x->type == c->type) { /* i1 */
    if (is_int_const(x, 1) && is_int_const(y, 0)) return c;
    if (is_int_const(x, 0) && is_int_const(y, 1)) return build_unary(b, OP_NOT, c);
  }
  return NULL;
}

/* Whether every number of type a is one of type b. */
static bool holds(Dtype a, Dtype b) {
  if (a == b) return true;
  if (dtype_is_float(a)) {
    if (!dtype_is_float(b)) return false;
    return b == DT_F64 || (b == DT_F32 && a != DT_F64);
  }
  if (!dtype_is_int(b)) return false;
  return dtype_is_signed(a) ? dtype_is_signed(b) && dtype_bits(a) < dtype_bits(b) : dtype_bits(a) < dtype_bits(b);
}

static Value *fold_convert(Builder *b, Op *op) {
  Value *x = op->in[0];
  Dtype to = op->out[0]->type->dtype;
  if (x->type->dtype == to) return x;
  if (!x->def || x->def->code != OP_CONVERT) return NULL;
  Value *first = value_replacement(x->def->in[0]);
  Dtype from = first->type->dtype, middle = x->type->dtype;
  if (middle == DT_I1 || from == DT_F8E4B15) return NULL; /* the latter reads a number that it cannot write */
  if (holds(from, middle)) {
    if (from == to) return first;
    /* Widened and widened again, or to an integer's bits: one step does it. */
    if (dtype_is_int(from) || holds(middle, to))
      return dtype_is_int(to) == dtype_is_int(from) ? build_convert(b, first, to) : NULL;
    return NULL;
  }
  /* An integer cut and cut again keeps its low bits. */
  bool ints = dtype_is_int(from) && dtype_is_int(middle) && dtype_is_int(to) && to != DT_I1;
  return ints && dtype_bits(to) <= dtype_bits(middle) ? build_convert(b, first, to) : NULL;
}

static Value *fold_addptr(Builder *b, Op *op) {
  Value *p = op->in[0], *offset = op->in[1];
  int64_t c, c2;
  if (!int_const(offset, &c)) return NULL;
  if (c == 0) return p;
  if (!p->def || p->def->code != OP_ADDPTR) return NULL;
  Value *inner = value_replacement(p->def->in[1]);
  /* A u64 above INT64_MAX is a negative number of elements: both are added modulo 2^64. */
  if (!int_const(inner, &c2)) return NULL;
  const Type *wide = type_with_dtype(b->func->cx, offset->type, DT_I64);
  return build_addptr(b, value_replacement(p->def->in[0]), build_int(b, wide, (int64_t)((uint64_t)c + (uint64_t)c2)));
}

static Value *fold_bitcast(Op *op) {
  Value *x = op->in[0];
  if (x->type == op->out[0]->type) return x;
  if (!x->def || x->def->code != OP_BITCAST) return NULL;
  Value *first = value_replacement(x->def->in[0]);
  return first->type == op->out[0]->type ? first : NULL;
}

Value *fold_elementwise(Builder *b, Op *op) {
  bool all_const = true;
  for (int i = 0; i < op->in_count; i++) all_const = all_const && is_const(op->in[i]);
  Scalar result;
  if (all_const && compute(op, &result)) return build_scalar(b, op->out[0]->type, result);

  Value *x = op->in[0], *y = op->in_count > 1 ? op->in[1] : NULL;
  if (commutes(op->code) && is_const(x) && !is_const(y)) {
    op->in[0] = y, op->in[1] = x;
    x = op->in[0], y = op->in[1];
  }
  switch (op->code) {
    case OP_CMP: return fold_cmp(b, op);
    case OP_SELECT: return fold_select(b, op);
    case OP_CONVERT: return fold_convert(b, op);
    case OP_BITCAST: return fold_bitcast(op);
    case OP_ADDPTR: return fold_addptr(b, op);
    case OP_NOT: return fold_not(b, x);
    case OP_NEG: return x->def && x->def->code == OP_NEG ? value_replacement(x->def->in[0]) : NULL;
    case OP_ABS:
      return x->def && x->def->code == OP_ABS ? x : is_int(x->type) && !dtype_is_signed(x->type->dtype) ? x : NULL;
    case OP_MATH:
    case OP_FMA: return NULL;
    default: return is_float(op->out[0]->type) ? float_identity(op, x, y) : int_identity(b, op, x, y);
  }
}
