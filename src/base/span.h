/* span: where a launch's accesses may go, as intervals of 64-bit integers. It is part of compiled kernels' texts
 * (nereid_apart() computes with it), and of what computes launch plans (tile/span_steps.h).
 *
 * A span holds every value that an integer of the kernel can have in this launch, or every byte's distance from an
 * argument's pointer: [lo, hi], empty when lo > hi. What is not known has the span of its type. A sum or product that
 * may pass 64 bits may be anything.
 */
#ifndef NEREID_SPAN_H
#define NEREID_SPAN_H

#include <stdint.h>

typedef struct NdSpan {
  int64_t lo, hi;
} NdSpan;

#define ND_SPAN __attribute__((unused)) static inline

ND_SPAN NdSpan nd_span_all(void) { return (NdSpan){INT64_MIN, INT64_MAX}; }
ND_SPAN NdSpan nd_span_of(int64_t lo, int64_t hi) { return (NdSpan){lo, hi}; }
ND_SPAN int nd_span_none(NdSpan a) { return a.lo > a.hi; }
ND_SPAN NdSpan nd_span_join(NdSpan a, NdSpan b) {
  if (nd_span_none(a)) return b;
  if (nd_span_none(b)) return a;
  return nd_span_of(a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi);
}
ND_SPAN NdSpan nd_span_meet(NdSpan a, NdSpan b) {
  return nd_span_of(a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi);
}
ND_SPAN NdSpan nd_span_when(NdSpan a, NdSpan b, int64_t least) {
  return !nd_span_none(b) && b.lo >= least ? a : nd_span_all();
}
/* A result of an integer type: where it may leave the type, it may also wrap around. */
ND_SPAN NdSpan nd_span_fit(NdSpan a, int64_t lo, int64_t hi) {
  return nd_span_none(a) || (a.lo >= lo && a.hi <= hi) ? a : nd_span_join(a, nd_span_of(lo, hi));
}

ND_SPAN NdSpan nd_span_plus(NdSpan a, NdSpan b) {
  NdSpan r;
  if (nd_span_none(a) || nd_span_none(b)) return nd_span_of(0, -1);
  if (__builtin_add_overflow(a.lo, b.lo, &r.lo) || __builtin_add_overflow(a.hi, b.hi, &r.hi)) return nd_span_all();
  return r;
}
ND_SPAN NdSpan nd_span_minus(NdSpan a, NdSpan b) {
  NdSpan r;
  if (nd_span_none(a) || nd_span_none(b)) return nd_span_of(0, -1);
  if (__builtin_sub_overflow(a.lo, b.hi, &r.lo) || __builtin_sub_overflow(a.hi, b.lo, &r.hi)) return nd_span_all();
  return r;
}
ND_SPAN NdSpan nd_span_times(NdSpan a, NdSpan b) {
  const int64_t x[2] = {a.lo, a.hi}, y[2] = {b.lo, b.hi};
  NdSpan r = {INT64_MAX, INT64_MIN};
  if (nd_span_none(a) || nd_span_none(b)) return nd_span_of(0, -1);
  for (int i = 0; i < 4; i++) {
    int64_t p;
    if (__builtin_mul_overflow(x[i / 2], y[i % 2], &p)) return nd_span_all();
    r = nd_span_join(r, nd_span_of(p, p));
  }
  return r;
}
/* Times one number that is not negative. */
ND_SPAN NdSpan nd_span_scale(NdSpan a, int64_t by) {
  NdSpan r;
  if (nd_span_none(a)) return nd_span_of(0, -1);
  if (__builtin_mul_overflow(a.lo, by, &r.lo) || __builtin_mul_overflow(a.hi, by, &r.hi)) return nd_span_all();
  return r;
}
/* Of either sign: no larger than a. */
ND_SPAN NdSpan nd_span_within(NdSpan a) {
  if (a.lo == INT64_MIN) return nd_span_all();
  int64_t most = -a.lo > a.hi ? -a.lo : a.hi;
  return nd_span_of(-most, most);
}
/* Towards zero; x / 0 is x. */
ND_SPAN NdSpan nd_span_over(NdSpan a, NdSpan b) {
  if (nd_span_none(a) || nd_span_none(b)) return nd_span_of(0, -1);
  if (b.lo == 0 && a.lo >= 0) return nd_span_of(0, a.hi);
  if (b.lo <= 0) return nd_span_within(a);
  return nd_span_of(a.lo / (a.lo < 0 ? b.lo : b.hi), a.hi / (a.hi < 0 ? b.hi : b.lo));
}
/* With a's sign; x % 0 is 0. */
ND_SPAN NdSpan nd_span_rest(NdSpan a, NdSpan b) {
  if (nd_span_none(a) || nd_span_none(b)) return nd_span_of(0, -1);
  if (b.lo <= 0) return nd_span_of(a.lo < 0 ? a.lo : 0, a.hi > 0 ? a.hi : 0);
  if (a.lo >= 0 && a.hi < b.lo) return a;
  return nd_span_of(a.lo < 0 ? (a.lo > -b.hi ? a.lo : 1 - b.hi) : 0, a.hi <= 0 ? 0 : a.hi < b.hi - 1 ? a.hi : b.hi - 1);
}
ND_SPAN NdSpan nd_span_least(NdSpan a, NdSpan b) {
  if (nd_span_none(a) || nd_span_none(b)) return nd_span_of(0, -1);
  return nd_span_of(a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi);
}
ND_SPAN NdSpan nd_span_most(NdSpan a, NdSpan b) {
  if (nd_span_none(a) || nd_span_none(b)) return nd_span_of(0, -1);
  return nd_span_of(a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi);
}
/* a where it is less than b, or equal; and where it is more. */
ND_SPAN NdSpan nd_span_below(NdSpan a, NdSpan b, int equal) {
  if (b.hi == INT64_MIN) return a;
  return nd_span_meet(a, nd_span_of(INT64_MIN, equal ? b.hi : b.hi - 1));
}
ND_SPAN NdSpan nd_span_above(NdSpan a, NdSpan b, int equal) {
  if (b.lo == INT64_MAX) return a;
  return nd_span_meet(a, nd_span_of(equal ? b.lo : b.lo + 1, INT64_MAX));
}

/* ---- loops: from lb to ub by step ---- */

ND_SPAN int nd_span_exact(NdSpan a) { return a.lo == a.hi; }
ND_SPAN NdSpan nd_span_loop(NdSpan lb, NdSpan ub, NdSpan step) {
  NdSpan all = nd_span_all(), r;
  if (nd_span_none(lb) || nd_span_none(ub) || nd_span_none(step)) return nd_span_of(0, -1);
  if (step.lo > 0) r = nd_span_below(nd_span_above(all, lb, 1), ub, 0);
  else if (step.hi < 0) r = nd_span_above(nd_span_below(all, lb, 1), ub, 0);
  else return all;
  int64_t way;
  if (!nd_span_none(r) && nd_span_exact(lb) && nd_span_exact(step) &&
      !__builtin_sub_overflow(r.hi, r.lo, &way)) { /* the last one */
    if (step.lo > 0) r.hi = r.lo + way / step.lo * step.lo;
    else if (step.lo != INT64_MIN) r.lo = r.hi - way / -step.lo * -step.lo;
  }
  return r;
}
/* By steps of 1 from a number below INT64_MAX. */
ND_SPAN NdSpan nd_span_count(int64_t lb, NdSpan ub) {
  if (nd_span_none(ub)) return nd_span_of(0, -1);
  return nd_span_of(lb, ub.hi == INT64_MIN ? INT64_MAX : ub.hi - 1);
}
/* How often it has come round, before an iteration, or after the last: 0, 1, ... */
ND_SPAN NdSpan nd_span_rounds(NdSpan lb, NdSpan ub, NdSpan step, int after) {
  NdSpan at = nd_span_loop(lb, ub, step);
  int64_t way, least = step.lo > 0 ? step.lo : step.hi < 0 && step.hi != INT64_MIN ? -step.hi : 0;
  if (nd_span_none(at)) return nd_span_of(0, after ? 0 : -1);
  if (!least || __builtin_sub_overflow(at.hi, at.lo, &way)) return nd_span_of(0, INT64_MAX);
  return nd_span_of(0, way / least + (after && way / least < INT64_MAX));
}

/* ---- arrays ---- */

/* From distances to addresses; a last element has `bytes`. */
ND_SPAN NdSpan nd_span_bytes(NdSpan at, int bytes) {
  return nd_span_none(at) ? at : nd_span_plus(at, nd_span_of(0, bytes - 1));
}
ND_SPAN int nd_span_meets(NdSpan a, NdSpan b) {
  return !nd_span_none(a) && !nd_span_none(b) && a.lo <= b.hi && b.lo <= a.hi;
}

#endif
