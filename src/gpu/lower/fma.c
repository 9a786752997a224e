/* A product by fused multiply-adds, for what tensor cores do not take: of acc[b, m, n] + a[b, m, k] * x[b, k, n] a
 * thread holds some rows by some columns, in a blocked layout, and goes through k in order. A step takes a few k's of
 * each of the thread's lines, and multiplies each row's with each column's:
 *
 *     acc 4 rows by 4 columns, 4 k's:     4 accesses of 16 bytes of a, 4 of x, 64 multiply-adds
 *
 * An operand lies one of two ways, by what its registers have side by side, so that it is written in long accesses:
 *
 *     along k     [line][k]: an access reads some k's of one line. Lanes that differ in the line read at a distance of
 *                 whole lines, which would fall on the same banks: an access's place in its line is xor'ed with bits
 *                 of the line, chosen so that the lines of a warp's lanes differ in them and those of one thread do
 *                 not (then a thread's lines are constants apart)
 *     across      [k][line]: an access reads one k of some lines that lie side by side in the accumulator, too
 *
 * Each addition rounds by what the sum is by then, so that in one chain over all of k errors grow as k does. Sums of
 * f32 are therefore made for each chunk, from nothing, and then added: of 256 terms an error of a third, for twice the
 * accumulator's registers. With more of them than MOST_SUMS there is one chain.
 */
#include "gpu/lower/dot.h"

enum {
  SWIZZLE_BITS = 3, /* 8 accesses of 16 bytes fill the banks once */
  MOST_SUMS = 32    /* registers of an accumulator that are there twice */
};

/* What bits of the line put onto the offset. The lines of a thread's registers get nothing; up to three bits by which
 * the lanes' lines differ get one bit each of an access's place. */
void lower_fma_swizzle(const Dot *d, const DotOperand *o, F2Map *map) {
  const DotShape *s = &d->shape;
  const Layout *layout = d->layout;
  int chunk_bits = d->chunk_bits, access_bits = 4 - lower_kind_shift(d->kind);
  if (!o->along) return;
  uint32_t basis[F2_MAX], lead[F2_MAX];
  int n = 0, regs = 0, bank_bits = access_bits + SWIZZLE_BITS;
  for (int i = 0; i < layout->reg_bits + layout->lane_bits; i++) {
    uint32_t v = dot_line_of(s, o, layout->basis[i]);
    for (int j = 0; j < n; j++)
      if (v & lead[j]) v ^= basis[j];
    if (i == layout->reg_bits) regs = n;
    if (!v) continue;
    lead[n] = v & -v; /* the lowest bit: the others do not have it */
    for (int j = 0; j < n; j++)
      if (basis[j] & lead[n]) basis[j] ^= v;
    basis[n++] = v;
  }
  int next = access_bits;
  for (int j = regs; j < n && next < chunk_bits && next < bank_bits; j++) {
    /* differs in the bank already */
    if (chunk_bits < bank_bits && (basis[j] << chunk_bits & ((1u << bank_bits) - 1))) continue;
    map->column[__builtin_ctz(dot_line_begin(s, o, lead[j]))] ^= 1u << next++;
  }
}

/* ---- a thread's lines -------------------------------------------------------------------------------------------- */

/* Of an operand: the distinct lines of a thread's registers, and where they begin, in bytes. */
typedef struct Lines {
  const DotOperand *o;
  LaneValue *thread;
  uint32_t thread_bits;
  uint32_t *offset;
  int count;
  int *of;              /* for each register of the accumulator, which line */
  int *first, *by_line; /* those registers by line: by_line[first[i] .. first[i + 1] - 1] */
  int vector;           /* elements an access */
  LaneValue **at;       /* at[line * step + u]: what the multiply-adds read */
} Lines;

typedef struct Fma {
  const Dot *d;
  Lines a, x;
  int step; /* k's taken at a time */
} Fma;

static int find_offset(const Lines *o, uint32_t offset) {
  for (int i = 0; i < o->count; i++)
    if (o->offset[i] == offset) return i;
  return -1;
}

static void find_lines(Lower *l, const DotShape *s, Lines *o, const Layout *layout) {
  int n = layout_registers(layout), threads = layout->lane_bits + layout->warp_bits;
  uint32_t columns[F2_MAX] = {0}, of_bit[F2_MAX];
  for (int i = 0; i < layout->reg_bits + threads; i++) {
    uint32_t at = f2_apply(&o->o->place.map, dot_line_begin(s, o->o, dot_line_of(s, o->o, layout->basis[i])))
                  << o->o->place.shift;
    if (i < layout->reg_bits) of_bit[i] = at;
    else o->thread_bits |= columns[i - layout->reg_bits] = at;
  }
  o->thread = lower_linear(l, threads, columns, l->tid);
  o->offset = NEW_N(l->cx->arena, uint32_t, n);
  o->of = NEW_N(l->cx->arena, int, n);
  for (int r = 0; r < n; r++) {
    uint32_t at = 0;
    int found = -1;
    for (int i = 0; i < layout->reg_bits; i++) {
      if (!(r >> i & 1)) continue;
      at ^= of_bit[i];
      if (!of_bit[i] && found < 0) found = o->of[r ^ 1 << i]; /* this bit does not change the line */
    }
    if (found < 0) found = find_offset(o, at);
    if (found < 0) {
      found = o->count++;
      o->offset[found] = at;
    }
    o->of[r] = found;
  }
  o->first = NEW_N(l->cx->arena, int, o->count + 2);
  o->by_line = NEW_N(l->cx->arena, int, n);
  for (int r = 0; r < n; r++) o->first[o->of[r] + 2]++;
  for (int i = 0; i < o->count; i++) o->first[i + 2] += o->first[i + 1];
  for (int r = 0; r < n; r++) o->by_line[o->first[o->of[r] + 1]++] = r;
}

/* How many lines that lie side by side go in one access. */
static int lines_across(const Lines *o) {
  int vector = 1;
  while (vector << o->o->place.shift < 16) {
    uint32_t step = (uint32_t)vector << o->o->place.shift;
    if ((o->thread_bits & step) || o->count < 2 * vector) return vector;
    for (int i = 0; i < o->count; i++)
      if (find_offset(o, o->offset[i] ^ step) < 0) return vector;
    vector *= 2;
  }
  return vector;
}

/* ---- the product ------------------------------------------------------------------------------------------------- */

/* Where a step begins: k elements and, in a loop, `moved` bytes along a line (NULL: 0), which may have these bits set.
 */
typedef struct Step {
  LaneValue *moved;
  uint32_t bits;
  int k;
} Step;

/* k's u to u + vector - 1 of line i. */
static void load_along(Lower *l, const Fma *f, const Lines *o, const Step *s, int i, int u) {
  LaneBuilder *b = &l->b;
  LaneValue *line = s->moved ? lane_2(b, LANE_XOR, LK_B32, o->thread, s->moved) : o->thread;
  uint32_t offset = o->offset[i] ^ (uint32_t)(s->k + u) << o->o->place.shift,
           common = offset & (o->thread_bits | s->bits);
  LaneValue *address = common ? lane_2(b, LANE_XOR, LK_B32, line, lane_const(b, LT_B32, common)) : line;
  address = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, o->o->place.buffer), address);
  lower_vector_load(l, f->d->kind, o->vector, address, offset ^ common, o->o->place.buffer, NULL,
                    &o->at[i * f->step + u]);
}

/* k number u of every line. */
static void load_across(Lower *l, const Fma *f, const Lines *o, const Step *s, int u) {
  LaneBuilder *b = &l->b;
  int shift = o->o->place.shift;
  uint32_t inside = (uint32_t)(o->vector - 1) << shift;
  LaneValue *few[16];
  for (int i = 0; i < o->count; i++) {
    uint32_t offset = o->offset[i], common = offset & o->thread_bits;
    if (offset & inside) continue;
    LaneValue *address = common ? lane_2(b, LANE_XOR, LK_B32, o->thread, lane_const(b, LT_B32, common)) : o->thread;
    if (s->moved)
      address = lane_2(b, LANE_ADD, LK_S32, address, lane_2(b, LANE_SHL, LK_B32, s->moved, lane_i32(b, o->o->outer)));
    address = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, o->o->place.buffer), address);
    int64_t imm = (int64_t)(offset ^ common) + ((int64_t)(s->k + u) << (o->o->outer + shift));
    lower_vector_load(l, f->d->kind, o->vector, address, imm, o->o->place.buffer, NULL, few);
    for (int v = 0; v < o->vector; v++) o->at[find_offset(o, offset ^ (uint32_t)v << shift) * f->step + u] = few[v];
  }
}

static void multiply(Lower *l, const Fma *f, int r, int u, LaneValue **acc) {
  acc[r] =
      lane_3(&l->b, LANE_FMA, f->d->kind, f->a.at[f->a.of[r] * f->step + u], f->x.at[f->x.of[r] * f->step + u], acc[r]);
}

/* How many registers it takes to hold some k's of every line of one operand, and what the other is read in. */
static int registers_holding(const Lines *held, const Lines *other, int some) {
  return held->count * some + (other->o->along ? some : other->count);
}

/* Some k's: those that an access along a line brings. One operand is read whole and held; of the other comes a line, or
 * a k, at a time, and is used up at once, so that beside the accumulator few registers are taken. */
static void take_some(Lower *l, const Fma *f, const Step *s, int from, int some, LaneValue **acc) {
  const Lines *held = &f->a, *other = &f->x;
  if (registers_holding(other, held, some) < registers_holding(held, other, some)) held = &f->x, other = &f->a;
  if (other->o->along || held->o->along) {
    if (held->o->along)
      for (int i = 0; i < held->count; i++) load_along(l, f, held, s, i, from);
    else
      for (int u = from; u < from + some; u++) load_across(l, f, held, s, u);
  }
  if (other->o->along) {
    for (int i = 0; i < other->count; i++) {
      load_along(l, f, other, s, i, from);
      for (int u = from; u < from + some; u++)
        for (int j = other->first[i]; j < other->first[i + 1]; j++) multiply(l, f, other->by_line[j], u, acc);
    }
    return;
  }
  for (int u = from; u < from + some; u++) {
    if (!held->o->along) load_across(l, f, held, s, u);
    load_across(l, f, other, s, u);
    for (int r = 0; r < f->d->n; r++) multiply(l, f, r, u, acc);
  }
}

static void take_step(Lower *l, const Fma *f, const Step *s, LaneValue **acc) {
  int some = 16 >> f->a.o->place.shift < f->step ? 16 >> f->a.o->place.shift : f->step;
  for (int u = 0; u < f->step; u += some) take_some(l, f, s, u, some, acc);
}

static void begin(Lower *l, const Fma *f, Lines *o, const DotOperand *of) {
  int words = 16 >> of->place.shift;
  o->o = of;
  find_lines(l, &f->d->shape, o, f->d->layout);
  o->vector = !of->along ? lines_across(o) : words < f->step ? words : f->step;
  o->at = lower_array(l, o->count * f->step);
}

void lower_fma_begin(Lower *l, Dot *d) {
  Fma *f = d->own = NEW(l->cx->arena, Fma);
  f->d = d;
  f->step = d->n <= 4 ? 16 : d->n <= 16 ? 8 : 4;
  if (f->step > 1 << d->chunk_bits) f->step = 1 << d->chunk_bits;
  begin(l, f, &f->a, &d->a);
  begin(l, f, &f->x, &d->x);
}

/* A chunk's products, added to acc. */
static void take_chunk(Lower *l, const Dot *d, LaneValue **acc) {
  const Fma *f = d->own;
  LaneBuilder *b = &l->b;
  int chunk = 1 << d->chunk_bits, steps = chunk / f->step, shift = d->a.place.shift;
  if (steps == 1 || (int64_t)d->n * chunk <= 512) {
    for (int k = 0; k < chunk; k += f->step) take_step(l, f, &(Step){NULL, 0, k}, acc);
    return;
  }
  LaneOp *loop =
      lane_for(b, LK_S32, lane_i32(b, 0), lane_i32(b, chunk << shift), lane_i32(b, f->step << shift), d->n, acc);
  loop->uniform = 1;
  loop->unroll = 1;
  LaneValue **sums = arena_copy(l->cx->arena, loop->body[0]->args + 1, sizeof(LaneValue *) * (size_t)d->n);
  take_step(l, f, &(Step){loop->body[0]->args[0], (uint32_t)(chunk - f->step) << shift, 0}, sums);
  lane_yield(b, d->n, sums);
  lane_leave(b, loop);
  for (int r = 0; r < d->n; r++) acc[r] = loop->out[r];
}

void lower_fma_chunk(Lower *l, Dot *d) {
  uint64_t bits;
  bool begins = lane_is_const(d->acc[0], &bits); /* there is nothing yet to add to */
  if (begins || d->kind != LK_F32 || d->n > MOST_SUMS || !l->short_sums) {
    take_chunk(l, d, d->acc);
    return;
  }
  LaneValue **part = lower_array(l, d->n);
  for (int r = 0; r < d->n; r++) part[r] = lane_f32(&l->b, 0);
  take_chunk(l, d, part);
  for (int r = 0; r < d->n; r++) d->acc[r] = lane_2(&l->b, LANE_ADD, LK_F32, d->acc[r], part[r]);
}
