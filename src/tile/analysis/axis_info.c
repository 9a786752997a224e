/* What is known of integers, pointers and masks: Value.axis.
 *
 * Along each dim, on its own: the elements fall into runs of `contiguous`, each element one more than the last; the
 * first of each run is a multiple of `divisible`; they also fall into groups of `constant` equal elements. For pointers
 * one more means one element further, and divisible counts bytes. So
 *
 *     arange {start=0, end=64}                    divisible [2^30]  contiguous [64]  constant [1]
 *     splat %n, where %n is divisible by 16       divisible [16]    contiguous [1]   constant [64]
 *     their sum                                   divisible [16]    contiguous [64]  constant [1]
 *     sum < splat %m, %m divisible by 16          constant [16]: the mask changes only every 16 elements
 *
 * The idea is Triton's (lib/Analysis/AxisInfo.cpp). Two things are stricter here. A run may be cut into shorter ones of
 * c elements, and then its `divisible` holds for multiples of c only (starts()). And what truncating division does to a
 * run is known only when no element is negative, so that is tracked too (arguments are taken not to be). As in Triton,
 * index arithmetic is taken not to overflow, and all divisors are powers of two, which survive wrapping.
 *
 * Loops are solved by iteration from what their values start with: facts only get weaker, each iteration halves
 * something, and after a few iterations whatever still changes is taken to be unknown.
 */
#include "tile/tile.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The greatest power of two that divides v. */
static int64_t power_in(int64_t v) {
  uint64_t low = (uint64_t)v & (0 - (uint64_t)v);
  return low == 0 || low > (uint64_t)AXIS_INFO_MOST ? AXIS_INFO_MOST : (int64_t)low;
}

static int64_t times(int64_t a, int64_t b) { return a > AXIS_INFO_MOST / b ? AXIS_INFO_MOST : a * b; }

static int rank_of(const Type *t) { return t->rank ? t->rank : 1; }
static int64_t dim_of(const Type *t, int d) { return t->rank ? t->shape[d] : 1; }
static bool is_int(const Type *t) { return !t->ptr && dtype_is_int(t->dtype); }
static bool has_axis_info(const Type *t) { return t->ptr || dtype_is_int(t->dtype); }

/* How far apart in value neighbours of a run are. */
static int64_t unit_of(const Type *t) { return !t->ptr ? 1 : t->ptr > 1 ? 8 : dtype_bytes(t->dtype); }

static AxisInfo unknown(const Type *t) {
  AxisInfo f = {.non_negative = is_int(t) && !dtype_is_signed(t->dtype) ? SIGN_KNOWN : SIGN_UNKNOWN};
  for (int d = 0; d < MAX_RANK; d++) f.divisible[d] = f.contiguous[d] = f.constant[d] = 1;
  return f;
}

static AxisInfo axis_info_of(const Value *v) { return v->axis ? *v->axis : unknown(v->type); }

/* What divides the elements at multiples of c along dim d. */
static int64_t starts(const Type *t, const AxisInfo *f, int d, int64_t c) {
  int64_t run = f->contiguous[d];
  return c % run == 0 ? f->divisible[d] : gcd(f->divisible[d], power_in(gcd(c, run)) * power_in(unit_of(t)));
}

/* What divides all elements. */
static int64_t divides_all(const Type *t, const AxisInfo *f) {
  int64_t best = 1;
  for (int d = 0; d < rank_of(t); d++) best = most(best, starts(t, f, d, 1));
  return best;
}

static bool all_equal(const Type *t, const AxisInfo *f) {
  for (int d = 0; d < rank_of(t); d++)
    if (f->constant[d] != dim_of(t, d)) return false;
  return true;
}

/* Of a sum: one of the two moves. Of a quotient or remainder by what is one number there, as the operand: runs are
 * taken to be longer than a warp where they are cut at numbers that nobody knows (a pixel's row and column by the
 * width). */
static int mostly_sum(int a, int b) { return a == MOSTLY_EQUAL ? b : b == MOSTLY_EQUAL ? a : MOSTLY_FAR; }
static bool equal_mostly(const AxisInfo *x, const AxisInfo *y, int d) {
  return x->mostly[d] == MOSTLY_EQUAL && y->mostly[d] == MOSTLY_EQUAL;
}
static int mostly_same(int a, int b) { return a == b ? a : MOSTLY_FAR; }

/* What holds for both, of values of type t. */
static AxisInfo meet(const Type *t, const AxisInfo *a, const AxisInfo *b) {
  AxisInfo f = unknown(t);
  for (int d = 0; d < rank_of(t); d++) {
    int64_t c = f.contiguous[d] = gcd(a->contiguous[d], b->contiguous[d]);
    f.divisible[d] = least(starts(t, a, d, c), starts(t, b, d, c));
    f.constant[d] = gcd(a->constant[d], b->constant[d]);
    f.mostly[d] = (uint8_t)mostly_same(a->mostly[d], b->mostly[d]);
  }
  f.non_negative = (int)least(a->non_negative, b->non_negative);
  return f;
}

static int both(const AxisInfo *a, const AxisInfo *b) { return (int)least(a->non_negative, b->non_negative); }
static int either(const AxisInfo *a, const AxisInfo *b) { return (int)most(a->non_negative, b->non_negative); }
static void at_least(AxisInfo *f, int sign) { f->non_negative = (int)most(f->non_negative, sign); }
/* Where one of the two is enough: what the other is may still make sums and products overflow. */
static int either_alone(const AxisInfo *a, const AxisInfo *b) {
  return (int)least(either(a, b), most(both(a, b), SIGN_KNOWN));
}
/* Of a sum or a product, which wraps: of numbers from anywhere it may be negative. */
static int both_grown(const Type *t, const AxisInfo *a, const AxisInfo *b) {
  int sign = both(a, b);
  return sign == SIGN_INDEX && dtype_bits(t->dtype) >= 32 ? SIGN_INDEX : (int)least(sign, SIGN_ASSUMED);
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

static AxisInfo of_const(const Type *t, int64_t v) {
  AxisInfo f = unknown(t);
  for (int d = 0; d < rank_of(t); d++)
    f.divisible[d] = power_in(v), f.constant[d] = dim_of(t, d), f.mostly[d] = MOSTLY_EQUAL;
  if (v >= 0) f.non_negative = SIGN_INDEX;
  return f;
}

/* x + y, x - y, pointer + y. `scale`: bytes that one of y counts for. */
static AxisInfo of_sum(const Op *op, const AxisInfo *x, const AxisInfo *y, int64_t scale) {
  const Type *t = op->out[0]->type, *ty = op->in[1]->type;
  AxisInfo f = unknown(t);
  for (int d = 0; d < rank_of(t); d++) {
    int64_t c = gcd(x->contiguous[d], y->constant[d]);
    if (op->code != OP_SUB) c = most(c, gcd(x->constant[d], y->contiguous[d]));
    f.contiguous[d] = c;
    f.divisible[d] = least(starts(t, x, d, c), times(starts(ty, y, d, c), power_in(scale)));
    f.constant[d] = gcd(x->constant[d], y->constant[d]);
    int by = y->mostly[d];
    f.mostly[d] = (uint8_t)(op->code == OP_SUB && by != MOSTLY_EQUAL ? MOSTLY_FAR : mostly_sum(x->mostly[d], by));
  }
  if (op->code != OP_SUB) at_least(&f, both_grown(t, x, y));
  return f;
}

/* Whether x goes by one, times what is mostly one number, and no multiple of 16 as far as one sees. */
static bool goes_by_stride(const Type *t, const AxisInfo *x, const AxisInfo *y, int d) {
  return x->mostly[d] == MOSTLY_NEXT && y->mostly[d] == MOSTLY_EQUAL && starts(t, y, d, 1) < 16;
}

static AxisInfo of_product(const Type *t, const AxisInfo *x, const AxisInfo *y) {
  AxisInfo f = unknown(t);
  for (int d = 0; d < rank_of(t); d++) {
    f.divisible[d] = times(starts(t, x, d, 1), starts(t, y, d, 1));
    f.constant[d] = gcd(x->constant[d], y->constant[d]);
    if (equal_mostly(x, y, d)) f.mostly[d] = MOSTLY_EQUAL;
    else if (goes_by_stride(t, x, y, d) || goes_by_stride(t, y, x, d)) f.mostly[d] = MOSTLY_STRIDE;
  }
  at_least(&f, both_grown(t, x, y));
  return f;
}

/* x times a constant: what goes by one element goes by a few. */
static AxisInfo of_multiple(const Type *t, const AxisInfo *x, const AxisInfo *y, int64_t factor) {
  AxisInfo f = of_product(t, x, y);
  for (int d = 0; d < rank_of(t); d++)
    if (f.mostly[d] == MOSTLY_STRIDE) f.mostly[d] = factor >= 2 && factor <= 4 ? MOSTLY_NEAR : MOSTLY_ODD;
  return f;
}

/* Whether runs that y divides are mostly long. */
static bool cuts_seldom(const AxisInfo *y, int d, const int64_t *divisor) {
  return y->mostly[d] == MOSTLY_EQUAL && !(divisor && *divisor < 16);
}

/* x / y. A run that starts at a multiple of g and is divided by multiples of g stays equal for g elements: 8..11 / 4.
 * That is so for flooring division (shr), and for truncating division of what is not negative. */
static AxisInfo of_quotient(const Type *t, const AxisInfo *x, const AxisInfo *y, bool floors, const int64_t *divisor) {
  AxisInfo f = unknown(t);
  for (int d = 0; d < rank_of(t); d++) {
    f.constant[d] = gcd(x->constant[d], y->constant[d]);
    if (floors || x->non_negative) {
      int64_t g = gcd(gcd(x->contiguous[d], y->constant[d]), least(x->divisible[d], starts(t, y, d, 1)));
      f.constant[d] = most(f.constant[d], g);
    }
    bool stays = x->mostly[d] != MOSTLY_FAR && x->mostly[d] < MOSTLY_ODD && cuts_seldom(y, d, divisor);
    if (stays) f.mostly[d] = MOSTLY_EQUAL;
    else if (divisor && *divisor > 0) f.mostly[d] = x->mostly[d]; /* by one or not at all */
    int64_t all = starts(t, x, d, 1);
    if (divisor && *divisor > 0 && (*divisor & (*divisor - 1)) == 0 && all >= *divisor) f.divisible[d] = all / *divisor;
  }
  at_least(&f, both(x, y));
  /* a divisor is a number of tiles, groups, heads */
  if (x->non_negative && !(divisor && *divisor < 0)) at_least(&f, SIGN_ASSUMED);
  return f;
}

/* x % y: within such a run the remainders count up. */
static AxisInfo of_remainder(const Type *t, const AxisInfo *x, const AxisInfo *y, bool floors, const int64_t *divisor) {
  AxisInfo f = unknown(t);
  for (int d = 0; d < rank_of(t); d++) {
    int64_t first = starts(t, y, d, 1), g = 1;
    if (floors || x->non_negative) g = gcd(gcd(x->contiguous[d], y->constant[d]), least(x->divisible[d], first));
    f.contiguous[d] = g;
    f.divisible[d] = least(starts(t, x, d, g), first);
    f.constant[d] = gcd(x->constant[d], y->constant[d]);
    if (cuts_seldom(y, d, divisor)) f.mostly[d] = x->mostly[d];
  }
  at_least(&f, x->non_negative);
  return f;
}

static AxisInfo of_bits(const Op *op, const AxisInfo *x, const AxisInfo *y) {
  const Type *t = op->out[0]->type;
  AxisInfo f = unknown(t);
  for (int d = 0; d < rank_of(t); d++) {
    int64_t a = starts(t, x, d, 1), b = starts(t, y, d, 1);
    f.divisible[d] = op->code == OP_AND ? most(a, b) : least(a, b);
    f.constant[d] = gcd(x->constant[d], y->constant[d]);
  }
  at_least(&f, op->code == OP_AND ? either_alone(x, y) : both(x, y));
  return f;
}

/* x < y with x in runs and y equal over them: when runs start, and y changes, at multiples of g only, all of g elements
 * are below y or none is. */
static int64_t equal_results(const Type *t, const AxisInfo *runs, const AxisInfo *bound, int d) {
  return gcd(gcd(runs->contiguous[d], bound->constant[d]), least(runs->divisible[d], starts(t, bound, d, 1)));
}

static AxisInfo of_cmp(const Op *op, const AxisInfo *x, const AxisInfo *y) {
  const Type *t = op->in[0]->type;
  AxisInfo f = unknown(op->out[0]->type);
  CmpPred p = (CmpPred)op->pred;
  for (int d = 0; d < rank_of(t); d++) {
    f.constant[d] = gcd(x->constant[d], y->constant[d]);
    if (t->ptr) continue;
    if (p == CMP_LT || p == CMP_GE) f.constant[d] = most(f.constant[d], equal_results(t, x, y, d));
    if (p == CMP_GT || p == CMP_LE) f.constant[d] = most(f.constant[d], equal_results(t, y, x, d));
  }
  return f;
}

static AxisInfo of_select(const Op *op, const AxisInfo *cond, const AxisInfo *x, const AxisInfo *y) {
  const Type *t = op->out[0]->type;
  AxisInfo f = unknown(t);
  for (int d = 0; d < rank_of(t); d++) {
    int64_t c = f.contiguous[d] = gcd(gcd(x->contiguous[d], y->contiguous[d]), cond->constant[d]);
    f.divisible[d] = least(starts(t, x, d, c), starts(t, y, d, c));
    f.constant[d] = gcd(gcd(x->constant[d], y->constant[d]), cond->constant[d]);
    f.mostly[d] = (uint8_t)mostly_same(x->mostly[d], y->mostly[d]);
  }
  f.non_negative = both(x, y);
  return f;
}

static AxisInfo of_extreme(const Op *op, const AxisInfo *x, const AxisInfo *y) { /* min, max */
  const Type *t = op->out[0]->type;
  AxisInfo f = unknown(t);
  for (int d = 0; d < rank_of(t); d++) {
    f.divisible[d] = least(starts(t, x, d, 1), starts(t, y, d, 1));
    f.constant[d] = gcd(x->constant[d], y->constant[d]);
    f.mostly[d] = (uint8_t)mostly_sum(x->mostly[d], y->mostly[d]); /* clamped at its ends */
  }
  at_least(&f, op->code == OP_MAX ? either_alone(x, y) : both(x, y));
  return f;
}

static AxisInfo of_convert(const Op *op, const AxisInfo *x) {
  const Type *from = op->in[0]->type, *to = op->out[0]->type;
  AxisInfo f = unknown(to);
  if (!has_axis_info(from)) return f;
  if (!from->ptr && !to->ptr && to->dtype == DT_I1) {
    for (int d = 0; d < rank_of(to); d++) f.constant[d] = x->constant[d];
    return f;
  }
  bool kept = unit_of(from) == unit_of(to);
  bool widens = is_int(from) && is_int(to) && dtype_bits(to->dtype) > dtype_bits(from->dtype);
  bool keeps_sign = widens || (is_int(from) && dtype_is_signed(from->dtype) && is_int(to) &&
                               dtype_bits(to->dtype) == dtype_bits(from->dtype));
  if (keeps_sign) at_least(&f, x->non_negative);
  for (int d = 0; d < rank_of(to); d++) {
    f.contiguous[d] = kept ? x->contiguous[d] : 1;
    f.divisible[d] = starts(from, x, d, f.contiguous[d]);
    f.constant[d] = x->constant[d];
    if (kept) f.mostly[d] = x->mostly[d];
  }
  return f;
}

static AxisInfo of_elementwise(const Op *op) {
  const Type *t = op->out[0]->type;
  AxisInfo x = axis_info_of(op->in[0]), y = op->in_count > 1 ? axis_info_of(op->in[1]) : x, z;
  int64_t c;
  bool known = op->in_count > 1 && value_is_const(op->in[1], &c);
  AxisInfo power;
  switch (op->code) {
    case OP_ADD:
    case OP_SUB: return of_sum(op, &x, &y, 1);
    case OP_ADDPTR: return of_sum(op, &x, &y, unit_of(t));
    case OP_MUL:
      if (known) return of_multiple(t, &x, &y, c);
      return value_is_const(op->in[0], &c) ? of_multiple(t, &y, &x, c) : of_product(t, &x, &y);
    case OP_DIV: return of_quotient(t, &x, &y, false, known ? &c : NULL);
    case OP_REM: return of_remainder(t, &x, &y, false, known ? &c : NULL);
    case OP_SHL:
    case OP_SHR:
      if (!known || c < 0 || c >= 63) break;
      c = (int64_t)1 << c;
      power = of_const(t, c);
      power.non_negative = SIGN_INDEX;
      return op->code == OP_SHL ? of_multiple(t, &x, &power, c) : of_quotient(t, &x, &power, true, &c);
    case OP_AND:
      if (known && c > 0 && c < INT64_MAX && (c & (c + 1)) == 0) { /* a mask of low bits: % 2^n, flooring */
        c++;
        power = of_const(t, c);
        AxisInfo f = of_remainder(t, &x, &power, true, &c);
        f.non_negative = (int)most(SIGN_KNOWN, x.non_negative);
        return f;
      }
      return of_bits(op, &x, &y);
    case OP_OR:
    case OP_XOR: return of_bits(op, &x, &y);
    case OP_MIN:
    case OP_MAX: return of_extreme(op, &x, &y);
    case OP_CMP: return of_cmp(op, &x, &y);
    case OP_SELECT: z = axis_info_of(op->in[2]); return of_select(op, &x, &y, &z);
    case OP_CONVERT:
    case OP_BITCAST: return of_convert(op, &x);
    default: break;
  }
  /* Not, neg, abs, mulhi ...: equal operands give equal results; -x is as divisible as x. */
  AxisInfo f = unknown(t);
  for (int d = 0; d < rank_of(t); d++) {
    f.constant[d] = x.constant[d];
    for (int i = 1; i < op->in_count; i++) {
      z = axis_info_of(op->in[i]);
      f.constant[d] = gcd(f.constant[d], z.constant[d]);
    }
    if (op->code == OP_NEG || op->code == OP_ABS) f.divisible[d] = starts(t, &x, d, 1);
  }
  if (op->code == OP_ABS) at_least(&f, SIGN_ASSUMED); /* the least number has no positive one */
  return f;
}

/* ---- shape ------------------------------------------------------------------------------------------------------- */

static AxisInfo of_uniform(const Type *t, const AxisInfo *x, int64_t divisible) {
  AxisInfo f = unknown(t);
  for (int d = 0; d < rank_of(t); d++)
    f.divisible[d] = divisible, f.constant[d] = dim_of(t, d), f.mostly[d] = MOSTLY_EQUAL;
  f.non_negative = x->non_negative;
  return f;
}

/* Row-major. The last dim keeps runs and groups that fit into the new last dim; dims of size 1 may come and go; of
 * other dims only what holds for all elements. */
static AxisInfo of_reshape(const Op *op, const AxisInfo *x) {
  const Type *from = op->in[0]->type, *to = op->out[0]->type;
  int64_t all = divides_all(from, x);
  if (all_equal(from, x)) return of_uniform(to, x, all);
  AxisInfo f = unknown(to);
  f.non_negative = x->non_negative;
  for (int d = 0; d < rank_of(to); d++) f.divisible[d] = all;
  if (op->reorder) return f; /* in any order */
  int i = from->rank - 1, d = to->rank - 1;
  for (;; i--, d--) { /* from the last dim on, those that are kept as they are */
    while (d >= 0 && to->shape[d] == 1) d--;
    while (i >= 0 && from->shape[i] == 1) i--;
    if (i < 0 || d < 0 || from->shape[i] != to->shape[d]) break;
    f.divisible[d] = x->divisible[i], f.contiguous[d] = x->contiguous[i], f.constant[d] = x->constant[i];
    f.mostly[d] = x->mostly[i];
  }
  if (i < 0 || d < 0) return f;
  int64_t c = f.contiguous[d] = gcd(x->contiguous[i], to->shape[d]);
  f.divisible[d] = most(all, starts(from, x, i, c));
  f.constant[d] = gcd(x->constant[i], to->shape[d]);
  f.mostly[d] = x->mostly[i];
  return f;
}

static AxisInfo of_shape(const Op *op, int result) {
  const Type *from = op->in[0]->type, *to = op->out[result]->type;
  AxisInfo x = axis_info_of(op->in[0]), f = unknown(to), y;
  int64_t all = divides_all(from, &x);
  f.non_negative = x.non_negative;
  switch (op->code) {
    case OP_SPLAT: return of_uniform(to, &x, x.divisible[0]);
    case OP_BROADCAST:
      for (int d = 0; d < to->rank; d++) {
        bool grows = from->shape[d] != to->shape[d];
        f.divisible[d] = x.divisible[d];
        f.contiguous[d] = grows ? 1 : x.contiguous[d];
        f.constant[d] = grows ? to->shape[d] : x.constant[d];
        f.mostly[d] = grows ? MOSTLY_EQUAL : x.mostly[d];
      }
      return f;
    case OP_EXPAND_DIMS: {
      int axis = (int)op->axis;
      for (int d = 0; d < to->rank; d++) {
        int i = d - (d > axis);
        f.divisible[d] = d == axis ? all : x.divisible[i];
        f.contiguous[d] = d == axis ? 1 : x.contiguous[i];
        f.constant[d] = d == axis ? 1 : x.constant[i];
        f.mostly[d] = d == axis ? MOSTLY_EQUAL : x.mostly[i];
      }
      return f;
    }
    case OP_RESHAPE: return of_reshape(op, &x);
    case OP_TRANS:
      for (int d = 0; d < to->rank; d++) {
        int i = (int)op->dims[d];
        f.divisible[d] = x.divisible[i], f.contiguous[d] = x.contiguous[i], f.constant[d] = x.constant[i];
        f.mostly[d] = x.mostly[i];
      }
      return f;
    case OP_SPLIT:
      if (!to->rank) return f.divisible[0] = all, f;
      for (int d = 0; d < to->rank; d++)
        f.divisible[d] = x.divisible[d], f.contiguous[d] = x.contiguous[d], f.constant[d] = x.constant[d];
      return f;
    case OP_JOIN:
      y = axis_info_of(op->in[1]);
      for (int d = 0; d < from->rank; d++) {
        int64_t c = f.contiguous[d] = gcd(x.contiguous[d], y.contiguous[d]);
        f.divisible[d] = least(starts(from, &x, d, c), starts(from, &y, d, c));
        f.constant[d] = gcd(x.constant[d], y.constant[d]);
      }
      f.divisible[from->rank] = least(all, divides_all(from, &y));
      f.non_negative = both(&x, &y);
      return f;
    case OP_CAT:
      y = axis_info_of(op->in[1]);
      f = meet(to, &x, &y);
      return f;
    default: /* gather: any of the elements */
      for (int d = 0; d < to->rank; d++) f.divisible[d] = all, f.constant[d] = all_equal(from, &x) ? to->shape[d] : 1;
      return f;
  }
}

static AxisInfo of_hint(const Op *op) {
  const Type *t = op->out[0]->type;
  AxisInfo f = axis_info_of(op->in[0]);
  for (int d = 0; d < rank_of(t) && d < op->dim_count; d++) {
    int64_t v = op->dims[d], dim = dim_of(t, d);
    if (op->kind == HINT_DIVISIBLE) {
      f.divisible[d] = most(f.divisible[d], power_in(v));
    } else if (op->kind == HINT_CONTIGUOUS) {
      v = gcd(v, dim);
      if (v <= f.contiguous[d]) continue;
      f.divisible[d] = starts(t, &f, d, v);
      f.contiguous[d] = v;
      if (v == dim) f.mostly[d] = MOSTLY_NEXT;
    } else {
      f.constant[d] = most(f.constant[d], gcd(v, dim));
      if (f.constant[d] == dim) f.mostly[d] = MOSTLY_EQUAL;
    }
  }
  return f;
}

/* Equal addresses, equal masks: equal values. */
static AxisInfo of_load(const Op *op) {
  const Type *t = op->out[0]->type;
  AxisInfo f = unknown(t);
  if (op_is_volatile(op)) return f; /* two reads may differ */
  for (int d = 0; d < rank_of(t); d++) {
    int64_t c = dim_of(t, d);
    for (int i = 0; i < op->in_count; i++) {
      AxisInfo x = axis_info_of(op->in[i]);
      bool constant = op->in[i]->def && op->in[i]->def->code == OP_CONST; /* also of floats, which have no facts */
      if (!constant) c = gcd(c, x.constant[d]);
    }
    f.constant[d] = c;
  }
  return f;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

enum { MAX_ITERATIONS = 6, MAX_NESTED = 4 };

typedef struct Walker {
  Func *func;
  int loops; /* around the current place; in deep nests, iterating each loop anew would take too long */
} Walker;

static int iterations_allowed(const Walker *w) { return w->loops > MAX_NESTED ? 1 : MAX_ITERATIONS; }

static void visit_block(Walker *w, Block *b);

static void set(Walker *w, Value *v, AxisInfo f) {
  if (!has_axis_info(v->type)) return;
  if (!v->axis) v->axis = NEW(w->func->cx->arena, AxisInfo);
  *v->axis = f;
}

static void set_unknown(Walker *w, Value *v) { set(w, v, unknown(v->type)); }

/* Weakens v's facts by those of `other`; true when that changed something. */
static bool weaken(Walker *w, Value *v, const Value *other) {
  if (!has_axis_info(v->type)) return false;
  AxisInfo before = *v->axis, theirs = axis_info_of(other), after = meet(v->type, &before, &theirs);
  bool same = before.non_negative == after.non_negative;
  for (int d = 0; d < rank_of(v->type); d++)
    same = same && before.divisible[d] == after.divisible[d] && before.contiguous[d] == after.contiguous[d] &&
           before.constant[d] == after.constant[d];
  *v->axis = after;
  return !same;
}

static AxisInfo of_counter(const Op *op) {
  AxisInfo low = axis_info_of(op->in[0]), step = axis_info_of(op->in[2]), f = unknown(op->in[0]->type);
  int64_t by, end;
  bool down = value_is_const(op->in[2], &by) && by < 0;
  AxisInfo high = axis_info_of(op->in[1]);
  if (down && value_is_const(op->in[1], &end) && end == -1) /* it stays above */
    high.non_negative = (int)most(low.non_negative, SIGN_KNOWN);
  f.divisible[0] = least(low.divisible[0], step.divisible[0]);
  at_least(&f, down ? high.non_negative : low.non_negative);
  return f;
}

static void visit_for(Walker *w, Op *op) {
  Block *body = op->body[0];
  set(w, body->args[0], of_counter(op));
  for (int i = 0; i < op->out_count; i++) set(w, body->args[i + 1], axis_info_of(op->in[i + 3]));
  for (int iteration = 0;; iteration++) {
    bool changed = false;
    visit_block(w, body);
    for (int i = 0; i < op->out_count; i++) {
      bool moved = weaken(w, body->args[i + 1], body->last->in[i]);
      if (moved && iteration + 1 >= iterations_allowed(w)) set_unknown(w, body->args[i + 1]);
      changed = changed || moved;
    }
    if (!changed) break;
  }
  for (int i = 0; i < op->out_count; i++) set(w, op->out[i], axis_info_of(body->args[i + 1]));
}

static void visit_while(Walker *w, Op *op) {
  Op *condition = op->body[0]->last, *yield = op->body[1]->last;
  for (int i = 0; i < op->out_count; i++) set(w, op->body[0]->args[i], axis_info_of(op->in[i]));
  for (int iteration = 0;; iteration++) {
    bool changed = false;
    visit_block(w, op->body[0]);
    for (int i = 0; i < op->out_count; i++) set(w, op->body[1]->args[i], axis_info_of(condition->in[i + 1]));
    visit_block(w, op->body[1]);
    for (int i = 0; i < op->out_count; i++) {
      bool moved = weaken(w, op->body[0]->args[i], yield->in[i]);
      if (moved && iteration + 1 >= iterations_allowed(w)) set_unknown(w, op->body[0]->args[i]);
      changed = changed || moved;
    }
    if (!changed) break;
  }
  for (int i = 0; i < op->out_count; i++) set(w, op->out[i], axis_info_of(condition->in[i + 1]));
}

static void visit_op(Walker *w, Op *op) {
  switch (op->code) {
    case OP_FOR:
    case OP_WHILE:
      w->loops++;
      if (op->code == OP_FOR) visit_for(w, op);
      else visit_while(w, op);
      w->loops--;
      return;
    case OP_IF:
      for (int i = 0; i < 2; i++) visit_block(w, op->body[i]);
      for (int i = 0; i < op->out_count; i++) {
        set(w, op->out[i], axis_info_of(op->body[0]->last->in[i]));
        weaken(w, op->out[i], op->body[1]->last->in[i]);
      }
      return;
    default: break;
  }
  for (int i = 0; i < 2; i++) /* reduce, scan, map: any elements may come in */
    if (op->body[i]) {
      for (int k = 0; k < op->body[i]->arg_count; k++) set_unknown(w, op->body[i]->args[k]);
      visit_block(w, op->body[i]);
    }
  for (int i = 0; i < op->out_count; i++) {
    const Type *t = op->out[i]->type;
    if (!has_axis_info(t)) continue;
    AxisInfo f = unknown(t);
    if (op->code == OP_CONST) f = of_const(t, op->value);
    else if (op->code == OP_PROGRAM_ID || op->code == OP_NUM_PROGRAMS || op->code == OP_HISTOGRAM)
      f.non_negative = op->code == OP_HISTOGRAM ? SIGN_KNOWN : SIGN_INDEX;
    else if (op->code == OP_ARANGE) {
      f.divisible[0] = power_in(op->start);
      f.contiguous[0] = t->shape[0];
      f.mostly[0] = MOSTLY_NEXT;
      if (op->start >= 0) f.non_negative = SIGN_INDEX;
    } else if (op_info[op->code].group == GROUP_SHAPE) f = of_shape(op, i);
    else if (op_is_elementwise(op)) f = of_elementwise(op);
    else if (op->code == OP_HINT) f = of_hint(op);
    else if (op->code == OP_CONVERT_LAYOUT) f = axis_info_of(op->in[0]);
    else if (op->code == OP_LOAD) f = of_load(op);
    set(w, op->out[i], f);
  }
}

static void visit_block(Walker *w, Block *b) {
  stack_guard();
  for (Op *op = b->first; op; op = op->next) visit_op(w, op);
}

void tile_axis_info(Func *f) {
  tile_replace_uses(f);
  Walker w = {.func = f};
  for (int i = 0; i < f->body->arg_count; i++) {
    Value *arg = f->body->args[i];
    AxisInfo known = unknown(arg->type);
    known.divisible[0] = power_in(f->arg_divisible[i]);
    if (is_int(arg->type)) at_least(&known, SIGN_ASSUMED);
    set(&w, arg, known);
  }
  visit_block(&w, f->body);
}

/* ---- hints go once the facts say what they said ------------------------------------------------------------------ */

/* Whether all that runs at the hint's place also holds where the value is defined: only bodies of loops lie between. */
static bool speaks_for(const Op *hint, const Value *v) {
  for (const Block *b = hint->block; b != value_block(v); b = b->parent->block)
    if (!b->parent || (b->parent->code != OP_FOR && b->parent->code != OP_WHILE)) return false;
  return true;
}

/* Adds what `more` says; of two lengths of runs the longer stays. */
static void strengthen(const Type *t, AxisInfo *f, const AxisInfo *more) {
  for (int d = 0; d < rank_of(t); d++) {
    if (more->contiguous[d] > f->contiguous[d])
      f->contiguous[d] = more->contiguous[d], f->divisible[d] = more->divisible[d];
    else if (more->contiguous[d] == f->contiguous[d]) f->divisible[d] = most(f->divisible[d], more->divisible[d]);
    f->constant[d] = most(f->constant[d], more->constant[d]);
  }
  at_least(f, more->non_negative);
}

static void drop_hint(Op *op, void *arg) {
  if (op->code == OP_ASSUME) {
    op_remove(op);
    return;
  }
  if (op->code != OP_HINT) return;
  Value *x = value_replacement(op->in[0]), *hinted = op->out[0];
  if (x->axis && hinted->axis) {
    if (!speaks_for(op, x)) return; /* the facts would be lost; back ends pass a hint's operand through */
    strengthen(x->type, x->axis, hinted->axis);
  }
  if (!x->name) x->name = hinted->name;
  value_replace(hinted, x);
  op_remove(op);
}

void tile_drop_hints(Func *f) {
  tile_walk(f->body, drop_hint, f);
  tile_replace_uses(f);
}
