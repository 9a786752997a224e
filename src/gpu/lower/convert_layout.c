/* convert_layout: a tensor's elements to the threads that another layout names; and tensors in shared memory.
 *
 * convert_plan says how (layout/convert.c):
 *
 *     registers   each thread has what it needs: nothing is emitted, values are renamed
 *     shuffle     rounds of one shuffle each. What a lane sends depends on the lane: a tree of selects over the
 *                 registers that some lane sends, whose branches are bits of the lane. What it receives goes into a
 *                 register that depends on the lane: for each register, a tree of selects over the rounds that may
 *                 bring it.
 *     shared      every element is written by one thread, barrier, every thread reads its own. Where elements lie is a
 *                 linear map (a swizzle) from flat indices; registers whose elements lie side by side go in one
 *                 access of up to 16 bytes.
 *
 * Elements narrower than a word travel in shared memory at their own size and are packed into words by the thread. What
 * several threads hold is written by the elected thread alone: two warps writing one byte, even the same value, is a
 * race.
 *
 * Barriers: here stands the one between the writes and the reads. That a buffer's bytes may still be read by others
 * when it is written again is lane/place_shared.c's concern.
 */
#include "gpu/lower/move.h"

/* ---- one access of several elements ------------------------------------------------------------------------------ */

int lower_kind_shift(LaneKind kind) { return __builtin_ctz((unsigned)(lane_kind_info[kind].bits / 8)); }

LaneType lower_kind_type(LaneKind kind) { return lane_kind_info[kind].type; }

static LaneValue *prmt(Lower *l, LaneValue *x, LaneValue *y, uint32_t selector) {
  return lane_3(&l->b, LANE_PRMT, LK_B32, x, y, lane_const(&l->b, LT_B32, selector));
}

/* The element as bits that may be packed: pred becomes 0 or 1. */
static LaneValue *as_bits(Lower *l, LaneKind kind, LaneValue *v) {
  return kind == LK_PRED ? lane_select(&l->b, v, lane_i32(&l->b, 1), lane_i32(&l->b, 0)) : v;
}

static LaneValue *from_bits(Lower *l, LaneKind kind, LaneValue *v) {
  return kind == LK_PRED ? lane_setp(&l->b, CMP_NE, LK_U32, v, lane_i32(&l->b, 0)) : v;
}

void lower_vector_store(Lower *l, LaneKind kind, int n, LaneValue *const *values, LaneValue *address, int64_t imm,
                        int buffer, LaneValue *guard) {
  int bytes = 1 << lower_kind_shift(kind), count = n;
  LaneValue *words[16];
  LaneKind word = bytes == 1   ? LK_U8
                  : bytes == 2 ? (lower_kind_type(kind) == LT_B16 ? LK_B16 : LK_U16)
                  : bytes == 4 ? LK_B32
                               : LK_B64;
  for (int i = 0; i < n; i++) words[i] = as_bits(l, kind, values[i]);
  if (bytes == 1 && count > 1) {
    for (int i = 0; i < count / 2; i++) words[i] = prmt(l, words[2 * i], words[2 * i + 1], 0x0040);
    word = LK_U16;
    count /= 2;
    bytes = 2;
  }
  if (bytes == 2 && count > 1) {
    for (int i = 0; i < count / 2; i++)
      words[i] = word == LK_B16 ? lane_pack(&l->b, words[2 * i], words[2 * i + 1])
                                : prmt(l, words[2 * i], words[2 * i + 1], 0x5410);
    word = LK_B32;
    count /= 2;
  }
  lane_store(&l->b, SPACE_SHARED, word, count, address, imm, guard, words)->buffer = (int16_t)buffer;
}

void lower_vector_load(Lower *l, LaneKind kind, int n, LaneValue *address, int64_t imm, int buffer, LaneValue *guard,
                       LaneValue **out) {
  LaneBuilder *b = &l->b;
  int bytes = 1 << lower_kind_shift(kind), per_word = bytes * n >= 4 ? 4 / bytes : n,
      words = per_word > 1 ? n / per_word : n;
  if (per_word <= 1) { /* an element is a word of its own, or alone */
    LaneKind word = kind == LK_PRED                   ? LK_U8
                    : bytes == 4                      ? LK_B32
                    : bytes == 8                      ? LK_B64
                    : lower_kind_type(kind) == LT_B16 ? LK_B16
                                                      : kind;
    LaneOp *ld = lane_load(b, SPACE_SHARED, word, n, address, imm, guard, NULL);
    ld->buffer = (int16_t)buffer;
    for (int i = 0; i < n; i++) out[i] = from_bits(l, kind, ld->out[i]);
    return;
  }
  LaneOp *ld = lane_load(b, SPACE_SHARED, bytes * per_word == 2 ? LK_U16 : LK_B32, words, address, imm, guard, NULL);
  ld->buffer = (int16_t)buffer;
  bool is_signed = kind == LK_S8 || kind == LK_S16;
  for (int w = 0; w < words; w++) {
    LaneValue *word = ld->out[w];
    if (lower_kind_type(kind) == LT_B16) {
      lane_unpack(b, word, &out[2 * w], &out[2 * w + 1]);
      continue;
    }
    for (int i = 0; i < per_word; i++)
      out[w * per_word + i] =
          from_bits(l, kind, lane_bfe(b, is_signed ? LK_S32 : LK_U32, word, 8 * bytes * i, 8 * bytes));
  }
}

int lower_shared_bytes(LaneType t) { return t == LT_PRED ? 1 : t == LT_B16 ? 2 : t == LT_B32 ? 4 : 8; }

static LaneKind kind_of_type(LaneType t) { return lane_bits_kind(t); }

LaneValue *lower_shared_load(Lower *l, LaneType t, LaneValue *address, int64_t imm, int buffer) {
  LaneValue *out;
  lower_vector_load(l, kind_of_type(t), 1, address, imm, buffer, NULL, &out);
  return out;
}

void lower_shared_store(Lower *l, LaneType t, LaneValue *address, int64_t imm, int buffer, LaneValue *v,
                        LaneValue *guard) {
  lower_vector_store(l, kind_of_type(t), 1, &v, address, imm, buffer, guard);
}

/* ---- tensors in shared memory ------------------------------------------------------------------------------------ */

Place lower_place(Lower *l, const char *name, LaneKind kind, const F2Map *map, int part_bits) {
  Place p = {.kind = kind, .shift = lower_kind_shift(kind), .map = *map, .part_bits = part_bits};
  p.buffer = lane_buffer(&l->b, name, 1 << (map->out_bits - part_bits + p.shift), 16);
  return p;
}

/* What a layout's registers and threads are in a Place. Offsets are in elements, of one part. */
typedef struct Walk {
  uint32_t reg[F2_MAX], reg_part[F2_MAX]; /* offset and part of each register bit */
  int reg_bits;
  uint32_t thread_part[F2_MAX];
  bool threads_differ;  /* in the part */
  LaneValue *thread;    /* byte offset of the thread */
  uint32_t thread_bits; /* bits that it may have set */
  /* an access has 2^vector_bits registers: r, r ^ vector[0], r ^ vector[1], ... */
  int vector_bits;
  uint32_t vector[4];
  /* lanes for which swap is true write registers r ^ swapped where others write r (spread_lanes); NULL: none do */
  LaneValue *swap;
  int swapped;
} Walk;

static Walk walk_make(Lower *l, const Place *p, const Layout *layout) {
  Walk w = {.reg_bits = layout->reg_bits};
  int low_bits = p->map.out_bits - p->part_bits, threads = layout->lane_bits + layout->warp_bits;
  uint32_t low = low_bits >= 32 ? ~0u : (1u << low_bits) - 1, columns[F2_MAX] = {0};
  for (int i = 0; i < layout->reg_bits; i++) {
    uint32_t at = f2_apply(&p->map, layout->basis[i]);
    w.reg[i] = at & low;
    w.reg_part[i] = p->part_bits ? at >> low_bits : 0;
  }
  for (int i = 0; i < threads; i++) {
    uint32_t at = f2_apply(&p->map, layout->basis[layout->reg_bits + i]);
    columns[i] = (at & low) << p->shift;
    w.thread_bits |= columns[i];
    w.thread_part[i] = p->part_bits ? at >> low_bits : 0;
    w.threads_differ |= w.thread_part[i] != 0;
  }
  w.thread = lower_linear(l, threads, columns, l->tid);
  w.vector_bits = place_vector(&p->map, layout, 1 << p->shift, p->part_bits, w.vector);
  return w;
}

static uint32_t sum_of(const uint32_t *columns, int bits, int x) {
  uint32_t y = 0;
  for (int i = 0; i < bits; i++) y ^= x >> i & 1 ? columns[i] : 0;
  return y;
}

/* Takes from x what the rows of `span` have; 0: it is a sum of them. */
static uint32_t reduce_by(const uint32_t *span, int count, uint32_t x) {
  for (int i = 0; i < count; i++)
    if ((x ^ span[i]) < x) x ^= span[i];
  return x;
}

static int add_to_span(uint32_t *span, int count, uint32_t x) {
  x = reduce_by(span, count, x);
  if (!x) return count;
  int at = count;
  for (; at && span[at - 1] < x; at--) span[at] = span[at - 1];
  span[at] = x;
  return count + 1;
}

/* Lanes that write at once (128 bytes go together) should meet no bank twice. Where two of their bits move an element
 * by the same banks, and a bit of the register's number by others, the lanes that have one of the two write the
 * register with that bit's other value first. The map is the copy engine's (rows of 128 bytes, xor'ed), or swizzle.c
 * would have chosen a better one:
 *
 *     8 bytes a lane, 4 lanes a row: banks +8, +16; of rows +16, +32. Odd rows write their half of +64 first. */
static void spread_lanes(Lower *l, const Place *p, const Layout *layout, Walk *w) {
  enum { BANKS = 128 };
  int bytes = 1 << (w->vector_bits + p->shift), at_once = 0, count = 0, twice = -1;
  int threads = layout->lane_bits + layout->warp_bits;
  uint32_t columns[F2_MAX], span[5];
  if (bytes < 4 || p->part_bits || p->kind == LK_PRED) return;
  while (at_once < 5 && bytes << at_once < BANKS) at_once++;
  for (int i = 0; i < threads; i++) {
    columns[i] = f2_apply(&p->map, layout->basis[layout->reg_bits + i]) << p->shift;
    if (i >= at_once || !columns[i]) continue;
    int before = count;
    count = add_to_span(span, count, columns[i] % BANKS / (uint32_t)bytes);
    if (count == before) twice = i;
  }
  for (int r = 0; r < w->reg_bits && twice >= 0; r++) {
    uint32_t moves = w->reg[r] << p->shift;
    if (moves % (uint32_t)bytes || !reduce_by(span, count, moves % BANKS / (uint32_t)bytes)) continue;
    columns[twice] ^= moves;
    w->thread = lower_linear(l, threads, columns, l->tid);
    w->thread_bits |= moves;
    w->swap = lower_thread_bit(l, twice);
    w->swapped = 1 << r;
    return;
  }
}

/* Where the access that begins with register r lies: an address and an offset. False: in another part, for every
 * thread. */
static bool walk_address(Lower *l, const Place *p, const Walk *w, const Layout *layout, int r, int part,
                         LaneValue **address, int64_t *imm, LaneValue **guard) {
  LaneBuilder *b = &l->b;
  uint32_t reg_part = sum_of(w->reg_part, w->reg_bits, r);
  *guard = NULL;
  if (!w->threads_differ) {
    if (reg_part != (uint32_t)part) return false;
  } else {
    LaneValue *mine = lower_linear(l, layout->lane_bits + layout->warp_bits, w->thread_part, l->tid);
    *guard = lane_setp(b, CMP_EQ, LK_U32, mine, lane_const(b, LT_B32, reg_part ^ (uint32_t)part));
  }
  uint32_t offset = sum_of(w->reg, w->reg_bits, r) << p->shift, common = offset & w->thread_bits;
  LaneValue *thread = common ? lane_2(b, LANE_XOR, LK_B32, w->thread, lane_const(b, LT_B32, common)) : w->thread;
  *address = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, p->buffer), thread);
  if (p->begin) *address = lane_2(b, LANE_ADD, LK_S32, *address, p->begin);
  *imm = (int64_t)(offset ^ common);
  return true;
}

/* The registers of the access that begins with r; false when r is not the first of one. */
static bool walk_group(const Walk *w, int r, int *group) {
  if (sum_of(w->reg, w->reg_bits, r) & ((1u << w->vector_bits) - 1)) return false;
  for (int j = 0; j < 1 << w->vector_bits; j++) group[j] = r ^ (int)sum_of(w->vector, w->vector_bits, j);
  return true;
}

/* Bools lie as bytes; of 32-bit integers addresses may come, and reports do not follow squares (squares_of_type). */
static bool is_moved_by_squares(const Lower *l, LaneKind kind) {
  return !l->divergent && kind != LK_PRED && kind != LK_S32 && kind != LK_U32;
}

int lower_squares_of(const Lower *l, LaneKind kind) { return is_moved_by_squares(l, kind) ? l->f->squares : 0; }

/* Whether all of it goes by squares; then the walk is that of the lanes that name rows. */
static bool walk_squares(Lower *l, const Place *p, const Layout *layout, Walk *w, SquareAccess *s) {
  uint32_t columns[F2_MAX] = {0};
  int threads = layout->lane_bits + layout->warp_bits;
  if (!is_moved_by_squares(l, p->kind) || p->begin) return false;
  if (!squares_place(&p->map, layout, p->shift, p->part_bits, s)) return false;
  memcpy(columns, s->row, sizeof s->row);
  for (int i = layout->lane_bits; i < threads; i++)
    columns[i] = f2_apply(&p->map, layout->basis[layout->reg_bits + i]) << p->shift;
  w->thread_bits = 0;
  for (int i = 0; i < threads; i++) w->thread_bits |= columns[i];
  w->thread = lower_linear(l, threads, columns, l->tid);
  return true;
}

/* To shared memory `from` these registers, or out of it `to` them; the other is NULL. */
static void move_squares(Lower *l, const Place *p, LaneValue *const *from, LaneValue **to, const Layout *layout,
                         int part, const Walk *w, const SquareAccess *s) {
  LaneValue *elected = from ? lower_elected_thread(l, layout) : NULL, *address, *mine, *values[16];
  bool *done = NEW_N(l->cx->arena, bool, 1 << w->reg_bits);
  int64_t imm;
  int group[16];
  for (int r = 0; r < 1 << w->reg_bits; r++) {
    if (done[r] || sum_of(w->reg, w->reg_bits, r) << p->shift & 15) continue;
    if (!walk_address(l, p, w, layout, r, part, &address, &imm, &mine)) continue;
    int n = squares_group(s, r, group);
    if (to) lower_squares_load(l, s, p->kind, address, imm, p->buffer, values);
    for (int j = 0; j < n; j++) {
      if (to) to[group[j]] = values[j];
      else values[j] = from[group[j]];
      done[group[j]] = true;
    }
    if (from) lower_squares_store(l, s, p->kind, values, address, imm, p->buffer, elected);
  }
}

void lower_place_write(Lower *l, const Place *p, LaneValue *const *regs, const Layout *layout, int part) {
  Walk w = walk_make(l, p, layout);
  SquareAccess s;
  if (l->target->sm >= 90 && walk_squares(l, p, layout, &w, &s)) {
    move_squares(l, p, regs, NULL, layout, part, &w, &s);
    return;
  }
  spread_lanes(l, p, layout, &w);
  LaneValue *elected = lower_elected_thread(l, layout), *address, *mine, *values[16];
  int64_t imm;
  int group[16];
  for (int r = 0; r < 1 << w.reg_bits; r++) {
    if (!walk_group(&w, r, group) || !walk_address(l, p, &w, layout, r, part, &address, &imm, &mine)) continue;
    for (int j = 0; j < 1 << w.vector_bits; j++)
      values[j] = w.swap ? lane_select(&l->b, w.swap, regs[group[j] ^ w.swapped], regs[group[j]]) : regs[group[j]];
    lower_vector_store(l, p->kind, 1 << w.vector_bits, values, address, imm, p->buffer, lower_and(l, elected, mine));
  }
}

void lower_place_read(Lower *l, const Place *p, LaneValue **regs, const Layout *layout, int part) {
  Walk w = walk_make(l, p, layout);
  SquareAccess s;
  if (walk_squares(l, p, layout, &w, &s)) {
    move_squares(l, p, NULL, regs, layout, part, &w, &s);
    return;
  }
  LaneValue *address, *mine, *values[16];
  int64_t imm;
  int group[16];
  for (int r = 0; r < 1 << w.reg_bits; r++) {
    if (!walk_group(&w, r, group) || !walk_address(l, p, &w, layout, r, part, &address, &imm, &mine)) continue;
    lower_vector_load(l, p->kind, 1 << w.vector_bits, address, imm, p->buffer, mine, values);
    for (int j = 0; j < 1 << w.vector_bits; j++) {
      LaneValue **to = &regs[group[j]];
      *to = mine && *to ? lane_select(&l->b, mine, values[j], *to) : values[j];
    }
  }
}

void lower_place_copy(Lower *l, const Place *p, LaneValue *const *pointers, LaneValue *const *masks,
                      const Layout *layout, int vector) {
  Walk w = walk_make(l, p, layout);
  LaneValue *address, *mine;
  int64_t imm;
  for (int r = 0; r < 1 << w.reg_bits; r += vector) {
    walk_address(l, p, &w, layout, r, 0, &address, &imm, &mine);
    lane_cp_async(&l->b, vector << p->shift, address, imm, p->buffer, pointers[r], masks ? masks[r] : NULL);
  }
}

/* ---- shuffles ---------------------------------------------------------------------------------------------------- */

LaneValue *lower_thread_bit(Lower *l, int bit) {
  LaneBuilder *b = &l->b;
  return lane_setp(b, CMP_NE, LK_U32, lane_2(b, LANE_AND, LK_B32, l->tid, lane_const(b, LT_B32, 1u << bit)),
                   lane_i32(b, 0));
}

LaneValue *lower_lane_parity(Lower *l, uint32_t mask) {
  LaneBuilder *b = &l->b;
  LaneValue *bits = lane_2(b, LANE_AND, LK_B32, l->tid, lane_const(b, LT_B32, mask));
  if (mask & (mask - 1)) bits = lane_2(b, LANE_AND, LK_B32, lane_1(b, LANE_POPC, LK_B32, bits), lane_i32(b, 1));
  return lane_setp(b, CMP_NE, LK_U32, bits, lane_i32(b, 0));
}

/* The values that a LaneMap takes: constant ^ a sum of basis vectors, where vector j takes part in threads with an odd
 * number of the bits of mask[j]. */
typedef struct Span2 {
  int n;
  uint32_t vector[THREAD_BITS], mask[THREAD_BITS];
} Span2;

static Span2 span_of(const uint32_t *column) {
  Span2 s = {0};
  for (int i = 0; i < THREAD_BITS; i++) { /* Gauss and Jordan: each vector's leading bit is in no other */
    uint32_t v = column[i];
    for (int j = 0; j < s.n; j++)
      if (v >> (31 - __builtin_clz(s.vector[j])) & 1) v ^= s.vector[j];
    if (!v) continue;
    int lead = 31 - __builtin_clz(v);
    for (int j = 0; j < s.n; j++)
      if (s.vector[j] >> lead & 1) s.vector[j] ^= v;
    s.vector[s.n++] = v;
  }
  for (int j = 0; j < s.n; j++) {
    int lead = 31 - __builtin_clz(s.vector[j]);
    for (int i = 0; i < THREAD_BITS; i++) s.mask[j] |= (column[i] >> lead & 1) << i;
  }
  return s;
}

/* of[constant ^ the vectors of this lane] */
static LaneValue *select_from(Lower *l, LaneValue *const *of, const Span2 *s, int j, uint32_t at) {
  if (j == s->n) return of[at];
  LaneValue *clear = select_from(l, of, s, j + 1, at), *set = select_from(l, of, s, j + 1, at ^ s->vector[j]);
  return clear == set ? clear : lane_select(&l->b, lower_lane_parity(l, s->mask[j]), set, clear);
}

static LaneValue **shuffle_rounds(Lower *l, LaneValue **regs, const Convert *plan) {
  LaneBuilder *b = &l->b;
  int n = layout_registers(plan->to);
  LaneValue **out = lower_array(l, n), **received = lower_array(l, plan->round_count),
            **by_constant = lower_array(l, n);
  for (int k = 0; k < plan->round_count; k++) {
    const ConvertRound *r = &plan->rounds[k];
    Span2 s = span_of(r->send.column);
    LaneValue *value = select_from(l, regs, &s, 0, r->send.constant);
    if (lane_map_is_lane(&r->source)) {
      received[k] = value;
      continue;
    }
    LaneMap columns = r->source;
    columns.constant = 0;
    if (lane_map_is_lane(&columns)) { /* the lane and a constant */
      received[k] = lane_shfl(b, SHUFFLE_XOR, value, lane_const(b, LT_B32, r->source.constant));
      continue;
    }
    bool by_warp = false;
    for (int i = 5; i < THREAD_BITS; i++) by_warp |= r->source.column[i] != 0;
    LaneValue *source = by_warp ? lower_linear(l, 5 + plan->from->warp_bits, r->source.column, l->tid)
                                : lower_linear(l, 5, r->source.column, l->lane);
    source = lane_2(b, LANE_XOR, LK_B32, source, lane_const(b, LT_B32, r->source.constant));
    received[k] = lane_shfl(b, SHUFFLE_IDX, value, source);
  }
  /* What a thread receives in a round goes into register constant ^ v, v by the thread: so register i comes from the
   * round of constant i ^ v. The vectors are the same in all rounds (layout.h). */
  Span2 s = span_of(plan->rounds[0].receive.column);
  for (int k = 0; k < plan->round_count; k++) by_constant[plan->rounds[k].receive.constant] = received[k];
  for (int i = 0; i < n; i++) out[i] = select_from(l, by_constant, &s, 0, (uint32_t)i);
  return out;
}

/* ---- from one layout to another ---------------------------------------------------------------------------------- */

static bool is_shared(const Convert *plan) { return plan->kind == CONVERT_SHARED; }

/* A warp reads what it wrote itself: true only when no other warp holds, and writes in its place, what it has; and when
 * there is one pass, since the next one's bytes may be another warp's. */
static bool within_warp(const Convert *plan) {
  return plan->within_warp && plan->passes == 1 && !(layout_copies(plan->from) & ~31u);
}

static LaneValue **without_memory(Lower *l, LaneValue **regs, const Convert *plan) {
  if (plan->kind == CONVERT_NONE) return regs;
  if (plan->kind == CONVERT_SHUFFLE) return shuffle_rounds(l, regs, plan);
  int n = layout_registers(plan->to);
  LaneValue **out = lower_array(l, n);
  for (int i = 0; i < n; i++) out[i] = regs[plan->source[i]];
  return out;
}

/* Rings that tensor maps fill keep their memory from program to program. */
static bool is_beside_rings(const Lower *l) { return l->b.part_warps || (l->f->persistent && l->out->maps); }

void lower_convert_many(Lower *l, const char *name, int n, LaneValue **const *regs, const LaneKind *kinds,
                        const Layout *from, const Layout *to, LaneValue ***out) {
  if (from == to) {
    for (int i = 0; i < n; i++) out[i] = regs[i];
    return;
  }
  Convert **plans = NEW_N(l->cx->arena, Convert *, n);
  Place *places = NEW_N(l->cx->arena, Place, n);
  int passes = 1;
  bool warp = true, any = false;
  int limit = l->target->shared_bytes / l->target->budgets->moved_share;
  if (limit > CONVERT_SHARED_LIMIT) limit = CONVERT_SHARED_LIMIT;
  if (is_beside_rings(l) && limit > l->target->budgets->converted_parted) limit = l->target->budgets->converted_parted;
  for (int i = 0; i < n; i++) {
    plans[i] =
        convert_plan_within(l->cx, from, to, 1 << lower_kind_shift(kinds[i]), lower_squares_of(l, kinds[i]), limit / n);
    if (!is_shared(plans[i])) {
      out[i] = without_memory(l, regs[i], plans[i]);
      continue;
    }
    any = true;
    warp &= within_warp(plans[i]);
    if (plans[i]->passes > passes) passes = plans[i]->passes;
    out[i] = lower_array(l, layout_registers(to));
  }
  if (!any) return;
  for (int i = 0; i < n; i++) {
    if (!is_shared(plans[i])) continue;
    places[i] = lower_place(l, name, kinds[i], &plans[i]->swizzle, __builtin_ctz((unsigned)plans[i]->passes));
    l->out->buffers.at[places[i].buffer].warp_local = warp;
  }
  for (int part = 0; part < passes; part++) {
    if (part) lane_barrier(&l->b, warp);
    for (int i = 0; i < n; i++)
      if (is_shared(plans[i]) && part < plans[i]->passes) lower_place_write(l, &places[i], regs[i], from, part);
    lane_barrier(&l->b, warp);
    for (int i = 0; i < n; i++)
      if (is_shared(plans[i]) && part < plans[i]->passes) lower_place_read(l, &places[i], out[i], to, part);
  }
}

LaneValue **lower_convert_kind(Lower *l, LaneValue **regs, LaneKind kind, const Layout *from, const Layout *to) {
  LaneValue **out;
  lower_convert_many(l, "convert_layout", 1, &regs, &kind, from, to, &out);
  return out;
}

void lower_convert_layout(Lower *l, Op *op) {
  const Value *in = op->in[0], *out = op->out[0];
  lower_set(l, out, lower_convert_kind(l, lower_get(l, in), lane_kind_of(in->type), in->layout, out->layout));
}
