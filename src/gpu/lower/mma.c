/* A product on tensor cores: tiles of 16 by 8 of the accumulator, 4 words of k's at a time for each of two halves, by
 * mma.m16n8kK (layout/dot.c).
 *
 * An operand is cut into squares of 8 lines by 16 bytes of k's (f64: 32 bytes), each a register of the warp: lane 4i +
 * t holds line i's word t: 4, 2 or 1 elements. A tile takes four of a (lines 0-7 and 8-15, of two squares' k's) and two
 * of x. Where an operand's registers are held so already, as what one product leaves for the next, elements become
 * words and that is all. Else it goes through shared memory, and ldmatrix brings up to four squares at once:
 *
 *     along k     [line][k]: a square's rows of 16 bytes are lines
 *     across      [k][line]: they are k's, and ldmatrix transposes elements of 16 bits. Those of 32 come by loads of
 *                 one each, as do f64, along and across; those of 8 lie along always (lower/dot.c)
 *
 * Squares come in four registers side by side, which is how a tile wants its four of a, in the order above, and its two
 * of x: so of x both halves of the k's are neighbours, of a the lines.
 *
 * Eight rows fill the banks once when they lie in different sixteenths of 128 bytes. Rows one after the other in
 * memory are a line (or k) apart: where those are 128 bytes or more, the row's number, modulo 8, is xor'ed onto the
 * place of 16 bytes in the line; where they are 64 or 32, the bits of the number that do not tell them apart already.
 * Which way a and x lie makes no other difference, so a tensor and its transpose have one image. Loads of single
 * elements meet four rows (of f64, two halves of the warp, one after the other), 8 elements of each (4): there the
 * row's number modulo 4 is xor'ed onto the place of those.
 *
 * Pieces. A number of f32 is a sum of two of tf32, or of two or three of bf16, but for the last bits: each is what the
 * ones before left, its lower bits cut off. A tile's product is then that of all pairs of pieces but the smallest, the
 * small ones first. bf16 takes two squares' k's as one word's: the order of k's is anybody's, if it is that of both.
 *
 * What is cut off has a sign, and adds up over k. So first pieces of tf32 are rounded, not cut: second pieces, what is
 * cut off of them, and the product that is left out then have either sign. And the hardware cuts sums off, to 26 bits
 * or so, each time that it adds to them: so it adds few tiles along k at a time, from nothing, and what comes out is
 * added in f32. Of a sum of 4096 products 2e-7 is missing in the mean, where it was 2.5e-5 (computed with sums cut as
 * on an H100).
 */
#include "gpu/lower/dot.h"

#include <math.h>

/* more tiles than those are a loop, with a panel's k's an iteration; tiles along k of a sum of pieces;
 * sums that are made in turn */
enum { MOST_TILES = 256, MOST_PIECES = 3, SHORT_SUM = 2, TOGETHER = 4 };

/* Lanes' elements come one by one. */
static bool is_loaded_singly(const Dot *d, const DotOperand *o) {
  return d->kind == LK_F64 || (d->pack == 0 && !o->along);
}

void lower_mma_swizzle(const Dot *d, const DotOperand *o, F2Map *map) {
  bool single = is_loaded_singly(d, o);
  int place = (single ? 5 : 4) - lower_kind_shift(d->kind), rows = single ? 2 : 3; /* log2 of elements, and of rows */
  int inner = o->along ? d->chunk_bits : o->outer, banks = dot_panel_bits(d), apart = inner < banks ? banks - inner : 0;
  for (int i = apart; i < rows; i++) {
    uint32_t row = o->along ? dot_line_begin(&d->shape, o, 1u << i) : dot_k(&d->shape, o, 1u << i);
    map->column[__builtin_ctz(row)] ^= 1u << (place + i - apart);
  }
}

bool lower_mma_in_registers(Lower *l, const Dot *d, int operand) {
  const Layout *from = d->op->in[operand]->layout, *to = layout_mma_operand(l->cx, d->op, d->layout, operand, d->pack);
  if (memcmp(from->basis + from->reg_bits, to->basis + to->reg_bits,
             sizeof *to->basis * (size_t)(to->lane_bits + to->warp_bits)))
    return false;
  for (int i = 0; i < to->reg_bits; i++)
    if (layout_find_register(from, to->basis[i]) < 0) return false;
  return true;
}

LaneKind lower_mma_kind(const Dot *d, bool *mixed) {
  *mixed = d->types[0] != d->types[1];
  if (d->pieces == PRECISION_BF16X3 || d->pieces == PRECISION_BF16X6) return LK_BF16;
  return d->types[0] == DT_F8E4NV ? LK_E4M3X2 : d->types[0] == DT_F8E5 ? LK_E5M2X2 : d->kind;
}

static LaneValue *permuted(Lower *l, LaneValue *x, LaneValue *y, uint32_t selector) {
  return lane_3(&l->b, LANE_PRMT, LK_B32, x, y, lane_const(&l->b, LT_B32, selector));
}

LaneValue *lower_mma_word(Lower *l, const Dot *d, const DotOperand *o, uint32_t at) {
  LaneValue *of[4];
  for (int i = 0; i < 1 << d->pack; i++)
    of[i] = o->regs[layout_find_register(o->layout, at ^ dot_k(&d->shape, o, (uint32_t)i))];
  if (d->pack == 0) return of[0];
  if (d->pack == 1) return lane_pack(&l->b, of[0], of[1]);
  return permuted(l, permuted(l, of[0], of[1], 0x0040), permuted(l, of[2], of[3], 0x0040), 0x5410);
}

/* ---- squares ----------------------------------------------------------------------------------------------------- */

typedef struct Squares {
  const DotOperand *o;
  int bits;              /* 2^bits of them along the lines in a thread's registers */
  uint32_t line[F2_MAX]; /* where each bit moves to: a flat index of the operand */
  int bit[F2_MAX];       /* which bit goes with a register bit of the accumulator, or -1 */
  LaneValue *thread;     /* in memory: where the lane's row, or element, lies */
  uint32_t thread_bits;  /* which bits that may have set */
  LaneValue *moved;      /* in a loop over k: where its iteration begins; its bits are above all that a lane adds */
  LaneValue **word;      /* of the k's at hand, by square | which of the tile's k's << bits; NULL: not there yet */
  LaneValue **piece;     /* likewise, by square | (half of the tile's k's | piece << 1) << bits */
  LaneValue **line_bits; /* by square: what first pieces have of the bits of its line's words; NULL: not there yet */
} Squares;

typedef struct Mma {
  Squares a, x;
  LaneKind kind;
  bool mixed;
  int squares; /* of a tile along k: 2, or 4 of which two become one */
  int pieces;
} Mma;

/* A square's k's, and where the next one's begin. */
static int square_k(const Dot *d) { return 4 << d->pack; }

static void find_squares(Lower *l, const Dot *d, const Mma *m, const DotOperand *o, Squares *q) {
  const DotShape *s = &d->shape;
  const Layout *acc = d->layout;
  uint32_t columns[F2_MAX] = {0};
  bool single = is_loaded_singly(d, o);
  q->o = o;
  for (int i = 0; i < acc->reg_bits; i++) {
    uint32_t line = dot_line_of(s, o, acc->basis[i]);
    q->bit[i] = line & ~7u ? q->bits : -1;
    if (line & ~7u) q->line[q->bits++] = dot_line_begin(s, o, line);
  }
  q->word = lower_array(l, SHORT_SUM * m->squares << q->bits);
  q->piece = lower_array(l, SHORT_SUM * 2 * MOST_PIECES << q->bits);
  q->line_bits = lower_array(l, SHORT_SUM << q->bits);
  if (o->in_registers) return;
  /* of lanes 8 to 15, and 16 to 31 */
  uint32_t squares[] = {dot_k(s, o, (uint32_t)square_k(d)), q->bits ? q->line[0] : 0};
  if (o->is_a && q->bits) squares[0] = q->line[0], squares[1] = dot_k(s, o, (uint32_t)square_k(d));
  for (int i = 0; i < 5 + acc->warp_bits; i++) {
    uint32_t row = i < 3 && o->along ? dot_line_begin(s, o, 1u << i) : dot_k(s, o, 1u << i);
    uint32_t element = i < 2 ? dot_k(s, o, 1u << i) : dot_line_begin(s, o, 1u << (i - 2));
    uint32_t v = i >= 5   ? dot_line_begin(s, o, dot_line_of(s, o, acc->basis[acc->reg_bits + i]))
                 : single ? element
                 : i < 3  ? row
                          : squares[i - 3];
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

/* Where the lane finds what begins at this element: an address and an offset. */
static LaneValue *address_of(Lower *l, const Squares *q, uint32_t at, int64_t *imm) {
  LaneBuilder *b = &l->b;
  const Place *p = &q->o->place;
  uint32_t offset = f2_apply(&p->map, at) << p->shift, common = offset & q->thread_bits;
  LaneValue *address = common ? lane_2(b, LANE_XOR, LK_B32, q->thread, lane_const(b, LT_B32, common)) : q->thread;
  if (q->moved) address = lane_2(b, LANE_ADD, LK_S32, address, q->moved);
  if (q->o->begin) address = lane_2(b, LANE_ADD, LK_S32, address, q->o->begin);
  *imm = (int64_t)(offset ^ common);
  return lane_2(b, LANE_ADD, LK_S32, lane_shared(b, p->buffer), address);
}

/* Both of two squares along k (in the chunk) of one square, or of two that differ in bit 0; `which` is even. */
static void from_memory(Lower *l, const Dot *d, Squares *q, int square, int which, int k) {
  const Place *p = &q->o->place;
  LaneValue *words[4];
  int64_t imm;
  int two = q->bits > 0;
  square &= ~two;
  k += which * square_k(d);
  LaneValue *address = address_of(l, q, lines_of(q, square) ^ dot_k(&d->shape, q->o, (uint32_t)k), &imm);
  lane_ldmatrix(&l->b, 2 << two, !q->o->along, address, imm, p->buffer, words);
  for (int i = 0; i < 2 << two; i++) {
    int next = q->o->is_a && two ? i & 1 : i >> 1, half = q->o->is_a && two ? i >> 1 : i & 1;
    q->word[(square + next) | (which + half) << q->bits] = words[i];
  }
}

static LaneValue *word(Lower *l, const Dot *d, Squares *q, int square, int which, int part, int k) {
  LaneValue **w = &q->word[square | which << q->bits];
  const DotOperand *o = q->o;
  if (*w) return *w;
  uint32_t at = lines_of(q, square) ^ dot_k(&d->shape, o, (uint32_t)(k + which * square_k(d)));
  if (o->in_registers) {
    *w = lower_mma_word(l, d, o, at ^ dot_k(&d->shape, o, (uint32_t)part << d->chunk_bits));
  } else if (is_loaded_singly(d, o)) {
    int64_t imm;
    LaneValue *address = address_of(l, q, at, &imm);
    lower_vector_load(l, d->kind, 1, address, imm, o->place.buffer, NULL, w);
  } else {
    from_memory(l, d, q, square, which & ~1, k);
  }
  return *w;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* The upper 16 bits of both, of two. */
static LaneValue *joined(Lower *l, int n, LaneValue *const *of) {
  return n == 2 ? permuted(l, of[0], of[1], 0x7632) : of[0];
}

/* Tensor cores cut a number off at tf32's 10 bits, so that all products shrink. Before, a third of such a last bit is
 * added for each 1 of the fraction, 1 to 2: between a third and two thirds of a bit, so that what is cut is in the mean
 * (of x * error, over fractions as products have them) what was added. What has 10 bits stays what it is, as do
 * infinities and NaN. One instruction, where cvt.rna takes several. */
LaneValue *lower_tf32(Lower *l, LaneValue *word) {
  return lane_2(&l->b, LANE_MUL, LK_F32, word, lane_f32(&l->b, 1 + 0x1p-10f / 3));
}

/* The bits of a number that its first piece has. An infinity's first piece is 2 with its sign, and so the rest of it is
 * itself: the last piece is infinite, which meets the other's first alone. That is nothing only where the other is. */
static LaneValue *bits_of_piece(Lower *l, LaneValue *size, uint32_t bits) {
  LaneBuilder *b = &l->b;
  LaneValue *infinite = lane_setp(b, CMP_EQ, LK_F32, size, lane_f32(b, INFINITY));
  return lane_select(b, infinite, lane_const(b, LT_B32, 0xc0000000), lane_const(b, LT_B32, bits));
}

/* A word's two pieces, the first one rounded. What rounding makes infinite is 2 and the rest, too. */
static void halves(Lower *l, LaneValue *word, LaneValue **out, int apart) {
  LaneBuilder *b = &l->b;
  LaneValue *first = lower_tf32(l, word);
  LaneValue *bits = bits_of_piece(l, lane_1(b, LANE_ABS, LK_F32, first), 0xffffe000);
  out[0] = lane_2(b, LANE_AND, LK_B32, first, bits);
  out[apart] = lane_2(b, LANE_SUB, LK_F32, word, out[0]);
}

static LaneValue *greatest(Lower *l, LaneValue **of, int n) {
  stack_guard();
  LaneBuilder *b = &l->b;
  if (n == 1) return lane_1(b, LANE_ABS, LK_F32, of[0]);
  return lane_2(b, LANE_MAX, LK_F32, greatest(l, of, n / 2), greatest(l, of + n / 2, n - n / 2));
}

/* The same of a line's words in bf16, asked of all of them at once: those beside an infinity are cut as it is, and lose
 * bits in sums that are infinite. (In tf32, where a tile has half as many, that leaves ptxas too few registers.) */
static LaneValue *line_bits(Lower *l, const Dot *d, Squares *q, int square, int part, int k) {
  const Mma *m = d->own;
  LaneValue *of[4], **bits = &q->line_bits[square];
  if (*bits) return *bits;
  for (int which = 0; which < m->squares; which++) of[which] = word(l, d, q, square, which, part, k);
  return *bits = bits_of_piece(l, greatest(l, of, m->squares), 0xffff0000);
}

/* Fills the pieces of one half of a tile's k's. */
static void cut(Lower *l, const Dot *d, Squares *q, int square, int half, int part, int k) {
  const Mma *m = d->own;
  LaneBuilder *b = &l->b;
  LaneValue *of[2] = {NULL, NULL}, *bits = NULL, *head[2], **out = &q->piece[square | half << q->bits];
  int n = m->squares / 2;
  for (int i = 0; i < n; i++) of[i] = word(l, d, q, square, half * n + i, part, k);
  if (d->pieces == PRECISION_TF32X3) {
    halves(l, of[0], out, 2 << q->bits);
    return;
  }
  if (m->pieces > 1) bits = line_bits(l, d, q, square, part, k);
  for (int p = 0; p < m->pieces - 1; p++) {
    for (int i = 0; i < n; i++) {
      head[i] = lane_2(b, LANE_AND, LK_B32, of[i], bits);
      of[i] = lane_2(b, LANE_SUB, LK_F32, of[i], head[i]);
    }
    out[2 * p << q->bits] = joined(l, n, head);
  }
  LaneValue *last = joined(l, n, of);
  if (m->kind == LK_F32 && d->pieces == PRECISION_TF32) last = lower_tf32(l, last);
  out[2 * (m->pieces - 1) << q->bits] = last;
}

static LaneValue *piece(Lower *l, const Dot *d, Squares *q, int square, int half, int which, int part, int k) {
  LaneValue **out = &q->piece[square | (half | which << 1) << q->bits];
  if (!*out) cut(l, d, q, square, half, part, k);
  return *out;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

void lower_mma_begin(Lower *l, Dot *d) {
  static const int pieces[] = {[PRECISION_TF32] = 1,
                               [PRECISION_TF32X3] = 2,
                               [PRECISION_IEEE] = 1,
                               [PRECISION_BF16X3] = 2,
                               [PRECISION_BF16X6] = 3};
  Mma *m = d->own = NEW(l->cx->arena, Mma);
  m->kind = lower_mma_kind(d, &m->mixed);
  m->squares = (1 << d->tile_bits) / square_k(d);
  m->pieces = pieces[d->pieces];
  find_squares(l, d, m, &d->a, &m->a);
  find_squares(l, d, m, &d->x, &m->x);
}

static int square_of(const Squares *q, const Layout *acc, int r) {
  int square = 0;
  for (int i = 0; i < acc->reg_bits; i++)
    if (r >> i & 1 && q->bit[i] >= 0) square |= 1 << q->bit[i];
  return square;
}

/* Whether sums on tensor cores begin at nothing and are added to the accumulator. */
static bool is_apart(const Lower *l, const Mma *m) { return m->pieces > 1 && l->short_sums; }

/* Forgets the words of the k's at hand. */
static void forget(Dot *d) {
  Mma *m = d->own;
  Squares *operands[] = {&m->a, &m->x};
  for (int i = 0; i < 2; i++) {
    memset(operands[i]->word, 0, sizeof(LaneValue *) * (size_t)(SHORT_SUM * m->squares << operands[i]->bits));
    memset(operands[i]->piece, 0, sizeof(LaneValue *) * (size_t)(SHORT_SUM * 2 * MOST_PIECES << operands[i]->bits));
    memset(operands[i]->line_bits, 0, sizeof(LaneValue *) * (size_t)(SHORT_SUM << operands[i]->bits));
  }
}

/* Moves both operands to the words of the next tile's k's, or back. */
static void move_words(Dot *d, int tiles) {
  Mma *m = d->own;
  Squares *operands[] = {&m->a, &m->x};
  for (int i = 0; i < 2; i++) {
    operands[i]->word += tiles * (m->squares << operands[i]->bits);
    operands[i]->piece += tiles * (2 * MOST_PIECES << operands[i]->bits);
    operands[i]->line_bits += tiles * (1 << operands[i]->bits);
  }
}

/* Products of a tile's k's, for the tile of the accumulator that begins at register r: of those pieces of a and of x
 * whose numbers are `size` together. */
static void take_k(Lower *l, Dot *d, int part, int k, int r, int size, LaneValue **acc) {
  Mma *m = d->own;
  int row = layout_find_register(d->layout, 8u << d->shape.n), square = square_of(&m->x, d->layout, r);
  LaneValue *a[4], *x[2];
  for (int p = 0, other = size; p <= size; p++, other--) {
    for (int i = 0; i < 4; i++)
      a[i] = piece(l, d, &m->a, square_of(&m->a, d->layout, i & 1 ? r | row : r), i >> 1, p, part, k);
    for (int i = 0; i < 2; i++) x[i] = piece(l, d, &m->x, square, i, other, part, k);
    lane_mma(&l->b, m->kind, m->mixed, a, x, acc);
  }
}

/* Some k's for some tiles of the accumulator, in turn: who adds to a sum waits for its last product. The least products
 * come first: what is cut off of their sum is nothing beside the others. */
static void take_tiles(Lower *l, Dot *d, int part, int from, int end, const int *r, int n) {
  const Mma *m = d->own;
  LaneBuilder *b = &l->b;
  int column = layout_find_register(d->layout, 1), row = layout_find_register(d->layout, 8u << d->shape.n);
  int tile = 1 << d->tile_bits, tiles = (end - from) / tile;
  LaneValue *acc[TOGETHER][4];
  for (int j = 0; j < n; j++)
    for (int i = 0; i < 4; i++)
      acc[j][i] = is_apart(l, m) ? lane_f32(b, 0) : d->acc[r[j] | (i & 1 ? column : 0) | (i & 2 ? row : 0)];
  for (int size = m->pieces - 1; size >= 0; size--) {
    for (int i = 0; i < tiles; i++, move_words(d, 1))
      for (int j = 0; j < n; j++) take_k(l, d, part, from + i * tile, r[j], size, acc[j]);
    move_words(d, -tiles);
  }
  for (int j = 0; j < n; j++)
    for (int i = 0; i < 4; i++) {
      LaneValue **sum = &d->acc[r[j] | (i & 1 ? column : 0) | (i & 2 ? row : 0)];
      uint64_t bits;
      bool begins = lane_is_const(*sum, &bits) && !bits; /* as the sum on tensor cores did, which is no -0 then */
      *sum = is_apart(l, m) && !begins ? lane_2(b, LANE_ADD, LK_F32, *sum, acc[j][i]) : acc[j][i];
    }
}

/* Of numbers in pieces, sums on tensor cores are short. */
static void take_some(Lower *l, Dot *d, int part, int from, int end) {
  int step = (is_apart(l, d->own) ? SHORT_SUM : 1) << d->tile_bits;
  int inside = layout_find_register(d->layout, 1) | layout_find_register(d->layout, 8u << d->shape.n);
  for (int at = from; at < end; at += step) {
    int r[TOGETHER], n = 0;
    forget(d);
    for (int i = 0; i < d->n; i++) {
      if (i & inside) continue;
      r[n++] = i;
      if (n < TOGETHER && (i | inside) + 1 < d->n) continue;
      take_tiles(l, d, part, at, at + step < end ? at + step : end, r, n);
      n = 0;
    }
  }
}

/* log2 of the k's of a loop's iteration: a panel's, and so many that an iteration's bits are above what a lane adds. */
static int iteration_bits(const Dot *d) { return dot_panel_bits(d); }

/* k is a multiple of an iteration. */
static LaneValue *begin_of(Lower *l, const Dot *d, const Squares *q, LaneValue *k) {
  uint32_t iteration = f2_apply(&q->o->place.map, dot_k(&d->shape, q->o, 1u << iteration_bits(d)));
  return lane_2(&l->b, LANE_SHL, LK_B32, k,
                lane_i32(&l->b, q->o->place.shift + __builtin_ctz(iteration) - iteration_bits(d)));
}

void lower_mma_chunk(Lower *l, Dot *d, int part) {
  LaneBuilder *b = &l->b;
  Mma *m = d->own;
  int chunk = 1 << d->chunk_bits, tile = 1 << d->tile_bits, iteration = 1 << iteration_bits(d);
  if (d->n / 4 * (chunk / tile) <= MOST_TILES || chunk <= iteration || d->a.in_registers || d->x.in_registers) {
    take_some(l, d, part, 0, chunk);
    return;
  }
  LaneOp *loop = lane_for(b, LK_S32, lane_i32(b, 0), lane_i32(b, chunk), lane_i32(b, iteration), d->n, d->acc);
  loop->uniform = 1;
  loop->unroll = 1;
  memcpy(d->acc, loop->body[0]->args + 1, sizeof *d->acc * (size_t)d->n);
  m->a.moved = begin_of(l, d, &m->a, loop->body[0]->args[0]);
  m->x.moved = begin_of(l, d, &m->x, loop->body[0]->args[0]);
  take_some(l, d, part, 0, iteration);
  lane_yield(b, d->n, d->acc);
  lane_leave(b, loop);
  memcpy(d->acc, loop->out, sizeof *d->acc * (size_t)d->n);
  m->a.moved = m->x.moved = NULL;
}
