/* dot without tensor cores: acc[b, m, n] + a[b, m, k] * x[b, k, n] by fused multiply-adds, in the order of k.
 *
 * The accumulator stays in registers, in a blocked layout: a thread holds some rows by some columns of it. a and x go to shared memory, in
 * the type that sums are formed in (f32, f64, or 32- or 64-bit integers; interp/ops_dot.c), a as [m][k] and x as [k][n]. A step takes a few
 * k's: each of the thread's rows reads them in one access along k, each k reads the thread's columns in accesses along n:
 *
 *     acc 4 rows by 4 columns, 4 k's:     4 accesses of a (mostly the same address for many lanes), 4 of x, 64 multiply-adds
 *
 * Lanes that differ in the row read a at a distance of whole rows, which would fall on the same banks: an access's place in its row is
 * xor'ed with bits of the row, chosen so that the rows of a warp's lanes differ in them and those of one thread do not (then a thread's
 * rows are constants apart).
 *
 * When a and x together do not fit, k goes through in chunks: the chunk of an element is the highest bits of its place.
 */
#include "gpu/lower_move.h"

enum { SWIZZLE_BITS = 3 }; /* 8 accesses of 16 bytes fill the banks once */

static int log2_of(int64_t n) { return n > 1 ? 63 - __builtin_clzll((unsigned long long)n) : 0; }

/* ---- types ---- */

static Dtype sum_dtype(Dtype result) {
  if (dtype_is_float(result)) return result == DT_F64 ? DT_F64 : DT_F32;
  return dtype_bits(result) <= 32 ? DT_I32 : DT_I64;
}

/* The registers as another type: what `convert` makes of them. */
static LaneValue **as_dtype(Lower *l, const Op *op, LaneValue **regs, const Type *t, const Layout *layout, Dtype to) {
  if (t->dtype == to) return regs;
  if (dtype_is_int(t->dtype) && dtype_is_int(to) && to != DT_I1 && dtype_bits(t->dtype) <= 32 && dtype_bits(to) <= 32) {
    int n = layout_registers(layout); /* all in 32 bits already; back, the low bits count */
    LaneValue **out = lower_array(l, n);
    LaneKind kind = lane_kind_info[lane_kind_of(t)].bits < 32 && t->dtype != DT_I1 ? LK_B32 : lane_kind_of(&(Type){.dtype = to});
    for (int i = 0; i < n; i++)
      out[i] = t->dtype == DT_I1 ? lane_select(&l->b, regs[i], lane_i32(&l->b, 1), lane_i32(&l->b, 0)) : lane_extend(&l->b, kind, regs[i]);
    return out;
  }
  int id = op->out[0]->id; /* whose registers are not yet known */
  Value in = {.type = t, .layout = layout, .id = id}, out = {.type = type_with_dtype(l->cx, t, to), .layout = layout, .id = id};
  Value *ins = &in, *outs = &out;
  Op convert = {.code = OP_CONVERT, .in_count = 1, .out_count = 1, .in = &ins, .out = &outs, .span = op->span};
  in.def = NULL;
  out.def = &convert;
  lower_set(l, &in, regs);
  lower_convert(l, &convert);
  return lower_get(l, &out);
}

/* ---- where a and x lie ---- */

typedef struct Shape { int m, n, k, batch; } Shape; /* log2 */

/* In each, the bits of k above the chunk's are the highest of the offset. */
static F2Map place_of_a(const Shape *s, int chunk_bits, uint32_t *const swizzle) {
  int total = s->batch + s->m + s->k;
  F2Map map = {.in_bits = total, .out_bits = total};
  for (int i = 0; i < total; i++) {
    int to = i < chunk_bits ? i : i < s->k ? total - s->k + i : chunk_bits + i - s->k;
    map.column[i] = 1u << to ^ (i >= s->k ? swizzle[i - s->k] : 0);
  }
  return map;
}

static F2Map place_of_x(const Shape *s, int chunk_bits) {
  int total = s->batch + s->k + s->n;
  F2Map map = {.in_bits = total, .out_bits = total};
  for (int i = 0; i < total; i++) {
    int top = s->n + s->k, to = i < s->n + chunk_bits ? i : i < top ? total - top + i : i - s->k + chunk_bits;
    map.column[i] = 1u << to;
  }
  return map;
}

/* A flat index of the accumulator as that of its row in a (k = 0), and of its column in x. */
static uint32_t row_of(const Shape *s, uint32_t v) { return v >> s->n << s->k; }
static uint32_t column_of(const Shape *s, uint32_t v) {
  return (v & ((1u << s->n) - 1)) | v >> (s->n + s->m) << (s->n + s->k);
}

/* swizzle[i]: what bit i of the row (batch and m) puts onto the offset. The rows of a thread's registers get nothing; up to three bits by
 * which the lanes' rows differ get one bit each of an access's place. */
static void choose_swizzle(const Shape *s, const Layout *layout, int chunk_bits, int access_bits, int bank_bits, uint32_t *swizzle) {
  uint32_t basis[F2_MAX], lead[F2_MAX];
  int n = 0, regs = 0;
  for (int i = 0; i < layout->reg_bits + layout->lane_bits; i++) {
    uint32_t v = row_of(s, layout->basis[i]) >> s->k;
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
    if (chunk_bits < bank_bits && (basis[j] << chunk_bits & ((1u << bank_bits) - 1))) continue; /* differs in the bank already */
    swizzle[__builtin_ctz(lead[j])] |= 1u << next++;
  }
}

/* ---- one operand as the loop reads it ---- */

/* The distinct places of a thread's registers: rows of a, columns of x. */
typedef struct Side {
  LaneValue *thread;   /* byte offset */
  uint32_t thread_bits;
  uint32_t *offset;    /* of each distinct one, in bytes */
  int count;
  int *of;             /* for each register, which */
} Side;

static Side side_make(Lower *l, const Shape *s, const Layout *layout, const Place *p, uint32_t (*index)(const Shape *, uint32_t)) {
  Side side = {0};
  int n = layout_registers(layout), threads = layout->lane_bits + layout->warp_bits;
  uint32_t columns[F2_MAX] = {0};
  for (int i = 0; i < threads; i++) {
    columns[i] = f2_apply(&p->map, index(s, layout->basis[layout->reg_bits + i])) << p->shift;
    side.thread_bits |= columns[i];
  }
  side.thread = lower_linear(l, threads, columns, l->tid);
  side.offset = NEW_N(l->cx->arena, uint32_t, n);
  side.of = NEW_N(l->cx->arena, int, n);
  /* Register r is register r without its lowest bit, moved by that bit's vector: new, or, when the vector is zero here, the same. */
  for (int r = 0; r < n; r++) {
    uint32_t at = f2_apply(&p->map, index(s, layout_register_part(layout, r))) << p->shift;
    int found = -1;
    for (int i = 0; i < layout->reg_bits && found < 0; i++)
      if ((r >> i & 1) && f2_apply(&p->map, index(s, layout->basis[i])) == 0) found = side.of[r ^ 1 << i];
    for (int i = 0; i < side.count && found < 0; i++)
      if (side.offset[i] == at) found = i;
    if (found < 0) {
      found = side.count++;
      side.offset[found] = at;
    }
    side.of[r] = found;
  }
  return side;
}

static int side_find(const Side *s, uint32_t offset) {
  for (int i = 0; i < s->count; i++)
    if (s->offset[i] == offset) return i;
  return -1;
}

/* How many of x's columns go in one access. */
static int side_vector(const Side *s, int shift) {
  int vector = 1;
  while (vector << shift < 16) {
    uint32_t step = (uint32_t)vector << shift;
    if ((s->thread_bits & step) || s->count < 2 * vector) return vector;
    for (int i = 0; i < s->count; i++)
      if (side_find(s, s->offset[i] ^ step) < 0) return vector;
    vector *= 2;
  }
  return vector;
}

/* ---- the product ---- */

typedef struct Dot {
  Shape shape;
  LaneKind kind;
  Place a, x;
  Side rows, columns;
  int n;          /* registers of the accumulator */
  int step;       /* k's taken at a time */
  int vector;     /* columns an access */
  LaneValue **acc;
} Dot;

/* step k's from `at` on: at, a multiple of step, as bytes along a row of a (NULL: 0), or as k when it is known. */
static void take_step(Lower *l, const Dot *d, LaneValue *at, uint32_t at_bits, int k, LaneValue **acc) {
  LaneBuilder *b = &l->b;
  int shift = d->a.shift, step = d->step, along = 16 >> shift < step ? 16 >> shift : step;
  LaneValue **a = lower_array(l, d->rows.count * step), **x = lower_array(l, d->columns.count), *few[16];
  uint32_t moving = d->rows.thread_bits | at_bits;
  LaneValue *row = at ? lane_2(b, LANE_XOR, LK_B32, d->rows.thread, at) : d->rows.thread;
  for (int i = 0; i < d->rows.count; i++)
    for (int u = 0; u < step; u += along) {
      uint32_t offset = d->rows.offset[i] ^ (uint32_t)(k + u) << shift, common = offset & moving;
      LaneValue *address = common ? lane_2(b, LANE_XOR, LK_B32, row, lane_const(b, LT_B32, common)) : row;
      address = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, d->a.buffer), address);
      lower_vector_load(l, d->kind, along, address, offset ^ common, d->a.buffer, NULL, &a[i * step + u]);
    }
  LaneValue *column = d->columns.thread;
  if (at) column = lane_2(b, LANE_ADD, LK_S32, column, lane_2(b, LANE_SHL, LK_B32, at, lane_i32(b, d->shape.n)));
  column = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, d->x.buffer), column);
  uint32_t inside = (uint32_t)(d->vector - 1) << shift;
  for (int u = 0; u < step; u++) {
    for (int i = 0; i < d->columns.count; i++) {
      uint32_t offset = d->columns.offset[i];
      if (offset & inside) continue;
      uint32_t common = offset & d->columns.thread_bits;
      LaneValue *address = column;
      if (common) { /* a register's bit that the thread has too: the xor comes before the base */
        address = lane_2(b, LANE_XOR, LK_B32, d->columns.thread, lane_const(b, LT_B32, common));
        if (at) address = lane_2(b, LANE_ADD, LK_S32, address, lane_2(b, LANE_SHL, LK_B32, at, lane_i32(b, d->shape.n)));
        address = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, d->x.buffer), address);
      }
      int64_t imm = (int64_t)(offset ^ common) + ((int64_t)(k + u) << (d->shape.n + shift));
      lower_vector_load(l, d->kind, d->vector, address, imm, d->x.buffer, NULL, few);
      for (int v = 0; v < d->vector; v++) x[side_find(&d->columns, offset ^ (uint32_t)v << shift)] = few[v];
    }
    for (int r = 0; r < d->n; r++)
      acc[r] = lane_3(b, LANE_FMA, d->kind, a[d->rows.of[r] * step + u], x[d->columns.of[r]], acc[r]);
  }
}

static void take_chunk(Lower *l, Dot *d, int chunk) {
  LaneBuilder *b = &l->b;
  int steps = chunk / d->step, shift = d->a.shift;
  if (steps == 1 || (int64_t)d->n * chunk <= 512) {
    for (int k = 0; k < chunk; k += d->step) take_step(l, d, NULL, 0, k, d->acc);
    return;
  }
  LaneOp *loop = lane_for(b, LK_S32, lane_i32(b, 0), lane_i32(b, chunk << shift), lane_i32(b, d->step << shift), d->n, d->acc);
  loop->uniform = 1;
  LaneValue **acc = arena_copy(l->cx->arena, loop->body[0]->args + 1, sizeof(LaneValue *) * (size_t)d->n);
  take_step(l, d, loop->body[0]->args[0], (uint32_t)(chunk - d->step) << shift, 0, acc);
  lane_yield(b, d->n, acc);
  lane_leave(b, loop);
  for (int r = 0; r < d->n; r++) d->acc[r] = loop->out[r];
}

void lower_dot(Lower *l, Op *op) {
  const Value *a = op->in[0], *x = op->in[1], *c = op->in[2], *out = op->out[0];
  const Type *ta = a->type, *tx = x->type;
  int rank = ta->rank;
  Shape s = {log2_of(ta->shape[rank - 2]), log2_of(tx->shape[rank - 1]), log2_of(ta->shape[rank - 1]), rank == 3 ? log2_of(ta->shape[0]) : 0};
  Dtype sum = sum_dtype(out->type->dtype);
  Dot d = {.shape = s, .kind = lane_kind_of(&(Type){.dtype = sum})};
  int shift = lower_kind_shift(d.kind), chunk_bits = s.k, parts;
  const Layout *layout = out->layout;

  LaneValue **ra = as_dtype(l, op, lower_get(l, a), ta, a->layout, sum), **rx = as_dtype(l, op, lower_get(l, x), tx, x->layout, sum);
  LaneValue **rc = lower_convert_kind(l, lower_get(l, c), lane_kind_of(c->type), c->layout, layout);
  d.n = layout_registers(layout);
  d.acc = arena_copy(l->cx->arena, as_dtype(l, op, rc, c->type, layout, sum), sizeof(LaneValue *) * (size_t)d.n);

  int64_t rows = ((int64_t)1 << (s.batch + s.m)) + ((int64_t)1 << (s.batch + s.n)), limit = l->target->shared_bytes / 2;
  while (chunk_bits > 0 && rows << (chunk_bits + shift) > limit) chunk_bits--;
  parts = s.k - chunk_bits;
  d.step = d.n <= 4 ? 16 : d.n <= 16 ? 8 : 4;
  if (d.step > 1 << chunk_bits) d.step = 1 << chunk_bits;

  uint32_t swizzle[F2_MAX] = {0};
  choose_swizzle(&s, layout, chunk_bits, 4 - shift, 4 - shift + SWIZZLE_BITS, swizzle);
  F2Map of_a = place_of_a(&s, chunk_bits, swizzle), of_x = place_of_x(&s, chunk_bits);
  d.a = lower_place(l, "dot a", d.kind, &of_a, parts);
  d.x = lower_place(l, "dot b", d.kind, &of_x, parts);
  d.rows = side_make(l, &s, layout, &d.a, row_of);
  d.columns = side_make(l, &s, layout, &d.x, column_of);
  d.vector = side_vector(&d.columns, shift);
  for (int part = 0; part < 1 << parts; part++) {
    if (part) lane_barrier(&l->b, false);
    lower_place_write(l, &d.a, ra, a->layout, part);
    lower_place_write(l, &d.x, rx, x->layout, part);
    lane_barrier(&l->b, false);
    take_chunk(l, &d, 1 << chunk_bits);
  }
  lower_set(l, out, as_dtype(l, op, d.acc, type_with_dtype(l->cx, out->type, sum), layout, out->type->dtype));
}
