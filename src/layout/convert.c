/* Conversions: how registers of one layout become registers of another.
 *
 * Both layouts map places to elements, A and B; element B(r', l', w') must come from some place (r, l, w) with A(r, l,
 * w) the same. What it takes is read off the vectors:
 *
 *     threads' vectors equal, B's registers in the span of A's          each thread has its own: REGISTERS
 *     B's registers and lanes, and what the warps' vectors differ by,
 *     in the span of A's registers and lanes                            each warp has its own: SHUFFLE
 *     else                                                              through shared memory: SHARED (swizzle.c)
 *
 * Shuffles. Solving A(M(r', l')) = B(r', l') gives, linearly, the register and lane that have what (r', l') wants:
 *
 *     M = | Rr Rl |    register  Rr r' + Rl l'
 *         | Lr Ll |    lane      Lr r' + Ll l'
 *
 * In one round a lane can send one register only, so the lanes that receive must all hear different ones (or be copies
 * of each other). Let lane l' receive, in round k, its register k + P l': it hears lane Lr k + S l', S = Lr P + Ll. If
 * S is invertible, lane s knows whom it serves and hence which register is wanted: Rr k + (Rr P + Rl) l' at l' = S^-1
 * (s + Lr k), linear again. P is chosen column by column such that S has full rank, which works whenever the lanes that
 * hold what is wanted are as many as those that want it. A transpose of 4x4 over 4 lanes, by three of four rounds of
 * shuffles (in the first, round 0, each lane keeps its own):
 *
 *     from: reg 1 2 | lane 4 8        M: register = lane', lane = register'       P = 1, S = 1
 *     to:   reg 4 8 | lane 1 2        round k: lane l sends register k ^ l, hears lane k ^ l, receives into register k
 *                                     ^ l
 *
 * Copies in `from` give M freedom: a lane's vector that is zero can be added to Ll at will, so that a lane hears itself
 * where it can. Where warps' vectors differ, M has columns for them too, a constant for each warp: all warps hold
 * copies of a row's maximum, say, and each wants its own few of them. After "Linear Layouts" (arXiv 2505.23819),
 * section 5.3, whose rounds come from a basis; these come from P.
 */
#include "layout/layout.h"

enum { LANES = 5 };

static F2Map part(const Layout *l, int first, int count) {
  F2Map m = {.in_bits = count, .out_bits = l->out_bits};
  memcpy(m.column, l->basis + first, (size_t)count * sizeof *m.column);
  return m;
}

/* The sub-maps of registers, and of registers and lanes. */
static F2Map registers_of(const Layout *l) { return part(l, 0, l->reg_bits); }
static F2Map warp_of(const Layout *l) { return part(l, 0, l->reg_bits + l->lane_bits); }

static bool same_vectors(const Layout *a, const Layout *b, int first, int count) {
  return memcmp(a->basis + a->reg_bits + first, b->basis + b->reg_bits + first, (size_t)count * sizeof *a->basis) == 0;
}

static bool spans(const F2Map *a, const F2Map *b) {
  uint32_t x;
  for (int i = 0; i < b->in_bits; i++)
    if (!f2_solve(a, b->column[i], &x)) return false;
  return true;
}

uint32_t lane_map_apply(const LaneMap *m, uint32_t thread) {
  uint32_t y = m->constant;
  for (int i = 0; i < THREAD_BITS; i++) y ^= thread >> i & 1 ? m->column[i] : 0;
  return y;
}

/* ---- registers --------------------------------------------------------------------------------------------------- */

static bool plan_registers(Context *cx, Convert *c) {
  F2Map a = registers_of(c->from), b = registers_of(c->to);
  if (!same_vectors(c->from, c->to, 0, c->from->lane_bits + c->from->warp_bits) || !spans(&a, &b)) return false;
  c->kind = CONVERT_REGISTERS;
  c->source = NEW_N(cx->arena, int, layout_registers(c->to));
  for (int r = 0; r < layout_registers(c->to); r++)
    c->source[r] = layout_find_register(c->from, layout_register_part(c->to, r));
  return true;
}

/* ---- shuffles ---------------------------------------------------------------------------------------------------- */

static bool independent(const uint32_t *chosen, int n, uint32_t x) {
  F2Map m = {.in_bits = n, .out_bits = F2_MAX};
  uint32_t unused;
  memcpy(m.column, chosen, (size_t)n * sizeof *chosen);
  return !f2_solve(&m, x, &unused);
}

/* The search for P and S, with what they may be made of. Places are register bits, then lane bits, of `from`. */
typedef struct Search {
  int regs_from, regs_to;
  uint32_t m_reg[F2_MAX], m_lane[LANES], m_warp[F2_MAX]; /* M's columns */
  uint32_t free[F2_MAX];                                 /* kernel of A: places that may be added at will */
  int free_count;
  uint32_t column[LANES];      /* M's lane columns as used: + M P + kernel */
  uint32_t s[LANES], p[LANES]; /* S and P */
  bool used[LANES];
} Search;

static uint32_t lane_part(const Search *f, uint32_t place) { return place >> f->regs_from; }
static uint32_t reg_part(const Search *f, uint32_t place) { return place & ((UINT32_C(1) << f->regs_from) - 1); }

/* Makes column i of S equal `want` by adding free places, and registers of `to` where `by_registers`. */
static bool reach(Search *f, int i, uint32_t want, bool by_registers) {
  F2Map way = {.out_bits = LANES};
  for (int j = 0; j < f->free_count; j++) way.column[way.in_bits++] = lane_part(f, f->free[j]);
  if (by_registers)
    for (int j = 0; j < f->regs_to; j++) way.column[way.in_bits++] = lane_part(f, f->m_reg[j]);
  uint32_t x;
  if (!f2_solve(&way, want ^ lane_part(f, f->m_lane[i]), &x)) return false;
  f->s[i] = want;
  f->column[i] = f->m_lane[i];
  f->p[i] = x >> f->free_count;
  for (int j = 0; j < f->free_count; j++) f->column[i] ^= x >> j & 1 ? f->free[j] : 0;
  for (int j = 0; j < f->regs_to; j++) f->column[i] ^= f->p[i] >> j & 1 ? f->m_reg[j] : 0;
  return true;
}

/* Chooses column i of S, independent of the `n` chosen. What costs least comes first: without P (receiving lanes need
 * no exchange of registers), and among these the lane itself. Some candidate is independent whenever the rank suffices:
 * if Ll_i and all Ll_i + w are dependent, so is every w, and everything that can be reached. */
static bool choose_column(Search *f, int i, uint32_t *chosen, int *n) {
  uint32_t self = UINT32_C(1) << i, plain = lane_part(f, f->m_lane[i]);
  bool found = (independent(chosen, *n, self) && reach(f, i, self, false)) ||
               (independent(chosen, *n, plain) && reach(f, i, plain, false));
  for (int j = 0; j < f->free_count && !found; j++) {
    uint32_t s = plain ^ lane_part(f, f->free[j]);
    found = independent(chosen, *n, s) && reach(f, i, s, false);
  }
  if (!found) found = independent(chosen, *n, self) && reach(f, i, self, true);
  for (int j = 0; j < f->regs_to && !found; j++) {
    uint32_t s = plain ^ lane_part(f, f->m_reg[j]);
    found = independent(chosen, *n, s) && reach(f, i, s, true);
  }
  if (!found) return false;
  f->used[i] = true;
  chosen[(*n)++] = f->s[i];
  return true;
}

static bool find_exchange(const Convert *c, Search *f) {
  const Layout *from = c->from, *to = c->to;
  F2Map a = warp_of(from);
  *f = (Search){.regs_from = from->reg_bits, .regs_to = to->reg_bits};
  for (int j = 0; j < to->reg_bits; j++)
    if (!f2_solve(&a, to->basis[j], &f->m_reg[j])) return false;
  for (int i = 0; i < LANES; i++)
    if (!f2_solve(&a, to->basis[to->reg_bits + i], &f->m_lane[i])) return false;
  for (int i = 0; i < from->warp_bits; i++) {
    uint32_t differ = to->basis[to->reg_bits + LANES + i] ^ from->basis[from->reg_bits + LANES + i];
    if (!f2_solve(&a, differ, &f->m_warp[i])) return false;
  }
  f->free_count = f2_kernel(&a, f->free);

  /* First the lanes that want something of their own; then copies, which hear themselves if they can, else the lane
   * they copy. */
  uint32_t chosen[LANES], wanted[LANES];
  int n = 0, wants = 0;
  bool copy[LANES];
  for (int i = 0; i < LANES; i++) {
    uint32_t v = to->basis[to->reg_bits + i];
    copy[i] = v == 0;
    if (copy[i]) continue;
    if (!independent(wanted, wants, v)) return false; /* copies of sums of lanes: rare, left to shared memory */
    wanted[wants++] = v;
    if (!choose_column(f, i, chosen, &n)) return false;
  }
  for (int i = 0; i < LANES; i++)
    if (copy[i] && independent(chosen, n, UINT32_C(1) << i) && reach(f, i, UINT32_C(1) << i, false)) {
      f->used[i] = true;
      chosen[n++] = f->s[i];
    }
  return true;
}

/* The linear map T with T(s_i) = the register that lane s_i is to send, 0 on lanes that nobody hears. */
static void find_send(const Search *f, uint32_t send[LANES]) {
  F2Map basis = {.out_bits = LANES};
  uint32_t value[LANES] = {0};
  for (int i = 0; i < LANES; i++)
    if (f->used[i]) {
      value[basis.in_bits] = reg_part(f, f->column[i]);
      basis.column[basis.in_bits++] = f->s[i];
    }
  for (int i = 0; i < LANES; i++)
    if (independent(basis.column, basis.in_bits, UINT32_C(1) << i)) basis.column[basis.in_bits++] = UINT32_C(1) << i;
  for (int i = 0; i < LANES; i++) {
    uint32_t x = 0;
    f2_solve(&basis, UINT32_C(1) << i, &x);
    send[i] = 0;
    for (int j = 0; j < LANES; j++) send[i] ^= x >> j & 1 ? value[j] : 0;
  }
}

static bool plan_shuffle(Context *cx, Convert *c) {
  Search f;
  if (!find_exchange(c, &f)) return false;
  ConvertRound all = {0}; /* what rounds have in common */
  find_send(&f, all.send.column);
  memcpy(all.receive.column, f.p, sizeof f.p);
  memcpy(all.source.column, f.s, sizeof f.s);
  for (int i = 0; i < c->from->warp_bits; i++) {
    all.source.column[LANES + i] = lane_part(&f, f.m_warp[i]);
    all.send.column[LANES + i] = reg_part(&f, f.m_warp[i]) ^ lane_map_apply(&all.send, lane_part(&f, f.m_warp[i]));
  }
  c->kind = CONVERT_SHUFFLE;
  c->round_count = layout_registers(c->to);
  c->rounds = NEW_N(cx->arena, ConvertRound, c->round_count);
  for (int k = 0; k < c->round_count; k++) {
    ConvertRound *round = &c->rounds[k];
    uint32_t place = 0;
    for (int j = 0; j < f.regs_to; j++) place ^= k >> j & 1 ? f.m_reg[j] : 0;
    *round = all;
    round->receive.constant = (uint32_t)k;
    round->source.constant = lane_part(&f, place);
    round->send.constant = reg_part(&f, place) ^ lane_map_apply(&all.send, lane_part(&f, place));
  }
  return true;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static bool within_warp(const Convert *c) {
  F2Map a = warp_of(c->from), b = warp_of(c->to);
  return same_vectors(c->from, c->to, c->from->lane_bits, c->from->warp_bits) && spans(&a, &b) &&
         !(layout_copies(c->from) >> c->from->lane_bits);
}

Convert *convert_plan_within(Context *cx, const Layout *from, const Layout *to, int elem_bytes, int squares,
                             int shared_limit) {
  Convert *c = NEW(cx->arena, Convert);
  c->from = from;
  c->to = to;
  c->passes = 1;
  if (from == to || plan_registers(cx, c)) return c; /* CONVERT_NONE is 0 */
  Convert shuffle = *c;
  bool can_shuffle = plan_shuffle(cx, &shuffle);
  c->kind = CONVERT_SHARED;
  c->within_warp = within_warp(c);
  convert_find_swizzle(cx, c, elem_bytes, squares, shared_limit);
  if (can_shuffle && convert_cost(&shuffle, elem_bytes) <= convert_cost(c, elem_bytes)) *c = shuffle;
  return c;
}

Convert *convert_plan(Context *cx, const Layout *from, const Layout *to, int elem_bytes, int squares) {
  return convert_plan_within(cx, from, to, elem_bytes, squares, CONVERT_SHARED_LIMIT);
}

int convert_shared_bytes(const Convert *c, int elem_bytes) {
  return c->kind == CONVERT_SHARED ? (elem_bytes << c->from->out_bits) / c->passes : 0;
}

/* ---- cost -------------------------------------------------------------------------------------------------------- */

/* An SM has four schedulers and one path to shared memory, which shuffles take too; so one of these weighs as several
 * arithmetic instructions. Barriers and the way through shared memory are waited for; other warps fill some of that. */
enum { COST_SHUFFLE = 3, COST_WAVEFRONT = 3, COST_BARRIER = 12, COST_ROUND_TRIP = 24 };

static int rank(const LaneMap *m) {
  F2Map map = {.in_bits = THREAD_BITS, .out_bits = F2_MAX};
  memcpy(map.column, m->column, sizeof m->column);
  return f2_rank(&map);
}

bool lane_map_is_lane(const LaneMap *m) {
  for (int i = 0; i < THREAD_BITS; i++)
    if (m->column[i] != (i < LANES ? UINT32_C(1) << i : 0)) return false;
  return m->constant == 0;
}

static int shuffle_cost(const Convert *c, int elem_bytes) {
  int words = elem_bytes > 4 ? elem_bytes / 4 : 1, cost = 0;
  for (int k = 0; k < c->round_count; k++) cost += lane_map_is_lane(&c->rounds[k].source) ? 0 : COST_SHUFFLE * words;
  /* Exchanges before: only what is sent in the end need be made. */
  int have = layout_registers(c->from), want = layout_registers(c->to);
  cost += words * rank(&c->rounds[0].receive) * want;
  for (int i = rank(&c->rounds[0].send); i > 0; i--) {
    cost += words * (want < have ? want : have);
    if (want < have) want *= 2;
  }
  return cost;
}

static int access_cost(const Layout *l, const SquareAccess *s, int vector, int elem_bytes) {
  int words = vector * elem_bytes > 4 ? vector * elem_bytes / 4 : 1, count = layout_registers(l) / vector;
  if (s) {
    words = squares_wavefronts(s);
    count = layout_registers(l) >> (s->word_bits + s->square_bits);
  }
  return count * (COST_WAVEFRONT * words + 2); /* issuing it, and its address */
}

int convert_cost(const Convert *c, int elem_bytes) {
  switch (c->kind) {
    case CONVERT_NONE:
    case CONVERT_REGISTERS: return 0;
    case CONVERT_SHUFFLE: return shuffle_cost(c, elem_bytes);
    case CONVERT_SHARED: break;
  }
  int barriers = c->within_warp ? 2 : 2 * COST_BARRIER * c->passes;
  return COST_ROUND_TRIP * c->passes + barriers + access_cost(c->from, c->write_squares, c->write_vector, elem_bytes) +
         access_cost(c->to, c->read_squares, c->read_vector, elem_bytes);
}
