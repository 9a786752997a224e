/* Products that add to tensor memory (sm_100a; gpu/tmem.c puts them into loops).
 *
 * Tensor memory has 128 lanes and 512 columns of 32 bits. A tile of sums lies there, row r in lane r % 128, and, of
 * more than 128 rows, the next 128 in the next N columns; of 64 rows, r in lane r % 16 + 32 * (r / 16). One warp
 * allocates for all of the kernel's tiles, at its beginning, and frees at its end. One thread issues products, each of
 * 128 (or 64) rows by up to 256 columns, 32 bytes of k's at a time, with operands as wgmma's (lower/wgmma.c), and
 * commits, which arrive at one of the tile's mbarriers. Each warp brings its lanes to registers, and from there, in
 * the layout that layout/dot.c has for it, which is how the hardware spreads them.
 */
#include "gpu/lower/dot.h"
#include "gpu/lower/ring.h"
#include "layout/layout.h"

enum { BAR_BYTES = 8, BARS = TMEM_BARS, WORD = 8, LANES = 7, MOST_COLUMNS = 8, CHUNK = 32 }; /* LANES, COLUMNS: log2 */

typedef struct Tmem {
  LaneValue *at; /* lane 0, column 0 of the tile */
  int bars;      /* bytes: where its mbarriers begin in the buffer */
} Tmem;

struct LowerTmem {
  int buffer, columns;
  LaneValue *at;
  Map *tiles; /* by the value of OP_TMEM */
};

static bool is_one_warp(const Lower *l) { return l->out->num_warps == 1; }

static LaneValue *is_one(Lower *l) {
  return lane_setp(&l->b, CMP_EQ, LK_S32, l->tid, lane_i32(&l->b, l->first_thread));
}

static LaneOp *branch_on(Lower *l, LaneValue *p) { return lane_if(&l->b, p, false, 0, NULL); }

static void end_branch(Lower *l, LaneOp *branch) {
  lane_yield(&l->b, 0, NULL);
  lane_enter(&l->b, branch, 1);
  lane_yield(&l->b, 0, NULL);
  lane_leave(&l->b, branch);
}

static void simple(Lower *l, LaneCode c) { lane_simple(&l->b, c, 0, -1); }

static int columns_of(const Op *tmem) { return log2_floor(tmem->dims[1]); }

/* ---- the kernel's beginning and end ------------------------------------------------------------------------------ */

typedef struct Found {
  Lower *l;
  int count;
} Found;

static void find_tile(Op *op, void *arg) {
  Found *f = arg;
  if (op->code != OP_TMEM) return;
  struct LowerTmem *m = f->l->tmem;
  Tmem *t = NEW(f->l->cx->arena, Tmem);
  t->bars = WORD + f->count++ * BARS * BAR_BYTES;
  map_put(m->tiles, op->out[0], t);
}

static void place_tile(Op *op, void *arg) {
  Lower *l = arg;
  if (op->code != OP_TMEM) return;
  struct LowerTmem *m = l->tmem;
  ((Tmem *)map_get(m->tiles, op->out[0]))->at = lane_2(&l->b, LANE_ADD, LK_S32, m->at, lane_i32(&l->b, m->columns));
  m->columns += (int)layout_tmem_columns(op->dims[0], op->dims[1]);
}

static void count_columns(Op *op, void *arg) {
  if (op->code == OP_TMEM) *(int *)arg += (int)layout_tmem_columns(op->dims[0], op->dims[1]);
}

static int allocated(const Lower *l) {
  int columns = 0, all = TMEM_LEAST;
  tile_walk(l->f->body, count_columns, &columns);
  while (all < columns) all *= 2;
  return all;
}

void lower_tmem_find(Lower *l) {
  struct LowerTmem *m = l->tmem = NEW(l->cx->arena, struct LowerTmem);
  *m = (struct LowerTmem){.tiles = map_create(l->cx->arena, false)};
  Found f = {l, 0};
  tile_walk(l->f->body, find_tile, &f);
  if (f.count) m->buffer = lane_buffer(&l->b, "tensor memory", WORD + f.count * BARS * BAR_BYTES, BAR_BYTES);
  else l->tmem = NULL;
}

void lower_tmem_bars(Lower *l) {
  int buffer = l->tmem->buffer, bytes = l->out->buffers.at[buffer].bytes;
  for (int at = WORD; at < bytes; at += BAR_BYTES)
    lane_mbar(&l->b, LANE_MBAR_INIT, lane_shared(&l->b, buffer), at, buffer, lane_i32(&l->b, 1));
}

void lower_tmem_allocate(Lower *l) {
  LaneBuilder *b = &l->b;
  int buffer = l->tmem->buffer;
  LaneOp *branch = branch_on(l, lane_setp(b, CMP_EQ, LK_S32, l->warp, lane_i32(b, 0)));
  lane_mbar(b, LANE_TMEM_ALLOC, lane_shared(b, buffer), 0, buffer, NULL)->columns = (uint16_t)allocated(l);
  simple(l, LANE_TMEM_RELINQUISH);
  end_branch(l, branch);
}

void lower_tmem_open(Lower *l) {
  struct LowerTmem *m = l->tmem;
  LaneOp *load = lane_load(&l->b, SPACE_SHARED, LK_B32, 1, lane_shared(&l->b, m->buffer), 0, NULL, NULL);
  load->buffer = (int16_t)m->buffer;
  m->at = load->out[0];
  tile_walk(l->f->body, place_tile, l);
}

void lower_tmem_close(Lower *l) {
  LaneBuilder *b = &l->b;
  if (!l->tmem) return;
  simple(l, LANE_TMEM_FENCE_BEFORE);
  lane_barrier(b, is_one_warp(l));
  LaneOp *branch = branch_on(l, lane_setp(b, CMP_EQ, LK_S32, l->warp, lane_i32(b, 0)));
  simple(l, LANE_TMEM_FENCE_AFTER);
  LaneOp proto = {.code = LANE_TMEM_DEALLOC, .columns = (uint16_t)allocated(l)};
  lane_op_raw(b, proto, 1, &l->tmem->at, 0, NULL);
  end_branch(l, branch);
}

static const Tmem *tile_of(const Lower *l, const Value *v) { return map_get(l->tmem->tiles, v); }

/* ---- to registers, and from there -------------------------------------------------------------------------------- */

/* In tensor memory, from the tile's beginning: the column of an element's cell. */
static uint32_t column_of(const Op *tmem, uint32_t v) {
  int n = columns_of(tmem);
  return (v & ((1u << n) - 1)) + (v >> (n + LANES) << n);
}

static LaneValue *warp_begin(Lower *l, const Op *tmem, const Layout *layout) {
  LaneBuilder *b = &l->b;
  uint32_t parts[F2_MAX];
  const uint32_t *warps = layout->basis + layout->reg_bits + layout->lane_bits;
  for (int i = 0; i < layout->warp_bits; i++) parts[i] = i < 2 ? UINT32_C(32) << 16 << i : column_of(tmem, warps[i]);
  return lane_2(b, LANE_ADD, LK_S32, tile_of(l, tmem->out[0])->at, lower_linear(l, layout->warp_bits, parts, l->warp));
}

static void access(Lower *l, const Op *tmem, const Layout *layout, LaneValue **regs, bool load) {
  LaneBuilder *b = &l->b;
  int n = layout_registers(layout), rows = tmem->dims[0] == 64 ? 16 : 32, side = 1 << columns_of(tmem);
  LaneValue *begin = warp_begin(l, tmem, layout);
  int beside = 1; /* registers of neighbours */
  for (int i = 0; i < layout->reg_bits && layout->basis[i] < (rows == 16 ? (uint32_t)side * 16 : (uint32_t)side); i++)
    beside *= 2;
  int chunk = beside < CHUNK ? beside : CHUNK;
  for (int r = 0; r < n; r += chunk) {
    uint32_t v = 0;
    for (int i = 0; i < layout->reg_bits; i++)
      if (r >> i & 1) v ^= layout->basis[i];
    LaneValue *at = lane_2(b, LANE_ADD, LK_S32, begin, lane_i32(b, (int32_t)column_of(tmem, v)));
    if (load) lane_tmem_ld(b, rows, at, chunk, regs + r);
    else lane_tmem_st(b, rows, at, chunk, regs + r);
  }
}

static void store(Lower *l, const Op *op) {
  access(l, op->in[0]->def, op->in[1]->layout, lower_get(l, op->in[1]), false);
  simple(l, LANE_TMEM_WAIT_ST);
  simple(l, LANE_TMEM_FENCE_BEFORE);
  lane_barrier(&l->b, is_one_warp(l));
}

static void load(Lower *l, const Op *op) {
  const Layout *layout = op->out[0]->layout;
  int n = layout_registers(layout);
  LaneValue **regs = lower_array(l, n);
  simple(l, LANE_TMEM_FENCE_AFTER);
  access(l, op->in[0]->def, layout, regs, true);
  lane_tmem_wait_ld(&l->b, n, regs, regs);
  lower_set(l, op->out[0], regs);
  for (int i = 0; i < l->in_flight.n; i++) lane_simple(&l->b, LANE_SHARED_READ, 0, l->in_flight.at[i]);
  l->in_flight.n = 0;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

enum { TMEM_DESCRIPTOR = 1 << 14 }; /* beside what wgmma's says, in the high word */

static void multiply(Lower *l, const Op *op) {
  LaneBuilder *b = &l->b;
  const Op *tmem = op->in[2]->def;
  const Type *ta = op->in[0]->type, *tx = op->in[1]->type;
  Dot d = {.op = op,
           .shape = {log2_floor(ta->shape[0]), log2_floor(tx->shape[1]), log2_floor(ta->shape[1]), 0},
           .types = {ta->dtype, tx->dtype},
           .kind = lane_kind_of(&(Type){.dtype = ta->dtype}),
           .pack = layout_mma_pack(ta->dtype),
           .pieces = PRECISION_TF32,
           .mma = true};
  d.tile_bits = 3 + d.pack;
  d.chunk_bits = d.shape.k;
  DotDescriptor of[2];
  for (int k = 0; k < 2; k++) {
    DotOperand *o = k ? &d.x : &d.a;
    lower_ring_operand(l, &d, o, k);
    lower_dot_descriptor(l, &d, o, lane_2(b, LANE_ADD, LK_S32, lane_shared(b, o->place.buffer), o->begin), &of[k]);
    vec_push(l->cx->arena, &l->in_flight, o->place.buffer);
  }
  uint64_t high = (of[0].high | TMEM_DESCRIPTOR) | (uint64_t)(of[1].high | TMEM_DESCRIPTOR) << 32;
  int m = d.shape.m, n = d.shape.n, rows = m < LANES ? m : LANES, columns = n < MOST_COLUMNS ? n : MOST_COLUMNS;
  bool mixed;
  LaneKind kind = lower_mma_kind(&d, &mixed);
  LaneOp *branch = branch_on(l, is_one(l));
  simple(l, LANE_TMEM_FENCE_AFTER);
  for (int k = 0; k < 1 << d.shape.k; k += 1 << d.tile_bits)
    for (int row = 0; row < 1 << m; row += 1 << rows)
      for (int column = 0; column < 1 << n; column += 1 << columns) {
        uint32_t v = (uint32_t)row << n | (uint32_t)column;
        LaneValue *to =
            lane_2(b, LANE_ADD, LK_S32, tile_of(l, tmem->out[0])->at, lane_i32(b, (int32_t)column_of(tmem, v)));
        lane_tmem_mma(b, kind, mixed, !d.a.along, !d.x.along, 1 << rows, 1 << columns, high, to,
                      lower_dot_descriptor_at(l, &d, &of[0], v, k), lower_dot_descriptor_at(l, &d, &of[1], v, k),
                      lane_pred(b, true));
      }
  end_branch(l, branch);
}

static LaneValue *bar_of(Lower *l, const Op *op) {
  LaneBuilder *b = &l->b;
  LaneValue *slot = lower_get(l, op->in[1])[0];
  return lane_2(b, LANE_ADD, LK_S32, lane_shared(b, l->tmem->buffer),
                lane_2(b, LANE_MUL, LK_S32, slot, lane_i32(b, BAR_BYTES)));
}

static void commit(Lower *l, const Op *op) {
  LaneOp *branch = branch_on(l, is_one(l));
  lane_mbar(&l->b, LANE_TMEM_COMMIT, bar_of(l, op), tile_of(l, op->in[0])->bars, l->tmem->buffer, NULL);
  end_branch(l, branch);
}

static void wait_for(Lower *l, const Op *op) {
  lane_mbar(&l->b, LANE_MBAR_WAIT, bar_of(l, op), tile_of(l, op->in[0])->bars, l->tmem->buffer,
            lower_get(l, op->in[2])[0]);
}

void lower_tmem(Lower *l, Op *op) {
  switch (op->code) {
    case OP_TMEM_STORE: store(l, op); break;
    case OP_TMEM_LOAD: load(l, op); break;
    case OP_TMEM_DOT: multiply(l, op); break;
    case OP_TMEM_COMMIT: commit(l, op); break;
    case OP_TMEM_WAIT: wait_for(l, op); break;
    default: break; /* allocated at the kernel's beginning */
  }
}
