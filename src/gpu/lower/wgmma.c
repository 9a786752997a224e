/* A product on the tensor cores of a warpgroup (sm_90a): 64 rows by up to 256 columns of the accumulator, 32 bytes of
 * k's at a time, by wgmma.
 *
 * x, and a unless it is held in registers as the hardware takes it, lie in shared memory, in panels: rows of 128 bytes
 * (64 or 32 where there is less), whose places of 16 bytes are xor'ed with the row's number modulo 8 (4, 2). A
 * descriptor says where a tile begins, in units of 16 bytes, and how far apart things are:
 *
 *     along k     rows are lines        stride: 8 lines further; the next k's: 32 bytes on, or in the next panel
 *     across      rows are k's          stride: 8 k's further; leading: the next panel of lines. Of 16 bits alone
 *
 * which is what the image's map says anyway: a tile begins at map(line, k), where all xor'ed bits are zero. Only the
 * beginning differs between instructions, so that of each operand one word is computed and a constant is added.
 */
#include "gpu/lower/dot.h"

enum { MOST_COLUMNS = 8 }; /* log2 of an instruction's */
enum { BESIDE_SUMS = 32 }; /* registers of a thread that an instruction's sums leave, lest ptxas refuse it */

typedef struct Operand {
  const DotOperand *o;
  LaneValue *low; /* of descriptors: the warpgroup's beginning, and `leading` */
  uint32_t high;
} Operand;

typedef struct Wgmma {
  Operand a, x;
  int column_bits;               /* log2 of an instruction's columns */
  int block_bits, block[F2_MAX]; /* register bits of the accumulator that number the instructions of one k */
} Wgmma;

/* Which warpgroup, for the assembler to see that it is one number for all of a warp. */
static LaneValue *warpgroup(Lower *l) {
  LaneValue *group = lane_2(&l->b, LANE_SHR, LK_U32, l->tid, lane_i32(&l->b, 7));
  return lane_shfl(&l->b, SHUFFLE_IDX, group, lane_i32(&l->b, 0));
}

static void find_operand(Lower *l, const Dot *d, const DotOperand *o, Operand *p) {
  LaneBuilder *b = &l->b;
  const DotShape *s = &d->shape;
  const Layout *acc = d->layout;
  p->o = o;
  if (o->in_registers) return;
  uint32_t columns[F2_MAX] = {0}, any = 0;
  int groups = acc->warp_bits - 2;
  for (int i = 0; i < groups; i++) {
    uint32_t v = acc->basis[acc->reg_bits + acc->lane_bits + 2 + i];
    columns[i] = f2_apply(&o->place.map, dot_line_begin(s, o, dot_line_of(s, o, v))) << o->place.shift;
    any |= columns[i];
  }
  LaneValue *at = lane_shared(b, o->place.buffer);
  if (any) at = lane_2(b, LANE_ADD, LK_S32, at, lower_linear(l, groups, columns, warpgroup(l)));
  if (o->begin) at = lane_2(b, LANE_ADD, LK_S32, at, o->begin);
  int inner = o->along ? d->chunk_bits : o->outer, panel = dot_panel_bits(d),
      span = inner < panel ? inner : panel; /* log2 of elements */
  uint32_t row = 1u << (span + o->place.shift), rows = 1u << (o->along ? o->outer : d->chunk_bits),
           mode = (uint32_t)(panel - span + 1);
  uint32_t leading = o->along ? 16 : rows * row;
  p->high = (8 * row >> 4) | mode << 30;
  p->low = lane_2(b, LANE_SHR, LK_U32, at, lane_i32(b, 4));
  p->low = lane_2(b, LANE_ADD, LK_S32, p->low, lane_const(b, LT_B32, leading >> 4 << 16));
}

void lower_wgmma_begin(Lower *l, Dot *d) {
  Wgmma *m = d->own = NEW(l->cx->arena, Wgmma);
  const Layout *acc = d->layout;
  find_operand(l, d, &d->a, &m->a);
  find_operand(l, d, &d->x, &m->x);
  int registers = gpu_thread_registers(l->out->num_warps) - BESIDE_SUMS;
  m->column_bits = 3;
  while (m->column_bits < d->shape.n && m->column_bits < MOST_COLUMNS && 1 << m->column_bits <= registers &&
         layout_find_register(acc, 1u << m->column_bits) >= 0)
    m->column_bits++;
  for (int i = 0; i < acc->reg_bits; i++) {
    uint32_t v = acc->basis[i], inside = ((1u << m->column_bits) - 1) | 8u << d->shape.n;
    if (v & ~inside) m->block[m->block_bits++] = i;
  }
}

/* The low word of the tile's descriptor that begins at this element of the accumulator, and k (of the chunk). */
static LaneValue *descriptor(Lower *l, const Dot *d, const Operand *p, uint32_t v, int k) {
  const DotShape *s = &d->shape;
  uint32_t at = dot_line_begin(s, p->o, dot_line_of(s, p->o, v)) ^ dot_k(s, p->o, (uint32_t)k);
  uint32_t bytes = f2_apply(&p->o->place.map, at) << p->o->place.shift;
  return lane_2(&l->b, LANE_ADD, LK_S32, p->low, lane_const(&l->b, LT_B32, bytes >> 4));
}

/* The four words of a that a thread holds: rows 8 * (i & 1) further, k's of half a step * (i >> 1). */
static void words_of(Lower *l, const Dot *d, uint32_t v, int k, LaneValue *out[4]) {
  const DotOperand *o = &d->a;
  const DotShape *s = &d->shape;
  for (int i = 0; i < 4; i++) {
    uint32_t line = dot_line_of(s, o, v) + 8 * (uint32_t)(i & 1);
    out[i] =
        lower_mma_word(l, d, o, dot_line_begin(s, o, line) ^ dot_k(s, o, (uint32_t)(k + (4 << d->pack) * (i >> 1))));
  }
}

/* Accumulator i of the instruction whose block begins at v. */
static int register_of(const Dot *d, uint32_t v, int i) {
  uint32_t row = i >> 1 & 1 ? 8u << d->shape.n : 0, column = 8 * (uint32_t)(i >> 2) + (uint32_t)(i & 1);
  return layout_find_register(d->layout, v ^ row ^ column);
}

static bool all_zero(LaneValue *const *regs, int n) {
  uint64_t bits;
  for (int i = 0; i < n; i++)
    if (!lane_is_const(regs[i], &bits) || bits) return false;
  return true;
}

/* The first element of block i. */
static uint32_t block_at(const Dot *d, const Wgmma *m, int i) {
  uint32_t v = 0;
  for (int k = 0; k < m->block_bits; k++)
    if (i >> k & 1) v ^= d->layout->basis[m->block[k]];
  return v;
}

void lower_wgmma_chunk(Lower *l, Dot *d, int part) {
  LaneBuilder *b = &l->b;
  Wgmma *m = d->own;
  int n = (1 << m->column_bits) / 2, chunk = 1 << d->chunk_bits;
  LaneValue **acc = lower_array(l, n), **words = NULL;
  bool mixed;
  LaneKind kind = lower_mma_kind(d, &mixed);
  int step = 1 << d->tile_bits, steps = chunk / step, blocks = 1 << m->block_bits;
  if (d->a.in_registers) { /* before the fence, which makes them seen */
    words = lower_array(l, 4 * steps * blocks);
    for (int i = 0; i < steps * blocks; i++)
      words_of(l, d, block_at(d, m, i % blocks), (part << d->chunk_bits) + i / blocks * step, words + 4 * i);
  }
  lane_simple(b, LANE_WGMMA_FENCE, 0, -1);
  for (int i = 0; i < steps * blocks; i++) {
    int k = i / blocks * step;
    uint32_t v = block_at(d, m, i % blocks);
    for (int r = 0; r < n; r++) acc[r] = d->acc[register_of(d, v, r)];
    LaneValue *low = words ? NULL : descriptor(l, d, &m->a, v, k);
    bool zero = all_zero(acc, n);
    lane_wgmma(b, kind, mixed, words != NULL, words ? words + 4 * i : &low, descriptor(l, d, &m->x, v, k),
               m->a.high | (uint64_t)m->x.high << 32, !words && !d->a.along, !d->x.along, n, zero ? NULL : acc, acc);
    for (int r = 0; r < n; r++) d->acc[register_of(d, v, r)] = acc[r];
  }
  lane_simple(b, LANE_WGMMA_COMMIT, 0, -1);
  if (!d->pending) lane_wgmma_wait(b, 0, d->n, d->acc, d->acc);
  for (int k = 0; k < 2; k++) {
    const DotOperand *o = k ? &d->x : &d->a;
    if (o->in_registers) continue;
    lane_simple(b, LANE_SHARED_READ, 0, o->place.buffer);
    if (d->pending) vec_push(l->cx->arena, &l->in_flight, o->place.buffer);
  }
}
