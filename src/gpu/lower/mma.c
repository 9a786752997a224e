/* A product on tensor cores: tiles of 16 by 8 of the accumulator, 16 k's at a time, by mma.m16n8k16 (layout/dot.c).
 *
 * An operand is cut into squares of 8 lines by 8 k's, each a register of the warp: lane 4i + t holds line i's elements
 * 2t and 2t + 1. A tile takes four of a (lines 0-7 and 8-15, k's 0-7 and 8-15) and two of x. Where an operand's
 * registers are held so already, as what one product leaves for the next, two halves become a word and that is all.
 * Else it goes through shared memory in its 16 bits, and ldmatrix brings up to four squares at once:
 *
 *     along k     [line][k]: a square's rows of 16 bytes are lines
 *     across      [k][line]: they are k's, and ldmatrix transposes
 *
 * They come in four registers side by side, which is how a tile wants its four of a, in the order above, and its two of
 * x: so of x both halves of the k's are neighbours, of a the lines.
 *
 * Eight rows fill the banks once when they lie in different sixteenths of 128 bytes. Rows one after the other in
 * memory are a line (or k) apart: where those are 128 bytes or more, the row's number, modulo 8, is xor'ed onto the
 * place of 16 bytes in the line; where they are 64 or 32, the bits of the number that do not tell them apart already.
 * Which way a and x lie makes no other difference, so a tensor and its transpose have one image.
 */
#include "gpu/lower/dot.h"

enum { SQUARE = 3, BANKS = 6 }; /* log2 of a square's side, and of the 16-bit elements that fill the banks */
/* k's of a tile; more tiles than those are a loop, with so many k's an iteration */
enum { TILE_K = 16, TURN_K = 64, MOST_TILES = 256 };

void lower_mma_swizzle(const Dot *d, const DotOperand *o, F2Map *map) {
  int inner = o->along ? d->chunk_bits : o->outer, apart = inner < BANKS ? BANKS - inner : 0;
  for (int i = apart; i < SQUARE; i++) {
    uint32_t row = o->along ? dot_line_begin(&d->shape, o, 1u << i) : dot_k(&d->shape, o, 1u << i);
    map->column[__builtin_ctz(row)] ^= 1u << (SQUARE + i - apart);
  }
}

bool lower_mma_in_registers(Lower *l, const Dot *d, int operand) {
  const Layout *from = d->op->in[operand]->layout, *to = layout_mma_operand(l->cx, d->op, d->layout, operand);
  if (memcmp(from->basis + from->reg_bits, to->basis + to->reg_bits,
             sizeof *to->basis * (size_t)(to->lane_bits + to->warp_bits)))
    return false;
  for (int i = 0; i < to->reg_bits; i++)
    if (layout_find_register(from, to->basis[i]) < 0) return false;
  return true;
}

/* ---- squares ----------------------------------------------------------------------------------------------------- */

typedef struct Squares {
  const DotOperand *o;
  int bits;              /* 2^bits of them along the lines in a thread's registers */
  uint32_t line[F2_MAX]; /* where each bit moves to: a flat index of the operand */
  int bit[F2_MAX];       /* which bit goes with a register bit of the accumulator, or -1 */
  LaneValue *thread;     /* in memory: where the lane's row lies */
  uint32_t thread_bits;  /* which bits that may have set */
  LaneValue *moved;      /* in a loop over k: where its turn begins; its bits are above all that a lane adds */
  LaneValue **word;      /* of the k's at hand, by square | upper half of the k's << bits; NULL: not there yet */
} Squares;

typedef struct Mma {
  Squares a, x;
} Mma;

static void find_squares(Lower *l, const Dot *d, const DotOperand *o, Squares *q) {
  const DotShape *s = &d->shape;
  const Layout *acc = d->layout;
  uint32_t columns[F2_MAX] = {0};
  q->o = o;
  for (int i = 0; i < acc->reg_bits; i++) {
    uint32_t line = dot_line_of(s, o, acc->basis[i]);
    q->bit[i] = line & ~7u ? q->bits : -1;
    if (line & ~7u) q->line[q->bits++] = dot_line_begin(s, o, line);
  }
  q->word = lower_array(l, 2 << q->bits);
  if (o->in_registers) return;
  uint32_t squares[] = {dot_k(s, o, 8), q->bits ? q->line[0] : 0}; /* of lanes 8 to 15, and 16 to 31 */
  if (o->is_a && q->bits) squares[0] = q->line[0], squares[1] = dot_k(s, o, 8);
  for (int i = 0; i < 5 + acc->warp_bits; i++) {
    uint32_t row = i < 3 && o->along ? dot_line_begin(s, o, 1u << i) : dot_k(s, o, 1u << i);
    uint32_t v = i < 3   ? row
                 : i < 5 ? squares[i - 3]
                         : dot_line_begin(s, o, dot_line_of(s, o, acc->basis[acc->reg_bits + i]));
    columns[i] = f2_apply(&o->place.map, v) << o->place.shift;
    q->thread_bits |= columns[i];
  }
  q->thread = lower_linear(l, 5 + acc->warp_bits, columns, l->tid);
}

static uint32_t lines_of(const Squares *q, int square) {
  uint32_t v = 0;
  for (int i = 0; i < q->bits; i++) v ^= square >> i & 1 ? q->line[i] : 0;
  return v;
}

/* A square from registers; k of its first element. */
static LaneValue *from_registers(Lower *l, const Dot *d, const Squares *q, int square, int k) {
  uint32_t at = lines_of(q, square) ^ dot_k(&d->shape, q->o, (uint32_t)k);
  LaneValue *const *regs = q->o->regs;
  int low = layout_find_register(q->o->layout, at),
      high = layout_find_register(q->o->layout, at ^ dot_k(&d->shape, q->o, 1));
  return lane_pack(&l->b, regs[low], regs[high]);
}

/* Both halves of 16 k's from k on (in the chunk) of one square, or of two that differ in bit 0. */
static void from_memory(Lower *l, const Dot *d, Squares *q, int square, int k) {
  LaneBuilder *b = &l->b;
  const Place *p = &q->o->place;
  LaneValue *words[4];
  int two = q->bits > 0;
  square &= ~two;
  uint32_t offset = f2_apply(&p->map, lines_of(q, square) ^ dot_k(&d->shape, q->o, (uint32_t)k)) << p->shift,
           common = offset & q->thread_bits;
  LaneValue *address = common ? lane_2(b, LANE_XOR, LK_B32, q->thread, lane_const(b, LT_B32, common)) : q->thread;
  if (q->moved) address = lane_2(b, LANE_ADD, LK_S32, address, q->moved);
  if (q->o->begin) address = lane_2(b, LANE_ADD, LK_S32, address, q->o->begin);
  lane_ldmatrix(b, 2 << two, !q->o->along, lane_2(b, LANE_ADD, LK_S32, lane_shared(b, p->buffer), address),
                (int64_t)(offset ^ common), p->buffer, words);
  for (int i = 0; i < 2 << two; i++) {
    int next = q->o->is_a && two ? i & 1 : i >> 1, half = q->o->is_a && two ? i >> 1 : i & 1;
    q->word[(square + next) | half << q->bits] = words[i];
  }
}

static LaneValue *word(Lower *l, const Dot *d, Squares *q, int square, int half, int part, int k) {
  LaneValue **w = &q->word[square | half << q->bits];
  if (!*w && q->o->in_registers) *w = from_registers(l, d, q, square, (part << d->chunk_bits) + k + 8 * half);
  if (!*w) from_memory(l, d, q, square, k);
  return *w;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

void lower_mma_begin(Lower *l, Dot *d) {
  Mma *m = d->own = NEW(l->cx->arena, Mma);
  find_squares(l, d, &d->a, &m->a);
  find_squares(l, d, &d->x, &m->x);
}

static int square_of(const Squares *q, const Layout *acc, int r) {
  int square = 0;
  for (int i = 0; i < acc->reg_bits; i++)
    if (r >> i & 1 && q->bit[i] >= 0) square |= 1 << q->bit[i];
  return square;
}

static void take_k(Lower *l, Dot *d, int part, int k) {
  Mma *m = d->own;
  int column = layout_find_register(d->layout, 1), row = layout_find_register(d->layout, 8u << d->shape.n);
  memset(m->a.word, 0, sizeof(LaneValue *) * (size_t)(2 << m->a.bits));
  memset(m->x.word, 0, sizeof(LaneValue *) * (size_t)(2 << m->x.bits));
  for (int r = 0; r < d->n; r++) {
    if (r & (column | row)) continue;
    int at[] = {r, r | column, r | row, r | column | row}, square = square_of(&m->x, d->layout, r);
    LaneValue *a[4], *x[2], *acc[4];
    for (int i = 0; i < 4; i++) a[i] = word(l, d, &m->a, square_of(&m->a, d->layout, at[2 * (i & 1)]), i >> 1, part, k);
    for (int i = 0; i < 2; i++) x[i] = word(l, d, &m->x, square, i, part, k);
    for (int i = 0; i < 4; i++) acc[i] = d->acc[at[i]];
    lane_mma(&l->b, d->kind, a, x, acc);
    for (int i = 0; i < 4; i++) d->acc[at[i]] = acc[i];
  }
}

/* k is a multiple of TURN_K, of which a panel has no more. */
static LaneValue *begin_of(Lower *l, const Dot *d, const Squares *q, LaneValue *k) {
  uint32_t turn = f2_apply(&q->o->place.map, dot_k(&d->shape, q->o, TURN_K));
  return lane_2(&l->b, LANE_SHL, LK_B32, k,
                lane_i32(&l->b, q->o->place.shift + __builtin_ctz(turn) - __builtin_ctz(TURN_K)));
}

void lower_mma_chunk(Lower *l, Dot *d, int part) {
  LaneBuilder *b = &l->b;
  Mma *m = d->own;
  int chunk = 1 << d->chunk_bits;
  if (d->n / 4 * (chunk / TILE_K) <= MOST_TILES || chunk <= TURN_K || d->a.in_registers || d->x.in_registers) {
    for (int k = 0; k < chunk; k += TILE_K) take_k(l, d, part, k);
    return;
  }
  LaneOp *loop = lane_for(b, LK_S32, lane_i32(b, 0), lane_i32(b, chunk), lane_i32(b, TURN_K), d->n, d->acc);
  loop->uniform = 1;
  loop->unroll = 1;
  memcpy(d->acc, loop->body[0]->args + 1, sizeof *d->acc * (size_t)d->n);
  m->a.moved = begin_of(l, d, &m->a, loop->body[0]->args[0]);
  m->x.moved = begin_of(l, d, &m->x, loop->body[0]->args[0]);
  for (int k = 0; k < TURN_K; k += TILE_K) take_k(l, d, part, k);
  lane_yield(b, d->n, d->acc);
  lane_leave(b, loop);
  memcpy(d->acc, loop->out, sizeof *d->acc * (size_t)d->n);
  m->a.moved = m->x.moved = NULL;
}
