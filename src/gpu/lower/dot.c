/* dot: acc[b, m, n] + a[b, m, k] * x[b, k, n], on tensor cores (lower/mma.c) where the accumulator was laid out for
 * them, else by fused multiply-adds (lower/fma.c), in the order of k. Here stands what both need: the operands' way
 * through shared memory.
 *
 * The accumulator stays in registers. a and x go to shared memory: for tensor cores as those take them, else in the
 * type that sums are formed in (f32, f64, or 32- or 64-bit integers; interp/ops_dot.c). Both are seen as lines along k,
 * a's are rows of the product, x's its columns, and lie there [line][k] or [k][line], by what their registers have side
 * by side, so that they are written in long accesses.
 *
 * When a and x together do not fit, k goes through in chunks: the chunk of an element is the highest bits of its place.
 *
 * An operand that comes from outside a loop (the queries of attention, say) is written once, before the loop, and takes
 * no registers in it; another loop after finds it there. One that two products share, one after the other, is written
 * once, too, and on tensor cores, or where registers are short (Lower.register_limited), also one that a later product
 * of the block takes. A tensor and its transpose count as one. What other threads want, too (to store it, say), they
 * read as the product does, where that takes no longer than a way of its own: it is written once, and all meet once.
 */
#include "gpu/lower/dot.h"

/* ---- types ------------------------------------------------------------------------------------------------------- */

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
    LaneKind kind =
        lane_kind_info[lane_kind_of(t)].bits < 32 && t->dtype != DT_I1 ? LK_B32 : lane_kind_of(&(Type){.dtype = to});
    for (int i = 0; i < n; i++)
      out[i] = t->dtype == DT_I1 ? lane_select(&l->b, regs[i], lane_i32(&l->b, 1), lane_i32(&l->b, 0))
                                 : lane_extend(&l->b, kind, regs[i]);
    return out;
  }
  int id = op->out[0]->id; /* whose registers are not yet known */
  Value in = {.type = t, .layout = layout, .id = id},
        out = {.type = type_with_dtype(l->cx, t, to), .layout = layout, .id = id};
  Value *ins = &in, *outs = &out;
  Op convert = {.code = OP_CONVERT, .in_count = 1, .out_count = 1, .in = &ins, .out = &outs, .span = op->span};
  in.def = NULL;
  out.def = &convert;
  lower_set(l, &in, regs);
  lower_convert(l, &convert);
  return lower_get(l, &out);
}

/* ---- where an operand lies --------------------------------------------------------------------------------------- */

/* Whether neighbours along k come earlier in the registers and lanes than neighbours across. */
static bool lies_along(const DotShape *s, const DotOperand *o, const Layout *layout) {
  uint32_t along = o->is_a ? 1 : 1u << s->n, across = o->is_a ? 1u << s->k : 1;
  bool can_along = s->k > 0, can_across = o->outer > 0;
  for (int i = 0; i < layout->reg_bits + layout->lane_bits; i++) {
    if (can_along && layout->basis[i] == along) return true;
    if (can_across && layout->basis[i] == across) return false;
  }
  return o->is_a;
}

/* Rows along what lies side by side in memory; those longer than a panel are cut into panels, one after the other, as
 * the hardware takes them. The bits of k above the chunk's are the highest of the offset. */
static F2Map place_of(const DotShape *s, const DotOperand *o, int chunk_bits, int panel_bits) {
  int total = s->batch + o->outer + s->k, k_first = o->is_a ? 0 : o->outer;
  int inner = o->along ? chunk_bits : o->outer, rows = o->along ? o->outer : chunk_bits;
  int low = inner < panel_bits ? inner : panel_bits;
  F2Map map = {.in_bits = total, .out_bits = total};
  for (int i = 0; i < s->k; i++) {
    bool is_inner = o->along;
    int to = i >= chunk_bits ? total - s->k + i : is_inner && i < low ? i : is_inner ? rows + i : low + i;
    map.column[k_first + i] = 1u << to;
  }
  for (int i = 0; i < o->outer + s->batch; i++) {
    int from = __builtin_ctz(dot_line_begin(s, o, 1u << i));
    int to = i >= o->outer ? chunk_bits + i : o->along ? low + i : i < low ? i : rows + i;
    map.column[from] = 1u << to;
  }
  return map;
}

/* ---- what is known before anything is emitted -------------------------------------------------------------------- */

/* Bytes for a and x. Two blocks should find room where registers let two run; but what does not go in at once waits for
 * its turn in registers. What loops keep in shared memory (lower_dots_before) lies beside. */
static int64_t room_for(const Lower *l, const Op *op, int registers) {
  const GpuBudgets *budgets = l->target->budgets;
  int64_t all = l->target->shared_bytes, threads = l->out->num_warps * 32, bytes = 0,
          blocks = GPU_REGISTERS / (threads * (registers + budgets->beside_dot));
  for (int k = 0; k < 2; k++) bytes += type_numel(op->in[k]->type) * type_elem_bytes(op->in[k]->type);
  bool one = blocks < 2 || registers + bytes / (4 * threads) > budgets->dot_operands;
  return all * (one ? budgets->shared_of_one : budgets->shared_of_two) / 8;
}

/* Whether neighbours along k are to lie side by side in memory: of 8 bits always, since no load brings four k's of a
 * line that lies across. */
static bool to_lie_along(const Dot *d, const DotOperand *o, int k) {
  const Value *v = d->op->in[k];
  if (d->split) return true;
  if (lower_ring_read(v)) return lower_ring_along(v, k);
  return (d->mma && d->pack == 2) || lies_along(&d->shape, o, v->layout);
}

static bool can_be_wgmma(const Lower *l, const Dot *d) {
  const Op *op = d->op;
  const Type *t = op->out[0]->type;
  bool loaded = layout_is_wgmma_loaded(t, d->layout);
  if (!d->mma || !l->wgmma || d->shape.n < 4 || !(loaded || layout_is_wgmma(t, d->layout))) return false;
  if (d->pieces == PRECISION_SPLIT) return true;
  if (d->types[0] == DT_F64 || d->pieces != PRECISION_TF32) return false;
  for (int k = 0; k < 2 && d->pack != 1; k++) {
    DotOperand o = {.is_a = k == 0, .outer = k ? d->shape.n : d->shape.m};
    if (!to_lie_along(d, &o, k) && !(loaded && k == 0)) return false;
  }
  return true;
}

static Dot dot_make(Lower *l, const Op *op) {
  const Type *ta = op->in[0]->type, *tx = op->in[1]->type;
  int rank = ta->rank;
  DotShape s = {log2_floor(ta->shape[rank - 2]), log2_floor(tx->shape[rank - 1]), log2_floor(ta->shape[rank - 1]),
                rank == 3 ? log2_floor(ta->shape[0]) : 0};
  Dtype sum = sum_dtype(op->out[0]->type->dtype);
  Dot d = {.op = op,
           .shape = s,
           .types = {sum, sum},
           .layout = op->out[0]->layout,
           .chunk_bits = s.k,
           .pieces = PRECISION_TF32};
  d.mma = layout_dot_is_mma(op);
  if (d.mma) layout_mma_type(op, l->fp8, d.types);
  d.kind = lane_kind_of(&(Type){.dtype = d.types[0]});
  d.pack = layout_mma_pack(d.types[0]);
  if (d.types[0] == DT_F32) d.pieces = (DotPrecision)op->precision;
  d.tile_bits = d.pieces == PRECISION_BF16X3 || d.pieces == PRECISION_BF16X6 ? 4 : 3 + d.pack;
  d.wgmma = can_be_wgmma(l, &d);
  d.split = d.wgmma && d.pieces == PRECISION_SPLIT;
  if (d.pieces == PRECISION_SPLIT) d.pieces = PRECISION_TF32X3;
  d.n = layout_registers(d.layout);
  bool whole = lower_ring_read(op->in[0]) || lower_ring_read(op->in[1]);
  d.crowded =
      d.wgmma && !d.split && d.n + l->target->budgets->beside_instruction > gpu_thread_registers(l->f->num_warps);
  if (d.wgmma && d.pack == 2 && dtype_is_float(sum) && op->imprecise)
    d.promoted = op->imprecise >> d.tile_bits ? (int)(op->imprecise >> d.tile_bits) : 1;
  d.pending = op->async && d.wgmma && !d.split && !d.crowded && !d.promoted;
  int64_t lines = ((int64_t)1 << (s.batch + s.m)) + ((int64_t)1 << (s.batch + s.n)), limit = room_for(l, op, d.n);
  while (!whole && d.chunk_bits > (d.mma ? d.tile_bits : 0) &&
         lines << (d.chunk_bits + lower_kind_shift(d.kind)) > limit)
    d.chunk_bits--;
  return d;
}

/* ---- what is in flight ------------------------------------------------------------------------------------------- */

/* Whether the product is in flight when the next operation begins: passes leave it so, and the layout gave it to
 * warpgroups. */
static bool is_pending(Lower *l, const Op *dot) {
  return dot->code == OP_DOT && dot->async && dot_make(l, dot).pending;
}

/* Passes count products that may be in flight; of those that the layout gave to single warps none is. */
static int left_in_flight(Lower *l, const Op *wait) {
  const Op *parent = wait->block->parent, *op = wait;
  bool around = parent && parent->code == OP_FOR;
  int left = (int)wait->pending, n = left;
  while (left > 0) {
    op = op->prev ? op->prev : around ? wait->block->last : NULL;
    if (!op || op == wait) break;
    if (op->code != OP_DOT || !op->async) continue;
    n -= !is_pending(l, op);
    left--;
  }
  return n;
}

static LaneValue **wait_for_dots(Lower *l, int pending, int n, LaneValue *const *sums) {
  LaneValue **out = lower_array(l, n);
  lane_wgmma_wait(&l->b, pending, n, sums, out);
  for (int i = 0; i < l->in_flight.n && !pending; i++) lane_simple(&l->b, LANE_SHARED_READ, 0, l->in_flight.at[i]);
  if (!pending) l->in_flight.n = 0;
  return out;
}

void lower_dot_wait(Lower *l, Op *op) {
  int n = op->in_count ? lower_count(op->in[0]) : 0;
  LaneValue **out = wait_for_dots(l, left_in_flight(l, op), n, n ? lower_get(l, op->in[0]) : NULL);
  if (n) lower_set(l, op->out[0], out);
}

/* ---- where operands lie ------------------------------------------------------------------------------------------ */

/* Where the operand's elements lie. */
static F2Map describe(const Dot *d, DotOperand *o, bool is_a) {
  const DotShape *s = &d->shape;
  o->is_a = is_a;
  o->outer = is_a ? s->m : s->n;
  o->along = to_lie_along(d, o, !is_a);
  F2Map map = place_of(s, o, d->chunk_bits, d->mma ? dot_panel_bits(d) : F2_MAX);
  (d->mma ? lower_mma_swizzle : lower_fma_swizzle)(d, o, &map);
  return map;
}

/* ---- operands that stand in shared memory already ---------------------------------------------------------------- */

/* What lies there, and how: of a transposed tensor, the tensor itself. */
typedef struct Image {
  const Value *value;
  LaneKind kind;
  bool rounded; /* to tf32 */
  F2Map map;
} Image;

/* What warpgroups take as tf32 from memory is rounded by who writes it there. */
static bool is_rounded(const Dot *d) { return d->wgmma && d->kind == LK_F32 && !d->split; }

static const Value *untransposed(const Value *v) {
  while (v->def && v->def->code == OP_TRANS) v = v->def->in[0];
  return v;
}

static Image image_of(const Dot *d, const Value *v, const F2Map *map) {
  Image image = {v, d->kind, is_rounded(d), *map};
  for (const Op *op = v->def; op && op->code == OP_TRANS; op = image.value->def) {
    const Type *from = op->in[0]->type, *to = op->out[0]->type;
    F2Map of = image.map;
    for (int d = 0; d < to->rank; d++)
      memcpy(image.map.column + layout_dim_shift(from, (int)op->dims[d]), of.column + layout_dim_shift(to, d),
             sizeof *of.column * (size_t)log2_floor(to->shape[d]));
    image.value = op->in[0];
  }
  return image;
}

/* Operand k of the product stands in shared memory, all of it: while a loop runs, or since the product before it in the
 * block. */
struct StagedOperand {
  const Op *dot;
  int k;
  Image image;
  Place place;
  struct StagedOperand *next;
  const Block *block; /* in which it was written: it can be found there, after, and in blocks inside */
};

static const StagedOperand *staged_for(const Lower *l, const Op *dot, int k) {
  for (const StagedOperand *p = l->loop_staged; p; p = p->next)
    if (p->dot == dot && p->k == k) return p;
  return NULL;
}

static bool is_alike(const StagedOperand *p, const Image *m) {
  return p->image.value == m->value && p->image.kind == m->kind && p->image.rounded == m->rounded &&
         !memcmp(p->image.map.column, m->map.column, sizeof *m->map.column * (size_t)m->map.in_bits);
}

static const StagedOperand *loop_staged_alike(const Lower *l, const Image *m) {
  const StagedOperand *p = l->loop_staged;
  while (p && !is_alike(p, m)) p = p->next;
  return p;
}

/* What the product before this one in its block took. Only of the last one, since until then nothing but this one's
 * operands need room beside. */
static const StagedOperand *last_staged_alike(const Lower *l, const Op *op, const Image *m) {
  for (int k = 0; k < 2; k++) {
    const StagedOperand *p = l->last_staged[k];
    if (p && p->dot->block == op->block && is_alike(p, m)) return p;
  }
  return NULL;
}

/* What still stands from before. */
static const StagedOperand *staged_before(const Lower *l, const Block *block, const Image *m) {
  for (const StagedOperand *p = l->staged; p; p = p->next)
    for (const Block *b = block; b && is_alike(p, m); b = b->parent ? b->parent->block : NULL)
      if (b == p->block) return p;
  return NULL;
}

static void keep_staged(Lower *l, const StagedOperand *p) {
  StagedOperand *copy = NEW(l->cx->arena, StagedOperand);
  *copy = *p;
  copy->next = l->staged;
  l->staged = copy;
}

static bool is_defined_in(const Value *v, const Op *loop) {
  for (const Block *b = value_block(v); b; b = b->parent ? b->parent->block : NULL)
    if (b->parent == loop) return true;
  return false;
}

static LaneValue **operand_registers(Lower *l, const Dot *d, int k) {
  const Value *v = d->op->in[k];
  return as_dtype(l, d->op, lower_get(l, v), v->type, v->layout, d->types[k]);
}

/* As they are to lie in memory. */
static LaneValue **registers_to_write(Lower *l, const Dot *d, int k) {
  LaneValue **regs = operand_registers(l, d, k);
  if (!is_rounded(d)) return regs;
  int n = layout_registers(d->op->in[k]->layout);
  LaneValue **rounded = lower_array(l, n);
  for (int i = 0; i < n; i++) rounded[i] = lower_tf32(l, regs[i]);
  return rounded;
}

/* Whether the operand is held as the hardware takes it from registers, and need not go to memory. */
static bool in_registers(Lower *l, const Dot *d, int k) {
  if (d->split && k == 0) return true;
  return !lower_ring_read(d->op->in[k]) && d->mma && (!d->wgmma || k == 0) && lower_mma_in_registers(l, d, k);
}

/* Rows of panels begin where the hardware's swizzle does, so that any product may read them. */
static Place place_operand(Lower *l, int k, const Dot *d, const F2Map *map, int part_bits) {
  Place p = lower_place(l, k ? "dot b" : "dot a", d->kind, map, part_bits);
  if (d->mma && l->wgmma) l->out->buffers.at[p.buffer].align = 1024;
  return p;
}

typedef struct Before {
  Lower *l;
  const Op *loop;
  bool any;
} Before;

static void place_before(Op *op, void *arg) {
  Before *before = arg;
  Lower *l = before->l;
  if (op->code != OP_DOT) return;
  for (int k = 0; k < 2; k++) {
    const Value *v = op->in[k];
    Dot d = dot_make(l, op);
    if (is_defined_in(v, before->loop) || lower_ring_read(v) || staged_for(l, op, k) || d.chunk_bits < d.shape.k ||
        in_registers(l, &d, k))
      continue;
    DotOperand o = {0};
    F2Map map = describe(&d, &o, k == 0);
    Image image = image_of(&d, v, &map);
    const StagedOperand *same = loop_staged_alike(l, &image);
    if (!same) same = staged_before(l, before->loop->block, &image);
    int64_t bytes = type_numel(v->type) << lower_kind_shift(d.kind);
    if (!same && l->loop_staged_bytes + bytes > l->target->shared_bytes / l->target->budgets->staged_share) continue;
    StagedOperand *p = NEW(l->cx->arena, StagedOperand);
    *p = (StagedOperand){op, k, image, {0}, l->loop_staged, before->loop->block};
    if (same) p->place = same->place;
    else {
      p->place = place_operand(l, k, &d, &map, 0);
      lower_place_write(l, &p->place, registers_to_write(l, &d, k), v->layout, 0);
      l->loop_staged_bytes += bytes;
      keep_staged(l, p);
      before->any = true;
    }
    l->loop_staged = p;
  }
}

void lower_dots_before(Lower *l, Op *loop) {
  Before before = {l, loop, false};
  if (l->divergent) return;
  for (int i = 0; i < 2; i++)
    if (loop->body[i]) tile_walk(loop->body[i], place_before, &before);
  if (before.any) lower_meet(l);
}

/* ---- the operation ----------------------------------------------------------------------------------------------- */

/* False when the operand stands in shared memory already, or need not go there. */
static bool prepare(Lower *l, const Dot *d, DotOperand *o, int k) {
  const Value *v = d->op->in[k];
  bool ring = lower_ring_operand(l, d, o, k);
  o->loaded = k == 0 && d->wgmma && layout_is_wgmma_loaded(d->op->out[0]->type, d->layout);
  o->in_registers = ring && d->split && k == 0 && !o->loaded;
  if (ring && !(d->split && k && !o->along)) return false;
  *o = (DotOperand){.loaded = o->loaded};
  F2Map map = describe(d, o, k == 0);
  o->in_registers = in_registers(l, d, k);
  if (o->in_registers) return false;
  Image image = image_of(d, v, &map);
  const StagedOperand *there = staged_for(l, d->op, k);
  if (!there && d->chunk_bits == d->shape.k) there = last_staged_alike(l, d->op, &image);
  if (!there && d->chunk_bits == d->shape.k) there = staged_before(l, d->op->block, &image);
  o->place = there ? there->place : place_operand(l, k, d, &map, d->shape.k - d->chunk_bits);
  o->place.map = map;
  return !there;
}

/* Whether a product after this one in its block takes the same tensor, in whatever way, or other threads want it. */
static bool is_used_after(const Lower *l, const Op *from, const Value *v) {
  for (const Op *op = from->next; op; op = op->next) {
    if (op->code == OP_CONVERT_LAYOUT && l->staged_reads && op->in[0] == v) return true;
    for (int k = 0; k < 2 && op->code == OP_DOT; k++)
      if (untransposed(op->in[k]) == v) return true;
  }
  return false;
}

static void remember(Lower *l, const Dot *d) {
  const Op *op = d->op;
  for (int k = 0; k < 2; k++) {
    const DotOperand *o = k ? &d->x : &d->a;
    l->last_staged[k] = NULL;
    if (d->chunk_bits < d->shape.k || o->in_registers || lower_ring_read(op->in[k])) continue;
    StagedOperand *p = NEW(l->cx->arena, StagedOperand);
    *p = (StagedOperand){op, k, image_of(d, op->in[k], &o->place.map), o->place, NULL, op->block};
    l->last_staged[k] = p;
    int64_t bytes = type_numel(op->in[k]->type) << lower_kind_shift(d->kind);
    bool reused = d->mma ? is_used_after(l, op, p->image.value)
                         : l->register_limited && lower_product_uses(op->next, op->in[k]) > 0;
    if (!reused || l->kept_bytes + bytes > l->target->shared_bytes / l->target->budgets->staged_share) continue;
    l->kept_bytes += bytes;
    keep_staged(l, p);
  }
}

/* Whether v is known where `op` stands, by itself. */
static bool is_known_at(const Lower *l, const Op *op, const Value *v) {
  if (lower_is_deferred(l, v)) return false;
  if (!v->def || v->def->block != op->block) return true;
  for (const Op *before = op->prev; before; before = before->prev)
    if (before == v->def) return true;
  return false;
}

/* Writes operand k of the product `after` of the block to shared memory, if it is known here and has to go there.
 * False: that product waits for more. */
static bool stage_early(Lower *l, const Op *op, const Op *after, int k) {
  const Value *v = after->in[k];
  if (lower_ring_read(v) || staged_for(l, after, k)) return true;
  Dot d = dot_make(l, after);
  if (in_registers(l, &d, k)) return true;
  DotOperand o = {0};
  F2Map map = describe(&d, &o, k == 0);
  Image image = image_of(&d, v, &map);
  if (staged_before(l, after->block, &image)) return true;
  if (d.chunk_bits < d.shape.k || !d.mma || !is_known_at(l, op, v)) return false;
  int64_t bytes = type_numel(v->type) << lower_kind_shift(d.kind);
  if (l->kept_bytes + bytes > l->target->shared_bytes / l->target->budgets->staged_share) return false;
  l->kept_bytes += bytes;
  StagedOperand p = {after, k, image, place_operand(l, k, &d, &map, 0), NULL, after->block};
  lower_place_write(l, &p.place, registers_to_write(l, &d, k), v->layout, 0);
  keep_staged(l, &p);
  return true;
}

/* What the next products of the block take, and is known already, goes to shared memory with what this one takes: they
 * meet once. */
static void stage_next(Lower *l, const Op *op) {
  if (l->register_limited || l->divergent) return;
  for (const Op *after = op->next; after; after = after->next)
    for (int k = 0; k < 2 && after->code == OP_DOT; k++)
      if (!stage_early(l, op, after, k)) return;
}

/* ---- tiles that products take, and other threads ------------------------------------------------------------------ */

/* Of v as it is, whole. */
static const StagedOperand *staged_as_is(const Lower *l, const Block *block, const Value *v) {
  for (const StagedOperand *p = l->staged; p; p = p->next) {
    if (p->image.value != v || p->image.kind != lane_kind_of(v->type) || p->image.rounded) continue;
    for (const Block *b = block; b; b = b->parent ? b->parent->block : NULL)
      if (b == p->block) return p;
  }
  return NULL;
}

/* Whether reading it there takes no longer than what the conversion would write and read by itself. */
static bool is_read_fast(Lower *l, const Op *op, const F2Map *map) {
  const Value *v = op->in[0], *out = op->out[0];
  LaneKind kind = lane_kind_of(v->type);
  int bytes = 1 << lower_kind_shift(kind), squares = lower_squares_of(l, kind);
  const Convert *plan = convert_plan(l->cx, v->layout, out->layout, bytes, squares);
  return plan->kind == CONVERT_SHARED &&
         place_time(map, out->layout, bytes, false, squares) <= convert_time(plan, bytes);
}

/* A product after `op` in its block that takes v as it is from shared memory: v is written there now, with what else
 * the next products take. */
static bool stage_for_product(Lower *l, const Op *op) {
  const Value *v = op->in[0];
  for (const Op *after = op->next; after; after = after->next)
    for (int k = 0; k < 2 && after->code == OP_DOT; k++) {
      if (after->in[k] != v || staged_for(l, after, k)) continue;
      Dot d = dot_make(l, after);
      DotOperand o = {0};
      F2Map map = describe(&d, &o, k == 0);
      if (in_registers(l, &d, k) || d.kind != lane_kind_of(v->type) || is_rounded(&d) || v != untransposed(v) ||
          !is_read_fast(l, op, &map) || !stage_early(l, op, after, k) || !staged_as_is(l, op->block, v))
        continue;
      stage_next(l, op);
      lower_meet(l);
      return true;
    }
  return false;
}

bool lower_staged_read(Lower *l, const Op *op) {
  const Value *v = op->in[0], *out = op->out[0];
  if (!l->staged_reads || l->divergent) return false;
  const StagedOperand *p = staged_as_is(l, op->block, v);
  if (p ? !is_read_fast(l, op, &p->image.map) : !stage_for_product(l, op)) return false;
  p = staged_as_is(l, op->block, v);
  Place place = p->place;
  place.map = p->image.map;
  LaneValue **regs = lower_array(l, layout_registers(out->layout));
  lower_place_read(l, &place, regs, out->layout, 0);
  lower_set(l, out, regs);
  return true;
}

/* ---- in pieces, by warpgroups ------------------------------------------------------------------------------------ */

static void place_rest(Lower *l, Dot *d) {
  d->rest = place_operand(l, 1, d, &d->x.place.map, d->shape.k - d->chunk_bits);
}

/* Operand k of a split product as threads hold it: a as the hardware takes it from registers. */
static LaneValue **held_by_threads(Lower *l, const Dot *d, int k, const Layout **layout) {
  const Value *v = d->op->in[k];
  const Layout *to = layout_mma_operand(l->cx, d->op, d->layout, 0, d->pack);
  DotOperand ring = {0};
  if (!lower_ring_operand(l, d, &ring, k)) {
    LaneValue **regs = operand_registers(l, d, k);
    *layout = v->layout;
    if (k || lower_mma_in_registers(l, d, 0)) return regs;
    *layout = to;
    return lower_convert_kind(l, regs, d->kind, v->layout, to);
  }
  *layout = k ? layout_for_words(l->cx, v->type, l->f->num_warps) : to;
  LaneValue **regs = lower_array(l, layout_registers(*layout));
  ring.place.begin = ring.begin;
  lower_place_read(l, &ring.place, regs, *layout, 0);
  return regs;
}

/* x's second pieces, beside its first. */
static void write_rest(Lower *l, Dot *d, LaneValue **regs, const Layout *layout, int part) {
  int n = layout_registers(layout);
  LaneValue **rest = lower_array(l, n);
  for (int i = 0; i < n; i++) rest[i] = lower_rest(l, regs[i]);
  lower_place_write(l, &d->rest, rest, layout, part);
  d->rest_lies = true;
}

/* ---- the operation ----------------------------------------------------------------------------------------------- */

void lower_dot(Lower *l, Op *op) {
  const Value *c = op->in[2], *out = op->out[0];
  Dtype sum = sum_dtype(out->type->dtype);
  Dot d = dot_make(l, op);
  DotOperand *operands[] = {&d.a, &d.x};
  bool wanted[2];
  LaneValue **regs[2];
  const Layout *layouts[2];
  for (int k = 0; k < 2; k++) wanted[k] = prepare(l, &d, operands[k], k);
  if (d.split) place_rest(l, &d);
  remember(l, &d);
  (d.wgmma ? lower_wgmma_begin : d.mma ? lower_mma_begin : lower_fma_begin)(l, &d);
  LaneValue **rc = lower_get(l, c); /* single warps do not add to what is in flight */
  if (!d.wgmma && c->def && is_pending(l, c->def)) rc = wait_for_dots(l, 0, lower_count(c), rc);
  rc = lower_convert_kind(l, rc, lane_kind_of(c->type), c->layout, d.layout);
  d.acc = arena_copy(l->cx->arena, as_dtype(l, op, rc, c->type, d.layout, sum), sizeof(LaneValue *) * (size_t)d.n);
  for (int part = 0; part < 1 << (d.shape.k - d.chunk_bits); part++) {
    if (part) lane_barrier(&l->b, false);
    for (int k = 0; k < 2; k++) {
      DotOperand *o = operands[k];
      if (l->register_limited && !d.wgmma && k && wanted[0])
        lane_barrier(&l->b, true); /* or the assembler begins with the loads of both */
      if (!part && (wanted[k] || o->in_registers)) {
        lower_operand_now(l, op, k);
        layouts[k] = op->in[k]->layout;
        if (d.split) regs[k] = held_by_threads(l, &d, k, &layouts[k]);
        else regs[k] = (wanted[k] ? registers_to_write : operand_registers)(l, &d, k);
      }
      if (!part && o->in_registers) o->regs = regs[k], o->layout = layouts[k];
      if (wanted[k]) lower_place_write(l, &o->place, regs[k], layouts[k], part);
      if (wanted[k] && d.split) write_rest(l, &d, regs[k], layouts[k], part);
    }
    if ((wanted[0] || wanted[1]) && d.mma && d.chunk_bits == d.shape.k) stage_next(l, op);
    if (wanted[0] || wanted[1]) lower_meet(l);
    /* or the assembler begins with it while the product before has not ended */
    else if (l->register_limited && d.mma && !d.wgmma) lane_barrier(&l->b, true);
    if (part == (1 << (d.shape.k - d.chunk_bits)) - 1) lower_next_now(l, op);
    if (d.wgmma) lower_wgmma_chunk(l, &d, part);
    else if (d.mma) lower_mma_chunk(l, &d, part);
    else lower_fma_chunk(l, &d);
  }
  lower_set(l, out, as_dtype(l, op, d.acc, type_with_dtype(l->cx, out->type, sum), d.layout, out->type->dtype));
}
