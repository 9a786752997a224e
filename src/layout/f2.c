/* Maps over F2: matrices of bits, one word a column.
 *
 * Addition is xor, so to apply a map is to xor the columns of the bits that are set, and elimination needs no
 * arithmetic but xor either. Everything that asks more than applying (rank, kernel, solving, inverting) goes through
 * one structure: the columns in reduced form, each with the set of inputs that it was made of.
 *
 *     columns 3, 5, 6      3 = 011, leading bit 1, made of input 0
 *                          5 = 101, leading bit 2, made of input 1
 *                          6 = 110 = 3 ^ 5: nothing left, so inputs 0, 1, 2 together map to 0
 *     reduced              011 {0}, 101 {1}       each leading bit is in no other vector
 *     solve 6              has bit 2: ^ 101 -> 011, has bit 1: ^ 011 -> 000; so x = {0, 1}
 *
 * A column that depends on earlier ones never enters the reduced form, so that solutions use the earliest inputs there
 * are and leave the others 0.
 */
#include "layout/layout.h"

typedef struct Reduced {
  int n;
  uint32_t vector[F2_MAX], made_of[F2_MAX], lead[F2_MAX]; /* lead: a word with one bit */
} Reduced;

static uint32_t leading_bit(uint32_t x) { return UINT32_C(1) << (31 - __builtin_clz(x)); }

static uint32_t reduce(const Reduced *r, uint32_t y, uint32_t *made_of) {
  for (int i = 0; i < r->n; i++)
    if (y & r->lead[i]) {
      y ^= r->vector[i];
      *made_of ^= r->made_of[i];
    }
  return y;
}

/* True when `vector` was independent; else *made_of becomes a sum of inputs that maps to 0. */
static bool insert(Reduced *r, uint32_t vector, uint32_t *made_of) {
  vector = reduce(r, vector, made_of);
  if (!vector) return false;
  uint32_t lead = leading_bit(vector);
  for (int i = 0; i < r->n; i++)
    if (r->vector[i] & lead) {
      r->vector[i] ^= vector;
      r->made_of[i] ^= *made_of;
    }
  r->vector[r->n] = vector;
  r->made_of[r->n] = *made_of;
  r->lead[r->n++] = lead;
  return true;
}

static Reduced reduced_form(const F2Map *m) {
  Reduced r = {0};
  for (int i = 0; i < m->in_bits; i++) {
    uint32_t made_of = UINT32_C(1) << i;
    insert(&r, m->column[i], &made_of);
  }
  return r;
}

uint32_t f2_apply(const F2Map *m, uint32_t x) {
  uint32_t y = 0;
  for (int i = 0; i < m->in_bits; i++) y ^= x >> i & 1 ? m->column[i] : 0;
  return y;
}

F2Map f2_identity(int bits) {
  F2Map m = {.in_bits = bits, .out_bits = bits};
  for (int i = 0; i < bits; i++) m.column[i] = UINT32_C(1) << i;
  return m;
}

F2Map f2_compose(const F2Map *outer, const F2Map *inner) {
  F2Map m = {.in_bits = inner->in_bits, .out_bits = outer->out_bits};
  for (int i = 0; i < inner->in_bits; i++) m.column[i] = f2_apply(outer, inner->column[i]);
  return m;
}

F2Map f2_product(const F2Map *low, const F2Map *high) {
  F2Map m = {.in_bits = low->in_bits + high->in_bits, .out_bits = low->out_bits + high->out_bits};
  for (int i = 0; i < low->in_bits; i++) m.column[i] = low->column[i];
  for (int i = 0; i < high->in_bits; i++) m.column[low->in_bits + i] = high->column[i] << low->out_bits;
  return m;
}

F2Map f2_columns(const F2Map *m, int first, int count) {
  F2Map part = {.in_bits = count, .out_bits = m->out_bits};
  for (int i = 0; i < count; i++) part.column[i] = m->column[first + i];
  return part;
}

int f2_rank(const F2Map *m) { return reduced_form(m).n; }

int f2_kernel(const F2Map *m, uint32_t basis[F2_MAX]) {
  Reduced r = {0};
  int n = 0;
  for (int i = 0; i < m->in_bits; i++) {
    uint32_t made_of = UINT32_C(1) << i;
    if (!insert(&r, m->column[i], &made_of)) basis[n++] = made_of;
  }
  return n;
}

int f2_image(const F2Map *m, uint32_t basis[F2_MAX]) {
  Reduced r = reduced_form(m);
  for (int i = 0; i < r.n; i++) basis[i] = r.vector[i];
  return r.n;
}

bool f2_solve(const F2Map *m, uint32_t y, uint32_t *x) {
  Reduced r = reduced_form(m);
  uint32_t made_of = 0;
  if (reduce(&r, y, &made_of)) return false;
  *x = made_of;
  return true;
}

bool f2_invert(const F2Map *m, F2Map *out) {
  Reduced r = reduced_form(m);
  if (r.n < m->out_bits) return false;
  *out = (F2Map){.in_bits = m->out_bits, .out_bits = m->in_bits};
  /* onto: each vector is its leading bit alone */
  for (int i = 0; i < r.n; i++) out->column[__builtin_ctz(r.lead[i])] = r.made_of[i];
  return true;
}
