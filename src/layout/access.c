/* How a load or store meets memory.
 *
 * What is known of addresses is the pointers' axis info (tile/analysis/axis_info.c), dim by dim: runs in which each
 * element lies after the last, what divides a run's first address, groups of equal addresses. So each vector of a
 * layout, a bit of the flat index, either moves within a run (by so many bytes), or stays at the same address, or goes
 * who knows where. Beyond the runs that are sure it goes by what most elements do, which only costs if it is wrong:
 *
 *     *f32[8,64], rows far apart:   bits 0..5  4 8 16 32 64 128 bytes      bits 6..8  far
 *     lanes 1 2 4 8 16 (columns 0..31), vector 1     128 bytes: 4 sectors of the 4 that 32 floats need       1.0
 *     lanes 64 128 256 1 2,             vector 1     8 rows of 16 bytes: 8 sectors of 4                      2.0
 *     lanes 4 8 16 32 64,               vector 4     2 rows of 256 bytes: 16 sectors of 16                   1.0
 */
#include "layout/choose.h"

static int64_t power_in(int64_t n) { return n & -n; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int pointee_bytes(const Type *t) { return t->ptr > 1 ? 8 : dtype_bytes(t->dtype); }

/* The most elements along dim d that one access may take, as far as addresses and mask go. */
static int64_t widest(const Value *ptr, const Value *mask, int d, int max_bytes) {
  if (!ptr->axis) return 1;
  int bytes = pointee_bytes(ptr->type);
  int64_t n = least(power_in(ptr->axis->contiguous[d]), ptr->axis->divisible[d] / bytes);
  n = least(n, max_bytes / bytes);
  if (mask && mask->type->rank) n = least(n, mask->axis ? power_in(mask->axis->constant[d]) : 1);
  return n < 1 ? 1 : n;
}

/* Of a vector that moves along one dim. */
static int dim_of(const Type *t, uint32_t vector) {
  int d = t->rank - 1;
  while (d > 0 && vector >> layout_dim_shift(t, d) >= (uint32_t)t->shape[d]) d--;
  return d;
}

int access_vector(const Value *ptr, const Value *mask, const Layout *l, int max_bytes, int *dim) {
  const Type *t = ptr->type;
  *dim = t->rank ? t->rank - 1 : 0;
  if (!l || !l->reg_bits) return 1;
  int d = t->rank - 1, shift = 0;
  for (; d >= 0; d--) {
    shift = layout_dim_shift(t, d);
    if (t->shape[d] > 1 && l->basis[0] == UINT32_C(1) << shift) break;
  }
  if (d < 0) return 1;
  *dim = d;
  int64_t most = least(widest(ptr, mask, d, max_bytes), t->shape[d]);
  int n = 0;
  while (n < l->reg_bits && ((int64_t)2 << n) <= most && l->basis[n] == UINT32_C(1) << (shift + n)) n++;
  /* What other registers and threads add must leave the run in order and aligned. */
  for (int i = n; i < layout_inputs(l); i++)
    while (i >= n && n && l->basis[i] >> shift & (((uint32_t)1 << n) - 1)) n--;
  if (!n && l->lane_bits && l->basis[l->reg_bits]) *dim = dim_of(t, l->basis[l->reg_bits]);
  return 1 << n;
}

bool access_may_copy(const Op *op, const Layout *l, int *dim) {
  const Value *ptr = op->in[0];
  return access_vector(ptr, op_mask(op), l, 16, dim) * pointee_bytes(ptr->type) >= 4;
}

/* ---- where a bit of the index leads ------------------------------------------------------------------------------ */

typedef struct Step {
  bool far;
  int64_t bytes;
} Step; /* bytes 0, not far: the same address */

/* Whether dim d goes by a stride that is taken for a small one: no dim has runs, and no later one goes by a stride.
 * Where it is not small, threads side by side cost no more than what else there is. */
static bool goes_by_small_stride(const Value *ptr, int d) {
  const AxisInfo *axis = ptr->axis;
  if (axis->mostly[d] != MOSTLY_STRIDE) return false;
  for (int i = 0; i < ptr->type->rank; i++) {
    bool runs = axis->contiguous[i] > 1 || axis->mostly[i] == MOSTLY_NEXT || axis->mostly[i] == MOSTLY_NEAR;
    if (runs || (i > d && axis->mostly[i] == MOSTLY_STRIDE && ptr->type->shape[i] > 1)) return false;
  }
  return true;
}

static Step step_of(const Value *ptr, uint32_t vector) {
  const Type *t = ptr->type;
  Step s = {0};
  for (int d = 0; d < t->rank && vector; d++) {
    int shift = layout_dim_shift(t, d);
    uint32_t index = (vector & layout_dim_mask(t, d)) >> shift;
    for (; index; index &= index - 1) {
      int64_t at = index & -index;
      if (!ptr->axis) s.far = true;
      else if (at < power_in(ptr->axis->constant[d])) continue;
      else if (at < power_in(ptr->axis->contiguous[d]) || ptr->axis->mostly[d] == MOSTLY_NEXT)
        s.bytes += at * pointee_bytes(t);
      else if (ptr->axis->mostly[d] == MOSTLY_NEAR || goes_by_small_stride(ptr, d))
        s.bytes += 2 * at * pointee_bytes(t);
      else if (ptr->axis->mostly[d] != MOSTLY_EQUAL) s.far = true;
    }
  }
  return s;
}

enum { SECTOR = 32 };

/* Sectors that one access of a warp touches; *bytes: how many distinct bytes it wants. */
static double sectors_touched(const Value *ptr, const Layout *l, int vector, double *bytes) {
  int64_t own = (int64_t)vector * pointee_bytes(ptr->type);
  double sectors = own > SECTOR ? (double)own / SECTOR : 1, wanted = (double)own;
  for (int i = 0; i < l->lane_bits; i++) {
    Step s = step_of(ptr, l->basis[l->reg_bits + i]);
    if (!s.far && s.bytes == 0) continue;
    if (s.far || s.bytes >= SECTOR) sectors *= 2;
    wanted *= 2;
  }
  *bytes = wanted;
  return sectors;
}

double access_sectors(const Value *ptr, const Layout *l, int vector) {
  double bytes, sectors = sectors_touched(ptr, l, vector, &bytes), fewest = bytes > SECTOR ? bytes / SECTOR : 1;
  return sectors / fewest;
}

/* In the unit of convert_cost, issue slots of a warp: an SM issues four a cycle, and its way to L2 carries about two
 * sectors. A load's sectors count once, since what one register fetched too much of is in L1 when the next one asks; a
 * store's count each time. Two slots for the instruction and its share of address arithmetic; for less than a word two
 * more, since it shares neither its register nor, mostly, its address with others, and two for a predicate and what it
 * holds where the mask is off: 32 loads of 2 bytes take 120 instructions, masked 240. */
enum { COST_ACCESS = 2, COST_NARROW = 2, COST_SECTOR = 3 };
#define COST_SECTOR_L1 0.05

static int access_slots(const Value *ptr, const Value *mask, int vector) {
  bool narrow = vector * pointee_bytes(ptr->type) < 4;
  return COST_ACCESS + (narrow ? COST_NARROW : 0) + (narrow && mask ? COST_NARROW : 0);
}

double access_cost(const Value *ptr, const Value *mask, const Layout *l, bool is_store) {
  int dim, vector = access_vector(ptr, mask, l, 16, &dim), slots = access_slots(ptr, mask, vector);
  double bytes, each = sectors_touched(ptr, l, vector, &bytes), count = (double)(layout_registers(l) / vector);
  if (is_store) return slots * count + COST_SECTOR * each * count;
  double all = 1; /* warps that load the same share what it costs to fetch that */
  for (int i = 0; i < l->reg_bits + l->lane_bits; i++) {
    Step s = step_of(ptr, l->basis[i]);
    if (s.far || s.bytes >= SECTOR) all *= 2;
  }
  for (int i = l->reg_bits + l->lane_bits; i < layout_inputs(l); i++) {
    Step s = step_of(ptr, l->basis[i]);
    if (!s.far && !s.bytes) all /= 2;
  }
  return slots * count + COST_SECTOR_L1 * each * count + COST_SECTOR * all;
}

/* ---- the best layout --------------------------------------------------------------------------------------------- */

enum { MOSTLY_RUN = 4 }; /* elements */

/* By what dims are put in order: quarters of elements of a run. What mostly runs counts as a short one, what mostly
 * goes by a few elements as a shorter one; what goes by no multiple of 16 may lie nearer than what does. */
static int64_t run_of(const Value *ptr, int d) {
  if (!ptr->axis) return 4;
  int64_t run = 4 * power_in(ptr->axis->contiguous[d]), least_run = 4;
  switch (ptr->axis->mostly[d]) {
    case MOSTLY_NEXT: least_run = 4 * MOSTLY_RUN; break;
    case MOSTLY_NEAR: least_run = 4 * 2; break;
    case MOSTLY_ODD:
    case MOSTLY_STRIDE: least_run = 5; break;
    default: break;
  }
  return run > least_run ? run : least_run;
}

/* Dims from the one with the longest runs; those without any from the last. */
static void order_dims(const Value *ptr, int *order) {
  const Type *t = ptr->type;
  int64_t run[MAX_RANK];
  for (int i = 0; i < t->rank; i++) {
    int d = t->rank - 1 - i, at = i;
    run[d] = run_of(ptr, d);
    for (; at > 0 && run[order[at - 1]] < run[d]; at--) order[at] = order[at - 1];
    order[at] = d;
  }
}

typedef struct Deal {
  int next[MAX_RANK], end[MAX_RANK];
} Deal;

static int deal(Deal *from, int d, int want, uint32_t *to) {
  int n = 0;
  while (n < want && from->next[d] < from->end[d]) to[n++] = UINT32_C(1) << from->next[d]++;
  return n;
}

const Layout *access_layout_with(Context *cx, const Value *ptr, const Value *mask, int num_warps, int vector,
                                 bool slow_warps) {
  const Type *t = ptr->type;
  int order[MAX_RANK] = {0}, rank = t->rank, n = 0;
  order_dims(ptr, order);
  int64_t share = type_numel(t) / (32 * (int64_t)num_warps), wide = rank ? widest(ptr, mask, order[0], 16) : 1;
  wide = least(least(wide, vector), share < 1 ? 1 : share);
  Layout l = {.lane_bits = 5, .warp_bits = log2_floor(num_warps), .out_bits = log2_floor(type_numel(t))};
  Deal left = {{0}, {0}};
  for (int d = 0; d < rank; d++) {
    left.next[d] = layout_dim_shift(t, d);
    left.end[d] = left.next[d] + log2_floor(t->shape[d]);
  }
  uint32_t threads[F2_MAX] = {0};
  if (rank) l.reg_bits = deal(&left, order[0], log2_floor(wide), l.basis);
  for (int i = 0; i < rank; i++) n += deal(&left, order[i], l.lane_bits - n, threads + n);
  for (int i = 0, warps = 0; i < rank; i++)
    warps += deal(&left, order[slow_warps ? rank - 1 - i : i], l.warp_bits - warps, threads + l.lane_bits + warps);
  for (int i = 0; i < rank; i++) l.reg_bits += deal(&left, order[i], F2_MAX, l.basis + l.reg_bits);
  memcpy(l.basis + l.reg_bits, threads, sizeof *threads * (size_t)(l.lane_bits + l.warp_bits));
  return layout_make(cx, &l);
}

const Layout *access_layout(Context *cx, const Value *ptr, const Value *mask, int num_warps) {
  return access_layout_with(cx, ptr, mask, num_warps, 16, false);
}

/* ---- rings of a thread's own ------------------------------------------------------------------------------------- */

typedef struct RingUser {
  const Value *ring;
  OpCode code;
  Op *found;
} RingUser;

static void find_user(Op *op, void *arg) {
  RingUser *u = arg;
  if (!u->found && op->code == u->code && op->in[op->code == OP_RING_COPY] == u->ring) u->found = op;
}

Op *layout_ring_user(const Func *f, const Value *ring, OpCode code) {
  RingUser u = {ring, code, NULL};
  tile_walk(f->body, find_user, &u);
  return u.found;
}

int64_t layout_own_bytes(const Type *t, int num_warps) {
  int64_t tile = type_numel(t) * type_elem_bytes(t), least = 16 * 32 * num_warps;
  return tile > least ? tile : least;
}
