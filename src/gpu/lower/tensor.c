/* Tiles that tensor maps bring to rings (gpu/async_loads.c).
 *
 * One thread expects a slot's bytes of its barrier and begins the copies: boxes of 128 bytes by 256 rows at most, in
 * the order in which the ring's layout has them (lower/ring.c). That layout is the hardware's own: rows of 32, 64 or
 * 128 bytes whose places of 16 bytes are xor'ed with the bits of the address above them, so a map needs to say no more
 * than how long a row is.
 *
 *     tile of 64 by 128 f16     rows of 128 bytes, two panels: boxes of 64 by 64, at 0 and 8192
 *
 * A tile of one dim lies as it is: boxes of 256 elements, whose places are not xor'ed.
 *
 * Of a ring whose tiles blocks of a cluster share, each block asks for a part of the boxes, and all of them get it: a
 * slot's full barrier counts the bytes that come to its own block, whoever asked; its empty barrier counts the warps of
 * all blocks that read what this block sends. How many blocks there are the launch decides; one shares with nobody.
 *
 * Rings that go together share theirs (lower/lockstep.c). mbarriers are made at the kernel's beginning, and live to its
 * end. Where a warp does nothing but copy, it makes them and goes on to its first copies; those that compute wait until
 * it has.
 */
#include "gpu/lower/ring.h"
#include "gpu/disjoint.h"
#include "gpu/launch_plan.h"

enum {
  BAR_BYTES = 8,
  SLOT_BARS = 2 * BAR_BYTES,
  EMPTY = BAR_BYTES,
  MOST_ROWS = 256,
  MOST_COLUMNS = 256,
  ROW_BYTES = 128,
  OPENING_BARRIER = 3 /* those before are of a part's warps (lower/control.c) */
};

static int64_t rows_of_tile(const Op *map) { return map->dim_count > 1 ? map->dims[1] : 1; }

static int rows_of_box(const Op *map) {
  int64_t rows = rows_of_tile(map) / (map->parts ? map->parts : 1);
  return rows < MOST_ROWS ? (int)rows : MOST_ROWS;
}

static int columns_of_box(const Op *map) {
  int most = rows_of_tile(map) == 1 ? MOST_COLUMNS : ROW_BYTES / dtype_bytes(map->in[0]->type->dtype);
  return map->dims[0] < most ? (int)map->dims[0] : most;
}

/* ---- the kernel's beginning -------------------------------------------------------------------------------------- */

static int plan_value(Lower *l, const Op *op, const Value *v) {
  int step = gpu_plan_value(l->cx, l->out->plan, l->f, v);
  if (step < 0)
    diag_fail(l->cx, op->span ? *op->span : (Span){0}, "`%s` takes what is made of more than the kernel's arguments",
              op_info[op->code].name);
  return step;
}

typedef struct Stores {
  const Value *map;
  const Op *op; /* that stores by the map; NULL: none does */
} Stores;

static void find_store(Op *op, void *arg) {
  Stores *s = arg;
  if (op->code == OP_STORE_TENSOR && op->in[0] == s->map) s->op = op;
}

static void add_map(Lower *l, const Op *op) {
  GpuLaunchPlan *p = l->out->plan;
  if (p->map_count == GPU_PLAN_MAPS)
    diag_fail(l->cx, op->span ? *op->span : (Span){0}, "more than %d tensor maps", GPU_PLAN_MAPS);
  if (!p->maps) p->maps = NEW_N(l->cx->arena, GpuMapPlan, GPU_PLAN_MAPS);
  GpuMapPlan *m = &p->maps[p->map_count++];
  Dtype t = op->in[0]->type->dtype;
  int rank = op->dim_count, columns = columns_of_box(op), rows = rows_of_box(op);
  Stores stores = {op->out[0], NULL};
  tile_walk(l->f->body, find_store, &stores);
  if (stores.op) {
    LowerBox box;
    lower_store_box(l, stores.op, &box);
    columns = 1 << box.columns, rows = 1 << box.rows;
  }
  int span = columns * dtype_bytes(t);
  int swizzle = span < 32 || span > ROW_BYTES || rows_of_tile(op) == 1 ? 0 : log2_floor(span) - 4;
  *m = (GpuMapPlan){.dtype = t, .rank = (uint8_t)rank, .swizzle = (uint8_t)swizzle};
  m->base = plan_value(l, op, op->in[0]);
  for (int i = 0; i < rank; i++) {
    m->box[i] = (uint16_t)(i == 0 ? columns : i == 1 ? rows : 1);
    m->sizes[i] = plan_value(l, op, op->in[1 + i]);
    if (i) m->strides[i - 1] = plan_value(l, op, op->in[rank + i]);
  }
  LaneValue **one = lower_array(l, 1);
  one[0] = lane_func_param(l->out, LT_B64, NULL, 1);
  l->out->maps++;
  l->out->hidden_params++;
  lower_set(l, op->out[0], one);
}

static void add_require(Lower *l, const Op *op) {
  GpuLaunchPlan *p = l->out->plan;
  int *all = NEW_N(l->cx->arena, int, p->require_count + 1);
  if (p->require_count) memcpy(all, p->requires, sizeof *all * (size_t)p->require_count);
  all[p->require_count] = plan_value(l, op, op->in[0]);
  p->requires = all;
  p->require_count++;
}

static void add_apart(Lower *l, const Op *op) {
  GpuLaunchPlan *p = l->out->plan;
  const ArgReach *reach = l->f->reach;
  if (!reach || p->apart_count == GPU_PLAN_APARTS)
    diag_fail(l->cx, op->span ? *op->span : (Span){0}, "nothing is known of how far accesses reach");
  if (!p->aparts) p->aparts = NEW_N(l->cx->arena, GpuApart, GPU_PLAN_APARTS);
  int from = op->in[0]->index, to = op->in[1]->index;
  Buf text = {.arena = l->cx->arena};
  if (l->out->apart) buf_printf(&text, "%s, ", l->out->apart);
  buf_printf(&text, "%s from %s", op->in[0]->name, op->in[1]->name);
  l->out->apart = text.at;
  p->aparts[p->apart_count++] = (GpuApart){{from, to}, {reach->reads[from], reach->writes[to]}};
}

/* The plan has only the steps that it takes. */
static void add_spans(Lower *l) {
  GpuLaunchPlan *p = l->out->plan;
  const ArgReach *reach = l->f->reach;
  if (!p || !p->apart_count) return;
  bool *wanted = NEW_N(l->cx->arena, bool, reach->count);
  int *at = NEW_N(l->cx->arena, int, reach->count);
  for (int i = 0; i < p->apart_count; i++) wanted[p->aparts[i].span[0]] = wanted[p->aparts[i].span[1]] = true;
  span_mark(reach->steps, reach->count, wanted);
  p->spans = NEW_N(l->cx->arena, SpanStep, reach->count);
  for (int i = 0; i < reach->count; i++) {
    SpanStep s = reach->steps[i];
    if (!wanted[i]) continue;
    for (int k = 0; k < span_info[s.code].operands; k++) s.in[k] = at[s.in[k]];
    at[i] = p->span_count;
    p->spans[p->span_count++] = s;
  }
  for (int i = 0; i < p->apart_count; i++)
    for (int k = 0; k < 2; k++) p->aparts[i].span[k] = at[p->aparts[i].span[k]];
}

static void find_param(Op *op, void *arg) {
  Lower *l = arg;
  if (op->code != OP_TENSOR_MAP && op->code != OP_REQUIRE && op->code != OP_APART) return;
  if (!l->out->plan) {
    l->out->plan = NEW(l->cx->arena, GpuLaunchPlan);
    memset(l->out->plan, 0, sizeof *l->out->plan);
  }
  if (op->code == OP_TENSOR_MAP) add_map(l, op);
  else if (op->code == OP_APART) add_apart(l, op);
  else add_require(l, op);
}

/* What may read what another program wrote meanwhile. */
static void find_wait(Op *op, void *arg) {
  GpuLaunchPlan *p = arg;
  if (op_is_atomic(op) || op_is_volatile(op) || (op->code == OP_ASM && !op_is_pure(op))) p->may_copy = false;
}

/* Names what a launch may copy to rows that begin at 16 bytes (padded_rows in rt/launch_plan.c). */
static void name_copied(Op *op, void *arg) {
  Lower *l = arg;
  int64_t most = 0;
  if (op->code != OP_TENSOR_MAP || !op->unaligned || op->dim_count < 2 ||
      type_elem_bytes(&(Type){.dtype = op->in[0]->type->dtype}) > 2)
    return;
  for (int i = 1; i <= 2; i++)
    if (value_is_const(op->in[i], &most) && most >> 31) return; /* no mask bounds it */
  const Value *array = op->in[0];
  while (array->def && array->def->code == OP_ADDPTR) array = array->def->in[0];
  Buf text = {.arena = l->cx->arena};
  if (l->out->copied) buf_printf(&text, "%s, ", l->out->copied);
  buf_printf(&text, "%s", array->name ? array->name : "?");
  l->out->copied = text.at;
}

void lower_tensor_params(Lower *l) {
  tile_walk(l->f->body, find_param, l);
  add_spans(l);
  if (l->out->plan) {
    l->out->plan->may_copy = true;
    tile_walk(l->f->body, find_wait, l->out->plan);
    if (l->out->plan->may_copy) tile_walk(l->f->body, name_copied, l);
  }
}

typedef struct Frees {
  const Value *ring;
  bool any;
} Frees;

static void find_free(Op *op, void *arg) {
  Frees *f = arg;
  f->any |= op->code == OP_RING_FREE && op->in[0] == f->ring;
}

/* Warps that say of a slot that they have read it. */
static LaneValue *readers(Lower *l, const LowerRing *r) {
  LaneValue *warps = lane_i32(&l->b, l->f->num_warps);
  return r->cluster ? lane_2(&l->b, LANE_MUL, LK_S32, lane_special(&l->b, SP_CLUSTER_SIZE), warps) : warps;
}

/* The rings so far that maps bring tiles to. */
typedef struct Rings {
  Lower *l;
  VEC(const Value *) all;
} Rings;

static void place_bars(Op *op, void *arg) {
  Rings *rings = arg;
  Lower *l = rings->l;
  if (op->code != OP_RING_TENSOR) return;
  const Op *ring = op->in[1]->def;
  LowerRing *r = lower_ring_of(l, ring->out[0]);
  if (r->tensor) return;
  r->tensor = true;
  r->cluster = (int)ring->cluster;
  if (r->cluster > l->out->cluster) l->out->cluster = r->cluster;
  lower_ring_join(l, ring->out[0], rings->all.at, rings->all.n);
  vec_push(l->cx->arena, &rings->all, ring->out[0]);
  bool own = r->first == r;
  r->bars = own ? lane_buffer(&l->b, "barriers", SLOT_BARS * (int)ring->slots, BAR_BYTES) : r->first->bars;
  l->has_bars = true;
}

static void make_bars(Op *op, void *arg) {
  Lower *l = arg;
  LaneBuilder *b = &l->b;
  if (op->code != OP_RING) return;
  const LowerRing *r = lower_ring_of(l, op->out[0]);
  if (!r->tensor || r->first != r) return;
  LaneValue *at = lane_shared(b, r->bars);
  Frees frees = {op->out[0], false};
  tile_walk(l->f->body, find_free, &frees);
  for (int i = 0; i < op->slots; i++) {
    lane_mbar(b, LANE_MBAR_INIT, at, SLOT_BARS * i, r->bars, lane_i32(b, r->sharers));
    if (frees.any) lane_mbar(b, LANE_MBAR_INIT, at, SLOT_BARS * i + EMPTY, r->bars, readers(l, r));
  }
}

static void prefetch_maps(Lower *l) {
  for (int i = 0; i < l->out->maps; i++) /* the first copies wait for less */
    lane_op_raw(&l->b, (LaneOp){.code = LANE_PREFETCH_MAP}, 1, &l->out->params[l->out->param_count - l->out->maps + i],
                0, NULL);
}

static LaneValue *is_one(Lower *l) {
  return lane_setp(&l->b, CMP_EQ, LK_S32, l->tid, lane_i32(&l->b, l->first_thread));
}

/* One thread makes all mbarriers, while the maps are on their way. */
static void one_makes_bars(Lower *l) {
  LaneBuilder *b = &l->b;
  LaneOp *branch = lane_if(b, is_one(l), false, 0, NULL);
  prefetch_maps(l);
  tile_walk(l->f->body, make_bars, l);
  if (l->tmem) lower_tmem_bars(l);
  lane_simple(b, LANE_FENCE_MBAR, 0, -1);
  lane_yield(b, 0, NULL);
  lane_enter(b, branch, 1);
  lane_yield(b, 0, NULL);
  lane_leave(b, branch);
}

/* Whether the warp that copies makes them: it then begins at once, and only those that compute wait for it. */
static bool copier_makes_bars(const Lower *l) {
  return l->has_bars && l->out->num_warps > l->f->num_warps && !l->out->cluster && !l->tmem;
}

void lower_tensor_open(Lower *l) {
  Rings rings = {.l = l};
  tile_walk(l->f->body, place_bars, &rings);
  lower_tmem_find(l);
  if ((!l->has_bars && !l->tmem) || copier_makes_bars(l)) return;
  one_makes_bars(l);
  if (l->tmem) lower_tmem_allocate(l);
  if (l->out->cluster) lane_simple(&l->b, LANE_CLUSTER_BARRIER, 0, -1);
  else lane_barrier(&l->b, l->out->num_warps == 1);
  if (l->tmem) lower_tmem_open(l);
}

void lower_tensor_open_part(Lower *l, bool computes) {
  LaneBuilder *b = &l->b;
  if (!copier_makes_bars(l)) return;
  if (!computes) {
    one_makes_bars(l);
    lane_barrier(b, true);
  }
  LaneOp meeting = {.code = computes ? LANE_BARRIER : LANE_BARRIER_ARRIVE,
                    .warps = (uint8_t)l->out->num_warps,
                    .imm = OPENING_BARRIER};
  lane_op_raw(b, meeting, 0, NULL, 0, NULL);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static LaneValue *bars_of(Lower *l, const LowerRing *r, LaneValue *slot) {
  LaneBuilder *b = &l->b;
  LaneValue *offset = lane_2(b, LANE_MUL, LK_S32, slot, lane_i32(b, SLOT_BARS));
  return lane_2(b, LANE_ADD, LK_S32, lane_shared(b, r->bars), offset);
}

static LaneValue *plus(Lower *l, LaneValue *x, int n) {
  return n ? lane_2(&l->b, LANE_ADD, LK_S32, x, lane_i32(&l->b, n)) : x;
}

/* A tile's boxes: so many panels of columns, each of so many parts of rows. */
typedef struct Boxes {
  const Op *op; /* that copies them */
  LaneValue *at, *bar;
  int panels, parts, multicast;
} Boxes;

/* All of them, or, of a multicast, the block's own share: of the panels if they can be shared out, else of the rows. */
static void copy_boxes(Lower *l, const LowerRing *r, Boxes x) {
  LaneBuilder *b = &l->b;
  const Op *map = x.op->in[0]->def;
  int columns = columns_of_box(map), rows = rows_of_box(map), bytes = (columns * rows) << r->place.shift;
  int rank = map->dim_count, all = x.parts;
  LaneValue *to[GPU_MAP_MOST_RANK], *at = x.at;
  for (int i = 0; i < rank; i++) to[i] = lower_get(l, x.op->in[4 + i])[0];
  if (x.multicast) {
    bool by_panels = x.panels % r->cluster == 0;
    *(by_panels ? &x.panels : &x.parts) /= r->cluster;
    int first = by_panels ? x.panels * all : x.parts, elements = by_panels ? x.panels * columns : x.parts * rows;
    LaneValue *rank_of = lane_special(b, SP_CLUSTER_RANK), **moved = &to[by_panels ? 0 : 1];
    at = lane_2(b, LANE_ADD, LK_S32, at, lane_2(b, LANE_MUL, LK_S32, rank_of, lane_i32(b, first * bytes)));
    *moved = lane_2(b, LANE_ADD, LK_S32, *moved, lane_2(b, LANE_MUL, LK_S32, rank_of, lane_i32(b, elements)));
  }
  LaneValue *column = to[0], *row = to[1];
  for (int p = 0; p < x.panels; p++)
    for (int k = 0; k < x.parts; k++) {
      to[0] = plus(l, column, p * columns);
      if (rank > 1) to[1] = plus(l, row, k * rows);
      lane_tensor(b, LANE_TENSOR_LOAD, rank, at, (int64_t)(p * all + k) * bytes, r->place.buffer, x.bar,
                  lower_get(l, x.op->in[0])[0], to)
          ->multicast = (uint8_t)x.multicast;
    }
}

static void begin_copies(Lower *l, const Op *op, const LowerRing *r) {
  LaneBuilder *b = &l->b;
  const Op *map = op->in[0]->def;
  LaneValue *slot = lower_get(l, op->in[2])[0];
  LaneOp *branch = lane_if(b, is_one(l), false, 0, NULL);
  Boxes boxes = {.op = op,
                 .bar = bars_of(l, r, slot),
                 .panels = (int)map->dims[0] / columns_of_box(map),
                 .parts = (int)rows_of_tile(map) / rows_of_box(map)};
  boxes.at = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, r->place.buffer), lower_slot_begin(l, r, op->in[2]));
  lane_mbar(b, LANE_MBAR_EXPECT, boxes.bar, 0, r->bars, lane_i32(b, r->bytes));
  if (r->cluster) {
    LaneValue *all = lane_setp(b, CMP_EQ, LK_S32, lane_special(b, SP_CLUSTER_SIZE), lane_i32(b, r->cluster)),
              *shares = lane_2(b, LANE_AND, LK_PRED, all, lower_get(l, op->in[op->in_count - 1])[0]);
    LaneOp *shared = lane_if(b, shares, false, 0, NULL);
    Boxes own = boxes;
    own.multicast = (1 << r->cluster) - 1;
    copy_boxes(l, r, own);
    lane_yield(b, 0, NULL);
    lane_enter(b, shared, 1);
    copy_boxes(l, r, boxes);
    lane_yield(b, 0, NULL);
    lane_leave(b, shared);
  } else {
    copy_boxes(l, r, boxes);
  }
  lane_yield(b, 0, NULL);
  lane_enter(b, branch, 1);
  lane_yield(b, 0, NULL);
  lane_leave(b, branch);
}

static void fill_with_zeros(Lower *l, const Op *op, const LowerRing *r) {
  LaneBuilder *b = &l->b;
  enum { CHUNK = 16 };
  int threads = 32 * l->f->num_warps, chunks = r->bytes / CHUNK;
  LaneValue *zero = lane_i32(b, 0), *zeros[] = {zero, zero, zero, zero},
            *bar = bars_of(l, r, lower_get(l, op->in[2])[0]),
            *at = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, r->place.buffer), lower_slot_begin(l, r, op->in[2])),
            *guard = chunks < threads ? lane_setp(b, CMP_LT, LK_S32, l->tid, lane_i32(b, chunks)) : NULL;
  at = lane_2(b, LANE_ADD, LK_S32, at, lane_2(b, LANE_MUL, LK_S32, l->tid, lane_i32(b, CHUNK)));
  for (int i = 0; i < chunks; i += threads)
    lane_store(b, SPACE_SHARED, LK_B32, 4, at, (int64_t)i * CHUNK, guard, zeros)->buffer = (int16_t)r->place.buffer;
  lane_simple(b, LANE_FENCE_PROXY, 0, -1);
  lane_barrier(b, l->out->num_warps == 1);
  LaneValue *one = is_one(l);
  lane_mbar(b, LANE_MBAR_ARRIVE, bar, 0, r->bars, NULL)->guard = one;
}

static void copy_box(Lower *l, const Op *op) {
  LaneBuilder *b = &l->b;
  const LowerRing *r = lower_ring_of(l, op->in[1]);
  LaneValue *exists = lower_get(l, op->in[3])[0];
  uint64_t bits = 0;
  bool known = lane_is_const(exists, &bits);
  LaneOp *branch = known ? NULL : lane_if(b, exists, !l->divergent, 0, NULL);
  if (!known || bits) begin_copies(l, op, r);
  if (branch) lane_yield(b, 0, NULL), lane_enter(b, branch, 1);
  if (!known || !bits) fill_with_zeros(l, op, r);
  if (branch) lane_yield(b, 0, NULL), lane_leave(b, branch);
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

static void wait_for(Lower *l, const Op *op, int which) {
  const LowerRing *r = lower_ring_of(l, op->in[0]);
  if (r->first != r) return;
  LaneValue *bar = bars_of(l, r, lower_get(l, op->in[1])[0]);
  lane_mbar(&l->b, LANE_MBAR_WAIT, bar, which, r->bars, lower_get(l, op->in[2])[0]);
}

typedef struct Reads {
  int buffer;
  bool any;
} Reads;

static void find_read(LaneOp *op, void *arg) {
  Reads *r = arg;
  r->any |= op->code == LANE_LD && op->buffer == r->buffer;
}

/* Whether a fence stands behind the last read of the ring here. */
static bool is_fenced(const LaneBuilder *b, const LowerRing *r) {
  Reads reads = {r->place.buffer, false};
  for (LaneOp *op = b->block->last; op && !reads.any; op = op->prev) {
    if (op->code == LANE_FENCE_PROXY) return true;
    find_read(op, &reads);
    for (int i = 0; i < 2; i++)
      if (op->body[i]) lane_walk(op->body[i], find_read, &reads);
  }
  return false;
}

/* A warp's lanes have all read before one of them says so; to each block of a cluster another one. */
static void free_slot(Lower *l, const Op *op) {
  LaneBuilder *b = &l->b;
  const LowerRing *r = lower_ring_of(l, op->in[0]);
  if (r->first->last != r) return;
  LaneValue *bar = bars_of(l, r, lower_get(l, op->in[1])[0]);
  if (lower_ring_is_loaded(l, op->in[0]) && !is_fenced(b, r)) lane_simple(b, LANE_FENCE_PROXY, 0, -1);
  lane_barrier(b, true);
  LaneValue *says = r->cluster ? lane_setp(b, CMP_LT, LK_S32, l->lane, lane_special(b, SP_CLUSTER_SIZE))
                               : lane_setp(b, CMP_EQ, LK_S32, l->lane, lane_i32(b, 0));
  lane_mbar(b, LANE_MBAR_ARRIVE, bar, EMPTY, r->bars, r->cluster ? l->lane : NULL)->guard = says;
}

static void drain(Lower *l, const Op *op) {
  LaneBuilder *b = &l->b;
  const LowerRing *r = lower_ring_of(l, op->in[0]);
  int slots = (int)op->in[0]->def->slots;
  if (r->first != r) return;
  LaneValue *begin[2], *end[2];
  for (int i = 0; i < 2; i++) begin[i] = lower_get(l, op->in[1 + i])[0], end[i] = lower_get(l, op->in[3 + i])[0];
  LaneOp *loop = lane_while(b, 2, begin);
  loop->uniform = !l->divergent;
  LaneValue *const *at = loop->body[0]->args;
  LaneValue *goes_on = lane_2(b, LANE_OR, LK_PRED, lane_setp(b, CMP_NE, LK_S32, at[0], end[0]),
                              lane_setp(b, CMP_NE, LK_S32, at[1], end[1]));
  lane_condition(b, goes_on, 2, at);
  lane_enter(b, loop, 1);
  at = loop->body[1]->args;
  lane_mbar(b, LANE_MBAR_WAIT, bars_of(l, r, at[0]), 0, r->bars, at[1]);
  LaneValue *after = plus(l, at[0], 1), *wraps = lane_setp(b, CMP_EQ, LK_S32, after, lane_i32(b, slots)),
            *other = lane_2(b, LANE_XOR, LK_B32, at[1], lane_i32(b, 1));
  lane_yield(b, 2, (LaneValue *[]){lane_select(b, wraps, lane_i32(b, 0), after), lane_select(b, wraps, other, at[1])});
  lane_leave(b, loop);
}

/* ---- sums ---------------------------------------------------------------------------------------------------------- */

enum { BOX_ROWS = 16, BOX_COLUMNS = 32 }; /* of 4 bytes, as the map has them (gpu/specialize_rings.c) */

static LaneValue *warp_number(Lower *l) {
  LaneValue *warp = lane_2(&l->b, LANE_SHR, LK_U32, l->tid, lane_i32(&l->b, 5));
  return lane_shfl(&l->b, SHUFFLE_IDX, warp, lane_i32(&l->b, 0));
}

static void warps_meet(Lower *l) { lane_barrier(&l->b, true); }

static void wait_for_sums(Lower *l, bool read) {
  LaneOp wait = {.code = LANE_BULK_WAIT, .read = read, .buffer = -1};
  lane_op_raw(&l->b, wait, 0, NULL, 0, NULL);
}

/* The box's elements, whose rows and columns a warp's lanes and registers have; the rest number its boxes. */
static int boxes_of(const Layout *layout, uint32_t inside, uint32_t *boxes) {
  int count = 0;
  for (int i = 0; i < layout->reg_bits + layout->lane_bits; i++)
    if (layout->basis[i] & ~inside) boxes[count++] = layout->basis[i];
  return count;
}

/* Each warp by itself brings what it holds to shared memory, when what it brought before has been read, and asks for
 * it to be added: boxes of 16 rows, as products leave them. */
static void add_boxes(Lower *l, const Op *op) {
  LaneBuilder *b = &l->b;
  const Value *v = op->in[1];
  const Type *t = v->type;
  const Layout *layout = v->layout;
  int rank = op->in_count - 2, warps = layout->warp_bits, columns_bits = log2_floor(t->shape[1]);
  uint32_t across = (uint32_t)t->shape[1] - 1, inside = (BOX_COLUMNS - 1) | (BOX_ROWS - 1) << columns_bits;
  uint32_t boxes[F2_MAX], of_warp[3][F2_MAX]; /* bytes, columns, rows */
  LaneKind kind = lane_kind_of(t);
  F2Map map = lower_tile_map((int64_t[]){t->shape[0], t->shape[1]}, 1, lower_kind_shift(kind), false);
  Place p = lower_place(l, "sums", kind, &map, 0);
  l->out->buffers.at[p.buffer].align = 1024;
  l->out->buffers.at[p.buffer].warp_local = true;
  int count = boxes_of(layout, inside, boxes);
  LaneValue **regs = lower_get(l, v), *warp = warp_number(l), *to[GPU_MAP_MOST_RANK], *starts[3];
  wait_for_sums(l, true);
  warps_meet(l);
  lower_place_write(l, &p, regs, layout, 0);
  lane_simple(b, LANE_FENCE_PROXY, 0, -1);
  warps_meet(l);
  for (int i = 0; i < warps; i++) {
    uint32_t at = layout->basis[layout->reg_bits + layout->lane_bits + i];
    of_warp[0][i] = f2_apply(&map, at) << p.shift, of_warp[1][i] = at & across, of_warp[2][i] = at >> columns_bits;
  }
  for (int i = 0; i < 3; i++) starts[i] = lower_linear(l, warps, of_warp[i], warp);
  LaneValue *at = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, p.buffer), starts[0]);
  for (int i = 0; i < rank; i++) to[i] = lower_get(l, op->in[2 + i])[0];
  LaneValue *column = lane_2(b, LANE_ADD, LK_S32, to[0], starts[1]),
            *row = lane_2(b, LANE_ADD, LK_S32, to[1], starts[2]);
  LaneOp *branch = lane_if(b, lane_setp(b, CMP_EQ, LK_S32, l->lane, lane_i32(b, 0)), false, 0, NULL);
  for (int i = 0; i < 1 << count; i++) {
    uint32_t box = 0;
    for (int k = 0; k < count; k++) box ^= i >> k & 1 ? boxes[k] : 0;
    to[0] = plus(l, column, (int)(box & across)), to[1] = plus(l, row, (int)(box >> columns_bits));
    lane_tensor(b, LANE_TENSOR_RED, rank, at, (int64_t)f2_apply(&map, box) << p.shift, p.buffer, NULL,
                lower_get(l, op->in[0])[0], to)
        ->rmw = RMW_ADD;
  }
  lane_simple(b, LANE_BULK_COMMIT, 0, -1);
  lane_yield(b, 0, NULL);
  lane_enter(b, branch, 1);
  lane_yield(b, 0, NULL);
  lane_leave(b, branch);
  l->has_sums = true;
}

void lower_tensor_close(Lower *l) {
  if (l->has_sums) wait_for_sums(l, false);
  l->has_sums = false;
}

void lower_tensor(Lower *l, Op *op) {
  switch (op->code) {
    case OP_RING_TENSOR: copy_box(l, op); break;
    case OP_TENSOR_ADD: add_boxes(l, op); break;
    case OP_RING_FULL: wait_for(l, op, 0); break;
    case OP_RING_EMPTY: wait_for(l, op, EMPTY); break;
    case OP_RING_FREE: free_slot(l, op); break;
    case OP_RING_DRAIN: drain(l, op); break;
    default: break; /* what a launch computes (lower_tensor_params) */
  }
}
