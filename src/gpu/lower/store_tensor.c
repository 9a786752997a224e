/* store_tensor: a tile goes to an array by a tensor map (gpu/tensor_stores.c).
 *
 * Each warp brings its own elements, in boxes of rows and columns that its lanes and some of its registers hold whole:
 * of a product's sums, 16 rows by 128 bytes. It writes a box to its own part of shared memory, as the engine wants it,
 * rows of 32, 64 or 128 bytes with places of 16 bytes xor'ed with the row's number; fences; and one thread asks for the
 * copy. No other warp is waited for.
 *
 *     bulk_wait {read, imm=slots - 1}   the box that lay there before has been read
 *     st ...; fence_proxy; barrier of the warp
 *     tensor_store; bulk_commit         by one thread
 *
 * A layout in which warps hold no boxes is changed first: to rows of 128 bytes, in accesses of 16 a thread.
 */
#include "gpu/launch_plan.h"
#include "gpu/lower/ring.h"

enum { MOST_ROWS = 8, ROW_BYTES = 7, LEAST_ROWS = 3, SLOTS = 2 }; /* log2, but for SLOTS: boxes of a warp at a time */

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

static bool has_vector(const Layout *l, uint32_t v) {
  for (int i = 0; i < l->reg_bits + l->lane_bits; i++)
    if (l->basis[i] == v) return true;
  return false;
}

static bool is_bit(uint32_t v) { return v && !(v & (v - 1)); }

/* The largest box within `room` bytes that a warp holds whole in this layout, with all its lanes; false: there is none.
 */
static bool find_box(const Type *t, const Layout *l, int inner, int64_t room, LowerBox *box) {
  int shift = log2_floor(type_elem_bytes(t));
  uint32_t column = UINT32_C(1) << layout_dim_shift(t, inner), row = UINT32_C(1) << layout_dim_shift(t, !inner), in = 0;
  *box = (LowerBox){.layout = l};
  while (box->columns < ROW_BYTES - shift && 1 << box->columns < t->shape[inner] &&
         has_vector(l, column << box->columns))
    in |= column << box->columns++;
  while (box->rows < MOST_ROWS && 1 << box->rows < t->shape[!inner] && has_vector(l, row << box->rows) &&
         (int64_t)SLOTS << (box->rows + 1 + box->columns + shift) <= room)
    in |= row << box->rows++;
  if (box->columns + shift < 5 || box->rows < LEAST_ROWS) return false;
  for (int i = 0; i < l->reg_bits + l->lane_bits + l->warp_bits; i++) {
    bool lane = i >= l->reg_bits && i < l->reg_bits + l->lane_bits, warp = i >= l->reg_bits + l->lane_bits;
    if (!is_bit(l->basis[i]) || (lane && !(l->basis[i] & in)) || (warp && l->basis[i] & in)) return false;
  }
  box->in = in;
  return !layout_copies(l);
}

/* Accesses of 16 bytes, lanes along 128 bytes of a row and then down the rows, then registers; warps at the far end. */
static const Layout *plain_layout(Lower *l, const Type *t, int inner) {
  int shift = log2_floor(type_elem_bytes(t)), all = log2_floor(t->shape[inner]), rows = log2_floor(t->shape[!inner]),
      columns = all < ROW_BYTES - shift ? all : ROW_BYTES - shift, warps = log2_floor(l->f->num_warps),
      down = warps < rows - LEAST_ROWS ? warps : rows - LEAST_ROWS, c = 0, r = 0, n = 0;
  uint32_t column = UINT32_C(1) << layout_dim_shift(t, inner), row = UINT32_C(1) << layout_dim_shift(t, !inner),
           threads[F2_MAX];
  Layout out = {.lane_bits = 5, .warp_bits = warps, .out_bits = all + rows};
  while (c < columns && c + shift < 4) out.basis[out.reg_bits++] = column << c++;
  while (n < 5 && c < columns) threads[n++] = column << c++;
  while (n < 5) threads[n++] = row << r++;
  while (r < rows - down) out.basis[out.reg_bits++] = row << r++;
  while (r < rows) threads[n++] = row << r++;
  while (c < all - (warps - down)) out.basis[out.reg_bits++] = column << c++;
  while (c < all) threads[n++] = column << c++;
  memcpy(out.basis + out.reg_bits, threads, sizeof *threads * (size_t)n);
  return layout_make(l->cx, &out);
}

void lower_store_box(Lower *l, const Op *op, LowerBox *box) {
  const Value *v = op->in[1];
  int inner = (int)op->inner;
  int64_t bytes = type_numel(v->type) * type_elem_bytes(v->type), most = l->target->budgets->converted_parted,
          room = (bytes < most ? bytes : most) / l->f->num_warps;
  if (!find_box(v->type, v->layout, inner, room, box) &&
      !find_box(v->type, plain_layout(l, v->type, inner), inner, room, box))
    diag_fail(l->cx, op->span ? *op->span : (Span){0}, "no warp holds a box of the tile that is stored");
}

/* ---- the operation ----------------------------------------------------------------------------------------------- */

/* A tile on its way. */
typedef struct Way {
  const LowerBox *box;
  LaneKind kind;
  int shift, buffer, bytes; /* of an element, log2; where a warp's boxes lie; of one */
  F2Map map;                /* of an index's bits: elements from the box's beginning */
  LaneValue *thread;        /* bytes: where the warp's boxes begin, and the lane in one */
  uint32_t thread_bits;     /* which of a box's bits the lane may set */
  int vector;               /* log2 of the elements of an access */
  bool by_squares;          /* they go by stmatrix */
  SquareAccess squares;
} Way;

static F2Map map_of(const Type *t, int inner, const LowerBox *box, int shift) {
  F2Map map = {.in_bits = log2_floor(type_numel(t)), .out_bits = box->rows + box->columns};
  int span = box->columns + shift, column = layout_dim_shift(t, inner), row = layout_dim_shift(t, !inner);
  for (int i = 0; i < box->columns; i++) map.column[column + i] = 1u << i;
  for (int i = 0; i < box->rows; i++) {
    int at = span + i; /* the address's bits 7 to 9 go to 4 to 6, as far as a row has these */
    map.column[row + i] = 1u << (box->columns + i);
    if (at >= 7 && at <= 9 && at - 3 < span) map.column[row + i] |= 1u << (at - 3 - shift);
  }
  return map;
}

/* Where the hardware has stmatrix and the tile is spread as it wants it: then `columns`, of the lane's bits, are those
 * of the rows that lanes name. */
static void find_squares(Lower *l, Way *w, uint32_t *columns) {
  const Layout *layout = w->box->layout;
  SquareBits bits = {.shift = w->shift, .reg_bits = layout->reg_bits};
  for (int i = 0; i < layout->reg_bits; i++) {
    bits.reg[i] = f2_apply(&w->map, layout->basis[i] & w->box->in) << w->shift;
    bits.apart |= (uint32_t)((layout->basis[i] & ~w->box->in) != 0) << i;
  }
  memcpy(bits.lane, columns, sizeof bits.lane);
  w->by_squares = l->target->sm >= 90 && w->kind != LK_PRED && squares_find(&bits, &w->squares);
  if (!w->by_squares) return;
  memcpy(columns, w->squares.row, sizeof w->squares.row);
  w->thread_bits = 0;
  for (int i = 0; i < 5; i++) w->thread_bits |= columns[i];
}

static void find_way(Lower *l, const Op *op, const LowerBox *box, Way *w) {
  LaneBuilder *b = &l->b;
  const Type *t = op->in[1]->type;
  const Layout *layout = box->layout;
  int inner = (int)op->inner;
  uint32_t columns[F2_MAX], column = UINT32_C(1) << layout_dim_shift(t, inner);
  *w = (Way){.box = box, .kind = lane_kind_of(t)};
  w->shift = lower_kind_shift(w->kind);
  w->bytes = 1 << (box->rows + box->columns + w->shift);
  w->map = map_of(t, inner, box, w->shift);
  w->buffer = lane_buffer(b, "stored tile", w->bytes * SLOTS * l->f->num_warps, 1024);
  l->out->buffers.at[w->buffer].warp_local = true;
  for (int i = 0; i < 5; i++) {
    columns[i] = f2_apply(&w->map, layout->basis[layout->reg_bits + i]) << w->shift;
    w->thread_bits |= columns[i];
  }
  find_squares(l, w, columns);
  while (w->vector < layout->reg_bits && 2 << (w->vector + w->shift) <= 16 && w->vector < box->columns &&
         layout_find_register(layout, column << w->vector) >= 0)
    w->vector++;
  w->thread = lower_linear(l, 5, columns, l->lane);
}

static void write_box(Lower *l, const Way *w, LaneValue *const *regs, uint32_t piece, LaneValue *begin, uint32_t column,
                      int64_t slot) {
  LaneBuilder *b = &l->b;
  const Layout *layout = w->box->layout;
  uint32_t side = column * ((1u << w->vector) - 1);
  LaneValue *values[16];
  int64_t imm;
  bool *done = NEW_N(l->cx->arena, bool, layout_registers(layout));
  int group[16];
  for (int r = 0; r < layout_registers(layout); r++) {
    uint32_t part = layout_register_part(layout, r), offset = f2_apply(&w->map, part & w->box->in) << w->shift,
             common = offset & w->thread_bits;
    if ((part & ~w->box->in) != piece || (w->by_squares ? done[r] || offset & 15 : part & side)) continue;
    LaneValue *at = common ? lane_2(b, LANE_XOR, LK_B32, w->thread, lane_const(b, LT_B32, common)) : w->thread;
    at = lane_2(b, LANE_ADD, LK_S32, begin, at);
    imm = slot + (offset ^ common);
    if (w->by_squares) {
      int n = squares_group(&w->squares, r, group);
      for (int i = 0; i < n; i++) values[i] = regs[group[i]], done[group[i]] = true;
      lower_squares_store(l, &w->squares, w->kind, values, at, imm, w->buffer, NULL);
      continue;
    }
    for (uint32_t i = 0; i < 1u << w->vector; i++) values[i] = regs[layout_find_register(layout, part | column * i)];
    lower_vector_store(l, w->kind, 1 << w->vector, values, at, imm, w->buffer, NULL);
  }
}

static LaneOp *one_lane(Lower *l) {
  return lane_if(&l->b, lane_setp(&l->b, CMP_EQ, LK_S32, l->lane, lane_i32(&l->b, 0)), false, 0, NULL);
}

static void leave(Lower *l, LaneOp *branch) {
  lane_yield(&l->b, 0, NULL);
  lane_enter(&l->b, branch, 1);
  lane_yield(&l->b, 0, NULL);
  lane_leave(&l->b, branch);
}

static void wait_for_boxes(Lower *l, int pending) {
  LaneOp *wait = lane_op_raw(&l->b, (LaneOp){.code = LANE_BULK_WAIT, .imm = pending, .buffer = -1}, 0, NULL, 0, NULL);
  wait->read = true;
}

/* Where the warp's box begins along a dim, beside the tile's own beginning. */
static LaneValue *begin_of(Lower *l, const Type *t, const Layout *layout, int dim, uint32_t piece, LaneValue *warp,
                           LaneValue *tile) {
  LaneBuilder *b = &l->b;
  uint32_t columns[F2_MAX], mask = layout_dim_mask(t, dim);
  int shift = layout_dim_shift(t, dim);
  for (int i = 0; i < layout->warp_bits; i++)
    columns[i] = (layout->basis[layout->reg_bits + layout->lane_bits + i] & mask) >> shift;
  LaneValue *at = lane_2(b, LANE_ADD, LK_S32, tile, lower_linear(l, layout->warp_bits, columns, warp));
  return lane_2(b, LANE_ADD, LK_S32, at, lane_i32(b, (int)((piece & mask) >> shift)));
}

void lower_store_tensor(Lower *l, Op *op) {
  LaneBuilder *b = &l->b;
  const Value *v = op->in[1];
  const Type *t = v->type;
  int inner = (int)op->inner, rank = op->in_count - 2, slot = 0;
  uint32_t column = UINT32_C(1) << layout_dim_shift(t, inner), bits[F2_MAX];
  LowerBox box;
  Way w;
  lower_store_box(l, op, &box);
  find_way(l, op, &box, &w);
  LaneValue **regs = lower_convert_kind(l, lower_get(l, v), w.kind, v->layout, box.layout), *to[GPU_MAP_MOST_RANK];
  /* one number for all of a warp, for the assembler to see */
  LaneValue *warp = lane_shfl(b, SHUFFLE_IDX, l->warp, lane_i32(b, 0));
  LaneValue *begin = lane_2(b, LANE_ADD, LK_S32, lane_shared(b, w.buffer),
                            lane_2(b, LANE_MUL, LK_S32, warp, lane_i32(b, w.bytes * SLOTS)));
  int pieces = 0;
  for (int i = 0; i < box.layout->reg_bits; i++)
    if (!(box.layout->basis[i] & box.in)) bits[pieces++] = box.layout->basis[i];
  for (int p = 0; p < 1 << pieces; p++, slot = (slot + 1) % SLOTS) {
    uint32_t piece = 0;
    for (int i = 0; i < pieces; i++) piece |= p >> i & 1 ? bits[i] : 0;
    int64_t imm = (int64_t)slot * w.bytes;
    LaneOp *branch = one_lane(l);
    wait_for_boxes(l, SLOTS - 1);
    leave(l, branch);
    lane_barrier(b, true);
    write_box(l, &w, regs, piece, begin, column, imm);
    lane_simple(b, LANE_FENCE_PROXY, 0, -1);
    lane_barrier(b, true);
    branch = one_lane(l);
    for (int i = 0; i < rank; i++) {
      to[i] = lower_get(l, op->in[2 + i])[0];
      if (i < 2) to[i] = begin_of(l, t, box.layout, i ? !inner : inner, piece, warp, to[i]);
    }
    lane_tensor(b, LANE_TENSOR_STORE, rank, begin, imm, w.buffer, NULL, lower_get(l, op->in[0])[0], to);
    lane_op_raw(b, (LaneOp){.code = LANE_BULK_COMMIT, .buffer = -1}, 0, NULL, 0, NULL);
    leave(l, branch);
  }
  l->stores_boxes = true;
}

/* Before a block ends, the engine has read what it stores. */
void lower_store_tensor_close(Lower *l) {
  if (!l->stores_boxes) return;
  LaneOp *branch = one_lane(l);
  wait_for_boxes(l, 0);
  leave(l, branch);
}
