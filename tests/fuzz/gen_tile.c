/* gen_tile: operations on whole tiles: shapes, reductions, scans, sorts, dot. See gen.h. */
#include "gen.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static bool reshapes(Gen *g) {
  Val *x = pick(g, WANT_ANY | WANT_BLOCK), r;
  if (!x) return false;
  r = *x;
  int64_t n = numel(x);
  r.rank = (int)draw_between(g, 1, 3);
  for (int d = 0; d < r.rank - 1; d++) {
    r.shape[d] = 1;
    while (r.shape[d] < n && chance(g, 55)) r.shape[d] *= 2;
    n /= r.shape[d];
  }
  r.shape[r.rank - 1] = (int)n;
  char shape[64];
  print_shape(&r, shape);
  if (r.rank == 1 && chance(g, 40)) emit(g, r, chance(g, 50) ? "tl.ravel(%s)" : "%s.ravel()", x->name);
  else emit(g, r, chance(g, 50) ? "tl.reshape(%s, %s)" : "%s.reshape(%s)", x->name, shape);
  return true;
}

static bool transposes(Gen *g) {
  Val *x = pick(g, WANT_ANY | WANT_BLOCK), r;
  if (!x || x->rank < 2) return false;
  r = *x;
  if (chance(g, 50)) {
    r.shape[r.rank - 1] = x->shape[x->rank - 2], r.shape[r.rank - 2] = x->shape[x->rank - 1];
    emit(g, r, x->rank == 2 && chance(g, 50) ? "%s.T" : "tl.trans(%s)", x->name);
    return true;
  }
  int dims[MAX_RANK], n = 0;
  char text[64];
  for (int d = 0; d < r.rank; d++) dims[d] = d;
  for (int d = r.rank - 1; d > 0; d--) {
    int e = (int)draw(g, (uint32_t)d + 1), keep = dims[d];
    dims[d] = dims[e], dims[e] = keep;
  }
  for (int d = 0; d < r.rank; d++) {
    r.shape[d] = x->shape[dims[d]];
    n += snprintf(text + n, sizeof text - (size_t)n, "%s%d", d ? ", " : "", dims[d]);
  }
  emit(g, r, chance(g, 50) ? "tl.permute(%s, (%s))" : "tl.trans(%s, %s)", x->name, text);
  return true;
}

static bool more_dims(Gen *g) {
  Val *x = pick(g, WANT_ANY | WANT_BLOCK), r;
  if (!x || x->rank >= 3) return false;
  int at = (int)draw(g, (uint32_t)x->rank + 1);
  r = *x, r.rank++;
  for (int d = r.rank - 1; d > at; d--) r.shape[d] = r.shape[d - 1];
  r.shape[at] = 1;
  if (chance(g, 50)) {
    char index[40] = "";
    for (int d = 0; d < r.rank; d++) strcat(strcat(index, d ? ", " : ""), d == at ? "None" : ":");
    emit(g, r, "%s[%s]", x->name, index);
  } else {
    emit(g, r, "tl.expand_dims(%s, %d)", x->name, chance(g, 50) ? at : at - r.rank);
  }
  return true;
}

static bool grows(Gen *g) {
  Val *x = pick(g, WANT_ANY), r;
  if (!x) return false;
  r = *x;
  if (!x->rank) random_shape(g, &r.rank, r.shape);
  for (int d = 0; d < x->rank; d++)
    if (x->shape[d] == 1 && chance(g, 70)) r.shape[d] = g->dims[draw(g, 3)];
  if (numel(&r) > MAX_NUMEL || same_shape(&r, x)) return false;
  char shape[64];
  print_shape(&r, shape);
  emit(g, r, chance(g, 50) ? "tl.broadcast_to(%s, %s)" : "%s.broadcast_to(%s)", x->name, shape);
  return true;
}

static bool joins(Gen *g) {
  Val *x = pick(g, WANT_ANY), *y = NULL, r;
  if (!x) return false;
  for (int i = g->count - 1; i >= g->base && !y; i--) /* the same type and shape */
    if (g->pool[i].t == x->t && same_shape(&g->pool[i], x) && fits_want(&g->pool[i], WANT_ANY) && chance(g, 50))
      y = &g->pool[i];
  if (!y) y = x;
  r = *x;
  r.lo = x->lo < y->lo ? x->lo : y->lo, r.hi = x->hi > y->hi ? x->hi : y->hi;
  r.flo = fmin(x->flo, y->flo), r.fhi = fmax(x->fhi, y->fhi), r.err = fmax(x->err, y->err);
  r.step = x->step == NO_STEP || y->step == NO_STEP ? NO_STEP : x->step < y->step ? x->step : y->step;
  r.special |= y->special, r.fresh &= y->fresh;
  if ((r.special && r.err > 0) || 2 * numel(x) > MAX_NUMEL) return false;
  int which = (int)draw(g, 3);
  if (which == 0 && x->rank < 3) {
    r.shape[r.rank++] = 2;
    emit(g, r, "tl.join(%s, %s)", x->name, y->name);
  } else if (which == 1 && x->rank) {
    r.shape[r.rank - 1] *= 2;
    emit(g, r, "tl.interleave(%s, %s)", x->name, y->name);
  } else if (x->rank == 1) {
    r.shape[0] *= 2;
    emit(g, r, "tl.cat(%s, %s, can_reorder=True)", x->name, y->name);
  } else {
    return false;
  }
  return true;
}

static bool splits(Gen *g) {
  Val *x = pick(g, WANT_ANY | WANT_BLOCK), r;
  if (!x) return false;
  char operand[100];
  r = *x;
  if (x->shape[x->rank - 1] == 2) {
    snprintf(operand, sizeof operand, "%s", x->name);
    r.rank--;
  } else if (x->shape[x->rank - 1] > 2 && x->rank < 3) {
    char shape[64];
    r.shape[r.rank - 1] /= 2, r.shape[r.rank] = 2, r.rank++;
    print_shape(&r, shape);
    snprintf(operand, sizeof operand, "tl.reshape(%s, %s)", x->name, shape);
    r.rank--;
  } else {
    return false;
  }
  int a = new_id(g), b = new_id(g);
  char name[12];
  line(g, "v%d, v%d = tl.split(%s)", a, b, operand);
  snprintf(name, sizeof name, "v%d", a), add_named(g, r, name);
  snprintf(name, sizeof name, "v%d", b), add_named(g, r, name);
  return true;
}

static bool gathers(Gen *g) {
  Val *x = pick(g, WANT_ANY | WANT_BLOCK);
  if (!x) return false;
  int axis = (int)draw(g, (uint32_t)x->rank);
  Val *index = NULL;
  for (int i = g->count - 1; i >= g->base && !index; i--) {
    Val *v = &g->pool[i];
    if (!fits_want(v, WANT_INT | WANT_BLOCK) || v->rank != x->rank) continue;
    bool same = true;
    for (int d = 0; d < x->rank; d++) same &= d == axis || v->shape[d] == x->shape[d];
    if (same && chance(g, 60)) index = v;
  }
  if (!index || (x->shape[axis] > (int)int_max(index->t))) return false;
  Val r = *x;
  set_shape(&r, index->rank, index->shape);
  emit(g, r, "tl.gather(%s, %s & %d, %d)", x->name, index->name, x->shape[axis] - 1, axis);
  return true;
}

static bool flips(Gen *g) {
  Val *x = pick(g, WANT_ANY | WANT_BLOCK), r;
  if (!x || numel(x) == 1) return false; /* as Triton */
  r = *x;
  emit(g, r, "tl.flip(%s, %d)", x->name, (int)draw(g, (uint32_t)x->rank));
  return true;
}

bool make_shape_op(Gen *g) {
  switch (draw(g, 11)) {
    case 0:
    case 1: return reshapes(g);
    case 2: return transposes(g);
    case 3:
    case 4: return more_dims(g);
    case 5: return grows(g);
    case 6:
    case 7: return joins(g);
    case 8: return splits(g);
    case 9: return gathers(g);
    default: return flips(g);
  }
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

const char combine_functions[] =
    "@triton.jit\ndef add_fn(a, b):\n    return a + b\n\n\n"
    "@triton.jit\ndef mul_fn(a, b):\n    return a * b\n\n\n"
    "@triton.jit\ndef xor_fn(a, b):\n    return a ^ b\n\n\n"
    "@triton.jit\ndef max_fn(a, b):\n    return tl.where(a > b, a, b)\n\n\n"
    "@triton.jit\ndef min_fn(a, b):\n    if a < b:\n        r = a\n    else:\n        r = b\n    return r\n\n\n"
    "@triton.jit\ndef best_fn(a, i, b, j):\n    left = (a > b) | ((a == b) & (i < j))\n    return tl.where(left, a, "
    "b), tl.where(left, i, j)\n\n\n"
    "@triton.jit\ndef pair_fn(a, i, b, j):\n    return add_fn(a, b), max_fn(i, j)\n\n\n"
    "@triton.jit\ndef affine_fn(a, b, c, d):\n    return a * c, b * c + d\n\n\n"
    "@triton.jit\ndef first_fn(a, b):\n    return tl.where(a != 0, a, b)\n\n\n"
    "@triton.jit\ndef last_fn(a, b):\n    return tl.where(b != 0, b, a)\n\n\n"
    "@triton.jit\ndef map_fn(a, b):\n    if a > b:\n        r = a - b\n    elif a == b:\n        r = a * 3\n    "
    "else:\n        r = b ^ 5\n    return r\n\n\n";

static bool sum_range(Val *r, const Val *x, double n, bool scan) {
  r->flo = scan ? fmin(x->flo, n * x->flo) : n * x->flo, r->fhi = scan ? fmax(x->fhi, n * x->fhi) : n * x->fhi;
  r->step = x->step, r->special = false;
  double max = val_max(r);
  /* Narrow sums are kept in f32 and rounded once; a scan may round each step. */
  nereid_dtype within = !scan && (x->t == NEREID_F16 || x->t == NEREID_BF16) ? NEREID_F32 : x->t;
  if (x->special || max > float_max(x->t) / 4 || max > 1e20) return false;
  if (x->err == 0 && exact_in(max, x->step, within)) {
    r->err = 0;
    if (!exact_in(max, x->step, x->t)) r->step = NO_STEP, r->flo -= unit(x->t) * max, r->fhi += unit(x->t) * max;
    return true;
  }
  r->err = n * x->err + (n / 8 + 8) * unit(within) * max;
  if (within != x->t) r->err += 2 * unit(x->t) * max;
  r->step = NO_STEP;
  r->flo -= r->err, r->fhi += r->err;
  return true;
}

static void drop_axis(Val *r, int axis, bool keep) {
  if (axis < 0) { /* all */
    for (int d = 0; d < r->rank; d++) r->shape[d] = 1;
    if (!keep) r->rank = 0;
    return;
  }
  if (keep) {
    r->shape[axis] = 1;
    return;
  }
  for (int d = axis; d + 1 < r->rank; d++) r->shape[d] = r->shape[d + 1];
  r->rank--;
}

/* Bodies that do not commute: maps x -> a x + b composed, and the first or last number that is not 0. */
static bool ordered_reduction(Gen *g) {
  Val *x = pick(g, WANT_INT | WANT_BLOCK), r;
  if (!x || x->t == NEREID_I1) return false;
  int axis = (int)draw(g, (uint32_t)x->rank);
  const char *keep = chance(g, 25) ? ", keep_dims=True" : "";
  r = *x, r.fresh = false;
  drop_axis(&r, axis, *keep != 0);
  set_int_range(&r, int_min(r.t), int_max(r.t));
  if (chance(g, 40)) {
    emit(g, r, "tl.reduce(%s, %d, %s%s)", x->name, axis, chance(g, 50) ? "last_fn" : "first_fn", keep);
    return true;
  }
  int a = new_id(g), b = new_id(g);
  char name[12];
  line(g, "v%d, v%d = tl.reduce((%s, %s + 1), %d, affine_fn%s)", a, b, x->name, x->name, axis, keep);
  snprintf(name, sizeof name, "v%d", a), add_named(g, r, name);
  snprintf(name, sizeof name, "v%d", b), add_named(g, r, name);
  return true;
}

bool make_reduction(Gen *g) {
  if (chance(g, 12)) return ordered_reduction(g);
  int which = (int)draw(g, 11);
  bool pairs = which >= 4 && which <= 6;
  int want = WANT_BLOCK | (which == 3 || which == 10 ? WANT_INT : WANT_INT | WANT_FLOAT) |
             (pairs ? WANT_EXACT | WANT_FINITE : 0) | (which == 0 ? WANT_BOOL : 0);
  Val *x = pick(g, want), r;
  if (!x) return false;
  int axis = (int)draw(g, (uint32_t)x->rank);
  bool all = !pairs && which < 3 && chance(g, 20), keep = chance(g, 25), method = chance(g, 30);
  int64_t n = all ? numel(x) : x->shape[axis];
  char end[60];
  if (all) snprintf(end, sizeof end, "%s", keep ? ", keep_dims=True" : "");
  else snprintf(end, sizeof end, ", axis=%d%s", chance(g, 80) ? axis : axis - x->rank, keep ? ", keep_dims=True" : "");
  r = *x, r.fresh = false;
  drop_axis(&r, all ? -1 : axis, keep);
  switch (which) {
    case 0: { /* sum */
      Val c = *x;
      if (!is_float(x->t) && width(x->t) < 32) cast_val(x, is_signed(x->t) ? NEREID_I32 : NEREID_U32, &c);
      char dtype[40] = "";
      if (chance(g, 20)) {
        nereid_dtype t = is_float(x->t)  ? (chance(g, 50) ? NEREID_F32 : NEREID_F64)
                         : chance(g, 50) ? NEREID_I64
                                         : NEREID_I32;
        if (!cast_val(x, t, &c)) return false;
        snprintf(dtype, sizeof dtype, ", dtype=%s", tl_name(t));
      }
      r.t = c.t;
      if (is_float(c.t)) {
        if (!sum_range(&r, &c, (double)n, false)) return false;
      } else {
        set_int_range(&r, c.lo * n, c.hi * n);
      }
      emit(g, r, method ? "%s.sum(%s%s)" : "tl.sum(%s%s%s)", x->name, method && *end ? end + 2 : end,
           method && !*end && *dtype ? dtype + 2 : dtype);
      return true;
    }
    case 1:
    case 2: /* max, min */
      if (x->t == NEREID_F16 || x->t == NEREID_BF16) r.t = NEREID_F32;
      if (!is_float(x->t) && width(x->t) < 32) r.t = NEREID_I32;
      emit(g, r, "tl.%s(%s%s)", which == 1 ? "max" : "min", x->name, end);
      return true;
    case 3:
      set_int_range(&r, int_min(r.t), int_max(r.t));
      emit(g, r, "tl.%s(%s%s)", chance(g, 60) ? "xor_sum" : "reduce_or", x->name, end);
      return true;
    case 4: /* argmax, argmin */
      r.t = NEREID_I32, r.step = NO_STEP;
      set_int_range(&r, 0, n - 1);
      emit(g, r, "tl.%s(%s%s)", chance(g, 50) ? "argmax" : "argmin", x->name, end);
      return true;
    case 5: { /* both */
      Val index = r;
      char name[12];
      if (r.t == NEREID_BF16) r.t = NEREID_F32;
      index.t = NEREID_I32, index.step = NO_STEP;
      set_int_range(&index, 0, n - 1);
      int a = new_id(g), b = new_id(g);
      line(g, "v%d, v%d = tl.%s(%s%s, return_indices=True)", a, b, chance(g, 50) ? "max" : "min", x->name, end);
      snprintf(name, sizeof name, "v%d", a), add_named(g, r, name);
      snprintf(name, sizeof name, "v%d", b), add_named(g, index, name);
      return true;
    }
    case 6:
    case 7: { /* two tensors at once */
      bool best = which == 6;
      Val sum = r, other;
      if (!best && is_float(x->t) &&
          (!sum_range(&sum, x, (double)n, true) || (sum.err == 0 ? !exact_in(val_max(&sum), sum.step, x->t) : true)))
        return false;
      if (!best && !is_float(x->t)) set_int_range(&sum, int_min(x->t), int_max(x->t));
      char ramp[120], index[60] = "";
      for (int d = 0; d < x->rank; d++) strcat(strcat(index, d ? ", " : ""), d == axis ? ":" : "None");
      if (x->rank > 1) snprintf(ramp, sizeof ramp, "tl.arange(0, %d)[%s]", x->shape[axis], index);
      else snprintf(ramp, sizeof ramp, "tl.arange(0, %d)", x->shape[axis]);
      char shape[64], name[12];
      print_shape(x, shape);
      other = sum, other.t = NEREID_I32, other.step = NO_STEP;
      set_int_range(&other, 0, n - 1);
      if (x->t == NEREID_I1) return false;
      int a = new_id(g), b = new_id(g);
      line(g, "v%d, v%d = tl.reduce((%s, tl.broadcast_to(%s, %s)), %d, %s%s)", a, b, x->name, ramp, shape, axis,
           best ? "best_fn" : "pair_fn", keep ? ", keep_dims=True" : "");
      snprintf(name, sizeof name, "v%d", a), add_named(g, best ? r : sum, name);
      snprintf(name, sizeof name, "v%d", b), add_named(g, other, name);
      return true;
    }
    case 8: /* a sum that rounds as the type does: only where exact */
      if (is_float(x->t) && (!sum_range(&r, x, (double)n, true) || (r.err > 0 && x->t != NEREID_F32) ||
                             !(r.err > 0 || exact_in(val_max(&r), r.step, x->t))))
        return false;
      if (!is_float(x->t)) set_int_range(&r, int_min(r.t), int_max(r.t));
      emit(g, r, "tl.reduce(%s, %d, %s%s)", x->name, axis, !is_float(x->t) && chance(g, 40) ? "mul_fn" : "add_fn",
           keep ? ", keep_dims=True" : "");
      return true;
    case 9:
      if (x->special) return false;
      emit(g, r, "tl.reduce(%s, %d, %s%s)", x->name, axis, x->err > 0 || chance(g, 50) ? "max_fn" : "min_fn",
           keep ? ", keep_dims=True" : "");
      return true;
    default:
      set_int_range(&r, int_min(r.t), int_max(r.t));
      emit(g, r, "tl.reduce(%s, %d, xor_fn%s)", x->name, axis, keep ? ", keep_dims=True" : "");
      return true;
  }
}

/* ---- scans and sorts --------------------------------------------------------------------------------------------- */

static bool histograms(Gen *g) {
  Val *x = pick(g, WANT_INT | WANT_BLOCK), r;
  if (!x || x->rank != 1 || width(x->t) < 32) return false;
  int bins = 1 << draw_between(g, 1, 6);
  r = *x, r.t = NEREID_I32, r.shape[0] = bins;
  set_int_range(&r, 0, numel(x));
  Val *mask = chance(g, 40) ? pick(g, WANT_BOOL | WANT_BLOCK) : NULL;
  if (mask && same_shape(mask, x))
    emit(g, r, "tl.histogram(%s & %d, %d, mask=%s)", x->name, bins - 1, bins, mask->name);
  else emit(g, r, "tl.histogram(%s & %d, %d)", x->name, bins - 1, bins);
  return true;
}

bool make_scan_or_sort(Gen *g) {
  int which = (int)draw(g, 9);
  if (which == 8) return histograms(g);
  Val *x = pick(g, WANT_BLOCK | (which == 3 || which == 4 ? WANT_INT : WANT_INT | WANT_FLOAT)), r;
  if (!x) return false;
  int axis = (int)draw(g, (uint32_t)x->rank);
  int64_t n = x->shape[axis];
  const char *reverse = chance(g, 30) ? ", reverse=True" : "";
  r = *x, r.fresh = false;
  switch (which) {
    case 0:
    case 1: /* cumsum */
      if (!is_float(x->t) && width(x->t) < 32) cast_val(x, is_signed(x->t) ? NEREID_I32 : NEREID_U32, &r);
      if (x->t == NEREID_BF16) r.t = NEREID_F32;
      if (is_float(r.t)) {
        Val c = r;
        if (!sum_range(&r, &c, (double)n, true)) return false;
      } else {
        set_int_range(&r, r.lo < 0 ? r.lo * n : 0, r.hi > 0 ? r.hi * n : 0);
      }
      r.fresh = false;
      emit(g, r, "tl.cumsum(%s, %d%s)", x->name, axis, reverse);
      return true;
    case 2: { /* cumprod of what stays within [-1, 1] */
      if (!is_float(x->t)) {
        set_int_range(&r, int_min(r.t), int_max(r.t));
        emit(g, r, "tl.cumprod(%s, %d%s)", x->name, axis, reverse);
        return true;
      }
      if (x->special || (x->t != NEREID_F32 && x->t != NEREID_F64)) return false;
      r.flo = -1, r.fhi = 1, r.step = NO_STEP, r.err = (double)n * (x->err + 2 * unit(x->t));
      emit(g, r, "tl.cumprod(tl.clamp(%s, -1.0, 1.0), %d%s)", x->name, axis, reverse);
      return true;
    }
    case 3: { /* composition of x -> a x + b, which does not commute */
      int a = new_id(g), b = new_id(g);
      char name[12];
      if (x->t == NEREID_I1) return false;
      set_int_range(&r, int_min(r.t), int_max(r.t));
      line(g, "v%d, v%d = tl.associative_scan((%s, %s + 1), %d, affine_fn%s)", a, b, x->name, x->name, axis, reverse);
      snprintf(name, sizeof name, "v%d", a), add_named(g, r, name);
      snprintf(name, sizeof name, "v%d", b), add_named(g, r, name);
      return true;
    }
    case 4:
      set_int_range(&r, int_min(r.t), int_max(r.t));
      emit(g, r, "tl.associative_scan(%s, %d, %s%s)", x->name, axis, chance(g, 50) ? "xor_fn" : "mul_fn", reverse);
      return true;
    case 5:
      if (x->special || x->err > 0 || x->t == NEREID_I1) return false;
      emit(g, r, "tl.associative_scan(%s, %d, %s%s)", x->name, axis, chance(g, 50) ? "last_fn" : "max_fn", reverse);
      return true;
    default:
      axis = x->rank - 1, n = x->shape[axis];
      if (n < 2) return false;
      if (which == 6) {
        emit(g, r, "tl.sort(%s%s)", x->name, chance(g, 40) ? ", descending=True" : "");
        return true;
      }
      int k = 1;
      while (k < n && chance(g, 60)) k *= 2;
      r.shape[axis] = k;
      if (x->special) return false; /* where NaN stands is not said once the type is widened by max */
      if (k < n && (x->t == NEREID_F16 || x->t == NEREID_BF16)) r.t = NEREID_F32;
      if (k < n && !is_float(x->t) && width(x->t) < 32) r.t = NEREID_I32;
      emit(g, r, "tl.topk(%s, %d)", x->name, k);
      return true;
  }
}

/* ---- dot --------------------------------------------------------------------------------------------------------- */

/* A value of the pool brought to a shape and type: by broadcasting, else by repeating a row. The text of it. */
static bool bring(Gen *g, nereid_dtype t, int rank, const int *shape, char *text, size_t n, Val *out) {
  Val tile = {0};
  set_shape(&tile, rank, shape);
  Val *x = pick_into(g, &tile, is_float(t) ? WANT_FLOAT | WANT_FINITE | WANT_BLOCK : WANT_INT | WANT_BLOCK);
  char to[64];
  print_shape(&tile, to);
  if (x && cast_val(x, t, out) && (x->t != NEREID_U8 || t == NEREID_I8)) {
    if (is_fp8(t) && is_fp8(x->t) && x->t != t) return false;
    set_shape(out, rank, shape);
    spread_text(x, &tile, text, n);
    size_t used = strlen(text);
    if (x->t != t) snprintf(text + used, n - used, ".to(%s)", tl_name(t));
    return true;
  }
  int64_t count = 1; /* else: a ramp of small numbers */
  for (int d = 0; d < rank; d++) count *= shape[d];
  *out = (Val){.t = t, .step = 0};
  set_shape(out, rank, shape);
  int low = (int)draw(g, 4), k = 3;
  if (is_float(t)) out->flo = -low, out->fhi = k - low;
  else set_int_range(out, -low, k - low);
  snprintf(text, n, "tl.reshape((tl.arange(0, %ld) * 7 & %d) - %d, %s)%s.to(%s)", (long)count, k, low, to,
           is_fp8(t) ? ".to(tl.float32)" : "", tl_name(t));
  if (is_fp8(t) && float_max(t) < 4) return false;
  return true;
}

bool make_dot(Gen *g) {
  static const nereid_dtype likely[] = {NEREID_F32,  NEREID_F32, NEREID_F16, NEREID_F16,  NEREID_BF16,
                                        NEREID_BF16, NEREID_I8,  NEREID_F64, NEREID_F8E5, NEREID_F8E4NV};
  nereid_dtype t = gpu_dtype(likely[draw(g, 10)]);
  int batch = chance(g, 20) ? 2 << draw(g, 2) : 0;
  int m = 1 << draw_between(g, 0, batch ? 4 : 6), n = 1 << draw_between(g, 0, batch ? 4 : 6),
      k = 1 << draw_between(g, 2, batch ? 4 : 6);
  if (chance(g, 50)) k = g->dims[0] >= 4 ? g->dims[0] : 4;
  if (chance(g, 50)) m = g->dims[1];
  /* of tensor cores */
  if (is_float(t) && width(t) <= 16 && chance(g, 60)) m = 16 << draw(g, 3), n = 8 << draw(g, 3), k = 16 << draw(g, 3);
  if (m > 64) m = 64;
  if (k > 64) k = 64;
  int least = width(t) == 8 ? 32 : 16; /* Triton's, for NVIDIA GPUs */
  if (k < least) k = least;
  while ((int64_t)m * n * (batch ? batch : 1) > MAX_NUMEL) n /= 2;
  int a_shape[3] = {batch, m, k}, b_shape[3] = {batch, k, n}, c_shape[3] = {batch, m, n}, rank = batch ? 3 : 2;
  char a_text[160], b_text[160], c_text[160] = "";
  Val a, b, c, r = {.step = NO_STEP};
  if (!bring(g, t, rank, a_shape + 3 - rank, a_text, sizeof a_text, &a) ||
      !bring(g, t, rank, b_shape + 3 - rank, b_text, sizeof b_text, &b))
    return false;
  set_shape(&r, rank, c_shape + 3 - rank);
  r.t = t == NEREID_I8 ? NEREID_I32 : t == NEREID_F64 ? NEREID_F64 : NEREID_F32;
  bool with_acc = chance(g, 40);
  if (with_acc && !bring(g, r.t, rank, c_shape + 3 - rank, c_text, sizeof c_text, &c)) return false;
  char arguments[260] = "";
  if (with_acc)
    snprintf(arguments, sizeof arguments, ", acc=%s%s", c_text,
             r.t == NEREID_F32   ? ""
             : r.t == NEREID_F64 ? ", out_dtype=tl.float64"
                                 : ", out_dtype=tl.int32");
  if (t == NEREID_I8) {
    Int most = (Int)128 * 128 * k;
    set_int_range(&r, int_min(NEREID_I32), int_max(NEREID_I32));
    if (!with_acc) set_int_range(&r, -most, most);
    emit(g, r, "tl.dot(%s, %s%s)", a_text, b_text, arguments);
    return true;
  }
  double ma = val_max(&a), mb = val_max(&b), most = k * ma * mb;
  r.flo = -most, r.fhi = most;
  r.step = a.step == NO_STEP || b.step == NO_STEP ? NO_STEP : a.step + b.step;
  r.err = k * (ma * b.err + mb * a.err + a.err * b.err);
  if (with_acc) {
    r.flo += c.flo < 0 ? c.flo : 0, r.fhi += c.fhi > 0 ? c.fhi : 0, r.err += c.err;
    most += val_max(&c);
    r.step = r.step == NO_STEP || c.step == NO_STEP ? NO_STEP : r.step < c.step ? r.step : c.step;
  }
  if (most > 1e20) return false;
  /* A tensor core drops what lies 2^-22 below the largest of 16 products and the sum: 4 units of its 24 bits, once in
   * 16 k's. */
  const char *precision = t == NEREID_F32 ? ", input_precision=\"ieee\"" : "";
  if (t == NEREID_F32 && exact_in(ma, a.step, NEREID_BF16) && exact_in(mb, b.step, NEREID_BF16) && chance(g, 70))
    precision = random_precision(g, t);
  bool cut = width(t) <= 16 || (t == NEREID_F32 && !strstr(precision, "ieee"));
  if (r.err > 0 || !exact_in(is_fp8(t) ? FP8_CUT * most : cut ? 4 * most : most, r.step, r.t)) {
    r.err += (k / 4.0 + 6) * unit(r.t) * most + (is_fp8(t) ? fp8_sum_error(k, most) : 0);
    r.step = NO_STEP;
    r.flo -= r.err, r.fhi += r.err;
  }
  bool half = (t == NEREID_F16 || is_fp8(t)) && !with_acc && most < 15000 && chance(g, 25);
  if (half) {
    Val wide = r;
    if (!cast_val(&wide, NEREID_F16, &r)) return false;
    if (!exact_in(most, wide.step, NEREID_F16)) r.err += (k / 2.0 + 4) * unit(NEREID_F16) * most;
    strcat(arguments, ", out_dtype=tl.float16");
  }
  strcat(arguments, precision);
  r.terms = (int)k;
  emit(g, r, "tl.dot(%s, %s%s)", a_text, b_text, arguments);
  return true;
}
