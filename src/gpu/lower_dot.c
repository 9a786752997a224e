/* dot without tensor cores: acc[b, m, n] + a[b, m, k] * x[b, k, n] by fused multiply-adds, in the order of k.
 *
 * The accumulator stays in registers, in a blocked layout: a thread holds some rows by some columns of it. a and x go to shared memory, in
 * the type that sums are formed in (f32, f64, or 32- or 64-bit integers; interp/ops_dot.c). Both are seen as lines along k: a's are rows of
 * the product, x's its columns. A step takes a few k's of each of the thread's lines, and multiplies each row's with each column's:
 *
 *     acc 4 rows by 4 columns, 4 k's:     4 accesses of 16 bytes of a, 4 of x, 64 multiply-adds
 *
 * An operand lies one of two ways, by what its registers have side by side, so that it is written in long accesses:
 *
 *     along k     [line][k]: an access reads some k's of one line. Lanes that differ in the line read at a distance of whole lines, which
 *                 would fall on the same banks: an access's place in its line is xor'ed with bits of the line, chosen so that the lines of a
 *                 warp's lanes differ in them and those of one thread do not (then a thread's lines are constants apart)
 *     across      [k][line]: an access reads one k of some lines that lie side by side in the accumulator, too
 *
 * When a and x together do not fit, k goes through in chunks: the chunk of an element is the highest bits of its place.
 *
 * An operand that comes from outside a loop (the queries of attention, say) is written once, before the loop, and takes no registers in it; another
 * loop behind finds it there. One that two products share, one after the other, is written once, too, and where registers are short
 * (Lower.frugal) also one that a later product of the block takes.
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

/* ---- where an operand lies ---- */

typedef struct Shape { int m, n, k, batch; } Shape; /* log2 */

/* One of a and x. A line's number is its row or column, with the batch above. */
typedef struct Operand {
  bool is_a, along;
  int outer;            /* log2 of the lines of a batch */
  Place place;
  /* The distinct lines of a thread's registers: where they begin, in bytes. */
  LaneValue *thread;
  uint32_t thread_bits;
  uint32_t *offset;
  int count;
  int *of;              /* for each register of the accumulator, which line */
  int *first, *by_line; /* those registers by line: by_line[first[i] .. first[i + 1] - 1] */
  int vector;           /* elements an access */
  LaneValue **at;       /* at[line * step + u]: what the multiply-adds read */
} Operand;

/* The first element of a line as a flat index of the operand; the line of an element of the accumulator. */
static uint32_t line_begin(const Shape *s, const Operand *o, uint32_t line) {
  return o->is_a ? line << s->k : (line & ((1u << s->n) - 1)) | line >> s->n << (s->n + s->k);
}
static uint32_t line_of(const Shape *s, const Operand *o, uint32_t v) {
  return o->is_a ? v >> s->n : (v & ((1u << s->n) - 1)) | v >> (s->n + s->m) << s->n;
}

/* Whether neighbours along k come earlier in the registers and lanes than neighbours across. */
static bool lies_along(const Shape *s, const Operand *o, const Layout *layout) {
  uint32_t along = o->is_a ? 1 : 1u << s->n, across = o->is_a ? 1u << s->k : 1;
  bool can_along = s->k > 0, can_across = o->outer > 0;
  for (int i = 0; i < layout->reg_bits + layout->lane_bits; i++) {
    if (can_along && layout->basis[i] == along) return true;
    if (can_across && layout->basis[i] == across) return false;
  }
  return o->is_a;
}

/* The bits of k above the chunk's are the highest of the offset. */
static F2Map place_of(const Shape *s, const Operand *o, int chunk_bits, const uint32_t *swizzle) {
  int total = s->batch + o->outer + s->k, k_first = o->is_a ? 0 : o->outer;
  F2Map map = {.in_bits = total, .out_bits = total};
  for (int i = 0; i < s->k; i++) {
    int to = i >= chunk_bits ? total - s->k + i : o->along ? i : o->outer + i;
    map.column[k_first + i] = 1u << to;
  }
  for (int i = 0; i < o->outer + s->batch; i++) {
    int from = __builtin_ctz(line_begin(s, o, 1u << i)), to = o->along || i >= o->outer ? chunk_bits + i : i;
    map.column[from] = 1u << to ^ swizzle[i];
  }
  return map;
}

/* swizzle[i]: what bit i of the line puts onto the offset. The lines of a thread's registers get nothing; up to three bits by which the
 * lanes' lines differ get one bit each of an access's place. */
static void choose_swizzle(const Shape *s, const Operand *o, const Layout *layout, int chunk_bits, int access_bits, uint32_t *swizzle) {
  uint32_t basis[F2_MAX], lead[F2_MAX];
  int n = 0, regs = 0, bank_bits = access_bits + SWIZZLE_BITS;
  for (int i = 0; i < layout->reg_bits + layout->lane_bits; i++) {
    uint32_t v = line_of(s, o, layout->basis[i]);
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

static int find_offset(const Operand *o, uint32_t offset) {
  for (int i = 0; i < o->count; i++)
    if (o->offset[i] == offset) return i;
  return -1;
}

static void find_lines(Lower *l, const Shape *s, Operand *o, const Layout *layout) {
  int n = layout_registers(layout), threads = layout->lane_bits + layout->warp_bits;
  uint32_t columns[F2_MAX] = {0}, of_bit[F2_MAX];
  for (int i = 0; i < layout->reg_bits + threads; i++) {
    uint32_t at = f2_apply(&o->place.map, line_begin(s, o, line_of(s, o, layout->basis[i]))) << o->place.shift;
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
static int lines_across(const Operand *o) {
  int vector = 1;
  while (vector << o->place.shift < 16) {
    uint32_t step = (uint32_t)vector << o->place.shift;
    if ((o->thread_bits & step) || o->count < 2 * vector) return vector;
    for (int i = 0; i < o->count; i++)
      if (find_offset(o, o->offset[i] ^ step) < 0) return vector;
    vector *= 2;
  }
  return vector;
}

/* ---- the product ---- */

typedef struct Dot {
  Shape shape;
  LaneKind kind;
  Operand a, x;
  int n;          /* registers of the accumulator */
  int step;       /* k's taken at a time */
  int chunk_bits; /* log2 of the k's that lie in shared memory at a time */
  LaneValue **acc;
} Dot;

/* Where a step begins: k elements and, in a loop, `moved` bytes along a line (NULL: 0), which may have these bits set. */
typedef struct Step { LaneValue *moved; uint32_t bits; int k; } Step;

/* k's u to u + vector - 1 of line i. */
static void load_along(Lower *l, const Dot *d, const Operand *o, const Step *s, int i, int u) {
  LaneBuilder *b = &l->b;
  LaneValue *line = s->moved ? lane_2(b, LANE_XOR, LK_B32, o->thread, s->moved) : o->thread;
  uint32_t offset = o->offset[i] ^ (uint32_t)(s->k + u) << o->place.shift, common = offset & (o->thread_bits | s->bits);
  LaneValue *address = common ? lane_2(b, LANE_XOR, LK_B32, line, lane_const(b, LT_B32, common)) : line;
  address = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, o->place.buffer), address);
  lower_vector_load(l, d->kind, o->vector, address, offset ^ common, o->place.buffer, NULL, &o->at[i * d->step + u]);
}

/* k number u of every line. */
static void load_across(Lower *l, const Dot *d, const Operand *o, const Step *s, int u) {
  LaneBuilder *b = &l->b;
  int shift = o->place.shift;
  uint32_t inside = (uint32_t)(o->vector - 1) << shift;
  LaneValue *few[16];
  for (int i = 0; i < o->count; i++) {
    uint32_t offset = o->offset[i], common = offset & o->thread_bits;
    if (offset & inside) continue;
    LaneValue *address = common ? lane_2(b, LANE_XOR, LK_B32, o->thread, lane_const(b, LT_B32, common)) : o->thread;
    if (s->moved) address = lane_2(b, LANE_ADD, LK_S32, address, lane_2(b, LANE_SHL, LK_B32, s->moved, lane_i32(b, o->outer)));
    address = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, o->place.buffer), address);
    int64_t imm = (int64_t)(offset ^ common) + ((int64_t)(s->k + u) << (o->outer + shift));
    lower_vector_load(l, d->kind, o->vector, address, imm, o->place.buffer, NULL, few);
    for (int v = 0; v < o->vector; v++) o->at[find_offset(o, offset ^ (uint32_t)v << shift) * d->step + u] = few[v];
  }
}

static void multiply(Lower *l, const Dot *d, int r, int u, LaneValue **acc) {
  acc[r] = lane_3(&l->b, LANE_FMA, d->kind, d->a.at[d->a.of[r] * d->step + u], d->x.at[d->x.of[r] * d->step + u], acc[r]);
}

/* How many registers it takes to hold some k's of every line of one operand, and what the other is read in. */
static int registers_holding(const Operand *held, const Operand *other, int some) {
  return held->count * some + (other->along ? some : other->count);
}

/* Some k's: those that an access along a line brings. One operand is read whole and held; of the other comes a line, or a k, at a time, and is used
 * up at once, so that beside the accumulator few registers are taken. */
static void take_some(Lower *l, const Dot *d, const Step *s, int from, int some, LaneValue **acc) {
  const Operand *held = &d->a, *other = &d->x;
  if (registers_holding(other, held, some) < registers_holding(held, other, some)) held = &d->x, other = &d->a;
  if (other->along || held->along) {
    if (held->along)
      for (int i = 0; i < held->count; i++) load_along(l, d, held, s, i, from);
    else
      for (int u = from; u < from + some; u++) load_across(l, d, held, s, u);
  }
  if (other->along) {
    for (int i = 0; i < other->count; i++) {
      load_along(l, d, other, s, i, from);
      for (int u = from; u < from + some; u++)
        for (int j = other->first[i]; j < other->first[i + 1]; j++) multiply(l, d, other->by_line[j], u, acc);
    }
    return;
  }
  for (int u = from; u < from + some; u++) {
    if (!held->along) load_across(l, d, held, s, u);
    load_across(l, d, other, s, u);
    for (int r = 0; r < d->n; r++) multiply(l, d, r, u, acc);
  }
}

static void take_step(Lower *l, const Dot *d, const Step *s, LaneValue **acc) {
  int some = 16 >> d->a.place.shift < d->step ? 16 >> d->a.place.shift : d->step;
  for (int u = 0; u < d->step; u += some) take_some(l, d, s, u, some, acc);
}

static void take_chunk(Lower *l, Dot *d) {
  LaneBuilder *b = &l->b;
  int chunk = 1 << d->chunk_bits, steps = chunk / d->step, shift = d->a.place.shift;
  if (steps == 1 || (int64_t)d->n * chunk <= 512) {
    for (int k = 0; k < chunk; k += d->step) take_step(l, d, &(Step){NULL, 0, k}, d->acc);
    return;
  }
  LaneOp *loop = lane_for(b, LK_S32, lane_i32(b, 0), lane_i32(b, chunk << shift), lane_i32(b, d->step << shift), d->n, d->acc);
  loop->uniform = 1;
  loop->unroll = 1;
  LaneValue **acc = arena_copy(l->cx->arena, loop->body[0]->args + 1, sizeof(LaneValue *) * (size_t)d->n);
  take_step(l, d, &(Step){loop->body[0]->args[0], (uint32_t)(chunk - d->step) << shift, 0}, acc);
  lane_yield(b, d->n, acc);
  lane_leave(b, loop);
  for (int r = 0; r < d->n; r++) d->acc[r] = loop->out[r];
}

/* ---- what is known before anything is emitted ---- */

/* Bytes for a and x. Two blocks should find room where registers let two run; but what does not go in at once waits for its turn in registers. What
 * loops keep in shared memory (lower_dots_before) lies beside. */
static int64_t room_for(const Lower *l, const Op *op, int registers) {
  int64_t all = l->target->shared_bytes, threads = l->out->num_warps * 32, two = 65536 / (threads * (registers + 96)), bytes = 0;
  for (int k = 0; k < 2; k++) bytes += type_numel(op->in[k]->type) * type_elem_bytes(op->in[k]->type);
  return two < 2 || registers + bytes / (4 * threads) > 192 ? all * 5 / 8 : all / 2;
}

static Dot dot_make(Lower *l, const Op *op) {
  const Type *ta = op->in[0]->type, *tx = op->in[1]->type;
  int rank = ta->rank;
  Shape s = {log2_of(ta->shape[rank - 2]), log2_of(tx->shape[rank - 1]), log2_of(ta->shape[rank - 1]), rank == 3 ? log2_of(ta->shape[0]) : 0};
  Dot d = {.shape = s, .kind = lane_kind_of(&(Type){.dtype = sum_dtype(op->out[0]->type->dtype)}), .chunk_bits = s.k};
  d.n = layout_registers(op->out[0]->layout);
  int64_t lines = ((int64_t)1 << (s.batch + s.m)) + ((int64_t)1 << (s.batch + s.n)), limit = room_for(l, op, d.n);
  while (d.chunk_bits > 0 && lines << (d.chunk_bits + lower_kind_shift(d.kind)) > limit) d.chunk_bits--;
  d.step = d.n <= 4 ? 16 : d.n <= 16 ? 8 : 4;
  if (d.step > 1 << d.chunk_bits) d.step = 1 << d.chunk_bits;
  return d;
}

/* Where the operand's elements lie. */
static F2Map describe(const Dot *d, Operand *o, bool is_a, const Value *v, const Layout *layout) {
  const Shape *s = &d->shape;
  uint32_t swizzle[F2_MAX] = {0};
  o->is_a = is_a;
  o->outer = is_a ? s->m : s->n;
  o->along = lies_along(s, o, v->layout);
  if (o->along) choose_swizzle(s, o, layout, d->chunk_bits, 4 - lower_kind_shift(d->kind), swizzle);
  return place_of(s, o, d->chunk_bits, swizzle);
}

/* ---- operands that a loop does not change ---- */

/* Operand k of the product stands in shared memory, all of it: while a loop runs, or since the product before it in the block. */
struct LowerPlaced {
  const Op *dot;
  int k;
  const Value *value;
  Place place;
  struct LowerPlaced *next;
  const Block *block; /* in which it was written: it can be found there, behind, and in blocks inside */
};

static const LowerPlaced *placed(const Lower *l, const Op *dot, int k) {
  for (const LowerPlaced *p = l->placed; p; p = p->next)
    if (p->dot == dot && p->k == k) return p;
  return NULL;
}

static bool is_alike(const LowerPlaced *p, const Value *v, LaneKind kind, const F2Map *map) {
  return p->value == v && p->place.kind == kind && p->place.map.in_bits == map->in_bits &&
         !memcmp(p->place.map.column, map->column, sizeof *map->column * (size_t)map->in_bits);
}

static const LowerPlaced *placed_alike(const Lower *l, const Value *v, LaneKind kind, const F2Map *map) {
  const LowerPlaced *p = l->placed;
  while (p && !is_alike(p, v, kind, map)) p = p->next;
  return p;
}

/* What the product before this one in its block took. Only of the last one, since until then nothing but this one's operands need room beside. */
static const LowerPlaced *just_placed(const Lower *l, const Op *op, const Value *v, LaneKind kind, const F2Map *map) {
  for (int k = 0; k < 2; k++) {
    const LowerPlaced *p = l->last_placed[k];
    if (p && p->dot->block == op->block && is_alike(p, v, kind, map)) return p;
  }
  return NULL;
}

/* What still stands from before. */
static const LowerPlaced *left_standing(const Lower *l, const Block *block, const Value *v, LaneKind kind, const F2Map *map) {
  for (const LowerPlaced *p = l->standing; p; p = p->next)
    for (const Block *b = block; b && is_alike(p, v, kind, map); b = b->parent ? b->parent->block : NULL)
      if (b == p->block) return p;
  return NULL;
}

static void leave_standing(Lower *l, const LowerPlaced *p) {
  LowerPlaced *copy = NEW(l->cx->arena, LowerPlaced);
  *copy = *p;
  copy->next = l->standing;
  l->standing = copy;
}

static bool stands_in(const Value *v, const Op *loop) {
  for (const Block *b = value_block(v); b; b = b->parent ? b->parent->block : NULL)
    if (b->parent == loop) return true;
  return false;
}

static LaneValue **operand_registers(Lower *l, const Op *op, int k) {
  const Value *v = op->in[k];
  return as_dtype(l, op, lower_get(l, v), v->type, v->layout, sum_dtype(op->out[0]->type->dtype));
}

typedef struct Before { Lower *l; const Op *loop; bool any; } Before;

static void place_before(Op *op, void *arg) {
  Before *before = arg;
  Lower *l = before->l;
  if (op->code != OP_DOT) return;
  for (int k = 0; k < 2; k++) {
    const Value *v = op->in[k];
    Dot d = dot_make(l, op);
    if (stands_in(v, before->loop) || placed(l, op, k) || d.chunk_bits < d.shape.k) continue;
    Operand o = {0};
    F2Map map = describe(&d, &o, k == 0, v, op->out[0]->layout);
    const LowerPlaced *same = placed_alike(l, v, d.kind, &map);
    if (!same) same = left_standing(l, before->loop->block, v, d.kind, &map);
    int64_t bytes = type_numel(v->type) << lower_kind_shift(d.kind);
    if (!same && l->placed_bytes + bytes > l->target->shared_bytes / 3) continue;
    LowerPlaced *p = NEW(l->cx->arena, LowerPlaced);
    *p = (LowerPlaced){op, k, v, {0}, l->placed, before->loop->block};
    if (same) p->place = same->place;
    else {
      p->place = lower_place(l, k ? "dot b" : "dot a", d.kind, &map, 0);
      lower_place_write(l, &p->place, operand_registers(l, op, k), v->layout, 0);
      l->placed_bytes += bytes;
      leave_standing(l, p);
      before->any = true;
    }
    l->placed = p;
  }
}

void lower_dots_before(Lower *l, Op *loop) {
  Before before = {l, loop, false};
  if (l->divergent) return;
  for (int i = 0; i < 2; i++)
    if (loop->body[i]) tile_walk(loop->body[i], place_before, &before);
  if (before.any) lane_barrier(&l->b, false);
}

/* ---- the operation ---- */

/* False when the operand stands in shared memory already. */
static bool prepare(Lower *l, Dot *d, Operand *o, const Op *op, int k) {
  const Value *v = op->in[k];
  const Layout *layout = op->out[0]->layout;
  F2Map map = describe(d, o, k == 0, v, layout);
  const LowerPlaced *there = placed(l, op, k);
  if (!there && d->chunk_bits == d->shape.k) there = just_placed(l, op, v, d->kind, &map);
  if (!there && d->chunk_bits == d->shape.k) there = left_standing(l, op->block, v, d->kind, &map);
  int shift = lower_kind_shift(d->kind);
  o->place = there ? there->place : lower_place(l, k ? "dot b" : "dot a", d->kind, &map, d->shape.k - d->chunk_bits);
  find_lines(l, &d->shape, o, layout);
  o->vector = !o->along ? lines_across(o) : 16 >> shift < d->step ? 16 >> shift : d->step;
  o->at = lower_array(l, o->count * d->step);
  return !there;
}

static void remember(Lower *l, const Dot *d, const Op *op) {
  for (int k = 0; k < 2; k++) {
    l->last_placed[k] = NULL;
    if (d->chunk_bits < d->shape.k) continue;
    LowerPlaced *p = NEW(l->cx->arena, LowerPlaced);
    *p = (LowerPlaced){op, k, op->in[k], k ? d->x.place : d->a.place, NULL, op->block};
    l->last_placed[k] = p;
    int64_t bytes = type_numel(op->in[k]->type) << lower_kind_shift(d->kind);
    if (!l->frugal || lower_product_uses(op->next, op->in[k]) == 0 || l->standing_bytes + bytes > l->target->shared_bytes / 3) continue;
    l->standing_bytes += bytes;
    leave_standing(l, p);
  }
}

void lower_dot(Lower *l, Op *op) {
  const Value *c = op->in[2], *out = op->out[0];
  const Layout *layout = out->layout;
  Dtype sum = sum_dtype(out->type->dtype);
  Dot d = dot_make(l, op);
  Operand *operands[] = {&d.a, &d.x};
  bool wanted[2];
  LaneValue **regs[2];
  for (int k = 0; k < 2; k++) wanted[k] = prepare(l, &d, operands[k], op, k);
  remember(l, &d, op);
  LaneValue **rc = lower_convert_kind(l, lower_get(l, c), lane_kind_of(c->type), c->layout, layout);
  d.acc = arena_copy(l->cx->arena, as_dtype(l, op, rc, c->type, layout, sum), sizeof(LaneValue *) * (size_t)d.n);
  for (int part = 0; part < 1 << (d.shape.k - d.chunk_bits); part++) {
    if (part) lane_barrier(&l->b, false);
    for (int k = 0; k < 2; k++) {
      if (l->frugal && k && wanted[0]) lane_barrier(&l->b, true); /* or the assembler begins with the loads of both */
      if (!part && wanted[k]) lower_operand_now(l, op, k);
      if (!part && wanted[k]) regs[k] = operand_registers(l, op, k);
      if (wanted[k]) lower_place_write(l, &operands[k]->place, regs[k], op->in[k]->layout, part);
    }
    if (wanted[0] || wanted[1]) lane_barrier(&l->b, false);
    if (part == (1 << (d.shape.k - d.chunk_bits)) - 1) lower_next_now(l, op);
    take_chunk(l, &d);
  }
  lower_set(l, out, as_dtype(l, op, d.acc, type_with_dtype(l->cx, out->type, sum), layout, out->type->dtype));
}
