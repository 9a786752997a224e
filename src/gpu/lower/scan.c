/* scan: every prefix along an axis, by any associative body on k tensors at once; and map, a body on each element.
 *
 * scan takes the bits of a place that run along the axis from the lowest up (lower/axis.c), in runs of one kind. Before
 * a run, a block is what the lower bits hold: each element has its prefix within its block, and every thread of a block
 * knows the block's total. Within a run the totals of 2^m neighbouring blocks are scanned, what comes before its block
 * is put in front of each element, and the blocks become one:
 *
 *     f32[1024], 4 warps: reg 0, 1 | lane 0..4 | warp 0, 1 | reg 2
 *
 *     registers   r1 = r0 r1, r2 = r1 r2, ...          in the thread: a chain
 *     lanes       totals of lanes, in log2 steps: at bit b a lane whose bit b is set takes the total of the half
 *                 below, from its last lane
 *                 then the total of the lane before is put in front of each register
 *     warps       totals of all warps are read from shared memory; each thread chains them and keeps the one before
 *                 its warp
 *     registers   the second half's elements get the first half's total in front
 *
 * What comes in front of neighbours that a thread holds is the same for all of them: it is gathered once, run after
 * run, and put in front of each in the end. Where the body has an identity, that stands for "nothing before".
 *
 * A reduction of the same tensor by the same body, as in a row's sums tile by tile, takes its result from here
 * (lower_given): the tile is not held for it.
 *
 * A reverse scan is the same with every coordinate complemented: the last element comes first.
 */
#include "gpu/lower/move.h"

enum { MOST = 64 };

typedef struct Scan {
  Op *op;
  const Layout *layout;
  int k, n;
  bool reverse;
  LaneValue ***x;     /* x[i][r]: the prefix within the block */
  LaneValue ***total; /* total[i][r]: of the block, where r has no bit of `regs` */
  LaneKind *kinds;
  uint32_t done;       /* bits of the flat index that lie within a block */
  int regs;            /* bits of the register's number that do */
  bool across;         /* so do bits of lanes or warps: a block's last element is not always in this thread */
  int near;            /* bits of the register's number that the first run took: neighbours */
  LaneValue ***front;  /* front[i][r]: what comes before the neighbours at r; front[0][r] NULL: nothing */
  LaneValue **has;     /* by r: where there is something; NULL: everywhere */
  LaneValue *identity; /* of the body, or NULL */
} Scan;

static void get(const Scan *s, LaneValue ***from, int r, LaneValue **out) {
  for (int i = 0; i < s->k; i++) out[i] = from[i][r];
}

static void put(const Scan *s, LaneValue ***to, int r, LaneValue *const *values) {
  for (int i = 0; i < s->k; i++) to[i][r] = values[i];
}

/* The c-th register of a run that begins at r. */
static int run_register(const Scan *s, const AxisBit *run, int count, int r, int c) {
  if (s->reverse) c ^= (1 << count) - 1;
  for (int j = 0; j < count; j++) r |= (c >> j & 1) << run[j].bit;
  return r;
}

static LaneValue *identity_of(Lower *l, const Op *op) {
  Dtype t = op->in[0]->type->dtype;
  OpCode code = tile_body_single(op);
  char memory[8] = {0};
  uint64_t bits = 0;
  if (op->in_count != 1 || op->in[0]->type->ptr || t == DT_I1 || (code != OP_ADD && code != OP_OR && code != OP_XOR))
    return NULL;
  if (dtype_is_float(t)) {
    dtype_store_float(t, memory, -0.0);
    memcpy(&bits, memory, (size_t)dtype_bytes(t));
  }
  return dtype_is_fp8(t) ? NULL : lane_const(&l->b, lane_type_of(op->in[0]->type), bits);
}

/* before, in front of what comes before the neighbours at r, where `has`. */
static void gather_before(Lower *l, Scan *s, int r, LaneValue *const *before, LaneValue *has) {
  LaneBuilder *b = &l->b;
  LaneValue *x[MOST], *y[MOST], *safe;
  if (s->identity && has) {
    safe = lane_select(b, has, before[0], s->identity);
    before = &safe;
    has = NULL;
  }
  if (!s->front[0][r]) {
    put(s, s->front, r, before);
    s->has[r] = has;
    return;
  }
  get(s, s->front, r, x);
  lower_combine(l, s->op, before, x, y);
  for (int i = 0; i < s->k; i++) {
    if (s->has[r]) y[i] = lane_select(b, s->has[r], y[i], before[i]);
    if (has) y[i] = lane_select(b, has, y[i], x[i]);
  }
  put(s, s->front, r, y);
  if (s->has[r]) s->has[r] = has ? lane_2(b, LANE_OR, LK_PRED, has, s->has[r]) : NULL;
}

/* What has been gathered, in front of each element. */
static void finish(Lower *l, Scan *s) {
  LaneValue *before[MOST], *x[MOST], *y[MOST];
  for (int r = 0; r < s->n; r++) {
    int first = r & ~s->near;
    if (!s->near || !s->front[0][first]) continue;
    get(s, s->front, first, before);
    get(s, s->x, r, x);
    lower_combine(l, s->op, before, x, y);
    for (int i = 0; i < s->k; i++) s->x[i][r] = s->has[first] ? lane_select(&l->b, s->has[first], y[i], x[i]) : y[i];
  }
}

/* before, in front of every element of the block at r that this thread holds, where `has`. When the block's last
 * element is among them and `last` is given, that is its value. */
static void put_before(Lower *l, Scan *s, int r, LaneValue *const *before, LaneValue *has, LaneValue *const *last) {
  LaneValue *x[MOST], *y[MOST];
  int last_at = s->reverse ? 0 : s->regs, others = s->regs & ~s->near;
  for (int d = others; s->near; d = (d - 1) & others) {
    gather_before(l, s, r | d, before, has);
    if (!d) return;
  }
  for (int d = s->regs;; d = (d - 1) & s->regs) {
    if (last && !s->across && d == last_at) {
      put(s, s->x, r | d, last);
    } else {
      get(s, s->x, r | d, x);
      lower_combine(l, s->op, before, x, y);
      for (int i = 0; i < s->k; i++) s->x[i][r | d] = has ? lane_select(&l->b, has, y[i], x[i]) : y[i];
    }
    if (!d) break;
  }
}

static void scan_registers(Lower *l, Scan *s, const AxisBit *run, int count) {
  int bits = 0;
  for (int j = 0; j < count; j++) bits |= 1 << run[j].bit;
  LaneValue *before[MOST], *total[MOST], *sum[MOST];
  for (int r = 0; r < s->n; r++) {
    if (r & (bits | s->regs)) continue;
    for (int c = 0; c < 1 << count; c++) {
      int at = run_register(s, run, count, r, c);
      get(s, s->total, at, total);
      if (!c) {
        memcpy(before, total, sizeof before);
        continue;
      }
      lower_combine(l, s->op, before, total, sum);
      put_before(l, s, at, before, NULL, sum);
      memcpy(before, sum, sizeof before);
    }
    put(s, s->total, r, before);
  }
  s->regs |= bits;
}

static void scan_lanes(Lower *l, Scan *s, const AxisBit *run, int count, bool last_run) {
  LaneBuilder *b = &l->b;
  uint32_t mask = 0, low = 1u << run[0].bit;
  for (int j = 0; j < count; j++) mask |= 1u << run[j].bit;
  LaneValue *lane = l->lane, *inside = lane_2(b, LANE_AND, LK_B32, lane, lane_const(b, LT_B32, mask)),
            *outside = lane_2(b, LANE_AND, LK_B32, lane, lane_const(b, LT_B32, 31 & ~mask));
  LaneValue *other[MOST], *mine[MOST], *sum[MOST], *before[MOST];
  for (int r = 0; r < s->n; r++) {
    if (r & s->regs) continue;
    get(s, s->total, r, mine);
    for (int j = 0; j < count; j++) {
      uint32_t bit = 1u << run[j].bit, below = mask & (bit - 1);
      /* The last lane of the half that comes before; the lanes of that half have the bit clear (reverse: set). */
      LaneValue *cleared = lane_2(b, LANE_AND, LK_B32, lane, lane_const(b, LT_B32, 31 & ~(bit | below)));
      LaneValue *source = lane_2(b, LANE_OR, LK_B32, cleared, lane_const(b, LT_B32, s->reverse ? bit : below));
      LaneValue *set = lower_thread_bit(l, run[j].bit);
      for (int i = 0; i < s->k; i++) other[i] = lane_shfl(b, SHUFFLE_IDX, mine[i], source);
      lower_combine(l, s->op, other, mine, sum);
      for (int i = 0; i < s->k; i++)
        mine[i] = s->reverse ? lane_select(b, set, mine[i], sum[i]) : lane_select(b, set, sum[i], mine[i]);
    }
    if (!s->regs && !s->across) {
      put(s, s->x, r, mine);
    } else {
      /* The lane before, counting in the bits of the mask alone: a borrow (or carry) runs through the bits between. */
      LaneValue *step =
          s->reverse ? lane_2(b, LANE_ADD, LK_S32, lane_2(b, LANE_OR, LK_B32, lane, lane_const(b, LT_B32, 31 & ~mask)),
                              lane_const(b, LT_B32, low))
                     : lane_2(b, LANE_SUB, LK_S32, inside, lane_const(b, LT_B32, low));
      step = lane_2(b, LANE_AND, LK_B32, step, lane_const(b, LT_B32, mask));
      LaneValue *source = lane_2(b, LANE_OR, LK_B32, step, outside);
      LaneValue *has = lane_setp(b, CMP_NE, LK_U32, inside, lane_const(b, LT_B32, s->reverse ? mask : 0));
      for (int i = 0; i < s->k; i++) before[i] = lane_shfl(b, SHUFFLE_IDX, mine[i], source);
      put_before(l, s, r, before, has, mine);
    }
    if (last_run) continue;
    LaneValue *end = s->reverse ? outside : lane_2(b, LANE_OR, LK_B32, lane, lane_const(b, LT_B32, mask));
    for (int i = 0; i < s->k; i++) s->total[i][r] = lane_shfl(b, SHUFFLE_IDX, mine[i], end);
  }
  s->across = true;
}

static void scan_warps(Lower *l, Scan *s, const AxisBit *run, int count) {
  LaneBuilder *b = &l->b;
  int alive = 0, warps = 1 << count;
  LaneValue ***part = NEW_N(l->cx->arena, LaneValue **, s->k), ***all = NEW_N(l->cx->arena, LaneValue **, s->k);
  for (int i = 0; i < s->k; i++) {
    part[i] = lower_array(l, s->n);
    alive = 0;
    for (int r = 0; r < s->n; r++)
      if (!(r & s->regs)) part[i][alive++] = s->total[i][r];
  }
  lower_exchange_warps(l, s->k, part, s->kinds, s->layout, s->done, count, run, all);
  uint32_t columns[F2_MAX] = {0};
  for (int j = 0; j < count; j++) columns[5 + run[j].bit] = 1u << j;
  LaneValue *mine = lower_linear(l, 5 + s->layout->warp_bits, columns, l->tid); /* this warp's place in the run */
  LaneValue *has = lane_setp(b, CMP_NE, LK_U32, mine, lane_i32(b, s->reverse ? warps - 1 : 0));
  LaneValue *before[MOST], *sum[MOST], *one[MOST], *next[MOST];
  for (int r = 0, at = 0; r < s->n; r++) {
    if (r & s->regs) continue;
    for (int c = 0; c < warps; c++) {
      int warp = s->reverse ? warps - 1 - c : c;
      for (int i = 0; i < s->k; i++) one[i] = all[i][at << count | warp];
      if (!c) {
        memcpy(sum, one, sizeof sum);
        memcpy(before, one, sizeof before);
        continue;
      }
      LaneValue *here = c > 1 ? lane_setp(b, CMP_EQ, LK_U32, mine, lane_i32(b, warp)) : NULL;
      for (int i = 0; i < s->k; i++) before[i] = here ? lane_select(b, here, sum[i], before[i]) : sum[i];
      lower_combine(l, s->op, sum, one, next);
      memcpy(sum, next, sizeof sum);
    }
    put_before(l, s, r, before, has, NULL);
    put(s, s->total, r, sum);
    at++;
  }
  s->across = true;
}

/* A reduction after the scan, of the same tensors, all of them, by the same body, which may begin at either end. */
static const Op *reduction_of(Lower *l, const Op *op) {
  if (op->in[0]->type->rank != 1 || (op->reverse && tile_body_order(op) == BODY_ORDERED)) return NULL;
  for (const Op *r = op->next; r; r = r->next)
    if (r->code == OP_REDUCE && r->in_count == op->in_count &&
        !memcmp(r->in, op->in, sizeof *r->in * (size_t)r->in_count) &&
        op_same_bodies(l->cx->arena, r->body[0], op->body[0]))
      return r;
  return NULL;
}

void lower_scan(Lower *l, Op *op) {
  int k = op->in_count, index = (int)op->axis;
  if (k > MOST) diag_fail(l->cx, op->span ? *op->span : (Span){0}, "a scan of more than %d tensors", MOST);
  Scan s = {.op = op, .k = k, .reverse = op->reverse != 0};
  Axis axis;
  s.x = NEW_N(l->cx->arena, LaneValue **, k);
  s.total = NEW_N(l->cx->arena, LaneValue **, k);
  s.kinds = NEW_N(l->cx->arena, LaneKind, k);
  s.layout = lower_axis_operands(l, op, index, false, s.x, s.kinds, &axis);
  s.n = layout_registers(s.layout);
  for (int i = 0; i < k; i++) {
    s.x[i] = arena_copy(l->cx->arena, s.x[i], sizeof(LaneValue *) * (size_t)s.n);
    s.total[i] = arena_copy(l->cx->arena, s.x[i], sizeof(LaneValue *) * (size_t)s.n);
  }
  s.front = NEW_N(l->cx->arena, LaneValue **, k);
  s.has = lower_array(l, s.n);
  for (int i = 0; i < k; i++) s.front[i] = lower_array(l, s.n);
  s.identity = identity_of(l, op);
  const Op *reduction = reduction_of(l, op);
  for (int i = 0; i < axis.n;) {
    const AxisBit *run = &axis.at[i];
    int count = 1;
    while (i + count < axis.n && run[count].kind == run->kind &&
           (run->kind != AXIS_LANE || run[count].bit > run[count - 1].bit))
      count++;
    if (run->kind == AXIS_REG) scan_registers(l, &s, run, count);
    else if (run->kind == AXIS_LANE) scan_lanes(l, &s, run, count, i + count == axis.n && !reduction);
    else scan_warps(l, &s, run, count);
    for (int j = 0; j < count; j++) s.done |= 1u << (axis.shift + run[j].axis);
    if (!i) s.near = s.regs;
    i += count;
  }
  finish(l, &s);
  for (int i = 0; i < k && reduction; i++) lower_given(l, reduction->out[i], &s.total[i][0]);
  for (int i = 0; i < k; i++)
    lower_set(l, op->out[i], lower_convert_kind(l, s.x[i], s.kinds[i], s.layout, op->out[i]->layout));
}

/* ---- map --------------------------------------------------------------------------------------------------------- */

/* `pack` neighbours of a tensor must be in one thread: the layout if they are, else one in which they are. */
static const Layout *packed_layout(Lower *l, const Op *op, int pack) {
  const Value *first = op->in[0];
  bool held = true;
  for (int p = 1; p < pack; p *= 2) held &= layout_find_register(first->layout, (uint32_t)p) >= 0;
  for (int i = 0; i < first->layout->lane_bits + first->layout->warp_bits; i++)
    held &= !(first->layout->basis[first->layout->reg_bits + i] & (uint32_t)(pack - 1));
  if (held) return first->layout;
  Type flat = {.dtype = first->type->dtype, .rank = 1, .shape = {(int32_t)type_numel(first->type)}};
  return layout_blocked(l->cx, &flat, &pack, &(int){0}, l->f->num_warps);
}

void lower_map(Lower *l, Op *op) {
  int pack = op->pack > 1 ? (int)op->pack : 1, n_in = op->in_count, n_out = op->out_count;
  bool scalar = !op->in[0]->type->rank;
  const Layout *layout = scalar ? NULL : packed_layout(l, op, pack);
  int n = scalar ? 1 : layout_registers(layout);
  LaneValue ***in = NEW_N(l->cx->arena, LaneValue **, n_in), ***out = NEW_N(l->cx->arena, LaneValue **, n_out);
  for (int i = 0; i < n_in; i++) {
    in[i] = lower_get(l, op->in[i]);
    if (!scalar) in[i] = lower_convert_kind(l, in[i], lane_kind_of(op->in[i]->type), op->in[i]->layout, layout);
  }
  for (int i = 0; i < n_out; i++) out[i] = lower_array(l, n);
  LaneValue **args = lower_array(l, n_in * pack), **results = lower_array(l, n_out * pack);
  int *group = NEW_N(l->cx->arena, int, pack);
  for (int r = 0; r < n; r++) {
    if (scalar ? false : (layout_register_part(layout, r) & (uint32_t)(pack - 1)) != 0) continue;
    for (int p = 0; p < pack; p++)
      group[p] = p ? layout_find_register(layout, layout_register_part(layout, r) ^ (uint32_t)p) : r;
    for (int i = 0; i < n_in; i++)
      for (int p = 0; p < pack; p++) args[i * pack + p] = in[i][group[p]];
    lower_inline(l, op->body[0], args, results);
    for (int i = 0; i < n_out; i++)
      for (int p = 0; p < pack; p++) out[i][group[p]] = results[i * pack + p];
  }
  for (int i = 0; i < n_out; i++) {
    const Value *v = op->out[i];
    lower_set(l, v, scalar ? out[i] : lower_convert_kind(l, out[i], lane_kind_of(v->type), layout, v->layout));
  }
}
