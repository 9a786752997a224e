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
 *
 * Elements of 32 bits must lie along k. Where a's lie across, threads load its words, of one k and two or four rows at
 * a time, which the accumulator's layout has side by side (layout_is_wgmma_loaded). They need not be what the hardware
 * calls neighbours: a row of the product is where its words are. Words of the next k's are loaded while products of the
 * last ones run: a group of products is as large as registers for two allow.
 */
#include "gpu/lower/dot.h"

#include <math.h>

static const double REST = 0x1p-60;

enum { MOST_COLUMNS = 8 }; /* log2 of an instruction's */
/* registers of an instruction's sums in pieces, at least: narrower ones take longer to issue than to multiply */
enum { SPLIT_SUMS = 32 };
enum { WORDS = 4 }; /* of a, that an instruction takes of a thread */

/* Of a descriptor's place. In a cluster the bits above it are the block's number, and would count as a distance. */
enum { PLACE_MASK = 0x3fff };

typedef struct Operand {
  const DotOperand *o;
  DotDescriptor is;  /* the warpgroup's */
  LaneValue *thread; /* loaded: where the thread's words of the first k lie, and what bits that may have set */
  uint32_t thread_bits;
} Operand;

typedef struct Wgmma {
  Operand a, x, rest; /* rest: x's second pieces */
  DotOperand rests;
  uint32_t row;                  /* of the accumulator: what hardware calls 8 rows further */
  int column_bits;               /* log2 of an instruction's columns */
  int block_bits, block[F2_MAX]; /* register bits of the accumulator that number the instructions of one k */
  int steps;                     /* of k in a group of products */
} Wgmma;

/* Which warpgroup, for the assembler to see that it is one number for all of a warp. */
static LaneValue *warpgroup(Lower *l) {
  LaneValue *group = lane_2(&l->b, LANE_SHR, LK_U32, l->tid, lane_i32(&l->b, 7));
  return lane_shfl(&l->b, SHUFFLE_IDX, group, lane_i32(&l->b, 0));
}

/* Lanes 4i + t hold the words of k's number t; rows lie as the accumulator has them. */
static void find_loads(Lower *l, const Dot *d, const DotOperand *o, Operand *p) {
  const Layout *acc = d->layout;
  uint32_t columns[F2_MAX];
  int bits = acc->lane_bits + acc->warp_bits;
  for (int i = 0; i < bits; i++) {
    uint32_t line = dot_line_of(&d->shape, o, acc->basis[acc->reg_bits + i]);
    uint32_t v = i < 2 ? dot_k(&d->shape, o, 1u << i) : dot_line_begin(&d->shape, o, line);
    columns[i] = f2_apply(&o->place.map, v) << o->place.shift;
    p->thread_bits |= columns[i];
  }
  p->thread = lower_linear(l, bits, columns, l->tid);
}

void lower_dot_descriptor(Lower *l, const Dot *d, const DotOperand *o, LaneValue *at, DotDescriptor *p) {
  LaneBuilder *b = &l->b;
  int inner = o->along ? d->chunk_bits : o->outer, panel = dot_panel_bits(d),
      span = inner < panel ? inner : panel; /* log2 of elements */
  uint32_t row = 1u << (span + o->place.shift), rows = 1u << (o->along ? o->outer : d->chunk_bits),
           mode = (uint32_t)(panel - span + 1);
  uint32_t leading = o->along ? 16 : rows * row;
  p->o = o;
  p->high = (8 * row >> 4) | mode << 30;
  p->low = lane_2(b, LANE_SHR, LK_U32, at, lane_i32(b, 4));
  if (l->out->cluster) p->low = lane_2(b, LANE_AND, LK_B32, p->low, lane_i32(b, PLACE_MASK));
  p->low = lane_2(b, LANE_ADD, LK_S32, p->low, lane_const(b, LT_B32, leading >> 4 << 16));
}

LaneValue *lower_dot_descriptor_at(Lower *l, const Dot *d, const DotDescriptor *p, uint32_t v, int k) {
  const DotShape *s = &d->shape;
  uint32_t at = dot_line_begin(s, p->o, dot_line_of(s, p->o, v)) ^ dot_k(s, p->o, (uint32_t)k);
  uint32_t bytes = f2_apply(&p->o->place.map, at) << p->o->place.shift;
  return lane_2(&l->b, LANE_ADD, LK_S32, p->low, lane_const(&l->b, LT_B32, bytes >> 4));
}

static void find_operand(Lower *l, const Dot *d, const DotOperand *o, Operand *p) {
  LaneBuilder *b = &l->b;
  const DotShape *s = &d->shape;
  const Layout *acc = d->layout;
  p->o = o;
  if (o->in_registers) return;
  if (o->loaded) {
    find_loads(l, d, o, p);
    return;
  }
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
  lower_dot_descriptor(l, d, o, at, &p->is);
}

/* In pieces: what the accumulator and both pieces of a leave of a thread's registers, for sums that begin at nothing.
 */
static int registers_of_sums(Lower *l, const Dot *d) {
  int rows = 0;
  for (int i = 0; i < d->layout->reg_bits; i++) rows += d->layout->basis[i] >> d->shape.n != 0;
  int words = 2 * (1 << rows << (d->chunk_bits - 2));
  int left = gpu_thread_registers(l->f->num_warps) - d->n - words - l->target->budgets->beside_words;
  return left > SPLIT_SUMS ? left : SPLIT_SUMS;
}

void lower_wgmma_begin(Lower *l, Dot *d) {
  Wgmma *m = d->own = NEW(l->cx->arena, Wgmma);
  const Layout *acc = d->layout;
  find_operand(l, d, &d->a, &m->a);
  find_operand(l, d, &d->x, &m->x);
  if (d->split) {
    m->rests = (DotOperand){.along = true, .outer = d->x.outer, .place = d->rest};
    find_operand(l, d, &m->rests, &m->rest);
  }
  int registers = gpu_thread_registers(l->out->num_warps) - l->target->budgets->beside_instruction;
  m->row = d->a.loaded ? 1u << d->shape.n : 8u << d->shape.n;
  m->column_bits = 3;
  if (d->promoted) /* acc stays where it is */
    registers = gpu_thread_registers(l->f->num_warps) - l->target->budgets->beside_instruction - d->n;
  if (d->split) registers = registers_of_sums(l, d);
  while (m->column_bits < d->shape.n && m->column_bits < MOST_COLUMNS && 1 << m->column_bits <= registers &&
         layout_find_register(acc, 1u << m->column_bits) >= 0)
    m->column_bits++;
  for (int i = 0; i < acc->reg_bits; i++) {
    uint32_t v = acc->basis[i], inside = ((1u << m->column_bits) - 1) | m->row;
    if (v & ~inside) m->block[m->block_bits++] = i;
  }
  m->steps = 1 << (d->chunk_bits - d->tile_bits);
  while (d->promoted && m->steps > d->promoted) m->steps /= 2;
  if (!d->a.loaded || d->split) return;
  /* two groups at least: a loop's next iteration must not load what products in flight read */
  int sums = d->crowded ? (1 << m->column_bits) / 2 : d->n;
  int words = (gpu_thread_registers(l->f->num_warps) - sums - l->target->budgets->beside_words) / 2;
  if (m->steps > 1) m->steps /= 2;
  while (m->steps > 1 && WORDS * m->steps << (d->crowded ? 0 : m->block_bits) > words) m->steps /= 2;
}

/* Where the words of a k for the rows from this line on lie. */
static LaneValue *address_of(Lower *l, const Dot *d, uint32_t line, int k, int64_t *imm) {
  LaneBuilder *b = &l->b;
  const Operand *p = &((Wgmma *)d->own)->a;
  const Place *place = &p->o->place;
  uint32_t at = dot_line_begin(&d->shape, p->o, line) ^ dot_k(&d->shape, p->o, (uint32_t)k);
  uint32_t offset = f2_apply(&place->map, at) << place->shift, common = offset & p->thread_bits;
  LaneValue *address = common ? lane_2(b, LANE_XOR, LK_B32, p->thread, lane_const(b, LT_B32, common)) : p->thread;
  if (p->o->begin) address = lane_2(b, LANE_ADD, LK_S32, address, p->o->begin);
  *imm = (int64_t)(offset ^ common);
  return lane_2(b, LANE_ADD, LK_S32, lane_shared(b, place->buffer), address);
}

/* The first element of block i. */
static uint32_t block_at(const Dot *d, const Wgmma *m, int i) {
  uint32_t v = 0;
  for (int k = 0; k < m->block_bits; k++)
    if (i >> k & 1) v ^= d->layout->basis[m->block[k]];
  return v;
}

/* tf32 has 10 bits of a fraction. The hardware cuts off what is below, of both operands, so that sums come out too
 * small, by 0.7 * 2^-11 of themselves for each. x's elements it reads from memory; but a word that a thread has loaded
 * is rounded up before, to the next number of 10 bits unless it is one. What both do to a sum is then nothing in the
 * mean: errors are those of numbers rounded to nearest. */
static LaneValue *rounded_up(Lower *l, LaneValue *word) {
  LaneBuilder *b = &l->b;
  LaneValue *power = lane_2(b, LANE_AND, LK_B32, word, lane_const(b, LT_B32, 0xff800000)); /* of two, with the sign */
  return lane_3(b, LANE_FMA, LK_F32, power, lane_f32(b, 0x1p-10f - 0x1p-23f), word);
}

/* The words of a for all blocks of a step: an access brings two rows, or four, which two blocks take. Blocks that
 * differ in columns alone take the same. */
static void load_words(Lower *l, const Dot *d, int k, LaneValue **out) {
  const Wgmma *m = d->own;
  int blocks = 1 << m->block_bits, each = layout_find_register(d->layout, 2u << d->shape.n) == 2 ? 4 : 2;
  LaneValue ***rows = NEW_N(l->cx->arena, LaneValue **, blocks);
  for (int half = 0; half < 2; half++)
    for (int i = 0; i < blocks; i++) {
      int line = (int)dot_line_of(&d->shape, &d->a, block_at(d, m, i)), begin = line & -each, from = 0;
      while ((int)dot_line_of(&d->shape, &d->a, block_at(d, m, from)) != begin) from++;
      if (from == i) {
        rows[i] = lower_array(l, each);
        int64_t imm;
        LaneValue *address = address_of(l, d, (uint32_t)begin, k + 4 * half, &imm);
        lower_vector_load(l, d->kind, each, address, imm, d->a.place.buffer, NULL, rows[i]);
        for (int r = 0; r < each && !d->split; r++) rows[i][r] = rounded_up(l, rows[i][r]);
      }
      for (int r = 0; r < 2; r++) out[WORDS * i + 2 * half + r] = rows[from][line - begin + r];
    }
}

/* The four words of a that a thread holds: rows 8 * (i & 1) further, k's of half a step * (i >> 1). */
static void words_of(Lower *l, const Dot *d, uint32_t v, int k, LaneValue *out[4]) {
  const DotOperand *o = &d->a;
  const DotShape *s = &d->shape;
  for (int i = 0; i < 4; i++) {
    uint32_t line = dot_line_of(s, o, v) + 8 * (uint32_t)(i & 1);
    out[i] =
        lower_mma_word(l, d, o, dot_line_begin(s, o, line) ^ dot_k(s, o, (uint32_t)(k + (4 << d->pack) * (i >> 1))));
    if (d->kind == LK_F32 && !d->split) out[i] = lower_tf32(l, out[i]);
  }
}

/* Accumulator i of the instruction whose block begins at v. */
static int register_of(const Dot *d, uint32_t v, int i) {
  uint32_t row = i >> 1 & 1 ? ((const Wgmma *)d->own)->row : 0, column = 8 * (uint32_t)(i >> 2) + (uint32_t)(i & 1);
  return layout_find_register(d->layout, v ^ row ^ column);
}

static bool all_zero(LaneValue *const *regs, int n) {
  uint64_t bits;
  for (int i = 0; i < n; i++)
    if (!lane_is_const(regs[i], &bits) || bits) return false;
  return true;
}

/* Some steps of k, some of the instructions of each. */
typedef struct Part {
  int step, steps, block, blocks;
} Part;

/* Products of a part, as a group. words: of a, that threads hold, of all blocks of the first step and those after;
 * NULL: it lies in memory. */
static void multiply(Lower *l, Dot *d, const Operand *x, Part p, LaneValue *const *words) {
  LaneBuilder *b = &l->b;
  const Wgmma *m = d->own;
  int n = (1 << m->column_bits) / 2, all = 1 << m->block_bits;
  LaneValue **acc = lower_array(l, n);
  bool mixed;
  LaneKind kind = lower_mma_kind(d, &mixed);
  lane_simple(b, LANE_WGMMA_FENCE, 0, -1);
  for (int i = 0; i < p.steps * p.blocks; i++) {
    int step = i / p.blocks, block = p.block + i % p.blocks, k = (p.step + step) << d->tile_bits;
    uint32_t v = block_at(d, m, block);
    for (int r = 0; r < n; r++) acc[r] = d->acc[register_of(d, v, r)];
    LaneValue *low = words ? NULL : lower_dot_descriptor_at(l, d, &m->a.is, v, k);
    bool zero = all_zero(acc, n);
    lane_wgmma(b, kind, mixed, words != NULL, words ? words + WORDS * (step * all + block) : &low,
               lower_dot_descriptor_at(l, d, &x->is, v, k), m->a.is.high | (uint64_t)x->is.high << 32,
               !words && !d->a.along, !x->o->along, n, zero ? NULL : acc, acc);
    for (int r = 0; r < n; r++) d->acc[register_of(d, v, r)] = acc[r];
  }
  lane_simple(b, LANE_WGMMA_COMMIT, 0, -1);
}

/* Whether a wait after the product, in its block, leaves its last group in flight at most. */
static bool is_waited_for(const Dot *d) {
  for (const Op *op = d->op->next; op; op = op->next)
    if (op->code == OP_DOT_WAIT) return op->pending <= 1;
  return false;
}

/* What has been written is there for all, products of warpgroups too. */
void lower_meet(Lower *l) {
  if (l->wgmma) lane_simple(&l->b, LANE_FENCE_PROXY, 0, -1);
  lane_barrier(&l->b, false);
}

/* ---- in pieces --------------------------------------------------------------------------------------------------- */

LaneValue *lower_rest(Lower *l, LaneValue *x) {
  LaneBuilder *b = &l->b;
  LaneValue *head = lane_2(b, LANE_AND, LK_B32, x, lane_const(b, LT_B32, 0xffffe000)),
            *left = lane_2(b, LANE_SUB, LK_F32, x, head),
            *infinite = lane_setp(b, CMP_EQ, LK_F32, lane_1(b, LANE_ABS, LK_F32, x), lane_f32(b, INFINITY));
  return lane_select(b, infinite, x, lower_tf32(l, lane_3(b, LANE_FMA, LK_F32, x, lane_f32(b, REST), left)));
}

/* x's second pieces, of what lies in memory. */
static void write_rests(Lower *l, const Dot *d) {
  const Value *v = d->op->in[1];
  const Layout *rows = layout_for_rows(l->cx, v->type, l->f->num_warps);
  int n = layout_registers(rows);
  LaneValue **regs = lower_array(l, n);
  Place at = d->x.place;
  at.begin = d->x.begin;
  lower_place_read(l, &at, regs, rows, 0);
  for (int i = 0; i < n; i++) regs[i] = lower_rest(l, regs[i]);
  lower_place_write(l, &d->rest, regs, rows, 0);
  lower_meet(l);
}

/* The words of a step of the chunk, and their second pieces. */
static void words_of_step(Lower *l, const Dot *d, int part, int step, LaneValue **words, LaneValue **rests) {
  const Wgmma *m = d->own;
  int blocks = 1 << m->block_bits, k = step << d->tile_bits;
  if (d->a.loaded) load_words(l, d, k, words);
  for (int i = 0; i < blocks && !d->a.loaded; i++)
    words_of(l, d, block_at(d, m, i), (part << d->chunk_bits) + k, words + WORDS * i);
  for (int i = 0; i < WORDS * blocks; i++) rests[i] = lower_rest(l, words[i]);
}

/* A block's sums have come. */
static void add_block(Lower *l, Dot *d, int block, LaneValue **acc) {
  const Wgmma *m = d->own;
  int n = (1 << m->column_bits) / 2;
  LaneValue **sums = lower_array(l, n);
  for (int r = 0; r < n; r++) sums[r] = d->acc[register_of(d, block_at(d, m, block), r)];
  lane_wgmma_wait(&l->b, 0, n, sums, sums);
  for (int r = 0; r < n; r++) {
    int at = register_of(d, block_at(d, m, block), r);
    acc[at] = lane_2(&l->b, LANE_ADD, LK_F32, acc[at], sums[r]);
  }
}

/* The first product begins as soon as a step's words are there, and threads write x's second pieces meanwhile. As many
 * blocks' sums as there are registers for are in flight at a time. */
static void multiply_pieces(Lower *l, Dot *d, int part) {
  const Wgmma *m = d->own;
  int blocks = 1 << m->block_bits, each = WORDS * blocks, most = registers_of_sums(l, d) >> (m->column_bits - 1);
  LaneValue **words = lower_array(l, each * m->steps), **rests = lower_array(l, each * m->steps), **acc = d->acc;
  if (most < 1) most = 1;
  if (most > blocks) most = blocks;
  d->acc = lower_array(l, d->n);
  for (int i = 0; i < d->n; i++) d->acc[i] = lane_f32(&l->b, 0);
  for (int step = 0; step < m->steps; step++) {
    words_of_step(l, d, part, step, words + each * step, rests + each * step);
    multiply(l, d, &m->x, (Part){step, 1, 0, most}, rests + each * step);
  }
  if (!d->rest_lies) write_rests(l, d);
  for (int i = 0; i < blocks; i += most) {
    Part some = {0, m->steps, i, i + most < blocks ? most : blocks - i};
    if (i) multiply(l, d, &m->x, some, rests);
    multiply(l, d, &m->rest, some, words);
    multiply(l, d, &m->x, some, words);
    for (int k = 0; k < some.blocks; k++) add_block(l, d, i + k, acc);
  }
  d->acc = acc;
  lane_simple(&l->b, LANE_SHARED_READ, 0, d->x.place.buffer);
  lane_simple(&l->b, LANE_SHARED_READ, 0, d->rest.buffer);
}

/* A block's sums have been added to. */
static void wait_for_block(Lower *l, Dot *d, int block) {
  const Wgmma *m = d->own;
  int n = (1 << m->column_bits) / 2;
  LaneValue **sums = lower_array(l, n);
  for (int r = 0; r < n; r++) sums[r] = d->acc[register_of(d, block_at(d, m, block), r)];
  lane_wgmma_wait(&l->b, 0, n, sums, sums);
  for (int r = 0; r < n; r++) d->acc[register_of(d, block_at(d, m, block), r)] = sums[r];
}

/* Of a, that threads hold, for all blocks of the steps from this one on; NULL: it lies in memory. */
static LaneValue **words_from(Lower *l, const Dot *d, int part, int from) {
  const Wgmma *m = d->own;
  int blocks = 1 << m->block_bits;
  if (!d->a.in_registers && !d->a.loaded) return NULL;
  LaneValue **words = lower_array(l, WORDS * m->steps * blocks);
  for (int i = 0; i < m->steps && d->a.loaded; i++)
    load_words(l, d, (from + i) << d->tile_bits, words + WORDS * i * blocks);
  for (int i = 0; i < m->steps * blocks && d->a.in_registers; i++)
    words_of(l, d, block_at(d, m, i % blocks), (part << d->chunk_bits) + ((from + i / blocks) << d->tile_bits),
             words + WORDS * i);
  return words;
}

/* The sums of a block come to registers, and leave them, once: all steps of one block, then those of the next. (A step
 * of all blocks after the other, they would for each: of 256 by 256 on 4 warps, five times as often.) */
static void multiply_by_blocks(Lower *l, Dot *d, int part, int steps) {
  const Wgmma *m = d->own;
  for (int i = 0; i < 1 << m->block_bits; i++) {
    for (int from = 0; from < steps; from += m->steps) {
      multiply(l, d, &m->x, (Part){from, m->steps, i, 1}, words_from(l, d, part, from));
      if (from + m->steps < steps) lane_wgmma_wait(&l->b, 1, 0, NULL, NULL);
    }
    wait_for_block(l, d, i);
  }
}

/* The hardware keeps 13 bits below the first of an fp8 product's sum, and cuts off what is less: errors grow with the
 * number of steps, to 2^-7 of the largest of a row for 8192 k's. So after a group of steps the sums of a block are
 * added to those that threads keep in f32 (max_num_imprecise_acc). */
static void multiply_promoted(Lower *l, Dot *d, int part, int steps) {
  const Wgmma *m = d->own;
  LaneValue **acc = d->acc;
  d->acc = lower_array(l, d->n);
  for (int from = 0; from < steps; from += m->steps) {
    LaneValue **words = words_from(l, d, part, from);
    for (int i = 0; i < d->n; i++) d->acc[i] = lane_f32(&l->b, 0);
    for (int i = 0; i < 1 << m->block_bits; i++) {
      multiply(l, d, &m->x, (Part){from, m->steps, i, 1}, words);
      add_block(l, d, i, acc);
    }
  }
  d->acc = acc;
}

static void multiply_all(Lower *l, Dot *d, int part, int steps) {
  const Wgmma *m = d->own;
  for (int from = 0; from < steps; from += m->steps) {
    multiply(l, d, &m->x, (Part){from, m->steps, 0, 1 << m->block_bits}, words_from(l, d, part, from));
    bool last = from + m->steps == steps; /* registers of the group before are to be free */
    if (!last || (d->a.loaded && d->pending && !is_waited_for(d))) lane_wgmma_wait(&l->b, 1, 0, NULL, NULL);
  }
  bool whole = (part + 1) << d->chunk_bits == 1 << d->shape.k; /* else the next part is written over this one */
  if (!d->pending || !whole) lane_wgmma_wait(&l->b, 0, d->n, d->acc, d->acc);
}

void lower_wgmma_chunk(Lower *l, Dot *d, int part) {
  int steps = 1 << (d->chunk_bits - d->tile_bits);
  if (d->split) {
    multiply_pieces(l, d, part);
    return;
  }
  (d->promoted ? multiply_promoted : d->crowded ? multiply_by_blocks : multiply_all)(l, d, part, steps);
  for (int k = 0; k < 2; k++) {
    const DotOperand *o = k ? &d->x : &d->a;
    if (o->in_registers || o->loaded) continue;
    lane_simple(&l->b, LANE_SHARED_READ, 0, o->place.buffer);
    if (d->pending) vec_push(l->cx->arena, &l->in_flight, o->place.buffer);
  }
}
