/* Layouts of products' accumulators.
 *
 * A warp's tensor core adds a tile of 16 by K times one of K by 8 to a tile of 16 by 8, whose elements lie in the lanes
 * as the hardware wants them. That is a linear layout like any other; of a row's and a column's bits, r and c, for
 * 16-bit floats, where K is 16,
 *
 *     accumulator      reg c0 r3      lane c1 c2 r0 r1 r2
 *     a (c is k)       reg c0 r3 c3   lane c1 c2 r0 r1 r2
 *     x (r is k)       reg r0 r3      lane r1 r2 c0 c1 c2
 *
 * A lane takes neighbours along k, as many as a register holds: two of 16 bits (the first register bit of a and x),
 * four of 8 bits, where K is 32, one of f32 or f64, where K is 8; the lanes' two bits of k, and the one above, follow.
 * The accumulator is the same for all. Its bits above go to warps and to more registers. So what a product of 16-bit
 * floats leaves can be the next one's first operand where it stands, as in attention: columns have become k.
 *
 * Warps go down the rows, so that a row stays in a warp and its maximum and sum need no other; how rows are dealt
 * depends on their number only, so that products with the same rows have the same slices. Where the kernel has one
 * product and reduces nothing, warps share the tile in both directions instead, such that a warp reads the fewest rows
 * and columns.
 */
#include "layout/choose.h"

/* ---- bits of an index, given out from the lowest ----------------------------------------------------------------- */

typedef struct Deal {
  int next[MAX_RANK], end[MAX_RANK];
} Deal;

static Deal deal_begin(const Type *t) {
  Deal left = {{0}, {0}};
  for (int d = 0; d < t->rank; d++) {
    left.next[d] = layout_dim_shift(t, d);
    left.end[d] = left.next[d] + log2_floor(t->shape[d]);
  }
  return left;
}

static int deal(Deal *from, int d, int want, uint32_t *to) {
  int n = 0;
  while (n < want && from->next[d] < from->end[d]) to[n++] = UINT32_C(1) << from->next[d]++;
  return n;
}

/* ---- multiply-adds ----------------------------------------------------------------------------------------------- */

/* Each thread takes a small square of the product, up to 4 by 4 together: it then reads 8 numbers for 16 multiply-adds.
 * Lanes are 4 by 8, warps go along the batch and then down the rows. What is left over goes to registers. How rows are
 * dealt depends on their number only (as if there were 64 columns), so that products with the same rows, as in
 * attention, have the same slices. */
static const Layout *for_fma(Context *cx, const Type *acc, int num_warps) {
  int rank = acc->rank, m = rank - 2, n = rank - 1;
  Layout l = {.lane_bits = 5, .warp_bits = log2_floor(num_warps), .out_bits = log2_floor(type_numel(acc))};
  int each = l.out_bits - l.lane_bits - l.warp_bits;
  int wide = log2_floor(acc->shape[m]) + 6 - l.lane_bits - l.warp_bits, along_m = wide >= 4 ? 2 : wide >= 2 ? 1 : 0;
  if (along_m > each) along_m = each < 0 ? 0 : each;
  int along_n = each - along_m > 2 ? 2 : each - along_m < 0 ? 0 : each - along_m;
  Deal left = deal_begin(acc);
  uint32_t threads[F2_MAX] = {0};
  int lanes = 0, warps = 0;
  l.reg_bits += deal(&left, n, along_n, l.basis);
  l.reg_bits += deal(&left, m, along_m, l.basis + l.reg_bits);
  lanes += deal(&left, n, 3, threads);
  lanes += deal(&left, m, l.lane_bits - lanes, threads + lanes);
  lanes += deal(&left, n, l.lane_bits - lanes, threads + lanes);
  if (rank == 3) lanes += deal(&left, 0, l.lane_bits - lanes, threads + lanes);
  for (int d = 0; d < rank; d++) warps += deal(&left, d, l.warp_bits - warps, threads + l.lane_bits + warps);
  for (int d = rank - 1; d >= 0; d--) l.reg_bits += deal(&left, d, F2_MAX, l.basis + l.reg_bits);
  memcpy(l.basis + l.reg_bits, threads, sizeof *threads * (size_t)(l.lane_bits + l.warp_bits));
  return layout_make(cx, &l);
}

/* ---- tensor cores ------------------------------------------------------------------------------------------------ */

enum { TILE_M = 4, TILE_N = 3 }; /* log2 */

static bool is_native_fp8(Dtype t) { return t == DT_F8E4NV || t == DT_F8E5; }

int layout_mma_pack(Dtype t) { return dtype_bits(t) == 8 ? 2 : dtype_bits(t) == 16 ? 1 : 0; }

bool layout_mma_type(const Op *dot, bool fp8, Dtype as[2]) {
  const Type *a = dot->in[0]->type, *x = dot->in[1]->type, *out = dot->out[0]->type;
  int64_t k = a->shape[a->rank - 1], least;
  if (out->shape[out->rank - 2] < 1 << TILE_M || out->shape[out->rank - 1] < 1 << TILE_N) return false;
  as[0] = a->dtype, as[1] = x->dtype;
  if (dtype_is_fp8(a->dtype) && dtype_is_fp8(x->dtype)) {
    if (!fp8 || k < 32 || !is_native_fp8(a->dtype) || !is_native_fp8(x->dtype))
      as[0] = as[1] = DT_F16; /* which has each number of each of them */
  } else if (a->dtype != x->dtype) {
    return false;
  }
  DotPrecision precision = (DotPrecision)dot->precision;
  switch (as[0]) {
    case DT_F64: return out->dtype == DT_F64 && k >= 8;
    case DT_I8:
    case DT_U8: return out->dtype == DT_I32 && k >= 32;
    case DT_F32:
      if (precision == PRECISION_IEEE) return false;
      least = precision == PRECISION_BF16X3 || precision == PRECISION_BF16X6 ? 16 : 8;
      break;
    case DT_F16:
    case DT_BF16: least = 16; break;
    case DT_F8E4NV:
    case DT_F8E5: least = 32; break;
    default: return false;
  }
  return dtype_is_float(out->dtype) && out->dtype != DT_F64 && k >= least;
}

bool layout_is_mma(const Type *acc, const Layout *l) {
  int n_bits = log2_floor(acc->shape[acc->rank - 1]), m_bits = log2_floor(acc->shape[acc->rank - 2]);
  if (m_bits < TILE_M || n_bits < TILE_N || l->reg_bits < 2) return false;
  uint32_t m = UINT32_C(1) << n_bits, inside = 7 | m * 15, lanes[] = {2, 4, m, m * 2, m * 4}, found = 0;
  if (memcmp(l->basis + l->reg_bits, lanes, sizeof lanes)) return false;
  for (int i = 0; i < layout_inputs(l); i++) {
    uint32_t v = l->basis[i];
    if (i >= l->reg_bits && i < l->reg_bits + l->lane_bits) continue;
    if (i < l->reg_bits && (v == 1 || v == m * 8)) found |= v;
    else if (v & inside) return false;
    /* of one dim alone */
    else if ((v & (m - 1) ? 1 : 0) + (v & ((m << m_bits) - m) ? 1 : 0) + (v >> (n_bits + m_bits) ? 1 : 0) > 1)
      return false;
  }
  return found == (1 | m * 8);
}

bool layout_dot_is_mma(const Op *dot) {
  Dtype as[2];
  const Type *acc = dot->out[0]->type;
  const Layout *l = dot->out[0]->layout;
  return layout_mma_type(dot, true, as) && (layout_is_mma(acc, l) || layout_is_wgmma_loaded(acc, l));
}

bool layout_is_wgmma(const Type *acc, const Layout *l) {
  if (acc->rank != 2 || l->warp_bits < 2 || !layout_is_mma(acc, l)) return false;
  const uint32_t *warps = l->basis + l->reg_bits + l->lane_bits, m = (uint32_t)acc->shape[1];
  return warps[0] == m * 16 && warps[1] == m * 32;
}

/* Bits of a row's number, in the order in which registers, lanes and warps take them (layout_is_wgmma_loaded). */
static const uint8_t loaded_rows[] = {0, 1, 4, 2, 3};
enum { LOADED_ROWS = sizeof loaded_rows };
static uint32_t loaded_row(int i) { return UINT32_C(1) << (i < LOADED_ROWS ? loaded_rows[i] : i); }

bool layout_is_wgmma_loaded(const Type *acc, const Layout *l) {
  if (acc->rank != 2 || l->warp_bits < 2 || l->reg_bits < 2) return false;
  uint32_t m = (uint32_t)acc->shape[1], rows = ~(m - 1);
  int n = 0;
  while (n < 2 && n < l->reg_bits && l->basis[n] == m * loaded_row(n)) n++;
  const uint32_t *lanes = l->basis + l->reg_bits;
  if (!n || lanes[0] != 2 || lanes[1] != 4 || layout_find_register(l, 1) < 0) return false;
  for (int i = 0; i < 3; i++)
    if (lanes[2 + i] != m * loaded_row(n + i)) return false;
  for (int i = 0; i < layout_inputs(l); i++)
    if (l->basis[i] & rows && l->basis[i] & ~rows) return false;
  return lanes[5] & rows && lanes[6] & rows;
}

/* Of fewer tiles than warps, several warps compute the same one: that takes them less than multiply-adds would, but of
 * f64, of which tensor cores do few more. */
bool layout_takes_mma(const Op *dot, bool fp8, int num_warps, Dtype as[2]) {
  return layout_mma_type(dot, fp8, as) &&
         (as[0] != DT_F64 || type_numel(dot->out[0]->type) >> (TILE_M + TILE_N) >= num_warps);
}

bool layout_takes_wgmma(const Op *dot, int num_warps) {
  const Type *acc = dot->out[0]->type;
  Dtype as[2];
  return num_warps >= 4 && acc->rank == 2 && acc->shape[0] >= 64 && acc->shape[1] >= 16 &&
         layout_takes_mma(dot, true, num_warps, as) && as[0] != DT_F64 &&
         (as[0] != DT_F32 || dot->precision == PRECISION_TF32 || dot->precision == PRECISION_SPLIT);
}

bool layout_flies(const Op *dot, int num_warps) {
  return layout_takes_wgmma(dot, num_warps) && dot->precision != PRECISION_SPLIT;
}

bool layout_wgmma_takes(const Op *dot, int k, int inner) {
  const Type *t = dot->in[k]->type;
  return type_elem_bytes(t) == 2 || inner == !k || (k == 0 && t->dtype == DT_F32);
}

bool layout_takes_tmem(const Op *dot, int num_warps, bool int8) {
  const Type *acc = dot->out[0]->type;
  Dtype as[2];
  return num_warps >= 4 && acc->rank == 2 && acc->shape[0] >= 64 && acc->shape[1] >= 16 &&
         acc->shape[1] >= 8 * (num_warps / 4) && layout_tmem_columns(acc->shape[0], acc->shape[1]) <= TMEM_COLUMNS &&
         layout_takes_mma(dot, true, num_warps, as) && as[0] != DT_F64 && (int8 || !dtype_is_int(as[0])) &&
         (as[0] != DT_F32 || dot->precision == PRECISION_TF32);
}

/* Warps 0 to 3 reach a quarter of the lanes each, and so do the next four. */
const Layout *layout_for_tmem(Context *cx, const Type *acc, int num_warps) {
  Layout l = {.lane_bits = 5, .warp_bits = log2_floor(num_warps), .out_bits = log2_floor(type_numel(acc))};
  Deal left = deal_begin(acc);
  uint32_t threads[F2_MAX] = {0};
  int at = 0, quarters = 2;
  if (acc->shape[0] == 64) {
    l.reg_bits += deal(&left, 1, 1, l.basis);
    at += deal(&left, 1, 2, threads);
    at += deal(&left, 0, 3, threads + at);
    l.reg_bits += deal(&left, 0, 1, l.basis + l.reg_bits);
  } else {
    at += deal(&left, 0, l.lane_bits, threads);
  }
  at += deal(&left, 0, quarters, threads + at);
  at += deal(&left, 0, l.lane_bits + l.warp_bits - at, threads + at);
  int beside = left.end[1] - left.next[1] - (l.lane_bits + l.warp_bits - at);
  l.reg_bits += deal(&left, 1, beside, l.basis + l.reg_bits);
  at += deal(&left, 1, l.lane_bits + l.warp_bits - at, threads + at);
  l.reg_bits += deal(&left, 0, F2_MAX, l.basis + l.reg_bits);
  memcpy(l.basis + l.reg_bits, threads, sizeof *threads * (size_t)(l.lane_bits + l.warp_bits));
  return layout_make(cx, &l);
}

/* The load that v, or the first of those that a loop carries in v, comes from; NULL: it is made otherwise. */
const Op *layout_load_of(const Value *v) {
  for (;;) {
    const Op *loop = v->def ? v->def : v->block->parent;
    int carried = v->index - 1;
    if (v->def && v->def->code == OP_FOR)
      for (carried = 0; v->def->out[carried] != v;) carried++;
    else if (v->def) return v->def->code == OP_LOAD ? v->def : NULL;
    if (!loop || loop->code != OP_FOR || carried < 0) return NULL;
    v = loop->in[3 + carried];
  }
}

/* The dim along which what makes v reads lies side by side in memory; -1: it reads none. */
static int inner_of(const Chooser *c, const Value *v) {
  const Op *op = layout_load_of(v);
  int inner = -1;
  if (!op && !(op = v->def)) return inner;
  if (op->code == OP_RING_READ) return (int)op->in[0]->def->inner;
  if (op->code == OP_RING_LOAD) op = layout_ring_user(c->f, op->in[0], OP_RING_COPY);
  else if (op->code != OP_LOAD) return inner;
  access_vector(op->in[0], op_mask(op), access_layout(c->cx, op->in[0], op_mask(op), c->num_warps), 16, &inner);
  return inner;
}

/* Whether operand k comes from memory with neighbours along k apart. */
static bool comes_across(const Chooser *c, const Op *dot, int k) {
  const Value *v = dot->in[k];
  int along = !k; /* dims */
  for (; v->def && v->def->code == OP_TRANS; v = v->def->in[0]) along = (int)v->def->dims[along];
  int inner = inner_of(c, v);
  return inner >= 0 && inner != along;
}

/* Whether what v is made of, element by element, comes so. */
static bool is_made_across(const Chooser *c, const Value *v, int along, int *left) {
  stack_guard();
  if (v->type->rank != 2 || --*left < 0) return false;
  int inner = inner_of(c, v);
  if (inner >= 0 || !v->def) return inner >= 0 && inner != along;
  if (v->def->code == OP_TRANS) return is_made_across(c, v->def->in[0], (int)v->def->dims[along], left);
  for (int i = 0; i < v->def->in_count && op_is_elementwise(v->def); i++)
    if (is_made_across(c, v->def->in[i], along, left)) return true;
  return false;
}

static bool is_in_ring(const Value *v) {
  while (v->def && v->def->code == OP_TRANS) v = v->def->in[0];
  return v->def && v->def->code == OP_RING_READ;
}

/* Whether warpgroups are to compute the dot: f32 they take from shared memory along k alone. Of the first operand
 * threads may load what lies across, from a ring (loaded). Of products in pieces threads hold the first anyway, and
 * write the second where it lies across. */
static bool is_for_groups(const Chooser *c, const Op *dot, bool *loaded) {
  *loaded = false;
  if (c->unit != DOT_WGMMA || !layout_takes_wgmma(dot, c->num_warps)) return false;
  if (dot->in[0]->type->dtype != DT_F32) return true;
  bool split = dot->precision == PRECISION_SPLIT;
  *loaded = comes_across(c, dot, 0) && !(split && !is_in_ring(dot->in[0]));
  if (split) return true;
  if (comes_across(c, dot, 1)) return false;
  return !*loaded || (is_in_ring(dot->in[0]) && is_in_ring(dot->in[1]));
}

/* Threads bring to shared memory what warpgroups take along k, word by word: a row's four words of 8 columns go at
 * once, as squares that are read across bring them. */
const Layout *layout_for_words(Context *cx, const Type *t, int num_warps) {
  Layout l = {.lane_bits = 5, .warp_bits = log2_floor(num_warps), .out_bits = log2_floor(type_numel(t))};
  Deal left = deal_begin(t);
  uint32_t threads[F2_MAX] = {0};
  int at = deal(&left, 0, 2, threads);
  for (int d = 1; d >= 0; d--) at += deal(&left, d, (d ? 5 : l.lane_bits) - at, threads + at);
  l.reg_bits += deal(&left, 0, 1, l.basis);
  for (int d = 1; d >= 0; d--) at += deal(&left, d, l.lane_bits + l.warp_bits - at, threads + at);
  for (int d = 0; d < 2; d++) l.reg_bits += deal(&left, d, F2_MAX, l.basis + l.reg_bits);
  memcpy(l.basis + l.reg_bits, threads, sizeof *threads * (size_t)(l.lane_bits + l.warp_bits));
  return layout_make(cx, &l);
}

const Layout *layout_for_rows(Context *cx, const Type *t, int num_warps) {
  Layout l = {.lane_bits = 5, .warp_bits = log2_floor(num_warps), .out_bits = log2_floor(type_numel(t))};
  Deal left = deal_begin(t);
  uint32_t threads[F2_MAX] = {0};
  l.reg_bits += deal(&left, 0, 2, l.basis);
  int at = deal(&left, 0, l.lane_bits, threads);
  at += deal(&left, 1, l.lane_bits + l.warp_bits - at, threads + at);
  for (int d = 0; d < 2; d++) l.reg_bits += deal(&left, d, F2_MAX, l.basis + l.reg_bits);
  memcpy(l.basis + l.reg_bits, threads, sizeof *threads * (size_t)(l.lane_bits + l.warp_bits));
  return layout_make(cx, &l);
}

const Layout *layout_for_operand(Chooser *c, const Op *dot, int k) {
  enum { MOST = 32 };
  bool loaded;
  int left = MOST;
  bool split = dot->precision == PRECISION_SPLIT && k == 0;
  if (!(c->f->squares & SQUARES_OPERANDS || split) || dot->in[0]->type->dtype != DT_F32 || is_in_ring(dot->in[k]) ||
      !is_for_groups(c, dot, &loaded) || loaded || !(split || is_made_across(c, dot->in[k], !k, &left)))
    return NULL;
  return k ? layout_for_words(c->cx, dot->in[1]->type, c->num_warps)
           : layout_mma_operand(c->cx, dot, layout_for_dot(c, dot), 0, 0);
}

/* As layout_is_wgmma_loaded wants it. */
static const Layout *for_loads(Chooser *c, const Op *dot) {
  const Type *acc = dot->out[0]->type;
  int rows = log2_floor(acc->shape[0]), columns = log2_floor(acc->shape[1]), warps = log2_floor(c->num_warps),
      down = warps < rows - 4 ? warps : rows - 4, row = 0, column = 0;
  uint32_t m = (uint32_t)acc->shape[1], threads[F2_MAX];
  Layout l = {.lane_bits = 5, .warp_bits = warps, .out_bits = rows + columns};
  int vector = rows - 3 - down < 2 ? 1 : 2, at = 2;
  while (row < vector) l.basis[l.reg_bits++] = m * loaded_row(row++);
  l.basis[l.reg_bits++] = 1;
  threads[0] = 2, threads[1] = 4;
  for (int i = 0; i < 3 + down; i++) threads[at++] = m * loaded_row(row++);
  for (column = 3; column < columns - (warps - down); column++) l.basis[l.reg_bits++] = 1u << column;
  while (column < columns) threads[at++] = 1u << column++;
  while (row < rows) l.basis[l.reg_bits++] = m * loaded_row(row++);
  while (at < l.lane_bits + warps) threads[at++] = 0;
  memcpy(l.basis + l.reg_bits, threads, sizeof *threads * (size_t)at);
  return layout_make(c->cx, &l);
}

static const Layout *for_mma(Chooser *c, const Op *dot) {
  const Type *acc = dot->out[0]->type;
  int rank = acc->rank, m = rank - 2, n = rank - 1;
  Layout l = {.lane_bits = 5, .warp_bits = log2_floor(c->num_warps), .out_bits = log2_floor(type_numel(acc))};
  Deal left = deal_begin(acc);
  uint32_t threads[F2_MAX] = {0};
  l.reg_bits += deal(&left, n, 1, l.basis);
  int at = deal(&left, n, 2, threads);
  at += deal(&left, m, 3, threads + at);
  l.reg_bits += deal(&left, m, 1, l.basis + l.reg_bits);
  if (rank == 3) at += deal(&left, 0, l.warp_bits, threads + at);
  int warps = l.lane_bits + l.warp_bits - at, rows = left.end[m] - left.next[m], columns = left.end[n] - left.next[n],
      down = warps < rows ? warps : rows;
  bool loaded, group = is_for_groups(c, dot, &loaded); /* a warpgroup's warps: 64 rows, then as wide as can be */
  if (loaded && group) return for_loads(c, dot);
  while (!c->rows_first && !group && down > 0 && warps - down < columns &&
         2 * (acc->shape[m] >> down) < acc->shape[n] >> (warps - down))
    down--;
  at += deal(&left, m, down, threads + at);
  /* an instruction of a warpgroup takes columns side by side */
  if (group) l.reg_bits += deal(&left, n, columns - (warps - down), l.basis + l.reg_bits);
  at += deal(&left, n, warps - down, threads + at);
  for (int d = rank - 1; d >= 0; d--) l.reg_bits += deal(&left, d, F2_MAX, l.basis + l.reg_bits);
  memcpy(l.basis + l.reg_bits, threads, sizeof *threads * (size_t)(l.lane_bits + l.warp_bits));
  return layout_make(c->cx, &l);
}

const Layout *layout_mma_operand(Context *cx, const Op *dot, const Layout *acc, int operand, int pack) {
  const Type *a = dot->in[0]->type, *out = dot->out[0]->type;
  int m_bits = log2_floor(out->shape[out->rank - 2]), n_bits = log2_floor(out->shape[out->rank - 1]),
      k_bits = log2_floor(a->shape[a->rank - 1]);
  uint32_t columns = (UINT32_C(1) << n_bits) - 1, k = operand ? UINT32_C(1) << n_bits : 1;
  uint32_t above = (UINT32_C(1) << (m_bits + n_bits)) - 1, line = operand ? 1 : UINT32_C(1) << k_bits;
  Layout l = {.reg_bits = 0,
              .lane_bits = 5,
              .warp_bits = acc->warp_bits,
              .out_bits = log2_floor(type_numel(dot->in[operand]->type))};
  for (int i = 0; i < k_bits; i++)
    if (i < pack || i >= pack + 2) l.basis[l.reg_bits++] = k << i;
  uint32_t lines[F2_MAX]; /* the accumulator's vectors, as lines of the operand */
  for (int i = 0; i < layout_inputs(acc); i++) {
    uint32_t v = acc->basis[i], batch = (v & ~above) >> (m_bits + n_bits) << (k_bits + (operand ? n_bits : m_bits));
    lines[i] = batch | (operand ? v & columns : (v & above) >> n_bits << k_bits);
  }
  for (int i = 0; i < acc->reg_bits; i++)
    if (lines[i] != line) l.basis[l.reg_bits++] = lines[i];
  uint32_t *threads = l.basis + l.reg_bits;
  for (int i = 0; i < 5; i++) threads[i] = i < 2 ? k << (pack + i) : line << (i - 2);
  memcpy(threads + 5, lines + acc->reg_bits + 5, sizeof *lines * (size_t)acc->warp_bits);
  return layout_make(cx, &l);
}

const Layout *layout_for_dot(Chooser *c, const Op *dot) {
  const Type *acc = dot->out[0]->type;
  Dtype as[2];
  return c->unit != DOT_FMA && layout_takes_mma(dot, true, c->num_warps, as) ? for_mma(c, dot)
                                                                             : for_fma(c->cx, acc, c->num_warps);
}
