/* Simpler forms of an operation that is about to be made.
 *
 *   constants          lane_eval says what they give, where a GPU would give the same bits
 *   identities         x + 0, x * 1, x & 0, min(x, x), a select of a constant, an `and` of predicates, a double `not`
 *   offsets            the constant part of integer arithmetic moves outwards, so that what the registers of a thread
 * have in common is one value, and what sets them apart ends in the immediate of a load: (x + 1) * 4 + y  ->  (x * 4 +
 * y) + 4 "x + constant" is always an `add` whose second operand is the constant (lane_split_offset takes it apart).
 *   bits               pack of an unpack, extensions of what is extended, conversions there and back
 *   clamps             before conversions that saturate: one end is enough, for NaN
 *
 * Operands come in canonical order (lane/build.c): of two that commute the constant is last. What a rule makes goes
 * through lane_op again, so rules see each other's results. Every rule makes something smaller, or moves a constant
 * outwards: that ends.
 */
#include "gpu/lane/table.h"

#include "gpu/lane/known_bits.h"

#include <math.h>

static bool is_def(const LaneValue *v, LaneCode code) { return v->def && v->def->code == code; }

static bool is_int(LaneKind k) { return k >= LK_B16 && k <= LK_U64; }

static int64_t as_int(LaneKind k, uint64_t bits) {
  return lane_kind_info[k].type == LT_B64 ? (int64_t)bits : (int32_t)(uint32_t)bits;
}

void lane_split_offset(LaneKind k, LaneValue *x, LaneValue **base, int64_t *offset) {
  uint64_t bits;
  *offset = 0;
  *base = x;
  if (lane_is_const(x, &bits)) {
    *offset = as_int(k, bits);
    *base = NULL;
  } else if (is_def(x, LANE_ADD) && (x->def->kind == LK_S32 || x->def->kind == LK_S64) &&
             lane_is_const(x->def->in[1], &bits)) {
    *offset = as_int(x->def->kind, bits);
    *base = x->def->in[0];
  }
}

/* Like lane_split_offset, but a constant is left whole. */
static LaneValue *split(LaneKind k, LaneValue *x, int64_t *offset) {
  LaneValue *base;
  lane_split_offset(k, x, &base, offset);
  if (base) return base;
  *offset = 0;
  return x;
}

static LaneValue *constant(LaneBuilder *b, LaneKind k, int64_t v) {
  return lane_const(b, lane_kind_info[k].type, (uint64_t)v);
}

static LaneValue *plus(LaneBuilder *b, LaneKind k, LaneValue *x, int64_t offset) {
  return lane_2(b, LANE_ADD, k, x, constant(b, k, offset));
}

static int64_t wrapping_mul(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }
static int64_t wrapping_add(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }

/* ---- integer arithmetic; y is `c` when it is a constant ---------------------------------------------------------- */

static LaneValue *fold_add(LaneBuilder *b, LaneKind k, LaneValue *x, LaneValue *y, bool has_c, int64_t c) {
  int64_t xo, yo;
  LaneValue *xb = split(k, x, &xo), *yb = split(k, y, &yo);
  if (has_c) {
    if (c == 0) return x;
    return xb != x ? plus(b, k, xb, wrapping_add(xo, c)) : NULL;
  }
  if (xb != x || yb != y) return plus(b, k, lane_2(b, LANE_ADD, k, xb, yb), wrapping_add(xo, yo));
  if (is_def(y, LANE_NEG) && y->def->kind == k) return lane_2(b, LANE_SUB, k, x, y->def->in[0]);
  return NULL;
}

static LaneValue *fold_sub(LaneBuilder *b, LaneKind k, LaneValue *x, LaneValue *y, bool has_c, int64_t c) {
  if (has_c) return plus(b, k, x, wrapping_mul(c, -1));
  if (x == y) return constant(b, k, 0);
  int64_t xo, yo;
  uint64_t first;
  LaneValue *xb = split(k, x, &xo), *yb = split(k, y, &yo);
  if (lane_is_const(x, &first)) {
    if (first == 0 && yb == y) return lane_1(b, LANE_NEG, k, y);
    if (yb != y) return lane_2(b, LANE_SUB, k, constant(b, k, wrapping_add((int64_t)first, wrapping_mul(yo, -1))), yb);
    return NULL;
  }
  if (xb != x || yb != y) return plus(b, k, lane_2(b, LANE_SUB, k, xb, yb), wrapping_add(xo, wrapping_mul(yo, -1)));
  if (is_def(x, LANE_ADD) && x->def->kind == k) { /* (p + y) - y */
    if (x->def->in[0] == y) return x->def->in[1];
    if (x->def->in[1] == y) return x->def->in[0];
  }
  return NULL;
}

static LaneValue *fold_mul(LaneBuilder *b, LaneKind k, LaneValue *x, bool has_c, int64_t c) {
  if (!has_c) return NULL;
  if (c == 0) return constant(b, k, 0);
  if (c == 1) return x;
  if (c == -1) return lane_1(b, LANE_NEG, k, x);
  int64_t offset;
  uint64_t inner;
  LaneValue *base = split(k, x, &offset);
  if (base != x) return plus(b, k, lane_2(b, LANE_MUL, k, base, constant(b, k, c)), wrapping_mul(offset, c));
  if (is_def(x, LANE_MUL) && x->def->kind == k && lane_is_const(x->def->in[1], &inner))
    return lane_2(b, LANE_MUL, k, x->def->in[0], constant(b, k, wrapping_mul(as_int(k, inner), c)));
  if (is_def(x, LANE_SHL) && lane_is_const(x->def->in[1], &inner) && inner < (uint64_t)lane_kind_info[k].bits)
    return lane_2(b, LANE_MUL, k, x->def->in[0], constant(b, k, (int64_t)((uint64_t)c << inner)));
  uint64_t bits = (uint64_t)c & lane_type_mask(lane_kind_info[k].type);
  if ((bits & (bits - 1)) == 0) return lane_2(b, LANE_SHL, k, x, lane_i32(b, __builtin_ctzll(bits)));
  return NULL;
}

static LaneValue *fold_int_fma(LaneBuilder *b, LaneKind k, LaneValue *const *in) {
  LaneValue *x = in[0], *y = in[1], *z = in[2];
  uint64_t bits;
  int64_t offset;
  if (lane_is_const(z, &bits)) return lane_2(b, LANE_ADD, k, lane_2(b, LANE_MUL, k, x, y), z);
  LaneValue *zb = split(k, z, &offset);
  if (zb != z) return plus(b, k, lane_3(b, LANE_FMA, k, x, y, zb), offset);
  if (!lane_is_const(y, &bits)) return NULL;
  int64_t c = as_int(k, bits);
  if (c == 0) return z;
  if (c == 1 || lane_is_const(x, NULL)) return lane_2(b, LANE_ADD, k, lane_2(b, LANE_MUL, k, x, y), z);
  LaneValue *xb = split(k, x, &offset);
  if (xb != x) return plus(b, k, lane_3(b, LANE_FMA, k, xb, y, z), wrapping_mul(offset, c));
  return NULL;
}

/* A sum times a constant, widened: see lane.h for what it takes for granted. */
static LaneValue *fold_mulwide(LaneBuilder *b, LaneKind k, LaneValue *x, bool has_c, int64_t c) {
  if (!has_c) return NULL;
  if (c == 0) return lane_i64(b, 0);
  int64_t offset;
  LaneValue *base = split(k, x, &offset);
  if (k == LK_S32 && base != x)
    return plus(b, LK_S64, lane_2(b, LANE_MULWIDE, k, base, constant(b, k, c)), wrapping_mul(offset, c));
  if (c == 1) return lane_cvt(b, k, k == LK_S32 ? LK_S64 : LK_U64, ROUND_DEFAULT, x);
  return NULL;
}

static LaneValue *fold_shift(LaneBuilder *b, const LaneOp *p, LaneValue *x, bool has_c, uint64_t n) {
  LaneKind k = p->kind;
  uint64_t width = (uint64_t)lane_kind_info[k].bits, inner;
  if (!has_c) return NULL;
  if (n == 0) return x;
  if (n >= width && !lane_kind_is_signed(k)) return constant(b, k, 0);
  if (is_def(x, p->code) && x->def->kind == k && lane_is_const(x->def->in[1], &inner) && n < 256 && inner < 256) {
    uint64_t both = n + inner;
    return lane_2(b, p->code, k, x->def->in[0], lane_i32(b, (int32_t)(both > width ? width : both)));
  }
  if (p->code == LANE_SHL) {
    LaneKind sum = width == 64 ? LK_S64 : LK_S32;
    int64_t offset;
    LaneValue *base = split(sum, x, &offset);
    if (base != x)
      return plus(b, sum, lane_2(b, LANE_SHL, k, base, lane_i32(b, (int32_t)n)), (int64_t)((uint64_t)offset << n));
    if (is_def(x, LANE_MUL) && x->def->kind == sum && lane_is_const(x->def->in[1], &inner))
      return lane_2(b, LANE_MUL, sum, x->def->in[0], constant(b, sum, (int64_t)(inner << n)));
  } else if (!lane_kind_is_signed(k) && is_def(x, LANE_SHL) && lane_is_const(x->def->in[1], &inner) && inner == n) {
    return lane_2(b, LANE_AND, k, x->def->in[0],
                  constant(b, k, (int64_t)(lane_type_mask(lane_kind_info[k].type) >> n)));
  }
  return NULL;
}

static LaneValue *fold_div(LaneBuilder *b, const LaneOp *p, LaneValue *x, bool has_c, int64_t c) {
  LaneKind k = p->kind;
  if (!has_c || c == 0) return NULL;
  bool rem = p->code == LANE_REM, is_signed = lane_kind_is_signed(k);
  if (c == 1) return rem ? constant(b, k, 0) : x;
  uint64_t bits = (uint64_t)c & lane_type_mask(lane_kind_info[k].type), zeros = lane_zero_bits(x);
  uint64_t top = 1ull << (lane_kind_info[k].bits - 1);
  if (is_signed && c < 0) return NULL;
  if (is_signed && !(zeros & top)) return NULL; /* may be negative */
  if (bits & (bits - 1)) return NULL;
  if (rem) return lane_2(b, LANE_AND, k, x, constant(b, k, (int64_t)(bits - 1)));
  return lane_2(b, LANE_SHR, lane_kind_info[k].bits == 64 ? LK_U64 : LK_U32, x, lane_i32(b, __builtin_ctzll(bits)));
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

static LaneValue *inverted_setp(LaneBuilder *b, const LaneOp *s) {
  static const CmpPred inverse[] = {
      [CMP_EQ] = CMP_NE, [CMP_NE] = CMP_EQ, [CMP_LT] = CMP_GE, [CMP_LE] = CMP_GT, [CMP_GT] = CMP_LE, [CMP_GE] = CMP_LT};
  LaneOp proto = {.code = LANE_SETP, .kind = s->kind, .pred = (uint8_t)inverse[s->pred], .ftz = s->ftz};
  proto.unordered = !s->unordered;
  if (lane_kind_is_float(s->kind) && s->pred == CMP_EQ && s->unordered)
    return NULL; /* ordered and not equal: there is no such row */
  return lane_op(b, proto, 2, s->in);
}

static bool is_not_of(const LaneValue *x, const LaneValue *y) {
  return (is_def(x, LANE_NOT) && x->def->in[0] == y) || (is_def(y, LANE_NOT) && y->def->in[0] == x);
}

/* x > y or x == y, of the same operands -> x >= y */
static LaneValue *fold_or_equal(LaneBuilder *b, LaneValue *x, LaneValue *y) {
  if (!is_def(x, LANE_SETP) || !is_def(y, LANE_SETP)) return NULL;
  bool first = x->def->pred == CMP_EQ;
  const LaneOp *p = first ? y->def : x->def, *e = first ? x->def : y->def;
  if (e->pred != CMP_EQ || (p->pred != CMP_GT && p->pred != CMP_LT)) return NULL;
  bool signs_apart = is_int(p->kind) && is_int(e->kind) && lane_kind_info[p->kind].bits == lane_kind_info[e->kind].bits;
  if (p->kind != e->kind && !signs_apart) return NULL;
  if (p->unordered != e->unordered || p->ftz != e->ftz || p->guard || e->guard) return NULL;
  bool same = p->in[0] == e->in[0] && p->in[1] == e->in[1], crossed = p->in[0] == e->in[1] && p->in[1] == e->in[0];
  if (!same && !crossed) return NULL;
  LaneOp both = {.code = LANE_SETP, .kind = p->kind, .unordered = p->unordered, .ftz = p->ftz};
  both.pred = p->pred == CMP_GT ? CMP_GE : CMP_LE;
  return lane_op(b, both, 2, p->in);
}

static LaneValue *fold_logic(LaneBuilder *b, const LaneOp *p, LaneValue *x, LaneValue *y, bool has_c, uint64_t c) {
  LaneKind k = p->kind;
  uint64_t ones = lane_type_mask(lane_kind_info[k].type), inner;
  if (x == y) return p->code == LANE_XOR ? constant(b, k, 0) : x;
  if (is_not_of(x, y)) return constant(b, k, p->code == LANE_AND ? 0 : (int64_t)ones);
  if (p->code != LANE_XOR) /* x & (x & z), x | (x | z) */
    for (int i = 0; i < 2; i++) {
      LaneValue *in = i ? x : y, *of = i ? y : x;
      if (is_def(of, p->code) && (of->def->in[0] == in || of->def->in[1] == in)) return of;
    }
  if (!has_c) {
    if (p->code == LANE_OR && k == LK_PRED) return fold_or_equal(b, x, y);
    if (p->code != LANE_AND && k != LK_PRED &&
        (k == LK_B32 || k == LK_B64)) { /* disjoint bits: then it is an addition, which folds into addresses */
      int64_t offset;
      uint64_t xz = lane_zero_bits(x), yz = lane_zero_bits(y);
      if (((xz | yz) & ones) == ones) {
        LaneKind sum = k == LK_B64 ? LK_S64 : LK_S32;
        if (split(sum, x, &offset) != x || split(sum, y, &offset) != y) return lane_2(b, LANE_ADD, sum, x, y);
      }
    }
    return NULL;
  }
  bool again = is_def(x, p->code) && lane_is_const(x->def->in[1], &inner);
  if (p->code == LANE_AND) {
    uint64_t may = ~lane_zero_bits(x) & ones;
    if ((c & may) == 0) return constant(b, k, 0);
    if ((c & may) == may) return x;
    if (again) return lane_2(b, p->code, k, x->def->in[0], constant(b, k, (int64_t)(c & inner)));
    return NULL;
  }
  if (c == 0) return x;
  if (p->code == LANE_OR && c == ones) return y;
  if (p->code == LANE_XOR && c == ones) return lane_1(b, LANE_NOT, k, x);
  if (again)
    return lane_2(b, p->code, k, x->def->in[0], constant(b, k, (int64_t)(p->code == LANE_OR ? c | inner : c ^ inner)));
  if (k != LK_PRED && k != LK_B16 && (c & ~lane_zero_bits(x)) == 0)
    return plus(b, k == LK_B64 ? LK_S64 : LK_S32, x, as_int(k, c));
  return NULL;
}

static LaneValue *fold_bfe(LaneBuilder *b, const LaneOp *p, LaneValue *x) {
  LaneKind k = p->kind;
  int width = lane_kind_info[k].bits, bit = p->bit, bits = p->bits;
  LaneType type = lane_kind_info[k].type;
  if (bits == 0) return lane_const(b, type, 0);
  if (bit == 0 && bits >= width) return x;
  bool is_signed = lane_kind_is_signed(k);
  if (!is_signed && bit == 0) return lane_2(b, LANE_AND, k, x, lane_const(b, type, (1ull << bits) - 1));
  if (!is_signed && bit < width && bit + bits >= width) return lane_2(b, LANE_SHR, k, x, lane_i32(b, bit));
  if (is_signed && bit == 0) { /* the sign of what is already so narrow */
    uint64_t may = ~lane_zero_bits(x) & lane_type_mask(type);
    if (may < 1ull << (bits - 1)) return x;
    if (is_def(x, LANE_BFE) && x->def->kind == k && x->def->bits <= bits) return x;
    if (is_def(x, LANE_LD) && x->def->kind == (bits == 8 ? LK_S8 : LK_S16) && k == LK_S32 &&
        (bits == 8 || bits == 16) && !x->def->guard)
      return x;
    if (is_def(x, LANE_BFE) && x->def->kind == k && x->def->bits > bits)
      return lane_bfe(b, k, x->def->in[0], x->def->bit, bits);
    uint64_t mask;
    if (is_def(x, LANE_AND) && lane_is_const(x->def->in[1], &mask) &&
        (mask & ((1ull << bits) - 1)) == (1ull << bits) - 1)
      return lane_bfe(b, k, x->def->in[0], 0, bits);
  }
  return NULL;
}

/* ---- predicates -------------------------------------------------------------------------------------------------- */

enum { MOST_SELECTS = 5 };
/* base + a number from low to high; a NULL base is 0. */
typedef struct SumRange {
  LaneValue *base;
  int64_t low, high;
} SumRange;

/* What x may be, through selections (a maximum's index is one of two, say). False: sums of several bases. */
static bool range_of_sum(LaneKind k, LaneValue *x, int selects, SumRange *s) {
  stack_guard();
  SumRange other;
  if (is_def(x, LANE_SELECT) && selects) {
    if (!range_of_sum(k, x->def->in[1], selects - 1, s) || !range_of_sum(k, x->def->in[2], selects - 1, &other) ||
        s->base != other.base)
      return false;
    if (other.low < s->low) s->low = other.low;
    if (other.high > s->high) s->high = other.high;
  } else {
    lane_split_offset(k, x, &s->base, &s->low);
    s->high = s->low;
  }
  return true;
}

/* x + 1 < x + 2, where neither sum carries into the sign; (x or x + 1) < (x + 2 or x + 3). */
static LaneValue *fold_setp_of_sums(LaneBuilder *b, const LaneOp *p, LaneValue *x, LaneValue *y) {
  LaneKind k = lane_kind_info[p->kind].type == LT_B64 ? LK_S64 : LK_S32;
  CmpPred pred = (CmpPred)p->pred;
  SumRange m, n;
  if (!range_of_sum(k, x, MOST_SELECTS, &m) || !range_of_sum(k, y, MOST_SELECTS, &n) || m.base != n.base) return NULL;
  if (pred == CMP_EQ || pred == CMP_NE) {
    bool numbers = m.low == m.high && n.low == n.high, apart = m.high < n.low || n.high < m.low;
    if (!numbers && !apart) return NULL;
  } else {
    uint64_t most = k == LK_S64 ? INT64_MAX : INT32_MAX, may = m.base ? ~lane_zero_bits(m.base) : 0,
             offsets = (uint64_t)(m.high | n.high); /* >= both */
    if (m.low < 0 || n.low < 0 || ((may & offsets) != 0 && (may > most || offsets > most - may))) return NULL;
  }
  bool first = scalar_cmp(pred, DT_I64, (Scalar){.i = m.low}, (Scalar){.i = n.high}),
       last = scalar_cmp(pred, DT_I64, (Scalar){.i = m.high}, (Scalar){.i = n.low});
  return first == last ? lane_pred(b, first) : NULL;
}

/* What x is at least: the constant that is added to a number of no sign, where the sum has none. */
static uint64_t least_of_sum(LaneKind k, LaneValue *x) {
  bool wide = lane_kind_info[k].type == LT_B64;
  uint64_t limit = wide ? INT64_MAX : INT32_MAX;
  int64_t offset;
  LaneValue *base = split(wide ? LK_S64 : LK_S32, x, &offset);
  uint64_t may = ~lane_zero_bits(base) & lane_type_mask(lane_kind_info[k].type);
  return offset > 0 && may <= limit && (uint64_t)offset <= limit - may ? (uint64_t)offset : 0;
}

static LaneValue *fold_setp(LaneBuilder *b, const LaneOp *p, LaneValue *x, LaneValue *y, bool has_c, uint64_t c) {
  static const CmpPred swapped[] = {
      [CMP_EQ] = CMP_EQ, [CMP_NE] = CMP_NE, [CMP_LT] = CMP_GT, [CMP_LE] = CMP_GE, [CMP_GT] = CMP_LT, [CMP_GE] = CMP_LE};
  LaneKind k = p->kind;
  if (k == LK_PRED) { /* false < true */
    LaneValue *not_x = lane_1(b, LANE_NOT, k, x), *not_y = lane_1(b, LANE_NOT, k, y);
    switch (p->pred) {
      case CMP_EQ: return lane_2(b, LANE_XOR, k, not_x, y);
      case CMP_NE: return lane_2(b, LANE_XOR, k, x, y);
      case CMP_LT: return lane_2(b, LANE_AND, k, not_x, y);
      case CMP_LE: return lane_2(b, LANE_OR, k, not_x, y);
      case CMP_GT: return lane_2(b, LANE_AND, k, x, not_y);
      default: return lane_2(b, LANE_OR, k, x, not_y);
    }
  }
  if (lane_is_const(x, NULL) && !has_c) {
    LaneOp other = *p;
    other.pred = (uint8_t)swapped[p->pred];
    return lane_op(b, other, 2, (LaneValue *[]){y, x});
  }
  if (!is_int(k)) return NULL;
  bool or_equal = p->pred == CMP_EQ || p->pred == CMP_LE || p->pred == CMP_GE,
       equality = p->pred == CMP_EQ || p->pred == CMP_NE;
  if (x == y) return lane_pred(b, or_equal);
  if (!has_c) return fold_setp_of_sums(b, p, x, y);
  int64_t offset;
  bool wide = lane_kind_info[k].type == LT_B64;
  if (equality) {
    LaneValue *base = split(wide ? LK_S64 : LK_S32, x, &offset);
    if (base != x) return lane_setp(b, (CmpPred)p->pred, k, base, constant(b, k, (int64_t)(c - (uint64_t)offset)));
    uint64_t t, f;
    if (is_def(x, LANE_SELECT) && lane_is_const(x->def->in[1], &t) && lane_is_const(x->def->in[2], &f)) {
      bool if_true = (t == c) == (p->pred == CMP_EQ), if_false = (f == c) == (p->pred == CMP_EQ);
      if (if_true == if_false) return lane_pred(b, if_true);
      return if_true ? x->def->in[0] : lane_1(b, LANE_NOT, LK_PRED, x->def->in[0]);
    }
    if (c & lane_zero_bits(x)) return lane_pred(b, p->pred == CMP_NE);
    return NULL;
  }
  /* What the zeros of x allow: least <= x <= most. */
  uint64_t most = ~lane_zero_bits(x) & lane_type_mask(lane_kind_info[k].type), top = wide ? 1ull << 63 : 1ull << 31;
  uint64_t least = least_of_sum(k, x);
  if (lane_kind_is_signed(k)) {
    if (most & top) return NULL;
    int64_t v = as_int(k, c), high = (int64_t)most, low = (int64_t)least;
    switch (p->pred) {
      case CMP_LT: return v > high ? lane_pred(b, true) : v <= low ? lane_pred(b, false) : NULL;
      case CMP_LE: return v >= high ? lane_pred(b, true) : v < low ? lane_pred(b, false) : NULL;
      case CMP_GT: return v >= high ? lane_pred(b, false) : v < low ? lane_pred(b, true) : NULL;
      default: return v > high ? lane_pred(b, false) : v <= low ? lane_pred(b, true) : NULL;
    }
  }
  switch (p->pred) {
    case CMP_LT: return c > most ? lane_pred(b, true) : c <= least ? lane_pred(b, false) : NULL;
    case CMP_LE: return c >= most ? lane_pred(b, true) : c < least ? lane_pred(b, false) : NULL;
    case CMP_GT: return c >= most ? lane_pred(b, false) : c < least ? lane_pred(b, true) : NULL;
    default: return c > most ? lane_pred(b, false) : c <= least ? lane_pred(b, true) : NULL;
  }
}

/* Of what a scan takes only where there is something before: x is chosen from y and another, and is one choice then, by
 * a predicate that serves all words of a value. */
static LaneValue *fold_select_of_select(LaneBuilder *b, LaneValue *cond, LaneValue *x, LaneValue *y) {
  if (!is_def(x, LANE_SELECT)) return NULL;
  LaneValue *const *in = x->def->in, *q = in[0];
  if (y == in[2]) return lane_select(b, lane_2(b, LANE_AND, LK_PRED, cond, q), in[1], y);
  if (y == in[1]) return lane_select(b, lane_2(b, LANE_AND, LK_PRED, cond, lane_1(b, LANE_NOT, LK_PRED, q)), in[2], y);
  return NULL;
}

static LaneValue *fold_select(LaneBuilder *b, const LaneOp *p, LaneValue *const *in) {
  uint64_t bits, x, y;
  LaneValue *cond = in[0];
  if (lane_is_const(cond, &bits)) return bits ? in[1] : in[2];
  if (in[1] == in[2]) return in[1];
  bool has_x = lane_is_const(in[1], &x), has_y = lane_is_const(in[2], &y);
  if (has_x && has_y && x == y) return in[1];
  if (is_def(cond, LANE_NOT)) return lane_select(b, cond->def->in[0], in[2], in[1]);
  if (p->kind == LK_PRED) {
    LaneValue *inverse = NULL;
    if ((has_x && !x) || (has_y && y)) inverse = lane_1(b, LANE_NOT, LK_PRED, cond);
    if (has_x && has_y) return x ? cond : inverse;
    if (has_x) return x ? lane_2(b, LANE_OR, LK_PRED, cond, in[2]) : lane_2(b, LANE_AND, LK_PRED, inverse, in[2]);
    if (has_y) return y ? lane_2(b, LANE_OR, LK_PRED, inverse, in[1]) : lane_2(b, LANE_AND, LK_PRED, cond, in[1]);
    if (in[1] == cond) return lane_2(b, LANE_OR, LK_PRED, cond, in[2]);
    if (in[2] == cond) return lane_2(b, LANE_AND, LK_PRED, cond, in[1]);
  }
  /* A choice by the same predicate inside is made already. */
  if (is_def(in[1], LANE_SELECT) && in[1]->def->in[0] == cond) return lane_select(b, cond, in[1]->def->in[1], in[2]);
  if (is_def(in[2], LANE_SELECT) && in[2]->def->in[0] == cond) return lane_select(b, cond, in[1], in[2]->def->in[2]);
  return p->kind == LK_PRED ? NULL : fold_select_of_select(b, cond, in[1], in[2]);
}

static LaneValue *fold_not(LaneBuilder *b, LaneValue *x) {
  if (is_def(x, LANE_NOT)) return x->def->in[0];
  return is_def(x, LANE_SETP) ? inverted_setp(b, x->def) : NULL;
}

/* ---- conversions ------------------------------------------------------------------------------------------------- */

/* Integers to integers in one of few forms: extend in 32 bits, cvt s32 -> s64, cvt u32 -> u64, cvt s64 -> s32. */
static LaneValue *fold_int_cvt(LaneBuilder *b, const LaneOp *p, LaneValue *x) {
  LaneKind from = p->kind, to = p->to;
  bool wide_in = lane_kind_info[from].type == LT_B64, wide_out = lane_kind_info[to].type == LT_B64;
  if (wide_in && wide_out) return x;
  if (wide_in) {
    LaneValue *low;
    if (is_def(x, LANE_CVT) && is_int(x->def->kind) && !x->def->sat) low = x->def->in[0];
    else if (is_def(x, LANE_PACK)) low = x->def->in[0];
    else if (from == LK_S64 && to == LK_S32) return NULL;
    else low = lane_cvt(b, LK_S64, LK_S32, ROUND_DEFAULT, x);
    return lane_extend(b, to, low);
  }
  if (!wide_out) return lane_extend(b, to, x);
  LaneKind source = lane_kind_is_signed(from) ? LK_S32 : LK_U32, target = source == LK_S32 ? LK_S64 : LK_U64;
  if (source == LK_U32 && lane_zero_bits(x) & 1ull << 31) source = LK_S32, target = LK_S64; /* the same either way */
  int64_t offset;
  LaneValue *base = split(LK_S32, x, &offset);
  if (source == LK_S32 && base != x && offset >= 0) { /* a sum that cannot overflow, or has no carries */
    uint64_t most = ~lane_zero_bits(base) & 0xffffffff;
    if (most + (uint64_t)offset <= INT32_MAX || (offset <= INT32_MAX && !(most & (uint64_t)offset)))
      return plus(b, LK_S64, lane_cvt(b, source, target, ROUND_DEFAULT, base), offset);
  }
  return source == from && target == to ? NULL : lane_cvt(b, source, target, ROUND_DEFAULT, x);
}

/* Either end of a clamp stands for NaN. */
static bool is_clamped(const LaneValue *v) {
  uint64_t bits;
  bool clamp = (is_def(v, LANE_MIN) || is_def(v, LANE_MAX)) && v->def->kind == LK_F32 && !v->def->nan;
  return clamp && lane_is_const(v->def->in[1], &bits) && (bits & 0x7fffffff) <= 0x7f800000;
}

/* v without an end of a clamp which the conversion to numbers from `least` to `most` has itself. The other end stays,
 * as NaN comes to it. */
static LaneValue *unclamped(LaneValue *v, double least, double most) {
  uint64_t bits;
  bool is_min = is_def(v, LANE_MIN);
  if (!(is_min || is_def(v, LANE_MAX)) || v->def->kind != LK_F32 || !lane_is_const(v->def->in[1], &bits)) return v;
  float end;
  memcpy(&end, &(uint32_t){(uint32_t)bits}, sizeof end);
  return (is_min ? end >= most : end <= least) && is_clamped(v->def->in[0]) ? v->def->in[0] : v;
}

static LaneValue *fold_cvt2(LaneBuilder *b, const LaneOp *p, LaneValue *const *in) {
  if (p->to != LK_E4M3X2 && p->to != LK_E5M2X2) return NULL;
  double most = p->to == LK_E4M3X2 ? 448 : 57344;
  LaneValue *x[2] = {unclamped(in[0], -most, most), unclamped(in[1], -most, most)};
  return x[0] == in[0] && x[1] == in[1] ? NULL : lane_op(b, *p, 2, x);
}

static LaneValue *fold_cvt(LaneBuilder *b, const LaneOp *p, LaneValue *x) {
  LaneKind from = p->kind, to = p->to;
  if (from == to && !p->sat && !p->ftz) return x;
  if (from == LK_PRED) {
    if (!lane_kind_is_float(to)) return lane_select(b, x, constant(b, to, 1), constant(b, to, 0));
    LaneOp one = {.code = LANE_CVT, .kind = LK_S32, .to = to};
    uint64_t bits[2];
    lane_eval(&one, (uint64_t[]){1}, bits);
    return lane_select(b, x, constant(b, to, (int64_t)bits[0]), constant(b, to, 0));
  }
  if (to == LK_PRED) return lane_setp(b, CMP_NE, from, x, constant(b, from, 0));
  bool float_in = lane_kind_is_float(from), float_out = lane_kind_is_float(to);
  if (!float_in && !float_out) return p->sat ? NULL : fold_int_cvt(b, p, x);
  if (!float_in) { /* small integers are extended already */
    LaneKind same = from == LK_S8 || from == LK_S16 ? LK_S32 : from == LK_U8 || from == LK_U16 ? LK_U32 : from;
    if (same == LK_U32 && lane_zero_bits(x) & 1ull << 31) same = LK_S32;
    if (same == from) return NULL;
    LaneOp other = *p;
    other.kind = same;
    return lane_op(b, other, 1, &x);
  }
  if (!float_out && from == LK_F32 && p->sat) {
    int bits = lane_kind_info[to].bits, is_signed = lane_kind_is_signed(to);
    LaneValue *all = unclamped(x, is_signed ? -ldexp(1, bits - 1) : 0, ldexp(1, bits - is_signed) - 1);
    return all == x ? NULL : lane_op(b, *p, 1, &all);
  }
  /* There and back: what was widened exactly. */
  bool plain = !p->sat && !p->ftz;
  if (float_out && plain && is_def(x, LANE_CVT) && x->def->kind == to && x->def->to == from && !x->def->sat &&
      !x->def->ftz && lane_kind_info[from].bits > lane_kind_info[to].bits)
    return x->def->in[0];
  return NULL;
}

static LaneValue *fold_pack(LaneBuilder *b, LaneValue *low, LaneValue *high) {
  if (is_def(low, LANE_UNPACK) && low->def == high->def && low->index == 0 && high->index == 1) return low->def->in[0];
  uint64_t zero;
  if (low->type == LT_B32 && lane_is_const(high, &zero) && zero == 0)
    return lane_cvt(b, LK_U32, LK_U64, ROUND_DEFAULT, low);
  return NULL;
}

/* ---- floats ------------------------------------------------------------------------------------------------------ */

static LaneValue *fold_float(LaneBuilder *b, const LaneOp *p, int n, LaneValue *const *in) {
  LaneKind k = p->kind;
  LaneValue *x = in[0], *y = n > 1 ? in[1] : NULL;
  uint64_t bits;
  static const struct {
    uint64_t one, minus_zero;
  } known[LK_COUNT] = {[LK_F16] = {0x3c00, 0x8000},           [LK_BF16] = {0x3f80, 0x8000},
                       [LK_F32] = {0x3f800000, 0x80000000},   [LK_F64] = {0x3ffull << 52, 1ull << 63},
                       [LK_F16X2] = {0x3c003c00, 0x80008000}, [LK_BF16X2] = {0x3f803f80, 0x80008000}};
  bool has_c = y && lane_is_const(y, &bits);
  if (p->ftz && p->code != LANE_MIN && p->code != LANE_MAX) return NULL;
  switch (p->code) {
    case LANE_MUL:
    case LANE_DIV: return has_c && bits == known[k].one ? x : NULL;
    case LANE_ADD: return has_c && bits == known[k].minus_zero ? x : NULL;
    case LANE_SUB: return has_c && bits == 0 ? x : NULL;
    case LANE_NEG: return is_def(x, LANE_NEG) && x->def->kind == k && !x->def->ftz ? x->def->in[0] : NULL;
    case LANE_ABS:
      if (is_def(x, LANE_ABS) && x->def->kind == k && !x->def->ftz) return x;
      return is_def(x, LANE_NEG) && x->def->kind == k && !x->def->ftz ? lane_1(b, LANE_ABS, k, x->def->in[0]) : NULL;
    default: return NULL;
  }
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static LaneValue *fold_constants(LaneBuilder *b, const LaneOp *p, int n, LaneValue *const *in) {
  uint64_t bits[4], out[2];
  LaneType type;
  if (n == 0 || n > 3 || p->code == LANE_MOVE) return NULL;
  for (int i = 0; i < n; i++)
    if (!lane_is_const(in[i], &bits[i])) return NULL;
  LaneOp op = *p;
  op.in_count = n;
  if (!lane_result_type(&op, &type) || !lane_eval_is_exact(&op, bits) || !lane_eval(&op, bits, out)) return NULL;
  return lane_const(b, type, out[0]);
}

LaneValue *lane_fold(LaneBuilder *b, const LaneOp *p, int n, LaneValue *const *in) {
  stack_guard();
  const LaneInfo *info = &lane_info[p->code];
  if (n < info->min_in || (info->max_in >= 0 && n > info->max_in)) return NULL; /* wrong: for the verifier */
  LaneKind k = p->kind;
  LaneValue *folded = fold_constants(b, p, n, in);
  if (folded) return folded;
  uint64_t bits = 0;
  bool has_c = n >= 2 && lane_is_const(in[1], &bits), ints = !lane_kind_is_float(k);
  int64_t c = as_int(k, bits);
  switch (p->code) {
    case LANE_PARAM: return p->imm >= 0 && p->imm < b->f->param_count ? b->f->params[p->imm] : NULL;
    case LANE_ADD: return ints ? fold_add(b, k, in[0], in[1], has_c, c) : fold_float(b, p, n, in);
    case LANE_SUB: return ints ? fold_sub(b, k, in[0], in[1], has_c, c) : fold_float(b, p, n, in);
    case LANE_MUL: return ints ? fold_mul(b, k, in[0], has_c, c) : fold_float(b, p, n, in);
    case LANE_FMA: return ints ? fold_int_fma(b, k, in) : NULL;
    case LANE_MULWIDE: return fold_mulwide(b, k, in[0], has_c, k == LK_U32 ? (int64_t)bits : c);
    case LANE_DIV: return ints ? fold_div(b, p, in[0], has_c, c) : fold_float(b, p, n, in);
    case LANE_REM: return ints ? fold_div(b, p, in[0], has_c, c) : NULL;
    case LANE_MIN:
    case LANE_MAX: return in[0] == in[1] && (ints || !p->ftz) ? in[0] : NULL;
    case LANE_AND:
    case LANE_OR:
    case LANE_XOR: return fold_logic(b, p, in[0], in[1], has_c, bits);
    case LANE_NOT: return fold_not(b, in[0]);
    case LANE_NEG:
      if (!ints) return fold_float(b, p, n, in);
      if (is_def(in[0], LANE_NEG)) return in[0]->def->in[0];
      return is_def(in[0], LANE_SUB) && in[0]->def->kind == k
                 ? lane_2(b, LANE_SUB, k, in[0]->def->in[1], in[0]->def->in[0])
                 : NULL;
    case LANE_ABS: return ints ? NULL : fold_float(b, p, n, in);
    case LANE_SHL:
    case LANE_SHR: return fold_shift(b, p, in[0], has_c, bits);
    case LANE_BFE: return fold_bfe(b, p, in[0]);
    case LANE_PACK: return fold_pack(b, in[0], in[1]);
    case LANE_PRMT: return lane_fold_bytes(b, in);
    case LANE_SETP: return fold_setp(b, p, in[0], in[1], has_c, bits);
    case LANE_SELECT: return fold_select(b, p, in);
    case LANE_CVT: return fold_cvt(b, p, in[0]);
    case LANE_CVT2: return fold_cvt2(b, p, in);
    default: return NULL;
  }
}
