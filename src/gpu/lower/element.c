/* lower_element: elementwise arithmetic, comparison, selection and addresses, a register at a time.
 *
 * Integers of 8 and 16 bits live in 32-bit registers in canonical form, extended by their sign: operations that may
 * leave it (add, shl, ...) restore it, others (and, min, shr, ...) keep it. Division is lower/divide.c's.
 *
 * Registers that are known to be equal are computed once: the mask `i < n` of 8 neighbours when n is divisible by 8
 * (lower_same).
 *
 * Halves are computed in pairs where a thread holds an even number of them: two neighbouring registers are packed, and
 * since packing what has just been unpacked folds away, a chain of operations stays packed. bf16 has only fma, min,
 * max, neg and abs before sm_90:
 *
 *     a + b = fma(a, 1, b)      a - b = fma(b, -1, a)      a * b = fma(a, b, -0)       each with one rounding
 *
 * Addresses: base + offset * size, with the offset widened by its sign. A constant c >= 0 at the end of a signed 32-bit
 * offset is taken out before widening, (x + c) * 4 = x * 4 + 4c, so that registers of a thread differ by the immediate
 * of the access only. That is right although x + c may wrap: where the offset lies in [0, 2^31) as it must to mean an
 * element, x = offset - c does not wrap.
 */
#include "gpu/lower/lower.h"

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

static bool is_half(Dtype t) { return t == DT_F16 || t == DT_BF16; }

/* How the registers of an integer or pointer type are read. */
static LaneKind int_kind(const Type *t) {
  if (t->ptr) return LK_U64;
  bool sign = dtype_is_signed(t->dtype), wide = dtype_bits(t->dtype) == 64;
  return wide ? sign ? LK_S64 : LK_U64 : sign ? LK_S32 : LK_U32;
}

static LaneKind arithmetic_kind(const Type *t) {
  return t->ptr || dtype_is_int(t->dtype) ? int_kind(t) : lane_kind_of(t);
}

static LaneKind bits_kind(const Type *t) { return lane_bits_kind(lane_type_of(t)); }

/* ---- halves ------------------------------------------------------------------------------------------------------ */

static LaneValue *half_op(Lower *l, const Op *op, LaneKind k, LaneKind bits, LaneValue *const *x) {
  LaneBuilder *b = &l->b;
  bool bf16 = k == LK_BF16 || k == LK_BF16X2, two = bits == LK_B32;
  bool by_fma = bf16 && !l->target->has_bf16_arith;
  LaneType type = two ? LT_B32 : LT_B16;
#define HALF(one) lane_const(b, type, two ? (uint64_t)(one)*0x10001 : (uint64_t)(one))
  LaneCode code;
  switch (op->code) {
    case OP_ADD:
      if (by_fma) return lane_3(b, LANE_FMA, k, x[0], HALF(0x3f80), x[1]);
      code = LANE_ADD;
      break;
    case OP_SUB:
      if (by_fma) return lane_3(b, LANE_FMA, k, x[1], HALF(0xbf80), x[0]);
      code = LANE_SUB;
      break;
    case OP_MUL:
      if (by_fma) return lane_3(b, LANE_FMA, k, x[0], x[1], HALF(0x8000));
      code = LANE_MUL;
      break;
    case OP_FMA: return lane_3(b, LANE_FMA, k, x[0], x[1], x[2]);
    case OP_NEG: return lane_2(b, LANE_XOR, LK_B32, x[0], HALF(0x8000));
    case OP_ABS: return lane_2(b, LANE_AND, LK_B32, x[0], HALF(0x7fff));
    case OP_MIN:
    case OP_MAX: {
      LaneOp proto = {.code = op->code == OP_MIN ? LANE_MIN : LANE_MAX, .kind = k, .nan = op->nan != 0};
      return lane_op(b, proto, 2, x);
    }
    default: return NULL;
  }
#undef HALF
  return lane_2(b, code, k, x[0], x[1]);
}

/* neg and abs of a single half: there is no xor of 16 bits in the lane IR. */
static LaneValue *half_sign(Lower *l, const Op *op, LaneKind k, LaneValue *x) {
  return lane_1(&l->b, op->code == OP_NEG ? LANE_NEG : LANE_ABS, k, x);
}

static bool in_halves(const Op *op) {
  switch (op->code) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_FMA:
    case OP_NEG:
    case OP_ABS:
    case OP_MIN:
    case OP_MAX: return true;
    default: return false;
  }
}

static void lower_halves(Lower *l, const Op *op, int n, LaneValue **const *in, LaneValue **out) {
  bool bf16 = op->out[0]->type->dtype == DT_BF16;
  LaneValue *x[3];
  int r = 0;
  for (; r + 1 < n; r += 2) {
    for (int i = 0; i < op->in_count; i++) x[i] = lane_pack(&l->b, in[i][r], in[i][r + 1]);
    lane_unpack(&l->b, half_op(l, op, bf16 ? LK_BF16X2 : LK_F16X2, LK_B32, x), &out[r], &out[r + 1]);
  }
  for (; r < n; r++) {
    for (int i = 0; i < op->in_count; i++) x[i] = in[i][r];
    LaneKind k = bf16 ? LK_BF16 : LK_F16;
    out[r] = op->code == OP_NEG || op->code == OP_ABS ? half_sign(l, op, k, x[0]) : half_op(l, op, k, LK_B16, x);
  }
}

/* What halves cannot do goes through f32: division and remainder. */
static void lower_halves_wide(Lower *l, const Op *op, int n, LaneValue **const *in, LaneValue **out) {
  Dtype t = op->out[0]->type->dtype;
  LaneValue **wide[2] = {lower_array(l, n), lower_array(l, n)};
  for (int i = 0; i < 2; i++) lower_cast(l, t, DT_F32, 0, n, in[i], wide[i]);
  LaneValue **result = lower_array(l, n);
  if (op->code == OP_DIV) {
    LaneOp proto = {.code = LANE_DIV, .kind = LK_F32, .approx = !op->rounding};
    for (int r = 0; r < n; r++) result[r] = lane_op(&l->b, proto, 2, (LaneValue *[]){wide[0][r], wide[1][r]});
  } else {
    gpu_math(&l->b, l->target, MATH_FMOD, 2, (Dtype[]){DT_F32, DT_F32}, DT_F32, n,
             (LaneValue *const *const[]){wide[0], wide[1]}, result);
  }
  lower_cast(l, DT_F32, t, 0, n, result, out);
}

/* ---- one register ------------------------------------------------------------------------------------------------ */

static LaneValue *predicate_op(Lower *l, const Op *op, LaneValue *const *in) {
  LaneBuilder *b = &l->b;
  LaneValue *x = in[0], *y = op->in_count > 1 ? in[1] : NULL;
  switch (op->code) {
    case OP_FMA: return lane_2(b, LANE_XOR, LK_PRED, lane_2(b, LANE_AND, LK_PRED, x, y), in[2]);
    case OP_ADD:
    case OP_SUB:
    case OP_XOR: return lane_2(b, LANE_XOR, LK_PRED, x, y);
    case OP_MUL:
    case OP_AND:
    case OP_MIN: return lane_2(b, LANE_AND, LK_PRED, x, y);
    case OP_OR:
    case OP_MAX: return lane_2(b, LANE_OR, LK_PRED, x, y);
    case OP_SHL:
    case OP_SHR: return lane_2(b, LANE_AND, LK_PRED, x, lane_1(b, LANE_NOT, LK_PRED, y));
    case OP_REM:
    case OP_MULHI: return lane_pred(b, false);
    case OP_NOT: return lane_1(b, LANE_NOT, LK_PRED, x);
    default: return x; /* neg, abs, and div: the divisor is 1, or 0 and then it is x */
  }
}

static LaneValue *predicate_cmp(Lower *l, CmpPred p, LaneValue *x, LaneValue *y) {
  LaneBuilder *b = &l->b;
  switch (p) {
    case CMP_EQ: return lane_1(b, LANE_NOT, LK_PRED, lane_2(b, LANE_XOR, LK_PRED, x, y));
    case CMP_NE: return lane_2(b, LANE_XOR, LK_PRED, x, y);
    case CMP_LT: return lane_2(b, LANE_AND, LK_PRED, lane_1(b, LANE_NOT, LK_PRED, x), y);
    case CMP_GT: return lane_2(b, LANE_AND, LK_PRED, x, lane_1(b, LANE_NOT, LK_PRED, y));
    case CMP_LE: return lane_2(b, LANE_OR, LK_PRED, lane_1(b, LANE_NOT, LK_PRED, x), y);
    default: return lane_2(b, LANE_OR, LK_PRED, x, lane_1(b, LANE_NOT, LK_PRED, y));
  }
}

static LaneValue *narrow_mulhi(Lower *l, const Type *t, LaneKind k, LaneValue *x, LaneValue *y) {
  LaneValue *product = lane_2(&l->b, LANE_MUL, k, x, y);
  return lane_2(&l->b, LANE_SHR, k, product, lane_i32(&l->b, dtype_bits(t->dtype)));
}

/* The least or greatest of doubles where NaN wins, which no instruction gives. */
static LaneValue *nan_wins(Lower *l, LaneValue *x, LaneValue *y, LaneValue *number) {
  LaneBuilder *b = &l->b;
  LaneValue *bad_x = lane_setp(b, CMP_NE, LK_F64, x, x), *bad_y = lane_setp(b, CMP_NE, LK_F64, y, y);
  return lane_select(b, bad_x, x, lane_select(b, bad_y, y, number));
}

static LaneValue *shift(Lower *l, const Op *op, const Type *t, LaneKind k, LaneValue *x, LaneValue *count) {
  LaneBuilder *b = &l->b;
  if (dtype_bits(t->dtype) == 64) { /* the instruction takes 32 bits of the count, and shifts all out from 64 on */
    count = lane_2(b, LANE_MIN, LK_U64, count, lane_i64(b, 64));
    count = lane_cvt(b, LK_U64, LK_U32, ROUND_DEFAULT, count);
  }
  return op->code == OP_SHR ? lane_2(b, LANE_SHR, k, x, count) : lane_2(b, LANE_SHL, bits_kind(t), x, count);
}

static LaneValue *one_register(Lower *l, const Op *op, LaneValue *const *x) {
  LaneBuilder *b = &l->b;
  const Type *t = op->out[0]->type;
  if (lane_type_of(t) == LT_PRED) return predicate_op(l, op, x);
  LaneKind k = arithmetic_kind(t), canonical = lane_kind_of(t);
  bool is_float = dtype_is_float(t->dtype);
  switch (op->code) {
    case OP_ADD: return lane_extend(b, canonical, lane_2(b, LANE_ADD, k, x[0], x[1]));
    case OP_SUB: return lane_extend(b, canonical, lane_2(b, LANE_SUB, k, x[0], x[1]));
    case OP_MUL: return lane_extend(b, canonical, lane_2(b, LANE_MUL, k, x[0], x[1]));
    case OP_FMA: return lane_extend(b, canonical, lane_3(b, LANE_FMA, k, x[0], x[1], x[2]));
    case OP_AND: return lane_2(b, LANE_AND, bits_kind(t), x[0], x[1]);
    case OP_OR: return lane_2(b, LANE_OR, bits_kind(t), x[0], x[1]);
    case OP_XOR: return lane_2(b, LANE_XOR, bits_kind(t), x[0], x[1]);
    case OP_NOT: return lane_extend(b, canonical, lane_1(b, LANE_NOT, bits_kind(t), x[0]));
    case OP_NEG:
      if (is_float) return lane_1(b, LANE_NEG, k, x[0]);
      return lane_extend(b, canonical, lane_2(b, LANE_SUB, k, lane_const(b, lane_type_of(t), 0), x[0]));
    case OP_ABS:
      if (!is_float && !dtype_is_signed(t->dtype)) return x[0];
      return lane_extend(b, canonical, lane_1(b, LANE_ABS, k, x[0]));
    case OP_SHL:
    case OP_SHR: return lane_extend(b, op->code == OP_SHL ? canonical : LK_S32, shift(l, op, t, k, x[0], x[1]));
    case OP_MULHI:
      if (dtype_bits(t->dtype) < 32) return narrow_mulhi(l, t, k, x[0], x[1]);
      return lane_2(b, LANE_MULHI, k, x[0], x[1]);
    case OP_MIN:
    case OP_MAX: {
      LaneOp proto = {
          .code = op->code == OP_MIN ? LANE_MIN : LANE_MAX, .kind = k, .nan = is_float && op->nan && k != LK_F64};
      LaneValue *v = lane_op(b, proto, 2, x);
      return k == LK_F64 && op->nan ? nan_wins(l, x[0], x[1], v) : v;
    }
    case OP_DIV:
      if (is_float) return lower_fdiv(l, k, op->rounding != 0, x[0], x[1]);
      return lower_divide(l, op, k, x[0], x[1]);
    case OP_REM: return lower_remainder(l, op, k, x[0], x[1]);
    default: return NULL;
  }
}

/* ---- comparison and selection ------------------------------------------------------------------------------------ */

static void lower_cmp(Lower *l, const Op *op, int n, uint32_t same, LaneValue **const *in, LaneValue **out) {
  const Type *t = op->in[0]->type;
  CmpPred p = (CmpPred)op->pred;
  LaneValue **x = in[0], **y = in[1];
  LaneKind k = arithmetic_kind(t);
  if (!t->ptr && dtype_is_float(t->dtype) && dtype_bits(t->dtype) < 32 &&
      !(t->dtype == DT_F16 || l->target->has_bf16_arith)) {
    x = lower_array(l, n), y = lower_array(l, n);
    lower_cast(l, t->dtype, DT_F32, 0, n, in[0], x);
    lower_cast(l, t->dtype, DT_F32, 0, n, in[1], y);
    k = LK_F32;
  }
  bool preds = lane_type_of(t) == LT_PRED;
  for (int r = 0; r < n; r++)
    out[r] = r & same ? out[r & ~same] : preds ? predicate_cmp(l, p, x[r], y[r]) : lane_setp(&l->b, p, k, x[r], y[r]);
}

static LaneValue *select_one(Lower *l, const Type *t, LaneValue *c, LaneValue *x, LaneValue *y) {
  LaneBuilder *b = &l->b;
  if (lane_type_of(t) != LT_PRED) return lane_select(b, c, x, y);
  LaneValue *not_c = lane_1(b, LANE_NOT, LK_PRED, c);
  return lane_2(b, LANE_OR, LK_PRED, lane_2(b, LANE_AND, LK_PRED, c, x), lane_2(b, LANE_AND, LK_PRED, not_c, y));
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static LaneValue *address(Lower *l, const Op *op, LaneValue *pointer, LaneValue *offset) {
  LaneBuilder *b = &l->b;
  const Type *p = op->out[0]->type, *t = op->in[1]->type;
  int64_t size = p->ptr > 1 ? 8 : dtype_bytes(p->dtype), constant = 0;
  if (lane_type_of(t) == LT_PRED) offset = lane_select(b, offset, lane_i32(b, 1), lane_i32(b, 0));
  uint64_t bits;
  LaneKind k = int_kind(t);
  if (lane_is_const(offset, &bits)) {
    constant = k == LK_S32 ? (int32_t)bits : (int64_t)bits;
    return lane_2(b, LANE_ADD, LK_S64, pointer, lane_i64(b, constant * size));
  }
  if (k == LK_S32) {
    LaneValue *base;
    int64_t c;
    lane_split_offset(LK_S32, offset, &base, &c);
    if (base && c > 0) offset = base, constant = c;
  }
  LaneValue *bytes;
  if (k == LK_S64 || k == LK_U64) bytes = lane_2(b, LANE_MUL, LK_S64, offset, lane_i64(b, size));
  else if (size == 1) bytes = lane_cvt(b, k, k == LK_S32 ? LK_S64 : LK_U64, ROUND_DEFAULT, offset);
  else bytes = lane_2(b, LANE_MULWIDE, k, offset, lane_i32(b, (int32_t)size));
  LaneValue *sum = lane_2(b, LANE_ADD, LK_S64, pointer, bytes);
  return constant ? lane_2(b, LANE_ADD, LK_S64, sum, lane_i64(b, constant * size)) : sum;
}

/* ---- the operation ----------------------------------------------------------------------------------------------- */

/* f32 / f32, where each divisor is one of several quotients': of rows by their sums, or of all by one number. */
static bool shares_divisors(const Op *op, LaneValue *const *y, int n) {
  uint64_t bits;
  int distinct = 0;
  if (op->code != OP_DIV || op->out[0]->type->dtype != DT_F32 || op->rounding) return false;
  for (int r = 0; r < n; r++) {
    int i = 0;
    while (i < r && y[i] != y[r]) i++;
    if (i == r && ++distinct * 4 > n) return false;
    if (lane_is_const(y[r], &bits)) return false;
  }
  return true;
}

/* ---- factors that are mostly one ---------------------------------------------------------------------------------- */

enum { MANY_PRODUCTS = 32, FEW_FACTORS = 4 };

static const Op *made_by(const Value *v) {
  while (v->def && (v->def->code == OP_BROADCAST || v->def->code == OP_EXPAND_DIMS || v->def->code == OP_SPLAT ||
                    v->def->code == OP_CONVERT_LAYOUT))
    v = v->def->in[0];
  return v->def;
}

/* exp(old - max(old, ..)), or of that times something: one wherever the maximum has not grown. */
static bool rescales(const Value *v) {
  const Op *op = made_by(v);
  if (!op || op->code != OP_MATH || (op->fn != MATH_EXP && op->fn != MATH_EXP2)) return false;
  op = made_by(op->in[0]);
  for (int k = 0; op && op->code == OP_MUL && k < 2; k++) {
    const Op *factor = made_by(op->in[k]);
    if (factor && factor->code == OP_SUB) op = factor;
  }
  if (!op || op->code != OP_SUB) return false;
  const Op *max = made_by(op->in[1]);
  return max && max->code == OP_MAX && (max->in[0] == op->in[0] || max->in[1] == op->in[0]);
}

/* A sum times how its maximum has grown (online softmax): warps in which no row's has leave it alone. */
static bool skip_ones(Lower *l, const Op *op, int n, LaneValue **const *in, LaneValue **out) {
  LaneBuilder *b = &l->b;
  if (op->code != OP_MUL || op->out[0]->type->dtype != DT_F32 || n < MANY_PRODUCTS || l->divergent) return false;
  int which = rescales(op->in[1]) ? 1 : 0, count = 0;
  if (!rescales(op->in[which])) return false;
  LaneValue *factors[FEW_FACTORS], *grows = NULL;
  for (int r = 0; r < n; r++) {
    int i = 0;
    while (i < count && factors[i] != in[which][r]) i++;
    if (i == FEW_FACTORS) return false;
    if (i == count) factors[count++] = in[which][r];
  }
  for (int i = 0; i < count; i++) {
    LaneValue *differs = lane_setp(b, CMP_NE, LK_F32, factors[i], lane_f32(b, 1));
    grows = grows ? lane_2(b, LANE_OR, LK_PRED, grows, differs) : differs;
  }
  LaneOp vote = {.code = LANE_VOTE, .kind = LK_PRED, .vote = VOTE_ANY, .buffer = -1};
  LaneType *types = NEW_N(l->cx->arena, LaneType, n);
  for (int r = 0; r < n; r++) types[r] = LT_B32;
  LaneOp *branch = lane_if(b, lane_op(b, vote, 1, &grows), false, n, types);
  LaneValue **scaled = lower_array(l, n);
  for (int r = 0; r < n; r++) scaled[r] = lane_2(b, LANE_MUL, LK_F32, in[0][r], in[1][r]);
  lane_yield(b, n, scaled);
  lane_enter(b, branch, 1);
  lane_yield(b, n, in[!which]);
  lane_leave(b, branch);
  memcpy(out, branch->out, sizeof *out * (size_t)n);
  return true;
}

/* ---- the operation ----------------------------------------------------------------------------------------------- */

void lower_element_op(Lower *l, Op *op) {
  const Value *v = op->out[0];
  int n = lower_count(v);
  LaneValue **out = lower_array(l, n), **in[3] = {NULL};
  for (int i = 0; i < op->in_count; i++) in[i] = lower_get(l, op->in[i]);
  const Type *t = v->type;
  uint32_t same = lower_same(v);
  if (op->code == OP_CMP) {
    lower_cmp(l, op, n, same, in, out);
  } else if (op->code == OP_SELECT) {
    for (int r = 0; r < n; r++) out[r] = r & same ? out[r & ~same] : select_one(l, t, in[0][r], in[1][r], in[2][r]);
  } else if (op->code == OP_ADDPTR) {
    for (int r = 0; r < n; r++) out[r] = r & same ? out[r & ~same] : address(l, op, in[0][r], in[1][r]);
  } else if (is_half(t->dtype) && in_halves(op)) {
    lower_halves(l, op, n, in, out);
  } else if (is_half(t->dtype)) {
    lower_halves_wide(l, op, n, in, out);
  } else if (op->code == OP_REM && dtype_is_float(t->dtype)) {
    gpu_math(&l->b, l->target, MATH_FMOD, 2, (Dtype[]){t->dtype, t->dtype}, t->dtype, n,
             (LaneValue *const *const[]){in[0], in[1]}, out);
  } else if (skip_ones(l, op, n, in, out)) {
    /* done */
  } else if (shares_divisors(op, in[1], n)) {
    for (int r = 0; r < n; r++) out[r] = r & same ? out[r & ~same] : lower_fdiv_shared(l, in[0][r], in[1][r]);
  } else {
    for (int r = 0; r < n; r++) {
      LaneValue *x[3];
      for (int i = 0; i < op->in_count; i++) x[i] = in[i][r];
      out[r] = r & same ? out[r & ~same] : one_register(l, op, x);
    }
  }
  lower_set(l, v, out);
}

void lower_math(Lower *l, Op *op) {
  int n = lower_count(op->out[0]);
  Dtype types[4];
  LaneValue **in[4];
  for (int k = 0; k < op->in_count; k++) {
    types[k] = op->in[k]->type->dtype;
    in[k] = lower_get(l, op->in[k]);
  }
  LaneValue **out = lower_array(l, n);
  gpu_math(&l->b, l->target, (MathFn)op->fn, op->in_count, types, op->out[0]->type->dtype, n,
           (LaneValue *const *const *)in, out);
  lower_set(l, op->out[0], out);
}
