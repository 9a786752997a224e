/* reduce: the elements along an axis to one, by any associative body on k tensors at once.
 *
 * What is left to combine is itself a tensor with a layout: registers of threads and the vectors that say which partial
 * result each holds. Combining the two halves of one bit of the axis takes that bit out of the index, and out of the
 * layout:
 *
 *     register bit   registers r and r + 2^bit of the same thread: half the registers are left
 *     lane bit       a lane and its neighbour across the bit; both compute the same, and from then on hold copies.
 *                    With several registers, of other lines, they share the work instead: each sends one half of its
 *                    registers and combines the other half, so that in the end a lane holds one line's result where it
 *                    had parts of many
 *     warp bits      a conversion of layouts, by which what several warps hold comes into registers of one thread;
 *                    then as above
 *
 *     f32[64,32], axis 0, 4 warps: reg 4 lines | lane 0..2 lines, lane 3, 4 axis | warp 0, 1 axis | reg axis
 *         in the thread        4 lines' partial results a thread
 *         lane 3, lane 4       2 shuffles and 1 instead of 4 and 4; lines are spread over those lanes now
 *         warps                each lane writes its line's, reads that of 4 warps
 *         in the end           a conversion to the slice of the operand's layout, which is what the result is held in
 *
 * Order. A body that may combine elements in any order (tile/analysis/body_order.c) takes registers first, then lanes,
 * then warps, which leaves the least to shuffle. Any other takes the index's bits from the lowest up, so that what is
 * combined are neighbours, the lower index first: the interpreter's tree. Across a lane bit both sides compute, and
 * must compute the same bits, or threads that hold copies would go apart. Of a body that is not symmetric (two NaN)
 * only the lane without the bit has its own operand first: it leads, and hands the result to the others after the last
 * lane bit. For a single bit a selection of which operand is first takes less.
 */
#include "gpu/lower/move.h"

enum { MOST = 64 };

typedef struct Reduce {
  Op *op;
  int k;
  LaneKind *kinds;
  Layout layout;  /* of what is left to combine */
  LaneValue ***v; /* v[i][r] */
  uint32_t axis;  /* bits of its index that are of the axis */
  BodyOrder order;
  OpCode single;
  uint32_t led; /* bits of lanes: those that have one set are to get what the lane without has */
} Reduce;

static int threads_of(const Layout *l) { return l->lane_bits + l->warp_bits; }

static uint32_t *lane_vector(Reduce *s, int bit) { return &s->layout.basis[s->layout.reg_bits + bit]; }
static uint32_t *warp_vector(Reduce *s, int bit) {
  return &s->layout.basis[s->layout.reg_bits + s->layout.lane_bits + bit];
}

/* Takes bit `bit` out of the index; no vector has it any more. */
static void drop_index_bit(Reduce *s, int bit) {
  uint32_t low = (1u << bit) - 1;
  for (int i = 0; i < s->layout.reg_bits + threads_of(&s->layout); i++) {
    uint32_t *v = &s->layout.basis[i];
    *v = (*v & low) | (*v >> 1 & ~low);
  }
  s->axis = (s->axis & low) | (s->axis >> 1 & ~low);
  s->layout.out_bits--;
}

/* Takes register bit `bit` out: registers with the bit set are gone. */
static void drop_register_bit(Reduce *s, int bit) {
  int n = 1 << s->layout.reg_bits, low = (1 << bit) - 1;
  for (int i = 0; i < s->k; i++)
    for (int r = 0; r < n; r++)
      if (!(r >> bit & 1)) s->v[i][(r & low) | (r >> 1 & ~low)] = s->v[i][r];
  memmove(s->layout.basis + bit, s->layout.basis + bit + 1,
          sizeof(uint32_t) * (size_t)(s->layout.reg_bits + threads_of(&s->layout) - bit - 1));
  s->layout.reg_bits--;
}

/* ---- one bit ----------------------------------------------------------------------------------------------------- */

static void take_register(Lower *l, Reduce *s, int bit) {
  int index = __builtin_ctz(s->layout.basis[bit]);
  LaneValue *a[MOST], *b[MOST], *c[MOST];
  for (int r = 0; r < 1 << s->layout.reg_bits; r++) {
    if (r >> bit & 1) continue;
    for (int i = 0; i < s->k; i++) a[i] = s->v[i][r], b[i] = s->v[i][r | 1 << bit];
    lower_combine(l, s->op, a, b, c);
    for (int i = 0; i < s->k; i++) s->v[i][r] = c[i];
  }
  drop_register_bit(s, bit);
  drop_index_bit(s, index);
}

/* mine and the neighbour's: the lower lane's first, unless `any` will do. */
static void combine_across(Lower *l, Reduce *s, bool any, LaneValue *upper, LaneValue *const *mine,
                           LaneValue *const *other, LaneValue **out) {
  LaneValue *a[MOST], *b[MOST];
  for (int i = 0; i < s->k; i++) {
    a[i] = any ? mine[i] : lane_select(&l->b, upper, other[i], mine[i]);
    b[i] = any ? other[i] : lane_select(&l->b, upper, mine[i], other[i]);
  }
  lower_combine(l, s->op, a, b, out);
}

static void hand_out(Lower *l, Reduce *s) {
  if (!s->led) return;
  LaneBuilder *b = &l->b;
  uint32_t kept = 31 & ~s->led;
  LaneValue *leader = kept ? lane_2(b, LANE_AND, LK_B32, l->tid, lane_const(b, LT_B32, kept)) : lane_i32(b, 0);
  for (int i = 0; i < s->k; i++)
    for (int r = 0; r < 1 << s->layout.reg_bits; r++) s->v[i][r] = lane_shfl(b, SHUFFLE_IDX, s->v[i][r], leader);
  s->led = 0;
}

static int axis_lanes(Reduce *s) {
  int n = 0;
  for (int i = 0; i < s->layout.lane_bits; i++) n += (*lane_vector(s, i) & s->axis) != 0;
  return n;
}

/* A register bit whose two halves the lanes may share: the last that is not of the axis, else, where registers have to
 * wait for their turn, one that is; -1 when there is none. */
static int shared_register(const Reduce *s) {
  for (int i = s->layout.reg_bits - 1; i >= 0; i--)
    if (!(s->layout.basis[i] & s->axis)) return i;
  return s->layout.reg_bits - 1;
}

/* Whether sharing takes fewer shuffles, with those that bring the results back to all lanes: of two lines over four
 * lanes it does not, and takes a step more. Where warps are still to come, what is spread is less for them. */
static bool sharing_pays(Reduce *s) {
  int lanes = axis_lanes(s), lines = 1 << s->layout.reg_bits, shuffles = lines, left = lines;
  for (int i = 0; i < s->layout.warp_bits; i++)
    if (*warp_vector(s, i) & s->axis) return true;
  for (int i = 0; i < lanes; i++) {
    left = left > 1 ? left / 2 : 1;
    shuffles += left;
  }
  return shuffles < lines * lanes;
}

static void take_lane(Lower *l, Reduce *s, int bit) {
  int index = __builtin_ctz(*lane_vector(s, bit)), share = sharing_pays(s) ? shared_register(s) : -1;
  bool leads = share < 0 && s->order != BODY_SYMMETRIC && (s->led || axis_lanes(s) > 1),
       any = leads || s->order == BODY_SYMMETRIC || (share >= 0 && s->order == BODY_FREE);
  LaneValue *upper = lower_thread_bit(l, bit), *mask = lane_i32(&l->b, 1 << bit), *mine[MOST], *other[MOST], *sum[MOST];
  for (int r = 0; r < 1 << s->layout.reg_bits; r++) {
    if (share >= 0 && (r >> share & 1)) continue;
    for (int i = 0; i < s->k; i++) {
      LaneValue *x = s->v[i][r], *send = x;
      mine[i] = x;
      if (share >= 0) {
        LaneValue *y = s->v[i][r | 1 << share];
        mine[i] = lane_select(&l->b, upper, y, x);
        send = lane_select(&l->b, upper, x, y);
      }
      other[i] = lane_shfl(&l->b, SHUFFLE_XOR, send, mask);
    }
    combine_across(l, s, any, upper, mine, other, sum);
    for (int i = 0; i < s->k; i++) s->v[i][r] = sum[i];
  }
  if (leads) s->led |= 1u << bit;
  *lane_vector(s, bit) = share >= 0 ? s->layout.basis[share] : 0;
  if (share >= 0) drop_register_bit(s, share);
  drop_index_bit(s, index);
}

/* All five lane bits at once, where there is an instruction for it: NULL when there is none. */
static LaneValue *combine_warp(Lower *l, const Reduce *s, LaneValue *x) {
  static const int rmw_of[OP_COUNT] = {[OP_ADD] = RMW_ADD + 1, [OP_MIN] = RMW_MIN + 1, [OP_MAX] = RMW_MAX + 1,
                                       [OP_AND] = RMW_AND + 1, [OP_OR] = RMW_OR + 1,   [OP_XOR] = RMW_XOR + 1};
  LaneBuilder *b = &l->b;
  const Type *t = s->op->in[0]->type;
  OpCode code = s->single;
  if (t->ptr || !dtype_is_int(t->dtype) || code == OP_COUNT || !rmw_of[code] || dtype_bits(t->dtype) > 32) return NULL;
  if (t->dtype == DT_I1) {
    bool any = code == OP_OR || code == OP_MAX, all = code == OP_AND || code == OP_MIN;
    if (!any && !all) return NULL;
    return lane_op(b, (LaneOp){.code = LANE_VOTE, .kind = LK_PRED, .vote = any ? VOTE_ANY : VOTE_ALL, .buffer = -1}, 1,
                   &x);
  }
  LaneKind word = code == OP_AND || code == OP_OR || code == OP_XOR ? LK_B32
                  : dtype_is_signed(t->dtype)                       ? LK_S32
                                                                    : LK_U32;
  LaneValue *sum =
      lane_op(b, (LaneOp){.code = LANE_REDUX, .kind = word, .rmw = (uint8_t)(rmw_of[code] - 1), .buffer = -1}, 1, &x);
  return lane_extend(b, lane_kind_of(t), sum);
}

static bool take_whole_warp(Lower *l, Reduce *s) {
  for (int bit = 0; bit < 5; bit++)
    if (!(*lane_vector(s, bit) & s->axis)) return false;
  for (int r = 0; r < 1 << s->layout.reg_bits; r++) {
    LaneValue *sum = combine_warp(l, s, s->v[0][r]);
    if (!sum) return false;
    s->v[0][r] = sum;
  }
  for (int bit = 0; bit < 5; bit++) {
    int index = __builtin_ctz(*lane_vector(s, bit));
    *lane_vector(s, bit) = 0;
    drop_index_bit(s, index);
  }
  return true;
}

/* ---- warps ------------------------------------------------------------------------------------------------------- */

/* The warp bits of `run` come into registers; where warps are many, and lanes free, some into lanes, whose shuffles are
 * less than reading and combining all. Where a thread would get many registers, warps share lines as lanes do. */
static void take_warps(Lower *l, Reduce *s, const int *run, int count) {
  Layout to = s->layout;
  int regs = to.reg_bits, free_lane = 0, front = 0;
  uint32_t into[F2_MAX];
  for (int j = 0; j < count; j++) {
    uint32_t vector = *warp_vector(s, run[j]);
    uint32_t *warp = &to.basis[regs + to.lane_bits + run[j]];
    *warp = 0;
    while (free_lane < to.lane_bits && *lane_vector(s, free_lane)) free_lane++;
    if (front >= 3 && free_lane < to.lane_bits) to.basis[regs + free_lane++] = vector;
    else into[front++] = vector;
  }
  for (int j = 0; j < count && 1 << (regs + front) > l->target->budgets->reduced; j++) {
    int share = -1;
    for (int i = 0; i < regs; i++)
      if (!(to.basis[i] & s->axis)) share = i;
    if (share < 0) break;
    to.basis[regs + to.lane_bits + run[j]] = to.basis[share];
    memmove(to.basis + share, to.basis + share + 1, sizeof(uint32_t) * (size_t)(regs + threads_of(&to) - share - 1));
    regs--;
  }
  memmove(to.basis + front, to.basis, sizeof(uint32_t) * (size_t)(regs + threads_of(&to)));
  memcpy(to.basis, into, sizeof(uint32_t) * (size_t)front);
  to.reg_bits = regs + front;
  LaneValue ***moved = NEW_N(l->cx->arena, LaneValue **, s->k);
  lower_convert_many(l, "reduce", s->k, s->v, s->kinds, layout_make(l->cx, &s->layout), layout_make(l->cx, &to), moved);
  for (int i = 0; i < s->k; i++) s->v[i] = arena_copy(l->cx->arena, moved[i], sizeof(LaneValue *) << to.reg_bits);
  s->layout = to;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Where the axis's bit `vector` is held; kinds come in the order of what they cost. */
static AxisKind lies_in(Reduce *s, uint32_t vector, int *bit) {
  for (int i = 0; i < s->layout.reg_bits; i++)
    if (s->layout.basis[i] == vector) return *bit = i, AXIS_REG;
  for (int i = 0; i < s->layout.lane_bits; i++)
    if (*lane_vector(s, i) == vector) return *bit = i, AXIS_LANE;
  for (int i = 0; i < s->layout.warp_bits; i++)
    if (*warp_vector(s, i) == vector) return *bit = i, AXIS_WARP;
  return *bit = -1, AXIS_WARP;
}

/* The next bit: the lowest of the index, or whichever is held by what comes first. */
static AxisKind next_bit(Reduce *s, int *bit) {
  uint32_t lowest = s->axis & -s->axis;
  AxisKind best = lies_in(s, lowest, bit);
  if (s->order == BODY_ORDERED) return best;
  for (uint32_t left = s->axis & ~lowest; left && best != AXIS_REG; left &= left - 1) {
    int at;
    AxisKind kind = lies_in(s, left & -left, &at);
    if (kind < best) best = kind, *bit = at;
  }
  return best;
}

/* The warp bits that can be taken now: all, or in order those that follow one another. */
static int warps_now(Reduce *s, int *run) {
  int n = 0, bit;
  for (uint32_t left = s->axis; left; left &= left - 1) {
    if (lies_in(s, left & -left, &bit) == AXIS_WARP) run[n++] = bit;
    else if (s->order == BODY_ORDERED) break;
  }
  return n;
}

static void take_all(Lower *l, Reduce *s) {
  while (s->axis) {
    int bit, run[F2_MAX];
    switch (next_bit(s, &bit)) {
      case AXIS_REG: take_register(l, s, bit); break;
      case AXIS_LANE:
        if (s->order != BODY_SYMMETRIC || !take_whole_warp(l, s)) take_lane(l, s, bit);
        break;
      case AXIS_WARP:
        hand_out(l, s);
        take_warps(l, s, run, warps_now(s, run));
        break;
    }
  }
  hand_out(l, s);
}

void lower_reduce(Lower *l, Op *op) {
  int k = op->in_count;
  if (k > MOST) diag_fail(l->cx, op->span ? *op->span : (Span){0}, "a reduction of more than %d tensors", MOST);
  Reduce s = {.op = op, .k = k, .single = tile_body_single(op), .order = tile_body_order(op)};
  Axis axis;
  s.v = NEW_N(l->cx->arena, LaneValue **, k);
  s.kinds = NEW_N(l->cx->arena, LaneKind, k);
  s.layout = *lower_axis_operands(l, op, (int)op->axis, s.order != BODY_ORDERED, s.v, s.kinds, &axis);
  s.axis = axis.mask;
  for (int i = 0; i < k; i++) s.v[i] = arena_copy(l->cx->arena, s.v[i], sizeof(LaneValue *) << s.layout.reg_bits);
  take_all(l, &s);
  const Value *first = op->out[0];
  LaneValue ***out = s.v;
  if (first->type->rank) {
    out = NEW_N(l->cx->arena, LaneValue **, k);
    lower_convert_many(l, "reduce", k, s.v, s.kinds, layout_make(l->cx, &s.layout), first->layout, out);
  }
  for (int i = 0; i < k; i++) lower_set(l, op->out[i], out[i]);
}
