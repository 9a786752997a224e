/* Tiles that tensor maps bring to rings (gpu/async_loads.c).
 *
 * One thread expects a slot's bytes of its barrier and begins the copies: boxes of 128 bytes by 256 rows at most, in
 * the order in which the ring's layout has them (lower/ring.c). That layout is the hardware's own: rows of 32, 64 or
 * 128 bytes whose places of 16 bytes are xor'ed with the bits of the address above them, so a map needs to say no more
 * than how long a row is.
 *
 *     tile of 64 by 128 f16     rows of 128 bytes, two panels: boxes of 64 by 64, at 0 and 8192
 *
 * mbarriers are made at the kernel's beginning, and live to its end.
 */
#include "gpu/lower/ring.h"
#include "gpu/launch_plan.h"

enum { BAR_BYTES = 8, SLOT_BARS = 2 * BAR_BYTES, EMPTY = BAR_BYTES, MOST_ROWS = 256, ROW_BYTES = 128 };

static int rows_of_box(const Op *map) { return map->dims[1] < MOST_ROWS ? (int)map->dims[1] : MOST_ROWS; }

static int columns_of_box(const Op *map) {
  int most = ROW_BYTES / dtype_bytes(map->in[0]->type->dtype);
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

static void add_map(Lower *l, const Op *op) {
  GpuLaunchPlan *p = l->out->plan;
  if (p->map_count == GPU_PLAN_MAPS)
    diag_fail(l->cx, op->span ? *op->span : (Span){0}, "more than %d tensor maps", GPU_PLAN_MAPS);
  if (!p->maps) p->maps = NEW_N(l->cx->arena, GpuMapPlan, GPU_PLAN_MAPS);
  GpuMapPlan *m = &p->maps[p->map_count++];
  Dtype t = op->in[0]->type->dtype;
  int rank = op->dim_count, span = columns_of_box(op) * dtype_bytes(t);
  *m = (GpuMapPlan){.dtype = t, .rank = (uint8_t)rank, .swizzle = (uint8_t)(span < 32 ? 0 : dot_log2(span) - 4)};
  m->base = plan_value(l, op, op->in[0]);
  for (int i = 0; i < rank; i++) {
    m->box[i] = (uint16_t)(i == 0 ? columns_of_box(op) : i == 1 ? rows_of_box(op) : 1);
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

static void find_param(Op *op, void *arg) {
  Lower *l = arg;
  if (op->code != OP_TENSOR_MAP && op->code != OP_REQUIRE) return;
  if (!l->out->plan) {
    l->out->plan = NEW(l->cx->arena, GpuLaunchPlan);
    memset(l->out->plan, 0, sizeof *l->out->plan);
  }
  if (op->code == OP_TENSOR_MAP) add_map(l, op);
  else add_require(l, op);
}

void lower_tensor_params(Lower *l) { tile_walk(l->f->body, find_param, l); }

typedef struct Frees {
  const Value *ring;
  bool any;
} Frees;

static void find_free(Op *op, void *arg) {
  Frees *f = arg;
  f->any |= op->code == OP_RING_FREE && op->in[0] == f->ring;
}

typedef struct Opening {
  Lower *l;
  LaneOp *branch; /* where one thread makes mbarriers; NULL: there are none yet */
} Opening;

static LaneValue *is_one(Lower *l) {
  return lane_setp(&l->b, CMP_EQ, LK_S32, l->tid, lane_i32(&l->b, l->first_thread));
}

static void make_bars(Op *op, void *arg) {
  Opening *o = arg;
  Lower *l = o->l;
  LaneBuilder *b = &l->b;
  if (op->code != OP_RING_TENSOR) return;
  const Op *ring = op->in[1]->def;
  LowerRing *r = lower_ring_of(l, ring->out[0]);
  if (r->tensor) return;
  int slots = (int)ring->attr[0];
  if (!o->branch) o->branch = lane_if(b, is_one(l), false, 0, NULL);
  r->tensor = true;
  r->bars = lane_buffer(b, "barriers", SLOT_BARS * slots, BAR_BYTES);
  LaneValue *at = lane_shared(b, r->bars);
  Frees frees = {ring->out[0], false};
  tile_walk(l->f->body, find_free, &frees);
  for (int i = 0; i < slots; i++) {
    lane_mbar(b, LANE_MBAR_INIT, at, SLOT_BARS * i, r->bars, lane_i32(b, 1));
    if (frees.any) lane_mbar(b, LANE_MBAR_INIT, at, SLOT_BARS * i + EMPTY, r->bars, lane_i32(b, l->f->num_warps));
  }
}

void lower_tensor_open(Lower *l) {
  Opening o = {l, NULL};
  tile_walk(l->f->body, make_bars, &o);
  if (!o.branch) return;
  lane_simple(&l->b, LANE_FENCE_MBAR, 0, -1);
  for (int i = 0; i < l->out->maps; i++) /* the first copies wait for less */
    lane_op_raw(&l->b, (LaneOp){.code = LANE_PREFETCH_MAP}, 1, &l->out->params[l->out->param_count - l->out->maps + i],
                0, NULL);
  lane_yield(&l->b, 0, NULL);
  lane_enter(&l->b, o.branch, 1);
  lane_yield(&l->b, 0, NULL);
  lane_leave(&l->b, o.branch);
  lane_barrier(&l->b, l->out->num_warps == 1);
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

static void begin_copies(Lower *l, const Op *op, const LowerRing *r) {
  LaneBuilder *b = &l->b;
  const Op *map = op->in[0]->def;
  int columns = columns_of_box(map), rows = rows_of_box(map), size = 1 << r->place.shift, rank = map->dim_count;
  LaneValue *slot = lower_get(l, op->in[2])[0], *to[GPU_MAP_MOST_RANK];
  LaneOp *branch = lane_if(b, is_one(l), false, 0, NULL);
  LaneValue *bar = bars_of(l, r, slot),
            *at = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, r->place.buffer), lower_slot_begin(l, r, op->in[2]));
  lane_mbar(b, LANE_MBAR_EXPECT, bar, 0, r->bars, lane_i32(b, r->bytes));
  for (int i = 0; i < rank; i++) to[i] = lower_get(l, op->in[4 + i])[0];
  LaneValue *column = to[0], *row = to[1];
  for (int p = 0; p < map->dims[0] / columns; p++)
    for (int k = 0; k < map->dims[1] / rows; k++) {
      int64_t offset = (int64_t)(p * map->dims[1] + k * rows) * columns * size;
      to[0] = plus(l, column, p * columns), to[1] = plus(l, row, k * rows);
      lane_tensor(b, LANE_TENSOR_LOAD, rank, at, offset, r->place.buffer, bar, lower_get(l, op->in[0])[0], to);
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
  LaneValue *bar = bars_of(l, r, lower_get(l, op->in[1])[0]);
  lane_mbar(&l->b, LANE_MBAR_WAIT, bar, which, r->bars, lower_get(l, op->in[2])[0]);
}

/* A warp's lanes have all read before one of them says so. */
static void free_slot(Lower *l, const Op *op) {
  LaneBuilder *b = &l->b;
  const LowerRing *r = lower_ring_of(l, op->in[0]);
  LaneValue *bar = bars_of(l, r, lower_get(l, op->in[1])[0]);
  if (lower_ring_is_loaded(l, op->in[0])) lane_simple(b, LANE_FENCE_PROXY, 0, -1);
  lane_barrier(b, true);
  LaneValue *one = lane_setp(b, CMP_EQ, LK_S32, l->lane, lane_i32(b, 0));
  lane_mbar(b, LANE_MBAR_ARRIVE, bar, EMPTY, r->bars, NULL)->guard = one;
}

static void drain(Lower *l, const Op *op) {
  LaneBuilder *b = &l->b;
  const LowerRing *r = lower_ring_of(l, op->in[0]);
  int slots = (int)op->in[0]->def->attr[0];
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

void lower_tensor(Lower *l, Op *op) {
  switch (op->code) {
    case OP_RING_TENSOR: copy_box(l, op); break;
    case OP_RING_FULL: wait_for(l, op, 0); break;
    case OP_RING_EMPTY: wait_for(l, op, EMPTY); break;
    case OP_RING_FREE: free_slot(l, op); break;
    case OP_RING_DRAIN: drain(l, op); break;
    default: break; /* what a launch computes (lower_tensor_params) */
  }
}
