/* Swizzles: where elements lie in shared memory while a conversion goes through it.
 *
 * Offsets in shared memory are bits as well: the lowest say where within a vector, those up to 128 bytes which bank,
 * the rest which row of 32 banks. A swizzle is a basis of the space of elements, one vector for each of these bits:
 *
 *     offset bit   0 .. v-1                      v .. b-1     b .. n-1
 *     held by      V: registers of one thread    banks        rows: K
 *
 * with 2^b elements a row. Two lanes that access at once are in conflict when their elements differ by something in the
 * span of the row bits, for then their bank is the same and the word is not. So K is to be such that no such difference
 * occurs: let P be the span of the writing lanes' vectors, Q of the reading ones'; K must meet both in 0 only. Long
 * vectors go by half or quarter warps, so P and Q have no more dimensions than there are banks, and there is room: with
 * P = I + <a1, a2, ..>, Q = I + <b1, b2, ..>, I = P and Q's intersection, take
 *
 *     K = <a1 + b1, a2 + b2, ..> + a complement of P + Q
 *
 * and every access is free of conflicts. Transposing f32[4,4] over 4 lanes and 4 banks, in small:
 *
 *     written by lanes along columns, P = <1, 2>; read by lanes along rows, Q = <4, 8>; K = <5, 10>, banks <1, 2>
 *         element (row, column) lies at row `row`, bank column ^ row: the classic xor swizzle
 *
 * Vectors. What is in registers on both sides is a vector for both, V; one side, the longer, may go on with E,
 * registers of its own. Where within its vector an element lies must not depend on the thread; so the banks and rows
 * together, U, have to contain the longer side's threads' vectors, and U + E the shorter's. Where lanes g of the
 * shorter side are free to be placed, U gets g + e for an e of E: they then read different places of the vectors, and
 * different banks. Longer vectors that would bring conflicts are weighed against shorter ones. After "Linear Layouts"
 * (arXiv 2505.23819), 5.4.
 */
#include "layout/layout.h"

/* ---- spaces: lists of independent vectors ------------------------------------------------------------------------ */

typedef struct Space {
  int n;
  uint32_t vector[F2_MAX];
  uint32_t reduced[F2_MAX], lead[F2_MAX]; /* reduced by those before it; its leading bit */
} Space;

static uint32_t space_rest(const Space *s, uint32_t x) {
  for (int i = 0; i < s->n; i++) x ^= x & s->lead[i] ? s->reduced[i] : 0;
  return x;
}

static bool space_add(Space *s, uint32_t x) {
  uint32_t rest = space_rest(s, x);
  if (!rest) return false;
  s->vector[s->n] = x;
  s->reduced[s->n] = rest;
  s->lead[s->n++] = UINT32_C(1) << (31 - __builtin_clz(rest));
  return true;
}

static void space_add_all(Space *s, const uint32_t *vectors, int n) {
  for (int i = 0; i < n; i++) space_add(s, vectors[i]);
}

static Space space_sum(const Space *a, const Space *b) {
  Space s = *a;
  space_add_all(&s, b->vector, b->n);
  return s;
}

static Space space_intersection(const Space *a, const Space *b) {
  F2Map m = {.in_bits = a->n + b->n, .out_bits = F2_MAX};
  memcpy(m.column, a->vector, (size_t)a->n * sizeof *a->vector);
  memcpy(m.column + a->n, b->vector, (size_t)b->n * sizeof *b->vector);
  uint32_t kernel[F2_MAX];
  int n = f2_kernel(&m, kernel);
  Space s = {0};
  for (int i = 0; i < n; i++) {
    uint32_t x = 0;
    for (int j = 0; j < a->n; j++) x ^= kernel[i] >> j & 1 ? a->vector[j] : 0;
    space_add(&s, x);
  }
  return s;
}

/* ---- the two sides ----------------------------------------------------------------------------------------------- */

typedef struct Side {
  const Layout *layout;
  uint32_t idle; /* bits of the thread id that must be 0 for the thread to take part */
  Space registers, threads;
} Side;

static Side side_of(const Layout *l, uint32_t idle) {
  Side s = {.layout = l, .idle = idle};
  space_add_all(&s.registers, l->basis, l->reg_bits);
  space_add_all(&s.threads, l->basis + l->reg_bits, l->lane_bits + l->warp_bits);
  return s;
}

/* Lanes of one wavefront: all, or the half or quarter warp that goes at once when each accesses 8 or 16 bytes. */
static Space group(const Side *s, int vector, int elem_bytes) {
  Space g = {0};
  int lanes = s->layout->lane_bits - log2_floor(vector * elem_bytes / 4);
  for (int i = 0; i < lanes; i++)
    if (!(s->idle >> i & 1)) space_add(&g, s->layout->basis[s->layout->reg_bits + i]);
  return g;
}

/* ---- one swizzle, for given vectors ------------------------------------------------------------------------------ */

typedef struct Swizzle {
  bool long_write; /* E belongs to the writing side, else to the reading one */
  bool across;     /* the other one may go by squares across: eight rows, of which a register names two, meet no bank */
  Space v, e;
  F2Map basis; /* offset bit -> vector */
} Swizzle;

/* U: V + E + U is everything, U has the long side's threads, U + E the short side's. See the page above. */
static Space banks_and_rows(const Swizzle *z, const Side *longer, const Side *shorter, const Space *heard, int in_word,
                            int bits) {
  /* hit: what of E the short side's lanes already differ by, or is in their word */
  Space u = longer->threads, hit = {0};
  for (int j = 0; j < in_word; j++) space_add(&hit, UINT32_C(1) << j);
  Space with_e = space_sum(&u, &z->e);
  for (int turn = 0; turn < 2; turn++) /* lanes whose place is given, then those that can be placed */
    for (int i = 0; i < heard->n; i++) {
      uint32_t g = heard->vector[i];
      bool given = !space_rest(&with_e, g);
      if (given != (turn == 0)) continue;
      if (given) { /* g = u + e: which e? */
        F2Map m = {.in_bits = u.n + z->e.n, .out_bits = F2_MAX};
        memcpy(m.column, u.vector, (size_t)u.n * sizeof *u.vector);
        memcpy(m.column + u.n, z->e.vector, (size_t)z->e.n * sizeof *u.vector);
        uint32_t x = 0;
        f2_solve(&m, g, &x);
        space_add(&hit, x >> u.n);
        continue;
      }
      for (int j = 0; j < z->e.n; j++)
        if (space_add(&hit, UINT32_C(1) << j)) {
          g ^= z->e.vector[j];
          break;
        }
      space_add(&u, g);
      space_add(&with_e, g);
    }

  Space all = space_sum(&with_e, &z->v);
  const Space *rest[] = {&shorter->threads, &longer->registers, &shorter->registers};
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < rest[k]->n; i++)
      if (space_add(&all, rest[k]->vector[i])) space_add(&u, rest[k]->vector[i]);
  for (int i = 0; i < bits; i++)
    if (space_add(&all, UINT32_C(1) << i)) space_add(&u, UINT32_C(1) << i);
  return u;
}

/* K: `want` dimensions of U, meeting p and q (both within U, with w in both) in 0 if that can be. The last ones are in
 * no thread's vector. */
static Space rows(const Space *u, const Space *w, const Space *p, const Space *q, const Space *threads, int want) {
  Space registers = *threads, other = space_sum(p, q), top = {0}, middle = {0}, pairs = {0}, k = {0};
  for (int i = 0; i < u->n; i++)
    if (space_add(&registers, u->vector[i])) {
      space_add(&other, u->vector[i]);
      space_add(&top, u->vector[i]);
    }
  for (int i = 0; i < u->n; i++)
    if (space_add(&other, u->vector[i])) space_add(&middle, u->vector[i]);

  Space both = space_intersection(p, q), a = both, b = both;
  space_add_all(&a, p->vector, p->n);
  space_add_all(&b, q->vector, q->n);
  for (int i = both.n; i < a.n && i < b.n; i++) space_add(&pairs, a.vector[i] ^ b.vector[i]);

  int from_top = top.n < want ? top.n : want;
  int from_middle = middle.n < want - from_top ? middle.n : want - from_top;
  int from_pairs = pairs.n < want - from_top - from_middle ? pairs.n : want - from_top - from_middle;
  Space taken = *w;
  space_add_all(&taken, top.vector, from_top);
  space_add_all(&taken, middle.vector, from_middle);
  space_add_all(&taken, pairs.vector, from_pairs);
  for (int i = u->n - 1; i >= 0 && taken.n < w->n + want; i--) /* conflicts, then */
    if (space_add(&taken, u->vector[i])) space_add(&k, u->vector[i]);
  space_add_all(&k, pairs.vector, from_pairs);
  space_add_all(&k, middle.vector, from_middle);
  space_add_all(&k, top.vector, from_top);
  return k;
}

static void find_basis(Swizzle *z, const Side *write, const Side *read, int elem_bytes) {
  const Side *longer = z->long_write ? write : read, *shorter = z->long_write ? read : write;
  int bits = write->layout->out_bits, row = log2_floor(128 / elem_bytes), word = log2_floor(4 / elem_bytes);
  Space p = group(longer, 1 << (z->v.n + z->e.n), elem_bytes), q = group(shorter, 1 << z->v.n, elem_bytes);
  if (z->across) space_add(&q, shorter->layout->basis[0]);
  int in_word = z->v.n >= word ? 0 : z->v.n + z->e.n >= word ? word - z->v.n : z->e.n; /* how much of E */
  Space u = banks_and_rows(z, longer, shorter, &q, in_word, bits);

  Space w = {0}; /* the rest of the word, where vectors are shorter than one */
  for (int i = 0; i < u.n && z->v.n + z->e.n + w.n < word; i++) space_add(&w, u.vector[i]);
  p = space_sum(&w, &p);
  q = space_sum(&w, &q);
  q = space_sum(&q, &z->v);
  space_add_all(&q, z->e.vector, in_word);
  q = space_intersection(&u, &q);
  Space threads = space_sum(&longer->threads, &shorter->threads);
  threads = space_sum(&threads, &z->v);
  threads = space_sum(&threads, &z->e);
  threads = space_sum(&threads, &w);
  Space k = rows(&u, &w, &p, &q, &threads, bits > row ? bits - row : 0);

  z->basis = (F2Map){.out_bits = bits};
  Space low = z->v, used;
  space_add_all(&low, z->e.vector, z->e.n);
  space_add_all(&low, w.vector, w.n);
  used = space_sum(&low, &k);
  for (int i = 0; i < u.n; i++) /* banks */
    if (space_add(&used, u.vector[i])) space_add(&low, u.vector[i]);
  memcpy(z->basis.column, low.vector, (size_t)low.n * sizeof *low.vector);
  memcpy(z->basis.column + low.n, k.vector, (size_t)k.n * sizeof *k.vector);
  z->basis.in_bits = low.n + k.n;
}

/* ---- conflicts --------------------------------------------------------------------------------------------------- */

/* log2 of the wavefronts that a group of lanes takes: distinct words over distinct banks. */
static int conflict_bits(const Side *s, const F2Map *swizzle, int vector, int elem_bytes) {
  Space lanes = group(s, vector, elem_bytes), words = {0}, banks = {0};
  for (int i = 0; i < lanes.n + log2_floor(vector); i++) {
    uint32_t offset = i < lanes.n ? f2_apply(swizzle, lanes.vector[i]) : UINT32_C(1) << (i - lanes.n);
    uint32_t at = (uint32_t)((uint64_t)offset * (uint32_t)elem_bytes / 4);
    space_add(&words, at);
    space_add(&banks, at & 31);
  }
  return words.n - banks.n;
}

double convert_conflicts(const Convert *c, int elem_bytes, bool write) {
  if (c->kind != CONVERT_SHARED) return 1.0;
  const SquareAccess *q = write ? c->write_squares : c->read_squares;
  if (q) return squares_wavefronts(q) >> q->square_bits;
  Side s = write ? side_of(c->from, layout_copies(c->from)) : side_of(c->to, 0);
  return 1 << conflict_bits(&s, &c->swizzle, write ? c->write_vector : c->read_vector, elem_bytes);
}

/* ---- the best ---------------------------------------------------------------------------------------------------- */

/* In units of half a wavefront's time: what an access costs to issue. */
static int access_time(const Side *s, const F2Map *swizzle, int vector, int elem_bytes, bool by_squares) {
  SquareAccess q;
  if (by_squares && squares_place(swizzle, s->layout, log2_floor(elem_bytes), 0, &q))
    return (layout_registers(s->layout) >> (q.word_bits + q.square_bits)) * (2 * squares_wavefronts(&q) + 1);
  int words = vector * elem_bytes > 4 ? vector * elem_bytes / 4 : 1;
  int times = words << conflict_bits(s, swizzle, vector, elem_bytes);
  return (layout_registers(s->layout) / vector) * (2 * times + 1);
}

int place_vector(const F2Map *map, const Layout *l, int elem_bytes, int part_bits, uint32_t *vector) {
  F2Map regs = {.in_bits = l->reg_bits, .out_bits = map->out_bits};
  uint32_t threads = 0;
  int n = 0, low_bits = map->out_bits - part_bits;
  for (int i = 0; i < l->reg_bits; i++) regs.column[i] = f2_apply(map, l->basis[i]);
  for (int i = l->reg_bits; i < l->reg_bits + l->lane_bits + l->warp_bits; i++) threads |= f2_apply(map, l->basis[i]);
  while (n < 4 && elem_bytes << n < 16 && n < low_bits && !(threads >> n & 1) && f2_solve(&regs, 1u << n, &vector[n]))
    n++;
  return n;
}

int place_time(const F2Map *map, const Layout *l, int elem_bytes, bool write, int squares) {
  uint32_t vector[4];
  Side s = side_of(l, write ? layout_copies(l) : 0);
  return access_time(&s, map, 1 << place_vector(map, l, elem_bytes, 0, vector), elem_bytes,
                     squares & (write ? SQUARES_WRITTEN : SQUARES_READ));
}

int convert_time(const Convert *c, int elem_bytes) {
  Side write = side_of(c->from, layout_copies(c->from)), read = side_of(c->to, 0);
  return access_time(&write, &c->swizzle, c->write_vector, elem_bytes, c->write_squares != NULL) +
         access_time(&read, &c->swizzle, c->read_vector, elem_bytes, c->read_squares != NULL);
}

/* V: in registers on both sides, and no thread's vector has a part in it. */
static Space common_vector(const Side *a, const Side *b, int most) {
  Space common = space_intersection(&a->registers, &b->registers), seen = space_sum(&a->threads, &b->threads), v = {0};
  for (int i = 0; i < common.n && v.n < most; i++)
    if (space_add(&seen, common.vector[i])) space_add(&v, common.vector[i]);
  return v;
}

/* E: at most `most` more registers of one side, such that V stays apart from them and all threads. */
static Space more_vector(const Side *s, const Side *other, const Space *v, int most) {
  Space e = {0}, own = space_sum(&s->threads, v), all = space_sum(&s->threads, &other->threads);
  for (int i = 0; i < s->registers.n && e.n < most; i++) {
    uint32_t x = s->registers.vector[i];
    if (!space_rest(&own, x)) continue;
    Space with = all;
    space_add(&with, x);
    int apart = with.n + v->n;
    with = space_sum(&with, v);
    if (with.n < apart) continue;
    space_add(&own, x);
    space_add(&all, x);
    space_add(&e, x);
  }
  return e;
}

/* Registers such that each 2^bits of them in a row hold consecutive offsets. */
static int *access_order(Context *cx, const Layout *l, const Swizzle *z, const F2Map *swizzle, int bits) {
  int *order = NEW_N(cx->arena, int, layout_registers(l)), n = 0;
  for (int r = 0; r < layout_registers(l); r++) {
    uint32_t first = layout_register_part(l, r);
    if (f2_apply(swizzle, first) & ((UINT32_C(1) << bits) - 1)) continue;
    for (uint32_t j = 0; j < UINT32_C(1) << bits; j++)
      order[n++] = layout_find_register(l, first ^ f2_apply(&z->basis, j));
  }
  return order;
}

static const SquareAccess *side_squares(Context *cx, const Convert *c, const Layout *l, int elem_bytes, bool may) {
  SquareAccess s;
  if (!may || !squares_place(&c->swizzle, l, log2_floor(elem_bytes), log2_floor(c->passes), &s)) return NULL;
  return arena_copy(cx->arena, &s, sizeof s);
}

/* What is tried: with 2^n elements of E, and, where squares across may go, with those alone. */
static Swizzle candidate(const Side *write, const Side *read, bool long_write, const Space *v, int n, bool across) {
  const Side *longer = long_write ? write : read, *shorter = long_write ? read : write;
  Swizzle z = {.long_write = long_write, .across = across};
  if (!across) z.v = *v;
  z.e = more_vector(longer, shorter, &z.v, n);
  return z;
}

void convert_find_swizzle(Context *cx, Convert *c, int elem_bytes, int squares, int shared_limit) {
  Side write = side_of(c->from, layout_copies(c->from)), read = side_of(c->to, 0);
  int widest = log2_floor(16 / elem_bytes), best_time = 0, write_bits = 0, read_bits = 0;
  Space v = common_vector(&write, &read, widest);
  Swizzle best = {0};
  for (int w = 0; w < 2; w++) {
    bool across = elem_bytes == 2 && squares & (w ? SQUARES_READ : SQUARES_WRITTEN);
    int most = candidate(&write, &read, w, &v, widest - v.n, false).e.n;
    for (int n = most + across; n >= (w ? 1 : 0); n--) {
      Swizzle z = candidate(&write, &read, w, &v, n > most ? widest : n, n > most);
      if (z.across && z.e.n < widest) continue;
      find_basis(&z, &write, &read, elem_bytes);
      F2Map swizzle;
      f2_invert(&z.basis, &swizzle);
      int writes = z.v.n + (w ? z.e.n : 0), reads = z.v.n + (w ? 0 : z.e.n);
      int time = access_time(&write, &swizzle, 1 << writes, elem_bytes, squares & SQUARES_WRITTEN) +
                 access_time(&read, &swizzle, 1 << reads, elem_bytes, squares & SQUARES_READ);
      if (best_time && time >= best_time) continue;
      best_time = time;
      best = z;
      write_bits = writes;
      read_bits = reads;
      c->swizzle = swizzle;
    }
  }
  c->write_vector = 1 << write_bits;
  c->read_vector = 1 << read_bits;
  c->write_order = access_order(cx, c->from, &best, &c->swizzle, write_bits);
  c->read_order = access_order(cx, c->to, &best, &c->swizzle, read_bits);
  int64_t bytes = (int64_t)elem_bytes << c->from->out_bits;
  for (c->passes = 1; bytes / c->passes > shared_limit && bytes / c->passes > 128;) c->passes *= 2;
  c->write_squares = side_squares(cx, c, c->from, elem_bytes, squares & SQUARES_WRITTEN);
  c->read_squares = side_squares(cx, c, c->to, elem_bytes, squares & SQUARES_READ);
}
