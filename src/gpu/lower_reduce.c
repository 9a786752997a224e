/* reduce: the elements along an axis to one, by any associative body on k tensors at once.
 *
 * The bits of a place that run along the axis are taken one after the other. Combining the two halves of a bit halves what is left:
 *
 *     register bit   registers r and r + 2^bit of the same thread
 *     lane bit       a lane and its neighbour across the bit; both compute the same, so both have the result
 *     warp bits      all in one step: each warp writes its partial results to shared memory, every thread reads those of all warps that
 *                    it needs into registers, and goes on as with register bits
 *
 * In the end every thread that held a part of a line has the line's result: that is the slice of the layout.
 *
 * Order. A body whose operands may be exchanged takes the bits in the order registers, lanes, warps, which leaves the least to shuffle.
 * Any other takes them from the index's lowest bit up, so that what is combined are neighbours, the lower index first: the interpreter's
 * tree. Across a lane bit both sides compute, and must compute the same bits, or threads that hold copies would go apart: unless exchanging
 * operands leaves every bit of the result alone, the lane's bit selects which is first.
 */
#include "gpu/lower_move.h"

/* ---- what is known of a body ---- */

/* The only operation of the body, when that takes both arguments of a single tensor: its code; else OP_COUNT. */
static OpCode single_op(const Op *op) {
  const Block *body = op->body[0];
  const Op *first = body->first;
  if (op->in_count != 1 || !first || first->next != body->last || first->in_count != 2 || body->last->in[0] != first->out[0])
    return OP_COUNT;
  bool forward = first->in[0] == body->args[0] && first->in[1] == body->args[1];
  bool back = first->in[1] == body->args[0] && first->in[0] == body->args[1];
  return forward || back ? first->code : OP_COUNT;
}

/* Whether exchanging a and b leaves every bit of the results as it is: each result i is a commutative operation of a_i and b_i. */
static bool body_commutes(const Op *op) {
  const Block *body = op->body[0];
  int k = op->in_count;
  for (int i = 0; i < k; i++) {
    const Op *made = body->last->in[i]->def;
    if (!made || made->in_count != 2 || made->block != body) return false;
    const Value *a = body->args[i], *b = body->args[k + i];
    if (!((made->in[0] == a && made->in[1] == b) || (made->in[0] == b && made->in[1] == a))) return false;
    switch (made->code) {
    case OP_ADD: case OP_MUL: case OP_MIN: case OP_MAX: case OP_AND: case OP_OR: case OP_XOR: break;
    default: return false;
    }
  }
  return true;
}

/* ---- one bit ---- */

static void combine_registers(Lower *l, Op *op, LaneValue ***v, int bit, int n, const bool *gone) {
  int k = op->in_count;
  LaneValue *a[64], *b[64], *c[64];
  for (int r = 0; r < n; r++) {
    if (gone[r] || (r >> bit & 1)) continue;
    for (int i = 0; i < k; i++) a[i] = v[i][r], b[i] = v[i][r | 1 << bit];
    lower_combine(l, op, a, b, c);
    for (int i = 0; i < k; i++) v[i][r] = c[i];
  }
}

static void combine_lanes(Lower *l, Op *op, LaneValue ***v, int bit, int n, const bool *gone, bool commutes) {
  int k = op->in_count;
  LaneValue *mine[64], *other[64], *a[64], *b[64], *upper = commutes ? NULL : lower_thread_bit(l, bit), *mask = lane_i32(&l->b, 1 << bit);
  for (int r = 0; r < n; r++) {
    if (gone[r]) continue;
    for (int i = 0; i < k; i++) {
      mine[i] = v[i][r];
      other[i] = lane_shfl(&l->b, SHUFFLE_XOR, mine[i], mask);
      a[i] = commutes ? mine[i] : lane_select(&l->b, upper, other[i], mine[i]);
      b[i] = commutes ? other[i] : lane_select(&l->b, upper, mine[i], other[i]);
    }
    lower_combine(l, op, a, b, mine);
    for (int i = 0; i < k; i++) v[i][r] = mine[i];
  }
}

/* All five lane bits at once, where there is an instruction for it: NULL when there is none. */
static LaneValue *combine_warp(Lower *l, const Op *op, OpCode code, LaneValue *x) {
  static const int rmw_of[OP_COUNT] = {
      [OP_ADD] = RMW_ADD + 1, [OP_MIN] = RMW_MIN + 1, [OP_MAX] = RMW_MAX + 1, [OP_AND] = RMW_AND + 1, [OP_OR] = RMW_OR + 1,
      [OP_XOR] = RMW_XOR + 1};
  LaneBuilder *b = &l->b;
  const Type *t = op->in[0]->type;
  if (t->ptr || !dtype_is_int(t->dtype) || code == OP_COUNT || !rmw_of[code] || dtype_bits(t->dtype) > 32) return NULL;
  if (t->dtype == DT_I1) {
    if (code == OP_OR || code == OP_MAX) return lane_op(b, (LaneOp){.code = LANE_VOTE, .kind = LK_PRED, .vote = VOTE_ANY, .buffer = -1}, 1, &x);
    if (code == OP_AND || code == OP_MIN) return lane_op(b, (LaneOp){.code = LANE_VOTE, .kind = LK_PRED, .vote = VOTE_ALL, .buffer = -1}, 1, &x);
    return NULL;
  }
  LaneKind kind = lane_kind_of(t), word = dtype_is_signed(t->dtype) ? LK_S32 : LK_U32;
  if (code == OP_AND || code == OP_OR || code == OP_XOR) word = LK_B32;
  LaneValue *sum = lane_op(b, (LaneOp){.code = LANE_REDUX, .kind = word, .rmw = (uint8_t)(rmw_of[code] - 1), .buffer = -1}, 1, &x);
  return lane_extend(b, kind, sum);
}

/* ---- the whole ---- */

typedef struct Reduce {
  Op *op;
  const Layout *layout;
  LaneValue ***v;       /* v[i][r]: of register r; those of `gone` have been combined into others */
  LaneKind *kinds;
  bool *gone;
  uint32_t done;        /* bits of the flat index that are */
  bool commutes;
  OpCode single;
} Reduce;

static void take_register(Lower *l, Reduce *s, const AxisBit *at) {
  int n = layout_registers(s->layout);
  combine_registers(l, s->op, s->v, at->bit, n, s->gone);
  for (int r = 0; r < n; r++) s->gone[r] |= r >> at->bit & 1;
}

/* The partial results of warps that differ in these bits. */
static void take_warps(Lower *l, Reduce *s, int count, const AxisBit *run) {
  int k = s->op->in_count, n = layout_registers(s->layout), alive = 0;
  LaneValue ***part = NEW_N(l->cx->arena, LaneValue **, k), ***all = NEW_N(l->cx->arena, LaneValue **, k);
  for (int i = 0; i < k; i++) {
    part[i] = lower_array(l, n);
    alive = 0;
    for (int r = 0; r < n; r++)
      if (!s->gone[r]) part[i][alive++] = s->v[i][r];
  }
  lower_exchange_warps(l, k, part, s->kinds, s->layout, s->done, count, run, all);
  bool *gone = NEW_N(l->cx->arena, bool, alive << count);
  for (int i = 0; i < k; i++) all[i] = arena_copy(l->cx->arena, all[i], sizeof(LaneValue *) * (size_t)(alive << count));
  for (int bit = 0; bit < count; bit++) {
    combine_registers(l, s->op, all, bit, alive << count, gone);
    for (int r = 0; r < alive << count; r++) gone[r] |= r >> bit & 1;
  }
  for (int i = 0; i < k; i++) {
    int at = 0;
    for (int r = 0; r < n; r++)
      if (!s->gone[r]) s->v[i][r] = all[i][at++ << count];
  }
}

static int by_kind(const AxisBit *x, const AxisBit *y) {
  return x->kind != y->kind ? (int)x->kind - (int)y->kind : x->axis - y->axis;
}

/* Insertion sort: an axis has few bits. */
static void sort_bits(Axis *axis) {
  for (int i = 1; i < axis->n; i++)
    for (int j = i; j > 0 && by_kind(&axis->at[j - 1], &axis->at[j]) > 0; j--) {
      AxisBit swap = axis->at[j];
      axis->at[j] = axis->at[j - 1];
      axis->at[j - 1] = swap;
    }
}

static void take_bits(Lower *l, Reduce *s, const Axis *axis) {
  int n = layout_registers(s->layout);
  for (int i = 0; i < axis->n;) {
    const AxisBit *at = &axis->at[i];
    int run = 1;
    if (at->kind == AXIS_REG) {
      take_register(l, s, at);
    } else if (at->kind == AXIS_LANE) {
      int lanes = 0;
      while (i + lanes < axis->n && axis->at[i + lanes].kind == AXIS_LANE) lanes++;
      bool whole = lanes == 5 && s->commutes;
      for (int r = 0; r < n && whole; r++) {
        if (s->gone[r]) continue;
        LaneValue *sum = combine_warp(l, s->op, s->single, s->v[0][r]);
        if (sum) s->v[0][r] = sum;
        whole = sum != NULL;
      }
      if (whole) run = 5;
      else combine_lanes(l, s->op, s->v, at->bit, n, s->gone, s->commutes);
    } else {
      while (i + run < axis->n && axis->at[i + run].kind == AXIS_WARP) run++;
      take_warps(l, s, run, at);
    }
    for (int j = 0; j < run; j++) s->done |= 1u << (axis->shift + axis->at[i + j].axis);
    i += run;
  }
}

void lower_reduce(Lower *l, Op *op) {
  int k = op->in_count, index = (int)op->attr[0];
  const Type *t = op->in[0]->type;
  if (k > 64) fail(l->cx, op->span ? *op->span : (Span){0}, "a reduction of more than 64 tensors");
  Reduce s = {.op = op, .single = single_op(op), .commutes = body_commutes(op)};
  Axis axis;
  s.v = NEW_N(l->cx->arena, LaneValue **, k);
  s.kinds = NEW_N(l->cx->arena, LaneKind, k);
  s.layout = lower_axis_operands(l, op, index, s.commutes, s.v, s.kinds, &axis);
  int n = layout_registers(s.layout);
  s.gone = NEW_N(l->cx->arena, bool, n);
  for (int i = 0; i < k; i++) s.v[i] = arena_copy(l->cx->arena, s.v[i], sizeof(LaneValue *) * (size_t)n);
  if (s.commutes) sort_bits(&axis);
  take_bits(l, &s, &axis);

  int alive = 0;
  for (int r = 0; r < n; r++) {
    if (s.gone[r]) continue;
    for (int i = 0; i < k; i++) s.v[i][alive] = s.v[i][r];
    alive++;
  }
  /* A slice's registers are the operands' without those of the axis, in their order. */
  const Layout *slice = layout_slice(l->cx, t, s.layout, index);
  for (int i = 0; i < k; i++) {
    const Value *out = op->out[i];
    lower_set(l, out, out->type->rank ? lower_convert_kind(l, s.v[i], s.kinds[i], slice, out->layout) : s.v[i]);
  }
}
