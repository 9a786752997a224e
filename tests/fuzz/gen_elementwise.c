/* gen_elementwise: operations on elements: arithmetic, comparisons, casts, where, math functions, random numbers. See
 * gen.h. */
#include "gen.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One side of an operation: a value of the pool, or a number as it stands in the text. */
typedef struct Operand {
  Val v;
  bool is_number;
  char text[40];
} Operand;

static Operand operand(const Val *v) {
  Operand o = {.v = *v};
  snprintf(o.text, sizeof o.text, "%s", v->name);
  return o;
}

static Operand number_int(Gen *g, int64_t lo, int64_t hi) {
  Operand o = {.is_number = true};
  int64_t n = draw_between(g, lo, hi);
  o.v = scalar_int(n > INT32_MAX ? NEREID_U32 : NEREID_I32, n, n);
  snprintf(o.text, sizeof o.text, chance(g, 10) && n >= 0 ? "0x%lx" : "%ld", (long)n);
  return o;
}

static Operand number_float(Gen *g) {
  Operand o = {.is_number = true};
  int step = -(int)draw(g, 4), k = (int)draw_between(g, -12, 12);
  double f = ldexp(k, step);
  o.v = (Val){.t = NEREID_F32, .flo = f, .fhi = f, .step = step};
  snprintf(o.text, sizeof o.text, f == floor(f) ? "%.1f" : "%g", f);
  return o;
}

/* Two operands that broadcast: values, or a value and a number. The shape goes to *shape. False: nothing fits. */
static bool two(Gen *g, int want, Operand *x, Operand *y, Val *shape, bool floats_for_ints) {
  Val *a = pick(g, want);
  if (!a) return false;
  *x = operand(a);
  Val *b = chance(g, 70) ? pick_with(g, a, want) : NULL;
  if (b) *y = operand(b);
  else if (is_float(a->t) || (floats_for_ints && chance(g, 10)))
    *y = is_float(a->t) && chance(g, 30) ? number_int(g, -5, 5) : number_float(g);
  else
    *y = number_int(g, a->t == NEREID_I1 || !is_signed(a->t) ? 0 : -100,
                    chance(g, 90)       ? 100
                    : a->t == NEREID_I1 ? 1
                                        : 120);
  if (chance(g, 25)) {
    Operand keep = *x;
    *x = *y, *y = keep;
  }
  *shape = (Val){0};
  return broadcast_shape(&x->v, &y->v, shape);
}

/* What a dot's sum loses where the other number is its first term; tensor cores lose four units, as in make_dot. */
static double lost_terms(const Val *r, const Val *a, const Val *b) {
  int terms = a->terms > b->terms ? a->terms : b->terms;
  double most = val_max(a) + val_max(b);
  return !terms || exact_in(4 * most, r->step, r->t) ? 0 : (terms / 4.0 + 6) * 4 * unit(r->t) * most;
}

static bool add_floats(Val *r, const Val *a, const Val *b, bool minus) {
  r->flo = minus ? a->flo - b->fhi : a->flo + b->flo;
  r->fhi = minus ? a->fhi - b->flo : a->fhi + b->fhi;
  r->err = a->err + b->err;
  r->step = a->step == NO_STEP || b->step == NO_STEP ? NO_STEP : a->step < b->step ? a->step : b->step;
  r->err += lost_terms(r, a, b);
  r->terms = 0;
  r->special = a->special || b->special;
  if (r->special && r->err > 0) return false;
  return float_result(r, false);
}

/* A product may be left unrounded where a sum takes it (a fused multiply-add): so it differs by a rounding, unless it
 * is exact. */
static bool multiply_floats(Val *r, const Val *a, const Val *b) {
  double p[4] = {a->flo * b->flo, a->flo * b->fhi, a->fhi * b->flo, a->fhi * b->fhi};
  if (a->special || b->special) return false;
  r->flo = fmin(fmin(p[0], p[1]), fmin(p[2], p[3])), r->fhi = fmax(fmax(p[0], p[1]), fmax(p[2], p[3]));
  r->err = val_max(a) * b->err + val_max(b) * a->err + a->err * b->err;
  r->step = a->step == NO_STEP || b->step == NO_STEP ? NO_STEP : a->step + b->step;
  r->terms = 0;
  r->special = false;
  return float_result(r, true);
}

static bool arithmetic(Gen *g) {
  Operand x, y;
  Val r;
  char op = "++--**"[draw(g, 6)];
  if (!two(g, WANT_INT | WANT_FLOAT | (chance(g, 20) ? WANT_BOOL : 0), &x, &y, &r, true)) return false;
  Val a, b;
  if (!promote(&x.v, x.is_number, &y.v, y.is_number, true, false, &r.t)) return false;
  if (!cast_val(&x.v, r.t, &a) || !cast_val(&y.v, r.t, &b)) return false;
  if (is_float(r.t)) {
    if (!(op == '*' ? multiply_floats(&r, &a, &b) : add_floats(&r, &a, &b, op == '-'))) return false;
  } else if (op == '*') {
    if (val_max(&a) * val_max(&b) < 1e35) {
      Int p[4] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi}, lo = p[0], hi = p[0];
      for (int i = 1; i < 4; i++) lo = p[i] < lo ? p[i] : lo, hi = p[i] > hi ? p[i] : hi;
      set_int_range(&r, lo, hi);
    } else {
      set_int_range(&r, int_min(r.t), int_max(r.t));
    }
  } else {
    set_int_range(&r, op == '+' ? a.lo + b.lo : a.lo - b.hi, op == '+' ? a.hi + b.hi : a.hi - b.lo);
  }
  emit(g, r, "%s %c %s", x.text, op, y.text);
  return true;
}

/* a / b with b away from zero. */
static bool float_division(Gen *g) {
  Val *x = pick(g, WANT_FLOAT | WANT_INT | WANT_FINITE);
  Val *y = x ? pick_with(g, x, WANT_FLOAT | WANT_INT | WANT_FINITE) : NULL;
  Val r = {0}, a, b;
  if (!x || !y || !broadcast_shape(x, y, &r)) return false;
  if (!is_float(x->t) && !is_float(y->t) && is_signed(x->t) != is_signed(y->t)) return false;
  char divisor[80];
  Val d = *y;
  if (is_float(y->t)) { /* 0.5 + |y| keeps y's type */
    snprintf(divisor, sizeof divisor, "(tl.abs(%s) + 0.5)", y->name);
    d.flo = 0.5, d.fhi = val_max(y) + 0.5, d.fhi *= 1.01, d.err = y->err > 0 ? y->err + 2 * unit(y->t) * d.fhi : 0;
    d.step = y->step == NO_STEP ? NO_STEP : y->step < -1 ? y->step : -1;
    if (d.fhi > float_max(y->t) / 4) return false;
  } else {
    snprintf(divisor, sizeof divisor, "((%s & 15) + 1)", y->name);
    if (width(y->t) < 8) return false;
    d.lo = 1, d.hi = 16;
  }
  nereid_dtype t;
  if (!promote(x, false, &d, false, true, true, &t)) return false;
  r.t = is_float(t) ? t : NEREID_F32;
  if (!cast_val(x, r.t, &a) || !cast_val(&d, r.t, &b)) return false;
  double least = b.flo - b.err;
  if (least <= 0.4) return false;
  r.flo = -val_max(&a) / least, r.fhi = -r.flo;
  r.err = a.err / least + val_max(&a) * b.err / (least * least);
  r.step = NO_STEP;
  /* rounded correctly, while `/` may be off by 2 ulp */
  if (x->t == NEREID_F32 && y->t == NEREID_F32 && chance(g, 40)) {
    if (!float_result(&r, r.err > 0)) return false;
    emit(g, r, "tl.div_rn(%s, %s)", x->name, divisor);
    return true;
  }
  if (!float_result(&r, true)) return false;
  r.err *= 3;
  emit(g, r, "%s / %s", x->name, divisor);
  return true;
}

static bool int_division(Gen *g) {
  Val *x = pick(g, WANT_INT);
  if (!x) return false;
  Val r = {0};
  char divisor[100];
  Val d;
  bool number = chance(g, 40);
  if (number) {
    int64_t most = (int64_t)(int_max(x->t) < 1000 ? int_max(x->t) : 1000);
    int64_t n = chance(g, 40) ? (int64_t)1 << draw(g, 6) : draw_between(g, 1, most);
    if (n > most) n = most;
    if (is_signed(x->t) && chance(g, 20) && n > 1) n = -n;
    d = scalar_int(NEREID_I32, n, n);
    snprintf(divisor, sizeof divisor, "%ld", (long)n);
    set_shape(&r, x->rank, x->shape);
    r.t = x->t;
  } else {
    Val *y = pick_with(g, x, WANT_INT);
    if (!y || is_signed(x->t) != is_signed(y->t) || !broadcast_shape(x, y, &r)) return false;
    d = *y;
    if (chance(g, 50)) { /* a divisor of zero never reaches the result */
      snprintf(divisor, sizeof divisor, "tl.where(%s > 0, %s, 3)", y->name, y->name);
      d.lo = 1, d.hi = int_max(y->t);
    } else {
      snprintf(divisor, sizeof divisor, "((%s & 31) + 1)", y->name);
      d.lo = 1, d.hi = 32;
    }
    if (!promote(x, false, y, false, true, false, &r.t)) return false;
  }
  bool remainder = chance(g, 50);
  if (remainder) {
    Int most = (d.hi > -d.lo ? d.hi : -d.lo) - 1;
    set_int_range(&r, x->lo < 0 ? -most : 0, most);
  } else {
    Int most = x->hi > -x->lo ? x->hi : -x->lo;
    set_int_range(&r, is_signed(r.t) ? -most : 0, most);
  }
  emit(g, r, "%s %s %s", x->name, remainder ? "%" : "//", divisor);
  return true;
}

static bool bits(Gen *g) {
  Operand x, y;
  Val r;
  if (!two(g, WANT_INT | WANT_BOOL, &x, &y, &r, false)) return false;
  if (!promote(&x.v, x.is_number, &y.v, y.is_number, true, false, &r.t) || is_float(r.t)) return false;
  Val a, b;
  if (!cast_val(&x.v, r.t, &a) || !cast_val(&y.v, r.t, &b)) return false;
  char op = "&|^&"[draw(g, 4)];
  set_int_range(&r, int_min(r.t), int_max(r.t));
  if (a.lo >= 0 && b.lo >= 0) {
    Int least = a.hi < b.hi ? a.hi : b.hi, most = a.hi > b.hi ? a.hi : b.hi, top = 1;
    while (top <= most) top *= 2;
    set_int_range(&r, 0, op == '&' ? least : top - 1);
  } else if (op == '&' && (a.lo >= 0 || b.lo >= 0)) {
    set_int_range(&r, 0, a.lo >= 0 ? a.hi : b.hi);
  }
  if (chance(g, 15)) {
    set_int_range(&r, int_min(r.t), int_max(r.t));
    emit(g, r, "~(%s %c %s)", x.text, op, y.text);
  } else {
    emit(g, r, "%s %c %s", x.text, op, y.text);
  }
  return true;
}

static bool shifts(Gen *g) {
  Val *x = pick(g, WANT_INT), r = {0};
  if (!x) return false;
  bool left = chance(g, 50);
  if (chance(g, 50)) {
    int n = (int)draw(g, (uint32_t)width(x->t));
    r = *x;
    if (left) {
      if (val_max(x) < 1e18 && n < 60) set_int_range(&r, x->lo * ((Int)1 << n), x->hi * ((Int)1 << n));
      else set_int_range(&r, int_min(r.t), int_max(r.t));
    } else {
      set_int_range(&r, x->lo >> n, x->hi >> n);
    }
    emit(g, r, "%s %s %d", x->name, left ? "<<" : ">>", n);
    return true;
  }
  Val *y = pick_with(g, x, WANT_INT);
  if (!y || !broadcast_shape(x, y, &r) || !promote(x, false, y, false, true, false, &r.t)) return false;
  set_int_range(&r, int_min(r.t), int_max(r.t));
  emit(g, r, "%s %s (%s & %d)", x->name, left ? "<<" : ">>", y->name, width(x->t) - 1);
  return true;
}

static bool comparison(Gen *g) {
  static const char *const ops[] = {"==", "!=", "<", "<=", ">", ">="};
  Operand x, y;
  Val r;
  if (!two(g, WANT_INT | WANT_FLOAT | WANT_EXACT | (chance(g, 20) ? WANT_BOOL : 0), &x, &y, &r, true)) return false;
  nereid_dtype t;
  Val a, b;
  if (!promote(&x.v, false, &y.v, false, false, false, &t) || !cast_val(&x.v, t, &a) || !cast_val(&y.v, t, &b))
    return false;
  r.t = NEREID_I1, r.lo = 0, r.hi = 1;
  emit(g, r, "%s %s %s", x.text, ops[draw(g, 6)], y.text);
  return true;
}

static bool unary(Gen *g) {
  Val *x = pick(g, WANT_ANY & ~WANT_FP8), r;
  if (!x) return false;
  r = *x, r.fresh = false;
  int which = (int)draw(g, 3);
  if (which == 0) {
    if (x->t == NEREID_I1) return emit(g, r, chance(g, 50) ? "~%s" : x->rank ? "~%s" : "not %s", x->name), true;
    if (is_float(x->t)) r.flo = -x->fhi, r.fhi = -x->flo, r.fresh = x->fresh;
    else set_int_range(&r, -x->hi, -x->lo);
    emit(g, r, "-%s", x->name);
  } else if (which == 1 && !is_float(x->t)) {
    set_int_range(&r, -1 - x->hi, -1 - x->lo);
    emit(g, r, "~%s", x->name);
  } else {
    if (x->t == NEREID_I1) return false;
    if (is_float(x->t)) r.fhi = val_max(x), r.flo = 0, r.fresh = x->fresh;
    else {
      Int most = x->hi > -x->lo ? x->hi : -x->lo;
      set_int_range(&r, 0, most);
    }
    emit(g, r, chance(g, 30) ? "%s.abs()" : "tl.abs(%s)", x->name);
  }
  return true;
}

static bool casts(Gen *g) {
  Val *x = pick(g, WANT_ANY), r;
  nereid_dtype t = random_dtype(g);
  if (!x || !cast_val(x, t, &r)) return false;
  bool narrower = is_float(x->t) && is_float(t) && width(t) < width(x->t);
  if (is_fp8(t) && !is_float(x->t)) return false;
  if (is_fp8(x->t) && !is_float(t)) return false;
  if (is_fp8(x->t) && is_fp8(t) && x->t != t) return false;
  if (is_float(x->t) && is_float(t) && x->t != t && width(t) == width(x->t)) narrower = false;
  if (narrower && !is_fp8(t) && x->t == NEREID_F32 && x->err == 0 && chance(g, 25)) {
    if (r.special != x->special) return false; /* overflow rounds to the largest number */
    double grown = unit(t) * val_max(x);
    r.flo -= grown, r.fhi += grown;
    emit(g, r, "%s.to(%s, fp_downcast_rounding=\"rtz\")", x->name, tl_name(t));
  } else if (chance(g, 50)) {
    emit(g, r, "%s.to(%s)", x->name, tl_name(t));
  } else {
    emit(g, r, "tl.cast(%s, %s)", x->name, tl_name(t));
  }
  return true;
}

static bool bitcast(Gen *g) {
  Val *x = pick(g, WANT_INT | WANT_FLOAT | WANT_EXACT | WANT_FINITE), r;
  if (!x || (is_float(x->t) && !x->fresh)) return false;
  static const nereid_dtype ints[] = {NEREID_I8, NEREID_I16, NEREID_I32, NEREID_I64,
                                      NEREID_U8, NEREID_U16, NEREID_U32, NEREID_U64};
  nereid_dtype t = ints[draw(g, 8)];
  if (width(t) != width(x->t)) return false;
  r = *x, r.t = t, r.err = 0, r.step = NO_STEP;
  set_int_range(&r, int_min(t), int_max(t));
  emit(g, r, "%s.to(%s, bitcast=True)", x->name, tl_name(t));
  return true;
}

static bool join_ranges(Val *r, const Val *a, const Val *b) {
  r->lo = a->lo < b->lo ? a->lo : b->lo, r->hi = a->hi > b->hi ? a->hi : b->hi;
  r->flo = fmin(a->flo, b->flo), r->fhi = fmax(a->fhi, b->fhi);
  r->err = fmax(a->err, b->err);
  r->step = a->step == NO_STEP || b->step == NO_STEP ? NO_STEP : a->step < b->step ? a->step : b->step;
  r->special = a->special || b->special;
  r->fresh = a->fresh && b->fresh;
  return !(r->special && r->err > 0);
}

static bool selects(Gen *g) {
  Val *c = pick(g, WANT_BOOL);
  if (!c) return false;
  Val *x = pick_with(g, c, WANT_ANY), shape = {0}, r = {0};
  if (!x || !broadcast_shape(c, x, &shape)) return false;
  Operand a = operand(x), b;
  Val *y = chance(g, 70) ? pick_with(g, &shape, is_fp8(x->t) ? WANT_FP8 : WANT_ANY & ~WANT_FP8) : NULL;
  if (y) b = operand(y);
  else if (is_fp8(x->t)) return false;
  else b = is_float(x->t) ? number_float(g) : number_int(g, 0, x->t == NEREID_I1 ? 1 : 100);
  if (!broadcast_shape(&shape, &b.v, &r)) return false;
  if (is_fp8(a.v.t)) {
    if (a.v.t != b.v.t) return false;
    r.t = a.v.t;
  } else if (!promote(&a.v, false, &b.v, b.is_number, true, false, &r.t)) {
    return false;
  }
  Val p, q;
  if (!cast_val(&a.v, r.t, &p) || !cast_val(&b.v, r.t, &q)) return false;
  if (!join_ranges(&r, &p, &q)) return false;
  if (chance(g, 40) && !b.is_number) emit(g, r, "tl.where(%s, %s, %s)", c->name, b.text, a.text);
  else emit(g, r, "tl.where(%s, %s, %s)", c->name, a.text, b.text);
  return true;
}

static bool extremes(Gen *g) {
  Operand x, y;
  Val r;
  if (!two(g, WANT_INT | WANT_FLOAT, &x, &y, &r, false)) return false;
  Val a, b;
  if (!promote(&x.v, false, &y.v, false, false, false, &r.t)) return false;
  /* each is made an f32 first */
  bool brain = (!x.is_number && x.v.t == NEREID_BF16) || (!y.is_number && y.v.t == NEREID_BF16);
  if (r.t == NEREID_BF16 || (r.t == NEREID_F16 && brain)) r.t = NEREID_F32;
  if (!cast_val(&x.v, r.t, &a) || !cast_val(&y.v, r.t, &b)) return false;
  bool smaller = chance(g, 50);
  if (!join_ranges(&r, &a, &b)) return false;
  r.fresh = false;
  if (!is_float(r.t)) {
    if (smaller) r.lo = a.lo < b.lo ? a.lo : b.lo, r.hi = a.hi < b.hi ? a.hi : b.hi;
    else r.lo = a.lo > b.lo ? a.lo : b.lo, r.hi = a.hi > b.hi ? a.hi : b.hi;
  } else if (!r.special) {
    if (smaller) r.fhi = fmin(a.fhi, b.fhi);
    else r.flo = fmax(a.flo, b.flo);
  }
  bool nan = is_float(r.t) && chance(g, 30);
  emit(g, r, "tl.%s(%s, %s%s)", smaller ? "minimum" : "maximum", x.text, y.text,
       nan ? ", propagate_nan=tl.PropagateNan.ALL" : "");
  return true;
}

static bool clamps(Gen *g) {
  Val *x = pick(g, WANT_FLOAT), r;
  if (!x) return false;
  nereid_dtype t = x->t == NEREID_F64 ? NEREID_F64 : NEREID_F32; /* the bounds are f32 */
  if (!cast_val(x, t, &r)) return false;
  int bound = 1 << draw(g, 4);
  if (r.special && x->err > 0) return false;
  r.flo = fmax(r.flo, -bound), r.fhi = fmin(r.fhi, bound);
  if (r.flo > r.fhi || r.special) r.flo = -bound, r.fhi = bound;
  if (r.step > 0 && r.step != NO_STEP) r.step = 0;
  r.fresh = false, r.special = false; /* a NaN becomes a bound; which one is not said */
  if (x->special) return false;
  emit(g, r, "tl.clamp(%s, -%d.0, %d.0)", x->name, bound, bound);
  return true;
}

static bool fused(Gen *g) {
  Val *x = pick(g, WANT_FLOAT | WANT_FINITE), *y = x ? pick_with(g, x, WANT_FLOAT | WANT_FINITE) : NULL, shape = {0},
      r = {0};
  if (!y || !broadcast_shape(x, y, &shape)) return false;
  Val *z = pick_with(g, &shape, WANT_FLOAT | WANT_FINITE), a, b, c, product;
  if (!z || !broadcast_shape(&shape, z, &r)) return false;
  nereid_dtype t;
  if (!promote(x, false, y, false, false, false, &t)) return false;
  Val xy = {.t = t};
  if (!promote(&xy, false, z, false, false, false, &r.t) || r.t == NEREID_BF16) return false;
  if (!cast_val(x, r.t, &a) || !cast_val(y, r.t, &b) || !cast_val(z, r.t, &c)) return false;
  product = r;
  if (!multiply_floats(&product, &a, &b) || !add_floats(&r, &product, &c, false)) return false;
  emit(g, r, "tl.fma(%s, %s, %s)", x->name, y->name, z->name);
  return true;
}

/* ---- math functions ---------------------------------------------------------------------------------------------- */

/* Functions whose slope is at most `slope` everywhere, with values in [lo, hi]; `of` prepares the operand. */
static const struct {
  const char *call;
  double slope, lo, hi;
  double most;
  bool f64;
} gentle[] = {
    {"tl.sin(%s)", 1, -1, 1, 500, true},
    {"tl.cos(%s)", 1, -1, 1, 500, true},
    {"tl.erf(%s)", 1.13, -1, 1, 1e9, true},
    {"tl.sigmoid(%s)", 0.25, 0, 1, 80, true},
    {"tl.exp(-tl.abs(%s))", 1, 0, 1, 80, true},
    {"tl.exp2(-tl.abs(%s))", 0.7, 0, 1, 100, true},
    {"tl.log(tl.abs(%s) + 1.0)", 1, 0, 60, 1e20, true},
    {"tl.log2(tl.abs(%s) + 1.0)", 1.45, 0, 90, 1e20, true},
    {"tl.rsqrt(tl.abs(%s) + 1.0)", 0.5, 0, 1, 1e20, true},
    {"tl.sqrt(tl.abs(%s) + 0.25)", 1, 0.4, 1e11, 1e20, true},
    {"tl.sqrt_rn(tl.abs(%s) + 0.25)", 1, 0.4, 1e11, 1e20, false},
    {"libdevice.tanh(%s)", 1, -1, 1, 1e9, true},
    {"libdevice.atan(%s)", 1, -1.6, 1.6, 1e9, true},
    {"libdevice.asinh(%s)", 1, -60, 60, 1e20, true},
    {"libdevice.erfc(%s)", 1.13, 0, 2, 1e9, true},
    {"libdevice.log1p(tl.abs(%s))", 1, 0, 60, 1e20, true},
    {"libdevice.expm1(-tl.abs(%s))", 1, -1, 0, 1e9, true},
    {"libdevice.pow(tl.abs(%s) + 1.0, -0.5)", 0.5, 0, 1, 1e20, true},
    {"libdevice.hypot(%s, 1.0)", 1, 1, 1e12, 1e12, false},
    {"libdevice.cbrt(tl.abs(%s) + 1.0)", 0.34, 1, 1e7, 1e20, true},
    {"tl.exp(tl.minimum(%s, 1.0))", 2.72, 0, 2.72, 80, false},
};
enum { GENTLE_COUNT = sizeof gentle / sizeof gentle[0] };

static bool math_function(Gen *g) {
  Val *x = pick(g, WANT_FLOAT | WANT_FINITE), r;
  if (!x) return false;
  r = *x;
  char text[60];
  if (x->t == NEREID_F16 || x->t == NEREID_BF16) {
    snprintf(text, sizeof text, "%s.to(tl.float32)", x->name);
    r.t = NEREID_F32;
  } else {
    snprintf(text, sizeof text, "%s", x->name);
  }
  int i = (int)draw(g, GENTLE_COUNT);
  if (r.t == NEREID_F64 && !gentle[i].f64) return false;
  if (strstr(gentle[i].call, "-0.5)") && r.t == NEREID_F64) return false;
  double max = val_max(&r);
  if (max > gentle[i].most) return false;
  /* the operand's own preparation rounds, and so does the argument's reduction */
  r.err = gentle[i].slope * (r.err * 1.01 + unit(r.t) * 4 * (max + 1));
  if (strstr(gentle[i].call, "log") || strstr(gentle[i].call, "rsqrt") || strstr(gentle[i].call, "pow") ||
      strstr(gentle[i].call, "cbrt") || strstr(gentle[i].call, "asinh")) /* slope falls as the operand grows */
    r.err = gentle[i].slope * (x->err * 1.01 + unit(r.t) * 16);
  r.flo = gentle[i].lo - 0.01, r.fhi = fmin(gentle[i].hi, max + 2) + 0.01;
  r.err += 16 * unit(r.t) * fmax(1, fmin(val_max(&r), gentle[i].slope * max + 3));
  r.step = NO_STEP, r.fresh = false;
  char call[160];
  snprintf(call, sizeof call, gentle[i].call, text); /* the table's own formats */
  emit(g, r, "%s", call);
  return true;
}

/* Exact functions of exact operands. */
static bool exact_function(Gen *g) {
  if (chance(g, 50)) {
    Val *x = pick(g, WANT_FLOAT | WANT_EXACT | WANT_FINITE), r;
    if (!x || (x->t != NEREID_F32 && x->t != NEREID_F64)) return false;
    static const char *const calls[] = {"tl.floor",        "tl.ceil",         "libdevice.rint",
                                        "libdevice.trunc", "libdevice.round", "libdevice.nearbyint"};
    r = *x, r.flo = floor(r.flo), r.fhi = ceil(r.fhi), r.fresh = false;
    r.step = exact_in(val_max(&r), 0, r.t) ? 0 : NO_STEP;
    emit(g, r, "%s(%s)", calls[draw(g, 6)], x->name);
    return true;
  }
  Val *x = pick(g, WANT_INT), r;
  if (!x) return false;
  r = *x;
  if (chance(g, 40)) {
    int64_t d = draw_between(g, 1, 50);
    set_int_range(&r, int_min(r.t), int_max(r.t));
    emit(g, r, "tl.cdiv(%s, %ld)", x->name, (long)d);
    return true;
  }
  if (width(x->t) < 32) return false;
  if (chance(g, 50)) {
    Val *y = pick_with(g, x, WANT_INT);
    if (!y || y->t != x->t || !broadcast_shape(x, y, &r)) return false;
    set_int_range(&r, int_min(r.t), int_max(r.t));
    emit(g, r, "tl.umulhi(%s, %s)", x->name, y->name);
    return true;
  }
  if (!is_signed(x->t)) return false;
  static const char *const calls[] = {"popc", "clz", "ffs"};
  r.t = NEREID_I32;
  set_int_range(&r, 0, 64);
  emit(g, r, "libdevice.%s(%s)", calls[draw(g, 3)], x->name);
  return true;
}

/* What functions make of NaN, infinities and wide values: stored as it is. */
static bool special_function(Gen *g) {
  Val *x = pick(g, WANT_FLOAT | WANT_EXACT), r;
  if (!x || (x->t != NEREID_F32 && x->t != NEREID_F64)) return false;
  static const char *const calls[] = {"tl.exp",          "tl.exp2",        "tl.log",         "tl.log2",
                                      "tl.sqrt",         "tl.rsqrt",       "tl.erf",         "tl.sigmoid",
                                      "tl.floor",        "tl.ceil",        "libdevice.tanh", "libdevice.exp10",
                                      "libdevice.log10", "libdevice.cosh", "libdevice.sinh", "libdevice.acos"};
  if (!x->special && val_max(x) > 300) return false;
  r = *x, r.terminal = true, r.special = true, r.fresh = false, r.step = NO_STEP;
  /* exp's relative error grows with the operand, up to 88 here before it overflows */
  r.rel = 600 * unit(r.t), r.err = 8 * unit(r.t);
  emit(g, r, "%s(%s)", calls[draw(g, 16)], x->name);
  return true;
}

bool make_elementwise(Gen *g) {
  switch (draw(g, 32)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5: return arithmetic(g);
    case 6: return float_division(g);
    case 7:
    case 8: return int_division(g);
    case 9:
    case 10: return bits(g);
    case 11: return shifts(g);
    case 12:
    case 13:
    case 14: return comparison(g);
    case 15:
    case 16: return unary(g);
    case 17:
    case 18:
    case 19: return casts(g);
    case 20: return bitcast(g);
    case 21:
    case 22:
    case 23: return selects(g);
    case 24:
    case 25: return extremes(g);
    case 26: return clamps(g);
    case 27: return fused(g);
    case 28:
    case 29: return math_function(g);
    case 30: return exact_function(g);
    default: return special_function(g);
  }
}

/* ---- values from nothing ----------------------------------------------------------------------------------------- */

bool make_constant(Gen *g) {
  int rank, shape[MAX_RANK];
  random_shape(g, &rank, shape);
  Val r = {.step = NO_STEP};
  if (chance(g, 50)) {
    int start = chance(g, 30) ? (int)draw(g, 20) : 0;
    r.t = NEREID_I32, r.rank = 1, r.shape[0] = shape[0] > 1 ? shape[0] : g->dims[0];
    set_int_range(&r, start, start + r.shape[0] - 1);
    emit(g, r, "tl.arange(%d, %d)", start, start + r.shape[0]);
    return true;
  }
  r.t = random_dtype(g);
  set_shape(&r, rank, shape);
  char dims[64];
  print_shape(&r, dims);
  if (is_float(r.t)) {
    double f = is_fp8(r.t) ? 0 : ldexp((double)draw_between(g, -8, 8), -1);
    r.flo = r.fhi = f, r.step = -1;
    if (f == 0 && chance(g, 50)) emit(g, r, "tl.zeros(%s, %s)", dims, tl_name(r.t));
    else emit(g, r, "tl.full(%s, %g, %s)", dims, f, tl_name(r.t));
  } else {
    int64_t n = draw_between(g, 0, r.t == NEREID_I1 ? 1 : 100);
    set_int_range(&r, n, n);
    if (r.t == NEREID_I1) emit(g, r, "tl.full(%s, %s, tl.int1)", dims, n ? "True" : "False");
    else emit(g, r, "tl.full(%s, %ld, %s)", dims, (long)n, tl_name(r.t));
  }
  return true;
}

bool make_random_numbers(Gen *g) {
  Val *x = pick(g, WANT_INT | WANT_BLOCK), r;
  if (!x || (x->t != NEREID_I32 && x->t != NEREID_U32 && x->t != NEREID_I64)) return false;
  char seed[24];
  Val *s = pick(g, WANT_INT | WANT_SCALAR);
  if (s && (s->t == NEREID_I32 || s->t == NEREID_I64) && chance(g, 50)) snprintf(seed, sizeof seed, "%s", s->name);
  else snprintf(seed, sizeof seed, "%u", draw(g, 1 << 30));
  r = *x, r.step = NO_STEP, r.fresh = false;
  switch (draw(g, 4)) {
    case 0:
      r.t = NEREID_U32;
      set_int_range(&r, 0, int_max(r.t));
      emit(g, r, "tl.randint(%s, %s)", seed, x->name);
      return true;
    case 1: { /* four at once */
      r.t = NEREID_U32;
      set_int_range(&r, 0, int_max(r.t));
      int id = new_id(g);
      line(g, "r%da, r%db, r%dc, r%dd = tl.randint4x(%s, %s, n_rounds=%d)", id, id, id, id, seed, x->name,
           (int)draw_between(g, 4, 10));
      emit(g, r, "r%da ^ r%db ^ (r%dc >> 3) ^ r%dd", id, id, id, id);
      return true;
    }
    case 2:
      r.t = NEREID_F32, r.flo = 0, r.fhi = 1, r.err = unit(r.t); /* a product, which a sum may take unrounded */
      emit(g, r, "tl.rand(%s, %s)", seed, x->name);
      return true;
    default:
      r.t = NEREID_F32, r.flo = -7, r.fhi = 7, r.err = 2e-5;
      emit(g, r, "tl.randn(%s, %s)", seed, x->name);
      return true;
  }
}

bool make_condition(Gen *g, char *text, size_t n) {
  Val *x = pick(g, WANT_INT | WANT_BOOL | WANT_FLOAT | WANT_EXACT | WANT_FINITE | WANT_SCALAR);
  if (!x) return false;
  if (x->t == NEREID_I1) snprintf(text, n, chance(g, 30) ? "not %s" : "%s", x->name);
  else if (is_float(x->t)) snprintf(text, n, "%s > %g", x->name, ldexp((double)draw_between(g, -8, 8), -1));
  else if (chance(g, 50)) snprintf(text, n, "%s %% 2 == %d", x->name, (int)draw(g, 2));
  else {
    Int middle = (x->lo + x->hi) / 2;
    if (middle > 1000000 || middle < -1000000) middle = 7;
    snprintf(text, n, "%s %s %ld", x->name, chance(g, 50) ? "<" : ">=", (long)middle);
  }
  return true;
}
